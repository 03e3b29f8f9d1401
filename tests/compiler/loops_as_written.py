"""The same loops as people write them: `LOOPS[name](steps)` is a function, and its arguments."""

from collections.abc import Callable
from typing import Any

import numpy as np

import numba_grad as ng

Loop = tuple[Callable[..., Any], tuple[Any, ...]]

START = np.array([10.0, 5.0])
RATES = np.array([1.0, 0.1, 1.5, 0.075])


def slope(y, p):
    return np.stack([p[0] * y[0] - p[1] * y[0] * y[1], p[3] * y[0] * y[1] - p[2] * y[1]])


def runge_kutta(y, p, h=0.01):
    a = slope(y, p)
    b = slope(y + h / 2 * a, p)
    c = slope(y + h / 2 * b, p)
    d = slope(y + h * c, p)
    return y + h / 6 * (a + 2 * b + 2 * c + d)


def state_in_an_array(steps: int) -> Loop:
    def f(y, p):
        for _ in range(steps):
            y = runge_kutta(y, p)
        return np.sum(y)

    return f, (START, RATES)


def state_in_scalars(steps: int) -> Loop:
    def f(start, p):
        u, v = start[0], start[1]
        for _ in range(steps):
            du, dv = p[0] * u - p[1] * u * v, p[3] * u * v - p[2] * v
            u, v = u + 0.01 * du, v + 0.01 * dv
        return u + v

    return f, (START, RATES)


def appended_and_stacked(steps: int) -> Loop:
    def f(y, p, data):
        states = []
        for _ in range(steps):
            y = runge_kutta(y, p)
            states.append(y)
        return np.sum((np.stack(states) - data) ** 2)

    return f, (START, RATES, np.ones((steps, 2)))


def stacked_as_columns(steps: int) -> Loop:
    def f(x, w, data):
        states = []
        for k in range(steps):
            x = np.tanh(x * w + data[:, k])
            states.append(x)
        return np.sum((np.stack(states, axis=1) - data) ** 2)

    return f, (np.linspace(0.1, 1.0, 25), np.linspace(0.5, 1.0, 25), np.ones((25, steps)))


def loss_summed_in_the_loop(steps: int) -> Loop:
    def f(y, p, data):
        loss = 0.0
        for k in range(steps):
            y = runge_kutta(y, p)
            loss = loss + np.sum((y - data[k]) ** 2)
        return loss

    return f, (START, RATES, np.ones((steps, 2)))


def rows_of_a_buffer(steps: int) -> Loop:
    def f(y, p, data):
        states = ng.zeros((steps + 1, 2))
        states[0] = y
        for k in range(steps):
            states[k + 1] = runge_kutta(states[k], p)
        return np.sum((states[1:] - data) ** 2)

    return f, (START, RATES, np.ones((steps, 2)))


def numbers_of_a_buffer(steps: int) -> Loop:
    def f(p, noise):
        y = ng.zeros(steps)
        for k in range(2, steps):
            y[k] = np.tanh(p[0] * y[k - 1] + p[1] * y[k - 2]) + noise[k]
        return np.sum(y**2)

    return f, (np.array([0.5, -0.3]), np.linspace(0.0, 1.0, 1200))


def column_of_a_buffer(steps: int) -> Loop:
    def f(u, data):
        states = ng.zeros((steps, 30))
        for k in range(steps):
            u = u + 0.1 * (np.roll(u, 1) - 2.0 * u + np.roll(u, -1)) * u
            states[k] = u
        return np.sum((states[:, 0] - data) ** 2)

    return f, (np.linspace(0.0, 1.0, 30), np.ones(steps))


def rows_of_a_parameter(steps: int) -> Loop:
    def f(weights, x):
        for k in range(steps):
            x = np.sin(weights[k] * x) + 0.1 * x
        return np.sum(x**2)

    return f, (np.ones((steps, 30)), np.linspace(0.0, 1.0, 30))


def sines(steps: int) -> Loop:
    def f(x):
        for k in range(steps):
            x = np.sin(x) * 1.1 + 0.01 * k  # in the 110th step 1.1
        return np.sum(x)

    return f, (np.linspace(0.0, 1.0, 4),)


def heat_by_rolls(steps: int) -> Loop:
    def f(u, rate):
        for _ in range(steps):
            u = u + rate * (np.roll(u, 1) - 2.0 * u + np.roll(u, -1))
        return np.sum(u**2)

    return f, (np.linspace(0.0, 1.0, 30), 0.1)


def heat_by_pads(steps: int) -> Loop:
    def f(u, rate):
        for _ in range(steps):
            u = u + rate * np.pad(u[2:] - 2.0 * u[1:-1] + u[:-2], 1)
        return np.sum(u**2)

    return f, (np.linspace(0.0, 1.0, 30), 0.1)


def heat_by_slices(steps: int) -> Loop:
    def f(u, rate):
        for _ in range(steps):
            new = u.copy()
            new[1:-1] = u[1:-1] + rate * (u[2:] - 2.0 * u[1:-1] + u[:-2])
            u = new
        return np.sum(u**2)

    return f, (np.linspace(0.0, 1.0, 30), 0.1)


