"""Operations that are no loop nests -> steps: matrix products, linear algebra, scans, sorts."""

import functools
from collections.abc import Callable

from numba_grad.compiler.cuda import build, user_functions
from numba_grad.compiler.cuda.library_kernels import DEFAULT, NoKernels, Options, kernels_for
from numba_grad.compiler.segment_memory import Place
from numba_grad.compiler.steps import library_steps
from numba_grad.compiler.steps.schedule import ScheduledStep
from numba_grad.errors import KernelError, explain
from numba_grad.graph.node import Node
from numba_grad.ops.custom_kernels import MOST_EXTENTS
from numba_grad.runtime.cuda import libraries

MOST_BLOCKS = MOST_EXTENTS["grid"][0]  # kernels whose blocks take several tasks each have fewer

Temporaries = Callable[[int], object]


def steps_of_operation(
    node: Node,
    places: dict[Node, Place],
    temporary: Temporaries,
    *,
    in_place: bool,
    options: Options = DEFAULT,
) -> list[ScheduledStep]:
    """The steps that compute `node` from its operands in memory.

    Raises
    ------
    KernelError
        If there is none for this operation.
    """
    if node.op.name == "custom_kernel":
        return user_functions.steps_of_user_kernel(node, places)
    try:
        call = library_steps.call_of(node, kernels_for(options), in_place=in_place)
    except NoKernels:
        raise KernelError(
            explain(
                node.op.name,
                "not available on CUDA devices",
                got={f"input {k}": x.type for k, x in enumerate(node.inputs, start=1)},
                fix="x.cpu() before it, and .cuda() of the result: gradients flow through both",
            )
        ) from None
    steps = library_steps.steps_of_call(call, node, places, temporary, in_place=in_place)
    return [_checked(node, step) for step in steps if step.launch[0]]


def _checked(node: Node, step: ScheduledStep) -> ScheduledStep:
    blocks = step.launch[0]
    if blocks > MOST_BLOCKS:
        raise KernelError(
            explain(
                node.op.name,
                "more blocks than a grid of CUDA may have",
                got={"result": node.type, "blocks": blocks},
                expected=f"at most {MOST_BLOCKS}",
                fix="parts of the arrays, one after the other",
            )
        )
    if libraries.is_host_call(step.source):
        call = functools.partial(libraries.host_call, step.source)
        build.give_maker(step.source, lambda architecture: call())
    return step
