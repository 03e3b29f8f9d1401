"""Elementary functions: special values exactly, errors in units in the last place, packed code.

The errors of large samples are in `docs/numerics.md`; these are small ones.
"""

import ctypes
import itertools
import math
import re

import mpmath as mp
import numpy as np
import pytest

from numba_grad.compiler.building.build import build
from numba_grad.compiler.elementary import exponential, llvm_writer, power, trigonometric
from numba_grad.compiler.kernel_language import mathematics
from tests.complex_grid import AS_IN_C99, complex_grid, different_numbers, values_by_numpy

pytestmark = pytest.mark.usefixtures("own_cache")

INT64 = ctypes.c_int64
INF, NAN = math.inf, math.nan


def kernel_of(name, *dtypes, result, remark=""):
    loads = "".join(f"    a{k} = buffer(args, {k}, {d})\n" for k, d in enumerate(dtypes))
    values = ", ".join(f"a{k}[i]" for k in range(len(dtypes)))
    return build(
        f"def kernel(args, lo, hi):\n{loads}"
        f"    out = buffer(args, {len(dtypes)}, {result})\n"
        f"    for i in range(lo, hi):\n"
        f"        out[i] = {name}({values})\n{remark}"
    )


def compute(name, *arrays, result=None, remark=""):
    arrays = [np.ascontiguousarray(a) for a in arrays]
    out = np.empty(arrays[0].shape, result or arrays[0].dtype)
    names = ["bool_" if a.dtype == bool else a.dtype.name for a in (*arrays, out)]
    kernel = kernel_of(name, *names[:-1], result=names[-1], remark=remark)
    words = np.array([a.ctypes.data for a in (*arrays, out)], np.int64)
    function = ctypes.CFUNCTYPE(None, INT64, INT64, INT64)(kernel.address)
    function(words.ctypes.data, 0, out.size)
    return out


def assert_identical(actual, expected):
    """Equal including signs of zeros; any NaN equals any other."""
    __tracebackhide__ = True
    np.testing.assert_array_equal(actual, expected)
    if np.dtype(actual.dtype).kind in "fc":
        for a, e in ((actual.real, expected.real), (actual.imag, expected.imag)):
            is_number = ~np.isnan(e)
            np.testing.assert_array_equal(np.signbit(a)[is_number], np.signbit(e)[is_number])


# The functions, with their bound in units in the last place: measured, then rounded up.

UNARY = {
    "exp": (mp.exp, 1),
    "exp2": (lambda x: mp.mpf(2) ** x, 1),
    "expm1": (mp.expm1, 2),
    "log": (mp.log, 1),
    "log1p": (mp.log1p, 1.5),
    "log2": (lambda x: mp.log(x) / mp.log(2), 1),
    "log10": (mp.log10, 1),
    "sin": (mp.sin, 1),
    "cos": (mp.cos, 1),
    "tan": (mp.tan, 1),
    "asin": (mp.asin, 1.5),
    "acos": (mp.acos, 1.5),
    "atan": (mp.atan, 2.1),
    "sinh": (mp.sinh, 2),
    "cosh": (mp.cosh, 2),
    "tanh": (mp.tanh, 1),
    "asinh": (mp.asinh, 2),
    "acosh": (mp.acosh, 2),
    "atanh": (mp.atanh, 2.1),
    "sigmoid": (lambda x: 1 / (1 + mp.exp(-x)), 1.5),
    "log_sigmoid": (lambda x: -mp.log1p(mp.exp(-x)), 2),
    "erf": (mp.erf, 1.5),
    "erfc": (mp.erfc, 3.5),
    "erfinv": (mp.erfinv, 3),
    "sqrt": (mp.sqrt, 0.5),
    "cbrt": (lambda x: mp.sign(x) * mp.cbrt(abs(x)), 0.51),
}
BINARY = {
    "power": (mp.power, 1),
    "atan2": (mp.atan2, 2),
    "hypot": (mp.hypot, 1),
}
DOMAINS = {
    "log": (1e-300, 1e300),
    "log2": (1e-300, 1e300),
    "log10": (1e-300, 1e300),
    "sqrt": (1e-300, 1e300),
    "log1p": (-0.999, 1e10),
    "asin": (-1, 1),
    "acos": (-1, 1),
    "atanh": (-0.999, 0.999),
    "acosh": (1, 1e10),
    "sin": (-1e12, 1e12),
    "cos": (-1e12, 1e12),
    "tan": (-1e12, 1e12),
    "exp": (-708, 709),
    "exp2": (-1022, 1023),
    "expm1": (-50, 709),
    "sinh": (-709, 709),
    "cosh": (-709, 709),
    "sigmoid": (-708, 50),
    "erfc": (-6, 26),
    "erfinv": (-0.9999, 0.9999),
}


