"""Loops and branches as operations, and calls of jitted functions, inside of plain NumPy.

As people write them: a simulation by `scan` with a loss around it, a root by `while_loop`, a layer
that is jitted on its own. JAX's signatures; a library without such operations runs Python's own.
"""

import importlib
from collections.abc import Callable
from typing import Any

from perf.programs import DOUBLE, program


def operations_of(np: Any) -> Any:
    """`scan`, `while_loop`, `fori_loop`, `cond`, `switch`, `vmap` and `jit` that go with a
    namespace."""
    name = np.__name__.partition(".")[0]
    if name == "numba_grad":
        return importlib.import_module("numba_grad")
    return _OfJax() if name == "jax" else _OfPython(np)


class _OfJax:
    def __init__(self) -> None:
        jax = importlib.import_module("jax")
        self.jit, self.vmap = jax.jit, jax.vmap
        for name in ("scan", "while_loop", "fori_loop", "cond", "switch"):
            setattr(self, name, getattr(jax.lax, name))


class _OfPython:
    def __init__(self, np: Any) -> None:
        self.np = np

    def scan(self, f: Callable[..., Any], carry: Any, xs: Any, length: int = 0) -> Any:
        rows = range(length) if xs is None else xs
        results = []
        for x in rows:
            carry, y = f(carry, x)
            results.append(y)
        return carry, None if results[0] is None else self.np.stack(results)

    def while_loop(self, test: Callable[..., Any], f: Callable[..., Any], carry: Any) -> Any:
        while test(carry):
            carry = f(carry)
        return carry

    def fori_loop(self, lower: int, upper: int, f: Callable[..., Any], carry: Any) -> Any:
        for i in range(lower, upper):
            carry = f(i, carry)
        return carry

    def cond(self, holds: Any, f: Callable[..., Any], g: Callable[..., Any], *operands: Any) -> Any:
        return (f if holds else g)(*operands)

    def switch(self, index: int, branches: Any, *operands: Any) -> Any:
        return branches[index](*operands)

    def vmap(self, f: Callable[..., Any]) -> Callable[..., Any]:
        return lambda xs: self.np.stack([f(x) for x in xs])

    def jit(self, f: Callable[..., Any]) -> Callable[..., Any]:
        return f


@program(
    lambda random, n: [random.uniform(0.5, 1.5, size=4), random.uniform(0.5, 1.5, size=(100, 2))],
    wrt=(0,),
)
def predator_and_prey_by_scan(np: Any, p: Any, data: Any) -> Any:
    """A fit: states by scan, then a loss of a dozen operations."""

    def step(y: Any, _: Any) -> Any:
        u, v = y
        u, v = u + 0.05 * (p[0] * u - p[1] * u * v), v + 0.05 * (p[2] * u * v - p[3] * v)
        return (u, v), np.stack([u, v])

    _, ys = operations_of(np).scan(step, (1.0, 0.5), None, length=100)
    residuals = (np.log(ys) - np.log(data)) / 0.1
    misfit = 0.5 * np.sum(np.log(1.0 + residuals**2))
    prior = np.sum((np.log(p) - 0.1) ** 2 / 0.5 + np.log(p))
    return misfit / 100.0 + prior


@program(
    lambda random, n: [
        random.normal(size=(n, n)) / 2.0,
        random.normal(size=(3, n)),
        random.normal(size=n),
        random.normal(size=(20, 4, 3)),
    ],
    wrt=(0, 1, 2),
)
def recurrent_classifier_by_scan(np: Any, w: Any, v: Any, b: Any, xs: Any) -> Any:
    """Twenty words of four sentences, softmax cross-entropy of the last state, weight decay."""

    def step(h: Any, x: Any) -> Any:
        return np.tanh(h @ w + x @ v + b), None

    h, _ = operations_of(np).scan(step, np.zeros((4, b.shape[0])), xs)
    centred = (h - np.mean(h, axis=1, keepdims=True)) / np.sqrt(
        np.var(h, axis=1, keepdims=True) + 1e-5
    )
    scores = centred - np.max(centred, axis=1, keepdims=True)
    logs = scores - np.log(np.sum(np.exp(scores), axis=1, keepdims=True))
    decay = 1e-3 * (np.sum(w**2) + np.sum(v**2) + np.sum(b**2))
    return decay - np.mean(logs[:, 0])


