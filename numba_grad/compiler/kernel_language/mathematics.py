"""The mathematics of kernel source: `NAMESPACE` maps each plain name to a Numba intrinsic.

A use of `exp` in a kernel adds one small LLVM function to the kernel's own module, which LLVM
inlines before it vectorizes loops. Nothing is typed, compiled or linked beforehand: a formula of
`elementary/` becomes text once per process, in less than a millisecond, and a kernel pays only for
what it uses.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import types

from numba_grad.compiler.code_generation import has_fma
from numba_grad.compiler.elementary.formulas import FUNCTIONS
from numba_grad.compiler.elementary.llvm_writer import WrittenFunction, trace
from numba_grad.compiler.elementary.registry import (
    BOOLEAN,
    COMMON,
    COMPLEX,
    FLOATING,
    OF_FIRST,
    SIGNED,
    UNSIGNED,
    ElementaryFunction,
)
from numba_grad.compiler.elementary.scalar import BOOL, FLOAT32, FLOAT64
from numba_grad.compiler.kernel_language import calls_together, vector_functions
from numba_grad.compiler.kernel_language.intrinsics import accesses
from numba_grad.compiler.kernel_language.registry import intrinsic, means
from numba_grad.compiler.kernel_language.scalars import complex_parts, complex_product, make_complex
from numba_grad.compiler.kernel_language.text_functions import TextFunction, declare, function_type

_LLVM_KIND = {types.float32: FLOAT32, types.float64: FLOAT64}


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


def _add_to_module(module: ir.Module, traced: WrittenFunction) -> TextFunction:
    """Declare and define what the traced function needs, unless the module has it already."""
    known: Any = module.globals.get(traced.symbol)
    if known is not None:
        return known
    declare(module, traced.declarations)
    has_vector_forms = module.numba_grad_has_vector_forms  # pyright: ignore[reportAttributeAccessIssue]
    for symbol, text in traced.definitions.items():
        if symbol not in module.globals and (has_vector_forms or symbol not in traced.kept):
            TextFunction(module, function_type("void"), symbol, text)
    kept = module.globals.get("llvm.compiler.used")
    for symbol in traced.kept if has_vector_forms else ():
        if kept is None:
            kept = _KeptFunctions(module)
        if symbol not in kept.symbols:
            kept.symbols.append(symbol)
    return TextFunction(module, function_type(*traced.signature), traced.symbol, traced.text)


@functools.cache
def _traced(name: str, family: str, formula: Callable, kinds: tuple[str, ...]) -> WrittenFunction:
    return trace(f"{name}.{family}", formula, kinds, has_fma=has_fma())


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


def _call(
    function: ElementaryFunction, numba_type: types.Type, builder: ir.IRBuilder, values: Any
) -> Any:
    """A call of the function's formula for arguments of one type."""
    family = _family(numba_type)
    if family == COMPLEX:
        values = [builder.extract_value(v, part) for v in values for part in (0, 1)]
    called = _add_to_module(builder.module, _formula(function, numba_type))
    call = builder.call(called, values)
    called.calls.append(call)
    is_long = called.text.count("\n") > _LONGEST_INLINED
    if family == FLOATING and is_long and function.name in _OF_VECTORS:
        called.name_of_form = function.name
    if builder.module.numba_grad_writes_vectors and is_long:
        call.attributes.add("noinline")  # of single elements: what is left of rows, rims
    return call


_LONGEST_INLINED = 8  # lines of functions where loops are vectors already: of an instruction
_MOST_INLINED = 2
# Also under other names of theirs.
_OF_VECTORS = {FUNCTIONS[name].name for name in vector_functions.LONG}


def join_calls(module: ir.Module) -> bool:
    """Make vectors of the calls in straight-line code, where they have such a form, and say whether
    that leaves little to make vectors of.

    Others stay calls if they are more than a few of one function, and it has branches, as nobody
    puts these side by side. Inlined, each takes LLVM 5 ms.
    """
    names: dict[ir.Function, str] = {
        function: function.name_of_form
        for function in module.functions
        if isinstance(function, TextFunction) and function.name_of_form
    }
    is_joined = bool(names) and calls_together.put_together(module, names, accesses(module))
    for function in module.functions:
        if isinstance(function, TextFunction) and " br i1 " in function.text:
            for call in function.calls if len(function.calls) > _MOST_INLINED else ():
                call.attributes.add("noinline")
    return is_joined


def _formula(function: ElementaryFunction, numba_type: types.Type) -> WrittenFunction:
    family = _family(numba_type)
    kinds = _kinds(numba_type) * function.arity
    return _traced(function.name, family, function.formulas[family], kinds)


def _intrinsic(function: ElementaryFunction):
    """A function of kernel source, of arguments that meet in one type."""

    def build(typing_context, *arguments):
        common = _common_type(typing_context, arguments, function)
        if common is None:
            return None
        result = _RESULT_TYPES.get(_formula(function, common).signature[0], common)

        def generate(context, builder, signature, values):
            return _call(function, common, builder, values)

        return result(*(common,) * function.arity), generate

    def unary(typing_context, x):
        return build(typing_context, x)

    def binary(typing_context, x, y):
        return build(typing_context, x, y)

    def ternary(typing_context, x, y, z):
        return build(typing_context, x, y, z)

    typing = (unary, binary, ternary)[function.arity - 1]
    typing.__name__ = typing.__qualname__ = function.name
    return intrinsic(typing)


def _common_type(typing_context: Any, arguments: tuple, function: ElementaryFunction) -> Any:
    """The type in which the arguments meet, if the function has a formula for it."""
    if function.computed_in == OF_FIRST:
        arguments = arguments[:1]
    common = typing_context.unify_types(*arguments)
    family = function.family(_family(common))
    if family is None:
        return None
    if isinstance(common, types.Boolean) and family == UNSIGNED:
        common = types.uint8
    if isinstance(common, types.Boolean | types.Integer) and family == FLOATING:
        return types.float64
    if isinstance(common, types.Integer) and function.computed_in != COMMON:
        return types.int64 if common in types.signed_domain else types.uint64
    return common


NAMESPACE: dict[str, Any] = {name: _intrinsic(function) for name, function in FUNCTIONS.items()}


@means(operator.mul)
def _multiply_complex(typing_context, a, b):
    """Numba's own is Python code, which from Python 3.14 on has branches for infinities."""
    if a != b or not isinstance(a, types.Complex):
        return None

    def generate(context, builder, signature, values):
        parts = [complex_parts(builder, value) for value in values]
        return make_complex(builder, *complex_product(builder, *parts))

    return a(a, b), generate


@means(operator.truediv)
def _divide(typing_context, a, b):
    """Numba's own asks whether the divisor is 0: for complex numbers it raises then, and the kernel
    would end without its results; for others it branches, to do nothing. A block that ends at each
    quotient has no calls side by side, and nothing that LLVM could put together."""
    if a != b or not isinstance(a, types.Complex | types.Float):
        return None

    if isinstance(a, types.Float):

        def quotient(context, builder, signature, values):
            return builder.fdiv(*values)

        return a(a, b), quotient

    def generate(context, builder, signature, values):
        return _call(FUNCTIONS["divide"], a, builder, values)

    return a(a, b), generate
