"""Linear systems, solved by LAPACK: stacks of matrices, the matrix axes last."""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from numba_grad.errors import explain
from numba_grad.graph.node import OPS, Node
from numba_grad.graph.types import CPU, Type, array_type
from numba_grad.ops.contraction import broadcast_stacks, conjugate_transpose, matmul
from numba_grad.ops.families import (
    aligned,
    batch_aligned,
    broadcast_to,
    reshape,
    structural,
    sum_to,
    total,
)
from numba_grad.ops.matrices import (
    check_matrices,
    check_right_side,
    lower_triangle,
    same_square,
    upper_triangle,
)
from numba_grad.ops.movement import array_of, inverse_permutation, transpose


def _infer_solve(a: Type, b: Type) -> Type:
    got = {"a": a, "b": b}
    if a.rank < 2 or a.shape[-1] != a.shape[-2]:
        raise np.linalg.LinAlgError(
            explain(
                "solve",
                "a is not square",
                got=dict(got),
                expected="a of shape (..., n, n)",
                fix="lstsq(a, b) for more equations than unknowns",
            )
        )
    check_right_side("solve", a, b)
    stack = broadcast_stacks("solve", got)
    return array_type((*stack, *b.shape[-2:]), a.dtype)


# Giles, An extended collection of matrix derivative results for forward and reverse mode automatic
# differentiation (2008), 2.3.1. The two rules record the same solve; the compiler merges them.
def _solve_vjp_a(g: Node, out: Node, a: Node, b: Node) -> Node:
    outer = matmul(solve(conjugate_transpose(a), g), conjugate_transpose(out))
    return -sum_to(outer, a.shape)


def _solve_vjp_b(g: Node, out: Node, a: Node, b: Node) -> Node:
    return sum_to(solve(conjugate_transpose(a), g), b.shape)


def _solve_jvp(tangents: Sequence[Node | None], out: Node, a: Node, b: Node) -> Node:
    """Of a x = b: a x' = b' - a' x."""
    return solve(a, _change_of_right_side(tangents[0], tangents[1], out))


def _change_of_right_side(of_a: Node | None, of_b: Node | None, out: Node) -> Node:
    """b' - a' x. A matrix that stands for a stack of them is one, as in the system itself."""
    change = total([of_b, None if of_a is None else -matmul(of_a, out)])
    assert change is not None
    return change


def _batch_solve(is_batched: Sequence[bool], a: Node, b: Node) -> Node:
    if not is_batched[0] and len(a.shape) == 2:
        # One factorization for all.
        return _with_more_columns(lambda columns: solve(a, columns), b)
    return solve(*aligned(is_batched, a, b))


def _with_more_columns(solved: Callable[[Node], Node], b: Node) -> Node:
    """A stack of right sides as further columns of one."""
    rank = len(b.shape)
    rows_first = (rank - 2, *range(rank - 2), rank - 1)
    turned = transpose(b, axes=rows_first)
    columns = reshape(turned, (b.shape[-2], math.prod(b.shape[:-2]) * b.shape[-1]))
    return transpose(reshape(solved(columns), turned.shape), axes=inverse_permutation(rows_first))


def _solve_examples(rng: "np.random.Generator") -> list[Any]:
    shapes = [
        ((3, 3), (3, 2)),
        ((10, 10), (10, 1)),
        ((1, 1), (1, 9)),
        ((2, 3, 3), (2, 3, 2)),
        ((3, 3), (2, 3, 1)),
        ((2, 3, 3), (3, 2)),
        ((2, 1, 2, 2), (3, 2, 1)),
        ((0, 0), (0, 2)),
        ((3, 3), (3, 0)),
        ((0, 2, 2), (2, 1)),
    ]
    # Far from singular, so that finite differences are accurate.
    return [
        ((array_of(rng, *a) + 2 * a[-1] * np.eye(a[-1]), array_of(rng, *b)), {}) for a, b in shapes
    ]


solve = structural(
    "solve",
    infer=_infer_solve,
    reference=np.linalg.solve,
    vjp=(_solve_vjp_a, _solve_vjp_b),
    batch=_batch_solve,
    saves=("inputs", "out"),
    example=_solve_examples,
    jvp=_solve_jvp,
)


