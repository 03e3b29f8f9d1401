@cuda.jit("void(int64, int64, CPointer(float32), int64, int64, CPointer(float32), int64)", max_registers=64)
def kernel(n0, n1, x0, s3, m4, x1, blocks6):
    # sum: float32, 1-d
    n0 = int32(n0)
    n1 = int32(n1)
    s3 = int32(s3)
    m4 = int32(m4)
    blocks6 = int32(blocks6)
    thread = int32(cuda.threadIdx.x)
    column = int32(thread % 32)
    row = int32(thread // 32)
    shared_a0 = cuda.shared.array(256, float32)
    results = max(uint32(n1), uint32(1))
    groups = uint32((results + uint32(31)) // uint32(32))
    group = uint32(cuda.blockIdx.x)
    while group < groups * uint32(blocks6):
        block = int32(group // groups)
        result = uint32(group % groups * uint32(32) + uint32(column))
        a0 = float32(0.0)
        if result < results:
            i1 = int32(result)
            loaded_v0 = cuda.local.array(8, float32)
            own = uint32(block * 8 + row)
            end = uint32(n0)
            stride = uint32(blocks6 * 8)
            while own < end:
                for turn in range(8):
                    point = uint32(own + turn * stride)
                    i0 = int32(min(point, end - uint32(1)))
                    p0 = int32(i0 * s3 + i1)
                    loaded_v0[turn] = x0[p0]
                for turn in range(8):
                    point = uint32(own + turn * stride)
                    if point < end:
                        i0 = int32(point)
                        v0 = loaded_v0[turn]
                        a0 = a0 + v0
                own = uint32(own + 8 * stride)
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
            x1[int32(block * m4) + i1] = a0
        group = uint32(group + cuda.gridDim.x)


@cuda.jit("void(int64, int64, CPointer(float32), int64, CPointer(float32))", max_registers=64)
def kernel(n0, n1, x0, s3, x1):
    # sum: float32, 1-d
    n0 = int32(n0)
    n1 = int32(n1)
    s3 = int32(s3)
    thread = int32(cuda.threadIdx.x)
    column = int32(thread % 8)
    row = int32(thread // 8)
    shared_a0 = cuda.shared.array(256, float32)
    results = max(uint32(n1), uint32(1))
    groups = uint32((results + uint32(7)) // uint32(8))
    group = uint32(cuda.blockIdx.x)
    while group < groups:
        result = uint32(group * uint32(8) + uint32(column))
        a0 = float32(0.0)
        if result < results:
            i1 = int32(result)
            loaded_v0 = cuda.local.array(8, float32)
            own = uint32(row)
            end = uint32(n0)
            stride = uint32(32)
            while own < end:
                for turn in range(8):
                    point = uint32(own + turn * stride)
                    i0 = int32(min(point, end - uint32(1)))
                    p0 = int32(i0 * s3 + i1)
                    loaded_v0[turn] = x0[p0]
                for turn in range(8):
                    point = uint32(own + turn * stride)
                    if point < end:
                        i0 = int32(point)
                        v0 = loaded_v0[turn]
                        a0 = a0 + v0
                own = uint32(own + 8 * stride)
        shared_a0[thread] = a0
        cuda.syncthreads()
        half = 16
        while half > 0:
            if row < half:
                other_a0 = shared_a0[thread + half * 8]
                a0 = a0 + other_a0
                shared_a0[thread] = a0
            cuda.syncthreads()
            half >>= 1
        if row == 0 and result < results:
            x1[i1] = a0
        group = uint32(group + cuda.gridDim.x)
