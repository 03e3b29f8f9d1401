"""What the words of a step stand for, until a plan is made of it: most are numbers."""

from numba_grad.immutable import NamedTuple, immutable
from numba_grad.runtime.plan import ErrorSite


class Pointer(NamedTuple):
    """A place in memory that is known by what it is for."""

    memory: object
    offset: int  # bytes


@immutable
class Symbol:
    """The address of a library function."""

    name: str


@immutable
class Errors:
    """The address of the error record. An `ErrorSite` is its number there."""


@immutable
class KernelAddress:
    """The place where the address of another kernel stands."""

    source: str


@immutable
class OwnWord:
    """The address of a word, counted from the first one of the step."""

    number: int


Word = int | Pointer | Symbol | Errors | ErrorSite | KernelAddress | OwnWord
