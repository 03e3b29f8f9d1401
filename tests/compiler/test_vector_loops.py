"""Loops that are written as vector code without LLVM's passes: the bits of scalar code, whatever
the length of a loop and the processor."""

import ast
import ctypes
import itertools

import numpy as np
import pytest
from llvmlite import ir

import numba_grad as ng
from numba_grad.compiler.building.build import build
from numba_grad.compiler.code_generation import has_masks, vector_bytes
from numba_grad.compiler.elementary.formulas import FUNCTIONS
from numba_grad.compiler.elementary.registry import COMPLEX as COMPLEX_FAMILY
from numba_grad.compiler.elementary.registry import FLOATING
from numba_grad.compiler.emission import transposed_rows
from numba_grad.compiler.kernel_language import (
    front_end,
    plain_loops,
    sources,
    vector_functions,
    vector_loops,
)

pytestmark = pytest.mark.usefixtures("own_cache")

INT64 = ctypes.c_int64
# Bytes of a vector, and whether elements of it may be left out; without any, LLVM's passes.
PROCESSORS = [(64, True), (64, False), (32, False), (16, False)]

SHIFTED = """
    v0 = w[0]
    for row in range(quotient(lo, n), quotient(hi + n - 1, n)):
        i0 = row
        first = max(lo - row * n, 0)
        last = min(hi - row * n, n)
        inside = (1 <= i0) & (i0 < 3)
        for i in range(first, last):
            v1 = x[i0 * s + i]
            v2 = x[i0 * s + i + c]
            v3 = {number}(0.25) * v0
            v4 = v1 - v0 * v2
            v5 = v4 * v3 + v1 / v2
            v6 = -v5
            v7 = (v6 < v1) & (v1 != v2)
            v8 = select(v7, v6, v5 - v1 * v3)
            y[i0 * s + i] = select(inside, v8, v2)
            z[i0 * s + i + c] = v3
"""
SUMS = """
    for row in range(lo, hi):
        a0 = {number}(0.0)
        a1 = {number}(1.0)
        for i in range(0, n):
            v1 = x[row * s + i]
            v2 = v1 - w[0]
            a0 = reduce_add(a0, v1 * v2)
            a1 = reduce_add(a1, v2)
            y[row * s + i] = v2
            a0 = reduce_add(a0, v2)
        z[row] = a0
        z[row + s] = a1
"""
SUMS_IN_MEMORY = """
    for i in range(0, n):
        y[i] = {number}(0.0)
    for row in range(lo, hi):
        for i in range(0, n):
            a0 = y[i]
            y[i] = reduce_add(a0, x[row * s + i] * w[0])
"""
COLUMNS = """
    v0 = w[0]
    for i in range(lo, hi):
        v1 = x[i * s + c]
        v2 = v1 * v0 + x[i]
        v3 = v2 - v1 / v0
        y[i * s] = v2 * v3 + v1
        z[i] = v3
"""


def source(body, dtype, tag):
    """A kernel; `tag` makes it another one for the cache."""
    return f"""
def kernel(args, lo, hi):
    n = integer(args, 0)
    s = integer(args, 1)
    c = integer(args, 2)
    w = buffer(args, 3, {dtype})
    x = buffer(args, 4, {dtype})
    y = buffer(args, 5, {dtype})
    z = buffer(args, 6, {dtype})
    tag{tag} = integer(args, 0)
{body.format(number=dtype)}"""


def kernel_for(body, dtype, processor, monkeypatch, *, is_long=False):
    with monkeypatch.context() as patch:
        if processor is None:
            patch.setattr(sources, "plain_element", lambda *args: None)
        else:
            patch.setattr(vector_loops, "vector_bytes", lambda: processor[0])
            patch.setattr(vector_loops, "has_masks", lambda: processor[1])
        tag = "" if processor is None else f"{processor[0]}{processor[1]}"
        if is_long:
            patch.setattr(vector_loops, "_LONG", 1)
            tag += "long"
        return build(source(body, dtype, tag))


