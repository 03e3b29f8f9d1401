"""Polynomials by coefficients: results of NumPy, and derivatives by coefficients and points."""

import functools

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.errors import ShapeError, TracingError
from numba_grad.testing import check_gradients
from tests.frontend import agreement

pytestmark = pytest.mark.usefixtures("numpy_engine")

RNG = np.random.default_rng(0)
P = RNG.standard_normal(4)
Q = RNG.standard_normal(2)
X = np.linspace(-1, 2, 7)
Y = RNG.standard_normal(7)
WEIGHTS = RNG.uniform(0.5, 2, 7)


same = functools.partial(agreement.same, tolerance=1e-12)


@pytest.mark.parametrize("name", ["polyadd", "polysub", "polymul"])
def test_arithmetic(name):
    function = getattr(np, name)
    integers = np.array([1, -2, 3])
    for p, q in ((P, Q), (Q, P), (integers, integers[:2]), (P * 1j, Q), (np.float32(P), integers)):
        same(function(ng.tensor(p), q), function(p, q), tolerance=1e-6)
    for p, q in ((np.float32(P), 2.0), (integers, 3), (np.array(1.5), P), (np.array(2), 3)):
        same(function(ng.tensor(p), q), function(p, q), tolerance=1e-6)
        same(function(q, ng.tensor(p)), function(q, p), tolerance=1e-6)


def test_leading_zeros_of_a_product_stay():
    p, q = np.array([0.0, 2.0, 1.0]), np.array([0.0, 0.0, 3.0])
    ours, theirs = np.polymul(ng.tensor(p), q), np.polymul(p, q)
    same(ours, np.concatenate([np.zeros(len(ours) - len(theirs)), theirs]))
    same(np.polyval(ours, X), np.polyval(theirs, X))


def test_division():
    for u, v in (
        (P, Q),
        (Q, P),
        (np.array([1, -3, 2]), np.array([1, -1])),
        (P * 1j, Q),
        (np.float32(P), np.float32([2.0])),
        (np.array(6), np.array(4)),
    ):
        for ours, theirs in zip(np.polydiv(ng.tensor(u), v), np.polydiv(u, v), strict=True):
            same(ours, theirs, tolerance=1e-6)


def test_derivatives_and_integrals_in_the_variable():
    for p in (P, np.array([3, 0, -1]), P[:1]):
        for m in (0, 1, 2, 5):
            same(np.polyder(ng.tensor(p), m), np.polyder(p, m))
            same(np.polyint(ng.tensor(p), m), np.polyint(p, m))
        same(np.polyint(ng.tensor(p), 1, 2.0), np.polyint(p, 1, 2.0))
        same(np.polyint(ng.tensor(p), 3, [6, 5, 3]), np.polyint(p, 3, [6, 5, 3]))
        same(np.polyint(ng.tensor(p), 2, [6.0]), np.polyint(p, 2, [6.0]))


def test_zeros():
    same(np.poly(ng.tensor(P)), np.poly(P))
    same(np.poly(ng.tensor([1, 2])), np.poly([1, 2]))
    same(np.poly(ng.tensor(P * 1j)), np.poly(P * 1j))
    matrix = RNG.standard_normal((3, 3))
    for m in (matrix, matrix @ matrix.T, matrix * 1j, np.array([[0, 1], [-1, 0]])):
        found = np.poly(ng.tensor(m))
        assert found.dtype == np.poly(m).dtype
        np.testing.assert_allclose(found, np.poly(m), atol=1e-12)
    # The coefficients of a matrix are minus its trace and, of two rows, its determinant.
    slope = ng.grad(lambda m: ng.poly(m) @ [0.0, 1.0, 10.0])(np.array([[1.0, 2.0], [-3.0, 4.0]]))
    np.testing.assert_allclose(slope.numpy(), [[39.0, 30.0], [-20.0, 9.0]])
    for p in (P, np.array([0, 0, 1, -3, 2, 0]), np.array([2.0]), np.array([0.0, 3.0, 0.0])):
        found = np.sort_complex(np.roots(ng.tensor(p)))
        expected = np.sort_complex(np.roots(p))
        np.testing.assert_allclose(found, expected, atol=1e-12)
    assert np.roots(ng.tensor([0.0, 0.0])).shape == (0,)


@pytest.mark.filterwarnings("ignore:Polyfit may be poorly")
def test_polyfit_is_numpys():
    for y in (Y, np.stack([Y, X], 1)):
        for arguments in ({}, {"w": WEIGHTS}, {"rcond": 0.3}):
            for degree in (0, 1, 3):
                expected = np.polyfit(X, y, degree, **arguments)
                same(np.polyfit(ng.tensor(X), y, degree, **arguments), expected, tolerance=1e-9)
    same(ng.polyfit([0, 1, 2], [1, 3, 5], 1), np.polyfit([0, 1, 2], [1, 3, 5], 1))


DIFFERENTIABLE = {
    "polyadd": (ng.polyadd, P, Q),
    "polymul": (ng.polymul, P, Q),
    "polydiv": (lambda u, v: ng.concatenate(ng.polydiv(u, v)) ** 2, P, Q),
    "polyder": (lambda p: ng.polyder(p, 2) ** 2, P),
    "polyint": (lambda p, k: ng.polyint(p, 2, k) ** 2, P, Q),
    "poly": (ng.poly, P),
    "roots": (lambda p: ng.roots(p).sum() ** 2, P),
    "polyfit": (lambda x, y, w: ng.polyfit(x, y, 2, w=w), X, Y, WEIGHTS),
    "polyval": (lambda p, x: ng.polyval(ng.polyder(p), x), P, X),
}


NEED_VALUES = ("roots", "polydiv")


@pytest.mark.thorough(every=3)
@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_derivatives_to_second_order(name):
    check_gradients(*DIFFERENTIABLE[name], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", [name for name in DIFFERENTIABLE if name not in NEED_VALUES])
def test_jit_gives_the_same(name):
    f, *arrays = DIFFERENTIABLE[name]
    np.testing.assert_allclose(ng.jit(f)(*arrays), f(*arrays).numpy(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: ng.polyadd(x[None], x), ShapeError, "polyadd: coefficients are 1-d"),
        (lambda x: ng.polyder(x, -1), ValueError, "polyder: a negative order"),
        (lambda x: ng.polydiv(x[None], x), ShapeError, "polydiv: coefficients are 1-d"),
        (lambda x: ng.polydiv(x[:0], x), ShapeError, "polydiv: coefficients are 1-d, one or more"),
        (lambda x: ng.jit(ng.polydiv)(x, x), TracingError, "polydiv: needs the value"),
        (lambda x: ng.polyint(x, 3, [1, 2]), ShapeError, "polyint: needs one constant"),
        (lambda x: ng.poly(x[None, None]), ShapeError, "poly: takes zeros"),
        (lambda x: ng.polyfit(x, x[:2], 1), ShapeError, "polyfit: shapes do not fit"),
        (lambda x: ng.polyfit(x, x, 1, w=x[:2]), ShapeError, "polyfit: needs a weight for each"),
        (lambda x: np.polyfit(x, x, 1, full=True), TypeError, r"numpy.polyfit: full= is not"),
        (lambda x: ng.jit(ng.roots)(x.numpy()), TracingError, "roots: needs the value"),
    ],
)
def test_what_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call(ng.tensor([1.0, 2.0, 3.0]))
