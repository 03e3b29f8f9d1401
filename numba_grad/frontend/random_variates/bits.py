"""Keys and random bits, and what distributions make of them: numbers between 0 and 1.

Rule: every draw is a function of its key, and of its position in the result.
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from numba_grad.dtypes import FLOAT32, FLOAT64, UINT64
from numba_grad.errors import DTypeError, ShapeError, explain
from numba_grad.frontend.functions.creation import as_shape
from numba_grad.frontend.inputs.arrays import (
    ArrayLike,
    as_node,
    as_optional_dtype,
    common_dtype,
    is_scalar,
    scalar_leaf,
    wrap,
)
from numba_grad.graph.node import OPS, Node
from numba_grad.ops import random  # noqa: F401 - fills OPS
from numba_grad.ops.elementwise import plus, scaled
from numba_grad.ops.families import cast, literal, reshape

if TYPE_CHECKING:
    from numba_grad.frontend.tensors.tensor import Tensor

Shape = int | Sequence[int]


# The high halves of counters. Draws have 0, and those that try more than once small numbers.
DRAW, SPLIT, FOLD = 0, 1 << 62, 1 << 63


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
    return wrap(philox_bits(key_node("split", key), as_shape("split", num), SPLIT))


def fold_in(key: ArrayLike, data: ArrayLike) -> "Tensor":
    """A new key from a key and an integer, such as the number of a step or of a process."""
    node = as_node(data)
    if node.dtype.kind not in "iu":
        raise TypeError(
            explain("fold_in", "not integers", got={"data": node.type}, expected="an integer")
        )
    return wrap(block(key_node("fold_in", key), cast(node, UINT64), FOLD))


def key_node(operation: str, value: ArrayLike) -> Node:
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


def block(key: Node, counter: Node, stream: int, half: int = 0) -> Node:
    return OPS["philox"](key, counter, literal(stream, UINT64), half=half)


def philox_bits(key: Node, shape: tuple[int, ...], stream: int = DRAW, half: int = 0) -> Node:
    """64 bits for each element: those of its position, in row-major order."""
    counter = OPS["iota"](size=math.prod(shape), dtype=UINT64)
    return block(key, reshape(counter, shape), stream, half)


def bits(key: ArrayLike, shape: Shape = (), dtype: object = np.uint64) -> "Tensor":
    """Random bits, as integers without a sign: every value of the dtype is equally likely."""
    kind = as_optional_dtype(dtype)
    if kind is None or kind.kind != "u":
        raise DTypeError(
            explain("bits", "not an unsigned integer", got={"dtype": kind}, fix="dtype='uint64'")
        )
    node = philox_bits(key_node("bits", key), as_shape("bits", shape))
    return wrap(cast(high_bits(node, 8 * kind.itemsize), kind))


def high_bits(node: Node, count: int) -> Node:
    return node if count == 64 else OPS["right_shift"](node, literal(64 - count, UINT64))


def from_zero(node: Node, dtype: np.dtype) -> Node:
    """Bits as numbers from 0 up to, without, 1: multiples of 2**-53, or 2**-24 in float32."""
    digits = np.finfo(dtype).nmant + 1
    return scaled(cast(high_bits(node, digits), dtype), 2.0**-digits)


def above_zero(node: Node, dtype: np.dtype) -> Node:
    """Bits as numbers from 2**-65 to 1, of which small ones have all their digits."""
    return scaled(plus(cast(node, dtype), 0.5), 2.0**-64)


def within(node: Node, dtype: np.dtype) -> Node:
    """As `_above_zero`, but below 1."""
    largest = literal(1 - 2.0 ** -(np.finfo(dtype).nmant + 1), dtype)
    return OPS["minimum"](above_zero(node, dtype), largest)


# Parameters of distributions


def prepared(
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
    return full_shape(operation, shape, *[x.shape for x in nodes]), wanted, list(nodes)


def full_shape(operation: str, shape: Shape | None, *own: tuple[int, ...]) -> tuple[int, ...]:
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
