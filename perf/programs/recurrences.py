"""Recurrent networks, filters, and other recurrences over time."""

from typing import Any

from perf.programs import program


@program(
    lambda random, n: [random.normal(size=n), random.uniform(0.5, 1.5, size=2)],
)
def kalman_filter(np: Any, observed: Any, noises: Any) -> Any:
    f = np.array([[1.0, 0.1], [0.0, 1.0]])
    h = np.array([[1.0, 0.0]])
    mean, covariance = np.zeros(2), np.eye(2)
    total = 0.0
    for k in range(observed.shape[0]):
        mean = f @ mean
        covariance = f @ covariance @ f.T + noises[0] * np.eye(2)
        s = h @ covariance @ h.T + noises[1] * np.eye(1)
        gain = covariance @ h.T @ np.linalg.inv(s)
        difference = observed[k] - h @ mean
        mean = mean + gain @ difference
        covariance = covariance - gain @ h @ covariance
        total = total + 0.5 * (np.log(s[0, 0]) + difference[0] ** 2 / s[0, 0])
    return total


@program(
    lambda random, n: [random.normal(size=shape) for shape in ((1000, 3), (3, n), (n, n), n)],
    steps=(10, 100),
    wrt=(1, 2, 3),
)
def rnn_with_outputs_stacked(np: Any, x: Any, w: Any, r: Any, b: Any, steps: int) -> Any:
    h, outputs = np.zeros(b.shape[0]), []
    for k in range(steps):
        h = np.tanh(x[k] @ w + 0.3 * (h @ r) + b)
        outputs.append(h)
    return np.sum(np.stack(outputs) ** 2)


@program(
    lambda random, n: [
        random.normal(size=shape) for shape in ((1000, 2, 3), (3, 4 * n), (n, 4 * n), 4 * n)
    ],
    steps=(10, 100),
    size=4,
    wrt=(1, 2, 3),
)
def lstm_with_lists(np: Any, xs: Any, w: Any, r: Any, b: Any, steps: int) -> Any:
    def sigmoid(z: Any) -> Any:
        return 0.5 * (np.tanh(0.5 * z) + 1.0)

    n = r.shape[0]
    h, c = [np.zeros((2, n))], [np.zeros((2, n))]
    for k in range(steps):
        z = xs[k] @ w + h[-1] @ r + b
        forget, enter, leave = (
            sigmoid(z[:, :n]),
            sigmoid(z[:, n : 2 * n]),
            sigmoid(z[:, 2 * n : 3 * n]),
        )
        c.append(forget * c[-1] + enter * np.tanh(z[:, 3 * n :]))
        h.append(leave * np.tanh(c[-1]))
    return np.mean(np.array(h[1:]) ** 2)


@program(
    lambda random, n: [random.normal(size=(4, 4)), random.normal(size=(4, 3))],
    numbers={"symbols": [0, 2, 1, 1, 0, 2, 2, 1, 0, 1, 2, 0]},
)
def hidden_markov_model(np: Any, transitions: Any, emissions: Any, symbols: Any) -> Any:
    def normalized(x: Any) -> Any:
        return x - np.log(np.sum(np.exp(x), axis=1, keepdims=True))

    a, b = normalized(transitions), normalized(emissions)
    alpha = b[:, symbols[0]]
    for symbol in symbols[1:]:
        scores = alpha[:, None] + a
        top = np.max(scores, axis=0)
        alpha = top + np.log(np.sum(np.exp(scores - top), axis=0)) + b[:, symbol]
    return -np.log(np.sum(np.exp(alpha)))


@program(
    lambda random, n: [random.normal(size=2), random.normal(size=1000)], steps=(20, 200), wrt=(0,)
)
def autoregression_in_a_buffer(np: Any, p: Any, noise: Any, steps: int) -> Any:
    y = np.zeros(steps)
    for k in range(2, steps):
        y[k] = np.tanh(p[0] * y[k - 1] + p[1] * y[k - 2]) + noise[k]
    return np.sum(y**2)


@autoregression_in_a_buffer.written_for("torch", "jax", "autograd")
def _(np: Any, p: Any, noise: Any, steps: int) -> Any:
    y = [0.0 * noise[0], 0.0 * noise[0]]
    for k in range(2, steps):
        y.append(np.tanh(p[0] * y[k - 1] + p[1] * y[k - 2]) + noise[k])
    return np.sum(np.stack(y) ** 2)


