"""What `for` goes through: places, elements, tuples, ranges with others."""

import numpy as np
import pytest

from tests.numba_functions.derivatives import check

pytestmark = pytest.mark.usefixtures("reference_engine")

X, Y = np.array([0.3, 1.5, -0.7, 0.9, 1.1]), np.array([0.2, 0.1, 1.4, 0.3, -0.6])
M = np.random.default_rng(0).uniform(0.2, 1, (4, 3))
T = np.random.default_rng(1).uniform(0.2, 1, (2, 3, 2))


def places(m, t):
    out = np.empty_like(m)
    for place in np.ndindex(m.shape):
        out[place] = np.sin(m[place]) * out[0, 0] if place[0] > 0 else m[place]
    total = np.zeros(t.shape[1:])
    for i, j, k in np.ndindex(t.shape):
        if i + j == 2:
            continue
        total[j, k] += t[i, j, k] ** 2
    return out, total


def places_up_to_one(m):
    total = 0.0
    for i, j in np.ndindex(m.shape[0], m.shape[1]):
        if i == 2 and j == 1:
            break
        total = 0.9 * total + m[i, j]
    for i, j in np.ndindex(m.shape):
        if m[i, j] > 0.9:
            return total * m[i, j] * j
    return total


def places_and_elements(m):
    out = m.copy()
    for (i, j), value in np.ndenumerate(m):
        out[i, j] = value * out[i - 1, j]
    for place, value in np.ndenumerate(out[0]):
        out[1, place[0]] += value
    for k, (i, j) in enumerate(np.ndindex(m.shape)):
        out[i, j] += k * m[j, i % 3]
    return out


def flat_elements(m):
    out = m.copy()
    total = 0.0
    for value in m.T.flat:
        total = 0.7 * total + value
    for i, (u, v) in enumerate(zip(m.flat, m.ravel())):  # noqa: B905
        total += i * u * v
    for i in range(m.size):
        out.flat[-1 - i] += m.flat[i] ** 2
    return out * total


def tuples_of_numbers(a):
    total = 0.0
    for w in (0.5, a[1], 2.0 * a[3]):
        total = 0.5 * total + w * w
    for i, j in ((0, 1), (2, -1)):
        total += a[i] * a[j]
    for w, v in zip([1.0, 2.0, 3.0], a):  # noqa: B905
        total += w * v * v
    return total


def tuples_of_arrays(a, b):
    u, v = a.copy(), b.copy()
    for w in (u, v):
        for i in range(1, 5):
            w[i] += w[i - 1] ** 2
    total = 0.0
    for k, w in enumerate((a, b, a)):
        if total > 2.0:
            break
        doubled = 2.0 * w
        doubled[0] = doubled[1] ** 2
        total += (doubled * w).sum() * k + w[0]
    for w, x, c in zip((a, b), (b, a), (2.0, 3.0)):  # noqa: B905
        total += c * w[1] * x[1] * w[2]
        if w[0] < w[1]:
            return u * v * total
    return u + v


def ranges_with_others(a, step):
    total = 0.0
    for k, i in enumerate(range(4, 0, -1), 1):
        total += a[i] * k
    for i, v in zip(range(4, -1, -step), a):  # noqa: B905
        total += a[i] * v * i
    for i, v in zip(range(0, 5, step), a):  # noqa: B905
        total += a[i] * v * i
    for k, _ in enumerate(range(3, 3, step)):
        total += k * a[0]
    return total


CASES = {
    places: (M, T),
    places_up_to_one: (M,),
    places_and_elements: (M,),
    flat_elements: (M,),
    tuples_of_numbers: (X,),
    tuples_of_arrays: (X, Y),
    ranges_with_others: (X, 2),
}


@pytest.mark.thorough(every=3)
@pytest.mark.parametrize("function", CASES)
def test_loops_over(function):
    check(function, CASES[function])
