"""What device functions compute: run thread by thread by the emulator, compared with NumPy."""

import mpmath as mp
import numpy as np
import pytest

from numba_grad.compiler.cuda import device_functions
from numba_grad.compiler.cuda.expressions import KernelExpressions, constant
from numba_grad.compiler.scalar_expressions import parsed
from numba_grad.errors import KernelError
from numba_grad.ops.samples import draw
from tests.complex_grid import AS_IN_C99, complex_grid, different_numbers, values_by_numpy
from tests.cuda.emulator import HostMemory, run_kernel
from tests.cuda.expression_kernels import Case, cases, source_of

COUNT = 24
# Units in the last place: the formulas' own bounds (docs/numerics.md) and the reference's error.
ULPS = 6
# Those whose results cancel, or amplify the errors of their steps, on the CPU as well.
MORE_ULPS = {
    **{"integer_power": 40, "kl_div": 64, "log_ndtr": 8, "integer_zeta": 16},
    **{"beta": 24, "betaln": 24, "gammainc": 24, "gammaincc": 24, "betainc": 40},
    **{"exp1": 24, "cosine_integral": 16},
    # Next to zeros; SciPy errs by as much.
    **{"jv": 128, "hyp1f1": 128},
    # SciPy errs by as much
    **{"iv": 24, "ive": 512, "kv": 512, "kve": 512, "yv": 128},
}
# Of complex numbers: SciPy's errors and ours, in units of the larger part.
MORE_ULPS_OF_COMPLEX = {
    *("erf", "erfc", "erfcx", "ndtr", "log_ndtr", "gamma", "rgamma", "loggamma", "digamma"),
    *("exp1", "expi", "sine_integral", "cosine_integral", "jv", "complex_hyp1f1"),
}


# Where SciPy's values have some nine digits.
EXACT_OF_COMPLEX = {
    "exp1": mp.e1,
    "log_ndtr": lambda z: mp.log(mp.erfc(-z / mp.sqrt(2)) / 2),
}


def exact_of_complex(name: str, array: np.ndarray) -> np.ndarray:
    """From the upper half plane, as mpmath has no signed zeros."""
    upper = np.where(np.signbit(array.imag), array.conj(), array).astype(complex)
    with mp.workdps(120):
        values = np.array([complex(EXACT_OF_COMPLEX[name](mp.mpc(z))) for z in upper])
    values = np.where(np.signbit(array.imag), values.conj(), values)
    return values.astype(array.dtype)


def computed(case: Case, inputs: list[np.ndarray]) -> np.ndarray:
    memory = HostMemory()
    arrays = [np.ascontiguousarray(a) for a in inputs]
    arrays.append(np.zeros(arrays[0].shape, case.result))
    words = [memory.add(a) for a in arrays]
    run_kernel(source_of([case]), 1, arrays[0].size, [arrays[0].size, *words], memory)
    return arrays[-1]


def reference(case: Case, inputs: list[np.ndarray]) -> np.ndarray:
    """NumPy's and SciPy's values, those of float32 by way of float64."""
    if case.result.kind == "c" and case.op.name in EXACT_OF_COMPLEX:
        return exact_of_complex(case.op.name, inputs[0])
    wide = {"e": np.float64, "f": np.float64, "F": np.complex128}
    if case.result.kind in "fc" and case.op.name not in ("nextafter", "cast", "float_of_bits"):
        inputs = [a.astype(wide.get(a.dtype.char, a.dtype)) for a in inputs]
    with np.errstate(all="ignore"):
        found = np.asarray(case.op.reference(*inputs, **case.params))
        return found if case.result.kind not in "fc" else found.astype(case.result)


def assert_same(case: Case, inputs: list[np.ndarray]) -> None:
    __tracebackhide__ = True
    actual, wanted = computed(case, inputs), reference(case, inputs)
    if case.result.kind not in "fc":
        np.testing.assert_array_equal(actual, wanted)
        return
    ulps = MORE_ULPS.get(case.op.name, ULPS)
    if case.result.kind == "c" and case.op.name in MORE_ULPS_OF_COMPLEX:
        ulps = 256
    np.testing.assert_allclose(actual, wanted, rtol=ulps * np.finfo(case.result).eps, atol=0)


