"""`.grad` and flags of tensors that jitted functions close over: what they are at each call, and
what the functions do to them, as without `jit`."""

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.errors import TracingError

pytestmark = pytest.mark.usefixtures("numpy_engine")


def _weights(*values):
    return ng.tensor(np.array(values or (1.0, 2.0)), requires_grad=True)


def _shown(*tensors):
    return [None if x is None else np.array(ng.stop_gradient(x)).tolist() for x in tensors]


def _new_gradients_at_each_step(made):
    w = _weights()

    def step(rate):
        with ng.no_grad():
            w[...] = w - rate * w.grad

    step = made(step)
    for k in range(4):
        w.grad = None
        np.sum(w**2 * (k + 1)).backward()
        step(0.1)
        yield _shown(w, w.grad)


def _dropped_inside(made):
    w = _weights()

    def step(rate):
        with ng.no_grad():
            w[...] = w - rate * w.grad
        w.grad = None

    step = made(step)
    for k in range(4):
        np.sum(w**2 * (k + 1)).backward()
        step(0.1)
        yield _shown(w, w.grad)


def _none_where_nothing_was_differentiated(made):
    w = _weights()

    def step(rate):
        for p in [w]:
            if p.grad is None:
                continue
            with ng.no_grad():
                p -= rate * p.grad
            del p.grad

    step = made(step)
    for k in range(5):
        if k != 2:
            np.sum(w**2 * (k + 1)).backward()
        step(0.1)
        yield _shown(w, w.grad)


def _whole_steps(made):
    w = _weights()

    def step(x):
        w.grad = None
        loss = np.sum(w * w * x)
        loss.backward()
        with ng.no_grad():
            w[...] = w - 0.1 * w.grad
        return loss

    step = made(step)
    for k in range(5):
        yield _shown(step(np.array([1.0, k])), w, w.grad)


def _sums_of_several_passes(made):
    w = _weights()

    def passed(x):
        np.sum(w * x * w).backward()

    passed = made(passed)
    for k in range(7):
        if k == 4:
            w.grad = None
        passed(np.array([1.0, k]))
        yield _shown(w.grad)


def _changed_in_place(made):
    w, v = _weights(), _weights(3.0, 4.0)

    def clip():
        total = np.sqrt(sum(np.sum(p.grad**2) for p in (w, v)))
        for p in (w, v):
            p.grad *= 1.0 / (1.0 + total)

    clip = made(clip)
    for k in range(4):
        w.grad = v.grad = None
        np.sum(w**2 * v * (k + 1)).backward()
        clip()
        yield _shown(w.grad, v.grad)


class _Momentum:
    def __init__(self, parameters):
        self.parameters = parameters
        self.velocities = [ng.zeros(2) for _ in parameters]

    def step(self):
        with ng.no_grad():
            for k, p in enumerate(self.parameters):
                if p.grad is not None:
                    self.velocities[k] = 0.9 * self.velocities[k] + p.grad
                    p -= 0.1 * self.velocities[k]


def _an_optimizer(made):
    w, v = _weights(), _weights(3.0, 4.0)
    optimizer = _Momentum([w, v])
    step = made(optimizer.step)
    for k in range(6):
        w.grad = v.grad = None
        (np.sum(w**2 * v) if k % 2 else np.sum(w**2)).backward()
        step()
        yield _shown(w, v, *optimizer.velocities)


def _held_elsewhere_too(made):
    w, held = _weights(), {}
    np.sum(w * w).backward()
    held["before"] = w.grad
    f = made(lambda x: x * w.grad + held["before"])
    yield _shown(f(np.ones(2)))
    w.grad = None
    np.sum(w * w * 3).backward()
    yield _shown(f(np.ones(2)))


def _whose_values_decide(made):
    w = _weights()
    f = made(lambda x: x * w.grad if float(np.sum(w.grad)) > 3 else x)
    for k in range(4):
        w.grad = None
        np.sum(w * w * k).backward()
        yield _shown(f(np.ones(2)))


