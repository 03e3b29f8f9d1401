"""New tensors: from data, constants, and matrices of ones and zeros. Ranges are in `ranges.py`.

Constants are recorded, not stored: they cost no memory until somebody asks for
their values.
"""

import operator
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from numba_grad.autograd.tensor_class import is_tensor
from numba_grad.autograd.views import is_contiguous, note_array
from numba_grad.compiler.backends import copied_to
from numba_grad.dtypes import FLOAT64, INT64
from numba_grad.errors import GradientError, ShapeError, TracingError, explain
from numba_grad.frontend.inputs.arrays import (
    SEQUENCES,
    ArrayLike,
    as_node,
    as_optional_dtype,
    has_tensors,
    is_masked,
    is_scalar,
    is_stand_in,
    node_of,
    own_array,
    scalar_leaf,
    stacked_tensors,
    value_of,
    wrap,
)
from numba_grad.frontend.inputs.constants import check_constant
from numba_grad.frontend.inputs.devices import device_kind, device_name, on_device
from numba_grad.frontend.inputs.known_calls import by_types
from numba_grad.frontend.inputs.tracing import is_tracing
from numba_grad.graph.node import LEAF, OPS, Node, leaf, numbers
from numba_grad.graph.types import as_dtype
from numba_grad.ops.families import broadcast_to, cast, placed, reshape
from numba_grad.ops.families import full as constant

if TYPE_CHECKING:
    from numba_grad.frontend.tensors.tensor import Tensor

__all__ = [
    "array",
    "asarray",
    "ascontiguousarray",
    "copy",
    "empty",
    "empty_like",
    "eye",
    "frombuffer",
    "fromiter",
    "full",
    "full_like",
    "identity",
    "meshgrid",
    "ones",
    "ones_like",
    "tensor",
    "tri",
    "tril",
    "triu",
    "zeros",
    "zeros_like",
]

Shape = int | Sequence[int]
BytesLike = (
    bytes | bytearray | memoryview
)  # what numpy.frombuffer takes: a Buffer, since Python 3.12
_ON_GPU = "__cuda_array_interface__"  # of arrays on a GPU: CuPy's, PyTorch's, Numba's


def tensor(
    obj: ArrayLike,
    dtype: object = None,
    device: object = None,
    requires_grad: bool = False,
    *,
    copy: bool = True,
) -> "Tensor":
    """A new tensor with the values of `obj`: an array, a number, or nested sequences of these.

    Parameters
    ----------
    dtype : as NumPy finds it, by default: float64 for Python floats, int64 for integers
    device : "cpu", "cuda" (the current GPU) or "cuda:1"; by default where `obj` is
    requires_grad : whether gradients for it are accumulated in its `grad`
    copy : with False, the tensor shares memory with the NumPy array `obj`, or with an array of
        another library on a GPU (`__cuda_array_interface__`). Writing to that array
        afterwards changes the tensor, and makes the values and gradients of whatever was recorded
        from it, and not yet computed, wrong without any error.

    Raises
    ------
    DTypeError
        For objects, strings, dates, long doubles, masked arrays.
    ShapeError
        For nested sequences of different lengths.
    GradientError
        For what a running transform (`grad`, `jacobian`, ...) differentiates by.

    Notes
    -----
    A Tensor `obj` gives a new leaf without history, as `obj.detach()`; sequences of tensors that
    require grad are refused. `array` and `asarray` keep the history of both.

    Examples
    --------
    >>> ng.tensor([1.0, 2.0], requires_grad=True)
    tensor([1., 2.], requires_grad=True)
    """
    wanted = as_optional_dtype(dtype)
    node = node_of(obj)
    value = obj
    if node is not None:
        check_constant(node, "tensor")
        node = OPS["detach"](node)
    elif is_scalar(obj):
        value = np.array(obj, wanted)
    elif isinstance(obj, SEQUENCES):
        node = stacked_tensors(obj) if copy else None
        if node is not None and node.requires_grad:
            raise _detached_from(node)
    elif isinstance(obj, np.ndarray):
        if copy and is_tracing():
            # Closed over: read at each call.
            node = as_node(obj if is_masked(obj) else obj.view(np.ndarray))
    elif hasattr(obj, _ON_GPU):
        node = device_kind("cuda").node_from_interface(obj, copy)
    if node is None:
        return result_of(_leaf_of(value, wanted, device, copy), requires_grad)
    node = node if wanted is None else cast(node, wanted)
    return result_of(on_device(node, device), requires_grad)


def _leaf_of(value: ArrayLike, dtype: np.dtype | None, device: object, copy: bool) -> Node:
    return leaf(copied_to(own_array(value, dtype, copy=copy), device_name(device)))


