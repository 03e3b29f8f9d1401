"""How long a tape may become, from shapes and numbers, before a kernel is run or compiled.

    outline      of an adjoint: what it keeps in each region, and what lengths of loops are made of
    most_bytes   the most that it keeps for inputs of some shapes: a bound, as it takes the longer
                 branch each time; with a guess for loops of which nothing is known
    capacity     the same of a thread of a grid, which has what was there before it started: a bound
                 that no thread exceeds

An outline is made of lists, numbers and strings, which JSON keeps: [kept, [part, ...]] is a region,
a part ["for", start, stop, step, number, region], ["while", region] or ["if", region, region]. A
length is a number, None if it depends on elements, or [operation, *lengths]; ["place", name] is one
of a thread in a grid. For sizes that are known lengths are linear forms, in the place of the thread
and in indices of loops, between their least and their largest values.
"""

import itertools
from collections.abc import Callable, Mapping
from typing import Any

from numba_grad.compiler.numba_functions.analyses import written
from numba_grad.compiler.numba_functions.index_ranges import Form, combined
from numba_grad.compiler.numba_functions.regions import (
    Allocate,
    Define,
    For,
    If,
    Load,
    Memory,
    Push,
    RegionKernel,
    Scalar,
    Size,
    Statement,
    Value,
    While,
    walk,
)
from numba_grad.compiler.numba_functions.tapes import entry_bytes

Outline = list[Any]
Length = Any  # int, None or list
Interval = tuple[int, int]
# Of a loop that says nothing of its length.
_UNKNOWN_PASSES = 1000

_ARITHMETIC: dict[str, Callable[..., Any]] = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "floor_divide": lambda x, y: x // y,
    "mod": lambda x, y: x % y,
    "negative": lambda x: -x,
    "positive": lambda x: x,
    "minimum": min,
    "maximum": max,
    "cast": lambda x: int(x),
}


def outline(kernel: RegionKernel, tape: str | None = None) -> Outline:
    """The outline of an adjoint that keeps its whole tape: of all tapes, or of one."""
    stored = written(kernel.body)
    lengths: dict[Scalar, Length] = {}
    shapes: dict[Memory, tuple[Value, ...]] = {
        s.memory: s.shape for s in walk(kernel.body) if isinstance(s, Allocate)
    }

    def of(value: Value) -> Length:
        if isinstance(value, Scalar):
            return lengths.get(value)
        return value if isinstance(value, int) else None

    def size(memory: Memory, axis: int) -> Length:
        shape = kernel.shapes.get(memory)
        if isinstance(shape, Memory):
            memory = shape
        elif shape is not None:
            return of(shape[axis])
        if memory in kernel.inputs:
            return ["size", memory.name, axis]
        return of(shapes[memory][axis]) if memory in shapes else None

    def region(statements: list[Statement]) -> Outline:
        kept = 0
        parts: list[Any] = []
        for s in statements:
            if isinstance(s, Push) and tape in (None, s.tape):
                kept += entry_bytes(s.tape)
            elif isinstance(s, Define) and not s.arguments:
                lengths[s.target] = ["place", s.operation]
            elif isinstance(s, Define) and s.operation in _ARITHMETIC:
                arguments = [of(x) for x in s.arguments]
                if None not in arguments:
                    lengths[s.target] = [s.operation, *arguments]
            elif isinstance(s, Size):
                lengths[s.target] = size(s.memory, s.axis)
            elif isinstance(s, Load) and s.memory in kernel.inputs and not s.memory.rank:
                lengths[s.target] = None if s.memory in stored else ["number", s.memory.name]
            elif isinstance(s, For):
                span = of(s.start), of(s.stop), of(s.step)
                number = len(lengths)
                lengths[s.index] = ["index", number]
                parts.append(["for", *span, number, region(s.body)])
            elif isinstance(s, While):
                parts.append(["while", region(s.body)])
            elif isinstance(s, If):
                parts.append(["if", region(s.then), region(s.otherwise)])
        return [kept, [part for part in parts if _keeps(part)]]

    return region(kernel.body)


def _keeps(part: list[Any]) -> bool:
    regions = [x for x in part[1:] if isinstance(x, list) and x and isinstance(x[-1], list)]
    return any(region[0] or region[1] for region in regions)


def most_bytes(
    given: Outline, shapes: Mapping[str, tuple[int, ...]], numbers: Mapping[str, int]
) -> tuple[int, bool]:
    """The most bytes on tapes, and whether all lengths are known."""
    bound = _Bound(shapes, numbers, {}, _UNKNOWN_PASSES)
    return bound.kept(given), bound.is_known


