@cuda.jit("void(int64, CPointer(float64), CPointer(float64), CPointer(float64))")
def kernel(n0, x0, x1, x2):
    # add: float64, 1-d
    n0 = int32(n0)
    tasks = uint32(n0)
    step = uint32(cuda.gridDim.x * cuda.blockDim.x)
    task = uint32(cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x)
    while task < tasks:
        i0 = int32(task)
        v0 = x0[i0]
        v1 = libdevice.sin(v0)
        v2 = x1[i0]
        v3 = v0 / v2
        v4 = libdevice.fma(v1, v2, v3)
        x2[i0] = v4
        task = uint32(task + step)
