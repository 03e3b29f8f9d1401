"""Functions that record again what they have recorded for the same types: `known_calls.py`."""

import importlib
import pkgutil
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import numba_grad as ng
from numba_grad import frontend
from numba_grad.autograd import views
from numba_grad.frontend.functions import (
    calculus,
    contractions,
    creation,
    einsum,
    elementwise,
    joining,
    padding,
    reductions,
    samples,
    shapes,
    statistics,
)
from numba_grad.frontend.inputs import known_calls
from numba_grad.frontend.linear_algebra import matrix_norms
from numba_grad.frontend.tensors.tensor import _elements
from numba_grad.graph.node import HOLDING, Node
from numba_grad.graph.walk import toposort

Arguments = Callable[[Any, Any, Any], tuple[Any, ...]]

# What each function is called with, of two vectors and a matrix.
CALLS: list[tuple[Callable[..., Any], Arguments]] = [
    (joining.hstack, lambda x, y, m: ([x, y],)),
    (joining.vstack, lambda x, y, m: ((x, y),)),
    (joining.dstack, lambda x, y, m: ([x, y],)),
    (joining.column_stack, lambda x, y, m: ([x, y, m],)),
    (joining.append, lambda x, y, m: (x, y[0])),
    (joining.append, lambda x, y, m: (x, [1.0, 2.0])),
    (reductions.mean, lambda x, y, m: (m, 1)),
    (reductions.var, lambda x, y, m: (m,)),
    (reductions.std, lambda x, y, m: (m, 0)),
    (reductions.logsumexp, lambda x, y, m: (m, (0, 1))),
    (reductions.softmax, lambda x, y, m: (m, -1)),
    (reductions.log_softmax, lambda x, y, m: (x,)),
    (shapes.expand_dims, lambda x, y, m: (x, 0)),
    (shapes.moveaxis, lambda x, y, m: (m, 0, 1)),
    (shapes.diff, lambda x, y, m: (x, 2)),
    (shapes.tile, lambda x, y, m: (x, (2, 1))),
    (contractions.matmul, lambda x, y, m: (m, x)),
    (contractions.matmul, lambda x, y, m: (m.T, np.array([1.0, 2.0, 3.0]))),
    (contractions.dot, lambda x, y, m: (x, y)),
    (contractions.dot, lambda x, y, m: (m, x)),
    (contractions.inner, lambda x, y, m: (m, x)),
    (contractions.tensordot, lambda x, y, m: (m, x, 1)),
    (contractions.vdot, lambda x, y, m: (x, y)),
    (contractions.vecdot, lambda x, y, m: (m, x)),
    (contractions.diagonal, lambda x, y, m: (m, 1)),
    (contractions.trace, lambda x, y, m: (m,)),
    (contractions.diag, lambda x, y, m: (m,)),
    (contractions.diag, lambda x, y, m: (x, 1)),
    (elementwise.clip, lambda x, y, m: (x, 0.25, 0.75)),
    (elementwise.clip, lambda x, y, m: (x, None, y)),
    (elementwise.where, lambda x, y, m: (x > y, x, 0.0)),
    (elementwise.where, lambda x, y, m: (x > y, y, x)),
    (elementwise.sinc, lambda x, y, m: (x,)),
    (elementwise.heaviside, lambda x, y, m: (x, 0.5)),
    (elementwise.isclose, lambda x, y, m: (x, y)),
    (calculus.cross, lambda x, y, m: (x, y)),
    (calculus.kron, lambda x, y, m: (m, y)),
    (calculus.trapezoid, lambda x, y, m: (x, y)),
    (calculus.unwrap, lambda x, y, m: (x,)),
    (padding.pad, lambda x, y, m: (m, ((1, 0), (2, 1)))),
    (padding.pad, lambda x, y, m: (x, 1, "edge")),
    (einsum.einsum, lambda x, y, m: ("ij,j->i", m, x)),
    (einsum.einsum, lambda x, y, m: ("i,ij,j", x, m, y)),
    (creation.tril, lambda x, y, m: (m,)),
    (creation.triu, lambda x, y, m: (m, 1)),
    (samples.convolve, lambda x, y, m: (x, y)),
    (samples.correlate, lambda x, y, m: (x, y, "same")),
    (statistics.average, lambda x, y, m: (m, 0)),
    (statistics.cov, lambda x, y, m: (m,)),
    (statistics.corrcoef, lambda x, y, m: (m,)),
    (matrix_norms.norm, lambda x, y, m: (x,)),
    (matrix_norms.norm, lambda x, y, m: (m, None, 1)),
    (_elements, lambda x, y, m: (m, [0, 2])),
    (_elements, lambda x, y, m: (m, (np.array([0, 2]), slice(1, None)))),
    (_elements, lambda x, y, m: (x, np.array([True, False, True]))),
]


