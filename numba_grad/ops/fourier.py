"""Discrete Fourier transforms along one axis, done by PocketFFT.

Which factor a transform has, `norm` says in NumPy's words: "backward" (1 forward, 1 / n backward),
"forward" (the other way round) or "ortho" (1 / sqrt(n) both ways).
"""

import itertools
import math
from typing import Any

import numpy as np

from numba_grad.errors import AxisError, DTypeError, ShapeError, explain
from numba_grad.graph.node import OPS, Node, leaf
from numba_grad.graph.types import Type, array_type
from numba_grad.ops.elementwise import is_zero, scaled
from numba_grad.ops.families import (
    dtype_names,
    linear,
    real_dtype,
    reshape,
    structural,
    zeros_like,
)
from numba_grad.ops.movement import array_of

# The adjoint of a transform is the transform in the other direction, with the same factor.
ADJOINT_NORM = {"backward": "forward", "forward": "backward", "ortho": "ortho"}

_COMPLEX_OF = {
    np.dtype(np.float32): np.dtype(np.complex64),
    np.dtype(np.float64): np.dtype(np.complex128),
}


def scale_of(n: int, norm: str, *, inverse: bool) -> float:
    """The factor of a transform of n points."""
    if norm == "ortho":
        return 1 / math.sqrt(n)
    return 1 / n if (norm == "backward") == inverse else 1.0


def _check(
    operation: str, x: Type, axis: int, norm: str, accepted: str, *, n: int | None = None
) -> None:
    got: dict[str, object] = {"x": x, "axis": axis}
    if not 0 <= axis < x.rank:
        raise AxisError(explain(operation, "axis out of range", got=got))
    if x.dtype.char not in accepted:
        raise DTypeError(
            explain(
                operation, "not defined for this dtype", got=got, expected=dtype_names(accepted)
            )
        )
    n = x.shape[axis] if n is None else n
    if n < 1:
        raise ValueError(
            explain(
                operation,
                f"a transform of {n} points is not defined",
                got={"x": x, "axis": axis, "n": n},
                expected="n >= 1",
            )
        )
    if norm not in ADJOINT_NORM:
        raise ValueError(
            explain(operation, "no such norm", got={"norm": norm}, expected=", ".join(ADJOINT_NORM))
        )


def _samples(rng: "np.random.Generator", *, is_complex: bool) -> list[tuple[np.ndarray, int]]:
    """Even, odd, prime and single lengths, along first, middle and last axes."""
    cases = [
        ((8,), 0),
        ((1,), 0),
        ((2, 2), 1),
        ((3, 5), 1),
        ((4, 11), 0),
        ((2, 6, 3), 1),
        ((9, 10), 0),
        ((0, 3), 1),
        ((3, 0), 0),
    ]
    return [
        (array_of(rng, *s) + 1j * array_of(rng, *s) if is_complex else array_of(rng, *s), axis)
        for s, axis in cases
    ]


# fft


def _infer_fft(x: Type, *, axis: int, inverse: bool, norm: str) -> Type:
    _check("ifft" if inverse else "fft", x, axis, norm, "FD")
    return x


def _fft_reference(x: np.ndarray, *, axis: int, inverse: bool, norm: Any) -> np.ndarray:
    return (np.fft.ifft if inverse else np.fft.fft)(x, axis=axis, norm=norm)


# Complex to complex.
fft = structural(
    "fft",
    infer=_infer_fft,
    reference=_fft_reference,
    vjp=(
        lambda g, out, x, *, axis, inverse, norm: fft(
            g, axis=axis, inverse=not inverse, norm=ADJOINT_NORM[norm]
        ),
    ),
    dtypes="FD",
    example=lambda rng: [
        ((x,), {"axis": axis, "inverse": inverse, "norm": norm})
        for (x, axis), (norm, inverse) in zip(
            _samples(rng, is_complex=True),
            itertools.cycle(itertools.product(ADJOINT_NORM, (False, True))),
            strict=False,
        )
    ],
    jvp=linear,
)


