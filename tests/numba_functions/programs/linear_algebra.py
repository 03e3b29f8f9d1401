"""Factorizations, solvers and products of matrices."""

import numpy as np
from numba import njit

from tests.numba_functions.programs.record import program


def _definite(rng, n):
    a = rng.random((n, n))
    return a @ a.T + n * np.eye(n)


def _dominant(rng, n):
    return rng.random((n, n)) + n * np.eye(n)


@program(lambda rng, n: (_dominant(rng, n),), writes="A")
@njit
def lu(A):
    n = A.shape[0]
    for i in range(n):
        for j in range(i):
            for k in range(j):
                A[i, j] -= A[i, k] * A[k, j]
            A[i, j] /= A[j, j]
        for j in range(i, n):
            for k in range(i):
                A[i, j] -= A[i, k] * A[k, j]


@program(lambda rng, n: (_dominant(rng, n),), writes="A")
@njit
def lu_slices(A):
    for i in range(A.shape[0]):
        for j in range(i):
            A[i, j] -= A[i, :j] @ A[:j, j]
            A[i, j] /= A[j, j]
        for j in range(i, A.shape[0]):
            A[i, j] -= A[i, :i] @ A[:i, j]


@program(lambda rng, n: (_dominant(rng, n), rng.random(n)), writes="A")
@njit
def ludcmp(A, b):
    n = A.shape[0]
    x = np.zeros_like(b)
    y = np.zeros_like(b)
    for i in range(n):
        for j in range(i):
            w = A[i, j]
            for k in range(j):
                w -= A[i, k] * A[k, j]
            A[i, j] = w / A[j, j]
        for j in range(i, n):
            w = A[i, j]
            for k in range(i):
                w -= A[i, k] * A[k, j]
            A[i, j] = w
    for i in range(n):
        y[i] = b[i] - np.dot(A[i, :i], y[:i])
    for i in range(n - 1, -1, -1):
        x[i] = (y[i] - np.dot(A[i, i + 1 :], x[i + 1 :])) / A[i, i]
    return x, y


@program(lambda rng, n: (rng.random((n, n)), rng.random(n)), large=60)
@njit
def solve_with_pivoting(a, b):
    """Rows are exchanged; which ones depends on the values."""
    A = a.copy()
    x = b.copy()
    n = len(b)
    for k in range(n):
        pivot = k
        for i in range(k + 1, n):
            if abs(A[i, k]) > abs(A[pivot, k]):
                pivot = i
        if pivot != k:
            for j in range(n):
                A[k, j], A[pivot, j] = A[pivot, j], A[k, j]
            x[k], x[pivot] = x[pivot], x[k]
        for i in range(k + 1, n):
            factor = A[i, k] / A[k, k]
            for j in range(k, n):
                A[i, j] -= factor * A[k, j]
            x[i] -= factor * x[k]
    for i in range(n - 1, -1, -1):
        for j in range(i + 1, n):
            x[i] -= A[i, j] * x[j]
        x[i] /= A[i, i]
    return x


@program(lambda rng, n: (_definite(rng, n),), writes="A")
@njit
def cholesky(A):
    n = A.shape[0]
    for i in range(n):
        for j in range(i):
            for k in range(j):
                A[i, j] -= A[i, k] * A[j, k]
            A[i, j] /= A[j, j]
        for k in range(i):
            A[i, i] -= A[i, k] * A[i, k]
        A[i, i] = np.sqrt(A[i, i])


@program(lambda rng, n: (_definite(rng, n),), writes="A")
@njit
def cholesky_slices(A):
    A[0, 0] = np.sqrt(A[0, 0])
    for i in range(1, A.shape[0]):
        for j in range(i):
            A[i, j] -= np.dot(A[i, :j], A[j, :j])
            A[i, j] /= A[j, j]
        A[i, i] -= np.dot(A[i, :i], A[i, :i])
        A[i, i] = np.sqrt(A[i, i])


