"""Traced scalars: running a formula on them writes the LLVM text of a function.

A formula is straight-line arithmetic on `Value`s. Choices are `select`; the one kind of branch is
`rarely`, which keeps the loop around it vectorizable. No fast-math flag is ever set here, as
error-free transformations depend on every rounding.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

# LLVM types of the values of a formula.
FLOAT32, FLOAT64, BOOL, INT32, INT64 = "float", "double", "i1", "i32", "i64"
_INTEGER_OF = {FLOAT32: INT32, FLOAT64: INT64}
_FLOAT_OF = {INT32: FLOAT32, INT64: FLOAT64}
_SUFFIX = {FLOAT32: "f32", FLOAT64: "f64"}  # an integer type is its own suffix

# From so many coefficients on a polynomial is computed in two chains, for even and odd powers: one
# chain of 17 multiplications and additions, 4 cycles each, keeps a core waiting where a kernel has
# more instructions than it can look ahead. tanh and erf gain 6 and 10 percent, no function loses.
LONG_POLYNOMIAL = 8

Number = int | float


@dataclass(slots=True)
class Trace:
    """The function being written: its instructions, and all it needs to be declared or defined."""

    has_fma: bool
    lines: list[str] = field(default_factory=list)
    block: str = "entry"
    count: int = 0
    # symbol -> (return type, argument types) of intrinsics and of functions of the C library.
    declarations: dict[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)
    # symbol -> text, of other functions this one calls.
    definitions: dict[str, str] = field(default_factory=dict)
    # Definitions reached only through the name in an attribute, which LLVM would drop as unused.
    kept: list[str] = field(default_factory=list)

    def emit(self, kind: str, instruction: str) -> Value:
        name = f"%v{self.count}"
        self.count += 1
        self.lines.append(f"  {name} = {instruction}")
        return Value(self, kind, name)

    def call(self, kind: str, symbol: str, *arguments: Value, attributes: str = "") -> Value:
        text = ", ".join(f"{x.kind} {x.name}" for x in arguments)
        return self.emit(kind, f"call {kind} @{symbol}({text}){attributes}")

    def intrinsic(self, kind: str, symbol: str, *arguments: Value) -> Value:
        self.declarations[symbol] = (kind, tuple(x.kind for x in arguments))
        return self.call(kind, symbol, *arguments)


class Value:
    """One SSA value of the function being traced, with Python's operators.

    Comparisons are ordered (false for NaN), `!=` is true for NaN, as in C. `>>` shifts in zeros.
    """

    __slots__ = ("kind", "name", "trace")

    def __init__(self, trace: Trace, kind: str, name: str) -> None:
        self.trace = trace
        self.kind = kind
        self.name = name

    def like(self, number: Value | Number) -> Value:
        """A constant of this value's type."""
        if isinstance(number, Value):
            if number.kind != self.kind:
                raise TypeError(f"formula mixes {self.kind} and {number.kind}")
            return number
        return Value(self.trace, self.kind, _literal(self.kind, number))

    @property
    def is_float(self) -> bool:
        return self.kind in _INTEGER_OF

    def _binary(self, other: Value | Number, float_op: str, int_op: str) -> Value:
        operation = float_op if self.is_float else int_op
        if not operation:
            raise TypeError(f"no such operation on {self.kind}")
        text = f"{operation} {self.kind} {self.name}, {self.like(other).name}"
        return self.trace.emit(self.kind, text)

    def _compare(self, other: Value | Number, float_op: str, int_op: str) -> Value:
        operation = f"fcmp {float_op}" if self.is_float else f"icmp {int_op}"
        text = f"{operation} {self.kind} {self.name}, {self.like(other).name}"
        return self.trace.emit(BOOL, text)

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
            return self.trace.emit(self.kind, f"fneg {self.kind} {self.name}")
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


def _literal(kind: str, number: Number) -> str:
    if kind == BOOL:
        return "true" if number else "false"
    if kind not in _INTEGER_OF:
        return str(int(number))
    if kind == FLOAT32:  # written by LLVM as the double of the same value
        number = struct.unpack("f", struct.pack("f", number))[0]
    return f"0x{struct.unpack('Q', struct.pack('d', number))[0]:016X}"


