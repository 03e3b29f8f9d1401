"""NumPy's ufuncs on tensors: all are known, with their arguments and methods; and those of single
numbers, bit for bit."""

import functools
import warnings

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.errors import AxisError, DTypeError, GradientError, ShapeError, TracingError
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


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_neighbours_of_numbers(dtype):
    x = edges(dtype)
    same_bits(np.spacing(ng.tensor(x)), np.spacing(x))
    same_bits(np.nextafter(ng.tensor(x)[:, None], x), nextafter(x[:, None], x))


def nextafter(x, y):
    """NumPy's from 2.5 on: of equal numbers it is y, a zero with its sign, in float16 as well."""
    return np.where(x == y, y, np.nextafter(x, y))


def test_neighbours_of_every_half():
    x = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    for y in np.float16([np.inf, -np.inf, -0.0, 1.5]):
        same_bits(np.nextafter(ng.tensor(x), y), nextafter(x, y))
    same_bits(np.spacing(ng.tensor(x)), np.spacing(x))
    h = ng.tensor(np.float16([0.3, -2.0, 0.0]), requires_grad=True)
    (ng.nextafter(h, 1) * h).sum().backward()
    expected = h.detach() + np.nextafter(h.detach(), np.float16(1))
    np.testing.assert_array_equal(h.grad, expected)


def test_half_precision_rounds_every_result():
    x = np.random.default_rng(0).standard_normal(1000).astype(np.float16)
    y = np.float16([60000, 65504, -40000, 6e-8])
    same_bits((ng.tensor(y) * 2) * np.float16(0.5), (y * 2) * np.float16(0.5))
    f = lambda x, three: ((x * x + x) / (x * three - 1) - x) ** 2  # noqa: E731
    same_bits(f(ng.tensor(x), np.float16(3)), f(x, np.float16(3)))
    z = np.float32([65519, 65520, 1e-8, 1 / 3])
    same_bits(ng.tensor(z).astype("float16").astype("float32") - 1, z.astype("f2").astype("f4") - 1)


def test_squares_of_truths_by_function_and_by_operator():
    b = np.array([True, False])
    for square in (lambda b: np.power(b, 2), lambda b: b**2, lambda b: np.power(b, 3)):
        same_bits(square(ng.tensor(b)), square(b))


def test_decimals_without_a_sign():
    x = np.array([0.123, -4.56])
    same_bits(np.round(ng.tensor(x), np.uint64(2)), np.round(x, np.uint64(2)))
    same_bits(ng.tensor(x).round(np.uint8(1)), x.round(np.uint8(1)))


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


@pytest.mark.parametrize(
    "ufunc", [np.gcd, np.lcm, np.hypot, np.bitwise_xor], ids=lambda u: u.__name__
)
def test_one_number_is_joined_with_the_identity_if_there_is_one(ufunc):
    """Of -3 the greatest common divisor is 3, the least common multiple -3, as in NumPy."""
    for x in (np.array([-3]), np.array([[-3], [5]]), np.array([[-3, 4]])):
        for axis in (0, -1, ()):
            expected = ufunc.reduce(x, axis=axis)
            reduced = functools.partial(ufunc.reduce, axis=axis)
            for found in (reduced(ng.tensor(x)), ng.jit(reduced)(ng.tensor(x))):
                assert found.dtype == expected.dtype
                np.testing.assert_allclose(found.numpy(), expected, rtol=1e-15)


@pytest.mark.filterwarnings("ignore:numpy.fix is deprecated:DeprecationWarning")  # since NumPy 2.5
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


