"""Three layers of LSTM over a hundred steps, in plain Python loops: small products, many steps."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from perf.goals import NEVER_SLOWER, NO_MORE_MEMORY, NO_MORE_THAN_SCAN, EachWay, Times
from perf.implementations import (
    VALUE_ONLY,
    Prepared,
    by_autograd,
    by_jax,
    by_numba_grad,
    by_torch,
    value_by_numba_grad,
)


class Size(NamedTuple):
    steps: int
    layers: int
    width: int
    batch: int


TITLE = "LSTM predicting its next input, gradient for all weights"
SIZES = {
    "small": Size(steps=100, layers=3, width=14, batch=1),  # as in ADBench
    "medium": Size(steps=100, layers=3, width=32, batch=16),
    "large": Size(steps=100, layers=3, width=128, batch=64),
}
OTHERWISE = ("numba_grad, outputs stacked", "numba_grad, states assigned")
GOALS = [
    NEVER_SLOWER,
    NO_MORE_MEMORY,
    NO_MORE_THAN_SCAN,
    Times(1 / 3, peers=(VALUE_ONLY,)),
    EachWay(1.3, OTHERWISE),
    EachWay(1.1, ("numba_grad, scan",)),
]
WEIGHTS = (0, 1, 2, 3)


def inputs(size: Size) -> list[np.ndarray]:
    """Weights of inputs, of states, biases, of the prediction; the sequence."""
    rng = np.random.default_rng(0)
    steps, layers, width, batch = size
    scale = width**-0.5
    return [
        scale * rng.normal(size=(layers, width, 4 * width)),
        scale * rng.normal(size=(layers, width, 4 * width)),
        0.1 * rng.normal(size=(layers, 4 * width)),
        scale * rng.normal(size=(width, width)),
        rng.normal(size=(steps, batch, width)),
    ]


def cell(sigmoid: Any, tanh: Any, width: int) -> Callable[..., Any]:
    """One step of one layer: new output and memory."""

    def step(x: Any, h: Any, c: Any, of_input: Any, of_state: Any, bias: Any) -> tuple[Any, Any]:
        gates = x @ of_input + h @ of_state + bias
        taken, kept = sigmoid(gates[:, :width]), sigmoid(gates[:, width : 2 * width])
        new, shown = tanh(gates[:, 2 * width : 3 * width]), sigmoid(gates[:, 3 * width :])
        c = kept * c + taken * new
        return shown * tanh(c), c

    return step


def in_a_loop(size: Size, step: Callable[..., Any], zeros: Callable[..., Any]) -> Any:
    """The loss with plain Python loops over time and layers."""
    steps, layers, width, batch = size

    def loss(of_input: Any, of_state: Any, bias: Any, readout: Any, sequence: Any) -> Any:
        hs = [zeros((batch, width)) for _ in range(layers)]
        cs = [zeros((batch, width)) for _ in range(layers)]
        total = 0.0
        for k in range(steps - 1):
            x = sequence[k]
            for n in range(layers):
                hs[n], cs[n] = step(x, hs[n], cs[n], of_input[n], of_state[n], bias[n])
                x = hs[n]
            total = total + ((x @ readout - sequence[k + 1]) ** 2).sum()
        return total / (steps * batch)

    return loss


def numba_grad_loss(size: Size, with_jitted_step: bool = False) -> Any:
    import numba_grad as ng

    step = cell(ng.sigmoid, np.tanh, size.width)
    return in_a_loop(size, ng.jit(step) if with_jitted_step else step, ng.zeros)


def with_outputs_stacked(size: Size) -> Prepared:
    """The states of a layer in a list that grows, all predictions at the end."""
    import numba_grad as ng

    steps, layers, width, batch = size
    step = cell(ng.sigmoid, np.tanh, width)

    def loss(of_input: Any, of_state: Any, bias: Any, readout: Any, sequence: Any) -> Any:
        hs = [[ng.zeros((batch, width))] for _ in range(layers)]
        cs = [ng.zeros((batch, width)) for _ in range(layers)]
        for k in range(steps - 1):
            x = sequence[k]
            for n in range(layers):
                x, cs[n] = step(x, hs[n][-1], cs[n], of_input[n], of_state[n], bias[n])
                hs[n].append(x)
        predicted = np.stack(hs[-1][1:]) @ readout
        return ((predicted - sequence[1:]) ** 2).sum() / (steps * batch)

    return by_numba_grad(loss, inputs(size), WEIGHTS)


def with_states_assigned(size: Size) -> Prepared:
    """States of all layers in one array, predictions in another: rows are assigned to."""
    import numba_grad as ng

    steps, layers, width, batch = size
    step = cell(ng.sigmoid, np.tanh, width)

    def loss(of_input: Any, of_state: Any, bias: Any, readout: Any, sequence: Any) -> Any:
        h, c = ng.zeros((layers, batch, width)), ng.zeros((layers, batch, width))
        predicted = ng.zeros((steps - 1, batch, width))
        for k in range(steps - 1):
            x = sequence[k]
            for n in range(layers):
                x, memory = step(x, h[n], c[n], of_input[n], of_state[n], bias[n])
                h[n] = x
                c[n] = memory
            predicted[k] = x @ readout
        return ((predicted - sequence[1:]) ** 2).sum() / (steps * batch)

    return by_numba_grad(loss, inputs(size), WEIGHTS)


def torch_loss(size: Size) -> Any:
    import torch

    def zeros(shape: tuple[int, ...]) -> Any:
        return torch.zeros(shape, dtype=torch.float64)

    return in_a_loop(size, cell(torch.sigmoid, torch.tanh, size.width), zeros)


def torch_module(size: Size) -> Prepared:
    """torch's own kernels for the whole sequence. They know transposed weights and two biases."""
    import torch

    torch.set_num_threads(2)
    steps, layers, width, batch = size
    of_input, of_state, bias, readout, sequence = (torch.tensor(x) for x in inputs(size))
    lstm = torch.nn.LSTM(width, width, layers).double()
    with torch.no_grad():
        for n in range(layers):
            getattr(lstm, f"weight_ih_l{n}").copy_(of_input[n].T)
            getattr(lstm, f"weight_hh_l{n}").copy_(of_state[n].T)
            getattr(lstm, f"bias_ih_l{n}").copy_(bias[n])
            getattr(lstm, f"bias_hh_l{n}").zero_().requires_grad_(False)
    readout.requires_grad_()
    names = ("weight_ih_l", "weight_hh_l", "bias_ih_l")
    leaves = [getattr(lstm, f"{name}{n}") for name in names for n in range(layers)]

    def run() -> Any:
        out, _ = lstm(sequence[:-1])
        value = ((out @ readout - sequence[1:]) ** 2).sum() / (steps * batch)
        return value, torch.autograd.grad(value, [*leaves, readout])

    def results(out: Any) -> list[np.ndarray]:
        value, gradients = out
        stacked = [
            np.stack([g.numpy().T for g in gradients[k : k + layers]])
            for k in range(0, 3 * layers, layers)
        ]
        return [value.detach().numpy(), *stacked, gradients[-1].numpy()]

    return Prepared(run, results)


