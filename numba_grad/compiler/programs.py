"""Graph -> program: the plan from disk, or by way of `pipeline.py`.

A process that meets what another has compiled imports none of the modules that lower graphs.
"""

import math
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import numpy as np

from numba_grad.compiler import plan_cache
from numba_grad.compiler.building import build
from numba_grad.compiler.compiled_program import CompiledProgram, Destination
from numba_grad.compiler.partition.flat_graph import (
    ClosedGraph,
    FlatGraph,
    calls_of,
    flatten,
    graph_of,
    once_run,
)
from numba_grad.compiler.partition.roles import ALIASES, REARRANGEMENTS
from numba_grad.config import config
from numba_grad.fresh_thread import imported
from numba_grad.graph.collection import without_collection
from numba_grad.graph.node import Node
from numba_grad.ops.contraction import products_summed

if TYPE_CHECKING:
    from numba_grad.compiler.target import Target


def _target_of_cpu() -> "Target":
    return imported("numba_grad.compiler.cpu_target").TARGET


def _several_steps() -> "Target":
    return imported("numba_grad.compiler.cpu_target").SEVERAL_STEPS


SEVERAL_STEPS = Destination("cpu, several steps", _several_steps, build.stored)
PROCESSOR = Destination("cpu", _target_of_cpu, build.stored, SEVERAL_STEPS)
# Elements that steps of loops compute before several of them share kernels. These take some 20 to
# 80 ms to compile, and save 0.1 to 0.5 ns an element; the bits are the same.
ELEMENTS_ONE_BY_ONE = 1 << 28


def compile_program(
    inputs: Sequence[Node],
    outputs: Sequence[Node],
    reached: Collection[Node] | None = None,
    destination: Destination = PROCESSOR,
    *,
    with_segments: bool = False,
    is_run: bool = True,
) -> CompiledProgram:
    """The plan that computes `outputs`, distinct nodes that are not inputs, from the values of
    `inputs`. `reached`: see `flatten`; `with_segments` and `is_run`: see `compile_flat`."""
    graph = flatten(outputs, inputs, reached)
    return compile_flat(graph, destination, with_segments=with_segments, is_run=is_run)


def compile_flat(
    graph: FlatGraph,
    destination: Destination = PROCESSOR,
    *,
    with_segments: bool = False,
    is_run: bool = True,
) -> CompiledProgram:
    """The plan that computes the outputs of `graph`, which are distinct and no inputs. `is_run`: at
    once, so its memory is made ready as well.

    Where it is on disk, nothing is lowered, unless who asks wants to see the segments as well.
    """

    def lowered() -> CompiledProgram:
        pipeline = imported("numba_grad.compiler.pipeline")
        is_fused = config.engine == "fused" or destination not in (PROCESSOR, SEVERAL_STEPS)
        others = None if is_fused else _by_operations
        return pipeline.lowered(graph, destination.target(), is_run=is_run, by_operations=others)

    reads = not with_segments
    key, program = _from_disk(graph, destination, reads)
    elements = 0
    if destination.later is not None:
        elements = _joined_elements(graph) if program is None else program.joined_elements
        if elements > ELEMENTS_ONE_BY_ONE:
            destination, elements = destination.later, 0
            key, program = _from_disk(graph, destination, reads)
    if program is None:
        program = lowered()
        program.joined_elements = elements
        _keep(program, key)
    return program


def _by_operations(graph: FlatGraph) -> CompiledProgram:
    """Of what is too much to fuse, with its assemblies."""
    return imported("numba_grad.compiler.first_tier.plans").lowered_as_it_is(graph)


def _joined_elements(graph: FlatGraph) -> int:
    """How many elements steps of loops compute that can share kernels."""
    if not graph.calls:
        return 0
    joinable = imported("numba_grad.compiler.control_flow.joinable_steps")
    return sum(joinable.joined_elements(call) for call in calls_of(graph))


def runs_one_by_one(program: CompiledProgram) -> int | None:
    """How often a program is run before several steps of its loops share kernels; None: always, as
    that would change nothing."""
    elements = program.joined_elements
    return ELEMENTS_ONE_BY_ONE // elements if elements else None


