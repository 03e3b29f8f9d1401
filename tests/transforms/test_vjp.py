"""Reverse mode on nodes."""

import numpy as np
import pytest

import numba_grad as ng  # noqa: F401 - registers the operations
from numba_grad.errors import GradientError, InternalError
from numba_grad.graph.node import OPS, Op, leaf, new_node
from numba_grad.graph.types import array_type
from numba_grad.graph.walk import leading_to, toposort
from numba_grad.ops.control import aliases
from numba_grad.transforms.vjp import contributions, cotangents, reached
from tests.transforms.nodes import constant, item, value, variable


def test_only_what_gradients_flow_through_is_reached():
    x, c = variable(1.0), constant(2.0)
    y = x * c
    z = OPS["detach"](y) + x
    assert reached([z]) == [x, z]
    assert reached([y]) == [x, y]
    assert reached([c * c]) == []


def test_reached_on_the_way_to_targets():
    x, w = variable(1.0), variable(2.0)
    y = x * x
    v = w * w
    z = y * v
    assert reached([z], [y]) == [y, z]
    assert reached([z], [w]) == [w, v, z]
    assert leading_to(reached([z]), {x}) == {x, y, z}


def test_order_is_that_of_recording():
    x = variable(1.0)
    a = x * x
    b = a + x
    c = a * b
    assert reached([c, b]) == [x, a, b, c]


def test_nothing_flows_outside_of_the_order():
    x, w = variable(3.0), variable(2.0)
    y = x * w
    found = cotangents([y], [constant(1.0)], [x, y])
    assert w not in found
    assert value(found[x]) == 2.0


def test_a_root_given_twice_gets_the_sum():
    x = variable(3.0)
    y = x * x
    found = cotangents([y, y], [constant(1.0), constant(10.0)], reached([y]))
    assert value(found[x]) == 66.0


def test_items_and_tuples():
    x, w = variable(3.0), variable(2.0)
    pair = aliases([x * x, w])
    y = item(pair, 0) * item(pair, 1) + item(pair, 1)
    found = cotangents([y], [constant(1.0)], reached([y]))
    assert value(y) == 20.0
    assert value(found[x]) == 12.0
    assert value(found[w]) == 10.0
    assert [value(g) for g in found[pair]] == [2.0, 10.0]


def test_items_without_a_cotangent():
    x, w = variable(3.0), variable(2.0)
    pair = aliases([x * x, w])
    y = item(pair, 0)
    found = cotangents([y], [constant(1.0)], reached([y]))
    assert value(found[x]) == 6.0
    assert w not in found
    assert found[pair][1] is None


def test_differentiate_takes_over_where_there_is_a_record():
    x = variable(3.0)
    y = x * x
    y.autograd = "anything"
    z = y * y
    seen = []

    def differentiate(node, g):
        seen.append((node, value(g)))
        return contributions(node, g * constant(10.0), {x})

    found = cotangents([z], [constant(1.0)], reached([z]), None, differentiate)
    assert seen == [(y, 18.0)]
    assert value(found[x]) == 10 * 4 * 27.0
    assert x not in cotangents([z], [constant(1.0)], reached([z]), None, lambda node, g: None)


def test_released_history_is_refused():
    x = variable(3.0)
    y = x * x
    y.released = True
    with pytest.raises(GradientError, match="second time"):
        cotangents([y], [constant(1.0)], reached([y]))
    found = cotangents([y], [constant(1.0)], reached([y], [y]))
    assert list(found) == [y]


def _broken_op(name, vjp):
    return Op(name, "test", ("x",), lambda x: x, vjp, saves=())


def test_errors_in_rules_name_the_operation():
    def fail(k, g, out, x):
        raise KeyError("mine")

    x = variable(3.0)
    y = new_node(_broken_op("test_fails", fail), (x,), {}, x.type, None, True)
    try:
        with pytest.raises(KeyError) as caught:
            cotangents([y], [constant(1.0)], reached([y]))
        assert "in the derivative of test_fails for its input 0" in caught.value.__notes__[0]
    finally:
        del OPS["test_fails"]


def test_cotangents_of_another_type_are_a_bug():
    def wrong(k, g, out, x):
        return leaf(np.ones(7))

    x = variable(3.0)
    y = new_node(_broken_op("test_wrong", wrong), (x,), {}, x.type, None, True)
    try:
        with pytest.raises(InternalError, match="vjp of test_wrong"):
            cotangents([y], [constant(1.0)], reached([y]))
    finally:
        del OPS["test_wrong"]
    assert y.type == array_type((1,), np.dtype(float))


@pytest.mark.parametrize("whole", [0, 1, 2, 3])
def test_parts_are_added_to_what_comes_through_all_and_not_to_zeros(whole):
    """Also where that comes last: of `y = x.copy()`, which is recorded first."""
    x = variable(*np.linspace(1.0, 2.0, 300))
    roots = []
    for k in range(4):
        if k == whole:
            roots.append(x * constant(2.0))
        else:
            roots.append(OPS["sin"](OPS["slice"](x, starts=(k % 3,), sizes=(2,), steps=(1,))))
    seeds = [leaf(np.arange(1.0, root.type.size + 1) * 10**k) for k, root in enumerate(roots)]
    g = cotangents(roots, seeds, reached(roots))[x]
    expected = np.zeros(300)
    for k, seed in enumerate(seeds):
        part = slice(None) if k == whole else slice(k % 3, k % 3 + 2)
        slope = 2 if k == whole else np.cos(np.asarray(x.value)[part])
        expected[part] += np.asarray(seed.value) * slope
    np.testing.assert_allclose(value(g), expected, rtol=1e-15)
    assert {"pad", "add"}.isdisjoint(node.op.name for node in toposort([g]))
