"""What may be differentiated, and the gradients given for it."""

import contextlib

import numpy as np

from tests.autograd.torch_contract.scenarios import expressions, ones, raises, scenario, variable


@scenario
def implicit_gradient_of_a_scalar(lib):
    x = variable(lib)
    (x * x).sum().backward()
    return x.grad


@scenario
def implicit_gradient_of_one_element(lib):
    x = variable(lib, 3.0)
    (x * x).backward()
    return x.grad


@raises("RuntimeError")
def implicit_gradient_of_no_elements(lib):
    x = lib.tensor(np.zeros((0,)), requires_grad=True)
    (x * 2).backward()


@raises("RuntimeError")
def implicit_gradient_of_a_complex(lib):
    x = lib.tensor(1 + 2j, requires_grad=True, dtype="complex128")
    (x * x).backward()


@scenario
def explicit_gradient_of_a_complex(lib):
    x = lib.tensor(1 + 2j, requires_grad=True, dtype="complex128")
    (x * x).backward(lib.tensor(1j, dtype="complex128"))
    return x.grad


@scenario
def given_gradient(lib):
    x = variable(lib)
    (x * x).backward(lib.tensor([1.0, 10.0, 100.0]))
    return x.grad


@scenario
def given_gradient_of_another_real_dtype(lib):
    x = variable(lib)
    return [
        lib.autograd.grad(x * 2, x, ones(lib, 3, dtype=dtype))
        for dtype in ("float32", "int64", "bool")
    ]


@raises("RuntimeError")
def complex_gradient_of_a_real_output(lib):
    x = variable(lib)
    lib.autograd.grad(x * 2, x, ones(lib, 3, dtype="complex128"))


@raises("RuntimeError")
def real_gradient_of_a_complex_output(lib):
    x = lib.tensor([1j, 2], requires_grad=True, dtype="complex128")
    lib.autograd.grad(x * 2, x, ones(lib, 2))


@raises("TypeError")
def gradient_that_is_an_array(lib):
    x = variable(lib)
    lib.autograd.grad([x * 2], [x], [np.ones(3)])


@raises("TypeError")
def gradient_that_is_a_number(lib):
    x = variable(lib)
    lib.autograd.grad(x.sum(), x, 1.0)


@raises("RuntimeError")
def one_output_of_two_without_history(lib):
    x = variable(lib)
    lib.autograd.backward([x.sum(), lib.tensor(1.0)], [None, None])


@raises("RuntimeError")
def refused_call_changes_nothing_but_raises(lib):
    x = variable(lib)
    lib.autograd.backward([(x * x).sum(), x * 2])


@scenario
def refused_call_frees_nothing(lib):
    x = variable(lib)
    y = (x * x).sum()
    with contextlib.suppress(RuntimeError):
        lib.autograd.backward([y, x * 2])
    before = x.grad
    y.backward()
    return before, x.grad


@raises("RuntimeError")
def too_few_gradients(lib):
    x = variable(lib)
    lib.autograd.backward([x * 2, x * 3], [ones(lib, 3)])


@scenario
def too_many_gradients_are_ignored(lib):
    x = variable(lib)
    lib.autograd.backward([x * 2], [ones(lib, 3), ones(lib, 5)])
    return x.grad


@scenario
def several_outputs(lib):
    x = variable(lib)
    lib.autograd.backward([(x * x).sum(), x * 3], [None, lib.tensor([1.0, 2.0, 3.0])])
    return x.grad


@scenario
def several_outputs_share_history(lib):
    x = variable(lib)
    y = x * x
    return lib.autograd.grad([y.sum(), (y * y).sum()], x)


@scenario
def the_same_output_twice(lib):
    x = variable(lib)
    y = (x * x).sum()
    return lib.autograd.grad([y, y], x)


@scenario
def generator_arguments(lib):
    x = variable(lib)
    return lib.autograd.grad((o for o in [x.sum()]), (i for i in [x]))


expressions(
    "RuntimeError",
    implicit_gradient_of_several_elements=lambda lib: (variable(lib) * 2).backward(),
    given_gradient_that_would_broadcast=lambda lib: (variable(lib) * 2).backward(lib.tensor(1.0)),
    given_gradient_of_another_shape=lambda lib: (variable(lib) * 2).backward(ones(lib, 4)),
    output_without_history=lambda lib: lib.tensor([1.0]).backward(),
    gradient_of_no_outputs=lambda lib: lib.autograd.grad([], [variable(lib)]),
)


expressions(
    None,
    no_outputs=lambda lib: lib.autograd.backward([]),
)
