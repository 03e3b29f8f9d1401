"""Hermitian matrices of which one triangle is read: what it stands for, and who has the gradient.

A function of Hermitian matrices that reads one triangle has two gradients to choose from. For a
Hermitian matrix it is the Hermitian one, as if both triangles had been read, so that gradient
descent stays among Hermitian matrices; torch's is the same. For any other matrix, as one of which
only that triangle was filled, it is that of the function as computed: what is not read has the
derivative 0, and what is read has all of it. Which of them depends on values. So it is selected
where they are known, for each matrix of a stack, and counts as constant in further derivatives. If
a matrix is computed so that it always is Hermitian, what it is computed from gets the same of both.
"""

from numba_grad.graph.node import OPS, Node
from numba_grad.ops.contraction import conjugate_transpose
from numba_grad.ops.elementwise import real_part
from numba_grad.ops.families import cast, full, real_dtype, reshape
from numba_grad.ops.matrices import (
    hermitian_part,
    is_diagonal,
    is_triangle,
    times_rounding,
)


def is_hermitian(a: Node) -> Node:
    """Whether each of the matrices (..., n, n), n > 0, is Hermitian to rounding: (..., 1, 1).

    The magnitudes of a - a^H sum to n eps times those of a, at most: sums take a quarter of the
    time of maxima. A matrix that is not finite is not Hermitian.
    """
    axes = (len(a.shape) - 2, len(a.shape) - 1)
    difference = OPS["sum"](_size(a - conjugate_transpose(a)), axes=axes)
    rounding = times_rounding(OPS["sum"](_size(a), axes=axes), a.shape[-1])
    # `difference <= rounding` would hold for infinite ones.
    zero = full(0, (), real_dtype(a.dtype))
    return reshape(OPS["less_equal"](difference - rounding, zero), (*a.shape[:-2], 1, 1))


def _size(x: Node) -> Node:
    """The magnitude; of complex numbers that of their parts, which takes a fraction of the time."""
    if x.dtype.kind != "c":
        return OPS["absolute"](x)
    return OPS["absolute"](OPS["real"](x)) + OPS["absolute"](OPS["imag"](x))


def gradient_of_triangle(gradient: Node, a: Node, *, lower: bool) -> Node:
    """The gradient by `a`, of which one triangle is read; `gradient` is that as if both were.

    Of `gradient` the Hermitian part counts.
    """
    n = a.shape[-1]
    if n < 2:
        return hermitian_part(gradient)
    # By selection, as 0 times nan would be nan.
    one, half, zero = (full(number, (), a.dtype) for number in (1, 0.5, 0))
    is_whole = is_hermitian(a)
    is_read = OPS["logical_or"](is_whole, is_triangle(n, n, lower=lower))
    share = OPS["where"](is_diagonal(n, n), half, OPS["where"](is_whole, half, one))
    both = gradient + conjugate_transpose(gradient)
    return OPS["where"](is_read, OPS["multiply"](both, share), zero)


def matrix_of_triangle(a: Node, *, lower: bool) -> Node:
    """The Hermitian matrix that a triangle of `a` stands for, with the gradient of the above.

    What is not read may be nan; of a complex diagonal only real parts are.
    """
    n = a.shape[-1]
    mirrored = OPS["where"](is_triangle(n, n, lower=lower), a, conjugate_transpose(a))
    if a.dtype.kind == "c":
        mirrored = OPS["where"](is_diagonal(n, n), cast(real_part(a), a.dtype), mirrored)
    if n < 2:
        return mirrored
    # These are the same to rounding. Their derivatives are not.
    return OPS["where"](is_hermitian(a), hermitian_part(a), mirrored)
