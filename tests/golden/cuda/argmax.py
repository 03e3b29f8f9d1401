@cuda.jit("void(int64, int64, CPointer(float64), int64, CPointer(int64))", max_registers=64)
def kernel(n0, n1, x0, s3, x1):
    # argmax: int64, 1-d
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
        a1 = int64(0)
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
                    v1 = i1
                    better_a1 = (int64(v1) == int64(0)) | ((v0 > a0) | ((v0 != v0) & (a0 == a0)))
                    a1 = cuda.selp(better_a1, int64(v1), a1)
                    a0 = cuda.selp(better_a1, v0, a0)
            own = uint32(own + 4 * stride)
        distance = 16
        while distance > 0:
            other_a0 = cuda.shfl_down_sync(0xffffffff, a0, distance)
            other_a1 = cuda.shfl_down_sync(0xffffffff, a1, distance)
            better_a1 = (other_a0 > a0) | ((other_a0 != other_a0) & (a0 == a0)) | (((other_a0 == a0) | ((other_a0 != other_a0) & (a0 != a0))) & (other_a1 < a1))
            a1 = cuda.selp(better_a1, other_a1, a1)
            a0 = cuda.selp(better_a1, other_a0, a0)
            distance >>= 1
        if lane == 0:
            x1[i0] = a1
        task = uint32(task + step)
