@cuda.jit("void(int64, int64, CPointer(float32), int64, CPointer(float32), CPointer(uint8))", max_registers=64)
def kernel(n0, n1, x0, s3, x1, x2):
    # any: bool, 1-d
    n0 = int32(n0)
    n1 = int32(n1)
    s3 = int32(s3)
    v1 = x1[0]
    tasks = uint32(n0)
    lane = int32(cuda.threadIdx.x % 32)
    thread = uint32(cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x)
    step = uint32(cuda.gridDim.x * (cuda.blockDim.x // 32))
    task = uint32(thread // 32)
    while task < tasks:
        i0 = int32(task)
        a0 = False
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
                    v2 = v0 > v1
                    a0 = a0 | v2
            own = uint32(own + 8 * stride)
        distance = 16
        while distance > 0:
            other_a0 = cuda.shfl_down_sync(0xffffffff, int32(a0), distance) != 0
            a0 = a0 | other_a0
            distance >>= 1
        if lane == 0:
            x2[i0] = uint8(a0)
        task = uint32(task + step)
