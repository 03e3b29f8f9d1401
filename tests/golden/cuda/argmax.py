@cuda.jit("void(int64, int64, CPointer(float64), int64, CPointer(int64))")
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
        start = int32(0)
        stop = int32(n1)
        for i1 in range(int32(start + lane), stop, int32(32)):
            p0 = int32(i0 * s3 + i1)
            v0 = x0[p0]
            v1 = i1
            better_a1 = (int64(v1) == int64(0)) | ((v0 > a0) | ((v0 != v0) & (a0 == a0)))
            a1 = cuda.selp(better_a1, int64(v1), a1)
            a0 = cuda.selp(better_a1, v0, a0)
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
