"""A function's adjoint: a forward sweep that keeps what is needed, then the reverse sweep.

Statements are taken from last to first. The cotangent of an array or a variable is a memory beside
it, that of a scalar is a scalar, or a variable if it is used in inner regions. What the reverse
sweep of a region reads of the forward sweep is

    computed again    from what is there,
    loaded again      if the memory then holds what it held: nothing in the region is stored to it
                      later, and what is stored to it after the region is undone (an *undo log*), or
    kept              on a tape, at the end of the region.

What is kept is the least from which the rest can be computed (`kept_values.py`). An undo log costs
a number for each store: it is taken where it is less than what it saves, with loops of many passes.
Statements of the forward sweep that nothing needs are left out, all of it if need be.
"""

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from numba_grad.compiler.numba_functions.analyses import (
    Activity,
    active,
    swapped_together,
    without_unused,
)
from numba_grad.compiler.numba_functions.builder import Builder
from numba_grad.compiler.numba_functions.kept_values import least_kept
from numba_grad.compiler.numba_functions.regions import (
    Allocate,
    Define,
    For,
    Function,
    If,
    Load,
    Memory,
    Pop,
    Push,
    RegionKernel,
    Scalar,
    Shape,
    Size,
    Statement,
    Store,
    Swap,
    Value,
    While,
    defined,
    lengths,
    nested,
    operands,
    rewritten,
    substituted,
    walk,
)
from numba_grad.compiler.numba_functions.scalar_operations import OPERATIONS
from numba_grad.compiler.numba_functions.segmented_loops import (
    SegmentedLoop,
    is_segmentable,
    state_of,
)
from numba_grad.compiler.numba_functions.tapes import entry_bytes, tape_of

_PASSES = 1000  # of a loop, to compare what is kept at several depths
_COST_OF_UNDO = 1.25  # beside keeping as many numbers: it loads them, and stores them back


def copied(builder: Builder, source: Memory, target: Memory) -> None:
    """Write the loops that copy an array."""
    with builder.elements(builder.sizes(source)) as at:
        builder.store(target, at, builder.load(source, *at))


def filled(builder: Builder, target: Memory, value: float) -> None:
    """Write the loops that fill an array."""
    with builder.elements(builder.sizes(target)) as at:
        builder.store(target, at, value)


def with_copies(function: Function, builder: Builder) -> tuple[list[Memory], list[Statement]]:
    """Inputs, and the loops that copy those that are written to."""
    body: list[Statement] = []
    inputs = []
    with builder.region(body):
        for parameter in function.parameters:
            if parameter in function.written:
                given = builder.memory(f"{parameter.name}_given", parameter.dtype, parameter.rank)
                copied(builder, given, parameter)
                inputs.append(given)
            else:
                inputs.append(parameter)
    return inputs, body


def primal_kernel(function: Function) -> RegionKernel:
    """The function as code that leaves its arguments alone: results are those that are returned,
    then the arrays that it writes."""
    assert function.builder is not None
    builder = function.builder.copy()
    inputs, copies = with_copies(function, builder)
    returned = set(function.returned)
    body = [s for s in function.body if not (isinstance(s, Allocate) and s.memory in returned)]
    outputs = [*function.returned, *function.written]
    variables: list[Statement] = [Allocate(m, (), 0.0) for m in function.returned if not m.rank]
    like: dict[Memory, Shape] = dict(zip(function.parameters, inputs, strict=True))
    for s in function.body:
        if isinstance(s, Allocate) and s.memory in returned:
            like[s.memory] = s.shape
    body = without_unused([*variables, *copies, *body], [*outputs, *lengths(outputs, like)])
    return RegionKernel(function.name, inputs, outputs, body, builder, like)


