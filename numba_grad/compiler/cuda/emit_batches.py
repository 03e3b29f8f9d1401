"""Kernels without reductions that wait for memory: a thread loads several points before it computes
and stores the first.

Elements that are neighbours along another axis than the innermost one go through shared memory: a
block loads a square of them along that axis, and stores along the innermost one.
"""

import itertools
import math
from collections.abc import Callable

from numba_grad.compiler.cuda.expressions import storage_name
from numba_grad.compiler.cuda.kernel_text import KernelText
from numba_grad.compiler.cuda.launch import (
    SIDE,
    THREADS_PER_BLOCK,
    batched_loads,
    grid_of_blocks,
    is_transposed,
    transposed_axis,
)
from numba_grad.compiler.loop_nests.kernel_ir import Axis, Let, Load
from numba_grad.runtime.plan import Grid

ROWS = THREADS_PER_BLOCK // SIDE  # of a square that a block does in each turn
TURNS = SIDE // ROWS
# Elements between rows in shared memory: no two of a column are in the same bank.
PITCH = SIDE + 1


def emit_batches(
    text: KernelText, points: int, axes: list[Axis], decode_task: Callable[[str], None]
) -> None:
    """All points of `axes`, so many for a thread at once; `decode_task` makes indices of the number
    of one."""
    unsigned = text.indices.unsigned
    loads = loads_of_points(text)
    local_arrays(text, loads, points)
    text.line(f"tasks = {unsigned}({text.product(axes)})")
    text.line(f"step = {unsigned}({text.tasks_at_once(points)})")
    text.line(f"first = {text.thread(points)}")

    def decode() -> None:
        # Past the end the thread's first one again, so that loads need no condition.
        text.line(f"task = {unsigned}(first + turn * {text.apart})")
        text.line("own = task if task < tasks else first")
        decode_task("own")

    with text.block("while first < tasks:"):
        with text.block(f"for turn in range({points}):"):
            decode()
            for name, load in loads:
                text.line(f"loaded_{name}[turn] = {text.element(load)}")
        with text.block(f"for turn in range({points}):"):
            decode()
            compute_point(text, {name: f"loaded_{name}[turn]" for name, _ in loads})
            with text.block("if task < tasks:"):
                _store(text)
        text.line(f"first = {unsigned}(first + step)")


