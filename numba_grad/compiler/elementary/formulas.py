"""Every function of kernel source and its formulas: one for each family of types that has one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from numba_grad.compiler.elementary import (
    basic,
    complex_lambert,
    complex_plane,
    complex_zeta,
    entropy,
    error_function,
    exponential,
    gamma_function,
    lambert,
    logarithm,
    philox,
    polygamma,
    power,
    representation,
    scalar,
    scipy_functions,
    trigonometric,
)
from numba_grad.compiler.elementary.scalar import BOOL, Value
from numba_grad.compiler.elementary.scipy_functions import (
    scipy_function,
    scipy_function_of_complex,
)

# Families of types: each has its own formula of a function. Complex numbers are pairs of values.
BOOLEAN, SIGNED, UNSIGNED = "boolean", "signed", "unsigned"
FLOATING, COMPLEX = "floating", "complex"

# In which type the arguments meet.
COMMON = "common"  # the one NumPy promotes them to
WIDEST_INTEGER = "widest integer"  # that, but integers in 64 bits, cut off by whoever stores them
OF_FIRST = "of the first"  # the same for the first argument alone: the others are literals

Formulas = dict[str, Callable]


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    name: str
    arity: int
    formulas: Formulas
    computed_in: str = COMMON

    def family(self, family: str) -> str | None:
        """The family that values of a family are computed in: without a formula of their own,
        bools count as unsigned integers, and these as floating numbers, of 64 bits."""
        if family == BOOLEAN and BOOLEAN not in self.formulas:
            family = UNSIGNED
        if family in (SIGNED, UNSIGNED) and family not in self.formulas:
            family = FLOATING
        return family if family in self.formulas else None


def _always(value: bool) -> Callable:
    return lambda x: x.trace.constant(BOOL, value)


def _logical(combine: Callable) -> Formulas:
    """A formula of truth values for numbers of any family."""

    def of_numbers(*arguments: Value) -> Value:
        return combine(*(basic.is_true(x) for x in arguments))

    def of_complex(*parts: Value) -> Value:
        pairs = zip(parts[::2], parts[1::2], strict=True)
        return combine(*(basic.is_true(x) | basic.is_true(y) for x, y in pairs))

    families = (BOOLEAN, SIGNED, UNSIGNED, FLOATING)
    return {**dict.fromkeys(families, of_numbers), COMPLEX: of_complex}


def _floats(formula: Callable, complex_formula: Callable | None = None) -> Formulas:
    if complex_formula is None:
        return {FLOATING: formula}
    return {FLOATING: formula, COMPLEX: complex_formula}


def _integers(signed: Callable, unsigned: Callable | None = None) -> Formulas:
    return {SIGNED: signed, UNSIGNED: unsigned or signed}


_UNARY: dict[str, Formulas] = {
    "exp": _floats(exponential.exp, complex_plane.exp),
    "exp2": _floats(exponential.exp2, complex_plane.exp2),
    "expm1": _floats(exponential.expm1, complex_plane.expm1),
    "sigmoid": _floats(exponential.sigmoid, complex_plane.sigmoid),
    "sinh": _floats(exponential.sinh, complex_plane.sinh),
    "cosh": _floats(exponential.cosh, complex_plane.cosh),
    "tanh": _floats(exponential.tanh, complex_plane.tanh),
    "log": _floats(logarithm.log, complex_plane.log),
    "log1p": _floats(logarithm.log1p, complex_plane.log1p),
    "log2": _floats(logarithm.log2, complex_plane.log2),
    "log10": _floats(logarithm.log10, complex_plane.log10),
    "log_sigmoid": _floats(logarithm.log_sigmoid),
    "asinh": _floats(logarithm.asinh, complex_plane.asinh),
    "acosh": _floats(logarithm.acosh, complex_plane.acosh),
    "atanh": _floats(logarithm.atanh, complex_plane.atanh),
    "sin": _floats(trigonometric.sin, complex_plane.sin),
    "cos": _floats(trigonometric.cos, complex_plane.cos),
    "tan": _floats(trigonometric.tan, complex_plane.tan),
    "asin": _floats(trigonometric.asin, complex_plane.asin),
    "acos": _floats(trigonometric.acos, complex_plane.acos),
    "atan": _floats(trigonometric.atan, complex_plane.atan),
    "erf": _floats(error_function.erf, scipy_function_of_complex("erf")),
    "erfc": _floats(error_function.erfc, scipy_function_of_complex("erfc")),
    "erfinv": _floats(error_function.erfinv),
    "erfcinv": _floats(error_function.erfcinv),
    "erfcx": _floats(error_function.erfcx, scipy_function_of_complex("erfcx")),
    "ndtr": _floats(error_function.ndtr, scipy_function_of_complex("ndtr")),
    "log_ndtr": _floats(error_function.log_ndtr, scipy_function_of_complex("log_ndtr")),
    "ndtri": _floats(error_function.ndtri),
    "gamma": _floats(gamma_function.gamma, scipy_function_of_complex("gamma")),
    "gammaln": _floats(gamma_function.gammaln),
    "loggamma": {COMPLEX: scipy_function_of_complex("loggamma")},
    "digamma": _floats(polygamma.digamma, scipy_function_of_complex("psi")),
    "trigamma": _floats(polygamma.trigamma),
    "lambertw": _floats(lambert.lambertw),
    "lambertw_below": _floats(lambert.lambertw_below),
    "entr": _floats(entropy.entr),
    "logit": _floats(entropy.logit),
    "rgamma": _floats(scipy_function("rgamma"), scipy_function_of_complex("rgamma")),
    "riemann_zeta": _floats(scipy_functions.riemann_zeta),
    "exp1": _floats(scipy_function("exp1"), scipy_function_of_complex("exp1")),
    "expi": _floats(scipy_function("expi"), scipy_function_of_complex("expi")),
    "sine_integral": _floats(scipy_functions.sine_integral, scipy_functions.complex_sine_integral),
    "cosine_integral": _floats(
        scipy_functions.cosine_integral, scipy_functions.complex_cosine_integral
    ),
    # Loop variables of kernels are named i0 and i1.
    **{
        f"bessel_{name}": _floats(scipy_function(name))
        for name in ("i0", "i0e", "i1", "i1e", "j0", "j1", "y0", "y1")
    },
    "cbrt": _floats(power.cbrt),
    "sqrt": _floats(scalar.square_root, complex_plane.sqrt),
    "square": _floats(basic.square, complex_plane.square) | _integers(basic.square),
    "reciprocal": _floats(basic.reciprocal, complex_plane.reciprocal)
    | _integers(basic.reciprocal_signed, basic.reciprocal_unsigned),
    "floor": _floats(scalar.round_down) | _integers(basic.unchanged),
    "ceil": _floats(scalar.round_up) | _integers(basic.unchanged),
    "trunc": _floats(scalar.round_to_zero) | _integers(basic.unchanged),
    "rint": _floats(scalar.round_half_even) | _integers(basic.unchanged),
    "sign": _floats(basic.sign, complex_plane.sign)
    | _integers(basic.sign_signed, basic.sign_unsigned),
    "absolute": _floats(scalar.absolute, complex_plane.hypot)
    | _integers(basic.absolute_signed, basic.unchanged),
    "isnan": _floats(basic.is_nan, complex_plane.is_nan) | _integers(_always(False)),
    "isinf": _floats(basic.is_infinite, complex_plane.is_infinite) | _integers(_always(False)),
    "isfinite": _floats(basic.is_finite, complex_plane.is_finite) | _integers(_always(True)),
    "real": _floats(basic.unchanged, complex_plane.real),
    "imag": _floats(lambda x: x.like(0.0), complex_plane.imag),
    "conjugate": _floats(basic.unchanged, complex_plane.conjugate) | _integers(basic.unchanged),
    "invert": _integers(basic.invert) | {BOOLEAN: basic.invert},
    "logical_not": _logical(lambda x: ~x),
    "frexp_exponent": _floats(representation.frexp_exponent),
    "bitwise_count": _integers(representation.count_bits_signed, representation.count_bits),
}
_BINARY: dict[str, Formulas] = {
    "atan2": _floats(trigonometric.atan2),
    "hypot": _floats(complex_plane.hypot),
    "copysign": _floats(scalar.copy_sign),
    "nextafter": _floats(representation.next_after),
    "ldexp": _floats(representation.ldexp),
    "xlogy": _floats(entropy.xlogy, complex_plane.xlogy),
    "xlog1py": _floats(entropy.xlog1py, complex_plane.xlog1py),
    "rel_entr": _floats(entropy.rel_entr),
    "kl_div": _floats(entropy.kl_div),
    "zeta": _floats(polygamma.zeta),
    "beta": _floats(gamma_function.beta),
    "betaln": _floats(gamma_function.betaln),
    "gammainc": _floats(scipy_function("gammainc")),
    "gammaincc": _floats(scipy_function("gammaincc")),
    "bessel_j": _floats(scipy_function("jv"), scipy_function_of_complex("jv", 1)),
    "bessel_i": _floats(scipy_function("iv")),
    "bessel_ie": _floats(scipy_function("ive")),
    "integer_zeta": {COMPLEX: complex_zeta.integer_zeta},
    "complex_lambertw": {COMPLEX: complex_lambert.lambertw},
    "make_complex": _floats(complex_plane.make_complex),
    # Of real numbers these are operators.
    "less": {COMPLEX: complex_plane.less},
    "less_equal": {COMPLEX: complex_plane.less_equal},
    "greater": {COMPLEX: complex_plane.greater},
    "greater_equal": {COMPLEX: complex_plane.greater_equal},
    "divide": _floats(lambda x, y: x / y, complex_plane.divide),
    "maximum": _floats(basic.maximum, complex_plane.maximum)
    | _integers(basic.maximum_signed, basic.maximum_unsigned),
    "minimum": _floats(basic.minimum, complex_plane.minimum)
    | _integers(basic.minimum_signed, basic.minimum_unsigned),
    "fmod": _floats(basic.fmod) | _integers(basic.fmod_signed, basic.remainder_unsigned),
    "remainder": _floats(basic.remainder)
    | _integers(basic.remainder_signed, basic.remainder_unsigned),
    "floor_divide": _floats(basic.floor_divide)
    | _integers(basic.floor_divide_signed, basic.floor_divide_unsigned),
    "left_shift": _integers(basic.left_shift),
    "right_shift": _integers(basic.right_shift_signed, basic.right_shift_unsigned),
    "logical_and": _logical(lambda x, y: x & y),
    "logical_or": _logical(lambda x, y: x | y),
    "logical_xor": _logical(lambda x, y: x ^ y),
}
_TERNARY: dict[str, Formulas] = {
    "philox_0": {UNSIGNED: philox.first_half},
    "philox_1": {UNSIGNED: philox.second_half},
    "betainc": _floats(scipy_function("betainc")),
    "hyp1f1": _floats(scipy_function("hyp1f1"), scipy_function_of_complex("hyp1f1", 2)),
}
_POWER = _floats(power.power, complex_plane.power) | _integers(
    basic.power_signed, basic.power_unsigned
)

_OF_64_BITS: dict[str, Formulas] = {
    "power": _POWER,
    "gcd": _integers(representation.gcd_signed, representation.gcd_unsigned),
    "lcm": _integers(representation.lcm_signed, representation.lcm_unsigned),
}

# Names of NumPy and SciPy for the same functions.
_ALIASES = {
    "arcsin": "asin",
    "arccos": "acos",
    "arctan": "atan",
    "arctan2": "atan2",
    "arcsinh": "asinh",
    "arccosh": "acosh",
    "arctanh": "atanh",
    "expit": "sigmoid",
}


def _functions() -> dict[str, Function]:
    found = {
        name: Function(name, arity, formulas)
        for arity, table in ((1, _UNARY), (2, _BINARY), (3, _TERNARY))
        for name, formulas in table.items()
    }
    for name, formulas in _OF_64_BITS.items():
        found[name] = Function(name, 2, formulas, WIDEST_INTEGER)
    # The exponent is a literal, whatever its type.
    found["integer_power"] = Function("integer_power", 2, _POWER, OF_FIRST)
    return found | {alias: found[name] for alias, name in _ALIASES.items()}


FUNCTIONS = _functions()
