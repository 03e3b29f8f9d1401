"""Slices, rows and transposes: other ways through the elements of an array."""

from typing import Any

from numba_grad.compiler.numba_functions.array_expressions.broadcasting import Broadcasting
from numba_grad.compiler.numba_functions.array_expressions.expressions import (
    Array,
    Expression,
    Indices,
    is_array,
    is_number,
)
from numba_grad.compiler.numba_functions.regions import Axis, Scalar, Value, View
from numba_grad.compiler.numba_functions.scalar_operations import dtype_of


class Views(Broadcasting):
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

    def _is_whole(self, index: Any) -> bool:
        """Whether an index is `:`."""
        index = getattr(index, "value", index)
        ends = (index.start, index.stop, index.step) if isinstance(index, slice) else (0,)
        return all(getattr(end, "value", end) is None for end in ends)

    def _permuted(self, view: View, order: tuple[int, ...]) -> View:
        place = {old: new for new, old in enumerate(order)}
        axes = [
            axis if axis.dimension is None else Axis(axis.start, axis.step, place[axis.dimension])
            for axis in view.axes
        ]
        return View(view.memory, tuple(axes), tuple([view.shape[k] for k in order]))

    def _call_transpose(self, array: Array, *order: Any) -> View:
        view = self.view(array)
        if order:
            order = order[0] if isinstance(order[0], tuple) else order
        return self._permuted(view, order or tuple(reversed(range(view.rank))))

    def _call_swapaxes(self, array: Array, first: Any, second: Any) -> View:
        if not (isinstance(first, int) and isinstance(second, int)):
            raise self.refused("np.swapaxes of axes that are not constants")
        view = self.view(array)
        order = list(range(view.rank))
        order[first], order[second] = order[second], order[first]
        return self._permuted(view, tuple(order))

    def _call_expand_dims(self, array: Array, axis: Any) -> View:
        if not isinstance(axis, int):
            raise self.refused("np.expand_dims along an axis that is not a constant")
        view = self.view(array)
        indices: list[Any] = [slice(None)] * view.rank
        indices.insert(axis if axis >= 0 else view.rank + 1 + axis, None)
        return self._viewed(view, tuple(indices))

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
