def kernel(args, lo, hi):
    # add: float64, 1-d
    n0 = integer(args, 0)
    x0 = buffer(args, 1, float64)
    x1 = buffer(args, 2, float64)
    x2 = buffer(args, 3, float64)
    for i0 in range(lo, hi):
        v0 = x0[i0]
        v1 = sin(v0)
        v2 = x1[i0]
        v3 = v0 / v2
        v4 = v1 * v2 + v3
        x2[i0] = v4
