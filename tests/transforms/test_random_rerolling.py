"""Random Python loops: the same values and gradients as step by step."""

import functools
from collections.abc import Callable
from typing import Any

import numpy
import pytest

import numba_grad as ng
import numba_grad.numpy as np
from tests.transforms.loop_programs import WAYS, Program, by_backward, by_grad, by_jit, step_by_step

# Of two variables, one of the step before, the parameters, a row of data and the step.
OPERATIONS: list[Callable[..., Any]] = [
    lambda x, y, z, p, row, k: 0.9 * x + 0.1 * y,
    lambda x, y, z, p, row, k: np.sin(x * y),
    lambda x, y, z, p, row, k: np.tanh(x - y) + row()[0],
    lambda x, y, z, p, row, k: x * (0.5 + 0.001 * k) + y,
    lambda x, y, z, p, row, k: np.where(x > y, x, 0.9 * y) * p[0],
    lambda x, y, z, p, row, k: np.exp(-(x * x)) + p[1] * p[2],
    lambda x, y, z, p, row, k: np.maximum(x, y) * 0.99 + row()[1:2] * 0.1,
    lambda x, y, z, p, row, k: x / (1.0 + y * y) - z * 0.1,
    lambda x, y, z, p, row, k: np.stack([x[0], y[0] * 0.5]).sum(keepdims=True) * 0.4,
    lambda x, y, z, p, row, k: ng.cond((x < y)[0], lambda: 0.8 * x + z, lambda: np.sin(y)) * p[3],
    lambda x, y, z, p, row, k: y * ng.cond(row()[0] > 0.0, lambda: x + z, lambda: 0.5 * x) * 0.5,
]


def random_loop(seed: int) -> Program:
    """A loop of random operations on some variables, numbers that change and rows of data."""
    random = numpy.random.default_rng(seed)
    count = int(random.integers(1, 4))
    lines = [
        (OPERATIONS[random.integers(len(OPERATIONS))], *random.integers(0, count, 3).tolist())
        for _ in range(random.integers(2, 7))
    ]
    steps, is_delayed = int(random.integers(40, 60)), bool(random.integers(0, 2))
    is_same = seed % 3 == 0  # all begin as one node, which steps read as well
    appended, first = int(random.integers(0, count + 1)), int(random.integers(0, 3))

    def f(p: Any, data: Any) -> Any:
        base = p[1:2]
        variables = [base if is_same else p[k : k + 1] * (1.0 + k) for k in range(count)]
        older, kept = list(variables), []
        for k in range(steps):
            before = list(variables)
            for operation, target, a, b in lines:
                y = (older if is_delayed else variables)[b]
                row = functools.partial(data.__getitem__, k)
                variables[target] = operation(variables[a], y, older[a], p, row, k)
                if is_same and target == 0:
                    variables[target] = 0.5 * variables[target] * base
            if appended < count and k >= first:
                kept.append(variables[appended])
            older = before
        total = sum(np.sum(x) for x in variables)
        return total + np.sum(np.stack(kept) ** 2) if kept else total

    return f


RANDOM = [*range(3), *(pytest.param(k, marks=pytest.mark.thorough) for k in range(3, 150))]


@pytest.mark.parametrize("seed", RANDOM)
def test_random_loops(seed: int, given: list[numpy.ndarray], loops: list[int]) -> None:
    f = random_loop(seed)
    ways = [by_backward, by_grad] if seed % 4 else [by_backward, by_jit]
    expected = step_by_step(f, *given)
    value, *gradients = expected
    condition = sum(numpy.abs(g * x).sum() for g, x in zip(gradients, given, strict=True))
    if condition > 1e6 * abs(value):
        pytest.skip("a chaotic loop: the last bits of its inputs decide about its gradient")
    for way in ways:
        for x, y in zip(way(f, *given), expected, strict=True):
            numpy.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-11)


