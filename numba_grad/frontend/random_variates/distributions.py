"""Distributions of floating numbers. All that is smooth in a parameter has its gradient."""

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from numba_grad.dtypes import BOOL, UINT64
from numba_grad.errors import ShapeError, explain
from numba_grad.frontend.functions.contractions import matmul
from numba_grad.frontend.functions.reductions import softmax
from numba_grad.frontend.functions.shapes import expand_dims
from numba_grad.frontend.inputs.arrays import (
    ArrayLike,
    as_node,
    as_optional_dtype,
    common_dtype,
    is_scalar,
    wrap,
)
from numba_grad.frontend.linalg import cholesky
from numba_grad.frontend.random_variates.bits import (
    SPLIT,
    Shape,
    above_zero,
    block,
    from_zero,
    full_shape,
    high_bits,
    key_node,
    philox_bits,
    prepared,
    within,
)
from numba_grad.graph.node import OPS, Node
from numba_grad.ops import random, special  # noqa: F401 - fills OPS
from numba_grad.ops.elementwise import scaled
from numba_grad.ops.families import broadcast_to, cast, literal, reshape

if TYPE_CHECKING:
    from numba_grad.frontend.tensors.tensor import Tensor


def unless_default(value: ArrayLike, neutral: float) -> tuple[ArrayLike, ...]:
    """Nothing for the default of a parameter, so that it costs nothing."""
    return () if is_scalar(value) and value == neutral else (value,)


def _location_and_scale(
    operation: str,
    standard: Any,
    key: ArrayLike,
    shape: Shape | None,
    dtype: object,
    location: ArrayLike,
    scale: ArrayLike,
) -> "Tensor":
    """location + scale * standard(key, shape, dtype)."""
    moved, stretched = unless_default(location, 0.0), unless_default(scale, 1.0)
    full, kind, nodes = prepared(operation, shape, dtype, *moved, *stretched)
    x = standard(key_node(operation, key), full, kind)
    if stretched:
        x = OPS["multiply"](x, nodes[-1])
    if moved:
        x = OPS["add"](x, nodes[0])
    return wrap(x)


def uniform(
    key: ArrayLike,
    shape: Shape | None = None,
    dtype: object = None,
    *,
    low: ArrayLike = 0.0,
    high: ArrayLike = 1.0,
) -> "Tensor":
    """Numbers from `low` up to `high`, which rounding alone may reach: low + (high - low) u.

    u is a multiple of 2**-53, in float32 of 2**-24, from 0 up to, without, 1.
    """
    if is_scalar(low) and is_scalar(high):
        return _location_and_scale("uniform", uniform_node, key, shape, dtype, low, high - low)
    full, kind, (first, last) = prepared("uniform", shape, dtype, low, high)
    u = uniform_node(key_node("uniform", key), full, kind)
    return wrap(OPS["add"](first, OPS["multiply"](OPS["subtract"](last, first), u)))


def uniform_node(key: Node, shape: tuple[int, ...], dtype: np.dtype) -> Node:
    return from_zero(philox_bits(key, shape), dtype)


def normal(
    key: ArrayLike,
    shape: Shape | None = None,
    dtype: object = None,
    *,
    loc: ArrayLike = 0.0,
    scale: ArrayLike = 1.0,
) -> "Tensor":
    """Numbers of the normal distribution with mean `loc` and standard deviation `scale`.

    By Box and Muller (1958), from 64 bits for the radius: up to 9.5 standard deviations occur.
    """
    return _location_and_scale("normal", _normal, key, shape, dtype, loc, scale)


def _normal(key: Node, shape: tuple[int, ...], dtype: np.dtype) -> Node:
    squared_radius = scaled(OPS["log"](above_zero(philox_bits(key, shape), dtype)), -2.0)
    angle = scaled(from_zero(philox_bits(key, shape, half=1), dtype), 2 * math.pi)
    return OPS["multiply"](OPS["sqrt"](squared_radius), OPS["cos"](angle))


