"""Which of our functions stands for which of NumPy's, and adapters where arguments differ."""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from numba_grad.frontend import (
    apply_functions,
    assignment_functions,
    calculus_functions,
    choice_functions,
    comparison_functions,
    contraction_functions,
    counting_functions,
    creation,
    dtype_functions,
    einsum,
    elementwise_functions,
    fft,
    index_arrays,
    index_functions,
    interchange,
    joining_functions,
    linalg,
    number_functions,
    padding,
    ranges,
    reduction_functions,
    scan_functions,
    set_functions,
    shape_functions,
    signal_functions,
    sorting_functions,
    special,
    statistics_functions,
)

Function = Callable[..., Any]

of_ufunc: dict[np.ufunc, Function] = {
    **elementwise_functions.of_ufunc,
    **number_functions.of_ufunc,
    np.matmul: contraction_functions.matmul,
    np.matvec: contraction_functions.matvec,
    np.vecmat: contraction_functions.vecmat,
    np.vecdot: contraction_functions.vecdot,
}

# `np.add.reduce(x, axis)`, over axis 0 by default.
of_reduce: dict[np.ufunc, Function] = {
    np.add: reduction_functions.sum,
    np.multiply: reduction_functions.prod,
    np.maximum: reduction_functions.max,
    np.minimum: reduction_functions.min,
    np.fmax: statistics_functions.nanmax,
    np.fmin: statistics_functions.nanmin,
    np.logaddexp: reduction_functions.logsumexp,
    np.logical_and: reduction_functions.all,
    np.logical_or: reduction_functions.any,
}

# `np.add.accumulate(x, axis)`, along axis 0 by default.
of_accumulate: dict[np.ufunc, Function] = {
    np.add: scan_functions.cumsum,
    np.multiply: scan_functions.cumprod,
    np.maximum: scan_functions.cummax,
    np.minimum: scan_functions.cummin,
    np.logaddexp: scan_functions.logcumsumexp,
}

_same_names = {
    np: (
        (elementwise_functions, "angle around isclose nan_to_num real imag round sinc"),
        (
            number_functions,
            "fix iscomplex iscomplexobj isneginf isposinf isreal isrealobj",
        ),
        (
            reduction_functions,
            "all any argmax argmin count_nonzero max mean min prod ptp std sum var",
        ),
        (
            shape_functions,
            "atleast_1d atleast_2d atleast_3d broadcast_arrays broadcast_to diff expand_dims flip "
            "fliplr flipud matrix_transpose moveaxis ndim ravel repeat reshape resize roll "
            "rollaxis rot90 shape size squeeze swapaxes tile transpose",
        ),
        (
            joining_functions,
            "append array_split block column_stack concatenate delete dsplit dstack hsplit hstack "
            "insert split stack trim_zeros unstack vsplit vstack",
        ),
        (apply_functions, "apply_along_axis apply_over_axes"),
        (padding, "pad"),
        (index_functions, "nonzero take take_along_axis"),
        (scan_functions, "cumprod cumsum cumulative_prod cumulative_sum"),
        (
            sorting_functions,
            "argpartition argsort digitize isin lexsort partition searchsorted sort sort_complex",
        ),
        (
            set_functions,
            "intersect1d setdiff1d setxor1d union1d unique unique_all unique_counts "
            "unique_inverse unique_values",
        ),
        (
            choice_functions,
            "argwhere choose compress extract flatnonzero piecewise select",
        ),
        (
            assignment_functions,
            "copyto fill_diagonal place put put_along_axis putmask",
        ),
        (
            index_arrays,
            "diag_indices_from ix_ ravel_multi_index tril_indices_from triu_indices_from "
            "unravel_index",
        ),
        (comparison_functions, "allclose array_equal array_equiv"),
        (contraction_functions, "diag diagflat diagonal dot inner outer tensordot trace vdot"),
        (
            statistics_functions,
            "average corrcoef cov median nanargmax nanargmin nancumprod nancumsum nanmax nanmean "
            "nanmedian nanmin nanpercentile nanprod nanquantile nanstd nansum nanvar percentile "
            "quantile",
        ),
        (signal_functions, "convolve correlate ediff1d interp"),
        (counting_functions, "bincount histogram"),
        (calculus_functions, "cross gradient kron polyval trapezoid unwrap vander"),
        (
            creation,
            "array asarray copy empty empty_like eye frombuffer fromiter full full_like identity "
            "meshgrid ones ones_like tri tril triu zeros zeros_like",
        ),
        (ranges, "arange fromfunction geomspace linspace logspace"),
        (interchange, "save savez savez_compressed"),
        (dtype_functions, "can_cast isdtype result_type"),
        (special, "i0"),
    ),
    np.linalg: (
        (
            linalg,
            "cholesky cond cross det diagonal eig eigh eigvals eigvalsh inv lstsq matmul "
            "matrix_norm matrix_power matrix_rank matrix_transpose multi_dot norm outer pinv qr "
            "slogdet solve svd svdvals tensordot tensorinv tensorsolve trace vecdot vector_norm",
        ),
    ),
}


def _clip(a: Any, a_min: Any = None, a_max: Any = None, *, min: Any = None, max: Any = None) -> Any:
    low = min if a_min is None else a_min
    return elementwise_functions.clip(a, low, max if a_max is None else a_max)


of_function: dict[Function, Function] = {
    getattr(module, name): getattr(ours, name)
    for module, families in _same_names.items()
    for ours, names in families
    for name in names.split()
}
of_function.update(
    {
        np.where: elementwise_functions.where,
        np.clip: _clip,
        np.einsum: einsum.einsum,
        np.einsum_path: einsum.einsum_path,
        np.array_repr: lambda arr: repr(arr),
        np.array_str: lambda a: str(a),
    }
)


def of_scipy(ufunc: np.ufunc) -> Function | None:
    """Our function for a ufunc of scipy.special: by name, so that SciPy need not be imported."""
    name = ufunc.__name__
    if name in special.__all__ and getattr(sys.modules.get("scipy.special"), name, None) is ufunc:
        return getattr(special, name)
    return None


def counterpart(function: Function) -> Function | None:
    """Our function for one of NumPy's, if there is one."""
    found = of_function.get(function)
    # By name: NumPy imports this module when it is first used, which takes a millisecond.
    if found is None and function.__module__ == "numpy.fft" and function.__name__ in fft.__all__:
        return getattr(fft, function.__name__)
    return found


def supported_names() -> list[str]:
    """NumPy's names of all that has a counterpart, with modules; those of numpy itself last."""
    names = [f"numpy.fft.{name}" for name in fft.__all__]
    names += [f"scipy.special.{name}" for name in special.__all__]
    names += [f"{function.__module__}.{function.__name__}" for function in of_function]
    names += [f"numpy.{ufunc.__name__}" for ufunc in of_ufunc]
    return sorted(names, key=lambda name: -name.count("."))
