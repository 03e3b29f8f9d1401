"""What a library operation compiles to: kernel sources, and the words of their steps."""

import numpy as np

from numba_grad.compiler.words import Errors, Symbol
from numba_grad.dtypes import computed_in
from numba_grad.immutable import immutable
from numba_grad.runtime.plan import ErrorSite, Launch, Tasks

__all__ = ["Errors", "LibraryCall", "Memory", "Symbol"]

Shape = tuple[int, ...]
BLAS_LETTERS = {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}


@immutable
class Memory:
    """Where a word points: byte `offset` into an operand's memory.

    `role` is "input", "output" or "scratch"; `number` counts the inputs and outputs.
    """

    role: str
    number: int = 0
    offset: int = 0


LibraryWord = int | Memory | Symbol | Errors | ErrorSite


@immutable
class LibraryStep:
    """One step: a kernel's source, its words, and how it is run."""

    source: str
    words: tuple[LibraryWord, ...]
    launch: Launch


@immutable
class LibraryCall:
    """The steps of one operation, in order, and the memory that they need for themselves."""

    steps: tuple[LibraryStep, ...]
    scratch_bytes: int = 0


def kernel_dtype(dtype: np.dtype) -> str:
    return "bool_" if dtype == np.bool_ else dtype.name


def value_dtype(dtype: np.dtype) -> str:
    """What an element is once it is loaded."""
    return kernel_dtype(computed_in(dtype))


def grain_for(work_of_task: int, work_of_chunk: int) -> int:
    return max(1, work_of_chunk // max(1, work_of_task))


def call_of_elements(source: str, inputs: int, size: int, cost: int) -> LibraryCall:
    """A task for each element of the one output, which takes so many nanoseconds."""
    words = (*[Memory("input", k) for k in range(inputs)], Memory("output"))
    return LibraryCall((LibraryStep(source, words, Tasks(size, grain_for(cost, 1 << 15))),))


def sum_text(dtype: np.dtype, a: str, b: str) -> str:
    return f"{a} | {b}" if dtype == np.bool_ else f"{a} + {b}"
