def kernel(args, lo, hi):
    # max: float64, 1-d
    n0 = integer(args, 0)
    n1 = integer(args, 1)
    x0 = buffer(args, 2, float64)
    s3 = integer(args, 3)
    x1 = buffer(args, 4, float64)
    for task in range(lo, hi):
        i0 = task
        a0 = float64(-inf)
        for i1 in range(0, n1):
            v0 = x0[i0 * s3 + i1]
            a0 = reduce_maximum(a0, v0)
        x1[i0] = a0


def kernel(args, lo, hi):
    # sum: float64, 1-d
    n0 = integer(args, 0)
    n1 = integer(args, 1)
    x0 = buffer(args, 2, float64)
    s3 = integer(args, 3)
    x1 = buffer(args, 4, float64)
    x2 = buffer(args, 5, float64)
    for task in range(lo, hi):
        i0 = task
        v1 = x1[i0]
        a0 = float64(0.0)
        for i1 in range(0, n1):
            v0 = x0[i0 * s3 + i1]
            v2 = v0 - v1
            v3 = exp(v2)
            a0 = reduce_add(a0, v3)
        x2[i0] = a0


def kernel(args, lo, hi):
    # divide: float64, 2-d
    n0 = integer(args, 0)
    n1 = integer(args, 1)
    x0 = buffer(args, 2, float64)
    s3 = integer(args, 3)
    x1 = buffer(args, 4, float64)
    x2 = buffer(args, 5, float64)
    x3 = buffer(args, 6, float64)
    for row in range(quotient(lo, n1), quotient(hi + n1 - 1, n1)):
        i0 = row
        first = max(lo - row * n1, 0)
        last = min(hi - row * n1, n1)
        v1 = x1[i0]
        v4 = x2[i0]
        for i1 in range(first, last):
            v0 = x0[i0 * s3 + i1]
            v2 = v0 - v1
            v3 = exp(v2)
            v5 = v3 / v4
            x3[i0 * s3 + i1] = v5
