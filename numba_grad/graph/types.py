"""What is known of a value before it is computed: shape, dtype, device. Broadcasting, axis
numbers."""

import functools
import math
import operator
import sys
from collections.abc import Iterable, Sequence
from typing import Any, TypeGuard

import numpy as np

from numba_grad.dtypes import bfloat16_class, is_bfloat16
from numba_grad.errors import AxisError, DTypeError, ShapeError, explain

DTYPES = tuple(
    np.dtype(name)
    for name in [
        *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float16", "float32", "float64", "complex64", "complex128"),
    ]
)
SUPPORTED = ", ".join([*(dtype.name for dtype in DTYPES), "bfloat16"])  # for messages
# Equal dtypes to one: NumPy has two for 64-bit integers, long and long long.
KNOWN = {dtype: dtype for dtype in DTYPES}


CPU = "cpu"
# Elements of an array that kernels hold in registers, written out as a whole, at most: a loop of 30
# is as fast, and compiles ten times as fast. Larger ones are in memory, also from step to step.
MOST_WRITTEN_OUT = 16
MOST_BYTES = (1 << 62) - 1  # half of NumPy's bound, so that sums of two sizes are int64 as well


class Type:
    """Shape, dtype and device of one array. Made by `array_type` only: equal types are identical.

    So comparing and hashing cost nothing, which recording a node does several times. What is
    computed from literals alone has the device "cpu", and may be computed on any.
    """

    __slots__ = ("device", "dtype", "nbytes", "shape", "size")

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype, device: str) -> None:
        self.shape = shape
        self.dtype = dtype
        self.device = device  # "cpu", "cuda:0", ...
        self.size = math.prod(shape)  # number of elements
        self.nbytes = self.size * dtype.itemsize
        # As in NumPy, also where an axis is empty: strides are products of the others.
        if math.prod(filter(None, shape)) * dtype.itemsize > MOST_BYTES:
            raise ShapeError(
                explain(
                    "shape",
                    "array is too big: its elements would have more bytes than there are addresses",
                    got={"shape": shape, "dtype": dtype},
                    expected=f"at most {MOST_BYTES} bytes",
                )
            )

    def __reduce__(self) -> tuple[object, ...]:
        return (array_type, (self.shape, self.dtype, self.device))

    def of_shape(self, shape: tuple[int, ...]) -> "Type":
        """Another shape, with the same dtype and device."""
        return array_type(shape, self.dtype, self.device)

    def on(self, device: str) -> "Type":
        """The same on a device."""
        return self if device == self.device else array_type(self.shape, self.dtype, device)

    @property
    def rank(self) -> int:
        return len(self.shape)

    def __repr__(self) -> str:
        where = "" if self.device == CPU else f" on {self.device}"
        return f"{self.dtype.name}[{', '.join(map(str, self.shape))}]{where}"


class TupleType:
    """The types of the results of an operation that has several (a call, a user's Function)."""

    __slots__ = ("items",)

    def __init__(self, items: tuple[Type, ...]) -> None:
        self.items = items

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TupleType) and self.items == other.items

    def __hash__(self) -> int:
        return hash(self.items)

    @property
    def device(self) -> str:
        """That of the items, if it is one."""
        return next((t.device for t in self.items if t.device != CPU), CPU)

    def on(self, device: str) -> "TupleType":
        return TupleType(tuple([t.on(device) for t in self.items]))

    def __repr__(self) -> str:
        return f"({', '.join(map(repr, self.items))})"


_types: dict[tuple[tuple[int, ...], np.dtype, str], Type] = {}
# On which there has been any array in this process.
devices = {CPU}


@functools.lru_cache(maxsize=1 << 14)
def array_type(shape: tuple[int, ...], dtype: np.dtype, device: str = CPU) -> Type:
    """The one type of this shape and dtype on this device."""
    dtype = KNOWN.get(dtype, dtype)
    devices.add(device)
    # Atomic: two threads that make the same type both get the first one.
    return _types.setdefault((shape, dtype, device), Type(shape, dtype, sys.intern(device)))


