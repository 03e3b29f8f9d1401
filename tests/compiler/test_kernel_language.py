import ctypes
import platform
import re
import warnings
from fractions import Fraction

import numpy as np
import pytest
from llvmlite import binding, ir

from numba_grad.compiler.building.build import KernelRequest, build, build_requests
from numba_grad.compiler.code_generation import has_fma
from numba_grad.compiler.kernel_language import meanings
from numba_grad.compiler.kernel_language.instructions import QuickBuilder
from numba_grad.errors import KernelError

pytestmark = pytest.mark.usefixtures("own_cache")

INT64 = ctypes.c_int64
DTYPES = {
    name: np.dtype(name)
    for name in (
        *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float16", "float32", "float64", "complex64", "complex128"),
    )
} | {"bool_": np.dtype(bool)}


def run(source, *words, start=0, stop):
    """Run a kernel on arrays and integers, in the order of its words."""
    values = [w.ctypes.data if isinstance(w, np.ndarray) else w for w in words]
    args = np.array(values, np.int64)
    function = ctypes.CFUNCTYPE(None, INT64, INT64, INT64)(build(source).address)
    function(args.ctypes.data, start, stop)


def map_source(expression, source_dtype, target_dtype):
    return f"""
def kernel(args, lo, hi):
    x = buffer(args, 0, {source_dtype})
    y = buffer(args, 1, {target_dtype})
    for i in range(lo, hi):
        v = x[i]
        y[i] = {expression}
"""


def packed_instructions(kernel):
    """Arithmetic on whole vectors."""
    pattern = r"\tv?(?:f?n?m?(?:add|sub|mul)(?:\d+)?p[sd]|(?:max|min)p[sd]|padd[dq])\s"
    return len(re.findall(pattern, kernel.asm))


def samples(dtype):
    """Ordinary values, and those at which casts and comparisons go wrong."""
    if dtype.kind == "b":
        return np.array([False, True, True, False, True])
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return np.array([0, 1, 2, 100, limits.max, limits.min, limits.max - 1], dtype)
    values = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 127.9, 128, -129, 255, 256, 300, 32768, 65535.5]
    values += [2.0**31, -(2.0**31), 2.0**32, 2.0**53, np.inf, -np.inf, np.nan, 1e-8]
    if dtype.itemsize > 2:
        values += [2.0**63, -(2.0**63), 2.0**64, 1e30, -1e30, 4294967295.0, 2147483520.0]
    with np.errstate(over="ignore"):
        if dtype.kind == "f":
            return np.array(values).astype(dtype)
        pairs = np.empty(len(values), dtype)
        pairs.real, pairs.imag = values, values[::-1]
        return pairs


def same_bits(a, b):
    """Equal, with NaN equal to NaN and 0.0 different from -0.0."""
    if a.dtype.kind in "fc":
        part = a.real.dtype
        a, b = (np.ascontiguousarray(x).view(part) for x in (a, b))
        return np.array_equal(a, b, equal_nan=True) and np.array_equal(np.signbit(a), np.signbit(b))
    return np.array_equal(a, b)


@pytest.mark.parametrize("name", DTYPES)
def test_load_and_store_keep_every_bit(name):
    x = samples(DTYPES[name])
    y = np.zeros_like(x)
    run(map_source("v", name, name), x, y, stop=len(x))
    assert same_bits(x, y)


def test_buffers_start_where_the_range_does():
    x, y = np.arange(10.0), np.zeros(10)
    run(map_source("v + 1.0", "float64", "float64"), x, y, start=3, stop=7)
    assert np.array_equal(y, [0, 0, 0, 4, 5, 6, 7, 0, 0, 0])


@pytest.mark.thorough(every=3)
@pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64"), reason="NumPy's overflow is that of the machine"
)
@pytest.mark.parametrize("source", DTYPES)
def test_casts_agree_with_numpy(source):
    # One kernel casts to all types: a kernel for each pair would take half a minute.
    targets = list(DTYPES)
    lines = [f"    y{k} = buffer(args, {k + 1}, {name})\n" for k, name in enumerate(targets)]
    stores = [f"        y{k}[i] = {name}(v)\n" for k, name in enumerate(targets)]
    text = (
        f"def kernel(args, lo, hi):\n    x = buffer(args, 0, {source})\n{''.join(lines)}"
        f"    for i in range(lo, hi):\n        v = x[i]\n{''.join(stores)}"
    )
    x = np.tile(samples(DTYPES[source]), 3)  # long enough to reach vector code and its remainder
    results = [np.zeros(len(x), DTYPES[name]) for name in targets]
    run(text, x, *results, stop=len(x))
    for name, result in zip(targets, results, strict=True):
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # complex to real
            # One by one: NumPy's vector code overflows to uint32 in its own way.
            expected = np.concatenate([x[i : i + 1].astype(DTYPES[name]) for i in range(len(x))])
        wrong = [
            (a, b, c)
            for a, b, c in zip(x, result, expected, strict=True)
            if not same_bits(np.array([b]), np.array([c]))
        ]
        assert not wrong, f"{source} to {name}: (value, kernel, NumPy) {wrong}"