def capacity(
    given: Outline,
    shapes: Mapping[str, tuple[int, ...]],
    numbers: Mapping[str, int],
    places: Mapping[str, Interval],
) -> int:
    """The bytes of an outline.

    Parameters
    ----------
    places : between which numbers a thread is: "thread_x" and the like

    Raises
    ------
    LookupError
        If nothing is known of the length of a loop that keeps anything.
    """
    return _Bound(shapes, numbers, places, None).kept(given)


class _Bound:
    def __init__(
        self,
        shapes: Mapping[str, tuple[int, ...]],
        numbers: Mapping[str, int],
        places: Mapping[str, Interval],
        unknown_passes: int | None,
    ) -> None:
        """`unknown_passes`: of loops of which nothing is known; None where that is an error."""
        self.shapes = shapes
        self.numbers = numbers
        self.intervals: dict[Any, Interval] = dict(places)
        self.unknown_passes = unknown_passes
        self.is_known = True
        self._next = itertools.count().__next__

    def kept(self, region: Outline) -> int:
        total, parts = region
        for kind, *fields in parts:
            if kind == "if":
                total += max(map(self.kept, fields))
            elif kind == "while":
                total += self._unknown() * self.kept(fields[0])
            else:
                total += self._kept_by_loop(*fields)
        return total

    def _unknown(self) -> int:
        if self.unknown_passes is None:
            raise LookupError
        self.is_known = False
        return self.unknown_passes

    def _kept_by_loop(
        self, start: Length, stop: Length, step: Length, number: int, body: Outline
    ) -> int:
        try:
            count, (least, most) = self._passes(start, stop, step)
        except LookupError:
            return self._unknown() * self.kept(body)
        # A guess looks at the ends alone: of triangles one of them has the longest row.
        is_guess = self.unknown_passes is not None
        longest = 0
        for indices in [(least, least), (most, most)] if is_guess else [(least, most)]:
            self.intervals[f"index {number}"] = indices
            longest = max(longest, self.kept(body) if count else 0)
        return count * longest

    def _passes(self, start: Length, stop: Length, step: Length) -> tuple[int, Interval]:
        """The most that there are, and what the index is between then."""
        first, last, stride = map(self.form, (start, stop, step))
        least, most = self.interval(stride)
        if least <= 0 <= most:
            raise LookupError
        forward = least > 0
        distance = last.plus(first, -1) if forward else first.plus(last, -1)
        longest = self.interval(distance)[1]
        ends = self.interval(first), self.interval(last)
        indices = (
            (ends[0][0], max(ends[0][0], ends[1][1] - 1))
            if forward
            else (min(ends[0][1], ends[1][0] + 1), ends[0][1])
        )
        return max(0, -(-longest // (least if forward else -most))), indices

    def interval(self, form: Form) -> Interval:
        least = most = form.constant
        for atom, count in form.atoms.items():
            ends = [count * end for end in self.intervals[atom]]
            least, most = least + min(ends), most + max(ends)
        return least, most

    def form(self, length: Length) -> Form:
        if length is None:
            raise LookupError
        if isinstance(length, int):
            return Form(length, {})
        operation, *arguments = length
        if operation == "size":
            return Form(self.shapes[arguments[0]][arguments[1]], {})
        if operation == "number":
            return Form(self.numbers[arguments[0]], {})
        if operation in ("place", "index"):
            atom = arguments[0] if operation == "place" else f"index {arguments[0]}"
            return Form(0, {atom: 1})
        forms = [self.form(x) for x in arguments]
        found = combined(operation, forms)
        return self._between(operation, list(map(self.interval, forms))) if found is None else found

    def _between(self, operation: str, intervals: list[Interval]) -> Form:
        """A number of which no more is known than that it is between two others."""
        divisor = intervals[-1]
        if operation in ("floor_divide", "mod") and divisor[0] <= 0 <= divisor[1]:
            raise LookupError
        if operation == "mod" and any(least < most for least, most in intervals):
            found = [min(0, divisor[0] + 1), max(0, divisor[1] - 1)]
        else:
            ends = itertools.product(*intervals)
            found = list(itertools.starmap(_ARITHMETIC[operation], ends))
        atom = f"between {self._next()}"
        self.intervals[atom] = min(found), max(found)
        return Form(0, {atom: 1})


def places_of(grid: tuple[int, ...], block: tuple[int, ...]) -> dict[str, Interval]:
    """Between which numbers the threads of a grid are."""
    found: dict[str, Interval] = {}
    for kind, extents in (("block", grid), ("thread", block)):
        for axis, count in zip("xyz", extents, strict=True):
            found[f"{kind}_{axis}"] = 0, count - 1
            size = "grid_size" if kind == "block" else "block_size"
            found[f"{size}_{axis}"] = count, count
    return found
