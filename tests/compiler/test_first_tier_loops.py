"""Bodies of loops of few steps run operation by operation, those of others as a whole. A loop that
ends when values say so is broken off where it takes many."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.compiler import evaluate
from numba_grad.compiler.compiled_program import CompiledProgram
from numba_grad.compiler.evaluate import runner
from numba_grad.compiler.first_tier import loop_work, plans
from numba_grad.compiler.operation_kernels import WALK
from numba_grad.compiler.partition.flat_graph import FlatGraph, flatten
from numba_grad.config import configure
from numba_grad.graph.node import leaf
from numba_grad.runtime.native_engine import UnfinishedError
from numba_grad.transforms.vjp import cotangents, reached

X = np.random.default_rng(3).normal(size=(5, 3))
SMALL = X[:3].T @ X[:3] + np.eye(3)


def delays(x: Any) -> Any:
    """What is carried moves on, and is carried and stacked as it was."""

    def step(state: Any, row: Any) -> Any:
        a, b, c, count = state
        new = np.tanh(a * row - 0.4 * c) + x[0]
        return (new, a, b, count + 1), (a, c[0] * count, new)

    state, rows = ng.scan(step, (x[1], x[2], x[3], 0), np.sin(x))
    return sum(np.sum(np.cos(y) * y) for y in (*state[:3], *rows)) * state[3]


def backwards(x: Any) -> Any:
    def step(y: Any, rows: Any) -> Any:
        row, k = rows
        y = np.cumsum(y[::-1]) * row[k % 3] + np.where(k > 2, row, -row)
        return y / np.sqrt(1.0 + np.sum(y * y)), np.max(y)

    last, largest = ng.scan(step, x[0], (x * 1.5, np.arange(5)), reverse=True)
    return np.sum(last**3) + np.sum(np.sort(largest)[1:])


def systems(x: Any) -> Any:
    def step(i: Any, state: Any) -> Any:
        m, v = state
        m = np.linalg.inv(m + 0.1 * np.outer(v, v)) + SMALL
        return m, np.linalg.solve(m, v + x[i]) @ m.T * 0.5

    m, v = ng.fori_loop(0, 4, step, (SMALL * x[0, 0] ** 2 + SMALL, x[1]))
    return np.sum(m * m) + np.sum(v)


def loops_in_loops(x: Any) -> Any:
    def inner(y: Any, k: Any) -> Any:
        y = ng.switch(k % 3, [lambda y: 0.9 * y, lambda y: np.sin(y @ SMALL), np.flip], y)
        return y, y[1]

    def outer(y: Any, row: Any) -> Any:
        y, seen = ng.scan(inner, y + row, np.arange(4))
        return y * 0.5, np.concatenate([seen, row])

    y, seen = ng.scan(outer, x[0], x)
    return np.sum(y) + np.sum(seen**2)


def of_other_dtypes(x: Any) -> Any:
    def step(state: Any, row: Any) -> Any:
        z, h, n = state
        z = z * np.exp(1j * row) + 0.1
        h = h + np.sum(np.abs(z)).astype(np.float32)
        return (z, np.tanh(h * np.float32(0.5)), n | (n << 1)), (h, np.real(z) > 0)

    state, (halves, signs) = ng.scan(step, (x[0] + 1j * x[1], np.float32(0.5), np.int64(1)), x)
    values = np.sum(np.abs(state[0]) ** 2) + np.sum(halves.astype(float)) + state[1].astype(float)
    return values + np.sum(np.where(signs, x, 0.0)) * state[2]


def without_steps(x: Any) -> Any:
    y, rows = ng.scan(lambda y, row: (y * row, y), x[0], x[:0])
    return np.sum(y * y) + np.sum(rows)


def unread(x: Any) -> Any:
    """Bodies that compute nothing, or nothing of what they get."""
    y, rows = ng.scan(lambda y, row: (y, row), x[0], x)
    z, ones = ng.scan(lambda z, row: (row, 1.0), x[1], x)
    return np.sum(y * z) + np.sum(rows**2) * np.sum(ones)


PROGRAMS: list[Callable[[Any], Any]] = [
    delays,
    backwards,
    systems,
    loops_in_loops,
    of_other_dtypes,
    without_steps,
    unread,
]


def graph_of(program: Callable[[Any], Any]) -> FlatGraph:
    """Of the value and the gradient, with nothing computed."""
    x = ng.tensor(X, requires_grad=True)
    value = program(x)._node
    found = cotangents([value], [leaf(np.ones(()))], reached([value]))
    return flatten([value, found[x._node]])


def values_of(graph: FlatGraph, program: CompiledProgram) -> list[np.ndarray]:
    return runner(program, "cpu")(*[graph.nodes[k].value for k in graph.inputs])


def kernels_of(program: CompiledProgram) -> set[str]:
    """Those that LLVM has optimized, but for that of all walks."""
    return {x for x, kernel in program.kernels.items() if not kernel.is_quick} - {WALK}


@pytest.mark.thorough(every=2)
@pytest.mark.parametrize("program", PROGRAMS)
def test_bodies_compute_what_they_compute_as_a_whole(program, monkeypatch):
    with configure(engine="reference"):
        value, gradient = ng.value_and_grad(program)(X)
        expected = [value.numpy(), gradient.numpy()]
    graph = graph_of(program)
    singly = plans.lowered(graph)
    monkeypatch.setattr(plans, "MOST_STEPS", -1)
    whole = plans.lowered(graph)
    assert not kernels_of(singly)
    for own in (singly, whole):
        for got, wanted in zip(values_of(graph, own), expected, strict=True):
            scale = np.max(np.abs(wanted), initial=1e-3)
            bound = 1e-6 if program is of_other_dtypes else 1e-11  # float32 among them
            np.testing.assert_allclose(got, wanted, rtol=0, atol=bound * scale)


@pytest.mark.parametrize("program", PROGRAMS)
def test_second_derivatives(program):
    def squares(x: Any) -> Any:
        return np.sum(ng.grad(program)(x) ** 2)

    with configure(engine="reference"):
        expected = ng.grad(squares)(X).numpy()
    with configure(engine="native"):
        got = ng.grad(squares)(X).numpy()
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-5 * np.max(np.abs(expected)) + 1e-12)


@pytest.mark.parametrize("slots", [1, 2, 3])
def test_steps_that_are_done_again_have_the_same_bits(slots):
    def gradient(memory: Any) -> Any:
        def step(y: Any, row: Any) -> Any:
            y = np.sin(y * row) + x[2] * y
            return y, y[0]

        x = ng.tensor(X, requires_grad=True)
        y, rows = ng.scan(step, x[1], np.cos(ng.concatenate([x, x, x])), memory=memory)
        (np.sum(y) + np.sum(rows**2)).backward()
        assert x.grad is not None
        return x.grad.numpy()

    with configure(engine="native"):
        np.testing.assert_array_equal(gradient(f"{slots} states"), gradient(None))


def repeated(steps: int) -> Callable[[Any], Any]:
    def step(y: Any, _: Any) -> Any:
        return np.sin(y * 1.25) + 0.125, None

    return lambda x: np.sum(ng.scan(step, x, length=steps)[0])


def test_kernels_are_the_same_for_any_number_of_steps():
    few, many = [plans.lowered(graph_of(repeated(n))) for n in (3, 300)]
    assert few.kernels.keys() == many.kernels.keys()
    assert len(few.plan.steps) == len(many.plan.steps)


def test_loops_of_many_steps_are_compiled_as_a_whole():
    body = kernels_of(plans.lowered(graph_of(repeated(loop_work.MOST_STEPS))))
    assert any("sin(" in source for source in body)


def test_work_is_counted_in_steps():
    def steps_of(program: Callable[[Any], Any]) -> float:
        return loop_work.steps_of(graph_of(program))

    assert steps_of(lambda x: np.sum(x * x)) == 0
    assert steps_of(repeated(400)) == 4 * steps_of(repeated(100)) > 400
    assert steps_of(lambda x: repeated(5)(ng.scan(lambda y, _: (y, None), x, length=9)[0])) > 5

    def large(x: Any) -> Any:
        step = lambda y, _: (y + np.sum(np.ones(1 << 15) * y[0, 0]), None)  # noqa: E731
        return np.sum(ng.scan(step, x, length=2)[0])

    assert steps_of(large) == np.inf
    assert 0 < steps_of(root) < loop_work.MOST_STEPS
    assert steps_of(lambda x: np.sum(ng.map(root, x))) == np.inf


def test_nobody_watches_a_loop_that_may_be_broken_off():
    pytest.importorskip("tqdm")
    graph = graph_of(lambda x: root(x, progress="roots"))
    assert loop_work.steps_of(graph) == np.inf


def root(x: Any, steps: int | None = None, progress: bool | str = False) -> Any:
    """Of the elements, by Newton's method; or so many of its steps."""

    def goes_on(state: Any) -> Any:
        y, k = state
        return np.max(np.abs(y * y - 1.0 - x * x)) > 1e-13 if steps is None else k < steps

    def step(state: Any) -> Any:
        y, k = state
        return 0.5 * (y + (1.0 + x * x) / y), k + 1

    y, k = ng.while_loop(goes_on, step, (x * 0.0 + 3.0, 0), progress=progress)
    return np.sum(np.sin(y) * x) + k


