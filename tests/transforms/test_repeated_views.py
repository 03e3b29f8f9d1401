"""Equal slices of one array are merged before differentiation, and nobody can tell."""

from collections import Counter

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.frontend.compiled_functions import specialization
from numba_grad.graph.node import OPS, argument, leaf
from numba_grad.graph.types import array_type
from numba_grad.graph.walk import toposort
from numba_grad.ops.families import broadcast_to, reshape
from numba_grad.ops.index_expressions import take_index
from numba_grad.ops.movement import permuted
from numba_grad.transforms.rewrites import repeated_views
from numba_grad.transforms.rewrites.repeated_views import (
    without_repeated_views,
    without_repetitions,
)

P = np.array([1.5, -0.7, 2.0])


def loop(p):
    y = p[0]
    for _ in range(5):
        y = y * p[1] + np.sin(p[0]) * p[2:].sum()
    return y


def test_the_gradient_is_that_of_the_formula():
    value, gradient = ng.jit(ng.value_and_grad(loop))(P)
    np.testing.assert_allclose(float(value), loop(P), rtol=1e-14)
    step = 1e-6
    expected = [(loop(P + step * e) - loop(P - step * e)) / (2 * step) for e in np.eye(3)]
    np.testing.assert_allclose(np.asarray(gradient), expected, rtol=1e-8)


def test_second_derivatives_go_through_merged_views():
    hessian = np.asarray(ng.jit(ng.hessian(loop))(P))
    np.testing.assert_allclose(hessian, hessian.T, rtol=1e-12)
    gradient = ng.jit(ng.grad(loop))
    step = 1e-6
    for k, e in enumerate(np.eye(3)):
        above, below = np.asarray(gradient(P + step * e)), np.asarray(gradient(P - step * e))
        np.testing.assert_allclose(hessian[k], (above - below) / (2 * step), rtol=1e-7)


def test_an_output_that_is_a_view_twice_gets_both_contributions():
    def f(p):
        return p[0], p[0]

    _, pull = ng.vjp(f, P)
    (gradient,) = pull((np.float64(2.0), np.float64(3.0)))
    np.testing.assert_array_equal(np.asarray(gradient), [5.0, 0.0, 0.0])


def test_equal_transposes_and_reshapes_become_one():
    given = argument(array_type((2, 3), P.dtype))
    views = [permuted(given, (1, 0)), reshape(given, (6,))]
    views += [permuted(given, (1, 0)), reshape(given, (6,)), reshape(given, (3, 2))]
    assert without_repeated_views([given, *views], ()) == [given, *views[:2], views[4]]


def test_hooks_of_equal_views_stay_apart():
    seen = []

    def f(p):
        first, second = p[0], p[0]
        first.register_hook(lambda g: seen.append("first"))
        return first * 2.0 + second * 3.0

    np.testing.assert_array_equal(np.asarray(ng.grad(f)(P)), [5.0, 0.0, 0.0])
    assert seen == ["first"]


def test_views_that_the_caller_holds_are_kept():
    held = []

    def f(p):
        held.extend([p[0], p[0]])
        return held[0] * held[1]

    np.testing.assert_allclose(np.asarray(ng.grad(f)(P)), [3.0, 0.0, 0.0])


@pytest.mark.parametrize("count", [2, 7])
def test_users_are_given_the_first_view(count):
    p = argument(array_type((3,), np.dtype(np.float64)), requires_grad=True)
    views = [take_index(p, 0, None) for _ in range(count)]
    sums = [OPS["sin"](view) for view in views]
    order = sorted({p, *sums, *views, *(x.inputs[0] for x in views)}, key=lambda n: n.serial)
    kept = without_repeated_views(order, {sums[-1]})
    assert len(kept) == 2 + count
    assert {x.inputs[0] for x in sums} == {views[0]}


def spread_and_moved(u):
    """Neighbours twice, as where each term of an equation is written by itself."""
    spread = u[2:] - 2 * u[1:-1] + u[:-2]
    return u + np.pad(0.1 * spread - 0.1 * u[1:-1] * (u[2:] - u[:-2]), 1)


CALLERS = {
    "scan": lambda u: ng.scan(lambda u, _: (spread_and_moved(u), None), u, None, 3)[0],
    "jit": ng.jit(spread_and_moved),
    "checkpoint": ng.checkpoint(spread_and_moved),
}


