"""Steps that call a user's kernel, which Numba has compiled (`compiler/user_functions.py`)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from numba_grad.compiler.library_kernels.calls import (
    Errors,
    LibraryCall,
    LibraryStep,
    LibraryWord,
    Memory,
    Shape,
    Symbol,
)
from numba_grad.runtime.plan import SERIAL, ErrorSite


@dataclass(frozen=True, slots=True)
class ArrayOperand:
    """An array as a kernel gets it: C-contiguous."""

    memory: Memory
    shape: Shape
    itemsize: int
    member_stride: int = 0  # bytes from one member of a batch to the next


def custom_kernel_call(
    name: str,
    function: str,
    arrays: Sequence[ArrayOperand],
    numbers: Sequence[tuple[str, int]],
    *,
    members: int | None,
    tasks: int | None,
    grain: int,
    exception: Callable[[int, int], BaseException],
) -> LibraryCall:
    """A call of `function`, a symbol; with `members`, one for each member of a batch.

    Parameters
    ----------
    name : of the operation, for people
    numbers : "float64" or another kind, and bits
    tasks : how many the function can share among calls, as its first two arguments say; None if it
        has no such arguments
    grain : of the members, if there are any, else of the tasks
    exception : of Numba's code and record
    """
    words: list[LibraryWord] = [
        Symbol(function),
        Errors(),
        ErrorSite("kernel", name, exception=exception),
    ]
    call: list[str] = []
    if tasks is not None:
        if members is None:
            call.append("lo, hi")
        else:
            call.append(f"0, integer(args, {len(words)})")
            words.append(tasks)
    for array in arrays:
        call.append(_array(array, len(words), is_batched=members is not None))
        words += _words(array, is_batched=members is not None)
    for kind, bits in numbers:
        value = f"integer(args, {len(words)})"
        call.append(f"bitcast({value}, float64)" if kind == "float64" else value)
        words.append(bits)
    source = _source(call, is_batched=members is not None)
    count = members if members is not None else tasks
    if count is None:
        return LibraryCall((LibraryStep(source, tuple(words), 1, SERIAL),))
    return LibraryCall((LibraryStep(source, tuple(words), count, grain),))


def _words(array: ArrayOperand, *, is_batched: bool) -> list[Any]:
    strides: list[int] = []
    size = 1
    for extent in reversed(array.shape):
        strides.insert(0, size * array.itemsize)
        size *= extent
    member_stride = [array.member_stride] if is_batched else []
    return [array.memory, *member_stride, size, array.itemsize, *array.shape, *strides]


def _array(array: ArrayOperand, first: int, *, is_batched: bool) -> str:
    """An array as Numba passes it: whose memory it is and its Python object, both none, then size,
    size of an element, address, shape, strides."""
    address = f"integer(args, {first})"
    following = first + 1
    if is_batched:
        address += f" + member * integer(args, {following})"
        following += 1
    size, itemsize, *layout = [
        f"integer(args, {k})" for k in range(following, following + 2 + 2 * len(array.shape))
    ]
    return ", ".join(["0", "0", size, itemsize, address, *layout])


# What a function of Numba returns: 0, or -2 where it returns None, or else it has raised.
_SOURCE = """\
def kernel(args, lo, hi):
    result = stack_words(1)
    exception = stack_words(1)
{loop}status = call(
        integer(args, 0), result, exception,
        {arguments},
    ) & 0xFFFFFFFF
    if status != 0 and status != 0xFFFFFFFE:
        errors = integer(args, 1)
        if atomic_compare_exchange(errors, 0, 1) == 0:
            record = pointer(errors, int64)
            record[1] = integer(args, 2)
            record[2] = status
            record[3] = pointer(exception, int64)[0]
"""


def _source(arguments: list[str], *, is_batched: bool) -> str:
    text = _SOURCE.format(loop="    ", arguments=",\n        ".join(arguments))
    if not is_batched:
        return text
    head, marker, body = text.partition("    status = call(")
    lines = (marker + body).splitlines(keepends=True)
    return head + "    for member in range(lo, hi):\n" + "".join(f"    {line}" for line in lines)