def _decorated() -> Iterator[Callable[..., Any]]:
    for found in pkgutil.walk_packages(frontend.__path__, frontend.__name__ + "."):
        module = importlib.import_module(found.name)
        for value in vars(module).values():
            if getattr(value, "__code__", None) is _CODE and value.__module__ == module.__name__:
                yield value


_CODE = joining.hstack.__code__  # of all that are `by_types`


def _operands(seed: int, requires_grad: bool = True) -> tuple[Any, ...]:
    rng = np.random.default_rng(seed)
    shapes_of = [(3,), (3,), (3, 3)]
    arrays = [rng.uniform(0.1, 0.9, size=shape) for shape in shapes_of]
    return tuple([ng.tensor(a, requires_grad=requires_grad) * 1.0 for a in arrays])


def _described(result: Any, operands: tuple[Any, ...]) -> list[Any]:
    """A graph without names: what each of its operations is, and what it reads."""
    ends: list[Node] = [x._node for x in operands]
    nodes = toposort([result._node], stop=ends.__contains__)
    places = {x: k for k, x in enumerate([*ends, *[x for x in nodes if x not in ends]])}
    found: list[Any] = []
    for x in nodes:
        value = x.value.tobytes() if x.op in HOLDING and x not in ends else None
        own = [(k, repr(v)) for k, v in x.params.items()] if x not in ends else None
        inputs = [places[i] for i in x.inputs] if x not in ends else None
        found.append((x.op.name, own, x.type, inputs, value, x.requires_grad, x.kind))
    view = result._view
    steps = [] if view is None else [(op.name, dict(params)) for op, _, params in view.steps]
    return [*found, view is None, steps, view is not None and view.is_copy]


def test_there_is_a_call_of_each() -> None:
    assert {f.__name__ for f in _decorated()} == {f.__name__ for f, _ in CALLS}


@pytest.mark.parametrize(
    "number", range(len(CALLS)), ids=[f"{f.__name__}-{k}" for k, (f, _) in enumerate(CALLS)]
)
def test_what_is_recorded_again_is_what_the_function_records(number: int) -> None:
    function, arguments = CALLS[number]
    for seed in range(5):
        operands = _operands(seed, requires_grad=seed != 3)
        ours = function(*arguments(*operands))
        plain = function.__wrapped__(*arguments(*operands))  # type: ignore[attr-defined]
        assert _described(ours, operands) == _described(plain, operands)
        with ng.no_grad():
            assert not function(*arguments(*operands)).requires_grad
        np.testing.assert_array_equal(ours.detach().numpy(), plain.detach().numpy())


