"""What is sorted, searched and compared."""

from collections.abc import Callable
from typing import Any

import numpy as np

Array = Any  # Numba finds the types.


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


def median(a: Array) -> Any:
    n = a.shape[0]
    if n == 0:
        raise ValueError("the median of no elements")
    ordered = np.sort(a)
    if n % 2 == 1:
        return 1.0 * ordered[n // 2]
    return 0.5 * (ordered[n // 2 - 1] + ordered[n // 2])


def put_in_order(a: Array) -> None:
    """`a.sort()`."""
    ordered = np.sort(a)
    for k in range(a.shape[0]):
        a[k] = ordered[k]


def quantile(a: Array, q: float) -> Any:
    """Between the two numbers that it falls between, linearly."""
    n = a.shape[0]
    if n == 0:
        raise ValueError("a quantile of no elements")
    if not 0.0 <= q <= 1.0:
        raise ValueError("Quantiles must be in the range [0, 1]")
    ordered = np.sort(a)
    if np.isnan(ordered[n - 1]):
        return 1.0 * ordered[n - 1]
    place = q * (n - 1)
    low = min(int(place), n - 1)
    high = min(low + 1, n - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def quantiles(a: Array, q: Array) -> Array:
    out = np.empty(q.shape[0])
    for k in range(q.shape[0]):
        out[k] = np.quantile(a, q[k])
    return out


def percentile(a: Array, q: float) -> Any:
    if not 0.0 <= q <= 100.0:
        raise ValueError("Percentiles must be in the range [0, 100]")
    return np.quantile(a, q / 100.0)


def percentiles(a: Array, q: Array) -> Array:
    out = np.empty(q.shape[0])
    for k in range(q.shape[0]):
        out[k] = np.percentile(a, q[k])
    return out


def _extremes(is_largest: bool) -> tuple[Callable[..., Any], ...]:
    """Python's of an array; the place of NumPy's in a matrix, and the places along an axis."""

    def first(a: Array) -> Any:
        if a.shape[0] == 0:
            raise ValueError("the extreme of no elements")
        found = a[0]
        for i in range(1, a.shape[0]):
            if a[i] > found if is_largest else a[i] < found:
                found = a[i]
        return found

    def place(a: Array) -> int:
        if a.shape[0] == 0 or a.shape[1] == 0:
            raise ValueError("the extreme of no elements")
        best, found = a[0, 0], 0
        for i in range(a.shape[0]):
            for j in range(a.shape[1]):
                x = a[i, j]
                is_better = x > best if is_largest else x < best
                if is_better or (np.isnan(x) and not np.isnan(best)):
                    best, found = x, i * a.shape[1] + j
        return found

    def places(a: Array, axis: int) -> Array:
        if a.shape[0] == 0 or a.shape[1] == 0:
            raise ValueError("the extreme of no elements")
        is_first = axis in (0, -2)
        found = np.zeros(a.shape[1] if is_first else a.shape[0], np.int64)
        for k in range(found.shape[0]):
            best = a[0, k] if is_first else a[k, 0]
            for i in range(a.shape[0] if is_first else a.shape[1]):
                x = a[i, k] if is_first else a[k, i]
                is_better = x > best if is_largest else x < best
                if is_better or (np.isnan(x) and not np.isnan(best)):
                    best, found[k] = x, i
        return found

    return first, place, places


largest, place_of_largest, places_of_largest = _extremes(is_largest=True)
least, place_of_least, places_of_least = _extremes(is_largest=False)


def least_but_nan(a: Array) -> float:
    found = np.nan
    for i in range(a.shape[0]):
        if not a[i] >= found:  # NaN is not either.
            found = found if np.isnan(a[i]) else a[i]
    return found


def largest_but_nan(a: Array) -> float:
    found = np.nan
    for i in range(a.shape[0]):
        if not a[i] <= found:
            found = found if np.isnan(a[i]) else a[i]
    return found
