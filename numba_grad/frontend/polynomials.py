"""Polynomials by their coefficients, 1-d, that of the highest power first: `numpy.polyval` and its
family."""

import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from numba_grad.dtypes import finfo, is_inexact, promoted
from numba_grad.errors import ShapeError, explain
from numba_grad.frontend.functions.calculus import vander
from numba_grad.frontend.functions.joining import concatenate, unstack
from numba_grad.frontend.functions.reductions import sum as total
from numba_grad.frontend.functions.samples import convolve
from numba_grad.frontend.functions.shapes import part
from numba_grad.frontend.inputs.arrays import (
    ArrayLike,
    as_arrays,
    as_node,
    common_dtype,
    constant_beside,
    operands,
    value_of,
    wrap,
)
from numba_grad.frontend.namespaces import namespace
from numba_grad.graph.node import OPS, Node
from numba_grad.ops.families import cast, flattened, full, reshape

if TYPE_CHECKING:
    from numba_grad.frontend.tensors.tensor import Tensor

__all__ = [
    "poly",
    "polyadd",
    "polyder",
    "polydiv",
    "polyfit",
    "polyint",
    "polymul",
    "polysub",
    "polyval",
    "roots",
]


def polyval(p: ArrayLike, x: ArrayLike) -> "Tensor":
    """The polynomial with coefficients `p`, along its first axis, highest power first, at `x`."""
    coefficients = as_node(p)
    if not coefficients.shape:
        raise ShapeError(explain("polyval", "p has no axis", got={"p": coefficients.type}))
    at = wrap(as_node(x))
    result: Any = at * 0
    for coefficient in unstack(wrap(coefficients)):
        result = result * at + coefficient
    return result


def polyadd(a1: ArrayLike, a2: ArrayLike) -> "Tensor":
    """The sum of two polynomials."""
    x, y = _aligned("polyadd", a1, a2)
    return wrap(OPS["add"](x, y))


def polysub(a1: ArrayLike, a2: ArrayLike) -> "Tensor":
    """The difference of two polynomials."""
    x, y = _aligned("polysub", a1, a2)
    return wrap(OPS["subtract"](x, y))


def polymul(a1: ArrayLike, a2: ArrayLike) -> "Tensor":
    """The product of two polynomials: the convolution of their coefficients.

    Notes
    -----
    Leading zeros stay, so that the number of coefficients is that of the arguments, whatever their
    values. NumPy's drops those of the arguments before; the polynomial is the same.
    """
    x, y = _two("polymul", a1, a2)
    return convolve(x, y)


def polydiv(u: ArrayLike, v: ArrayLike) -> "tuple[Tensor, Tensor]":
    """The quotient and the remainder of two polynomials: u = quotient * v + remainder.

    Parameters
    ----------
    u, v : Tensor, shapes (m,) and (n,), floating or complex; integers become float64

    Returns
    -------
    quotient : Tensor, shape (max(m - n + 1, 1),)
    remainder : Tensor, 1-d
        Without leading coefficients up to 1e-8, as in NumPy: its value is needed now.

    Raises
    ------
    TracingError
        Inside jit and vmap, where there is no value.

    Notes
    -----
    Differentiable by both, where the leading coefficient of v is not 0.
    """
    dividend, divisor = as_arrays((u, v))
    if not is_inexact(dividend.dtype):
        dividend, divisor = (cast(z, np.dtype(np.float64)) for z in (dividend, divisor))
    nodes = {"u": dividend, "v": divisor}
    if any(len(z.shape) > 1 or not z.type.size for z in nodes.values()):
        got: dict[str, object] = {name: z.type for name, z in nodes.items()}
        raise ShapeError(explain("polydiv", "coefficients are 1-d, one or more", got=got))
    rest, divisor = (flattened(z) for z in (dividend, divisor))
    size, extra = rest.shape[0], rest.shape[0] - divisor.shape[0]
    factor = OPS["reciprocal"](part(divisor, 0, 0, 1))
    quotient = []
    for k in range(extra + 1):
        coefficient = OPS["multiply"](factor, part(rest, 0, k, k + 1))
        term = OPS["multiply"](coefficient, divisor)
        rest = rest - OPS["pad"](term, low=(k,), high=(extra - k,), interior=(0,))
        quotient.append(wrap(coefficient))
    is_small = np.isclose(value_of(rest, "polydiv"), 0, rtol=1e-14)
    leading = int(np.append(~is_small[:-1], True).argmax())
    whole = concatenate(quotient) if quotient else wrap(full(0, (1,), rest.dtype))
    return whole, wrap(part(rest, 0, leading, size))


