"""What is assigned to a view is assigned to what it is a view of, and the other way round: as in
NumPy, which tells what is a view and what a copy."""

import functools
import gc
import warnings
import weakref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import numba_grad as ng
from numba_grad.graph import observers, traced_bodies
from numba_grad.graph.node import recorded_nodes
from tests.counting import functions_entered

# Each of these runs with NumPy's arrays and with tensors: `a` is 3 by 4, from 1 to 12, and `c` the
# same as complex numbers.
PROGRAMS = """
r = a[0]; r[:] = 1
r = a[0]; r += 1; r[1] = 7
a.ravel()[0] = 7
a.T[0] = 1
b = a.T.ravel(); b[0] = 7
b = a.T.reshape(-1); a[0] = 9
b = a.reshape(4, 3); b[0] += 1
b = a.reshape(2, 2, 3); d = b[:, 1]; a[2] = 0
b = a[::-1]; b[0] = 3; d = b[::2]; d += 5
v = a.reshape(-1)[1:]; a *= 2
x = a[1]; y = a[1, 1:]; y[:] = 0
r, s, t = a; s -= 1
for row in a: row *= 2
for row in a.T: row += row[0]
rows = list(a); rows[0][1] = 5; rows[1] *= 3
d = np.diagonal(a); a[0, 0] = 99
d = np.diag(a[:, 1:]); a[0, 1] = 99
d = np.einsum("ii->i", a[:, 1:]); a[0, 1] = 99
t = np.einsum("ij->ji", a); t[0] = 5; a[1, 1] = 7
s = a[0, 0]; s += 1
s = a[0, 0, ...]; s += 1
e = a[...]; e[0] = 0
m = a[a > 3]; m[0] = 0
i = a[[0, 1]]; i[0] = 5
b = a.flatten(); b[0] = 5
b = a.copy(); b[0] = 5
b = np.split(a, 3); b[1][...] = 0
b = np.hsplit(a, 2)[1]; b[0] = 0
b = np.array_split(a, 2, 1)[0]; a[:, 0] = 0
b = np.unstack(a); b[1][0] = 0
b = np.unstack(a[0]); a[0] = 4
b = np.unstack(a[0]); x = b[0]; x += 1
n = np.sum(a); m = n; n += 1
n = a[0, 0] * 2; m = n; n *= 2; n **= 2
n = np.sum(a); m = n; n += a[0]
n = np.zeros((), like=a); m = n; n += 1; n += 1
n = a[0, 0].copy(); n = np.array(n, like=a); m = n; n += 1
s = a[0, 0, ...]; t = s; s += 1
b = np.flip(a, 0); b[0] = 0; a[1] = 8
b = np.fliplr(a); b[0, 0] = 0
b = np.rot90(a); b[0] = 0
b = np.rot90(a, 2); b[0] = 0
b = np.rot90(a, 4); b[0] = 0
b = np.moveaxis(a, 0, 1); b[0] = 0
b = np.swapaxes(a, 0, 1); b[0] = 0
b = np.rollaxis(a, 1); b[0] = 0
b = np.matrix_transpose(a); b[0] = 0
b = np.expand_dims(a, 0); b[0, 0] = 0
b = np.squeeze(a[:, :1]); b += 1
b = np.atleast_3d(a); b[0] = 0
b = a[None, :, 1]; b += 1
b = np.broadcast_to(a, (2, 3, 4)); a[0] = 5
b = np.trim_zeros(a[0]); b[0] = 5
b = a[:, :1].ravel(); b[0] = 5
b = a[:, :1].reshape(-1); b[0] = 5
b = a.T[:2].ravel(); b[0] = 5
b = np.real(a); b[0] = 5
np.copyto(a[0], 5.0)
np.put(a[1], [0, 2], [7.0, 8.0])
np.place(a[1], [True, False, True, False], [7.0])
np.putmask(a[1], [True, False, True, False], [7.0])
np.put_along_axis(a[1:], np.array([[1], [2]]), 0.0, 1)
np.fill_diagonal(a[:, 1:], 0.0)
np.add.at(a[1], [0, 0], 1.0)
np.maximum.at(a[1], [0, 0], 100.0)
a[0][1] = 5; a[1][2] += 3
a[1:][0][1] += 3
a[0].fill(3)
b = a[:]; b[:, 0] = a[:, 1]
a[:, 1:] = a[:, :-1]
a[1:] += a[:-1]
a[1:-1] *= a[2:]
b = a[::2, ::2]; d = a[1::2]; b[:] = 0; d[:] = 1
b = (a * 2)[1:]; d = b[0]; d += 1
t = a * 2; v = t[:2]; w = t[1:]; del t; v *= 10
t = a * 2; v = t[:1]; w = t[1:]; del t; v *= 10; w[0] = 1
t = a * 2; v = t.T; w = t[1]; x = v[2:]; del t, v; w *= 10; x[0] = 1
b = a.T; b = b.T; b = b.T; b[0] = 0
v = a[1]; a[...] = 0
v = a[1]; a += v
v = a[1]; v += a[0]; v *= v
v = a[1]; v @= np.eye(4) * 2
w = a.reshape(2, 6, copy=False); w[0] = 1
w = a.reshape(2, 6, copy=True); w[0] = 1
w = a.reshape(2, 6, order="F"); w[0] = 1
w = a.ravel("F"); w[0] = 1
w = a.T.ravel("F"); w[0] = 1
w = a[:, :2].ravel(); w[0] = 1
w = a[1:].ravel(); w[0] = 1
v = a[1:1]; v += 1
v = a[0]; v[[0, 1]] = 9.0; v[v > 5] = 0.0
v = a[:, 1]; a[[0, 2], 1] = 9.0
c.real[0] = 5
c.imag = 3
c.real = a * 2; r = c.real; c[0] = 1j
b = c.imag[1:]; b[:] = 7
""".strip().splitlines()


