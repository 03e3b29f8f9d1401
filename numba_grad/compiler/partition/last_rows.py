"""Stacked results of loops of which only the last step's row is read, as `ys[-1]`.

Where a step's result is what it carries on, that row is what the loop carries out in any case. So
the rows of the other steps need no memory, and no time to write them.
"""

from collections.abc import Collection

import numpy as np

from numba_grad.compiler.partition.flat_graph import FlatGraph
from numba_grad.graph.node import OPS, Node, argument, record
from numba_grad.ops.control import result


def with_last_rows(graph: FlatGraph) -> FlatGraph:
    """The graph that reads what loops carry out in place of such results."""
    carried: dict[int, tuple[int, int]] = {}  # by position: as which value, and which row that is
    for k, call in graph.calls.items():
        last_row = call.op.extras.get("last_row")
        if last_row is not None and k not in graph.outputs:
            found = last_row(graph.nodes[k].params["number"], **call.params)
            if found is not None:
                carried[k] = found
    if not carried:
        return graph
    reader = np.repeat(np.arange(len(graph.nodes)), np.diff(graph.starts))
    readers = {k: reader[graph.edges == k].tolist() for k in carried}
    for k, found in readers.items():
        if not all(_is_of_row(graph.nodes[x], carried[k][1]) for x in found):
            del carried[k]
    rows = {x for k in carried for x in readers[k]}
    return _rewritten(graph, {k: of[0] for k, of in carried.items()}, rows) if carried else graph


def _is_of_row(node: Node, row: int) -> bool:
    if node.op.name != "slice":
        return False
    return node.params["starts"][0] == row and node.params["sizes"][0] == 1


def _rewritten(graph: FlatGraph, carried: dict[int, int], rows: Collection[int]) -> FlatGraph:
    """`rows`: the slices of the results in `carried`."""
    nodes: list[Node] = []
    signatures: list[int] = []
    starts = [0]
    edges: list[int] = []
    calls: dict[int, Node] = {}
    results: dict[tuple[Node, int], int] = {}  # of loops: by its number, where it is

    def append(node: Node, reads: list[int], signature: int | None = None) -> int:
        nodes.append(node)
        signatures.append(graph.table.number(node) if signature is None else signature)
        edges.extend(reads)
        starts.append(len(edges))
        return len(nodes) - 1

    place: list[int] = []  # of each node of `graph`
    for k, node in enumerate(graph.nodes):
        reads = [place[x] for x in graph.edges[graph.starts[k] : graph.starts[k + 1]].tolist()]
        if k in rows:
            [source] = reads
            one = (1, *nodes[source].shape)
            row = record(OPS["reshape"], (argument(nodes[source].type),), {"shape": one})
            at = append(row, reads)
            params = node.params | {"starts": (0, *node.params["starts"][1:])}
            place.append(append(record(OPS["slice"], (argument(row.type),), params), [at]))
            continue
        call = graph.calls.get(k)
        if call is None:
            place.append(append(node, reads, int(graph.signatures[k])))
            continue
        number: int = carried[k] if k in carried else node.params["number"]
        if (call, number) not in results:
            own = node if k not in carried else result(call, number)
            results[call, number] = append(own, reads)
            calls[results[call, number]] = call
        place.append(results[call, number])
    return FlatGraph(
        nodes,
        np.array(signatures, np.int32),
        np.array(starts, np.int32),
        np.array(edges, np.int32),
        [place[k] for k in graph.inputs],
        [place[k] for k in graph.outputs],
        calls,
        graph.table,
    )
