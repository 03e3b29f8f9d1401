"""Functions of NumPy that work element by element.

Most are one primitive each; they promote dtypes as NumPy's ufunc of the same name does. The others
are written in terms of primitives. Here abs, divmod, pow and round are NumPy's, not Python's.
"""

import math
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from numba_grad.autograd import tensor_class
from numba_grad.autograd.tensor_class import is_tensor, new_tensor, recorded_tensor
from numba_grad.autograd.views import Step, assign, note_view, view_of
from numba_grad.compiler.backends import only_device
from numba_grad.dtypes import FLOAT64, ends, finfo, is_floating, is_inexact
from numba_grad.errors import DTypeError, explain
from numba_grad.frontend.functions.indexing import nonzero
from numba_grad.frontend.inputs.arrays import (
    WEAK,
    ArrayLike,
    as_inexact,
    as_node,
    common_dtype,
    is_stand_in,
    node_of,
    operands,
    scalar_leaf,
    wrap,
)
from numba_grad.frontend.inputs.devices import on_device
from numba_grad.frontend.inputs.known_calls import by_types
from numba_grad.frontend.inputs.known_results import QUICK, Prepare, on_tensor
from numba_grad.frontend.inputs.selections import Selection
from numba_grad.graph.node import (
    NO_PARAMS,
    OPS,
    Inferred,
    Node,
    inferred_of,
    record,
)
from numba_grad.graph.types import Type, as_dtype
from numba_grad.ops.families import (
    broadcast_to,
    cast,
    full,
    placed,
    zeros_like,
)

if TYPE_CHECKING:
    from numba_grad.frontend.tensors.tensor import Tensor

__all__ = [
    "abs",
    "absolute",
    "acos",
    "acosh",
    "add",
    "angle",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "around",
    "asin",
    "asinh",
    "astype",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_not",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "cbrt",
    "ceil",
    "clip",
    "conj",
    "conjugate",
    "copysign",
    "cos",
    "cosh",
    "deg2rad",
    "degrees",
    "divide",
    "divmod",
    "equal",
    "erf",
    "erfc",
    "exp",
    "exp2",
    "expm1",
    "fabs",
    "floor",
    "floor_divide",
    "fmax",
    "fmin",
    "fmod",
    "greater",
    "greater_equal",
    "heaviside",
    "hypot",
    "imag",
    "invert",
    "isclose",
    "isfinite",
    "isinf",
    "isnan",
    "left_shift",
    "less",
    "less_equal",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "logaddexp2",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "mod",
    "multiply",
    "nan_to_num",
    "negative",
    "not_equal",
    "positive",
    "rad2deg",
    "radians",
    "real",
    "reciprocal",
    "relu",
    "remainder",
    "right_shift",
    "rint",
    "round",
    "sigmoid",
    "sign",
    "signbit",
    "sin",
    "sinc",
    "sinh",
    "softplus",
    "sqrt",
    "square",
    "subtract",
    "tan",
    "tanh",
    "true_divide",
    "trunc",
    "where",
]

Unary = Callable[[ArrayLike], "Tensor"]
Binary = Callable[[ArrayLike, ArrayLike], "Tensor"]

# What `numpy.sin(tensor)` finds: filled by the definitions below.
of_ufunc: dict[np.ufunc, Callable[..., Any]] = {}


def _unary(ufunc: np.ufunc, summary: str) -> Unary:
    """The function of one primitive that has the ufunc's name."""
    op_name = ufunc.__name__
    op = OPS[op_name]
    known: dict[Type, Inferred] = {}  # of nodes of these types, that need no cast

    def function(x: ArrayLike, /) -> "Tensor":
        if x.__class__ is tensor_class.registered:
            node = x._node
        elif isinstance(x, Selection):
            return x.called(function, (x,), {})
        else:
            node = node_of(x)
        found = None if node is None else known.get(node.type)
        if node is not None and found is not None:
            return recorded_tensor(op, (node,), node.requires_grad, NO_PARAMS, found)
        (given,) = operands(ufunc, (x,))
        if given is node:
            known[given.type] = inferred_of(op, [given.type])
        return new_tensor(record(op, (given,)))

    return _named(function, ufunc, op_name, summary)


