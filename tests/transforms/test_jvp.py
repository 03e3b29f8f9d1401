"""Forward mode on nodes."""

import numpy as np
import pytest

import numba_grad as ng  # noqa: F401 - registers the operations
from numba_grad.errors import GradientError, InternalError, ShapeError
from numba_grad.graph import node as node_module
from numba_grad.graph.node import OPS, Op, argument, leaf
from numba_grad.graph.types import array_type
from numba_grad.graph.walk import toposort
from numba_grad.ops import all_ops
from numba_grad.ops.control import aliases
from numba_grad.transforms import jvp as jvp_module
from numba_grad.transforms.batch import batch
from numba_grad.transforms.call import call
from numba_grad.transforms.call_target import CallTarget
from numba_grad.transforms.jvp import pushed_forward, tangents
from numba_grad.transforms.vjp import cotangents
from tests.transforms.nodes import constant, item, value, variable


def again(roots, given, since, is_recorded=True):
    return pushed_forward(roots, given, since=since.serial, is_recorded=is_recorded)


def test_tangents_of_roots():
    x, w = variable(3.0), variable(2.0)
    y, z = x * w, x + x
    of_y, of_z, of_x = tangents([y, z, x], {x: constant(1.0), w: constant(10.0)})
    assert value(of_y) == 2.0 + 30.0
    assert value(of_z) == 2.0
    assert value(of_x) == 1.0


def test_none_stands_for_zero():
    x, w = variable(3.0), variable(2.0)
    of_y, of_w, of_constant = tangents([x * x, w, constant(1.0)], {x: constant(1.0), w: None})
    assert value(of_y) == 6.0
    assert of_w is None
    assert of_constant is None


def test_tangents_flow_through_what_requires_grad_only():
    x = variable(3.0)
    of_y, of_z = tangents([OPS["detach"](x) * x, OPS["floor"](x)], {x: constant(1.0)})
    assert value(of_y) == 3.0
    assert of_z is None


def test_a_zero_tangent_costs_no_operation():
    """The tangent of x * w + w in x alone is one product, and nothing of w's."""
    x, w = variable(3.0), variable(2.0)
    y = x * w + w
    t = constant(1.0)
    (of_y,) = tangents([y], {x: t, w: None})
    assert [n.op.name for n in toposort([of_y], stop=lambda n: n.value is not None)] == [
        "leaf",
        "leaf",
        "multiply",
    ]


def test_a_given_node_has_its_tangent_whatever_is_below_it():
    x = variable(3.0)
    y = x * x
    (of_z,) = tangents([y * y], {x: constant(1.0), y: constant(1.0)})
    assert value(of_z) == 18.0


def test_items_and_tuples():
    x, w = variable(3.0), variable(2.0)
    pair = aliases([x * x, w])
    (of_y,) = tangents([item(pair, 0) * item(pair, 1)], {x: constant(1.0)})
    assert value(of_y) == 12.0


def test_values_and_tangents_are_recorded_side_by_side():
    """Else a loop would keep all its values until the first tangent is computed."""
    x, t = variable(0.5), constant(1.0)
    y = x
    for _ in range(5):
        y = OPS["sin"](y)
    last = y.serial
    (y_again,), (of_y,) = again([y], {x: t}, x)
    order = sorted(
        toposort([y_again, of_y], stop=lambda n: n.serial <= last), key=lambda n: n.serial
    )
    names = [n.op.name for n in order if n.serial > last]
    assert names == ["sin", "cos", "multiply"] * 5
    assert value(y_again) == value(y)


def test_what_is_known_is_not_recorded_again():
    x = variable(0.5)
    y = OPS["sin"](x)
    y.value = value(y)
    z = y * x
    (z_again,), (of_z,) = again([z], {x: constant(1.0)}, x)
    assert z_again.inputs[0] is y
    np.testing.assert_allclose(value(of_z), np.cos(0.5) * 0.5 + np.sin(0.5))


def test_what_was_recorded_before_stays():
    x = variable(0.5)
    before = OPS["sin"](constant(1.0))
    y = OPS["identity"](x)
    (z,), (of_z,) = again([before * y], {y: constant(1.0)}, y)
    assert z.inputs[0] is before
    assert of_z.inputs[0] is before


def test_values_and_tangents_have_history_as_asked():
    x = variable(0.5)
    for is_recorded in (True, False):
        (y,), (of_y,) = again([OPS["sin"](x)], {x: constant(1.0)}, x, is_recorded)
        assert y.requires_grad
        assert of_y.requires_grad == is_recorded


@pytest.mark.thorough
def test_a_chain_of_100000_operations_takes_linear_time_and_no_recursion(monkeypatch):
    """Three operations are recorded for each: the value again, the slope, the product."""
    x = variable(0.5)
    y = x
    for _ in range(100_000):
        y = OPS["sin"](y)
    count = 0

    def note(node):
        nonlocal count
        count += 1

    monkeypatch.setattr(node_module, "observer", note)
    again([y], {x: constant(1.0)}, x)
    assert count == 300_000


