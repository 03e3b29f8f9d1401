"""Functions of NumPy as loops that are differentiated like a user's: translated in their place.

Each is for the numbers of axes that `FUNCTIONS` names; others are refused. Values are those of
NumPy to rounding, as Numba's own. The derivative of what is sorted, searched or selected is that of
what is taken; places have none. Who calls another of these does so by its name in NumPy, as Numba
would compile a function that is called here for its type.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

Array = Any  # Numba finds the types.


def compressed(a: Array, mask: Array) -> Array:
    """`a[mask]`, both with one axis."""
    if mask.shape[0] != a.shape[0]:
        raise IndexError("an index of bools that is not as long as the array")
    count = 0
    for i in range(mask.shape[0]):
        if mask[i]:
            count += 1
    out = np.empty(count, a.dtype)
    k = 0
    for i in range(mask.shape[0]):
        if mask[i]:
            out[k] = a[i]
            k += 1
    return out


def places_of_true(a: Array) -> tuple[Array]:
    """`np.nonzero` of an array with one axis."""
    count = 0
    for i in range(a.shape[0]):
        if a[i]:
            count += 1
    out = np.empty(count, np.int64)
    k = 0
    for i in range(a.shape[0]):
        if a[i]:
            out[k] = i
            k += 1
    return (out,)


def places_alone(a: Array) -> Array:
    return np.nonzero(a)[0]


def compressed_rows(a: Array, mask: Array) -> Array:
    """`a[mask]` of an array with two axes and a mask with one."""
    if mask.shape[0] != a.shape[0]:
        raise IndexError("an index of bools that is not as long as the array")
    count = 0
    for i in range(mask.shape[0]):
        if mask[i]:
            count += 1
    out = np.empty((count, a.shape[1]), a.dtype)
    k = 0
    for i in range(mask.shape[0]):
        if mask[i]:
            for j in range(a.shape[1]):
                out[k, j] = a[i, j]
            k += 1
    return out


def compressed_matrix(a: Array, mask: Array) -> Array:
    """`a[mask]`, both with two axes."""
    if mask.shape[0] != a.shape[0] or mask.shape[1] != a.shape[1]:
        raise IndexError("an index of bools that has not the shape of the array")
    count = 0
    for i in range(mask.shape[0]):
        for j in range(mask.shape[1]):
            if mask[i, j]:
                count += 1
    out = np.empty(count, a.dtype)
    k = 0
    for i in range(mask.shape[0]):
        for j in range(mask.shape[1]):
            if mask[i, j]:
                out[k] = a[i, j]
                k += 1
    return out


def put_number(a: Array, mask: Array, value: Any) -> None:
    """`a[mask] = value`, a number; both with one axis."""
    if mask.shape[0] != a.shape[0]:
        raise IndexError("an index of bools that is not as long as the array")
    for i in range(mask.shape[0]):
        if mask[i]:
            a[i] = value


def put_number_in_rows(a: Array, mask: Array, value: Any) -> None:
    """`a[mask] = value`, a number, of an array with two axes and a mask with one."""
    if mask.shape[0] != a.shape[0]:
        raise IndexError("an index of bools that is not as long as the array")
    for i in range(mask.shape[0]):
        if mask[i]:
            for j in range(a.shape[1]):
                a[i, j] = value


def put_number_in_matrix(a: Array, mask: Array, value: Any) -> None:
    """`a[mask] = value`, a number; both with two axes."""
    if mask.shape[0] != a.shape[0] or mask.shape[1] != a.shape[1]:
        raise IndexError("an index of bools that has not the shape of the array")
    for i in range(mask.shape[0]):
        for j in range(mask.shape[1]):
            if mask[i, j]:
                a[i, j] = value


def put_array(a: Array, mask: Array, values: Array) -> None:
    """`a[mask] = values`, all with one axis."""
    if mask.shape[0] != a.shape[0]:
        raise IndexError("an index of bools that is not as long as the array")
    count = 0
    for i in range(mask.shape[0]):
        if mask[i]:
            count += 1
    if values.shape[0] != count and values.shape[0] != 1:
        raise ValueError("as many values as an index of bools selects, or one")
    k = 0
    for i in range(mask.shape[0]):
        if mask[i]:
            a[i] = values[k if values.shape[0] > 1 else 0]
            k += 1


def put_array_in_matrix(a: Array, mask: Array, values: Array) -> None:
    """`a[mask] = values`, an array with one axis; the others have two."""
    if mask.shape[0] != a.shape[0] or mask.shape[1] != a.shape[1]:
        raise IndexError("an index of bools that has not the shape of the array")
    count = 0
    for i in range(mask.shape[0]):
        for j in range(mask.shape[1]):
            if mask[i, j]:
                count += 1
    if values.shape[0] != count and values.shape[0] != 1:
        raise ValueError("as many values as an index of bools selects, or one")
    k = 0
    for i in range(mask.shape[0]):
        for j in range(mask.shape[1]):
            if mask[i, j]:
                a[i, j] = values[k if values.shape[0] > 1 else 0]
                k += 1


def put_number_at(a: Array, places: Array, value: Any) -> None:
    """`a[places] = value`, a number; places are integers."""
    for k in range(places.shape[0]):
        a[places[k]] = value


def put_array_at(a: Array, places: Array, values: Array) -> None:
    """`a[places] = values`: of equal places, the last one is there."""
    if values.shape[0] != places.shape[0] and values.shape[0] != 1:
        raise ValueError("as many values as places, or one")
    for k in range(places.shape[0]):
        a[places[k]] = values[k if values.shape[0] > 1 else 0]


def cumulative_sum(a: Array) -> Array:
    out = np.empty(a.shape[0], a.dtype)
    for i in range(a.shape[0]):
        if i == 0:
            out[i] = a[i]
        else:
            out[i] = out[i - 1] + a[i]
    return out


def cumulative_product(a: Array) -> Array:
    out = np.empty(a.shape[0], a.dtype)
    for i in range(a.shape[0]):
        if i == 0:
            out[i] = a[i]
        else:
            out[i] = out[i - 1] * a[i]
    return out


def differences(a: Array) -> Array:
    return a[1:] - a[:-1]


def differences_of_rows(a: Array) -> Array:
    return a[:, 1:] - a[:, :-1]


def rolled(a: Array, shift: int) -> Array:
    out = np.empty(a.shape[0], a.dtype)
    for i in range(a.shape[0]):
        out[(i + shift) % a.shape[0]] = a[i]
    return out


def trace(a: Array) -> Any:
    total = 0.0
    for i in range(min(a.shape[0], a.shape[1])):
        total += a[i, i]
    return total


def diagonal_matrix(a: Array) -> Array:
    out = np.zeros((a.shape[0], a.shape[0]), a.dtype)
    for i in range(a.shape[0]):
        out[i, i] = a[i]
    return out


def diagonal(a: Array) -> Array:
    out = np.empty(min(a.shape[0], a.shape[1]), a.dtype)
    for i in range(out.shape[0]):
        out[i] = a[i, i]
    return out


def lower_triangle(a: Array, k: int = 0) -> Array:
    out = np.zeros(a.shape, a.dtype)
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            if j <= i + k:
                out[i, j] = a[i, j]
    return out


def upper_triangle(a: Array, k: int = 0) -> Array:
    out = np.zeros(a.shape, a.dtype)
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            if j >= i + k:
                out[i, j] = a[i, j]
    return out


def cross_product(a: Array, b: Array) -> Array:
    if a.shape[0] != 3 or b.shape[0] != 3:
        raise ValueError("a cross product of arrays that have not three elements")
    out = np.empty(3)
    out[0] = a[1] * b[2] - a[2] * b[1]
    out[1] = a[2] * b[0] - a[0] * b[2]
    out[2] = a[0] * b[1] - a[1] * b[0]
    return out


def convolution(a: Array, v: Array) -> Array:
    if a.shape[0] == 0 or v.shape[0] == 0:
        raise ValueError("a convolution with an empty array")
    out = np.zeros(a.shape[0] + v.shape[0] - 1)
    for i in range(a.shape[0]):
        for j in range(v.shape[0]):
            out[i + j] += a[i] * v[j]
    return out


def trapezoids(y: Array, dx: float = 1.0) -> float:
    total = 0.0
    for i in range(y.shape[0] - 1):
        total += 0.5 * dx * (y[i] + y[i + 1])
    return total


def trapezoids_between(y: Array, x: Array) -> float:
    if x.shape[0] != y.shape[0]:
        raise ValueError("points and values of an integral differ in number")
    total = 0.0
    for i in range(y.shape[0] - 1):
        total += 0.5 * (x[i + 1] - x[i]) * (y[i] + y[i + 1])
    return total


def place_in_sorted(a: Array, v: float) -> int:
    low = 0
    high = a.shape[0]
    while low < high:
        middle = (low + high) // 2
        if a[middle] < v:
            low = middle + 1
        else:
            high = middle
    return low


def place_after_equals(a: Array, v: float) -> int:
    low = 0
    high = a.shape[0]
    while low < high:
        middle = (low + high) // 2
        if a[middle] <= v:
            low = middle + 1
        else:
            high = middle
    return low


def order_of(a: Array) -> Array:
    """The places of `a` by merging: from its least element to the largest, NaN last; of equal ones
    the first first."""
    n = a.shape[0]
    order = np.arange(n)
    other = np.arange(n)
    width = 1
    while width < n:
        for start in range(0, n, 2 * width):
            middle = min(start + width, n)
            end = min(start + 2 * width, n)
            i = start
            j = middle
            for k in range(start, end):
                takes_second = j < end
                if i < middle and j < end:
                    x = a[order[i]]
                    y = a[order[j]]
                    takes_second = y < x or (np.isnan(x) and not np.isnan(y))
                if takes_second:
                    other[k] = order[j]
                    j += 1
                else:
                    other[k] = order[i]
                    i += 1
        for k in range(n):
            order[k] = other[k]
        width = 2 * width
    return order


def in_order(a: Array) -> Array:
    order = np.argsort(a)
    out = np.empty(a.shape[0], a.dtype)
    for k in range(a.shape[0]):
        out[k] = a[order[k]]
    return out


def taken(a: Array, places: Array) -> Array:
    return a[places]


def repeated(a: Array, count: int) -> Array:
    out = np.empty(a.shape[0] * count, a.dtype)
    for i in range(a.shape[0]):
        for k in range(count):
            out[i * count + k] = a[i]
    return out


def kronecker_product(a: Array, b: Array) -> Array:
    out = np.empty((a.shape[0] * b.shape[0], a.shape[1] * b.shape[1]), a.dtype)
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            for k in range(b.shape[0]):
                for m in range(b.shape[1]):
                    out[i * b.shape[0] + k, j * b.shape[1] + m] = a[i, j] * b[k, m]
    return out


def median(a: Array) -> Any:
    n = a.shape[0]
    if n == 0:
        raise ValueError("the median of no elements")
    ordered = np.sort(a)
    if n % 2 == 1:
        return 1.0 * ordered[n // 2]
    return 0.5 * (ordered[n // 2 - 1] + ordered[n // 2])


def interpolated_at(x: float, xp: Array, fp: Array) -> float:
    n = xp.shape[0]
    if n == 0 or fp.shape[0] != n:
        raise ValueError("points and values of an interpolation differ in number")
    if x <= xp[0]:
        return 1.0 * fp[0]
    if x >= xp[n - 1]:
        return 1.0 * fp[n - 1]
    low = 0
    high = n - 1
    while high - low > 1:  # xp[low] <= x < xp[high]
        middle = (low + high) // 2
        if xp[middle] <= x:
            low = middle
        else:
            high = middle
    slope = (fp[low + 1] - fp[low]) / (xp[low + 1] - xp[low])
    return slope * (x - xp[low]) + fp[low]


def interpolated(x: Array, xp: Array, fp: Array) -> Array:
    out = np.empty(x.shape[0])
    for i in range(x.shape[0]):
        out[i] = np.interp(x[i], xp, fp)
    return out


def solution_of_columns(a: Array, b: Array) -> Array:
    """By Gauss's elimination with pivots."""
    n = a.shape[0]
    if a.shape[1] != n or b.shape[0] != n:
        raise np.linalg.LinAlgError("shapes that do not fit in linalg.solve")
    lu = a.copy()
    x = b.copy()
    for k in range(n):
        pivot = k
        for i in range(k + 1, n):
            if abs(lu[i, k]) > abs(lu[pivot, k]):
                pivot = i
        if lu[pivot, k] == 0.0:
            raise np.linalg.LinAlgError("Matrix is singular to machine precision.")
        if pivot != k:
            for j in range(k, n):
                lu[k, j], lu[pivot, j] = lu[pivot, j], lu[k, j]
            for j in range(x.shape[1]):
                x[k, j], x[pivot, j] = x[pivot, j], x[k, j]
        for i in range(k + 1, n):
            factor = lu[i, k] / lu[k, k]
            for j in range(k + 1, n):
                lu[i, j] -= factor * lu[k, j]
            for j in range(x.shape[1]):
                x[i, j] -= factor * x[k, j]
    for i in range(n - 1, -1, -1):
        for j in range(x.shape[1]):
            total = x[i, j]
            for k in range(i + 1, n):
                total -= lu[i, k] * x[k, j]
            x[i, j] = total / lu[i, i]
    return x


