"""Kernel IR -> CUDA Python: the source of `kernel`, and the grid it is launched with.

Three templates:

- without reductions, a thread does one point of the loops' space after another, points counted in C
  order, so that neighbouring threads touch neighbouring elements (`emit_batches.py`: several at
  once, and what is read in another order);
- with a reduction, `emit_reductions.py` says which threads share a result, and how they combine
  what they have: always in the same order, so that results depend on sizes alone.

The same kernel always gives the same bytes: no addresses, no sizes but those that choose a
template, no counters that depend on history.
"""

import math

from numba_grad.compiler.cuda.emit_batches import emit_batches, emit_transposed
from numba_grad.compiler.cuda.emit_reductions import emit_reduction
from numba_grad.compiler.cuda.kernel_text import KernelText
from numba_grad.compiler.cuda.launch import (
    grid_of_tasks,
    points_at_once,
    transposed_axis,
)
from numba_grad.compiler.loop_nests.kernel_ir import LoopNest
from numba_grad.immutable import immutable
from numba_grad.runtime.plan import Grid


@immutable
class Emitted:
    """A kernel's source, and its grid."""

    source: str
    grid: Grid


def emit(kernel: LoopNest) -> Emitted:
    """The source text of a kernel that has something to do, and its launch."""
    text = KernelText(kernel)
    with text.definition():
        if not kernel.axes:
            grid = _emit_point(text)
        elif kernel.accumulators:
            grid = emit_reduction(text)
        else:
            grid = _emit_pointwise(text)
    return Emitted(str(text), grid)


def _emit_point(text: KernelText) -> Grid:
    """Without loops there is work for one thread."""
    text.start_accumulators()
    text.at_point(range(0))
    text.write_results()
    return Grid(1, 1)


def _emit_pointwise(text: KernelText) -> Grid:
    axes = text.kernel.axes
    tasks = math.prod(axis.extent for axis in axes)
    if transposed_axis(text.kernel) is not None:
        return emit_transposed(text)
    points = points_at_once(text.kernel)
    if points > 1:
        emit_batches(text, points, axes, lambda task: text.decode(task, axes))
        return grid_of_tasks(-(-tasks // points))
    with text.tasks(text.product(axes)):
        text.decode("task", axes)
        text.at_point(range(1, len(axes)))
    return grid_of_tasks(tasks)
