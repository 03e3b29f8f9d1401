"""Particles, linkages and structures."""

from typing import Any

import numpy

from perf.programs import program

# A fluid of particles (SPH): densities by a kernel, forces by its slope, all pairs.


@program(
    lambda random, n: [random.uniform(0.0, 1.0, size=(n, 2)), numpy.array([5.0, 0.2, 0.3])],
    size=16,
    steps=6,
)
def fluid_of_particles(np: Any, x: Any, p: Any, steps: int) -> Any:
    n, height, v = x.shape[0], 0.3, np.zeros(x.shape)
    for _ in range(steps):
        apart = x[:, None, :] - x[None, :, :]
        distance = np.sqrt(np.sum(apart**2, axis=2) + 1e-6)
        near = np.maximum(1.0 - distance / height, 0.0)
        density = np.sum(near**3, axis=1)
        pressure = p[0] * (density - 1.0)
        push = (pressure / density**2)[:, None] + (pressure / density**2)[None, :]
        forces = np.sum((push * near**2 / distance)[:, :, None] * apart, axis=1)
        drag = np.sum(near[:, :, None] * (v[None, :, :] - v[:, None, :]), axis=1)
        v = v + 0.01 * (forces + p[1] * drag - p[2] * np.array([0.0, 1.0]))
        x = x + 0.01 * v
    return np.sum(v**2) / n + np.mean(x[:, 1])


# Planets by leapfrog: an array of all pairs, or a loop over pairs with the places in lists.


def planets(random: numpy.random.Generator, n: int) -> list[numpy.ndarray]:
    return [random.normal(size=(5, 3)), 0.3 * random.normal(size=(5, 3)), numpy.ones(5)]


@program(planets, steps=30)
def leapfrog_of_arrays(np: Any, x: Any, v: Any, mass: Any, steps: int) -> Any:
    def acceleration(x: Any) -> Any:
        apart = x[None, :, :] - x[:, None, :]
        cubes = (np.sum(apart**2, axis=2) + 0.01) ** -1.5
        return np.sum(apart * (cubes * mass)[:, :, None], axis=1)

    a = acceleration(x)
    for _ in range(steps):
        v = v + 0.005 * a
        x = x + 0.01 * v
        a = acceleration(x)
        v = v + 0.005 * a
    return np.sum(x[0] ** 2) + 0.5 * np.sum(mass * np.sum(v**2, axis=1))


@program(planets, steps=6)
def leapfrog_by_pairs(np: Any, x: Any, v: Any, mass: Any, steps: int) -> Any:
    places, speeds = [x[i] for i in range(5)], [v[i] for i in range(5)]
    for _ in range(steps):
        forces = [np.zeros(3) for _ in range(5)]
        for i in range(5):
            for j in range(i):
                apart = places[j] - places[i]
                square = apart[0] ** 2 + apart[1] ** 2 + apart[2] ** 2 + 0.01
                force = mass[i] * mass[j] * apart / (square * np.sqrt(square))
                forces[i] = forces[i] + force
                forces[j] = forces[j] - force
        for i in range(5):
            speeds[i] = speeds[i] + 0.01 * forces[i] / mass[i]
            places[i] = places[i] + 0.01 * speeds[i]
    return sum(np.sum(p**2) for p in places) + sum(np.sum(s**2) for s in speeds)


# A chain of atoms: bonds, angles, dihedrals, and pairs that are further apart.


@program(
    lambda random, n: [
        numpy.cumsum(random.normal(size=(10, 3)) + numpy.eye(3)[0], axis=0),
        numpy.array([100.0, 1.1, 5.0, 1.9, 0.5, 0.3]),
    ]
)
def chain_molecule(np: Any, x: Any, p: Any) -> Any:
    bonds = x[1:] - x[:-1]
    lengths = np.sqrt(np.sum(bonds**2, axis=1))
    energy = 0.5 * p[0] * np.sum((lengths - p[1]) ** 2)
    cosines = -np.sum(bonds[1:] * bonds[:-1], axis=1) / (lengths[1:] * lengths[:-1])
    energy = energy + 0.5 * p[2] * np.sum((np.arccos(cosines) - p[3]) ** 2)
    normals = np.cross(bonds[:-1], bonds[1:])
    before, after = normals[:-1], normals[1:]
    sines = np.sum(np.cross(before, after) * bonds[1:-1], axis=1) / lengths[1:-1]
    angles = np.arctan2(sines, np.sum(before * after, axis=1))
    energy = energy + p[4] * np.sum(1.0 + np.cos(3.0 * angles))
    i, j = numpy.triu_indices(x.shape[0], k=4)
    sixths = 1.0 / (np.sum((x[i] - x[j]) ** 2, axis=1) + 0.1) ** 3
    return energy + 4.0 * p[5] * np.sum(sixths**2 - sixths)


