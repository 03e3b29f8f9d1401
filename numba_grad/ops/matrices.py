"""What the rules of linear algebra are written with: parts of matrices, diagonals, triangles.

All work on stacks: the matrix axes are the last two.
"""

from collections.abc import Callable

import numpy as np

from numba_grad.dtypes import INT64
from numba_grad.errors import DTypeError, ShapeError, explain
from numba_grad.graph.node import OPS, Node, numbers
from numba_grad.graph.types import Type
from numba_grad.ops.contraction import conjugate_transpose, matmul
from numba_grad.ops.elementwise import scaled
from numba_grad.ops.families import broadcast_to, cast, full, real_dtype, reshape


def check_matrices(operation: str, a: Type, *, square: bool = False) -> None:
    """Raise unless these are matrices that LAPACK takes."""
    if a.rank < 2 or (square and a.shape[-1] != a.shape[-2]):
        problem = "not square" if a.rank >= 2 else "not a matrix"
        expected = "(..., n, n)" if square else "(..., m, n)"
        raise np.linalg.LinAlgError(explain(operation, problem, got={"a": a}, expected=expected))
    check_lapack_dtype(operation, {"a": a})


def check_lapack_dtype(operation: str, got: dict[str, Type]) -> None:
    dtypes = {t.dtype for t in got.values()}
    if len(dtypes) > 1 or any(dtype.char not in "fdFD" for dtype in dtypes):
        which = "the same for both" if len(got) > 1 else ""
        raise DTypeError(
            explain(
                operation,
                "not defined for these dtypes" if len(got) > 1 else "not defined for this dtype",
                got=dict(got),
                expected=", ".join(
                    filter(None, ["float32, float64, complex64 or complex128", which])
                ),
                fix="a.astype('float64')",
            )
        )


def check_right_side(operation: str, a: Type, b: Type, error: type[Exception] = ShapeError) -> None:
    """Raise unless `b` has as many rows, and the dtype of `a`."""
    got: dict[str, Type] = {"a": a, "b": b}
    rows = a.shape[-2]
    if b.rank < 2 or b.shape[-2] != rows:
        raise error(
            explain(
                operation,
                "b does not have as many rows as a",
                got=dict(got),
                expected=f"b of shape (..., {rows}, k)",
                fix="b[..., None] for a stack of vectors",
            )
        )
    check_lapack_dtype(operation, got)


def block(x: Node, row: int, rows: int, column: int, columns: int) -> Node:
    """Some rows and columns, from the given ones on."""
    if (row, rows, column, columns) == (0, x.shape[-2], 0, x.shape[-1]):
        return x
    stack = x.shape[:-2]
    return OPS["slice"](
        x,
        starts=(*(0,) * len(stack), row, column),
        sizes=(*stack, rows, columns),
        steps=(1,) * len(x.shape),
    )


def as_column(vector: Node) -> Node:
    return reshape(vector, (*vector.shape, 1))


def as_row(vector: Node) -> Node:
    return reshape(vector, (*vector.shape[:-1], 1, vector.shape[-1]))


def _numbers(m: int, n: int) -> tuple[Node, Node]:
    """The row and the column of each element."""
    rows = reshape(OPS["iota"](size=m, dtype=INT64), (m, 1))
    return rows, reshape(OPS["iota"](size=n, dtype=INT64), (1, n))


def is_diagonal(m: int, n: int) -> Node:
    return OPS["equal"](*_numbers(m, n))


def identity(n: int, dtype: np.dtype) -> Node:
    return cast(is_diagonal(n, n), dtype)


def is_triangle(m: int, n: int, *, lower: bool, strict: bool = False) -> Node:
    """Which elements are on one side of the diagonal, or on it; if `strict`, not on it."""
    comparison = ("greater" if lower else "less") + ("" if strict else "_equal")
    return OPS[comparison](*_numbers(m, n))


def lower_triangle(x: Node, *, strict: bool = False) -> Node:
    """`x` with zeros above the diagonal; if `strict`, on it too."""
    return _where(is_triangle(*x.shape[-2:], lower=True, strict=strict), x)


def upper_triangle(x: Node, *, strict: bool = False) -> Node:
    """`x` with zeros below the diagonal; if `strict`, on it too."""
    return _where(is_triangle(*x.shape[-2:], lower=False, strict=strict), x)


def _where(condition: Node, x: Node) -> Node:
    return OPS["where"](condition, x, full(0, (), x.dtype))


def divided_where(condition: Node, x: Node, y: Node) -> Node:
    """x / y, and 0 where the condition does not hold, also for gradients."""
    one = full(1, (), y.dtype)
    return _where(condition, OPS["divide"](x, cast(OPS["where"](condition, y, one), x.dtype)))


def diagonal_of(x: Node) -> Node:
    """The diagonal as a vector. Nothing else is looked at, so it may be nan."""
    n = min(x.shape[-2:])
    square = block(x, 0, n, 0, n)
    return OPS["sum"](_where(is_diagonal(n, n), square), axes=(len(x.shape) - 1,))


def diagonal_matrix(vector: Node) -> Node:
    n = vector.shape[-1]
    spread = broadcast_to(as_column(vector), (*vector.shape, n))
    return _where(is_diagonal(n, n), spread)


def skew_part(x: Node) -> Node:
    """(x - x^H) / 2."""
    return scaled(x - conjugate_transpose(x), 0.5)


def hermitian_part(x: Node) -> Node:
    """(x + x^H) / 2."""
    return scaled(x + conjugate_transpose(x), 0.5)


def product(*factors: Node) -> Node:
    """The matrix product, from left to right."""
    result = factors[0]
    for factor in factors[1:]:
        result = matmul(result, factor)
    return result


def rounding_of(values: Node, size: int) -> Node:
    """How well magnitudes like `values` (..., 1, k) of a matrix are known: (..., 1, 1)."""
    axis = len(values.shape) - 1
    largest = OPS["max"](OPS["absolute"](values), axes=(axis,))
    return reshape(times_rounding(largest, size), (*values.shape[:-1], 1))


def times_rounding(x: Node, size: int) -> Node:
    """`x` times eps, for each row or column of a matrix. The size is no part of the kernel."""
    dtype = real_dtype(x.dtype)
    return OPS["multiply"](x, numbers(np.asarray(size * np.finfo(dtype).eps, dtype)))


def same_square(operation: str) -> Callable[[Type], Type]:
    """The rule of types of an operation that makes a square matrix of one."""

    def infer(a: Type) -> Type:
        check_matrices(operation, a, square=True)
        return a

    return infer
