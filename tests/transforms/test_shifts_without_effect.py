"""What is taken off before powers are taken gets no cotangent where no result depends on it."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import numba_grad as ng

RANDOM = np.random.default_rng(3)
X = RANDOM.normal(size=(6, 7))
X[2, 3] = X[2, 5] = X[2].max() + 1  # two of them are the largest
WEIGHTS = RANDOM.normal(size=(6, 7))
VALUES = RANDOM.normal(size=(7, 3))
MASK = RANDOM.random(size=(6, 7)) > 0.3

Loss = Callable[[Any], Any]


def powers(x: Any) -> Any:
    return np.exp(x - np.max(x, axis=1, keepdims=True))


def softmax(x: Any) -> Any:
    e = powers(x)
    return e / np.sum(e, axis=1, keepdims=True)


def softmax_of_columns(x: Any) -> Any:
    e = np.exp(x - x.max(0))
    return e / e.sum(0)


def logsumexp(x: Any) -> Any:
    largest = x.max(1)
    return largest + np.log(np.exp(x - largest[:, None]).sum(1))


def soft_minimum(x: Any) -> Any:
    smallest = np.min(x, axis=1, keepdims=True)
    logs = np.log(np.sum(np.exp(smallest - x), axis=1))
    return np.sum(smallest) - np.sum(logs)


def of_all(x: Any) -> Any:
    largest = x.max()
    return largest + np.log(np.sum(np.exp(x - largest)))


def attention(x: Any) -> Any:
    e = powers(x)
    return (e @ VALUES) / e.sum(1)[:, None]


def chosen(x: Any) -> Any:
    e = powers(x)
    e = np.where(MASK, e, e * WEIGHTS**2)
    return e / e.sum(1, keepdims=True)


def log_softmax(x: Any) -> Any:
    x = x - np.max(x, axis=-1, keepdims=True)
    return x - np.log(np.sum(np.exp(x), axis=-1, keepdims=True))


def of_roots(x: Any) -> Any:
    e = np.sqrt(np.exp(x - x.max(1, keepdims=True)))
    return e**2 / np.sum(e**2, axis=1)[:, None] + e.T[0][:, None] / e


WITHOUT_EFFECT: dict[str, Loss] = {
    "softmax": softmax,
    "softmax of columns": softmax_of_columns,
    "logsumexp": logsumexp,
    "soft minimum": soft_minimum,
    "of all": of_all,
    "attention": attention,
    "choices of two": chosen,
    "log softmax": log_softmax,
    "roots": of_roots,
}
WITH_EFFECT: dict[str, Loss] = {
    "the largest": lambda x: x.max(1),
    "powers": powers,
    "twice": lambda x: powers(x - x.max(1, keepdims=True)),
    "half": lambda x: np.log(np.exp(x - x.max(1)[:, None]).sum(1)) + 0.5 * x.max(1),
    "the other way": lambda x: np.log(np.exp(x - x.max(1)[:, None]).sum(1)) - x.max(1),
    "sums over others": lambda x: powers(x) / powers(x).sum(0),
    "turned": lambda x: powers(x)[:, :6] / powers(x)[:, :6].sum(1),
    "other functions": lambda x: np.tanh(x - x.max(1, keepdims=True)),
    "something added": lambda x: powers(x) / (1 + powers(x).sum(1, keepdims=True)),
    "another number of them": lambda x: np.sum(np.log(powers(x).sum(1))) + x.max(1)[:4].sum(),
    "a choice": lambda x: np.where(x.max(1, keepdims=True) > 0, powers(x), 1.0),
    "elsewhere, too": lambda x: softmax(x) + x.max(1)[:, None] * WEIGHTS,
}


def loss_of(f: Loss) -> Loss:
    def loss(x: Any) -> Any:
        y = f(x)
        return np.sum(np.sin(np.arange(1.0, y.size + 1)).reshape(y.shape) * y)

    return loss


def looks_for_the_largest(f: Loss) -> bool:
    """Whether the derivative asks which elements the largest ones are."""
    graph = str(ng.jit(ng.grad(f)).lower(X).graph)
    return " equal(" in graph


@pytest.mark.thorough(every=3)
@pytest.mark.parametrize("name", WITHOUT_EFFECT)
def test_gradients_without_the_shifts(name: str) -> None:
    loss = loss_of(WITHOUT_EFFECT[name])
    expected = np.asarray(ng.grad(loss)(X))
    np.testing.assert_allclose(ng.jit(ng.grad(loss))(X), expected, rtol=1e-10, atol=1e-13)
    assert not looks_for_the_largest(loss)


@pytest.mark.thorough(every=4)
@pytest.mark.parametrize("name", WITH_EFFECT)
def test_shifts_that_results_depend_on_stay(name: str) -> None:
    loss = loss_of(WITH_EFFECT[name])
    expected = np.asarray(ng.grad(loss)(X))
    np.testing.assert_allclose(ng.jit(ng.grad(loss))(X), expected, rtol=1e-10, atol=1e-13)
    assert looks_for_the_largest(loss)


@pytest.mark.thorough(every=9)
@pytest.mark.parametrize("name", WITHOUT_EFFECT)
def test_second_derivatives_and_batches(name: str) -> None:
    loss = loss_of(WITHOUT_EFFECT[name])

    def slope(x: Any) -> Any:
        return np.sum(ng.grad(loss)(x) ** 2)

    for f in (ng.grad(slope), lambda x: ng.jvp(ng.grad(loss), (x,), (WEIGHTS,))[1]):
        expected = np.asarray(f(X))
        np.testing.assert_allclose(ng.jit(f)(X), expected, rtol=1e-9, atol=1e-12)
    both = np.stack([X, X[::-1] * 1.5])
    expected = np.asarray(ng.vmap(ng.grad(loss))(both))
    np.testing.assert_allclose(
        ng.jit(ng.vmap(ng.grad(loss)))(both), expected, rtol=1e-10, atol=1e-12
    )
    of_batch = ng.jit(ng.grad(lambda x: np.sum(ng.vmap(loss)(x))))(both)
    np.testing.assert_allclose(of_batch, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("special", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("f", [softmax, logsumexp, log_softmax, attention])
def test_values_that_are_not_finite(f: Loss, special: float) -> None:
    x = X.copy()
    x[1, 2] = special
    with np.errstate(invalid="ignore"):
        expected = np.asarray(ng.grad(loss_of(f))(x))
    got = ng.jit(ng.grad(loss_of(f)))(x)
    np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-13)


def test_hooks_see_the_cotangent_of_a_shift() -> None:
    seen: list[Any] = []

    def loss(x: Any) -> Any:
        largest = x.max(1, keepdims=True)
        largest.register_hook(lambda g: seen.append(g) or g * 1.0)
        e = np.exp(x - largest)
        return np.sum(WEIGHTS * e / e.sum(1, keepdims=True))

    ng.jit(ng.grad(loss))(X)
    assert seen
