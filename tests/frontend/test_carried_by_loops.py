"""What `scan` carries, stores and adds up, and in which order: the same bits within any budget."""

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.compiler import programs
from numba_grad.compiler.control_flow import loops


def bits_within_budgets(loss, *args):
    """Gradients, where all states are kept and where few are: the first ones."""
    numbers = tuple(range(len(args)))
    all_kept, few = (
        ng.jit(ng.grad(lambda *args, memory=memory: loss(*args, memory), numbers))(*args)
        for memory in (None, "3 states")
    )
    for x, y in zip(all_kept, few, strict=True):
        pairs = zip(x, y, strict=True) if isinstance(x, tuple) else [(x, y)]
        for own, other in pairs:
            assert np.asarray(own).tobytes() == np.asarray(other).tobytes()
    return all_kept


def leapfrog(speed, first, memory):
    def step(state, _):
        before, now = state
        bend = np.roll(now, 1) - 2 * now + np.roll(now, -1)
        return (now, 2 * now - before + speed * bend), None

    (before, now), _ = ng.scan(step, (first, first), length=12, memory=memory)
    return (before * now**2).sum()


@pytest.mark.thorough
def test_a_cotangent_that_is_minus_a_former_one_is_carried_as_that():
    speed, first = np.random.default_rng(5).random((2, 40))
    found = bits_within_budgets(leapfrog, speed, first)

    def in_python(speed, first):
        before = now = first
        for _ in range(12):
            bend = np.roll(now, 1) - 2 * now + np.roll(now, -1)
            before, now = now, 2 * now - before + speed * bend
        return (before * now**2).sum()

    for x, y in zip(found, ng.jit(ng.grad(in_python, (0, 1)))(speed, first), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12)
    second = [
        ng.grad(lambda c, f=f: (ng.grad(f)(c, first) ** 2).sum())(speed)
        for f in (lambda c, u: leapfrog(c, u, None), in_python)
    ]
    np.testing.assert_allclose(*second, rtol=1e-9)
    gradient = ng.jit(ng.grad(lambda c, u: leapfrog(c, u, None))).lower(speed, first)
    assert "negative" not in [k.source.split("#")[1] for k in gradient.kernels]


def test_sums_that_are_parts_of_other_sums_are_added_up_once():
    def loss(rim, force, first, memory):
        def step(u, _):
            inner = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
            return rim + np.pad(inner + force, 1), None

        return (ng.scan(step, first, length=9, memory=memory)[0] ** 2).sum()

    random = np.random.default_rng(6)
    rim, first = random.random((2, 12, 12))
    force = random.random((10, 10))
    of_rim, of_force, _ = bits_within_budgets(loss, rim, force, first)
    np.testing.assert_array_equal(of_rim[1:-1, 1:-1], of_force)


@pytest.mark.parametrize("reverse", [False, True])
def test_results_that_are_what_is_carried_are_stored_once(reverse):
    rows, first = np.random.default_rng(7).random((2, 30, 50))

    def loss(weight, first, memory):
        def step(u, row):
            u = np.tanh(weight * u + row)
            return u, (u, u[0])

        last, (states, heads) = ng.scan(step, first, rows, reverse=reverse, memory=memory)
        return (states[3] * last).sum() + (states**2).sum() + heads.sum()

    bits_within_budgets(loss, 0.7, first[0])

    def in_python(weight, u):
        states = [None] * 30
        for k in range(30)[:: -1 if reverse else 1]:
            u = states[k] = np.tanh(weight * u + rows[k])
        states = np.stack(states)
        return (states[3] * u).sum() + (states**2).sum() + states[:, 0].sum()

    own = ng.jit(ng.value_and_grad(lambda w, u: loss(w, u, None), (0, 1)))(0.7, first[0])
    expected = ng.value_and_grad(in_python, (0, 1))(0.7, first[0])
    for x, y in zip((own[0], *own[1]), (expected[0], *expected[1]), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12)


