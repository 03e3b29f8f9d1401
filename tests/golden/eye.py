def kernel(args, lo, hi):
    # add: float64, 2-d
    n0 = integer(args, 0)
    n1 = integer(args, 1)
    x0 = buffer(args, 2, float64)
    s3 = integer(args, 3)
    x1 = buffer(args, 4, int64)
    x2 = buffer(args, 5, float64)
    v5 = x1[0]
    for row in range(quotient(lo, n1), quotient(hi + n1 - 1, n1)):
        i0 = row
        first = max(lo - row * n1, 0)
        last = min(hi - row * n1, n1)
        v3 = int64(i0)
        v4 = cast(v3, int64)
        v6 = int64(v4 + v5)
        for i1 in range(first, last):
            v0 = x0[i0 * s3 + i1]
            v1 = int64(i1)
            v2 = cast(v1, int64)
            v7 = bool_(v2 == v6)
            v8 = cast(v7, float64)
            v9 = v0 + v8
            x2[i0 * s3 + i1] = v9
