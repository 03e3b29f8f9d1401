"""Kernels of `numba.cuda` whose derivatives are tested, as people write them."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

try:
    from numba import cuda, float32, float64
except ImportError:  # what needs it is skipped
    cuda = None
    float32 = float64 = float


def device(function):
    return cuda.jit(device=True)(function) if cuda is not None else function


@device
def cube(v):
    return v * v * v


@device
def flux(left, right, k):
    if left > right:
        return k * cube(left - right)
    return math.sin(k) * (left - right)


def scaled(a, x, y, out):
    """A scalar, whose cotangent is a sum over all threads."""
    i = cuda.grid(1)
    if i < out.size:
        out[i] = a * x[i] * x[i] + math.exp(-y[i])


def strided(x, out):
    """A loop over the grid."""
    start = cuda.grid(1)
    step = cuda.gridsize(1)
    for i in range(start, x.shape[0], step):
        out[i] += math.tanh(x[i]) * x[i]


def stencil(u, k, out):
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if i == 0 or i >= u.shape[0] - 1:
        return
    out[i] = u[i] + flux(u[i - 1], u[i], k[i]) - flux(u[i], u[i + 1], k[i + 1])


def heat(u, out, h):
    i, j = cuda.grid(2)
    if i < 1 or j < 1:
        return
    if i < u.shape[0] - 1 and j < u.shape[1] - 1:
        around = u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1]
        out[i, j] = u[i, j] + h * cube(around - 4.0 * u[i, j])


def mixed(x, y, out):
    """Three dimensions, and each thread alone with its elements."""
    i, j, k = cuda.grid(3)
    if i < x.shape[0] and j < x.shape[1] and k < x.shape[2]:
        out[i, j, k] = x[i, j, k] * y[i, j, k] ** 2


def rows(x, w, out):
    """A block for a row, threads for its columns."""
    row = cuda.blockIdx.x
    column = cuda.threadIdx.x
    total = 0.0
    for k in range(w.shape[0]):
        total += x[row, k] * w[k, column]
    out[row, column] = math.tanh(total)


def lorenz(start, rho, steps, h, out):
    """A state in local memory, overwritten step after step."""
    i = cuda.grid(1)
    if i >= start.shape[0]:
        return
    s = cuda.local.array(3, dtype=float64)
    for k in range(3):
        s[k] = start[i, k]
    for _ in range(steps):
        dx = 10.0 * (s[1] - s[0])
        dy = s[0] * (rho[i] - s[2]) - s[1]
        dz = s[0] * s[1] - 2.5 * s[2]
        s[0] += h * dx
        s[1] += h * dy
        s[2] += h * dz
    for k in range(3):
        out[i, k] = s[k]


def newton(m, e, out):
    """Kepler's equation, to convergence."""
    i = cuda.grid(1)
    if i < m.shape[0]:
        x = m[i]
        for _ in range(30):
            d = (x - e[0] * math.sin(x) - m[i]) / (1.0 - e[0] * math.cos(x))
            x -= d
            if abs(d) < 1e-13:
                break
        out[i] = x


def overwritten(x, y):
    i = cuda.grid(1)
    if i < x.shape[0]:
        x[i] = x[i] * y[i]
        x[i] = math.sin(x[i]) + y[i]
        y[i] = x[i] * x[i]


def binned(x, bins, weight, out):
    """Additions that threads share."""
    i = cuda.grid(1)
    if i < x.shape[0]:
        cuda.atomic.add(out, bins[i], weight[bins[i]] * x[i] * x[i])


def pairs(x, energy):
    """Each thread's pairs, summed by the thread before the atomic addition."""
    i = cuda.grid(1)
    if i < x.shape[0]:
        for j in range(x.shape[0]):
            if j != i:
                cuda.atomic.add(energy, 0, 0.5 / (1.0 + (x[i] - x[j]) ** 2))


def single(x, scale, out):
    i = cuda.grid(1)
    if i < x.shape[0]:
        v = cuda.fma(x[i], float32(0.5), scale[0])
        out[i] = cuda.selp(v > float32(0), math.sqrt(abs(v)), float32(2) * v)


