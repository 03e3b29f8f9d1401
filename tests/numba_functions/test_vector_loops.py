"""Loops that are written in another form, so that a compiler makes vector code of them: conditions
on the index become ranges, and what is added is added by loops of its own."""

import math

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import numba_grad as ng
from tests.numba_functions.derivatives import Case, check_gradient, check_tangent, check_values

RANGES = ((0, 20, 1), (20, -1, -1), (3, 3, 1), (7, -9, 1), (2, 19, 1), (18, 1, -1))
BOUNDS = (-(1 << 63), -5, -1, 0, 1, 2, 7, 18, 19, 20, 21, 40, (1 << 63) - 1)
CONDITIONS = (
    *("j != i", "i != j", "j < i", "i < j", "j <= i", "i <= j", "j > i", "j >= i"),
    *("not j == i", "not j != i", "not j < i", "j == i"),
)


def chosen(condition, step):
    """A function whose loop has a pass for each index that the condition is true of."""
    lines = (
        "def chosen(x, start, stop, i):",
        "    total = 0.0",
        "    out = np.zeros(x.shape[0])",
        f"    for j in range(start, stop, {step}):",
        f"        if {condition}:",
        "            total = 0.5 * total + x[j] * j",
        "            out[j] += x[j] / (1.0 + total * total)",
        "    return total, out",
    )
    namespace = {"np": np}
    exec("\n".join(lines), namespace)
    return namespace["chosen"]


@pytest.mark.thorough(but=r"^1-j != i$|^-1-i <= j$")
@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("step", [1, -1])
def test_conditions_on_the_index_choose_the_passes_that_they_did(condition, step):
    function = chosen(condition, step)
    operation = ng.differentiable(function)
    x = np.random.default_rng(0).normal(size=21)
    for start, stop, own in RANGES:
        if own != step:
            continue
        for i in BOUNDS:
            for given, expected in zip(
                operation(x, start, stop, i), function(x, start, stop, i), strict=True
            ):
                assert_array_equal(given, expected)
    is_rest = condition in ("j == i", "not j != i")
    assert ("if " in operation.primal_source.replace(" if t_", "")) == is_rest
    start, stop = (0, 21) if step == 1 else (20, -1)
    check_gradient(Case(operation, function, (x, start, stop, 7), ()))


def all_pairs(positions, masses, energy):
    """As people write it who leave out the particle itself by `continue`."""
    n = positions.shape[0]
    for i in range(n):
        for j in range(n):
            if i == j:
                continue
            dx = positions[j, 0] - positions[i, 0]
            dy = positions[j, 1] - positions[i, 1]
            d = math.sqrt(dx * dx + dy * dy + 0.1)
            energy[i] += masses[i] * masses[j] / d
    return energy.sum()


def upper_pairs(positions, masses, forces):
    n = positions.shape[0]
    for i in range(n):
        for j in range(n):
            if j > i:
                d = 0.0
                for k in range(2):
                    d += (positions[i, k] - positions[j, k]) ** 2
                f = masses[i] * masses[j] * math.exp(-d)
                for k in range(2):
                    forces[i, k] += f * (positions[j, k] - positions[i, k])
                    forces[j, k] -= f * (positions[j, k] - positions[i, k])


def softmax_losses(logits, weights):
    total = 0.0
    for i in range(logits.shape[0]):
        most = logits[i, 0]
        for j in range(logits.shape[1]):
            most = max(most, logits[i, j])
        normalization = 0.0
        for j in range(logits.shape[1]):
            normalization += math.exp(logits[i, j] - most)
        for j in range(logits.shape[1]):
            total += weights[j] * math.log(1e-3 + math.exp(logits[i, j] - most) / normalization)
    return total


def nine_points(u, out):
    for i in range(1, u.shape[0] - 1):
        for j in range(2, u.shape[1] - 2):
            out[i, j] = math.sin(u[i, j]) * (
                u[i, j - 2] - u[i, j - 1] + u[i, j + 1] * u[i, j + 2] + u[i - 1, j - 1]
            ) + math.sqrt(1.0 + u[i + 1, j + 1] ** 2) * u[i + 1, j] / (2.0 + u[i - 1, j])


def mirrored(x, out):
    n = x.shape[0]
    for i in range(n):
        out[i] = math.exp(-x[i]) * x[n - 1 - i] + math.log(2.0 + x[i] ** 2) * x[0]


def programs(n):
    rng = np.random.default_rng(1)
    positions, masses = rng.normal(size=(n, 2)), rng.random(n)
    return (
        Case(ng.differentiable(all_pairs), all_pairs, (positions, masses, np.zeros(n)), (2,)),
        Case(
            ng.differentiable(upper_pairs), upper_pairs, (positions, masses, np.zeros((n, 2))), (2,)
        ),
        Case(
            ng.differentiable(softmax_losses),
            softmax_losses,
            (rng.normal(size=(4, n)), rng.random(n)),
            (),
        ),
        Case(
            ng.differentiable(nine_points),
            nine_points,
            (rng.normal(size=(7, n)), np.zeros((7, n))),
            (1,),
        ),
        Case(ng.differentiable(mirrored), mirrored, (rng.normal(size=n), np.zeros(n)), (1,)),
    )


@pytest.mark.thorough(but="^20$")
@pytest.mark.parametrize("n", [1, 5, 20, 150])
def test_loops_in_parts_have_the_values_and_gradients_that_they_had(n):
    for case in programs(n):
        check_values(case)
        if n < 50:
            check_gradient(case)
            check_tangent(case)


