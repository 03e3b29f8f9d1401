"""Random tables whose cells Python computes one by one, in two nested loops: a loop of rows, each
of which is a loop."""

from collections.abc import Callable
from typing import Any

import numpy
import pytest

import numba_grad as ng
import numba_grad.numpy as np
from numba_grad.transforms.rerolling import rerolling
from tests.counting import found_by
from tests.transforms.loop_programs import WAYS, Program, by_jit, step_by_step


def least(p: Any, up: Any, left: Any, corner: Any, cost: Any) -> Any:
    return np.minimum(np.minimum(up + p[0], left + p[1]), corner + cost)


def soft_least(p: Any, up: Any, left: Any, corner: Any, cost: Any) -> Any:
    return 0.1 * cost + 0.5 * np.log(1 + np.exp(up * p[0]) + np.exp(left) + np.exp(corner))


def relaxed(p: Any, up: Any, left: Any, corner: Any, cost: Any) -> Any:
    return 0.3 * (up + left) + 0.2 * p[2] * corner + 0.1 * np.sin(cost)


def chosen(p: Any, up: Any, left: Any, corner: Any, cost: Any) -> Any:
    with ng.no_grad():
        away = np.abs(up - left) * 0.1
    return 0.5 * np.tanh(up * p[3] + left) + away * corner + cost * cost * 0.2


CELLS = [least, soft_least, relaxed, chosen]


class RandomTable:
    """How the cells of a table are kept, in which order they are computed, and what they read."""

    def __init__(self, seed: int) -> None:
        random = numpy.random.default_rng(seed)
        self.rows, self.columns = (int(x) for x in random.integers((13, 9), (17, 15)))
        self.cell = CELLS[random.integers(len(CELLS))]
        self.is_buffer, self.is_turned, self.is_upwards = random.random(3) < (0.4, 0.2, 0.2)
        self.has_late_border, self.reads_old = random.random(2) < (0.6, 0.4)
        self.costs, self.results = (int(x) for x in random.integers((4, 3)))
        self.numbers = random.normal(size=(self.rows, self.columns))

    def cost(self, p: Any, data: Any, i: int, j: int) -> Any:
        if self.costs == 0:
            return data[i, j % 2]
        if self.costs == 1:
            return np.sin(data[j, 0]) * data[i, 1]
        return self.numbers[i, j] * p[2] if self.costs == 2 else self.products[i, j]

    def __call__(self, p: Any, data: Any) -> Any:
        rows, columns = self.rows, self.columns
        self.products = np.outer(data[:rows, 0], data[:columns, 1])
        table: Any = {}
        if self.is_buffer:
            table = np.zeros((rows, columns)) + p[3] * 0.1
        elif self.reads_old:
            table = {(i, j): 0.1 * p[3] for i in range(rows) for j in range(columns)}
        for j in range(columns):
            table[0, j] = p[0] * j
        for i in range(1, rows if not self.has_late_border else 1):
            table[i, 0] = p[1] * i
        for i in range(1, rows):
            if self.has_late_border:
                table[i, 0] = table[i - 1, 0] + p[1]
            order = range(1, columns)
            for j in reversed(order) if self.is_turned else order:
                left = j - 1 if not self.is_turned else (j + 1) % columns
                if not self.is_buffer and (i, left) not in table:
                    left = 0
                corner = table[i - 1, j - 1]
                if self.reads_old and i + 1 < rows:
                    corner = corner + 0.5 * table[i + 1, j]
                up, before = table[i - 1, j], table[i, left]
                table[i, j] = self.cell(p, up, before, corner, self.cost(p, data, i, j))
        cells = [table[i, j] for i in range(rows) for j in range(columns)]
        if self.results == 0:
            return cells[-1]
        if self.results == 1:
            return np.sum(np.stack(cells[-columns:]) ** 2)
        return np.sum(np.sin(np.stack(cells))) + cells[columns + 2]


@pytest.mark.thorough(every=30)
@pytest.mark.parametrize("seed", range(30))
def test_random_tables(seed: int, given: list[numpy.ndarray], loops: list[int]) -> None:
    f: Program = RandomTable(seed)
    expected = step_by_step(f, *given)
    for name, way in WAYS.items():
        for x, y in zip(way(f, *given), expected, strict=True):
            numpy.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-11, err_msg=name)


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.__name__)
def test_rows_of_cells_are_a_loop_in_a_loop(
    cell: Callable[..., Any], given: list[numpy.ndarray], loops: list[int]
) -> None:
    table = RandomTable(0)
    table.rows, table.columns, table.cell, table.costs, table.results = 16, 14, cell, 3, 0
    table.is_buffer = table.is_turned = table.reads_old = False
    table.has_late_border = True
    for x, y in zip(by_jit(table, *given), step_by_step(table, *given), strict=True):
        numpy.testing.assert_allclose(x, y, rtol=1e-11, atol=1e-12)
    assert any(count >= table.columns - 3 for count in loops), loops
    assert any(count >= table.rows - 3 for count in loops), loops


def table_with_borders(rows: int, columns: int) -> RandomTable:
    table = RandomTable(0)
    table.rows, table.columns, table.cell, table.costs, table.results = rows, columns, least, 3, 0
    table.is_buffer = table.is_turned = table.reads_old = table.has_late_border = False
    return table


def test_rows_that_read_borders_are_a_loop_in_a_loop(
    given: list[numpy.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    # In functions of this length other steps that read results do not become a loop.
    loops = found_by(monkeypatch, rerolling._Loop, "made", lambda loop: [loop.times])
    table = table_with_borders(18, 20)
    for x, y in zip(by_jit(table, *given), step_by_step(table, *given), strict=True):
        numpy.testing.assert_allclose(x, y, rtol=1e-11, atol=1e-12)
    assert {17, 18} <= {*loops}, loops  # the first cell of a row reads the border


def test_kernels_do_not_depend_on_the_size(given: list[numpy.ndarray]) -> None:
    def sources(rows: int, columns: int) -> set[str]:
        lowered = ng.jit(ng.value_and_grad(table_with_borders(rows, columns))).lower(*given)
        return {kernel.source for kernel in lowered.kernels}

    assert sources(24, 20) == sources(30, 20)
    assert sources(18, 20) == sources(18, 26)


def test_second_derivatives(given: list[numpy.ndarray], loops: list[int]) -> None:
    table, (p, data) = RandomTable(0), given
    table.cell, table.is_buffer, table.results = soft_least, False, 1
    hessian = ng.jit(ng.hessian(lambda p: table(p, data)))(p)
    step = 1e-5
    for k, direction in enumerate(numpy.eye(4)):
        ahead, behind = (by_jit(table, p + s * direction, data)[1] for s in (step, -step))
        numpy.testing.assert_allclose(
            hessian[k], (ahead - behind) / (2 * step), rtol=1e-5, atol=1e-7
        )
    assert loops
