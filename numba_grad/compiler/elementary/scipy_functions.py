"""Functions of `scipy.special` for which we have no formula: calls of SciPy's own C functions.

Object code names them `scipy_special_...`, and the loader finds their addresses in SciPy
(`runtime/special_functions.py`). So a kernel that calls one is cached like any other, and SciPy is
imported only where one is loaded. They compute in float64.
"""

from __future__ import annotations

from collections.abc import Callable

from numba_grad.compiler.elementary.registry import COMPLEX, FLOATING, formula
from numba_grad.compiler.elementary.scalar import (
    DOUBLES,
    Definition,
    Value,
    library_call,
    narrowed,
    rarely,
    to_float64,
)

Pair = tuple[Value, Value]

_PURE = " nounwind willreturn memory(none)"


def scipy_function(name: str) -> Callable[..., Value]:
    """The formula of SciPy's `name`, a function of some numbers that returns one."""

    def formula(*arguments: Value) -> Value:
        definition = scipy_definition(name, len(arguments))
        return library_call(definition.symbol, *arguments, definition=definition)

    return formula


def rarely_scipy(condition: Value, usual: Value, name: str, *arguments: Value) -> Value:
    """`usual`, but SciPy's `name(*arguments)` where the condition holds."""
    definition = scipy_definition(name, len(arguments))
    return rarely(condition, usual, definition.symbol, *arguments, definition=definition)


def scipy_definition(name: str, arity: int) -> Definition:
    """A function of double numbers that calls SciPy's.

    The last argument of SciPy's functions is Cython's: whether to skip looking for overrides.
    """
    symbol = f"scipy_special_{name}"
    own = f"numba_grad.scipy.{name}"
    names = ", ".join(f"double %x{k}" for k in range(arity))
    text = (
        f"define internal double @{own}({names}) alwaysinline{_PURE} {{\n"
        f"  %y = call double @{symbol}({names}, i32 0){_PURE}\n"
        "  ret double %y\n}\n"
    )
    return Definition(own, text, {symbol: ("double", ("double",) * arity + ("i32",))})


def _one_of_sici(name: str, result: int) -> Callable[[Value], Value]:
    own = f"numba_grad.scipy.{name}"
    text = (
        f"define internal double @{own}(double %x) alwaysinline{_PURE} {{\n"
        "  %p0 = alloca double\n"
        "  %p1 = alloca double\n"
        "  call void @scipy_special_sici(double %x, ptr %p0, ptr %p1)\n"
        f"  %y = load double, ptr %p{result}\n"
        "  ret double %y\n}\n"
    )

    declarations = {"scipy_special_sici": ("void", ("double", "ptr", "ptr"))}
    definition = Definition(own, text, declarations)

    def formula(x: Value) -> Value:
        return library_call(own, x, definition=definition)

    return formula


sine_integral = _one_of_sici("sine_integral", 0)
cosine_integral = _one_of_sici("cosine_integral", 1)


@formula(FLOATING)
def riemann_zeta(x: Value) -> Value:
    """From SciPy's zeta(x) - 1."""
    return scipy_function("zetac")(x) + 1.0


# Functions of complex numbers: two doubles in, two doubles out, which is how the 64-bit interfaces
# of Unix pass them. Loops around these calls stay scalar.


def scipy_function_of_complex(name: str, real_arguments: int = 0) -> Callable[..., Pair]:
    """The formula of SciPy's `name` of real numbers, so many, and then a complex one.

    Kernels pass complex numbers for all: of the first ones the real part counts.
    """
    symbol = f"scipy_special_complex_{name}"
    arity = real_arguments + 2
    names = ", ".join(f"double %x{k}" for k in range(arity))
    own = f"numba_grad.scipy.complex_{name}"
    text = (
        f"define internal {DOUBLES} @{own}({names}) alwaysinline{_PURE} {{\n"
        f"  %z = call {DOUBLES} @{symbol}({names}, i32 0){_PURE}\n"
        f"  ret {DOUBLES} %z\n}}\n"
    )
    declaration = (DOUBLES, (*("double",) * arity, "i32"))
    definition = Definition(own, text, {symbol: declaration})

    def formula(*parts: Value) -> Pair:
        orders = parts[: 2 * real_arguments : 2]
        return _of_doubles(definition, *orders, *parts[2 * real_arguments :])

    return formula


def _of_doubles(definition: Definition, *parts: Value) -> Pair:
    x = parts[0]
    pair = x.trace.pair_call(definition, *(to_float64(part) for part in parts))
    return narrowed(pair[0], x), narrowed(pair[1], x)


def _one_of_complex_sici(name: str, result: int) -> Callable[[Value, Value], Pair]:
    own = f"numba_grad.scipy.complex_{name}"
    text = (
        f"define internal {DOUBLES} @{own}(double %x, double %y) alwaysinline{_PURE} {{\n"
        f"  %p0 = alloca {DOUBLES}\n"
        f"  %p1 = alloca {DOUBLES}\n"
        "  call void @scipy_special_complex_sici(double %x, double %y, ptr %p0, ptr %p1)\n"
        f"  %z = load {DOUBLES}, ptr %p{result}\n"
        f"  ret {DOUBLES} %z\n}}\n"
    )
    declaration = ("void", ("double", "double", "ptr", "ptr"))
    definition = Definition(own, text, {"scipy_special_complex_sici": declaration})
    return lambda x, y: _of_doubles(definition, x, y)


complex_sine_integral = _one_of_complex_sici("sine_integral", 0)
complex_cosine_integral = _one_of_complex_sici("cosine_integral", 1)


# Which functions of kernel source these are. Loop variables of kernels are named i0 and i1.

for _name in ("i0", "i0e", "i1", "i1e", "j0", "j1", "k0", "k0e", "k1", "k1e", "y0", "y1"):
    formula(FLOATING, name=f"bessel_{_name}", arity=1)(scipy_function(_name))
for _name in ("rgamma", "exp1", "expi"):
    formula(FLOATING, name=_name, arity=1)(scipy_function(_name))
for _name in ("erf", "erfc", "erfcx", "ndtr", "log_ndtr"):
    formula(COMPLEX, name=_name, arity=1)(scipy_function_of_complex(_name))
for _name in ("gamma", "loggamma", "rgamma", "exp1", "expi"):
    formula(COMPLEX, name=_name, arity=1)(scipy_function_of_complex(_name))
formula(COMPLEX, name="digamma", arity=1)(scipy_function_of_complex("psi"))
formula(FLOATING, name="sine_integral", arity=1)(sine_integral)
formula(COMPLEX, name="sine_integral", arity=1)(complex_sine_integral)
formula(FLOATING, name="cosine_integral", arity=1)(cosine_integral)
formula(COMPLEX, name="cosine_integral", arity=1)(complex_cosine_integral)
for _name in ("gammainc", "gammaincc"):
    formula(FLOATING, name=_name, arity=2)(scipy_function(_name))
formula(FLOATING, name="bessel_j", arity=2)(scipy_function("jv"))
formula(COMPLEX, name="bessel_j", arity=2)(scipy_function_of_complex("jv", 1))
formula(FLOATING, name="bessel_i", arity=2)(scipy_function("iv"))
formula(FLOATING, name="bessel_ie", arity=2)(scipy_function("ive"))
formula(FLOATING, name="bessel_k", arity=2)(scipy_function("kv"))
formula(FLOATING, name="bessel_ke", arity=2)(scipy_function("kve"))
formula(FLOATING, name="bessel_y", arity=2)(scipy_function("yv"))
formula(FLOATING, name="betainc", arity=3)(scipy_function("betainc"))
