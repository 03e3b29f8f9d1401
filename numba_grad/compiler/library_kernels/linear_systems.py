"""Linear systems: by LAPACK, of up to 16 rows in loops, of up to four written out."""

import math

import numpy as np

from numba_grad.compiler.library_kernels.calls import LibraryCall, Memory, Shape
from numba_grad.compiler.library_kernels.lapack import (
    FAILED,
    blas,
    conjugate,
    lapack,
    letter,
    stack_call,
    stack_starts,
)
from numba_grad.compiler.library_kernels.matrix_operations import (
    lowers_square_matrices,
    of_matrix,
    of_system,
)
from numba_grad.compiler.library_kernels.registry import BY_MATRIX, lowers
from numba_grad.compiler.library_kernels.small_matrices import (
    element_size,
    eliminated,
    has_zero_on_diagonal,
    identity,
    is_small,
    loaded,
    stored,
    substituted,
)
from numba_grad.ops.linalg import FEWEST_FACTORIZED
from numba_grad.runtime.plan import ErrorSite

__all__ = ["inv_call", "solve_by_factors_call", "solve_call"]

# A copy of the matrix, and an identity, which becomes the inverse.
_BESIDE_IDENTITY = """\
start = matrix * n * n
for i in range(n * n):
    factors[i] = a[start + i]
    out[start + i] = 0
for i in range(n):
    out[start + i * (n + 1)] = 1
"""


def inv_call(dtype: np.dtype, n: int, count: int) -> LibraryCall:
    """The inverse. Input: a. One output. A singular matrix is an error at the site."""
    name = dtype.name
    sites = {"singular": ErrorSite("singular", "inv")}
    if is_small(n):
        return stack_call(
            count=count,
            products=2 * n**3,
            operands={"a": (Memory("input"), name), "out": (Memory("output"), name)},
            sites=sites,
            body=f"""\
start = matrix * {n * n}
{loaded("m", n, n, "a", "start")}
{identity("x", n, dtype)}
{_small_system(dtype, n, n)}
{stored("x", n, n, "out", "start")}
""",
        )
    if 0 < n < FEWEST_FACTORIZED:
        return stack_call(
            count=count,
            products=2 * n**3,
            operands={"a": (Memory("input"), name), "out": (Memory("output"), name)},
            words={"n": n, "columns": n},
            rooms={"factors": (n * n, name)},
            sites=sites,
            body=f"{_BESIDE_IDENTITY}{_system_in_loops(dtype)}",
        )
    return stack_call(
        count=count if n else 0,
        products=2 * n**3,
        operands={"a": (Memory("input"), name), "out": (Memory("output"), name)},
        words={"gesv": lapack(dtype, "gesv"), "n": n},
        rooms={"factors": (n * n, name), "pivots": (n, "int64")},
        sites=sites,
        # LAPACK counts columns first: it sees a^T, whose inverse is the transpose of ours.
        body=f"""\
{_BESIDE_IDENTITY}\
call(gesv, n_at, n_at, factors_at, n_at, pivots_at, out_at + start * {dtype.itemsize}, n_at,
     info_at)
if {FAILED}:
    fail(singular)
""",
    )


