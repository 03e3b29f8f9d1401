"""Results of a user's kernel that are outputs of a program: views of the array that has them all.

    both = custom_kernel(x); outputs both[:n], both[n:]    ->    no copies of these slices

A kernel computes several results into one array (`ops/custom_kernels.py`). Each that is an output
would be copied; here the array is in the outputs' own memory, one allocation, in which each output
has its place. The gradients of a kernel with three arrays take a tenth less time so.
"""

from numba_grad.compiler.partition.flat_graph import FlatGraph
from numba_grad.compiler.partition.roles import ALIASES
from numba_grad.runtime.plan import JointOutputs

# Smaller ones are copied in less time than views are made in.
_FEWEST_BYTES = 1 << 15


def joint_outputs(graph: FlatGraph) -> dict[int, JointOutputs]:
    """By position of the array: the outputs in it, of which the first stands at its start."""
    outputs = set(graph.outputs)
    found: dict[int, list[tuple[int, int]]] = {}
    for number, k in enumerate(graph.outputs):
        whole, is_view = _source(graph, k)
        node = graph.nodes[whole]
        if is_view and node.op.name == "slice" and node.params["steps"] == (1,):
            array = int(graph.edges[graph.starts[whole]])
            if graph.nodes[array].op.name == "custom_kernel" and array not in outputs:
                first = node.params["starts"][0] * node.type.dtype.itemsize
                found.setdefault(array, []).append((first, number))
    result: dict[int, JointOutputs] = {}
    for array, pieces in found.items():
        pieces.sort()
        end = 0
        places: list[tuple[int, int]] = []
        for first, number in pieces:
            nbytes = graph.nodes[graph.outputs[number]].type.nbytes
            if first >= end and (places or first == 0):
                places.append((number, first))
                end = first + nbytes
        nbytes = graph.nodes[array].type.nbytes
        used = sum(graph.nodes[graph.outputs[number]].type.nbytes for number, _ in places)
        # What is no output lives as long as they do.
        if used >= _FEWEST_BYTES and 2 * used >= nbytes:
            result[array] = JointOutputs(tuple(places), nbytes)
    return result


def _source(graph: FlatGraph, k: int) -> tuple[int, bool]:
    """What a node has the elements of, and whether there is such a thing."""
    while graph.nodes[k].op.name in (*ALIASES, "reshape") and k not in graph.calls:
        if graph.starts[k] == graph.starts[k + 1]:
            return k, False
        k = int(graph.edges[graph.starts[k]])
    return k, graph.starts[k] < graph.starts[k + 1]
