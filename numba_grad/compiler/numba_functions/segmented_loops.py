"""A loop's two sweeps within a budget of memory: its tape is that of some passes alone.

The forward sweep keeps its tape as long as that fits in half of the budget. From then on each pass
forgets what the one before has kept, and the state, all that the loop writes to and does not make
itself, is kept once for as many passes as did fit: a *segment*. The reverse sweep takes the
segments from last to first. It puts the state back, does the passes again, with the tape, and then
reverses them. So a pass is computed at most twice, and a tape that fits costs one state more.

This is checkpointing with one level of snapshots. The binomial form (Griewank and Walther, ACM TOMS
26, 2000) needs the number of passes before the first one, which a `while` does not have.
"""

from collections.abc import Collection, Sequence

from numba_grad.compiler.numba_functions.analyses import with_swapped
from numba_grad.compiler.numba_functions.builder import Builder
from numba_grad.compiler.numba_functions.regions import (
    Allocate,
    Check,
    For,
    Height,
    Mark,
    Memory,
    Pop,
    Push,
    Rewind,
    Scalar,
    Statement,
    Store,
    Swap,
    Value,
    While,
    defined,
    substituted,
    walk,
)
from numba_grad.compiler.numba_functions.tapes import DTYPES, entry_bytes, of_states, tape_of

_STATES = tuple(map(of_states, DTYPES))
_ALL_PASSES = float(1 << 62)


def is_segmentable(loop: For | While, forward: Sequence[Statement]) -> bool:
    """Whether a tape is kept in a loop whose passes can be done again one after the other: names
    may be swapped at the end of a pass, not within inner loops or branches."""
    inside = walk(list(forward))
    swaps = [s for s in inside if isinstance(s, Swap)]
    if any(not any(s is own for own in forward) for s in swaps):
        return False
    swapped = {m for s in swaps for m in s.memories}
    if any(isinstance(s, Allocate) and s.memory in swapped for s in inside):
        return False
    return any(isinstance(s, Push) for s in inside)


def state_of(forward: list[Statement], cotangents: Collection[Memory]) -> list[Memory]:
    """What passes write to, but for what they make themselves. Cotangents are only swapped, as
    their arrays are, and the reverse sweep goes on with those that there are."""
    inside = walk(forward)
    own = {s.memory for s in inside if isinstance(s, Allocate)}
    swapped = [m for s in inside if isinstance(s, Swap) for m in s.memories]
    written = dict.fromkeys([s.memory for s in inside if isinstance(s, Store)])
    memories = with_swapped([*written, *swapped], forward) - own - set(cotangents)
    return sorted(memories, key=lambda m: m.name)