@program(lambda rng, n: (rng.random((n + 1, n)),), writes="A")
@njit
def gramschmidt(A):
    Q = np.zeros_like(A)
    R = np.zeros((A.shape[1], A.shape[1]), dtype=A.dtype)
    for k in range(A.shape[1]):
        nrm = np.dot(A[:, k], A[:, k])
        R[k, k] = np.sqrt(nrm)
        Q[:, k] = A[:, k] / R[k, k]
        for j in range(k + 1, A.shape[1]):
            R[k, j] = np.dot(Q[:, k], A[:, j])
            A[:, j] -= Q[:, k] * R[k, j]
    return Q, R


@program(lambda rng, n: (rng.random((n + 1, n)), np.zeros((n, n))), writes="A R")
@njit
def gramschmidt_loops(A, R):
    m, n = A.shape
    for k in range(n):
        norm = 0.0
        for i in range(m):
            norm += A[i, k] ** 2
        R[k, k] = norm**0.5
        for i in range(m):
            A[i, k] /= R[k, k]
        for j in range(k + 1, n):
            R[k, j] = 0.0
            for i in range(m):
                R[k, j] += A[i, k] * A[i, j]
            for i in range(m):
                A[i, j] -= A[i, k] * R[k, j]


@program(lambda rng, n: (0.1 * rng.random(n),))
@njit
def durbin(r):
    y = np.empty_like(r)
    alpha = -r[0]
    beta = 1.0
    y[0] = -r[0]
    for k in range(1, r.shape[0]):
        beta *= 1.0 - alpha * alpha
        alpha = -(r[k] + np.dot(np.flip(r[:k]), y[:k])) / beta
        y[:k] += alpha * np.flip(y[:k])
        y[k] = alpha
    return y


@program(lambda rng, n: (0.1 * rng.random(n),))
@njit
def durbin_loops(r):
    n = r.shape[0]
    y = np.zeros(n)
    z = np.zeros(n)
    y[0] = -r[0]
    beta, alpha = 1.0, -r[0]
    for k in range(1, n):
        beta = (1 - alpha * alpha) * beta
        total = 0.0
        for i in range(k):
            total += r[k - i - 1] * y[i]
        alpha = -(r[k] + total) / beta
        for i in range(k):
            z[i] = y[i] + alpha * y[k - i - 1]
        for i in range(k):
            y[i] = z[i]
        y[k] = alpha
    return y


@program(lambda rng, n: (_dominant(rng, n), np.zeros(n), rng.random(n)), writes="x")
@njit
def trisolv(L, x, b):
    for i in range(x.shape[0]):
        x[i] = (b[i] - L[i, :i] @ x[:i]) / L[i, i]


@program(lambda rng, n: (1.5, rng.random((n, n)), rng.random((n, n + 1))), writes="B")
@njit
def trmm(alpha, A, B):
    for i in range(B.shape[0]):
        for j in range(B.shape[1]):
            B[i, j] += np.dot(A[i + 1 :, i], B[i + 1 :, j])
    B *= alpha


@program(
    lambda rng, n: (
        1.5,
        1.2,
        rng.random((n, n + 1)),
        rng.random((n, n + 2)),
        rng.random((n + 2, n + 1)),
    ),
    writes="C",
)
@njit
def gemm(alpha, beta, C, A, B):
    C[:] = alpha * A @ B + beta * C


@program(
    lambda rng, n: (rng.random((n, n + 1)), rng.random((n + 1, n + 2)), np.empty((n, n + 2))),
    writes="C",
)
@njit
def matmul_loops(A, B, C):
    for i in range(A.shape[0]):
        for j in range(B.shape[1]):
            acc = 0.0
            for k in range(A.shape[1]):
                acc += A[i, k] * B[k, j]
            C[i, j] = acc


