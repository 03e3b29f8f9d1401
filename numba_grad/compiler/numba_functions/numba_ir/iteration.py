"""What `for` goes through: ranges, arrays, tuples, `zip`, `enumerate` and `np.ndindex`."""

# Numba's annotations are few, and wrong where they come from class attributes set at run time.
# pyright: reportAttributeAccessIssue=false, reportPrivateImportUsage=false

from typing import Any

from numba_grad.compiler.numba_functions.array_expressions.expressions import Listed
from numba_grad.compiler.numba_functions.numba_ir.elements import ElementAccess
from numba_grad.compiler.numba_functions.numba_ir.meanings import (
    Elements,
    Flat,
    Meaning,
    Range,
)
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
        if isinstance(found, Flat):
            return Elements("flat", (found.array,))
        if isinstance(found, Listed):
            found = found.items
        if isinstance(found, tuple):
            return Elements("tuple", found)
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

    def _places(self, arguments: list[Meaning]) -> Elements:
        """`np.ndindex` of a shape, or of its lengths."""
        first, *others = arguments
        lengths = first if isinstance(first, tuple) and not others else tuple(arguments)
        if not all(isinstance(n, Scalar | bool | int) for n in lengths):
            raise self.refused("np.ndindex of this")
        return Elements("ndindex", lengths)

    def _unrolled(self, iterator: Elements) -> list[Meaning] | None:
        """What each pass is given, where arrays are and a pass is written for each of them."""
        if iterator.kind == "tuple":
            are_numbers = all(self._is_number_or_numbers(part) for part in iterator.parts)
            return None if are_numbers else list(iterator.parts)
        if iterator.kind == "enumerate":
            passes = self._unrolled(iterator.parts[0])
            if passes is None:
                return None
            add = self.builder.define
            return [(add("add", iterator.start, k), part) for k, part in enumerate(passes)]
        if iterator.kind == "zip":
            given = [self._unrolled(part) for part in iterator.parts]
            known = [len(passes) for passes in given if passes is not None]
            if not known:
                return None
            columns = [
                [*part.parts] if passes is None and part.kind == "tuple" else passes
                for part, passes in zip(iterator.parts, given, strict=True)
            ]
            if any(column is None for column in columns):
                raise self.refused("`zip` of a tuple of arrays and of something else")
            return list(zip(*columns, strict=False))  # pyright: ignore
        return None

    def _is_number_or_numbers(self, part: Meaning) -> bool:
        if isinstance(part, tuple):
            return all(map(self._is_number_or_numbers, part))
        return isinstance(part, Scalar | bool | int | float)

    def _nest(self, iterator: Elements) -> tuple[Value, ...]:
        """The lengths of the loops, one inside of the other, that go through it."""
        if iterator.kind == "ndindex":
            return iterator.parts
        if iterator.kind in ("ndenumerate", "flat"):
            return self.shape(iterator.parts[0])
        return (self._length(iterator),)

    def _length(self, iterator: Elements) -> Value:
        builder = self.builder
        if iterator.kind in ("ndindex", "ndenumerate", "flat"):
            result: Value = 1
            for length in self._nest(iterator):
                result = builder.define("multiply", result, length)
            return result
        if iterator.kind == "tuple":
            return len(iterator.parts)
        if iterator.kind == "array":
            (array,) = iterator.parts
            return array.shape[0] if isinstance(array, View) else builder.size(array, 0)
        if iterator.kind == "range":
            return self._count_of(iterator.parts[0])
        if iterator.kind == "enumerate":
            return self._length(iterator.parts[0])
        lengths = [self._length(part) for part in iterator.parts]
        result = lengths[0]
        for length in lengths[1:]:
            result = builder.define("minimum", result, length, dtype="int64")
        return result

    def _count_of(self, span: Range) -> Value:
        """How many numbers a range has; of an empty one, at most 0."""
        define = self.builder.define
        step = span.step
        if step == 0 and not isinstance(step, Scalar):
            raise self.refused("range with a step of 0")
        distance = define("subtract", span.stop, span.start)
        if step == 1 and not isinstance(step, Scalar):
            return distance
        # Towards the end, as if it was one step further and then less by the least distance.
        least: Value = 1 if not isinstance(step, Scalar) and step > 0 else -1
        if isinstance(step, Scalar):
            least = define("select", define("greater", step, 0), 1, -1, dtype="int64")
        ahead = define("subtract", define("add", distance, step), least)
        return define("floor_divide", ahead, step, dtype="int64")

    def _element(self, iterator: Elements, at: tuple[Value, ...]) -> Meaning:
        """What a pass is given, by its indices in the nest of loops."""
        if iterator.kind == "ndindex":
            return at
        if iterator.kind == "ndenumerate":
            return (at, self._load(iterator.parts[0], at))
        if iterator.kind == "flat":
            return self._load(iterator.parts[0], at)
        return self._numbered(iterator, at[0])

    def _numbered(self, iterator: Elements, index: Value) -> Meaning:
        """What the pass of a number is given."""
        builder = self.builder
        if iterator.kind in ("ndindex", "ndenumerate", "flat"):
            return self._element(iterator, self.unraveled(index, self._nest(iterator)))
        if iterator.kind == "tuple":
            return self._one_of(iterator.parts, index)
        if iterator.kind == "array":
            (array,) = iterator.parts
            if array.rank > 1:
                return self.item(array, (index,))
            return self._load(array, (index,))
        if iterator.kind == "range":
            span = iterator.parts[0]
            return builder.define("add", span.start, builder.define("multiply", index, span.step))
        if iterator.kind == "enumerate":
            count = builder.define("add", index, iterator.start)
            return (count, self._numbered(iterator.parts[0], index))
        return tuple([self._numbered(part, index) for part in iterator.parts])

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