def bits_of(engine: str, program: Callable[[Any], Any]) -> list[bytes]:
    with configure(engine=engine):
        x = ng.tensor(X, requires_grad=True)
        value = program(x)
        value.backward()
        assert x.grad is not None
        return [value.detach().numpy().tobytes(), x.grad.numpy().tobytes()]


def test_loops_that_end_when_values_say_so():
    assert not kernels_of(plans.lowered(graph_of(root)))
    with configure(engine="reference"):
        value, gradient = ng.value_and_grad(root)(X)
        expected = value.numpy(), gradient.numpy()
    with configure(engine="native"):
        value, gradient = ng.value_and_grad(root)(X)
    np.testing.assert_allclose(value.numpy(), expected[0], rtol=1e-12)
    np.testing.assert_allclose(gradient.numpy(), expected[1], rtol=1e-12, atol=1e-13)
    most = loop_work.MOST_STEPS_OF_WHILE

    def long(x: Any) -> Any:
        return root(x, steps=most)

    fused = bits_of("fused", long)
    assert bits_of("native", long) == fused  # broken off
    assert bits_of("native", long) == fused  # known to be long, without another try


def test_the_last_pass_before_a_loop_is_broken_off():
    def after(steps: int) -> Callable[[Any], Any]:
        return lambda x: root(x, steps=steps)

    call = next(iter(graph_of(after(1)).calls.values()))
    most = loop_work.most_passes(call)
    assert most is not None
    for steps, is_run in ((most - 1, True), (most, False), (most + 1, False)):
        graph = graph_of(after(steps))
        program = plans.lowered(graph)
        if is_run:
            value, _ = values_of(graph, program)
            assert value - steps == pytest.approx(np.sum(np.sin(np.sqrt(1 + X * X)) * X))
        else:
            with pytest.raises(UnfinishedError):
                values_of(graph, program)


def test_what_a_step_complains_of_is_reported():
    def step(m: Any, _: Any) -> Any:
        return np.linalg.inv(m) - 1.0, None

    with configure(engine="native"), pytest.raises(np.linalg.LinAlgError):
        ng.scan(step, 2 * np.ones((2, 2)) * ng.tensor(1.0), length=3)[0].numpy()


@pytest.mark.parametrize("program", [loops_in_loops, delays])
def test_calls_that_trace_their_loops_anew_make_one_program(program):
    def gradient():
        x = ng.tensor(X, requires_grad=True)
        program(x).backward()
        return x.grad.numpy()

    first = gradient()
    known = [*evaluate._programs]
    assert np.array_equal(first, gradient())
    assert [*evaluate._programs] == known
