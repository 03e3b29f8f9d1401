"""Problems by three hands: one writes formulas of whole arrays and assigns them to variables, one
keeps scalars and tuples, one has buffers and writes into them.
"""

# ruff: noqa: RUF007 Numba has no `itertools.pairwise`.

import math
from collections import namedtuple

import numpy as np
from numba import njit

from tests.numba_functions.programs.record import program

GAUSS_POINTS = np.array([-0.7745966692414834, 0.0, 0.7745966692414834])
GAUSS_WEIGHTS = np.array([0.5555555555555556, 0.8888888888888888, 0.5555555555555556])
KERNEL = ((0.05, 0.2, 0.05), (0.2, 0.0, 0.2), (0.05, 0.2, 0.05))
Body = namedtuple("Body", ["x", "y", "vx", "vy"])


# Formulas of whole arrays.


@njit
def _pendulum(state, p):
    theta, omega = state
    return np.array([omega, -p[0] * np.sin(theta) - p[1] * omega])


@program(lambda rng, n: (rng.random(2), np.array([2.0, 0.3]), 0.1, n), small=4, large=1000)
@njit
def pendulum_rk4(state, p, h, steps):
    trajectory = np.zeros((steps + 1, 2))
    trajectory[0] = state
    for k in range(steps):
        k1 = _pendulum(state, p)
        k2 = _pendulum(state + 0.5 * h * k1, p)
        k3 = _pendulum(state + 0.5 * h * k2, p)
        k4 = _pendulum(state + h * k3, p)
        state = state + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
        trajectory[k + 1] = state
    return trajectory


@program(lambda rng, n: (rng.random(n), 0.3, 4), small=6, large=1000)
@njit
def diffusion_of_slices(u, c, steps):
    for _ in range(steps):
        new = u.copy()
        new[1:-1] = u[1:-1] + c * (u[2:] - 2.0 * u[1:-1] + u[:-2])
        new[0], new[-1] = new[1], new[-2]
        u = new
    return u


@program(lambda rng, n: (rng.random((n, 2)) @ np.ones((2, 2)) + rng.random((n, 2)), rng.random(n)))
@njit
def newton_least_squares(x, y):
    """Logistic regression by three Newton steps."""
    w = np.zeros(x.shape[1])
    for _ in range(3):
        p = 1.0 / (1.0 + np.exp(-(x @ w)))
        gradient = x.T @ (p - y) + 0.1 * w
        s = p * (1.0 - p)
        hessian = (x.T * s) @ x + 0.1 * np.eye(x.shape[1])
        w = w - np.linalg.solve(hessian, gradient)
    return w


@program(lambda rng, n: (rng.random((n, n)) + n * np.eye(n), rng.random(n)), small=4)
@njit
def steepest_descent(a, b):
    x = np.zeros_like(b)
    r = b - a @ x
    count = 0
    while np.sqrt(r @ r) > 1e-10 and count < 8:
        ar = a @ r
        x = x + (r @ r) / (r @ ar) * r
        r = b - a @ x
        count += 1
    return x


@program(lambda rng, n: (rng.random((n, 3)), rng.random((3, 2)), rng.random((2, 2)), rng.random(2)))
@njit
def recurrent_cell(x, w, u, b):
    h = np.zeros(u.shape[0])
    outputs = np.empty((x.shape[0], u.shape[0]))
    for t in range(x.shape[0]):
        h = np.tanh(x[t] @ w + h @ u + b)
        outputs[t] = h
    return outputs


@program(lambda rng, n: (rng.random(n) - 0.5, 0.2), small=7, large=1000)
@njit
def soft_threshold(x, level):
    y = x.copy()
    y[np.abs(x) <= level] = 0.0
    y[x > level] -= level
    y[x < -level] += level
    return y


@program(lambda rng, n: (rng.random((n, 3)),), small=5, large=500)
@njit
def standardized(x):
    out = np.empty_like(x)
    for j in range(x.shape[1]):
        column = x[:, j]
        out[:, j] = (column - column.mean()) / (column.std() + 1e-3)
    return out


@program(lambda rng, n: (rng.random(n), rng.random(n)), small=5, large=100)
@njit
def polynomial_product(a, b):
    c = np.concatenate((a, np.zeros(b.size - 1)))
    out = np.zeros(c.size)
    for k, factor in enumerate(b):
        out = out + factor * np.concatenate((np.zeros(k), c[: c.size - k]))
    return out


