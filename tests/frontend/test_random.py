"""Random numbers: their distributions, that they are functions of the key, and gradients.

Seeds are fixed, so that a statistic either passes always or never. Its limit is what one in a
thousand right generators would exceed.
"""

import numpy as np
import pytest
import scipy.stats

import numba_grad as ng
from numba_grad.frontend.inputs.arrays import as_node, wrap
from numba_grad.frontend.random_variates import bits as random_bits
from numba_grad.graph.node import leaf
from numba_grad.testing import check_gradients

KEY = ng.random.key(2026)
N = 20_000
RARELY = 1e-3

CONTINUOUS = {
    "uniform": ({"low": -2.0, "high": 3.0}, scipy.stats.uniform(-2, 5)),
    "normal": ({"loc": 1.5, "scale": 0.3}, scipy.stats.norm(1.5, 0.3)),
    "exponential": ({"scale": 2.0}, scipy.stats.expon(0, 2)),
    "gumbel": ({"loc": -1.0, "scale": 3.0}, scipy.stats.gumbel_r(-1, 3)),
    "laplace": ({"loc": 0.5, "scale": 2.0}, scipy.stats.laplace(0.5, 2)),
    "logistic": ({"loc": 0.5, "scale": 2.0}, scipy.stats.logistic(0.5, 2)),
    "lognormal": ({"mean": 0.2, "sigma": 0.5}, scipy.stats.lognorm(0.5, 0, np.exp(0.2))),
}


def chi_square(counts: np.ndarray, probabilities: np.ndarray) -> float:
    return scipy.stats.chisquare(counts, probabilities * counts.sum()).pvalue


# Keys


def test_keys_are_seeds():
    assert ng.random.key(7).item() == 7 and ng.random.key(7).dtype == np.uint64
    assert ng.random.key(-1).item() == 2**64 - 1 == ng.random.key(2**64 - 1).item()
    assert ng.random.key(np.int32(5)).item() == 5 == ng.random.key(ng.tensor(5)).item()
    for wrong in (2**64, -(2**63) - 1):
        with pytest.raises(OverflowError, match="key: the seed does not fit 64 bits"):
            ng.random.key(wrong)
    for wrong in (1.5, [1, 2], True):
        with pytest.raises(TypeError, match="key: not a seed"):
            ng.random.key(wrong)


def test_new_keys_are_different():
    keys = ng.random.split(KEY, (50, 20)).numpy()
    assert keys.shape == (50, 20)
    folded = [ng.random.fold_in(KEY, k).item() for k in range(100)]
    draws = ng.random.bits(KEY, (1000,)).numpy()
    everything = [*keys.ravel().tolist(), *folded, *draws.tolist(), KEY.item()]
    assert len(set(everything)) == len(everything)
    np.testing.assert_array_equal(ng.random.split(KEY, 5).numpy(), keys.ravel()[:5])


@pytest.mark.usefixtures("numpy_engine")
def test_draws_from_new_keys_are_uncorrelated():
    first, second = ng.random.split(KEY)
    pairs = [
        (first, second),
        (KEY, first),
        (ng.random.key(0), ng.random.key(1)),
        (ng.random.fold_in(KEY, 0), ng.random.fold_in(KEY, 1)),
    ]
    for one, other in pairs:
        x, y = (ng.random.normal(k, (N,)).numpy() for k in (one, other))
        assert scipy.stats.pearsonr(x, y).pvalue > RARELY
        assert scipy.stats.pearsonr(x[1:], y[:-1]).pvalue > RARELY


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (0, "not a key"),
        (np.int64(3), "not a key"),
        (0.5, "not a key"),
        (ng.random.split(KEY, 3), "one key"),
    ],
)
def test_what_is_no_key_is_refused(key, message):
    with pytest.raises(TypeError, match=rf"random\.normal: .*{message}"):
        ng.random.normal(key, (3,))


# Functions of the key alone


def test_values_of_today_are_those_of_tomorrow():
    """Changing them would change the results of everybody's programs."""
    key = ng.random.key(0)
    assert ng.random.bits(key, (2,)).numpy().tolist() == [0xE169C58D6627E8D5, 0x5CB200DBF8E4CCA4]
    assert ng.random.split(key).numpy().tolist() == [11176684098698979665, 16547165785570714366]
    assert ng.random.fold_in(key, 5).item() == 2334452036098881285
    np.testing.assert_allclose(ng.random.uniform(key).item(), 0.880520198, rtol=1e-8)


