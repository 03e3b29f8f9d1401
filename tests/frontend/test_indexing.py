"""Indices of every form, and NumPy's functions about them: values, writes, and derivatives."""

import functools
import warnings

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import numba_grad as ng
from numba_grad.config import configure
from numba_grad.errors import TracingError
from numba_grad.testing import check_gradients
from tests.frontend import agreement
from tests.frontend.agreement import check_jit_and_vmap

RNG = np.random.default_rng(3)
X = RNG.standard_normal((3, 4, 2))
M = RNG.standard_normal((4, 5))
V = RNG.standard_normal(5)
ORDER = RNG.integers(-4, 4, (2, 5))
MASK = M > 0
quick = settings(max_examples=80)


same = functools.partial(agreement.same, tolerance=1e-14)


# Indices, with the derivative that NumPy's own add.at gives


KINDS = ["integer", "slice", "array", "list", "tensor", "mask", "None"]


@st.composite
def entries(draw, shape, common):
    """Integers, slices, None, index arrays (as arrays, lists or tensors) and masks, mixed."""
    result = []
    axis = 0
    while axis < len(shape):
        size = shape[axis]
        kind = draw(
            st.sampled_from(["integer", "slice", "array", "list", "tensor", "mask", "None"])
        )
        if kind == "None":
            result.append(None)
            continue
        axis += 1
        if kind == "integer":
            result.append(draw(st.integers(-size, size - 1)))
        elif kind == "slice":
            result.append(draw(st.slices(size)))
        elif kind == "mask":
            rank = draw(st.integers(0, 2))
            axis += rank - 1
            if axis > len(shape):
                reject()
            mask = draw(hnp.arrays(bool, shape[axis - rank : axis]))
            result.append(bool(mask) if rank == 0 else mask)
        else:
            own = tuple(draw(st.sampled_from((1, n))) for n in common)
            array = draw(hnp.arrays(np.int64, own, elements=st.integers(-size, size - 1)))
            result.append(array.tolist() if kind == "list" else array)
            if kind == "tensor":
                result[-1] = ng.tensor(array)
    if draw(st.booleans()):
        cut = draw(st.integers(0, len(result)))
        result[cut:] = [..., *result[cut:]] if draw(st.booleans()) else [...]
    return tuple(result)


@st.composite
def indexed(draw):
    """A shape, an index, and the same index as NumPy takes it."""
    shape = draw(hnp.array_shapes(min_dims=1, max_dims=3, max_side=3))
    common = draw(hnp.array_shapes(min_dims=1, max_dims=2, max_side=3))
    index = draw(entries(shape, common))
    plain = tuple(e.numpy() if isinstance(e, ng.Tensor) else e for e in index)
    try:
        np.empty(shape)[plain]
    except IndexError:
        with pytest.raises(IndexError):
            _ = ng.ones(shape)[index]
        reject()
    return shape, index, plain


def gradients(f, *arrays):
    tensors = [ng.tensor(x, requires_grad=True) for x in arrays]
    with configure(engine="reference"):
        return [np.array(g) for g in ng.autograd.grad(f(*tensors), tensors)]


@quick
@given(indexed())
def test_reading_and_its_derivative(case):
    shape, index, plain = case
    x = np.arange(1.0, 1 + np.prod(shape)).reshape(shape)
    expected = x[plain]
    with configure(engine="reference"):
        same(ng.tensor(x)[index], expected)
    weights = np.arange(1.0, 1 + expected.size).reshape(expected.shape)
    (first,) = gradients(lambda x: (x[index] * weights).sum(), x)
    adjoint = np.zeros(shape)
    np.add.at(adjoint, plain, weights)
    np.testing.assert_array_equal(first, adjoint)

    def squared_norm_of_gradient(x):
        (g,) = ng.autograd.grad((x[index] ** 2 * weights).sum(), x, create_graph=True)
        return (g * g).sum() / 8

    # The gradient is 2 x times the adjoint, element by element.
    (second,) = gradients(squared_norm_of_gradient, x)
    np.testing.assert_allclose(second, x * adjoint**2, rtol=1e-14)


