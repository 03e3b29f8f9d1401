"""What the user's rules return: pairs, and derivatives of the leaves of a tree."""

from collections.abc import Callable, Sequence
from typing import Any

from numba_grad.dtypes import is_inexact
from numba_grad.errors import DTypeError, GradientError, ShapeError, explain
from numba_grad.frontend.derivatives.results import described
from numba_grad.frontend.inputs import trees
from numba_grad.frontend.inputs.arrays import as_node
from numba_grad.frontend.loops_and_branches.bodies import name_of
from numba_grad.frontend.tensors.python_numbers import is_number
from numba_grad.graph.node import Node
from numba_grad.graph.types import Type
from numba_grad.ops.families import full, placed


def pair(name: str, rule: Callable[..., Any], returned: Any, expected: str) -> tuple[Any, Any]:
    if not isinstance(returned, tuple | list) or len(returned) != 2:
        raise TypeError(
            explain(
                name,
                f"{name_of(rule)} must return two things",
                got={"result": described(returned)},
                expected=expected,
            )
        )
    return returned[0], returned[1]


def derivatives(
    where: str,
    tree: Any,
    structure: trees.Structure,
    what: str,
    types: Sequence[Type],
    names: Sequence[str] | None = None,
) -> list[Node | None]:
    """The leaves of what a rule returned, None for 0, which stand for values of these types."""
    if tree is None:
        return [None] * len(types)
    own, returned = trees.flatten(tree)
    try:
        leaves = structure.flatten_up_to(tree)
    except (ValueError, TypeError):
        leaves = []
    # None in place of a leaf is 0, though for trees in general it is an empty container.
    given = [x for x in leaves if x is not None]
    if len(leaves) != len(types) or list(map(id, given)) != list(map(id, own)):
        raise GradientError(trees.structure_mismatch(where, what, returned, structure))
    names = trees.leaf_names(structure, what) if names is None else names
    return [
        None if x is None or not is_inexact(type.dtype) else _derivative(where, x, type, name)
        for x, type, name in zip(leaves, types, names, strict=True)
    ]


def _derivative(where: str, x: Any, type: Type, name: str) -> Node:
    """One leaf. Python numbers have no dtype of their own."""
    like = full(0, (), type.dtype) if is_number(x) else None
    try:
        node = as_node(x, like)
    except (TypeError, ValueError) as error:
        raise GradientError(
            explain(
                where, f"no derivative of {name}", got={"returned": repr(x)}, expected=str(type)
            )
        ) from error
    if node.shape == type.shape and node.dtype == type.dtype:
        return placed(node, type.device)
    is_dtype = node.shape == type.shape
    raise (DTypeError if is_dtype else ShapeError)(
        explain(
            where,
            f"a derivative of another {'dtype' if is_dtype else 'shape'} than what it belongs to",
            got={name: type, "its derivative": node.type},
            expected=str(type),
            fix=f".astype({type.dtype.name})" if is_dtype else "",
        )
    )
