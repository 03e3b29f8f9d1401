@cuda.jit("void(int64, CPointer(float64), CPointer(float64), int64, CPointer(float64), int64, int64, int64)")
def kernel(n0, x0, x1, c3, x2, b5, c6, b7):
    # multiply: float64, 1-d
    n0 = int32(n0)
    c3 = int32(c3)
    b5 = int32(b5)
    c6 = int32(c6)
    b7 = int32(b7)
    v0 = x0[0]
    v3 = float64(0.0)
    v6 = float64(2.0)
    tasks = uint32(n0)
    step = uint32(cuda.gridDim.x * cuda.blockDim.x)
    task = uint32(cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x)
    while task < tasks:
        i0 = int32(task)
        if i0 < b5:
            v1 = x1[i0]
            v2 = x1[i0 + c3]
            v4 = v2 + v3
            v5 = libdevice.fma(-v0, v1, v4)
            v7 = libdevice.dmul_rn(v5, v6)
            x2[i0] = v7
        elif i0 < b7:
            v8 = x1[i0]
            v9 = x1[i0 + c3]
            v10 = x1[i0 + c6]
            v11 = v9 + v10
            v12 = libdevice.fma(-v0, v8, v11)
            v13 = libdevice.dmul_rn(v12, v6)
            x2[i0] = v13
        else:
            v14 = x1[i0]
            v15 = x1[i0 + c6]
            v16 = v3 + v15
            v17 = libdevice.fma(-v0, v14, v16)
            v18 = libdevice.dmul_rn(v17, v6)
            x2[i0] = v18
        task = uint32(task + step)


@cuda.jit("void(int64, CPointer(float64), CPointer(float64), int64, CPointer(float64), int64, int64, int64)")
def kernel(n0, x0, x1, c3, x2, b5, c6, b7):
    # add: float64, 1-d
    n0 = int32(n0)
    c3 = int32(c3)
    b5 = int32(b5)
    c6 = int32(c6)
    b7 = int32(b7)
    v2 = x1[0]
    tasks = uint32(n0)
    step = uint32(cuda.gridDim.x * cuda.blockDim.x)
    task = uint32(cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x)
    while task < tasks:
        i0 = int32(task)
        if i0 < b5:
            v0 = x0[i0]
            v1 = -v0
            v3 = x0[i0 + c3]
            v4 = libdevice.fma(v1, v2, v3)
            x2[i0] = v4
        elif i0 < b7:
            v5 = x0[i0]
            v6 = -v5
            v7 = x0[i0 + c3]
            v8 = x0[i0 + c6]
            v9 = v7 + v8
            v10 = libdevice.fma(v6, v2, v9)
            x2[i0] = v10
        else:
            v11 = x0[i0]
            v12 = -v11
            v13 = x0[i0 + c6]
            v14 = libdevice.fma(v12, v2, v13)
            x2[i0] = v14
        task = uint32(task + step)
