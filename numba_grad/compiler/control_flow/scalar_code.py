"""Bodies of loops as code on numbers: kernels without loops, copies of few numbers, and loops whose
own bodies are such.

What the body of a loop is made of lies in memory that the loop decides about (`Opened`). Here every
place in it is known, so `register_loops.py` writes the body between the lines of the loop, with
these places as local variables. Only what loops inside stride through stays memory.
"""

from collections.abc import Sequence

from numba_grad.compiler.loop_nests.kernel_ir import Apply, IndexValue, Let, Load, LoopNest
from numba_grad.compiler.steps.schedule import ScheduledStep
from numba_grad.compiler.words import Pointer, Word
from numba_grad.dtypes import is_storage_only
from numba_grad.graph.types import Type
from numba_grad.immutable import immutable

# Carried elements: beyond, they are no longer in registers, and unrolled code is long.
MOST_CARRIED = 64
# Operations of all steps of a loop inside: with more, what it takes to enter a kernel is nothing.
_MOST_OPERATIONS_INSIDE = 1 << 16
# Lets of a body of several kernels: more take long to compile as one; and how often they are those
# of kernels that are compiled once.
_MOST_LETS = 1000
_MOST_REPEATED = 2


@immutable
class Opened:
    """Memory of a body that who runs it decides about: an "argument", a "result", or the "arena"
    of what it needs meanwhile."""

    kind: str
    number: int = 0


@immutable
class BodySteps:
    """The steps of a graph, over `Opened` memory."""

    steps: list[ScheduledStep]
    arena_bytes: int
    in_place: frozenset[int] = frozenset()  # results that are in the memory of their argument


@immutable
class Straight:
    """A kernel without loops, of a single step."""

    kernel: LoopNest
    words: list[Word]

    @property
    def code(self) -> list[Let]:
        return _code(self.kernel)

    @property
    def lets(self) -> int:
        return len(self.code)

    @property
    def operations(self) -> int:
        return max(1, self.kernel.operations, self.lets)


@immutable
class Copied:
    """A copy of an array, from where its first word points to where the second one does."""

    type: Type
    words: list[Word]

    @property
    def lets(self) -> int:
        return self.type.size

    @property
    def operations(self) -> int:
        return self.type.size


@immutable
class Beginning:
    """What a kernel does that goes on with a loop, said before: nothing where it is written out."""


@immutable
class RegisterLoop:
    """A kernel of a loop (`register_loops.py`), and what it was made from.

    Its words, by their keys, are those of its body (`values`), `PROGRESS`, `ARENA`; ("carried", k),
    its memory; ("row", k), ("result", k), ("entry", k), pointers to the row of the first step, and
    ("row stride", k), ..., elements from there to the row of the next.
    """

    source: str
    words: list[object]
    values: dict[object, Word]
    steps_of_a_run: int
    operations: int  # of a step
    code: "ScalarCode"
    carried: Sequence[Type]
    rows: Sequence[Type]
    results: Sequence[Type]


@immutable
class KnownTrips:
    """A loop that one run of its kernel finishes."""

    loop: RegisterLoop
    trips: int


@immutable
class Inside:
    """A loop of a body. `given`: what its words hold, by their keys."""

    loop: RegisterLoop
    trips: int
    given: dict[object, Word]

    @property
    def lets(self) -> int:
        return self.loop.code.lets

    @property
    def operations(self) -> int:
        return max(1, self.trips * self.loop.operations)


@immutable
class ScalarCode:
    """What a body does, in order. `strided`: the bytes of its arena, from and to, that loops inside
    stride through."""

    parts: list[Straight | Copied | Inside]
    strided: list[tuple[int, int]]
    arena_bytes: int

    @property
    def operations(self) -> int:
        return sum(part.operations for part in self.parts)

    @property
    def lets(self) -> int:
        return sum(part.lets for part in self.parts)

    @property
    def has_loops(self) -> bool:
        return any(isinstance(part, Inside) for part in self.parts)

    def read_late(self) -> set[int]:
        """The numbers of arguments that are read after the result of that number is written."""
        found: set[int] = set()
        written: set[int] = set()
        for part in self.parts:
            words = part.given.values() if isinstance(part, Inside) else part.words
            memory = [word.memory for word in words if isinstance(word, Pointer)]
            opened = [x for x in memory if isinstance(x, Opened)]
            reads = {x.number for x in opened if x.kind == "argument"}
            writes = {x.number for x in opened if x.kind == "result"}
            # One kernel without loops reads all before it stores anything.
            found |= reads & (written if isinstance(part, Straight) else written | writes)
            written |= writes
        return found

    def is_strided(self, offset: int) -> bool:
        return any(start <= offset < stop for start, stop in self.strided)


