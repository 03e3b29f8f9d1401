"""`autograd.Function`."""

from tests.autograd.torch_contract.scenarios import expressions, ones, raises, scenario, variable


def two_results(lib):
    class TwoResults(lib.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, g, h):
            return g * 2 + h * 3

    return TwoResults


def _product(lib, backward, save=True, materialize=True):
    class Product(lib.Function):
        @staticmethod
        def forward(ctx, x, y):
            if save:
                ctx.save_for_backward(x, y)
            if not materialize:
                ctx.set_materialize_grads(False)
            return x * y, x + y

    Product.backward = staticmethod(backward)
    return Product


def _run_product(lib, backward, **options):
    x, y = variable(lib), variable(lib, 3.0, 4.0, 5.0)
    product, _ = _product(lib, backward, **options).apply(x, y)
    return lib.autograd.grad(product.sum(), [x, y], allow_unused=True)


@scenario
def function_with_saved_tensors(lib):
    def backward(ctx, g, h):
        x, y = ctx.saved_tensors
        return g * y + h, g * x + h

    return _run_product(lib, backward)


@scenario
def none_leaves_grad_as_it_is(lib):
    x, y = variable(lib), variable(lib)
    product, _ = _product(lib, lambda ctx, g, h: (None, g)).apply(x, y)
    product.sum().backward()
    return x.grad, y.grad


@scenario
def function_gets_zeros_for_what_is_missing(lib):
    seen = []

    def backward(ctx, g, h):
        seen.append((g, h))
        return g, g

    return _run_product(lib, backward), seen


@scenario
def function_gets_none_for_what_is_missing(lib):
    seen = []

    def backward(ctx, g, h):
        seen.append((g, h))
        return g, g

    return _run_product(lib, backward, materialize=False), seen


def _twice(lib, save, access):
    def backward(ctx, g, h):
        if access:
            assert len(ctx.saved_tensors) == (2 if save else 0)
        return g, g

    x, y = variable(lib), variable(lib)
    product, _ = _product(lib, backward, save=save).apply(x, y)
    loss = product.sum()
    loss.backward()
    loss.backward()
    return x.grad


@scenario
def function_with_other_arguments(lib):
    class Scale(lib.Function):
        @staticmethod
        def forward(ctx, x, factor, name, other):
            ctx.factor = factor
            ctx.seen = (name, ctx.needs_input_grad, lib.is_grad_enabled())
            return x * factor + other

        @staticmethod
        def backward(ctx, g):
            seen.append((ctx.seen, ctx.needs_input_grad, lib.is_grad_enabled()))
            return g * ctx.factor, None, None, g

    seen = []
    x, c = variable(lib), lib.tensor([1.0, 1.0, 1.0])
    y = Scale.apply(x, 3, "name", c)
    y.sum().backward()
    return x.grad, c.grad, seen, y.requires_grad, "ScaleBackward" in y.grad_fn.name()


@raises("RuntimeError")
def function_with_a_gradient_for_a_number(lib):
    class Scale(lib.Function):
        @staticmethod
        def forward(ctx, x, factor):
            return x * factor

        @staticmethod
        def backward(ctx, g):
            return g, g

    x = variable(lib)
    Scale.apply(x, 3).sum().backward()


@scenario
def function_under_no_grad(lib):
    x = variable(lib)
    with lib.no_grad():
        a, b = two_results(lib).apply(x)
    return a.requires_grad, b.is_leaf, a


@scenario
def function_of_constants(lib):
    a, _ = two_results(lib).apply(lib.tensor([1.0]))
    return a.requires_grad, a.grad_fn


@scenario
def function_results(lib):
    class Results(lib.Function):
        @staticmethod
        def forward(ctx, x, kind):
            return {
                "tensor": x * 2,
                "tuple": (x * 2,),
                "list": [x * 2],
                "others": (x * 2, 5, None),
                "number": 3.0,
                "none": None,
            }[kind]

        @staticmethod
        def backward(ctx, *grads):
            return grads[0] * 2, None

    x = variable(lib)
    results = []
    for kind in ("tensor", "tuple", "list", "others", "number", "none"):
        result = Results.apply(x, kind)
        results.append((type(result) is tuple, type(result) is list, result))
        first = result[0] if isinstance(result, tuple | list) else result
        if lib.is_tensor(first):
            results.append(first.requires_grad)
        if lib.is_tensor(first) and first.requires_grad:
            results.append(lib.autograd.grad(first.sum(), x))
    return results


