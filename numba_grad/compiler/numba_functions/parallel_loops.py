"""Loops whose passes threads may share.

The passes of a loop are independent where no pass writes an element that another one reads or
writes: where all indices of what it writes are, along one axis, the loop's own index. That is shown
from the linear forms of indices (`index_ranges.py`); of `prange` the user says so.

    a sum over passes           each pass has a number of its own; these are added in order
    sums into neighbours        an adjoint adds to `a[i - 1]`, `a[i]` and `a[i + 1]`: passes come in
                                blocks, every second one at once, then the others
    a tape                      where each pass keeps, or takes, equally many numbers, it follows
                                from the pass where on the tape they are

Which loops and blocks there are follows from the program and from sizes, so results are bitwise the
same for any number of threads. To call threads costs a microsecond, and makes the kernel longer: at
any size `prange` alone is shared; where arrays are large, nests, and loops outside of others.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from numba_grad.compiler.numba_functions.analyses import swapped_together
from numba_grad.compiler.numba_functions.builder import Builder
from numba_grad.compiler.numba_functions.index_ranges import Form, IndexRanges
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
    Parallel,
    Pop,
    Push,
    Rewind,
    Room,
    Scalar,
    Seek,
    Statement,
    Store,
    Swap,
    Top,
    Value,
    While,
    defined,
    nested,
    rewritten,
    walk,
    with_regions,
)
from numba_grad.compiler.numba_functions.tape_rooms import passed
from numba_grad.compiler.numba_functions.trip_counts import TripCounts
from numba_grad.immutable import immutable

# Of a task that is worth a thread: about 10 us, at the least that a statement takes.
_WORK_OF_TASK = 20_000
_UNKNOWN_PASSES = 16  # of an inner loop whose bounds are computed in the outer one
_HEAVY = {
    **dict.fromkeys(("exp", "log", "sin", "cos"), 20),
    **{"power": 40, "tanh": 30, "divide": 4, "sqrt": 6},
}
# Blocks of passes that add to each other's elements.
_SHORTEST_BLOCK = 8
_MOST_BLOCKS = 64
_FARTHEST = 8  # elements from a pass's own


def with_parallel_loops(
    body: list[Statement], builder: Builder, *, are_large: bool
) -> list[Statement]:
    """The statements, with `Parallel` ones in place of such loops: of those by `prange`, and, where
    arrays are large, of all."""
    return _Writer(body, builder, are_large=are_large).region(body, depth=0)


@immutable
class _Tape:
    """A tape in a loop of which all passes do alike with it."""

    name: str
    step: Value  # what a pass adds to its top
    top: Scalar  # before the loop


class _Writer:
    def __init__(self, body: list[Statement], builder: Builder, *, are_large: bool) -> None:
        self.are_large = are_large
        self.builder = builder
        self.ranges = IndexRanges(body)
        self.swapped = swapped_together(body)

    def region(self, statements: list[Statement], depth: int) -> list[Statement]:
        result: list[Statement] = []
        for s in statements:
            if isinstance(s, For):
                shared = self._shared(s, depth)
                if shared is not None:
                    result += shared
                    continue
                s = replace(s, is_parallel=False)
            inner = depth + isinstance(s, For | While)
            result.append(with_regions(s, lambda region, inner=inner: self.region(region, inner)))
        return result

    # Which loops.

    def _shared(self, loop: For, depth: int) -> list[Statement] | None:
        """The loop in a form that threads share; None if it is to stay."""
        if loop.leave is not None or loop.step not in (1, -1) or not self._is_worth_it(loop, depth):
            return None
        apart = self._apart(loop)
        if apart is None:
            return None
        try:
            with self.builder.region([]):
                result = self.builder.body
                self._write(loop, *apart)
        except LookupError:  # What a pass keeps depends on more than lengths.
            return None
        return result

    def _apart(self, loop: For) -> tuple[list[Memory], int] | None:
        """The sums that passes add to, and how far apart passes must be to share nothing else; None
        if they do, or nothing is known."""
        inside = walk(loop.body)
        if any(isinstance(s, Check | Swap | Room | Mark | Rewind | Height) for s in inside):
            return None
        if not all(s.has_room for s in inside if isinstance(s, Push)):
            return None
        own = {s.memory for s in inside if isinstance(s, Allocate)}
        names = {x for s in inside if (x := defined(s)) is not None}
        sums: list[Memory] = []
        reach = 0
        for memory in dict.fromkeys(s.memory for s in inside if isinstance(s, Store)):
            if memory in own:
                continue
            stores = [s for s in inside if isinstance(s, Store) and s.memory == memory]
            loads = [s for s in inside if isinstance(s, Load) and s.memory == memory]
            if not memory.rank:
                if loads or memory.dtype not in FLOATS or not all(s.is_added for s in stores):
                    return None
                sums.append(memory)
                continue
            if memory in self.swapped and any(m in self.swapped[memory] for m in own):
                return None
            distance = self._distance(loop, memory, stores, loads, names)
            if distance is None:
                return None
            reach = max(reach, distance)
        return sums, reach

    def _is_worth_it(self, loop: For, depth: int) -> bool:
        if loop.is_parallel:
            return True
        if not self.are_large:
            return False
        return not depth or any(isinstance(s, For | While) for s in walk(loop.body))

    def _distance(
        self,
        loop: For,
        memory: Memory,
        stores: Sequence[Store],
        loads: Sequence[Load],
        names: Collection[Scalar],
    ) -> int | None:
        """How far apart passes must be to touch no element in common; None if nothing is known."""
        for axis in range(memory.rank):
            forms = [self._form(loop, s, axis, names) for s in stores]
            constants = {form.constant for form in forms if form is not None}
            rest = {frozenset(form.atoms.items()) for form in forms if form is not None}
            if None in forms or len(rest) != 1:
                continue
            distance = max(constants) - min(constants)
            own = Form(0, dict(next(iter(rest))))
            others = [s for s in loads if not self._is_own(s, loop, axis, own, constants, names)]
            if not all(self._is_apart(s, loop, stores, names) for s in others):
                continue
            if not distance:
                return 0
            if not loads and distance <= _FARTHEST and all(s.is_added for s in stores):
                return distance
        if loop.is_parallel and not any(s.is_added for s in stores):
            written = {s.indices for s in stores}
            if all(s.indices in written for s in loads):
                return 0
        return None

    def _form(
        self, loop: For, s: Load | Store, axis: int, names: Collection[Scalar]
    ) -> Form | None:
        """The place on an axis, if it is the loop's index and what the loop does not change."""
        index = s.indices[axis]
        form = self.ranges.form(index)
        if form is None or abs(form.atoms.get(loop.index, 0)) != 1:
            return None
        if any(a in names for a in form.atoms if a != loop.index):
            return None
        return form if self.ranges.is_never_negative(index) else None

    def _is_own(
        self,
        s: Load,
        loop: For,
        axis: int,
        own: Form,
        constants: Collection[int],
        names: Collection[Scalar],
    ) -> bool:
        """Whether a pass loads there what it alone stores."""
        form = self._form(loop, s, axis, names)
        return form is not None and form.atoms == own.atoms and {form.constant} == set(constants)

    def _is_apart(
        self, load: Load, loop: For, stores: Sequence[Store], names: Collection[Scalar]
    ) -> bool:
        """Whether no pass stores there: the same places in all passes, along an axis."""
        memory = load.memory
        for axis, index in enumerate(load.indices):
            place = self.ranges.place(memory, axis, index)
            if place is None or any(a == loop.index or a in names for a in place.atoms):
                continue
            if all(self.ranges.differ_on(memory, axis, index, s.indices[axis]) for s in stores):
                return True
        return False

    # How they are written.

    def _write(self, loop: For, sums: Sequence[Memory], reach: int) -> None:
        builder = self.builder
        start, stop = loop.start, loop.stop
        if loop.step == -1:  # In any order.
            start, stop = builder.define("add", stop, 1), builder.define("add", start, 1)
        passes = builder.define("most", builder.define("subtract", stop, start), 0)
        tapes = self._tapes(loop)
        work = builder.define("most", _work(loop.body, TripCounts(loop, builder)), 1)
        grain = builder.define("most", self._divided(_WORK_OF_TASK, work), 1)
        parts = {m: builder.allocate(f"{m.name}_parts", m.dtype, (passes,)) for m in sums}
        body = list(loop.body)
        if sums:
            body = self._with_parts(loop, start, parts)
        loop = replace(loop, body=body)
        if not reach:
            self._tasks(
                passes, grain, lambda first, last: self._passes(loop, tapes, start, first, last)
            )
        else:
            self._blocks(loop, tapes, start, stop, passes, grain, reach)
        for tape in tapes:
            ahead = builder.define("multiply", passes, tape.step)
            builder.body.append(Seek(tape.name, builder.define("add", tape.top, ahead)))
        for memory, part in parts.items():
            span = (0, passes, 1)
            if loop.step == -1:
                span = (builder.define("subtract", passes, 1), -1, -1)
            with builder.loop(span[1], span[0], span[2]) as k:
                builder.store(memory, (), builder.load(part, k), is_added=True)

    def _tapes(self, loop: For) -> list[_Tape]:
        """The tapes that a loop uses. LookupError where passes differ in what they do with one."""
        builder = self.builder
        counts = TripCounts(loop, builder)
        kinds = {s.tape: type(s) for s in walk(loop.body) if isinstance(s, Push | Pop)}
        result: list[_Tape] = []
        for name, kind in sorted(kinds.items()):
            step = passed(kind, loop.body, name, counts)
            if kind is Pop:
                step = builder.define("negative", step, dtype="int64")
            top = builder.scalar("int64", "top")
            builder.body.append(Top(top, name))
            result.append(_Tape(name, step, top))
        return result

    def _with_parts(self, loop: For, start: Value, parts: dict[Memory, Memory]) -> list[Statement]:
        """The body of the loop, which sums into its own number of each array."""
        builder = self.builder
        own = {memory: builder.memory(f"{memory.name}_part", memory.dtype) for memory in parts}

        def changed(s: Statement) -> Statement:
            if isinstance(s, Store) and s.memory in own:
                return replace(s, memory=own[s.memory])
            return s

        with builder.region([]):
            # -0.0 is what changes no number that is added to it.
            for memory in own.values():
                builder.body.append(Allocate(memory, (), -0.0))
            builder.body += rewritten(loop.body, changed)
            k = builder.define("subtract", loop.index, start)
            for memory, part in parts.items():
                builder.store(part, (k,), builder.load(own[memory]))
            return builder.body

    def _tasks(self, tasks: Value, grain: Value, write: Callable[[Value, Value], None]) -> None:
        builder = self.builder
        first, last = builder.scalar("int64", "first"), builder.scalar("int64", "last")
        shared = Parallel(first, last, tasks, grain, [])
        builder.body.append(shared)
        with builder.region(shared.body):
            write(first, last)

    def _passes(
        self, loop: For, tapes: Sequence[_Tape], start: Value, first: Value, last: Value
    ) -> None:
        define = self.builder.define
        self._some(loop, tapes, define("add", start, first), define("add", start, last))

    def _some(self, loop: For, tapes: Sequence[_Tape], begin: Value, end: Value) -> None:
        """The passes with an index from `begin` to before `end`."""
        define = self.builder.define
        span: tuple[Value, ...] = begin, end, 1
        number = define("subtract", begin, loop.start)
        if tapes and loop.step == -1:  # In the order that the tape has.
            last = define("subtract", end, 1)
            span = last, define("subtract", begin, 1), -1
            number = define("subtract", loop.start, last)
        for tape in tapes:
            ahead = define("multiply", number, tape.step)
            self.builder.body.append(Seek(tape.name, define("add", tape.top, ahead)))
        self.builder.body.append(For(loop.index, *span, loop.body))

    def _blocks(
        self,
        loop: For,
        tapes: Sequence[_Tape],
        start: Value,
        stop: Value,
        passes: Value,
        grain: Value,
        reach: int,
    ) -> None:
        """Every second block, then the others."""
        define = self.builder.define
        least = define("most", grain, max(_SHORTEST_BLOCK, reach + 1))
        length = define("most", least, self._divided(passes, _MOST_BLOCKS))
        count = self._divided(define("subtract", define("add", passes, length), 1), length)
        with self.builder.loop(2) as half:
            rest = define("subtract", count, half)

            def blocks(first: Value, last: Value) -> None:
                with self.builder.loop(last, first) as k:
                    number = define("add", define("multiply", k, 2), half)
                    begin = define("add", start, define("multiply", number, length))
                    end = define("least", define("add", begin, length), stop)
                    self._some(loop, tapes, begin, end)

            self._tasks(self._divided(define("add", rest, 1), 2), 1, blocks)

    def _divided(self, a: Value, b: Value) -> Value:
        return self.builder.define("floor_divide", a, b, dtype="int64")


def _work(statements: Sequence[Statement], counts: TripCounts) -> Value:
    """About how many simple operations they are."""
    define = counts.builder.define
    own = 0
    inner: Value = 0
    for s in statements:
        if isinstance(s, Define):
            own += _HEAVY.get(s.operation, 1)
        elif isinstance(s, For | While):
            try:
                passes = counts.of(s) if isinstance(s, For) else _UNKNOWN_PASSES
            except LookupError:
                passes = _UNKNOWN_PASSES
            inner = define("add", inner, define("multiply", passes, _work(s.body, counts)))
        elif isinstance(s, If):
            for branch in nested(s):
                inner = define("add", inner, _work(branch, counts))
        else:
            own += 1
    return define("add", inner, own)