def _binary(ufunc: np.ufunc, summary: str, prepare: Prepare = operands) -> Binary:
    op_name = ufunc.__name__
    op = OPS[op_name]

    operate = on_tensor(ufunc, prepare)

    def function(x1: ArrayLike, x2: ArrayLike, /) -> "Tensor":
        kind = x1.__class__
        if kind is tensor_class.registered and (x2.__class__ is kind or x2.__class__ in QUICK):
            return operate(x1, x2)
        for x in (x1, x2):
            if isinstance(x, Selection):
                return x.called(function, (x1, x2), {})
        return new_tensor(record(op, prepare(ufunc, (x1, x2))))

    return _named(function, ufunc, op_name, summary)


def _named(function: Any, ufunc: np.ufunc, name: str, summary: str) -> Any:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = summary
    of_ufunc[ufunc] = function
    return function


add = _binary(np.add, "x1 + x2.")
subtract = _binary(np.subtract, "x1 - x2.")
multiply = _binary(np.multiply, "x1 * x2.")
divide = _binary(np.divide, "x1 / x2, a floating or complex result also for integers.")
floor_divide = _binary(
    np.floor_divide, "The largest integer not above x1 / x2; for integers, 0 if x2 is 0."
)
remainder = _binary(np.remainder, "x1 - x2 * floor(x1 / x2): the sign of x2, as Python's %.")
fmod = _binary(np.fmod, "x1 - x2 * trunc(x1 / x2): the sign of x1, as C's %.")
negative = _unary(np.negative, "-x.")
positive = _unary(np.positive, "+x.")
absolute = _unary(np.absolute, "The absolute value, real also for complex x. Gradient 0 at 0.")
sign = _unary(np.sign, "-1, 0 or 1 by the sign of x; x / |x| for complex x; nan for nan.")
square = _unary(np.square, "x * x.")
sqrt = _unary(np.sqrt, "The square root; nan for negative real x.")
cbrt = _unary(np.cbrt, "The cube root, real for negative x.")
exp = _unary(np.exp, "e to the power x.")
exp2 = _unary(np.exp2, "2 to the power x.")
expm1 = _unary(np.expm1, "exp(x) - 1, accurate for small x.")
log = _unary(np.log, "The natural logarithm; -inf for 0, nan for negative real x.")
log1p = _unary(np.log1p, "log(1 + x), accurate for small x.")
log2 = _unary(np.log2, "The logarithm to base 2.")
log10 = _unary(np.log10, "The logarithm to base 10.")
sin = _unary(np.sin, "The sine of x in radians.")
cos = _unary(np.cos, "The cosine of x in radians.")
tan = _unary(np.tan, "The tangent of x in radians.")
arcsin = _unary(np.arcsin, "The inverse sine, in radians.")
arccos = _unary(np.arccos, "The inverse cosine, in radians.")
arctan = _unary(np.arctan, "The inverse tangent, in radians.")
arctan2 = _binary(
    np.arctan2, "The angle in radians of the point (x2, x1): inverse tangent of x1 / x2."
)
sinh = _unary(np.sinh, "The hyperbolic sine.")
cosh = _unary(np.cosh, "The hyperbolic cosine.")
tanh = _unary(np.tanh, "The hyperbolic tangent.")
arcsinh = _unary(np.arcsinh, "The inverse hyperbolic sine.")
arccosh = _unary(np.arccosh, "The inverse hyperbolic cosine.")
arctanh = _unary(np.arctanh, "The inverse hyperbolic tangent.")
hypot = _binary(np.hypot, "sqrt(x1**2 + x2**2), without overflow.")
floor = _unary(np.floor, "The largest integer not above x. Gradient 0.")
ceil = _unary(np.ceil, "The smallest integer not below x. Gradient 0.")
trunc = _unary(np.trunc, "x without its fraction. Gradient 0.")
maximum = _binary(
    np.maximum,
    "The larger one; nan if one is nan. In a tie each gets half the gradient. Complex numbers are "
    "ordered by real parts, then imaginary parts.",
)
minimum = _binary(
    np.minimum,
    "The smaller one; nan if one is nan. In a tie each gets half the gradient. Complex numbers are "
    "ordered by real parts, then imaginary parts.",
)
copysign = _binary(np.copysign, "x1 with the sign of x2.")
logaddexp = _binary(
    np.logaddexp,
    "log(exp(x1) + exp(x2)), without overflow. Equal infinities get half the gradient.",
)
logaddexp2 = _binary(
    np.logaddexp2, "log2(2**x1 + 2**x2), without overflow. Equal infinities get half the gradient."
)
logical_and = _binary(np.logical_and, "Whether both are true, that is, not 0.")
logical_or = _binary(np.logical_or, "Whether one is true, that is, not 0.")
logical_xor = _binary(np.logical_xor, "Whether exactly one is true, that is, not 0.")
logical_not = _unary(np.logical_not, "Whether x is false, that is, 0.")
bitwise_and = _binary(np.bitwise_and, "x1 & x2, for bool and integers.")
bitwise_or = _binary(np.bitwise_or, "x1 | x2, for bool and integers.")
bitwise_xor = _binary(np.bitwise_xor, "x1 ^ x2, for bool and integers.")
invert = _unary(np.invert, "~x, for bool and integers.")
left_shift = _binary(np.left_shift, "x1 << x2, for integers.")
right_shift = _binary(np.right_shift, "x1 >> x2, for integers.")
isnan = _unary(np.isnan, "Whether x is nan.")
isinf = _unary(np.isinf, "Whether x is infinite.")
isfinite = _unary(np.isfinite, "Whether x is neither infinite nor nan.")