def polyder(p: ArrayLike, m: int = 1) -> "Tensor":
    """The derivative of order `m` of a polynomial, in its variable."""
    node = _coefficients("polyder", p)
    for _ in range(_order("polyder", m)):
        degree = max(node.shape[0] - 1, 0)
        powers = constant_beside(node, np.arange(degree, 0, -1))
        node = OPS["multiply"](*operands(np.multiply, (wrap(part(node, 0, 0, degree)), powers)))
    return wrap(node)


def polyint(p: ArrayLike, m: int = 1, k: ArrayLike | None = None) -> "Tensor":
    """The integral of order `m` of a polynomial, in its variable.

    `k` are the constants of integration, one for all or one for each order, that of the first
    integration first; by default 0.
    """
    node = _coefficients("polyint", p)
    order = _order("polyint", m)
    constants = as_node(0.0 if k is None else k)
    constants = flattened(constants)
    if constants.shape[0] != 1 and constants.shape[0] < order:
        got: dict[str, object] = {"k": constants.type, "m": order}
        raise ShapeError(explain("polyint", "needs one constant, or m of them", got=got))
    for number in range(order):
        powers = constant_beside(node, np.arange(node.shape[0], 0, -1))
        integrated = OPS["divide"](*operands(np.divide, (wrap(node), powers)))
        place = number if constants.shape[0] > 1 else 0
        constant = part(constants, 0, place, place + 1)
        node = concatenate([wrap(integrated), wrap(constant)])._node
    return wrap(node)


def poly(seq_of_zeros: ArrayLike) -> "Tensor":
    """The polynomial that begins with 1 and has these zeros; of a square matrix, its characteristic
    polynomial.

    Of complex zeros the coefficients are complex; NumPy's are real where zeros come in conjugate
    pairs, as those of a real matrix do.
    """
    zeros = as_node(seq_of_zeros)
    are_in_pairs = len(zeros.shape) == 2 and zeros.dtype.kind != "c"
    if len(zeros.shape) == 2:
        zeros = namespace("linalg").eigvals(zeros)._node
    if len(zeros.shape) != 1:
        problem = "takes zeros, 1-d, or a square matrix"
        raise ShapeError(explain("poly", problem, got={"seq_of_zeros": zeros.type}))
    if not is_inexact(zeros.dtype) or zeros.dtype == np.float16:
        zeros = cast(zeros, np.dtype(np.float64))  # as NumPy's: products soon leave halves
    result = wrap(full(1, (1,), zeros.dtype, zeros.type.device))
    for zero in unstack(wrap(zeros)):
        factor = concatenate([wrap(full(1, (1,), zeros.dtype)), -zero.reshape(1)])
        result = convolve(result, factor)
    return result.real if are_in_pairs else result


def roots(p: ArrayLike) -> "Tensor":
    """The zeros of a polynomial, as eigenvalues of its companion matrix: complex.

    Its value is needed now: leading coefficients of 0 do not count. The gradient is for zeros that
    differ.
    """
    node = _coefficients("roots", p)
    nonzero = value_of(node, "roots").nonzero()[0]
    if not len(nonzero):
        return wrap(full(0, (0,), np.dtype(np.float64), node.type.device))
    first, last = int(nonzero[0]), int(nonzero[-1])
    at_zero = node.shape[0] - 1 - last
    degree = last - first
    if not is_inexact(node.dtype):
        node = cast(node, np.dtype(np.float64))
    zeros = wrap(full(0, (at_zero,), promoted(node.dtype, np.complex64), node.type.device))
    if not degree:
        return zeros
    leading = part(node, 0, first, first + 1)
    row = -OPS["divide"](part(node, 0, first + 1, last + 1), leading)
    below = constant_beside(node, np.eye(degree - 1, degree, dtype=node.dtype))
    matrix = OPS["concatenate"](reshape(row, (1, degree)), below, axis=0)
    return concatenate([namespace("linalg").eigvals(matrix), zeros])


