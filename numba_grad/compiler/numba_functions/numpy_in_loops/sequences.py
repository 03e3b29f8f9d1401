"""Sums, products, differences and integrals along an axis; parts of matrices."""

from typing import Any

import numpy as np

Array = Any  # Numba finds the types.


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


def total(a: Array) -> Any:
    """Python's `sum`."""
    result = 0
    for i in range(a.shape[0]):
        result += a[i]
    return result


def cumulative_sum_of_matrix(a: Array) -> Array:
    return np.cumsum(a.ravel())


def cumulative_product_of_matrix(a: Array) -> Array:
    return np.cumprod(a.ravel())


def cumulative_sum_along(a: Array, axis: int) -> Array:
    is_first = axis in (0, -2)
    out = np.empty(a.shape, a.dtype)
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            out[i, j] = a[i, j]
            if is_first and i > 0:
                out[i, j] += out[i - 1, j]
            if not is_first and j > 0:
                out[i, j] += out[i, j - 1]
    return out


def repeated_differences(a: Array, n: int) -> Array:
    if n < 0:
        raise ValueError("order must be non-negative")
    out = a.copy()
    for k in range(n):
        for i in range(a.shape[0] - 1 - k):
            out[i] = out[i + 1] - out[i]
    return out[: max(a.shape[0] - n, 0)].copy()


def repeated_differences_of_rows(a: Array, n: int) -> Array:
    if n < 0:
        raise ValueError("order must be non-negative")
    out = a.copy()
    for k in range(n):
        for i in range(a.shape[0]):
            for j in range(a.shape[1] - 1 - k):
                out[i, j] = out[i, j + 1] - out[i, j]
    return out[:, : max(a.shape[1] - n, 0)].copy()


def rolled_matrix(a: Array, shift: int) -> Array:
    """As one long row."""
    rows, columns = a.shape
    out = np.empty(a.shape, a.dtype)
    for i in range(rows):
        for j in range(columns):
            place = (i * columns + j + shift) % (rows * columns)
            out[place // columns, place % columns] = a[i, j]
    return out


def joined(a: Array, b: Array) -> Array:
    return np.concatenate((a, b))


def with_one_more(a: Array, value: Any) -> Array:
    out = np.empty(a.shape[0] + 1, a.dtype)
    for i in range(a.shape[0]):
        out[i] = a[i]
    out[a.shape[0]] = value
    return out


def correlation(a: Array, v: Array) -> Array:
    """Where one of them is inside of the other."""
    if a.shape[0] == 0 or v.shape[0] == 0:
        raise ValueError("a correlation with an empty array")
    length = min(a.shape[0], v.shape[0])
    out = np.zeros(max(a.shape[0], v.shape[0]) - length + 1)
    for i in range(out.shape[0]):
        for k in range(length):
            if a.shape[0] >= v.shape[0]:
                out[i] += a[i + k] * v[k]
            else:
                out[i] += a[k] * v[out.shape[0] - 1 - i + k]
    return out


def weighted_average(a: Array, weights: Array) -> float:
    if a.shape[0] != weights.shape[0]:
        raise ValueError("an average with more weights than numbers, or less")
    total, weight = 0.0, 0.0
    for i in range(a.shape[0]):
        total += a[i] * weights[i]
        weight += weights[i]
    return total / weight


def mean(a: Array) -> float:
    return a.mean()


def sum_but_nan(a: Array) -> float:
    total = 0.0
    for i in range(a.shape[0]):
        if not np.isnan(a[i]):
            total += a[i]
    return total


def mean_but_nan(a: Array) -> float:
    total, count = 0.0, 0
    for i in range(a.shape[0]):
        if not np.isnan(a[i]):
            total += a[i]
            count += 1
    return np.divide(total, count)


def powers(x: Array, n: int) -> Array:
    """`np.vander`: the last column is of ones."""
    out = np.empty((x.shape[0], n))
    for i in range(x.shape[0]):
        power = 1.0
        for j in range(n - 1, -1, -1):
            out[i, j] = power
            power *= x[i]
    return out


def all_powers(x: Array) -> Array:
    return np.vander(x, x.shape[0])
