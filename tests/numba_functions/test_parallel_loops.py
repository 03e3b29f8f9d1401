"""Loops that threads share: which they are, and that results do not depend on threads."""

import math
import random

import numba
import numpy as np
import pytest
from numpy.testing import assert_allclose

import numba_grad as ng
from numba_grad.compiler.numba_functions import generated, source_functions
from numba_grad.config import configure
from numba_grad.frontend.own_functions import differentiable
from tests.numba_functions.derivatives import Case, check_gradient, check_tangent, check_values
from tests.numba_functions.generator import random_program
from tests.numba_functions.programs import PROGRAMS
from tests.numba_functions.test_random_programs import SKIPPED, outcome


def prices(s, k, out):
    for i in numba.prange(s.shape[0]):
        d = math.log(s[i] / k[i])
        out[i] = s[i] / (1 + math.exp(-d)) - k[i] / (1 + d * d)


def blurred(image, weight):
    n, m = image.shape
    out = image.copy()
    for i in numba.prange(1, n - 1):
        for j in range(1, m - 1):
            around = image[i - 1, j] + image[i + 1, j] + image[i, j - 1] + image[i, j + 1]
            out[i, j] = (1 - weight) * image[i, j] + 0.25 * weight * around
    return out


def total(x, y):
    result = 0.0
    for i in numba.prange(x.shape[0]):
        product = 0.0
        for j in range(x.shape[1]):
            product += x[i, j] * y[j]
        result += math.sin(product)
    return result


def scattered(x, places):
    out = np.zeros(x.shape[0])
    for i in numba.prange(x.shape[0]):
        out[places[i]] = x[i] * x[i]
    return out


def recurrence(x):
    for i in numba.prange(1, x.shape[0]):
        x[i] = 0.5 * x[i - 1] + math.sin(x[i])


def from_the_end(x):
    for i in numba.prange(-2, 2):
        x[i] = 0.5 * x[i] + x[0]


def into_one(x, places):
    out = np.zeros(4)
    for i in numba.prange(x.shape[0]):
        out[places[i]] += x[i] * x[i]
    return out


def jacobi(u, f, steps):
    v = u.copy()
    for _ in range(steps):
        for i in range(1, u.shape[0] - 1):
            for j in range(1, u.shape[1] - 1):
                v[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] + f[i, j])
        u, v = v, u
    return u


def eliminated(a):
    n = a.shape[0]
    for k in range(n):
        for i in range(k + 1, n):
            a[i, k] /= a[k, k]
            for j in range(k + 1, n):
                a[i, j] -= a[i, k] * a[k, j]


def iterated(x, steps):
    out = np.zeros_like(x)
    for i in numba.prange(x.shape[0]):
        y = x[i]
        for k in range(steps):
            y = math.sin(y) + 0.3 * x[i] * k
            if k > 1:
                y *= y
        out[i] = y
    return out


def overwritten(x, steps):
    for i in numba.prange(1, x.shape[0] - 1):
        for k in range(steps):
            x[i, 1] *= x[i, 0]
            x[i, 0] = x[i, 1] * x[i, 2] + k
    return (x * x).sum()


def until_near(x):
    out = np.zeros_like(x)
    for i in numba.prange(x.shape[0]):
        y = x[i]
        while abs(math.cos(y) - y) > 1e-3:
            y = 0.5 * (y + math.cos(y)) + 1e-3 * x[i]
        out[i] = y
    return out


def arrays(*shapes):
    numbers = np.random.default_rng(3)
    return [numbers.uniform(0.5, 1.5, shape) for shape in shapes]


PLACES = np.random.default_rng(4).permutation(300)
# Functions, arguments, which of these they write to, and whether their loop is shared.
CASES = [
    pytest.param(prices, [*arrays(3000, 3000), np.zeros(3000)], [2], True, id="elements"),
    pytest.param(blurred, [*arrays((90, 70)), 0.3], [], True, id="neighbours"),
    pytest.param(total, arrays((200, 90), 90), [], True, id="sum"),
    pytest.param(scattered, [*arrays(300), PLACES], [], True, id="places the user vouches for"),
    pytest.param(recurrence, arrays(300), [0], False, id="recurrence"),
    pytest.param(from_the_end, arrays(9), [0], False, id="from the end"),
    pytest.param(into_one, [*arrays(300), PLACES % 4], [], False, id="sums at one place"),
]
WITH_TAPES = [
    pytest.param(iterated, [*arrays(200), 4], [], True, id="numbers and flags"),
    pytest.param(overwritten, [*arrays((50, 3)), 3], [0], True, id="undone"),
]
of_cases = pytest.mark.parametrize(
    ("function", "arguments", "writes", "is_shared"), [*CASES, *WITH_TAPES]
)


def floating(arguments):
    return tuple(k for k, x in enumerate(arguments) if np.asarray(x).dtype.kind == "f")


def gradients(operation, arguments):
    def loss(*given):
        results = operation(*given)
        results = results if isinstance(results, tuple) else (results,)
        return sum((x * x).sum() for x in results)

    return ng.value_and_grad(loss, argnums=floating(arguments))(*arguments)


