"""Trajectories, roots and searches."""

import math

import numpy as np
from numba import njit

from tests.numba_functions.programs.record import program


@njit
def pull(dx, dy, dz, mass):
    d2 = dx * dx + dy * dy + dz * dz + 0.01
    f = mass / (d2 * math.sqrt(d2))
    return f * dx, f * dy, f * dz


@njit
def accelerations(pos, mass, acc):
    n = pos.shape[0]
    for i in range(n):
        ax = ay = az = 0.0
        for j in range(n):
            if j != i:
                fx, fy, fz = pull(
                    pos[j, 0] - pos[i, 0], pos[j, 1] - pos[i, 1], pos[j, 2] - pos[i, 2], mass[j]
                )
                ax += fx
                ay += fy
                az += fz
        acc[i, 0] = ax
        acc[i, 1] = ay
        acc[i, 2] = az


@program(
    lambda rng, n: (rng.normal(size=(n, 3)), 0.1 * rng.normal(size=(n, 3)), rng.random(n), 0.01, 3),
    writes="pos vel",
    small=4,
)
@njit
def nbody(pos, vel, mass, dt, steps):
    acc = np.zeros(pos.shape)
    accelerations(pos, mass, acc)
    for _ in range(steps):
        for i in range(pos.shape[0]):
            for k in range(3):
                vel[i, k] += 0.5 * dt * acc[i, k]
                pos[i, k] += dt * vel[i, k]
        accelerations(pos, mass, acc)
        for i in range(pos.shape[0]):
            for k in range(3):
                vel[i, k] += 0.5 * dt * acc[i, k]


@program(
    lambda rng, n: (rng.normal(size=(n, 3)), 0.1 * rng.normal(size=(n, 3)), rng.random(n), 0.01, 3),
    writes="pos vel",
    small=4,
    large=40,
)
@njit
def nbody_rows(pos, vel, mass, dt, steps):
    """Each pair once, by rows of the arrays."""
    n = len(mass)
    energy = 0.0
    for _ in range(steps):
        energy = 0.0
        for i in range(n):
            energy += 0.5 * mass[i] * np.sum(vel[i] ** 2)
            for j in range(i + 1, n):
                d = pos[i] - pos[j]
                r2 = np.dot(d, d) + 0.01
                mag = dt / (r2 * np.sqrt(r2))
                vel[i] -= d * mass[j] * mag
                vel[j] += d * mass[i] * mag
                energy -= mass[i] * mass[j] / np.sqrt(r2)
        pos += dt * vel
    return energy


@program(lambda rng, n: (6 * rng.random(n), 0.9 * rng.random(n)), large=10_000)
@njit
def kepler_newton(mean, ecc):
    out = np.empty_like(mean)
    for i in range(mean.size):
        M, e = mean[i], ecc[i]
        E = M if e < 0.8 else math.pi
        while True:
            step = (E - e * math.sin(E) - M) / (1.0 - e * math.cos(E))
            E -= step
            if abs(step) < 1e-12:
                break
        out[i] = E
    return out


@njit
def lotka_volterra_rate(x, y, p):
    return p[0] * x - p[1] * x * y, p[3] * x * y - p[2] * y


@program(lambda rng, n: (np.array([1.1, 0.4, 0.4, 0.1]), 2.0, 1.5, 0.05, n), small=6, large=5000)
@njit
def lotka_volterra_rk4(p, x, y, h, steps):
    path = np.empty((steps + 1, 2))
    path[0, 0], path[0, 1] = x, y
    for n in range(steps):
        a1, b1 = lotka_volterra_rate(x, y, p)
        a2, b2 = lotka_volterra_rate(x + 0.5 * h * a1, y + 0.5 * h * b1, p)
        a3, b3 = lotka_volterra_rate(x + 0.5 * h * a2, y + 0.5 * h * b2, p)
        a4, b4 = lotka_volterra_rate(x + h * a3, y + h * b3, p)
        x += h / 6.0 * (a1 + 2.0 * a2 + 2.0 * a3 + a4)
        y += h / 6.0 * (b1 + 2.0 * b2 + 2.0 * b3 + b4)
        path[n + 1, 0], path[n + 1, 1] = x, y
    return path


@njit
def lorenz_rate(s, p):
    out = np.empty(3)
    out[0] = p[0] * (s[1] - s[0])
    out[1] = s[0] * (p[1] - s[2]) - s[1]
    out[2] = s[0] * s[1] - p[2] * s[2]
    return out


@program(
    lambda rng, n: (rng.random(3), np.array([10.0, 28.0, 8 / 3]), 0.01, n), small=4, large=2000
)
@njit
def lorenz_rk4(start, p, h, steps):
    s = start
    for _ in range(steps):
        k1 = lorenz_rate(s, p)
        k2 = lorenz_rate(s + h / 2 * k1, p)
        k3 = lorenz_rate(s + h / 2 * k2, p)
        k4 = lorenz_rate(s + h * k3, p)
        s = s + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return s


@program(lambda rng, n: (1.0, 0.8, float(n), 1e-4), small=2, large=100)
@njit
def van_der_pol_adaptive(x0, mu, end, tolerance):
    """Heun's method with a step that follows the error: states are tuples, steps may fail."""
    state = (x0, 0.0)
    t = 0.0
    h = 0.05
    while t < end:
        if t + h > end:
            h = end - t
        x, v = state
        a = mu * (1.0 - x * x) * v - x
        x1, v1 = x + h * v, v + h * a
        a1 = mu * (1.0 - x1 * x1) * v1 - x1
        x2, v2 = x + 0.5 * h * (v + v1), v + 0.5 * h * (a + a1)
        error = max(abs(x2 - x1), abs(v2 - v1))
        if error > tolerance:
            h *= 0.5
            continue
        t += h
        state = (x2, v2)
        if error < 0.1 * tolerance:
            h *= 1.5
    return state[0] + 2.0 * state[1]


