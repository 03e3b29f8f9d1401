"""A kernel as a grid of threads runs it: loops that begin arrays become copies before the launch.

Code that derives kernels begins outputs and working arrays by loops over all elements. Threads of
CUDA wait for no others in a launch, so such loops are taken out: memory is copied, or zeroed,
before. The rest is what each thread does. Working arrays, which are cotangents of what the kernel
writes, become outputs, as they are of all threads; most of them are only read, and then the given
cotangents are read in their place.
"""

from dataclasses import replace

from numba_grad.compiler.numba_functions.analyses import without_unused
from numba_grad.compiler.numba_functions.regions import (
    Allocate,
    Check,
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
    rewritten,
    substituted,
    walk,
    with_regions,
)
from numba_grad.errors import InternalError, KernelError, explain
from numba_grad.immutable import immutable

# What an array begins as: a copy of another one, or zeros.
Beginning = Memory | None


@immutable
class GridKernel:
    """A kernel whose body is that of one thread, and what its outputs begin as: those with axes."""

    kernel: RegionKernel
    beginnings: dict[Memory, Beginning]


def check_threads(name: str, body: list[Statement], host_checks: list[Check]) -> None:
    """Refuse what a thread of a grid cannot do, in a function's tree."""
    checked = set(map(id, host_checks))
    for s in walk(body):
        problem = ""
        if isinstance(s, Swap):
            problem = f"`{s.memories[0].name}`, which is swapped with another array, cannot be"
        elif isinstance(s, Allocate) and not all(type(n) is int for n in s.shape):
            problem = f"an array `{s.memory.name}` whose shape is no constant cannot be"
        elif isinstance(s, Check) and id(s) not in checked:
            problem = f"`{s.error}: {' '.join(map(str, s.arguments))}` cannot be raised"
        if problem:
            fix = "ng.custom_op, with a derivative of your own for this part"
            raise KernelError(explain(name, f"{problem} in a kernel of a grid", fix=fix))


# Most kernels begin with a test whether there is something to do for a thread. Derivatives are of
# what is done then: inside of the branch the reverse sweep finds what the forward sweep has left.


@immutable
class ThreadCondition:
    """A condition that a thread goes on by, what it has to be, and what it is computed by."""

    before: list[Statement]
    condition: Value
    is_true: bool


def without_guards(function: Function) -> tuple[Function, list[ThreadCondition]]:
    """The function of threads that have something to do, and what tells which they are."""
    stored = {s.memory for s in walk(function.body) if isinstance(s, Store)}

    def is_harmless(s: Statement) -> bool:
        is_variable = isinstance(s, Allocate) and not s.memory.rank
        is_load = isinstance(s, Load) and s.memory not in stored
        return isinstance(s, Define | Size) or is_variable or is_load

    region, first = function.body, []
    guards: list[ThreadCondition] = []
    while region:
        *rest, branch = region
        if (
            not isinstance(branch, If)
            or not all(map(is_harmless, rest))
            or (branch.then and branch.otherwise)
        ):
            break
        first += rest
        before: list[Statement] = [s for s in rest if not isinstance(s, Allocate)]
        guards.append(ThreadCondition(before, branch.condition, bool(branch.then)))
        region = branch.then or branch.otherwise
    return replace(function, body=[*first, *region]), guards


def _guarded(kernel: RegionKernel, guards: list[ThreadCondition]) -> list[Statement]:
    """The body, done by those threads."""
    builder = kernel.builder
    results = {m for m in kernel.outputs if not m.rank}
    first = [s for s in kernel.body if isinstance(s, Allocate) and s.memory in results]
    body = [s for s in kernel.body if s not in first]
    names: dict[Scalar, Value] = {
        x: builder.scalar(x.dtype)
        for guard in guards
        for s in guard.before
        if (x := defined(s)) is not None
    }
    for guard in reversed(guards):
        condition = guard.condition
        renamed = names.get(condition, condition) if isinstance(condition, Scalar) else condition
        branch = If(renamed, body) if guard.is_true else If(renamed, [], body)
        body = [*substituted(guard.before, names), branch]
    return [*first, *body]


def on_grid(kernel: RegionKernel, count: int, guards: list[ThreadCondition]) -> GridKernel:
    """The kernel for a grid.

    Parameters
    ----------
    kernel : derived from the tree of what one thread does
    count : how many of its outputs are results
    guards : of threads that do anything
    """
    return _Division(kernel, count).result(guards)


