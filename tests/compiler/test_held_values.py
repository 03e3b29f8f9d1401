"""Loops that look at values: what users hold is kept, so a look costs the same in every pass."""

import gc
import weakref
from collections import OrderedDict

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.compiler import evaluate as evaluation
from numba_grad.compiler import held_values, written_rows
from numba_grad.config import configure
from numba_grad.graph import observers

A = np.array([1.3, 2.1, 0.7, 1.9])
LARGE = held_values.SMALL_BYTES  # float64 elements: eight times as many bytes
PASSES = 8
NEVER = -1e6  # what no size of a step is below


@pytest.fixture
def compiled(monkeypatch):
    """The graphs for which there was no program, from now on."""
    observers.end_notes()  # of what was recorded since the last look of another test
    graphs = []
    made = evaluation._made

    def noting(graph, destination, former):
        if former is None:
            graphs.append(graph)
        return made(graph, destination, former)

    monkeypatch.setattr(evaluation, "_made", noting)
    monkeypatch.setattr(evaluation, "_programs", OrderedDict())
    return graphs


def newton(a, start):
    x = a
    for _ in range(PASSES):
        start()
        new = 0.5 * (x + a / x)
        if np.max(np.abs(new - x)) < NEVER:
            break
        x = new
    return np.sum(x)


def newton_by_residual(a, start):
    x = a
    for _ in range(PASSES):
        start()
        residual = x * x - a
        if np.all(np.abs(residual) < NEVER):
            break
        x = x - residual / (2 * x)
    return np.sum(x)


def newton_with_one_name(a, start):
    x = a
    error = 1.0
    while error > NEVER and start() < PASSES:
        old = x
        x = 0.5 * (x + a / x)
        error = (x - old).detach().max()
    return np.sum(x)


def newton_with_a_number(a, start):
    x = a
    while start() < PASSES:
        old = x
        x = 0.5 * (x + a / x)
        if float(np.linalg.norm(x - old).detach()) < NEVER:
            break
    return np.sum(x)


def fixed_point_by_allclose(a, start):
    x = 0 * a
    while start() < PASSES:
        new = np.cos(x) * a / 3
        if np.allclose(new, x, rtol=0, atol=NEVER):
            break
        x = new
    return np.sum(x)


def bisection(a, start):
    low, high = 0 * a[0], 0 * a[0] + 4.0
    middle = low
    while start() < PASSES:
        middle = (low + high) / 2
        if middle**3 > a[1]:
            high = middle
        else:
            low = middle
    return middle


def power_iteration(a, start):
    matrix = np.outer(a, a) + np.diag(np.arange(4.0))
    v, value = np.ones(4), 0.0
    while start() < PASSES:
        w = matrix @ v
        v = w / np.linalg.norm(w)
        new = v @ matrix @ v
        if abs(new - value) < NEVER:
            break
        value = new
    return value


def conjugate_gradients(a, start):
    matrix = np.outer(a, a) + np.diag(np.arange(1.0, 5.0))
    x, r = 0 * a, np.sin(a)
    p, square = r, r @ r
    while start() < PASSES:
        image = matrix @ p
        alpha = square / (p @ image + 1e-30)
        x = x + alpha * p
        r = r - alpha * image
        new = r @ r
        if np.sqrt(new) < NEVER:
            break
        p = r + new / (square + 1e-30) * p
        square = new
    return np.sum(x)


def adaptive_steps(a, start):
    """Accepts and rejects in turn, with step sizes that are all different."""
    y, h = a, 0.1
    while (number := start()) < PASSES:
        k1 = -y * a
        k2 = -(y + h * k1) * a
        new = y + h / 2 * (k1 + k2)
        if np.max(np.abs(k2 - k1)) > NEVER and number % 2:
            y, h = new, h * 1.2
        else:
            h *= 0.7
    return np.sum(y)


def ray_marching(a, start):
    light, color, t = np.ones(4), np.zeros(4), 0.0
    while start() < PASSES:
        alpha = 1 - np.exp(-0.1 * np.exp(-((t - a) ** 2)))
        color = color + light * alpha * np.sin(a * t)
        light = light * (1 - alpha)
        if np.max(light) < NEVER:
            break
        t += 0.1
    return np.sum(color)


