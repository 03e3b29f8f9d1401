"""What Python and NumPy call the scalar operations."""

import cmath
import math
import operator
from typing import Any

import numpy as np

BINARY = {
    operator.add: "add",
    operator.sub: "subtract",
    operator.mul: "multiply",
    operator.truediv: "divide",
    operator.floordiv: "floor_divide",
    operator.mod: "mod",
    operator.pow: "power",
    operator.lt: "less",
    operator.le: "less_equal",
    operator.gt: "greater",
    operator.ge: "greater_equal",
    operator.eq: "equal",
    operator.ne: "not_equal",
    operator.and_: "bitwise_and",
    operator.or_: "bitwise_or",
    operator.xor: "bitwise_xor",
    operator.lshift: "left_shift",
    operator.rshift: "right_shift",
}
UNARY = {operator.neg: "negative", operator.pos: "positive", operator.not_: "not"}
FUNCTIONS: dict[Any, str] = {abs: "absolute", bool: "bool", math.floor: "floor", math.ceil: "ceil"}
for _name in ("sin", "cos", "tan", "exp", "expm1", "log", "log1p", "log10", "sqrt", "sinh", "cosh"):
    FUNCTIONS[getattr(math, _name)] = FUNCTIONS[getattr(np, _name)] = _name
FUNCTIONS |= {
    **{math.tanh: "tanh", np.tanh: "tanh", math.log2: "log2", np.log2: "log2"},
    **{math.asin: "arcsin", np.arcsin: "arcsin", math.acos: "arccos", np.arccos: "arccos"},
    **{math.atan: "arctan", np.arctan: "arctan", math.atan2: "arctan2", np.arctan2: "arctan2"},
    **{math.hypot: "hypot", np.hypot: "hypot", math.erf: "erf", math.fabs: "absolute"},
    **{np.abs: "absolute", np.fabs: "absolute", np.sign: "sign", np.power: "power"},
    **{math.pow: "power", pow: "power", np.floor: "np_floor", np.ceil: "np_ceil"},
    **{np.add: "add", np.subtract: "subtract", np.multiply: "multiply", np.divide: "divide"},
    **{np.negative: "negative", np.maximum: "maximum", np.minimum: "minimum"},
    **{math.isnan: "isnan", np.isnan: "isnan", math.isinf: "isinf", np.isinf: "isinf"},
    **{math.isfinite: "isfinite", np.isfinite: "isfinite"},
    **{math.asinh: "arcsinh", np.arcsinh: "arcsinh", math.acosh: "arccosh", np.arccosh: "arccosh"},
    **{math.atanh: "arctanh", np.arctanh: "arctanh", np.exp2: "exp2", np.cbrt: "cbrt"},
    **{math.erfc: "erfc", np.logaddexp: "logaddexp"},
    **{math.copysign: "copysign", np.copysign: "copysign", math.trunc: "trunc"},
    **{math.degrees: "degrees", np.degrees: "degrees", np.rad2deg: "degrees"},
    **{math.radians: "radians", np.radians: "radians", np.deg2rad: "radians"},
    **{np.trunc: "np_trunc", np.rint: "rint", np.positive: "positive", np.mod: "mod"},
    **{np.remainder: "mod", np.floor_divide: "floor_divide", np.true_divide: "divide"},
    **{np.less: "less", np.less_equal: "less_equal", np.greater: "greater"},
    **{np.greater_equal: "greater_equal", np.equal: "equal", np.not_equal: "not_equal"},
    **{np.logical_not: "not", round: "round", np.round: "rint", np.around: "rint"},
    **{np.real: "real", np.imag: "imag", np.conjugate: "conjugate", np.angle: "angle"},
    **{math.gamma: "gamma", math.lgamma: "lgamma", np.fmod: "fmod"},
    cmath.phase: "angle",
}
for _name in ("exp", "log", "sqrt", "sin", "cos", "sinh", "cosh"):
    FUNCTIONS[getattr(cmath, _name)] = _name


def is_of_numpy(function: Any) -> bool:
    # Methods of instances, such as `random.random`, have None there.
    return (getattr(function, "__module__", None) or "").startswith("numpy")


def operation_name(function: Any) -> str | None:
    """The scalar operation of a function of Python or NumPy."""
    try:
        return BINARY.get(function) or UNARY.get(function) or FUNCTIONS.get(function)
    except TypeError:
        return None
