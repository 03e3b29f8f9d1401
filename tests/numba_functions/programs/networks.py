"""Layers of networks, written out."""

import numpy as np
from numba import njit, prange

from tests.numba_functions.programs.record import program


@njit
def relu(x):
    return np.maximum(x, 0)


@njit
def conv2d(x, weights):
    """(N, H, W, C) and (K, K, C, F): valid."""
    K = weights.shape[0]
    N = x.shape[0]
    H = x.shape[1] - K + 1
    W = x.shape[2] - K + 1
    out = np.zeros((N, H, W, weights.shape[3]), dtype=x.dtype)
    for n in range(N):
        for i in range(H):
            for j in range(W):
                for f in range(weights.shape[3]):
                    acc = 0.0
                    for a in range(K):
                        for b in range(K):
                            for c in range(x.shape[3]):
                                acc += x[n, i + a, j + b, c] * weights[a, b, c, f]
                    out[n, i, j, f] = acc
    return out


@njit
def maxpool2d(x):
    out = np.empty((x.shape[0], x.shape[1] // 2, x.shape[2] // 2, x.shape[3]), dtype=x.dtype)
    for n in range(out.shape[0]):
        for i in range(out.shape[1]):
            for j in range(out.shape[2]):
                for c in range(x.shape[3]):
                    top = x[n, 2 * i, 2 * j, c]
                    for a in range(2):
                        for b in range(2):
                            top = max(top, x[n, 2 * i + a, 2 * j + b, c])
                    out[n, i, j, c] = top
    return out


@program(
    lambda rng, n: (rng.random((2, n, n, 1)), rng.normal(size=(3, 3, 1, 2)), rng.normal(size=2)),
    small=5,
    large=32,
)
@njit
def conv2d_bias(x, weights, bias):
    return conv2d(x, weights) + bias


@program(
    lambda rng, n: (
        rng.random((2, n, n, 1)),
        rng.normal(size=(3, 3, 1, 2)),
        rng.normal(size=2),
        rng.normal(size=(2 * ((n - 2) // 2) ** 2, 3)),
        rng.normal(size=3),
    ),
    small=6,
    large=28,
)
@njit
def small_lenet(x, conv1, bias1, dense, bias2):
    a = maxpool2d(relu(conv2d(x, conv1) + bias1))
    flat = np.reshape(a, (x.shape[0], a.shape[1] * a.shape[2] * a.shape[3]))
    return relu(flat @ dense + bias2)


@program(
    lambda rng, n: (
        rng.random((n, 3)),
        rng.normal(size=(3, 4)),
        rng.normal(size=4),
        rng.normal(size=(4, 2)),
        rng.normal(size=2),
    )
)
@njit
def mlp(x, w1, b1, w2, b2):
    hidden = np.tanh(x @ w1 + b1)
    scores = hidden @ w2 + b2
    out = np.empty_like(scores)
    for i in range(scores.shape[0]):
        top = np.max(scores[i])
        e = np.exp(scores[i] - top)
        out[i] = e / np.sum(e)
    return out


@program(lambda rng, n: (rng.normal(size=(n, 4)),), writes="x", large=300)
@njit
def softmax_in_place(x):
    for i in range(x.shape[0]):
        row = x[i]
        top = row[0]
        for j in range(1, row.shape[0]):
            if row[j] > top:
                top = row[j]
        total = 0.0
        for j in range(row.shape[0]):
            row[j] = np.exp(row[j] - top)
            total += row[j]
        for j in range(row.shape[0]):
            row[j] /= total


@program(lambda rng, n: (rng.normal(size=(n, 4)), rng.random(4), rng.random(4)), large=300)
@njit
def layer_norm(x, gain, shift):
    out = np.empty_like(x)
    for i in range(x.shape[0]):
        mean = 0.0
        for v in x[i]:
            mean += v
        mean /= x.shape[1]
        var = 0.0
        for v in x[i]:
            var += (v - mean) ** 2
        scale = 1.0 / np.sqrt(var / x.shape[1] + 1e-5)
        for j in range(x.shape[1]):
            out[i, j] = (x[i, j] - mean) * scale * gain[j] + shift[j]
    return out


@program(
    lambda rng, n: (
        rng.normal(size=(n, 2)),
        rng.normal(size=(2, 12)),
        rng.normal(size=(3, 12)),
        rng.normal(size=12),
    ),
    large=60,
)
@njit
def lstm(x, wx, wh, b):
    size = wh.shape[0]
    h = np.zeros(size)
    c = np.zeros(size)
    for t in range(x.shape[0]):
        gates = x[t] @ wx + h @ wh + b
        i = 1 / (1 + np.exp(-gates[:size]))
        f = 1 / (1 + np.exp(-gates[size : 2 * size]))
        o = 1 / (1 + np.exp(-gates[2 * size : 3 * size]))
        g = np.tanh(gates[3 * size :])
        c = f * c + i * g
        h = o * np.tanh(c)
    return h


@program(lambda rng, n: tuple(rng.normal(size=(n, 3)) for _ in range(3)), large=60)
@njit
def attention(q, k, v):
    scores = q @ k.T / np.sqrt(q.shape[1])
    out = np.zeros((q.shape[0], v.shape[1]))
    for i in range(q.shape[0]):
        w = np.exp(scores[i] - scores[i].max())
        w /= w.sum()
        for j in range(k.shape[0]):
            out[i] += w[j] * v[j]
    return out


@program(
    lambda rng, n: (rng.normal(size=(n, 3)), rng.normal(size=3), rng.integers(0, 2, n) * 2.0 - 1.0),
    small=6,
    large=1000,
)
@njit
def logistic_loss(x, w, y):
    loss = 0.0
    for i in range(x.shape[0]):
        margin = 0.0
        for k in range(w.size):
            margin += x[i, k] * w[k]
        margin *= y[i]
        loss += np.log1p(np.exp(-margin)) if margin > 0 else np.log1p(np.exp(margin)) - margin
    return loss / x.shape[0]


@program(lambda rng, n: (rng.random(n), rng.random(n), rng.random(n)), small=6, large=10_000)
@njit(parallel=True)
def black_scholes_like(s, k, t):
    out = np.empty(s.shape[0])
    for i in prange(s.shape[0]):
        d = (np.log((s[i] + 0.5) / (k[i] + 0.5)) + 0.5 * t[i]) / np.sqrt(t[i] + 0.1)
        out[i] = s[i] / (1 + np.exp(-1.7 * d)) - k[i] / (1 + np.exp(-1.7 * (d - t[i])))
    return out


@program(
    lambda rng, n: (rng.normal(size=(n, 3)), rng.normal(size=(4, 3)), rng.random(4)), large=300
)
@njit(parallel=True)
def mixture_likelihood(x, means, weights):
    """A sum over rows in parallel."""
    total = 0.0
    for i in prange(x.shape[0]):
        terms = np.zeros(means.shape[0])
        for k in range(means.shape[0]):
            d = 0.0
            for j in range(x.shape[1]):
                d += (x[i, j] - means[k, j]) ** 2
            terms[k] = np.log(weights[k]) - 0.5 * d
        top = terms.max()
        total += top + np.log(np.sum(np.exp(terms - top)))
    return total


@program(lambda rng, n: (rng.normal(size=n), np.array([0.5, -0.2, 0.1])), small=8, large=10_000)
@njit
def convolve_valid(x, kernel):
    n, m = x.size, kernel.size
    out = np.zeros(n - m + 1)
    for i in range(n - m + 1):
        out[i] = np.sum(x[i : i + m] * kernel[::-1])
    return out


@program(lambda rng, n: (rng.normal(size=(n, n)),), large=200)
@njit
def average_pool(x):
    h, w = x.shape[0] // 2, x.shape[1] // 2
    out = np.zeros((h, w))
    for i in range(h):
        for j in range(w):
            out[i, j] = np.mean(x[2 * i : 2 * i + 2, 2 * j : 2 * j + 2])
    return out
