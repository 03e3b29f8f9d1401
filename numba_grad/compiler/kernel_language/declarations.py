"""What the words of the kernel language take and give, for readers and type checkers: never called.

Their meaning is in `intrinsics.py`. Addresses are integers, and so is all that is behind them here.
"""

from typing import Protocol


class Pointer(Protocol):
    """Typed memory: elements of it are read and written by index."""

    def __getitem__(self, index: int) -> int: ...

    def __setitem__(self, index: int, value: int) -> None: ...


class Element:
    """The type of an element of memory."""


int64: Element
uint8: Element


def pointer(address: int, element: Element) -> Pointer: ...


def call(function: int, *arguments: int) -> int:
    """Call the C function at an address."""
    ...


def stack_words(count: int) -> int:
    """The address of so many words, for as long as the function runs."""
    ...


def pause() -> None:
    """Tell the processor that this thread waits in a loop."""
    ...


def atomic_load(address: int) -> int: ...


def atomic_store(address: int, value: int) -> None: ...


def atomic_add(address: int, value: int) -> int:
    """What was there before."""
    ...


def atomic_compare_exchange(address: int, expected: int, value: int) -> int:
    """What was there before: `value` is there now if that is `expected`."""
    ...
