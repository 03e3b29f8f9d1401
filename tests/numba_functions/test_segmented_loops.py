"""Tapes within a budget: the same bits, however often passes are done again."""

import math

import numba
import numpy as np
import pytest

import numba_grad as ng
from numba_grad.compiler.numba_functions import tape_bound
from numba_grad.config import configure
from numba_grad.errors import KernelError
from numba_grad.frontend.own_functions.differentiable import DerivedKernel, _float_sources
from tests.numba_functions.generator import random_program
from tests.numba_functions.programs import PROGRAMS
from tests.numba_functions.test_random_programs import compiled, is_tame

UNLIMITED = 1 << 50
ENGINES = ["reference", pytest.param("native", marks=pytest.mark.thorough)]


def sweep(u, f, h, steps):
    for _ in range(steps):
        for i in range(1, u.shape[0] - 1):
            u[i] = 0.5 * (u[i - 1] + u[i + 1] - h * h * f[i]) + 0.01 * math.sin(u[i]) * u[i]


def swapped(u, c, steps):
    v = np.zeros_like(u)
    for _ in range(steps):
        for i in range(1, u.shape[0] - 1):
            v[i] = u[i] + c[i] * (u[i - 1] - 2 * u[i] + u[i + 1]) + 0.1 * math.sin(u[i]) ** 2
        u, v = v, u
    return (u**2).sum()


def cube_root(a, x):
    n = 0
    while abs(x * x * x - a) > 1e-12:
        x = x - (x * x * x - a) / (3 * x * x)
        n += 1
        if n > 50:
            break
    return x


def downwards(x, n):
    s = 0.0
    t = 1.0
    for k in range(n, 0, -3):
        t = math.sin(t * x[k % x.shape[0]]) + 0.1 * k
        s += t * t
    return s


def branches(u, n):
    count = 0
    for k in range(2, n):
        if u[k % 4] > 0.3:
            u[k % 4] = math.tanh(u[k % 4] * u[(k + 1) % 4]) + 0.2
            count += 1
        else:
            u[k % 4] = math.exp(-u[k % 4]) - 0.1
    return count * u[0]


def overwritten_after(u, w, n):
    s = 0.0
    for k in range(n):
        s = s * w[k % 3] + u[k % 4] ** 2
    for k in range(3):
        w[k] = 0.0
    return s


RANDOM = np.random.default_rng(3)
CASES = [
    (sweep, (RANDOM.random(12), RANDOM.random(12), 0.3, 40), 3000),
    (swapped, (RANDOM.random(10), 0.1 * RANDOM.random(10), 30), 3000),
    (cube_root, (2.7, 1.0), 100),
    (downwards, (RANDOM.random(5), 50), 100),
    (branches, (RANDOM.random(4), 60), 800),
]


def gradients(f, arguments, memory):
    operation = ng.differentiable(f, memory=memory)

    def total(*args):
        results = operation(*args)
        results = results if isinstance(results, tuple) else (results,)
        return sum(np.sum(np.cos(x)) for x in results if x.dtype.kind == "f")

    sources = [k for k, x in enumerate(arguments) if np.asarray(x).dtype.kind == "f"]
    found = ng.grad(total, argnums=sources)
    second = ng.grad(lambda *a: sum(np.sum(g * g) for g in found(*a)), argnums=sources)
    return found, second, operation


