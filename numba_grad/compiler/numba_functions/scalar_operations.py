"""What scalars are computed with: source, types and derivatives, a record for each operation.

Of what is an operation of the package, too, the expression and the derivatives are those of its
record.
"""

import functools
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from numba_grad.compiler.numba_functions import derivative_rules
from numba_grad.compiler.numba_functions.regions import COMPLEX, FLOATS, Scalar, Value
from numba_grad.compiler.scalar_expressions import Call, Operand, Operation, Term, parsed
from numba_grad.graph.node import OPS
from numba_grad.ops import special  # noqa: F401  (its operations are in OPS)

if TYPE_CHECKING:
    from numba_grad.compiler.numba_functions.builder import Builder

# Called with a builder, the cotangent of the result, the arguments and the result: what an argument
# gets. It is linear in the cotangent, so it multiplies a tangent of the argument just as well.
Slope = Callable[["Builder", Value, Sequence[Value], Value], Value]


@dataclass(frozen=True, eq=False, slots=True)
class ScalarOperation:
    expression: str | Term  # as text, of the kernel language
    operands: tuple[str, ...]  # its names for the arguments
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


def takes_floats(name: str) -> bool:
    """Whether a function of floats in generated source must be given floats."""
    operation = OPERATIONS[name]
    return operation.is_float and isinstance(operation.expression, Call)


def is_differentiable(name: str) -> bool:
    return OPERATIONS[name].slopes is not None


def folded(name: str, arguments: Sequence[Value], dtype: str | None) -> Value | None:
    """The result where it is an argument, or an integer: what indices are made of."""
    if dtype is not None and name == "cast":
        (x,) = arguments
        return x if dtype_of(x) == dtype else None
    if name == "negative" and type(arguments[0]) in (int, float):
        return -arguments[0]  # type: ignore[operator]
    if name in ("bool", "not") and type(arguments[0]) in (bool, int):
        return bool(arguments[0]) is (name == "bool")
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
_neg, _select = _d("negative"), _d("select")


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


def _norm_squared(b: "Builder", x: Sequence[Value]) -> Value:
    return _add(b, _mul(b, x[0], x[0]), _mul(b, x[1], x[1]))


def _picked(is_first: bool, name: str) -> Slope:
    """Of the larger or smaller of two: the one that is taken, as Python takes it."""

    def slope(b: "Builder", g: Value, x: Sequence[Value], y: Value) -> Value:
        takes_second = b.define("less", *(x if name == "maximum" else x[::-1]))
        return _select(b, takes_second, 0.0, g) if is_first else _select(b, takes_second, g, 0.0)

    return slope


def _times(factor: float) -> Slope:
    return lambda b, g, x, y: _mul(b, g, factor)


def _own(expression: str, *slopes: Slope | None, **rest: object) -> ScalarOperation:
    """Of arguments {a}, {b}, ... in this order."""
    operands = tuple(sorted(set(re.findall(r"{(\w+)}", expression))))
    return ScalarOperation(expression, operands, slopes or None, **rest)  # type: ignore[arg-type]


def _called(
    function: str, *slopes: Slope | None, count: int = 1, **rest: object
) -> ScalarOperation:
    """A function that generated source has besides those of the kernel language."""
    operands = ("a", "b")[:count]
    term = Call(function, tuple(map(Operand, operands)))
    return ScalarOperation(term, operands, slopes or None, **rest)  # type: ignore[arg-type]


def _recorded(name: str, *slopes: Slope | None, **rest: object) -> ScalarOperation:
    """As the record of that name has it, but for slopes that are given."""
    op = OPS[name]
    count = len(op.input_names)
    rules = [functools.partial(derivative_rules.slope, name, k) for k in range(count)]
    assert isinstance(op.expression, str)
    return ScalarOperation(op.expression, op.input_names, slopes or tuple(rules), **rest)  # type: ignore[arg-type]


# Of complex numbers, their results are real.
_OF_PARTS = ("absolute", "angle", "real", "imag")
# What is true where a comparison is false.
OPPOSITE = {
    **{"equal": "not_equal", "not_equal": "equal"},
    **{"less": "greater_equal", "greater_equal": "less"},
    **{"greater": "less_equal", "less_equal": "greater"},
}


