"""Plans of single library calls, for tests of kernels alone."""

from collections.abc import Callable, Sequence

from numba_grad.compiler.library_kernels.calls import (
    Errors,
    LibraryCall,
    LibraryWord,
    Memory,
    Symbol,
)
from numba_grad.runtime.plan import ErrorSite, PlanBuilder, WordValue


def append_call(
    builder: PlanBuilder,
    call: LibraryCall,
    kernel_number: Callable[[str], int],
    *,
    inputs: Sequence[tuple[int, int]],
    outputs: Sequence[tuple[int, int]],
    scratch: tuple[int, int] = (0, 0),
) -> None:
    """Append the steps to a plan; operands are (base, byte offset), kernels are found by source."""
    places = {"input": inputs, "output": outputs, "scratch": [scratch]}

    def value(word: LibraryWord) -> WordValue:
        match word:
            case Memory(role, number, offset):
                base, start = places[role][number]
                return base, start + offset
            case Symbol(name):
                return builder.symbol(name), 0
            case Errors():
                return builder.errors, 0
            case ErrorSite():
                return builder.site(word)
            case _:
                return int(word)

    for step in call.steps:
        words = [value(word) for word in step.words]
        builder.step(kernel_number(step.source), words, step.launch)
