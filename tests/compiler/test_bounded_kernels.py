"""However a loop is written, its kernels are few and short, and no more for more steps.

Nothing is compiled here: sources are counted.
"""

import re
from collections import Counter

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.compiler import evaluate, pipeline
from numba_grad.compiler.emission import emit_cpu
from tests.compiler.loops_as_written import LOOPS
from tests.processes import run_python

pytestmark = pytest.mark.usefixtures("not_compiled")

# Lines of the longest kernel, and of all: of a value and its gradient. By hand, a Runge-Kutta step
# has some 60 forward and 150 backward.
LONGEST = 320
LINES = 2_000
# Loops with few operations in a step.
QUICK = ("sines", "heat_by_pads", "rows_of_a_parameter", "stacked_as_columns")
# Of whose first 20 steps so few are alike that their rows are 16 numbers, which are written out.
BEGINNING = ("numbers_of_a_buffer", "filter_of_numbers")


def sources_by_jit(f, arguments) -> set[str]:
    return {kernel.source for kernel in ng.jit(f).lower(*arguments).kernels}


@pytest.fixture
def sources_by_run(monkeypatch):
    """Of the programs that evaluate a function that is not jitted."""
    seen: list[set[str]] = []

    def runner(program, device):
        seen[-1].update(program.kernels)
        return lambda *_: [np.zeros(shape, dtype) for shape, dtype in program.plan.outputs]

    monkeypatch.setattr(evaluate, "runner", runner)

    def sources(f, arguments) -> set[str]:
        seen.append(set())
        result = f(*(ng.tensor(x) for x in arguments))
        for x in result if isinstance(result, tuple) else (result,):
            np.asarray(x)
        return seen[-1]

    return sources


def gradient(f):
    return ng.value_and_grad(f, argnums=(0,))


def check_kernels(name, transform, fewest) -> None:
    """They are those of so many steps, whether steps are even or odd, or what is left where short
    ones are taken together."""
    f, arguments = LOOPS[name](fewest)
    # From the third call with operands of the same types on a function's operations are recorded
    # again (`known_calls.py`), so that the first steps of a process may be others.
    sources_by_jit(transform(f), arguments)
    of_few = sources_by_jit(transform(f), arguments)
    for steps in (fewest + 1, fewest + 2, fewest + 3, 37, 104, *([1000] if name in QUICK else [])):
        f, arguments = LOOPS[name](steps)
        assert sources_by_jit(transform(f), arguments) == of_few
    lengths = [source.count("\n") for source in of_few]
    assert max(lengths) <= LONGEST
    assert sum(lengths) <= LINES


TRANSFORMS = [pytest.param(lambda f: f, id="value"), pytest.param(gradient, id="gradient")]


@pytest.mark.thorough(
    but="gradient-(state_in_an_array|rows_of_a_buffer|heat_by_slices|gates|linked|attraction)"
)
@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_kernels_do_not_depend_on_the_number_of_steps(name, transform):
    check_kernels(name, transform, 24 if name in BEGINNING else 20)


@pytest.mark.thorough(but="gradient-kalman_filter")
@pytest.mark.usefixtures("loops_stay_steps")
@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_nor_do_they_where_loops_stay_steps(name, transform):
    """As where what a step computes is large."""
    check_kernels(name, transform, 20)


@pytest.mark.thorough(every=16)
@pytest.mark.usefixtures("loops_stay_steps")
@pytest.mark.parametrize("name", LOOPS)
def test_nor_do_they_where_every_operation_is_recorded_anew(name, sources_by_run):
    fewest, few, many = (
        sources_by_run(gradient(f), arguments)
        for f, arguments in (LOOPS[name](20), LOOPS[name](44), LOOPS[name](104))
    )
    assert many <= few
    # Where a backward pass takes up the last step of a short loop, there are kernels of its own.
    assert len(many - fewest) <= 2


