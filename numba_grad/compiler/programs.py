"""Graph -> program: the plan from disk, or by way of `pipeline.py`.

A process that meets what another has compiled imports none of the modules that lower graphs.
"""

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

from numba_grad.compiler import plan_cache
from numba_grad.compiler.building import build
from numba_grad.compiler.compiled_program import CompiledProgram, Destination
from numba_grad.compiler.partition.flat_graph import FlatGraph, flatten
from numba_grad.fresh_thread import imported
from numba_grad.graph.collection import without_collection
from numba_grad.graph.node import Node
from numba_grad.graph.types import TupleType

if TYPE_CHECKING:
    from numba_grad.compiler.target import Target


def _target_of_cpu() -> "Target":
    return imported("numba_grad.compiler.cpu_target").TARGET


PROCESSOR = Destination("cpu", _target_of_cpu, build.stored)


def compile_program(
    inputs: Sequence[Node],
    outputs: Sequence[Node],
    reached: Collection[Node] | None = None,
    destination: Destination = PROCESSOR,
    *,
    with_segments: bool = False,
) -> CompiledProgram:
    """The plan that computes `outputs`, distinct nodes that are not inputs, from the values of
    `inputs`. `reached`: see `flatten`; `with_segments`: see `compile_flat`."""
    graph = flatten(outputs, inputs, reached)
    return compile_flat(graph, destination, with_segments=with_segments)


def compile_flat(
    graph: FlatGraph, destination: Destination = PROCESSOR, *, with_segments: bool = False
) -> CompiledProgram:
    """The plan that computes the outputs of `graph`, which are distinct and no inputs.

    Where it is on disk, nothing is lowered, unless who asks wants to see the segments as well.
    """

    def lowered() -> CompiledProgram:
        pipeline = imported("numba_grad.compiler.pipeline")
        return pipeline.lowered(graph, destination.target())

    stored = destination.stored
    key = None if stored is None else plan_cache.key_of(graph, destination.name)
    return _from_disk_or(lowered, key, None if with_segments else stored)


def compile_small(graph: FlatGraph) -> CompiledProgram:
    """The plan that computes the outputs of a graph for which `is_small` operation by operation."""

    def lowered() -> CompiledProgram:
        first_tier = imported("numba_grad.compiler.first_tier")
        return without_collection(first_tier.lowered, graph)

    key = plan_cache.key_of(graph, "cpu, operation by operation")
    return _from_disk_or(lowered, key, PROCESSOR.stored)


def _from_disk_or(
    lowered: Callable[[], CompiledProgram],
    key: str | None,
    stored: Callable[[Sequence[str]], list[Any]] | None,
) -> CompiledProgram:
    if key is not None and stored is not None:
        plan = plan_cache.read(key, stored)
        if plan is not None:
            return CompiledProgram(plan)
    program = lowered()
    if key is not None:
        plan_cache.write(key, program.plan)
    return program


# Beyond, fusion pays at the first run: every operation here reads and writes memory, one thread
# computes, and sums are not cut into blocks.
MOST_NODES = 20_000
MOST_ELEMENTS = 1 << 14
MOST_BYTES = 1 << 23
MOST_PRODUCTS = 1 << 19  # of a matrix product


def is_small(graph: FlatGraph) -> bool:
    """Whether a graph is small enough to be run operation by operation, and can be."""
    if len(graph.nodes) > MOST_NODES or graph.calls:
        return False
    nbytes = 0
    for k, node in enumerate(graph.nodes):
        type = node.type
        if isinstance(type, TupleType) or type.size > MOST_ELEMENTS:
            return False
        nbytes += type.nbytes
        if node.op.family == "contraction" and type.size * _summed(graph, k) > MOST_PRODUCTS:
            return False
    return nbytes <= MOST_BYTES


def _summed(graph: FlatGraph, k: int) -> int:
    """How many products make an element of the contraction at position `k`."""
    reads = graph.edges[graph.starts[k] : graph.starts[k + 1]]
    return max((max(graph.nodes[x].shape, default=1) for x in reads.tolist()), default=1)
