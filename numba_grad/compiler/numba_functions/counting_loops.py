"""`while` loops that count, as `for` loops: `while i < n: ...; i += step`.

So threads go over a grid. A `for` loop says how many passes there are, and what its index is in
each, so that nothing of that is kept.
"""

from dataclasses import dataclass, field

from numba_grad.compiler.numba_functions.builder import Builder
from numba_grad.compiler.numba_functions.regions import (
    Define,
    For,
    If,
    Load,
    Memory,
    Scalar,
    Statement,
    Store,
    Value,
    While,
    defined,
    rewritten,
    substituted,
    walk,
    with_regions,
)

_SIZES = ("block_size_", "grid_size_")


def with_counting_loops(statements: list[Statement], builder: Builder) -> list[Statement]:
    """The statements, with `for` loops in place of such loops, where it is known that there is a
    first pass and that steps are positive."""
    return _Loops(builder).region(statements, _Known())


@dataclass(slots=True)
class _Known:
    """Where the walk is: values of variables, and pairs of which the first is less."""

    variables: dict[Memory, Value] = field(default_factory=dict)
    less: set[tuple[Value, Value]] = field(default_factory=set)

    def copy(self) -> "_Known":
        return _Known(dict(self.variables), set(self.less))

    def forget(self, statement: Statement) -> None:
        for s in walk([statement]):
            if isinstance(s, Store):
                self.variables.pop(s.memory, None)


class _Loops:
    def __init__(self, builder: Builder) -> None:
        self.builder = builder
        self.definitions: dict[Scalar, Statement] = {}

    def region(self, statements: list[Statement], known: _Known) -> list[Statement]:
        result: list[Statement] = []
        for s in statements:
            target = defined(s)
            if target is not None:
                self.definitions[target] = s
            if isinstance(s, If):
                branches = known.copy(), known.copy()
                branches[0].less |= self._pairs(s.condition)
                then = self.region(s.then, branches[0])
                s = If(s.condition, then, self.region(s.otherwise, branches[1]))
            elif isinstance(s, For | While):
                inside = known.copy()
                inside.forget(s)
                s = with_regions(s, lambda body, inside=inside: self.region(body, inside))
            found = self._counting(s, known) if isinstance(s, While) else None
            result += [s] if found is None else found
            known.forget(s)
            if isinstance(s, Store) and not s.memory.rank and not s.is_added:
                known.variables[s.memory] = s.value
        return result

    def _pairs(self, condition: Value) -> set[tuple[Value, Value]]:
        s = self._define(condition)
        if s is not None and s.operation == "bool":
            return self._pairs(s.arguments[0])
        if s is not None and s.operation == "less":
            return {(s.arguments[0], s.arguments[1])}
        return set()

    def _define(self, value: Value) -> Define | None:
        s = self.definitions.get(value) if isinstance(value, Scalar) else None
        return s if isinstance(s, Define) else None

    def _counting(self, loop: While, known: _Known) -> list[Statement] | None:
        """The loop as a `for` loop; None if it does not count."""
        *body, end = loop.body
        inside = {x for s in walk(loop.body) if (x := defined(s)) is not None}
        chosen = self._define(end.value) if isinstance(end, Store) else None
        if not isinstance(end, Store) or end.memory != loop.leave or chosen is None:
            return None
        if chosen.operation != "select" or chosen.arguments[2] is not True:
            return None
        former = self.definitions.get(chosen.arguments[1])  # type: ignore[call-overload]
        others = [s for s in walk(body) if isinstance(s, Load | Store) and s.memory == loop.leave]
        if not isinstance(former, Load) or others != [former]:
            return None
        for following, stop in self._pairs(chosen.arguments[0]):
            step = self._step(following, body)
            if step is None or stop in inside:
                continue
            count, by = step
            start = known.variables.get(count)
            is_less = type(start) is int and type(stop) is int and start < stop
            if start is None or not (is_less or (start, stop) in known.less):
                continue
            return self._for_loop(body, count, (start, stop, by), inside)
        return None

    def _step(self, following: Value, body: list[Statement]) -> tuple[Memory, Value] | None:
        """The variable that counts, and by how much."""
        s = self._define(following)
        if s is None or s.operation != "add":
            return None
        loaded = self.definitions.get(s.arguments[0])  # type: ignore[call-overload]
        if not isinstance(loaded, Load) or loaded.memory.rank or loaded.memory.dtype != "int64":
            return None
        count = loaded.memory
        uses = [s for s in walk(body) if isinstance(s, Load | Store) and s.memory == count]
        last = uses[-1]
        is_stored = isinstance(last, Store) and last.value == following and not last.is_added
        is_once = is_stored and any(s is last for s in body)
        if not is_once or not all(isinstance(s, Load) for s in uses[:-1]):
            return None
        return (count, s.arguments[1]) if self._is_positive(s.arguments[1]) else None

    def _is_positive(self, value: Value) -> bool:
        s = self._define(value)
        if s is None:
            return type(value) is int and value > 0
        if s.operation in ("multiply", "add"):
            return all(map(self._is_positive, s.arguments))
        return s.operation.startswith(_SIZES)

    def _for_loop(
        self,
        body: list[Statement],
        count: Memory,
        span: tuple[Value, Value, Value],
        inside: set[Scalar],
    ) -> list[Statement]:
        before: list[Statement] = []
        start, stop, step = span
        with self.builder.region(before):
            step = self._outside(step, inside)
        index = self.builder.scalar("int64", "i")
        loads = [s for s in walk(body) if isinstance(s, Load) and s.memory == count]
        rest = rewritten(body, lambda s: None if any(s is load for load in loads) else s)
        rest = substituted(rest, {load.target: index for load in loads})
        return [*before, For(index, start, stop, step, rest)]

    def _outside(self, value: Value, inside: set[Scalar]) -> Value:
        """What is positive, computed before the loop."""
        s = self._define(value)
        if s is None or value not in inside:
            return value
        arguments = [self._outside(x, inside) for x in s.arguments]
        return self.builder.define(s.operation, *arguments)
