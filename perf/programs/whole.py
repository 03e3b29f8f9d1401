"""Whole programs, as large as people run them: minutes for those who compile what a loop repeats.

Steps of simulations are functions of a state, run in a plain loop; for JAX by `lax.scan`, since
`jax.jit` unrolls loops. Where the step is `jitted`, numba_grad compiles it by itself.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy

from perf.programs import OWN, program


def jitted(np: Any, step: Callable[..., Any]) -> Callable[..., Any]:
    """The step by `numba_grad.jit`; as it is for the others."""
    if np.__name__ != "numba_grad.numpy":
        return step
    import numba_grad as ng

    return ng.jit(step)


def scanned(step: Callable[[Any, Any], tuple[Any, Any]], state: Any, rows: Any) -> tuple[Any, Any]:
    from jax import lax

    return lax.scan(step, state, rows)


# Seismic inversion: waves in a plane, from a source, recorded by a row of receivers.


def wavelet(steps: int) -> numpy.ndarray:
    t = (numpy.arange(steps) - 40.0) * 0.1
    return (1.0 - 2.0 * t**2) * numpy.exp(-(t**2))


def seismic_inputs(random: numpy.random.Generator, n: int) -> list[numpy.ndarray]:
    return [random.uniform(0.1, 0.2, size=(n, n)), 0.01 * random.normal(size=(500, n))]


def seismic_step(np: Any, c: Any, u: Any, previous: Any, source: Any, pulse: Any) -> Any:
    laplacian = (
        np.pad(u[1:, :], ((0, 1), (0, 0)), "constant")
        + np.pad(u[:-1, :], ((1, 0), (0, 0)), "constant")
        + np.pad(u[:, 1:], ((0, 0), (0, 1)), "constant")
        + np.pad(u[:, :-1], ((0, 0), (1, 0)), "constant")
        - 4.0 * u
    )
    return 2.0 * u - previous + c * laplacian + source * pulse


def place_of_source(np: Any, n: int) -> Any:
    place = numpy.zeros((n, n))
    place[n // 2, n // 2] = 1.0
    return np.array(place)


@program(seismic_inputs, size=150, steps=500, wrt=(0,))
def seismic_inversion(np: Any, c: Any, record: Any, steps: int) -> Any:
    n = c.shape[0]
    source, pulses = place_of_source(np, n), wavelet(steps)
    u, previous, readings = np.zeros((n, n)), np.zeros((n, n)), []
    for k in range(steps):
        u, previous = seismic_step(np, c, u, previous, source, float(pulses[k])), u
        readings.append(u[2])
    return np.sum((np.stack(readings) - record[:steps]) ** 2)


@seismic_inversion.written_for("jax")
def _(np: Any, c: Any, record: Any, steps: int) -> Any:
    n = c.shape[0]
    source = place_of_source(np, n)

    def step(state: Any, pulse: Any) -> Any:
        u = seismic_step(np, c, *state, source, pulse)
        return (u, state[0]), u[2]

    readings = scanned(step, (np.zeros((n, n)), np.zeros((n, n))), np.array(wavelet(steps)))[1]
    return np.sum((readings - record[:steps]) ** 2)


# Lattice Boltzmann: flow around a body whose every point may be solid in part.

VELOCITIES = [(0, 0), (1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (-1, -1), (1, -1)]
WEIGHTS = [4 / 9, 1 / 9, 1 / 9, 1 / 9, 1 / 9, 1 / 36, 1 / 36, 1 / 36, 1 / 36]
OPPOSITE = [0, 3, 4, 1, 2, 7, 8, 5, 6]


def boltzmann_step(np: Any, f: Any, solid: Any) -> Any:
    density = np.sum(f, axis=0)
    ux = (f[1] - f[3] + f[5] - f[6] - f[7] + f[8]) / density + 0.001
    uy = (f[2] - f[4] + f[5] + f[6] - f[7] - f[8]) / density
    square = 1.5 * (ux**2 + uy**2)
    collided = []
    for k, (x, y) in enumerate(VELOCITIES):
        along = 3.0 * (x * ux + y * uy)
        rest = WEIGHTS[k] * density * (1.0 + along + 0.5 * along**2 - square)
        collided.append(f[k] + (rest - f[k]) / 0.6)
    moved = []
    for k, (x, y) in enumerate(VELOCITIES):
        out = (1.0 - solid) * collided[k] + solid * f[OPPOSITE[k]]
        moved.append(np.roll(np.roll(out, x, axis=0), y, axis=1))
    return np.stack(moved)


def boltzmann_start(np: Any, n: int) -> Any:
    return np.array(numpy.array(WEIGHTS)[:, None, None] * numpy.ones((9, n, n)))


def drag(np: Any, f: Any) -> Any:
    return np.sum((f[1] - f[3]) ** 2)


@program(lambda random, n: [random.uniform(0.0, 0.5, size=(n, n))], size=64, steps=200)
def lattice_boltzmann(np: Any, solid: Any, steps: int) -> Any:
    f = boltzmann_start(np, solid.shape[0])
    for _ in range(steps):
        f = boltzmann_step(np, f, solid)
    return drag(np, f)


@program(lambda random, n: [random.uniform(0.0, 0.5, size=(n, n))], size=64, steps=200)
def lattice_boltzmann_with_jitted_steps(np: Any, solid: Any, steps: int) -> Any:
    step = jitted(np, lambda f, solid: boltzmann_step(np, f, solid))
    f = boltzmann_start(np, solid.shape[0])
    for _ in range(steps):
        f = step(f, solid)
    return drag(np, f)


@lattice_boltzmann.written_for("jax")
@lattice_boltzmann_with_jitted_steps.written_for("jax")
def _(np: Any, solid: Any, steps: int) -> Any:
    def step(f: Any, _: Any) -> Any:
        return boltzmann_step(np, f, solid), None

    return drag(np, scanned(step, boltzmann_start(np, solid.shape[0]), np.zeros(steps))[0])


# A Kalman filter: place and velocity from noisy places.


def kalman_step(np: Any, mean: Any, covariance: Any, noises: Any, observed: Any) -> Any:
    f, h = np.array([[1.0, 0.1], [0.0, 1.0]]), np.array([[1.0, 0.0]])
    mean = f @ mean
    covariance = f @ covariance @ f.T + noises[0] * np.eye(2)
    s = h @ covariance @ h.T + noises[1] * np.eye(1)
    gain = covariance @ h.T @ np.linalg.inv(s)
    difference = observed - h @ mean
    loss = 0.5 * (np.log(s[0, 0]) + difference[0] ** 2 / s[0, 0])
    return mean + gain @ difference, covariance - gain @ h @ covariance, loss


@program(
    lambda random, n: [random.uniform(0.5, 1.5, size=2), random.normal(size=n)],
    size=1000,
    steps=1000,
    wrt=(0,),
)
def kalman_filter_of_a_record(np: Any, noises: Any, observed: Any, steps: int) -> Any:
    mean, covariance, total = np.zeros(2), np.eye(2), 0.0
    for k in range(steps):
        mean, covariance, loss = kalman_step(np, mean, covariance, noises, observed[k])
        total = total + loss
    return total


@kalman_filter_of_a_record.written_for("jax")
def _(np: Any, noises: Any, observed: Any, steps: int) -> Any:
    def step(state: Any, row: Any) -> Any:
        mean, covariance, loss = kalman_step(np, *state, noises, row)
        return (mean, covariance), loss

    return np.sum(scanned(step, (np.zeros(2), np.eye(2)), observed[:steps])[1])


# Hamiltonian Monte Carlo of a logistic regression: gradients inside of a loop that looks at values.


def samples(np: Any, potential: Any, x: numpy.ndarray, steps: int) -> Any:
    random = numpy.random.default_rng(7)
    chain = []
    energy, slope = potential(x)
    for _ in range(steps):
        momentum = random.normal(size=x.shape)
        total = float(energy) + 0.5 * float(momentum @ momentum)
        new, new_slope = x, numpy.asarray(slope)
        for _ in range(10):
            momentum = momentum - 0.05 * new_slope
            new = new + 0.1 * momentum
            new_energy, new_slope = potential(new)
            new_slope = numpy.asarray(new_slope)
            momentum = momentum - 0.05 * new_slope
        change = total - float(new_energy) - 0.5 * float(momentum @ momentum)
        if math.log(random.uniform()) < change:
            x, energy, slope = new, new_energy, new_slope
        chain.append(x)
    return numpy.stack(chain)


@program(
    lambda random, n: [
        random.normal(size=5),
        random.normal(size=(n, 5)),
        random.integers(0, 2, size=n) * 2.0 - 1.0,
    ],
    size=200,
    steps=50,
    kind=OWN,
)
def hamiltonian_monte_carlo(
    np: Any, value_and_grad: Any, w: Any, x: Any, labels: Any, steps: int
) -> Any:
    def energy(w: Any, x: Any, labels: Any) -> Any:
        return np.sum(np.log1p(np.exp(-labels * (x @ w)))) + 0.5 * np.sum(w**2)

    with_slope = value_and_grad(energy)
    return [samples(np, lambda w: with_slope(w, x, labels), w, steps)]


@program(
    lambda random, n: [
        numpy.zeros(3),
        random.normal(size=(n, 2)),
        random.normal(size=n),
    ],
    size=200,
    steps=20,
    kind=OWN,
)
def gaussian_process_by_descent(
    np: Any, value_and_grad: Any, p: Any, x: Any, y: Any, steps: int
) -> Any:
    def loss(p: Any, x: Any, y: Any) -> Any:
        squares = np.sum((x[:, None, :] - x[None, :, :]) ** 2, axis=2)
        size, length, noise = np.exp(p[0]), np.exp(p[1]), np.exp(p[2])
        covariance = size * np.exp(-0.5 * squares / length**2) + noise * np.eye(x.shape[0])
        lower = np.linalg.cholesky(covariance)
        white = np.linalg.solve(lower, y)
        return 0.5 * np.sum(white**2) + np.sum(np.log(np.diag(lower)))

    with_slope = value_and_grad(loss)
    values = []
    for _ in range(steps):
        value, slope = with_slope(p, x, y)
        p = p - 0.01 * numpy.asarray(slope)
        values.append(float(value))
    return [numpy.array(values), p]


# A cart and a pole, by collocation: loops over nodes, as in textbooks.


@program(
    lambda random, n: [0.1 * random.normal(size=(n, 4)), 0.1 * random.normal(size=n)],
    size=50,
)
def cart_and_pole_by_collocation(np: Any, states: Any, forces: Any) -> Any:
    def slope(s: Any, force: Any) -> Any:
        sine, cosine = np.sin(s[1]), np.cos(s[1])
        push = 1.0 + 0.3 * sine**2
        acceleration = (0.15 * sine * s[3] ** 2 + force + 2.943 * cosine * sine) / push
        turn = -(0.15 * cosine * sine * s[3] ** 2 + force * cosine + 12.753 * sine) / (0.5 * push)
        return np.stack([s[2], s[3], acceleration, turn])

    h, nodes, total = 2.0 / (forces.shape[0] - 1), forces.shape[0], 0.0
    for k in range(nodes - 1):
        here, there = slope(states[k], forces[k]), slope(states[k + 1], forces[k + 1])
        defect = states[k + 1] - states[k] - 0.5 * h * (here + there)
        total = total + 100.0 * np.sum(defect**2)
        total = total + 0.5 * h * (forces[k] ** 2 + forces[k + 1] ** 2)
    end = states[nodes - 1] - np.array([1.0, math.pi, 0.0, 0.0])
    return total + 100.0 * (np.sum(states[0] ** 2) + np.sum(end**2))


# Ray marching: a sphere and a floor, seen in 32 x 32 pixels.


def march(np: Any, sphere: Any, x: Any, y: Any, depth: Any) -> Any:
    px, py, pz = x * depth, y * depth, depth - 3.0
    ball = (
        np.sqrt((px - sphere[0]) ** 2 + (py - sphere[1]) ** 2 + (pz - sphere[2]) ** 2) - sphere[3]
    )
    distance = np.minimum(ball, py + 1.5)
    return np.where((distance > 1e-3) & (depth < 20.0), depth + 0.8 * distance, depth)


def image_of(np: Any, depth: Any) -> Any:
    return np.mean(np.exp(-0.3 * depth))


def pixels(np: Any, n: int) -> tuple[Any, Any]:
    edge = numpy.linspace(-0.8, 0.8, n)
    x, y = numpy.meshgrid(edge, edge)
    return np.array(x), np.array(y)


@program(lambda random, n: [numpy.array([0.1, -0.2, 0.5, 1.0])], steps=40, numbers={"n": 32})
def ray_marching(np: Any, sphere: Any, steps: int, n: int) -> Any:
    x, y = pixels(np, n)
    depth = np.zeros((n, n))
    for _ in range(steps):
        depth = march(np, sphere, x, y, depth)
    return image_of(np, depth)


@ray_marching.written_for("jax")
def _(np: Any, sphere: Any, steps: int, n: int) -> Any:
    x, y = pixels(np, n)

    def step(depth: Any, _: Any) -> Any:
        return march(np, sphere, x, y, depth), None

    return image_of(np, scanned(step, np.zeros((n, n)), np.zeros(steps))[0])


# Heat: what conducts it, from what is seen at the end.


def heat_step(np: Any, conductivity: Any, u: Any) -> Any:
    across = 0.5 * (conductivity[1:] + conductivity[:-1]) * (u[1:] - u[:-1])
    along = 0.5 * (conductivity[:, 1:] + conductivity[:, :-1]) * (u[:, 1:] - u[:, :-1])
    change = np.pad(across, ((0, 1), (0, 0)), "constant")
    change = change - np.pad(across, ((1, 0), (0, 0)), "constant")
    change = change + np.pad(along, ((0, 0), (0, 1)), "constant")
    return u + 0.2 * (change - np.pad(along, ((0, 0), (1, 0)), "constant"))


@program(
    lambda random, n: (
        [random.uniform(0.5, 1.0, size=(n, n))] + [random.normal(size=(n, n)) for _ in range(2)]
    ),
    size=64,
    steps=100,
    wrt=(0,),
)
def heat_inversion(np: Any, conductivity: Any, u: Any, seen: Any, steps: int) -> Any:
    for _ in range(steps):
        u = heat_step(np, conductivity, u)
    return np.sum((u - seen) ** 2)


@heat_inversion.written_for("jax")
def _(np: Any, conductivity: Any, u: Any, seen: Any, steps: int) -> Any:
    def step(u: Any, _: Any) -> Any:
        return heat_step(np, conductivity, u), None

    return np.sum((scanned(step, u, np.zeros(steps))[0] - seen) ** 2)
