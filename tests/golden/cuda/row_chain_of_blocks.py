@cuda.jit("void(int64, int64, CPointer(float32), int64, CPointer(float32))", max_registers=64)
def kernel(n0, n1, x0, s3, x1):
    # sum: float32, 1-d
    n0 = int32(n0)
    n1 = int32(n1)
    s3 = int32(s3)
    tasks = uint32(n0)
    lane = int32(cuda.threadIdx.x % 32)
    warp = int32(cuda.threadIdx.x // 32)
    shared_a0 = cuda.shared.array(8, float32)
    task = uint32(cuda.blockIdx.x)
    while task < tasks:
        i0 = int32(task)
        a0 = float32(0.0)
        loaded_v0 = cuda.local.array(8, float32)
        own = uint32(cuda.threadIdx.x)
        end = uint32(n1)
        stride = uint32(256)
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
                    a0 = a0 + v0
            own = uint32(own + 8 * stride)
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
                x1[i0] = a0
        cuda.syncthreads()
        task = uint32(task + cuda.gridDim.x)


@cuda.jit("void(int64, int64, CPointer(float32), int64, CPointer(float32), CPointer(float32), CPointer(float32))", max_registers=64)
def kernel(n0, n1, x0, s3, x1, x2, x3):
    # sum: float32, 1-d
    n0 = int32(n0)
    n1 = int32(n1)
    s3 = int32(s3)
    v2 = x2[0]
    tasks = uint32(n0)
    lane = int32(cuda.threadIdx.x % 32)
    warp = int32(cuda.threadIdx.x // 32)
    shared_a0 = cuda.shared.array(8, float32)
    task = uint32(cuda.blockIdx.x)
    while task < tasks:
        i0 = int32(task)
        a0 = float32(0.0)
        v1 = x1[i0]
        v3 = v1 / v2
        loaded_v0 = cuda.local.array(8, float32)
        own = uint32(cuda.threadIdx.x)
        end = uint32(n1)
        stride = uint32(256)
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
                    v4 = v0 - v3
                    a0 = libdevice.fmaf(v4, v4, a0)
            own = uint32(own + 8 * stride)
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
                x3[i0] = a0
        cuda.syncthreads()
        task = uint32(task + cuda.gridDim.x)


@cuda.jit("void(int64, int64, CPointer(float32), int64, CPointer(float32), CPointer(float32), CPointer(float32), CPointer(float32))")
def kernel(n0, n1, x0, s3, x1, x2, x3, x4):
    # divide: float32, 2-d
    n0 = int32(n0)
    n1 = int32(n1)
    s3 = int32(s3)
    v2 = x2[0]
    v7 = float32(0.0)
    v9 = float32(1.0)
    tasks = uint32(n0 * n1)
    step = uint32(cuda.gridDim.x * cuda.blockDim.x)
    task = uint32(cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x)
    while task < tasks:
        i1 = int32(task % max(uint32(n1), uint32(1)))
        rest1 = uint32(task // max(uint32(n1), uint32(1)))
        i0 = int32(rest1)
        v1 = x1[i0]
        v3 = v1 / v2
        v5 = x3[i0]
        v6 = v5 / v2
        v8 = v6 == v7
        v10 = cuda.selp(v8, v9, v6)
        v11 = libdevice.fsqrt_rn(v10)
        v12 = cuda.selp(v8, v7, v11)
        p0 = int32(i0 * s3 + i1)
        v0 = x0[p0]
        v4 = v0 - v3
        v13 = v4 / v12
        x4[p0] = v13
        task = uint32(task + step)
