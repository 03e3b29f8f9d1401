"""Several steps of a loop in one kernel: the same bits as one by one, and within few states."""

import functools
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.compiler import programs
from numba_grad.compiler.control_flow.joinable_steps import sums_added_together
from numba_grad.graph.walk import toposort

N = 6
ONE_BY_ONE, JOINED = 1 << 60, 0


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(3).random(shape)


def bend(u: Any) -> Any:
    return u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1]


def wave(state: Any, c: Any, row: Any) -> Any:
    before, now = state
    new = 2 * now - before + np.pad(c[1:-1, 1:-1] * bend(now), 1)
    return (now, new + row), new[1, 1]


def wave_around(state: Any, c: Any, row: Any) -> Any:
    before, now = state
    moved = np.roll(now, 1, 0) + np.roll(now, -1, 0) - 2 * now
    new = 2 * now - before + c * moved + row
    return (now, new), new[0]


def delayed(state: Any, c: Any, row: Any) -> Any:
    first, second, third = state
    return (second, third, 0.1 * first * c + np.roll(third, 1, 1) * c + row), row


def heat(u: Any, c: Any, row: Any) -> Any:
    new = u + np.pad(c[1:-1, 1:-1] * bend(u), 1) + row
    return new, new[2, 2]


def by_number(u: Any, c: Any, row: Any) -> Any:
    """Its gradient is a sum over all elements, which steps do not share."""
    return u + np.pad(c[0, 0] * bend(u), 1), row


def relaxed(u: Any, c: Any, row: Any) -> Any:
    inner = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - c[1:-1, 1:-1])
    return np.pad(inner, 1), row


LOOPS: dict[str, tuple[Callable[..., Any], int]] = {
    "wave": (wave, 2),
    "wave around": (wave_around, 2),
    "delayed": (delayed, 3),
    "heat": (heat, 1),
    "by number": (by_number, 1),
    "relaxed": (relaxed, 1),
}


def loss(name: str, steps: int, memory: Any, c: Any, u: Any, rows: Any) -> Any:
    step, fields = LOOPS[name]
    state = u if fields == 1 else tuple((k + 1) * u for k in range(fields))
    state, ys = ng.scan(lambda s, row: step(s, c, row), state, rows, steps, memory=memory)
    last = state if fields == 1 else state[-1]
    return np.sum(last**2) + np.sum(ys)


def given(steps: int, dtype: str = "float64") -> list[np.ndarray]:
    return [x.astype(dtype) for x in (0.2 * random(N, N), random(N, N), random(steps, N, N))]


def gradient(name: str, steps: int, memory: Any = None, order: int = 1) -> Callable[..., Any]:
    function = functools.partial(loss, name, steps, memory)
    if order == 2:
        first = ng.grad(function)
        return ng.jit(ng.grad(lambda *args: np.sum(first(*args) ** 2), argnums=(0, 1, 2)))
    return ng.jit(ng.grad(function, argnums=(0, 1, 2)))


def same(one: Any, other: Any) -> bool:
    return all(np.array_equal(x, y) for x, y in zip(one, other, strict=True))


