"""Elementwise primitives: arithmetic, rounding, selection, casts, complex numbers.

Comparison and logic are in `logic.py`, elementary functions in `functions.py`. Complex cotangents
are torch's (conjugate Wirtinger): a holomorphic f contributes g * conj(f'(x)). Slopes at kinks are
torch's too, and each rule says which.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from numba_grad.dtypes import promoted
from numba_grad.graph.node import LEAF, Node, Op
from numba_grad.graph.traced_bodies import tensor_that_was
from numba_grad.graph.walk import is_held
from numba_grad.ops.families import (
    ALL,
    COMPLEX,
    FLOATING,
    INEXACT,
    NUMERIC,
    REAL,
    broadcast_to,
    elementwise,
    linear,
    literal,
    names_of_arguments,
    no_slope,
    total,
    zeros_like,
)
from numba_grad.ops.families import cast as convert
from numba_grad.ops.logic import (
    equal,
    greater,
    greater_equal,
    isnan,
    less,
    less_equal,
    logical_and,
    logical_or,
)


def conjugated(x: Node) -> Node:
    """The complex conjugate; `x` itself where it is real."""
    return conjugate(x) if x.dtype.kind == "c" else x


def unary(
    name: str,
    slope: Callable[..., Node] | None = None,
    *,
    minus: Callable[..., Node] | None = None,
    over: Callable[..., Node] | None = None,
    samples: tuple[float, float],
    dtypes: str = INEXACT,
    **record: Any,
) -> Op:
    """A function of one number, by its derivative: `slope`, or -`minus`, or 1 / `over`.

    Each is a function of `x`, of the result `out`, or of `out` and `x`: by these names, which are
    what is saved. It is conjugated where numbers are complex: all of these functions are analytic.
    """
    rule = slope or minus or over
    assert rule is not None, name
    names = names_of_arguments(rule)
    reads_both, reads_x = len(names) == 2, "x" in names

    def vjp(g: Node, out: Node, x: Node) -> Node:
        found = conjugated(rule(out, x) if reads_both else rule(x if reads_x else out))
        if over is not None:
            return g / found
        return -(g * found) if slope is None else g * found

    saves = [saved for saved, read in (("inputs", "x"), ("out", "out")) if read in names]
    return elementwise(
        name, vjp=(vjp,), samples=(samples,), saves=tuple(saves), dtypes=dtypes, **record
    )


def real_part(x: Node) -> Node:
    """The real part; `x` itself where it is real."""
    return real(x) if x.dtype.kind == "c" else x


def scaled(x: Node, factor: float) -> Node:
    """`x` times a constant of a formula."""
    return multiply(x, literal(factor, x.dtype))


def plus(x: Node, term: float) -> Node:
    """`x` plus a constant of a formula."""
    return add(x, literal(term, x.dtype))


def one_minus(x: Node) -> Node:
    return subtract(literal(1, x.dtype), x)


def is_zero(x: Node) -> Node:
    return equal(x, literal(0, x.dtype))


def zero_where(condition: Node, x: Node) -> Node:
    """`x`, and 0 where `condition` holds."""
    return where(condition, literal(0, x.dtype), x)


# Arithmetic.

add = elementwise(
    "add",
    expression="{x} + {y}",
    vjp=(lambda g, out, x, y: g, lambda g, out, x, y: g),
    dtypes=ALL,
    samples=((-3, 3), (-3, 3)),
    saves=(),
    has_real_slopes=True,
)

subtract = elementwise(
    "subtract",
    expression="{x} - {y}",
    vjp=(lambda g, out, x, y: g, lambda g, out, x, y: -g),
    dtypes=NUMERIC,
    samples=((-3, 3), (-3, 3)),
    saves=(),
    has_real_slopes=True,
)


def _multiply_jvp(tangents: Sequence[Node | None], out: Node, x: Node, y: Node) -> Node | None:
    of_x, of_y = tangents
    if x is y:
        return None if of_x is None else (of_x + of_x) * x
    return total([None if of_x is None else of_x * y, None if of_y is None else x * of_y])


multiply = elementwise(
    "multiply",
    expression="{x} * {y}",
    vjp=(
        lambda g, out, x, y: (g + g if x is y else g) * conjugated(y),
        # Of x * x the first rule is all: 2 g is the same for every component of x.
        lambda g, out, x, y: None if x is y else g * conjugated(x),
    ),
    dtypes=ALL,
    samples=((-3, 3), (-3, 3)),
    jvp=_multiply_jvp,
)


def _divide_vjp_of_y(g: Node, out: Node, x: Node, y: Node) -> Node:
    """d(x/y)/dy = -(1/y) (x/y): shares a division with the derivative by x, and does not overflow
    where y*y would. For 1/y it is -(1/y)**2, without a division."""
    if is_constant_one(x):
        return -(g * conjugated(square(out)))
    return -(g / conjugated(y) * conjugated(out))


def is_constant_one(x: Node) -> bool:
    """Whether `x` is the number 1 as written in a program: no tensor, whose value may be another in
    the next call of a traced function."""
    is_one = x.op is LEAF and x.shape == () and not is_held(x) and x.value == 1
    return is_one and tensor_that_was(x) is None


def _divide_jvp(tangents: Sequence[Node | None], out: Node, x: Node, y: Node) -> Node | None:
    """(dx - out dy) / y: one division, as for the value."""
    of_x, of_y = tangents
    if of_y is not None and is_constant_one(x):
        return -(of_y * square(out))
    change = total([of_x, None if of_y is None else -(out * of_y)])
    return None if change is None else broadcast_to(change / y, out.shape)


divide = elementwise(
    "divide",
    expression="{x} / {y}",
    vjp=(
        lambda g, out, x, y: g / conjugated(y),
        _divide_vjp_of_y,
    ),
    dtypes=INEXACT,
    samples=((-3, 3), (0.5, 3)),
    cost=4,
    saves=("inputs", "out"),
    jvp=_divide_jvp,
)

negative = elementwise(
    "negative",
    expression="-{x}",
    vjp=(lambda g, out, x: -g,),
    dtypes=NUMERIC,
    samples=((-3, 3),),
    saves=(),
    has_real_slopes=True,
)

positive = elementwise(
    "positive",
    expression="{x}",
    vjp=(lambda g, out, x: g,),
    dtypes=NUMERIC,
    samples=((-3, 3),),
    saves=(),
    has_real_slopes=True,
)


def _absolute_vjp(g: Node, out: Node, x: Node) -> Node:
    """sign(x), which is 0 at 0; 0 for a real NaN, too."""
    slope = sign(x) if x.dtype.kind == "c" else zero_where(isnan(x), sign(x))
    return convert(g, x.dtype) * slope


def _absolute_jvp(tangents: Sequence[Node | None], out: Node, x: Node) -> Node | None:
    """What of the tangent is along x."""
    (t,) = tangents
    if t is None or x.dtype.kind != "c":
        return None if t is None else _absolute_vjp(t, out, x)
    return real(t * conjugate(sign(x)))


absolute = elementwise(
    "absolute",
    vjp=(_absolute_vjp,),
    result="real",
    dtypes=ALL,
    samples=((-3, 3),),
    kinks=(0.0,),
    jvp=_absolute_jvp,
)


def _sign_vjp(g: Node, out: Node, x: Node) -> Node:
    """Zero on the real line. In the plane sign(x) = x/|x|, which only turning x changes."""
    if x.dtype.kind != "c":
        return zeros_like(x)
    size = absolute(x)
    at_zero = is_zero(size)
    safe_size = where(at_zero, literal(1, size.dtype), size)
    along = real(g * conjugate(out))
    across = g - convert(along, x.dtype) * out
    return zero_where(at_zero, across / convert(safe_size, x.dtype))


def _sign_reference(x: np.ndarray) -> np.ndarray:
    # NumPy gives a complex infinity a direction beside a NaN, too.
    return np.sign(np.where(np.isnan(x), x.dtype.type(np.nan), x) if x.dtype.kind == "c" else x)


sign = elementwise(
    "sign",
    reference=_sign_reference,
    vjp=(_sign_vjp,),
    is_step=True,
    dtypes=NUMERIC,
    samples=((-3, 3),),
    cost=2,
    saves=("inputs", "out"),
    kinks=(0.0,),
    has_real_slopes=True,
)

square = unary(
    "square", lambda x: scaled(x, 2), expression="{x} * {x}", samples=(-3, 3), dtypes=NUMERIC
)

reciprocal = unary("reciprocal", minus=lambda out: square(out), samples=(0.5, 3), cost=4)

MOST_EXPANDED = 16  # the error of repeated multiplication grows with the exponent: 8 ulp here


def _integer_power_expression(*, exponent: int) -> str:
    """Repeated squaring as text."""
    if exponent == 0:
        return "cast(1, {dtype})"
    if abs(exponent) > MOST_EXPANDED:
        return f"integer_power({{x}}, {exponent})"
    text = "{x}"
    for digit in f"{abs(exponent):b}"[1:]:
        text = f"({text} * {text})"
        if digit == "1":
            text = f"({text} * {{x}})"
    return f"reciprocal({text})" if exponent < 0 else text


def _integer_power_reference(x: np.ndarray, *, exponent: int) -> np.ndarray:
    if x.dtype.kind in "iu":
        # In 64 bits, then cut off: the exponent may not fit in x's dtype. Wraps alike.
        return np.power(x.astype(np.int64), np.int64(exponent)).astype(x.dtype)
    return np.power(x, x.dtype.type(exponent))


def _integer_power_dtype(x: np.dtype, *, exponent: int) -> np.dtype:
    if x.kind in "iu" and exponent < 0:
        raise ValueError("integer_power: integers to negative integer powers are not integers")
    return x


def _integer_power_vjp(g: Node, out: Node, x: Node, *, exponent: int) -> Node:
    if exponent == 0:
        return zeros_like(x)  # also at 0
    if exponent == 1:
        return g
    return g * conjugated(scaled(integer_power(x, exponent=exponent - 1), exponent))


integer_power = elementwise(
    "integer_power",
    expression=_integer_power_expression,
    reference=_integer_power_reference,
    vjp=(_integer_power_vjp,),
    dtypes=NUMERIC,
    samples=((0.5, 3),),
    cost=4,
    input_names=("x",),
    result_dtype=_integer_power_dtype,
    params_samples=tuple({"exponent": k} for k in (3, 0, 1, 2, 4, 7, 23, -1, -2, -3, -20)),
)


floor_divide = elementwise(
    "floor_divide",
    vjp=(no_slope, no_slope),
    is_step=True,
    dtypes=REAL,
    samples=((-9, 9), (1, 3)),
    cost=20,
    saves=(),
)


remainder = elementwise(
    "remainder",
    vjp=(lambda g, out, x, y: g, lambda g, out, x, y: -(g * floor_divide(x, y))),
    dtypes=REAL,
    samples=((-9, 9), (1, 3)),
    cost=20,
)

# The quotient is whole but for rounding, whereas x / y may round to the next whole number.
fmod = elementwise(
    "fmod",
    vjp=(lambda g, out, x, y: g, lambda g, out, x, y: -(g * rint((x - out) / y))),
    dtypes=REAL,
    samples=((-9, 9), (1, 3)),
    cost=20,
    saves=("inputs", "out"),
)


def _share(g: Node, loses: Node, x: Node, y: Node) -> Node:
    """`g` where x does not lose, half of it at a tie; all of it beside a NaN, as in torch."""
    return zero_where(loses, where(equal(x, y), scaled(g, 0.5), g))


maximum = elementwise(
    "maximum",
    vjp=(
        lambda g, out, x, y: _share(g, less(x, y), x, y),
        lambda g, out, x, y: _share(g, less(y, x), y, x),
    ),
    dtypes=ALL,
    samples=((-3, 3), (-3, 3)),
    cost=2,
    has_real_slopes=True,
)

minimum = elementwise(
    "minimum",
    vjp=(
        lambda g, out, x, y: _share(g, less(y, x), x, y),
        lambda g, out, x, y: _share(g, less(x, y), y, x),
    ),
    dtypes=ALL,
    samples=((-3, 3), (-3, 3)),
    cost=2,
    has_real_slopes=True,
)


def _clip_vjp_of_x(g: Node, out: Node, x: Node, low: Node, high: Node) -> Node:
    is_within = logical_and(greater_equal(x, low), less_equal(x, high))
    return where(is_within, g, literal(0, g.dtype))


def _clip_vjp_of_low(g: Node, out: Node, x: Node, low: Node, high: Node) -> Node:
    is_beyond = logical_and(less(x, low), less(low, high))
    return where(is_beyond, g, literal(0, g.dtype))


def _clip_vjp_of_high(g: Node, out: Node, x: Node, low: Node, high: Node) -> Node:
    is_beyond = logical_or(greater(x, high), less(high, low))
    return where(is_beyond, g, literal(0, g.dtype))


# At a bound the gradient is that of x; below equal bounds it is nobody's, and a NaN gets none.
clip = elementwise(
    "clip",
    expression="minimum(maximum({x}, {low}), {high})",
    reference=lambda x, low, high: np.minimum(np.maximum(x, low), high),
    vjp=(_clip_vjp_of_x, _clip_vjp_of_low, _clip_vjp_of_high),
    dtypes=ALL,
    samples=((-3, 3), (-3, 0), (0, 3)),
    cost=4,
    has_real_slopes=True,
)


def _clip_to_numbers_reference(x: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    at_least = np.where(x < low, low, x)
    return np.where(at_least > high, high, at_least)


# The same where no bound is NaN, as is known of Python's numbers: two comparisons instead of six.
clip_to_numbers = elementwise(
    "clip_to_numbers",
    expression="select(select({x} < {low}, {low}, {x}) > {high}, {high}, "
    "select({x} < {low}, {low}, {x}))",
    reference=_clip_to_numbers_reference,
    vjp=(_clip_vjp_of_x, _clip_vjp_of_low, _clip_vjp_of_high),
    dtypes=ALL,
    samples=((-3, 3), (-3, 0), (0, 3)),
    cost=2,
    has_real_slopes=True,
)

# The slope in x is -1 where the sign changed, and 0 at 0.
copysign = elementwise(
    "copysign",
    vjp=(
        lambda g, out, x, y: g * (sign(x) * copysign(literal(1, y.dtype), y)),
        no_slope,
    ),
    dtypes="efd",
    samples=((-3, 3), (-3, 3)),
    kinks=(0.0,),
)


# The neighbour moves with x.
nextafter = elementwise(
    "nextafter",
    vjp=(lambda g, out, x, y: g, no_slope),
    dtypes="fd",
    samples=((-3, 3), (-3, 3)),
    cost=6,
    saves=(),
)

# The exponent n is a whole number, but of x's dtype.
ldexp = elementwise(
    "ldexp",
    expression="ldexp({x}, {n})",
    reference=lambda x, n: np.ldexp(x, np.clip(np.rint(n), -9999, 9999).astype(np.int32)),
    vjp=(lambda g, out, x, n: ldexp(g, n), no_slope),
    dtypes="efd",
    samples=((-3, 3), (-9, 9)),
    cost=12,
)

frexp_exponent = elementwise(
    "frexp_exponent",
    reference=lambda x: np.frexp(x)[1],
    no_vjp="an exponent is an integer",
    dtypes="efd",
    samples=((-9, 9),),
    cost=6,
    result_dtype=lambda x: np.dtype(np.int32),
)


# Rounding.


def _rounding(name: str, dtypes: str) -> Op:
    samples = ((-9, 9),)
    return elementwise(
        name, vjp=(no_slope,), is_step=True, dtypes=dtypes, samples=samples, saves=()
    )


floor = _rounding("floor", "?" + REAL)
ceil = _rounding("ceil", "?" + REAL)
trunc = _rounding("trunc", "?" + REAL)
rint = _rounding("rint", FLOATING)


# Selection.

# The adjoint selects, it does not multiply: 0 * inf is never formed from the branch not taken.
where = elementwise(
    "where",
    expression="select({condition}, {x}, {y})",
    vjp=(
        None,  # the condition is bool
        lambda g, out, condition, x, y: where(condition, g, literal(0, g.dtype)),
        lambda g, out, condition, x, y: zero_where(condition, g),
    ),
    dtypes=ALL,
    samples=((False, True), (-3, 3), (-3, 3)),
    operand_dtypes=lambda condition, x, y: condition.kind == "b" and x == y,
    jvp=linear,
)


# Casts, complex numbers, and nothing.


def _cast_reference(x: np.ndarray, *, dtype: np.dtype) -> np.ndarray:
    if x.dtype.kind == "c" and dtype.kind not in "cb":
        x = np.real(x)
    return x.astype(dtype)


# The family casts cotangents to the input's dtype, dropping the imaginary part: all there is to do.
cast = elementwise(
    "cast",
    expression="cast({x}, {dtype})",
    reference=_cast_reference,
    vjp=(lambda g, out, x, dtype: g,),
    dtypes=ALL,
    samples=((-3, 3),),
    saves=(),
    input_names=("x",),
    result_dtype=lambda x, dtype: dtype,
    params_samples=tuple({"dtype": np.dtype(c)} for c in "fdFDel?"),
    jvp=linear,
)

real = elementwise(
    "real",
    vjp=(lambda g, out, x: g,),
    result="real",
    dtypes=INEXACT,
    samples=((-3, 3),),
    saves=(),
    write_back=lambda x, v: make_complex(v, imag(x)),
    jvp=linear,
)

imag = elementwise(
    "imag",
    vjp=(lambda g, out, x: make_complex(literal(0, g.dtype), g),),
    result="real",
    dtypes=COMPLEX,
    samples=((-3, 3),),
    saves=(),
    write_back=lambda x, v: make_complex(real(x), v),
    jvp=linear,
)

conjugate = elementwise(
    "conjugate",
    vjp=(lambda g, out, x: conjugated(g),),
    dtypes=INEXACT,
    samples=((-3, 3),),
    saves=(),
    jvp=linear,
)


def _make_complex_reference(real: np.ndarray, imag: np.ndarray) -> np.ndarray:
    # Not real + 1j * imag, which makes NaN of an infinite part and loses the sign of zeros.
    parts = np.stack(np.broadcast_arrays(real, imag), axis=-1)
    return parts.view(promoted(parts.dtype, np.complex64))[..., 0]


make_complex = elementwise(
    "make_complex",
    expression="make_complex({real}, {imag})",
    reference=_make_complex_reference,
    vjp=(lambda g, out, x, y: real(g), lambda g, out, x, y: imag(g)),
    dtypes="fd",
    samples=((-3, 3), (-3, 3)),
    saves=(),
    result_dtype=lambda x, y: promoted(x, np.complex64),
    jvp=linear,
)

identity = elementwise(
    "identity",
    expression="{x}",
    reference=lambda x: x,
    vjp=(lambda g, out, x: g,),
    dtypes=ALL,
    samples=((-3, 3),),
    saves=(),
    write_back=lambda x, v: v,
    has_real_slopes=True,
)

# By its name a value inside of `checkpoint` is known to what is to be kept of it.
named = elementwise(
    "named",
    expression=lambda name: "{x}",
    reference=lambda x, name: x,
    vjp=(lambda g, out, x, name: g,),
    dtypes=ALL,
    samples=((-3, 3),),
    saves=(),
    input_names=("x",),
    params_samples=({"name": "gates"},),
    jvp=linear,
)

detach = elementwise(
    "detach",
    expression="{x}",
    reference=lambda x: x,
    no_vjp="to stop gradients is its purpose",
    dtypes=ALL,
    samples=((-3, 3),),
    write_back=lambda x, v: detach(v),
)
