@cuda.jit("void(int64, CPointer(float64), CPointer(float64), CPointer(float64))")
def kernel(n0, x0, x1, x2):
    # where: float64, 1-d
    n0 = int32(n0)
    v1 = x1[0]
    tasks = uint32(n0)
    step = uint32(cuda.gridDim.x * cuda.blockDim.x)
    task = uint32(cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x)
    while task < tasks:
        i0 = int32(task)
        v0 = x0[i0]
        v2 = v0 > v1
        v3 = -v0
        v4 = cuda.selp(v2, v0, v3)
        x2[i0] = v4
        task = uint32(task + step)