def reciprocal(x: ArrayLike, /) -> "Tensor":
    """1 / x, in the dtype of x: of integers 0, but for 1 and -1 (NumPy's of 0 is any number)."""
    (node,) = operands(np.reciprocal, (x,))
    if node.dtype.kind not in "iu":
        return wrap(OPS["reciprocal"](node))
    is_unit = OPS["equal"](OPS["absolute"](node), full(1, (), node.dtype))
    return wrap(OPS["where"](is_unit, node, zeros_of_same_dtype(node)))


def rint(x: ArrayLike, /) -> "Tensor":
    """The nearest integer, even in a tie; of both parts of a complex number. Gradient 0."""
    (node,) = operands(np.rint, (x,))
    if node.dtype.kind != "c":
        return wrap(OPS["rint"](node))
    parts = [OPS["rint"](OPS[part](node)) for part in ("real", "imag")]
    return wrap(OPS["make_complex"](*parts))


of_ufunc.update({np.reciprocal: reciprocal, np.rint: rint})


def conjugate(x: ArrayLike, /) -> "Tensor":
    """The complex conjugate."""
    (node,) = operands(np.conjugate, (x,))
    return wrap(OPS["conjugate"](node) if node.dtype.kind == "c" else node)


of_ufunc[np.conjugate] = conjugate


# Comparisons

COMPARISONS = frozenset(
    {np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal}
)


def comparison_operands(ufunc: np.ufunc, values: tuple[ArrayLike, ...]) -> tuple[Node, ...]:
    """As `operands`, but a Python integer may exceed the other's dtype, as in NumPy."""
    try:
        return operands(ufunc, values if not any(map(is_stand_in, values)) else _exact(values))
    except OverflowError:
        # Every integer of a dtype is less than one that is too large for it: infinity serves.
        return operands(ufunc, tuple([_as_float_or_infinity(value) for value in values]))


