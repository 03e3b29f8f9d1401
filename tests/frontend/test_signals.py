"""Convolution, interpolation, differences and histograms: NumPy's results, and derivatives."""

import functools

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.errors import DTypeError, ShapeError, TracingError
from numba_grad.testing import check_gradients
from tests.frontend import agreement
from tests.frontend.agreement import check_jit_and_vmap

RNG = np.random.default_rng(0)
X = RNG.standard_normal(9)
Y = RNG.standard_normal(4)
PLACES = np.cumsum(RNG.uniform(0.2, 1.0, 6))
VALUES = RNG.standard_normal(6)
INSIDE = PLACES[:-1] + 0.4 * np.diff(PLACES)


same = functools.partial(agreement.same, tolerance=1e-13)


# Convolution


@pytest.mark.parametrize("name", ["convolve", "correlate"])
@pytest.mark.parametrize("mode", ["full", "same", "valid"])
def test_all_modes_and_lengths(name, mode, numpy_engine):
    function = getattr(np, name)
    for n in (1, 2, 3, 6, 7):
        for m in (1, 2, 3, 6, 7):
            x = RNG.standard_normal(n) + 1j * RNG.standard_normal(n)
            y = RNG.standard_normal(m) + 1j * RNG.standard_normal(m)
            same(function(ng.tensor(x), y, mode), function(x, y, mode))
            same(function(ng.tensor(x.real), y.real, mode), function(x.real, y.real, mode))
    assert function(ng.tensor(X), 2.0).shape == function(X, 2.0 * np.ones(1)).shape


@pytest.mark.thorough(every=9)
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "float16", "float32", "complex64"])
def test_kernels_in_every_dtype(dtype):
    x = RNG.integers(0, 3, 2500).astype(dtype)
    y = RNG.integers(0, 3, 2600).astype(dtype)
    tolerance = {"float16": 2e-3, "float32": 1e-5, "complex64": 1e-5}.get(dtype, 0)
    for short in (1, 3, 4, 5, 70):
        for mode in ("full", "same", "valid"):
            expected = np.convolve(x, y[:short], mode)
            same(ng.convolve(x, y[:short], mode), expected, tolerance=tolerance)
    same(ng.correlate(x, y, "valid"), np.correlate(x, y, "valid"), tolerance=tolerance)


def test_convolution_has_the_gradient_of_torch():
    torch = pytest.importorskip("torch")
    x, y = torch.tensor(X, requires_grad=True), torch.tensor(Y, requires_grad=True)
    weights = RNG.standard_normal(len(X) - len(Y) + 1)
    result = torch.nn.functional.conv1d(x[None, None], y[None, None])[0, 0]
    (result * torch.tensor(weights)).sum().backward()
    a, b = ng.tensor(X, requires_grad=True), ng.tensor(Y, requires_grad=True)
    (ng.correlate(a, b) * weights).sum().backward()
    np.testing.assert_allclose(a.grad, x.grad, rtol=1e-13)
    np.testing.assert_allclose(b.grad, y.grad, rtol=1e-13)


# Interpolation


def test_interp_is_numpys(numpy_engine):
    x = np.concatenate([PLACES, INSIDE, [-1.0, 99.0, np.nan, np.inf, -np.inf]]).reshape(2, -1)
    for values in (VALUES, VALUES + 1j * VALUES[::-1]):
        for arguments in ({}, {"left": -7.0}, {"right": 9.0}, {"period": 1.3}, {"period": -9.0}):
            expected = np.interp(x, PLACES, values, **arguments)
            same(np.interp(ng.tensor(x), PLACES, values, **arguments), expected)
            same(np.interp(x, ng.tensor(PLACES), ng.tensor(values), **arguments), expected)
    same(ng.interp(np.float32([1.5]), [1, 2], [3, 5]), np.interp(np.float32([1.5]), [1, 2], [3, 5]))
    for at in (0.5, 1.0, 2.0):
        same(
            ng.interp(at, [1.0], [4.0], right=5.0), np.array(np.interp(at, [1.0], [4.0], right=5.0))
        )
    steps = np.array([0.0, 1.0, 1.0, 2.0]), np.array([0.0, 1.0, 5.0, 6.0])
    same(ng.interp([0.5, 1.0, 1.5], *steps), np.interp([0.5, 1.0, 1.5], *steps))
    assert ng.interp(np.zeros((0, 2)), PLACES, VALUES).shape == (0, 2)
    for values in ([0.0, 2, np.inf, 4], [-np.inf, 2, np.nan, 4], [0, 0, 2.5, 2.5]):
        for places in ([1, 2, 3, 4], [-np.inf, 1, 2.5, np.inf]):
            at = np.array([-5, 1, 2, 2.5, 3, 4, 1e9])
            same(ng.interp(at, places, values), np.interp(at, places, values))


