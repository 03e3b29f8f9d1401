"""Give values to recorded nodes, on the engine in force."""

from collections import OrderedDict
from collections.abc import Callable, Sequence

import numpy as np

from numba_grad.compiler import engine_build
from numba_grad.compiler.flat_graph import flatten
from numba_grad.compiler.pipeline import CompiledProgram, compile_flat
from numba_grad.compiler.reference_engine import evaluate_with_numpy
from numba_grad.config import config
from numba_grad.graph.collection import CollectionPaused
from numba_grad.graph.node import Node
from numba_grad.graph.types import Type
from numba_grad.locks import Lock


def evaluate(targets: Sequence[Node]) -> None:
    """Compute `targets` in one program and set their `value`.

    Raises
    ------
    IndexError, LinAlgError
        What the values turn out to be wrong for; then no value is set.
    """
    pending = list(dict.fromkeys(node for node in targets if node.value is None))
    if not pending:
        return
    if config.engine == "reference":
        values = evaluate_with_numpy(pending)
    else:
        values = _evaluate_natively(pending)
    with _graph_lock:
        for node, value in zip(pending, values, strict=True):
            if node.value is None:
                node.value = value
            if not node.requires_grad:
                node.inputs = ()  # else a loop that asks for values would keep all of its past


# Held while a graph is read or changed here, not while kernels run: two threads may want values
# of graphs that have nodes in common.
_graph_lock = Lock()


def _evaluate_natively(targets: list[Node]) -> list[np.ndarray]:
    with _graph_lock:
        bases = [_without_reshapes(node) for node in targets]
        values = {base: base.value for base in bases}
        known = [base for base, value in values.items() if value is None]
        inputs, program = _program_for(known) if known else ([], None)
        input_values = [node.value for node in inputs]
    if program is not None:
        values.update(zip(known, runner(program)(*input_values), strict=True))
    return [values[base].reshape(node.shape) for node, base in zip(targets, bases, strict=True)]


# Programs by the structure of their graph: a training loop records the same one each time. Longer
# graphs are not kept: their segments are, and a key takes memory for every node.
_programs: OrderedDict[tuple, tuple[CompiledProgram, list[Type]]] = OrderedDict()
_programs_lock = Lock()
_MOST_PROGRAMS = 256
_LONGEST_KEPT = 50_000


def _program_for(targets: list[Node]) -> tuple[list[Node], CompiledProgram]:
    """The nodes with values that `targets` are computed from, and the program for graphs like
    this."""
    with CollectionPaused():
        graph = flatten(targets)
    inputs = [graph.nodes[k] for k in graph.inputs]
    if len(graph.nodes) > _LONGEST_KEPT:
        return inputs, compile_flat(graph)
    key = (graph.key, config.unroll_extent)
    with _programs_lock:
        found = _programs.get(key)
        if found is not None:
            _programs.move_to_end(key)
            return inputs, found[0]
    program = compile_flat(graph)
    with _programs_lock:
        _programs[key] = (program, graph.types)
        while len(_programs) > _MOST_PROGRAMS:
            _programs.popitem(last=False)
    return inputs, program


def runner(program: CompiledProgram) -> Callable[..., list[np.ndarray]]:
    """What takes the values of a program's inputs and returns its outputs."""
    return engine_build.native_engine().program(program.plan).run


def _without_reshapes(node: Node) -> Node:
    """What has the same elements in the same order: values are never written to, so they can be
    shared."""
    while node.value is None and node.op.name in ("reshape", "detach", "identity"):
        node = node.inputs[0]
    return node
