"""The orbit of a companion
===========================
Fit it to positions on the sky, through Kepler's equation.

Where the body is at a time takes Newton's method, as many steps as that time and eccentricity need:
a `while` loop, which `control_flow=True` takes as it is. Its gradient, and that of the whole fit,
come from `ng.value_and_grad`. Made-up data, of an orbit that is known.
"""

import numpy as np
from scipy.optimize import minimize

import numba_grad as ng

TRUE = np.array([1.3, 0.6, 12.5, 0.4])  # semi-major axis, eccentricity, period, phase
GUESS = np.array([1.0, 0.3, 12.0, 0.0])
NOISE = 0.01


@ng.jit(control_flow=True)
def eccentric_anomaly(mean_anomaly, eccentricity):
    """E, where E - e sin(E) = M."""
    anomaly = mean_anomaly
    if eccentricity > 0.5:  # from half a turn on Newton's method converges for all
        anomaly = np.pi * (2 * np.floor(mean_anomaly / (2 * np.pi)) + 1)
    while True:
        error = anomaly - eccentricity * np.sin(anomaly) - mean_anomaly
        anomaly = anomaly - error / (1 - eccentricity * np.cos(anomaly))
        if abs(error) < 1e-10:
            return anomaly


def positions(orbit, times):
    """(times, 2): in the plane of the orbit, seen from the focus."""
    axis, eccentricity, period, phase = orbit
    mean_anomalies = 2 * np.pi * times / period + phase
    anomalies = ng.vmap(eccentric_anomaly, in_axes=(0, None))(mean_anomalies, eccentricity)
    along = axis * (np.cos(anomalies) - eccentricity)
    across = axis * np.sqrt(1 - eccentricity**2) * np.sin(anomalies)
    return np.stack([along, across], axis=1)


def misfit(orbit, times, observed):
    return np.sum(((positions(orbit, times) - observed) / NOISE) ** 2) / 2


def observations():
    """Times, and where the companion was seen (times, 2)."""
    rng = np.random.default_rng(0)
    times = np.sort(rng.uniform(0, 20, 60))
    exact = ng.jit(positions)(TRUE, times)
    return times, exact + NOISE * rng.normal(size=exact.shape)


def plot(orbit, path):
    from matplotlib.figure import Figure

    axes = Figure(figsize=(6, 4)).subplots()
    axes.plot(*positions(orbit, np.linspace(0, orbit[2], 300)).numpy().T, label="orbit")
    axes.plot(*observations()[1].T, ".", label="observed")
    axes.plot(0, 0, "k*", label="star")
    axes.set(aspect="equal", xlabel="along the major axis", ylabel="across")
    axes.legend()
    axes.figure.savefig(path, dpi=120)
    print(f"orbit and data: {path}")


def main():
    times, observed = observations()
    objective = ng.jit(ng.value_and_grad(misfit))
    bounds = [(0.1, 10), (0, 0.95), (5, 30), (-np.pi, np.pi)]
    fit = minimize(objective, GUESS, (times, observed), "L-BFGS-B", jac=True, bounds=bounds)
    errors = np.sqrt(np.diag(np.linalg.inv(ng.hessian(misfit)(fit.x, times, observed).numpy())))
    names = ("semi-major axis", "eccentricity", "period", "phase")
    for name, value, error, true in zip(names, fit.x, errors, TRUE, strict=True):
        print(f"{name:>15}: {value:.4f} +- {error:.4f}, in truth {true}")
    return fit, errors


if __name__ == "__main__":
    fit, _ = main()
    try:
        plot(fit.x, "kepler.png")
    except ImportError:
        print("no plot, which needs matplotlib: pip install matplotlib")
