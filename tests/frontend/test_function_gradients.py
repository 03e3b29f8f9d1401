"""Derivatives, to second order, of the functions that are written in terms of primitives."""

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.testing import check_gradients

pytestmark = pytest.mark.usefixtures("numpy_engine")

RNG = np.random.default_rng(5)
X = RNG.standard_normal((2, 3))
Y = RNG.standard_normal((3, 2))
V = RNG.standard_normal(3)
POSITIVE = np.abs(X) + 0.3
SQUARE = RNG.standard_normal((3, 3)) + 3 * np.eye(3)
Z = X + 1j * RNG.standard_normal((2, 3))

CASES = {
    "mean": (lambda x: ng.mean(x, 1) ** 2, X),
    "mean of none": (lambda x: ng.mean(x, ()) ** 2, X),
    "var": (lambda x: ng.var(x, 0, ddof=1), X),
    "var of complex": (lambda x: ng.var(x, 1), Z),
    "std": (lambda x: ng.std(x), X),
    "norm": (lambda x: ng.linalg.norm(x, axis=1), X),
    "norm of complex": (lambda x: ng.linalg.norm(x), Z),
    "norm 1": (lambda x: ng.linalg.norm(x, 1, 0), X),
    "norm 3": (lambda x: ng.linalg.norm(x, 3, 0), X),
    "norm inf": (lambda x: ng.linalg.norm(x, np.inf, 0), X),
    "logsumexp": (lambda x: ng.logsumexp(x, 1), X),
    "softmax": (lambda x: ng.softmax(x), X),
    "log_softmax": (lambda x: ng.log_softmax(x, 0), X),
    "logaddexp": (lambda x, y: ng.logaddexp(x, y), X, V),
    "clip": (lambda x, low: ng.clip(x, low, 0.9), X, V * 0.2),
    "where": (lambda x, y: ng.where(x > 0, x * y, y**2), X, V),
    "relu": (lambda x: ng.relu(x) ** 2, X),
    "softplus": (lambda x: ng.softplus(x), X),
    "powers": (lambda x: x**2 + x**3 + x**-1 + x**0.5 + x**-2 + x**1.3 + 2**x, POSITIVE),
    "fmax": (lambda x, y: ng.fmax(x, y) * ng.fmin(x, y), X, V),
    "heaviside": (lambda x, y: ng.heaviside(x, y) * x, X, V),
    "matmul": (lambda x, y: x @ y, X, Y),
    "matmul of vectors": (lambda x, y: (x @ y) * (x[0] @ y[0]), X, np.stack([V] * 3)),
    "vector by matrix": (lambda x, y: x @ y, V, Y),
    "matrix by vector": (lambda x, y: x @ y, X, V),
    "dot": (lambda x, y: ng.dot(x[None], y), X, Y),
    "tensordot": (lambda x, y: ng.tensordot(x, y, ([0, 1], [1, 0])), X, Y),
    "vecdot of complex": (lambda x, y: ng.vecdot(x, y), Z, Z[:1] * 2j),
    "outer": (lambda x, y: ng.outer(x, y), V, V + 1),
    "einsum": (lambda x, y, v: ng.einsum("ij,jk,j->ki", x, y, v), X, Y, V),
    "einsum of a diagonal": (lambda x: ng.einsum("ii->i", x), SQUARE),
    "einsum of a trace": (lambda x, v: ng.einsum("ii,j,j", x, v, v), SQUARE, V),
    "trace": (lambda x: ng.trace(x @ x), SQUARE),
    "diag": (lambda v: ng.diag(v, 1) @ ng.diag(v, 1), V),
    "solve": (lambda a, b: ng.linalg.solve(a, b), SQUARE, V),
    "inv": (lambda a: ng.linalg.inv(a), SQUARE),
    "cumsum": (lambda x: ng.cumsum(x, 1) ** 2, X),
    "sort": (lambda x: ng.sort(x, 1) ** 2, X),
    "take_along_axis": (lambda x: ng.take_along_axis(x, np.array([[0, 0]]), 1) ** 2, X),
    "take": (lambda x: ng.take(x, [0, 2, 2], 1) ** 2, X),
    "roll": (lambda x: ng.roll(x, 1, 1) * x, X),
    "diff": (lambda x: ng.diff(x) ** 2, X),
    "pad": (lambda x: ng.pad(x, 1, "edge") ** 2, X),
    "pad with 3": (lambda x: ng.pad(x, ((0, 1), (1, 0)), constant_values=3) ** 2, X),
    "tile and repeat": (lambda x: ng.tile(x, (2, 2)) * ng.repeat(ng.repeat(x, 2, 0), 2, 1), X),
    "stack and split": (lambda x, y: ng.split(ng.stack([x, y.T]), 2)[1] ** 2 * x, X, Y),
    "tril": (lambda x: ng.tril(x) @ ng.triu(x), SQUARE),
    "assignment": (lambda x, v: _assigned(x, v), X, V),
}


