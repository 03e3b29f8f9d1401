"""Tables filled by recurrences, running values, interpolation."""

import math

import numpy as np
from numba import njit

from tests.numba_functions.programs.record import program


@program(lambda rng, n: (rng.random((n, n)),), writes="path")
@njit
def floyd_warshall(path):
    for k in range(path.shape[0]):
        for i in range(path.shape[0]):
            for j in range(path.shape[0]):
                path[i, j] = min(path[i, j], path[i, k] + path[k, j])


@program(lambda rng, n: (rng.random((n, n)),), writes="path")
@njit
def floyd_warshall_slices(path):
    for k in range(path.shape[0]):
        for i in range(path.shape[0]):
            path[i, :] = np.minimum(path[i, :], path[i, k] + path[k, :])


@program(lambda rng, n: (rng.random((n, n)),), large=60)
@njit
def nussinov(score):
    """The best nesting of pairs, scores of which are real numbers."""
    n = score.shape[0]
    table = np.zeros((n, n))
    for i in range(n - 1, -1, -1):
        for j in range(i + 1, n):
            table[i, j] = max(table[i, j], table[i, j - 1])
            if i + 1 < n:
                table[i, j] = max(table[i, j], table[i + 1, j])
                if i < j - 1:
                    table[i, j] = max(table[i, j], table[i + 1, j - 1] + score[i, j])
                else:
                    table[i, j] = max(table[i, j], table[i + 1, j - 1])
            for k in range(i + 1, j):
                table[i, j] = max(table[i, j], table[i, k] + table[k + 1, j])
    return table[0, n - 1]


@program(lambda rng, n: (rng.random(n), rng.random(n + 1), 0.4))
@njit
def edit_distance(a, b, gap):
    n, m = len(a), len(b)
    before = np.empty(m + 1)
    for j in range(m + 1):
        before[j] = j * gap
    for i in range(1, n + 1):
        row = np.empty(m + 1)
        row[0] = i * gap
        for j in range(1, m + 1):
            cost = before[j - 1] + abs(a[i - 1] - b[j - 1])
            if before[j] + gap < cost:
                cost = before[j] + gap
            if row[j - 1] + gap < cost:
                cost = row[j - 1] + gap
            row[j] = cost
        before = row
    return before[m]


@njit
def soft_minimum(a, b, c, gamma):
    low = min(a, min(b, c))
    total = math.exp((low - a) / gamma) + math.exp((low - b) / gamma) + math.exp((low - c) / gamma)
    return low - gamma * math.log(total)


@program(lambda rng, n: (rng.random(n), rng.random(n + 1), 0.3))
@njit
def soft_time_warping(x, y, gamma):
    n, m = x.shape[0], y.shape[0]
    R = np.full((n + 1, m + 1), 1e10)
    R[0, 0] = 0.0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            d = (x[i - 1] - y[j - 1]) ** 2
            R[i, j] = d + soft_minimum(R[i - 1, j], R[i, j - 1], R[i - 1, j - 1], gamma)
    return R[n, m]


@program(
    lambda rng, n: (rng.random(3), rng.random((3, 3)), rng.random((3, 4)), rng.integers(0, 4, n)),
    small=6,
    large=1000,
)
@njit
def hidden_markov(start, transition, emission, observed):
    """The forward algorithm, with scaling."""
    states = start.shape[0]
    alpha = start * emission[:, observed[0]]
    new = np.zeros(states)
    log_likelihood = 0.0
    for t in range(1, observed.shape[0]):
        for s in range(states):
            new[s] = 0.0
            for r in range(states):
                new[s] += alpha[r] * transition[r, s]
            new[s] *= emission[s, observed[t]]
        scale = new.sum()
        log_likelihood += np.log(scale)
        alpha[:] = new / scale
    return log_likelihood


@program(lambda rng, n: (rng.random((4, n)), rng.random((4, 4))), small=6, large=1000)
@njit
def viterbi(scores, moves):
    best = scores[:, 0].copy()
    for t in range(1, scores.shape[1]):
        new = np.empty(4)
        for s in range(4):
            top = best[0] + moves[0, s]
            for r in range(1, 4):
                if best[r] + moves[r, s] > top:
                    top = best[r] + moves[r, s]
            new[s] = top + scores[s, t]
        best = new
    return best.max()


@program(lambda rng, n: (rng.normal(size=n),), small=8, large=10_000)
@njit
def largest_segment(x):
    """The largest sum of neighbours."""
    best = current = x[0]
    for i in range(1, x.shape[0]):
        current = max(current + x[i], x[i])
        best = max(best, current)
    return best


@program(lambda rng, n: (rng.random(n),), small=8, large=10_000)
@njit
def running_maximum(x):
    out = np.zeros(len(x))
    top = -np.inf
    for i in range(len(x)):
        if x[i] > top:
            top = x[i]
        out[i] = top
    return out


