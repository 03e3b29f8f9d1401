"""PyTorch's contract, and other derivatives, where a pass goes through a loop, not its steps."""

from typing import Any

import numpy
import pytest

import numba_grad as ng
import numba_grad.numpy as np
from tests.transforms.loop_programs import chain, gradient_of


def test_steps_that_nobody_reads(short: None) -> None:
    def f(x: Any, b: Any) -> Any:
        while b < 10 and b > 1:
            for _ in range(20):
                b = b * 0.9 if np.any(x > 0.5) else b * 0.8
                b = b * 0.9
        return np.sum(x) * b

    x = numpy.array([1.0, 2.0])
    found = ng.jit(ng.grad(ng.jit(f, control_flow=True)))(x, 2.0)
    numpy.testing.assert_allclose(found, 2 * 0.9**40, rtol=1e-12)


def test_a_second_pass_is_refused_unless_the_graph_is_retained(loops: list[int]) -> None:
    x = ng.tensor([1.0, 2.0], requires_grad=True)
    value = np.sum(chain(x))
    value.backward(retain_graph=True)
    once = gradient_of(x).copy()
    value.backward()
    numpy.testing.assert_array_equal(gradient_of(x), 2 * once)
    with pytest.raises(RuntimeError, match="second time"):
        value.backward()
    assert len(loops) == 2


def test_a_second_pass_through_freed_steps_is_refused(loops: list[int]) -> None:
    x = ng.tensor([1.0, 2.0], requires_grad=True)
    y = chain(x)
    first, second = np.sum(y), np.sum(y * y)
    del y
    first.backward()
    assert loops
    with pytest.raises(RuntimeError, match="second time"):
        second.backward()


def test_steps_that_a_pass_does_not_go_through_are_not_freed(loops: list[int]) -> None:
    x, w = (ng.tensor([1.0, 2.0], requires_grad=True) for _ in range(2))
    value = np.sum(chain(x) + w * w)
    ng.autograd.grad(value, w)
    assert loops
    (found,) = ng.autograd.grad(value, x)  # additions and sums save nothing
    (expected,) = ng.autograd.grad(np.sum(chain(x)), x)
    numpy.testing.assert_array_equal(found, expected)
    with pytest.raises(RuntimeError, match="second time"):
        ng.autograd.grad(value, x)


def test_states_that_are_returned_as_well_are_of_the_same_loop(loops: list[int]) -> None:
    def f(x: Any) -> Any:
        y, states = x, []
        for _ in range(60):
            y = np.sin(y) * 1.1 + 0.1
            states.append(y)
        return np.sum(y**2), np.stack(states)

    point = numpy.array([0.7, 1.3])
    expected = [point]
    for _ in range(60):
        expected.append(numpy.sin(expected[-1]) * 1.1 + 0.1)
    for call in (
        ng.value_and_grad(f, has_aux=True),
        ng.jit(ng.value_and_grad(f, has_aux=True)),
    ):
        loops.clear()
        (_, states), gradient = call(point)
        assert len(loops) == 1
        numpy.testing.assert_allclose(states, expected[1:], rtol=1e-13)
        numpy.testing.assert_allclose(gradient, ng.grad(lambda x: f(x)[0])(point), rtol=1e-12)


def test_hooks_and_retained_gradients_after_a_loop(loops: list[int]) -> None:
    x = ng.tensor([1.0, 2.0], requires_grad=True)
    seen = []
    y = chain(x) * 2.0
    y.register_hook(lambda g: seen.append(g.numpy().copy()) or 3.0 * g)
    z = y * y
    z.retain_grad()
    np.sum(z).backward()
    assert loops
    numpy.testing.assert_allclose(seen[0], 2 * y.detach().numpy())
    numpy.testing.assert_array_equal(gradient_of(z), [1.0, 1.0])

    again = ng.tensor([1.0, 2.0], requires_grad=True)
    (3.0 * np.sum((chain(again) * 2.0) ** 2)).backward()
    numpy.testing.assert_allclose(gradient_of(x), gradient_of(again), rtol=1e-13)


