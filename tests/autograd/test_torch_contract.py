"""The gradient contract: scenarios run here and in torch give the same, or the same errors."""

import contextlib
import warnings

import numpy as np
import pytest

SCENARIOS = []


def scenario(function):
    SCENARIOS.append(function)
    return function


@pytest.mark.parametrize("run", SCENARIOS, ids=lambda function: function.__name__)
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_as_torch(same_as_torch, run):
    result = same_as_torch(run)
    error = result if isinstance(result, str) else None
    assert error == EXPECTED_ERRORS.get(run.__name__)


# A scenario that raises in both libraries is named here, so that none raises by a mistake of its
# own.
EXPECTED_ERRORS = {}


def raises(kind):
    def mark(function):
        EXPECTED_ERRORS[function.__name__] = kind
        return scenario(function)

    return mark


def variable(lib, *values):
    return lib.tensor(list(values) or [1.0, 2.0, -0.5], requires_grad=True)


def ones(lib, *shape, dtype="float64"):
    return lib.tensor(np.ones(shape), dtype=dtype)


# Roots and their gradients.


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
def implicit_gradient_of_several_elements(lib):
    (variable(lib) * 2).backward()


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


@raises("RuntimeError")
def given_gradient_that_would_broadcast(lib):
    (variable(lib) * 2).backward(lib.tensor(1.0))


@raises("RuntimeError")
def given_gradient_of_another_shape(lib):
    (variable(lib) * 2).backward(ones(lib, 4))


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
def output_without_history(lib):
    lib.tensor([1.0]).backward()


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
def no_outputs(lib):
    return lib.autograd.backward([])


@raises("RuntimeError")
def gradient_of_no_outputs(lib):
    lib.autograd.grad([], [variable(lib)])


@scenario
def generator_arguments(lib):
    x = variable(lib)
    return lib.autograd.grad((o for o in [x.sum()]), (i for i in [x]))


# Accumulation.


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
def accumulating_with_create_graph(lib):
    x = variable(lib)
    (x * x * x).sum().backward(create_graph=True)
    g = x.grad
    (x * x).sum().backward(create_graph=True)
    return g, x.grad, x.grad.requires_grad, lib.autograd.grad(x.grad.sum(), x)


# Retained and freed history.


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


# Inputs=.


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


# Grad().


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


@raises("RuntimeError")
def no_inputs(lib):
    lib.autograd.grad(variable(lib).sum(), [])


@raises("RuntimeError")
def input_without_grad(lib):
    lib.autograd.grad(variable(lib).sum(), lib.tensor([1.0]))


@raises("RuntimeError")
def input_without_grad_though_unused_is_allowed(lib):
    lib.autograd.grad(variable(lib).sum(), lib.tensor([1.0]), allow_unused=True)


@raises("RuntimeError")
def unused_input(lib):
    lib.autograd.grad(variable(lib).sum(), variable(lib))


def _unused(lib, **options):
    x, y = variable(lib), lib.tensor([1.0], requires_grad=True)
    found = lib.autograd.grad((x * x).sum(), [x, y], **options)
    return [(g, g.requires_grad) if g is not None else None for g in found]


@scenario
def unused_allowed(lib):
    return _unused(lib, allow_unused=True)


@raises("RuntimeError")
def unused_forbidden(lib):
    return _unused(lib, allow_unused=False)


@raises("RuntimeError")
def unused_forbidden_by_default(lib):
    return _unused(lib, materialize_grads=False)


@scenario
def unused_materialized(lib):
    return _unused(lib, materialize_grads=True)


@scenario
def unused_materialized_and_allowed(lib):
    return _unused(lib, materialize_grads=True, allow_unused=True)


@raises("ValueError")
def unused_materialized_and_forbidden(lib):
    return _unused(lib, materialize_grads=True, allow_unused=False)


@scenario
def unused_allowed_and_not_materialized(lib):
    return _unused(lib, materialize_grads=False, allow_unused=True)


@scenario
def unused_materialized_with_create_graph(lib):
    return _unused(lib, materialize_grads=True, create_graph=True)


