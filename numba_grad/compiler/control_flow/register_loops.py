"""Loops of small state as one kernel that holds the state in registers.

A body that is straight-line code on numbers (one kernel without loops, `loops.py`) is written out
between the lines of a loop. What is carried is in local variables; rows are read and written at an
index that follows the steps. Entering a kernel costs as much as some twenty operations, so for a
pendulum this is a factor of three.

A kernel does so many steps that Ctrl-C need not wait, and is entered again to go on: what is
carried stays in memory of the loop's own meanwhile.
"""

import functools
from collections.abc import Sequence

from numba_grad.compiler.control_flow.costly_choices import Code, with_branches
from numba_grad.compiler.emission.emit_cpu import dtype_name, expression_text
from numba_grad.compiler.emission.text import SourceText
from numba_grad.compiler.loop_nests.kernel_ir import (
    Apply,
    Buffer,
    Expression,
    IndexValue,
    Let,
    Load,
    LoopNest,
)
from numba_grad.compiler.steps.schedule import ScheduledStep
from numba_grad.compiler.words import Word
from numba_grad.dtypes import is_storage_only
from numba_grad.graph.types import Type
from numba_grad.immutable import immutable

# Carried elements: beyond, they are no longer in registers, and unrolled code is long.
MOST_CARRIED = 64
# Operations until a kernel comes back, some 0.5 ms.
_OPERATIONS_OF_A_RUN = 1 << 20


@immutable
class StraightLineCode:
    """Straight-line code: a kernel without loops. `roles` are, by word, what a pointer points to:
    "argument" or "result", its number, and the first element there."""

    kernel: LoopNest
    words: list[Word]
    roles: dict[int, tuple[str, int, int]]

    @property
    def lets(self) -> list[Let]:
        [variant] = self.kernel.variants
        [piece] = variant.pieces
        return [*variant.lets[0], *piece.body.lets] if variant.lets else piece.body.lets

    @property
    def operations(self) -> int:
        return max(1, self.kernel.operations, len(self.lets))


def straight_line(
    step: ScheduledStep, roles: dict[int, tuple[str, int, int]]
) -> StraightLineCode | None:
    """The code of a body that is this step; None if it is not straight."""
    kernel = step.loop_nest
    if kernel is None:
        return None
    if kernel.axes or kernel.accumulators or len(kernel.variants) != 1:
        return None
    [variant] = kernel.variants
    if len(variant.pieces) != 1 or len(variant.lets) > 1:
        return None
    body = variant.pieces[0].body
    lets = [*(variant.lets[0] if variant.lets else []), *body.lets]
    positions = [let.expression.position for let in lets if isinstance(let.expression, Load)]
    positions += [store.position for store in body.stores]
    positions += [x.expression.index for x in lets if isinstance(x.expression, IndexValue)]
    if body.updates or any(position.terms for position in positions):
        return None
    known = {*[word.name for word in kernel.words], *[let.name for let in lets]}
    operands = [
        text
        for let in lets
        if isinstance(let.expression, Apply)
        for _, text in let.expression.operands
    ]
    if not known.issuperset(operands):
        return None
    if any(is_storage_only(buffer.dtype) or buffer.word not in roles for buffer in kernel.buffers):
        return None
    return StraightLineCode(kernel, step.words, roles)


@immutable
class RegisterLoop:
    """The source of a loop, and what its words hold: words of its bodies; `PROGRESS`;
    ("carried", k), its memory; ("row", k), ("result", k), ("entry", k), pointers to the row of the
    first step, and ("row stride", k), ..., elements from there to the row of the next."""

    source: str
    words: list[object]
    steps_of_a_run: int
    operations: int  # of a step


