"""Functions of kernels on a GPU: libdevice where it is good, else the formulas of `elementary/`.

libdevice is NVIDIA's mathematics. It serves where it errs by at most 2 units in the last place (the
tables of the CUDA programming guide, "Mathematical Functions"); elsewhere, and for what it does not
have, the formulas of the CPU become device functions.
"""

from __future__ import annotations

import ast
import functools
import inspect

import numpy as np

from numba_grad.compiler import scalar_expressions
from numba_grad.compiler.cuda.special_functions import SPECIAL
from numba_grad.compiler.elementary.formulas import FUNCTIONS
from numba_grad.compiler.elementary.python_writer import NAMES, device_function
from numba_grad.compiler.elementary.registry import (
    BOOLEAN,
    COMMON,
    COMPLEX,
    FLOATING,
    OF_FIRST,
    SIGNED,
    UNSIGNED,
    ElementaryFunction,
)
from numba_grad.compiler.elementary.scalar import (
    BOOL,
    FLOAT32,
    FLOAT64,
    SHARED,
    SHARED_OF_PAIRS,
    Formula,
)
from numba_grad.compiler.scalar_expressions import Term
from numba_grad.errors import KernelError, explain
from numba_grad.immutable import immutable
from numba_grad.syntax_trees import syntax_tree

BOOL_DTYPE = np.dtype(bool)
_FLOAT_KINDS = {"float32": FLOAT32, "float64": FLOAT64}
_PARTS = {"complex64": np.dtype(np.float32), "complex128": np.dtype(np.float64)}

# name -> libdevice's for float32 and for float64; "" where it errs by more than 2 ulp.
_LIBDEVICE = {
    "exp": ("expf", "exp"),
    "exp2": ("exp2f", "exp2"),
    "expm1": ("expm1f", "expm1"),
    "sinh": ("", "sinh"),
    "cosh": ("coshf", "cosh"),
    "tanh": ("tanhf", "tanh"),
    "log": ("logf", "log"),
    "log1p": ("log1pf", "log1p"),
    "log2": ("log2f", "log2"),
    "log10": ("log10f", "log10"),
    "asinh": ("", "asinh"),
    "acosh": ("", "acosh"),
    "atanh": ("", "atanh"),
    "sin": ("sinf", "sin"),
    "cos": ("cosf", "cos"),
    "tan": ("", "tan"),
    "asin": ("asinf", "asin"),
    "acos": ("acosf", "acos"),
    "atan": ("atanf", "atan"),
    "atan2": ("", "atan2"),
    "hypot": ("", "hypot"),
    "power": ("", "pow"),
    "erf": ("erff", "erf"),
    "erfinv": ("erfinvf", ""),
    "cbrt": ("cbrtf", "cbrt"),
    "sqrt": ("fsqrt_rn", "dsqrt_rn"),
    "floor": ("floorf", "floor"),
    "ceil": ("ceilf", "ceil"),
    "trunc": ("truncf", "trunc"),
    "rint": ("rintf", "rint"),
    "absolute": ("fabsf", "fabs"),
    "copysign": ("copysignf", "copysign"),
    "nextafter": ("nextafterf", "nextafter"),
}
# Of integers: Python's own operators.
_INTEGER_OPERATORS = {"floor_divide": "//", "remainder": "%"}

# What formulas leave to the C library. For float32 in float64, as on the CPU, where rounding errors
# would count: next to the zeros and poles of gamma functions.
_C_LIBRARY = {
    "fmod": ("fmodf", "fmod"),
    "sin": ("sinf", "sin"),
    "cos": ("cosf", "cos"),
    "tan": ("tanf", "tan"),
    "lgamma": ("", "lgamma"),
    "tgamma": ("", "tgamma"),
}


@immutable
class DeviceFunction:
    """The text of one, and the names of the others it calls."""

    text: str
    calls: tuple[str, ...] = ()


@immutable
class DeviceCall:
    """What is called for a function, and its dtypes."""

    function: str
    operand_dtype: np.dtype
    result_dtype: np.dtype
    needs: tuple[str, ...] = ()  # device functions


# Device functions that are not traced.