def _comparisons() -> dict[str, ScalarOperation]:
    symbols = {"less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">="}
    symbols |= {"equal": "==", "not_equal": "!="}
    return {name: _own(f"{{a}} {symbol} {{b}}", dtype="bool") for name, symbol in symbols.items()}


_POWER = Operation("**", (Operand("a"), Operand("b")))

OPERATIONS: dict[str, ScalarOperation] = {
    **{name: _recorded(name) for name in ("add", "subtract", "multiply", "negative", "positive")},
    "divide": _recorded("divide", is_float=True),
    **{
        name: _recorded(name, is_float=True)
        for name in (
            *("sin", "cos", "tan", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh"),
            *("arcsinh", "arccosh", "arctanh", "exp", "exp2", "expm1", "log", "log1p", "log2"),
            *("log10", "sqrt", "cbrt", "hypot", "erf", "erfc", "gamma", "digamma", "trigamma"),
        )
    },
    # Its first argument is a number in the text.
    "zeta": _recorded(
        "zeta",
        None,
        lambda b, g, x, y: _mul(
            b, _mul(b, g, _neg(b, x[0])), b.define("zeta", _add(b, x[0], 1.0), x[1])
        ),
        is_float=True,
    ),
    "lgamma": _recorded("gammaln", is_float=True),
    "fmod": _recorded("fmod"),
    # Without a care for overflow, which takes 1.7 times as long.
    "arctan2": _recorded(
        "arctan2",
        lambda b, g, x, y: _div(b, _mul(b, g, x[1]), _norm_squared(b, x)),
        lambda b, g, x, y: _neg(b, _div(b, _mul(b, g, x[0]), _norm_squared(b, x))),
        is_float=True,
    ),
    # Numbers as exponents are in the text, and their slopes in a form of their own.
    "power": ScalarOperation(_POWER, ("a", "b"), (_power_base, _power_exponent)),
    "mod": _own(
        "{a} % {b}", *[functools.partial(derivative_rules.slope, "remainder", k) for k in range(2)]
    ),
    "floor_divide": _own("{a} // {b}"),
    # Of NaN the slope is NaN, which spares a test.
    "absolute": _recorded("absolute", lambda b, g, x, y: _mul(b, g, b.define("sign", x[0]))),
    "cast": _own("{a}", lambda b, g, x, y: g),
    "select": _own(
        "{b} if {a} else {c}",
        None,
        lambda b, g, x, y: _select(b, x[0], g, 0.0),
        lambda b, g, x, y: _select(b, x[0], 0.0, g),
    ),
    "maximum": _recorded("maximum", _picked(True, "maximum"), _picked(False, "maximum")),
    "minimum": _recorded("minimum", _picked(True, "minimum"), _picked(False, "minimum")),
    "least": _own("min({a}, {b})", dtype="int64"),  # of lengths
    "most": _own("max({a}, {b})", dtype="int64"),
    "sign": _own("sign({a})"),
    # What complex numbers are made of, and taken apart by (`complex_numbers.py`).
    "complex": _own("complex({a}, {b})"),
    **{name: _own(f"{name}({{a}})") for name in ("real", "imag", "conjugate", "angle")},
    "logaddexp": _called(
        "np.logaddexp",
        lambda b, g, x, y: _mul(b, g, b.define("exp", _sub(b, x[0], y))),
        lambda b, g, x, y: _mul(b, g, b.define("exp", _sub(b, x[1], y))),
        count=2,
        is_float=True,
    ),
    "copysign": _recorded(
        "copysign", functools.partial(derivative_rules.slope, "copysign", 0), None, is_float=True
    ),
    "degrees": _called(
        "math.degrees", lambda b, g, x, y: _mul(b, g, 180.0 / math.pi), is_float=True
    ),
    "radians": _called(
        "math.radians", lambda b, g, x, y: _mul(b, g, math.pi / 180.0), is_float=True
    ),
    # Those of `math` give integers.
    **{name: _called(f"math.{name}") for name in ("trunc", "floor", "ceil")},
    **{f"np_{name}": _own(f"{name}({{a}})", is_float=True) for name in ("trunc", "floor", "ceil")},
    "rint": _own("rint({a})", is_float=True),
    "round": _own("round({a})"),
    **{name: _own(f"{name}({{a}})", dtype="bool") for name in ("isnan", "isfinite", "isinf")},
    **_comparisons(),
    "not": _own("not {a}", dtype="bool"),
    "bool": _own("{a} != 0", dtype="bool"),
    "bitwise_and": _own("{a} & {b}"),
    "bitwise_or": _own("{a} | {b}"),
    "bitwise_xor": _own("{a} ^ {b}"),
    "left_shift": _own("{a} << {b}"),
    "right_shift": _own("{a} >> {b}"),
    # Of a thread of a CUDA kernel.
    **{
        f"{name}_{axis}": _own(f"{name}_{axis}", dtype="int64")
        for name in ("thread", "block", "block_size", "grid_size")
        for axis in "xyz"
    },
}


@functools.cache
def cast_to(dtype: str) -> Term:
    if dtype == "bool":
        return parsed("{a} != 0")
    return Call(f"np.{dtype}", (Operand("a"),))