def test_what_is_added_has_loops_of_its_own_or_is_added_in_any_order():
    for case in programs(6):
        case.results(*case.chosen())
        source = case.operation.adjoint_source
        assert any(word in source for word in ("sums[", "ring[", " = added(")), case.python.__name__


def scaled(x, factor):
    out = np.empty(x.shape)
    for i in range(x.shape[0]):
        out[i] = factor * x[i]
    return out


def test_cotangents_of_numbers_are_sums_in_any_order_and_values_are_not():
    """The order follows from the number of passes, so it is one in every run."""
    operation = ng.differentiable(scaled)
    x = np.random.default_rng(3).normal(size=1_003)
    gradient = ng.grad(lambda factor: np.sum(operation(x, factor) * x))
    found = gradient(2.0)
    np.testing.assert_allclose(found, math.fsum(x * x), rtol=1e-14)
    assert "factor_bar = added(factor_bar" in operation.adjoint_source
    for threads in (1, 2, 3):
        with ng.configure(threads=threads):
            assert_array_equal(gradient(2.0), found)
    assert "added" not in operation.primal_source


def test_a_gradient_does_not_depend_on_how_its_loops_are_cut():
    """Rows of more than the passes that are done together."""
    rng = np.random.default_rng(2)
    u = rng.normal(size=(4, 300))
    weights = rng.normal(size=u.shape)
    operation = ng.differentiable(nine_points)
    found = ng.grad(lambda u: np.sum(operation(u, np.zeros(u.shape)) * weights))(u)

    def on_arrays(u):
        c = u[1:-1, 2:-2]
        values = np.sin(c) * (
            u[1:-1, :-4] - u[1:-1, 1:-3] + u[1:-1, 3:-1] * u[1:-1, 4:] + u[:-2, 1:-3]
        ) + np.sqrt(1.0 + u[2:, 3:-1] ** 2) * u[2:, 2:-2] / (2.0 + u[:-2, 2:-2])
        return np.sum(values * weights[1:-1, 2:-2])

    np.testing.assert_allclose(found, ng.grad(on_arrays)(u), rtol=1e-12, atol=1e-12)


def between_cells(u, v, k, steps):
    """Diffusion with a coefficient that is averaged at faces: rows and columns of two arrays."""
    n, m = u.shape
    for _ in range(steps):
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                east = (k[i, j] + k[i, j + 1]) * (u[i, j + 1] - u[i, j])
                west = (k[i, j] + k[i, j - 1]) * (u[i, j] - u[i, j - 1])
                south = (k[i, j] + k[i + 1, j]) * (u[i + 1, j] - u[i, j])
                north = (k[i, j] + k[i - 1, j]) * (u[i, j] - u[i - 1, j])
                v[i, j] = u[i, j] + 0.1 * (east - west + south - north)
        u, v = v, u


def rows_of_several_arrays(a, b, c, w, out):
    """Places that are reached by one row and by three, from below, with a row that all share."""
    for i in range(a.shape[0] - 2, 0, -1):
        for j in range(a.shape[1] - 1):
            out[i, j] += a[i + 1, j] * b[i, j + 1] - a[i - 1, j + 1] * b[i - 1, j]
            out[i, j] += c[i, j] * w[j] * w[j + 1] + a[i, j] * a[i, j]


@pytest.mark.thorough(but="shape3")
@pytest.mark.parametrize("shape", [(2, 6), (3, 3), (4, 2), (5, 9), (9, 40)])
def test_rows_are_gathered_as_loops_over_single_passes_add_to_them(shape):
    rng = np.random.default_rng(4)
    u, v, k = (rng.random(shape) for _ in range(3))
    first = Case(ng.differentiable(between_cells), between_cells, (u, v, k, 3), (0, 1))
    w = rng.random(shape[1])
    arrays = (*(rng.random(shape) for _ in range(3)), w, rng.random(shape))
    operation = ng.differentiable(rows_of_several_arrays)
    for case in (first, Case(operation, rows_of_several_arrays, arrays, (4,))):
        check_values(case)
        check_gradient(case)
        check_tangent(case)
        assert "ring[" in case.operation.adjoint_source


def test_rows_that_threads_share_are_gathered_in_one_order():
    rng = np.random.default_rng(5)
    u, v, k = (rng.random((300, 200)) for _ in range(3))
    operation = ng.differentiable(between_cells)
    gradient = ng.grad(lambda u, k: np.sum(operation(u, v, k, 2)[0] ** 2), argnums=(0, 1))
    with ng.configure(threads=1):
        expected = gradient(u, k)
    assert "ring[" in operation.adjoint_source
    for threads in (2, 3):
        with ng.configure(threads=threads):
            for found, one in zip(gradient(u, k), expected, strict=True):
                assert_array_equal(found, one)


def reversed_shift(x, out, shift):
    for i in range(x.shape[0]):
        out[i - shift] = 2.0 * x[i]


def test_only_loops_whose_passes_have_elements_of_their_own_are_independent():
    """A negative index is a place from the end: two passes may have one."""
    operation = ng.differentiable(reversed_shift)
    x = np.arange(6.0)
    assert_array_equal(operation(x, np.zeros(6), 2), 2.0 * np.roll(x, -2))
    lines = operation.primal_source.splitlines()
    stored = next(k for k, line in enumerate(lines) if "out[wrapped(" in line)
    assert " in range(" in lines[stored - 1]
    other = ng.differentiable(scaled)
    other(x, 2.0)
    assert " in independent(" in other.primal_source