def _unchanged(lib):
    class Unchanged(lib.Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 5

    return Unchanged


@scenario
def function_that_returns_its_input(lib):
    x, c = variable(lib), lib.tensor([1.0])
    y = _unchanged(lib).apply(x)
    z = _unchanged(lib).apply(c)
    with lib.no_grad():
        w = _unchanged(lib).apply(x)
    y.sum().backward()
    return [y is x, y.is_leaf, x.grad, z is c, z.requires_grad, w is x, w.requires_grad, w.is_leaf]


@scenario
def function_that_returns_a_tensor_twice(lib):
    class Twice(lib.Function):
        @staticmethod
        def forward(ctx, x):
            y = x * 2
            return y, y

        @staticmethod
        def backward(ctx, g, h):
            return g + 10 * h

    x = variable(lib)
    a, b = Twice.apply(x)
    return a is b, a.output_nr, lib.autograd.grad((a * 2 + b * 3).sum(), x)


@scenario
def non_differentiable_results(lib):
    class Marked(lib.Function):
        @staticmethod
        def forward(ctx, x):
            y = x * 5
            ctx.mark_non_differentiable(y)
            return x * 2, y

        @staticmethod
        def backward(ctx, g, h):
            seen.append(h)
            return g * 2

    seen = []
    x = variable(lib)
    a, b = Marked.apply(x)
    a.sum().backward()
    return a.requires_grad, b.requires_grad, b.grad_fn, x.grad, seen


@scenario
def non_differentiable_input(lib):
    class Marked(lib.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_non_differentiable(x)
            return x

        @staticmethod
        def backward(ctx, g):
            return g

    x = variable(lib)
    y = Marked.apply(x)
    return y is x, y.requires_grad, y.is_leaf


@scenario
def double_backward_through_a_function(lib):
    class Cube(lib.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 3 * x * x

    x = variable(lib)
    results = []
    y = Cube.apply(x).sum()
    for _ in range(3):
        (g,) = lib.autograd.grad(y, x, create_graph=True)
        results.append(g)
        y = g.sum()
    return results


@scenario
def double_backward_through_a_saved_result(lib):
    class Exp(lib.Function):
        @staticmethod
        def forward(ctx, x):
            y = lib.exp(x)
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, g):
            (y,) = ctx.saved_tensors
            return g * y

    x = variable(lib)
    (g,) = lib.autograd.grad(Exp.apply(x).sum(), x, create_graph=True)
    (h,) = lib.autograd.grad((g * g).sum(), x, create_graph=True)
    return g, h, lib.autograd.grad(h.sum(), x)


@scenario
def saved_intermediate_results_are_constants(lib):
    class Square(lib.Function):
        @staticmethod
        def forward(ctx, x):
            y = x * 2
            ctx.save_for_backward(y, None)
            return x * x

        @staticmethod
        def backward(ctx, g):
            y, none = ctx.saved_tensors
            assert none is None
            return g * y

    x = variable(lib)
    v = lib.tensor([1.0, 2.0, 3.0], requires_grad=True)
    (g,) = lib.autograd.grad(Square.apply(x), x, v, create_graph=True)
    return g, lib.autograd.grad(g.sum(), [v, x], allow_unused=True)


@scenario
def saved_inputs_are_the_same_tensors(lib):
    class Saves(lib.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            seen.append(ctx.saved_tensors[0] is x)
            return g

    seen = []
    x = variable(lib)
    y = Saves.apply(x)
    seen.append(y.grad_fn.saved_tensors[0] is x)
    y.sum().backward()
    return seen


@raises("TypeError")
def only_tensors_are_saved(lib):
    class Saves(lib.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(3.0)
            return x * 2

    Saves.apply(variable(lib))


def _cube(lib):
    class Cube(lib.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        @lib.once_differentiable
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 3 * x * x

    return Cube.apply


@raises("RuntimeError")
def once_differentiable(lib):
    x = variable(lib)
    (g,) = lib.autograd.grad(_cube(lib)(x).sum(), x, create_graph=True)
    g.sum().backward()


@raises("RuntimeError")
def once_differentiable_from_a_gradient_with_history(lib):
    x = variable(lib)
    (_cube(lib)(x) ** 2).sum().backward(create_graph=True)
    x.grad.sum().backward()


@scenario
def beside_what_is_once_differentiable(lib):
    x, y = variable(lib), variable(lib)
    (g,) = lib.autograd.grad((_cube(lib)(x) ** 2 * y).sum(), x, create_graph=True)
    total = (g.detach() * y).sum() + (g * 0).sum().detach()
    return [g, g.requires_grad, *lib.autograd.grad(total, y)]


@raises("NotImplementedError")
def function_without_backward(lib):
    class Double(lib.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

    Double.apply(variable(lib)).sum().backward()


@raises("NotImplementedError")
def function_without_forward(lib):
    class Nothing(lib.Function):
        pass

    Nothing.apply(variable(lib))


@scenario
def function_with_setup_context(lib):
    class Scale(lib.Function):
        @staticmethod
        def forward(x, factor=2):
            return x * factor

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.factor = inputs[1]
            ctx.save_for_backward(output)

        @staticmethod
        def backward(ctx, g):
            (y,) = ctx.saved_tensors
            return g * ctx.factor + 0 * y, None

    x = variable(lib)
    return [
        lib.autograd.grad(y.sum(), x)
        for y in (Scale.apply(x), Scale.apply(x, 3), Scale.apply(x, factor=4))
    ]


@scenario
def function_with_vjp(lib):
    class Double(lib.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def vjp(ctx, g):
            return g * 7

    x = variable(lib)
    return lib.autograd.grad(Double.apply(x).sum(), x)


@scenario
def the_same_tensor_as_two_arguments(lib):
    def backward(ctx, g, h):
        return g * 2, g * 3

    x = variable(lib)
    product, _ = _product(lib, backward).apply(x, x)
    return lib.autograd.grad(product.sum(), x)


@scenario
def hooks_on_results_of_functions(lib):
    x = variable(lib)
    a, b = two_results(lib).apply(x)
    calls = []
    a.register_hook(lambda g: g * 10)
    a.grad_fn.register_prehook(lambda gs: calls.append([g is None for g in gs]))
    a.grad_fn.register_hook(lambda i, o: calls.append((len(i), len(o))))
    a.sum().backward()
    return x.grad, calls, a.grad_fn is b.grad_fn, a.output_nr, b.output_nr


@scenario
def gradients_of_results_of_functions(lib):
    x = variable(lib)
    a, b = two_results(lib).apply(x)
    return lib.autograd.grad((a * b).sum(), [a, b, x])


@scenario
def backward_inside_of_backward(lib):
    class Checkpoint(lib.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return lib.exp(x) * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            with lib.enable_grad():
                own = x.detach().requires_grad_()
                y = lib.exp(own) * own
            lib.autograd.backward(y, g)
            return own.grad

    x = variable(lib)
    Checkpoint.apply(Checkpoint.apply(x)).sum().backward()
    return x.grad


@scenario
def straight_through(lib):
    class Step(lib.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 0 + 1

        @staticmethod
        def backward(ctx, g):
            return g

    x, w = variable(lib), variable(lib)
    (Step.apply(x * w) * w).sum().backward()
    return x.grad, w.grad


expressions(
    "RuntimeError",
    function_with_too_few_gradients=lambda lib: _run_product(lib, lambda ctx, g, h: g),
    function_with_too_many_gradients=lambda lib: _run_product(lib, lambda ctx, g, h: (g, g, g)),
    function_with_a_gradient_of_another_shape=lambda lib: _run_product(
        lib, lambda ctx, g, h: (ones(lib, 4), g)
    ),
    function_with_a_smaller_gradient=lambda lib: _run_product(
        lib, lambda ctx, g, h: (ones(lib, 1), g)
    ),
    function_with_a_scalar_gradient=lambda lib: _run_product(lib, lambda ctx, g, h: (g.sum(), g)),
    function_with_a_complex_gradient=lambda lib: _run_product(
        lib, lambda ctx, g, h: (ones(lib, 3, dtype="complex128"), g)
    ),
    function_with_a_gradient_that_is_a_number=lambda lib: _run_product(
        lib, lambda ctx, g, h: (1.0, g)
    ),
    function_with_a_list_of_gradients=lambda lib: _run_product(lib, lambda ctx, g, h: [g, g]),
    function_without_gradients=lambda lib: _run_product(lib, lambda ctx, g, h: None),
    function_twice_with_saved_tensors=lambda lib: _twice(lib, save=True, access=True),
)


expressions(
    None,
    function_with_additional_nones=lambda lib: _run_product(
        lib, lambda ctx, g, h: (g, g, None, None)
    ),
    function_with_a_larger_gradient=lambda lib: _run_product(
        lib, lambda ctx, g, h: (ones(lib, 2, 3), g)
    ),
    function_with_gradients_of_other_real_dtypes=lambda lib: _run_product(
        lib, lambda ctx, g, h: (ones(lib, 3, dtype="float32"), ones(lib, 3, dtype="int64"))
    ),
    function_with_none_for_gradients=lambda lib: _run_product(lib, lambda ctx, g, h: (None, None)),
    function_twice_without_saved_tensors=lambda lib: _twice(lib, save=False, access=False),
    function_twice_without_reading_saved_tensors=lambda lib: _twice(lib, save=True, access=False),
)
