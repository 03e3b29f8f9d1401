"""Comparison, logic, bits and divisors: the elementwise primitives without a derivative."""

from collections.abc import Callable

import numpy as np

from numba_grad.graph.node import Op
from numba_grad.ops.families import ALL, INTEGER, elementwise

# Comparisons. Complex numbers are ordered by real parts, then by imaginary parts; a NaN in either
# is unordered.


def _comparable(x: np.dtype, y: np.dtype) -> bool:
    """One dtype; or int64 with uint64, for which NumPy has exact loops."""
    return x == y or (x.kind in "iu" and y.kind in "iu" and x.itemsize == y.itemsize == 8)


def _comparison(name: str, operator: str) -> Op:
    return elementwise(
        name,
        expression=f"{{x}} {operator} {{y}}",
        result="bool",
        dtypes=ALL,
        samples=((-2, 2), (-2, 2)),
        operand_dtypes=_comparable,
    )


equal = _comparison("equal", "==")
not_equal = _comparison("not_equal", "!=")
less = _comparison("less", "<")
less_equal = _comparison("less_equal", "<=")
greater = _comparison("greater", ">")
greater_equal = _comparison("greater_equal", ">=")

isnan = elementwise("isnan", result="bool", dtypes=ALL, samples=((-3, 3),))
isinf = elementwise("isinf", result="bool", dtypes=ALL, samples=((-3, 3),))
isfinite = elementwise("isfinite", result="bool", dtypes=ALL, samples=((-3, 3),))


# Logic: of any dtype, where "true" means different from 0.

_TRUTH = (-1, 1)
logical_and = elementwise("logical_and", result="bool", dtypes=ALL, samples=(_TRUTH, _TRUTH))
logical_or = elementwise("logical_or", result="bool", dtypes=ALL, samples=(_TRUTH, _TRUTH))
logical_xor = elementwise("logical_xor", result="bool", dtypes=ALL, samples=(_TRUTH, _TRUTH))
logical_not = elementwise("logical_not", result="bool", dtypes=ALL, samples=(_TRUTH,))


# Bits, and divisors.


def _of_integers(
    name: str,
    expression: str = "",
    *,
    inputs: int = 2,
    dtypes: str = INTEGER,
    cost: int = 1,
    last: tuple[float, float] = (-100, 100),
    result_dtype: Callable[..., np.dtype] | None = None,
) -> Op:
    """`last`: where the tests draw the last input."""
    return elementwise(
        name,
        expression=expression,
        no_vjp="defined for integers and bools only",
        dtypes=dtypes,
        samples=((-100, 100),) * (inputs - 1) + (last,),
        cost=cost,
        result_dtype=result_dtype,
    )


bitwise_and = _of_integers("bitwise_and", "{x} & {y}", dtypes="?" + INTEGER)
bitwise_or = _of_integers("bitwise_or", "{x} | {y}", dtypes="?" + INTEGER)
bitwise_xor = _of_integers("bitwise_xor", "{x} ^ {y}", dtypes="?" + INTEGER)
# Not "~{x}": Python inverts a bool as the integer 0 or 1.
invert = _of_integers("invert", inputs=1, dtypes="?" + INTEGER)
# Not "<<" and ">>": a shift by the width or more gives 0 (or -1) in NumPy, and anything in LLVM.
left_shift = _of_integers("left_shift", last=(0, 70))
right_shift = _of_integers("right_shift", last=(0, 70))
# Of the absolute value.
bitwise_count = _of_integers("bitwise_count", inputs=1, result_dtype=lambda x: np.dtype(np.uint8))
gcd = _of_integers("gcd", cost=100)
lcm = _of_integers("lcm", cost=120)
