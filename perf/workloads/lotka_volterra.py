"""Lotka-Volterra by Runge-Kutta 4 in a plain Python loop, fitted to data: tiny state, many steps.

The step is written once, for scalars of any library. A process that measures how a library
compiles 5,000 steps is in `lotka_volterra_first.py`.
"""

from typing import Any, NamedTuple

import numpy as np

from perf.goals import (
    LIKE_BY_HAND,
    NEVER_SLOWER,
    NO_MORE_MEMORY,
    NO_MORE_THAN_SCAN,
    EachWay,
    Times,
)
from perf.implementations import (
    Prepared,
    by_autograd,
    by_hand,
    by_jax,
    by_numba_grad,
    by_pytensor,
    by_torch,
)

EVERY = 20  # steps from one observation to the next
STEP_SIZE = 0.002


class Size(NamedTuple):
    steps: int


TITLE = "Lotka-Volterra, Runge-Kutta 4 in a Python loop, sum of squares"
LIMIT = 60.0  # HIPS autograd takes half a minute for 5,000 steps
SIZES = {
    "small": Size(steps=200),
    "medium": Size(steps=1_000),
    "large": Size(steps=5_000),
}
OTHERWISE = (
    "numba_grad, state in an array",
    "numba_grad, states appended",
    "numba_grad, states in a buffer",
)
GOALS = [
    NEVER_SLOWER,
    LIKE_BY_HAND,
    NO_MORE_MEMORY,
    NO_MORE_THAN_SCAN,
    Times(10.0),
    Times(1 / 1.2, peers=("jax scan",), figure="first run (s)", sizes=("medium",)),
    EachWay(1.3, OTHERWISE),
    EachWay(1.1, ("numba_grad, scan",)),
]