def run(kernel, n, lo, hi, dtype, rows=4):
    """What a kernel leaves in its arrays, whose rows are longer than its loops."""
    stride, shift = n + 3, 1
    rng = np.random.default_rng(n)
    w = np.array([1.7], dtype)
    x, y, z = rng.normal(size=(3, rows * stride + stride)).astype(dtype)
    if w.dtype.kind == "c":
        w, x = w - 0.3j, x + 1j * rng.normal(size=x.shape).astype(w.real.dtype)
    words = [n, stride, shift, *(array.ctypes.data for array in (w, x, y, z))]
    args = np.array(words, np.int64)
    ctypes.CFUNCTYPE(None, INT64, INT64, INT64)(kernel.address)(args.ctypes.data, lo, hi)
    return x, y, z


def processors():
    return [p for p in PROCESSORS if p[0] <= vector_bytes() and p[1] <= has_masks()]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_bits_of_scalar_code(dtype, monkeypatch):
    by_llvm = kernel_for(SHIFTED, dtype, None, monkeypatch)
    for processor in processors():
        ours = kernel_for(SHIFTED, dtype, processor, monkeypatch)
        for n in [*range(1, 20), 31, 64, 65]:
            for lo, hi in [(0, 4 * n), (1, 3 * n - 1), (n, n), (n + 1, n + 2)]:
                wanted, found = (run(kernel, n, lo, hi, dtype) for kernel in (by_llvm, ours))
                for a, b in zip(wanted, found, strict=True):
                    assert a.tobytes() == b.tobytes(), (processor, n, lo, hi)


@pytest.mark.thorough(every=2)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("body", [SUMS, SUMS_IN_MEMORY])
def test_sums(body, dtype, monkeypatch):
    eps = np.finfo(dtype).eps
    by_llvm = kernel_for(body, dtype, None, monkeypatch)
    for processor in processors():
        ours = kernel_for(body, dtype, processor, monkeypatch)
        for n in [*range(1, 20), 63, 64, 65, 200]:
            wanted, found = (run(kernel, n, 0, 4, dtype) for kernel in (by_llvm, ours))
            for a, b in zip(wanted, found, strict=True):
                np.testing.assert_allclose(b, a, rtol=20 * eps, atol=20 * n * eps)
            again = run(ours, n, 0, 4, dtype)
            assert all(a.tobytes() == b.tobytes() for a, b in zip(found, again, strict=True))


@pytest.mark.thorough(but="float64")
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_long_loops_have_one_body(dtype, monkeypatch):
    """All of whose vectors have a mask, where elements may be left out."""
    eps = np.finfo(dtype).eps
    for processor in processors():
        for body in (SHIFTED, SUMS):
            by_llvm = kernel_for(body, dtype, None, monkeypatch)
            ours = kernel_for(body, dtype, processor, monkeypatch, is_long=True)
            for n in [*range(1, 20), 64, 65]:
                for lo, hi in [(0, 4), (2, 3)] if body == SUMS else [(0, 4 * n), (1, 3 * n - 1)]:
                    wanted, found = (run(kernel, n, lo, hi, dtype) for kernel in (by_llvm, ours))
                    for a, b in zip(wanted, found, strict=True):
                        bound = 20 * n * eps if body == SUMS else 0
                        np.testing.assert_allclose(b, a, rtol=0, atol=bound)


SUMS_OF_FUNCTIONS = """
    for row in range(lo, hi):
        a0 = {number}(0.0)
        v0 = log(absolute(w[0]))
        for i in range(0, n):
            v1 = exp(x[row * s + i] - v0)
            y[row * s + i] = tanh(v1)
            a0 = reduce_add(a0, log(v1) / x[row * s + i])
        z[row] = a0
"""


