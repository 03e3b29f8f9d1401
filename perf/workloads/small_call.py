"""One call of a compiled value and gradient of eight numbers, NumPy in and out."""

import math
from typing import Any

import numpy as np

from perf.implementations import (
    AtMost,
    Prepared,
    arrays,
    by_autograd,
    by_hand,
    by_numba_grad,
    by_torch,
    by_torch_compile,
)

TITLE = "Call of a compiled value and gradient of 8 numbers, NumPy in and out"
UNIT = "us"
GOALS = [AtMost(6.0)]


def inputs() -> np.ndarray:
    return np.linspace(0.1, 0.8, 8)


def numba_grad() -> Prepared:
    prepared = by_numba_grad(lambda x: (np.sin(x) * x).sum(), [inputs()])
    call = prepared.run

    def run() -> Any:
        value, (gradient,) = call()
        return np.asarray(value), np.asarray(gradient)

    prepared.run = run
    return prepared


def torch_in_and_out(by: Any) -> Prepared:
    """Tensors are made from arrays, and made into arrays, in each run."""
    import torch

    values = inputs()
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


def jax() -> Prepared:
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    f = jax.jit(jax.value_and_grad(lambda x: (jnp.sin(x) * x).sum()))
    values = inputs()

    def run() -> Any:
        value, gradient = f(values)
        return np.asarray(value), np.asarray(gradient)

    return Prepared(run, arrays)


def jax_on_device() -> Prepared:
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    f = jax.jit(jax.value_and_grad(lambda x: (jnp.sin(x) * x).sum()))
    values = jax.device_put(inputs())
    return Prepared(lambda: jax.block_until_ready(f(values)), arrays)


def autograd() -> Prepared:
    import autograd.numpy as anp

    return by_autograd(lambda x: anp.sum(anp.sin(x) * x), [inputs()])


def hand_written() -> Prepared:
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

    return by_hand(kernel, inputs())


IMPLEMENTATIONS = {
    "numba_grad": numba_grad,
    "by hand": hand_written,
    "torch": lambda: torch_in_and_out(by_torch),
    "torch.compile": lambda: torch_in_and_out(by_torch_compile),
    "jax": jax,
    "jax, arrays on its device": jax_on_device,
    "autograd": autograd,
}