def test_real_if_close():
    for x in (np.array([1 + 1e-15j, 2]), np.array([1 + 1e-3j]), np.complex64([1 + 1e-6j]), [1.0]):
        for tol in (100, 0.01):
            same_bits(np.real_if_close(ng.tensor(x), tol), np.real_if_close(x, tol))
    check_gradients(lambda x: ng.real_if_close(x + 0j) ** 2, np.array([1.0, 2.0]))
    with pytest.raises(TracingError, match="real_if_close: needs the value"):
        ng.jit(ng.real_if_close)(np.array([1j]))


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
    with pytest.raises(DTypeError, match="no loop for these dtypes"):
        np.add(ng.tensor(y), x, casting="equiv")


def test_where_and_out_are_refused():
    x = ng.tensor([1.0, 2.0])
    with pytest.raises(TypeError, match=r"(?s)numpy.add: where= .*try: ng.where"):
        np.add(x, x, where=np.array([True, False]))
    np.testing.assert_array_equal(np.add(x, x, where=True, order="K", subok=True), [2, 4])
    with pytest.raises(TypeError, match=r"(?s)numpy.add: out= is not supported.*y = numpy.add"):
        np.add(x, x, out=np.zeros(2))
    with pytest.raises(TypeError, match=r"numpy.add: order= is not supported"):
        np.add(x, x, order="F")


ASSOCIATIVE = {
    "add": float,
    "multiply": float,
    "maximum": float,
    "minimum": float,
    "fmax": float,
    "fmin": float,
    "logaddexp": float,
    "logaddexp2": float,
    "hypot": float,
    "logical_and": float,
    "logical_or": float,
    "logical_xor": float,
    "bitwise_and": np.int8,
    "bitwise_or": np.uint16,
    "bitwise_xor": bool,
    "gcd": np.int32,
    "lcm": np.int64,
}
NOT_REORDERABLE = ("logaddexp", "logaddexp2", "hypot", "lcm")  # to NumPy


def to_join(name, *shape):
    x = np.random.default_rng(0).integers(0, 5, shape)
    return (x / 2 if ASSOCIATIVE[name] is float else x).astype(ASSOCIATIVE[name])


def same_up_to_rounding(ours, theirs):
    assert isinstance(ours, ng.Tensor)
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
    np.testing.assert_allclose(ours.detach(), theirs, rtol=1e-14)


def outcome(call, x):
    try:
        return call(x)
    except (ValueError, IndexError) as error:
        return error


@pytest.mark.parametrize("name", ASSOCIATIVE)
def test_reduce(name, numpy_engine):
    ufunc, x = UFUNCS[name], to_join(name, 3, 5, 2)
    for axis in (0, -2, None, (0, 2)):
        if name in NOT_REORDERABLE and not isinstance(axis, int):
            continue
        call = lambda x, axis=axis: ufunc.reduce(x, axis=axis, keepdims=axis == -2)  # noqa: E731
        same_up_to_rounding(call(ng.tensor(x)), np.asarray(call(x)))
    chosen = x[0] > 1
    for call in (
        ufunc.reduce,
        lambda x: ufunc.reduce(x, axis=()),
        lambda x: ufunc.reduce(x, where=chosen),
        lambda x: ufunc.reduce(x, where=chosen, initial=1),
        lambda x: ufunc.reduce(x[:0]),
        lambda x: ufunc.reduce(x[:0], initial=1),
    ):
        expected = outcome(call, x)
        ours = outcome(call, ng.tensor(x))
        if isinstance(expected, Exception):
            assert isinstance(ours, ValueError)
        else:
            same_up_to_rounding(ours, expected)


@pytest.mark.parametrize("name", ASSOCIATIVE)
def test_accumulate(name, numpy_engine):
    ufunc, x = UFUNCS[name], to_join(name, 3, 5, 2)
    same_up_to_rounding(ufunc.accumulate(ng.tensor(x)), ufunc.accumulate(x))
    same_up_to_rounding(ufunc.accumulate(ng.tensor(x), -2), ufunc.accumulate(x, -2))
    same_up_to_rounding(ufunc.accumulate(ng.tensor(x[:0])), ufunc.accumulate(x[:0]))


