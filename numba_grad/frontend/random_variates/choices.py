"""Random integers, choices and orders: nothing here is smooth, so nothing has a gradient, but for
the elements that are chosen."""

import math
import operator
from typing import TYPE_CHECKING

import numpy as np

from numba_grad.dtypes import INT64, UINT64
from numba_grad.errors import DTypeError, ShapeError, explain
from numba_grad.frontend.functions.creation import as_shape
from numba_grad.frontend.functions.elementwise import minimum
from numba_grad.frontend.functions.indexing import take
from numba_grad.frontend.functions.shapes import part
from numba_grad.frontend.functions.sorting import searchsorted
from numba_grad.frontend.inputs.arrays import (
    ArrayLike,
    as_node,
    as_optional_dtype,
    scalar_leaf,
    wrap,
)
from numba_grad.frontend.random_variates.bits import (
    Shape,
    full_shape,
    key_node,
    philox_bits,
    prepared,
)
from numba_grad.frontend.random_variates.distributions import gumbel_node, uniform_node
from numba_grad.graph.node import OPS, Node
from numba_grad.graph.types import normalize_axis
from numba_grad.ops.families import broadcast_to, cast, literal, reshape

if TYPE_CHECKING:
    from numba_grad.frontend.tensors.tensor import Tensor


def bernoulli(key: ArrayLike, p: ArrayLike = 0.5, shape: Shape | None = None) -> "Tensor":
    """True with probability `p`."""
    full, kind, (probability,) = prepared("bernoulli", shape, None, p)
    u = uniform_node(key_node("bernoulli", key), full, kind)
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
    full = full_shape("integers", shape, first.shape, count.shape)
    own_key = key_node("integers", key)
    high_word, low_word = (philox_bits(own_key, full, half=half) for half in (1, 0))
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


def poisson(key: ArrayLike, lam: ArrayLike = 1.0, shape: Shape | None = None) -> "Tensor":
    """Numbers of the Poisson distribution with mean `lam`, as int64; -1 where `lam` is not valid.

    By inversion below 10, above by transformed rejection (Hoermann, 1993). Exact for means up to
    some 1e12, from where on rounding errors of probabilities are seen.
    """
    full, _, (mean,) = prepared("poisson", shape, None, lam)
    counter = reshape(OPS["iota"](size=math.prod(full), dtype=UINT64), full)
    own_key = broadcast_to(key_node("poisson", key), full)
    mean = OPS["detach"](broadcast_to(mean, full))
    return wrap(OPS["poisson_draw"](own_key, counter, mean))


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
    _, kind, (node,) = prepared("categorical", None, None, node)
    order = [k for k in range(len(node.shape)) if k != number]
    if order != list(range(len(order))):
        node = OPS["transpose"](node, axes=(*order, number))
    count = node.shape[-1]
    full = full_shape("categorical", shape, node.shape[:-1])
    noise = gumbel_node(key_node("categorical", key), (*full, count), kind)
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
    return OPS["argsort"](philox_bits(key_node(operation, key), (n,)), axis=0, descending=False)


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
    own_key = key_node("choice", key)
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
    _, _, (weights,) = prepared("choice", None, None, p)
    if weights.shape != (n,):
        got: dict[str, object] = {"a": n, "p": weights.type}
        raise ShapeError(
            explain("random.choice", "not one p for each slice", got=got, expected=f"shape ({n},)")
        )
    return weights


def _weighted(key: Node, weights: Node) -> Node:
    """Indices in the order in which they are chosen: Gumbel numbers added to logarithms, sorted."""
    noise = gumbel_node(key, weights.shape, weights.dtype)
    return OPS["argsort"](OPS["add"](noise, OPS["log"](weights)), axis=0, descending=True)


def _by_cumulative_weight(key: Node, weights: Node, shape: tuple[int, ...]) -> "Tensor":
    sums = OPS["cumsum"](weights, axis=0, reverse=False)
    total = part(sums, 0, weights.shape[0] - 1, weights.shape[0])
    u = OPS["multiply"](uniform_node(key, shape, weights.dtype), reshape(total, ()))
    found = searchsorted(wrap(sums), wrap(u), "right")
    # Where rounding makes u the total: the last that has a weight.
    last = searchsorted(wrap(sums), wrap(total), "left")
    return minimum(found, last[0])