def _detached_from(node: Node) -> GradientError:
    return GradientError(
        explain(
            "tensor",
            "a leaf made of tensors that require grad would have no gradient by them",
            got={"obj": node.type},
            expected="numbers, arrays, tensors that require no grad",
            fix="ng.array([x, y]), which is np.stack([x, y]) and has the gradient; x.detach()",
        )
    )


def asarray(
    obj: ArrayLike, dtype: object = None, device: object = None, *, copy: bool | None = None
) -> "Tensor":
    """`obj` as a tensor. A Tensor that is so already is returned as it is, unless `copy` is True;
    what stands for a Python number is a tensor that does not, with a dtype of its own.

    Gradients flow through, also of nested lists, tuples and deques with tensors in them.

    Raises
    ------
    ValueError
        With `copy=False`, if a copy is needed.
    """
    if isinstance(obj, SEQUENCES):
        node = stacked_tensors(obj)
        if node is None:
            wanted = as_optional_dtype(dtype)
            if device is None:
                return _array(numbers(own_array(obj, wanted, copy=copy is not False)))
            return _array(_leaf_of(obj, wanted, device, copy is not False))
        if copy is False:
            raise ValueError(
                explain("asarray", "a copy is needed to join tensors", got={"copy": False})
            )
        obj, copy = wrap(node), None
        if dtype is None and device is None:  # as in the steps of loops
            return obj
    else:
        node = node_of(obj)
    if node is None:
        return tensor(obj, dtype, device, copy=copy is not False)
    wanted = as_optional_dtype(dtype)
    moved = on_device(node, device)
    if (wanted is None or wanted == node.dtype) and moved is node:
        return _array(OPS["identity"](node)) if copy or is_stand_in(obj) else obj
    if copy is False:
        raise ValueError(
            explain(
                "asarray",
                "a copy is needed to convert",
                got={"obj": node.type, "dtype": wanted, "device": device, "copy": False},
                fix="copy=None",
            )
        )
    return _array(moved if wanted is None else cast(moved, wanted))


def array(
    obj: ArrayLike, dtype: object = None, *, copy: bool | None = True, ndmin: int = 0
) -> "Tensor":
    """As `asarray`, but by default a new tensor, and with axes of size 1 in front up to `ndmin`."""
    result = asarray(obj, dtype, copy=copy)
    missing = ndmin - result.ndim if ndmin else 0
    return wrap(reshape(as_node(result), (1,) * missing + result.shape)) if missing > 0 else result


def ascontiguousarray(obj: ArrayLike, dtype: object = None) -> "Tensor":
    """As `asarray`, with at least one axis. A view whose elements do not follow one another in
    row-major order is copied, and no view any more."""
    is_apart = is_tensor(obj) and not is_contiguous(obj, "C")
    return array(obj, dtype, copy=True if is_apart else None, ndmin=1)


def copy(x: ArrayLike, /) -> "Tensor":
    """The same values as a new tensor; gradients flow through."""
    return asarray(x, copy=True)


def frombuffer(
    buffer: BytesLike, dtype: object = float, count: int = -1, offset: int = 0
) -> "Tensor":
    """`count` numbers, or all, from the bytes of `buffer` after the first `offset`: a copy."""
    return tensor(np.frombuffer(buffer, as_dtype(dtype), count, offset))


def fromiter(iterable: Iterable[Any], dtype: object, count: int = -1) -> "Tensor":
    """The first `count` numbers, or all, that `iterable` gives, along one axis. Gradients flow
    through."""
    values = list(iterable if count < 0 else islice(iterable, count))
    if has_tensors(values):
        if len(values) < count:
            what = "the iterator is too short"
            raise ValueError(explain("fromiter", what, got={"values": len(values), "count": count}))
        return asarray(values, dtype)
    return tensor(np.fromiter(values, as_dtype(dtype), count), copy=False)


def zeros(
    shape: Shape, dtype: object = None, device: object = None, requires_grad: bool = False
) -> "Tensor":
    """A tensor filled with zeros, of float64 by default."""
    kind = as_optional_dtype(dtype)
    return _constant(0, as_shape("zeros", shape), kind, device_name(device), requires_grad)


def ones(
    shape: Shape, dtype: object = None, device: object = None, requires_grad: bool = False
) -> "Tensor":
    """A tensor filled with ones, of float64 by default."""
    kind = as_optional_dtype(dtype)
    return _constant(1, as_shape("ones", shape), kind, device_name(device), requires_grad)


def empty(
    shape: Shape, dtype: object = None, device: object = None, requires_grad: bool = False
) -> "Tensor":
    """As `zeros`: there is no uninitialized memory here, and none is needed."""
    kind = as_optional_dtype(dtype)
    return _constant(0, as_shape("empty", shape), kind, device_name(device), requires_grad)


