"""Array code to loops of the tree: slices, views, array expressions, products, reductions.

An array expression that is used at once is not stored: `Expression` says what each of its elements
is, and the loops of who uses it compute that. Slices, rows and transposes are views.
"""

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from numba_grad.compiler.numba_functions import numpy_in_loops
from numba_grad.compiler.numba_functions.builder import Builder
from numba_grad.compiler.numba_functions.named_operations import operation_name
from numba_grad.compiler.numba_functions.regions import (
    COMPLEX,
    Axis,
    If,
    Memory,
    Scalar,
    Value,
    View,
)
from numba_grad.compiler.numba_functions.scalar_operations import (
    OPERATIONS,
    dtype_of,
    part_dtype,
)

Indices = tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Expression:
    """An array that is not stored: what an element is, and which arrays that reads."""

    shape: Indices
    dtype: str
    element: Callable[[Indices], Value]
    reads: tuple[View, ...]
    is_view: bool = False  # for NumPy: who writes to it, or to what it reads, is refused
    is_in_order: bool = True  # an element is made of the elements that have its place in `reads`

    @property
    def rank(self) -> int:
        return len(self.shape)


@dataclass(frozen=True, slots=True)
class Method:
    """`array.name`, which is called."""

    name: str
    array: Any


@dataclass(frozen=True, slots=True)
class Listed:
    """A list in the text of a call."""

    items: tuple[Any, ...]


Array = Memory | View | Expression


def is_number(meaning: Any) -> bool:
    return isinstance(meaning, Scalar | bool | int | float)


def is_array(meaning: Any) -> bool:
    return isinstance(meaning, Memory | View | Expression)


def is_complex(meaning: Any) -> bool:
    return getattr(meaning, "dtype", "") in COMPLEX


def lowered(translation: Any, what: str, numba_type: Any, request: tuple[Any, ...]) -> Any:
    """What code with arrays stands for.

    `what` is "operation" (function, meanings), "inplace" (function, array, variable), "item"
    (array, indices), "set_item" (array, indices, meaning), "attribute" (name, array), or "call"
    (meaning of the function, arguments, keywords); `numba_type` is the type of the result.
    """
    return getattr(_Lowering(translation, numba_type), what)(*request)


def stored(translation: Any, array: Array) -> Memory | View:
    """An array in memory."""
    if not isinstance(array, Expression):
        return array
    builder: Builder = translation.builder
    memory = builder.allocate("values", array.dtype, array.shape)
    loops(builder, array.shape, lambda at: builder.store(memory, at, array.element(at)))
    if array.is_view:
        translation.share(memory, array.reads[0].memory)
    return memory


def loops(builder: Builder, shape: Indices, body: Callable[[Indices], None]) -> None:
    """Write loops over all indices."""

    def level(at: Indices) -> None:
        if len(at) == len(shape):
            body(at)
            return
        with builder.loop(shape[len(at)]) as index:
            level((*at, index))

    level(())