# solve_by_factors: `solve` of a larger matrix, whose factorization is an operation of its own. Both
# rules of the derivative take the same one, and in a loop in which the matrix does not change there
# is one before the loop. The derivative is that by `a`: to the factors none flows.

# Rows from which on LAPACK factorizes. Smaller matrices are eliminated by loops, together with
# their right sides: LAPACK's kernels for several of these take twice the time, as they copy blocks.
FEWEST_FACTORIZED = 17


def solve_system(a: Node, b: Node) -> Node:
    """The x of a @ x = b, for columns b: what `solve` of NumPy records."""
    rows, columns = a.shape[-2:] if len(a.shape) > 1 else (0, 0)
    if rows < FEWEST_FACTORIZED or rows != columns or {a.type.device, b.type.device} != {CPU}:
        return solve(a, b)
    return solve_by_factors(a, OPS["lu"](OPS["detach"](a)), b, adjoint=False)


def _infer_solve_by_factors(a: Type, factors: Type, b: Type, *, adjoint: bool) -> Type:
    if factors.shape != (*a.shape[:-1], a.shape[-1] + 1) or factors.dtype != a.dtype:
        raise np.linalg.LinAlgError(
            explain("solve", "these are not factors of a", got={"a": a, "factors": factors})
        )
    return _infer_solve(a, b)


def _solve_by_factors_reference(
    a: np.ndarray, factors: np.ndarray, b: np.ndarray, *, adjoint: bool
) -> np.ndarray:
    return np.linalg.solve(np.conj(np.swapaxes(a, -1, -2)) if adjoint else a, b)


def _solve_by_factors_vjp_a(
    g: Node, out: Node, a: Node, factors: Node, b: Node, *, adjoint: bool
) -> Node:
    turned = solve_by_factors(a, factors, g, adjoint=not adjoint)
    left, right = (out, turned) if adjoint else (turned, out)
    return -sum_to(matmul(left, conjugate_transpose(right)), a.shape)


def _solve_by_factors_vjp_b(
    g: Node, out: Node, a: Node, factors: Node, b: Node, *, adjoint: bool
) -> Node:
    return sum_to(solve_by_factors(a, factors, g, adjoint=not adjoint), b.shape)


def _solve_by_factors_jvp(
    tangents: Sequence[Node | None], out: Node, a: Node, factors: Node, b: Node, *, adjoint: bool
) -> Node:
    of_a, _, of_b = tangents
    if of_a is not None and adjoint:
        of_a = conjugate_transpose(of_a)
    change = _change_of_right_side(of_a, of_b, out)
    return solve_by_factors(a, factors, change, adjoint=adjoint)


def _batch_solve_by_factors(
    is_batched: Sequence[bool], a: Node, factors: Node, b: Node, *, adjoint: bool
) -> Node:
    if not any(is_batched[:2]) and len(a.shape) == 2:
        return _with_more_columns(
            lambda columns: solve_by_factors(a, factors, columns, adjoint=adjoint), b
        )
    if is_batched[0] and not is_batched[1]:
        factors = broadcast_to(factors, (a.shape[0], *factors.shape))
    elif is_batched[1] and not is_batched[0]:
        a = broadcast_to(a, (factors.shape[0], *a.shape))
    together = is_batched[0] or is_batched[1]
    operands = aligned((together, together, is_batched[2]), a, factors, b)
    return solve_by_factors(*operands, adjoint=adjoint)


def _solve_by_factors_examples(rng: "np.random.Generator") -> list[Any]:
    examples = [arrays for arrays, _ in _solve_examples(rng)]
    factors_of = OPS["lu"].reference
    assert factors_of is not None
    return [
        ((a, factors_of(a), b), {"adjoint": adjoint})
        for k, (a, b) in enumerate(examples)
        for adjoint in ((True, False) if k < 2 else (k % 2 == 0,))
    ]


solve_by_factors = structural(
    "solve_by_factors",
    infer=_infer_solve_by_factors,
    reference=_solve_by_factors_reference,
    vjp=(_solve_by_factors_vjp_a, None, _solve_by_factors_vjp_b),
    batch=_batch_solve_by_factors,
    saves=("inputs", "out"),
    example=_solve_by_factors_examples,
    extras={"constants": ("factors",)},
    jvp=_solve_by_factors_jvp,
)


# inv


