"""Kernels over the same rows become one step; what is computed stays the same."""

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.compiler.partition import flat_graph
from numba_grad.compiler.steps import cpu_row_chains

ROWS, COLUMNS = 600, 300


@pytest.fixture(autouse=True)
def _small_arrays_count(monkeypatch):
    monkeypatch.setattr(cpu_row_chains, "LEAST_SHARED_BYTES", 1)
    monkeypatch.setattr(cpu_row_chains, "BLOCK_BYTES", 1 << 14)
    # A segment that another test compiled would be taken as it is.
    monkeypatch.setattr(flat_graph, "_table", flat_graph.Signatures())


def rows(shape=(ROWS, COLUMNS)):
    return np.random.default_rng(0).normal(size=shape)


def chains(f, *args):
    """The kernels of each chain of the plan."""
    names = [row.name for row in ng.jit(f).lower(*args).profile(*args, repeats=1)]
    return [name.split()[2:] for name in names if name.startswith("rows of ")]


def normalized(x):
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + 1e-5)


def test_sums_of_rows_and_what_reads_them_are_one_chain():
    (members,) = chains(normalized, rows())
    assert len(members) >= 3


@pytest.mark.parametrize("shape", [(ROWS, COLUMNS), (7, 31, 40), (1, 50, 9), (601, 17)])
def test_values_are_those_without_chains(shape, monkeypatch):
    x = rows(shape)
    found = np.asarray(ng.jit(normalized)(x))
    np.testing.assert_allclose(found, normalized(x), rtol=1e-12, atol=1e-13)
    monkeypatch.setattr(cpu_row_chains, "FEWEST_ROWS", 1 << 60)

    def with_another_result(x, y):  # another graph: plans of the first one are kept
        return normalized(x), y + 1.0

    assert chains(with_another_result, x, np.ones(3)) == []
    unchained, _ = ng.jit(with_another_result)(x, np.ones(3))
    np.testing.assert_array_equal(np.asarray(unchained), found)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_gradients_are_the_same_for_any_number_of_threads(threads):
    x, weights = rows(), rows()[::-1].copy()

    def loss(x, weights):
        return (ng.softmax(normalized(x), axis=1) * weights).sum()

    def gradient(x, weights):
        return ng.grad(loss, argnums=(0, 1))(x, weights)

    assert chains(gradient, x, weights)
    expected = ng.jit(gradient)(x, weights)
    with ng.configure(threads=threads):
        found = ng.jit(gradient)(x, weights)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))
    with ng.configure(engine="reference"):
        reference = gradient(x, weights)
    for a, b in zip(found, reference, strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-9, atol=1e-12)


def test_rows_that_read_their_neighbours_are_not_chained():
    def f(x):
        total = x.sum(axis=1, keepdims=True)
        scaled = x / total
        sums = scaled.sum(axis=1, keepdims=True)
        # Each row needs the sum of the row before: it must not be computed in the same block.
        shifted = np.concatenate([sums[-1:], sums[:-1]])
        return scaled - shifted * x

    x = np.abs(rows()) + 1.0
    scaled = x / x.sum(axis=1, keepdims=True)
    sums = scaled.sum(axis=1, keepdims=True)
    expected = scaled - np.roll(sums, 1, axis=0) * x
    np.testing.assert_allclose(np.asarray(ng.jit(f)(x)), expected, rtol=1e-12)


def test_columns_that_are_read_as_rows_are_not_chained():
    def f(x):
        of_rows = x - x.max(axis=1, keepdims=True)
        return of_rows.sum(axis=1), of_rows.T - of_rows.sum(axis=1)

    x = rows((ROWS, ROWS))
    of_rows = x - x.max(axis=1, keepdims=True)
    first, second = ng.jit(f)(x)
    np.testing.assert_allclose(np.asarray(first), of_rows.sum(axis=1), rtol=1e-12)
    np.testing.assert_allclose(np.asarray(second), of_rows.T - of_rows.sum(axis=1), rtol=1e-12)
