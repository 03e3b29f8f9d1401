"""Calls of NumPy's ufuncs on tensors, with their arguments, and which function a method is."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from numba_grad.errors import DTypeError, explain
from numba_grad.frontend.inputs.arrays import (
    ArrayLike,
    as_node,
    as_optional_dtype,
    weak_class,
    wrap,
)
from numba_grad.frontend.tensors.numpy_functions import of_scipy, of_ufunc
from numba_grad.frontend.tensors.ufunc_methods import accumulate_of, at_of, reduce_of, reduceat_of
from numba_grad.ops.families import cast, reshape

Function = Callable[..., Any]


@functools.cache
def call_of(ufunc: np.ufunc, method: str) -> Function | None:
    """What stands for a ufunc, or one of its methods; None if nothing does."""
    function = of_ufunc.get(ufunc) or of_scipy(ufunc)
    if function is None:
        return None
    is_elementwise = ufunc.signature is None
    if method == "__call__":
        return _with_dtype(ufunc, function) if is_elementwise else function
    if method == "outer":
        return _outer(ufunc, function) if is_elementwise and ufunc.nin == 2 else None
    if method == "at":
        return at_of(ufunc, function) if is_elementwise and ufunc.nout == 1 else None
    return _folds[method](ufunc, function)


_folds = {"reduce": reduce_of, "accumulate": accumulate_of, "reduceat": reduceat_of}


def without_defaults(name: str, method: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """The keyword arguments that say something.

    Raises
    ------
    TypeError
        For a mask of a call, since the elements that it leaves out would have no value.
    """
    defaults = {"where": True, "subok": True, "order": "K", "initial": np._NoValue}
    left = {
        key: value
        for key, value in arguments.items()
        if not (key in defaults and value is defaults[key])
    }
    if "where" in left and method != "reduce":
        raise TypeError(
            explain(
                name,
                "where= is not supported on tensors: without out=, other elements are undefined",
                fix=f"ng.where(mask, {name}(...), 0); of ng.where(mask, x, 1), where a gradient "
                "outside the mask would not be finite",
            )
        )
    return left


def _with_dtype(ufunc: np.ufunc, function: Function) -> Function:
    """The ufunc with NumPy's arguments that choose a loop."""

    def call(*inputs: ArrayLike, dtype: object = None, casting: Any = "same_kind") -> Any:
        wanted = as_optional_dtype(dtype)
        if wanted is None and casting == "same_kind":
            return function(*inputs)
        return function(*_cast_for_loop(ufunc, inputs, wanted, casting))

    return call


def _cast_for_loop(
    ufunc: np.ufunc, inputs: tuple[ArrayLike, ...], wanted: np.dtype | None, casting: Any
) -> list[Any]:
    """The inputs in the dtypes of the loop whose results are of the `wanted` dtype."""
    kinds = [weak_class(x) or as_node(x).dtype for x in inputs]
    signature = (None,) * ufunc.nin + (wanted,) * ufunc.nout
    try:
        loop = ufunc.resolve_dtypes(
            (*kinds, *(None,) * ufunc.nout),
            signature=signature,
            # The same, as tensors have one order of bytes. NumPy 2.4 crashes where "equiv" refuses.
            casting="no" if casting == "equiv" else casting,
        )
    except TypeError as error:
        raise DTypeError(
            explain(
                ufunc.__name__,
                "no loop for these dtypes",
                got={
                    **{f"x{k + 1}": getattr(kind, "name", kind) for k, kind in enumerate(kinds)},
                    "dtype": wanted,
                    "casting": casting,
                },
                fix="x.astype(dtype), which converts in every way",
            )
        ) from error
    return [
        wrap(cast(as_node(x), np.dtype(dtype.name))) for x, dtype in zip(inputs, loop, strict=False)
    ]


def _outer(ufunc: np.ufunc, function: Function) -> Function:
    call = _with_dtype(ufunc, function)

    def outer(
        a: ArrayLike, b: ArrayLike, /, *, dtype: object = None, casting: Any = "same_kind"
    ) -> Any:
        """The function of each element of `a` with each of `b`: shape a.shape + b.shape."""
        x, rank = as_node(a), len(as_node(b).shape)
        columns = wrap(reshape(x, x.shape + (1,) * rank))
        return call(columns, as_node(b), dtype=dtype, casting=casting)

    return outer
