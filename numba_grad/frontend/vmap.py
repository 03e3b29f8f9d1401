"""`vmap`: a function of one example becomes a function of many."""

from collections.abc import Callable
from typing import Any

import numpy as np

from numba_grad.autograd.tensor_class import is_tensor
from numba_grad.autograd.views import assign
from numba_grad.errors import ShapeError, TracingError, explain
from numba_grad.frontend.derived_functions import derived_from
from numba_grad.frontend.inputs import trees
from numba_grad.frontend.inputs.arrays import as_node, nodes_of_result, value_of, wrap
from numba_grad.frontend.inputs.changed_arguments import change, numbers_of_changed
from numba_grad.frontend.inputs.surroundings import drawing_nothing
from numba_grad.frontend.inputs.tracing import (
    any_of,
    is_run_by_python,
    note_raised,
    noting_raised,
)
from numba_grad.graph import order
from numba_grad.graph.node import OPS, Node, argument
from numba_grad.graph.types import normalize_axis
from numba_grad.graph.walk import toposort
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
    out_axes : where that axis goes in the results: an int, None (the same for all examples, given
        once), or a nested container of these that matches the upper part of the result

    Returns
    -------
    function of the same arguments. Keyword arguments reach `f` as they are.

    Raises
    ------
    ShapeError
        If the mapped axes have different sizes.
    ValueError
        If `out_axes` is None for a result that differs between examples.
    TypeError
        If `f` needs a value in Python (`if x > 0`, `float(x)`): inside, `x` stands for all examples
        at once.
    TracingError
        If `f` draws from NumPy's or Python's generators: all examples would have the same numbers.

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

        def of_example(own: dict[int, Any]) -> Any:
            given = [own.get(k, x) for k, x in enumerate(leaves)]
            return f(*trees.unflatten(structure, given), **kwargs)

        def one_by_one() -> Any:
            return _one_by_one(of_example, size, mapped, leaves, axes, out_axes)

        if is_run_by_python():
            return one_by_one()
        stand_ins, members = _stand_ins(leaves, mapped)
        tensors = [k for k, x in enumerate(stand_ins) if is_tensor(x)]
        before = [stand_ins[k]._node for k in tensors]
        drawing = drawing_nothing("vmap", f, each="example")
        with order.scope(order.token) as scope, noting_raised() as raised, drawing:
            out = f(*trees.unflatten(structure, stand_ins), **kwargs)
        numbers = numbers_of_changed([stand_ins[k] for k in tensors], before)
        changed = [tensors[number] for number in numbers]
        for k, number in zip(changed, numbers, strict=True):
            if axes[k] is None:
                assign(stand_ins[k], before[number])
                raise _changed_for_all(_name(structure, k), before[number])
        out_leaves, out_structure = trees.flatten(out)
        nodes = [*[stand_ins[k]._node for k in changed], *nodes_of_result("vmap", out_leaves)]
        if raised and _is_to_be_raised(*batch([any_of(raised)], members, size)):
            return one_by_one()
        if scope.communicates:
            *results, token = batch([*nodes, scope.token()], members, size)
            order.advance(results, wrap(token)[0]._node)
        else:
            results = batch(nodes, members, size)
        after, results = results[: len(changed)], results[len(changed) :]
        after = [_axis_to(x, axes[k], "") for k, x in zip(changed, after, strict=True)]
        change("vmap", leaves, changed, after)
        of_one = nodes[len(changed) :]
        names = [_name(out_structure, k, "result") for k in range(len(results))]
        given = zip(names, _prefix("out_axes", out_axes, out), results, of_one, strict=True)
        results = [wrap(_as_result(*of_leaf, members)) for of_leaf in given]
        return trees.unflatten(out_structure, results)

    return batched


def _stand_ins(leaves: list[Any], mapped: dict[int, Node]) -> tuple[list[Any], dict[Node, Node]]:
    """The leaves of one example, and what is mapped by its nodes."""
    members: dict[Node, Node] = {}
    stand_ins = list(leaves)
    for k, x in mapped.items():
        # It requires grad where the batch does: `f` may differentiate, and must see what is the
        # caller's.
        member = argument(x.type.of_shape(x.shape[1:]), x.requires_grad)
        members[member] = x
        # An identity, since a leaf that requires grad would refuse `x[i] = v`.
        stand_ins[k] = wrap(OPS["identity"](member) if x.requires_grad else member)
    return stand_ins, members


def _as_result(name: str, axis: Any, of_all: Node, of_one: Node, members: dict[Node, Node]) -> Node:
    if axis is not None:
        return _axis_to(of_all, axis, name)
    if not members.keys().isdisjoint(toposort([of_one])):
        raise _differs(name, of_all)
    return of_one


def _is_to_be_raised(by_each: Node) -> bool:
    """Whether an example raises an exception now: Python runs one by one, and knows the values."""
    by_any = OPS["any"](by_each, axes=(0,))
    return not note_raised(by_any) and bool(value_of(by_any))


def _one_by_one(
    of_example: Callable[[dict[int, Any]], Any],
    size: int,
    mapped: dict[int, Node],
    leaves: list[Any],
    axes: list[Any],
    out_axes: Any,
) -> Any:
    """The results, of examples that are views of what is mapped: these may be changed in place."""
    whole = {k: wrap(OPS["identity"](x)) for k, x in mapped.items()}
    before = {k: x._node for k, x in whole.items()}
    results = [of_example({k: x[number] for k, x in whole.items()}) for number in range(size)]
    changed = [k for k, x in whole.items() if x._node is not before[k]]
    change("vmap", leaves, changed, [_axis_to(whole[k]._node, axes[k], "") for k in changed])
    return _stacked(results, out_axes)


def _stacked(results: list[Any], out_axes: Any) -> Any:
    """The results for single examples, as those for all of them."""
    _, structure = trees.flatten(results[0])
    for number, result in enumerate(results):
        if trees.flatten(result)[1] != structure:
            first, other = repr(results[0]), repr(result)
            raise TypeError(
                explain(
                    "vmap",
                    "the results of examples have other structures",
                    got={"of example 0": first, f"of example {number}": other},
                    expected="one structure, for all examples",
                    fix="np.nan in place of None",
                )
            )
    of_each = [list(map(as_node, trees.flatten(x)[0])) for x in results]
    stacked = []
    for axis, *rows in zip(_prefix("out_axes", out_axes, results[0]), *of_each, strict=True):
        together = [OPS["reshape"](x, shape=(1, *x.shape)) for x in rows]
        whole = OPS["concatenate"](*together, axis=0)
        stacked.append(wrap(rows[0] if axis is None else _axis_to(whole, axis, "")))
    return trees.unflatten(structure, stacked)


def _changed_for_all(name: str, node: Node) -> TracingError:
    return TracingError(
        explain(
            "vmap",
            "the function changes in place what is the same for all examples",
            got={name: node.type},
            expected="changes of what each example has its own part of",
            fix="y = x.copy() inside; or the result of each example, and a sum of them outside",
        )
    )


def _differs(name: str, node: Node) -> ValueError:
    return ValueError(
        explain(
            "vmap",
            "out_axes is None for what differs between examples",
            got={name: f"{node.type}, of {node.shape[0]} examples"},
            expected="a result that is the same for all of them",
            fix="out_axes=0 for this result",
        )
    )


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
            explain(
                "vmap",
                "out_axes must be integers, or None",
                got={f"out_axes of {name}": repr(axis)},
            )
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