@scenario
def unused_allowed_with_create_graph(lib):
    return _unused(lib, allow_unused=True, create_graph=True)


@scenario
def detached_input_is_unused(lib):
    x = variable(lib)
    y = x * 2
    return lib.autograd.grad((y.detach() * x).sum(), [x, y], allow_unused=True)


# Batched gradients.


@scenario
def batched_gradients(lib):
    x, y = variable(lib), variable(lib)
    v = lib.tensor(np.arange(12.0).reshape(4, 3))
    return lib.autograd.grad(lib.exp(x) * y, [x, y], v, is_grads_batched=True)


@scenario
def batched_gradients_of_several_outputs(lib):
    x = variable(lib)
    v = lib.tensor(np.arange(12.0).reshape(4, 3))
    w = lib.tensor(np.arange(4.0))
    return lib.autograd.grad([x * x, (x * x * x).sum()], x, [v, w], is_grads_batched=True)


@scenario
def batched_gradients_with_create_graph(lib):
    x = variable(lib)
    v = lib.tensor(np.arange(6.0).reshape(2, 3), requires_grad=True)
    (g,) = lib.autograd.grad(x * x * x, x, v, is_grads_batched=True, create_graph=True)
    return g, lib.autograd.grad(g.sum(), [x, v])


@scenario
def batched_gradients_of_unused_inputs(lib):
    x, y = variable(lib), lib.tensor([1.0], requires_grad=True)
    v = ones(lib, 4, 3)
    return [
        lib.autograd.grad(x * 2, [x, y], v, is_grads_batched=True, **options)
        for options in ({"allow_unused": True}, {"materialize_grads": True})
    ]


@raises("RuntimeError")
def batched_gradients_of_another_shape(lib):
    x = variable(lib)
    lib.autograd.grad(x * 2, x, ones(lib, 4, 2), is_grads_batched=True)


@raises("ValueError")
def batched_gradients_that_are_missing(lib):
    x = variable(lib)
    lib.autograd.grad(x.sum(), x, is_grads_batched=True)


@scenario
def batched_gradients_through_an_edge(lib):
    x = variable(lib)
    edge = lib.autograd.graph.get_gradient_edge(x * x)
    return lib.autograd.grad(edge, x, ones(lib, 4, 3), is_grads_batched=True)


@scenario
def batched_gradients_through_hooks(lib):
    x = variable(lib)
    y = x * x
    y.register_hook(lambda g: g * 3)
    shapes = []
    y.register_hook(lambda g: shapes.append(tuple(g.shape)))
    return lib.autograd.grad(y, x, ones(lib, 4, 3), is_grads_batched=True), shapes


# Orders and modes.


@scenario
def gradients_of_gradients(lib):
    x = variable(lib)
    results = []
    y = (x * x * x * x).sum()
    for _ in range(4):
        (g,) = lib.autograd.grad(y, x, create_graph=True)
        results.append((g, g.requires_grad))
        y = g.sum()
    return results


@scenario
def mixed_partials(lib):
    x, y = variable(lib), variable(lib)
    z = (x * x * y * y * y).sum()
    (gx,) = lib.autograd.grad(z, x, create_graph=True)
    return lib.autograd.grad(gx.sum(), [x, y])


@scenario
def penalty_on_the_gradient(lib):
    x, w = variable(lib), variable(lib)
    y = lib.exp(x * w).sum()
    (g,) = lib.autograd.grad(y, x, create_graph=True)
    (y + (g * g).sum()).backward()
    return x.grad, w.grad


@scenario
def gradient_of_a_linear_function_has_no_history(lib):
    x = variable(lib)
    (g,) = lib.autograd.grad((x * 2).sum(), x, create_graph=True)
    return g, g.requires_grad


@scenario
def gradient_by_the_given_gradient(lib):
    x = variable(lib)
    v = lib.tensor([1.0, 2.0, 3.0], requires_grad=True)
    (g,) = lib.autograd.grad(x * x, x, v, create_graph=True)
    return lib.autograd.grad(g.sum(), [v, x])


