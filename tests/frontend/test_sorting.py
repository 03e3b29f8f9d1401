"""Sorting and searching: NumPy's results, stability, nan, gradients of what is taken."""

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.compiler.building import build
from numba_grad.errors import AxisError, DTypeError, ShapeError, TracingError
from numba_grad.testing import check_gradients
from tests.frontend.agreement import check_jit_and_vmap, same

RNG = np.random.default_rng(0)
X = RNG.standard_normal((3, 5))
DTYPES = ["bool", "int8", "uint64", "float16", "float32", "float64", "complex128"]


def sample(dtype, *shape):
    x = RNG.integers(0, 5, shape).astype(dtype)
    if x.dtype.kind == "c":
        x = x + 1j * RNG.integers(0, 3, shape)
    if x.dtype.kind in "fc":
        x.reshape(-1)[::7] = np.nan
        x.reshape(-1)[3::11] = -np.inf
    return x


def same_array(ours, theirs):
    assert (ours.dtype, ours.shape) == (np.asarray(theirs).dtype, np.shape(theirs))
    np.testing.assert_array_equal(ours, theirs)


# Search


@pytest.mark.thorough(every=4)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("side", ["left", "right"])
def test_searchsorted_is_numpys(dtype, side):
    for n in (0, 1, 2, 7, 33):
        a = np.sort(sample(dtype, n))
        v = sample(dtype, 3, 4)
        same(np.searchsorted(ng.tensor(a), v, side), np.searchsorted(a, v, side))
    shuffled = sample(dtype, 20)
    order = np.argsort(shuffled, kind="stable")
    same(
        ng.searchsorted(shuffled, v[0], side, sorter=order),
        np.searchsorted(shuffled, v[0], side, sorter=order),
    )


def test_methods_are_the_functions(numpy_engine):
    t = ng.tensor(np.array([1.0, 3.0, 2.0]))
    same(t.argpartition(1), np.array([0, 2, 1]))
    same(t.searchsorted([2.5], sorter=t.argsort()), np.array([2]))
    same(t.cumprod(), np.array([1.0, 3.0, 6.0]))


def test_searchsorted_compares_in_the_common_dtype():
    a = np.float32([0.1, 0.2])
    same(ng.searchsorted(ng.tensor(a), 0.1), np.searchsorted(a, 0.1))
    same(ng.searchsorted(ng.tensor([1, 2, 3]), 2.5), np.searchsorted([1, 2, 3], 2.5))
    same(ng.searchsorted(ng.tensor([1, 2, 3]), np.zeros((0, 2))), np.zeros((0, 2), int))


def test_searchsorted_of_many_values():
    a = np.sort(RNG.standard_normal(10_000))
    v = RNG.standard_normal(3000)
    same(ng.searchsorted(a, v), np.searchsorted(a, v))
    same_array(ng.jit(ng.searchsorted)(a, v), np.searchsorted(a, v))
    rows = np.sort(RNG.standard_normal((4, 9)))
    both = ng.vmap(ng.searchsorted)(rows, v[:8].reshape(4, 2))
    same_array(
        both, [np.searchsorted(r, w) for r, w in zip(rows, v[:8].reshape(4, 2), strict=True)]
    )
    shared = ng.vmap(lambda w: ng.searchsorted(rows[0], w))(v[:8].reshape(4, 2))
    same_array(shared, np.searchsorted(rows[0], v[:8].reshape(4, 2)))


@pytest.mark.parametrize("right", [False, True])
def test_digitize_is_numpys(right, numpy_engine):
    x = np.array([[-1.0, 0.0, 0.5], [1.0, 7.0, np.nan]])
    for bins in ([0.0, 0.5, 1.0], [1.0, 0.5, 0.0], [0.5], [0.5, 0.5], [2.0, 0.5, 0.5]):
        same(np.digitize(ng.tensor(x), bins, right), np.digitize(x, bins, right))
    same(ng.digitize(np.array(3), [1, 2, 3], right), np.digitize(3, [1, 2, 3], right))


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "float32", "complex128"])
@pytest.mark.parametrize("invert", [False, True])
def test_isin_is_numpys(dtype, invert, numpy_engine):
    x = sample(dtype, 4, 6)
    for tests in (x[0], x[1, :1], x[:, :0], np.array([2.0, 7.0]), [1, 3]):
        same(np.isin(ng.tensor(x), tests, invert=invert), np.isin(x, tests, invert=invert))


# Order


@pytest.mark.parametrize("dtype", DTYPES)
def test_partition_puts_elements_in_their_place(dtype, numpy_engine):
    x = sample(dtype, 4, 9)
    for kth, axis in ((3, 1), (-1, 0), ([0, 5], -1), (20, None)):
        same(np.partition(ng.tensor(x), kth, axis), np.sort(x, axis))
        index = np.argpartition(ng.tensor(x), kth, axis)
        same(index, np.argsort(x, axis, kind="stable"))


