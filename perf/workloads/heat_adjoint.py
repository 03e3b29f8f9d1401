"""Heat in a plate of varying conductivity: gradients for the first state and the conductivity."""

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
    VALUE_ONLY,
    Prepared,
    by_autograd,
    by_hand,
    by_jax,
    by_numba_grad,
    by_torch,
    value_by_numba_grad,
)

RATE = 0.2  # time step over the square of the spacing


class Size(NamedTuple):
    steps: int
    side: int


TITLE = "Heat equation adjoint, gradient for first state and conductivity field"
SIZES = {
    "small": Size(steps=100, side=32),
    "medium": Size(steps=1_000, side=64),
    "large": Size(steps=200, side=256),
}
OTHERWISE = ("numba_grad, assignment", "numba_grad, roll")
GOALS = [
    NEVER_SLOWER,
    LIKE_BY_HAND,
    NO_MORE_MEMORY,
    NO_MORE_THAN_SCAN,
    Times(1 / 3, peers=(VALUE_ONLY,)),
    EachWay(1.3, OTHERWISE),
    EachWay(1.1, ("numba_grad, scan",)),
]
BOTH = (0, 1)


def inputs(size: Size) -> list[np.ndarray]:
    """First state, conductivity, and the state that is wanted in the end."""
    rng = np.random.default_rng(0)
    shape = (size.side, size.side)
    return [rng.normal(size=shape), rng.uniform(0.5, 1.0, size=shape), rng.normal(size=shape)]


def step(u: Any, across: Any, down: Any, pad: Any) -> Any:
    """One explicit step. No heat leaves the plate: fluxes through its rim are zeros, by `pad`."""
    right = pad(across * (u[:, 1:] - u[:, :-1]), 1)
    below = pad(down * (u[1:, :] - u[:-1, :]), 0)
    return u + right[:, 1:] - right[:, :-1] + below[1:, :] - below[:-1, :]


def in_a_loop(size: Size, pad: Any) -> Any:
    def loss(u: Any, conductivity: Any, wanted: Any) -> Any:
        across = 0.5 * RATE * (conductivity[:, 1:] + conductivity[:, :-1])
        down = 0.5 * RATE * (conductivity[1:, :] + conductivity[:-1, :])
        for _ in range(size.steps):
            u = step(u, across, down, pad)
        return ((u - wanted) ** 2).sum()

    return loss


def padded(np: Any) -> Any:
    """Zeros at both ends of an axis, in a library with NumPy's functions."""

    def pad(x: Any, axis: int) -> Any:
        return np.pad(x, ((1, 1), (0, 0)) if axis == 0 else ((0, 0), (1, 1)))

    return pad


def with_assignment(size: Size) -> Prepared:
    """What flows through a face is added on one side of it and taken on the other."""

    def loss(u: Any, conductivity: Any, wanted: Any) -> Any:
        across = 0.5 * RATE * (conductivity[:, 1:] + conductivity[:, :-1])
        down = 0.5 * RATE * (conductivity[1:, :] + conductivity[:-1, :])
        for _ in range(size.steps):
            right = across * (u[:, 1:] - u[:, :-1])
            below = down * (u[1:, :] - u[:-1, :])
            new = u.copy()
            new[:, :-1] += right
            new[:, 1:] -= right
            new[:-1, :] += below
            new[1:, :] -= below
            u = new
        return ((u - wanted) ** 2).sum()

    return by_numba_grad(loss, inputs(size), BOTH)


def rolled(size: Size) -> Prepared:
    """Neighbors by rolling; the faces between the last row or column and the first are closed."""

    def loss(u: Any, conductivity: Any, wanted: Any) -> Any:
        open_right, open_below = np.ones((2, size.side, size.side))
        open_right[:, -1] = 0.0
        open_below[-1, :] = 0.0
        across = 0.5 * RATE * open_right * (np.roll(conductivity, -1, axis=1) + conductivity)
        down = 0.5 * RATE * open_below * (np.roll(conductivity, -1, axis=0) + conductivity)
        for _ in range(size.steps):
            right = across * (np.roll(u, -1, axis=1) - u)
            below = down * (np.roll(u, -1, axis=0) - u)
            u = u + right - np.roll(right, 1, axis=1) + below - np.roll(below, 1, axis=0)
        return ((u - wanted) ** 2).sum()

    return by_numba_grad(loss, inputs(size), BOTH)


def torch_loss(size: Size) -> Any:
    import torch

    def pad(x: Any, axis: int) -> Any:
        return torch.nn.functional.pad(x, (0, 0, 1, 1) if axis == 0 else (1, 1, 0, 0))

    return in_a_loop(size, pad)


def autograd(size: Size) -> Prepared:
    import autograd.numpy as anp

    row, column = np.zeros((1, size.side)), np.zeros((size.side, 1))

    def pad(x: Any, axis: int) -> Any:
        end = row if axis == 0 else column
        return anp.concatenate([end, x, end], axis=axis)

    return by_autograd(in_a_loop(size, pad), inputs(size), BOTH)