@pytest.mark.thorough(every=16)
@pytest.mark.usefixtures("loops_stay_steps")
@pytest.mark.parametrize("name", LOOPS)
def test_more_steps_lower_nothing_again(name, monkeypatch):
    """Which row a step reads or writes is no part of a segment."""
    f, arguments = LOOPS[name](104)
    sources_by_jit(gradient(f), arguments)
    lowered = []
    compile_segment = pipeline.compile_segment

    def counting(*args, **kwargs):
        lowered.append(1)
        return compile_segment(*args, **kwargs)

    monkeypatch.setattr(pipeline, "compile_segment", counting)
    f, arguments = LOOPS[name](152)
    sources_by_jit(gradient(f), arguments)
    # What reads the whole of a stack or of data, such as their difference, knows their size.
    assert len(lowered) <= 10


IN_ANOTHER_PROCESS = """
import sys
import numpy as np
import numba_grad as ng
from numba_grad.compiler import plan_cache
from numba_grad.compiler.building import build, engine_build
from tests.compiler.loops_as_written import LOOPS

def not_compiled(requests):
    return [build.LoadedKernel(0, x.source, x.key, x.entry_name, x.signature) for x in requests]

def sums_of_many(x):
    # What repeats nowhere, so that its cuts are found by content.
    for k in range(700):
        x = np.sin(x) * (k % 7) if k * k % 11 < 4 else x[::-1] + k * x
    return x.sum()

engine_build.build_requests = not_compiled
plan_cache.key_of = lambda graph, target: None
programs = {name: LOOPS[name](24) for name in ("rows_of_a_buffer", "heat_by_rolls", "sines")}
programs["sums_of_many"] = sums_of_many, (np.ones(20),)
for name in sys.argv[1:]:
    f, arguments = programs[name]
    kernels = ng.jit(ng.value_and_grad(f, argnums=(0,))).lower(*arguments).kernels
    print(name, *sorted(build.KernelRequest(kernel.source).key for kernel in kernels))
"""


@pytest.mark.thorough
def test_kernels_depend_on_the_program_alone():
    """Not on what the process compiled before, or on the seed of Python's hashes."""
    names = ["rows_of_a_buffer", "heat_by_rolls", "sines", "sums_of_many"]
    found = [
        run_python(IN_ANOTHER_PROCESS, *order, PYTHONHASHSEED=seed).splitlines()
        for seed, order in (("1", names), ("2", names[::-1]))
    ]
    assert len(found[0]) == len(names)
    assert found[0] == found[1][::-1]


@pytest.mark.usefixtures("loops_stay_steps")
@pytest.mark.parametrize(("few", "many"), [(25, 38), (60, 76)])
def test_nor_does_a_call_make_one_kernel_of_a_loop(few, many, sources_by_run):
    """A jitted function of up to 600 operations is one node of the graph of its gradient: kernels
    are as long for any number of steps."""

    def lengths(steps):
        @ng.jit
        def likelihood(rates, seen):
            state = np.log(rates)
            for k in range(steps):
                moved = state[:, None] + rates
                largest = np.max(moved, axis=0)
                sums = np.sum(np.exp(moved - largest), axis=0)
                state = np.log(sums) + largest - rates * seen[k] ** 2
            return np.sum(state)

        arguments = np.array([0.5, 0.2]), np.linspace(0.0, 1.0, steps)
        return sorted(
            source.count("\n") for source in sources_by_run(gradient(likelihood), arguments)
        )

    assert lengths(few) == lengths(many)
    assert max(lengths(few)) <= 200


SMALL = {
    "sum": lambda x: np.sum(np.sin(x) * x[0]),
    "variance": lambda x: np.var(x),
    "softmax": lambda x: np.sum(np.exp(x - np.max(x, axis=1, keepdims=True))[:, 0]),
    "cubes": lambda x: np.sum(np.where(x > 0.5, x**3, -x)),
    "pairs": lambda x: np.sum(1.0 / (1.0 + np.sum((x[:, None] - x) ** 2, axis=-1))),
}