@pytest.mark.parametrize("name", ASSOCIATIVE)
def test_reduceat(name, numpy_engine):
    ufunc, x = UFUNCS[name], to_join(name, 3, 8)
    for indices in ([0, 3, 4], [2, 5], [0, 4], [5], [0, 7, 2, 2, 1], []):
        expected = ufunc.reduceat(x, indices, axis=1)
        same_up_to_rounding(ufunc.reduceat(ng.tensor(x), indices, axis=1), expected)
    same_up_to_rounding(ufunc.reduceat(ng.tensor(x), ng.tensor([2, 0])), ufunc.reduceat(x, [2, 0]))
    with pytest.raises(IndexError, match=rf"(?s){name}.reduceat: index out of range.*index.*-1"):
        ufunc.reduceat(ng.tensor(x), [0, -1])
    with pytest.raises(IndexError, match=rf"(?s){name}.reduceat: indices are 1-d and integers"):
        ufunc.reduceat(ng.tensor(x), [0.5])


def test_arguments_of_methods(numpy_engine):
    x = to_join("hypot", 3, 4)
    for call in (
        lambda x: np.add.reduceat(x.astype(np.int8), [0, 1]),
        lambda x: np.multiply.reduceat(x, [0, 1], dtype=np.float32),
        lambda x: np.maximum.accumulate(x, dtype=np.float32),
        lambda x: np.hypot.reduce(x, 1, np.float32, None, True),
        lambda x: np.gcd.accumulate(x.astype(int), 1, np.int8),
        lambda x: np.maximum.reduce(x, initial=1.5),
    ):
        ours, theirs = call(ng.tensor(x)), call(x)
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    with pytest.raises(ValueError, match=r"(?s)lcm.reduce: there may be no elements.*initial="):
        np.lcm.reduce(ng.tensor(x.astype(int)), where=x > 1)
    with pytest.raises(ShapeError, match=r"hypot.reduce: initial is not one number"):
        np.hypot.reduce(ng.tensor(x), initial=ng.tensor([1.0]))
    with pytest.raises(ShapeError, match=r"hypot.reduce: the mask does not broadcast"):
        np.hypot.reduce(ng.tensor(x), where=np.array([True, False]))
    for ufunc in (np.add, np.maximum, np.fmax, np.logical_or, np.hypot, np.logaddexp2):
        for axis in (0, -1):
            expected = ufunc.reduce(np.array(-3.0), axis)
            np.testing.assert_array_equal(ufunc.reduce(ng.tensor(-3.0), axis), expected)
    for values, axis in (([-4, 6], ()), (-4, 0), (-4, None)):
        for ufunc in (np.gcd, np.lcm, np.bitwise_xor):
            expected = ufunc.reduce(np.array(values), axis)
            np.testing.assert_array_equal(ufunc.reduce(ng.tensor(values), axis), expected)
    with pytest.raises(AxisError, match="sum: axis out of range"):
        np.add.reduce(ng.tensor(1.0), 1)
    with pytest.raises(TypeError, match=r"add.accumulate: cannot accumulate a single number"):
        np.add.accumulate(ng.tensor(1.0))
    with pytest.raises(AxisError, match=r"hypot.accumulate"):
        np.hypot.accumulate(ng.tensor(x), 2)
    with pytest.raises(ValueError, match=r"add.accumulate: takes one axis"):
        np.add.accumulate(ng.tensor([[1.0]]), axis=None)
    with pytest.raises(ValueError, match=r"add.reduceat: takes one axis"):
        np.add.reduceat(ng.tensor([[1.0]]), [0], axis=(0, 1))


@pytest.mark.parametrize("axis", [None, (0,), (-1,)])
def test_the_only_axis_in_other_words(axis, numpy_engine):
    x = np.array([3.0, -1.0, 4.0])
    for ufunc in (np.add, np.maximum, np.hypot):
        expected = ufunc.accumulate(x, axis=axis)
        same_up_to_rounding(ufunc.accumulate(ng.tensor(x), axis=axis), expected)
        expected = ufunc.reduceat(x, [0, 2], axis=axis)
        same_up_to_rounding(ufunc.reduceat(ng.tensor(x), [0, 2], axis=axis), expected)