def by_scan(size: Size, pad: Any, scan: Any) -> Any:
    """The loss with a loop as an operation."""

    def loss(u: Any, conductivity: Any, wanted: Any) -> Any:
        across = 0.5 * RATE * (conductivity[:, 1:] + conductivity[:, :-1])
        down = 0.5 * RATE * (conductivity[1:, :] + conductivity[:-1, :])

        def one(u: Any, _: None) -> tuple[Any, None]:
            return step(u, across, down, pad), None

        u, _ = scan(one, u, None, length=size.steps)
        return ((u - wanted) ** 2).sum()

    return loss


def jax_scan(size: Size) -> Prepared:
    import jax.numpy as jnp
    from jax import lax

    return by_jax(by_scan(size, padded(jnp), lax.scan), inputs(size), BOTH)


def with_scan(size: Size) -> Prepared:
    import numba_grad as ng

    return by_numba_grad(by_scan(size, padded(np), ng.scan), inputs(size), BOTH)


def jax_unrolled(size: Size) -> Prepared:
    import jax.numpy as jnp

    return by_jax(in_a_loop(size, padded(jnp)), inputs(size), BOTH)


def hand_written(size: Size) -> Prepared:
    """All states kept. Steps are too short for a second thread to pay."""
    import numba

    @numba.njit(fastmath=True)
    def kernel(
        first: np.ndarray, conductivity: np.ndarray, wanted: np.ndarray, states: np.ndarray
    ) -> tuple[float, np.ndarray, np.ndarray]:
        n, m = first.shape
        # Conductivities of faces; those of the rim are 0. across[i, j] is between j - 1 and j.
        across, down = np.zeros((n, m + 1)), np.zeros((n + 1, m))
        for i in range(n):
            for j in range(1, m):
                across[i, j] = 0.5 * RATE * (conductivity[i, j] + conductivity[i, j - 1])
        for i in range(1, n):
            for j in range(m):
                down[i, j] = 0.5 * RATE * (conductivity[i, j] + conductivity[i - 1, j])
        # A frame around each state: its values are multiplied by 0.
        states[0, 1:-1, 1:-1] = first
        steps = states.shape[0] - 1
        for k in range(steps):
            u, new = states[k], states[k + 1]
            for i in range(n):
                for j in range(m):
                    here = u[i + 1, j + 1]
                    new[i + 1, j + 1] = (
                        here
                        + across[i, j + 1] * (u[i + 1, j + 2] - here)
                        - across[i, j] * (here - u[i + 1, j])
                        + down[i + 1, j] * (u[i + 2, j + 1] - here)
                        - down[i, j] * (here - u[i, j + 1])
                    )
        total = 0.0
        g, other = np.zeros((n + 2, m + 2)), np.zeros((n + 2, m + 2))
        for i in range(n):
            for j in range(m):
                difference = states[steps, i + 1, j + 1] - wanted[i, j]
                total += difference * difference
                g[i + 1, j + 1] = 2.0 * difference
        g_across, g_down = np.zeros((n, m + 1)), np.zeros((n + 1, m))
        for k in range(steps - 1, -1, -1):
            u = states[k]
            for i in range(n):
                for j in range(m):
                    here = g[i + 1, j + 1]
                    # The step is symmetric: its adjoint is itself.
                    other[i + 1, j + 1] = (
                        here
                        + across[i, j + 1] * (g[i + 1, j + 2] - here)
                        - across[i, j] * (here - g[i + 1, j])
                        + down[i + 1, j] * (g[i + 2, j + 1] - here)
                        - down[i, j] * (here - g[i, j + 1])
                    )
                    g_across[i, j] -= (here - g[i + 1, j]) * (u[i + 1, j + 1] - u[i + 1, j])
                    g_down[i, j] -= (here - g[i, j + 1]) * (u[i + 1, j + 1] - u[i, j + 1])
            g, other = other, g
        gradient = np.zeros((n, m))
        for i in range(n):
            for j in range(1, m):
                gradient[i, j] += 0.5 * RATE * g_across[i, j]
                gradient[i, j - 1] += 0.5 * RATE * g_across[i, j]
        for i in range(1, n):
            for j in range(m):
                gradient[i, j] += 0.5 * RATE * g_down[i, j]
                gradient[i - 1, j] += 0.5 * RATE * g_down[i, j]
        return total, g[1:-1, 1:-1].copy(), gradient

    return by_hand(kernel, *inputs(size), np.zeros((size.steps + 1, size.side + 2, size.side + 2)))


# Without torch.compile: for 100 steps it is not ready after 150 seconds. Without PyTensor: its
# scan with gradients is not ready after 100 seconds.
IMPLEMENTATIONS = {
    "numba_grad": lambda size: by_numba_grad(in_a_loop(size, padded(np)), inputs(size), BOTH),
    "numba_grad, assignment": with_assignment,
    "numba_grad, roll": rolled,
    "numba_grad, scan": with_scan,
    VALUE_ONLY: lambda size: value_by_numba_grad(in_a_loop(size, padded(np)), inputs(size)),
    "by hand": hand_written,
    "torch": lambda size: by_torch(torch_loss(size), inputs(size), BOTH),
    "jax scan": jax_scan,
    "jax, unrolled": jax_unrolled,
    "autograd": autograd,
}