def assignment_to_the_state(a, start):
    x = a + 0.0
    while start() < PASSES:
        slope = np.cos(x)
        x -= 0.1 * slope
        x *= 0.99
        if np.max(np.abs(slope)) < NEVER:
            break
    return np.sum(x)


def metropolis(a, start):
    x = a
    logarithm = -np.sum(x**2)
    while (number := start()) < PASSES:
        y = x + 0.01 * np.cos(np.arange(4.0) + number)
        new = -np.sum(y**2)
        if new - logarithm > -0.01 * (number % 3):
            x, logarithm = y, new
    return np.sum(x)


def line_search(a, start):
    x = a
    while start() < PASSES:
        slope = 2 * (x - 1)
        t, value = 1.0, np.sum((x - 1) ** 2)
        while np.sum((x - t * slope - 1) ** 2) > value * 0.9:
            t *= 0.4
        x = x - t * slope * 0.5
    return np.sum(x)


def rows_of_data(a, start):
    data = np.outer(np.arange(PASSES + 1.0), a)
    s = 0 * a
    while (number := start()) < PASSES:
        s = 0.5 * s + data[number]
        if np.max(s) < NEVER:
            break
    return np.sum(s)


def list_of_states(a, start):
    states = [a]
    while start() < PASSES:
        states.append(np.cos(states[-1]))
        if states[-1][0] < NEVER:
            break
    return np.sum(np.stack(states) ** 2)


def states_in_a_buffer(a, start):
    states = np.zeros((PASSES + 1, 4), like=a)
    states[0] = a
    while (number := start()) < PASSES:
        y = states[number]
        states[number + 1] = np.cos(y) * a
        if np.max(np.abs(states[number + 1] - y)) < NEVER:
            break
    return np.sum(states**2)


def states_in_columns(a, start):
    states = np.zeros((4, PASSES + 1), like=a)
    states[:, 0] = a
    while (number := start()) < PASSES:
        states[:, number + 1] = np.cos(states[:, number]) * a
        if np.max(states[:, number + 1]) < NEVER:
            break
    return np.sum(states**2)


def history_of_errors(a, start):
    x, errors = 0 * a, np.zeros(PASSES, like=a)
    while (number := start()) < PASSES:
        new = np.cos(x) * a
        errors[number] = np.sum((new - x) ** 2)
        if errors[number] < NEVER or np.mean(errors) < NEVER:
            break
        x = new
    return np.sum(x) + np.sum(errors)


def stages_in_a_buffer(a, start):
    y, slopes = a, np.zeros((3, 4), like=a)
    while start() < PASSES:
        for k in range(3):
            slopes[k] = -(y + 0.1 * slopes[k - 1]) * a
        if np.max(np.abs(slopes[2] - slopes[0])) < NEVER:
            break
        y = y + 0.1 * np.sum(slopes, axis=0)
    return np.sum(y)


def elements_in_turn(a, start):
    x = np.zeros(4, like=a)
    while start() < PASSES:
        change = 0.0
        for k in range(1, 3):
            new = 0.25 * (x[k - 1] + x[k + 1] + a[k])
            change = np.maximum(change, np.abs(new - x[k]))
            x[k] = new
        if change < NEVER:
            break
    return np.sum(x**2)


def served_in_turn(a, start):
    """The time of a pass is older than the last look, which has not computed it, and goes on."""
    free, time = np.zeros(4, like=a), 0.0
    while (number := start()) < PASSES:
        time = time + 0.3 * a[0]
        if np.min(free) < NEVER:
            break
        free[number % 2] = np.maximum(free[number % 2], time) + a[1]
    return np.sum(free)


LOOPS = [
    newton,
    newton_by_residual,
    newton_with_one_name,
    newton_with_a_number,
    fixed_point_by_allclose,
    bisection,
    power_iteration,
    conjugate_gradients,
    adaptive_steps,
    ray_marching,
    assignment_to_the_state,
    metropolis,
    line_search,
    rows_of_data,
    list_of_states,
    states_in_a_buffer,
    states_in_columns,
    history_of_errors,
    stages_in_a_buffer,
    elements_in_turn,
    served_in_turn,
]


