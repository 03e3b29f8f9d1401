"""Steps of Python loops that read any row: of an array, of what they compute, of a list."""

from typing import Any

import numpy
import pytest

import numba_grad as ng
import numba_grad.numpy as np
from numba_grad.transforms.rerolling import rerolling
from tests.transforms.loop_programs import WAYS, Program, step_by_step

RANDOM = numpy.random.default_rng(2)
LABELS = RANDOM.integers(0, 5, 60).tolist()
PAIRS = RANDOM.integers(0, 5, (60, 2)).tolist()
WEIGHTS, ROWS = RANDOM.normal(size=(5, 5)), RANDOM.normal(size=(60, 5))


def negative_logarithms(w: Any, x: Any) -> Any:
    total = 0.0
    for i in range(60):
        z = w @ x[i]
        total += np.log(np.sum(np.exp(z - np.max(z)))) + np.max(z) - z[LABELS[i]]
    return total


def softmax(z: Any) -> Any:
    e = np.exp(z - np.max(z))
    return e / np.sum(e)


def rows_of_a_list(w: Any, x: Any) -> Any:
    total = np.sum(w)
    for row, label in zip([x[i] for i in range(60)], LABELS, strict=True):
        total = total - np.log(softmax(w @ row)[label])
    return total


def picked_from_rows_left(w: Any, x: Any) -> Any:
    rows = [softmax(w @ x[i]) for i in range(60)]
    return -sum(np.log(p[k]) for p, k in zip(rows, LABELS, strict=True))


def elements_of_a_matrix(w: Any, x: Any) -> Any:
    p = np.exp(w) / np.sum(np.exp(w), axis=1, keepdims=True)
    total = np.sum(x[0])
    for i, (a, b) in enumerate(PAIRS):
        total = total - np.log(p[a, b]) * x[i, b]
    return total


def recurrent(w: Any, x: Any) -> Any:
    h, total = x[0], 0.0
    for a, b in PAIRS:
        h = np.tanh(w[a] + w @ h)
        total = total + np.log(np.sum(np.exp(h))) - h[b]
    return total


def recurrent_by_elements(w: Any, x: Any) -> Any:
    h, total = x[0], 0.0
    for i, (a, b) in enumerate(PAIRS):
        h = np.tanh(x[i] * w[a, b] + 0.5 * h)
        total = total + h[a] * x[i, b]
    return total


def picked_from_states_left(w: Any, x: Any) -> Any:
    h, rows = x[0], []
    for i in range(60):
        h = softmax(w @ h + x[i])
        rows.append(h)
    return -sum(np.log(p[k]) for p, k in zip(rows, LABELS, strict=True))


def part_of_a_matrix(w: Any, x: Any) -> Any:
    total = 0.0
    for i in range(60):
        outer = np.outer(np.sin(x[i]), w[0])
        total = total + np.sum(outer[LABELS[i]] * x[i]) + outer[1, LABELS[i]]
    return total


AT_ONCE = [negative_logarithms, rows_of_a_list, picked_from_rows_left, elements_of_a_matrix]
LOOPS = [recurrent, recurrent_by_elements]


@pytest.mark.thorough(every=11)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("f", [*AT_ONCE, *LOOPS, part_of_a_matrix, picked_from_states_left])
def test_gradients_are_those_of_the_steps(
    f: Program, way: str, loops: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rerolling, "_ONE_SEGMENT", 100)
    expected = step_by_step(f, WEIGHTS, ROWS)
    loops.clear()
    found = WAYS[way](f, WEIGHTS, ROWS)
    for x, y in zip(found, expected, strict=True):
        numpy.testing.assert_allclose(x, y, rtol=1e-11, atol=1e-13)
    assert way != "jit" or max(loops) >= 56


def operations(f: Program) -> list[str]:
    lowered = ng.jit(ng.value_and_grad(f, argnums=(0, 1))).lower(WEIGHTS, ROWS)
    lines = [line for line in str(lowered.graph).splitlines() if " = " in line]
    return [line.split(" = ")[1].split("(")[0] for line in lines]


@pytest.mark.parametrize("f", AT_ONCE)
def test_steps_that_need_nothing_of_each_other_are_done_at_once(f: Program) -> None:
    found = operations(f)
    assert "loop" not in found
    assert len(found) < 200  # recorded one by one there are thousands


@pytest.mark.thorough(but="recurrent$")
@pytest.mark.parametrize("f", LOOPS)
def test_steps_that_do_are_a_loop_where_they_are_many(
    f: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rerolling, "_ONE_SEGMENT", 1 << 20)
    assert "loop" not in operations(f)
    monkeypatch.setattr(rerolling, "_ONE_SEGMENT", 100)
    assert "loop" in operations(f)
