"""Products of matrices and vectors."""

from typing import Any

from numba_grad.compiler.numba_functions.array_expressions.expressions import (
    Array,
    Expression,
    Indices,
    is_array,
)
from numba_grad.compiler.numba_functions.array_expressions.reductions import Reductions
from numba_grad.compiler.numba_functions.regions import Value


class Products(Reductions):
    def product(self, left: Array, right: Array) -> Any:
        """`left @ right`."""
        builder = self.builder
        if not (is_array(left) and is_array(right)):
            raise self.refused("a product of this")
        x, y = self.view(left), self.view(right)
        if x.rank > 2 or y.rank > 2 or not x.rank or not y.rank:
            raise self.refused("a product of arrays with more than two axes")
        dtype = self._result_dtype()
        multiply = lambda a, b: builder.define("multiply", a, b, dtype=dtype)  # noqa: E731
        problem = "shapes that do not fit a product"
        self.require_equal(problem, x.shape[-1], y.shape[0], x.shape, y.shape)
        if x.rank == y.rank == 1:
            part = self.elementwise([x, y], lambda v: multiply(*v), dtype)
            return self._call_sum(part)
        result = builder.allocate("product", dtype, (*x.shape[:-1], *y.shape[1:]), 0.0)
        if x.rank == 1:
            with builder.loop(x.shape[0]) as k:
                factor = builder.load_view(x, k)
                with builder.loop(y.shape[1]) as j:
                    value = multiply(factor, builder.load_view(y, k, j))
                    builder.store(result, (j,), value, is_added=True)
            return result
        with builder.loop(x.shape[0]) as i:
            if y.rank == 1:
                total = builder.allocate("total", dtype)
                builder.store(total, (), 0.0)
                with builder.loop(x.shape[1]) as k:
                    value = multiply(builder.load_view(x, i, k), builder.load_view(y, k))
                    builder.store(total, (), value, is_added=True)
                builder.store(result, (i,), builder.load(total))
                return result
            with builder.loop(x.shape[1]) as k:
                factor = builder.load_view(x, i, k)
                with builder.loop(y.shape[1]) as j:
                    value = multiply(factor, builder.load_view(y, k, j))
                    builder.store(result, (i, j), value, is_added=True)
        return result

    def _call_dot(self, left: Array, right: Array) -> Any:
        if not (is_array(left) and is_array(right)):
            return self._named("multiply", [left, right])
        return self.product(left, right)

    _call_vdot = _call_matmul = _call_dot

    def _call_outer(self, left: Array, right: Array) -> Expression:
        x, y = self.expression(left), self.expression(right)
        if x.rank != 1 or y.rank != 1:
            raise self.refused("np.outer of arrays with several axes")

        def of(at: Indices) -> Value:
            return self._scalar("multiply", [x.element(at[:1]), y.element(at[1:])])

        shape, reads = (*x.shape, *y.shape), (*x.reads, *y.reads)
        return Expression(shape, self._result_dtype(), of, reads, is_in_order=False)