def test_gradient_of_interp_at_and_beyond_points():
    x = ng.tensor([0.0, 1.0, 2.0, 3.0, -1.0, 4.0, np.nan], requires_grad=True)
    fp = ng.tensor([0.0, 1.0, 3.0, 0.0], requires_grad=True)
    ng.interp(x, [0.0, 1.0, 2.0, 3.0], fp).sum().backward()
    assert x.grad.numpy()[:6].tolist() == [1.0, 2.0, -3.0, 0.0, 0.0, 0.0]
    assert fp.grad.numpy().tolist() == [2.0, 1.0, 1.0, 2.0]


# Differences


def test_ediff1d_is_numpys(numpy_engine):
    x = np.array([[1, 2, 4], [7, 0, 1]])
    for arguments in ({}, {"to_begin": 9}, {"to_end": [[8, 9]], "to_begin": [1, 2]}):
        same(np.ediff1d(ng.tensor(x), **arguments), np.ediff1d(x, **arguments))
    same(ng.ediff1d(x[:0]), np.ediff1d(x[:0]))


# Histograms


@pytest.mark.thorough(every=4)
@pytest.mark.parametrize("dtype", ["bool", "int32", "float32", "float64"])
@pytest.mark.filterwarnings("ignore:Converting input from bool")
def test_histogram_is_numpys(dtype):
    x = (3 * RNG.standard_normal((20, 10))).astype(dtype)
    weights = RNG.standard_normal(x.shape)
    for arguments in (
        {},
        {"bins": 7, "range": (-2, 3)},
        {"bins": [-3.0, -1.0, 0.0, 2.5, 2.5, 4.0]},
        {"bins": 5, "density": True},
        {"bins": 4, "weights": weights},
        {"bins": [0, 1, 3], "weights": weights * 1j, "density": True},
        {"bins": 3, "weights": np.ones(x.shape, np.int16)},
    ):
        expected = np.histogram(x, **arguments)
        for ours, theirs in zip(np.histogram(ng.tensor(x), **arguments), expected, strict=True):
            same(ours, theirs, tolerance=1e-12)
    ends = np.float32([-2, 1.1])
    for ours, theirs in zip(
        ng.histogram(x, 2, ng.tensor(ends)), np.histogram(x, 2, ends), strict=True
    ):
        same(ours, theirs)
    if dtype == "float64":
        counts, edges = np.histogram(x, "auto")
        same(ng.histogram(x, "auto")[0], counts)
        same(ng.histogram(x, ng.tensor(edges))[0], counts)


@pytest.mark.thorough(but="float64")
@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "uint8"])
def test_histogram_of_a_number_of_bins_in_jit(dtype):
    x = np.random.default_rng(0).uniform(0, 9, (20, 3)).astype(dtype)
    w = np.linspace(0.0, 1.0, x.size).reshape(x.shape)
    for values in (x, x[:1, :1], x[:0]):
        weights = w[: values.shape[0], : values.shape[1]]
        expected = np.histogram(values, 6, weights=weights)
        found = ng.jit(lambda x, w: np.histogram(x, 6, weights=w))(values, weights)
        for ours, theirs in zip(found, expected, strict=True):
            assert ours.dtype == theirs.dtype
            np.testing.assert_allclose(ours, theirs, rtol=1e-6 if dtype == "float32" else 1e-14)
    each = ng.vmap(lambda row: ng.histogram(row, 4)[0])(x)
    same(each, np.stack([np.histogram(row, 4)[0] for row in x]))


def test_histogram_leaves_out_nan_and_what_is_outside():
    x = np.array([np.nan, -5.0, 0.0, 1.0, 2.0, 2.5, np.inf])
    same(ng.histogram(x, [0.0, 1.0, 2.0])[0], np.array([1, 2]))
    same(ng.histogram(np.zeros(0), 3)[0], np.array([0, 0, 0]))


