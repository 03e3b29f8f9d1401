"""What the compiler hands to the engines: a table of steps as plain data. No graph, no code.

    Plan  = steps, words, relocations, kernels, input_count, outputs, arena_bytes, symbols, sites
    step  = kernel index or `Control`, position of its words, the two numbers of its launch
    word  = an int64: a size, an offset, or an address that a relocation fills in before a run

Bases are numbered: the inputs, the outputs, the arena, the error record, the addresses of the
kernels, the words themselves, the symbols (functions of libraries, files for states). By the
kernels' addresses and the words, a kernel that calls others finds them.
"""

import enum
import struct
from array import array
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from numba_grad.errors import InternalError
from numba_grad.immutable import NamedTuple
from numba_grad.runtime.state_files import symbol_of

SERIAL = 1 << 62  # the grain of a step that is never cut
ERROR_WORDS = 8  # of the error record


class Tasks(NamedTuple):
    """How a kernel of the CPU is run: for tasks, in chunks of `grain` and more over the threads."""

    number: int = 1
    grain: int = SERIAL  # the least number of tasks that is worth a thread of its own


class Grid(NamedTuple):
    """How a kernel of a GPU is run. Which of its threads does what is in its text."""

    blocks: int = 1
    threads: int = 1  # of each block


# Of a launch on a GPU: what all drivers take.
MOST_WORDS_OF_A_LAUNCH = 500

Launch = Tasks | Grid
ONCE = Tasks()

# One word of a step: a number, or (base, byte offset).
WordValue = int | tuple[int, int]


class Control(enum.IntEnum):
    """What stands in place of a kernel index where a step decides which step comes next."""

    NONE = 0
    LOOP = -1  # words: `LoopWord`. The steps up to its REPEAT are run again and again
    REPEAT = -2  # words: the address of the LOOP's words
    LEAVE = -3  # words: `LeaveWord`. Out of a loop, if a condition is false
    # Words: the address of an index, how many there are (two at least), steps to skip for each.
    # What is skipped to ends with a SKIP to where all of them meet.
    SWITCH = -4
    SKIP = -5  # words: steps to skip


class LoopWord:
    """The words of a LOOP. After these come its moves: pointers in words of the steps inside, that
    change from pass to pass."""

    COUNTER = 0  # passes so far
    TRIPS = 1
    TRIPS_ADDRESS = 2  # where TRIPS is read at each entry, or 0
    LENGTH = 3  # steps inside
    MOVES = 4  # how many
    SITE = 5  # of its label, where progress is shown, or -1
    # Of a loop that is shown and whose steps are counted elsewhere, or 0:
    COUNT_ADDRESS = 6
    TOTAL_ADDRESS = 7  # how many steps that will be
    COUNTS_DOWN = 8  # whether it is those left that are counted
    END = 9


class MoveWord:
    """The words of one move. The pointer begins as START, or so many FIRST_STRIDEs further as the
    number at FIRST_ADDRESS says; it grows by STRIDE with each pass, and goes back by RING where it
    comes to LIMIT or beyond."""

    TARGET = 0  # the address of the word
    START = 1
    STRIDE = 2
    LIMIT = 3  # or 0
    RING = 4
    FIRST_ADDRESS = 5  # or 0
    FIRST_STRIDE = 6
    END = 7


class LeaveWord:
    """The words of a LEAVE."""

    CONDITION_ADDRESS = 0  # of a boolean
    SKIPPED = 1  # steps to skip if it is false
    LOOP_ADDRESS = 2  # the LOOP's words
    COUNTER_ADDRESS = 3  # where the number of finished passes goes
    END = 4


class HasAddress(Protocol):
    """A loaded kernel: a C function `void(int64 words, int64 first_task, int64 end_task)`."""

    @property
    def address(self) -> int: ...


class ErrorSite(NamedTuple):
    """What to say when a kernel records an error under this site's number.

    `kind` is "index" (recorded: index, size), "memory" (recorded: the points of a transform that
    there was none for), "negative power" (recorded: the size of an integer's exponent), or what is
    wrong with a matrix (recorded: its number, how many there are): "singular", "pivots", "not
    positive definite", "not finite", "eigenvalues" or "singular values", which did not converge; or
    "kernel", a user's that raised (recorded: Numba's code and record of it, of which `exception`
    makes an exception), or "callback", a Python function that did (recorded: the address of the
    exception); or "communication" (recorded: MPI's code); or "unfinished", a loop that was broken
    off. Nothing is recorded for "progress": `operation` is the label of a loop.
    """

    kind: str
    operation: str
    axis: int = 0
    exception: Callable[[int, int], BaseException] | None = None