def results_of(program, module, **arrays):
    """What all names stand for after the program: arrays as NumPy's."""
    scope = {"np": module, **arrays}
    try:
        exec(program if program.startswith("for") else program.replace("; ", "\n"), scope)
    except ValueError as error:
        return str(error)
    found = {}
    for name, value in sorted(scope.items()):
        if name not in ("np", "__builtins__"):
            values = value if isinstance(value, tuple | list) else [value]
            found[name] = [np.array(x) for x in values]
    return found


def assert_as_numpy(program):
    numbers = np.arange(1.0, 13).reshape(3, 4)
    expected = results_of(program, np, a=numbers.copy(), c=numbers.astype(complex))
    own = results_of(program, np, a=ng.tensor(numbers), c=ng.tensor(numbers.astype(complex)))
    assert own.keys() == expected.keys()
    for name in expected:
        for ours, theirs in zip(own[name], expected[name], strict=True):
            np.testing.assert_array_equal(ours, theirs, err_msg=name)


@pytest.mark.parametrize("program", PROGRAMS)
def test_views_are_those_of_numpy(program):
    assert_as_numpy(program)


@pytest.mark.parametrize(
    "program",
    [
        "b = np.ascontiguousarray(a.T); b[0] = 7",
        "b = np.ascontiguousarray(a[:, 1:]); a[0] = 7",
        "b = np.ascontiguousarray(a[1:]); b[0] = 7",
        "b = np.ascontiguousarray(a); b[0] = 7",
    ],
)
def test_what_is_not_contiguous_is_copied(program):
    numbers = np.arange(1.0, 13).reshape(3, 4)
    expected = results_of(program, np, a=numbers.copy())
    own = results_of(program, ng.numpy, a=ng.tensor(numbers))
    for name in ("a", "b"):
        np.testing.assert_array_equal(own[name], expected[name], err_msg=name)


@pytest.mark.parametrize(
    "program", ["d = np.diagonal(a); d[0] = 1", "b = np.broadcast_to(a, (2, 3, 4)); b[0] += 1"]
)
def test_what_numpy_makes_read_only_is_so(program):
    with pytest.raises(ValueError, match="assignment destination is read-only"):
        exec(program.replace("; ", "\n"), {"np": np, "a": ng.ones((3, 4))})


def test_reshape_without_a_copy_is_refused_where_numpy_copies():
    with pytest.raises(ValueError, match="a copy is needed"):
        ng.ones((3, 4)).T.reshape(2, 6, copy=False)


SLICES = st.slices(4) | st.integers(-3, 2) | st.just(slice(None))
STEPS = st.one_of(
    st.tuples(st.just("index"), st.lists(SLICES, min_size=1, max_size=2)),
    st.tuples(st.just("transpose"), st.none()),
    st.tuples(st.just("ravel"), st.none()),
    st.tuples(st.just("reversed"), st.none()),
    st.tuples(st.just("assign"), st.integers(0, 99)),
    st.tuples(st.just("add"), st.integers(0, 99)),
    st.tuples(st.just("drop"), st.none()),
)


