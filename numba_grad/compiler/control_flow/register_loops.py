"""Loops of small state as one kernel that holds the state in registers, with the loops in them.

A body that is code on numbers (`scalar_code.py`) is written out between the lines of a loop. What
is carried is in local variables; rows are read and written at an index that follows the steps.
Entering a kernel costs as much as some twenty operations, so for a pendulum this is a factor of
three.

A kernel does so many steps that Ctrl-C need not wait, and is entered again to go on: what is
carried stays in memory of the loop's own meanwhile.
"""

import functools
import textwrap
from collections.abc import Hashable, Mapping, Sequence

import numpy as np

from numba_grad.compiler.control_flow.costly_choices import Code, with_branches
from numba_grad.compiler.control_flow.scalar_code import (
    ARENA,
    PROGRESS,
    Copied,
    Inside,
    Opened,
    RegisterLoop,
    ScalarCode,
    Straight,
)
from numba_grad.compiler.emission.emit_cpu import dtype_name, expression_text
from numba_grad.compiler.emission.text import SourceText
from numba_grad.compiler.loop_nests.kernel_ir import Apply, Expression, IndexValue, Let, Load
from numba_grad.compiler.words import Pointer, Word
from numba_grad.graph.types import Type
from numba_grad.immutable import NamedTuple

# Operations until a kernel comes back, some 0.5 ms.
_OPERATIONS_OF_A_RUN = 1 << 20
# Of the memory that says how far a loop is.
PROGRESS_WORDS = 3  # steps so far, whether to go on, how many steps at most
GOES_ON, TRIPS = 1, 2
# The key of a word: how often a loop inside goes round.
_TRIPS_INSIDE = "trips"


@functools.cache
def start_source(*, from_memory: bool) -> str:
    """A kernel that begins a loop: its number of steps is a word, or where a word points to."""
    trips = "buffer(args, 1, int64)[0]" if from_memory else "integer(args, 1)"
    return f"""\
# loop: start
def kernel(args, lo, hi):
    progress = buffer(args, 0, int64)
    progress[0] = 0
    progress[{GOES_ON}] = 1
    progress[2] = {trips}
"""


def register_loop(
    body: ScalarCode,
    test: ScalarCode | None,
    carried: Sequence[Type],
    rows: Sequence[Type],
    results: Sequence[Type],
) -> RegisterLoop:
    """A kernel that goes on with a loop.

    It is the same one in either direction, and whether or not somebody wants results and what was
    carried at the beginning of each step: those go to memory that nobody reads, with a stride of 0.
    So a loop that is run again for its adjoint has the same bits.

    Parameters
    ----------
    body, test : code of the loop's body and of the condition to go on, which has no loops
    carried, rows, results : the types of what is carried, of a row of each sequence and result
    """
    return _Writer(carried, rows, results).written(body, test)


class _Place(NamedTuple):
    """Where numbers are, some bytes behind the first one: in local variables, whose names begin
    with `name`, or in memory, which pointers to rows move through."""

    name: str
    offset: int = 0
    moves: tuple[str, ...] = ()
    is_memory: bool = False
    # Of an arena's variables: what is strided through, by the bytes there, is in its memory.
    code: ScalarCode | None = None
    memory: "_Place | None" = None

    def further(self, offset: int) -> "_Place":
        memory = None if self.memory is None else self.memory.further(offset)
        return self._replace(offset=self.offset + offset, memory=memory)

    def settled(self, offset: int = 0) -> "_Place":
        """Where that byte is."""
        if self.memory is None or self.code is None:
            return self
        is_strided = self.code.is_strided(self.offset + offset)
        return self.memory.settled(offset) if is_strided else self

    def element(self, number: int, dtype: np.dtype) -> str:
        place = self.settled(number * dtype.itemsize)
        if place is not self:
            return place.element(number, dtype)
        index, rest = divmod(self.offset, dtype.itemsize)
        assert not rest
        if not self.is_memory:
            return f"{self.name}{index + number}"
        return f"{self.name}[{' + '.join([*self.moves, str(index + number)])}]"


