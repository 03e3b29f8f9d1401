"""Whether a graph is run operation by operation since to fuse it would take too long."""

from collections.abc import Sequence

import numpy as np

from numba_grad.compiler.partition.flat_graph import FlatGraph, Role
from numba_grad.compiler.partition.roles import ASSIGNMENTS
from numba_grad.compiler.partition.segment_graphs import SegmentGraph
from numba_grad.ops.contraction import products_summed

# Operations in segments that differ. Each takes 1 to 1.7 ms to fuse and to compile, and 0.03 ms to
# plan alone. Steps of a loop are segments that are equal. Those that read a row more of a triangle
# than the step before are not: a factorization of 100 x 100 numbers by three loops is 140,000
# operations, no two segments of which are the same.
MOST_UNLIKE = 1 << 13
# Of an operation, in the mean. As many take 3 us, so fusing would pay after some 300 runs.
MOST_ELEMENTS = 1000


def is_too_much_to_fuse(graph: FlatGraph, segments: Sequence[SegmentGraph]) -> bool:
    """`segments`: those of the graph, which has its assemblies."""
    if len(graph.nodes) <= MOST_UNLIKE or graph.calls:
        return False
    unlike = sum({segment.key: len(segment.own) for segment in segments}.values())
    return unlike > MOST_UNLIKE and _elements_computed(graph) <= MOST_ELEMENTS * unlike


def _elements_computed(graph: FlatGraph) -> int:
    """How many elements the operations of a graph compute one by one."""
    nodes = graph.nodes
    elements = np.array([node.type.size for node in nodes], np.int64)
    is_free = graph.facts("role") != Role.COMPUTED
    is_free[graph.inputs] = True
    elements[is_free] = 0
    for k in np.flatnonzero(~is_free).tolist():
        node = nodes[k]
        if node.op.family == "contraction":
            elements[k] *= products_summed(node.op.name, [nodes[x].type for x in graph.reads(k)])
        elif node.op.name in ASSIGNMENTS:
            elements[k] = nodes[graph.reads(k)[1]].type.size  # mostly made in place
    return int(elements.sum())
