"""What transforms and loops ask of all ranks: means of gradients, numbers of steps and states."""

from collections.abc import Sequence
from typing import Any

from numba_grad.frontend.inputs.arrays import as_node, wrap
from numba_grad.frontend.message_passing.communicators import Communicator
from numba_grad.frontend.message_passing.rank_agreement import agree
from numba_grad.frontend.message_passing.reductions import allreduce
from numba_grad.frontend.tensors.tensor import Tensor
from numba_grad.graph.node import OPS
from numba_grad.ops.families import reshape
from numba_grad.runtime.mpi import library


def mean_over_ranks(leaves: Sequence[Any], comm: Any) -> list[Tensor]:
    """The means of arrays over all ranks; those of one dtype in one message."""
    size = size_of("mpi.mean_over_ranks", comm)
    nodes = [as_node(x) for x in leaves]
    found: dict[int, Tensor] = {}
    for dtype in dict.fromkeys(node.dtype for node in nodes):
        numbers = [k for k, node in enumerate(nodes) if node.dtype == dtype]
        flat = [reshape(nodes[k], (nodes[k].type.size,)) for k in numbers]
        joined = flat[0] if len(flat) == 1 else OPS["concatenate"](*flat, axis=0)
        total = allreduce(wrap(joined), comm=comm) / size
        start = 0
        for k in numbers:
            end = start + nodes[k].type.size
            found[k] = total[start:end].reshape(nodes[k].shape)
            start = end
    return [found[k] for k in range(len(nodes))]


def agree_on_steps(operation: str, count: int, comm: Any) -> None:
    """In the checking mode, compare how many steps a loop has that communicates."""
    agree(comm, operation, f"of {count} steps that communicate")


def least_on_ranks(number: int, comm: Any) -> int:
    """The least of the numbers that ranks have, now."""
    return comm.allreduce(number, library().MIN)


def size_of(operation: str, comm: Any) -> int:
    return Communicator(operation, comm).size
