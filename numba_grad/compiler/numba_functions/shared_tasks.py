"""Loops of generated kernels that threads share: `@part` functions, and `in_parallel`.

In compiled code (`array_lowering.py`) the engine's threads share them; in Python, one does all.
"""

from collections.abc import Callable
from typing import Any


class part:
    """A function `(first, last, *arguments)` that does the tasks from `first` to before `last`."""

    def __init__(self, function: Callable[..., None]) -> None:
        self.function = function


def in_parallel(tasks: part, count: int, grain: int, arguments: tuple[Any, ...]) -> None:
    """Do `count` tasks, which are independent of each other; `grain` of them are worth a thread."""
    tasks.function(0, count, *arguments)
