"""What stands for a node is as old as that, is read in its place, and leaves nothing behind."""

import numpy as np

import numba_grad as ng
from numba_grad.graph.node import OPS, SERIALS_A_NODE, Node, argument
from numba_grad.graph.types import array_type
from numba_grad.transforms.rewrites.replaced_nodes import with_replaced

VECTOR = array_type((3,), np.dtype("float64"))
SIN, COS, EXP, NEGATIVE, MULTIPLY = (
    OPS[name] for name in ("sin", "cos", "exp", "negative", "multiply")
)


def negated_cosine(node: Node) -> Node | None:
    """Of sin(exp(x)), in two operations: `-cos(x)`."""
    if node.op is not SIN or node.inputs[0].op is not EXP:
        return None
    return NEGATIVE(COS(node.inputs[0].inputs[0]))


def test_users_read_what_is_new_and_what_nobody_reads_goes() -> None:
    x = argument(VECTOR, requires_grad=True)
    inner = EXP(x)
    old = SIN(inner)
    total = MULTIPLY(old, x)
    order = with_replaced([x, inner, old, total], {total}, negated_cosine)
    assert [node.op for node in order] == [x.op, COS, NEGATIVE, MULTIPLY]
    assert total.inputs == (order[2], x)
    serials = [node.serial for node in order]
    assert serials == sorted(serials) and old.serial <= serials[1] < serials[2] < total.serial


def test_rules_see_what_stands_for_inputs() -> None:
    x = argument(VECTOR, requires_grad=True)
    first = SIN(EXP(x))
    total = EXP(first)
    seen: list[tuple[Node, ...]] = []

    def rule(node: Node) -> Node | None:
        seen.append(node.inputs)
        return negated_cosine(node)

    last = SIN(total)
    with_replaced([x, first.inputs[0], first, total, last], {last}, rule)
    assert first not in [y for inputs in seen for y in inputs]
    assert total.inputs[0].op is NEGATIVE


def test_roots_and_what_is_held_stay() -> None:
    x = ng.tensor([0.1, 0.2, 0.3], requires_grad=True)
    held = np.sin(np.exp(x))
    total = np.exp(held)
    order = [held._node.inputs[0].inputs[0], held._node.inputs[0], held._node, total._node]
    assert with_replaced(order, {total._node}, negated_cosine) == order
    root = SIN(EXP(x._node))
    order = [x._node, root.inputs[0], root]
    assert with_replaced(order, {root}, negated_cosine) == order


def test_what_takes_more_operations_than_there_are_serial_numbers_stays() -> None:
    x = argument(VECTOR, requires_grad=True)
    old = SIN(EXP(x))
    total = MULTIPLY(old, x)
    order = [x, old.inputs[0], old, total]

    def chain(node: Node) -> Node | None:
        if node is not old:
            return None
        new = x
        for _ in range(SERIALS_A_NODE + 1):
            new = COS(new)
        return new

    assert with_replaced(order, {total}, chain) == order
    assert total.inputs == (old, x)


def test_between_nodes_that_a_loop_has_dated_there_are_few_serial_numbers() -> None:
    x = argument(VECTOR, requires_grad=True)
    old = SIN(EXP(x))
    total = MULTIPLY(old, x)
    total.serial = old.serial + 1
    order = [x, old.inputs[0], old, total]
    assert with_replaced(order, {total}, negated_cosine) == order
    total.serial = old.serial + 2
    order = with_replaced(order, {total}, negated_cosine)
    assert [node.op for node in order] == [x.op, COS, NEGATIVE, MULTIPLY]
    assert order[2].serial < total.serial
