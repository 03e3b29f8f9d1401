"""Time of one elementwise gradient against the number of elements, over four decades."""

from typing import NamedTuple

import numpy as np

from perf.goals import NEVER_SLOWER
from perf.implementations import Prepared, by_jax, by_numba_grad, by_torch


class Size(NamedTuple):
    elements: int


TITLE = "sum(sin(x) * exp(-x * x)), gradient for x"
SIZES = {f"1e{exponent}": Size(elements=10**exponent) for exponent in range(3, 8)}
GOALS = [NEVER_SLOWER]


def inputs(size: Size) -> list[np.ndarray]:
    return [np.random.default_rng(0).normal(size=size.elements)]


def numba_grad(size: Size) -> Prepared:
    return by_numba_grad(lambda x: (np.sin(x) * np.exp(-x * x)).sum(), inputs(size))


def torch(size: Size) -> Prepared:
    import torch

    return by_torch(lambda x: (torch.sin(x) * torch.exp(-x * x)).sum(), inputs(size))


def jax(size: Size) -> Prepared:
    import jax.numpy as jnp

    return by_jax(lambda x: (jnp.sin(x) * jnp.exp(-x * x)).sum(), inputs(size))


IMPLEMENTATIONS = {"numba_grad": numba_grad, "torch": torch, "jax": jax}
