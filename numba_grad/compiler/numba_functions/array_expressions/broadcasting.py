"""Arrays and numbers, element by element, broadcast against each other."""

from collections.abc import Callable, Sequence
from typing import Any

from numba_grad.compiler.numba_functions.array_expressions.expressions import (
    Array,
    Expression,
    Indices,
    is_array,
    is_number,
    stored,
)
from numba_grad.compiler.numba_functions.builder import Builder
from numba_grad.compiler.numba_functions.regions import Memory, Scalar, Value, View


class Broadcasting:
    def __init__(self, translation: Any, numba_type: Any) -> None:
        self.translation = translation
        self.builder: Builder = translation.builder
        self.type = numba_type

    def refused(self, what: str, instead: str = "") -> Exception:
        return self.translation.refused(what, instead=instead)

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

    def _each(self, values: Sequence[Any], element: Callable[[list[Value]], Value]) -> Any:
        """Of arrays, or of numbers alone."""
        if all(map(is_number, values)):
            return element(list(values))
        return self.elementwise(values, element, self._result_dtype())

    def _result_dtype(self) -> str:
        try:
            return self.translation.dtype_of(getattr(self.type, "dtype", self.type))
        except TypeError:
            raise self.refused(f"an array of type {self.type}") from None

    def _scalar(self, name: str, values: list[Value]) -> Value:
        return self.builder.define(name, *values, dtype=self._result_dtype())

    def _named(self, name: str, meanings: Sequence[Any]) -> Expression:
        dtype = self._result_dtype()
        return self.elementwise(
            meanings, lambda values: self.builder.define(name, *values, dtype=dtype), dtype
        )
