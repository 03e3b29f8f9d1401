"""Templates of scalar expressions as text of CUDA Python.

`Op.expression` is written in the kernel language of the CPU (`kernel_language/intrinsics.py`). Here
each template is read as a Python expression, typed, and written again with the names and the typed
literals that CUDA Python wants.
"""

from __future__ import annotations

import ast
import functools
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from numba_grad.compiler.cuda import device_functions
from numba_grad.compiler.elementary.formulas import FUNCTIONS
from numba_grad.dtypes import FLOAT32, FLOAT64, computed_in, is_storage_only
from numba_grad.errors import InternalError

BOOL = np.dtype(bool)
INT64 = np.dtype(np.int64)
_PARTS = {"complex64": "float32", "complex128": "float64"}

_OPERATORS = {
    **{ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%"},
    **{ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^"},
}
_COMPARISONS = {
    **{ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="},
}
# Of complex numbers, which Python does not order.
_ORDERS = {
    **{ast.Lt: "less", ast.LtE: "less_equal", ast.Gt: "greater", ast.GtE: "greater_equal"},
}
_OF_BOOLS = {"+": "|", "*": "&"}
_SELECTED = ("float32", "float64", "int32", "int64", "uint32", "uint64")  # by `cuda.selp`
_REDUCTIONS = {
    "reduce_add": "{a} + {b}",
    "reduce_multiply": "{a} * {b}",
    "reduce_maximum": "maximum({a}, {b})",
    "reduce_minimum": "minimum({a}, {b})",
}
# With one rounding each, which no pass of NVVM changes.
_MULTIPLY = {FLOAT32: "fmul_rn", FLOAT64: "dmul_rn"}
_FMA = {FLOAT32: "fmaf", FLOAT64: "fma"}
_PREFIX = "operand_"
_NAME = re.compile(r"[A-Za-z_]\w*|\w+\([\w.-]*\)")


@dataclass(frozen=True, slots=True)
class Typed:
    """The text of a value, and its dtype in registers; None for a number written as such."""

    text: str
    dtype: np.dtype | None
    is_wide: bool = False  # Numba computed it in a wider integer than `dtype`


def dtype_name(dtype: np.dtype) -> str:
    """How kernels name the dtype of a value in registers."""
    return computed_in(dtype).name


def storage_name(dtype: np.dtype) -> str:
    """What a pointer to elements points to: a bool is a byte in memory."""
    return "uint8" if dtype == BOOL else dtype.name


def constant(value: object, dtype: np.dtype) -> str:
    """A typed literal."""
    dtype = computed_in(dtype)
    number: Any = np.asarray(value, dtype)[()]
    if dtype.kind == "c":
        part = np.dtype(_PARTS[dtype.name])
        return f"complex({constant(number.real, part)}, {constant(number.imag, part)})"
    if dtype.kind == "f":
        return f"{dtype.name}({_float_text(number)})"
    if dtype.kind == "b":
        return str(bool(number))
    return f"{dtype.name}({int(number)})"


def _float_text(number: np.floating) -> str:
    value = float(number)
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return repr(value)


class Expressions:
    """The expressions of one kernel, and the device functions that they need."""

    def __init__(self) -> None:
        self._needed: dict[str, None] = {}

    def apply(
        self,
        template: str,
        operands: Mapping[str, tuple[str, np.dtype]],
        dtype: np.dtype,
        casts: bool,
    ) -> str:
        """The text of a template whose fields are the operands.

        An operand's text has its dtype in registers: half precision is float32, and a bool is one.
        `dtype` is the result's; `casts` whether an integer or bool must be cut to it.
        """
        typed = {
            _PREFIX + name: Typed(_in_parentheses(text), computed_in(d))
            for name, (text, d) in operands.items()
        }
        value = self._text(_parsed(template), typed)
        target = computed_in(dtype)
        if value.dtype is None:
            value = Typed(constant(ast.literal_eval(value.text), target), target)
        elif value.dtype != target or (casts and value.is_wide):
            value = self.cast(value, target)
        return _without_parentheses(value.text)

    def call(self, name: str) -> str:
        """`name`, a device function that is written out in `device_functions.py`."""
        self._need(name)
        return name

    def definitions(self) -> list[str]:
        """The texts of all device functions needed so far, each after those it calls."""
        return [device_functions.known(name).text for name in self._needed]

    def _need(self, name: str) -> None:
        if name not in self._needed:
            for called in device_functions.known(name).calls:
                self._need(called)
            self._needed[name] = None

    # Nodes.

    def _text(self, node: ast.expr, operands: Mapping[str, Typed]) -> Typed:
        match node:
            case ast.Name(name):
                # Names that are no operands are integer arguments of the kernel.
                return operands.get(name) or Typed(name, INT64)
            case ast.Constant(int() | float() as value):
                return Typed(repr(value), None)
            case ast.UnaryOp(ast.USub(), operand):
                value = self._text(operand, operands)
                return Typed(f"(-{value.text})", value.dtype, _grows(value))
            case ast.BinOp(left, operator, right):
                fused = self._sum_of_product(node, operands)
                if fused is not None:
                    return fused
                pair = self._text(left, operands), self._text(right, operands)
                return self._binary(_OPERATORS[type(operator)], *pair)
            case ast.Compare(left, [operator], [right]):
                x, y = self._text(left, operands), self._text(right, operands)
                # Numba compares integers of different signs by their values.
                if not (_is_integer(x) and _is_integer(y)):
                    x, y = self._alike(x, y)
                name = _ORDERS.get(type(operator))
                if name is not None and x.dtype is not None and x.dtype.kind == "c":
                    return self._function(name, [x, y])
                return Typed(f"({x.text} {_COMPARISONS[type(operator)]} {y.text})", BOOL)
            case ast.Call(ast.Name(name), arguments):
                return self._call(name, arguments, operands)
        raise InternalError(f"expressions: {ast.unparse(node)} is not of the kernel language")

    def _sum_of_product(self, node: ast.BinOp, operands: Mapping[str, Typed]) -> Typed | None:
        """`x * y + z` in one expression, of one real type: rounded once, as on the CPU."""
        if not isinstance(node.op, ast.Add | ast.Sub):
            return None
        is_first = _is_product(node.left)
        product, other = (node.left, node.right) if is_first else (node.right, node.left)
        if not _is_product(product):
            return None
        assert isinstance(product, ast.BinOp)
        factors = self._alike(
            self._text(product.left, operands), self._text(product.right, operands)
        )
        *factors, addend = self._alike(*factors, self._text(other, operands))
        function = _FMA.get(addend.dtype)
        if function is None:
            return None
        texts = [value.text for value in (*factors, addend)]
        if isinstance(node.op, ast.Sub):
            negated = 2 if is_first else 0
            texts[negated] = f"-{texts[negated]}"
        arguments = ", ".join(map(_without_parentheses, texts))
        return Typed(f"libdevice.{function}({arguments})", addend.dtype)

    def _binary(self, operator: str, x: Typed, y: Typed) -> Typed:
        x, y = self._alike(x, y)
        assert x.dtype is not None
        if x.dtype == BOOL:
            operator = _OF_BOOLS.get(operator, operator)
            return Typed(f"({x.text} {operator} {y.text})", BOOL)
        if operator == "/" and x.dtype.kind == "c":
            return self._function("divide", [x, y])
        if operator == "*" and x.dtype in _MULTIPLY:
            # NVVM would contract it into a sum of this kernel, and not in another (`_text`).
            factors = ", ".join(_without_parentheses(value.text) for value in (x, y))
            return Typed(f"libdevice.{_MULTIPLY[x.dtype]}({factors})", x.dtype)
        return Typed(f"({x.text} {operator} {y.text})", x.dtype, _grows(x))

    def _alike(self, *values: Typed) -> list[Typed]:
        """Values of one dtype, the one that NumPy promotes to. Numbers take it on."""
        known = [value.dtype for value in values if value.dtype is not None]
        dtype = np.result_type(*known) if known else INT64
        return [
            v if v.dtype is not None and v.dtype == dtype else self.cast(v, dtype) for v in values
        ]

    def _call(self, name: str, arguments: list[ast.expr], operands: Mapping[str, Typed]) -> Typed:
        if name == "cast":
            value, target = arguments
            assert isinstance(target, ast.Name)
            return self._cast_to(self._text(value, operands), target.id)
        if name == "bitcast":
            value, target = arguments
            assert isinstance(target, ast.Name)
            return self._same_bits(self._text(value, operands), np.dtype(target.id))
        if name == "reduce_add" and _is_product(arguments[1]):
            return self._text(ast.BinOp(arguments[0], ast.Add(), arguments[1]), operands)
        values = [self._text(argument, operands) for argument in arguments]
        if name in _REDUCTIONS:
            a, b = self._alike(*values)
            text = _REDUCTIONS[name].format(a=f"{_PREFIX}a", b=f"{_PREFIX}b")
            return self._text(_expression(text), {f"{_PREFIX}a": a, f"{_PREFIX}b": b})
        if name == "select":
            return self._select(*values)
        if name == "check_index":
            index, size, errors, site = values
            index, size, site = (self.cast(value, INT64) for value in (index, size, site))
            words = ", ".join(value.text for value in (index, size, errors, site))
            return Typed(f"{self.call('check_index')}({words})", INT64)
        if name in ("real", "imag", "conjugate", "make_complex"):
            return self._of_parts(name, *values)
        return self._function(name, values)

    def _select(self, condition: Typed, x: Typed, y: Typed) -> Typed:
        x, y = self._alike(x, y)
        assert x.dtype is not None
        if x.dtype.name in _SELECTED:
            # Exactly of one type, which integers are not where Numba computed wider.
            x, y = (self.cast(v, v.dtype) if v.is_wide and v.dtype else v for v in (x, y))
            return Typed(f"cuda.selp({condition.text}, {x.text}, {y.text})", x.dtype)
        return Typed(f"({x.text} if {condition.text} else {y.text})", x.dtype)

    def _of_parts(self, name: str, x: Typed, y: Typed | None = None) -> Typed:
        """Functions of complex numbers that need no function; of real numbers too."""
        assert x.dtype is not None
        if y is not None:
            x, y = self._alike(x, y)
            assert x.dtype is not None
            return Typed(f"complex({x.text}, {y.text})", np.result_type(x.dtype, np.complex64))
        if x.dtype.kind == "c":
            if name == "conjugate":
                return self._function(name, [x])
            return Typed(f"{x.text}.{name}", np.dtype(_PARTS[x.dtype.name]))
        if name == "imag":
            return Typed(constant(0, x.dtype), x.dtype)
        return x

    def _function(self, name: str, values: list[Typed]) -> Typed:
        if name not in FUNCTIONS:
            raise InternalError(f"expressions: no function {name} in the kernel language")
        dtypes = tuple(v.dtype for v in values if v.dtype is not None)
        call = device_functions.call(name, dtypes)
        for needed in call.needs:
            self._need(needed)
        operands = [self.cast(value, call.operand_dtype).text for value in values]
        text = call.template.format(*map(_without_parentheses, operands))
        return Typed(text, call.result_dtype)

    # Casts.

    def _cast_to(self, value: Typed, target: str) -> Typed:
        """What `cast(value, target)` means."""
        dtype = BOOL if target == "bool_" else np.dtype(target)
        if value.dtype is None:
            return Typed(constant(ast.literal_eval(value.text), dtype), computed_in(dtype))
        if is_storage_only(dtype):
            if value.dtype.kind == "c":
                value = self._of_parts("real", value)
                assert value.dtype is not None
            function = device_functions.cast_function(value.dtype, dtype.name)
            if function:
                return Typed(f"{self.call(function)}({value.text})", FLOAT32)
            return Typed(f"float32({target}({self.cast(value, FLOAT32).text}))", FLOAT32)
        return self.cast(value, dtype)

    def _same_bits(self, value: Typed, target: np.dtype) -> Typed:
        assert value.dtype is not None
        if value.dtype.kind == "f":
            signed = np.dtype(f"i{target.itemsize}")
            function = "float_as_int" if target.itemsize == 4 else "double_as_longlong"
            return self.cast(Typed(f"libdevice.{function}({value.text})", signed), target)
        signed = self.cast(value, np.dtype(f"i{target.itemsize}"))
        function = "int_as_float" if target.itemsize == 4 else "longlong_as_double"
        return self.cast(
            Typed(f"libdevice.{function}({signed.text})", np.dtype(f"f{target.itemsize}")), target
        )

    def cast(self, value: Typed, target: np.dtype) -> Typed:
        """NumPy's `astype`."""
        source = value.dtype
        if source is None:
            return Typed(constant(ast.literal_eval(value.text), target), target)
        if source == target and not value.is_wide:
            return value
        text = _without_parentheses(value.text)
        function = device_functions.cast_function(source, target.name)
        if function:
            return Typed(f"{self.call(function)}({text})", target)
        if target == BOOL:
            return Typed(f"({value.text} != {constant(0, source)})", BOOL)
        if target.kind == "c" and source.kind != "c":
            part = np.dtype(_PARTS[target.name])
            real = _without_parentheses(self.cast(value, part).text)
            return Typed(f"complex({real}, {constant(0, part)})", target)
        if source.kind == "c" and target.kind != "c":
            return self.cast(self._of_parts("real", value), target)
        return Typed(f"{target.name}({text})", target)


def _is_product(node: ast.expr) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult)


def _is_integer(value: Typed) -> bool:
    return value.dtype is not None and value.dtype.kind in "iu"


def _grows(value: Typed) -> bool:
    """Whether Numba's arithmetic of such values is in 64 bits, and theirs is not."""
    return value.dtype is not None and value.dtype.kind in "iu" and value.dtype.itemsize < 8


@functools.cache
def _parsed(template: str) -> ast.expr:
    """The template with its fields as names that nothing else has."""
    return _expression(re.sub(r"{(\w+)}", rf"{_PREFIX}\1", template))


@functools.cache
def _expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _in_parentheses(text: str) -> str:
    return text if _NAME.fullmatch(text) else f"({text})"


def _without_parentheses(text: str) -> str:
    """The text of a whole expression, without the parentheses around all of it."""
    if not (text.startswith("(") and text.endswith(")")):
        return text
    depth = 0
    for position, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return text[1:-1] if position == len(text) - 1 else text
    return text
