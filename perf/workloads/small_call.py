"""One call of a compiled value and gradient of eight numbers, NumPy in and out."""

import math
from typing import Any, NamedTuple

import numpy as np

from perf.goals import AtMost
from perf.implementations import (
    Prepared,
    arrays,
    by_autograd,
    by_hand,
    by_numba_grad,
    by_torch,
    by_torch_compile,
)


class Size(NamedTuple):
    numbers: int


TITLE = "Call of a compiled value and gradient, NumPy in and out"
SIZES = {"small": Size(numbers=8)}
GOALS = [AtMost(6e-6)]


def inputs(size: Size) -> np.ndarray:
    return np.linspace(0.1, 0.8, size.numbers)


def numba_grad(size: Size) -> Prepared:
    prepared = by_numba_grad(lambda x: (np.sin(x) * x).sum(), [inputs(size)])
    call = prepared.run

    def run() -> Any:
        value, (gradient,) = call()
        return np.asarray(value), np.asarray(gradient)

    prepared.run = run
    return prepared


def torch_in_and_out(size: Size, by: Any) -> Prepared:
    """Tensors are made from arrays, and made into arrays, in each run."""
    import torch

    values = inputs(size)
    compiled = by is by_torch_compile

    def loss(x: Any) -> Any:
        return (torch.sin(x) * x).sum()

    of_tensor = torch.compile(loss) if compiled else loss

    def run() -> Any:
        x = torch.from_numpy(values).requires_grad_()
        value = of_tensor(x)
        (gradient,) = torch.autograd.grad(value, x)
        return value.detach().numpy(), gradient.numpy()

    return Prepared(run, arrays)


def jax(size: Size) -> Prepared:
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    f = jax.jit(jax.value_and_grad(lambda x: (jnp.sin(x) * x).sum()))
    values = inputs(size)

    def run() -> Any:
        value, gradient = f(values)
        return np.asarray(value), np.asarray(gradient)

    return Prepared(run, arrays)


def jax_on_device(size: Size) -> Prepared:
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    f = jax.jit(jax.value_and_grad(lambda x: (jnp.sin(x) * x).sum()))
    values = jax.device_put(inputs(size))
    return Prepared(lambda: jax.block_until_ready(f(values)), arrays)


def autograd(size: Size) -> Prepared:
    import autograd.numpy as anp

    return by_autograd(lambda x: anp.sum(anp.sin(x) * x), [inputs(size)])


def hand_written(size: Size) -> Prepared:
    import numba

    @numba.njit
    def kernel(x: np.ndarray) -> tuple[float, np.ndarray]:
        gradient = np.empty_like(x)
        total = 0.0
        for i in range(x.size):
            sine = math.sin(x[i])
            total += sine * x[i]
            gradient[i] = math.cos(x[i]) * x[i] + sine
        return total, gradient

    return by_hand(kernel, inputs(size))


IMPLEMENTATIONS = {
    "numba_grad": numba_grad,
    "by hand": hand_written,
    "torch": lambda size: torch_in_and_out(size, by_torch),
    "torch.compile": lambda size: torch_in_and_out(size, by_torch_compile),
    "jax": jax,
    "jax, arrays on its device": jax_on_device,
    "autograd": autograd,
}
