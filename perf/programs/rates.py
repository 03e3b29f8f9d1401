"""Rates and balances: chemistry, medicine, water, nerves, power."""

from typing import Any

import numpy

from perf.programs import program


@program(lambda random, n: [numpy.array([0.04, 3.0, 10.0])], steps=12)
def stiff_kinetics(np: Any, k: Any, steps: int) -> Any:
    """Robertson's reactions by implicit Euler: three of Newton's steps in each step."""

    def rates(y: Any) -> Any:
        first, second, third = k[0] * y[0], k[1] * y[1] ** 2, k[2] * y[1] * y[2]
        return np.stack([third - first, first - second - third, second])

    def jacobian(y: Any) -> Any:
        zero = 0.0 * y[0]
        return np.array(
            [
                [-k[0] + zero, k[2] * y[2], k[2] * y[1]],
                [k[0] + zero, -2.0 * k[1] * y[1] - k[2] * y[2], -k[2] * y[1]],
                [zero, 2.0 * k[1] * y[1], zero],
            ]
        )

    y, h = np.array([1.0, 0.0, 0.0]), 0.3
    for _ in range(steps):
        new = y
        for _ in range(3):
            residual = new - y - h * rates(new)
            new = new - np.linalg.solve(np.eye(3) - h * jacobian(new), residual)
        y = new
    return np.sum(y**2) + y[1]


@program(
    lambda random, n: [numpy.array([0.5, 0.1, 0.02]), random.uniform(0.0, 0.1, size=12)],
    wrt=(0,),
)
def epidemic_fit(np: Any, p: Any, cases: Any) -> Any:
    """Runge-Kutta for susceptible, exposed, infected; a count every five steps."""

    def slope(y: Any) -> Any:
        infections = p[0] * y[0] * y[2]
        return np.stack([-infections, infections - 0.2 * y[1], 0.2 * y[1] - p[1] * y[2]])

    y, h, expected = np.stack([1.0 - p[2], 0.0 * p[2], p[2]]), 0.5, []
    for _ in range(cases.shape[0]):
        before = y[0]
        for _ in range(5):
            k1 = slope(y)
            k2 = slope(y + 0.5 * h * k1)
            k3 = slope(y + 0.5 * h * k2)
            k4 = slope(y + h * k3)
            y = y + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
        expected.append(before - y[0])
    rates = np.stack(expected) + 1e-3
    return np.sum(rates - cases * np.log(rates)) + 0.5 * np.sum(np.log(p) ** 2)


# A drug in two compartments, doses twice a day: states appended, or in rows of an array.


def dosed(np: Any, p: Any, gut: Any, blood: Any, tissue: Any) -> tuple[Any, Any, Any]:
    absorbed, cleared = p[0] * gut, p[1] * blood / (p[2] + blood)
    exchanged = p[3] * blood - p[4] * tissue
    gut = gut - 0.1 * absorbed
    return gut, blood + 0.1 * (absorbed - cleared - exchanged), tissue + 0.1 * exchanged


def drug(random: numpy.random.Generator, n: int) -> list[numpy.ndarray]:
    return [numpy.array([1.0, 0.8, 2.0, 0.3, 0.2]), random.uniform(0.5, 1.5, size=10)]


@program(drug, wrt=(0,))
def drug_appended(np: Any, p: Any, measured: Any) -> Any:
    gut, blood, tissue = 0.0, 0.0 * p[0], 0.0
    curve = []
    for k in range(60):
        if k % 20 == 0:
            gut = gut + 3.0
        gut, blood, tissue = dosed(np, p, gut, blood, tissue)
        curve.append(blood)
    concentrations = np.stack(curve)[5::6]
    return np.sum((np.log(concentrations + 0.01) - np.log(measured)) ** 2)


@program(drug, wrt=(0,))
def drug_in_a_buffer(np: Any, p: Any, measured: Any) -> Any:
    states = np.zeros((61, 3))
    for k in range(60):
        gut, blood, tissue = states[k]
        if k % 20 == 0:
            gut = gut + 3.0
        gut, blood, tissue = dosed(np, p, gut, blood, tissue)
        states[k + 1, 0] = gut
        states[k + 1, 1] = blood
        states[k + 1, 2] = tissue
    concentrations = states[6::6, 1]
    return np.sum((np.log(concentrations + 0.01) - np.log(measured)) ** 2)


@drug_in_a_buffer.written_for("jax")
def _(np: Any, p: Any, measured: Any) -> Any:
    states = np.zeros((61, 3))
    for k in range(60):
        gut, blood, tissue = states[k]
        if k % 20 == 0:
            gut = gut + 3.0
        states = states.at[k + 1].set(np.stack(dosed(np, p, gut, blood, tissue)))
    concentrations = states[6::6, 1]
    return np.sum((np.log(concentrations + 0.01) - np.log(measured)) ** 2)


drug_in_a_buffer.left_out("autograd", "has no assignments")
drug_in_a_buffer.left_out("torch", "assignments change what a gradient reads")