def test_any_nonzero_byte_of_a_bool_loads_as_true():
    x, y = np.array([0, 1, 2, 255], np.uint8), np.zeros(4, np.uint8)
    run(map_source("v", "bool_", "bool_"), x, y, stop=4)
    assert y.tolist() == [0, 1, 1, 1]


def test_float16_is_computed_in_float32():
    x, y = np.array([60000.0, 1e-7, 0.1], np.float16), np.zeros(3, np.float32)
    run(map_source("v * v", "float16", "float32"), x, y, stop=3)
    assert np.array_equal(y, x.astype(np.float32) ** 2)


def test_rounding_to_float16_happens_once_and_at_once():
    # The second value is just above the middle of two float16, and that middle in float32.
    x = np.array([0.1, 1 + 2.0**-11 + 2.0**-40, 65519.9999999, 65520.0, 1e-30, -np.inf, np.nan])
    y = np.zeros(len(x), np.float32)
    run(map_source("float16(v)", "float64", "float32"), x, y, stop=len(x))
    with np.errstate(over="ignore"):
        expected = x.astype(np.float16).astype(np.float32)
    assert same_bits(y, expected)


def test_storing_casts():
    x, y = np.array([1.9, -1.9, np.nan]), np.zeros(3, np.int32)
    run(map_source("v", "float64", "int32"), x, y, stop=3)
    assert y.tolist() == [1, -1, np.iinfo(np.int32).min]


def test_select_evaluates_to_one_side():
    x, y = np.array([1.0, -2.0, np.nan]), np.zeros(3)
    run(map_source("select(v > 0.0, v, float64(7))", "float64", "float64"), x, y, stop=3)
    assert y.tolist() == [1.0, 7.0, 7.0]