@quick
@given(indexed(), st.data())
def test_assignment_and_its_derivative(case, data):
    shape, index, plain = case
    x = np.arange(1.0, 1 + np.prod(shape)).reshape(shape)
    part = x[plain].shape
    own = tuple(data.draw(st.sampled_from((1, n))) for n in part[data.draw(st.integers(0, 3)) :])
    v = -np.arange(1.0, 1 + np.prod(own)).reshape(own)

    def assigned(x, v):
        y = x * 1
        y[index] = v
        return y

    expected = x.copy()
    expected[plain] = v
    with configure(engine="reference"):
        same(assigned(ng.tensor(x), v), expected)
    weights = np.arange(2.0, 2 + x.size).reshape(shape)
    of_x, of_v = gradients(lambda x, v: (assigned(x, v) * weights).sum(), x, v)
    # What NumPy leaves of each: an element of v counts where its own number stayed.
    numbers = np.zeros(shape, int)
    numbers[plain] = np.broadcast_to(np.arange(1, 1 + v.size).reshape(own), part)
    np.testing.assert_array_equal(of_x, np.where(numbers == 0, weights, 0))
    stayed = [weights[numbers == k].sum() for k in range(1, 1 + v.size)]
    np.testing.assert_array_equal(of_v, np.reshape(stayed, own))


@quick
@given(indexed(), st.sampled_from(["+=", "-=", "*=", "/=", "**="]))
def test_operators_in_place_give_numpys_result_for_duplicates(case, operator):
    shape, index, plain = case
    x = np.arange(1.0, 1 + np.prod(shape)).reshape(shape)
    v = np.arange(1.0, 1 + x[plain].size).reshape(x[plain].shape) / 4
    expected, ours = x.copy(), ng.tensor(x)
    with configure(engine="reference"):
        for array, at in ((expected, plain), (ours, index)):
            exec(f"array[at] {operator} v", {"array": array, "at": at, "v": v})
        same(ours, expected)


INDICES = {
    "an integer": 1,
    "slices": (slice(None, None, -2), slice(1, 3)),
    "duplicates": ([0, 2, 0, 0],),
    "arrays apart": ([0, 1, 1], slice(None), [1, 0, 0]),
    "arrays that broadcast": ([[0], [2]], [1, -1, 1]),
    "a mask": X > 0.2,
    "a mask of the first axes": X[..., 0] > 0,
    "a mask and an integer": (slice(None), X[0, :, 0] > 0, 1),
    "an array, None and ...": ([1, 1, 0], None, ..., 0),
    "no dimension": (True, 1),
}


@pytest.mark.thorough(every=12)
@pytest.mark.usefixtures("numpy_engine")
@pytest.mark.parametrize("name", INDICES)
def test_derivatives_to_second_order(name):
    index = INDICES[name]
    check_gradients(lambda x: x[index] ** 3, X)
    v = RNG.standard_normal(X[index].shape)

    def written(x, v):
        y = x * x
        y[index] = v * v
        y[index] *= y[index] + x[0, 0, 0]
        return y**2

    check_gradients(written, X, v)


@pytest.mark.thorough(every=3)
@pytest.mark.parametrize("name", INDICES)
def test_gradients_are_those_of_torch(name):
    torch = pytest.importorskip("torch")
    index = INDICES[name]
    entries = index if isinstance(index, tuple) else (index,)
    if any(isinstance(e, slice) and (e.step or 1) < 0 for e in entries):
        pytest.skip("torch has no negative steps")
    theirs_index = tuple(
        torch.as_tensor(np.asarray(e)) if isinstance(e, list | np.ndarray) else e for e in entries
    )
    weights = RNG.standard_normal(X[index].shape)
    ours, theirs = ng.tensor(X, requires_grad=True), torch.tensor(X, requires_grad=True)
    (ours[index] ** 2 * weights).sum().backward()
    (theirs[theirs_index] ** 2 * torch.tensor(weights)).sum().backward()
    np.testing.assert_allclose(ours.grad, theirs.grad, rtol=1e-14)


@pytest.mark.parametrize("shape", [(0, 3), (2, 0), (0, 0), (0,)])
def test_masks_without_elements_choose_nothing(shape):
    a, mask = np.arange(6.0).reshape(2, 3), np.zeros(shape, bool)
    x = ng.tensor(a)
    assert x[mask].shape == x[ng.tensor(mask)].shape == a[mask].shape
    x[mask] = 7.0
    np.testing.assert_array_equal(x, a)
    assert ng.jit(lambda x, mask: x[mask])(x, mask).shape == a[mask].shape
    assert [k.shape for k in ng.jit(np.nonzero)(mask)] == [(0,)] * mask.ndim
    for wrong in ((0, 2), (2, 3, 0), (1, 0)):
        with pytest.raises(IndexError):
            x[np.zeros(wrong, bool)]


