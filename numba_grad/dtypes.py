"""What NumPy knows of its own dtypes only: of what kind one is, what several promote to.

NumPy has no bfloat16. The package ml_dtypes, an optional dependency, has one: to NumPy it is of
kind "V", raw bytes, and NumPy's promotion knows little of it. Here it is a floating dtype with the
rules of float16, in whose place NumPy is asked about it, but for two: beside float16 both become
float32, and integers and bools beside it become bfloat16. PyTorch and JAX do the same.

float16 and bfloat16 are for storage only: what they hold is computed in float32.
"""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from numba_grad.errors import explain
from numba_grad.fresh_thread import imported

BOOL = np.dtype(bool)
INT64 = np.dtype(np.int64)
UINT8, UINT64 = np.dtype(np.uint8), np.dtype(np.uint64)
FLOAT16, FLOAT32, FLOAT64 = np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64)
COMPLEX64, COMPLEX128 = np.dtype(np.complex64), np.dtype(np.complex128)


def bfloat16_class() -> type:
    """The scalar class of ml_dtypes, as `numpy.float16` is NumPy's.

    Raises
    ------
    ImportError
        If ml_dtypes is not installed.
    """
    try:
        return imported("ml_dtypes").bfloat16
    except ImportError as error:
        problem = "needs the package ml_dtypes, which has the dtype for NumPy"
        fix = 'pip install "numba_grad[bfloat16]"'
        raise ImportError(explain("bfloat16", problem, fix=fix)) from error


def is_bfloat16(dtype: np.dtype) -> bool:
    """Whether it is ml_dtypes' bfloat16, without importing that."""
    return dtype.kind == "V" and dtype.name == "bfloat16"


# Kinds


def kind_of(dtype: np.dtype) -> str:
    """`dtype.kind`, which is "f" of bfloat16, too."""
    return "f" if is_bfloat16(dtype) else dtype.kind


def character_of(dtype: np.dtype) -> str:
    """`dtype.char`; of bfloat16 that of float16, for it is taken wherever that is."""
    return "e" if is_bfloat16(dtype) else dtype.char


def is_floating(dtype: np.dtype) -> bool:
    """Floating, and not complex."""
    return kind_of(dtype) == "f"


def is_inexact(dtype: np.dtype) -> bool:
    """Floating or complex: what gradients can have."""
    return dtype.kind in "fc" or is_bfloat16(dtype)


def is_storage_only(dtype: np.dtype) -> bool:
    """Whether values of this dtype are computed in float32, and rounded to be stored."""
    return dtype == FLOAT16 or is_bfloat16(dtype)


def computed_in(dtype: np.dtype) -> np.dtype:
    """The dtype that values of `dtype` are computed in."""
    return FLOAT32 if is_storage_only(dtype) else dtype


# Promotion


@functools.lru_cache(maxsize=1024, typed=True)  # typed, as 1 and 1.0 are equal
def promoted(*dtypes: Any) -> np.dtype:
    """NumPy's `result_type`: of dtypes, and of Python numbers and their classes, which are weak."""
    asked, means = asked_of_numpy(dtypes)
    result = np.result_type(*asked)
    return means if result == FLOAT16 else result


def asked_of_numpy(
    dtypes: Sequence[Any], *, takes_on_integers: bool = True
) -> tuple[Sequence[Any], np.dtype]:
    """Dtypes for a question to NumPy in place of these, and what float16 means in its answer.

    Integers are replaced too, where there is nothing but them and bfloat16: NumPy would go from
    float16 to something wider.
    """
    for bfloat16 in dtypes:
        if isinstance(bfloat16, np.dtype) and is_bfloat16(bfloat16):
            break
    else:
        return dtypes, FLOAT16
    strong = [d for d in dtypes if isinstance(d, np.dtype)]
    stand_in, means = (FLOAT32, FLOAT16) if FLOAT16 in strong else (FLOAT16, bfloat16)
    takes_on_integers &= all(is_bfloat16(d) or d.kind in "biu" for d in strong)
    replaced = "Vbiu" if takes_on_integers else "V"
    asked = [stand_in if isinstance(d, np.dtype) and d.kind in replaced else d for d in dtypes]
    return asked, means


def can_cast(source: np.dtype, target: np.dtype, casting: Any) -> bool:
    """NumPy's `can_cast`. Neither of float16 and bfloat16 holds all numbers of the other."""
    if FLOAT16 in (source, target) and is_bfloat16(source) != is_bfloat16(target):
        source, target = FLOAT32, FLOAT16
    (source, target), _ = asked_of_numpy((source, target), takes_on_integers=False)
    return np.can_cast(source, target, casting)


def ends(dtype: np.dtype) -> tuple[complex, complex]:
    """The first and the last number in NumPy's order, infinities included: what changes no maximum,
    and what changes no minimum."""
    if dtype.kind == "b":
        return False, True
    if dtype.kind in "iu":
        return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    if dtype.kind == "c":
        return complex(-np.inf, -np.inf), complex(np.inf, np.inf)
    return -np.inf, np.inf


def finfo(dtype: np.dtype) -> Any:
    """NumPy's `finfo`: limits of a floating dtype, or of the parts of a complex one."""
    if is_bfloat16(dtype):
        return imported("ml_dtypes").finfo(dtype)
    return np.finfo(dtype)