# Arithmetic with one LLVM instruction or intrinsic.


def _float_intrinsic(name: str, x: Value, *others: Value | Number) -> Value:
    arguments = (x, *(x.like(y) for y in others))
    return x.trace.intrinsic(x.kind, f"llvm.{name}.{_SUFFIX[x.kind]}", *arguments)


def absolute(x: Value) -> Value:
    return _float_intrinsic("fabs", x)


def square_root(x: Value) -> Value:
    return _float_intrinsic("sqrt", x)


def round_half_even(x: Value) -> Value:
    return _float_intrinsic("rint", x)


def round_down(x: Value) -> Value:
    return _float_intrinsic("floor", x)


def round_up(x: Value) -> Value:
    return _float_intrinsic("ceil", x)


def round_to_zero(x: Value) -> Value:
    return _float_intrinsic("trunc", x)


def copy_sign(magnitude: Value, sign: Value) -> Value:
    return _float_intrinsic("copysign", magnitude, sign)


def select(condition: Value, x: Value | Number, y: Value | Number) -> Value:
    """`x` where the condition holds, else `y`; at most one of them a Python number."""
    if isinstance(x, Value):
        y = x.like(y)
    elif isinstance(y, Value):
        x = y.like(x)
    else:
        raise TypeError("select between two numbers: which type?")
    text = f"select i1 {condition.name}, {x.kind} {x.name}, {y.kind} {y.name}"
    return x.trace.emit(x.kind, text)


def bits(x: Value) -> Value:
    """The integer with the same bits."""
    kind = _INTEGER_OF[x.kind]
    return x.trace.emit(kind, f"bitcast {x.kind} {x.name} to {kind}")


def from_bits(x: Value) -> Value:
    kind = _FLOAT_OF[x.kind]
    return x.trace.emit(kind, f"bitcast {x.kind} {x.name} to {kind}")


def to_float64(x: Value) -> Value:
    if x.kind == FLOAT64:
        return x
    return x.trace.emit(FLOAT64, f"fpext float {x.name} to double")


def to_float32(x: Value) -> Value:
    if x.kind == FLOAT32:
        return x
    return x.trace.emit(FLOAT32, f"fptrunc double {x.name} to float")


def fma(x: Value, y: Value | Number, z: Value | Number) -> Value:
    """x*y + z, with one rounding where the target has the instruction.

    Formulas that need the single rounding for exactness ask `x.trace.has_fma`; without the
    instruction LLVM would call the C library, 20 times slower and not vectorized.
    """
    y, z = x.like(y), x.like(z)
    if x.trace.has_fma:
        return _float_intrinsic("fma", x, y, z)
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


# Integers. LLVM has one integer type of each width; signedness is in the operation.


def divide_signed(x: Value, y: Value) -> tuple[Value, Value]:
    """Quotient rounded to zero, and remainder. Traps for y == 0 and for an overflow."""
    operands = f"{x.kind} {x.name}, {y.name}"
    return x.trace.emit(x.kind, f"sdiv {operands}"), x.trace.emit(x.kind, f"srem {operands}")


def divide_unsigned(x: Value, y: Value) -> tuple[Value, Value]:
    operands = f"{x.kind} {x.name}, {y.name}"
    return x.trace.emit(x.kind, f"udiv {operands}"), x.trace.emit(x.kind, f"urem {operands}")


def shift_right_signed(x: Value, y: Value) -> Value:
    return x.trace.emit(x.kind, f"ashr {x.kind} {x.name}, {y.name}")


def is_less_unsigned(x: Value, y: Value) -> Value:
    return x.trace.emit(BOOL, f"icmp ult {x.kind} {x.name}, {y.name}")


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


def call_defined(symbol: str, definition: str, *arguments: Value) -> Value:
    """A call of a function given as LLVM text. It stays a call: the loop around it stays scalar."""
    trace = arguments[0].trace
    trace.definitions[symbol] = definition
    return trace.call(arguments[0].kind, symbol, *arguments, attributes=_PURE)