def test_masks_and_indices_that_are_tensors():
    x, mask = ng.tensor(X, requires_grad=True), ng.tensor(X > 0)
    same(x[mask], X[X > 0])
    same(x[x > 0], X[X > 0])
    same(x[ng.argmax(ng.tensor(X[:, 0, 0]))], X[np.argmax(X[:, 0, 0])])
    (x[mask] ** 2).sum().backward()
    np.testing.assert_array_equal(x.grad, np.where(X > 0, 2 * X, 0))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: x[3], "index 3 is out of bounds for axis 0 with size 3"),
        (lambda x: x[0, -5], "index -5 is out of bounds for axis 1 with size 4"),
        (lambda x: x[..., [0, 2]], "index 2 is out of bounds for axis 2 with size 2"),
        (lambda x: x[:, ng.tensor([1, 9])].numpy(), "index 9 is out of bounds for axis 1"),
        (lambda x: x[0, 0, 0, 0], "too many indices\n  shape .*: .3, 4, 2."),
        (lambda x: x[[0, 1], [0, 1, 2]], r"index of axis 0 : \(2,\)\n  index of axis 1 : \(3,\)"),
        (lambda x: x[[True, False]], r"mask +: \(2,\)(.|\n)*shape \(3,\)"),
        (lambda x: x[1.0], r"not an index(.|\n)*index\.astype\(int\)"),
        (lambda x: x["a"], "not an index"),
        (lambda x: ng.take(x, [4], 1), "index 4 is out of bounds for axis 1 with size 4"),
        (lambda x: ng.take_along_axis(x, np.full((3, 1, 2), 7), 1), "axis 1 with size 4"),
        (lambda x: ng.put(x, [24], 1), "index 24 is out of bounds for axis 0 with size 24"),
        (lambda x: ng.put_along_axis(x, np.full((3, 1, 2), -5), 0, 1), "index -5 is out of bounds"),
        (lambda x: ng.compress([0, 0, 1], x, 2), "index 2 is out of bounds for axis 2 with size 2"),
    ],
)
def test_an_index_out_of_range_is_named(call, message):
    with pytest.raises(IndexError, match=message):
        call(ng.tensor(X) * 1)


def test_a_value_that_does_not_fit_is_named():
    x = ng.tensor(X) * 1
    with pytest.raises(ValueError, match=r"x\[index\] : \(2, 4, 2\)\n  v +: float64\[3, 2\]"):
        x[1:] = np.ones((3, 2))


# Functions about indices

N = np.array([[3, 0, 0], [0, 4, 5]])
CALLS = [
    (lambda m, x: m.argwhere(x), N),
    (lambda m, x: m.argwhere(x), np.float64(3)),
    (lambda m, x: m.flatnonzero(x), N),
    (lambda m, x: m.nonzero(x), N),
    (lambda m, x: m.where(x), N > 3),
    (lambda m, x: m.extract(x > 0, x), M),
    (lambda m, x: m.compress([0, 1, 1], x, axis=1), M),
    (lambda m, x: m.compress([False, True, True], x), M),
    (lambda m, x: m.compress(x[:, 0] > 0, x, 0), M),
    (lambda m, i: m.choose(i, [[0, 1, 2, 3], [10, 11, 12, 13]]), np.array([1, 0, 0, 1])),
    (lambda m, i: m.choose(i, (1.5, 2, 3)), np.array([[1, 0], [2, 1]])),
    (lambda m, i: m.choose(i, (1, 2, 3), mode="wrap"), np.array([-1, 5, 0])),
    (lambda m, i: m.choose(i, [M[0], M[1], 7.0], mode="clip"), np.array([[-1], [5], [1]])),
    (lambda m, i: m.choose(i, M), np.array([3, 0, 1, 1, 2])),
    (lambda m, b: m.choose(b, [M, -M]), MASK),
    (lambda m, x: m.select([x > 1, x > 0], [x, x**2], 7.0), M),
    (lambda m, x: m.select([x > 1, x[0] > 0], [1, 2]), M),
    (lambda m, x: m.select([x > 1], [np.float32(1)], 2.0), np.float32(M)),
    (lambda m, x: m.piecewise(x, [x < 0, x >= 0], [-1, 1]), M),
    (lambda m, x: m.piecewise(x, [x < 0, x >= 0], [-1, 1]), M[:0]),
    (lambda m, x: m.piecewise(x, [x < 0, x > 1], [lambda a: -a, lambda a: a + a.sum(), 3]), M),
    (lambda m, x: m.piecewise(x, x < 0, [lambda a, p: p * a], 2.0), V),
    (lambda m, x: m.piecewise(x, [x < 0], [lambda a, p=0: a + p, 0.5], p=3), np.float64(-2)),
    (lambda m, x: m.take(x, [[0, 1], [2, -1]], axis=0), M),
    (lambda m, x: m.take(x, 7), M),
    (lambda m, x: m.take(x, [True, False, True]), M),
    (lambda m, x: m.take(x, x > 0), V),
    (lambda m, x: m.take(x, True, axis=0), M),
    (lambda m, x: x[np.ma.array([1, 0])], M),
    (lambda m, x: x[:, np.ma.array([2, 0], mask=[True, False])], M),
    (lambda m, x: m.take(x, [9, -9], 1, mode="clip"), M),
    (lambda m, x: m.take(x, [9, -9], 1, mode="wrap"), M),
    (lambda m, x: m.take_along_axis(x, ORDER, axis=0), M),
    (lambda m, x: m.take_along_axis(x, ORDER.ravel(), axis=None), M),
    (lambda m, i: m.unravel_index(i, (3, 4, 5)), np.array([[0, 59], [31, 7]])),
    (lambda m, i: m.unravel_index(i, (3, 4, 5), order="F"), np.array([0, 59, 31])),
    (lambda m, i: m.unravel_index(i, 7), np.int64(6)),
    (lambda m, i: m.ravel_multi_index((i, [[1], [3]]), (4, 5)), np.array([0, 3])),
    (lambda m, i: m.ravel_multi_index((i, i), (4, 5), mode="wrap"), np.array([-1, 9])),
    (lambda m, i: m.ravel_multi_index((i, i), (4, 5), ("clip", "wrap"), "F"), np.array([-1, 9])),
    (lambda m, x: m.ix_(x, [0, 2, 1], [True, False, True]), np.array([1, 0])),
    (lambda m, x: m.tril_indices_from(x, 1), M),
    (lambda m, x: m.triu_indices_from(x, -1), M),
    (lambda m, x: m.diag_indices_from(x), M[:, :4]),
    (lambda m, x: m.resize(x, (3, 7)), M),
    (lambda m, x: m.resize(x, 3), M),
    (lambda m, x: m.resize(x, (2, 2)), M[:0]),
]


