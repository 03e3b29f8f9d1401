"""Exception classes, and the one layout that every message follows.

Each class inherits from the builtin that NumPy or torch would raise, so existing handlers keep
working.
"""

from collections.abc import Callable
from typing import Any

import numpy as np


class ShapeError(ValueError):
    """Shapes that do not fit an operation."""


class DTypeError(TypeError):
    """A dtype that an operation does not take."""


class AxisError(np.exceptions.AxisError):
    """An axis that is out of range or repeated."""


class DeviceError(RuntimeError):
    """A device that does not exist, or tensors on different devices."""


class CudaUnavailableError(DeviceError):
    """A GPU was asked for, and driver, package or version that it takes is missing."""


class OutOfMemoryError(MemoryError, DeviceError):
    """A device has not the memory that was asked for, also with the pool emptied."""


class ForeignArrayError(DeviceError, BufferError):
    """An array of another library whose memory cannot be used as it is."""


class ContextLostError(DeviceError):
    """A kernel failed earlier, and with it everything that this process had on GPUs is gone."""


class GradientError(RuntimeError):
    """A request for gradients that the recorded graph cannot answer (torch's conditions)."""


class TracingError(TypeError):
    """A value was needed while a function is being traced, where values do not exist yet."""


class CommunicationError(RuntimeError):
    """Processes that do not agree about a communication, or what MPI itself reports."""


class KernelError(RuntimeError):
    """A generated kernel could not be built or run."""


class PerformanceWarning(UserWarning):
    """Something that works, and takes far longer than another way of writing it."""


class TracingWarning(UserWarning):
    """What is traced may do something else than without tracing, and raises no error."""


class ArchiveError(ValueError):
    """An archive of kernels that is damaged, or for another kind of machine."""


class InternalError(AssertionError):
    """A broken invariant of this library, never a user's mistake; the message names the pass."""


def explain(
    operation: str,
    problem: str,
    *,
    got: dict[str, object] | None = None,
    expected: str = "",
    fix: str = "",
) -> str:
    """Lay out one message: what failed, on which values, what was expected, what to type instead.

    `got` maps the caller's argument names to what they were.
    """
    lines = [f"{operation}: {problem}"]
    if got:
        width = max(len(name) for name in got)
        lines += [f"  {name:<{width}} : {value}" for name, value in got.items()]
    if expected:
        lines.append(f"  expected: {expected}")
    if fix:
        lines.append(f"  try: {fix}")
    return "\n".join(lines)


def called(by: str, f: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """`f(*args, **kwargs)`, a function of the user's; where it does not take these arguments, the
    error says who has called it."""
    try:
        return f(*args, **kwargs)
    except TypeError as error:
        # Raised by the call itself: nothing of `f` has run.
        if error.__traceback__ is not None and error.__traceback__.tb_next is None:
            count = len(args) + len(kwargs)
            name = getattr(f, "__name__", type(f).__name__)
            error.add_note(f"{by} calls {name} with {count} argument{'s' * (count != 1)}")
        raise