class _Division:
    def __init__(self, kernel: RegionKernel, count: int) -> None:
        self.kernel = kernel
        self.count = count
        self.sizes = {
            s.target: (s.memory, s.axis) for s in walk(kernel.body) if isinstance(s, Size)
        }
        self.shapes: dict[Memory, Shape] = dict(kernel.shapes)
        self.working: list[Memory] = []
        self.beginnings: dict[Memory, Beginning] = {}

    def result(self, guards: list[ThreadCondition]) -> GridKernel:
        rest: list[Statement] = []
        used: set[Memory] = set()
        for s in self.kernel.body:
            if isinstance(s, Allocate) and s.memory.rank and self._is_shared(s):
                self.working.append(s.memory)
                continue
            found = self._beginnings(s) if isinstance(s, For) else None
            if found is not None and used.isdisjoint(found):
                self.beginnings |= found
                continue
            used |= _accessed(s)
            rest.append(s)
        rest = _with_registers(self._with_given_cotangents(rest))
        used = set().union(*map(_accessed, rest))
        others = [m for m in self.kernel.outputs[self.count :] if m in used]
        outputs = [*self.kernel.outputs[: self.count], *others, *self.working]
        missing = [m.name for m in outputs if m.rank and m not in self.beginnings]
        if missing:
            raise InternalError(f"{self.kernel.name}: nothing begins {', '.join(missing)}")
        kernel = replace(self.kernel, outputs=outputs, body=rest, shapes=self.shapes)
        body = without_unused(_guarded(kernel, guards), outputs)
        kernel = replace(kernel, body=self._with_sizes_of_inputs(body))
        order = {m: self.beginnings[m] for m in outputs if m.rank}
        return GridKernel(kernel, order)

    def _is_shared(self, s: Allocate) -> bool:
        """Whether an array is of all threads: it has the shape of an argument."""
        sizes = [self.sizes.get(n) if isinstance(n, Scalar) else None for n in s.shape]
        memory = sizes[0][0] if sizes[0] is not None else None
        if memory is None or sizes != [(memory, axis) for axis in range(s.memory.rank)]:
            return False
        self.shapes[s.memory] = memory
        return True

    def _shape_of(self, memory: Memory) -> Memory:
        """The input that has the shape of this one."""
        shape = self.shapes.get(memory)
        while isinstance(shape, Memory) and shape != memory:
            memory, shape = shape, self.shapes.get(shape)
        return memory

    def _beginnings(self, loop: For) -> dict[Memory, Beginning] | None:
        """What a nest of loops begins arrays as; None if it does anything else."""
        indices: list[Scalar] = []
        stops: list[Value] = []
        body: list[Statement] = [loop]
        while len(body) == 1 and isinstance(body[0], For):
            loop = body[0]
            if (loop.start, loop.step, loop.leave) != (0, 1, None):
                return None
            indices.append(loop.index)
            stops.append(loop.stop)
            body = [s for s in loop.body if not isinstance(s, Size)]
        place = tuple(indices)
        loaded: dict[Value, Memory] = {}
        found: dict[Memory, Beginning] = {}
        for s in body:
            if not isinstance(s, Load | Store) or s.indices != place:
                return None
            if isinstance(s, Load):
                loaded[s.target] = s.memory
                continue
            source = loaded.get(s.value)
            is_zero = not isinstance(s.value, Scalar) and s.value == 0
            is_cast = source is not None and source.dtype != s.memory.dtype
            if s.is_added or is_cast or not (is_zero or source) or not self._spans(s, stops):
                return None
            if s.memory in found or (source and source not in self.kernel.inputs):
                return None
            found[s.memory] = source
        return found or None

    def _spans(self, s: Store, stops: list[Value]) -> bool:
        """Whether loops to `stops` go over all elements of what is stored to."""
        shape = self._shape_of(s.memory)
        for axis, stop in enumerate(stops):
            size = self.sizes.get(stop) if isinstance(stop, Scalar) else None
            if size is None or size[1] != axis or self._shape_of(size[0]) != shape:
                return False
        return True

    def _with_sizes_of_inputs(self, body: list[Statement]) -> list[Statement]:
        """Arrays that the kernel writes may not be there in a derivative."""
        there = {*self.kernel.inputs, *(s.memory for s in walk(body) if isinstance(s, Allocate))}

        def changed(s: Statement) -> Statement:
            if isinstance(s, Size) and s.memory not in there:
                return replace(s, memory=self._shape_of(s.memory))
            return s

        return rewritten(body, changed)

    def _with_given_cotangents(self, body: list[Statement]) -> list[Statement]:
        names: dict[Memory, Memory] = {}
        for memory in list(self.working):
            shortened = _without_last_zeros(body, memory)
            stored = [s for s in walk(shortened) if isinstance(s, Store) and s.memory == memory]
            begun = self.beginnings.get(memory)
            if begun is None or stored:
                continue
            body = shortened
            names[memory] = begun
            self.working.remove(memory)
            del self.beginnings[memory]

        def renamed(s: Statement) -> Statement:
            if isinstance(s, Load | Size) and s.memory in names:
                return replace(s, memory=names[s.memory])
            return s

        return rewritten(body, renamed) if names else body


def _with_registers(body: list[Statement]) -> list[Statement]:
    """What is kept once, and taken in the same region, needs no tape."""
    kept = {s.pair: s.value for s in body if isinstance(s, Push)}
    taken = {s.pair for s in body if isinstance(s, Pop)}
    result: list[Statement] = []
    for s in body:
        if isinstance(s, Pop) and s.pair in kept:
            result.append(Define(s.target, "positive", (kept[s.pair],)))
        elif not isinstance(s, Push) or s.pair not in taken:
            result.append(s)
    return result


def _accessed(statement: Statement) -> set[Memory]:
    return {s.memory for s in walk([statement]) if isinstance(s, Load | Store)}


def _without_last_zeros(body: list[Statement], memory: Memory) -> list[Statement]:
    """Without zeros that nothing loads afterwards. Other threads load none of them: an element that
    one thread writes, another one neither reads nor writes."""

    def region(statements: list[Statement], is_loaded: bool) -> tuple[list[Statement], bool]:
        kept: list[Statement] = []
        for s in reversed(statements):
            inside = any(isinstance(x, Load) and x.memory == memory for x in walk([s]))
            if isinstance(s, Store) and s.memory == memory and not s.is_added:
                is_zero = not isinstance(s.value, Scalar) and s.value == 0
                if is_zero and not is_loaded:
                    continue
            if isinstance(s, For | While):
                # What a pass stores, the next one loads.
                after = is_loaded or inside
                s = with_regions(s, lambda part, after=after: region(part, after)[0])
            elif isinstance(s, If):
                after = is_loaded
                s = with_regions(s, lambda part, after=after: region(part, after)[0])
            is_loaded |= inside
            kept.append(s)
        return kept[::-1], is_loaded

    return region(body, False)[0]
