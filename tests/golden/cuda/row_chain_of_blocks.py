@cuda.jit(device=True)
def member0(row, rows, shared_a0, n0, n1, x0, s3, x1):
    # sum: float32, 1-d
    n0 = int32(n0)
    n1 = int32(n1)
    s3 = int32(s3)
    i0 = int32(uint32(row))
    lane = int32(cuda.threadIdx.x % 32)
    warp = int32(cuda.threadIdx.x // 32)
    a0 = float32(0.0)
    start = int32(0)
    stop = int32(n1)
    for i1 in range(int32(start + cuda.threadIdx.x), stop, int32(256)):
        p0 = int32(i0 * s3 + i1)
        v0 = x0[p0]
        a0 = a0 + v0
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


@cuda.jit(device=True)
def member1(row, rows, shared_a0, n0, n1, x0, s3, x1, x2, x3):
    # sum: float32, 1-d
    n0 = int32(n0)
    n1 = int32(n1)
    s3 = int32(s3)
    v2 = x2[0]
    i0 = int32(uint32(row))
    lane = int32(cuda.threadIdx.x % 32)
    warp = int32(cuda.threadIdx.x // 32)
    a0 = float32(0.0)
    v1 = x1[i0]
    v3 = v1 / v2
    start = int32(0)
    stop = int32(n1)
    for i1 in range(int32(start + cuda.threadIdx.x), stop, int32(256)):
        p0 = int32(i0 * s3 + i1)
        v0 = x0[p0]
        v4 = v0 - v3
        a0 = libdevice.fmaf(v4, v4, a0)
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


@cuda.jit(device=True)
def member2(row, rows, n0, n1, x0, s3, x1, x2, x3, x4):
    # divide: float32, 2-d
    n0 = int32(n0)
    n1 = int32(n1)
    s3 = int32(s3)
    v2 = x2[0]
    v7 = float32(0.0)
    v9 = float32(1.0)
    i0 = int32(uint32(row))
    lane = int32(cuda.threadIdx.x)
    v1 = x1[i0]
    v3 = v1 / v2
    v5 = x3[i0]
    v6 = v5 / v2
    v8 = v6 == v7
    v10 = cuda.selp(v8, v9, v6)
    v11 = libdevice.fsqrt_rn(v10)
    v12 = cuda.selp(v8, v7, v11)
    tasks = uint32(n1)
    step = uint32(256)
    task = uint32(lane)
    while task < tasks:
        i1 = int32(task)
        p0 = int32(i0 * s3 + i1)
        v0 = x0[p0]
        v4 = v0 - v3
        v13 = v4 / v12
        x4[p0] = v13
        task = uint32(task + step)
    cuda.syncthreads()


@cuda.jit("void(int64, int64, int64, CPointer(float32), int64, CPointer(float32), int64, int64, CPointer(float32), int64, CPointer(float32), CPointer(float32), CPointer(float32), int64, int64, CPointer(float32), int64, CPointer(float32), CPointer(float32), CPointer(float32), CPointer(float32))")
def kernel(rows, n0_0, n1_0, x0_0, s3_0, x1_0, n0_1, n1_1, x0_1, s3_1, x1_1, x2_1, x3_1, n0_2, n1_2, x0_2, s3_2, x1_2, x2_2, x3_2, x4_2):
    shared_a0_0 = cuda.shared.array(8, float32)
    shared_a0_1 = cuda.shared.array(8, float32)
    row = int64(cuda.blockIdx.x)
    step = int64(cuda.gridDim.x)
    while row < rows:
        member0(row, rows, shared_a0_0, n0_0, n1_0, x0_0, s3_0, x1_0)
        member1(row, rows, shared_a0_1, n0_1, n1_1, x0_1, s3_1, x1_1, x2_1, x3_1)
        member2(row, rows, n0_2, n1_2, x0_2, s3_2, x1_2, x2_2, x3_2, x4_2)
        row += step
