"""Elementary functions of vectors, written where `vector_loops.py` is at.

The formulas are those of scalars (`elementary/`), run on values that are vectors, so results have
their bits. Those of angles are left to LLVM: what they do rarely is a branch, and `sin` and `cos`
share what is before it only after its passes.
"""

# pyright: reportAttributeAccessIssue=false, reportArgumentType=false

from typing import Any

from llvmlite import ir

from numba_grad.compiler.code_generation import has_fma
from numba_grad.compiler.elementary.formulas import FUNCTIONS
from numba_grad.compiler.elementary.registry import FLOATING
from numba_grad.compiler.elementary.scalar import (
    BOOL,
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    Number,
    ScalarBuilder,
    Value,
)

# Those of more than an instruction.
LONG = frozenset(["exp", "expm1", "log", "log1p", "power", "sigmoid", "tanh"])
CONDITIONS = frozenset(["isnan"])
# Of two values, by LLVM's functions. (An extreme of all passes is read behind its loop, which is
# not plain then.)
EXTREMES = frozenset(["reduce_maximum", "reduce_minimum"])
SHORT = CONDITIONS | EXTREMES | {"sign", "maximum", "minimum"}
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


def written(builder: ir.IRBuilder, name: str, arguments: list[Any]) -> Any:
    """The function of this name of vectors of floating numbers."""
    kind = arguments[0].type
    writer = _VectorWriter(builder, kind.count)
    values = [Value(writer, _KINDS[kind.element], argument) for argument in arguments]
    if name in EXTREMES:
        return writer.function(name.removeprefix("reduce_"), *values).name
    return FUNCTIONS[name].formulas[FLOATING](*values).name


class _VectorWriter(ScalarBuilder):
    """Writes formulas of vectors: a `Value` is of the kind of its elements, and named by the
    instruction that it is."""

    has_fast_float64 = True

    def __init__(self, builder: ir.IRBuilder, width: int) -> None:
        self.builder, self.width = builder, width
        self.has_fma = has_fma()

    def type(self, kind: str) -> ir.VectorType:
        return ir.VectorType(_ELEMENTS[kind], self.width)

    def constant(self, kind: str, number: Number) -> Value:
        element = float(number) if kind in (FLOAT32, FLOAT64) else int(number)
        one = ir.Constant(_ELEMENTS[kind], element)
        return Value(self, kind, ir.Constant(self.type(kind), [one] * self.width))

    def binary(self, operation: str, x: Value, y: Value) -> Value:
        write = getattr(self.builder, _METHODS.get(operation, operation))
        return Value(self, x.kind, write(x.name, y.name))

    def compare(self, operation: str, x: Value, y: Value) -> Value:
        builder, symbol = self.builder, _COMPARISONS[operation[-2:]]
        if x.is_float:
            write = builder.fcmp_ordered if operation[0] == "o" else builder.fcmp_unordered
        else:
            write = builder.icmp_unsigned if operation[0] == "u" else builder.icmp_signed
        return Value(self, BOOL, write(symbol, x.name, y.name))

    def negate(self, x: Value) -> Value:
        return Value(self, x.kind, self.builder.fneg(x.name))

    def select(self, condition: Value, x: Value, y: Value) -> Value:
        return Value(self, x.kind, self.builder.select(condition.name, x.name, y.name))

    def convert(self, operation: str, x: Value, kind: str) -> Value:
        return Value(self, kind, getattr(self.builder, operation)(x.name, self.type(kind)))

    def function(self, name: str, *arguments: Value) -> Value:
        kind = arguments[0].kind
        symbol = f"llvm.{name}.v{self.width}{_SUFFIXES[kind]}"
        module, vector = self.builder.module, self.type(kind)
        called = module.globals.get(symbol)
        if called is None:
            function_type = ir.FunctionType(vector, [vector] * len(arguments))
            called = ir.Function(module, function_type, symbol)
        return Value(self, kind, self.builder.call(called, [x.name for x in arguments]))
