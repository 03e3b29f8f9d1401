"""What is the same in all passes of a loop, taken out of it.

    a load of an element that the loop does not write    is done once, before
    an element that all passes write                     is a variable in the loop, written after it

A compiler does as much where it can tell that no other element is the same. Here the tree says
that arrays are different ones, and ranges of indices that elements are. The adjoint gains more:
what is loaded once is kept once, an element that is written once is kept once, and cotangents of
both are sums in registers.

A loop that may have no pass stands in a branch then, so that nothing is touched that it would not
have touched.
"""

from collections.abc import Sequence
from dataclasses import replace

from numba_grad.compiler.numba_functions.analyses import swapped_together, written
from numba_grad.compiler.numba_functions.builder import Builder
from numba_grad.compiler.numba_functions.index_ranges import IndexRanges
from numba_grad.compiler.numba_functions.regions import (
    Allocate,
    Check,
    Define,
    For,
    If,
    Load,
    Memory,
    Scalar,
    Size,
    Statement,
    Store,
    Value,
    defined,
    operands,
    rewritten,
    walk,
    with_regions,
)

_Indices = tuple[Value, ...]


def hoisted(body: list[Statement], builder: Builder, *, of_thread: bool) -> list[Statement]:
    """The statements, with what loops do in each pass alike done outside of them.

    `of_thread`: others may add to the same elements, so what is added is summed apart.
    """
    return _Hoister(body, builder, of_thread).region(body)


