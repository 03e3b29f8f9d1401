"""Comparison, logic, bits and divisors: the elementwise primitives without a derivative."""

import numpy as np

from numba_grad.ops.families import ALL, INTEGER, elementwise

BOOL_RESULT = "the result is bool"
INTEGERS_ONLY = "defined for integers and bools only"


# Complex numbers are ordered by real parts, then by imaginary parts; a NaN in either is unordered.


def _comparable(x: np.dtype, y: np.dtype) -> bool:
    """One dtype; or int64 with uint64, for which NumPy has exact loops."""
    return x == y or (x.kind in "iu" and y.kind in "iu" and x.itemsize == y.itemsize == 8)


equal = elementwise(
    "equal",
    expression="{x} == {y}",
    reference=np.equal,
    no_vjp=BOOL_RESULT,
    result="bool",
    dtypes=ALL,
    samples=((-2, 2), (-2, 2)),
    operand_dtypes=_comparable,
)

not_equal = elementwise(
    "not_equal",
    expression="{x} != {y}",
    reference=np.not_equal,
    no_vjp=BOOL_RESULT,
    result="bool",
    dtypes=ALL,
    samples=((-2, 2), (-2, 2)),
    operand_dtypes=_comparable,
)

less = elementwise(
    "less",
    expression="{x} < {y}",
    reference=np.less,
    no_vjp=BOOL_RESULT,
    result="bool",
    dtypes=ALL,
    samples=((-2, 2), (-2, 2)),
    operand_dtypes=_comparable,
)

less_equal = elementwise(
    "less_equal",
    expression="{x} <= {y}",
    reference=np.less_equal,
    no_vjp=BOOL_RESULT,
    result="bool",
    dtypes=ALL,
    samples=((-2, 2), (-2, 2)),
    operand_dtypes=_comparable,
)

greater = elementwise(
    "greater",
    expression="{x} > {y}",
    reference=np.greater,
    no_vjp=BOOL_RESULT,
    result="bool",
    dtypes=ALL,
    samples=((-2, 2), (-2, 2)),
    operand_dtypes=_comparable,
)

greater_equal = elementwise(
    "greater_equal",
    expression="{x} >= {y}",
    reference=np.greater_equal,
    no_vjp=BOOL_RESULT,
    result="bool",
    dtypes=ALL,
    samples=((-2, 2), (-2, 2)),
    operand_dtypes=_comparable,
)

isnan = elementwise(
    "isnan",
    expression="isnan({x})",
    reference=np.isnan,
    no_vjp=BOOL_RESULT,
    result="bool",
    dtypes=ALL,
    samples=((-3, 3),),
)

isinf = elementwise(
    "isinf",
    expression="isinf({x})",
    reference=np.isinf,
    no_vjp=BOOL_RESULT,
    result="bool",
    dtypes=ALL,
    samples=((-3, 3),),
)

isfinite = elementwise(
    "isfinite",
    expression="isfinite({x})",
    reference=np.isfinite,
    no_vjp=BOOL_RESULT,
    result="bool",
    dtypes=ALL,
    samples=((-3, 3),),
)


# Logic: of any dtype, where "true" means different from 0.

logical_and = elementwise(
    "logical_and",
    expression="logical_and({x}, {y})",
    reference=np.logical_and,
    no_vjp=BOOL_RESULT,
    result="bool",
    dtypes=ALL,
    samples=((-1, 1), (-1, 1)),
)

logical_or = elementwise(
    "logical_or",
    expression="logical_or({x}, {y})",
    reference=np.logical_or,
    no_vjp=BOOL_RESULT,
    result="bool",
    dtypes=ALL,
    samples=((-1, 1), (-1, 1)),
)

logical_xor = elementwise(
    "logical_xor",
    expression="logical_xor({x}, {y})",
    reference=np.logical_xor,
    no_vjp=BOOL_RESULT,
    result="bool",
    dtypes=ALL,
    samples=((-1, 1), (-1, 1)),
)

logical_not = elementwise(
    "logical_not",
    expression="logical_not({x})",
    reference=np.logical_not,
    no_vjp=BOOL_RESULT,
    result="bool",
    dtypes=ALL,
    samples=((-1, 1),),
)


# Bits.

bitwise_and = elementwise(
    "bitwise_and",
    expression="{x} & {y}",
    reference=np.bitwise_and,
    no_vjp=INTEGERS_ONLY,
    dtypes="?" + INTEGER,
    samples=((-100, 100), (-100, 100)),
)

bitwise_or = elementwise(
    "bitwise_or",
    expression="{x} | {y}",
    reference=np.bitwise_or,
    no_vjp=INTEGERS_ONLY,
    dtypes="?" + INTEGER,
    samples=((-100, 100), (-100, 100)),
)

bitwise_xor = elementwise(
    "bitwise_xor",
    expression="{x} ^ {y}",
    reference=np.bitwise_xor,
    no_vjp=INTEGERS_ONLY,
    dtypes="?" + INTEGER,
    samples=((-100, 100), (-100, 100)),
)

# Not "~{x}": Python inverts a bool as the integer 0 or 1.
invert = elementwise(
    "invert",
    expression="invert({x})",
    reference=np.invert,
    no_vjp=INTEGERS_ONLY,
    dtypes="?" + INTEGER,
    samples=((-100, 100),),
)

# Not "<<" and ">>": a shift by the width or more gives 0 (or -1) in NumPy, and anything in LLVM.
left_shift = elementwise(
    "left_shift",
    expression="left_shift({x}, {y})",
    reference=np.left_shift,
    no_vjp=INTEGERS_ONLY,
    dtypes=INTEGER,
    samples=((-100, 100), (0, 70)),
)

right_shift = elementwise(
    "right_shift",
    expression="right_shift({x}, {y})",
    reference=np.right_shift,
    no_vjp=INTEGERS_ONLY,
    dtypes=INTEGER,
    samples=((-100, 100), (0, 70)),
)

# Of the absolute value.
bitwise_count = elementwise(
    "bitwise_count",
    expression="bitwise_count({x})",
    reference=np.bitwise_count,
    no_vjp=INTEGERS_ONLY,
    dtypes=INTEGER,
    samples=((-100, 100),),
    result_dtype=lambda x: np.dtype(np.uint8),
)


# Divisors.

gcd = elementwise(
    "gcd",
    expression="gcd({x}, {y})",
    reference=np.gcd,
    no_vjp=INTEGERS_ONLY,
    dtypes=INTEGER,
    samples=((-100, 100), (-100, 100)),
    cost=100,
)

lcm = elementwise(
    "lcm",
    expression="lcm({x}, {y})",
    reference=np.lcm,
    no_vjp=INTEGERS_ONLY,
    dtypes=INTEGER,
    samples=((-100, 100), (-100, 100)),
    cost=120,
)
