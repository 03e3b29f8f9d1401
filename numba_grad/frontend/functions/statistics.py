"""Statistics of NumPy: averages, order statistics, covariances, and those that leave out nan."""

import functools
from typing import TYPE_CHECKING

import numpy as np

from numba_grad.dtypes import FLOAT64, promoted
from numba_grad.errors import ShapeError, explain
from numba_grad.frontend.functions import reductions
from numba_grad.frontend.functions.contractions import diagonal, matmul
from numba_grad.frontend.functions.elementwise import clip, conjugate
from numba_grad.frontend.functions.joining import concatenate
from numba_grad.frontend.functions.reductions import Axis, kept
from numba_grad.frontend.functions.shapes import matrix_transpose
from numba_grad.frontend.inputs.arrays import (
    ArrayLike,
    as_node,
    as_optional_dtype,
    wrap,
)
from numba_grad.frontend.inputs.known_calls import by_types
from numba_grad.graph.node import OPS, Node
from numba_grad.graph.types import normalize_axes
from numba_grad.ops.families import broadcast_to, cast, full, reshape

if TYPE_CHECKING:
    from numba_grad.frontend.tensors.tensor import Tensor

__all__ = ["average", "corrcoef", "cov"]


@by_types(operands=1)
def average(
    x: ArrayLike,
    axis: Axis = None,
    weights: ArrayLike | None = None,
    returned: bool = False,
    *,
    keepdims: bool = False,
) -> "Tensor | tuple[Tensor, Tensor]":
    """The mean over `axis`, weighted; with `returned`, also the sum of weights.

    `weights` has the shape of `x`, or that of its axes `axis`. Where they sum to 0 the result is
    nan or infinite; NumPy raises ZeroDivisionError.
    """
    node = as_node(x)
    if weights is None:
        result = reductions.mean(node, axis, keepdims=keepdims)
        counted = reductions.count(node, axis, "average")
        total = full(counted, result.shape, result.dtype, result.device)
    else:
        weight = _weights_like(node, as_node(weights), axis)
        dtype = promoted(node.dtype, weight.dtype)
        if node.dtype.kind in "bui":
            dtype = promoted(dtype, FLOAT64)
        node, weight = cast(node, dtype), cast(weight, dtype)
        total = reductions.reduced("sum", weight, axis, keepdims, "average")
        weighted = reductions.reduced("sum", node * weight, axis, keepdims, "average")
        result = wrap(OPS["divide"](weighted, total))
    return (result, wrap(total)) if returned else result


def _weights_like(x: Node, weights: Node, axis: Axis) -> Node:
    """`weights`, broadcast to the shape of `x`."""
    if weights.shape == x.shape:
        return weights
    got: dict[str, object] = {"x": x.type, "weights": weights.type, "axis": axis}
    if axis is None:
        problem = "weights of another shape than x need an axis"
        raise TypeError(explain("average", problem, got=got))
    axes = normalize_axes("average", axis, len(x.shape))
    given = axis if isinstance(axis, tuple) else (axis,)
    in_order = [k % len(x.shape) for k in given]
    if weights.shape != tuple([x.shape[k] for k in in_order]):
        problem = "weights have neither the shape of x nor that of its axes"
        raise ShapeError(explain("average", problem, got=got))
    order = tuple(np.argsort(in_order).tolist())
    if order != tuple(range(len(order))):
        weights = OPS["transpose"](weights, axes=order)
    return broadcast_to(kept(weights, x, tuple(set(range(len(x.shape))) - set(axes))), x.shape)


# Covariances


@by_types(operands=1)
def cov(
    m: ArrayLike,
    y: ArrayLike | None = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: ArrayLike | None = None,
    aweights: ArrayLike | None = None,
    *,
    dtype: object = None,
) -> "Tensor":
    """The covariances of the variables that are the rows of `m` (and of `y`), or the columns.

    Divides by n - ddof; `ddof` is 1, or 0 with `bias`. `fweights` are numbers of repetitions,
    `aweights` importances, as in NumPy. Not above zero, the divisor makes nan or infinity.
    """
    observations = _variables(m, rowvar)
    wanted = as_optional_dtype(dtype)
    if y is not None:
        observations = concatenate([observations, _variables(y, rowvar)], axis=0)
    node = observations._node
    computing = promoted(node.dtype, FLOAT64) if wanted is None else wanted
    x = wrap(cast(node, computing))
    if ddof is None:
        ddof = 0 if bias else 1
    count = node.shape[1]
    if fweights is None and aweights is None:
        x = x - reductions.mean(x, 1, keepdims=True)
        product = matmul(x, conjugate(matrix_transpose(x)))
        divisor = float(count - ddof)
        return _squeezed(product / (divisor if divisor > 0 else 0.0))
    given = [_weights_of(w, count) for w in (fweights, aweights) if w is not None]
    weights = functools.reduce(lambda a, b: a * b, given)
    total = weights.sum()
    x = x - (x * weights).sum(axis=1, keepdims=True) / total
    if aweights is None:
        factor = total - ddof
    else:
        factor = total - ddof * (weights * given[-1]).sum() / total
    product = matmul(x * weights, conjugate(matrix_transpose(x)))
    return _squeezed(product / factor)


def _variables(m: ArrayLike, rowvar: bool) -> "Tensor":
    """2-d, a variable in each row."""
    node = as_node(m)
    if len(node.shape) > 2:
        problem = "more than two axes"
        raise ShapeError(explain("cov", problem, got={"m": node.type}, expected="1-d or 2-d"))
    if len(node.shape) < 2:
        return wrap(reshape(node, (1, node.type.size)))
    return wrap(node) if rowvar else matrix_transpose(wrap(node))


def _weights_of(weights: ArrayLike, count: int) -> "Tensor":
    node = as_node(weights)
    if node.shape != (count,):
        problem = "one weight for each observation"
        got: dict[str, object] = {"weights": node.type, "observations": count}
        raise ShapeError(explain("cov", problem, got=got))
    return wrap(cast(node, promoted(node.dtype, FLOAT64)))


def _squeezed(x: "Tensor") -> "Tensor":
    return wrap(reshape(x._node, tuple([n for n in x.shape if n != 1])))


@by_types(operands=1)
def corrcoef(
    x: ArrayLike, y: ArrayLike | None = None, rowvar: bool = True, *, dtype: object = None
) -> "Tensor":
    """The correlations of the variables that are the rows of `x` (and of `y`), or the columns.

    nan for a variable that does not vary.
    """
    covariances = cov(x, y, rowvar, dtype=dtype)
    if not covariances.shape:
        return covariances / covariances
    deviations = reductions.root_with_gradient_0_at_0(
        OPS["real"](diagonal(covariances)._node)
        if covariances.dtype.kind == "c"
        else diagonal(covariances)._node
    )
    size = deviations.type.size
    column = wrap(reshape(deviations, (size, 1)))
    row = wrap(reshape(deviations, (1, size)))
    result = covariances / column / row
    if result.dtype.kind == "c":
        node = result._node
        parts = [clip(wrap(OPS[part](node)), -1, 1)._node for part in ("real", "imag")]
        return wrap(OPS["make_complex"](*parts))
    return clip(result, -1, 1)
