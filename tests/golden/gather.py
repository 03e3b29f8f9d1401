def kernel(args, lo, hi):
    # multiply: float64, 1-d
    n0 = integer(args, 0)
    x0 = buffer(args, 1, int64)
    c2 = integer(args, 2)
    errors3 = integer(args, 3)
    site4 = integer(args, 4)
    x1 = buffer(args, 5, float64)
    x2 = buffer(args, 6, float64)
    x3 = buffer(args, 7, float64)
    v1 = int64(c2)
    v4 = x2[0]
    for i0 in range(lo, hi):
        v0 = x0[i0]
        v2 = check_index(v0, v1, errors3, site4)
        v3 = x1[v2]
        v5 = v3 * v4
        x3[i0] = v5