def _exact(values: tuple[ArrayLike, ...]) -> tuple[ArrayLike, ...]:
    """What stands for a Python integer beside integers, as int64: it may not fit their dtype."""
    if any(as_node(x).dtype.kind not in "biu" for x in values):
        return values
    return tuple([as_node(x) if is_stand_in(x) else x for x in values])


def _as_float_or_infinity(value: ArrayLike) -> ArrayLike:
    if value.__class__ is int:
        return np.float64(np.inf if value > 0 else -np.inf)
    return cast(as_node(value), FLOAT64)


equal = _binary(np.equal, "Whether x1 == x2.", comparison_operands)
not_equal = _binary(np.not_equal, "Whether x1 != x2.", comparison_operands)
less = _binary(np.less, "Whether x1 < x2.", comparison_operands)
less_equal = _binary(np.less_equal, "Whether x1 <= x2.", comparison_operands)
greater = _binary(np.greater, "Whether x1 > x2.", comparison_operands)
greater_equal = _binary(np.greater_equal, "Whether x1 >= x2.", comparison_operands)


# Selection


@overload
def where(condition: ArrayLike) -> "tuple[Tensor, ...]": ...


@overload
def where(condition: ArrayLike, x1: ArrayLike, x2: ArrayLike) -> "Tensor": ...


@by_types(operands=3)
def where(
    condition: ArrayLike, x1: ArrayLike | None = None, x2: ArrayLike | None = None
) -> "Tensor | tuple[Tensor, ...]":
    """`x1` where the condition is true, else `x2`, element by element.

    With the condition alone, `nonzero(condition)`.

    The one that was not chosen gets the gradient 0. Where its own derivative is infinite or nan,
    that makes nan of what it was computed from, as in torch: `where(x > 0, sqrt(where(x > 0, x,
    1)), 0)` has finite gradients.
    """
    if x1 is None and x2 is None:
        return nonzero(condition)
    if x1 is None or x2 is None:
        raise TypeError(
            explain("where", "either both or neither of x1 and x2", fix="where(condition, x1, 0)")
        )
    for given in (condition, x1, x2):
        if isinstance(given, Selection):
            return given.called(where, (condition, x1, x2), {})
    x, y = common_dtype((x1, x2))
    mask = cast(as_node(condition), np.dtype(bool))
    mask = placed(mask, only_device([z.type.device for z in (mask, x, y)]))
    return wrap(OPS["where"](mask, x, y))


@by_types(operands=3)
def clip(x: ArrayLike, min: ArrayLike | None = None, max: ArrayLike | None = None) -> "Tensor":
    """`x`, but at least `min` and at most `max`; `max` if `min` exceeds it. nan stays nan.

    Gradients flow to `x` within and at the bounds, beyond them to the bound. nan gets the gradient
    0, and so does what is beyond bounds that are equal. A Python integer beyond all numbers of the
    dtype of `x` is no bound.
    """
    for given in (x, min, max):
        if isinstance(given, Selection):
            return given.called(clip, (x, min, max), {})
    low, high = min, max
    if isinstance(low, int) or isinstance(high, int):
        dtype = as_node(x).dtype
        if dtype.kind in "iu":
            least, greatest = np.iinfo(dtype).min, np.iinfo(dtype).max
            low = None if isinstance(low, int) and low <= least else low
            high = None if isinstance(high, int) and high >= greatest else high
    given = [bound for bound in (low, high) if bound is not None]
    node, *bounds = common_dtype((x, *given))
    least, greatest = ends(node.dtype)
    bottom = full(least, (), node.dtype) if low is None else bounds.pop(0)
    top = full(greatest, (), node.dtype) if high is None else bounds.pop(0)
    is_known = all(bound.__class__ in WEAK and bound == bound for bound in given)
    return wrap(record(OPS["clip_to_numbers" if is_known else "clip"], (node, bottom, top)))


