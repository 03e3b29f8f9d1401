"""What loops and branches of `jit(f, control_flow=True)` do to things that others hold as well."""

import array
import functools
import itertools
import random
from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import numba_grad as ng
from tests.frontend.python_programs import assert_as_in_python, message, with_control_flow


def test_a_tensor_changed_in_a_branch_is_changed_for_all_who_hold_it():
    def f(x):
        y = 1 * x
        same = y
        if x[0] > 0:
            y += 1
        else:
            y[0] = 7.0
        return same, y

    jitted = with_control_flow(f)
    for x in (np.array([1.0, 2.0]), np.array([-1.0, 2.0])):
        for result in jitted(x):
            np.testing.assert_array_equal(result, x + 1 if x[0] > 0 else [7.0, 2.0])


def test_lists_and_dicts_changed_in_place():
    def f(x, n):
        pair, record = [x, 1.0], {"n": 0}
        other = pair
        for _ in range(n):
            pair[0] = pair[0] * 2
            record["n"] += 1
        return pair, other, record

    assert_as_in_python(f, (1.5, 0), (1.5, 3))


def test_what_is_copied_inside_may_be_changed_in_place():
    def f(x):
        first = x
        while x[0] < 3.0:
            x = x.copy()
            x[0] += 1.0
            if x[1] > 0.0:
                x = x * 2.0
                x[1] -= 5.0
        return x * first

    for x in (np.array([0.5, 1.0]), np.array([3.5, 1.0])):
        np.testing.assert_allclose(with_control_flow(f)(x), f(x), rtol=1e-14)


@pytest.mark.parametrize("first", [1.0, -1.0])
def test_who_holds_a_tensor_of_a_container_sees_it_change(first):
    def branch(x):
        u = 2.0 * x
        pair, rows = (u, x), {"all": [u]}
        if x[0] > 0.0:
            pair[0][1] = 7.0
        return u + rows["all"][0]

    def loop(x):
        u, v = 2.0 * x, 3.0 * x
        state = {"u": u, "v": v}
        while state["u"][0] < 20.0:
            state["u"][0] += 3.0
            state["v"] = state["v"] + state["u"]
        return u + v + state["u"] + state["v"]

    def copy_of_the_container(x):
        u = 2.0 * x
        state, k = {"u": u, "v": x}, 0 * x[0]
        while k < 3:
            state, k = state.copy(), k + 1
            state["v"] = state["v"] + state["u"]
        state["u"] += 1.0
        return u + state["u"] + state["v"]

    x = np.array([first, 2.0])
    for f in (branch, loop, copy_of_the_container):
        np.testing.assert_allclose(with_control_flow(f)(x), f(x), rtol=1e-14)


def smooth(p):
    p[1:-1] = 0.5 * p[1:-1] + 0.25 * (p[2:] + p[:-2])


def sweeps(p, n):
    for _ in range(n):
        smooth(p)
    p[0] = p[1]


def until_settled(x):
    p, change, steps = 1.0 * x, 1.0, 0
    while change > 1e-2:
        before = p.copy()
        sweeps(p, 2)
        change = np.max(np.abs(p - before))
        steps += 1
    return p * steps


def by_out_alone(x):
    p = 1.0 * x
    same = p
    while np.max(p) > 0.5:  # there is nothing that a step assigns
        np.multiply(p, 0.7, out=p)
    return p + same


def on_either_side(x):
    p = 1.0 * x
    if x[0] > 0.5:
        smooth(p)
    else:
        np.add(p, 1.0, out=p)
    return p * p


def in_a_loop_in_a_branch(x):
    p = 1.0 * x
    for i in range(3):
        if p[0] > 0.1:
            while np.sum(p) > 1.0 + i:
                np.multiply(p, 0.5, out=p)
        smooth(p)
    return p


def in_a_dict(x):
    state = {"p": 1.0 * x, "steps": 0}

    def step(held):
        held["steps"] = held["steps"] + 1
        held["p"][:] = 0.5 * held["p"]

    while state["p"][0] > 0.1:
        step(state)
    return state["p"] * state["steps"]


