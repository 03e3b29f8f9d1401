"""What a jitted function changes around itself, and goes on from, at each call as Python does."""

import contextlib
import gc
import importlib
import random as pythons_random
import sys
import warnings
import weakref

import numpy as np
import numpy.random as numpys_random
import pytest

import numba_grad as ng
from numba_grad.errors import PerformanceWarning, TracingError
from tests.frontend.programs_with_state import (
    INPUTS,
    PROGRAMS,
    Pair,
    Thing,
    adam,
    alias,
    attribute,
    cell,
    counted_by_a_variable,
    counted_in_a_list,
    parameters_in_a_dict,
    slot,
    swapped,
    two_in_a_list,
    variable,
    variable_of_the_module,
)
from tests.processes import run_python

pytestmark = [
    pytest.mark.usefixtures("numpy_engine"),
    pytest.mark.filterwarnings("ignore::numba_grad.errors.PerformanceWarning"),
]

total = None


def _leaves(left):
    if isinstance(left, dict):
        left = list(left.values())
    if isinstance(left, list | tuple):
        return [y for x in left for y in _leaves(x)]
    return [] if left is None else [np.array(left)]


def _run(program, made_of, wrap, given):
    f, left = program(made_of)
    f = wrap(f)
    return [(np.array(f(given(x))), _leaves(left())) for x in INPUTS]


@pytest.mark.parametrize("control_flow", [False, True])
@pytest.mark.parametrize("program", PROGRAMS)
def test_calls_do_what_python_does(program, control_flow):
    if control_flow and program is variable_of_the_module:
        pytest.skip("a global of this module is refused there")
    expected = _run(program, np.array, lambda f: f, np.array)

    def wrap(f):
        return ng.jit(f, control_flow=control_flow)

    for made_of, given in ((np.array, np.array), (ng.tensor, ng.tensor), (ng.tensor, np.array)):
        for got, wanted in zip(_run(program, made_of, wrap, given), expected, strict=True):
            np.testing.assert_allclose(got[0], wanted[0], rtol=1e-13)
            assert len(got[1]) == len(wanted[1])
            for x, y in zip(got[1], wanted[1], strict=True):
                np.testing.assert_allclose(x, y, rtol=1e-13)


def _traces_of(f):
    traces = []

    def counted(*args):
        traces.append(1)
        return f(*args)

    return ng.jit(counted), traces


@pytest.mark.parametrize(
    "program",
    [
        attribute,
        slot,
        parameters_in_a_dict,
        two_in_a_list,
        variable,
        variable_of_the_module,
        cell,
        swapped,
    ],
)
@pytest.mark.parametrize("made_of", [ng.tensor, np.array])
def test_state_of_tensors_needs_no_second_trace_and_of_arrays_no_third(program, made_of):
    f, left = program(made_of)
    jitted, traces = _traces_of(f)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for x in INPUTS:
            jitted(x)
    assert len(traces) == (1 if made_of is ng.tensor else 2)
    state = left()
    for x in (
        state.values()
        if isinstance(state, dict)
        else state
        if isinstance(state, tuple)
        else [state]
    ):
        kinds = {type(y) for y in (x if isinstance(x, list) else [x])}
        assert kinds == {type(made_of(1.0))}


@pytest.mark.parametrize("program", [adam, counted_by_a_variable, counted_in_a_list, alias])
def test_numbers_are_state_as_well(program):
    f, left = program(np.array)
    jitted, traces = _traces_of(f)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for x in INPUTS:
            jitted(x)
    assert len(traces) == 2
    numbers = [x for x in np.atleast_1d(np.array(left(), object)).ravel() if np.ndim(x) == 0]
    assert {type(x) for x in numbers} <= {int, float}


def test_numbers_that_decide_are_what_they_are():
    s = Thing(k=0, scales=[1.0, 2.0, 4.0, 8.0])

    def f(x):
        s.k = s.k + 1
        y = x
        for scale in s.scales[: s.k]:
            y = y * scale
        return y.sum() if s.k % 2 else -y.sum()

    jitted = ng.jit(f)
    assert [float(jitted(np.ones(1))) for _ in range(4)] == [1.0, -2.0, 8.0, -64.0]
    assert type(s.k) is int


