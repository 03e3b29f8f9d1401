@cuda.jit("void(int64, int64, CPointer(float32), CPointer(float32), CPointer(float32), CPointer(float32))", max_registers=64)
def kernel(n0, n1, x0, x1, x2, x3):
    # sum: float32, 2-d
    n0 = int32(n0)
    n1 = int32(n1)
    v0 = float32(1.0)
    v1 = -v0
    v2 = x0[0]
    v15 = x2[0]
    v23 = float32(3.0)
    v30 = float32(6.0)
    thread = int32(cuda.threadIdx.x)
    column = int32(thread % 32)
    row = int32(thread // 32)
    shared_a0 = cuda.shared.array(256, float32)
    shared_a1 = cuda.shared.array(256, float32)
    shared_a2 = cuda.shared.array(256, float32)
    results = max(uint32(n0), uint32(1))
    groups = uint32((results + uint32(31)) // uint32(32))
    tile_v3 = cuda.shared.array(256, float32)
    tile_v7 = cuda.shared.array(256, float32)
    tile_v11 = cuda.shared.array(256, float32)
    group = uint32(cuda.blockIdx.x)
    while group < groups:
        result = uint32(group * uint32(32) + uint32(column))
        a0 = float32(0.0)
        a1 = float32(0.0)
        a2 = float32(0.0)
        own = uint32(min(result, results - uint32(1)))
        i1 = int32(own)
        p0 = int32(3 * i1)
        v4 = x1[p0]
        v8 = x1[p0 + 1]
        v12 = x1[p0 + 2]
        start = int32(0)
        stop = int32(n1)
        first = start
        while first < stop:
            cuda.syncthreads()
            i0 = int32(first + thread)
            if i0 < stop:
                p1 = int32(3 * i0)
                v3 = x1[p1]
                v7 = x1[p1 + 1]
                v11 = x1[p1 + 2]
                tile_v3[thread] = v3
                tile_v7[thread] = v7
                tile_v11[thread] = v11
            cuda.syncthreads()
            count = int32(min(256, stop - first))
            for place in range(row, count, int32(8)):
                i0 = int32(first + place)
                v3 = tile_v3[place]
                v7 = tile_v7[place]
                v11 = tile_v11[place]
                v5 = v3 - v4
                v6 = libdevice.fmul_rn(v5, v5)
                v9 = v7 - v8
                v10 = libdevice.fmaf(v9, v9, v6)
                v13 = v11 - v12
                v14 = libdevice.fmaf(v13, v13, v10)
                v16 = v14 + v15
                v17 = libdevice.fmul_rn(libdevice.fmul_rn(v16, v16), v16)
                v18 = v2 / v17
                v19 = libdevice.fmul_rn(v18, v18)
                v20 = libdevice.fmul_rn(v1, v19)
                v21 = -v20
                v22 = libdevice.fmul_rn(v16, v16)
                v24 = libdevice.fmul_rn(v22, v23)
                v25 = libdevice.fmul_rn(libdevice.fmul_rn(libdevice.fmul_rn(v16, v16), v16), libdevice.fmul_rn(libdevice.fmul_rn(v16, v16), v16))
                v26 = v2 / v25
                v27 = libdevice.fmul_rn(v26, v26)
                v28 = -v27
                v29 = libdevice.fmul_rn(libdevice.fmul_rn(libdevice.fmul_rn(v16, v16), libdevice.fmul_rn(v16, v16)), v16)
                v31 = libdevice.fmul_rn(v29, v30)
                v32 = libdevice.fmul_rn(v28, v31)
                v33 = libdevice.fmaf(v21, v24, v32)
                v34 = v33 + v33
                v35 = libdevice.fmul_rn(v34, v5)
                v36 = -v35
                v37 = libdevice.fmul_rn(v34, v9)
                v38 = -v37
                v39 = libdevice.fmul_rn(v34, v13)
                v40 = -v39
                a0 = a0 + v36
                a1 = a1 + v38
                a2 = a2 + v40
            first = int32(first + 256)
        shared_a0[thread] = a0
        shared_a1[thread] = a1
        shared_a2[thread] = a2
        cuda.syncthreads()
        half = 4
        while half > 0:
            if row < half:
                other_a0 = shared_a0[thread + half * 32]
                other_a1 = shared_a1[thread + half * 32]
                other_a2 = shared_a2[thread + half * 32]
                a0 = a0 + other_a0
                a1 = a1 + other_a1
                a2 = a2 + other_a2
                shared_a0[thread] = a0
                shared_a1[thread] = a1
                shared_a2[thread] = a2
            cuda.syncthreads()
            half >>= 1
        if row == 0 and result < results:
            x3[p0] = a0
            x3[p0 + 1] = a1
            x3[p0 + 2] = a2
        group = uint32(group + cuda.gridDim.x)


@cuda.jit("void(int64, int64, CPointer(float32), CPointer(float32), CPointer(float32), CPointer(float32))", max_registers=64)
def kernel(n0, n1, x0, x1, x2, x3):
    # sum: float32, 2-d
    n0 = int32(n0)
    n1 = int32(n1)
    v0 = float32(1.0)
    v1 = -v0
    v2 = x0[0]
    v15 = x2[0]
    v23 = float32(3.0)
    v30 = float32(6.0)
    thread = int32(cuda.threadIdx.x)
    column = int32(thread % 32)
    row = int32(thread // 32)
    shared_a0 = cuda.shared.array(256, float32)
    shared_a1 = cuda.shared.array(256, float32)
    shared_a2 = cuda.shared.array(256, float32)
    results = max(uint32(n0), uint32(1))
    groups = uint32((results + uint32(31)) // uint32(32))
    tile_v4 = cuda.shared.array(256, float32)
    tile_v8 = cuda.shared.array(256, float32)
    tile_v12 = cuda.shared.array(256, float32)
    group = uint32(cuda.blockIdx.x)
    while group < groups:
        result = uint32(group * uint32(32) + uint32(column))
        a0 = float32(0.0)
        a1 = float32(0.0)
        a2 = float32(0.0)
        own = uint32(min(result, results - uint32(1)))
        i0 = int32(own)
        p0 = int32(3 * i0)
        v3 = x1[p0]
        v7 = x1[p0 + 1]
        v11 = x1[p0 + 2]
        start = int32(0)
        stop = int32(n1)
        first = start
        while first < stop:
            cuda.syncthreads()
            i1 = int32(first + thread)
            if i1 < stop:
                p1 = int32(3 * i1)
                v4 = x1[p1]
                v8 = x1[p1 + 1]
                v12 = x1[p1 + 2]
                tile_v4[thread] = v4
                tile_v8[thread] = v8
                tile_v12[thread] = v12
            cuda.syncthreads()
            count = int32(min(256, stop - first))
            for place in range(row, count, int32(8)):
                i1 = int32(first + place)
                v4 = tile_v4[place]
                v8 = tile_v8[place]
                v12 = tile_v12[place]
                v5 = v3 - v4
                v6 = libdevice.fmul_rn(v5, v5)
                v9 = v7 - v8
                v10 = libdevice.fmaf(v9, v9, v6)
                v13 = v11 - v12
                v14 = libdevice.fmaf(v13, v13, v10)
                v16 = v14 + v15
                v17 = libdevice.fmul_rn(libdevice.fmul_rn(v16, v16), v16)
                v18 = v2 / v17
                v19 = libdevice.fmul_rn(v18, v18)
                v20 = libdevice.fmul_rn(v1, v19)
                v21 = -v20
                v22 = libdevice.fmul_rn(v16, v16)
                v24 = libdevice.fmul_rn(v22, v23)
                v25 = libdevice.fmul_rn(libdevice.fmul_rn(libdevice.fmul_rn(v16, v16), v16), libdevice.fmul_rn(libdevice.fmul_rn(v16, v16), v16))
                v26 = v2 / v25
                v27 = libdevice.fmul_rn(v26, v26)
                v28 = -v27
                v29 = libdevice.fmul_rn(libdevice.fmul_rn(libdevice.fmul_rn(v16, v16), libdevice.fmul_rn(v16, v16)), v16)
                v31 = libdevice.fmul_rn(v29, v30)
                v32 = libdevice.fmul_rn(v28, v31)
                v33 = libdevice.fmaf(v21, v24, v32)
                v34 = v33 + v33
                a0 = libdevice.fmaf(v34, v5, a0)
                a1 = libdevice.fmaf(v34, v9, a1)
                a2 = libdevice.fmaf(v34, v13, a2)
            first = int32(first + 256)
        shared_a0[thread] = a0
        shared_a1[thread] = a1
        shared_a2[thread] = a2
        cuda.syncthreads()
        half = 4
        while half > 0:
            if row < half:
                other_a0 = shared_a0[thread + half * 32]
                other_a1 = shared_a1[thread + half * 32]
                other_a2 = shared_a2[thread + half * 32]
                a0 = a0 + other_a0
                a1 = a1 + other_a1
                a2 = a2 + other_a2
                shared_a0[thread] = a0
                shared_a1[thread] = a1
                shared_a2[thread] = a2
            cuda.syncthreads()
            half >>= 1
        if row == 0 and result < results:
            x3[p0] = a0
            x3[p0 + 1] = a1
            x3[p0 + 2] = a2
        group = uint32(group + cuda.gridDim.x)


@cuda.jit("void(int64, CPointer(float32), CPointer(float32), CPointer(float32))")
def kernel(n0, x0, x1, x2):
    # add: float32, 2-d
    n0 = int32(n0)
    tasks = uint32(n0)
    step = uint32(cuda.gridDim.x * cuda.blockDim.x)
    task = uint32(cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x)
    while task < tasks:
        i0 = int32(task)
        p0 = int32(3 * i0)
        v0 = x0[p0]
        v1 = x1[p0]
        v2 = v0 + v1
        v3 = x0[p0 + 1]
        v4 = x1[p0 + 1]
        v5 = v3 + v4
        v6 = x0[p0 + 2]
        v7 = x1[p0 + 2]
        v8 = v6 + v7
        x2[p0] = v2
        x2[p0 + 1] = v5
        x2[p0 + 2] = v8
        task = uint32(task + step)
