def kernel(args, lo, hi):
    # multiply: float64, 2-d
    n0 = integer(args, 0)
    x0 = buffer(args, 1, float64)
    x1 = buffer(args, 2, float64)
    for i1 in range(lo, hi):
        v0 = x0[i1]
        v1 = -v0
        v2 = exp(v1)
        v3 = v2 * v0
        x1[i1] = v3
