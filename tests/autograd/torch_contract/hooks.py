"""Retained gradients, and hooks of every kind."""

from tests.autograd.torch_contract.scenarios import expressions, ones, raises, scenario, variable


@scenario
def retained_gradients(lib):
    x = variable(lib)
    y = x * x
    before = y.retains_grad
    y.retain_grad()
    y.retain_grad()
    (y * 3).sum().backward()
    return before, y.retains_grad, y.grad, x.grad


@scenario
def retained_gradients_accumulate(lib):
    x = variable(lib)
    y = x + x
    y.retain_grad()
    for _ in range(2):
        (y * 3).sum().backward()
    return y.grad


@scenario
def leaves_do_not_retain(lib):
    x = variable(lib)
    x.retain_grad()
    return x.retains_grad


@scenario
def retained_after_all_hooks(lib):
    x = variable(lib)
    y = x * x
    y.register_hook(lambda g: g * 2)
    y.retain_grad()
    y.register_hook(lambda g: g * 5)
    y.grad_fn.register_prehook(lambda gs: (gs[0] * 7,))
    y.sum().backward()
    return y.grad, x.grad


@scenario
def hooks_modify_in_order(lib):
    x = variable(lib)
    y = x * x
    seen = []
    y.register_hook(lambda g: seen.append(lib.array(g).copy()))
    y.register_hook(lambda g: g + 1)
    y.register_hook(lambda g: g * 10)
    y.register_hook(lambda g: seen.append(lib.array(g).copy()))
    (y * 3).sum().backward()
    return seen, x.grad


@scenario
def hooks_write_to_the_gradient(lib):
    x = variable(lib)
    y = x * 2
    y.retain_grad()

    def double(g):
        g *= 2

    y.register_hook(double)
    y.register_hook(lambda g: g + 1)
    (y * 3).sum().backward()
    return y.grad, x.grad


@scenario
def hooks_get_the_sum_once(lib):
    x = variable(lib)
    y = x * 2
    calls = []
    y.register_hook(lambda g: calls.append(lib.array(g).copy()))
    x.register_hook(lambda g: calls.append(lib.array(g).copy()))
    (y * 3 + y * y + x).sum().backward()
    return calls


@scenario
def hooks_on_leaves_change_the_gradient(lib):
    x = variable(lib)
    x.register_hook(lambda g: g * 10)
    (x * x).sum().backward()
    return x.grad, lib.autograd.grad((x * x).sum(), x)


@scenario
def hooks_are_removed(lib):
    x = variable(lib)
    handle = x.register_hook(lambda g: g * 10)
    handle.remove()
    handle.remove()
    with x.register_hook(lambda g: g * 100):
        pass
    (x * x).sum().backward()
    return x.grad


@scenario
def hooks_that_remove_themselves(lib):
    x = variable(lib)
    calls = []

    def once(g):
        calls.append(1)
        handle.remove()

    handle = x.register_hook(once)
    x.register_hook(lambda g: g * 2)
    x.sum().backward()
    x.sum().backward()
    return x.grad, len(calls)


@scenario
def hooks_where_no_gradient_arrives(lib):
    x, y = variable(lib), variable(lib)
    calls = []
    y.register_hook(calls.append)
    (x * y.detach()).sum().backward()
    return len(calls)


@scenario
def hooks_affect_grad(lib):
    x = variable(lib)
    y = x * 3
    y.register_hook(lambda g: g * 10)
    z = (y * y).sum()
    return [
        lib.autograd.grad(z, inputs, retain_graph=True) for inputs in ([y], [x], [y, x], [x, y])
    ]


@scenario
def hooks_beside_the_way_do_not_run(lib):
    x, w = variable(lib), variable(lib)
    y = w * w
    calls = []
    y.register_hook(lambda g: calls.append("y"))
    w.register_hook(lambda g: calls.append("w"))
    return lib.autograd.grad((x * y).sum(), x), calls


@scenario
def hooks_of_outputs_run(lib):
    x = variable(lib)
    y = (x * x).sum()
    y.register_hook(lambda g: g * 7)
    y.backward()
    return x.grad


