"""NumPy's ufuncs on tensors: all are known, with their arguments and methods; and those of single
numbers, bit for bit."""

import warnings

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.errors import DTypeError, GradientError
from numba_grad.testing import check_gradients

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

UFUNCS = {
    name: value
    for name, value in vars(np).items()
    if isinstance(value, np.ufunc) and value.__name__ == name
}
LARGEST = np.finfo(float).max
LEAST = 5e-324
SMALL = [3e-310, -LEAST, LEAST, 2.3e-308, 2.0**-1022]
LARGE = [LARGEST, -LARGEST, 1e300, 123456.789, 2.0**52 + 0.5]
EDGES = np.array(
    [0.0, -0.0, 1.0, -1.0, 1.5, -2.75, 0.1, *SMALL, *LARGE, np.inf, -np.inf, np.nan],
)


def edges(dtype):
    with np.errstate(all="ignore"):
        return EDGES.astype(dtype)


def same_bits(ours, theirs):
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
    np.testing.assert_array_equal(ours, theirs)
    if ours.dtype.kind == "f":  # the sign of a zero; not of a nan
        np.testing.assert_array_equal(
            np.copysign(1, ours)[ours == 0], np.copysign(1, theirs)[theirs == 0]
        )


@pytest.mark.parametrize("name", UFUNCS)
def test_every_ufunc_is_known_or_refused_by_name(name, numpy_engine):
    ufunc = UFUNCS[name]
    arrays = [np.array([3, 1, 2]), np.array([2, 5, 1])][: ufunc.nin]
    if "->" in (ufunc.signature or "") and "(m,n)" in ufunc.signature.replace(" ", ""):
        arrays = [np.ones((3, 3)), np.arange(3.0)]
    if name == "vecmat":
        arrays = [np.arange(3.0), np.ones((3, 3))]
    try:
        expected = ufunc(*arrays)
        result = ufunc(*map(ng.tensor, arrays))
    except TypeError as error:
        assert name in str(error)
        return
    expected = expected if isinstance(expected, tuple) else (expected,)
    result = result if isinstance(result, tuple) else (result,)
    for ours, theirs in zip(result, expected, strict=True):
        assert isinstance(ours, ng.Tensor) and ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)


# Single numbers


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_parts_of_numbers(dtype):
    x = edges(dtype)
    for ufunc in (np.frexp, np.modf):
        for ours, theirs in zip(ufunc(ng.tensor(x)), ufunc(x), strict=True):
            same_bits(ours, theirs)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_neighbours_of_numbers(dtype):
    x = edges(dtype)
    same_bits(np.spacing(ng.tensor(x)), np.spacing(x))
    same_bits(np.nextafter(ng.tensor(x)[:, None], x), np.nextafter(x[:, None], x))


def test_there_are_no_neighbours_in_half_precision():
    with pytest.raises(DTypeError, match=r"nextafter: not defined for these dtypes"):
        np.spacing(ng.tensor(np.float16([1.0])))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_ldexp_rounds_once(dtype):
    x = np.concatenate([edges(dtype), np.random.default_rng(0).standard_normal(40).astype(dtype)])
    k = np.array([0, 1, -1, 52, -60, 1000, -1000, -1060, -1074, 1074, 2097, -2097, 10**6, -(10**6)])
    same_bits(np.ldexp(ng.tensor(x)[:, None], k), np.ldexp(x[:, None], k))
    same_bits(np.ldexp(ng.tensor(x)[:, None], k[:5].astype(np.int8)), np.ldexp(x[:, None], k[:5]))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "uint64"])
def test_divisors_and_bits(dtype):
    info = np.iinfo(dtype)
    x = np.array([0, 1, 6, 10, 63, 64, 120, info.max, info.min], dtype)
    for ufunc in (np.gcd, np.lcm):
        # The least common multiple of the extremes does not fit, and NumPy's wraps elsewhere.
        y = x if ufunc is np.gcd else x[:5]
        same_bits(ufunc(ng.tensor(y)[:, None], y), ufunc(y[:, None], y))
    same_bits(np.bitwise_count(ng.tensor(x)), np.bitwise_count(x))


@pytest.mark.parametrize("name", ["isposinf", "isneginf", "isreal", "iscomplex", "fix"])
@pytest.mark.parametrize("dtype", ["bool", "int32", "float32", "complex128"])
def test_kinds_of_numbers(name, dtype, numpy_engine):
    function = getattr(np, name)
    x = edges(dtype)
    if dtype == "complex128":
        x = x + 1j * np.arange(len(x)).clip(0, 2)
    try:
        expected = function(x)
    except TypeError:
        with pytest.raises(TypeError, match=r"isposinf|isneginf|trunc"):
            function(ng.tensor(x))
        return
    result = function(ng.tensor(x))
    assert result.dtype == expected.dtype
    np.testing.assert_array_equal(result, expected)