def lognormal(
    key: ArrayLike,
    shape: Shape | None = None,
    dtype: object = None,
    *,
    mean: ArrayLike = 0.0,
    sigma: ArrayLike = 1.0,
) -> "Tensor":
    """The exponential of normal numbers with that mean and standard deviation."""
    x = _location_and_scale("lognormal", _normal, key, shape, dtype, mean, sigma)
    return wrap(OPS["exp"](as_node(x)))


def exponential(
    key: ArrayLike,
    shape: Shape | None = None,
    dtype: object = None,
    *,
    scale: ArrayLike = 1.0,
) -> "Tensor":
    """Numbers of the exponential distribution with mean `scale`."""
    return _location_and_scale("exponential", _exponential, key, shape, dtype, 0.0, scale)


def _exponential(key: Node, shape: tuple[int, ...], dtype: np.dtype) -> Node:
    return OPS["negative"](OPS["log"](above_zero(philox_bits(key, shape), dtype)))


def gumbel(
    key: ArrayLike,
    shape: Shape | None = None,
    dtype: object = None,
    *,
    loc: ArrayLike = 0.0,
    scale: ArrayLike = 1.0,
) -> "Tensor":
    """Numbers of the Gumbel distribution, the limit of the largest of many numbers."""
    return _location_and_scale("gumbel", gumbel_node, key, shape, dtype, loc, scale)


def gumbel_node(key: Node, shape: tuple[int, ...], dtype: np.dtype) -> Node:
    # -log(E) with E = -log1p(-u), which has all its digits where it is small: the long tail.
    u = within(philox_bits(key, shape), dtype)
    waiting = OPS["negative"](OPS["log1p"](OPS["negative"](u)))
    return OPS["negative"](OPS["log"](waiting))


def laplace(
    key: ArrayLike,
    shape: Shape | None = None,
    dtype: object = None,
    *,
    loc: ArrayLike = 0.0,
    scale: ArrayLike = 1.0,
) -> "Tensor":
    """Numbers of the Laplace distribution: exponential ones with a random sign."""
    return _location_and_scale("laplace", _laplace, key, shape, dtype, loc, scale)


def _laplace(key: Node, shape: tuple[int, ...], dtype: np.dtype) -> Node:
    return _with_random_sign(_exponential(key, shape, dtype), key)


def _with_random_sign(x: Node, key: Node) -> Node:
    is_negative = cast(high_bits(philox_bits(key, x.shape, half=1), 1), BOOL)
    return OPS["where"](is_negative, OPS["negative"](x), x)


def logistic(
    key: ArrayLike,
    shape: Shape | None = None,
    dtype: object = None,
    *,
    loc: ArrayLike = 0.0,
    scale: ArrayLike = 1.0,
) -> "Tensor":
    """Numbers of the logistic distribution: log(u / (1 - u))."""
    return _location_and_scale("logistic", _logistic, key, shape, dtype, loc, scale)


def _logistic(key: Node, shape: tuple[int, ...], dtype: np.dtype) -> Node:
    # Of u up to 1 / 2, with a random sign: near 1 numbers have too few digits left.
    u = scaled(above_zero(philox_bits(key, shape), dtype), 0.5)
    below = OPS["subtract"](OPS["log"](u), OPS["log1p"](OPS["negative"](u)))
    return _with_random_sign(below, key)


def truncated_normal(
    key: ArrayLike,
    lower: ArrayLike,
    upper: ArrayLike,
    shape: Shape | None = None,
    dtype: object = None,
) -> "Tensor":
    """Standard normal numbers between two bounds, by the inverse of the distribution function.

    Accurate far out in either tail: bounds above 0 are turned into such below 0. Gradients flow to
    the bounds.
    """
    full, kind, (a, b) = prepared("truncated_normal", shape, dtype, lower, upper)
    is_turned = OPS["greater"](a, literal(0, kind))
    first = OPS["where"](is_turned, OPS["negative"](b), a)
    last = OPS["where"](is_turned, OPS["negative"](a), b)
    below, above = OPS["ndtr"](first), OPS["ndtr"](last)
    u = from_zero(philox_bits(key_node("truncated_normal", key), full), kind)
    place = OPS["add"](below, OPS["multiply"](OPS["subtract"](above, below), u))
    # The smallest probability has an infinite number, and rounding may leave the bounds.
    x = OPS["minimum"](OPS["maximum"](OPS["ndtri"](place), first), last)
    return wrap(OPS["where"](is_turned, OPS["negative"](x), x))