@pytest.mark.thorough(but="float64")
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_sums_of_functions(dtype, monkeypatch):
    """What is left of a row is a vector as well, where elements of it may be left out."""
    eps = np.finfo(dtype).eps
    by_llvm = kernel_for(SUMS_OF_FUNCTIONS, dtype, None, monkeypatch)
    for processor in processors():
        ours = kernel_for(SUMS_OF_FUNCTIONS, dtype, processor, monkeypatch)
        for n in [*range(1, 20), 63, 64, 65]:
            (_, y, z), (_, own_y, own_z) = (run(k, n, 0, 4, dtype) for k in (by_llvm, ours))
            assert y.tobytes() == own_y.tobytes()
            np.testing.assert_allclose(own_z, z, rtol=20 * eps, atol=20 * n * eps)


@pytest.mark.thorough(every=5)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", sorted(plain_loops._FUNCTIONS))
def test_functions_have_the_bits_of_scalar_code(name, dtype, monkeypatch):
    is_extreme = name in vector_functions.EXTREMES
    second = ", w[0]" if is_extreme or FUNCTIONS[name].arity == 2 else ""
    value = f"{name}(x[i]{second})"
    is_condition = name in vector_functions.CONDITIONS
    body = f"""
    for i in range(lo, hi):
        y[i] = {f"select({value}, x[i], w[0])" if is_condition else value}
"""
    x = np.concatenate(
        [
            [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-310, 1e-40, 1.0, -1.0, 1e38, 0.9999999],
            np.linspace(-760.0, 760.0, 1001),
            np.geomspace(1e-20, 1e20, 500),
        ]
    ).astype(dtype)
    w = np.array([2.5], dtype)
    results = []
    for processor in [None, *processors()]:
        kernel = kernel_for(body, dtype, processor, monkeypatch)
        y = np.empty_like(x)
        words = [len(x), 0, 0, *(array.ctypes.data for array in (w, x, y, y))]
        args = np.array(words, np.int64)
        ctypes.CFUNCTYPE(None, INT64, INT64, INT64)(kernel.address)(args.ctypes.data, 0, len(x))
        results.append(np.where(np.isnan(y), np.nan, y).astype(dtype).tobytes())
    assert len(set(results)) == 1


