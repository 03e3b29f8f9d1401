"""Sylvester's equation, square roots of matrices, banded systems."""

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from numba_grad.errors import ShapeError, explain
from numba_grad.graph.node import OPS, Node
from numba_grad.graph.types import Type, array_type
from numba_grad.ops.contraction import conjugate_transpose, matmul, matrix_transpose
from numba_grad.ops.elementwise import conjugated
from numba_grad.ops.families import reshape, structural, total
from numba_grad.ops.matrices import block, check_lapack_dtype, check_matrices, same_square
from numba_grad.ops.movement import array_of


def _scipys(name: str) -> Callable[..., Any]:
    return getattr(importlib.import_module("scipy.linalg"), name)


def _check(operation: str, holds: bool, expected: str, **got: Type) -> None:
    if not holds:
        raise ShapeError(explain(operation, "shapes do not fit", got=dict(got), expected=expected))
    check_lapack_dtype(operation, got)


# a x + x b = q


def _infer_solve_sylvester(a: Type, b: Type, q: Type) -> Type:
    for matrix in (a, b):
        check_matrices("solve_sylvester", matrix, square=True)
    fits = q.shape[-2:] == (a.shape[-1], b.shape[-1])
    fits = fits and a.shape[:-2] == b.shape[:-2] == q.shape[:-2]
    _check("solve_sylvester", fits, "(..., n, n), (..., m, m), (..., n, m)", a=a, b=b, q=q)
    return q


def _of_stack(solve: Callable[..., Any], *stacks: np.ndarray) -> np.ndarray:
    result = np.empty_like(stacks[-1])
    for k in np.ndindex(result.shape[:-2]):
        result[k] = solve(*[stack[k] for stack in stacks])
    return result


def _solve_sylvester_reference(a: np.ndarray, b: np.ndarray, q: np.ndarray) -> np.ndarray:
    return q.copy() if q.size == 0 else _of_stack(_scipys("solve_sylvester"), a, b, q)


def _adjoint_of_sylvester(g: Node, a: Node, b: Node) -> Node:
    return solve_sylvester(conjugate_transpose(a), conjugate_transpose(b), g)


def _solve_sylvester_jvp(
    tangents: Sequence[Node | None], out: Node, a: Node, b: Node, q: Node
) -> Node:
    of_a, of_b, of_q = tangents
    change = total(
        [
            of_q,
            None if of_a is None else -matmul(of_a, out),
            None if of_b is None else -matmul(out, of_b),
        ]
    )
    assert change is not None
    return solve_sylvester(a, b, change)


def _sylvester_examples(rng: "np.random.Generator") -> list[Any]:
    shapes = [((3, 3), (2, 2), (3, 2)), ((2, 2, 2), (2, 3, 3), (2, 2, 3)), ((0, 0), (2, 2), (0, 2))]
    return [
        (
            tuple(
                array_of(rng, *s) + (2 * s[-1] * np.eye(s[-1]) if k < 2 else 0)
                for k, s in enumerate(of_one)
            ),
            {},
        )
        for of_one in shapes
    ]


solve_sylvester = structural(
    "solve_sylvester",
    infer=_infer_solve_sylvester,
    reference=_solve_sylvester_reference,
    vjp=(
        lambda g, out, a, b, q: -matmul(_adjoint_of_sylvester(g, a, b), conjugate_transpose(out)),
        lambda g, out, a, b, q: -matmul(conjugate_transpose(out), _adjoint_of_sylvester(g, a, b)),
        lambda g, out, a, b, q: _adjoint_of_sylvester(g, a, b),
    ),
    saves=("inputs", "out"),
    example=_sylvester_examples,
    jvp=_solve_sylvester_jvp,
)


# x x = a


def _sqrtm_of_one(a: np.ndarray) -> np.ndarray:
    root = _scipys("sqrtm")(a) if np.isfinite(a).all() else np.full_like(a, np.nan)
    if np.iscomplexobj(root) and not np.iscomplexobj(a):
        return np.full_like(a, np.nan)
    return root


def _sqrtm_reference(a: np.ndarray) -> np.ndarray:
    return a.copy() if a.size == 0 else _of_stack(_sqrtm_of_one, a)


# The differential of x x = a is Sylvester's equation: Higham, Functions of matrices (2008), 6.1.
def _sqrtm_vjp(g: Node, out: Node, a: Node) -> Node:
    turned = conjugate_transpose(out)
    return solve_sylvester(turned, turned, g)


sqrtm = structural(
    "sqrtm",
    infer=same_square("sqrtm"),
    reference=_sqrtm_reference,
    vjp=(_sqrtm_vjp,),
    saves=("out",),
    example=lambda rng: [
        ((array_of(rng, *shape) + 2 * shape[-1] * np.eye(shape[-1]),), {})
        for shape in ((3, 3), (2, 3, 3), (0, 0), (0, 2, 2))
    ],
    extras={"domain": "regular"},
    jvp=lambda tangents, out, a: solve_sylvester(out, out, tangents[0]),
)