def compile_small(graph: FlatGraph) -> CompiledProgram:
    """The plan that computes the outputs of a graph operation by operation: if it `is_small`."""

    def lowered() -> CompiledProgram:
        plans = imported("numba_grad.compiler.first_tier.plans")
        return without_collection(plans.lowered, graph)

    key = plan_cache.key_of(graph, "cpu, operation by operation")
    program = None if key is None else plan_cache.read(key, build.stored)
    if program is None:
        program = lowered()
        _keep(program, key)
    return program


def _from_disk(
    graph: FlatGraph, destination: Destination, reads: bool
) -> tuple[str | None, CompiledProgram | None]:
    """The key of the plan, and what is stored under it."""
    if destination.stored is None:
        return None, None
    key = plan_cache.key_of(graph, destination.name)
    if key is None or not reads:
        return key, None
    return key, plan_cache.read(key, destination.stored)


def _keep(program: CompiledProgram, key: str | None) -> None:
    if key is not None:
        plan_cache.write(key, program)


# Beyond, fusion pays at the first run: every operation here reads and writes memory, one thread
# computes, and sums are not cut into blocks.
MOST_NODES = 20_000
MOST_ELEMENTS = 1 << 14
MOST_BYTES = 1 << 23
MOST_PRODUCTS = 1 << 19  # of a matrix product
# So many times a small graph is run operation by operation. Fusing takes 50 to 500 ms, and saves
# some 0.1 ms a run; but where an operation has few elements, in the mean, at most 3 % of that: what
# takes time is to record it, and the way from step to step.
RUNS = 20
RUNS_OF_FEW_ELEMENTS = 1000
FEW_ELEMENTS = 32
# Larger graphs as well, up to as many bytes, where to fuse them takes longer than to run them:
# seconds of an operation, of a byte that it computes, and to compile an operation that has no like.
# On 12 time-stepping programs the last is 1.2 to 6 ms.
SECONDS_OF_AN_OPERATION = 1e-6
SECONDS_OF_A_BYTE = 0.2e-9
SECONDS_OF_ONE_UNLIKE = 2.5e-3
MOST_BYTES_AT_FIRST = 1 << 30
MOST_ELEMENTS_AT_FIRST = 1 << 17
# So often it could be run meanwhile, at least: a process that finds the fused plan on disk is made
# slower by this rule, which should be worth it for the one that does not.
FEWEST_RUNS = 2
# So often a graph is run before fusing it would have paid, where it is fused in vain mostly.
RUNS_IN_VAIN = 100
# Of these nothing is computed there, however large they are.
_FREE = (*ALIASES, *REARRANGEMENTS)


def is_small(graph: FlatGraph) -> bool:
    """Whether a graph is small enough to be run operation by operation.

    With the functions that it calls and with all branches; not with the bodies of loops, which are
    compiled as a whole where they are much work (`first_tier/loop_work.py`), nor with what only
    they read. A larger one as well, if it takes twice as long to fuse it.
    """
    return first_tier_runs(graph) > 0


def is_small_each_time(graph: FlatGraph) -> bool:
    """The same of a graph that nobody remembers, whose segments alone would be compiled once."""
    return _runs_while_fusing(graph) >= RUNS_IN_VAIN


def _runs_while_fusing(graph: FlatGraph) -> float:
    """How often a graph could be run operation by operation in the time that it takes to fuse it,
    roughly; 0 if it is too large for that."""
    nodes, nbytes = _work(graph, {}, MOST_ELEMENTS_AT_FIRST)
    if math.isinf(nodes) or nbytes > MOST_BYTES_AT_FIRST:
        return 0.0
    run = SECONDS_OF_AN_OPERATION * nodes + SECONDS_OF_A_BYTE * nbytes
    return SECONDS_OF_ONE_UNLIKE * _count_unlike(graph) / run


_FAR = 256  # positions: a backward pass reads what is nearer and nearer, or farther and farther


def _count_unlike(graph: FlatGraph) -> int:
    """How many operations of a graph are not the same as others, of operands as far before them.

    Steps of a loop are segments that are equal, each compiled once. Where a loop goes through the
    elements of an array, each of them is an operation of its own.
    """
    degrees = np.diff(graph.starts)
    edges = graph.edges.astype(np.int64)
    is_given = np.zeros(len(graph.nodes), bool)
    is_given[graph.inputs] = True
    distances = np.repeat(np.arange(len(graph.nodes)), degrees) - edges
    distances[is_given[edges] | (distances > _FAR)] = 0
    numbers = np.arange(len(edges)) - np.repeat(graph.starts[:-1], degrees)  # of operands
    # Sums wrap around. Two are equal by chance once in 2 ** 64.
    ends = np.append(0, np.cumsum(_mixed(distances + (_FAR + 1) * (numbers + 1))))
    reads = ends[graph.starts[1:]] - ends[graph.starts[:-1]]
    # Not by `np.unique`, for which NumPy imports its masked arrays: 6 ms.
    ordered = np.sort(reads + _mixed(graph.signatures))
    return 1 + int(np.count_nonzero(np.diff(ordered)))