def test_what_is_replaced_from_outside_is_gone_on_from():
    s = Thing(u=ng.tensor(np.zeros(3)))

    def f(x):
        s.u = s.u + x
        return s.u.sum()

    jitted, traces = _traces_of(f)
    jitted(np.ones(3))
    s.u = ng.tensor(np.full(3, 5.0))
    assert jitted(np.ones(3)) == 18.0
    assert len(traces) == 1
    s.u = np.full(3, 7.0, np.float32)
    assert jitted(np.ones(3)) == 24.0
    s.u = ng.tensor(1.0)
    assert jitted(np.ones(3)) == 6.0
    s.u = None
    with pytest.raises(TypeError):
        jitted(np.ones(3))


def test_others_keep_the_tensor_that_was_replaced():
    s = Thing(u=ng.tensor(np.zeros(3)))

    def f(x):
        s.u = s.u + x
        return s.u.sum()

    first, jitted = s.u, ng.jit(f)
    jitted(np.ones(3))
    second = s.u
    jitted(np.ones(3))
    assert [x.numpy()[0] for x in (first, second, s.u)] == [0.0, 1.0, 2.0]


def test_a_tensor_under_two_names_is_read_by_the_one_that_stays():
    u = ng.tensor(np.ones(3))
    s = Thing(u=u, first=u)

    def f(x):
        s.u = s.u + x
        return (s.first * x).sum()

    jitted = ng.jit(f)
    assert [jitted(np.ones(3)) for _ in range(3)] == [3.0, 3.0, 3.0]
    assert s.u.numpy()[0] == 4.0


def test_a_tensor_that_is_in_a_tuple_as_well_is_read_there():
    u = ng.tensor(np.ones(3))
    s = Thing(u=u, all=(Thing(parts=[(u,)]),))

    def f(x):
        s.u = s.u + x
        return (s.all[0].parts[0][0] * x).sum()

    jitted = ng.jit(f)
    assert [jitted(np.ones(3)) for _ in range(3)] == [3.0, 3.0, 3.0]
    assert s.u.numpy()[0] == 4.0


def _steps_of_buffers(s):
    s.u, s.v = s.v, s.u


def _swap_of_items(s):
    s.buffers[0], s.buffers[1] = s.buffers[1], s.buffers[0]


def _former_values(s):
    s.former["u"] = s.u * 1
    s.u += 0.5


def _norm(s):
    s.norm = np.sum(s.u**2)


def _decay_of_items(s):
    s.buffers[0] *= 0.5
    s.former["u"] *= 0.25


@pytest.mark.parametrize(
    "f", [_steps_of_buffers, _swap_of_items, _former_values, _norm, _decay_of_items]
)
def test_what_no_result_depends_on_changes_at_each_call(f):
    """Of tensors: what is made of arguments, and read by nobody, says that it has no value."""

    def made(array):
        buffers = [array([5.0, 6.0]), array([7.0, 8.0])]
        former = {"u": array([3.0, 4.0])}
        return Thing(u=array([1.0, 2.0]), v=array([9.0, 9.5]), buffers=buffers, former=former)

    def values(s):
        held = [s.u, s.v, *s.buffers, *s.former.values(), *([s.norm] if f is _norm else [])]
        return [np.array(x).tolist() for x in held]

    def run(x, s):
        f(s)
        return x * 2

    ours, numpys = made(ng.tensor), made(np.array)
    jitted = ng.jit(lambda x: run(x, ours))
    for k in range(5):
        jitted(np.ones(2))
        run(np.ones(2), numpys)
        assert values(ours) == values(numpys)
        if k == 2:
            for s, array in ((ours, ng.tensor), (numpys, np.array)):
                s.buffers[0], s.former["u"] = array([0.5, 0.25]), array([2.0, 2.5])
        numpys.u *= 2
        ours.u *= 2


def test_a_tensor_that_each_call_makes_anew_is_what_it_was_made():
    s = Thing(sums=None)

    def f(x):
        s.sums = ng.zeros(2)
        return x * 2

    jitted = ng.jit(f)
    for _ in range(3):
        jitted(1.0)
        assert s.sums.tolist() == [0.0, 0.0]
        s.sums[0] = 5.0