def run(steps, array):
    """Views made of views, written to and dropped, as the steps say; what is left at the end."""
    arrays = [array]
    for which, (step, argument) in steps:
        x = arrays[which % len(arrays)]
        if step == "index":
            index = tuple(argument[: x.ndim])
            in_range = all(
                isinstance(k, slice) or -n <= k < n for k, n in zip(index, x.shape, strict=False)
            )
            if index and in_range:
                arrays.append(x[index])
        elif step == "transpose":
            arrays.append(x.T)
        elif step == "ravel":
            arrays.append(x.ravel())
        elif step == "reversed" and x.ndim:
            arrays.append(x[::-1])
        elif step == "assign" and x.ndim:
            x[...] = argument
        elif step == "add" and x.ndim:
            x += np.arange(x.shape[-1]) + argument
        elif step == "drop" and len(arrays) > 1:
            del arrays[which % len(arrays)]
        del x
    return arrays


@given(st.lists(st.tuples(st.integers(0, 5), STEPS), max_size=12))
def test_random_views_are_those_of_numpy(steps):
    numbers = np.arange(12.0).reshape(3, 4)
    expected = run(steps, numbers.copy())
    own = run(steps, ng.tensor(numbers))
    assert len(own) == len(expected)
    for x, y in zip(own, expected, strict=True):
        np.testing.assert_array_equal(x, y)


def ping_pong(x):
    u = x * 1
    inner, first = u[1:-1], u[0]
    for _ in range(3):
        inner += 0.1 * (u[2:] - 2 * inner + u[:-2])
    return np.sum(u * u) + first[0]


@pytest.mark.thorough
@pytest.mark.parametrize("f", [ping_pong])
def test_writes_through_views_are_the_same_in_every_transform(native, f):
    x = np.random.default_rng(0).standard_normal((6, 2))
    plain = ng.grad(f)(x)
    u = ng.tensor(x, requires_grad=True)
    f(u).backward()
    np.testing.assert_allclose(plain, u.grad, rtol=1e-14)
    np.testing.assert_allclose(ng.jit(ng.grad(f))(x), plain, rtol=1e-14)
    both = np.stack([x, 2 * x])
    np.testing.assert_allclose(ng.vmap(ng.grad(f))(both)[1], ng.grad(f)(2 * x), rtol=1e-13)
    step, direction = 1e-6, np.cos(np.arange(12.0)).reshape(6, 2)
    difference = (f(ng.tensor(x + step * direction)) - f(ng.tensor(x - step * direction))).item()
    np.testing.assert_allclose(np.sum(plain * direction), difference / (2 * step), rtol=1e-7)


def test_jit_writes_through_views_of_its_arguments(native):
    def f(a):
        row, column = a[0], a[:, 1]
        row *= 2
        for part in a.T:
            part += 1
        return a, row, column

    a = np.arange(6.0).reshape(2, 3)
    plain = a.copy()
    for own, theirs in zip(ng.jit(f)(a), f(plain), strict=True):
        np.testing.assert_array_equal(own, theirs)
    np.testing.assert_array_equal(a, plain)  # the caller's changes


def test_a_sum_assigned_to_a_view_is_recorded_once():
    x = ng.zeros(8)
    before = x._node
    x[2:4] += 1
    # x[2:4] = x[2:4].__iadd__(1): the second half of that has nothing to do.
    assert x._node.op.name == "update_slice" and x._node.inputs[0] is before


def test_writes_record_nothing_for_views_that_are_gone():
    x = ng.zeros((100, 3))
    for k in range(100):
        row = x[k] + 1
        x[k] = row
    count = 0
    node = x._node
    while node.op.name == "update_slice":
        node, count = node.inputs[0], count + 1
    assert count == 100 and x._view is None


