"""Public as `numba_grad.special`: functions of scipy.special.

Arguments broadcast. They are promoted as in NumPy, then computed in float32 if they are float32 or
float16, else in float64: integers, too. Python numbers take the dtype of the others.
Errors are given in units in the last place (ulp) of the result, or in units of eps, relative to 1
or to the result if that is larger; `docs/numerics.md` has them in a table. "SciPy's" functions
call SciPy's own C code, one element at a time; the others vectorize.

What SciPy has as an analytic function takes complex arguments, too, with SciPy's branch cuts:
complex64 and complex128, the former computed in double precision. Parameters, as the order of a
Bessel function, stay real. The other functions refuse complex numbers with a DTypeError.
"""

import math
import operator
from typing import TYPE_CHECKING

import numpy as np

from numba_grad.dtypes import COMPLEX64, COMPLEX128, FLOAT32, FLOAT64, finfo, is_inexact, promoted
from numba_grad.errors import DTypeError, explain
from numba_grad.frontend.functions import reductions
from numba_grad.frontend.functions.elementwise import (
    cbrt,
    erf,
    erfc,
    exp2,
    expm1,
    log1p,
    sinc,
)
from numba_grad.frontend.functions.reductions import Axis
from numba_grad.frontend.inputs.arrays import (
    ArrayLike,
    as_node,
    node_of,
    number_node,
    weak_class,
    wrap,
)
from numba_grad.graph.node import OPS, Node
from numba_grad.graph.types import normalize_axes
from numba_grad.ops import bessel, composed_special, special  # noqa: F401 - fills OPS
from numba_grad.ops.families import cast, literal, reshape

if TYPE_CHECKING:
    from numba_grad.frontend.tensors.tensor import Tensor

__all__ = [
    "beta",
    "betainc",
    "betaln",
    "boxcox",
    "cbrt",
    "dawsn",
    "digamma",
    "ellipe",
    "ellipk",
    "ellipkm1",
    "entr",
    "erf",
    "erfc",
    "erfcinv",
    "erfcx",
    "erfi",
    "erfinv",
    "eval_chebyt",
    "eval_hermite",
    "eval_laguerre",
    "eval_legendre",
    "exp1",
    "exp2",
    "expi",
    "expit",
    "expm1",
    "exprel",
    "gamma",
    "gammainc",
    "gammaincc",
    "gammaln",
    "gammasgn",
    "huber",
    "hyp1f1",
    "i0",
    "i0e",
    "i1",
    "i1e",
    "inv_boxcox",
    "iv",
    "ive",
    "j0",
    "j1",
    "jn",
    "jv",
    "k0",
    "k0e",
    "k1",
    "k1e",
    "kl_div",
    "kn",
    "kv",
    "kve",
    "lambertw",
    "log1p",
    "log_expit",
    "log_ndtr",
    "log_softmax",
    "loggamma",
    "logit",
    "logsumexp",
    "multigammaln",
    "ndtr",
    "ndtri",
    "polygamma",
    "pseudo_huber",
    "psi",
    "rel_entr",
    "rgamma",
    "sici",
    "sinc",
    "softmax",
    "voigt_profile",
    "wofz",
    "xlog1py",
    "xlogy",
    "y0",
    "y1",
    "yn",
    "yv",
    "zeta",
]


def _apply(op_name: str, *values: ArrayLike) -> "Tensor":
    return wrap(OPS[op_name](*_real_operands(op_name, values)))


def _apply_analytic(op_name: str, *values: ArrayLike) -> "Tensor":
    return wrap(OPS[op_name](*_operands(values)))


def _operands_with_real_parameters(op_name: str, *values: ArrayLike) -> tuple[Node, ...]:
    """As `_operands`: real parameters, and last an argument that may be complex."""
    nodes = _operands(values)
    for name, value, node in zip(OPS[op_name].input_names, values[:-1], nodes, strict=False):
        if _is_complex(value):
            raise _only_real(op_name, {name: node.type})
    return nodes