def sample(name, dtype, count):
    """Half near 1, half from the whole domain with exponents alike."""
    random = np.random.default_rng(sum(name.encode()))
    low, high = DOMAINS.get(name, (-100, 100))
    if dtype == np.float32:
        low, high = (max(low, -1e7), min(high, 1e7)) if high > 1000 else (low / 8.2, high / 8.2)
        low, high = (-1, 1) if name in ("asin", "acos") else (low, high)
        low = max(low, 1e-30) if name in ("log", "log2", "log10", "sqrt") else low
        low, high = (1, 1e7) if name == "acosh" else (low, high)
        low, high = (-0.99, 1e7) if name == "log1p" else (low, high)
    sign = np.where(random.integers(0, 2, count) * (low < 0), -1, 1)
    spread = sign * 10 ** random.uniform(-12, math.log10(high), count)
    near = random.uniform(-2, 2, count)
    x = np.concatenate([near, spread]).astype(dtype)
    return x[(x >= low) & (x <= high)]


def errors(function, arguments, results):
    """In units in the last place of the exact result."""
    info = np.finfo(results.dtype)
    with mp.workdps(40):
        for argument, result in zip(arguments, results, strict=True):
            exact = mp.mpf(function(*(mp.mpf(float(x)) for x in argument)))
            exponent = max(mp.frexp(exact)[1] - 1, info.minexp) if exact else info.minexp
            unit = mp.mpf(2) ** int(exponent - info.nmant)
            if abs(exact) > float(info.max):
                yield (0.0 if math.isinf(result) else INF), argument
                continue
            yield float(abs(mp.mpf(float(result)) - exact) / unit), argument


@pytest.mark.thorough(every=6)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", UNARY)
def test_error_of_one_argument(name, dtype):
    function, bound = UNARY[name]
    x = sample(name, dtype, 150)
    worst, where = max(errors(function, zip(x, strict=True), compute(name, x)))
    assert worst <= bound, f"{name}({where[0]!r})"


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", BINARY)
def test_error_of_two_arguments(name, dtype):
    function, bound = BINARY[name]
    random = np.random.default_rng(7)
    x = np.exp(random.uniform(-5, 5, 300)).astype(dtype)
    y = random.uniform(-15, 15, 300).astype(dtype)
    worst, where = max(errors(function, zip(x, y, strict=True), compute(name, x, y)))
    assert worst <= bound, f"{name}{where!r}"


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_large_powers_keep_their_digits(dtype):
    limit = 700 if dtype == np.float64 else 85
    random = np.random.default_rng(8)
    x = (1 + random.choice([-1, 1], 300) * random.uniform(1e-3, 0.3, 300)).astype(dtype)
    y = (random.uniform(-limit, limit, 300) / np.log(x.astype(np.float64))).astype(dtype)
    worst, where = max(errors(mp.power, zip(x, y, strict=True), compute("power", x, y)))
    assert worst <= 1, where


