"""Traced scalars: running a formula on them writes the text of a function.

A formula is straight-line arithmetic on `Value`s. Choices are `select`; the one kind of branch is
`rarely`, which keeps the loop around it vectorizable; functions that stay calls may have others,
and loops. No fast-math flag is ever set here, as error-free transformations depend on every
rounding.

What the text is, is the `ScalarBuilder`'s: LLVM's for the CPU (`llvm_writer.py`), CUDA Python for
GPUs (`python_writer.py`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import TypeVar, cast

from numba_grad.compiler.elementary.registry import FLOATING, formula
from numba_grad.immutable import immutable

# Types of the values of a formula, by LLVM's names.
FLOAT32, FLOAT64, BOOL, INT32, INT64 = "float", "double", "i1", "i32", "i64"
DOUBLES = "{double, double}"  # two results of a function
_INTEGER_OF = {FLOAT32: INT32, FLOAT64: INT64}
_FLOAT_OF = {INT32: FLOAT32, INT64: FLOAT64}

# From so many coefficients on a polynomial is computed in two chains, for even and odd powers: one
# chain of 17 multiplications and additions, 4 cycles each, keeps a core waiting where a kernel has
# more instructions than it can look ahead. tanh and erf gain 6 and 10 percent, no function loses.
LONG_POLYNOMIAL = 8

Number = int | float
F = TypeVar("F", bound=Callable)


@immutable
class Definition:
    """LLVM text of a function, which other targets replace by their own of the same symbol."""

    symbol: str
    text: str
    # symbol -> (return type, argument types) of what the text calls.
    declarations: dict[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)
    called: dict[str, str] = field(default_factory=dict)  # other functions, symbol -> text


class ScalarBuilder:
    """The function being written. Operations have LLVM's names, whatever the target."""

    has_fma: bool  # whether x*y + z with one rounding is one instruction
    has_fast_float64: bool  # whether float64 is a fair way to compute a float32 function

    def constant(self, kind: str, number: Number) -> Value:
        raise NotImplementedError

    def binary(self, operation: str, x: Value, y: Value) -> Value:
        """Of two values of one type, which is the result's: "fadd", "and", "udiv", ..."""
        raise NotImplementedError

    def compare(self, operation: str, x: Value, y: Value) -> Value:
        """A truth value: "olt", "une" of floats, "slt", "eq", "ult" of integers, ..."""
        raise NotImplementedError

    def negate(self, x: Value) -> Value:
        """The sign of a float turned."""
        raise NotImplementedError

    def select(self, condition: Value, x: Value, y: Value) -> Value:
        raise NotImplementedError

    def convert(self, operation: str, x: Value, kind: str) -> Value:
        """ "bitcast", "fpext" or "fptrunc"."""
        raise NotImplementedError

    def function(self, name: str, *arguments: Value) -> Value:
        """Of values of one type, which is the result's: "fabs", "fma", "ctpop", ..."""
        raise NotImplementedError

    def call(self, definition: Definition, *arguments: Value) -> Value:
        """A function of values of one type, which is the result's."""
        raise NotImplementedError

    def pair_call(self, definition: Definition, *arguments: Value) -> tuple[Value, Value]:
        """A function of float64 values that has two results."""
        raise NotImplementedError

    def library_call(
        self, name: str, *arguments: Value, definition: Definition | None = None
    ) -> Value:
        """As `call`, computed in float64: a function of the C library, or the definition's."""
        raise NotImplementedError

    def rarely(
        self,
        condition: Value,
        usual: Value,
        name: str,
        *arguments: Value,
        definition: Definition | None = None,
    ) -> Value:
        """`usual`, or that library call where the condition holds, which is off the usual way."""
        raise NotImplementedError

    def either(
        self, condition: Value, first: Callable[[], Value], other: Callable[[], Value]
    ) -> Value:
        """As the function below."""
        raise NotImplementedError

    def repeated(self, step: Step, *start: Value) -> tuple[Value, ...]:
        """As the function below."""
        raise NotImplementedError

    def shared(
        self, name: str, formula: Formula, values: tuple[Value, ...], is_of_pairs: bool
    ) -> Value | tuple[Value, ...]:
        """The formula's result, by its operations or by a call."""
        return formula(*values)


Formula = Callable[..., "Value | tuple[Value, ...]"]
# What a step of a loop gives, and whether it was the last one.
Results = tuple[tuple["Value", ...], "Value"]
Step = Callable[..., Results]

# Formulas that other formulas use, by name; those of complex numbers, and those of real ones.
SHARED: dict[str, Formula] = {}
SHARED_OF_PAIRS: dict[str, Formula] = {}


def shared(formula: F) -> F:
    """A formula of real numbers that others use: a target may call a function there.

    Where `formulas.py` has a function of the same name, this is its formula.
    """
    return _shared(formula, SHARED)


def shared_of_pairs(formula: F) -> F:
    """The same for complex numbers, each a pair of values; so is the result."""
    return _shared(formula, SHARED_OF_PAIRS)


