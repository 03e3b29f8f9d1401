"""Distributions made by rejection or of several numbers, and their derivatives.

Statistics as in test_random.py: seeds are fixed, one right generator in a thousand would fail.
"""

import numpy as np
import pytest
import scipy.special
import scipy.stats

import numba_grad as ng
from numba_grad.testing import check_gradients

KEY = ng.random.key(2027)
N = 20_000
FEW = 5_000  # of which a mean is to be right
RARELY = 1e-3

CONTINUOUS = {
    "gamma, a near 0": ("gamma", (0.05,), scipy.stats.gamma(0.05)),
    "gamma, a < 1": ("gamma", (0.6,), scipy.stats.gamma(0.6)),
    "gamma, a = 1": ("gamma", (1.0,), scipy.stats.gamma(1)),
    "gamma": ("gamma", (3.7,), scipy.stats.gamma(3.7)),
    "gamma, large a": ("gamma", (500.0,), scipy.stats.gamma(500)),
    "beta": ("beta", (0.3, 2.5), scipy.stats.beta(0.3, 2.5)),
    "chisquare": ("chisquare", (3.0,), scipy.stats.chi2(3)),
    "standard_t": ("standard_t", (2.5,), scipy.stats.t(2.5)),
    "truncated_normal": ("truncated_normal", (-0.5, 2.0), scipy.stats.truncnorm(-0.5, 2)),
    "truncated_normal, right tail": (
        "truncated_normal",
        (6.0, np.inf),
        scipy.stats.truncnorm(6, np.inf),
    ),
}


@pytest.mark.thorough(every=3)
@pytest.mark.usefixtures("numpy_engine")
@pytest.mark.parametrize("name", CONTINUOUS)
def test_distributions(name):
    function, parameters, expected = CONTINUOUS[name]
    draw = getattr(ng.random, function)
    x = draw(KEY, *parameters, (N,)).numpy()
    assert scipy.stats.kstest(x, expected.cdf).pvalue > RARELY
    single = draw(KEY, *np.float32(parameters), (N,)).numpy()
    assert single.dtype == np.float32
    # Numbers near 0 of small shapes have no place in float32 but 0 itself.
    if name != "gamma, a near 0":
        assert scipy.stats.kstest(single.astype(float), expected.cdf).pvalue > RARELY


@pytest.mark.thorough(but="^truncated")
@pytest.mark.parametrize("name", ["gamma, a < 1", "beta", "standard_t", "truncated_normal"])
def test_same_numbers_everywhere(name):
    """On each engine, for any number of threads, for any shape, in jit and in vmap."""
    function, parameters, _ = CONTINUOUS[name]
    draw = getattr(ng.random, function)
    keys = ng.random.split(KEY, 3).numpy()
    with ng.configure(engine="reference"):
        expected = draw(KEY, *parameters, (N,)).numpy()
        alone = np.stack([draw(ng.tensor(key), *parameters, (2,)).numpy() for key in keys])
        np.testing.assert_array_equal(draw(KEY, *parameters, (3, 2)).numpy().ravel(), expected[:6])
    f = ng.jit(lambda key: draw(key, *parameters, (N,)))
    threads = ng.get_num_threads()
    try:
        for count in (1, 3):
            ng.set_num_threads(count)
            np.testing.assert_allclose(f(KEY).numpy(), expected, rtol=1e-11)
    finally:
        ng.set_num_threads(threads)
    mapped = ng.vmap(lambda key: draw(key, *parameters, (2,)))(ng.tensor(keys))
    np.testing.assert_allclose(mapped.numpy(), alone, rtol=1e-11)


@pytest.mark.thorough(but=r"^0\.3$")
@pytest.mark.usefixtures("numpy_engine")
@pytest.mark.parametrize("lam", [0.0, 0.3, 5.0, 9.999, 10.0, 40.0, 1e5])
def test_poisson(lam):
    x = ng.random.poisson(KEY, lam, (N,)).numpy()
    assert x.dtype == np.int64
    if lam == 0:
        assert not x.any()
        return
    expected = scipy.stats.poisson(lam)
    edges = np.unique(np.linspace(*expected.ppf([0.002, 0.998]), 25).astype(int)) + 0.5
    counts = np.histogram(x, [-1, *edges, 1e18])[0]
    p = np.diff([0, *expected.cdf(edges), 1])
    assert scipy.stats.chisquare(counts, p * N).pvalue > RARELY


