"""The Gudermannian function, and the mirror image of rows, as a newcomer would add them."""

import numpy as np

from numba_grad.graph.node import Node
from numba_grad.graph.types import array_type
from numba_grad.ops.families import elementwise, linear, structural
from numba_grad.ops.functions import cosh
from numba_grad.ops.movement import array_of

gudermannian = elementwise(
    "gudermannian",
    expression="cast(2, {dtype}) * arctan(tanh({x} * cast(0.5, {dtype})))",
    reference=lambda x: 2 * np.arctan(np.tanh(x / 2)),
    vjp=(lambda g, out, x: g / cosh(x),),
    dtypes="fd",
    samples=((-3, 3),),
    cost=40,
)


def _batch_mirrored(is_batched: object, x: Node) -> Node:
    return mirrored(x)


mirrored = structural(
    "mirrored",
    family="library",
    input_names=("x",),
    infer=lambda x: array_type(x.shape, x.dtype),
    reference=lambda x: np.flip(x, -1),
    vjp=(lambda g, out, x: mirrored(g),),
    batch=_batch_mirrored,
    dtypes="fd",
    example=lambda rng: [((array_of(rng, 5),), {}), ((array_of(rng, 2, 3),), {})],
    jvp=linear,
)
