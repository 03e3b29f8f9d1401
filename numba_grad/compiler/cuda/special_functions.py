"""SciPy's functions for GPUs, where kernels cannot call SciPy: series, fractions and libdevice.

Texts of device functions of float64 numbers, by SciPy's names. Floating literals stand as they are
read; `device_functions.py` types them, as kernels want them.

Sources: Abramowitz and Stegun 6.5, 5.1, 5.2 and 26.5; continued fractions by Lentz's method as
Thompson and Barnett (1986) changed it; the prefactor of the incomplete gamma functions as Temme
(1994) has it. Chebyshev coefficients: mpmath, from the functions' values at 120 nodes.
"""

from numba_grad.compiler.cuda import complex_special_functions, confluent_functions

# exp(-x) I0(x) and exp(-x) I1(x) / x for 0 <= x <= 8, in x/4 - 1; exp(-x) sqrt(x) I0(x), and the
# same of I1, for x > 8, in 16/x - 1.
_NEAR_0 = (
    0.33839763720473803,
    -0.3046826723431984,
    0.17162090152220877,
    -0.09490109704804764,
    0.04930528423967071,
    -0.02373741480589947,
    0.010546460394594998,
    -0.004324309995050576,
    0.0016394756169413357,
    -0.0005763755745385824,
    0.00018850288509584165,
    -5.754195010082104e-05,
    1.6448448070728896e-05,
    -4.4167383584587505e-06,
    1.1173875391201037e-06,
    -2.670793853940612e-07,
    6.046995022541919e-08,
    -1.300025009986248e-08,
    2.6598237246823866e-09,
    -5.189795601635263e-10,
    9.675809035373237e-11,
    -1.726826291441556e-11,
    2.95505266312964e-12,
    -4.856446783111929e-13,
    7.676185498604936e-14,
    -1.1685332877993451e-14,
    1.715391285555133e-15,
    -2.431279846547955e-16,
    3.3307945188222384e-17,
    -4.4153416464793395e-18,
)
_NEAR_1 = (
    0.12629359322181682,
    -0.17641651835783406,
    0.1026436586898471,
    -0.05294598120809499,
    0.024726449030626516,
    -0.010564084894626197,
    0.004156422944312888,
    -0.0015135724506312532,
    0.0005122859561685758,
    -0.00016176081582589674,
    4.781565107550054e-05,
    -1.3273163656039436e-05,
    3.4702513081376785e-06,
    -8.568720264695455e-07,
    2.0032947535521353e-07,
    -4.445059128796328e-08,
    9.381537386495773e-09,
    -1.8872497517228294e-09,
    3.625590281552117e-10,
    -6.663489723502027e-11,
    1.1736186298890901e-11,
    -1.9839743977649436e-12,
    3.223793365945575e-13,
    -5.042185504727912e-14,
    7.600684294735408e-15,
    -1.1055969477353862e-15,
    1.5536319577362005e-16,
    -2.111421214358166e-17,
    2.7779141127610464e-18,
)
_FAR_0 = (
    0.4022452055070544,
    0.0033691164782556943,
    6.889758346916825e-05,
    2.8913705208347567e-06,
    2.0489185894690638e-07,
    2.266668990498178e-08,
    3.3962320257083865e-09,
    4.94060238822497e-10,
    1.1889147107846439e-11,
    -3.1499165279632416e-11,
    -1.3215811840447713e-11,
    -1.7941785315068062e-12,
    7.180124451383666e-13,
    3.8527783827421426e-13,
    1.54008621752141e-14,
    -4.150569347287222e-14,
    -9.554846698828307e-15,
    3.8116806693526224e-15,
    1.7725601330565263e-15,
    -3.425485619677219e-16,
    -2.8276239805165836e-16,
    3.461222867697461e-17,
    4.46562142029676e-17,
    -4.830504485944182e-18,
    -7.233180487874754e-18,
)
_FAR_1 = (
    0.38928811750914005,
    -0.009761097491361469,
    -0.00011058893876262371,
    -3.882564808877691e-06,
    -2.512236237870209e-07,
    -2.6314688468895196e-08,
    -3.835380385964237e-09,
    -5.589743462196584e-10,
    -1.8974958123505413e-11,
    3.2526035830154884e-11,
    1.4125807436613782e-11,
    2.0356285441470896e-12,
    -7.198551776245908e-13,
    -4.0835511110921974e-13,
    -2.1015418427726643e-14,
    4.272440016711951e-14,
    1.0420276984128802e-14,
    -3.8144030724370075e-15,
    -1.8803547755107825e-15,
    3.3082023109209285e-16,
    2.96262899764595e-16,
    -3.209525921993424e-17,
    -4.6503053684893586e-17,
    4.414348323071708e-18,
    7.517296310842105e-18,
)