def test_all_functions_are_known_that_have_a_form_for_vectors():
    """But for those that no kernel names: operators, other names."""
    others = {"divide", "square", "integer_power"}
    others |= {"logical_and", "logical_or", "logical_xor", "logical_not"}
    others |= {"frexp_exponent", "ldexp", "nextafter"}  # of integers, or seldom
    others |= {"acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "expit"}
    vector = ir.VectorType(ir.DoubleType(), 4)
    for name, function in FUNCTIONS.items():
        if FLOATING not in function.formulas or name in others:
            continue
        kind = ir.FunctionType(vector, [vector] * function.arity)
        of_vectors = ir.Function(ir.Module(), kind, name)
        builder = ir.IRBuilder(of_vectors.append_basic_block())
        try:
            vector_functions.written(builder, name, [(x,) for x in of_vectors.args])
        except NotImplementedError:
            assert name not in plain_loops._FUNCTIONS, name
        else:
            assert name in plain_loops._FUNCTIONS, name


def test_functions_that_take_long_are_known_by_these_names():
    """Where kernels are planned, which imports nothing of Numba's."""
    assert vector_functions.FOR_FEW <= vector_functions.LONG
    assert transposed_rows._LONG_FUNCTIONS <= vector_functions.LONG


COMPLEX = """
    v0 = w[0]
    for row in range(quotient(lo, n), quotient(hi + n - 1, n)):
        i0 = row
        first = max(lo - row * n, 0)
        last = min(hi - row * n, n)
        inside = (1 <= i0) & (i0 < 3)
        for i in range(first, last):
            v1 = x[i0 * s + i]
            v2 = x[i0 * s + i + c]
            v3 = {number}(0.25) * v0
            v4 = v1 - v0 * v2
            v5 = v4 * v3 + v1 / v2
            v6 = -v5 + real(v1)
            v7 = (v6 != v1) & (real(v1) < imag(v2))
            v8 = select(v7, v6, v5 - v1 * v3)
            v9 = cast(absolute(v8), {number})
            y[i0 * s + i] = select(inside, v8, conjugate(v2))
            z[i0 * s + i + c] = make_complex(real(v9), imag(v8)) * exp(v1) + sqrt(v2)
"""
COMPLEX_COLUMNS = """
    v0 = w[0]
    for i in range(lo, hi):
        v1 = x[i * s + c]
        v2 = v1 * v0 + x[i]
        v3 = v2 - v1 / v0
        y[i * s] = v2 * v3 + log(v1)
        z[i] = v3
"""


@pytest.mark.parametrize("dtype", ["complex128", "complex64"])
def test_complex_numbers_have_the_bits_of_scalar_code(dtype, monkeypatch):
    for body in (COMPLEX, COMPLEX_COLUMNS):
        assert sources.read(source(body, dtype, ""), "kernel").plain_element is not None
        by_llvm = kernel_for(body, dtype, None, monkeypatch)
        for processor in processors():
            ours = kernel_for(body, dtype, processor, monkeypatch)
            for n in [*range(1, 20, 3), 31, 64, 65]:
                sections = [(0, 4 * n), (1, 3 * n - 1)] if body == COMPLEX else [(0, 4), (1, 4)]
                for lo, hi in sections:
                    wanted, found = (run(kernel, n, lo, hi, dtype) for kernel in (by_llvm, ours))
                    for a, b in zip(wanted, found, strict=True):
                        assert a.tobytes() == b.tobytes(), (processor, n, lo, hi)


@pytest.mark.parametrize("dtype", ["complex128", "complex64"])
def test_sums_of_complex_numbers(dtype, monkeypatch):
    eps = np.finfo(dtype).eps
    for body in (SUMS, SUMS.replace("v1 - w[0]", "exp(v1) / w[0]")):
        by_llvm = kernel_for(body, dtype, None, monkeypatch)
        for processor in processors():
            ours = kernel_for(body, dtype, processor, monkeypatch)
            for n in [*range(1, 20), 63, 64, 65]:
                wanted, found = (run(kernel, n, 0, 4, dtype) for kernel in (by_llvm, ours))
                for a, b in zip(wanted, found, strict=True):
                    np.testing.assert_allclose(b, a, rtol=20 * eps, atol=100 * n * eps)


@pytest.mark.thorough(every=5)
@pytest.mark.parametrize("dtype", ["complex128", "complex64"])
@pytest.mark.parametrize(
    "name",
    sorted(
        n
        for n in plain_loops._FUNCTIONS & FUNCTIONS.keys()
        if COMPLEX_FAMILY in FUNCTIONS[n].formulas
    ),
)
def test_functions_of_complex_numbers_have_the_bits_of_scalar_code(name, dtype, monkeypatch):
    second = ", w[0]" if FUNCTIONS[name].arity == 2 else ""
    value = f"{name}(x[i]{second})"
    is_condition = name in vector_functions.CONDITIONS
    body = f"""
    for i in range(lo, hi):
        y[i] = {f"select({value}, x[i], w[0])" if is_condition else f"cast({value}, {dtype})"}
"""
    rare = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-310, 1e-40, 1.0, -1.0, 1e38, 2.5, -900.0, 40.0]
    x = np.array([complex(a, b) for a in rare for b in rare]).astype(dtype)
    w = np.array([0.5 - 2.5j], dtype)
    results = []
    for processor in [None, *processors()]:
        kernel = kernel_for(body, dtype, processor, monkeypatch)
        y = np.empty_like(x)
        words = [len(x), 0, 0, *(array.ctypes.data for array in (w, x, y, y))]
        args = np.array(words, np.int64)
        ctypes.CFUNCTYPE(None, INT64, INT64, INT64)(kernel.address)(args.ctypes.data, 0, len(x))
        parts = y.view(y.real.dtype)
        results.append(np.where(np.isnan(parts), np.nan, parts).tobytes())
    assert len(set(results)) == 1


