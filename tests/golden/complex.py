def kernel(args, lo, hi):
    # add: complex128, 1-d
    n0 = integer(args, 0)
    x0 = buffer(args, 1, complex128)
    x1 = buffer(args, 2, complex128)
    x2 = buffer(args, 3, complex128)
    x3 = buffer(args, 4, complex128)
    v4 = x2[0]
    for i0 in range(lo, hi):
        v0 = x0[i0]
        v1 = x1[i0]
        v2 = conjugate(v1)
        v3 = v0 * v2
        v5 = v3 + v4
        x3[i0] = v5