def _frozen_between_calls(made):
    w = _weights()

    def passed(x):
        loss = np.sum(w * x)
        if loss.requires_grad:
            loss.backward()
        return loss

    passed = made(passed)
    for k in range(4):
        if k == 2:
            w.requires_grad_(False)
        yield _shown(passed(np.ones(2)), w.grad)


def _inside_of_another(made):
    w = _weights()
    inner = made(lambda x: x * 2 if w.grad is None else x * w.grad)
    outer = made(lambda x: inner(x) + 1)
    for k in range(4):
        if k >= 2:
            w.grad = None
            np.sum(w**k).backward()
        yield _shown(outer(np.ones(2)))


def _hooks_of_others(made):
    w, factor = _weights(), [2.0]
    f = made(lambda x: ng.autograd.grad(np.sum(x * w * w), [w])[0])
    for k in range(6):
        if k == 1:
            hook = w.register_hook(lambda g: g * factor[0])
        if k == 3:
            factor[0] = 7.0
        if k == 5:
            hook.remove()
        yield _shown(f(np.ones(2) * (k + 1)))


def _flags_that_are_asked_for(made):
    parameters = [_weights(), _weights(3.0, 4.0)]
    f = made(lambda x: sum([np.sum(p) * x for p in parameters if p.requires_grad], 0.0))
    for k in range(5):
        if k in (2, 4):
            parameters[0].requires_grad_(k == 4)
        yield _shown(f(np.ones(1)))


def _whether_history_is_recorded(made):
    f = made(lambda x: x * 2 if ng.is_grad_enabled() else x)
    for is_enabled in (False, True, False, True, True):
        with ng.set_grad_enabled(is_enabled):
            yield _shown(f(np.ones(1)))


def _recorded_by_the_function_itself(made):
    def f(x):
        with ng.no_grad():
            y = x * 2 if ng.is_grad_enabled() else x * 3
        with ng.enable_grad():
            return y + 1 if ng.is_grad_enabled() else y

    f = made(f)
    for is_enabled in (True, False, True):
        with ng.set_grad_enabled(is_enabled):
            yield _shown(f(np.ones(1)))


@pytest.mark.filterwarnings("ignore:jit of")
@pytest.mark.parametrize(
    "program",
    [
        _new_gradients_at_each_step,
        _dropped_inside,
        _none_where_nothing_was_differentiated,
        _whole_steps,
        _sums_of_several_passes,
        _changed_in_place,
        _an_optimizer,
        _held_elsewhere_too,
        _whose_values_decide,
        _frozen_between_calls,
        _inside_of_another,
        _hooks_of_others,
        _flags_that_are_asked_for,
        _whether_history_is_recorded,
        _recorded_by_the_function_itself,
    ],
)
def test_gradients_and_flags_are_those_of_each_call(program):
    assert [*program(ng.jit)] == [*program(lambda f: f)]


def test_a_step_on_other_gradients_is_not_traced_again():
    w = _weights()
    traces = []

    @ng.jit
    def step(rate):
        traces.append(1)
        if w.grad is not None:
            with ng.no_grad():
                w[...] = w - rate * w.grad

    expected = np.array([1.0, 2.0])
    for k in range(8):
        w.grad = None
        if k != 5:
            np.sum(w**2).backward()
            expected = expected * 0.8
        step(0.1)
        np.testing.assert_allclose(np.array(ng.stop_gradient(w)), expected)
    assert len(traces) == 3  # with, without, with


@pytest.mark.parametrize("x", [np.ones(2), ng.ones(2), ng.tensor(np.ones(2), requires_grad=True)])
def test_results_that_have_no_gradient_do_not_require_one(x):
    w = _weights()
    held = {}

    def f(x):
        with ng.no_grad():
            held["product"] = x * w
        loss = np.sum(x * w * w)
        (gradient,) = ng.autograd.grad(loss, [w], retain_graph=True)
        w.grad = None
        loss.backward(inputs=[w], retain_graph=True)
        return loss, gradient, held["product"] * 2, ng.stop_gradient(x * w), np.argmax(x * w)

    def flags(function):
        results = [*function(x), held["product"], w.grad]
        return [isinstance(y, ng.Tensor) and y.requires_grad for y in results]

    jitted = ng.jit(f)
    assert [flags(jitted) for _ in range(3)] == [flags(f)] * 3
    assert flags(f) == [True] + [False] * 6