class _Scope:
    """What words mean inside of a loop: of the outermost one they are arguments of the kernel, of
    one inside they were words of a part of the body around it."""

    def __init__(
        self,
        writer: "_Writer",
        name: str,
        code: ScalarCode,
        carried: int,
        *,
        is_test: bool = False,
        outer: "_Scope | None" = None,
        part: int = 0,
        given: Mapping[object, Word] | None = None,
    ) -> None:
        self.writer, self.name, self.code = writer, name, code
        self.is_test, self.outer, self.part, self.given = is_test, outer, part, given or {}
        self.trip = f"{name}trip"
        self.own = f"{name}test_" if is_test else name
        # Where what is carried is.
        self.state = [_Place(f"{name}c{k}_") for k in range(carried)]
        self.read_late = code.read_late()

    def pointer(self, key: Hashable, word: Word | None, dtype: np.dtype) -> _Place:
        """What a word of the loop's kernel points to."""
        if self.outer is None:
            return _Place(self.writer.argument(key, word, dtype), is_memory=True)
        return self.outer.place((self.part, key), self.given[key], dtype)

    def integer(self, key: Hashable, word: Word | None) -> str:
        if self.outer is None:
            return self.writer.argument(key, word)
        return self.outer.integer((self.part, key), self.given[key])

    def place(self, key: Hashable, word: Word, dtype: np.dtype) -> _Place:
        """What a word of a part of the body points to."""
        if not (isinstance(word, Pointer) and isinstance(word.memory, Opened)):
            return self.pointer(key, word, dtype)
        kind, number = word.memory.kind, word.memory.number
        if kind == "arena":
            variables = _Place(f"{self.own}local_{dtype_name(dtype)}_", code=self.code)
            if self.code.strided:
                variables = variables._replace(memory=self.pointer(ARENA, None, dtype))
            return variables.further(word.offset)
        if kind == "argument" and number < len(self.state):
            return self.state[number].further(word.offset)
        if kind == "result" and (number < len(self.state) or self.is_test):
            return self.next(number).further(word.offset)
        name = "row" if kind == "argument" else "result"
        return self.row(name, number - len(self.state), dtype).further(word.offset)

    def next(self, number: int) -> _Place:
        """Where a step leaves what is carried on."""
        if number not in self.read_late and not self.is_test:
            return self.state[number]
        return _Place(f"{self.own}next{number}_")

    def row(self, name: str, number: int, dtype: np.dtype) -> _Place:
        """That of this step."""
        first = self.pointer((name, number), None, dtype).settled()
        if not first.is_memory:
            return first  # of a single step
        stride = self.integer((f"{name} stride", number), None)
        return first._replace(moves=(*first.moves, f"{stride} * {self.trip}"))