def adjoint_kernel(
    function: Function, sources: Collection[str], most_bytes: int | None = None
) -> RegionKernel:
    """Inputs: those of the function, then the cotangents of its results of floating dtype. Outputs:
    the cotangents of the parameters in `sources`, then working copies of arrays.

    `most_bytes`: what the tape of a loop may take, beyond which it is done again in segments.

    The number of outputs of the first kind is the number of `sources`.
    """
    assert function.builder is not None
    builder = function.builder.copy()
    results = [*function.returned, *function.written]
    parameters = [p for p in function.parameters if p.name in sources]
    activity = active(function.body, parameters, results)
    restored: set[Memory] = set()
    while True:  # Until it is known what the undo logs are of.
        sweeps = _Sweeps(function, activity, restored, builder.copy(), most_bytes)
        forward, reverse = sweeps.both()
        if sweeps.worth_restoring() <= restored:
            break
        restored |= sweeps.worth_restoring()
    builder = sweeps.builder
    inputs, copies = with_copies(function, builder)
    outputs = {p: sweeps.bars.get(p) for p in parameters}
    start: list[Statement] = []
    with builder.region(start):
        cotangents = _copied_cotangents(function, builder, sweeps.bars, outputs)
        _begin_with_zeros(function, builder, outputs)
    bars = [bar for p in parameters if (bar := outputs[p]) is not None]
    body = without_unused([*copies, *start, *forward, *reverse], bars)
    used = {s.memory for s in walk(body) if isinstance(s, Load | Store | Size)}
    used |= {m for s in walk(body) if isinstance(s, Swap) for m in s.memories}
    working = [m for m in function.written if m in used]
    like: dict[Memory, Shape] = dict(zip(function.parameters, inputs, strict=True))
    like |= {bar: like[p] for p, bar in outputs.items() if bar is not None and p in like}
    name = f"{function.name}_adjoint"
    return RegionKernel(name, [*inputs, *cotangents], [*bars, *working], body, builder, like)


def _copied_cotangents(
    function: Function,
    builder: Builder,
    bars: Mapping[Memory, Memory],
    outputs: dict[Memory, Memory | None],
) -> list[Memory]:
    """Copy the cotangents of results to where the reverse sweep has them; the inputs that they are.

    A parameter that is a result as well may lack such a place in `outputs`: it gets one.
    """
    cotangents: list[Memory] = []
    for result in (*function.returned, *function.written):
        if result.dtype not in ("float32", "float64"):
            continue
        given = builder.memory(f"{result.name}_cotangent", result.dtype, result.rank)
        cotangents.append(given)
        bar = bars.get(result)
        if bar is None:
            if result not in outputs:
                continue
            # Nothing is written to it in a way that has a slope.
            bar = outputs[result] = builder.memory("bar", result.dtype, result.rank)
        if result in function.returned or result not in outputs:
            shape = [builder.size(given, k) for k in range(given.rank)]
            builder.body.append(Allocate(bar, tuple(shape), None))
        copied(builder, given, bar)
    return cotangents


def _begin_with_zeros(
    function: Function, builder: Builder, outputs: dict[Memory, Memory | None]
) -> None:
    """The cotangents of parameters that are no results begin with zeros."""
    for parameter, bar in outputs.items():
        if bar is None:
            bar = builder.memory(f"{parameter.name}_bar", parameter.dtype, parameter.rank)
            outputs[parameter] = bar
        if parameter in function.written:
            continue
        if parameter.rank == 0:
            builder.body.append(Allocate(bar, (), 0.0))
        filled(builder, bar, 0.0)


@dataclass(slots=True)
class _Scope:
    """A region while its reverse sweep is written."""

    statements: list[Statement]
    own: dict[Scalar, int]  # the scalars that its statements define, and where
    depth: int  # of loops
    cotangents: dict[Scalar, Value] = field(default_factory=dict)

    def backwards(self) -> list[tuple[Scalar, int]]:
        """Its own scalars, the last one first."""
        return sorted(self.own.items(), key=lambda pair: -pair[1])


