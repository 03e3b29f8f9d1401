"""Thirteen atoms
=================
Their ground state: follow the forces downhill, from random starts.

The minimum is an icosahedron of energy -44.326801 in reduced units (Hoare and Pal 1971; Wales and
Doye 1997, table 1). The forces come from the energy alone. Its sum over all pairs is compiled into
loops: there is no array of pairs, whatever the number of atoms.
"""

import numpy as np
from scipy.optimize import minimize

import numba_grad as ng

ATOMS = 13
KNOWN_MINIMUM = -44.326801


def energy(positions):
    """Of atoms at `positions` (n, 3): the sum of 4 (r**-12 - r**-6) over pairs."""
    separations = positions[:, None, :] - positions[None, :, :]
    # An atom at distance 1 of itself adds no energy, and no force.
    squares = np.sum(separations**2, axis=2) + ng.eye(len(positions))
    attraction = squares**-3
    return 2 * np.sum(attraction**2 - attraction)


@ng.jit
def energy_and_slope(coordinates):
    """For scipy, which wants one axis: energy, and its gradient, which is the forces negated."""
    value, slope = ng.value_and_grad(energy)(coordinates.reshape(-1, 3))
    return value, slope.reshape(-1)


def relaxed(start):
    """The local minimum below `start`."""
    settings = {"ftol": 1e-15, "gtol": 1e-8, "maxiter": 2000}
    return minimize(energy_and_slope, start.ravel(), jac=True, method="L-BFGS-B", options=settings)


def lowest_of_random_starts(count, seed=0):
    generator = np.random.default_rng(seed)
    starts = generator.uniform(-0.6, 0.6, (count, ATOMS, 3))
    return min((relaxed(start) for start in starts), key=lambda result: result.fun)


def plot(positions, path):
    from matplotlib.figure import Figure

    axes = Figure(figsize=(5, 5)).add_subplot(projection="3d")
    axes.scatter(*positions.T, s=200, depthshade=True)
    for a in range(ATOMS):
        for b in range(a):
            if np.linalg.norm(positions[a] - positions[b]) < 1.3:  # neighbours
                axes.plot(*positions[[a, b]].T, color="grey", linewidth=1)
    axes.set(aspect="equal", title="thirteen atoms at their lowest energy")
    axes.figure.savefig(path, dpi=120)
    print(f"atoms and their neighbours: {path}")


def main():
    best = lowest_of_random_starts(20)
    print(f"lowest energy of 20 random starts: {best.fun:.6f} (known minimum: {KNOWN_MINIMUM})")
    print(f"largest force there: {np.max(np.abs(best.jac)):.1e}")
    radii = np.linalg.norm(best.x.reshape(-1, 3) - best.x.reshape(-1, 3).mean(axis=0), axis=1)
    print(f"distances from the centre: one of {min(radii):.3f}, twelve of {max(radii):.3f}")
    return best


if __name__ == "__main__":
    best = main()
    try:
        plot(best.x.reshape(-1, 3), "lennard_jones.png")
    except ImportError:
        print("no plot, which needs matplotlib: pip install matplotlib")