class _Lowering:
    def __init__(self, translation: Any, numba_type: Any) -> None:
        self.translation = translation
        self.builder: Builder = translation.builder
        self.type = numba_type

    def refused(self, what: str, instead: str = "") -> Exception:
        return self.translation.refused(what, instead=instead)

    # Arrays.

    def view(self, array: Array) -> View:
        array = stored(self.translation, array)
        return array if isinstance(array, View) else self.builder.whole(array)

    def shape(self, array: Array) -> Indices:
        return array.shape if not isinstance(array, Memory) else self.translation.shape(array)

    def expression(self, array: Array) -> Expression:
        """An array by its elements."""
        if isinstance(array, Expression):
            return array
        view = self.view(array)
        builder = self.builder
        return Expression(view.shape, view.dtype, lambda at: builder.load_view(view, *at), (view,))

    def _at(self, length: Value, size: Value, index: Value) -> Value:
        """The index of an axis that may be broadcast: 0 if there is one element."""
        if length is size or (isinstance(length, Scalar) and length == size):
            return index
        if isinstance(length, int):
            return 0 if length == 1 else index
        is_one = self.builder.define("equal", length, 1)
        return self.builder.define("select", is_one, 0, index, dtype="int64")

    def require(self, condition: Value, problem: str, *shapes: Indices) -> None:
        """An error of the user's line unless the condition is true."""
        if condition is not True:
            self.builder.check(condition, self.translation.problem(problem), shapes)

    def require_fit(self, shape: Indices, target: Indices) -> None:
        """That an array of one shape can be broadcast to another, of as many axes or more."""
        define, equal = self.builder.define, self.builder.equal_lengths
        for length, size in zip(shape, target[len(target) - len(shape) :], strict=True):
            fits = equal(length, size)
            is_one = equal(length, 1)
            if fits is False or is_one is True:
                fits = is_one
            elif fits is not True and is_one is not False:
                fits = define("bitwise_or", fits, is_one, dtype="bool")
            self.require(fits, "shapes that do not fit", shape, target)

    def require_equal(self, problem: str, a: Value, b: Value, *shapes: Indices) -> None:
        self.require(self.builder.equal_lengths(a, b), problem, *shapes)

    def _broadcast_shape(self, shapes: Sequence[Indices]) -> Indices:
        result = self._largest_shape(shapes)
        for shape in shapes:
            self.require_fit(shape, result)
        return result

    def _largest_shape(self, shapes: Sequence[Indices]) -> Indices:
        rank = max(map(len, shapes))
        result: list[Value] = []
        for axis in range(rank):
            size: Value | None = None
            for shape in shapes:
                place = axis - rank + len(shape)
                if place < 0:
                    continue
                length = shape[place]
                if size is None or (isinstance(size, int) and size == 1):
                    size = length
                elif length != size and not isinstance(length, int):
                    is_one = self.builder.define("equal", size, 1)
                    size = self.builder.define("select", is_one, length, size, dtype="int64")
                elif isinstance(length, int) and length != 1:
                    size = length
            assert size is not None
            result.append(size)
        return tuple(result)

    def elementwise(
        self, meanings: Sequence[Any], element: Callable[[list[Value]], Value], dtype: str
    ) -> Expression:
        """Arrays and numbers, broadcast against each other."""
        parts = [self.expression(m) if is_array(m) else m for m in meanings]
        arrays = [p for p in parts if isinstance(p, Expression)]
        if not all(isinstance(p, Expression) or is_number(p) for p in parts):
            raise self.refused("an array expression with this")
        shape = self._broadcast_shape([p.shape for p in arrays])

        def of(at: Indices) -> Value:
            values: list[Value] = []
            for part in parts:
                if not isinstance(part, Expression):
                    values.append(part)
                    continue
                own = at[len(at) - part.rank :]
                sizes = shape[len(shape) - part.rank :]
                places = [
                    self._at(length, size, i)
                    for length, size, i in zip(part.shape, sizes, own, strict=True)
                ]
                values.append(part.element(tuple(places)))
            return element(values)

        reads = tuple([view for p in arrays for view in p.reads])
        is_in_order = all(p.is_in_order for p in arrays)
        return Expression(shape, dtype, of, reads, is_in_order=is_in_order)

    def _result_dtype(self) -> str:
        try:
            return self.translation.dtype_of(getattr(self.type, "dtype", self.type))
        except TypeError:
            raise self.refused(f"an array of type {self.type}") from None

    def _scalar(self, name: str, values: list[Value]) -> Value:
        return self.builder.define(name, *values, dtype=self._result_dtype())

    def operation(self, function: Any, meanings: Sequence[Any]) -> Any:
        if function is operator.matmul:
            return self.product(*meanings)
        name = operation_name(function)
        if function is operator.invert and self._result_dtype() == "bool":
            name = "not"
        if name is None:
            raise self.refused(f"`{getattr(function, '__name__', function)}` of arrays")
        return self._named(name, meanings)

    def _named(self, name: str, meanings: Sequence[Any]) -> Expression:
        dtype = self._result_dtype()
        return self.elementwise(
            meanings, lambda values: self.builder.define(name, *values, dtype=dtype), dtype
        )

    def inplace(self, function: Any, left: Array, variable: Any) -> Any:
        value = self.translation.meaning(variable)
        left = stored(self.translation, left)  # of `a[places] += x`, a copy is written back
        if function is operator.matmul:
            value = self.product(left, value)
            function = None
        self._assign(self.view(left), value, function)
        return left

    # Elements and views.

    def item(self, array: Array, indices: tuple[Any, ...]) -> Any:
        if any(map(is_array, indices)):
            return self._selected(array, indices)
        if isinstance(array, Expression):
            array = stored(self.translation, array)
        return self._viewed(self.view(array), indices)

    def _viewed(self, view: View, indices: tuple[Any, ...]) -> View:
        """The view that slices, integers, None and ... select."""
        values = [getattr(i, "value", i) if not isinstance(i, Scalar) else i for i in indices]
        if any(v is Ellipsis for v in values):
            k = next(k for k, v in enumerate(values) if v is Ellipsis)
            given = sum(v is not None and v is not Ellipsis for v in values)
            values[k : k + 1] = [slice(None)] * (view.rank - given)
        values += [slice(None)] * (view.rank - sum(v is not None for v in values))
        # For each axis of `view`: a fixed index, or start, step, and the new axis.
        taken: list[tuple[Value, Value, int | None]] = []
        shape: list[Value] = []
        for value in values:
            if value is None:
                shape.append(1)
                continue
            length = view.shape[len(taken)]
            if isinstance(value, slice):
                start, step, count = self._span(value, length)
                taken.append((start, step, len(shape)))
                shape.append(count)
            elif is_number(value) and dtype_of(value)[0] in "iu":
                taken.append((self.translation.wrapped(value, length), 0, None))
            else:
                raise self.refused("an index like this")
        define = self.builder.define
        axes = []
        for axis in view.axes:
            if axis.dimension is None:
                axes.append(axis)
                continue
            start, step, dimension = taken[axis.dimension]
            start = define("add", axis.start, define("multiply", axis.step, start))
            axes.append(Axis(start, define("multiply", axis.step, step), dimension))
        return View(view.memory, tuple(axes), tuple(shape))

    def _span(self, given: slice, length: Value) -> tuple[Value, Value, Value]:
        """Start, step and number of elements of a slice."""
        define = self.builder.define
        start, stop, step = [
            None if x is None else getattr(x, "value", x) if not isinstance(x, Scalar) else x
            for x in (given.start, given.stop, given.step)
        ]
        step = 1 if step is None else step
        if isinstance(step, Scalar):
            is_there = define("not_equal", step, 0)
            self.require(is_there, "a slice with a step of 0")
            return self._span_by_data(start, stop, step, length)
        if not isinstance(step, int) or step == 0:
            raise self.refused("a slice with such a step")
        is_forward = step > 0
        least, most = (0, length) if is_forward else (-1, define("subtract", length, 1))

        def clamped(bound: Value) -> Value:
            if isinstance(bound, int) and bound == 0 and is_forward:
                return 0
            return self._clamped(bound, length, least, most)

        first = (least if is_forward else most) if start is None else clamped(start)
        last = (most if is_forward else least) if stop is None else clamped(stop)
        distance = (
            define("subtract", last, first) if is_forward else define("subtract", first, last)
        )
        if (start is None or start == 0) and stop is None and abs(step) == 1:
            return first, step, length
        if abs(step) > 1:
            ahead = define("add", distance, abs(step) - 1)
            distance = define("floor_divide", ahead, abs(step), dtype="int64")
        is_empty = define("less", distance, 0)
        return first, step, define("select", is_empty, 0, distance, dtype="int64")

    def _clamped(self, bound: Value, length: Value, least: Value, most: Value) -> Value:
        """The end of a slice, in the array."""
        define = self.builder.define
        bound = self.translation.wrapped(bound, length)
        is_low = define("less", bound, least)
        bound = define("select", is_low, least, bound, dtype="int64")
        is_high = define("less", most, bound)
        return define("select", is_high, most, bound, dtype="int64")

    def _span_by_data(
        self, start: Value | None, stop: Value | None, step: Scalar, length: Value
    ) -> tuple[Value, Value, Value]:
        """With a step whose sign is known when the function runs."""
        define = self.builder.define
        is_forward = define("greater", step, 0)

        def either(forward: Value, backward: Value) -> Value:
            return define("select", is_forward, forward, backward, dtype="int64")

        least, most = either(0, -1), either(length, define("subtract", length, 1))
        first = either(least, most) if start is None else self._clamped(start, length, least, most)
        last = either(most, least) if stop is None else self._clamped(stop, length, least, most)
        distance = define("add", define("subtract", last, first), step)
        ahead = define("subtract", distance, either(1, -1))
        count = define("floor_divide", ahead, step, dtype="int64")
        is_empty = define("less", count, 0)
        return first, step, define("select", is_empty, 0, count, dtype="int64")

    def _selected(self, array: Array, indices: tuple[Any, ...]) -> Any:
        """`a[indices]` with one array of bools, or of integers along an axis."""
        if len(indices) == array.rank == 2:
            return self._selected_of_matrix(array, indices)
        if len(indices) != 1 or not is_array(indices[0]):
            raise self.refused("an index with arrays")
        (index,) = indices
        if index.dtype == "bool":
            key = array.rank, index.rank
            found = self.translation.inline(numpy_in_loops.SELECTED, key, array, index)
            if found is None:
                raise self.refused("an index of bools with so many axes")
            return found
        places = self.expression(index)
        if places.dtype[0] not in "iu":
            raise self.refused("an index with arrays")
        view = self.view(array)

        def of(at: Indices) -> Value:
            place = self.translation.wrapped(places.element(at[: places.rank]), view.shape[0])
            return self.builder.load_view(view, place, *at[places.rank :])

        shape = (*places.shape, *view.shape[1:])
        return Expression(shape, view.dtype, of, (view, *places.reads), is_in_order=False)

    def _selected_of_matrix(self, array: Array, indices: tuple[Any, ...]) -> Any:
        """`a[i, places]` or `a[:, places]`, with the integers on either axis."""
        axis = int(is_array(indices[1]))
        places, other = indices[axis], indices[1 - axis]
        if is_array(places) and places.dtype == "bool" and self._is_whole(other):
            view = self.view(array)
            if axis == 0:
                return self._selected(view, (places,))
            columns = self._selected(self._permuted(view, (1, 0)), (places,))
            return self._permuted(self.view(columns), (1, 0))
        if not (is_array(places) and places.dtype[0] in "iu" and places.rank == 1):
            raise self.refused("an index with arrays")
        is_whole = self._is_whole(other)
        is_place = isinstance(other, int | Scalar) and dtype_of(other)[0] in "iu"
        if not (is_whole or is_place):
            raise self.refused("an index with arrays")
        view, chosen = self.view(array), self.expression(places)
        shape = list(view.shape)
        shape[axis] = chosen.shape[0]
        row = None
        if is_place:
            row = self.translation.wrapped(other, view.shape[1 - axis])
            del shape[1 - axis]

        def of(at: Indices) -> Value:
            position = at[axis] if row is None else at[0]
            place = self.translation.wrapped(chosen.element((position,)), view.shape[axis])
            rest = at[1 - axis] if row is None else row
            return self.builder.load_view(view, *((place, rest) if axis == 0 else (rest, place)))

        reads = (view, *chosen.reads)
        return Expression(tuple(shape), view.dtype, of, reads, is_in_order=False)

    def set_item(self, array: Array, indices: tuple[Any, ...], value: Any) -> None:
        if isinstance(array, Expression):
            raise self.refused("an assignment to an element of this")
        if any(map(is_array, indices)):
            self._put(array, indices, value)
            return
        self._assign(self._viewed(self.view(array), indices), value, None)

    def _put(self, array: Memory | View, indices: tuple[Any, ...], value: Any) -> None:
        """`a[index] = value` with an array as index."""
        if array.rank == len(indices) == 2:
            array, indices, value = self._put_along_axis(array, indices, value)
        index: Any = indices[0] if len(indices) == 1 else None
        if not is_array(index) or not (is_number(value) or is_array(value)):
            raise self.refused("an assignment with an array as index")
        functions = numpy_in_loops.PUT if index.dtype == "bool" else numpy_in_loops.PUT_AT
        key = array.rank, index.rank, value.rank if is_array(value) else 0
        memory = self.view(array).memory
        if is_array(value) and any(v.memory == memory for v in self.expression(value).reads):
            value = self._call_copy(value)
        if self.translation.inline(functions, key, array, index, value) is None:
            raise self.refused("an assignment with an array as index, and so many axes")

    def _put_along_axis(
        self, array: Memory | View, indices: tuple[Any, ...], value: Any
    ) -> tuple[Memory | View, tuple[Any, ...], Any]:
        """`a[i, places] = value` or `a[:, places] = value`, with the integers on either axis: of a
        row, or of what is transposed so that the places are those of rows."""
        axis = int(is_array(indices[1]))
        places, other = indices[axis], indices[1 - axis]
        if is_number(other):
            row = (other, slice(None)) if axis else (slice(None), other)
            return self._viewed(self.view(array), row), (places,), value
        if not self._is_whole(other):
            raise self.refused("an assignment with an array as index")
        if axis:
            array = self._permuted(self.view(array), (1, 0))
            if is_array(value) and value.rank == 2:
                value = self._permuted(self.view(value), (1, 0))
            elif is_array(value):
                value = self._call_expand_dims(value, 1)
        return array, (places,), value

    def _is_whole(self, index: Any) -> bool:
        """Whether an index is `:`."""
        index = getattr(index, "value", index)
        ends = (index.start, index.stop, index.step) if isinstance(index, slice) else (0,)
        return all(getattr(end, "value", end) is None for end in ends)

    def _assign(self, target: View, value: Any, function: Any) -> None:
        """`target[...] = value`, or with a function `target = function(target, value)`."""
        builder = self.builder
        if not is_number(value):
            if not is_array(value):
                raise self.refused("an assignment of this")
            is_computed = isinstance(value, Expression)
            value = self.expression(value)
            clashes = [
                view
                for view in value.reads
                if view.memory == target.memory
                and (view.axes != target.axes or not value.is_in_order)
            ]
            if clashes and function is not None and not is_computed:
                # Numba goes from element to element and reads what it has just written; NumPy, and
                # so the function as Python, does not.
                raise self.refused(
                    "an update in place by other elements of the same array",
                    "a loop, or `x[...] = x[...] + y[...]`, which mean the same everywhere; or ",
                )
            if clashes:
                value = self.expression(self._call_copy(value))
            if value.rank > target.rank:
                raise self.refused("an assignment of an array with more axes")
        name = None if function is None else operation_name(function)
        if function is not None and name is None:
            raise self.refused("an assignment in place")
        if is_number(value):
            source = lambda at: value  # noqa: E731
        else:
            part = value
            self.require_fit(part.shape, target.shape)

            def source(at: Indices) -> Value:
                own, sizes = at[len(at) - part.rank :], target.shape[target.rank - part.rank :]
                places = [
                    self._at(length, size, i)
                    for length, size, i in zip(part.shape, sizes, own, strict=True)
                ]
                return part.element(tuple(places))

        def body(at: Indices) -> None:
            if name is None or name == "add":
                builder.store_view(target, at, source(at), is_added=name == "add")
                return
            former = builder.load_view(target, *at)
            builder.store_view(target, at, builder.define(name, former, source(at)))

        loops(builder, target.shape, body)

    def attribute(self, name: str, array: Array) -> Any:
        if isinstance(array, Expression):
            array = stored(self.translation, array)
        if name == "T":
            view = self.view(array)
            return self._permuted(view, tuple(reversed(range(view.rank))))
        if name in _METHODS:
            return Method(name, array)
        if name in ("real", "imag") and is_complex(array):
            return self._part(name, array)
        if name == "real":
            return array
        if name == "dtype":
            return self.translation.known(np.dtype(array.dtype))
        raise self.refused(f"the attribute `{name}` of an array")

    def _part(self, name: str, array: Array) -> Expression:
        """The real or the imaginary parts of a complex array."""
        dtype = part_dtype(array.dtype)
        part = self.elementwise(
            [array], lambda values: self.builder.define(name, *values, dtype=dtype), dtype
        )
        return replace(part, is_view=True)

    def _permuted(self, view: View, order: tuple[int, ...]) -> View:
        place = {old: new for new, old in enumerate(order)}
        axes = [
            axis if axis.dimension is None else Axis(axis.start, axis.step, place[axis.dimension])
            for axis in view.axes
        ]
        return View(view.memory, tuple(axes), tuple([view.shape[k] for k in order]))

    # Calls.

    def call(self, function: Any, arguments: list[Any], keywords: dict[str, Any]) -> Any:
        if isinstance(function, Method):
            name, arguments = function.name, [function.array, *arguments]
        else:
            called = getattr(function, "value", None)
            name = getattr(called, "__name__", str(called))
            if name in ("real", "imag") and is_complex(arguments[0]):
                return self._part(name, arguments[0])
            operation = operation_name(called)
            if operation is not None and not keywords:
                count = len(OPERATIONS[operation].operands)
                if len(arguments) == count:
                    return self._named(operation, arguments)
                is_ufunc = isinstance(called, np.ufunc) and len(arguments) == count + 1
                if is_ufunc and is_array(arguments[-1]):
                    return self._into(operation, arguments)
            if not (getattr(called, "__module__", None) or "").startswith("numpy"):
                raise self.refused(f"a call of `{name}` with arrays")
        parts = [x for y in arguments for x in (y.items if isinstance(y, Listed) else [y])]
        if any(map(is_complex, parts)) and name not in _OF_COMPLEX:
            raise self.refused(f"`{name}` of complex numbers")
        handler = getattr(self, f"_call_{name}", None)
        if handler is None:
            raise self.refused(f"a call of `{name}`")
        try:
            return handler(*arguments, **keywords)
        except TypeError as error:
            if "_call_" in str(error):
                raise self.refused(f"a call of `{name}` with these arguments") from None
            raise

    def _into(self, name: str, arguments: list[Any]) -> Any:
        """`np.add(a, b, out)`."""
        out = arguments[-1]
        self._assign(self.view(out), self._named(name, arguments[:-1]), None)
        return out

    def _new(self, shape: Any, fill: float | None) -> Memory:
        lengths = shape if isinstance(shape, tuple) else (shape,)
        if not all(map(is_number, lengths)):
            raise self.refused("an array of such a shape")
        return self.builder.allocate("array", self._result_dtype(), lengths, fill)

    def _call_zeros(self, shape: Any, dtype: Any = None) -> Memory:
        return self._new(shape, 0.0)

    def _call_empty(self, shape: Any, dtype: Any = None) -> Memory:
        return self._new(shape, 0.0)

    def _call_ones(self, shape: Any, dtype: Any = None) -> Memory:
        return self._new(shape, 1.0)

    def _call_full(self, shape: Any, value: Value, dtype: Any = None) -> Memory:
        memory = self._new(shape, 0.0)
        self._assign(self.view(memory), value, None)
        return memory

    def _call_fill(self, array: Array, value: Value) -> Any:
        self._assign(self.view(array), value, None)
        return self.translation.known(None)

    def _call_zeros_like(self, array: Array, dtype: Any = None) -> Memory:
        return self._new(self.shape(array), 0.0)

    def _call_empty_like(self, array: Array, dtype: Any = None) -> Memory:
        return self._new(self.shape(array), 0.0)

    def _call_ones_like(self, array: Array, dtype: Any = None) -> Memory:
        return self._new(self.shape(array), 1.0)

    def _call_full_like(self, array: Array, value: Value, dtype: Any = None) -> Memory:
        return self._call_full(self.shape(array), value)

    def _call_eye(self, count: Value, dtype: Any = None) -> Memory:
        memory = self._new((count, count), 0.0)
        with self.builder.loop(count) as index:
            self.builder.store(memory, (index, index), 1.0)
        return memory

    _call_identity = _call_eye

    def _call_arange(self, *arguments: Value, dtype: Any = None) -> Expression:
        start, stop, step = (0, arguments[0], 1) if len(arguments) == 1 else (*arguments, 1)[:3]
        if any(dtype_of(x)[0] not in "iu" for x in (start, stop)) or not isinstance(step, int):
            return self._numbers_between(start, stop, step)
        if step < 1:
            raise self.refused("np.arange with such a step")
        define = self.builder.define
        distance = define("add", define("subtract", stop, start), step - 1)
        count = distance if step == 1 else define("floor_divide", distance, step, dtype="int64")
        dtype_name = self._result_dtype()

        def of(at: Indices) -> Value:
            value = define("add", start, define("multiply", at[0], step))
            return define("cast", value, dtype=dtype_name)

        return Expression((count,), dtype_name, of, ())

    def _numbers_between(self, start: Value, stop: Value, step: Value) -> Expression:
        """`np.arange` of floats, or with a step that is not a constant."""
        define, dtype = self.builder.define, self._result_dtype()
        parts = define("divide", define("subtract", stop, start), step, dtype="float64")
        count = define("cast", define("np_ceil", parts), dtype="int64")
        count = define("most", count, 0)

        def of(at: Indices) -> Value:
            value = define("add", start, define("multiply", at[0], step))
            return define("cast", value, dtype=dtype)

        return Expression((count,), dtype, of, ())

    def _call_linspace(self, start: Value, stop: Value, count: Value = 50) -> Expression:
        define = self.builder.define
        span, parts = define("subtract", stop, start), define("subtract", count, 1)
        last = define("maximum", parts, 1, dtype="int64")  # of one number, the first is the last
        step = define("divide", span, last)

        def of(at: Indices) -> Value:
            inner = define("add", start, define("multiply", step, at[0]))
            return define("select", define("equal", at[0], last), stop, inner)

        return Expression((count,), "float64", of, ())

    def _call_copy(self, array: Array) -> Memory:
        result = stored(self.translation, replace(self.expression(array), is_view=False))
        assert isinstance(result, Memory)
        return result

    _call_ascontiguousarray = _call_copy

    # Other shapes of the same elements.

    def _call_reshape(self, array: Array, *shape: Any) -> Memory:
        lengths = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple) else shape
        if not all(map(is_number, lengths)):
            raise self.refused("np.reshape to such a shape")
        return self._reshaped(array, lengths)

    def _call_ravel(self, array: Array) -> Memory:
        return self._reshaped(array, (-1,))

    def _call_flatten(self, array: Array) -> Memory:
        return self._reshaped(self._call_copy(array), (-1,))

    def _reshaped(self, array: Array, lengths: Indices) -> Memory:
        """A copy, where NumPy has a view: whoever writes to one of them is refused."""
        builder, define = self.builder, self.builder.define
        view = self.view(array)
        size: Value = 1
        for length in view.shape:
            size = define("multiply", size, length)
        if any(isinstance(n, int) and n == -1 for n in lengths):
            k = next(k for k, n in enumerate(lengths) if isinstance(n, int) and n == -1)
            rest: Value = 1
            for n in (*lengths[:k], *lengths[k + 1 :]):
                rest = define("multiply", rest, n)
            part = size if rest == 1 else define("floor_divide", size, rest, dtype="int64")
            lengths = (*lengths[:k], part, *lengths[k + 1 :])
        total: Value = 1
        for n in lengths:
            total = define("multiply", total, n)
        self.require_equal("a shape with another number of elements", total, size, view.shape)
        memory = builder.allocate("values", view.dtype, lengths)

        def place(at: Indices, shape: Indices) -> Value:
            number: Value = 0
            for index, length in zip(at, shape, strict=True):
                number = define("add", define("multiply", number, length), index)
            return number

        def indices(number: Value, shape: Indices) -> Indices:
            found: list[Value] = []
            for length in reversed(shape[1:]):
                found.append(define("mod", number, length, dtype="int64"))
                number = define("floor_divide", number, length, dtype="int64")
            return (number, *reversed(found))

        if len(lengths) == 1:
            loops(
                builder,
                view.shape,
                lambda at: builder.store(
                    memory, (place(at, view.shape),), builder.load_view(view, *at)
                ),
            )
        else:
            loops(
                builder,
                lengths,
                lambda at: builder.store(
                    memory, at, builder.load_view(view, *indices(place(at, lengths), view.shape))
                ),
            )
        self.translation.share(memory, view.memory)
        return memory

    def _call_flip(self, array: Array) -> View:
        view = self.view(array)
        return self._viewed(view, (slice(None, None, -1),) * view.rank)

    def _call_flipud(self, array: Array) -> View:
        return self._viewed(self.view(array), (slice(None, None, -1),))

    def _call_fliplr(self, array: Array) -> View:
        return self._viewed(self.view(array), (slice(None), slice(None, None, -1)))

    def _call_rot90(self, array: Array, k: Any = 1) -> View:
        if not isinstance(k, int):
            raise self.refused("np.rot90 by a number that is not a constant")
        view, backward = self.view(array), slice(None, None, -1)
        for _ in range(k % 4):
            view = self._viewed(self._permuted(view, (1, 0)), (backward,))
        return view

    def _call_swapaxes(self, array: Array, first: Any, second: Any) -> View:
        if not (isinstance(first, int) and isinstance(second, int)):
            raise self.refused("np.swapaxes of axes that are not constants")
        view = self.view(array)
        order = list(range(view.rank))
        order[first], order[second] = order[second], order[first]
        return self._permuted(view, tuple(order))

    def _call_atleast_1d(self, array: Array) -> Any:
        return array if is_array(array) and array.rank else self._refuse_atleast()

    def _call_atleast_2d(self, array: Array) -> Any:
        if not is_array(array):
            return self._refuse_atleast()
        return self._call_expand_dims(array, 0) if array.rank == 1 else array

    def _refuse_atleast(self) -> Any:
        raise self.refused("np.atleast of this", "np.array of it; or ")

    def _call_broadcast_to(self, array: Any, shape: Any) -> Expression:
        lengths = shape if isinstance(shape, tuple) else (shape,)
        if not all(map(is_number, lengths)) or not is_array(array):
            raise self.refused("np.broadcast_to such a shape")
        part = self.expression(array)
        if part.rank > len(lengths):
            raise self.refused("np.broadcast_to less axes")
        self.require_fit(part.shape, lengths)

        def of(at: Indices) -> Value:
            own, sizes = at[len(at) - part.rank :], lengths[len(lengths) - part.rank :]
            places = zip(part.shape, sizes, own, strict=True)
            return part.element(tuple([self._at(*place) for place in places]))

        is_view = bool(part.reads)
        return Expression(lengths, part.dtype, of, part.reads, is_view, is_in_order=False)

    def _call_expand_dims(self, array: Array, axis: Any) -> View:
        if not isinstance(axis, int):
            raise self.refused("np.expand_dims along an axis that is not a constant")
        view = self.view(array)
        indices: list[Any] = [slice(None)] * view.rank
        indices.insert(axis if axis >= 0 else view.rank + 1 + axis, None)
        return self._viewed(view, tuple(indices))

    # Arrays of several parts.

    def _call_array(self, items: Any, dtype: Any = None) -> Memory:
        if is_array(items):
            return self._call_copy(self._call_astype(items, dtype))
        name = self._result_dtype()
        shape: list[int] = []
        part = items
        while isinstance(part, Listed | tuple):
            part = part.items if isinstance(part, Listed) else part
            shape.append(len(part))
            part = part[0] if part else None
        memory = self.builder.allocate("array", name, shape)

        def store(part: Any, at: tuple[int, ...]) -> None:
            if len(at) == len(shape):
                if not is_number(part):
                    raise self.refused("np.array of this")
                value = self.builder.define("cast", part, dtype=name)
                self.builder.store(memory, at, value)
                return
            parts = part.items if isinstance(part, Listed) else part
            if not isinstance(parts, tuple) or len(parts) != shape[len(at)]:
                raise self.refused("np.array of this")
            for k, inner in enumerate(parts):
                store(inner, (*at, k))

        store(items, ())
        return memory

    def _call_asarray(self, items: Any, dtype: Any = None) -> Any:
        if not is_array(items):
            return self._call_array(items)
        if items.dtype != self._result_dtype():
            return self._call_astype(items, dtype)
        return items

    def _call_concatenate(self, parts: Any, axis: Any = 0) -> Memory:
        builder, define = self.builder, self.builder.define
        parts = parts.items if isinstance(parts, Listed) else parts
        if not isinstance(parts, tuple) or not all(map(is_array, parts)):
            raise self.refused("np.concatenate of this")
        if not isinstance(axis, int):
            raise self.refused("np.concatenate along an axis that is not a constant")
        values = [self.expression(part) for part in parts]
        axis %= values[0].rank
        length: Value = 0
        for part in values:
            for k in range(part.rank):
                if k != axis:
                    problem = "shapes that do not fit in np.concatenate"
                    first = values[0].shape
                    self.require_equal(problem, part.shape[k], first[k], part.shape, first)
            length = define("add", length, part.shape[axis])
        shape = (*values[0].shape[:axis], length, *values[0].shape[axis + 1 :])
        dtype = self._result_dtype()
        memory = builder.allocate("joined", dtype, shape)
        start: Value = 0
        for part in values:

            def store(at: Indices, part: Expression = part, start: Value = start) -> None:
                place = (*at[:axis], define("add", start, at[axis]), *at[axis + 1 :])
                value = define("cast", part.element(at), dtype=dtype)
                builder.store(memory, place, value)

            loops(builder, part.shape, store)
            start = define("add", start, part.shape[axis])
        return memory

    def _rows(self, parts: Any, axis: int) -> tuple[Array, ...]:
        """Arrays with an axis more."""
        parts = parts.items if isinstance(parts, Listed) else parts
        if not isinstance(parts, tuple) or not all(map(is_array, parts)):
            raise self.refused("arrays put together from this")
        return tuple([self._call_expand_dims(part, axis) for part in parts])

    def _call_stack(self, parts: Any, axis: Any = 0) -> Memory:
        if not isinstance(axis, int):
            raise self.refused("np.stack along an axis that is not a constant")
        return self._call_concatenate(self._rows(parts, axis), axis)

    def _call_hstack(self, parts: Any) -> Memory:
        first = (parts.items if isinstance(parts, Listed) else parts)[0]
        return self._call_concatenate(parts, 0 if first.rank == 1 else 1)

    def _call_vstack(self, parts: Any) -> Memory:
        first = (parts.items if isinstance(parts, Listed) else parts)[0]
        return self._call_concatenate(self._rows(parts, 0) if first.rank == 1 else parts, 0)

    def _call_column_stack(self, parts: Any) -> Memory:
        first = (parts.items if isinstance(parts, Listed) else parts)[0]
        return self._call_concatenate(self._rows(parts, 1) if first.rank == 1 else parts, 1)

    # Element by element.

    def _each(self, values: Sequence[Any], element: Callable[[list[Value]], Value]) -> Any:
        """Of arrays, or of numbers alone."""
        if all(map(is_number, values)):
            return element(list(values))
        return self.elementwise(values, element, self._result_dtype())

    def _call_around(self, x: Any, digits: Any = 0, out: Any = None) -> Any:
        if not isinstance(digits, int) or not self._result_dtype().startswith("float"):
            raise self.refused("np.around to a number of digits that is not a constant")
        power = 10.0 ** abs(digits)
        there, back = ("multiply", "divide") if digits >= 0 else ("divide", "multiply")

        def rounded(v: list[Value]) -> Value:
            whole = self._scalar("rint", [self._scalar(there, [v[0], power])])
            return self._scalar(back, [whole, power])

        if is_array(out):
            self._assign(self.view(out), self._each([x], rounded), None)
            return out
        return self._each([x], rounded)

    _call_round = _call_around

    def _call_square(self, x: Any) -> Any:
        return self._each([x], lambda v: self._scalar("multiply", [v[0], v[0]]))

    def _call_clip(self, x: Any, least: Any, most: Any) -> Any:
        bounds = {"maximum": least, "minimum": most}
        given = {k: y for k, y in bounds.items() if is_number(y) or is_array(y)}

        def clipped(v: list[Value]) -> Value:
            result = v[0]
            for name, bound in zip(given, v[1:], strict=True):
                result = self._scalar(name, [result, bound])
            return result

        return self._each([x, *given.values()], clipped)

    def _call_fmin(self, x: Any, y: Any) -> Any:
        return self._each([x, y], lambda v: self._but_nan("minimum", v))

    def _call_fmax(self, x: Any, y: Any) -> Any:
        return self._each([x, y], lambda v: self._but_nan("maximum", v))

    def _but_nan(self, name: str, values: list[Value]) -> Value:
        """Of two numbers, the other one of NaN."""
        x, y = values
        both = self._scalar(name, values)
        either = self._scalar("select", [self.builder.define("isnan", y), x, both])
        return self._scalar("select", [self.builder.define("isnan", x), y, either])

    def _call_nan_to_num(self, x: Any, copy: Any = True, nan: Any = 0.0) -> Any:
        if copy is not True or not is_number(nan):
            raise self.refused("np.nan_to_num in place")
        limits = np.finfo(self._result_dtype())

        def finite(v: list[Value]) -> Value:
            (value,) = v
            define = self.builder.define
            for limit in (float(limits.min), float(limits.max)):
                is_beyond = define("less" if limit < 0 else "greater", value, limit)
                value = self._scalar("select", [is_beyond, limit, value])
            return self._scalar("select", [define("isnan", v[0]), nan, value])

        return self._each([x], finite)

    def _call_sinc(self, x: Any) -> Any:
        def of(v: list[Value]) -> Value:
            define = self.builder.define
            angle = define("multiply", v[0], math.pi)
            is_small = define("less", define("absolute", angle), 0.02)
            other = define("select", is_small, 1.0, angle)
            square = define("multiply", angle, angle)
            near: Value = 1.0  # its series, to rounding
            for k in (8, 6, 4, 2):
                term = define("multiply", define("divide", square, k * (k + 1.0)), near)
                near = define("subtract", 1.0, term)
            value = define("select", is_small, near, define("divide", define("sin", other), other))
            return define("cast", value, dtype=self._result_dtype())

        return self._each([x], of)

    def _call_logical_and(self, x: Any, y: Any) -> Any:
        return self._each([x, y], self._of_bools("bitwise_and"))

    def _call_logical_or(self, x: Any, y: Any) -> Any:
        return self._each([x, y], self._of_bools("bitwise_or"))

    def _call_logical_xor(self, x: Any, y: Any) -> Any:
        return self._each([x, y], self._of_bools("bitwise_xor"))

    def _of_bools(self, name: str) -> Callable[[list[Value]], Value]:
        def element(values: list[Value]) -> Value:
            bools = [v if dtype_of(v) == "bool" else self.builder.define("bool", v) for v in values]
            return self.builder.define(name, *bools, dtype="bool")

        return element

    def _call_conjugate(self, x: Any) -> Any:
        return self._each([x], lambda v: self._scalar("conjugate", v))

    _call_conj = _call_conjugate

    def _call_reciprocal(self, x: Any) -> Any:
        return self._each([x], lambda v: self._scalar("divide", [1.0, v[0]]))

    def _call_astype(self, array: Array, dtype: Any) -> Expression:
        name = self._result_dtype()
        cast = lambda values: self.builder.define("cast", values[0], dtype=name)  # noqa: E731
        return self.elementwise([array], cast, name)

    def _call_transpose(self, array: Array, *order: Any) -> View:
        view = self.view(array)
        if order:
            order = order[0] if isinstance(order[0], tuple) else order
        return self._permuted(view, order or tuple(reversed(range(view.rank))))

    def _call_where(self, condition: Any, a: Any, b: Any) -> Expression:
        dtype = self._result_dtype()
        return self.elementwise(
            [condition, a, b],
            lambda values: self.builder.define("select", *values, dtype=dtype),
            dtype,
        )

    # Reductions.

    def _reduced(
        self, array: Any, axis: Any, start: Value, step: Callable[[Value, Value], Value | None]
    ) -> Any:
        """`step(former, element)` gives the next value; with None as former, what is added."""
        builder = self.builder
        part = self.expression(array)
        dtype = self._result_dtype()

        def into(memory: Memory, place: Indices, at: Indices) -> None:
            added = step(None, part.element(at))  # type: ignore[arg-type]
            if added is not None:
                builder.store(memory, place, added, is_added=True)
                return
            former = builder.load(memory, *place)
            value = step(former, part.element(at))
            assert value is not None
            builder.store(memory, place, value)

        axis = getattr(axis, "value", axis) if not is_number(axis) else axis
        if axis is None:
            total = builder.allocate("total", dtype)
            builder.store(total, (), start)
            loops(builder, part.shape, lambda at: into(total, (), at))
            return builder.load(total)
        if not isinstance(axis, int):
            raise self.refused("a reduction along axes that are not constants")
        axis %= part.rank
        rest = (*part.shape[:axis], *part.shape[axis + 1 :])
        totals = builder.allocate("totals", dtype, rest)
        loops(builder, rest, lambda at: builder.store(totals, at, start))
        loops(builder, part.shape, lambda at: into(totals, (*at[:axis], *at[axis + 1 :]), at))
        return totals

    def _call_sum(self, array: Array, axis: Any = None) -> Any:
        zero: Value = 0.0 if self._result_dtype().startswith("float") else 0
        return self._reduced(array, axis, zero, lambda former, x: x)

    def _call_prod(self, array: Array, axis: Any = None) -> Any:
        one: Value = 1.0 if self._result_dtype().startswith("float") else 1

        def step(former: Value, x: Value) -> Value | None:
            return None if former is None else self._scalar("multiply", [former, x])

        return self._reduced(array, axis, one, step)

    def _call_mean(self, array: Array, axis: Any = None) -> Any:
        part = self.expression(array)
        total = self._call_sum(part, axis)
        define = self.builder.define
        axis = getattr(axis, "value", axis) if not is_number(axis) else axis
        count: Value = 1
        for length in part.shape if axis is None else (part.shape[axis],):
            count = define("multiply", count, length)
        if is_number(total):
            return self._scalar("divide", [total, count])
        return self.elementwise(
            [total], lambda v: self._scalar("divide", [v[0], count]), self._result_dtype()
        )

    def _call_max(self, array: Array, axis: Any = None) -> Any:
        return self._extreme(array, axis, -math.inf, "greater")

    def _call_min(self, array: Array, axis: Any = None) -> Any:
        return self._extreme(array, axis, math.inf, "less")

    _call_amax, _call_amin = _call_max, _call_min

    def _extreme(self, array: Array, axis: Any, start: float, name: str) -> Any:
        dtype = self._result_dtype()
        first: Value = start
        if dtype == "bool":
            raise self.refused("the extreme of bools")
        if not dtype.startswith("float"):
            first = int(np.iinfo(dtype).min if start < 0 else np.iinfo(dtype).max)
        array = self.expression(array)
        self._require_elements(array.shape)

        def step(former: Value, x: Value) -> Value | None:
            if former is None:
                return None
            # NaN is the extreme of all that has one.
            taken = self.builder.define(name, x, former)
            if dtype.startswith("float"):
                is_nan = self.builder.define("not_equal", x, x)
                taken = self.builder.define("bitwise_or", taken, is_nan, dtype="bool")
            return self.builder.define("select", taken, x, former, dtype=dtype)

        return self._reduced(array, axis, first, step)

    def _require_elements(self, shape: Indices) -> None:
        for length in shape:
            is_there = length > 0 if isinstance(length, int) else None
            if is_there is None:
                is_there = self.builder.define("greater", length, 0)
            self.require(is_there, "the extreme of no elements", shape)

    def _call_argmax(self, array: Array) -> Value:
        return self._place_of_extreme(array, "greater")

    def _call_argmin(self, array: Array) -> Value:
        return self._place_of_extreme(array, "less")

    def _place_of_extreme(self, array: Array, name: str) -> Value:
        builder = self.builder
        view = self.view(array)
        if view.rank != 1:
            raise self.refused("the place of the extreme of several axes")
        self._require_elements(view.shape)
        place = builder.allocate("place", "int64")
        builder.store(place, (), 0)
        with builder.loop(view.shape[0]) as index:
            best = builder.load_view(view, builder.load(place))
            value = builder.load_view(view, index)
            condition = builder.define(name, value, best)
            if view.dtype.startswith("float"):  # the first NaN is the extreme
                is_nan = builder.define("not_equal", value, value)
                was_number = builder.define("equal", best, best)
                is_first = builder.define("bitwise_and", is_nan, was_number, dtype="bool")
                condition = builder.define("bitwise_or", condition, is_first, dtype="bool")
            branch = If(condition, [])
            builder.body.append(branch)
            with builder.region(branch.then):
                builder.store(place, (), index)
        return builder.load(place)

    def _call_any(self, array: Array) -> Value:
        return self._reduced(array, None, False, self._joined("bitwise_or"))

    def _call_all(self, array: Array) -> Value:
        return self._reduced(array, None, True, self._joined("bitwise_and"))

    def _joined(self, name: str) -> Callable[[Value, Value], Value | None]:
        def step(former: Value, x: Value) -> Value | None:
            if former is None:
                return None
            if dtype_of(x) != "bool":
                x = self.builder.define("bool", x)
            return self.builder.define(name, former, x, dtype="bool")

        return step

    def _call_count_nonzero(self, array: Array) -> Value:
        is_not = lambda v: self.builder.define("not_equal", v[0], 0)  # noqa: E731
        part = self.elementwise([array], is_not, "bool")
        cast = lambda v: self.builder.define("cast", v[0], dtype="int64")  # noqa: E731
        return self._call_sum(self.elementwise([part], cast, "int64"))

    def _call_var(self, array: Array) -> Value:
        """The mean square of what is left after taking the mean away."""
        values = stored(self.translation, array)
        mean = self._call_mean(values)

        def square(v: list[Value]) -> Value:
            rest = self.builder.define("subtract", *v)
            return self.builder.define("multiply", rest, rest)

        return self._call_mean(self.elementwise([values, mean], square, self._result_dtype()))

    def _call_std(self, array: Array) -> Value:
        return self._scalar("sqrt", [self._call_var(array)])

    def _call_ptp(self, array: Array) -> Value:
        values = stored(self.translation, array)
        return self._scalar("subtract", [self._call_max(values), self._call_min(values)])

    def _call_norm(self, array: Array, order: Any = None) -> Value:
        part = self.expression(array)
        order = getattr(order, "value", order) if not is_number(order) else order
        if order is None or (order == 2 and part.rank == 1):
            define = self.builder.define
            square = self.elementwise([part], lambda v: define("multiply", v[0], v[0]), part.dtype)
            return self._scalar("sqrt", [self._call_sum(square)])
        sizes = self.elementwise([part], lambda v: self._scalar("absolute", v), part.dtype)
        if part.rank == 1 and order == math.inf:
            return self._call_max(sizes)
        if part.rank == 1 and order == -math.inf:
            return self._call_min(sizes)
        if part.rank == 1 and order == 1:
            return self._call_sum(sizes)
        if part.rank == 2 and isinstance(order, int | float) and abs(order) in (1, math.inf):
            sums = self._call_sum(sizes, 0 if abs(order) == 1 else 1)
            return self._call_max(sums) if order > 0 else self._call_min(sums)
        raise self.refused(f"np.linalg.norm of order {order}")

    # Products.

    def product(self, left: Array, right: Array) -> Any:
        """`left @ right`."""
        builder = self.builder
        if not (is_array(left) and is_array(right)):
            raise self.refused("a product of this")
        x, y = self.view(left), self.view(right)
        if x.rank > 2 or y.rank > 2 or not x.rank or not y.rank:
            raise self.refused("a product of arrays with more than two axes")
        dtype = self._result_dtype()
        multiply = lambda a, b: builder.define("multiply", a, b, dtype=dtype)  # noqa: E731
        problem = "shapes that do not fit a product"
        self.require_equal(problem, x.shape[-1], y.shape[0], x.shape, y.shape)
        if x.rank == y.rank == 1:
            part = self.elementwise([x, y], lambda v: multiply(*v), dtype)
            return self._call_sum(part)
        result = builder.allocate("product", dtype, (*x.shape[:-1], *y.shape[1:]), 0.0)
        if x.rank == 1:
            with builder.loop(x.shape[0]) as k:
                factor = builder.load_view(x, k)
                with builder.loop(y.shape[1]) as j:
                    value = multiply(factor, builder.load_view(y, k, j))
                    builder.store(result, (j,), value, is_added=True)
            return result
        with builder.loop(x.shape[0]) as i:
            if y.rank == 1:
                total = builder.allocate("total", dtype)
                builder.store(total, (), 0.0)
                with builder.loop(x.shape[1]) as k:
                    value = multiply(builder.load_view(x, i, k), builder.load_view(y, k))
                    builder.store(total, (), value, is_added=True)
                builder.store(result, (i,), builder.load(total))
                return result
            with builder.loop(x.shape[1]) as k:
                factor = builder.load_view(x, i, k)
                with builder.loop(y.shape[1]) as j:
                    value = multiply(factor, builder.load_view(y, k, j))
                    builder.store(result, (i, j), value, is_added=True)
        return result

    def _call_dot(self, left: Array, right: Array) -> Any:
        if not (is_array(left) and is_array(right)):
            return self._named("multiply", [left, right])
        return self.product(left, right)

    _call_vdot = _call_matmul = _call_dot

    def _call_outer(self, left: Array, right: Array) -> Expression:
        x, y = self.expression(left), self.expression(right)
        if x.rank != 1 or y.rank != 1:
            raise self.refused("np.outer of arrays with several axes")

        def of(at: Indices) -> Value:
            return self._scalar("multiply", [x.element(at[:1]), y.element(at[1:])])

        shape, reads = (*x.shape, *y.shape), (*x.reads, *y.reads)
        return Expression(shape, self._result_dtype(), of, reads, is_in_order=False)


_METHODS = (
    *("any", "all", "std", "var", "reshape", "ravel", "flatten", "cumsum", "cumprod"),
    *("trace", "clip", "fill", "nonzero", "argsort", "repeat", "sort"),
    "copy",
    "sum",
    "prod",
    "mean",
    "max",
    "min",
    "argmax",
    "argmin",
    "dot",
    "astype",
    "transpose",
    "conj",
    "conjugate",
)
# What is right for complex arrays, too: no order, and no product with a conjugate in it.
_OF_COMPLEX = frozenset(
    (
        *("zeros_like", "empty_like", "ones_like", "full_like", "full", "fill", "copy", "array"),
        *("asarray", "ascontiguousarray", "astype", "reshape", "ravel", "flatten", "transpose"),
        *("flip", "flipud", "fliplr", "expand_dims", "concatenate", "stack", "hstack", "vstack"),
        *("column_stack", "where", "square", "reciprocal", "conj", "conjugate", "sum", "prod"),
        *("mean", "any", "all", "count_nonzero", "dot", "matmul", "outer"),
    )
)
