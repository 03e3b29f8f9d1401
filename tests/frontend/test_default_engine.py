"""The frontend on the engine in force, end to end; breadth is tested on NumPy's."""

import numpy as np
import pytest

import numba_grad as ng


def test_functions_of_many_families():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((4, 5)), rng.standard_normal((5, 4))
    x, y = ng.tensor(a), ng.tensor(b)
    pairs = [
        (x @ y, a @ b),
        (np.einsum("ij,ji->i", x, y), np.einsum("ij,ji->i", a, b)),
        (np.linalg.solve(x @ y, x), np.linalg.solve(a @ b, a)),
        (np.sort(x, axis=1), np.sort(a, axis=1)),
        (np.roll(x, (1, 2), (0, 1)), np.roll(a, (1, 2), (0, 1))),
        (np.pad(x[::-2], 1, constant_values=2), np.pad(a[::-2], 1, constant_values=2)),
        (np.var(x, axis=0, ddof=1), np.var(a, axis=0, ddof=1)),
        (ng.softmax(x).sum(1), np.ones(4)),
        (np.where(x > 0, x, y.T), np.where(a > 0, a, b.T)),
        (x[[0, 2]][:, x[0] > 0], a[[0, 2]][:, a[0] > 0]),
        (ng.tensor([250], "uint8") + 7, np.array([1], np.uint8)),
        (ng.tensor([5, 3]) // 0, np.array([0, 0])),
    ]
    for ours, expected in pairs:
        assert ours.dtype == expected.dtype
        np.testing.assert_allclose(ours, expected, rtol=1e-10, atol=1e-12)


def test_indices_out_of_range_are_errors_also_when_computed():
    x, i = ng.arange(6.0).reshape(2, 3), ng.tensor([0, 1, 2]) * 2
    with pytest.raises(IndexError) as caught:
        x[:, i].tolist()
    assert "4" in str(caught.value) and "axis" in str(caught.value) and "3" in str(caught.value)
    x[0, i - 3] = 7.0
    assert x.tolist() == [[7.0, 7.0, 7.0], [3.0, 4.0, 5.0]]


def test_indices_of_arrays_without_axes_give_such_arrays():
    x = ng.tensor(1.5)
    for same in (x[()], x[...], np.flip(x)):
        assert bool(same == x)
        assert same.numpy().shape == ()


def test_a_training_loop_with_assignment_in_place():
    target = np.array([1.0, -2.0, 0.5])
    w = ng.zeros(3, requires_grad=True)
    for _ in range(60):
        loss = ((w - target) ** 2).sum()
        loss.backward()
        with ng.no_grad():
            w -= 0.2 * w.grad
        w.grad = None
    np.testing.assert_allclose(w.detach(), target, atol=1e-6)
    # History is released: the chain of updates does not grow.
    assert w.is_leaf and len(w._node.inputs) <= 1