class JointOutputs(NamedTuple):
    """Outputs that are parts of one array, in memory of their own."""

    places: tuple[tuple[int, int], ...]  # numbers of outputs, the first byte of each
    nbytes: int  # of the array


@dataclass(slots=True, eq=False)
class Plan:
    """A compiled program for given shapes. Nothing in it changes when it runs."""

    steps: np.ndarray  # int64 (n, 4): kernel index, position of the first word, `Launch`
    words: np.ndarray  # int64 (m,): template of all the steps' words
    relocations: np.ndarray  # int64 (r, 3): word, base, byte offset; sorted by base
    kernels: tuple[Any, ...]  # `HasAddress`; on GPUs what `runtime/cuda/engine.py` runs
    input_count: int
    outputs: tuple[tuple[tuple[int, ...], np.dtype], ...]  # shape and dtype of each
    arena_bytes: int = 0
    symbols: tuple[str, ...] = ()  # as `runtime/library.py` and `state_files.py` name them
    sites: tuple[ErrorSite, ...] = ()
    joint: tuple[JointOutputs, ...] = ()
    # int64 (a, 5), where steps may run beside each other: step, base, first byte, end, and whether
    # it is written
    accesses: np.ndarray | None = None
    program: Any = field(default=None, repr=False)  # the native engine's prepared form

    @property
    def base_count(self) -> int:
        return self.input_count + len(self.outputs) + 4 + len(self.symbols)

    @property
    def functions(self) -> int:
        """The base of the table of kernels' addresses, as `PlanBuilder` has it."""
        return self.input_count + len(self.outputs) + 2

    def is_elsewhere(self, position: int) -> bool:
        """Whether a word is the address of something that is not among the words."""
        bases = self.relocations[self.relocations[:, 0] == position, 1]
        return bool(bases.size) and bases[0] != self.input_count + len(self.outputs) + 3