@program(lambda random, n: [random.uniform(0.2, 0.8, size=n), random.normal(size=n)], wrt=(0,))
def kepler_by_while_loop(np: Any, e: Any, data: Any) -> Any:
    """Newton's method to the end, then a loss of what it found."""
    m = np.linspace(0.3, 2.5, e.shape[0])

    def test(state: Any) -> Any:
        x, _ = state
        return np.max(np.abs(x - e * np.sin(x) - m)) > 1e-12

    def step(state: Any) -> Any:
        x, count = state
        return x - (x - e * np.sin(x) - m) / (1.0 - e * np.cos(x)), count + 1

    x, _ = operations_of(np).while_loop(test, step, (m, 0))
    radius = 1.0 - e * np.cos(x)
    place = np.stack([np.cos(x) - e, np.sqrt(1.0 - e**2) * np.sin(x)])
    return np.mean((place - data) ** 2) + 0.1 * np.sum(np.log(radius) ** 2)


kepler_by_while_loop.left_out("jax", "no reverse mode through lax.while_loop")


@program(lambda random, n: [random.normal(size=n), random.normal(size=n)], wrt=(0,))
def robust_loss_by_cond(np: Any, x: Any, data: Any) -> Any:
    """One of two losses, by what the residuals are."""
    r = np.sin(x) * 2.0 - data
    r = r - np.mean(r)

    def gentle(r: Any) -> Any:
        return 0.5 * np.sum(r**2) + 0.01 * np.sum(np.cosh(r))

    def robust(r: Any) -> Any:
        scale = np.sqrt(np.mean(r**2) + 1e-6)
        return scale * np.sum(np.sqrt(1.0 + (r / scale) ** 2) - 1.0)

    loss = operations_of(np).cond(np.max(np.abs(r)) < 0.5, gentle, robust, r)
    return np.log(1.0 + loss) + 0.01 * np.sum(x**2)


@program(lambda random, n: [random.normal(size=(n, n)), random.normal(size=n)])
def activation_by_switch(np: Any, w: Any, x: Any) -> Any:
    activations = [
        np.tanh,
        lambda a: a / (1.0 + np.exp(-a)),
        lambda a: np.log(1.0 + np.exp(a)),
    ]
    for number in (2, 0, 1):
        x = operations_of(np).switch(number, activations, w @ x)
    return np.sum(x**2) / (1.0 + np.sum(np.abs(x)))


@program(
    lambda random, n: [
        random.normal(size=(3, n, n)),
        random.normal(size=(3, n)),
        random.normal(size=(4, n)),
    ],
    wrt=(0, 1),
)
def network_of_jitted_layers(np: Any, ws: Any, bs: Any, x: Any) -> Any:
    """A layer that is jitted on its own, called in a loss."""

    def layer(x: Any, w: Any, b: Any) -> Any:
        y = x @ w + b
        y = (y - np.mean(y, axis=-1, keepdims=True)) / np.sqrt(
            np.var(y, axis=-1, keepdims=True) + 1e-5
        )
        return y / (1.0 + np.exp(-1.702 * y))

    jitted = operations_of(np).jit(layer)
    for k in range(3):
        x = x + jitted(x, ws[k], bs[k])
    scores = x - np.max(x, axis=1, keepdims=True)
    logs = scores - np.log(np.sum(np.exp(scores), axis=1, keepdims=True))
    return 1e-3 * np.sum(ws**2) - np.mean(logs[:, 1])


@program(lambda random, n: [random.uniform(0.5, 1.5, size=4)])
def jitted_step_called_fifty_times(np: Any, p: Any) -> Any:
    def step(y: Any, p: Any) -> Any:
        du = p[0] * y[0] - p[1] * y[0] * y[1]
        dv = p[2] * y[0] * y[1] - p[3] * y[1]
        return y + 0.02 * np.stack([du, dv])

    jitted = operations_of(np).jit(step)
    y, total = np.array([1.0, 0.5]), 0.0
    for _ in range(50):
        y = jitted(y, p)
        total = total + np.sum((y - 1.0) ** 2)
    return total


@program(lambda random, n: [random.uniform(0.1, 0.4, size=20)])
def heat_by_fori_loop(np: Any, k: Any) -> Any:
    """A coefficient from the last temperature, with a penalty of its roughness."""
    places = np.linspace(0.0, 1.0, 20)
    start = np.exp(-50.0 * (places - 0.4) ** 2)

    def step(_: Any, u: Any) -> Any:
        return u + k * (np.roll(u, 1) - 2.0 * u + np.roll(u, -1))

    u = operations_of(np).fori_loop(0, 100, step, start)
    wanted = 0.3 + 0.1 * np.sin(6.0 * places)
    misfit = np.sum((u - wanted) ** 2) / np.sum(wanted**2)
    rough = np.sum((k[2:] - 2.0 * k[1:-1] + k[:-2]) ** 2)
    bounds = -np.sum(np.log(k) + np.log(0.5 - k))
    return misfit + 10.0 * rough + 1e-3 * bounds


