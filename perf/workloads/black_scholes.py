"""European call options and their five derivatives: elementary functions over many elements."""

import math
from typing import Any, NamedTuple

import numpy as np

from perf.goals import LIKE_BY_HAND, NEVER_SLOWER, NO_MORE_MEMORY, Times
from perf.implementations import (
    ONE_THREAD,
    VALUE_ONLY,
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
    value_by_numba_grad,
)


class Size(NamedTuple):
    options: int


TITLE = "Black-Scholes, gradient for 5 inputs"
SIZES = {
    "small": Size(options=10_000),
    "medium": Size(options=1_000_000),
    "large": Size(options=10_000_000),
}
GOALS = [
    NEVER_SLOWER,
    LIKE_BY_HAND,
    NO_MORE_MEMORY,
    Times(1.5),
    Times(1 / 2.5, peers=(VALUE_ONLY,)),
    Times(1.8, peers=(ONE_THREAD,), sizes=("large",)),
]
ALL = (0, 1, 2, 3, 4)
ROOT_HALF = math.sqrt(0.5)


def minimal_bytes(size: Size) -> int:
    """Five inputs and their gradients."""
    return 10 * 8 * size.options


def inputs(size: Size) -> list[np.ndarray]:
    """Spot price, strike, time to maturity in years, interest rate and volatility."""
    n = size.options
    draw = np.random.default_rng(0).uniform
    return [
        draw(10.0, 50.0, n),
        draw(10.0, 50.0, n),
        draw(0.5, 2.0, n),
        draw(0.01, 0.05, n),
        draw(0.1, 0.5, n),
    ]


def total_price(log: Any, sqrt: Any, exp: Any, erf: Any, total: Any) -> Any:
    """The loss in the functions of one library."""

    def normal(x: Any) -> Any:
        return 0.5 * (1.0 + erf(x * ROOT_HALF))

    def loss(spot: Any, strike: Any, years: Any, rate: Any, volatility: Any) -> Any:
        spread = volatility * sqrt(years)
        d1 = (log(spot / strike) + (rate + 0.5 * volatility * volatility) * years) / spread
        d2 = d1 - spread
        return total(spot * normal(d1) - strike * exp(-rate * years) * normal(d2))

    return loss


def numba_grad_loss() -> Any:
    import numba_grad as ng

    return total_price(np.log, np.sqrt, np.exp, ng.erf, np.sum)


def numba_grad(size: Size) -> Prepared:
    return by_numba_grad(numba_grad_loss(), inputs(size), ALL)


def torch_loss() -> Any:
    import torch

    return total_price(torch.log, torch.sqrt, torch.exp, torch.erf, torch.sum)


def jax(size: Size) -> Prepared:
    import jax.numpy as jnp
    from jax.scipy.special import erf

    return by_jax(total_price(jnp.log, jnp.sqrt, jnp.exp, erf, jnp.sum), inputs(size), ALL)


def autograd(size: Size) -> Prepared:
    import autograd.numpy as anp
    from autograd.scipy.special import erf

    return by_autograd(total_price(anp.log, anp.sqrt, anp.exp, erf, anp.sum), inputs(size), ALL)


def drjit(size: Size) -> Prepared:
    import drjit as dr

    return by_drjit(total_price(dr.log, dr.sqrt, dr.exp, dr.erf, dr.sum), inputs(size), ALL)


def pytensor(size: Size) -> Prepared:
    import pytensor.tensor as pt

    return by_pytensor(total_price(pt.log, pt.sqrt, pt.exp, pt.erf, pt.sum), inputs(size), ALL)


def hand_written(size: Size) -> Prepared:
    import numba

    @numba.njit(parallel=True, fastmath=True)
    def kernel(
        spot: np.ndarray,
        strike: np.ndarray,
        years: np.ndarray,
        rate: np.ndarray,
        volatility: np.ndarray,
        gradients: np.ndarray,
    ) -> tuple[float, np.ndarray]:
        total = 0.0
        for i in numba.prange(spot.size):
            root = math.sqrt(years[i])
            spread = volatility[i] * root
            drift = rate[i] + 0.5 * volatility[i] * volatility[i]
            d1 = (math.log(spot[i] / strike[i]) + drift * years[i]) / spread
            d2 = d1 - spread
            first = 0.5 * (1.0 + math.erf(d1 * ROOT_HALF))
            second = 0.5 * (1.0 + math.erf(d2 * ROOT_HALF))
            discounted = strike[i] * math.exp(-rate[i] * years[i])
            # spot * density(d1) = discounted * density(d2): the terms through d1 and d2 cancel.
            density = spot[i] * math.exp(-0.5 * d1 * d1) * 0.3989422804014327
            total += spot[i] * first - discounted * second
            gradients[0, i] = first
            gradients[1, i] = -discounted * second / strike[i]
            gradients[2, i] = rate[i] * discounted * second + 0.5 * density * volatility[i] / root
            gradients[3, i] = years[i] * discounted * second
            gradients[4, i] = density * root
        return total, gradients

    return by_hand(
        kernel,
        *inputs(size),
        np.zeros((5, size.options)),
        results=lambda out: [np.asarray(out[0]), *out[1]],
    )


IMPLEMENTATIONS = {
    "numba_grad": numba_grad,
    VALUE_ONLY: lambda size: value_by_numba_grad(numba_grad_loss(), inputs(size)),
    ONE_THREAD: on_one_thread(numba_grad),
    "by hand": hand_written,
    "torch": lambda size: by_torch(torch_loss(), inputs(size), ALL),
    "torch.compile": lambda size: by_torch_compile(torch_loss(), inputs(size), ALL),
    "jax": jax,
    "drjit": drjit,
    "pytensor": pytensor,
    "autograd": autograd,
}
