"""What messages say to type in place of functions of SciPy's gives what those give."""

from typing import Any

import numpy as np
import pytest
import scipy.fft
import scipy.integrate
import scipy.interpolate
import scipy.linalg
import scipy.ndimage
import scipy.signal
import scipy.spatial.distance as distances
import scipy.spatial.transform
import scipy.special
import scipy.stats

import numba_grad as ng
from numba_grad.errors import GradientError
from numba_grad.frontend.inputs import instead_of_scipy

X = np.array([0.4, 0.7, 0.9])
NAMES: dict[str, Any] = {
    "x": X, "loc": 0.2, "scale": 1.7, "q": X, "a": 2.3, "b": 1.4, "df": 3.5, "mu": 1.3,
    "k": np.array([0, 1, 1]), "p": 0.3, "mean": np.array([0.1, 0.2, 0.3]), "n": 3,
    "cov": np.eye(3) + 0.2,
    "lmbda": 0.7, "r": np.array([-3.0, 0.4, 1.9]), "delta": 1.2, "y": X, "z": X, "m": 2.5,
}  # fmt: skip
ARGUMENTS = {
    "norm": ("loc", "scale"), "expon": (0, "scale"), "gamma": ("a", 0, "scale"), "beta": ("a", "b"),
    "t": ("df",), "poisson": ("mu",), "bernoulli": ("p",), "multivariate_normal": ("mean", "cov"),
}  # fmt: skip
OF_UFUNCS = {
    "betaincc": "a b x", "binom": "n k", "cosm1": "x", "exp10": "x", "poch": "z m",
}  # fmt: skip


def value_of(formula: str) -> Any:
    return eval(formula, {"np": np, "scipy": scipy, **NAMES})


def named(names: Any) -> list[Any]:
    return [NAMES.get(name, name) for name in names]


@pytest.mark.parametrize("name", instead_of_scipy._DISTRIBUTIONS)
def test_formulas_of_distributions(name):
    distribution, method = name.split(".")
    owner = getattr(scipy.stats, distribution)
    first = {"logpmf": "k", "ppf": "q"}.get(method, "x")
    expected = getattr(owner, method)(NAMES[first], *named(ARGUMENTS[distribution]))
    np.testing.assert_allclose(
        value_of(instead_of_scipy._DISTRIBUTIONS[name]), expected, rtol=1e-12
    )


@pytest.mark.parametrize("name", instead_of_scipy._UFUNCS)
def test_formulas_of_special_functions(name):
    expected = getattr(scipy.special, name)(*named(OF_UFUNCS[name].split()))
    np.testing.assert_allclose(value_of(instead_of_scipy._UFUNCS[name]), expected, rtol=1e-12)


