"""`backward(inputs=...)`."""

from tests.autograd.torch_contract.scenarios import expressions, raises, scenario, variable


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
def hooks_on_the_operation_of_an_input_of_backward(lib):
    x, seen = variable(lib), []
    y = x * x
    y.grad_fn.register_prehook(lambda gradients: seen.append(gradients[0]))
    y.grad_fn.register_hook(lambda gradients, _: seen.append(gradients))
    (y * 3).sum().backward(inputs=[y])
    return seen, x.grad, y.grad


@raises("RuntimeError")
def what_an_input_of_backward_was_computed_of_is_freed(lib):
    y = variable(lib) ** 2
    (y * 3).sum().backward(inputs=[y])
    (y * 3).sum().backward()


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


@scenario
def inputs_of_backward_in_a_dict(lib):
    x, y = variable(lib), variable(lib)
    (x * y).sum().backward(inputs={"x": x})
    return x.grad, y.grad


@scenario
def edge_of_backward_that_is_no_leaf(lib):
    x = variable(lib)
    y, z = x * x, x * 3
    z.retain_grad()
    edges = [lib.autograd.graph.get_gradient_edge(t) for t in (y, z)]
    (y * z).sum().backward(inputs=[*edges, x])
    return x.grad, z.grad, y.retains_grad


@scenario
def edge_of_backward_that_is_a_leaf(lib):
    x = variable(lib)
    (x * x).sum().backward(inputs=[lib.autograd.graph.get_gradient_edge(x)])
    return x.grad


def root_with_hooks(lib, x, seen):
    root = (x * x).sum()
    root.retain_grad()
    root.register_hook(lambda g: seen.append(g) or g * 2)
    root.register_hook(lambda g: seen.append(g))
    root.grad_fn.register_prehook(lambda g: seen.append("before the operation"))
    return root


@scenario
def an_only_root_above_no_input_has_its_hooks_called(lib):
    x, other, seen = variable(lib), variable(lib), []
    root = root_with_hooks(lib, x, seen)
    root.backward(inputs=[other])
    (g,) = lib.autograd.grad(root, [other], allow_unused=True)
    first = root.grad
    root.backward()  # nothing was freed
    return x.grad, other.grad, first, root.grad, g, *seen


@scenario
def an_only_root_whose_history_was_freed_has_its_hooks_called(lib):
    x, other, seen = variable(lib), variable(lib), []
    root = root_with_hooks(lib, x, seen)
    root.backward()
    root.backward(inputs=[other])
    return x.grad, other.grad, root.grad, *seen


@scenario
def an_only_root_that_is_a_leaf_above_no_input_has_its_hooks_called(lib):
    x, other, seen = lib.tensor(2.0, requires_grad=True), variable(lib), []
    x.register_hook(lambda g: seen.append(g))
    x.register_post_accumulate_grad_hook(lambda x: seen.append("accumulated"))
    x.backward(inputs=[other])
    lib.autograd.grad(x, other, allow_unused=True)
    return x.grad, other.grad, *seen


@scenario
def one_of_two_roots_above_no_input_has_no_hooks_called(lib):
    x, other, seen = variable(lib), variable(lib), []
    roots = [root_with_hooks(lib, x, seen), root_with_hooks(lib, other, seen)]
    lib.autograd.backward(roots, inputs=[other])
    return x.grad, other.grad, roots[0].grad, roots[1].grad, *seen


expressions(
    "RuntimeError",
    empty_inputs_of_backward=lambda lib: variable(lib).sum().backward(inputs=[]),
    input_of_backward_without_grad=lambda lib: (
        variable(lib).sum().backward(inputs=[lib.tensor([1.0])])
    ),
)
