"""Functions of complex numbers for GPUs: texts as those of `special_functions.py`.

Branches are SciPy's. A function of z = x + i y takes the two parts and returns a complex number.

Sources: the gamma functions by Stirling's formula (DLMF 5.11), shifts and reflection, branches
after Hare (1997); exponential integrals by DLMF 6.6, 6.9 and 6.12; Faddeeva's function by the
trapezoidal and midpoint rules with residues of Al Azah and Chandler-Wilde (2021). Coefficients:
mpmath.
"""

# log(gamma(1 + w)) in w, from w**2; what Stirling's formula has in 1/z**2, and what its derivative.
_NEAR_ONE = (
    0.8224670334241132,
    -0.40068563438653143,
    0.27058080842778454,
    -0.20738555102867398,
    0.1695571769974082,
    -0.1440498967688461,
    0.12550966952474304,
    -0.11133426586956469,
    0.1000994575127818,
    -0.09095401714582904,
    0.083353840546109,
    -0.0769325164113522,
    0.07143294629536133,
    -0.06666870588242046,
    0.06250095514121304,
    -0.058823978658684585,
)
_STIRLING = (
    0.08333333333333333,
    -0.002777777777777778,
    0.0007936507936507937,
    -0.0005952380952380953,
    0.0008417508417508417,
    -0.0019175269175269176,
    0.00641025641025641,
    -0.029550653594771242,
)
_SLOPE = (
    0.08333333333333333,
    -0.008333333333333333,
    0.003968253968253968,
    -0.004166666666666667,
    0.007575757575757576,
    -0.021092796092796094,
    0.08333333333333333,
    -0.4432598039215686,
)
# Squares of the rules' nodes, and exp(-node**2): the odd ones are the midpoint rule's.
_NODES = (
    (0.06544984694978737, 0.9366460212365959),
    (0.26179938779914946, 0.7696654124932398),
    (0.5890486225480862, 0.5548549101598534),
    (1.0471975511965979, 0.350919807178411),
    (1.636246173744684, 0.1947095780852903),
    (2.356194490192345, 0.09478022484215486),
    (3.2070425005395804, 0.04047614460380574),
    (4.188790204786391, 0.01516461986454657),
    (5.301437602932776, 0.004984423132468586),
    (6.544984694978736, 0.0014373060804075317),
    (7.9194314809242705, 0.00036360898638930446),
    (9.42477796076938, 8.06995175703046e-05),
    (11.061024134514064, 1.571296901780048e-05),
    (12.828170002158322, 2.684086793096743e-06),
    (14.726215563702155, 4.022405421564814e-07),
    (16.755160819145566, 5.2884221169441576e-08),
    (18.915005768488548, 6.0998249159121596e-09),
    (21.205750411731103, 6.17247886522431e-10),
    (23.627394748873236, 5.479650239757527e-11),
    (26.179938779914945, 4.267731135455224e-12),
    (28.863382504856226, 2.916031755179499e-13),
    (31.677725923697082, 1.7479879405655014e-14),
    (34.62296903643751, 9.192541525134372e-16),
)


def _polynomial(name: str, coefficients: tuple[float, ...]) -> str:
    """Horner's scheme, written out."""
    lines = [f"def {name}(z):", f"    result = complex({coefficients[-1]!r}, 0.0)"]
    lines += [f"    result = result * z + {c!r}" for c in coefficients[-2::-1]]
    return "\n".join([*lines, "    return result\n"])


def _rule(name: str, nodes: tuple[tuple[float, float], ...]) -> str:
    """The sum of weight / (z**2 - node**2), written out."""
    lines = [f"def {name}(square):", "    result = complex(0.0, 0.0)"]
    lines += [f"    result = result + {w!r} * inverse_of(square - {n!r})" for n, w in nodes]
    return "\n".join([*lines, "    return result\n"])


