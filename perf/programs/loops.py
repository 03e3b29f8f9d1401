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


@program(lambda random, n: [random.uniform(0.5, 1.5, size=4)], steps=(20, 1000))
def lotka_volterra_by_scalars(np: Any, p: Any, steps: int) -> Any:
    u, v, total = 1.0, 0.5, 0.0
    for _ in range(steps):
        du = p[0] * u - p[1] * u * v
        dv = p[2] * u * v - p[3] * v
        u, v = u + 0.01 * du, v + 0.01 * dv
        total = total + (u - 1.0) ** 2 + (v - 0.5) ** 2
    return total


@program(
    lambda random, n: [random.uniform(0.5, 1.5, size=4), random.normal(size=(1000, 2))],
    steps=(20, 200, 1000),
    wrt=(0,),
)
def runge_kutta_compared_at_the_end(np: Any, p: Any, data: Any, steps: int) -> Any:
    def slope(y: Any) -> Any:
        return np.array([p[0] * y[0] - p[1] * y[0] * y[1], p[2] * y[0] * y[1] - p[3] * y[1]])

    y, h = np.array([1.0, 0.5]), 0.01
    ys = []
    for _ in range(steps):
        k1 = slope(y)
        k2 = slope(y + h / 2.0 * k1)
        k3 = slope(y + h / 2.0 * k2)
        k4 = slope(y + h * k3)
        y = y + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
        ys.append(y)
    return np.mean((np.stack(ys) - data[:steps]) ** 2)


@program(lambda random, n: [random.normal(size=(n - 2, 3))])
def all_pairs_by_nested_loops(np: Any, x: Any) -> Any:
    energy = 0.0
    for i in range(x.shape[0]):
        for j in range(i):
            r2 = np.sum((x[i] - x[j]) ** 2)
            energy = energy + 1.0 / r2**6 - 1.0 / r2**3
    return energy


@program(lambda random, n: [random.normal(size=(n, n))])
def nested_loops_over_elements(np: Any, a: Any) -> Any:
    total = 0.0
    for i in range(1, a.shape[0]):
        for j in range(1, a.shape[1]):
            total = total + np.sin(a[i, j]) * a[i - 1, j - 1]
    return total


@program(
    lambda random, n: [3.0 * random.normal(size=(n, 2)), random.normal(size=(n, 2))],
    steps=(20, 100),
)
def planets(np: Any, x: Any, v: Any, steps: int) -> Any:
    def acceleration(x: Any) -> Any:
        d = x[None, :, :] - x[:, None, :]
        r2 = np.sum(d**2, axis=2) + 0.5
        return np.sum(d / r2[:, :, None] ** 1.5, axis=1)

    a = acceleration(x)
    for _ in range(steps):
        x = x + 0.01 * v + 0.5 * 0.01**2 * a
        new = acceleration(x)
        v, a = v + 0.005 * (a + new), new
    return np.sum(x**2) + np.sum(v**2)


@program(
    lambda random, n: [random.normal(size=n + 2), random.uniform(0.5, 1.0, size=n + 2)], steps=20
)
def schroedinger_by_fourier(np: Any, phase: Any, potential: Any, steps: int) -> Any:
    points = phase.shape[0]
    k = np.array([float(min(i, points - i)) for i in range(points)])
    psi = np.exp(1j * phase)
    turn, kick = np.exp(-0.05j * k**2), np.exp(-0.1j * potential)
    for _ in range(steps):
        psi = np.fft.ifft(turn * np.fft.fft(kick * psi))
    return np.sum(k * np.abs(psi) ** 2)


@program(lambda random, n: [random.normal(size=(n, 3)), random.normal(size=n)], steps=(10, 100))
def descent_within(np: Any, x: Any, y: Any, steps: int) -> Any:
    w = np.zeros(x.shape[1])
    for _ in range(steps):
        w = w - 0.05 * (x.T @ (x @ w - y)) / x.shape[0]
    return np.sum((x @ w - y) ** 2)


@program(lambda random, n: [random.normal(size=n - 2).astype("float32")], steps=100, tolerance=1e-4)
def float32_waves(np: Any, x: Any, steps: int) -> Any:
    y = np.ones_like(x)
    for _ in range(steps):
        y = y - 0.01 * x
        x = x + 0.01 * y * np.cos(x)
    return np.sum(x**2 + y**2)


@program(lambda random, n: [random.normal(size=(n, n)), random.normal(size=n)], steps=20)
def power_iteration(np: Any, a: Any, v: Any, steps: int) -> Any:
    a = a + a.T
    for _ in range(steps):
        v = a @ v
        v = v / np.sqrt(np.sum(v**2))
    return v @ (a @ v)


@program(lambda random, n: [random.normal(size=(n + 2, n + 2))], steps=(20, 100))
def heat_by_slices_of_a_square(np: Any, u: Any, steps: int) -> Any:
    for _ in range(steps):
        inner = u[1:-1, 1:-1] + 0.1 * (
            u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4.0 * u[1:-1, 1:-1]
        )
        u = np.concatenate(
            [u[:1], np.concatenate([u[1:-1, :1], inner, u[1:-1, -1:]], axis=1), u[-1:]], axis=0
        )
    return np.sum(u**2)


@program(lambda random, n: [random.normal(size=(n + 2, n + 2))], steps=(20, 100))
def heat_by_assignment_in_place(np: Any, u: Any, steps: int) -> Any:
    u = u + 0.0
    for _ in range(steps):
        u[1:-1, 1:-1] += 0.1 * (
            u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4.0 * u[1:-1, 1:-1]
        )
    return np.sum(u**2)


@heat_by_assignment_in_place.written_for("torch")
def _(np: Any, u: Any, steps: int) -> Any:
    for _ in range(steps):
        new = u.clone()
        new[1:-1, 1:-1] += 0.1 * (
            u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4.0 * u[1:-1, 1:-1]
        )
        u = new
    return np.sum(u**2)


@heat_by_assignment_in_place.written_for("jax")
def _(np: Any, u: Any, steps: int) -> Any:
    for _ in range(steps):
        u = u.at[1:-1, 1:-1].add(
            0.1 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4.0 * u[1:-1, 1:-1])
        )
    return np.sum(u**2)


heat_by_assignment_in_place.written_for("autograd")(heat_by_slices_of_a_square[0].function)