def test_parts_of_an_array_have_sums_of_their_own():
    weights = 0.3 * np.random.default_rng(8).normal(size=(3, 20, 20))
    first = np.ones((4, 20))

    def loss(weights, first, memory):
        def step(state, _):
            x = state
            for k in range(3):
                x = np.tanh(x @ weights[k] + x)
            return x, None

        return (ng.scan(step, first, length=8, memory=memory)[0] ** 2).sum()

    of_weights, _ = bits_within_budgets(loss, weights, first)

    def in_python(weights):
        x = first
        for k in range(24):
            x = np.tanh(x @ weights[k % 3] + x)
        return (x**2).sum()

    np.testing.assert_allclose(of_weights, ng.grad(in_python)(weights), rtol=1e-11, atol=1e-13)
    graph = str(ng.jit(ng.grad(lambda w: loss(w, first, None))).lower(weights).graph)
    assert "sums=3" in graph


LAST_ROWS = {
    "row": lambda x: (x**2).sum(),
    "parts of it": lambda x: (x[3:] * x[0]).sum() + (x[::2] ** 2).sum(),
    "nothing": lambda x: 0.0,
}


@pytest.mark.thorough(every=3)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("read", LAST_ROWS)
def test_of_rows_that_are_carried_on_the_last_one_is_what_is_carried_out(read, reverse):
    rows, first = np.random.default_rng(9).random((2, 30, 50))
    where = 0 if reverse else -1

    def loss(weight, first, memory, *, by_rows=True):
        def step(u, row):
            new = np.tanh(weight * u["x"] + row)
            return {"x": new, "before": u["x"]}, {"new": new, "old": u["x"]}

        start = {"x": first, "before": 2 * first}
        last, rows_of = ng.scan(step, start, rows, reverse=reverse, memory=memory)
        x, before = last["x"], last["before"]
        if by_rows:
            x, before = rows_of["new"][where], rows_of["old"][where]
        return LAST_ROWS[read](x) + (before * x).sum() + last["x"].sum()

    found = bits_within_budgets(loss, 0.7, first[0])
    expected = ng.grad(lambda w, u: loss(w, u, None, by_rows=False), (0, 1))(0.7, first[0])
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-13)
    calls = [
        ng.jit(lambda w, u, by_rows=by_rows: loss(w, u, None, by_rows=by_rows))
        for by_rows in (True, False)
    ]
    peaks = [call.lower(0.7, first[0]).peak_memory for call in calls]
    assert peaks[0] == peaks[1] < rows.nbytes
    assert calls[0](0.7, first[0]) == calls[1](0.7, first[0]) == loss(0.7, first[0], None)


def test_the_last_rows_of_a_batch_are_what_is_carried_out():
    rows, first = np.random.default_rng(10).random((2, 30, 50))

    def loss(weight, first, by_rows):
        def step(u, row):
            u = np.tanh(weight * u + row)
            return u, u

        last, states = ng.scan(step, first, rows)
        last = states[-1] if by_rows else last
        return (last**2).sum() + last[3] * last[4]

    def of_batch(weight, first, by_rows):
        return ng.vmap(lambda x: loss(weight, x, by_rows))(first).sum()

    own, expected = (
        ng.jit(ng.value_and_grad(lambda w, u, by_rows=by_rows: of_batch(w, u, by_rows), (0, 1)))
        for by_rows in (True, False)
    )
    found = own(0.7, first[:4]), expected(0.7, first[:4])
    for x, y in zip(*[(value, *gradients) for value, gradients in found], strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-13)
    assert own.lower(0.7, first[:4]).peak_memory < 1.05 * expected.lower(0.7, first[:4]).peak_memory
    values = [ng.jit(lambda w, u, r=r: of_batch(w, u, r)) for r in (True, False)]
    assert len({f.lower(0.7, first[:4]).peak_memory for f in values}) == 1
    assert values[0](0.7, first[:4]) == values[1](0.7, first[:4])


