"""Sums, extremes and their places, means and norms."""

import math
from collections.abc import Callable
from functools import partialmethod
from typing import Any

import numpy as np

from numba_grad.compiler.numba_functions.array_expressions.expressions import (
    Array,
    Indices,
    is_number,
    stored,
)
from numba_grad.compiler.numba_functions.array_expressions.new_arrays import NewArrays
from numba_grad.compiler.numba_functions.regions import Memory, Value
from numba_grad.compiler.numba_functions.scalar_operations import dtype_of


class Reductions(NewArrays):
    def _reduced(
        self, array: Any, axis: Any, start: Value, step: Callable[[Value, Value], Value | None]
    ) -> Any:
        """`step(former, element)` gives the next value; with None as former, what is added."""
        builder = self.builder
        part = self.expression(array)
        dtype = self._result_dtype()

        def into(memory: Memory, place: Indices, at: Indices) -> None:
            added = step(None, part.element(at))  # type: ignore[arg-type]
            if added is not None:
                builder.store(memory, place, added, is_added=True)
                return
            former = builder.load(memory, *place)
            value = step(former, part.element(at))
            assert value is not None
            builder.store(memory, place, value)

        axis = getattr(axis, "value", axis) if not is_number(axis) else axis
        if axis is None:
            total = builder.allocate("total", dtype)
            builder.store(total, (), start)
            with builder.elements(part.shape) as at:
                into(total, (), at)
            return builder.load(total)
        if not isinstance(axis, int):
            raise self.refused("a reduction along axes that are not constants")
        axis %= part.rank
        rest = (*part.shape[:axis], *part.shape[axis + 1 :])
        totals = builder.allocate("totals", dtype, rest)
        with builder.elements(rest) as at:
            builder.store(totals, at, start)
        with builder.elements(part.shape) as at:
            into(totals, (*at[:axis], *at[axis + 1 :]), at)
        return totals

    def _call_sum(self, array: Array, axis: Any = None) -> Any:
        zero: Value = 0.0 if self._result_dtype().startswith("float") else 0
        return self._reduced(array, axis, zero, lambda former, x: x)

    def _call_prod(self, array: Array, axis: Any = None) -> Any:
        one: Value = 1.0 if self._result_dtype().startswith("float") else 1

        def step(former: Value, x: Value) -> Value | None:
            return None if former is None else self._scalar("multiply", [former, x])

        return self._reduced(array, axis, one, step)

    def _call_mean(self, array: Array, axis: Any = None) -> Any:
        part = self.expression(array)
        total = self._call_sum(part, axis)
        define = self.builder.define
        axis = getattr(axis, "value", axis) if not is_number(axis) else axis
        count: Value = 1
        for length in part.shape if axis is None else (part.shape[axis],):
            count = define("multiply", count, length)
        if is_number(total):
            return self._scalar("divide", [total, count])
        return self.elementwise(
            [total], lambda v: self._scalar("divide", [v[0], count]), self._result_dtype()
        )

    def _extreme(self, start: float, name: str, array: Array, axis: Any = None) -> Any:
        dtype = self._result_dtype()
        first: Value = start
        if dtype == "bool":
            raise self.refused("the extreme of bools")
        if not dtype.startswith("float"):
            first = int(np.iinfo(dtype).min if start < 0 else np.iinfo(dtype).max)
        array = self.expression(array)
        self._require_elements(array.shape)

        def step(former: Value, x: Value) -> Value | None:
            if former is None:
                return None
            # NaN is the extreme of all that has one.
            taken = self.builder.define(name, x, former)
            if dtype.startswith("float"):
                is_nan = self.builder.define("not_equal", x, x)
                taken = self.builder.define("bitwise_or", taken, is_nan, dtype="bool")
            return self.builder.define("select", taken, x, former, dtype=dtype)

        return self._reduced(array, axis, first, step)

    _call_max = _call_amax = partialmethod(_extreme, -math.inf, "greater")
    _call_min = _call_amin = partialmethod(_extreme, math.inf, "less")

    def _require_elements(self, shape: Indices) -> None:
        for length in shape:
            is_there = length > 0 if isinstance(length, int) else None
            if is_there is None:
                is_there = self.builder.define("greater", length, 0)
            self.require(is_there, "the extreme of no elements", shape)

    def _place_of_extreme(self, name: str, array: Array) -> Value:
        builder = self.builder
        view = self.view(array)
        if view.rank != 1:
            raise self.refused("the place of the extreme of several axes")
        self._require_elements(view.shape)
        place = builder.allocate("place", "int64")
        builder.store(place, (), 0)
        with builder.loop(view.shape[0]) as index:
            best = builder.load_view(view, builder.load(place))
            value = builder.load_view(view, index)
            condition = builder.define(name, value, best)
            if view.dtype.startswith("float"):  # the first NaN is the extreme
                is_nan = builder.define("not_equal", value, value)
                was_number = builder.define("equal", best, best)
                is_first = builder.define("bitwise_and", is_nan, was_number, dtype="bool")
                condition = builder.define("bitwise_or", condition, is_first, dtype="bool")
            with builder.branch(condition):
                builder.store(place, (), index)
        return builder.load(place)

    _call_argmax = partialmethod(_place_of_extreme, "greater")
    _call_argmin = partialmethod(_place_of_extreme, "less")

    def _joined(self, name: str, start: bool, array: Array) -> Value:
        def step(former: Value, x: Value) -> Value | None:
            if former is None:
                return None
            if dtype_of(x) != "bool":
                x = self.builder.define("bool", x)
            return self.builder.define(name, former, x, dtype="bool")

        return self._reduced(array, None, start, step)

    _call_any = partialmethod(_joined, "bitwise_or", False)
    _call_all = partialmethod(_joined, "bitwise_and", True)

    def _call_allclose(self, x: Any, y: Any, *rest: Value, **keywords: Value) -> Any:
        near = self._call_isclose(x, y, *rest, **keywords)
        return near if is_number(near) else self._call_all(near)

    def _call_count_nonzero(self, array: Array) -> Value:
        is_not = lambda v: self.builder.define("not_equal", v[0], 0)  # noqa: E731
        part = self.elementwise([array], is_not, "bool")
        cast = lambda v: self.builder.define("cast", v[0], dtype="int64")  # noqa: E731
        return self._call_sum(self.elementwise([part], cast, "int64"))

    def _call_var(self, array: Array) -> Value:
        """The mean square of what is left after taking the mean away."""
        values = stored(self.translation, array)
        mean = self._call_mean(values)

        def square(v: list[Value]) -> Value:
            rest = self.builder.define("subtract", *v)
            return self.builder.define("multiply", rest, rest)

        return self._call_mean(self.elementwise([values, mean], square, self._result_dtype()))

    def _call_std(self, array: Array) -> Value:
        return self._scalar("sqrt", [self._call_var(array)])

    def _call_ptp(self, array: Array) -> Value:
        values = stored(self.translation, array)
        return self._scalar("subtract", [self._call_max(values), self._call_min(values)])

    def _call_norm(self, array: Array, order: Any = None) -> Value:
        part = self.expression(array)
        order = getattr(order, "value", order) if not is_number(order) else order
        if order is None or (order == 2 and part.rank == 1):
            define = self.builder.define
            square = self.elementwise([part], lambda v: define("multiply", v[0], v[0]), part.dtype)
            return self._scalar("sqrt", [self._call_sum(square)])
        sizes = self.elementwise([part], lambda v: self._scalar("absolute", v), part.dtype)
        if part.rank == 1 and order == math.inf:
            return self._call_max(sizes)
        if part.rank == 1 and order == -math.inf:
            return self._call_min(sizes)
        if part.rank == 1 and order == 1:
            return self._call_sum(sizes)
        if part.rank == 2 and isinstance(order, int | float) and abs(order) in (1, math.inf):
            sums = self._call_sum(sizes, 0 if abs(order) == 1 else 1)
            return self._call_max(sums) if order > 0 else self._call_min(sums)
        raise self.refused(f"np.linalg.norm of order {order}")