def test_kinds_of_objects():
    assert ng.iscomplexobj(ng.tensor([1j])) and np.isrealobj(ng.tensor([1.0]))
    assert not ng.isrealobj([1j]) and not np.iscomplexobj(ng.tensor(1))


DIFFERENTIABLE = {
    "frexp": (lambda x: ng.frexp(x)[0], np.array([0.3, -5.1, 700.0, 0.8])),
    "modf": (ng.modf, np.array([0.3, -5.1, 7.25])),
    "ldexp": (lambda x: ng.ldexp(x * x, np.array([3, -2, 0])), np.array([0.3, -5.1, 700.0])),
    "nextafter": (lambda x, y: ng.nextafter(x, y) * x, np.array([0.3, -5.1]), np.array([1.0, 2.0])),
    "spacing": (lambda x: ng.spacing(x) + x**2, np.array([0.3, -5.1])),
}


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_derivatives_to_second_order(name, numpy_engine):
    check_gradients(*DIFFERENTIABLE[name])


def test_gradient_of_modf_at_whole_numbers():
    x = ng.tensor([2.0, -3.0, np.inf], requires_grad=True)
    ng.modf(x)[0].sum().backward()
    assert x.grad.numpy().tolist() == [1.0, 1.0, 0.0]


def test_ldexp_has_the_gradient_of_torch():
    torch = pytest.importorskip("torch")
    x, k = np.array([0.3, -5.1, 700.0]), np.array([3, -2, 0])
    theirs = torch.tensor(x, requires_grad=True)
    torch.ldexp(theirs, torch.tensor(k, dtype=torch.float64)).sum().backward()
    ours = ng.tensor(x, requires_grad=True)
    np.ldexp(ours, k).sum().backward()
    np.testing.assert_array_equal(ours.grad, theirs.grad)


def test_nan_to_num_with_replacements_of_each_element():
    x = np.array([np.nan, np.inf, -np.inf, 2.0])
    v = ng.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    result = ng.nan_to_num(x, nan=v, posinf=v, neginf=-1)
    np.testing.assert_array_equal(result.detach(), [1.0, 2.0, -1.0, 2.0])
    result.sum().backward()
    assert v.grad.numpy().tolist() == [1, 1, 0, 0]
    same_bits(np.nan_to_num(ng.tensor(x), copy=False, nan=7), np.nan_to_num(x, nan=7))
    assert np.around(ng.tensor([1.26]), 1).item() == 1.3


# Arguments and methods


def test_dtype_chooses_the_loop():
    x, y = np.array([1, 2, 300]), np.array([0.1, 0.2, 0.3])
    for dtype in ("float32", "complex64", "float64"):
        same_bits(np.add(ng.tensor(x), 2, dtype=dtype), np.add(x, 2, dtype=dtype))
        same_bits(np.multiply(y, ng.tensor(y), dtype=dtype), np.multiply(y, y, dtype=dtype))
    t = ng.tensor(y, requires_grad=True)
    np.multiply(t, t, dtype=np.float32).sum().backward()
    assert t.grad.dtype == np.float64
    with pytest.raises(DTypeError, match=r"(?s)add: no loop for these dtypes.*dtype +: int64"):
        np.add(ng.tensor(y), y, dtype=int)
    same_bits(np.add(ng.tensor(y), 1, dtype=int, casting="unsafe"), np.add(x * 0, 1))


def test_where_and_out_are_refused():
    x = ng.tensor([1.0, 2.0])
    with pytest.raises(TypeError, match=r"(?s)numpy.add: where= .*try: ng.where"):
        np.add(x, x, where=np.array([True, False]))
    np.testing.assert_array_equal(np.add(x, x, where=True, order="K", subok=True), [2, 4])
    with pytest.raises(TypeError, match=r"(?s)numpy.add: out= is not supported.*array = array \+"):
        np.add(x, x, out=np.zeros(2))
    with pytest.raises(TypeError, match=r"numpy.add: order= is not supported"):
        np.add(x, x, order="F")


