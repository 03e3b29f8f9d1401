"""Options and interest rates."""

from typing import Any

import numpy

from perf.programs import program

# An American put: a tree whose last values get fewer, or in an array of one length.


@program(lambda random, n: [numpy.array([100.0, 105.0, 0.05, 0.25])], steps=25)
def binomial_tree(np: Any, p: Any, steps: int) -> Any:
    h = 1.0 / steps
    up = np.exp(p[3] * h**0.5)
    discount = np.exp(-p[2] * h)
    chance = (1.0 / discount - 1.0 / up) / (up - 1.0 / up)
    powers = 2.0 * numpy.arange(steps + 1) - steps
    value = np.maximum(p[1] - p[0] * up ** np.array(powers), 0.0)
    for k in reversed(range(steps)):
        held = discount * (chance * value[1:] + (1.0 - chance) * value[:-1])
        price = p[0] * up ** np.array(2.0 * numpy.arange(k + 1) - k)
        value = np.maximum(held, p[1] - price)
    return value[0]


@program(lambda random, n: [numpy.array([100.0, 105.0, 0.05, 0.25])], steps=25)
def trinomial_lattice(np: Any, p: Any, steps: int) -> Any:
    h = 1.0 / steps
    step = p[3] * (3.0 * h) ** 0.5
    drift = (p[2] - 0.5 * p[3] ** 2) * h
    up = 0.5 * (p[3] ** 2 * h / step**2 + drift / step)
    down = 0.5 * (p[3] ** 2 * h / step**2 - drift / step)
    price = p[0] * np.exp(step * np.array(numpy.arange(-10.0, 11.0)))
    exercise = np.maximum(p[1] - price, 0.0)
    value = exercise
    for _ in range(steps):
        held = up * value[2:] + (1.0 - up - down) * value[1:-1] + down * value[:-2]
        inner = np.maximum(np.exp(-p[2] * h) * held, exercise[1:-1])
        value = np.concatenate([value[:1], inner, value[-1:]])
    return value[10]


@program(
    lambda random, n: [numpy.array([100.0, 105.0, 0.05, 0.25]), random.normal(size=(6, 40))],
    wrt=(0,),
)
def american_put_by_regression(np: Any, p: Any, noise: Any) -> Any:
    """Longstaff and Schwartz's: what holding on is worth, by a parabola through the paths that
    could exercise."""
    h = 1.0 / noise.shape[0]
    moves = (p[2] - 0.5 * p[3] ** 2) * h + p[3] * h**0.5 * noise
    paths = p[0] * np.exp(np.cumsum(moves, axis=0))
    cash = np.maximum(p[1] - paths[-1], 0.0)
    for k in reversed(range(noise.shape[0] - 1)):
        cash = cash * np.exp(-p[2] * h)
        gain = p[1] - paths[k]
        inside = np.where(gain > 0.0, 1.0, 0.0)
        x = paths[k] / p[1]
        basis = np.stack([np.ones(x.shape), x, x**2], axis=1)
        weighted = basis * inside[:, None]
        gram = weighted.T @ basis + 1e-6 * np.eye(3)
        held = basis @ np.linalg.solve(gram, weighted.T @ cash)
        cash = np.where((gain > held) & (gain > 0.0), gain, cash)
    return np.mean(cash) * np.exp(-p[2] * h)


@program(
    lambda random, n: [
        numpy.array([0.04, 1.5, 0.04, 0.5, -0.6]),
        random.normal(size=(20, 2, 30)),
    ],
    wrt=(0,),
)
def heston_paths(np: Any, p: Any, noise: Any) -> Any:
    """Stochastic variance that is kept positive, by Euler's method; calls at three strikes."""
    h, logarithm, variance = 0.05, np.zeros(30), p[0] * np.ones(30)
    for k in range(noise.shape[0]):
        positive = np.maximum(variance, 1e-6)
        root = np.sqrt(positive * h)
        logarithm = logarithm - 0.5 * positive * h + root * noise[k, 0]
        second = p[4] * noise[k, 0] + np.sqrt(1.0 - p[4] ** 2) * noise[k, 1]
        variance = variance + p[1] * (p[2] - positive) * h + p[3] * root * second
    price = np.exp(logarithm)
    return sum(np.mean(np.maximum(price - strike, 0.0)) for strike in (0.9, 1.0, 1.1))


@program(lambda random, n: [0.02 + 0.01 * numpy.sqrt(numpy.arange(1.0, 11.0))])
def yield_curve(np: Any, swaps: Any) -> Any:
    """Discount factors from swap rates, one after the other, and a swaption-like forward."""
    discounts: list[Any] = []
    for k in range(swaps.shape[0]):
        annuity = sum(discounts) if discounts else 0.0
        discounts.append((1.0 - swaps[k] * annuity) / (1.0 + swaps[k]))
    d = np.stack(discounts)
    forwards = d[:-1] / d[1:] - 1.0
    annuity = np.sum(d[5:])
    par = (d[4] - d[-1]) / annuity
    return annuity * np.maximum(par - 0.03, 0.0) + np.sum((forwards[1:] - forwards[:-1]) ** 2)