def polyfit(
    x: ArrayLike,
    y: ArrayLike,
    deg: int,
    rcond: float | None = None,
    *,
    w: ArrayLike | None = None,
    cov: bool | str = False,
) -> Any:
    """The polynomial of degree `deg` that is nearest to points, by least squares.

    Parameters
    ----------
    x : Tensor, shape (n,)
    y : Tensor, shape (n,) or (n, k)
    deg : int, from 0
    rcond : float, optional
        Singular values of the scaled matrix of powers up to this part of the largest count as 0; by
        default n times the machine precision.
    w : Tensor, shape (n,), optional
        Weights of the differences, which are then squared.
    cov : bool or "unscaled"
        Give the covariances of the coefficients, too: scaled by the squares that are left, or for
        weights 1 / sigma "unscaled".

    Returns
    -------
    Tensor, shape (deg + 1,) or (deg + 1, k)
    covariances : Tensor, shape (deg + 1, deg + 1) or (deg + 1, deg + 1, k), with `cov`

    Notes
    -----
    Differentiable by x, y and w, where the rank does not change.
    """
    places, values = common_dtype((x, y))
    if not is_inexact(places.dtype):
        places, values = (cast(z, np.dtype(np.float64)) for z in (places, values))
    got: dict[str, object] = {"x": places.type, "y": values.type}
    degree = _order("polyfit", deg)
    is_fit = len(places.shape) == 1 and len(values.shape) in (1, 2)
    if not is_fit or places.shape[0] != values.shape[0] or not places.shape[0]:
        expected = "x of shape (n,), y of shape (n,) or (n, k), n > 0"
        raise ShapeError(explain("polyfit", "shapes do not fit", got=got, expected=expected))
    left, right = vander(places, degree + 1), wrap(values)
    if w is not None:
        weights = as_node(w)
        if weights.shape != places.shape:
            problem = "needs a weight for each point"
            raise ShapeError(explain("polyfit", problem, got={**got, "w": weights.type}))
        left = left * wrap(reshape(weights, (*weights.shape, 1)))
        columns = (1,) * (len(values.shape) - 1)
        right = right * wrap(reshape(weights, (*weights.shape, *columns)))
    # Columns of length 1 improve the condition.
    size = total(left * left, 0) ** 0.5
    if rcond is None:
        rcond = places.shape[0] * float(finfo(places.dtype).eps)
    solution = namespace("linalg").lstsq(left / size, right, rcond).solution
    found = solution / (size if len(values.shape) == 1 else size[:, None])
    return (found, _covariances(left, right, size, solution, cov)) if cov else found


def _covariances(
    left: "Tensor", right: "Tensor", size: "Tensor", solution: "Tensor", cov: bool | str
) -> "Tensor":
    """Of the coefficients `solution / size`: `left / size @ solution` is nearest to `right`."""
    count, order = left.shape
    scaled = left / size
    inverse = namespace("linalg").inv(scaled.T @ scaled) / (size[:, None] * size)
    inverse = inverse if len(right.shape) == 1 else inverse[:, :, None]
    if cov == "unscaled":
        return inverse
    if count <= order:
        raise ValueError(
            explain(
                "polyfit",
                "the number of data points must exceed order to scale the covariance matrix",
                got={"points": count, "coefficients": order},
                fix="cov='unscaled'",
            )
        )
    return inverse * (total((right - scaled @ solution) ** 2, 0) / (count - order))


def _coefficients(operation: str, p: ArrayLike) -> Node:
    node = as_node(p)
    if len(node.shape) != 1:
        raise ShapeError(explain(operation, "coefficients are 1-d", got={"p": node.type}))
    return node


def _order(operation: str, m: int) -> int:
    order = operator.index(m)
    if order < 0:
        raise ValueError(explain(operation, "a negative order", got={"m": m}, expected="m >= 0"))
    return order


def _two(operation: str, a1: ArrayLike, a2: ArrayLike) -> tuple[Node, ...]:
    """Coefficients of one dtype. A number is a polynomial of degree 0, and an array as any other:
    a Python float is float64."""
    nodes = as_arrays((a1, a2))
    return tuple([_coefficients(operation, reshape(z, z.shape or (1,))) for z in nodes])


def _aligned(operation: str, a1: ArrayLike, a2: ArrayLike) -> tuple[Node, Node]:
    """Coefficients of one dtype and, by zeros before the highest power, of one length."""
    x, y = _two(operation, a1, a2)
    size = max(x.shape[0], y.shape[0])
    x, y = (OPS["pad"](z, low=(size - z.shape[0],), high=(0,), interior=(0,)) for z in (x, y))
    return x, y
