"""What differentiated functions are given and return: trees of arrays and numbers, looked at."""

from collections.abc import Sequence
from typing import Any

from numba_grad.dtypes import is_floating, is_inexact
from numba_grad.errors import DTypeError, ShapeError, explain
from numba_grad.frontend.inputs import trees
from numba_grad.frontend.inputs.arrays import as_node, nodes_of_result
from numba_grad.graph.node import Node
from numba_grad.ops.families import cast


def inexact(operation: str, node: Node) -> Node:
    if not is_inexact(node.dtype):
        raise DTypeError(
            explain(
                operation,
                "only floating and complex values have derivatives",
                got={"value": node.type},
                fix="x.astype(numpy.float64), or 2.0 instead of 2, or other argnums",
            )
        )
    return node


def output_nodes(
    operation: str, out: Any, is_inexact: bool = False
) -> tuple[list[Node], trees.Structure]:
    """The leaves of a result, and its structure."""
    leaves, structure = trees.flatten(out)
    if out is None:
        raise TypeError(explain(operation, "the function returned None", fix="return a value"))
    nodes = nodes_of_result(operation, leaves)
    if is_inexact:
        for node in nodes:
            inexact(operation, node)
    return nodes, structure


def scalar(operation: str, out: Any) -> Node:
    """The one real number that a function must return to have a gradient."""
    if out is None:
        raise TypeError(explain(operation, "the function returned None", fix="return a number"))
    leaves, structure = trees.flatten(out)
    if len(leaves) != 1 or not structure.is_leaf():
        raise TypeError(
            explain(
                operation,
                "the function must return one number",
                got={"result": described(out)},
                fix="has_aux=True to return (value, anything else), or ng.jacobian(f)",
            )
        )
    (node,) = nodes_of_result(operation, leaves)
    if node.shape != ():
        raise ShapeError(
            explain(
                operation,
                "the function must return one number, a 0-d result",
                got={"result": node.type},
                expected="shape ()",
                fix=f"ng.{operation}(lambda x: f(x).sum()), or ng.jacobian(f)",
            )
        )
    if not is_floating(node.dtype):
        raise DTypeError(
            explain(
                operation,
                "the function must return a real, floating number",
                got={"result": node.type},
                fix="return result.real, or ng.jacobian(f)"
                if node.dtype.kind == "c"
                else "a sum of floating values: counts, positions and comparisons have no slope",
            )
        )
    return node


def matching(
    operation: str, name: str, tree: Any, structure: trees.Structure, nodes: Sequence[Node]
) -> list[Node]:
    """The leaves of `tree`, of the structure and shapes of `nodes`, in the dtypes of these."""
    if structure.is_leaf():
        leaves = [tree]
    else:
        leaves, own = trees.flatten(tree)
        if own != structure:
            raise ValueError(trees.structure_mismatch(operation, name, own, structure))
    result = []
    for number, (value, node) in enumerate(zip(leaves, nodes, strict=True)):
        x = as_node(value)
        if x.shape != node.shape or (x.dtype.kind == "c" and is_floating(node.dtype)):
            raise (DTypeError if x.shape == node.shape else ShapeError)(
                explain(
                    operation,
                    "a tangent or cotangent must have the type of its value",
                    got={trees.leaf_names(structure, name)[number]: x.type},
                    expected=repr(node.type),
                )
            )
        result.append(cast(x, node.dtype))
    return result


def described(out: Any) -> str:
    if isinstance(out, tuple | list):
        return f"{type(out).__name__} of length {len(out)}"
    return type(out).__name__
