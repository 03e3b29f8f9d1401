"""Whether history is recorded: `no_grad`, `enable_grad`, `set_grad_enabled`, each a context manager
and a decorator.

The mode belongs to the thread; a new thread starts with recording on.
"""

import functools
import inspect
from collections.abc import Callable, Generator
from typing import Any, Self, TypeVar

from numba_grad.graph import traced_bodies
from numba_grad.graph.node import grad_mode, recording

F = TypeVar("F", bound=Callable[..., Any])


def is_grad_enabled() -> bool:
    """Whether operations of this thread record history for gradients."""
    function = traced_bodies.current.compiled
    if function is not None:
        function.asks_for_mode = True
    return grad_mode.enabled


class _Mode:
    """Sets the mode on entry and restores it on exit; as a decorator, around each call."""

    __slots__ = ("_blocks", "_mode")

    def __init__(self, mode: bool) -> None:
        self._mode = mode
        self._blocks: list[recording] = []  # several, as one object can be entered within itself

    def __enter__(self) -> Self:
        block = recording(self._mode)
        block.__enter__()
        self._blocks.append(block)
        return self

    def __exit__(self, *error: object) -> None:
        self._blocks.pop().__exit__()

    def __call__(self, function: F) -> F:
        return _in_mode(function, self._mode)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


def _in_mode(function: F, mode: bool) -> F:
    """`function` with recording on or off; of a generator, every piece between two yields."""
    if inspect.isgeneratorfunction(function):

        @functools.wraps(function)
        def generator_in_mode(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
            return (yield from _steps_in_mode(function(*args, **kwargs), mode))

        return generator_in_mode  # type: ignore[return-value]

    @functools.wraps(function)
    def in_mode(*args: Any, **kwargs: Any) -> Any:
        with recording(mode):
            return function(*args, **kwargs)

    return in_mode  # type: ignore[return-value]


def _steps_in_mode(generator: Generator[Any, Any, Any], mode: bool) -> Generator[Any, Any, Any]:
    """Run `generator` in `mode`, and what consumes it in the consumer's own."""

    def step(resume: Callable[..., Any], *args: Any) -> Any:
        with recording(mode):
            return resume(*args)

    try:
        value = step(next, generator)
        while True:
            try:
                sent = yield value
            except GeneratorExit:
                step(generator.close)
                raise
            except BaseException as error:
                value = step(generator.throw, error)
            else:
                value = step(generator.send, sent)
    except StopIteration as stop:
        return stop.value


class no_grad(_Mode):
    """Record no history: results do not require grad, whatever their inputs.

    Examples
    --------
    >>> weights = ng.tensor([1.0, 2.0], requires_grad=True)
    >>> (weights * weights).sum().backward()
    >>> with ng.no_grad():
    ...     weights -= 0.25 * weights.grad
    >>> weights
    tensor([0.5, 1. ], requires_grad=True)
    >>> @ng.no_grad
    ... def prediction(x):
    ...     return x @ weights
    >>> prediction(ng.tensor([2.0, 3.0])).requires_grad
    False
    """

    __slots__ = ()

    def __new__(cls, function: Callable[..., Any] | None = None) -> Any:
        return object.__new__(cls) if function is None else _in_mode(function, False)

    def __init__(self) -> None:
        super().__init__(False)


class enable_grad(_Mode):
    """Record history, also inside `no_grad`."""

    __slots__ = ()

    def __new__(cls, function: Callable[..., Any] | None = None) -> Any:
        return object.__new__(cls) if function is None else _in_mode(function, True)

    def __init__(self) -> None:
        super().__init__(True)


class set_grad_enabled(_Mode):
    """Record history or not: from the call on, or as a context manager or decorator.

    Parameters
    ----------
    mode : bool
    """

    __slots__ = ("_first",)

    def __init__(self, mode: bool) -> None:
        super().__init__(bool(mode))
        self._first = recording(self._mode)
        self._first.__enter__()

    def __enter__(self) -> Self:
        if not self._blocks:
            self._first.__exit__()  # making this object has set the mode: the exit ends that, too
        return super().__enter__()

    def __call__(self, function: F) -> F:
        self._first.__exit__()
        return _in_mode(function, self._mode)

    def __repr__(self) -> str:
        return f"set_grad_enabled(mode={self._mode})"
