"""What code with arrays stands for, by who knows it."""

import inspect
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from numba_grad.compiler.numba_functions.array_expressions.expressions import (
    Array,
    Expression,
    Listed,
    Method,
    is_array,
    is_complex,
    stored,
)
from numba_grad.compiler.numba_functions.array_expressions.products import Products
from numba_grad.compiler.numba_functions.named_operations import operation_name
from numba_grad.compiler.numba_functions.scalar_operations import OPERATIONS


def lowered(translation: Any, what: str, numba_type: Any, request: tuple[Any, ...]) -> Any:
    """What code with arrays stands for.

    `what` is "operation" (function, meanings), "inplace" (function, array, variable), "item"
    (array, indices), "set_item" (array, indices, meaning), "attribute" (name, array), or "call"
    (meaning of the function, arguments, keywords); `numba_type` is the type of the result.
    """
    return getattr(_Lowering(translation, numba_type), what)(*request)


class _Lowering(Products):
    def operation(self, function: Any, meanings: Sequence[Any]) -> Any:
        if function is operator.matmul:
            return self.product(*meanings)
        name = operation_name(function)
        if function is operator.invert and self._result_dtype() == "bool":
            name = "not"
        if name is None:
            raise self.refused(f"`{getattr(function, '__name__', function)}` of arrays")
        return self._named(name, meanings)

    def of_elements(
        self, element: Callable[[list[Any]], Any], arguments: Sequence[Any], into: Sequence[Any]
    ) -> Any:
        dtype = self._result_dtype()
        cast = lambda values: self.builder.define("cast", element(values), dtype=dtype)  # noqa: E731
        result = self.elementwise(arguments, cast, dtype)
        if not into:
            return stored(self.translation, result)
        self._assign(self.view(into[0]), result, None)
        return into[0]

    def inplace(self, function: Any, left: Array, variable: Any) -> Any:
        value = self.translation.meaning(variable)
        left = stored(self.translation, left)  # of `a[places] += x`, a copy is written back
        if function is operator.matmul:
            value = self.product(left, value)
            function = None
        self._assign(self.view(left), value, function)
        return left

    def attribute(self, name: str, array: Array) -> Any:
        if isinstance(array, Expression):
            array = stored(self.translation, array)
        if name == "T":
            view = self.view(array)
            return self._permuted(view, tuple(reversed(range(view.rank))))
        if name in _METHODS:
            return Method(name, array)
        if name in ("real", "imag") and is_complex(array):
            return self._part(name, array)
        if name == "real":
            return array
        if name == "dtype":
            return self.translation.known(np.dtype(array.dtype))
        raise self.refused(f"the attribute `{name}` of an array")

    def call(self, function: Any, arguments: list[Any], keywords: dict[str, Any]) -> Any:
        if isinstance(function, Method):
            name, arguments = function.name, [function.array, *arguments]
        else:
            called = getattr(function, "value", None)
            name = getattr(called, "__name__", str(called))
            if name in ("real", "imag") and is_complex(arguments[0]):
                return self._part(name, arguments[0])
            operation = operation_name(called)
            if operation is not None and not keywords:
                count = len(OPERATIONS[operation].operands)
                if len(arguments) == count:
                    return self._named(operation, arguments)
                is_ufunc = isinstance(called, np.ufunc) and len(arguments) == count + 1
                if is_ufunc and is_array(arguments[-1]):
                    return self._into(operation, arguments)
            if not (getattr(called, "__module__", None) or "").startswith("numpy"):
                raise self.refused(f"a call of `{name}` with arrays")
        parts = [x for y in arguments for x in (y.items if isinstance(y, Listed) else [y])]
        if any(map(is_complex, parts)) and name not in _OF_COMPLEX:
            raise self.refused(f"`{name}` of complex numbers")
        handler = getattr(self, f"_call_{name}", None)
        if handler is None:
            raise self.refused(f"a call of `{name}`")
        try:
            inspect.signature(handler).bind(*arguments, **keywords)
        except TypeError:
            raise self.refused(f"a call of `{name}` with these arguments") from None
        return handler(*arguments, **keywords)


_METHODS = (
    *("any", "all", "std", "var", "reshape", "ravel", "flatten", "cumsum", "cumprod"),
    *("trace", "clip", "fill", "nonzero", "argsort", "repeat", "sort"),
    "copy",
    "sum",
    "prod",
    "mean",
    "max",
    "min",
    "argmax",
    "argmin",
    "dot",
    "astype",
    "transpose",
    "conj",
    "conjugate",
)
# What is right for complex arrays, too: no order, and no product with a conjugate in it.
_OF_COMPLEX = frozenset(
    (
        *("zeros_like", "empty_like", "ones_like", "full_like", "full", "fill", "copy", "array"),
        *("asarray", "ascontiguousarray", "astype", "reshape", "ravel", "flatten", "transpose"),
        *("flip", "flipud", "fliplr", "expand_dims", "concatenate", "stack", "hstack", "vstack"),
        *("column_stack", "where", "square", "reciprocal", "conj", "conjugate", "sum", "prod"),
        *("mean", "any", "all", "count_nonzero", "dot", "matmul", "outer"),
    )
)