# Of the loop's own memory: int64 words, see `start_source`.
PROGRESS = "progress"
PROGRESS_WORDS = 3  # steps so far, whether to go on, how many steps at most
GOES_ON, TRIPS = 1, 2


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
    body: StraightLineCode,
    test: StraightLineCode | None,
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
    body, test : straight-line code, of the loop's body and of the condition to go on
    carried, rows, results : the types of what is carried, of a row of each sequence and result
    """
    return _Writer(carried, rows, results).written(body, test)


class _Writer:
    def __init__(
        self, carried: Sequence[Type], rows: Sequence[Type], results: Sequence[Type]
    ) -> None:
        self.source = SourceText()
        self.words: list[object] = []
        self.carried = carried
        self.rows = rows
        self.results = results

    def written(self, body: StraightLineCode, test: StraightLineCode | None) -> RegisterLoop:
        source = self.source
        operations = body.operations + (test.operations if test is not None else 0)
        run = max(64, _OPERATIONS_OF_A_RUN // operations)
        with source.block("def kernel(args, lo, hi):"):
            source.line("# loop")
            for comment in body.kernel.comment:
                source.line(f"# {comment}")
            source.line(f"progress = {self.word(PROGRESS, 'int64')}")
            for k, type in enumerate(self.carried):
                source.line(f"carried{k} = {self.word(('carried', k), dtype_name(type.dtype))}")
            for name, types in (
                ("row", self.rows),
                ("result", self.results),
                ("entry", self.carried),
            ):
                for k, type in enumerate(types):
                    source.line(f"{name}{k} = {self.word((name, k), dtype_name(type.dtype))}")
                    source.line(f"{name}_stride{k} = {self.word((f'{name} stride', k))}")
            lines = [line for line in (test, body) if line is not None]
            for number, line in enumerate(lines):
                self.arguments(line, f"p{number}_")
            for k, type in enumerate(self.carried):
                for p in range(type.size):
                    source.line(f"c{k}_{p} = carried{k}[{p}]")
            source.line("first = progress[0]")
            source.line(f"last = min(first + {run}, progress[2])")
            if test is None:
                with source.block("for trip in range(first, last):"):
                    self.step(body, "p0_")
                source.line("progress[0] = last")
                source.line(f"progress[{GOES_ON}] = int64(last < progress[2])")
            else:
                source.line("trip = first")
                source.line("goes_on = True")
                with source.block("while trip < last:"):
                    [value] = self.values(test, "p0_").values()
                    source.line(f"goes_on = {value}")
                    with source.block("if not goes_on:"):
                        source.line("break")
                    self.step(body, "p1_")
                    source.line("trip += 1")
                source.line("progress[0] = trip")
                source.line(f"progress[{GOES_ON}] = int64(goes_on)")
            for k, type in enumerate(self.carried):
                for p in range(type.size):
                    source.line(f"carried{k}[{p}] = c{k}_{p}")
        return RegisterLoop(str(source), self.words, run, operations)

    def word(self, meaning: object, dtype: str = "") -> str:
        """How a new word is read: as a pointer, or an integer."""
        self.words.append(meaning)
        number = len(self.words) - 1
        return f"buffer(args, {number}, {dtype})" if dtype else f"integer(args, {number})"

    def arguments(self, line: StraightLineCode, prefix: str) -> None:
        """What a body reads besides what is carried and rows."""
        buffers = {buffer.word: buffer for buffer in line.kernel.buffers}
        first_constant = len(self.carried) + len(self.rows)
        for number, word in enumerate(line.kernel.words):
            buffer = buffers.get(number)
            if buffer is None:
                text = self.word(line.words[number])
            else:
                kind, which, _ = line.roles[number]
                if kind == "result" or which < first_constant:
                    continue
                text = self.word(line.words[number], dtype_name(buffer.dtype))
            self.source.line(f"{prefix}{word.name} = {text}")

    def step(self, body: StraightLineCode, prefix: str) -> None:
        source = self.source
        for k, type in enumerate(self.carried):
            for p in range(type.size):
                source.line(f"entry{k}[{_position('entry', k, p)}] = c{k}_{p}")
        values = self.values(body, prefix)
        count = len(self.carried)
        for (k, p), value in values.items():
            if k >= count:
                where = _position("result", k - count, p)
                source.line(f"result{k - count}[{where}] = {value}")
        for (k, p), value in values.items():
            if k < count:
                source.line(f"c{k}_{p} = {value}")

    def values(self, line: StraightLineCode, prefix: str) -> dict[tuple[int, int], str]:
        """Write the lets of a body; for each element of its results the name of its value."""
        names = {word.name: f"{prefix}{word.name}" for word in line.kernel.words}
        names |= {let.name: f"{prefix}{let.name}" for let in line.lets}
        [piece] = line.kernel.variants[0].pieces
        results = {store.value for store in piece.body.stores}
        self.code(line, with_branches(line.lets, results), names)
        found = {}
        for store in piece.body.stores:
            _, number, first = line.roles[store.buffer.word]
            found[number, first + store.position.literal] = names[store.value]
        return found

    def code(self, line: StraightLineCode, code: Code, names: dict[str, str]) -> None:
        for item in code:
            if isinstance(item, Let):
                text = self.expression(line, item.expression, names)
                self.source.line(f"{names[item.name]} = {text}")
                continue
            for number, head in enumerate((f"if {_renamed(item.condition, names)}:", "else:")):
                with self.source.block(head):
                    self.code(line, item.sides[number], names)
                    for name, values in item.choices:
                        self.source.line(f"{names[name]} = {_renamed(values[number], names)}")

    def expression(
        self, line: StraightLineCode, expression: Expression, names: dict[str, str]
    ) -> str:
        match expression:
            case Load(buffer, position):
                return self.load(line, buffer, position.literal, names)
            case Apply(term, operands, dtype, casts):
                renamed = tuple([(key, _renamed(text, names)) for key, text in operands])
                return expression_text(Apply(term, renamed, dtype, casts))
            case IndexValue(index):
                return f"int64({index.literal})"
        return expression_text(expression)

    def load(
        self, line: StraightLineCode, buffer: Buffer, literal: int, names: dict[str, str]
    ) -> str:
        _, number, first = line.roles[buffer.word]
        if number < len(self.carried):
            return f"c{number}_{first + literal}"
        row = number - len(self.carried)
        if row < len(self.rows):
            return f"row{row}[{_position('row', row, first + literal)}]"
        return f"{names[buffer.name]}[{literal}]"


def _position(name: str, number: int, element: int) -> str:
    return f"{name}_stride{number} * trip + {element}"


def _renamed(text: str, names: dict[str, str]) -> str:
    return names.get(text, text)
