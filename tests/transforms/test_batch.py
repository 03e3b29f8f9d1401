"""The batching transform on graphs."""

import numpy as np
import pytest

from numba_grad.compiler.reference_engine import evaluate_with_numpy
from numba_grad.errors import InternalError
from numba_grad.graph.node import OPS, Op, argument, grad_mode, leaf
from numba_grad.graph.types import array_type
from numba_grad.graph.walk import toposort
from numba_grad.transforms.batch import batch
from numba_grad.transforms.vjp import cotangents, reached

RNG = np.random.default_rng(2)


def array(*shape):
    return RNG.standard_normal(shape)


def value_of(node, given=None):
    return evaluate_with_numpy([node], given)[0]


def test_a_batch_is_the_stack_of_its_members():
    x = argument(array_type((3,), np.dtype(np.float64)))
    w = leaf(array(4, 3))
    y = OPS["sum"](OPS["sin"](w * x), axes=(1,))
    xs = array(5, 3)
    (ys,) = batch([y], {x: leaf(xs)}, 5)
    expected = [value_of(y, {x: row}) for row in xs]
    np.testing.assert_allclose(value_of(ys), expected, rtol=1e-15)


def test_what_does_not_depend_on_the_batch_is_shared():
    x = argument(array_type((), np.dtype(np.float64)))
    w = leaf(array(3))
    shared = OPS["exp"](w)
    (ys,) = batch([shared * x], {x: leaf(array(5))}, 5)
    assert shared in toposort([ys])


def test_a_result_that_does_not_depend_on_the_batch_is_repeated():
    x = argument(array_type((), np.dtype(np.float64)))
    w = leaf(array(2, 3))
    constant, itself = batch([OPS["exp"](w), x], {x: leaf(np.arange(4.0))}, 4)
    assert constant.shape == (4, 2, 3)
    np.testing.assert_array_equal(value_of(constant), np.tile(np.exp(w.value), (4, 1, 1)))
    np.testing.assert_array_equal(value_of(itself), np.arange(4.0))


def test_a_backward_pass_is_batched_over_its_seeds():
    x = leaf(array(3), requires_grad=True)
    y = OPS["sin"](x) * x
    seed = argument(y.type)
    g = cotangents([y], [seed], reached([y], [x]))[x]
    (rows,) = batch([g], {seed: leaf(np.eye(3))}, 3)
    expected = np.diag(np.cos(x.value) * x.value + np.sin(x.value))
    np.testing.assert_allclose(value_of(rows), expected, rtol=1e-14)


def test_an_empty_batch_gives_an_empty_result():
    x = argument(array_type((3,), np.dtype(np.float64)))
    (ys,) = batch([OPS["sum"](x * x, axes=(0,))], {x: leaf(np.empty((0, 3)))}, 0)
    assert value_of(ys).shape == (0,)


def test_chains_of_any_length_are_batched():
    x = argument(array_type((), np.dtype(np.float64)))
    y = x
    for _ in range(20_000):
        y = -y
    (ys,) = batch([y], {x: leaf(np.arange(2.0))}, 2)
    assert ys.shape == (2,)


def test_history_is_kept_where_there_was_some():
    x = argument(array_type((), np.dtype(np.float64)), requires_grad=True)
    recorded = x * x
    grad_mode.enabled = False
    try:
        unrecorded = x * x
    finally:
        grad_mode.enabled = True
    results = batch([recorded, unrecorded], {x: leaf(array(3), requires_grad=True)}, 3)
    assert [node.requires_grad for node in results] == [True, False]
    assert grad_mode.enabled


def test_seeds_may_require_grad():
    x = leaf(array(3), requires_grad=True)
    y = x * x
    seed = argument(y.type)
    grad_mode.enabled = False
    try:
        g = cotangents([y], [seed], reached([y], [x]))[x]
    finally:
        grad_mode.enabled = True
    (unrecorded,) = batch([g], {seed: leaf(np.eye(3), requires_grad=True)}, 3)
    assert not unrecorded.requires_grad
    g = cotangents([y], [seed], reached([y], [x]))[x]
    (recorded,) = batch([g], {seed: leaf(np.eye(3), requires_grad=True)}, 3)
    assert recorded.requires_grad


def test_nothing_is_recorded_where_recording_is_off():
    x = argument(array_type((), np.dtype(np.float64)), requires_grad=True)
    y = x * x
    grad_mode.enabled = False
    try:
        (ys,) = batch([y], {x: leaf(array(3), requires_grad=True)}, 3)
    finally:
        grad_mode.enabled = True
    assert not ys.requires_grad


@pytest.fixture
def registered():
    """Makes operations that the registry forgets after the test."""
    names = []

    def make(name, **fields):
        names.append(name)
        return Op(name, "test", ("x",), lambda x: x, **fields)

    yield make
    for name in names:
        del OPS[name]


def test_a_missing_rule_is_named(registered):
    unbatched = registered("unbatched")
    x = argument(array_type((2,), np.dtype(np.float64)))
    with pytest.raises(NotImplementedError, match="batch: unbatched has no batching rule"):
        batch([unbatched(x)], {x: leaf(array(3, 2))}, 3)


def test_a_wrong_rule_is_named(registered):
    wrong = registered("wrong", batch=lambda is_batched, x: OPS["sum"](x, axes=(0,)))
    x = argument(array_type((2,), np.dtype(np.float64)))
    with pytest.raises(InternalError, match="batch of wrong"):
        batch([wrong(x)], {x: leaf(array(3, 2))}, 3)


def test_an_error_in_a_rule_says_where(registered):
    def rule(is_batched, x):
        raise ValueError("inside")

    failing = registered("failing", batch=rule)
    x = argument(array_type((2,), np.dtype(np.float64)))
    with pytest.raises(ValueError, match="inside") as caught:
        batch([failing(x)], {x: leaf(array(3, 2))}, 3)
    assert "in the batching rule of failing" in caught.value.__notes__[0]


def test_several_results_are_batched_together():
    x = argument(array_type((3,), np.dtype(np.float64)))
    w = argument(array_type((3,), np.dtype(np.float64)))
    total, product = OPS["sum"](x * w, axes=(0,)), x * w
    xs, ws = array(4, 3), array(4, 3)
    totals, products = batch([total, product], {x: leaf(xs), w: leaf(ws)}, 4)
    np.testing.assert_allclose(value_of(products), xs * ws)
    np.testing.assert_allclose(value_of(totals), (xs * ws).sum(1))


def test_what_is_not_batched_is_recorded_again_beside_what_reads_it():
    x, t = leaf(np.array(0.5)), argument(array_type((), np.dtype(float)))
    value, tangent = x, t
    for _ in range(3):
        value, tangent = OPS["sin"](value), tangent * OPS["cos"](value)
    last = tangent.serial
    (rows,) = batch([tangent], {t: leaf(np.array([1.0, 2.0]))}, 2, since=0)
    recorded = sorted(toposort([rows], stop=lambda n: n.serial <= last), key=lambda n: n.serial)
    names = [n.op.name for n in recorded if n.inputs and n.serial > last]
    assert names == ["cos", "multiply"] + ["sin", "cos", "multiply"] * 2
    slope = np.cos(0.5) * np.cos(np.sin(0.5)) * np.cos(np.sin(np.sin(0.5)))
    np.testing.assert_allclose(evaluate_with_numpy([rows])[0], slope * np.array([1.0, 2.0]))
