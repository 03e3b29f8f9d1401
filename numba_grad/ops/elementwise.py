"""Elementwise primitives: arithmetic, comparison, logic, selection, casts, elementary functions."""

import numpy as np

from numba_grad.ops.families import elementwise

add = elementwise(
    "add",
    expression="{x} + {y}",
    reference=np.add,
    vjp=(lambda g, out, x, y: g, lambda g, out, x, y: g),
    samples=((-3, 3), (-3, 3)),
    saves=(),
)

negative = elementwise(
    "negative",
    expression="-{x}",
    reference=np.negative,
    vjp=(lambda g, out, x: -g,),
    samples=((-3, 3),),
    saves=(),
)