def _shared(formula: F, table: dict[str, Formula]) -> F:
    name = formula.__name__.lstrip("_")
    table[name] = formula

    @functools.wraps(formula)
    def use(*values: Value) -> Value | tuple[Value, ...]:
        return values[0].trace.shared(name, formula, values, table is SHARED_OF_PAIRS)

    return cast(F, use)


class Value:
    """One value of the function being traced, with Python's operators.

    Comparisons are ordered (false for NaN), `!=` is true for NaN, as in C. `>>` shifts in zeros.
    """

    __slots__ = ("kind", "name", "trace")

    def __init__(self, trace: ScalarBuilder, kind: str, name: str) -> None:
        self.trace = trace
        self.kind = kind
        self.name = name

    def like(self, number: Value | Number) -> Value:
        """A constant of this value's type."""
        if isinstance(number, Value):
            if number.kind != self.kind:
                raise TypeError(f"formula mixes {self.kind} and {number.kind}")
            return number
        return self.trace.constant(self.kind, number)

    @property
    def is_float(self) -> bool:
        return self.kind in _INTEGER_OF

    def _binary(self, other: Value | Number, float_op: str, int_op: str) -> Value:
        operation = float_op if self.is_float else int_op
        if not operation:
            raise TypeError(f"no such operation on {self.kind}")
        return self.trace.binary(operation, self, self.like(other))

    def _compare(self, other: Value | Number, float_op: str, int_op: str) -> Value:
        operation = float_op if self.is_float else int_op
        return self.trace.compare(operation, self, self.like(other))

    def __add__(self, other):
        return self._binary(other, "fadd", "add")

    def __radd__(self, other):
        return self.like(other) + self

    def __sub__(self, other):
        return self._binary(other, "fsub", "sub")

    def __rsub__(self, other):
        return self.like(other) - self

    def __mul__(self, other):
        return self._binary(other, "fmul", "mul")

    def __rmul__(self, other):
        return self.like(other) * self

    def __truediv__(self, other):
        return self._binary(other, "fdiv", "")

    def __rtruediv__(self, other):
        return self.like(other) / self

    def __neg__(self):
        if self.is_float:
            return self.trace.negate(self)
        return self.like(0) - self

    def __and__(self, other):
        return self._binary(other, "", "and")

    def __or__(self, other):
        return self._binary(other, "", "or")

    def __xor__(self, other):
        return self._binary(other, "", "xor")

    def __invert__(self):
        return self ^ (1 if self.kind == BOOL else -1)

    def __lshift__(self, other):
        return self._binary(other, "", "shl")

    def __rshift__(self, other):
        return self._binary(other, "", "lshr")

    def __lt__(self, other):
        return self._compare(other, "olt", "slt")

    def __le__(self, other):
        return self._compare(other, "ole", "sle")

    def __gt__(self, other):
        return self._compare(other, "ogt", "sgt")

    def __ge__(self, other):
        return self._compare(other, "oge", "sge")

    def __eq__(self, other):  # pyright: ignore[reportIncompatibleMethodOverride]
        return self._compare(other, "oeq", "eq")

    def __ne__(self, other):  # pyright: ignore[reportIncompatibleMethodOverride]
        return self._compare(other, "une", "ne")

    __hash__ = None  # pyright: ignore[reportAssignmentType]


# Arithmetic with one instruction.


@formula(FLOATING)
def absolute(x: Value) -> Value:
    return x.trace.function("fabs", x)


@formula(FLOATING, name="sqrt")
def square_root(x: Value) -> Value:
    return x.trace.function("sqrt", x)


@formula(FLOATING, name="rint")
def round_half_even(x: Value) -> Value:
    return x.trace.function("rint", x)


@formula(FLOATING, name="floor")
def round_down(x: Value) -> Value:
    return x.trace.function("floor", x)


@formula(FLOATING, name="ceil")
def round_up(x: Value) -> Value:
    return x.trace.function("ceil", x)


@formula(FLOATING, name="trunc")
def round_to_zero(x: Value) -> Value:
    return x.trace.function("trunc", x)


@formula(FLOATING, name="copysign")
def copy_sign(magnitude: Value, sign: Value) -> Value:
    return magnitude.trace.function("copysign", magnitude, sign)


def select(condition: Value, x: Value | Number, y: Value | Number) -> Value:
    """`x` where the condition holds, else `y`; at most one of them a Python number."""
    if isinstance(x, Value):
        y = x.like(y)
    elif isinstance(y, Value):
        x = y.like(x)
    else:
        raise TypeError("select between two numbers: which type?")
    return x.trace.select(condition, x, y)


def bits(x: Value) -> Value:
    """The integer with the same bits."""
    return x.trace.convert("bitcast", x, _INTEGER_OF[x.kind])


def from_bits(x: Value) -> Value:
    return x.trace.convert("bitcast", x, _FLOAT_OF[x.kind])


def to_float64(x: Value) -> Value:
    if x.kind == FLOAT64:
        return x
    return x.trace.convert("fpext", x, FLOAT64)


def to_float32(x: Value) -> Value:
    if x.kind == FLOAT32:
        return x
    return x.trace.convert("fptrunc", x, FLOAT32)