@pytest.mark.usefixtures("numpy_engine")
@pytest.mark.parametrize("number", range(len(CALLS)))
def test_functions_of_indices_are_those_of_numpy(number):
    call, x = CALLS[number]
    expected = call(np, x)
    same(call(ng, ng.tensor(x)), expected)
    same(call(np, ng.tensor(x)), expected)


def test_index_arrays_and_grids_are_those_of_numpy():
    for make in (
        lambda m: m.tril_indices(3, 1, 4),
        lambda m: m.triu_indices(4),
        lambda m: m.diag_indices(3, 3),
        lambda m: m.mask_indices(3, m.triu, 1),
        lambda m: m.indices((2, 3)),
        lambda m: m.indices((2, 3), dtype=np.float32),
        lambda m: m.indices((2, 0, 3), sparse=True),
        lambda m: m.indices(()),
        lambda m: m.mgrid[0:3, 1:2:4j],
        lambda m: m.ogrid[0:3, 1:2:4j],
        lambda m: m.mgrid[1:5:2],
    ):
        same(make(ng), make(np))


DIFFERENTIABLE = {
    "compress": (lambda x: ng.compress([0, 1, 1], x, 1) ** 2, M),
    "extract": (lambda x: ng.extract(MASK, x) ** 2, M),
    "choose": (lambda x, v: ng.choose(ORDER % 3, [x[0], v, x[1] * v]) ** 2, M, V),
    "select": (lambda x, v: ng.select([MASK, M > -0.5], [x * v, v**3], x**2), M, V),
    "piecewise": (lambda x, v: ng.piecewise(x, [MASK], [lambda a: a**3 * v[0], 2.0]), M, V),
    "take, wrapped": (lambda x: ng.take(x, [7, -9, 1], 0, mode="wrap") ** 2, M),
    "take_along_axis": (lambda x: ng.take_along_axis(x, ORDER, 0) ** 2, M),
    "resize": (lambda x: ng.resize(x, (5, 9)) ** 2, M),
    "put": (lambda x, v: written(ng.put, x, [0, -1, 3, 0, 3, 7, 8], v), M, V),
    "put_along_axis": (lambda x, v: written(ng.put_along_axis, x, ORDER, v, 0), M, V),
    "place": (lambda x, v: written(ng.place, x, MASK, v[:3]), M, V),
    "putmask": (lambda x, v: written(ng.putmask, x, MASK, v[:3]), M, V),
    "copyto": (lambda x, v: written(ng.copyto, x, v, where=MASK), M, V),
    "fill_diagonal": (lambda x, v: written(ng.fill_diagonal, x, v[:3]), M, V),
}


def written(function, x, *args, **kwargs):
    y = x * x
    function(y, *args, **kwargs)
    return y**2


