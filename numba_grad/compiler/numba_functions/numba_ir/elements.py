"""Elements of arrays and tuples: what is read, and what is stored."""

# Numba's annotations are few, and wrong where they come from class attributes set at run time.
# pyright: reportAttributeAccessIssue=false, reportPrivateImportUsage=false

from collections.abc import Sequence
from typing import Any

from numba_grad.compiler.numba_functions.array_expressions.expressions import Array, Expression
from numba_grad.compiler.numba_functions.numba_ir.expressions import Expressions
from numba_grad.compiler.numba_functions.numba_ir.meanings import Flat, Meaning
from numba_grad.compiler.numba_functions.regions import Memory, Scalar, Value, View
from numba_grad.compiler.numba_functions.scalar_operations import dtype_of

_MOST_PARTS = 32  # of a tuple with an index that is data


class ElementAccess(Expressions):
    """By indices, constant or computed."""

    def _on_exhaust_iter(self, target: Any, expression: Any) -> Meaning:
        found = self._stored(self.meaning(expression.value))
        count = expression.count
        if isinstance(found, Memory | View):
            length = self.shape(found)[0]
            problem = self.problem(f"not {count} values to unpack")
            self.builder.check(self.builder.equal_lengths(length, count), problem, [(length,)])
            return tuple([self.item(found, (k,)) for k in range(count)])
        if not isinstance(found, tuple) or len(found) != count:
            raise self.refused("what is unpacked here")
        return found

    def _static_index(self, expression: Any) -> Meaning:
        if expression.index_var is not None:
            return self.meaning(expression.index_var)
        return self._constant(expression.index)

    def _on_static_getitem(self, target: Any, expression: Any) -> Meaning:
        found = self.meaning(expression.value)
        if isinstance(found, tuple):
            if isinstance(expression.index, int):
                return found[expression.index]
            if isinstance(expression.index, slice):
                return found[expression.index]
            if isinstance(expression.index, str):
                return self._field(found, expression.index, expression)
        return self.item(found, self._static_index(expression), target)

    def _on_typed_getitem(self, target: Any, expression: Any) -> Meaning:
        return self._on_getitem(target, expression)

    def _on_getitem(self, target: Any, expression: Any) -> Meaning:
        found, index = self.meaning(expression.value), self.meaning(expression.index)
        if isinstance(found, tuple):
            if isinstance(index, int):
                return found[index]
            return self._one_of(found, index)
        return self.item(found, index, target)

    def _one_of(self, parts: tuple[Meaning, ...], index: Meaning) -> Meaning:
        """The part of a tuple that an integer says."""
        if all(isinstance(part, tuple) and len(part) == len(parts[0]) for part in parts):
            return tuple([self._one_of(inner, index) for inner in zip(*parts, strict=True)])
        numbers = [part for part in parts if isinstance(part, Scalar | bool | int | float)]
        dtypes = {dtype_of(part) for part in numbers}
        if isinstance(index, int) and parts:
            return parts[index]
        is_one = len(numbers) == len(parts) and len(dtypes) == 1 and len(parts) <= _MOST_PARTS
        if not is_one or not isinstance(index, Scalar):
            raise self.refused("a tuple with an index that is not a constant")
        place, result = self.wrapped(index, len(parts)), numbers[-1]
        for k, part in enumerate(numbers[:-1]):
            is_here = self.builder.define("equal", place, k)
            result = self.builder.define("select", is_here, part, result, dtype=dtypes.copy().pop())
        return result

    def item(self, found: Meaning, index: Meaning, target: Any = None) -> Meaning:
        """An element of an array, or a view."""
        if isinstance(found, Flat):
            return self._load(found.array, self._place_in_flat(found.array, index))
        if not isinstance(found, Memory | View | Expression):
            raise self.refused("an index of this")
        indices = index if isinstance(index, tuple) else (index,)
        if self._is_element(found, indices):
            return self._load(self._stored(found), indices)
        return self.array("item", target, (found, indices))

    def _is_element(self, array: Array, indices: tuple[Meaning, ...]) -> bool:
        return len(indices) == array.rank and all(
            isinstance(i, bool | int) or (isinstance(i, Scalar) and i.dtype[0] in "iu")
            for i in indices
        )

    def _place_in_flat(self, array: Memory | View, index: Meaning) -> tuple[Value, ...]:
        if not isinstance(index, Scalar | bool | int):
            raise self.refused("a part of `flat`")
        shape = self.shape(array)
        size: Value = 1
        for length in shape:
            size = self.builder.define("multiply", size, length)
        return self.unraveled(self.wrapped(index, size), shape)

    def unraveled(self, number: Value, shape: tuple[Value, ...]) -> tuple[Value, ...]:
        """The indices of the element of an array that has this number, row by row."""
        found: list[Value] = []
        for length in reversed(shape[1:]):
            found.append(self.builder.define("mod", number, length, dtype="int64"))
            number = self.builder.define("floor_divide", number, length, dtype="int64")
        return (number, *reversed(found))

    def wrapped(self, index: Value, length: Value) -> Value:
        """An index of a view: a negative one counts from its end."""
        if isinstance(index, int):
            return index if index >= 0 else self.builder.define("add", length, index)
        is_negative = self.builder.define("less", index, 0)
        from_end = self.builder.define("add", index, length)
        return self.builder.define("select", is_negative, from_end, index, dtype="int64")

    def _load(self, array: Memory | View, indices: Sequence[Value]) -> Scalar:
        if isinstance(array, Memory):
            return self.builder.load(array, *indices)
        indices = [self.wrapped(i, n) for i, n in zip(indices, array.shape, strict=True)]
        return self.builder.load_view(array, *indices)

    def set_item(self, target: Any, index: Meaning, value: Any) -> None:
        array, meaning = self.meaning(target), self.meaning(value)
        indices = index if isinstance(index, tuple) else (index,)
        if isinstance(array, Flat) and isinstance(meaning, Scalar | bool | int | float):
            self._store(array.array, self._place_in_flat(array.array, index), meaning)
            return
        if not isinstance(array, Memory | View):
            raise self.refused("an assignment to an element of this")
        is_scalar = isinstance(meaning, Scalar | bool | int | float)
        if not self._is_element(array, indices) or not is_scalar:
            self.array("set_item", None, (array, indices, meaning))
            return
        self._store(array, indices, meaning)

    def _store(
        self,
        array: Memory | View,
        indices: Sequence[Value],
        value: Value,
        *,
        is_added: bool = False,
    ) -> None:
        if isinstance(array, Memory):
            self.builder.store(array, indices, value, is_added=is_added)
            return
        indices = [self.wrapped(i, n) for i, n in zip(indices, array.shape, strict=True)]
        self.builder.store_view(array, indices, value, is_added=is_added)

    def add_to_item(self, array: Meaning, index: Meaning, value: Meaning) -> None:
        """`array[index] += value`, which no other thread comes between."""
        indices = index if isinstance(index, tuple) else (index,)
        is_scalar = isinstance(value, Scalar | bool | int | float)
        is_array = isinstance(array, Memory | View)
        if not is_array or not is_scalar or not self._is_element(array, indices):
            raise self.refused("an atomic sum of this")
        self._store(array, indices, value, is_added=True)
