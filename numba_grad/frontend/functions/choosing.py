"""Functions of NumPy that choose elements, or what to compute, by conditions."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from numba_grad.compiler.backends import only_device
from numba_grad.dtypes import BOOL, INT64
from numba_grad.errors import DTypeError, ShapeError, TracingError, explain
from numba_grad.frontend.functions.elementwise import where
from numba_grad.frontend.functions.indexing import brought_into_range, mask_value, nonzero
from numba_grad.frontend.functions.joining import stack
from numba_grad.frontend.functions.shapes import along_one_axis
from numba_grad.frontend.inputs.arrays import (
    ArrayLike,
    as_assigned,
    as_node,
    common_dtype,
    known_value,
    wrap,
)
from numba_grad.graph.node import OPS, Node
from numba_grad.graph.types import broadcast_shapes
from numba_grad.graph.walk import is_traced
from numba_grad.ops.families import broadcast_to, cast, flattened, full, placed, reshape, zeros_like
from numba_grad.ops.index_expressions import assign_index, take_index
from numba_grad.ops.indexing import gather

if TYPE_CHECKING:
    from numba_grad.frontend.tensors.tensor import Tensor

__all__ = ["argwhere", "choose", "compress", "extract", "flatnonzero", "piecewise", "select"]


def argwhere(x: ArrayLike) -> "Tensor":
    """The indices of the elements that are not 0, one row for each. Computes `x` now.

    Returns
    -------
    Tensor (number of elements that are not 0, number of axes), int64
    """
    node = as_node(x)
    if not node.shape:
        count = int(mask_value(cast(node, BOOL)))
        return wrap(full(0, (count, 0), INT64, node.type.device))
    return stack(nonzero(node), axis=1)


def flatnonzero(x: ArrayLike) -> "Tensor":
    """The numbers, in row-major order, of the elements that are not 0. Computes `x` now."""
    node = as_node(x)
    return nonzero(flattened(node))[0]


def extract(condition: ArrayLike, x: ArrayLike) -> "Tensor":
    """The elements of `x` where the condition is true, in row-major order."""
    mask, node = cast(as_node(condition), BOOL), as_node(x)
    return compress(flattened(mask), flattened(node))


def compress(condition: ArrayLike, x: ArrayLike, axis: int | None = None) -> "Tensor":
    """The parts of `x` along `axis` for which the condition, 1-d, is true; of the flattened `x`
    by default.

    Computes the condition now. It may be shorter than the axis.

    Raises
    ------
    IndexError
        If it is true beyond the end of the axis.
    """
    mask = cast(as_node(condition), BOOL)
    if len(mask.shape) != 1:
        raise ShapeError(
            explain("compress", "the condition is not 1-d", got={"condition": mask.type})
        )
    node, number = along_one_axis("compress", as_node(x), axis)
    before = (slice(None),) * number
    if is_traced(mask) and mask.shape == (node.shape[number],):
        return wrap(node)[(*before, mask)]
    return wrap(take_index(node, (*before, mask_value(mask).nonzero()[0])))


def choose(x: ArrayLike, choices: ArrayLike | Sequence[ArrayLike], mode: str = "raise") -> "Tensor":
    """Element by element, the one of the choice whose number `x` gives: choices[x[i]][i].

    Parameters
    ----------
    x : integers from 0 to n - 1
    choices : n arrays, which broadcast with `x`
    mode : what to do with other integers: "raise", "wrap" around, or "clip"

    Raises
    ------
    ValueError
        If an integer is out of range. For integers that are not known yet, an IndexError when they
        are computed.
    """
    index = as_node(x)
    if index.dtype.kind not in "biu":
        raise DTypeError(
            explain("choose", "not integers", got={"x": index.type}, expected="an integer dtype")
        )
    index = cast(index, INT64)
    if isinstance(choices, Sequence):
        nodes = common_dtype(tuple(choices))
    else:
        array = as_node(choices)
        nodes = tuple([take_index(array, k) for k in range(array.shape[0])])
    if not nodes:
        raise ValueError(explain("choose", "no choices", expected="at least one"))
    count = len(nodes)
    if mode != "raise":
        index = brought_into_range("choose", index, count, mode)
    elif (known := known_value(index)) is not None:
        bad = (known < 0) | (known >= count)
        if bad.any():
            raise ValueError(
                explain(
                    "choose",
                    f"no choice number {known[bad][0]}",
                    got={"x": index.type, "choices": count},
                    expected=f"0 <= x < {count}",
                    fix="mode='wrap' or mode='clip'",
                )
            )
    else:  # no counting from the end: a negative number must be out of range
        negative = OPS["less"](index, as_node(0))
        index = OPS["where"](negative, as_node(count), index)
    names = ["x", *[f"choice {k}" for k in range(count)]]
    shape = broadcast_shapes("choose", names, [index.type, *[n.type for n in nodes]])
    index = placed(index, only_device([node.type.device for node in (index, *nodes)]))
    size = int(np.prod(shape, dtype=int))
    rows = [reshape(broadcast_to(node, shape), (1, size)) for node in nodes]
    table = OPS["concatenate"](*rows, axis=0)
    flat = reshape(broadcast_to(index, shape), (size,))
    own = OPS["iota"](size=size, dtype=INT64)
    return wrap(reshape(gather(table, flat, own, checked=mode == "raise"), shape))


def select(
    condlist: Sequence[ArrayLike], choicelist: Sequence[ArrayLike], default: ArrayLike = 0
) -> "Tensor":
    """Element by element, the choice whose condition is the first that is true; else `default`.

    Gradients flow to what is chosen, as with `where`.
    """
    if len(condlist) != len(choicelist) or not len(condlist):
        raise ValueError(
            explain(
                "select",
                "needs one choice for each condition",
                got={"conditions": len(condlist), "choices": len(choicelist)},
            )
        )
    masks = [as_node(condition) for condition in condlist]
    for number, mask in enumerate(masks):
        if mask.dtype != BOOL:
            got: dict[str, object] = {f"condition {number}": mask.type}
            raise DTypeError(explain("select", "a condition is not a mask", got=got, fix="x != 0"))
    *choices, result = common_dtype((*choicelist, default))
    names = [f"condition {k}" for k in range(len(masks))]
    names += [f"choice {k}" for k in range(len(choices))] + ["default"]
    types = [node.type for node in (*masks, *choices, result)]
    shape = broadcast_shapes("select", names, types)
    for mask, choice in zip(reversed(masks), reversed(choices), strict=True):
        result = where(mask, choice, result)._node
    return wrap(broadcast_to(result, shape))


def piecewise(
    x: ArrayLike,
    condlist: ArrayLike | Sequence[ArrayLike],
    funclist: Sequence[Callable[..., Any] | ArrayLike],
    *args: Any,
    **kw: Any,
) -> "Tensor":
    """A function of `x` that is another one where each condition is true.

    Parameters
    ----------
    condlist : masks of the shape of `x`; where several are true, the last one counts
    funclist : for each a function, or a value. One more is for where no condition is true, which
        else gives 0
    args, kw : passed on to the functions

    Notes
    -----
    A function gets the elements of `x` for which it is meant along one axis, and the conditions are
    computed now. While a function is being traced they have no values: then it gets `x[condition]`
    as it is inside of `jit`. What cannot be done with that is done with an array of the shape of
    `x` in which one of these elements stands in for those that are not, so that no derivative is
    asked for where it may be infinite. That gives the same for functions that work element by
    element. Gradients flow to what is chosen. The dtype is that of `x`.
    """
    node = as_node(x)
    masks = _conditions_of(condlist, node)
    if len(funclist) == len(masks) + 1:
        known = masks[0]
        for mask in masks[1:]:
            known = OPS["logical_or"](known, mask)
        masks = [*masks, OPS["logical_not"](known)]
    elif len(funclist) != len(masks):
        raise ValueError(
            explain(
                "piecewise",
                "needs a function for each condition, and may have one more",
                got={"conditions": len(masks), "functions": len(funclist)},
            )
        )
    result = zeros_like(node)
    for mask, function in zip(masks, funclist, strict=True):
        if not callable(function):
            result = assign_index(result, mask, as_assigned(function, node))
        elif is_traced(mask):
            result = _assigned_where(result, mask, node, lambda v, f=function: f(v, *args, **kw))
        else:
            index = mask_value(mask)
            if index.any():
                value = as_node(function(wrap(take_index(node, index)), *args, **kw))
                result = assign_index(result, index, value)
    return wrap(result)


def _conditions_of(condlist: ArrayLike | Sequence[ArrayLike], x: Node) -> list[Node]:
    """One mask of the shape of `x` for each condition; a single one need not be in a list."""
    is_single = not isinstance(condlist, Sequence) and np.ndim(condlist) == len(x.shape)
    is_scalars = isinstance(condlist, Sequence) and x.shape and np.ndim(condlist[0]) == 0
    given = [condlist] if is_single or is_scalars else condlist
    masks = [placed(cast(as_node(condition), BOOL), x.type.device) for condition in given]
    for number, mask in enumerate(masks):
        if mask.shape != x.shape:
            raise ShapeError(
                explain(
                    "piecewise",
                    "a condition does not have the shape of x",
                    got={"x": x.type, f"condition {number}": mask.type},
                )
            )
    return masks


def _assigned_where(
    result: Node, mask: Node, x: Node, function: Callable[[Any], ArrayLike]
) -> Node:
    """`result`, and where a mask that is not known yet is true, what `function` makes of `x`."""
    if x.shape:
        changed, places = wrap(result), wrap(mask)
        try:
            changed[places] = function(wrap(x)[places])
        except TracingError:
            pass  # it needs the number of elements, or what tensors alone are good for
        else:
            return changed._node
    chosen = wrap(OPS["where"](mask, x, _element_where(mask, x)))
    value = broadcast_to(cast(as_node(function(chosen)), x.dtype), x.shape)
    return OPS["where"](mask, value, result)


def _element_where(mask: Node, x: Node) -> Node:
    """An element of `x` for which the mask is true, if there is one, as a constant."""
    size = x.type.size
    if size == 0:
        return full(0, (), x.dtype)
    first = OPS["argmax"](reshape(mask, (size,)), axis=0)
    return OPS["detach"](gather(reshape(x, (size,)), first, checked=False))
