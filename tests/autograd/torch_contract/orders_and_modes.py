"""Derivatives of derivatives, and what records them."""

from tests.autograd.torch_contract.scenarios import scenario, variable


@scenario
def gradients_of_gradients(lib):
    x = variable(lib)
    results = []
    y = (x * x * x * x).sum()
    for _ in range(4):
        (g,) = lib.autograd.grad(y, x, create_graph=True)
        results.append((g, g.requires_grad))
        y = g.sum()
    return results


@scenario
def mixed_partials(lib):
    x, y = variable(lib), variable(lib)
    z = (x * x * y * y * y).sum()
    (gx,) = lib.autograd.grad(z, x, create_graph=True)
    return lib.autograd.grad(gx.sum(), [x, y])


@scenario
def penalty_on_the_gradient(lib):
    x, w = variable(lib), variable(lib)
    y = lib.exp(x * w).sum()
    (g,) = lib.autograd.grad(y, x, create_graph=True)
    (y + (g * g).sum()).backward()
    return x.grad, w.grad


@scenario
def gradient_of_a_linear_function_has_no_history(lib):
    x = variable(lib)
    (g,) = lib.autograd.grad((x * 2).sum(), x, create_graph=True)
    return g, g.requires_grad


@scenario
def gradient_by_the_given_gradient(lib):
    x = variable(lib)
    v = lib.tensor([1.0, 2.0, 3.0], requires_grad=True)
    (g,) = lib.autograd.grad(x * x, x, v, create_graph=True)
    return lib.autograd.grad(g.sum(), [v, x])


@scenario
def gradients_without_create_graph_have_no_history(lib):
    x = variable(lib)
    v = lib.tensor([1.0, 2.0, 3.0], requires_grad=True)
    (g,) = lib.autograd.grad(x * x, x, v)
    return g.requires_grad, g.is_leaf, g.grad_fn


@scenario
def create_graph_inside_no_grad(lib):
    x = variable(lib)
    y = (x * x * x).sum()
    with lib.no_grad():
        (g,) = lib.autograd.grad(y, x, create_graph=True)
        return g.requires_grad, lib.is_grad_enabled()


@scenario
def hooks_record_only_with_create_graph(lib):
    x = variable(lib)
    seen = []
    x.register_hook(lambda g: seen.append((lib.is_grad_enabled(), (x * 2).requires_grad)))
    (x * x).sum().backward()
    (x * x).sum().backward(create_graph=True)
    return seen
