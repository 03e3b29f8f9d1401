"""Complex numbers as pairs: the real part and the imaginary part, each a number or an array.

A tree that comes from the user's code has scalars and memories of dtype complex64 and complex128.
`with_pairs` writes it with two for each, of a floating dtype; all that follows knows of no complex
numbers. The cotangent of a pair is a pair, so derivatives are PyTorch's by themselves: the
conjugate Wirtinger derivative. Arrays lie in two planes, which vector code reads as any other.

Values are Numba's to rounding: products by the textbook, quotients by Smith's method (Smith, 1962),
`abs` without overflow.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from numba_grad.compiler.numba_functions.builder import Builder
from numba_grad.compiler.numba_functions.regions import (
    COMPLEX,
    Allocate,
    Define,
    Function,
    Load,
    Memory,
    Scalar,
    Size,
    Statement,
    Store,
    Swap,
    Value,
    with_regions,
)
from numba_grad.compiler.numba_functions.scalar_operations import dtype_of, part_dtype

Pair = tuple[Value, Value]


def with_pairs(function: Function) -> Function:
    """The function with two numbers or arrays in place of each complex one."""
    assert function.builder is not None
    pairs = _Pairs(function.builder.copy())
    seen = [*function.parameters, *function.returned]
    return replace(
        function,
        parameters=[part for m in function.parameters for part in pairs.memories(m)],
        body=pairs.region(function.body),
        written=[part for m in function.written for part in pairs.memories(m)],
        returned=[part for m in function.returned for part in pairs.memories(m)],
        builder=pairs.builder,
        real_parts=frozenset([pairs.memories(m)[0] for m in seen if m.dtype in COMPLEX]),
    )


class _Pairs:
    def __init__(self, builder: Builder) -> None:
        self.builder = builder
        self._memories: dict[Memory, tuple[Memory, ...]] = {}
        self._scalars: dict[Scalar, Pair] = {}

    def memories(self, memory: Memory) -> tuple[Memory, ...]:
        """The two parts of a complex memory; another one alone."""
        found = self._memories.get(memory)
        if found is None:
            found = (memory,)
            if memory.dtype in COMPLEX:
                dtype = part_dtype(memory.dtype)
                real, imaginary = f"{memory.name}_real", f"{memory.name}_imag"
                names = [self.builder.name(name) for name in (real, imaginary)]
                found = tuple([Memory(name, dtype, memory.rank) for name in names])
            self._memories[memory] = found
        return found

    def of(self, value: Value) -> Pair:
        """Both parts of a value; of a real one, the second is the number 0.0."""
        if isinstance(value, Scalar) and value in self._scalars:
            return self._scalars[value]
        return value, 0.0

    def region(self, statements: list[Statement]) -> list[Statement]:
        result: list[Statement] = []
        with self.builder.region(result):
            for s in statements:
                self.statement(s)
        return result

    def statement(self, s: Statement) -> None:
        body = self.builder.body
        if isinstance(s, Define):
            self._define(s)
        elif isinstance(s, Load) and s.target.dtype in COMPLEX:
            parts = [self.builder.load(m, *s.indices) for m in self.memories(s.memory)]
            self._scalars[s.target] = parts[0], parts[1]
        elif isinstance(s, Store) and s.memory.dtype in COMPLEX:
            values = self.of(s.value)
            for memory, value in zip(self.memories(s.memory), values, strict=True):
                if s.is_added and type(value) is float and value == 0.0:
                    continue  # of what is real
                self.builder.store(memory, s.indices, value, is_added=s.is_added)
        elif isinstance(s, Size):
            body.append(replace(s, memory=self.memories(s.memory)[0]))
        elif isinstance(s, Allocate) and s.memory.dtype in COMPLEX:
            real, imaginary = self.memories(s.memory)
            body.append(replace(s, memory=real))
            body.append(replace(s, memory=imaginary, fill=None if s.fill is None else 0.0))
        elif isinstance(s, Swap):
            parts = [[self.memories(m) for m in names] for names in (s.memories, s.others)]
            for k in range(len(parts[0][0])):
                names, others = (tuple([found[k] for found in part]) for part in parts)
                body.append(Swap(names, others))
        else:
            body.append(with_regions(s, self.region))

    def _define(self, s: Define) -> None:
        is_complex = s.target.dtype in COMPLEX
        if not is_complex and not any(dtype_of(x) in COMPLEX for x in s.arguments):
            self.builder.body.append(_of_reals(s))
            return
        dtype = s.target.dtype
        if not is_complex:
            dtypes = [dtype_of(x) for x in s.arguments]
            dtype = "complex128" if "complex128" in dtypes else "complex64"
        arithmetic = _Arithmetic(self.builder, part_dtype(dtype))
        result = OPERATIONS[s.operation](arithmetic, [self.of(x) for x in s.arguments])
        if is_complex:
            # Of one name each, since a part may be another number's.
            self._scalars[s.target] = arithmetic.cast(result[0]), arithmetic.cast(result[1])
        else:
            self.builder.body.append(Define(s.target, "positive", (result[0],)))


def _of_reals(s: Define) -> Define:
    """What is defined for real numbers, too."""
    if s.operation in ("real", "conjugate"):
        return replace(s, operation="positive")
    if s.operation == "imag":
        return Define(s.target, "cast", (0.0,))
    if s.operation == "angle":
        return Define(s.target, "arctan2", (0.0, *s.arguments))
    return s


class _Arithmetic:
    """Operations on pairs of numbers of one dtype."""

    def __init__(self, builder: Builder, dtype: str) -> None:
        self.builder = builder
        self.dtype = dtype

    def cast(self, value: Value) -> Value:
        """A number as one of the dtype."""
        if isinstance(value, int) and self.dtype == "float64":
            return float(value)
        return self.builder.define("cast", value, dtype=self.dtype)

    def do(self, operation: str, *arguments: Value) -> Value:
        """A floating result."""
        values = list(map(self.cast, arguments))
        return self.builder.define(operation, *values, dtype=self.dtype)

    def is_(self, operation: str, a: Value, b: Value) -> Value:
        return self.builder.define(operation, a, b, dtype="bool")

    def select(self, condition: Value, a: Value, b: Value) -> Value:
        values = self.cast(a), self.cast(b)
        return self.builder.define("select", condition, *values, dtype=self.dtype)


_Arguments = Sequence[Pair]


def _is_real(x: Pair) -> bool:
    """Whether it is known to be."""
    return type(x[1]) is float and x[1] == 0.0


def _add(a: _Arithmetic, arguments: _Arguments) -> Pair:
    x, y = arguments
    real = a.do("add", x[0], y[0])
    if _is_real(y):
        return real, x[1]
    return real, y[1] if _is_real(x) else a.do("add", x[1], y[1])


def _subtract(a: _Arithmetic, arguments: _Arguments) -> Pair:
    x, y = arguments
    real = a.do("subtract", x[0], y[0])
    if _is_real(y):
        return real, x[1]
    return real, a.do("negative", y[1]) if _is_real(x) else a.do("subtract", x[1], y[1])


def _multiply(a: _Arithmetic, arguments: _Arguments) -> Pair:
    x, y = arguments
    for factor, z in ((x, y), (y, x)):
        if _is_real(factor):
            imaginary = 0.0 if _is_real(z) else a.do("multiply", factor[0], z[1])
            return a.do("multiply", factor[0], z[0]), imaginary
    products = a.do("multiply", x[0], y[0]), a.do("multiply", x[1], y[1])
    crossed = a.do("multiply", x[0], y[1]), a.do("multiply", x[1], y[0])
    return a.do("subtract", *products), a.do("add", *crossed)


def _divide(a: _Arithmetic, arguments: _Arguments) -> Pair:
    """By Smith's method: the larger part of the divisor divides the other."""
    x, y = arguments
    if _is_real(y):
        imaginary = 0.0 if _is_real(x) else a.do("divide", x[1], y[0])
        return a.do("divide", x[0], y[0]), imaginary
    sizes = a.do("absolute", y[0]), a.do("absolute", y[1])
    is_first = a.is_("greater_equal", *sizes)
    large, small = a.select(is_first, *y), a.select(is_first, y[1], y[0])
    first, second = a.select(is_first, *x), a.select(is_first, x[1], x[0])
    ratio = a.do("divide", small, large)
    divisor = a.do("add", large, a.do("multiply", small, ratio))
    real = a.do("add", first, a.do("multiply", second, ratio))
    imaginary = a.do("subtract", second, a.do("multiply", first, ratio))
    signed = a.select(is_first, imaginary, a.do("negative", imaginary))
    return a.do("divide", real, divisor), a.do("divide", signed, divisor)


