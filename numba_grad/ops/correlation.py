"""Sliding sums of products: what convolutions and correlations in one dimension are made of."""

import numpy as np

from numba_grad.dtypes import is_storage_only
from numba_grad.errors import DTypeError, ShapeError, explain
from numba_grad.graph.node import Node
from numba_grad.graph.types import Type, array_type
from numba_grad.ops.elementwise import conjugated
from numba_grad.ops.families import INTEGER, multilinear, structural
from numba_grad.ops.movement import array_of, flip
from numba_grad.ops.samples import Examples


def _infer_correlate(x: Type, y: Type, *, offset: int, size: int) -> Type:
    if x.rank < 1 or x.shape[:-1] != y.shape[:-1]:
        raise ShapeError(explain("correlate", "rows do not belong together", got={"x": x, "y": y}))
    if x.dtype != y.dtype or x.dtype.kind == "b" or is_storage_only(x.dtype):
        raise DTypeError(
            explain(
                "correlate",
                "needs one dtype, and neither bool nor half precision",
                got={"x": x, "y": y},
                fix="x.astype(...)",
            )
        )
    return array_type((*x.shape[:-1], size), x.dtype)


def _correlate_reference(x: np.ndarray, y: np.ndarray, *, offset: int, size: int) -> np.ndarray:
    result = np.zeros((*x.shape[:-1], size), x.dtype)
    for j in range(y.shape[-1]):
        first = max(0, -offset - j)
        end = max(first, min(size, x.shape[-1] - offset - j))
        places = slice(first + offset + j, end + offset + j)
        result[..., first:end] += x[..., places] * y[..., j : j + 1]
    return result


def _correlate_vjp_of_x(g: Node, out: Node, x: Node, y: Node, *, offset: int, size: int) -> Node:
    backwards = flip(conjugated(y), axes=(len(y.shape) - 1,))
    return correlate(g, backwards, offset=1 - offset - y.shape[-1], size=x.shape[-1])


def _correlate_vjp_of_y(g: Node, out: Node, x: Node, y: Node, *, offset: int, size: int) -> Node:
    return correlate(conjugated(x), g, offset=offset, size=y.shape[-1])


def _correlate_examples(rng: "np.random.Generator") -> Examples:
    return [
        ((array_of(rng, 12), array_of(rng, 3)), {"offset": 0, "size": 10}),
        ((array_of(rng, 12), array_of(rng, 3)), {"offset": -2, "size": 14}),
        ((array_of(rng, 5), array_of(rng, 9)), {"offset": -8, "size": 13}),
        ((array_of(rng, 9), array_of(rng, 8)), {"offset": 1, "size": 2}),
        ((array_of(rng, 4), array_of(rng, 3)), {"offset": -9, "size": 20}),
        ((array_of(rng, 2, 3, 7), array_of(rng, 2, 3, 2)), {"offset": -1, "size": 7}),
        (
            (array_of(rng, 6) + 1j * array_of(rng, 6), array_of(rng, 3) - 1j * array_of(rng, 3)),
            {"offset": -1, "size": 6},
        ),
        ((array_of(rng, 0), array_of(rng, 3)), {"offset": -1, "size": 4}),
        ((array_of(rng, 3), array_of(rng, 0)), {"offset": 0, "size": 2}),
        ((array_of(rng, 3), array_of(rng, 2)), {"offset": 0, "size": 0}),
    ]


# result[i] = sum over j of x[i + offset + j] y[j], for i < size, along the last axis; x is 0 beyond
# its ends. Nothing is conjugated. Both derivatives are correlations.
correlate = structural(
    "correlate",
    family="contraction",
    infer=_infer_correlate,
    reference=_correlate_reference,
    vjp=(_correlate_vjp_of_x, _correlate_vjp_of_y),
    saves=("inputs",),
    dtypes=INTEGER + "fdFD",
    example=_correlate_examples,
    jvp=multilinear,
)