def test_a_quotient_by_zero_is_the_dividend():
    x, y = np.array([0, 7, 2**62, 5]), np.empty(4, np.int64)
    for divisor, expected in ((1, x), (2, x // 2), (9, x // 9), (0, x)):
        source = map_source("quotient(v, integer(args, 2))", "int64", "int64")
        run(source, x, y, divisor, stop=4)
        np.testing.assert_array_equal(y, expected)


def test_bitcast_keeps_bits():
    x, y = np.array([1.5, -0.0, np.nan]), np.zeros(3, np.int64)
    run(map_source("bitcast(v, int64)", "float64", "int64"), x, y, stop=3)
    assert np.array_equal(y, x.view(np.int64))


def test_a_product_in_a_sum_is_rounded_by_what_is_written():
    source = map_source("w - v * v", "float64", "float64").replace(
        "v = x[i]", "v = x[i]; w = v * v"
    )
    x = np.array([1 / 3, 1e8 + 1.0, -0.1])
    y = np.zeros(3)
    run(source, x, y, stop=3)
    errors = [float(Fraction(v * v) - Fraction(v) ** 2) for v in x.tolist()]
    assert any(errors)
    assert y.tolist() == (errors if has_fma() else [0.0] * 3)
    kernel = build(source.replace("w - v * v", "w - v"))
    assert "fma" not in kernel.llvm
    assert "contract" not in kernel.llvm
    assert "reassoc" not in kernel.llvm


def test_nan_infinity_and_signed_zero_keep_their_meaning():
    x = np.array([np.nan, np.inf, -0.0, 0.0])
    y = np.zeros(4)
    run(map_source("v * 0.0 + v - v", "float64", "float64"), x, y, stop=4)
    with np.errstate(invalid="ignore"):
        assert same_bits(y, x * 0.0 + x - x)
    run(map_source("v + 0.0", "float64", "float64"), x, y, stop=4)
    assert same_bits(y, x + 0.0)
    run(map_source("select(v != v, 1.0, 0.0)", "float64", "float64"), x, y, stop=4)
    assert y.tolist() == [1.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8", "uint64"])
def test_integer_division_never_traps(dtype):
    limits = np.iinfo(dtype)
    x = np.array([7, 0, limits.min, limits.max], dtype)
    for expression in ("v // z", "v % z"):
        source = map_source(expression, dtype, dtype).replace(
            "v = x[i]", f"v = x[i]; z = {dtype}(0)"
        )
        y = np.ones(4, dtype)
        run(source, x, y, stop=4)
        assert not y.any()
    if limits.min < 0:
        source = map_source("v // z", dtype, dtype).replace(
            "v = x[i]", f"v = x[i]; z = {dtype}(-1)"
        )
        run(source, x, y, stop=4)
        assert y[0] == -7


@pytest.mark.parametrize(
    "expression",
    [
        "v // 0.3",
        "v % 0.3",
        "abs(v)",
        "-v",
        "max(v, 0.25) + min(v, 0.5)",
        "float64((v > 0.2) & (v < 0.8) | ~(v != 0.9))",
        "v if v > 0.5 and not v > 0.7 else 0.0",
        "float64(int64(v * 100.0) >> 2 ^ 5)",
        "float64(abs(complex128(v) * complex128(2.0)))",
    ],
)
def test_python_operators_are_there(expression):
    x = np.linspace(-1.5, 1.5, 13)
    y = np.zeros(13)
    run(map_source(expression, "float64", "float64"), x, y, stop=13)
    names = {"float64": np.float64, "int64": np.int64, "complex128": np.complex128}
    expected = [eval(expression, names | {"v": v}) for v in x]
    np.testing.assert_allclose(y, expected, rtol=1e-15)


def reduce_source(name, start, dtype):
    return f"""
def kernel(args, lo, hi):
    x = buffer(args, 0, {dtype})
    y = buffer(args, 1, {dtype})
    total = {start}
    for i in range(lo, hi):
        total = reduce_{name}(total, x[i])
    y[0] = total
"""


@pytest.mark.parametrize("dtype", ["int32", "uint64", "float32", "float64"])
def test_reductions_agree_with_numpy(dtype):
    random = np.random.default_rng(0)
    x = random.integers(1, 100, 300).astype(dtype)
    for name, function in (("maximum", np.max), ("minimum", np.min)):
        y = np.zeros(1, dtype)
        run(reduce_source(name, "x[lo]", dtype), x, y, stop=len(x))
        assert y[0] == function(x)
    y = np.zeros(1, dtype)
    run(reduce_source("add", f"{dtype}(0)", dtype), x, y, stop=len(x))
    assert y[0] == x.sum(dtype=dtype)
    run(reduce_source("multiply", f"{dtype}(1)", dtype), x, y, stop=4)
    assert y[0] == np.prod(x[:4].astype(dtype), dtype=dtype)


def test_complex_and_bool_reductions_agree_with_numpy():
    x = np.arange(1, 6) + 1j * np.arange(5)
    y = np.zeros(1, complex)
    run(reduce_source("add", "complex128(0)", "complex128"), x, y, stop=5)
    assert y[0] == x.sum()
    run(reduce_source("multiply", "complex128(1)", "complex128"), x, y, stop=5)
    assert y[0] == x.prod()
    flags, found = np.array([False, True, False]), np.zeros(1, bool)
    run(reduce_source("maximum", "x[lo]", "bool_"), flags, found, stop=3)
    assert found[0]
    run(reduce_source("minimum", "x[lo]", "bool_"), flags, found, stop=3)
    assert not found[0]


@pytest.mark.parametrize("name", ["maximum", "minimum"])
@pytest.mark.parametrize("place", [0, 5, 99])
def test_extrema_propagate_nan(name, place):
    x = np.random.default_rng(1).normal(size=100)
    x[place] = np.nan
    y = np.zeros(1)
    run(reduce_source(name, "x[lo]", "float64"), x, y, stop=100)
    assert np.isnan(y[0])


def test_kernel_of_eleven_buffers_vectorizes():
    buffers = "".join(f"    x{k} = buffer(args, {k}, float64)\n" for k in range(11))
    kernel = build(
        f"def kernel(args, lo, hi):\n{buffers}    for i in range(lo, hi):\n"
        "        v = x0[i] * x1[i] + x2[i] * x3[i] + x4[i] * x5[i] + x6[i] * x7[i]\n"
        "        x8[i] = v\n        x9[i] = v * x0[i]\n        x10[i] = v - x1[i]\n"
    )
    assert packed_instructions(kernel) >= 6


@pytest.mark.parametrize(
    ("name", "start", "dtype"),
    [
        ("add", "0.0", "float64"),
        ("multiply", "1.0", "float64"),
        ("maximum", "x[lo]", "float64"),
        ("minimum", "x[lo]", "float32"),
        ("add", "int64(0)", "int64"),
    ],
)
def test_reductions_vectorize(name, start, dtype):
    assert packed_instructions(build(reduce_source(name, start, dtype))) >= 1


def test_buffers_without_promise_may_overlap():
    source = """
def shift(args, n):
    x = pointer(args, float64)
    y = pointer(args + 8, float64)
    for i in range(n):
        y[i] = x[i]
    return 0
"""
    x = np.arange(50.0)
    function = build_requests([KernelRequest(source, "shift", "int64(int64, int64)")])[0]
    ctypes.CFUNCTYPE(INT64, INT64, INT64)(function.address)(x.ctypes.data, 49)
    assert not x.any()


GATHER = """
def kernel(args, lo, hi):
    index = buffer(args, 0, int64)
    x = buffer(args, 1, float64)
    y = buffer(args, 2, float64)
    n = integer(args, 3)
    errors = integer(args, 4)
    for i in range(lo, hi):
        y[i] = x[check_index(index[i], n, errors, 7)]
"""


def test_indices_wrap_once():
    index, x, y, errors = np.array([0, -1, 3, -4]), np.arange(4.0), np.zeros(4), np.zeros(4, int)
    run(GATHER, index, x, y, 4, errors, stop=4)
    assert y.tolist() == [0.0, 3.0, 3.0, 0.0]
    assert not errors.any()


@pytest.mark.parametrize("bad", [4, -5, 2**62, -(2**63)])
def test_first_bad_index_is_recorded(bad):
    index = np.array([1, bad, 9, 2])
    x, y, errors = np.arange(4.0), np.full(4, -1.0), np.zeros(4, int)
    run(GATHER, index, x, y, 4, errors, stop=4)
    assert errors.tolist() == [1, 7, bad, 4]
    assert y.tolist() == [1.0, 0.0, 0.0, 2.0]


def test_functions_call_others_by_address():
    inner = build_requests(
        [KernelRequest("def f(a, b):\n    return a * 10 + b\n", "f", "int64(int64, int64)")]
    )[0]
    source = """
def outer(f, n):
    total = 0
    for k in range(n):
        total += call(f, k, k + 1)
    return total
"""
    outer = build_requests([KernelRequest(source, "outer", "int64(int64, int64)")])[0]
    result = ctypes.CFUNCTYPE(INT64, INT64, INT64)(outer.address)(inner.address, 3)
    assert result == 1 + 12 + 23


def test_atomics():
    source = """
def f(address):
    before = atomic_add(address, 5)
    seen = atomic_compare_exchange(address, 5, 9)
    atomic_store(address + 8, atomic_load(address))
    return before * 100 + seen
"""
    words = np.zeros(2, np.int64)
    function = build_requests([KernelRequest(source, "f", "int64(int64)")])[0]
    assert ctypes.CFUNCTYPE(INT64, INT64)(function.address)(words.ctypes.data) == 5
    assert words.tolist() == [9, 9]


def test_other_c_types_in_a_signature():
    function = build_requests(
        [KernelRequest("def f(x, n):\n    return x * float64(n)\n", "f", "float64(float64, int64)")]
    )[0]
    call = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double, INT64)(function.address)
    assert call(1.5, 3) == 4.5


@pytest.mark.parametrize(
    "expression",
    [
        "unknown_name(v)",
        "v ** 3",
        "select(v > 0.0, v, 1)",
        "bitcast(v, int32)",
        "x['a']",
    ],
)
def test_mistakes_in_kernels_show_the_source(expression):
    with pytest.raises(KernelError, match="build: ") as error:
        build(map_source(expression, "float64", "float64"))
    assert "def kernel(args, lo, hi):" in str(error.value)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "expression",
    [
        "v * w + w * w - v * v * w",
        "(v * w + v) / (w * w + v * v) - v * w",
        "exp(v * w) * sin(v) + log(w * w + v)",
        "tanh(v * w - w) * (v * w - w) + erf(v)",
    ],
)
def test_vector_and_scalar_code_give_the_same_bits(expression, dtype):
    # How a range is cut into chunks decides which elements run in vector code.
    source = f"""
def kernel(args, lo, hi):
    x = buffer(args, 0, {dtype})
    y = buffer(args, 1, {dtype})
    z = buffer(args, 2, {dtype})
    for i in range(lo, hi):
        v = x[i]
        w = y[i]
        z[i] = {expression}
"""
    random = np.random.default_rng(2)
    x, y = (random.uniform(0.1, 2.0, 300).astype(dtype) for _ in range(2))
    at_once, one_by_one = np.zeros_like(x), np.zeros_like(x)
    run(source, x, y, at_once, stop=len(x))
    for i in range(len(x)):
        run(source, x, y, one_by_one, start=i, stop=i + 1)
    assert same_bits(at_once, one_by_one)


def test_what_operators_mean_does_not_depend_on_the_value_of_a_number(monkeypatch):
    source = """
def kernel(args, lo, hi):
    x = buffer(args, 0, float64)
    x[7] = x[8] * 2.0 + x[lo + 9]
"""
    asked = []
    resolved = meanings.Meanings._resolved

    def counted(self, function, argument_types):
        asked.append(function)
        return resolved(self, function, argument_types)

    build(source)
    monkeypatch.setattr(meanings.Meanings, "_resolved", counted)
    other = source.replace("7", "17").replace("8", "18").replace("9", "19")
    x = np.arange(20.0)
    run(other, x, stop=1)
    assert x[17] == 2 * 18 + 19
    assert not asked


DIVIDED = ("int8", "int64", "uint8", "uint64", "float32", "float64", "complex64", "complex128")


@pytest.mark.thorough(every=9)
@pytest.mark.parametrize("y", DIVIDED)
@pytest.mark.parametrize("x", DIVIDED)
def test_no_division_by_zero_ends_a_kernel(x, y):
    dividends, divisors = np.array([1, 0, 5, 0, 7], x), np.array([0, 0, 2, 3, 0], y)
    is_complex = "complex" in x + y
    for operator in ("/",) if is_complex else ("/", "//", "%"):
        if operator != "/" and {DTYPES[x].kind, DTYPES[y].kind} == {"i", "u"}:
            continue  # of which NumPy makes floats
        with np.errstate(all="ignore"):
            expected = eval(f"dividends {operator} divisors")
        dtype = expected.dtype.name
        quotients, is_done = np.full(5, 9, dtype), np.zeros(5, np.int64)
        source = f"""
def kernel(args, lo, hi):
    x = buffer(args, 0, {x})
    y = buffer(args, 1, {y})
    quotients = buffer(args, 2, {dtype})
    is_done = buffer(args, 3, int64)
    for i in range(lo, hi):
        quotients[i] = {dtype}(x[i] {operator} y[i])
        is_done[i] = 1
"""
        run(source, dividends, divisors, quotients, is_done, stop=5)
        assert is_done.all()
        np.testing.assert_array_equal(quotients, expected)


def test_frequent_instructions_are_those_of_llvmlite():
    def text_by(builder_kind):
        module = ir.Module("m")
        module.triple = binding.get_default_triple()
        number, vector = ir.DoubleType(), ir.VectorType(ir.DoubleType(), 4)
        kind = ir.FunctionType(ir.VoidType(), [number.as_pointer(), vector, ir.IntType(64)])
        function = ir.Function(module, kind, "f")
        place, x, index = function.args
        builder = builder_kind(function.append_basic_block("entry"))
        first = builder.gep(place, [builder.mul(index, index, flags=("nsw",))], inbounds=True)
        one = builder.load(first, align=8)
        one.set_metadata("invariant.load", module.add_metadata([]))
        total = builder.fadd(builder.fsub(one, one), builder.fdiv(one, one), flags=["contract"])
        fused = ir.Function(module, ir.FunctionType(number, [number] * 3), "llvm.fma.f64")
        total = builder.call(fused, [total, one, total], fastmath=("reassoc",))
        whole = builder.load(builder.gep(place, [index]), align=8, typ=vector)
        last = builder.extract_element(builder.fmul(whole, x), ir.IntType(32)(3))
        builder.store(last, builder.gep(place, [ir.IntType(64)(3)]), align=8)
        builder.store(total, first)
        builder.ret_void()
        function.args[0].name = "place"
        text = str(binding.parse_assembly(str(module)))
        numbers = {}
        return re.sub(
            r"%[.0-9]+|%\"[.0-9]+\"", lambda x: numbers.setdefault(x[0], f"%v{len(numbers)}"), text
        )

    assert text_by(QuickBuilder) == text_by(ir.IRBuilder)
