"""Nodes of captured graphs that decide, on the device, what is done: loops and branches.

A kernel of one thread reads what decides and sets the condition of the node, by a function of
CUDA's device runtime.
"""

import contextlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Self

import numpy as np

from numba_grad.immutable import NamedTuple
from numba_grad.runtime.cuda.interface import Driver, DriverError, NodeKind
from numba_grad.runtime.cuda.streams import Stream

# Decides on the next trip of a loop. Words: whether it goes on; three numbers (how many more times
# this may be decided, trips of the outermost loop so far, and in the end what `answer_of` takes);
# the number of this place; the conditions of what comes then (the loop, or the rest of its trips)
# and of the loop. Of a loop inside another one: the condition of the node behind it, which branch
# of that is taken where the loop ends here, and how many there are: none of them where the device
# stops. And two conditions of the loop around it, which are to be 0 until that decides on them,
# where this one is entered; else its own.
DECISION_SOURCE = """\
@cuda.jit(
    "void(CPointer(uint8), CPointer(int64), int64, int64, int64, int64, int64, int64, int64, int64)"
)
def kernel(
    goes_on, numbers, place, following, loop, behind, branch, branches, around_following, around
):
    # while: whether there is another trip
    if cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x == 0:
        holds = 0
        if goes_on[0] != 0:
            holds = 1
        left = numbers[0] - 1
        numbers[0] = left
        if branches == 0:
            numbers[1] += 1
        numbers[2] = (numbers[1] << 16) + 2 * place + holds
        if around != loop:
            set_conditional(uint64(around_following), uint32(0))
            set_conditional(uint64(around), uint32(0))
        value = 0
        if holds != 0 and left > 0:
            value = 1
        set_conditional(uint64(following), uint32(value))
        if value == 0:
            set_conditional(uint64(loop), uint32(0))
        if branches != 0:
            chosen = branches
            if holds == 0:
                chosen = branch
            set_conditional(uint64(behind), uint32(chosen))
"""

# Chooses a branch. Words: the index, how many branches there are, and the condition of the node.
CHOICE_SOURCE = """\
@cuda.jit("void(CPointer(int64), int64, int64)")
def kernel(index, branches, condition):
    # switch: which branch
    if cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x == 0:
        chosen = index[0]
        if chosen >= branches:
            chosen = branches - 1
        if chosen < 0:
            chosen = 0
        set_conditional(uint64(condition), uint32(chosen))
"""

_ONE = (1, 1, 1)


class Answer(NamedTuple):
    """Where the device stopped."""

    trips: int  # of the outermost loop
    place: int
    goes_on: bool  # whether the loop that was decided on there does


def answer_of(number: int) -> Answer:
    return Answer(number >> 16, (number & 0xFFFF) >> 1, bool(number & 1))


class Deciding(NamedTuple):
    """The two kernels, loaded."""

    decision: int
    choice: int

    @classmethod
    def loaded(cls, load: Callable[[str], int]) -> Self:
        return cls(load(DECISION_SOURCE), load(CHOICE_SOURCE))


def say_refused(error: DriverError) -> None:
    """That the host decides, where the driver has no such nodes, or no room for them."""
    warnings.warn(
        f"cuda: the driver refused a graph that decides by itself ({error.call}: {error.code}); "
        "the host decides, and waits for the device each time",
        RuntimeWarning,
        stacklevel=2,
    )


class ConditionalNodes:
    """What adds them to the graph that is captured on `stream`.

    Each body is captured on a stream of its own, as NVIDIA's and PyTorch's are: `stream` is that
    where what is captured now belongs.
    """

    def __init__(self, driver: Driver, stream: Stream, kernels: Deciding) -> None:
        self.stream = stream
        self._driver, self._kernels, self._outermost = driver, kernels, stream
        self._depth = 0

    def new_condition(self) -> int:
        return self._driver.new_condition(self._outermost.handle)

    def decide(self, *words: int) -> None:
        """The kernel of `DECISION_SOURCE`, with these words."""
        self._launch(self._kernels.decision, *words)

    def choose(self, index: int, branches: Sequence[Callable[[], None]]) -> None:
        """One of what these give to `stream`, by the int64 at an address."""
        condition = self.new_condition()
        self._launch(self._kernels.choice, index, len(branches), condition)
        self.add(NodeKind.SWITCH, condition, branches)

    def _launch(self, kernel: int, *words: int) -> None:
        packed = np.array(words, np.int64)
        address, nbytes = packed.ctypes.data, packed.nbytes
        self._driver.launch(kernel, _ONE, _ONE, 0, self.stream.handle, address, nbytes)

    def add(self, kind: NodeKind, condition: int, writes: Sequence[Callable[[], None]]) -> None:
        """A node, and for each of its bodies what gives it to `stream`."""
        outer = self.stream
        bodies = self._driver.add_conditional(outer.handle, condition, kind, len(writes))
        for body, write in zip(bodies, writes, strict=True):
            with self._on_a_stream_of_its_own(body):
                write()
        self.stream = outer

    @contextlib.contextmanager
    def _on_a_stream_of_its_own(self, body: int) -> Iterator[None]:
        driver, device = self._driver, self._outermost.device.index
        # One for each depth: what is captured is under a lock, see `graphs.py`.
        key = ("capturing a body", device, self._depth)
        self.stream = stream = driver.kept.pop(key, None) or Stream(device)
        self._depth += 1
        driver.begin_body(stream.handle, body)
        try:
            yield
        except BaseException:
            # No stream may stay captured; this one is dropped.
            with contextlib.suppress(Exception):
                driver.end_body(stream.handle)
            raise
        driver.end_body(stream.handle)
        self._depth -= 1
        driver.kept[key] = stream
