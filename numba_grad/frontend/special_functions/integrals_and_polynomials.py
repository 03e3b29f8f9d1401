"""Elliptic and other integrals, Lambert's W, Kummer's function, orthogonal polynomials."""

import operator
from typing import TYPE_CHECKING

from numba_grad.errors import explain
from numba_grad.frontend.inputs.arrays import ArrayLike, wrap
from numba_grad.frontend.special_functions.operands import (
    apply,
    apply_analytic,
    operands,
    operands_with_real_parameters,
    real_operands,
)
from numba_grad.graph.node import OPS, Node
from numba_grad.ops import composed_special
from numba_grad.ops.families import literal

if TYPE_CHECKING:
    from numba_grad.frontend.tensors.tensor import Tensor


# Elliptic integrals. Arguments are parameters, m = k**2.


def ellipk(m: ArrayLike, /) -> "Tensor":
    """The complete elliptic integral of the first kind; inf at 1, nan beyond.

    Error below 5 ulp. Derivatives of any order are as accurate, next to 0 and 1 too.
    """
    return wrap(composed_special.elliptic_k(_one_minus(*real_operands("ellipk", (m,)))))


def ellipkm1(p: ArrayLike, /) -> "Tensor":
    """ellipk(1 - p), accurate where p is small; inf at 0, nan for p < 0. Error below 5 ulp."""
    return wrap(composed_special.elliptic_k(*real_operands("ellipkm1", (p,))))


def ellipe(m: ArrayLike, /) -> "Tensor":
    """The complete elliptic integral of the second kind; nan for m > 1. Error below 6 ulp.

    The gradient is -inf at 1.
    """
    return apply("ellipe", m)


def _one_minus(x: Node) -> Node:
    return literal(1, x.dtype) - x


# Integrals, Lambert's W, Kummer's function.


def exp1(x: ArrayLike, /) -> "Tensor":
    """The integral of exp(-t)/t from x to inf; inf at 0, nan for x < 0. SciPy's, error 5 ulp."""
    return apply_analytic("exp1", x)


def expi(x: ArrayLike, /) -> "Tensor":
    """The integral of exp(t)/t from -inf to x (principal value); -inf at 0.

    SciPy's. Error below 15 eps.
    """
    return apply_analytic("expi", x)


def sici(x: ArrayLike, /) -> "tuple[Tensor, Tensor]":
    """The integrals of sin(t)/t from 0 to x, and of cos(t)/t from inf to |x|.

    SciPy's. Error below 4 eps.
    """
    return apply_analytic("sine_integral", x), apply_analytic("cosine_integral", x)


def lambertw(z: ArrayLike, k: int = 0) -> "Tensor":
    """The w with w exp(w) = z on branch `k`: for real z real, for complex z complex.

    Raises
    ------
    ValueError
        If z is real and `k` another branch than 0 and -1: it has no real values.

    Notes
    -----
    Real w is at least -1 for k = 0 and at most -1 for k = -1. Unlike SciPy's, the result is nan for
    real z < -1/e, and with k = -1 for z > 0: a complex `z` has a result there. Error below 3.5 ulp.

    Complex: error below 6 eps, next to the branch point -1/e too. Cuts are SciPy's, continuous from
    above; a negative zero as imaginary part is below. The gradient is infinite at z = -1/e, and 1
    at 0.
    """
    (node,) = operands((z,))
    if node.dtype.kind == "c":
        return wrap(OPS["lambertw_branch"](node, branch=operator.index(k)))
    branches = {0: "lambertw", -1: "lambertw_below"}
    if k not in branches:
        raise ValueError(
            explain(
                "lambertw",
                "this branch has no real values",
                got={"k": k},
                expected="0 or -1",
                fix="lambertw(z.astype(complex), k)",
            )
        )
    return wrap(OPS[branches[k]](node))


def hyp1f1(a: ArrayLike, b: ArrayLike, x: ArrayLike, /) -> "Tensor":
    """Kummer's confluent hypergeometric function 1F1(a; b; x).

    Notes
    -----
    SciPy's. Error below 200 eps for arguments up to 5; it grows where terms of the series cancel.
    SciPy's may never end where a number is beyond a million: there the result is its limit, or has
    at least 6 digits, or is nan. For complex x it is nan for `a` beyond 100,000, or for Re x < 0
    and b - a.

    Derivatives by `a` and `b`, of any order, are series of their own. Errors of the first ones,
    relative to 1 or the derivative if that is larger: up to 20 eps for positive parameters and
    arguments up to 5, 200 eps up to 100 where 0 < a < b or x > 0. Digits are lost where terms
    cancel: for a or b far below 0, and for x below 0 with a far above b. The derivative is nan
    where fewer than 6 remain, and where |x| is above 16,000. For complex x there is none by `a` and
    `b`: a GradientError.
    """
    nodes = operands_with_real_parameters("hyp1f1", a, b, x)
    return wrap(OPS["complex_hyp1f1" if nodes[-1].dtype.kind == "c" else "hyp1f1"](*nodes))


# Orthogonal polynomials, by their recurrences: of one degree, an integer that is not negative.


def eval_legendre(n: int, x: ArrayLike, /) -> "Tensor":
    """Legendre's polynomial of degree n."""
    return _polynomial("eval_legendre", n, x)


def eval_chebyt(n: int, x: ArrayLike, /) -> "Tensor":
    """Chebyshev's polynomial of the first kind, of degree n."""
    return _polynomial("eval_chebyt", n, x)


def eval_hermite(n: int, x: ArrayLike, /) -> "Tensor":
    """Hermite's polynomial of degree n, as physicists scale it."""
    return _polynomial("eval_hermite", n, x)


def eval_laguerre(n: int, x: ArrayLike, /) -> "Tensor":
    """Laguerre's polynomial of degree n."""
    return _polynomial("eval_laguerre", n, x)


def _polynomial(name: str, n: int, x: ArrayLike) -> "Tensor":
    degree = operator.index(n)
    if degree < 0:
        raise ValueError(
            explain(name, "no polynomial of this degree", got={"n": n}, expected="0, 1, ...")
        )
    (node,) = real_operands(name, (x,))
    return wrap(composed_special.orthogonal_polynomial(name, degree, node))
