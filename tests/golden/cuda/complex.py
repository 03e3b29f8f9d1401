@cuda.jit(device=True)
def conjugate_complex128(x):
    x_real = x.real
    x_imag = x.imag
    return complex(x_real, -x_imag)


@cuda.jit("void(int64, CPointer(complex128), CPointer(complex128), CPointer(complex128), CPointer(complex128))")
def kernel(n0, x0, x1, x2, x3):
    # add: complex128, 1-d
    n0 = int32(n0)
    v4 = x2[0]
    tasks = uint32(n0)
    step = uint32(cuda.gridDim.x * cuda.blockDim.x)
    task = uint32(cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x)
    while task < tasks:
        i0 = int32(task)
        v0 = x0[i0]
        v1 = x1[i0]
        v2 = conjugate_complex128(v1)
        v3 = v0 * v2
        v5 = v3 + v4
        x3[i0] = v5
        task = uint32(task + step)
