"""Branches as operations: `cond`, `switch`. Only the branch that is chosen runs."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from numba_grad.compiler.known_bodies import known_body
from numba_grad.errors import ShapeError, explain
from numba_grad.fresh_thread import imported
from numba_grad.frontend.inputs import trees
from numba_grad.frontend.inputs.arrays import as_node, is_weak, wrap
from numba_grad.frontend.inputs.changed_arguments import change, returning_arguments
from numba_grad.frontend.loops_and_branches.bodies import (
    Traced,
    communicated,
    device_of,
    first_token,
    name_of,
    on_device_of_body,
    traced,
    with_token,
)
from numba_grad.graph.node import Node, argument
from numba_grad.graph.types import array_type
from numba_grad.ops.families import cast
from numba_grad.transforms.control_flow.branches import branch, with_common_arguments

__all__ = ["cond", "switch"]


def cond(
    pred: Any, true_fun: Callable[..., Any], false_fun: Callable[..., Any], *operands: Any
) -> Any:
    """`true_fun(*operands)` if `pred` holds, else `false_fun(*operands)`. Only one of them runs.

    Parameters
    ----------
    pred : a boolean or number, 0-d
    true_fun, false_fun : functions of the operands whose results have the same structure, shapes
        and dtypes. Both are traced.
    operands : arrays and numbers, possibly in nested containers

    Raises
    ------
    TypeError
        If results differ in structure or dtype, or `pred` is no boolean or number.
    ShapeError
        If they differ in shape, or `pred` has one.

    Notes
    -----
    Of a batch (`vmap`) whose members choose differently each runs the function that it chooses, one
    after the other: a NaN of the other one reaches no value and no gradient. `np.where` computes
    both, and is faster where they are cheap.

    Examples
    --------
    >>> ng.cond(True, lambda x: x + 1, lambda x: x - 1, 2.0)
    tensor(3.)
    """
    node = _chosen_by("cond", "pred", pred, "a boolean or number")
    if node.shape != ():
        raise ShapeError(
            explain(
                "cond",
                "the condition must be one value",
                got={"pred": node.type},
                expected="a boolean, 0-d",
                fix="np.where(pred, x, y) to choose element by element; vmap for many conditions",
            )
        )
    chosen = cast(cast(node, np.dtype(np.bool_)), np.dtype(np.int64))
    return _switch("cond", chosen, (false_fun, true_fun), operands)


def switch(index: Any, branches: Sequence[Callable[..., Any]], *operands: Any) -> Any:
    """`branches[index](*operands)`; the first or the last branch where the index is beyond. Only
    one of them runs.

    Parameters
    ----------
    index : an integer, 0-d
    branches : functions of the operands, at least one, whose results have the same structure,
        shapes and dtypes. All are traced.
    operands : arrays and numbers, possibly in nested containers

    Raises
    ------
    As `cond`.

    Examples
    --------
    >>> ng.switch(1, [lambda x: x, lambda x: x * x], 3.0)
    tensor(9.)
    """
    node = _chosen_by("switch", "index", index, "an integer")
    if node.shape != () or node.dtype.kind not in "iu":
        raise (ShapeError if node.shape != () else TypeError)(
            explain(
                "switch",
                "the index must be one integer",
                got={"index": node.type},
                expected="an integer, 0-d",
            )
        )
    if callable(branches):
        raise TypeError(
            explain(
                "switch",
                "the second argument has the functions",
                got={"branches": repr(branches)},
                expected="a list of functions",
                fix="ng.switch(index, [f, g], *operands)",
            )
        )
    if not len(branches):
        raise ValueError(explain("switch", "there is no branch", got={"branches": branches}))
    return _switch("switch", cast(node, np.dtype(np.int64)), tuple(branches), operands)


def _chosen_by(operation: str, name: str, value: Any, expected: str) -> Node:
    """The value that says which branch runs."""
    if callable(value) or value is None:
        raise TypeError(
            explain(
                operation,
                "the first argument says which branch runs",
                got={name: repr(value)},
                expected=f"{expected}, 0-d; the functions follow it",
            )
        )
    return as_node(value)


def _switch(
    operation: str,
    index: Node,
    functions: Sequence[Callable[..., Any]],
    operands: tuple[Any, ...],
    *,
    returns_changed: bool = False,
) -> Any:
    """`returns_changed`: whether branches return operands that one of them changes in place."""
    leaves, structure = trees.flatten(operands)
    given = [as_node(x) for x in leaves]
    device = device_of([index, *given])

    def trace(f: Callable[..., Any]) -> Traced:
        types = [x.type for x in given]
        return traced(
            operation, f, types, structure, leaves, is_repeated=False, device=device, nodes=given
        )

    while True:
        given = on_device_of_body(operation, given, device)
        branches = [trace(f) for f in functions]
        if any(x.communicates for x in branches):
            threaded = tuple([_with_token(f) for f in functions])
            args = (first_token(), *operands)
            out, token = _switch(operation, index, threaded, args, returns_changed=returns_changed)
            communicated(out, token)
            return out
        changed = sorted({k for x in branches for k in x.changed})
        if changed and not returns_changed:
            whole = tuple([returning_arguments(f, changed) for f in functions])
            out, after = _switch(operation, index, whole, operands, returns_changed=True)
            change(operation, leaves, changed, [x._node for x in after])
            return out
        captured = [node for x in branches for node in x.captured]
        before, device = device, device_of([index, *given, *captured])
        if device == before:
            break
    first = branches[0]
    names = _names(operation, functions)
    _check_structures(operation, names, branches)
    if len({x.target.type for x in branches}) > 1:
        wanted = _dtypes_with_weak(branches)
        branches = [trace(_casting(f, wanted)) for f in functions]
        first = branches[0]
        for name, other in zip(names, branches, strict=True):
            _check_types(operation, names[0], first, name, other)
    captured = [node for x in branches for node in x.captured]
    [index, *captured] = on_device_of_body(operation, [index, *captured], device)
    targets = with_common_arguments([x.target for x in branches], len(given))
    if not first.target.outputs:
        return trees.unflatten(first.structure, [])
    operands_of_all = [*given, *captured]
    elements = imported("numba_grad.transforms.control_flow.elements_of_branches")
    targets, inputs, written = elements.with_elements_apart(targets, operands_of_all, known_body)
    results = elements.put_back(branch(index, targets, inputs), written)
    return trees.unflatten(first.structure, map(wrap, results))


def _check_structures(operation: str, names: list[str], branches: list[Traced]) -> None:
    first = branches[0].structure
    for name, other in zip(names, branches, strict=True):
        if other.structure != first:
            result = f"the result of {name}"
            raise TypeError(trees.structure_mismatch(operation, result, other.structure, first))


def _with_token(f: Callable[..., Any]) -> Callable[..., Any]:
    """A branch, where one communicates: of the token and the operands."""
    threaded = with_token(f)

    def branch_with_token(token: Any, *operands: Any) -> tuple[Any, Any]:
        return threaded(operands, token)

    branch_with_token.__name__ = name_of(f)
    return branch_with_token


def _names(operation: str, functions: Sequence[Callable[..., Any]]) -> list[str]:
    """What messages call the functions, which may all be lambdas."""
    if operation == "cond":
        roles = ("false_fun", "true_fun")
    else:
        roles = tuple([f"branches[{k}]" for k in range(len(functions))])
    return [f"{role}, {name_of(f)}" for role, f in zip(roles, functions, strict=True)]


def _dtypes_with_weak(branches: Sequence[Traced]) -> list[np.dtype]:
    """The dtypes of results, where Python numbers take that of what other branches return."""
    found = []
    for k in range(len(branches[0].leaves)):
        pairs = [(x.leaves[k], x.target.outputs[k].dtype) for x in branches]
        strong = [dtype for leaf, dtype in pairs if not is_weak(leaf)]
        if strong:
            like = argument(array_type((), strong[0]))
            numbers = [as_node(leaf, like=like).dtype for leaf, _ in pairs if is_weak(leaf)]
            found.append(np.result_type(strong[0], *numbers))
        else:
            found.append(np.result_type(*[dtype for _, dtype in pairs]))
    return found


def _casting(f: Callable[..., Any], dtypes: Sequence[np.dtype]) -> Callable[..., Any]:
    """`f`, whose results that are Python numbers have these dtypes."""

    def casting(*args: Any) -> Any:
        leaves, structure = trees.flatten(f(*args))
        pairs = zip(leaves, dtypes, strict=True)
        return trees.unflatten(
            structure, [wrap(cast(as_node(x), t)) if is_weak(x) else x for x, t in pairs]
        )

    casting.__name__ = name_of(f)
    return casting


def _check_types(operation: str, first_name: str, first: Traced, name: str, other: Traced) -> None:
    leaves = trees.leaf_names(first.structure, "result")
    for leaf, a, b in zip(leaves, first.target.outputs, other.target.outputs, strict=True):
        if a.type is not b.type:
            same_shape = a.shape == b.shape
            raise (TypeError if same_shape else ShapeError)(
                explain(
                    operation,
                    f"functions return different {'dtypes' if same_shape else 'shapes'}",
                    got={f"{leaf} of {first_name}": a.type, f"{leaf} of {name}": b.type},
                    expected="the same shapes and dtypes",
                    fix=".astype(...) in one of them" if same_shape else "",
                )
            )
