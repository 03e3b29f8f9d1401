def kernel(args, lo, hi):
    # add: int64, 1-d
    n0 = integer(args, 0)
    x0 = buffer(args, 1, int64)
    x1 = buffer(args, 2, int64)
    x2 = buffer(args, 3, int64)
    x3 = buffer(args, 4, int64)
    v2 = x2[0]
    for i0 in range(lo, hi):
        v0 = x0[i0]
        v1 = x1[i0]
        v3 = int64(v1 + v2)
        v4 = int64(floor_divide(v0, v3))
        v5 = int64(v0 & v1)
        v6 = int64(v4 + v5)
        x3[i0] = v6
