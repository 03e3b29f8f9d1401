"""Work grows as programs do: the calls of each pass are counted for a size and four times it.

Nothing here is compiled to machine code, and nothing is timed. What bounds the work of a part, such
as the length of segments, is smaller here than it is: so are the programs, then.
"""

import dataclasses
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.compiler import cpu_target
from numba_grad.compiler.compiled_program import Destination
from numba_grad.compiler.fusion import roots
from numba_grad.compiler.partition import flat_graph, materialization, segments
from numba_grad.compiler.steps import cpu_row_chains, row_chains
from numba_grad.frontend.compiled_functions import specialization
from numba_grad.frontend.tensors import tensor
from numba_grad.graph import walk
from numba_grad.ops import index_expressions
from numba_grad.transforms.rerolling import assigned_rows, rerolling

PACKAGE = Path(ng.__file__).parent
MOST = 4.4
# Of all calls; passes that do less say nothing: the first ones of a loop's steps are different.
LEAST_PART = 0.01
rng = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def _no_machine_code(monkeypatch):
    target = dataclasses.replace(cpu_target.TARGET, build=list)
    destination = Destination("without machine code", lambda: target)
    backend = SimpleNamespace(destination=lambda device: destination)
    monkeypatch.setattr(specialization, "backend_of", lambda device: backend)
    monkeypatch.setattr(flat_graph, "_table", flat_graph.Signatures())


@pytest.fixture(autouse=True)
def _small_bounds(monkeypatch):
    monkeypatch.setattr(segments, "LONGEST_WHOLE", 100)
    monkeypatch.setattr(segments, "WINDOW", 64)
    monkeypatch.setattr(segments, "LONGEST", 128)
    monkeypatch.setattr(materialization, "MOST_MOVEMENTS", 12)
    monkeypatch.setattr(roots, "LONGEST_CONE", 100)
    monkeypatch.setattr(row_chains, "REACH", 8)
    monkeypatch.setattr(rerolling, "_FEWEST_OF_ROWS", 64)  # looks of both sizes


def lowered(f, *args):
    """As in a process that has compiled nothing like it."""
    flat_graph._table = flat_graph.Signatures()
    tensor._parts.clear()
    index_expressions.basic_expression.cache_clear()
    return ng.jit(ng.value_and_grad(f)).lower(*args)


def calls_of_passes(f, *args):
    """By module: calls of its functions, and of built-in functions by it."""
    counts = Counter()

    def note(frame, event, argument):
        if event in ("call", "c_call"):
            counts[frame.f_code.co_filename] += 1

    sys.setprofile(note)
    try:
        lowered(f, *args)
    finally:
        sys.setprofile(None)
    return {
        str(Path(file).relative_to(PACKAGE)): count
        for file, count in counts.items()
        if file.startswith(str(PACKAGE))
    }


def heat_by_rolls(steps):
    def f(u):
        for _ in range(steps):
            u = u + 0.1 * (np.roll(u, 1) + np.roll(u, -1) - 2 * u)
        return np.sum(u**2)

    return f, rng.random(64)


def heat_by_assignments(steps):
    def f(u):
        u = u * 1.0
        for _ in range(steps):
            u[1:-1] = u[1:-1] + 0.1 * (u[2:] + u[:-2] - 2 * u[1:-1])
        return np.sum(u**2)

    return f, rng.random(64)


def heat_by_pads(steps):
    def f(u):
        for _ in range(steps):
            u = u + 0.1 * np.pad(u[2:] + u[:-2] - 2 * u[1:-1], 1)
        return np.sum(u**2)

    return f, rng.random(64)


def layers(count):
    def f(weights):
        x = np.ones((30, 30))
        for k in range(count):
            x = np.tanh(x @ weights[k] + 0.1)
        return np.sum(x**2)

    return f, rng.random((count, 30, 30))


def differences(count):
    def f(x):
        for _ in range(count):
            x = np.diff(x)
        return np.sum(x**2)

    return f, rng.random(2000)


def delay_line(steps):
    def f(history):
        total = 0.0
        for _ in range(steps):
            new = np.sin(history[0]) + history[-1]
            history = np.concatenate([history[1:], new[None]])
            total = total + new * new
        return total

    return f, rng.random(40)


def rolls_of_rolls(steps):
    def f(x):
        total = 0.0
        for _ in range(steps):
            x = np.roll(x, 1)
            total = total + np.sum(np.sin(x))
        return total

    return f, rng.random(400)


def places_that_are_computed(steps):
    """Each step asks whether an index, and a mask, is known while it is traced."""

    def f(x):
        for _ in range(steps):
            x = x * 0.99 + x[np.argsort(x)] * 0.01 + np.sum(x[x > 0.5]) * 1e-3
        return np.sum(x**2)

    return f, rng.random(30)


