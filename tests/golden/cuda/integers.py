@cuda.jit(device=True)
def floor_divide_int64(x, y):
    is_zero = y == int64(0)
    result = int64(x // (int64(1) if is_zero else y))
    return int64(0) if is_zero else result


@cuda.jit("void(int64, CPointer(int64), CPointer(int64), CPointer(int64), CPointer(int64))")
def kernel(n0, x0, x1, x2, x3):
    # add: int64, 1-d
    n0 = int32(n0)
    v2 = x2[0]
    tasks = uint32(n0)
    step = uint32(cuda.gridDim.x * cuda.blockDim.x)
    task = uint32(cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x)
    while task < tasks:
        i0 = int32(task)
        v0 = x0[i0]
        v1 = x1[i0]
        v3 = v1 + v2
        v4 = floor_divide_int64(v0, v3)
        v5 = v0 & v1
        v6 = v4 + v5
        x3[i0] = v6
        task = uint32(task + step)