def multivariate_normal(
    key: ArrayLike,
    mean: ArrayLike,
    cov: ArrayLike,
    shape: Shape | None = None,
    dtype: object = None,
) -> "Tensor":
    """Vectors of the normal distribution with that mean and covariance: mean + L z, cov = L L^T.

    Parameters
    ----------
    mean : (..., n)
    cov : (..., n, n), symmetric and positive definite
    shape : of the stack of vectors, without the axis of n; what those of `mean` and `cov` broadcast
        to by default

    Returns
    -------
    Tensor of the shape `(*shape, n)`; gradients flow to `mean` and `cov`

    Raises
    ------
    numpy.linalg.LinAlgError
        When computed, if a covariance is not positive definite.
    """
    location, matrix, _ = common_dtype((mean, cov, 1.0))
    wanted = as_optional_dtype(dtype)
    if wanted is not None:
        location, matrix = cast(location, wanted), cast(matrix, wanted)
    n = matrix.shape[-1] if matrix.shape else 0
    if len(matrix.shape) < 2 or matrix.shape[-2] != n or location.shape[-1:] != (n,):
        raise ShapeError(
            explain(
                "random.multivariate_normal",
                "mean and cov do not fit together",
                got={"mean": location.type, "cov": matrix.type},
                expected="shapes (..., n) and (..., n, n)",
            )
        )
    stack = full_shape("multivariate_normal", shape, location.shape[:-1], matrix.shape[:-2])
    prepared("multivariate_normal", (*stack, n), None, location)
    z = wrap(_normal(key_node("multivariate_normal", key), (*stack, n), location.dtype))
    factor = cholesky(wrap(matrix))
    if len(matrix.shape) == 2:
        return wrap(location) + z @ factor.T
    return wrap(location) + matmul(factor, expand_dims(z, -1))[..., 0]


# From the gamma distribution


def gamma(
    key: ArrayLike,
    a: ArrayLike,
    shape: Shape | None = None,
    dtype: object = None,
    *,
    scale: ArrayLike = 1.0,
) -> "Tensor":
    """Numbers of the gamma distribution of shape `a`, times `scale`; nan where `a` is not positive.

    By rejection (Marsaglia and Tsang, 2000), for a < 1 from a + 1 by a power of a uniform number.
    Gradients flow to `a` by implicit reparametrization (Figurnov, Mohamed and Mnih, 2018), to any
    order, with a relative error of some 1e-15 sqrt(a).
    """
    stretched = unless_default(scale, 1.0)
    full, kind, (a_node, *scales) = prepared("gamma", shape, dtype, a, *stretched)
    x, logarithm = _gamma_factors(key_node("gamma", key), a_node, full, kind)
    x = OPS["multiply"](x, OPS["exp"](logarithm))
    return wrap(OPS["multiply"](x, scales[0]) if scales else x)


def loggamma(
    key: ArrayLike, a: ArrayLike, shape: Shape | None = None, dtype: object = None
) -> "Tensor":
    """Logarithms of the numbers of `gamma`, also where these would be too small: for a near 0."""
    full, kind, (a_node,) = prepared("loggamma", shape, dtype, a)
    return wrap(_loggamma(key_node("loggamma", key), a_node, full, kind))


def _loggamma(key: Node, a: Node, shape: tuple[int, ...], dtype: np.dtype) -> Node:
    x, logarithm = _gamma_factors(key, a, shape, dtype)
    return OPS["add"](OPS["log"](x), logarithm)


