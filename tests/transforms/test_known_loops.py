"""What was found in a graph is known at the next look at an equal one, here or in another process;
with other values, flags or holders it is looked for again."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest

import numba_grad as ng
import numba_grad.numpy as np
from numba_grad.compiler.building import cache
from numba_grad.compiler.known_bodies import StoreOfLoops
from numba_grad.transforms.rerolling import known_loops, rerolling
from numba_grad.transforms.stored_graphs import GraphReader, GraphWriter, NotStorable
from tests.compiler.loops_as_written import LOOPS
from tests.processes import run_python

Function = Callable[..., Any]


@pytest.fixture(autouse=True)
def anew() -> Iterator[None]:
    """Looks are kept, and nothing is known of those of other tests."""
    known_loops.forget()
    yield
    known_loops.forget()


@pytest.fixture
def looks(short: None, directory: Any, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Of each look at a graph, how many nodes that has."""
    counted: list[int] = []
    reroll = rerolling.reroll

    def looked(order: Any, *rest: Any) -> Any:
        counted.append(len(order))
        return reroll(order, *rest)

    monkeypatch.setattr(rerolling, "reroll", looked)
    return counted


def by_run(f: Function, *given: Any) -> list[numpy.ndarray]:
    leaves = [ng.tensor(x, requires_grad=k == 0) for k, x in enumerate(given)]
    value = f(*leaves)
    value.backward()
    return [value.detach().numpy(), leaves[0].grad.numpy()]


def by_jit(f: Function, *given: Any) -> list[numpy.ndarray]:
    return [numpy.asarray(x) for x in ng.jit(ng.value_and_grad(f))(*given)]


def of_second_order(f: Function, *given: Any) -> list[numpy.ndarray]:
    def squares(x: Any, *rest: Any) -> Any:
        return np.sum(ng.grad(f)(x, *rest) ** 2)

    return [numpy.asarray(x) for x in ng.jit(ng.value_and_grad(squares))(*given)]


def along_a_direction(f: Function, *given: Any) -> list[numpy.ndarray]:
    def pushed(x: Any, *rest: Any) -> Any:
        return ng.jvp(lambda y: f(y, *rest), (x,), (np.ones_like(x),))

    return [numpy.asarray(x) for x in ng.jit(pushed)(*given)]


WAYS = {"by run": by_run, "jit": by_jit, "second order": of_second_order, "jvp": along_a_direction}


def equal(found: list[numpy.ndarray], expected: list[numpy.ndarray]) -> bool:
    return [x.tobytes() for x in found] == [x.tobytes() for x in expected]


@pytest.mark.thorough(every=7)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", LOOPS)
def test_what_is_known_gives_the_same_bits(name: str, way: str, looks: list[int]) -> None:
    f, arguments = LOOPS[name](24)
    expected = WAYS[way](f, *arguments)
    del looks[:]
    assert equal(WAYS[way](f, *arguments), expected)
    cache.write_waiting()
    known_loops.forget()  # what this process knows: now it is read
    assert equal(WAYS[way](f, *arguments), expected)
    assert not looks


PROGRAM = """
import sys
import numpy
import numba_grad as ng
from tests.compiler.loops_as_written import LOOPS

for name in ("state_in_an_array", "numbers_of_a_buffer", "gates_in_a_buffer"):
    f, arguments = LOOPS[name](200)
    value, gradient = ng.jit(ng.value_and_grad(f))(*arguments)
    print(value, numpy.asarray(gradient).tobytes().hex())
    leaves = [ng.tensor(x, requires_grad=True) for x in arguments]
    f(*leaves).backward()
    print(leaves[0].grad.numpy().tobytes().hex())
mask = numpy.ones(3)
print(ng.jit(lambda x: ng.sum(ng.numpy.array(mask) * x))(mask))
ours = "transforms.rerolling.rerolling", "compiler.control_flow.joinable_steps"
print([name for name in ours if f"numba_grad.{name}" in sys.modules], "numpy.ma" in sys.modules)
"""


@pytest.mark.thorough
def test_a_second_process_imports_nothing_that_looks(tmp_path: Any) -> None:
    first, second = (
        run_python(PROGRAM, NUMBA_GRAD_CACHE_DIR=tmp_path / "cache").splitlines() for _ in range(2)
    )
    assert first[:-1] == second[:-1]
    assert "joinable_steps" in first[-1]
    assert second[-1] == "[] False"


# What a look depends on.


def chain(x: Any, numbers: Any) -> Any:
    for number in numbers:
        x = np.sin(x) * number + 0.25 * x
    return x


X = numpy.array([0.3, 0.4])


