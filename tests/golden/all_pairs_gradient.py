def kernel(args, lo, hi):
    # sum: float64, 1-d
    n0 = integer(args, 0)
    n1 = integer(args, 1)
    x0 = buffer(args, 2, float64)
    x1 = buffer(args, 3, float64)
    for task in range(lo, hi):
        i0 = task
        v0 = x0[i0]
        a0 = float64(0.0)
        for i1 in range(0, n1):
            v1 = x0[i1]
            v2 = v0 - v1
            v3 = -v2
            v4 = v3 * v2
            v5 = exp(v4)
            v6 = v5 * v2
            v7 = -v6
            v8 = v5 * v3 + v7
            a0 = reduce_add(a0, v8)
        x1[i0] = a0


def kernel(args, lo, hi):
    # add: float64, 1-d
    n0 = integer(args, 0)
    x0 = buffer(args, 1, float64)
    x1 = buffer(args, 2, float64)
    for i0 in range(lo, hi):
        v0 = x0[i0]
        v1 = v0 + v0
        x1[i0] = v1
