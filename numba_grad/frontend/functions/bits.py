"""Bits as elements: `numpy.packbits` and `numpy.unpackbits`."""

from typing import TYPE_CHECKING

import numpy as np

from numba_grad.dtypes import BOOL, UINT8
from numba_grad.errors import DTypeError, explain
from numba_grad.frontend.functions.shapes import along_one_axis, part
from numba_grad.frontend.inputs.arrays import ArrayLike, as_node, constant_beside, wrap
from numba_grad.graph.node import OPS, Node, leaf
from numba_grad.ops.families import cast, reshape

if TYPE_CHECKING:
    from numba_grad.frontend.tensors.tensor import Tensor

__all__ = ["packbits", "unpackbits"]


def packbits(a: ArrayLike, axis: int | None = None, bitorder: str = "big") -> "Tensor":
    """Eight elements along `axis`, or of the flattened `a`, as the bits of one uint8.

    Parameters
    ----------
    a : Tensor, any shape, bool or integers: what is not 0 is a bit of 1
    axis : int, optional
        Of size n; (n + 7) // 8 in the result, the last one filled up by zeros.
    bitorder : "big" or "little"
        Whether the first element is the highest or the lowest bit.
    """
    node = as_node(a)
    if node.dtype.kind not in "bui":
        expected = "bool or integers"
        raise DTypeError(explain("packbits", "not bits", got={"a": node.type}, expected=expected))
    shifts = _shifts("packbits", node, bitorder)
    node, number = along_one_axis("packbits", cast(cast(node, BOOL), UINT8), axis)
    node = _lengthened(node, number, -node.shape[number] % 8)
    before, after = node.shape[:number], node.shape[number + 1 :]
    bits = reshape(node, (*before, node.shape[number] // 8, 8, *after))
    places = reshape(shifts, (8,) + (1,) * len(after))
    return wrap(OPS["sum"](OPS["left_shift"](bits, places), axes=(number + 1,)))


def unpackbits(
    a: ArrayLike, axis: int | None = None, count: int | None = None, bitorder: str = "big"
) -> "Tensor":
    """The bits of uint8 along `axis`, or of the flattened `a`, as elements 0 and 1 of uint8.

    Parameters
    ----------
    a : Tensor, any shape, uint8
    axis : int, optional
    count : int, optional
        How many bits to give: zeros follow where there are fewer; if negative, how many to leave
        out at the end.
    bitorder : "big" or "little"
        Whether the highest or the lowest bit comes first.
    """
    node = as_node(a)
    if node.dtype != UINT8:
        fix = "a.astype(np.uint8)"
        raise DTypeError(explain("unpackbits", "not uint8", got={"a": node.type}, fix=fix))
    shifts = _shifts("unpackbits", node, bitorder)
    node, number = along_one_axis("unpackbits", node, axis)
    before, after = node.shape[:number], node.shape[number + 1 :]
    bytes_ = reshape(node, (*before, node.shape[number], 1, *after))
    places = reshape(shifts, (8,) + (1,) * len(after))
    size = 8 * node.shape[number]
    one = leaf(np.array(1, UINT8))
    bits = OPS["bitwise_and"](OPS["right_shift"](bytes_, places), one)
    bits = reshape(bits, (*before, size, *after))
    if count is None:
        return wrap(bits)
    if count < -size:
        expected = f"count >= {-size}"
        got: dict[str, object] = {"a": node.type, "count": count}
        raise ValueError(explain("unpackbits", "fewer bits", got=got, expected=expected))
    kept = part(bits, number, 0, count)
    return wrap(_lengthened(kept, number, max(count - size, 0)))


def _shifts(operation: str, x: Node, bitorder: str) -> Node:
    """The place of each of eight bits, where `x` is."""
    if bitorder not in ("big", "little"):
        expected = "'big' or 'little'"
        raise ValueError(explain(operation, f"bitorder={bitorder!r}", expected=expected))
    places = np.arange(8, dtype=UINT8)
    return constant_beside(x, places[::-1] if bitorder == "big" else places)


def _lengthened(x: Node, axis: int, size: int) -> Node:
    """`x` with `size` zeros after it."""
    if not size:
        return x
    none = (0,) * len(x.shape)
    more = tuple([size if k == axis else 0 for k in range(len(x.shape))])
    return OPS["pad"](x, low=none, high=more, interior=none)