def _chebyshev(name: str, coefficients: tuple[float, ...]) -> str:
    """Clenshaw's recurrence, written out."""
    lines = [f"def {name}(t):", "    u = t + t", "    b0 = 0.0", "    b1 = 0.0"]
    for coefficient in coefficients[:0:-1]:
        lines += [f"    b0, b1 = libdevice.fma(u, b0, {coefficient!r} - b1), b0"]
    lines += [f"    return libdevice.fma(t, b0, {coefficients[0]!r} - b1)"]
    return "\n".join(lines) + "\n"


_TEXTS = {
    "bessel_i0_near": _chebyshev("bessel_i0_near", _NEAR_0),
    "bessel_i1_near": _chebyshev("bessel_i1_near", _NEAR_1),
    "bessel_i0_far": _chebyshev("bessel_i0_far", _FAR_0),
    "bessel_i1_far": _chebyshev("bessel_i1_far", _FAR_1),
    "i0e": """\
def i0e(x):
    size = libdevice.fabs(x)
    if size <= 8.0:
        return bessel_i0_near(size * 0.25 - 1.0)
    return bessel_i0_far(16.0 / size - 1.0) / libdevice.dsqrt_rn(size)
""",
    "i1e": """\
def i1e(x):
    size = libdevice.fabs(x)
    if size <= 8.0:
        return x * bessel_i1_near(size * 0.25 - 1.0)
    result = bessel_i1_far(16.0 / size - 1.0) / libdevice.dsqrt_rn(size)
    return libdevice.copysign(result, x)
""",
    # By halves, as exp(x) alone may overflow.
    "i0": """\
def i0(x):
    half = libdevice.exp(libdevice.fabs(x) * 0.5)
    return i0e(x) * half * half
""",
    "i1": """\
def i1(x):
    half = libdevice.exp(libdevice.fabs(x) * 0.5)
    return i1e(x) * half * half
""",
    "k0": "def k0(x):\n    return modified_bessel_k(0.0, x, x)\n",
    "k1": "def k1(x):\n    return modified_bessel_k(1.0, x, x)\n",
    "k0e": "def k0e(x):\n    return modified_bessel_k(0.0, x, 0.0)\n",
    "k1e": "def k1e(x):\n    return modified_bessel_k(1.0, x, 0.0)\n",
    "j0": "def j0(x):\n    return libdevice.j0(x)\n",
    "j1": "def j1(x):\n    return libdevice.j1(x)\n",
    "y0": "def y0(x):\n    return libdevice.y0(x)\n",
    "y1": "def y1(x):\n    return libdevice.y1(x)\n",
    "rgamma": """\
def rgamma(x):
    if x <= 0.0 and libdevice.floor(x) == x:
        return 0.0
    if x > 170.0:
        return libdevice.exp(-libdevice.lgamma(x))
    return 1.0 / libdevice.tgamma(x)
""",
    # Of the sum of Euler and Maclaurin, as in `polygamma.py`; far left of zero, by reflection.
    "zetac": """\
def zetac(x):
    if x == 1.0:
        return float64(inf)
    if x < -0.5:
        y = 1.0 - x
        scale = (x - 1.0) * 1.8378770664093453
        if y < 170.0:
            growth = libdevice.tgamma(y) * libdevice.exp(scale)
        else:
            growth = libdevice.exp(libdevice.lgamma(y) + scale)
        half = x * 0.5
        wave = libdevice.sinpi(half - 2.0 * libdevice.floor(half * 0.5))
        return 2.0 * growth * wave * (1.0 + zetac_right(y)) - 1.0
    return zetac_right(x)
""",
    "zetac_right": """\
def zetac_right(x):
    total = 0.0
    k = 9.0
    while k > 1.0:
        total = total + libdevice.pow(k, -x)
        k = k - 1.0
    if x > 60.0:
        return total
    last = libdevice.pow(10.0, -x)
    tail = 10.0 / (x - 1.0) + 0.5
    factor = x * 0.1
    tail = libdevice.fma(factor, 0.08333333333333333, tail)
    factor = factor * (x + 1.0) * (x + 2.0) * 0.01
    tail = libdevice.fma(factor, -0.001388888888888889, tail)
    factor = factor * (x + 3.0) * (x + 4.0) * 0.01
    tail = libdevice.fma(factor, 3.306878306878307e-05, tail)
    factor = factor * (x + 5.0) * (x + 6.0) * 0.01
    tail = libdevice.fma(factor, -8.267195767195768e-07, tail)
    factor = factor * (x + 7.0) * (x + 8.0) * 0.01
    tail = libdevice.fma(factor, 2.08767569878681e-08, tail)
    factor = factor * (x + 9.0) * (x + 10.0) * 0.01
    tail = libdevice.fma(factor, -5.284190138687493e-10, tail)
    factor = factor * (x + 11.0) * (x + 12.0) * 0.01
    tail = libdevice.fma(factor, 1.3382536530684679e-11, tail)
    factor = factor * (x + 13.0) * (x + 14.0) * 0.01
    tail = libdevice.fma(factor, -3.3896802963225827e-13, tail)
    factor = factor * (x + 15.0) * (x + 16.0) * 0.01
    tail = libdevice.fma(factor, 8.586062056277845e-15, tail)
    return libdevice.fma(last, tail, total)
""",
    # For arguments that are not both positive; `beta` is regular at negative integers where the
    # other argument is an integer below.
    "is_pole": """\
def is_pole(x):
    return x <= float64(0.0) and libdevice.floor(x) == x
""",
    "betaln": """\
def betaln(a, b):
    if is_pole(a) or is_pole(b):
        other = b if is_pole(a) else a
        rest = 1.0 - a - b
        if libdevice.floor(other) == other and other > 0.0 and rest > 0.0:
            return libdevice.lgamma(rest) + libdevice.lgamma(other) - libdevice.lgamma(rest + other)
        return float64(inf)
    return libdevice.lgamma(a) + libdevice.lgamma(b) - libdevice.lgamma(a + b)
""",
    "beta": """\
def beta(a, b):
    if is_pole(a) or is_pole(b):
        other = b if is_pole(a) else a
        sign = 1.0 - 2.0 * (other - 2.0 * libdevice.floor(other * 0.5))
        size = libdevice.exp(betaln(a, b))
        return sign * size if size < float64(inf) else size
    return libdevice.tgamma(a) * (libdevice.tgamma(b) * rgamma(a + b))
""",
    "exp1": """\
def exp1(x):
    if not x >= 0.0:
        return float64(nan)
    if x == 0.0:
        return float64(inf)
    if x > 750.0:
        return 0.0
    if x <= 1.5:
        total = 0.0
        term = -1.0
        k = 1.0
        while libdevice.fabs(term) > 1e-18:
            term = term * (-x / k)
            total = total + term / k
            k = k + 1.0
        return total - (libdevice.log(x) + 0.5772156649015329)
    b = x + 1.0
    c = 1e300
    d = 1.0 / b
    result = d
    k = 1.0
    factor = 0.0
    while libdevice.fabs(factor - 1.0) > 2e-16 and k < 200.0:
        a = -k * k
        b = b + 2.0
        d = 1.0 / (a * d + b)
        c = b + a / c
        factor = c * d
        result = result * factor
        k = k + 1.0
    return result * libdevice.exp(-x)
""",
    "expi": """\
def expi(x):
    if x < 0.0:
        return -exp1(-x)
    if x == 0.0:
        return float64(-inf)
    if not x < 717.0:
        return x + x if x != x else float64(inf)
    term = 1.0
    total = 0.0
    k = 1.0
    if x <= 40.0:
        while k <= x or term > 1e-17 * total:
            term = term * (x / k)
            total = total + term / k
            k = k + 1.0
        if libdevice.fabs(x - 0.37250741078136663) < 0.25:
            # Near the zero, from there: the sum would cancel.
            return expi_near_zero(x)
        return total + (libdevice.log(x) + 0.5772156649015329)
    while k <= x and term > 1e-17:
        term = term * (k / x)
        total = total + term
        k = k + 1.0
    half = libdevice.exp(x * 0.5)
    return half * ((1.0 + total) / x) * half
""",
    # The sum of (x**k - z**k) / (k k!) at the zero z, and log(x / z).
    "expi_near_zero": """\
def expi_near_zero(x):
    zero = 0.37250741078136663
    change = (x - zero) + 1.3140183414386028e-17
    total = 0.0
    difference = change
    power = zero
    factorial = 1.0
    k = 1.0
    while k < 25.0:
        total = total + difference / (k * factorial)
        difference = difference * x + power * change
        power = power * zero
        k = k + 1.0
        factorial = factorial * k
    return total + libdevice.log1p(change / zero)
""",
    "sine_integral": """\
def sine_integral(x):
    size = libdevice.fabs(x)
    if size > 1e300:
        return x if x != x else libdevice.copysign(1.5707963267948966, x)
    if size <= 4.0:
        square = size * size
        term = size
        total = size
        k = 1.0
        while libdevice.fabs(term) > 1e-18 * total:
            term = term * (-square / ((k + 1.0) * (k + 2.0)))
            k = k + 2.0
            total = total + term / k
        return libdevice.copysign(total, x)
    both = trigonometric_integrals(size)
    return libdevice.copysign(1.5707963267948966 + both.imag, x)
""",
    "cosine_integral": """\
def cosine_integral(x):
    size = libdevice.fabs(x)
    if size > 1e300:
        return x if x != x else 0.0
    if size == 0.0:
        return float64(-inf)
    if size <= 4.0:
        square = size * size
        term = 1.0
        total = 0.0
        k = 0.0
        while libdevice.fabs(term) > 1e-18:
            term = term * (-square / ((k + 1.0) * (k + 2.0)))
            k = k + 2.0
            total = total + term / k
        return total + (libdevice.log(size) + 0.5772156649015329)
    return -trigonometric_integrals(size).real
""",
    # E1(i t), a continued fraction.
    "trigonometric_integrals": """\
def trigonometric_integrals(t):
    b_real = 1.0
    d_real = 1.0 / (1.0 + t * t)
    d_imag = -t * d_real
    c_real = 1e300
    c_imag = 0.0
    h_real = d_real
    h_imag = d_imag
    k = 1.0
    change = 1.0
    while change > 1e-16 and k < 300.0:
        a = -k * k
        b_real = b_real + 2.0
        n_real = a * d_real + b_real
        n_imag = a * d_imag + t
        size = 1.0 / (n_real * n_real + n_imag * n_imag)
        d_real = n_real * size
        d_imag = -n_imag * size
        size = a / (c_real * c_real + c_imag * c_imag) if k > 1.0 else 0.0
        new_real = b_real + c_real * size
        c_imag = t - c_imag * size
        c_real = new_real
        f_real = c_real * d_real - c_imag * d_imag
        f_imag = c_real * d_imag + c_imag * d_real
        new_real = h_real * f_real - h_imag * f_imag
        h_imag = h_real * f_imag + h_imag * f_real
        h_real = new_real
        change = libdevice.fabs(f_real - 1.0) + libdevice.fabs(f_imag)
        k = k + 1.0
    cosine = libdevice.cos(t)
    sine = libdevice.sin(t)
    return complex(cosine * h_real + sine * h_imag, cosine * h_imag - sine * h_real)
""",
    # x**a exp(-x) / gamma(a); for larger a by Stirling's formula, whose terms do not cancel.
    "gamma_density": """\
def gamma_density(a, x):
    if a < 10.0:
        if x < 500.0:
            return libdevice.pow(x, a) * libdevice.exp(-x) / libdevice.tgamma(a)
        return libdevice.exp(a * libdevice.log(x) - x - libdevice.lgamma(a))
    t = (x - a) / a
    inverse = 1.0 / a
    square = inverse * inverse
    rest = libdevice.fma(square, 0.00641025641025641, -0.0019175269175269176)
    rest = libdevice.fma(square, rest, 0.0008417508417508417)
    rest = libdevice.fma(square, rest, -0.0005952380952380953)
    rest = libdevice.fma(square, rest, 0.0007936507936507937)
    rest = libdevice.fma(square, rest, -0.002777777777777778)
    rest = libdevice.fma(square, rest, 0.08333333333333333)
    scale = libdevice.dsqrt_rn(a * 0.15915494309189535)
    return scale * libdevice.exp(a * (libdevice.log1p(t) - t) - rest * inverse)
""",
    # The lower one by its series, where x < a + 1; the upper one by its fraction.
    "gamma_series": """\
def gamma_series(a, x):
    term = 1.0 / a
    total = term
    k = a
    while term > 1e-17 * total:
        k = k + 1.0
        term = term * (x / k)
        total = total + term
    return total * gamma_density(a, x)
""",
    "gamma_fraction": """\
def gamma_fraction(a, x):
    b = x + 1.0 - a
    c = 1e300
    d = 1.0 / b
    result = d
    k = 1.0
    factor = 0.0
    while libdevice.fabs(factor - 1.0) > 2e-16 and k < 100000.0:
        step = k * (a - k)
        b = b + 2.0
        d = 1.0 / (step * d + b)
        c = b + step / c
        factor = c * d
        result = result * factor
        k = k + 1.0
    return result * gamma_density(a, x)
""",
    "gammainc": "def gammainc(a, x):\n    return incomplete_gamma(a, x, 1.0)\n",
    "gammaincc": "def gammaincc(a, x):\n    return incomplete_gamma(a, x, 0.0)\n",
    # The share of the density up to x, or of the rest: `last` is what that is for infinite x.
    "incomplete_gamma": """\
def incomplete_gamma(a, x, last):
    if a != a or x != x or a < 0.0 or x < 0.0 or (a == 0.0 and x == 0.0):
        return float64(nan)
    if a == 0.0 or x == float64(inf):
        return float64(nan) if a == x else last
    if x == 0.0 or a == float64(inf):
        return 1.0 - last
    if x < a + 1.0:
        below = gamma_series(a, x)
        return below if last == 1.0 else 1.0 - below
    above = gamma_fraction(a, x)
    return above if last == 0.0 else 1.0 - above
""",
    "beta_fraction": """\
def beta_fraction(a, b, x):
    total = a + b
    c = 1.0
    d = 1.0 / (1.0 - total * x / (a + 1.0))
    result = d
    k = 1.0
    factor = 0.0
    while libdevice.fabs(factor - 1.0) > 2e-16 and k < 100000.0:
        twice = a + 2.0 * k
        step = k * (b - k) * x / ((twice - 1.0) * twice)
        d = 1.0 / (1.0 + step * d)
        c = 1.0 + step / c
        result = result * d * c
        step = -(a + k) * (total + k) * x / (twice * (twice + 1.0))
        d = 1.0 / (1.0 + step * d)
        c = 1.0 + step / c
        factor = d * c
        result = result * factor
        k = k + 1.0
    log_density = a * libdevice.log(x) + b * libdevice.log1p(-x) - betaln_float64(a, b)
    return result * libdevice.exp(log_density) / a
""",
    "betainc": """\
def betainc(a, b, x):
    if a != a or b != b or x != x or a <= 0.0 or b <= 0.0 or x < 0.0 or x > 1.0:
        return float64(nan)
    if x == 0.0 or x == 1.0:
        return x
    if x * (a + b + 2.0) < a + 1.0:
        return beta_fraction(a, b, x)
    return 1.0 - beta_fraction(b, a, 1.0 - x)
""",
}
SPECIAL = _TEXTS | confluent_functions.TEXTS | complex_special_functions.TEXTS
