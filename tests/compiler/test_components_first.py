"""What loops over pairs read of rows of components is stored as columns."""

import numpy as np
import pytest

import numba_grad as ng

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(37, 6)), RNG.normal(size=(21, 6))


def differences(x, y):
    return x[:, None] - y


def sources(f, *args):
    return [kernel.source for kernel in ng.jit(f).lower(*args).kernels]


def check(f, *args, rtol=1e-12):
    every = ng.value_and_grad(lambda *x: np.sum(f(*x)), tuple(range(len(args))))
    value, gradients = ng.jit(every)(*args)
    np.testing.assert_allclose(value, np.sum(f(*args)), rtol=rtol)
    with ng.configure(engine="reference"):
        _, expected = every(*args)
    for found, right in zip(gradients, expected, strict=True):
        right = np.asarray(right)
        assert found.dtype == right.dtype
        np.testing.assert_allclose(found, right, rtol=rtol, atol=rtol * np.abs(right).max())


WAYS = {
    "squared distances": lambda x, y: np.exp(-np.sum(differences(x, y) ** 2, axis=-1)),
    "absolute ones": lambda x, y: np.sum(abs(differences(x, y)), axis=2) ** 2,
    "the nearest": lambda x, y: np.min(np.sum(differences(x, y) ** 2, axis=-1), axis=1),
    "by einsum": lambda x, y: np.einsum("ijk,ijk->ij", differences(x, y), differences(x, y)),
    "largest component": lambda x, y: np.max(differences(x, y), axis=-1),
    "sums over points": lambda x, y: np.sum(np.tanh(differences(x, y)), axis=0) ** 2,
    "sums over both": lambda x, y: np.sum(np.tanh(differences(x, y)), axis=(0, 1)) ** 2,
    "a weight a component": lambda x, y: np.sum(differences(x, y) ** 2 * x[0] ** 2, axis=-1) ** 0.5,
    "a weight a pair": lambda x, y: differences(x, y) * np.sin(x @ y.T)[:, :, None],
    "one component": lambda x, y: differences(x, y)[:, :, 2] * differences(x, y)[:, :, 0],
    "all in a row": lambda x, y: np.sin(differences(x, y)).reshape(-1, 3).sum(axis=0) ** 2,
    "of one set": lambda x, y: np.cos(differences(x, x)).sum(axis=-1) + y.sum(),
    "the other side first": lambda x, y: (y[None] - x.reshape(-1, 1, 6)) ** 3,
}