def _negative(a: _Arithmetic, arguments: _Arguments) -> Pair:
    ((real, imaginary),) = arguments
    return a.do("negative", real), a.do("negative", imaginary)


def _conjugate(a: _Arithmetic, arguments: _Arguments) -> Pair:
    ((real, imaginary),) = arguments
    return real, a.do("negative", imaginary)


def _absolute(a: _Arithmetic, arguments: _Arguments) -> Pair:
    return a.do("hypot", *arguments[0]), 0.0


def _angle(a: _Arithmetic, arguments: _Arguments) -> Pair:
    ((real, imaginary),) = arguments
    return a.do("arctan2", imaginary, real), 0.0


def _select(a: _Arithmetic, arguments: _Arguments) -> Pair:
    (condition, _), x, y = arguments
    return a.select(condition, x[0], y[0]), a.select(condition, x[1], y[1])


def _equal(a: _Arithmetic, arguments: _Arguments) -> Pair:
    x, y = arguments
    parts = a.is_("equal", x[0], y[0]), a.is_("equal", x[1], y[1])
    return a.is_("bitwise_and", *parts), 0.0


def _not_equal(a: _Arithmetic, arguments: _Arguments) -> Pair:
    x, y = arguments
    parts = a.is_("not_equal", x[0], y[0]), a.is_("not_equal", x[1], y[1])
    return a.is_("bitwise_or", *parts), 0.0