def _real_operands(name: str, values: tuple[ArrayLike, ...], instead: str = "") -> tuple[Node, ...]:
    """`values` as nodes of one dtype, float32 or float64."""
    if any(map(_is_complex, values)):
        got = {f"argument {k}": as_node(value).type for k, value in enumerate(values)}
        raise _only_real(name, got, instead)
    return _operands(values)


def _operands(values: tuple[ArrayLike, ...]) -> tuple[Node, ...]:
    """`values` as nodes of one dtype, of single precision where NumPy's promotion has it."""
    nodes = [as_node(value) if weak_class(value) is None else None for value in values]
    strong = [node.dtype for node in nodes if node is not None]
    common = promoted(*strong) if strong else FLOAT64
    is_single = is_inexact(common) and finfo(common).bits <= 32
    if any(map(_is_complex, values)):
        dtype = COMPLEX64 if is_single else COMPLEX128
    else:
        dtype = FLOAT32 if is_single else FLOAT64
    return tuple(
        number_node(value, dtype) if node is None else cast(node, dtype)
        for value, node in zip(values, nodes, strict=True)
    )


def _is_complex(value: ArrayLike) -> bool:
    weak = weak_class(value)
    return as_node(value).dtype.kind == "c" if weak is None else weak is complex


def _only_real(name: str, got: dict[str, object], instead: str = "") -> DTypeError:
    return DTypeError(
        explain(
            name,
            "defined for real numbers only",
            got=got,
            expected="a real dtype",
            fix=instead or "x.real, if that is meant",
        )
    )


# The error function's relatives, and the normal distribution.


def erfinv(y: ArrayLike, /) -> "Tensor":
    """The x with erf(x) = y; infinite for y = 1 and -1, nan beyond. Error below 3 ulp."""
    return _apply("erfinv", y)


def erfcinv(y: ArrayLike, /) -> "Tensor":
    """The x with erfc(x) = y, accurate for small y. Domain 0 to 2. Error below 3.5 ulp."""
    return _apply("erfcinv", y)


def erfcx(x: ArrayLike, /) -> "Tensor":
    """exp(x**2) erfc(x), without underflow; inf for x below -26.6. Error below 5 ulp."""
    return _apply_analytic("erfcx", x)


def ndtr(x: ArrayLike, /) -> "Tensor":
    """The probability that a normal variable is less than x. Error below 4 ulp in both tails."""
    return _apply_analytic("ndtr", x)


def log_ndtr(x: ArrayLike, /) -> "Tensor":
    """log(ndtr(x)), without underflow. Error below 4.5 ulp.

    The gradient is accurate for x of any sign and size.
    """
    return _apply_analytic("log_ndtr", x)


def ndtri(p: ArrayLike, /) -> "Tensor":
    """The x with ndtr(x) = p; infinite for p = 0 and 1, nan beyond. Error below 4 ulp."""
    return _apply("ndtri", p)


def erfi(z: ArrayLike, /) -> "Tensor":
    """-i erf(i z), real for real z. SciPy's; error below 130 eps for real z up to 20."""
    (node,) = _operands((z,))
    return wrap(composed_special.erfi(node))


def dawsn(z: ArrayLike, /) -> "Tensor":
    """Dawson's integral, sqrt(pi)/2 exp(-z**2) erfi(z). By SciPy's erfcx, error below 50 eps."""
    (node,) = _operands((z,))
    return wrap(composed_special.dawson(node))


def wofz(z: ArrayLike, /) -> "Tensor":
    """Faddeeva's function exp(-z**2) erfc(-i z), always complex. By SciPy's erfcx."""
    (node,) = _operands((z,))
    if node.dtype.kind == "c":
        return wrap(composed_special.faddeeva(OPS["real"](node), OPS["imag"](node)))
    return wrap(composed_special.faddeeva(node, literal(0, node.dtype)))


