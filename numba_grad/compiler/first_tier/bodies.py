"""The steps of a body that is run operation by operation, as loops want those of any body: over
memory that is left open."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from numba_grad.compiler.control_flow.writer import Opened
from numba_grad.compiler.steps.schedule import ScheduledStep
from numba_grad.compiler.words import OwnWord, Pointer
from numba_grad.runtime.plan import Tasks

# The bases of arguments, of results and of what is needed meanwhile: beyond those of any plan.
ARGUMENT, RESULT, ARENA = 1 << 40, 2 << 40, 3 << 40


class Arena:
    """Memory that each pass has anew."""

    def __init__(self) -> None:
        self.nbytes = 0

    def reserve(self, nbytes: int) -> int:
        offset = -(-self.nbytes // 64) * 64
        self.nbytes = offset + nbytes
        return offset


def scheduled(
    steps: np.ndarray,
    words: np.ndarray,
    relocations: np.ndarray,
    sources: Sequence[str],
    base_of_words: int,
) -> list[ScheduledStep]:
    """These steps, in the layout of a plan, whose kernels are numbers among `sources`.

    Addresses in what the plan has anyway, such as constants, stay what they are: a base and bytes.
    """
    opened: list[Any] = words.tolist()
    rows: list[tuple[int, int, int, int]] = steps.tolist()
    ends = [*[first for _, first, _, _ in rows], len(words)][1:]
    first_of = [0] * len(words)
    for (_, first, _, _), end in zip(rows, ends, strict=True):
        first_of[first:end] = [first] * (end - first)
    for word, base, offset in relocations.tolist():
        if base == base_of_words:
            opened[word] = OwnWord(offset // 8 - first_of[word])
        elif base >= ARGUMENT:
            opened[word] = Pointer(_opened(base), offset)
        else:
            opened[word] = base, offset
    return [
        ScheduledStep(
            sources[kernel] if kernel >= 0 else "",
            opened[first:end],
            Tasks(tasks, grain),
            memory=[],  # as its words say when they have places
            nbytes=0,
            flops=0,
            control=min(kernel, 0),
        )
        for (kernel, first, tasks, grain), end in zip(rows, ends, strict=True)
    ]


def _opened(base: int) -> Opened:
    if base >= ARENA:
        return Opened("arena")
    if base >= RESULT:
        return Opened("result", base - RESULT)
    return Opened("argument", base - ARGUMENT)