@scenario
def gradients_without_create_graph_have_no_history(lib):
    x = variable(lib)
    v = lib.tensor([1.0, 2.0, 3.0], requires_grad=True)
    (g,) = lib.autograd.grad(x * x, x, v)
    return g.requires_grad, g.is_leaf, g.grad_fn


@scenario
def create_graph_inside_no_grad(lib):
    x = variable(lib)
    y = (x * x * x).sum()
    with lib.no_grad():
        (g,) = lib.autograd.grad(y, x, create_graph=True)
        return g.requires_grad, lib.is_grad_enabled()


@scenario
def hooks_record_only_with_create_graph(lib):
    x = variable(lib)
    seen = []
    x.register_hook(lambda g: seen.append((lib.is_grad_enabled(), (x * 2).requires_grad)))
    (x * x).sum().backward()
    (x * x).sum().backward(create_graph=True)
    return seen


# Leaves, requires_grad.


@scenario
def leaves(lib):
    x, c = variable(lib), lib.tensor([1.0])
    y = x * 2
    with lib.no_grad():
        z = x * 2
    return [t.is_leaf for t in (x, c, c * 2, y, z, y.detach())]


@scenario
def detached_tensors_can_require_grad(lib):
    x = variable(lib)
    y = (x * 2).detach()
    y.requires_grad_()
    (x * y).sum().backward()
    return y.is_leaf, x.grad, y.grad


@scenario
def computed_tensors_can_become_leaves(lib):
    c = lib.tensor([1.0, 2.0, 3.0])
    y = c * 2
    before = y * 1
    y.requires_grad_()
    (y * y).sum().backward()
    return y.is_leaf, y.grad, before.requires_grad


@scenario
def tensors_made_under_no_grad_can_become_leaves(lib):
    x = variable(lib)
    with lib.no_grad():
        y = x * 2
    y.requires_grad_()
    (y * x).sum().backward()
    return y.is_leaf, x.grad, y.grad


@raises("RuntimeError")
def intermediate_results_keep_requires_grad(lib):
    (variable(lib) * 2).requires_grad_(False)


@scenario
def requires_grad_of_an_intermediate_result(lib):
    y = (variable(lib) * 2).requires_grad_()
    return y.requires_grad, y.is_leaf


@raises("RuntimeError")
def integers_cannot_require_grad(lib):
    lib.tensor([1, 2], dtype="int64").requires_grad_()


@scenario
def requires_grad_switched_off(lib):
    x, w = variable(lib), variable(lib)
    y = (x * w).sum()
    x.requires_grad_(False)
    y.backward()
    return x.grad, w.grad


# Retain_grad, hooks.


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


@raises("RuntimeError")
def retaining_without_grad(lib):
    lib.tensor([1.0]).retain_grad()


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


@raises("RuntimeError")
def hook_without_grad(lib):
    lib.tensor([1.0]).register_hook(lambda g: g)


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


@raises("RuntimeError")
def post_accumulate_hook_on_an_intermediate_result(lib):
    (variable(lib) * 2).register_post_accumulate_grad_hook(print)


@raises("RuntimeError")
def post_accumulate_hook_without_grad(lib):
    lib.tensor([1.0]).register_post_accumulate_grad_hook(print)


# The graph's nodes and edges.


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
    _, b = _two_results(lib).apply(x)
    edge = lib.autograd.graph.get_gradient_edge(b)
    return edge.output_nr, lib.autograd.grad(edge, x, ones(lib, 3))


# Assignment in place.


@raises("RuntimeError")
def leaves_refuse_assignment(lib):
    x = variable(lib)
    x += 1


@raises("RuntimeError")
def leaves_refuse_assignment_of_parts(lib):
    x = variable(lib)
    x[0] = 1


@scenario
def leaves_under_no_grad_keep_their_gradient(lib):
    x = variable(lib)
    x.register_hook(lambda g: g * 2)
    x.sum().backward()
    with lib.no_grad():
        x -= x.grad
    x.sum().backward()
    return x, x.grad, x.is_leaf, x.requires_grad