@pytest.mark.parametrize("name", SMALL)
def test_small_arrays_make_no_long_kernels(name):
    """30 elements were 30 copies of each line."""
    sources = sources_by_jit(gradient(SMALL[name]), [np.linspace(0.0, 1.0, 30).reshape(6, 5)])
    assert sum(source.count("\n") for source in sources) <= 160


def test_small_systems_are_written_out():
    """A rotation of three coordinates is one kernel without a loop."""

    def rotated(angle, v):
        c, s = np.cos(angle), np.sin(angle)
        return np.stack([c * v[0] - s * v[1], s * v[0] + c * v[1], v[2]])

    (source,) = sources_by_jit(rotated, [0.3, np.ones(3)])
    assert "for " not in source


def turned(x):
    """Three numbers that change places in each step, and all that they have been."""
    states = []
    for _ in range(11):
        x = np.concatenate([x[1:], x[:1]]) * 0.9
        states.append(x)
    return (np.stack(states) ** 2).sum()


@pytest.mark.parametrize("transform", [lambda f: f, gradient], ids=["value", "gradient"])
def test_a_loop_looks_a_few_steps_back_into_small_states(transform):
    """To the start of `turned` it doubled in length with each step: 12,900 lines."""
    sources = sources_by_jit(transform(turned), [np.linspace(0.1, 1.0, 3)])
    assert max(source.count("\n") for source in sources) <= LONGEST


def joined_parts(matrix, x, steps=8):
    """Parts of one element, joined with others over and over; all states at once in a loop."""
    before, state, states = x, x, []
    for _ in range(steps):
        mixed = np.concatenate([before[2:], np.tanh(matrix @ state)[:2]])
        before = np.concatenate([before[2:], before[:2]])
        state = np.concatenate([mixed[2:], mixed[:2]])
        states.append(state)
    together = np.sum(np.stack(states) ** 2) + np.sum(np.concatenate(states) ** 3)
    return together + np.sum(before * mixed)


@pytest.mark.parametrize("transform", [lambda f: f, gradient], ids=["value", "gradient"])
def test_parts_of_one_element_are_found_while_compiling(transform):
    """At the index of a loop, each of them was a choice between all that it was made of: twice the
    lines for each step, 74,000 in one kernel of 7 steps."""
    sources = sources_by_jit(transform(joined_parts), [np.eye(3), np.linspace(0.1, 1.0, 3)])
    assert max(source.count("\n") for source in sources) <= LONGEST


def test_where_a_step_finds_its_values_in_a_block_makes_no_other_kernel():
    """Forward, several steps are one segment, which leaves small values of all of them."""

    def attracted(x):
        v = 0.0 * x
        for _ in range(8):
            forces = []
            for i in range(3):
                force = np.zeros(2)
                for j in range(3):
                    if i != j:
                        d = x[j] - x[i]
                        force = force + d / (d @ d + 0.1) ** 1.5
                forces.append(force)
            v = v + 0.05 * np.stack(forces)
            x = x + 0.1 * v
        return (x * x).sum()

    x = np.linspace(0.0, 1.0, 6).reshape(3, 2) ** 2
    sources = sources_by_jit(gradient(attracted), [x])
    alike = Counter(re.sub(r"\[\d+\]", "[]", source) for source in sources)
    assert max(alike.values()) <= 2


def by_slice(image, i, j):
    return image[i : i + 28, j : j + 28]


def by_roll(image, i, j):
    return np.roll(image, (2 - i, 2 - j), axis=(0, 1))


def of_padded(image, i, j):
    return np.pad(image, 2)[i : i + 32, j : j + 32]


