"""Rows that loops write in parts: the same gradients as of the array, in kernels that do not depend
on the number of steps."""

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.autograd import traversal
from numba_grad.compiler.partition import flat_graph
from numba_grad.errors import GradientError
from tests.transforms.loop_programs import WAYS, step_by_step

P = np.array([0.7, 0.3, 0.5])


@pytest.fixture
def in_short_graphs(monkeypatch):
    """`backward` looks for rows in long graphs only."""
    monkeypatch.setattr(traversal, "is_long", lambda order: True)


def by_elements(p, steps=6):
    u = ng.zeros((steps, 2))
    u[0, 0], u[0, 1] = p[0], p[1]
    for k in range(1, steps):
        u[k, 0] = u[k - 1, 0] + 0.1 * np.sin(u[k - 1, 1])
        u[k, 1] = u[k - 1, 1] * p[2] - 0.1 * u[k, 0]
    return np.sum(u**2)


def added_to(p, steps=6):
    u = ng.zeros((steps, 5))
    u[0] = p[0] * np.arange(5.0)
    for k in range(steps - 1):
        flow = p[1] * (u[k, 1:] - u[k, :-1])
        u[k + 1] = u[k]
        u[k + 1, :-1] += flow
        u[k + 1, 1:] -= flow * p[2]
    return np.sum(u[-1] ** 2)


def read_without_gradient(p, steps=6):
    """What is compared reads the array as it was recorded."""
    u = ng.zeros((steps, 2))
    u[0] = p[:2]
    for k in range(1, steps):
        for j in range(2):
            u[k, j] = np.sum(np.where(u[k - 1] > 0.4, np.sin(u[k - 1]), 0.1)) * p[j]
    return np.sum(u[-1]) * p[2]


def two_rows_back(p, steps=6):
    u = ng.zeros((steps + 2, 5))
    for k in range(steps):
        u[k + 2, 1:-1] = 2.0 * u[k + 1, 1:-1] - u[k, 1:-1] + p[0] * (u[k + 1, 2:] - u[k + 1, :-2])
        u[k + 2, 2] += p[1] * np.cos(p[2] * k)
    return np.sum(u[2:, 3] ** 2)


def rows_again(p):
    """Rows are written again, the whole is read in between, and what was there later."""
    u = p[0] * np.ones((3, 4))
    total = 0.0
    for k in (0, 1, 0, 2, 1):
        before = u.copy()
        u[k, ::2] += p[1] * u[k - 1, 1]
        shown = u[k, 1:]
        u[k, 1] = np.sum(u) * p[2]
        total = total + np.sum(np.sin(before)) + np.sum(shown * u[0, 0])
    return total + np.sum(u[:, 0] * u[1, 1:])


def nothing_assigned(p):
    u = ng.zeros((4, 3))
    u[0, 1] = p[0]
    return np.sum(u[2]) + u[3, 0] * p[1] + np.sum(u[0] ** 2)