def test_representable_powers_are_exact():
    bases, exponents = (a.ravel() for a in np.meshgrid(np.arange(-20.0, 21), np.arange(0.0, 12)))
    is_exact = np.abs(bases) ** exponents < 2.0**53
    x, y = bases[is_exact], exponents[is_exact]
    expected = [float(int(a) ** int(b)) for a, b in zip(x, y, strict=True)]
    np.testing.assert_array_equal(compute("power", x, y), expected)


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_arguments_near_multiples_of_half_pi(name):
    k = np.random.default_rng(9).integers(1, 2**22, 200)
    x = k * (np.pi / 2)
    worst, where = max(errors(UNARY[name][0], zip(x, strict=True), compute(name, x)))
    assert worst <= 1, where


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_huge_arguments_one_in_a_vector(name, dtype):
    x = np.linspace(-3, 3, 203).astype(dtype)
    x[[5, 17, 40, 41, 200]] = [1e12, -3e22, np.finfo(dtype).max, 2.0**31, 1e10]
    worst, where = max(errors(UNARY[name][0], zip(x, strict=True), compute(name, x)))
    assert worst <= 1, where


# Special values.

SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 1e-30, -1e-30, INF, -INF, NAN, 1e30, -1e30]
NUMPY_NAMES = {
    "asin": "arcsin",
    "acos": "arccos",
    "atan": "arctan",
    "asinh": "arcsinh",
    "acosh": "arccosh",
    "atanh": "arctanh",
    "atan2": "arctan2",
}


def numpy_function(name):
    return getattr(np, NUMPY_NAMES.get(name, name))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", [n for n in UNARY if hasattr(np, NUMPY_NAMES.get(n, n))])
def test_special_values_are_those_of_numpy(name, dtype):
    info = np.finfo(dtype)
    tiny = [info.smallest_subnormal, -info.smallest_subnormal, info.tiny, -info.tiny]
    x = np.array([*SPECIAL, *tiny, info.max, -info.max], dtype)
    with np.errstate(all="ignore"):
        expected = numpy_function(name)(x)
    actual = compute(name, x)
    # Infinities, zeros with their sign, NaN and +-1: exactly. The rest is a matter of the bound.
    is_exact = ~np.isfinite(expected) | np.isin(expected, [0, 1, -1])
    assert_identical(actual[is_exact], expected[is_exact])
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(actual, expected, rtol=4 * info.eps, atol=0)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    ("name", "x", "expected"),
    [
        ("sigmoid", [0.0, INF, -INF, NAN, -1000.0, 1000.0], [0.5, 1, 0, NAN, 0, 1]),
        ("log_sigmoid", [INF, -INF, NAN, -1000.0, 1000.0], [0.0, -INF, NAN, -1000, 0]),
        ("erf", [0.0, -0.0, INF, -INF, NAN, 30, -30], [0.0, -0.0, 1, -1, NAN, 1, -1]),
        ("erfinv", [0.0, -0.0, 1, -1, 1.5, NAN], [0.0, -0.0, INF, -INF, NAN, NAN]),
        ("erfc", [0.0, -0.0, INF, -INF, NAN, 30, -30], [1, 1, 0, 2, NAN, 0, 2]),
    ],
)
def test_special_values(name, x, expected, dtype):
    assert_identical(compute(name, np.array(x, dtype)), np.array(expected, dtype))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", ["exp", "exp2", "sigmoid", "tanh", "sin", "expm1", "log", "erf"])
def test_subnormal_numbers(name, dtype):
    info = np.finfo(dtype)
    low = {"exp": np.log(float(info.smallest_subnormal)), "exp2": info.minexp - info.nmant}
    if name in ("exp", "exp2", "sigmoid"):  # subnormal results
        bottom = low.get(name, low["exp"])
        x = np.linspace(bottom + 0.1, bottom + 30, 40).astype(dtype)
    else:
        x = (np.arange(1, 41) * info.tiny / 50).astype(dtype)
    worst, where = max(errors(UNARY[name][0], zip(x, strict=True), compute(name, x)))
    assert worst <= max(1, UNARY[name][1]), where


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    "name", ["power", "atan2", "hypot", "fmod", "remainder", "floor_divide", "copysign"]
)
def test_special_pairs_are_those_of_numpy(name, dtype):
    info = np.finfo(dtype)
    values = [*SPECIAL, 3.0, -3.0, 2.5, info.max, info.smallest_subnormal, 1 / info.eps + 1, -7.0]
    x, y = (np.array(a, dtype) for a in zip(*itertools.product(values, values), strict=True))
    with np.errstate(all="ignore"):
        expected = numpy_function(name)(x, y)
        actual = compute(name, x, y)
        is_exact = ~np.isfinite(expected) | np.isin(expected, [0, 1, -1])
        if name not in ("power", "atan2", "hypot"):
            is_exact[:] = True
        assert_identical(actual[is_exact], expected[is_exact])
        np.testing.assert_allclose(actual, expected, rtol=4 * info.eps, atol=0)