_WRITTEN: dict[str, str] = {
    **SPECIAL,
    # The record at `errors` holds four int64: 1 once there is an error, then the site, index and
    # size of the first one.
    "check_index": """\
def check_index(index, size, errors, site):
    wrapped = cuda.selp(index < int64(0), index + size, index)
    is_valid = (wrapped >= int64(0)) & (wrapped < size)
    if not is_valid:
        if compare_and_swap(errors, int64(0), int64(1)) == int64(0):
            errors[1] = site
            errors[2] = index
            errors[3] = size
    return cuda.selp(is_valid, wrapped, int64(0))
""",
    "integer_power": """\
def integer_power(base, exponent):
    result = int64(1)
    while exponent != int64(0):
        if (exponent & int64(1)) != int64(0):
            result = int64(result * base)
        base = int64(base * base)
        exponent = int64(uint64(exponent) >> uint64(1))
    return result
""",
    "gcd": """\
def gcd(x, y):
    while y != int64(0):
        rest = int64(uint64(x) % uint64(y))
        x = y
        y = rest
    return x
""",
    "quotient_to_zero": """\
def quotient_to_zero(x, y):
    quotient = x // y
    is_down = ((x < 0) != (y < 0)) and quotient * y != x
    return quotient + 1 if is_down else quotient
""",
    "remainder_to_zero": """\
def remainder_to_zero(x, y):
    rest = x % y
    return rest - y if rest != 0 and (x < 0) != (y < 0) else rest
""",
    "far_atanh": """\
def far_atanh(x, y):
    if x + y > float64(2.0):
        longer = max(x, y)
        ratio = min(x, y) / longer
        return x / longer / (ratio * ratio + float64(1.0)) / longer
    return (float64(0.6931471805599453) - libdevice.log(y)) * float64(0.5)
""",
    "complex_power": """\
def complex_power(s, x, y):
    a = float64(1.0)
    b = float64(0.0)
    k = float64(0.0)
    while k < s:
        p = a * x - b * y
        b = a * y + b * x
        a = p
        k = k + float64(1.0)
    return complex(a, b)
""",
    "sum_of_complex_powers": """\
def sum_of_complex_powers(s, x, y, n):
    real = float64(0.0)
    imaginary = float64(0.0)
    k = float64(0.0)
    while k < n:
        u = x + k
        size = u * u + y * y
        term = complex_power(s, u / size, -y / size)
        real = real + term.real
        imaginary = imaginary + term.imag
        k = k + float64(1.0)
    return complex(real, imaginary)
""",
    "sum_of_powers": """\
def sum_of_powers(x, q, n):
    power = -x
    k = float64(0.0)
    total = float64(0.0)
    while True:
        base = q + k
        rounded = libdevice.pow(base, power)
        part = base - q
        error = (q - (base - part)) + (k - part)
        term = rounded
        if error != float64(0.0):
            correction = libdevice.dmul_rn(rounded, libdevice.dmul_rn(power, error / base))
            term = rounded + correction
        total = total + term
        k = k + float64(1.0)
        if not k < n:
            return total
""",
}


_TRACED = ("_float64", "_complex128")


@functools.cache
def _written(name: str) -> DeviceFunction:
    """One of those that are written out. Literals in its text become typed."""
    tree = _TypedLiterals().visit(syntax_tree(_WRITTEN[name]))
    found = dict.fromkeys(
        node.func.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    )
    # Other written ones, and traced ones of 64-bit parts.
    calls = tuple(c for c in found if c != name and (c in _WRITTEN or c.endswith(_TRACED)))
    return DeviceFunction(f"@cuda.jit(device=True)\n{ast.unparse(tree)}\n", calls)


class _TypedLiterals(ast.NodeTransformer):
    """1.0 -> float64(1.0)"""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        match node:
            case ast.Call(ast.Name("float64" | "float32"), [ast.Constant()]):
                return node
        return self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if not isinstance(node.value, float):
            return node
        return ast.Call(ast.Name("float64", ast.Load()), [node], [])


def known(name: str) -> DeviceFunction:
    """A device function by its name, which says all about it.

    Raises
    ------
    KernelError
        If it calls what GPUs have no function for.
    """
    if name in _WRITTEN:
        return _written(name)
    base, _, dtype = name.rpartition("_")
    if base.endswith("_of"):
        target = base.removesuffix("_of")
        return DeviceFunction(_cast_text(name, np.dtype(dtype), target))
    if base in _INTEGER_OPERATORS and np.dtype(dtype).kind in "iu":
        return DeviceFunction(_division_text(name, dtype, _INTEGER_OPERATORS[base]))
    return _traced(name, *_formula(base, np.dtype(dtype)), np.dtype(dtype))[0]