# A cloth that hangs by two corners.


@program(lambda random, n: [numpy.array([50.0, 0.5, 1.0]), random.normal(size=2)], steps=20)
def cloth(np: Any, p: Any, wind: Any, steps: int) -> Any:
    rows, columns = numpy.meshgrid(numpy.arange(6.0), numpy.arange(6.0), indexing="ij")
    x = np.array(numpy.stack([columns, -rows, 0.0 * rows], axis=2))
    is_held = numpy.zeros((6, 6, 1))
    is_held[0, 0] = is_held[0, -1] = 1.0
    free = np.array(1.0 - is_held)
    outside = np.stack([wind[0], -p[2], wind[1]])
    v = np.zeros((6, 6, 3))

    def pull(first: Any, second: Any, rest: float) -> Any:
        apart = second - first
        length = np.sqrt(np.sum(apart**2, axis=2, keepdims=True))
        return p[0] * (length - rest) * apart / length

    for _ in range(steps):
        down, along = pull(x[:-1], x[1:], 1.0), pull(x[:, :-1], x[:, 1:], 1.0)
        across = pull(x[:-1, :-1], x[1:, 1:], 2.0**0.5)
        forces = np.pad(down, ((0, 1), (0, 0), (0, 0)), "constant")
        forces = forces - np.pad(down, ((1, 0), (0, 0), (0, 0)), "constant")
        forces = forces + np.pad(along, ((0, 0), (0, 1), (0, 0)), "constant")
        forces = forces - np.pad(along, ((0, 0), (1, 0), (0, 0)), "constant")
        forces = forces + np.pad(across, ((0, 1), (0, 1), (0, 0)), "constant")
        forces = forces - np.pad(across, ((1, 0), (1, 0), (0, 0)), "constant")
        v = (v + 0.02 * (forces + outside - p[1] * v)) * free
        x = x + 0.02 * v
    return np.sum(x[-1] ** 2) + np.mean(v**2)


@program(lambda random, n: [numpy.array([1.0, 0.8, 1.0, 0.7, 2.0, 1.0])], steps=40)
def double_pendulum(np: Any, p: Any, steps: int) -> Any:
    """Lengths, masses and angles; Runge-Kutta on four numbers."""
    l1, l2, m1, m2 = p[0], p[1], p[2], p[3]

    def slope(y: Any) -> Any:
        a, b, u, v = y
        s, c = np.sin(a - b), np.cos(a - b)
        total = m1 + m2
        below = m1 + m2 * s**2
        du = m2 * 9.81 * np.sin(b) * c - m2 * s * (l1 * u**2 * c + l2 * v**2)
        dv = total * (l1 * u**2 * s - 9.81 * np.sin(b) + 9.81 * np.sin(a) * c)
        du = du - total * 9.81 * np.sin(a)
        dv = dv + m2 * l2 * v**2 * s * c
        return [u, v, du / (l1 * below), dv / (l2 * below)]

    def moved(y: Any, k: Any, h: float) -> Any:
        return [a + h * b for a, b in zip(y, k, strict=True)]

    y, h = [p[4], p[5], 0.0, 0.0], 0.02
    for _ in range(steps):
        k1 = slope(y)
        k2 = slope(moved(y, k1, 0.5 * h))
        k3 = slope(moved(y, k2, 0.5 * h))
        k4 = slope(moved(y, k3, h))
        k = [a + 2.0 * b + 2.0 * c + d for a, b, c, d in zip(k1, k2, k3, k4, strict=True)]
        y = moved(y, k, h / 6.0)
    return (l1 * np.sin(y[0]) + l2 * np.sin(y[1])) ** 2 + y[2] ** 2