@program(lambda rng, n: (1.0, 2.0, 0.7, 0.01, n), small=60, large=5000)
@njit
def bouncing_ball(height, speed, restitution, dt, steps):
    y, v = height, speed
    bounces = 0
    for _ in range(steps):
        v -= 9.81 * dt
        y += v * dt
        if y < 0.0:
            y = -restitution * y
            v = -restitution * v
            bounces += 1
            if bounces == 3:
                return y, v
    return y, v


@program(lambda rng, n: (rng.random(n), rng.random(n) + 1.0), large=1000)
@njit
def newton_or_bisect(a, b):
    """x with x^3 + a x = b, in a bracket: Newton's step where it stays inside."""
    out = np.zeros(len(a))
    for k in range(len(a)):
        low, high = 0.0, 2.0
        x = 1.0
        for _ in range(60):
            f = x**3 + a[k] * x - b[k]
            if f > 0:
                high = x
            else:
                low = x
            new = x - f / (3 * x**2 + a[k])
            if new <= low or new >= high:
                new = 0.5 * (low + high)
            if abs(new - x) < 1e-13:
                x = new
                break
            x = new
        out[k] = x
    return out


@program(
    lambda rng, n: (rng.uniform(-1.2, 0.4, n), rng.uniform(-0.9, 0.9, n), 12, 8.0),
    small=9,
    large=1000,
)
@njit
def escape_distance(re, im, most, radius):
    """Mandelbrot's iteration until it escapes, with the derivative along: a smooth result."""
    out = np.zeros(re.shape[0])
    for i in range(re.shape[0]):
        x = y = 0.0
        k = 0
        while x * x + y * y < radius * radius and k < most:
            x, y = x * x - y * y + re[i], 2.0 * x * y + im[i]
            k += 1
        out[i] = math.log(x * x + y * y + 1e-3) / 2.0**k
    return out


@program(lambda rng, n: (rng.uniform(-1, 1, n), 5), small=4, large=1000)
@njit
def mandelbrot_slices(c, steps):
    z = np.zeros_like(c)
    inside = np.zeros(c.shape)
    for _ in range(steps):
        for i in range(len(c)):
            if abs(z[i]) < 2.0:
                z[i] = z[i] * z[i] + c[i]
                inside[i] += z[i]
    return inside


@program(lambda rng, n: (rng.random(n), 1.5, 0.1, 6), writes="x", small=6, large=1000)
@njit
def spring_chain(x, stiffness, dt, steps):
    v = np.zeros(x.shape[0])
    for _ in range(steps):
        for i, xi in enumerate(x):
            force = 0.0
            if i > 0:
                force += stiffness * (x[i - 1] - xi)
            if i < len(x) - 1:
                force += stiffness * (x[i + 1] - xi)
            v[i] += dt * force
        for i in range(len(x)):
            x[i] += dt * v[i]
    energy = 0.0
    for a, b in zip(x, v):
        energy += 0.5 * (a * a + b * b)
    return energy


@program(lambda rng, n: (0.3, 3.3, n), small=6, large=10_000)
@njit
def logistic_map(x, r, steps):
    i = 0
    while i < steps:
        x = r * x * (1 - x)
        i += 1
    return x


@program(lambda rng, n: (rng.random((n, 2)), 0.2), small=6, large=60)
@njit
def lennard_jones(pos, cutoff):
    """Pairs further apart than the cutoff are passed over."""
    energy = 0.0
    n = pos.shape[0]
    for i in range(n):
        for j in range(i + 1, n):
            r2 = 0.5
            for k in range(2):
                r2 += (pos[i, k] - pos[j, k]) ** 2
            if r2 > 4.0 + cutoff:
                continue
            s6 = 1.0 / r2**3
            energy += 4.0 * (s6 * s6 - s6)
    return energy


@program(lambda rng, n: (rng.random(n), 0.5, 0.2), small=8, large=10_000)
@njit
def first_crossing(x, level, slope):
    """Where a line first reaches a level; past the end if it does not."""
    y = 0.0
    for i in range(len(x)):
        before = y
        y += x[i] * (1.0 + slope * i)
        if y > level:
            return i + (level - before) / (y - before)
    return len(x) + level - y


@program(lambda rng, n: (100.0, 105.0, 0.03, 0.25, 1.0, n), small=6, large=300)
@njit
def american_put(s, k, r, sigma, t, n):
    dt = t / n
    u = math.exp(sigma * math.sqrt(dt))
    d = 1.0 / u
    p = (math.exp(r * dt) - d) / (u - d)
    discount = math.exp(-r * dt)
    values = np.empty(n + 1)
    for i in range(n + 1):
        values[i] = max(k - s * u ** (2 * i - n), 0.0)
    for step in range(n - 1, -1, -1):
        for i in range(step + 1):
            hold = discount * (p * values[i + 1] + (1 - p) * values[i])
            exercise = k - s * u ** (2 * i - step)
            values[i] = exercise if exercise > hold else hold
    return values[0]


@program(lambda rng, n: (rng.normal(size=n), 100.0, 0.05, 0.2, 90.0), small=8, large=1000)
@njit
def barrier_path(noise, s, r, sigma, barrier):
    dt = 1.0 / noise.size
    for z in noise:
        s *= math.exp((r - 0.5 * sigma**2) * dt + sigma * math.sqrt(dt) * z)
        if s < barrier:
            return 0.0 * s + 0.01 * barrier
    return max(s - 100.0, 0.0) * math.exp(-r)
