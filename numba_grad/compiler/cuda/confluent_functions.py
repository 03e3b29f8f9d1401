"""Bessel functions of any real order, modified ones too, and Kummer's function for GPUs, of real
and complex numbers: texts as those of `special_functions.py`.

Sources: DLMF 10.2, 10.4, 10.17, 10.6, 10.25 and 10.40; Steed's method for Bessel functions after
Barnett (1981); DLMF 13.2, 13.3 and 13.7, and the recurrence of Laguerre's polynomials (18.9).
"""

from numba_grad.ops.series import MOST_TERMS

TEXTS = {
    # By the power series, of which no term exceeds the first one where it counts; by Hankel's
    # expansion for large x; by continued fractions between. NaN where those took too long.
    "jv": """\
def jv(v, x):
    if not libdevice.fabs(v) + libdevice.fabs(x) < float64(inf):
        return float64(nan)
    is_whole = libdevice.floor(v) == v
    sign = 1.0
    if is_whole:
        if (v < 0.0) != (x < 0.0) and v - 2.0 * libdevice.floor(v * 0.5) == 1.0:
            sign = -1.0
        v = libdevice.fabs(v)
    elif x < 0.0:
        return float64(nan)
    x = libdevice.fabs(x)
    if x == 0.0 and v >= 0.0:
        return 1.0 if v == 0.0 else 0.0
    if x < 2.0 or x * x <= 4.0 * (v + 1.0):
        return sign * bessel_series(v, x)
    if x > 30.0 and 2.0 * x > v * v:
        return sign * bessel_far(v, x).real
    if v >= 0.0:
        return sign * bessel_pair(v, x).real
    both = bessel_pair(-v, x)
    half = -v * 0.5
    turn = 2.0 * (half - libdevice.floor(half))
    return libdevice.cospi(turn) * both.real - libdevice.sinpi(turn) * both.imag
""",
    "bessel_series": """\
def bessel_series(v, x):
    half = x * 0.5
    square = half * half
    term = 1.0
    total = 1.0
    k = 1.0
    # Terms may grow again before k passes -v; of orders so low they overflow long before.
    while libdevice.fabs(term) > 1e-17 * libdevice.fabs(total) or (k + v < 0.0 and k < 1000.0):
        term = term * (-square / (k * (k + v)))
        total = total + term
        k = k + 1.0
    if v < 100.0:
        return total * rgamma(v + 1.0) * libdevice.pow(half, v)
    return total * libdevice.exp(v * libdevice.log(half) - libdevice.lgamma(v + 1.0))
""",
    # J and Y. Sine and cosine of x - (v / 2 + 1 / 4) pi by theorems, for x has to be reduced
    # exactly.
    "bessel_far": """\
def bessel_far(v, x):
    fourfold = 4.0 * v * v
    even = 1.0
    odd = 0.0
    term = 1.0
    k = 1.0
    while libdevice.fabs(term) > 1e-17:
        rise = 2.0 * k - 1.0
        term = term * ((fourfold - rise * rise) / (8.0 * k * x))
        odd = odd + term
        rise = rise + 2.0
        k = k + 1.0
        term = term * ((rise * rise - fourfold) / (8.0 * k * x))
        even = even + term
        k = k + 1.0
    phase = v * 0.5 + 0.25
    phase = phase - 2.0 * libdevice.floor(phase * 0.5)
    turned_cosine = libdevice.cospi(phase)
    turned_sine = libdevice.sinpi(phase)
    cosine = libdevice.cos(x)
    sine = libdevice.sin(x)
    wave = cosine * turned_cosine + sine * turned_sine
    other = sine * turned_cosine - cosine * turned_sine
    scale = libdevice.dsqrt_rn(0.6366197723675814 / x)
    return complex(scale * (even * wave - odd * other), scale * (even * other + odd * wave))
""",
    # J and Y of an order that is not negative, for x >= 2: the fraction of J'/J, down to an order
    # near x by recurrence, there the fraction of (J' + iY') / (J + iY), and up again.
    "bessel_pair": """\
def bessel_pair(v, x):
    inverse = 1.0 / x
    steps = libdevice.fmax(0.0, libdevice.floor(v - x + 1.5))
    if steps > 300000.0:
        return complex(float64(nan), float64(nan))
    mu = v - steps
    sign = 1.0
    slope = libdevice.fmax(v * inverse, 1e-300)
    d = 0.0
    c = slope
    factor = 0.0
    k = 0.0
    while libdevice.fabs(factor - 1.0) > 2e-16:
        k = k + 1.0
        b = 2.0 * (v + k) / x
        d = b - d
        if libdevice.fabs(d) < 1e-300:
            d = 1e-300
        c = b - 1.0 / c
        if libdevice.fabs(c) < 1e-300:
            c = 1e-300
        d = 1.0 / d
        factor = c * d
        slope = factor * slope
        if d < 0.0:
            sign = -sign
        if k > 300000.0:
            return complex(float64(nan), float64(nan))
    start = sign * 1e-300
    j = start
    j_slope = slope * start
    k = steps
    while k > 0.0:
        below = (mu + k) / x * j + j_slope
        j_slope = (mu + (k - 1.0)) / x * below - j
        j = below
        k = k - 1.0
    if j == 0.0:
        j = 1e-300
    f = j_slope / j
    a = 0.25 - mu * mu
    p = -0.5 * inverse
    q = 1.0
    b_real = 2.0 * x
    b_imag = 2.0
    size = a * inverse / (p * p + q * q)
    c_real = b_real + q * size
    c_imag = b_imag + p * size
    size = 1.0 / (b_real * b_real + b_imag * b_imag)
    d_real = b_real * size
    d_imag = -b_imag * size
    change = 1.0
    k = 2.0
    while change > 2e-16 and k < 10000.0:
        f_real = c_real * d_real - c_imag * d_imag
        f_imag = c_real * d_imag + c_imag * d_real
        new_p = p * f_real - q * f_imag
        q = p * f_imag + q * f_real
        p = new_p
        change = libdevice.fabs(f_real - 1.0) + libdevice.fabs(f_imag)
        a = a + 2.0 * (k - 1.0)
        b_imag = b_imag + 2.0
        d_real = a * d_real + b_real
        d_imag = a * d_imag + b_imag
        size = a / (c_real * c_real + c_imag * c_imag)
        c_real = b_real + c_real * size
        c_imag = b_imag - c_imag * size
        size = 1.0 / (d_real * d_real + d_imag * d_imag)
        d_real = d_real * size
        d_imag = -d_imag * size
        k = k + 1.0
    gamma = (p - f) / q
    size = libdevice.dsqrt_rn(0.6366197723675814 * inverse / ((p - f) * gamma + q))
    j_mu = libdevice.copysign(size, j)
    y = j_mu * gamma
    above = mu * inverse * y - (y * p + j_mu * q)
    k = 1.0
    while k <= steps:
        new = (mu + k) * 2.0 * inverse * above - y
        y = above
        above = new
        k = k + 1.0
    return complex(start / j * j_mu, y)
""",
    "yv": """\
def yv(v, x):
    if x < 0.0 or not libdevice.fabs(v) + x < float64(inf):
        return float64(nan)
    order = libdevice.fabs(v)
    half = order * 0.5
    turn = 2.0 * (half - libdevice.floor(half))
    if x == 0.0:
        return -float64(inf) if v >= 0.0 or libdevice.cospi(turn) >= 0.0 else float64(inf)
    if x < 2.0:
        y = bessel_y_near(order, x)
        j = bessel_series(order, x) if v < 0.0 else 0.0
    else:
        both = bessel_far(order, x) if x > 30.0 and 2.0 * x > v * v else bessel_pair(order, x)
        y = both.imag
        j = both.real
        if y != y and order > 2.0 * x:
            y = -float64(inf)
    if v >= 0.0:
        return y
    if libdevice.floor(v) == v:
        return libdevice.cospi(turn) * y
    return libdevice.sinpi(turn) * j + libdevice.cospi(turn) * y
""",
    # By Sommerfeld's integral of Hankel's function (DLMF 10.9.17), on the path t = u + 2 i
    # arctan(exp(u)), where x sinh(t) = x (i - sinh(u) tanh(u)): all of it falls at both ends, and
    # the trapezoidal rule converges exponentially.
    "bessel_y_near": """\
def bessel_y_near(v, x):
    if v > 100000.0:
        return -float64(inf)
    step = libdevice.fmin(0.15, 0.5 / libdevice.dsqrt_rn(v + 1.0))
    first = -libdevice.floor((libdevice.log(v + libdevice.hypot(v, x)) - libdevice.log(x)) / step)
    total = 0.0
    sizes = 0.0
    direction = 1.0
    k = first
    while libdevice.fabs(k) < 1e6:
        u = k * step
        power = libdevice.exp(-libdevice.fabs(u))
        square = power * power
        flat = 2.0 * power / (1.0 + square)
        rise = 0.5 * (1.0 - square) * (1.0 - square) / (power * (1.0 + square))
        size = libdevice.exp(-x * rise - v * u)
        sizes = sizes + size
        phase = x - 2.0 * v * libdevice.atan(libdevice.exp(u))
        total = total + size * (libdevice.cos(phase) - libdevice.sin(phase) * flat)
        if size <= 1e-18 * sizes:
            if direction < 0.0:
                return total * step * -0.3183098861837907
            direction = -1.0
            k = first
        k = k + direction
    return float64(nan)
""",
    "kv": """\
def kv(v, x):
    return modified_bessel_k(v, x, x)
""",
    "kve": """\
def kve(v, x):
    return modified_bessel_k(v, x, 0.0) if x < float64(inf) else float64(nan)
""",
    # exp(x - damping) K_v(x), the integral of exp(-x cosh(t)) cosh(v t) for t > 0 by the
    # trapezoidal rule: from the largest term up, and then from there down. Where a step is too
    # small to change the number of the first one, that is infinite, or nothing, or has no digit.
    "modified_bessel_k": """\
def modified_bessel_k(v, x, damping):
    v = libdevice.fabs(v)
    if not (v < float64(inf) and x >= 0.0):
        return float64(nan)
    if x == float64(inf):
        return 0.0
    if x < 1e-300:
        return 0.11593151565841245 - libdevice.log(x) if v == 0.0 else float64(inf)
    quarter = libdevice.hypot(0.25 * v, 0.25 * x)
    step = libdevice.fmin(0.15, 0.25 / libdevice.dsqrt_rn(quarter))
    peak = libdevice.log(0.25 * v + quarter) - libdevice.log(0.25 * x)
    peak = libdevice.fmax(0.0, peak)
    first = libdevice.floor(peak / step)
    if first > 1e15:
        exponent = v * peak - 4.0 * (quarter - 0.25 * x) - damping
        if libdevice.fabs(exponent) > 1000.0:
            return float64(inf) if exponent > 0.0 else 0.0
        return float64(nan)
    total = 0.0
    direction = 1.0
    k = first
    while k >= 0.0:
        t = k * step
        root = libdevice.sinh(0.5 * t)
        exponent = v * t - x * root * root * 2.0 - damping
        term = libdevice.exp(exponent) * (1.0 + libdevice.exp(-2.0 * v * t))
        if k == 0.0:
            term = 0.5 * term
        total = total + term
        if not term > 1e-18 * total:
            if direction < 0.0:
                break
            direction = -1.0
            k = first
        k = k + direction
    return 0.5 * step * total
""",
    "iv": """\
def iv(v, x):
    return modified_bessel_of_real(v, x, 0.0, float64(inf))
""",
    "ive": """\
def ive(v, x):
    return modified_bessel_of_real(v, x, libdevice.fabs(x), float64(nan))
""",
    # exp(-damping) I_v(x): by the power series, whose terms have one sign, but for the first ones
    # of a negative order; for large x by the expansion, where orders v and -v are the same.
    "modified_bessel_of_real": """\
def modified_bessel_of_real(v, x, damping, at_pole):
    if not libdevice.fabs(v) + libdevice.fabs(x) < float64(inf):
        return float64(nan)
    sign = 1.0
    if libdevice.floor(v) == v:
        if x < 0.0 and v - 2.0 * libdevice.floor(v * 0.5) == 1.0:
            sign = -1.0
        v = libdevice.fabs(v)
    elif x < 0.0:
        return float64(nan)
    x = libdevice.fabs(x)
    if x == 0.0:
        if v < 0.0:
            return at_pole
        return 1.0 if v == 0.0 else 0.0
    if x > 30.0 and 2.0 * x > v * v:
        term = 1.0
        total = 1.0
        k = 1.0
        while libdevice.fabs(term) > 1e-17:
            rise = 2.0 * k - 1.0
            term = term * ((rise * rise - 4.0 * v * v) / (8.0 * k * x))
            total = total + term
            k = k + 1.0
        scale = libdevice.exp(x - damping) / libdevice.dsqrt_rn(6.283185307179586 * x)
        return sign * total * scale
    half = x * 0.5
    square = half * half
    term = 1.0
    total = 1.0
    shift = 0.0
    k = 1.0
    while libdevice.fabs(term) > 1e-17 * libdevice.fabs(total) or (k + v < 0.0 and k < 1000.0):
        term = term * (square / (k * (k + v)))
        total = total + term
        if total > 1e280:
            total = total * 1e-280
            term = term * 1e-280
            shift = shift + 644.7238260383328
        k = k + 1.0
        if k > 300000.0:
            return float64(nan)
    power = v * libdevice.log(half)
    inverse = rgamma(v + 1.0)
    if v < 100.0 and libdevice.fabs(power) < 600.0 and shift + damping < 600.0:
        return sign * total * inverse * libdevice.pow(half, v) * libdevice.exp(-damping)
    exponent = shift - damping + power - libdevice.lgamma(v + 1.0)
    return sign * total * libdevice.copysign(libdevice.exp(exponent), inverse)
""",
    # NaN where the sum cancels by more than 18 digits, or is too long, and the expansion for large
    # x does not hold. Next to poles of gamma(b - a) the rounding error of b - a counts, by way of a
    # part that does not fall exponentially.
    "hyp1f1": """\
def hyp1f1(a, b, x):
    if not libdevice.fabs(a) + libdevice.fabs(b) + libdevice.fabs(x) < float64(inf):
        return float64(nan)
    if is_pole(b) and not (is_pole(a) and b <= a and a < 0.0):
        return float64(inf)
    if a == 0.0 or x == 0.0:
        return 1.0
    if is_pole(a):
        return kummer_polynomial(a, b, x)
    if a == b:
        return libdevice.exp(x)
    if x > 0.0:
        return kummer_sum(a, b, x, 0.0)
    rest = b - a
    if x < -30.0 and rest < 0.5:
        part = rest - b
        error = (b - (rest - part)) - (a + part)
        distance = libdevice.fabs(rest - libdevice.rint(rest))
        if libdevice.fabs(error) * 1048576.0 > distance:
            return float64(nan)
    if is_pole(rest):
        return libdevice.exp(x) * kummer_polynomial(rest, b, -x)
    return kummer_sum(rest, b, -x, -x)
""",
    "kummer_polynomial": f"""\
def kummer_polynomial(a, b, x):
    if b <= 0.0 or -a > {MOST_TERMS}.0:
        return kummer_sum(a, b, x, 0.0)
    before = 0.0
    result = 1.0
    k = 0.0
    while k < -a:
        new = ((2.0 * k + b - x) * result - k * before) / (b + k)
        before = result
        result = new
        k = k + 1.0
    return result
""",
    # exp(-left) times the series.
    "kummer_sum": f"""\
def kummer_sum(a, b, x, left):
    if x > 50.0:
        far = kummer_far(a, b, x, left)
        if far == far:
            return far
    term = 1.0
    total = 1.0
    magnitude = 1.0
    n = 0.0
    end = left
    is_falling = False
    while not (is_falling and libdevice.fabs(term) <= 1e-17 * magnitude):
        rise = a + n
        if rise == 0.0:
            is_falling = True
            term = 0.0
        else:
            term = term * (rise / (b + n)) * (x / (n + 1.0))
            n = n + 1.0
            total = total + term
            magnitude = magnitude + libdevice.fabs(term)
            ratio = libdevice.fabs((a + n) * x)
            is_falling = n > -2.0 * b and ratio <= 0.5 * libdevice.fabs(b + n) * (n + 1.0)
            if left > 0.0 and magnitude > 1e200:
                part = libdevice.fmin(left, 400.0)
                scale = libdevice.exp(-part)
                left = left - part
                total = total * scale
                magnitude = magnitude * scale
                term = term * scale
            if n > {MOST_TERMS}.0:
                return float64(nan)
    if magnitude * 2.220446049250313e-16 > 1e-14 * libdevice.fabs(total):
        return kummer_sum_of_pairs(a, b, x, end)
    return total * libdevice.exp(-left)
""",
    # The same where it cancels: each number is a pair, unevaluated sums of which the first is the
    # rounded one (Dekker 1971). 2**-512 scales without an error.
    "kummer_sum_of_pairs": f"""\
def kummer_sum_of_pairs(a, b, x, left):
    term = complex(1.0, 0.0)
    total = complex(1.0, 0.0)
    magnitude = 1.0
    n = 0.0
    is_falling = False
    while not (is_falling and libdevice.fabs(term.real) <= 1e-33 * magnitude):
        rise = add_pairs(a, 0.0, n, 0.0)
        if rise.real == 0.0:
            is_falling = True
            term = complex(0.0, 0.0)
        else:
            over = multiply_pairs(rise.real, rise.imag, x, 0.0)
            below = add_pairs(b, 0.0, n, 0.0)
            n = n + 1.0
            below = multiply_pairs(below.real, below.imag, n, 0.0)
            over = divide_pairs(over.real, over.imag, below.real, below.imag)
            term = multiply_pairs(term.real, term.imag, over.real, over.imag)
            total = add_pairs(total.real, total.imag, term.real, term.imag)
            magnitude = magnitude + libdevice.fabs(term.real)
            ratio = libdevice.fabs((a + n) * x)
            is_falling = n > -2.0 * b and ratio <= 0.5 * libdevice.fabs(b + n) * (n + 1.0)
            if left > 355.0 and magnitude > 1e200:
                scale = 7.458340731200207e-155
                left = left - 354.89135644669205
                total = complex(total.real * scale, total.imag * scale)
                term = complex(term.real * scale, term.imag * scale)
                magnitude = magnitude * scale
            if n > {MOST_TERMS}.0:
                return float64(nan)
    if not magnitude * 1e-31 <= 1e-13 * libdevice.fabs(total.real):
        return float64(nan)
    return total.real * libdevice.exp(-left)
""",
    "add_pairs": """\
def add_pairs(a, a_rest, b, b_rest):
    rounded = a + b
    part = rounded - a
    error = (a - (rounded - part)) + (b - part) + (a_rest + b_rest)
    result = rounded + error
    return complex(result, error - (result - rounded))
""",
    "multiply_pairs": """\
def multiply_pairs(a, a_rest, b, b_rest):
    rounded = libdevice.dmul_rn(a, b)
    error = libdevice.fma(a, b, -rounded) + (a * b_rest + a_rest * b)
    result = rounded + error
    return complex(result, error - (result - rounded))
""",
    "divide_pairs": """\
def divide_pairs(a, a_rest, b, b_rest):
    rounded = a / b
    product = libdevice.dmul_rn(rounded, b)
    rest = (a - product) - libdevice.fma(rounded, b, -product)
    error = (rest + a_rest - rounded * b_rest) / b
    result = rounded + error
    return complex(result, error - (result - rounded))
""",
    # exp(-left) times the expansion, NaN unless terms fall, also those of what it leaves out, and
    # that does not count.
    "kummer_far": """\
def kummer_far(a, b, x, left):
    log_x = libdevice.log(x)
    log_a = libdevice.lgamma(a)
    log_b = libdevice.lgamma(b)
    small = (b - 2.0 * a) * log_x - x + log_a - libdevice.lgamma(b - a)
    if small > -37.0 or a < -170.0 or b < -170.0 or libdevice.fabs(a * (1.0 + a - b)) > x:
        return float64(nan)
    term = 1.0
    total = 1.0
    k = 0.0
    while libdevice.fabs(term) > 1e-17:
        factor = (k + 1.0 - a) * (b - a + k) / ((k + 1.0) * x)
        if libdevice.fabs(factor) > 0.9:
            return float64(nan)
        term = term * factor
        total = total + term
        k = k + 1.0
    exponent = (a - b) * log_x
    if libdevice.fabs(exponent) + libdevice.fabs(log_a) + libdevice.fabs(log_b) < 600.0:
        half = libdevice.exp((x - left) * 0.5)
        ratio = libdevice.tgamma(b) * rgamma(a)
        return half * (ratio * libdevice.pow(x, a - b) * total) * half
    size = libdevice.exp(exponent + (x - left) + log_b - log_a)
    sign = libdevice.copysign(1.0, total)
    if a < 0.0 and libdevice.tgamma(a) < 0.0:
        sign = -sign
    if b < 0.0 and libdevice.tgamma(b) < 0.0:
        sign = -sign
    return sign * size * libdevice.fabs(total)
""",
    # Of complex numbers, by the modified function in the right half plane.
    "complex_jv": """\
def complex_jv(v, x, y):
    if v != v or x != x or y != y:
        return complex(float64(nan), float64(nan))
    is_whole = libdevice.floor(v) == v
    sign = 1.0
    if is_whole and v < 0.0:
        v = -v
        if v - 2.0 * libdevice.floor(v * 0.5) == 1.0:
            sign = -1.0
    if x == 0.0 and y == 0.0:
        limit = 1.0 if v == 0.0 else 0.0
        return complex(limit if v >= 0.0 else float64(nan), 0.0 if v >= 0.0 else float64(nan))
    turn = v * 0.5 - 2.0 * libdevice.floor(v * 0.25)
    if y >= 0.0:
        phase = complex(libdevice.cospi(turn), libdevice.sinpi(turn))
        return phase * modified_bessel(v, complex(y, -x)) * sign
    phase = complex(libdevice.cospi(turn), -libdevice.sinpi(turn))
    return phase * modified_bessel(v, complex(-y, x)) * sign
""",
    "modified_bessel": """\
def modified_bessel(v, w):
    size = libdevice.hypot(w.real, w.imag)
    if not size < 1e9:
        return complex(float64(nan), float64(nan))
    if size < 2.0 or size * size <= 4.0 * (v + 1.0):
        return modified_series(v, w)
    if size > 30.0 and 2.0 * size > v * v:
        return modified_far(v, w)
    return modified_downward(v, w, size)
""",
    "modified_series": """\
def modified_series(v, w):
    half = w * 0.5
    square = half * half
    term = complex(1.0, 0.0)
    total = complex(1.0, 0.0)
    k = 1.0
    change = 1.0
    while change > 1e-17 * libdevice.fabs(total.real) + 1e-17 * libdevice.fabs(total.imag) or (
        k + v < 0.0 and k < 1000.0
    ):
        term = term * (square * (1.0 / (k * (k + v))))
        total = total + term
        change = libdevice.fabs(term.real) + libdevice.fabs(term.imag)
        k = k + 1.0
    logarithm = log_complex128(half) * v
    if v < 100.0:
        return total * exp_complex128(logarithm) * rgamma(v + 1.0)
    return total * exp_complex128(logarithm - libdevice.lgamma(v + 1.0))
""",
    "modified_far": """\
def modified_far(v, w):
    fourfold = 4.0 * v * v
    inverse = inverse_of(w)
    term = complex(1.0, 0.0)
    falling = complex(1.0, 0.0)
    rising = complex(1.0, 0.0)
    sign = 1.0
    k = 1.0
    change = 1.0
    while change > 1e-17:
        odd = 2.0 * k - 1.0
        term = term * (inverse * ((fourfold - odd * odd) / (8.0 * k)))
        sign = -sign
        rising = rising + term * sign
        falling = falling + term
        change = libdevice.fabs(term.real) + libdevice.fabs(term.imag)
        k = k + 1.0
    turn = v - 2.0 * libdevice.floor(v * 0.5)
    side = 1.0 if w.imag >= 0.0 else -1.0
    phase = complex(-libdevice.sinpi(turn), side * libdevice.cospi(turn))
    root = exp_complex128(-0.5 * log_complex128(w)) * 0.3989422804014327
    return root * (exp_complex128(w) * rising + phase * exp_complex128(-w) * falling)
""",
    # Miller's algorithm: downward by recurrence from far above, then scaled so that the sum of
    # DLMF 10.35.1 for orders from mu on holds.
    "modified_downward": """\
def modified_downward(v, w, size):
    floor = libdevice.floor(v)
    mu = v - floor
    top = libdevice.floor(libdevice.fmax(libdevice.fabs(v), size))
    top = top + 20.0 + libdevice.floor(10.0 * libdevice.cbrt(size))
    if top > 300000.0:
        return complex(float64(nan), float64(nan))
    weight = 1.0
    k = 1.0
    while k < top:
        weight = weight * ((2.0 * mu + k) / (k + 1.0))
        k = k + 1.0
    inverse = inverse_of(w) * 2.0
    above = complex(0.0, 0.0)
    value = complex(1e-200, 0.0)
    total = complex(0.0, 0.0)
    wanted = complex(0.0, 0.0)
    while k >= 0.0 or k >= floor:
        if k == floor:
            wanted = value
        if k > 0.0:
            total = total + value * (2.0 * (mu + k) * weight)
            weight = weight * (k / (2.0 * mu + k - 1.0)) if k > 1.0 else 0.0
        elif k == 0.0:
            total = total + value
        below = above + value * inverse * (mu + k)
        above = value
        value = below
        k = k - 1.0
        if libdevice.fabs(value.real) + libdevice.fabs(value.imag) > 1e150:
            above = above * 1e-300
            value = value * 1e-300
            total = total * 1e-300
            wanted = wanted * 1e-300
    start = exp_complex128(w + log_complex128(w * 0.5) * mu) * rgamma(mu + 1.0)
    return divide_complex128(wanted, total) * start
""",
    "complex_hyp1f1": """\
def complex_hyp1f1(a, b, x, y):
    if not libdevice.fabs(a) + libdevice.fabs(b) + libdevice.fabs(x) + libdevice.fabs(
        y
    ) < float64(inf):
        return complex(float64(nan), float64(nan))
    if is_pole(b):
        return complex(float64(inf), 0.0)
    if a == 0.0 or (x == 0.0 and y == 0.0):
        return complex(1.0, 0.0)
    if x >= 0.0 or is_pole(a):
        return complex_kummer(a, b, x, y, 0.0)
    z = complex(x, y)
    if a == b:
        return exp_complex128(z)
    return exp_complex128(complex(0.0, y)) * complex_kummer(b - a, b, -x, -y, -x)
""",
    # exp(-left) times the function, as `kummer_sum`, in pairs throughout: away from the real axis
    # terms cancel.
    "complex_kummer": f"""\
def complex_kummer(a, b, x, y, left):
    size = libdevice.hypot(x, y)
    if size > 40.0 and not is_pole(a):
        far = complex_kummer_far(a, b, complex(x, y), left)
        if far.real == far.real:
            return far
    real = complex(1.0, 0.0)
    imag = complex(0.0, 0.0)
    total_real = complex(1.0, 0.0)
    total_imag = complex(0.0, 0.0)
    magnitude = 1.0
    change = 1.0
    n = 0.0
    is_falling = False
    while not (is_falling and change <= 1e-33 * magnitude):
        rise = add_pairs(a, 0.0, n, 0.0)
        if rise.real == 0.0:
            is_falling = True
            change = 0.0
        else:
            below = add_pairs(b, 0.0, n, 0.0)
            n = n + 1.0
            below = multiply_pairs(below.real, below.imag, n, 0.0)
            factor = divide_pairs(rise.real, rise.imag, below.real, below.imag)
            real = multiply_pairs(real.real, real.imag, factor.real, factor.imag)
            imag = multiply_pairs(imag.real, imag.imag, factor.real, factor.imag)
            first = multiply_pairs(real.real, real.imag, x, 0.0)
            second = multiply_pairs(imag.real, imag.imag, -y, 0.0)
            third = multiply_pairs(real.real, real.imag, y, 0.0)
            fourth = multiply_pairs(imag.real, imag.imag, x, 0.0)
            real = add_pairs(first.real, first.imag, second.real, second.imag)
            imag = add_pairs(third.real, third.imag, fourth.real, fourth.imag)
            total_real = add_pairs(total_real.real, total_real.imag, real.real, real.imag)
            total_imag = add_pairs(total_imag.real, total_imag.imag, imag.real, imag.imag)
            change = libdevice.fabs(real.real) + libdevice.fabs(imag.real)
            magnitude = magnitude + change
            ratio = libdevice.fabs((a + n)) * size
            is_falling = n > -2.0 * b and ratio <= 0.5 * libdevice.fabs(b + n) * (n + 1.0)
            if left > 355.0 and magnitude > 1e200:
                scale = 7.458340731200207e-155
                left = left - 354.89135644669205
                total_real = total_real * scale
                total_imag = total_imag * scale
                real = real * scale
                imag = imag * scale
                magnitude = magnitude * scale
            if n > {MOST_TERMS}.0:
                return complex(float64(nan), float64(nan))
    total = complex(total_real.real, total_imag.real)
    if not magnitude * 1e-31 <= 1e-13 * libdevice.hypot(total.real, total.imag):
        return complex(float64(nan), float64(nan))
    return total * libdevice.exp(-left)
""",
    # NaN unless terms fall; x >= 0.
    "complex_kummer_far": """\
def complex_kummer_far(a, b, z, left):
    if libdevice.fabs(a) > 100.0 or libdevice.fabs(b) > 100.0:
        return complex(float64(nan), float64(nan))
    inverse = inverse_of(z)
    size = libdevice.hypot(inverse.real, inverse.imag)
    first = complex(1.0, 0.0)
    second = complex(1.0, 0.0)
    rising = complex(1.0, 0.0)
    falling = complex(1.0, 0.0)
    k = 0.0
    change = 1.0
    while change > 1e-17:
        up = (k + 1.0 - a) * (b - a + k) / (k + 1.0)
        down = -(a + k) * (a - b + 1.0 + k) / (k + 1.0)
        if libdevice.fmax(libdevice.fabs(up), libdevice.fabs(down)) * size > 0.95:
            return complex(float64(nan), float64(nan))
        first = first * inverse * up
        second = second * inverse * down
        rising = rising + first
        falling = falling + second
        change = libdevice.fabs(first.real) + libdevice.fabs(first.imag)
        change = change + libdevice.fabs(second.real) + libdevice.fabs(second.imag)
        k = k + 1.0
    logarithm = log_complex128(z)
    turn = a - 2.0 * libdevice.floor(a * 0.5)
    side = 1.0 if z.imag >= 0.0 else -1.0
    phase = complex(libdevice.cospi(turn), side * libdevice.sinpi(turn))
    scale = libdevice.tgamma(b)
    grown = exp_complex128(z - left + (a - b) * logarithm) * rising * (scale * rgamma(a))
    rest = exp_complex128(-a * logarithm - left) * falling * (scale * rgamma(b - a))
    return grown + phase * rest
""",
}
