"""What is done to a tree before and after it is differentiated: no value, no derivative changes."""

import numpy as np
import pytest
from numba import njit

import numba_grad as ng
from numba_grad.compiler.numba_functions.kept_values import least_kept
from numba_grad.compiler.numba_functions.regions import Scalar
from numba_grad.config import configure
from numba_grad.errors import KernelError
from tests.numba_functions.derivatives import Case, check_gradient, check_tangent, check_values
from tests.numba_functions.programs import PROGRAMS

RANDOM = np.random.default_rng(7)
on_both_engines = pytest.mark.parametrize(
    "engine", [pytest.param("native", marks=pytest.mark.thorough), "reference"]
)


# Minimum cuts.


def test_what_all_that_is_needed_comes_from_is_kept_once():
    a, b, total, sine, cosine = (Scalar(name, "float64") for name in "abtsc")
    operands = {a: [], b: [], total: [a, b], sine: [total], cosine: [total]}
    assert least_kept([sine, cosine], {a, b}, operands) == {total}


def test_a_flag_is_kept_rather_than_what_it_compares():
    a, b = Scalar("a", "float64"), Scalar("b", "float64")
    flag = Scalar("flag", "bool")
    assert least_kept([flag], {a, b}, {a: [], b: [], flag: [a, b]}) == {flag}


def test_nothing_is_kept_of_what_can_be_computed_again():
    a, total = Scalar("a", "float64"), Scalar("total", "float64")
    assert least_kept([total], set(), {a: [], total: [a]}) == set()


# How much a tape takes.


def tape_of(name: str, size: int) -> tuple[int, tuple]:
    program = PROGRAMS[name]
    arguments = program.arguments(size)
    return ng.differentiable(program.function).tape_bytes(*arguments), arguments


def test_a_stencil_keeps_one_number_for_each_element():
    nbytes, (u, _, _, steps) = tape_of("heat_active_coefficient", 9)
    assert nbytes == 8 * steps * (u.shape[0] - 2) ** 2


def test_a_choice_keeps_one_byte():
    nbytes, (path,) = tape_of("floyd_warshall", 6)
    assert nbytes == path.shape[0] ** 3


def test_a_factorization_keeps_what_it_overwrites_not_what_it_reads():
    nbytes, (matrix,) = tape_of("lu", 12)
    assert nbytes < 8 * 4 * matrix.size


# Invariants of loops.


@njit
def last_element_is_another_one(b, s):
    w = b * 0.5
    for _ in range(3):
        w[-1] -= s * w[0]
        total = 0.0
        for i in range(len(w)):
            total += w[i]
            w[i] *= 0.7
        w[0] += total
    return w


@njit
def no_pass_touches_nothing(x, n):
    total = 0.0
    for _ in range(n):
        total += x[3] ** 2
    return total


@njit
def sums_in_place(a, b):
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            a[i, j] = 0.0
            for k in range(b.shape[0]):
                a[i, j] += b[i, k] * b[k, j]
    return a


@njit
def element_read_by_another_index(a, k):
    for i in range(a.shape[0]):
        a[k] += a[i] * a[i]
    return a


# Branches and indices.


@njit
def branch_that_is_not_taken(x):
    result = np.zeros(x.shape)
    for i in range(x.shape[0]):
        if x[i] > 0.0:
            result[i] = np.sqrt(x[i])
        else:
            result[i] = 0.0
    return result


@njit
def limited(x):
    total = 0.0
    for i in range(1, x.shape[0]):
        slope = x[i] - x[i - 1]
        if slope > 0.4:
            slope = 0.4
        elif slope < -0.4:
            slope = -2.0 * slope
        total += slope * x[i]
    return total


@njit
def indices_that_are_data(x, places):
    result = np.zeros(x.shape)
    for i in range(places.shape[0]):
        result[places[i]] += x[i] * x[places[i]]
    return result


# Stencils: more passes than are done together, and a rest; upwards and downwards.


@njit
def upwards(u, k):
    out = np.zeros(u.shape)
    for i in range(2, u.shape[0] - 1):
        out[i] = k[i] * (u[i - 2] - 3.0 * u[i - 1] + u[i] * u[i] + u[i + 1])
    return out


@njit
def downwards(u, k):
    out = np.zeros(u.shape)
    for i in range(u.shape[0] - 2, 0, -1):
        out[i] = k[0] * np.sin(u[i + 1]) * u[i - 1] + k[1] * u[i]
    return out


@njit
def in_rows(u, scale):
    for _ in range(2):
        new = u.copy()
        for i in range(1, u.shape[0] - 1):
            for j in range(1, u.shape[1] - 1):
                around = u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1]
                new[i, j] = u[i, j] + scale * u[i, j] * (around - 4.0 * u[i, j])
        u = new
    return u