def _gamma_factors(
    key: Node, a: Node, shape: tuple[int, ...], dtype: np.dtype
) -> tuple[Node, Node]:
    """A gamma number as the product of one of a shape of 1 or more, and an exponential."""
    a = broadcast_to(a, shape)
    zero, one = literal(0, dtype), literal(1, dtype)
    is_small = OPS["less"](a, one)
    raised = OPS["where"](is_small, OPS["add"](a, one), a)
    counter = reshape(OPS["iota"](size=math.prod(shape), dtype=UINT64), shape)
    draw = OPS["gamma_draw"](broadcast_to(key, shape), counter, OPS["detach"](raised))
    u = above_zero(philox_bits(key, shape), dtype)
    power = OPS["divide"](OPS["log"](u), OPS["where"](is_small, a, one))
    power = OPS["where"](is_small, power, zero)
    power = OPS["where"](OPS["greater"](a, zero), power, literal(np.nan, dtype))
    return OPS["gamma_path"](draw, raised), power


def _two_keys(key: Node) -> tuple[Node, Node]:
    first, second = (block(key, literal(k, UINT64), SPLIT) for k in (0, 1))
    return first, second


def beta(
    key: ArrayLike, a: ArrayLike, b: ArrayLike, shape: Shape | None = None, dtype: object = None
) -> "Tensor":
    """Numbers of the beta distribution: X / (X + Y) of gamma numbers of shapes `a` and `b`.

    Gradients flow to `a` and `b`, as for `gamma`.
    """
    full, kind, shapes = prepared("beta", shape, dtype, a, b)
    keys = _two_keys(key_node("beta", key))
    x, y = (_loggamma(k, z, full, kind) for k, z in zip(keys, shapes, strict=True))
    return wrap(OPS["sigmoid"](OPS["subtract"](x, y)))


def dirichlet(
    key: ArrayLike, alpha: ArrayLike, shape: Shape | None = None, dtype: object = None
) -> "Tensor":
    """Vectors of positive numbers with the sum 1, of the Dirichlet distribution.

    Parameters
    ----------
    alpha : (..., n), positive; gradients flow to it, as for `gamma`
    shape : of the stack of vectors, without the axis of n; that of `alpha` by default
    """
    _, kind, (node,) = prepared("dirichlet", None, dtype, alpha)
    if not node.shape:
        raise ShapeError(
            explain("random.dirichlet", "no axis", got={"alpha": node.type}, expected="(..., n)")
        )
    stack = full_shape("dirichlet", shape, node.shape[:-1])
    own_key = key_node("dirichlet", key)
    return softmax(wrap(_loggamma(own_key, node, (*stack, node.shape[-1]), kind)))


def chisquare(
    key: ArrayLike, df: ArrayLike, shape: Shape | None = None, dtype: object = None
) -> "Tensor":
    """Numbers of the chi-square distribution with `df` degrees of freedom."""
    full, kind, (degrees,) = prepared("chisquare", shape, dtype, df)
    return wrap(_chisquare(key_node("chisquare", key), degrees, full, kind))


def _chisquare(key: Node, degrees: Node, shape: tuple[int, ...], dtype: np.dtype) -> Node:
    x, logarithm = _gamma_factors(key, scaled(degrees, 0.5), shape, dtype)
    return scaled(OPS["multiply"](x, OPS["exp"](logarithm)), 2.0)


def standard_t(
    key: ArrayLike, df: ArrayLike, shape: Shape | None = None, dtype: object = None
) -> "Tensor":
    """Numbers of Student's t distribution with `df` degrees of freedom."""
    full, kind, (degrees,) = prepared("standard_t", shape, dtype, df)
    first, second = _two_keys(key_node("standard_t", key))
    square = OPS["divide"](_chisquare(first, degrees, full, kind), degrees)
    return wrap(OPS["divide"](_normal(second, full, kind), OPS["sqrt"](square)))