def full(
    shape: Shape,
    fill_value: ArrayLike,
    dtype: object = None,
    device: object = None,
    requires_grad: bool = False,
) -> "Tensor":
    """A tensor filled with `fill_value`, which may be a tensor: gradients flow to it.

    The dtype is that of `fill_value` by default. An array is broadcast to `shape`, as in NumPy.
    """
    node = on_device(_fill_node(fill_value, as_optional_dtype(dtype)), device)
    return result_of(broadcast_to(node, as_shape("full", shape)), requires_grad)


def zeros_like(
    x: ArrayLike,
    dtype: object = None,
    device: object = None,
    requires_grad: bool = False,
    *,
    shape: Shape | None = None,
) -> "Tensor":
    """Zeros in the shape and the dtype of `x`, unless others are given."""
    node = as_node(x)
    sizes, where = _shape_like(node, shape), _device_like(node, device)
    return _constant(0, sizes, as_optional_dtype(dtype) or node.dtype, where, requires_grad)


def ones_like(
    x: ArrayLike,
    dtype: object = None,
    device: object = None,
    requires_grad: bool = False,
    *,
    shape: Shape | None = None,
) -> "Tensor":
    """Ones in the shape and the dtype of `x`, unless others are given."""
    node = as_node(x)
    sizes, where = _shape_like(node, shape), _device_like(node, device)
    return _constant(1, sizes, as_optional_dtype(dtype) or node.dtype, where, requires_grad)


def empty_like(
    x: ArrayLike,
    dtype: object = None,
    device: object = None,
    requires_grad: bool = False,
    *,
    shape: Shape | None = None,
) -> "Tensor":
    """As `zeros_like`."""
    return zeros_like(x, dtype, device, requires_grad, shape=shape)


def full_like(
    x: ArrayLike,
    fill_value: ArrayLike,
    dtype: object = None,
    device: object = None,
    requires_grad: bool = False,
    *,
    shape: Shape | None = None,
) -> "Tensor":
    """`fill_value` in the shape and the dtype of `x`, unless others are given."""
    node = as_node(x)
    filling = _fill_node(fill_value, as_optional_dtype(dtype) or node.dtype)
    filling = placed(filling, _device_like(node, device))
    return result_of(broadcast_to(filling, _shape_like(node, shape)), requires_grad)


def _shape_like(node: Node, shape: Shape | None) -> tuple[int, ...]:
    return node.shape if shape is None else as_shape("shape", shape)


def _device_like(node: Node, device: object) -> str:
    return node.type.device if device is None else device_name(device)


def eye(
    n_rows: int,
    n_cols: int | None = None,
    k: int = 0,
    dtype: object = None,
    device: object = None,
    requires_grad: bool = False,
) -> "Tensor":
    """Ones on the diagonal number `k` (above the main one if positive), zeros elsewhere."""
    rows = operator.index(n_rows)
    shape = as_shape("eye", (rows, rows if n_cols is None else n_cols))
    mask = OPS["equal"](*_diagonal_numbers(shape, k))
    node = cast(mask, as_optional_dtype(dtype) or FLOAT64)
    return result_of(on_device(node, device), requires_grad)


def identity(n: int, dtype: object = None) -> "Tensor":
    """The n by n identity matrix, of float64 by default."""
    return eye(n, dtype=dtype)


def tri(n: int, m: int | None = None, k: int = 0, dtype: object = None) -> "Tensor":
    """Ones at and below the diagonal number `k` of an n by m matrix, zeros elsewhere."""
    shape = as_shape("tri", (n, n if m is None else m))
    return wrap(cast(lower_triangle(shape, k), as_optional_dtype(dtype) or FLOAT64))


def lower_triangle(shape: tuple[int, ...], k: int) -> Node:
    """Mask of what lies on or below diagonal number `k` of matrices of the last two sizes."""
    return OPS["less_equal"](*_diagonal_numbers(shape[-2:], k))


def _diagonal_numbers(shape: tuple[int, ...], k: int) -> tuple[Node, Node]:
    """The column of each element, and the column where diagonal `k` crosses its row."""
    columns = reshape(OPS["iota"](size=shape[1], dtype=INT64), (1, shape[1]))
    rows = reshape(OPS["iota"](size=shape[0], dtype=INT64), (shape[0], 1))
    return columns, OPS["add"](rows, scalar_leaf(operator.index(k), INT64))


@by_types(operands=1)
def tril(x: ArrayLike, k: int = 0) -> "Tensor":
    """`x` with zeros above diagonal number `k` of its last two axes; 1-d, it is every row."""
    return _triangle("tril", x, k, keep_lower=True)


