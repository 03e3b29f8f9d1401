"""`autograd.grad`: its inputs, used and not."""

from tests.autograd.torch_contract.scenarios import expressions, ones, scenario, variable


@scenario
def gradient_of_one_input(lib):
    x = variable(lib)
    return lib.autograd.grad((x * x).sum(), x), x.grad


@scenario
def the_same_input_twice(lib):
    x = variable(lib)
    a, b = lib.autograd.grad((x * x).sum(), [x, x])
    return a, b


@scenario
def output_that_is_the_input(lib):
    x = variable(lib)
    return lib.autograd.grad(x, x, ones(lib, 3))


@scenario
def output_that_is_an_input_above_another(lib):
    x = variable(lib)
    y = x * 2
    return lib.autograd.grad([y, (y * y).sum()], [y, x], [ones(lib, 3), None])


@scenario
def input_that_is_no_leaf(lib):
    x = variable(lib)
    y = x * x
    return lib.autograd.grad((y * y).sum(), y)


@scenario
def inputs_above_each_other(lib):
    x = variable(lib)
    y = x * x
    return lib.autograd.grad((y * y * x).sum(), [x, y])


@scenario
def inputs_in_a_dict(lib):
    x, y = variable(lib), variable(lib)
    return lib.autograd.grad((x * y).sum(), {"x": x, "y": y})


def _unused(lib, **options):
    x, y = variable(lib), lib.tensor([1.0], requires_grad=True)
    found = lib.autograd.grad((x * x).sum(), [x, y], **options)
    return [(g, g.requires_grad) if g is not None else None for g in found]


@scenario
def detached_input_is_unused(lib):
    x = variable(lib)
    y = x * 2
    return lib.autograd.grad((y.detach() * x).sum(), [x, y], allow_unused=True)


expressions(
    "RuntimeError",
    no_inputs=lambda lib: lib.autograd.grad(variable(lib).sum(), []),
    input_without_grad=lambda lib: lib.autograd.grad(variable(lib).sum(), lib.tensor([1.0])),
    input_without_grad_though_unused_is_allowed=lambda lib: lib.autograd.grad(
        variable(lib).sum(), lib.tensor([1.0]), allow_unused=True
    ),
    unused_input=lambda lib: lib.autograd.grad(variable(lib).sum(), variable(lib)),
    unused_forbidden=lambda lib: _unused(lib, allow_unused=False),
    unused_forbidden_by_default=lambda lib: _unused(lib, materialize_grads=False),
)


expressions(
    None,
    unused_allowed=lambda lib: _unused(lib, allow_unused=True),
    unused_materialized=lambda lib: _unused(lib, materialize_grads=True),
    unused_materialized_and_allowed=lambda lib: _unused(
        lib, materialize_grads=True, allow_unused=True
    ),
    unused_allowed_and_not_materialized=lambda lib: _unused(
        lib, materialize_grads=False, allow_unused=True
    ),
    unused_materialized_with_create_graph=lambda lib: _unused(
        lib, materialize_grads=True, create_graph=True
    ),
    unused_allowed_with_create_graph=lambda lib: _unused(lib, allow_unused=True, create_graph=True),
)


expressions(
    "ValueError",
    unused_materialized_and_forbidden=lambda lib: _unused(
        lib, materialize_grads=True, allow_unused=False
    ),
)