@pytest.mark.parametrize("dtype", DTYPES)
def test_lexsort_is_numpys(dtype, numpy_engine):
    first, second, third = sample(dtype, 3, 12)
    same(np.lexsort((ng.tensor(first), second, third)), np.lexsort((first, second, third)))
    keys = sample(dtype, 3, 4, 5)
    for axis in (0, 1):
        same(np.lexsort(ng.tensor(keys), axis), np.lexsort(keys, axis))
    same(ng.lexsort([first]), np.lexsort([first]))
    same(ng.lexsort(first), np.lexsort(first))  # each number is a key


def test_sort_complex_is_numpys(numpy_engine):
    for dtype in ("int8", "int32", "float32", "complex64", "complex128"):
        x = sample(dtype, 2, 9)
        same(np.sort_complex(ng.tensor(x)), np.sort_complex(x))


def test_top_k():
    x = np.array([[1.0, 5.0, np.nan, 5.0, -2.0], [0.0, 3.0, 2.0, 1.0, 9.0]])
    values, indices = ng.top_k(x, 3)
    same(values, np.array([[5.0, 5.0, 1.0], [9.0, 3.0, 2.0]]))
    same(indices, np.array([[1, 3, 0], [4, 1, 2]]))
    values, indices = ng.top_k(x, 2, largest=False)
    same(values, np.array([[-2.0, 1.0], [0.0, 1.0]]))
    values, indices = ng.top_k(x, 1, axis=0)
    same(values, np.array([[1.0, 5.0, 2.0, 5.0, 9.0]]))
    assert ng.top_k(x, 0)[0].shape == (2, 0)
    least = np.array([-128, 0, 127], np.int8)
    same(ng.top_k(least, 2)[0], np.array([127, 0], np.int8))


def test_top_k_has_the_values_and_gradient_of_torch():
    torch = pytest.importorskip("torch")
    weights = RNG.standard_normal((3, 2))
    theirs = torch.tensor(X, requires_grad=True)
    values, indices = torch.topk(theirs, 2, 1)
    (values * torch.tensor(weights)).sum().backward()
    ours = ng.tensor(X, requires_grad=True)
    own, positions = ng.top_k(ours, 2, 1)
    (own * weights).sum().backward()
    same(own, values.detach())
    same(positions, indices)
    np.testing.assert_array_equal(ours.grad, theirs.grad)


# Positions


@pytest.mark.parametrize("name", ["nanargmax", "nanargmin"])
def test_positions_without_nan(name):
    x = np.where(np.abs(X) < 0.4, np.nan, X)
    function = getattr(np, name)
    for axis in (0, 1, -1, None):
        for keepdims in (False, True):
            expected = function(x, axis, keepdims=keepdims)
            same(function(ng.tensor(x), axis, keepdims=keepdims), expected)
    same(function(ng.tensor([3, 1, 2])), function(np.array([3, 1, 2])))
    nothing = np.array([[np.nan, np.nan], [1.0, 2.0]])
    with pytest.raises(ValueError, match=f"{name}: only nan along the axis"):
        function(ng.tensor(nothing), 1)
    found = ng.jit(lambda x: getattr(ng, name)(x, 1))(nothing)
    same_array(found, [-1, 1 if name == "nanargmax" else 0])


def test_count_nonzero_and_positions_of_extremes(numpy_engine):
    x = RNG.integers(0, 3, (2, 3, 4))
    t = ng.tensor(x)
    for axis in (None, 0, (0, 2), (-1, 1)):
        for keepdims in (False, True):
            same(
                np.count_nonzero(t, axis, keepdims=keepdims),
                np.count_nonzero(x, axis, keepdims=keepdims),
            )
    for function in (np.argmax, np.argmin):
        for axis in (None, 0, -1):
            same(function(t, axis, keepdims=True), function(x, axis, keepdims=True))


# Gradients, jit and vmap

DIFFERENTIABLE = {
    "partition": (lambda x: ng.partition(x, 2, 1) ** 2, X),
    "top_k": (lambda x: ng.top_k(x * x, 3)[0], X),
    "sort_complex": (lambda x: ng.sort_complex(x) ** 2, X + 1j * X[::-1]),
    "lexsort": (lambda x: x[ng.lexsort((np.abs(x), x > 0))] ** 2, X[0]),
    "isin": (lambda x: np.where(ng.isin(np.round(x), [0, 1]), x, 0) ** 2, X),
    "searchsorted": (lambda x: x * ng.searchsorted(np.array([-1.0, 0.0, 1.0]), x), X),
    "digitize": (lambda x: x * ng.digitize(x, np.array([1.0, 0.0, -1.0])), X),
    "nanargmax": (lambda x: x[ng.nanargmax(x)] ** 2, X[1]),
}


@pytest.mark.thorough(every=3)
@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_derivatives_to_second_order(name, numpy_engine):
    check_gradients(*DIFFERENTIABLE[name])


