"""Scans: each result depends on the elements before it along one axis, which stays."""

import functools
from collections.abc import Sequence

import numpy as np

from numba_grad.errors import AxisError, ShapeError, explain
from numba_grad.graph.node import Node, Op
from numba_grad.graph.types import Type, array_type
from numba_grad.ops.elementwise import conjugated
from numba_grad.ops.families import ALL, INEXACT, full, linear, structural, total
from numba_grad.ops.movement import array_of, concatenate, slice_
from numba_grad.ops.samples import Examples


def check_axis(operation: str, x: Type, axis: int) -> None:
    if not 0 <= axis < x.rank:
        raise AxisError(
            explain(
                operation,
                "axis out of range",
                got={"x": x, "axis": axis},
                expected=f"0 <= axis < {x.rank}" if x.rank else "an array of one axis or more",
                fix="" if x.rank else "x.reshape(1)",
            )
        )


@functools.cache
def _sum_dtype(dtype: np.dtype) -> np.dtype:
    """NumPy's: integers below 64 bits, and bool, are summed in 64 bits."""
    return np.cumsum(np.empty(0, dtype)).dtype


# cumsum


def _infer_cumsum(x: Type, *, axis: int, reverse: bool = False) -> Type:
    check_axis("cumsum", x, axis)
    return array_type(x.shape, _sum_dtype(x.dtype))


def _cumsum_reference(x: np.ndarray, *, axis: int, reverse: bool = False) -> np.ndarray:
    if reverse:
        return np.flip(np.cumsum(np.flip(x, axis), axis), axis)
    return np.cumsum(x, axis)


# Reversed, the sums run from the last element to the first.
cumsum = structural(
    "cumsum",
    family="scan",
    infer=_infer_cumsum,
    reference=_cumsum_reference,
    vjp=(lambda g, out, x, *, axis, reverse=False: cumsum(g, axis=axis, reverse=not reverse),),
    dtypes=ALL,
    example=lambda rng: [
        ((array_of(rng, 12),), {"axis": 0, "reverse": False}),
        ((array_of(rng, 12),), {"axis": 0, "reverse": True}),
        ((array_of(rng, 3, 4),), {"axis": 1, "reverse": False}),
        ((array_of(rng, 9, 2, 2),), {"axis": 0, "reverse": True}),
        ((array_of(rng, 2, 3, 4),), {"axis": 1, "reverse": False}),
        ((array_of(rng, 1),), {"axis": 0, "reverse": False}),
        ((array_of(rng, 0, 3),), {"axis": 0, "reverse": False}),
        ((array_of(rng, 3, 0),), {"axis": 0, "reverse": True}),
    ],
    jvp=linear,
)


# cumprod


def _infer_cumprod(x: Type, *, axis: int) -> Type:
    check_axis("cumprod", x, axis)
    return array_type(x.shape, _sum_dtype(x.dtype))


def _earlier(x: Node, axis: int, first: complex, *, reverse: bool = False) -> Node:
    """For each element the one before it (reversed: after it), and `first` for the first one."""
    size = x.shape[axis]
    if size == 0:
        return x
    starts = tuple(int(reverse and k == axis) for k in range(len(x.shape)))
    sizes = tuple(n - (k == axis) for k, n in enumerate(x.shape))
    others = slice_(x, starts=starts, sizes=sizes, steps=(1,) * len(sizes))
    end = full(first, tuple(1 if k == axis else n for k, n in enumerate(x.shape)), x.dtype)
    return concatenate(*((others, end) if reverse else (end, others)), axis=axis)


def _cumprod_vjp(g: Node, out: Node, x: Node, *, axis: int) -> Node:
    """The product before an element, times the sum over all later results of what follows it.

    That sum obeys s[i] = g[i] + x[i + 1] s[i + 1]. No division, so zeros are as good as others, in
    derivatives of all orders.
    """
    factors = _earlier(conjugated(x), axis, 0, reverse=True)
    after = linear_recurrence(factors, g, axis=axis, reverse=True)
    return conjugated(_earlier(out, axis, 1)) * after


def _cumprod_jvp(tangents: Sequence[Node], out: Node, x: Node, *, axis: int) -> Node:
    """Of y[i] = x[i] y[i - 1]: y'[i] = x[i] y'[i - 1] + x'[i] y[i - 1]."""
    (t,) = tangents
    return linear_recurrence(x, t * _earlier(out, axis, 1), axis=axis, reverse=False)


cumprod = structural(
    "cumprod",
    family="scan",
    infer=_infer_cumprod,
    reference=lambda x, *, axis: np.cumprod(x, axis),
    vjp=(_cumprod_vjp,),
    saves=("inputs", "out"),
    dtypes=ALL,
    example=lambda rng: [
        ((array_of(rng, 12),), {"axis": 0}),
        ((np.array([0.5, 0.0, 2.0, -1.5, 0.0, 3.0]),), {"axis": 0}),
        ((array_of(rng, 3, 4),), {"axis": 1}),
        ((array_of(rng, 2, 3, 4) + 1j * array_of(rng, 2, 3, 4),), {"axis": 1}),
        ((array_of(rng, 1),), {"axis": 0}),
        ((array_of(rng, 0, 3),), {"axis": 0}),
    ],
    jvp=_cumprod_jvp,
)


# linear_recurrence