POINTS = np.sqrt(np.arange(1.0, 8.0))
SPLINE = scipy.interpolate.CubicSpline(POINTS, np.sin(POINTS))
# What is called, and its argument; the formula, as the message has it, and what it needs.
CALLS = {
    "trapezoid": (lambda y: scipy.integrate.trapezoid(y, POINTS), POINTS**2, {"x": POINTS}),
    "cumulative_trapezoid": (
        lambda y: scipy.integrate.cumulative_trapezoid(y, POINTS), POINTS**2, {"x": POINTS},
    ),
    "simpson": (lambda y: scipy.integrate.simpson(y, dx=0.5), POINTS**2, {"h": 0.5}),
    "quad_vec": (
        lambda y: scipy.integrate.quad_vec(lambda t: np.exp(-t * y), 0.0, 2.0)[0], POINTS,
        {"a": 0.0, "b": 2.0, "f": lambda t: np.exp(-t * POINTS)},
    ),
    "dct": (scipy.fft.dct, POINTS, {"n": 7}),
    "fftconvolve": (
        lambda x: scipy.signal.fftconvolve(x, x**2), POINTS, {"a": POINTS, "b": POINTS**2},
    ),
    "map_coordinates": (
        lambda y: scipy.ndimage.map_coordinates(y, [[0.3, 2.0, 4.9]], order=1), POINTS,
        {"x": np.array([0.3, 2.0, 4.9])},
    ),
    "RegularGridInterpolator": (
        lambda y: scipy.interpolate.RegularGridInterpolator((POINTS,), y)([[1.2], [2.0], [2.6]]),
        POINTS**2, {"x": np.array([1.2, 2.0, 2.6]), "grid": POINTS},
    ),
    "Rotation": (
        lambda v: scipy.spatial.transform.Rotation.from_rotvec(v).as_matrix(), POINTS[:3],
        {"v": POINTS[:3]},
    ),
    "cdist": (lambda x: distances.cdist(x, x[:2] ** 2), POINTS[:6].reshape(3, 2), {}),
    "pdist": (distances.pdist, POINTS[:6].reshape(3, 2), {}),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_formulas_are_in_messages(name):
    call, argument, more = CALLS[name]
    with pytest.raises(GradientError) as caught:
        ng.grad(lambda x: np.sum(call(x)))(argument)
    text = str(caught.value).partition("  try: ")[2].partition(f" in place of {name}")[0]
    formula, _, where = text.partition(", with ")
    names: dict[str, Any] = {"np": np, "ng": ng, "x": argument, "y": argument, **more}
    if name == "cdist":
        names["y"] = argument[:2] ** 2
    for line in filter(None, where.split(" and ")):
        exec(line, names)
    for end in (", of ", ", the matrix", " along each axis"):
        formula = formula.partition(end)[0]
    found = eval(formula, names)
    np.testing.assert_allclose(found, call(argument), rtol=1e-12)


A, B = np.cov(np.sin(np.arange(40.0) ** 2).reshape(4, 10)), np.eye(4) + 0.1
OF_MATRICES = {
    "circulant": (POINTS, lambda c: scipy.linalg.circulant(c), {"n": 7}),
    "cosm": (A, lambda a: scipy.linalg.cosm(a), {}),
    "eigh_tridiagonal": (
        POINTS, lambda d: scipy.linalg.eigh_tridiagonal(d, POINTS[1:])[0], {"e": POINTS[1:]},
    ),
    "expm_frechet": (A, lambda a: scipy.linalg.expm_frechet(a, B), {"e": B}),
    "fractional_matrix_power": (
        A, lambda a: scipy.linalg.fractional_matrix_power(a, 0.3), {"t": 0.3},
    ),
    "khatri_rao": (A, lambda a: scipy.linalg.khatri_rao(a, B), {"b": B}),
    "logm": (A, lambda a: scipy.linalg.logm(a), {}),
    "lu": (A, lambda a: scipy.linalg.lu(a, permute_l=False)[2], {"n": 4}),
    "polar": (A - 1, lambda a: scipy.linalg.polar(a)[0], {}),
    "sinm": (A, lambda a: scipy.linalg.sinm(a), {}),
    "solve_continuous_lyapunov": (A, lambda a: scipy.linalg.solve_continuous_lyapunov(a, B), {}),
    "solve_discrete_lyapunov": (
        A, lambda a: scipy.linalg.solve_discrete_lyapunov(a, B, method="direct"), {"n": 4},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OF_MATRICES)
def test_formulas_of_matrices(name):
    argument, call, more = OF_MATRICES[name]
    with pytest.raises(GradientError, match=f"in place of {name}") as caught:
        ng.grad(lambda x: np.sum(call(x)[0]))(argument)
    text = instead_of_scipy._FUNCTIONS[f"linalg.{name}"]
    assert text in str(caught.value)
    formula, _, where = text.partition(", with ")
    names = {"np": np, "ng": ng, "a": argument, "c": argument, "d": argument, "q": B, **more}
    if where:
        exec(where, names)
    formula = formula.partition(", of ")[0].rpartition(" and ")[2]
    found, expected = eval(formula, names), call(argument)
    if name == "eigh_tridiagonal":
        found = found[0]
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


def test_eigenvalues_of_two_matrices():
    with pytest.raises(ValueError, match=r"try: eigh\(c @ a @ c\.T\), with c = np\.linalg\.inv"):
        ng.linalg.eigh(A, B)
    c = np.linalg.inv(np.linalg.cholesky(B))
    values, vectors = np.linalg.eigh(c @ A @ c.T)
    np.testing.assert_allclose(values, scipy.linalg.eigh(A, B)[0], rtol=1e-12)
    np.testing.assert_allclose(A @ c.T @ vectors, B @ c.T @ vectors * values, atol=1e-12)


def test_a_spline_is_its_coefficients():
    text = instead_of_scipy._PACKAGES["scipy.interpolate."]
    formula = text.partition("CubicSpline(xp, fp) ")[2].partition(", with ")
    names = {"np": np, "s": SPLINE, "x": np.linspace(1.1, 2.6, 9)}
    exec(formula[2], names)
    np.testing.assert_allclose(eval(formula[0], names), SPLINE(names["x"]), rtol=1e-12)
    with pytest.raises(GradientError, match=r"np\.interp\(x, xp, fp\)"):
        ng.grad(lambda x: np.sum(SPLINE(x)))(POINTS)


def test_a_filter_is_a_convolution():
    with pytest.raises(GradientError, match=r"ng\.signal\.convolve\(np\.pad") as caught:
        ng.grad(lambda x: np.sum(scipy.ndimage.gaussian_filter(x, 0.8)))(POINTS)
    formula = str(caught.value).partition("  try: ")[2].partition(", with the weights")[0]
    weights = scipy.ndimage.gaussian_filter(np.eye(7)[3], 0.8)
    found = eval(formula, {"np": np, "ng": ng, "x": POINTS, "r": 3, "weights": weights})
    np.testing.assert_allclose(found, scipy.ndimage.gaussian_filter(POINTS, 0.8), rtol=1e-12)


def test_a_sum_over_nodes_is_an_integral():
    def loss(rate: Any) -> Any:
        return scipy.integrate.quad(lambda t: np.exp(-rate * t), 0.0, 2.0)[0]

    with pytest.raises(GradientError, match=r"leggauss\(20\) in place of quad") as caught:
        ng.grad(loss)(0.7)
    formula, _, where = str(caught.value).partition("try: ")[2].partition(", with ")
    names = {"np": np, "a": 0.0, "b": 2.0, "f": lambda t: np.exp(-0.7 * t)}
    exec(where.partition(" in place of")[0], names)
    np.testing.assert_allclose(eval(formula, names), loss(0.7), rtol=1e-14)


def test_special_functions_without_derivative_say_what_to_type():
    with pytest.raises(TypeError, match=r"try: 10\.0\*\*x in place of exp10"):
        ng.grad(scipy.special.exp10)(0.5)
    slope = ng.grad(lambda s: np.sum(-(((X - 0.2) / s) ** 2) / 2 - np.log(s)))(1.7)
    assert np.isfinite(slope)
    with pytest.raises(GradientError, match=r"in place of norm\.logpdf"):
        ng.grad(lambda s: np.sum(scipy.stats.norm.logpdf(X, 0.2, s)))(1.7)
    with pytest.raises(GradientError, match=r"in place of multivariate_normal\.logpdf"):
        ng.grad(lambda x: scipy.stats.multivariate_normal(np.zeros(3), np.eye(3)).logpdf(x))(X)