@pytest.mark.parametrize("way", ["by run", "jit"])
def test_constants_of_steps_have_their_values(way: str, looks: list[int]) -> None:
    for factors in ([0.5] * 40, [0.5, 0.75] * 20, [0.5 + k / 64 for k in range(40)], [0.75] * 40):

        def f(x: Any, factors: Any = factors) -> Any:
            return np.sum(chain(x, [numpy.float64(k) for k in factors]))

        with ng.configure(engine="reference"):
            expected = expected_gradient(factors)
        numpy.testing.assert_allclose(WAYS[way](f, X)[1], expected, rtol=1e-12)


def expected_gradient(factors: Any) -> numpy.ndarray:
    x, slope = X.copy(), numpy.ones_like(X)
    for factor in factors:
        slope *= numpy.cos(x) * factor + 0.25
        x = numpy.sin(x) * factor + 0.25 * x
    return slope


def test_data_that_change_are_not_kept_again_and_again(
    looks: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each batch of a training has other numbers."""
    written: list[str] = []
    monkeypatch.setattr(StoreOfLoops, "write", lambda store, name, content: written.append(name))
    for batch in range(6):
        data = numpy.full(40, 0.5) + batch / 64
        x = ng.tensor(X, requires_grad=True)
        np.sum(chain(x, [numpy.array([k, k]) for k in data])).backward()
        numpy.testing.assert_allclose(x.grad, expected_gradient(data), rtol=1e-12)
    assert len(looks) == 6
    assert len(written) == 2
    assert len(set(written)) == 1
    assert known_loops._varying  # and such are not even named any more


def test_steps_without_gradients_are_others(looks: list[int]) -> None:
    def f(x: Any, is_stopped: bool) -> Any:
        y = x
        for k in range(40):
            with ng.set_grad_enabled(not (is_stopped and k == 20)):
                y = np.sin(y) + x
        return np.sum(y)

    gradients = [by_run(lambda x, s=s: f(x, s), X)[1] for s in (False, True, False)]
    assert (gradients[0] == gradients[2]).all()
    assert (gradients[0] != gradients[1]).all()


def test_what_is_held_stays(looks: list[int]) -> None:
    expected: list[numpy.ndarray] = []
    for holds in (False, True, True):
        x = ng.tensor(X, requires_grad=True)
        y, held = x, []
        for k in range(40):
            y = np.sin(y) + 0.5 * x
            if holds and k == 20:
                y.retain_grad()
                held.append(y)
        np.sum(y).backward()
        expected.append(x.grad.numpy())
        if holds:
            slope = numpy.ones_like(X)
            values = [X]
            for _ in range(40):
                values.append(numpy.sin(values[-1]) + 0.5 * X)
            for k in range(39, 20, -1):
                slope *= numpy.cos(values[k])
            numpy.testing.assert_allclose(held[0].grad, slope, rtol=1e-12)
    numpy.testing.assert_allclose(expected[0], expected[1], rtol=1e-12)
    assert (expected[1] == expected[2]).all()


def test_hooks_are_called_where_steps_are_known(looks: list[int]) -> None:
    for _ in range(2):
        called = []
        x = ng.tensor(X, requires_grad=True)
        y = x
        for k in range(40):
            y = np.sin(y) + 0.5 * x
            if k == 20:
                y.register_hook(called.append)
        np.sum(y).backward()
        assert len(called) == 1


def test_arrays_that_are_read_at_calls_have_their_values_then(looks: list[int]) -> None:
    """They are the caller's: another process may have others there."""
    data = numpy.linspace(0.5, 0.6, 40)

    def f(x: Any) -> Any:
        return np.sum(chain(x, data))

    numpy.testing.assert_allclose(by_jit(f, X)[1], expected_gradient(data), rtol=1e-12)
    data[:] += 0.125
    numpy.testing.assert_allclose(by_jit(f, X)[1], expected_gradient(data), rtol=1e-12)


# Graphs as bytes.


@pytest.mark.parametrize(
    "value",
    [
        *(None, True, 1, 1.0, -0.0, float("nan"), 1j, "x", b"x", (), (1, (2.0, "y")), [1, [2]]),
        *(numpy.dtype("float32"), numpy.float32(0.1), numpy.int8(-1), {"a": 1, "b": (None,)}),
    ],
    ids=repr,
)
def test_params_are_what_they_were(value: Any) -> None:
    writer = GraphWriter({})
    said = writer.value(value)
    found = GraphReader(writer.content(said), [], lambda body: body)
    again = found._value(found.rest)
    assert type(again) is type(value)
    assert repr(again) == repr(value)


def test_what_has_no_meaning_elsewhere_is_refused() -> None:
    for value in (object(), lambda x: x, numpy.ones(2), {1, 2}):
        with pytest.raises(NotStorable):
            GraphWriter({}).value(value)
