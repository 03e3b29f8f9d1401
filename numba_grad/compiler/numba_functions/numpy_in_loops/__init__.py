"""Functions of NumPy as loops that are differentiated like a user's: translated in their place.

Each is for the numbers of axes that `FUNCTIONS` names; others are refused. Values are those of
NumPy to rounding, as Numba's own. The derivative of what is sorted, searched or selected is that of
what is taken; places have none. Who calls another of these does so by its name in NumPy, as Numba
would compile a function that is called here for its type; `eliminated`, which NumPy does not have,
has its type in `numba_ir/type_inference.py`.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from numba_grad.compiler.numba_functions.numpy_in_loops import (
    linear_algebra,
    ordering,
    selections,
    sequences,
)

FUNCTIONS: dict[Any, dict[tuple[int | str, ...], Callable[..., Any]]] = {
    np.nonzero: {(1,): selections.places_of_true},
    np.flatnonzero: {(1,): selections.places_alone},
    np.where: {(1,): selections.places_of_true},
    np.cumsum: {
        (1,): sequences.cumulative_sum,
        (2,): sequences.cumulative_sum_of_matrix,
        (2, 0): sequences.cumulative_sum_along,
    },
    np.cumprod: {
        (1,): sequences.cumulative_product,
        (2,): sequences.cumulative_product_of_matrix,
    },
    np.diff: {
        (1,): sequences.differences,
        (2,): sequences.differences_of_rows,
        (1, 0): sequences.repeated_differences,
        (2, 0): sequences.repeated_differences_of_rows,
    },
    np.ediff1d: {(1,): sequences.differences},
    np.roll: {(1, 0): sequences.rolled, (2, 0): sequences.rolled_matrix},
    np.append: {(1, 1): sequences.joined, (1, 0): sequences.with_one_more},
    np.correlate: {(1, 1): sequences.correlation},
    np.average: {
        (1,): sequences.mean,
        (2,): sequences.mean,
        (1, 1): sequences.weighted_average,
    },
    np.vander: {(1,): sequences.all_powers, (1, 0): sequences.powers},
    np.nansum: {(1,): sequences.sum_but_nan},
    np.nanmean: {(1,): sequences.mean_but_nan},
    np.nanmin: {(1,): ordering.least_but_nan},
    np.nanmax: {(1,): ordering.largest_but_nan},
    np.argmax: {(2,): ordering.place_of_largest, (2, 0): ordering.places_of_largest},
    np.argmin: {(2,): ordering.place_of_least, (2, 0): ordering.places_of_least},
    np.quantile: {(1, 0): ordering.quantile, (1, 1): ordering.quantiles},
    np.percentile: {(1, 0): ordering.percentile, (1, 1): ordering.percentiles},
    sum: {(1,): sequences.total},
    min: {(1,): ordering.least},
    max: {(1,): ordering.largest},
    sorted: {(1,): ordering.in_order},
    ordering.put_in_order: {(1,): ordering.put_in_order},
    np.trace: {(2,): sequences.trace},
    np.diag: {(1,): sequences.diagonal_matrix, (2,): sequences.diagonal},
    np.tril: {(2,): sequences.lower_triangle, (2, 0): sequences.lower_triangle},
    np.triu: {(2,): sequences.upper_triangle, (2, 0): sequences.upper_triangle},
    np.cross: {(1, 1): sequences.cross_product},
    np.convolve: {(1, 1): sequences.convolution},
    np.sort: {(1,): ordering.in_order},
    np.argsort: {(1,): ordering.order_of},
    np.array_equal: {(rank, rank): selections.are_equal for rank in (1, 2, 3)},
    np.take: {(1, 1): selections.taken},
    np.repeat: {(1, 0): sequences.repeated},
    np.kron: {(2, 2): sequences.kronecker_product},
    np.median: {(1,): ordering.median},
    np.interp: {(1, 1, 1): sequences.interpolated, (0, 1, 1): sequences.interpolated_at},
    np.searchsorted: {
        (1, 0): ordering.place_in_sorted,
        (1, 0, "right"): ordering.place_after_equals,
    },
    np.linalg.solve: {(2, 1): linear_algebra.solution, (2, 2): linear_algebra.solution_of_columns},
    np.linalg.inv: {(2,): linear_algebra.inverse},
    np.linalg.det: {(2,): linear_algebra.determinant},
    linear_algebra.eliminated: {(2,): linear_algebra.eliminated},
    np.linalg.slogdet: {(2,): linear_algebra.sign_and_log_of_determinant},
    np.linalg.cholesky: {(2,): linear_algebra.cholesky_factor},
}
for _name in ("trapz", "trapezoid"):
    if hasattr(np, _name):
        FUNCTIONS[getattr(np, _name)] = {
            (1,): sequences.trapezoids,
            (1, 0): sequences.trapezoids,
            (1, 1): sequences.trapezoids_between,
        }
# Those that are right for complex arrays, too.
OF_COMPLEX = (
    *(np.nonzero, np.flatnonzero, np.where, np.cumsum, np.cumprod, np.diff, np.roll, np.trace),
    *(np.diag, np.tril, np.triu, np.linalg.solve, np.linalg.inv, np.linalg.det),
    linear_algebra.eliminated,
)
METHODS: dict[str, Any] = {
    "cumsum": np.cumsum,
    "cumprod": np.cumprod,
    "trace": np.trace,
    "nonzero": np.nonzero,
    "argsort": np.argsort,
    "repeat": np.repeat,
    "argmax": np.argmax,
    "argmin": np.argmin,
    "sort": ordering.put_in_order,
}
# What stands for `a[index]` and `a[index] = values`: by numbers of axes of the array, of the index,
# and of the values. The last are for indices that are integers.
SELECTED = {
    (1, 1): selections.compressed,
    (2, 1): selections.compressed_rows,
    (2, 2): selections.compressed_matrix,
}
PUT = {
    (1, 1, 0): selections.put_number,
    (2, 1, 0): selections.put_number_in_rows,
    (2, 2, 0): selections.put_number_in_matrix,
    (1, 1, 1): selections.put_array,
    (2, 2, 1): selections.put_array_in_matrix,
}
PUT_AT = {
    (1, 1, 0): selections.put_number_at,
    (1, 1, 1): selections.put_array_at,
    (2, 1, 0): selections.put_number_in_rows_at,
    (2, 1, 1): selections.put_row_at,
    (2, 1, 2): selections.put_rows_at,
}
