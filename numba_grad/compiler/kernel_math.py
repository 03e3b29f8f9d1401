"""The mathematics of kernel source: `NAMESPACE` maps each plain name to a Numba intrinsic.

A use of `exp` in a kernel adds one small LLVM function to the kernel's own module, which LLVM
inlines before it vectorizes loops. Nothing is typed, compiled or linked beforehand: a formula of
`elementary/` becomes text once per process, in less than a millisecond, and a kernel pays only for
what it uses.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from numba_grad.compiler.elementary import (
    basic,
    complex_plane,
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
from numba_grad.compiler.elementary.scalar import (
    BOOL,
    FLOAT32,
    FLOAT64,
    Traced,
    Value,
    trace,
)
from numba_grad.compiler.elementary.scipy_functions import scipy_function

_LLVM_KIND = {types.float32: FLOAT32, types.float64: FLOAT64}
_IR_TYPE = {
    "float": ir.FloatType(),
    "double": ir.DoubleType(),
    "void": ir.VoidType(),
    "ptr": ir.PointerType(),
    **{f"i{n}": ir.IntType(n) for n in (1, 8, 16, 32, 64)},
}


def _ir_type(kind: str) -> ir.Type:
    if kind.startswith("{"):
        return ir.LiteralStructType([_IR_TYPE[k] for k in kind[1:-1].split(", ")])
    return _IR_TYPE[kind]


class _TextFunction(ir.Function):
    """A function of the module that is text already."""

    def __init__(self, module: ir.Module, function_type: ir.FunctionType, name: str, text: str):
        self.text = text
        super().__init__(module, function_type, name)

    def descr(self, buf: list[str]) -> None:
        buf.append(self.text)


class _KeptFunctions(ir.GlobalVariable):
    """`llvm.compiler.used`: vector forms are reached only through the names in call attributes."""

    def __init__(self, module: ir.Module):
        self.symbols: list[str] = []
        super().__init__(module, ir.IntType(8), "llvm.compiler.used")

    def descr(self, buf: list[str]) -> None:
        members = ", ".join(f"ptr @{symbol}" for symbol in self.symbols)
        buf.append(
            f'appending global [{len(self.symbols)} x ptr] [{members}], section "llvm.metadata"\n'
        )


def _add_to_module(module: ir.Module, traced: Traced) -> ir.Function:
    """Declare and define what the traced function needs, unless the module has it already."""
    known = module.globals.get(traced.symbol)
    if known is not None:
        return known
    for symbol, (result, arguments) in traced.declarations.items():
        if symbol not in module.globals:
            ir.Function(module, _function_type(result, arguments), symbol)
    for symbol, text in traced.definitions.items():
        if symbol not in module.globals:
            _TextFunction(module, _function_type("void", ()), symbol, text)
    kept = module.globals.get("llvm.compiler.used")
    for symbol in traced.kept:
        if kept is None:
            kept = _KeptFunctions(module)
        if symbol not in kept.symbols:
            kept.symbols.append(symbol)
    return _TextFunction(module, _function_type(*traced.signature), traced.symbol, traced.text)


def _function_type(result: str, arguments: tuple[str, ...]) -> ir.FunctionType:
    return ir.FunctionType(_ir_type(result), [_ir_type(k) for k in arguments])


@functools.cache
def _target_has_fma() -> bool:
    features = llvm.get_host_cpu_features()
    # The key exists on x86 only; every other target Numba supports has the instruction.
    return features.get("fma", True)


@functools.cache
def _traced(name: str, family: str, formula: Callable, kinds: tuple[str, ...]) -> Traced:
    return trace(f"{name}.{family}", formula, kinds, has_fma=_target_has_fma())


# Families of types: each has its own formula of a function.
BOOLEAN, SIGNED, UNSIGNED = "boolean", "signed", "unsigned"
FLOATING, COMPLEX = "floating", "complex"

_COMPLEX_PARTS = {types.complex64: FLOAT32, types.complex128: FLOAT64}
_RESULT_TYPES = {
    BOOL: types.boolean,
    FLOAT32: types.float32,
    FLOAT64: types.float64,
    f"{{{FLOAT32}, {FLOAT32}}}": types.complex64,
    f"{{{FLOAT64}, {FLOAT64}}}": types.complex128,
}


def _family(numba_type: Any) -> str:
    match numba_type:
        case types.Boolean():
            return BOOLEAN
        case types.Integer():
            return SIGNED if numba_type in types.signed_domain else UNSIGNED
        case types.Float():
            return FLOATING
        case types.Complex():
            return COMPLEX
    return "none"


def _kinds(numba_type: types.Type) -> tuple[str, ...]:
    """The LLVM types of one argument: two for the parts of a complex number."""
    match numba_type:
        case types.Boolean():
            return (BOOL,)
        case types.Integer():
            bits: int = numba_type.bitwidth  # pyright: ignore[reportAttributeAccessIssue]
            return (f"i{bits}",)
        case types.Complex():
            return (_COMPLEX_PARTS[numba_type],) * 2
    return (_LLVM_KIND[numba_type],)


def _computed_in(numba_type: types.Type, formulas: dict[str, Callable]) -> types.Type | None:
    """The type itself if it has a formula; else bools count as integers, these as float64."""
    if isinstance(numba_type, types.Boolean) and BOOLEAN not in formulas:
        numba_type = types.uint8
    if isinstance(numba_type, types.Integer) and _family(numba_type) not in formulas:
        numba_type = types.float64
    return numba_type if _family(numba_type) in formulas else None


def _intrinsic(name: str, arity: int, formulas: dict[str, Callable], choose_type: Callable):
    """A function of kernel source: `choose_type` says in which type its arguments meet."""

    def build(typing_context, *arguments):
        common = choose_type(typing_context, arguments, formulas)
        if common is None:
            return None
        family = _family(common)
        traced = _traced(name, family, formulas[family], _kinds(common) * arity)
        result = _RESULT_TYPES.get(traced.signature[0], common)

        def generate(context, builder, signature, values):
            if family == COMPLEX:
                values = [builder.extract_value(v, part) for v in values for part in (0, 1)]
            return builder.call(_add_to_module(builder.module, traced), values)

        return result(*(common,) * arity), generate

    def unary(typing_context, x):
        return build(typing_context, x)

    def binary(typing_context, x, y):
        return build(typing_context, x, y)

    def ternary(typing_context, x, y, z):
        return build(typing_context, x, y, z)

    function = (unary, binary, ternary)[arity - 1]
    function.__name__ = function.__qualname__ = name
    return intrinsic(function)


def _common_type(typing_context: Any, arguments: tuple, formulas: dict[str, Callable]) -> Any:
    return _computed_in(typing_context.unify_types(*arguments), formulas)


def _widest_integer(typing_context: Any, arguments: tuple, formulas: dict[str, Callable]) -> Any:
    """Computed in 64 bits, and cut off by whoever stores it: powers of integers, and divisors."""
    common = _common_type(typing_context, arguments, formulas)
    if isinstance(common, types.Integer):
        return types.int64 if common in types.signed_domain else types.uint64
    return common


def _type_of_first(typing_context: Any, arguments: tuple, formulas: dict[str, Callable]) -> Any:
    return _widest_integer(typing_context, arguments[:1], formulas)


def _always(value: bool) -> Callable:
    return lambda x: Value(x.trace, BOOL, "true" if value else "false")


def _logical(combine: Callable) -> dict[str, Callable]:
    """A formula of truth values for numbers of any family."""

    def of_numbers(*arguments: Value) -> Value:
        return combine(*(basic.is_true(x) for x in arguments))

    def of_complex(*parts: Value) -> Value:
        pairs = zip(parts[::2], parts[1::2], strict=True)
        return combine(*(basic.is_true(x) | basic.is_true(y) for x, y in pairs))

    families = (BOOLEAN, SIGNED, UNSIGNED, FLOATING)
    return {**dict.fromkeys(families, of_numbers), COMPLEX: of_complex}


def _floats(formula: Callable, complex_formula: Callable | None = None) -> dict[str, Callable]:
    if complex_formula is None:
        return {FLOATING: formula}
    return {FLOATING: formula, COMPLEX: complex_formula}


def _integers(signed: Callable, unsigned: Callable | None = None) -> dict[str, Callable]:
    return {SIGNED: signed, UNSIGNED: unsigned or signed}


_UNARY: dict[str, dict[str, Callable]] = {
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
    "erf": _floats(error_function.erf),
    "erfc": _floats(error_function.erfc),
    "erfinv": _floats(error_function.erfinv),
    "erfcinv": _floats(error_function.erfcinv),
    "erfcx": _floats(error_function.erfcx),
    "ndtr": _floats(error_function.ndtr),
    "log_ndtr": _floats(error_function.log_ndtr),
    "ndtri": _floats(error_function.ndtri),
    "gamma": _floats(gamma_function.gamma),
    "gammaln": _floats(gamma_function.gammaln),
    "digamma": _floats(polygamma.digamma),
    "trigamma": _floats(polygamma.trigamma),
    "lambertw": _floats(lambert.lambertw),
    "lambertw_below": _floats(lambert.lambertw_below),
    "entr": _floats(entropy.entr),
    "logit": _floats(entropy.logit),
    "rgamma": _floats(scipy_function("rgamma")),
    "riemann_zeta": _floats(scipy_functions.riemann_zeta),
    "exp1": _floats(scipy_function("exp1")),
    "expi": _floats(scipy_function("expi")),
    "sine_integral": _floats(scipy_functions.sine_integral),
    "cosine_integral": _floats(scipy_functions.cosine_integral),
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
_BINARY: dict[str, dict[str, Callable]] = {
    "atan2": _floats(trigonometric.atan2),
    "hypot": _floats(complex_plane.hypot),
    "copysign": _floats(scalar.copy_sign),
    "nextafter": _floats(representation.next_after),
    "ldexp": _floats(representation.ldexp),
    "xlogy": _floats(entropy.xlogy),
    "xlog1py": _floats(entropy.xlog1py),
    "rel_entr": _floats(entropy.rel_entr),
    "kl_div": _floats(entropy.kl_div),
    "zeta": _floats(polygamma.zeta),
    "beta": _floats(gamma_function.beta),
    "betaln": _floats(gamma_function.betaln),
    "gammainc": _floats(scipy_function("gammainc")),
    "gammaincc": _floats(scipy_function("gammaincc")),
    "bessel_j": _floats(scipy_function("jv")),
    "make_complex": _floats(complex_plane.make_complex),
    "divide": _floats(lambda x, y: x / y, complex_plane.divide),
    "maximum": _floats(basic.maximum) | _integers(basic.maximum_signed, basic.maximum_unsigned),
    "minimum": _floats(basic.minimum) | _integers(basic.minimum_signed, basic.minimum_unsigned),
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
_TERNARY: dict[str, dict[str, Callable]] = {
    "philox_0": {UNSIGNED: philox.first_half},
    "philox_1": {UNSIGNED: philox.second_half},
    "betainc": _floats(scipy_function("betainc")),
    "hyp1f1": _floats(scipy_function("hyp1f1")),
}
_POWER = _floats(power.power, complex_plane.power) | _integers(
    basic.power_signed, basic.power_unsigned
)

_OF_64_BITS: dict[str, dict[str, Callable]] = {
    "gcd": _integers(representation.gcd_signed, representation.gcd_unsigned),
    "lcm": _integers(representation.lcm_signed, representation.lcm_unsigned),
}

NAMESPACE: dict[str, Any] = {
    **{name: _intrinsic(name, 1, formulas, _common_type) for name, formulas in _UNARY.items()},
    **{name: _intrinsic(name, 2, formulas, _common_type) for name, formulas in _BINARY.items()},
    **{name: _intrinsic(name, 2, f, _widest_integer) for name, f in _OF_64_BITS.items()},
    **{name: _intrinsic(name, 3, formulas, _common_type) for name, formulas in _TERNARY.items()},
    "power": _intrinsic("power", 2, _POWER, _widest_integer),
    # The exponent is a literal, whatever its type.
    "integer_power": _intrinsic("integer_power", 2, _POWER, _type_of_first),
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
NAMESPACE |= {alias: NAMESPACE[name] for alias, name in _ALIASES.items()}
