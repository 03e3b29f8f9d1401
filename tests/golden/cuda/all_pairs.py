@cuda.jit("void(int64, int64, CPointer(float64), int64, CPointer(float64), int64)", max_registers=64)
def kernel(n0, n1, x0, m3, x1, blocks5):
    # sum: float64, 0-d
    n0 = int32(n0)
    n1 = int32(n1)
    m3 = int32(m3)
    blocks5 = int32(blocks5)
    tasks = uint32(blocks5)
    lane = int32(cuda.threadIdx.x % 32)
    warp = int32(cuda.threadIdx.x // 32)
    shared_a0 = cuda.shared.array(8, float64)
    task = uint32(cuda.blockIdx.x)
    while task < tasks:
        block = int32(task % max(uint32(blocks5), uint32(1)))
        result = uint32(task // max(uint32(blocks5), uint32(1)))
        a0 = float64(0.0)
        for point in range(int32(block * 256 + cuda.threadIdx.x), n0 * n1, int32(blocks5 * 256)):
            i1 = int32(uint32(point) % max(uint32(n1), uint32(1)))
            rest1 = uint32(uint32(point) // max(uint32(n1), uint32(1)))
            i0 = int32(rest1)
            v0 = x0[i0]
            v1 = x0[i1]
            v2 = v0 - v1
            v3 = -v2
            v4 = libdevice.dmul_rn(v3, v2)
            v5 = libdevice.exp(v4)
            a0 = a0 + v5
        distance = 16
        while distance > 0:
            other_a0 = cuda.shfl_down_sync(0xffffffff, a0, distance)
            a0 = a0 + other_a0
            distance >>= 1
        if lane == 0:
            shared_a0[warp] = a0
        cuda.syncthreads()
        if warp == 0:
            place = min(lane, int32(7))
            a0 = shared_a0[place]
            distance = 4
            while distance > 0:
                other_a0 = cuda.shfl_down_sync(0xffffffff, a0, distance)
                a0 = a0 + other_a0
                distance >>= 1
            if lane == 0:
                x1[int32(block * m3)] = a0
        cuda.syncthreads()
        task = uint32(task + cuda.gridDim.x)


@cuda.jit("void(int64, CPointer(float64), int64, CPointer(float64), int64)", max_registers=64)
def kernel(n0, x0, m2, x1, blocks4):
    # sum: float64, 0-d
    n0 = int32(n0)
    m2 = int32(m2)
    blocks4 = int32(blocks4)
    tasks = uint32(blocks4)
    lane = int32(cuda.threadIdx.x % 32)
    warp = int32(cuda.threadIdx.x // 32)
    shared_a0 = cuda.shared.array(8, float64)
    task = uint32(cuda.blockIdx.x)
    while task < tasks:
        block = int32(task % max(uint32(blocks4), uint32(1)))
        result = uint32(task // max(uint32(blocks4), uint32(1)))
        a0 = float64(0.0)
        loaded_v0 = cuda.local.array(4, float64)
        own = uint32(block * 256 + cuda.threadIdx.x)
        end = uint32(n0)
        stride = uint32(blocks4 * 256)
        while own < end:
            for turn in range(4):
                point = uint32(own + turn * stride)
                i0 = int32(min(point, end - uint32(1)))
                loaded_v0[turn] = x0[i0]
            for turn in range(4):
                point = uint32(own + turn * stride)
                if point < end:
                    i0 = int32(point)
                    v0 = loaded_v0[turn]
                    a0 = a0 + v0
            own = uint32(own + 4 * stride)
        distance = 16
        while distance > 0:
            other_a0 = cuda.shfl_down_sync(0xffffffff, a0, distance)
            a0 = a0 + other_a0
            distance >>= 1
        if lane == 0:
            shared_a0[warp] = a0
        cuda.syncthreads()
        if warp == 0:
            place = min(lane, int32(7))
            a0 = shared_a0[place]
            distance = 4
            while distance > 0:
                other_a0 = cuda.shfl_down_sync(0xffffffff, a0, distance)
                a0 = a0 + other_a0
                distance >>= 1
            if lane == 0:
                x1[int32(block * m2)] = a0
        cuda.syncthreads()
        task = uint32(task + cuda.gridDim.x)