@scenario
def versions_of_a_leaf_share_hooks_and_gradients(lib):
    x = variable(lib)
    calls = []
    x.register_hook(lambda g: calls.append(lib.array(g).copy()))
    y = (x + 1).sum()
    with lib.no_grad():
        x += 1
    z = (x + 3).sum()
    (y + z).backward(retain_graph=True)
    return calls, x.grad, lib.autograd.grad(y + z, x)


@scenario
def gradients_of_assignment(lib):
    x, v = variable(lib), lib.tensor(2.0, requires_grad=True)
    y = x * 2
    y[1] = v
    (y * y).sum().backward()
    return x.grad, v.grad


@scenario
def retained_gradient_moves_with_the_value(lib):
    x = variable(lib)
    y = x * 2
    y.retain_grad()
    y += 1
    y *= 3
    (y * 5).sum().backward()
    return y.grad, y.retains_grad, x.grad


# Function.


def _two_results(lib):
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


@raises("RuntimeError")
def function_with_too_few_gradients(lib):
    return _run_product(lib, lambda ctx, g, h: g)


@raises("RuntimeError")
def function_with_too_many_gradients(lib):
    return _run_product(lib, lambda ctx, g, h: (g, g, g))


@scenario
def function_with_additional_nones(lib):
    return _run_product(lib, lambda ctx, g, h: (g, g, None, None))


@raises("RuntimeError")
def function_with_a_gradient_of_another_shape(lib):
    return _run_product(lib, lambda ctx, g, h: (ones(lib, 4), g))


@raises("RuntimeError")
def function_with_a_smaller_gradient(lib):
    return _run_product(lib, lambda ctx, g, h: (ones(lib, 1), g))


@raises("RuntimeError")
def function_with_a_scalar_gradient(lib):
    return _run_product(lib, lambda ctx, g, h: (g.sum(), g))


@scenario
def function_with_a_larger_gradient(lib):
    return _run_product(lib, lambda ctx, g, h: (ones(lib, 2, 3), g))


@scenario
def function_with_gradients_of_other_real_dtypes(lib):
    return _run_product(
        lib, lambda ctx, g, h: (ones(lib, 3, dtype="float32"), ones(lib, 3, dtype="int64"))
    )


@raises("RuntimeError")
def function_with_a_complex_gradient(lib):
    return _run_product(lib, lambda ctx, g, h: (ones(lib, 3, dtype="complex128"), g))


@raises("RuntimeError")
def function_with_a_gradient_that_is_a_number(lib):
    return _run_product(lib, lambda ctx, g, h: (1.0, g))


@raises("RuntimeError")
def function_with_a_list_of_gradients(lib):
    return _run_product(lib, lambda ctx, g, h: [g, g])


@raises("RuntimeError")
def function_without_gradients(lib):
    return _run_product(lib, lambda ctx, g, h: None)


@scenario
def function_with_none_for_gradients(lib):
    return _run_product(lib, lambda ctx, g, h: (None, None))


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
def function_twice_without_saved_tensors(lib):
    return _twice(lib, save=False, access=False)


@scenario
def function_twice_without_reading_saved_tensors(lib):
    return _twice(lib, save=True, access=False)


@raises("RuntimeError")
def function_twice_with_saved_tensors(lib):
    return _twice(lib, save=True, access=True)


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
        a, b = _two_results(lib).apply(x)
    return a.requires_grad, b.is_leaf, a


@scenario
def function_of_constants(lib):
    a, _ = _two_results(lib).apply(lib.tensor([1.0]))
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


@raises("RuntimeError")
def once_differentiable(lib):
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

    x = variable(lib)
    (g,) = lib.autograd.grad(Cube.apply(x).sum(), x, create_graph=True)
    g.sum().backward()


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
    a, b = _two_results(lib).apply(x)
    calls = []
    a.register_hook(lambda g: g * 10)
    a.grad_fn.register_prehook(lambda gs: calls.append([g is None for g in gs]))
    a.grad_fn.register_hook(lambda i, o: calls.append((len(i), len(o))))
    a.sum().backward()
    return x.grad, calls, a.grad_fn is b.grad_fn, a.output_nr, b.output_nr


