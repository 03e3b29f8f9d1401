"""GPUs: kernels in cubins, grids of blocks of threads. One target for each architecture."""

import functools
from collections.abc import Callable
from typing import Any

from numba_grad.compiler.compiled_program import Destination
from numba_grad.compiler.cuda import build, costs, host_steps, library_steps
from numba_grad.compiler.cuda.emit import emit
from numba_grad.compiler.cuda.emit_point_loops import emit_point_loop
from numba_grad.compiler.cuda.launch import reduction_blocks
from numba_grad.compiler.cuda.library_kernels import DEFAULT, Options
from numba_grad.compiler.cuda.library_kernels.kernel_source import (
    THREADS,
    blocks_for,
    copy_source,
)
from numba_grad.compiler.cuda.row_chains import CHAINING
from numba_grad.compiler.loop_nests.kernel_ir import LoopNest
from numba_grad.compiler.passes.of_every_target import PASSES
from numba_grad.compiler.segment_memory import Temporary
from numba_grad.compiler.steps.memory_traffic import bytes_of_buffers, work_of
from numba_grad.compiler.steps.row_chains import with_row_chains
from numba_grad.compiler.steps.schedule import ScheduledStep, arguments_of, written_words
from numba_grad.compiler.target import Target
from numba_grad.runtime.plan import Grid


def _kernel_step(kernel: LoopNest, partials: dict[object, Temporary]) -> ScheduledStep:
    words, memory = arguments_of(kernel, partials)
    _, flops = work_of(kernel)
    nbytes = sum(bytes_of_buffers(kernel).values())
    emitted = emit(kernel)
    return ScheduledStep(
        emitted.source,
        words,
        emitted.grid,
        memory,
        nbytes,
        flops,
        written=written_words(kernel),
        loop_nest=kernel,
    )


def _join(
    steps: list[tuple[ScheduledStep, LoopNest | None]], nbytes_of: Callable[[Any], int | None]
) -> list[ScheduledStep]:
    return with_row_chains(steps, nbytes_of, CHAINING)


def _copy_step(itemsize: int, nbytes: int) -> ScheduledStep:
    elements = nbytes // itemsize
    return ScheduledStep(
        "# copy: bytes\n" + copy_source(itemsize),
        [elements],
        Grid(blocks_for(elements), THREADS),
        [],
        2 * nbytes,
        0,
        written=frozenset([1]),
    )


@functools.cache
def cuda_target(architecture: str, options: Options = DEFAULT) -> Target:
    """The target of an architecture such as "sm_90"."""
    return Target(
        name=f"cuda {architecture} {options}",
        passes=PASSES,
        costs=costs.COSTS,
        reduction_blocks=reduction_blocks,
        kernel_step=_kernel_step,
        library_steps=functools.partial(library_steps.steps_of_operation, options=options),
        join=_join,
        copy_step=_copy_step,
        build=functools.partial(build.build_all, architecture=architecture),
        prepare=lambda nbytes: None,  # CuPy's pool has it
        has_branches=True,
        joins_outputs=False,
        adds_products=False,
        joins_steps=True,
        point_loop=emit_point_loop,
        host=host_steps.HOST,
    )


@functools.cache
def cuda_destination(architecture: str, options: Options = DEFAULT) -> Destination:
    """The same, for who compiles. Plans stay in memory: among their steps are calls of libraries,
    closures that no key names."""
    target = cuda_target(architecture, options)
    return Destination(target.name, lambda: target)
