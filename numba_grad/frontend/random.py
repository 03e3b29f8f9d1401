"""Public as `numba_grad.random`: random numbers as functions of a key, without hidden state.

    key = ng.random.key(0)
    first, second = ng.random.split(key)
    x = ng.random.normal(first, (1000, 3))
    y = ng.random.uniform(second, (1000,), low=-1.0)

A key is a uint64 tensor without axes: an array like any other, which may be stored, passed to a
jitted function, or mapped over by `vmap`. The same key gives the same numbers, whatever the number
of threads, within `jit` and outside, and element i of a result does not depend on how many there
are. So use each key once, and make new ones by `split` and `fold_in`: two draws from one key are
not independent.

Bits come from Philox 4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as
1, 2, 3", 2011), one block of 128 for each number, with the key as its key and the position of the
number as its counter. That is an elementwise operation, so numbers are computed inside of the
kernels that use them. They are not for cryptography.

Where a distribution has a location, scale or other parameters that numbers depend on smoothly,
gradients flow to these (reparametrization). In all of these functions

    shape : of the result; by default what the parameters broadcast to. Parameters broadcast to it.
    dtype : float32 or float64; by default that of the parameters, float64 if these are numbers
"""

import math
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from numba_grad.errors import DTypeError, ShapeError, explain
from numba_grad.frontend.arrays import (
    ArrayLike,
    as_node,
    as_optional_dtype,
    common_dtype,
    is_scalar,
    scalar_leaf,
    wrap,
)
from numba_grad.frontend.creation import as_shape
from numba_grad.frontend.elementwise_functions import minimum
from numba_grad.frontend.index_functions import take
from numba_grad.frontend.shape_functions import part
from numba_grad.frontend.sorting_functions import searchsorted
from numba_grad.graph.node import OPS, Node
from numba_grad.graph.types import normalize_axis
from numba_grad.ops.elementwise import plus, scaled
from numba_grad.ops.families import broadcast_to, cast, literal, reshape

if TYPE_CHECKING:
    from numba_grad.frontend.tensor import Tensor

__all__ = [
    "bernoulli",
    "bits",
    "categorical",
    "choice",
    "exponential",
    "fold_in",
    "gumbel",
    "integers",
    "key",
    "laplace",
    "logistic",
    "lognormal",
    "normal",
    "permutation",
    "split",
    "uniform",
]

Shape = int | Sequence[int]

BOOL = np.dtype(bool)
INT64 = np.dtype(np.int64)
UINT64 = np.dtype(np.uint64)
FLOAT32 = np.dtype(np.float32)
FLOAT64 = np.dtype(np.float64)

# The high halves of counters. Draws have 0, and those that try more than once small numbers.
_DRAW, _SPLIT, _FOLD = 0, 1 << 62, 1 << 63


# Keys


def key(seed: ArrayLike) -> "Tensor":
    """A key from an integer: its 64 bits. Different seeds give independent numbers.

    Parameters
    ----------
    seed : int from -2**63 to 2**64 - 1, or an integer tensor without axes

    Raises
    ------
    OverflowError
        If the integer does not fit.
    """
    if isinstance(seed, int | np.integer) and not isinstance(seed, bool):
        number = int(seed)
        if not -(1 << 63) <= number < 1 << 64:
            raise OverflowError(
                explain("key", "the seed does not fit 64 bits", got={"seed": number})
            )
        return wrap(scalar_leaf(number % (1 << 64), UINT64))
    node = as_node(seed)
    if node.dtype.kind not in "iu" or node.shape:
        raise TypeError(
            explain("key", "not a seed", got={"seed": node.type}, expected="an integer")
        )
    return wrap(cast(node, UINT64))


def split(key: ArrayLike, num: Shape = 2) -> "Tensor":
    """New keys, of shape (num,), independent of each other and of the draws from `key`.

    `num` may be a shape. As 64-bit numbers that are as good as random, two of n keys are equal with
    a probability of n**2 / 2**65.
    """
    return wrap(_philox(_key("split", key), as_shape("split", num), _SPLIT))


