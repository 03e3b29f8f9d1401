"""What the kernels around LAPACK share: named words, memory of their own, how failure is reported.

LAPACK takes everything by reference, and reads numbers straight from the words of the step: of a
word `n`, the text of a kernel has the value, `n`, and the address, `n_at`.
"""

from collections.abc import Mapping, Sequence
from textwrap import indent
from types import MappingProxyType

import numpy as np

from numba_grad.compiler.library_kernels.calls import (
    BLAS_LETTERS,
    Errors,
    LibraryCall,
    LibraryStep,
    LibraryWord,
    Memory,
    Shape,
    Symbol,
)
from numba_grad.compiler.library_kernels.matrix_stacks import steps_of_stack, words_of_stack
from numba_grad.compiler.loop_nests.iteration_spaces import sizes_count
from numba_grad.runtime.plan import SERIAL, ErrorSite, Tasks

# A stack is cut into at most so many tasks, of which each has memory of its own, of that together.
_TASKS = 64
_BYTES_OF_TASKS = 1 << 30
# Up to so many matrices, and products for one, a kernel is compiled without LLVM's passes, which
# took 10 to 100 ms of a first run for vectors over matrices and rows. Inverses of 12 x 12 by loops
# need them.
_FEW_MATRICES = 4
_FEW_PRODUCTS = 1 << 10
# Where LAPACK takes most of the time, the rest copies rows and columns.
_FEW_PRODUCTS_OF_LAPACK = 1 << 13
# Products that are worth a task.
_PRODUCTS_OF_TASK = 1 << 15
# LAPACK works in blocks of at most so many columns, if it is given room for them.
BLOCK = 64

# What LAPACK says in `info`, of 4 or 8 bytes.
FAILED = "info[0] & 0xFFFFFFFF != 0"


def letter(character: str) -> int:
    """A character argument as a word: LAPACK reads its first byte."""
    return ord(character)


def lapack(dtype: np.dtype, name: str, *, real_name: str = "") -> Symbol:
    """The routine for a dtype: "getrf", or for real matrices `real_name`, where they differ."""
    stem = real_name if real_name and dtype.kind != "c" else name
    return Symbol(f"lapack.{BLAS_LETTERS[dtype.name]}{stem}")


def blas(dtype: np.dtype, name: str) -> Symbol:
    return Symbol(f"blas.{BLAS_LETTERS[dtype.name]}{name}")


def real_name(dtype: np.dtype) -> str:
    """The dtype of real parts, as kernels write it."""
    return "float32" if dtype.name in ("float32", "complex64") else "float64"


def wide_name(dtype: np.dtype) -> str:
    """The dtype of two words that products are taken in."""
    return "complex128" if dtype.kind == "c" else "float64"


def conjugate(dtype: np.dtype, text: str) -> str:
    return f"conjugate({text})" if dtype.kind == "c" else text


def less_itself(dtype: np.dtype) -> str:
    """x - x: 0, but nan where x is not finite. Sums of it say whether a matrix is."""
    return "(x.real - x.real) + (x.imag - x.imag)" if dtype.kind == "c" else "x - x"


def copied_by_columns(
    dtype: np.dtype, source: str, target: str, n: str = "n", element: str = "x"
) -> str:
    """The copy of a square matrix of `source` as LAPACK reads it, which may write over its
    argument; `poison` becomes nan where an element is not finite."""
    return f"""\
for i in range({n}):
    for j in range({n}):
        x = {source}[matrix * {n} * {n} + i * {n} + j]
        {target}[j * {n} + i] = {element}
        poison += {less_itself(dtype)}"""


def product(
    target: str, dtype: str, terms: str, *, rows: str = "n", columns: str = "n", inner: str = "n"
) -> str:
    """Loops over i and j that give `target`, an assignment, the `total` of terms with a k."""
    return f"""\
for i in range({rows}):
    for j in range({columns}):
        total = {dtype}(0)
        for k in range({inner}):
            total += {terms}
        {target}"""


