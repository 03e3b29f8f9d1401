"""What a thread of a grid needs room for on its tape: a bound that no thread exceeds.

`tape_bound.most_bytes` says about how long a tape becomes, which grows where that was too little.
Threads have what was there before they started. So lengths are linear forms here, in the place of
the thread and in indices of loops, between their least and their largest values.
"""

import itertools
from collections.abc import Mapping
from typing import Any

from numba_grad.compiler.numba_functions.tape_bound import Length, Outline
from numba_grad.immutable import immutable

Interval = tuple[int, int]


@immutable
class _Form:
    constant: int
    atoms: Mapping[str, int]  # each so many times

    def plus(self, other: "_Form", times: int = 1) -> "_Form":
        atoms = dict(self.atoms)
        for atom, count in other.atoms.items():
            atoms[atom] = atoms.get(atom, 0) + times * count
        kept = {atom: count for atom, count in atoms.items() if count}
        return _Form(self.constant + times * other.constant, kept)


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
    return _Bound(shapes, numbers, places).kept(given)


class _Bound:
    def __init__(
        self,
        shapes: Mapping[str, tuple[int, ...]],
        numbers: Mapping[str, int],
        places: Mapping[str, Interval],
    ) -> None:
        self.shapes = shapes
        self.numbers = numbers
        self.intervals = dict(places)
        self._next = itertools.count().__next__

    def kept(self, region: Outline) -> int:
        total, parts = region
        for kind, *fields in parts:
            if kind == "while":
                raise LookupError
            if kind == "if":
                total += max(map(self.kept, fields))
                continue
            start, stop, step, number, body = fields
            count = self._passes(start, stop, step, f"index {number}")
            total += count * self.kept(body) if count else 0
        return total

    def _passes(self, start: Length, stop: Length, step: Length, index: str) -> int:
        """The most that there are; the index is between the ends then."""
        first, last, stride = map(self.form, (start, stop, step))
        least, most = self.interval(stride)
        if least <= 0 <= most:
            raise LookupError
        forward = least > 0
        distance = last.plus(first, -1) if forward else first.plus(last, -1)
        longest = self.interval(distance)[1]
        ends = self.interval(first), self.interval(last)
        self.intervals[index] = (
            (ends[0][0], max(ends[0][0], ends[1][1] - 1))
            if forward
            else (min(ends[0][1], ends[1][0] + 1), ends[0][1])
        )
        return max(0, -(-longest // (least if forward else -most)))

    def interval(self, form: _Form) -> Interval:
        least = most = form.constant
        for atom, count in form.atoms.items():
            ends = [count * end for end in self.intervals[atom]]
            least, most = least + min(ends), most + max(ends)
        return least, most

    def form(self, length: Length) -> _Form:
        if length is None:
            raise LookupError
        if isinstance(length, int):
            return _Form(length, {})
        operation, *arguments = length
        if operation == "size":
            return _Form(self.shapes[arguments[0]][arguments[1]], {})
        if operation == "number":
            return _Form(self.numbers[arguments[0]], {})
        if operation in ("place", "index"):
            atom = arguments[0] if operation == "place" else f"index {arguments[0]}"
            return _Form(0, {atom: 1})
        return self._computed(operation, [self.form(x) for x in arguments])

    def _computed(self, operation: str, forms: list[_Form]) -> _Form:
        if operation in ("add", "subtract"):
            return forms[0].plus(forms[1], 1 if operation == "add" else -1)
        if operation == "negative":
            return _Form(0, {}).plus(forms[0], -1)
        if operation in ("positive", "cast"):
            return forms[0]
        for x, y in (forms, forms[::-1]) if operation == "multiply" else ():
            if not y.atoms:
                return _Form(0, {}).plus(x, y.constant)
        ends = list(itertools.product(*map(self.interval, forms)))
        return self._between(operation, ends, [self.interval(x) for x in forms])

    def _between(self, operation: str, ends: list[Any], intervals: list[Interval]) -> _Form:
        """A number of which no more is known than that it is between two others."""
        functions = {
            "multiply": lambda x, y: x * y,
            "minimum": min,
            "maximum": max,
            "floor_divide": lambda x, y: x // y,
        }
        divisor = intervals[-1]
        is_divided = operation in ("floor_divide", "mod")
        if is_divided and divisor[0] <= 0:
            raise LookupError
        if operation == "mod":
            found = [0, divisor[1] - 1]
        else:
            found = list(itertools.starmap(functions[operation], ends))
        atom = f"between {self._next()}"
        self.intervals[atom] = min(found), max(found)
        return _Form(0, {atom: 1})


def places_of(grid: tuple[int, ...], block: tuple[int, ...]) -> dict[str, Interval]:
    """Between which numbers the threads of a grid are."""
    found: dict[str, Interval] = {}
    for kind, extents in (("block", grid), ("thread", block)):
        for axis, count in zip("xyz", extents, strict=True):
            found[f"{kind}_{axis}"] = 0, count - 1
            size = "grid_size" if kind == "block" else "block_size"
            found[f"{size}_{axis}"] = count, count
    return found
