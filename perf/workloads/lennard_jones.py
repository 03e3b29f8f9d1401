"""Energy and forces of particles that all attract and repel each other: an all-pairs sum."""

from typing import Any, NamedTuple

import numpy as np

from perf.goals import LIKE_BY_HAND, NEVER_SLOWER, NO_MORE_MEMORY, EachWay, Times
from perf.implementations import (
    ONE_THREAD,
    Prepared,
    by_autograd,
    by_drjit,
    by_hand,
    by_jax,
    by_numba_grad,
    by_pytensor,
    by_torch,
    by_torch_compile,
    on_one_thread,
)


class Size(NamedTuple):
    particles: int


TITLE = "Lennard-Jones, forces on particles, all pairs"
SIZES = {
    "small": Size(particles=100),
    "medium": Size(particles=1_000),
    "large": Size(particles=4_000),
}
OTHERWISE = ("numba_grad, identity matrix", "numba_grad, filled diagonal")
GOALS = [
    NEVER_SLOWER,
    LIKE_BY_HAND,
    NO_MORE_MEMORY,
    Times(3.0),
    EachWay(1.3, OTHERWISE),
    Times(1.8, peers=(ONE_THREAD,), sizes=("large",)),
]


def positions(count: int) -> np.ndarray:
    """A cubic lattice, shaken."""
    side = int(np.ceil(count ** (1 / 3)))
    lattice = np.stack(np.meshgrid(*3 * [np.arange(side)], indexing="ij"), axis=-1)
    shake = np.random.default_rng(0).normal(scale=0.05, size=(count, 3))
    return 1.2 * lattice.reshape(-1, 3)[:count] + shake


def numba_grad(size: Size) -> Prepared:
    import numba_grad as ng

    def energy(x: Any) -> Any:
        number = ng.arange(size.particles)
        difference = x[:, None, :] - x[None, :, :]
        square = (difference * difference).sum(axis=-1)
        is_self = number[:, None] == number[None, :]
        inverse = np.where(is_self, 0.0, 1.0 / np.where(is_self, 1.0, square))
        sixth = inverse * inverse * inverse
        return 2.0 * (sixth * sixth - sixth).sum()

    return by_numba_grad(energy, [positions(size.particles)])


def with_identity_matrix(size: Size) -> Prepared:
    """Each particle as far from itself as it takes for nothing to be left of the pair."""

    def energy(x: Any) -> Any:
        difference = x[:, None, :] - x[None, :, :]
        alone = np.eye(size.particles)
        square = (difference * difference).sum(axis=-1) + alone
        sixth = 1.0 / square**3
        return 2.0 * ((sixth * sixth - sixth) * (1.0 - alone)).sum()

    return by_numba_grad(energy, [positions(size.particles)])


def with_filled_diagonal(size: Size) -> Prepared:
    def energy(x: Any) -> Any:
        difference = x[:, None, :] - x[None, :, :]
        square = (difference * difference).sum(axis=-1)
        np.fill_diagonal(square, np.inf)
        sixth = 1.0 / square**3
        return 2.0 * (sixth * sixth - sixth).sum()

    return by_numba_grad(energy, [positions(size.particles)])


def torch_energy(size: Size) -> Any:
    import torch

    def energy(x: Any) -> Any:
        is_self = torch.eye(size.particles, dtype=torch.bool)
        difference = x[:, None, :] - x[None, :, :]
        square = (difference * difference).sum(dim=-1)
        inverse = torch.where(is_self, 0.0, 1.0 / torch.where(is_self, 1.0, square))
        sixth = inverse * inverse * inverse
        return 2.0 * (sixth * sixth - sixth).sum()

    return energy


def of_numpy(size: Size, np: Any) -> Any:
    """The energy in a library with NumPy's functions."""

    def energy(x: Any) -> Any:
        is_self = np.eye(size.particles, dtype=bool)
        difference = x[:, None, :] - x[None, :, :]
        square = (difference * difference).sum(axis=-1)
        inverse = np.where(is_self, 0.0, 1.0 / np.where(is_self, 1.0, square))
        sixth = inverse * inverse * inverse
        return 2.0 * (sixth * sixth - sixth).sum()

    return energy


def jax(size: Size) -> Prepared:
    import jax.numpy as jnp

    return by_jax(of_numpy(size, jnp), [positions(size.particles)])


def autograd(size: Size) -> Prepared:
    import autograd.numpy as anp

    def energy(x: Any) -> Any:
        is_self = anp.eye(size.particles, dtype=bool)
        difference = x[:, None, :] - x[None, :, :]
        square = anp.sum(difference * difference, axis=-1)
        inverse = anp.where(is_self, 0.0, 1.0 / anp.where(is_self, 1.0, square))
        sixth = inverse * inverse * inverse
        return 2.0 * anp.sum(sixth * sixth - sixth)

    return by_autograd(energy, [positions(size.particles)])


def drjit(size: Size) -> Prepared:
    """A lane for each pair: Dr.Jit has no all-pairs expression."""
    import drjit as dr
    from drjit.llvm import UInt32
    from drjit.llvm.ad import Float64

    def energy(*x: Any) -> Any:
        n = size.particles
        lane = dr.arange(UInt32, n * n)
        i, j = lane // n, lane % n
        square = Float64(0.0)
        for axis in x:
            square += dr.square(dr.gather(Float64, axis, i) - dr.gather(Float64, axis, j))
        is_self = i == j
        inverse = dr.select(is_self, 0.0, 1.0 / dr.select(is_self, 1.0, square))
        sixth = inverse * inverse * inverse
        return 2.0 * dr.sum(sixth * sixth - sixth)

    columns = [np.ascontiguousarray(column) for column in positions(size.particles).T]
    prepared = by_drjit(energy, columns, (0, 1, 2))
    split = prepared.results
    assert split is not None

    def results(out: Any) -> list[np.ndarray]:
        value, *gradients = split(out)
        return [value, np.stack(gradients, axis=1)]

    prepared.results = results
    return prepared


def pytensor(size: Size) -> Prepared:
    import pytensor.tensor as pt

    return by_pytensor(of_numpy(size, pt), [positions(size.particles)])


def hand_written(size: Size) -> Prepared:
    import numba

    @numba.njit(parallel=size.particles > 500, fastmath=True)
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

    return by_hand(of_positions, positions(size.particles), np.zeros((size.particles, 3)))


IMPLEMENTATIONS = {
    "numba_grad": numba_grad,
    "numba_grad, identity matrix": with_identity_matrix,
    "numba_grad, filled diagonal": with_filled_diagonal,
    ONE_THREAD: on_one_thread(numba_grad),
    "by hand": hand_written,
    "torch": lambda size: by_torch(torch_energy(size), [positions(size.particles)]),
    "torch.compile": lambda size: by_torch_compile(torch_energy(size), [positions(size.particles)]),
    "jax": jax,
    "drjit": drjit,
    "pytensor": pytensor,
    "autograd": autograd,
}
