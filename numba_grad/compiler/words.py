"""What the words of a step stand for, until a plan is made of it: most are numbers."""

from dataclasses import dataclass
from typing import NamedTuple

from numba_grad.runtime.plan import ErrorSite


class Pointer(NamedTuple):
    """A place in memory that is known by what it is for."""

    memory: object
    offset: int  # bytes


@dataclass(frozen=True, slots=True)
class Symbol:
    """The address of a library function."""

    name: str


@dataclass(frozen=True, slots=True)
class Errors:
    """The address of the error record. An `ErrorSite` is its number there."""


@dataclass(frozen=True, slots=True)
class KernelAddress:
    """The place where the address of another kernel stands."""

    source: str


@dataclass(frozen=True, slots=True)
class OwnWord:
    """The address of a word, counted from the first one of the step."""

    number: int


Word = int | Pointer | Symbol | Errors | ErrorSite | KernelAddress | OwnWord