@program(lambda rng, n: (rng.random(n), 0.9), small=6, large=500)
@njit
def momentum(x, beta):
    """Heavy ball on Rosenbrock's function, whose gradient is written by hand."""
    velocity = np.zeros_like(x)
    for _ in range(5):
        g = np.zeros_like(x)
        g[:-1] = -4.0 * x[:-1] * (x[1:] - x[:-1] ** 2) - 2.0 * (1.0 - x[:-1])
        g[1:] += 2.0 * (x[1:] - x[:-1] ** 2)
        velocity = beta * velocity - 0.01 * g
        x = x + velocity
    return x


@program(lambda rng, n: (rng.random((n, n)), 6), small=4, large=50)
@njit
def matrix_exponential(a, terms):
    result = np.eye(a.shape[0])
    term = np.eye(a.shape[0])
    for k in range(1, terms):
        term = term @ a / k
        result = result + term
    return result


# Scalars and tuples.


@program(lambda rng, n: (1.0, 0.0, 0.0, 1.1, 0.05, n), small=5, large=1000)
@njit
def orbit(x, y, vx, vy, h, steps):
    body = Body(x, y, vx, vy)
    for _ in range(steps):
        r3 = math.hypot(body.x, body.y) ** 3
        vx = body.vx - h * body.x / r3
        vy = body.vy - h * body.y / r3
        body = Body(body.x + h * vx, body.y + h * vy, vx, vy)
    return body.x, body.y, 0.5 * (body.vx**2 + body.vy**2) - 1.0 / math.hypot(body.x, body.y)


@program(lambda rng, n: (0.1, 2.5, rng.random(3)), small=3)
@njit
def bisection_then_newton(low, high, c):
    def value(t):
        return t * t * t - c[0] * t - c[1] - 1.0

    if value(low) * value(high) > 0.0:
        raise ValueError("no change of sign")
    bracket = (low, high)
    while bracket[1] - bracket[0] > 0.1:
        middle = 0.5 * (bracket[0] + bracket[1])
        if value(middle) * value(bracket[0]) <= 0.0:
            bracket = (bracket[0], middle)
        else:
            bracket = (middle, bracket[1])
    t = 0.5 * (bracket[0] + bracket[1])
    for _ in range(20):
        step = value(t) / (3.0 * t * t - c[0])
        t -= step
        if abs(step) < 1e-14:
            break
    return t * c[2]


@program(lambda rng, n: (0.2, 1.3, rng.random(3)), small=3)
@njit
def gauss_quadrature(a, b, p):
    half, centre = 0.5 * (b - a), 0.5 * (a + b)
    total = 0.0
    for point, weight in zip(GAUSS_POINTS, GAUSS_WEIGHTS):
        x = centre + half * point
        total += weight * (p[0] + x * (p[1] + x * math.exp(-p[2] * x)))
    return half * total


@program(lambda rng, n: (rng.random(n), 0.3, 0.1), small=6, large=1000)
@njit
def hysteresis(field, coercive, slope):
    state, total = -1.0, 0.0
    for h in field:
        if h > coercive and state < 0.0:
            state = 1.0
        elif h < -coercive and state > 0.0:
            state = -1.0
        total += state * math.tanh(slope * h) + h * h
    return total, state


@njit
def _reflectance(n1, n2, cosine):
    sine = n1 / n2 * math.sqrt(max(0.0, 1.0 - cosine * cosine))
    if sine >= 1.0:
        return 1.0
    inner = math.sqrt(1.0 - sine * sine)
    return ((n1 * cosine - n2 * inner) / (n1 * cosine + n2 * inner)) ** 2


@program(lambda rng, n: (1.0 + rng.random(n), 0.8), small=5, large=1000)
@njit
def light_through_layers(indices, cosine):
    intensity = 1.0
    for n1, n2 in zip(indices[:-1], indices[1:]):
        r = _reflectance(n1, n2, cosine)
        if r == 1.0:
            return 0.0
        intensity *= 1.0 - r
        sine = n1 / n2 * math.sqrt(1.0 - cosine * cosine)
        cosine = math.sqrt(1.0 - sine * sine)
    return intensity


@program(lambda rng, n: (np.sort(rng.random(n)), rng.random(n), 0.05), small=6, large=1000)
@njit
def running_statistics(times, values, decay):
    """Mean and variance with weights that decay, and the largest jump."""
    mean, variance, weight = values[0], 0.0, 1.0
    jump = (0.0, 0)
    for k in range(1, times.size):
        forget = math.exp(-decay * (times[k] - times[k - 1]))
        weight = forget * weight + 1.0
        delta = values[k] - mean
        mean += delta / weight
        variance = forget * variance + delta * (values[k] - mean)
        if abs(delta) > jump[0]:
            jump = (abs(delta), k)
    return mean, variance / weight, jump[0]