def _exp(a: _Arithmetic, arguments: _Arguments) -> Pair:
    ((real, imaginary),) = arguments
    size = a.do("exp", real)
    cosine, sine = a.do("cos", imaginary), a.do("sin", imaginary)
    return a.do("multiply", size, cosine), a.do("multiply", size, sine)


def _log(a: _Arithmetic, arguments: _Arguments) -> Pair:
    """Near the unit circle from |z|^2 - 1 = (x - 1)(x + 1) + y^2, where |z| would be rounded."""
    ((real, imaginary),) = arguments
    size = a.do("hypot", real, imaginary)
    is_near = a.is_("bitwise_and", a.is_("less", 0.7, size), a.is_("less", size, 1.4))
    sizes = _without_sign(a, real), _without_sign(a, imaginary)
    is_first = a.is_("greater_equal", *sizes)
    large, small = a.select(is_first, *sizes), a.select(is_first, sizes[1], sizes[0])
    product = a.do("multiply", a.do("subtract", large, 1.0), a.do("add", large, 1.0))
    excess = a.do("add", product, a.do("multiply", small, small))
    near = a.do("multiply", 0.5, a.do("log1p", a.select(is_near, excess, 0.0)))
    logarithm = a.select(is_near, near, a.do("log", size))
    return logarithm, a.do("arctan2", imaginary, real)


def _without_sign(a: _Arithmetic, x: Value) -> Value:
    """The absolute value; at 0 with a slope, as it is the one of two branches that meet there."""
    return a.select(a.is_("less", x, 0.0), a.do("negative", x), x)


def _sqrt(a: _Arithmetic, arguments: _Arguments) -> Pair:
    """The root with a real part that is not negative, by the one of its parts that is larger."""
    ((real, imaginary),) = arguments
    size = a.do("hypot", real, imaginary)
    half = a.do("multiply", 0.5, a.do("add", size, _without_sign(a, real)))
    large = a.do("sqrt", half)
    is_zero = a.is_("equal", large, 0.0)
    divisor = a.select(is_zero, 1.0, a.do("multiply", 2.0, large))
    small = a.do("divide", imaginary, divisor)
    is_left = a.is_("less", real, 0.0)
    # On the cut, the imaginary part has the sign of a zero.
    sign = a.do("copysign", 1.0, imaginary)
    return (
        a.select(is_left, a.do("multiply", small, sign), large),
        a.select(is_left, a.do("multiply", large, sign), small),
    )


def _sin(a: _Arithmetic, arguments: _Arguments) -> Pair:
    ((x, y),) = arguments
    real = a.do("multiply", a.do("sin", x), a.do("cosh", y))
    return real, a.do("multiply", a.do("cos", x), a.do("sinh", y))


