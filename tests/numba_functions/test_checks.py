"""What a kernel raises: the user's own exceptions, and array code with shapes that do not fit."""

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.config import configure
from numba_grad.errors import KernelError
from tests.numba_functions.derivatives import Case, check_gradient, check_tangent, check_values
from tests.numba_functions.raising import roots

pytestmark = pytest.mark.usefixtures("reference_engine")

X = np.array([1.0, 2.0, 3.0, 4.0, 5.0])


def test_a_function_that_may_raise_has_derivatives():
    case = Case(ng.differentiable(roots), roots, (X, 4), ())
    check_values(case)
    check_gradient(case)
    check_tangent(case)


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_what_the_code_raises_is_raised(engine):
    operation = ng.differentiable(roots)
    bad = np.array([1.0, -2.0])
    with configure(engine=engine):
        assert float(np.sum(operation(np.array([0.0, 1.0]), 2))) > 0
        with pytest.raises(ValueError, match="negative"):
            operation(bad, 3).numpy()
        with pytest.raises(ValueError, match="negative"):
            ng.grad(lambda x: operation(x, 3).sum())(bad).numpy()
        with pytest.raises(AssertionError, match="large"):
            operation(np.array([1.0, 200.0]), 3).numpy()
        with pytest.raises(RuntimeError):
            operation(np.array([1.0]), 7)
        with pytest.raises(ArithmeticError, match="no convergence"):
            operation(np.full(600, 99.0), 3).numpy()


def sums(x, y, matrix, passes):
    z = x[1:] + y
    for _ in range(passes):
        z[:] = matrix @ z
    return z.max() + x.sum()


def branches(x, y):
    if x[0] > 0:
        return (x + y).sum()
    return x[1]


def test_shapes_that_fit_are_broadcast():
    arguments = (X, np.array([0.5]), np.eye(4) + 0.25, 2)
    case = Case(ng.differentiable(sums), sums, arguments, ())
    check_values(case)
    check_gradient(case)


def test_shapes_that_do_not_fit_are_an_error_when_recorded():
    operation = ng.differentiable(sums)
    with pytest.raises(ValueError) as raised:
        operation(X, np.ones(3), np.eye(4), 1)
    message = str(raised.value)
    assert "`z = x[1:] + y` of sums" in message
    assert "(4,)" in message and "(3,)" in message


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_shapes_that_do_not_fit_in_a_branch_are_an_error_when_it_is_taken(engine):
    operation = ng.differentiable(branches)
    with configure(engine=engine):
        assert float(operation(-X, np.ones(4))) == -2.0
        with pytest.raises(ValueError, match=r"`return \(x \+ y\)\.sum\(\)` of branches"):
            operation(X, np.ones(4)).numpy()


def test_the_inner_length_of_a_product_is_checked():
    operation = ng.differentiable(sums)
    with pytest.raises(ValueError, match="do not fit a product, in `z"):
        operation(X, np.ones(4), np.ones((4, 3)), 1).numpy()
    with pytest.raises(ValueError, match="no elements"):
        operation(X[:1], np.ones(1), np.ones((0, 0)), 0)


def guarded(x, y):
    if x.shape[0] != y.shape[0]:
        raise TypeError("lengths differ")
    return x * y


def test_a_guard_of_shapes_comes_before_what_it_guards():
    operation = ng.differentiable(guarded)
    np.testing.assert_array_equal(operation(X, X), X * X)
    with pytest.raises(TypeError, match="lengths differ"):
        operation(X, X[:2])


def as_many_as_it_says(x):
    return np.zeros(int(x[0])) + x[1]


def test_lengths_that_are_data_are_an_error():
    with pytest.raises(KernelError, match="depends on values"):
        ng.differentiable(as_many_as_it_says)(X)


class OwnError(Exception):
    pass


def own_exception(x):
    if x[0] > 0:
        raise OwnError("bad")
    return x[0]


def exception_of_a_function():
    class InnerError(Exception):
        pass

    def function(x):
        if x[0] > 0:
            raise InnerError("bad")
        return x[0]

    return function


@pytest.mark.parametrize("engine", ["native", "reference"])
def test_exceptions_of_users_own(engine):
    with ng.configure(engine=engine), pytest.raises(OwnError, match="bad"):
        ng.differentiable(own_exception)(X).numpy()


def computed_message(x):
    if x[0] > 0:
        raise ValueError("bad", x[0])
    return x[0]


@pytest.mark.parametrize(
    ("function", "what"),
    [(exception_of_a_function(), "by its name"), (computed_message, "is computed")],
)
def test_exceptions_that_are_not_taken(function, what):
    with pytest.raises(KernelError, match=what) as raised:
        ng.differentiable(function)(X)
    assert "custom_op" in str(raised.value)
    assert "raise " in str(raised.value)
