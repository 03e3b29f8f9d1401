"""A row chain as one kernel: a thread, a warp or a block does all of a row before the next one.

Each kernel of the chain becomes a device function for one row, which ends with a barrier: what it
wrote, all threads of the row see in the next one. What that reads again is still in a cache.
"""

import math
from collections.abc import Sequence

from numba_grad.compiler.cuda.emit import Emitted
from numba_grad.compiler.cuda.emit_batches import emit_batches
from numba_grad.compiler.cuda.emit_reductions import (
    WARPS,
    bounds_of_part,
    combine_lanes,
    combine_warps,
    nested_loops,
    of_results,
    shared_arrays,
    start_warps,
    strided_loop,
)
from numba_grad.compiler.cuda.expressions import KernelExpressions
from numba_grad.compiler.cuda.kernel_text import KernelText, decorator
from numba_grad.compiler.cuda.launch import (
    THREADS_PER_BLOCK,
    WARP,
    grid_of_blocks,
    grid_of_tasks,
    points_at_once,
)
from numba_grad.compiler.emission.text import SourceText
from numba_grad.compiler.loop_nests.kernel_ir import Axis, LoopNest

_BARRIERS = {WARP: "cuda.syncwarp()", THREADS_PER_BLOCK: "cuda.syncthreads()"}


def emit_row_chain(kernels: Sequence[LoopNest], rows: int, threads: int) -> Emitted:
    """One kernel with the words: how many rows, then those of each member.

    Parameters
    ----------
    kernels : of the members, in order
    rows : how many rows there are
    threads : that do a row together: 1, 32 or 256
    """
    expressions = KernelExpressions()
    members: list[str] = []
    types = ["int64"]
    parameters = ["rows"]
    source = SourceText()
    calls = []
    shared: dict[str, str] = {}
    for number, kernel in enumerate(kernels):
        text = KernelText(kernel, expressions, threads)
        member = _Member(text, rows)
        arrays = shared_arrays(kernel, WARPS) if member.is_of_block else {}
        with text.definition(f"member{number}", "row", "rows", *arrays):
            member.emit()
        members.append(f"@cuda.jit(device=True)\n{text.source}")
        # In the kernel: numba-cuda-mlir 0.6 compiles none of a function that it calls.
        shared |= {f"{name}_{number}": array for name, array in arrays.items()}
        words = [f"{word.name}_{number}" for word in kernel.words]
        parameters += words
        types += text.types_of_words
        own = [f"{name}_{number}" for name in arrays]
        calls.append(f"member{number}({', '.join(['row', 'rows', *own, *words])})")
    with source.block(f"def kernel({', '.join(parameters)}):"):
        for name, array in shared.items():
            source.line(f"{name} = {array}")
        for name, value in _first_row(threads).items():
            source.line(f"{name} = int64({value})")
        with source.block("while row < rows:"):
            for call in calls:
                source.line(call)
            source.line("row += step")
    functions = [f.rstrip("\n") + "\n\n\n" for f in (*expressions.definitions(), *members)]
    is_of_blocks = threads == THREADS_PER_BLOCK
    grid = grid_of_blocks(rows) if is_of_blocks else grid_of_tasks(rows * threads)
    return Emitted("".join(functions) + decorator(types) + str(source), grid)


def _first_row(threads: int) -> dict[str, str]:
    """The first row of a thread, and how many are done at the same time."""
    if threads == THREADS_PER_BLOCK:
        return {"row": "cuda.blockIdx.x", "step": "cuda.gridDim.x"}
    row = "cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x"
    step = "cuda.gridDim.x * cuda.blockDim.x"
    if threads == 1:
        return {"row": row, "step": step}
    return {"row": f"({row}) // {threads}", "step": f"{step} // {threads}"}


class _Member:
    """The function of one member. `row` is the row, `rows` how many there are."""

    def __init__(self, text: KernelText, rows: int) -> None:
        self.text = text
        self.kept = text.kernel.kept
        # Axes that count rows, if there are such: the others are the points of a row.
        self.outer = _outer(self.kept, rows)
        self.inner = self.kept[len(self.outer) :]
        has_one_result = text.kernel.accumulators and self.outer and not self.inner
        self.is_shared = bool(has_one_result) and text.group > 1
        self.is_of_block = self.is_shared and text.group == THREADS_PER_BLOCK

    def emit(self) -> None:
        text = self.text
        signed, unsigned = text.indices.signed, text.indices.unsigned
        if self.outer:
            text.decode(f"{unsigned}(row)", self.outer)
        else:
            text.line(f"points = {signed}({text.product(self.inner)}) // {signed}(rows)")
            text.line(f"start = {unsigned}(row * points)")
        if self.is_of_block:
            self.result_of_block()
            return
        lane = {1: "0", WARP: f"cuda.threadIdx.x % {WARP}"}.get(text.group, "cuda.threadIdx.x")
        text.line(f"lane = int32({lane})")
        if self.is_shared:
            self.result_of_warp()
        elif text.kernel.accumulators:
            self.results()
        else:
            self.points()
        if text.group > 1:
            text.line(_BARRIERS[text.group])

    def result_of_block(self) -> None:
        """One result of the row, by all of a block."""
        text = self.text
        start_warps(text)
        text.start_accumulators()
        strided_loop(text, of_results(text), "cuda.threadIdx.x", THREADS_PER_BLOCK)
        combine_warps(text)

    def result_of_warp(self) -> None:
        text = self.text
        text.start_accumulators()
        strided_loop(text, of_results(text), "lane", WARP)
        combine_lanes(text, WARP)
        with text.block("if lane == 0:"):
            text.write_results()

    def results(self) -> None:
        """Several results, each of one thread."""
        text = self.text
        with text.tasks(self.number_of_points):
            self.decode("task")
            text.start_accumulators()
            lets = of_results(text)
            bounds_of_part(text)
            nested_loops(text, lets)
            text.write_results()

    def points(self) -> None:
        text = self.text
        (*special, variant) = text.kernel.variants
        level = 1
        if not special:
            # What is the same for all points of a row.
            for lets in variant.lets[1 : len(self.outer) + 1]:
                text.lets(lets)
                level += 1
        has_neighbours = bool(self.outer and self.inner) and text.group > 1
        at_once = points_at_once(text.kernel, text.dtypes) if has_neighbours else 1
        if at_once > 1:
            emit_batches(text, at_once, self.inner, self.decode)
            return
        with text.tasks(self.number_of_points):
            self.decode("task")
            text.at_point(range(level, len(text.kernel.axes)))

    @property
    def number_of_points(self) -> str:
        return self.text.product(self.inner) if self.outer else "points"

    def decode(self, task: str) -> None:
        """The indices of a point of the row."""
        text = self.text
        if not self.outer:
            text.line(f"point = {text.indices.unsigned}(start + {task})")
            task = "point"
        text.decode(task, self.inner)


def _outer(axes: list[Axis], rows: int) -> list[Axis]:
    """The first axes, if they have so many points."""
    for count in range(1, len(axes) + 1):
        if math.prod(axis.extent for axis in axes[:count]) == rows:
            return axes[:count]
    return []