@pytest.mark.thorough(but="by_elements|nothing_assigned")
@pytest.mark.parametrize(
    "f",
    [
        by_elements,
        added_to,
        read_without_gradient,
        two_rows_back,
        rows_again,
        nothing_assigned,
    ],
    ids=lambda f: f.__name__,
)
def test_gradients_are_those_of_the_array(f, in_short_graphs):
    p = ng.tensor(P, requires_grad=True)
    f(p).backward()
    # What is recorded to be differentiated again keeps the array.
    (expected,) = ng.autograd.grad(f(p), p, create_graph=True)
    for g in (p.grad, ng.grad(f)(P), ng.jit(ng.grad(f))(P)):
        assert g is not None
        np.testing.assert_allclose(g, expected.detach(), rtol=1e-12, atol=1e-14)
    curvature = ng.jacrev(ng.grad(f))(P)
    assert not curvature.requires_grad
    step = 1e-6 * np.eye(3)
    rows = [(ng.grad(f)(P + h) - ng.grad(f)(P - h)) / 2e-6 for h in step]
    np.testing.assert_allclose(curvature, np.stack(rows), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("f", [by_elements, added_to, two_rows_back], ids=lambda f: f.__name__)
def test_kernels_do_not_depend_on_the_number_of_steps(f):
    def kernels(steps):
        lowered = ng.jit(ng.grad(lambda p: f(p, steps))).lower(P)
        return [kernel.source for kernel in lowered.kernels]

    assert len(kernels(60)) == len(kernels(120)) <= 16


def test_rows_have_numbers_of_their_own(monkeypatch):
    """What has no gradient reads the others still, and long graphs find nodes by their number."""
    seen = []

    def kept(nodes, wanted):
        seen.append([node.serial for node in nodes])
        return positions(nodes, wanted)

    positions = flat_graph._positions
    monkeypatch.setattr(flat_graph, "_positions", kept)
    ng.value_and_grad(read_without_gradient)(P)[0].item()
    assert seen and all(len(set(x)) == len(x) for x in seen)


def test_a_version_that_is_kept_has_its_own_gradient():
    """What a hook or a returned tensor needs of an array between two assignments stays."""

    def f(p):
        u = ng.zeros((2, 3))
        u[0, 0] = p[0]
        seen = []
        u.register_hook(seen.append)
        between = u[0, 0] * u[0, 0]
        u[0, 1] = p[1] * between
        return np.sum(u[0] ** 3), seen

    (_, seen), g = ng.value_and_grad(f, has_aux=True)(P)
    p0, p1 = P[0], P[1]
    expected = [3 * p0**2 + 12 * p1**3 * p0**5 / 2, 3 * p1**2 * p0**6, 0.0]
    np.testing.assert_allclose(g, expected, rtol=1e-12)
    assert len(seen) == 1


def written_and_read(p):
    """Of three rows, of which the last is not read."""
    u = ng.zeros((3, 2))
    u[0, 0] = p[0]
    u[1, 1] = np.sin(p[1])
    row = u[1] * 3.0
    unread = np.exp(p[2])
    u[2, 0] = unread
    return np.sum(u[0] ** 2 * row[1]) + np.sum(row), u, unread


def test_backward_of_what_no_row_that_is_read_depends_on_is_zeros(in_short_graphs):
    tensors = [ng.tensor(x, requires_grad=True) for x in P]
    written_and_read(tensors)[0].backward()
    p0, p1 = P[:2]
    expected = [6 * p0 * np.sin(p1), 3 * (p0**2 + 1) * np.cos(p1), 0.0]
    for x, e in zip(tensors, expected, strict=True):
        assert x.grad is not None
        np.testing.assert_allclose(x.grad, e, rtol=1e-12)


def test_backward_calls_hooks_of_what_no_row_that_is_read_depends_on(in_short_graphs):
    p = ng.tensor(P, requires_grad=True)
    loss, _, unread = written_and_read(p)
    seen = []
    unread.register_hook(seen.append)
    loss.backward()
    assert [float(g) for g in seen] == [0.0]


def test_backward_leaves_what_others_hold_and_walk(in_short_graphs):
    """Between passes that retain the graph the array is read, assigned to, differentiated."""
    p = ng.tensor(P, requires_grad=True)
    u = ng.zeros((4, 2))
    u[0, 0], u[0, 1] = p[0], p[1]
    for k in range(3):
        u[k + 1, 0] = u[k, 1] * p[2]
        u[k + 1, 1] = u[k, 0] + 1.0
    loss = np.sum(u[-1] ** 2)
    (expected,) = ng.autograd.grad(loss, p, create_graph=True)
    expected = expected.detach()
    for _ in range(2):
        (g,) = ng.autograd.grad(loss, p, retain_graph=True)
        np.testing.assert_allclose(g, expected, rtol=1e-12)
    before = u.detach().copy()
    u[3, 0] = 2.0 * u[0, 0]
    (g,) = ng.autograd.grad(np.sum(u[3]), p, retain_graph=True)
    (with_graph,) = ng.autograd.grad(np.sum(u[3]), p, create_graph=True)
    np.testing.assert_allclose(g, with_graph.detach(), rtol=1e-12)
    np.testing.assert_array_equal(u[:3].detach(), before[:3])
    loss.backward()
    assert p.grad is not None
    np.testing.assert_allclose(p.grad, expected, rtol=1e-12)
    with pytest.raises(GradientError, match="second time"):
        loss.backward()


def table(p, steps=24):
    """Element by element, of those before in its row and in the row above: alignment of sequences,
    whose result is the last element."""
    t = ng.zeros((steps + 1, 21))
    for i in range(1, steps + 1):
        t[i, 0] = p[0] * i
        for j in range(1, 21):
            cost = (P[0] * i - p[1] * j) ** 2
            t[i, j] = cost - np.log(np.exp(-t[i - 1, j]) + np.exp(-t[i, j - 1]) + p[2])
    return t[-1, -1]


def product_by_elements(x, y):
    """Steps that are done all at once, of nodes that other passes then put more between."""
    u = ng.zeros((60, 2))
    for i in range(60):
        for j in range(2):
            for k in range(2):
                u[i, j] += x[i, k] * y[k, j]
    return np.sum(np.sin(u))


@pytest.mark.thorough(but="jit")
@pytest.mark.parametrize("way", WAYS)
def test_sums_of_products_by_elements_are_a_loop_over_rows(way, loops):
    given = np.cos(np.arange(120.0)).reshape(60, 2), np.array([[0.7, 1.3], [-0.4, 0.9]])
    found = WAYS[way](product_by_elements, *given)
    for value, expected in zip(found, step_by_step(product_by_elements, *given), strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-12)
    assert max(loops) >= 58


def test_parts_of_rows_that_are_done_all_at_once_are_put_together_in_order():
    """What a loop becomes has numbers as far apart as what was recorded: rows go in between."""
    x, y = np.cos(np.arange(120.0)).reshape(60, 2), np.array([[0.7, 1.3], [-0.4, 0.9]])

    def f(x):
        u = ng.zeros((60, 2))
        for i in range(60):
            for j in range(2):
                for k in range(2):
                    u[i, j] += x[i, k] * y[k, j]
        return np.sum(np.sin(u)), u

    slope, u = ng.grad(f, has_aux=True)(x)
    np.testing.assert_allclose(u, x @ y, rtol=1e-12)
    np.testing.assert_allclose(slope, np.cos(x @ y) @ y.T, rtol=1e-12)


@pytest.mark.thorough(but="jit")
@pytest.mark.parametrize("way", WAYS)
def test_a_table_that_is_filled_by_elements_is_a_loop_over_its_rows(way, loops):
    for found, expected in zip(WAYS[way](table, P), step_by_step(table, P), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert max(loops) >= 20


def ends_of_a_field(u):
    """A field whose ends are set after a loop, as of a pressure: each end is a row that is written
    in part, and read by the next."""
    p = np.zeros(u.shape, like=u)
    u = 0.3 * u
    for _ in range(14):
        p[1:-1, 1:-1] = (u[1:-1, 1:-1] + p[:-2, 1:-1]) / 4
    u[1:-1, 1:-1] -= 0.5 * p[2:, 1:-1]
    u[-1, 1:-1] = -u[-2, 1:-1]
    u[1:-1, -1] = u[1:-1, -2]
    return np.sum(u**3)


@pytest.mark.thorough(but="jit")
@pytest.mark.parametrize("transformed", [lambda f: f, ng.jit], ids=["define by run", "jit"])
def test_derivatives_of_derivatives_keep_the_order_of_rows(transformed):
    """Each derivative goes through the rows again, and finds those that the one before has made."""
    u = np.random.RandomState(0).randn(18, 18)
    directions = np.random.RandomState(1).randn(2, 18, 18)
    gradient = ng.jit(ng.grad(ends_of_a_field))

    def second(u):
        return ng.hvp(ends_of_a_field, (u,), (directions[0],))[0]

    def third(u):
        return ng.grad(lambda u: np.sum(second(u) * directions[1]))(u)

    before, after = (gradient(u + sign * 1e-5 * directions[0]) for sign in (-1, 1))
    found = np.asarray(transformed(second)(u))
    np.testing.assert_allclose(found, (after - before) / 2e-5, rtol=1e-6, atol=1e-7)
    # Of a cubic form, 6 T(d, e, .) is the third derivative and 3 T(d, d, .) the gradient at d.
    found = np.sum(np.asarray(transformed(third)(u)) * directions[0])
    expected = 2 * np.sum(np.asarray(gradient(directions[0])) * directions[1])
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_rows_after_a_loop_with_several_results_are_values_as_well():
    """Results of a loop have numbers one after the other, which nothing is put between."""

    def f(p):
        (a, b, c), _ = ng.scan(
            lambda s, _: ((s[0] * 0.99, s[1] + 0.01 * s[0], s[2] * s[1]), s[0]),
            (p[0], p[1], p[2]),
            None,
            length=20,
        )
        u = ng.zeros((60, 3))
        u[0] = a
        for k in range(59):
            u[k + 1, 0] = u[k, 0] + 0.1 * np.sin(u[k, 1])
            u[k + 1, 1:] = u[k, 1:] * b
            u[k + 1, 1] -= 0.1 * u[k, 0] * c
        return np.sum(u**2)

    lowered = ng.jit(ng.value_and_grad(f)).lower(P)
    assert len(lowered.kernels) < 30  # 42 of assignments to the array


def test_what_a_look_computed_was_assigned_by_nothing_that_is_left():
    """The first state, which nothing has a gradient by, is known once a look has asked for it."""

    def f(x):
        y = ng.zeros(20)
        y[0] = 1.0
        for k in range(1, 20):
            y[k] = y[k - 1] * x if y[k - 1] > 2.0 else y[k - 1] + x
            y[k] = y[k] - 0.1 * x * y[k - 1]
        return np.sum(y)

    assert float(ng.grad(f)(1.3)) == pytest.approx(float(ng.jvp(f, (1.3,), (1.0,))[1]), rel=1e-12)
    assert float(ng.grad(f)(1.3)) == pytest.approx(2516.5595, rel=1e-7)
