"""Systems of linear equations."""

from typing import Any

import numpy as np

Array = Any  # Numba finds the types.


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


def eliminated(a: Array) -> tuple[Array, float]:
    """The upper triangle of Gauss's elimination with pivots, and the sign of its permutation."""
    n = a.shape[0]
    if a.shape[1] != n:
        raise np.linalg.LinAlgError("Last 2 dimensions of the array must be square.")
    lu = a.copy()
    sign = 1.0
    for k in range(n):
        pivot = k
        for i in range(k + 1, n):
            if abs(lu[i, k]) > abs(lu[pivot, k]):
                pivot = i
        if pivot != k:
            sign = -sign
            for j in range(k, n):
                lu[k, j], lu[pivot, j] = lu[pivot, j], lu[k, j]
        if lu[k, k] != 0.0:
            for i in range(k + 1, n):
                factor = lu[i, k] / lu[k, k]
                for j in range(k + 1, n):
                    lu[i, j] -= factor * lu[k, j]
    return lu, sign


def determinant(a: Array) -> float:
    lu, product = eliminated(a)
    for k in range(a.shape[0]):
        product *= lu[k, k]
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


def sign_and_log_of_determinant(a: Array) -> tuple[float, float]:
    lu, sign = eliminated(a)
    logarithm = 0.0
    for k in range(a.shape[0]):
        if lu[k, k] == 0.0:
            return 0.0, -np.inf
        if lu[k, k] < 0.0:
            sign = -sign
        logarithm += np.log(abs(lu[k, k]))
    return sign, logarithm
