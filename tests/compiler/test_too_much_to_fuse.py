"""Loops no two steps of which are the same are run operation by operation, with `jit` as well."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.compiler import plan_cache, programs
from numba_grad.compiler.first_tier import plans
from numba_grad.compiler.partition import too_much_to_fuse
from numba_grad.compiler.partition.flat_graph import FlatGraph
from numba_grad.config import configure


@pytest.fixture(autouse=True)
def _nothing_on_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A plan that is there has been decided about, maybe by other limits than those set here."""
    monkeypatch.setattr(plan_cache, "key_of", lambda *_: None)
    with configure(engine="native"):
        yield


@pytest.fixture
def operation_by_operation(monkeypatch: pytest.MonkeyPatch) -> list[FlatGraph]:
    """Graphs that are run so: all that have more than a few operations."""
    monkeypatch.setattr(too_much_to_fuse, "MOST_UNLIKE", 50)
    monkeypatch.setattr(plans, "_MUCH_MEMORY", 0)
    monkeypatch.setattr(programs, "is_small", lambda graph: False)
    seen: list[FlatGraph] = []
    lowered = plans.lowered_as_it_is

    def watched(graph: FlatGraph) -> Any:
        seen.append(graph)
        return lowered(graph)

    monkeypatch.setattr(plans, "lowered_as_it_is", watched)
    return seen


def forward_substitution(a: Any) -> Any:
    x = np.zeros_like(a[0])
    for i in range(len(a)):
        x[i] = (1.0 + i - a[i, :i] @ x[:i]) / a[i, i]
    return x


def lu_in_place(a: Any) -> Any:
    a = a * 1.0
    for i in range(len(a)):
        for j in range(i):
            a[i, j] = (a[i, j] - a[i, :j] @ a[:j, j]) / a[j, j]
        for j in range(i, len(a)):
            a[i, j] -= a[i, :i] @ a[:i, j]
    return a


def cholesky_by_columns(a: Any) -> Any:
    factor = np.zeros_like(a)
    for j in range(len(a)):
        factor[j, j] = np.sqrt(a[j, j] - np.sum(factor[j, :j] ** 2))
        for i in range(j + 1, len(a)):
            factor[i, j] = (a[i, j] - np.dot(factor[i, :j], factor[j, :j])) / factor[j, j]
    return factor


def levinson(a: Any) -> Any:
    r = a[0] / (2.0 * len(a))
    y = np.zeros_like(r)
    y[0] = alpha = -r[0]
    beta = 1.0
    for k in range(1, len(r)):
        beta = beta * (1.0 - alpha * alpha)
        alpha = -(r[k] + np.flip(r[:k]) @ y[:k]) / beta
        y[:k] += alpha * np.flip(y[:k])
        y[k] = alpha
    return y


def rank_one_updates_of_a_triangle(a: Any) -> Any:
    c = a * 1.0
    for i in range(len(a)):
        c[i, : i + 1] *= 0.5
        for k in range(len(a)):
            c[i, : i + 1] += 0.1 * a[i, k] * a[: i + 1, k]
    return c


def states_that_stay_in_use(a: Any) -> Any:
    """What is assigned to is read again afterwards, as a view and as a whole."""
    x = a[0] * 1.0
    total = np.zeros_like(a[0])
    for k in range(1, len(a)):
        before, first = x, x[:k]
        x = x * 1.0
        x[:k] = np.sin(x[:k]) + before[-1]
        total += x * before
        total[:k] += first
        total[k:] += x[::-1][k:]
    return total


LOOPS = [
    forward_substitution,
    lu_in_place,
    cholesky_by_columns,
    levinson,
    rank_one_updates_of_a_triangle,
    states_that_stay_in_use,
]


def matrix(n: int) -> np.ndarray:
    a = np.random.default_rng(n).uniform(0.5, 1.0, (n, n))
    return a @ a.T + n * np.eye(n)


def slope(f: Callable[[Any], Any], a: np.ndarray, direction: np.ndarray) -> float:
    step = 1e-5
    high, low = (np.sum(f(a + s * direction) ** 2) for s in (step, -step))
    return (high - low) / (2 * step)