def voigt_profile(x: ArrayLike, sigma: ArrayLike, gamma: ArrayLike, /) -> "Tensor":
    """Voigt's profile: the convolution of a normal density and of Cauchy's, of half width `gamma`.

    Either width may be 0: for sigma = 0 it is Cauchy's density, whose gradient by sigma is 0.
    """
    return wrap(composed_special.voigt(*_real_operands("voigt_profile", (x, sigma, gamma))))


# The gamma function's relatives.


def gamma(x: ArrayLike, /) -> "Tensor":
    """The gamma function: (x - 1)! for integers.

    Notes
    -----
    inf or -inf at 0 by its sign, nan at negative integers. Error below 4.5 ulp for positive x; for
    negative x, which are slow, that of the C library's tgamma.
    """
    return _apply_analytic("gamma", x)


def rgamma(x: ArrayLike, /) -> "Tensor":
    """1 / gamma(x), 0 where gamma has poles; the gradient is exact there, too. SciPy's, 3 eps."""
    return _apply_analytic("rgamma", x)


def gammaln(x: ArrayLike, /) -> "Tensor":
    """log |gamma(x)|: inf at the poles 0, -1, -2, ...

    Notes
    -----
    Error below 4 ulp, also next to the zeros 1 and 2; for negative x, which are slow, that of the C
    library's lgamma.
    """
    return wrap(OPS["gammaln"](*_real_operands("gammaln", (x,), "loggamma(x)")))


def gammasgn(x: ArrayLike, /) -> "Tensor":
    """The sign of gamma(x): 1 or -1, the sign of a zero at 0, nan at negative integers and -inf.

    The gradient is 0.
    """
    (node,) = _real_operands("gammasgn", (x,))
    zero, one, two, nan = (literal(value, node.dtype) for value in (0, 1, 2, np.nan))
    floor = OPS["floor"](node)
    is_pole = OPS["equal"](floor, node)
    below = OPS["where"](is_pole, nan, two * OPS["remainder"](floor, two) - one)
    signs = OPS["where"](OPS["less"](node, zero), -below, OPS["copysign"](one, node))
    return wrap(OPS["where"](OPS["isnan"](node), nan, signs))


def multigammaln(a: ArrayLike, d: int) -> "Tensor":
    """The logarithm of the multivariate gamma function of dimension `d`, for a > (d - 1) / 2.

    nan for smaller `a`, where SciPy raises ValueError: values are not known when this is recorded.
    Error: that of `gammaln` for each of the d terms.

    Raises
    ------
    ValueError
        If `d` is not a positive integer.
    """
    dimension = operator.index(d)
    if dimension < 1:
        raise ValueError(
            explain("multigammaln", "no such dimension", got={"d": d}, expected="1, 2, ...")
        )
    (node,) = _real_operands("multigammaln", (a,))
    is_inside = OPS["greater"](node, literal((dimension - 1) / 2, node.dtype))
    safe = OPS["where"](is_inside, node, literal(dimension, node.dtype))
    total = literal(dimension * (dimension - 1) / 4 * math.log(math.pi), node.dtype)
    for k in range(dimension):
        total = total + OPS["gammaln"](safe - literal(k / 2, node.dtype))
    return wrap(OPS["where"](is_inside, total, literal(np.nan, node.dtype)))


def loggamma(x: ArrayLike, /) -> "Tensor":
    """The logarithm of the gamma function, analytic but for a cut along the negative real axis.

    Complex x: SciPy's, error below 30 eps. Real x: gammaln(x), but nan for negative x.
    """
    (node,) = _operands((x,))
    if node.dtype.kind == "c":
        return wrap(OPS["loggamma"](node))
    is_negative = OPS["less"](node, literal(0, node.dtype))
    safe = OPS["where"](is_negative, literal(1, node.dtype), node)
    return wrap(OPS["where"](is_negative, literal(np.nan, node.dtype), OPS["gammaln"](safe)))


def digamma(x: ArrayLike, /) -> "Tensor":
    """The derivative of log(gamma(x)); -inf at 0, nan at negative integers.

    Notes
    -----
    Error below 2.5 ulp for positive x, next to the zero at 1.46 too. For negative x it is small
    compared with pi cot(pi x), a term of the result: next to a zero the two may cancel.
    """
    return _apply_analytic("digamma", x)


