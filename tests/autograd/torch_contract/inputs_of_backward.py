"""`backward(inputs=...)`."""

from tests.autograd.torch_contract.scenarios import raises, scenario, variable


@scenario
def inputs_of_backward(lib):
    x, y = variable(lib), variable(lib)
    (x * y).sum().backward(inputs=[x])
    return x.grad, y.grad


@scenario
def one_input_of_backward(lib):
    x, y = variable(lib), variable(lib)
    (x * y).sum().backward(inputs=y)
    return x.grad, y.grad


@raises("RuntimeError")
def empty_inputs_of_backward(lib):
    variable(lib).sum().backward(inputs=[])


@scenario
def unreachable_input_of_backward(lib):
    x, y = variable(lib), variable(lib)
    x.sum().backward(inputs=[x, y])
    return x.grad, y.grad


@scenario
def input_of_backward_twice(lib):
    x = variable(lib)
    (x * 3).sum().backward(inputs=[x, x])
    return x.grad


@scenario
def input_of_backward_that_is_no_leaf(lib):
    x = variable(lib)
    y = x * x
    (y * y).sum().backward(inputs=[y])
    return x.grad, y.grad, y.retains_grad


@scenario
def inputs_of_backward_above_each_other(lib):
    x = variable(lib)
    y = x * x
    (y * y).sum().backward(inputs=[y, x])
    return x.grad, y.grad


@scenario
def inputs_of_backward_accumulate(lib):
    x = variable(lib)
    y = x * x
    for _ in range(2):
        (y * 3).sum().backward(inputs=[y], retain_graph=True)
    return y.grad


@raises("RuntimeError")
def input_of_backward_without_grad(lib):
    variable(lib).sum().backward(inputs=[lib.tensor([1.0])])


@scenario
def inputs_of_backward_in_a_dict(lib):
    x, y = variable(lib), variable(lib)
    (x * y).sum().backward(inputs={"x": x})
    return x.grad, y.grad
