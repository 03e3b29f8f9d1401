"""What generated source calls the functions of the kernel language: it is Numba source, for people.

The writer of that source puts these words in place of the names, and the walk that lowers it puts
the names back.
"""

_OF_MATH = (
    *("sin", "cos", "tan", "exp", "expm1", "log", "log1p", "log10", "sqrt", "sinh", "cosh", "tanh"),
    *("hypot", "erf", "erfc", "gamma", "copysign", "isnan", "isfinite", "isinf"),
)
_OF_NUMPY = (
    *("log2", "exp2", "cbrt", "sign", "maximum", "minimum", "trunc", "rint", "floor", "ceil"),
)
WORDS = {
    **{name: f"math.{name}" for name in _OF_MATH},
    **{f"arc{x}": f"math.a{x}" for x in ("sin", "cos", "tan", "tan2", "sinh", "cosh", "tanh")},
    **{name: f"np.{name}" for name in _OF_NUMPY},
    **{"absolute": "abs", "gammaln": "math.lgamma", "fmod": "math.fmod"},
    # Those of `source_functions.py`.
    **{name: name for name in ("digamma", "trigamma", "zeta")},
}
