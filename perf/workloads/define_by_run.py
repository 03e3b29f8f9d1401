"""A chain of operations on a few numbers, recorded afresh each time: the price of recording."""

from collections.abc import Callable
from typing import Any

import numpy as np

from perf.implementations import AtMost, Prepared, TimesFaster, arrays

OPERATIONS = 1000
TITLE = (
    "Define by run: 1,000 operations on 8 numbers, recorded, run and differentiated, per operation"
)
UNIT = "us"
GOALS = [
    AtMost(10.0),
    TimesFaster(
        1.0,
        peers=("torch", "autograd"),
        if_missed="Python builds the graph of derivatives and looks its program up: 5 us of 7.9",
    ),
]


def inputs() -> np.ndarray:
    return np.linspace(0.1, 0.8, 8)


def chain(x: Any, sin: Callable[[Any], Any]) -> Any:
    y = x
    for _ in range(OPERATIONS // 4):
        y = sin(y * x + 0.5)
        y = y - x
    return y.sum()


def numba_grad() -> Prepared:
    import numba_grad as ng

    values = inputs()

    def run() -> Any:
        x = ng.tensor(values, requires_grad=True)
        loss = chain(x, np.sin)
        loss.backward()
        return loss, x.grad

    return Prepared(run, arrays, operations=OPERATIONS)


def torch() -> Prepared:
    import torch

    torch.set_num_threads(2)
    values = inputs()

    def run() -> Any:
        x = torch.tensor(values, requires_grad=True)
        loss = chain(x, torch.sin)
        loss.backward()
        return loss, x.grad

    return Prepared(run, arrays, operations=OPERATIONS)


def autograd() -> Prepared:
    import autograd as hips
    import autograd.numpy as anp

    f = hips.value_and_grad(lambda x: chain(x, anp.sin))
    values = inputs()
    return Prepared(lambda: f(values), arrays, operations=OPERATIONS)


IMPLEMENTATIONS = {"numba_grad": numba_grad, "torch": torch, "autograd": autograd}