def masked(x, mask, out):
    """An element that is read only by threads that have it."""
    i = cuda.grid(1)
    if i >= x.shape[0]:
        return
    if mask[i] > 0:
        out[cuda.threadIdx.x] += x[i] ** 2


def periodic(x, out):
    """Without a guard against it, `i - 1` may be another thread's element."""
    i = cuda.grid(1)
    if i < x.shape[0]:
        out[i] = x[i] * x[i - 1]


def offsets(place, thread, extent, k0, out):
    """Names that generated code has, too; an offset, and a loop over the grid."""
    i, j = cuda.grid(2)
    k1 = extent * thread[i, j]
    local = cuda.local.array(2, float64)
    local[0] = local[1] = 0.0
    for _ in range(k0):
        k1 = math.sin(k1) * place[i + k0, j]
        local[0] += k1 * place[i, j + 1]
    for k in range(j, place.shape[1], cuda.gridsize(2)[1]):
        if 0 < k < place.shape[1] and not (k == 1 or i > 5):
            out[i, k] += local[0] * place[i, k - 1] * k1


def counting(x, w, out):
    """Loops over the grid and over components, as `while`."""
    i = cuda.grid(1)
    while i < x.shape[0]:
        v = x[i]
        k = 0
        while k < w.shape[1]:
            v = math.sin(v) + w[i, k] * v
            k += 1
        out[i] = v
        i += cuda.gridsize(1)


def views(x, out):
    """A row as an array of its own."""
    i = cuda.grid(1)
    if i < x.shape[0]:
        row = x[i]
        for v in row:
            out[i] += v * v * row[0]


RNG = np.random.default_rng(7)


def uniform(*shape):
    return RNG.uniform(0.2, 1.0, shape)


@dataclass(frozen=True)
class Case:
    kernel: Callable[..., None]
    arguments: tuple[Any, ...]
    launch: tuple[Any, Any]
    shares: bool = False  # whether threads of its adjoint add to the same elements


CASES = {
    "scaled": Case(scaled, (np.array(0.7), uniform(9), uniform(9), np.zeros(9)), (3, 4)),
    "strided": Case(strided, (uniform(11), uniform(11)), (2, 2)),
    "stencil": Case(stencil, (uniform(9), uniform(9), np.zeros(9)), (2, 5)),
    "heat": Case(heat, (uniform(5, 4), uniform(5, 4), 0.1), ((2, 3), (3, 2))),
    "mixed": Case(
        mixed,
        (uniform(2, 3, 2), uniform(2, 3, 2), np.zeros((2, 3, 2))),
        ((1, 2, 2), (2, 2, 1)),
    ),
    "rows": Case(rows, (uniform(3, 2), uniform(2, 4), np.zeros((3, 4))), (3, 4), shares=True),
    "lorenz": Case(lorenz, (uniform(3, 3), uniform(3), 4, 0.05, np.zeros((3, 3))), (2, 2)),
    "newton": Case(newton, (uniform(4), np.array([0.4]), np.zeros(4)), (1, 5), shares=True),
    "overwritten": Case(overwritten, (uniform(5), uniform(5)), (2, 3)),
    "binned": Case(
        binned,
        (uniform(6), np.array([0, 2, 2, 1, 0, 2]), uniform(3), np.zeros(3)),
        (2, 4),
        shares=True,
    ),
    "pairs": Case(pairs, (uniform(4), np.zeros(1)), (1, 4), shares=True),
    "single": Case(
        single,
        (uniform(5).astype(np.float32), np.float32([0.3]), np.zeros(5, np.float32)),
        (1, 8),
        shares=True,
    ),
    "periodic": Case(periodic, (uniform(5), np.zeros(5)), (2, 4), shares=True),
    "offsets": Case(
        offsets, (uniform(5, 5), uniform(3, 3), uniform(), 2, uniform(3, 5)), ((3, 1), (1, 3))
    ),
    "counting": Case(counting, (uniform(7), uniform(7, 2), np.zeros(7)), (2, 2)),
    "views": Case(views, (uniform(4, 3), uniform(4)), (2, 2)),
    "masked": Case(masked, (uniform(4), np.array([1, 0, 1]), uniform(4)), (1, 3)),
}