@pytest.mark.thorough(every=6)
@pytest.mark.usefixtures("numpy_engine")
@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_derivatives_of_functions(name):
    check_gradients(*DIFFERENTIABLE[name])


@pytest.mark.thorough(every=4)
@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_jit_and_vmap(name):
    check_jit_and_vmap(*DIFFERENTIABLE[name])


WRITES = [
    (lambda m, x: m.put(x, [0, 4, -1], [10, 20])),
    (lambda m, x: m.put(x, [[0, 0], [0, 3]], [10, 20, 30, 40])),
    (lambda m, x: m.put(x, [25, -27], 7, mode="wrap")),
    (lambda m, x: m.put(x, [25, -27], 7, mode="clip")),
    (lambda m, x: m.put(x, [], 7)),
    (lambda m, x: m.put(x, [True, False, True], 7)),
    (lambda m, x: m.put(x, True, 7)),
    (lambda m, x: m.put(x, 3, [])),
    (lambda m, x: m.put_along_axis(x, ORDER[:, :1], 7, axis=0)),
    (lambda m, x: m.put_along_axis(x, ORDER, V, axis=0)),
    (lambda m, x: m.put_along_axis(x, np.array([1, 7, 1]), np.array([4.0, 5, 6]), axis=None)),
    (lambda m, x: m.place(x, MASK, [1, 2, 3])),
    (lambda m, x: m.place(x, x > 5, [])),
    (lambda m, x: m.place(x, MASK.ravel(), 8)),
    (lambda m, x: m.putmask(x, MASK, [1, 2, 3])),
    (lambda m, x: m.putmask(x, MASK, V)),
    (lambda m, x: m.putmask(x, x > 0, x**2)),
    (lambda m, x: m.copyto(x, V)),
    (lambda m, x: m.copyto(x, 3, where=MASK)),
    (lambda m, x: m.copyto(x, np.int8(3), where=V > 0)),
    (lambda m, x: m.fill_diagonal(x, 7)),
    (lambda m, x: m.fill_diagonal(x, [7, 8])),
]


@pytest.mark.usefixtures("numpy_engine")
@pytest.mark.parametrize("number", range(len(WRITES)))
def test_functions_that_write_do_so_as_numpys(number):
    expected = M.copy()
    WRITES[number](np, expected)
    for module in (ng, np):
        ours = ng.tensor(M)
        before = ours * 1
        WRITES[number](module, ours)
        same(ours, expected)
        same(before, M)


def test_fill_diagonal_of_tall_wide_and_thick_arrays():
    for shape in ((7, 2), (2, 7), (3, 3, 3), (1, 4), (0, 3), (4, 0)):
        for wrap in (False, True):
            for values in (5.0, [1.0, 2.0, 3.0]):
                expected, ours = np.zeros(shape), ng.zeros(shape)
                np.fill_diagonal(expected, values, wrap)
                ng.fill_diagonal(ours, values, wrap)
                same(ours, expected)


def test_scattered_writes_have_the_gradients_of_torch():
    torch = pytest.importorskip("torch")
    order = np.argsort(M, 0)
    x, v = (ng.tensor(a, requires_grad=True) for a in (M, M**2))
    y = x * 2
    ng.put_along_axis(y, order[:2], v[:2] ** 2, 0)
    (y**3).sum().backward()
    a, b = (torch.tensor(a, requires_grad=True) for a in (M, M**2))
    z = (a * 2).scatter(0, torch.tensor(order[:2]), b[:2] ** 2)
    (z**3).sum().backward()
    np.testing.assert_allclose(x.grad, a.grad, rtol=1e-13)
    np.testing.assert_allclose(v.grad, b.grad, rtol=1e-13)


def test_what_is_not_chosen_is_not_differentiated():
    x = ng.tensor([-1.0, 0.0, 4.0], requires_grad=True)
    p = ng.tensor(2.0, requires_grad=True)

    def f(x, p):
        return ng.piecewise(x, [x > 0], [lambda a: np.sqrt(a * p), 1.0]).sum()

    for function in (f, ng.jit(f)):
        of_x, of_p = ng.autograd.grad(function(x, p), (x, p))
        np.testing.assert_allclose(of_x, [0, 0, 0.5 / np.sqrt(2)])
        np.testing.assert_allclose(of_p, 1 / np.sqrt(2))
    (g,) = ng.autograd.grad(ng.select([x > 0], [x * 3], x**2).sum(), x)
    np.testing.assert_array_equal(g, [-2, 0, 3])


