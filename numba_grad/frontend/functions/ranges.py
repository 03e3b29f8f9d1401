"""Evenly spaced values, and functions of indices.

What is computed from plain numbers is a constant; from tensors, gradients flow to both ends.
"""

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from numba_grad.dtypes import INT64, kind_of, promoted
from numba_grad.errors import explain
from numba_grad.frontend.functions.creation import Shape, as_shape, result_of
from numba_grad.frontend.functions.elementwise import floor, where
from numba_grad.frontend.functions.index_arrays import indices
from numba_grad.frontend.functions.powers import power
from numba_grad.frontend.functions.shapes import moveaxis
from numba_grad.frontend.inputs.arrays import (
    ArrayLike,
    as_node,
    as_optional_dtype,
    canonical_dtype,
    node_of,
    own_array,
    scalar_leaf,
    value_of,
    weak_class,
    wrap,
)
from numba_grad.frontend.inputs.devices import on_device
from numba_grad.graph.node import OPS, Node, numbers
from numba_grad.graph.types import broadcast_shapes, normalize_axis
from numba_grad.ops.families import broadcast_to as stretch
from numba_grad.ops.families import cast, reshape

if TYPE_CHECKING:
    from numba_grad.frontend.tensors.tensor import Tensor

__all__ = [
    "arange",
    "bartlett",
    "blackman",
    "fromfunction",
    "geomspace",
    "hamming",
    "hanning",
    "kaiser",
    "linspace",
    "logspace",
]


def arange(
    start: float,
    stop: float | None = None,
    step: float = 1,
    dtype: object = None,
    device: object = None,
    requires_grad: bool = False,
) -> "Tensor":
    """Evenly spaced values from `start` (0 if only one number is given) up to, without, `stop`."""
    wanted = as_optional_dtype(dtype)
    if stop is None:
        start, stop = 0, start
    start, stop, step = (_plain_number("arange", number) for number in (start, stop, step))
    if step == 0:
        raise ValueError(explain("arange", "step is 0", expected="a step other than 0"))
    # Not `in (None, INT64)`: for NumPy, None equals float64, the default of dtypes.
    is_whole = all(number.__class__ is int for number in (start, stop, step))
    if is_whole and (wanted is None or wanted == INT64):
        size = len(range(start, stop, step))  # type: ignore[arg-type]
        node = _integer_range(int(start), int(step), size)
        return result_of(on_device(node, device), requires_grad)
    values = np.arange(start, stop, step, wanted)  # type: ignore[call-overload]
    return result_of(on_device(numbers(values), device), requires_grad)


def _integer_range(start: int, step: int, size: int) -> Node:
    node = OPS["iota"](size=size, dtype=INT64)
    if step != 1:
        node = OPS["multiply"](node, scalar_leaf(step, INT64))
    if start != 0:
        node = OPS["add"](node, scalar_leaf(start, INT64))
    return node


def _plain_number(operation: str, value: object) -> float:
    """A Python number, out of a NumPy scalar or a tensor without gradient."""
    if isinstance(value, (bool, np.bool_)):
        return int(value)
    if isinstance(value, (int, float)):
        return value
    node = node_of(value)
    if node is not None and node.requires_grad:
        raise TypeError(
            explain(
                operation,
                "its numbers have no gradient, and this tensor requires one",
                got={"argument": node.type},
                fix="start + step * ng.arange(n), or x.detach()",
            )
        )
    array = np.asarray(value) if node is None else value_of(node, operation)
    if array.ndim or kind_of(array.dtype) not in "iufb":
        raise TypeError(explain(operation, "not a number", got={"argument": repr(value)}))
    return array.item()


def _of_numbers(values: Any) -> "Tensor":
    return wrap(numbers(own_array(values)))


def linspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: object = None,
    axis: int = 0,
    *,
    device: object = None,
    requires_grad: bool = False,
) -> "Any":  # Tensor, or with retstep, two of them
    """`num` evenly spaced values from `start` to `stop`, which is the last one with `endpoint`.

    Arrays of ends, broadcast, give values along a new `axis`. With `retstep` also the distance of
    two neighbours, nan if there are none. Values for an integer dtype are rounded down.
    """
    number = _count("linspace", num)
    wanted = as_optional_dtype(dtype)
    if node_of(start) is None and node_of(stop) is None:
        values, step = np.linspace(
            start, stop, number, endpoint, retstep=True, dtype=wanted, axis=axis
        )
        result = result_of(on_device(numbers(own_array(values)), device), requires_grad)
        return (result, _of_numbers(step)) if retstep else result
    first, last = _floating_ends("linspace", start, stop)
    intervals = number - 1 if endpoint else number
    # With one value alone the step is not used, nor its gradient, which must not be nan.
    step = OPS["divide"](last - first, scalar_leaf(float(intervals or 1), last.dtype))
    values = _along_new_axis(
        (first, step, last),
        number,
        endpoint,
        lambda k, first, step: first + step * cast(k, step.dtype),
    )
    node = on_device(_finished(values, wanted, axis)._node, device)
    result = result_of(node, requires_grad)
    if not retstep:
        return result
    return result, wrap(step if intervals > 0 else step * scalar_leaf(np.nan, step.dtype))


def logspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    base: ArrayLike = 10.0,
    dtype: object = None,
    axis: int = 0,
) -> "Tensor":
    """`num` values from `base`**`start` to `base`**`stop`, whose logarithms are evenly spaced.

    Gradients flow to all three, if tensors. Arrays broadcast, and give values along a new `axis`.
    """
    wanted = as_optional_dtype(dtype)
    if all(node_of(value) is None for value in (start, stop, base)):
        number = _count("logspace", num)
        return _of_numbers(
            np.logspace(start, stop, number, endpoint, base=base, dtype=wanted, axis=axis)
        )
    if weak_class(base) is not None:
        return _finished(power(base, linspace(start, stop, num, endpoint)), wanted, axis)
    nodes = [as_node(value) for value in (start, stop, base)]
    shape = broadcast_shapes("logspace", ("start", "stop", "base"), [node.type for node in nodes])
    first, last, own_base = (wrap(stretch(node, shape)) for node in nodes)
    return _finished(power(own_base, linspace(first, last, num, endpoint)), wanted, axis)


def geomspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    dtype: object = None,
    axis: int = 0,
) -> "Tensor":
    """`num` values from `start` to `stop`, each the same multiple of the one before.

    Gradients flow to both ends, if tensors. Both are negative, or positive, or complex. Arrays
    broadcast, and give values along a new `axis`.

    Raises
    ------
    ValueError
        If an end is 0; of tensors that are, the values are nan or infinite.
    """
    number = _count("geomspace", num)
    wanted = as_optional_dtype(dtype)
    if node_of(start) is None and node_of(stop) is None:
        return _of_numbers(np.geomspace(start, stop, number, endpoint, dtype=wanted, axis=axis))
    # NumPy computes in float64 at least, unless the result is to be of less.
    first, last = _floating_ends("geomspace", start, stop, np.float64 if wanted is None else wanted)
    intervals = number - 1 if endpoint else number
    logarithm = OPS["log"](OPS["divide"](last, first))
    step = OPS["divide"](logarithm, scalar_leaf(float(intervals or 1), last.dtype))
    values = _along_new_axis(
        (first, step, last),
        number,
        endpoint,
        lambda k, first, step: first * OPS["exp"](step * cast(k, step.dtype)),
    )
    return _finished(values, wanted, axis)


def _count(operation: str, num: int) -> int:
    number = operator.index(num)
    if number < 0:
        raise ValueError(
            explain(
                operation, "negative number of values", got={"num": number}, expected="num >= 0"
            )
        )
    return number


def _floating_ends(
    operation: str, start: ArrayLike, stop: ArrayLike, *dtypes: object
) -> tuple[Node, Node]:
    """Both ends in the dtype that NumPy computes them in, broadcast against each other."""
    nodes = as_node(start), as_node(stop)
    kinds = weak_class(start), weak_class(stop)
    own = [x.dtype if kind is None else kind() for x, kind in zip(nodes, kinds, strict=True)]
    common = promoted(*own, *dtypes, 1.0)  # type: ignore[arg-type]
    shape = broadcast_shapes(operation, ("start", "stop"), [node.type for node in nodes])
    first, last = (stretch(cast(node, canonical_dtype(common)), shape) for node in nodes)
    return first, last


def _along_new_axis(
    nodes: tuple[Node, Node, Node], number: int, endpoint: bool, values: Callable[..., Node]
) -> "Tensor":
    """`values(k, first, step)` for all k along a new first axis; exactly the ends at the ends."""
    first, step, last = (reshape(node, (1, *node.shape)) for node in nodes)
    k = reshape(OPS["iota"](size=number, dtype=INT64), (number, *[1] * len(nodes[0].shape)))
    result = where(OPS["equal"](k, scalar_leaf(0, INT64)), first, values(k, first, step))
    if endpoint and number > 1:
        result = where(OPS["equal"](k, scalar_leaf(number - 1, INT64)), last, result)
    return result


def _finished(values: "Tensor", dtype: np.dtype | None, axis: int) -> "Tensor":
    place = normalize_axis("axis", axis, values.ndim)
    result = moveaxis(values, 0, place) if place else values
    if dtype is None:
        return result
    return wrap(cast((floor(result) if dtype.kind in "iu" else result)._node, dtype))


# Windows: constants


def bartlett(M: int) -> "Tensor":
    """The triangular window of `M` values, 0 at the ends."""
    return _of_numbers(np.bartlett(operator.index(M)))


def blackman(M: int) -> "Tensor":
    """The Blackman window of `M` values: three terms of cosines."""
    return _of_numbers(np.blackman(operator.index(M)))


def hamming(M: int) -> "Tensor":
    """The Hamming window of `M` values: a raised cosine."""
    return _of_numbers(np.hamming(operator.index(M)))


def hanning(M: int) -> "Tensor":
    """The Hann window of `M` values: a cosine, 0 at the ends."""
    return _of_numbers(np.hanning(operator.index(M)))


def kaiser(M: int, beta: float) -> "Tensor":
    """The Kaiser window of `M` values. A larger `beta`, a number, makes it narrower."""
    return _of_numbers(np.kaiser(operator.index(M), _plain_number("kaiser", beta)))


def fromfunction(
    function: Callable[..., Any], shape: Shape, *, dtype: object = float, **kwargs: Any
) -> Any:
    """`function` of the indices along each axis of an array of this `shape`.

    It is called once, with one tensor for each axis, and `kwargs`; what it returns is returned.
    """
    return function(*indices(as_shape("fromfunction", shape), dtype), **kwargs)
