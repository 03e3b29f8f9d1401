"""Constants, operators and attributes."""

# Numba's annotations are few, and wrong where they come from class attributes set at run time.
# pyright: reportAttributeAccessIssue=false, reportPrivateImportUsage=false

import inspect
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from numba.core import ir

from numba_grad.compiler.numba_functions import kernel_names
from numba_grad.compiler.numba_functions.array_expressions.expressions import (
    Array,
    Expression,
    Method,
    stored,
)
from numba_grad.compiler.numba_functions.array_expressions.lowering import lowered
from numba_grad.compiler.numba_functions.named_operations import BINARY, UNARY
from numba_grad.compiler.numba_functions.numba_ir.assignments import Assignments
from numba_grad.compiler.numba_functions.numba_ir.meanings import Flat, Known, Meaning, NumberList
from numba_grad.compiler.numba_functions.numba_ir.type_inference import dtype_name
from numba_grad.compiler.numba_functions.regions import Memory, Scalar, Statement, Value, View
from numba_grad.compiler.numba_functions.scalar_operations import dtype_of

_MOST_CONSTANTS = 1000  # elements of a global array


class Expressions(Assignments):
    """Each kind of expression has a method `_on_` of that name."""

    def _meaning_of(self, target: Any, value: Any) -> Meaning:
        if isinstance(value, ir.Arg):
            return self._argument(target, value)
        if isinstance(value, ir.Const):
            return self._constant(value.value)
        if isinstance(value, ir.Global | ir.FreeVar):
            return self._constant(value.value)
        if isinstance(value, ir.Var):
            return self.meaning(value)
        if isinstance(value, ir.Expr):
            return self._expression(target, value)
        raise self.refused(f"`{value}`")

    def _argument(self, target: Any, value: Any) -> Meaning:
        meaning = self._arguments[value.index]
        numba_type = self.code.type_of(target)
        if isinstance(meaning, Scalar | bool | int | float):
            return self.builder.define("cast", meaning, dtype=dtype_name(numba_type))
        return meaning

    def _constant(self, value: Any) -> Meaning:
        if isinstance(value, bool | int | float):
            return value
        if isinstance(value, np.bool_ | np.integer | np.floating):
            if isinstance(value, np.float32):  # pyright: ignore
                return self.builder.define("cast", float(value), dtype="float32")
            return value.item()
        if isinstance(value, complex | np.generic) and np.iscomplexobj(value):
            dtype = str(getattr(value, "dtype", "complex128"))
            parts = float(value.real), float(value.imag)
            return self.builder.define("complex", *parts, dtype=dtype)
        if type(value) is tuple:
            return tuple(map(self._constant, value))
        if isinstance(value, np.ndarray):
            return self._constant_array(value)
        return Known(value)

    def _constant_array(self, array: np.ndarray) -> Memory:
        """A global array: its elements are a part of the text, as in Numba."""
        if array.size > _MOST_CONSTANTS or array.dtype.kind not in "biufc" or not array.ndim:
            what = f"a global array of {array.dtype} and shape {array.shape}"
            raise self.refused(what, instead="an argument in its place; or ")
        key = id(array)
        if key not in self._constants:
            region: list[Statement] = []
            with self.builder.region(region):
                memory = self.builder.allocate("constant", str(array.dtype), array.shape)
                for place in np.ndindex(array.shape):
                    self.builder.store(memory, place, self._constant(array[place].item()))
            body, start = self._start
            body[start:start] = region
            self._constants[key] = memory
        return self._constants[key]

    def _expression(self, target: Any, expression: Any) -> Meaning:
        operation = expression.op
        handler = getattr(self, f"_on_{operation}", None)
        if handler is None:
            raise self.refused(f"`{operation}`")
        return handler(target, expression)

    def _on_cast(self, target: Any, expression: Any) -> Meaning:
        meaning: Any = self.meaning(expression.value)
        if isinstance(meaning, Scalar | bool | int | float):
            return self.builder.define("cast", meaning, dtype=dtype_name(self.code.type_of(target)))
        return meaning

    def _on_binop(self, target: Any, expression: Any) -> Meaning:
        return self._operation(target, expression.fn, [expression.lhs, expression.rhs])

    def _on_inplace_binop(self, target: Any, expression: Any) -> Meaning:
        left = self.meaning(expression.lhs)
        if isinstance(left, Memory | View | Expression):
            return self.array("inplace", target, (expression.immutable_fn, left, expression.rhs))
        return self._operation(target, expression.immutable_fn, [expression.lhs, expression.rhs])

    def _on_unary(self, target: Any, expression: Any) -> Meaning:
        return self._operation(target, expression.fn, [expression.value])

    def _operation(self, target: Any, function: Any, variables: Sequence[Any]) -> Meaning:
        meanings = [self.meaning(v) for v in variables]
        is_same = function in (operator.eq, operator.is_)
        if is_same or function in (operator.ne, operator.is_not):
            found = self._are_same(*meanings)
            if found is not None:
                return found if is_same else self.builder.define("not", found)
        if any(isinstance(m, Memory | View | Expression) for m in meanings):
            return self.array("operation", target, (function, meanings))
        if all(isinstance(m, tuple) for m in meanings) and function is operator.add:
            return meanings[0] + meanings[1]
        if function is operator.contains and isinstance(meanings[0], tuple):
            return self._is_in(*meanings)
        for m in meanings:
            if not isinstance(m, Scalar | bool | int | float):
                raise self.refused(f"`{getattr(function, '__name__', function)}` of this")
        name = BINARY.get(function) or UNARY.get(function)
        if function is operator.invert:
            if dtype_of(meanings[0]) != "bool":
                return self.scalar_operation(
                    "bitwise_xor", [*meanings, -1], self.code.type_of(target)
                )
            name = "not"
        if name is None:
            raise self.refused(f"`{getattr(function, '__name__', function)}`")
        return self.scalar_operation(name, meanings, self.code.type_of(target))

    def _are_same(self, a: Meaning, b: Meaning) -> Value | None:
        """Whether tuples, or things known while compiling, are equal; None of others."""
        if isinstance(a, Known) and isinstance(b, Known):
            return bool(a.value == b.value)
        if any(isinstance(m, Known) and m.value is None for m in (a, b)):
            return False
        if not isinstance(a, tuple) or not isinstance(b, tuple):
            return None
        if len(a) != len(b):
            return False
        result: Value = True
        for first, second in zip(a, b, strict=True):
            part = self._are_same(first, second)
            if part is None:
                if not all(isinstance(m, Scalar | bool | int | float) for m in (first, second)):
                    raise self.refused("a comparison of tuples with such parts")
                part = self.builder.define("equal", first, second)
            result = self.builder.define("bitwise_and", result, part, dtype="bool")
        return result

    def _is_in(self, parts: tuple[Meaning, ...], value: Meaning) -> Value:
        """`value in (1, 2)`."""
        if not all(isinstance(m, Scalar | bool | int | float) for m in (*parts, value)):
            raise self.refused("`in` of this")
        result: Value = False
        for part in parts:
            is_equal = self.builder.define("equal", value, part)
            result = self.builder.define("bitwise_or", result, is_equal, dtype="bool")
        return result

    def scalar_operation(self, name: str, values: Sequence[Value], numba_type: Any) -> Value:
        """Of scalars, with a result of this type."""
        try:
            dtype = dtype_name(numba_type)
        except TypeError:
            raise self.refused(f"a value of type {numba_type}") from None
        result = self.builder.define(name, *values, dtype=dtype)
        return result

    def _on_build_tuple(self, target: Any, expression: Any) -> Meaning:
        return tuple([self._stored(self.meaning(item)) for item in expression.items])

    def _stored(self, meaning: Meaning) -> Meaning:
        """What may be looked at later: an expression is computed now."""
        if isinstance(meaning, Expression):
            return stored(self, meaning)
        return meaning

    def _on_getattr(self, target: Any, expression: Any) -> Meaning:
        found, name = self.meaning(expression.value), expression.attr
        if isinstance(found, Memory | View | Expression):
            return self._attribute_of_array(target, name, found)
        if isinstance(found, NumberList):
            return Method(name, found)
        if isinstance(found, Scalar | bool | int | float):
            return self._attribute_of_number(target, name, found)
        if isinstance(found, tuple):
            return self._field(found, name, expression)
        if isinstance(found, Known):
            if isinstance(found.value, kernel_names.Dim3):
                return self.builder.define(found.value.operation(name))
            if inspect.ismodule(found.value) or isinstance(found.value, type):
                return self._constant(getattr(found.value, name))
            raise self.refused(f"the attribute `{name}`")
        raise self.refused(f"the attribute `{name}`")

    def _field(self, parts: tuple[Meaning, ...], name: str, expression: Any) -> Meaning:
        """Of a named tuple or a record."""
        fields = list(getattr(self.code.type_of(expression.value), "fields", ()))
        if name not in fields:
            raise self.refused(f"the attribute `{name}`")
        return parts[fields.index(name)]

    def _attribute_of_array(self, target: Any, name: str, found: Array) -> Meaning:
        if name == "shape":
            return self.shape(found)
        if name == "ndim":
            return found.rank
        if name == "size":
            result: Value = 1
            for length in self.shape(found):
                result = self.builder.define("multiply", result, length)
            return result
        if name == "flat":
            return Flat(self._stored(found))
        return self.array("attribute", target, (name, found))

    def _attribute_of_number(self, target: Any, name: str, number: Value) -> Meaning:
        if name in ("real", "imag"):
            return self.scalar_operation(name, [number], self.code.type_of(target))
        if name in ("conjugate", "conj"):
            return Method("conjugate", number)
        raise self.refused(f"the attribute `{name}`")

    def array(self, what: str, target: Any, request: tuple[Any, ...]) -> Meaning:
        """What code with arrays stands for: by `array_expressions`."""
        numba_type = None if target is None else self.code.type_of(target)
        result = lowered(self, what, numba_type, request)
        if isinstance(result, Expression) and not self.code.is_used_at_once(target, self._block):
            return stored(self, result)
        return result
