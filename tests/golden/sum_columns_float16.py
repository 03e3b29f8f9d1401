def kernel(args, lo, hi):
    # sum: float16, 1-d
    n0 = integer(args, 0)
    n1 = integer(args, 1)
    x0 = buffer(args, 2, float16)
    s3 = integer(args, 3)
    x1 = buffer(args, 4, float16)
    chunk_a0 = local(512, float32)
    for task in range(lo, hi):
        chunks = quotient(n1 + 511, 512)
        group = quotient(task, chunks)
        first = (task - group * chunks) * 512
        last = min(first + 512, n1)
        for i1 in range(first, last):
            chunk_a0[i1 - first] = float32(0.0)
        for i0 in range(0, n0):
            for i1 in range(first, last):
                v0 = x0[i0 * s3 + i1]
                v1 = float16(v0 * v0)
                a0 = chunk_a0[i1 - first]
                chunk_a0[i1 - first] = reduce_add(a0, v1)
        for i1 in range(first, last):
            x1[i1] = chunk_a0[i1 - first]
