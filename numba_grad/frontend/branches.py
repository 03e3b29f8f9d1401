"""Branches as operations: `cond`, `switch`. Only the branch that is chosen runs."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from numba_grad.errors import ShapeError, explain
from numba_grad.frontend import trees
from numba_grad.frontend.arrays import as_node, wrap
from numba_grad.frontend.bodies import Traced, name_of, traced
from numba_grad.graph.node import Node
from numba_grad.ops.families import cast
from numba_grad.transforms.branches import branch, with_common_arguments


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
        If results differ in structure or dtype.
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
    node = as_node(pred)
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
    node = as_node(index)
    if node.shape != () or node.dtype.kind not in "iu":
        raise (ShapeError if node.shape != () else TypeError)(
            explain(
                "switch",
                "the index must be one integer",
                got={"index": node.type},
                expected="an integer, 0-d",
            )
        )
    if not len(branches):
        raise ValueError(explain("switch", "there is no branch", got={"branches": branches}))
    return _switch("switch", cast(node, np.dtype(np.int64)), tuple(branches), operands)


def _switch(
    operation: str, index: Node, functions: Sequence[Callable[..., Any]], operands: tuple[Any, ...]
) -> Any:
    leaves, structure = trees.flatten(operands)
    given = [as_node(x) for x in leaves]
    types = [x.type for x in given]
    branches = [
        traced(operation, f, types, structure, leaves, is_repeated=False) for f in functions
    ]
    first = branches[0]
    for f, other in zip(functions, branches, strict=True):
        _check_branch(operation, functions[0], first, f, other)
    captured = [node for x in branches for node in x.captured]
    targets = with_common_arguments([x.target for x in branches], len(given))
    if not first.target.outputs:
        return trees.unflatten(first.structure, [])
    results = branch(index, targets, [*given, *captured])
    return trees.unflatten(first.structure, map(wrap, results))


def _check_branch(
    operation: str,
    first_function: Callable[..., Any],
    first: Traced,
    function: Callable[..., Any],
    other: Traced,
) -> None:
    if other.structure != first.structure:
        raise TypeError(
            trees.structure_mismatch(
                operation, f"the result of {name_of(function)}", other.structure, first.structure
            )
        )
    names = trees.leaf_names(first.structure, "result")
    for name, a, b in zip(names, first.target.outputs, other.target.outputs, strict=True):
        if a.type is not b.type:
            same_shape = a.shape == b.shape
            raise (TypeError if same_shape else ShapeError)(
                explain(
                    operation,
                    f"branches return different {'dtypes' if same_shape else 'shapes'}",
                    got={
                        f"{name} of {name_of(first_function)}": a.type,
                        f"{name} of {name_of(function)}": b.type,
                    },
                    expected="the same shapes and dtypes",
                    fix=".astype(...) in one of them" if same_shape else "",
                )
            )
