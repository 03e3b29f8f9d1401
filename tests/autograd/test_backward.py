"""backward() and grad() where torch is no guide: programs, traces, engines, messages."""

import gc
import sys

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.autograd import backward_pass
from numba_grad.autograd.graph import GradFn
from numba_grad.compiler import evaluate as evaluation
from numba_grad.errors import GradientError
from numba_grad.graph.node import argument
from numba_grad.graph.types import array_type


def variable(*values):
    return ng.tensor(list(values) or [1.0, 2.0, 3.0], requires_grad=True)


@pytest.fixture
def programs(monkeypatch):
    """The targets of each program that a backward pass runs."""
    runs = []

    def counting(targets, **how):
        runs.append(list(targets))
        evaluation.evaluate(targets, **how)

    monkeypatch.setattr(backward_pass, "evaluate", counting)
    return runs


def test_one_program_per_pass(programs):
    x, w = variable(), variable()
    y = np.exp(x * w)
    z = (y * y).sum()
    y.retain_grad()
    z.backward()
    assert len(programs) == 1
    assert {x.grad.shape, w.grad.shape, y.grad.shape} == {(3,)}
    ng.autograd.grad((x * w).sum(), [x, w])
    assert len(programs) == 2


def test_accumulating_is_part_of_the_program(programs):
    x = variable()
    for _ in range(3):
        (x * x).sum().backward()
    assert len(programs) == 3
    np.testing.assert_array_equal(x.grad, [6.0, 12.0, 18.0])


def test_targets_do_not_depend_on_addresses(programs):
    for _ in range(5):
        leaves = [variable() for _ in range(10)]
        total = leaves[0] * 1
        for x in leaves[1:]:
            total = total + x * x
        total.sum().backward()
    orders = [[node.op.name for node in targets] for targets in programs]
    assert all(order == orders[0] for order in orders)


def test_nothing_is_computed_in_a_trace(programs):
    x = ng.Tensor(argument(array_type((3,), np.dtype(float)), True))
    y = x * x
    y.sum().backward()
    (g,) = ng.autograd.grad((x * x).sum(), x)
    assert programs == []
    assert x.grad._node.value is None
    assert g._node.value is None
    assert not g.requires_grad


def test_gradients_inside_of_jit():
    @ng.jit
    def step(x):
        x = ng.asarray(x).detach().requires_grad_()
        for _ in range(3):
            (x * x).sum().backward()
            with ng.no_grad():
                x -= 0.25 * x.grad
            x.grad = None
        return x

    np.testing.assert_array_equal(step(np.array([8.0, 16.0])), [1.0, 2.0])


@pytest.mark.usefixtures("native")
def test_on_compiled_kernels():
    x = variable()
    y = np.sin(x) * x
    y.retain_grad()
    y.register_hook(lambda g: g * 2)
    (y * y).sum().backward(create_graph=True)
    s, c = np.sin([1.0, 2.0, 3.0]), np.cos([1.0, 2.0, 3.0])
    v = np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(y.grad.detach(), 4 * s * v, rtol=1e-14)
    np.testing.assert_allclose(x.grad.detach(), 4 * s * v * (c * v + s), rtol=1e-14)
    batched = ng.autograd.grad(x * x, x, ng.tensor(np.eye(3)), is_grads_batched=True)[0]
    np.testing.assert_array_equal(batched, np.diag(2 * v))


def test_gradients_keep_float32():
    x = ng.tensor([1.0, 2.0], dtype="float32", requires_grad=True)
    (x * x).sum().backward()
    assert x.grad.dtype == np.float32


def test_reading_the_gradient_of_an_intermediate_result_warns():
    y = variable() * 2
    with pytest.warns(UserWarning, match="not a leaf"):
        assert y.grad is None


@pytest.mark.parametrize(
    ("call", "texts"),
    [
        (
            lambda x: (x * 2).backward(),
            ["implicitly created only for scalar outputs", "float64[3]", "x.sum().backward()"],
        ),
        (
            lambda x: (x * 2).backward(ng.tensor([1.0])),
            ["Mismatch in shape", "grad_tensors[0]", "float64[1]", "float64[3]"],
        ),
        (
            lambda x: ng.autograd.grad([x.sum(), ng.tensor(1.0)], x),
            ["element 1 of tensors does not require grad", "outputs[1]", "no_grad"],
        ),
        (
            lambda x: ng.autograd.grad(x.sum(), [x, ng.tensor([1.0], requires_grad=True)]),
            ["inputs[1]", "not have been used in the graph", "allow_unused=True"],
        ),
        (
            lambda x: [ng.autograd.grad(y, x) for y in [(x * x).sum()] * 2],
            ["Trying to backward through the graph a second time", "retain_graph=True"],
        ),
        (
            lambda x: (x * 2).requires_grad_(False),
            ["only change requires_grad flags of leaf variables", "detach()"],
        ),
        (lambda x: x.__iadd__(1), ["a leaf Variable that requires grad", "no_grad"]),
    ],
)
def test_messages(call, texts):
    with pytest.raises(GradientError) as caught:
        call(variable())
    for text in texts:
        assert text in str(caught.value)


def test_arguments_that_are_no_tensors():
    x = variable()
    with pytest.raises(TypeError, match=r"outputs\[0\] : 1\.0 \(float\)"):
        ng.autograd.grad([1.0], x)
    with pytest.raises(TypeError, match=r"inputs\[0\]"):
        ng.autograd.grad(x.sum(), ["x"])


