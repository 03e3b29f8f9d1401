"""`np.roll` in kernels: the array is read at other indices, and all rows have one body."""

import itertools

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.graph.node import record
from numba_grad.ops import movement


def body(u, shifts):
    """Rotations of what is in memory, of what is computed, and of rotations."""
    total = u * 0.5
    for shift, axis in shifts:
        moved = np.roll(u, shift, axis)
        total = total + moved * np.roll(np.roll(moved - u, 2 * shift, axis) * u, -1, 1 - axis)
    return total


@pytest.mark.thorough(every=3)
@pytest.mark.parametrize(
    "shifts",
    [[(1, 0)], [(-1, 1)], [(3, 0), (-2, 0)], [(5, 1), (17, 1)], [(-1, 0), (1, 0), (2, 1)]],
    ids=str,
)
def test_values_are_numpys(shifts):
    f = ng.jit(lambda u: body(u, shifts))
    for shape in ((20, 23), (18, 37), (17, 18)):
        u = np.random.default_rng(0).normal(size=shape)
        np.testing.assert_allclose(f(u), body(u, shifts), rtol=1e-14, atol=1e-14)


def test_gradients_are_those_of_index_arrays():
    u = np.random.default_rng(1).normal(size=(19, 24))
    weights = np.random.default_rng(2).normal(size=u.shape)

    def by_roll(u):
        inner = np.sin(np.roll(u, 1, 0)) * np.roll(u, -3, 1)
        return np.sum(weights * np.roll(inner * inner + u, -2, 0))

    def by_index(u):
        rows, columns = np.arange(19), np.arange(24)
        inner = np.sin(u[(rows - 1) % 19]) * u[:, (columns + 3) % 24]
        return np.sum(weights * (inner * inner + u)[(rows + 2) % 19])

    found = ng.jit(ng.grad(by_roll))(u)
    with ng.configure(threads=1):
        assert np.array_equal(found, ng.jit(ng.grad(by_roll))(u))
    np.testing.assert_allclose(found, ng.grad(by_index)(u), rtol=1e-12, atol=1e-12)


def test_rows_at_the_rim_have_no_body_of_their_own():
    def step(u):
        around = sum(np.roll(u, shift, axis) for shift, axis in itertools.product((-1, 1), (0, 1)))
        return u + 0.1 * (around - 4 * u) * np.roll(u * u, 1, 0)

    f = ng.jit(ng.value_and_grad(lambda u: np.sum(step(step(u)) ** 2)))
    kernels = f.lower(np.ones((30, 40))).kernels
    assert any("select" in kernel.source for kernel in kernels)
    assert not any("else:" in kernel.source for kernel in kernels)
    # What is rotated back is where it was: the state is read once there.
    [kernel] = (
        ng.jit(lambda u: u * np.roll(np.roll(u, 1, 0), -1, 0)).lower(np.ones((30, 40))).kernels
    )
    assert kernel.source.count(" = x1[") + kernel.source.count(" = x0[") == 1


def test_all_parts_of_long_rows_have_one_body():
    def step(u):
        left, right = np.roll(u, 1, 1), np.roll(u, -2, 1)
        sums = [(left * k + u) * (right - u / k) - left / (k + u * u) for k in range(1, 13)]
        return np.stack(sums)

    u = np.random.default_rng(3).normal(size=(20, 40))
    f = ng.jit(step)
    long = max((kernel.source for kernel in f.lower(u).kernels), key=len)
    assert "for part in range(0, 3):" in long
    assert long.count("for i1 in range") == 1
    for part in (u, u[:, 5:35], u[:, :9]):
        np.testing.assert_allclose(f(part), step(part), rtol=1e-12)


def test_only_all_of_an_array_in_its_order_is_a_rotation():
    x = ng.tensor(np.arange(12.0).reshape(3, 4))._node

    def joined(*parts, axis=1, of=(x, x)):
        slices = [
            record(movement.slice_, (y,), {"starts": a, "sizes": n, "steps": s})
            for y, (a, n, s) in zip(of, parts, strict=True)
        ]
        return movement.rotation_of(record(movement.concatenate, tuple(slices), {"axis": axis}))

    end, beginning = ((0, 1), (3, 3), (1, 1)), ((0, 0), (3, 1), (1, 1))
    assert joined(end, beginning) == (x, 1)
    assert joined(beginning, end) is None
    assert joined(end, ((0, 1), (3, 1), (1, 1))) is None
    assert joined(end, end) is None
    assert joined(((0, 0), (3, 2), (1, 2)), ((0, 2), (3, 2), (1, 1))) is None
    other = ng.tensor(np.ones((3, 4)))._node
    assert joined(end, beginning, of=(x, other)) is None