@program(
    lambda rng, n: (1.5, 1.2, rng.random((n, n)), *(rng.random(n) for _ in range(8))),
    writes="A w x",
)
@njit
def gemver(alpha, beta, A, u1, v1, u2, v2, w, x, y, z):
    A += np.outer(u1, v1) + np.outer(u2, v2)
    x += beta * y @ A + z
    w += alpha * A @ x


@program(lambda rng, n: (1.5, 1.2, rng.random((n, n)), rng.random((n, n)), rng.random(n)))
@njit
def gesummv(alpha, beta, A, B, x):
    return alpha * A @ x + beta * B @ x


@program(
    lambda rng, n: (rng.random(n), rng.random(n), rng.random(n), rng.random(n), rng.random((n, n))),
    writes="x1 x2",
)
@njit
def mvt(x1, x2, y_1, y_2, A):
    x1 += A @ y_1
    x2 += y_2 @ A


@program(lambda rng, n: (rng.random((n + 1, n)), rng.random(n), rng.random(n + 1)))
@njit
def bicg(A, p, r):
    return r @ A, A @ p


@program(lambda rng, n: (rng.random((n + 1, n)), rng.random(n)))
@njit
def atax(A, x):
    return (A @ x) @ A


@program(
    lambda rng, n: (1.5, 1.2, rng.random((n, n + 1)), rng.random((n, n)), rng.random((n, n + 1))),
    writes="C",
    large=60,
)
@njit
def symm(alpha, beta, C, A, B):
    temp2 = np.empty((C.shape[1],), dtype=C.dtype)
    C *= beta
    for i in range(C.shape[0]):
        for j in range(C.shape[1]):
            C[:i, j] += alpha * B[i, j] * A[i, :i]
            temp2[j] = B[:i, j] @ A[i, :i]
        C[i, :] += alpha * B[i, :] * A[i, i] + alpha * temp2


@program(
    lambda rng, n: (1.5, 1.2, rng.random((n, n)), rng.random((n, n + 1))), writes="C", large=60
)
@njit
def syrk(alpha, beta, C, A):
    for i in range(A.shape[0]):
        C[i, : i + 1] *= beta
        for k in range(A.shape[1]):
            C[i, : i + 1] += alpha * A[i, k] * A[: i + 1, k]


@program(
    lambda rng, n: (1.5, 1.2, rng.random((n, n)), rng.random((n, n + 1)), rng.random((n, n + 1))),
    writes="C",
    large=60,
)
@njit
def syr2k(alpha, beta, C, A, B):
    n, m = A.shape
    for i in range(n):
        for j in range(i + 1):
            C[i, j] *= beta
        for k in range(m):
            for j in range(i + 1):
                C[i, j] += A[j, k] * alpha * B[i, k] + B[j, k] * alpha * A[i, k]


@program(
    lambda rng, n: (*(rng.random((n, n)) for _ in range(3)), 1.1, 0.9, rng.random((n, n))),
    writes="D",
)
@njit
def two_products(A, B, C, alpha, beta, D):
    D[:] = alpha * A @ B @ C + beta * D


@program(lambda rng, n: (rng.random((2, 3, n)), rng.random((n, n))), writes="A", large=60)
@njit
def doitgen(A, C4):
    for r in range(A.shape[0]):
        for q in range(A.shape[1]):
            A[r, q, :] = A[r, q, :] @ C4


@program(lambda rng, n: (rng.random((n + 2, n)),), writes="data", large=60)
@njit
def covariance(data):
    N, M = data.shape
    mean = np.zeros(M)
    for j in range(M):
        mean[j] = np.sum(data[:, j]) / N
    for i in range(N):
        data[i] -= mean
    cov = np.zeros((M, M))
    for i in range(M):
        for j in range(i, M):
            cov[i, j] = np.dot(data[:, i], data[:, j]) / (N - 1.0)
            cov[j, i] = cov[i, j]
    return cov


