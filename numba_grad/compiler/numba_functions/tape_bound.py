"""How long a tape may become, from shapes and numbers, before a kernel is run or compiled.

    outline      of an adjoint: what it keeps in each region, and what lengths of loops are made of
    most_bytes   the most that it keeps for inputs of some shapes: a bound, as it takes the longer
                 branch each time

An outline is made of lists, numbers and strings, which JSON keeps: [kept, [part, ...]] is a region,
a part ["for", start, stop, step, number, region], ["while", region] or ["if", region, region]. A
length is a number, None if it depends on elements, or [operation, *lengths]; ["place", name] is one
of a thread in a grid (`tape_capacity.py`).
"""

from collections.abc import Callable, Mapping
from typing import Any

from numba_grad.compiler.numba_functions.analyses import written
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
    is_known = True
    indices: dict[int, int] = {}

    def value(length: Length) -> int:
        if length is None:
            raise LookupError
        if isinstance(length, int):
            return length
        operation, *arguments = length
        if operation == "size":
            return shapes[arguments[0]][arguments[1]]
        if operation == "number":
            return numbers[arguments[0]]
        if operation == "index":
            return indices[arguments[0]]
        return _ARITHMETIC[operation](*map(value, arguments))

    def passes(start: Length, stop: Length, step: Length, number: int) -> tuple[int, list[int]]:
        """How many, and the first and the last index."""
        first, stride = value(start), value(step)
        count = max(0, -((first - value(stop)) // stride)) if stride else 0
        return count, [first, first + (count - 1) * stride]

    def kept(region: Outline) -> int:
        nonlocal is_known
        total, parts = region
        for kind, *fields in parts:
            if kind == "if":
                total += max(map(kept, fields))
                continue
            count, ends = _UNKNOWN_PASSES, [0]
            if kind == "for":
                try:
                    count, ends = passes(*fields[:4])
                except (LookupError, ZeroDivisionError):
                    is_known = False
            else:
                is_known = False
            most = 0
            for index in ends if count else ():
                if kind == "for":
                    indices[fields[3]] = index
                # Of triangles one end has the longest row.
                most = max(most, kept(fields[-1]))
            total += count * most
        return total

    return kept(given), is_known
