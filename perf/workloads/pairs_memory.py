"""Peak memory of an all-pairs energy of 20,000 particles: no array of all pairs may exist."""

import resource
import time
from typing import Any

import numpy as np

from perf.implementations import AtMost, Prepared, arrays, by_jax, by_numba_grad, by_torch
from perf.workloads.lennard_jones import positions

PARTICLES = 20_000
TITLE = (
    "All pairs of 20,000 particles, value and gradient: growth of the resident memory at its peak"
)
UNIT = "s"
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


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def growth(by: Any, loss: Any) -> Prepared:
    """Against the peak after the same on ten particles: imports and compilers are not counted."""
    by(loss, [positions(10)]).run()
    before = peak()
    prepared = by(loss, [positions(PARTICLES)])
    start = time.perf_counter()
    out = prepared.run()
    seconds = time.perf_counter() - start
    after = peak()
    value, gradient = arrays(out)
    assert abs(gradient.sum()) < 1e-6 * np.abs(gradient).sum() or not value
    return Prepared(
        lambda: seconds,
        None,
        lambda: {"MB": after - before, "value": float(value)},
        is_own_clock=True,
    )


def numba_grad() -> Prepared:
    return growth(by_numba_grad, energy(np))


def torch() -> Prepared:
    import torch

    return growth(by_torch, energy(torch))


def jax() -> Prepared:
    import jax.numpy as jnp

    return growth(by_jax, energy(jnp))


IMPLEMENTATIONS = {"numba_grad": numba_grad, "torch": torch, "jax": jax}