@pytest.mark.usefixtures("numpy_engine")
def test_poisson_of_arrays():
    lam = np.array([[0.0, 1.0, 50.0], [np.nan, -1.0, np.inf]])
    x = ng.random.poisson(KEY, lam).numpy()
    assert x[0, 0] == 0 and (x[1] == -1).all()
    keys = ng.random.split(KEY, 4)
    mapped = ng.vmap(lambda key: ng.random.poisson(key, lam[0]))(keys).numpy()
    alone = np.stack([ng.random.poisson(key, lam[0]).numpy() for key in keys])
    np.testing.assert_array_equal(mapped, alone)


def test_gamma_where_it_is_not_defined():
    x = ng.random.gamma(KEY, np.array([-1.0, 0.0, np.nan, 2.0])).numpy()
    assert np.isnan(x[:3]).all() and x[3] > 0


# Derivatives


def slopes(x: np.ndarray, a: np.ndarray, step: float) -> tuple[np.ndarray, np.ndarray]:
    """First and second derivative by a, where the probability of less than x stays the same."""
    lower, upper = scipy.special.gammainc(a, x), scipy.special.gammaincc(a, x)

    def moved(to: np.ndarray) -> np.ndarray:
        left = scipy.special.gammaincinv(to, lower)
        return np.where(lower < 0.5, left, scipy.special.gammainccinv(to, upper))

    ahead, behind = moved(a + step), moved(a - step)
    return (ahead - behind) / (2 * step), (ahead - 2 * moved(a) + behind) / step**2


def test_gamma_follows_the_quantile_to_second_order():
    a = np.repeat([1.0, 1.2, 3.0, 20.0, 400.0], 6)

    def draw(a):
        return ng.random.gamma(KEY, a)

    x = draw(a).numpy()
    first = ng.grad(lambda a: draw(a).sum())
    second = ng.grad(lambda a: first(a).sum())
    inner = slice(
        6, None
    )  # at a = 1 the difference would go below, where numbers are made by powers
    np.testing.assert_allclose(first(a).numpy()[inner], slopes(x, a, 1e-5)[0][inner], rtol=1e-6)
    np.testing.assert_allclose(
        second(a).numpy()[inner], slopes(x, a, 2e-3)[1][inner], rtol=1e-3, atol=1e-6
    )


@pytest.mark.usefixtures("numpy_engine")
def test_gradients_of_gamma_with_a_below_one_are_right_on_average():
    """d/da of the mean, which is a, and of the mean logarithm, which is digamma(a)."""
    for a in (0.2, 0.9):
        shapes = np.full(FEW, a)
        means = [
            (ng.grad(lambda a: ng.random.gamma(KEY, a).sum())(shapes), 1.0),
            (
                ng.grad(lambda a: ng.random.loggamma(KEY, a).sum())(shapes),
                scipy.special.polygamma(1, a),
            ),
        ]
        for gradients, expected in means:
            g = gradients.numpy()
            assert abs(g.mean() - expected) < 4 * g.std() / np.sqrt(FEW)


@pytest.mark.usefixtures("numpy_engine")
def test_gradients_of_beta_and_dirichlet_are_right_on_average():
    def mean_of(index, parameters):
        def f(*parameters):
            return ng.random.beta(KEY, *parameters).sum()

        return ng.grad(f, argnums=index)(*parameters).numpy()

    a, b = 0.7, 2.0
    parameters = (np.full(FEW, a), np.full(FEW, b))
    for index, expected in ((0, b / (a + b) ** 2), (1, -a / (a + b) ** 2)):
        g = mean_of(index, parameters)
        assert abs(g.mean() - expected) < 4 * g.std() / np.sqrt(FEW)

    alpha = np.array([0.5, 1.5, 3.0])
    gradient = ng.grad(lambda alpha: ng.random.dirichlet(KEY, alpha)[:, 0].sum())
    g = gradient(np.tile(alpha, (FEW, 1))).numpy()
    total = alpha.sum()
    expected = np.array([total - alpha[0], -alpha[0], -alpha[0]]) / total**2
    assert (np.abs(g.mean(0) - expected) < 4 * g.std(0) / np.sqrt(FEW)).all()


@pytest.mark.usefixtures("numpy_engine")
def test_single_precision_gradient_of_gamma():
    a = np.array([0.3, 1.0, 4.0])
    single = ng.grad(lambda a: ng.random.gamma(KEY, a).sum())(a.astype(np.float32))
    double = ng.grad(lambda a: ng.random.gamma(KEY, a).sum())(a)
    assert single.dtype == np.float32
    np.testing.assert_allclose(single.numpy(), double.numpy(), rtol=2e-5)