def stack_call(
    *,
    count: int,
    products: int,
    operands: Mapping[str, tuple[Memory, str]],
    body: str,
    words: Mapping[str, LibraryWord] = MappingProxyType({}),
    rooms: Mapping[str, tuple[int, str]] = MappingProxyType({}),
    sites: Mapping[str, ErrorSite] = MappingProxyType({}),
    tail: Sequence[int] = (),
) -> LibraryCall:
    """A step that runs `body` for each `matrix` of a stack of `count`.

    Parameters
    ----------
    products : roughly, the multiplications for one matrix
    operands : name -> memory and dtype; in `body` a pointer of that name
    words : name -> number or symbol; numbers have an address too, `<name>_at`
    rooms : name -> elements and dtype of memory that one matrix needs for itself; a pointer
    sites : name -> what to say of a failure; `fail(<name>)` on a line of its own reports it, and
        goes on with the next matrix; `fails(<name>, <condition>)` goes on with this one, so that
        what has no other branches is vector code
    tail : further numbers, as many as there are; the pointer `tail`
    """
    values: dict[str, LibraryWord] = {name: memory for name, (memory, _) in operands.items()}
    values.update(words)
    room = 0
    for name, (elements, dtype) in rooms.items():
        values[f"{name}_offset"] = room
        room += -(-max(1, elements) * np.dtype(dtype).itemsize // 64) * 64
    tasks = max(1, min(_TASKS, _BYTES_OF_TASKS // max(1, room)))
    block = max(-(-count // tasks), -(-_PRODUCTS_OF_TASK // max(1, products)))
    tasks = -(-count // block)
    values.update({"scratch": Memory("scratch"), "room": room, "block": block, "count": count})
    values.update({"errors": Errors(), **sites})
    calls_lapack = any(isinstance(value, Symbol) for value in words.values())
    most = _FEW_PRODUCTS_OF_LAPACK if calls_lapack else _FEW_PRODUCTS
    is_little = sizes_count() and count <= _FEW_MATRICES and products <= most
    source = _source(values, operands, rooms, body, tuple(sites), is_little=is_little)
    step = LibraryStep(source, (*values.values(), *tail), Tasks(tasks, 1 if tasks > 1 else SERIAL))
    return LibraryCall((step,), max(1, tasks) * room)


def _source(
    values: Mapping[str, LibraryWord],
    operands: Mapping[str, tuple[Memory, str]],
    rooms: Mapping[str, tuple[int, str]],
    body: str,
    sites: tuple[str, ...],
    *,
    is_little: bool,
) -> str:
    lines = ["def kernel(args, lo, hi):", "    words = pointer(args, int64)"]
    lines += ["    few_points()"] if is_little else []
    for position, (name, value) in enumerate(values.items()):
        if name in operands:
            lines.append(f"    {name}_at = words[{position}]")
            lines.append(f"    {name} = pointer({name}_at, {operands[name][1]})")
            continue
        lines.append(f"    {name} = words[{position}]")
        if isinstance(value, int):
            lines.append(f"    {name}_at = args + {8 * position}")
    lines += [
        f"    tail = pointer(args + {8 * len(values)}, int64)",
        "    info_at = stack_words(1)",
        "    info = pointer(info_at, int64)",
        "    for task in range(lo, hi):",
    ]
    for name, (_, dtype) in rooms.items():
        lines.append(f"        {name}_at = scratch + task * room + {name}_offset")
        lines.append(f"        {name} = pointer({name}_at, {dtype})")
    notes = [site for site in sites if f"fails({site}, " in body]
    lines += [f"        last_{site} = -1" for site in notes]
    lines.append("        for matrix in range(task * block, min((task + 1) * block, count)):")
    lines.append("            info[0] = 0")
    for line in body.splitlines():
        lines.append(indent(_with_failures(line, sites), "            "))
    for site in notes:
        lines.append(f"        if last_{site} >= 0:")
        lines.append(indent(_failure(site, f"last_{site}"), "            "))
    return "\n".join(lines) + "\n"


def _with_failures(line: str, sites: tuple[str, ...]) -> str:
    """A line of a body, with what it says of failures in the kernel language."""
    place = line[: len(line) - len(line.lstrip())]
    for site in sites:
        if line.strip() == f"fail({site})":
            return indent(f"{_failure(site, 'matrix')}\ncontinue", place)
        if line.startswith(f"fails({site}, "):
            condition = line.removeprefix(f"fails({site}, ").removesuffix(")")
            return f"last_{site} = max(last_{site}, select({condition}, matrix, -1))"
    return line


def _failure(site: str, matrix: str) -> str:
    """Of several threads that fail, one tells."""
    return f"""\
if atomic_compare_exchange(errors, 0, 1) == 0:
    record = pointer(errors, int64)
    record[1] = {site}
    record[2] = {matrix}
    record[3] = count"""


def stack_starts(
    stack: Shape,
    x_stack: Shape,
    y_stack: Shape,
    x_size: int,
    y_size: int,
    *,
    shows_sizes: bool = False,
) -> tuple[str, Sequence[int]]:
    """Where the matrices of two operands start whose stacks broadcast: the text, and `tail`.

    Where the text `shows sizes`, what follows is vector code: but of a matrix for all of a stack,
    LLVM would compile a loop for each order of its pivots.
    """
    if shows_sizes and stack == x_stack == y_stack:
        return f"x_start = matrix * {x_size}\ny_start = matrix * {y_size}", ()
    steps = steps_of_stack(stack, x_stack, y_stack, x_size, y_size)
    if steps is not None:
        return "x_start = matrix * tail[0]\ny_start = matrix * tail[1]", steps
    return STACK_STARTS, words_of_stack(stack, x_stack, y_stack, x_size, y_size)


# By `words_of_stack` in `tail`.
STACK_STARTS = """\
x_start = 0
y_start = 0
rest = matrix
for axis in range(tail[0] - 1, -1, -1):
    extent = tail[1 + 3 * axis]
    along = rest % extent
    rest = rest // extent
    x_start += along * tail[2 + 3 * axis]
    y_start += along * tail[3 + 3 * axis]"""

# How the pivots of `getrf` are read: in 4 or in 8 bytes, whichever the library has. They are at
# least 1, so in 8 bytes the upper half of the first is 0; memory must have been cleared before.
CLEAR_PIVOTS = """\
for i in range(pivot_count):
    pivots[i] = 0"""
FIND_PIVOTS = """\
small_pivots = pointer(pivots_at, int32)
pivot_step = 2
if pivot_count > 1 and small_pivots[1] != 0:
    pivot_step = 1"""
