"""Random nested loops that fill arrays by elements: as NumPy's values, with their gradients."""

from collections.abc import Callable
from typing import Any

import numpy
import pytest

import numba_grad as ng
import numba_grad.numpy as np
from tests.transforms.loop_programs import WAYS, by_backward

ROWS, COLUMNS = 26, 18
TERMS = [
    "a[i, j]",
    "b[j, {k}]",
    "a[i, {k}] * b[{k}, j]",
    "np.sin(y[j])",
    "0.1 * i",
    "y[j]",
    "b[0, 0]",
    "np.tanh(table[i, j])",
    "(table[i - 1, j] if i > 0 else 0.0)",
    "(table[i, j - 1] if j > 0 else 0.1)",
    "(table[i - 1, j - 1] if i > 0 and j > 0 else y[0])",
    "(table[i - 2, j] if i > 1 else y[j])",
    "column[i]",
    "(column[i - 1] if i > 0 else 1.0)",
    "np.sum(table[i - 1]) * 0.1",
    "table[i, 0]",
    "table[0, j]",
    "np.maximum(table[i, j], 0.1)",
    "table[-1, j]",
]
BEFORE = [
    "table = table * 1.0",
    "for j in range({columns}): table[0, j] = y[j]",
    "for i in range({rows}): table[i, 0] = b[0, 0] * np.sin(y[0])",
]
STATEMENTS = [
    "table[i, j] {assign} 0.5 * np.cos({term}) + 0.1 * {number}",
    "for k in range({inner}): table[i, j] {add} 0.2 * np.sin({inner_term})",
    "column[i] {assign} 0.3 * np.cos({term})",
    "s = 0.0\nfor k in range({inner}): s = s + np.sin({inner_term})\ntable[i, j] = s * 0.3",
    "table[i] {assign} 0.4 * np.sin({term}) + 0.1 * y[:{columns}]",
]
RESULTS = [
    "np.sum(np.sin(table)) + np.sum(column * column) + y[0]",
    "table[-1, -1] + column[-1] + y[0]",
    "np.sum(table[-1] ** 2) + table[0, 0] + y[0]",
    "np.sum(table[:, 0] * column) + y[0]",
]


def text_of(seed: int) -> str:
    """A function of the arrays `a`, `b` and `y`, with NumPy or what stands for it as `np`."""
    random = numpy.random.default_rng(seed)

    def one_of(given: list[Any]) -> Any:
        return given[random.integers(len(given))]

    def term(k: str) -> str:
        return " * ".join([one_of(TERMS).format(k=k) for _ in range(random.integers(1, 3))])

    rows, columns, inner = one_of([5, 13, 20, 26]), one_of([1, 2, 3, 18]), one_of([1, 2, 3])
    rows, inner = (13, 1) if rows * columns * inner > 400 else (rows, inner)
    lines = [f"table = np.zeros(({rows}, {columns}))", f"column = np.ones({rows})"]
    lines += [x.format(rows=rows, columns=columns) for x in BEFORE if random.random() < 0.3]
    up_or_down = [f"range({rows})", f"range(1, {rows})", f"range({rows - 1}, -1, -1)"]
    across = [f"range({columns})", f"range({columns - 1}, -1, -1)"]
    loops = [f"for i in {one_of(up_or_down)}:", f"for j in {one_of(across)}:"]
    outer, within = loops if random.random() < 0.8 else loops[::-1]
    body = [
        line
        for _ in range(random.integers(1, 4))
        for line in one_of(STATEMENTS)
        .format(
            assign=one_of(["=", "+=", "*=", "-="]),
            add=one_of(["+=", "-="]),
            term=term("j"),
            inner_term=term("k"),
            number=term("0"),
            inner=min(inner, columns),
            columns=columns,
        )
        .split("\n")
    ]
    lines += [outer, f"    {within}", *[f"        {line}" for line in body]]
    lines.append(f"return {one_of(RESULTS)}")
    return "def f(np, a, b, y):\n" + "\n".join([f"    {line}" for line in lines])


def arguments(seed: int) -> list[numpy.ndarray]:
    random = numpy.random.default_rng(seed)
    shapes = [(ROWS, COLUMNS), (COLUMNS, COLUMNS), (COLUMNS,)]
    return [random.normal(size=shape) for shape in shapes]


def function_of(text: str) -> Callable[..., Any]:
    names: dict[str, Any] = {}
    exec(text, names)
    return names["f"]


@pytest.mark.thorough(but="^(36|48)$")
@pytest.mark.parametrize("seed", range(96))
def test_values_are_numpys_and_gradients_are_those_of_every_way(seed: int) -> None:
    text = text_of(seed)
    f, given = function_of(text), arguments(seed)

    def program(*arrays: Any) -> Any:
        return f(np, *arrays)

    value = f(numpy, *[x.copy() for x in given])
    # Some of these programs are chaotic: what the last bits of their inputs change, rounding may.
    moved = f(numpy, *[x * (1 + 4e-16) for x in given])
    rtol = 1e-12 + 10 * abs(moved / value - 1)
    expected = by_backward(program, *given)
    numpy.testing.assert_allclose(expected[0], value, rtol=rtol, err_msg=text)
    for name, way in WAYS.items():
        for x, y in zip(way(program, *given), expected, strict=True):
            numpy.testing.assert_allclose(
                x, y, rtol=100 * rtol, atol=1e-10, err_msg=f"{name}\n{text}"
            )
    numpy.testing.assert_allclose(ng.jit(program)(*given), value, rtol=rtol, err_msg=text)


@pytest.mark.thorough(but="^(112|136)$")
@pytest.mark.parametrize("seed", range(100, 148))
def test_derivatives_are_those_of_differences(seed: int) -> None:
    """The first and, as it is one of the first, the second."""
    text = text_of(seed)
    f, (a, b, y) = function_of(text), arguments(seed)
    to, by = numpy.random.default_rng(seed).normal(size=(2, COLUMNS))
    slope = ng.grad(lambda y: f(np, ng.tensor(a), ng.tensor(b), y))

    def along(y: numpy.ndarray) -> float:
        return float(numpy.dot(numpy.asarray(slope(y)), by))

    h = 1e-6
    ends = [f(numpy, a.copy(), b.copy(), y + sign * h * by) for sign in (1, -1)]
    first = (ends[0] - ends[1]) / (2 * h)
    numpy.testing.assert_allclose(along(y), first, rtol=1e-5, atol=1e-6, err_msg=text)
    second = (along(y + h * to) - along(y - h * to)) / (2 * h)
    found = ng.grad(lambda y: np.dot(slope(y), by))(y)
    numpy.testing.assert_allclose(numpy.dot(found, to), second, rtol=1e-4, atol=1e-5, err_msg=text)
