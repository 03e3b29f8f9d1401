"""Functions of all elements up to each one along an axis: sums, products, extremes, recurrences."""

from typing import TYPE_CHECKING

import numpy as np

from numba_grad.errors import ShapeError, explain
from numba_grad.frontend.functions.indexing import taken_along
from numba_grad.frontend.functions.shapes import along_one_axis
from numba_grad.frontend.inputs.arrays import (
    ArrayLike,
    as_node,
    as_optional_dtype,
    operands,
    wrap,
)
from numba_grad.graph.node import OPS, Node
from numba_grad.graph.types import broadcast_shapes, is_axis_of_number, normalize_axis
from numba_grad.ops.families import broadcast_to, cast, full

if TYPE_CHECKING:
    from numba_grad.frontend.tensors.tensor import Tensor

__all__ = [
    "cummax",
    "cummin",
    "cumprod",
    "cumsum",
    "cumulative_prod",
    "cumulative_sum",
    "linear_recurrence",
    "logcumsumexp",
]


def cumsum(x: ArrayLike, axis: int | None = None, dtype: object = None) -> "Tensor":
    """Sums of all elements up to each one along `axis`, or of the flattened `x` by default."""
    return wrap(_accumulated("cumsum", "cumsum", x, axis, dtype))


def cumprod(x: ArrayLike, axis: int | None = None, dtype: object = None) -> "Tensor":
    """Products of all elements up to each one along `axis`, or of the flattened `x` by default.

    Gradients of every order are exact also where factors are 0: nothing is divided.
    """
    return wrap(_accumulated("cumprod", "cumprod", x, axis, dtype))


def cumulative_sum(
    x: ArrayLike,
    /,
    *,
    axis: int | None = None,
    dtype: object = None,
    include_initial: bool = False,
) -> "Tensor":
    """As `cumsum`, by the array API: `x` of several axes needs an `axis`.

    With `include_initial` the result begins with the sum of nothing, 0.
    """
    number = _only_axis("cumulative_sum", x, axis)
    result = _accumulated("cumulative_sum", "cumsum", x, number, dtype)
    return wrap(_after(0, result, number) if include_initial else result)


def cumulative_prod(
    x: ArrayLike,
    /,
    *,
    axis: int | None = None,
    dtype: object = None,
    include_initial: bool = False,
) -> "Tensor":
    """As `cumprod`, by the array API: `x` of several axes needs an `axis`.

    With `include_initial` the result begins with the product of nothing, 1.
    """
    number = _only_axis("cumulative_prod", x, axis)
    result = _accumulated("cumulative_prod", "cumprod", x, number, dtype)
    return wrap(_after(1, result, number) if include_initial else result)


def cummax(x: ArrayLike, axis: int | None = None) -> "Tensor":
    """The largest of all elements up to each one along `axis`; nan from the first nan on.

    The gradient goes to the last of equals, as in torch. Without `axis`, of the flattened `x`.
    """
    return _extreme_so_far("cummax", "cumargmax", x, axis)


def cummin(x: ArrayLike, axis: int | None = None) -> "Tensor":
    """The smallest of all elements up to each one along `axis`; nan from the first nan on.

    The gradient goes to the last of equals, as in torch. Without `axis`, of the flattened `x`.
    """
    return _extreme_so_far("cummin", "cumargmin", x, axis)