def solution(a: Array, b: Array) -> Array:
    column = np.empty((b.shape[0], 1), b.dtype)
    for i in range(b.shape[0]):
        column[i, 0] = b[i]
    x = np.linalg.solve(a, column)
    return x[:, 0].copy()


def inverse(a: Array) -> Array:
    return np.linalg.solve(a, np.eye(a.shape[0], dtype=a.dtype))


def determinant(a: Array) -> float:
    n = a.shape[0]
    if a.shape[1] != n:
        raise np.linalg.LinAlgError("Last 2 dimensions of the array must be square.")
    lu = a.copy()
    product = 1.0
    for k in range(n):
        pivot = k
        for i in range(k + 1, n):
            if abs(lu[i, k]) > abs(lu[pivot, k]):
                pivot = i
        if pivot != k:
            product = -product
            for j in range(k, n):
                lu[k, j], lu[pivot, j] = lu[pivot, j], lu[k, j]
        product *= lu[k, k]
        if lu[k, k] != 0.0:
            for i in range(k + 1, n):
                factor = lu[i, k] / lu[k, k]
                for j in range(k + 1, n):
                    lu[i, j] -= factor * lu[k, j]
    return product


def cholesky_factor(a: Array) -> Array:
    n = a.shape[0]
    if a.shape[1] != n:
        raise np.linalg.LinAlgError("Last 2 dimensions of the array must be square.")
    lower = np.zeros((n, n), a.dtype)
    for j in range(n):
        total = a[j, j]
        for k in range(j):
            total -= lower[j, k] * lower[j, k]
        if not total > 0.0:
            raise np.linalg.LinAlgError("Matrix is not positive definite.")
        root = np.sqrt(total)
        lower[j, j] = root
        for i in range(j + 1, n):
            total = a[i, j]
            for k in range(j):
                total -= lower[i, k] * lower[j, k]
            lower[i, j] = total / root
    return lower