class PlanBuilder:
    """Collects steps, in the order in which they run."""

    def __init__(
        self, input_count: int, outputs: Sequence[tuple[tuple[int, ...], np.dtype]]
    ) -> None:
        self.input_count = input_count
        self.outputs = tuple((tuple(shape), np.dtype(dtype)) for shape, dtype in outputs)
        self.joint: tuple[JointOutputs, ...] = ()
        self.arena_bytes = 0
        self._kernels: dict[HasAddress, int] = {}
        self._symbols: dict[str, int] = {}
        self._files: dict[Hashable, int] = {}
        self._sites: dict[ErrorSite, int] = {}
        self._steps = array("q")
        self._words = array("q")
        self._relocations = array("q")
        self._accesses: array | None = None

    # Bases.

    def input(self, number: int) -> int:
        return number

    def output(self, number: int) -> int:
        return self.input_count + number

    @property
    def arena(self) -> int:
        return self.input_count + len(self.outputs)

    @property
    def errors(self) -> int:
        """The error record, whose address `check_index` takes."""
        return self.arena + 1

    @property
    def functions(self) -> int:
        """The table of kernels' addresses: that of kernel k stands 8 * k bytes further."""
        return self.arena + 2

    @property
    def words(self) -> int:
        """The words of all steps, in a run."""
        return self.arena + 3

    def symbol(self, name: str) -> int:
        """The base of a library entry point, such as "blas.dgemm"; its word is the address."""
        return self.words + 1 + self._symbols.setdefault(name, len(self._symbols))

    def file(self, file: Hashable, nbytes: int, directory: str) -> int:
        """The base of a file that holds states of loops; equal ones are one."""
        number = self._files.setdefault(file, len(self._files))
        return self.symbol(symbol_of(number, nbytes, directory))

    # Numbers that words and steps refer to.

    def kernel(self, kernel: HasAddress) -> int:
        return self._kernels.setdefault(kernel, len(self._kernels))

    def site(self, site: ErrorSite) -> int:
        return self._sites.setdefault(site, len(self._sites))

    def reserve(self, nbytes: int, *, alignment: int = 64) -> int:
        """Bytes at the end of the arena that nothing else uses; returns their offset."""
        offset = -(-self.arena_bytes // alignment) * alignment
        self.arena_bytes = offset + nbytes
        return offset

    # Steps.

    def step(self, kernel: int, words: Sequence[WordValue], launch: Launch = ONCE) -> None:
        """Append one step."""
        position = len(self._words)
        self._steps.extend((kernel, position, *launch))
        append = self._words.append
        for offset, word in enumerate(words):
            if type(word) is tuple:
                self._relocations.extend((position + offset, word[0], word[1]))
                append(0)
            else:
                append(word)  # type: ignore[arg-type]

    def block(self, steps: np.ndarray, words: np.ndarray, relocations: np.ndarray) -> None:
        """Append several steps at once, whose word positions count from the start of the block.

        So do relocations to the words. Shapes: steps (n, 4), words (m,), relocations (r, 3), in
        the layout of `Plan`.
        """
        start = len(self._words)
        steps, relocations = steps.astype(np.int64), relocations.astype(np.int64)
        steps[:, 1] += start
        relocations[:, 0] += start
        relocations[:, 2] += 8 * start * (relocations[:, 1] == self.words)
        self._steps.frombytes(steps.tobytes())
        self._words.frombytes(np.asarray(words, np.int64).tobytes())
        self._relocations.frombytes(relocations.tobytes())

    @property
    def word_count(self) -> int:
        """How many words there are, so that the next one has this number."""
        return len(self._words)

    def append(
        self, steps: Sequence[int], words: Sequence[int], relocations: Sequence[int]
    ) -> None:
        """The same as `block`, row after row, where words count from that of the plan."""
        for own, numbers in (
            (self._steps, steps),
            (self._words, words),
            (self._relocations, relocations),
        ):
            # An array and NumPy look at each number of a list, and take several times as long.
            own.frombytes(struct.pack(f"{len(numbers)}q", *numbers))

    def access(self, accesses: np.ndarray) -> None:
        """Say what steps use of which base, in rows as those of `Plan.accesses`.

        Step numbers count from the end of what has been appended so far.
        """
        if self._accesses is None:
            self._accesses = array("q")
        rows = np.array(accesses, np.int64)
        rows[:, 0] += len(self._steps) // 4
        self._accesses.frombytes(rows.tobytes())

    def build(self) -> Plan:
        relocations = _table(self._relocations, 3)
        if len(relocations):
            relocations = relocations[np.argsort(relocations[:, 1], kind="stable")]
        plan = Plan(
            steps=_table(self._steps, 4),
            words=np.array(self._words, np.int64),
            relocations=relocations,
            kernels=tuple(self._kernels),
            input_count=self.input_count,
            outputs=self.outputs,
            arena_bytes=self.arena_bytes,
            symbols=tuple(self._symbols),
            sites=tuple(self._sites),
            joint=self.joint,
            accesses=None if self._accesses is None else _table(self._accesses, 5),
        )
        check_plan(plan)
        return plan


def _table(numbers: array, columns: int) -> np.ndarray:
    return np.array(numbers, np.int64).reshape(-1, columns)


_LOWEST_CONTROL = min(map(int, Control))


def check_plan(plan: Plan) -> None:
    """Raise InternalError if a number in a plan refers to something that is not there."""
    step_limits = (
        ("step: kernel", _LOWEST_CONTROL, len(plan.kernels)),
        ("step: position of words", 0, len(plan.words) + 1),
        ("step: tasks, or blocks", 0, SERIAL),
        ("step: grain, or threads of a block", 1, SERIAL + 1),
    )
    relocation_limits = (
        ("relocation: word", 0, len(plan.words)),
        ("relocation: base", 0, plan.base_count),
    )
    for table, limits in ((plan.steps, step_limits), (plan.relocations, relocation_limits)):
        if not len(table):
            continue
        # All columns at once: each plan is looked at, also in a first gradient.
        for (name, first, end), low, high in zip(
            limits, table.min(axis=0).tolist(), table.max(axis=0).tolist(), strict=False
        ):
            if low < first or high >= end:
                raise InternalError(
                    f"plan: {name} out of range: {low}..{high}, limits {first} and {end}"
                )
    for number in np.flatnonzero(plan.steps[:, 0] < 0).tolist():
        _check_control(plan, number)


def _check_control(plan: Plan, number: int) -> None:
    """Raise InternalError unless a row that decides which step comes next has its words, and leads
    to a step that there is, or to the end."""
    kind, first = plan.steps[number, :2].tolist()
    # Of these few are read, and made Python's: the rest of a plan is long, and such rows are many.
    words = plan.words[first:]
    wanted, ahead = 1, [0]
    match kind:
        case Control.LOOP if len(words) >= LoopWord.END:
            wanted = LoopWord.END + MoveWord.END * int(words[LoopWord.MOVES])
            ahead = [int(words[LoopWord.LENGTH]) + 1]
        case Control.LOOP:
            wanted = LoopWord.END
        case Control.LEAVE:
            wanted = LeaveWord.END
            ahead = words[LeaveWord.SKIPPED : LeaveWord.SKIPPED + 1].tolist()
        case Control.SWITCH:
            wanted = 2 + max([1, *words[1:2].tolist()])
            ahead = words[2:wanted].tolist()
        case Control.SKIP:
            ahead = words[:1].tolist()
    left = len(plan.steps) - number - 1
    if len(words) < wanted or not all(0 <= skipped <= left for skipped in ahead):
        raise InternalError(f"plan: step {number}, a {Control(kind).name}, leads out of the plan")