def scalar_code(
    body: BodySteps, constants: Sequence[Pointer], carried: int, rows: int
) -> ScalarCode | None:
    """A body as code on numbers, if it is: its arguments are what is carried, rows, constants."""
    parts: list[Straight | Copied | Inside] = []
    strided: list[tuple[int, int]] = []
    distinct: dict[str, int] = {}
    for step in body.steps:
        origin = step.origin
        if isinstance(origin, Beginning):
            continue
        words = [_closed(word, constants, carried + rows) for word in step.words]
        if isinstance(origin, KnownTrips):
            part = Inside(
                origin.loop, origin.trips, dict(zip(origin.loop.words, words, strict=True))
            )
            found = _strided_by(part, carried)
            if found is None or part.operations > _MOST_OPERATIONS_INSIDE:
                return None
            strided += found
        elif isinstance(origin, Type):
            if is_storage_only(origin.dtype) or origin.size > MOST_CARRIED:
                return None
            part = Copied(origin, words)
        elif is_straight(step):
            assert step.loop_nest is not None
            part = Straight(step.loop_nest, words)
        else:
            return None
        parts.append(part)
        distinct[step.source] = part.lets
    if not parts:
        return None
    code = ScalarCode(parts, strided, body.arena_bytes)
    most = min(_MOST_LETS, _MOST_REPEATED * sum(distinct.values()))
    return code if len(parts) == 1 or code.lets <= most else None


def _closed(word: Word, constants: Sequence[Pointer], first_constant: int) -> Word:
    """A word, in whose place that of a constant stands where it points to one."""
    if not (isinstance(word, Pointer) and isinstance(word.memory, Opened)):
        return word
    kind, number = word.memory.kind, word.memory.number
    if kind != "argument" or number < first_constant:
        return word
    memory, offset = constants[number - first_constant]
    return Pointer(memory, offset + word.offset)


def _strided_by(part: Inside, carried: int) -> list[tuple[int, int]] | None:
    """The bytes of the arena that a loop inside strides through; None if it does so through what is
    carried, which is in registers."""
    loop, given = part.loop, part.given
    groups = (("row", loop.rows), ("result", loop.results), ("entry", loop.carried))
    # Of a loop with loops inside a row of several elements may be strided through as well.
    found: list[tuple[int, int]] = []
    for name, types in groups:
        for k, type in enumerate(types):
            pointer, stride = given.get((name, k)), given.get((f"{name} stride", k))
            if not (isinstance(pointer, Pointer) and isinstance(pointer.memory, Opened)):
                continue  # of others, or nobody reads it
            assert isinstance(stride, int)
            if not stride and not (loop.code.has_loops and type.size > 1):
                continue
            kind, number = pointer.memory.kind, pointer.memory.number
            if kind == "arena":
                last = pointer.offset + (part.trips - 1) * stride * type.dtype.itemsize
                first, last = sorted((pointer.offset, last))
                found.append((first, last + type.nbytes))
            elif number < carried:
                return None
    arena = given.get(ARENA)
    if isinstance(arena, Pointer) and isinstance(arena.memory, Opened):
        found.append((arena.offset, arena.offset + loop.code.arena_bytes))
    return found


# Of the loop's own memory: int64 words, see `register_loops.start_source`; of a body's arena.
PROGRESS = "progress"
ARENA = "arena"


def _code(kernel: LoopNest) -> list[Let]:
    [variant] = kernel.variants
    [piece] = variant.pieces
    return [*variant.lets[0], *piece.body.lets] if variant.lets else piece.body.lets


def is_straight(step: ScheduledStep) -> bool:
    """Whether a step is a kernel without loops, over `Opened` memory and that of others."""
    kernel = step.loop_nest
    if kernel is None or step.parts:
        return False
    if kernel.axes or kernel.accumulators or len(kernel.variants) != 1:
        return False
    [variant] = kernel.variants
    if len(variant.pieces) != 1 or len(variant.lets) > 1:
        return False
    body, lets = variant.pieces[0].body, _code(kernel)
    positions = [let.expression.position for let in lets if isinstance(let.expression, Load)]
    positions += [store.position for store in body.stores]
    positions += [x.expression.index for x in lets if isinstance(x.expression, IndexValue)]
    if body.updates or any(position.terms for position in positions):
        return False
    known = {*[word.name for word in kernel.words], *[let.name for let in lets]}
    operands = [
        text
        for let in lets
        if isinstance(let.expression, Apply)
        for _, text in let.expression.operands
    ]
    if not known.issuperset(operands):
        return False
    buffers = {buffer.word for buffer in kernel.buffers}
    opened = [
        number
        for number, word in enumerate(step.words)
        if isinstance(word, Pointer) and isinstance(word.memory, Opened)
    ]
    if not buffers.issuperset(opened):
        return False
    return not any(
        is_storage_only(buffer.dtype) or not isinstance(step.words[buffer.word], Pointer)
        for buffer in kernel.buffers
    )
