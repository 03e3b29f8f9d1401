"""A graph as text: for dumps, golden files and Graphviz."""

from collections.abc import Sequence
from textwrap import indent
from typing import Any

import numpy as np

from numba_grad.graph.node import Node
from numba_grad.graph.walk import toposort


def as_text(inputs: Sequence[Node], outputs: Sequence[Node]) -> str:
    """A line for each node, inputs before users: `%3 = multiply(%1, %2)  float64[10]`.

    Then each graph in their params, that of a called function or of a loop's body, by its name.
    """
    texts = [_lines(inputs, outputs)]
    shown: set[int] = set()
    graphs = _graphs_in(_all_nodes(inputs, outputs))
    for graph in graphs:  # grows while it is walked
        if id(graph) not in shown:
            shown.add(id(graph))
            texts.append(f"{graph.name}:\n{indent(_lines(graph.arguments, graph.outputs), '    ')}")
            graphs += _graphs_in(_all_nodes(graph.arguments, graph.outputs))
    return "\n\n".join(texts)


def _lines(inputs: Sequence[Node], outputs: Sequence[Node]) -> str:
    names = {node: f"%{k}" for k, node in enumerate(_all_nodes(inputs, outputs))}
    given = set(inputs)
    lines = [f"{name} = {_call(node, names, given)}  {node.type}" for node, name in names.items()]
    return "\n".join([*lines, f"return {', '.join(names[node] for node in outputs)}"])


def _graphs_in(nodes: Sequence[Node]) -> list[Any]:
    """The graphs that are params of nodes."""
    found: list[Any] = []
    for node in nodes:
        for value in node.params.values():
            found += value if value.__class__ is tuple else (value,)
    return [x for x in found if hasattr(x, "arguments") and hasattr(x, "outputs")]


def as_dot(inputs: Sequence[Node], outputs: Sequence[Node]) -> str:
    """The graph in Graphviz's language."""
    names = {node: f"n{k}" for k, node in enumerate(_all_nodes(inputs, outputs))}
    results, given = set(outputs), set(inputs)
    lines = []
    for node, name in names.items():
        shape = "box" if node.op.family == "leaf" else "ellipse"
        style = ", style=bold" if node in results else ""
        lines.append(f'  {name} [label="{node.op.name}\\n{node.type}", shape={shape}{style}];')
        if node not in given:
            lines += [f"  {names[x]} -> {name};" for x in node.inputs]
    return "\n".join(["digraph {", *lines, "}"])


def _all_nodes(inputs: Sequence[Node], outputs: Sequence[Node]) -> list[Node]:
    known = set(inputs)
    return list(dict.fromkeys([*inputs, *toposort(outputs, stop=known.__contains__)]))


def _call(node: Node, names: dict[Node, str], given: set[Node]) -> str:
    if node.op.family == "leaf":
        return node.op.name
    if node in given:
        return "input"
    parts = [names[x] for x in node.inputs]
    parts += [f"{name}={_param(node, name)}" for name in node.params]
    return f"{node.op.name}({', '.join(parts)})"


def _param(node: Node, name: str) -> str:
    value = node.params[name]
    if name == "bytes":
        return str(np.frombuffer(value, node.dtype)[0])
    if value.__class__ is tuple and value and hasattr(value[0], "outputs"):
        return f"({', '.join(graph.name for graph in value)})"
    return getattr(value, "name", None) or str(value)