def polygamma(n: ArrayLike, x: ArrayLike, /) -> "Tensor":
    """The n-th derivative of digamma, for integers n >= 0.

    Raises
    ------
    ValueError
        If `n` is a number that is negative or no integer.
    GradientError
        By a differentiation by `n`.

    Notes
    -----
    Error below 2.5 ulp for n = 0 and 1, and 10 beyond. For x < -1e6 and n > 1 the result is nan.
    """
    if node_of(n) is None and np.ndim(n) == 0:
        return _polygamma_of_order(n, x)
    if _is_complex(x) and not _is_complex(n):
        raise DTypeError(
            explain(
                "polygamma",
                "for complex x the order must be a number",
                got={"n": as_node(n).type, "x": as_node(x).type},
                fix="[polygamma(k, x) for k in ...]",
            )
        )
    order, node = _real_operands("polygamma", (n, x))
    order = OPS["polygamma_order"](order)
    zero, one, two = (literal(value, order.dtype) for value in (0, 1, 2))
    is_zero = OPS["equal"](order, zero)
    exponent = OPS["where"](is_zero, two, order + one)
    sign = two * OPS["remainder"](order, two) - one
    higher = sign * OPS["gamma"](exponent) * OPS["zeta"](exponent, node)
    return wrap(OPS["where"](is_zero, OPS["digamma"](node), higher))


def _polygamma_of_order(n: ArrayLike, x: ArrayLike) -> "Tensor":
    if n != int(n) or n < 0:
        raise ValueError(
            explain("polygamma", "no derivative of this order", got={"n": n}, expected="0, 1, ...")
        )
    n = int(n)
    (node,) = _operands((x,))
    if n == 0:
        return wrap(OPS["digamma"](node))
    factor = (-1.0) ** (n + 1) * (math.factorial(n) if n <= 170 else math.inf)
    if node.dtype.kind == "c":
        values = OPS["integer_zeta"](node, exponent=n + 1)
    elif n == 1:
        return wrap(OPS["trigamma"](node))
    else:
        values = OPS["zeta"](literal(n + 1, node.dtype), node)
    return wrap(literal(factor, node.dtype) * values)


def beta(a: ArrayLike, b: ArrayLike, /) -> "Tensor":
    """gamma(a) gamma(b) / gamma(a + b).

    Error below 2 + |log(beta)| units of eps; SciPy's where an argument is negative.
    """
    return _apply("beta", a, b)


def betaln(a: ArrayLike, b: ArrayLike, /) -> "Tensor":
    """log |beta(a, b)|. Error below 8 eps; SciPy's where an argument is negative."""
    return _apply("betaln", a, b)


def gammainc(a: ArrayLike, x: ArrayLike, /) -> "Tensor":
    """The regularized lower incomplete gamma function P(a, x), for a >= 0 and x >= 0.

    SciPy's. Error below 10 eps. Derivatives by `a`, of any order, are integrals by quadrature, with
    errors of some 10 eps for `a` up to 200, and 200 eps at 10,000.
    """
    return _apply("gammainc", a, x)


def gammaincc(a: ArrayLike, x: ArrayLike, /) -> "Tensor":
    """1 - gammainc(a, x), accurate for large x. SciPy's; derivatives as those of `gammainc`."""
    return _apply("gammaincc", a, x)


def betainc(a: ArrayLike, b: ArrayLike, x: ArrayLike, /) -> "Tensor":
    """The regularized incomplete beta function, for positive a and b, and x from 0 to 1.

    Notes
    -----
    SciPy's. Error below 10 eps. Derivatives by `a` and `b`, of any order, are integrals by
    quadrature. Errors of the first ones, relative to themselves also in the tails: up to 100 eps
    for `a` and `b` up to 10, 500 eps up to 100, 1,000 up to 1,000, and 3,000 up to 10,000.
    """
    return _apply("betainc", a, b, x)


