"""Orders of a graph, and replacing parts of it."""

import numpy as np

from numba_grad.graph.node import OPS, argument, leaf, recording
from numba_grad.graph.types import array_type
from numba_grad.graph.walk import lets_gradients_through, substitute, toposort, users

FLOATS = array_type((3,), np.dtype(np.float64))


def test_inputs_come_before_users_and_each_node_once():
    x = argument(FLOATS)
    y = OPS["exp"](x)
    z = OPS["add"](y, y)
    out = OPS["multiply"](z, y)
    assert toposort([out, z]) == [x, y, z, out]


def test_the_order_is_depth_first_from_left_to_right():
    x, y = argument(FLOATS), argument(FLOATS)
    left, right = OPS["sin"](x), OPS["cos"](y)
    out = OPS["add"](right, left)
    assert toposort([out]) == [y, right, x, left, out]


def test_a_node_that_stops_is_included_and_its_inputs_are_not():
    x = argument(FLOATS)
    y = OPS["exp"](x)
    out = OPS["sin"](y)
    assert toposort([out], stop=lambda node: node is y) == [y, out]


def test_a_chain_of_20_000_nodes():
    x = argument(FLOATS)
    out = x
    for _ in range(20_000):
        out = OPS["negative"](out)
    order = toposort([out])
    assert len(order) == 20_001
    assert order[0] is x
    assert order[-1] is out
    new = argument(FLOATS)
    assert toposort(substitute([out], {x: new}))[0] is new


def test_users_count_each_reading_argument():
    x = argument(FLOATS)
    y = OPS["multiply"](x, x)
    z = OPS["add"](y, x)
    assert users([x, y, z]) == {x: [y, y, z], y: [z], z: []}
    assert users([y, z]) == {y: [z], z: []}


def test_substitute_keeps_what_does_not_change():
    x, y = argument(FLOATS), argument(FLOATS)
    kept, changed = OPS["exp"](y), OPS["exp"](x)
    out = OPS["add"](kept, changed)
    (new,) = substitute([out], {x: y})
    assert new is not out
    assert new.inputs[0] is kept
    assert new.inputs[1].inputs == (y,)
    assert substitute([kept], {x: y}) == [kept]


def test_substitute_applies_change_to_every_node():
    x = argument(FLOATS)
    out = OPS["exp"](OPS["exp"](x))

    def change(node):
        return OPS["sin"](*node.inputs) if node.op.name == "exp" else None

    (new,) = substitute([out], {}, change)
    assert [node.op.name for node in toposort([new])] == ["argument", "sin", "sin"]


def test_nodes_with_values_are_not_looked_behind():
    x = leaf(np.ones(3))
    out = OPS["exp"](x)
    out.value = np.full(3, np.e)
    assert substitute([out], {x: argument(FLOATS)}) == [out]


def test_what_is_recorded_without_gradients_lets_none_through():
    x = leaf(np.ones(3), requires_grad=True)
    with recording(False):
        aside = OPS["sin"](x)
    assert not lets_gradients_through(aside)
    assert not lets_gradients_through(OPS["detach"](x))
    assert lets_gradients_through(OPS["sin"](aside))
    # Recorded anew, these have no gradient either.
    assert lets_gradients_through(OPS["greater"](x, x))
    assert lets_gradients_through(OPS["cast"](x, dtype=np.dtype(int)))
