"""What a Python function computes once Numba has compiled it, as text: so its code has a name on
disk.

Numba takes what a function finds outside of itself, its globals and what it closes over, for
constants. So the text holds their values; where it cannot, as for an object of some class, there is
no text, and the code is not kept.
"""

import dis
import importlib.util
import math
import os
import sys
import types
from typing import Any

import numpy as np

# Modules whose functions follow from their names and versions.
_KNOWN_MODULES = ("numpy", "math", "cmath", "operator", "builtins", "numba")
_MOST_BYTES = 1 << 20  # of an array


class _Unknown(Exception):
    """Something that text does not tell."""


def identity_of(function: Any, *, is_translated: bool = False) -> str | None:
    """The text of a plain function, or of what `njit` or `cuda.jit` of Numba made of one; None if
    there is none. Generated functions bring theirs along. `is_translated`: what it computes as a
    user's function that is differentiated, whatever its decorators were told."""
    generated = getattr(function, "generated_source", None)
    if generated is not None:
        return f"{_environment()}\n{generated}"
    try:
        return "\n".join([_environment(), *_Description(is_translated).of_function(function)])
    except _Unknown:
        return None


def _environment() -> str:
    """What else compiling depends on. Numba's version is part of every key anyway."""
    magic = importlib.util.MAGIC_NUMBER.hex()
    numba = sys.modules.get("numba")
    checks = os.environ.get("NUMBA_BOUNDSCHECK", "")
    if numba is not None:
        checks = numba.config.BOUNDSCHECK or ""  # type: ignore[attr-defined]
    options = [f"{name}={os.environ.get(name)}" for name in ("NUMBA_OPT", "NUMBA_SLP_VECTORIZE")]
    return f"python {magic}, numpy {np.__version__}, bounds {checks}, {', '.join(options)}"