def zeta(x: ArrayLike, q: ArrayLike | None = None, /) -> "Tensor":
    """The sum of (k + q)**-x over k = 0, 1, ...; Riemann's zeta function without `q`.

    Notes
    -----
    With `q`: nan for x < 1, and for q < 0 unless x is an integer and q above -1e6; error below 8
    ulp. Without: SciPy's, for all real x, error below 3 eps for x > 1, and 30 eps for negative x.

    Derivatives by `x`, of any order, are sums of their own, nan for negative q: errors below 10 eps
    for x > 1, and 90 eps down to -5, relative to 1 or the derivative if that is larger; below it
    they grow with the derivative, to 200 eps at -20 and 7,000 at -100.
    """
    if q is None:
        return _apply("riemann_zeta", x)
    return _apply("zeta", x, q)


# Logits, and products with logarithms.


def expit(x: ArrayLike, /) -> "Tensor":
    """1 / (1 + exp(-x)), without overflow. Error below 1.5 ulp."""
    return _apply("sigmoid", x)


def logit(p: ArrayLike, /) -> "Tensor":
    """log(p / (1 - p)), accurate next to 1/2; nan outside of 0 to 1. Error below 1.5 ulp."""
    return _apply("logit", p)


def log_expit(x: ArrayLike, /) -> "Tensor":
    """log(expit(x)), without underflow. Error below 1.5 ulp."""
    return _apply("log_expit", x)


def xlogy(x: ArrayLike, y: ArrayLike, /) -> "Tensor":
    """x log(y), and 0 where x = 0 and y is not nan. Error below 2 ulp.

    Where x = 0 the gradient by x is log(y), but 0 for y <= 0, as in torch.
    """
    return _apply_analytic("xlogy", x, y)


def xlog1py(x: ArrayLike, y: ArrayLike, /) -> "Tensor":
    """x log(1 + y), and 0 where x = 0 and y is not nan. Error below 2 ulp.

    Where x = 0 the gradient by x is log(1 + y), but 0 for y <= -1, as in torch.
    """
    return _apply_analytic("xlog1py", x, y)


def entr(x: ArrayLike, /) -> "Tensor":
    """-x log(x); 0 at 0, -inf for negative x. Error below 2 ulp. The gradient at 0 is inf."""
    return _apply("entr", x)


def rel_entr(x: ArrayLike, y: ArrayLike, /) -> "Tensor":
    """x log(x / y); 0 for x = 0 <= y; inf if one is negative, or y = 0 < x. Error below 2 ulp.

    The gradient by x is -inf for x = 0 < y.
    """
    return _apply("rel_entr", x, y)


def kl_div(x: ArrayLike, y: ArrayLike, /) -> "Tensor":
    """x log(x / y) - x + y; y for x = 0 <= y; inf if one is negative, or y = 0 < x.

    Error below 4 ulp where x and y differ by less than a quarter, and 30 elsewhere. The gradient by
    x is -inf for x = 0 < y.
    """
    return _apply("kl_div", x, y)


def exprel(x: ArrayLike, /) -> "Tensor":
    """expm1(x) / x, and 1 at 0: accurate next to it, derivatives too."""
    return wrap(composed_special.exprel(*_real_operands("exprel", (x,))))


def boxcox(x: ArrayLike, lmbda: ArrayLike, /) -> "Tensor":
    """(x**lmbda - 1) / lmbda, and log(x) for lmbda = 0: accurate next to it, derivatives too."""
    return wrap(composed_special.boxcox(*_real_operands("boxcox", (x, lmbda))))


def inv_boxcox(y: ArrayLike, lmbda: ArrayLike, /) -> "Tensor":
    """The x with boxcox(x, lmbda) = y."""
    return wrap(composed_special.inv_boxcox(*_real_operands("inv_boxcox", (y, lmbda))))


def huber(delta: ArrayLike, r: ArrayLike, /) -> "Tensor":
    """r**2 / 2 where |r| <= delta, and delta (|r| - delta / 2) beyond; inf for delta < 0."""
    return wrap(composed_special.huber(*_real_operands("huber", (delta, r))))


