"""Powers, without a call of pow where there is a better way: products, roots, reciprocals."""

import functools
from typing import TYPE_CHECKING

import numpy as np

from numba_grad.autograd.tensor_class import is_tensor
from numba_grad.errors import explain
from numba_grad.frontend.inputs.arrays import WEAK, ArrayLike, as_node, operands, scalar_leaf, wrap
from numba_grad.frontend.inputs.selections import Selection
from numba_grad.frontend.inputs.tracing import values_asked_for
from numba_grad.graph.node import OPS, Node, SharedParams, leaf, record
from numba_grad.graph.types import CPU
from numba_grad.ops.elementwise import MOST_EXPANDED
from numba_grad.ops.families import broadcast_to, cast, full, loop_dtypes, reshape
from numba_grad.ops.functions import half_integer_power

if TYPE_CHECKING:
    from numba_grad.frontend.tensors.tensor import Tensor

__all__ = ["float_power", "pow", "power"]

# Static exponents up to this one are multiplied out; the error of that grows with the exponent.
LARGEST_MULTIPLIED_EXPONENT = 32
# Of multiples of one half: pow takes four times as long as a root and few products, whose error is
# 3 units in the last place at most.
LARGEST_EXPONENT_WITH_ROOT = 3.5
# Of an array of exponents, which are looked at when they are recorded, and compared at each call.
_MOST_EXPONENTS = 1 << 10


def power(x1: ArrayLike, x2: ArrayLike, /) -> "Tensor":
    """x1 to the power x2.

    Raises
    ------
    ValueError
        For integers to a negative integer power.

    Notes
    -----
    A Python number as exponent is part of the graph if it is an integer of at most 32, or of real
    x a multiple of one half of at most 3.5, as -1.5: products and square roots are used then. The
    gradient of x**0 is 0, also at 0.
    """
    for given in (x1, x2):
        if isinstance(given, Selection):
            return given.called(power, (x1, x2), {})
    if x2.__class__ is int and is_tensor(x1) and x1.dtype.kind == "b":
        # Only the operator has NumPy's shortcut for squares.
        x1 = cast(as_node(x1), loop_dtypes(np.power, (x1.dtype, int))[0])
    return wrap(power_node(x1, x2))


pow = power


def float_power(x1: ArrayLike, x2: ArrayLike, /) -> "Tensor":
    """x1 to the power x2, computed in float64 or complex128."""
    return wrap(OPS["power"](*operands(np.float_power, (x1, x2))))


of_ufunc = {np.power: power, np.float_power: float_power}


def power_node(x1: ArrayLike, x2: ArrayLike) -> Node:
    """`x1 ** x2`, as a node."""
    if x2.__class__ in (int, float) and x1.__class__ not in WEAK:
        node = _power_of_number(as_node(x1), x2)
        if node is not None:
            return node
    base, exponent = operands(np.power, (x1, x2))
    if isinstance(x2, np.ndarray) and not isinstance(x1, np.ndarray):
        exponents = _small_exponents(x2)
        if exponents is not None and base.dtype.kind in "fc" and base.type.device == CPU:
            values_asked_for(as_node(x2))
            table = _table_of_powers(base, exponents)
            return _powers_by_bits(base, exponents) if table is None else table
    return OPS["power"](base, exponent)


def _power_of_number(x: Node, exponent: float) -> Node | None:
    """`x` to a Python number, without a call of pow; None where there is no better way."""
    if exponent == 2 and exponent.__class__ is int:
        dtype = loop_dtypes(np.square, (x.type.dtype,))[0]  # NumPy's shortcut: int8 for bool
        if dtype.kind in "fc":
            return record(OPS["square"], (cast(x, dtype),))
    else:
        dtype = loop_dtypes(np.power, (x.dtype, exponent.__class__))[0]
    base = cast(x, dtype)
    if base.dtype.kind in "iu":
        if exponent < 0:
            raise ValueError(
                explain(
                    "power",
                    "integers to negative integer powers are not allowed",
                    got={"x": x.type, "exponent": exponent},
                    fix="x.astype(float) ** exponent",
                )
            )
        scalar_leaf(exponent, dtype)  # raises OverflowError, as in NumPy
    elif exponent == 0.5:
        return OPS["sqrt"](base)
    elif _is_half_integer(exponent) and base.dtype.char in "efd":
        return half_integer_power(base, exponent)
    elif exponent == -1:
        return OPS["reciprocal"](base)
    elif not _is_multiplied(exponent):
        return None
    return _integer_power(base, int(exponent))


def _small_exponents(exponents: np.ndarray) -> np.ndarray | None:
    """As integers, if all are, and none is negative or large."""
    if exponents.dtype.kind not in "iuf" or not 1 < exponents.size <= _MOST_EXPONENTS:
        return None
    if not ((exponents >= 0) & (exponents <= MOST_EXPANDED)).all():
        return None
    whole = exponents.astype(np.int64)
    return whole if (whole == exponents).all() else None


def _table_of_powers(x: Node, exponents: np.ndarray) -> Node | None:
    """`x[:, None] ** np.arange(4)`, column by column; None if `x` has such columns, too."""
    rank = max(len(x.shape), exponents.ndim)
    shape = (1,) * (rank - len(x.shape)) + x.shape
    sizes = (1,) * (rank - exponents.ndim) + exponents.shape
    long = [axis for axis in range(rank) if sizes[axis] > 1]
    if len(long) > 1 or shape[long[0]] > 1 or exponents.size > MOST_EXPANDED:
        return None
    base = reshape(x, shape)
    powers = [_integer_power(base, k) for k in exponents.reshape(-1).tolist()]
    return OPS["concatenate"](*powers, axis=long[0])


def _powers_by_bits(x: Node, exponents: np.ndarray) -> Node:
    """Products of x, its square, the square of that, as for a number. What is not multiplied is a 1
    before it is squared, so that nothing overflows on the way."""
    one = full(1, (), x.dtype)
    factors = []
    for power in [1 << k for k in range(MOST_EXPANDED.bit_length())]:
        chosen = exponents & power > 0
        if chosen.any():
            factor = OPS["where"](leaf(np.ascontiguousarray(chosen)), x, one)
            factors.append(factor if power == 1 else _integer_power(factor, power))
    if not factors:
        return broadcast_to(one, np.broadcast_shapes(x.shape, exponents.shape))
    return functools.reduce(OPS["multiply"], factors)


def _integer_power(x: Node, exponent: int) -> Node:
    if exponent == 2:
        return OPS["square"](x)
    return record(OPS["integer_power"], (x,), _exponent_params(exponent))


@functools.lru_cache(maxsize=1 << 8)
def _exponent_params(exponent: int) -> SharedParams:
    return SharedParams(exponent=exponent)


def _is_multiplied(exponent: float) -> bool:
    limit = LARGEST_MULTIPLIED_EXPONENT
    return -limit <= exponent <= limit and exponent == int(exponent)


def _is_half_integer(exponent: float) -> bool:
    limit = LARGEST_EXPONENT_WITH_ROOT
    return -limit <= exponent <= limit and (2 * exponent) % 2 == 1