# Of a table of rows, another one, the state, which row, and the data.
ASSIGNMENTS: list[Callable[..., Any]] = [
    lambda a, b, y, k, data: a.__setitem__(k, y),
    lambda a, b, y, k, data: 0.5 * np.sin(y + a[k]),
    lambda a, b, y, k, data: a.__setitem__(k + 1, y * 0.7),
    lambda a, b, y, k, data: b.__setitem__(k, a[k + 1] * y),
    lambda a, b, y, k, data: y * 0.9 + 0.1 * (a[k + 1] - a[k]),
    lambda a, b, y, k, data: a.__setitem__(k + 2, 0.5 * a[k + 1] + 0.1 * np.cos(y)),
    lambda a, b, y, k, data: y + 0.3 * a[k + 1].detach(),
    lambda a, b, y, k, data: b.__setitem__(2 * k + 1, b[2 * k - 1] if k else y),
    lambda a, b, y, k, data: y + 0.01 * data[k, 0],
    lambda a, b, y, k, data: a.__setitem__(60 - k, y - b[60 - k]),
    lambda a, b, y, k, data: y + 0.01 * b[99 - k] * data[59 - k, 1],
]


def random_assignments(seed: int, held: list[Any]) -> Program:
    """A loop that writes rows of two tables, which stay where somebody holds them in the end."""
    random = numpy.random.default_rng(seed)
    lines = [ASSIGNMENTS[k] for k in random.integers(0, len(ASSIGNMENTS), random.integers(2, 5))]
    stride, steps, late = (int(random.integers(*x)) for x in ((1, 3), (30, 45), (0, 30)))
    is_held, rest = bool(random.integers(2)), (2,) if random.integers(2) else ()

    def f(p: Any, data: Any) -> Any:
        held.clear()
        first = p[:2] if rest else p[0]
        a, b, y = (
            np.ones((100, *rest)) * (first if seed % 3 else 1.0),
            np.zeros((100, *rest)),
            first,
        )
        for k in range(steps):
            for line in lines:
                found = line(a, b, y, stride * k if line is ASSIGNMENTS[0] else k, data)
                y = y if found is None else found
            if k == late and is_held:
                held.append(a[k])
        if is_held:
            held.extend([a, b])
        return np.sum(a**2) + np.sum(np.sin(b)) + np.sum(y)

    return f


ASSIGNING = [*range(3), *(pytest.param(k, marks=pytest.mark.thorough) for k in range(3, 200))]


@pytest.mark.parametrize("seed", ASSIGNING)
def test_random_assignments_of_rows(
    seed: int, given: list[numpy.ndarray], loops: list[int]
) -> None:
    held: list[Any] = []
    f = random_assignments(seed, held)
    with ng.configure(engine="reference"):  # what is checked are graphs
        expected = step_by_step(f, *given)
        tables = [x.detach().numpy() for x in held]
        for way in WAYS.values():
            for x, y in zip(way(f, *given), expected, strict=True):
                numpy.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-11)
            if way is by_backward:
                for x, y in zip(held, tables, strict=True):
                    numpy.testing.assert_allclose(x.detach().numpy(), y, rtol=1e-12)


# Of a table with three columns, the state, which row, and the data.
PARTS: list[Callable[..., Any]] = [
    lambda a, y, k, p, data: a.__setitem__((k + 1, 0), y[0] * 0.9),
    lambda a, y, k, p, data: a.__setitem__((k + 1, slice(1, 3)), np.sin(y) * p[:2]),
    lambda a, y, k, p, data: a.__setitem__((k + 1, 1), a[k, 0] * 0.5 + y[1]),
    lambda a, y, k, p, data: a.__setitem__((k + 2, 2), a[k + 1, 2] - data[k, 1]),
    lambda a, y, k, p, data: a.__setitem__(k + 3, np.tanh(a[k]) * p[3]),
    lambda a, y, k, p, data: a.__setitem__((k + 1, slice(0, 3, 2)), y),
    lambda a, y, k, p, data: y * 0.9 + 0.1 * a[k, 1:],
    lambda a, y, k, p, data: y * 0.9 + 0.1 * a[k + 1, 0],
    lambda a, y, k, p, data: y + 0.01 * np.sum(a[k]),
    lambda a, y, k, p, data: y - 0.1 * np.stack([a[k, 2], a[k + 1, 1]]),
]


@pytest.mark.parametrize("seed", ASSIGNING)
def test_random_assignments_of_parts_of_rows(
    seed: int, given: list[numpy.ndarray], loops: list[int]
) -> None:
    random = numpy.random.default_rng(seed)
    lines = [PARTS[k] for k in random.integers(0, len(PARTS), random.integers(2, 6))]
    steps, begins = int(random.integers(20, 45)), int(random.integers(0, 3))

    def f(p: Any, data: Any) -> Any:
        a, y = np.zeros((50, 3)), (p[:2], numpy.array([0.7, 0.3]))[seed % 2]
        if begins:
            a[0] = p[1:] if begins == 1 else numpy.array([0.1, 0.2, 0.3])
        for k in range(steps):
            for line in lines:
                found = line(a, y, k, p, data)
                y = y if found is None else found
        return np.sum(np.sin(a)) + np.sum(y**2) + p[0]

    with ng.configure(engine="reference"):  # what is checked are graphs
        expected = step_by_step(f, *given)
        for way in WAYS.values():
            for x, y in zip(way(f, *given), expected, strict=True):
                numpy.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-11)