class Passes:
    """What counts how many programs there are at the start of each pass."""

    def __init__(self, graphs):
        self.graphs = graphs
        self.counts = []

    def __call__(self):
        self.counts.append(len(self.graphs))
        return len(self.counts) - 1


def with_gradient(loop, start):
    x = ng.tensor(A, requires_grad=True)
    result = loop(x, start)
    result.backward()
    return result, x.grad


def by_transform(loop, start):
    return ng.value_and_grad(lambda a: loop(a, start))(A)


def without_gradient(loop, start):
    return (loop(ng.tensor(A), start),)


@pytest.mark.thorough(
    but="^(newton|metropolis|adaptive_steps|states_in_a_buffer|served_in_turn)-with_g"
)
@pytest.mark.parametrize("run", [without_gradient, with_gradient, by_transform])
@pytest.mark.parametrize("loop", LOOPS)
def test_the_program_of_each_pass_is_known(loop, run, compiled):
    passes = Passes(compiled)
    results = run(loop, passes)
    # The second pass goes on from a state, the third from one that a sum was carried to. Steps
    # that are accepted for the second time go on from one that was accepted before, and so do
    # elements that are written in turn.
    known = 5 if loop in (adaptive_steps, served_in_turn) else 3
    assert passes.counts[known] == passes.counts[-1]
    # In the next run there is nothing new.
    count = len(compiled)
    run(loop, Passes(compiled))
    assert len(compiled) == count
    with configure(engine="reference"):
        expected = run(loop, Passes([]))
    for ours, theirs in zip(results, expected, strict=True):
        np.testing.assert_allclose(ours.detach(), theirs.detach(), rtol=1e-10, atol=1e-13)


def is_known(tensor):
    return tensor._node.value is not None


def test_what_is_held_is_computed_with_what_is_looked_at(compiled):
    x = ng.tensor(A, requires_grad=True)
    held = np.sin(x)
    y = np.exp(np.cos(held))
    assert y[0] > 0
    assert is_known(held) and is_known(y)
    assert len(compiled) == 1
    y.sum().backward()
    np.testing.assert_allclose(
        x.grad, -np.exp(np.cos(np.sin(A))) * np.sin(np.sin(A)) * np.cos(A), rtol=1e-14
    )


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("look", [lambda sizes: [x.item() for x in sizes], max, sorted])
def test_results_of_a_loop_are_looked_at_one_after_the_other(requires_grad, look, compiled):
    state, sizes = ng.tensor(A, requires_grad=requires_grad), []
    expected, expected_sizes = A, []
    for _ in range(40):
        state = state - 0.1 * np.sin(state) * state
        sizes.append(np.sum(state**2))
        expected = expected - 0.1 * np.sin(expected) * expected
        expected_sizes.append(np.sum(expected**2))
    found = look(sizes)
    with ng.no_grad():
        np.testing.assert_allclose(np.array(found), look(expected_sizes), rtol=1e-14)
    # Each look goes on from where the one before it has come to.
    assert len(compiled) <= 6
    assert max(len(graph.nodes) for graph in compiled) <= 40


def test_what_is_not_behind_it_stays_pending():
    x = ng.tensor(A)
    shared = np.sin(x)
    other = np.cos(shared)
    assert np.sum(shared) > 0
    assert not is_known(other)


def test_a_script_that_prints_a_sum_does_not_store_what_it_is_the_sum_of(compiled):
    y = ng.ones(LARGE) * np.arange(2.0)[0]
    z = np.exp(y)
    str(z.sum())
    assert not is_known(y) and not is_known(z)
    str(z.max())  # looks again: it would be computed a third time
    assert is_known(z)


def test_large_states_of_a_loop_are_computed_once(compiled):
    x = ng.tensor(np.linspace(0.0, 1.0, LARGE))
    passes = Passes(compiled)
    while passes() < PASSES:
        new = np.sqrt(x + 0.5)
        if np.max(np.abs(new - x)) < NEVER:
            break
        x = new
    assert passes.counts[3] == passes.counts[-1] == 3
    graph = compiled[-1]
    computed = [x.op.name for k, x in enumerate(graph.nodes) if k not in graph.inputs]
    assert computed.count("sqrt") == 1
    np.testing.assert_allclose(x[-1], new[-1], rtol=0.1)


