"""Indices that are data: sparse matrices, histograms, meshes; integrals of complex functions."""

import numpy as np
from numba import njit

from tests.numba_functions.programs.record import program


def _csr(rng, n):
    counts = rng.integers(0, 4, n)
    rows = np.concatenate([[0], np.cumsum(counts)])
    return rows, rng.integers(0, n, rows[-1]), rng.random(rows[-1])


@program(lambda rng, n: (*_csr(rng, n), rng.random(n)), small=6, large=10_000)
@njit
def spmv(A_row, A_col, A_val, x):
    y = np.empty(A_row.size - 1, A_val.dtype)
    for i in range(A_row.size - 1):
        start, stop = A_row[i], A_row[i + 1]
        total = 0.0
        for k in range(start, stop):
            total += A_val[k] * x[A_col[k]]
        y[i] = total
    return y


@program(
    lambda rng, n: (*_csr(rng, n), rng.random(n), np.zeros(n)), writes="y", small=6, large=10_000
)
@njit
def spmv_transposed(indptr, indices, data, x, y):
    for i in range(len(x)):
        for k in range(indptr[i], indptr[i + 1]):
            y[indices[k]] += data[k] * x[i]


@program(lambda rng, n: (rng.random(n), rng.random(n), 4, 0.0, 1.0), small=9, large=10_000)
@njit
def weighted_histogram(x, weights, bins, low, high):
    """Clouds in cells: each weight is shared by two bins."""
    hist = np.zeros(bins + 1)
    for i in range(x.shape[0]):
        place = (x[i] - low) / (high - low) * bins
        k = int(place)
        if k < 0 or k >= bins:
            continue
        share = place - k
        hist[k] += (1.0 - share) * weights[i]
        hist[k + 1] += share * weights[i]
    return hist


@program(
    lambda rng, n: (rng.random((n, 2)), rng.integers(0, n, (n, 2)), rng.random(n)),
    small=6,
    large=1000,
)
@njit
def mesh_springs(points, edges, rest):
    forces = np.zeros_like(points)
    for e in range(edges.shape[0]):
        a, b = edges[e, 0], edges[e, 1]
        if a == b:
            continue
        d = points[b] - points[a]
        length = np.sqrt(np.sum(d * d))
        f = (length - rest[e]) / length * d
        forces[a] += f
        forces[b] -= f
    return forces


@program(lambda rng, n: (rng.random((n, 3)), rng.integers(0, n, (n, 3))), small=6, large=1000)
@njit
def enclosed_volume(points, triangles):
    volume = 0.0
    for t in triangles:
        a, b, c = points[t[0]], points[t[1]], points[t[2]]
        volume += a[0] * (b[1] * c[2] - b[2] * c[1])
        volume += a[1] * (b[2] * c[0] - b[0] * c[2])
        volume += a[2] * (b[0] * c[1] - b[1] * c[0])
    return volume / 6.0


@program(lambda rng, n: (rng.random(n), rng.permutation(n)), writes="x", small=7, large=1000)
@njit
def follow_pointers(x, following):
    k = 0
    for _ in range(x.shape[0]):
        after = following[k]
        x[after] = 0.5 * (x[after] + x[k]) ** 2
        k = after


@program(lambda rng, n: (rng.random(n), rng.random(n), 4), small=9, large=1000)
@njit
def azimuthal_average(data, radius, npt):
    rmax = radius.max()
    res = np.zeros(npt)
    for i in range(npt):
        r1 = rmax * i / npt
        r2 = rmax * (i + 1) / npt
        total = 0.0
        count = 0
        for j in range(data.size):
            if r1 <= radius[j] < r2:
                total += data[j]
                count += 1
        if count > 0:
            res[i] = total / count
    return res


@program(lambda rng, n: (rng.random((n, n)),), large=200)
@njit
def go_fast(a):
    trace = 0.0
    for i in range(a.shape[0]):
        trace += np.tanh(a[i, i])
    return a + trace


@program(lambda rng, n: (rng.random((3, 2, 2)), rng.random((3, 2)), n), small=8, large=200)
@njit
def contour_integral(M, v, points):
    """Around a circle, of a small linear system whose matrix is a polynomial; in real numbers."""
    out = np.zeros(2)
    for k in range(points):
        angle = 2.0 * np.pi * k / points
        c, s = 3.0 * np.cos(angle), 3.0 * np.sin(angle)
        zr, zi = 1.0, 0.0
        ar = np.zeros((2, 2))
        ai = np.zeros((2, 2))
        for p in range(M.shape[0]):
            for i in range(2):
                for j in range(2):
                    ar[i, j] += zr * M[p, i, j]
                    ai[i, j] += zi * M[p, i, j]
            zr, zi = zr * c - zi * s, zr * s + zi * c
        dr = ar[0, 0] * ar[1, 1] - ai[0, 0] * ai[1, 1] - ar[0, 1] * ar[1, 0] + ai[0, 1] * ai[1, 0]
        di = ar[0, 0] * ai[1, 1] + ai[0, 0] * ar[1, 1] - ar[0, 1] * ai[1, 0] - ai[0, 1] * ar[1, 0]
        size = dr * dr + di * di
        xr = v[0, 0] * ar[1, 1] - v[1, 0] * ar[0, 1]
        xi = v[0, 0] * ai[1, 1] - v[1, 0] * ai[0, 1]
        qr, qi = (xr * dr + xi * di) / size, (xi * dr - xr * di) / size
        out[0] += (qr * c - qi * s) / points
        out[1] += (qr * s + qi * c) / points
    return out


@program(
    lambda rng, n: (rng.normal(size=n) + 1j * rng.normal(size=n), 0.3 + 0.4j), small=6, large=1000
)
@njit
def complex_polynomial(coefficients, z):
    value = 0j
    for k in range(len(coefficients)):
        value = value * z + coefficients[k]
    return abs(value) ** 2


@program(lambda rng, n: (rng.random((n, 2)), 1e-3), small=6, large=60)
@njit
def k_means_cost(points, spread):
    """Distance to the nearest of three moving centres."""
    centres = points[:3].copy()
    for _ in range(3):
        sums = np.zeros((3, 2))
        counts = np.zeros(3, dtype=np.int64)
        for i in range(points.shape[0]):
            nearest = 0
            best = np.inf
            for c in range(3):
                d = (points[i, 0] - centres[c, 0]) ** 2 + (points[i, 1] - centres[c, 1]) ** 2
                if d < best:
                    best = d
                    nearest = c
            counts[nearest] += 1
            sums[nearest] += points[i]
        for c in range(3):
            if counts[c] > 0:
                centres[c] = sums[c] / (counts[c] + spread)
    return centres
