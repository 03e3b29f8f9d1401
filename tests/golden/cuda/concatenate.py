@cuda.jit("void(int64, CPointer(float64), CPointer(float64), int64, CPointer(float64), CPointer(float64), int64)")
def kernel(n0, x0, x1, b3, x2, x3, c6):
    # concatenate: float64, 1-d
    n0 = int32(n0)
    b3 = int32(b3)
    c6 = int32(c6)
    v1 = x2[0]
    tasks = uint32(n0)
    step = uint32(cuda.gridDim.x * cuda.blockDim.x)
    task = uint32(cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x)
    while task < tasks:
        i0 = int32(task)
        if i0 < b3:
            v0 = x0[i0]
            x1[i0] = v0
        else:
            v2 = x3[i0 + c6]
            v3 = libdevice.dmul_rn(v1, v2)
            x1[i0] = v3
        task = uint32(task + step)
