"""What tests of Python loops that become one operation share: ways to a gradient, and two loops."""

from collections.abc import Callable
from typing import Any

import numpy
import pytest

import numba_grad as ng
import numba_grad.numpy as np
from numba_grad.transforms import python_loops

Program = Callable[..., Any]


def by_backward(f: Program, *given: Any) -> list[numpy.ndarray]:
    tensors = [ng.tensor(x, requires_grad=True) for x in given]
    value = f(*tensors)
    value.backward()
    return [value.detach().numpy(), *map(gradient_of, tensors)]


def gradient_of(x: Any) -> numpy.ndarray:
    return numpy.zeros(x.shape) if x.grad is None else x.grad.numpy()


def by_grad(f: Program, *given: Any) -> list[numpy.ndarray]:
    value, gradients = ng.value_and_grad(f, argnums=tuple(range(len(given))))(*given)
    return [numpy.asarray(value), *map(numpy.asarray, gradients)]


def by_jit(f: Program, *given: Any) -> list[numpy.ndarray]:
    value, gradients = ng.jit(ng.value_and_grad(f, argnums=tuple(range(len(given)))))(*given)
    return [numpy.asarray(value), *map(numpy.asarray, gradients)]


WAYS = {"backward": by_backward, "grad": by_grad, "jit": by_jit}


def step_by_step(f: Program, *given: Any) -> list[numpy.ndarray]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(python_loops, "FEWEST_NODES", 1 << 40)
        return by_backward(f, *given)


def slope(p: Any, y: Any) -> Any:
    return np.stack([p[0] * y[0] - p[1] * y[0] * y[1], p[2] * y[0] * y[1] - p[3] * y[1]])


def chain(x: Any, steps: int = 60) -> Any:
    for _ in range(steps):
        x = np.sin(x) * 1.1 + 0.1
    return x