def astype(x: ArrayLike, dtype: object, /, *, copy: bool = True, device: object = None) -> "Tensor":
    """`x` converted to `dtype`, as NumPy converts: floats are truncated to integers.

    Gradients flow between floating and complex dtypes. With `copy=False` a tensor that has the
    dtype is returned itself.
    """
    node = as_node(x)
    wanted = as_dtype(dtype)
    moved = on_device(node, device)
    if not copy and node.dtype == wanted and moved is getattr(x, "_node", None):
        return x
    return wrap(cast(moved, wanted))


# Complex numbers


def real(x: ArrayLike, /) -> "Tensor":
    """The real part: a view."""
    if isinstance(x, Selection):
        return x.called(real, (x,), {})
    node = as_node(x)
    return _part(x, node, _REAL) if node.type.dtype.kind == "c" else view_of(x, node)


def imag(x: ArrayLike, /) -> "Tensor":
    """The imaginary part: a view; zeros for real `x`."""
    if isinstance(x, Selection):
        return x.called(imag, (x,), {})
    node = as_node(x)
    return _part(x, node, _IMAG) if node.type.dtype.kind == "c" else wrap(zeros_like(node))


_REAL = ((OPS["real"], (), NO_PARAMS),)
_IMAG = ((OPS["imag"], (), NO_PARAMS),)


def _part(x: ArrayLike, node: Node, steps: Sequence[Step]) -> "Tensor":
    result = new_tensor(record(steps[0][0], (node,)))
    if is_tensor(x):
        note_view(x, result, steps)
    return result


def angle(x: ArrayLike, /, deg: bool = False) -> "Tensor":
    """The angle of a complex number in radians, from -pi to pi; with `deg` in degrees.

    Of a real one 0, or pi for a negative one, with gradient 0.
    """
    node = as_node(x)
    if node.dtype.kind != "c":
        result = wrap(_angle_of_real(operands(np.arctan2, (0, node))[1]))
    else:
        result = arctan2(OPS["imag"](node), OPS["real"](node))
    return rad2deg(result) if deg else result


def _angle_of_real(x: Node) -> Node:
    right = scalar_leaf(np.pi / 2, x.dtype)
    angle = right - OPS["copysign"](right, x)
    return OPS["where"](OPS["isnan"](x), full(np.nan, (), x.dtype), angle)


def zeros_of_same_dtype(node: Node) -> Node:
    return full(0, (), node.dtype)


# Activations and special functions, by SciPy's and torch's names


def sigmoid(x: ArrayLike, /) -> "Tensor":
    """1 / (1 + exp(-x)), without overflow."""
    return wrap(OPS["sigmoid"](_floating(x)))


def erf(x: ArrayLike, /) -> "Tensor":
    """The error function. Complex x: SciPy's, error below 60 eps, relative to 1 or the result."""
    return wrap(OPS["erf"](_floating(x)))


def erfc(x: ArrayLike, /) -> "Tensor":
    """1 - erf(x), accurate for large x. Complex x: SciPy's, error as of `erf`."""
    return wrap(OPS["erfc"](_floating(x)))


def relu(x: ArrayLike, /) -> "Tensor":
    """max(x, 0), of real x. Gradient 0 at 0; nan stays nan."""
    node = as_node(x)
    if node.dtype.kind == "c":
        raise DTypeError(explain("relu", "not defined for complex numbers", got={"x": node.type}))
    zero = zeros_of_same_dtype(node)
    return wrap(OPS["where"](OPS["less_equal"](node, zero), zero, node))


def softplus(x: ArrayLike, /) -> "Tensor":
    """log(1 + exp(x)), without overflow."""
    return logaddexp(x, 0.0)


def _floating(x: ArrayLike) -> Node:
    """`x` in the dtype that NumPy's exp would compute in."""
    return operands(np.exp, (x,))[0]


# Written in terms of the others