def test_functions_of_pieces_get_selected_elements_while_traced():
    def f(x, p):
        part = [lambda a: np.log(a * p) * a, lambda a: a - np.mean(a), lambda a: 0 * a]
        return np.sum(np.piecewise(x, [x > 1, x < 0], part) ** 2)

    x, p = np.array([-1.0, 0.5, 4.0, -3.0, 2.0]), np.float64(2.0)
    traced = ng.jit(ng.value_and_grad(f, argnums=(0, 1)))
    # Nobody looks for an element that stands in for others.
    assert "argmax" not in str(traced.lower(x, p).graph)
    np.testing.assert_allclose(traced(x, p)[0], f(x, p), rtol=1e-14)
    for found, expected in zip(traced(x, p)[1], ng.grad(f, argnums=(0, 1))(x, p), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-13)

    def sorted_pieces(x):  # which needs to know how many there are
        return ng.piecewise(x, [x > 1], [lambda a: a.reshape(-1) * 2, lambda a: -a])

    np.testing.assert_array_equal(ng.jit(sorted_pieces)(x), [1, -0.5, 8, 3, 4])


@pytest.mark.thorough(but="False")
@pytest.mark.parametrize("transposed", [False, True])
def test_additions_at_the_nodes_of_a_mesh_are_slices(transposed):
    first = np.arange(40)
    nodes = np.stack([first, first + 1], axis=0 if transposed else 1)
    others = np.stack([first, first[::-1]], axis=0 if transposed else 1)

    def f(v, nodes):
        y = ng.zeros((41, 2))
        np.add.at(y, nodes, v)
        return y

    v = np.random.default_rng(3).random((*nodes.shape, 2))
    for index, name in ((nodes, "add_slice"), (others, "scatter_add")):
        expected = np.zeros((41, 2))
        np.add.at(expected, index, v)
        np.testing.assert_allclose(f(ng.tensor(v), index), expected, rtol=1e-15)
        assert name in str(ng.jit(lambda v, index=index: f(v, index)).lower(v).graph)
        check_gradients(lambda v, index=index: f(v, index) ** 2, v)


def test_positions_that_are_not_known_yet_are_checked_when_computed():
    i = ng.tensor([1, 5]) * 2
    with pytest.raises(IndexError, match="index 10"):
        ng.unravel_index(i, (2, 5))[0].numpy()
    same(ng.unravel_index(ng.argmax(ng.tensor(M)), M.shape), np.unravel_index(M.argmax(), M.shape))
    with pytest.raises(IndexError):
        ng.choose(-i, [1, 2, 3]).numpy()
    same(ng.ravel_multi_index((i, i), (11, 11)), np.ravel_multi_index((i, i), (11, 11)))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda x: ng.put(np.zeros(3), 0, x),
            TypeError,
            "put: cannot write into(.|\n)*ng.tensor",
        ),
        (
            lambda x: np.copyto(np.zeros((4, 5)), x),
            TypeError,
            "copyto: cannot write into a ndarray",
        ),
        (lambda x: ng.copyto(x, 1j), TypeError, "copyto: cannot cast complex128 to float64"),
        (lambda x: ng.copyto(x, 1, where=M), TypeError, "where is not a mask"),
        (lambda x: ng.put(x, 0, 1j), TypeError, "would lose their imaginary parts"),
        (lambda x: ng.insert(x, 0, 1j), TypeError, "would lose their imaginary parts"),
        (lambda x: ng.place(x, [True], 1), ValueError, "place: the mask does not have the size"),
        (lambda x: ng.place(x, x > -9, []), ValueError, "place: no values"),
        (lambda x: ng.putmask(x, [True], 1), ValueError, "putmask: the mask does not have the"),
        (lambda x: ng.fill_diagonal(x[0], 1), ValueError, "fill_diagonal: no diagonal"),
        (lambda x: ng.take(x, 0, mode="round"), ValueError, "expected: 'raise', 'wrap' or 'clip'"),
        (lambda x: ng.choose([0, 2], [1, 2]), ValueError, "choose: no choice number 2"),
        (lambda x: ng.choose([0, -1], [1, 2]), ValueError, "choose: no choice number -1"),
        (lambda x: ng.choose(x, [1, 2]), TypeError, "choose: not integers"),
        (lambda x: ng.select([x], [x]), TypeError, "condition 0 : float64"),
        (lambda x: ng.select([x > 0], [x, x]), ValueError, "one choice for each condition"),
        (lambda x: ng.select([x > 0], [x[:3]]), ValueError, "choice 0 +: float64.3, 5."),
        (lambda x: ng.piecewise(x, [x > 0], [1, 2, 3]), ValueError, "piecewise: needs a function"),
        (lambda x: ng.compress([[True]], x), ValueError, "compress: the condition is not 1-d"),
        (lambda x: ng.unravel_index(6, (2, 3)), ValueError, "index 6 is out of range"),
        (lambda x: ng.unravel_index([-1], (2, 3)), ValueError, "index -1 is out of range"),
        (lambda x: ng.unravel_index(x, (2, 3)), TypeError, "unravel_index: not integers"),
        (lambda x: ng.ravel_multi_index((0, 3), (2, 3)), ValueError, "index of axis 1 : int64"),
        (lambda x: ng.ravel_multi_index((0,), (2, 3)), ValueError, "an index for each axis"),
        (lambda x: ng.ix_(x), ValueError, "ix_: not 1-d"),
        (lambda x: ng.where(x > 0, x), TypeError, "where: either both or neither"),
        (lambda x: ng.diag_indices_from(x), ValueError, "diag_indices_from: no diagonal"),
        (lambda x: ng.tril_indices_from(x[0]), ValueError, "tril_indices_from: not a matrix"),
    ],
)
def test_what_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call(ng.tensor(M) * 1)


