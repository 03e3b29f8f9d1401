"""Leaves, and `requires_grad`."""

from tests.autograd.torch_contract.scenarios import expressions, scenario, variable


@scenario
def leaves(lib):
    x, c = variable(lib), lib.tensor([1.0])
    y = x * 2
    with lib.no_grad():
        z = x * 2
    return [t.is_leaf for t in (x, c, c * 2, y, z, y.detach())]


@scenario
def detached_tensors_can_require_grad(lib):
    x = variable(lib)
    y = (x * 2).detach()
    y.requires_grad_()
    (x * y).sum().backward()
    return y.is_leaf, x.grad, y.grad


@scenario
def detached_in_place_they_keep_their_gradients(lib):
    x = variable(lib)
    y = x * 2
    y.retain_grad()
    (y * y).sum().backward()
    x.detach_()
    y.detach_()
    return x.grad, x.requires_grad, y.grad, y.requires_grad


@scenario
def detached_in_place_they_get_no_gradients_of_what_was_recorded_before(lib):
    x = variable(lib)
    (x * 2).sum().backward()
    y = x * 3
    x.detach_()
    y.sum().backward()
    return x.grad


@scenario
def computed_tensors_can_become_leaves(lib):
    c = lib.tensor([1.0, 2.0, 3.0])
    y = c * 2
    before = y * 1
    y.requires_grad_()
    (y * y).sum().backward()
    return y.is_leaf, y.grad, before.requires_grad


@scenario
def tensors_made_under_no_grad_can_become_leaves(lib):
    x = variable(lib)
    with lib.no_grad():
        y = x * 2
    y.requires_grad_()
    (y * x).sum().backward()
    return y.is_leaf, x.grad, y.grad


@scenario
def requires_grad_of_an_intermediate_result(lib):
    y = (variable(lib) * 2).requires_grad_()
    return y.requires_grad, y.is_leaf


@scenario
def requires_grad_switched_off(lib):
    x, w = variable(lib), variable(lib)
    y = (x * w).sum()
    x.requires_grad_(False)
    y.backward()
    return x.grad, w.grad


@scenario
def requires_grad_switched_on_after_use(lib):
    x, w = lib.tensor([1.0, 2.0, 3.0]), variable(lib)
    y = w * x + x
    x.requires_grad_()
    (x * y).sum().backward()
    return x.grad, w.grad


@scenario
def what_is_recorded_while_frozen_gives_no_gradient(lib):
    x, w = variable(lib), variable(lib)
    before = w * x
    x.requires_grad_(False)
    while_frozen = (w * x) ** 2
    x.requires_grad_()
    after = x * 3
    (before + while_frozen + after).sum().backward()
    return x.grad, w.grad


@scenario
def hooks_of_a_frozen_leaf(lib):
    x, w, seen = variable(lib), variable(lib), []
    x.register_hook(seen.append)
    y = (w * x).sum()
    x.requires_grad_(False)
    y.backward()
    return seen, x.grad, w.grad


@scenario
def the_accumulator_of_a_leaf_that_was_frozen(lib):
    x = variable(lib)
    accumulator = (x * 2).grad_fn.next_functions[0][0]
    x.requires_grad_(False)
    x.requires_grad_()
    return accumulator.variable is x, (x * 2).grad_fn.next_functions[0][0] is accumulator


expressions(
    "RuntimeError",
    intermediate_results_keep_requires_grad=lambda lib: (variable(lib) * 2).requires_grad_(False),
    integers_cannot_require_grad=lambda lib: lib.tensor([1, 2], dtype="int64").requires_grad_(),
)