def _cos(a: _Arithmetic, arguments: _Arguments) -> Pair:
    ((x, y),) = arguments
    real = a.do("multiply", a.do("cos", x), a.do("cosh", y))
    return real, a.do("negative", a.do("multiply", a.do("sin", x), a.do("sinh", y)))


def _sinh(a: _Arithmetic, arguments: _Arguments) -> Pair:
    ((x, y),) = arguments
    real = a.do("multiply", a.do("sinh", x), a.do("cos", y))
    return real, a.do("multiply", a.do("cosh", x), a.do("sin", y))


def _cosh(a: _Arithmetic, arguments: _Arguments) -> Pair:
    ((x, y),) = arguments
    real = a.do("multiply", a.do("cosh", x), a.do("cos", y))
    return real, a.do("multiply", a.do("sinh", x), a.do("sin", y))


def _power(a: _Arithmetic, arguments: _Arguments) -> Pair:
    """By products where the exponent is a small integer in the text, else by exp and log."""
    base, exponent = arguments
    number = exponent[0]
    if _is_real(exponent) and isinstance(number, int | float):
        number = float(number)
        if number.is_integer() and abs(number) <= _MOST_FACTORS:
            return _integer_power(a, base, int(number))
    size, angle = _log(a, [_nonzero(a, base)])
    logarithm = _multiply(a, [(size, angle), exponent])
    found = _exp(a, [logarithm])
    return _at_zero(a, base, exponent, found)


_MOST_FACTORS = 64


def _integer_power(a: _Arithmetic, base: Pair, exponent: int) -> Pair:
    result: Pair | None = None
    square, rest = base, abs(exponent)
    while rest:
        if rest & 1:
            result = square if result is None else _multiply(a, [result, square])
        rest >>= 1
        if rest:
            square = _multiply(a, [square, square])
    if result is None:
        return 1.0, 0.0
    return result if exponent > 0 else _divide(a, [(1.0, 0.0), result])


def _is_zero(a: _Arithmetic, x: Pair) -> Value:
    return _equal(a, [x, (0.0, 0.0)])[0]


def _nonzero(a: _Arithmetic, base: Pair) -> Pair:
    is_zero = _is_zero(a, base)
    return a.select(is_zero, 1.0, base[0]), a.select(is_zero, 0.0, base[1])


def _at_zero(a: _Arithmetic, base: Pair, exponent: Pair, otherwise: Pair) -> Pair:
    """Of 0 the power is 1, 0 or none; its slope is 1 for the exponent 1, and else 0."""
    is_zero = _is_zero(a, base)
    is_one = _equal(a, [exponent, (1.0, 0.0)])[0]
    is_none = _is_zero(a, exponent)
    grows = a.is_("greater", exponent[0], 0.0)
    number = a.select(is_none, 1.0, a.select(grows, 0.0, float("nan")))
    real = a.select(is_one, base[0], number)
    imaginary = a.select(is_one, base[1], a.select(is_none, 0.0, number))
    return a.select(is_zero, real, otherwise[0]), a.select(is_zero, imaginary, otherwise[1])


# What is defined for complex arguments: `Builder.define` refuses the others.
OPERATIONS: dict[str, Callable[[_Arithmetic, _Arguments], Pair]] = {
    "complex": lambda a, x: (x[0][0], x[1][0]),
    "real": lambda a, x: (x[0][0], 0.0),
    "imag": lambda a, x: (x[0][1], 0.0),
    "conjugate": _conjugate,
    "positive": lambda a, x: x[0],
    "cast": lambda a, x: x[0],
    "add": _add,
    "subtract": _subtract,
    "multiply": _multiply,
    "divide": _divide,
    "power": _power,
    "negative": _negative,
    "absolute": _absolute,
    "angle": _angle,
    "select": _select,
    "equal": _equal,
    "not_equal": _not_equal,
    "bool": lambda a, x: _not_equal(a, [x[0], (0.0, 0.0)]),
    "not": lambda a, x: _equal(a, [x[0], (0.0, 0.0)]),
    "exp": _exp,
    "log": _log,
    "sqrt": _sqrt,
    "sin": _sin,
    "cos": _cos,
    "sinh": _sinh,
    "cosh": _cosh,
}
