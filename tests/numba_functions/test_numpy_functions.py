"""NumPy's functions inside of users' functions: values, gradients and tangents."""

import math

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.errors import KernelError
from tests.numba_functions.derivatives import Cases, check

pytestmark = pytest.mark.usefixtures("reference_engine")

X = np.array([0.3, 0.5, -0.7, 0.9, 1.1, 0.2])
Y = np.array([0.2, 0.1, 0.4, 0.3, 0.6, -0.5])
M = np.random.default_rng(0).uniform(0.2, 1, (4, 3))
S = np.random.default_rng(1).uniform(0.2, 1, (3, 3)) + 3 * np.eye(3)
S4 = np.random.default_rng(1).uniform(-1, 1, (4, 4))
P = S @ S.T

CASES = Cases()
case = CASES.case


@case(X, Y, w=(0,))
def masks(a, b):
    a[a < 0] = 0.5
    a[b > 0.25] = b[b > 0.25] * 2
    a[(a > 0.65) & (b < 0.5)] += 1.0
    return a[a > 0.4].sum()


@case(X, w=(0,))
def added_at_places(a):
    out = np.zeros(4)
    out[np.array([0, 2, 2])] += a[:3]  # of equal places, the last one
    a[np.array([5, 1])] *= 3.0
    return out


@case(X, M)
def places_in_order(a, m):
    order = np.argsort(a)
    places = np.array([2, 0, -1])
    rows = m[places] * m[:, 1][places[0]]
    columns = m[:, places] + m[1, 2]
    return a[order] * np.arange(6), rows, columns, m[3, places], m[places, -1], a[a.argsort()[:2]]


@case(X, M, S)
def repetitions(a, m, s):
    return np.repeat(a, 2) * np.arange(12), np.kron(m, s), np.take(a, np.array([1, -2, 1]))


@case(M)
def masks_of_matrices(m):
    n = m.copy()
    n[n > 0.5] *= 2.0
    big = n[n > 0.6]
    rows = m[m[:, 0] > 0.5]
    n[m[:, 1] > 0.4] = 3.0
    return n, (big**2).sum(), rows.sum(), m[m > 0.3].mean()


@case(X, Y)
def shapes(a, b):
    m = a.reshape(2, 3)
    k = b.reshape((3, -1))
    c = (m @ k).ravel()
    d = m.flatten() * 2
    e = np.flip(a)[::2]
    return c, d, e, a[::-1] * b, m.T.copy().reshape(6)


@case(X, Y)
def of_all_elements(a, b):
    t = 0.0
    if np.any(a < 0):
        t += a.sum()
    if np.all(b < 1):
        t += (a * b).sum()
    if (a > 0).all():
        t += 100
    if (a > 1).any() and not np.all(a):
        t += 10
    return t + np.std(a) * np.var(b) + a.std() - b.var() + np.ptp(a)


@case(X, 3, Y)
def functions_of_integers(a, n, b):
    scaled = np.radians(n) + np.degrees(n) + np.logaddexp(n, 2) + np.radians(30) * a[0]
    whole = np.reciprocal(n) + np.logaddexp(a[1], n) + math.lgamma(n + 1) + math.gamma(n)
    return scaled + whole + np.sum(np.radians(np.arange(n)) * a[:n]) + np.nan_to_num(n) * b[0]


@case(X, Y)
def gammas(a, b):
    total = 0.0
    for x, y in zip(a, b):  # noqa: B905
        total += math.lgamma(2.0 + x + y) - math.gamma(1.5 + x) + np.fmod(3.0 * x, 0.61) * y
    return total


@case(X, 5)
def ranges_that_go_down(a, n):
    total = a[0]
    for i in np.arange(a.shape[0] - 1, -1, -1):
        total = 0.5 * total + a[i]
    for i in np.arange(7, 2, -3):
        total += a[i - 3] * i
    total += np.arange(n, 3).size + np.arange(1, n, -2).size
    return total + a[1] * np.arange(n - 9).size + np.arange(a.shape[0] - 9).size


@case(X, Y)
def shapes_and_comparisons(a, b):
    (n,) = np.shape(a)
    total = float(n + np.size(a))
    if np.array_equal(a, b) or np.array_equal(a, a[:2]) or a.shape == (0, 2):
        total += a[0]
    if np.allclose(a, a + 1e-9) and np.array_equal(a, a.copy()) and a.shape == (n,):
        total += a[1] * b[1]
    return total + np.sum(np.isclose(a, b, atol=0.3) * a)