@pytest.mark.parametrize("name", CALLERS)
def test_equal_slices_of_bodies_and_of_called_functions_are_one(name):
    f, u = CALLERS[name], np.linspace(0.0, 1.0, 30) ** 2
    text = ng.jit(ng.grad(lambda u: f(u).sum())).lower(u).graph
    backward = text[text.index("\nvjp of ") :]
    assert backward.count("add_slice(") == 3

    def by_hand(u):
        for _ in range(3 if name == "scan" else 1):
            u = spread_and_moved(u)
        return u.sum()

    expected = ng.grad(by_hand)(u)
    np.testing.assert_allclose(ng.grad(lambda u: f(u).sum())(u), expected, rtol=1e-12)


def kinds(f, *args):
    """How many operations of each name the graph of a jitted function has outside of its loops."""
    graph = str(ng.jit(f).lower(*args).graph).split("\nsteps:")[0]
    return Counter(
        line.split(" = ")[1].split("(")[0] for line in graph.split("\n") if " = " in line
    )


def cell(product):
    """A recurrence whose step makes something of the weights first."""

    def loss(w, v, x):
        h = np.zeros(20)
        for k in range(15):
            h = np.tanh(product(w, v, x[k], h))
        return (h * h).sum()

    return loss


RECURRENCES = {
    "transposed": cell(lambda w, v, x, h: w.T @ x + v.T @ h),
    "joined": cell(lambda w, v, x, h: np.concatenate([x, h]) @ np.concatenate([w, v])),
    "a part": cell(lambda w, v, x, h: x @ w + h @ np.concatenate([v, v])[10:30]),
    "scaled": cell(lambda w, v, x, h: (2.0 * w).T @ x + (0.5 * v + 1.0).T @ h),
    "normalized": cell(lambda w, v, x, h: x @ w + h @ (np.exp(v) / np.exp(v).sum(0))),
}


@pytest.mark.thorough(every=3)
@pytest.mark.parametrize("name", RECURRENCES)
def test_what_each_step_makes_of_the_weights_alone_is_made_once(name):
    rng = np.random.default_rng(3)
    given = rng.normal(size=(20, 20)) / 9, rng.normal(size=(20, 20)) / 9, rng.normal(size=(15, 20))
    loss = RECURRENCES[name]
    derivative = ng.value_and_grad(loss, argnums=(0, 1, 2))
    value, gradients = ng.jit(derivative)(*given)
    np.testing.assert_allclose(float(value), loss(*given), rtol=1e-12)
    tensors = [ng.tensor(x, requires_grad=True) for x in given]
    loss(*tensors).backward()
    for gradient, x in zip(gradients, tensors, strict=True):
        np.testing.assert_allclose(gradient, x.grad.numpy(), rtol=1e-9, atol=1e-12)
    assert kinds(derivative, *given)["loop"] == 2


def test_what_closed_over_numbers_are_is_read_at_each_call():
    """Two arrays of one element that are equal now are not the same."""
    a, b = np.array(2.0), np.array(2.0)

    def loss(w):
        h = w[0]
        for _ in range(12):
            h = np.tanh((a * w) @ h) + (b * w) @ h
        return h.sum()

    derivative = ng.jit(ng.value_and_grad(loss))
    w = np.random.default_rng(0).normal(size=(20, 20)) / 9
    derivative(w)
    b[...] = 0.5
    value, gradient = derivative(w)
    x = ng.tensor(w, requires_grad=True)
    loss(x).backward()
    np.testing.assert_allclose(float(value), loss(w), rtol=1e-12)
    np.testing.assert_allclose(gradient, x.grad.numpy(), rtol=1e-9, atol=1e-12)


def test_repetitions_that_have_hooks_or_differ_in_history_stay_apart():
    seen = []

    def f(w):
        first, second = np.exp(w), np.exp(w)
        with ng.no_grad():
            third = np.exp(w)
        first.register_hook(lambda g: seen.append(float(np.asarray(g).sum())))
        return (first * 2.0 + second * 3.0 + third * 5.0).sum()

    w = np.linspace(0.0, 1.0, 300)
    np.testing.assert_allclose(np.asarray(ng.grad(f)(w)), 5.0 * np.exp(w), rtol=1e-14)
    assert seen == [600.0]


