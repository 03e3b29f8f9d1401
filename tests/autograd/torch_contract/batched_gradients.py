"""`is_grads_batched`."""

import numpy as np

from tests.autograd.torch_contract.scenarios import ones, raises, scenario, variable


@scenario
def batched_gradients(lib):
    x, y = variable(lib), variable(lib)
    v = lib.tensor(np.arange(12.0).reshape(4, 3))
    return lib.autograd.grad(lib.exp(x) * y, [x, y], v, is_grads_batched=True)


@scenario
def batched_gradients_of_several_outputs(lib):
    x = variable(lib)
    v = lib.tensor(np.arange(12.0).reshape(4, 3))
    w = lib.tensor(np.arange(4.0))
    return lib.autograd.grad([x * x, (x * x * x).sum()], x, [v, w], is_grads_batched=True)


@scenario
def batched_gradients_of_integers(lib):
    x = variable(lib)
    v, w = lib.tensor(np.arange(6).reshape(2, 3)), lib.tensor(np.arange(2))
    return lib.autograd.grad([x * x, x.sum()], x, [v, w], is_grads_batched=True)


@scenario
def batched_gradients_with_create_graph(lib):
    x = variable(lib)
    v = lib.tensor(np.arange(6.0).reshape(2, 3), requires_grad=True)
    (g,) = lib.autograd.grad(x * x * x, x, v, is_grads_batched=True, create_graph=True)
    return g, lib.autograd.grad(g.sum(), [x, v])


@scenario
def batched_gradients_of_unused_inputs(lib):
    x, y = variable(lib), lib.tensor([1.0], requires_grad=True)
    v = ones(lib, 4, 3)
    return [
        lib.autograd.grad(x * 2, [x, y], v, is_grads_batched=True, **options)
        for options in ({"allow_unused": True}, {"materialize_grads": True})
    ]


@raises("RuntimeError")
def batched_gradients_of_another_shape(lib):
    x = variable(lib)
    lib.autograd.grad(x * 2, x, ones(lib, 4, 2), is_grads_batched=True)


@raises("ValueError")
def batched_gradients_that_are_missing(lib):
    x = variable(lib)
    lib.autograd.grad(x.sum(), x, is_grads_batched=True)


@scenario
def batched_gradients_through_an_edge(lib):
    x = variable(lib)
    edge = lib.autograd.graph.get_gradient_edge(x * x)
    return lib.autograd.grad(edge, x, ones(lib, 4, 3), is_grads_batched=True)


@scenario
def batched_gradients_through_hooks(lib):
    x = variable(lib)
    y = x * x
    y.register_hook(lambda g: g * 3)
    shapes = []
    y.register_hook(lambda g: shapes.append(tuple(g.shape)))
    return lib.autograd.grad(y, x, ones(lib, 4, 3), is_grads_batched=True), shapes
