"""Room on tapes, made before the loops that fill them.

How much a nest of loops keeps is computed where it begins, if lengths say it. So a tape is as long
as it has to be, without copies, and loops without a look at its length can become vector code.
"""

from collections.abc import Collection, Sequence

from numba_grad.compiler.numba_functions.builder import Builder
from numba_grad.compiler.numba_functions.regions import (
    Define,
    For,
    If,
    Mark,
    Pop,
    Push,
    Rewind,
    Room,
    Scalar,
    Size,
    Statement,
    Value,
    While,
    defined,
    nested,
    operands,
    walk,
)


def with_rooms(body: list[Statement], builder: Builder) -> list[Statement]:
    """The statements, with room made for what loops keep."""
    return _Rooms(body, builder).region(body, set())


class _Rooms:
    def __init__(self, body: list[Statement], builder: Builder) -> None:
        self.builder = builder
        self.definitions = {t: s for s in walk(body) if (t := defined(s)) is not None}

    def region(
        self, statements: Sequence[Statement], outside: Collection[Scalar]
    ) -> list[Statement]:
        """`outside`: the scalars that are defined before."""
        visible = set(outside)
        result: list[Statement] = []
        for s in statements:
            if isinstance(s, For):
                rooms = self._made(s, visible)
                result += rooms
                made = {room.tape for room in rooms if isinstance(room, Room)}
                body = _with_room(s.body, made)
                body = self.region(body, visible | {s.index})
                s = For(s.index, s.start, s.stop, s.step, body, s.leave, s.is_parallel)
            elif isinstance(s, While):
                s = While(s.leave, self.region(s.body, visible))
            elif isinstance(s, If):
                then, otherwise = (self.region(part, visible) for part in nested(s))
                s = If(s.condition, then, otherwise)
            target = defined(s)
            if target is not None and not isinstance(s, For):
                visible.add(target)
            result.append(s)
        return result

    def _made(self, loop: For, visible: set[Scalar]) -> list[Statement]:
        """The statements that make room for what a loop keeps, on each tape of which that is
        known."""
        result: list[Statement] = []
        pushed = {s.tape for s in walk([loop]) if isinstance(s, Push) and not s.has_room}
        for tape in sorted(pushed):
            own: list[Statement] = []
            try:
                with self.builder.region(own):
                    count = self._kept([loop], tape, visible, {})
            except LookupError:
                continue
            result += [*own, Room(tape, count)]
        return result

    def _kept(
        self,
        statements: Sequence[Statement],
        tape: str,
        visible: set[Scalar],
        made: dict[Scalar, Value],
    ) -> Value:
        """How many numbers they keep. LookupError where it is not known."""
        total: Value = 0
        for s in statements:
            if isinstance(s, Push) and s.tape == tape:
                total = self.builder.define("add", total, 1)
            elif isinstance(s, Mark | Rewind | Pop) and s.tape == tape:
                raise LookupError
            elif isinstance(s, For):
                inner = self._kept(s.body, tape, visible, made)
                if inner == 0 and type(inner) is int:
                    continue
                if s.leave is not None or s.step not in (1, -1):
                    raise LookupError
                start, stop = (self._again(x, visible, made) for x in (s.start, s.stop))
                ends = (stop, start) if s.step == 1 else (start, stop)
                passes = self.builder.define("subtract", *ends)
                passes = self.builder.define("most", passes, 0)
                total = self.builder.define(
                    "add", total, self.builder.define("multiply", passes, inner)
                )
            elif any(
                isinstance(x, Push | Mark | Rewind) and x.tape == tape
                for part in nested(s)
                for x in walk(part)
            ):
                raise LookupError
        return total

    def _again(self, value: Value, visible: set[Scalar], made: dict[Scalar, Value]) -> Value:
        """An integer, computed before the loop in which it is."""
        if not isinstance(value, Scalar) or value in visible:
            return value
        if value not in made:
            s = self.definitions[value]
            if isinstance(s, Size):
                made[value] = target = self.builder.scalar("int64")
                self.builder.body.append(Size(target, s.memory, s.axis))
            elif isinstance(s, Define):
                arguments = [self._again(x, visible, made) for x in operands(s)]
                made[value] = self.builder.define(s.operation, *arguments, dtype=s.target.dtype)
            else:
                raise LookupError
        return made[value]


def _with_room(statements: Sequence[Statement], tapes: Collection[str]) -> list[Statement]:
    if not tapes:
        return list(statements)
    result: list[Statement] = []
    for s in statements:
        if isinstance(s, Push) and s.tape in tapes:
            s = Push(s.tape, s.value, s.pair, has_room=True)
        elif isinstance(s, For):
            body = _with_room(s.body, tapes)
            s = For(s.index, s.start, s.stop, s.step, body, s.leave, s.is_parallel)
        result.append(s)
    return result