def test_histograms_of_several_axes_are_numpys(numpy_engine):
    points = RNG.standard_normal((200, 3))
    x, y, weights = points.T
    edges = [-1.0, 0.0, 0.5, 1.0]
    for arguments in (
        {},
        {"bins": 4, "weights": weights},
        {"bins": [3, 5], "range": [(-1, 1), None], "density": True},
        {"bins": [edges, 4]},
        {"bins": edges, "weights": weights},
        {"bins": np.array(edges), "density": True},
    ):
        expected = np.histogram2d(x, y, **arguments)
        result = np.histogram2d(ng.tensor(x), y, **arguments)
        for ours, theirs in zip(result, expected, strict=True):
            same(ours, theirs, tolerance=1e-12)
    counts, edges_of_each = np.histogramdd(points, (2, 3, 4), density=True)
    ours, edges_of_ours = np.histogramdd(ng.tensor(points), (2, 3, 4), density=True)
    same(ours, counts)
    for own, theirs in zip(edges_of_ours, edges_of_each, strict=True):
        same(own, theirs)
    check_gradients(lambda w: ng.histogram2d(x[:9], y[:9], 2, weights=w)[0] ** 2, X)
    with pytest.raises(ShapeError, match="histogramdd: needs bins, and a range, for each axis"):
        ng.histogramdd(points, [2, 3])
    with pytest.raises(ShapeError, match="histogramdd: no points"):
        ng.histogram2d(x, y[:5])


def test_bincount_is_numpys():
    x = np.array([3, 1, 1, 7, 0])
    weights = RNG.standard_normal(5)
    for arguments in ({}, {"weights": weights}, {"minlength": 12}, {"weights": [1, 2, 3, 4, 5]}):
        same(np.bincount(ng.tensor(x), **arguments), np.bincount(x, **arguments))
    same(ng.bincount(x.astype(np.uint8)), np.bincount(x.astype(np.uint8)))
    same(ng.bincount(x.astype(np.uint64)), np.bincount(x.astype(np.uint64)))
    same(ng.bincount(x[:0], minlength=2), np.bincount(x[:0], minlength=2))
    same(ng.bincount(x[:0]), np.bincount(x[:0]))


def test_bincount_of_a_known_length_is_traced():
    """Charges on a mesh, as a particle-in-cell code counts them."""
    x = np.array([[3, 1, 1, 7, 0], [0, 0, 2, 2, 7]])
    charges = RNG.standard_normal(5)
    counted = ng.jit(lambda x, w: np.bincount(x, weights=w, minlength=8))
    same(ng.tensor(counted(x[0], charges)), np.bincount(x[0], weights=charges, minlength=8))
    numbers = ng.jit(lambda x: np.bincount(x, minlength=8))(ng.tensor(x[0]))
    same(numbers, np.bincount(x[0], minlength=8))
    each = ng.vmap(lambda x, w: np.bincount(x, w, 8), in_axes=(0, None))(x, charges)
    same(each, np.stack([np.bincount(row, charges, 8) for row in x]))
    slope = ng.grad(lambda w: np.sum(counted(x[0], w) ** 2))(charges)
    same(slope, 2 * np.bincount(x[0], charges)[x[0]])
    for wrong in (-1, 8):
        with pytest.raises(IndexError, match="scatter_add"):
            counted(np.array([0, wrong, 1, 1, 1]), charges)


# Derivatives, jit and vmap

DIFFERENTIABLE = {
    **{
        f"{name}, {mode}": (lambda x, y, f=name, mode=mode: getattr(ng, f)(x, y, mode), *arrays)
        for name, mode, arrays in (
            ("convolve", "full", (X, Y)),
            ("convolve", "same", (Y, X)),
            ("correlate", "valid", (X, Y)),
            ("correlate", "same", (Y, X)),
            ("correlate", "full", (X + 1j * X[::-1], Y - 2j)),
        )
    },
    "interp": (lambda x, xp, fp: ng.interp(x, xp, fp), INSIDE, PLACES, VALUES),
    "interp with ends": (
        lambda x, xp, fp, left, right: ng.interp(x, xp, fp, left, right),
        np.array([-2.0, 99.0, INSIDE[1]]),
        PLACES,
        VALUES + 1j,
        np.array(2.0),
        np.array(-1.0),
    ),
    "periodic interp": (lambda x, xp, fp: ng.interp(x, xp, fp, period=2.1), INSIDE, PLACES, VALUES),
    "ediff1d": (lambda x, end: ng.ediff1d(x * x, to_end=end), X, Y),
    "histogram": (lambda w: ng.histogram(X, [-2.0, 0.0, 0.3, 3.0], weights=w)[0] ** 2, Y[[0] * 9]),
    "density": (lambda w: ng.histogram(X, 3, (-3, 3), True, w * w)[0], X),
}


