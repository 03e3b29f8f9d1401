"""Graphs as arrays: the same ones, however positions are looked up."""

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.compiler.partition import flat_graph
from numba_grad.compiler.partition.flat_graph import flatten
from numba_grad.errors import InternalError
from numba_grad.graph.node import OPS, argument
from numba_grad.graph.types import array_type


def described(graph):
    arrays = (graph.signatures, graph.starts, graph.edges)
    assert all(array.dtype == np.int32 for array in arrays)
    return graph.nodes, [array.tolist() for array in arrays], graph.inputs, graph.outputs


@pytest.mark.parametrize("has_inputs", [True, False])
def test_long_graphs_are_flattened_as_short_ones(monkeypatch, has_inputs):
    late, early = ng.tensor(np.ones(3)), ng.tensor(np.full(3, 2.0))  # recorded before it is read
    y, steps = early * late, []
    for k in range(20):
        y = y * late[k % 3] + early
        steps.append(y)
    outputs = [y._node, steps[4]._node]
    inputs = [early._node, late._node] if has_inputs else None
    short = described(flatten(outputs, inputs))
    monkeypatch.setattr(flat_graph, "_MANY", 1)
    assert described(flatten(outputs, inputs)) == short
    nodes, (_, starts, edges), own_inputs, own_outputs = short
    for k, node in enumerate(nodes):
        reads = [nodes[x] for x in edges[starts[k] : starts[k + 1]]]
        assert reads == ([] if k in own_inputs else list(node.inputs))
    assert [nodes[k] for k in own_outputs] == outputs
    assert [nodes[k] for k in own_inputs] == [early._node, late._node]


def test_nodes_of_one_number_are_told_apart(monkeypatch):
    """Copies have those of their originals."""
    x = ng.tensor(np.ones(3))
    y, z = x + 1.0, x * 2.0
    z._node.serial = y._node.serial
    outputs = [(y * z)._node, (y - z)._node]
    monkeypatch.setattr(flat_graph, "_MANY", 1)
    graph = flatten(outputs, [x._node])
    for k in graph.outputs:
        assert [graph.nodes[j] for j in graph.reads(k)] == [y._node, z._node]


def test_hashes_are_those_of_what_nodes_do():
    """Cuts depend on them: so not on who came first with equal params, or where something is."""

    def of_params(params):
        table = flat_graph.Signatures()
        node = argument(array_type((1,), np.dtype(float)))
        node.op, node.params = OPS["slice"], params
        number = table.number(node)
        table.hash_all()
        return int(table.facts["hash"][number])

    first = of_params({"starts": (1, 0), "bounds": (True, 1.0, 0.0, "a", b"b", None)})
    assert of_params({"starts": (np.int64(1), -0.0), "bounds": (1, 1, 0, "a", b"b", None)}) == first
    assert of_params({"starts": (2, 0), "bounds": (True, 1.0, 0.0, "a", b"b", None)}) != first
    assert of_params({"function": lambda: 1}) == of_params({"function": lambda: 2})


def test_what_reads_what_comes_after_it_is_refused():
    """Operations that are run one by one would read what is not there yet."""
    x = ng.tensor(np.ones(3))
    y = x + 1.0
    z = y * 2.0
    y._node.serial = z._node.serial + 1
    with pytest.raises(InternalError, match="reads what comes after it"):
        z.numpy()