def narrowed(x: Value, like: Value) -> Value:
    """What was computed in float64, as a value of the type of `like`."""
    return to_float32(x) if like.kind == FLOAT32 else x


def fma(x: Value, y: Value | Number, z: Value | Number) -> Value:
    """x*y + z, with one rounding where the target has the instruction.

    Formulas that need the single rounding for exactness ask `x.trace.has_fma`; without the
    instruction LLVM would call the C library, 20 times slower and not vectorized.
    """
    y, z = x.like(y), x.like(z)
    if x.trace.has_fma:
        return x.trace.function("fma", x, y, z)
    return x * y + z


def polynomial(x: Value, coefficients: Sequence[float]) -> Value:
    """A polynomial, constant term first: by Horner's rule, for long ones twice."""
    if len(coefficients) < LONG_POLYNOMIAL:
        return polynomial_in_one_chain(x, coefficients)
    square = x * x
    even = polynomial_in_one_chain(square, coefficients[::2])
    odd = polynomial_in_one_chain(square, coefficients[1::2])
    return fma(odd, x, even)


def polynomial_in_one_chain(x: Value, coefficients: Sequence[float]) -> Value:
    """By Horner's rule alone: more accurate where terms cancel."""
    result = x.like(coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        result = fma(result, x, coefficient)
    return result


# Integers. There is one integer type of each width; signedness is in the operation.


def divide_signed(x: Value, y: Value) -> tuple[Value, Value]:
    """Quotient rounded to zero, and remainder. Traps for y == 0 and for an overflow."""
    return x.trace.binary("sdiv", x, y), x.trace.binary("srem", x, y)


def divide_unsigned(x: Value, y: Value) -> tuple[Value, Value]:
    return x.trace.binary("udiv", x, y), x.trace.binary("urem", x, y)


def shift_right_signed(x: Value, y: Value) -> Value:
    return x.trace.binary("ashr", x, y)


def is_less_unsigned(x: Value, y: Value) -> Value:
    return x.trace.compare("ult", x, y)


# Error-free transformations: the rounding error of an operation as a value of its own.


def product(x: Value, y: Value | Number) -> tuple[Value, Value]:
    """x*y as an unevaluated sum of the rounded product and its rounding error."""
    y = x.like(y)
    high = x * y
    if x.trace.has_fma:
        return high, fma(x, y, -high)
    (x_high, x_low), (y_high, y_low) = _split(x), _split(y)
    low = x_low * y_low - (((high - x_high * y_high) - x_low * y_high) - x_high * y_low)
    return high, low


def _split(x: Value) -> tuple[Value, Value]:
    """Halves whose products are exact: the upper bits of x, and the rest.

    By masking, not by Veltkamp's multiplication, which overflows for huge x.
    """
    width = 27 if x.kind == FLOAT64 else 12
    # Rounded, not cut off: the rest is signed then, and one bit shorter.
    high = from_bits((bits(x) + (1 << (width - 1))) & -(1 << width))
    return high, x - high


def two_sum(x: Value, y: Value | Number) -> tuple[Value, Value]:
    """x+y as the rounded sum and its rounding error."""
    y = x.like(y)
    total = x + y
    y_part = total - x
    return total, (x - (total - y_part)) + (y - y_part)


def fast_two_sum(x: Value, y: Value | Number) -> tuple[Value, Value]:
    """`two_sum` for |x| >= |y|, or x == 0."""
    y = x.like(y)
    total = x + y
    return total, y - (total - x)


# Branches and loops of functions that stay calls.


def either(condition: Value, first: Callable[[], Value], other: Callable[[], Value]) -> Value:
    """What the one function writes where the condition holds, else what the other does."""
    return condition.trace.either(condition, first, other)


def repeated(step: Step, *start: Value) -> tuple[Value, ...]:
    """`step` of values, of the first ones of its results, and so on, until its truth value
    holds."""
    return start[0].trace.repeated(step, *start)


# Calls.


def call_defined(definition: Definition, *arguments: Value) -> Value:
    """A call of a function given as text. It stays a call: the loop around it stays scalar."""
    return arguments[0].trace.call(definition, *arguments)


def c_function(name: str, *arguments: Value) -> Value:
    """The same of a function of the C library."""
    declaration = (FLOAT64, (FLOAT64,) * len(arguments))
    return call_defined(Definition(name, "", {name: declaration}), *arguments)


def library_call(name: str, *arguments: Value, definition: Definition | None = None) -> Value:
    """A function of the C library, computed in float64, where no formula is given.

    With `definition`, a function of double numbers that is defined there.
    """
    return arguments[0].trace.library_call(name, *arguments, definition=definition)


def rarely(
    condition: Value,
    usual: Value,
    name: str,
    *arguments: Value,
    definition: Definition | None = None,
) -> Value:
    """`usual`, but the C library's `name(*arguments)` where the condition holds.

    In a vectorized loop this costs one test per vector as long as the condition holds in no lane.
    """
    return usual.trace.rarely(condition, usual, name, *arguments, definition=definition)