def fold_in(key: ArrayLike, data: ArrayLike) -> "Tensor":
    """A new key from a key and an integer, such as the number of a step or of a process."""
    node = as_node(data)
    if node.dtype.kind not in "iu":
        raise TypeError(
            explain("fold_in", "not integers", got={"data": node.type}, expected="an integer")
        )
    return wrap(_block(_key("fold_in", key), cast(node, UINT64), _FOLD))


def _key(operation: str, value: ArrayLike) -> Node:
    node = as_node(value)
    if node.dtype != UINT64 or node.shape:
        many = node.dtype == UINT64
        raise TypeError(
            explain(
                f"random.{operation}",
                "a function of one key" if many else "the first argument is not a key",
                got={"key": node.type},
                expected="a uint64 tensor without axes",
                fix="keys[0], or vmap over keys" if many else "numba_grad.random.key(0)",
            )
        )
    return node


# Bits


def _block(key: Node, counter: Node, stream: int, half: int = 0) -> Node:
    return OPS["philox"](key, counter, literal(stream, UINT64), half=half)


def _philox(key: Node, shape: tuple[int, ...], stream: int = _DRAW, half: int = 0) -> Node:
    """64 bits for each element: those of its position, in row-major order."""
    counter = OPS["iota"](size=math.prod(shape), dtype=UINT64)
    return _block(key, reshape(counter, shape), stream, half)


def bits(key: ArrayLike, shape: Shape = (), dtype: object = np.uint64) -> "Tensor":
    """Random bits, as integers without a sign: every value of the dtype is equally likely."""
    kind = as_optional_dtype(dtype)
    if kind is None or kind.kind != "u":
        raise DTypeError(
            explain("bits", "not an unsigned integer", got={"dtype": kind}, fix="dtype='uint64'")
        )
    node = _philox(_key("bits", key), as_shape("bits", shape))
    return wrap(cast(_high_bits(node, 8 * kind.itemsize), kind))


def _high_bits(node: Node, count: int) -> Node:
    return node if count == 64 else OPS["right_shift"](node, literal(64 - count, UINT64))


def _from_zero(node: Node, dtype: np.dtype) -> Node:
    """Bits as numbers from 0 up to, without, 1: multiples of 2**-53, or 2**-24 in float32."""
    digits = np.finfo(dtype).nmant + 1
    return scaled(cast(_high_bits(node, digits), dtype), 2.0**-digits)


def _above_zero(node: Node, dtype: np.dtype) -> Node:
    """Bits as numbers from 2**-65 to 1, of which small ones have all their digits."""
    return scaled(plus(cast(node, dtype), 0.5), 2.0**-64)


def _within(node: Node, dtype: np.dtype) -> Node:
    """As `_above_zero`, but below 1."""
    largest = literal(1 - 2.0 ** -(np.finfo(dtype).nmant + 1), dtype)
    return OPS["minimum"](_above_zero(node, dtype), largest)


# Distributions of floating numbers


def _prepared(
    operation: str, shape: Shape | None, dtype: object, *parameters: ArrayLike
) -> tuple[tuple[int, ...], np.dtype, list[Node]]:
    """The result's shape and dtype, and the parameters in that dtype."""
    wanted = as_optional_dtype(dtype)
    if wanted is None:
        nodes = common_dtype((*parameters, 1.0))[:-1]
        wanted = nodes[0].dtype if nodes else FLOAT64
    else:
        nodes = [
            scalar_leaf(value, wanted)
            if is_scalar(value) and not isinstance(value, complex)
            else cast(as_node(value), wanted)
            for value in parameters
        ]
    if wanted not in (FLOAT32, FLOAT64):
        raise DTypeError(
            explain(
                f"random.{operation}",
                "not defined for this dtype",
                got={"dtype": wanted},
                expected="float32 or float64",
                fix=f"{operation}(...).astype(...)",
            )
        )
    return _full_shape(operation, shape, *[x.shape for x in nodes]), wanted, list(nodes)