# Calls of the C library. They keep the loop around them vectorizable: the call names vector forms
# of itself (LLVM's vector function ABI), which do the lanes that need it one by one.

_LANES = {FLOAT64: (2, 4, 8), FLOAT32: (4, 8, 16)}
_PURE = " nounwind willreturn memory(none)"


def library_call(name: str, *arguments: Value, definition: str = "") -> Value:
    """A function of the C library, computed in float64, where no formula is given.

    With `definition`, LLVM text, a function of double numbers that is defined there.
    """
    trace = arguments[0].trace
    if definition:
        trace.definitions[name] = definition
    symbol = _define_library_call(trace, arguments[0].kind, name, len(arguments))
    return trace.call(
        arguments[0].kind, symbol, *arguments, attributes=_vector_forms(symbol, arguments)
    )


def rarely(
    condition: Value, usual: Value, name: str, *arguments: Value, definition: str = ""
) -> Value:
    """`usual`, but the C library's `name(*arguments)` where the condition holds.

    In a vectorized loop this costs one test per vector as long as the condition holds in no lane.
    """
    trace = usual.trace
    number = trace.count
    likely = trace.intrinsic(BOOL, "llvm.expect.i1", condition, condition.like(0))
    before, slow, join = trace.block, f"slow{number}", f"join{number}"
    trace.lines.append(f"  br i1 {likely.name}, label %{slow}, label %{join}")
    trace.lines.append(f"{slow}:")
    rare = library_call(name, *arguments, definition=definition)
    trace.lines.append(f"  br label %{join}")
    trace.lines.append(f"{join}:")
    trace.block = join
    text = f"phi {usual.kind} [ {usual.name}, %{before} ], [ {rare.name}, %{slow} ]"
    return trace.emit(usual.kind, text)


def _vector_forms(symbol: str, arguments: tuple[Value, ...]) -> str:
    shape = "v" * len(arguments)
    forms = ",".join(
        f"_ZGV_LLVM_M{lanes}{shape}_{symbol}({symbol}.lanes{lanes})"
        for lanes in _LANES[arguments[0].kind]
    )
    return f'{_PURE} "vector-function-abi-variant"="{forms}"'


def _define_library_call(trace: Trace, kind: str, name: str, arity: int) -> str:
    """Define the scalar call, its vector forms, and the loop over lanes that these share."""
    symbol = f"numba_grad.{name.removeprefix('numba_grad.')}.{_SUFFIX[kind]}"
    if symbol in trace.definitions:
        return symbol
    if name not in trace.definitions:
        trace.declarations[name] = (FLOAT64, (FLOAT64,) * arity)
    names = [f"%x{k}" for k in range(arity)]

    body = []
    operands = names
    if kind == FLOAT32:
        body += [f"  {x}.wide = fpext float {x} to double" for x in names]
        operands = [f"{x}.wide" for x in names]
    text = ", ".join(f"double {x}" for x in operands)
    body.append(f"  %y = call double @{name}({text}){_PURE}")
    if kind == FLOAT32:
        body += ["  %narrow = fptrunc double %y to float", "  ret float %narrow"]
    else:
        body.append("  ret double %y")
    parameters = ", ".join(f"{kind} {x}" for x in names)
    trace.definitions[symbol] = (
        f"define internal {kind} @{symbol}({parameters}) noinline{_PURE} {{\n"
        + "\n".join(body)
        + "\n}\n"
    )

    trace.definitions[f"{symbol}.loop"] = _lane_loop(symbol, kind, arity)
    for lanes in _LANES[kind]:
        trace.definitions[f"{symbol}.lanes{lanes}"] = _lane_form(symbol, kind, arity, lanes)
        trace.kept.append(f"{symbol}.lanes{lanes}")
    trace.declarations["llvm.cttz.i64"] = (INT64, (INT64, BOOL))
    trace.declarations["llvm.expect.i1"] = (BOOL, (BOOL, BOOL))
    return symbol