def jacobians_in_steps(steps):
    """An extended Kalman filter: what was recorded before a step is no part of its derivatives."""

    def moved(x):
        return np.stack([x[0] + 0.01 * x[1], x[1] - 0.01 * np.sin(x[0])])

    def f(x):
        spread, total = np.eye(2) * x[0], 0.0
        for _ in range(steps):
            slope = ng.jacobian(moved)(x)
            x = moved(x)
            spread = slope @ spread @ slope.T + 0.01
            total = total + np.trace(spread)
        return total

    return f, rng.random(2)


def elements_of_pieces(count):
    def f(x):
        y = np.concatenate([x * (1.0 + k) for k in range(count)])
        total = 0.0
        for k in range(count):
            total = total + y[20 * k] * y[20 * k + 1]
        return total

    return f, rng.random(20)


def kept_states(steps):
    def f(y):
        states = []
        for _ in range(steps):
            y = y + 0.1 * np.stack([y[0] - y[0] * y[1], y[0] * y[1] - y[1]])
            states.append(y)
        return np.sum(np.stack(states) ** 2)

    return f, rng.random(2)


def sines(count):
    def f(x):
        for k in range(count):
            x = np.sin(x) * 1.1 + (0.01 * k + 0.001 / count)  # numbers that no other size has
        return np.sum(x)

    return f, rng.random(4)


PROGRAMS = [
    (heat_by_rolls, 20),
    (heat_by_assignments, 20),
    (heat_by_pads, 20),
    (layers, 20),
    (differences, 300),  # so many that loops are looked for
    (delay_line, 30),
    (places_that_are_computed, 20),
    (jacobians_in_steps, 20),
    (rolls_of_rolls, 30),
    (elements_of_pieces, 60),
    (kept_states, 30),
    (sines, 60),
]


@pytest.mark.thorough(but="rolls_of_rolls|kept_states|places_that_are_computed|jacobians_in_steps")
@pytest.mark.parametrize(("program", "size"), PROGRAMS, ids=[p.__name__ for p, _ in PROGRAMS])
def test_no_pass_does_more_than_four_times_the_work_for_four_times_the_steps(program, size):
    lowered(*program(3))  # what is looked up once in a process
    walk.native_walks()  # which are loaded for the first large graph
    few, many = calls_of_passes(*program(size)), calls_of_passes(*program(4 * size))
    least = LEAST_PART * sum(many.values())
    too_many = {
        name: (few.get(name, 0), count)
        for name, count in many.items()
        if count > least and count > MOST * few.get(name, 0)
    }
    assert not too_many


def test_row_chains_are_looked_for_with_the_same_work_for_each_kernel(monkeypatch):
    monkeypatch.setattr(cpu_row_chains, "LEAST_SHARED_BYTES", 1)
    monkeypatch.setattr(cpu_row_chains, "FEWEST_ROWS", 2)

    def softmaxes(count):
        def f(x):
            for _ in range(count):
                x = ng.softmax(x, axis=1) * 3.0
            return np.sum(x * x)

        return f, np.ones((40, 30))

    few, many = (calls_of_passes(*softmaxes(n))["compiler/steps/row_chains.py"] for n in (20, 80))
    assert many <= MOST * few


def lines_of_kernels(f, *args):
    segments = lowered(f, *args)._program.segments
    steps = [step for program in segments for step in program.steps]
    return sum(source.count("\n") for step in steps for source in step.sources)


def test_text_of_kernels_grows_as_the_program_does():
    few, many = (lines_of_kernels(*differences(count)) for count in (20, 80))
    assert many <= MOST * few


def test_parts_of_rows_are_compared_once_for_all_rows(monkeypatch):
    """Each step reads the elements of the row before, and assigns those of its own."""
    columns, most = 6, []
    parts = [assigned_rows.RowPart((j,), (1,), (1,)) for j in range(columns)]
    meets = assigned_rows.RowPart.meets
    monkeypatch.setattr(
        assigned_rows.RowPart, "meets", lambda a, b: comparisons.append(a) or meets(a, b)
    )
    for rows in (20, 80):
        comparisons, kinds, inputs, last, found = [], [], [], -1, {}
        for row in range(rows):
            for part in range(columns):
                found[len(kinds)] = (row - 1, part)
                kinds.append((assigned_rows.RowAccess.READS, row - 1, part))
                kinds.append((assigned_rows.RowAccess.ASSIGNS, row, part))
                inputs += [last, last, len(kinds) - 2]
                last = len(kinds) - 1
        accesses = assigned_rows.RowAccesses(*np.array(kinds).T, parts)
        first_inputs = np.arange(len(kinds)) // 2 * 3 + np.arange(len(kinds)) % 2
        again = assigned_rows.rows_read_again(accesses, np.array(inputs), first_inputs, [])
        assert (
            again.assigned
            == {
                reader: 2 * (row * columns + part)
                for reader, (row, part) in found.items()
                if row >= 0
            }
            | {}
        )
        most.append(len(comparisons))
    assert 0 < most[1] <= most[0]
