"""Elementary functions of vectors, written where `vector_loops.py` is at.

The formulas are those of scalars (`elementary/`), run on values that are vectors, so results have
their bits. What they do rarely, as `sin` of large numbers, is a function that looks for the lanes
which need it.
"""

# pyright: reportAttributeAccessIssue=false, reportArgumentType=false

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from numba_grad.compiler.code_generation import has_fma
from numba_grad.compiler.elementary.formulas import FUNCTIONS
from numba_grad.compiler.elementary.llvm_writer import vector_form
from numba_grad.compiler.elementary.registry import COMPLEX, FLOATING
from numba_grad.compiler.elementary.scalar import (
    BOOL,
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    Definition,
    Number,
    ScalarBuilder,
    Value,
)
from numba_grad.compiler.kernel_language.text_functions import TextFunction, declare, function_type

CONDITIONS = frozenset(["isfinite", "isinf", "isnan"])
# Of two values, by LLVM's functions. (An extreme of all passes is read behind its loop, which is
# not plain then.)
EXTREMES = frozenset(["reduce_maximum", "reduce_minimum"])
_OF_FEW_INSTRUCTIONS = frozenset(
    (
        *("absolute", "ceil", "conjugate", "copysign", "floor", "imag", "make_complex"),
        *("maximum", "minimum", "real", "reciprocal", "rint", "sign", "trunc"),
    )
)
SHORT = CONDITIONS | EXTREMES | _OF_FEW_INSTRUCTIONS
# Of which single elements take long. What is missing calls functions of its own: Bessel functions,
# incomplete ones, integrals.
LONG = frozenset(
    (
        *("arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh"),
        *("beta", "betaln", "cbrt", "cos", "cosh", "digamma", "ellipe", "entr", "erf", "erfc"),
        *("erfcinv", "erfcx", "erfinv", "exp", "exp2", "expm1", "floor_divide", "fmod", "gamma"),
        *("gammaln", "hypot", "kl_div", "lambertw", "lambertw_below", "log", "log10", "log1p"),
        *("log2", "log_ndtr", "log_sigmoid", "logit", "ndtr", "ndtri", "power", "rel_entr"),
        *("remainder", "sigmoid", "sin", "sinh", "sqrt", "tan", "tanh", "trigamma", "xlog1py"),
        "xlogy",
    )
)
# Those of them that are worth vectors where a loop has few points.
FOR_FEW = frozenset(["exp", "expm1", "log", "log1p", "power", "sigmoid", "sqrt", "tanh"])
_ELEMENTS = {
    BOOL: ir.IntType(1),
    INT32: ir.IntType(32),
    INT64: ir.IntType(64),
    FLOAT32: ir.FloatType(),
    FLOAT64: ir.DoubleType(),
}
_SUFFIXES = {FLOAT32: "f32", FLOAT64: "f64", INT32: "i32", INT64: "i64"}
_KINDS = {ir.FloatType(): FLOAT32, ir.DoubleType(): FLOAT64}
_METHODS = {"and": "and_", "or": "or_"}  # of llvmlite's, where they have other names
_COMPARISONS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}


# What was written in a block, by operation and operands: `sin` and `cos` have much in common.
Known = dict[tuple[Any, ...], Value]


def written(
    builder: ir.IRBuilder,
    name: str,
    arguments: Sequence[tuple[Any, ...]],
    known: Known | None = None,
) -> tuple[Any, ...]:
    """The parts of the function of this name of vectors of floating numbers, or of complex ones, of
    which each is a pair. NotImplementedError if it calls functions of its own."""
    parts = [part for argument in arguments for part in argument]
    kind = parts[0].type
    writer = _VectorWriter(builder, kind.count, {} if known is None else known)
    values = [Value(writer, _KINDS[kind.element], part) for part in parts]
    family = COMPLEX if len(parts) > len(arguments) else FLOATING
    if name in EXTREMES and family == FLOATING:
        return (writer.function(name.removeprefix("reduce_"), *values).name,)
    formula = FUNCTIONS[name].formulas.get(family) if name in FUNCTIONS else None
    if formula is None:
        raise NotImplementedError
    result = formula(*values)
    results = result if isinstance(result, tuple) else (result,)
    return tuple([value.name for value in results])


