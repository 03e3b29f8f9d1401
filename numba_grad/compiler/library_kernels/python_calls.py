"""Steps that call a Python function (`runtime/python_calls.py`)."""

from collections.abc import Sequence

from numba_grad.compiler.library_kernels.calls import (
    Errors,
    LibraryCall,
    LibraryStep,
    LibraryWord,
    Symbol,
)
from numba_grad.compiler.library_kernels.custom_kernels import ArrayOperand
from numba_grad.runtime.plan import SERIAL, ErrorSite, Tasks
from numba_grad.runtime.python_calls import PythonCall

# The words: these functions of CPython, the error record and site, the callable; then for each
# array its address, and bytes from one member of a batch to the next.
_FUNCTIONS = (
    "PyGILState_Ensure",
    "PyGILState_Release",
    "PyLong_FromLongLong",
    "PyObject_CallOneArg",
    "Py_DecRef",
    "PyErr_Fetch",
    "PyErr_NormalizeException",
    "PyException_SetTraceback",
)
_ERRORS = len(_FUNCTIONS)
_SITE, _CALLABLE, _ARRAYS = _ERRORS + 1, _ERRORS + 2, _ERRORS + 3


def python_call(
    name: str, function: PythonCall, arrays: Sequence[ArrayOperand], members: int | None
) -> LibraryCall:
    """A call of `function`; with `members`, one for each member of a batch, one after the other.

    The step keeps `function` alive by its error site.
    """
    words: list[LibraryWord] = [
        *[Symbol(f"python.{name}") for name in _FUNCTIONS],
        Errors(),
        ErrorSite("callback", name, exception=function.exception),
        id(function),
    ]
    for array in arrays:
        words += [array.memory, array.member_stride]
    count = 1 if members is None else members
    return LibraryCall((LibraryStep(_source(len(arrays)), tuple(words), Tasks(count, SERIAL)),))


def _source(arrays: int) -> str:
    """After an exception nothing is called any more: it is raised when the run is over."""
    pointers = "".join(
        f"        pointers[{k}] = integer(args, {_ARRAYS + 2 * k})"
        f" + member * integer(args, {_ARRAYS + 2 * k + 1})\n"
        for k in range(arrays)
    )
    return f"""\
def kernel(args, lo, hi):
    block = stack_words({arrays})
    pointers = pointer(block, int64)
    raised = stack_words(3)
    errors = pointer(integer(args, {_ERRORS}), int64)
    for member in range(lo, hi):
        if errors[0] != 0:
            break
{pointers}\
        lock = call(integer(args, 0))
        address = call(integer(args, 2), block)
        result = call(integer(args, 3), integer(args, {_CALLABLE}), address)
        call(integer(args, 4), address)
        if result != 0:
            call(integer(args, 4), result)
        else:
            call(integer(args, 5), raised, raised + 8, raised + 16)
            call(integer(args, 6), raised, raised + 8, raised + 16)
            parts = pointer(raised, int64)
            if parts[2] != 0:
                call(integer(args, 7), parts[1], parts[2])
                call(integer(args, 4), parts[2])
            call(integer(args, 4), parts[0])
            errors[0] = 1
            errors[1] = integer(args, {_SITE})
            errors[2] = parts[1]
            errors[3] = 0
        call(integer(args, 1), lock)
"""
