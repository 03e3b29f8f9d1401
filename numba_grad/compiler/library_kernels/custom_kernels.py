"""Steps that call a user's kernel, which Numba has compiled (`user_kernels/functions.py`)."""

from collections.abc import Callable, Sequence
from textwrap import indent

from numba_grad.compiler.library_kernels.calls import (
    Errors,
    LibraryCall,
    LibraryStep,
    LibraryWord,
    Memory,
    Shape,
    Symbol,
)
from numba_grad.immutable import immutable
from numba_grad.runtime.plan import SERIAL, ErrorSite, Tasks

__all__ = ["ArrayOperand", "custom_kernel_call"]


@immutable
class ArrayOperand:
    """An array as a kernel gets it: C-contiguous."""

    memory: Memory
    shape: Shape
    itemsize: int
    member_stride: int = 0  # bytes from one member of a batch to the next

    def of_member(self, member: int) -> "ArrayOperand":
        """The array of one member of the batch."""
        start = self.memory.offset + member * self.member_stride
        memory = Memory(self.memory.role, self.memory.number, start)
        return ArrayOperand(memory, self.shape, self.itemsize)


# What Numba passes for an array: whose memory it is and its Python object, both none here; its
# size, the size of an element, the address; then shape and strides.
ADDRESS = 4


def words_of_array(array: ArrayOperand) -> list[LibraryWord]:
    """An array as arguments of a function that Numba compiled, on the CPU and on CUDA alike."""
    strides: list[int] = []
    size = 1
    for extent in reversed(array.shape):
        strides.insert(0, size * array.itemsize)
        size *= extent
    return [0, 0, size, array.itemsize, array.memory, *array.shape, *strides]


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

    def appended(*more: LibraryWord) -> list[str]:
        words.extend(more)
        return [f"integer(args, {k})" for k in range(len(words) - len(more), len(words))]

    arguments: list[str] = []
    if tasks is not None:
        arguments.append("lo, hi" if members is None else f"0, {appended(tasks)[0]}")
    for array in arrays:
        texts = appended(*words_of_array(array))
        texts[:2] = ["0", "0"]
        if members is not None:
            texts[ADDRESS] += f" + member * {appended(array.member_stride)[0]}"
        arguments.append(", ".join(texts))
    for kind, bits in numbers:
        (text,) = appended(bits)
        arguments.append(f"bitcast({text}, float64)" if kind == "float64" else text)
    source = _source(arguments, is_batched=members is not None)
    count = members if members is not None else tasks
    if count is None:
        count, grain = 1, SERIAL
    return LibraryCall((LibraryStep(source, tuple(words), Tasks(count, grain)),))


# What a function of Numba returns: 0, or -2 where it returns None, or else it has raised.
_HEAD = """\
def kernel(args, lo, hi):
    result = stack_words(1)
    exception = stack_words(1)
"""
_CALL = """\
    status = call(
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


def _source(arguments: Sequence[str], *, is_batched: bool) -> str:
    text = _CALL.format(arguments=",\n        ".join(arguments))
    if is_batched:
        text = "    for member in range(lo, hi):\n" + indent(text, "    ")
    return _HEAD + text
