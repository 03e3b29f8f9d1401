"""Give values to recorded nodes, on the engine in force."""

from collections.abc import Sequence

import numpy as np

from numba_grad.compiler import engine_build
from numba_grad.compiler.pipeline import CompiledProgram, compile_program, value_inputs
from numba_grad.compiler.reference_engine import evaluate_with_numpy
from numba_grad.config import config
from numba_grad.errors import InternalError
from numba_grad.graph.node import ARGUMENT, Node


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
    for node, value in zip(pending, values, strict=True):
        node.value = value


def _evaluate_natively(targets: list[Node]) -> list[np.ndarray]:
    bases = [_without_reshapes(node) for node in targets]
    known = [base for base in dict.fromkeys(bases) if base.value is None]
    inputs = _known_nodes(known)
    computed: dict[Node, np.ndarray] = {}
    if known:
        program = compile_program(inputs, known)
        outputs = run(program, [node.value for node in inputs])
        computed = dict(zip(known, outputs, strict=True))
    return [
        (computed[base] if base.value is None else base.value).reshape(node.shape)
        for node, base in zip(targets, bases, strict=True)
    ]


def run(program: CompiledProgram, values: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The outputs of a program for values of its inputs."""
    return engine_build.native_engine().run(program.plan, values)


def _without_reshapes(node: Node) -> Node:
    """What has the same elements in the same order: values are never written to, so they can be shared."""
    while node.value is None and node.op.name in ("reshape", "detach", "identity"):
        node = node.inputs[0]
    return node


def _known_nodes(targets: Sequence[Node]) -> list[Node]:
    """The nodes with values that `targets` are computed from."""
    result: list[Node] = []
    seen: set[Node] = set()
    stack = list(targets)
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if node.value is not None:
            result.append(node)
        elif node.op is ARGUMENT:
            raise InternalError(f"evaluate: {node} has no value; it is the parameter of a traced function")
        else:
            stack += value_inputs(node)
    return result