# rfft


def _infer_rfft(x: Type, *, axis: int, norm: str) -> Type:
    _check("rfft", x, axis, norm, "fd")
    shape = (*x.shape[:axis], x.shape[axis] // 2 + 1, *x.shape[axis + 1 :])
    return array_type(shape, _COMPLEX_OF[x.dtype])


def _add_again(x: Node, axis: int, n: int, *, singles: bool) -> Node:
    """Half a spectrum, with some of its frequencies doubled: the single ones, or all others.

    Single are 0 and, of an even number n of points, n / 2. Others stand for their negative, too.
    """
    size = x.shape[axis]
    frequencies = OPS["iota"](size=size, dtype=np.dtype(np.int64))
    # A leaf, not a literal: the kernel is the same for every n. No frequency is -1.
    highest = leaf(np.array(n // 2 if n % 2 == 0 else -1))
    is_single = OPS["logical_or"](is_zero(frequencies), OPS["equal"](frequencies, highest))
    along = reshape(is_single, (size,) + (1,) * (len(x.shape) - axis - 1))
    nothing = zeros_like(x)
    # By addition: a complex factor of 2 would make a nan of infinity.
    return x + (OPS["where"](along, x, nothing) if singles else OPS["where"](along, nothing, x))


def _rfft_vjp(g: Node, out: Node, x: Node, *, axis: int, norm: str) -> Node:
    # irfft counts the single frequencies once, and the others twice: doubled, then halved.
    n = x.shape[axis]
    even = _add_again(g, axis, n, singles=True)
    return scaled(irfft(even, axis=axis, n=n, norm=ADJOINT_NORM[norm]), 0.5)


# Real to the n // 2 + 1 frequencies that are not negative.
rfft = structural(
    "rfft",
    infer=_infer_rfft,
    reference=lambda x, *, axis, norm: np.fft.rfft(x, axis=axis, norm=norm),
    vjp=(_rfft_vjp,),
    dtypes="fd",
    example=lambda rng: [
        ((x,), {"axis": axis, "norm": norm})
        for (x, axis), norm in zip(
            _samples(rng, is_complex=False), itertools.cycle(ADJOINT_NORM), strict=False
        )
    ],
    jvp=linear,
)


# irfft


def _infer_irfft(x: Type, *, axis: int, n: int, norm: str) -> Type:
    _check("irfft", x, axis, norm, "FD", n=n)
    if x.shape[axis] != n // 2 + 1:
        raise ShapeError(
            explain(
                "irfft",
                "not half a spectrum of n points",
                got={"x": x, "axis": axis, "n": n},
                expected=f"a length of n // 2 + 1 = {n // 2 + 1} along the axis",
            )
        )
    shape = (*x.shape[:axis], n, *x.shape[axis + 1 :])
    return array_type(shape, real_dtype(x.dtype))


def _irfft_vjp(g: Node, out: Node, x: Node, *, axis: int, n: int, norm: str) -> Node:
    spectrum = rfft(g, axis=axis, norm=ADJOINT_NORM[norm])
    return _add_again(spectrum, axis, n, singles=False)


def _irfft_examples(rng: "np.random.Generator") -> list[Any]:
    cases = itertools.product(_samples(rng, is_complex=True), (False, True))
    return [
        ((x,), {"axis": axis, "n": n, "norm": norm})
        for ((x, axis), is_odd), norm in zip(cases, itertools.cycle(ADJOINT_NORM), strict=False)
        if (n := 2 * x.shape[axis] - 2 + is_odd) >= 1
    ]


# The frequencies that are not negative to n real numbers. The imaginary parts of those that stand
# for themselves, 0 and n / 2, are not read.
irfft = structural(
    "irfft",
    infer=_infer_irfft,
    reference=lambda x, *, axis, n, norm: np.fft.irfft(x, n, axis=axis, norm=norm),
    vjp=(_irfft_vjp,),
    dtypes="FD",
    example=_irfft_examples,
    jvp=linear,
)
