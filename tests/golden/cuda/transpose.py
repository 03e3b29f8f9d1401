@cuda.jit("void(int64, int64, CPointer(float64), int64, CPointer(float64), CPointer(float64), int64)")
def kernel(n0, n1, x0, s3, x1, x2, s6):
    # multiply: float64, 2-d
    n0 = int32(n0)
    n1 = int32(n1)
    s3 = int32(s3)
    s6 = int32(s6)
    v1 = x1[0]
    loaded_v0 = cuda.local.array(2, float64)
    tasks = uint32(n0 * n1)
    step = uint32(2 * cuda.gridDim.x * cuda.blockDim.x)
    first = uint32(cuda.blockIdx.x * 2 * cuda.blockDim.x + cuda.threadIdx.x)
    while first < tasks:
        for turn in range(2):
            task = uint32(first + turn * cuda.blockDim.x)
            own = task if task < tasks else first
            i1 = int32(own % max(uint32(n1), uint32(1)))
            rest1 = uint32(own // max(uint32(n1), uint32(1)))
            i0 = int32(rest1)
            p0 = int32(i1 * s3 + i0)
            loaded_v0[turn] = x0[p0]
        for turn in range(2):
            task = uint32(first + turn * cuda.blockDim.x)
            own = task if task < tasks else first
            i1 = int32(own % max(uint32(n1), uint32(1)))
            rest1 = uint32(own // max(uint32(n1), uint32(1)))
            i0 = int32(rest1)
            v0 = loaded_v0[turn]
            v2 = v0 * v1
            if task < tasks:
                p1 = int32(i0 * s6 + i1)
                x2[p1] = v2
        first = uint32(first + step)
