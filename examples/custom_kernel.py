"""A kernel of one's own
========================
Tridiagonal systems, and the heat flow in a rod made of two materials.

No array operation solves a tridiagonal system in one sweep; a loop does (Thomas 1949). It becomes
an operation with a derivative, which is again such a solve. With it, implicit time steps of the
heat equation are differentiable, and the conductivities of a rod follow from its temperatures.
"""

import numpy as np
from scipy.optimize import minimize

import numba_grad as ng

POINTS, STEPS, TIME_STEP = 120, 40, 0.01
CONDUCTIVITIES = np.array([0.3, 0.08])  # of the left and the right half: what is to be found


def sweep(lower, diagonal, upper, b, x):
    """The kernel: x such that lower[i] x[i - 1] + diagonal[i] x[i] + upper[i] x[i + 1] = b[i]."""
    n = b.shape[0]
    ratio = np.empty(n)
    pivot = diagonal[0]
    x[0] = b[0] / pivot
    for i in range(1, n):
        ratio[i - 1] = upper[i - 1] / pivot
        pivot = diagonal[i] - lower[i] * ratio[i - 1]
        if pivot == 0:
            raise ValueError("tridiagonal matrix that needs pivoting, at row", i)
        x[i] = (b[i] - lower[i] * x[i - 1]) / pivot
    for i in range(n - 2, -1, -1):
        x[i] -= ratio[i] * x[i + 1]


def solve_vjp(g, x, lower, diagonal, upper, b):
    """The adjoint of a solve is a solve with the transposed matrix."""
    w = solve(np.roll(upper, 1), diagonal, np.roll(lower, -1), g)
    inside = np.arange(len(b) - 1)
    of_lower = ng.pad(-w[1:] * x[inside], (1, 0))
    of_upper = ng.pad(-w[inside] * x[1:], (0, 1))
    return of_lower, -w * x, of_upper, w


solve = ng.custom_op(
    "tridiagonal_solve",
    sweep,
    shape=lambda lower, diagonal, upper, b: b.shape,
    vjp=solve_vjp,
)


def temperatures(conductivities):
    """After implicit steps of u' = (c u')', from a warm middle; the ends are kept at 0."""
    c = np.repeat(conductivities, POINTS // 2 + 1)[: POINTS + 1]  # between the points
    c = c * TIME_STEP * (POINTS + 1) ** 2
    u = ng.tensor(np.exp(-50 * np.linspace(-0.5, 0.5, POINTS) ** 2))
    for _ in range(STEPS):
        u = solve(-c[:-1], 1 + c[:-1] + c[1:], -c[1:], u)
    return u


@ng.jit
@ng.value_and_grad
def misfit(logarithms, measured):
    return np.sum((temperatures(np.exp(logarithms)) - measured) ** 2)


def plot(found, path):
    from matplotlib.figure import Figure

    axes = Figure(figsize=(6, 4)).subplots()
    x = np.linspace(0, 1, POINTS)
    for conductivities, style in ((CONDUCTIVITIES, "k."), ([0.15, 0.15], ":"), (found, "-")):
        label = "conductivities {:.2f}, {:.2f}".format(*conductivities)
        axes.plot(x, temperatures(ng.tensor(conductivities)).numpy(), style, label=label)
    axes.set(xlabel="along the rod", ylabel="temperature: measured, first guess, fit")
    axes.legend()
    axes.figure.savefig(path, dpi=120)
    print(f"temperatures: {path}")


def main():
    measured = np.asarray(temperatures(ng.tensor(CONDUCTIVITIES)))
    start = np.log([0.15, 0.15])
    settings = {"ftol": 1e-15, "gtol": 1e-10}
    fit = minimize(misfit, start, measured, method="L-BFGS-B", jac=True, options=settings)
    print(f"conductivities: {np.exp(fit.x)} (true: {CONDUCTIVITIES})")
    print(f"{fit.nfev} gradients, each through {STEPS} solves of {POINTS} equations")
    print(misfit.lower(start, measured).profile(start, measured))
    return np.exp(fit.x)


if __name__ == "__main__":
    found = main()
    try:
        plot(found, "custom_kernel.png")
    except ImportError:
        print("no plot, which needs matplotlib: pip install matplotlib")