def _formula(name: str, dtype: np.dtype) -> tuple[Formula, int]:
    """The formula of a name for a dtype, and how many arguments it has."""
    if name in FUNCTIONS:
        return FUNCTIONS[name].formulas[_family(dtype)], FUNCTIONS[name].arity
    formula = (SHARED_OF_PAIRS if dtype.kind == "c" else SHARED)[name]
    count = len(inspect.signature(formula).parameters)
    return formula, count // 2 if dtype.kind == "c" else count


# Calls.


@functools.cache
def call(name: str, dtypes: tuple[np.dtype, ...]) -> DeviceCall:
    """How to call a function of kernel source with operands of these dtypes."""
    function = FUNCTIONS[name]
    common = _common_dtype(function, dtypes)
    family = _family(common)
    if family == FLOATING and function.name in _LIBDEVICE:
        native = _LIBDEVICE[function.name][common.itemsize == 8]
        if native:
            return DeviceCall(f"libdevice.{native}", common, common)
    symbol = f"{function.name}_{common.name}"
    formula = function.formulas[family]
    _, result = _traced(symbol, formula, function.arity, common)
    return DeviceCall(symbol, common, result, (symbol,))


def _common_dtype(function: ElementaryFunction, dtypes: tuple[np.dtype, ...]) -> np.dtype:
    if function.computed_in == OF_FIRST:
        dtypes = dtypes[:1]
    common = np.result_type(*dtypes)
    family = function.family(_family(common))
    if family is None:
        raise KernelError(
            explain(function.name, "not defined for this dtype", got={"dtype": common})
        )
    if common == BOOL_DTYPE and family == UNSIGNED:
        common = np.dtype(np.uint8)
    if common.kind in "biu" and family == FLOATING:
        return np.dtype(np.float64)
    if common.kind in "iu" and function.computed_in != COMMON:
        return np.dtype(np.int64 if common.kind == "i" else np.uint64)
    return common


def _family(dtype: np.dtype) -> str:
    return {"b": BOOLEAN, "i": SIGNED, "u": UNSIGNED, "f": FLOATING, "c": COMPLEX}[dtype.kind]


def _kinds(dtype: np.dtype) -> tuple[str, ...]:
    """The types of the values of a formula: two for the parts of a complex number."""
    if dtype.kind == "b":
        return (BOOL,)
    if dtype.kind in "iu":
        return (f"i{8 * dtype.itemsize}",)
    if dtype.kind == "c":
        return (_FLOAT_KINDS[_PARTS[dtype.name].name],) * 2
    return (_FLOAT_KINDS[dtype.name],)


# Tracing.

_ARGUMENTS = ("x", "y", "z")
_ITEM_SIZES = {FLOAT32: 4, FLOAT64: 8}


@functools.cache
def _traced(
    symbol: str, formula: Formula, arity: int, dtype: np.dtype
) -> tuple[DeviceFunction, np.dtype]:
    library = _Library(symbol)
    results: list[str] = []

    @functools.wraps(formula)
    def observed(*values):
        result = formula(*values)
        results.extend(r.kind for r in (result if isinstance(result, tuple) else (result,)))
        return result

    kinds = _kinds(dtype)
    arguments = [(_ARGUMENTS[k], kinds) for k in range(arity)]
    cast = dtype.name if dtype.kind == "u" else ""
    text, functions = device_function(symbol, observed, arguments, library, cast)
    if len(results) == 2:
        result = np.dtype(f"c{2 * _ITEM_SIZES[results[0]]}")
    elif results[0] in kinds and dtype.kind != "c":
        result = dtype
    else:
        result = np.dtype(NAMES[results[0]])
    # Some calls belong to values that nothing needs in the end.
    called = tuple(c for c in dict.fromkeys(library.calls) if c in functions)
    return DeviceFunction(text, called), result


