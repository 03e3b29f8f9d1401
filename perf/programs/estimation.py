"""Likelihoods, filters and smoothers, as statisticians and econometricians write them."""

from typing import Any

import numpy

from perf.programs import program


def log_sum_exp(np: Any, x: Any, axis: int) -> Any:
    largest = np.max(x, axis=axis, keepdims=True)
    total = np.log(np.sum(np.exp(x - largest), axis=axis, keepdims=True)) + largest
    return np.squeeze(total, axis=axis)


@program(
    lambda random, n: [numpy.array([0.3, 0.5]), random.normal(size=(15, 2))],
    wrt=(0,),
)
def kalman_smoother(np: Any, noises: Any, observed: Any) -> Any:
    """Places and velocities in a plane, forwards (Kalman) and backwards (Rauch, Tung, Striebel)."""
    f = np.array(numpy.eye(4) + 0.1 * numpy.eye(4, k=2))
    h = np.array(numpy.eye(2, 4))
    q, r = noises[0] * np.eye(4), noises[1] * np.eye(2)
    mean, covariance = np.zeros(4), np.eye(4)
    means, covariances, predictions = [], [], []
    for k in range(observed.shape[0]):
        mean, covariance = f @ mean, f @ covariance @ f.T + q
        predictions.append((mean, covariance))
        gain = covariance @ h.T @ np.linalg.inv(h @ covariance @ h.T + r)
        mean = mean + gain @ (observed[k] - h @ mean)
        covariance = (np.eye(4) - gain @ h) @ covariance
        means.append(mean)
        covariances.append(covariance)
    smooth = [mean]
    for k in range(observed.shape[0] - 2, -1, -1):
        predicted, spread = predictions[k + 1]
        gain = covariances[k] @ f.T @ np.linalg.inv(spread)
        mean = means[k] + gain @ (mean - predicted)
        smooth.append(mean)
    states = np.stack(smooth[::-1])
    return np.sum((states[:, :2] - observed) ** 2) + 0.1 * np.sum(states[:, 2:] ** 2)


@program(
    lambda random, n: [
        numpy.array([0.9, 0.5, 0.3]),
        random.normal(size=20),
        random.normal(size=(20, 30)),
    ],
    wrt=(0,),
)
def particle_filter(np: Any, p: Any, observed: Any, noise: Any) -> Any:
    """Stochastic volatility, with weights that are carried on."""
    x, weights, total = p[1] * noise[0], np.zeros(30), 0.0
    for t in range(1, observed.shape[0]):
        x = p[0] * x + p[1] * noise[t]
        variance = np.exp(x) * p[2] ** 2
        weights = weights - 0.5 * np.log(variance) - 0.5 * observed[t] ** 2 / variance
        evidence = log_sum_exp(np, weights, 0)
        total = total + evidence
        weights = weights - evidence
    return total + np.sum(np.exp(weights) * x)


@program(
    lambda random, n: [
        random.normal(size=(4, 4)),
        random.normal(size=4),
        random.uniform(0.5, 1.5, size=4),
        random.normal(size=25),
    ]
)
def hidden_markov_model_in_logarithms(
    np: Any, transitions: Any, means: Any, spreads: Any, observed: Any
) -> Any:
    """Forwards, in logarithms."""
    moves = transitions - log_sum_exp(np, transitions, 1)[:, None]
    emissions = -0.5 * ((observed[:, None] - means) / spreads) ** 2 - np.log(spreads)
    alpha = emissions[0] - numpy.log(4.0)
    for t in range(1, observed.shape[0]):
        alpha = log_sum_exp(np, alpha[:, None] + moves, 0) + emissions[t]
    return log_sum_exp(np, alpha, 0)


LABELS = [0, 2, 1, 1, 3, 0, 2, 3, 1, 0, 2, 2, 3, 1, 0]


@program(lambda random, n: [random.normal(size=(len(LABELS), 4)), random.normal(size=(4, 4))])
def conditional_random_field(np: Any, scores: Any, moves: Any) -> Any:
    """What a labelling costs beside all labellings."""
    alpha, gold = scores[0], scores[0, LABELS[0]]
    for t in range(1, len(LABELS)):
        alpha = log_sum_exp(np, alpha[:, None] + moves, 0) + scores[t]
        gold = gold + moves[LABELS[t - 1], LABELS[t]] + scores[t, LABELS[t]]
    return log_sum_exp(np, alpha, 0) - gold


# Volatility of returns, GARCH(1, 1): variances appended to a list, or in an array.


def returns(random: numpy.random.Generator, n: int) -> list[numpy.ndarray]:
    return [numpy.array([0.05, 0.1, 0.1, 0.8]), random.normal(size=60)]


