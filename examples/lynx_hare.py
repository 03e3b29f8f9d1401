"""Lynxes and hares
===================
Fit the Lotka-Volterra equations to counts of both, by maximum likelihood.

`ng.value_and_grad` differentiates Runge-Kutta steps in a Python loop; `ng.hessian`, twice, for the
standard errors. Data: thousands of pelts, Hudson's Bay Company (Elton and Nicholson 1942).
"""

from pathlib import Path
from timeit import timeit

import numpy as np
from scipy.optimize import minimize

import numba_grad as ng

DATA = Path(__file__).parent / "data" / "lynx_hare.csv"
NAMES = ["alpha", "beta", "gamma", "delta", "hare", "lynx", "hare noise", "lynx noise"]
GUESS = np.array([0.5, 0.02, 1.0, 0.02, 30.0, 5.0, 0.5, 0.5])
STEPS_PER_YEAR = 20


def read_counts():
    """Years (n,), and counts of hares and lynxes (n, 2)."""
    years, lynx, hare = np.loadtxt(DATA, delimiter=",", skiprows=2, unpack=True)
    return years, np.stack([hare, lynx], axis=1)


def velocity(state, alpha, beta, gamma, delta):
    hare, lynx = state
    return np.stack([(alpha - beta * lynx) * hare, (delta * hare - gamma) * lynx])


@ng.jit  # compiled once, however many steps there are
def runge_kutta_step(state, step, rates):
    k1 = velocity(state, *rates)
    k2 = velocity(state + step / 2 * k1, *rates)
    k3 = velocity(state + step / 2 * k2, *rates)
    k4 = velocity(state + step * k3, *rates)
    return state + step / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


def simulate(parameters, years):
    """The states (hare, lynx): the first, and one after each step."""
    rates, states = parameters[:4], [parameters[4:6]]
    for _ in range(years * STEPS_PER_YEAR):
        states.append(runge_kutta_step(states[-1], 1 / STEPS_PER_YEAR, rates))
    return states


def negative_log_likelihood(logarithms, counts):
    """Of log-normal counts, up to a constant. Parameters are positive, their logarithms free."""
    parameters = np.exp(logarithms)
    expected, noise = simulate(parameters, len(counts) - 1)[::STEPS_PER_YEAR], parameters[6:]
    residuals = (np.log(counts) - np.log(np.stack(expected))) / noise
    return np.sum(residuals**2 / 2 + np.log(noise))


objective = ng.jit(ng.value_and_grad(negative_log_likelihood))
hessian = ng.jit(ng.hessian(negative_log_likelihood))


def fit(counts):
    """Estimates, their standard errors, and the number of evaluations."""
    result = minimize(objective, np.log(GUESS), args=(counts,), jac=True, method="L-BFGS-B")
    estimates, covariance = np.exp(result.x), np.linalg.inv(hessian(result.x, counts))
    # A small error of log(p) is a relative error of p.
    return estimates, estimates * np.sqrt(np.diag(covariance)), result.nfev


def plot(years, counts, parameters, path):
    from matplotlib.figure import Figure

    states = np.stack(simulate(parameters, len(years) - 1))
    axes = Figure(figsize=(8, 4)).subplots()
    axes.set_prop_cycle(color=["tab:blue", "tab:orange"])
    axes.plot(years, counts, "o", label=["hare", "lynx"])
    axes.plot(np.linspace(years[0], years[-1], len(states)), states)
    axes.set(xlabel="year", ylabel="pelts (thousands)", xticks=years[::5])
    axes.legend()
    axes.figure.savefig(path, dpi=120)
    print(f"data and fit: {path}")


def main():
    years, counts = read_counts()
    first, then = (timeit(lambda: objective(np.log(GUESS), counts), number=n) for n in (1, 100))
    estimates, errors, evaluations = fit(counts)
    print("parameter   estimate  standard error")
    for name, estimate, error in zip(NAMES, estimates, errors, strict=True):
        print(f"{name:<11} {estimate:8.4f} {error:15.4f}")
    print(f"{evaluations} evaluations of the likelihood and its gradient to the best fit")
    print(f"compile time, with the first: {first:.2f} s; then each {then / 100 * 1e3:.3f} ms")
    try:
        plot(years, counts, estimates, "lynx_hare.png")
    except ImportError:
        print("no plot of data and fit, which needs matplotlib: pip install matplotlib")


if __name__ == "__main__":
    main()