@program(
    lambda rng, n: (
        np.sort(rng.random(n)) + 0.1 * np.arange(n),
        rng.random(n),
        rng.uniform(-0.1, 0.1 * n, n),
    ),
    small=6,
    large=1000,
)
@njit
def interpolate(xs, ys, points):
    out = np.empty(points.shape[0])
    for k in range(points.shape[0]):
        x = points[k]
        if x <= xs[0]:
            out[k] = ys[0]
            continue
        if x >= xs[-1]:
            out[k] = ys[-1]
            continue
        low, high = 0, len(xs) - 1
        while high - low > 1:
            middle = (low + high) // 2
            if xs[middle] <= x:
                low = middle
            else:
                high = middle
        t = (x - xs[low]) / (xs[high] - xs[low])
        out[k] = (1 - t) * ys[low] + t * ys[high]
    return out


@program(lambda rng, n: (rng.random((n, n)), (n - 1) * rng.random((6, 2))), small=5, large=60)
@njit
def bilinear(image, where):
    out = np.zeros(where.shape[0])
    for k in range(where.shape[0]):
        y, x = where[k]
        i, j = int(y), int(x)
        a, b = y - i, x - j
        out[k] = (
            (1 - a) * (1 - b) * image[i, j]
            + (1 - a) * b * image[i, j + 1]
            + a * (1 - b) * image[i + 1, j]
            + a * b * image[i + 1, j + 1]
        )
    return out


@program(lambda rng, n: (np.cumsum(0.1 + rng.random(n)), rng.random(n)), small=7, large=1000)
@njit
def natural_spline(x, y):
    """Second derivatives at the knots, in one sweep each way."""
    n = x.shape[0]
    y2 = np.zeros(n)
    u = np.zeros(n)
    for i in range(1, n - 1):
        sig = (x[i] - x[i - 1]) / (x[i + 1] - x[i - 1])
        p = sig * y2[i - 1] + 2.0
        y2[i] = (sig - 1.0) / p
        u[i] = (y[i + 1] - y[i]) / (x[i + 1] - x[i]) - (y[i] - y[i - 1]) / (x[i] - x[i - 1])
        u[i] = (6.0 * u[i] / (x[i + 1] - x[i - 1]) - sig * u[i - 1]) / p
    y2[n - 1] = 0.0
    for k in range(n - 2, -1, -1):
        y2[k] = y2[k] * y2[k + 1] + u[k]
    return y2


@program(lambda rng, n: (rng.random(n), 0.3, 0.1), small=8, large=10_000)
@njit
def holt_smoothing(y, alpha, beta):
    level, trend = y[0], y[1] - y[0]
    error = 0.0
    for t in range(1, len(y)):
        forecast = level + trend
        error += (y[t] - forecast) ** 2
        last = level
        level = alpha * y[t] + (1 - alpha) * forecast
        trend = beta * (level - last) + (1 - beta) * trend
    return error / (len(y) - 1)


@program(lambda rng, n: (rng.normal(size=n), 0.1, 0.1, 0.8), small=8, large=10_000)
@njit
def garch_likelihood(returns, omega, alpha, beta):
    variance = omega / (1 - alpha - beta)
    total = 0.0
    for r in returns:
        total += math.log(variance) + r**2 / variance
        variance = omega + alpha * r**2 + beta * variance
    return 0.5 * total


@program(
    lambda rng, n: (rng.random(n), 0.1 + rng.random(), 0.2 + rng.random()), small=6, large=1000
)
@njit
def kalman_filter(y, q, r):
    x = np.zeros(2)
    P = np.eye(2)
    F = np.array([[1.0, 1.0], [0.0, 1.0]])
    likelihood = 0.0
    for t in range(y.shape[0]):
        x = F @ x
        P = F @ P @ F.T + q * np.eye(2)
        s = P[0, 0] + r
        residual = y[t] - x[0]
        gain = P[:, 0] / s
        x = x + gain * residual
        P = P - np.outer(gain, P[0])
        likelihood -= 0.5 * (np.log(s) + residual**2 / s)
    return likelihood


@program(lambda rng, n: (rng.random(n), 0.6), small=6, large=1000)
@njit
def horner(coefficients, x):
    value = 0.0
    slope = 0.0
    for c in coefficients[::-1]:
        slope = slope * x + value
        value = value * x + c
    return value, slope


@program(lambda rng, n: (rng.random(n), 3), small=7, large=500)
@njit
def insertion_sort(x, most):
    """Sorted, and the sum of the few smallest: what moves where depends on the values."""
    a = x.copy()
    for i in range(1, a.size):
        value = a[i]
        j = i - 1
        while j >= 0 and a[j] > value:
            a[j + 1] = a[j]
            j -= 1
        a[j + 1] = value
    total = 0.0
    for i in range(min(most, a.size)):
        total += a[i] * (i + 1)
    return a, total


@program(lambda rng, n: (rng.random(n),), writes="x", small=8, large=4096)
@njit
def prefix_sums(x):
    step = 1
    while step < x.size:
        for i in range(x.size - 1, step - 1, -1):
            x[i] += x[i - step]
        step *= 2