def test_what_is_left_out_is_no_part_of_the_program(monkeypatch):
    """Else it would be compiled, and `lower()` would show other kernels than those that run."""

    def sums(x, y):
        return np.sum(np.sin(x * y)) + np.sum(np.cos(x * y))

    given = []

    def compile_program(inputs, outputs, reached, *others, **options):
        given.append(set(reached) == set(toposort(outputs)))
        return compiled(inputs, outputs, reached, *others, **options)

    compiled = specialization.compile_program
    monkeypatch.setattr(specialization, "compile_program", compile_program)
    ng.jit(sums).lower(np.ones(300), np.ones(300))
    assert given == [True]


def test_what_is_larger_than_what_it_is_made_of_stays():
    row, column = (argument(array_type(n, P.dtype)) for n in ((1, 40), (40, 1)))
    tables = [OPS["multiply"](*[broadcast_to(x, (40, 40)) for x in (row, column)]) for _ in "ab"]
    sums = [OPS["sin"](x) for x in tables]
    order = [x for k in (0, 1) for x in (*tables[k].inputs, tables[k], sums[k])]
    kept = without_repetitions(order, {sums[0], sums[1]}, None, 256)
    assert kept[-1] is sums[1]
    assert sums[1].inputs[0] in tables


def test_equal_arrays_that_numpy_makes_in_each_step_are_one():
    """`rate * mask` of arrays that are no tensors: NumPy computes it, again in each step."""
    mask = (np.arange(400) % 3 > 0).astype(float)
    other = mask.copy()
    other[123] = 0.5

    def loss(u):
        for k in range(4):
            u = u + 0.1 * (other if k == 2 else mask) * np.sin(u)
        return np.sum(u**2)

    u = np.linspace(0.0, 1.0, 400)
    gradient = ng.jit(ng.grad(loss))
    graph = str(gradient.lower(u).graph)
    assert graph.count("leaf  float64[400]") == 2
    np.testing.assert_allclose(gradient(u), np.asarray(ng.grad(loss)(u)), rtol=1e-13)
    other[123], mask[7] = 3.0, -2.0
    np.testing.assert_allclose(gradient(u), np.asarray(ng.grad(loss)(u)), rtol=1e-13)


def test_arrays_that_are_alike_where_one_looks_first_are_told_apart():
    """As the rows of a large one-hot matrix. Each is compared with all before at once: the work
    grows with their number alone."""
    rows = np.zeros((120, 600))
    rows[np.arange(120), 1 + np.arange(120) % 30] = 1.0
    leaves = [leaf(row) for row in rows]
    arrays = repeated_views._EqualArrays(None, 256)
    assert [arrays.first_equal_to(x) for x in leaves] == leaves[:30] * 4
    [(_, by_elements)] = arrays._large.values()
    assert list(by_elements.values()) == leaves[:30]


def of_two(u, v):
    return np.sum(np.sin(u) * v**2)


EQUAL = np.linspace(0.5, 1.5, 400).reshape(20, 20)


@pytest.mark.parametrize(
    ("first", "second"),
    [(EQUAL, EQUAL.copy()), (EQUAL, EQUAL), (ng.tensor(EQUAL), ng.tensor(EQUAL))],
    ids=["equal arrays", "one array", "equal tensors"],
)
@pytest.mark.parametrize(
    "gradients",
    [
        ng.grad(of_two, argnums=(0, 1)),
        ng.jit(ng.grad(of_two, argnums=(0, 1))),
        lambda u, v: ng.jit(lambda x: ng.grad(of_two, argnums=(0, 1))(x, x))(u),
        lambda u, v: ng.grad(lambda of: of_two(*of))((u, v)),
        lambda u, v: ng.vjp(of_two, u, v)[1](1.0),
    ],
    ids=["grad", "jit", "twice in jit", "tree", "vjp"],
)
def test_arguments_that_are_equal_have_gradients_of_their_own(gradients, first, second):
    by_first, by_second = gradients(first, second)
    np.testing.assert_allclose(np.asarray(by_first), np.cos(EQUAL) * EQUAL**2, rtol=1e-14)
    np.testing.assert_allclose(np.asarray(by_second), 2 * EQUAL * np.sin(EQUAL), rtol=1e-14)