def of_a_dataclass(x):
    y, counted = x[0], Slots()
    if y > 0:
        counted.count()
    while y > 0:
        counted.count()
        y = y - 1
    return counted.held * x


@pytest.mark.thorough(every=3)
@pytest.mark.parametrize(
    "f",
    [until_settled, by_out_alone, on_either_side, in_a_loop_in_a_branch, in_a_dict, of_a_dataclass],
)
def test_what_functions_change_in_place_that_a_part_calls(f):
    x = np.random.default_rng(0).random(6) + 0.2
    expected = ng.vjp(lambda x: np.sum(f(x) ** 2), x)[1](1.0)[0]
    np.testing.assert_allclose(with_control_flow(f)(x), f(x), rtol=1e-14)
    found = ng.grad(lambda x: np.sum(with_control_flow(f)(x) ** 2))(x)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_what_calls_change_beside_variables_is_refused():
    seen = np.zeros(2)

    def note(p):
        seen[0] += 1.0
        p *= 0.5

    def f(x):
        p = 1.0 * x
        while p[0] > 0.1:
            note(p)
        return p

    assert "(of type ndarray) is changed" in message(f, np.ones(2))


def test_tensors_of_containers_with_another_name_in_a_loop():
    def f(x):
        u = 2.0 * x
        state = [u]
        while u[0] < 20.0:
            state[0][0] += 3.0
        return u

    text = message(f, np.ones(2))
    assert "`state` holds a tensor that is changed in place, and `u` is the same tensor" in text

    def g(x):
        u = 2.0 * x
        before = [u]
        while u[0] < 20.0:
            u += before[0]
        return u

    text = message(g, np.ones(2))
    assert "`u` is changed in place, and `before` holds the same tensor" in text


def test_lists_that_grow():
    def local(x, n):
        states = []
        for _ in range(n):
            x = x * 2
            states.append(x)
        return states

    assert "ng.scan" in message(local, 1.0, 3) and "np.stack(states)" in message(local, 1.0, 3)

    def assigned(x, n):
        states = [x]
        while len(states) + n > 0:
            n -= 1
            states = [*states, x]
        return states

    assert "states = np.full(n, np.nan, like=x)" in message(assigned, 1.0, 3, error=TypeError)

    def in_branch(x):
        if x > 0:
            LOG.append(x)
        return x

    assert "`LOG` is a list that grows" in message(in_branch, 1.0)
    assert "LOG.append(x if ... else np.nan)" in message(in_branch, 1.0)


def test_what_is_to_be_typed_in_place_of_lists_that_grow():
    def iterated(a, error):
        x, k = a, 0
        errors = np.full(9, np.nan, like=a)
        while error > 1e-6 and k < 9:
            new = 0.5 * (x + a / x)
            error = np.max(np.abs(new - x))
            errors[k] = error
            x = new
            k += 1
        return x, errors, k

    def chosen(xs):
        kept = []
        for x in xs:
            kept.append(x**2 if x > 0 else np.nan)  # noqa: PERF401
        return np.stack(kept)

    assert_as_in_python(iterated, (np.array([4.0, 1.0]), 1.0))
    assert_as_in_python(chosen, np.array([1.0, -1.0, 2.0]))


LOG: list[Any] = []


def test_what_others_hold_must_not_change():
    class Counter:
        n = 0

    counter = Counter()

    def attribute(x):
        while x > 1:
            counter.n += 1
            x = x / 2
        return x

    assert "`counter`" in message(attribute, 4.0)

    total = 0.0

    def outer(x):
        nonlocal total
        if x > 0:
            total = total + x
        return x

    assert "`total` is not a variable of this function" in message(outer, 1.0)

    def by_a_function(x):
        n = 0

        def count():
            nonlocal n
            n = n + 1

        while x > 1:
            count()
            x = x / 2
        return x, n

    assert "`n` is assigned to by a function that is called" in message(by_a_function, 4.0)

    def of_numpy(x):
        buffer = np.zeros(3)
        while x > 1:
            buffer[0] = 1.0
            x = x / 2
        return buffer + x

    assert "np.zeros(..., like=x)" in message(of_numpy, 4.0)

    def with_view(x):
        y = 1 * x
        row = y[:1]
        if x[0] > 0:
            y[0] = 3.0
        return row + y

    assert "views show its elements" in message(with_view, np.ones(2))