# Banded systems. `bands[upper + i - j, j]` is the element (i, j) of the matrix.


def _infer_solve_banded(bands: Type, b: Type, *, lower: int, upper: int) -> Type:
    fits = bands.rank >= 2 and b.rank >= 2 and bands.shape[-2] == lower + upper + 1
    fits = fits and bands.shape[-1] == b.shape[-2] and bands.shape[:-2] == b.shape[:-2]
    expected = f"(..., {lower + upper + 1}, n), (..., n, k)"
    _check("solve_banded", fits, expected, bands=bands, b=b)
    return array_type(b.shape, b.dtype)


def _solve_banded_reference(
    bands: np.ndarray, b: np.ndarray, *, lower: int, upper: int
) -> np.ndarray:
    if b.size == 0:
        return b.copy()
    solve = _scipys("solve_banded")
    return _of_stack(lambda bands, b: solve((lower, upper), bands, b), bands, b)


def _shifted(x: Node, shift: int) -> Node:
    """Along the last axis, element j + shift in place of j, or 0 where there is none."""
    rank, n = len(x.shape), x.shape[-1]
    first, last = min(n, max(0, shift)), max(0, min(n, n + shift))
    kept = max(0, last - first)
    part = OPS["slice"](
        x,
        starts=(*(0,) * (rank - 1), first if kept else 0),
        sizes=(*x.shape[:-1], kept),
        steps=(1,) * rank,
    )
    low = min(n - kept, max(0, -shift))
    no = (0,) * (rank - 1)
    return OPS["pad"](part, low=(*no, low), high=(*no, n - kept - low), interior=(*no, 0))


def _turned_bands(bands: Node, lower: int, upper: int) -> Node:
    """The diagonals of the conjugate transpose, in their order."""
    n = bands.shape[-1]
    rows = [
        _shifted(block(bands, upper + lower - k, 1, 0, n), k - lower)
        for k in range(lower + upper + 1)
    ]
    return conjugated(OPS["concatenate"](*rows, axis=len(bands.shape) - 2))


def _adjoint_of_banded(g: Node, bands: Node, lower: int, upper: int) -> Node:
    return solve_banded(_turned_bands(bands, lower, upper), g, lower=upper, upper=lower)


def _solve_banded_vjp_bands(
    g: Node, out: Node, bands: Node, b: Node, *, lower: int, upper: int
) -> Node:
    """Of a whole matrix it is the outer product of two solutions, of which the band counts."""
    axis, shape = len(bands.shape) - 2, (*bands.shape[:-2], 1, bands.shape[-1])
    left = matrix_transpose(_adjoint_of_banded(g, bands, lower, upper))
    right = conjugate_transpose(out)
    rows = [
        reshape(OPS["sum"](_shifted(left, k - upper) * right, axes=(axis,)), shape)
        for k in range(lower + upper + 1)
    ]
    return -OPS["concatenate"](*rows, axis=axis)


def _solve_banded_jvp(
    tangents: Sequence[Node | None], out: Node, bands: Node, b: Node, *, lower: int, upper: int
) -> Node:
    of_bands, of_b = tangents
    changed = None if of_bands is None else -_banded_product(of_bands, out, lower, upper)
    change = total([of_b, changed])
    assert change is not None
    return solve_banded(bands, change, lower=lower, upper=upper)


def _banded_product(bands: Node, x: Node, lower: int, upper: int) -> Node:
    """The matrix with these diagonals, times `x`: each is multiplied where it meets x."""
    n = bands.shape[-1]
    columns = matrix_transpose(x)
    terms = [
        _shifted(OPS["multiply"](block(bands, k, 1, 0, n), columns), upper - k)
        for k in range(lower + upper + 1)
    ]
    product = total(terms)
    assert product is not None
    return matrix_transpose(product)


def _banded_examples(rng: "np.random.Generator") -> list[Any]:
    examples = []
    for stack, n, columns, lower, upper in (
        ((), 5, 2, 1, 1),
        ((), 6, 1, 2, 1),
        ((2,), 4, 2, 0, 2),
        ((), 2, 1, 3, 0),
        ((), 3, 0, 1, 1),
        ((), 0, 2, 1, 1),
    ):
        bands = array_of(rng, *stack, lower + upper + 1, n)
        bands[..., upper, :] += 4
        b = array_of(rng, *stack, n, columns)
        examples.append(((bands, b), {"lower": lower, "upper": upper}))
    return examples


solve_banded = structural(
    "solve_banded",
    infer=_infer_solve_banded,
    reference=_solve_banded_reference,
    vjp=(
        _solve_banded_vjp_bands,
        lambda g, out, bands, b, lower, upper: _adjoint_of_banded(g, bands, lower, upper),
    ),
    saves=("inputs", "out"),
    example=_banded_examples,
    jvp=_solve_banded_jvp,
)