def is_plain(loop, *, before="", after="", dtype="float64"):
    text = source(f"{before}\n{loop}\n{after}", dtype, "")
    [definition] = ast.parse(text).body
    assert isinstance(definition, ast.FunctionDef)
    return sources.Source(text, definition).plain_element is not None


def test_what_needs_none_of_llvms_passes():
    def loop(*lines, over="lo, hi"):
        return f"    for i in range({over}):\n" + "".join(f"        {line}\n" for line in lines)

    assert is_plain(loop("v = x[i]", "y[i] = v"))
    assert is_plain(loop("y[i] = x[c + i] * w[0]"))
    assert is_plain(loop("v = y[i]", "y[i] = v + x[i]"))  # at the same place
    assert is_plain(loop("i = opaque(i)", "y[i * s] = x[s - i]"))  # is left as it is
    assert not is_plain(loop("y[i] = y[i + 1]"))  # what another pass writes
    assert not is_plain(loop("y[i] = x[i]", "y[i + c] = w[i]"))
    rows = loop("y[i] = x[i] + y[i + c]", "y[i + c] = w[i]")
    assert not is_plain(rows)
    assert is_plain(rows, before="    stores_apart()")
    assert not is_plain(rows.replace("w[i]", "y[i + s]"), before="    stores_apart()")
    assert not is_plain(loop("y[i] = x[i]", "y[i] = w[i]"), before="    stores_apart()")
    assert not is_plain(loop("y[i] = x[0]", "x[i] = w[i]"))
    assert not is_plain(loop("y[i] = x[i * s]"))  # a copy of elements that are no neighbours
    assert not is_plain(loop("y[i] = x[i * s] * x[i * s + c]"))
    assert is_plain(loop("v = x[c + i * s]", "y[i * s] = v * v + w[i]", "z[i] = v * w[i]"))
    assert not is_plain(loop("v = x[i * 3]", "y[i] = v * v + w[i]"))  # shuffled by LLVM
    assert not is_plain(loop("v = x[i * s]", "y[i] = v * v", "y[i * s] = v"))
    assert not is_plain(loop("y[i] = x[i + i]"))
    assert is_plain(loop("y[i] = x[i - 3]"))
    assert is_plain(loop("v = bool_(x[i] < w[i])", "y[i] = cast(v, float64)"))
    assert is_plain(loop("y[i] = exp(x[i])"))
    assert is_plain(loop("y[i] = sin(x[i])"))
    assert not is_plain(loop("y[i] = bessel_j0(x[i])"))  # calls functions of its own
    straight = "    v0 = exp(w[0])\n    v1 = log(w[1])\n    v2 = tanh(v1)\n"
    assert is_plain(loop("y[i] = x[i]"), before=straight)
    assert not is_plain(loop("y[i] = x[i]", over="lo, hi, 2"))
    assert not is_plain(loop("v = x[i]", "y[i] = v"), after="    z[0] = v")
    assert not is_plain(loop("y[i] = x[i]"), after="    z[i] = w[0]")
    summed = "    a = float64(0.0)\n"
    assert is_plain(loop("a = reduce_add(a, x[i])"), before=summed, after="    z[0] = a")
    assert not is_plain(loop("a = reduce_add(a, x[i])", "y[i] = a"), before=summed)
    twice = loop("a = reduce_add(a, x[i])", "a = reduce_add(a, w[i] * w[i])")
    assert is_plain(twice, before=summed, after="    z[0] = a")
    # Blocks of rows that are copied, see `transposed_rows.py`.
    room, copied = "    r = local(16, float64)\n", loop("keep_scalar()", "r[i] = x[9 * i]")
    assert is_plain(loop("v = r[i - lo]", "y[i] = v * v"), before=room + copied)
    of_block = loop("v = r[i - lo]", "a = reduce_add(a, v * v)")
    assert not is_plain(of_block, before=room + summed, after="    z[0] = a")
    short = room.replace("float64", "float32")
    assert not is_plain(loop("v = r[i - lo]", "y[i] = v * x[i]"), before=short)
    assert not is_plain(loop("a = a + x[i]"), before=summed, after="    z[0] = a")
    assert is_plain(loop("y[i] = x[i]"), dtype="int32")
    assert not is_plain(loop("y[i] = x[i] + x[i]"), dtype="int32")  # wraps
    assert not is_plain(loop("y[i] = x[i]"), dtype="float16")


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_whole_numbers_are_compared_with(dtype):
    text = source(
        "    for i in range(lo, hi):\n        y[i] = select(x[i] == 0, w[0], x[i])\n", dtype, ""
    )
    signature = "void(int64, int64, int64)"
    function = front_end.ExportedFunction(text, "kernel", signature, "whole_numbers")
    assert front_end.plain_module_for([function], "whole_numbers") is not None