def inputs(steps: int) -> list[np.ndarray]:
    """alpha, beta, gamma, delta, first state; observations."""
    time = np.arange(1, steps // EVERY + 1) * EVERY * STEP_SIZE
    observed = np.stack([10.0 + 5.0 * np.sin(time), 5.0 + 2.0 * np.cos(time)], axis=1)
    return [np.array([1.1, 0.4, 0.4, 0.1, 10.0, 5.0]), observed]


def step(u: Any, v: Any, p: Any) -> tuple[Any, Any]:
    """One step of Runge-Kutta 4."""

    def slope(u: Any, v: Any) -> tuple[Any, Any]:
        return p[0] * u - p[1] * u * v, -p[2] * v + p[3] * u * v

    h = STEP_SIZE
    a, b = slope(u, v)
    c, d = slope(u + 0.5 * h * a, v + 0.5 * h * b)
    e, f = slope(u + 0.5 * h * c, v + 0.5 * h * d)
    g, k = slope(u + h * e, v + h * f)
    return u + h / 6.0 * (a + 2.0 * c + 2.0 * e + g), v + h / 6.0 * (b + 2.0 * d + 2.0 * f + k)


def in_a_loop(steps: int, step: Any = step) -> Any:
    """The loss, with a plain Python loop."""

    def loss(p: Any, observed: Any) -> Any:
        u, v = p[4], p[5]
        total = 0.0
        for k in range(steps):
            u, v = step(u, v, p)
            if k % EVERY == EVERY - 1:
                row = observed[k // EVERY]
                total = total + (u - row[0]) ** 2 + (v - row[1]) ** 2
        return total

    return loss


def with_jitted_step(size: Size) -> Prepared:
    import numba_grad as ng

    return by_numba_grad(in_a_loop(size.steps, ng.jit(step)), inputs(size.steps))


def vector_step(x: Any, p: Any) -> Any:
    """The state in one array, as the solvers of libraries have it."""

    def slope(x: Any) -> Any:
        return np.stack([p[0] * x[0] - p[1] * x[0] * x[1], -p[2] * x[1] + p[3] * x[0] * x[1]])

    h = STEP_SIZE
    k1 = slope(x)
    k2 = slope(x + 0.5 * h * k1)
    k3 = slope(x + 0.5 * h * k2)
    k4 = slope(x + h * k3)
    return x + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)


def with_vector_state(size: Size) -> Prepared:
    def loss(p: Any, observed: Any) -> Any:
        x = p[4:]
        states = []
        for k in range(size.steps):
            x = vector_step(x, p)
            if k % EVERY == EVERY - 1:
                states.append(x)
        return ((np.stack(states) - observed) ** 2).sum()

    return by_numba_grad(loss, inputs(size.steps))


def with_states_appended(size: Size) -> Prepared:
    """All of them, compared at the end."""

    def loss(p: Any, observed: Any) -> Any:
        x = p[4:]
        states = []
        for _ in range(size.steps):
            x = vector_step(x, p)
            states.append(x)
        return ((np.stack(states)[EVERY - 1 :: EVERY] - observed) ** 2).sum()

    return by_numba_grad(loss, inputs(size.steps))


def with_states_in_a_buffer(size: Size) -> Prepared:
    """A state of two scalars, assigned to the rows of an array that was allocated before."""

    def loss(p: Any, observed: Any) -> Any:
        import numba_grad as ng

        states = ng.zeros((size.steps, 2))
        u, v = p[4], p[5]
        for k in range(size.steps):
            u, v = step(u, v, p)
            states[k, 0] = u
            states[k, 1] = v
        return ((states[EVERY - 1 :: EVERY] - observed) ** 2).sum()

    return by_numba_grad(loss, inputs(size.steps))


def by_scan(scan: Any) -> Any:
    """The loss with a loop as an operation, of steps in a loop of observations."""

    def loss(p: Any, observed: Any) -> Any:
        def one(state: Any, _: None) -> tuple[Any, None]:
            return step(*state, p), None

        def interval(state: Any, row: Any) -> tuple[Any, Any]:
            (u, v), _ = scan(one, state, None, length=EVERY)
            return (u, v), (u - row[0]) ** 2 + (v - row[1]) ** 2

        return scan(interval, (p[4], p[5]), observed)[1].sum()

    return loss


def jax_scan(size: Size) -> Prepared:
    from jax import lax

    return by_jax(by_scan(lax.scan), inputs(size.steps))


def with_scan(size: Size) -> Prepared:
    import numba_grad as ng

    return by_numba_grad(by_scan(ng.scan), inputs(size.steps))


def pytensor_scan(size: Size) -> Prepared:
    import pytensor

    def loss(p: Any, observed: Any) -> Any:
        u, v = pytensor.scan(
            step,
            outputs_info=[p[4], p[5]],
            non_sequences=[p],
            n_steps=size.steps,
            return_updates=False,
        )
        seen_u, seen_v = u[EVERY - 1 :: EVERY], v[EVERY - 1 :: EVERY]
        return ((seen_u - observed[:, 0]) ** 2 + (seen_v - observed[:, 1]) ** 2).sum()

    return by_pytensor(loss, inputs(size.steps))


def hand_written(size: Size) -> Prepared:
    """Forward with all states kept; backward with the slopes of each step computed again."""
    import numba

    @numba.njit(fastmath=True)
    def kernel(p: np.ndarray, observed: np.ndarray, states: np.ndarray) -> tuple[float, np.ndarray]:
        alpha, beta, gamma, delta = p[0], p[1], p[2], p[3]
        h = STEP_SIZE
        steps = states.shape[0] - 1
        u, v = p[4], p[5]
        states[0, 0], states[0, 1] = u, v
        total = 0.0
        for k in range(steps):
            a, b = alpha * u - beta * u * v, delta * u * v - gamma * v
            u2, v2 = u + 0.5 * h * a, v + 0.5 * h * b
            c, d = alpha * u2 - beta * u2 * v2, delta * u2 * v2 - gamma * v2
            u3, v3 = u + 0.5 * h * c, v + 0.5 * h * d
            e, f = alpha * u3 - beta * u3 * v3, delta * u3 * v3 - gamma * v3
            u4, v4 = u + h * e, v + h * f
            g, q = alpha * u4 - beta * u4 * v4, delta * u4 * v4 - gamma * v4
            u += h / 6.0 * (a + 2.0 * c + 2.0 * e + g)
            v += h / 6.0 * (b + 2.0 * d + 2.0 * f + q)
            states[k + 1, 0], states[k + 1, 1] = u, v
            if k % EVERY == EVERY - 1:
                total += (u - observed[k // EVERY, 0]) ** 2 + (v - observed[k // EVERY, 1]) ** 2
        gradient = np.zeros(6)
        ga, gb, gc, gd = 0.0, 0.0, 0.0, 0.0
        gu, gv = 0.0, 0.0
        for k in range(steps - 1, -1, -1):
            if k % EVERY == EVERY - 1:
                gu += 2.0 * (states[k + 1, 0] - observed[k // EVERY, 0])
                gv += 2.0 * (states[k + 1, 1] - observed[k // EVERY, 1])
            u, v = states[k, 0], states[k, 1]
            a, b = alpha * u - beta * u * v, delta * u * v - gamma * v
            u2, v2 = u + 0.5 * h * a, v + 0.5 * h * b
            c, d = alpha * u2 - beta * u2 * v2, delta * u2 * v2 - gamma * v2
            u3, v3 = u + 0.5 * h * c, v + 0.5 * h * d
            e, f = alpha * u3 - beta * u3 * v3, delta * u3 * v3 - gamma * v3
            u4, v4 = u + h * e, v + h * f
            # The cotangents of the fourth slopes, then back through each stage.
            x, y = h / 6.0 * gu, h / 6.0 * gv
            ga += x * u4
            gb -= x * u4 * v4
            gc -= y * v4
            gd += y * u4 * v4
            s = x * (alpha - beta * v4) + y * delta * v4
            t = y * (delta * u4 - gamma) - x * beta * u4
            nu, nv = gu + s, gv + t
            x, y = h / 3.0 * gu + h * s, h / 3.0 * gv + h * t
            ga += x * u3
            gb -= x * u3 * v3
            gc -= y * v3
            gd += y * u3 * v3
            s = x * (alpha - beta * v3) + y * delta * v3
            t = y * (delta * u3 - gamma) - x * beta * u3
            nu, nv = nu + s, nv + t
            x, y = h / 3.0 * gu + 0.5 * h * s, h / 3.0 * gv + 0.5 * h * t
            ga += x * u2
            gb -= x * u2 * v2
            gc -= y * v2
            gd += y * u2 * v2
            s = x * (alpha - beta * v2) + y * delta * v2
            t = y * (delta * u2 - gamma) - x * beta * u2
            nu, nv = nu + s, nv + t
            x, y = h / 6.0 * gu + 0.5 * h * s, h / 6.0 * gv + 0.5 * h * t
            ga += x * u
            gb -= x * u * v
            gc -= y * v
            gd += y * u * v
            gu = nu + x * (alpha - beta * v) + y * delta * v
            gv = nv + y * (delta * u - gamma) - x * beta * u
        gradient[:] = ga, gb, gc, gd, gu, gv
        return total, gradient

    return by_hand(kernel, *inputs(size.steps), np.zeros((size.steps + 1, 2)))


# Without torch.compile: for 200 steps it is not ready after 150 seconds.
IMPLEMENTATIONS = {
    "numba_grad": lambda size: by_numba_grad(in_a_loop(size.steps), inputs(size.steps)),
    "numba_grad, jitted step": with_jitted_step,
    "numba_grad, state in an array": with_vector_state,
    "numba_grad, states appended": with_states_appended,
    "numba_grad, states in a buffer": with_states_in_a_buffer,
    "numba_grad, scan": with_scan,
    "by hand": hand_written,
    "torch": lambda size: by_torch(in_a_loop(size.steps), inputs(size.steps)),
    "jax scan": jax_scan,
    "pytensor": pytensor_scan,
    "autograd": lambda size: by_autograd(in_a_loop(size.steps), inputs(size.steps)),
}
