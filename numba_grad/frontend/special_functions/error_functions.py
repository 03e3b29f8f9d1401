"""The error function's relatives, and the normal distribution."""

from typing import TYPE_CHECKING

from numba_grad.frontend.inputs.arrays import ArrayLike, wrap
from numba_grad.frontend.special_functions.operands import (
    apply,
    apply_analytic,
    operands,
    real_operands,
)
from numba_grad.graph.node import OPS
from numba_grad.ops import composed_special
from numba_grad.ops.families import literal

if TYPE_CHECKING:
    from numba_grad.frontend.tensors.tensor import Tensor


def erfinv(y: ArrayLike, /) -> "Tensor":
    """The x with erf(x) = y; infinite for y = 1 and -1, nan beyond. Error below 3 ulp."""
    return apply("erfinv", y)


def erfcinv(y: ArrayLike, /) -> "Tensor":
    """The x with erfc(x) = y, accurate for small y. Domain 0 to 2. Error below 3.5 ulp."""
    return apply("erfcinv", y)


def erfcx(x: ArrayLike, /) -> "Tensor":
    """exp(x**2) erfc(x), without underflow; inf for x below -26.6. Error below 5 ulp."""
    return apply_analytic("erfcx", x)


def ndtr(x: ArrayLike, /) -> "Tensor":
    """The probability that a normal variable is less than x. Error below 4 ulp in both tails."""
    return apply_analytic("ndtr", x)


def log_ndtr(x: ArrayLike, /) -> "Tensor":
    """log(ndtr(x)), without underflow. Error below 4.5 ulp.

    The gradient is accurate for x of any sign and size.
    """
    return apply_analytic("log_ndtr", x)


def ndtri(p: ArrayLike, /) -> "Tensor":
    """The x with ndtr(x) = p; infinite for p = 0 and 1, nan beyond. Error below 4 ulp."""
    return apply("ndtri", p)


def erfi(z: ArrayLike, /) -> "Tensor":
    """-i erf(i z), real for real z. SciPy's; error below 130 eps for real z up to 20."""
    (node,) = operands((z,))
    return wrap(composed_special.erfi(node))


def dawsn(z: ArrayLike, /) -> "Tensor":
    """Dawson's integral, sqrt(pi)/2 exp(-z**2) erfi(z). By SciPy's erfcx, error below 50 eps."""
    (node,) = operands((z,))
    return wrap(composed_special.dawson(node))


def wofz(z: ArrayLike, /) -> "Tensor":
    """Faddeeva's function exp(-z**2) erfc(-i z), always complex. By SciPy's erfcx."""
    (node,) = operands((z,))
    if node.dtype.kind == "c":
        return wrap(composed_special.faddeeva(OPS["real"](node), OPS["imag"](node)))
    return wrap(composed_special.faddeeva(node, literal(0, node.dtype)))


def voigt_profile(x: ArrayLike, sigma: ArrayLike, gamma: ArrayLike, /) -> "Tensor":
    """Voigt's profile: the convolution of a normal density and of Cauchy's, of half width `gamma`.

    Either width may be 0: for sigma = 0 it is Cauchy's density, whose gradient by sigma is 0.
    """
    return wrap(composed_special.voigt(*real_operands("voigt_profile", (x, sigma, gamma))))