def solve_call(
    dtype: np.dtype, n: int, columns: int, a_stack: Shape, b_stack: Shape
) -> LibraryCall:
    """The x of a[..., n, n] @ x = b[..., n, columns], stacks broadcast; float or complex.

    Inputs: a, b. One output. A singular matrix is an error at the site.
    """
    stack = np.broadcast_shapes(a_stack, b_stack)
    name = dtype.name
    operands = {
        "a": (Memory("input", 0), name),
        "b": (Memory("input", 1), name),
        "out": (Memory("output"), name),
    }
    sites = {"singular": ErrorSite("singular", "solve")}
    starts, tail = stack_starts(
        stack, a_stack, b_stack, n * n, n * columns, shows_sizes=is_small(n, columns)
    )
    if is_small(n, columns):
        return stack_call(
            count=math.prod(stack),
            products=n * n * (n + columns),
            operands=operands,
            sites=sites,
            tail=tail,
            body=f"""\
{starts}
{loaded("m", n, n, "a", "x_start")}
{loaded("x", n, columns, "b", "y_start")}
{_small_system(dtype, n, columns)}
start = matrix * {n * columns}
{stored("x", n, columns, "out", "start")}
""",
        )
    if 0 < n < FEWEST_FACTORIZED and columns:
        return stack_call(
            count=math.prod(stack),
            products=n * n * (n + columns),
            operands=operands,
            words={"n": n, "columns": columns},
            rooms={"factors": (n * n, name)},
            sites=sites,
            tail=tail,
            body=f"""\
{starts}
start = matrix * n * columns
for i in range(n * n):
    factors[i] = a[x_start + i]
for i in range(n * columns):
    out[start + i] = b[y_start + i]
{_system_in_loops(dtype)}""",
        )
    return stack_call(
        count=math.prod(stack) if n and columns else 0,
        products=n * n * (n + columns),
        operands=operands,
        words={"gesv": lapack(dtype, "gesv"), "n": n, "columns": columns},
        rooms={"factors": (n * n, name), "right": (n * columns, name), "pivots": (n, "int64")},
        sites=sites,
        tail=tail,
        body=f"""\
{starts}
for i in range(n):
    for j in range(n):
        factors[j * n + i] = a[x_start + i * n + j]
    for j in range(columns):
        right[j * n + i] = b[y_start + i * columns + j]
call(gesv, n_at, columns_at, factors_at, n_at, pivots_at, right_at, n_at, info_at)
if {FAILED}:
    fail(singular)
start = matrix * n * columns
for i in range(n):
    for j in range(columns):
        out[start + i * columns + j] = right[j * n + i]
""",
    )


def solve_by_factors_call(
    dtype: np.dtype, n: int, columns: int, a_stack: Shape, b_stack: Shape, *, adjoint: bool
) -> LibraryCall:
    """The x of a @ x = b, or of a^H @ x = b, by what `lu_call` made of a[..., n, n].

    Inputs: a, which is not read, its factors, b. One output. A singular matrix is an error at the
    site.
    """
    stack = np.broadcast_shapes(a_stack, b_stack)
    name = dtype.name
    starts, tail = stack_starts(stack, a_stack, b_stack, n * (n + 1), n * columns)
    routine = "trsv" if columns == 1 else "trsm"
    return stack_call(
        count=math.prod(stack) if n and columns else 0,
        products=n * n * columns,
        operands={
            "factors": (Memory("input", 1), name),
            "b": (Memory("input", 2), name),
            "out": (Memory("output"), name),
        },
        words={
            routine: blas(dtype, routine),
            "n": n,
            "columns": columns,
            "leading": n + 1,
            "upper": letter("U"),
            "lower": letter("L"),
            "unit": letter("U"),
            "other": letter("N"),
            "as_it_is": letter("N"),
            "transposed": letter("T"),
            "right": letter("R"),
        },
        rooms={"one": (1, name)},
        sites={"singular": ErrorSite("singular", "solve")},
        tail=tail,
        body=f"{starts}\n{_by_factors(dtype, columns, adjoint=adjoint)}",
    )


