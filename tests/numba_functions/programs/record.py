"""What is known of a kernel: what it is called with, and what it writes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

MakeArguments = Callable[[np.random.Generator, int], tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Program:
    """A kernel, and data for it."""

    function: Any  # what numba.njit made
    make_arguments: MakeArguments
    writes: tuple[str, ...]  # the parameters it writes to, in their order
    small: int
    large: int
    derivative: bool  # False: known to be zero, or infinite, or not what differences see

    def arguments(self, size: int | None = None, seed: int = 0) -> tuple[Any, ...]:
        """Small ones, or of a size."""
        return self.make_arguments(np.random.default_rng(seed), size or self.small)


PROGRAMS: dict[str, Program] = {}


def program(
    make_arguments: MakeArguments,
    *,
    writes: str = "",
    small: int = 5,
    large: int = 100,
    derivative: bool = True,
) -> Callable[[Any], Any]:
    """Register a compiled kernel; `writes` are names, with blanks between them."""

    def register(function: Any) -> Any:
        name = function.py_func.__name__
        assert name not in PROGRAMS, name
        PROGRAMS[name] = Program(
            function, make_arguments, tuple(writes.split()), small, large, derivative
        )
        return function

    return register
