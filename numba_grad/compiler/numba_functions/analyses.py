"""What derivatives ask of a tree: what is written, what is active, what is used at all."""

from collections.abc import Iterable, Sequence

from numba_grad.compiler.numba_functions.regions import (
    FLOATS,
    Allocate,
    Check,
    Define,
    For,
    Height,
    If,
    Load,
    Mark,
    Memory,
    Pop,
    Push,
    Rewind,
    Scalar,
    Size,
    Statement,
    Store,
    Swap,
    While,
    nested,
    operands,
    walk,
    with_regions,
)
from numba_grad.compiler.numba_functions.scalar_operations import OPERATIONS
from numba_grad.immutable import immutable

# Shorter loops are not worth being written in another form.
_FEWEST_PASSES = 16


def is_long(loop: For) -> bool:
    """False if it is known to have few passes."""
    ends = loop.start, loop.stop
    if not all(type(x) is int for x in ends):
        return True
    return abs(loop.stop - loop.start) >= _FEWEST_PASSES  # type: ignore[operator]


def swapped_together(body: list[Statement]) -> dict[Memory, frozenset[Memory]]:
    """For each name that is swapped: all names that its array may come to have."""
    groups: dict[Memory, frozenset[Memory]] = {}
    for statement in walk(body):
        if isinstance(statement, Swap):
            union = frozenset(statement.memories)
            for memory in statement.memories:
                union |= groups.get(memory, frozenset())
            groups |= dict.fromkeys(union, union)
    return groups


def with_swapped(memories: Iterable[Memory], body: list[Statement]) -> set[Memory]:
    """These, and what may be the same array by another name."""
    groups = swapped_together(body)
    return {other for memory in memories for other in groups.get(memory, {memory})}


def written(body: list[Statement]) -> set[Memory]:
    """All names whose elements may change: by stores, and by swaps."""
    stored = [s.memory for s in walk(body) if isinstance(s, Store)]
    swapped = [m for s in walk(body) if isinstance(s, Swap) for m in s.memories]
    return with_swapped([*stored, *swapped], body)


@immutable
class Activity:
    """What depends on the inputs that have derivatives, and has an influence on results."""

    scalars: frozenset[Scalar]
    memories: frozenset[Memory]


def varied(body: list[Statement], sources: Iterable[Memory]) -> Activity:
    """What depends on `sources` in a way that has a slope."""
    scalars: set[Scalar] = set()
    memories = set(with_swapped(sources, body))
    groups = swapped_together(body)
    kept: set[str] = set()  # pairs on tapes
    while True:
        size = len(scalars) + len(memories) + len(kept)
        for s in walk(body):
            if isinstance(s, Load):
                if s.memory in memories:
                    scalars.add(s.target)
            elif isinstance(s, Define):
                slopes = OPERATIONS[s.operation].slopes
                if slopes is not None and s.target.dtype in FLOATS:
                    pairs = zip(slopes, s.arguments, strict=True)
                    if any(slope is not None and x in scalars for slope, x in pairs):
                        scalars.add(s.target)
            elif isinstance(s, Store):
                if s.value in scalars and s.memory.dtype in FLOATS:
                    memories |= groups.get(s.memory, {s.memory})
            elif isinstance(s, Push):
                if s.value in scalars:
                    kept.add(s.pair)
            elif isinstance(s, Pop) and s.pair in kept and s.target.dtype in FLOATS:
                scalars.add(s.target)
        if size == len(scalars) + len(memories) + len(kept):
            return Activity(frozenset(scalars), frozenset(memories))


def useful(body: list[Statement], results: Iterable[Memory]) -> Activity:
    """What has an influence on `results` that has a slope."""
    scalars: set[Scalar] = set()
    memories = set(with_swapped(results, body))
    groups = swapped_together(body)
    backwards = walk(body)[::-1]
    while True:
        size = len(scalars) + len(memories)
        for s in backwards:
            if isinstance(s, Load):
                if s.target in scalars:
                    memories |= groups.get(s.memory, {s.memory})
            elif isinstance(s, Define):
                slopes = OPERATIONS[s.operation].slopes
                if slopes is not None and s.target in scalars:
                    pairs = zip(slopes, s.arguments, strict=True)
                    scalars |= {
                        x for slope, x in pairs if slope is not None and isinstance(x, Scalar)
                    }
            elif isinstance(s, Store) and s.memory in memories and isinstance(s.value, Scalar):
                scalars.add(s.value)
        if size == len(scalars) + len(memories):
            return Activity(frozenset(scalars), frozenset(memories))