@pytest.mark.parametrize("is_found", [True, False])
def test_calls_are_recorded_again(is_found: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    replayed = []
    again = known_calls._Recording.again
    monkeypatch.setattr(
        known_calls._Recording, "again", lambda *given: replayed.append(1) or again(*given)
    )
    for seed in range(4):
        x, _, m = _operands(seed)
        # Of a size that no other test has.
        joining.hstack([np.float32(1), x]) if not is_found else joining.hstack([x, m[0, :2]])
    assert len(replayed) == (2 if is_found else 0)


def test_equal_numbers_of_different_classes() -> None:
    for _ in range(3):
        x = ng.tensor([1, 5])
        assert joining.append(x, 1).dtype == np.int64
        assert joining.append(x, 1.0).dtype == np.float64
        assert joining.append(x, True).dtype == np.int64
        below = elementwise.clip(ng.tensor([-1.0, 2.0]), -0.0, 1.0)
        above = elementwise.clip(ng.tensor([-1.0, 2.0]), 0.0, 1.0)
        assert np.signbit(below.numpy()[0]) and not np.signbit(above.numpy()[0])


def test_warnings_are_given_each_time() -> None:
    for _ in range(4):
        with pytest.warns(RuntimeWarning, match="Degrees of freedom") as caught:
            reductions.var(ng.tensor([1.0]) * 1, ddof=1)
        assert caught[0].filename == __file__
        with pytest.warns(RuntimeWarning, match="Mean of empty") as caught:
            np.mean(ng.zeros(0) * 1)


def test_equal_operands() -> None:
    for seed in range(4):
        x, y, _ = _operands(seed)
        other = y if seed != 2 else x
        result = contractions.dot(x, other)
        (gradient,) = ng.autograd.grad(result, x)
        expected = other.detach().numpy() * (2 if other is x else 1)
        np.testing.assert_allclose(gradient.numpy(), expected, rtol=1e-15)


def test_views_are_views() -> None:
    for seed in range(4):
        x, _, m = _operands(seed, requires_grad=False)
        row = shapes.expand_dims(x, 0)
        row[0, 1] = 7.0
        assert x.numpy()[1] == 7.0 and views.is_view_of(row, x)
        turned = shapes.moveaxis(m, 0, 1)
        m[0, 1] = 5.0
        assert turned.numpy()[1, 0] == 5.0
        main = contractions.diag(m)
        m[1, 1] = 3.0
        assert main.numpy()[1] == 3.0
        chosen = m[[0, 1]]
        chosen[0, 0] = -1.0
        assert m.numpy()[0, 0] != -1.0


def test_an_index_array_that_changes() -> None:
    places = np.array([0, 2])
    x = ng.tensor([1.0, 2.0, 3.0, 4.0]) * 1
    for k in range(5):
        places[1] = k % 3 + 1
        np.testing.assert_array_equal(x[places].numpy(), [1.0, k % 3 + 2.0])


def test_arrays_of_labels_are_no_operands() -> None:
    x, y = np.arange(9.0).reshape(3, 3), np.ones((3, 3)) * [[1.0], [2.0], [3.0]]
    a, b = ng.tensor(x), ng.tensor(y)
    for order in ([0, 2], [2, 0], [0, 2], [2, 0]):
        lists = [np.array(labels) for labels in ([0, 1], [1, 2], order)]
        result = ng.einsum(a, lists[0], b, lists[1], lists[2])
        np.testing.assert_array_equal(result.numpy(), np.einsum(x, lists[0], y, *lists[1:]))
        compiled = ng.jit(lambda a, b, lists=lists: ng.einsum(a, lists[0], b, *lists[1:]))(x, y)
        np.testing.assert_array_equal(compiled, result.numpy())


def test_what_a_compiled_function_closes_over() -> None:
    places, weights = np.array([0, 2]), np.array([1.0, 2.0, 3.0])

    def f(x: Any) -> Any:
        for _ in range(5):
            x = x + np.hstack([np.dot(x, weights), x[places]])
        return np.sum(np.where(weights > 1.5, x, 2.0 * x)[places])

    compiled = ng.jit(f)
    x = np.array([0.1, 0.2, 0.3])
    for change in (0, 1, 2):
        if change == 1:
            places[1] = 1
        if change == 2:
            weights[1] = -1.0
        np.testing.assert_allclose(compiled(x), f(x), rtol=1e-14)
        value, gradient = ng.value_and_grad(f)(x)
        np.testing.assert_allclose(value, f(x), rtol=1e-14)
        by_jit = ng.jit(ng.grad(f))(x)
        np.testing.assert_allclose(by_jit, gradient, rtol=1e-14)


def test_no_warnings_of_others() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for seed in range(4):
            x, _, m = _operands(seed)
            reductions.var(m), reductions.mean(x)