def _assigned(x, v):
    y = x * 2
    y[0] = v * v
    y[:, 1] *= y[1, 0]
    return y * y


@pytest.mark.thorough(every=6)
@pytest.mark.parametrize("name", CASES)
def test_derivatives_match_finite_differences(name):
    function, *arrays = CASES[name]
    check_gradients(function, *arrays)


def gradient(function, x):
    x = ng.tensor(x, requires_grad=True)
    function(x).sum().backward()
    return x.grad.numpy()


def test_kinks_have_torchs_gradients():
    zero = np.zeros(3)
    assert gradient(ng.linalg.norm, zero).tolist() == [0, 0, 0]
    assert gradient(ng.std, zero).tolist() == [0, 0, 0]
    assert gradient(ng.relu, np.array([-1.0, 0.0, 2.0])).tolist() == [0, 0, 1]
    assert gradient(lambda x: ng.clip(x, 0, 1), np.array([-1, 0, 0.5, 1, 2])).tolist() == [
        0,
        1,
        1,
        1,
        0,
    ]
    assert gradient(lambda x: x**0, np.array([0.0, 2.0])).tolist() == [0, 0]
    assert gradient(lambda x: x**2, np.array([0.0, -2.0])).tolist() == [0, -4]
    assert gradient(ng.max, np.array([1.0, 3.0, 3.0])).tolist() == [0, 0.5, 0.5]
    assert gradient(abs, np.array([0.0, -2.0])).tolist() == [0, -1]


def test_what_is_not_chosen_does_not_spoil_the_gradient():
    x = np.array([-1.0, 0.0, 4.0])
    choose = lambda x: ng.where(x > 0, ng.sqrt(ng.where(x > 0, x, 1)), 0)  # noqa: E731
    assert gradient(choose, x).tolist() == [0, 0, 0.25]
    assert gradient(lambda x: ng.logsumexp(x), np.full(2, -np.inf)).tolist() == [0, 0]
    assert gradient(lambda x: ng.logsumexp(x), np.array([1000.0, 1000.0])).tolist() == [0.5, 0.5]


def test_gradients_keep_the_dtype_of_mixed_operands():
    x = ng.tensor(np.float32([1, 2]), requires_grad=True)
    y = ng.tensor([1.0, 2.0], requires_grad=True)
    ((x * y) ** 2 * np.int8([1, 2])).sum().backward()
    assert x.grad.dtype == np.float32 and y.grad.dtype == np.float64
    assert x.grad.tolist() == [2.0, 32.0]


def test_sums_of_exponentials_keep_the_smaller_term():
    x = np.array([-40.0, -700.0])
    np.testing.assert_allclose(ng.softplus(x), np.exp(x), rtol=1e-14)
    np.testing.assert_allclose(ng.logaddexp2(x, 0.0), np.logaddexp2(x, 0), rtol=1e-14)


@pytest.mark.thorough(but="axis0")
@pytest.mark.parametrize("axis", [(0, 1), (1, 1)])
def test_gradient_of_sliding_windows(axis):
    def spread(x):
        windows = np.lib.stride_tricks.sliding_window_view(x, (2, 3), axis=axis)
        return np.sum(np.std(windows, axis=-1) * np.sum(windows**2, axis=-1))

    check_gradients(spread, np.random.default_rng(0).normal(size=(4, 5)))