@pytest.mark.parametrize(
    "write",
    [
        lambda x, value: np.insert(x, 0, value),
        lambda x, value: np.insert(x, 0, [value, value]),
        lambda x, value: np.piecewise(x, [x > 1], [value, 0]),
        lambda x, value: np.place(x, x > 1, [value]),
        lambda x, value: x.__setitem__([0, 1], [value, value]),
        lambda x, value: x.__setitem__(0, value),
    ],
)
def test_numbers_that_integers_do_not_have_are_refused_or_converted_as_by_numpy(write):
    numbers = np.array([1, 2, 3], np.uint8)
    for value, error in ((-1, OverflowError), (300, OverflowError), (np.nan, ValueError)):
        for x in (numbers.copy(), ng.tensor(numbers)):
            with pytest.raises(error):
                write(x, value)
    for value in (0.7, np.int64(-1), True):
        expected, x = numbers.copy(), ng.tensor(numbers)
        results = [write(expected, value), write(x, value)]
        if results[0] is not None:
            np.testing.assert_array_equal(results[1], results[0])
        np.testing.assert_array_equal(x, expected)


def test_a_leaf_that_requires_grad_is_not_written_into():
    x = ng.tensor(M, requires_grad=True)
    for write in (
        lambda: ng.put(x, 0, 1),
        lambda: ng.fill_diagonal(x, 1),
        lambda: ng.copyto(x, 1),
    ):
        with pytest.raises(ng.errors.GradientError, match="in-place"):
            write()
    with ng.no_grad(), warnings.catch_warnings():
        ng.put(x, 0, 1)
    assert x[0, 0].item() == 1 and x.requires_grad


# Whole arrays


def test_comparisons_of_whole_arrays():
    nan = np.array([1.0, np.nan])
    pairs = [(M, M), (M, M + 1e-9), (M, M[0]), (nan, nan), (M[0], M), (M, M[:2]), (3, 3.0)]
    for a, b in pairs:
        for name in ("array_equal", "array_equiv", "allclose"):
            if name == "allclose" and np.shape(a) == (4, 5) and np.shape(b) == (2, 5):
                continue
            found = getattr(ng, name)(a, b)
            assert found is bool(getattr(np, name)(a, b)), name
            assert getattr(np, name)(ng.tensor(a), b) is found
    assert ng.array_equal(nan, nan, equal_nan=True) and ng.allclose(nan, nan, equal_nan=True)


@pytest.mark.parametrize("index", [1, np.array([1, 2])])
def test_an_array_indexed_by_what_is_traced_is_to_be_a_tensor(index):
    """NumPy asks the index for its values, and tells nobody what they are for."""
    table = np.arange(12.0).reshape(4, 3)
    with pytest.raises(TracingError, match=r"ng\.asarray\(table\)\[i\]"):
        ng.jit(lambda i: table[i])(index)
    with pytest.raises(TracingError, match=r"ng\.take\(\.\.\.\)"):
        ng.jit(lambda i: np.take(table, i, axis=0))(index)
    np.testing.assert_array_equal(ng.jit(lambda i: ng.asarray(table)[i])(index), table[index])