def test_what_is_around_loops_may_be_anything():
    loop = "    for i in range(lo, hi):\n        y[i] = x[i] * v0\n"
    assert is_plain(loop, before="    v0 = sin(w[0])\n")
    assert not is_plain(loop.replace("x[i]", "bessel_j0(x[i])"), before="    v0 = w[0]\n")


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_elements_that_are_no_neighbours(dtype, monkeypatch):
    """Columns, and what is read along another axis: the bits of scalar code."""
    by_llvm = kernel_for(COLUMNS, dtype, None, monkeypatch)
    for processor in processors():
        ours = kernel_for(COLUMNS, dtype, processor, monkeypatch)
        for n in [*range(1, 20), 33]:
            for lo, hi in [(0, n), (min(2, n), n), (n, n)]:
                results = [run(k, n, lo, hi, dtype, n + 1) for k in (by_llvm, ours)]
                (_, *expected), (_, *found) = results
                assert [a.tobytes() for a in expected] == [a.tobytes() for a in found]


def test_conditions_in_memory(monkeypatch):
    body = "    m = buffer(args, 3, bool_)\n    for i in range(lo, hi):\n"
    body += "        y[i] = select(m[i], x[i] * x[i], x[i + c])\n"
    assert is_plain(body)
    assert not is_plain(body.replace("y[i] = ", "m[i] = "))
    mask = np.random.default_rng(0).integers(0, 3, 70).astype(np.int8)
    x = np.random.default_rng(1).normal(size=100)
    for processor in [None, *processors()]:
        kernel = kernel_for(body, "float64", processor, monkeypatch)
        for n in (1, 7, 8, 9, 64, 69):
            y = np.zeros(100)
            args = np.array([n, 0, 1, *(a.ctypes.data for a in (mask, x, y, y))], np.int64)
            ctypes.CFUNCTYPE(None, INT64, INT64, INT64)(kernel.address)(args.ctypes.data, 0, n)
            assert (y[:n] == np.where(mask[:n], x[:n] ** 2, x[1 : n + 1])).all() and not y[n:].any()


def test_of_few_points_loops_that_are_not_plain_are_scalar():
    """Whatever they do: LLVM's passes would take longer than all that they gain."""
    text = "def kernel(args, lo, hi):\n    x = buffer(args, 0, float64)\n{}"
    text += "    for i in range(lo, hi):\n        x[i] = bessel_j0(x[i])\n"
    assert not sources.read(text.format(""), "kernel").is_plain
    assert sources.read(text.format("    few_points()\n"), "kernel").is_plain
    for shape, is_few in [((5, 2, 9), True), ((90, 3), False), ((40, 9), False), ((20,), False)]:
        [kernel] = ng.jit(lambda x: np.sin(x.T) * 2.0).lower(np.ones(shape)).kernels
        assert ("few_points()" in kernel.source) == is_few