# By the function, then by the numbers of axes of its arguments, and by what they are if they are
# strings.
FUNCTIONS: dict[Any, dict[tuple[int | str, ...], Callable[..., Any]]] = {
    np.nonzero: {(1,): places_of_true},
    np.flatnonzero: {(1,): places_alone},
    np.where: {(1,): places_of_true},
    np.cumsum: {(1,): cumulative_sum},
    np.cumprod: {(1,): cumulative_product},
    np.diff: {(1,): differences, (2,): differences_of_rows},
    np.roll: {(1, 0): rolled},
    np.trace: {(2,): trace},
    np.diag: {(1,): diagonal_matrix, (2,): diagonal},
    np.tril: {(2,): lower_triangle, (2, 0): lower_triangle},
    np.triu: {(2,): upper_triangle, (2, 0): upper_triangle},
    np.cross: {(1, 1): cross_product},
    np.convolve: {(1, 1): convolution},
    np.sort: {(1,): in_order},
    np.argsort: {(1,): order_of},
    np.take: {(1, 1): taken},
    np.repeat: {(1, 0): repeated},
    np.kron: {(2, 2): kronecker_product},
    np.median: {(1,): median},
    np.interp: {(1, 1, 1): interpolated, (0, 1, 1): interpolated_at},
    np.searchsorted: {(1, 0): place_in_sorted, (1, 0, "right"): place_after_equals},
    np.linalg.solve: {(2, 1): solution, (2, 2): solution_of_columns},
    np.linalg.inv: {(2,): inverse},
    np.linalg.det: {(2,): determinant},
    np.linalg.cholesky: {(2,): cholesky_factor},
}
for _name in ("trapz", "trapezoid"):
    if hasattr(np, _name):
        FUNCTIONS[getattr(np, _name)] = {
            (1,): trapezoids,
            (1, 0): trapezoids,
            (1, 1): trapezoids_between,
        }
# Those that are right for complex arrays, too.
OF_COMPLEX = (
    *(np.nonzero, np.flatnonzero, np.where, np.cumsum, np.cumprod, np.diff, np.roll, np.trace),
    *(np.diag, np.tril, np.triu, np.linalg.solve, np.linalg.inv, np.linalg.det),
)
METHODS: dict[str, Any] = {
    "cumsum": np.cumsum,
    "cumprod": np.cumprod,
    "trace": np.trace,
    "nonzero": np.nonzero,
    "argsort": np.argsort,
    "repeat": np.repeat,
}
# What stands for `a[index]` and `a[index] = values`: by numbers of axes of the array, of the index,
# and of the values. The last are for indices that are integers.
SELECTED = {(1, 1): compressed, (2, 1): compressed_rows, (2, 2): compressed_matrix}
PUT = {
    (1, 1, 0): put_number,
    (2, 1, 0): put_number_in_rows,
    (2, 2, 0): put_number_in_matrix,
    (1, 1, 1): put_array,
    (2, 2, 1): put_array_in_matrix,
}
PUT_AT = {(1, 1, 0): put_number_at, (1, 1, 1): put_array_at}