def _by_factors(dtype: np.dtype, columns: int, *, adjoint: bool) -> str:
    """BLAS counts columns first. Of `factors` it sees L^T above the diagonal, U^T from it on."""
    one_of_both = ("lower", "other"), ("upper", "unit")
    order = one_of_both if adjoint else one_of_both[::-1]
    # A vector is to the right of what is seen, rows of several right sides to the left.
    turned = "as_it_is" if (columns == 1) == adjoint else "transposed"
    if columns == 1:
        calls = [
            f"call(trsv, {triangle}_at, {turned}_at, {diagonal}_at, n_at, factors_at + bytes,\n"
            "     leading_at, out_at + start * ITEM, columns_at, 1, 1, 1)"
            for triangle, diagonal in order
        ]
    else:
        calls = [
            f"call(trsm, right_at, {triangle}_at, {turned}_at, {diagonal}_at, columns_at, n_at,\n"
            "     one_at, factors_at + bytes, leading_at, out_at + start * ITEM, columns_at,\n"
            "     1, 1, 1, 1)"
            for triangle, diagonal in order
        ]
    solved = "\n".join(calls).replace("ITEM", str(dtype.itemsize))
    # a^H x = b as a^T conj(x) = conj(b): BLAS has no product with a conjugate alone.
    is_conjugated = adjoint and dtype.kind == "c"
    given = conjugate(dtype, "b[y_start + i]") if is_conjugated else "b[y_start + i]"
    back = """\
for i in range(n * columns):
    out[start + i] = conjugate(out[start + i])
"""
    exchanged = f"""\
for step in range(n):
    k = {"n - 1 - step" if adjoint else "step"}
    other_row = int64(factors[x_start + k * (n + 1) + n]{".real" if dtype.kind == "c" else ""})
    if other_row != k:
        for j in range(columns):
            kept = out[start + k * columns + j]
            out[start + k * columns + j] = out[start + other_row * columns + j]
            out[start + other_row * columns + j] = kept
"""
    return f"""\
zeros = 0
for i in range(n):
    if factors[x_start + i * (n + 2)] == 0:
        zeros += 1
if zeros > 0:
    fail(singular)
start = matrix * n * columns
for i in range(n * columns):
    out[start + i] = {given}
one[0] = 1
bytes = x_start * {dtype.itemsize}
{"" if adjoint else exchanged}{solved}
{exchanged if adjoint else ""}{back if is_conjugated else ""}"""


def _small_system(dtype: np.dtype, n: int, columns: int) -> str:
    """The matrix m with the right sides x, which become the solutions."""
    return f"""\
{eliminated("m", n, dtype, right="x", columns=columns)}
fails(singular, {has_zero_on_diagonal("m", n)})
{substituted("m", n, "x", columns)}"""


def _system_in_loops(dtype: np.dtype) -> str:
    """The matrix `factors` with the right sides in `out`, which become the solutions.

    As `eliminated`, row by row.
    """
    return f"""\
zeros = 0
for k in range(n):
    place = k
    size = {element_size("factors[k * n + k]", dtype)}
    for i in range(k + 1, n):
        other = {element_size("factors[i * n + k]", dtype)}
        if other > size or other != other:
            size = other
            place = i
    if place != k:
        for j in range(k, n):
            kept = factors[k * n + j]
            factors[k * n + j] = factors[place * n + j]
            factors[place * n + j] = kept
        for j in range(columns):
            kept = out[start + k * columns + j]
            out[start + k * columns + j] = out[start + place * columns + j]
            out[start + place * columns + j] = kept
    pivot = factors[k * n + k]
    if pivot == 0:
        zeros += 1
        pivot = {dtype.name}(1)
    for i in range(k + 1, n):
        factor = factors[i * n + k] / pivot
        for j in range(k + 1, n):
            factors[i * n + j] = factors[i * n + j] - factor * factors[k * n + j]
        for j in range(columns):
            row = start + i * columns
            out[row + j] = out[row + j] - factor * out[start + k * columns + j]
if zeros > 0:
    fail(singular)
for i in range(n - 1, -1, -1):
    row = start + i * columns
    for k in range(i + 1, n):
        factor = factors[i * n + k]
        for j in range(columns):
            out[row + j] = out[row + j] - factor * out[start + k * columns + j]
    pivot = factors[i * n + i]
    for j in range(columns):
        out[row + j] = out[row + j] / pivot
"""


lowers_square_matrices(
    "inv",
    by=inv_call,
    operations=lambda m, n, k: 8 * n**3 // 3,
    on_gpus=BY_MATRIX,
)


lowers(
    "solve",
    by=solve_call,
    operations=of_matrix(lambda m, n, k: 2 * n**3 // 3, for_each_right_side=2),
    on_gpus=BY_MATRIX,
)(of_system)
lowers(
    "solve_by_factors",
    by=solve_by_factors_call,
    operations=of_matrix(lambda m, n, k: 0, for_each_right_side=2),
)(of_system)
