def kernel(args, lo, hi):
    # broadcast_to: float64, 1-d
    # multiply: float64, 1-d
    n0 = integer(args, 0)
    x0 = buffer(args, 1, float64)
    x1 = buffer(args, 2, int64)
    c3 = integer(args, 3)
    errors4 = integer(args, 4)
    site5 = integer(args, 5)
    x2 = buffer(args, 6, float64)
    x3 = buffer(args, 7, float64)
    v0 = float64(0.0)
    v2 = int64(c3)
    v5 = float64(2.0)
    for i0 in range(lo, hi):
        v1 = x1[i0]
        v3 = check_index(v1, v2, errors4, site5)
        v4 = x2[v3]
        v6 = v4 * v5
        x0[i0] = v0
        x3[i0] = v6


# scatter_add: float64
def kernel(args, lo, hi):
    out = buffer(args, 0, float64)
    v = buffer(args, 1, float64)
    rest = 1
    errors = integer(args, 5)
    index0 = buffer(args, 6, int64)
    size0 = integer(args, 7)
    site0 = integer(args, 8)
    for task in range(lo, hi):
        for position in range(integer(args, 2)):
            place = 0
            place = place * size0 + check_index(int64(index0[position]), size0, errors, site0)
            out[place * rest + 0] = out[place * rest + 0] + v[position * rest + 0]
