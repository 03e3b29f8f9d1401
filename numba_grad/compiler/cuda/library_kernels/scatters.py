"""Scattering: x with values put at, or added to, places that index arrays name.

Places are sorted, so that what goes to one place is a run, in the order of the positions. Of a run
that is put, the last value is taken. One that is added is summed in pieces of 32 elements that end
at multiples of 32, of 32 such pieces, and so on: in the same order in each run of the program.
"""

import math
from collections.abc import Sequence

import numpy as np

from numba_grad.compiler import library_kernels as of_cpu
from numba_grad.compiler.cuda import device_functions
from numba_grad.compiler.cuda.library_kernels.kernel_source import (
    THREADS,
    blocks_for,
    computed_name,
    copy_source,
    each_task,
    kernel_source,
    pointer_to,
    stored_name,
)
from numba_grad.compiler.cuda.library_kernels.registry import stands_for
from numba_grad.compiler.cuda.library_kernels.sorts import Sort
from numba_grad.compiler.library_kernels import Errors, LibraryCall, Memory
from numba_grad.compiler.library_kernels.calls import LibraryStep, LibraryWord
from numba_grad.runtime.plan import ErrorSite, Grid

# What `atomic_add` is for.
_ATOMIC = ("float32", "float64", "int32", "int64")
_PIECE = 32
# Pieces of a run that one thread may have to add up in the end.
_MOST_PIECES = 64


