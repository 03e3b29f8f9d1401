"""Stacks of more windows than an axis is unrolled for are computed in parts, and never stored."""

import numpy as np
import pytest

import numba_grad as ng

random = np.random.default_rng(0)
U = random.normal(size=(44, 52))
W = random.normal(size=25)
OFFSETS = [(i, j) for i in range(5) for j in range(5)]


def stack(u, axis=0):
    return np.stack([u[i : i + 40, j : j + 48] for i, j in OFFSETS], axis=axis)


def rolled(u):
    return np.stack([np.roll(u, offset, (0, 1)) for offset in OFFSETS])


def by_loop(u, w):
    return sum(w[k] * u[i : i + 40, j : j + 48] for k, (i, j) in enumerate(OFFSETS))


# Of an array and of weights, with the same in other words.
WAYS = {
    "sum": (lambda u, w: np.sum(stack(u) * w.reshape(-1, 1, 1), axis=0), by_loop),
    "einsum": (lambda u, w: np.einsum("kij,k->ij", stack(u), w), by_loop),
    "tensordot": (lambda u, w: np.tensordot(w, stack(u), 1), by_loop),
    "before a vector": (lambda u, w: stack(u, axis=-1) @ w, by_loop),
    "in the middle": (lambda u, w: np.sum(stack(u, axis=1) * w[:, None], axis=1), by_loop),
}


def value_and_gradients(f):
    return ng.jit(ng.value_and_grad(lambda u, w: np.sum(np.sin(f(u, w))), argnums=(0, 1)))


@pytest.mark.parametrize("name", WAYS)
@pytest.mark.thorough(every=5)
def test_stacks_of_windows_are_not_stored(name):
    f, other = WAYS[name]
    lowered = ng.jit(f).lower(U, W)
    assert lowered.peak_memory <= 2 * U.nbytes
    gradients = value_and_gradients(f)
    value, found = gradients(U, W)
    expected_value, expected = value_and_gradients(other)(U, W)
    np.testing.assert_allclose(value, expected_value, rtol=1e-12)
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-10, atol=1e-12)
    assert gradients.lower(U, W).peak_memory <= 4 * U.nbytes


# What is not a weighted sum of windows: in a few parts, or as a whole, where somebody reads it so.
OTHERS = {
    "largest": lambda u, w: np.max(stack(u), axis=0),
    "smallest": lambda u, w: np.min(stack(u) + w[:, None, None], axis=0),
    "mean": lambda u, w: np.mean(stack(u), axis=0),
    "variance": lambda u, w: np.var(stack(u), axis=0),
    "sums of windows": lambda u, w: np.sum(stack(u) * np.sin(w)[:, None, None], axis=(1, 2)),
    "sums of rows": lambda u, w: np.sum(stack(u) * w[:, None, None], axis=1),
    "all": lambda u, w: np.sum(stack(u) * w[:, None, None]),
    "one of them": lambda u, w: (np.exp(stack(u)) * w[:, None, None])[7],
    "read as a whole": lambda u, w: np.sort(stack(u), axis=0)[12] + np.sum(stack(u), axis=0),
    "returned as a whole": lambda u, w: stack(u) * w[:, None, None],
    "a product of matrices": lambda u, w: stack(u).reshape(25, -1).T @ np.stack([w, w * w], axis=1),
    "divided by their sum": lambda u, w: np.sum(stack(u) / (1 + np.sum(stack(u) ** 2, 0)), axis=0),
    "windows with as many columns": lambda u, w: np.sum(
        np.stack([u[i : i + 30, j : j + 25] for i, j in OFFSETS]) * w[:, None, None] * w, axis=0
    ),
    "stacks of stacks": lambda u, w: np.sum(
        np.stack([np.stack([u[k, i : i + 30] for i in range(18)]) for k in range(17)]), axis=(0, 1)
    ),
    "rolls": lambda u, w: np.sum(rolled(u) * w[:, None, None], axis=0),
    "transposed": lambda u, w: np.sum(stack(u).T * w.reshape(1, 1, -1), axis=2).T,
    "images with channels": lambda u, w: np.tensordot(w, stack(u[:, :, None] * w[:3]), 1),
    "two stacks": lambda u, w: np.sum(stack(u) * stack(np.cos(u)) * w[:, None, None], axis=0),
    "complex": lambda u, w: abs(np.sum(stack(u * (1 + 2j)) * w[:, None, None], axis=0)),
}


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.thorough
def test_whatever_is_made_of_stacks(name):
    f = OTHERS[name]
    np.testing.assert_allclose(ng.jit(f)(U, W), f(U, W), rtol=1e-11, atol=1e-12)
    value, found = value_and_gradients(f)(U, W)
    with ng.configure(engine="reference"):
        expected_value, expected = value_and_gradients(f)(U, W)
    np.testing.assert_allclose(value, expected_value, rtol=1e-12)
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-10, atol=1e-12)


@pytest.mark.usefixtures("not_compiled")
@pytest.mark.parametrize("name", ["largest", "variance"])
def test_windows_of_what_is_not_linear_are_read_where_they_are(name):
    """Also by the derivative, which stores what each of them gets at most, and copies none."""
    gradient = ng.jit(ng.grad(lambda u: np.sum(OTHERS[name](u, W) ** 2)))
    lowered = gradient.lower(U)
    assert not any("reshape" in kernel.name for kernel in lowered.kernels)
    assert lowered.peak_memory <= 28 * U.nbytes


def test_bits_of_stacks_do_not_depend_on_threads():
    gradients = value_and_gradients(WAYS["sum"][0])
    u = random.normal(size=(44, 52))
    found = []
    for threads in (1, 2):
        with ng.configure(threads=threads):
            found.append([gradients(u, W)[0], *gradients(u, W)[1]])
    for x, y in zip(*found, strict=True):
        assert np.array_equal(x, y)
