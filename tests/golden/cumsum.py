def kernel(args, lo, hi):
    # multiply: float64, 1-d
    n0 = integer(args, 0)
    x0 = buffer(args, 1, float64)
    x1 = buffer(args, 2, float64)
    for i0 in range(lo, hi):
        v0 = x0[i0]
        v1 = v0 * v0
        x1[i0] = v1


# cumsum: float64
def kernel(args, lo, hi):
    x = buffer(args, 0, float64)
    out = buffer(args, 1, float64)
    n = integer(args, 2)
    inner = integer(args, 3)
    for task in range(lo, hi):
        place = (task // inner * n) * inner + task % inner
        before = float64(x[place])
        out[place] = before
        for i in range(1, n):
            place += inner
            before = before + float64(x[place])
            out[place] = before
