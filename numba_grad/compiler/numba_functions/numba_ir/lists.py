"""Lists of numbers: an array that has room for all that is appended, and how many there are.

The room is that of the loops around what appends. So these are loops whose number of passes is
known where the list is made; others are refused.
"""

# Numba's annotations are few, and wrong where they come from class attributes set at run time.
# pyright: reportAttributeAccessIssue=false, reportPrivateImportUsage=false

import operator
from collections.abc import Sequence
from typing import Any

from numba_grad.compiler.numba_functions.array_expressions.expressions import Listed
from numba_grad.compiler.numba_functions.numba_ir.iteration import Iteration
from numba_grad.compiler.numba_functions.numba_ir.meanings import (
    Elements,
    Known,
    Meaning,
    NumberList,
)
from numba_grad.compiler.numba_functions.numba_ir.type_inference import dtype_name
from numba_grad.compiler.numba_functions.numba_ir.ways import ListRoom, Loop
from numba_grad.compiler.numba_functions.regions import (
    Allocate,
    Axis,
    Check,
    For,
    Scalar,
    Statement,
    Value,
    View,
)

_ARRAY_INSTEAD = "an array, np.empty of the most elements that there can be; or "


class Lists(Iteration):
    """What is made of lists. One has no second length: who holds it twice sees what is appended."""

    def _on_build_list(self, target: Any, expression: Any) -> Meaning:
        items = [self._stored(self.meaning(item)) for item in expression.items]
        if items and self.code.is_used_at_once(target, self._block):
            return Listed(tuple(items))
        made = self._list_of(target, len(items))
        for k, item in enumerate(items):
            self._put_in_list(made, k, item)
        return made

    def _list_of(self, target: Any, length: Value) -> NumberList:
        """A list with room for some numbers, all of which it has."""
        numba_type = self.code.type_of(target)
        try:
            dtype = dtype_name(numba_type.dtype)
        except TypeError:
            instead = "a tuple, or an array with an axis more; or "
            raise self.refused(f"a list of {numba_type.dtype}", instead=instead) from None
        visible = self.builder.visible()
        values = self.builder.allocate("items", dtype, (length,), 0.0)
        statement = self.builder.body[-1]
        assert isinstance(statement, Allocate)
        count = self.builder.allocate("count", "int64")
        self.builder.store(count, (), length)
        loops = tuple(self._open_loops)
        depth = len(self.scopes)
        self._rooms[values] = ListRoom(statement, self.builder.body, visible, loops, depth)
        return NumberList(values, count)

    def repeated_list(self, target: Any, items: tuple[Meaning, ...], times: Value) -> NumberList:
        """`[x] * n`."""
        define = self.builder.define
        times = define("most", times, 0) if isinstance(times, Scalar) else max(int(times), 0)
        made = self._list_of(target, define("multiply", times, len(items)))
        with self.builder.loop(times) as index:
            for k, item in enumerate(items):
                place = define("add", define("multiply", index, len(items)), k)
                self._put_in_list(made, place, item)
        return made

    def _put_in_list(self, found: NumberList, place: Value, value: Meaning) -> None:
        if not isinstance(value, Scalar | bool | int | float):
            raise self.refused("a list of something else than numbers", instead=_ARRAY_INSTEAD)
        cast = self.builder.define("cast", value, dtype=found.values.dtype)
        self.builder.store(found.values, (place,), cast)

    def list_method(self, name: str, found: NumberList, arguments: Sequence[Meaning]) -> Meaning:
        builder = self.builder
        if name == "append":
            self._make_room(found)
            count = builder.load(found.count)
            self._put_in_list(found, count, arguments[0])
            builder.store(found.count, (), builder.define("add", count, 1))
            return Known(None)
        self._rooms[found.values].is_certain = False
        if name == "pop" and not arguments:
            count = builder.load(found.count)
            self._check_index(builder.define("greater", count, 0), "pop from empty list")
            last = builder.define("subtract", count, 1)
            builder.store(found.count, (), last)
            return builder.load(found.values, last)
        if name == "clear":
            builder.store(found.count, (), 0)
            return Known(None)
        raise self.refused(f"`{name}` of a list", instead=_ARRAY_INSTEAD)

    def _make_room(self, found: NumberList) -> None:
        """For what one line appends, in the loops around it."""
        builder, room = self.builder, self._rooms[found.values]
        loops = self._open_loops[len(room.loops) :]
        if tuple(self._open_loops[: len(room.loops)]) != room.loops:
            raise self.refused("a list that is appended to outside of the loop that makes it")
        for loop in loops:
            if loop.iterator is None:
                what = "a list that is appended to in a `while` loop"
                raise self.refused(what, instead=_ARRAY_INSTEAD)
            if self._is_gone_through(loop.iterator, found):
                raise self.refused("a list that is appended to in a loop over it")
        region: list[Statement] = []
        try:
            more = self._passes(loops, room, region)
        except LookupError:
            what = "a list that is appended to in a loop whose length is not known where it is made"
            raise self.refused(what, instead=_ARRAY_INSTEAD) from None
        with builder.region(region):
            length = builder.define("add", room.statement.shape[0], more)
        place = next(k for k, s in enumerate(room.region) if s is room.statement)
        room.region[place:place] = region
        room.statement.shape = (length,)
        builder.resize(found.values, (length,))
        has_branch = len(self.scopes) != room.depth + len(loops)
        if has_branch or any(loop.leave is not None for loop in loops):
            room.is_certain = False

    def _is_gone_through(self, iterator: Elements, found: NumberList) -> bool:
        parts = [part for part in iterator.parts if isinstance(part, Elements)]
        return iterator.of == found or any(self._is_gone_through(part, found) for part in parts)

    def _passes(self, loops: Sequence[Loop], room: ListRoom, region: list[Statement]) -> Value:
        """How often what is inside of these loops is done, computed where the list is made: the
        lengths of inner loops may follow from the indices of outer ones, so it is counted."""
        builder = self.builder
        lengths: list[Value] = []
        for loop in loops:
            assert loop.iterator is not None
            with builder.region([]):
                lengths.append(builder.define("most", self._length(loop.iterator), 0))
        try:
            with builder.region([]):
                product: Value = 1
                for length in lengths:
                    product = builder.define("multiply", product, length)
            return builder.again([product], room.visible, region)[0]
        except LookupError:
            region.clear()
        total = builder.memory("room", "int64")
        region.append(Allocate(total, (), 0.0))
        given: dict[Scalar, Value] = {}
        inner = region
        for loop, length in zip(loops[:-1], lengths, strict=False):
            (count,) = builder.again([length], room.visible, inner, given)
            copy = For(builder.scalar("int64", "i"), 0, count, 1, [])
            inner.append(copy)
            inner = copy.body
            if loop.index is not None and loop.iterator is not None:
                span = loop.iterator.parts[0]
                ends = builder.again([span.start, span.step], room.visible, inner, given)
                with builder.region(inner):
                    ahead = builder.define("multiply", copy.index, ends[1])
                    given[loop.index] = builder.define("add", ends[0], ahead)
        (count,) = builder.again([lengths[-1]], room.visible, inner, given)
        with builder.region(inner):
            builder.store(total, (), count, is_added=True)
        with builder.region(region):
            return builder.load(total)

    def _elements(self, found: Meaning) -> Elements:
        if isinstance(found, NumberList):
            # Of as many elements as it has now.
            return Elements("array", (self.as_array(found),), of=found)
        return super()._elements(found)

    def length_of_list(self, found: NumberList) -> Value:
        """By the loops that have appended, or as it was counted."""
        room = self._rooms[found.values]
        # In a loop, what is appended after this place may have been before it.
        if room.is_certain and len(self._open_loops) == len(room.loops):
            return room.statement.shape[0]
        return self.builder.load(found.count)

    def as_array(self, found: NumberList) -> View:
        """What a list has now, as a view of its array."""
        return View(found.values, (Axis(0, 1, 0),), (self.length_of_list(found),))

    def _check_index(self, condition: Value, message: str) -> None:
        self.builder.body.append(Check(condition, "IndexError", (message,)))

    def _part_of_list(self, found: NumberList, part: slice) -> Meaning:
        view = self.array("item", None, (self.as_array(found), (part,)))
        return self._kept(view)

    def _place_in_list(self, found: NumberList, index: Meaning) -> Value:
        if not isinstance(index, Scalar | bool | int):
            raise self.refused("a part of a list", instead=_ARRAY_INSTEAD)
        define, count = self.builder.define, self.builder.load(found.count)
        place = self.wrapped(index, count)
        is_there = define(
            "bitwise_and",
            define("less_equal", 0, place),
            define("less", place, count),
            dtype="bool",
        )
        self._check_index(is_there, "list index out of range")
        return place

    def _is_list(self, meaning: Meaning) -> bool:
        return isinstance(meaning, NumberList)

    def _operation(self, target: Any, function: Any, variables: Sequence[Any]) -> Meaning:
        if function is operator.mul:
            found, times = (self.meaning(v) for v in variables)
            if isinstance(found, Listed):
                return self.repeated_list(target, found.items, times)
        return super()._operation(target, function, variables)

    def item(self, found: Meaning, index: Meaning, target: Any = None) -> Meaning:
        if isinstance(found, NumberList) and isinstance(getattr(index, "value", index), slice):
            return self._part_of_list(found, getattr(index, "value", index))
        if isinstance(found, NumberList):
            return self.builder.load(found.values, self._place_in_list(found, index))
        if isinstance(found, Listed):
            return self._one_of(found.items, index)
        return super().item(found, index, target)

    def set_item(self, target: Any, index: Meaning, value: Any) -> None:
        found = self.meaning(target)
        if isinstance(found, NumberList):
            self._put_in_list(found, self._place_in_list(found, index), self.meaning(value))
            return
        super().set_item(target, index, value)
