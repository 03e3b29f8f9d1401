"""Matrices of at most four rows, written out: a call of LAPACK takes longer than all it computes.

Each function gives kernel source without loops or branches. Element i, j of a matrix `m` is the
variable `m_i_j`. Rows are exchanged by selections, as the branches could not be predicted.
"""

import itertools
from collections.abc import Iterator

import numpy as np

from numba_grad.compiler.library_kernels.lapack import conjugate

LARGEST = 4


def is_small(n: int, columns: int = 1) -> bool:
    """Whether systems of n rows with so many right sides are written out."""
    return 0 < n <= LARGEST and 0 < columns <= LARGEST


def loaded(name: str, rows: int, columns: int, source: str, start: str, *, dtype: str = "") -> str:
    """The elements of a matrix of pointer `source`, stored row by row from `start` on."""
    return _lines(
        f"{name}_{i}_{j} = {dtype}({source}[{start} + {i * columns + j}])"
        for i, j in itertools.product(range(rows), range(columns))
    )


def stored(name: str, rows: int, columns: int, target: str, start: str) -> str:
    return _lines(
        f"{target}[{start} + {i * columns + j}] = {name}_{i}_{j}"
        for i, j in itertools.product(range(rows), range(columns))
    )


def identity(name: str, n: int, dtype: np.dtype) -> str:
    return _lines(
        f"{name}_{i}_{j} = {dtype.name}({int(i == j)})"
        for i, j in itertools.product(range(n), repeat=2)
    )


def eliminated(name: str, n: int, dtype: np.dtype, *, right: str = "", columns: int = 0) -> str:
    """Gauss's elimination, with LAPACK's choice of pivots: the first of the largest in a column.

    Leaves the upper triangle in `name`, the right sides as they are then in `right`, and in
    `parity` 1.0 or -1.0, by the number of exchanges. A nan counts as the largest, so that it is not
    lost. A column of zeros is left alone.
    """
    return _lines(_elimination(name, n, dtype, right, columns))


def _elimination(name: str, n: int, dtype: np.dtype, right: str, columns: int) -> Iterator[str]:
    yield "parity = 1.0"
    for k in range(n):
        row = [f"{name}_{{}}_{j}" for j in range(k, n)]
        row += [f"{right}_{{}}_{j}" for j in range(columns)]
        if k + 1 < n:
            yield f"size = {element_size(f'{name}_{k}_{k}', dtype)}"
        for i in range(k + 1, n):
            yield f"other = {element_size(f'{name}_{i}_{k}', dtype)}"
            yield "is_larger = (other > size) | (other != other)"
            yield "size = select(is_larger, other, size)"
            yield "parity = select(is_larger, -parity, parity)"
            for element in row:
                upper, lower = element.format(k), element.format(i)
                yield f"kept = {upper}"
                yield f"{upper} = select(is_larger, {lower}, kept)"
                yield f"{lower} = select(is_larger, kept, {lower})"
        if k + 1 < n:
            pivot, one = f"{name}_{k}_{k}", f"{dtype.name}(1)"
            yield f"pivot = select({pivot} == 0, {one}, {pivot})"
        for i in range(k + 1, n):
            yield f"factor = {name}_{i}_{k} / pivot"
            for element in row[1:]:
                yield f"{element.format(i)} -= factor * {element.format(k)}"


def element_size(element: str, dtype: np.dtype) -> str:
    """What LAPACK compares."""
    if dtype.kind == "c":
        return f"absolute({element}.real) + absolute({element}.imag)"
    return f"absolute({element})"


def has_zero_on_diagonal(name: str, n: int) -> str:
    return " | ".join(f"({name}_{k}_{k} == 0)" for k in range(n))


def substituted(
    name: str, n: int, right: str, columns: int, *, lower: bool = False, unit_diagonal: bool = False
) -> str:
    """`right` becomes the solution of the triangular system with the matrix `name`."""
    lines = []
    order = range(n) if lower else range(n - 1, -1, -1)
    for i, c in itertools.product(order, range(columns)):
        known = range(i) if lower else range(n - 1, i, -1)
        lines += [f"{right}_{i}_{c} -= {name}_{i}_{j} * {right}_{j}_{c}" for j in known]
        if not unit_diagonal:
            lines.append(f"{right}_{i}_{c} = {right}_{i}_{c} / {name}_{i}_{i}")
    return _lines(lines)


def cholesky_factor(name: str, n: int, dtype: np.dtype, is_indefinite: str) -> str:
    """The lower triangle of `name` becomes its factor; the other is set to 0."""
    real = ".real" if dtype.kind == "c" else ""
    lines = [f"{is_indefinite} = False"]
    for j in range(n):
        lines.append(f"rest = {name}_{j}_{j}{real}")
        for k in range(j):
            element = f"{name}_{j}_{k}"
            lines.append(f"rest -= ({element} * {conjugate(dtype, element)}){real}")
        # The comparison of LAPACK: nan is let through.
        lines.append(f"{is_indefinite} = {is_indefinite} | (rest <= 0)")
        lines.append(f"root = {dtype.name}(sqrt(rest))")
        lines.append(f"{name}_{j}_{j} = root")
        for i in range(j + 1, n):
            for k in range(j):
                other = conjugate(dtype, f"{name}_{j}_{k}")
                lines.append(f"{name}_{i}_{j} -= {name}_{i}_{k} * {other}")
            lines.append(f"{name}_{i}_{j} = {name}_{i}_{j} / root")
            lines.append(f"{name}_{j}_{i} = {dtype.name}(0)")
    return _lines(lines)


def cofactors(name: str, n: int, result: str) -> str:
    """The derivative of the determinant by each element, as the polynomial that it is."""
    return _lines(
        f"{result}_{i}_{j} = {_minor(name, n, i, j)}"
        for i, j in itertools.product(range(n), repeat=2)
    )


def are_at_most(name: str, n: int, dtype: np.dtype, limit: float) -> str:
    """Whether no element is larger, or nan."""
    elements = [f"{name}_{i}_{j}" for i, j in itertools.product(range(n), repeat=2)]
    return " & ".join(f"({element_size(element, dtype)} <= {limit!r})" for element in elements)


def _minor(name: str, n: int, row: int, column: int) -> str:
    """With its sign, as of a matrix with two rows exchanged where that is negative."""
    rows = [i for i in range(n) if i != row]
    columns = [j for j in range(n) if j != column]
    if (row + column) % 2 == 0:
        return _determinant(name, rows, columns)
    if n == 2:
        return f"-{name}_{rows[0]}_{columns[0]}"
    return _determinant(name, [rows[1], rows[0], *rows[2:]], columns)


def _determinant(name: str, rows: list[int], columns: list[int]) -> str:
    """By the first row (Laplace)."""
    if not rows:
        return "1"
    if len(rows) == 1:
        return f"{name}_{rows[0]}_{columns[0]}"
    terms = []
    for place, j in enumerate(columns):
        others = [c for c in columns if c != j]
        sign = "-" if place % 2 else "+" if place else ""
        terms.append(f"{sign} {name}_{rows[0]}_{j} * {_determinant(name, rows[1:], others)}")
    return f"({' '.join(terms).strip()})"


def _lines(lines: Iterator[str] | list[str]) -> str:
    return "\n".join(lines)