@pytest.mark.thorough(but=r"^(?!in_rows|upwards-arrays8|downwards-arrays10).*reference", every=6)
@on_both_engines
@pytest.mark.parametrize(
    ("function", "arrays", "rest"),
    [
        (last_element_is_another_one, (RANDOM.random(4), np.array(0.3)), ()),
        (no_pass_touches_nothing, (RANDOM.random(5),), (4,)),
        (no_pass_touches_nothing, (RANDOM.random(2),), (0,)),
        (sums_in_place, (RANDOM.random((3, 4)), RANDOM.random((4, 4))), ()),
        (element_read_by_another_index, (RANDOM.random(5),), (3,)),
        (element_read_by_another_index, (RANDOM.random(5),), (-2,)),
        (limited, (RANDOM.random(9),), ()),
        (indices_that_are_data, (RANDOM.random(5),), (np.array([1, -1, 3, -4, 1]),)),
        (upwards, (RANDOM.random(300), RANDOM.random(300)), ()),
        (upwards, (RANDOM.random(5), RANDOM.random(5)), ()),
        (downwards, (RANDOM.random(259), RANDOM.random(2)), ()),
        (downwards, (RANDOM.random(2), RANDOM.random(2)), ()),
        (in_rows, (RANDOM.random((4, 140)), np.array(0.1)), ()),
    ],
)
def test_values_and_derivatives(function, arrays, rest, engine):
    operation = ng.differentiable(function)
    copies = [x.copy() if x.shape else float(x) for x in arrays]
    expected = function.py_func(*copies, *rest)
    with configure(engine=engine):
        found = operation(*arrays, *rest)
        results = found if isinstance(found, tuple) else (found,)
        np.testing.assert_array_max_ulp(np.asarray(results[0]), np.asarray(expected), maxulp=4)
        ng.testing.check_gradients(operation, *arrays, *rest)


@on_both_engines
def test_a_branch_that_is_not_taken_poisons_nothing(engine):
    with configure(engine=engine):
        x = np.array([4.0, -1.0, 0.0])
        gradient = ng.grad(lambda x: np.sum(ng.differentiable(branch_that_is_not_taken)(x)))
        np.testing.assert_array_equal(gradient(x), [0.25, 0.0, 0.0])


# Arrays that are swapped.


@njit
def new_array_swapped_with_one_from_outside(a, steps):
    b = a * 1.0
    for _ in range(steps):
        v = np.zeros(b.shape)
        v[0] += b[1]
        v[1:] += 0.5 * b[:-1] * a[1:]
        b, v = v, b
    return b.sum() + b[1] ** 2


@on_both_engines
def test_an_array_of_a_pass_may_be_swapped_with_one_from_outside(engine):
    operation, a = ng.differentiable(new_array_swapped_with_one_from_outside), RANDOM.random(5)
    with configure(engine=engine):
        for steps in range(4):
            expected = new_array_swapped_with_one_from_outside.py_func(a, steps)
            np.testing.assert_allclose(operation(a, steps).numpy(), expected, rtol=1e-14)
            ng.testing.check_gradients(operation, a, steps)


@njit
def element_of_a_name_that_is_swapped(a, b, steps):
    total = 0.0
    for _ in range(steps):
        total += a[0] * a[1]
        a, b = b, a
    return total


@on_both_engines
def test_a_load_by_a_name_that_is_swapped_stays_in_its_loop(engine):
    arguments = np.array([2.0, 3.0]), np.array([5.0, 7.0]), 3
    operation = ng.differentiable(element_of_a_name_that_is_swapped)
    with configure(engine=engine):
        found = operation(*arguments)
        found = found[0] if isinstance(found, tuple) else found
        assert float(found) == 6.0 + 35.0 + 6.0
        ng.testing.check_gradients(operation, *arguments)


@njit
def new_array_swapped_with_an_argument(a, b, steps):
    for _ in range(steps):
        v = 0.3 * a * a
        b[:] = b * 2.0
        b, v = v, b


@njit
def without_results(a):
    b = a * 2.0
    b[0] = 1.0


def test_a_function_without_results_is_refused():
    with pytest.raises(KernelError, match="writes to none of its arguments"):
        ng.differentiable(without_results)(np.ones(3))


def test_an_array_of_a_pass_is_not_swapped_with_an_argument():
    operation = ng.differentiable(new_array_swapped_with_an_argument)
    with pytest.raises(KernelError, match="an array made before the loop"):
        operation(np.ones(3), np.ones(3), 2)


def shortest_ways(path):
    n = path.shape[0]
    for k in range(n):
        for i in range(n):
            for j in range(n):
                path[i, j] = min(path[i, j], path[i, k] + path[k, j])


def scaled_by_an_element(a, k):
    """Which may be none of the row's."""
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            a[i, j] = a[i, j] * a[i, k] + 0.5 * a[0, j]


@pytest.mark.parametrize(
    ("function", "is_cut"), [(shortest_ways, True), (scaled_by_an_element, False)]
)
def test_loops_are_cut_at_the_pass_that_writes_what_all_read(function, is_cut):
    rng = np.random.default_rng(0)
    for n in (1, 2, 6):
        arguments = (rng.random((n, n)) - 0.3,) if is_cut else (rng.random((n, n)), n - 1)
        operation = ng.differentiable(function)
        case = Case(operation, function, arguments, (0,))
        check_values(case)
        check_gradient(case)
        check_tangent(case)
        assert operation.primal_source.count("for ") == (6 if is_cut else 4)
