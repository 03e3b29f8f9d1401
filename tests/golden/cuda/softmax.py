@cuda.jit(device=True)
def maximum_float64(x, y):
    return cuda.selp((x >= y) | (x != x), x, y)


@cuda.jit("void(int64, int64, CPointer(float64), int64, CPointer(float64))")
def kernel(n0, n1, x0, s3, x1):
    # max: float64, 1-d
    n0 = int32(n0)
    n1 = int32(n1)
    s3 = int32(s3)
    tasks = uint32(n0)
    lane = int32(cuda.threadIdx.x % 32)
    thread = uint32(cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x)
    step = uint32(cuda.gridDim.x * (cuda.blockDim.x // 32))
    task = uint32(thread // 32)
    while task < tasks:
        i0 = int32(task)
        a0 = float64(-inf)
        loaded_v0 = cuda.local.array(4, float64)
        own = uint32(lane)
        end = uint32(n1)
        stride = uint32(32)
        while own < end:
            for turn in range(4):
                point = uint32(own + turn * stride)
                i1 = int32(min(point, end - uint32(1)))
                p0 = int32(i0 * s3 + i1)
                loaded_v0[turn] = x0[p0]
            for turn in range(4):
                point = uint32(own + turn * stride)
                if point < end:
                    i1 = int32(point)
                    v0 = loaded_v0[turn]
                    a0 = maximum_float64(a0, v0)
            own = uint32(own + 4 * stride)
        distance = 16
        while distance > 0:
            other_a0 = cuda.shfl_down_sync(0xffffffff, a0, distance)
            a0 = maximum_float64(a0, other_a0)
            distance >>= 1
        if lane == 0:
            x1[i0] = a0
        task = uint32(task + step)


@cuda.jit("void(int64, int64, CPointer(float64), int64, CPointer(float64), CPointer(float64))")
def kernel(n0, n1, x0, s3, x1, x2):
    # sum: float64, 1-d
    n0 = int32(n0)
    n1 = int32(n1)
    s3 = int32(s3)
    tasks = uint32(n0)
    lane = int32(cuda.threadIdx.x % 32)
    thread = uint32(cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x)
    step = uint32(cuda.gridDim.x * (cuda.blockDim.x // 32))
    task = uint32(thread // 32)
    while task < tasks:
        i0 = int32(task)
        a0 = float64(0.0)
        v1 = x1[i0]
        loaded_v0 = cuda.local.array(4, float64)
        own = uint32(lane)
        end = uint32(n1)
        stride = uint32(32)
        while own < end:
            for turn in range(4):
                point = uint32(own + turn * stride)
                i1 = int32(min(point, end - uint32(1)))
                p0 = int32(i0 * s3 + i1)
                loaded_v0[turn] = x0[p0]
            for turn in range(4):
                point = uint32(own + turn * stride)
                if point < end:
                    i1 = int32(point)
                    v0 = loaded_v0[turn]
                    v2 = v0 - v1
                    v3 = libdevice.exp(v2)
                    a0 = a0 + v3
            own = uint32(own + 4 * stride)
        distance = 16
        while distance > 0:
            other_a0 = cuda.shfl_down_sync(0xffffffff, a0, distance)
            a0 = a0 + other_a0
            distance >>= 1
        if lane == 0:
            x2[i0] = a0
        task = uint32(task + step)


@cuda.jit("void(int64, int64, CPointer(float64), int64, CPointer(float64), CPointer(float64), CPointer(float64))")
def kernel(n0, n1, x0, s3, x1, x2, x3):
    # divide: float64, 2-d
    n0 = int32(n0)
    n1 = int32(n1)
    s3 = int32(s3)
    tasks = uint32(n0 * n1)
    step = uint32(cuda.gridDim.x * cuda.blockDim.x)
    task = uint32(cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x)
    while task < tasks:
        i1 = int32(task % max(uint32(n1), uint32(1)))
        rest1 = uint32(task // max(uint32(n1), uint32(1)))
        i0 = int32(rest1)
        v1 = x1[i0]
        v4 = x2[i0]
        p0 = int32(i0 * s3 + i1)
        v0 = x0[p0]
        v2 = v0 - v1
        v3 = libdevice.exp(v2)
        v5 = v3 / v4
        x3[p0] = v5
        task = uint32(task + step)
