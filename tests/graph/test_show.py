"""Graphs as text."""

import numpy as np

from numba_grad.graph.node import OPS, argument, leaf
from numba_grad.graph.show import as_dot, as_text
from numba_grad.graph.types import array_type


def small_graph():
    x = argument(array_type((10,), np.dtype(np.float64)))
    return x, OPS["sum"](OPS["multiply"](x, x), axes=(0,))


def test_text_has_a_line_for_each_node():
    x, out = small_graph()
    lines = as_text([x], [out]).splitlines()
    assert [line.split("  ")[0] for line in lines] == [
        "%0 = argument",
        "%1 = multiply(%0, %0)",
        "%2 = sum(%1, axes=(0,))",
        "return %2",
    ]
    assert all(
        line.endswith(str(node.type))
        for line, node in zip(lines, (x, *[out.inputs[0], out]), strict=False)
    )


def test_dot_has_a_node_and_an_edge_for_each():
    x, out = small_graph()
    text = as_dot([x], [out])
    assert text.startswith("digraph {")
    assert text.endswith("}")
    assert text.count("label=") == 3
    assert text.count("n0 -> n1;") == 2
    assert text.count("n1 -> n2;") == 1
    assert text.count("shape=box") == 1
    assert text.count("style=bold") == 1


def test_an_input_with_history_is_shown_as_an_input() -> None:
    x = leaf(np.ones(3))
    y = OPS["negative"](x)
    z = OPS["negative"](y)
    assert as_text([y], [z]).splitlines()[0].startswith("%0 = input")
    assert "->" in as_dot([y], [z])
