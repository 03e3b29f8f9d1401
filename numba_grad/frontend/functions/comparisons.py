"""Functions of NumPy that compare whole arrays. They give Python's bool, and compute it now, but in
functions that are traced."""

from numba_grad.dtypes import is_inexact
from numba_grad.errors import ShapeError
from numba_grad.frontend.functions.elementwise import equal, isclose
from numba_grad.frontend.inputs.arrays import ArrayLike, as_node, value_of, wrap
from numba_grad.graph.node import OPS, Node
from numba_grad.graph.types import broadcast_shapes
from numba_grad.graph.walk import is_traced

__all__ = ["allclose", "array_equal", "array_equiv"]


def allclose(
    x1: ArrayLike,
    x2: ArrayLike,
    rtol: ArrayLike = 1e-05,
    atol: ArrayLike = 1e-08,
    equal_nan: bool = False,
) -> bool:
    """Whether |x1 - x2| <= atol + rtol * |x2| everywhere; see `isclose`."""
    return _is_true_everywhere(as_node(isclose(x1, x2, rtol, atol, equal_nan)), "allclose")


def array_equal(x1: ArrayLike, x2: ArrayLike, equal_nan: bool = False) -> bool:
    """Whether both have the same shape and the same elements. nan equals nan with `equal_nan`."""
    x, y = as_node(x1), as_node(x2)
    if x.shape != y.shape:
        return False
    result = as_node(equal(x, y))
    if equal_nan and is_inexact(x.dtype) and is_inexact(y.dtype):
        both = OPS["logical_and"](OPS["isnan"](x), OPS["isnan"](y))
        result = OPS["logical_or"](result, both)
    return _is_true_everywhere(result, "array_equal")


def array_equiv(x1: ArrayLike, x2: ArrayLike) -> bool:
    """Whether both broadcast to one shape, and have the same elements there."""
    x, y = as_node(x1), as_node(x2)
    try:
        broadcast_shapes("array_equiv", ("x1", "x2"), (x.type, y.type))
    except ShapeError:
        return False
    return _is_true_everywhere(as_node(equal(x, y)), "array_equiv")


def _is_true_everywhere(mask: Node, operation: str) -> bool:
    axes = tuple(range(len(mask.shape)))
    result = OPS["all"](mask, axes=axes) if axes else mask
    if is_traced(result):
        return wrap(result)  # type: ignore[return-value]  # what stands for a bool
    return bool(value_of(result, operation))