# Two products, where solve(a, identity) would need another factorization: Giles (2008), 2.2.3.
def _inv_vjp(g: Node, out: Node, a: Node) -> Node:
    turned = conjugate_transpose(out)
    return -matmul(matmul(turned, g), turned)


def _inv_jvp(tangents: Sequence[Node], out: Node, a: Node) -> Node:
    return -matmul(matmul(out, tangents[0]), out)


def _inv_examples(rng: "np.random.Generator") -> list[Any]:
    shapes = [(3, 3), (2, 3, 3), (0, 0), (0, 2, 2)]
    return [((array_of(rng, *shape) + 2 * shape[-1] * np.eye(shape[-1]),), {}) for shape in shapes]


inv = structural(
    "inv",
    infer=same_square("inv"),
    reference=np.linalg.inv,
    vjp=(_inv_vjp,),
    saves=("out",),
    example=_inv_examples,
    extras={"domain": "regular"},
    jvp=_inv_jvp,
)


# solve_triangular


def _infer_solve_triangular(a: Type, b: Type, *, lower: bool, unit_diagonal: bool) -> Type:
    check_matrices("solve_triangular", a, square=True)
    check_right_side("solve_triangular", a, b)
    stack = broadcast_stacks("solve_triangular", {"a": a, "b": b})
    return array_type((*stack, *b.shape[-2:]), a.dtype)


def _solve_triangular_reference(
    a: np.ndarray, b: np.ndarray, *, lower: bool, unit_diagonal: bool
) -> np.ndarray:
    triangle = np.tril(a, -unit_diagonal) if lower else np.triu(a, unit_diagonal)
    if unit_diagonal:
        triangle = triangle + np.eye(a.shape[-1], dtype=a.dtype)
    return np.linalg.solve(triangle, b)


# As for `solve`, of the triangle that is read.
def _solve_triangular_vjp_a(
    g: Node, out: Node, a: Node, b: Node, *, lower: bool, unit_diagonal: bool
) -> Node:
    weight = _solve_with_adjoint(g, a, lower, unit_diagonal)
    outer = sum_to(matmul(weight, conjugate_transpose(out)), a.shape)
    triangle = lower_triangle if lower else upper_triangle
    return -triangle(outer, strict=unit_diagonal)


def _solve_triangular_vjp_b(
    g: Node, out: Node, a: Node, b: Node, *, lower: bool, unit_diagonal: bool
) -> Node:
    return sum_to(_solve_with_adjoint(g, a, lower, unit_diagonal), b.shape)


def _solve_triangular_jvp(
    tangents: Sequence[Node | None],
    out: Node,
    a: Node,
    b: Node,
    *,
    lower: bool,
    unit_diagonal: bool,
) -> Node:
    of_a, of_b = tangents
    if of_a is not None:
        of_a = (lower_triangle if lower else upper_triangle)(of_a, strict=unit_diagonal)
    change = _change_of_right_side(of_a, of_b, out)
    return solve_triangular(a, change, lower=lower, unit_diagonal=unit_diagonal)


def _solve_with_adjoint(g: Node, a: Node, lower: bool, unit_diagonal: bool) -> Node:
    adjoint = conjugate_transpose(a)
    return solve_triangular(adjoint, g, lower=not lower, unit_diagonal=unit_diagonal)


def _solve_triangular_examples(rng: "np.random.Generator") -> list[Any]:
    kinds = list(itertools.product((True, False), repeat=2))
    examples = [arrays for arrays, _ in _solve_examples(rng)]
    # Every kind of the first one, and of the others one after the other.
    pairs = [
        *zip(examples[:1] * 4, kinds, strict=True),
        *zip(examples[1:], kinds * 3, strict=False),
    ]
    return [
        (arrays, {"lower": lower, "unit_diagonal": unit_diagonal})
        for arrays, (lower, unit_diagonal) in pairs
    ]


# One triangle of a is read; with `unit_diagonal` not even its diagonal, which counts as ones.
solve_triangular = structural(
    "solve_triangular",
    infer=_infer_solve_triangular,
    reference=_solve_triangular_reference,
    vjp=(_solve_triangular_vjp_a, _solve_triangular_vjp_b),
    batch=batch_aligned("solve_triangular"),
    saves=("inputs", "out"),
    example=_solve_triangular_examples,
    jvp=_solve_triangular_jvp,
)