def _full_shape(operation: str, shape: Shape | None, *own: tuple[int, ...]) -> tuple[int, ...]:
    given = () if shape is None else as_shape(operation, shape)
    try:
        full = np.broadcast_shapes(given, *own)
    except ValueError:
        full = None
    if full is None or (shape is not None and full != given):
        raise ShapeError(
            explain(
                f"random.{operation}",
                "the parameters do not broadcast to the shape",
                got={"shape": shape, "parameters": ", ".join(str(s) for s in own)},
                expected="on every axis, counted from the last, equal sizes or a size of 1",
            )
        )
    return full


def _unless(value: ArrayLike, neutral: float) -> tuple[ArrayLike, ...]:
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
    moved, stretched = _unless(location, 0.0), _unless(scale, 1.0)
    full, kind, nodes = _prepared(operation, shape, dtype, *moved, *stretched)
    x = standard(_key(operation, key), full, kind)
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
        return _location_and_scale("uniform", _uniform, key, shape, dtype, low, high - low)
    full, kind, (first, last) = _prepared("uniform", shape, dtype, low, high)
    u = _uniform(_key("uniform", key), full, kind)
    return wrap(OPS["add"](first, OPS["multiply"](OPS["subtract"](last, first), u)))


def _uniform(key: Node, shape: tuple[int, ...], dtype: np.dtype) -> Node:
    return _from_zero(_philox(key, shape), dtype)


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
    squared_radius = scaled(OPS["log"](_above_zero(_philox(key, shape), dtype)), -2.0)
    angle = scaled(_from_zero(_philox(key, shape, half=1), dtype), 2 * math.pi)
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
    return OPS["negative"](OPS["log"](_above_zero(_philox(key, shape), dtype)))


def gumbel(
    key: ArrayLike,
    shape: Shape | None = None,
    dtype: object = None,
    *,
    loc: ArrayLike = 0.0,
    scale: ArrayLike = 1.0,
) -> "Tensor":
    """Numbers of the Gumbel distribution, the limit of the largest of many numbers."""
    return _location_and_scale("gumbel", _gumbel, key, shape, dtype, loc, scale)


def _gumbel(key: Node, shape: tuple[int, ...], dtype: np.dtype) -> Node:
    # -log(E) with E = -log1p(-u), which has all its digits where it is small: the long tail.
    u = _within(_philox(key, shape), dtype)
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
    is_negative = cast(_high_bits(_philox(key, x.shape, half=1), 1), BOOL)
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
    u = scaled(_above_zero(_philox(key, shape), dtype), 0.5)
    below = OPS["subtract"](OPS["log"](u), OPS["log1p"](OPS["negative"](u)))
    return _with_random_sign(below, key)


# Distributions of integers and bools


def bernoulli(key: ArrayLike, p: ArrayLike = 0.5, shape: Shape | None = None) -> "Tensor":
    """True with probability `p`."""
    full, kind, (probability,) = _prepared("bernoulli", shape, None, p)
    u = _uniform(_key("bernoulli", key), full, kind)
    return wrap(OPS["less"](u, probability))