@program(lambda rng, n: (rng.random((n, 2)), np.array([0.3, 0.4])), small=5, large=1000)
@njit
def winding(polygon, point):
    """The angle that a polygon goes around a point."""
    total = 0.0
    n = len(polygon)
    for i in range(n):
        ax, ay = polygon[i]
        bx, by = polygon[(i + 1) % n]
        ax, ay, bx, by = ax - point[0], ay - point[1], bx - point[0], by - point[1]
        total += math.atan2(ax * by - ay * bx, ax * bx + ay * by)
    return total


# Buffers.


@program(lambda rng, n: (rng.random((n, n)), np.zeros((n, n))), small=5, large=200, writes="out")
@njit
def weighted_neighbours(image, out):
    rows, columns = image.shape
    for i in range(rows):
        for j in range(columns):
            total = 0.0
            for di in range(3):
                for dj in range(3):
                    y = min(max(i + di - 1, 0), rows - 1)
                    x = min(max(j + dj - 1, 0), columns - 1)
                    total += (KERNEL[0][0] if di != 1 and dj != 1 else KERNEL[0][1]) * image[y, x]
            out[i, j] = total


@program(
    lambda rng, n: (rng.random(n), rng.random(n), np.zeros(n), np.zeros(n), 0.1, 3),
    small=5,
    large=1000,
    writes="p q",
)
@njit
def leapfrog_into(p0, q0, p, q, h, steps):
    n = p.shape[0]
    p[:] = p0
    q[:] = q0
    force = np.empty(n)
    for _ in range(steps):
        for i in range(n):
            left = q[i - 1] if i > 0 else 0.0
            right = q[i + 1] if i < n - 1 else 0.0
            force[i] = left - 2.0 * q[i] + right - q[i] ** 3
        p += 0.5 * h * force
        q += h * p


@program(lambda rng, n: (rng.random((n, n)), rng.random(n)), small=4, large=100, writes="a b")
@njit
def eliminate_in_place(a, b):
    n = a.shape[0]
    order = np.arange(n)
    for k in range(n):
        p = k
        for i in range(k + 1, n):
            if abs(a[order[i], k]) > abs(a[order[p], k]):
                p = i
        order[k], order[p] = order[p], order[k]
        row = order[k]
        assert a[row, k] != 0.0, "singular"
        for i in order[k + 1 :]:
            a[i, k] /= a[row, k]
            for j in range(k + 1, n):
                a[i, j] -= a[i, k] * a[row, j]
            b[i] -= a[i, k] * b[row]
    x = np.zeros(n)
    for k in range(n - 1, -1, -1):
        x[k] = (b[order[k]] - a[order[k], k + 1 :] @ x[k + 1 :]) / a[order[k], k]
    return x


@program(lambda rng, n: (rng.random(n), rng.random(n), np.zeros(3)), small=8, writes="bins")
@njit
def deposit(position, charge, bins):
    """Cloud in cell: each particle to two bins."""
    n = bins.shape[0]
    for k in range(position.shape[0]):
        x = position[k] * n
        cell = int(x)
        part = x - cell
        bins[cell % n] += (1.0 - part) * charge[k]
        bins[(cell + 1) % n] += part * charge[k]


@program(lambda rng, n: (rng.random((2, n)), 0.2, 3), small=6, large=1000)
@njit
def ping_pong(pair, c, steps):
    source, target = 0, 1
    n = pair.shape[1]
    work = pair.copy()
    for _ in range(steps):
        for i in range(n):
            work[target, i] = (1.0 - c) * work[source, i] + c * work[source, i - 1] ** 2
        source, target = target, source
    return work[source]


@program(lambda rng, n: (rng.random(n), rng.random(n)), small=5, large=200)
@njit
def merged(a, b):
    """Two sorted halves into one buffer."""
    a, b = np.sort(a), np.sort(b)
    out = np.empty(a.size + b.size)
    i = j = 0
    for k in range(out.size):
        if j >= b.size or (i < a.size and a[i] <= b[j]):
            out[k] = a[i] * k
            i += 1
        else:
            out[k] = b[j] * k
            j += 1
    return out


@program(lambda rng, n: (rng.random((n, n)), 3), small=5, large=100, writes="grid")
@njit
def sandpile(grid, sweeps):
    """What is too steep slides down, until nothing does."""
    rows, columns = grid.shape
    for _ in range(sweeps):
        moved = False
        for i in range(rows):
            for j in range(columns - 1):
                excess = grid[i, j] - grid[i, j + 1] - 0.3
                if excess <= 0.0:
                    continue
                grid[i, j] -= 0.25 * excess
                grid[i, j + 1] += 0.25 * excess
                moved = True
        if not moved:
            return
