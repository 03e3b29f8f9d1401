"""Complex numbers of all kinds of parts, and what functions of them are to be there: as NumPy's."""

import itertools
import math

import numpy as np

# Functions that NumPy computes as C99's Annex G says, by the names of NumPy and of formulas.
AS_IN_C99 = {
    **{name: name for name in ("exp", "log", "log2", "log10", "sqrt", "reciprocal", "absolute")},
    **{name: name for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
    **{f"arc{name}": f"a{name}" for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
}


def special_parts(dtype: np.dtype) -> list[float]:
    """The signs of zero, ordinary, tiny and huge numbers, infinities and NaN."""
    limits = np.finfo(dtype)
    tiny, huge = float(limits.tiny), float(limits.max) * 0.25
    return [
        *(s * x for x in (0.0, 1.0, 2.5, tiny, tiny**0.6, huge**0.6, huge) for s in (1, -1)),
        *(4.0, math.inf, -math.inf, math.nan),
    ]


def complex_grid(dtype: np.dtype, parts: list[float] | None = None) -> np.ndarray:
    """Every pair of parts, as real and imaginary part."""
    pairs = itertools.product(parts or special_parts(dtype), repeat=2)
    return np.array([complex(*pair) for pair in pairs], dtype)


def values_by_numpy(name: str, z: np.ndarray) -> np.ndarray:
    """NumPy's, but of tanh(inf + iy) the array API standard's: its zero has the sign of y, in C99
    that of sin(2y)."""
    with np.errstate(all="ignore"):
        found = np.asarray(getattr(np, name)(z))
    if name == "tanh":
        found.imag = np.where(np.isinf(z.real), np.copysign(0, z.imag), found.imag)
    if name == "tan":
        found.real = np.where(np.isinf(z.imag), np.copysign(0, z.real), found.real)
    return found


def different_numbers(arguments: list, actual: np.ndarray, expected: np.ndarray) -> list[str]:
    """Where results differ from NumPy's: by rounding errors and no more, part by part.

    Signs of zeros and of infinities count, except beside a NaN, where C99 leaves them open.
    """
    limits = np.finfo(expected.dtype)
    tolerances = 8 * float(limits.eps), 2 * float(limits.smallest_subnormal)
    return [
        f"{x}: {a}, not {e}"
        for x, a, e in zip(arguments, actual, expected, strict=True)
        if not _is_same(complex(a), complex(e), *tolerances)
    ]


def _is_same(actual: complex, expected: complex, relative: float, absolute: float) -> bool:
    parts = [(actual.real, expected.real), (actual.imag, expected.imag)]
    is_sign_open = any(math.isnan(e) for _, e in parts)
    for a, e in parts:
        if math.isnan(a) or math.isnan(e):
            if not (math.isnan(a) and math.isnan(e)):
                return False
            continue
        is_sign_right = is_sign_open or math.copysign(1, a) == math.copysign(1, e)
        is_close = math.isclose(abs(a), abs(e), rel_tol=relative, abs_tol=absolute)
        if not (is_sign_right and is_close):
            return False
    return True
