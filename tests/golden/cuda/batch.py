@cuda.jit("void(int64, CPointer(float32), CPointer(float32), CPointer(float32), CPointer(float32))")
def kernel(n0, x0, x1, x2, x3):
    # subtract: float32, 1-d
    # multiply: float32, 1-d
    n0 = int32(n0)
    loaded_v0 = cuda.local.array(2, float32)
    loaded_v1 = cuda.local.array(2, float32)
    tasks = uint32(n0)
    step = uint32(2 * cuda.gridDim.x * cuda.blockDim.x)
    first = uint32(cuda.blockIdx.x * 2 * cuda.blockDim.x + cuda.threadIdx.x)
    while first < tasks:
        for turn in range(2):
            task = uint32(first + turn * cuda.blockDim.x)
            own = task if task < tasks else first
            i0 = int32(own)
            loaded_v0[turn] = x0[i0]
            loaded_v1[turn] = x1[i0]
        for turn in range(2):
            task = uint32(first + turn * cuda.blockDim.x)
            own = task if task < tasks else first
            i0 = int32(own)
            v0 = loaded_v0[turn]
            v1 = loaded_v1[turn]
            v2 = v0 - v1
            v3 = libdevice.fmul_rn(v0, v1)
            if task < tasks:
                x2[i0] = v2
                x3[i0] = v3
        first = uint32(first + step)