@pytest.mark.thorough(every=4)
@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_jit_and_vmap_give_the_same(name):
    check_jit_and_vmap(*DIFFERENTIABLE[name])


EDGES = np.linspace(-2, 2, 9)


@pytest.mark.thorough(every=4)
@pytest.mark.parametrize(
    "f",
    [
        lambda x: ng.sort(x),
        lambda x: ng.top_k(x, 3)[0],
        lambda x: ng.lexsort((x, x > 0)),
        lambda x: ng.isin(x, x[1:] + 1.0),
        lambda x: ng.digitize(x, EDGES[::-1]),
        lambda x: ng.histogram(x, x.shape[0] // 8, (-1, 1))[0],
        lambda x: ng.interp(x * 0.5, ng.sort(x), x),
        lambda x: ng.convolve(x, x[5:], "same"),
        lambda x: ng.logcumsumexp(ng.cumprod(x)),
        ng.grad(lambda x: ng.cumprod(ng.cummax(x)).sum()),
        ng.grad(lambda x: ng.convolve(x, x[:4]).sum()),
    ],
)
def test_another_size_compiles_nothing(f):
    jitted = ng.jit(lambda x: f(x))
    jitted(RNG.standard_normal(200))
    before = build.statistics().compilations, build.statistics().loads
    for n in (150, 333):
        jitted(RNG.standard_normal(n))
    assert (build.statistics().compilations, build.statistics().loads) == before


def test_empty_and_zero_dimensional_and_strided():
    assert ng.top_k(np.zeros((0, 3)), 2, 1)[0].shape == (0, 2)
    assert ng.lexsort([np.zeros(0), np.zeros(0)]).shape == (0,)
    assert ng.isin(2, [1, 2]).item() is True
    assert ng.searchsorted([1.0, 2.0], 1.5).shape == ()
    strided = np.arange(24.0).reshape(4, 6)[:, ::-2].T
    same(ng.top_k(strided, 2, 0)[0], np.sort(strided, 0)[::-1][:2])
    same(ng.searchsorted(strided[::-1, 0], strided), np.searchsorted(strided[::-1, 0], strided))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: ng.partition(x, 3), ValueError, "partition: kth out of range"),
        (lambda x: ng.argpartition(x, [0, -4]), ValueError, "argpartition: kth out of range"),
        (lambda x: ng.top_k(x, 4), ValueError, r"(?s)top_k: k out of range.*0 <= k <= 3"),
        (lambda x: ng.top_k(x, 1, 1), AxisError, "top_k: axis out of range"),
        (lambda x: ng.lexsort(x, 1), AxisError, "lexsort: axis out of range"),
        (lambda x: ng.lexsort([]), TypeError, "lexsort: needs at least one key"),
        (lambda x: ng.lexsort([x, x[:1]]), ShapeError, "lexsort: keys of different shapes"),
        (lambda x: ng.searchsorted(x[None], x), ShapeError, "searchsorted: the array to search"),
        (lambda x: ng.searchsorted(x, x, "both"), ValueError, "searchsorted: no such side"),
        (lambda x: ng.searchsorted(x, x, sorter=x), TypeError, "searchsorted: sorter is not"),
        (lambda x: ng.digitize(x, [0, 2, 1]), ValueError, "digitize: bins must increase"),
        (lambda x: ng.digitize(x * 1j, [0]), DTypeError, "digitize: complex numbers"),
        (lambda x: ng.jit(lambda b: ng.digitize(x, b))(x), TracingError, "(?s)digitize: needs the"),
    ],
)
def test_what_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call(ng.tensor([1.0, 2.0, 3.0]))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "uint64", "bool"])
def test_integers_that_are_in(dtype, numpy_engine):
    """By a table, whose numbers may not fit in the dtype; by a search, where they are far apart."""
    info = np.iinfo(dtype if dtype != "bool" else "uint8")
    x = np.arange(max(info.min, -130), 130).astype(dtype)
    for known in ([info.max, info.max - 1], [info.min, 100], [0, 1, 7], [info.min, info.max], [3]):
        values = np.array(known).astype(dtype)
        for invert in (False, True):
            expected = np.isin(x, values, invert=invert)
            result = np.isin(ng.tensor(x), values, invert=invert)
            assert result.dtype == bool
            np.testing.assert_array_equal(result, expected)
    computed = ng.isin(ng.tensor(x), ng.tensor(values) + ng.zeros(1, dtype=dtype))
    np.testing.assert_array_equal(computed, np.isin(x, values))
    np.testing.assert_array_equal(ng.isin(ng.tensor(x), [3, 5]), np.isin(x, [3, 5]))


def test_membership_in_a_table_in_kernels():
    x = np.array([[5, -2, 900], [0, 3, 4]])
    np.testing.assert_array_equal(ng.jit(lambda x: ng.isin(x, [3, 900, 5]))(x), (x > 2) & (x != 4))
