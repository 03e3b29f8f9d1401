@cuda.jit("void(int64, int64, CPointer(float32), int64, CPointer(float32))", max_registers=64)
def kernel(n0, n1, x0, s3, x1):
    # sum: float32, 1-d
    n0 = int32(n0)
    n1 = int32(n1)
    s3 = int32(s3)
    tasks = uint32(n1)
    step = uint32(cuda.gridDim.x * cuda.blockDim.x)
    task = uint32(cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x)
    while task < tasks:
        i1 = int32(task)
        a0 = float32(0.0)
        start = int32(0)
        stop = int32(n0)
        for i0 in range(start, stop):
            p0 = int32(i0 * s3 + i1)
            v0 = x0[p0]
            a0 = a0 + v0
        x1[i1] = a0
        task = uint32(task + step)
