"""`autograd.functional`."""

from tests.autograd.torch_contract.scenarios import expressions, ones, raises, scenario, variable


def cubes(x):
    return x * x * x


def mix(x, y):
    return x * x * y, (x * y).sum()


@scenario
def functional_vjp(lib):
    x, y, v = variable(lib), variable(lib, 3.0, 4.0, 5.0), ones(lib, 3)
    f = lib.autograd.functional
    return [
        f.vjp(cubes, x, v),
        f.vjp(mix, (x, y), (v, lib.tensor(2.0))),
        f.vjp(lambda x: cubes(x).sum(), x),
        [t.requires_grad for t in f.vjp(cubes, x, v, create_graph=True)],
        [t.requires_grad for t in f.vjp(cubes, x, v)],
        f.vjp(lambda x, y: x * 2, (x, y), v),
    ]


@scenario
def functional_jvp(lib):
    x, y, v = variable(lib), variable(lib, 3.0, 4.0, 5.0), lib.tensor([1.0, -2.0, 3.0])
    f = lib.autograd.functional
    return [
        f.jvp(cubes, x, v),
        f.jvp(mix, (x, y), (v, v)),
        f.jvp(cubes, lib.tensor([2.0])),
        [t.requires_grad for t in f.jvp(cubes, x, v, create_graph=True)],
        f.jvp(lambda x: x * 2, x, v),
    ]


@scenario
def functional_jacobian(lib):
    x, y = variable(lib), variable(lib, 3.0, 4.0, 5.0)
    f = lib.autograd.functional
    return [
        f.jacobian(cubes, x),
        f.jacobian(cubes, (x,)),
        f.jacobian(mix, (x, y)),
        f.jacobian(mix, (x, y), vectorize=True),
        f.jacobian(lambda x: (cubes(x),), x),
        f.jacobian(lambda x, y: (x * 2, y), (x, y)),
        f.jacobian(lambda x: x.sum(), x),
        f.jacobian(cubes, x, create_graph=True).requires_grad,
        f.jacobian(cubes, x).requires_grad,
    ]


@scenario
def functional_jacobian_forward(lib):
    x, y = variable(lib), variable(lib, 3.0, 4.0, 5.0)
    f = lib.autograd.functional
    options = {"vectorize": True, "strategy": "forward-mode"}
    return f.jacobian(cubes, x, **options), f.jacobian(mix, (x, y), **options)


@scenario
def functional_hessian(lib):
    x, y = variable(lib), variable(lib, 3.0, 4.0, 5.0)
    f = lib.autograd.functional
    return [
        f.hessian(lambda x: cubes(x).sum(), x),
        f.hessian(lambda x, y: (x * x * y).sum(), (x, y)),
        f.hessian(lambda x: x.sum(), x),
        f.hessian(lambda x: cubes(x).sum(), x, vectorize=True),
        f.hessian(lambda x: (cubes(x) * x).sum(), x, create_graph=True).requires_grad,
    ]


@scenario
def functional_hessian_vector_products(lib):
    x, y, v = variable(lib), variable(lib, 3.0, 4.0, 5.0), lib.tensor([1.0, -2.0, 3.0])
    f = lib.autograd.functional
    return [
        [
            product(lambda x: cubes(x).sum(), x, v),
            product(lambda x, y: (x * x * y).sum(), (x, y), (v, v)),
            product(cubes, lib.tensor([2.0])),
            product(lambda x: x.sum(), x, v),
        ]
        for product in (f.hvp, f.vhp)
    ]


@scenario
def functional_results_are_differentiable(lib):
    x, v = variable(lib), lib.tensor([1.0, -2.0, 3.0], requires_grad=True)
    f = lib.autograd.functional
    results = []
    for product in (f.vjp, f.jvp):
        _, g = product(cubes, x, v, create_graph=True)
        results.append(lib.autograd.grad(g.sum(), [x, v]))
    for product in (f.hvp, f.vhp):
        _, g = product(lambda x: (cubes(x) * x).sum(), x, v, create_graph=True)
        results.append(lib.autograd.grad(g.sum(), [x, v]))
    jacobian = f.jacobian(cubes, x, create_graph=True)
    results.append(lib.autograd.grad(jacobian.sum(), x))
    return results


def _strict(name, function, *more, **options):
    def run(lib):
        getattr(lib.autograd.functional, name)(
            function, variable(lib), *(m(lib) for m in more), strict=True, **options
        )

    return run


def _vector(lib):
    return ones(lib, 3)


for _name in ("vjp", "jvp", "jacobian"):
    _more = () if _name == "jacobian" else (_vector,)
    for _label, _function in {
        "constant": lambda x: x.detach() * 2,
        "linear_with_create_graph": lambda x: x * 2,
    }.items():
        _options = {"create_graph": True} if "create" in _label else {}
        _run = _strict(_name, _function, *_more, **_options)
        _run.__name__ = f"strict_{_name}_of_a_{_label}"
        # The result of a linear function depends on it only through `v` or not at all.
        raises("RuntimeError")(_run)


