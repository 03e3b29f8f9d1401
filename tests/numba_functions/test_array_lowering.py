"""Generated code as machine code: the numbers that Numba's own code gives, special ones too."""

import linecache
import math

import numba
import numpy as np
import pytest

import numba_grad as ng
from numba_grad.compiler.numba_functions import array_lowering
from numba_grad.compiler.numba_functions.generated import exception_of
from numba_grad.config import configure
from numba_grad.ops.custom_kernels import ArrayArgument

FLOATING = [
    *("math.sin(x)", "math.cos(x)", "math.tan(x)", "math.exp(x)", "math.expm1(x)", "math.log(x)"),
    *("math.log1p(x)", "np.log2(x)", "math.log10(x)", "math.sqrt(x)", "math.sinh(x)"),
    *("math.cosh(x)", "math.tanh(x)", "math.asin(x)", "math.acos(x)", "math.atan(x)"),
    *("math.asinh(x)", "math.acosh(x)", "math.atanh(x)", "np.exp2(x)", "np.cbrt(x)"),
    *("math.erf(x)", "math.erfc(x)", "math.degrees(x)", "math.radians(x)", "np.trunc(x)"),
    *("np.rint(x)", "np.floor(x)", "np.ceil(x)", "abs(x)", "x**2", "x**3", "x**0.5", "x**-2.5"),
    *("-x", "x + y", "x * y", "x / y", "x // y", "x % y", "x**y", "math.atan2(x, y)"),
    *("math.hypot(x, y)", "math.copysign(x, y)", "np.maximum(x, y)", "np.minimum(x, y)"),
    *("max(x, y)", "min(x, y)", "np.logaddexp(x, y)", "x if x > y else y"),
    *("1.0 if math.isnan(x) else 2.0", "1.0 if not x else y", "0.0 if x != y else x"),
]
INTEGERS = [
    *("x // y", "x % y", "x / y", "x**2", "x**3", "abs(x)", "-x", "x & y", "x | y", "x ^ y"),
    *("x << (y & 7)", "x >> (y & 7)", "max(x, y)", "x * 1.0", "math.sqrt(abs(x))"),
]
NUMBERS = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.7, -3.7, 1e-30, 1e30, -1e30]
NUMBERS += [np.inf, -np.inf, np.nan, 7.0, -7.0, 0.3, 88.0, -104.0]
WHOLE = [0, 1, -1, 2, -2, 3, -7, 7, 10, -10, 1 << 30, -(1 << 30)]


def of_all(expressions):
    """A function that stores each expression of two arrays' elements in a row of its own."""
    lines = "".join(f"        out[{k}, i] = {e}\n" for k, e in enumerate(expressions))
    source = (
        "def expressions(a, b, out):\n"
        "    for i in range(a.shape[0]):\n"
        "        x = a[i]\n"
        "        y = b[i]\n" + lines
    )
    path = f"<expressions {hash(source)}>"
    linecache.cache[path] = (len(source), None, source.splitlines(keepends=True), path)
    names = {"math": math, "np": np, "__name__": "expressions"}
    exec(compile(source, path, "exec"), names)
    return numba.njit(names["expressions"], error_model="numpy")


@pytest.mark.parametrize(
    ("expressions", "numbers", "dtype"),
    [
        pytest.param(FLOATING, NUMBERS, np.float64, id="float64"),
        pytest.param(FLOATING, NUMBERS, np.float32, id="float32", marks=pytest.mark.thorough),
        pytest.param(INTEGERS, WHOLE, np.int64, id="int64"),
    ],
)
def test_numbers_are_those_of_numba(expressions, numbers, dtype):
    first, second = (x.ravel() for x in np.meshgrid(*[np.array(numbers, dtype)] * 2))
    function = of_all(expressions)
    expected = np.zeros((len(expressions), first.size))
    function(first, second, expected)
    with configure(engine="native"):
        found = ng.differentiable(function)(first, second, np.zeros_like(expected))
    tolerance = 1.5e-6 if dtype == np.float32 else 2e-15
    for text, mine, other in zip(expressions, np.asarray(found), expected, strict=True):
        np.testing.assert_allclose(mine, other, rtol=tolerance, atol=0, err_msg=text)
        is_number = ~np.isnan(other)
        assert np.array_equal(np.signbit(mine[is_number]), np.signbit(other[is_number])), text


def test_which_exception_it_was_is_found_by_its_number():
    source = "def f(x):\n    raise ValueError('a', 1)\n    raise np.linalg.LinAlgError()\n"
    first, second = (exception_of(source, 1, number) for number in (0, 1))
    assert (type(first), first.args) == (ValueError, ("a", 1))
    assert type(second) is np.linalg.LinAlgError
    assert isinstance(exception_of(source, 1, -1), MemoryError)


def test_the_same_text_gives_the_same_object():
    source = (
        "def f(x, out):\n"
        "    for i in range(x.shape[0]):\n"
        "        out[i] = math.exp(x[i]) if x[i] > 0.0 else 0.0\n"
    )
    arguments = [ArrayArgument(np.dtype(float), 1, is_result) for is_result in (False, True)]
    objects = {array_lowering.object_code(source, "f", arguments, "f") for _ in range(2)}
    assert len(objects) == 1