def test_an_array_that_has_two_names_is_no_record_by_one_of_them():
    s = Thing(array=np.array([1.0, 2.0]), n=1)
    s.same = s.array

    def f(x):
        s.same *= 0.5
        s.n = s.n + 1
        return x * 2

    jitted = ng.jit(f)
    for k in range(1, 5):
        jitted(1.0)
        assert (s.array.tolist(), s.n) == ([0.5**k, 2 * 0.5**k], k + 1)


def test_arrays_that_change_in_place_do_so_once_in_each_call():
    s = Thing(counts=np.zeros(2), sums=np.zeros(2), rate=1.0)

    def f(x):
        s.counts[0] += 1
        s.sums[1:] += s.rate  # which a tensor in its place cannot be added to
        s.rate = s.rate * 0.5
        return x + s.counts[0]

    jitted = ng.jit(f)
    for k in range(1, 4):
        assert jitted(1.0) == 1 + k
        assert (s.counts[0], s.sums[1], s.rate) == (k, 2 - 0.5 ** (k - 1), 0.5**k)


def halved_or_refused(x, array):
    array *= 0.5
    if x > 5:
        raise ValueError
    return x * 2


def test_arrays_change_once_where_a_call_raises():
    array = np.array([1.0, 2.0])
    jitted = ng.jit(lambda x: halved_or_refused(x, array), control_flow=True)
    for k, x in enumerate((1.0, 9.0, 1.0, 9.0), start=1):
        with pytest.raises(ValueError) if x > 5 else contextlib.nullcontext():
            jitted(x)
        assert array.tolist() == [0.5**k, 2 * 0.5**k]


def test_what_was_there_first_is_not_kept():
    s = Thing(u=ng.tensor(np.zeros(3)))

    def f(x):
        s.u = s.u + x
        return s.u.sum()

    first, jitted = weakref.ref(s.u), ng.jit(f)
    jitted(np.ones(3))
    gc.collect()
    assert first() is None


def test_a_global_that_two_functions_name_is_one_state():
    global total
    total = ng.tensor(np.zeros(3))

    def read():
        return total.sum()

    def f(x):
        global total
        total = total + x
        return read()

    jitted, traces = _traces_of(f)
    assert [float(jitted(np.ones(3))) for _ in range(3)] == [3.0, 6.0, 9.0]
    assert len(traces) == 1


def test_values_that_decide_are_those_of_the_tensor_that_is_there():
    s = Thing(k=ng.tensor(np.array([0, 1])))
    table = ng.tensor(np.arange(6.0))

    def f(x):
        y = table[s.k] * x
        s.k = s.k + 1
        return y.sum()

    jitted = ng.jit(f)
    assert [float(jitted(np.ones(2))) for _ in range(3)] == [1.0, 3.0, 5.0]


def test_what_is_only_assigned_is_no_state():
    """Layers keep what they were given, and their gradients are computed by hand."""
    layer = Thing(W=ng.tensor(np.eye(3) * 0.5), x=None)

    def forward(x):
        layer.x = x
        return layer.W @ x

    jitted, traces = _traces_of(lambda x: (layer.W.T @ forward(x) * layer.x).sum())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for x in INPUTS:
            np.testing.assert_allclose(jitted(x), (x**2).sum() / 4)
    assert len(traces) <= 2


@pytest.mark.parametrize("made_of", [ng.tensor, np.array])
def test_records_come_along_with_state(made_of):
    s = Thing(u=made_of(np.zeros(3)), former=None, seen=None, change=None, calls=0, log=[])

    def f(x):
        s.calls += 1
        s.log.append(x.shape)
        s.former, s.seen = s.u, x
        s.u = s.u * 0.5 + x
        s.change = s.u - s.former
        return s.u.sum()

    jitted, traces = _traces_of(f)
    u = np.zeros(3)
    for k, x in enumerate(INPUTS):
        given, former = made_of(x), s.u
        jitted(given)
        assert s.former is former
        assert s.seen is given
        assert s.calls == k + 1
        np.testing.assert_allclose(s.change, 0.5 * u + x - u)
        u = 0.5 * u + x
    assert len(traces) == 2