@program(lambda rng, n: (rng.random((n + 2, n)),), large=60)
@njit
def correlation(data):
    N, M = data.shape
    centred = np.empty((N, M))
    for j in range(M):
        mean = data[:, j].mean()
        stddev = np.sqrt(((data[:, j] - mean) ** 2).mean())
        if stddev <= 0.1:
            stddev = 1.0
        for i in range(N):
            centred[i, j] = (data[i, j] - mean) / (np.sqrt(float(N)) * stddev)
    corr = np.eye(M)
    for i in range(M - 1):
        corr[i + 1 : M, i] = corr[i, i + 1 : M] = centred[:, i] @ centred[:, i + 1 : M]
    return corr


@program(
    lambda rng, n: (*(rng.random(n) for _ in range(2)), 3 + rng.random(n), rng.random(n)),
    large=10_000,
)
@njit
def thomas(lower, upper, diagonal, rhs):
    n = rhs.shape[0]
    c = np.empty(n)
    x = np.empty(n)
    c[0] = upper[0] / diagonal[0]
    x[0] = rhs[0] / diagonal[0]
    for i in range(1, n):
        pivot = diagonal[i] - lower[i] * c[i - 1]
        c[i] = upper[i] / pivot
        x[i] = (rhs[i] - lower[i] * x[i - 1]) / pivot
    for i in range(n - 2, -1, -1):
        x[i] -= c[i] * x[i + 1]
    return x


@program(lambda rng, n: (_definite(rng, n), rng.random(n), 1e-3))
@njit
def conjugate_gradients(A, b, tolerance):
    """As many iterations as it takes; the derivative is that of the iterates."""
    x = np.zeros_like(b)
    r = b - A @ x
    p = r.copy()
    rr = np.dot(r, r)
    iterations = 0
    while rr > tolerance * tolerance:
        Ap = A @ p
        alpha = rr / np.dot(p, Ap)
        x += alpha * p
        r -= alpha * Ap
        new = np.dot(r, r)
        p = r + (new / rr) * p
        rr = new
        iterations += 1
        if iterations >= b.size:
            break
    return x, iterations


@program(lambda rng, n: (_definite(rng, n), 1.0 + rng.random(n), 0.01))
@njit
def power_iteration(A, start, tolerance):
    v = start / np.sqrt(np.sum(start**2))
    eigenvalue = 0.0
    while True:
        w = A @ v
        new = np.dot(v, w)
        v = w / np.sqrt(np.sum(w * w))
        if abs(new - eigenvalue) < tolerance:
            return new
        eigenvalue = new


@program(lambda rng, n: (rng.random((n, n)),), large=60)
@njit
def givens_qr(a):
    R = a.copy()
    n = R.shape[0]
    for j in range(n):
        for i in range(n - 1, j, -1):
            x, y = R[i - 1, j], R[i, j]
            h = np.hypot(x, y)
            if h == 0.0:
                continue
            c, s = x / h, y / h
            for k in range(n):
                top, bottom = R[i - 1, k], R[i, k]
                R[i - 1, k] = c * top + s * bottom
                R[i, k] = -s * top + c * bottom
    return R


@program(lambda rng, n: (_dominant(rng, n), rng.random(n), np.zeros(n), 3), writes="x")
@njit
def jacobi_matrix(A, b, x, steps):
    n = b.size
    new = np.zeros(n)
    for _ in range(steps):
        for i in range(n):
            row = A[i]
            s = 0.0
            for j, value in enumerate(x):
                if j != i:
                    s += row[j] * value
            new[i] = (b[i] - s) / row[i]
        for i in range(n):
            x[i] = new[i]


@program(lambda rng, n: (rng.random((n, n)),))
@njit
def determinant(a):
    m = a.copy()
    n = m.shape[0]
    result = 1.0
    for k in range(n):
        if m[k, k] == 0.0:
            return 0.0
        result *= m[k, k]
        for i in range(k + 1, n):
            m[i, k:] -= m[i, k] / m[k, k] * m[k, k:]
    return result
