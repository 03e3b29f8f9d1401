def kernel(args, lo, hi):
    # concatenate: float64, 1-d
    n0 = integer(args, 0)
    x0 = buffer(args, 1, float64)
    x1 = buffer(args, 2, float64)
    b3 = integer(args, 3)
    x2 = buffer(args, 4, float64)
    x3 = buffer(args, 5, float64)
    c6 = integer(args, 6)
    v1 = x2[0]
    for i0 in range(lo, min(hi, b3)):
        v0 = x0[i0]
        x1[i0] = v0
    for i0 in range(max(lo, b3), hi):
        v2 = x3[i0 + c6]
        v3 = v1 * v2
        x1[i0] = v3