class SegmentedLoop:
    """A loop, while its sweeps are written.

    `forward` and `reverse` are those of a pass; `index` is what `reverse` reads in place of the
    loop's index, and `most_bytes` the budget.
    """

    def __init__(
        self,
        name: str,
        loop: For | While,
        forward: list[Statement],
        reverse: list[Statement],
        index: Scalar | None,
        state: list[Memory],
        most_bytes: int,
        builder: Builder,
    ) -> None:
        self.name = name
        self.loop = loop
        self.forward = forward
        self.reverse = reverse
        self.index = index
        self.most_bytes = most_bytes
        self.most_of_each = most_bytes // 2  # tape and states
        self.builder = builder
        self.state = state
        self.pairs = [builder.name("state") for _ in self.state]
        self.mark = builder.name("mark")
        self.is_kept = builder.memory("is_kept", "int64")  # the tape of all passes
        self.every = builder.memory("passes_of_segment", "int64")

    # The forward sweep.

    def forward_sweep(self) -> list[Statement]:
        """The loop, with the tape as far as it fits."""
        builder, loop = self.builder, self.loop
        number = builder.memory("pass_number", "int64")
        result: list[Statement] = [
            Allocate(self.is_kept, (), 1.0),
            Allocate(self.every, (), _ALL_PASSES),
            Allocate(number, (), 0.0),
            *[Mark(tape, self.mark) for tape in (*DTYPES, *_STATES)],
        ]
        body: list[Statement] = []
        with builder.region(body):
            done = builder.load(number)
            with builder.branch(builder.define("equal", builder.load(self.is_kept), 1)):
                kept = self._height(*DTYPES)
                with builder.branch(builder.define("greater", kept, self.most_of_each)):
                    builder.store(self.is_kept, (), 0)
                    builder.store(self.every, (), builder.define("maximum", done, 1))
            with builder.branch(builder.define("equal", builder.load(self.is_kept), 0)):
                self._forget()
            rest = builder.define("mod", done, builder.load(self.every))
            with builder.branch(builder.define("equal", rest, 0)):
                self._keep_state()
            builder.store(number, (), 1, is_added=True)
        body += self.forward
        if isinstance(loop, For):
            result.append(For(loop.index, loop.start, loop.stop, loop.step, body, loop.leave))
        else:
            result.append(While(loop.leave, body))
        with builder.region(result):
            is_forgotten = builder.define("equal", builder.load(self.is_kept), 0)
            with builder.branch(is_forgotten):
                self._forget()
        return result

    def _height(self, *tapes: str) -> Value:
        """How many bytes these tapes have, of this loop."""
        builder = self.builder
        total: Value = 0
        for tape in tapes:
            height = builder.scalar("int64")
            builder.body.append(Height(height, tape, self.mark))
            nbytes = builder.define("multiply", height, entry_bytes(tape))
            total = builder.define("add", total, nbytes)
        return total

    def _forget(self) -> None:
        self.builder.body += [Rewind(tape, self.mark) for tape in DTYPES]

    def _keep_state(self) -> None:
        builder = self.builder
        for memory, pair in zip(self.state, self.pairs, strict=True):
            with builder.elements(builder.sizes(memory)) as at:
                builder.body.append(Push(_tape(memory), builder.load(memory, *at), pair))
        fits = builder.define("less_equal", self._height(*_STATES), self.most_of_each)
        message = (
            f"{self.name}: the derivative needs more than {self.most_bytes} bytes, for states of "
            "its loop and the tape of some passes; try: ng.differentiable(function, memory=...) "
            "with more (its tape_bytes(*arguments) says how many keep all passes), or a function "
            "of fewer steps in ng.scan"
        )
        builder.body.append(Check(fits, "MemoryError", (message,)))

    # The reverse sweep.

    def reverse_sweep(self, passes: Value) -> None:
        """Write the reversed loop; `passes`: how many there were."""
        builder = self.builder
        is_done_again = builder.define("equal", builder.load(self.is_kept), 0)
        every = builder.load(self.every)
        ahead = builder.define("subtract", builder.define("add", passes, every), 1)
        segments = builder.define("floor_divide", ahead, every)
        with builder.loop(-1, builder.define("subtract", segments, 1), -1) as segment:
            first = builder.define("multiply", segment, every)
            last = builder.define("minimum", builder.define("add", first, every), passes)
            with builder.branch(is_done_again):
                self._unswap(builder.define("subtract", last, first))
                self._put_state_back()
                with builder.loop(last, first) as number:
                    builder.body += self._again(number)
            end = builder.define("subtract", first, 1)
            with builder.loop(end, builder.define("subtract", last, 1), -1) as number:
                self._reversed_pass(number)
        builder.body += [Rewind(tape, self.mark) for tape in _STATES]

    def _index(self, number: Value) -> Value:
        loop, builder = self.loop, self.builder
        if not isinstance(loop, For):
            return number
        return builder.define("add", loop.start, builder.define("multiply", number, loop.step))

    def _again(self, number: Value) -> list[Statement]:
        """A pass of the forward sweep, in names of its own."""
        targets = [t for s in walk(self.forward) if (t := defined(s)) is not None]
        names: dict[Scalar, Value] = {t: self.builder.scalar(t.dtype) for t in targets}
        if isinstance(self.loop, For):
            names[self.loop.index] = self._index(number)
        return substituted(self.forward, names)

    def _reversed_pass(self, number: Value) -> None:
        names = {} if self.index is None else {self.index: self._index(number)}
        self.builder.body += substituted(self.reverse, names)

    def _unswap(self, passes: Value) -> None:
        """Names as they were before these passes; contents follow."""
        swaps = [s for s in self.forward if isinstance(s, Swap)]
        if swaps:
            with self.builder.loop(passes):
                self.builder.body += [Swap(s.others, s.memories) for s in reversed(swaps)]

    def _put_state_back(self) -> None:
        builder = self.builder
        pairs = list(zip(self.state, self.pairs, strict=True))
        for memory, pair in reversed(pairs):
            with builder.elements(builder.sizes(memory), is_backwards=True) as at:
                value = builder.scalar(memory.dtype)
                builder.body.append(Pop(value, _tape(memory), pair))
                builder.store(memory, at, value)


def _tape(memory: Memory) -> str:
    return of_states(tape_of(memory.dtype))
