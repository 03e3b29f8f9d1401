"""Reductions: sum, product, extremes, any and all over axes, and the positions of extremes.

The result has the input's dtype: the frontend casts small integers and bools before a sum, and
everything to bool before `any` and `all`, as NumPy does. The names hide Python's own in this file.
"""

from collections.abc import Sequence

import numpy as np

from numba_grad.graph.node import Node, Op, record
from numba_grad.ops.elementwise import conjugated, is_zero, where
from numba_grad.ops.families import (
    ALL,
    INTEGER,
    NUMERIC,
    cast,
    expand_reduced,
    linear,
    literal,
    position_reduction,
    reduction,
)
from numba_grad.ops.logic import equal, isfinite, isinf, less, logical_and

Axes = tuple[int, ...]


sum = reduction(
    "sum",
    identity=lambda dtype: dtype.type(0),
    combine="reduce_add({accumulator}, {value})",
    reference=lambda x, axes: np.add.reduce(x, axis=axes, dtype=x.dtype),
    vjp=(lambda g, out, x, axes: expand_reduced(g, x.shape, axes),),
    dtypes=NUMERIC,
    saves=(),
    jvp=linear,
)


def _product_of_others(x: Node, axes: Axes) -> Node:
    """For each element, the product of all others: exact with zeros, and so is its own derivative.

    With p the product of the elements that are not 0, and s the sum of those that are (which is 0,
    but has a derivative):

        zeros    others of a nonzero x    others of a zero
        none     p / x
        one      (p / x) * s              p
        two      0                        p * (s - x), as s - x is the other zero
        more     0                        0

    With infinities and zeros it is PyTorch's: beside one zero, p / x of the only infinity is taken
    for 1, and two zeros make 0.

    Third derivatives would also need the product of two zeros, and are wrong where there are zeros.
    """
    zero = literal(0, x.dtype)
    at_zero = is_zero(x)
    count = expand_reduced(sum(cast(at_zero, np.dtype(np.int64)), axes=axes), x.shape, axes)
    nonzero = where(at_zero, literal(1, x.dtype), x)
    p = expand_reduced(prod(nonzero, axes=axes), x.shape, axes)
    s = expand_reduced(sum(where(at_zero, x, zero), axes=axes), x.shape, axes)
    infinite = isinf(x)
    infinities = expand_reduced(sum(cast(infinite, count.dtype), axes=axes), x.shape, axes)
    integer = count.dtype
    one = literal(1, integer)
    is_only_infinity = logical_and(infinite, equal(infinities, one))
    others = p / nonzero
    beside_zero = where(is_only_infinity, literal(1, x.dtype), others)
    none = equal(count, literal(0, integer))
    few = less(count, literal(2, integer))
    pair = less(count, literal(3, integer))
    other_zero = where(isfinite(p), p * (s - x), zero)
    of_zero = where(few, p, where(pair, other_zero, zero))
    of_nonzero = where(none, others, where(few, beside_zero * s, zero))
    return where(at_zero, of_zero, of_nonzero)


prod = reduction(
    "prod",
    identity=lambda dtype: dtype.type(1),
    combine="reduce_multiply({accumulator}, {value})",
    reference=lambda x, axes: np.multiply.reduce(x, axis=axes, dtype=x.dtype),
    vjp=(
        lambda g, out, x, axes: (
            expand_reduced(g, x.shape, axes) * conjugated(_product_of_others(x, axes))
        ),
    ),
    dtypes=NUMERIC,
    jvp=lambda tangents, out, x, axes: sum(tangents[0] * _product_of_others(x, axes), axes=axes),
)


def _is_extreme(out: Node, x: Node, axes: Axes) -> Node:
    """Where `x` has its extreme, which is found again where `x` will be computed again: an earlier
    program, which gave `out`, may have rounded `x` otherwise."""
    if out.value is not None and x.value is None:
        out = record(out.op, (x,), out.params)
    return equal(x, expand_reduced(out, x.shape, axes))


def _extreme_vjp(g: Node, out: Node, x: Node, axes: Axes) -> Node:
    """Shared evenly by all elements that equal the extreme; NaN where that is: 0 * (g / 0)."""
    is_extreme = cast(_is_extreme(out, x, axes), g.dtype)
    share = g / sum(is_extreme, axes=axes)
    return expand_reduced(share, x.shape, axes) * is_extreme


def _extreme_jvp(tangents: Sequence[Node], out: Node, x: Node, axes: Axes) -> Node:
    """The mean of the tangents of all elements that equal the extreme; NaN where that is."""
    is_extreme = _is_extreme(out, x, axes)
    chosen = where(is_extreme, tangents[0], literal(0, x.dtype))
    return sum(chosen, axes=axes) / sum(cast(is_extreme, x.dtype), axes=axes)


def _extreme(name: str, ufunc: np.ufunc) -> Op:
    return reduction(
        name,
        identity=None,
        combine=f"reduce_{ufunc.__name__}({{accumulator}}, {{value}})",
        reference=lambda x, axes: ufunc.reduce(x, axis=axes),
        vjp=(_extreme_vjp,),
        dtypes=ALL,
        saves=("inputs", "out"),
        jvp=_extreme_jvp,
    )


max, min = _extreme("max", np.maximum), _extreme("min", np.minimum)

any = reduction(
    "any",
    identity=lambda dtype: False,
    combine="{accumulator} | {value}",
    reference=lambda x, axes: np.logical_or.reduce(x, axis=axes),
    no_vjp="the result is bool",
    dtypes="?",
)

all = reduction(
    "all",
    identity=lambda dtype: True,
    combine="{accumulator} & {value}",
    reference=lambda x, axes: np.logical_and.reduce(x, axis=axes),
    no_vjp="the result is bool",
    dtypes="?",
)


def _of_integers(ufunc: np.ufunc, identity: int, combine: str) -> Op:
    """The reduction of a ufunc of integers."""

    def reference(x: np.ndarray, axes: Axes) -> np.ndarray:
        start = np.array(identity).astype(x.dtype)
        for axis in reversed(axes):  # NumPy takes several only of some
            # Of one element the result is that element, not the absolute value of it, for gcd.
            x = x.take(0, axis) if x.shape[axis] == 1 else ufunc.reduce(x, axis, initial=start)
        return np.asarray(x)

    return reduction(
        f"{ufunc.__name__}_reduce",
        identity=lambda dtype: np.array(identity).astype(dtype)[()],
        combine=combine,
        reference=reference,
        no_vjp="the result is an integer",
        dtypes=INTEGER,
    )


bitwise_and_reduce = _of_integers(np.bitwise_and, -1, "{accumulator} & {value}")
bitwise_or_reduce = _of_integers(np.bitwise_or, 0, "{accumulator} | {value}")
bitwise_xor_reduce = _of_integers(np.bitwise_xor, 0, "{accumulator} ^ {value}")
gcd_reduce = _of_integers(np.gcd, 0, "gcd({accumulator}, {value})")
lcm_reduce = _of_integers(np.lcm, 1, "lcm({accumulator}, {value})")

# The first of equals; a NaN before everything.
argmax = position_reduction("argmax", lambda x, axis: np.asarray(np.argmax(x, axis=axis)))
argmin = position_reduction("argmin", lambda x, axis: np.asarray(np.argmin(x, axis=axis)))
