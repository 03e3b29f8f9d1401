@cuda.jit(device=True)
def check_index(index, size, errors, site):
    wrapped = cuda.selp(index < int64(0), index + size, index)
    is_valid = (wrapped >= int64(0)) & (wrapped < size)
    if not is_valid:
        if compare_and_swap(errors, int64(0), int64(1)) == int64(0):
            errors[1] = site
            errors[2] = index
            errors[3] = size
    return cuda.selp(is_valid, wrapped, int64(0))


@cuda.jit("void(int64, CPointer(int64), int64, CPointer(int64), int64, CPointer(float64), CPointer(float64), CPointer(float64))")
def kernel(n0, x0, c2, errors3, site4, x1, x2, x3):
    # multiply: float64, 1-d
    n0 = int32(n0)
    c2 = int32(c2)
    v1 = c2
    v4 = x2[0]
    tasks = uint32(n0)
    step = uint32(cuda.gridDim.x * cuda.blockDim.x)
    task = uint32(cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x)
    while task < tasks:
        i0 = int32(task)
        v0 = x0[i0]
        v2 = check_index(v0, int64(v1), errors3, site4)
        v3 = x1[v2]
        v5 = libdevice.dmul_rn(v3, v4)
        x3[i0] = v5
        task = uint32(task + step)