@scenario
def functional_of_what_the_function_closes_over(lib):
    x = variable(lib)
    return lib.autograd.functional.jacobian(lambda y: x * y, x)


@scenario
def functional_under_no_grad(lib):
    x = variable(lib)
    with lib.no_grad():
        return lib.autograd.functional.jacobian(cubes, x)


@scenario
def functional_blocks_that_have_history(lib):
    x, y = variable(lib), variable(lib, 3.0, 4.0, 5.0)
    blocks = lib.autograd.functional.jacobian(
        lambda x, y: (x * y, 2 * x, y.sum()), (x, y), create_graph=True
    )
    return [[block.requires_grad for block in row] for row in blocks]


def _passes(f):
    """Those that go back, of functions of a vector with one number as a result."""
    return (
        f.vjp,
        f.jacobian,
        f.hessian,
        lambda function, x: f.vhp(function, x, x.detach()),
    )


def _times(factor):
    return lambda g: g * factor


def _each_times(factor):
    return lambda gradients, *_: tuple(None if g is None else g * factor for g in gradients)


@scenario
def functional_runs_hooks_of_tensors_and_operations(lib):
    def hooked(x):
        x.register_hook(_times(2.0))
        y = x * x * x
        y.register_hook(_times(3.0))
        y.grad_fn.register_hook(_each_times(5.0))
        y.grad_fn.register_prehook(_each_times(7.0))
        return y.sum()

    x = variable(lib)
    x.register_hook(_times(100.0))  # the function gets another tensor
    return [call(hooked, x) for call in _passes(lib.autograd.functional)]


@scenario
def functional_sets_retained_gradients(lib):
    kept = []

    def retaining(x):
        y = x * x
        y.retain_grad()
        kept.append(y)
        return (y * 3.0).sum()

    x = variable(lib)
    results = []
    for call in _passes(lib.autograd.functional):
        results += [call(retaining, x), kept.pop().grad]
    return results, x.grad


@scenario
def functional_of_a_function_that_goes_back_itself(lib):
    def slope(x):
        (x**3).sum().backward(create_graph=True)
        return x.grad.sum()

    x = variable(lib)
    f = lib.autograd.functional
    return f.vjp(slope, x), f.jacobian(slope, x), f.vhp(slope, x, x.detach()), x.grad


@raises("RuntimeError")
def functional_of_a_function_that_writes_to_its_input(lib):
    def writes(x):
        x += 1.0
        return x.sum()

    lib.autograd.functional.vjp(writes, variable(lib))


@raises("RuntimeError")
def functional_with_nan_in_anomaly_mode(lib):
    with lib.autograd.detect_anomaly():
        lib.autograd.functional.hessian(lambda x: ((x * 0.0) ** 0.5).sum(), variable(lib))


@raises("RuntimeError")
def strict_jvp_of_an_unused_input(lib):
    x = variable(lib)
    lib.autograd.functional.jvp(lambda x, y: x * x, (x, x), (x, x), strict=True)


@raises("RuntimeError")
def strict_hvp_of_what_is_linear_in_a_constant(lib):
    x, a = variable(lib), variable(lib)
    lib.autograd.functional.hvp(lambda x: (x * a).sum(), x, x, strict=True)


expressions(
    "RuntimeError",
    strict_hessian_of_a_linear_function=lambda lib: lib.autograd.functional.hessian(
        lambda x: x.sum(), variable(lib), strict=True
    ),
    strict_and_vectorized=lambda lib: lib.autograd.functional.jacobian(
        cubes, variable(lib), strict=True, vectorize=True
    ),
    vector_of_another_shape=lambda lib: lib.autograd.functional.vjp(
        cubes, variable(lib), ones(lib, 4)
    ),
    vectors_of_another_number=lambda lib: lib.autograd.functional.vjp(
        mix, (variable(lib), variable(lib)), ones(lib, 3)
    ),
    missing_vector=lambda lib: lib.autograd.functional.jvp(cubes, variable(lib)),
    hessian_of_several_elements=lambda lib: lib.autograd.functional.hessian(cubes, variable(lib)),
    strict_and_forward=lambda lib: lib.autograd.functional.jacobian(
        cubes, variable(lib), strict=True, vectorize=True, strategy="forward-mode"
    ),
)


expressions(
    "TypeError",
    inputs_that_are_no_tensors=lambda lib: lib.autograd.functional.jacobian(cubes, [1.0]),
)


expressions(
    "NotImplementedError",
    forward_jacobian_without_vectorize=lambda lib: lib.autograd.functional.jacobian(
        cubes, variable(lib), strategy="forward-mode"
    ),
    forward_with_create_graph=lambda lib: lib.autograd.functional.jacobian(
        cubes, variable(lib), create_graph=True, strict=True, strategy="forward-mode"
    ),
)
