@cuda.jit("void(int64, int64, CPointer(float16), int64, CPointer(float16))")
def kernel(n0, n1, x0, s3, x1):
    # sum: float16, 1-d
    n0 = int32(n0)
    n1 = int32(n1)
    s3 = int32(s3)
    thread = int32(cuda.threadIdx.x)
    column = int32(thread % 32)
    row = int32(thread // 32)
    shared_a0 = cuda.shared.array(256, float32)
    results = max(uint32(n1), uint32(1))
    groups = uint32((results + uint32(31)) // uint32(32))
    group = uint32(cuda.blockIdx.x)
    while group < groups:
        result = uint32(group * uint32(32) + uint32(column))
        a0 = float32(0.0)
        if result < results:
            i1 = int32(result)
            start = int32(0)
            stop = int32(n0)
            for i0 in range(int32(start + row), stop, int32(8)):
                p0 = int32(i0 * s3 + i1)
                v0 = float32(x0[p0])
                v1 = float32(float16(libdevice.fmul_rn(v0, v0)))
                a0 = a0 + v1
        shared_a0[thread] = a0
        cuda.syncthreads()
        half = 4
        while half > 0:
            if row < half:
                other_a0 = shared_a0[thread + half * 32]
                a0 = a0 + other_a0
                shared_a0[thread] = a0
            cuda.syncthreads()
            half >>= 1
        if row == 0 and result < results:
            x1[i1] = float16(a0)
        group = uint32(group + cuda.gridDim.x)
