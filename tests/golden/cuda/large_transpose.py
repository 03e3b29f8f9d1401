@cuda.jit("void(int64, int64, CPointer(float32), int64, CPointer(float32), CPointer(float32), int64)")
def kernel(n0, n1, x0, s3, x1, x2, s6):
    # add: float32, 2-d
    v1 = x1[0]
    loaded_v0 = cuda.local.array(4, float32)
    tasks = int64(n0 * n1)
    step = int64(4 * cuda.gridDim.x * cuda.blockDim.x)
    first = int64(cuda.blockIdx.x * 4 * cuda.blockDim.x + cuda.threadIdx.x)
    while first < tasks:
        for turn in range(4):
            task = int64(first + turn * cuda.blockDim.x)
            own = task if task < tasks else first
            i1 = int64(own % max(int64(n1), int64(1)))
            rest1 = int64(own // max(int64(n1), int64(1)))
            i0 = int64(rest1)
            loaded_v0[turn] = x0[i1 * s3 + i0]
        for turn in range(4):
            task = int64(first + turn * cuda.blockDim.x)
            own = task if task < tasks else first
            i1 = int64(own % max(int64(n1), int64(1)))
            rest1 = int64(own // max(int64(n1), int64(1)))
            i0 = int64(rest1)
            v0 = loaded_v0[turn]
            v2 = v0 + v1
            if task < tasks:
                x2[i0 * s6 + i1] = v2
        first = int64(first + step)