@pytest.mark.thorough(every=3)
@pytest.mark.parametrize("name", CONTINUOUS)
def test_same_numbers_everywhere(name):
    """On each engine, for any number of threads, for any shape, in jit and in vmap."""
    draw = getattr(ng.random, name)
    keys = ng.random.split(KEY, 3).numpy()
    with ng.configure(engine="reference"):
        expected = draw(KEY, (N,)).numpy()
        alone = np.stack([draw(ng.tensor(key), (2, 4)).numpy() for key in keys])
        np.testing.assert_array_equal(draw(KEY, (6, 5)).numpy().ravel(), expected[:30])
    f = ng.jit(lambda key: draw(key, (N,)))
    threads = ng.get_num_threads()
    try:
        for count in (1, 2, 3):
            ng.set_num_threads(count)
            np.testing.assert_allclose(f(KEY).numpy(), expected, rtol=1e-13, atol=1e-15)
    finally:
        ng.set_num_threads(threads)
    mapped = ng.vmap(lambda key: draw(key, (2, 4)))(ng.tensor(keys))
    np.testing.assert_allclose(mapped.numpy(), alone, rtol=1e-13, atol=1e-15)


def test_results_are_new_tensors_each_time_jit_is_called():
    f = ng.jit(lambda key: ng.random.normal(key, (3,)))
    first, second = ng.random.split(KEY)
    assert (f(first).numpy() != f(second).numpy()).all()


def test_numbers_are_computed_where_they_are_used():
    f = ng.jit(lambda key, x: (x * ng.random.normal(key, x.shape)).sum())
    assert len(f.lower(KEY, np.ones(50)).kernels) == 1


# Distributions


