"""Room on tapes, made before the loops that fill them.

How much a nest of loops keeps is computed where it begins, if lengths say it. So a tape is as long
as it has to be, without copies, and loops without a look at its length can become vector code.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace

from numba_grad.compiler.numba_functions.builder import Builder
from numba_grad.compiler.numba_functions.regions import (
    For,
    If,
    Mark,
    Pop,
    Push,
    Rewind,
    Room,
    Statement,
    Value,
    nested,
    walk,
    with_regions,
)
from numba_grad.compiler.numba_functions.trip_counts import TripCounts


def with_rooms(statements: Sequence[Statement], builder: Builder) -> list[Statement]:
    """The statements, with room made for what loops keep."""
    result: list[Statement] = []
    for s in statements:
        if isinstance(s, For):
            rooms = _made(s, builder)
            result += rooms
            tapes = {room.tape for room in rooms if isinstance(room, Room)}
            s = replace(s, body=_with_room(s.body, tapes))
        result.append(with_regions(s, lambda region: with_rooms(region, builder)))
    return result


def _made(loop: For, builder: Builder) -> list[Statement]:
    """The statements that make room for what a loop keeps, on each tape of which that is known."""
    result: list[Statement] = []
    pushed = {s.tape for s in walk([loop]) if isinstance(s, Push) and not s.has_room}
    for tape in sorted(pushed):
        own: list[Statement] = []
        try:
            with builder.region(own):
                count = passed(Push, [loop], tape, TripCounts(loop, builder))
        except LookupError:
            continue
        result += [*own, Room(tape, count)]
    return result


def passed(
    kind: type[Push | Pop], statements: Sequence[Statement], tape: str, counts: TripCounts
) -> Value:
    """How many numbers they keep, or take. LookupError where it is not known, and where they do
    something else with the tape."""
    define = counts.builder.define
    total: Value = 0
    for s in statements:
        if isinstance(s, kind) and s.tape == tape:
            total = define("add", total, 1)
        elif isinstance(s, Push | Pop | Mark | Rewind) and s.tape == tape:
            raise LookupError
        elif isinstance(s, For):
            inner = passed(kind, s.body, tape, counts)
            if inner == 0 and type(inner) is int:
                continue
            total = define("add", total, define("multiply", counts.of(s), inner))
        elif isinstance(s, If):
            branches = [passed(kind, region, tape, counts) for region in nested(s)]
            if branches[0] != branches[1]:
                chosen = counts.before(s.condition), *branches
                branches = [define("select", *chosen, dtype="int64")]
            total = define("add", total, branches[0])
        elif any(
            isinstance(x, Push | Pop | Mark | Rewind) and x.tape == tape
            for part in nested(s)
            for x in walk(part)
        ):
            raise LookupError
    return total


def _with_room(statements: Sequence[Statement], tapes: Collection[str]) -> list[Statement]:
    if not tapes:
        return list(statements)
    result: list[Statement] = []
    for s in statements:
        if isinstance(s, Push) and s.tape in tapes:
            s = Push(s.tape, s.value, s.pair, has_room=True)
        elif isinstance(s, For | If):
            s = with_regions(s, lambda region: _with_room(region, tapes))
        result.append(s)
    return result