def integers(
    key: ArrayLike,
    low: ArrayLike,
    high: ArrayLike | None = None,
    shape: Shape | None = None,
    dtype: object = np.int64,
) -> "Tensor":
    """Integers from `low` up to, without, `high`; with one bound, from 0 up to, without, that.

    Each is as likely as any other, to 1 part in 2**64: the high bits of a random number of 128 bits
    times the number of choices.

    Raises
    ------
    ValueError
        If there is nothing to choose from, or a bound does not fit the dtype; for bounds that are
        Python numbers. With tensors that say `low >= high` the results mean nothing.
    """
    if high is None:
        low, high = 0, low
    kind = as_optional_dtype(dtype) or INT64
    if kind.kind not in "iu":
        raise DTypeError(explain("random.integers", "not an integer dtype", got={"dtype": kind}))
    first, count = _range_of_integers(low, high, kind)
    full = _full_shape("integers", shape, first.shape, count.shape)
    own_key = _key("integers", key)
    high_word, low_word = (_philox(own_key, full, half=half) for half in (1, 0))
    chosen, rest = _product(high_word, count)
    below, _ = _product(low_word, count)
    carry = OPS["less"](OPS["add"](rest, below), rest)
    offset = OPS["add"](chosen, cast(carry, UINT64))
    # A count of 2**64 is 0 here.
    is_any = OPS["equal"](count, literal(0, UINT64))
    offset = OPS["where"](is_any, high_word, offset)
    return wrap(cast(OPS["add"](offset, first), kind))


def _range_of_integers(low: ArrayLike, high: ArrayLike, dtype: np.dtype) -> tuple[Node, Node]:
    """The least integer, and how many there are, as uint64, where sums wrap around."""
    bounds = (low, high)
    if all(isinstance(value, int | np.integer) for value in bounds):
        first, last = (operator.index(value) for value in bounds)  # type: ignore[arg-type]
        limits = np.iinfo(dtype)
        if not (limits.min <= first < last <= int(limits.max) + 1):
            raise ValueError(
                explain(
                    "random.integers",
                    "no integer to choose" if first >= last else "bounds that do not fit the dtype",
                    got={"low": first, "high": last, "dtype": dtype},
                    expected=f"{limits.min} <= low < high <= {int(limits.max) + 1}",
                )
            )
        words = (first % (1 << 64), (last - first) % (1 << 64))
        return scalar_leaf(words[0], UINT64), scalar_leaf(words[1], UINT64)
    nodes = [as_node(value) for value in bounds]
    for name, node in zip(("low", "high"), nodes, strict=True):
        if node.dtype.kind not in "iu":
            raise DTypeError(explain("random.integers", "not integers", got={name: node.type}))
    first, last = (cast(node, UINT64) for node in nodes)
    return first, OPS["subtract"](last, first)


def _product(x: Node, y: Node) -> tuple[Node, Node]:
    """The high and the low 64 bits of a product, by halves of 32 bits."""
    multiply, add = OPS["multiply"], OPS["add"]
    mask, half = literal(0xFFFFFFFF, UINT64), literal(32, UINT64)

    def low(z: Node) -> Node:
        return OPS["bitwise_and"](z, mask)

    def high(z: Node) -> Node:
        return OPS["right_shift"](z, half)

    (x0, x1), (y0, y1) = ((low(z), high(z)) for z in (x, y))
    middle = add(multiply(x1, y0), high(multiply(x0, y0)))
    other = add(multiply(x0, y1), low(middle))
    return add(add(multiply(x1, y1), high(middle)), high(other)), multiply(x, y)


def categorical(
    key: ArrayLike, logits: ArrayLike, axis: int = -1, shape: Shape | None = None
) -> "Tensor":
    """Indices along `axis`, with probabilities proportional to the exponentials of `logits`.

    The largest of logits with Gumbel numbers added: no sum overflows, and -inf is never chosen.

    Parameters
    ----------
    shape : of the result; the shape of `logits` without `axis` by default, which broadcasts to it
    """
    node = as_node(logits)
    number = normalize_axis("categorical", axis, len(node.shape))
    _, kind, (node,) = _prepared("categorical", None, None, node)
    order = [k for k in range(len(node.shape)) if k != number]
    if order != list(range(len(order))):
        node = OPS["transpose"](node, axes=(*order, number))
    count = node.shape[-1]
    full = _full_shape("categorical", shape, node.shape[:-1])
    noise = _gumbel(_key("categorical", key), (*full, count), kind)
    return wrap(OPS["argmax"](OPS["add"](noise, node), axis=len(full)))


