"""solve: the adjoint against the exact differential, batching, singular matrices, refusals."""

import re

import numpy as np
import pytest

from numba_grad.compiler.reference_engine import evaluate_with_numpy
from numba_grad.errors import DTypeError, ShapeError
from numba_grad.graph.node import leaf
from numba_grad.ops import elementwise, leaves, reductions  # noqa: F401
from numba_grad.ops.linalg import solve
from numba_grad.transforms.vjp import cotangents, reached


def cases():
    for arrays, _ in solve.example(np.random.default_rng(0)):
        yield pytest.param(*arrays, id=", ".join(str(a.shape) for a in arrays))


@pytest.mark.parametrize("is_complex", [False, True])
@pytest.mark.parametrize(("a", "b"), list(cases()))
def test_adjoint_matches_the_differential(a, b, is_complex):
    rng = np.random.default_rng(1)

    def random_like(x):
        return rng.standard_normal(x.shape) + (
            1j * rng.standard_normal(x.shape) if is_complex else 0
        )

    if is_complex:
        a, b = a + 0.5j * a.mT, b + 1j * random_like(b)
    inputs = [leaf(a, requires_grad=True), leaf(b, requires_grad=True)]
    out = solve(*inputs)
    (x,) = evaluate_with_numpy([out])
    g, da, db = random_like(x), random_like(a), random_like(b)
    found = cotangents([out], [leaf(g)], reached([out]))
    ga, gb = evaluate_with_numpy([found[node] for node in inputs])
    # a x = b, so a dx = db - da x.
    dx = np.linalg.solve(a, db - da @ x) if x.size else x
    np.testing.assert_allclose(np.vdot(g, dx), np.vdot(ga, da) + np.vdot(gb, db), rtol=1e-9)


@pytest.mark.parametrize(("a", "b"), list(cases()))
def test_adjoint_in_b_and_its_adjoint(a, b, check_adjoint):
    check_adjoint(lambda b: solve(leaf(a), b), b, rng=np.random.default_rng(2))


@pytest.mark.parametrize(("a", "b"), list(cases()))
def test_batching_matches_a_loop(a, b, check_batching):
    check_batching(solve, (a, b), {})


def test_singular_matrix_raises(value):
    node = solve(leaf(np.ones((2, 2))), leaf(np.ones((2, 1))))
    with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
        value(node)


@pytest.mark.parametrize(
    ("a", "b", "error", "text"),
    [
        (
            np.ones((2, 3)),
            np.ones((2, 1)),
            np.linalg.LinAlgError,
            "solve: a is not square\n  a : float64[2, 3]\n  b : float64[2, 1]",
        ),
        (np.eye(2), np.ones((3, 1)), ShapeError, "solve: b does not have as many rows as a"),
        (np.eye(2), np.ones(2), ShapeError, "expected: b of shape (..., 2, k)"),
        (
            np.ones((2, 2), np.float16),
            np.ones((2, 2), np.float16),
            DTypeError,
            "solve: not defined for these dtypes",
        ),
        (
            np.ones((3, 2, 2)),
            np.ones((4, 2, 1)),
            ShapeError,
            "solve: stacks of matrices do not broadcast together",
        ),
    ],
)
def test_refusals_name_the_arguments(a, b, error, text):
    with pytest.raises(error, match=re.escape(text)):
        solve(leaf(a), leaf(b))