@scenario
def gradients_of_results_of_functions(lib):
    x = variable(lib)
    a, b = _two_results(lib).apply(x)
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


# Functional.


def _cubes(x):
    return x * x * x


def _mix(x, y):
    return x * x * y, (x * y).sum()


@scenario
def functional_vjp(lib):
    x, y, v = variable(lib), variable(lib, 3.0, 4.0, 5.0), ones(lib, 3)
    f = lib.autograd.functional
    return [
        f.vjp(_cubes, x, v),
        f.vjp(_mix, (x, y), (v, lib.tensor(2.0))),
        f.vjp(lambda x: _cubes(x).sum(), x),
        [t.requires_grad for t in f.vjp(_cubes, x, v, create_graph=True)],
        [t.requires_grad for t in f.vjp(_cubes, x, v)],
        f.vjp(lambda x, y: x * 2, (x, y), v),
    ]


@scenario
def functional_jvp(lib):
    x, y, v = variable(lib), variable(lib, 3.0, 4.0, 5.0), lib.tensor([1.0, -2.0, 3.0])
    f = lib.autograd.functional
    return [
        f.jvp(_cubes, x, v),
        f.jvp(_mix, (x, y), (v, v)),
        f.jvp(_cubes, lib.tensor([2.0])),
        [t.requires_grad for t in f.jvp(_cubes, x, v, create_graph=True)],
        f.jvp(lambda x: x * 2, x, v),
    ]


@scenario
def functional_jacobian(lib):
    x, y = variable(lib), variable(lib, 3.0, 4.0, 5.0)
    f = lib.autograd.functional
    return [
        f.jacobian(_cubes, x),
        f.jacobian(_cubes, (x,)),
        f.jacobian(_mix, (x, y)),
        f.jacobian(_mix, (x, y), vectorize=True),
        f.jacobian(lambda x: (_cubes(x),), x),
        f.jacobian(lambda x, y: (x * 2, y), (x, y)),
        f.jacobian(lambda x: x.sum(), x),
        f.jacobian(_cubes, x, create_graph=True).requires_grad,
        f.jacobian(_cubes, x).requires_grad,
    ]


@scenario
def functional_jacobian_forward(lib):
    x, y = variable(lib), variable(lib, 3.0, 4.0, 5.0)
    f = lib.autograd.functional
    options = {"vectorize": True, "strategy": "forward-mode"}
    return f.jacobian(_cubes, x, **options), f.jacobian(_mix, (x, y), **options)


@scenario
def functional_hessian(lib):
    x, y = variable(lib), variable(lib, 3.0, 4.0, 5.0)
    f = lib.autograd.functional
    return [
        f.hessian(lambda x: _cubes(x).sum(), x),
        f.hessian(lambda x, y: (x * x * y).sum(), (x, y)),
        f.hessian(lambda x: x.sum(), x),
        f.hessian(lambda x: _cubes(x).sum(), x, vectorize=True),
        f.hessian(lambda x: (_cubes(x) * x).sum(), x, create_graph=True).requires_grad,
    ]


