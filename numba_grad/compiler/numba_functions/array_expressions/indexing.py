"""`a[indices]`, read and assigned, with arrays as indices as well."""

from dataclasses import replace
from typing import Any

from numba_grad.compiler.numba_functions import numpy_in_loops
from numba_grad.compiler.numba_functions.array_expressions.expressions import (
    Array,
    Expression,
    Indices,
    is_array,
    is_number,
    stored,
)
from numba_grad.compiler.numba_functions.array_expressions.views import Views
from numba_grad.compiler.numba_functions.named_operations import operation_name
from numba_grad.compiler.numba_functions.regions import Memory, Scalar, Value, View
from numba_grad.compiler.numba_functions.scalar_operations import dtype_of


class Indexing(Views):
    def item(self, array: Array, indices: tuple[Any, ...]) -> Any:
        if any(map(is_array, indices)):
            return self._selected(array, indices)
        if isinstance(array, Expression):
            array = stored(self.translation, array)
        return self._viewed(self.view(array), indices)

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

        with builder.elements(target.shape) as at:
            if name is None or name == "add":
                builder.store_view(target, at, source(at), is_added=name == "add")
            else:
                former = builder.load_view(target, *at)
                builder.store_view(target, at, builder.define(name, former, source(at)))

    def _into(self, name: str, arguments: list[Any]) -> Any:
        """`np.add(a, b, out)`."""
        out = arguments[-1]
        self._assign(self.view(out), self._named(name, arguments[:-1]), None)
        return out

    def _call_copy(self, array: Array) -> Memory:
        result = stored(self.translation, replace(self.expression(array), is_view=False))
        assert isinstance(result, Memory)
        return result

    _call_ascontiguousarray = _call_copy
