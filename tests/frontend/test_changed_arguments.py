"""Functions that change their arguments in place, given to `cond`, `switch`, `checkpoint`, `vmap`
and `custom_vjp`: what the caller has changes as it would without."""

from collections.abc import Callable
from typing import Any

import numpy
import pytest

import numba_grad as ng
import numba_grad.numpy as np
from numba_grad.errors import GradientError, TracingError


def shifted(x: Any) -> Any:
    x *= 3.0
    x[1:] += np.sin(x[:-1])
    return np.sum(x * x)


def left(x: Any) -> Any:
    return np.sum(x)


def by_custom_vjp(x: Any) -> Any:
    f = ng.custom_vjp(shifted)
    f.defvjp(lambda x: (shifted(x), None), lambda _, g: (g * numpy.ones(3),))
    return f(x)


WAYS: dict[str, Callable[[Any], Any]] = {
    "cond": lambda x: ng.cond(left(x) > 0.0, shifted, left, x),
    "cond, other side": lambda x: ng.cond(left(x) < 0.0, left, shifted, x),
    "switch": lambda x: ng.switch(np.array(1), [left, shifted, left], x),
    "checkpoint": ng.checkpoint(shifted),
    "vmap": lambda x: ng.vmap(shifted)(x.reshape(1, 3))[0],
    "vmap, last axis": lambda x: ng.vmap(shifted, in_axes=1)(x.reshape(3, 1))[0],
}


def array() -> numpy.ndarray:
    return numpy.array([0.5, 1.0, 2.0])


@pytest.mark.parametrize("way", [*WAYS, "custom_vjp"])
@pytest.mark.parametrize("make", [lambda x: x, ng.tensor], ids=["array", "tensor"])
def test_what_the_caller_has_changes(way: str, make: Callable[[Any], Any]) -> None:
    x, expected = make(array()), array()
    value = shifted(expected)
    call = by_custom_vjp if way == "custom_vjp" else WAYS[way]
    assert numpy.asarray(call(x)) == pytest.approx(value)
    numpy.testing.assert_allclose(x, expected, rtol=1e-15)


@pytest.mark.thorough(every=5)
@pytest.mark.parametrize("around", [lambda f: f, ng.jit], ids=["as it is", "jit"])
@pytest.mark.parametrize("way", WAYS)
def test_gradients_come_through_the_change(
    way: str, around: Callable[[Callable[..., Any]], Callable[..., Any]]
) -> None:
    def loss(call: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def of(start: Any) -> Any:
            base = np.concatenate([start, start[:1]]) * 1.5
            x = base[1:]
            value = call(x)
            return value * np.sum(np.cos(base)) + np.sum(x)

        return of

    expected = ng.value_and_grad(loss(shifted))(array())
    found = around(ng.value_and_grad(loss(WAYS[way])))(array())
    for x, y in zip(found, expected, strict=True):
        numpy.testing.assert_allclose(x, y, rtol=1e-12)


def test_branches_change_different_operands() -> None:
    def first(x: Any, y: Any) -> Any:
        x[0] = y[1]
        return y

    def second(x: Any, y: Any) -> Any:
        y += x
        return y

    for pred in (True, False):
        x, y = array(), array() * 10.0
        other_x, other_y = x.copy(), y.copy()
        out = ng.cond(pred, first, second, x, y)
        expected = (first if pred else second)(other_x, other_y)
        for found, wanted in ((out, expected), (x, other_x), (y, other_y)):
            numpy.testing.assert_array_equal(found, wanted)


def test_what_cannot_be_written_back_is_refused() -> None:
    x = ng.tensor(array())
    with pytest.raises(TracingError, match=r"cond: .* another one shows its elements"):
        ng.cond(True, lambda x, y: shifted(x), lambda x, y: left(y), x, x[1:])
    weight = ng.tensor(2.0, requires_grad=True)
    for f in (
        lambda x: ng.cond(True, lambda x: scaled(x, weight), left, x),
        lambda x: ng.checkpoint(lambda x: scaled(x, weight))(x),
        lambda x: ng.vmap(lambda x: scaled(x, weight))(x.reshape(1, 3)),
    ):
        with pytest.raises(TracingError, match=r"cannot hold .*has a gradient"):
            f(array())


def scaled(x: Any, factor: Any) -> Any:
    x *= factor
    return np.sum(x)


def test_what_is_the_same_for_all_examples_stays_as_it_was() -> None:
    def collect(x: Any, total: Any) -> Any:
        total += x
        return np.sum(x)

    total = ng.zeros(3)
    part = total[1:]
    with pytest.raises(TracingError, match=r"the same for all examples\n +arguments\[1\] : float"):
        ng.vmap(collect, in_axes=(0, None))(numpy.ones((2, 3)), total)
    numpy.testing.assert_array_equal(total, numpy.zeros(3))
    numpy.testing.assert_array_equal(part, numpy.zeros(2))


def test_a_rule_says_nothing_of_what_its_function_changes() -> None:
    x = ng.tensor(array(), requires_grad=True) * 1.0
    with pytest.raises(GradientError, match="shifted: changes an argument in place"):
        by_custom_vjp(x)
    numpy.testing.assert_array_equal(x.detach(), array())


def _written_within_no_grad(w: Any, x: Any) -> Any:
    with ng.no_grad():
        w *= 0.5
    return (w * x).sum()


def _written_through_what_is_detached(w: Any, x: Any) -> Any:
    y = (w * x).sum()
    d = w.detach()
    d *= 0.5
    return y


@pytest.mark.parametrize("is_leaf", [True, False])
@pytest.mark.parametrize("f", [_written_within_no_grad, _written_through_what_is_detached])
def test_what_is_written_within_no_grad_keeps_its_history(
    f: Callable[..., Any], is_leaf: bool
) -> None:
    seen = []
    for function in (f, ng.jit(f)):
        leaf = ng.tensor([1.0, 2.0], requires_grad=True)
        w = leaf if is_leaf else leaf * 3
        for _ in range(2):
            function(w, numpy.array([5.0, 7.0])).backward(retain_graph=True)
        seen.append((w.detach().numpy(), leaf.grad.numpy(), w.is_leaf, w.requires_grad))
    numpy.testing.assert_array_equal(seen[1][0], seen[0][0])
    numpy.testing.assert_array_equal(seen[1][1], seen[0][1])
    assert seen[1][2:] == seen[0][2:] == (is_leaf, True)


def test_a_leaf_is_not_written_to_where_history_is_recorded() -> None:
    @ng.jit
    def f(w: Any) -> Any:
        w *= 0.5
        return w.sum()

    with pytest.raises(GradientError, match="a leaf Variable that requires grad"):
        f(ng.tensor([1.0, 2.0], requires_grad=True))


def test_parameters_are_updated_within_a_compiled_step() -> None:
    class Model:
        def __init__(self) -> None:
            self.w = ng.tensor([1.0, 2.0], requires_grad=True)

        def step(self, x: Any) -> Any:
            (self.w * self.w * x).sum().backward()
            with ng.no_grad():
                self.w -= 0.1 * self.w.grad
            self.w.grad = None
            return (self.w * x).sum()

    run, compiled = Model(), Model()
    step = ng.jit(compiled.step)
    for x in ([1.0, 2.0], [0.5, -1.0], [1.0, 1.0]):
        assert step(numpy.array(x)).item() == pytest.approx(
            run.step(numpy.array(x)).item(), rel=1e-14
        )
        assert compiled.w.is_leaf and compiled.w.requires_grad and compiled.w.grad is None
    numpy.testing.assert_allclose(compiled.w.detach(), run.w.detach(), rtol=1e-14)