def test_arguments_that_are_equal_have_tangents_of_their_own():
    ones, zeros = np.ones_like(EQUAL), np.zeros_like(EQUAL)
    _, by_first = ng.jvp(of_two, (EQUAL, EQUAL.copy()), (ones, zeros))
    _, by_second = ng.jvp(of_two, (EQUAL, EQUAL.copy()), (zeros, ones))
    np.testing.assert_allclose(float(by_first), np.sum(np.cos(EQUAL) * EQUAL**2), rtol=1e-13)
    np.testing.assert_allclose(float(by_second), np.sum(2 * EQUAL * np.sin(EQUAL)), rtol=1e-13)


def test_systems_with_equal_matrices_are_two_for_gradients():
    matrix, right = np.eye(5) * 3 + EQUAL[:5, :5], EQUAL[0, :5]

    def solved(a, b):
        return np.sum(np.linalg.solve(a, right) * np.linalg.solve(b, right) ** 2)

    by_equal = ng.grad(solved, argnums=(0, 1))(matrix, matrix.copy())
    by_others = ng.grad(solved, argnums=(0, 1))(matrix, matrix * (1 + 1e-13))
    for found, expected in zip(by_equal, by_others, strict=True):
        np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=1e-9)


def two_states(a, b):
    """The two cotangents with which the loop's derivative begins are made alike."""
    u, v = a, b
    for _ in range(13):
        u, v = u * a + b, v * 0.3 - u
    return np.sum(u) + np.sum(v)


def gradients_one_by_one(a, b):
    rows = [ng.grad(two_states, argnums=(0, 1))(x, y) for x, y in zip(a, b, strict=True)]
    return [np.stack([np.asarray(row[k]) for row in rows]) for k in range(2)]


@pytest.mark.parametrize(
    "transformed",
    [
        lambda g: ng.vmap(ng.jit(g)),
        lambda g: ng.jit(ng.vmap(ng.jit(g))),
        lambda g: lambda a, b: ng.map(lambda x: ng.jit(g)(*x), (a, b)),
        lambda g: lambda a, b: ng.scan(lambda c, x: (c, g(*x)), 0.0, (a, b))[1],
    ],
    ids=["vmap of jit", "jit of vmap of jit", "map", "scan"],
)
def test_users_of_what_is_merged_come_after_it(transformed):
    """In a function that is called, or a body: the order of the graph is that of recording."""
    a, b = np.random.RandomState(0).randn(2, 3, 6) * 0.5
    found = transformed(ng.grad(two_states, argnums=(0, 1)))(a, b)
    for x, expected in zip(found, gradients_one_by_one(a, b), strict=True):
        np.testing.assert_allclose(np.asarray(x), expected, rtol=1e-12, atol=1e-14)


def _by_rule(forward):
    """`y * sin(y)`, by a rule of one's own: what the function computes is no history then."""
    if forward:
        f = ng.custom_jvp(lambda y: y * np.sin(y))
        f.defjvp(lambda p, t: (f(*p), t[0] * (np.sin(p[0]) + p[0] * np.cos(p[0]))))
    else:
        f = ng.custom_vjp(lambda y: y * np.sin(y))
        f.defvjp(lambda y: (f(y), y), lambda y, g: (g * (np.sin(y) + y * np.cos(y)),))
    return f


@pytest.mark.parametrize("forward", [False, True])
@pytest.mark.parametrize("third", ["grad", "jvp"])
def test_third_derivatives_by_rules_whose_function_computes_the_same_as_they_do(forward, third):
    def along(f):
        return lambda *given: sum(np.sum(np.sin(x)) for x in ng.grad(f, argnums=(0, 1, 2))(*given))

    def derivative(f):
        def loss(x, y, s):
            return np.sum(np.sin((x * f(y) - x) * s * s))

        second = ng.grad(along(loss), argnums=(0, 1, 2))
        if third == "grad":
            return ng.grad(lambda *x: sum(np.sum(g) for g in second(*x)), argnums=(0, 1, 2))
        return lambda *given: ng.jvp(second, given, given)[1]

    given = np.linspace(0.1, 1.0, 300), np.linspace(1.0, 2.0, 300), np.array(0.7)
    with ng.configure(engine="reference"):
        expected = derivative(lambda y: y * np.sin(y))(*given)
        found = ng.jit(derivative(_by_rule(forward)))(*given)
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-9)
