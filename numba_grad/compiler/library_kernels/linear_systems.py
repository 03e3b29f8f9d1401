"""Linear systems, by LAPACK."""

import math

import numpy as np

from numba_grad.compiler.library_kernels.calls import (
    BLAS_LETTERS,
    Errors,
    LibraryCall,
    LibraryStep,
    Memory,
    Shape,
    Symbol,
    grain_for,
)
from numba_grad.compiler.library_kernels.matrix_stacks import walk_stack, words_of_stack
from numba_grad.runtime.plan import ErrorSite


def solve_call(
    dtype: np.dtype, n: int, columns: int, a_stack: Shape, b_stack: Shape, *, note: str = ""
) -> LibraryCall:
    """The x of a[..., n, n] @ x = b[..., n, columns], stacks broadcast; float or complex.

    Inputs: a, b. One output. A singular matrix is an error at the site.
    """
    stack = np.broadcast_shapes(a_stack, b_stack)
    count = math.prod(stack)
    letter = BLAS_LETTERS[dtype.name]
    # A copy of the matrix, which LAPACK overwrites, of the right side by columns, and the pivots.
    room = (n * n + n * columns) * dtype.itemsize + n * 8
    room = -(-room // 64) * 64
    words = (
        Memory("input", 0),
        Memory("input", 1),
        Memory("output"),
        Memory("scratch"),
        Symbol(f"lapack.{letter}getrf"),
        Symbol(f"lapack.{letter}getrs"),
        *(n, columns, room, count),
        Errors(),
        ErrorSite("singular", "solve", note=note),
        *words_of_stack(stack, a_stack, b_stack, n * n, n * columns),
    )
    products = n * n * (n + columns)
    step = LibraryStep(
        _solve_source(dtype), words, count if n and columns else 0, grain_for(products, 1 << 15)
    )
    return LibraryCall((step,), max(1, count) * room)


def _solve_source(dtype: np.dtype) -> str:
    """LAPACK counts columns first, so what it factorizes is a^T; it then solves with (a^T)^T.

    Words: a, b, out, scratch, getrf, getrs, n, columns, bytes of scratch for each matrix, number
    of matrices, error record, site, then the stack. Task: matrix.
    """
    name = dtype.name
    size = dtype.itemsize
    return f"""\
def kernel(args, lo, hi):
    words = pointer(args, int64)
    n = words[6]
    columns = words[7]
    a = pointer(words[0], {name})
    b = pointer(words[1], {name})
    out = pointer(words[2], {name})
    place = stack_words(4)
    numbers = pointer(place, int64)
    for task in range(lo, hi):
{walk_stack(12, "task")}\
        factors_place = words[3] + task * words[8]
        right_place = factors_place + n * n * {size}
        pivots = right_place + n * columns * {size}
        factors = pointer(factors_place, {name})
        right = pointer(right_place, {name})
        for i in range(n * n):
            factors[i] = a[x_start + i]
        for j in range(columns):
            for i in range(n):
                right[j * n + i] = b[y_start + i * columns + j]
        numbers[0] = n
        numbers[1] = columns
        numbers[2] = 0
        numbers[3] = 84  # T
        call(words[4], place, place, factors_place, place, pivots, place + 16)
        if numbers[2] & 0xFFFFFFFF != 0:
            if atomic_compare_exchange(words[10], 0, 1) == 0:
                record = pointer(words[10], int64)
                record[1] = words[11]
                record[2] = task
                record[3] = words[9]
            continue
        call(words[5], place + 24, place, place + 8, factors_place, place, pivots,
             right_place, place, place + 16, 1)
        start = task * n * columns
        for i in range(n):
            for j in range(columns):
                out[start + i * columns + j] = right[j * n + i]
"""
