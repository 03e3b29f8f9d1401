"""Contraction primitives: products summed over a shared axis, done by BLAS."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from numba_grad.errors import ShapeError, explain
from numba_grad.graph.node import OPS, Node
from numba_grad.graph.types import Type, array_type
from numba_grad.ops.families import (
    ALL,
    aligned,
    broadcast_to,
    check_one_dtype,
    multilinear,
    reshape,
    structural,
    sum_to,
    total,
)
from numba_grad.ops.movement import array_of, transpose

Shape = tuple[int, ...]


def matrix_transpose(x: Node) -> Node:
    """The last two axes exchanged."""
    rank = len(x.shape)
    return transpose(x, axes=(*range(rank - 2), rank - 1, rank - 2))


def conjugate_transpose(x: Node) -> Node:
    """The last two axes exchanged, and complex numbers conjugated: the adjoint of a matrix."""
    turned = matrix_transpose(x)
    return OPS["conjugate"](turned) if x.dtype.kind == "c" else turned


def broadcast_stacks(operation: str, got: dict[str, Type]) -> Shape:
    """The common shape of the axes before the last two."""
    try:
        return np.broadcast_shapes(*(t.shape[:-2] for t in got.values()))
    except ValueError:
        raise ShapeError(
            explain(
                operation,
                "stacks of matrices do not broadcast together",
                got=dict(got),
                expected="on every axis but the last two, equal sizes or a size of 1",
                fix="x[:, None] or x.reshape(...) to line the axes up",
            )
        ) from None


def products_summed(operation: str, operands: Sequence[Type]) -> int:
    """How many products an element of a contraction is the sum of, at most."""
    x, y = operands[-2:]
    # A correlation sums over the shorter one.
    return min(x.shape[-1], y.shape[-1]) if operation == "correlate" else x.shape[-1]


def _infer_matmul(x: Type, y: Type) -> Type:
    if x.rank < 2 or y.rank < 2 or x.shape[-1] != y.shape[-2]:
        raise ShapeError(
            explain(
                "matmul",
                "the last axis of x and the last but one of y do not agree",
                got={"x": x, "y": y},
                expected="x of shape (..., m, k) and y of shape (..., k, n)",
                fix="x @ y.mT",
            )
        )
    check_one_dtype("matmul", {"x": x, "y": y}, fix="x.astype(y.dtype) @ y")
    stack = broadcast_stacks("matmul", {"x": x, "y": y})
    return array_type((*stack, x.shape[-2], y.shape[-1]), x.dtype)


def _matmul_vjp_x(g: Node, out: Node, x: Node, y: Node) -> Node:
    if len(x.shape) == 2 and len(y.shape) > 2:
        # One product instead of a stack of them and its sum: the stack joins the summed axis.
        return matmul(_stack_in_columns(g), conjugate_transpose(_stack_in_columns(y)))
    return sum_to(matmul(g, conjugate_transpose(y)), x.shape)


def _matmul_vjp_y(g: Node, out: Node, x: Node, y: Node) -> Node:
    if len(y.shape) == 2 and len(x.shape) > 2:
        return matmul(conjugate_transpose(_stack_in_rows(x)), _stack_in_rows(g))
    return sum_to(matmul(conjugate_transpose(x), g), y.shape)


def _stack_in_rows(x: Node) -> Node:
    """(..., m, n) as (... * m, n)."""
    return reshape(x, (math.prod(x.shape[:-1]), x.shape[-1]))


def _stack_in_columns(x: Node) -> Node:
    """(..., m, n) as (m, ... * n)."""
    rank = len(x.shape)
    rows_first = transpose(x, axes=(rank - 2, *range(rank - 2), rank - 1))
    return reshape(rows_first, (x.shape[-2], math.prod(x.shape[:-2]) * x.shape[-1]))


def _batch_matmul(is_batched: Sequence[bool], x: Node, y: Node) -> Node:
    if not is_batched[1] and len(y.shape) == 2:
        # One tall product: BLAS does it faster than a stack of small ones.
        return reshape(matmul(_stack_in_rows(x), y), (*x.shape[:-1], y.shape[-1]))
    if not is_batched[0] and len(x.shape) == 2 and y.shape[1:] == (x.shape[1], 1):
        # Likewise: vectors become the columns of one matrix.
        columns = matrix_transpose(reshape(y, y.shape[:2]))
        return reshape(matrix_transpose(matmul(x, columns)), (y.shape[0], x.shape[0], 1))
    return matmul(*aligned(is_batched, x, y))


def _matmul_examples(rng: "np.random.Generator") -> list[Any]:
    shapes = [
        ((2, 3), (3, 4)),
        ((9, 10), (10, 11)),
        ((1, 1), (1, 1)),
        ((1, 5), (5, 1)),
        ((2, 2, 3), (2, 3, 2)),
        ((3, 2, 3), (3, 2)),
        ((2, 3), (4, 3, 2)),
        ((2, 1, 2, 3), (5, 3, 1)),
        ((1, 2, 3), (4, 3, 2)),
        ((0, 3), (3, 2)),
        ((2, 0), (0, 3)),
        ((0, 2, 3), (3, 2)),
    ]
    return [((array_of(rng, *x), array_of(rng, *y)), {}) for x, y in shapes]


matmul = structural(
    "matmul",
    family="contraction",
    infer=_infer_matmul,
    reference=np.matmul,
    vjp=(_matmul_vjp_x, _matmul_vjp_y),
    batch=_batch_matmul,
    saves=("inputs",),
    dtypes=ALL,
    example=_matmul_examples,
    jvp=multilinear,
)


# matmul_add: what the compiler makes of a sum and a product that nothing else reads.


def _infer_matmul_add(addend: Type, x: Type, y: Type) -> Type:
    product = _infer_matmul(x, y)
    if addend != product:
        raise ShapeError(
            explain(
                "matmul_add",
                "the addend is not like the product",
                got={"addend": addend, "x": x, "y": y},
                expected=f"an addend of {product}",
                fix="addend + x @ y, which broadcasts",
            )
        )
    return product


def _batch_matmul_add(is_batched: Sequence[bool], addend: Node, x: Node, y: Node) -> Node:
    if not is_batched[0]:
        count = next(z.shape[0] for z, b in zip((x, y), is_batched[1:], strict=True) if b)
        addend = broadcast_to(addend, (count, *addend.shape))
    if not any(is_batched[1:]):
        return addend + matmul(x, y)
    return matmul_add(addend, *aligned(is_batched[1:], x, y))


def _matmul_add_examples(rng: "np.random.Generator") -> list[Any]:
    return [((np.ones(np.matmul(x, y).shape), x, y), {}) for (x, y), _ in _matmul_examples(rng)]


def _matmul_add_jvp(
    tangents: Sequence[Node | None], out: Node, addend: Node, x: Node, y: Node
) -> Node | None:
    of_addend, of_x, of_y = tangents
    return total(
        [
            of_addend,
            None if of_x is None else matmul(of_x, y),
            None if of_y is None else matmul(x, of_y),
        ]
    )


matmul_add = structural(
    "matmul_add",
    family="contraction",
    infer=_infer_matmul_add,
    reference=lambda addend, x, y: addend + np.matmul(x, y),
    vjp=(
        lambda g, out, addend, x, y: g,
        lambda g, out, addend, x, y: _matmul_vjp_x(g, out, x, y),
        lambda g, out, addend, x, y: _matmul_vjp_y(g, out, x, y),
    ),
    batch=_batch_matmul_add,
    saves=("inputs",),
    dtypes="fdFD",
    example=_matmul_add_examples,
    jvp=_matmul_add_jvp,
)
