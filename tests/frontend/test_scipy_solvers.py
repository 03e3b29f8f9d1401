"""SciPy's optimizers and solvers take functions, gradients and Jacobians as they come from here.

They hand arrays to the user's functions, and what those give back to compiled code.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import integrate, optimize

import numba_grad as ng
from numba_grad.errors import GradientError

START = np.array([1.1, 1.1, 1.15])
TIMES = np.linspace(0, 4, 30)
COUNTS = 2.5 * np.exp(-1.3 * TIMES) + 0.5


def rosenbrock(x: Any) -> Any:
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def misfit(p: Any) -> Any:
    return p[0] * np.exp(-p[1] * TIMES) + p[2] - COUNTS


def product_with_hessian(x: Any, v: Any) -> Any:
    return ng.grad(lambda x: ng.grad(rosenbrock)(x) @ v)(x)


METHODS = ["BFGS", "CG", "L-BFGS-B", "SLSQP", "trust-constr"]
METHODS_WITH_HESSIANS = ["Newton-CG", "trust-ncg", "trust-krylov", "trust-constr"]


def check_minimum(found: Any) -> None:
    np.testing.assert_allclose(found.x, 1, atol=1e-3)
    assert isinstance(found.x, np.ndarray)


@pytest.mark.parametrize("method", METHODS)
def test_minimize_takes_a_gradient(method):
    check_minimum(
        optimize.minimize(rosenbrock, START, jac=ng.grad(rosenbrock), method=method, tol=1e-9)
    )


@pytest.mark.parametrize("method", METHODS)
def test_minimize_takes_value_and_gradient(method):
    both = ng.value_and_grad(rosenbrock)
    check_minimum(optimize.minimize(both, START, jac=True, method=method, tol=1e-9))


@pytest.mark.thorough(every=3)
@pytest.mark.parametrize("method", METHODS_WITH_HESSIANS)
@pytest.mark.parametrize("how", [{"hess": ng.hessian(rosenbrock)}, {"hessp": product_with_hessian}])
def test_minimize_takes_second_derivatives(method, how):
    found = optimize.minimize(rosenbrock, START, jac=ng.grad(rosenbrock), method=method, **how)
    np.testing.assert_allclose(found.x, 1, atol=1e-3)


def test_minimize_under_bounds_and_constraints():
    def inside(x: Any) -> Any:
        return np.stack([1 - x[0] ** 2 - x[1] ** 2, x[2]])

    constraint = {"type": "ineq", "fun": inside, "jac": ng.jacobian(inside)}
    slope = ng.grad(rosenbrock)
    found = optimize.minimize(
        rosenbrock, START, jac=slope, method="SLSQP", constraints=constraint, bounds=[(0, 2)] * 3
    )
    nonlinear = optimize.NonlinearConstraint(inside, 0, np.inf, jac=ng.jacobian(inside))
    other = optimize.minimize(
        rosenbrock, START, jac=slope, method="trust-constr", constraints=nonlinear
    )
    assert inside(found.x).min() > -1e-6  # the tolerance of SLSQP
    np.testing.assert_allclose(found.x, other.x, atol=1e-3)


@pytest.mark.parametrize("method", ["trf", "dogbox", "lm"])
@pytest.mark.parametrize("jacobian", [ng.jacobian, ng.jacfwd])
def test_least_squares_takes_a_jacobian(method, jacobian):
    found = optimize.least_squares(misfit, np.ones(3), jac=jacobian(misfit), method=method)
    np.testing.assert_allclose(found.x, [2.5, 1.3, 0.5], rtol=1e-6)


def circle(x: Any) -> list[Any]:
    return [x[0] ** 2 + x[1] ** 2 - 1, x[0] - x[1]]


def sine_and_slope(x: Any) -> Any:
    return np.sin(x) - 0.5 * x


NUMBER = 1.8954942670339809  # sin(x) = x / 2
SLOPE = ng.grad(sine_and_slope)

SOLVERS: dict[str, tuple[Callable[[], Any], Any]] = {
    "root": (
        lambda: optimize.root(circle, [1.0, 0.5], jac=lambda x: np.stack(ng.jacobian(circle)(x))).x,
        [0.5**0.5] * 2,
    ),
    "fsolve": (
        lambda: optimize.fsolve(circle, [1.0, 0.5], fprime=ng.jacobian(circle)),
        [0.5**0.5] * 2,
    ),
    "newton": (lambda: optimize.newton(sine_and_slope, 2.0, fprime=SLOPE), NUMBER),
    "halley": (
        lambda: optimize.newton(sine_and_slope, 2.0, fprime=SLOPE, fprime2=ng.grad(SLOPE)),
        NUMBER,
    ),
    "brentq": (lambda: optimize.brentq(SLOPE, 0.0, 2.0), np.arccos(0.5)),
    "quad": (lambda: integrate.quad(SLOPE, 0, 1)[0], sine_and_slope(1.0)),
    "leastsq": (
        lambda: optimize.leastsq(misfit, np.ones(3), Dfun=ng.jacobian(misfit))[0],
        [2.5, 1.3, 0.5],
    ),
    "fmin_l_bfgs_b": (
        lambda: optimize.fmin_l_bfgs_b(ng.value_and_grad(rosenbrock), START, pgtol=1e-9)[0],
        [1, 1, 1],
    ),
}


@pytest.mark.parametrize("name", SOLVERS)
def test_solvers_take_derivatives(name):
    solve, expected = SOLVERS[name]
    np.testing.assert_allclose(solve(), expected, rtol=1e-4)


@pytest.mark.parametrize("method", ["Radau", "BDF", "LSODA"])
def test_stiff_equations_take_a_jacobian(method):
    def robertson(t: float, y: Any) -> Any:
        slow, fast = 0.04 * y[0] - 1e4 * y[1] * y[2], 3e7 * y[1] ** 2
        return np.stack([-slow, slow - fast, fast])

    given = ng.jacobian(robertson, argnums=1)
    found = integrate.solve_ivp(robertson, (0, 40), [1.0, 0, 0], method=method, jac=given)
    other = integrate.solve_ivp(robertson, (0, 40), [1.0, 0, 0], method=method, rtol=1e-8)
    np.testing.assert_allclose(found.y[:, -1], other.y[:, -1], rtol=2e-3)


def test_a_value_with_history_says_what_to_return():
    def loss_and_gradient(x: np.ndarray) -> tuple[Any, Any]:
        leaf = ng.tensor(x, requires_grad=True)
        loss = rosenbrock(leaf)
        loss.backward()
        return loss, leaf.grad

    with pytest.raises(GradientError, match=r"return x\.detach\(\) at the end of the function"):
        optimize.minimize(loss_and_gradient, START, jac=True)


def test_only_optimizers_get_arrays():
    assert isinstance(np.atleast_2d(ng.tensor([1.0, 2.0])), ng.Tensor)
    array = np.zeros(2)
    with pytest.raises(TypeError, match="an array cannot be changed in place by a tensor"):
        array += ng.tensor([1.0, 2.0])
