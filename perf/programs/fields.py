"""Fields on grids and meshes, as in courses of computational physics."""

from collections.abc import Callable
from typing import Any

import numpy

from perf.programs import program

# Sod's shock tube: Euler's equations by finite volumes, slopes limited, fluxes of Harten, Lax and
# van Leer.

CELLS = 40


def minmod(np: Any, a: Any, b: Any) -> Any:
    return np.where(a * b > 0.0, np.where(np.abs(a) < np.abs(b), a, b), 0.0)


def density_velocity_pressure(q: Any) -> Any:
    velocity = q[1] / q[0]
    return q[0], velocity, 0.4 * (q[2] - 0.5 * q[0] * velocity**2)


def flux_between(np: Any, left: Any, right: Any) -> Any:
    fluxes, speeds = [], []
    for q in (left, right):
        density, velocity, pressure = density_velocity_pressure(q)
        sound = np.sqrt(1.4 * pressure / density)
        along = density * velocity
        fluxes.append(np.stack([along, along * velocity + pressure, velocity * (q[2] + pressure)]))
        speeds.append((velocity - sound, velocity + sound))
    slowest = np.minimum(np.minimum(speeds[0][0], speeds[1][0]), 0.0)
    fastest = np.maximum(np.maximum(speeds[0][1], speeds[1][1]), 0.0)
    mixed = fastest * fluxes[0] - slowest * fluxes[1] + slowest * fastest * (right - left)
    return mixed / (fastest - slowest)


