@cuda.jit("void(int64, int64, CPointer(float64), int64, CPointer(int64), CPointer(float64))")
def kernel(n0, n1, x0, s3, x1, x2):
    # add: float64, 2-d
    n0 = int32(n0)
    n1 = int32(n1)
    s3 = int32(s3)
    v5 = x1[0]
    tasks = uint32(n0 * n1)
    step = uint32(cuda.gridDim.x * cuda.blockDim.x)
    task = uint32(cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x)
    while task < tasks:
        i1 = int32(task % max(uint32(n1), uint32(1)))
        rest1 = uint32(task // max(uint32(n1), uint32(1)))
        i0 = int32(rest1)
        v3 = i0
        v4 = int64(v3)
        v6 = v4 + v5
        p0 = int32(i0 * s3 + i1)
        v0 = x0[p0]
        v1 = i1
        v2 = int64(v1)
        v7 = v2 == v6
        v8 = float64(v7)
        v9 = v0 + v8
        x2[p0] = v9
        task = uint32(task + step)