def permutation(key: ArrayLike, x: ArrayLike, axis: int = 0) -> "Tensor":
    """`x` with its slices along `axis` in random order; of an integer n, the numbers below n.

    Sorted by random numbers of 64 bits, so every order is equally likely but for one part in
    2**65 / n**2.
    """
    if isinstance(x, int | np.integer):
        return wrap(_order("permutation", key, operator.index(x)))
    node = as_node(x)
    number = normalize_axis("permutation", axis, len(node.shape))
    return take(wrap(node), wrap(_order("permutation", key, node.shape[number])), number)


def _order(operation: str, key: ArrayLike, n: int) -> Node:
    if n < 0:
        raise ValueError(explain(operation, "a negative number of elements", got={"n": n}))
    return OPS["argsort"](_philox(_key(operation, key), (n,)), axis=0, descending=False)


def choice(
    key: ArrayLike,
    a: ArrayLike,
    shape: Shape = (),
    replace: bool = True,
    p: ArrayLike | None = None,
    axis: int = 0,
) -> "Tensor":
    """Slices of `a` along `axis`, chosen at random; of an integer n, numbers below n.

    Parameters
    ----------
    shape : of what is chosen, in place of `axis`
    replace : whether a slice may be chosen more than once
    p : (n,), how likely each one is, to a common factor; all equally by default. Without
        replacement, slices are chosen one after the other, each time from those that are left.

    Raises
    ------
    ValueError
        If more slices are to be chosen, without replacement, than there are, or none is there.
    ShapeError
        If `p` does not have one number for each slice.
    """
    array = None if isinstance(a, int | np.integer) else as_node(a)
    number = 0 if array is None else normalize_axis("choice", axis, len(array.shape))
    n = operator.index(a) if array is None else array.shape[number]
    full = as_shape("choice", shape)
    size = math.prod(full)
    if size > (n if not replace else size * max(n, 0)):
        got: dict[str, object] = {"a": n, "shape": full, "replace": replace}
        raise ValueError(explain("random.choice", "not enough to choose from", got=got))
    weights = None if p is None else _weights(p, n)
    own_key = _key("choice", key)
    if not replace:
        order = _order("choice", own_key, n) if weights is None else _weighted(own_key, weights)
        indices = wrap(reshape(part(order, 0, 0, size), full))
    elif size == 0:
        indices = wrap(broadcast_to(literal(0, INT64), full))
    elif weights is None:
        indices = integers(own_key, n, shape=full)
    else:
        indices = _by_cumulative_weight(own_key, weights, full)
    return indices if array is None else take(wrap(array), indices, number)


def _weights(p: ArrayLike, n: int) -> Node:
    _, _, (weights,) = _prepared("choice", None, None, p)
    if weights.shape != (n,):
        got: dict[str, object] = {"a": n, "p": weights.type}
        raise ShapeError(
            explain("random.choice", "not one p for each slice", got=got, expected=f"shape ({n},)")
        )
    return weights


def _weighted(key: Node, weights: Node) -> Node:
    """Indices in the order in which they are chosen: Gumbel numbers added to logarithms, sorted."""
    noise = _gumbel(key, weights.shape, weights.dtype)
    return OPS["argsort"](OPS["add"](noise, OPS["log"](weights)), axis=0, descending=True)


def _by_cumulative_weight(key: Node, weights: Node, shape: tuple[int, ...]) -> "Tensor":
    sums = OPS["cumsum"](weights, axis=0, reverse=False)
    total = part(sums, 0, weights.shape[0] - 1, weights.shape[0])
    u = OPS["multiply"](_uniform(key, shape, weights.dtype), reshape(total, ()))
    found = searchsorted(wrap(sums), wrap(u), "right")
    # Where rounding makes u the total: the last that has a weight.
    last = searchsorted(wrap(sums), wrap(total), "left")
    return minimum(found, last[0])
