"""Energy and forces of particles that all attract and repel each other: an all-pairs sum."""

from typing import Any

import numpy as np

from perf.implementations import (
    AGAINST_BEST,
    AGAINST_HAND,
    Prepared,
    by_autograd,
    by_drjit,
    by_hand,
    by_jax,
    by_numba_grad,
    by_torch,
    by_torch_compile,
)

PARTICLES = 1000
TITLE = "Lennard-Jones, forces on 1,000 particles, all pairs"
UNIT = "ms"
GOALS = [AGAINST_BEST, AGAINST_HAND]


def positions(count: int = PARTICLES) -> np.ndarray:
    """A cubic lattice, shaken."""
    side = int(np.ceil(count ** (1 / 3)))
    lattice = np.stack(np.meshgrid(*3 * [np.arange(side)], indexing="ij"), axis=-1)
    shake = np.random.default_rng(0).normal(scale=0.05, size=(count, 3))
    return 1.2 * lattice.reshape(-1, 3)[:count] + shake


def numba_grad() -> Prepared:
    import numba_grad as ng

    def energy(x: Any) -> Any:
        number = ng.arange(PARTICLES)
        difference = x[:, None, :] - x[None, :, :]
        square = (difference * difference).sum(axis=-1)
        is_self = number[:, None] == number[None, :]
        inverse = np.where(is_self, 0.0, 1.0 / np.where(is_self, 1.0, square))
        sixth = inverse * inverse * inverse
        return 2.0 * (sixth * sixth - sixth).sum()

    return by_numba_grad(energy, [positions()])


def torch_energy() -> Any:
    import torch

    def energy(x: Any) -> Any:
        is_self = torch.eye(PARTICLES, dtype=torch.bool)
        difference = x[:, None, :] - x[None, :, :]
        square = (difference * difference).sum(dim=-1)
        inverse = torch.where(is_self, 0.0, 1.0 / torch.where(is_self, 1.0, square))
        sixth = inverse * inverse * inverse
        return 2.0 * (sixth * sixth - sixth).sum()

    return energy


def of_numpy(np: Any) -> Any:
    """The energy in a library with NumPy's functions."""

    def energy(x: Any) -> Any:
        is_self = np.eye(PARTICLES, dtype=bool)
        difference = x[:, None, :] - x[None, :, :]
        square = (difference * difference).sum(axis=-1)
        inverse = np.where(is_self, 0.0, 1.0 / np.where(is_self, 1.0, square))
        sixth = inverse * inverse * inverse
        return 2.0 * (sixth * sixth - sixth).sum()

    return energy


def jax() -> Prepared:
    import jax.numpy as jnp

    return by_jax(of_numpy(jnp), [positions()])


def autograd() -> Prepared:
    import autograd.numpy as anp

    def energy(x: Any) -> Any:
        is_self = anp.eye(PARTICLES, dtype=bool)
        difference = x[:, None, :] - x[None, :, :]
        square = anp.sum(difference * difference, axis=-1)
        inverse = anp.where(is_self, 0.0, 1.0 / anp.where(is_self, 1.0, square))
        sixth = inverse * inverse * inverse
        return 2.0 * anp.sum(sixth * sixth - sixth)

    return by_autograd(energy, [positions()])


def drjit() -> Prepared:
    """A lane for each pair: Dr.Jit has no all-pairs expression."""
    import drjit as dr
    from drjit.llvm import UInt32
    from drjit.llvm.ad import Float64

    def energy(*x: Any) -> Any:
        lane = dr.arange(UInt32, PARTICLES * PARTICLES)
        i, j = lane // PARTICLES, lane % PARTICLES
        square = Float64(0.0)
        for axis in x:
            square += dr.square(dr.gather(Float64, axis, i) - dr.gather(Float64, axis, j))
        is_self = i == j
        inverse = dr.select(is_self, 0.0, 1.0 / dr.select(is_self, 1.0, square))
        sixth = inverse * inverse * inverse
        return 2.0 * dr.sum(sixth * sixth - sixth)

    columns = [np.ascontiguousarray(column) for column in positions().T]
    prepared = by_drjit(energy, columns, (0, 1, 2))
    split = prepared.results
    assert split is not None

    def results(out: Any) -> list[np.ndarray]:
        value, *gradients = split(out)
        return [value, np.stack(gradients, axis=1)]

    prepared.results = results
    return prepared


def hand_written() -> Prepared:
    import numba

    @numba.njit(parallel=True, fastmath=True)
    def kernel(x: np.ndarray, gradient: np.ndarray) -> tuple[float, np.ndarray]:
        n = x.shape[1]
        energy = 0.0
        for i in numba.prange(n):
            a, b, c = x[0, i], x[1, i], x[2, i]
            total, ga, gb, gc = 0.0, 0.0, 0.0, 0.0
            for j in range(n):
                da, db, dc = a - x[0, j], b - x[1, j], c - x[2, j]
                square = da * da + db * db + dc * dc
                inverse = 0.0 if i == j else 1.0 / square
                sixth = inverse * inverse * inverse
                total += sixth * sixth - sixth
                factor = (24.0 * sixth - 48.0 * sixth * sixth) * inverse
                ga += factor * da
                gb += factor * db
                gc += factor * dc
            energy += 2.0 * total
            gradient[i, 0], gradient[i, 1], gradient[i, 2] = ga, gb, gc
        return energy, gradient

    def of_positions(x: np.ndarray, gradient: np.ndarray) -> tuple[float, np.ndarray]:
        return kernel(np.ascontiguousarray(x.T), gradient)

    return by_hand(of_positions, positions(), np.zeros((PARTICLES, 3)))


IMPLEMENTATIONS = {
    "numba_grad": numba_grad,
    "by hand": hand_written,
    "torch": lambda: by_torch(torch_energy(), [positions()]),
    "torch.compile": lambda: by_torch_compile(torch_energy(), [positions()]),
    "jax": jax,
    "drjit": drjit,
    "autograd": autograd,
}