@by_types(operands=1)
def triu(x: ArrayLike, k: int = 0) -> "Tensor":
    """`x` with zeros below diagonal number `k` of its last two axes; 1-d, it is every row."""
    return _triangle("triu", x, k - 1, keep_lower=False)


def _triangle(operation: str, x: ArrayLike, k: int, *, keep_lower: bool) -> "Tensor":
    node = as_node(x)
    if not node.shape:
        expected = "(n,) or (..., n, m)"
        raise ShapeError(explain(operation, "no axis", got={"x": node.type}, expected=expected))
    if len(node.shape) == 1:
        node = broadcast_to(node, node.shape * 2)
    zero = constant(0, (), node.dtype)
    mask = lower_triangle(node.shape, k)
    kept = (mask, node, zero) if keep_lower else (mask, zero, node)
    return wrap(OPS["where"](*kept))


def meshgrid(
    *arrays: ArrayLike, copy: bool = True, sparse: bool = False, indexing: str = "xy"
) -> "list[Tensor]":
    """The coordinates of a grid, one tensor per axis, from the coordinates along each axis.

    With "xy" the first array runs along axis 1 and the second along axis 0; with "ij" each runs
    along the axis of its number. With `sparse` they have size 1 along the other axes. `copy` is
    accepted for NumPy's sake: nothing is shared.
    """
    if indexing not in ("xy", "ij"):
        raise ValueError(explain("meshgrid", f"indexing={indexing!r}", expected="'xy' or 'ij'"))
    nodes = [as_node(x) for x in arrays]
    for number, node in enumerate(nodes):
        if len(node.shape) > 1:
            raise ShapeError(
                explain("meshgrid", "not 1-d", got={f"array {number}": node.type}, expected="(n,)")
            )
    axes = list(range(len(nodes)))
    if indexing == "xy" and len(nodes) > 1:
        axes[:2] = [1, 0]
    shape = [1] * len(nodes)
    for node, axis in zip(nodes, axes, strict=True):
        shape[axis] = node.type.size
    grids = []
    for node, axis in zip(nodes, axes, strict=True):
        alone = [1] * len(nodes)
        alone[axis] = node.type.size
        grid = reshape(node, tuple(alone))
        grids.append(wrap(grid if sparse else broadcast_to(grid, tuple(shape))))
    return grids


def integers(values: Any) -> list[int]:
    """One integer, or a sequence of them, as Python integers."""
    kind = values.__class__
    if kind is int:
        return [values]
    if kind is tuple or kind is list:  # NumPy would make an array of it to count its axes: 1 us
        return list(map(operator.index, values))
    if isinstance(values, Iterable) and np.ndim(values):  # type: ignore[arg-type]
        return [operator.index(value) for value in values]
    return [operator.index(values)]  # type: ignore[arg-type]


def as_shape(operation: str, shape: object) -> tuple[int, ...]:
    """An integer or a sequence of them as a shape."""
    try:
        result = tuple(integers(shape))
    except TracingError:
        raise
    except TypeError:
        raise TypeError(
            explain(
                operation,
                "not a shape",
                got={"shape": repr(shape)},
                expected="integers",
                fix="int(size) for whole floating numbers",
            )
        ) from None
    if min(result, default=0) < 0:
        raise ShapeError(
            explain(operation, "negative sizes", got={"shape": result}, expected="sizes >= 0")
        )
    return result


def _constant(
    value: int, shape: tuple[int, ...], dtype: np.dtype | None, device: str, requires_grad: bool
) -> "Tensor":
    dtype = dtype or FLOAT64
    if requires_grad:
        # A leaf that requires grad holds its values: made here, without starting the engine.
        node = leaf(copied_to(np.full(shape, value, dtype), device))
    else:
        node = constant(value, shape, dtype, device)
    return result_of(node, requires_grad)


def _fill_node(value: ArrayLike, dtype: np.dtype | None) -> Node:
    if dtype is None:
        return as_node(value)
    if is_scalar(value):
        return scalar_leaf(value, dtype)
    return cast(as_node(value), dtype)


def result_of(node: Node, requires_grad: bool) -> "Tensor":
    """A tensor of `node`: a leaf if it shall require grad."""
    if not requires_grad:
        return _array(node)
    # A leaf of its own: a gradient is accumulated in it, so it must not be an operation's result.
    if node.op is not LEAF:
        value_of(node, "requires_grad")  # which computes it, and refuses to where it cannot
        node = leaf(node.value)
    result = wrap(node)
    result.requires_grad_()
    return result


def _array(node: Node) -> "Tensor":
    """A new tensor that is an array, also without axes."""
    result = wrap(node)
    note_array(result)
    return result