def by_scan(size: Size, step: Callable[..., Any], scan: Any, zeros: Callable[..., Any]) -> Any:
    """The loss with a loop as an operation, that carries the states of all layers."""
    steps, layers, width, batch = size

    def loss(of_input: Any, of_state: Any, bias: Any, readout: Any, sequence: Any) -> Any:
        def one(carry: Any, given: Any) -> Any:
            hs, cs = carry
            x, wanted = given
            new_hs, new_cs = [], []
            for n in range(layers):
                x, c = step(x, hs[n], cs[n], of_input[n], of_state[n], bias[n])
                new_hs.append(x)
                new_cs.append(c)
            return (tuple(new_hs), tuple(new_cs)), ((x @ readout - wanted) ** 2).sum()

        start = tuple(zeros((batch, width)) for _ in range(layers))
        _, losses = scan(one, (start, start), (sequence[:-1], sequence[1:]))
        return losses.sum() / (steps * batch)

    return loss


def jax_scan(size: Size) -> Prepared:
    import jax.numpy as jnp
    from jax import lax, nn

    loss = by_scan(size, cell(nn.sigmoid, jnp.tanh, size.width), lax.scan, jnp.zeros)
    return by_jax(loss, inputs(size), WEIGHTS)


def with_scan(size: Size) -> Prepared:
    import numba_grad as ng

    loss = by_scan(size, cell(ng.sigmoid, np.tanh, size.width), ng.scan, ng.zeros)
    return by_numba_grad(loss, inputs(size), WEIGHTS)


def jax_unrolled(size: Size) -> Prepared:
    import jax.numpy as jnp
    from jax import nn

    loss = in_a_loop(size, cell(nn.sigmoid, jnp.tanh, size.width), jnp.zeros)
    return by_jax(loss, inputs(size), WEIGHTS)


def autograd(size: Size) -> Prepared:
    import autograd.numpy as anp

    def sigmoid(x: Any) -> Any:
        return 0.5 * (anp.tanh(0.5 * x) + 1.0)

    return by_autograd(
        in_a_loop(size, cell(sigmoid, anp.tanh, size.width), np.zeros), inputs(size), WEIGHTS
    )


IMPLEMENTATIONS = {
    "numba_grad": lambda size: by_numba_grad(numba_grad_loss(size), inputs(size), WEIGHTS),
    "numba_grad, jitted step": lambda size: by_numba_grad(
        numba_grad_loss(size, with_jitted_step=True), inputs(size), WEIGHTS
    ),
    "numba_grad, outputs stacked": with_outputs_stacked,
    "numba_grad, states assigned": with_states_assigned,
    "numba_grad, scan": with_scan,
    VALUE_ONLY: lambda size: value_by_numba_grad(numba_grad_loss(size), inputs(size)),
    "torch": lambda size: by_torch(torch_loss(size), inputs(size), WEIGHTS),
    "torch nn.LSTM": torch_module,
    # torch.compile: 300 unrolled cells are not ready in 180 s.
    "jax scan": jax_scan,
    "jax, unrolled": jax_unrolled,
    "autograd": autograd,
}
