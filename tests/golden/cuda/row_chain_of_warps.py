@cuda.jit(device=True)
def maximum_float32(x, y):
    return cuda.selp((x >= y) | (x != x), x, y)


@cuda.jit(device=True)
def member0(row, rows, n0, n1, x0, s3, x1, x2):
    # max: float32, 1-d
    n0 = int32(n0)
    n1 = int32(n1)
    s3 = int32(s3)
    v1 = x1[0]
    i0 = int32(uint32(row))
    lane = int32(cuda.threadIdx.x % 32)
    a0 = float32(-inf)
    loaded_v0 = cuda.local.array(8, float32)
    own = uint32(lane)
    end = uint32(n1)
    stride = uint32(32)
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
                v2 = libdevice.fmul_rn(v0, v1)
                a0 = maximum_float32(a0, v2)
        own = uint32(own + 8 * stride)
    distance = 16
    while distance > 0:
        other_a0 = cuda.shfl_down_sync(0xffffffff, a0, distance)
        a0 = maximum_float32(a0, other_a0)
        distance >>= 1
    if lane == 0:
        x2[i0] = a0
    cuda.syncwarp()


@cuda.jit(device=True)
def member1(row, rows, n0, n1, x0, s3, x1, x2, x3):
    # sum: float32, 1-d
    n0 = int32(n0)
    n1 = int32(n1)
    s3 = int32(s3)
    v1 = x1[0]
    i0 = int32(uint32(row))
    lane = int32(cuda.threadIdx.x % 32)
    a0 = float32(0.0)
    v2 = x2[i0]
    loaded_v0 = cuda.local.array(8, float32)
    own = uint32(lane)
    end = uint32(n1)
    stride = uint32(32)
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
                v3 = libdevice.fmaf(v0, v1, -v2)
                v4 = libdevice.expf(v3)
                a0 = a0 + v4
        own = uint32(own + 8 * stride)
    distance = 16
    while distance > 0:
        other_a0 = cuda.shfl_down_sync(0xffffffff, a0, distance)
        a0 = a0 + other_a0
        distance >>= 1
    if lane == 0:
        x3[i0] = a0
    cuda.syncwarp()


@cuda.jit(device=True)
def member2(row, rows, n0, n1, x0, s3, x1, x2, x3, x4):
    # divide: float32, 2-d
    n0 = int32(n0)
    n1 = int32(n1)
    s3 = int32(s3)
    v1 = x1[0]
    i0 = int32(uint32(row))
    lane = int32(cuda.threadIdx.x % 32)
    v2 = x2[i0]
    v5 = x3[i0]
    tasks = uint32(n1)
    step = uint32(32)
    task = uint32(lane)
    while task < tasks:
        i1 = int32(task)
        p0 = int32(i0 * s3 + i1)
        v0 = x0[p0]
        v3 = libdevice.fmaf(v0, v1, -v2)
        v4 = libdevice.expf(v3)
        v6 = v4 / v5
        x4[p0] = v6
        task = uint32(task + step)
    cuda.syncwarp()


@cuda.jit("void(int64, int64, int64, CPointer(float32), int64, CPointer(float32), CPointer(float32), int64, int64, CPointer(float32), int64, CPointer(float32), CPointer(float32), CPointer(float32), int64, int64, CPointer(float32), int64, CPointer(float32), CPointer(float32), CPointer(float32), CPointer(float32))")
def kernel(rows, n0_0, n1_0, x0_0, s3_0, x1_0, x2_0, n0_1, n1_1, x0_1, s3_1, x1_1, x2_1, x3_1, n0_2, n1_2, x0_2, s3_2, x1_2, x2_2, x3_2, x4_2):
    row = int64((cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x) // 32)
    step = int64(cuda.gridDim.x * cuda.blockDim.x // 32)
    while row < rows:
        member0(row, rows, n0_0, n1_0, x0_0, s3_0, x1_0, x2_0)
        member1(row, rows, n0_1, n1_1, x0_1, s3_1, x1_1, x2_1, x3_1)
        member2(row, rows, n0_2, n1_2, x0_2, s3_2, x1_2, x2_2, x3_2, x4_2)
        row += step
