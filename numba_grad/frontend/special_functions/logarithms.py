"""Logits, products with logarithms, losses made of these, and sums of exponentials over axes."""

from typing import TYPE_CHECKING

import numpy as np

from numba_grad.dtypes import finfo
from numba_grad.frontend.functions import reductions
from numba_grad.frontend.functions.reductions import Axis
from numba_grad.frontend.inputs.arrays import ArrayLike, wrap
from numba_grad.frontend.special_functions.operands import (
    apply,
    apply_analytic,
    operands,
    real_operands,
)
from numba_grad.graph.node import OPS
from numba_grad.graph.types import normalize_axes
from numba_grad.ops import composed_special
from numba_grad.ops.families import cast, literal, reshape

if TYPE_CHECKING:
    from numba_grad.frontend.tensors.tensor import Tensor


def expit(x: ArrayLike, /) -> "Tensor":
    """1 / (1 + exp(-x)), without overflow. Error below 1.5 ulp."""
    return apply("sigmoid", x)


def logit(p: ArrayLike, /) -> "Tensor":
    """log(p / (1 - p)), accurate next to 1/2; nan outside of 0 to 1. Error below 1.5 ulp."""
    return apply("logit", p)


def log_expit(x: ArrayLike, /) -> "Tensor":
    """log(expit(x)), without underflow. Error below 1.5 ulp."""
    return apply("log_expit", x)


def xlogy(x: ArrayLike, y: ArrayLike, /) -> "Tensor":
    """x log(y), and 0 where x = 0 and y is not nan. Error below 2 ulp.

    Where x = 0 the gradient by x is log(y), but 0 for y <= 0, as in torch.
    """
    return apply_analytic("xlogy", x, y)


def xlog1py(x: ArrayLike, y: ArrayLike, /) -> "Tensor":
    """x log(1 + y), and 0 where x = 0 and y is not nan. Error below 2 ulp.

    Where x = 0 the gradient by x is log(1 + y), but 0 for y <= -1, as in torch.
    """
    return apply_analytic("xlog1py", x, y)


def entr(x: ArrayLike, /) -> "Tensor":
    """-x log(x); 0 at 0, -inf for negative x. Error below 2 ulp. The gradient at 0 is inf."""
    return apply("entr", x)


def rel_entr(x: ArrayLike, y: ArrayLike, /) -> "Tensor":
    """x log(x / y); 0 for x = 0 <= y; inf if one is negative, or y = 0 < x. Error below 2 ulp.

    The gradient by x is -inf for x = 0 < y.
    """
    return apply("rel_entr", x, y)


def kl_div(x: ArrayLike, y: ArrayLike, /) -> "Tensor":
    """x log(x / y) - x + y; y for x = 0 <= y; inf if one is negative, or y = 0 < x.

    Error below 4 ulp where x and y differ by less than a quarter, and 30 elsewhere. The gradient by
    x is -inf for x = 0 < y.
    """
    return apply("kl_div", x, y)


def exprel(x: ArrayLike, /) -> "Tensor":
    """expm1(x) / x, and 1 at 0: accurate next to it, derivatives too."""
    return wrap(composed_special.exprel(*real_operands("exprel", (x,))))


def boxcox(x: ArrayLike, lmbda: ArrayLike, /) -> "Tensor":
    """(x**lmbda - 1) / lmbda, and log(x) for lmbda = 0: accurate next to it, derivatives too."""
    return wrap(composed_special.boxcox(*real_operands("boxcox", (x, lmbda))))


def inv_boxcox(y: ArrayLike, lmbda: ArrayLike, /) -> "Tensor":
    """The x with boxcox(x, lmbda) = y."""
    return wrap(composed_special.inv_boxcox(*real_operands("inv_boxcox", (y, lmbda))))


def huber(delta: ArrayLike, r: ArrayLike, /) -> "Tensor":
    """r**2 / 2 where |r| <= delta, and delta (|r| - delta / 2) beyond; inf for delta < 0."""
    return wrap(composed_special.huber(*real_operands("huber", (delta, r))))


def pseudo_huber(delta: ArrayLike, r: ArrayLike, /) -> "Tensor":
    """delta**2 (sqrt(1 + (r / delta)**2) - 1), accurate for small r; inf for delta < 0."""
    return wrap(composed_special.pseudo_huber(*real_operands("pseudo_huber", (delta, r))))


# Over axes.


def softmax(x: ArrayLike, axis: Axis = None) -> "Tensor":
    """exp(x) / sum(exp(x)) over `axis`, by default over all, without overflow."""
    return reductions.softmax(x, axis)


def log_softmax(x: ArrayLike, axis: Axis = None) -> "Tensor":
    """log(softmax(x)) over `axis`, by default over all, accurate where softmax is tiny."""
    return reductions.log_softmax(x, axis)


def logsumexp(
    a: ArrayLike,
    axis: Axis = None,
    b: ArrayLike | None = None,
    keepdims: bool = False,
    return_sign: bool = False,
) -> "Tensor | tuple[Tensor, Tensor]":
    """The logarithm of the sum of b exp(a) over `axis`, without overflow.

    Parameters
    ----------
    b : weights, broadcast against `a`; may be negative or 0. By default 1.
    return_sign : whether to return the pair (log |sum|, sign of the sum); the sign of a complex sum
        is sum / |sum|

    Notes
    -----
    A negative sum gives nan, unless its sign is asked for. A sum of 0, as of a = -inf alone, gives
    -inf, with gradient 0. The gradient by `a` is b exp(a) / sum, softmax(a) without weights. Of
    complex numbers it is the logarithm with an imaginary part from -pi to pi.
    """
    if b is None and not return_sign:
        return reductions.logsumexp(a, axis, keepdims=keepdims)
    node, weights = operands((a, 1.0 if b is None else b))
    is_left_out = OPS["equal"](weights, literal(0, node.dtype))
    # What has no weight decides nothing, and its power must not overflow.
    counted = OPS["where"](is_left_out, literal(-np.inf, node.dtype), node)
    shift = reductions.finite_maximum(counted, axis, "logsumexp")
    limit = literal(np.floor(np.log(finfo(node.dtype).max)), node.dtype)
    powers = OPS["exp"](OPS["minimum"](node - shift, limit))  # of complex ones, by the real part
    total = reductions.reduced("sum", weights * powers, axis, True, "logsumexp")
    size = OPS["absolute"](total) if return_sign else total
    zero, one, minus_infinity = (literal(x, size.dtype) for x in (0, 1, -np.inf))
    is_zero = OPS["equal"](size, zero)
    logarithm = OPS["log"](OPS["where"](is_zero, one, size))
    result = OPS["where"](is_zero, minus_infinity, logarithm) + cast(shift, size.dtype)
    results = (result, OPS["sign"](total)) if return_sign else (result,)
    if not keepdims:
        axes = normalize_axes("logsumexp", axis, len(result.shape))
        kept = tuple([n for k, n in enumerate(result.shape) if k not in axes])
        results = tuple(reshape(x, kept) for x in results)
    tensors = tuple(wrap(x) for x in results)
    return tensors if return_sign else tensors[0]  # pyright: ignore[reportReturnType]