def pseudo_huber(delta: ArrayLike, r: ArrayLike, /) -> "Tensor":
    """delta**2 (sqrt(1 + (r / delta)**2) - 1), accurate for small r; inf for delta < 0."""
    return wrap(composed_special.pseudo_huber(*_real_operands("pseudo_huber", (delta, r))))


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
    (node,) = _real_operands(name, (x,))
    return wrap(composed_special.orthogonal_polynomial(name, degree, node))


# Bessel functions, all of them SciPy's.


def j0(x: ArrayLike, /) -> "Tensor":
    """The Bessel function of the first kind of order 0. Error below 6 eps."""
    return wrap(OPS["j0"](*_real_operands("j0", (x,), "jv(0, x)")))


def j1(x: ArrayLike, /) -> "Tensor":
    """The Bessel function of the first kind of order 1. Error below 6 eps."""
    return wrap(OPS["j1"](*_real_operands("j1", (x,), "jv(1, x)")))


def y0(x: ArrayLike, /) -> "Tensor":
    """The Bessel function of the second kind of order 0; nan for x < 0. Error below 8 eps."""
    return _apply("y0", x)


def y1(x: ArrayLike, /) -> "Tensor":
    """The Bessel function of the second kind of order 1; nan for x < 0. Error below 8 eps."""
    return _apply("y1", x)


def yn(n: int, x: ArrayLike, /) -> "Tensor":
    """The Bessel function of the second kind of integer order; -inf at 0, nan for x < 0.

    Raises
    ------
    TypeError
        If `n` is not one integer.

    Notes
    -----
    From those of order 0 and 1 by recurrence, as SciPy's, so that large orders take long. Error
    below 20 eps for n up to 10, next to zeros relative to 1.
    """
    order = operator.index(n)
    (node,) = _real_operands("yn", (x,))
    first = OPS["y0"](node)
    if order == 0:
        return wrap(first)
    sign = -1 if order < 0 and order % 2 else 1
    is_zero = OPS["equal"](node, literal(0, node.dtype))
    inverse = literal(2, node.dtype) / OPS["where"](is_zero, literal(1, node.dtype), node)
    before, result = first, OPS["y1"](node)
    for k in range(1, abs(order)):
        before, result = result, literal(k, node.dtype) * inverse * result - before
    # Where it overflows, two infinities meet in the next step.
    is_positive = OPS["greater"](node, literal(0, node.dtype))
    has_overflown = OPS["logical_and"](OPS["isnan"](result), is_positive)
    result = OPS["where"](has_overflown, literal(-np.inf, node.dtype), result)
    return wrap(literal(sign, node.dtype) * OPS["where"](is_zero, first, result))


def jv(v: ArrayLike, x: ArrayLike, /) -> "Tensor":
    """The Bessel function of the first kind of any real order v; for v no integer, of x >= 0.

    Raises
    ------
    GradientError
        By a differentiation by `v`.

    Notes
    -----
    Error below 5 eps for v up to 10 and x up to 40; it grows with both.
    """
    return wrap(OPS["jv"](*_operands_with_real_parameters("jv", v, x)))


def iv(v: ArrayLike, x: ArrayLike, /) -> "Tensor":
    """The modified Bessel function of any real order v; for v no integer, of x >= 0. SciPy's.

    Raises
    ------
    GradientError
        By a differentiation by `v`.

    Notes
    -----
    Error below 10 eps for v up to 10 and x up to 40, of complex `x` there is none.
    """
    return _apply("iv", v, x)


def ive(v: ArrayLike, x: ArrayLike, /) -> "Tensor":
    """exp(-|x|) iv(v, x), without overflow."""
    return _apply("ive", v, x)


def i0(x: ArrayLike, /) -> "Tensor":
    """The modified Bessel function of order 0. Error below 4 ulp."""
    return _apply("i0", x)