def _with_a_hook(x):
    inside = x * 2
    inside.register_hook(lambda g: g * 10)
    return np.sum(inside * inside)


def _with_a_hook_on_an_argument(x):
    x.register_hook(lambda g: g * 10)
    return np.sum(x * x)


def _with_a_hook_that_is_removed(x):
    inside = x * 2
    with inside.register_hook(lambda g: g * 10):
        return np.sum(inside * inside)


@pytest.mark.parametrize(
    "f", [_with_a_hook, _with_a_hook_on_an_argument, _with_a_hook_that_is_removed]
)
@pytest.mark.parametrize("around", [lambda f: f, lambda f: lambda x: f(x) * 3, ng.grad])
def test_hooks_of_a_jitted_function_are_run_by_derivatives_outside(f, around):
    def gradient(function):
        x = ng.tensor(np.array([1.0, 2.0]), requires_grad=True)
        for _ in range(3):
            np.sum(around(function)(x * 1)).backward()
        return _shown(x.grad)

    assert gradient(ng.jit(f)) == gradient(f)
    assert gradient(ng.jit(lambda x: ng.jit(f)(x))) == gradient(f)


def test_hooks_on_what_is_closed_over_are_registered_at_each_call():
    def gradient(made):
        w = _weights()

        def f(x):
            w.register_hook(lambda g: g * 2)
            return np.sum(x * w)

        f = made(f)
        for _ in range(3):
            f(np.ones(2)).backward()
        return _shown(w.grad)

    assert gradient(ng.jit) == gradient(lambda f: f)


def test_hooks_that_the_function_runs_itself_are_compiled():
    w = _weights()
    traces = []

    @ng.jit
    def step(x):
        traces.append(1)
        inside = x * w
        inside.register_hook(lambda g: g * 10)
        loss = np.sum(inside * inside)
        w.grad = None
        loss.backward()
        with ng.no_grad():
            w[...] = w - 0.01 * w.grad
        return loss

    for _ in range(5):
        step(np.ones(2))
    np.testing.assert_allclose(np.array(ng.stop_gradient(w)), np.array([1.0, 2.0]) * 0.8**5)
    assert len(traces) < 4


def test_hooks_that_nobody_would_run_are_refused():
    x = ng.tensor(np.array([1.0, 2.0]), requires_grad=True)
    with pytest.raises(TracingError, match="a hook inside would not be run"):
        ng.checkpoint(_with_a_hook)(x)
    with pytest.raises(TracingError, match="a hook inside would not be run"):
        ng.scan(lambda c, _: (c + _with_a_hook(x * c), None), np.ones(()), None, length=3)
    held = {}

    def f(x):
        held["last"] = held["last"] + 1.0
        return _with_a_hook(x) * held["last"]

    held["last"] = ng.zeros(())
    with pytest.raises(TracingError, match="of a function that changes something else"):
        ng.jit(f)(x)


@pytest.mark.filterwarnings("ignore:the .grad of a tensor that is not a leaf")
@pytest.mark.parametrize("asks", [False, True])
def test_gradients_of_arguments_are_refused(asks):
    @ng.jit
    def f(x):
        loss = np.sum(x * x)
        loss.backward()
        return x.grad if asks else loss

    with pytest.raises(TracingError, match=r"`\.grad` of an argument"):
        f(ng.tensor(np.array([1.0, 2.0]), requires_grad=True))
    if not asks:
        with pytest.raises(ng.errors.GradientError):
            f(np.array([1.0, 2.0]))  # requires no grad
