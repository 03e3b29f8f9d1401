# matmul: float64
def kernel(args, lo, hi):
    words = pointer(args, int64)
    few_points()
    m = words[4]
    n = words[5]
    k = words[6]
    place = stack_words(16)
    numbers = pointer(place, int64)
    letters = pointer(place, uint8)
    scalars = pointer(place, float64)
    for number in range(16):
        numbers[number] = 0
    letters[0] = 78 + 6 * (words[13] == 1) - 11 * (words[13] == 2)  # N, T or C
    letters[8] = 78 + 6 * (words[14] == 1) - 11 * (words[14] == 2)
    numbers[5] = max(words[15], 1)
    numbers[6] = max(words[16], 1)
    numbers[7] = max(n, 1)
    scalars[8] = 1.0
    scalars[10] = float64(words[17])
    for task in range(lo, hi):
        tile = quotient(task, words[10])
        column = (task - tile * words[10]) * words[9]
        number = quotient(tile, words[8])
        row = (tile - number * words[8]) * words[7]
        part = quotient(number, words[12])
        first = part * words[11]
        x_start = 0
        y_start = 0
        rest = number - part * words[12]
        for axis in range(words[18] - 1, -1, -1):
            axis = opaque(axis)
            size = words[18 + 1 + 3 * axis]
            around = quotient(rest, size)
            along = rest - around * size
            rest = around
            x_start = x_start + along * words[18 + 2 + 3 * axis]
            y_start = y_start + along * words[18 + 3 + 3 * axis]
        if words[13] == 0:
            x_start += row * words[15] + first
        else:
            x_start += first * words[15] + row
        if words[14] == 0:
            y_start += first * words[16] + column
        else:
            y_start += column * words[16] + first
        numbers[2] = min(words[7], m - row)
        numbers[3] = min(words[9], n - column)
        numbers[4] = min(words[11], k - first)
        call(
            words[3], place + 8, place, place + 24, place + 16, place + 32, place + 64,
            words[1] + y_start * 8, place + 48,
            words[0] + x_start * 8, place + 40, place + 80,
            words[2] + ((number * m + row) * n + column) * 8, place + 56, 1, 1,
        )


def kernel(args, lo, hi):
    # tanh: float64, 2-d
    n0 = integer(args, 0)
    n1 = integer(args, 1)
    x0 = buffer(args, 2, float64)
    s3 = integer(args, 3)
    x1 = buffer(args, 4, float64)
    x2 = buffer(args, 5, float64)
    for row in range(quotient(lo, n1), quotient(hi + n1 - 1, n1)):
        i0 = row
        first = max(lo - row * n1, 0)
        last = min(hi - row * n1, n1)
        for i1 in range(first, last):
            v0 = x0[i0 * s3 + i1]
            v1 = x1[i1]
            v2 = v0 + v1
            v3 = tanh(v2)
            x2[i0 * s3 + i1] = v3