def test_views_of_large_arrays_are_not_copied(compiled):
    x = ng.tensor(np.linspace(0.0, 1.0, LARGE))
    for _ in range(4):
        x = x * 0.5
        left, right = x[:-1], x[1:]
        wide = np.broadcast_to(x, (100, LARGE))
        assert np.max(right - left) < 1
    assert is_known(x)
    for view in (left, right, wide):
        assert not is_known(view)


def test_a_mistake_in_what_is_held_is_reported_to_who_asks_for_it():
    x = ng.tensor(A)
    index = np.argmax(x) + 7
    picked = x[index]
    size = 0 * picked + 1.0
    other = np.where(size > 0, 1.0, 2.0)  # reads it
    del size
    with pytest.raises(IndexError, match="out of bounds"):
        float(other)
    with pytest.raises(IndexError, match="out of bounds"):
        float(picked)


def test_sums_beside_what_is_looked_at_do_not_keep_its_past():
    x, total = ng.tensor(np.linspace(0.0, 1.0, LARGE)), 0.0
    past = []
    for _ in range(PASSES):
        x = np.sqrt(x + 0.5)
        total = total + x
        past.append(weakref.ref(x._node))
        assert np.max(x) > 0
    gc.collect()
    assert sum(node() is not None for node in past) <= 2
    steps = [np.linspace(0.0, 1.0, LARGE)]
    for _ in range(PASSES):
        steps.append(np.sqrt(steps[-1] + 0.5))
    np.testing.assert_allclose(total, np.sum(steps[1:], axis=0), rtol=1e-13)


def test_what_is_assigned_into_waits_for_its_last_value():
    x, states = ng.tensor(A), ng.zeros((PASSES, 4))
    for k in range(PASSES):
        x = np.cos(x)
        states[k] = x
        assert np.max(x) < 2
    assert not is_known(states)
    np.testing.assert_allclose(states[2], np.cos(np.cos(np.cos(A))), rtol=1e-14)


def test_arrays_that_are_filled_beside_what_is_looked_at_are_not_walked(monkeypatch):
    """As a generator of random numbers by Python's integers keeps all that it makes of them."""
    visited = 0

    def counted(f, size):
        def walk(*arguments):
            nonlocal visited
            found = f(*arguments)
            visited += size(found)
            return found

        return walk

    monkeypatch.setattr(held_values, "past_of", counted(held_values.past_of, lambda x: len(x[0])))
    monkeypatch.setattr(held_values, "_sources", counted(held_values._sources, len))

    def work(n):
        nonlocal visited
        visited = 0
        numbers, parts, doubled = ng.zeros(n + 1), ng.zeros(n + 1), ng.zeros(n)
        numbers[0] = 17
        for i in range(1, n + 1):
            numbers[i] = int(5 * numbers[i - 1] + 3) % 64
            parts[i] = numbers[i] / 63
            doubled[i - 1] = 2 * parts[i]
        of_all = visited
        expected = [17]
        for _ in range(n):
            expected.append((5 * expected[-1] + 3) % 64)
        np.testing.assert_allclose(doubled, 2 * np.array(expected[1:]) / 63, rtol=1e-15)
        return of_all

    assert work(120) < 3 * work(60)