class _Writer:
    def __init__(
        self, carried: Sequence[Type], rows: Sequence[Type], results: Sequence[Type]
    ) -> None:
        self.arguments = SourceText()
        self.source = SourceText()
        self.words: list[object] = []
        self.values: dict[object, Word] = {}
        self.names: dict[tuple[Hashable, str], str] = {}
        self.carried = carried
        self.rows = rows
        self.results = results

    def written(self, body: ScalarCode, test: ScalarCode | None) -> RegisterLoop:
        source = self.source
        operations = body.operations + (test.operations if test is not None else 0)
        run = max(16, _OPERATIONS_OF_A_RUN // operations)
        run = 1 << (run.bit_length() - 1)  # so that few numbers are in texts
        scope = _Scope(self, "", body, len(self.carried))
        progress = self.argument(PROGRESS, None, np.dtype(np.int64))
        homes = [
            (type, scope.pointer(("carried", k), None, type.dtype))
            for k, type in enumerate(self.carried)
        ]
        for (type, home), own in zip(homes, scope.state, strict=True):
            self.assign(own, home, type)
        source.line(f"first = {progress}[0]")
        source.line(f"last = min(first + {run}, {progress}[2])")
        if test is None:
            with source.block("for trip in range(first, last):"):
                self.step(scope, self.carried)
            source.line(f"{progress}[0] = last")
            source.line(f"{progress}[{GOES_ON}] = int64(last < {progress}[2])")
        else:
            source.line("trip = first")
            source.line("goes_on = True")
            with source.block("while trip < last:"):
                of_test = _Scope(self, "", test, len(self.carried), is_test=True)
                self.parts(of_test)
                source.line("goes_on = test_next0_0")
                with source.block("if not goes_on:"):
                    source.line("break")
                self.step(scope, self.carried)
                source.line("trip += 1")
            source.line(f"{progress}[0] = trip")
            source.line(f"{progress}[{GOES_ON}] = int64(goes_on)")
        for (type, home), own in zip(homes, scope.state, strict=True):
            self.assign(home, own, type)
        comments = "".join([f"# {line}\n" for line in ("loop", *_comments(body))])
        lines = textwrap.indent(f"{comments}{self.arguments}{self.source}", "    ")
        text = f"def kernel(args, lo, hi):\n{lines}"
        return RegisterLoop(
            text,
            self.words,
            self.values,
            run,
            operations,
            body,
            self.carried,
            self.rows,
            self.results,
        )

    def argument(self, key: Hashable, word: Word | None, dtype: np.dtype | None = None) -> str:
        """The name of a word of the kernel: of a pointer, or an integer."""
        type_name = "" if dtype is None else dtype_name(dtype)
        name = self.names.get((key, type_name))
        if name is None:
            number = len(self.words)
            self.words.append(key)
            if word is not None:
                self.values[key] = word
            name = self.names[key, type_name] = f"{_named(key)}{number}"
            read = f"buffer(args, {number}, {type_name})" if dtype else f"integer(args, {number})"
            self.arguments.line(f"{name} = {read}")
        return name

    def assign(self, target: _Place, source: _Place, type: Type) -> None:
        for p in range(type.size):
            element = target.element(p, type.dtype)
            self.source.line(f"{element} = {source.element(p, type.dtype)}")

    def step(self, scope: _Scope, carried: Sequence[Type]) -> None:
        for k, type in enumerate(carried):
            if scope.given.get(("entry stride", k)) != 0:  # else nobody reads it
                self.assign(scope.row("entry", k, type.dtype), scope.state[k], type)
        self.parts(scope)
        for k, type in enumerate(carried):
            if k in scope.read_late:
                self.assign(scope.state[k], scope.next(k), type)

    def parts(self, scope: _Scope) -> None:
        for number, part in enumerate(scope.code.parts):
            match part:
                case Straight():
                    self.straight(scope, part, number)
                case Copied(type, words):
                    source, target = [
                        scope.place((number, k), word, type.dtype)
                        for k, word in enumerate(words[:2])
                    ]
                    self.assign(target, source, type)
                case Inside():
                    self.inside(scope, part, number)

    def inside(self, outer: _Scope, part: Inside, number: int) -> None:
        """A loop in the loop. What it carries is where its own kernel has it in memory."""
        loop = part.loop
        scope = _Scope(
            self,
            f"{outer.name}in{number}_",
            loop.code,
            len(loop.carried),
            outer=outer,
            part=number,
            given=part.given,
        )
        scope.state = [
            scope.pointer(("carried", k), None, type.dtype) for k, type in enumerate(loop.carried)
        ]
        trips = outer.integer((number, _TRIPS_INSIDE), part.trips)
        with self.source.block(f"for {scope.trip} in range(0, {trips}):"):
            self.step(scope, loop.carried)

    # Kernels without loops

    def straight(self, scope: _Scope, part: Straight, number: int) -> None:
        kernel, prefix = part.kernel, f"{scope.own}p{number}_"
        buffers = {buffer.word: buffer for buffer in kernel.buffers}
        names = {let.name: f"{prefix}{let.name}" for let in part.code}
        places: dict[str, _Place] = {}
        of_scope = (scope.is_test, number)
        for k, word in enumerate(kernel.words):
            if k in buffers:
                own = scope.place((of_scope, k), part.words[k], buffers[k].dtype)
                places[buffers[k].name] = own
            else:
                names[word.name] = scope.integer((of_scope, k), part.words[k])
        [piece] = kernel.variants[0].pieces
        stores = piece.body.stores
        code = with_branches(part.code, {store.value for store in stores})
        self.code(code, names, places)
        for store in stores:
            target = places[store.buffer.name]
            element = target.element(store.position.literal, store.buffer.dtype)
            self.source.line(f"{element} = {names[store.value]}")

    def code(self, code: Code, names: dict[str, str], places: dict[str, _Place]) -> None:
        for item in code:
            if isinstance(item, Let):
                text = _text(item.expression, names, places)
                self.source.line(f"{names[item.name]} = {text}")
                continue
            for number, head in enumerate((f"if {_renamed(item.condition, names)}:", "else:")):
                with self.source.block(head):
                    self.code(item.sides[number], names, places)
                    for name, values in item.choices:
                        self.source.line(f"{names[name]} = {_renamed(values[number], names)}")


def _comments(code: ScalarCode) -> list[str]:
    found: list[str] = []
    for part in code.parts:
        if isinstance(part, Straight):
            found += part.kernel.comment
        elif isinstance(part, Inside):
            found += ["loop inside", *_comments(part.loop.code)]
    return found


def _named(key: Hashable) -> str:
    """What the name of a word begins with."""
    if isinstance(key, str):
        return key
    if isinstance(key, tuple) and isinstance(key[0], str):
        return key[0].replace(" ", "_")
    return "x"


def _text(expression: Expression, names: dict[str, str], places: dict[str, _Place]) -> str:
    match expression:
        case Load(buffer, position):
            return places[buffer.name].element(position.literal, buffer.dtype)
        case Apply(term, operands, dtype, casts):
            renamed = tuple([(key, _renamed(text, names)) for key, text in operands])
            return expression_text(Apply(term, renamed, dtype, casts))
        case IndexValue(index):
            return f"int64({index.literal})"
    return expression_text(expression)


def _renamed(text: str, names: dict[str, str]) -> str:
    return names.get(text, text)
