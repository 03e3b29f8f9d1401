"""Functions of matrices: the exponential."""

import numpy as np

from numba_grad.graph.node import OPS, Node
from numba_grad.ops.contraction import conjugate_transpose
from numba_grad.ops.families import cast, full, reshape, structural, zeros_like
from numba_grad.ops.matrices import block, same_square
from numba_grad.ops.movement import array_of


def _expm_reference(a: np.ndarray) -> np.ndarray:
    """A Taylor series of the matrix scaled by a power of two, squared as often: with more digits,
    since squaring loses some."""
    if a.size == 0:
        return a.copy()
    norm = np.abs(a).sum(-1).max()
    squarings = max(0, int(np.frexp(norm)[1]) + 2) if np.isfinite(norm) else 0
    scaled = a.astype(np.result_type(a.dtype, np.longdouble)) * 2.0**-squarings
    term = result = np.broadcast_to(np.eye(a.shape[-1], dtype=scaled.dtype), a.shape)
    for k in range(1, 25):
        term = term @ scaled / k
        result = result + term
    for _ in range(squarings):
        result = result @ result
    return result.astype(a.dtype)


# The derivative in a direction is a block of the exponential of a matrix of twice the size: Najfeld
# and Havel, Derivatives of the matrix exponential and their computation (1995), 4.
def _change_of_expm(a: Node, direction: Node) -> Node:
    n = a.shape[-1]
    axis = len(a.shape) - 2
    # It is linear in the direction, which must not be far above `a`: the larger matrix is halved
    # until its norm is small, and of `a`, halved as often, no digits would be left beside 1.
    size = OPS["sum"](OPS["absolute"](direction), axes=(axis, axis + 1))
    size = OPS["detach"](OPS["maximum"](size, full(1, (), size.dtype)))
    size = reshape(cast(size, a.dtype), (*a.shape[:-2], 1, 1))
    above = OPS["concatenate"](a, OPS["divide"](direction, size), axis=axis + 1)
    below = OPS["concatenate"](zeros_like(a), a, axis=axis + 1)
    change = block(expm(OPS["concatenate"](above, below, axis=axis)), 0, n, n, n)
    return OPS["multiply"](change, size)


def _expm_vjp(g: Node, out: Node, a: Node) -> Node:
    return _change_of_expm(conjugate_transpose(a), g)


expm = structural(
    "expm",
    infer=same_square("expm"),
    reference=_expm_reference,
    vjp=(_expm_vjp,),
    saves=("inputs",),
    example=lambda rng: [
        ((array_of(rng, *shape) * scale,), {})
        for shape, scale in (
            ((3, 3), 0.003),
            ((3, 3), 0.05),
            ((3, 3), 0.2),
            ((3, 3), 0.5),
            ((3, 3), 1),
            ((3, 3), 2.5),
            ((2, 3, 3), 1),
            ((0, 0), 1),
            ((0, 2, 2), 1),
        )
    ],
    jvp=lambda tangents, out, a: _change_of_expm(a, tangents[0]),
)
