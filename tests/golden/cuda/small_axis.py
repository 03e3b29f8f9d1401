@cuda.jit("void(int64, CPointer(float64), CPointer(float64))")
def kernel(n0, x0, x1):
    # sum: float64, 1-d
    n0 = int32(n0)
    tasks = uint32(n0)
    step = uint32(cuda.gridDim.x * cuda.blockDim.x)
    task = uint32(cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x)
    while task < tasks:
        i0 = int32(task)
        p0 = int32(3 * i0)
        v0 = x0[p0]
        v1 = libdevice.dmul_rn(v0, v0)
        v2 = x0[p0 + 1]
        v3 = libdevice.fma(v2, v2, v1)
        v4 = x0[p0 + 2]
        v5 = libdevice.fma(v4, v4, v3)
        x1[i0] = v5
        task = uint32(task + step)
