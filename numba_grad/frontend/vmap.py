"""`vmap`: a function of one example becomes a function of many."""

from collections.abc import Callable
from typing import Any

import numpy as np

from numba_grad.errors import ShapeError, explain
from numba_grad.frontend.derived_functions import derived_from
from numba_grad.frontend.inputs import trees
from numba_grad.frontend.inputs.arrays import as_node, wrap
from numba_grad.graph import order
from numba_grad.graph.node import OPS, Node, argument
from numba_grad.graph.types import normalize_axis
from numba_grad.transforms.batch import batch

__all__ = ["vmap"]


def vmap(f: Callable[..., Any], in_axes: Any = 0, out_axes: Any = 0) -> Callable[..., Any]:
    """A function that applies `f` to every slice of its arguments and stacks the results.

    Parameters
    ----------
    f : function of arrays, or of nested tuples, lists, dicts and dataclasses of them
    in_axes : the axis of the examples. An int for all positional arguments; or a tuple with one
        entry for each, an int, None (the same value for all examples), or a nested container of
        these that matches the upper part of the argument. Negative numbers count from the last
        axis.
    out_axes : where that axis goes in the results: an int, or a nested container of ints that
        matches the upper part of the result

    Returns
    -------
    function of the same arguments. Keyword arguments reach `f` as they are.

    Raises
    ------
    ShapeError
        If the mapped axes have different sizes.
    TypeError
        If `f` needs a value in Python (`if x > 0`, `float(x)`): inside, `x` stands for all examples
        at once.

    Notes
    -----
    `f` runs once. Each operation is replaced by its batched form: one program, not a loop.

    Examples
    --------
    >>> ng.vmap(np.dot, in_axes=(0, None))(np.eye(2), np.array([3.0, 4.0]))
    tensor([3., 4.])
    """
    if not callable(f):
        raise TypeError(explain("vmap", "needs a function", got={"f": repr(f)}))

    @derived_from(f, vmap, in_axes, out_axes)
    def batched(*args: Any, **kwargs: Any) -> Any:
        axes = _axes_of_leaves(in_axes, args)
        leaves, structure = trees.flatten(args)
        mapped = {
            k: _axis_first(as_node(leaves[k]), axis, _name(structure, k))
            for k, axis in enumerate(axes)
            if axis is not None
        }
        size = _common_size(mapped, structure)
        members: dict[Node, Node] = {}
        for k, x in mapped.items():
            # It requires grad where the batch does: `f` may differentiate, and must see what is the
            # caller's.
            member = argument(x.type.of_shape(x.shape[1:]), x.requires_grad)
            members[member] = x
            leaves[k] = wrap(member)
        with order.scope(order.token) as scope:
            out = f(*trees.unflatten(structure, leaves), **kwargs)
        out_leaves, out_structure = trees.flatten(out)
        nodes = [as_node(x) for x in out_leaves]
        if scope.communicates:
            *results, token = batch([*nodes, scope.token()], members, size)
            order.advance(results, wrap(token)[0]._node)
        else:
            results = batch(nodes, members, size)
        positions = _prefix("out_axes", out_axes, out)
        return trees.unflatten(
            out_structure,
            [
                wrap(_axis_to(x, axis, _name(out_structure, k, "result")))
                for k, (x, axis) in enumerate(zip(results, positions, strict=True))
            ],
        )

    return batched


def _axes_of_leaves(in_axes: Any, args: tuple[Any, ...]) -> list[Any]:
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    if isinstance(in_axes, tuple) and len(in_axes) != len(args):
        raise ValueError(
            explain(
                "vmap",
                "in_axes needs one entry for each positional argument",
                got={"in_axes": in_axes, "arguments": len(args)},
            )
        )
    axes = _prefix("in_axes", in_axes, args)
    if all(axis is None for axis in axes):
        raise ValueError(
            explain(
                "vmap",
                "nothing to map over",
                got={"in_axes": in_axes, "arguments": len(args)},
                expected="at least one array argument with an axis",
            )
        )
    return axes


def _prefix(name: str, axes: Any, tree: Any) -> list[Any]:
    try:
        return trees.broadcast_prefix(axes, tree)
    except ValueError as error:
        raise ValueError(
            explain(
                "vmap",
                f"{name} does not match the upper part of what it belongs to",
                got={name: axes},
                expected=str(error),
            )
        ) from None


def _name(structure: trees.Structure, number: int, root: str = "arguments") -> str:
    return trees.leaf_names(structure, root)[number]


def _axis_first(x: Node, axis: Any, name: str) -> Node:
    if x.shape == ():
        raise ShapeError(
            explain(
                "vmap",
                "a 0-d value has no axis to map over",
                got={name: x.type},
                fix="in_axes=None for this argument",
            )
        )
    axis = normalize_axis("vmap", axis, len(x.shape))
    if axis == 0:
        return x
    others = [a for a in range(len(x.shape)) if a != axis]
    return OPS["transpose"](x, axes=(axis, *others))


def _axis_to(x: Node, axis: Any, name: str) -> Node:
    if not isinstance(axis, int | np.integer):
        raise TypeError(
            explain("vmap", "out_axes must be integers", got={f"out_axes of {name}": repr(axis)})
        )
    axis = normalize_axis("vmap", axis, len(x.shape))
    if axis == 0:
        return x
    axes = list(range(1, len(x.shape)))
    axes.insert(axis, 0)
    return OPS["transpose"](x, axes=tuple(axes))


def _common_size(mapped: dict[int, Node], structure: trees.Structure) -> int:
    sizes = {x.shape[0] for x in mapped.values()}
    if len(sizes) > 1:
        raise ShapeError(
            explain(
                "vmap",
                "the mapped axes have different sizes",
                got={_name(structure, k): f"size {x.shape[0]}" for k, x in mapped.items()},
                expected="one size for all, or in_axes=None for what is not mapped",
            )
        )
    return sizes.pop()
