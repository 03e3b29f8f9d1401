"""Linear systems with triangular matrices, by BLAS; small ones written out."""

import math

import numpy as np

from numba_grad.compiler.library_kernels.calls import LibraryCall, Memory, Shape
from numba_grad.compiler.library_kernels.lapack import blas, letter, stack_call, stack_starts
from numba_grad.compiler.library_kernels.matrix_operations import of_matrix, of_system
from numba_grad.compiler.library_kernels.registry import BY_MATRIX, lowers
from numba_grad.compiler.library_kernels.small_matrices import (
    has_zero_on_diagonal,
    is_small,
    loaded,
    stored,
    substituted,
)
from numba_grad.runtime.plan import ErrorSite

__all__ = ["solve_triangular_call"]


def solve_triangular_call(
    dtype: np.dtype,
    n: int,
    columns: int,
    a_stack: Shape,
    b_stack: Shape,
    *,
    lower: bool,
    unit_diagonal: bool,
) -> LibraryCall:
    """The x of a[..., n, n] @ x = b[..., n, columns], stacks broadcast; one triangle of a is read.

    Inputs: a, b. One output. A zero on the diagonal is an error at the site.
    """
    stack = np.broadcast_shapes(a_stack, b_stack)
    name = dtype.name
    operands = {
        "a": (Memory("input", 0), name),
        "b": (Memory("input", 1), name),
        "out": (Memory("output"), name),
    }
    sites = {"singular": ErrorSite("singular", "solve_triangular")}
    starts, tail = stack_starts(
        stack, a_stack, b_stack, n * n, n * columns, shows_sizes=is_small(n, columns)
    )
    if is_small(n, columns):
        return stack_call(
            count=math.prod(stack),
            products=n * n * columns,
            operands=operands,
            sites=sites,
            tail=tail,
            body=starts + _small_body(n, columns, lower=lower, unit_diagonal=unit_diagonal),
        )
    # BLAS counts columns first: it sees a^T, and solves x^T a^T = b^T. For one vector there is a
    # routine of its own, which copies no blocks: a third of the time of 300 rows.
    routine = "trsv" if columns == 1 else "trsm"
    return stack_call(
        count=math.prod(stack) if n and columns else 0,
        products=n * n * columns,
        operands=operands,
        words={
            routine: blas(dtype, routine),
            "n": n,
            "columns": columns,
            "right": letter("R"),
            "triangle": letter("U" if lower else "L"),
            "turned": letter("T" if columns == 1 else "N"),
            "diagonal": letter("U" if unit_diagonal else "N"),
            "checks": not unit_diagonal,
        },
        rooms={"one": (1, name)},
        sites=sites,
        tail=tail,
        body=starts + _solve_triangular_body(dtype, columns),
    )


def _solve_triangular_body(dtype: np.dtype, columns: int) -> str:
    size = dtype.itemsize
    of_one = f"""\
call(trsv, triangle_at, turned_at, diagonal_at, n_at, a_at + x_start * {size}, n_at,
     out_at + start * {size}, columns_at, 1, 1, 1)
"""
    of_several = f"""\
one[0] = 1
call(trsm, right_at, triangle_at, turned_at, diagonal_at, columns_at, n_at, one_at,
     a_at + x_start * {size}, n_at, out_at + start * {size}, columns_at, 1, 1, 1, 1)
"""
    return f"""
zeros = 0
if checks:
    for i in range(n):
        if a[x_start + i * (n + 1)] == 0:
            zeros += 1
if zeros > 0:
    fail(singular)
start = matrix * n * columns
for i in range(n * columns):
    out[start + i] = b[y_start + i]
{of_one if columns == 1 else of_several}"""


def _small_body(n: int, columns: int, *, lower: bool, unit_diagonal: bool) -> str:
    check = f"""\
fails(singular, {has_zero_on_diagonal("m", n)})
"""
    return f"""
{loaded("m", n, n, "a", "x_start")}
{"" if unit_diagonal else check}\
{loaded("x", n, columns, "b", "y_start")}
{substituted("m", n, "x", columns, lower=lower, unit_diagonal=unit_diagonal)}
start = matrix * {n * columns}
{stored("x", n, columns, "out", "start")}
"""


lowers(
    "solve_triangular",
    by=solve_triangular_call,
    operations=of_matrix(lambda m, n, k: 0, for_each_right_side=1),
    on_gpus=BY_MATRIX,
)(of_system)