@pytest.mark.thorough(every=6)
@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_derivatives_to_second_order(name, numpy_engine):
    check_gradients(*DIFFERENTIABLE[name])


def test_derivative_of_bincount():
    check_gradients(lambda w: ng.bincount(np.array([3, 1, 1, 0]), w) ** 2, Y)


@pytest.mark.thorough(every=4)
@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_jit_and_vmap_give_the_same(name):
    check_jit_and_vmap(*DIFFERENTIABLE[name], rtol=1e-12, atol=1e-14)


def test_gradients_of_a_convolution_in_kernels():
    """Both loops: a few sums of many products, and many of a few."""
    x, y = RNG.standard_normal(5000), RNG.standard_normal(11)
    a, b = ng.tensor(x, requires_grad=True), ng.tensor(y, requires_grad=True)
    weights = RNG.standard_normal(5010)
    (ng.convolve(a, b) * weights).sum().backward()
    np.testing.assert_allclose(a.grad, np.correlate(weights, y, "valid"), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(b.grad, np.correlate(weights, x, "valid"), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: ng.convolve(x, x, "middle"), ValueError, "convolve: no such mode"),
        (lambda x: ng.convolve(x, x[:0]), ValueError, "convolve: an empty array"),
        (lambda x: ng.correlate(x[None], x), ShapeError, "correlate: takes arrays of one axis"),
        (lambda x: ng.interp(x, x, x[:2]), ShapeError, "interp: xp and fp must be 1-d"),
        (lambda x: ng.interp(x, x[:0], x[:0]), ValueError, "interp: there are no points"),
        (lambda x: ng.interp(x * 1j, x, x), DTypeError, "interp: complex places"),
        (lambda x: ng.interp(x, x, x, period=0), ValueError, "interp: the period must not be 0"),
        (lambda x: ng.ediff1d(x, 1j), DTypeError, "ediff1d: to_end does not fit"),
        (lambda x: ng.bincount(x), DTypeError, "bincount: x must be of integers"),
        (lambda x: ng.bincount(np.array([-1])), ValueError, "bincount: negative elements"),
        (lambda x: ng.bincount(np.array([[1]])), ShapeError, "bincount: x must be 1-d"),
        (lambda x: ng.bincount(np.array([1]), x), ShapeError, "bincount: needs a weight for each"),
        (lambda x: ng.histogram(x, [1, 0]), ValueError, "histogram: edges must increase"),
        (lambda x: ng.histogram(x, weights=x[:1]), ShapeError, "histogram: needs a weight for"),
        (lambda x: ng.histogram(x * 1j), DTypeError, "histogram: complex numbers"),
        (lambda x: ng.histogram(x / 0), ValueError, "range"),
        (
            lambda x: ng.jit(lambda x: ng.histogram(x, "auto")[0])(x),
            TracingError,
            "(?s)histogram: .*a number of bins, or bins=edges",
        ),
        (
            lambda x: ng.jit(lambda x: ng.bincount(x))(np.array([1])),
            TracingError,
            r"(?s)bincount: .*minlength=n",
        ),
    ],
)
def test_what_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call(ng.tensor([1.0, 2.0, 3.0]))


@pytest.mark.thorough(every=3)
@pytest.mark.parametrize("dtype", ["float64", "float32", "int64"])
def test_elements_at_the_edges_of_equal_bins(dtype):
    """Which bin they are in is for the edges to say, not for the rounding of a division."""
    for bins, ends in ((1, (0.0, 1.0)), (7, (-0.3, 0.4)), (1000, (0.1, 0.7)), (3, (-2.0, 2.0))):
        edges = np.histogram_bin_edges(np.empty(0), bins, ends).astype(dtype)
        near = [np.nextafter(edges, side) for side in (-9, 9)] if dtype != "int64" else [edges + 1]
        x = np.concatenate([edges, *near, edges * 50]).astype(dtype)
        expected = np.histogram(x, bins, ends)[0]
        np.testing.assert_array_equal(ng.histogram(ng.tensor(x), bins, ends)[0], expected)
    x = np.array([np.nan, np.inf, -np.inf, 0.5])
    np.testing.assert_array_equal(ng.jit(lambda x: ng.histogram(x, 2, (0, 1))[0])(x), [0, 1])