@scenario
def hooks_run_again_in_a_double_backward(lib):
    x = variable(lib)
    y = x * x
    calls = []
    y.register_hook(lambda g: calls.append(lib.array(g).copy()))
    (g,) = lib.autograd.grad((y * y).sum(), x, create_graph=True)
    (g * g).sum().backward()
    return calls, x.grad


@scenario
def gradients_through_hooks(lib):
    x = variable(lib)
    x.register_hook(lambda g: g * x)
    (g,) = lib.autograd.grad((x * x).sum(), x, create_graph=True)
    return g, lib.autograd.grad(g.sum(), x)


@scenario
def gradients_of_what_hooks_close_over(lib):
    x, w = variable(lib), variable(lib)
    y = x * x
    y.register_hook(lambda g: g * w)
    (g,) = lib.autograd.grad(y.sum(), x, create_graph=True)
    return lib.autograd.grad(g.sum(), [x, w])


@raises("RuntimeError")
def hook_that_changes_the_shape(lib):
    x = variable(lib)
    x.register_hook(lambda g: g.sum())
    (x * x).sum().backward()


@raises("RuntimeError")
def hook_that_changes_the_dtype(lib):
    x = variable(lib)
    x.register_hook(lambda g: ones(lib, 3, dtype="float32"))
    (x * x).sum().backward()


@raises("TypeError")
def hook_that_returns_a_number(lib):
    x = variable(lib)
    x.register_hook(lambda g: 1.0)
    (x * x).sum().backward()


@raises("ValueError")
def errors_of_hooks_pass(lib):
    x = variable(lib)

    def fail(g):
        raise ValueError("mine")

    (x * x).register_hook(fail)
    y = x * x
    y.register_hook(fail)
    y.sum().backward()


@scenario
def post_accumulate_hooks(lib):
    x = variable(lib)
    seen = []

    def hook(t):
        seen.append((t is x, lib.array(t.grad).copy()))
        t.grad = None

    handle = x.register_post_accumulate_grad_hook(hook)
    (x * x).sum().backward()
    none = x.grad
    lib.autograd.grad((x * x).sum(), x)
    handle.remove()
    (x * x).sum().backward()
    return seen, none, x.grad


@scenario
def post_accumulate_hooks_come_last(lib):
    x = variable(lib)
    calls = []
    x.register_post_accumulate_grad_hook(lambda t: calls.append("post"))
    x.register_hook(lambda g: calls.append("hook"))
    x.sum().backward()
    return calls


@scenario
def post_accumulate_hooks_change_their_leaf(lib):
    x = variable(lib)
    modes = []

    def step(leaf):
        modes.append(lib.is_grad_enabled())
        leaf -= leaf.grad * 0.5

    def scale(leaf):
        leaf *= 2

    x.register_post_accumulate_grad_hook(step)
    x.register_post_accumulate_grad_hook(scale)
    (x * x).sum().backward()
    (x * x).sum().backward()
    return [x, x.grad, x.is_leaf, modes]


@scenario
def post_accumulate_hooks_under_create_graph(lib):
    x, modes = variable(lib), []
    x.register_post_accumulate_grad_hook(lambda _: modes.append(lib.is_grad_enabled()))
    (x * x).sum().backward(create_graph=True)
    return modes


@raises("RuntimeError")
def post_accumulate_hook_that_returns_something(lib):
    x = variable(lib)
    x.register_post_accumulate_grad_hook(lambda leaf: leaf.grad)
    x.sum().backward()


expressions(
    "RuntimeError",
    retaining_without_grad=lambda lib: lib.tensor([1.0]).retain_grad(),
    hook_without_grad=lambda lib: lib.tensor([1.0]).register_hook(lambda g: g),
    post_accumulate_hook_on_an_intermediate_result=lambda lib: (
        variable(lib) * 2
    ).register_post_accumulate_grad_hook(print),
    post_accumulate_hook_without_grad=lambda lib: lib.tensor(
        [1.0]
    ).register_post_accumulate_grad_hook(print),
)
