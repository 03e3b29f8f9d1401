"""Calls of NumPy's ufuncs on tensors, with their arguments and methods: `dtype=`, `reduce`,
`accumulate`, `outer`, `at`."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from numba_grad.autograd import state
from numba_grad.errors import DTypeError, explain
from numba_grad.frontend.arrays import (
    WEAK,
    ArrayLike,
    as_node,
    as_optional_dtype,
    node_of,
    operands,
    wrap,
)
from numba_grad.frontend.index_functions import index_of_nodes, mask_value
from numba_grad.frontend.numpy_functions import of_accumulate, of_reduce, of_scipy, of_ufunc
from numba_grad.ops.families import cast, reshape
from numba_grad.ops.index_expressions import add_at_index

Function = Callable[..., Any]


@functools.cache
def call_of(ufunc: np.ufunc, method: str) -> Function | None:
    """What stands for a ufunc, or one of its methods; None if nothing does."""
    function = of_ufunc.get(ufunc) or of_scipy(ufunc)
    if method == "reduce":
        return of_reduce.get(ufunc)
    if method == "accumulate":
        return of_accumulate.get(ufunc)
    if method == "at":
        return _adding_at(ufunc) if ufunc in (np.add, np.subtract) else None
    if function is None or method == "reduceat":
        return None
    is_elementwise = ufunc.signature is None
    if method == "outer":
        return _outer(ufunc, function) if is_elementwise and ufunc.nin == 2 else None
    return _with_dtype(ufunc, function) if is_elementwise else function


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
                fix=f"ng.where(mask, {name}(...), 0)",
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
    kinds = [x.__class__ if x.__class__ in WEAK else as_node(x).dtype for x in inputs]
    signature = (None,) * ufunc.nin + (wanted,) * ufunc.nout
    try:
        loop = ufunc.resolve_dtypes(
            (*kinds, *(None,) * ufunc.nout), signature=signature, casting=casting
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


def _adding_at(ufunc: np.ufunc) -> Function:
    def at(x: Any, indices: Any, v: ArrayLike, /) -> None:
        """Add to, or subtract from, elements of the tensor `x`, whose new value it becomes:
        duplicates count each time."""
        node = node_of(x)
        if node is None:
            raise TypeError(
                explain(
                    f"numpy.{ufunc.__name__}.at",
                    "cannot write tensors into an array",
                    got={"x": type(x).__name__},
                    expected="a tensor to add to",
                    fix="ng.tensor(x)",
                )
            )
        _, term = operands(ufunc, (x, v))
        if not np.can_cast(term.dtype, node.dtype, "same_kind"):
            raise DTypeError(
                explain(
                    f"numpy.{ufunc.__name__}.at",
                    "the result would not fit in x",
                    got={"x": node.type, "v": as_node(v).type},
                    fix=f"x = x.astype({term.dtype.name!r}), before",
                )
            )
        index = index_of_nodes(indices)
        term = -term if ufunc is np.subtract else term
        state.replace(x, add_at_index(node, index, term, mask_value))

    return at
