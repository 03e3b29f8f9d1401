"""What kernels find under `numba.cuda`, for the front end of CPU functions.

A kernel is typed and translated as a function of one thread: the place of the thread in the grid
are operations without arguments (`scalar_operations.py`), and `atomic.add` is a sum in place. What
is not named here is refused (`kernel_front_end.py`). This module imports Numba.
"""

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numba
import numpy as np
from numba.core import types
from numba.extending import type_callable

from numba_grad.immutable import NamedTuple

WARP = 32


class Dim3(NamedTuple):
    """Three extents or positions: a tuple, so that Numba knows what its fields are."""

    x: int = 0
    y: int = 0
    z: int = 0

    def operation(self, axis: str) -> str:
        """The scalar operation that a field stands for."""
        return f"{type(self).__name__}_{axis}"


# By the names that operations begin with.
_KINDS = {"threadIdx": "thread", "blockIdx": "block", "blockDim": "block_size"} | {
    "gridDim": "grid_size"
}
PLACES = {name: type(kind, (Dim3,), {})() for name, kind in _KINDS.items()}


def grid(ndim: int) -> Any:
    raise NotImplementedError


def gridsize(ndim: int) -> Any:
    raise NotImplementedError


def atomic_add(array: Any, index: Any, value: Any) -> None:
    raise NotImplementedError


def _place_type(ndim: Any) -> types.Type | None:
    count = getattr(ndim, "literal_value", 0)
    if count == 1:
        return types.int64
    return types.UniTuple(types.int64, count) if count in (2, 3) else None


def _type_of_sum(array: Any, index: Any, value: Any) -> types.Type | None:
    rank = len(index) if isinstance(index, types.BaseTuple) else 1
    if not isinstance(array, types.Array) or array.ndim != rank:
        return None
    return array.dtype if isinstance(value, types.Number) else None


type_callable(grid)(lambda context: _place_type)
type_callable(gridsize)(lambda context: _place_type)
type_callable(atomic_add)(lambda context: _type_of_sum)


@numba.njit
def _local_array(shape: Any, dtype: Any) -> Any:
    return np.empty(shape, dtype)


@numba.njit
def _fma(a: Any, b: Any, c: Any) -> Any:
    return a * b + c


@numba.njit
def _selp(a: Any, b: Any, c: Any) -> Any:
    return b if a else c


FORMER_SUM = object()  # what an atomic addition returns: it depends on the order of threads


# How calls of these are translated: by the translation, from what the arguments stand for.


def _axes(kind: str, size: str) -> Callable[[Any, Sequence[Any]], Any]:
    def lowered(translation: Any, arguments: Sequence[Any]) -> Any:
        define = translation.builder.define

        def along(axis: str) -> Any:
            blocks, own = define(f"{kind}_{axis}"), define(f"block_size_{axis}")
            product = define("multiply", blocks, own)
            return product if size else define("add", product, define(f"thread_{axis}"))

        found = tuple(map(along, "xyz"[: arguments[0]]))
        return found[0] if len(found) == 1 else found

    return lowered


def _added(translation: Any, arguments: Sequence[Any]) -> Any:
    array, index, value = arguments
    translation.add_to_item(array, index, value)
    return translation.known(FORMER_SUM)


CALLS: dict[Any, Callable[[Any, Sequence[Any]], Any]] = {
    grid: _axes("block", ""),
    gridsize: _axes("grid_size", "whole"),
    atomic_add: _added,
}


def _module(name: str, **contents: Any) -> ModuleType:
    result = ModuleType(name)
    vars(result).update(contents)
    return result


# Types that are called, or that arrays are made of: Numba's are NumPy's here.
TYPES: dict[str, Any] = {str(t): getattr(np, str(t)) for t in (types.float32, types.float64)}
TYPES |= {f"{u}int{n}": getattr(np, f"{u}int{n}") for u in ("", "u") for n in (8, 16, 32, 64)}
TYPES |= {"boolean": np.bool_, "bool_": np.bool_}

CUDA = _module(
    "cuda",
    **PLACES,
    **TYPES,
    grid=grid,
    gridsize=gridsize,
    warpsize=WARP,
    atomic=_module("cuda.atomic", add=atomic_add),
    local=_module("cuda.local", array=_local_array),
    fma=_fma,
    selp=_selp,
    cbrt=np.cbrt,
)
