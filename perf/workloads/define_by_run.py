"""A chain of operations on a few numbers, recorded afresh each time: the price of recording."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from perf.goals import AtMost, Times
from perf.implementations import Prepared, arrays


class Size(NamedTuple):
    operations: int
    numbers: int


TITLE = "Define by run: recorded, run and differentiated, per operation"
SIZES = {"small": Size(operations=1000, numbers=8)}
GOALS = [
    AtMost(10e-6),
    Times(
        1.0,
        peers=("torch", "autograd"),
        if_missed="Python builds the graph of derivatives and looks its program up: 5 us of 7.6",
    ),
]


def inputs(size: Size) -> np.ndarray:
    return np.linspace(0.1, 0.8, size.numbers)


def chain(size: Size, x: Any, sin: Callable[[Any], Any]) -> Any:
    y = x
    for _ in range(size.operations // 4):
        y = sin(y * x + 0.5)
        y = y - x
    return y.sum()


def numba_grad(size: Size) -> Prepared:
    import numba_grad as ng

    values = inputs(size)

    def run() -> Any:
        x = ng.tensor(values, requires_grad=True)
        loss = chain(size, x, np.sin)
        loss.backward()
        return loss, x.grad

    return Prepared(run, arrays, operations=size.operations)


def torch(size: Size) -> Prepared:
    import torch

    torch.set_num_threads(2)
    values = inputs(size)

    def run() -> Any:
        x = torch.tensor(values, requires_grad=True)
        loss = chain(size, x, torch.sin)
        loss.backward()
        return loss, x.grad

    return Prepared(run, arrays, operations=size.operations)


def autograd(size: Size) -> Prepared:
    import autograd as hips
    import autograd.numpy as anp

    f = hips.value_and_grad(lambda x: chain(size, x, anp.sin))
    values = inputs(size)
    return Prepared(lambda: f(values), arrays, operations=size.operations)


IMPLEMENTATIONS = {"numba_grad": numba_grad, "torch": torch, "autograd": autograd}
