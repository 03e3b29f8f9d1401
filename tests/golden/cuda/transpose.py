@cuda.jit("void(int64, int64, CPointer(float64), int64, CPointer(float64), CPointer(float64), int64)")
def kernel(n0, n1, x0, s3, x1, x2, s6):
    # multiply: float64, 2-d
    n0 = int32(n0)
    n1 = int32(n1)
    s3 = int32(s3)
    s6 = int32(s6)
    v1 = x1[0]
    loaded_v0 = cuda.local.array(4, float64)
    square_v0 = cuda.shared.array(1056, float64)
    column = int32(cuda.threadIdx.x % 32)
    row = int32(cuda.threadIdx.x // 32)
    wide = uint32((n1 + 31) // 32)
    high = uint32((n0 + 31) // 32)
    squares = uint32(wide * high)
    square = uint32(cuda.blockIdx.x)
    while square < squares:
        left = int32(32 * int32(square % max(uint32(wide), uint32(1))))
        above = uint32(square // max(uint32(wide), uint32(1)))
        top = int32(32 * int32(above % max(uint32(high), uint32(1))))
        for turn in range(4):
            turn_row = row + turn * 8
            i0 = int32(min(top + column, n0 - 1))
            i1 = int32(min(left + turn_row, n1 - 1))
            p0 = int32(i1 * s3 + i0)
            loaded_v0[turn] = x0[p0]
        for turn in range(4):
            place = int32((row + turn * 8) * 33 + column)
            square_v0[place] = loaded_v0[turn]
        cuda.syncthreads()
        for turn in range(4):
            turn_row = row + turn * 8
            i0 = int32(top + turn_row)
            i1 = int32(left + column)
            if i0 < n0 and i1 < n1:
                v0 = square_v0[column * 33 + turn_row]
                v2 = libdevice.dmul_rn(v0, v1)
                p1 = int32(i0 * s6 + i1)
                x2[p1] = v2
        cuda.syncthreads()
        square = uint32(square + cuda.gridDim.x)
