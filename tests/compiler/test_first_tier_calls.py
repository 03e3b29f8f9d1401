"""Small graphs with loops, branches and calls run operation by operation."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.compiler import evaluate, programs
from numba_grad.compiler.partition.flat_graph import flatten
from numba_grad.config import configure

pytestmark = pytest.mark.usefixtures("native_engine")


@pytest.fixture
def nothing_fused(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise AssertionError("a program was fused")

    monkeypatch.setattr(evaluate, "compile_flat", fail)


X = np.random.default_rng(0).normal(size=(4, 3))


def loss(y: Any) -> Any:
    y = (y - np.mean(y)) / np.sqrt(np.var(y) + 0.1)
    return np.sum(np.log(1.0 + y**2)) + 0.1 * np.max(y)


def scanned(x: Any) -> Any:
    def step(y: Any, row: Any) -> Any:
        y = np.tanh(y + 0.3 * row) * x[0]
        return y, np.sum(y)

    last, sums = ng.scan(step, x[1], np.sin(x.T[:, :3]))
    return loss(last) + loss(sums) * np.sum(last)


def counted(x: Any) -> Any:
    def step(state: Any) -> Any:
        y, k = state
        return 0.5 * (y + np.abs(x) / y), k + 1

    def goes_on(state: Any) -> Any:
        return np.max(np.abs(state[0] ** 2 - np.abs(x))) > 1e-9

    y, k = ng.while_loop(goes_on, step, (1.0 + x**2, 0))
    return loss(y * x) * k


def chosen(x: Any) -> Any:
    y = np.sin(x)
    a = ng.cond(np.sum(y) > 100.0, lambda y: np.log(-np.abs(y)), lambda y: y * np.exp(y.T[0, 0]), y)
    b = ng.switch(np.argmax(x[0]), [np.exp, np.sin, np.cos], x.T)
    return loss(a) + np.sum(b) * loss(b[::2])


def swapped(x: Any) -> Any:
    """Branches that give back what they get, and one value twice."""
    a, b, c = ng.cond(
        x[0, 0] > 0, lambda p, q: (p, q, p), lambda p, q: (q, p + 1, p + 1), x[0], x.T[0, :3] * 2
    )
    return loss(a) + np.sum(b * c * c)


layer = ng.jit(lambda x, w: (np.tanh(x @ w), np.sum(w, axis=0), x))
twice = ng.jit(lambda x, w: layer(layer(x, w)[0], w.T)[:2])


def called(x: Any) -> Any:
    w = np.cos(x[:3])
    y, columns = twice(x, w)
    z, _, same = layer(y.T[:, :3], w)
    return loss(y) + loss(z) + np.sum(columns * same[0])


@ng.jit
def settled(x: Any) -> Any:
    return ng.fori_loop(0, 5, lambda i, y: np.tanh(y) * x + 0.1 * i, x)


def calls_of_loops(x: Any) -> Any:
    return loss(settled(x)) + loss(settled(x.T[:2]) * 2)


def nested(x: Any) -> Any:
    def inner(y: Any, _: Any) -> Any:
        return ng.cond(np.sum(y) > 0, lambda y: 0.9 * y, lambda y: np.sin(y) * x[0], y), None

    def outer(y: Any, row: Any) -> Any:
        y, _ = ng.scan(inner, y + row, length=3)
        return y, np.sum(y**2)

    def looped(x: Any) -> Any:
        y, sums = ng.scan(outer, x[0], x)
        return loss(y) + np.sum(sums)

    return ng.cond(np.sum(x**2) > 0, looped, lambda x: 0 * np.sum(x), x) + loss(x)


def gathered(x: Any) -> Any:
    """The rows of a batch, each of which takes its own way."""

    def member(row: Any) -> Any:
        y = ng.while_loop(lambda y: np.sum(y**2) > 0.3, lambda y: 0.8 * np.sin(y), row)
        return ng.cond(y[0] > 0, np.exp, lambda y: 2 * y, y)

    return loss(ng.vmap(member)(x) * x)


PROGRAMS: list[Callable[[Any], Any]] = [
    scanned,
    counted,
    chosen,
    swapped,
    called,
    calls_of_loops,
    nested,
    gathered,
]


def assert_close(x: Any, y: Any, rtol: float = 1e-12) -> None:
    x, y = np.asarray(x), np.asarray(y)
    np.testing.assert_allclose(x, y, rtol=rtol, atol=rtol * np.max(np.abs(y), initial=1e-3))


ENGINES = ["reference", pytest.param("fused", marks=pytest.mark.thorough)]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("program", PROGRAMS)
def test_values_and_gradients_are_those_of_other_engines(program, engine, request):
    with configure(engine=engine):
        expected = [x.numpy() for x in ng.value_and_grad(program)(X)]
    request.getfixturevalue("nothing_fused")
    value, gradient = ng.value_and_grad(program)(X)
    assert_close(value, expected[0])
    assert_close(gradient, expected[1])


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("program", [scanned, counted, chosen, called])
def test_second_derivatives_are_those_of_other_engines(program, engine, request):
    def squares(x: Any) -> Any:
        return np.sum(ng.grad(program)(x) ** 2)

    with configure(engine=engine):
        expected = ng.grad(squares)(X).numpy()
    request.getfixturevalue("nothing_fused")
    assert_close(ng.grad(squares)(X), expected, 1e-11)


@pytest.mark.parametrize("memory", ["3 states", "disk:{}:1 MB"])
def test_loops_within_a_budget(memory, tmp_path, nothing_fused):
    def of(memory: Any) -> Any:
        def step(y: Any, _: Any) -> Any:
            return np.sin(y) * x[1] + x[2], None

        x = ng.tensor(X, requires_grad=True)
        y, _ = ng.scan(step, np.exp(x[0]), length=11, memory=memory)
        loss(y * x[0]).backward()
        return x.grad.numpy()

    np.testing.assert_array_equal(of(memory.format(tmp_path)), of(None))


def test_hooks_see_the_gradients_around_a_loop(nothing_fused):
    x = ng.tensor(X[0], requires_grad=True)
    y = ng.fori_loop(0, 4, lambda i, y: 2.0 * y, x * 3.0)
    seen: list[np.ndarray] = []
    y.register_hook(lambda g: seen.append(g.numpy()))
    y.register_hook(lambda g: g * 10.0)
    np.sum(y * y).backward()
    np.testing.assert_array_equal(seen[0], 2 * 48 * X[0])
    assert_close(x.grad, 2 * 48 * X[0] * 10 * 48)


def test_of_a_branch_only_what_is_chosen_may_fail(nothing_fused):
    table = ng.tensor(np.arange(3.0))

    def outside(k: Any) -> Any:
        return table[k + 10]

    def inside(k: Any) -> Any:
        return table[k]

    for index, expected in ((1, 1.0), (2, 2.0)):
        k = ng.tensor(np.array(index))
        assert float(ng.cond(k < 0, outside, inside, k) + 0.0) == expected
        with pytest.raises(IndexError, match=str(index + 10)):
            float(ng.cond(k > 0, outside, inside, k))


def test_an_index_beyond_the_branches_takes_the_nearest():
    branches = [lambda x: x + 1, lambda x: x + 2, lambda x: x + 3]
    for index, expected in ((-5, 1.0), (0, 1.0), (1, 2.0), (2, 3.0), (7, 3.0)):
        assert float(ng.switch(ng.tensor(index), branches, ng.tensor(0.0) * 1)) == expected


def test_what_a_loop_complains_of_is_reported(nothing_fused):
    def step(m: Any, _: Any) -> Any:
        return np.linalg.inv(m) - 1.0, None

    with pytest.raises(np.linalg.LinAlgError):
        ng.scan(step, 2 * np.ones((2, 2)) * ng.tensor(1.0), length=3)[0].numpy()


@pytest.mark.usefixtures("loops_stay_steps")
def test_functions_and_branches_count_with_what_they_compute():
    graph_of = lambda y: flatten([y._node])  # noqa: E731
    large = ng.jit(lambda x: np.sum(np.ones(programs.MOST_ELEMENTS + 1) * x))
    x = ng.tensor(1.0, requires_grad=True)
    assert not programs.is_small(graph_of(large(x)))
    assert not programs.is_small(graph_of(ng.cond(x > 0, large, np.sin, x)))

    @ng.jit
    def long(x: Any) -> Any:
        for _ in range(100):
            x = x * x
        return x

    few, many = x, x
    for _ in range(programs.MOST_NODES // 200):
        few = long(few)
    for _ in range(programs.MOST_NODES // 100):
        many = long(many)
    assert programs.is_small(graph_of(few))
    assert not programs.is_small(graph_of(many))


def test_the_body_of_a_loop_counts_for_nothing():
    x = ng.tensor(1.0, requires_grad=True)

    def step(y: Any, _: Any) -> Any:
        return np.sum(np.ones(programs.MOST_ELEMENTS + 1) * y) * 1e-5, y

    last, states = ng.scan(step, x, length=programs.MOST_ELEMENTS_AT_FIRST + 1)
    assert programs.is_small(flatten([last._node, states._node]))
    assert not programs.is_small(flatten([(2 * states)._node]))
