def kernel(args, lo, hi):
    # sum: float64, 0-d
    n0 = integer(args, 0)
    x0 = buffer(args, 1, float64)
    m2 = integer(args, 2)
    x1 = buffer(args, 3, float64)
    blocks4 = integer(args, 4)
    for task in range(lo, hi):
        block = task
        a0 = float64(0.0)
        start = quotient(n0 * block, blocks4)
        stop = quotient(n0 * (block + 1), blocks4)
        for i0 in range(start, stop):
            v0 = x0[i0]
            a0 = reduce_add(a0, v0 * v0)
        x1[block * m2 + 0] = a0
