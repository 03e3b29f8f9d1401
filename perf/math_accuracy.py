"""Errors and speed of the elementary functions of kernels, as the table of `docs/numerics.md`.

    python perf/math_accuracy.py [--samples 5000] [--dtype float64] [name ...]

Errors are the largest found, in units in the last place of the exact result, which mpmath computes.
Samples: random bits (every exponent alike), and uniform ones where the function is interesting.
Times are of one core, per element, for arrays that fit the second-level cache.
"""

import argparse
import ctypes
import itertools
import math
import platform
import time

import mpmath as mp
import numpy as np
import scipy.special

from numba_grad.compiler.building.build import build

mp.mp.dps = 40
INT64 = ctypes.c_int64


def sigmoid(x):
    return 1 / (1 + mp.exp(-x)) if x > 0 else mp.exp(x) / (1 + mp.exp(x))


def log_sigmoid(x):
    return -mp.log1p(mp.exp(-x)) if x > 0 else x - mp.log1p(mp.exp(x))


def real(function):
    """The function where it is real, else NaN."""

    def of_real(*x):
        try:
            y = function(*x)
        except ZeroDivisionError:
            return mp.nan
        return y if isinstance(y, mp.mpf) else mp.nan

    return of_real


def erfinv(x):
    if abs(x) >= 1:
        return mp.nan
    y = mp.mpf(scipy.special.erfinv(float(x)))
    for _ in range(3):  # mpmath's own is slow
        # The complement, or else digits near 1 are lost.
        residual = mp.erf(y) - x if abs(y) < 1 else mp.sign(y) * (1 - abs(x) - mp.erfc(abs(y)))
        y -= residual * mp.exp(y * y) * mp.sqrt(mp.pi) / 2
    return y


def erfcinv(x):
    if not 0 < x < 2:
        return mp.nan
    y = mp.mpf(scipy.special.erfcinv(float(x)))
    for _ in range(4):  # Newton's method on the logarithm
        tail = mp.erfc(y)
        y += (mp.log(tail) - mp.log(x)) * tail * mp.exp(y * y) * mp.sqrt(mp.pi) / 2
    return y


def erfcx(x):
    if x > 1e6:
        return (1 - 1 / (2 * x * x)) / (x * mp.sqrt(mp.pi))
    return mp.exp(x * x) * mp.erfc(x) if x > -50 else mp.inf


def ndtr(x):
    return mp.erfc(-x / mp.sqrt(2)) / 2


def log_ndtr(x):
    if x < -1e6:
        return -x * x / 2 - mp.log(-x) - mp.log(2 * mp.pi) / 2 - 1 / (x * x)
    return mp.log(ndtr(x)) if x < 0 else mp.log1p(-ndtr(-min(x, 100)))


def positive(function):
    return lambda x: function(x) if x > 0 else mp.nan


def logit(x):
    return mp.log(x) - mp.log1p(-x) if 0 < x < 1 else mp.nan


def cbrt(x):
    return mp.sign(x) * mp.cbrt(abs(x))