@pytest.mark.thorough(every=10)
@pytest.mark.parametrize("case", list(cases()), ids=str)
def test_values_are_numpys(case):
    random = np.random.default_rng(sum(str(case).encode()))
    assert_same(
        case,
        [
            draw(random, (COUNT,), dtype, low, high)
            for dtype, (low, high) in zip(case.dtypes, case.op.samples, strict=True)
        ],
    )


# Where C, NumPy and libdevice have different opinions if one is careless.
SPECIAL = [0.0, -0.0, 1.0, -1.0, 2.5, -2.5, np.inf, -np.inf, np.nan, 1e30, -1e30]
EXACT_ON_SPECIAL = {
    *("add", "subtract", "multiply", "divide", "negative", "absolute", "sign", "maximum"),
    *("minimum", "copysign", "floor", "ceil", "trunc", "rint", "isnan", "isinf", "isfinite"),
    *("equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "fmod"),
    *("remainder", "floor_divide", "sqrt", "reciprocal", "square", "logical_and", "logical_or"),
    *("logical_xor", "logical_not", "exp", "log", "tanh", "sigmoid", "power", "hypot"),
    *("arctan2", "where", "cast", "expm1", "log1p", "erf", "erfc", "gammaln"),
}


def special_cases():
    for case in cases("fd"):
        if case.op.name in EXACT_ON_SPECIAL and all(d.kind == "f" for d in case.dtypes):
            yield case


@pytest.mark.thorough(every=3)
@pytest.mark.parametrize("case", list(special_cases()), ids=str)
def test_special_values_are_numpys(case):
    if len(case.dtypes) == 1:
        columns = [SPECIAL]
    else:
        columns = [np.repeat(SPECIAL, len(SPECIAL)), SPECIAL * len(SPECIAL)]
    inputs = [np.array(c, d) for c, d in zip(columns, case.dtypes, strict=True)]
    if case.op.name in ("maximum", "minimum"):  # either zero may win, in NumPy too
        keep = (inputs[0] != 0) | (inputs[1] != 0)
        inputs = [a[keep] for a in inputs]
    actual, wanted = computed(case, inputs), reference(case, inputs)
    if case.result.kind == "f" and case.op.name not in ("power", "hypot", "arctan2"):
        is_number = ~np.isnan(wanted)
        np.testing.assert_array_equal(np.signbit(actual)[is_number], np.signbit(wanted)[is_number])
    assert_same(case, inputs)


def complex_cases():
    for case in cases("FD"):
        if case.op.name in AS_IN_C99:
            yield case


@pytest.mark.thorough(every=5)
@pytest.mark.parametrize("case", list(complex_cases()), ids=str)
def test_complex_functions_of_zeros_infinities_and_nan_are_numpys(case):
    z = complex_grid(case.dtypes[0])
    expected = values_by_numpy(case.op.name, z)
    assert not different_numbers(z.tolist(), computed(case, [z]), expected)


# Over all of their ranges, and at their edges, functions that are SciPy's on the CPU.
POSITIVE = [
    1e-8,
    0.01,
    0.3,
    0.5,
    1.0,
    1.4,
    1.6,
    2.0,
    3.9,
    4.1,
    7.9,
    8.1,
    15.0,
    39.0,
    41.0,
    80.0,
    400.0,
]
REAL = [*(-x for x in POSITIVE if x < 100), 0.0, *POSITIVE, -0.5, -1.5, np.nan, np.inf]
WIDE = {
    "rgamma": ([x for x in REAL if x < 165],),
    "riemann_zeta": ([x for x in REAL if x != -np.inf],),
    "i0": ([x for x in REAL if x != np.inf],),
    "i1": ([x for x in REAL if x != np.inf],),
    "i0e": (REAL[:-1],),
    "i1e": (REAL[:-1],),
    "jv": (
        [0, 1, 2, 7, 20, 100, 0.5, 2.7, 50.5, 300.25, -0.5, -1.3, -2, -3, -7.8, -20.4],
        [0, 1e-8, 0.5, 1.99, 2.01, 5, 12, 29.9, 30.1, 50, 300, 1000, -3, np.inf, np.nan],
    ),
    **dict.fromkeys(
        ("iv", "ive"),
        (
            [0, 1, 2, 7, 20, 100, 0.5, 2.7, 50.5, 300.25, -0.5, -1.3, -2, -3, -7.8],
            [0, 1e-8, 0.5, 2, 5, 12, 29.9, 30.1, 50, 300, 650, -3, np.nan],
        ),
    ),
    **dict.fromkeys(("k0", "k1", "k0e", "k1e"), (REAL,)),
    **dict.fromkeys(
        ("kv", "kve"),
        (
            [0, 1, 2, 7, 20, 100, 0.5, 2.7, 50.5, 300.25, -1.3, -7, 1e-3],
            [0, 1e-200, 1e-8, 0.5, 2, 5, 29.9, 300, 650, 1e4, -3, np.inf, np.nan],
        ),
    ),
    "yv": (
        [0, 1, 2, 7, 20, 100, 0.5, 2.7, 50.5, 300.25, -1.3, -2, -3, -7.8, 1e-3],
        [0, 1e-200, 1e-8, 0.5, 1.99, 2.01, 5, 12, 29.9, 30.1, 50, 300, -3, np.inf, np.nan],
    ),
    "hyp1f1": (
        [0.5, 1, 7.3, 30, -0.5, -2, -7, -5.5, -30],
        [0.5, 1, 2.5, 12.3, -0.5, -3.3],
        [-600, -55, -45, -5, -0.1, 0.3, 8, 49, 51, 300],
    ),
    "exp1": (REAL,),
    "expi": ([*REAL, 0.37, 0.3725, 0.38, 0.6, 0.1],),
    "sine_integral": ([*REAL, -np.inf],),
    "cosine_integral": ([0.0, *POSITIVE, np.nan, np.inf],),
    "gammainc": (
        [0.01, 0.5, 1, 5, 9.9, 10.1, 50, 500, 1e4],
        [0.01, 0.5, 0.9, 0.99, 1, 1.01, 1.1, 2, 9],
    ),
    "gammaincc": (
        [0.01, 0.5, 1, 5, 9.9, 10.1, 50, 500, 1e4],
        [0.01, 0.5, 0.9, 0.99, 1, 1.01, 1.1, 2],
    ),
    "beta": ([0.1, 3, 80, -0.5, -1.5, -2, 0], [0.3, 2, 1, 60, -0.7, -2.5]),
    "betaln": ([0.1, 3, 80, -0.5, -1.5, -2, 0], [0.3, 2, 1, 60, -0.7, -2.5]),
    "betainc": ([0.1, 1, 5, 60, 400], [0.2, 1, 7, 300], [0.0, 0.01, 0.3, 0.5, 0.9, 0.999, 1.0]),
}
RELATIVE = {
    "gammainc": 1e-12,
    "gammaincc": 3e-13,
    "betainc": 1e-12,
    "beta": 3e-13,
    "betaln": 1e-12,
    "jv": 3e-13,
    "iv": 1e-12,
    "ive": 1e-12,
    "kv": 3e-13,
    "kve": 3e-13,
    "yv": 3e-13,
    "hyp1f1": 3e-12,
}
ABSOLUTE = {
    "cosine_integral": 1e-15,
    "riemann_zeta": 1e-15,
    "betaln": 1e-13,
    "expi": 1e-15,
    "jv": 2e-14,
    "yv": 2e-14,
}


@pytest.mark.thorough(every=4)
@pytest.mark.parametrize("case", [c for c in cases("d") if c.op.name in WIDE], ids=str)
def test_scipys_functions_over_their_ranges(case):
    name = case.op.name
    grid = np.meshgrid(*(np.array(axis, float) for axis in WIDE[name]))
    inputs = [axis.ravel() for axis in grid]
    if name in ("gammainc", "gammaincc"):
        inputs[1] = inputs[1] * inputs[0]
    actual, wanted = computed(case, inputs), reference(case, inputs)
    tolerance = RELATIVE.get(name, 5e-14)
    np.testing.assert_allclose(actual, wanted, rtol=tolerance, atol=ABSOLUTE.get(name, 0))


# Circles about 0 and points next to where formulas change, on both sides of the real axis.
PLANE = np.concatenate(
    [
        *(
            radius * np.exp(1j * np.linspace(0.1, 6.2, 9))
            for radius in (1e-3, 0.3, 0.79, 1.4, 1.9, 2.1, 4.9, 5.1, 6.2, 9.0, 12.0)
        ),
        *(
            x + 1j * np.array([-1.0, -1e-3, -0.0, 0.0, 1e-3])
            for x in (0.5, 0.95, 1.05, 1.95, 2.05, 4.5, 6.9, 7.1, -0.3, -1.5, -4.9, -6.5, -10.3)
        ),
    ]
)
FARTHER = np.concatenate([PLANE, 39 * PLANE[:9] / 1e-3, 41 * PLANE[:9] / 1e-3])
OF_PLANE = {
    **dict.fromkeys(("loggamma", "gamma", "rgamma", "digamma"), FARTHER),
    **dict.fromkeys(("exp1", "expi", "sine_integral", "cosine_integral"), FARTHER),
    **dict.fromkeys(("erf", "erfc", "erfcx", "ndtr", "log_ndtr"), PLANE),
}


@pytest.mark.thorough(every=3)
@pytest.mark.parametrize("case", [c for c in cases("D") if c.op.name in OF_PLANE], ids=str)
def test_scipys_functions_of_complex_numbers(case):
    """With SciPy's branches; relative to the larger part."""
    z = OF_PLANE[case.op.name]
    actual, wanted = computed(case, [z]), reference(case, [z])
    np.testing.assert_array_equal(np.isfinite(actual), np.isfinite(wanted))
    np.testing.assert_allclose(actual, wanted, rtol=2e-13, atol=0)


@pytest.mark.thorough
def test_bessel_functions_of_complex_numbers():
    """Negative orders that are not whole come by a recurrence that loses two digits."""
    z = FARTHER[FARTHER.imag != 0]
    (case,) = [c for c in cases("D") if c.op.name == "jv"]
    for order in (0, 1, 5, 30, 0.5, 2.7, 50.5, -0.5, -3, -7.8):
        wanted = np.array([complex(mp.besselj(order, mp.mpc(w))) for w in z])
        actual = computed(case, [np.full(z.shape, order, complex), z])
        is_recurrence = order < 0 and order != round(order)
        np.testing.assert_allclose(actual, wanted, rtol=5e-12 if is_recurrence else 5e-14, atol=0)


def test_bessel_functions_of_huge_orders_end():
    """A kernel that does not come back takes the GPU with it."""
    orders, x = np.array([1e8 + 0.5, -1e8 + 0.5, 1e9, -1e9 + 0.5]), np.array([1.0, 1.0, 1e5, 1e5])
    for case in cases("dD"):
        if case.op.name == "jv":
            found = computed(case, [a.astype(case.result) for a in (orders, x)])
            assert found[0] == 0 and not np.any(np.isfinite(found[1:]))


def test_modified_bessel_functions_of_huge_numbers_end():
    orders = np.array([0, 1e308, 1e308, 1e200, 1e17, -1e300, 3e8, 1e10])
    x = np.array([1.7e308, 2, 1e308, 1e200, 1e16, 1e-200, 3e8, 1e-299])
    limits = {
        "kv": [0, np.inf, 0, 0, np.inf, np.inf, 0, np.inf],
        "kve": [np.sqrt(np.pi / 3.4) * 1e-154, *[np.inf] * 7],
    }
    for case in cases("d"):
        if case.op.name in limits:
            found = computed(case, [orders, x])
            np.testing.assert_allclose(found, limits[case.op.name], rtol=1e-14)


def test_kummers_function_next_to_poles_of_gamma():
    """Where b - a has no digit left, and where a is 1 but b far above x."""
    a, b = [1.080797487210932, 2876447899322.2993], [0.08079748721093201, 2876447899323.2993]
    (case,) = [c for c in cases("d") if c.op.name == "hyp1f1"]
    found = computed(case, [np.array(a), np.array(b), np.array([-1e10, -51.4])])
    np.testing.assert_allclose(found, [np.nan, np.exp(-51.4)], rtol=1e-9)


@pytest.mark.thorough
def test_kummers_function_of_complex_numbers():
    z = np.concatenate([FARTHER[::5], [400 + 3j, -600 + 3j]])
    (case,) = [c for c in cases("D") if c.op.name == "complex_hyp1f1"]
    for a, b in [(0.5, 1.5), (7.3, 2.5), (30, -3.3), (-5.5, 12.3), (-2, 0.5)]:
        wanted = [complex(mp.hyp1f1(a, b, mp.mpc(w), maxprec=10**5, maxterms=10**6)) for w in z]
        parameters = [np.full(z.shape, p, complex) for p in (a, b)]
        actual = computed(case, [*parameters, z])
        np.testing.assert_allclose(actual, wanted, rtol=1e-13, atol=0)


def test_infinite_real_numbers_as_complex_ones():
    z = np.array([np.inf, -np.inf], complex)
    for case in cases("D"):
        if case.op.name in ("erf", "erfc", "erfcx", "ndtr"):
            np.testing.assert_array_equal(computed(case, [z]), reference(case, [z]))
        if case.op.name in ("digamma", "log_ndtr"):
            assert computed(case, [z])[0] == reference(case, [z])[0]


def test_poles_of_gamma_functions():
    z = np.array([0, -1, -7, 1, 2], complex)
    found = {c.op.name: computed(c, [z]) for c in cases("D") if "gamma" in c.op.name}
    assert np.all(np.isnan(found["loggamma"][:3])) and np.all(np.isnan(found["digamma"][:3]))
    np.testing.assert_array_equal(found["rgamma"], [0, 0, 0, 1, 1])
    np.testing.assert_array_equal(found["loggamma"][3:], [0, 0])


def test_edges_of_incomplete_functions():
    edges = [0.0, 1.5, np.inf, np.nan, -1.0]
    a, x = (axis.ravel() for axis in np.meshgrid(edges, edges))
    for name in ("gammainc", "gammaincc"):
        (case,) = [c for c in cases("d") if c.op.name == name]
        np.testing.assert_allclose(computed(case, [a, x]), reference(case, [a, x]), rtol=1e-14)


# Traced for float32 alone: the CPU computes some of them in float64. Measured with 1000 arguments,
# then rounded up; libdevice's are NVIDIA's to test.
FLOAT32_ULPS = {
    "power": (1, [(0.01, 100), (-6, 6)]),
    "hypot": (0.6, [(-9, 9), (-9, 9)]),
    "tan": (1, [(-100, 100)]),
    "arctan2": (2, [(-3, 3), (-3, 3)]),
    "sinh": (1.5, [(-80, 80)]),
    "arcsinh": (1.5, [(-20, 20)]),
    "arccosh": (2, [(1, 20)]),
    "arctanh": (2.5, [(-1, 1)]),
    "sigmoid": (1.5, [(-80, 80)]),
    "erfc": (3.5, [(-3, 9)]),
    "gamma": (3.5, [(0.05, 33)]),
    "gammaln": (3.5, [(3, 1000)]),
}


@pytest.mark.parametrize(
    "case", [c for c in cases("f") if c.op.name in FLOAT32_ULPS], ids=lambda c: c.op.name
)
def test_errors_of_float32(case):
    most, ranges = FLOAT32_ULPS[case.op.name]
    random = np.random.default_rng(1)
    inputs = [random.uniform(low, high, 200).astype(np.float32) for low, high in ranges]
    exact = case.op.reference(*(a.astype(np.float64) for a in inputs))
    unit = 2.0 ** (np.floor(np.log2(np.abs(exact))) - 23)
    is_normal = np.abs(exact) > 1e-37
    assert np.all(np.abs(computed(case, inputs) - exact)[is_normal] <= (most * unit)[is_normal])


INTEGERS = {
    "b": [0, 1, -1, 2, 7, -7, 127, -128],
    "i": [0, 1, -1, 3, -3, 31, 2**31 - 1, -(2**31)],
    "q": [0, 1, -1, 3, -3, 63, 2**63 - 1, -(2**63)],
    "B": [0, 1, 2, 7, 8, 127, 128, 255],
    "Q": [0, 1, 2, 63, 64, 2**63, 2**64 - 1],
}
ON_INTEGERS = {
    *("floor_divide", "remainder", "fmod", "left_shift", "right_shift", "power", "gcd", "lcm"),
    *("absolute", "negative", "sign", "add", "multiply", "invert", "bitwise_count", "maximum"),
    *("minimum", "reciprocal", "bitwise_and", "bitwise_or", "bitwise_xor", "less", "equal"),
}


@pytest.mark.parametrize("case", [c for c in cases("biqBQ") if c.op.name in ON_INTEGERS], ids=str)
def test_integers_wrap_and_divide_as_numpys(case):
    dtype = case.dtypes[0]
    values = np.array(INTEGERS[dtype.char.replace("l", "q").replace("L", "Q")], dtype)
    inputs = [values]
    if len(case.dtypes) == 2:
        inputs = [np.repeat(values, values.size), np.tile(values, values.size)]
    if case.op.name == "power":  # NumPy refuses negative exponents
        keep = inputs[1] >= 0
        inputs = [a[keep] for a in inputs]
    if case.op.name in ("floor_divide", "remainder", "fmod") and inputs[0].dtype.kind == "i":
        # NumPy's own quotient of the least integer by -1 differs between its loops.
        keep = (inputs[1] != -1) | (inputs[0] != np.iinfo(inputs[0].dtype).min)
        inputs = [a[keep] for a in inputs]
    if case.op.name == "reciprocal":
        inputs = [a[a != 0] for a in inputs]
    assert_same(case, inputs)


CASTS = [0.0, -0.5, 1.9, -1.9, 3e9, -3e9, 1e19, -1e19, 1.5e19, np.inf, -np.inf, np.nan, 300.0]


@pytest.mark.filterwarnings("ignore:invalid value encountered in cast")
@pytest.mark.parametrize("target", [*"bhilBHIL", "?", "e", "f", "d", "F"])
@pytest.mark.parametrize("source", ["f", "d", "F", "D", "b", "Q", "?"])
def test_casts_are_the_cpus(source, target):
    """On x86 NumPy's are: a floating number goes through int32 or int64."""
    source, target = np.dtype(source), np.dtype(target)
    values = np.array(CASTS if source.kind in "fc" else [0, 1, 127], source)
    expressions = KernelExpressions()
    own = "bool_" if target.kind == "b" else target.name
    loaded = "x[i] != uint8(0)" if source.kind == "b" else "x[i]"
    text = expressions.apply(
        parsed(f"cast({{x}}, {own})"), {"x": ("a", source)}, target, target.kind in "iub"
    )
    stored = {"?": "uint8({})", "e": "float16({})"}.get(target.char, "{}")
    names = ["uint8" if d.kind == "b" else d.name for d in (source, target)]
    kernel = (
        f'@cuda.jit("void(CPointer({names[0]}), CPointer({names[1]}))")\n'
        "def kernel(x, y):\n"
        "    i = cuda.threadIdx.x\n"
        f"    a = {loaded}\n"
        f"    y[i] = {stored.format(text)}\n"
    )
    memory, result = HostMemory(), np.zeros(values.shape, target)
    words = [memory.add(values), memory.add(result)]
    run_kernel("\n\n".join([*expressions.definitions(), kernel]), 1, values.size, words, memory)
    real = values.real if source.kind == "c" and target.kind not in "cb" else values
    with np.errstate(all="ignore"):
        if source.kind in "fc" and target.kind in "iu" and target.itemsize < 8:
            wide = np.int64 if target.name == "uint32" else np.int32
            wanted = real.astype(wide).astype(target)
        else:
            wanted = real.astype(target)
    np.testing.assert_array_equal(result, wanted)


def test_float64_becomes_float16_with_one_rounding():
    # By way of float32 this would round twice, to 1 + 2**-10.
    value = 1 + 2.0**-11 + 2.0**-30
    assert np.float16(value) == 1 + 2.0**-10
    below = 1 + 2.0**-11 - 2.0**-30
    expressions = KernelExpressions()
    text = expressions.apply(
        parsed("cast({x}, float16)"), {"x": ("x[i]", np.dtype(float))}, np.dtype("e"), False
    )
    kernel = (
        '@cuda.jit("void(CPointer(float64), CPointer(float16))")\n'
        f"def kernel(x, y):\n    i = cuda.threadIdx.x\n    y[i] = float16({text})\n"
    )
    values = np.array([value, below, -value, 1e300, 6e-8, np.nan, 0.0])
    memory, result = HostMemory(), np.zeros(values.shape, np.float16)
    words = [memory.add(values), memory.add(result)]
    run_kernel("\n\n".join([*expressions.definitions(), kernel]), 1, values.size, words, memory)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(result, values.astype(np.float16))


def test_the_first_index_out_of_range_is_recorded():
    expressions = KernelExpressions()
    int64 = np.dtype(np.int64)
    operands = {"i": ("x[task]", int64), "n": ("n0", int64)}
    text = expressions.apply(parsed("check_index({i}, {n}, errors, 7)"), operands, int64, False)
    kernel = (
        '@cuda.jit("void(int64, CPointer(int64), CPointer(int64), CPointer(int64))")\n'
        "def kernel(n0, x, y, errors):\n"
        f"    task = cuda.threadIdx.x\n    y[task] = {text}\n"
    )
    indices = np.array([0, 4, -1, -5, 5, -6, 99])
    memory, result, errors = HostMemory(), np.zeros_like(indices), np.zeros(4, np.int64)
    words = [5, *(memory.add(a) for a in (indices, result, errors))]
    run_kernel("\n\n".join([*expressions.definitions(), kernel]), 1, indices.size, words, memory)
    np.testing.assert_array_equal(result, [0, 4, 4, 0, 0, 0, 0])
    np.testing.assert_array_equal(errors, [1, 7, 5, 5])


@pytest.mark.parametrize("name", ["sine_integral_float64", "complex_jv_complex128"])
def test_what_gpus_do_not_have_is_an_error_by_name(name, monkeypatch):
    """There is nothing of that sort: as if a device function were not."""
    own, _, dtype = name.rpartition("_")
    function = own.removeprefix("complex_").replace("jv", "bessel_j")
    monkeypatch.delitem(device_functions._WRITTEN, own)
    device_functions._traced.cache_clear()
    with pytest.raises(KernelError, match=rf"no {function} of {dtype} on GPUs[\s\S]*cpu"):
        device_functions.known(f"{function}_{dtype}")


def test_texts_are_the_same_in_every_process():
    """No numbers that count what was traced before: they are part of the cache's key."""
    first = device_functions.known("tan_complex64").text
    device_functions._traced.cache_clear()
    device_functions.known("exp_complex64")
    assert device_functions.known("tan_complex64").text == first


@pytest.mark.parametrize(
    ("value", "dtype", "text"),
    [
        (0.1, np.float32, "float32(0.10000000149011612)"),
        (-0.0, np.float64, "float64(-0.0)"),
        (np.inf, np.float64, "float64(inf)"),
        (-np.inf, np.float16, "float32(-inf)"),
        (np.nan, np.float32, "float32(nan)"),
        (3, np.uint8, "uint8(3)"),
        (True, np.bool_, "True"),
        (1 - 2j, np.complex64, "complex(float32(1.0), float32(-2.0))"),
    ],
)
def test_literals_are_typed(value, dtype, text):
    assert constant(value, np.dtype(dtype)) == text