@program(lambda random, n: [random.normal(size=(8, 6)), random.normal(size=(8, 3))], wrt=(0,))
def robot_arm(np: Any, joints: Any, targets: Any) -> Any:
    """Denavit and Hartenberg's matrices along six joints, for each pose of a way."""
    lengths, offsets = [0.0, 0.6, 0.5, 0.0, 0.0, 0.0], [0.3, 0.0, 0.0, 0.4, 0.0, 0.1]
    twists = [numpy.pi / 2, 0.0, 0.0, numpy.pi / 2, -numpy.pi / 2, 0.0]
    total = 0.0
    for k in range(joints.shape[0]):
        pose = np.eye(4)
        for j in range(6):
            c, s = np.cos(joints[k, j]), np.sin(joints[k, j])
            ca, sa = float(numpy.cos(twists[j])), float(numpy.sin(twists[j]))
            rows = [
                [c, -s * ca, s * sa, lengths[j] * c],
                [s, c * ca, -c * sa, lengths[j] * s],
                [0.0, sa, ca, offsets[j]],
                [0.0, 0.0, 0.0, 1.0],
            ]
            pose = pose @ np.array(rows)
        total = total + np.sum((pose[:3, 3] - targets[k]) ** 2) + 0.1 * (1.0 - pose[2, 2])
    return total + 0.01 * np.sum((joints[1:] - joints[:-1]) ** 2)


# A truss: stiffness put together bar by bar, by index arrays, or from the geometry of all bars.

JOINTS = numpy.array([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0], [3.0, 0.0], [1.0, 1.0], [2.0, 1.0]])
BARS = [(0, 1), (1, 2), (2, 3), (0, 4), (4, 5), (5, 3), (1, 4), (2, 5), (1, 5)]
FREE = [2, 3, 4, 5, 6, 8, 9, 10, 11]


def truss(random: numpy.random.Generator, n: int) -> list[numpy.ndarray]:
    return [random.uniform(0.5, 1.5, size=len(BARS)), JOINTS.copy()]


def compliance(np: Any, stiffness: Any, areas: Any) -> Any:
    load = np.array(numpy.eye(12)[5][FREE] + 0.5 * numpy.eye(12)[11][FREE])
    bent = np.linalg.solve(stiffness[numpy.ix_(FREE, FREE)], load)
    return np.sum(load * bent) + 0.1 * np.sum(areas)


@program(truss)
def truss_bar_by_bar(np: Any, areas: Any, joints: Any) -> Any:
    stiffness = np.zeros((12, 12))
    for bar, (i, j) in enumerate(BARS):
        places = numpy.array([2 * i, 2 * i + 1, 2 * j, 2 * j + 1])
        stiffness[numpy.ix_(places, places)] += of_bar(np, areas[bar], joints[i], joints[j])
    return compliance(np, stiffness, areas)


def of_bar(np: Any, area: Any, start: Any, end: Any) -> Any:
    along = end - start
    length = np.sqrt(np.sum(along**2))
    c, s = along[0] / length, along[1] / length
    direction = np.stack([-c, -s, c, s])
    return area / length * np.outer(direction, direction)


@truss_bar_by_bar.written_for("jax")
def _(np: Any, areas: Any, joints: Any) -> Any:
    stiffness = np.zeros((12, 12))
    for bar, (i, j) in enumerate(BARS):
        places = numpy.array([2 * i, 2 * i + 1, 2 * j, 2 * j + 1])
        stiffness = stiffness.at[numpy.ix_(places, places)].add(
            of_bar(np, areas[bar], joints[i], joints[j])
        )
    return compliance(np, stiffness, areas)


truss_bar_by_bar.left_out("autograd", "has no assignments")


@program(truss)
def truss_at_once(np: Any, areas: Any, joints: Any) -> Any:
    incidence = numpy.zeros((len(BARS), len(JOINTS)))
    for bar, (i, j) in enumerate(BARS):
        incidence[bar, i], incidence[bar, j] = -1.0, 1.0
    along = np.array(incidence) @ joints
    lengths = np.sqrt(np.sum(along**2, axis=1))
    directions = along / lengths[:, None]
    strains = np.array(incidence)[:, :, None] * directions[:, None, :]
    strains = np.reshape(strains, (len(BARS), 12))
    return compliance(np, strains.T @ ((areas / lengths)[:, None] * strains), areas)
