"""Gradients of one problem as several people write it for Numba: how much the style matters.

    python perf/numba_function_styles.py [problem ...] [--size N]

For each style: what a gradient takes, over what the kernel takes in Numba, in one thread, by
processor time, so that other work on the machine counts less.
"""

import argparse
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)]

# Heat equation with a coefficient, which is active.


def swapped(u, v, k, steps):
    for _ in range(steps):
        for i in range(1, u.shape[0] - 1):
            for j in range(1, u.shape[1] - 1):
                v[i, j] = u[i, j] + 0.1 * k[i, j] * (
                    u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - 4.0 * u[i, j]
                )
        u, v = v, u


def coefficient_outside(u, v, k, steps):
    n, m = u.shape
    for _ in range(steps):
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                across = u[i + 1, j] - 2 * u[i, j] + u[i - 1, j]
                along = u[i, j + 1] - 2 * u[i, j] + u[i, j - 1]
                v[i, j] = u[i, j] + 0.1 * (k[i, j] * (across + along))
        u, v = v, u


def copied_back(u, v, k, steps):
    n, m = u.shape
    for _ in range(steps):
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                laplacian = u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - 4.0 * u[i, j]
                v[i, j] = u[i, j] + 0.1 * k[i, j] * laplacian
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                u[i, j] = v[i, j]


def copied_back_at_once(u, k, steps):
    n, m = u.shape
    new = u.copy()
    for _ in range(steps):
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                laplacian = u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - 4.0 * u[i, j]
                new[i, j] = u[i, j] + 0.1 * k[i, j] * laplacian
        u[:] = new


def returned(u0, k, steps):
    u = u0.copy()
    v = u0.copy()
    for _ in range(steps):
        for i in range(1, u.shape[0] - 1):
            for j in range(1, u.shape[1] - 1):
                laplacian = u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - 4.0 * u[i, j]
                v[i, j] = u[i, j] + 0.1 * k[i, j] * laplacian
        u, v = v, u
    return u


def slices(u, v, k, steps):
    for _ in range(steps):
        v[1:-1, 1:-1] = u[1:-1, 1:-1] + 0.1 * k[1:-1, 1:-1] * (
            u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4.0 * u[1:-1, 1:-1]
        )
        u, v = v, u


def averaged_at_faces(u, v, k, steps):
    n, m = u.shape
    for _ in range(steps):
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                east = 0.5 * (k[i, j] + k[i, j + 1]) * (u[i, j + 1] - u[i, j])
                west = 0.5 * (k[i, j] + k[i, j - 1]) * (u[i, j] - u[i, j - 1])
                south = 0.5 * (k[i, j] + k[i + 1, j]) * (u[i + 1, j] - u[i, j])
                north = 0.5 * (k[i, j] + k[i - 1, j]) * (u[i, j] - u[i - 1, j])
                v[i, j] = u[i, j] + 0.1 * (east - west + south - north)
        u, v = v, u


# Gauss-Seidel in place.


def relaxed(u, f, h, steps):
    for _ in range(steps):
        for i in range(1, u.shape[0] - 1):
            for j in range(1, u.shape[1] - 1):
                u[i, j] = 0.25 * (
                    u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - h * h * f[i, j]
                )


def relaxed_by_residual(u, f, h, steps):
    n, m = u.shape
    h2 = h**2
    for _ in range(steps):
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                residual = (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1]) - h2 * f[i, j]
                u[i, j] += 0.25 * residual - u[i, j]


def relaxed_until_still(u, f, h, steps):
    n, m = u.shape
    done = 0
    while done < steps:
        change = 0.0
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                old = u[i, j]
                u[i, j] = (
                    u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - h * h * f[i, j]
                ) / 4
                change = max(change, abs(u[i, j] - old))
        done += 1
        if change < 1e-12:
            break


# Kepler's equation by Newton's iteration.


def newton_while(m, e, out):
    for i in range(m.shape[0]):
        x = m[i]
        d = 1.0
        while abs(d) > 1e-12:
            d = (x - e[i] * math.sin(x) - m[i]) / (1.0 - e[i] * math.cos(x))
            x -= d
        out[i] = x


def newton_for_break(m, e, out):
    for i in range(len(m)):
        x = m[i]
        for _ in range(50):
            step = (x - e[i] * np.sin(x) - m[i]) / (1 - e[i] * np.cos(x))
            x = x - step
            if abs(step) < 1e-12:
                break
        out[i] = x


@njit
def _solved(mean, eccentricity):
    x = mean
    while True:
        f = x - eccentricity * math.sin(x) - mean
        new = x - f / (1 - eccentricity * math.cos(x))
        if abs(new - x) < 1e-12:
            return new
        x = new


def newton_callee(m, e, out):
    for i, (mean, eccentricity) in enumerate(zip(m, e)):  # noqa: B905 Numba has no `strict`.
        out[i] = _solved(mean, eccentricity)