@pytest.mark.thorough
def test_rows_stay_rows_where_others_than_the_last_are_read():
    rows, first = np.random.default_rng(9).random((2, 30, 50))

    def loss(weight, read):
        def step(u, row):
            u = np.tanh(weight * u + row)
            return u, u

        return read(ng.scan(step, first[0], rows)[1])

    def states(weight):
        u = first[0]
        return np.stack([u := np.tanh(weight * u + row) for row in rows])

    for read in (
        lambda x: (x[-1] * x[-2]).sum(),
        lambda x: (x[-1] + x.sum(axis=0)).sum(),
        lambda x: (x[-2:] ** 2).sum() + x[-1, 3],
        lambda x: (x[::-1][0] * x[0]).sum(),
    ):
        found = ng.jit(ng.value_and_grad(lambda w, read=read: loss(w, read)))(0.7)
        expected = ng.value_and_grad(lambda w, read=read: read(states(w)))(0.7)
        np.testing.assert_allclose(found, expected, rtol=1e-12)


# A wave, and a third field that only reads, in one array.


def new_fields(speed, before, now, third):
    bend = np.roll(now, 1) - 2 * now + np.roll(now, -1)
    return now, 2 * now - before + speed * bend, 0.9 * third + np.sin(before)


def stacked(speed, s):
    return np.stack(new_fields(speed, s[0], s[1], s[2]))


def stacked_behind(speed, s):
    return np.stack(new_fields(speed, s[:, 0], s[..., 1], s[:, -1]), axis=-1)


def one_after_the_other(speed, s):
    n = len(speed)
    return np.concatenate(new_fields(speed, s[:n], s[n : 2 * n], s[2 * n :]))


def assigned(speed, s):
    new = ng.zeros_like(s)
    new[0] = s[1]
    new[1] = 2 * s[1] - s[0]
    new[1] += speed * (np.roll(s[1], 1) - 2 * s[1] + np.roll(s[1], -1))
    new[2] = 0.9 * s[2] + np.sin(s[0])
    return new


def assigned_to_a_copy(speed, s):
    new = s.copy()
    new[:2] = np.stack([s[1], 2 * s[1] - s[0]])
    bend = np.roll(s[1], 1) - 2 * s[1] + np.roll(s[1], -1)
    new[1, 3:] += (speed * bend)[3:]
    new[1, :3] += (speed * bend)[:3]
    new[2] = 0.9 * new[2] + np.sin(s[0])
    return new


def read_as_a_whole(speed, s):
    return stacked(speed, s) + 0.0 * s


FIELDS = {  # with how the first array is made, and how many arrays are carried
    stacked: (np.stack, 3),
    stacked_behind: (lambda fields: np.stack(fields, axis=1), 3),
    one_after_the_other: (np.concatenate, 3),
    assigned: (np.stack, 3),
    assigned_to_a_copy: (np.stack, 3),
    read_as_a_whole: (np.stack, 1),
}


def loss_of_fields(step):
    put_together, _ = FIELDS[step]
    speed, *fields = np.random.default_rng(11).random((4, 40))
    first, weights = put_together(fields), put_together([np.ones(40), np.arange(40.0), np.ones(40)])

    def loss(speed, first, memory):
        last, (states, parts) = ng.scan(
            lambda s, _: ((new := step(speed, s)), (new, new[1:2])), first, length=9, memory=memory
        )
        return (last * states[3] * weights).sum() + (parts**2).sum() + states[-1].sum()

    return loss, speed, first, weights


@pytest.mark.thorough(every=3)
@pytest.mark.parametrize("step", FIELDS)
def test_fields_in_one_array_are_carried_one_by_one(step):
    loss, speed, first, _ = loss_of_fields(step)
    graph = ng.jit(lambda c, s: loss(c, s, None)).lower(speed, first).graph
    assert f"carried={FIELDS[step][1]}," in str(graph)


@pytest.mark.thorough(but="^assigned$")
@pytest.mark.parametrize("step", FIELDS)
def test_loops_of_fields_in_one_array_compute_what_python_does(step):
    loss, speed, first, weights = loss_of_fields(step)

    def in_python(speed, first):
        states, parts, s = [], 0.0, first
        for _ in range(9):
            s = step(speed, s)
            states.append(s)
            parts = parts + (s[1:2] ** 2).sum()
        return (s * states[3] * weights).sum() + parts + s.sum()

    value, found = ng.jit(ng.value_and_grad(loss, (0, 1)))(speed, first, None)
    expected, of_python = ng.jit(ng.value_and_grad(in_python, (0, 1)))(speed, first)
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    for x, y in zip(found, of_python, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-11)