@pytest.mark.parametrize("name", ["fmod", "remainder", "floor_divide"])
def test_division_with_remainder_is_numpys_bit_for_bit(name):
    random = np.random.default_rng(10)
    x = np.concatenate(
        [random.normal(size=500) * 10 ** random.uniform(-5, 22, 500), np.arange(500) * 0.1]
    )
    y = np.concatenate([random.normal(size=500), np.full(500, 0.1)])
    assert_identical(compute(name, x, y), getattr(np, name)(x, y))


@pytest.mark.thorough(every=3)
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "uint64"])
@pytest.mark.parametrize(
    "name",
    ["fmod", "remainder", "floor_divide", "maximum", "minimum", "left_shift", "right_shift"],
)
def test_integer_pairs_are_those_of_numpy(name, dtype):
    info = np.iinfo(dtype)
    values = [0, 1, 2, 3, 5, 7, 40, info.max, info.max - 1, info.max // 2, info.min, info.min // 2]
    if info.min:
        values += [-1, -2, -7]
    x, y = (np.array(a, dtype) for a in zip(*itertools.product(values, values), strict=True))
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(x, y)
    assert_identical(compute(name, x, y), expected)


@pytest.mark.parametrize("dtype", ["int32", "uint8", "int64"])
def test_integer_powers_wrap_around(dtype):
    low = -5 if np.iinfo(dtype).min else 0
    x, y = (a.ravel().astype(dtype) for a in np.meshgrid(np.arange(low, 12), np.arange(0, 70)))
    assert_identical(compute("power", x, y), np.power(x, y))


@pytest.mark.thorough(every=3)
@pytest.mark.parametrize("dtype", ["int8", "uint16", "int64", "float32", "float64"])
@pytest.mark.parametrize("name", ["sign", "absolute", "square", "floor", "ceil", "trunc", "rint"])
def test_signs_and_rounding_are_those_of_numpy(name, dtype):
    kind = np.dtype(dtype).kind
    if kind == "f":
        x = np.array([*SPECIAL, 1.5, 2.5, -1.5, 3.49, 1e15 + 0.5, 4503599627370497.5], dtype)
    else:
        x = np.array([0, 1, 3, np.iinfo(dtype).max, np.iinfo(dtype).min], dtype)
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(x)
    assert_identical(compute(name, x), expected)


@pytest.mark.parametrize("dtype", ["float64", "complex64", "int32"])
@pytest.mark.parametrize("name", ["isnan", "isinf", "isfinite", "logical_not"])
def test_predicates(name, dtype):
    values = [0, 1, -2] if dtype == "int32" else [0.0, -0.0, 1, INF, -INF, NAN]
    x = np.array(values, dtype)
    assert_identical(compute(name, x, result=bool), getattr(np, name)(x))


@pytest.mark.parametrize("name", ["logical_and", "logical_or", "logical_xor"])
def test_logic(name):
    x, y = np.array([0, 0, 1, 2.0]), np.array([0, NAN, 0, -1.0])
    assert_identical(compute(name, x, y, result=bool), getattr(np, name)(x, y))
    assert_identical(compute(name, x != 0, y != 0), getattr(np, name)(x != 0, y != 0))


def test_invert_of_bools_is_not():
    x = np.array([True, False])
    assert_identical(compute("invert", x), ~x)
    assert_identical(compute("invert", np.array([5, -1])), ~np.array([5, -1]))


@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_maximum_and_minimum_propagate_nan(name):
    x, y = (
        np.array(a) for a in zip(*itertools.product([1.0, INF, NAN, -2.0], repeat=2), strict=True)
    )
    assert_identical(compute(name, x, y), getattr(np, name)(x, y))


# Complex numbers.

COMPLEX = {
    "exp": mp.exp,
    "log": mp.log,
    "sqrt": mp.sqrt,
    "sin": mp.sin,
    "cos": mp.cos,
    "tan": mp.tan,
    "sinh": mp.sinh,
    "cosh": mp.cosh,
    "tanh": mp.tanh,
    "exp2": lambda z: mp.mpf(2) ** z,
    "expm1": mp.expm1,
    "log1p": mp.log1p,
    "log2": lambda z: mp.log(z) / mp.log(2),
    "log10": mp.log10,
    "sigmoid": lambda z: 1 / (1 + mp.exp(-z)),
    "asin": mp.asin,
    "acos": mp.acos,
    "atan": mp.atan,
    "asinh": mp.asinh,
    "acosh": mp.acosh,
    "atanh": mp.atanh,
    "reciprocal": lambda z: 1 / z,
    "square": lambda z: z * z,
}


def relative_errors(function, arguments, results):
    """In units of eps, of the complex number as a whole."""
    eps = float(np.finfo(results.dtype).eps)
    with mp.workdps(40):
        for argument, result in zip(arguments, results, strict=True):
            exact = function(*(mp.mpc(complex(z)) for z in argument))
            yield float(abs(mp.mpc(complex(result)) - exact) / abs(exact)) / eps


def complex_sample(dtype, seed=11):
    random = np.random.default_rng(seed)
    sizes = random.choice([-1, 1], (2, 150)) * 10 ** random.uniform(-3, 1, (2, 150))
    around_1 = np.exp(1j * random.uniform(-3, 3, 50))
    return np.concatenate([sizes[0] + 1j * sizes[1], around_1]).astype(dtype)


@pytest.mark.thorough(every=9)
@pytest.mark.parametrize("dtype", [np.complex128, np.complex64])
@pytest.mark.parametrize("name", COMPLEX)
def test_error_of_complex_functions(name, dtype):
    z = complex_sample(dtype)
    assert max(relative_errors(COMPLEX[name], zip(z, strict=True), compute(name, z))) <= 3


@pytest.mark.parametrize("dtype", [np.complex128, np.complex64])
def test_complex_division_and_power(dtype):
    z, w = complex_sample(dtype), complex_sample(dtype, seed=12)
    pairs = list(zip(z, w, strict=True))
    assert max(relative_errors(lambda a, b: a / b, pairs, compute("divide", z, w))) <= 3
    # Rounding errors of w log z count absolutely.
    w = w / np.maximum(np.abs(w), 1)
    pairs = list(zip(z, w, strict=True))
    assert max(relative_errors(mp.power, pairs, compute("power", z, w))) <= 10


def test_complex_numbers_that_overflow_on_the_way():
    steep = np.array([1 + 1e-200j, 1 - 5e-324j, -1 + 1e-170j, 1e200 + 1e190j])
    np.testing.assert_allclose(compute("atanh", steep), np.arctanh(steep), rtol=1e-15)
    z = np.array([1e300 + 1e300j, 1e-310 + 1e-310j, 3e200 - 4e200j, 5e-324j])
    np.testing.assert_allclose(compute("absolute", z, result=float), np.abs(z), rtol=1e-15)
    np.testing.assert_allclose(compute("sqrt", z), np.sqrt(z), rtol=1e-15)
    np.testing.assert_allclose(compute("log", z), np.log(z), rtol=1e-15)
    large = np.array([709.9 + 1j, 709.9 - 0.8j])
    assert max(relative_errors(mp.exp, zip(large, strict=True), compute("exp", large))) <= 3


@pytest.mark.thorough(every=4)
@pytest.mark.parametrize(("dtype", "overflow"), [(np.complex128, 709.78), (np.complex64, 88.72)])
@pytest.mark.parametrize("name", ["sinh", "cosh", "sin", "cos"])
def test_complex_hyperbolic_functions_are_numbers_as_long_as_numpys(name, dtype, overflow):
    rng = np.random.default_rng(5)
    large = rng.uniform(overflow - 4, overflow + 20, 400) * rng.choice([-1, 1], 400)
    direction = np.concatenate([rng.uniform(-7, 7, 200), 10 ** rng.uniform(-9, -1, 200)])
    z = (large + 1j * direction if name.endswith("h") else direction + 1j * large).astype(dtype)
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(z)
    actual = compute(name, z)
    for ours, numpys in ((actual.real, expected.real), (actual.imag, expected.imag)):
        np.testing.assert_array_equal(np.isfinite(ours), np.isfinite(numpys))
    is_number = np.isfinite(expected)
    assert 50 < is_number.sum() < 350
    np.testing.assert_allclose(actual[is_number], expected[is_number], rtol=8 * np.finfo(dtype).eps)


@pytest.mark.thorough(every=3)
@pytest.mark.parametrize("dtype", [np.complex128, np.complex64])
@pytest.mark.parametrize(("numpy_name", "name"), AS_IN_C99.items(), ids=AS_IN_C99)
def test_complex_functions_of_zeros_infinities_and_nan_are_numpys(numpy_name, name, dtype):
    z = complex_grid(dtype)
    expected = values_by_numpy(numpy_name, z)
    actual = compute(name, z, result=expected.dtype)
    assert not different_numbers(z.tolist(), actual, expected)


@pytest.mark.parametrize("dtype", [np.complex128, np.complex64])
def test_complex_division_by_zeros_infinities_and_nan_is_numpys(dtype):
    z = complex_grid(dtype, [0.0, -0.0, 1.0, -2.0, INF, -INF, NAN])
    x, y = np.repeat(z, z.size), np.tile(z, z.size)
    with np.errstate(all="ignore"):
        expected = x / y
    actual = compute("divide", x, y)
    assert not different_numbers(list(zip(x, y, strict=True)), actual, expected)


# Array API standard, 2024.12; NumPy's are nan where expm1(x) and cos(y) or sin(y) are 0 and inf.
EXPM1 = {
    **{0j: 0, complex(-0.0, 0): 0, complex(INF, 0): INF, complex(-INF, 2): complex(-1, 0)},
    **{complex(INF, 1): complex(INF, INF), complex(INF, 4): complex(-INF, -INF)},
    **{complex(-INF, INF): -1, complex(INF, INF): complex(INF, NAN), complex(-INF, NAN): -1},
    **{complex(INF, NAN): complex(INF, NAN), complex(NAN, 0): complex(NAN, 0)},
    **{complex(0, INF): complex(NAN, NAN), complex(NAN, 1): complex(NAN, NAN)},
}


@pytest.mark.parametrize("dtype", [np.complex128, np.complex64])
def test_expm1_of_complex_infinities_and_nan_is_the_standards(dtype):
    z, expected = np.array(list(EXPM1), dtype), np.array(list(EXPM1.values()), dtype)
    assert not different_numbers(z.tolist(), compute("expm1", z), expected)


def test_direction_of_complex_numbers_next_to_zero_and_infinity():
    huge = np.finfo(float).max
    z = np.array([0, huge + huge * 1j, 5e-324j, complex(-INF, 3), complex(2, INF)])
    expected = np.array([0, math.sqrt(0.5) * (1 + 1j), 1j, -1, 1j])
    assert not different_numbers(z.tolist(), compute("sign", z), expected)
    lost = np.array([complex(INF, INF), complex(INF, NAN), complex(NAN, 1), complex(1, NAN)])
    signs = compute("sign", lost)
    assert np.isnan(signs.real).all() and np.isnan(signs.imag).all()


def test_complex_powers_with_real_exponents_of_infinities():
    z = np.array([complex(INF, 0), complex(INF, -0.0), complex(-INF, 0), complex(0, INF)])
    squares = compute("power", z, np.full(4, 2 + 0j))
    np.testing.assert_array_equal(np.isnan(squares), False)
    roots = compute("power", z, np.full(4, 0.5 + 0j))
    np.testing.assert_array_equal(roots[:2], [complex(INF, 0), complex(INF, -0.0)])
    assert roots[2].imag == INF and roots[3] == complex(INF, INF)
    assert np.isnan(compute("power", z, np.full(4, NAN + 0j))).all()


@pytest.mark.parametrize("name", ["asin", "acos", "atan", "asinh", "acosh", "atanh"])
def test_branch_cuts_are_those_of_numpy(name):
    parts = [0.0, -0.0, 0.5, -0.5, 2.0, -2.0]
    z = np.array([complex(a, b) for a, b in itertools.product(parts, parts)])
    actual, expected = compute(name, z), numpy_function(name)(z)
    np.testing.assert_allclose(actual, expected, rtol=1e-15, atol=0)
    np.testing.assert_array_equal(np.signbit(actual.imag), np.signbit(expected.imag))


def test_parts_of_complex_numbers():
    z = complex_sample(np.complex64)
    assert_identical(compute("real", z, result=np.float32), z.real)
    assert_identical(compute("imag", z, result=np.float32), z.imag)
    assert_identical(compute("conjugate", z), z.conjugate())
    x, y = z.real.copy(), z.imag.copy()
    assert_identical(compute("make_complex", x, y, result=np.complex64), z)


# Vectorization.

# Floating-point arithmetic on more than one lane: of x86 with AVX, or of ARM.
PACKED = re.compile(
    r"^\s+(v(f?n?m?(add|sub|mul|div|madd|msub)\d*|sqrt|rndscale|round|cmp\w*|and|ternlog)p?[sdq]\s.*[yz]mm"
    r"|(fmla|fmul|fadd|fsqrt|frint\w|fabs|fcmg\w)\s.*\bv\d+\.)",
    re.MULTILINE,
)


@pytest.mark.thorough(every=6)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", [*UNARY, "absolute", "floor", "rint"])
def test_loops_of_one_argument_are_vectorized(name, dtype):
    assert PACKED.search(kernel_of(name, dtype, result=dtype).asm)


@pytest.mark.thorough(every=3)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", [*BINARY, "fmod", "remainder", "floor_divide", "maximum"])
def test_loops_of_two_arguments_are_vectorized(name, dtype):
    assert PACKED.search(kernel_of(name, dtype, dtype, result=dtype).asm)


@pytest.mark.thorough(every=4)
@pytest.mark.parametrize("name", COMPLEX)
def test_complex_loops_are_vectorized(name):
    assert PACKED.search(kernel_of(name, "complex128", result="complex128").asm)


# Targets without fused multiply-add: the same formulas with other steps.


@pytest.mark.parametrize(
    ("name", "formula", "arity"),
    [
        ("exp", exponential.exp, 1),
        ("sin", trigonometric.sin, 1),
        ("tan", trigonometric.tan, 1),
        ("power", power.power, 2),
    ],
)
def test_formulas_without_fma_use_none(name, formula, arity):
    traced = llvm_writer.trace(name, formula, ("double",) * arity, has_fma=False)
    assert "llvm.fma" not in traced.text


@pytest.mark.parametrize("name", ["exp", "sin", "cos", "tan", "tanh", "log", "erf", "cbrt"])
def test_error_without_fma(name, monkeypatch):
    monkeypatch.setattr(mathematics, "has_fma", lambda: False)
    mathematics._traced.cache_clear()
    x = sample(name, np.float64, 100)
    try:
        # The remark makes it another kernel than that of the other tests.
        results = compute(name, x, remark="# without fma\n")
    finally:
        mathematics._traced.cache_clear()
    worst, where = max(errors(UNARY[name][0], zip(x, strict=True), results))
    assert worst <= UNARY[name][1], where
