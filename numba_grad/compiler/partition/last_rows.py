"""Stacked results of loops of which only the last step's row is read, as `ys[-1]`.

    final, ys = scan(step, x, rows)    ys[-1]    ->    final, where `step` returns what it carries

Where a step's result is what it carries on, that row is what the loop carries out in any case. So
the rows of the other steps need no memory, and no time to write them.
"""

import numpy as np

from numba_grad.compiler.partition.flat_graph import FlatGraph, FlatGraphWriter
from numba_grad.compiler.partition.roles import ALIASES
from numba_grad.graph.node import OPS, Node, argument, record
from numba_grad.ops.control import result


def with_last_rows(graph: FlatGraph) -> FlatGraph:
    """The graph that reads what loops carry out in place of such results."""
    carried: dict[int, int] = {}  # by position of a result: as which value
    readers: dict[int, int] = {}  # by position: along which axis the rows are
    for k, call in graph.calls.items():
        last_row = call.op.extras.get("last_row")
        if last_row is not None and k not in graph.outputs:
            found = last_row(graph.nodes[k].params["number"], **call.params)
            if found is not None:
                own = _readers_of_row(graph, k, found[1])
                if own is not None:
                    carried[k] = found[0]
                    readers |= own
    return _rewritten(graph, carried, readers) if carried else graph


def _readers_of_row(graph: FlatGraph, k: int, row: int) -> dict[int, int] | None:
    """The slices of a result at a row, with the axis of rows, and what else they are slices of: its
    transposes, in a batch, and other names. None if more than that row is read."""
    found: dict[int, int] = {}
    wholes = [(k, 0)]
    for whole, axis in wholes:
        ends = np.flatnonzero(graph.edges == whole)
        for reader in (np.searchsorted(graph.starts, ends, side="right") - 1).tolist():
            node = graph.nodes[reader]
            found[reader] = axis
            if node.op.name == "slice":
                if node.params["starts"][axis] != row or node.params["sizes"][axis] != 1:
                    return None
            elif reader in graph.outputs:
                return None
            elif node.op.name == "transpose":
                wholes.append((reader, node.params["axes"].index(axis)))
            elif node.op.name in ALIASES and reader not in graph.calls:
                wholes.append((reader, axis))
            else:
                return None
    return found


def _rewritten(graph: FlatGraph, carried: dict[int, int], readers: dict[int, int]) -> FlatGraph:
    writer = FlatGraphWriter(graph.table)
    results: dict[tuple[Node, int], int] = {}  # of loops: by its number, where it is
    place: list[int] = []  # of each node of `graph`
    for k, node in enumerate(graph.nodes):
        reads = [place[x] for x in graph.reads(k)]
        call = graph.calls.get(k)
        if k in readers and node.op.name in ALIASES:
            place += reads
        elif k in readers:
            params = node.params
            if node.op.name == "slice":
                axis, first = readers[k], params["starts"]
                params = params | {"starts": (*first[:axis], 0, *first[axis + 1 :])}
            one = argument(writer.nodes[reads[0]].type)
            place.append(writer.append(record(node.op, (one,), params), reads))
        elif call is None:
            place.append(writer.append(node, reads, int(graph.signatures[k])))
        else:
            number: int = carried[k] if k in carried else node.params["number"]
            if (call, number) not in results:
                own = node if k not in carried else result(call, number)
                results[call, number] = writer.append(own, reads, of=call)
            place.append(results[call, number])
            if k in carried:
                row = argument(writer.nodes[place[k]].type)
                stacked = record(OPS["reshape"], (row,), {"shape": (1, *row.shape)})
                place[k] = writer.append(stacked, [place[k]])
    return writer.graph([place[k] for k in graph.inputs], [place[k] for k in graph.outputs])