@pytest.mark.thorough
def test_long_stencils_need_none_of_llvms_passes():
    """All of a row is vector code as written, in one body."""

    def stencil(u):
        total = u * 0.0
        for axis in (0, 1):
            left, right = np.roll(u, 1, axis), np.roll(u, -1, axis)
            slope = np.sign(right - left) * np.minimum(abs(right - u), abs(u - left))
            speed = np.maximum(abs(u + slope), abs(right - slope)) / (1.0 + u * u)
            mean = (left * left + right * right + u * u) / (2.0 + abs(left * right))
            total = total + np.where(slope * speed > 0.1, mean, speed - slope) * np.sqrt(mean)
            total = total - np.roll(speed * slope, 1, axis) * mean
        return total, np.sum(total * u)

    u = np.random.default_rng(0).normal(size=(30, 40))
    f = ng.jit(stencil)
    kernels = [kernel.source for kernel in f.lower(u).kernels if "select" in kernel.source]
    assert max(kernel.count("\n") for kernel in kernels) > 120
    assert all(sources.read(kernel, "kernel").is_plain for kernel in kernels)
    for found, expected in zip(f(u), stencil(u), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_what_has_no_loops_needs_none_of_llvms_passes():
    text = "def kernel(args, lo, hi):\n    x = buffer(args, 0, float64)\n"
    straight = text + "    x[0] = sin(x[1]) if x[2] > 0 else erf(x[3])\n"
    assert sources.read(straight, "kernel").is_plain
    assert not sources.read(text + "    while x[0] > 1:\n        x[0] = x[1]\n", "kernel").is_plain


def test_what_hands_numbers_on_is_no_vector_code():
    def hands_on(body):
        text = f"def kernel(args, lo, hi):\n    x = buffer(args, 0, float64)\n{body}"
        return sources.read(text, "kernel").hands_on

    state = "    c = x[0]\n    for i in range(lo, hi):\n        v = c * x[i]\n        c = v\n"
    assert hands_on(state + "    x[0] = c\n")
    assert hands_on(state.replace("for i in range(lo, hi)", "while c < x[1]"))
    assert not hands_on(state.replace("c = v", "c = reduce_add(c, v)"))
    assert not hands_on(state + "    for i in range(lo, hi):\n        x[i] = c\n")
    assert not hands_on("    c = x[0]\n    x[1] = c\n")


def test_where_a_row_is_may_be_an_integer_in_memory():
    places = "    z = buffer(args, 6, int64)\n    first = z[lo]\n"
    row = "    for i in range(lo, hi):\n        y[i] = x[first + i]\n"
    assert is_plain(row, before=places)
    assert not is_plain(row.replace("x[first + i]", "x[z[i]]"), before=places)


def test_integers_are_moved(monkeypatch):
    body = "    for i in range(lo, hi):\n        y[i] = x[i + c]\n"
    for processor, size in itertools.product(processors(), (1, 2, 4, 8)):
        dtype = f"int{8 * size}"
        kernel = kernel_for(body, dtype, processor, monkeypatch)
        for n in range(70):
            _, before, _ = run(kernel, n, 0, 0, "float64")
            x, after, _ = run(kernel, n, 0, n, "float64")
            assert bytes(after)[: n * size] == bytes(x)[size : size + n * size]
            assert bytes(after)[n * size :] == bytes(before)[n * size :]


def test_types_that_do_not_fit_are_left_to_llvm(monkeypatch):
    """The text of this is plain; that one number is an integer shows when it is lowered."""
    body = "    for i in range(lo, hi):\n        y[i] = x[i] * n\n"
    kernel = kernel_for(body, "float64", (vector_bytes(), has_masks()), monkeypatch)
    x, y, _ = run(kernel, 5, 0, 5, "float64")
    assert (y[:5] == 5 * x[:5]).all()


def test_kernels_of_a_program_are_read_once():
    """To see which are plain, and again when they are written."""
    sources.forget_sources()
    texts = [f"def kernel(args, lo, hi):\n    x = {k}\n" for k in range(300)]
    for _ in range(2):
        for text in texts:
            assert sources.read(text, "kernel").is_plain
    assert sources.read.cache_info().misses == len(texts)
    sources.forget_sources()
