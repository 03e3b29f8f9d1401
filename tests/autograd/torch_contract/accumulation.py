"""What happens to `.grad`."""

from tests.autograd.torch_contract.scenarios import ones, raises, scenario, variable


@scenario
def gradients_accumulate(lib):
    x = variable(lib)
    (x * 2).sum().backward()
    first = x.grad
    value = lib.array(first).copy()
    (x * x).sum().backward()
    return value, x.grad


@scenario
def a_gradient_is_no_alias_of_what_was_given(lib):
    x = variable(lib)
    v = ones(lib, 3)
    x.backward(v)
    return x.grad is v, x.grad, x.grad.requires_grad


@scenario
def two_leaves_get_gradients_of_their_own(lib):
    x, y = variable(lib), variable(lib)
    (x + y).sum().backward()
    return x.grad is y.grad, x.grad, y.grad


@scenario
def zeroing(lib):
    x = variable(lib)
    x.sum().backward()
    x.grad = None
    none = x.grad
    (x * 3).sum().backward()
    return none, x.grad


@raises("RuntimeError")
def assigning_a_gradient_of_another_shape(lib):
    variable(lib).grad = ones(lib, 2)


@raises("RuntimeError")
def assigning_a_gradient_of_another_dtype(lib):
    variable(lib).grad = ones(lib, 3, dtype="float32")


@raises("TypeError")
def assigning_a_gradient_that_is_no_tensor(lib):
    variable(lib).grad = 1.0


@raises("RuntimeError")
def assigning_a_tensor_as_its_own_gradient(lib):
    x = variable(lib)
    x.grad = x


@scenario
def assigned_gradient_is_the_tensor(lib):
    x = variable(lib)
    g = ones(lib, 3)
    x.grad = g
    same = x.grad is g
    x.sum().backward()
    return same, x.grad


@scenario
def gradients_that_are_parts_of_one_array(lib):
    x, y = variable(lib), variable(lib)
    flat = lib.tensor([1.0] * 6)
    x.grad, y.grad = flat[:3], flat[3:]
    (x * x).sum().backward()
    (y * x).sum().backward()
    before = lib.array(flat).copy()
    flat *= 0.5
    return before, x.grad, y.grad


@scenario
def accumulating_with_create_graph(lib):
    x = variable(lib)
    (x * x * x).sum().backward(create_graph=True)
    g = x.grad
    (x * x).sum().backward(create_graph=True)
    return g, x.grad, x.grad.requires_grad, lib.autograd.grad(x.grad.sum(), x)


@scenario
def who_holds_a_retained_gradient_sees_no_later_pass(lib):
    x = variable(lib)
    y = x * x
    y.retain_grad()
    y.sum().backward(retain_graph=True)
    first, of_leaf = y.grad, x.grad
    y.sum().backward()
    return first, of_leaf, y.grad, x.grad