def i1(x: ArrayLike, /) -> "Tensor":
    """The modified Bessel function of order 1. Error below 12 ulp."""
    return _apply("i1", x)


def i0e(x: ArrayLike, /) -> "Tensor":
    """exp(-|x|) i0(x), without overflow. Error below 4 ulp."""
    return _apply("i0e", x)


def i1e(x: ArrayLike, /) -> "Tensor":
    """exp(-|x|) i1(x), without overflow. Error below 6 ulp."""
    return _apply("i1e", x)


def k0(x: ArrayLike, /) -> "Tensor":
    """The modified Bessel function of the second kind of order 0; inf at 0, nan for x < 0.

    Error below 6 ulp.
    """
    return _apply("k0", x)


def k1(x: ArrayLike, /) -> "Tensor":
    """The modified Bessel function of the second kind of order 1; inf at 0, nan for x < 0.

    Error below 6 ulp.
    """
    return _apply("k1", x)


def k0e(x: ArrayLike, /) -> "Tensor":
    """exp(x) k0(x), without underflow. Error below 6 ulp."""
    return _apply("k0e", x)


def k1e(x: ArrayLike, /) -> "Tensor":
    """exp(x) k1(x), without underflow. Error below 6 ulp."""
    return _apply("k1e", x)


def kv(v: ArrayLike, x: ArrayLike, /) -> "Tensor":
    """The modified Bessel function of the second kind of any real order v; inf at 0, nan for x < 0.

    Notes
    -----
    SciPy's. Error below 1,000 ulp for v up to 10 and x up to 40, and mostly 10: for v below 1 it is
    largest, next to x = 2. Derivatives by `v`, of any order, and those of `kve` are integrals of
    their own, with errors below 20 eps for x above 0.1 there; nan for x below 1e-300.
    """
    return _apply("kv", v, x)


def kve(v: ArrayLike, x: ArrayLike, /) -> "Tensor":
    """exp(x) kv(v, x), without underflow; nan for x above 1e9. SciPy's; derivatives as `kv`'s."""
    return _apply("kve", v, x)


def yv(v: ArrayLike, x: ArrayLike, /) -> "Tensor":
    """The Bessel function of the second kind of any real order v; nan for x < 0. SciPy's.

    Raises
    ------
    GradientError
        By a differentiation by `v`.

    Notes
    -----
    Error below 20 eps for v from 0 to 10 and x up to 40, relative to 1 or to the result.
    """
    return _apply("yv", v, x)


# Elliptic integrals. Arguments are parameters, m = k**2.


def ellipk(m: ArrayLike, /) -> "Tensor":
    """The complete elliptic integral of the first kind; inf at 1, nan beyond.

    Error below 5 ulp. Derivatives of any order are as accurate, next to 0 and 1 too.
    """
    return wrap(composed_special.elliptic_k(_one_minus(*_real_operands("ellipk", (m,)))))


def ellipkm1(p: ArrayLike, /) -> "Tensor":
    """ellipk(1 - p), accurate where p is small; inf at 0, nan for p < 0. Error below 5 ulp."""
    return wrap(composed_special.elliptic_k(*_real_operands("ellipkm1", (p,))))


def ellipe(m: ArrayLike, /) -> "Tensor":
    """The complete elliptic integral of the second kind; nan for m > 1. Error below 6 ulp.

    The gradient is -inf at 1.
    """
    return _apply("ellipe", m)


def _one_minus(x: Node) -> Node:
    return literal(1, x.dtype) - x


# Integrals, Lambert's W, Kummer's function.


def exp1(x: ArrayLike, /) -> "Tensor":
    """The integral of exp(-t)/t from x to inf; inf at 0, nan for x < 0. SciPy's, error 5 ulp."""
    return _apply_analytic("exp1", x)


def expi(x: ArrayLike, /) -> "Tensor":
    """The integral of exp(t)/t from -inf to x (principal value); -inf at 0.

    SciPy's. Error below 15 eps.
    """
    return _apply_analytic("expi", x)