class Counter:
    def __init__(self, held: Any = 0.0) -> None:
        self.held = held

    def count(self) -> float:
        self.held += 1.0
        return self.held


@dataclass(slots=True)
class Slots(Counter):
    held: Any = 0.0
    other: Any = None


def fill(array):
    array[0] = 1.0


def counting():
    numbers = [0]

    def count():
        numbers[0] += 1
        return numbers[0]

    return count


def draw():
    return np.random.uniform()  # noqa: NPY002 - the one of all


TALLY = [0.0]

CALLS = 0

TABLE: dict[int, float] = {}


class Numbered:
    made = 0

    def make(self) -> None:
        Numbered.made += 1

    def halved(self, x: Any) -> Any:
        if x > Numbered.made + 1:
            return x / 2
        return x

    def tally(self) -> None:
        add_to_tally()


def add_to_tally():
    TALLY[0] += 1.0


def call():
    global CALLS
    CALLS += 1


@functools.lru_cache
def cached():
    TALLY[0] += 1.0


def generated():
    yield from range(4)


@pytest.mark.parametrize(
    "make, change, text",
    [
        (Counter, lambda x: x.count(), "x"),
        (lambda: [Slots(), Counter()], lambda x: x[1].count(), "x[1]"),
        (lambda: {"a": Counter()}, lambda x: x["a"].count(), "x['a']"),
        (lambda: Slots(other=Counter()), lambda x: x.other.count(), "x.other"),
        (lambda: Counter().count, lambda x: x(), "x"),
        (counting, lambda x: x(), "numbers"),
        (lambda: functools.partial(fill, np.zeros(9000)), lambda x: x(), "x"),
        (lambda: lambda y=[0]: y.append(1), lambda x: x(), "x"),
        (lambda: np.zeros(2), fill, "x"),
        (lambda: Counter(np.zeros(2)), lambda x: fill(x.held), "x.held"),
        (lambda: deque([1.0, 2.0]), lambda x: x.append(3.0), "x"),
        (lambda: np.random.default_rng(0), lambda x: x.normal(), "x"),
        (lambda: np.random.default_rng(0).normal, lambda x: x(), "x"),
        (lambda: random.Random(0), lambda x: x.random(), "x"),
        (lambda: None, lambda x: np.random.normal(), "np.random"),  # noqa: NPY002 - the one of all
        (lambda: None, lambda x: random.random(), "random"),
        (lambda: None, lambda x: draw(), "np.random"),
        (lambda: bytearray(8), lambda x: x.extend(b"1"), "x"),
        (lambda: memoryview(bytearray(8)), lambda x: x.__setitem__(0, 1), "x"),
        (lambda: array.array("d", [1.0]), lambda x: x.append(2.0), "x"),
        (lambda: iter([1.0, 2.0]), next, "x"),
        (lambda: enumerate(range(4)), next, "x"),
        (lambda: zip(range(4), range(4), strict=True), lambda x: next(x), "x"),
        (lambda: itertools.count(), lambda x: next(x), "x"),
        (generated, lambda x: next(x), "x"),
        (Numbered, lambda x: x.make(), "Numbered"),
        (Numbered, lambda x: x.tally(), "TALLY"),
        (lambda: add_to_tally, lambda x: x(), "TALLY"),
        (lambda: cached, lambda x: (x.cache_clear(), x()), "TALLY"),
        (lambda: call, lambda x: x(), "CALLS"),
    ],
)
def test_what_a_part_does_to_objects_is_refused(make, change, text):
    """Parts are traced whether they will run or not, and once for all steps of a loop."""

    def in_branch(y):
        x = make()
        if y > 0:
            change(x)
        return y

    def in_loop(y):
        x = make()
        while y > 0:
            change(x)
            y = y - 1
        return y

    for f in (in_branch, in_loop):
        # Its own two variables, or what the lambda names.
        assert f"known at run time only; `{text}` " in message(f, 1.0)

    def before(y):
        x = make()
        change(x)
        if y > 0:
            y = 2 * y
        return y

    assert with_control_flow(before)(3.0) == 6.0


