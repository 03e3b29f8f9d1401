"""Networks written by hand."""

from typing import Any

import numpy

from perf.programs import program
from perf.programs.estimation import log_sum_exp


def filters(random: numpy.random.Generator, before: int, after: int) -> numpy.ndarray:
    return random.normal(size=(3, 3, before, after)) / (3.0 * before**0.5)


@program(
    lambda random, n: [
        random.normal(size=(8, 8, 1)),
        filters(random, 1, 3),
        filters(random, 3, 6),
        filters(random, 9, 3),
        random.normal(size=(3, 1)),
        random.normal(size=(8, 8)),
    ],
    wrt=(1, 2, 3, 4),
)
def small_u_net(np: Any, x: Any, w1: Any, w2: Any, w3: Any, w4: Any, wanted: Any) -> Any:
    def convolved(x: Any, w: Any) -> Any:
        rows, columns, _ = x.shape
        wide = np.pad(x, ((1, 1), (1, 1), (0, 0)), "constant")
        total = 0.0
        for i in range(3):
            for j in range(3):
                total = total + wide[i : i + rows, j : j + columns] @ w[i, j]
        return total

    def pooled(x: Any) -> Any:
        pairs = np.reshape(x, (x.shape[0] // 2, 2, x.shape[1] // 2, 2, x.shape[2]))
        return np.max(np.max(pairs, axis=3), axis=1)

    def enlarged(x: Any) -> Any:
        return np.repeat(np.repeat(x, 2, axis=0), 2, axis=1)

    first = np.maximum(convolved(x, w1), 0.0)
    below = np.maximum(convolved(pooled(first), w2), 0.0)
    joined = np.concatenate([first, enlarged(below)], axis=2)
    out = np.maximum(convolved(joined, w3), 0.0) @ w4
    return np.mean((out[:, :, 0] - wanted) ** 2)


@program(
    lambda random, n: [
        random.normal(size=(6, 8)),
        random.normal(size=(8, 24)) / 3.0,
        random.normal(size=(8, 8)) / 3.0,
        random.normal(size=(8, 32)) / 3.0,
        random.normal(size=(32, 8)) / 6.0,
        numpy.ones((2, 8)),
    ]
)
def transformer_block(np: Any, x: Any, w: Any, out: Any, up: Any, down: Any, scales: Any) -> Any:
    """Two heads, causal; norms before, residuals around."""

    def normalized(x: Any, scale: Any) -> Any:
        centered = x - np.mean(x, axis=1, keepdims=True)
        return scale * centered / np.sqrt(np.mean(centered**2, axis=1, keepdims=True) + 1e-5)

    n, width = x.shape
    heads = np.reshape(normalized(x, scales[0]) @ w, (n, 3, 2, width // 2))
    q, k, v = (np.transpose(heads[:, i], (1, 0, 2)) for i in range(3))
    scores = q @ np.transpose(k, (0, 2, 1)) / (width // 2) ** 0.5
    scores = scores + np.array(numpy.triu(numpy.full((n, n), -1e9), k=1))
    weights = np.exp(scores - np.max(scores, axis=2, keepdims=True))
    weights = weights / np.sum(weights, axis=2, keepdims=True)
    mixed = np.reshape(np.transpose(weights @ v, (1, 0, 2)), (n, width))
    x = x + mixed @ out
    hidden = normalized(x, scales[1]) @ up
    inner = 0.7978845608 * (hidden + 0.044715 * hidden**3)
    x = x + 0.5 * hidden * (1.0 + np.tanh(inner)) @ down
    return np.mean((x[1:] - x[:-1]) ** 2)


@program(
    lambda random, n: [
        random.normal(size=(12, 16)) / 4.0,
        random.normal(size=(16, 6)) / 4.0,
        random.normal(size=(3, 16)) / 2.0,
        random.normal(size=(16, 12)) / 4.0,
        1.0 * (random.uniform(size=(10, 12)) < 0.4),
        random.normal(size=(10, 3)),
    ],
    wrt=(0, 1, 2, 3),
)
def autoencoder(np: Any, w1: Any, w2: Any, v1: Any, v2: Any, x: Any, noise: Any) -> Any:
    """Variational: the evidence's lower bound."""
    hidden = np.tanh(x @ w1)
    parameters = hidden @ w2
    mean, logarithm = parameters[:, :3], parameters[:, 3:]
    z = mean + np.exp(0.5 * logarithm) * noise
    logits = np.maximum(z @ v1, 0.0) @ v2
    likelihood = x * logits - np.log(1.0 + np.exp(-np.abs(logits))) - np.maximum(logits, 0.0)
    divergence = 0.5 * np.sum(mean**2 + np.exp(logarithm) - 1.0 - logarithm)
    return (divergence - np.sum(likelihood)) / x.shape[0]


@program(
    lambda random, n: [
        random.normal(size=(12, 4)),
        0.3 * random.normal(size=(4, 2, 8)),
        0.3 * random.normal(size=(4, 8, 4)),
    ],
    wrt=(1, 2),
)
def coupling_flow(np: Any, x: Any, w: Any, v: Any) -> Any:
    """Half of the coordinates scale and move the other half, in turn."""
    logarithm = 0.0
    for layer in range(4):
        kept, changed = x[:, :2], x[:, 2:]
        out = np.tanh(kept @ w[layer]) @ v[layer]
        scale, shift = np.tanh(out[:, :2]), out[:, 2:]
        changed = changed * np.exp(scale) + shift
        logarithm = logarithm + np.sum(scale, axis=1)
        x = np.concatenate([changed, kept], axis=1)
    return np.mean(0.5 * np.sum(x**2, axis=1) - logarithm)


@program(
    lambda random, n: [
        random.normal(size=(2, 12)) / 2.0,
        random.normal(size=12) / 2.0,
        random.normal(size=(12, 2)) / 4.0,
        random.normal(size=(15, 8, 2)),
    ],
    wrt=(0, 1, 2),
)
def neural_differential_equation(np: Any, w: Any, b: Any, v: Any, data: Any) -> Any:
    """Runge-Kutta through a network, for several curves; misfit along them."""

    def slope(y: Any) -> Any:
        return np.tanh(y**3 @ w + b) @ v

    y, h, total = data[0], 0.1, 0.0
    for k in range(1, data.shape[0]):
        k1 = slope(y)
        k2 = slope(y + 0.5 * h * k1)
        k3 = slope(y + 0.5 * h * k2)
        k4 = slope(y + h * k3)
        y = y + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
        total = total + np.mean(np.abs(y - data[k]))
    return total


SENDERS = numpy.array([0, 1, 2, 3, 4, 5, 6, 7, 0, 2, 4, 6, 1, 5])
RECEIVERS = numpy.array([1, 2, 3, 4, 5, 6, 7, 0, 4, 6, 0, 2, 5, 1])


@program(
    lambda random, n: [
        random.normal(size=(8, 5)),
        random.normal(size=(10, 5)) / 3.0,
        random.normal(size=(10, 5)) / 3.0,
    ],
    wrt=(1, 2),
)
def graph_network(np: Any, nodes: Any, message: Any, update: Any) -> Any:
    """Three rounds of messages, weighted by attention among those that come in."""
    arrives = np.array(numpy.eye(8)[RECEIVERS])
    for _ in range(3):
        pairs = np.concatenate([nodes[SENDERS], nodes[RECEIVERS]], axis=1)
        messages = np.maximum(pairs @ message, 0.0)
        scores = np.exp(np.tanh(np.sum(messages, axis=1)))
        share = scores / (arrives @ (arrives.T @ scores))
        incoming = arrives.T @ (share[:, None] * messages)
        nodes = np.tanh(np.concatenate([nodes, incoming], axis=1) @ update)
    pooled = log_sum_exp(np, nodes, 0)
    return np.sum(pooled**2)


@program(
    lambda random, n: [0.1 * random.normal(size=20), numpy.array([0.0, 0.0, 0.3, 0.0])], wrt=(0,)
)
def cart_and_pole_rollout(np: Any, pushes: Any, start: Any) -> Any:
    """What a plan of pushes costs."""
    place, speed, angle, turn = start
    total = 0.0
    for k in range(pushes.shape[0]):
        s, c = np.sin(angle), np.cos(angle)
        push = 10.0 * np.tanh(pushes[k])
        inner = (push + 0.05 * turn**2 * s) / 1.1
        turning = (9.8 * s - c * inner) / (0.5 * (4.0 / 3.0 - 0.1 * c**2 / 1.1))
        moving = inner - 0.05 * turning * c / 1.1
        place, speed = place + 0.02 * speed, speed + 0.02 * moving
        angle, turn = angle + 0.02 * turn, turn + 0.02 * turning
        total = total + place**2 + 10.0 * (1.0 - np.cos(angle)) + 0.001 * push**2
    return total + 10.0 * (speed**2 + turn**2)