def emit_transposed(text: KernelText) -> Grid:
    """A block does a square: of the innermost axis, and of that along which neighbours are read."""
    kernel = text.kernel
    signed, unsigned = text.indices.signed, text.indices.unsigned
    across = transposed_axis(kernel)
    assert across is not None
    along = kernel.axes[-1]
    others = [axis for axis in kernel.axes if axis not in (across, along)]
    loads = loads_of_points(text)
    turned = [(name, load) for name, load in loads if is_transposed(load, across, along)]
    direct = [(name, load) for name, load in loads if not is_transposed(load, across, along)]
    local_arrays(text, loads, TURNS)
    for name, load in turned:
        dtype = storage_name(load.buffer.dtype)
        text.line(f"square_{name} = cuda.shared.array({SIDE * PITCH}, {dtype})")
    text.line(f"column = int32(cuda.threadIdx.x % {SIDE})")
    text.line(f"row = int32(cuda.threadIdx.x // {SIDE})")
    for name, axis in (("wide", along), ("high", across)):
        text.line(f"{name} = {unsigned}(({axis.word} + {SIDE - 1}) // {SIDE})")
    numbers = [*[axis.word for axis in others], "wide", "high"]
    text.line(f"squares = {unsigned}({' * '.join(numbers)})")
    text.line(f"square = {unsigned}(cuda.blockIdx.x)")
    with text.block("while square < squares:"):
        text.line(f"left = {signed}({SIDE} * {signed}(square % {text.divisor('wide')}))")
        text.line(f"above = {unsigned}(square // {text.divisor('wide')})")
        text.line(f"top = {signed}({SIDE} * {signed}(above % {text.divisor('high')}))")
        if others:
            text.line(f"other = {unsigned}(above // {text.divisor('high')})")
            text.decode("other", others)
        _load_square(text, turned, direct)
        with text.block(f"for turn in range({TURNS}):"):
            text.line(f"place = int32((row + turn * {ROWS}) * {PITCH} + column)")
            for name, _ in turned:
                text.line(f"square_{name}[place] = loaded_{name}[turn]")
        text.line("cuda.syncthreads()")
        with text.block(f"for turn in range({TURNS}):"):
            text.line(f"turn_row = row + turn * {ROWS}")
            text.line(f"{across.variable} = {signed}(top + turn_row)")
            text.line(f"{along.variable} = {signed}(left + column)")
            inside = f"{across.variable} < {across.word} and {along.variable} < {along.word}"
            with text.block(f"if {inside}:"):
                elements = {name: f"loaded_{name}[turn]" for name, _ in direct}
                place = f"column * {PITCH} + turn_row"
                elements |= {name: f"square_{name}[{place}]" for name, _ in turned}
                compute_point(text, elements)
                _store(text)
        text.line("cuda.syncthreads()")
        text.line(f"square = {unsigned}(square + cuda.gridDim.x)")
    squares = math.prod(axis.extent for axis in others)
    squares *= -(-across.extent // SIDE) * -(-along.extent // SIDE)
    return grid_of_blocks(squares)


def _load_square(
    text: KernelText, turned: list[tuple[str, Load]], direct: list[tuple[str, Load]]
) -> None:
    """What is read across a square with its sides exchanged, so that neighbouring threads read
    neighbours of either."""
    across, along, signed = transposed_axis(text.kernel), text.kernel.axes[-1], text.indices.signed
    assert across is not None
    # Past the end the last one again, so that loads need no condition.
    last_across, last_along = f"{across.word} - 1", f"{along.word} - 1"
    with text.block(f"for turn in range({TURNS}):"):
        text.line(f"turn_row = row + turn * {ROWS}")
        if turned:
            text.line(f"{across.variable} = {signed}(min(top + column, {last_across}))")
            text.line(f"{along.variable} = {signed}(min(left + turn_row, {last_along}))")
            for name, load in turned:
                text.line(f"loaded_{name}[turn] = {text.element(load)}")
        text.forget_positions()
        if direct:
            text.line(f"{across.variable} = {signed}(min(top + turn_row, {last_across}))")
            text.line(f"{along.variable} = {signed}(min(left + column, {last_along}))")
            for name, load in direct:
                text.line(f"loaded_{name}[turn] = {text.element(load)}")


def loads_of_points(text: KernelText) -> list[tuple[str, Load]]:
    """What is loaded at each point; not what is written already, for all of them."""
    (variant,) = text.kernel.variants
    loads = batched_loads(variant) or []
    return [(name, load) for name, load in loads if name not in text.dtypes]


def local_arrays(text: KernelText, loads: list[tuple[str, Load]], points: int) -> None:
    for name, load in loads:
        dtype = storage_name(load.buffer.dtype)
        text.line(f"loaded_{name} = cuda.local.array({points}, {dtype})")


def compute_point(text: KernelText, elements: dict[str, str]) -> None:
    """All values of a point; those of loads are in `elements`, as memory has them."""
    for let in _lets(text):
        if let.name in elements:
            text.take(let, elements[let.name])
        else:
            text.lets([let])


def _lets(text: KernelText) -> list[Let]:
    (variant,) = text.kernel.variants
    lets = [*itertools.chain(*variant.lets[1:]), *variant.pieces[0].body.lets]
    return [let for let in lets if let.name not in text.dtypes]


def _store(text: KernelText) -> None:
    (variant,) = text.kernel.variants
    text.stores(variant.pieces[0].body)