def test_a_method_that_names_its_class():
    assert_as_in_python(Numbered().halved, (4.0,), (1.0,))


def test_what_a_called_function_remembers_is_no_change():
    def weight(n):
        if n not in TABLE:
            TABLE[n] = 1.0 / n
        return TABLE[n]

    class Rule:
        @functools.cached_property
        def scale(self):
            return 0.5

    def f(x):
        TABLE.clear()
        rule = Rule()
        if x > 0:
            x = x * weight(4) * rule.scale
        return x

    assert_as_in_python(f, (-1.0,), (8.0,))
    assert TABLE == {4: 0.25}


def test_functions_that_close_over_what_a_part_changes():
    def f(x, n):
        table, total = [0.0, x], 0.0

        def last():
            return table[1] + total

        for k in range(n):
            table[0] = table[0] + k
            table[1] = last() / 2
            total = total + table[0]
        return table, last()

    assert_as_in_python(f, (1.0, 0), (1.0, 4))


def test_what_a_branch_does_to_objects_in_containers_is_refused():
    def f(x):
        state = {"counter": Counter(), "x": x}
        if x > 0:
            state["counter"].held += 1.0
            state["x"] = 2 * x
        return state["x"] + state["counter"].held

    text = message(f, 1.0)
    assert "`state['counter']` (of type Counter) is changed" in text

    def drawing(x):
        if x > 0:
            x = x + np.random.normal()  # noqa: NPY002 - the one of all
        return x

    assert "try: ng.random, with a key for each step" in message(drawing, 1.0)


@pytest.mark.parametrize("p", [1.0, -1.0])
def test_others_who_hold_a_tensor_see_what_a_side_does_to_it(p):
    def one_side_rebinds(p, x):
        x = x + 0.0
        held = x
        if p > 0:
            x = x * 2
        else:
            x += 10
        return x, held

    def changed_and_rebound(p, x):
        x = x + 0.0
        held = [x]
        if p > 0:
            x += 10
            x = x * 2
        return x, held[0]

    def not_read_afterwards(p, x):
        x = x + 0.0
        held = x
        if p > 0:
            x[0] = 5
        return held

    for f in (one_side_rebinds, changed_and_rebound, not_read_afterwards):
        expected = f(p, ng.tensor([1.0, 2.0]))
        found = ng.jit(f, control_flow=True)(p, ng.tensor([1.0, 2.0]))
        np.testing.assert_array_equal(np.asarray(found), np.asarray(expected))


def test_a_list_that_both_sides_of_a_branch_append_to():
    def spikes(v):
        trace, resets = [], [0]
        same = trace
        for _ in range(6):
            v = 0.9 * v + 1.0
            if v >= 5.0:
                trace.append(5.0)
                resets.append(1)
                v = 0.0 * v
            else:
                trace.append(v)
                resets.append(0)
        return np.stack(same), sum(resets), len(trace)

    assert_as_in_python(spikes, 1.0, 4.0, 20.0)
    graph = ng.jit(spikes, control_flow=True).lower(1.0).graph
    # What the other steps have appended goes through none of the branches.
    assert (
        max(len(line.split(" = ")[0].split(",")) for line in graph.splitlines() if "=" in line) < 5
    )


def test_functions_that_compare_whole_arrays_decide():
    def agm(x, y):
        steps = 0
        while not np.allclose(x, y, atol=1e-12):
            x, y, steps = (x + y) / 2, np.sqrt(x * y), steps + 1
        return x, steps, np.array_equal(x, y)

    assert_as_in_python(agm, (np.array([1.0, 2.0]), np.array([4.0, 3.0])), (np.ones(2), np.ones(2)))
    alike = ng.jit(lambda x: np.where(np.allclose(x, 1.0), x, 2 * x))
    np.testing.assert_array_equal([alike(np.ones(2)), alike(np.zeros(2))], [[1, 1], [0, 0]])