@program(
    lambda random, n: [random.uniform(0.5, 1.5, size=4), random.normal(size=(50, 2))],
    steps=(400, 1000),
    wrt=(0,),
)
def predators_observed_now_and_then(np: Any, p: Any, seen: Any, steps: int) -> Any:
    """Steps of Runge-Kutta, of which every twentieth is compared, and the last one."""

    def slope(u: Any, v: Any) -> Any:
        return p[0] * u - p[1] * u * v, p[2] * u * v - p[3] * v

    u, v, total, h = 1.0, 0.5, 0.0, 0.01
    for k in range(steps):
        a, b = slope(u, v)
        c, d = slope(u + h / 2 * a, v + h / 2 * b)
        e, f = slope(u + h / 2 * c, v + h / 2 * d)
        i, j = slope(u + h * e, v + h * f)
        u, v = u + h / 6 * (a + 2 * c + 2 * e + i), v + h / 6 * (b + 2 * d + 2 * f + j)
        if k % 20 == 19:
            total = total + (u - seen[k // 20, 0]) ** 2 + (v - seen[k // 20, 1]) ** 2
    return total + (u - 1.0) ** 2


@program(lambda random, n: [random.uniform(0.5, 1.5, size=3), random.normal(size=16)], steps=20)
def substeps_of_a_rod(np: Any, p: Any, u: Any, steps: int) -> Any:
    """Twenty-five short steps from one sum to the next."""
    total = 0.0
    for k in range(steps):
        for _ in range(25):
            u = u + 0.1 * p[0] * (np.roll(u, 1) - 2 * u + np.roll(u, -1))
            u = u + 0.01 * p[1] * (u - u**3) - 0.001 * np.tanh(u * p[2])
        total = total + np.sum((u - 0.1 * k) ** 2)
    return total


@program(
    lambda random, n: [random.uniform(0.1, 0.9, size=3), random.normal(size=3)], steps=(20, 200)
)
def states_in_columns(np: Any, p: Any, first: Any, steps: int) -> Any:
    x = np.zeros((3, steps))
    x[:, 0] = first
    for k in range(steps - 1):
        a, b, c = x[:, k]
        x[0, k + 1] = a + 0.01 * p[0] * (b - a)
        x[1, k + 1] = b + 0.01 * (a * (p[1] - c) - b)
        x[2, k + 1] = c + 0.01 * (a * b - p[2] * c)
    return np.sum(x**2)


@states_in_columns.written_for("torch", "jax", "autograd")
def _(np: Any, p: Any, first: Any, steps: int) -> Any:
    a, b, c = first[0], first[1], first[2]
    total = a**2 + b**2 + c**2
    for _ in range(steps - 1):
        a, b, c = (
            a + 0.01 * p[0] * (b - a),
            b + 0.01 * (a * (p[1] - c) - b),
            c + 0.01 * (a * b - p[2] * c),
        )
        total = total + a**2 + b**2 + c**2
    return total


@program(
    lambda random, n: [random.uniform(0.5, 1.5, size=4), random.uniform(0.5, 1.5, size=2)],
    steps=(20, 200),
)
def rows_read_by_elements(np: Any, p: Any, first: Any, steps: int) -> Any:
    x = np.zeros((steps, 2))
    x[0] = first
    for k in range(1, steps):
        u, v = x[k - 1, 0], x[k - 1, 1]
        change = np.stack([p[0] * u - p[1] * u * v, p[2] * u * v - p[3] * v])
        x[k] = x[k - 1] + 0.01 * change
    return np.sum(x**2)


@rows_read_by_elements.written_for("torch", "jax", "autograd")
def _(np: Any, p: Any, first: Any, steps: int) -> Any:
    y, total = first, np.sum(first**2)
    for _ in range(1, steps):
        u, v = y[0], y[1]
        y = y + 0.01 * np.stack([p[0] * u - p[1] * u * v, p[2] * u * v - p[3] * v])
        total = total + np.sum(y**2)
    return total


@program(
    lambda random, n: [random.normal(size=1000), random.uniform(0.1, 0.9, size=1)],
    steps=(20, 200),
    wrt=(1,),
)
def moving_average_appended(np: Any, x: Any, share: Any, steps: int) -> Any:
    mean, means = x[0], []
    for k in range(steps):
        mean = share[0] * mean + (1.0 - share[0]) * x[k]
        means.append(mean)
    return np.sum((np.array(means) - x[:steps]) ** 2)
