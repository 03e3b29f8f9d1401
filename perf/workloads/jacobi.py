"""Jacobi iteration of the Poisson equation: a stencil in two dimensions, a hundred times.

The equation is linear: its adjoint needs no states, and a sweep is few operations an element. At
size large each sweep goes through main memory.
"""

from typing import Any, NamedTuple

import numpy as np

from perf.goals import LIKE_BY_HAND, NEVER_SLOWER, NO_MORE_MEMORY, NO_MORE_THAN_SCAN, EachWay
from perf.implementations import (
    Prepared,
    by_autograd,
    by_hand,
    by_jax,
    by_numba_grad,
    by_torch,
)


class Size(NamedTuple):
    steps: int
    side: int


TITLE = "Jacobi iteration of the Poisson equation, gradient for first state and source"
SIZES = {
    "small": Size(steps=100, side=50),
    "medium": Size(steps=100, side=250),
    "large": Size(steps=100, side=1_000),
}
OTHERWISE = (
    "numba_grad, assignment",
    "numba_grad, roll and where",
    "numba_grad, joined",
)
GOALS = [
    NEVER_SLOWER,
    LIKE_BY_HAND,
    NO_MORE_MEMORY,
    NO_MORE_THAN_SCAN,
    EachWay(1.3, OTHERWISE),
    EachWay(1.1, ("numba_grad, scan",)),
]
BOTH = (0, 1)


def inputs(size: Size) -> list[np.ndarray]:
    """First state, whose rim is the condition of Dirichlet; source inside; the state wanted."""
    rng = np.random.default_rng(0)
    whole, inside = (size.side, size.side), (size.side - 2, size.side - 2)
    spacing = 1.0 / (size.side - 1)
    # Sources that move the state by about as much as its neighbors do.
    return [
        rng.normal(size=whole),
        0.1 / spacing**2 * rng.normal(size=inside),
        rng.normal(size=whole),
    ]


def minimal_bytes(size: Size) -> int:
    """Of all sweeps done in cache; one that goes through memory sweep by sweep moves `steps` times
    as much."""
    return 8 * (3 * size.side**2 + 2 * (size.side - 2) ** 2)


def sweep(u: Any, force: Any) -> Any:
    """What the inside becomes."""
    return 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]) + force


def with_frame(size: Size, pad: Any) -> Any:
    """The loss by slices: `pad` puts zeros around the inside, and the rim is added."""
    steps, side = size

    def loss(u: Any, source: Any, wanted: Any) -> Any:
        force = source / (side - 1) ** 2
        rim = u - pad(u[1:-1, 1:-1])
        for _ in range(steps):
            u = rim + pad(sweep(u, force))
        return ((u - wanted) ** 2).sum()

    return loss


def numba_grad(size: Size) -> Prepared:
    return by_numba_grad(with_frame(size, lambda x: np.pad(x, 1)), inputs(size), BOTH)


def with_assignment(size: Size) -> Any:
    """The loss as most people write it, for tensors that can be copied and assigned to."""
    steps, side = size

    def loss(u: Any, source: Any, wanted: Any) -> Any:
        force = source / (side - 1) ** 2
        for _ in range(steps):
            new = u.clone() if hasattr(u, "clone") else u.copy()
            new[1:-1, 1:-1] = sweep(u, force)
            u = new
        return ((u - wanted) ** 2).sum()

    return loss


def rolled(size: Size) -> Prepared:
    """Neighbors by rolling; the rim by a mask."""
    steps, side = size

    def loss(u: Any, source: Any, wanted: Any) -> Any:
        inside = np.zeros((side, side), bool)
        inside[1:-1, 1:-1] = True
        force = np.pad(source / (side - 1) ** 2, 1)
        for _ in range(steps):
            around = np.roll(u, 1, 0) + np.roll(u, -1, 0) + np.roll(u, 1, 1) + np.roll(u, -1, 1)
            u = np.where(inside, 0.25 * around + force, u)
        return ((u - wanted) ** 2).sum()

    return by_numba_grad(loss, inputs(size), BOTH)


def joined(np: Any, size: Size) -> Any:
    """The rim is concatenated to the inside: for libraries that have no gradient of assignment."""
    steps, side = size

    def loss(u: Any, source: Any, wanted: Any) -> Any:
        force = source / (side - 1) ** 2
        top, bottom, left, right = u[:1], u[-1:], u[1:-1, :1], u[1:-1, -1:]
        for _ in range(steps):
            middle = np.concatenate([left, sweep(u, force), right], axis=1)
            u = np.concatenate([top, middle, bottom], axis=0)
        return np.sum((u - wanted) ** 2)

    return loss


def torch_padded(size: Size) -> Any:
    import torch

    return with_frame(size, lambda x: torch.nn.functional.pad(x, (1, 1, 1, 1)))