@pytest.mark.parametrize("window", [by_slice, by_roll, of_padded])
def test_what_products_in_many_windows_share_is_computed_once(window):
    """The cotangent of the filtered image was computed anew for each of 25 windows."""

    def filtered(image, weights):
        total = 0.0
        for i in range(5):
            for j in range(5):
                total = total + weights[i, j] * window(image, i, j)
        return np.sum(np.maximum(total, 0.0) ** 2)

    rng = np.random.default_rng(0)
    image, weights = rng.normal(size=(32, 32)), rng.normal(size=(5, 5))
    sources = sources_by_jit(gradient(filtered), [image, weights])
    assert sum(source.count("maximum(") for source in sources) <= 2


def around(u):
    return np.roll(u, 1, 0) + np.roll(u, -1, 0) + np.roll(u, 1, 1) + np.roll(u, -1, 1)


def v_cycle(u, f, h=1.0):
    """Of multigrid, on a torus."""

    def relaxed(u):
        return u + 0.8 * ((around(u) + h**2 * f) / (4 + h**2) - u)

    def to_the_left(x, axis):
        return x + np.roll(x, -1, axis)

    u = relaxed(relaxed(u))
    if len(f) > 24:
        residual = f - u + (around(u) - 4 * u) / h**2
        # Weights of 4, 2 and 1 over 16: what is read at nine places.
        rows = (to_the_left(residual, 0) + np.roll(to_the_left(residual, 0), 1, 0)) / 4
        coarse = ((to_the_left(rows, 1) + np.roll(to_the_left(rows, 1), 1, 1)) / 4)[::2, ::2]
        correction = v_cycle(0.0 * coarse, coarse, 2 * h)
        u = u + np.repeat(np.repeat(correction, 2, axis=0), 2, axis=1)
    return relaxed(relaxed(u))


def test_what_several_kernels_read_at_several_places_is_computed_by_one():
    """On a coarse grid each step of the smoother restricted the residual anew."""
    u, f = np.random.default_rng(0).normal(size=(2, 96, 96))
    sources = sources_by_jit(gradient(lambda u, f: np.sum(v_cycle(u, f) ** 2)), [u, f])
    assert sum(source.count("\n") for source in sources) <= 4_500  # 6,234 of them


def cells(w, v, b, x, size=8):
    """Long short-term memory, with all outputs stacked."""

    def sigmoid(z):
        return 1 / (1 + np.exp(-z))

    h, c, outputs = np.zeros(size), np.zeros(size), []
    for k in range(len(x)):
        z = w @ x[k] + v @ h + b
        c = sigmoid(z[:size]) * c + sigmoid(z[size : 2 * size]) * np.tanh(z[2 * size : -size])
        h = sigmoid(z[-size:]) * np.tanh(c)
        outputs.append(h)
    return np.sum(np.stack(outputs) ** 2)


def test_functions_of_small_vectors_are_loops():
    """The gates of eight cells were written out, in kernels of up to 476 lines."""
    random = np.random.default_rng(0)
    shapes = (32, 3), (32, 8), (32,), (10, 3)
    sources = sources_by_jit(gradient(cells), [random.normal(size=shape) for shape in shapes])
    lengths = [source.count("\n") for source in sources]
    assert max(lengths) <= 120
    assert sum(lengths) <= 1_000  # 1,586 of them


def test_components_of_a_few_rows_are_written_out():
    """As those of many rows: a loop of three passes within other loops keeps these from being
    vector code."""

    def f(x):
        d = x[None] - x[:, None]
        return np.sum(1 / (np.sum(d * d, axis=-1) + 0.1))

    loops = {}
    for rows in (10, 40):
        kernels = ng.jit(ng.grad(f)).lower(np.ones((rows, 3))).kernels
        loops[rows] = max(kernel.source.count("for ") for kernel in kernels)
    assert loops[10] == loops[40]


