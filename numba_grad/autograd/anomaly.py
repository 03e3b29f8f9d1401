"""Anomaly detection: which forward operation made the NaN that turned up in a backward pass.

While it is on, each operation remembers where in the user's code it was recorded, and each backward
pass looks at what every single derivative gave. Both are slow, for debugging only.
"""

import contextlib
import threading
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from numba_grad.autograd.state import state_of
from numba_grad.compiler.backends import on_host
from numba_grad.errors import GradientError
from numba_grad.fresh_thread import carried
from numba_grad.graph import observers
from numba_grad.graph.node import Node
from numba_grad.immutable import NamedTuple
from numba_grad.transforms.vjp import Cotangent

_PACKAGE = str(Path(__file__).parent.parent)


class _Setting:
    """As in torch, for the whole process."""

    enabled: bool = False
    check_nan: bool = True


class _OfThread(threading.local):
    current: "RecordedAt | None" = None  # of the operation whose derivative is being recorded


_of_thread = carried(_OfThread())


class RecordedAt(NamedTuple):
    """Where an operation was recorded."""

    frames: traceback.StackSummary
    derivative_of: (
        "RecordedAt | None"  # if that was in a backward pass: the operation differentiated there
    )

    def __str__(self) -> str:
        text = "".join(self.frames.format())
        trace = self.derivative_of
        while trace is not None:
            text += "as the derivative of an operation that was recorded here:\n"
            text += "".join(trace.frames.format())
            trace = trace.derivative_of
        return text


def is_enabled() -> bool:
    """Whether anomaly detection is on."""
    return _Setting.enabled


class set_detect_anomaly:
    """Switch anomaly detection on or off: from the call on, or as a context manager.

    Parameters
    ----------
    mode : bool
    check_nan : whether a backward pass raises on NaN; without, only tracebacks are remembered, for
        errors

    Notes
    -----
    With it on, a derivative that is NaN raises a RuntimeError with the traceback of the forward
    operation, and an error raised in a derivative carries that traceback as a note. Infinities do
    not raise.
    """

    __slots__ = ("_previous",)

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self._previous = (_Setting.enabled, _Setting.check_nan)
        _set(bool(mode), check_nan)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        _set(*self._previous)


class detect_anomaly(set_detect_anomaly):
    """A context manager with anomaly detection on, as `set_detect_anomaly(True)`, until its end.

    Examples
    --------
    >>> x = ng.tensor([-1.0, 1.0], requires_grad=True)
    >>> with ng.autograd.detect_anomaly():
    ...     np.sqrt(x).sum().backward()
    Traceback (most recent call last):
        ...
    numba_grad.errors.GradientError: backward: the derivative of sqrt returned nan values ...
    """

    __slots__ = ("_check_nan",)

    def __init__(self, check_nan: bool = True) -> None:
        self._check_nan = check_nan

    def __enter__(self) -> Self:
        super().__init__(True, self._check_nan)
        return self


def _set(enabled: bool, check_nan: bool) -> None:
    _Setting.enabled = enabled
    _Setting.check_nan = check_nan
    observers.set_anomaly_observer(_remember if enabled else None)


def _remember(node: Node) -> None:
    """Note where `node` is being recorded, down to the user's own line."""
    if not node.requires_grad:
        return
    frames = traceback.extract_stack()
    while frames and frames[-1].filename.startswith(_PACKAGE):
        frames.pop()
    state_of(node).trace = RecordedAt(frames, _of_thread.current)


@contextlib.contextmanager
def differentiating(node: Node) -> Iterator[None]:
    """While the derivative of `node` is recorded. Errors get the traceback of `node` as a note."""
    previous = _of_thread.current
    trace = _of_thread.current = node.autograd.trace
    try:
        yield
    except Exception as error:
        if trace is not None:
            error.add_note(_recorded_at(node))
        raise
    finally:
        _of_thread.current = previous


# Operations, and what each contributed to its inputs, in the order of the pass.
Checks = list[tuple[Node, Sequence[Cotangent]]]


def follow(order: Sequence[Node]) -> None:
    """Let a pass see each operation of `order`, if anomaly detection is on: those with a state."""
    if _Setting.enabled:
        for node in order:
            state_of(node)


def values_to_check(checks: Checks) -> list[Node]:
    """What `check` needs computed."""
    if not _Setting.check_nan:
        return []
    return [g for _, pulled in checks for g in _arrays(pulled)]


def check(checks: Checks) -> None:
    """Raise if a derivative gave a NaN, for the first that did."""
    if not _Setting.check_nan:
        return
    for node, pulled in checks:
        for k, g in enumerate(pulled):
            if any(np.isnan(on_host(part.value)).any() for part in _arrays([g])):
                raise GradientError(
                    f"backward: the derivative of {node.op.name} returned nan values in its {k}th "
                    f"output, the gradient of its input number {k}\n"
                    f"{_recorded_at(node)}"
                )


def _arrays(pulled: Sequence[Cotangent]) -> list[Node]:
    """The nodes in a list of cotangents, of which some may be lists or None."""
    result: list[Any] = []
    for g in pulled:
        result += g if g.__class__ is list else [g]
    return [g for g in result if g is not None]


def _recorded_at(node: Node) -> str:
    state = node.autograd
    if state is None or state.trace is None:
        return (
            f"where {node.op.name} was recorded is not known: switch anomaly detection on for the "
            "forward computation, too"
        )
    return f"{node.op.name} was recorded here (most recent call last):\n{state.trace}"