@pytest.mark.thorough(but="^4-(wave around|delayed|by number)$")
@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize("steps", [1, 4, 7])
def test_joined_steps_have_the_bits_of_single_ones_and_of_few_states(
    name: str, steps: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(programs, "ELEMENTS_ONE_BY_ONE", ONE_BY_ONE)
    expected = gradient(name, steps)(*given(steps))
    assert same(gradient(name, steps, "2 states")(*given(steps)), expected)
    monkeypatch.setattr(programs, "ELEMENTS_ONE_BY_ONE", JOINED)
    assert same(gradient(name, steps)(*given(steps)), expected)
    assert same(gradient(name, steps, "2 states")(*given(steps)), expected)


@pytest.mark.thorough(but="delayed")
@pytest.mark.parametrize("name", LOOPS)
def test_runs_of_states_are_gone_back_over_in_passes_of_several_steps(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(programs, "ELEMENTS_ONE_BY_ONE", ONE_BY_ONE)
    steps = 19
    expected = gradient(name, steps)(*given(steps))
    for elements in (ONE_BY_ONE, JOINED):
        monkeypatch.setattr(programs, "ELEMENTS_ONE_BY_ONE", elements)
        for memory in ("1 states", "3 states", "4 states", "7 states", "18 states"):
            assert same(gradient(name, steps, memory)(*given(steps)), expected), memory
    in_file = gradient(name, steps, f"disk:{tmp_path}:1 MB")
    assert same(in_file(*given(steps)), expected)


@pytest.mark.thorough
@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize("steps", [0, 2, 3, 5, 6, 8, 9])
def test_of_any_number_of_steps_and_in_float32(
    name: str, steps: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(programs, "ELEMENTS_ONE_BY_ONE", ONE_BY_ONE)
    expected = gradient(name, steps)(*given(steps, "float32"))
    monkeypatch.setattr(programs, "ELEMENTS_ONE_BY_ONE", JOINED)
    assert same(gradient(name, steps)(*given(steps, "float32")), expected)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["wave", "heat"])
def test_second_derivatives_and_batches(name: str, monkeypatch: pytest.MonkeyPatch):
    c, u, rows = given(6)
    many = np.stack([c, 2 * c, 3 * c])
    batched = ng.vmap(gradient(name, 6), in_axes=(0, None, None))
    results = []
    for elements in (ONE_BY_ONE, JOINED):
        monkeypatch.setattr(programs, "ELEMENTS_ONE_BY_ONE", elements)
        second = gradient(name, 6, order=2)(c, u, rows)
        results.append([*second, *ng.jit(lambda c: batched(c, u, rows))(many)])
    within = gradient(name, 6, "4 states", order=2)(c, u, rows)
    for one, joined in zip(*results, strict=True):
        np.testing.assert_allclose(joined, one, rtol=1e-13, atol=1e-15)
    for one, of_few in zip(results[0], within, strict=False):
        np.testing.assert_allclose(of_few, one, rtol=1e-12, atol=1e-14)


def kernels(name: str, steps: int) -> set[str]:
    return {k.source for k in gradient(name, steps).lower(*given(steps)).kernels}


@pytest.mark.thorough(every=4)
@pytest.mark.parametrize("name", ["wave", "wave around", "delayed", "heat", "relaxed"])
def test_sums_of_four_steps_are_one_kernel_whatever_the_number_of_steps(
    name: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(programs, "ELEMENTS_ONE_BY_ONE", ONE_BY_ONE)
    one_by_one = kernels(name, 20)
    monkeypatch.setattr(programs, "ELEMENTS_ONE_BY_ONE", JOINED)
    joined = kernels(name, 20)
    assert joined - one_by_one
    assert kernels(name, 28) == joined


def spreading(u: Any, c: Any) -> Any:
    """Its derivative reads the state, as does the sum for `c`."""
    return u + np.pad(c[1:-1, 1:-1] * bend(u), 1) + 0.1 * u * (1 - u)


def absorbed(state: Any, c: Any) -> Any:
    """The sum for `c` reads both states, and a cotangent."""
    before, now = state
    inner = np.pad(c[1:-1, 1:-1] * bend(now), 1)
    return now, (2 - c) * now - (1 - c) * before + inner


@pytest.mark.thorough(every=3)
@pytest.mark.parametrize(
    ("step", "n", "is_joined"),
    [(spreading, 60, True), (spreading, 160, False), (absorbed, 60, True), (absorbed, 160, False)],
)
def test_where_no_cache_holds_what_sums_read_again_they_are_not_joined(
    step: Callable[..., Any], n: int, is_joined: bool
):
    def of_steps(c: Any, u: Any) -> Any:
        state = u if step is spreading else (u, u)
        state, _ = ng.scan(lambda s, _: (step(s, c), None), state, None, 8)
        return np.sum((state if step is spreading else state[1]) ** 2)

    found: SimpleQueue[Any] = SimpleQueue()  # of the library, so that nobody puts it back

    def gradient(c: Any, u: Any) -> Any:
        result = ng.grad(of_steps)(c, u)
        found.put(result)
        return result

    ng.jit(gradient).lower(0.2 * random(n, n), random(n, n))
    nodes = toposort([found.get()._node])
    [back] = [x for x in nodes if x.op.name == "loop" and x.params["sums"]]
    assert bool(sums_added_together(back).sums) == is_joined


def test_reductions_are_not_joined(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(programs, "ELEMENTS_ONE_BY_ONE", ONE_BY_ONE)
    one_by_one = kernels("by number", 8)
    monkeypatch.setattr(programs, "ELEMENTS_ONE_BY_ONE", JOINED)
    assert kernels("by number", 8) == one_by_one


def test_a_program_is_compiled_again_after_a_number_of_runs(monkeypatch: pytest.MonkeyPatch):
    # What is joined is the sum of the inner elements.
    monkeypatch.setattr(programs, "ELEMENTS_ONE_BY_ONE", 3 * 8 * (N - 2) ** 2)
    f, args = gradient("heat", 8), given(8)
    expected = f(*args)
    before = [k.source for k in f.lower(*args).kernels]
    for _ in range(2):
        assert same(f(*args), expected)
    assert [k.source for k in f.lower(*args).kernels] == before
    for _ in range(3):
        assert same(f(*args), expected)
    assert [k.source for k in f.lower(*args).kernels] != before


def test_so_is_one_that_is_defined_by_run(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(programs, "ELEMENTS_ONE_BY_ONE", 8 * 30 * 30)
    monkeypatch.setattr(programs, "MOST_ELEMENTS", 0)
    monkeypatch.setattr(programs, "MOST_BYTES", 0)
    compiled: list[str] = []
    compile_flat = programs.compile_flat

    def noted(graph: Any, destination: Any, **options: Any) -> Any:
        compiled.append(destination.name)
        return compile_flat(graph, destination, **options)

    monkeypatch.setattr("numba_grad.compiler.evaluate.compile_flat", noted)
    u = random(32, 32)
    c = ng.tensor(0.2 * u, requires_grad=True)
    found = []
    for _ in range(3):
        state, _ = ng.scan(lambda s, _: (heat(s, c, 0.0)[0], None), u, None, length=8)
        [g] = ng.autograd.grad(np.sum(state**2), [c])
        found.append(g.numpy())
    assert same(found[1:], found[:1] * 2)
    assert compiled == ["cpu", "cpu, several steps"]
