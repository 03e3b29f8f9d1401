"""The params of loops, as records: what the rules of `loops.py`, `while_loops.py` and
`loop_adjoints.py` share. A node has them one by one (`_asdict`), so that what walks graphs finds
bodies."""

from collections.abc import Sequence
from typing import Any

from numba_grad.immutable import NamedTuple
from numba_grad.transforms.call_target import CallTarget


class Shape(NamedTuple):
    """How many of a body's arguments and outputs are what."""

    carried: int
    sequences: int
    stacked: int

    def arguments(self, values: Sequence[Any]) -> tuple[list[Any], list[Any], list[Any]]:
        """Arguments of a body, or inputs of a loop: carried ones, sequences, constants."""
        first = self.carried + self.sequences
        return (
            list(values[: self.carried]),
            list(values[self.carried : first]),
            list(values[first:]),
        )


class LoopParams(NamedTuple):
    """A loop of so many steps."""

    body: CallTarget
    carried: int
    sequences: int
    length: int | None  # None: it is counted when the loop runs, by a condition (`while_loops.py`)
    reverse: bool = False
    slots: int | None = None  # for how many states the derivative has memory; None: for all
    directory: str = ""  # where states go to a file; "": they stay in memory
    kept: int = 0  # last results of the body that its derivative reads
    sums: int = 0  # last carried values that steps only add to

    @property
    def shape(self) -> Shape:
        return Shape(self.carried, self.sequences, len(self.body.outputs) - self.carried)

    @property
    def keeps_all(self) -> bool:
        """Whether the derivative reads the states of all steps from memory."""
        return self.slots is None

    def last_row(self, number: int) -> tuple[int, int] | None:
        """Of a stacked result that has rows of what is carried on: which carried value is carried
        out of the loop as the last step's row, and which row that is."""
        outputs = self.body.outputs
        if not self.length or not self.carried <= number < len(outputs):
            return None
        row = 0 if self.reverse else self.length - 1
        same = [k for k in range(self.carried) if outputs[k] is outputs[number]]
        return (same[0], row) if same else None


class WhileParams(NamedTuple):
    """A loop that goes on while a condition holds."""

    test: CallTarget
    body: CallTarget
    carried: int
    constants_of_test: int
    slots: int
    directory: str = ""

    @property
    def counted(self) -> LoopParams:
        """The loop, as one whose number of steps is known when it has run."""
        return LoopParams(
            self.body, self.carried, 0, None, slots=self.slots, directory=self.directory
        )

    def parted(self, values: Sequence[Any]) -> tuple[list[Any], list[Any], list[Any]]:
        """Inputs: what is carried, constants of the test, constants of the body."""
        return Shape(self.carried, self.constants_of_test, 0).arguments(values)


class AdjointParams(NamedTuple):
    """The adjoint of a loop within a memory budget."""

    body: CallTarget  # of the loop
    backward: CallTarget  # one step back
    held: int  # cotangents that are carried, and sums
    carried: int  # by the loop
    sequences: int  # of the loop
    rows: int  # these, and cotangents of stacked results
    length: int | None
    reverse: bool
    slots: int
    directory: str
    active: tuple[int, ...]  # the loop's arguments that the results are the cotangents of
    given: tuple[bool, ...]  # which stacked results have cotangents
    # One step back that reads some results of the loop's step, which is done again before, and
    # their numbers: so what is computed has the same bits as where all is kept.
    reading: CallTarget
    kept: tuple[int, ...]
    sums: int  # how many of the cotangents that are carried, the last ones, are sums
    negated: tuple[int, ...]  # which of them are carried with the other sign
    same: tuple[int, ...]  # of which carried values the cotangent is one of the last constants

    @property
    def loop(self) -> LoopParams:
        return LoopParams(
            self.body,
            self.carried,
            self.sequences,
            self.length,
            reverse=self.reverse,
            slots=self.slots,
            directory=self.directory,
        )