@pytest.mark.thorough
@pytest.mark.parametrize("step", FIELDS)
def test_gradients_of_fields_within_budgets_and_forward_mode(step):
    loss, speed, first, _ = loss_of_fields(step)
    found = bits_within_budgets(loss, speed, first)
    directions = np.cos(speed), np.sin(first)
    forward = ng.jvp(lambda c, s: loss(c, s, None), (speed, first), directions)[1]
    backward = sum([(g * t).sum() for g, t in zip(found, directions, strict=True)])
    np.testing.assert_allclose(forward, backward, rtol=1e-11)


@pytest.mark.thorough
def test_fields_of_a_batch_and_second_derivatives():
    speed, *fields = np.random.default_rng(12).random((4, 40))
    first = np.stack(fields)

    def derivatives(step):
        def loss(speed, first):
            return (ng.scan(lambda s, _: (step(speed, s), None), first, length=5)[0] ** 2).sum()

        gradient = ng.grad(loss, argnums=1)
        of_batch = ng.vmap(gradient, in_axes=(None, 0))(speed, np.stack([first, 2 * first]))
        return of_batch, ng.grad(lambda c: (gradient(c, first) ** 2).sum())(speed)

    expected = derivatives(read_as_a_whole)
    for step in (stacked, assigned):
        for x, y in zip(derivatives(step), expected, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-11)


# Steps without neighbours, of little to do. Products are carried on, returned, and added up.

CHEAP_STEPS = {
    "decay": (1, lambda s, rate, row: ((rate * s[0],), None)),
    "logistic": (
        1,
        lambda s, rate, row: ((x := s[0] * rate + 0.1 * (1 - s[0]) * s[0] + row,), (x, 2 * s[0])),
    ),
    "oscillator": (
        2,
        lambda s, rate, row: ((s[0] + 0.1 * (v := s[1] - rate * s[0]), v), s[0] * v),
    ),
    "products": (
        2,
        lambda s, rate, row: (
            (x := s[0] * rate, s[0] * rate + s[1]),
            (rate * s[1] + x, s[0] * s[0]),
        ),
    ),
}


@pytest.mark.thorough(but="(decay|products)-float64")
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", CHEAP_STEPS)
def test_cheap_steps_that_are_done_together_have_the_bits_of_single_ones(name, dtype, monkeypatch):
    fields, step = CHEAP_STEPS[name]
    random = np.random.default_rng(13)
    rate, *first = (0.9 + 0.2 * random.random((1 + fields, 70))).astype(dtype)
    weights = np.arange(70).astype(dtype)
    written = []
    own = loops.joined_steps
    monkeypatch.setattr(loops, "joined_steps", lambda *args: written.append(args) or own(*args))
    monkeypatch.setattr(programs, "ELEMENTS_ONE_BY_ONE", 0)
    for length, reverse in ((4, False), (7, True)):
        rows = random.random((length, 70)).astype(dtype)

        def loss(rate, first, rows, memory, reverse=reverse):
            last, results = ng.scan(
                lambda s, row: step(s, rate, row), first, rows, reverse=reverse, memory=memory
            )
            found = [*last, *(results if isinstance(results, tuple) else [results])]
            return sum([(x * weights).sum() for x in found if x is not None])

        def in_python(rate, s, rows, reverse=reverse):
            total = 0
            for row in rows[::-1] if reverse else rows:
                s, results = step(s, rate, row)
                found = results if isinstance(results, tuple) else [results]
                total = sum([(x * weights).sum() for x in found if x is not None], total)
            return sum([(x * weights).sum() for x in s], total)

        written.clear()
        args = rate, tuple(first), rows
        found = bits_within_budgets(loss, *args)
        lowered = ng.jit(ng.grad(lambda r, s, x: loss(r, s, x, None))).lower(*args)
        assert lowered.kernels and written
        expected = ng.grad(in_python, (0, 1, 2))(*args)
        near = 1e-4 if dtype == "float32" else 1e-12
        for x, y in zip(
            (found[0], *found[1], found[2]), (expected[0], *expected[1], expected[2]), strict=True
        ):
            np.testing.assert_allclose(x, y, rtol=near, atol=near * np.abs(y).max())