def active(body: list[Statement], sources: Iterable[Memory], results: Iterable[Memory]) -> Activity:
    """What is varied and useful."""
    forth, back = varied(body, sources), useful(body, results)
    return Activity(
        frozenset({s for s in forth.scalars & back.scalars if s.dtype in FLOATS}),
        frozenset({m for m in forth.memories & back.memories if m.dtype in FLOATS}),
    )


# What is used.


def without_unused(body: list[Statement], results: Iterable[Memory | Scalar]) -> list[Statement]:
    """The statements that `results` and conditions that are checked depend on."""
    checks = [s for s in walk(body) if isinstance(s, Check)]
    return _Uses(body, results, checks).kept(body)


class _Uses:
    def __init__(
        self,
        body: list[Statement],
        results: Iterable[Memory | Scalar],
        checks: Sequence[Check],
    ) -> None:
        self.checks = set(map(id, checks))
        self.memories = {m for m in results if isinstance(m, Memory)}
        self.scalars = {s for s in results if isinstance(s, Scalar)}
        self.sized: set[Memory] = set()  # of which only lengths are asked
        self.pairs: set[str] = set()
        self.tapes: set[str] = set()
        self.groups = swapped_together(body)
        self.done: set[int] = set()
        size = -1
        while size != len(self.done):
            size = len(self.done)
            self.mark(body)

    def mark(self, statements: list[Statement]) -> bool:
        """Whether one of them is used."""
        any_used = False
        for statement in reversed(statements):
            is_used = self.is_used(statement)
            for region in nested(statement):
                is_used |= self.mark(region)
            if is_used:
                any_used = True
                self.use(statement)
        return any_used

    def is_used(self, s: Statement) -> bool:
        if isinstance(s, Define | Size | Load | Pop | Height):
            return s.target in self.scalars
        if isinstance(s, Mark | Rewind):
            return s.tape in self.tapes
        if isinstance(s, Store):
            return s.memory in self.memories
        if isinstance(s, Allocate):
            return s.memory in self.memories or s.memory in self.sized
        if isinstance(s, Swap):
            return any(m in self.memories or m in self.sized for m in s.memories)
        if isinstance(s, Check):
            return id(s) in self.checks
        return isinstance(s, Push) and s.pair in self.pairs

    def use(self, s: Statement) -> None:
        if id(s) in self.done:
            return
        self.done.add(id(s))
        self.scalars |= {x for x in operands(s) if isinstance(x, Scalar)}
        if isinstance(s, Load | Store):
            self.memories |= self.groups.get(s.memory, {s.memory})
        elif isinstance(s, Size):
            self.sized |= self.groups.get(s.memory, {s.memory})
        elif isinstance(s, Pop):
            self.pairs.add(s.pair)
            self.tapes.add(s.tape)
        elif isinstance(s, For | While) and s.leave is not None:
            self.memories.add(s.leave)

    def kept(self, statements: list[Statement]) -> list[Statement]:
        return [with_regions(s, self.kept) for s in statements if id(s) in self.done]


def needed_for(
    body: list[Statement], scalars: Sequence[Scalar], checks: Sequence[Check]
) -> list[Statement]:
    """The statements that these scalars and checks depend on."""
    return _Uses(body, scalars, checks).kept(body)


def checks_of_shapes(body: list[Statement], numbers: Iterable[str]) -> list[Check]:
    """The checks that depend on lengths and on the inputs `numbers` alone, not on elements: those
    that every run comes to which has such lengths and numbers."""
    stored = written(body)
    known: set[Scalar] = set()
    found: list[Check] = []

    def visit(statements: list[Statement]) -> None:
        for s in statements:
            if isinstance(s, Load):
                is_number = s.memory.name in numbers and s.memory not in stored
                is_known = not s.memory.rank and is_number
            else:
                is_known = all(x in known for x in operands(s) if isinstance(x, Scalar))
            if not is_known:
                continue
            if isinstance(s, Define | Size | Load):
                known.add(s.target)
            elif isinstance(s, Check):
                found.append(s)
            elif isinstance(s, If):
                visit(s.then)
                visit(s.otherwise)

    visit(body)
    return found