@case(X, Y)
def lists_as_arrays(a, b):
    turned = np.cross([0.0, 0.0, 1.0], a[:3]) + np.cross(a[:3], [0, 1, 0])
    return turned * np.interp(0.4, [0.0, 0.5, 1.0], b[:3])


@case(X, Y)
def cumulative(a, b):
    return np.cumsum(a), np.cumprod(b), a.cumsum() * b, np.diff(a), np.roll(a, 2), np.roll(b, -1)


@case(X, Y)
def joined_vectors(a, b):
    c = np.concatenate((a, b[1:], np.ones(2)))
    d = np.stack((a, b))
    e = np.vstack((a, b))
    f = np.hstack((a, b))
    g = np.column_stack((a, b))
    return c, d, e * 2, f, g


@case(M)
def joined_matrices(m):
    return (
        np.concatenate((m, m * m), axis=1),
        np.concatenate((m, m[:2]), axis=0),
        np.hstack((m, m)),
        np.vstack((m, m)),
        np.stack((m, m * 2), axis=1),
    )


@case(0.3, 0.7)
def arrays_of_numbers(x, y):
    r = np.array([[np.cos(x), -np.sin(x)], [np.sin(x), np.cos(x)]])
    v = np.array([x, y])
    w = np.array((x * y, 1, 2.0))
    return r @ v, w, np.asarray([1.0, x])


@case(X, Y)
def products(a, b):
    return (
        np.dot(a, b),
        np.outer(a, b),
        np.vdot(a, b),
        a.dot(b),
        np.dot(np.outer(a, b), a),
        np.argmax(a),
    )


@case(S, Y[:3].copy())
def linear_systems(a, b):
    return (
        np.linalg.solve(a, b),
        np.linalg.inv(a),
        np.linalg.det(a),
        np.linalg.solve(a, a.T.copy() * 2),
    )


@case(S4)
def pivoting(a):
    return np.linalg.inv(a), np.linalg.det(a)


@case(P)
def matrices(a):
    return np.linalg.cholesky(a), np.trace(a), np.diag(a), np.tril(a), np.triu(a, 1), np.diag(a[0])


@case(X, Y)
def sorting(a, b):
    s = np.sort(a)
    return (
        s,
        np.median(a),
        np.median(a[1:]),
        np.searchsorted(s, 0.4),
        np.searchsorted(s, 0.5, side="right"),
    )


@case(X, Y)
def interpolation(a, b):
    xp = np.array([-1.0, 0.0, 0.35, 2.0])
    fp = np.sin(xp * b[0])
    return (
        np.interp(a, xp, fp),
        np.interp(a[0], xp, fp),
        np.convolve(a, b[:3]),
        np.cross(a[:3], b[:3]),
    )


@case(X, Y)
def element_by_element(a, b):
    t = np.clip(a, 0.0, 0.8) + np.square(b) + np.reciprocal(1 + a * a) + np.square(b[1])
    t += np.where(np.logical_and(a > 0, b > 0), a, b) + np.where(~(a > 0.55), a * 2, b)
    t += (
        np.arcsinh(a)
        + np.arctanh(b)
        + np.cbrt(b)
        + np.exp2(a)
        + np.logaddexp(a, b)
        + np.copysign(a, b)
        + np.degrees(a)
        + np.radians(b)
    )
    for i in range(len(a)):
        t[i] += (
            math.asinh(a[i])
            + math.acosh(2 + a[i])
            + math.erfc(b[i])
            + math.copysign(a[i], b[i])
            + round(a[i] * 2.9)
            + np.trunc(a[i])
            + np.rint(b[i] * 2.9)
            + math.radians(a[i])
            + np.cbrt(a[i])
        )
    return t


@case(X, np.array([3, 1, 3]), w=(0,))
def places_that_are_data(a, idx):
    b = a[idx] * 2
    a[idx] = b[::-1]
    a[idx] += 1.0
    a[idx[1:]] = 0.25 * a[0]
    return b


@case(0.5)
def equally_spaced(x):
    return np.linspace(x, 2.0, 5), np.linspace(0.0, x, 1), np.linspace(x, x * x, 2)