def as_dtype(dtype: object) -> np.dtype:
    """`dtype` as one of the supported NumPy dtypes, in native byte order.

    Raises
    ------
    DTypeError
        For object, string, datetime, long double and other unsupported dtypes.
    """
    try:
        # ml_dtypes' name of its dtype, which NumPy knows once that is imported.
        wanted = bfloat16_class() if isinstance(dtype, str) and dtype == "bfloat16" else dtype
        result = np.dtype(wanted).newbyteorder("=")  # type: ignore[call-overload]
    except TypeError:
        raise DTypeError(
            explain(
                "dtype",
                "not a dtype",
                got={"dtype": repr(dtype)},
                expected=SUPPORTED,
                fix="a shape in parentheses, ng.zeros((2, 3))" if isinstance(dtype, int) else "",
            )
        ) from None
    known = result if is_bfloat16(result) else KNOWN.get(result)
    if known is None:
        raise DTypeError(
            explain(
                "dtype",
                "not a supported dtype",
                got={"dtype": result},
                expected=SUPPORTED,
                fix="convert with numpy first, for example array.astype(numpy.float64)",
            )
        )
    return known


def normalize_axis(operation: str, axis: object, rank: int) -> int:
    """A possibly negative axis as its non-negative number."""
    try:
        number = operator.index(axis)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(
            explain(operation, "an axis must be an integer", got={"axis": repr(axis)})
        ) from None
    if not -rank <= number < rank:
        raise AxisError(
            explain(
                operation,
                "axis out of range",
                got={"axis": number, "dimensions": rank},
                expected=f"{-rank} <= axis < {rank}" if rank else "no axis: the input is 0-d",
            )
        )
    return number % rank


def is_several(axis: object) -> TypeGuard[Sequence[Any]]:
    """Whether these are axes, or shifts, rather than one: an array without dimensions is one."""
    return isinstance(axis, Iterable) and getattr(axis, "ndim", 1) != 0


def normalize_axes(operation: str, axis: object, rank: int) -> tuple[int, ...]:
    """`None`, an axis, or several, as sorted non-negative numbers. `None` is all axes."""
    if axis is None:
        return tuple(range(rank))
    if not is_several(axis):
        return (normalize_axis(operation, axis, rank),)
    axes = [normalize_axis(operation, a, rank) for a in axis]
    if len(set(axes)) != len(axes):
        raise AxisError(
            explain(operation, "repeated axis", got={"axis": tuple(axis), "dimensions": rank})
        )
    return tuple(sorted(axes))


def is_axis_of_number(axis: object, rank: int) -> bool:
    """Whether this is what NumPy's reductions, `cumsum`, `take` and others take for the axis of an
    array without dimensions: 0, or -1."""
    return rank == 0 and isinstance(axis, int | np.integer) and axis in (0, -1)


def reduced_axes(operation: str, axis: object, rank: int) -> tuple[int, ...]:
    """As `normalize_axes`, for the reductions of ufuncs."""
    return () if is_axis_of_number(axis, rank) else normalize_axes(operation, axis, rank)


def broadcast_shapes(
    operation: str, names: Sequence[str], types: Sequence[Type]
) -> tuple[int, ...]:
    """The shape that all of `types` broadcast to, as in NumPy.

    Raises
    ------
    ShapeError
        Naming each argument with its type.
    """
    shape = types[0].shape
    if all(t.shape == shape for t in types):
        return shape
    try:
        return np.broadcast_shapes(*(t.shape for t in types))
    except ValueError:
        sizes = _broadcast_sizes([t.shape for t in types])
        if sizes is not None:
            return sizes  # which are too many elements for NumPy
        raise ShapeError(
            explain(
                operation,
                "shapes do not broadcast together",
                got=dict(zip(names, types, strict=False)),
                expected="on every axis, counted from the last, equal sizes or a size of 1",
                fix="x[:, None] or x.reshape(...) to line the axes up",
            )
        ) from None


def _broadcast_sizes(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...] | None:
    """The shape that all of `shapes` broadcast to, of any size; None if there is none."""
    rank = max(map(len, shapes))
    result = []
    for axis in range(-rank, 0):
        sizes = {shape[axis] for shape in shapes if len(shape) >= -axis} - {1}
        if len(sizes) > 1:
            return None
        result.append(sizes.pop() if sizes else 1)
    return tuple(result)