@pytest.mark.thorough(every=4)
@pytest.mark.parametrize("name", WAYS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_values_and_gradients(name, dtype):
    check(WAYS[name], X.astype(dtype), Y.astype(dtype), rtol=1e-4 if dtype == np.float32 else 1e-11)


def test_which_is_the_nearest():
    distances = ng.jit(lambda x, y: np.argmin(differences(x, y) ** 2, axis=1))
    np.testing.assert_array_equal(distances(X, Y), np.argmin(differences(X, Y) ** 2, axis=1))


@pytest.mark.parametrize("name", ["squared distances", "the nearest", "absolute ones"])
def test_nothing_is_copied_for_each_pair(name):
    gradient = ng.grad(lambda x, y: np.sum(WAYS[name](x, y)), (0, 1))
    found = sources(gradient, X, Y)
    assert not any("keep_scalar" in source for source in found)
    assert any("# transpose: float64, 2-d" in source for source in found)


@pytest.mark.parametrize("components", [2, 3, 4])
@pytest.mark.usefixtures("not_compiled")
def test_few_components_are_columns_as_well(components):
    """Loops over pairs read neighbours then, which are vector code with a last part of a vector:
    rows of 50 pairs took three times as long."""

    def loss(x, y, w):
        return np.sum((np.exp(-np.sum(differences(x, y) ** 2, axis=-1)) @ w) ** 2)

    given = np.ones((100, components)), np.ones((50, components)), np.ones(50)
    found = sources(ng.grad(loss, (0, 1, 2)), *given)
    pairs = [source for source in found if source.count("for ") > 1]
    assert len(pairs) > 1
    assert not any(f"[{components} * i1" in source for source in pairs)


@pytest.mark.parametrize("columns", [lambda x: [x[:, k] for k in range(3)], np.transpose])
@pytest.mark.usefixtures("not_compiled")
def test_components_one_by_one_are_columns_as_well(columns):
    def loss(x):
        d = [c[:, None] - c for c in columns(x)]
        weights = 1 / (sum(c**2 for c in d) + 0.1) ** 2
        return sum(np.sum(np.sum(c * weights, axis=1) ** 2) for c in d)

    pairs = [source for source in sources(ng.grad(loss), X[:, :3]) if source.count("for ") > 1]
    assert pairs
    assert not any("[3 * i" in source for source in pairs)


WINDOWS = {
    "means": lambda w: np.tanh(w.mean(axis=-1)),
    "variances": lambda w: w.var(axis=-1),
    "largest": lambda w: w.max(axis=-1),
    "logarithms of sums": lambda w: np.log(np.sum(np.exp(w - w[..., 2:3]), axis=-1)),
    "differences": lambda w: np.sin(w[..., 1:] - w[..., :-1]),
    "weighted": lambda w: np.sum(np.sin(w * np.arange(1.0, 7.0)), axis=-1),
}


@pytest.mark.thorough(every=3)
@pytest.mark.parametrize("name", WINDOWS)
def test_windows(name):
    x = RNG.normal(size=50)

    def rows(x):
        return x[np.arange(45)[:, None] + np.arange(6)]

    check(lambda x: WINDOWS[name](np.lib.stride_tricks.sliding_window_view(x, 6)), x, rtol=1e-11)
    check(lambda x: WINDOWS[name](rows(x)), x, rtol=1e-11)


@pytest.mark.parametrize("name", ["variances", "largest"])
def test_windows_along_two_axes(name):
    image = RNG.normal(size=(20, 23))

    def both(x):
        windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3))
        f = getattr(np, {"variances": "var", "largest": "max"}[name])
        return f(np.tanh(windows), axis=(2, 3)) + f(windows * windows[..., :1], axis=3)[..., 1]

    check(both, image, rtol=1e-11)
    gradient = ng.grad(lambda x: np.sum(both(x)))
    assert not any("keep_scalar" in source for source in sources(gradient, image))


def test_rows_that_are_read_once_stay():
    images = RNG.normal(size=(30, 21, 6))
    found = sources(ng.grad(lambda x, y: np.sum(np.tanh(x * y)), (0, 1)), images, Y)
    assert not any("# transpose" in source for source in found)
    check(lambda x, y: np.tanh(x * y), images, Y)
    check(lambda x, y: np.tanh(x[:, None] - y) * images[:, 0, 0, None, None, None], images[0], Y)


def test_reductions_of_written_out_axes_are_shared():
    """The sum over 12 columns is computed once for each row, not once for each element as well."""
    y = RNG.normal(size=(12, 6))

    def f(x, y):
        weights = np.exp(-np.sum(differences(x, y) ** 2, axis=-1))
        return np.sum(np.log(np.sum(weights, axis=1)))

    many = np.tile(X, (300, 1))
    found = sources(ng.grad(f, (0, 1)), many, y)
    assert sum(source.count("exp(") for source in found) <= 12 + 2
    check(lambda x, y: f(x, y), many[:100], y)


def test_what_cotangents_add_before_they_meet_the_windows_goes_along():
    """As the derivatives of a mean and of a mean square do."""

    def deviations(x):
        w = np.lib.stride_tricks.sliding_window_view(x, (3, 3))
        return np.sqrt(np.mean(w * w, axis=(2, 3)) - np.mean(w, axis=(2, 3)) ** 2 + 0.1)

    image = RNG.normal(size=(20, 23))
    gradient = ng.grad(lambda x: np.sum(deviations(x)))
    assert not any("keep_scalar" in source for source in sources(gradient, image))
    check(deviations, image, rtol=1e-11)


def test_what_is_made_of_smaller_arrays_alone_is_columns():
    """As weights of a few bins for each of many numbers."""
    bins = np.linspace(0.0, 1.0, 8)

    def entropy(x):
        weights = np.exp(-(((x[:, None] - bins) * 10) ** 2))
        shares = np.mean(weights / np.sum(weights, axis=1, keepdims=True), axis=0)
        return -np.sum(shares * np.log(shares))

    x = RNG.random(200)
    assert not any("keep_scalar" in source for source in sources(ng.grad(entropy), x))
    check(entropy, x, rtol=1e-10)