def test_an_operation_without_a_rule_gets_its_tangent_from_its_vjp():
    def vjp(k, g, out, x, y):
        return (g * y, g * OPS["cos"](x))[k]

    op = Op("tangents_test_op", "elementwise", ("x", "y"), lambda x, y: x, vjp)
    try:
        x, y = variable(3.0), variable(2.0)
        out = op(x, y)
        (of_out,) = tangents([out], {x: constant(1.0), y: constant(10.0)})
        (of_x,) = tangents([out], {x: constant(1.0)})
        np.testing.assert_allclose(value(of_out), 2.0 + 10.0 * np.cos(3.0))
        assert value(of_x) == 2.0
    finally:
        del OPS[op.name]


def test_the_tangent_from_a_vjp_looks_at_this_operation_alone(monkeypatch):
    """Not at the history of its inputs, or long programs would take quadratic time."""
    orders = []

    def seen(roots, seeds, order):
        orders.append(order)
        return cotangents(roots, seeds, order)

    monkeypatch.setattr(jvp_module, "cotangents", seen)
    x = leaf(np.eye(3), requires_grad=True)
    for _ in range(50):
        x = x + x
    out = all_ops()["svdvals"](x)
    tangents([out], {x: x})
    assert orders
    assert all(node.serial > out.serial for order in orders for node in order)


def test_a_vjp_that_has_no_derivative_is_an_error():
    def vjp(k, g, out, x):
        return OPS["detach"](g) * x

    op = Op("no_tangent_test_op", "elementwise", ("x",), lambda x: x, vjp)
    try:
        x = variable(3.0)
        with pytest.raises(
            GradientError, match=r"(?s)no_tangent_test_op: there is no tangent.*jvp"
        ):
            tangents([op(x)], {x: constant(1.0)})
    finally:
        del OPS[op.name]


def test_a_rule_that_gives_another_type_is_an_error():
    op = Op(
        "wrong_tangent_test_op",
        "elementwise",
        ("x",),
        lambda x: array_type((2,), x.dtype),
        lambda k, g, out, x: None,
        jvp=lambda tangents, out, x: tangents[0],
    )
    try:
        x = variable(3.0)
        with pytest.raises(InternalError, match="jvp of wrong_tangent_test_op"):
            tangents([op(x)], {x: constant(1.0)})
    finally:
        del OPS[op.name]


def test_an_error_in_a_rule_names_the_operation():
    x = variable(3.0)
    y = OPS["sin"](x)
    with pytest.raises(ShapeError) as caught:
        tangents([y], {x: leaf(np.ones((2, 2, 3)))})
    assert any("in the tangent of sin" in note for note in caught.value.__notes__)


def test_tangents_can_be_batched():
    x = variable(0.5)
    t = argument(x.type)
    (of_y,) = tangents([OPS["sin"](x)], {x: t})
    (rows,) = batch([of_y], {t: leaf(np.array([[1.0], [2.0], [3.0]]))}, 3)
    np.testing.assert_allclose(value(rows), np.cos(0.5) * np.array([[1.0], [2.0], [3.0]]))


# Calls of jitted functions.


def square_and_sine():
    x, y = (argument(array_type((1,), np.dtype(float)), requires_grad=True) for _ in range(2))
    return CallTarget("f", [x, y], [x * y, OPS["sin"](y), OPS["floor"](x)])


def test_the_tangent_of_a_call_is_a_call_of_one_target():
    target = square_and_sine()
    x, y = variable(3.0), variable(2.0)
    one, two, three = call(target, [x, y])
    found = tangents([one, two, three], {x: constant(1.0), y: constant(10.0)})
    assert found[2] is None
    np.testing.assert_allclose(value(found[0]), 32.0)
    np.testing.assert_allclose(value(found[1]), 10.0 * np.cos(2.0))
    assert target.jvp((True, True), with_values=False) is target.jvp(
        (True, True), with_values=False
    )


def test_values_and_tangents_of_a_call_are_one_call():
    target = square_and_sine()
    x, y = variable(3.0), variable(2.0)
    roots = call(target, [x, y])
    values, found = again(roots, {x: constant(1.0), y: None}, roots[0].inputs[0])
    calls = {n for n in toposort([*values, found[0]]) if n.op.name == "call"}
    assert len(calls) == 1
    np.testing.assert_allclose([value(v)[0] for v in values], [6.0, np.sin(2.0), 3.0])
    assert value(found[0]) == 2.0
    assert found[1:] == [None, None]


def test_the_derivative_of_the_tangent_of_a_call():
    target = square_and_sine()
    x, y = variable(3.0), variable(2.0)
    one, two, _ = call(target, [x, y])
    of_one, of_two = tangents([one, two], {x: x, y: y})
    second, third = tangents([of_one, of_two], {y: constant(1.0)})
    assert value(second) == 2 * 3.0  # of 2 x y
    np.testing.assert_allclose(value(third), np.cos(2.0) - 2.0 * np.sin(2.0))
