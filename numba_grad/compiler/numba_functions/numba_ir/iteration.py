"""What `for` goes through: ranges, arrays, `zip` and `enumerate`."""

# Numba's annotations are few, and wrong where they come from class attributes set at run time.
# pyright: reportAttributeAccessIssue=false, reportPrivateImportUsage=false

from typing import Any

from numba_grad.compiler.numba_functions.numba_ir.elements import ElementAccess
from numba_grad.compiler.numba_functions.numba_ir.meanings import Elements, Meaning, Range
from numba_grad.compiler.numba_functions.regions import Memory, Scalar, Value, View


class Iteration(ElementAccess):
    """How many passes there are, and what a pass is given."""

    def _on_getiter(self, target: Any, expression: Any) -> Meaning:
        return self._elements(self.meaning(expression.value))

    def _elements(self, found: Meaning) -> Elements:
        if isinstance(found, Elements):
            return found
        if isinstance(found, Range):
            return Elements("range", (found,))
        found = self._stored(found)
        if isinstance(found, Memory | View):
            return Elements("array", (found,))
        raise self.refused("a loop over this")

    def _range(self, arguments: list[Value]) -> Range:
        if not all(isinstance(a, Scalar | bool | int) for a in arguments):
            raise self.refused("range of this")
        if len(arguments) == 1:
            return Range(0, arguments[0], 1)
        start, stop, *step = arguments
        return Range(start, stop, step[0] if step else 1)

    def _length(self, iterator: Elements) -> Value:
        builder = self.builder
        if iterator.kind == "array":
            (array,) = iterator.parts
            return array.shape[0] if isinstance(array, View) else builder.size(array, 0)
        if iterator.kind == "range":
            span = iterator.parts[0]
            distance = builder.define("subtract", span.stop, span.start)
            ahead = builder.define("subtract", builder.define("add", distance, span.step), 1)
            if span.step != 1 or isinstance(span.step, Scalar):
                if isinstance(span.step, Scalar) or span.step < 0:
                    raise self.refused("zip or enumerate of a range with such a step")
                return builder.define("floor_divide", ahead, span.step, dtype="int64")
            return distance
        if iterator.kind == "enumerate":
            return self._length(iterator.parts[0])
        lengths = [self._length(part) for part in iterator.parts]
        result = lengths[0]
        for length in lengths[1:]:
            result = builder.define("minimum", result, length, dtype="int64")
        return result

    def _element(self, iterator: Elements, index: Scalar) -> Meaning:
        builder = self.builder
        if iterator.kind == "array":
            (array,) = iterator.parts
            memory = array.memory if isinstance(array, View) else array
            if self._is_swapped_in(memory, self._open_loops[-1]):
                raise self.refused("a loop over an array that is swapped in it")
            if array.rank > 1:
                return self.item(array, (index,))
            return self._load(array, (index,))
        if iterator.kind == "range":
            span = iterator.parts[0]
            return builder.define("add", span.start, builder.define("multiply", index, span.step))
        if iterator.kind == "enumerate":
            count = builder.define("add", index, iterator.start)
            return (count, self._element(iterator.parts[0], index))
        return tuple([self._element(part, index) for part in iterator.parts])

    def _on_iternext(self, target: Any, expression: Any) -> Meaning:
        iterator = self.meaning(expression.value)
        if not isinstance(iterator, Elements) or iterator.kind != "range":
            raise self.refused("a loop of one pass over this")
        span = iterator.parts[0]
        if isinstance(span.step, Scalar):
            raise self.refused("a loop of one pass with a step that is not a constant")
        has_pass = self.builder.define(
            "less" if span.step > 0 else "greater", span.start, span.stop
        )
        return (span.start, has_pass)

    def _on_pair_first(self, target: Any, expression: Any) -> Meaning:
        return self.meaning(expression.value)[0]

    def _on_pair_second(self, target: Any, expression: Any) -> Meaning:
        return self.meaning(expression.value)[1]
