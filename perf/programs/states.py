"""One problem in the ways that people write it: a wave on a string, compared with a record.

How the differences of neighbours are taken: slices, roll, pad, assignment to the inner points, a
matrix, a loop over points. How the states are kept: summed in the loop, appended and stacked,
assigned to rows of a buffer, concatenated.
"""

from typing import Any

import numpy

from perf.programs import program

STEPS = 20


def inputs(random: numpy.random.Generator, n: int) -> list[numpy.ndarray]:
    """Speed squared at the inner points, the first state, the record of one point."""
    points = n + 4
    return [
        random.uniform(0.1, 0.4, size=points - 2),
        numpy.sin(numpy.linspace(0.0, numpy.pi, points)),
        random.normal(size=1000),
    ]


def leapfrog(np: Any, c: Any, u: Any, previous: Any) -> Any:
    inner = 2.0 * u[1:-1] - previous[1:-1] + c * (u[2:] - 2.0 * u[1:-1] + u[:-2])
    return np.concatenate([np.zeros(1), inner, np.zeros(1)])


@program(inputs, steps=(10, 100, 1000), wrt=(0, 1))
def wave_with_its_loss_summed(np: Any, c: Any, u: Any, record: Any, steps: int) -> Any:
    previous, total = u, 0.0
    for k in range(steps):
        u, previous = leapfrog(np, c, u, previous), u
        total = total + (u[3] - record[k]) ** 2
    return total


@program(inputs, steps=(10, 100, 1000), wrt=(0, 1))
def wave_appended_and_stacked(np: Any, c: Any, u: Any, record: Any, steps: int) -> Any:
    previous, states = u, []
    for _ in range(steps):
        u, previous = leapfrog(np, c, u, previous), u
        states.append(u)
    return np.sum((np.stack(states)[:, 3] - record[:steps]) ** 2)


@program(inputs, steps=(STEPS, 100), wrt=(0, 1))
def wave_in_rows_of_a_buffer(np: Any, c: Any, u: Any, record: Any, steps: int) -> Any:
    states = np.zeros((steps + 2, u.shape[0]))
    states[0] = u
    states[1] = u
    for k in range(steps):
        states[k + 2] = leapfrog(np, c, states[k + 1], states[k])
    return np.sum((states[2:, 3] - record[:steps]) ** 2)


@wave_in_rows_of_a_buffer.written_for("jax")
def _(np: Any, c: Any, u: Any, record: Any, steps: int) -> Any:
    states = np.zeros((steps + 2, u.shape[0])).at[:2].set(u)
    for k in range(steps):
        states = states.at[k + 2].set(leapfrog(np, c, states[k + 1], states[k]))
    return np.sum((states[2:, 3] - record[:steps]) ** 2)


@wave_in_rows_of_a_buffer.written_for("torch")
def _(np: Any, c: Any, u: Any, record: Any, steps: int) -> Any:
    states = np.zeros((steps + 2, u.shape[0]))
    states[0] = u
    states[1] = u
    for k in range(steps):
        states[k + 2] = leapfrog(np, c, states[k + 1].clone(), states[k].clone())
    return np.sum((states[2:, 3] - record[:steps]) ** 2)


wave_in_rows_of_a_buffer.written_for("autograd")(wave_appended_and_stacked[0].function)


@program(inputs, steps=STEPS, wrt=(0, 1))
def wave_with_its_readings_concatenated(np: Any, c: Any, u: Any, record: Any, steps: int) -> Any:
    previous, readings = u, u[:0]
    for _ in range(steps):
        u, previous = leapfrog(np, c, u, previous), u
        readings = np.concatenate([readings, u[3:4]])
    return np.sum((readings - record[:steps]) ** 2)


@program(inputs, steps=(STEPS, 100), wrt=(0, 1))
def wave_by_assignment_to_inner_points(np: Any, c: Any, u: Any, record: Any, steps: int) -> Any:
    previous, total = u, 0.0
    for k in range(steps):
        new = np.zeros(u.shape[0])
        new[1:-1] = 2.0 * u[1:-1] - previous[1:-1] + c * (u[2:] - 2.0 * u[1:-1] + u[:-2])
        u, previous = new, u
        total = total + (u[3] - record[k]) ** 2
    return total


@wave_by_assignment_to_inner_points.written_for("jax")
def _(np: Any, c: Any, u: Any, record: Any, steps: int) -> Any:
    previous, total = u, 0.0
    for k in range(steps):
        inner = 2.0 * u[1:-1] - previous[1:-1] + c * (u[2:] - 2.0 * u[1:-1] + u[:-2])
        u, previous = np.zeros(u.shape[0]).at[1:-1].set(inner), u
        total = total + (u[3] - record[k]) ** 2
    return total


wave_by_assignment_to_inner_points.written_for("autograd")(wave_with_its_loss_summed[0].function)


@program(inputs, steps=(STEPS, 100), wrt=(0, 1))
def wave_by_pad(np: Any, c: Any, u: Any, record: Any, steps: int) -> Any:
    previous, states = u, []
    for _ in range(steps):
        change = np.pad(c * (u[2:] - 2.0 * u[1:-1] + u[:-2]), 1, "constant")
        u, previous = 2.0 * u - previous + change, u
        states.append(u[3])
    return np.sum((np.stack(states) - record[:steps]) ** 2)


@program(inputs, steps=(STEPS, 100), wrt=(0, 1))
def wave_by_roll_and_mask(np: Any, c: Any, u: Any, record: Any, steps: int) -> Any:
    previous, total = u, 0.0
    inside = numpy.ones(u.shape[0])
    inside[[0, -1]] = 0.0
    inside, speed = np.array(inside), np.pad(c, 1, "constant")
    for k in range(steps):
        change = np.roll(u, 1) - 2.0 * u + np.roll(u, -1)
        u, previous = inside * (2.0 * u - previous + speed * change), u
        total = total + (u[3] - record[k]) ** 2
    return total


@program(inputs, steps=STEPS, wrt=(0, 1))
def wave_by_a_matrix(np: Any, c: Any, u: Any, record: Any, steps: int) -> Any:
    points = c.shape[0]
    differences = np.array(
        numpy.eye(points, k=1) - 2.0 * numpy.eye(points) + numpy.eye(points, k=-1)
    )
    u = u[1:-1]
    previous, total = u, 0.0
    for k in range(steps):
        u, previous = 2.0 * u - previous + c * (differences @ u), u
        total = total + (u[2] - record[k]) ** 2
    return total


@program(inputs, steps=10, wrt=(0, 1))
def wave_by_a_loop_over_points(np: Any, c: Any, u: Any, record: Any, steps: int) -> Any:
    points = c.shape[0]
    now = [u[i] for i in range(points + 2)]
    before, total = now, 0.0
    for k in range(steps):
        new = [0.0]
        for i in range(1, points + 1):
            change = c[i - 1] * (now[i + 1] - 2.0 * now[i] + now[i - 1])
            new.append(2.0 * now[i] - before[i] + change)
        now, before = [*new, 0.0], now
        total = total + (now[3] - record[k]) ** 2
    return total