@program(lambda random, n: [numpy.array([1.0, 1.0, 0.125, 0.1])], steps=25)
def shock_tube(np: Any, p: Any, steps: int) -> Any:
    is_left = np.array(numpy.arange(CELLS) < CELLS // 2)
    density, pressure = np.where(is_left, p[0], p[2]), np.where(is_left, p[1], p[3])
    q = np.stack([density, np.zeros(CELLS), pressure / 0.4])
    for _ in range(steps):
        wide = np.concatenate([q[:, :1], q[:, :1], q, q[:, -1:], q[:, -1:]], axis=1)
        differences = wide[:, 1:] - wide[:, :-1]
        slopes = minmod(np, differences[:, :-1], differences[:, 1:])
        inner = wide[:, 1:-1]
        left, right = inner[:, :-1] + 0.5 * slopes[:, :-1], inner[:, 1:] - 0.5 * slopes[:, 1:]
        flux = flux_between(np, left, right)
        q = q - 0.3 * (flux[:, 1:] - flux[:, :-1])
    return np.sum(q[0] ** 2) + np.sum(density_velocity_pressure(q)[2][10:30])


shock_tube.left_out("autograd", "its where has no gradient of numbers chosen by a mask")


# Two phases that part: Cahn and Hilliard's equation by rolls, and by Fourier transforms.


def laplacian(np: Any, u: Any) -> Any:
    x = np.roll(u, 1, axis=0) + np.roll(u, -1, axis=0)
    return x + np.roll(u, 1, axis=1) + np.roll(u, -1, axis=1) - 4.0 * u


def two_phases(random: numpy.random.Generator, n: int) -> list[numpy.ndarray]:
    return [0.1 * random.normal(size=(n, n)), numpy.array([0.5, 1.0])]


@program(two_phases, size=12, steps=20)
def cahn_hilliard(np: Any, c: Any, p: Any, steps: int) -> Any:
    for _ in range(steps):
        potential = c**3 - c - p[0] * laplacian(np, c)
        c = c + 0.02 * p[1] * laplacian(np, potential)
    gradient = (np.roll(c, 1, axis=0) - c) ** 2 + (np.roll(c, 1, axis=1) - c) ** 2
    return np.sum(0.25 * (c**2 - 1.0) ** 2 + 0.5 * p[0] * gradient)


@program(two_phases, size=12, steps=20)
def cahn_hilliard_by_fourier(np: Any, c: Any, p: Any, steps: int) -> Any:
    """Implicit in what is linear."""
    waves = 2.0 * numpy.pi * numpy.fft.fftfreq(c.shape[0])
    squares = np.array(waves[:, None] ** 2 + waves[None, :] ** 2)
    for _ in range(steps):
        cubes = np.fft.fft2(c**3 - 3.0 * c)
        after = np.fft.fft2(c) - 0.1 * p[1] * squares * cubes
        after = after / (1.0 + 0.1 * p[1] * squares * (p[0] * squares + 2.0))
        c = np.real(np.fft.ifft2(after))
    return np.sum(0.25 * (c**2 - 1.0) ** 2)


# Poisson's equation by multigrid; what is between coarse points is interleaved by a stack, or put
# into an array.


def between_by_stack(np: Any, coarse: Any) -> Any:
    between = 0.5 * (coarse[1:] + coarse[:-1])
    pairs = np.stack([coarse[:-1], between], axis=1)
    return np.concatenate([np.reshape(pairs, (-1,)), coarse[-1:]])


def between_in_a_buffer(np: Any, coarse: Any) -> Any:
    fine = np.zeros(2 * coarse.shape[0] - 1)
    fine[::2] = coarse
    fine[1::2] = 0.5 * (coarse[1:] + coarse[:-1])
    return fine


def between_for_jax(np: Any, coarse: Any) -> Any:
    fine = np.zeros(2 * coarse.shape[0] - 1).at[::2].set(coarse)
    return fine.at[1::2].set(0.5 * (coarse[1:] + coarse[:-1]))


def multigrid(np: Any, k: Any, source: Any, between: Callable[..., Any]) -> Any:
    """-(k u')' = source, in two cycles."""

    def outer(u: Any) -> Any:
        return np.concatenate([np.zeros(1), u, np.zeros(1)])

    def applied(k: Any, u: Any, h: float) -> Any:
        flux = 0.5 * (k[1:] + k[:-1]) * (u[1:] - u[:-1]) / h
        return outer(-(flux[1:] - flux[:-1]) / h)

    def smoothed(k: Any, u: Any, f: Any, h: float) -> Any:
        diagonal = (0.5 * k[:-2] + k[1:-1] + 0.5 * k[2:]) / h**2
        for _ in range(2):
            residual = f - applied(k, u, h)
            u = u + outer(0.7 * residual[1:-1] / diagonal)
        return u

    def cycle(k: Any, u: Any, f: Any, h: float) -> Any:
        u = smoothed(k, u, f, h)
        if u.shape[0] > 3:
            residual = f - applied(k, u, h)
            weighted = 0.25 * (residual[1:-2:2] + 2.0 * residual[2:-1:2] + residual[3::2])
            coarse = outer(weighted)
            u = u + between(np, cycle(k[::2], np.zeros(coarse.shape[0]), coarse, 2.0 * h))
        return smoothed(k, u, f, h)

    u, h = np.zeros(k.shape[0]), 1.0 / (k.shape[0] - 1)
    for _ in range(2):
        u = cycle(k, u, source, h)
    return np.sum(u**2) + np.sum((u[1:] - u[:-1]) ** 2)


def conductivity_and_source(random: numpy.random.Generator, n: int) -> list[numpy.ndarray]:
    source = random.normal(size=33)
    source[[0, -1]] = 0.0
    return [random.uniform(0.5, 1.5, size=33), source]


@program(conductivity_and_source)
def multigrid_by_stacks(np: Any, k: Any, source: Any) -> Any:
    return multigrid(np, k, source, between_by_stack)


@program(conductivity_and_source)
def multigrid_with_buffers(np: Any, k: Any, source: Any) -> Any:
    return multigrid(np, k, source, between_in_a_buffer)


@multigrid_with_buffers.written_for("jax")
def _(np: Any, k: Any, source: Any) -> Any:
    return multigrid(np, k, source, between_for_jax)


multigrid_with_buffers.left_out("autograd", "has no assignments")

# Heat in a plate of triangles: a matrix put together element by element, or by one product.


def mesh(n: int) -> tuple[numpy.ndarray, numpy.ndarray]:
    """Points of a square, and the corners of its triangles."""
    x, y = numpy.meshgrid(numpy.linspace(0.0, 1.0, n), numpy.linspace(0.0, 1.0, n))
    points = numpy.stack([x.ravel() + 0.1 * y.ravel() ** 2, y.ravel()], axis=1)
    triangles = []
    for i in range(n - 1):
        for j in range(n - 1):
            a = i * n + j
            triangles += [(a, a + 1, a + n), (a + 1, a + n + 1, a + n)]
    return points, numpy.array(triangles)


MESH = mesh(4)


def plate(random: numpy.random.Generator, n: int) -> list[numpy.ndarray]:
    return [random.uniform(0.5, 1.5, size=len(MESH[1])), MESH[0].copy()]


def solved_plate(np: Any, stiffness: Any, points: Any) -> Any:
    """Cold below, heated everywhere."""
    count = points.shape[0]
    is_free = numpy.arange(count) >= 4
    both = np.array((is_free[:, None] & is_free[None, :]).astype(float))
    fixed = np.array(numpy.diag(1.0 - is_free))
    temperature = np.linalg.solve(stiffness * both + fixed, np.array(1.0 * is_free))
    return np.sum(temperature * (1.0 + points[:, 0]))


@program(plate)
def finite_elements_one_by_one(np: Any, conductivity: Any, points: Any) -> Any:
    stiffness = np.zeros((points.shape[0], points.shape[0]))
    for e, triangle in enumerate(MESH[1]):
        element = conductivity[e] * of_triangle(np, points[triangle])
        for i in range(3):
            for j in range(3):
                stiffness[triangle[i], triangle[j]] += element[i, j]
    return solved_plate(np, stiffness, points)


def of_triangle(np: Any, corners: Any) -> Any:
    (x0, y0), (x1, y1), (x2, y2) = corners
    area = 0.5 * ((x1 - x0) * (y2 - y0) - (x2 - x0) * (y1 - y0))
    slopes = np.array([[y1 - y2, x2 - x1], [y2 - y0, x0 - x2], [y0 - y1, x1 - x0]])
    return slopes @ slopes.T / (4.0 * area)


@finite_elements_one_by_one.written_for("jax")
def _(np: Any, conductivity: Any, points: Any) -> Any:
    stiffness = np.zeros((points.shape[0], points.shape[0]))
    for e, triangle in enumerate(MESH[1]):
        element = conductivity[e] * of_triangle(np, points[triangle])
        stiffness = stiffness.at[triangle[:, None], triangle[None, :]].add(element)
    return solved_plate(np, stiffness, points)


finite_elements_one_by_one.left_out("autograd", "has no assignments")


@program(plate)
def finite_elements_together(np: Any, conductivity: Any, points: Any) -> Any:
    corners = points[MESH[1]]
    x, y = corners[:, :, 0], corners[:, :, 1]
    by_x = np.stack([y[:, 1] - y[:, 2], y[:, 2] - y[:, 0], y[:, 0] - y[:, 1]], axis=1)
    by_y = np.stack([x[:, 2] - x[:, 1], x[:, 0] - x[:, 2], x[:, 1] - x[:, 0]], axis=1)
    area = 0.5 * (by_y[:, 2] * by_x[:, 1] - by_y[:, 1] * by_x[:, 2])
    products = by_x[:, :, None] * by_x[:, None, :] + by_y[:, :, None] * by_y[:, None, :]
    elements = (conductivity / (4.0 * area))[:, None, None] * products
    place = np.array(numpy.eye(points.shape[0])[MESH[1]])
    stiffness = np.einsum("eai,eab,ebj->ij", place, elements, place)
    return solved_plate(np, stiffness, points)


# Spots of Gray and Scott, in arrays with a ghost cell on each side.


@program(
    lambda random, n: [
        1.0 - 0.5 * random.uniform(size=(n, n)),
        0.25 * random.uniform(size=(n, n)),
        numpy.array([0.04, 0.06]),
    ],
    size=12,
    steps=15,
)
def spots_with_ghost_cells(np: Any, u0: Any, v0: Any, p: Any, steps: int) -> Any:
    n = u0.shape[0]
    u, v = np.zeros((n + 2, n + 2)), np.zeros((n + 2, n + 2))
    u[1:-1, 1:-1] = u0
    v[1:-1, 1:-1] = v0
    for _ in range(steps):
        for field in (u, v):
            field[0, :] = field[-2, :]
            field[-1, :] = field[1, :]
            field[:, 0] = field[:, -2]
            field[:, -1] = field[:, 1]
        du, dv = reactions(u, v, p)
        u[1:-1, 1:-1] += du
        v[1:-1, 1:-1] += dv
    return np.sum(v[1:-1, 1:-1] ** 2) + np.mean(u[1:-1, 1:-1])


def reactions(u: Any, v: Any, p: Any) -> Any:
    middle_u, middle_v = u[1:-1, 1:-1], v[1:-1, 1:-1]
    spread_u = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4.0 * middle_u
    spread_v = v[:-2, 1:-1] + v[2:, 1:-1] + v[1:-1, :-2] + v[1:-1, 2:] - 4.0 * middle_v
    eaten = middle_u * middle_v**2
    du = 0.16 * spread_u - eaten + p[0] * (1.0 - middle_u)
    return du, 0.08 * spread_v + eaten - (p[0] + p[1]) * middle_v


@spots_with_ghost_cells.written_for("jax", "autograd")
def _(np: Any, u0: Any, v0: Any, p: Any, steps: int) -> Any:
    def wrapped(x: Any) -> Any:
        x = np.concatenate([x[-1:], x, x[:1]])
        return np.concatenate([x[:, -1:], x, x[:, :1]], axis=1)

    u, v = u0, v0
    for _ in range(steps):
        du, dv = reactions(wrapped(u), wrapped(v), p)
        u, v = u + du, v + dv
    return np.sum(v**2) + np.mean(u)


spots_with_ghost_cells.left_out("torch", "assignments change what a gradient reads")
