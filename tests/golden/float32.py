def kernel(args, lo, hi):
    # add: float32, 1-d
    n0 = integer(args, 0)
    x0 = buffer(args, 1, float32)
    x1 = buffer(args, 2, float32)
    x2 = buffer(args, 3, float32)
    x3 = buffer(args, 4, float32)
    v2 = x1[0]
    v3 = x2[0]
    for i0 in range(lo, hi):
        v0 = x0[i0]
        v1 = tanh(v0)
        v4 = v1 * v2 + v3
        x3[i0] = v4
