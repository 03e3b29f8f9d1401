"""Operations that are no loop nests -> steps: matrix products, linear algebra, scans, sorts."""

from collections.abc import Callable
from typing import Any

from numba_grad.compiler.cuda import user_functions
from numba_grad.compiler.lower import Place
from numba_grad.compiler.program_steps import ProgramStep
from numba_grad.errors import KernelError, explain
from numba_grad.graph.node import Node

Temporaries = Callable[[int], object]
Lowering = Callable[[Node, dict[Node, Place], Temporaries], list[ProgramStep]]

LOWERINGS: dict[str, Lowering] = {
    "custom_kernel": user_functions.lower,
}


def lower(
    node: Node, places: dict[Node, Place], temporary: Temporaries, *, in_place: bool
) -> list[ProgramStep]:
    """The steps that compute `node` from its operands in memory.

    Raises
    ------
    KernelError
        If there is none for this operation.
    """
    lowering: Any = LOWERINGS.get(node.op.name)
    if lowering is None:
        raise KernelError(
            explain(
                node.op.name,
                "not available on CUDA devices",
                got={f"input {k}": x.type for k, x in enumerate(node.inputs, start=1)},
                fix="x.cpu() before it, and .cuda() of the result: gradients flow through both",
            )
        )
    return lowering(node, places, temporary)