@by_types(operands=2)
def sinc(x: ArrayLike, /) -> "Tensor":
    """sin(pi x) / (pi x), and 1 at 0, with all its derivatives."""
    node = as_inexact(x)
    angle = node * scalar_leaf(np.pi, node.dtype)
    size = OPS["absolute"](angle)
    is_small = OPS["less"](size, scalar_leaf(0.5, size.dtype))
    # The series up to angle**14: the rest is below 1e-18 where it is used. Selections on both
    # sides keep 0 / 0 out of derivatives.
    square = OPS["square"](OPS["where"](is_small, angle, zeros_of_same_dtype(angle)))
    series = scalar_leaf(0.0, node.dtype)
    for k in range(7, -1, -1):
        series = series * square + scalar_leaf((-1) ** k / math.factorial(2 * k + 1), node.dtype)
    safe = OPS["where"](is_small, full(1, (), node.dtype), angle)
    return wrap(OPS["where"](is_small, series, OPS["divide"](OPS["sin"](safe), safe)))


def fmax(x1: ArrayLike, x2: ArrayLike, /) -> "Tensor":
    """The larger one; the other one if one is nan. Gradient to x1 in a tie and if both are nan."""
    return _ignoring_nan(np.fmax, "greater_equal", x1, x2)


def fmin(x1: ArrayLike, x2: ArrayLike, /) -> "Tensor":
    """The smaller one; the other one if one is nan. Gradient to x1 in a tie and if both are nan."""
    return _ignoring_nan(np.fmin, "less_equal", x1, x2)


of_ufunc[np.fmax] = fmax
of_ufunc[np.fmin] = fmin


def _ignoring_nan(ufunc: np.ufunc, comparison: str, x1: ArrayLike, x2: ArrayLike) -> "Tensor":
    x, y = operands(ufunc, (x1, x2))
    is_first = OPS["logical_or"](OPS[comparison](x, y), OPS["isnan"](y))
    return wrap(OPS["where"](is_first, x, y))


def fabs(x: ArrayLike, /) -> "Tensor":
    """The absolute value, floating also for integers."""
    return wrap(OPS["absolute"](*operands(np.fabs, (x,))))


def deg2rad(x: ArrayLike, /) -> "Tensor":
    """Degrees as radians."""
    (node,) = operands(np.deg2rad, (x,))
    return wrap(node * scalar_leaf(np.pi / 180, node.dtype))


def rad2deg(x: ArrayLike, /) -> "Tensor":
    """Radians as degrees."""
    (node,) = operands(np.rad2deg, (x,))
    return wrap(node * scalar_leaf(180 / np.pi, node.dtype))


def signbit(x: ArrayLike, /) -> "Tensor":
    """Whether the sign bit is set: true for -0.0."""
    (node,) = operands(np.signbit, (x,))
    one = full(1, (), node.dtype)
    return wrap(OPS["less"](OPS["copysign"](one, node), zeros_of_same_dtype(node)))


@by_types(operands=2)
def heaviside(x1: ArrayLike, x2: ArrayLike, /) -> "Tensor":
    """0 for negative x1, 1 for positive, x2 at 0. Gradient 0 by x1."""
    x, at_zero = operands(np.heaviside, (x1, x2))
    half = full(0.5, (), x.dtype)
    step = OPS["sign"](x) * half + half
    return wrap(OPS["where"](OPS["equal"](x, zeros_of_same_dtype(x)), at_zero, step))


def divmod(x1: ArrayLike, x2: ArrayLike, /) -> "tuple[Tensor, Tensor]":
    """(floor_divide(x1, x2), remainder(x1, x2))."""
    return floor_divide(x1, x2), remainder(x1, x2)


of_ufunc.update(
    {
        np.fabs: fabs,
        np.deg2rad: deg2rad,
        np.radians: deg2rad,
        np.rad2deg: rad2deg,
        np.degrees: rad2deg,
        np.signbit: signbit,
        np.heaviside: heaviside,
        np.divmod: divmod,
    }
)


