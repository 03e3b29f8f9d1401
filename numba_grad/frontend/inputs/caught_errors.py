"""Errors that are found when values are computed, and a `try` of the user's that waits for them.

NumPy's functions fail where they are called; what is recorded fails where a value is asked for,
and by then the `try` is left. So who may fail (a factorization of a singular matrix) is computed at
once where an `except` around it catches that; a traced function is run by Python if it fails.
"""

import builtins
import functools
import sys
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Any, ParamSpec, TypeVar

import numpy as np

from numba_grad.frontend.inputs.arrays import computed_value
from numba_grad.frontend.inputs.tracing import current, note_may_fail
from numba_grad.graph.node import Node
from numba_grad.graph.walk import is_traced

P = ParamSpec("P")
T = TypeVar("T")

_NOT_THE_USERS = ("numba_grad", "numpy")
_TRACING = "numba_grad.frontend.compiled_functions.function_traces"  # which calls what is jitted
# Names as in `np.linalg.LinAlgError`, of each class that a handler catches. None: `except:`.
_Caught = tuple[tuple[str, ...] | None, ...]


# What is caught at an instruction of a code, by the identity of that, with the code, which must not
# go: its own hash is that of all that it contains.
_known: dict[tuple[int, int], tuple[CodeType, _Caught]] = {}
_MOST_KNOWN = 1 << 14
_FARTHEST = 32  # calls up from the function that may fail: 0.1 us each


def may_be_singular(function: Callable[P, T]) -> Callable[P, T]:
    """Of a function that raises LinAlgError when its result is computed."""

    @functools.wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> T:
        result = function(*args, **kwargs)
        if _is_caught(np.linalg.LinAlgError):
            parts: tuple[Any, ...] = result if isinstance(result, tuple) else (result,)
            _find_errors([x._node for x in parts if hasattr(x, "_node")])
        return result

    return wrapped


def _find_errors(nodes: list[Node]) -> None:
    for node in nodes:
        if is_traced(node):
            note_may_fail()
        else:
            computed_value(node, "try")


def _is_caught(error: type[Exception]) -> bool:
    """Whether a `try` is waiting for this. One that waits for any Exception, as those of shells and
    of frameworks do, counts in the package only whose line is calling."""
    innermost: FrameType = sys._getframe(2)
    frame: FrameType | None = innermost
    for _ in range(_FARTHEST):
        if frame is None:
            break
        if frame.f_code.co_exceptiontable and (package := _package(frame)) not in _NOT_THE_USERS:
            if current.trace is not None and not _is_in_jitted(frame):
                break  # what is around a jitted function sees its errors when it is called
            for kind in _classes_caught(frame):
                is_specific = kind not in (Exception, BaseException)
                if issubclass(error, kind) and (is_specific or package == _users(innermost)):
                    return True
        frame = frame.f_back
    return False


def _is_in_jitted(frame: FrameType | None) -> bool:
    while frame is not None and frame.f_globals.get("__name__") != _TRACING:
        frame = frame.f_back
    return frame is not None


def _package(frame: FrameType) -> str:
    return frame.f_globals.get("__name__", "").partition(".")[0]


def _users(frame: FrameType | None) -> str:
    """The package of the line that calls."""
    while frame is not None and _package(frame) in _NOT_THE_USERS:
        frame = frame.f_back
    return "" if frame is None else _package(frame)


def _classes_caught(frame: FrameType) -> Iterator[type]:
    """What handlers around the instruction that the frame is at catch."""
    known = _known.get((id(frame.f_code), frame.f_lasti))
    for names in _caught(frame.f_code, frame.f_lasti) if known is None else known[1]:
        kind: Any = BaseException if names is None else _value(frame, names)
        if isinstance(kind, type):
            yield kind
        elif isinstance(kind, tuple):
            yield from [x for x in kind if isinstance(x, type)]


def _value(frame: FrameType, names: tuple[str, ...]) -> object:
    first, *attributes = names
    for scope in (frame.f_globals, vars(builtins), frame.f_locals):
        if first in scope:
            return functools.reduce(
                lambda x, name: getattr(x, name, None), attributes, scope[first]
            )
    return None


def _caught(code: CodeType, position: int) -> _Caught:
    """What is in `_known` from now on."""
    if len(_known) >= _MOST_KNOWN:
        _known.clear()
    found = tuple(_found_handlers(code, position))
    _known[id(code), position] = code, found
    return found


def _found_handlers(code: CodeType, position: int) -> Iterator[tuple[str, ...] | None]:
    """Of all handlers around an instruction, the inner ones first. What is within none, as most of
    a function is, is not disassembled, which takes 3 us an instruction."""
    import dis

    entries = dis.Bytecode(code).exception_entries  # pyright: ignore[reportAttributeAccessIssue]
    targets: list[int] = []
    while around := [x for x in entries if x.start <= position < x.end]:
        position = around[0].target  # a handler is in what is around it
        if position in targets:
            break
        targets.append(position)
    if targets:
        instructions = list(dis.get_instructions(code))
        first = {x.offset: k for k, x in enumerate(instructions)}
        for target in targets:
            yield from _caught_at(instructions[first[target] :])


def _caught_at(instructions: "list[Any]") -> _Caught:
    """What the handler that begins with these instructions catches: nothing, if it is one of a
    `with` or a `finally`."""
    found: list[tuple[str, ...] | None] = []
    names: list[tuple[str, ...]] = []
    is_match, clauses = False, {instructions[0].offset + 2}  # where the next `except` begins
    for instruction in instructions:
        name = instruction.opname
        if name == "LOAD_ATTR" and names:
            names[-1] = (*names[-1], instruction.argval)
        elif name in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_FAST"):
            names.append((instruction.argval,))
        elif name == "CHECK_EXC_MATCH":
            found += names
            is_match = True
        elif name.startswith("POP_JUMP") and is_match:
            clauses.add(instruction.argval)
            is_match = False
        elif name == "POP_TOP" and instruction.offset in clauses:
            found.append(None)
        elif name in ("RERAISE", "WITH_EXCEPT_START"):
            break
        elif name not in ("BUILD_TUPLE", "CACHE", "EXTENDED_ARG", "NOP"):
            names = []
    return tuple(found)
