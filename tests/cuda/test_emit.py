"""Emitted kernels, run by the emulator, compute what NumPy does: templates, dtypes, widths."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import numba_grad as ng
from numba_grad.compiler.cuda import index_arithmetic, launch
from tests.compiler import test_random_programs as on_cpu
from tests.cuda.graph_kernels import SITE, GraphRun

# Longer than what is unrolled, and than half a warp, a warp, a block of threads.
SIZES = (1, 17, 31, 33, 260)
TOLERANCES = {"float16": 4e-3, "float32": 2e-6, "complex64": 2e-6}


def check(f, *arrays, tolerance=None):
    """The kernels of `f`, which compute what the reference engine does."""
    run = GraphRun()
    found = run.evaluate(f, *arrays)
    with ng.configure(engine="reference"), np.errstate(all="ignore"):
        results = f(*[ng.tensor(array) for array in arrays])
        expected = [x.numpy() for x in (results if isinstance(results, tuple) else (results,))]
    for value, wanted in zip(found, expected, strict=True):
        assert (value.dtype, value.shape) == (wanted.dtype, wanted.shape)
        if value.dtype.kind not in "fc":
            np.testing.assert_array_equal(value, wanted)
            continue
        bound = TOLERANCES.get(value.dtype.name, 1e-13) if tolerance is None else tolerance
        finite = np.abs(wanted[np.isfinite(wanted)])
        scale = max(1.0, float(finite.max())) if finite.size else 1.0
        np.testing.assert_allclose(value / scale, wanted / scale, rtol=bound, atol=bound)
    return run


def numbers(*shape, dtype=np.float64):
    rng = np.random.default_rng(sum(shape))
    values = rng.normal(size=shape) * 3
    if np.dtype(dtype).kind == "c":
        values = values + 1j * rng.normal(size=shape)
    return values > 0 if dtype is bool else values.astype(dtype)


# Points


@pytest.mark.parametrize("n", SIZES)
def test_elementwise(n):
    check(lambda x, y: (ng.sin(x) * y + x / y, x * x), numbers(n), numbers(n))
    check(lambda x, y: x[:, None] * y[None, :] + 1, numbers(n), numbers(35))


@pytest.mark.parametrize("n", [1, 1000, 1024, 1025, 4000])
def test_several_points_at_once(n):
    x = numbers(n, dtype=np.float32)
    run = check(lambda x: x + 1, x)
    assert n == 1 or "for turn in range(4):" in run.emitted[0].source
    check(lambda x, y: x * y, numbers(n), numbers(n))
    check(lambda x, y: x.T + y, numbers(n, 3), numbers(3, n))
    check(lambda x, y: x & y, numbers(n, dtype=bool), numbers(n, dtype=np.int16) > 1)
    check(lambda x: x * 2, numbers(n, dtype=np.float16))

    def f(x):
        y = x * 2
        y[::2] += 1
        return y

    check(f, x)


@pytest.mark.thorough(but="shape[02]")
@pytest.mark.parametrize("shape", [(33, 20), (50, 70), (17, 32)])
def test_what_is_read_in_another_order(shape):
    x, y = numbers(*shape), numbers(*shape[::-1])
    run = check(lambda x, y: (x.T + y, x.T * x.T), x, y)
    assert "square_" in run.emitted[0].source
    for dtype in (bool, np.float16, np.complex64):
        check(lambda x, y: x.T + y, x.astype(dtype), y.astype(dtype))
    check(lambda x, z: z * x.T[:, None], x, numbers(shape[1], 3, shape[0]))
    check(lambda x, y: ng.exp(x.T - y[::-1]), x, y)


@pytest.mark.thorough(but="order5")
@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_orders_of_axes(order):
    check(lambda x: x.transpose(order) + 1, numbers(18, 19, 33, dtype=np.float32))


@pytest.mark.thorough(but="shape[0-3]")
@pytest.mark.parametrize("shape", [(33, 20), (20, 33), (19, 3), (2, 40), (18, 19, 20)])
def test_stencils(shape):
    def laplacian(x):
        padded = ng.pad(x, 1)
        result = -2 * x.ndim * x
        for axis in range(x.ndim):
            for start in (0, 2):
                region = [slice(1, -1)] * x.ndim
                region[axis] = slice(start, start + x.shape[axis])
                result = result + padded[tuple(region)]
        return result

    check(laplacian, numbers(*shape))
    check(ng.grad(lambda x: (laplacian(x) ** 2).sum()), numbers(*shape))


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x.T * 2,
        lambda x: x[::-1, ::2] + 1,
        lambda x: ng.concatenate([x[:5], 2 * x, x[-7:]]),
        lambda x: ng.concatenate([x, x], axis=1) + 1,
        lambda x: x.reshape(-1)[::-1].reshape(x.shape[::-1]) * 2,
        lambda x: ng.pad(x[:, ::3], ((0, 0), (3, 20))) + 1,
        lambda x: ng.roll(x, 3, axis=1) - ng.roll(x, -1, axis=0),
        lambda x: x + ng.eye(x.shape[0], x.shape[1]),
        lambda x: ng.where(x > 0.3, x, -x),
        ng.grad(lambda x: (x[::2, 1::3] ** 3).sum()),
    ],
)
def test_index_expressions(f):
    check(f, numbers(33, 40))
    check(f, numbers(3, 40))


def test_gathers_and_their_errors():
    x, index = numbers(50), np.arange(-40, 40)
    check(lambda x, i: x[i] * 2.0, x, index % 50)
    run = check(lambda x, i: x[i] * 2.0, x, np.maximum(index, -50))
    assert not run.errors.any()
    run = GraphRun()
    (found,) = run.evaluate(lambda x, i: x[i] * 2.0, x, index + 20)
    assert run.errors[0] == 1 and run.errors[1] == SITE and run.errors[3] == 50
    assert run.errors[2] >= 50
    np.testing.assert_array_equal(found[:70], 2 * x[(index + 20)[:70]])


def test_powers_of_integers_and_their_errors():
    x, y = np.array([2, 3, 5]), np.array([3, 0, 2])
    run = GraphRun()
    (result,) = run.evaluate(lambda x, y: x**y, x, y)
    np.testing.assert_array_equal(result, [8, 1, 25])
    assert not run.errors.any()
    run.evaluate(lambda x, y: x**y, x, np.array([3, -4, 2]))
    assert run.errors.tolist() == [1, SITE, 4, 1]


def test_signed_and_unsigned_integers_are_compared_exactly():
    x, y = np.array([2**53 + 1, -1, 5]), np.array([2**53, 2**64 - 1, 5], np.uint64)
    found = GraphRun().evaluate(lambda x, y: (x > y, y > x, np.equal(x, y)), x, y)
    for result, expected in zip(found, (x > y, y > x, x == y), strict=True):
        np.testing.assert_array_equal(result, expected)


def test_without_loops():
    check(lambda x, y: (x * y.T).sum(axis=0), numbers(3, 4), numbers(4, 3))
    check(lambda x: x * 2, numbers())


# Reductions


@pytest.mark.thorough(every=3)
@pytest.mark.parametrize("shape", [(1000,), (5000,), (17, 300), (300, 17), (40, 3), (19, 20, 21)])
def test_sums_over_every_choice_of_axes(shape):
    x = numbers(*shape)
    axes = range(len(shape))
    for count in range(1, len(shape) + 1):
        for chosen in itertools.combinations(axes, count):
            check(lambda x, chosen=chosen: (x * x).sum(axis=chosen), x)
            check(lambda x, chosen=chosen: (x.T + 1).max(axis=chosen), x)


@pytest.mark.parametrize("n", SIZES)
def test_sums_of_sizes_around_those_of_warps(n):
    for shape in ((n,), (n, 37), (37, n)):
        for axis in range(len(shape)):
            check(lambda x, axis=axis: x.sum(axis=axis), numbers(*shape))


# fmt: off
DTYPES = (bool, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64,
          np.float16, np.float32, np.float64, np.complex64, np.complex128)
# fmt: on


@pytest.mark.thorough(but="^complex64$")
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
def test_dtypes(dtype):
    for shape, axis in (((700,), 0), ((40, 41), 0), ((40, 41), 1), ((2100, 3), 0)):
        x = numbers(*shape, dtype=dtype)
        check(lambda x, axis=axis: x.sum(axis=axis), x)
        check(lambda x: x + x, x)
        check(lambda x, axis=axis: (x.max(axis=axis), x.min(axis=axis)), x)
        check(lambda x, axis=axis: (x.argmax(axis=axis), x.argmin(axis=axis)), x)
    check(lambda x: (x != 0).any(axis=0), numbers(100, 40, dtype=dtype))


def test_functions_of_complex_numbers():
    x, y = np.round(numbers(40, dtype=complex)), np.round(numbers(40, dtype=complex)[::-1])
    y[::3] = x[::3]
    y[1::9] = complex(1, np.nan)
    check(lambda x, y: (x < y, x <= y, x > y, x >= y, ng.maximum(x, y), ng.minimum(x, y)), x, y)
    check(lambda x, y: ng.special.xlogy(x, y + 0.5), x, x[::-1].copy())
    check(lambda x: (ng.special.lambertw(x, 0), ng.special.lambertw(x, -1)), x + 0.25)
    check(lambda x: ng.special.polygamma(3, x), x + 0.25)
    check(ng.grad(lambda x: ng.real(ng.special.lambertw(x)).sum()), x + 0.25)
    check(lambda x: (ng.special.gamma(x), ng.special.erf(x)), x + 0.25)


@pytest.mark.thorough(but="^0$")
@pytest.mark.parametrize("axis", [0, 1])
def test_the_first_extreme_wins_and_the_first_nan_over_all(axis):
    x = np.round(numbers(300, 40))
    x[7] = x[250] = np.nan
    x[:, 3] = -np.inf
    x[:, 4] = np.inf
    x[100, 5:9] = np.nan
    check(lambda x: (x.argmax(axis=axis), x.argmin(axis=axis)), x)
    check(lambda x: (x.argmax(axis=axis), x.argmin(axis=axis)), x[8:90])


def test_results_and_sums_share_a_kernel():
    check(lambda x: (ng.exp(x), ng.exp(x).sum(axis=1)), numbers(40, 50))
    check(lambda x: (ng.exp(x), ng.exp(x).sum(axis=0)), numbers(40, 50))
    check(lambda x: ng.softmax(x, axis=-1), numbers(40, 50))
    check(lambda x: x - x.mean(axis=0), numbers(40, 50))


@pytest.mark.thorough(but="^40$")
@pytest.mark.parametrize("n", [40, 140])
def test_interactions_of_all_pairs(n):
    def energy(x):
        difference = x[:, None] - x[None, :]
        squares = (difference * difference).sum(axis=2) + ng.eye(x.shape[0])
        return (1 / squares**3 - 1 / squares).sum()

    run = check(ng.grad(energy), numbers(n, 3), tolerance=1e-11)
    assert any("tile_" in emitted.source for emitted in run.emitted)
    check(lambda x: (1 / (1 + (x[:, None] - ng.exp(x)[None, :]) ** 2)).sum(axis=1), numbers(n))


def test_few_columns_are_shared_by_more_threads(monkeypatch):
    monkeypatch.setattr(launch, "LONG", 64)
    x = numbers(70, 41)
    run = check(lambda x: (x.sum(axis=0), (x != x).any(axis=0)), x)
    assert "thread // 8" in run.emitted[0].source
    run = check(lambda x: (x[:, :1] - ng.exp(x[:, 1])[None, :]).max(axis=1), x)
    assert "thread // 8" in run.emitted[-1].source and "tile_" in run.emitted[-1].source


def test_empty_sums():
    check(lambda x: x.sum(axis=0), np.zeros((0, 40)))
    check(lambda x: x.sum(axis=1), np.zeros((40, 0)))
    check(lambda x: x.sum(), np.zeros((0, 40)))


def test_parts_do_not_depend_on_the_grid(monkeypatch):
    """A block does several tasks where a grid is at its limit, with the same result."""
    arrays = (numbers(300, 40), numbers(40, 300), numbers(5000))
    functions = (
        lambda x, y, z: x.sum(axis=0),
        lambda x, y, z: x.sum(axis=1),
        lambda x, y, z: (z.sum(), ng.sin(z)),
        lambda x, y, z: (x[:, :1] - y[0]).max(axis=0),
    )
    before = [GraphRun().evaluate(f, *arrays) for f in functions]
    monkeypatch.setattr(launch, "MOST_BLOCKS", 2)
    for f, expected in zip(functions, before, strict=True):
        run = GraphRun()
        for x, y in zip(run.evaluate(f, *arrays), expected, strict=True):
            np.testing.assert_array_equal(x, y)
        assert max(emitted.grid.blocks for emitted in run.emitted) <= 2


@pytest.mark.parametrize("in_memory", [False, True])
def test_parts(in_memory):
    """Enough threads for a device, and what the second kernel combines is not cut again."""
    sizes = (1, 2, 17, 33, 100, 1000, 2**14, 10**5, 10**6, 10**8)
    for kept, summed in itertools.product(sizes, sizes):
        blocks = launch.reduction_blocks(kept, summed, summed, in_memory)
        assert 1 <= blocks <= max(1, summed // 16)
        assert launch.reduction_blocks(kept, blocks, blocks, True) == 1
        if kept == 1:
            assert launch.reduction_blocks(kept, blocks, blocks, False) == 1
        if summed >= 10**6 and kept < 1000:
            assert blocks * kept >= 500
        assert launch.reduction_blocks(kept, summed, 5, in_memory) == 1


def test_rotations_in_long_bodies():
    """Which have one body for all of a row."""

    def f(x):
        left, right = ng.roll(x, 1, 1), ng.roll(x, -2, 1)
        parts = [(left * k + x) * (right - x / k) - left / (k + x * x) for k in range(1, 13)]
        return ng.stack(parts), (parts[0] * parts[3] * ng.roll(x, 3, 1)).sum()

    run = check(f, numbers(20, 40), tolerance=1e-11)
    bodies = [emitted.source for emitted in run.emitted if "first_i1 = i1" in emitted.source]
    assert bodies
    assert all("int32(n0)" in source for source in bodies)


# Widths


def test_indices_beyond_32_bits(monkeypatch):
    """The same kernels with wide indices."""
    narrow = GraphRun()
    functions = [
        lambda x: ng.roll(x, 3, axis=1) * x.T.reshape(x.shape),
        lambda x: x.sum(axis=0),
        lambda x: x.sum(axis=1),
        lambda x: x.sum(),
        lambda x: x.argmax(axis=1),
        lambda x: (x[:, None, 0] - x[None, :, 1]).max(axis=1),
        lambda x: x[(x[:, 0] * 7).astype(int) % 7],  # tested and wrapped
    ]
    for f in functions:
        narrow.evaluate(f, numbers(50, 60))
    assert all("int32(n0)" in emitted.source for emitted in narrow.emitted)
    monkeypatch.setattr(index_arithmetic, "MOST_NARROW", 100)
    for f in functions:
        run = check(f, numbers(50, 60))
        assert not any("int32(n0)" in emitted.source for emitted in run.emitted)


@pytest.mark.parametrize(("n", "width"), [(2**15, "int32"), (2**16, "int64")])
def test_the_width_follows_from_sizes(n, width):
    run = GraphRun(is_run=False)
    x = np.broadcast_to(np.float32(0), (n, n))
    run.evaluate(lambda x: x.T + 1, x)
    (emitted,) = run.emitted
    assert ("int32(n0)" in emitted.source) == (width == "int32")


# Anything

STATEMENTS = on_cpu.STATEMENTS | {
    "largest": lambda a, b: np.maximum(a, b.max(axis=0)) - b.argmax(axis=1)[:, None],
}


@pytest.mark.thorough
@settings(max_examples=25)
@given(on_cpu.programs_of(STATEMENTS, 8), st.booleans())
def test_random_programs(lines, is_differentiated):
    f = on_cpu.loss_of(lines, STATEMENTS)
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, on_cpu.ROWS, on_cpu.COLUMNS))
    check(ng.grad(f) if is_differentiated else f, x, y, tolerance=1e-9)
