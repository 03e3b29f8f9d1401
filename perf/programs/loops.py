"""Loops of a plain Python `for`: the same operation again and again."""

from typing import Any

from perf.programs import program


@program(lambda random, n: [random.normal(size=n - 2)], steps=(20, 100, 1000))
def sines_of_sines(np: Any, x: Any, steps: int) -> Any:
    for i in range(steps):
        x = np.sin(x) * 1.1 + 0.01 * i
    return np.sum(x)


@program(lambda random, n: [random.normal(size=n), random.normal(size=(n, n))], steps=(10, 100))
def recurrent_tanh(np: Any, s: Any, w: Any, steps: int) -> Any:
    for _ in range(steps):
        s = np.tanh(s @ w)
    return np.sum(s)


@program(lambda random, n: [random.normal(size=(n + 2, n + 2))], steps=(10, 100))
def heat_by_roll(np: Any, u: Any, steps: int) -> Any:
    for _ in range(steps):
        u = u + 0.1 * (
            np.roll(u, 1, axis=0)
            + np.roll(u, -1, axis=0)
            + np.roll(u, 1, axis=1)
            + np.roll(u, -1, axis=1)
            - 4.0 * u
        )
    return np.sum(u**2)


@program(lambda random, n: [random.uniform(0.5, 1.5, size=4)], steps=(20, 200, 1000))
def runge_kutta_on_an_array(np: Any, p: Any, steps: int) -> Any:
    def slope(y: Any) -> Any:
        return np.stack([p[0] * y[0] - p[1] * y[0] * y[1], p[2] * y[0] * y[1] - p[3] * y[1]])

    y, h = np.array([1.0, 0.5]), 0.01
    for _ in range(steps):
        k1 = slope(y)
        k2 = slope(y + 0.5 * h * k1)
        k3 = slope(y + 0.5 * h * k2)
        k4 = slope(y + h * k3)
        y = y + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
    return np.sum(y**2)