def bits(result):
    value, parts = result
    return [np.asarray(x).tobytes() for x in (value, *parts)]


@pytest.mark.thorough(every=4)
@of_cases
def test_results_do_not_depend_on_threads(function, arguments, writes, is_shared, monkeypatch):
    monkeypatch.setattr("numba_grad.compiler.numba_functions.parallel_loops._WORK_OF_TASK", 50)
    operation = ng.differentiable(function)
    found = []
    with configure(engine="native"):
        for threads in (1, 2, 3, 3):
            with configure(threads=threads):
                found.append(bits(gradients(operation, arguments)))
    assert found[1:] == found[:1] * 3
    assert ("in_parallel" in operation.primal_source) == is_shared
    with configure(engine="reference"):
        alone = gradients(operation, arguments)
    for mine, other in zip(
        [np.frombuffer(x) for x in found[0]], [alone[0], *alone[1]], strict=True
    ):
        assert_allclose(mine, np.asarray(other).ravel(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("function", "arguments", "is_shared"),
    [*[(*case.values[:2], True) for case in WITH_TAPES], (until_near, arrays(20), False)],
)
def test_a_tape_is_shared_where_passes_keep_equally_much(function, arguments, is_shared):
    operation = ng.differentiable(function)
    operation(*arguments)
    forward, reverse = operation.adjoint_source.count("in_parallel("), 2 * is_shared
    assert (forward, "_tape[" in operation.adjoint_source) == (reverse, True)


@pytest.fixture
def in_any_order(monkeypatch):
    """Tasks one by one, in an order that would show if one needed another; of all loops that can be
    shared."""
    monkeypatch.setattr(differentiable, "_LARGE", 0)

    def in_parallel(tasks, count, grain, given):
        order = list(range(count))
        random.Random(count).shuffle(order)
        for k in order:
            tasks.function(k, k + 1, *given)

    monkeypatch.setattr(source_functions, "in_parallel", in_parallel)
    generated._executed.cache_clear()
    with configure(engine="reference"):
        yield
    generated._executed.cache_clear()


@pytest.mark.thorough(every=3)
@of_cases
def test_derivatives(function, arguments, writes, is_shared, in_any_order):
    few = [x[:12, :9] if np.ndim(x) == 2 else x[:12] if np.ndim(x) else x for x in arguments]
    if function is scattered:
        few[1] = np.argsort(few[1])
    if function is total:
        few[1] = few[1][:9]
    case = Case(ng.differentiable(function), function, few, writes)
    check_values(case)
    check_gradient(case)
    check_tangent(case)


@pytest.mark.parametrize(
    ("function", "rest", "kinds"),
    [
        (jacobi, (2,), ("primal", "adjoint")),
        (eliminated, (), ("primal", "adjoint")),
    ],
)
def test_loops_are_shared_where_arrays_are_large(function, rest, kinds):
    operation = ng.differentiable(function)
    for n, is_shared in ((5, False), (260, True)):
        operation(*arrays(*[(n, n)] * (function.__code__.co_argcount - len(rest))), *rest)
        for kind in kinds:
            assert ("in_parallel" in getattr(operation, f"{kind}_source")) == is_shared


def test_a_sum_keeps_its_order():
    """One number for each pass, added as the loop would have added them."""
    x, y = arrays((500, 3), 3)
    expected = 0.0
    for i in range(500):
        product = 0.0
        for j in range(3):
            product += x[i, j] * y[j]
        expected += math.sin(product)
    with configure(engine="reference"):
        assert float(ng.differentiable(total)(x, y)) == expected


@pytest.mark.thorough(but="^0$")
@pytest.mark.parametrize("first", [0, 3, 6, 9, 40, 43, 46, 49])
def test_random_programs_in_any_order(first, in_any_order):
    outcomes = {seed: outcome(random_program(seed)) for seed in range(first, first + 3)}
    wrong = {seed: text for seed, text in outcomes.items() if text not in ("agrees", *SKIPPED)}
    assert not wrong


@pytest.mark.thorough(but="heat_active_coefficient|jacobi_2d|mixture_likelihood")
@pytest.mark.parametrize(
    "name", ["heat_active_coefficient", "jacobi_2d", "mixture_likelihood", "hdiff", "lu"]
)
def test_programs_in_any_order(name, in_any_order):
    program = PROGRAMS[name]
    arguments = program.arguments(program.small)
    operation = ng.differentiable(program.function)
    python = program.function.py_func
    names = python.__code__.co_varnames
    check_gradient(Case(operation, python, arguments, list(map(names.index, program.writes))))


def test_threads_of_ones_own_may_call_it_at_once():
    """The pool is one caller's at a time; others do their loops alone."""
    from concurrent.futures import ThreadPoolExecutor

    operation = ng.differentiable(blurred)
    arguments = [*arrays((300, 300)), 0.3]
    with configure(engine="native", threads=2):
        expected = bits(gradients(operation, arguments))
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda _: bits(gradients(operation, arguments)), range(8)))
    assert all(one == expected for one in found)
