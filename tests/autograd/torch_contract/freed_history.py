"""What `retain_graph` keeps, and what a pass frees."""

from tests.autograd.torch_contract.scenarios import raises, scenario, variable


@raises("RuntimeError")
def second_pass_through_saved_values(lib):
    y = (variable(lib) * variable(lib)).sum()
    y.backward()
    y.backward()


@scenario
def second_pass_where_nothing_is_saved(lib):
    x = variable(lib)
    y = (x + 2).sum()
    y.backward()
    y.backward()
    return x.grad


@scenario
def second_pass_with_retain_graph(lib):
    x = variable(lib)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    return x.grad


@raises("RuntimeError")
def third_pass_after_retain_graph(lib):
    y = (variable(lib) * variable(lib)).sum()
    y.backward(retain_graph=True)
    y.backward()
    y.backward()


@scenario
def create_graph_retains(lib):
    x = variable(lib)
    y = (x * x).sum()
    y.backward(create_graph=True)
    y.backward()
    return x.grad


@raises("RuntimeError")
def create_graph_without_retaining(lib):
    x = variable(lib)
    y = (x * x * x).sum()
    lib.autograd.grad(y, x, create_graph=True, retain_graph=False)
    y.backward()


@raises("RuntimeError")
def shared_trunk_is_freed(lib):
    x = variable(lib)
    y = x * x
    y.sum().backward()
    (y * 3).sum().backward()


@scenario
def gradient_of_a_tensor_above_what_was_freed(lib):
    x, w = variable(lib), variable(lib)
    y = x * x
    (y * w).sum().backward()
    return lib.autograd.grad((y * w).sum(), [w, y])


@raises("RuntimeError")
def gradient_through_what_was_freed(lib):
    x, w = variable(lib), variable(lib)
    y = x * x
    (y * w).sum().backward()
    lib.autograd.grad((y * w).sum(), x)


@raises("RuntimeError")
def gradient_of_a_tensor_inside_of_what_was_freed(lib):
    x = variable(lib)
    y = x * x
    z = y * y
    z.sum().backward()
    lib.autograd.grad(z.sum(), y, allow_unused=True)


@scenario
def nothing_is_freed_below_an_input(lib):
    x = variable(lib)
    y = x * x
    z = (y * y).sum()
    first = lib.autograd.grad(z, y)
    y.sum().backward()
    return first, x.grad


@scenario
def nothing_is_freed_beside_the_way_to_an_input(lib):
    x, w = variable(lib), variable(lib)
    y = w * w
    z = (x * y).sum()
    first = lib.autograd.grad(z, x)
    y.sum().backward()
    return first, w.grad
