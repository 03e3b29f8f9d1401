"""What arrays of bools or integers select, and what is put there."""

from typing import Any

import numpy as np

Array = Any  # Numba finds the types.


def compressed(a: Array, mask: Array) -> Array:
    """`a[mask]`, both with one axis."""
    if mask.shape[0] != a.shape[0]:
        raise IndexError("an index of bools that is not as long as the array")
    count = np.count_nonzero(mask)
    out = np.empty(count, a.dtype)
    k = 0
    for i in range(mask.shape[0]):
        if mask[i]:
            out[k] = a[i]
            k += 1
    return out


def places_of_true(a: Array) -> tuple[Array]:
    """`np.nonzero` of an array with one axis."""
    count = np.count_nonzero(a)
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
    count = np.count_nonzero(mask)
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
    count = np.count_nonzero(mask)
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
    count = np.count_nonzero(mask)
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
    count = np.count_nonzero(mask)
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


def taken(a: Array, places: Array) -> Array:
    return a[places]


def put_number_in_rows_at(a: Array, places: Array, value: Any) -> None:
    """`a[places] = value`, a number, of an array with two axes."""
    for k in range(places.shape[0]):
        for j in range(a.shape[1]):
            a[places[k], j] = value


def put_row_at(a: Array, places: Array, values: Array) -> None:
    """`a[places] = values`, a row for all of them."""
    if values.shape[0] != a.shape[1] and values.shape[0] != 1:
        raise ValueError("as many values as a row has, or one")
    for k in range(places.shape[0]):
        for j in range(a.shape[1]):
            a[places[k], j] = values[j if values.shape[0] > 1 else 0]


def put_rows_at(a: Array, places: Array, values: Array) -> None:
    """`a[places] = values`: of equal places, the last row is there."""
    rows, columns = values.shape
    fits_rows = rows == places.shape[0] or rows == 1
    if not fits_rows or (columns != a.shape[1] and columns != 1):
        raise ValueError("as many rows as places, each of as many values as a row has, or one")
    for k in range(places.shape[0]):
        for j in range(a.shape[1]):
            a[places[k], j] = values[k if rows > 1 else 0, j if columns > 1 else 0]


def are_equal(a: Array, b: Array) -> bool:
    """`np.array_equal`."""
    return a.shape == b.shape and bool(np.all(a == b))