# name -> (exact function, bound beyond which it is 0, 1 or infinite, NumPy's name)
UNARY = {
    "exp": (mp.exp, 2000, "exp"),
    "exp2": (lambda x: mp.mpf(2) ** x, 2000, "exp2"),
    "expm1": (mp.expm1, 2000, "expm1"),
    "log": (real(mp.log), None, "log"),
    "log1p": (real(mp.log1p), None, "log1p"),
    "log2": (real(lambda x: mp.log(x) / mp.log(2)), None, "log2"),
    "log10": (real(mp.log10), None, "log10"),
    "sin": (mp.sin, None, "sin"),
    "cos": (mp.cos, None, "cos"),
    "tan": (mp.tan, None, "tan"),
    "asin": (real(mp.asin), None, "arcsin"),
    "acos": (real(mp.acos), None, "arccos"),
    "atan": (mp.atan, None, "arctan"),
    "sinh": (mp.sinh, 2000, "sinh"),
    "cosh": (mp.cosh, 2000, "cosh"),
    "tanh": (mp.tanh, 2000, "tanh"),
    "asinh": (mp.asinh, None, "arcsinh"),
    "acosh": (real(mp.acosh), None, "arccosh"),
    "atanh": (real(mp.atanh), None, "arctanh"),
    "sigmoid": (sigmoid, 2000, None),
    "log_sigmoid": (log_sigmoid, None, None),
    "erf": (mp.erf, 2000, None),
    "erfc": (mp.erfc, 2000, None),
    "erfinv": (erfinv, None, None),
    "erfcinv": (erfcinv, None, None),
    "erfcx": (erfcx, None, None),
    "ndtr": (ndtr, 100, None),
    "log_ndtr": (log_ndtr, None, None),
    "ndtri": (lambda p: -mp.sqrt(2) * erfcinv(2 * p), None, None),
    "gamma": (positive(mp.gamma), 2000, None),
    "gammaln": (positive(mp.loggamma), None, None),
    "digamma": (positive(mp.digamma), None, None),
    "trigamma": (positive(lambda x: mp.psi(1, x)), None, None),
    "lambertw": (real(lambda x: mp.re(mp.lambertw(x)) if x >= -1 / mp.e else mp.nan), None, None),
    "entr": (positive(lambda x: -x * mp.log(x)), None, None),
    "logit": (logit, None, None),
    "sqrt": (real(mp.sqrt), None, "sqrt"),
    "cbrt": (cbrt, None, "cbrt"),
}
BINARY = {
    "power": (real(mp.power), "power"),
    "atan2": (mp.atan2, "arctan2"),
    "hypot": (mp.hypot, "hypot"),
}


def runner(name, dtype, arity):
    """A compiled loop: from arrays, the last for the results, to a call without arguments."""
    x, y = "x[i]", "x[i], y[i]"
    kernel = build(
        f"def kernel(args, lo, hi):\n"
        f"    x = buffer(args, 0, {dtype})\n"
        + (f"    y = buffer(args, 1, {dtype})\n" if arity == 2 else "")
        + f"    out = buffer(args, {arity}, {dtype})\n"
        f"    for i in range(lo, hi):\n"
        f"        out[i] = {name}({x if arity == 1 else y})\n"
    )
    function = ctypes.CFUNCTYPE(None, INT64, INT64, INT64)(kernel.address)

    def prepared(*arrays):
        words = np.array([a.ctypes.data for a in arrays], np.int64)
        address, size = words.ctypes.data, arrays[0].size
        return lambda keep=(words, arrays): function(address, 0, size)

    return prepared


def random_bits(random, dtype, count):
    size = np.dtype(dtype).itemsize
    return random.integers(0, 256, count * size, np.uint8).view(dtype)


def samples(name, dtype, random, count):
    """Arrays of arguments, one for each range."""
    wide = 750 if dtype == np.float64 else 110
    yield random_bits(random, dtype, count)
    for limit in (1.5, 10, wide):
        yield random.uniform(-limit, limit, count)
    yield random.choice([-1, 1], count) * 10 ** random.uniform(-8, 0, count)
    if name in ("sin", "cos", "tan"):
        yield random.uniform(-1e5, 1e5, count)
        yield random.uniform(-1e9, 1e9, count)
        yield random.integers(0, 2**20, count) * (np.pi / 2)


def pair_samples(name, dtype, random, count):
    yield random_bits(random, dtype, count), random_bits(random, dtype, count)
    yield random.normal(size=count), random.normal(size=count)
    if name == "power":
        limit = 700 if dtype == np.float64 else 85
        for x in (
            np.exp(random.uniform(-5, 5, count)),
            1 + random.choice([-1, 1], count) * 10 ** random.uniform(-6, -0.5, count),
            np.exp(random.uniform(-limit, limit, count)),
        ):
            x = x.astype(dtype).astype(np.float64)
            with np.errstate(divide="ignore"):
                yield x, random.uniform(-limit, limit, count) / np.log(x)


