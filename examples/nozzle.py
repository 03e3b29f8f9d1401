"""The shape of a nozzle
========================
Find it from the pressure along it: the adjoint of a flow solver, in one line.

The solver is as in textbooks, in loops, for Numba: Euler's equations in a channel of varying width,
finite volumes, van Leer's limiter, Rusanov's flux (Toro, "Riemann Solvers and Numerical Methods for
Fluid Dynamics", 2009, chapters 10 and 13).
"""

import numpy as np
from numba import njit
from scipy.optimize import minimize

import numba_grad as ng

GAMMA = 1.4


@njit
def van_leer_slope(left, right):
    return 2.0 * left * right / (left + right) if left * right > 0.0 else 0.0


@njit
def conserved(rho, u, p):
    return rho, rho * u, p / (GAMMA - 1.0) + 0.5 * rho * u * u


@njit
def rusanov(a, b, flux):
    """Between the states (density, velocity, pressure) at both sides of a face."""
    speed_a = abs(a[1]) + np.sqrt(GAMMA * a[2] / a[0])
    speed = max(speed_a, abs(b[1]) + np.sqrt(GAMMA * b[2] / b[0]))
    qa, qb = conserved(a[0], a[1], a[2]), conserved(b[0], b[1], b[2])
    flux[0] = 0.5 * (qa[1] + qb[1] - speed * (qb[0] - qa[0]))
    flux[1] = 0.5 * (qa[1] * a[1] + a[2] + qb[1] * b[1] + b[2] - speed * (qb[1] - qa[1]))
    flux[2] = 0.5 * (a[1] * (qa[2] + a[2]) + b[1] * (qb[2] + b[2]) - speed * (qb[2] - qa[2]))


@njit
def march(w, area, cfl, steps):
    """Advance w, the states of cells, (cells + 4, 3): two at each end are outside."""
    n = w.shape[0] - 4
    flux, left, right = np.empty((n + 1, 3)), np.empty(3), np.empty(3)
    for _ in range(steps):
        fastest = np.max(np.abs(w[2:-2, 1]) + np.sqrt(GAMMA * w[2:-2, 2] / w[2:-2, 0]))
        w[n + 2], w[n + 3] = w[n + 1], w[n + 1]  # supersonic outflow
        for i in range(n + 1):
            for k in range(3):
                step = w[i + 2, k] - w[i + 1, k]
                left[k] = w[i + 1, k] + 0.5 * van_leer_slope(w[i + 1, k] - w[i, k], step)
                right[k] = w[i + 2, k] - 0.5 * van_leer_slope(step, w[i + 3, k] - w[i + 2, k])
            rusanov(left, right, flux[i])
        for i in range(n):
            rho, momentum, energy = conserved(w[i + 2, 0], w[i + 2, 1], w[i + 2, 2])
            factor = cfl / fastest / (0.5 * (area[i] + area[i + 1]))
            rho -= factor * (area[i + 1] * flux[i + 1, 0] - area[i] * flux[i, 0])
            momentum -= factor * (area[i + 1] * flux[i + 1, 1] - area[i] * flux[i, 1])
            momentum += factor * w[i + 2, 2] * (area[i + 1] - area[i])
            energy -= factor * (area[i + 1] * flux[i + 1, 2] - area[i] * flux[i, 2])
            w[i + 2, 0], w[i + 2, 1] = rho, momentum / rho
            w[i + 2, 2] = (GAMMA - 1.0) * (energy - 0.5 * momentum * momentum / rho)


flow = ng.differentiable(march)
FACES = np.linspace(0, 1, 61)
BUMPS = np.exp(-(((FACES[:, None] - np.linspace(0.1, 0.9, 9)) / 0.08) ** 2))
INFLOW = np.tile([1.0, 1.8 * np.sqrt(GAMMA), 1.0], (64, 1))  # at Mach 1.8
TRUE = np.array([0.0, 0.05, 0.1, -0.1, -0.05, 0.1, 0.2, 0.25, 0.2])


@ng.jit
def pressure(heights):
    return flow(INFLOW, 1 + BUMPS @ heights, 0.5, 600)[2:-2, 2]


def main():
    measured = pressure(TRUE)
    misfit = ng.jit(ng.value_and_grad(lambda h: 1e3 * np.mean((pressure(h) - measured) ** 2)))
    options = {"jac": True, "bounds": [(-0.3, 0.3)] * 9, "options": {"ftol": 1e-14}}
    fit = minimize(misfit, np.zeros(9), method="L-BFGS-B", **options)
    print(f"{fit.nfev} flows and gradients; widths differ by {abs(fit.x - TRUE).max():.0e}")
    return fit


def plot(heights, path):
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return print("no plot, which needs matplotlib: pip install matplotlib")
    above, below = Figure(figsize=(7, 5)).subplots(2, sharex=True)
    above.plot(FACES, 1 + BUMPS @ TRUE, "k", FACES, 1 + BUMPS @ heights, "C1--")
    above.set(ylabel="width")
    x = (FACES[1:] + FACES[:-1]) / 2
    below.plot(x, pressure(TRUE), "k.", x, pressure(heights), "C1")
    below.set(xlabel="along the nozzle", ylabel="pressure: measured, found")
    below.figure.savefig(path, dpi=120)


if __name__ == "__main__":
    plot(main().x, "nozzle.png")