@pytest.mark.usefixtures("numpy_engine")
@pytest.mark.parametrize("name", CONTINUOUS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_distributions(name, dtype):
    parameters, expected = CONTINUOUS[name]
    x = getattr(ng.random, name)(KEY, (N,), dtype, **parameters)
    assert x.dtype == dtype
    assert scipy.stats.kstest(x.numpy().astype(float), expected.cdf).pvalue > RARELY


@pytest.mark.usefixtures("numpy_engine")
@pytest.mark.parametrize("name", CONTINUOUS)
def test_parameters_broadcast(name):
    parameters, _ = CONTINUOUS[name]
    draw = getattr(ng.random, name)
    names = list(parameters)
    arrays = {names[0]: np.full((3, 1), parameters[names[0]])}
    arrays |= {key: np.full(4, parameters[key]) for key in names[1:]}
    shape = (3, 4) if len(names) > 1 else (3, 1)
    x = draw(KEY, **arrays)
    assert x.shape == shape
    np.testing.assert_allclose(x.numpy(), draw(KEY, shape, **parameters).numpy(), rtol=1e-14)
    with pytest.raises(ng.errors.ShapeError, match=rf"random\.{name}: the parameters do not"):
        draw(KEY, (4, 3), **arrays)
    single = draw(KEY, (3, 1), **{names[0]: np.full((3, 1), 0.5, np.float32)})
    assert single.dtype == np.float32


@pytest.mark.usefixtures("numpy_engine")
@pytest.mark.parametrize("name", CONTINUOUS)
def test_shapes_and_dtypes(name):
    draw = getattr(ng.random, name)
    assert draw(KEY).shape == () and draw(KEY, 3).shape == (3,)
    assert draw(KEY, (0, 4)).numpy().shape == (0, 4)
    for wrong in ("int64", "complex128", "float16"):
        with pytest.raises(ng.errors.DTypeError, match=rf"random\.{name}: not defined"):
            draw(KEY, (3,), wrong)


@pytest.mark.thorough(every=3)
@pytest.mark.usefixtures("numpy_engine")
@pytest.mark.parametrize("name", CONTINUOUS)
def test_gradients_of_parameters(name):
    parameters, _ = CONTINUOUS[name]
    draw = getattr(ng.random, name)
    values = [np.full((2, 3), value) for value in parameters.values()]
    check_gradients(
        lambda *values: draw(KEY, **dict(zip(parameters, values, strict=True))) ** 2, *values
    )


def test_far_tails():
    """The smallest and largest bits give finite numbers."""
    extremes = leaf(np.array([0, 1, 2**63, 2**64 - 1], np.uint64))
    for dtype in (np.dtype(np.float32), np.dtype(np.float64)):
        above = wrap(random_bits.above_zero(extremes, dtype)).numpy()
        assert above[0] == 2.0**-65 and above[-1] == 1
        within = wrap(random_bits.within(extremes, dtype)).numpy()
        assert within[0] > 0 and within[-1] < 1
        below = wrap(random_bits.from_zero(extremes, dtype)).numpy()
        assert below[0] == 0 and below[-1] == 1 - np.finfo(dtype).epsneg


@pytest.mark.usefixtures("numpy_engine")
def test_bits_are_fair():
    for dtype in ("uint8", "uint16", "uint32", "uint64"):
        x = ng.random.bits(KEY, (N,), dtype).numpy()
        assert x.dtype == dtype
        width = 8 * x.dtype.itemsize
        ones = np.array([(x >> k & 1).sum() for k in range(width)])
        # Standard deviations from the mean, of up to 64 numbers.
        assert np.abs((ones - N / 2) / np.sqrt(N / 4)).max() < 4.5
    with pytest.raises(ng.errors.DTypeError, match="bits: not an unsigned integer"):
        ng.random.bits(KEY, (3,), "int32")


@pytest.mark.usefixtures("numpy_engine")
@pytest.mark.parametrize(("low", "high"), [(0, 7), (-5, 6), (3, 4), (-(2**40), -(2**40) + 10)])
def test_integers_are_fair(low, high):
    x = ng.random.integers(KEY, low, high, (N,)).numpy()
    counts = np.bincount(x - low, minlength=high - low)
    assert len(counts) == high - low
    if high - low > 1:
        assert chi_square(counts, np.full(high - low, 1 / (high - low))) > RARELY


@pytest.mark.thorough(every=3)
@pytest.mark.parametrize(
    ("low", "high", "dtype"),
    [
        (-(2**63), 2**63, "int64"),
        (0, 2**64, "uint64"),
        (0, 3 * 2**62, "uint64"),
        (-(2**62), 2**62 + 12345, "int64"),
        (0, 256, "uint8"),
        (-128, 128, "int8"),
        (2**31 - 100, 2**31, "int32"),
    ],
)
def test_wide_ranges_of_integers(low, high, dtype):
    x = ng.random.integers(KEY, low, high, (N,), dtype).numpy()
    assert x.dtype == dtype
    assert int(x.min()) >= low and int(x.max()) < high
    place = (x.astype(float) - low) / (high - low)
    if high - low > 1000:
        assert scipy.stats.kstest(place, "uniform").pvalue > RARELY


def test_integers_are_the_high_bits_of_the_product():
    key = ng.random.key(3)
    for count in (1, 10, 2**32 - 1, 2**32, 2**63 + 12345, 2**64 - 1):
        x = ng.random.integers(key, 0, count, (200,), np.uint64).numpy()
        low = ng.random.bits(key, (200,)).numpy()
        high = wrap(random_bits.philox_bits(as_node(key), (200,), half=1)).numpy()
        words = zip(high.tolist(), low.tolist(), strict=True)
        assert x.tolist() == [((h << 64 | w) * count) >> 128 for h, w in words]


def test_bounds_of_integers_as_tensors():
    low, high = ng.tensor([0, -10, 100]), ng.tensor([[2], [3]])
    x = ng.random.integers(KEY, low, high + 1000).numpy()
    assert x.shape == (2, 3)
    assert (x >= low.numpy()).all() and (x < high.numpy() + 1000).all()
    f = ng.jit(lambda key, n: ng.random.integers(key, n, shape=(100,)))
    assert f(KEY, 5).numpy().max() == 4 and f(KEY, 50).numpy().max() > 40


@pytest.mark.parametrize(
    ("bounds", "error", "message"),
    [
        ((5, 5), ValueError, "no integer to choose"),
        ((0,), ValueError, "no integer to choose"),
        ((0, 2**63 + 1), ValueError, "bounds that do not fit the dtype"),
        ((0.5, 3), TypeError, "not integers"),
    ],
)
def test_errors_of_integers(bounds, error, message):
    with pytest.raises(error, match=rf"random\.integers: {message}"):
        ng.random.integers(KEY, *bounds)


@pytest.mark.usefixtures("numpy_engine")
def test_bernoulli():
    p = np.array([0.0, 0.2, 1.0])
    x = ng.random.bernoulli(KEY, p, (N, 3)).numpy()
    assert x.dtype == bool and not x[:, 0].any() and x[:, 2].all()
    assert scipy.stats.binomtest(int(x[:, 1].sum()), N, 0.2).pvalue > RARELY
    assert ng.random.bernoulli(KEY).shape == ()


@pytest.mark.usefixtures("numpy_engine")
def test_categorical():
    p = np.array([[0.1, 0.2, 0.7], [0.5, 0.5, 0.0]])
    with np.errstate(divide="ignore"):
        logits = np.log(p) + 3
    x = ng.random.categorical(KEY, logits, shape=(N, 2)).numpy()
    assert chi_square(np.bincount(x[:, 0], minlength=3), p[0]) > RARELY
    counts = np.bincount(x[:, 1], minlength=3)
    assert counts[2] == 0 and chi_square(counts[:2], p[1, :2]) > RARELY
    np.testing.assert_array_equal(
        ng.random.categorical(KEY, logits.T, axis=0, shape=(N, 2)).numpy(), x
    )
    assert ng.random.categorical(KEY, logits).shape == (2,)
    with pytest.raises(ng.errors.ShapeError, match=r"random\.categorical"):
        ng.random.categorical(KEY, logits, shape=(N, 3))


@pytest.mark.usefixtures("numpy_engine")
def test_permutations():
    for n in (0, 1, 10, 1000):
        x = ng.random.permutation(KEY, n).numpy()
        np.testing.assert_array_equal(np.sort(x), np.arange(n))
    assert (ng.random.permutation(KEY, 1000).numpy() != np.arange(1000)).any()
    a = np.arange(12.0).reshape(3, 4)
    rows = ng.random.permutation(KEY, a).numpy()
    assert sorted(rows.tolist()) == a.tolist()
    columns = ng.random.permutation(KEY, a, axis=1).numpy()
    assert sorted(columns.T.tolist()) == a.T.tolist()
    # All orders of three are equally likely.
    keys = ng.random.split(KEY, 6000)
    orders = ng.vmap(lambda key: ng.random.permutation(key, 3))(keys).numpy()
    _, counts = np.unique(orders @ [9, 3, 1], return_counts=True)
    assert len(counts) == 6 and chi_square(counts, np.full(6, 1 / 6)) > RARELY
    check_gradients(lambda a: ng.random.permutation(KEY, a) * a, a)


@pytest.mark.usefixtures("numpy_engine")
def test_choice_with_replacement():
    x = ng.random.choice(KEY, 5, (N,)).numpy()
    assert chi_square(np.bincount(x, minlength=5), np.full(5, 0.2)) > RARELY
    p = np.array([0.3, 0.0, 0.6, 0.1, 0.0])
    x = ng.random.choice(KEY, 5, (N,), p=7 * p).numpy()
    counts = np.bincount(x, minlength=5)
    assert not counts[p == 0].any()
    assert chi_square(counts[p > 0], p[p > 0]) > RARELY
    a = np.arange(20).reshape(2, 10)
    chosen = ng.random.choice(KEY, a, (3, 4), axis=1).numpy()
    assert chosen.shape == (2, 3, 4)
    np.testing.assert_array_equal(chosen[1], chosen[0] + 10)
    assert ng.random.choice(KEY, a).shape == (10,)


@pytest.mark.usefixtures("numpy_engine")
def test_choice_without_replacement():
    x = ng.random.choice(KEY, 100, (10, 10), replace=False).numpy()
    np.testing.assert_array_equal(np.sort(x.ravel()), np.arange(100))
    p = np.array([0.5, 0.3, 0.2])
    keys = ng.random.split(KEY, 8000)
    draw = ng.vmap(lambda key: ng.random.choice(key, 3, (2,), replace=False, p=p))
    pairs = draw(keys).numpy()
    assert (pairs[:, 0] != pairs[:, 1]).all()
    counts = np.bincount(3 * pairs[:, 0] + pairs[:, 1], minlength=9)
    expected = np.array(
        [[0 if i == j else p[i] * p[j] / (1 - p[i]) for j in range(3)] for i in range(3)]
    )
    possible = expected.ravel() > 0
    assert chi_square(counts[possible], expected.ravel()[possible]) > RARELY


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: ng.random.choice(KEY, 3, (4,), replace=False), ValueError, "not enough"),
        (lambda: ng.random.choice(KEY, 0, (4,)), ValueError, "not enough"),
        (lambda: ng.random.choice(KEY, 3, (4,), p=np.ones(2)), ValueError, "not one p for each"),
        (lambda: ng.random.permutation(KEY, -1), ValueError, "negative number"),
        (lambda: ng.random.normal(KEY, (-1,)), ValueError, "negative sizes"),
        (lambda: ng.random.fold_in(KEY, 0.5), TypeError, "fold_in: not integers"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()
