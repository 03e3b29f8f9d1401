def kernel(args, lo, hi):
    # argmax: int64, 1-d
    n0 = integer(args, 0)
    n1 = integer(args, 1)
    x0 = buffer(args, 2, float64)
    s3 = integer(args, 3)
    x1 = buffer(args, 4, int64)
    for task in range(lo, hi):
        i0 = task
        a0 = float64(-inf)
        a1 = int64(0)
        for i1 in range(0, n1):
            v0 = x0[i0 * s3 + i1]
            v1 = int64(i1)
            better_a1 = (v1 == 0) | ((v0 > a0) | ((v0 != v0) & (a0 == a0)))
            a1 = select(better_a1, v1, a1)
            a0 = select(better_a1, v0, a0)
        x1[i0] = a1