@program(
    lambda random, n: [
        numpy.array([0.1, 2.5, 80.0, 0.3, 0.15, 1.5]),
        random.uniform(0.0, 12.0, size=60) * (random.uniform(size=60) < 0.5),
        5.0 + 8.0 * numpy.sin(numpy.arange(60) / 10.0),
        random.uniform(0.0, 3.0, size=60),
    ],
    wrt=(0,),
)
def bucket_of_rain_and_snow(np: Any, p: Any, rain: Any, warmth: Any, flow: Any) -> Any:
    """A catchment, day by day: snow, soil that fills, quick and slow water."""
    snow, soil, quick, slow, total = 0.0, 30.0, 0.0, 5.0, 0.0
    for day in range(60):
        share = 1.0 / (1.0 + np.exp(-2.0 * (warmth[day] - p[0])))
        melt = np.minimum(p[1] * np.maximum(warmth[day] - p[0], 0.0), snow)
        snow = snow + (1.0 - share) * rain[day] - melt
        water = share * rain[day] + melt
        recharge = water * np.minimum(soil / p[2], 1.0) ** p[5]
        dried = np.minimum(0.2 * np.maximum(warmth[day], 0.0) * soil / p[2], soil)
        soil = soil + water - recharge - dried
        quick = quick + recharge
        outflow = p[3] * np.maximum(quick - 5.0, 0.0) + p[4] * quick
        sunk = np.minimum(0.05 * quick, 1.0)
        quick, slow = quick - outflow - sunk, 0.98 * slow + sunk
        total = total + (np.sqrt(outflow + 0.02 * slow + 0.01) - np.sqrt(flow[day] + 0.01)) ** 2
    return total


@program(lambda random, n: [numpy.array([120.0, 36.0, 0.3, 10.0])], steps=60)
def nerve(np: Any, p: Any, steps: int) -> Any:
    """Hodgkin and Huxley's."""
    v, m, h, n, voltages = -65.0 + 0.0 * p[0], 0.05, 0.6, 0.32, []
    for _ in range(steps):
        opening = 0.1 * (v + 40.0) / (1.0 - np.exp(-0.1 * (v + 40.0)))
        m = m + 0.02 * (opening * (1.0 - m) - 4.0 * np.exp(-(v + 65.0) / 18.0) * m)
        closing = 1.0 / (1.0 + np.exp(-0.1 * (v + 35.0)))
        h = h + 0.02 * (0.07 * np.exp(-0.05 * (v + 65.0)) * (1.0 - h) - closing * h)
        opening = 0.01 * (v + 55.0) / (1.0 - np.exp(-0.1 * (v + 55.0)))
        n = n + 0.02 * (opening * (1.0 - n) - 0.125 * np.exp(-(v + 65.0) / 80.0) * n)
        sodium, potassium = p[0] * m**3 * h * (v - 50.0), p[1] * n**4 * (v + 77.0)
        v = v + 0.02 * (p[3] - sodium - potassium - p[2] * (v + 54.4))
        voltages.append(v)
    return np.mean(np.stack(voltages) ** 2) / 1000.0


LINES = [(0, 1), (0, 2), (1, 2), (1, 3), (2, 4), (3, 4)]


@program(
    lambda random, n: [random.uniform(2.0, 5.0, size=len(LINES)), random.uniform(0.1, 0.5, size=4)],
    steps=4,
)
def power_flow(np: Any, susceptance: Any, load: Any, steps: int) -> Any:
    """Newton's method for angles and voltages of five buses."""
    incidence = numpy.zeros((len(LINES), 5))
    for line, (i, j) in enumerate(LINES):
        incidence[line, i], incidence[line, j] = 1.0, -1.0
    incidence = np.array(incidence)
    b = incidence.T @ (susceptance[:, None] * incidence)
    g = 0.2 * b
    angle, voltage = np.zeros(5), np.ones(5)
    wanted = np.concatenate([-load, -0.3 * load])
    for _ in range(steps):
        apart = angle[:, None] - angle[None, :]
        c, s = np.cos(apart), np.sin(apart)
        real, reactive = g * c - b * s, g * s + b * c
        active = voltage * (real @ voltage)
        other = voltage * (reactive @ voltage)
        products = voltage[:, None] * voltage[None, :]
        by_angle = products * reactive - np.diag(other)
        by_voltage = voltage[:, None] * real + np.diag(real @ voltage)
        upper = np.concatenate([by_angle[1:, 1:], by_voltage[1:, 1:]], axis=1)
        by_angle = -products * real + np.diag(active)
        by_voltage = voltage[:, None] * reactive + np.diag(reactive @ voltage)
        lower = np.concatenate([by_angle[1:, 1:], by_voltage[1:, 1:]], axis=1)
        residual = wanted - np.concatenate([active[1:], other[1:]])
        change = np.linalg.solve(np.concatenate([upper, lower]), residual)
        angle = angle + np.concatenate([np.zeros(1), change[:4]])
        voltage = voltage + np.concatenate([np.zeros(1), change[4:]])
    return np.sum(active) + np.sum((voltage - 1.0) ** 2)
