"""Functions of dtypes. They are NumPy's, and take tensors where NumPy's take arrays."""

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from numba_grad import dtypes
from numba_grad.frontend.inputs.arrays import ArrayLike, canonical_dtype, node_of, weak_class
from numba_grad.graph.types import as_dtype

if TYPE_CHECKING:
    from numba_grad.frontend.tensors.tensor import Tensor

__all__ = ["can_cast", "common_type", "finfo", "iinfo", "isdtype", "promote_types", "result_type"]

# A dtype, or something that np.dtype makes one of: "float32", float, np.float32.
DTypeLike = Any


def can_cast(
    from_: "DTypeLike | Tensor", to: DTypeLike, /, casting: Any = "safe"
) -> bool:  # NumPy's names of rules: "no", "equiv", "safe", "same_kind", "unsafe"
    """Whether the rule `casting` lets `from_`, a dtype or a tensor, become `to`."""
    return dtypes.can_cast(_dtype_of(from_), as_dtype(to), casting)


def common_type(*arrays: "ArrayLike") -> type:
    """The floating or complex class that holds the elements of all arrays; float64 of integers."""
    strong = [_dtype_of(x) for x in arrays]
    asked, means = dtypes.asked_of_numpy(strong, takes_on_integers=False)
    found = np.common_type(*[np.empty(0, dtype) for dtype in asked])
    return means.type if found is np.float16 else found


@dataclass(frozen=True)
class FloatLimits:
    """What `finfo` tells of a floating dtype. NumPy's names, but Python's numbers: next to a tensor
    they are weak, so that `x + ng.finfo(ng.float64).eps` has the dtype of `x`."""

    dtype: np.dtype
    bits: int
    eps: float
    epsneg: float
    max: float
    min: float
    smallest_normal: float
    smallest_subnormal: float
    tiny: float
    resolution: float
    precision: int
    iexp: int
    machep: int
    maxexp: int
    minexp: int
    negep: int
    nexp: int
    nmant: int


def finfo(type: "DTypeLike | Tensor", /) -> FloatLimits:
    """Limits of a floating dtype, or of the parts of a complex one: bits, eps, max, min, ..."""
    limits = dtypes.finfo(_dtype_of(type))
    numbers: dict[str, Any] = {}
    for field in fields(FloatLimits)[1:]:
        kind: Any = field.type  # float or int
        numbers[field.name] = kind(getattr(limits, field.name))
    return FloatLimits(np.dtype(limits.dtype), **numbers)


def iinfo(type: "DTypeLike | Tensor", /) -> np.iinfo:
    """Limits of an integer dtype: bits, max, min."""
    return np.iinfo(_dtype_of(type))


def isdtype(dtype: DTypeLike, kind: DTypeLike | tuple[DTypeLike, ...]) -> bool:
    """Whether `dtype` is `kind`: a dtype, the standard's name of a set of them, or a tuple of both.

    The sets are "bool", "signed integer", "unsigned integer", "integral", "real floating",
    "complex floating" and "numeric".
    """
    known = as_dtype(dtype)
    if not dtypes.is_bfloat16(known):
        return np.isdtype(known, kind)
    kinds = kind if isinstance(kind, tuple) else (kind,)
    return any(
        k in ("real floating", "numeric") if isinstance(k, str) else as_dtype(k) == known
        for k in kinds
    )


def promote_types(type1: DTypeLike, type2: DTypeLike) -> np.dtype:
    """The smallest dtype that both can be cast to safely."""
    return canonical_dtype(dtypes.promoted(_dtype_of(type1), _dtype_of(type2)))


def result_type(*arrays_and_dtypes: "ArrayLike | DTypeLike") -> np.dtype:
    """The dtype that an operation on these has, by NumPy's promotion. Python scalars are weak."""
    operands = [_operand(value) for value in arrays_and_dtypes]
    return canonical_dtype(dtypes.promoted(*operands))


def _operand(value: Any) -> Any:
    """What NumPy's promotion is asked about: a dtype, or a Python number."""
    weak = weak_class(value)
    if weak is value.__class__ or value.__class__ is bool:
        return value
    return _dtype_of(value) if weak is None else weak()


def _dtype_of(value: Any) -> np.dtype:
    node = node_of(value)
    if node is not None:
        return node.dtype
    if isinstance(value, (np.ndarray, np.generic)):
        return canonical_dtype(value.dtype)
    return as_dtype(value)