FOLDS = {
    "reduceat of other lengths": lambda x: np.hypot.reduceat(x, [0, 1, 3], axis=1),
    "reduce": lambda x: np.hypot.reduce(x, axis=(0, 1)) * np.logaddexp2.reduce(x, 1, where=x > -1),
    "accumulate": lambda x: np.hypot.accumulate(x, axis=1) * np.fmax.accumulate(x),
    "reduceat": lambda x: (
        np.multiply.reduceat(x, [0, 2, 1], axis=1) + np.add.reduceat(x, [0])[0, 1]
    ),
    "reduceat of extremes": lambda x: np.maximum.reduceat(x.ravel(), [0, 5, 7, 2]) ** 2,
}


FOLDED = np.random.default_rng(0).standard_normal((3, 4))


@pytest.mark.thorough(every=2)
@pytest.mark.parametrize("name", FOLDS)
def test_derivatives_of_folds(name, numpy_engine):
    check_gradients(FOLDS[name], FOLDED)


@pytest.mark.thorough(every=4)
@pytest.mark.parametrize("name", FOLDS)
def test_folds_under_jit_and_vmap(name):
    x = np.random.default_rng(0).standard_normal((2, 3, 4))
    expected = np.stack([FOLDS[name](ng.tensor(part)).numpy() for part in x])
    np.testing.assert_allclose(ng.jit(ng.vmap(FOLDS[name]))(x), expected, rtol=1e-14)


def test_an_infinity_stays_in_the_gradient_of_its_segment(numpy_engine):
    x = ng.tensor([2.0, 3.0, np.inf, 0.0, 4.0], requires_grad=True)
    np.multiply.reduceat(x, [0, 2, 3])[::2].sum().backward()
    assert x.grad.numpy().tolist() == [3, 2, 0, 4, 0]


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


AT = ["multiply", "divide", "maximum", "minimum", "fmax", "power", "hypot", "logical_xor", "less"]
INDICES = {
    "numbers": (np.array([2, 0, 0, 2, 0]), np.array([1.0, 2.0, 0.5, 3.0, 1.5])),
    "none": ([], 2.0),
    "pairs": ((np.array([1, 1, 2]), np.array([0, 0, 1])), np.array([2.0, 3.0, 1.5])),
    "columns": ((slice(None), np.array([1, 1])), np.array([2.0, 3.0])),
    "mask": (np.array([[True, False], [False, True], [True, True]]), 2.0),
    "element": ((1, 1), 3),
}
WRITTEN = np.array([[1.0, 2.0], [3.0, 0.0], [5.0, 6.0]])


@pytest.mark.parametrize("name", AT)
def test_at_of_any_ufunc(name, numpy_engine):
    x = WRITTEN
    ufunc = UFUNCS[name]
    for index, v in INDICES.values():
        of_rows = index is INDICES["numbers"][0]
        expected, t = (x[:, 0] if of_rows else x).copy(), ng.tensor(x[:, 0] if of_rows else x)
        ufunc.at(expected, index, v)
        assert ufunc.at(t, index, v) is None
        same_up_to_rounding(t, expected)


def test_at_of_many_elements(numpy_engine):
    """More of them than 16 bits number, some named often, in no order."""
    rng = np.random.default_rng(3)
    x, index = np.zeros(70_000), rng.integers(0, 70_000, 2000)
    index[::2] = 69_999 - index[::2] % 7
    v = rng.normal(size=2000)
    for ufunc in (np.maximum, np.divide):  # the second one in the order of the indices
        expected, t = x + 2, ng.tensor(x + 2)
        ufunc.at(expected, index, v)
        ufunc.at(t, index, v)
        same_up_to_rounding(t, expected)
    np.maximum.at(t, np.array([], int), 1.0)
    same_up_to_rounding(t, expected)