@pytest.mark.thorough(every=4)
@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("is_jitted", [True, False])
def test_values_and_gradients(loop, is_jitted, operation_by_operation):
    a = matrix(9)

    def loss(a: Any) -> Any:
        return np.sum(loop(a) ** 2)

    transform = ng.value_and_grad(loss)
    value, gradient = (ng.jit(transform) if is_jitted else transform)(ng.tensor(a))
    assert len(operation_by_operation) == 1
    direction = np.random.default_rng(1).normal(size=a.shape)
    np.testing.assert_allclose(value.item(), loss(a), rtol=1e-13)
    found = np.sum(gradient.numpy() * direction)
    np.testing.assert_allclose(found, slope(loop, a, direction), rtol=1e-7)


@pytest.mark.parametrize("loop", LOOPS)
def test_values_alone(loop, operation_by_operation):
    a = matrix(9)
    np.testing.assert_allclose(ng.jit(loop)(ng.tensor(a)).numpy(), loop(a), rtol=1e-13)
    assert len(operation_by_operation) == 1


def test_several_results_and_later_calls(operation_by_operation):
    f = ng.jit(lambda a: (lu_in_place(a), levinson(a), a * 2.0))
    for n in (9, 9, 11):
        a = matrix(n)
        for found, expected in zip(
            f(ng.tensor(a)), (lu_in_place(a), levinson(a), a * 2.0), strict=True
        ):
            np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12, atol=1e-14)


def test_what_has_no_operands_is_not_in_the_memory_of_one(operation_by_operation):
    def f(a: Any) -> Any:
        return np.tril(lu_in_place(a), -1) * a  # of numbers of rows and columns

    a = matrix(9)
    np.testing.assert_allclose(ng.jit(f)(ng.tensor(a)).numpy(), f(a), rtol=1e-12, atol=1e-14)
    assert len(operation_by_operation) == 1


def test_memory_is_used_again(operation_by_operation, monkeypatch):
    """Whatever is where, the bits are the same."""
    n = 12
    a = matrix(n)
    gradient = ng.grad(lambda a: np.sum(lu_in_place(a) ** 2))
    found = ng.jit(gradient)(ng.tensor(a)).numpy()
    [graph] = operation_by_operation
    used_again = plans.lowered_as_it_is(graph).plan.arena_bytes
    monkeypatch.setattr(plans, "_MUCH_MEMORY", 1 << 30)
    np.testing.assert_array_equal(ng.jit(gradient)(ng.tensor(a * 1.0)).numpy(), found)
    assert used_again < plans.lowered_as_it_is(graph).plan.arena_bytes / 3


def test_kernels_and_profile(operation_by_operation):
    """Of operations, where they are taken through arrays as well."""
    a = ng.tensor(matrix(9))
    lowered = ng.jit(forward_substitution).lower(a)
    assert any("y[0] = v0 / v1" in kernel.name for kernel in lowered.kernels)
    assert sum(row.count for row in lowered.profile(a)) == sum(
        kernel.count for kernel in lowered.kernels
    )


def test_repeated_steps_are_fused(monkeypatch):
    """However many there are."""
    monkeypatch.setattr(too_much_to_fuse, "MOST_UNLIKE", 500)

    def refused(graph: FlatGraph) -> Any:
        raise AssertionError(graph)

    monkeypatch.setattr(plans, "lowered_as_it_is", refused)

    def decay(x: Any) -> Any:
        for _ in range(300):
            x = x - 0.01 * np.sin(x) * x
        return x

    x = np.linspace(0.5, 1.0, 300)
    np.testing.assert_allclose(ng.jit(decay)(ng.tensor(x)).numpy(), decay(x), rtol=1e-12)


def test_fused_where_that_is_asked_for(monkeypatch):
    monkeypatch.setattr(too_much_to_fuse, "MOST_UNLIKE", 50)
    monkeypatch.setattr(plans, "lowered_as_it_is", None)
    a = matrix(6)
    with configure(engine="fused"):
        found = ng.jit(forward_substitution)(ng.tensor(a)).numpy()
    np.testing.assert_allclose(found, forward_substitution(a), rtol=1e-12)