class _Library:
    """Calls of what formulas do not express, and of what several of them use."""

    def __init__(self, symbol: str) -> None:
        self.symbol = symbol
        self.calls: list[str] = []

    def call(self, name: str, kind: str, arguments: tuple[Term, ...]) -> Term:
        own = name.removeprefix("numba_grad.").removeprefix("scipy.")
        if own in _WRITTEN:
            self.calls.append(own)
            called = own
        elif name in _C_LIBRARY:
            single, double = _C_LIBRARY[name]
            if kind == FLOAT32 and single:
                return scalar_expressions.Call(f"libdevice.{single}", arguments)
            called = f"libdevice.{double}"
        else:
            function, _, dtype = self.symbol.rpartition("_")
            raise KernelError(
                explain(
                    "cuda",
                    f"there is no {function} of {dtype} on GPUs",
                    got={"needs": name.removeprefix("numba_grad.scipy.") + " of SciPy"},
                    fix="the same on the CPU: x.cpu(), and .to(...) of the result",
                )
            )
        return (
            _in_float64(called, arguments)
            if kind == FLOAT32
            else scalar_expressions.Call(called, arguments)
        )

    def shared(
        self, name: str, kind: str, arguments: tuple[Term, ...], is_of_complex: bool
    ) -> Term:
        native = _LIBDEVICE.get(name)
        if native is not None and native[kind == FLOAT64] and not is_of_complex:
            return scalar_expressions.Call(f"libdevice.{native[kind == FLOAT64]}", arguments)
        size = _ITEM_SIZES[kind]
        symbol = f"{name}_{np.dtype(f'c{2 * size}' if is_of_complex else f'f{size}').name}"
        self.calls.append(symbol)
        return scalar_expressions.Call(symbol, arguments)


def _in_float64(name: str, arguments: tuple[Term, ...]) -> Term:
    wide = tuple(scalar_expressions.Call("float64", (x,)) for x in arguments)
    return scalar_expressions.Call("float32", (scalar_expressions.Call(name, wide),))


def _division_text(name: str, dtype: str, operator: str) -> str:
    """Rounded down, and 0 for a zero divisor, as NumPy's."""
    return (
        f"@cuda.jit(device=True)\ndef {name}(x, y):\n"
        f"    is_zero = y == {dtype}(0)\n"
        f"    result = {dtype}(x {operator} ({dtype}(1) if is_zero else y))\n"
        f"    return {dtype}(0) if is_zero else result\n"
    )


# Casts that are more than one operation. They are NumPy's on x86, as on the CPU: floating numbers
# become integers by way of int32 or int64, where NaN and overflow give the least number.


def cast_function(source: np.dtype, target: str) -> str:
    """The name of the device function that casts, "" where a plain conversion does."""
    is_long = source.kind == "f" and np.dtype(target).kind in "iu"
    is_double_to_half = target == "float16" and source.name == "float64"
    is_complex_to_bool = source.kind == "c" and target == "bool"
    if is_long or is_double_to_half or is_complex_to_bool:
        return f"{target}_of_{source.name}"
    return ""


def _cast_text(name: str, source: np.dtype, target: str) -> str:
    head = f"@cuda.jit(device=True)\ndef {name}(x):\n"
    if target == "bool":
        zero = f"{_PARTS[source.name].name}(0.0)"
        return head + f"    return (x.real != {zero}) | (x.imag != {zero})\n"
    if target == "float16":
        return head + _DOUBLE_TO_HALF
    dtype, number = np.dtype(target), source.name
    if target == "uint64":
        return head + (
            f"    half = {number}({2.0**63})\n"
            f"    is_large = x >= half\n"
            f"    rest = cuda.selp(is_large, x - half, x)\n"
            f"    fits = (rest < half) & (rest >= -half)\n"
            f"    low = int64(cuda.selp(fits, rest, {number}(0.0)))\n"
            f"    low = cuda.selp(fits, low, int64({-(2**63)}))\n"
            f"    return uint64(cuda.selp(is_large, low ^ int64({-(2**63)}), low))\n"
        )
    wide = "int32" if dtype.itemsize < 4 or target == "int32" else "int64"
    bound = 2 ** (31 if wide == "int32" else 63)
    return head + (
        f"    bound = {number}({float(bound)})\n"
        f"    fits = (x < bound) & (x >= -bound)\n"
        f"    whole = {wide}(cuda.selp(fits, x, {number}(0.0)))\n"
        f"    return {target}(cuda.selp(fits, whole, {wide}({-bound})))\n"
    )


# Rounded to odd on the way, as `kernel_language/scalars.py` explains.
_DOUBLE_TO_HALF = """\
    near = float32(x)
    back = float64(near)
    bits = libdevice.float_as_int(near)
    bits = cuda.selp(libdevice.fabs(back) > libdevice.fabs(x), int32(bits - int32(1)), bits)
    is_inexact = (back != x) & (back == back)
    bits = cuda.selp(is_inexact, int32(bits | int32(1)), bits)
    return float32(float16(libdevice.int_as_float(bits)))
"""
