"""Loops whose points never meet: one kernel, in which a thread does all steps of a point."""

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.compiler.control_flow import point_loops
from numba_grad.compiler.loop_nests import point_loops as loops_of_nests
from tests.cuda.test_loops_on_gpu import assert_same, on_host

N = 37
RNG = np.random.default_rng(3)
X, V, W = RNG.uniform(0.2, 1.0, (3, N))
ROWS = RNG.uniform(0.2, 1.0, (9, N))
TIMES = np.linspace(0.0, 1.0, 9)


def pendulums(x, v, k, d):
    """Of parameters that all points share, or have one each."""

    def step(c, _):
        x, v = c
        v = v + 0.1 * (-k * np.sin(x) - d * v)
        return (x + 0.1 * v, v), None

    (x, v), _ = ng.scan(step, (x, v), None, length=11)
    return (x * x).sum() + v.sum()


def driven(x, rows, times):
    """With rows of points, and a number of all points for each step."""

    def step(c, row):
        y, t = row
        c = np.cos(c * y) + t * c
        return c, (c, c * t)

    c, (cs, others) = ng.scan(step, x, (rows, times))
    return (c * c).sum() + (cs * others).sum()


def backwards(x, rows):
    c, ys = ng.scan(lambda c, y: (np.sin(c) * y, c + y), x, rows, reverse=True)
    return (c * ys[2]).sum() + ys.sum()


def trajectory(x, v):
    """Results are what is carried on."""

    def step(c, _):
        x, v = c
        c = x + 0.1 * v, v - 0.1 * np.sin(x)
        return c, c

    _, (xs, vs) = ng.scan(step, (x, v), None, length=6)
    return (xs * xs).sum() + (vs[3] * xs[5]).sum()


def with_time(x, v):
    """A number is carried as well, which each thread computes."""

    def step(k, c):
        x, t = c
        return x + 0.1 * np.cos(x * t), t + 0.1 * (k + 1)

    x, t = ng.fori_loop(0, 8, step, (x * v, 0.5))
    return x.sum() * t


def swapped(x, v):
    """What is carried is but what another one was."""
    x, v, w = ng.fori_loop(0, 7, lambda _, c: (c[1], c[2], c[0] * c[1] - 0.5 * c[2]), (x, v, x * v))
    return (x * v * w).sum()


def matrix(x, v):
    """Two axes, and a constant along one of them."""
    scale = v[:5]
    start = x[:, None] * scale[None, :]
    end = ng.fori_loop(0, 6, lambda _, c: np.tanh(c * scale) + 0.1 * c, start)
    return (end * end).sum()


def with_loss(x, v, rows):
    """Steps add up a sum over all points."""

    def step(c, y):
        x, loss = c
        x = np.sin(x) * y
        return (x, loss + ((x - 0.5) ** 2).sum()), None

    (x, loss), _ = ng.scan(step, (x * v, 1.0), rows)
    return loss + x.sum()


def python_loop(x, v, k):
    loss = 0.0
    for step in range(60):
        v = v - 0.05 * (k * np.sin(x) + 0.1 * v * v * v - 0.01 * step)
        x = x + 0.05 * v
        loss = loss + ((x - 0.3) ** 2).sum()
    return loss + (x * v).sum()


def lorenz(x, y, r, b):
    """Each slope reads what all share, and so adds to its gradient."""

    def slope(x, y):
        return y * r - x * y, b - x * b + r * y

    def step(_, state):
        x, y = state
        k, m = slope(x, y), slope(x - 0.02, y)
        k, m = [0.02 * (p + q) for p, q in zip(k, m, strict=True)]
        return x + k, y - m

    x, y = ng.fori_loop(0, 12, step, (x, y))
    return (x * x + y).sum()


PROGRAMS = {
    "of each point": (pendulums, (X, V, W, 0.5 * W)),
    "shared": (pendulums, (X, V, 0.8, 0.1)),
    "shared by slopes": (lorenz, (X, V, np.array(1.3), 0.4)),
    "driven": (driven, (X, ROWS, TIMES)),
    "backwards": (backwards, (X, ROWS)),
    "trajectory": (trajectory, (X, V)),
    "with time": (with_time, (X, V)),
    "swapped": (swapped, (X, V)),
    "matrix": (matrix, (X, V)),
    "with loss": (with_loss, (X, V, ROWS)),
    "python loop": (python_loop, (X, V, 0.7)),
}


@pytest.fixture
def kernels(monkeypatch):
    """How many such loops were made."""
    made = []
    original = point_loops._PointLoop.write

    def write(self):
        made.append(self.loop)
        original(self)

    monkeypatch.setattr(point_loops._PointLoop, "write", write)
    return made


def on_device(arguments, gpu):
    return [ng.tensor(x, device=gpu) if isinstance(x, np.ndarray) else x for x in arguments]