def largest_error(function, arguments, results, dtype, bound):
    """In units in the last place; infinite where one is NaN or infinite and the other is not."""
    info = np.finfo(dtype)
    least_unit = mp.mpf(2) ** (info.minexp - info.nmant)
    overflow = mp.mpf(float(info.max)) * (1 + mp.mpf(2) ** -(info.nmant + 2))
    worst, where = mp.mpf(0), None
    for argument, result in zip(arguments, results, strict=True):
        if not all(math.isfinite(x) for x in argument):
            continue  # special values have tests of their own
        if bound:
            argument = [max(-bound, min(bound, x)) for x in argument]
        try:
            exact = function(*(mp.mpf(float(x)) for x in argument))
        except (ValueError, OverflowError):
            continue
        result = float(result)
        if mp.isnan(exact) or mp.isinf(exact):
            continue
        if abs(exact) >= overflow:
            error = mp.mpf(0) if math.isinf(result) and (result > 0) == (exact > 0) else mp.inf
        elif not math.isfinite(result):
            error = mp.inf
        else:
            unit = least_unit
            if exact:
                unit = max(unit, mp.mpf(2) ** (mp.frexp(exact)[1] - 1 - info.nmant))
            error = abs(mp.mpf(result) - exact) / unit
        if error > worst:
            worst, where = error, argument
    return float(worst), where


def nanoseconds(run, size):
    best = math.inf
    for _ in range(300):
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return best / size * 1e9


def measure(name, dtype, count):
    random = np.random.default_rng(0)
    arity = 1 if name in UNARY else 2
    if arity == 1:
        function, bound, numpy_name = UNARY[name]
        sets = ((x,) for x in samples(name, dtype, random, count))
    else:
        (function, numpy_name), bound = BINARY[name], None
        sets = pair_samples(name, dtype, random, count)
    run = runner(name, np.dtype(dtype).name, arity)
    worst, where = 0.0, None
    for arrays in sets:
        arrays = [a.astype(dtype) for a in arrays]
        out = np.empty_like(arrays[0])
        run(*arrays, out)()
        found, place = largest_error(function, zip(*arrays, strict=True), out, dtype, bound)
        if found > worst:
            worst, where = found, place
    low = 1.0 if name == "acosh" else 0.1
    arrays = [random.uniform(low, low + 0.85, 8192).astype(dtype) for _ in range(arity)]
    out = np.empty_like(arrays[0])
    ours = nanoseconds(run(*arrays, out), out.size)
    theirs = math.nan
    if numpy_name:
        numpy_function = getattr(np, numpy_name)
        theirs = nanoseconds(lambda: numpy_function(*arrays, out=out), out.size)
    return worst, where, ours, theirs


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=[*UNARY, *BINARY])
    parser.add_argument("--samples", type=int, default=5000, help="for each range")
    parser.add_argument("--dtype", choices=("float64", "float32"))
    parser.add_argument("--where", action="store_true", help="print the worst arguments too")
    options = parser.parse_args()
    dtypes = [np.dtype(options.dtype).type] if options.dtype else [np.float64, np.float32]
    print(f"{platform.processor() or platform.machine()}, NumPy {np.__version__}\n")
    head = [[f"{d.__name__}: ulp", "ns", "NumPy, ns"] for d in dtypes]
    print("| function | " + " | ".join(itertools.chain(*head)) + " |")
    print("|---" * (1 + 3 * len(dtypes)) + "|")
    np.seterr(all="ignore")
    for name in options.names:
        cells, places = [], []
        for dtype in dtypes:
            worst, where, ours, theirs = measure(name, dtype, options.samples)
            cells += [f"{worst:.2f}", f"{ours:.2f}", "" if math.isnan(theirs) else f"{theirs:.2f}"]
            places.append(where)
        row = f"| {name} | " + " | ".join(cells) + " |"
        print(row, *(places if options.where else ()), flush=True)


if __name__ == "__main__":
    main()
