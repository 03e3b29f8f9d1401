def kernel(args, lo, hi):
    # sum: float64, 1-d
    n0 = integer(args, 0)
    n1 = integer(args, 1)
    x0 = buffer(args, 2, float64)
    s3 = integer(args, 3)
    x1 = buffer(args, 4, float64)
    for task in range(lo, hi):
        chunks = quotient(n1 + 511, 512)
        group = quotient(task, chunks)
        first = (task - group * chunks) * 512
        last = min(first + 512, n1)
        for i1 in range(first, last):
            x1[i1] = float64(0.0)
        for i0 in range(0, n0):
            for i1 in range(first, last):
                v0 = x0[i0 * s3 + i1]
                a0 = x1[i1]
                x1[i1] = reduce_add(a0, v0)
