@cuda.jit("void(int64, CPointer(float64), CPointer(float64))")
def kernel(n0, x0, x1):
    # multiply: float64, 2-d
    n0 = int32(n0)
    loaded_v0 = cuda.local.array(2, float64)
    tasks = uint32(n0)
    step = uint32(2 * cuda.gridDim.x * cuda.blockDim.x)
    first = uint32(cuda.blockIdx.x * 2 * cuda.blockDim.x + cuda.threadIdx.x)
    while first < tasks:
        for turn in range(2):
            task = uint32(first + turn * cuda.blockDim.x)
            own = task if task < tasks else first
            i1 = int32(own)
            loaded_v0[turn] = x0[i1]
        for turn in range(2):
            task = uint32(first + turn * cuda.blockDim.x)
            own = task if task < tasks else first
            i1 = int32(own)
            v0 = loaded_v0[turn]
            v1 = -v0
            v2 = libdevice.exp(v1)
            v3 = libdevice.dmul_rn(v2, v0)
            if task < tasks:
                x1[i1] = v3
        first = uint32(first + step)
