"""erf, erfc, erfcx and their inverses, and the same of the normal distribution: ndtr, log_ndtr,
ndtri. Coefficients: perf/math_coefficients.py.
"""

from __future__ import annotations

import math

from numba_grad.compiler.elementary.exponential import clamp, exp_of_sum, exp_within_range
from numba_grad.compiler.elementary.logarithm import log, log_of_sum, split_sum
from numba_grad.compiler.elementary.registry import FLOATING, formula
from numba_grad.compiler.elementary.scalar import (
    FLOAT32,
    FLOAT64,
    Value,
    absolute,
    copy_sign,
    fma,
    polynomial,
    polynomial_in_one_chain,
    product,
    select,
    square_root,
    two_sum,
)
from numba_grad.immutable import immutable


@immutable
class _Format:
    # erf(x)/x - 1 in x**2, for |x| <= 1
    erf_small: tuple[float, ...]
    # -log(erfc(x)) for 1 <= x <= erf_limit, where erf reaches 1
    erf_large: tuple[float, ...]
    erf_limit: float
    # exp(x**2) erfc(x) (1 + 2 x) in (x - 4)/(x + 4), for 0 <= x <= erfc_limit, where erfc reaches 0
    erfc: tuple[float, ...]
    erfc_limit: float
    # erfinv(x)/x with w = -log(1 - x**2): in w - 2.5 up to 5, then in (v - k)/(v + k), v = sqrt(w)
    erfinv_near: tuple[float, ...]
    erfinv_far: tuple[float, ...]
    erfinv_centre: float
    # exp(x**2) erfc(x) (1 + 2 x) in (x - 4)/(x + 4), for all x from 0 on
    erfcx: tuple[float, ...]
    # erfcinv(y)/(1 - y) in (v - k)/(v + k), v = sqrt(w), w = -log(y (2 - y)), from erfcinv_limit on
    erfcinv: tuple[float, ...]
    erfcinv_centre: float
    erfcinv_limit: float
    erfcinv_end: float  # v of the least number


