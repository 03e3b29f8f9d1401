"""The names that kernel source may use, for the emulator: casts, mathematics, libdevice.

Scalars are NumPy's, so that a float32 stays one. Integers of 64 bits are NumPy's, too; narrower
ones are Python's, which wrap where they are cast.
"""

import ctypes
import importlib.util
import math
import operator
from collections.abc import Callable
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.special

from numba_grad.dtypes import bfloat16_class
from numba_grad.runtime.cuda.driver import current_driver

COMPLEX: tuple[type, ...] = (complex, np.complexfloating)
INTEGER: tuple[type, ...] = (int, np.integer)
_WHOLE = (np.integer, np.bool)


class EmulationError(AssertionError):
    """The kernel does what a device would not do, or not always do the same way."""


def is_narrow(dtype: np.dtype) -> bool:
    """Whether elements are integers that are computed with in more bits."""
    return dtype.kind in "iu" and dtype.itemsize < 8


def _integer(bits: int, is_signed: bool) -> Callable[[Any], Any]:
    """A cast. Of 64 bits are NumPy's own integers, which wrap by themselves; what is narrower is
    computed in 64 bits, for which Python's do until the next cast."""
    mask, half = (1 << bits) - 1, 1 << (bits - 1)
    low, high = (-half, half - 1) if is_signed else (0, mask)
    wrapped = {(64, True): np.int64, (64, False): np.uint64}.get((bits, is_signed), int)

    def cast(x: Any) -> Any:
        if type(x) is wrapped and low <= x <= high:
            return x
        if not isinstance(x, int):
            if isinstance(x, COMPLEX):
                raise EmulationError("a complex number is cast to an integer")
            if not isinstance(x, _WHOLE):
                # Beyond the range hardware has the nearest; what NaN becomes depends on the width.
                x = 0 if math.isnan(x) else low if x < low else high if x > high else int(x)
            x = int(x)
        x &= mask
        return wrapped(x - mask - 1 if is_signed and x >= half else x)

    return cast


INTEGERS = {
    f"{'' if is_signed else 'u'}int{bits}": _integer(bits, is_signed)
    for bits in (8, 16, 32, 64)
    for is_signed in (True, False)
}


def _compare_and_swap(pointer: Any, expected: int, desired: int) -> Any:
    """An atomic one, of the element that is pointed to: no race, whoever comes first."""
    old = pointer[0]
    if old == expected:
        pointer[0] = desired
    return old


def _set_conditional(condition: Any, value: Any) -> None:
    """Of a graph that the emulated driver replays."""
    driver: Any = current_driver()
    driver.set_condition(int(condition), int(value))


def _complex(real: Any, imaginary: Any = 0) -> Any:
    both = type(real) is type(imaginary) is np.float32
    return (np.complex64 if both else np.complex128)(complex(real, imaginary))


def _rounded_once(name: str, number: type) -> Callable[[float, float, float], float] | None:
    """C's own, where the process has it: exact fractions take fifty times as long."""
    try:
        function = getattr(ctypes.CDLL(None), name)
    except (AttributeError, OSError, TypeError):
        return None
    function.argtypes, function.restype = [number] * 3, number
    return function


_fma, _fmaf = _rounded_once("fma", ctypes.c_double), _rounded_once("fmaf", ctypes.c_float)


def fma(x: Any, y: Any, z: Any) -> Any:
    """Rounded once."""
    if type(x) is np.float32:
        if _fmaf is not None and type(y) is type(z) is np.float32:
            return np.float32(_fmaf(float(x), float(y), float(z)))
        # As far as there is room for the product of float32 numbers.
        return np.float32(np.longdouble(x) * np.longdouble(y) + np.longdouble(z))
    if _fma is None:
        return exact_fma(x, y, z)
    # Of NumPy's numbers float64 alone is one of Python's.
    given = [number if isinstance(number, float) else float(number) for number in (x, y, z)]
    return np.float64(_fma(*given))


def exact_fma(x: Any, y: Any, z: Any) -> Any:
    """Of float64, by fractions."""
    if not (np.isfinite(x) and np.isfinite(y) and np.isfinite(z)):
        return x * y + z
    exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
    try:
        return np.float64(float(exact)) if exact else x * y + z
    except OverflowError:
        return x * y + z


# fmt: off
_SAME_NAMES = (
    "sin", "cos", "tan", "sinh", "cosh", "tanh", "exp", "exp2", "expm1", "log", "log1p", "log2",
    "log10", "sqrt", "cbrt", "floor", "ceil", "trunc", "rint", "copysign", "nextafter", "fmod",
    "hypot", "ldexp", "frexp", "modf", "isnan", "isinf", "isfinite",
)
# fmt: on
_MATHEMATICS: dict[str, Callable[..., Any]] = {
    **{name: getattr(np, name) for name in _SAME_NAMES},
    **{f"a{name}": getattr(np, f"arc{name}") for name in _SAME_NAMES[:6]},
    "atan2": np.arctan2,
    "pow": np.power,
    "fabs": np.abs,
    "gamma": scipy.special.gamma,
    "lgamma": scipy.special.gammaln,
    "erf": scipy.special.erf,
    "erfc": scipy.special.erfc,
    "fma": fma,
}