TEXTS = {
    "inverse_of": """\
def inverse_of(z):
    size = 1.0 / (z.real * z.real + z.imag * z.imag)
    return complex(z.real * size, -z.imag * size)
""",
    # The gamma functions.
    "loggamma_near_one": _polynomial("loggamma_near_one", _NEAR_ONE),
    "loggamma_rest": _polynomial("loggamma_rest", _STIRLING),
    "digamma_rest": _polynomial("digamma_rest", _SLOPE),
    "loggamma_far": """\
def loggamma_far(z):
    inverse = inverse_of(z)
    rest = inverse * loggamma_rest(inverse * inverse)
    return (z - 0.5) * log_complex128(z) - z + 0.9189385332046728 + rest
""",
    # Of arguments in the upper half plane, right of 0.1 where they are small.
    "loggamma_right": """\
def loggamma_right(z):
    if z.real > 7.0 or z.imag > 7.0:
        return loggamma_far(z)
    change = z - 1.0
    if libdevice.fabs(change.real) + libdevice.fabs(change.imag) < 0.1:
        return change * (change * loggamma_near_one(change) - 0.5772156649015329)
    change = z - 2.0
    if libdevice.fabs(change.real) + libdevice.fabs(change.imag) < 0.1:
        near = change * (change * loggamma_near_one(change) - 0.5772156649015329)
        return near + log_complex128(z - 1.0)
    # The logarithm of a product of factors whose phases add up: a turn for each change of sign.
    product = z
    turns = 0.0
    was_below = False
    z = z + 1.0
    while z.real <= 7.0:
        product = product * z
        is_below = product.imag < 0.0
        if is_below and not was_below:
            turns = turns + 1.0
        was_below = is_below
        z = z + 1.0
    return loggamma_far(z) - log_complex128(product) - complex(0.0, 6.283185307179586 * turns)
""",
    "complex_loggamma": """\
def complex_loggamma(x, y):
    if x != x or y != y or (x <= 0.0 and y == 0.0 and libdevice.floor(x) == x):
        return complex(float64(nan), float64(nan))
    size = libdevice.fabs(y)
    if x >= 0.1 or size > 7.0:
        result = loggamma_right(complex(x, size))
    else:
        reduced = x - 2.0 * libdevice.rint(x * 0.5)
        wave = complex(
            libdevice.sinpi(reduced) * libdevice.cosh(3.141592653589793 * size),
            libdevice.cospi(reduced) * libdevice.sinh(3.141592653589793 * size),
        )
        turn = 6.283185307179586 * libdevice.floor(0.5 * x + 0.25)
        other = loggamma_right(complex(1.0 - x, size))
        other = complex(other.real, -other.imag)
        result = complex(1.1447298858494002, turn) - log_complex128(wave) - other
    return complex(result.real, libdevice.copysign(1.0, y) * result.imag)
""",
    "complex_gamma": """\
def complex_gamma(x, y):
    return exp_complex128(complex_loggamma(x, y))
""",
    "complex_rgamma": """\
def complex_rgamma(x, y):
    if x <= 0.0 and y == 0.0 and libdevice.floor(x) == x:
        return complex(0.0, 0.0)
    return exp_complex128(-complex_loggamma(x, y))
""",
    "complex_psi": """\
def complex_psi(x, y):
    if x <= 0.0 and y == 0.0 and libdevice.floor(x) == x:
        return complex(float64(nan), float64(nan))
    if x == float64(inf) and y == 0.0:
        return complex(x, y)
    z = complex(x, y)
    result = complex(0.0, 0.0)
    if x < 0.0 and libdevice.fabs(y) < 16.0:
        turn = complex(
            3.141592653589793 * (x - libdevice.rint(x)), 3.141592653589793 * y
        )
        result = -3.141592653589793 * inverse_of(tan_complex128(turn))
        z = 1.0 - z
    while z.real < 10.0 and libdevice.fabs(z.imag) < 16.0:
        result = result - reciprocal_complex128(z)
        z = z + 1.0
    inverse = inverse_of(z)
    square = inverse * inverse
    return result + (log_complex128(z) - 0.5 * inverse - square * digamma_rest(square))
""",
    # Exponential integrals. Next to the negative axis the series has few digits to lose.
    "complex_exp1": """\
def complex_exp1(x, y):
    z = complex(x, y)
    size = libdevice.hypot(x, y)
    if size == 0.0:
        return complex(float64(inf), libdevice.copysign(0.0, -y))
    height = libdevice.fabs(y)
    if size < 2.0 or (x < 0.0 and size < 5.0) or (x < -2.0 * height and size < 40.0):
        term = complex(-1.0, 0.0)
        total = complex(0.0, 0.0)
        k = 1.0
        change = 1.0
        magnitude = 0.0
        while change > 1e-17 * magnitude:
            term = term * (z * (-1.0 / k))
            total = total + term * (1.0 / k)
            change = (libdevice.fabs(term.real) + libdevice.fabs(term.imag)) / k
            magnitude = libdevice.fmax(magnitude, change)
            k = k + 1.0
        return total - log_complex128(z) - 0.5772156649015329
    if size > 40.0:
        inverse = -inverse_of(z)
        term = complex(1.0, 0.0)
        total = complex(1.0, 0.0)
        k = 1.0
        while k < 40.0:
            term = term * (inverse * k)
            total = total + term
            k = k + 1.0
        result = exp_complex128(-z) * (-inverse * total)
        if x < 0.0 and height <= -0.1 * x:
            result = result - complex(0.0, libdevice.copysign(3.141592653589793, y))
        return result
    b = z + 1.0
    c = complex(1e300, 0.0)
    d = inverse_of(b)
    result = d
    k = 1.0
    change = 1.0
    while change > 2e-16 and k < 1000.0:
        a = -k * k
        b = b + 2.0
        d = inverse_of(d * a + b)
        c = b + inverse_of(c) * a if k > 1.0 else b
        factor = c * d
        result = result * factor
        change = libdevice.fabs(factor.real - 1.0) + libdevice.fabs(factor.imag)
        k = k + 1.0
    return result * exp_complex128(-z)
""",
    "complex_expi": """\
def complex_expi(x, y):
    result = -complex_exp1(-x, -y)
    if y == 0.0 and not x > 0.0:
        return result
    return result + complex(0.0, libdevice.copysign(3.141592653589793, y))
""",
    "complex_sine_integral": """\
def complex_sine_integral(x, y):
    if libdevice.fabs(x) == float64(inf) and y == 0.0:
        return complex(libdevice.copysign(1.5707963267948966, x), 0.0)
    z = complex(x, y)
    if libdevice.hypot(x, y) < 2.0:
        square = z * z
        term = z
        total = z
        k = 1.0
        while k < 30.0:
            term = term * (square * (-1.0 / ((k + 1.0) * (k + 2.0))))
            k = k + 2.0
            total = total + term * (1.0 / k)
        return total
    difference = complex_expi(-y, x) - complex_expi(y, -x)
    half = complex(0.5 * difference.imag, -0.5 * difference.real)
    if x == 0.0:
        return half
    return half - libdevice.copysign(1.5707963267948966, x)
""",
    "complex_cosine_integral": """\
def complex_cosine_integral(x, y):
    z = complex(x, y)
    if libdevice.fabs(x) == float64(inf) and y == 0.0:
        return complex(0.0, 0.0 if x > 0.0 else 3.141592653589793)
    size = libdevice.hypot(x, y)
    if size == 0.0:
        return complex(float64(-inf), float64(nan))
    if size < 2.0:
        square = z * z
        term = complex(1.0, 0.0)
        total = complex(0.0, 0.0)
        k = 0.0
        while k < 30.0:
            term = term * (square * (-1.0 / ((k + 1.0) * (k + 2.0))))
            k = k + 2.0
            total = total + term * (1.0 / k)
        if y == 0.0 and size >= 0.8:  # the upper side of the cut, by SciPy's other formula
            z = complex(x, 0.0)
        return total + (log_complex128(z) + 0.5772156649015329)
    half = (complex_expi(-y, x) + complex_expi(y, -x)) * 0.5
    if x > 0.0:
        return half
    turn = 3.141592653589793 if x < 0.0 else 1.5707963267948966
    return half + complex(0.0, turn if y >= 0.0 else -turn)
""",
    # Faddeeva's function in the first quadrant, with the rule whose nodes are far from z.
    "trapezoidal_rule": _rule("trapezoidal_rule", _NODES[1::2]),
    "midpoint_rule": _rule("midpoint_rule", _NODES[::2]),
    "faddeeva_quadrant": """\
def faddeeva_quadrant(x, y):
    z = complex(x, y)
    if x == float64(inf) or y == float64(inf):
        return complex(0.0, 0.0)
    if x > 1e8 or y > 1e8:
        inverse = inverse_of(z * 1e-150) * 5.641895835477563e-151
        return complex(-inverse.imag, inverse.real)
    square = complex((x - y) * (x + y), 2.0 * x * y)
    if y >= x and y >= 6.139960247678931:
        part = midpoint_rule(square) * z * 0.32573500793527993
        return complex(-part.imag, part.real)
    gauss = exp_complex128(-square)
    turn = exp_complex128(complex(-12.279920495357862 * y, 12.279920495357862 * x))
    steps = x / 0.5116633539732443
    steps = steps - libdevice.floor(steps)
    if y < x and steps >= 0.25 and steps <= 0.75:
        part = trapezoidal_rule(square) * z * 0.32573500793527993
        part = part + inverse_of(z) * 0.16286750396763997
        residue = 2.0 * gauss * turn * inverse_of(turn - 1.0)
    else:
        part = midpoint_rule(square) * z * 0.32573500793527993
        residue = 2.0 * gauss * turn * inverse_of(turn + 1.0)
    return residue + complex(-part.imag, part.real)
""",
    "faddeeva": """\
def faddeeva(x, y):
    upper = faddeeva_quadrant(libdevice.fabs(x), libdevice.fabs(y))
    # What is left of the imaginary axis is mirrored, what is below the real one is mirrored twice.
    if (x < 0.0) != (y < 0.0):
        upper = complex(upper.real, -upper.imag)
    if y >= 0.0:
        return upper
    gauss = gaussian(x, y)
    return gauss + gauss - upper
""",
    # exp(-z**2)
    "gaussian": """\
def gaussian(x, y):
    if x == 0.0 or y == 0.0:
        return complex(libdevice.exp((y - x) * (x + y)), 0.0)
    return exp_complex128(complex((y - x) * (x + y), -2.0 * x * y))
""",
    "complex_erfcx": """\
def complex_erfcx(x, y):
    return faddeeva(-y, x)
""",
    "complex_erfc": """\
def complex_erfc(x, y):
    if x >= 0.0:
        return gaussian(x, y) * faddeeva(-y, x)
    return 2.0 - gaussian(x, y) * faddeeva(y, -x)
""",
    "complex_erf": """\
def complex_erf(x, y):
    if libdevice.fabs(x) + libdevice.fabs(y) < 1.5:
        z = complex(x, y)
        square = -(z * z)
        term = z
        total = z
        k = 1.0
        while k < 26.0:
            term = term * (square * (1.0 / k))
            total = total + term * (1.0 / (2.0 * k + 1.0))
            k = k + 1.0
        return total * 1.1283791670955126
    if x >= 0.0:
        return 1.0 - gaussian(x, y) * faddeeva(-y, x)
    return gaussian(x, y) * faddeeva(y, -x) - 1.0
""",
    "complex_ndtr": """\
def complex_ndtr(x, y):
    return 0.5 * complex_erfc(-0.7071067811865476 * x, -0.7071067811865476 * y)
""",
    "complex_log_ndtr": """\
def complex_log_ndtr(x, y):
    x = x * 0.7071067811865476
    y = y * 0.7071067811865476
    if x > 0.0:
        rest = -0.5 * complex_erfc(x, y)
        if libdevice.fabs(rest.real) + libdevice.fabs(rest.imag) < 0.5:
            return log1p_complex128(rest)
    near = log_complex128(faddeeva(y, -x))
    phase = near.imag - 2.0 * x * y
    phase = phase - 6.283185307179586 * libdevice.rint(phase * 0.15915494309189535)
    return complex((y - x) * (x + y) + near.real - 0.6931471805599453, phase)
""",
}
