"""NumPy's functions of one element, that are not operations themselves."""

import math
from dataclasses import replace
from functools import partialmethod
from typing import Any

import numpy as np

from numba_grad.compiler.numba_functions.array_expressions.expressions import (
    Array,
    Expression,
    is_array,
    is_number,
)
from numba_grad.compiler.numba_functions.array_expressions.indexing import Indexing
from numba_grad.compiler.numba_functions.regions import Value
from numba_grad.compiler.numba_functions.scalar_operations import dtype_of, part_dtype


class ElementwiseFunctions(Indexing):
    def _part(self, name: str, array: Array) -> Expression:
        """The real or the imaginary parts of a complex array."""
        dtype = part_dtype(array.dtype)
        part = self.elementwise(
            [array], lambda values: self.builder.define(name, *values, dtype=dtype), dtype
        )
        return replace(part, is_view=True)

    def _call_astype(self, array: Array, dtype: Any) -> Expression:
        name = self._result_dtype()
        cast = lambda values: self.builder.define("cast", values[0], dtype=name)  # noqa: E731
        return self.elementwise([array], cast, name)

    def _call_around(self, x: Any, digits: Any = 0, out: Any = None) -> Any:
        if not isinstance(digits, int) or not self._result_dtype().startswith("float"):
            raise self.refused("np.around to a number of digits that is not a constant")
        power = 10.0 ** abs(digits)
        there, back = ("multiply", "divide") if digits >= 0 else ("divide", "multiply")

        def rounded(v: list[Value]) -> Value:
            whole = self._scalar("rint", [self._scalar(there, [v[0], power])])
            return self._scalar(back, [whole, power])

        if is_array(out):
            self._assign(self.view(out), self._each([x], rounded), None)
            return out
        return self._each([x], rounded)

    _call_round = _call_around

    def _call_square(self, x: Any) -> Any:
        return self._each([x], lambda v: self._scalar("multiply", [v[0], v[0]]))

    def _call_clip(self, x: Any, least: Any, most: Any) -> Any:
        bounds = {"maximum": least, "minimum": most}
        given = {k: y for k, y in bounds.items() if is_number(y) or is_array(y)}

        def clipped(v: list[Value]) -> Value:
            result = v[0]
            for name, bound in zip(given, v[1:], strict=True):
                result = self._scalar(name, [result, bound])
            return result

        return self._each([x, *given.values()], clipped)

    def _but_nan(self, name: str, x: Any, y: Any) -> Any:
        """Of two numbers, the other one of NaN."""

        def element(values: list[Value]) -> Value:
            x, y = values
            both = self._scalar(name, values)
            either = self._scalar("select", [self.builder.define("isnan", y), x, both])
            return self._scalar("select", [self.builder.define("isnan", x), y, either])

        return self._each([x, y], element)

    _call_fmin = partialmethod(_but_nan, "minimum")
    _call_fmax = partialmethod(_but_nan, "maximum")

    def _call_nan_to_num(self, x: Any, copy: Any = True, nan: Any = 0.0) -> Any:
        if copy is not True or not is_number(nan):
            raise self.refused("np.nan_to_num in place")
        if not self._result_dtype().startswith("float"):
            return x
        limits = np.finfo(self._result_dtype())

        def finite(v: list[Value]) -> Value:
            (value,) = v
            define = self.builder.define
            for limit in (float(limits.min), float(limits.max)):
                is_beyond = define("less" if limit < 0 else "greater", value, limit)
                value = self._scalar("select", [is_beyond, limit, value])
            return self._scalar("select", [define("isnan", v[0]), nan, value])

        return self._each([x], finite)

    def _call_sinc(self, x: Any) -> Any:
        def of(v: list[Value]) -> Value:
            define = self.builder.define
            angle = define("multiply", v[0], math.pi)
            is_small = define("less", define("absolute", angle), 0.02)
            other = define("select", is_small, 1.0, angle)
            square = define("multiply", angle, angle)
            near: Value = 1.0  # its series, to rounding
            for k in (8, 6, 4, 2):
                term = define("multiply", define("divide", square, k * (k + 1.0)), near)
                near = define("subtract", 1.0, term)
            value = define("select", is_small, near, define("divide", define("sin", other), other))
            return define("cast", value, dtype=self._result_dtype())

        return self._each([x], of)

    def _of_bools(self, name: str, x: Any, y: Any) -> Any:
        def element(values: list[Value]) -> Value:
            bools = [v if dtype_of(v) == "bool" else self.builder.define("bool", v) for v in values]
            return self.builder.define(name, *bools, dtype="bool")

        return self._each([x, y], element)

    _call_logical_and = partialmethod(_of_bools, "bitwise_and")
    _call_logical_or = partialmethod(_of_bools, "bitwise_or")
    _call_logical_xor = partialmethod(_of_bools, "bitwise_xor")

    def _call_conjugate(self, x: Any) -> Any:
        return self._each([x], lambda v: self._scalar("conjugate", v))

    _call_conj = _call_conjugate

    def _call_reciprocal(self, x: Any) -> Any:
        dtype = self._result_dtype()

        def of(v: list[Value]) -> Value:
            return self.builder.define(
                "cast", self.builder.define("divide", 1.0, v[0]), dtype=dtype
            )

        return self._each([x], of)

    def _call_isclose(
        self, x: Any, y: Any, rtol: Value = 1e-05, atol: Value = 1e-08, equal_nan: Any = False
    ) -> Any:
        if equal_nan is not False:
            raise self.refused("np.isclose that takes NaN for equal")
        define = self.builder.define

        def of(v: list[Value]) -> Value:
            distance = define("absolute", define("subtract", *v))
            most = define("add", atol, define("multiply", rtol, define("absolute", v[1])))
            is_near = define("less_equal", distance, most)
            is_near = define("bitwise_and", is_near, define("isfinite", v[1]), dtype="bool")
            return define("bitwise_or", is_near, define("equal", *v), dtype="bool")

        if is_number(x) and is_number(y):
            return of([x, y])
        return self.elementwise([x, y], of, "bool")

    def _call_where(self, condition: Any, a: Any, b: Any) -> Expression:
        dtype = self._result_dtype()
        return self.elementwise(
            [condition, a, b],
            lambda values: self.builder.define("select", *values, dtype=dtype),
            dtype,
        )