# Of two tables, the state, which row, and the parameters.
WINDOWS: list[Callable[..., Any]] = [
    lambda a, b, y, k, p: a.__setitem__(k + 4, np.tanh(np.sum(a[k : k + 4], axis=0) * p[0])),
    lambda a, b, y, k, p: a.__setitem__(k + 4, 0.5 * np.sin(a[k + 2 : k + 4]).sum(axis=0) + a[k]),
    lambda a, b, y, k, p: a.__setitem__(k + 4, y * 0.9 + 0.1),
    lambda a, b, y, k, p: b.__setitem__(k + 1, a[k + 1 : k + 4].mean(axis=0) - y),
    lambda a, b, y, k, p: 0.8 * y + 0.1 * np.sum(a[k : k + 6 : 2], axis=0),
    lambda a, b, y, k, p: 0.8 * y + 0.1 * np.sum(np.cos(b[k : k + 2]), axis=0),
    lambda a, b, y, k, p: 0.9 * y + 0.05 * np.sum(a[k + 1 : k + 5], axis=0).detach(),
    lambda a, b, y, k, p: 0.9 * y + 0.02 * np.sum(a[0:3], axis=0),
    lambda a, b, y, k, p: 0.9 * y + 0.02 * np.sum(a[k + 3 : k + 7], axis=0),
    lambda a, b, y, k, p: b.__setitem__(50 - k, 0.5 * b[51 - k : 54 - k].sum(axis=0) + y),
    lambda a, b, y, k, p: 0.9 * y + 0.02 * a_table_of_its_own(y, p),
    lambda a, b, y, k, p: without_history(a, y, k),
]


def without_history(a: Any, y: Any, k: int) -> None:
    with ng.no_grad():
        a[k + 4] = y


def a_table_of_its_own(y: Any, p: Any) -> Any:
    table = np.stack([y, y * p[0], y * p[1], y])
    table[1] = y * 0.3
    table[2] = np.sin(table[0:2].sum(axis=0))
    return table[1:4].sum(axis=0)


BEGINNINGS: list[Callable[..., Any]] = [
    lambda a, first: None,
    lambda a, first: a.__setitem__(slice(4), np.stack([first, 0.5 * first, 0.2 * first, first])),
    lambda a, first: [a.__setitem__(i, first * (i + 1) * 0.2) for i in range(4)],
    lambda a, first: a.__setitem__(slice(4), 0.3),
    lambda a, first: a.__setitem__(1, first),
]


@pytest.mark.parametrize("seed", ASSIGNING)
def test_random_windows_of_assigned_rows(
    seed: int, given: list[numpy.ndarray], loops: list[int]
) -> None:
    random = numpy.random.default_rng(seed)
    lines = [WINDOWS[k] for k in random.integers(0, len(WINDOWS), random.integers(1, 4))]
    steps, begins = int(random.integers(20, 40)), BEGINNINGS[seed % len(BEGINNINGS)]
    rest, is_of_first = ((2,), (), (1,))[seed % 3], bool(random.integers(2))

    def f(p: Any, data: Any) -> Any:
        first = y = {(2,): p[:2], (): p[0], (1,): p[1:2]}[rest]
        a, b = np.zeros((70, *rest)), np.ones((70, *rest)) * (first if is_of_first else 0.5)
        begins(a, first)
        for k in range(steps):
            for line in lines:
                found = line(a, b, y, k, p)
                y = y if found is None else found
        return np.sum(a[steps:] ** 2) + np.sum(np.sin(a + b)) + np.sum(y) + 0.0 * np.sum(p)

    with ng.configure(engine="reference"):  # what is checked are graphs
        expected = step_by_step(f, 0.5 * given[0], given[1])
        for way in WAYS.values():
            for x, y in zip(way(f, 0.5 * given[0], given[1]), expected, strict=True):
                numpy.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-11)
