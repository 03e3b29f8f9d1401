"""Kernel IR -> CUDA Python: the source of `kernel`, and the grid it is launched with.

Three templates:

- without reductions, a thread does one point of the loops' space after another, points counted in C
  order, so that neighbouring threads touch neighbouring elements;
- with a reduction, `emit_reductions.py` says which threads share a result, and how they combine
  what they have: always in the same order, so that results depend on sizes alone.

The same kernel always gives the same bytes: no addresses, no sizes but those that choose a
template, no counters that depend on history.
"""

import itertools
import math
from dataclasses import dataclass

from numba_grad.compiler.cuda.emit_reductions import emit_reduction
from numba_grad.compiler.cuda.kernel_text import KernelText, stored_name
from numba_grad.compiler.cuda.launch import Shape, batched_loads, points_at_once, shape_of_tasks
from numba_grad.compiler.loops import Kernel


@dataclass(frozen=True, slots=True)
class Emitted:
    """A kernel's source, blocks of its grid, and threads of each."""

    source: str
    grid: int
    block: int


def emit(kernel: Kernel) -> Emitted:
    """The source text of a kernel that has something to do, and its launch."""
    text = KernelText(kernel)
    with text.definition():
        if not kernel.axes:
            shape = _emit_point(text)
        elif kernel.accumulators:
            shape = emit_reduction(text)
        else:
            shape = _emit_pointwise(text)
    return Emitted(str(text), shape.grid, shape.block)


def _emit_point(text: KernelText) -> Shape:
    """Without loops there is work for one thread."""
    text.start_accumulators()
    text.at_point(range(0))
    text.write_results()
    return Shape(1, 1)


def _emit_pointwise(text: KernelText) -> Shape:
    axes = text.kernel.axes
    tasks = math.prod(axis.extent for axis in axes)
    points = points_at_once(text.kernel)
    if points > 1:
        _emit_batches(text, points)
        return shape_of_tasks(-(-tasks // points))
    with text.tasks(text.product(axes)):
        text.decode("task", axes)
        text.at_point(range(1, len(axes)))
    return shape_of_tasks(tasks)


def _emit_batches(text: KernelText, points: int) -> None:
    """Each thread loads several points, a block apart, before it computes and stores them."""
    axes = text.kernel.axes
    unsigned = text.indices.unsigned
    (variant,) = text.kernel.variants
    (piece,) = variant.pieces
    loads = batched_loads(variant) or []
    names = {name for name, _ in loads}
    for name, load in loads:
        dtype = stored_name(load.buffer.dtype)
        text.line(f"loaded_{name} = cuda.local.array({points}, {dtype})")
    text.line(f"tasks = {unsigned}({text.product(axes)})")
    text.line(f"step = {unsigned}({points} * cuda.gridDim.x * cuda.blockDim.x)")
    text.line(f"first = {text.thread(points)}")
    with text.block("while first < tasks:"):
        with text.block(f"for turn in range({points}):"):
            # Past the end the thread's first one again, so that loads need no condition.
            text.line(f"task = {unsigned}(first + turn * cuda.blockDim.x)")
            text.line("own = task if task < tasks else first")
            text.decode("own", axes)
            for name, load in loads:
                text.line(f"loaded_{name}[turn] = {text.element(load)}")
        with text.block(f"for turn in range({points}):"):
            text.line(f"task = {unsigned}(first + turn * cuda.blockDim.x)")
            text.line("own = task if task < tasks else first")
            text.decode("own", axes)
            for let in [*itertools.chain(*variant.lets[1:]), *piece.body.lets]:
                if let.name in names:
                    text.take(let, f"loaded_{let.name}[turn]")
                else:
                    text.lets([let])
            with text.block("if task < tasks:"):
                text.stores(piece.body)
        text.line(f"first = {unsigned}(first + step)")
