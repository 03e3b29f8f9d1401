"""Products of a loop's step that share a factor: `transforms/control_flow/joined_products.py`."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.transforms.control_flow import joined_products
from tests.counting import found_by

STEPS, WIDTH = 16, 5
RANDOM = np.random.default_rng(8)
ROWS = RANDOM.normal(size=(STEPS, WIDTH))
WEIGHTS = 0.3 * RANDOM.normal(size=(8, WIDTH, WIDTH))
SEVERAL = 0.3 * RANDOM.normal(size=(STEPS, 3, WIDTH))

Loss = Callable[[Any], Any]


def looped(step: Callable[[Any, Any], Any], rows: np.ndarray, way: str) -> Any:
    state = np.zeros(rows.shape[1:])
    if way == "scan":
        state, _ = ng.scan(lambda state, x: (step(state, x), None), ng.tensor(state), rows)
        return state
    for x in rows:
        state = step(state, x)
    return state


def gates(way: str = "python", rows: np.ndarray = ROWS) -> Loss:
    """A gated recurrence, whose new state is made of a product that is none of the gates'."""

    def loss(weights: Any) -> Any:
        wr, wz, wn, ur, uz, un, *_ = (weights[k] for k in range(8))

        def step(h: Any, x: Any) -> Any:
            reset = np.tanh(x @ wr + h @ ur)
            update = 1 / (1 + np.exp(-(x @ wz + h @ uz)))
            new = np.tanh(x @ wn + reset * (h @ un))
            return update * h + (1 - update) * new

        return np.sum(looped(step, rows, way) ** 2)

    return loss


def rows_of_one_matrix(weights: Any) -> Any:
    """Vectors behind the weights, which are parts of one array."""
    w, n = weights.reshape(8 * WIDTH, WIDTH), WIDTH

    def step(h: Any, x: Any) -> Any:
        return np.tanh(w[:n] @ x + w[n : 2 * n] @ h) * np.cos(w[2 * n : 3 * n] @ x) + w[-n:] @ h

    return np.sum(looped(step, ROWS, "python") ** 2)


def one_product_after_another(weights: Any) -> Any:
    """Groups of products, of which one reads what is made of another."""

    def step(h: Any, x: Any) -> Any:
        inner = np.tanh(h @ weights[0]) * (h @ weights[1].T)
        return (inner @ weights[2]) * 0.3 + np.sin(inner @ (weights[3] * 2.0)) + x

    return np.sum(looped(step, ROWS, "python") ** 2)


def unlike(weights: Any) -> Any:
    """Products that share a factor that is the same in all steps, and none with another."""

    def step(h: Any, x: Any) -> Any:
        return np.tanh(h @ weights[0] + np.sin(x) @ weights[0]) + (h[:, None] * x) @ h

    return np.sum(looped(step, ROWS, "python") ** 2)


# The numbers of products that are one.
JOINED = {
    "gates": (gates(), [3, 3]),
    "gates by scan": (gates("scan"), [3, 3]),
    "several rows": (gates(rows=SEVERAL), [3, 3]),
    "rows of one matrix": (rows_of_one_matrix, [2, 2]),
    "one after another": (one_product_after_another, [2, 2]),
    "unlike": (unlike, []),
}


@pytest.fixture
def joined(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many products each joined one is."""
    return found_by(
        monkeypatch,
        joined_products,
        "with_joined_products",
        lambda joined: [len(group.products) for group in joined.groups],
    )


def one_by_one(f: Callable[[], Any]) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(joined_products, "with_joined_products", lambda *args: None)
        return f()


@pytest.mark.thorough(every=3)
@pytest.mark.parametrize("name", JOINED)
def test_values_and_gradients_are_those_of_single_products(name: str, joined: list[int]) -> None:
    loss, counts = JOINED[name]

    def found() -> Any:
        return ng.jit(ng.value_and_grad(loss))(WEIGHTS)

    value, gradient = found()
    assert sorted(joined) == counts
    expected = one_by_one(found)
    np.testing.assert_allclose(value, expected[0], rtol=1e-12)
    np.testing.assert_allclose(gradient, expected[1], rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("way", ["scan", pytest.param("python", marks=pytest.mark.thorough)])
def test_other_derivatives_and_batches(way: str, joined: list[int]) -> None:
    loss = gates(way)
    direction = np.cos(np.arange(WEIGHTS.size)).reshape(WEIGHTS.shape)

    def found() -> Any:
        return (
            ng.jit(lambda w, t: ng.jvp(ng.grad(loss), (w,), (t,))[1])(WEIGHTS, direction),
            ng.jit(ng.vmap(ng.grad(loss)))(np.stack([WEIGHTS, WEIGHTS[::-1]])),
        )

    own = found()
    assert joined
    for x, y in zip(own, one_by_one(found), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-10, atol=1e-12)


def test_large_products_stay(joined: list[int]) -> None:
    weights = np.zeros((8, 200, 200))
    ng.jit(gates("scan", np.zeros((20, 200)))).lower(weights)
    assert not joined


@pytest.mark.parametrize("way", ["scan", "python"])
@pytest.mark.parametrize("where", ["outside", "inside"])
def test_a_transposed_matrix_in_front_of_a_vector_comes_after_it(
    way: str, where: str, joined: list[int]
) -> None:
    weights = 0.3 * RANDOM.normal(size=(12, 12))
    rows = RANDOM.normal(size=(STEPS, 12))

    def loss(w: Any, turned: bool = True) -> Any:
        w_turned = w.T

        def step(state: Any, x: Any) -> Any:
            if not turned:
                return np.tanh(state @ w + x)
            return np.tanh((w.T if where == "inside" else w_turned) @ state + x)

        return np.sum(looped(step, rows, way) ** 2)

    value, gradient = ng.jit(ng.value_and_grad(loss))(weights)
    assert joined == [1]  # the derivative of `x @ w` has nothing to turn
    expected, slope = ng.jit(ng.value_and_grad(lambda w: loss(w, False)))(weights)
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    np.testing.assert_allclose(gradient, slope, rtol=1e-11, atol=1e-13)
    reference, slope = ng.value_and_grad(lambda w: loss(w, False))(weights)
    np.testing.assert_allclose(value, reference, rtol=1e-12)
    np.testing.assert_allclose(gradient, np.asarray(slope), rtol=1e-11, atol=1e-13)