def test_gradient_of_gamma_under_jit_and_vmap():
    f = ng.jit(ng.grad(lambda a, key: ng.random.gamma(key, a).sum()))
    a = np.array([0.5, 2.0, 7.0])
    expected = ng.grad(lambda a: ng.random.gamma(KEY, a).sum())(a).numpy()
    np.testing.assert_allclose(f(a, KEY), expected, rtol=1e-12)
    keys = ng.random.split(KEY, 2)
    mapped = ng.vmap(ng.grad(lambda a, key: ng.random.gamma(key, a).sum()), (None, 0))(a, keys)
    alone = np.stack([np.asarray(f(a, key)) for key in keys])
    np.testing.assert_allclose(mapped.numpy(), alone, rtol=1e-12)


@pytest.mark.usefixtures("numpy_engine")
def test_truncated_normal():
    far = ng.random.truncated_normal(KEY, np.array([30.0, -31.0]), np.array([31.0, -30.0])).numpy()
    assert 30 <= far[0] <= 31 and -31 <= far[1] <= -30
    everywhere = ng.random.truncated_normal(KEY, -np.inf, np.inf, (N,)).numpy()
    assert np.isfinite(everywhere).all()
    assert scipy.stats.kstest(everywhere, "norm").pvalue > RARELY
    check_gradients(
        lambda a, b: ng.random.truncated_normal(KEY, a, b, (2, 3)),
        np.array([-1.0, 0.5, 3.0]),
        np.array([0.3, 4.0, 4.0]),
    )


@pytest.mark.usefixtures("numpy_engine")
def test_dirichlet():
    alpha = np.array([0.3, 1.0, 2.0])
    x = ng.random.dirichlet(KEY, alpha, (N,)).numpy()
    np.testing.assert_allclose(x.sum(1), 1, rtol=1e-13)
    for k in range(3):
        marginal = scipy.stats.beta(alpha[k], alpha.sum() - alpha[k])
        assert scipy.stats.kstest(x[:, k], marginal.cdf).pvalue > RARELY
    tiny = ng.random.dirichlet(KEY, np.full(4, 1e-4), (100,)).numpy()
    np.testing.assert_allclose(tiny.sum(1), 1, rtol=1e-13)
    assert ng.random.dirichlet(KEY, np.ones((2, 3))).shape == (2, 3)


COVARIANCE = np.array([[2.0, 0.6, 0.0], [0.6, 1.0, -0.3], [0.0, -0.3, 0.5]])


@pytest.mark.usefixtures("numpy_engine")
def test_multivariate_normal():
    mean = np.array([1.0, -2.0, 0.5])
    x = ng.random.multivariate_normal(KEY, mean, COVARIANCE, (N,)).numpy()
    whitened = np.linalg.solve(np.linalg.cholesky(COVARIANCE), (x - mean).T)
    assert scipy.stats.kstest(whitened.ravel(), "norm").pvalue > RARELY
    np.testing.assert_allclose(np.cov(x.T), COVARIANCE, atol=0.06)
    stacked = ng.random.multivariate_normal(KEY, np.zeros((2, 1, 3)), np.stack([COVARIANCE] * 4))
    assert stacked.shape == (2, 4, 3)
    single = ng.random.multivariate_normal(KEY, np.zeros((8, 3)), COVARIANCE).numpy()
    np.testing.assert_allclose(stacked.numpy().reshape(8, 3), single, rtol=1e-12, atol=1e-12)
    assert ng.random.multivariate_normal(KEY, mean, COVARIANCE, dtype="float32").dtype == "float32"


@pytest.mark.usefixtures("numpy_engine")
def test_gradients_of_multivariate_normal():
    root = np.linalg.cholesky(COVARIANCE) + 0.1
    check_gradients(
        lambda mean, root: ng.random.multivariate_normal(KEY, mean, root @ root.T, (4,)),
        np.array([1.0, -2.0, 0.5]),
        root,
    )


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: ng.random.multivariate_normal(KEY, np.ones(3), np.eye(2)), ValueError, "fit"),
        (
            lambda: ng.random.multivariate_normal(KEY, np.ones(2), np.ones(2)),
            ValueError,
            "together",
        ),
        (
            lambda: ng.random.multivariate_normal(KEY, np.ones(2), -np.eye(2)).numpy(),
            np.linalg.LinAlgError,
            "[Pp]ositive definite",
        ),
        (lambda: ng.random.dirichlet(KEY, 1.0), ValueError, "dirichlet: no axis"),
        (lambda: ng.random.gamma(KEY, np.ones(3), (2,)), ValueError, "gamma: the parameters do"),
        (lambda: ng.random.gamma(KEY, 1j), TypeError, "gamma: not defined for this dtype"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()