def test_states_that_are_held_stay_and_get_values(loops: list[int]) -> None:
    x = ng.tensor([1.0, 2.0], requires_grad=True)
    held, y = [], x
    for k in range(120):
        y = np.sin(y) * 1.1 + 0.1
        if k in (3, 119):
            held.append(y)
    np.sum(y).backward()
    assert loops
    expected = numpy.array([1.0, 2.0])
    for _ in range(120):
        expected = numpy.sin(expected) * 1.1 + 0.1
    numpy.testing.assert_allclose(held[1].detach().numpy(), expected, rtol=1e-13)
    # With respect to what is held inside of a loop.
    z = ng.tensor([1.0, 2.0], requires_grad=True)
    middle = chain(z)
    value = np.sum(chain(middle))
    (found,) = ng.autograd.grad(value, middle, retain_graph=True)
    (whole,) = ng.autograd.grad(value, z)
    numpy.testing.assert_allclose(whole.numpy(), gradient_of(x), rtol=1e-12)
    assert numpy.all(found.numpy() != whole.numpy())


def test_a_hook_inside_of_a_loop_runs(short: None) -> None:
    x = ng.tensor([1.0, 2.0], requires_grad=True)
    calls, y = [], x
    for k in range(200):
        y = np.sin(y) * 1.1 + 0.1
        if k == 100:
            y.register_hook(lambda g: calls.append(g) or 0.0 * g)
    np.sum(y).backward()
    assert len(calls) == 1
    numpy.testing.assert_array_equal(gradient_of(x), [0.0, 0.0])


def test_second_derivatives(loops: list[int]) -> None:
    def f(x: Any) -> Any:
        return np.sum(chain(x) ** 2)

    point = numpy.array([0.7, 1.3])
    hessian = ng.hessian(f)(point)
    steps = 1e-6 * numpy.eye(2)
    assert loops
    gradient = ng.grad(f)
    differences = [(gradient(point + h) - gradient(point - h)).numpy() / 2e-6 for h in steps]
    numpy.testing.assert_allclose(hessian, differences, rtol=1e-6, atol=1e-8)


def test_forward_mode(loops: list[int]) -> None:
    _, tangent = ng.jvp(chain, (numpy.array([0.7, 1.3]),), (numpy.array([1.0, 0.0]),))
    assert loops
    gradient = ng.grad(lambda x: chain(x)[0])(numpy.array([0.7, 1.3]))
    numpy.testing.assert_allclose(tangent.numpy(), [gradient[0].item(), 0.0], rtol=1e-12)


def test_values_alone_and_derivatives_of_jitted_functions(loops: list[int]) -> None:
    compiled = ng.jit(chain)
    point = numpy.array([0.7, 1.3])
    value = compiled(point)
    assert loops
    x = ng.tensor(point, requires_grad=True)
    np.sum(compiled(x)).backward()
    expected = ng.tensor(point, requires_grad=True)
    y = chain(expected)
    np.sum(y).backward()
    numpy.testing.assert_allclose(value, y.detach().numpy(), rtol=1e-13)
    numpy.testing.assert_allclose(gradient_of(x), gradient_of(expected), rtol=1e-13)


def test_a_pass_through_a_loop_with_choices_frees_it(loops: list[int]) -> None:
    x = ng.tensor([0.4, 1.7], requires_grad=True)
    y, kept = x, []
    for _ in range(60):
        y = ng.cond(y[0] > 1.0, lambda y: 0.5 * y, lambda y: np.sin(y) + 0.3, y)
        kept.append(y[1])
    value = np.sum(y) + kept[20] ** 2
    value.backward(retain_graph=True)
    once = gradient_of(x).copy()
    value.backward()
    numpy.testing.assert_array_equal(gradient_of(x), 2 * once)
    with pytest.raises(RuntimeError, match="second time"):
        value.backward()
    assert loops


def test_an_array_with_a_hook_stays_as_it_was_recorded(loops: list[int]) -> None:
    x = ng.tensor([0.3, 0.4], requires_grad=True)
    table, y, seen = np.zeros((60, 2)), x, []
    for k in range(60):
        y = np.sin(y) + 0.1
        table[k] = y
        if k == 40:
            table.register_hook(lambda g: seen.append(g.numpy().copy()))
    np.sum(table * 2.0).backward()
    numpy.testing.assert_array_equal(seen[0][:41], numpy.full((41, 2), 2.0))