@pytest.mark.parametrize(
    "name", ["add", "multiply", "maximum", "minimum", "fmax", "fmin", "logaddexp", "logical_or"]
)
def test_reduce(name, numpy_engine):
    ufunc = UFUNCS[name]
    x = np.random.default_rng(0).standard_normal((3, 4))
    for axis in (0, 1, -1, None, (0, 1)):
        if name == "logaddexp" and axis in (None, (0, 1)):
            continue  # NumPy refuses: not reorderable
        expected = ufunc.reduce(x, axis=axis, keepdims=True)
        result = ufunc.reduce(ng.tensor(x), axis=axis, keepdims=True)
        np.testing.assert_allclose(result, expected, rtol=1e-14)
    np.testing.assert_allclose(ufunc.reduce(ng.tensor(x)), ufunc.reduce(x), rtol=1e-14)


def test_outer(numpy_engine):
    x, y = np.arange(3.0), np.arange(8).reshape(2, 4)
    for ufunc in (np.add, np.power, np.less, np.hypot, np.arctan2):
        expected = ufunc.outer(x, y)
        result = ufunc.outer(ng.tensor(x), y)
        assert (result.dtype, result.shape) == (expected.dtype, expected.shape)
        np.testing.assert_allclose(result, expected, rtol=1e-15)
    same_bits(
        np.subtract.outer(y, ng.tensor(x), dtype="float32"),
        np.subtract.outer(y, x, dtype="float32"),
    )
    same_bits(np.multiply.outer(2, ng.tensor(np.float32(x))), np.multiply.outer(2, np.float32(x)))
    check_gradients(lambda x, y: np.divide.outer(x, y), x, np.array([1.5, 2.5]))


def test_at_adds_for_each_index_and_keeps_what_was_recorded():
    x = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    for ufunc in (np.add, np.subtract):
        for index, v in (
            ([0, 0, 2], 1),
            ((np.array([1, 1]), np.array([0, 0])), np.array([1.0, 10.0])),
            ((slice(None), 1), np.array([1.0, 2.0, 3.0])),
            (x > 2, 0.5),
        ):
            expected, t = x.copy(), ng.tensor(x)
            before = t * 1
            ufunc.at(expected, index, v)
            assert ufunc.at(t, index, v) is None
            np.testing.assert_array_equal(t, expected)
            np.testing.assert_array_equal(before, x)

    def f(x, v):
        y = x * x
        np.add.at(y, np.array([0, 0, 2]), v)
        np.subtract.at(y, np.array([1]), v[0] * v[1])
        return y**2

    check_gradients(f, x[:, 0].copy(), np.array([1.0, 2.0, 3.0]))
    np.testing.assert_array_equal(ng.jit(f)(x[:, 0], np.ones(3)), f(ng.tensor(x[:, 0]), np.ones(3)))


def test_what_at_refuses():
    x = ng.tensor([1, 2])
    with pytest.raises(DTypeError, match=r"(?s)numpy.add.at: the result would not fit.*float64"):
        np.add.at(x, 0, 1.5)
    with pytest.raises(TypeError, match=r"numpy.add.at: cannot write tensors into an array"):
        np.add.at(np.zeros(2), 0, x[0])
    with pytest.raises(GradientError, match="in-place"):
        np.add.at(ng.tensor([1.0], requires_grad=True), 0, 1.0)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda x: np.maximum.at(x, 0, 1.0), "numpy.maximum.at"),
        (lambda x: np.add.reduceat(x, [0, 1]), "numpy.add.reduceat"),
        (lambda x: np.subtract.reduce(x), "numpy.subtract.reduce"),
        (lambda x: np.divide.accumulate(x), "numpy.divide.accumulate"),
        (lambda x: np.isnat(x), "numpy.isnat"),
    ],
)
def test_other_methods_are_refused_by_name(call, name):
    with pytest.raises(TypeError, match=f"{name}: not supported on tensors"):
        call(ng.tensor([1.0, 2.0]))


def test_under_jit_and_vmap():
    x = np.random.default_rng(0).standard_normal((3, 4))

    def f(x):
        fraction, whole = ng.modf(x * 3)
        mantissa, exponent = ng.frexp(x)
        return fraction + ng.ldexp(mantissa, exponent) + whole + ng.nextafter(x, 0) + ng.spacing(x)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        expected = f(x).numpy()
    np.testing.assert_array_equal(ng.jit(f)(x), expected)
    np.testing.assert_array_equal(ng.vmap(f)(x), expected)
    assert ng.frexp(np.zeros((0, 2)))[1].shape == (0, 2)
    np.testing.assert_array_equal(ng.modf(x.T[::2])[0], np.modf(x.T[::2])[0])