def with_scan(size: Size) -> Prepared:
    import numba_grad as ng

    steps, side = size

    def loss(u: Any, source: Any, wanted: Any) -> Any:
        force = source / (side - 1) ** 2
        rim = u - np.pad(u[1:-1, 1:-1], 1)

        def one(u: Any, _: None) -> tuple[Any, None]:
            return rim + np.pad(sweep(u, force), 1), None

        u, _ = ng.scan(one, u, None, length=steps)
        return ((u - wanted) ** 2).sum()

    return by_numba_grad(loss, inputs(size), BOTH)


def jax_scan(size: Size) -> Prepared:
    from jax import lax

    steps, side = size

    def loss(u: Any, source: Any, wanted: Any) -> Any:
        force = source / (side - 1) ** 2

        def one(u: Any, _: None) -> tuple[Any, None]:
            return u.at[1:-1, 1:-1].set(sweep(u, force)), None

        u, _ = lax.scan(one, u, None, length=steps)
        return ((u - wanted) ** 2).sum()

    return by_jax(loss, inputs(size), BOTH)


def jax_unrolled(size: Size) -> Prepared:
    import jax.numpy as jnp

    return by_jax(with_frame(size, lambda x: jnp.pad(x, 1)), inputs(size), BOTH)


def autograd(size: Size) -> Prepared:
    import autograd.numpy as anp

    return by_autograd(joined(anp, size), inputs(size), BOTH)


def hand_written(size: Size) -> Prepared:
    """Two states forward, two backward. Small sweeps are too short for a second thread to pay.

    Inside, a sweep is its own adjoint. The gradient of the source is the sum of all adjoint states,
    and that of the rim is, but for the last state, a quarter of this sum next to it.
    """
    import numba

    steps, side = size

    @numba.njit(parallel=side >= 500, fastmath=True)
    def kernel(
        first: np.ndarray,
        source: np.ndarray,
        wanted: np.ndarray,
        force: np.ndarray,
        buffers: np.ndarray,
        gradient: np.ndarray,
        g_source: np.ndarray,
    ) -> tuple[float, np.ndarray, np.ndarray]:
        square = 1.0 / (side - 1) ** 2
        u, new = buffers[0], buffers[1]
        for i in numba.prange(side):
            for j in range(side):
                u[i, j] = new[i, j] = first[i, j]
        for i in numba.prange(side - 2):
            for j in range(side - 2):
                force[i, j] = square * source[i, j]
                g_source[i, j] = 0.0
        for _ in range(steps):
            for i in numba.prange(1, side - 1):
                for j in range(1, side - 1):
                    around = u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1]
                    new[i, j] = 0.25 * around + force[i - 1, j - 1]
            u, new = new, u
        total = 0.0
        # Adjoints inside, with a rim of zeros; those of the rim are added in the end.
        g, other = buffers[2], buffers[3]
        for i in numba.prange(side):
            for j in range(side):
                difference = u[i, j] - wanted[i, j]
                total += difference * difference
                is_inside = 0 < i < side - 1 and 0 < j < side - 1
                g[i, j] = 2.0 * difference if is_inside else 0.0
                gradient[i, j] = 0.0 if is_inside else 2.0 * difference
                other[i, j] = 0.0
        for _ in range(steps):
            for i in numba.prange(1, side - 1):
                for j in range(1, side - 1):
                    g_source[i - 1, j - 1] += g[i, j]
                    around = g[i - 1, j] + g[i + 1, j] + g[i, j - 1] + g[i, j + 1]
                    other[i, j] = 0.25 * around
            g, other = other, g
        for k in range(side - 2):
            gradient[0, k + 1] += 0.25 * g_source[0, k]
            gradient[side - 1, k + 1] += 0.25 * g_source[side - 3, k]
            gradient[k + 1, 0] += 0.25 * g_source[k, 0]
            gradient[k + 1, side - 1] += 0.25 * g_source[k, side - 3]
        for i in numba.prange(1, side - 1):
            for j in range(1, side - 1):
                gradient[i, j] = g[i, j]
                g_source[i - 1, j - 1] *= square
        return total, gradient, g_source

    first, source, wanted = inputs(size)
    kept = [np.zeros_like(source), np.zeros((4, side, side)), np.zeros_like(first)]
    return by_hand(kernel, first, source, wanted, *kept, np.zeros_like(source))


# torch.compile takes 20 s or more for ten steps, and is not done after 200 s with these hundred.
# Dr.Jit has one-dimensional arrays, and slices of them are gathers: not its kind of problem.
IMPLEMENTATIONS = {
    "numba_grad": numba_grad,
    "numba_grad, assignment": lambda size: by_numba_grad(with_assignment(size), inputs(size), BOTH),
    "numba_grad, roll and where": rolled,
    "numba_grad, scan": with_scan,
    "numba_grad, joined": lambda size: by_numba_grad(joined(np, size), inputs(size), BOTH),
    "by hand": hand_written,
    "torch": lambda size: by_torch(with_assignment(size), inputs(size), BOTH),
    "torch, pad": lambda size: by_torch(torch_padded(size), inputs(size), BOTH),
    "jax scan": jax_scan,
    "jax, unrolled": jax_unrolled,
    "autograd": autograd,
}
