"""Ctrl-C at a chosen place of the package.

CPython raises what a signal handler raises between two instructions, but not between any two: at
the entry of a function, after a call, and where a loop goes back. These are the places.
"""

import dis
import functools
import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

from tests.interleaving import PACKAGE, traced_by

Place = tuple[CodeType, int]  # the code, and the offset of the instruction that is not done

_LOOKS_FOR_SIGNALS = {"RESUME", "CALL", "CALL_FUNCTION_EX", "CALL_KW", "JUMP_BACKWARD"}
INTERRUPTED = "interrupted"


@functools.cache
def _names(code: CodeType) -> dict[int, str]:
    return {step.offset: step.opname for step in dis.get_instructions(code)}


def _trace_instructions(frame: FrameType, trace: Callable[..., Any]) -> None:
    frame.f_trace = trace  # or Python 3.12 and later begin with the next frame of this code only
    frame.f_trace_opcodes = True


def places_in(work: Callable[[], Any]) -> list[Place]:
    """Where an interrupt may come while `work` runs, in the order of the first time."""
    # Python 3.12 traces instructions if a frame had asked for it before tracing begins.
    sys._getframe().f_trace_opcodes = True
    seen: dict[Place, None] = {}
    before: dict[FrameType, str] = {}  # what each frame did last

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        if not code.co_filename.startswith(PACKAGE):
            return None
        if event == "call":
            _trace_instructions(frame, trace)
            before[frame] = "RESUME"
        elif event == "opcode":
            if before[frame] in _LOOKS_FOR_SIGNALS:
                seen[code, frame.f_lasti] = None
            before[frame] = _names(code)[frame.f_lasti]
        elif event == "return":
            del before[frame]
        return trace

    with traced_by(trace):
        work()
    return list(seen)


def interrupted_at(place: Place, work: Callable[[], Any]) -> Any:
    """INTERRUPTED, or the result of `work` if it did not come there, or it was in a finalizer."""
    wanted, offset = place
    is_done = False

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal is_done
        if frame.f_code is not wanted or is_done:
            return None
        if event == "call":
            _trace_instructions(frame, trace)
        if event == "opcode" and frame.f_lasti == offset:
            is_done = True
            raise KeyboardInterrupt
        return trace

    try:
        with traced_by(trace):
            return work()
    except KeyboardInterrupt:
        return INTERRUPTED
