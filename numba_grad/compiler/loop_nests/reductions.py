"""What reductions start from, and how they combine two values."""

import numpy as np

from numba_grad.graph.node import Node

ARG_REDUCTIONS = {
    # The first of equals wins, and the first NaN wins over everything, as in NumPy.
    "argmax": "({value} > {best}) | (({value} != {value}) & ({best} == {best}))",
    "argmin": "({value} < {best}) | (({value} != {value}) & ({best} == {best}))",
}
# Of two parts with equal extremes, or a NaN each, the one that has it at a smaller index.
SAME_AND_BEFORE = (
    "(({value} == {best}) | (({value} != {value}) & ({best} != {best}))) & ({number} < {chosen})"
)
# Of products {x} {y} that nothing else of the kernel reads: LLVM may add before it rounds them.
SUM_OF_PRODUCTS = "reduce_add({accumulator}, {x} * {y})"


def reduction_axes(node: Node) -> tuple[int, ...]:
    """The axes that a reduction node removes."""
    return (node.params["axis"],) if "axis" in node.params else node.params["axes"]


def identity_of(node: Node) -> object:
    """The value that a reduction starts from."""
    identity = node.op.extras.get("identity")
    if identity is not None:
        return identity(node.dtype)
    return extreme(node.dtype, node.op.name)


def extreme(dtype: np.dtype, name: str) -> object:
    """Below everything for "max", above everything for "min"."""
    is_max = name == "max"
    if dtype.kind == "b":
        return not is_max
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return info.min if is_max else info.max
    if dtype.kind == "c":
        return complex(-np.inf, -np.inf) if is_max else complex(np.inf, np.inf)
    return -np.inf if is_max else np.inf
