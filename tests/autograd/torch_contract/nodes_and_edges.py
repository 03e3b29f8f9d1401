"""`grad_fn`, its links, and `GradientEdge`."""

from tests.autograd.torch_contract.function import two_results
from tests.autograd.torch_contract.scenarios import ones, raises, scenario, variable


@scenario
def functions_of_leaves(lib):
    x = variable(lib)
    return x.grad_fn, lib.tensor([1.0]).grad_fn, (lib.tensor([1.0]) * 2).grad_fn


@scenario
def functions_are_the_same_object(lib):
    y = variable(lib) * 2
    return y.grad_fn is y.grad_fn, y.grad_fn == y.grad_fn


@scenario
def next_functions(lib):
    x, c = variable(lib), lib.tensor([1.0, 2.0, 3.0])
    y = x * x
    z = y * c
    (first, number), none = z.grad_fn.next_functions
    leaf, other = y.grad_fn.next_functions
    return [
        first is y.grad_fn,
        number,
        none,
        leaf[0] is other[0],
        leaf[0].variable is x,
        leaf[0].next_functions,
        "AccumulateGrad" in leaf[0].name(),
        "Backward" in y.grad_fn.name(),
    ]


@scenario
def metadata(lib):
    y = variable(lib) * 2
    y.grad_fn.metadata["key"] = 3
    return y.grad_fn.metadata


@scenario
def node_hooks(lib):
    x, w = variable(lib), variable(lib)
    y = x * w
    seen = []

    def hook(grad_inputs, grad_outputs):
        seen.append([lib.array(g).copy() for g in (*grad_inputs, *grad_outputs)])
        return (grad_inputs[0] * 10, None)

    handle = y.grad_fn.register_hook(hook)
    (y * 2).sum().backward(retain_graph=True)
    handle.remove()
    first = lib.array(x.grad).copy(), w.grad
    (y * 2).sum().backward()
    return seen, first, x.grad, w.grad


@scenario
def node_prehooks(lib):
    x = variable(lib)
    y = x * x
    y.grad_fn.register_prehook(lambda gs: (gs[0] * 10,))
    y.grad_fn.register_prehook(lambda gs: None)
    y.sum().backward()
    return x.grad


@scenario
def node_hooks_of_leaves(lib):
    x = variable(lib)
    y = x * x
    accumulate = y.grad_fn.next_functions[0][0]
    calls = []
    accumulate.register_prehook(lambda gs: calls.append(("pre", lib.array(gs[0]).copy())))
    accumulate.register_hook(lambda i, o: calls.append(("post", len(i), lib.array(o[0]).copy())))
    y.sum().backward()
    return calls, x.grad


@scenario
def edges_as_inputs(lib):
    x = variable(lib)
    y = x * x
    edge = lib.autograd.graph.get_gradient_edge
    return lib.autograd.grad((y * y).sum(), [edge(x), edge(y)])


@scenario
def edges_as_outputs(lib):
    x = variable(lib)
    edge = lib.autograd.graph.get_gradient_edge(x * x)
    return lib.autograd.grad(edge, x, ones(lib, 3)), edge.output_nr


@scenario
def edges_in_backward(lib):
    x = variable(lib)
    y = (x * x).sum()
    edge = lib.autograd.graph.get_gradient_edge(y)
    lib.autograd.backward(edge)
    return x.grad


@scenario
def edges_as_inputs_of_backward(lib):
    x, w = variable(lib), variable(lib)
    (x * w).sum().backward(inputs=[lib.autograd.graph.get_gradient_edge(x)])
    return x.grad, w.grad


@raises("RuntimeError")
def edge_of_several_elements_without_a_gradient(lib):
    x = variable(lib)
    lib.autograd.grad(lib.autograd.graph.get_gradient_edge(x * x), x)


@raises("RuntimeError")
def edge_without_grad(lib):
    lib.autograd.graph.get_gradient_edge(lib.tensor([1.0]))


@raises("RuntimeError")
def edges_cannot_be_materialized(lib):
    x, y = variable(lib), variable(lib)
    edge = lib.autograd.graph.get_gradient_edge(y)
    lib.autograd.grad(x.sum(), edge, materialize_grads=True)


@scenario
def edges_of_functions_with_several_results(lib):
    x = variable(lib)
    _, b = two_results(lib).apply(x)
    edge = lib.autograd.graph.get_gradient_edge(b)
    return edge.output_nr, lib.autograd.grad(edge, x, ones(lib, 3))


@scenario
def hooks_on_the_operation_of_a_tensor_with_another_value(lib):
    x, seen = variable(lib), []
    y = x * 1.5
    d = y.detach()
    d *= 2
    name = y.grad_fn.name().rstrip("0")
    y.grad_fn.register_hook(lambda gradients, _: (gradients[0] * 2, *gradients[1:]))
    y.grad_fn.register_prehook(lambda gradients: seen.append(gradients[0]))
    [g] = lib.autograd.grad(y.sum(), [y], retain_graph=True)
    edge = lib.autograd.graph.get_gradient_edge(y)
    [h] = lib.autograd.grad((y * y).sum(), [edge], retain_graph=True)
    (y * y).sum().backward()
    return g, h, x.grad, seen, name == (x * 1.5).grad_fn.name().rstrip("0")
