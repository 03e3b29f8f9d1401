@cuda.jit("void(int64, int64, CPointer(float32), int64, CPointer(float32), CPointer(float32), int64)")
def kernel(n0, n1, x0, s3, x1, x2, s6):
    # add: float32, 2-d
    v1 = x1[0]
    tasks = uint64(n0 * n1)
    step = uint64(cuda.gridDim.x * cuda.blockDim.x)
    task = uint64(cuda.blockIdx.x) * uint64(cuda.blockDim.x) + uint64(cuda.threadIdx.x)
    while task < tasks:
        i1 = int64(task % max(uint64(n1), uint64(1)))
        rest1 = uint64(task // max(uint64(n1), uint64(1)))
        i0 = int64(rest1)
        v0 = x0[i1 * s3 + i0]
        v2 = v0 + v1
        x2[i0 * s6 + i1] = v2
        task = uint64(task + step)