@case(X)
def reductions(a):
    m = a.reshape(2, 3)
    return (
        m.sum(axis=0),
        m.max(),
        a.argmin(),
        np.count_nonzero(a > 0.4) * a[0],
        m.sum(axis=1),
        a.prod(),
    )


@case(X, np.array([3, 1, 3]))
def selected_by_data(a, idx):
    weights = (0.5, 1.5, 2.5)
    table = ((1.0, a[0]), (2.0, a[1]))
    total = 0.0
    for k in range(3):
        total += weights[k] * a[idx[k]]
        total += table[k % 2][1] * table[(k + 1) % 2][0]
    b = a.copy()
    b.fill(a[2])
    big = np.nonzero(a > 0.4)[0]
    return total * idx.max() + a[big].sum() - a[np.where(a < 0.25)[0]].sum(), b * idx.min()


PLACES = np.array([2, 0])


@case(M)
def cumulative_along_axes(m):
    both = np.cumsum(m, axis=0) * np.cumsum(m, 1)
    return both, np.cumsum(m) * np.cumprod(m), np.roll(m, 2) * m


@case(X, M)
def differences_of_differences(a, m):
    return np.diff(a, 2) * np.ediff1d(a)[1:], np.diff(m, 2), np.diff(a, 0)


@case(M)
def places_of_extremes(m):
    k = np.argmax(m)
    rows, columns = m.argmin(axis=0), np.argmax(m, axis=1)
    return m[k // 3, k % 3] ** 2 + m[rows[1], 1] * m[0, columns[0]] + m.flat[np.argmin(m)]


@case(X, Y)
def joined_and_correlated(a, b):
    longer = np.append(np.append(a, b), a[0] * b[1])
    return np.correlate(longer, b) * np.average(a, None, b + 2.0), np.correlate(b[:2], a)


@case(X, 0.3)
def quantiles(a, q):
    both = np.quantile(a, np.array([0.0, 0.7])) * np.percentile(a, 40)
    return both, np.quantile(a * a, q) + np.percentile(a, np.array([55.0]))[0]


@case(np.array([0.3, np.nan, -0.7, np.inf]))
def without_nan(a):
    finite = np.nan_to_num(a[:3])
    known = np.nansum(a[:3]) * np.nanmean(a[:3]) + np.nanmin(a) * np.nanmax(a[:3])
    return finite * known, np.fmin(a[:3], 0.1) + np.fmax(0.2, a[:3])


@case(S)
def sign_and_logarithm_of_a_determinant(a):
    sign, logarithm = np.linalg.slogdet(a)
    return sign * logarithm + np.linalg.slogdet(-a)[0]


@case(S, X)
def norms(a, x):
    of_matrices = np.linalg.norm(a, 1) * np.linalg.norm(a, np.inf) + np.linalg.norm(a, -1)
    of_vectors = np.linalg.norm(x, 1) * np.linalg.norm(x, np.inf) + np.linalg.norm(x, -np.inf)
    return of_matrices + of_vectors


@case(X, M)
def other_views(a, m):
    turned = np.rot90(m) * np.swapaxes(m, 0, 1)
    rows = np.atleast_2d(a) * np.broadcast_to(a, (2, 6))
    return turned, rows, np.vander(a, 3) * np.vander(a)[:, :3]


@case(X, Y)
def results_that_are_given(a, b):
    out = np.empty(6)
    sine = np.sin(a, out)
    np.multiply(out, b, out)
    return out * sine, np.clip(a, None, 0.4) + np.clip(b, 0.15, None), np.sinc(a - a[0])


@case(X, 3, w=(0,))
def put_in_order(a, k):
    a[1:].sort()
    a[:k][::-1].sort()
    return sum(sorted(a)[2:]) * max(a) - min(a)


@case(X, M, np.array([3, 0, 5, 1, 2, 4]), w=(0, 1))
def in_another_order(a, m, places):
    a[:] = a[places] * 1.7 + a
    m[:] = m[places[1:5] % 4]
    a += a[np.argsort(a)]
    m[1] = m[1, places[:3] % 3]


@case(M, PLACES, w=(0,))
def put_at_places(m, places):
    m[:, places] = m[:, :2] * 2.0
    m[places] += m[2:]
    m[places, 1] = m[1, :2]
    m[0, places] = 3.0 * m[1, places]
    m[:, places] *= m[0, :2]
    m[places, :] = m[3]


@case(X, 0.3)
def numbers_between(a, step):
    k = 2 if a[0] > 0 else 1
    total = np.arange(a[0], a[0] + 1.0, step).sum()
    total += (a[:3] * np.arange(0, 6, k)).sum()
    return total, a[:4] * np.arange(4.0)


@case(X, 3, -2)
def steps_of_slices(a, k, back):
    out = np.zeros(6)
    out[1::k] += a[1::k]
    out[::back] *= 2.0
    out[4:0:back] -= a[4:0:back] ** 2
    return out, a[::k] * a[-1:-6:-k], a[k::-back]


@case(X)
def remainders(a):
    q, r = divmod(a[3] * 7.0, 0.4)
    n, m = divmod(17, 5)
    bits = 5 & ~1
    total = q * r + a[n] * a[m] + round(a[0] * 7.0, 1) + math.ldexp(a[1], bits)
    for i in range(6):
        if i not in (0, 3):
            total += a[i] * i
    return total, np.round(a * 3.0, 1) * a


@pytest.mark.thorough(but="^arrays_of_numbers$")
@pytest.mark.parametrize("name", CASES)
def test_functions_of_numpy(name):
    check(*CASES[name])


@pytest.mark.thorough
def test_the_extreme_is_nan_where_there_is_one():
    def extremes(a):
        return np.max(a), a.min(), np.argmax(a), a.argmin()

    found = ng.differentiable(extremes)(np.array([1.0, np.nan, 3.0]))
    assert [float(x) for x in found[2:]] == [1, 1]
    assert all(np.isnan(float(x)) for x in found[:2])


def written_through_a_reshape(a):
    m = a.reshape(2, 3)
    m[0, 0] = 5.0
    return a.sum()


def written_after_a_ravel(m):
    a = m.ravel()
    m[0, 0] = 7.0
    return a[0] * m[0, 1]


@pytest.mark.parametrize(
    ("function", "argument"), [(written_through_a_reshape, X), (written_after_a_ravel, M)]
)
def test_writing_to_an_array_of_which_another_shape_is_used_is_refused(function, argument):
    with pytest.raises(KernelError, match="second name or shape") as raised:
        ng.differentiable(function)(argument)
    assert "custom_op" in str(raised.value)


def masked_by_another_length(a, b):
    a[b > 0] = 1.0
    return a[b > 0].sum()


def singular(a):
    return np.linalg.solve(a, np.ones(2))


def wrong_reshape(a):
    return a.reshape(4, 2).sum()


def wrong_join(a, b):
    return np.concatenate((a, b), axis=0)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("function", "arguments", "error", "what"),
    [
        (masked_by_another_length, (X, Y[:3]), IndexError, "not as long"),
        pytest.param(  # Numba compiles `np.linalg.solve` for seconds
            *(singular, (np.ones((2, 2)),), np.linalg.LinAlgError, "singular"),
            marks=pytest.mark.thorough(rare=True),
        ),
        (wrong_reshape, (X,), ValueError, "another number of elements, in `return a.reshape"),
        (
            wrong_join,
            (np.ones((2, 3)), np.ones((2, 4))),
            ValueError,
            "do not fit in np.concatenate, in `return",
        ),
    ],
)
def test_errors_of_numpy_are_raised(function, arguments, error, what):
    with pytest.raises(error, match=what):
        results = ng.differentiable(function)(*arguments)
        np.asarray(results[0] if isinstance(results, tuple) else results)


def of_singles(a):
    return np.cumsum(a), np.cross(a[:3], a[3:]), np.diff(a)


@pytest.mark.thorough
def test_results_have_the_dtype_of_what_they_are_made_of():
    single = X.astype(np.float32)
    for found, expected in zip(ng.differentiable(of_singles)(single), of_singles(single)):  # noqa: B905
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5)


def of_gamma(x):
    return math.lgamma(x) * math.gamma(x)


def test_higher_derivatives_of_gamma():
    first = ng.grad(ng.differentiable(of_gamma))
    third = ng.grad(ng.grad(first))(1.3).item()
    step = 1e-3
    second = [ng.grad(first)(1.3 + k * step).item() for k in (-2, -1, 1, 2)]
    expected = (second[0] - 8 * second[1] + 8 * second[2] - second[3]) / (12 * step)
    assert third == pytest.approx(expected, rel=1e-8)
