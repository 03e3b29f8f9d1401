"""The processor: kernels in machine code, BLAS and LAPACK, steps cut into tasks for threads."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from numba_grad.compiler.building import build
from numba_grad.compiler.building.engine_build import build_kernels
from numba_grad.compiler.fusion.costs import Costs
from numba_grad.compiler.library_kernels.calls import grain_for
from numba_grad.compiler.loop_nests.kernel_ir import LoopNest
from numba_grad.compiler.loop_nests.loop_cuts import fewest_blocks
from numba_grad.compiler.passes.components_first import components_first
from numba_grad.compiler.passes.half_products import half_products
from numba_grad.compiler.passes.of_every_target import PASSES, PRODUCTS
from numba_grad.compiler.steps import library_steps
from numba_grad.compiler.steps.cpu_row_chains import CHAINING
from numba_grad.compiler.steps.cpu_steps import kernel_step
from numba_grad.compiler.steps.row_chains import with_row_chains
from numba_grad.compiler.steps.schedule import ScheduledStep
from numba_grad.compiler.target import GraphPass, Target
from numba_grad.runtime import buffers
from numba_grad.runtime.plan import Tasks

# Storing and loading take some 2 ns, an addition 0.05 ns in vector code. Shifted places are loaded
# without vectors where the values are not stored: a chain of stencils grows exponentially.
COSTS = Costs(
    load=1,
    store=40,
    store_of_shifts=16,
    store_of_expansion=400,
    cached_bytes=1 << 20,
    # Forces of 60 to 500 bodies, with the array of all distances stored, take 0.6 of the time.
    store_in_cache=16,
    bytes_in_cache=1 << 21,
)
# Elements of a reduction that one task sums up: fixed, so that results do not depend on the number
# of threads.
BLOCK_ELEMENTS = 16384
MOST_BLOCKS = 64


def reduction_blocks(kept: int, summed: int, outermost: int, in_memory: bool) -> int:
    """Enough parts for the threads of a large machine, where there are few results."""
    del in_memory
    if kept * BLOCK_ELEMENTS // 64 >= summed or kept * summed < 2 * BLOCK_ELEMENTS:
        return 1
    fewest = fewest_blocks()
    blocks = min(MOST_BLOCKS, max(kept * summed // BLOCK_ELEMENTS, fewest), outermost)
    return blocks if blocks >= fewest else 1


def _join(
    steps: list[tuple[ScheduledStep, LoopNest | None]], nbytes_of: Callable[[Any], int | None]
) -> list[ScheduledStep]:
    return with_row_chains(steps, nbytes_of, CHAINING)


def _copy_step(itemsize: int, nbytes: int) -> ScheduledStep:
    unit = min(itemsize, 8)
    return ScheduledStep(
        _copy_source(unit),
        [],
        Tasks(nbytes // unit, grain_for(1, 1 << 17)),
        [],
        2 * nbytes,
        0,
        written=frozenset([1]),
    )


@functools.cache
def _copy_source(unit: int) -> str:
    """A kernel that copies elements of a size. Task: an element, or half of a complex one."""
    name = f"int{8 * unit}"
    return f"""\
# copy
def kernel(args, lo, hi):
    x = buffer(args, 0, {name})
    out = buffer(args, 1, {name})
    for i in range(lo, hi):
        out[i] = x[i]
"""


def _built(sources: Sequence[str]) -> list[build.LoadedKernel]:
    return build_kernels([build.KernelRequest(source) for source in sources])


TARGET = Target(
    name="cpu",
    # First, so that equal casts become one. cuBLAS has such products.
    passes=(
        GraphPass("half products", half_products, PRODUCTS),
        *PASSES,
        GraphPass("components first", components_first),
    ),
    costs=COSTS,
    reduction_blocks=reduction_blocks,
    kernel_step=kernel_step,
    library_steps=library_steps.steps_of_operation,
    join=_join,
    copy_step=_copy_step,
    build=_built,
    prepare=buffers.prepare,
    has_branches=False,
    joins_outputs=True,
    adds_products=True,
    joins_steps=False,
    point_loop=None,
    host=None,
)
# Of programs that were run often: what several steps of a loop share takes longer to compile.
SEVERAL_STEPS = replace(TARGET, name="cpu, several steps", joins_steps=True)
