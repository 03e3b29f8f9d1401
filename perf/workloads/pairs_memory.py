"""Peak memory of an all-pairs energy: no array of all pairs may exist."""

import time
from typing import Any, NamedTuple

import numpy as np

from perf.goals import AtMost
from perf.implementations import Prepared, arrays, by_jax, by_numba_grad, by_torch
from perf.process import peak_megabytes
from perf.workloads.lennard_jones import positions


class Size(NamedTuple):
    particles: int


TITLE = "All pairs, value and gradient: growth of the resident memory at its peak"
SIZES = {"large": Size(particles=20_000)}
REPEATS = 1
MEMORY = 8 << 30
GOALS = [AtMost(200.0, figure="MB")]


def energy(np: Any) -> Any:
    """An array of all pairs would take 3,200 MB; three of them for the differences."""

    def of_positions(x: Any) -> Any:
        difference = x[:, None, :] - x[None, :, :]
        square = 0.01 + (difference * difference).sum(-1)
        return (1.0 / np.sqrt(square)).sum()

    return of_positions


def growth(size: Size, by: Any, loss: Any) -> Prepared:
    """Against the peak after the same on ten particles: imports and compilers are not counted."""
    by(loss, [positions(10)]).run()
    before = peak_megabytes()
    prepared = by(loss, [positions(size.particles)])
    start = time.perf_counter()
    out = prepared.run()
    seconds = time.perf_counter() - start
    after = peak_megabytes()
    value, gradient = arrays(out)
    assert abs(gradient.sum()) < 1e-6 * np.abs(gradient).sum() or not value
    return Prepared(
        lambda: seconds,
        None,
        lambda: {"MB": after - before, "value": float(value)},
        is_own_clock=True,
    )


def numba_grad(size: Size) -> Prepared:
    return growth(size, by_numba_grad, energy(np))


def torch(size: Size) -> Prepared:
    import torch

    return growth(size, by_torch, energy(torch))


def jax(size: Size) -> Prepared:
    import jax.numpy as jnp

    return growth(size, by_jax, energy(jnp))


IMPLEMENTATIONS = {"numba_grad": numba_grad, "torch": torch, "jax": jax}