def _mixed(numbers: np.ndarray) -> np.ndarray:
    """Numbers of 64 bits whose sums tell which they were."""
    mixed = numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    return (mixed ^ (mixed >> np.uint64(32))).view(np.int64)


def first_tier_runs(graph: FlatGraph) -> int:
    """How often a graph is run operation by operation before it is fused: 0 if never."""
    graph.check_order()  # as is done where it is fused
    nodes, nbytes = _work(graph, {})
    runs = math.inf if nodes <= MOST_NODES and nbytes <= MOST_BYTES else _runs_while_fusing(graph)
    if runs < FEWEST_RUNS:
        return 0
    # As long as it takes to fuse it, in all: so that is never twice what the better way takes.
    return int(min(runs, RUNS_OF_FEW_ELEMENTS if _has_few_elements(graph) else RUNS))


def _has_few_elements(graph: FlatGraph) -> bool:
    if graph.calls:
        return False
    nodes = graph.nodes
    elements = sum([node.type.size for node in nodes])
    elements += sum(
        [
            nodes[k].type.size * _summed(graph, k)
            for k in graph.combining()
            if nodes[k].op.family == "contraction"
        ]
    )
    return elements <= FEW_ELEMENTS * len(graph.nodes)


_Part = tuple[ClosedGraph, tuple[int, ...]]  # some results of a function


def _work(
    graph: FlatGraph, known: dict[_Part, tuple[float, int]], most_elements: int = MOST_ELEMENTS
) -> tuple[float, int]:
    """How many operations a graph runs, infinitely many if one of them is large, and bytes of what
    they compute; `known`: of the functions that it calls, each of which is looked at once."""
    types = [node.type for node in graph.nodes]
    if _has_large(graph, [type.size for type in types], most_elements):
        return math.inf, 0
    nodes: float = len(types)
    nbytes = sum([type.nbytes for type in types])
    nbytes -= sum([graph.nodes[k].type.nbytes for k in {*graph.inputs}])
    for call, results in calls_of(graph).items():
        for target in once_run(call):
            part = target, tuple(results)
            if part not in known:
                known[part] = _work(graph_of(*part, graph.table), known, most_elements)
            nodes += known[part][0]
            nbytes += known[part][1]
    return nodes, nbytes


def _has_large(graph: FlatGraph, sizes: list[int], most_elements: int) -> bool:
    """Whether fusion would pay for an operation of a graph alone; `sizes`: of all of them."""
    nodes = graph.nodes
    if max(sizes, default=0) > most_elements:
        is_large = np.array(sizes) > most_elements
        is_free = {k for k, node in enumerate(nodes) if node.op.name in _FREE}
        is_free.update(graph.inputs, graph.calls)
        readers = np.repeat(np.arange(len(nodes)), np.diff(graph.starts))
        matter = {*np.flatnonzero(is_large).tolist(), *readers[is_large[graph.edges]].tolist()}
        if matter - is_free:
            return True
    return any(
        sizes[k] * _summed(graph, k) > MOST_PRODUCTS
        if nodes[k].op.family == "contraction"
        # One after the other: in blocks, as by fusion, the error is smaller.
        else _added(graph, k) > MOST_ELEMENTS
        for k in graph.combining()
    )


def _added(graph: FlatGraph, k: int) -> int:
    """How many elements make one of the reduction at position `k`."""
    reads = graph.edges[graph.starts[k] : graph.starts[k + 1]]
    return max((graph.nodes[x].type.size for x in reads.tolist()), default=0) // max(
        graph.nodes[k].type.size, 1
    )


def _summed(graph: FlatGraph, k: int) -> int:
    """How many products make an element of the contraction at position `k`."""
    return products_summed(graph.nodes[k].op.name, [graph.nodes[x].type for x in graph.reads(k)])