class _Sweeps:
    def __init__(
        self,
        function: Function,
        activity: Activity,
        restored: set[Memory],
        builder: Builder,
        most_bytes: int | None,
    ) -> None:
        self.function = function
        self.most_bytes = most_bytes
        self.activity = activity
        self.builder = builder
        self._passes: dict[int, Scalar] = {}  # of loops that end by a flag, by id
        self.body = self._counted(function.body)
        self.restored = set(restored)
        self.groups = swapped_together(self.body)
        self.bars: dict[Memory, Memory] = {}
        self._scopes: list[_Scope] = []
        self._scalar_bars: dict[Scalar, Memory] = {}
        self._inner: set[Scalar] = set()  # active scalars that are used in inner regions
        # Memories that end with a pass of a loop, and arrays that end with a branch.
        self._inner_memories: set[Memory] = set()
        self._stores: list[tuple[Memory, int, tuple[int, ...]]] = []  # memory, place, loops
        self._savings: dict[frozenset[Memory], int] = {}
        self._load_places: dict[int, tuple[int, tuple[int, ...]]] = {}
        self._survey()
        # Names of cotangents that are swapped must be there in the forward sweep.
        for memory in sorted(self.groups, key=lambda m: m.name):
            if memory in activity.memories:
                self.bar(memory)
        for memory in [*function.returned, *function.written, *function.parameters]:
            if memory in activity.memories:
                self.bar(memory)

    # The number of passes of loops that end by a flag.

    def _counted(self, statements: list[Statement]) -> list[Statement]:
        result: list[Statement] = []
        for s in statements:
            if isinstance(s, If):
                s = If(s.condition, self._counted(s.then), self._counted(s.otherwise))
            elif isinstance(s, For | While):
                s = self._counted_loop(s, result)
                if s is None:
                    continue
            result.append(s)
        return result

    def _counted_loop(self, s: For | While, result: list[Statement]) -> Statement | None:
        """The loop; None if it is written already, with the number of its passes after it."""
        body = self._counted(s.body)
        if s.leave is None:
            assert isinstance(s, For)
            return replace(s, body=body)
        count = self.builder.memory("passes", "int64")
        body = [Store(count, (), 1, is_added=True), *body]
        loop = replace(s, body=body)
        passes = self.builder.scalar("int64")
        result += [Allocate(count, (), 0.0), loop, Load(passes, count, ())]
        self._passes[id(loop)] = passes
        return None

    def _survey(self) -> None:
        place = 0

        def visit(statements: list[Statement], loops: tuple[int, ...], scope: int) -> None:
            nonlocal place
            own = scope
            for s in statements:
                place += 1
                for value in operands(s):
                    if value in self.activity.scalars and homes.get(value, own) != own:
                        self._inner.add(value)  # type: ignore[arg-type]
                target = defined(s)
                if target is not None:
                    homes[target] = own
                if isinstance(s, Allocate) and (loops or (s.memory.rank and own != outermost)):
                    self._inner_memories.add(s.memory)
                elif isinstance(s, Store):
                    self._stores.append((s.memory, place, loops))
                elif isinstance(s, Swap):
                    self._stores += [(m, place, loops) for m in s.memories]
                elif isinstance(s, Load):
                    self._load_places[id(s)] = place, loops
                inner = (*loops, id(s)) if isinstance(s, For | While) else loops
                for region in nested(s):
                    visit(region, inner, id(region))

        homes: dict[Value, int] = {}
        outermost = id(self.body)
        visit(self.body, (), outermost)

    # Cotangents.

    def bar(self, memory: Memory) -> Memory:
        """Where the cotangent of a memory is."""
        found = self.bars.get(memory)
        if found is None:
            found = self.builder.memory(f"{memory.name}_bar", memory.dtype, memory.rank)
            self.bars[memory] = found
        return found

    def give(self, value: Value, contribution: Value) -> None:
        """Add to the cotangent of a scalar."""
        if not isinstance(value, Scalar) or value not in self.activity.scalars:
            return
        if not isinstance(contribution, Scalar) and contribution == 0:
            return
        if value in self._inner:
            memory = self._scalar_bars.get(value)
            if memory is None:
                memory = self.builder.memory(f"{value.name}_bar", value.dtype)
                self._scalar_bars[value] = memory
            self.add(memory, (), contribution)
            return
        scope = self._scopes[-1]
        former = scope.cotangents.get(value)
        if former is not None:
            contribution = self.builder.define("add", former, contribution)
        scope.cotangents[value] = contribution

    def add(self, bar: Memory, indices: tuple[Value, ...], contribution: Value) -> None:
        """Add to the cotangent of a memory: in any order, as no user's code says in which."""
        self.builder.body.append(Store(bar, indices, contribution, True, True))

    def take(self, scalar: Scalar) -> Value | None:
        """The cotangent of a scalar, at the statement that defines it."""
        memory = self._scalar_bars.get(scalar)
        if memory is not None:
            return self.builder.load(memory)
        return self._scopes[-1].cotangents.pop(scalar, None)

    # The sweeps.

    def both(self) -> tuple[list[Statement], list[Statement]]:
        return self.region(self.body, 0)

    def region(
        self, statements: list[Statement], depth: int
    ) -> tuple[list[Statement], list[Statement]]:
        """The forward and the reverse sweep of a region."""
        own = {t: k for k, s in enumerate(statements) if (t := defined(s)) and not nested(s)}
        scope = _Scope(statements, own, depth)
        self._scopes.append(scope)
        forward: list[list[Statement]] = []
        reverse: list[Statement] = []
        with self.builder.region(reverse):
            forward += [self.statement(s, depth) for s in reversed(statements)]
        self._scopes.pop()
        written = [s for part in reversed(forward) for s in part]
        return self._supplied(scope, written, reverse)

    def statement(self, s: Statement, depth: int) -> list[Statement]:
        """Write the reverse sweep of a statement; its forward sweep."""
        builder = self.builder
        if isinstance(s, Define):
            if s.target in self.activity.scalars:
                cotangent = self.take(s.target)
                if cotangent is not None:
                    self._pull(s, cotangent)
        elif isinstance(s, Load):
            if s.target in self.activity.scalars and s.memory in self.activity.memories:
                cotangent = self.take(s.target)
                if cotangent is not None:
                    self.add(self.bar(s.memory), s.indices, cotangent)
        elif isinstance(s, Store):
            return self._store(s)
        elif isinstance(s, Swap):
            builder.body.append(Swap(s.others, s.memories))
            if s.memories[0] in self.activity.memories:
                bars = tuple(map(self.bar, s.memories)), tuple(map(self.bar, s.others))
                builder.body.append(Swap(bars[1], bars[0]))
                return [s, Swap(*bars)]
        elif isinstance(s, If):
            then, then_reverse = self.region(s.then, depth)
            otherwise, otherwise_reverse = self.region(s.otherwise, depth)
            if then_reverse or otherwise_reverse:
                builder.body.append(If(s.condition, then_reverse, otherwise_reverse))
            return [If(s.condition, then, otherwise)]
        elif isinstance(s, For | While):
            return self._loop(s, depth)
        elif (
            isinstance(s, Allocate)
            and s.memory in self.groups
            and s.memory in self.activity.memories
        ):
            # Swapped: its cotangent must be there when the forward sweep swaps names.
            return [s, Allocate(self.bar(s.memory), s.shape, 0.0)]
        return [s]

    def _pull(self, s: Define, cotangent: Value) -> None:
        slopes = OPERATIONS[s.operation].slopes or ()
        for slope, argument in zip(slopes, s.arguments, strict=True):
            if slope is not None and argument in self.activity.scalars:
                self.give(argument, slope(self.builder, cotangent, s.arguments, s.target))

    def _store(self, s: Store) -> list[Statement]:
        builder = self.builder
        forward: list[Statement] = []
        if s.memory in self.restored:
            former = builder.scalar(s.memory.dtype)
            pair = builder.name("undo")
            tape = tape_of(former.dtype)
            forward += [Load(former, s.memory, s.indices), Push(tape, former, pair)]
            again = builder.scalar(s.memory.dtype)
            builder.body.append(Pop(again, tape, pair))
            builder.store(s.memory, s.indices, again)
        if s.memory in self.activity.memories:
            bar = self.bar(s.memory)
            is_given = s.value in self.activity.scalars
            cotangent = builder.load(bar, *s.indices) if is_given else 0.0
            if not s.is_added:
                builder.store(bar, s.indices, 0.0)
            self.give(s.value, cotangent)
        return [*forward, s]

    def _loop(self, s: For | While, depth: int) -> list[Statement]:
        builder = self.builder
        forward, reverse = self.region(s.body, depth + 1)
        passes: Value | None = self._passes.get(id(s))
        state = state_of(forward, self.bars.values()) if reverse and not depth else None
        if (
            self.most_bytes is not None
            and state is not None
            and is_segmentable(s, forward)
            and self._is_read_again(forward, state)
        ):
            index = s.index if isinstance(s, For) else None
            loop = SegmentedLoop(
                self.function.name,
                s,
                forward,
                reverse,
                index,
                state,
                self.most_bytes,
                builder,
            )
            loop.reverse_sweep(self._number_of_passes(s) if passes is None else passes)
            return loop.forward_sweep()
        index = s.index if isinstance(s, For) else builder.scalar("int64", "i")
        if isinstance(s, For) and passes is None and s.step in (1, -1) and type(s.step) is int:
            last = builder.define("subtract", s.stop, s.step)
            span = last, builder.define("subtract", s.start, s.step), -s.step
        elif isinstance(s, For):
            if passes is None:
                passes = self._number_of_passes(s)
            ahead = builder.define("multiply", passes, s.step)
            stop = builder.define("subtract", s.start, s.step)
            last = builder.define("add", stop, ahead)
            span = last, stop, builder.define("negative", s.step)
        else:
            assert passes is not None
            span = builder.define("subtract", passes, 1), -1, -1
        fresh = builder.scalar("int64", "i")
        reverse = substituted(reverse, {index: fresh})
        if reverse:
            is_parallel = isinstance(s, For) and s.is_parallel
            builder.body.append(For(fresh, *span, reverse, is_parallel=is_parallel))
        return [replace(s, body=forward)]

    def _is_read_again(self, forward: list[Statement], state: list[Memory]) -> bool:
        """Whether the passes of a loop can be done again after the forward sweep: what they read,
        and do not write, is overwritten by nothing that follows, or put back."""
        inside = walk(forward)
        own = {s.memory for s in inside if isinstance(s, Allocate)} | set(state)
        for s in inside:
            if not isinstance(s, Load) or s.memory in own or id(s) not in self._load_places:
                continue
            names = self.groups.get(s.memory, {s.memory})
            place, _ = self._load_places[id(s)]
            is_overwritten = any(m in names and p > place for m, p, _ in self._stores)
            if is_overwritten and self.restored.isdisjoint(names):
                return False
        return True

    def _number_of_passes(self, s: For | While) -> Value:
        """Of a loop that does not end by a flag: the ceiling of distance / step, at least 0."""
        assert isinstance(s, For)
        builder = self.builder
        back = builder.define("subtract", s.start, s.stop)
        quotient = builder.define("floor_divide", back, s.step)
        return builder.define("maximum", builder.define("negative", quotient), 0)

    # What the reverse sweep needs.

    def _supplied(
        self, scope: _Scope, forward: list[Statement], reverse: list[Statement]
    ) -> tuple[list[Statement], list[Statement]]:
        """With cotangents of the region's own scalars and memories at the beginning of the reverse
        sweep, and with what it needs of the forward sweep."""
        reverse = [*self._own_cotangents(scope, reverse), *reverse]
        used = _used_scalars(reverse)
        is_kept, inputs = self._least_kept(scope, used)
        again: list[Statement] = []
        kept: list[tuple[Scalar, str, str]] = []
        for scalar, position in scope.backwards():
            if scalar not in used:
                continue
            if scalar in is_kept:
                kept.append((scalar, tape_of(scalar.dtype), self.builder.name("kept")))
                continue
            again.append(scope.statements[position])
            used |= set(inputs[scalar])
        again.reverse()
        # Side by side on their tapes.
        kept.sort(key=lambda entry: entry[1])
        pushed: list[Statement] = [Push(tape, scalar, pair) for scalar, tape, pair in kept]
        popped: list[Statement] = [Pop(scalar, tape, pair) for scalar, tape, pair in reversed(kept)]
        reverse = [*popped, *again, *reverse]
        names: dict[Scalar, Value] = {
            scalar: self.builder.scalar(scalar.dtype) for scalar in scope.own if scalar in used
        }
        return [*forward, *pushed], substituted(reverse, names)

    def _least_kept(
        self, scope: _Scope, used: set[Scalar]
    ) -> tuple[set[Scalar], dict[Scalar, list[Scalar]]]:
        """What the region keeps for the scalars in `used`; with what each one that they come from
        is computed from in the region."""
        past = set(used)
        inputs: dict[Scalar, list[Scalar]] = {}
        lost: set[Scalar] = set()
        restorable: dict[frozenset[Memory], set[Scalar]] = {}  # by the arrays they are loaded from
        for scalar, position in scope.backwards():
            if scalar not in past:
                continue
            s = scope.statements[position]
            inputs[scalar] = [x for x in operands(s) if isinstance(x, Scalar) and x in scope.own]
            past |= {x for x in operands(s) if isinstance(x, Scalar)}
            if not isinstance(s, Load) or not self._is_overwritten(s):
                continue
            arrays = self.groups.get(s.memory, frozenset({s.memory}))
            if s.memory in self._inner_memories or self._changes(scope, position):
                lost.add(scalar)
            elif self.restored.isdisjoint(arrays):
                restorable.setdefault(arrays, set()).add(scalar)
        needed = [x for x in used if x in inputs]
        result = least_kept(needed, lost.union(*restorable.values()), inputs)
        for arrays in restorable:
            others = [scalars for group, scalars in restorable.items() if group != arrays]
            rest = least_kept(needed, lost.union(*others), inputs)
            saved = (_nbytes(result) - _nbytes(rest)) * _PASSES**scope.depth
            self._savings[arrays] = self._savings.get(arrays, 0) + saved
        return result, inputs

    def _own_cotangents(self, scope: _Scope, reverse: list[Statement]) -> list[Statement]:
        result: list[Statement] = []
        for s in scope.statements:
            target = defined(s)
            if target is not None and target in self._scalar_bars:
                result.append(Allocate(self._scalar_bars[target], (), 0.0))
            if not isinstance(s, Allocate) or s.memory not in self.activity.memories:
                continue
            if s.memory in self.groups or s.memory in self.function.returned:
                continue
            result.append(Allocate(self.bar(s.memory), s.shape, 0.0))
        return result

    def _is_overwritten(self, s: Load) -> bool:
        """Whether the memory may hold something else when the reverse sweep comes to the load."""
        names = self.groups.get(s.memory, {s.memory})
        if s.memory in self._inner_memories:
            return True
        place, loops = self._load_places[id(s)]
        return any(
            memory in names and (store_place > place or set(store_loops) & set(loops))
            for memory, store_place, store_loops in self._stores
        )

    def _changes(self, scope: _Scope, position: int) -> bool:
        """Whether the region itself stores to what a load of it reads, or swaps it, later on: loads
        are done again at the end of the region."""
        s = scope.statements[position]
        assert isinstance(s, Load)
        names = self.groups.get(s.memory, {s.memory})
        return any(
            (isinstance(later, Store) and later.memory == s.memory)
            or (isinstance(later, Swap) and not names.isdisjoint(later.memories))
            for later in walk(scope.statements[position + 1 :])
        )

    def worth_restoring(self) -> set[Memory]:
        """The arrays of which an undo log takes less than keeping what is loaded from them."""
        return {
            memory
            for names, saved in self._savings.items()
            if saved
            > _COST_OF_UNDO
            * sum(
                np.dtype(memory.dtype).itemsize * _PASSES ** len(loops)
                for memory, _, loops in self._stores
                if memory in names
            )
            for memory in names
        }


def _nbytes(scalars: Collection[Scalar]) -> int:
    return sum(np.dtype(s.dtype).itemsize for s in scalars)


def _used_scalars(statements: Sequence[Statement]) -> set[Scalar]:
    return {x for s in walk(list(statements)) for x in operands(s) if isinstance(x, Scalar)}


def tape_kernel(kernel: RegionKernel) -> RegionKernel:
    """Inputs: those of an adjoint. Output: the bytes that it keeps on tapes."""
    builder = kernel.builder.copy()
    total = builder.memory("tape_bytes", "int64")

    def counted(s: Statement) -> Statement:
        if isinstance(s, Push):
            return Store(total, (), entry_bytes(s.tape), is_added=True)
        return s

    # The reverse sweep, which takes from the tape, adds nothing to it.
    forward = itertools.takewhile(
        lambda s: not any(isinstance(inner, Pop) for inner in walk([s])), kernel.body
    )
    body = without_unused([Allocate(total, (), 0.0), *rewritten(list(forward), counted)], [total])
    working = [m for m in kernel.outputs if m.rank]
    name = f"{kernel.name}_tape"
    return RegionKernel(name, kernel.inputs, [total, *working], body, builder, kernel.shapes)