@stands_for(of_cpu.scatter_call, given=lambda options: {"deterministic": options.deterministic})
def scatter_call(
    dtype: np.dtype,
    index_dtypes: Sequence[np.dtype],
    sizes: Sequence[int],
    positions: int,
    rest: int,
    *,
    adds: bool,
    sites: Sequence[ErrorSite],
    checked: bool = True,
    in_place: bool = False,
    deterministic: bool = True,
) -> LibraryCall:
    """x with v put at, or added to, the places that index arrays name on its first axes.

    Parameters, inputs and output are those of the CPU's `scatter_call`. Unless `deterministic`,
    what hardware can add by itself is added in any order, without sorting. All indices are checked:
    that is little of what sorting takes.
    """
    steps: list[LibraryStep] = []
    size = math.prod(sizes) * rest
    if not in_place and size:
        words = (Memory("input"), Memory("output"), size)
        steps.append(
            LibraryStep(copy_source(dtype.itemsize), words, Grid(blocks_for(size), THREADS))
        )
    if positions * rest == 0:
        return LibraryCall(tuple(steps))
    if adds and not deterministic and dtype.name in _ATOMIC:
        tasks = positions * rest
        words = [Memory("output"), Memory("input", 1), Errors(), rest, tasks]
        words += _words_of_indices(sizes, sites)
        source = _atomic_source(dtype, index_dtypes)
        steps.append(LibraryStep(source, tuple(words), Grid(blocks_for(tasks), THREADS)))
        return LibraryCall(tuple(steps))
    place_dtype = np.dtype(np.uint32 if math.prod(sizes) < 1 << 32 else np.uint64)
    place_bytes = -(-positions * place_dtype.itemsize // 64) * 64
    words = [Memory("scratch"), Errors(), positions, *_words_of_indices(sizes, sites)]
    steps.append(
        LibraryStep(
            _places_source(place_dtype, index_dtypes),
            tuple(words),
            Grid(blocks_for(positions), THREADS),
        )
    )
    sort = Sort(place_dtype, 1, positions, 1, Memory("scratch"), start=place_bytes)
    sort.append(0, None)
    steps += sort.steps
    if not adds:
        tasks = positions * rest
        operands = (Memory("output"), Memory("input", 1), sort.keys, sort.order)
        grid = Grid(blocks_for(tasks), THREADS)
        words = (*operands, positions, rest, tasks)
        steps.append(LibraryStep(_put_source(dtype, place_dtype), words, grid))
        return LibraryCall(tuple(steps), sort.scratch_bytes)
    adding, scratch_bytes = _adding(dtype, place_dtype, sort, positions, rest)
    return LibraryCall((*steps, *adding), scratch_bytes)


def _adding(
    dtype: np.dtype, place_dtype: np.dtype, sort: Sort, positions: int, rest: int
) -> tuple[list[LibraryStep], int]:
    """The steps that add what belongs to one place, in order; the scratch memory of all steps."""
    steps: list[LibraryStep] = []
    tasks = positions * rest
    grid = Grid(blocks_for(tasks), THREADS)
    value = Memory("input", 1)
    piece, scratch_bytes = 1, sort.scratch_bytes
    sums = Memory("scratch", 0, scratch_bytes)
    while positions > _MOST_PIECES * piece:
        terms = value if piece == 1 else sums
        words = (sums, terms, sort.keys, sort.order, positions, rest, tasks, piece)
        source = _pieces_source(dtype, place_dtype, is_first=piece == 1)
        steps.append(LibraryStep(source, words, grid))
        scratch_bytes = sort.scratch_bytes + tasks * np.dtype(computed_name(dtype)).itemsize
        piece *= _PIECE
    terms = value if piece == 1 else sums
    words = (Memory("output"), terms, sort.keys, sort.order, positions, rest, tasks, piece)
    source = _add_source(dtype, place_dtype, is_first=piece == 1)
    return [*steps, LibraryStep(source, words, grid)], scratch_bytes


def _words_of_indices(sizes: Sequence[int], sites: Sequence[ErrorSite]) -> list[LibraryWord]:
    """For each index array: the array, the size of its axis, its site."""
    words: list[LibraryWord] = []
    for number, (extent, site) in enumerate(zip(sizes, sites, strict=True)):
        words += [Memory("input", 2 + number), extent, site]
    return words


def _places_source(place_dtype: np.dtype, index_dtypes: Sequence[np.dtype]) -> str:
    """Words: places, the error record, positions, then the index arrays. Task: position."""
    parameters = [("places", pointer_to(place_dtype.name)), ("errors", pointer_to("int64"))]
    parameters += [("tasks", "int64"), *_index_parameters(index_dtypes)]
    text = _place_of(index_dtypes, "task") + f"places[task] = {place_dtype.name}(place)\n"
    return kernel_source(parameters, each_task(text), [_CHECK_INDEX])


_CHECK_INDEX = device_functions.known("check_index").text


def _index_parameters(index_dtypes: Sequence[np.dtype]) -> list[tuple[str, str]]:
    parameters = []
    for k, dtype in enumerate(index_dtypes):
        parameters += [(f"index{k}", pointer_to(dtype.name)), (f"size{k}", "int64")]
        parameters.append((f"site{k}", "int64"))
    return parameters


def _place_of(index_dtypes: Sequence[np.dtype], position: str) -> str:
    lines = ["place = int64(0)\n"]
    for k in range(len(index_dtypes)):
        checked = f"check_index(int64(index{k}[{position}]), size{k}, errors, site{k})"
        lines.append(f"place = place * size{k} + {checked}\n")
    return "".join(lines)


def _atomic_source(dtype: np.dtype, index_dtypes: Sequence[np.dtype]) -> str:
    """Words: out, v, the error record, elements of a place, then the index arrays.
    Task: element of v."""
    pointer = pointer_to(dtype.name)
    parameters = [("out", pointer), ("v", pointer), ("errors", pointer_to("int64"))]
    parameters += [("rest", "int64"), ("tasks", "int64"), *_index_parameters(index_dtypes)]
    text = _place_of(index_dtypes, "task // rest")
    text += "atomic_add(out, place * rest + task % rest, v[task])\n"
    return kernel_source(parameters, each_task(text), [_CHECK_INDEX])


def _parameters(dtype: np.dtype, place_dtype: np.dtype, terms: str) -> list[tuple[str, str]]:
    return [
        ("out", pointer_to(stored_name(dtype))),
        ("v", pointer_to(terms)),
        ("places", pointer_to(place_dtype.name)),
        ("order", pointer_to("int32")),
        *((name, "int64") for name in ("positions", "rest", "tasks")),
    ]


def _put_source(dtype: np.dtype, place_dtype: np.dtype) -> str:
    """Task: (place in the sorted order, element of it). The last of a run writes."""
    return kernel_source(
        _parameters(dtype, place_dtype, stored_name(dtype)),
        each_task("""\
number = task // rest
column = task % rest
is_last = number + 1 == positions
if not is_last:
    is_last = places[number] != places[number + 1]
if is_last:
    out[int64(places[number]) * rest + column] = v[int64(order[number]) * rest + column]
"""),
    )


_IS_START = """\
number = task // rest
column = task % rest
is_start = number == 0
if not is_start:
    is_start = places[number] != places[number - 1]
"""


def _sum_of_run(dtype: np.dtype, *, is_first: bool, condition: str = "") -> str:
    """From the element, or the sum of a piece, at `number` on."""
    name = computed_name(dtype)
    start = "int64(order[number])" if is_first else "number"
    index = "int64(order[other])" if is_first else "other"
    new = f"{name}(v[{index} * rest + column])"
    new = f"total | {new}" if dtype == np.bool_ else f"total + {new}"
    return f"""\
    total = {name}(v[{start} * rest + column])
    other = (number // piece + 1) * piece
    while other < positions{condition} and places[min(other, positions - 1)] == places[number]:
        total = {name}({new})
        other += piece
"""


def _pieces_source(dtype: np.dtype, place_dtype: np.dtype, *, is_first: bool) -> str:
    """Sums of pieces: of what the pieces before have, the sums of 32 each that end at multiples.

    Task as above. A piece starts where a run does, and at each multiple of its length.
    """
    name = computed_name(dtype)
    parameters = _parameters(dtype, place_dtype, stored_name(dtype) if is_first else name)
    parameters[0] = ("sums", pointer_to(name))
    parameters.append(("piece", "int64"))
    condition = " and other % longer != 0"
    return kernel_source(
        parameters,
        f"longer = piece * {_PIECE}\n"
        + each_task(
            _IS_START
            + "if is_start or number % longer == 0:\n"
            + _sum_of_run(dtype, is_first=is_first, condition=condition)
            + "    sums[task] = total\n"
        ),
    )


def _add_source(dtype: np.dtype, place_dtype: np.dtype, *, is_first: bool) -> str:
    """Task as above: the first of a run adds the sum of all of it."""
    name = computed_name(dtype)
    parameters = _parameters(dtype, place_dtype, stored_name(dtype) if is_first else name)
    parameters.append(("piece", "int64"))
    new = f"{name}(out[target]) | total" if dtype == np.bool_ else f"{name}(out[target]) + total"
    return kernel_source(
        parameters,
        each_task(
            _IS_START
            + "if is_start:\n"
            + _sum_of_run(dtype, is_first=is_first)
            + "    target = int64(places[number]) * rest + column\n"
            + f"    out[target] = {new}\n"
        ),
    )