def _lane_loop(symbol: str, kind: str, arity: int) -> str:
    """`void(pointer to each argument's lanes, mask)`: the result replaces the first argument."""
    parameters = ", ".join(f"ptr %p{k}" for k in range(arity))
    loads = "\n".join(
        f"  %a{k} = getelementptr {kind}, ptr %p{k}, i64 %lane\n  %x{k} = load {kind}, ptr %a{k}"
        for k in range(arity)
    )
    arguments = ", ".join(f"{kind} %x{k}" for k in range(arity))
    return f"""\
define internal void @{symbol}.loop({parameters}, i64 %mask) noinline cold nounwind {{
entry:
  br label %body
body:
  %left = phi i64 [ %mask, %entry ], [ %rest, %body ]
  %lane = call i64 @llvm.cttz.i64(i64 %left, i1 true)
{loads}
  %y = call {kind} @{symbol}({arguments})
  store {kind} %y, ptr %a0
  %less = sub i64 %left, 1
  %rest = and i64 %left, %less
  %more = icmp ne i64 %rest, 0
  br i1 %more, label %body, label %done
done:
  ret void
}}
"""


def _lane_form(symbol: str, kind: str, arity: int, lanes: int) -> str:
    """The vector form: returns at once unless the mask has a lane."""
    vector = f"<{lanes} x {kind}>"
    parameters = ", ".join(f"{vector} %x{k}" for k in range(arity))
    allocate = "\n".join(f"  %p{k} = alloca {vector}" for k in range(arity))
    store = "\n".join(f"  store {vector} %x{k}, ptr %p{k}" for k in range(arity))
    pointers = ", ".join(f"ptr %p{k}" for k in range(arity))
    signature = f"{vector} @{symbol}.lanes{lanes}({parameters}, <{lanes} x i1> %m)"
    return f"""\
define internal {signature} alwaysinline{_PURE} {{
entry:
{allocate}
  %lanes = bitcast <{lanes} x i1> %m to i{lanes}
  %none = icmp eq i{lanes} %lanes, 0
  %likely = call i1 @llvm.expect.i1(i1 %none, i1 true)
  br i1 %likely, label %done, label %work
work:
{store}
  %mask = zext i{lanes} %lanes to i64
  call void @{symbol}.loop({pointers}, i64 %mask)
  %y = load {vector}, ptr %p0
  ret {vector} %y
done:
  ret {vector} poison
}}
"""


# A whole function.


@dataclass(frozen=True, slots=True)
class Traced:
    """The text of one function, and what it refers to."""

    symbol: str
    signature: tuple[str, tuple[str, ...]]
    text: str
    declarations: dict[str, tuple[str, tuple[str, ...]]]
    definitions: dict[str, str]
    kept: tuple[str, ...]


def trace(
    name: str,
    formula: Callable[..., Value | tuple[Value, ...]],
    kinds: tuple[str, ...],
    *,
    has_fma: bool,
) -> Traced:
    """Run a formula once on arguments of the given LLVM types."""
    writer = Trace(has_fma)
    arguments = [Value(writer, kind, f"%x{k}") for k, kind in enumerate(kinds)]
    result = formula(*arguments)
    if isinstance(result, tuple):
        kind = "{" + ", ".join(x.kind for x in result) + "}"
        name_so_far = "poison"
        for k, x in enumerate(result):
            text = f"insertvalue {kind} {name_so_far}, {x.kind} {x.name}, {k}"
            name_so_far = writer.emit(kind, text).name
    else:
        kind, name_so_far = result.kind, result.name
    symbol = f"numba_grad.{name}." + ".".join(_SUFFIX.get(k, k) for k in kinds)
    symbol += ".inline"
    parameters = ", ".join(f"{x.kind} {x.name}" for x in arguments)
    body = "\n".join(writer.lines)
    # Inlined before LLVM looks at loops, so that they vectorize and share common parts.
    text = (
        f"define internal {kind} @{symbol}({parameters}) alwaysinline nounwind {{\n"
        f"entry:\n{body}\n  ret {kind} {name_so_far}\n}}\n"
    )
    return Traced(
        symbol, (kind, kinds), text, writer.declarations, writer.definitions, tuple(writer.kept)
    )