# All pairs of particles.


def pairs_components(x, y, z, mass, force):
    n = x.shape[0]
    for i in range(n):
        fx = fy = fz = 0.0
        for j in range(n):
            if j != i:
                dx, dy, dz = x[j] - x[i], y[j] - y[i], z[j] - z[i]
                r2 = dx * dx + dy * dy + dz * dz + 1e-3
                w = mass[j] / (r2 * math.sqrt(r2))
                fx += w * dx
                fy += w * dy
                fz += w * dz
        force[i, 0], force[i, 1], force[i, 2] = fx, fy, fz


def pairs_rows(p, mass, force):
    n = p.shape[0]
    for i in range(n):
        for j in range(n):
            if i == j:
                continue
            d = p[j] - p[i]
            r = np.sqrt(np.sum(d**2) + 1e-3)
            force[i] += mass[j] * d / r**3


def pairs_once(p, mass, force):
    """Newton's third law: each pair once."""
    n = p.shape[0]
    for i in range(n):
        for j in range(i + 1, n):
            r2 = 1e-3
            for k in range(3):
                r2 += (p[j, k] - p[i, k]) ** 2
            w = 1.0 / (r2 * math.sqrt(r2))
            for k in range(3):
                d = w * (p[j, k] - p[i, k])
                force[i, k] += mass[j] * d
                force[j, k] -= mass[i] * d


def _fields(count: int) -> Callable[[np.random.Generator, int], tuple]:
    return lambda rng, n: (*(rng.random((n, n)) for _ in range(count)), 3)


def _relaxed(rng: np.random.Generator, n: int) -> tuple:
    return rng.random((n, n)), rng.random((n, n)), 0.2, 3


def _orbits(rng: np.random.Generator, n: int) -> tuple:
    return 6.0 * rng.random(100 * n), 0.1 + 0.5 * rng.random(100 * n), np.zeros(100 * n)


def _points(rng: np.random.Generator, n: int) -> tuple:
    return rng.normal(size=(n, 3)), rng.random(n), np.zeros((n, 3))


def _coordinates(rng: np.random.Generator, n: int) -> tuple:
    return (*(rng.normal(size=n) for _ in range(3)), rng.random(n), np.zeros((n, 3)))


PROBLEMS = {
    "heat": [
        *[(f, _fields(3)) for f in (swapped, coefficient_outside, copied_back)],
        *[(f, _fields(2)) for f in (copied_back_at_once, returned)],
        *[(f, _fields(3)) for f in (slices, averaged_at_faces)],
    ],
    "gauss_seidel": [(f, _relaxed) for f in (relaxed, relaxed_by_residual, relaxed_until_still)],
    "newton": [(f, _orbits) for f in (newton_while, newton_for_break, newton_callee)],
    "pairs": [(pairs_components, _coordinates), (pairs_rows, _points), (pairs_once, _points)],
}


def measured(function: Callable, arguments: tuple) -> tuple[float, float]:
    """Seconds of the kernel, and of its gradient."""
    import numba_grad as ng

    kernel, operation = njit(function), ng.differentiable(njit(function))
    active = [k for k, x in enumerate(arguments) if np.asarray(x).dtype.kind == "f"]

    def loss(*chosen: Any) -> Any:
        given = list(arguments)
        for k, x in zip(active, chosen, strict=True):
            given[k] = x
        results = operation(*given)
        return sum(np.sum(x) for x in (results if isinstance(results, tuple) else (results,)))

    gradient = ng.jit(ng.grad(loss, argnums=tuple(range(len(active)))))
    chosen = [np.asarray(arguments[k]) for k in active]
    copies = [x.copy() if isinstance(x, np.ndarray) else x for x in arguments]
    kernel(*copies)
    gradient(*chosen)
    best = [math.inf, math.inf]
    deadline = time.perf_counter() + 1.0
    while time.perf_counter() < deadline:
        for _ in range(5):
            for copy, x in zip(copies, arguments, strict=True):
                if isinstance(x, np.ndarray):
                    copy[...] = x
            start = time.thread_time()
            kernel(*copies)
            best[0] = min(best[0], time.thread_time() - start)
        for _ in range(5):
            start = time.thread_time()
            gradient(*chosen)
            best[1] = min(best[1], time.thread_time() - start)
    return best[0], best[1]


def main() -> None:
    import numba_grad as ng

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("problems", nargs="*", choices=[*PROBLEMS, []])
    parser.add_argument("--size", type=int, default=100)
    options = parser.parse_args()
    for problem in options.problems or PROBLEMS:
        for function, make in PROBLEMS[problem]:
            with ng.configure(threads=1):
                kernel, gradient = measured(function, make(np.random.default_rng(0), options.size))
            print(
                f"{problem:15}{function.__name__:22}kernel (ms) {kernel * 1e3:.4f}  "
                f"gradient (ms) {gradient * 1e3:.4f}  of the kernel {gradient / kernel:.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
