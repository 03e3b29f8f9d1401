"""Scalar expressions in the words of CUDA Python.

`Op.expression` is of the kernel language of the CPU (`kernel_language/intrinsics.py`). Here its
terms are typed, and become terms with the names and the typed literals that CUDA Python wants.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from numba_grad.compiler.cuda import device_functions
from numba_grad.compiler.elementary.formulas import FUNCTIONS
from numba_grad.compiler.scalar_expressions import (
    COMPARISONS,
    Call,
    Choice,
    Name,
    Number,
    Operand,
    Operation,
    Part,
    ResultDtype,
    Term,
    is_product,
    parsed,
    text_of,
)
from numba_grad.dtypes import FLOAT32, FLOAT64, computed_in, is_storage_only
from numba_grad.errors import InternalError
from numba_grad.immutable import immutable

BOOL = np.dtype(bool)
INT64 = np.dtype(np.int64)
_PARTS = {"complex64": "float32", "complex128": "float64"}

# Of complex numbers, which Python does not order.
_ORDERS = {"<": "less", "<=": "less_equal", ">": "greater", ">=": "greater_equal"}
_OF_BOOLS = {"+": "|", "*": "&"}
_SELECTED = ("float32", "float64", "int32", "int64", "uint32", "uint64")  # by `cuda.selp`
_REDUCTIONS = {
    "reduce_add": parsed("{a} + {b}"),
    "reduce_multiply": parsed("{a} * {b}"),
    "reduce_maximum": parsed("maximum({a}, {b})"),
    "reduce_minimum": parsed("minimum({a}, {b})"),
}
# With one rounding each, which no pass of NVVM changes.
_MULTIPLY = {FLOAT32: "fmul_rn", FLOAT64: "dmul_rn"}
_FMA = {FLOAT32: "fmaf", FLOAT64: "fma"}


@immutable
class TypedTerm:
    """A value, and its dtype in registers; None for a number written as such."""

    term: Term
    dtype: np.dtype | None
    is_wide: bool = False  # Numba computed it in a wider integer than `dtype`

    @property
    def text(self) -> str:
        return text_of(self.term)

    @property
    def number(self) -> bool | int | float:
        """Of a number written as such."""
        assert isinstance(self.term, Number)
        return self.term.value


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
        return f"{dtype.name}({float(number)!r})"
    if dtype.kind == "b":
        return str(bool(number))
    return f"{dtype.name}({int(number)})"


class KernelExpressions:
    """The expressions of one kernel, and the device functions that they need."""

    def __init__(self) -> None:
        self._needed: dict[str, None] = {}
        self._result: np.dtype | None = None  # of the expression that is typed

    def apply(
        self,
        term: Term,
        operands: Mapping[str, tuple[str, np.dtype]],
        dtype: np.dtype,
        casts: bool,
    ) -> str:
        """The text of an expression of operands, each with its text, an atom.

        An operand's text has its dtype in registers: half precision is float32, and a bool is one.
        `dtype` is the result's; `casts` whether an integer or bool must be cut to it.
        """
        typed = {
            name: TypedTerm(Name(text), computed_in(d)) for name, (text, d) in operands.items()
        }
        target = self._result = computed_in(dtype)
        value = self._typed(term, typed)
        if value.dtype is None:
            value = TypedTerm(_constant(value.number, target), target)
        elif value.dtype != target or (casts and value.is_wide):
            value = self.cast(value, target)
        return value.text

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

    # Terms.

    def _typed(self, term: Term, operands: Mapping[str, TypedTerm]) -> TypedTerm:
        match term:
            case Operand(name):
                return operands[name]
            case Name(name):
                return TypedTerm(term, INT64)  # an integer argument of the kernel
            case Number():
                return TypedTerm(term, None)
            case Operation("-", (operand,)):
                value = self._typed(operand, operands)
                return TypedTerm(Operation("-", (value.term,)), value.dtype, _grows(value))
            case Operation(symbol, (left, right)) if symbol in COMPARISONS:
                return self._compared(
                    symbol, self._typed(left, operands), self._typed(right, operands)
                )
            case Operation(symbol, (left, right)):
                fused = self._sum_of_product(term, operands)
                if fused is not None:
                    return fused
                pair = self._typed(left, operands), self._typed(right, operands)
                return self._binary(symbol, *pair)
            case Call(function, arguments):
                return self._call(function, arguments, operands)
        raise InternalError(f"expressions: {text_of(term)} is not of the kernel language")

    def _compared(self, symbol: str, x: TypedTerm, y: TypedTerm) -> TypedTerm:
        # Numba compares integers of different signs by their values, but for int64 with uint64:
        # `expression_of` takes these apart.
        if not (_is_integer(x) and _is_integer(y)):
            x, y = self._alike(x, y)
        name = _ORDERS.get(symbol)
        if name is not None and x.dtype is not None and x.dtype.kind == "c":
            return self._function(name, [x, y])
        return TypedTerm(Operation(symbol, (x.term, y.term)), BOOL)

    def _sum_of_product(
        self, term: Operation, operands: Mapping[str, TypedTerm]
    ) -> TypedTerm | None:
        """`x * y + z` in one expression, of one real type: rounded once, as on the CPU."""
        if term.symbol not in ("+", "-"):
            return None
        left, right = term.operands
        is_first = is_product(left)
        product, other = (left, right) if is_first else (right, left)
        if not is_product(product):
            return None
        assert isinstance(product, Operation)
        factors = self._alike(*[self._typed(x, operands) for x in product.operands])
        *factors, addend = self._alike(*factors, self._typed(other, operands))
        function = _FMA.get(addend.dtype)
        if function is None:
            return None
        terms = [value.term for value in (*factors, addend)]
        if term.symbol == "-":
            negated = 2 if is_first else 0
            terms[negated] = Operation("-", (terms[negated],))
        return TypedTerm(Call(f"libdevice.{function}", tuple(terms)), addend.dtype)

    def _binary(self, symbol: str, x: TypedTerm, y: TypedTerm) -> TypedTerm:
        x, y = self._alike(x, y)
        assert x.dtype is not None
        pair = (x.term, y.term)
        if x.dtype == BOOL:
            return TypedTerm(Operation(_OF_BOOLS.get(symbol, symbol), pair), BOOL)
        if symbol == "/" and x.dtype.kind == "c":
            return self._function("divide", [x, y])
        if symbol == "*" and x.dtype in _MULTIPLY:
            # NVVM would contract it into a sum of this kernel, and not in another (`_typed`).
            return TypedTerm(Call(f"libdevice.{_MULTIPLY[x.dtype]}", pair), x.dtype)
        return TypedTerm(Operation(symbol, pair), x.dtype, _grows(x))

    def _alike(self, *values: TypedTerm) -> list[TypedTerm]:
        """Values of one dtype, the one that NumPy promotes to. Numbers take it on."""
        known = [value.dtype for value in values if value.dtype is not None]
        dtype = np.result_type(*known) if known else INT64
        return [
            v if v.dtype is not None and v.dtype == dtype else self.cast(v, dtype) for v in values
        ]

    def _call(
        self, name: str, arguments: tuple[Term, ...], operands: Mapping[str, TypedTerm]
    ) -> TypedTerm:
        if name in ("cast", "bitcast"):
            value, target = arguments
            dtype = self._dtype_named(target)
            typed = self._typed(value, operands)
            return self._cast_to(typed, dtype) if name == "cast" else self._same_bits(typed, dtype)
        if name == "reduce_add" and is_product(arguments[1]):
            return self._typed(Operation("+", arguments), operands)
        values = [self._typed(argument, operands) for argument in arguments]
        if name in _REDUCTIONS:
            a, b = self._alike(*values)
            return self._typed(_REDUCTIONS[name], {"a": a, "b": b})
        if name == "select":
            return self._select(*values)
        if name == "check_index":
            index, size, errors, site = values
            index, size, site = (self.cast(value, INT64) for value in (index, size, site))
            words = tuple([value.term for value in (index, size, errors, site)])
            return TypedTerm(Call(self.call("check_index"), words), INT64)
        if name in ("real", "imag", "conjugate", "make_complex"):
            return self._of_parts(name, *values)
        return self._function(name, values)

    def _dtype_named(self, term: Term) -> np.dtype:
        if isinstance(term, ResultDtype):
            assert self._result is not None
            return self._result
        assert isinstance(term, Name)
        return BOOL if term.text == "bool_" else np.dtype(term.text)

    def _select(self, condition: TypedTerm, x: TypedTerm, y: TypedTerm) -> TypedTerm:
        x, y = self._alike(x, y)
        assert x.dtype is not None
        if x.dtype.name in _SELECTED:
            # Exactly of one type, which integers are not where Numba computed wider.
            x, y = (self.cast(v, v.dtype) if v.is_wide and v.dtype else v for v in (x, y))
            return TypedTerm(Call("cuda.selp", (condition.term, x.term, y.term)), x.dtype)
        return TypedTerm(Choice(condition.term, x.term, y.term), x.dtype)

    def _of_parts(self, name: str, x: TypedTerm, y: TypedTerm | None = None) -> TypedTerm:
        """Functions of complex numbers that need no function; of real numbers too."""
        assert x.dtype is not None
        if y is not None:
            x, y = self._alike(x, y)
            assert x.dtype is not None
            result = np.result_type(x.dtype, np.complex64)
            return TypedTerm(Call("complex", (x.term, y.term)), result)
        if x.dtype.kind == "c":
            if name == "conjugate":
                return self._function(name, [x])
            return TypedTerm(Part(x.term, name), np.dtype(_PARTS[x.dtype.name]))
        if name == "imag":
            return TypedTerm(_constant(0, x.dtype), x.dtype)
        return x

    def _function(self, name: str, values: list[TypedTerm]) -> TypedTerm:
        if name not in FUNCTIONS:
            raise InternalError(f"expressions: no function {name} in the kernel language")
        dtypes = tuple(v.dtype for v in values if v.dtype is not None)
        call = device_functions.call(name, dtypes)
        for needed in call.needs:
            self._need(needed)
        operands = tuple([self.cast(value, call.operand_dtype).term for value in values])
        return TypedTerm(Call(call.function, operands), call.result_dtype)

    # Casts.

    def _cast_to(self, value: TypedTerm, dtype: np.dtype) -> TypedTerm:
        """What `cast(value, dtype)` means."""
        if value.dtype is None:
            return TypedTerm(_constant(value.number, dtype), computed_in(dtype))
        if is_storage_only(dtype):
            if value.dtype.kind == "c":
                value = self._of_parts("real", value)
                assert value.dtype is not None
            function = device_functions.cast_function(value.dtype, dtype.name)
            if function:
                return TypedTerm(Call(self.call(function), (value.term,)), FLOAT32)
            stored = Call(dtype.name, (self.cast(value, FLOAT32).term,))
            return TypedTerm(Call("float32", (stored,)), FLOAT32)
        return self.cast(value, dtype)

    def _same_bits(self, value: TypedTerm, target: np.dtype) -> TypedTerm:
        assert value.dtype is not None
        signed = np.dtype(f"i{target.itemsize}")
        if value.dtype.kind == "f":
            function = "float_as_int" if target.itemsize == 4 else "double_as_longlong"
            own = TypedTerm(Call(f"libdevice.{function}", (value.term,)), signed)
            return self.cast(own, target)
        function = "int_as_float" if target.itemsize == 4 else "longlong_as_double"
        own = Call(f"libdevice.{function}", (self.cast(value, signed).term,))
        return self.cast(TypedTerm(own, np.dtype(f"f{target.itemsize}")), target)

    def cast(self, value: TypedTerm, target: np.dtype) -> TypedTerm:
        """NumPy's `astype`."""
        source = value.dtype
        if source is None:
            return TypedTerm(_constant(value.number, target), target)
        if source == target and not value.is_wide:
            return value
        function = device_functions.cast_function(source, target.name)
        if function:
            return TypedTerm(Call(self.call(function), (value.term,)), target)
        if target == BOOL:
            return TypedTerm(Operation("!=", (value.term, _constant(0, source))), BOOL)
        if target.kind == "c" and source.kind != "c":
            part = np.dtype(_PARTS[target.name])
            parts = (self.cast(value, part).term, _constant(0, part))
            return TypedTerm(Call("complex", parts), target)
        if source.kind == "c" and target.kind != "c":
            return self.cast(self._of_parts("real", value), target)
        return TypedTerm(Call(target.name, (value.term,)), target)


def _constant(value: object, dtype: np.dtype) -> Name:
    return Name(constant(value, dtype))


def _is_integer(value: TypedTerm) -> bool:
    return value.dtype is not None and value.dtype.kind in "iu"


def _grows(value: TypedTerm) -> bool:
    """Whether Numba's arithmetic of such values is in 64 bits, and theirs is not."""
    return value.dtype is not None and value.dtype.kind in "iu" and value.dtype.itemsize < 8