@program(lambda random, n: [random.normal(size=n)])
def scans_in_a_scan(np: Any, x: Any) -> Any:
    """Five epochs of ten steps of descent with momentum, nested, and a loss of the end."""

    def slope(x: Any) -> Any:
        return x - np.roll(x, 1) + 0.1 * x**3

    def step(state: Any, _: Any) -> Any:
        x, v, rate = state
        v = 0.9 * v - rate * slope(x)
        return (x + v, v, rate), None

    def epoch(state: Any, _: Any) -> Any:
        (x, v, rate), _ = operations_of(np).scan(step, state, None, length=10)
        return (x, 0.5 * v, 0.7 * rate), np.sum(x**2)

    (x, _, _), heights = operations_of(np).scan(epoch, (x, 0.0 * x, 0.1), None, length=5)
    return np.sum(x**4) + np.mean(np.sqrt(1.0 + heights)) + np.log(1.0 + np.sum(x**2))


@program(lambda random, n: [random.normal(size=(2, 2)) / 2.0, random.normal(size=(100, 2))])
def kalman_filter_by_scan(np: Any, a: Any, data: Any) -> Any:
    q, r = 0.1 * np.eye(2), 0.2 * np.eye(2)

    def step(state: Any, y: Any) -> Any:
        m, p = state
        m, p = a @ m, a @ p @ a.T + q
        s = p + r
        determinant = s[0, 0] * s[1, 1] - s[0, 1] * s[1, 0]
        inverse = (
            np.stack([np.stack([s[1, 1], -s[0, 1]]), np.stack([-s[1, 0], s[0, 0]])]) / determinant
        )
        v, k = y - m, p @ inverse
        return (m + k @ v, p - k @ p), 0.5 * (np.log(determinant) + v @ inverse @ v)

    _, likelihoods = operations_of(np).scan(step, (np.zeros(2), np.eye(2)), data)
    return np.sum(likelihoods) + 0.5 * np.sum(a**2) + np.sum((a @ a.T - np.eye(2)) ** 2)


@program(lambda random, n: [random.normal(size=(8, 3))])
def trajectories_by_vmap(np: Any, starts: Any) -> Any:
    """Lorenz' equations from eight places at once, and what the ends have in common."""

    def step(y: Any, _: Any) -> Any:
        slope = np.stack(
            [
                10.0 * (y[1] - y[0]),
                y[0] * (28.0 - y[2]) - y[1],
                y[0] * y[1] - 8.0 / 3.0 * y[2],
            ]
        )
        return y + 0.005 * slope, None

    ends = operations_of(np).vmap(lambda y: operations_of(np).scan(step, y, None, length=60)[0])(
        starts
    )
    centred = ends - np.mean(ends, axis=0)
    spread = centred.T @ centred / 8.0
    return np.sum(spread**2) + np.mean(np.sqrt(np.sum(ends**2, axis=1)))


@program(lambda random, n: [random.normal(size=n)], kind=DOUBLE)
def curvature_of_a_scan(np: Any, x: Any) -> Any:
    def step(y: Any, k: Any) -> Any:
        return np.sin(y) * 1.1 + 0.1 * k * np.roll(y, 1), None

    y, _ = operations_of(np).scan(step, x, np.linspace(0.0, 1.0, 30))
    return np.sum(y * np.exp(-(x**2)))


@program(lambda random, n: [random.uniform(0.5, 1.5, size=3), random.normal(size=40)], wrt=(0,))
def two_scans_and_a_branch(np: Any, p: Any, data: Any) -> Any:
    """Volatility by one scan, a smoothed series by another, and a penalty if it is needed."""

    def variance(s: Any, x: Any) -> Any:
        s = 0.1 * p[0] + 0.2 * p[1] * x**2 + 0.5 * s
        return s, s

    def smooth(m: Any, x: Any) -> Any:
        m = m + 0.3 * p[2] * (x - m)
        return m, m

    flow = operations_of(np)
    _, s = flow.scan(variance, 1.0, data)
    _, m = flow.scan(smooth, 0.0, data)
    likelihood = 0.5 * np.sum(np.log(s) + (data - m) ** 2 / s)
    total = np.sum(p)
    return likelihood + flow.cond(total > 2.5, lambda t: (t - 2.5) ** 2, lambda t: 0.0 * t, total)


@program(lambda random, n: [random.normal(size=(n, n)), random.normal(size=n)])
def jitted_function_with_a_scan(np: Any, w: Any, x: Any) -> Any:
    """A solver that somebody has jitted, in a loss."""

    def relaxed(w: Any, b: Any) -> Any:
        def step(x: Any, _: Any) -> Any:
            return np.tanh(0.3 * (w @ x)) + b, None

        return operations_of(np).scan(step, 0.0 * b, None, length=30)[0]

    y = operations_of(np).jit(relaxed)(w, np.sin(x))
    y = y / np.sqrt(np.sum(y**2) + 1e-6)
    return np.sum((y - x) ** 2) + 0.1 * np.sum(np.abs(w)) + np.log(np.sum(np.exp(y)))
