"""Calls in straight-line code that become vectors have the bits of calls one by one."""

import ctypes
import re

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.compiler.building.build import build
from numba_grad.compiler.elementary.formulas import FUNCTIONS
from numba_grad.compiler.kernel_language import vector_functions

pytestmark = pytest.mark.usefixtures("own_cache")

INT64 = ctypes.c_int64
VALUES = np.random.default_rng(0).uniform(0.1, 0.9, 16)


def run(lines, dtype="float64", words=(0,)):
    """What a kernel makes of an array, and its text for LLVM."""
    text = [f"x = buffer(args, 0, {dtype})", f"y = buffer(args, 1, {dtype})", *lines]
    kernel = build("def kernel(args, lo, hi):\n" + "".join(f"    {line}\n" for line in text))
    x, y = VALUES.astype(dtype), np.zeros(16, dtype)
    given = np.array([x.ctypes.data, y.ctypes.data, *words], np.int64)
    function = ctypes.CFUNCTYPE(None, INT64, INT64, INT64)(kernel.address)
    function(given.ctypes.data, 0, 1)
    return (x, y), kernel.llvm


def one_by_one(lines, dtype="float64"):
    """In a loop of one pass each, where calls are not beside each other."""
    x, y = VALUES.astype(dtype), np.zeros(16, dtype)
    values = {"x": x, "y": y}
    for line in lines:
        target, expression = line.split(" = ")
        called = re.fullmatch(r"(\w+)\((.*)\)", expression)
        if called:
            name, arguments = called[1], eval(f"({called[2]},)", {}, values)
            body = ", ".join(f"x[{k}]" for k in range(len(arguments)))
            found = VALUES.astype(dtype), np.zeros(16, dtype)
            found[0][: len(arguments)] = arguments
            text = f"def kernel(args, lo, hi):\n    x = buffer(args, 0, {dtype})\n"
            text += f"    y = buffer(args, 1, {dtype})\n    y[0] = {name}({body})\n"
            words = np.array([a.ctypes.data for a in found], np.int64)
            function = ctypes.CFUNCTYPE(None, INT64, INT64, INT64)(build(text).address)
            function(words.ctypes.data, 0, 1)
            values["_"] = found[1][0]
            expression = "_"
        exec(f"{target} = {expression}", {}, values)
    return x, y


def assert_same(lines, dtype="float64"):
    found, text = run(lines, dtype)
    for a, b in zip(found, one_by_one(lines, dtype), strict=True):
        np.testing.assert_array_equal(a, b)
    return text


@pytest.mark.thorough(every=5)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", sorted(vector_functions.LONG - {"sqrt"}))
def test_calls_of_neighbours(name, dtype):
    more = ", x[15]" if FUNCTIONS[name].arity == 2 else ""
    text = assert_same([f"y[{k}] = {name}(x[{k}]{more})" for k in range(13)], dtype)
    assert re.search(r"call .*<\d x (float|double)> @numba_grad", text)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("function", [np.arctan2, lambda a, b: np.exp(a), lambda a, b: np.tanh(b)])
def test_results_may_be_parts_of_complex_numbers(function, dtype):
    def turned(a, b):
        return 1j * function(a, b)

    def size(a, b):
        return np.sum(np.abs(turned(a, b) + function(b, a)) ** 2)

    a, b = VALUES[:3].astype(dtype), VALUES[5:8].astype(dtype)
    rounding = 4 * np.finfo(dtype).eps
    np.testing.assert_allclose(ng.jit(turned)(a, b), turned(a, b), rounding, strict=True)
    np.testing.assert_allclose(ng.jit(size)(a, b), size(a, b), rounding, strict=True)


def test_quotients_between_calls_end_no_block():
    lines = [f"y[{k}] = exp(x[{k}] / x[{k + 1}])" for k in range(8)]
    assert len(re.findall(r"call .*<\d x double> @numba_grad", run(lines)[1])) == 2


def test_calls_in_a_loop_that_is_left_as_it_is():
    body = ["i = opaque(i)", "y[i] = exp(x[i]) + exp(x[i] / 2.0) * exp(x[0])"]
    (x, y), text = run(["for i in range(0, 16):", *[f"    {line}" for line in body]])
    np.testing.assert_allclose(y, np.exp(x) + np.exp(x / 2) * np.exp(x[0]), rtol=1e-15)
    assert re.search(r"call .*<4 x double> @numba_grad", text)


def test_what_waits_for_calls_comes_after_them():
    lines = [f"a{k} = exp(x[{k}])" for k in range(6)]
    lines += [f"b{k} = a{k} * a{(k + 1) % 6}" for k in range(6)]
    lines += [f"c{k} = log(b{k})" for k in range(6)]
    lines += [f"y[{k}] = exp(c{k})" for k in range(6)]
    interleaved = [lines[6 * j + k] for j, k in sorted(np.ndindex(4, 6), key=lambda at: at[1])]
    assert_same(lines)
    # As a step after the other has them, but for what a step reads of the next.
    order = [x for x in interleaved if x[0] == "a"] + [x for x in interleaved if x[0] != "a"]
    assert_same(order)


def test_loads_and_stores_of_a_buffer_stay_in_order():
    lines = []
    for k in range(8):  # each reads what the one before has written, and writes over what it read
        lines += [f"v{k} = x[{k}]", f"w{k} = exp(v{k})", f"x[{k + 1}] = w{k}", f"y[{k}] = v{k}"]
        lines += [f"x[{k}] = y[{k}]", f"u{k} = exp(y[{k}])", f"y[{k}] = u{k}"]
    assert_same(lines)
    lines = [f"v{k} = exp(x[{k}])" for k in range(4)]
    lines += [f"x[{k}] = y[{k}]" for k in range(4)]  # after they are read
    lines += [f"y[{k}] = v{k}" for k in range(4)]
    assert_same(lines)


def test_calls_in_branches_are_put_together_in_their_own_block():
    lines = ["a = 0.0", "if x[0] < 0.5:", *[f"    a += exp(x[{k}])" for k in range(5)]]
    lines += ["else:", *[f"    a += log(x[{k}])" for k in range(5)], "y[0] = a"]
    (x, y), _ = run(lines)
    expected = sum((np.exp if x[0] < 0.5 else np.log)(x[:5]))
    np.testing.assert_allclose(y[0], expected, rtol=1e-14)


@pytest.mark.thorough
def test_a_program_of_many_calls_is_short():
    """Messages on a circle, as a script has them: 300 calls in one kernel."""

    def circle(unary, pair):
        messages = {k: np.zeros(2) for k in range(10)}
        for _ in range(5):
            new = {}
            for k in range(10):
                total = unary[k] + messages[(k - 1) % 10]
                a, b = total[0] + pair[k], total[1] - pair[k]
                p = np.log(np.exp(a) + np.exp(b))
                q = np.log(np.exp(total[0] - pair[k]) + np.exp(total[1] + pair[k]))
                new[k] = np.stack([p - (p + q) / 2, q - (p + q) / 2])
            messages = new
        return sum(messages[k][0] * unary[k, 1] for k in range(10))

    rng = np.random.default_rng(0)
    arguments = rng.standard_normal((10, 2)), rng.standard_normal(10)
    value = ng.jit(circle)(*arguments)
    np.testing.assert_allclose(value, circle(*arguments), rtol=1e-12)