@scenario
def functional_hessian_vector_products(lib):
    x, y, v = variable(lib), variable(lib, 3.0, 4.0, 5.0), lib.tensor([1.0, -2.0, 3.0])
    f = lib.autograd.functional
    return [
        [
            product(lambda x: _cubes(x).sum(), x, v),
            product(lambda x, y: (x * x * y).sum(), (x, y), (v, v)),
            product(_cubes, lib.tensor([2.0])),
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
        _, g = product(_cubes, x, v, create_graph=True)
        results.append(lib.autograd.grad(g.sum(), [x, v]))
    for product in (f.hvp, f.vhp):
        _, g = product(lambda x: (_cubes(x) * x).sum(), x, v, create_graph=True)
        results.append(lib.autograd.grad(g.sum(), [x, v]))
    jacobian = f.jacobian(_cubes, x, create_graph=True)
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


@raises("RuntimeError")
def strict_hessian_of_a_linear_function(lib):
    lib.autograd.functional.hessian(lambda x: x.sum(), variable(lib), strict=True)


@raises("RuntimeError")
def strict_and_vectorized(lib):
    lib.autograd.functional.jacobian(_cubes, variable(lib), strict=True, vectorize=True)


@raises("RuntimeError")
def vector_of_another_shape(lib):
    lib.autograd.functional.vjp(_cubes, variable(lib), ones(lib, 4))


@raises("RuntimeError")
def vectors_of_another_number(lib):
    lib.autograd.functional.vjp(_mix, (variable(lib), variable(lib)), ones(lib, 3))


@raises("RuntimeError")
def missing_vector(lib):
    lib.autograd.functional.jvp(_cubes, variable(lib))


@raises("TypeError")
def inputs_that_are_no_tensors(lib):
    lib.autograd.functional.jacobian(_cubes, [1.0])


@raises("RuntimeError")
def hessian_of_several_elements(lib):
    lib.autograd.functional.hessian(_cubes, variable(lib))


@raises("NotImplementedError")
def forward_jacobian_without_vectorize(lib):
    lib.autograd.functional.jacobian(_cubes, variable(lib), strategy="forward-mode")


@scenario
def functional_of_what_the_function_closes_over(lib):
    x = variable(lib)
    return lib.autograd.functional.jacobian(lambda y: x * y, x)


@scenario
def functional_under_no_grad(lib):
    x = variable(lib)
    with lib.no_grad():
        return lib.autograd.functional.jacobian(_cubes, x)


# Gradcheck.


@scenario
def gradcheck_of_right_gradients(lib):
    x, y = variable(lib), variable(lib, 3.0, 4.0, 5.0)
    z = lib.tensor([1 + 2j, 0.5 - 1j], requires_grad=True, dtype="complex128")
    check, twice = lib.autograd.gradcheck, lib.autograd.gradgradcheck
    return [
        check(_cubes, x),
        check(_mix, (x, y)),
        check(lambda z: z * z, z),
        check(lambda z: z * z.conj() * z, (z,), check_batched_grad=True),
        check(_cubes, x, fast_mode=True),
        check(lambda x, c: x * c, (x, 3.0)),
        twice(_cubes, x),
        twice(_mix, (x, y)),
        twice(lambda z: z * z * z, z),
        twice(_cubes, x, lib.tensor([1.0, 2.0, 3.0], requires_grad=True), fast_mode=True),
    ]


def _wrong(lib, factor=2.5, once=False):
    class Square(lib.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * x.detach() * factor if once else g * x * factor

    return Square.apply


@scenario
def gradcheck_of_wrong_gradients(lib):
    x = variable(lib)
    check, twice = lib.autograd.gradcheck, lib.autograd.gradgradcheck
    return [
        check(_wrong(lib), x, raise_exception=False),
        check(_wrong(lib), x, raise_exception=False, fast_mode=True),
        check(_wrong(lib, 2, once=True), x),
        twice(_wrong(lib, 2, once=True), x, raise_exception=False),
    ]


@raises("RuntimeError")
def gradcheck_raises(lib):
    lib.autograd.gradcheck(_wrong(lib), variable(lib))


@raises("ValueError")
def gradcheck_without_inputs(lib):
    lib.autograd.gradcheck(_cubes, lib.tensor([1.0]))


# Anomaly mode.


@raises("RuntimeError")
def anomaly_raises_on_nan(lib):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with lib.autograd.detect_anomaly():
            lib.sqrt(variable(lib)).sum().backward()


@scenario
def anomaly_does_not_raise_on_infinity(lib):
    x = variable(lib, 0.0, 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with lib.autograd.detect_anomaly():
            lib.sqrt(x).sum().backward()
    return x.grad


@scenario
def anomaly_without_checking_nan(lib):
    x = variable(lib)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with lib.autograd.detect_anomaly(check_nan=False):
            lib.sqrt(x).sum().backward()
    return x.grad


@scenario
def anomaly_is_over_after_the_block(lib):
    x = variable(lib)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with lib.autograd.set_detect_anomaly(True), lib.autograd.set_detect_anomaly(False):
            lib.sqrt(x).sum().backward()
    lib.sqrt(x).sum().backward()
    return x.grad
