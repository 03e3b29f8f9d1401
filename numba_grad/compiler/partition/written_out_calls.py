"""Calls of functions that are loops themselves, in the words of the graph that calls them.

    y = call(f, x); z = sin(y)    ->    y0 = x * r0; y1 = y0 * r1; ...; z = sin(y99), f's own loop

A call is computed by one segment, which a function of a loop, up to 600 operations and twice as
many in its derivative, would make a kernel of thousands of lines. Written out, its operations are
cut as any others are: a step of its loop is compiled once. What recording gains by a call stays, as
this is done when a graph is compiled.
"""

from collections import Counter

from numba_grad.compiler.partition.flat_graph import (
    ClosedGraph,
    FlatGraph,
    FlatGraphWriter,
    flatten,
    target_of,
)
from numba_grad.compiler.partition.segment_graphs import has_several_segments
from numba_grad.compiler.partition.segments import FEWEST_NODES_OF_INNER_LOOP
from numba_grad.graph.node import OPS, Node, argument, record

# Of all calls of a function: a step that is called thousands of times stays one segment.
MOST_WRITTEN_OUT = 20_000


def with_long_calls_written_out(graph: FlatGraph) -> FlatGraph:
    """The graph with the operations of functions that have loops in the place of their calls."""
    calls = {call: None for call in graph.calls.values() if call.op.name == "call"}
    counts = Counter([target_of(call) for call in calls])
    bodies = {target: _body(target) for target in counts}
    chosen = {
        target: body
        for target, body in bodies.items()
        if counts[target] * len(body.nodes) <= MOST_WRITTEN_OUT and _is_loop(target, body)
    }
    if not chosen:
        return graph
    return _written_out(graph, {x: chosen[target_of(x)] for x in calls if target_of(x) in chosen})


def _body(target: ClosedGraph) -> FlatGraph:
    return target.derived("flat", lambda: flatten(target.outputs, target.arguments))


def _is_loop(target: ClosedGraph, body: FlatGraph) -> bool:
    """Whether a function alone would be cut into several segments. One that calls others, or has
    loops or branches as operations, stays whole."""
    if len(body.nodes) < FEWEST_NODES_OF_INNER_LOOP or body.calls:
        return False

    return target.derived("is loop", lambda: has_several_segments(body))


def _written_out(graph: FlatGraph, bodies: dict[Node, FlatGraph]) -> FlatGraph:
    """The graph in which these calls are their functions' operations. A result is an alias of what
    computes it: several may be one value, or an argument."""
    writer = FlatGraphWriter(graph.table)
    place: list[int] = []  # of each node of `graph`
    places_inside: dict[Node, list[int]] = {}  # of each node of the function of a call
    for k, node in enumerate(graph.nodes):
        reads = [place[x] for x in graph.reads(k)]
        call = graph.calls.get(k)
        if call not in bodies:
            place.append(writer.append(node, reads, int(graph.signatures[k]), call))
            continue
        body = bodies[call]
        if call not in places_inside:
            inside = dict(zip(body.inputs, reads, strict=True))
            for j, operation in enumerate(body.nodes):
                if j not in inside:
                    # The table of numbers may be another one by now.
                    signature = int(body.signatures[j]) if body.table is graph.table else None
                    inside[j] = writer.append(
                        operation, [inside[x] for x in body.reads(j)], signature
                    )
            places_inside[call] = [inside[j] for j in body.outputs]
        alias = record(OPS["identity"], (argument(node.type),))
        source = places_inside[call][node.params["number"]]
        place.append(writer.append(alias, [source]))
    return writer.graph([place[k] for k in graph.inputs], [place[k] for k in graph.outputs])
