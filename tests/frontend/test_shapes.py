"""Functions that join, split, put in, take out, repeat and rearrange: values and derivatives."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import numba_grad as ng
from numba_grad.config import configure
from numba_grad.testing import check_gradients
from tests.frontend.agreement import check_jit_and_vmap, same

X = np.random.default_rng(4).standard_normal((3, 4))
Y = np.random.default_rng(5).standard_normal((2, 4))
N = np.arange(24).reshape(2, 3, 4)
V = X[0]
quick = settings(max_examples=60)


CALLS = [
    (lambda m, x: m.append(x, Y), X),
    (lambda m, x: m.append(x, Y, axis=0), X),
    (lambda m, x: m.append(x, [[1], [2], [3]], 1), np.int8(N[0])),
    (lambda m, x: m.insert(x, 1, 7.5), X),
    (lambda m, x: m.insert(x, 1, 7.5, axis=1), np.int64(N[0])),
    (lambda m, x: m.insert(x, -1, [1, 2, 3], axis=1), X),
    (lambda m, x: m.insert(x, 4, [[1], [2], [3]], axis=1), X),
    (lambda m, x: m.insert(x, [1], [[1], [2], [3]], axis=1), X),
    (lambda m, x: m.insert(x, [1, 1, 3], [[1, 2, 3]] * 3, axis=1), X),
    (lambda m, x: m.insert(x, [3, -1, 0], [5, 6, 7]), V),
    (lambda m, x: m.insert(x, slice(0, 4, 2), -1, axis=1), X),
    (lambda m, x: m.insert(x, np.array([True, False, True]), Y, axis=0), X),
    (lambda m, x: m.insert(x, [], [], axis=0), V),
    (lambda m, x: m.insert(x, 1, N[:, 0, :2], axis=1), N[:, :, :2]),
    (lambda m, x: m.insert(x, [3, 0, 1, 1, 3, 2, -1, 0, 3, 1], range(10)), V),
    (lambda m, x: m.reshape(x, (4, -1), order="F"), N),
    (lambda m, x: m.reshape(x, (2, 12), copy=True), N),
    (lambda m, x: m.ravel(x, order="F"), N),
    (lambda m, x: m.diff(x, prepend=0), V),
    (lambda m, x: m.diff(x, 2, 0, Y, 1.5), X),
    (lambda m, x: m.diff(x, append=[[True]] * 3), X > 0),
    (lambda m, x: m.diff(x, 0, append=1), V),
    (lambda m, x: m.delete(x, 1), X),
    (lambda m, x: m.delete(x, -1, axis=0), X),
    (lambda m, x: m.delete(x, [0, 2, 2, -1], axis=1), X),
    (lambda m, x: m.delete(x, slice(None, None, -2), axis=1), X),
    (lambda m, x: m.delete(x, slice(1, 3), axis=1), X),
    (lambda m, x: m.delete(x, np.array([True, False, True, False]), axis=1), X),
    (lambda m, x: m.delete(x, [], 0), X),
    (lambda m, x: m.delete(x, [0, 1, 2], 0), X),
    (lambda m, x: m.delete(x, range(0, 24, 2)), N),
    (lambda m, x: m.block(x), X),
    (lambda m, x: m.block([x, 2 * x]), V),
    (lambda m, x: m.block([[x, x[:, :1]], [Y, np.ones((2, 1))]]), X),
    (lambda m, x: m.block([[x], [1 * x[0]]]), X),
    (lambda m, x: m.block([[[x]], [[x + 1]]]), N),
    (lambda m, x: m.block([1, x, np.float32(3)]), np.float32(V)),
    (lambda m, x: m.trim_zeros(x), np.array([0, 0, 3.0, 0, 4.0, 0])),
    (lambda m, x: m.trim_zeros(x, "f"), np.array([0, 0, 3.0, 0, 4.0, 0])),
    (lambda m, x: m.trim_zeros(x, trim="b"), np.array([0, 0, 3, 0, 4, 0])),
    (lambda m, x: m.trim_zeros(x), np.zeros(3)),
    (lambda m, x: m.trim_zeros(x), np.pad(X, ((1, 2), (0, 1)))),
    (lambda m, x: m.trim_zeros(x, axis=1), np.pad(X, 1)),
    (lambda m, x: m.diagflat(x, -1), Y),
    (lambda m, x: m.atleast_2d(x, 3, N), V),
    (lambda m, x: m.atleast_1d(x, 3.0), V),
    (lambda m, x: m.atleast_3d(x, X, N), V),
    (lambda m, x: m.shape(x), N),
    (lambda m, x: m.ndim(x), N),
    (lambda m, x: m.size(x), N),
    (lambda m, x: m.size(x, 1), N),
    (lambda m, x: m.size(x, (0, -1)), N),
    (lambda m, x: m.apply_along_axis(lambda r: r[::-1] * r[0], 1, x), N),
    (lambda m, x: m.apply_along_axis(lambda r: r.sum(), 0, x), X),
    (lambda m, x: m.apply_along_axis(lambda r, s: m.outer(r, r) * s, 1, x, 2), N),
    (lambda m, x: m.apply_over_axes(m.sum, x, [0, -1]), N),
    (lambda m, x: m.apply_over_axes(m.max, x, 1), X),
    (lambda m, x: m.meshgrid(x, [1, 2], sparse=True), V),
    (lambda m, x: m.meshgrid(x, [1, 2], indexing="ij", copy=False), V),
    (lambda m, x: m.roll(x, (1, 2, 1), axis=(0, 1, 0)), X),
    (lambda m, x: m.roll(x, 2, axis=(0, 1)), X),
    (lambda m, x: m.repeat(x, [2, 0, 1], axis=0), X),
    (lambda m, x: m.repeat(x, x), np.array([1, 2, 0])),
    (lambda m, x: m.tile(x, (2, 1, 0)), X),
    (lambda m, x: m.expand_dims(x, (0, 2, -1)), X),
    (lambda m, x: m.rot90(x, 3, (1, 2)), N),
    (lambda m, x: m.moveaxis(x, [-1, 0], [0, -1]), N),
    (lambda m, x: m.array_split(x, 3, axis=1), X),
    (lambda m, x: m.split(x, [2, 7, 1], axis=1), X),
    (lambda m, x: m.split(x, 2, -1), X),
    (lambda m, x: m.column_stack((x, Y.T)), V),
    (lambda m, x: m.unstack(x, axis=-1), N),
]


@pytest.mark.usefixtures("numpy_engine")
@pytest.mark.parametrize("number", range(len(CALLS)))
def test_functions_of_arrays_are_those_of_numpy(number):
    call, x = CALLS[number]
    expected = call(np, x)
    same(call(ng, ng.tensor(x)), expected)
    same(call(np, ng.tensor(x)), expected)


def test_broadcast_shapes():
    for shapes in (((3, 1), (4,)), ((2, 0, 1), (1, 5)), (3, (1,)), ()):
        assert ng.broadcast_shapes(*shapes) == np.broadcast_shapes(*shapes)


@st.composite
def places(draw):
    """An array, an axis, and what names some of its places."""
    shape = draw(hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=6))
    x = np.arange(np.prod(shape)).reshape(shape)
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    size = shape[axis]
    kind = draw(st.sampled_from(["integer", "integers", "slice", "mask", "tensor"]))
    if kind == "integer":
        return x, axis, draw(st.integers(-size, size - 1))
    if kind == "slice":
        return x, axis, draw(st.slices(size))
    if kind == "mask":
        return x, axis, draw(hnp.arrays(bool, size))
    integers = draw(st.lists(st.integers(-size, size - 1), max_size=8))
    return x, axis, ng.tensor(np.array(integers, int)) if kind == "tensor" else integers


@quick
@given(places())
def test_delete_takes_out_what_insert_puts_in(case):
    x, axis, obj = case
    plain = obj.numpy() if isinstance(obj, ng.Tensor) else obj
    with configure(engine="reference"):
        same(ng.delete(ng.tensor(x), obj, axis), np.delete(x, plain, axis))
        same(ng.insert(ng.tensor(x), obj, -1, axis), np.insert(x, plain, -1, axis))


DIFFERENTIABLE = {
    "append": (lambda x, y: ng.append(x, y, 0), X, Y),
    "insert": (lambda x, y: ng.insert(x, [0, 2], y, 0), X, Y),
    "insert at one place": (lambda x, y: ng.insert(x, 1, y[0] ** 2, 0), X, Y),
    "insert many": (lambda x, y: ng.insert(x, [0, 2] * 5, y[0, 0] ** 2, 0), X, Y),
    "columns first": (lambda x: ng.reshape(x, (2, 6), order="F") * ng.ravel(x, "F")[:6], X),
    "diff": (lambda x, y: ng.diff(x, 2, 0, y, y[:1]), X, Y),
    "delete": (lambda x: ng.delete(x, [0, 2], 1), X),
    "delete many": (lambda x: ng.delete(ng.tile(x, 3), slice(None, None, 2)), X),
    "block": (lambda x, y: ng.block([[x, x[:, :1]], [y, y[:, 1:2]]]), X, Y),
    "trim_zeros": (lambda x: ng.trim_zeros(x * (X > 0), axis=1), X),
    "diagflat": (lambda x: ng.diagflat(x, 1), Y),
    "apply_along_axis": (lambda x: ng.apply_along_axis(lambda r: r * r.sum(), 0, x), X),
    "apply_over_axes": (lambda x: ng.apply_over_axes(ng.sum, x**2, [0, 1]), X),
    "repeat": (lambda x: ng.repeat(x, [2, 0, 1], 0), X),
    "roll": (lambda x: ng.roll(x, (1, 2), (0, 1)), X),
}


@pytest.mark.thorough(every=4)
@pytest.mark.usefixtures("numpy_engine")
@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_derivatives_to_second_order(name):
    f, *arrays = DIFFERENTIABLE[name]
    check_gradients(lambda *args: f(*args) ** 2, *arrays, elements=6)


@pytest.mark.thorough(every=4)
@pytest.mark.parametrize("name", sorted(set(DIFFERENTIABLE) - {"trim_zeros"}))
def test_jit_and_vmap(name):
    check_jit_and_vmap(*DIFFERENTIABLE[name])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: ng.insert(x, 5, 0, 1), IndexError, "insert: index 5 (.|\n)*axis 1 with size 4"),
        (lambda x: ng.insert(x, 0.5, 0), IndexError, "insert: not places along an axis"),
        (lambda x: ng.insert(x, 0, [1, 2], 1), ValueError, "does not broadcast"),
        (lambda x: ng.delete(x, 3, 0), IndexError, "delete: index 3 (.|\n)*axis 0 with size 3"),
        (lambda x: ng.delete(x, [True], 0), ValueError, "delete: the mask does not have the size"),
        (lambda x: ng.append(x, [1, 2], 0), ValueError, "concatenate: shapes differ"),
        (lambda x: ng.block([[x], x]), ValueError, r"block: lists are not nested(.|\n)*depth 1"),
        (lambda x: ng.block([[]]), ValueError, "block: an empty list"),
        (lambda x: ng.block((x, x)), TypeError, "block: a tuple"),
        (lambda x: ng.trim_zeros(x, "x"), ValueError, "trim='x'"),
        (lambda x: ng.jit(ng.trim_zeros)(x), ng.errors.TracingError, "trim_zeros: needs the value"),
        (lambda x: ng.broadcast_shapes((2,), (3,)), ValueError, "shape 1 : float64"),
        (lambda x: ng.apply_along_axis(lambda r: float(r[0]), 0, x), TypeError, "traced"),
        (lambda x: ng.apply_along_axis(ng.sum, 0, x[:, :0]), ValueError, "no rows to apply"),
        (
            lambda x: ng.apply_over_axes(lambda x, axis: x[0, 0], x, 0),
            ValueError,
            "does not reduce an axis",
        ),
        (lambda x: ng.concatenate([x, x[0]]), ValueError, "concatenate: shapes differ"),
        (lambda x: ng.stack([x, x[0]]), ValueError, "stack: different shapes"),
        (lambda x: ng.split(x, 3, 1), ValueError, r"try: array_split\(x, 3\)"),
        (lambda x: ng.squeeze(x, 0), ValueError, "squeeze: an axis whose size is not 1"),
        (lambda x: ng.repeat(x, [1, 2], 0), ValueError, "repeat: numbers of repetitions"),
        (lambda x: ng.moveaxis(x, [0, 1], [0]), ValueError, "different numbers of axes"),
    ],
)
def test_what_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call(ng.tensor(X))