def lattice(f, tau, steps=10):
    """A lattice Boltzmann method, whose nine velocities are the last axis."""
    x, y = np.array([0, 1, 0, -1, 0, 1, -1, -1, 1]), np.array([0, 0, 1, 0, -1, 1, 1, -1, -1])
    weights = np.array([4 / 9] + [1 / 9] * 4 + [1 / 36] * 4)
    for _ in range(steps):
        f = np.stack([np.roll(f[:, :, k], (y[k], x[k]), axis=(0, 1)) for k in range(9)], axis=2)
        rho = np.sum(f, 2)
        u, v = np.sum(f * x, 2) / rho, np.sum(f * y, 2) / rho
        along = 3 * (u[:, :, None] * x + v[:, :, None] * y)
        equal = 1 + along + along**2 / 2 - 1.5 * (u**2 + v**2)[:, :, None]
        f = f - (f - rho[:, :, None] * weights * equal) / tau
    return np.sum(np.sum(f * x, 2) ** 2)


def test_short_axes_within_each_other_are_not_all_written_out():
    """16 rows that each read nine components were written out, in a kernel of 3,302 lines."""
    f = 0.1 + np.random.default_rng(0).random((16, 40, 9))
    sources = sources_by_jit(gradient(lattice), [f, np.array(0.6)])
    lengths = [source.count("\n") for source in sources]
    assert max(lengths) <= 500
    assert sum(lengths) <= 3_000  # 10,257 of them


def log_of_factors(a):
    """Of the diagonal of a Cholesky factor, column by column."""
    a, total = a * 1.0, 0.0
    for k in range(len(a)):
        pivot = np.sqrt(a[k, k])
        column = a[k + 1 :, k] / pivot
        a[k + 1 :, k + 1 :] -= np.outer(column, column)
        total = total + np.log(pivot)
    return total


def test_long_expressions_are_not_written_out_for_each_of_four_columns():
    def reflected(speeds, angles):
        rays = np.sin(angles.astype(complex))[:, None]
        for k in range(6):
            rays = np.cos(np.arcsin(rays * speeds[1:] / speeds[:-1])) + k * rays
        return np.sum(np.abs(rays) ** 2)

    sources = sources_by_jit(gradient(reflected), (np.ones(50), np.ones(4)))
    assert sum(source.count("\n") for source in sources) <= 500  # 2,550 of them


def test_steps_over_ever_shorter_rows_share_kernels():
    """Rows of up to 16 elements are loops as longer ones are, where there are such of all lengths:
    not 76 kernels, one of each length."""
    f = ng.value_and_grad(log_of_factors)
    assert len(sources_by_jit(f, [np.eye(16)])) < 40


def test_a_nest_that_is_too_long_is_not_written(monkeypatch):
    """3,302 lines took longer to write than all that they were given up for."""
    written = []

    def lines(kernel):
        text = emit(kernel)
        written.append(text.count("\n"))
        return text

    emit = emit_cpu.emit
    monkeypatch.setattr(emit_cpu, "emit", lines)
    f = 0.1 + np.random.default_rng(0).random((16, 45, 9))
    sources_by_jit(gradient(lattice), [f, np.array(0.6)])
    assert written
    assert max(written) <= 1_200


def pooled(x):
    rows = np.maximum(x[::2], x[1::2])
    return np.maximum(rows[:, ::2], rows[:, 1::2])


def pooled_at_once(x):
    return np.maximum(
        np.maximum(x[::2, ::2], x[1::2, ::2]), np.maximum(x[::2, 1::2], x[1::2, 1::2])
    )


@pytest.mark.parametrize("pool, most", [(pooled, 0), (pooled_at_once, 8)])
def test_the_places_of_every_other_element_are_looked_for_once(pool, most):
    """Of a cotangent in a cotangent, rather than at each of its elements again."""

    def loss(x):
        return np.sum(pool(np.tanh(pool(np.tanh(x)))) ** 2)

    found = [source.count("%") for source in sources_by_jit(ng.grad(loss), [np.ones((80, 80))])]
    assert max(found) == most