def test_at_of_a_ufunc_of_one_argument(numpy_engine):
    x = np.array([1.0, 4.0, 9.0])
    for ufunc in (np.negative, np.sqrt, np.isnan):
        expected, t = x.copy(), ng.tensor(x)
        ufunc.at(expected, [0, 1, 1, 2])
        ufunc.at(t, [0, 1, 1, 2])
        same_bits(t, expected)
    integers = np.array([6, 5, 12], np.int8)
    t = ng.tensor(integers)
    np.bitwise_and.at(t, [0, 2, 0], np.array([3, 4, 2], np.int8))
    np.gcd.at(t, ng.tensor([1]), 10)
    assert t.numpy().tolist() == [2, 5, 4] and t.dtype == np.int8


def test_derivatives_of_at(numpy_engine):
    def f(x, v):
        y = x * x
        np.multiply.at(y, np.array([0, 0, 2]), v)
        np.maximum.at(y, [1, 1], v[1:])
        np.divide.at(y, (np.array([2, 2]),), v[:2])
        np.power.at(y, 0, v[2])
        return y

    check_gradients(f, np.array([0.7, -1.2, 2.1]), np.array([1.5, 0.8, 1.1]))
    x, v = np.array([[0.7, -1.2, 2.1], [0.1, 3.0, 0.2]]), np.array([1.5, 0.8, 1.1])
    expected = np.stack([f(ng.tensor(row), ng.tensor(v)).numpy() for row in x])
    np.testing.assert_allclose(ng.vmap(f, (0, None))(x, v), expected, rtol=1e-14)


def test_at_in_kernels():
    def f(x, v):
        y = x * 1
        np.multiply.at(y, np.array([0, 0, 2, 1, 0]), v)
        np.minimum.at(y, np.array([1, 1]), v[:2])
        return y

    x, v = np.array([2.0, 3.0, 4.0]), np.array([1.5, 0.5, -1.0, 2.0, 3.0])
    np.testing.assert_array_equal(ng.jit(f)(x, v), [4.5, 0.5, -4.0])
    gradients = ng.jit(ng.grad(lambda x, v: f(x, v).sum(), argnums=(0, 1)))(x, v)
    np.testing.assert_array_equal(gradients[0], [2.25, 0.0, -1.0])
    np.testing.assert_array_equal(gradients[1], [3.0, 10.0, 4.0, 0.0, 1.5])


def test_what_at_refuses():
    x = ng.tensor([1, 2])
    with pytest.raises(DTypeError, match=r"(?s)numpy.add.at: the result would not fit.*float64"):
        np.add.at(x, 0, 1.5)
    with pytest.raises(DTypeError, match=r"(?s)numpy.sqrt.at: the result would not fit.*float64"):
        np.sqrt.at(x, 0)
    with pytest.raises(TypeError, match=r"numpy.add.at: cannot write tensors into an array"):
        np.add.at(np.zeros(2), 0, x[0])
    with pytest.raises(GradientError, match="in-place"):
        np.add.at(ng.tensor([1.0], requires_grad=True), 0, 1.0)
    with pytest.raises(IndexError, match=r"index 2 is out of bounds for axis 0"):
        np.maximum.at(x, 2, 1)
    with pytest.raises(ShapeError, match=r"v does not broadcast to the shape of x\[index\]"):
        np.maximum.at(x, [0, 1], [1, 2, 3])

    def f(x, index):
        y = x * 1
        np.maximum.at(y, index, 1)
        return y

    with pytest.raises(TracingError, match=r"(?s)numpy.maximum.at: needs the value.*known before"):
        ng.jit(f)(x, ng.tensor([0]))


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda x: np.subtract.reduce(x), r"(?s)numpy.subtract.reduce: .*not associative.*hypot"),
        (lambda x: np.power.reduceat(x, [0, 1]), "numpy.power.reduceat: .*not associative"),
        (lambda x: np.divide.accumulate(x), "numpy.divide.accumulate: .*not associative"),
        (lambda x: np.isnat(x), "numpy.isnat: not supported"),
    ],
)
def test_other_methods_are_refused_by_name(call, name):
    with pytest.raises(TypeError, match=name):
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