def test_rows_that_are_written_and_read_in_every_way_are_numpys(compiled):
    def filled(array, start):
        looks = []
        while (k := start()) < PASSES:
            array[k + 2] = np.cos(array[k + 1]) + k
            array[k, 1:3] = array[k + 2, :2] * 0.5
            row = array[k + 2]
            row *= 2.0
            looks.append(float(np.max(array[k + 2] - array[k + 1])))
            looks.append(float(np.sum(array[k : k + 3])))
            looks.append(float(array[k, 2] + array[0, 0]))
        return looks, np.asarray(array)

    start = np.outer(np.arange(1.0, PASSES + 3), A)
    expected_looks, expected = filled(start.copy(), Passes([]))
    large = np.zeros((LARGE // 4, 4))
    large[: len(start)] = start
    for array in (start, large):
        passes = Passes(compiled)
        looks, result = filled(ng.tensor(array), passes)
        assert passes.counts[4] == passes.counts[-1]
        np.testing.assert_allclose(looks, expected_looks, rtol=1e-14)
        np.testing.assert_allclose(result[: len(expected)], expected, rtol=1e-14)


def test_a_large_array_is_not_copied_for_each_row_that_is_written(monkeypatch):
    made = []
    write = written_rows._write
    monkeypatch.setattr(written_rows, "_write", lambda node: made.append(node) or write(node))
    states = ng.zeros((LARGE // 4, 4))
    states[0] = A
    count = 3 * written_rows._MOST_WAITING
    x = A
    for k in range(count):
        states[k + 1] = np.cos(states[k])
        assert np.max(states[k + 1]) < 2
        x = np.cos(x)
    assert len(made) <= 3
    np.testing.assert_allclose(states[count], x, rtol=1e-14)


def test_nothing_is_noted_for_long():
    x = ng.tensor(A)
    assert np.sum(x * 2) > 0
    for _ in range(3000):
        x = x + 1.0
    assert observers._of_thread.notes is None


def test_numbers_and_the_age_of_states_make_no_other_graph(compiled):
    low, high = ng.tensor(1.0) * 1, ng.tensor(2.0) * 1
    float(high), float(low)
    for step in (0.125, 2.0, 0.5):
        float((low + high) * step + 3.0)
        low, high = high, low
    # Values, first: of the two states. Then one program for all steps.
    assert len(compiled) == 2


def test_rows_of_known_arrays_make_no_other_graph(compiled):
    data = ng.tensor(np.arange(12.0).reshape(6, 2))
    weights = ng.tensor([0.5, 1.5], requires_grad=True)
    for k in range(6):
        loss = (data[k] @ weights - 1.0) ** 2
        loss.backward()
        batch = data[k : k + 1] @ weights.detach()
        assert batch.shape == (1,)
        float(batch[0])
    assert len(compiled) == 3  # the second pass adds to .grad
    expected = 2 * (data.numpy() @ [0.5, 1.5] - 1.0) @ data.numpy()
    np.testing.assert_allclose(weights.grad, expected, rtol=1e-13)


def test_looks_while_a_function_is_traced_are_guarded():
    weights = np.array([1.0, 2.0])

    @ng.jit
    def scaled(x):
        own = np.exp(ng.tensor(weights))
        size = own * 2
        return x * size if size[0] > 3 else x * 0

    np.testing.assert_allclose(scaled(A[:2]), A[:2] * np.exp(weights) * 2)
    weights[:] = [0.0, 1.0]
    np.testing.assert_allclose(scaled(A[:2]), [0.0, 0.0])
    weights[:] = [2.0, 0.5]
    np.testing.assert_allclose(scaled(A[:2]), A[:2] * np.exp(weights) * 2)


@pytest.mark.parametrize("view", [lambda x: x[...], lambda x: x[()], lambda x: x[None][0]])
def test_parts_without_axes_are_arrays(view):
    """NumPy's `x[()]` of an array without axes is a number, which no program can be given."""
    x = ng.tensor(0.7)
    assert float(view(x) * 2) == 1.4
    assert float(ng.grad(lambda x: np.sin(view(x)))(0.7)) == pytest.approx(np.cos(0.7), rel=1e-14)
    x = ng.zeros(())
    for k in range(3):
        x[...] = k
        assert float(view(x) * 2) == 2 * k


def test_what_only_known_rows_have_read_is_no_longer_behind():
    first, second, third = (ng.tensor(np.arange(12.0).reshape(4, 3)) for _ in range(3))
    x = ng.tensor(np.ones(3))
    inner = first[1:][1]  # a row of rows
    wanted = [ng.sum(x * inner + second[2] * third[0] + third.T[1, :3])._node, (x + 1.0)._node]
    past = held_values.past_of(wanted)
    assert first._node in past.nodes
    assert third._node in past.nodes
    held_values.set_rows(past, is_look=False)
    found, expected = held_values.still_pending(past, wanted), held_values.past_of(wanted)
    assert [{*part} for part in found] == [{*part} for part in expected]
    assert first._node not in found.nodes
    assert second._node not in found.nodes
    assert third._node in found.nodes  # of which a column is read
    assert held_values.still_pending(found, wanted) is found