def round(x: ArrayLike, decimals: int = 0) -> "Tensor":
    """The nearest number of so many decimals, even in a tie; of both parts of complex ones.
    Gradient 0.
    """
    node = as_node(x)
    decimals = operator.index(decimals)  # one of NumPy's may have no sign
    if node.dtype.kind in "iu" and decimals >= 0:
        return wrap(node)
    if node.dtype.kind == "b":
        raise DTypeError(
            explain("round", "not defined for bool", got={"x": node.type}, fix="x.astype(int)")
        )
    if not is_inexact(node.dtype):  # to tens and hundreds, by way of doubles, as in NumPy
        return wrap(cast(as_node(round(wrap(cast(node, FLOAT64)), decimals)), node.dtype))
    if decimals == 0:
        return rint(node)
    if node.dtype.kind == "c":
        parts = [round(OPS[part](node), decimals)._node for part in ("real", "imag")]
        return wrap(OPS["make_complex"](*parts))
    scale = scalar_leaf(10.0 ** max(decimals, -decimals), node.dtype)
    if decimals > 0:
        return rint(node * scale) / wrap(scale)
    return rint(OPS["divide"](node, scale)) * wrap(scale)


around = round


def nan_to_num(
    x: ArrayLike,
    copy: bool = True,
    nan: ArrayLike = 0.0,
    posinf: ArrayLike | None = None,
    neginf: ArrayLike | None = None,
) -> "Tensor":
    """`x` with nan replaced by `nan`, and infinities by the largest numbers or the ones given.

    Replacements broadcast to `x`, and get the gradient there. With `copy=False` a tensor `x` is
    changed, and returned.
    """
    if not copy and is_tensor(x):
        assign(x, nan_to_num(x, nan=nan, posinf=posinf, neginf=neginf)._node)
        return x
    node = as_node(x)
    if node.dtype.kind == "c":
        parts = [
            nan_to_num(OPS[part](node), True, nan, posinf, neginf) for part in ("real", "imag")
        ]
        return wrap(OPS["make_complex"](*[part._node for part in parts]))
    if not is_floating(node.dtype):
        return wrap(node)
    limits = finfo(node.dtype)
    zero = zeros_of_same_dtype(node)
    is_infinite = OPS["isinf"](node)
    replacements = (
        (OPS["isnan"](node), nan),
        (
            OPS["logical_and"](is_infinite, OPS["greater"](node, zero)),
            limits.max if posinf is None else posinf,
        ),
        (
            OPS["logical_and"](is_infinite, OPS["less"](node, zero)),
            limits.min if neginf is None else neginf,
        ),
    )
    result = node
    for mask, number in replacements:
        replacement = broadcast_to(cast(as_node(number, like=node), node.dtype), node.shape)
        result = OPS["where"](mask, replacement, result)
    return wrap(result)


@by_types(operands=2)
def isclose(
    x1: ArrayLike,
    x2: ArrayLike,
    rtol: ArrayLike = 1e-05,
    atol: ArrayLike = 1e-08,
    equal_nan: bool = False,
) -> "Tensor":
    """Whether |x1 - x2| <= atol + rtol * |x2|, element by element; infinities equal themselves."""
    x, y = operands(np.divide, (x1, x2))
    bound = atol + rtol * wrap(OPS["absolute"](y))
    is_near = (wrap(OPS["absolute"](x - y)) <= bound) & wrap(OPS["isfinite"](y))
    result = is_near | wrap(OPS["equal"](x, y))
    if equal_nan:
        result = result | wrap(OPS["logical_and"](OPS["isnan"](x), OPS["isnan"](y)))
    return result


# NumPy's other names for the same functions.
abs = absolute
acos, acosh, asin, asinh, atan, atan2, atanh = (
    arccos,
    arccosh,
    arcsin,
    arcsinh,
    arctan,
    arctan2,
    arctanh,
)
bitwise_invert = bitwise_not = invert
bitwise_left_shift, bitwise_right_shift = left_shift, right_shift
conj = conjugate
degrees, radians = rad2deg, deg2rad
mod = remainder
true_divide = divide