_FORMATS = {
    FLOAT64: _Format(
        erf_small=(
            0.12837916709551256,
            -0.37612638903183343,
            0.1128379167093694,
            -0.02686617064195554,
            0.005223977596687376,
            -0.0008548325481700957,
            0.00012055280367694778,
            -1.4924462571153014e-05,
            1.6444105357009095e-06,
            -1.6183588993304087e-07,
            1.3614721932385261e-08,
            -7.60368913617502e-10,
        ),
        erf_large=(
            1.0820183036029352e-06,
            1.1283685468392366,
            0.6366682648355967,
            0.10263590345166905,
            -0.0188623321970385,
            -0.0005879474992589837,
            0.0021024964847195164,
            -0.0009226828955002399,
            0.0002322135612883175,
            -2.8694562807099803e-05,
            -3.3707468407795188e-06,
            2.609473538347843e-06,
            -6.751269696778155e-07,
            1.0639640331312692e-07,
            -1.0722530287453894e-08,
            6.40835019661088e-10,
            -1.7396438381975445e-11,
        ),
        erf_limit=6.0,
        erfc=(
            1.2329951186255526,
            -0.13962111684056322,
            0.015379652102604892,
            0.06809705425476822,
            -0.10103906603549317,
            0.09373283499606802,
            -0.06633036582970116,
            0.03716751556747772,
            -0.016197733862923308,
            0.00503196977769069,
            -0.000757774559786821,
            -0.0001992560048425042,
            0.0001506268263450602,
            -2.4400140308921274e-05,
            -1.1235260026722986e-05,
            5.708404994737041e-06,
            3.150696244226679e-07,
            -8.186026579324629e-07,
            5.445104481576653e-08,
            1.0001260564602417e-07,
            -8.099554026429443e-09,
            -7.788617662466805e-09,
            2.0892831086358666e-10,
        ),
        erfc_limit=27.3,
        erfinv_near=(
            1.501409351110792,
            0.246640276744167,
            -0.004177317724386137,
            -0.0012527079078109976,
            0.00021825026436009444,
            -4.996079599017536e-06,
            -3.416619636472579e-06,
            4.78725218862258e-07,
            1.341685470322306e-08,
            -1.0861169294908283e-08,
            9.072657037163162e-10,
            1.196072066625602e-10,
            -3.108516750701828e-11,
            9.114840635097337e-13,
            5.30380351329292e-13,
            -7.610760109783497e-14,
            -1.874678538939818e-15,
            1.8940393608190033e-15,
            -2.563301274554157e-16,
            -2.6618716508376116e-17,
            1.2956189478722795e-17,
            1.6312914686136993e-19,
            -3.024831920772474e-19,
        ),
        erfinv_far=(
            3.5875041872852242,
            7.565082297074742,
            7.6806448080715395,
            7.253386281244926,
            8.006581762856223,
            5.3612482199921,
            16.83009471536454,
            -17.36978291690119,
            12.024601754142484,
            244.68953919116987,
            -727.3012534518532,
            -311.37514899392124,
            6753.175530221122,
            -8789.932264242732,
            -37086.08617579893,
            99623.85101779876,
            157750.83673942948,
            -689426.560575596,
            -694388.6570363623,
            3911482.6917858343,
            3903296.904003046,
            -19921197.69274315,
            -21545455.31421765,
            86960499.04620662,
            81556124.36716755,
            -274089671.22185594,
            -146651124.82142222,
            441496920.7131477,
        ),
        erfinv_centre=3.75,
        erfcx=(
            1.2329951186255526,
            -0.1396211168405625,
            0.015379652102604432,
            0.06809705425468947,
            -0.10103906603545089,
            0.0937328349984666,
            -0.06633036583088288,
            0.0371675155355292,
            -0.01619773384610015,
            0.005031969995833922,
            -0.0007577747147035214,
            -0.00019925679126520053,
            0.00015062783246566714,
            -2.439889484421832e-05,
            -1.1239828120434264e-05,
            5.709098802840043e-06,
            3.2905840119484424e-07,
            -8.247629281935013e-07,
            2.6565411313192482e-08,
            1.0994386339399677e-07,
            2.6595845214516453e-08,
            -1.4613399690929908e-08,
            -2.5003337289920575e-08,
            1.7554723593621764e-09,
            9.533790200737852e-09,
            -1.319016990552674e-10,
            -1.5077191699538411e-09,
        ),
        erfcinv=(
            10.896246875628941,
            22.117108806802783,
            21.972855141569006,
            21.99772329319629,
            22.031398963119535,
            21.95235889454705,
            22.062765215312787,
            21.928703735378495,
            22.07824027570479,
            21.919346641804122,
            22.081914405723886,
            21.921052886135275,
            22.05465863761805,
            21.958577558250322,
            22.54367720557193,
            20.921924914855236,
            14.514176198091487,
            44.39842545418393,
            92.48496985097619,
            -276.44737810117914,
            -279.93369496171704,
            2398.423250606481,
            -632.2954314112926,
            -10075.441237761743,
            12429.880502325175,
            14355.817200197263,
            -37635.55861034097,
            21002.191394345176,
        ),
        erfcinv_centre=11.0,
        erfcinv_limit=6.05,
        erfcinv_end=27.4,
    ),
    FLOAT32: _Format(
        erf_small=(
            0.12837916612625122,
            -0.3761262595653534,
            0.11283578723669052,
            -0.026853347197175026,
            0.005187162198126316,
            -0.0007997853099368513,
            7.806903158780187e-05,
        ),
        erf_large=(
            -0.00018803392595145851,
            1.1295783519744873,
            0.6332201361656189,
            0.10841818898916245,
            -0.025207918137311935,
            0.00420439662411809,
            -0.00044129404705017805,
            2.1682428268832155e-05,
        ),
        erf_limit=4.0,
        erfc=(
            1.2329951524734497,
            -0.13962100446224213,
            0.015374978072941303,
            0.06808914244174957,
            -0.10094078630208969,
            0.09392102062702179,
            -0.06693778187036514,
            0.035575252026319504,
            -0.015749366953969002,
            0.009122255258262157,
            0.0030217485036700964,
            0.0006772951455786824,
        ),
        erfc_limit=10.1,
        erfinv_near=(
            1.5014094114303589,
            0.24664029479026794,
            -0.004177384078502655,
            -0.001252763788215816,
            0.00021834221843164414,
            -4.950464699504664e-06,
            -3.462115046204417e-06,
            4.6338121251210396e-07,
            2.318429181968895e-08,
            -8.5904341418086e-09,
        ),
        erfinv_far=(
            2.832976818084717,
            6.010051250457764,
            6.35005521774292,
            5.039284706115723,
            9.455434799194336,
            -0.761294960975647,
            -5.373537063598633,
            89.11719512939453,
            0.47232168912887573,
            -482.7029113769531,
        ),
        erfinv_centre=3.0,
        erfcx=(
            1.2329951524734497,
            -0.1396210640668869,
            0.01537727378308773,
            0.06809576600790024,
            -0.10101208090782166,
            0.09374229609966278,
            -0.06644128262996674,
            0.03713613003492355,
            -0.015996171161532402,
            0.005086183547973633,
            -0.0009161142515949905,
            -0.00024972675601020455,
            0.0001828386593842879,
        ),
        erfcinv=(
            5.859913349151611,
            12.11526107788086,
            12.046937942504883,
            11.90519905090332,
            12.178953170776367,
            11.787217140197754,
            9.358891487121582,
            17.477176666259766,
            86.4795150756836,
            -169.9261474609375,
            -689.0352783203125,
            2001.3592529296875,
        ),
        erfcinv_centre=6.0,
        erfcinv_limit=4.05,
        erfcinv_end=10.3,
    ),
}


