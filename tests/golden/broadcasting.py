def kernel(args, lo, hi):
    # add: float64, 2-d
    n0 = integer(args, 0)
    n1 = integer(args, 1)
    x0 = buffer(args, 2, float64)
    x1 = buffer(args, 3, float64)
    x2 = buffer(args, 4, float64)
    x3 = buffer(args, 5, float64)
    s6 = integer(args, 6)
    v2 = x2[0]
    for row in range(quotient(lo, n1), quotient(hi + n1 - 1, n1)):
        i0 = row
        first = max(lo - row * n1, 0)
        last = min(hi - row * n1, n1)
        v0 = x0[i0]
        for i1 in range(first, last):
            v1 = x1[i1]
            v3 = v0 * v1 + v2
            x3[i0 * s6 + i1] = v3