# With `b = x * 1` of three elements: the gradients of b and of its view v, as torch has them.
RETAINED = {
    "v = b[:2]; R(v); R(b); v *= 2; y = b.sum() * 3": ([3, 3, 3], None),
    "v = b[:2]; R(v); R(b); v += 1; y = v.sum()": ([1, 1, 0], [1, 1]),
    "R(b); v = b[:2]; v += 1; R(v); y = b.sum() + v.sum()": ([2, 2, 1], [1, 1]),
    "R(b); v = b[:2]; R(v); b += 1; y = b.sum() + v.sum()": ([2, 2, 1], [1, 1]),
    "v = b[:2]; v += 1; R(b); R(v); y = b.sum() + v.sum()": ([2, 2, 1], [1, 1]),
    "v = b[:2]; w = b[1:]; w *= 2; R(b); R(v); y = v.sum() + 4 * w.sum()": ([1, 5, 4], [1, 1]),
    "R(b); v = b[:2]; b[2] = x[0]; R(v); y = v.sum()": ([1, 1, 0], [1, 1]),
    "v = b[:2]; v += 1; w = v[1:]; R(v); y = v.sum() + w.sum()": (None, [1, 2]),
}


@pytest.mark.parametrize("program", RETAINED)
def test_retained_gradients_of_views_that_are_written_to(program):
    x = ng.tensor([1.0, 2.0, 3.0], requires_grad=True)
    names = {"x": x, "b": x * 1, "R": ng.Tensor.retain_grad}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of gradients that are not retained
        exec(program, names)
        names["y"].backward()
        found = names["b"].grad, names["v"].grad
    assert [None if g is None else g.tolist() for g in found] == list(RETAINED[program])


def test_a_loop_over_rows_that_writes_is_linear():
    x = ng.zeros((300, 2))
    first = recorded_nodes()
    for row in x:
        row += 1
    assert recorded_nodes() - first < 300 * 10
    np.testing.assert_array_equal(x, np.ones((300, 2)))


def test_views_keep_neither_arrays_nor_history_alive():
    x = ng.ones((1000, 2)) + 1
    row = x[0]
    assert row.tolist() == [2, 2]
    node, handle = weakref.ref(x._node), weakref.ref(x)
    del x
    gc.collect()
    assert handle() is None and node() is None
    row += 1
    assert row.tolist() == [3, 3] and row._view is None


@pytest.mark.thorough
def test_long_chains_of_views():
    x = ng.tensor(np.arange(20_001.0))
    rest = x
    for _ in range(20_000):
        rest = rest[1:]
    rest[0] = -1.0
    assert x[-1].item() == -1.0
    del rest


def test_an_array_and_a_view_of_all_of_it_are_two_tensors():
    x = ng.tensor([1.0, 2.0])
    x.grad = ng.tensor([3.0, 4.0])
    view = x.reshape(-1)
    view[...] = [5.0, 6.0]
    assert view.grad is None
    del view
    times = ng.jit(lambda y: y * x)
    for _ in range(3):
        assert times(np.ones(2)).tolist() == x.tolist()
        x *= 2


def test_detach_shares_the_value():
    x = ng.tensor([1.0, 2.0], requires_grad=True)
    y = x * 2
    y.tolist()
    assert y.detach()._node.value is y._node.value
    assert np.shares_memory(y.detach().numpy(), y.detach().numpy())


@pytest.mark.parametrize(
    ("work", "most"),
    [
        (lambda x, v: x.detach(), 4),
        (lambda x, v: x.T, 14),
        (lambda x, v: x.reshape(4, 2), 17),
        (lambda x, v: x[1:-1], 12),
        (lambda x, v: x.__setitem__(slice(1, -1), x[1:-1].__iadd__(v)), 45),
        (lambda x, v: x.__iadd__(x), 11),
    ],
    ids=["detach", "transpose", "reshape", "slice", "add to a slice", "add to all"],
)
def test_recording_views_and_writes_stays_short(work, most, monkeypatch):
    # Who records looks for what other tests have left, and takes notes after a look of theirs.
    monkeypatch.setattr(traced_bodies, "_leaks", {})
    ng.tensor(1.0) + 1.0
    observers.end_notes()
    x, v = ng.tensor(np.ones((4, 2))), ng.tensor(np.ones((2, 2)))
    assert functions_entered(functools.partial(work, x, v)) <= most


def test_views_of_other_elements_are_not_read_again():
    states, rows = ng.zeros((9, 2)), []
    for k in range(8):
        states[k + 1] = states[k] + 1.0
        rows.append(states[k + 1])
    first, last = rows[0]._node, rows[-1]._node
    states[8, 1:] = 5.0
    assert rows[0]._node is first and rows[-1]._node is not last
    states[ng.tensor(np.arange(9) == 1)] = 7.0  # a mask: whoever may show it
    np.testing.assert_array_equal(np.stack(rows)[[0, 1, 7]], [[7, 7], [2, 2], [8, 5]])
