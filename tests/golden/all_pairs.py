def kernel(args, lo, hi):
    # sum: float64, 0-d
    n0 = integer(args, 0)
    n1 = integer(args, 1)
    x0 = buffer(args, 2, float64)
    m3 = integer(args, 3)
    x1 = buffer(args, 4, float64)
    blocks5 = integer(args, 5)
    for task in range(lo, hi):
        block = task
        a0 = float64(0.0)
        start = quotient(n0 * block, blocks5)
        stop = quotient(n0 * (block + 1), blocks5)
        for i0 in range(start, stop):
            v0 = x0[i0]
            for i1 in range(0, n1):
                v1 = x0[i1]
                v2 = v0 - v1
                v3 = -v2
                v4 = v3 * v2
                v5 = exp(v4)
                a0 = reduce_add(a0, v5)
        x1[block * m3 + 0] = a0


def kernel(args, lo, hi):
    # sum: float64, 0-d
    n0 = integer(args, 0)
    x0 = buffer(args, 1, float64)
    x1 = buffer(args, 2, float64)
    for task in range(lo, hi):
        a0 = float64(0.0)
        for i0 in range(0, n0):
            i0 = opaque(i0)
            v0 = x0[i0]
            a0 = reduce_add(a0, v0)
        x1[0] = a0
