"""What the tests of structural operations share: values by NumPy, and exact checks of adjoints."""

from collections.abc import Callable

import numpy as np
import pytest

from numba_grad.compiler.reference_engine import evaluate_with_numpy
from numba_grad.graph.node import Node, leaf
from numba_grad.transforms.vjp import cotangents, reached

Function = Callable[..., Node]


@pytest.fixture(scope="session")
def value() -> Callable[[Node], np.ndarray]:
    return lambda node: evaluate_with_numpy([node])[0]


def _leaf(array: np.ndarray, requires_grad: bool = False) -> Node:
    return leaf(np.array(array, order="C"), requires_grad)


def _pull_back(out: Node, g: Node, inputs: list[Node]) -> list[Node | None]:
    found = cotangents([out], [g], reached([out]))
    return [found.get(x) for x in inputs]


def _random_like(rng: np.random.Generator, array: np.ndarray) -> np.ndarray:
    result = rng.standard_normal(array.shape)
    if array.dtype.kind == "c":
        result = result + 1j * rng.standard_normal(array.shape)
    return result.astype(array.dtype)


@pytest.fixture(scope="session")
def check_adjoint() -> Callable[..., None]:
    """For a function of nodes that is linear in all of them together, at these arrays.

    Checks <g, A x> == <A* g, x>, and that the adjoint of the adjoint is the function again.
    """

    def check(function: Function, *arrays: np.ndarray, rng: np.random.Generator) -> None:
        inputs = [_leaf(array, requires_grad=True) for array in arrays]
        out = function(*inputs)
        (y,) = evaluate_with_numpy([out])
        g = _random_like(rng, y)
        g_node = _leaf(g, requires_grad=True)
        gradients = _pull_back(out, g_node, inputs)
        # A node that nothing reaches has the cotangent 0.
        values = evaluate_with_numpy([gx for gx in gradients if gx is not None])
        remaining = iter(values)
        total = 0
        for gx, x in zip(gradients, arrays, strict=True):
            if gx is not None:
                gradient = next(remaining)
                assert gradient.shape == x.shape and gradient.dtype == x.dtype
                total += np.vdot(gradient, x)
        np.testing.assert_allclose(total, np.vdot(g, y), rtol=1e-10, atol=1e-12)

        # <A* g, c> pulled back to g is A c: the second derivative of the rules.
        reachable = [(gx, x) for gx, x in zip(gradients, arrays, strict=True) if gx is not None]
        directions = [_random_like(rng, x) for _, x in reachable]
        if not reachable or not any(gx.requires_grad for gx, _ in reachable):
            return
        found = cotangents(
            [gx for gx, _ in reachable],
            [_leaf(direction) for direction in directions],
            reached([gx for gx, _ in reachable]),
        )
        chosen = iter(directions)
        moved = [
            _leaf(next(chosen) if gx is not None else np.zeros_like(x))
            for gx, x in zip(gradients, arrays, strict=True)
        ]
        twice, again = evaluate_with_numpy([found[g_node], function(*moved)])
        np.testing.assert_allclose(twice, again, rtol=1e-10, atol=1e-12)

    return check


@pytest.fixture(scope="session")
def check_batching() -> Callable[..., None]:
    """One record: its batching rule against a loop, for every choice of batched inputs."""

    def check(op, arrays: tuple[np.ndarray, ...], params: dict, size: int = 3) -> None:
        for choice in range(1, 1 << len(arrays)):
            is_batched = [bool(choice >> k & 1) for k in range(len(arrays))]
            stacks = [
                np.stack([_varied(a, k) for k in range(size)]) if batched else a
                for a, batched in zip(arrays, is_batched, strict=True)
            ]
            (result,) = evaluate_with_numpy(
                [op.batch(is_batched, *(_leaf(s) for s in stacks), **params)]
            )
            for k in range(size):
                one = [_leaf(s[k] if b else s) for s, b in zip(stacks, is_batched, strict=True)]
                (expected,) = evaluate_with_numpy([op(*one, **params)])
                np.testing.assert_allclose(result[k], expected, rtol=1e-10, atol=1e-12)

    return check


def _varied(array: np.ndarray, k: int) -> np.ndarray:
    """Another array that is as good an input: shifted numbers, indices in another order."""
    if array.dtype.kind in "iu":
        return np.roll(array, k)
    return array * (1 + 0.25 * k)