def receivers_of_waves(steps: int) -> Loop:
    def f(speed, data):
        u, before = np.zeros(100), np.zeros(100)
        heard = []
        for _ in range(steps):
            inside = u[2:] - 2.0 * u[1:-1] + u[:-2]
            bend = np.concatenate([np.zeros(1), inside, np.zeros(1)])
            u, before = 2.0 * u - before + speed * speed * bend + 0.1 * speed, u
            heard.append(u[np.array([10, 50, 80])])
        return np.sum((np.stack(heard) - data) ** 2)

    return f, (np.full(100, 0.5), np.ones((steps, 3)))


def cells_with_lists(steps: int) -> Loop:
    def f(inputs, w):
        h, c = np.zeros((3, 8)), np.zeros((3, 8))
        outputs = []
        for k in range(steps):
            z = np.concatenate([inputs[k], h], axis=1) @ w
            c = 0.9 * c + ng.sigmoid(z[:, :8]) * np.tanh(z[:, 8:16])
            h = ng.sigmoid(z[:, 16:]) * np.tanh(c)
            outputs.append(h)
        return np.mean(np.stack(outputs) ** 2)

    random = np.random.default_rng(0)
    return f, (random.normal(size=(steps, 3, 5)), random.normal(size=(13, 24)))


def kalman_filter(steps: int) -> Loop:
    def f(a, noise, observed):
        x, s = np.zeros(2), np.eye(2)
        likelihood = 0.0
        for k in range(steps):
            x, s = a @ x, a @ s @ a.T + noise * np.eye(2)
            variance, error = s[0, 0] + 1.0, observed[k] - x[0]
            gain = s[:, 0] / variance
            x, s = x + gain * error, s - np.outer(gain, gain) * variance
            likelihood = likelihood - 0.5 * (error**2 / variance + np.log(variance))
        return likelihood

    return f, (np.array([[1.0, 0.1], [0.0, 0.9]]), 0.1, np.ones(steps))


def filter_of_numbers(steps: int) -> Loop:
    def f(noise, observed):
        x, v, likelihood = 0.0, 0.0, 0.0
        a, b, c = 1.0, 0.0, 1.0
        for k in range(steps):
            x = x + 0.1 * v
            a, b, c = a + 0.2 * b + 0.01 * c + noise[0], b + 0.1 * c, c + noise[1]
            variance, error = a + noise[2], observed[k] - x
            x, v = x + a / variance * error, v + b / variance * error
            a, b, c = a - a * a / variance, b - a * b / variance, c - b * b / variance
            likelihood = likelihood - 0.5 * (error**2 / variance + np.log(variance))
        return likelihood

    return f, (np.array([0.1, 0.2, 0.5]), np.linspace(0.0, 1.0, steps))


def gates_in_a_buffer(steps: int) -> Loop:
    def f(w, inputs):
        h = ng.zeros((steps + 1, 6))
        for k in range(steps):
            update = ng.sigmoid(inputs[k] @ w[0] + h[k] @ w[1])
            reset = ng.sigmoid(inputs[k] @ w[2] + h[k] @ w[3])
            proposed = np.tanh(inputs[k] @ w[4] + (reset * h[k]) @ w[5])
            h[k + 1] = (1.0 - update) * h[k] + update * proposed
        return np.sum(h[1:] ** 2)

    random = np.random.default_rng(0)
    return f, (random.normal(size=(6, 6, 6)), random.normal(size=(steps, 6)))


def linked_pendulums(steps: int) -> Loop:
    def f(angles, stiffness):
        speeds = np.zeros(5)
        for _ in range(steps):
            twist = stiffness * (angles[1:] - angles[:-1])
            end = np.zeros(1)
            force = np.concatenate([twist, end]) - np.concatenate([end, twist])
            speeds = speeds + 0.01 * (force - 9.8 * np.sin(angles))
            angles = angles + 0.01 * speeds
        return np.sum(angles**2)

    return f, (np.linspace(0.1, 1.0, 5), 2.0)


def attraction_of_pairs(steps: int) -> Loop:
    """Gravity by numbers alone; the second half of the pairs is as the first."""

    def f(x, masses):
        places, speeds = [x[0], x[1], x[2]], [0.0, 0.0, 0.0]
        for _ in range(steps):
            for i in range(3):
                for j in range(3):
                    if i != j:
                        d = places[j] - places[i]
                        speeds[i] = speeds[i] + 0.01 * masses[j] * d / (d * d + 0.1)
            places = [x + 0.01 * v for x, v in zip(places, speeds, strict=True)]
        return places[0] ** 2 + places[1] * places[2]

    return f, (np.array([0.0, 1.0, 3.0]), np.ones(3))


LOOPS = {
    loop.__name__: loop
    for loop in (
        state_in_an_array,
        state_in_scalars,
        appended_and_stacked,
        stacked_as_columns,
        loss_summed_in_the_loop,
        rows_of_a_buffer,
        numbers_of_a_buffer,
        column_of_a_buffer,
        rows_of_a_parameter,
        sines,
        heat_by_rolls,
        heat_by_pads,
        heat_by_slices,
        receivers_of_waves,
        cells_with_lists,
        kalman_filter,
        filter_of_numbers,
        gates_in_a_buffer,
        linked_pendulums,
        attraction_of_pairs,
    )
}