@pytest.mark.thorough(every=4)
@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_gradients(gpu, kernels, name):
    f, arguments = PROGRAMS[name]
    # The cotangent of `times` is a sum over all points in each step.
    wanted = tuple([k for k, x in enumerate(arguments) if x is not TIMES])
    expected = ng.jit(ng.value_and_grad(f, wanted))(*arguments)
    assert not kernels
    found = ng.jit(ng.value_and_grad(f, wanted))
    for _ in range(2):
        assert_same(found(*on_device(arguments, gpu)), expected, rtol=1e-11)
    assert len(kernels) == 2  # forwards and back


@pytest.mark.thorough(but="shared")
@pytest.mark.parametrize("name", PROGRAMS)
def test_second_derivatives_and_tangents(gpu, name):
    f, arguments = PROGRAMS[name]
    arguments = [np.asarray(x) for x in arguments]
    tangents = [np.cos(np.arange(x.size)).reshape(x.shape) for x in arguments]

    def in_direction(*arguments):
        wanted = tuple(range(len(arguments)))
        return ng.jvp(ng.grad(f, wanted), arguments, on_same(tangents, arguments))

    def on_same(arrays, arguments):
        return tuple(ng.tensor(x, device=y.device) for x, y in zip(arrays, arguments, strict=True))

    expected = in_direction(*map(ng.tensor, arguments))
    assert_same(in_direction(*[ng.tensor(x, device=gpu) for x in arguments]), expected, rtol=1e-10)


@pytest.mark.thorough(every=4)
@pytest.mark.parametrize("name", ["shared", "driven", "backwards", "trajectory", "with time"])
def test_several_kernels_of_a_loop_have_the_same_bits(emulated, monkeypatch, name):
    f, arguments = PROGRAMS[name]
    arguments = on_device(arguments, "cuda:0")

    def found():
        return on_host(ng.jit(ng.value_and_grad(f))(*arguments))

    whole = found()
    for most in (1, 3, 4):
        monkeypatch.setattr(point_loops, "_most_steps", lambda loop, most=most: most)
        for x, y in zip(found(), whole, strict=True):
            np.testing.assert_array_equal(x, y)


@pytest.mark.thorough(but="late")
def test_within_a_budget_gradients_have_the_same_bits(emulated):
    x, v = on_device((X, V), "cuda:0")

    def f(k, memory=None):
        def step(c, _):
            x, v = c
            v = v - 0.1 * k * np.sin(x)
            return (x + 0.1 * v, v), None

        (end, _), _ = ng.scan(step, (x, v), None, length=20, memory=memory)
        return (end * end).sum()

    gradient = ng.grad(f)
    whole = gradient(0.7)
    for memory in ("3 states", "7 states"):
        assert float(gradient(0.7, memory)) == float(whole)


DTYPES = ["float16", "float32", "float64", "complex64", "complex128", "int32", "int64", "bool"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes(gpu, kernels, dtype):
    """What is carried is rounded in each step, as in memory."""
    x = np.array([2, 1, 0]).astype(dtype)

    def f(x):
        step = (lambda x: ~x) if dtype == "bool" else lambda x: x * x + x
        return ng.scan(lambda x, _: (step(x), x), x, None, length=3)

    found = ng.jit(f)(ng.tensor(x, device=gpu))
    assert len(kernels) == 1
    state = x
    for row in on_host(found[1])[0]:
        np.testing.assert_array_equal(row, state)
        state = ~state if dtype == "bool" else state * state + state
    assert found[0].dtype == dtype


def test_integers_wrap(gpu):
    x = np.array([2**30, 3], np.int32)
    found = ng.jit(lambda x: ng.fori_loop(0, 9, lambda _, x: x * 3 + 1, x))(
        ng.tensor(x, device=gpu)
    )
    with np.errstate(over="ignore"):
        for _ in range(9):
            x = x * np.int32(3) + np.int32(1)
    np.testing.assert_array_equal(found.cpu().numpy(), x)


@pytest.mark.parametrize(
    "step",
    [
        lambda x: np.roll(x, 1) * 0.5,
        lambda x: x[::-1] + x,
        lambda x: x - 0.1 * x.sum(),
        lambda x: x * x[0],
        lambda x: np.cumsum(x) * 0.1,
    ],
    ids=["neighbours", "flipped", "sum", "first", "sums before"],
)
def test_points_that_meet(gpu, kernels, step):
    def f(x):
        return ng.fori_loop(0, 5, lambda _, x: step(x), x)

    assert_same(ng.jit(f)(ng.tensor(X, device=gpu)), f(X))
    assert not kernels


def test_more_words_than_a_launch_may_have(gpu, kernels, monkeypatch):
    monkeypatch.setattr(loops_of_nests, "MOST_WORDS_OF_A_LAUNCH", 6)
    f, arguments = PROGRAMS["of each point"]
    assert_same(ng.jit(lambda *x: f(*x))(*on_device(arguments, gpu)), f(*arguments))
    assert not kernels


def test_no_points_and_no_steps(gpu):
    x = ng.tensor(np.zeros(0), device=gpu)
    assert ng.jit(lambda x: ng.fori_loop(0, 5, lambda _, x: x + 1, x))(x).shape == (0,)
    y = ng.tensor(X, device=gpu)
    assert_same(ng.jit(lambda x: ng.fori_loop(0, 0, lambda _, x: x + 1, x))(y), X)
