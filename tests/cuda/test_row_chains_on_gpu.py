"""Kernels over the same rows become one kernel, in which threads do a row together."""

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.compiler.cuda import costs, index_arithmetic, launch, row_chains
from numba_grad.compiler.partition import flat_graph
from tests.cuda.emulator import EmulatedDriver
from tests.cuda.host_driver import installed


@pytest.fixture(autouse=True)
def _on_a_gpu(monkeypatch):
    monkeypatch.setattr(flat_graph, "_table", flat_graph.Signatures())  # nothing compiled before
    with installed(EmulatedDriver(late=True)):
        yield


def centred(x):
    """So little to compute that several points are loaded at once."""
    return (x - x.mean(axis=1, keepdims=True)).astype(np.float32)


def normalized(x, scale=1.0, shift=0.0):
    centred = x - x.mean(axis=-1, keepdims=True)
    return (
        centred / ng.sqrt((centred * centred).mean(axis=-1, keepdims=True) + 1e-5) * scale + shift
    )


def gradient_of_normalized(x, scale, shift):
    loss = lambda x, scale, shift: (ng.tanh(normalized(x, scale, shift)) * x).sum()  # noqa: E731
    return ng.grad(loss, argnums=(0, 1, 2))(x, scale, shift)


def cross_entropy(x, weights):
    return ng.value_and_grad(lambda x: -(ng.log_softmax(x, 1) * weights).sum())(x)


def best(x):
    """Sums of other dtypes, positions, tests."""
    share = x / abs(x).sum(1, keepdims=True)
    return share, share.argmax(1), (share > 0.01).sum(1), (x > x.mean(1, keepdims=True)).any(1)


def inner_sums(x):
    """Several results of a row."""
    y = x.reshape(len(x), -1, 20)
    total = x.sum(1)
    return y.sum(1) / total[:, None], (y * y).sum(2) + total[:, None]


# Of long rows, as few as still are one kernel: the emulator takes 10 us for an element.
ROWS = {33: 37, 100: 37, 2100: 17}


def arguments(shape, count):
    rng = np.random.default_rng(0)
    shapes = {1: [shape], 2: [shape, shape], 3: [shape, shape[1:], shape[1:]]}
    return [rng.normal(size=shape) for shape in shapes[count]]


def number_of_members(kernel):
    return kernel.source.count("def member")


def check(f, *arrays):
    """Values are those of the CPU; returns the kernels."""
    jitted = ng.jit(f)
    tensors = [ng.tensor(array, device="cuda") for array in arrays]
    for _ in range(2):
        found = jitted(*tensors)
        expected = jitted(*arrays)
        for x, y in zip(leaves(found), leaves(expected), strict=True):
            np.testing.assert_allclose(x.cpu().numpy(), np.asarray(y), rtol=1e-9, atol=1e-12)
    return jitted.lower(*tensors).kernels


def leaves(values):
    if isinstance(values, tuple | list):
        return [x for value in values for x in leaves(value)]
    return [values]


@pytest.mark.thorough(but="^(normalized|best)-100")
@pytest.mark.parametrize("columns", [33, 100, 2100])
@pytest.mark.parametrize(
    ("f", "count", "members"),
    [
        (centred, 1, 2),
        (normalized, 1, 3),
        (gradient_of_normalized, 3, 5),
        (cross_entropy, 2, 3),
        (best, 1, 2),
    ],
    ids=["centred", "normalized", "gradient of normalized", "cross entropy", "best"],
)
def test_rows_are_one_kernel(f, count, members, columns):
    kernels = check(f, *arguments((ROWS[columns], columns), count))
    assert max(number_of_members(kernel) for kernel in kernels) >= members


def test_several_results_of_a_row(monkeypatch):
    monkeypatch.setattr(row_chains, "MOST_ALONE", 1 << 20)
    (kernel,) = check(inner_sums, *arguments((37, 60), 1))
    assert number_of_members(kernel) >= 3


@pytest.mark.thorough
def test_a_thread_alone_does_short_rows(monkeypatch):
    """What is not unrolled is not that short: as if more were."""
    monkeypatch.setattr(row_chains, "SHORT", 64)
    monkeypatch.setattr(costs, "SHARE_OF_THREADS", 1e-6)  # few threads are as good as many
    (kernel,) = check(normalized, *arguments((700, 33), 1))
    assert number_of_members(kernel) >= 3
    assert "sync" not in kernel.source


@pytest.mark.thorough
@pytest.mark.parametrize("columns", [33, 2100])
def test_more_rows_than_threads_of_the_grid(monkeypatch, columns):
    monkeypatch.setattr(launch, "MOST_BLOCKS", 2)
    (kernel,) = check(normalized, *arguments((ROWS[columns], columns), 1))
    assert number_of_members(kernel) == 3


@pytest.mark.thorough
@pytest.mark.parametrize("columns", [33, 2100])
def test_wide_indices(monkeypatch, columns):
    monkeypatch.setattr(index_arithmetic, "MOST_NARROW", 100)
    (kernel,) = check(normalized, *arguments((ROWS[columns], columns), 1))
    assert "int32(n0)" not in kernel.source


def test_float32_and_float16_rows():
    x = np.random.default_rng(0).normal(size=(37, 100))
    for dtype, tolerance in ((np.float32, 1e-5), (np.float16, 1e-2)):
        found = ng.jit(normalized)(ng.tensor(x.astype(dtype), device="cuda"))
        assert found.dtype == dtype
        expected = normalized(ng.tensor(x.astype(dtype).astype(np.float64))).numpy()
        np.testing.assert_allclose(found.cpu().numpy(), expected, rtol=tolerance, atol=tolerance)


def test_nan_and_infinity_stay_in_their_rows():
    x = np.random.default_rng(0).normal(size=(37, 100))
    x[3, 5], x[7, 9], x[11] = np.nan, np.inf, -np.inf
    found = ng.jit(lambda x: ng.softmax(x, 1))(ng.tensor(x, device="cuda")).cpu().numpy()
    with np.errstate(all="ignore"):
        expected = ng.softmax(ng.tensor(x), 1).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_rows_that_read_their_neighbours_stay_apart():
    def f(x):
        y = x / x.sum(axis=1, keepdims=True)
        return y.sum(axis=1) * ng.roll(y, 1, 0).sum(axis=1)

    x = arguments((37, 100), 1)[0] ** 2
    assert len(check(f, x)) > 1


def shape_of_kernels(shape):
    x = ng.tensor(np.broadcast_to(np.float32(1), shape), device="cuda")
    return [number_of_members(k) for k in ng.jit(normalized).lower(x).kernels]


def test_few_long_rows_keep_the_whole_device_busy():
    """A row of a chain has one block: where rows are few, kernels one after the other, which cut
    them, are faster."""
    assert shape_of_kernels((64, 100)) == [3]
    assert max(shape_of_kernels((20, 1 << 18))) == 0


def test_costs():
    nothing = costs.seconds(0, 0, 1)
    assert nothing == costs.LAUNCH
    of_bytes = costs.seconds(costs.BANDWIDTH, 0, 1e9) - nothing
    assert of_bytes == pytest.approx(1.0)
    assert costs.seconds(0, costs.OPERATIONS, 1e9) - nothing == pytest.approx(1.0)
    assert costs.seconds(costs.BANDWIDTH, 0, 100) - nothing > 100 * of_bytes