@formula(FLOATING)
def erf(x: Value) -> Value:
    form = _FORMATS[x.kind]
    size = absolute(x)
    # Each side is computed from an argument in its own range, so that neither is NaN or infinite.
    is_small = size < 1.0
    near = select(is_small, x, 0.0)
    far = select(size > form.erf_limit, form.erf_limit, size)
    small = fma(near, polynomial(near * near, form.erf_small), near)
    large = copy_sign(1.0 - exp_within_range(-polynomial(far, form.erf_large)), x)
    return select(x == 0, x, select(is_small, small, large))


@formula(FLOATING)
def erfc(x: Value) -> Value:
    form = _FORMATS[x.kind]
    is_small = absolute(x) < 0.5
    near = select(is_small, x, 0.0)
    small = 1.0 - fma(near, polynomial_in_one_chain(near * near, form.erf_small), near)
    size = absolute(x)
    size = select(size > form.erfc_limit, form.erfc_limit, size)
    t = (size - 4.0) / (size + 4.0)
    square, square_low = product(size, size)
    scaled = exp_of_sum(-square, -square_low)
    result = scaled * (polynomial_in_one_chain(t, form.erfc) / fma(size, 2.0, 1.0))
    return select(is_small, small, select(x < 0, 2.0 - result, result))


@formula(FLOATING)
def erfinv(x: Value) -> Value:
    form = _FORMATS[x.kind]
    w = -log((1.0 - x) * (1.0 + x))
    near = polynomial_in_one_chain(clamp(w, 0.0, 5.0) - 2.5, form.erfinv_near)
    # The upper end is that of the last number below 1.
    v = square_root(clamp(w, 5.0, 37.0))
    t = (v - form.erfinv_centre) / (v + form.erfinv_centre)
    result = x * select(w < 5.0, near, polynomial_in_one_chain(t, form.erfinv_far))
    size = absolute(x)
    return select(size < 1.0, result, select(size == 1.0, x * math.inf, math.nan))


@formula(FLOATING)
def erfcinv(y: Value) -> Value:
    """erfinv(1 - y), accurate for small y."""
    return _inverse_of_tail(y, 1.0 - y)


@formula(FLOATING)
def ndtri(p: Value) -> Value:
    """The quantiles of the normal distribution."""
    return _inverse_of_tail(p * 2.0, 1.0 - p * 2.0, -math.sqrt(2))