@pytest.mark.parametrize("name", ["bitwise_xor", "gcd", "hypot", "logaddexp2"])
def test_reductions_of_many_elements_are_one_loop(name):
    """A fold by halves would be a kernel of a thousand lines."""
    rng = np.random.default_rng(0)
    x = rng.integers(1, 100, 3000) * 12 if name in ("bitwise_xor", "gcd") else rng.random(3000)
    result = UFUNCS[name].reduce(ng.tensor(x))
    np.testing.assert_allclose(result, UFUNCS[name].reduce(x), rtol=1e-13)


def test_length_of_extremes(numpy_engine):
    for x in (
        [1e300, -1e300],
        [1e-300, 1e-300],
        [0.0, 0.0],
        [np.inf, np.nan],
        [np.nan, 1.0],
        [-3.0],
    ):
        expected = np.hypot.reduce(np.array(x))
        np.testing.assert_allclose(np.hypot.reduce(ng.tensor(x)), expected, rtol=1e-15)
    x = ng.tensor([0.0, 0.0], requires_grad=True)
    np.hypot.reduce(x).backward()
    assert x.grad.numpy().tolist() == [0.0, 0.0]


@pytest.mark.thorough(every=5)
@pytest.mark.parametrize(
    "exponents",
    [
        np.arange(5),
        np.arange(4.0)[:, None],
        np.array([[0, 1, 2], [2, 0, 1], [16, 3, 0]]),
        np.array([3, 2, 3], np.int8),
        np.zeros(3, int),
        np.array([0.5, 1.0, 2.0]),
        np.array([-1, 2, 3]),
        np.array([17, 2, 3]),
    ],
)
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex128])
def test_arrays_of_exponents(exponents, dtype):
    x = np.array([0.5, 2.0, 1.5], dtype)
    x = x[:, None] if exponents.ndim == 1 and len(exponents) != 3 else x
    got = ng.tensor(x) ** exponents
    assert got.dtype == (x**exponents).dtype
    np.testing.assert_allclose(got, x**exponents, rtol=1e-14 if got.dtype != np.float32 else 1e-6)

    def f(x):
        return np.sum(abs(np.sin(x) ** exponents) ** 2)

    each = list(np.ndenumerate(np.broadcast_to(exponents, got.shape)))

    def one_by_one(x):
        whole = np.broadcast_to(np.sin(x), got.shape)
        return sum(abs(whole[k] ** n.item()) ** 2 for k, n in each)

    for g in (ng.grad(f), ng.jit(ng.grad(f))):
        np.testing.assert_allclose(g(x), ng.grad(one_by_one)(x), rtol=1e-5)


def test_powers_of_what_is_zero_or_large_have_finite_gradients():
    x = np.array([0.0, 1e200, -1e100])
    exponents = np.array([[0, 1, 3], [1, 0, 2], [2, 1, 0]])
    with np.errstate(over="ignore"):
        expected = exponents * x ** np.maximum(exponents - 1, 0)
    got = ng.grad(lambda x: np.sum(x**exponents))(x)
    np.testing.assert_allclose(got, expected.sum(0))


def test_exponents_that_change_are_seen():
    exponents, x = np.arange(4), np.linspace(0.5, 2.0, 4)
    f = ng.jit(lambda x: x**exponents)
    for k in range(3):
        np.testing.assert_allclose(f(x), x**exponents)
        exponents[k] = 3 * k