class _Hoister:
    def __init__(self, body: list[Statement], builder: Builder, of_thread: bool) -> None:
        self.builder = builder
        self.of_thread = of_thread
        self.ranges = IndexRanges(body)
        self.groups = swapped_together(body)

    def region(self, statements: Sequence[Statement]) -> list[Statement]:
        result: list[Statement] = []
        for s in statements:
            s = with_regions(s, self.region)
            result += self._loop(s) if isinstance(s, For) else [s]
        return result

    def _loop(self, loop: For) -> list[Statement]:
        if type(loop.step) is not int:
            return [loop]
        if any(isinstance(s, Check) for s in walk(loop.body)):
            return [loop]  # Which may be there so that what follows touches no other memory.
        inside = {x for s in walk([loop]) if (x := defined(s)) is not None}
        before, rest = self._loads(loop, inside)
        after: list[Statement] = []
        if not loop.is_parallel:  # As a variable would belong to all its passes.
            for memory, place in self._elements(rest, inside):
                rest = self._in_variable(rest, memory, place, before, after)
        if not before and not after:
            return [loop]
        return self._guarded(loop, [*before, replace(loop, body=rest), *after])

    def _guarded(self, loop: For, statements: list[Statement]) -> list[Statement]:
        """The statements; in a branch, if the loop may have no pass."""
        first, last = (loop.start, loop.stop) if loop.step > 0 else (loop.stop, loop.start)  # type: ignore[operator]
        forms = self.ranges.form(first), self.ranges.form(last)
        if forms[0] is not None and forms[1] is not None:
            passes = self.ranges.least(forms[1].plus(forms[0], -1))
            if passes is not None and passes > 0:
                return statements
        result: list[Statement] = []
        with self.builder.region(result):
            has_passes = self.builder.define("less", first, last)
        return [*result, If(has_passes, statements)]

    # Loads.

    def _loads(self, loop: For, inside: set[Scalar]) -> tuple[list[Statement], list[Statement]]:
        """What is done before the loop, and the rest of its body."""
        changed = written([loop]) | {s.memory for s in walk([loop]) if isinstance(s, Allocate)}
        outside = {x for s in loop.body for x in operands(s) if isinstance(x, Scalar)} - inside
        definitions: dict[Scalar, Statement] = {}
        taken: set[int] = set()
        before: list[Statement] = []

        def take(s: Statement) -> None:
            if id(s) in taken:
                return
            taken.add(id(s))
            for x in operands(s):
                if isinstance(x, Scalar) and x in definitions:
                    take(definitions[x])
            before.append(s)

        for s in loop.body:
            is_same = all(not isinstance(x, Scalar) or x in outside for x in operands(s))
            if not is_same:
                continue
            if isinstance(s, Size) or (isinstance(s, Define) and s.target.dtype == "int64"):
                if isinstance(s, Size) and s.memory in changed:
                    continue
                if isinstance(s, Define) and s.operation not in ("add", "subtract", "multiply"):
                    continue
                definitions[s.target] = s
                outside.add(s.target)
            elif isinstance(s, Load) and (s.memory not in changed or self._is_kept(s, loop)):
                take(s)
        return before, [s for s in loop.body if id(s) not in taken]

    def _is_kept(self, load: Load, loop: For) -> bool:
        """Whether the loop writes other elements of the array only."""
        inside = walk(loop.body)
        if load.memory in self.groups or any(
            isinstance(s, Allocate) and s.memory == load.memory for s in inside
        ):
            return False
        stores = [s for s in inside if isinstance(s, Store) and s.memory == load.memory]
        return bool(load.indices) and all(
            self.ranges.differ(load.memory, load.indices, s.indices) for s in stores
        )

    # Elements.

    def _elements(
        self, body: list[Statement], inside: set[Scalar]
    ) -> list[tuple[Memory, _Indices]]:
        """Elements that each pass writes, and that nothing else in the loop can be."""
        accesses = [s for s in walk(body) if isinstance(s, Load | Store)]
        left_out = {s.memory for s in walk(body) if isinstance(s, Allocate)} | {*self.groups}
        found: list[tuple[Memory, _Indices]] = []
        for s in self._stored(body, accesses):
            place = s.memory, s.indices
            if not s.memory.rank or s.memory in left_out or not inside.isdisjoint(s.indices):
                continue
            if any(self._is_one(place, other) for other in found):
                continue
            if all(
                self._is_one(place, (a.memory, a.indices))
                or self.ranges.differ(s.memory, s.indices, a.indices)
                for a in accesses
                if a.memory == s.memory
            ):
                found.append(place)
        return found

    def _stored(self, body: list[Statement], accesses: Sequence[Load | Store]) -> list[Store]:
        """What each pass stores; for a thread also sums in branches, of what is only added to."""
        stored = [s for s in body if isinstance(s, Store)]
        if not self.of_thread:
            return stored
        added = {s.memory for s in accesses if isinstance(s, Store) and s.is_added}
        only = added - {a.memory for a in accesses if isinstance(a, Load) or not a.is_added}
        stores = [s for s in accesses if isinstance(s, Store)]
        return [s for s in stores if s.memory in only or s in stored]

    def _is_one(self, a: tuple[Memory, _Indices], b: tuple[Memory, _Indices]) -> bool:
        return a[0] == b[0] and self.ranges.are_one(a[0], a[1], b[1])

    def _in_variable(
        self,
        body: list[Statement],
        memory: Memory,
        indices: _Indices,
        before: list[Statement],
        after: list[Statement],
    ) -> list[Statement]:
        """The body, with a variable in place of the element."""
        builder = self.builder
        variable = builder.memory("element", memory.dtype)

        def changed(s: Statement) -> Statement:
            if not isinstance(s, Load | Store):
                return s
            if not self._is_one((memory, indices), (s.memory, s.indices)):
                return s
            return replace(s, memory=variable, indices=())

        result = rewritten(body, changed)
        uses = [s for s in walk(result) if isinstance(s, Load | Store) and s.memory == variable]
        if self.of_thread and all(isinstance(s, Store) and s.is_added for s in uses):
            before.append(Allocate(variable, (), -0.0))
            with builder.region(after):
                builder.store(memory, indices, builder.load(variable), is_added=True)
            return result
        before.append(Allocate(variable, (), 0.0))
        with builder.region(before):
            builder.store(variable, (), builder.load(memory, *indices))
        with builder.region(after):
            builder.store(memory, indices, builder.load(variable))
        return result