class _Description:
    def __init__(self, is_translated: bool) -> None:
        self.is_translated = is_translated
        self.lines: list[str] = []
        self.numbers: dict[int, int] = {}  # of functions, by id: they may call themselves

    def of_function(self, function: Any) -> list[str]:
        self.function(function)
        return self.lines

    def function(self, function: Any) -> str:
        """Describe it, once; how to refer to it."""
        kind = ""
        if self.is_translated and hasattr(function, "_dispatcher"):  # of `numba.vectorize`
            kind = (
                f"of elements {getattr(function, 'types', '')} {getattr(function, 'signature', '')}"
            )
            function = getattr(function, "gufunc_builder", function._dispatcher)
        plain = getattr(function, "py_func", function)
        if not isinstance(plain, types.FunctionType):
            raise _Unknown
        if id(plain) in self.numbers:
            return f"function {self.numbers[id(plain)]}"
        number = self.numbers[id(plain)] = len(self.numbers)
        options = ""
        if plain is not function and not self.is_translated:
            options = self.options(function)
        found = [f"function {number} {options}{kind}"]
        found += self.code(plain.__code__)
        found.append(f"defaults {self.value(plain.__defaults__)}")
        found.append(f"keywords {self.value(tuple((plain.__kwdefaults__ or {}).items()))}")
        for cell_name, cell in zip(
            plain.__code__.co_freevars, plain.__closure__ or (), strict=True
        ):
            found.append(f"closes over {cell_name} {self.cell(cell)}")
        for name in sorted(_globals_of(plain.__code__)):
            found.append(f"global {name} {self.global_value(plain, name)}")
        self.lines += found
        return f"function {number}"

    def options(self, dispatcher: Any) -> str:
        """What `njit` or `cuda.jit` was told."""
        options = getattr(dispatcher, "targetoptions", None)
        is_open = getattr(dispatcher, "_can_compile", False)
        if options is None or not is_open or getattr(dispatcher, "locals", None):
            raise _Unknown
        if options.get("parallel") or options.get("link"):  # other files' code
            raise _Unknown
        # `cuda.jit` has lists among its own, which nobody changes.
        fixed = {k: tuple(v) if isinstance(v, list) else v for k, v in options.items()}
        return ", ".join(f"{k}={self.value(v)}" for k, v in sorted(fixed.items()))

    def code(self, code: types.CodeType) -> list[str]:
        """The instructions, without where they were written."""
        counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
        lines = [
            f"code {code.co_code.hex()} {counts}",
            f"names {code.co_names} {code.co_varnames} {code.co_freevars} {code.co_cellvars}",
            f"exceptions {getattr(code, 'co_exceptiontable', b'').hex()}",
        ]
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                lines += ["inner", *self.code(constant), "end"]
            else:
                lines.append(f"constant {self.value(constant)}")
        return lines

    def cell(self, cell: Any) -> str:
        try:
            return self.value(cell.cell_contents)
        except ValueError:  # nothing is in it yet
            raise _Unknown from None

    def global_value(self, function: types.FunctionType, name: str) -> str:
        scope = function.__globals__
        if name in scope:
            return self.value(scope[name])
        builtins = sys.modules["builtins"]
        if not hasattr(builtins, name):
            raise _Unknown
        return f"builtin {name}"

    def value(self, value: Any) -> str:
        kind = type(value)
        if value is None or kind in (bool, int, str, bytes) or value is Ellipsis:
            return f"{kind.__name__} {value!r}"
        if kind is float:
            return f"float {value.hex()} {math.copysign(1.0, value)}"
        if kind is complex:
            return f"complex {self.value(value.real)} {self.value(value.imag)}"
        if kind in (tuple, frozenset):
            items = [self.value(item) for item in value]
            return f"{kind.__name__} [{', '.join(sorted(items) if kind is frozenset else items)}]"
        if isinstance(value, np.generic | np.ndarray):
            return self.array(np.asarray(value), kind.__name__)
        if isinstance(value, np.dtype) and value.kind in "biufc":
            return f"dtype {value.str}"
        if isinstance(value, types.ModuleType) and _is_known(value.__name__):
            return f"module {value.__name__}"
        if isinstance(value, np.ufunc) and getattr(np, value.__name__, None) is value:
            return f"ufunc {value.__name__}"
        if isinstance(value, type | types.BuiltinFunctionType) and _is_known(value.__module__):
            return f"{value.__module__}.{value.__qualname__}"
        if self.is_translated and isinstance(value, type):
            if issubclass(value, BaseException):
                return f"exception {value.__module__}.{value.__qualname__}"
            fields = getattr(value, "_fields", None)
            if issubclass(value, tuple) and fields is not None:
                return f"named tuple {value.__name__} {fields}"
        if isinstance(value, types.FunctionType):
            # Numba calls it only if somebody has told it how: that is not in the function. NumPy's
            # own it knows.
            if _is_known(value.__module__):
                return f"{value.__module__}.{value.__qualname__}"
            raise _Unknown
        if hasattr(value, "py_func") and hasattr(value, "targetoptions"):
            return self.function(value)
        if self.is_translated and hasattr(value, "_dispatcher"):
            return self.function(value)
        raise _Unknown

    def array(self, array: np.ndarray, kind: str) -> str:
        if array.nbytes > _MOST_BYTES or array.dtype.kind not in "biufc":
            raise _Unknown
        order = f"{array.flags.c_contiguous} {array.flags.f_contiguous}"
        return f"{kind} {array.dtype.str} {array.shape} {order} {array.tobytes().hex()}"


def _is_known(module: str | None) -> bool:
    return module is not None and module.partition(".")[0] in _KNOWN_MODULES


def _globals_of(code: types.CodeType) -> set[str]:
    """The names that a function, or one inside of it, looks up outside of all functions."""
    names = {
        instruction.argval
        for instruction in dis.get_instructions(code)
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME")
    }
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _globals_of(constant)
    return names