def test_a_record_that_others_replace_is_made_again():
    s = Thing(seen=ng.tensor(np.zeros(3)))

    def f(x):
        s.seen = x * 2.0
        return s.seen.sum()

    jitted, traces = _traces_of(f)
    for _ in range(3):
        assert jitted(np.ones(3)) == 6.0
    assert len(traces) == 1
    s.seen = None
    assert jitted(np.ones(3)) == 6.0
    np.testing.assert_array_equal(s.seen, np.full(3, 2.0))


def test_gradients_flow_through_what_is_carried():
    s = Thing(u=ng.tensor(np.zeros(3)))

    def f(x):
        s.u = s.u * 0.5 + x * x
        return s.u.sum()

    x = ng.tensor(INPUTS[0], requires_grad=True)
    for jitted in (f, ng.jit(f)):
        s.u, x.grad = ng.tensor(np.zeros(3)), None
        jitted(x)
        jitted(x).backward()
        np.testing.assert_allclose(x.grad, 1.5 * 2 * INPUTS[0])


@pytest.mark.parametrize("made_of", [ng.tensor, np.array])
def test_gradients_of_functions_with_state_are_compiled(made_of):
    s = Thing(u=made_of(np.zeros(3)), t=0)

    def f(x):
        s.u, s.t = s.u * 0.5 + x * x, s.t + 1
        return (s.u * s.t).sum()

    jitted, traces = _traces_of(ng.grad(f))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for k in (1, 2, 3):
            np.testing.assert_allclose(jitted(INPUTS[0]), k * 2 * INPUTS[0])
    np.testing.assert_allclose(s.u, 1.75 * INPUTS[0] ** 2)
    assert (len(traces), s.t) == (2, 3)


def test_state_that_is_one_for_each_example_is_refused():
    s = Thing(u=ng.tensor(np.zeros(3)))

    def f(x):
        s.u = s.u + x
        return s.u.sum()

    with pytest.raises(TracingError, match=r"(?s)of vmap.*s\.u : of type Tensor.*return it"):
        ng.jit(ng.vmap(f))(np.ones((4, 3)))
    np.testing.assert_array_equal(s.u, np.zeros(3))
    layer = Thing(W=ng.tensor(np.eye(3)), x=None)

    def forward(x):
        layer.x = x
        return (layer.W @ x).sum() + layer.x.sum()

    jitted = ng.jit(ng.vmap(forward))
    for _ in range(3):
        np.testing.assert_array_equal(jitted(np.ones((4, 3))), np.full(4, 6.0))


def test_functions_within_functions_change_things_too():
    s = Thing(u=ng.tensor(np.zeros(3)), t=0.0)

    def f(x):
        s.u, s.t = s.u + x, s.t + 1.0
        return (s.u * s.t).sum()

    inner = ng.jit(f)
    outer = ng.jit(lambda x: inner(x) + inner(2 * x))
    expected, u, t = [], np.zeros(3), 0.0
    for x in INPUTS:
        value = 0.0
        for y in (x, 2 * x):
            u, t = u + y, t + 1.0
            value += (u * t).sum()
        expected.append(value)
    np.testing.assert_allclose([outer(x) for x in INPUTS], expected)
    np.testing.assert_allclose(s.u, u)


def test_a_trace_that_fails_leaves_no_tensor_without_a_value():
    s = Thing(u=ng.tensor(np.zeros(3)), seen=[])

    def f(x):
        s.u = s.u + x
        s.seen.append(x.sum())
        return x.sum() if len(s.seen) > 5 else undefined  # noqa: F821

    with pytest.raises(NameError):
        ng.jit(f)(np.ones(3))
    np.testing.assert_array_equal(s.u, np.zeros(3))
    assert s.seen == []