def sici(x: ArrayLike, /) -> "tuple[Tensor, Tensor]":
    """The integrals of sin(t)/t from 0 to x, and of cos(t)/t from inf to |x|.

    SciPy's. Error below 4 eps.
    """
    return _apply_analytic("sine_integral", x), _apply_analytic("cosine_integral", x)


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
    (node,) = _operands((z,))
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

    Derivatives by `a` and `b`, of any order, are series of their own. Errors of the first ones,
    relative to 1 or the derivative if that is larger: up to 20 eps for positive parameters and
    arguments up to 5, 200 eps up to 100 where 0 < a < b or x > 0. Digits are lost where terms
    cancel: for a or b far below 0, and for x below 0 with a far above b. The derivative is nan
    where fewer than 6 remain, and where |x| is above 16,000. For complex x there is none by `a` and
    `b`: a GradientError.
    """
    nodes = _operands_with_real_parameters("hyp1f1", a, b, x)
    return wrap(OPS["complex_hyp1f1" if nodes[-1].dtype.kind == "c" else "hyp1f1"](*nodes))


# Over axes.


def softmax(x: ArrayLike, axis: Axis = None) -> "Tensor":
    """exp(x) / sum(exp(x)) over `axis`, by default over all, without overflow."""
    return reductions.softmax(x, axis)


def log_softmax(x: ArrayLike, axis: Axis = None) -> "Tensor":
    """log(softmax(x)) over `axis`, by default over all, accurate where softmax is tiny."""
    return reductions.log_softmax(x, axis)


def logsumexp(
    a: ArrayLike,
    axis: Axis = None,
    b: ArrayLike | None = None,
    keepdims: bool = False,
    return_sign: bool = False,
) -> "Tensor | tuple[Tensor, Tensor]":
    """The logarithm of the sum of b exp(a) over `axis`, without overflow.

    Parameters
    ----------
    b : weights, broadcast against `a`; may be negative or 0. By default 1.
    return_sign : whether to return the pair (log |sum|, sign of the sum); the sign of a complex sum
        is sum / |sum|

    Notes
    -----
    A negative sum gives nan, unless its sign is asked for. A sum of 0, as of a = -inf alone, gives
    -inf, with gradient 0. The gradient by `a` is b exp(a) / sum, softmax(a) without weights. Of
    complex numbers it is the logarithm with an imaginary part from -pi to pi.
    """
    if b is None and not return_sign:
        return reductions.logsumexp(a, axis, keepdims=keepdims)
    node, weights = _operands((a, 1.0 if b is None else b))
    is_left_out = OPS["equal"](weights, literal(0, node.dtype))
    # What has no weight decides nothing, and its power must not overflow.
    counted = OPS["where"](is_left_out, literal(-np.inf, node.dtype), node)
    shift = reductions.finite_maximum(counted, axis, "logsumexp")
    limit = literal(np.floor(np.log(finfo(node.dtype).max)), node.dtype)
    powers = OPS["exp"](OPS["minimum"](node - shift, limit))  # of complex ones, by the real part
    total = reductions.reduced("sum", weights * powers, axis, True, "logsumexp")
    size = OPS["absolute"](total) if return_sign else total
    zero, one, minus_infinity = (literal(x, size.dtype) for x in (0, 1, -np.inf))
    is_zero = OPS["equal"](size, zero)
    logarithm = OPS["log"](OPS["where"](is_zero, one, size))
    result = OPS["where"](is_zero, minus_infinity, logarithm) + cast(shift, size.dtype)
    results = (result, OPS["sign"](total)) if return_sign else (result,)
    if not keepdims:
        axes = normalize_axes("logsumexp", axis, len(result.shape))
        kept = tuple([n for k, n in enumerate(result.shape) if k not in axes])
        results = tuple(reshape(x, kept) for x in results)
    tensors = tuple(wrap(x) for x in results)
    return tensors if return_sign else tensors[0]  # pyright: ignore[reportReturnType]


# SciPy's other names for the same functions.
psi = digamma
jn = jv
kn = kv