def _infer_linear_recurrence(a: Type, b: Type, *, axis: int, reverse: bool = False) -> Type:
    check_axis("linear_recurrence", a, axis)
    if a != b:
        raise ShapeError(
            explain(
                "linear_recurrence",
                "needs one shape and dtype",
                got={"a": a, "b": b},
                fix="np.broadcast_to(a, b.shape), a.astype(b.dtype)",
            )
        )
    return a


def _linear_recurrence_reference(
    a: np.ndarray, b: np.ndarray, *, axis: int, reverse: bool = False
) -> np.ndarray:
    factors, out = (np.moveaxis(z, axis, 0) for z in (a, b.copy()))
    if reverse:
        factors, out = factors[::-1], out[::-1]
    for i in range(1, len(out)):
        out[i] += factors[i] * out[i - 1]
    return np.ascontiguousarray(np.moveaxis(out[::-1] if reverse else out, 0, axis))


def _linear_recurrence_vjp_of_b(
    g: Node, out: Node, a: Node, b: Node, *, axis: int, reverse: bool = False
) -> Node:
    """A recurrence in the other direction: each result depends on b[i] with what follows it."""
    factors = _earlier(conjugated(a), axis, 0, reverse=not reverse)
    return linear_recurrence(factors, g, axis=axis, reverse=not reverse)


def _linear_recurrence_vjp_of_a(
    g: Node, out: Node, a: Node, b: Node, *, axis: int, reverse: bool = False
) -> Node:
    g_of_b = _linear_recurrence_vjp_of_b(g, out, a, b, axis=axis, reverse=reverse)
    return g_of_b * conjugated(_earlier(out, axis, 0, reverse=reverse))


def _linear_recurrence_jvp(
    tangents: Sequence[Node | None],
    out: Node,
    a: Node,
    b: Node,
    *,
    axis: int,
    reverse: bool = False,
) -> Node | None:
    """A recurrence with the same factors: y'[i] = a[i] y'[i - 1] + a'[i] y[i - 1] + b'[i]."""
    of_a, of_b = tangents
    changed = None if of_a is None else of_a * _earlier(out, axis, 0, reverse=reverse)
    change = total([changed, of_b])
    return None if change is None else linear_recurrence(a, change, axis=axis, reverse=reverse)


# y[0] = b[0], y[i] = a[i] y[i - 1] + b[i]; reversed, it starts at the last element. a[0] is not
# read. The derivatives of other scans are such recurrences, and its own are.
linear_recurrence = structural(
    "linear_recurrence",
    family="scan",
    infer=_infer_linear_recurrence,
    reference=_linear_recurrence_reference,
    vjp=(_linear_recurrence_vjp_of_a, _linear_recurrence_vjp_of_b),
    saves=("inputs", "out"),
    dtypes=INEXACT,
    example=lambda rng: [
        ((array_of(rng, 12), array_of(rng, 12)), {"axis": 0, "reverse": False}),
        ((array_of(rng, 12), array_of(rng, 12)), {"axis": 0, "reverse": True}),
        ((array_of(rng, 3, 4), array_of(rng, 3, 4)), {"axis": 1, "reverse": True}),
        (
            (array_of(rng, 2, 5, 3) + 1j * array_of(rng, 2, 5, 3), 1j * array_of(rng, 2, 5, 3)),
            {"axis": 1, "reverse": False},
        ),
        ((array_of(rng, 1), array_of(rng, 1)), {"axis": 0, "reverse": False}),
        ((array_of(rng, 0, 3), array_of(rng, 0, 3)), {"axis": 0, "reverse": True}),
    ],
    jvp=_linear_recurrence_jvp,
)


# cumargmax, cumargmin


def _cumulative_position(name: str, comparison: np.ufunc) -> Op:
    """Where the extreme of all elements up to each one is: the last of equals, and the last NaN, as
    in torch."""

    def infer(x: Type, *, axis: int) -> Type:
        check_axis(name, x, axis)
        return array_type(x.shape, np.dtype(np.int64))

    def reference(x: np.ndarray, *, axis: int) -> np.ndarray:
        lines = np.moveaxis(x, axis, 0)
        result = np.zeros(lines.shape, np.int64)
        best = lines[:1].copy()
        for i in range(1, len(lines)):
            is_new = comparison(lines[i], best[0]) | (lines[i] != lines[i])
            result[i] = np.where(is_new, i, result[i - 1])
            best[0] = np.where(is_new, lines[i], best[0])
        return np.ascontiguousarray(np.moveaxis(result, 0, axis))

    def examples(rng: "np.random.Generator") -> Examples:
        with_nan = array_of(rng, 11)
        with_nan[[4, 7]] = np.nan
        ties = rng.integers(0, 3, (2, 9)).astype(np.float64)
        half_nan = ties + 1j * rng.integers(0, 3, ties.shape)
        half_nan.imag[0, 3] = half_nan.real[0, 6] = half_nan.imag[1, 8] = np.nan
        cases = [with_nan, ties, half_nan, *(array_of(rng, *n) for n in ((1,), (0,), (3, 4, 2)))]
        return [((x,), {"axis": axis}) for x in cases for axis in range(x.ndim)]

    return structural(
        name,
        family="scan",
        infer=infer,
        reference=reference,
        vjp=None,
        dtypes=ALL,
        example=examples,
    )


cumargmax = _cumulative_position("cumargmax", np.greater_equal)
cumargmin = _cumulative_position("cumargmin", np.less_equal)
