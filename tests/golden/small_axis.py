def kernel(args, lo, hi):
    # sum: float64, 1-d
    n0 = integer(args, 0)
    x0 = buffer(args, 1, float64)
    x1 = buffer(args, 2, float64)
    for i0 in range(lo, hi):
        v0 = x0[3 * i0]
        v1 = v0 * v0
        v2 = x0[3 * i0 + 1]
        v3 = v2 * v2 + v1
        v4 = x0[3 * i0 + 2]
        v5 = v4 * v4 + v3
        x1[i0] = v5
