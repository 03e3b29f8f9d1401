@cuda.jit("void(int64, int64, CPointer(float64), CPointer(float64), CPointer(float64), CPointer(float64), int64)")
def kernel(n0, n1, x0, x1, x2, x3, s6):
    # add: float64, 2-d
    n0 = int32(n0)
    n1 = int32(n1)
    s6 = int32(s6)
    v2 = x2[0]
    tasks = uint32(n0 * n1)
    step = uint32(cuda.gridDim.x * cuda.blockDim.x)
    task = uint32(cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x)
    while task < tasks:
        i1 = int32(task % max(uint32(n1), uint32(1)))
        rest1 = uint32(task // max(uint32(n1), uint32(1)))
        i0 = int32(rest1)
        v0 = x0[i0]
        v1 = x1[i1]
        v3 = libdevice.fma(v0, v1, v2)
        p0 = int32(i0 * s6 + i1)
        x3[p0] = v3
        task = uint32(task + step)
