"""Arrays that are made: of numbers, of other shapes, of several parts."""

from functools import partialmethod
from typing import Any

from numba_grad.compiler.numba_functions.array_expressions.elementwise_functions import (
    ElementwiseFunctions,
)
from numba_grad.compiler.numba_functions.array_expressions.expressions import (
    Array,
    Expression,
    Indices,
    Listed,
    is_array,
    is_number,
)
from numba_grad.compiler.numba_functions.regions import Memory, Value
from numba_grad.compiler.numba_functions.scalar_operations import dtype_of


class NewArrays(ElementwiseFunctions):
    def _new(self, fill: float, shape: Any, dtype: Any = None) -> Memory:
        lengths = shape if isinstance(shape, tuple) else (shape,)
        if not all(map(is_number, lengths)):
            raise self.refused("an array of such a shape")
        return self.builder.allocate("array", self._result_dtype(), lengths, fill)

    _call_zeros = _call_empty = partialmethod(_new, 0.0)
    _call_ones = partialmethod(_new, 1.0)

    def _call_full(self, shape: Any, value: Value, dtype: Any = None) -> Memory:
        memory = self._new(0.0, shape)
        self._assign(self.view(memory), value, None)
        return memory

    def _call_fill(self, array: Array, value: Value) -> Any:
        self._assign(self.view(array), value, None)
        return self.translation.known(None)

    def _new_like(self, fill: float, array: Array, dtype: Any = None) -> Memory:
        return self._new(fill, self.shape(array))

    _call_zeros_like = _call_empty_like = partialmethod(_new_like, 0.0)
    _call_ones_like = partialmethod(_new_like, 1.0)

    def _call_full_like(self, array: Array, value: Value, dtype: Any = None) -> Memory:
        return self._call_full(self.shape(array), value)

    def _call_eye(self, count: Value, dtype: Any = None) -> Memory:
        memory = self._new(0.0, (count, count))
        with self.builder.loop(count) as index:
            self.builder.store(memory, (index, index), 1.0)
        return memory

    _call_identity = _call_eye

    def _call_arange(self, *arguments: Value, dtype: Any = None) -> Expression:
        start, stop, step = (0, arguments[0], 1) if len(arguments) == 1 else (*arguments, 1)[:3]
        if any(dtype_of(x)[0] not in "iu" for x in (start, stop)) or not isinstance(step, int):
            return self._numbers_between(start, stop, step)
        if not step:
            raise self.refused("np.arange with such a step")
        define, size = self.builder.define, abs(step)
        ends = (stop, start) if step > 0 else (start, stop)
        distance = define("add", define("subtract", *ends), size - 1)
        count = distance if size == 1 else define("floor_divide", distance, size, dtype="int64")
        if isinstance(start, int) and isinstance(stop, int):
            count = len(range(start, stop, step))
        elif start != 0 or step != 1 or not self.builder.is_length(stop):
            count = define("most", count, 0)
        return self._evenly_spaced(start, step, count)

    def _numbers_between(self, start: Value, stop: Value, step: Value) -> Expression:
        """`np.arange` of floats, or with a step that is not a constant."""
        define = self.builder.define
        parts = define("divide", define("subtract", stop, start), step, dtype="float64")
        count = define("cast", define("np_ceil", parts), dtype="int64")
        return self._evenly_spaced(start, step, define("most", count, 0))

    def _evenly_spaced(self, start: Value, step: Value, count: Value) -> Expression:
        define, dtype = self.builder.define, self._result_dtype()

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
            with builder.elements(view.shape) as at:
                own = (place(at, view.shape),)
                builder.store(memory, own, builder.load_view(view, *at))
        else:
            with builder.elements(lengths) as at:
                given = indices(place(at, lengths), view.shape)
                builder.store(memory, at, builder.load_view(view, *given))
        self.translation.share(memory, view.memory)
        return memory

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
            with builder.elements(part.shape) as at:
                place = (*at[:axis], define("add", start, at[axis]), *at[axis + 1 :])
                value = define("cast", part.element(at), dtype=dtype)
                builder.store(memory, place, value)
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