def logcumsumexp(x: ArrayLike, axis: int | None = None) -> "Tensor":
    """log(cumsum(exp(x))) without overflow, also where the terms are far apart.

    Parameters
    ----------
    x : Tensor, any shape, real or complex; integers become float64
    axis : int, optional
        By default, of the flattened `x`.

    Notes
    -----
    Sums are relative to the largest element so far, by real parts, and are scaled again where that
    changes: the error is that of a sum of such terms. -inf adds nothing, and gets the gradient 0;
    inf and nan stay. Of complex numbers, the logarithms with imaginary parts from -pi to pi.

    Examples
    --------
    >>> ng.logcumsumexp(ng.tensor([0.0, 1000.0, -np.inf]))
    tensor([   0., 1000., 1000.])
    """
    node, number = along_one_axis("logcumsumexp", operands(np.exp, (x,))[0], axis)
    if node.shape[number] == 0:
        return wrap(node)
    # The size of exp depends on the real part alone.
    size = OPS["detach"](OPS["real"](node) if node.dtype.kind == "c" else node)
    best = OPS["cumargmax"](size, axis=number)
    largest = taken_along(size, best, number, checked=False)
    zero = full(0, (), size.dtype)
    is_finite = OPS["isfinite"](largest)
    shift = OPS["where"](is_finite, largest, zero)
    # The element before the first one: nothing, as -inf.
    before = _after(-np.inf, _without_last(largest, number), number)
    has_sum = OPS["not_equal"](before, full(-np.inf, (), size.dtype))
    is_scaled = OPS["logical_and"](has_sum, is_finite)
    scale = OPS["exp"](OPS["where"](is_scaled, before - shift, zero))
    factors, shift = (
        cast(part, node.dtype) for part in (OPS["where"](has_sum, scale, zero), shift)
    )
    total = OPS["linear_recurrence"](factors, OPS["exp"](node - shift), axis=number, reverse=False)
    is_empty = OPS["equal"](total, full(0, (), node.dtype))
    logarithm = OPS["log"](OPS["where"](is_empty, full(1, (), node.dtype), total)) + shift
    return wrap(OPS["where"](is_empty, full(-np.inf, (), node.dtype), logarithm))


def linear_recurrence(
    a: ArrayLike, b: ArrayLike, axis: int = -1, *, reverse: bool = False
) -> "Tensor":
    """y[i] = a[i] * y[i - 1] + b[i] along `axis`, from y[0] = b[0].

    Exponential averages, filters of first order, discounted sums.

    Parameters
    ----------
    a, b : Tensor, shapes that broadcast, floating or complex; a[0] is not used
    axis : int
    reverse : bool
        Start at the last element: y[i] = a[i] * y[i + 1] + b[i].

    Examples
    --------
    >>> ng.linear_recurrence(0.5, ng.tensor([1.0, 1.0, 1.0]))
    tensor([1.  , 1.5 , 1.75])
    """
    # The promotion of a division: integers become float64.
    x, y = operands(np.divide, (a, b))
    shape = broadcast_shapes("linear_recurrence", ("a", "b"), (x.type, y.type))
    number = normalize_axis("linear_recurrence", axis, len(shape))
    x, y = broadcast_to(x, shape), broadcast_to(y, shape)
    return wrap(OPS["linear_recurrence"](x, y, axis=number, reverse=bool(reverse)))


def _accumulated(
    operation: str, op_name: str, x: ArrayLike, axis: int | None, dtype: object
) -> Node:
    """A sum or product of everything so far, computed and returned in `dtype`."""
    wanted = as_optional_dtype(dtype)
    node = as_node(x) if wanted is None else cast(as_node(x), wanted)
    node, number = along_one_axis(operation, node, axis)
    params = {"reverse": False} if op_name == "cumsum" else {}
    result = OPS[op_name](node, axis=number, **params)
    return result if wanted is None else cast(result, wanted)


def _only_axis(operation: str, x: ArrayLike, axis: int | None) -> int:
    """`axis`, or the one axis that there is."""
    node = as_node(x)
    if is_axis_of_number(axis, len(node.shape)):
        return 0
    if axis is not None:
        return normalize_axis(operation, axis, len(node.shape))
    if len(node.shape) > 1:
        raise ShapeError(
            explain(
                operation,
                "needs axis= where x has several",
                got={"x": node.type},
                fix=f"{operation}(x, axis=0), or {operation}(x.ravel())",
            )
        )
    return 0


def _after(first: complex, x: Node, axis: int) -> Node:
    """`x` with `first` before its elements along `axis`."""
    start = full(first, tuple([1 if k == axis else n for k, n in enumerate(x.shape)]), x.dtype)
    return OPS["concatenate"](start, x, axis=axis)


def _without_last(x: Node, axis: int) -> Node:
    sizes = tuple([n - (k == axis) for k, n in enumerate(x.shape)])
    return OPS["slice"](x, starts=(0,) * len(sizes), sizes=sizes, steps=(1,) * len(sizes))


def _extreme_so_far(operation: str, op_name: str, x: ArrayLike, axis: int | None) -> "Tensor":
    node, number = along_one_axis(operation, as_node(x), axis)
    best = OPS[op_name](node, axis=number)
    return wrap(taken_along(node, best, number, checked=False))
