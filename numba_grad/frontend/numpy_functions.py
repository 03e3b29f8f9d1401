"""Which of our functions stands for which of NumPy's, and adapters where arguments differ."""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from numba_grad.frontend import interchange, polynomials
from numba_grad.frontend.arrays import as_node, value_of
from numba_grad.frontend.functions import (
    along_axes,
    assignments,
    bits,
    calculus,
    choosing,
    comparisons,
    contractions,
    counting,
    creation,
    dtypes,
    einsum,
    elementwise,
    index_arrays,
    indexing,
    joining,
    nans,
    numbers,
    order_statistics,
    padding,
    ranges,
    reductions,
    samples,
    scans,
    sets,
    shapes,
    sorting,
    statistics,
)
from numba_grad.frontend.namespaces import namespace

Function = Callable[..., Any]

of_ufunc: dict[np.ufunc, Function] = {
    **elementwise.of_ufunc,
    **numbers.of_ufunc,
    np.matmul: contractions.matmul,
    np.matvec: contractions.matvec,
    np.vecmat: contractions.vecmat,
    np.vecdot: contractions.vecdot,
}

_same_names = (
    (elementwise, "angle around astype isclose nan_to_num real imag round sinc"),
    (
        numbers,
        "fix iscomplex iscomplexobj isneginf isposinf isreal isrealobj real_if_close",
    ),
    (
        reductions,
        "all amax amin any argmax argmin count_nonzero max mean min prod ptp std sum var",
    ),
    (
        shapes,
        "atleast_1d atleast_2d atleast_3d broadcast_arrays broadcast_to diff expand_dims flip "
        "fliplr flipud matrix_transpose moveaxis ndim ravel repeat reshape resize roll "
        "rollaxis rot90 shape size squeeze swapaxes tile transpose",
    ),
    (
        joining,
        "append array_split block column_stack concatenate delete dsplit dstack hsplit hstack "
        "insert split stack trim_zeros unstack vsplit vstack",
    ),
    (along_axes, "apply_along_axis apply_over_axes"),
    (padding, "pad"),
    (indexing, "nonzero take take_along_axis"),
    (scans, "cumprod cumsum cumulative_prod cumulative_sum"),
    (
        sorting,
        "argpartition argsort digitize isin lexsort partition searchsorted sort sort_complex",
    ),
    (
        sets,
        "intersect1d setdiff1d setxor1d union1d unique unique_all unique_counts "
        "unique_inverse unique_values",
    ),
    (
        choosing,
        "argwhere choose compress extract flatnonzero piecewise select",
    ),
    (
        assignments,
        "copyto fill_diagonal place put put_along_axis putmask",
    ),
    (
        index_arrays,
        "diag_indices_from ix_ ravel_multi_index tril_indices_from triu_indices_from unravel_index",
    ),
    (comparisons, "allclose array_equal array_equiv"),
    (contractions, "diag diagflat diagonal dot inner outer tensordot trace vdot"),
    (
        nans,
        "nanargmax nanargmin nancumprod nancumsum nanmax nanmean nanmin nanprod nanstd nansum "
        "nanvar",
    ),
    (
        polynomials,
        "poly polyadd polyder polydiv polyfit polyint polymul polysub polyval roots",
    ),
    (order_statistics, "median nanmedian nanpercentile nanquantile percentile quantile"),
    (statistics, "average corrcoef cov"),
    (samples, "convolve correlate ediff1d interp"),
    (counting, "bincount histogram histogram2d histogram_bin_edges histogramdd"),
    (calculus, "cross gradient kron trapezoid unwrap vander"),
    (
        creation,
        "array asarray ascontiguousarray copy empty empty_like eye frombuffer fromiter full "
        "full_like identity meshgrid ones ones_like tri tril triu zeros zeros_like",
    ),
    (ranges, "arange fromfunction geomspace linspace logspace"),
    (interchange, "fromfile fromstring save savez savez_compressed"),
    (dtypes, "can_cast common_type isdtype result_type"),
    (bits, "packbits unpackbits"),
)


def _clip(a: Any, a_min: Any = None, a_max: Any = None, *, min: Any = None, max: Any = None) -> Any:
    low = min if a_min is None else a_min
    return elementwise.clip(a, low, max if a_max is None else a_max)


def _array2string(a: Any, *positional: Any, **arguments: Any) -> str:
    return np.array2string(value_of(as_node(a), "numpy.array2string"), *positional, **arguments)


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


def _options(width: Any, precision: Any, suppress: Any) -> dict[str, Any]:
    given = {"linewidth": width, "precision": precision, "suppress": suppress}
    return {name: value for name, value in given.items() if value is not None}


of_function: dict[Function, Function] = {
    getattr(np, name): getattr(module, name)
    for module, names in _same_names
    for name in names.split()
}
of_function.update(
    {
        np.where: elementwise.where,
        np.clip: _clip,
        np.einsum: einsum.einsum,
        np.einsum_path: einsum.einsum_path,
        np.i0: lambda x: namespace("special").i0(x),
        np.array2string: _array2string,
        np.array_repr: _array_repr,
        np.array_str: _array_str,
        np.asanyarray: creation.asarray,
        np.asfortranarray: creation.ascontiguousarray,
        np.require: _require,
    }
)


# Modules whose functions are found by name. NumPy imports some of them when they are first used, we
# all of ours; and SciPy must not be imported for this.
_COUNTERPARTS = {"numpy.fft": "fft", "numpy.linalg": "linalg", "scipy.special": "special"}


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
