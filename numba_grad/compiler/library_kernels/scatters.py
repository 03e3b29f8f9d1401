"""Scattering: x with values put at, or added to, places that index arrays name."""

import math
from collections.abc import Sequence

import numpy as np

from numba_grad.compiler.library_kernels.calls import (
    Errors,
    LibraryCall,
    LibraryStep,
    LibraryWord,
    Memory,
    grain_for,
    kernel_dtype,
    sum_text,
)
from numba_grad.compiler.library_kernels.registry import LibraryKernel, lowers
from numba_grad.graph.node import Node
from numba_grad.runtime.plan import ErrorSite, Tasks

__all__ = ["scatter_call"]

_SCATTER_COLUMNS = 512
# Of a place, that are written out, rather than in a loop: points in space take half of the time.
_FEW_COLUMNS = 8


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
) -> LibraryCall:
    """x with v put at, or added to, the places that index arrays name on its first axes.

    In the order of the positions: duplicates add up, and of those that are put the last one wins.
    `sizes` are the lengths of the indexed axes, `rest` the elements of one place; each index array
    has a site. Inputs: x, v, then the index arrays. One output; in place it is the memory of x.
    Indices that are not `checked` are known to be in range, and not below 0.
    """
    tiles = -(-rest // _SCATTER_COLUMNS)
    words: list[LibraryWord] = [Memory("output"), Memory("input", 1)]
    words += [positions, rest, _SCATTER_COLUMNS, Errors()]
    for number, (size, site) in enumerate(zip(sizes, sites, strict=True)):
        words += [Memory("input", 2 + number), size, site]
    scatter = LibraryStep(
        _scatter_source(dtype, index_dtypes, rest, adds=adds, checked=checked),
        tuple(words),
        Tasks(
            tiles if positions else 0, grain_for(positions * min(rest, _SCATTER_COLUMNS), 1 << 14)
        ),
    )
    if in_place:
        return LibraryCall((scatter,))
    size = math.prod(sizes) * rest
    copy = LibraryStep(
        _copy_source(dtype), (Memory("input"), Memory("output")), Tasks(size, 1 << 15)
    )
    return LibraryCall((copy, scatter))


def _copy_source(dtype: np.dtype) -> str:
    """Words: x, out. Task: element."""
    # As integers, so that NaN payloads are kept and half precision is not converted.
    words = {1: "uint8", 2: "uint16", 4: "uint32", 8: "uint64", 16: "complex128"}
    name = words[dtype.itemsize]
    return f"""\
def kernel(args, lo, hi):
    x = buffer(args, 0, {name})
    out = buffer(args, 1, {name})
    for i in range(lo, hi):
        out[i] = x[i]
"""


def _scatter_source(
    dtype: np.dtype, index_dtypes: Sequence[np.dtype], rest: int, *, adds: bool, checked: bool
) -> str:
    """Words: out, v, positions, elements of a place, columns of a tile, error record, then for each
    index array: the array, the size of its axis, its site. Task: tile of columns.
    """
    is_few = rest <= _FEW_COLUMNS
    lines = [
        "def kernel(args, lo, hi):",
        f"    out = buffer(args, 0, {kernel_dtype(dtype)})",
        f"    v = buffer(args, 1, {kernel_dtype(dtype)})",
        f"    rest = {rest if is_few else 'integer(args, 3)'}",
        "    errors = integer(args, 5)",
    ]
    for number, index_dtype in enumerate(index_dtypes):
        word = 6 + 3 * number
        lines += [
            f"    index{number} = buffer(args, {word}, {index_dtype.name})",
            f"    size{number} = integer(args, {word + 1})",
            f"    site{number} = integer(args, {word + 2})",
        ]
    lines.append("    for task in range(lo, hi):")
    if not is_few:
        lines.append("        first = task * integer(args, 4)")
        lines.append("        end = min(first + integer(args, 4), rest)")
    lines += ["        for position in range(integer(args, 2)):", "            place = 0"]
    for number in range(len(index_dtypes)):
        index = f"int64(index{number}[position])"
        if checked:
            index = f"check_index({index}, size{number}, errors, site{number})"
        lines.append(f"            place = place * size{number} + {index}")
    if not is_few:
        lines.append("            for column in range(first, end):")
    for column in range(rest) if is_few else ["column"]:
        new = f"v[position * rest + {column}]"
        if adds:
            new = sum_text(dtype, f"out[place * rest + {column}]", new)
        lines.append(f"{' ' * (12 if is_few else 16)}out[place * rest + {column}] = {new}")
    return "\n".join(lines) + "\n"


@lowers("scatter_add", "scatter_set", by=scatter_call, in_place=True)
def _scatter(kernel: LibraryKernel, node: Node) -> LibraryCall:
    x, _, *indices = node.inputs
    count = len(indices)
    named = node.params.get("named_axes") or range(count)
    return kernel(
        node.dtype,
        [i.dtype for i in indices],
        x.shape[:count],
        indices[0].type.size,
        math.prod(x.shape[count:]),
        adds=node.op.name == "scatter_add",
        sites=[ErrorSite("index", node.op.name, axis) for axis in named],
        checked=node.params.get("checked", True),
    )
