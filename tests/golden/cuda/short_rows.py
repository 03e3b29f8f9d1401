@cuda.jit(device=True)
def maximum_float32(x, y):
    return cuda.selp((x >= y) | (x != x), x, y)


@cuda.jit("void(int64, int64, CPointer(float32), int64, CPointer(float32))", max_registers=64)
def kernel(n0, n1, x0, s3, x1):
    # max: float32, 1-d
    n0 = int32(n0)
    n1 = int32(n1)
    s3 = int32(s3)
    tasks = uint32(n0)
    lane = int32(cuda.threadIdx.x % 8)
    thread = uint32(cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x)
    step = uint32(cuda.gridDim.x * (cuda.blockDim.x // 8))
    first = uint32(thread // 32 * 4)
    while first < tasks:
        task = uint32(first + thread % 32 // 8)
        a0 = float32(-inf)
        if task < tasks:
            i0 = int32(task)
            loaded_v0 = cuda.local.array(8, float32)
            own = uint32(lane)
            end = uint32(n1)
            stride = uint32(8)
            while own < end:
                for turn in range(8):
                    point = uint32(own + turn * stride)
                    i1 = int32(min(point, end - uint32(1)))
                    p0 = int32(i0 * s3 + i1)
                    loaded_v0[turn] = x0[p0]
                for turn in range(8):
                    point = uint32(own + turn * stride)
                    if point < end:
                        i1 = int32(point)
                        v0 = loaded_v0[turn]
                        a0 = maximum_float32(a0, v0)
                own = uint32(own + 8 * stride)
        distance = 4
        while distance > 0:
            other_a0 = cuda.shfl_down_sync(0xffffffff, a0, distance)
            a0 = maximum_float32(a0, other_a0)
            distance >>= 1
        if lane == 0 and task < tasks:
            x1[i0] = a0
        first = uint32(first + step)