def are_same(first, second):
    return all(np.array_equal(a, b, equal_nan=True) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize(
    "engine", ["reference", pytest.param("native", marks=pytest.mark.thorough)]
)
@pytest.mark.parametrize(("f", "arguments", "memory"), CASES)
def test_parts_that_are_done_again_have_the_same_bits(f, arguments, memory, engine):
    with configure(engine=engine):
        whole, second_of_whole, _ = gradients(f, arguments, UNLIMITED)
        parts, second_of_parts, operation = gradients(f, arguments, memory)
        assert are_same(whole(*arguments), parts(*arguments))
        assert operation.tape_bytes(*arguments) > memory / 2 or f is cube_root
        for a, b in zip(second_of_whole(*arguments), second_of_parts(*arguments), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)


def test_no_pass_is_done_again_from_what_was_overwritten():
    arguments = np.ones(4), np.full(3, 0.5), 20
    with configure(engine="reference"):
        whole, _, _ = gradients(overwritten_after, arguments, UNLIMITED)
        parts, _, _ = gradients(overwritten_after, arguments, 64)
        assert are_same(whole(*arguments), parts(*arguments))


@pytest.mark.thorough(every=2)
@pytest.mark.parametrize("seed", range(4))
def test_random_programs_within_little_memory(seed):
    program = random_program(seed)
    if not is_tame(program):
        pytest.skip("not tame")
    arguments = program.arguments()
    with configure(engine="reference"):
        whole, _, _ = gradients(compiled(program), arguments, UNLIMITED)
        try:
            expected = whole(*arguments)
        except KernelError:
            pytest.skip("refused")
        for memory in (2000, 300, 40):
            try:
                found = gradients(compiled(program), arguments, memory)[0](*arguments)
            except MemoryError:
                break
            assert are_same(found, expected), memory


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_states_that_do_not_fit_say_how_many_bytes_there_were(engine):
    u = np.linspace(0.0, 1.0, 100)
    found, _, operation = gradients(sweep, (u, u, 0.1, 300), 1000)
    with (
        configure(engine=engine),
        pytest.raises(MemoryError, match=r"sweep: .*1000 bytes.*memory=.*tape_bytes"),
    ):
        found(u, u, 0.1, 300)
    with configure(engine=engine):
        assert operation.tape_bytes(u, u, 0.1, 300) > 100 * 300


@pytest.mark.parametrize("memory", ["40 states", "disk:/tmp:4 GB", 0, -1, "much"])
def test_memory_is_a_number_of_bytes(memory):
    with pytest.raises(ValueError, match=r"differentiable: memory(.|\n)*500 MB"):
        ng.differentiable(sweep, memory=memory)


def test_memory_in_words():
    arguments = CASES[0][1]
    words, _, _ = gradients(sweep, arguments, "3 kB")
    number, _, _ = gradients(sweep, arguments, 3000)
    with configure(engine="reference"):
        assert are_same(words(*arguments), number(*arguments))


def bound_and_bytes(function, arguments):
    """The bound of the tape, whether lengths of loops are known, and what it is."""
    operation = ng.differentiable(function)
    found, inputs, numbers = operation._recorded(arguments, {})
    made = found.generated(DerivedKernel("adjoint", 0, _float_sources(found)))
    shapes, values = {}, {}
    for (name, is_number), p in zip(made.inputs, found.parameters, strict=False):
        if is_number:
            values[name] = numbers[len(values)][1]
        else:
            shapes[name] = inputs[len(shapes)].shape
        assert p.is_number == is_number
    nbytes, is_known = tape_bound.most_bytes(made.outline, shapes, values)
    return nbytes, is_known, operation.tape_bytes(*arguments)


@pytest.mark.parametrize("f", [sweep, swapped, cube_root, downwards, branches, overwritten_after])
def test_the_bound_of_a_tape_is_one(f):
    arguments = {case[0]: case[1] for case in CASES}.get(f)
    with configure(engine="reference"):
        most, is_known, nbytes = bound_and_bytes(f, arguments or (np.ones(4), np.ones(3), 20))
    assert is_known == (f is not cube_root)
    assert nbytes == most if f in (sweep, swapped, downwards) else nbytes <= most


@pytest.mark.thorough(but="^(lu|winding|pendulum_rk4|enclosed_volume)$")
@pytest.mark.filterwarnings("ignore::numba.core.errors.NumbaPerformanceWarning")
@pytest.mark.parametrize("name", PROGRAMS)
def test_bounds_of_tapes_of_programs(name):
    program = PROGRAMS[name]
    arguments = program.arguments(program.small)
    if any(np.iscomplexobj(x) for x in arguments):
        pytest.skip("refused")
    with configure(engine="reference"):
        most, _, nbytes = bound_and_bytes(program.function, arguments)
    assert nbytes <= most


def test_code_that_does_parts_again_is_only_where_it_may_be_needed():
    """It takes twice as long to compile."""
    u = np.ones(10)
    operation = ng.differentiable(sweep, memory="1 MB")
    sources = []
    for steps in (5, 1_000_000):
        operation(ng.tensor(u, requires_grad=True), u, 0.1, steps)
        sources.append(operation.adjoint_source)
    assert "is_kept" not in sources[0]
    assert "is_kept" in sources[1]


@numba.njit
def fails_after_swaps(u, steps, last):
    v = np.zeros(u.shape[0])
    for k in range(steps):
        for i in range(u.shape[0]):
            v[i] = u[i] * u[i]
        u, v = v, u
        if k == last:
            raise ValueError("no more")
    return u[0] + v[0]


@pytest.mark.thorough
def test_an_exception_after_an_odd_number_of_swaps_gives_back_what_was_made():
    """By the name that an array has then, the caller's memory would be given back."""
    operation = ng.differentiable(fails_after_swaps)
    u = np.full(300, 0.9)
    for _ in range(20):
        for last in (0, 1):
            with pytest.raises(ValueError, match="no more"):
                ng.grad(lambda u, last=last: operation(u, 5, last)[0])(u)
        assert np.isfinite(np.asarray(ng.grad(lambda u: operation(u, 4, 9)[0])(u))).all()