def test_lists_with_indices_that_are_computed():
    def f(x):
        k = np.argmax(x[:, 0])
        y = x.copy()
        y[[0, k]] = y[[k, 0]]
        y[[k, 1]] += 1.0
        np.add.at(y, [k, k], 2.0)
        read = y[0, [1, k]].sum() + np.take(y, [k, 0], axis=0).sum() + y[[k], :2].sum()
        return (y * np.arange(9.0).reshape(3, 3)).sum() + read

    x = np.array([[1.0, 2.0, 3.0], [7.0, 0.0, 1.0], [9.0, 4.0, 5.0]])
    value, slope = ng.value_and_grad(f)(x)
    jitted = ng.jit(ng.value_and_grad(f))(x)
    assert float(value) == float(jitted[0]) == f(x)
    assert slope.tolist() == jitted[1].tolist()
    by_rows = ng.vmap(lambda x, k: x[[k, 0]].sum())(x, np.array([1, 2, 0]))
    assert by_rows.tolist() == [3.0, 8.0, 18.0]


def test_tuples_in_an_index_are_arrays_of_places():
    x, rows = np.arange(12.0).reshape(3, 4), np.array([2, 0])

    def read(x, rows, k):
        y = x * 1.0
        y[(k, k + 1), 3] = -1.0
        return y[(rows,), 1], y[(k, k + 1),], y[(rows, rows), :, None], y[[(k, 0)], 2]

    for f in (read, ng.jit(read), lambda *given: read(ng.tensor(given[0]), *given[1:])):
        for own, numpys in zip(f(x, rows, 1), read(x, rows, 1), strict=True):
            np.testing.assert_array_equal(own, numpys)


def test_indices_that_a_traced_function_makes_are_known():
    """As NumPy's own arrays: pairs become a matrix, and no call compares them with anything."""
    x = ng.tensor(np.random.default_rng(0).normal(size=(30, 3)))

    def pairs(np_, x):
        i, j = np_.triu_indices(30, 1)
        k = np_.arange(30)
        d = x[i] - x[j]
        return np.sum(1 / np.sum(d * d, axis=1)) + np.sum(x[(k + 1) % 30] * x[k])

    texts = [str(ng.jit(lambda x, np_=np_: pairs(np_, x)).lower(x)) for np_ in (np, ng.numpy)]
    assert texts[0] == texts[1]
    with pytest.raises(IndexError, match="out of bounds"):
        ng.jit(lambda x: x[ng.numpy.arange(31)])(x)


def test_indices_of_tensors_from_outside_are_read_at_each_call():
    x, index, state = ng.arange(4.0), ng.tensor([0, 1]), {"index": ng.tensor([2, 1])}

    def f(x):
        return np.sum(x[index + 1] + 10 * x[state["index"]])

    jitted = ng.jit(f)
    for _ in range(3):
        assert float(jitted(x)) == float(f(x))
    index[0] = 2
    assert float(jitted(x)) == float(f(x)) == 3 + 2 + 10 * 3
    state["index"] = ng.tensor([0, 0])
    assert float(jitted(x)) == float(f(x)) == 5.0


def test_indices_that_are_assigned_to_within_a_trace():
    def f(x):
        i = ng.numpy.arange(3)
        i[0] = 2
        first = np.sum(x[i])
        i[1] = 0
        return first + 10 * np.sum(x[i])

    x = ng.arange(4.0) + 1
    assert float(ng.jit(f)(x)) == float(f(x)) == (3 + 2 + 3) + 10 * (3 + 1 + 3)


def test_places_in_a_tuple_are_one_array():
    """As `np.nonzero` and `np.where` return them, for NumPy's functions that take array-likes."""
    given = np.array([0.5, -1.0, 2.0, 3.0])
    weights = np.arange(1.0, 5.0)

    def put(x):
        written = ng.tensor(np.zeros(4))
        np.put(written, np.nonzero(x > 0), x[x > 0] ** 2)
        return np.sum(written * weights)

    np.testing.assert_array_equal(ng.grad(put)(given).numpy(), 2 * given * (given > 0) * weights)

    def taken(x):
        return np.sum(np.take(x, np.nonzero(x > 0)) ** 2)

    np.testing.assert_array_equal(ng.grad(taken)(given).numpy(), 2 * given * (given > 0))
    assert np.take(ng.tensor(given), np.nonzero(ng.tensor(given) > 0)).shape == (1, 3)
    assert np.take(ng.tensor(given), ([0], [1])).shape == (2, 1)

    def left(x):
        return np.sum(np.delete(x, np.nonzero(x < 0)) ** 2)

    np.testing.assert_array_equal(ng.grad(left)(given).numpy(), 2 * given * (given > 0))
    for obj in ([[0], [1]], np.array([[0, 3]]), [np.argmax(ng.tensor(given)), 0]):
        places = [int(k) for k in obj] if isinstance(obj[0], int | ng.Tensor) else obj
        np.testing.assert_array_equal(
            np.delete(ng.tensor(given), obj).numpy(), np.delete(given, places)
        )
