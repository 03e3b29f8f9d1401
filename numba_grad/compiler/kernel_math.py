"""The mathematics of kernel source: `NAMESPACE` maps each plain name to a Numba intrinsic.

A use of `exp` in a kernel adds one small LLVM function to the kernel's own module, which LLVM
inlines before it vectorizes loops. Nothing is typed, compiled or linked beforehand: a formula of
`elementary/` becomes text once per process (about a millisecond), and a kernel pays for what it uses.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import llvmlite.binding as llvm
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from numba_grad.compiler.elementary import (
    basic,
    error_function,
    exponential,
    logarithm,
    power,
    scalar,
    trigonometric,
)
from numba_grad.compiler.elementary.scalar import (
    BOOL,
    FLOAT32,
    FLOAT64,
    Traced,
    Value,
    library_call,
    trace,
)

_LLVM_KIND = {types.float32: FLOAT32, types.float64: FLOAT64}
_IR_TYPE = {
    "float": ir.FloatType(),
    "double": ir.DoubleType(),
    "void": ir.VoidType(),
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
            f"appending global [{len(self.symbols)} x ptr] [{members}], "
            'section "llvm.metadata"\n'
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


_FLOAT, _SIGNED, _UNSIGNED = "floating", "signed", "unsigned"


def _family(numba_type: types.Type) -> str | None:
    if isinstance(numba_type, types.Float):
        return _FLOAT
    if isinstance(numba_type, types.Integer):
        return _SIGNED if numba_type.signed else _UNSIGNED
    return None


def _kind(numba_type: types.Type) -> str:
    if isinstance(numba_type, types.Integer):
        return f"i{numba_type.bitwidth}"
    return _LLVM_KIND[numba_type]


def _common_type(typing_context, arguments, formulas: dict[str, Callable]) -> types.Type | None:
    """The type in which all arguments meet; float64 where there is no formula for integers."""
    common = typing_context.unify_types(*arguments)
    if isinstance(common, types.Boolean):
        common = types.uint8
    if isinstance(common, types.Integer) and _family(common) not in formulas:
        common = types.float64
    return common if _family(common) in formulas else None


def _function(name: str, arity: int, formulas: dict[str, Callable]) -> Callable:
    """The intrinsic with one formula for each family of types."""

    def build(typing_context, *arguments):
        common = _common_type(typing_context, arguments, formulas)
        if common is None:
            return None
        family = _family(common)
        traced = _traced(name, family, formulas[family], (_kind(common),) * arity)
        result = types.boolean if traced.signature[0] == BOOL else common

        def generate(context, builder, signature, values):
            return builder.call(_add_to_module(builder.module, traced), values)

        return result(*(common,) * arity), generate

    def unary(typing_context, x):
        return build(typing_context, x)

    def binary(typing_context, x, y):
        return build(typing_context, x, y)

    function = unary if arity == 1 else binary
    function.__name__ = function.__qualname__ = name
    return intrinsic(function)


def _library(name: str) -> Callable:
    return lambda *arguments: library_call(name, *arguments)


def _always(value: bool) -> Callable:
    return lambda x: Value(x.trace, BOOL, "true" if value else "false")


_ROUNDED_INTEGER = {_SIGNED: basic.unchanged, _UNSIGNED: basic.unchanged}

# name -> formula for each family of types.
_UNARY: dict[str, dict[str, Callable]] = {
    **{name: {_FLOAT: _library(name)} for name in ("cbrt",)},
    **{
        formula.__name__: {_FLOAT: formula}
        for formula in (
            exponential.exp,
            exponential.exp2,
            exponential.expm1,
            exponential.sigmoid,
            exponential.sinh,
            exponential.cosh,
            exponential.tanh,
            logarithm.log,
            logarithm.log1p,
            logarithm.log2,
            logarithm.log10,
            logarithm.asinh,
            logarithm.acosh,
            logarithm.atanh,
            trigonometric.sin,
            trigonometric.cos,
            trigonometric.tan,
            trigonometric.asin,
            trigonometric.acos,
            trigonometric.atan,
            error_function.erf,
            error_function.erfc,
        )
    },
    "sqrt": {_FLOAT: scalar.square_root},
    "floor": {_FLOAT: scalar.round_down, **_ROUNDED_INTEGER},
    "ceil": {_FLOAT: scalar.round_up, **_ROUNDED_INTEGER},
    "trunc": {_FLOAT: scalar.round_to_zero, **_ROUNDED_INTEGER},
    "rint": {_FLOAT: scalar.round_half_even, **_ROUNDED_INTEGER},
    "sign": {
        _FLOAT: basic.sign,
        _SIGNED: basic.sign_signed,
        _UNSIGNED: basic.sign_unsigned,
    },
    "absolute": {
        _FLOAT: scalar.absolute,
        _SIGNED: basic.absolute_signed,
        _UNSIGNED: basic.unchanged,
    },
    "isnan": {_FLOAT: basic.is_nan, _SIGNED: _always(False), _UNSIGNED: _always(False)},
    "isinf": {_FLOAT: basic.is_infinite, _SIGNED: _always(False), _UNSIGNED: _always(False)},
    "isfinite": {_FLOAT: basic.is_finite, _SIGNED: _always(True), _UNSIGNED: _always(True)},
}
_BINARY: dict[str, dict[str, Callable]] = {
    "power": {_FLOAT: power.power},
    "atan2": {_FLOAT: trigonometric.atan2},
    "hypot": {_FLOAT: _library("hypot")},
    "copysign": {_FLOAT: scalar.copy_sign},
    "maximum": {
        _FLOAT: basic.maximum,
        _SIGNED: basic.maximum_signed,
        _UNSIGNED: basic.maximum_unsigned,
    },
    "minimum": {
        _FLOAT: basic.minimum,
        _SIGNED: basic.minimum_signed,
        _UNSIGNED: basic.minimum_unsigned,
    },
    "fmod": {
        _FLOAT: basic.fmod,
        _SIGNED: basic.fmod_signed,
        _UNSIGNED: basic.remainder_unsigned,
    },
    "remainder": {
        _FLOAT: basic.remainder,
        _SIGNED: basic.remainder_signed,
        _UNSIGNED: basic.remainder_unsigned,
    },
    "floor_divide": {
        _FLOAT: basic.floor_divide,
        _SIGNED: basic.floor_divide_signed,
        _UNSIGNED: basic.floor_divide_unsigned,
    },
}

NAMESPACE: dict[str, Callable] = {
    **{name: _function(name, 1, formulas) for name, formulas in _UNARY.items()},
    **{name: _function(name, 2, formulas) for name, formulas in _BINARY.items()},
}
NAMESPACE["expit"] = NAMESPACE["sigmoid"]
