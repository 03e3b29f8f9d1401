@cuda.jit("void(int64, int64, CPointer(float32), int64, CPointer(float32), CPointer(float32), int64)")
def kernel(n0, n1, x0, s3, x1, x2, s6):
    # add: float32, 2-d
    v1 = x1[0]
    loaded_v0 = cuda.local.array(4, float32)
    square_v0 = cuda.shared.array(1056, float32)
    column = int32(cuda.threadIdx.x % 32)
    row = int32(cuda.threadIdx.x // 32)
    wide = int64((n1 + 31) // 32)
    high = int64((n0 + 31) // 32)
    squares = int64(wide * high)
    square = int64(cuda.blockIdx.x)
    while square < squares:
        left = int64(32 * int64(square % max(int64(wide), int64(1))))
        above = int64(square // max(int64(wide), int64(1)))
        top = int64(32 * int64(above % max(int64(high), int64(1))))
        for turn in range(4):
            turn_row = row + turn * 8
            i0 = int64(min(top + column, n0 - 1))
            i1 = int64(min(left + turn_row, n1 - 1))
            loaded_v0[turn] = x0[i1 * s3 + i0]
        for turn in range(4):
            place = int32((row + turn * 8) * 33 + column)
            square_v0[place] = loaded_v0[turn]
        cuda.syncthreads()
        for turn in range(4):
            turn_row = row + turn * 8
            i0 = int64(top + turn_row)
            i1 = int64(left + column)
            if i0 < n0 and i1 < n1:
                v0 = square_v0[column * 33 + turn_row]
                v2 = v0 + v1
                x2[i0 * s6 + i1] = v2
        cuda.syncthreads()
        square = int64(square + cuda.gridDim.x)