@program(returns, wrt=(0,))
def garch_appended(np: Any, p: Any, r: Any) -> Any:
    errors = r - p[0]
    variances = [np.var(r)]
    for t in range(1, r.shape[0]):
        variances.append(p[1] + p[2] * errors[t - 1] ** 2 + p[3] * variances[-1])
    h = np.stack(variances)
    return 0.5 * np.sum(np.log(2.0 * numpy.pi * h) + errors**2 / h)


@program(returns, wrt=(0,))
def garch_in_a_buffer(np: Any, p: Any, r: Any) -> Any:
    errors = r - p[0]
    h = np.zeros(r.shape[0])
    h[0] = np.var(r)
    for t in range(1, r.shape[0]):
        h[t] = p[1] + p[2] * errors[t - 1] ** 2 + p[3] * h[t - 1]
    return 0.5 * np.sum(np.log(2.0 * numpy.pi * h) + errors**2 / h)


@garch_in_a_buffer.written_for("jax")
def _(np: Any, p: Any, r: Any) -> Any:
    errors = r - p[0]
    h = np.zeros(r.shape[0]).at[0].set(np.var(r))
    for t in range(1, r.shape[0]):
        h = h.at[t].set(p[1] + p[2] * errors[t - 1] ** 2 + p[3] * h[t - 1])
    return 0.5 * np.sum(np.log(2.0 * numpy.pi * h) + errors**2 / h)


garch_in_a_buffer.left_out("autograd", "has no assignments")
garch_in_a_buffer.left_out("torch", "assignments change what a gradient reads")


@program(
    lambda random, n: [
        numpy.log([1.0, 0.8, 2.0, 0.5, 0.2]),
        numpy.sort(random.uniform(0.0, 6.0, size=20)),
        random.normal(size=20),
    ],
    wrt=(0,),
)
def gaussian_process_with_seasons(np: Any, logarithms: Any, x: Any, y: Any) -> Any:
    """A periodic kernel that fades, a trend, and noise."""
    size, length, period, trend, noise = np.exp(logarithms)
    distance = x[:, None] - x[None, :]
    seasons = np.exp(-2.0 * np.sin(numpy.pi * distance / period) ** 2 / length**2)
    fading = np.exp(-0.5 * distance**2 / 9.0)
    covariance = size**2 * seasons * fading + trend**2 * x[:, None] * x[None, :]
    lower = np.linalg.cholesky(covariance + noise * np.eye(x.shape[0]))
    white = np.linalg.solve(lower, y)
    return 0.5 * np.sum(white**2) + np.sum(np.log(np.diag(lower)))


@program(
    lambda random, n: [0.4 + 0.1 * random.normal(size=(n, n)), 0.2 * random.normal(size=(n, n))],
    size=8,
    steps=20,
)
def mean_field_of_spins(np: Any, coupling: Any, field: Any, steps: int) -> Any:
    """Magnetizations with Onsager's reaction, and the free energy."""
    m = np.tanh(field)
    for _ in range(steps):
        squares = coupling**2 * (1.0 - m**2)
        inner = coupling * (np.roll(m, 1, axis=0) + np.roll(m, -1, axis=1))
        reaction = m * (np.roll(squares, 1, axis=0) + np.roll(squares, -1, axis=1))
        m = 0.5 * m + 0.5 * np.tanh(field + inner - reaction)
    up, down = 0.5 * (1.0 + m), 0.5 * (1.0 - m)
    entropy = -np.sum(up * np.log(up) + down * np.log(down))
    return -np.sum(coupling * m * np.roll(m, 1, axis=0)) - np.sum(field * m) - entropy


@program(
    lambda random, n: [
        random.normal(size=(3, 2)),
        numpy.concatenate([random.normal(size=(15, 2)), random.normal(size=(15, 2)) + 3.0]),
    ],
    steps=5,
)
def expectation_maximization(np: Any, means: Any, x: Any, steps: int) -> Any:
    shares, spreads = np.ones(3) / 3.0, np.ones(3)
    for _ in range(steps):
        squares = np.sum((x[:, None, :] - means[None, :, :]) ** 2, axis=2)
        scores = np.log(shares) - np.log(spreads) - 0.5 * squares / spreads
        belongs = np.exp(scores - log_sum_exp(np, scores, 1)[:, None])
        counts = np.sum(belongs, axis=0)
        means = belongs.T @ x / counts[:, None]
        squares = np.sum((x[:, None, :] - means[None, :, :]) ** 2, axis=2)
        spreads = 0.5 * np.sum(belongs * squares, axis=0) / counts + 0.01
        shares = counts / x.shape[0]
    return np.sum(log_sum_exp(np, np.log(shares) - np.log(spreads) - 0.5 * squares / spreads, 1))