def test_function_names():
    x = variable()
    assert (x * 2).grad_fn.name() == "MultiplyBackward"
    assert np.logical_not(x).grad_fn is None
    assert repr((x @ x).grad_fn).startswith("<")
    function = (x * 2).grad_fn
    assert isinstance(function, GradFn)
    leaf = function.next_functions[0][0]
    assert leaf.name() == "AccumulateGrad"
    with pytest.raises(AttributeError, match="no attribute 'variable'"):
        function.variable  # noqa: B018
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        function.nothing  # noqa: B018


def test_leaf_functions_follow_assignment():
    x = variable()
    function = (x * 2).grad_fn.next_functions[0][0]
    with ng.no_grad():
        x += 1
    assert function.variable is x


def test_materialized_zeros_are_tensors_of_their_own():
    x, y, z = variable(), variable(), variable()
    a, b = ng.autograd.grad((x * x).sum(), [y, z], materialize_grads=True)
    assert a is not b
    np.testing.assert_array_equal(a, np.zeros(3))


def test_batched_gradients_that_require_grad_have_gradients():
    x = ng.tensor([1.0, 2.0], requires_grad=True)
    seeds = ng.tensor(np.eye(2), requires_grad=True)
    (rows,) = ng.autograd.grad(x * 3.0, x, seeds, create_graph=True, is_grads_batched=True)
    assert rows.requires_grad
    rows.sum().backward()
    np.testing.assert_array_equal(seeds.grad, np.full((2, 2), 3.0))


def nested(depth, innermost, path):
    """What `innermost` returns in the hook of a pass, that many passes deep; `path`: how each pass
    calls the next one."""
    found = []

    class Deeper(ng.autograd.Function):
        @staticmethod
        def forward(ctx, x, left):
            ctx.left = left
            return x * 2

        @staticmethod
        def backward(ctx, g):
            go_on(ctx.left)
            return g * 2, None

    def go_on(left):
        if not left:
            found.append(innermost())
            return
        with ng.enable_grad():
            x = ng.tensor(3.0, requires_grad=True)
            if path == "function":
                y = Deeper.apply(x, left - 1)
            elif path == "leaf hook":
                y = x * 2
                x.register_post_accumulate_grad_hook(lambda _: go_on(left - 1))
            else:
                y = x * 2
                y.register_hook(lambda _: go_on(left - 1))
            if path == "grad":
                (g,) = ng.autograd.grad(y, x)
            else:
                y.backward()
                g = x.grad
            assert g.item() == 2

    go_on(depth)
    return found[0]


def test_no_collection_looks_at_the_nodes_of_a_pass():
    x = ng.tensor(np.ones(3), requires_grad=True)
    y = x
    for _ in range(1_000):
        y = y * x
    was_enabled = []
    x.register_hook(lambda g: was_enabled.append(gc.isenabled()))
    loss = y.sum()
    loss.backward(retain_graph=True)
    assert was_enabled == [False]
    assert gc.isenabled()

    def fail(g):
        raise LookupError("in a hook")

    x.register_hook(fail)
    with pytest.raises(LookupError, match="in a hook"):
        loss.backward()
    assert gc.isenabled()


@pytest.mark.parametrize("path", ["hook", "leaf hook", "function", "grad"])
def test_passes_nest_as_deep_as_one_likes(path):
    assert nested(250, lambda: "there", path) == "there"


def test_a_deep_pass_has_the_modes_of_a_shallow_one():
    def modes():
        x = ng.tensor(1.0, requires_grad=True)
        return ng.is_grad_enabled(), (x * 2).requires_grad, np.geterr()["over"], sys.gettrace()

    with np.errstate(over="raise"):
        assert nested(25, modes, "hook") == nested(1, modes, "hook")


def test_what_is_raised_in_a_deep_pass_is_raised_by_the_first():
    def fail():
        raise LookupError("deep down")

    with pytest.raises(LookupError, match="deep down"):
        nested(25, fail, "hook")
    assert nested(25, lambda: "there", "hook") == "there"


def test_what_a_deep_hook_records_is_computed_with_the_first_pass(programs):
    kept = []
    x = ng.tensor(3.0, requires_grad=True)
    y = x * 2
    y.register_hook(lambda g: nested(25, lambda: kept.append(g * 5), "hook"))
    y.backward()
    assert kept[0]._node.value is not None and kept[0].item() == 5


def test_who_holds_a_gradient_sees_what_is_added_to_it():
    x = ng.tensor([1.0, 2.0], requires_grad=True)
    (x * x).sum().backward()
    held, before = x.grad, x.grad * 1.0
    (3.0 * x).sum().backward()
    assert x.grad is held
    np.testing.assert_array_equal(held, [5.0, 7.0])
    np.testing.assert_array_equal(before, [2.0, 4.0])  # recorded of the gradient as it was
    given = x.grad = ng.tensor([1.0, 1.0])
    (3.0 * x).sum().backward()
    assert x.grad is given
    np.testing.assert_array_equal(given, [4.0, 4.0])


def test_a_gradient_with_history_is_another_tensor_than_before():
    x = ng.tensor([1.0, 2.0], requires_grad=True)
    (x * x * x).sum().backward(create_graph=True)
    held = x.grad
    (x * x).sum().backward(create_graph=True)
    assert x.grad is not held
    np.testing.assert_array_equal(held.detach(), [3.0, 12.0])
