@cuda.jit("void(int64, CPointer(float64), CPointer(float64))")
def kernel(n0, x0, x1):
    # multiply: float64, 2-d
    n0 = int32(n0)
    tasks = uint32(n0)
    step = uint32(cuda.gridDim.x * cuda.blockDim.x)
    task = uint32(cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x)
    while task < tasks:
        i1 = int32(task)
        v0 = x0[i1]
        v1 = -v0
        v2 = libdevice.exp(v1)
        v3 = v2 * v0
        x1[i1] = v3
        task = uint32(task + step)
