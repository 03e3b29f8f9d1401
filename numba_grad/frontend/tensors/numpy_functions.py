"""Which of our functions stands for which of NumPy's, and adapters where arguments differ."""

import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from numba_grad.frontend import functions, polynomials
from numba_grad.frontend.functions import (
    contractions,
    creation,
    elementwise,
    indexing,
    numbers,
    powers,
    shapes,
)
from numba_grad.frontend.inputs.arrays import as_node, value_of
from numba_grad.frontend.namespaces import namespace
from numba_grad.frontend.tensors import absent_attributes, interchange
from numba_grad.graph.walk import is_traced

Function = Callable[..., Any]

of_ufunc: dict[np.ufunc, Function] = {
    **elementwise.of_ufunc,
    **numbers.of_ufunc,
    **powers.of_ufunc,
    np.matmul: contractions.matmul,
    np.matvec: contractions.matvec,
    np.vecmat: contractions.vecmat,
    np.vecdot: contractions.vecdot,
}

# Their public functions that NumPy has under the same names stand for NumPy's.
_MODULES = (*functions.modules(), interchange, polynomials)
# But for those that no tensor comes to: they take neither arrays nor `like=`, or make NumPy's.
_numpys_alone = frozenset(
    (
        *("bartlett", "blackman", "hamming", "hanning", "kaiser"),
        *("diag_indices", "indices", "mask_indices", "tril_indices", "triu_indices"),
        *("broadcast_shapes", "from_dlpack", "load", "loadtxt", "promote_types"),
    )
)


def _of_same_names() -> Iterator[tuple[Function, Function]]:
    for module in _MODULES:
        for name in module.__all__:
            theirs: Any = getattr(np, name, None)
            is_function = callable(theirs) and not isinstance(theirs, type | np.ufunc)
            # Under an alias, NumPy's functions have another name.
            if is_function and theirs.__name__ == name and name not in _numpys_alone:
                yield theirs, getattr(module, name)


def _clip(a: Any, a_min: Any = None, a_max: Any = None, *, min: Any = None, max: Any = None) -> Any:
    low = min if a_min is None else a_min
    return elementwise.clip(a, low, max if a_max is None else a_max)


def _array2string(a: Any, *positional: Any, **arguments: Any) -> str:
    node = as_node(a)
    if is_traced(node):
        return str(a)  # as f"{a}"
    return np.array2string(value_of(node, "numpy.array2string"), *positional, **arguments)


def _array_repr(
    arr: Any, max_line_width: Any = None, precision: Any = None, suppress_small: Any = None
) -> str:
    with np.printoptions(**_options(max_line_width, precision, suppress_small)):
        return repr(arr)


def _array_str(
    a: Any, max_line_width: Any = None, precision: Any = None, suppress_small: Any = None
) -> str:
    with np.printoptions(**_options(max_line_width, precision, suppress_small)):
        return str(a)


def _require(a: Any, dtype: Any = None, requirements: Any = None) -> Any:
    """`requirements` are about memory: nobody writes to that of a tensor, nor sees its order."""
    return creation.asarray(a, dtype)


def _broadcast_arrays(*args: Any, subok: bool = False) -> list[Any]:
    """Arrays of text and objects, such as the None of an option of matplotlib's, stay NumPy's."""
    others = {k: np.asarray(x) for k, x in enumerate(args) if _is_no_number(x)}
    if not others:
        return shapes.broadcast_arrays(*args)
    of_numbers = [x for k, x in enumerate(args) if k not in others]
    sizes = [np.shape(x) for x in (*of_numbers, *others.values())]
    shape = shapes.broadcast_shapes(*sizes)
    return [
        np.broadcast_to(others[k], shape) if k in others else shapes.broadcast_to(x, shape)
        for k, x in enumerate(args)
    ]


def _is_no_number(x: Any) -> bool:
    return x is None or isinstance(x, str) or (isinstance(x, np.ndarray) and x.dtype.kind in "OSU")


def _on_memory(function: Function) -> Function:
    """A question about memory, asked of tensors' values. NumPy's generators ask it, too."""

    def of_values(a: Any, b: Any, max_work: int | None = None) -> bool:
        name = f"numpy.{function.__name__}"
        pair = [x if isinstance(x, np.ndarray) else value_of(as_node(x), name) for x in (a, b)]
        return function(*pair, max_work=max_work)

    return of_values


def _options(width: Any, precision: Any, suppress: Any) -> dict[str, Any]:
    given = {"linewidth": width, "precision": precision, "suppress": suppress}
    return {name: value for name, value in given.items() if value is not None}


of_function: dict[Function, Function] = dict(_of_same_names())
of_function.update(
    {
        np.clip: _clip,
        np.i0: lambda x: namespace("special").i0(x),
        np.array2string: _array2string,
        np.broadcast_arrays: _broadcast_arrays,
        np.array_repr: _array_repr,
        np.array_str: _array_str,
        np.asanyarray: creation.asarray,
        np.asfortranarray: creation.ascontiguousarray,
        np.may_share_memory: _on_memory(np.may_share_memory),
        np.require: _require,
        np.lib.stride_tricks.sliding_window_view: indexing.sliding_window_view,
        np.shares_memory: _on_memory(np.shares_memory),
    }
)
absent_attributes.register(of_ufunc)
absent_attributes.register(of_function)


# Modules whose functions are found by name. NumPy imports some of them when they are first used, we
# all of ours; and SciPy must not be imported for this.
_COUNTERPARTS = {
    "numpy.fft": "fft",
    "numpy.lib.scimath": "emath",
    "numpy.linalg": "linalg",
    "scipy.special": "special",
}


def of_scipy(ufunc: np.ufunc) -> Function | None:
    """Our function for a ufunc of scipy.special."""
    name = ufunc.__name__
    if getattr(sys.modules.get("scipy.special"), name, None) is not ufunc:
        return None
    return _named("special", name)


# What NumPy calls for `like=tensor`, which it does not pass on: nothing else takes it there.
MADE_LIKE = frozenset(
    (
        *(np.arange, np.array, np.asanyarray, np.asarray, np.ascontiguousarray),
        *(np.asfortranarray, np.empty, np.eye, np.frombuffer, np.fromfile, np.fromfunction),
        *(np.fromiter, np.fromstring, np.full, np.identity, np.loadtxt, np.ones, np.require),
        *(np.tri, np.zeros),
    )
)


def counterpart(function: Function) -> Function | None:
    """Our function for one of NumPy's, if there is one."""
    ours = _COUNTERPARTS.get(function.__module__)
    if ours is not None:
        return _named(ours, function.__name__)
    return of_function.get(function)


def _named(module: str, name: str) -> Function | None:
    public = namespace(module)
    return getattr(public, name) if name in public.__all__ else None


def supported_names() -> list[str]:
    """NumPy's names of all that has a counterpart, with modules; those of numpy itself last."""
    names = [
        f"{module}.{name}"
        for module, ours in _COUNTERPARTS.items()
        for name in namespace(ours).__all__
    ]
    names += [f"{function.__module__}.{function.__name__}" for function in of_function]
    names += [f"numpy.{ufunc.__name__}" for ufunc in of_ufunc]
    return sorted(names, key=lambda name: -name.count("."))
