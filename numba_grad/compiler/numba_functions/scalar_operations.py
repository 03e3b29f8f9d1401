"""What scalars are computed with: source, types and derivatives, a record for each operation."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from numba_grad.compiler.numba_functions.regions import COMPLEX, FLOATS, Scalar, Value

if TYPE_CHECKING:
    from numba_grad.compiler.numba_functions.builder import Builder

# Called with a builder, the cotangent of the result, the arguments and the result: what an argument
# gets. It is linear in the cotangent, so it multiplies a tangent of the argument just as well.
Slope = Callable[["Builder", Value, Sequence[Value], Value], Value]


@dataclass(frozen=True, slots=True)
class Operation:
    template: str  # of source text
    slopes: tuple[Slope | None, ...] | None = None  # None: piecewise constant, or of integers
    dtype: str | None = None  # of the result; None: what NumPy promotes the arguments to
    is_float: bool = False  # of integers, the result is float64


def dtype_of(value: Value) -> str:
    if isinstance(value, Scalar):
        return value.dtype
    if isinstance(value, bool):
        return "bool"
    return "int64" if isinstance(value, int) else "float64"


def part_dtype(dtype: str) -> str:
    """The dtype of the parts of a complex number; of a real one, its own."""
    return {"complex64": "float32", "complex128": "float64"}.get(dtype, dtype)


def result_dtype(name: str, arguments: Sequence[Value]) -> str:
    """As Numba has it: numbers are int64 and float64, and int64 with float32 is float64."""
    operation = OPERATIONS[name]
    if operation.dtype is not None:
        return operation.dtype
    dtypes = [dtype_of(x) for x in arguments]
    if name == "select":
        dtypes = dtypes[1:]
    if any(d in COMPLEX for d in dtypes):
        is_single = all(d in ("complex64", "float32", "bool") for d in dtypes)
        found = "complex64" if is_single else "complex128"
        return part_dtype(found) if name in _OF_PARTS else found
    floats = {d for d in dtypes if d in FLOATS}
    if floats == {"float32"} and all(d == "float32" or d == "bool" for d in dtypes):
        return "float32"
    if floats or operation.is_float:
        return "float64"
    return "int64"


def is_differentiable(name: str) -> bool:
    return OPERATIONS[name].slopes is not None


def folded(name: str, arguments: Sequence[Value], dtype: str | None) -> Value | None:
    """The result where it is an argument, or an integer: what indices are made of."""
    if dtype is not None and name == "cast":
        (x,) = arguments
        return x if dtype_of(x) == dtype else None
    if name == "negative" and type(arguments[0]) in (int, float):
        return -arguments[0]  # type: ignore[operator]
    if name in ("add", "subtract", "multiply"):
        a, b = arguments
        if type(a) is int and type(b) is int:
            return {"add": a + b, "subtract": a - b, "multiply": a * b}[name]
        if dtype_of(a) == "int64" and dtype_of(b) == "int64":
            if name == "multiply":
                if a == 1 and type(a) is int:
                    return b
                if b == 1 and type(b) is int:
                    return a
                if (type(a) is int and a == 0) or (type(b) is int and b == 0):
                    return 0
            elif type(b) is int and b == 0:
                return a
            elif name == "add" and type(a) is int and a == 0:
                return b
    return None


def _d(operation: str) -> Callable[..., Value]:
    return lambda b, *arguments: b.define(operation, *arguments)


_add, _sub, _mul, _div = _d("add"), _d("subtract"), _d("multiply"), _d("divide")
_neg, _select, _less = _d("negative"), _d("select"), _d("less")


def _times(name: str) -> tuple[Slope]:
    """The slope is a function of the argument."""
    return (lambda b, g, x, y: _mul(b, g, b.define(name, x[0])),)


def _power_base(b: "Builder", g: Value, x: Sequence[Value], y: Value) -> Value:
    base, exponent = x
    if isinstance(exponent, int | float):
        if exponent == 2:
            return _mul(b, g, _mul(b, 2.0, base))
        if exponent == 0:
            return 0.0
        return _mul(b, g, _mul(b, exponent, b.define("power", base, exponent - 1)))
    # Of x**0 the slope is 0 at 0, too.
    lower = b.define("power", base, _sub(b, exponent, 1))
    slope = _mul(b, exponent, lower)
    return _mul(b, g, _select(b, b.define("equal", exponent, 0), 0.0, slope))


def _power_exponent(b: "Builder", g: Value, x: Sequence[Value], y: Value) -> Value:
    # Of 0**y the limit is 0.
    is_zero = b.define("equal", x[0], 0)
    logarithm = b.define("log", _select(b, is_zero, 1.0, x[0]))
    return _mul(b, g, _mul(b, y, logarithm))


def _one_less_square(b: "Builder", y: Value) -> Value:
    return _sub(b, 1.0, _mul(b, y, y))


def _picked(is_first: bool, name: str) -> Slope:
    """Of the larger or smaller of two: the one that is taken, as Python takes it."""

    def slope(b: "Builder", g: Value, x: Sequence[Value], y: Value) -> Value:
        takes_second = b.define("less", *(x if name == "maximum" else x[::-1]))
        return _select(b, takes_second, 0.0, g) if is_first else _select(b, takes_second, g, 0.0)

    return slope


def _binary(symbol: str, *slopes: Slope | None, **rest: object) -> Operation:
    return Operation(f"({{0}} {symbol} {{1}})", slopes or None, **rest)  # type: ignore[arg-type]


def _call(name: str, *slopes: Slope | None, **rest: object) -> Operation:
    count = max(1, len(slopes))
    places = ", ".join(f"{{{k}}}" for k in range(count))
    return Operation(f"{name}({places})", slopes or None, is_float=True, **rest)  # type: ignore[arg-type]


def _compare(symbol: str) -> Operation:
    return _binary(symbol, dtype="bool")


# Of complex numbers, their results are real.
_OF_PARTS = ("absolute", "angle", "real", "imag")


def _places(name: str, text: str) -> dict[str, Operation]:
    return {f"{name}_{axis}": Operation(f"{text}.{axis}", dtype="int64") for axis in "xyz"}


OPERATIONS: dict[str, Operation] = {
    "add": _binary("+", lambda b, g, x, y: g, lambda b, g, x, y: g),
    "subtract": _binary("-", lambda b, g, x, y: g, lambda b, g, x, y: _neg(b, g)),
    "multiply": _binary(
        "*", lambda b, g, x, y: _mul(b, g, x[1]), lambda b, g, x, y: _mul(b, g, x[0])
    ),
    "divide": Operation(
        "({0} / {1})",
        (
            lambda b, g, x, y: _div(b, g, x[1]),
            lambda b, g, x, y: _neg(b, _mul(b, _div(b, g, x[1]), y)),
        ),
        is_float=True,
    ),
    "power": Operation("({0} ** {1})", (_power_base, _power_exponent)),
    # a % b is a - b * floor(a / b), and the slope of floor is 0.
    "mod": _binary(
        "%",
        lambda b, g, x, y: g,
        lambda b, g, x, y: _neg(b, _mul(b, g, b.define("floor_divide", x[0], x[1]))),
    ),
    "floor_divide": _binary("//"),
    "negative": Operation("(-{0})", (lambda b, g, x, y: _neg(b, g),)),
    "positive": Operation("(+{0})", (lambda b, g, x, y: g,)),
    "absolute": Operation("abs({0})", (lambda b, g, x, y: _mul(b, g, b.define("sign", x[0])),)),
    "cast": Operation("{dtype}({0})", (lambda b, g, x, y: g,)),
    "select": Operation(
        "({1} if {0} else {2})",
        (
            None,
            lambda b, g, x, y: _select(b, x[0], g, 0.0),
            lambda b, g, x, y: _select(b, x[0], 0.0, g),
        ),
    ),
    "maximum": Operation(
        "np.maximum({0}, {1})", (_picked(True, "maximum"), _picked(False, "maximum"))
    ),
    "minimum": Operation(
        "np.minimum({0}, {1})", (_picked(True, "minimum"), _picked(False, "minimum"))
    ),
    "least": Operation("min({0}, {1})", dtype="int64"),  # of lengths
    "most": Operation("max({0}, {1})", dtype="int64"),
    "sign": Operation("np.sign({0})"),
    "sin": _call("math.sin", *_times("cos")),
    "cos": _call("math.cos", lambda b, g, x, y: _neg(b, _mul(b, g, b.define("sin", x[0])))),
    "tan": _call("math.tan", lambda b, g, x, y: _mul(b, g, _add(b, 1.0, _mul(b, y, y)))),
    "exp": _call("math.exp", lambda b, g, x, y: _mul(b, g, y)),
    "expm1": _call("math.expm1", lambda b, g, x, y: _mul(b, g, _add(b, y, 1.0))),
    "log": _call("math.log", lambda b, g, x, y: _div(b, g, x[0])),
    "log1p": _call("math.log1p", lambda b, g, x, y: _div(b, g, _add(b, 1.0, x[0]))),
    "log2": _call("np.log2", lambda b, g, x, y: _div(b, g, _mul(b, math.log(2.0), x[0]))),
    "log10": _call("math.log10", lambda b, g, x, y: _div(b, g, _mul(b, math.log(10.0), x[0]))),
    "sqrt": _call("math.sqrt", lambda b, g, x, y: _div(b, g, _mul(b, 2.0, y))),
    "sinh": _call("math.sinh", *_times("cosh")),
    "cosh": _call("math.cosh", *_times("sinh")),
    "tanh": _call("math.tanh", lambda b, g, x, y: _mul(b, g, _one_less_square(b, y))),
    "arcsin": _call(
        "math.asin",
        lambda b, g, x, y: _div(b, g, b.define("sqrt", _one_less_square(b, x[0]))),
    ),
    "arccos": _call(
        "math.acos",
        lambda b, g, x, y: _neg(b, _div(b, g, b.define("sqrt", _one_less_square(b, x[0])))),
    ),
    "arctan": _call("math.atan", lambda b, g, x, y: _div(b, g, _add(b, 1.0, _mul(b, x[0], x[0])))),
    "arctan2": _call(
        "math.atan2",
        lambda b, g, x, y: _div(b, _mul(b, g, x[1]), _norm_squared(b, x)),
        lambda b, g, x, y: _neg(b, _div(b, _mul(b, g, x[0]), _norm_squared(b, x))),
    ),
    "hypot": _call(
        "math.hypot",
        lambda b, g, x, y: _mul(b, g, _div(b, x[0], y)),
        lambda b, g, x, y: _mul(b, g, _div(b, x[1], y)),
    ),
    # The absolute value of a complex number: a `hypot` whose slope at 0 is 0.
    "modulus": _call(
        "math.hypot",
        lambda b, g, x, y: _mul(b, g, _div(b, x[0], _or_infinity(b, y))),
        lambda b, g, x, y: _mul(b, g, _div(b, x[1], _or_infinity(b, y))),
    ),
    # What complex numbers are made of, and taken apart by (`complex_numbers.py`).
    "complex": Operation("complex({0}, {1})"),
    "real": Operation("{0}.real"),
    "imag": Operation("{0}.imag"),
    "conjugate": Operation("{0}.conjugate()"),
    "angle": Operation("np.angle({0})"),
    "erf": _call(
        "math.erf",
        lambda b, g, x, y: _mul(
            b,
            _mul(b, g, 2.0 / math.sqrt(math.pi)),
            b.define("exp", _neg(b, _mul(b, x[0], x[0]))),
        ),
    ),
    "arcsinh": _call(
        "math.asinh",
        lambda b, g, x, y: _div(b, g, b.define("hypot", 1.0, x[0])),
    ),
    "arccosh": _call(
        "math.acosh",
        lambda b, g, x, y: _div(
            b,
            g,
            _mul(b, b.define("sqrt", _sub(b, x[0], 1.0)), b.define("sqrt", _add(b, x[0], 1.0))),
        ),
    ),
    "arctanh": _call("math.atanh", lambda b, g, x, y: _div(b, g, _one_less_square(b, x[0]))),
    "exp2": _call("np.exp2", lambda b, g, x, y: _mul(b, g, _mul(b, math.log(2.0), y))),
    "cbrt": _call("np.cbrt", lambda b, g, x, y: _div(b, g, _mul(b, 3.0, _mul(b, y, y)))),
    "erfc": _call(
        "math.erfc",
        lambda b, g, x, y: _mul(
            b,
            _mul(b, g, -2.0 / math.sqrt(math.pi)),
            b.define("exp", _neg(b, _mul(b, x[0], x[0]))),
        ),
    ),
    "logaddexp": _call(
        "np.logaddexp",
        lambda b, g, x, y: _mul(b, g, b.define("exp", _sub(b, x[0], y))),
        lambda b, g, x, y: _mul(b, g, b.define("exp", _sub(b, x[1], y))),
    ),
    "copysign": _call(
        "math.copysign",
        lambda b, g, x, y: _mul(b, g, b.define("sign", _mul(b, b.define("sign", x[0]), y))),
        None,
    ),
    "degrees": _call("math.degrees", lambda b, g, x, y: _mul(b, g, 180.0 / math.pi)),
    "radians": _call("math.radians", lambda b, g, x, y: _mul(b, g, math.pi / 180.0)),
    "trunc": Operation("math.trunc({0})"),
    "np_trunc": Operation("np.trunc({0})", is_float=True),
    "rint": Operation("np.rint({0})", is_float=True),
    "round": Operation("round({0})"),
    "floor": Operation("math.floor({0})"),
    "ceil": Operation("math.ceil({0})"),
    "np_floor": Operation("np.floor({0})", is_float=True),
    "np_ceil": Operation("np.ceil({0})", is_float=True),
    "isnan": Operation("math.isnan({0})", dtype="bool"),
    "isfinite": Operation("math.isfinite({0})", dtype="bool"),
    "isinf": Operation("math.isinf({0})", dtype="bool"),
    "less": _compare("<"),
    "less_equal": _compare("<="),
    "greater": _compare(">"),
    "greater_equal": _compare(">="),
    "equal": _compare("=="),
    "not_equal": _compare("!="),
    "not": Operation("(not {0})", dtype="bool"),
    "bool": Operation("({0} != 0)", dtype="bool"),
    "bitwise_and": _binary("&"),
    "bitwise_or": _binary("|"),
    "bitwise_xor": _binary("^"),
    "left_shift": _binary("<<"),
    "right_shift": _binary(">>"),
    # Of a thread of a CUDA kernel.
    **_places("thread", "cuda.threadIdx"),
    **_places("block", "cuda.blockIdx"),
    **_places("block_size", "cuda.blockDim"),
    **_places("grid_size", "cuda.gridDim"),
}


def _or_infinity(b: "Builder", x: Value) -> Value:
    """Infinity in place of 0."""
    return _select(b, b.define("equal", x, 0.0), math.inf, x)


def _norm_squared(b: "Builder", x: Sequence[Value]) -> Value:
    return _add(b, _mul(b, x[0], x[0]), _mul(b, x[1], x[1]))
