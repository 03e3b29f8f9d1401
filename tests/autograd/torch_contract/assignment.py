"""Assignment in place."""

from tests.autograd.torch_contract.scenarios import raises, scenario, variable


@raises("RuntimeError")
def leaves_refuse_assignment(lib):
    x = variable(lib)
    x += 1


@raises("RuntimeError")
def leaves_refuse_assignment_of_parts(lib):
    x = variable(lib)
    x[0] = 1


@scenario
def leaves_under_no_grad_keep_their_gradient(lib):
    x = variable(lib)
    x.register_hook(lambda g: g * 2)
    x.sum().backward()
    with lib.no_grad():
        x -= x.grad
    x.sum().backward()
    return x, x.grad, x.is_leaf, x.requires_grad


@scenario
def versions_of_a_leaf_share_hooks_and_gradients(lib):
    x = variable(lib)
    calls = []
    x.register_hook(lambda g: calls.append(lib.array(g).copy()))
    y = (x + 1).sum()
    with lib.no_grad():
        x += 1
    z = (x + 3).sum()
    (y + z).backward(retain_graph=True)
    return calls, x.grad, lib.autograd.grad(y + z, x)


@scenario
def gradients_of_assignment(lib):
    x, v = variable(lib), lib.tensor(2.0, requires_grad=True)
    y = x * 2
    y[1] = v
    (y * y).sum().backward()
    return x.grad, v.grad


@scenario
def retained_gradient_moves_with_the_value(lib):
    x = variable(lib)
    y = x * 2
    y.retain_grad()
    y += 1
    y *= 3
    (y * 5).sum().backward()
    return y.grad, y.retains_grad, x.grad