def test_lowering_changes_nothing():
    s = Thing(u=np.zeros(3), t=0.0, seen=[])

    def f(x):
        s.u, s.t = s.u + x, s.t + 1.0
        s.seen.append(x)
        return (s.u * s.t).sum() + len(s.seen)

    ng.jit(f).lower(np.ones(3))
    assert (s.u.tolist(), s.t, s.seen) == ([0.0, 0.0, 0.0], 0.0, [])
    assert ng.jit(f)(np.ones(3)) == 4.0


def test_a_function_that_python_runs_each_time_says_so_once():
    s = Thing(t=0.0)

    def f(x):
        s.t = s.t + 1.0
        return x * s.t if s.t < 10.0 else x

    jitted = ng.jit(f)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        jitted(1.0)
    with pytest.warns(PerformanceWarning, match=r"(?s)jit of f.*s\.t : 1\.0, of type float"):
        jitted(1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert jitted(1.0) == 3.0


def test_static_objects_are_looked_at():
    s = Thing(t=0.0, u=ng.tensor(np.zeros(3)))

    def f(model, x):
        model.t = model.t + 1.0
        model.u = model.u + x * model.t
        return model.u.sum()

    jitted = ng.jit(f, static_argnums=0)
    assert [float(jitted(s, np.ones(3))) for _ in range(3)] == [3.0, 9.0, 18.0]


# Containers among the arguments


def _update(p, x):
    for k in p:
        p[k] = p[k] - 0.5 * x
    p["last"] = x
    return sum(v.sum() for v in p.values())


@pytest.mark.parametrize("made_of", [np.array, ng.tensor])
def test_containers_among_the_arguments_get_what_is_put_in_them(made_of):
    expected, p = {"w": np.ones(3), "b": np.zeros(3)}, {k: made_of(np.ones(3)) for k in "wb"}
    p["b"] = made_of(np.zeros(3))
    jitted, traces = _traces_of(_update)
    for x in INPUTS:
        np.testing.assert_allclose(jitted(p, made_of(x)), _update(expected, x))
        assert list(p) == list(expected)
        for k, v in expected.items():
            np.testing.assert_allclose(p[k], v)
            assert isinstance(p[k], type(made_of(x)))
    assert len(traces) == 2  # with and without "last"


def test_lists_and_objects_among_the_arguments_get_what_is_put_in_them():
    def f(xs, pair):
        xs.append(xs[0] * 2.0)
        pair.u, pair.v = pair.v, pair.u + xs[0]
        xs[0] = xs[0] + 1.0
        return pair.v.sum()

    xs, pair = [np.ones(2)], Pair(np.zeros(2), np.full(2, 5.0))
    v = pair.v
    jitted = ng.jit(f)
    assert jitted(xs, pair) == 2.0
    np.testing.assert_array_equal(xs, [[2.0, 2.0], [2.0, 2.0]])
    assert pair.u is v
    assert jitted(xs, pair) == 14.0
    assert len(xs) == 3


def test_gradients_flow_through_what_is_put_in_containers():
    p, x = {"w": ng.tensor(np.ones(3))}, ng.tensor(INPUTS[0], requires_grad=True)

    def f(p, x):
        p["w"] = p["w"] * x
        return x.sum()

    ng.jit(f)(p, x)
    p["w"].sum().backward()
    np.testing.assert_array_equal(x.grad, np.ones(3))


def test_a_tensor_without_a_value_still_says_where_it_comes_from():
    s = Thing(u=ng.tensor(np.zeros(3)))

    def f(x):
        s.u = x * 2
        return x.sum()

    ng.jit(f)(np.ones(3))
    with pytest.raises(TracingError, match=r"(?s)used outside.* f, the .*in place"):
        s.u.numpy()


def test_a_number_may_become_an_array():
    s = Thing(total=0.0)

    def f(x):
        s.total += x
        return 2 * s.total

    jitted = ng.jit(f)
    for k in (1.0, 2.0, 3.0):
        np.testing.assert_array_equal(jitted(np.ones(2)), [2 * k, 2 * k])
    assert type(s.total) is np.ndarray


def test_arrays_that_change_in_place_are_still_the_same_arrays():
    s = Thing(u=np.zeros(4), t=0.0)
    u = s.u

    def f(x):
        s.u[1:] += x * s.u.shape[0]
        s.t = s.t + 1.0
        np.add(s.u, s.t, out=s.u)
        return s.u * 2

    expected = np.zeros(4)
    jitted = ng.jit(f)
    s.u = ng.tensor(s.u)  # which an assignment by tensors needs
    for k, x in enumerate(INPUTS):
        expected[1:] += x * 4
        expected += k + 1
        np.testing.assert_allclose(jitted(x), 2 * expected)
        np.testing.assert_allclose(s.u, expected)
    assert u[0] == 0.0


@pytest.mark.parametrize("is_replaced", [False, True])
def test_sums_in_arrays_that_are_state(is_replaced):
    s = Thing(total=None)

    def f(x):
        s.total = x * 0.0 if s.total is None else s.total
        s.total += x
        if is_replaced:
            s.total = s.total * 2.0
        return s.total.sum()

    jitted, total, former = ng.jit(f), np.zeros(3), None
    for x in INPUTS:
        total = (total + x) * (2.0 if is_replaced else 1.0)
        np.testing.assert_allclose(jitted(x), total.sum())
        np.testing.assert_allclose(s.total, total)
        assert type(s.total) is np.ndarray
        if former is not None:
            assert (s.total is former) is not is_replaced
        former = s.total


def test_what_has_moved_is_the_same_thing():
    s = Thing(u=np.zeros(3), former=np.ones(3))

    def f(x):
        y = (s.former * x).sum()
        s.former = s.u
        s.u = s.u + x
        return y

    jitted, traces = _traces_of(f)
    for _ in range(4):
        u = s.u
        jitted(np.ones(3))
        assert s.former is u
    assert len(traces) == 2


def test_in_place_after_a_move_is_seen_under_both_names():
    s = Thing(u=ng.tensor(np.zeros(3)), v=ng.tensor(np.zeros(3)))

    def f(x):
        s.u += x
        s.v = s.u
        return (s.v * x).sum()

    jitted = ng.jit(f)
    for k in (1.0, 2.0, 3.0):
        assert jitted(np.ones(3)) == 3 * k
        assert s.v is s.u


def test_an_assignment_after_values_were_computed():
    s = Thing(u=ng.tensor(np.zeros(3)), v=ng.tensor(np.ones(3)))

    def f(x):
        s.u += x
        s.v = s.v + s.u
        s.u, s.v = s.v, s.u + x
        return s.u.sum()

    def by_python(x):
        u, v = state
        u = u + x
        v = v + u
        state[:] = v, u + x
        return v.sum()

    jitted, state = ng.jit(f), [np.zeros(3), np.ones(3)]
    for x in INPUTS:
        np.testing.assert_allclose(jitted(x), by_python(x))
        np.testing.assert_allclose(s.v, state[1])


def test_an_assignment_in_place_is_to_what_is_there():
    s = Thing(u=ng.tensor(np.zeros(3)))

    def f(x):
        s.u += x
        return x.sum()

    jitted = ng.jit(f)
    jitted(np.ones(3))
    jitted(np.ones(3))
    s.u = ng.tensor(np.full(3, 5.0))
    jitted(np.ones(3))
    np.testing.assert_array_equal(s.u, np.full(3, 6.0))


def test_numpys_own_random_numbers_are_drawn_at_each_call():
    """In a process that has not imported `numpy.random` yet."""
    output = run_python(
        """
        import warnings
        import numba_grad as ng, numba_grad.numpy as np
        warnings.simplefilter("ignore")
        f = ng.jit(lambda x: x * np.random.normal())
        print(len({float(f(1.0)) for _ in range(4)}))
        """
    )
    assert output.split() == ["4"]


@pytest.mark.parametrize("given", [np.array, ng.tensor])
def test_numbers_in_containers_and_in_state_stay_numbers(given):
    s = Thing(last=None)

    def f(d, x, rate):
        d["t"] += 1
        d["s"] = d["s"] * 2
        d["new"] = d["s"] + 1
        y = x * d["t"] * d["s"] if s.last is None else x * d["t"] * d["s"] * s.last
        s.last = rate * 2
        return y

    jitted, d, x = ng.jit(f), {"t": 0, "s": 0.5}, given(np.ones(2, np.float32))
    for expected in (1.0, 8.0, 24.0):
        y = jitted(d, x, 1.0)
        assert y.dtype == np.float32
        np.testing.assert_array_equal(y, [expected, expected])
        assert [type(v) for v in d.values()] == [int, float, float]
        assert type(s.last) is float


NOISE = """
import random as drawn
import numpy as np
import numpy.random as npr

rng = np.random.default_rng(0)
calls = 0


class Model:
    def noisy(self, x):
        return x + rng.normal()


def by_generator(x):
    return x + rng.normal()


def by_numpy(x):
    return x + npr.normal()


def by_python(x):
    return x + drawn.gauss(0, 1)


def imported(x):
    from random import gauss

    return x + gauss(0, 1)


def counted(x):
    global calls
    calls += 1
    return x + calls
"""


@pytest.fixture
def noise(tmp_path, monkeypatch):
    (tmp_path / "noise_of_a_user.py").write_text(NOISE)
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("noise_of_a_user")
    del sys.modules["noise_of_a_user"]


OF_A_MODULE = {
    "by_generator": lambda noise: lambda x: noise.by_generator(x),
    "by_numpy": lambda noise: lambda x: noise.by_numpy(x),
    "by_python": lambda noise: lambda x: noise.by_python(x),
    "imported": lambda noise: lambda x: noise.imported(x),
    "counted": lambda noise: lambda x: noise.counted(x),
    "an object made in it": lambda noise: lambda x: noise.Model().noisy(x),
    "numpy.random": lambda _: lambda x: x + numpys_random.normal(),  # noqa: NPY002
    "random": lambda _: lambda x: x + pythons_random.gauss(0, 1),
}


@pytest.mark.parametrize("way", OF_A_MODULE)
def test_what_functions_of_modules_change_is_seen(noise, way):
    jitted = ng.jit(OF_A_MODULE[way](noise))
    assert len({float(jitted(1.0)) for _ in range(3)}) == 3


@pytest.mark.parametrize("way", OF_A_MODULE)
def test_what_functions_of_modules_change_in_loops_is_refused(noise, way):
    step = OF_A_MODULE[way](noise)

    def f(x):
        while x < 10.0:
            x = step(x) + 1.0
        return x

    with pytest.raises(TracingError, match=r"is changed|is assigned to"):
        ng.jit(f, control_flow=True)(0.0)


def _large_buffer():
    buffer = np.arange(60_000.0)  # more than is copied

    def step(x):
        buffer[1:-1] = np.roll(buffer, 1)[1:-1]
        buffer[-1] += 1
        return x * buffer[-1] + buffer[7]

    return step


def _long_list():
    counts = [0] * 6_000  # more than is looked into

    def step(x):
        counts[-1] += 1
        return x * counts[-1]

    return step


def _many_objects():
    things = [Thing(u=1.0, v=0.5 * k) for k in range(1_200)]

    def step(x):
        for thing in things[-3:]:
            thing.u = thing.u + thing.v * x
        return things[-1].u + things[-2].u

    return step


@pytest.mark.thorough(but="large_buffer|long_list")
@pytest.mark.parametrize("made", [_large_buffer, _long_list, _many_objects])
@pytest.mark.filterwarnings("ignore::numba_grad.errors.TracingWarning")
def test_what_is_changed_of_much_is_seen(made):
    python, jitted = made(), ng.jit(made())
    for x in (1.0, 2.0, 3.0, 4.0):
        np.testing.assert_allclose(jitted(x), python(x), rtol=1e-14)


def test_an_object_of_a_class_without_a_module_is_state_as_well():
    """What `exec` makes in a namespace without `__name__` says that it is of `builtins`."""
    code = "class Model: pass\nmodel = Model()\nmodel.h = 0.0\n"
    code += "def f(x):\n    model.h = model.h + x.sum()\n    return model.h"
    names = {}
    exec(code, names)
    assert names["Model"].__module__ == "builtins"
    f = ng.jit(names["f"])
    assert [float(f(np.ones(3))) for _ in range(3)] == [3.0, 6.0, 9.0]
    assert float(names["model"].h) == 9.0