class _VectorWriter(ScalarBuilder):
    """Writes formulas of vectors: a `Value` is of the kind of its elements, and named by the
    instruction that it is."""

    has_fast_float64 = True

    def __init__(self, builder: ir.IRBuilder, width: int, known: Known) -> None:
        self.builder, self.width, self.known = builder, width, known
        self.has_fma = has_fma()

    def type(self, kind: str) -> ir.VectorType:
        return ir.VectorType(_ELEMENTS[kind], self.width)

    def once(self, kind: str, write: Callable[..., Any], operation: str, *operands: Any) -> Value:
        """The value of an instruction, which the block has once."""
        # Constants are compared by their text, which takes as long as to write it.
        key = (kind, operation, *map(id, operands))
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = Value(self, kind, write(*operands))
        return found

    def constant(self, kind: str, number: Number) -> Value:
        element = float(number) if kind in (FLOAT32, FLOAT64) else int(number)
        key = (kind, "constant", element, math.copysign(1.0, element))
        found = self.known.get(key)
        if found is None:
            one = ir.Constant(_ELEMENTS[kind], element)
            constant = ir.Constant(self.type(kind), [one] * self.width)
            found = self.known[key] = Value(self, kind, constant)
        return found

    def binary(self, operation: str, x: Value, y: Value) -> Value:
        write = getattr(self.builder, _METHODS.get(operation, operation))
        return self.once(x.kind, write, operation, x.name, y.name)

    def compare(self, operation: str, x: Value, y: Value) -> Value:
        builder, symbol = self.builder, _COMPARISONS[operation[-2:]]
        if x.is_float:
            write = builder.fcmp_ordered if operation[0] == "o" else builder.fcmp_unordered
        else:
            write = builder.icmp_unsigned if operation[0] == "u" else builder.icmp_signed
        return self.once(BOOL, functools.partial(write, symbol), operation, x.name, y.name)

    def negate(self, x: Value) -> Value:
        return self.once(x.kind, self.builder.fneg, "fneg", x.name)

    def select(self, condition: Value, x: Value, y: Value) -> Value:
        names = condition.name, x.name, y.name
        return self.once(x.kind, self.builder.select, "select", *names)

    def convert(self, operation: str, x: Value, kind: str) -> Value:
        def write(name: Any) -> Any:
            return getattr(self.builder, operation)(name, self.type(kind))

        return self.once(kind, write, operation, x.name)

    def function(self, name: str, *arguments: Value) -> Value:
        kind = arguments[0].kind
        symbol = f"llvm.{name}.v{self.width}{_SUFFIXES[kind]}"
        module, vector = self.builder.module, self.type(kind)

        def write(*names: Any) -> Any:
            called = module.globals.get(symbol)
            if called is None:
                function_type = ir.FunctionType(vector, [vector] * len(arguments))
                called = ir.Function(module, function_type, symbol)
            return self.builder.call(called, names)

        return self.once(kind, write, symbol, *[x.name for x in arguments])

    def rarely(
        self,
        condition: Value,
        usual: Value,
        name: str,
        *arguments: Value,
        definition: Definition | None = None,
    ) -> Value:
        kind, module = usual.kind, self.builder.module
        form = vector_form(kind, name, len(arguments), self.width, definition)
        declare(module, form.declarations)
        for symbol, text in form.definitions.items():
            if symbol not in module.globals:
                vector = self.type(kind)
                is_form = symbol == form.symbol
                of_vectors = ir.FunctionType(vector, [*[vector] * len(arguments), self.type(BOOL)])
                own = of_vectors if is_form else function_type("void")
                TextFunction(module, own, symbol, text)
        operands = [*[x.name for x in arguments], condition.name]
        rare = Value(self, kind, self.builder.call(module.globals[form.symbol], operands))
        return self.select(condition, rare, usual)