def _rounded(function: Callable[..., Any]) -> Callable[..., Any]:
    """Of integers, a float64; NumPy's own small types would be float16."""

    def call(*arguments: Any) -> Any:
        if all(isinstance(x, INTEGER) for x in arguments):
            arguments = tuple(np.float64(x) for x in arguments)
        return function(*arguments)

    return call


def _bits(dtype: type, to: type) -> Callable[[Any], Any]:
    def convert(x: Any) -> Any:
        result = np.asarray(dtype(x)).view(to)[()]
        return int(result) if is_narrow(result.dtype) else result

    return convert


_LIBDEVICE: dict[str, Callable[..., Any]] = {
    **_MATHEMATICS,
    "tgamma": scipy.special.gamma,
    "erfinv": scipy.special.erfinv,
    "erfcinv": scipy.special.erfcinv,
    "erfcx": scipy.special.erfcx,
    "normcdf": scipy.special.ndtr,
    "normcdfinv": scipy.special.ndtri,
    "rsqrt": lambda x: type(x)(1) / np.sqrt(x),
    "rcbrt": lambda x: type(x)(1) / np.cbrt(x),
    "exp10": lambda x: type(x)(10) ** x,
    "sinpi": lambda x: type(x)(np.sin(np.pi * np.float64(x))),
    "cospi": lambda x: type(x)(np.cos(np.pi * np.float64(x))),
    "remainder": lambda x, y: type(x)(math.remainder(x, y)) if y else type(x)(np.nan),
    "fmin": np.fmin,
    "fmax": np.fmax,
    "fdim": lambda x, y: type(x)(max(x - y, type(x)(0))),
    "round": lambda x: np.copysign(np.floor(np.abs(x) + type(x)(0.5)), x),
    "nearbyint": np.rint,
    "logb": lambda x: np.floor(np.log2(np.abs(x))),
    "j0": scipy.special.j0,
    "j1": scipy.special.j1,
    "y0": scipy.special.y0,
    "y1": scipy.special.y1,
    "jn": scipy.special.jn,
    "yn": scipy.special.yn,
    "cyl_bessel_i0": scipy.special.i0,
    "cyl_bessel_i1": scipy.special.i1,
}
_LIBDEVICE_EXACT: dict[str, Callable[..., Any]] = {
    **{f"{letter}mul_rn": operator.mul for letter in "fd"},
    **{f"{letter}add_rn": operator.add for letter in "fd"},
    **{f"{letter}sqrt_rn": np.sqrt for letter in "fd"},
    "double_as_longlong": _bits(np.float64, np.int64),
    "longlong_as_double": _bits(np.int64, np.float64),
    "float_as_int": _bits(np.float32, np.int32),
    "int_as_float": _bits(np.int32, np.float32),
    "umulhi": lambda x, y: (int(x) * int(y)) >> 32,
    "umul64hi": lambda x, y: np.uint64((int(x) * int(y)) >> 64),
    "popc": lambda x: (int(x) & 0xFFFFFFFF).bit_count(),
    "popcll": lambda x: (int(x) & 0xFFFFFFFFFFFFFFFF).bit_count(),
    "clz": lambda x: 32 - (int(x) & 0xFFFFFFFF).bit_length(),
    "clzll": lambda x: 64 - (int(x) & 0xFFFFFFFFFFFFFFFF).bit_length(),
    "abs": abs,
    "llabs": abs,
}


_FLOATING = (float, np.floating)


class _Libdevice:
    """`name` for float64 and `namef` for float32."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name in _LIBDEVICE_EXACT:
            return _LIBDEVICE_EXACT[name]
        dtype = np.float64
        base = name
        if name not in _LIBDEVICE and name.endswith("f"):
            dtype, base = np.float32, name[:-1]
        if base not in _LIBDEVICE:
            raise EmulationError(f"the emulator has no libdevice.{name}")
        function = _LIBDEVICE[base]

        def call(*arguments: Any) -> Any:
            given = [
                x if type(x) is dtype or isinstance(x, INTEGER) else dtype(x) for x in arguments
            ]
            result = function(*given)
            if type(result) is dtype or not isinstance(result, _FLOATING):
                return result
            return dtype(result)

        setattr(self, name, call)
        return call


class _Complex:
    """`cmath`: NumPy's functions keep complex64."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        found = _MATHEMATICS.get(name) or {"phase": np.angle}.get(name)
        if found is None:
            raise EmulationError(f"the emulator has no cmath.{name}")
        return found


NAMES: dict[str, Any] = {
    **INTEGERS,
    "float16": np.float16,
    **({"bfloat16": bfloat16_class()} if importlib.util.find_spec("ml_dtypes") else {}),
    "float32": np.float32,
    "float64": np.float64,
    "complex64": np.complex64,
    "complex128": np.complex128,
    "inf": np.inf,
    "nan": np.nan,
    "math": SimpleNamespace(**{name: _rounded(f) for name, f in _MATHEMATICS.items()}),
    "cmath": _Complex(),
    "libdevice": _Libdevice(),
    # Python's own that its compiler for devices knows.
    "abs": abs,
    "bool": bool,
    "complex": _complex,
    "max": max,
    "min": min,
    "range": range,
    "compare_and_swap": _compare_and_swap,
    "atomic_add": lambda pointer, index, value: pointer.add(index, value),
    "set_conditional": _set_conditional,
}
