"""A `try` around what fails when it is computed catches that, as of NumPy's arrays."""

import contextlib

import numpy as np
import pytest
from numpy.linalg import LinAlgError

import numba_grad as ng

SINGULAR = np.ones((2, 2))
REGULAR = np.array([[2.0, 1.0], [1.0, 3.0]])


def with_jitter(matrix):
    """As GPy and others factorize covariances."""
    try:
        return np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        jitter = 1e-6 * np.mean(np.diag(matrix))
        for _ in range(6):
            try:
                return np.linalg.cholesky(matrix + jitter * np.eye(len(matrix)))
            except (TypeError, LinAlgError):
                jitter = jitter * 10
        raise


def is_positive_definite(matrix):
    try:
        np.linalg.cholesky(matrix)
        return True
    except LinAlgError:
        return False


def by_anything(matrix):
    with contextlib.nullcontext():
        try:
            return np.linalg.inv(matrix)
        except:  # noqa: E722 - as people write it
            return np.linalg.pinv(matrix)


def by_a_second_clause(matrix):
    try:
        value = np.linalg.solve(matrix, np.arange(2.0))
    except KeyError:
        return np.zeros(2)
    except Exception as error:
        return np.full(2, float(len(str(error)) > 0))
    else:
        return value
    finally:
        matrix = None


def in_a_function_of_its_own(matrix):
    def solved():
        return np.linalg.solve(matrix, np.arange(2.0))

    errors = (KeyError, ValueError)  # which LinAlgError is
    try:
        return solved()
    except errors:
        return np.zeros(2)


FUNCTIONS = [with_jitter, by_anything, by_a_second_clause, in_a_function_of_its_own]


@pytest.mark.parametrize("matrix", [SINGULAR - 1e-2 * np.eye(2), SINGULAR, REGULAR])
@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_handlers_are_those_of_numpys_errors(f, matrix):
    expected = f(matrix)
    np.testing.assert_allclose(f(ng.tensor(matrix)), expected, rtol=1e-12, atol=1e-14)
    jitted = ng.jit(f)
    for x in (matrix, REGULAR, matrix):  # one program for both
        found = jitted(x)
        assert type(found) is np.ndarray
        np.testing.assert_allclose(found, f(x), rtol=1e-12, atol=1e-14)


def test_a_question_is_answered_where_it_is_asked():
    assert is_positive_definite(ng.tensor(REGULAR))
    assert not is_positive_definite(ng.tensor(-REGULAR))


def test_gradients_are_those_of_the_way_taken():
    def loss(x):
        return (with_jitter(SINGULAR * x - 1e-5 * np.eye(2)) * REGULAR).sum()

    def slope(x):
        return (loss(x + 1e-4) - loss(x - 1e-4)) / 2e-4

    assert float(ng.grad(loss)(2.0)) == pytest.approx(slope(2.0), rel=1e-5)
    value, gradient = ng.jit(ng.value_and_grad(loss))(2.0)
    assert type(value) is type(gradient) is np.float64
    assert gradient == pytest.approx(slope(2.0), rel=1e-5)
    x = ng.tensor(2.0, requires_grad=True)
    loss(x).backward()
    assert float(x.grad) == pytest.approx(slope(2.0), rel=1e-5)


def test_steps_of_loops_and_maps_may_be_in_a_try():
    """They are traced, so what fails there does so when the loop is computed, as without a try."""
    stack = np.stack([REGULAR, REGULAR + np.eye(2)])

    def step(total, matrix):
        try:
            return total + np.linalg.inv(matrix).sum(), None
        except LinAlgError:
            return total, None

    def run(stack):
        try:
            return ng.scan(step, 0.0, stack)[0], ng.vmap(lambda a: step(0.0, a)[0])(stack)
        except LinAlgError:
            return np.zeros(()), np.zeros(2)

    each = [np.linalg.inv(matrix).sum() for matrix in stack]
    for f in (run, ng.jit(run), lambda x: ng.jit(lambda y: ng.jit(run)(y))(x)):
        total, mapped = f(stack)
        np.testing.assert_allclose(total, sum(each), rtol=1e-13)
        np.testing.assert_allclose(mapped, each, rtol=1e-13)


def test_a_try_around_a_jitted_function_of_a_jitted_function():
    inner = ng.jit(by_anything)

    @ng.jit
    def outer(matrix):
        return inner(matrix) * 2

    for x in (SINGULAR, REGULAR):
        np.testing.assert_allclose(outer(x), by_anything(x) * 2, rtol=1e-12)


def test_a_try_around_a_jitted_function_costs_it_nothing():
    jitted = ng.jit(lambda x: np.linalg.inv(x).sum())
    try:
        jitted(SINGULAR)
        pytest.fail("no error")
    except LinAlgError:
        assert jitted(REGULAR) == pytest.approx(np.linalg.inv(REGULAR).sum())
    (specialization,) = jitted._specializations.values()
    assert not specialization.raises


def test_without_a_handler_for_it_nothing_is_computed_before_it_is_asked_for():
    matrix = ng.tensor(SINGULAR)
    with contextlib.suppress(KeyError):
        inverse = np.linalg.inv(matrix)
    try:
        inverse = np.linalg.inv(matrix)
    except (KeyError, TypeError):
        pytest.fail("of another kind")
    finally:
        matrix = None
    with pytest.raises(LinAlgError, match="Singular"):
        float(inverse[0, 0])


@pytest.mark.parametrize(
    "f",
    [
        np.linalg.cholesky,
        np.linalg.inv,
        lambda x: np.linalg.solve(x, x),
        lambda x: np.linalg.matrix_power(x, -2),
        lambda x: ng.linalg.solve_triangular(x - 1, x),
        lambda x: np.linalg.tensorinv(x, ind=1),
        ng.linalg.cho_factor,
    ],
)
def test_all_that_may_fail_does_so_in_the_try(f):
    try:
        f(ng.tensor(SINGULAR))
    except LinAlgError:
        return
    pytest.fail("it was left for later")