def _inverse_of_tail(y: Value, x: Value, scale: float = 1.0) -> Value:
    """`scale` times erfinv(x), x = 1 - y; the interval for the tails of `erfinv`, and one more."""
    form = _FORMATS[x.kind]
    # Exact where 2 - y is the small one.
    w = -log(y * (2.0 - y))
    near = polynomial_in_one_chain(clamp(w, 0.0, 5.0) - 2.5, form.erfinv_near)
    v = square_root(clamp(w, 5.0, form.erfcinv_end**2))
    middle = select(v > form.erfcinv_limit, form.erfcinv_limit, v)
    t = (middle - form.erfinv_centre) / (middle + form.erfinv_centre)
    middle = polynomial_in_one_chain(t, form.erfinv_far)
    t = (v - form.erfcinv_centre) / (v + form.erfcinv_centre)
    far = polynomial_in_one_chain(t, form.erfcinv)
    ratio = select(w < 5.0, near, select(v < form.erfcinv_limit, middle, far))
    result = x * ratio
    limit = select((y == 0) | (y == 2.0), x * math.inf, math.nan)
    result = select((y > 0) & (y < 2.0), result, limit)
    return result if scale == 1.0 else result * scale


def _scaled_erfc(size: Value) -> Value:
    """exp(x**2) erfc(x) for x >= 0, inf included."""
    form = _FORMATS[size.kind]
    finite = select(size > 1e30, 1e30, size)
    t = (finite - 4.0) / (finite + 4.0)
    # Halves, since 2 x may overflow.
    return polynomial_in_one_chain(t, form.erfcx) * 0.5 / (size + 0.5)


@formula(FLOATING)
def erfcx(x: Value) -> Value:
    """exp(x**2) erfc(x)"""
    form = _FORMATS[x.kind]
    size = absolute(x)
    positive = _scaled_erfc(size)
    limited = select(size > form.erfc_limit, form.erfc_limit, size)
    square, square_low = product(limited, limited)
    negative = fma(exp_of_sum(square, square_low), 2.0, -positive)
    return select(x < 0, negative, positive)


def _normal_tail(size: Value) -> tuple[Value, Value]:
    """The probability of more than `size` standard deviations, and exp(size**2/2) times it."""
    form = _FORMATS[size.kind]
    scaled = _scaled_erfc(size * math.sqrt(0.5)) * 0.5
    limit = form.erfc_limit * math.sqrt(2)
    limited = select(size > limit, limit, size)
    # The square of x, not of x/sqrt(2), whose rounding would be a large relative error.
    square, square_low = product(limited, limited)
    return exp_of_sum(square * -0.5, square_low * -0.5) * scaled, scaled


def _middle_of_normal(x: Value) -> tuple[Value, Value]:
    """Whether x is next to 0, and then its probability by erf: the tail is less accurate there."""
    is_middle = absolute(x) < 0.7
    z = select(is_middle, x * math.sqrt(0.5), 0.0)
    square = z * z
    return is_middle, fma(fma(z, polynomial(square, _FORMATS[x.kind].erf_small), z), 0.5, 0.5)


@formula(FLOATING)
def ndtr(x: Value) -> Value:
    """The normal distribution's probability of less than x."""
    tail, _ = _normal_tail(absolute(x))
    is_middle, middle = _middle_of_normal(x)
    return select(is_middle, middle, select(x < 0, tail, 1.0 - tail))


@formula(FLOATING)
def log_ndtr(x: Value) -> Value:
    """log(ndtr(x)): log1p of the other tail, or the logarithm of the scaled tail."""
    tail, scaled = _normal_tail(absolute(x))
    is_middle, middle = _middle_of_normal(x)
    is_negative = x < 0
    total, error = two_sum(x.like(1.0), -tail)
    whole = select(is_middle, middle, select(scaled > 0, scaled, 1.0))
    total = select(is_negative | is_middle, whole, total)
    error = select(is_negative | is_middle, 0.0, error)
    k, f = split_sum(total, error)
    logarithm = log_of_sum(k, f)
    # Without a rest where 1 - tail rounds to 1.
    logarithm = select(~is_negative & (tail < 1e-30), -tail, logarithm)
    square, square_low = product(x * -0.5, x)
    below = square + (select(absolute(x) < 1e15, square_low, 0.0) + logarithm)
    is_far_below = is_negative & ~is_middle
    result = select(is_far_below, select(x > -math.inf, below, x), logarithm)
    return select(x == x, result, x)
