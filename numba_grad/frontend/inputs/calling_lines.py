"""Which line of the user's asks a tensor for numbers, and what to type there instead.

NumPy and Python convert behind the scenes: `array[0] = x` and `math.sin(x)` both call
`x.__float__()`, and so does `"%g" % x`. The instruction that the caller is at tells them apart, and
the text of the line tells which function was called. What cannot be found out (there is no source
text) makes a message less precise, never wrong.
"""

import ast
import builtins
import linecache
import math
import opcode
import os
import re
import sys
import warnings
from collections import deque
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FrameType, ModuleType
from typing import Any

import numpy as np

from numba_grad.fresh_thread import imported
from numba_grad.syntax_trees import syntax_tree

OF_REWRITTEN = "_control_flow"  # what functions of jit(f, control_flow=True) close over
_NOT_THE_USERS = (__name__.partition(".")[0] + ".", "numpy.")
_STANDARD_LIBRARY = f"{Path(os.__file__).parent}{os.sep}"
_INSTALLED = re.compile("(site|dist)-packages")
_STORES = frozenset(
    opcode.opmap[name] for name in ("STORE_SUBSCR", "STORE_SLICE") if name in opcode.opmap
)
_BINARY_OP, _LOAD_CONST = opcode.opmap["BINARY_OP"], opcode.opmap["LOAD_CONST"]
# Since Python 3.14, `values[x]` is a BINARY_OP.
_LOOKUPS = frozenset(
    opcode.opmap[name] for name in ("BINARY_SUBSCR", "BINARY_SLICE") if name in opcode.opmap
)
# What follows a replacement field of an f-string, without `:` and with it. Until Python 3.12 they
# are one, and its argument tells.
_WITHOUT_SPECIFICATION = frozenset(
    opcode.opmap[name]
    for name in ("FORMAT_VALUE", "FORMAT_SIMPLE", "CONVERT_VALUE")
    if name in opcode.opmap
)
_WITH_SPECIFICATION = frozenset(
    opcode.opmap[name] for name in ("FORMAT_VALUE", "FORMAT_WITH_SPEC") if name in opcode.opmap
)
_SKIPPED = frozenset((opcode.opmap["CACHE"], opcode.opmap["EXTENDED_ARG"]))
_SYMBOLS = [symbol for _, symbol in getattr(opcode, "_nb_ops", ())]  # of BINARY_OP, by argument

_QUESTIONS = (math.isnan, math.isinf, math.isfinite, math.isclose)
_FILLING = ("fill", "fill_diagonal", "put")
_ARRAY_MAKERS = (np.array, np.asarray, np.asanyarray, np.ascontiguousarray)
_OF_TRUTH = {  # functions of Python's, not written in it, that compare
    "min": "np.minimum(x, y), or x.min(),",
    "max": "np.maximum(x, y), or x.max(),",
    "any": "np.any(x)",
    "all": "np.all(x)",
    "sorted": "np.sort(x)",
    "bisect_left": "np.searchsorted(x, y)",
    "bisect_right": "np.searchsorted(x, y, side='right')",
}
_BY_KEYS = {  # with an argument `key`
    "min": "values[np.argmin(keys)] of arrays, or jit(f, control_flow=True),",
    "max": "values[np.argmax(keys)] of arrays, or jit(f, control_flow=True),",
    "sorted": "values[np.argsort(keys)] of arrays,",
}
_OF_PYTHON = ("builtins", "_bisect")
_OF_DEGREE = {  # by modules of `numpy.polynomial`
    "chebyshev": "ng.special.eval_chebyt",
    "hermite": "ng.special.eval_hermite",
    "laguerre": "ng.special.eval_laguerre",
    "legendre": "ng.special.eval_legendre",
}
_COUNTERPARTS = {  # of functions of `math` that NumPy has under another name, or SciPy has
    "fabs": "np.abs(x)",
    "pow": "x ** y",
    "fsum": "np.sum(x)",
    "dist": "np.linalg.norm(x - y)",
    "ldexp": "x * 2.0**n",
    "gamma": "scipy.special.gamma(x)",
    "lgamma": "scipy.special.gammaln(x)",
    "erf": "scipy.special.erf(x)",
    "erfc": "scipy.special.erfc(x)",
    "phase": "np.angle(x)",
    "isclose": "np.isclose(x, y)",
}


class Line:
    """Where a frame is, when this is made."""

    __slots__ = ("frame", "operation", "symbol")

    frame: FrameType
    operation: int  # the code of its instruction; -1 if it is at none
    symbol: str  # the operator, if it is at one of two operands: "%", "+="

    def __init__(self, frame: FrameType) -> None:
        # A number of a leaf is asked for in each pass of a training loop: no properties here.
        code, place = frame.f_code.co_code, frame.f_lasti
        self.frame = frame
        self.operation = code[place] if place >= 0 else -1
        self.symbol = ""
        if self.operation == _BINARY_OP and code[place + 1] < len(_SYMBOLS):
            self.symbol = _SYMBOLS[code[place + 1]]

    @property
    def place(self) -> tuple[str, int]:
        """The file, and the number of the line in it."""
        return self.frame.f_code.co_filename, self.frame.f_lineno

    @property
    def is_formatting(self) -> bool:
        """Whether it makes text: `"%g" % x`. (`format` has a method of its own.)"""
        return self.symbol in ("%", "%=")

    @property
    def is_question(self) -> bool:
        """Whether it asks what kind of number it is, which has no derivative: `math.isnan(x)`.
        Looks at the source text."""
        expression = self.expression()
        if not isinstance(expression, ast.Call):
            return False
        called = self.evaluated(expression.func)
        return any(called is question for question in _QUESTIONS)

    @property
    def is_in_text(self) -> bool:
        """Whether what it calls becomes text, and nothing else: `f"{float(x):.3f}"`."""
        code, place = self.frame.f_code.co_code, self.frame.f_lasti
        places = (k for k in range(place + 2, len(code), 2) if code[k] not in _SKIPPED)
        following = [*islice(places, 2)]
        if following and code[following[0]] in _WITHOUT_SPECIFICATION:
            return True
        if len(following) < 2 or code[following[0]] != _LOAD_CONST:
            return False
        last = following[1]
        is_specified = code[last] != opcode.opmap.get("FORMAT_VALUE") or code[last + 1] & 4
        return code[last] in _WITH_SPECIFICATION and bool(is_specified)

    @property
    def is_store(self) -> bool:
        """Whether it assigns to elements: `array[0] = x`."""
        return self.operation in _STORES

    @property
    def is_fill(self) -> bool:
        """Whether it assigns to all elements: `array.fill(x)`. Looks at the source text."""
        called = self.expression()
        called = called.func if isinstance(called, ast.Call) else None
        return isinstance(called, ast.Attribute) and called.attr in _FILLING

    @property
    def is_lookup(self) -> bool:
        """Whether it takes an item: `values[x]`."""
        return self.operation in _LOOKUPS or self.symbol == "[]"

    @property
    def is_in_place(self) -> bool:
        """Whether it is an operator such as `array += x`."""
        return len(self.symbol) > 1 and self.symbol.endswith("=")

    @property
    def package(self) -> str:
        """The package that the code is of."""
        return _module(self.frame).partition(".")[0]

    @property
    def library(self) -> str:
        """The package, if it is an installed one or Python's; "" for code of the user's."""
        path = self.frame.f_code.co_filename
        is_installed = path.startswith(_STANDARD_LIBRARY) or _INSTALLED.search(path)
        return self.package if is_installed else ""

    @property
    def is_of_optimizer(self) -> bool:
        """Whether it is SciPy's, and one of its optimizers calls it, or it is there itself."""
        frame: FrameType | None = self.frame
        while frame is not None and _module(frame).startswith("scipy."):
            if _module(frame).startswith("scipy.optimize."):
                return True
            frame = frame.f_back
        return False

    def expression(self) -> ast.expr | None:
        """What it is computing, or assigning to; None where there is no source text."""
        code = self.frame.f_code
        place = next(islice(code.co_positions(), max(self.frame.f_lasti, 0) // 2, None), None)
        if place is None or None in place:
            return None
        first, last, start, end = place
        lines = [
            linecache.getline(code.co_filename, number, self.frame.f_globals).encode()
            for number in range(first, last + 1)  # type: ignore[operator,arg-type]
        ]
        lines[-1] = lines[-1][:end]
        lines[0] = lines[0][start:]
        text = b"".join(lines)
        if not text.strip():
            return None
        try:
            if not self.is_in_place:
                return syntax_tree(b"(" + text + b")", mode="eval").body
            statement = syntax_tree(text).body[0]
            return statement.target if isinstance(statement, ast.AugAssign) else None
        except (SyntaxError, ValueError, IndexError):
            return None  # the file has changed since it was imported

    def calls_a_class(self) -> bool:
        call = self.expression()
        return isinstance(call, ast.Call) and isinstance(self.evaluated(call.func), type)

    def evaluated(self, expression: ast.expr) -> Any:
        """What a name, or a name in a module or an object, stands for; None for anything else. No
        code of the user's runs."""
        if isinstance(expression, ast.Name):
            frame = self.frame
            for names in (frame.f_locals, frame.f_globals, vars(builtins)):
                if expression.id in names:
                    return names[expression.id]
        elif isinstance(expression, ast.Attribute):
            owner = self.evaluated(expression.value)
            if isinstance(owner, ModuleType):
                return getattr(owner, expression.attr, None)
            try:
                return object.__getattribute__(owner, "__dict__").get(expression.attr)
            except AttributeError:
                return None
        return None


def calling_line() -> Line | None:
    """Where the innermost code is that is neither this library's nor NumPy's."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _module(frame).startswith(_NOT_THE_USERS):
        frame = frame.f_back
    return None if frame is None else Line(frame)


def warn_at_calling_line(message: str, category: type[Warning]) -> None:
    """A warning that names the line which `calling_line` is."""
    frame, depth = sys._getframe(1), 2
    while frame.f_back is not None and _module(frame).startswith(_NOT_THE_USERS):
        frame, depth = frame.f_back, depth + 1
    warnings.warn(message, category, stacklevel=depth)


def _module(frame: FrameType) -> str:
    name = frame.f_globals.get("__name__")
    return name if isinstance(name, str) else ""  # whoever calls exec may put anything there


def instead_of_conversion(constant: str = "", *, is_index: bool = False) -> str:
    """What to type in place of what made Python or NumPy ask a tensor for numbers, if it is known.

    `constant` is what to type where no gradient is wanted; what else there is holds also where a
    function is being traced. `is_index`: asked for an integer, as for the index of a list, or the
    size of an array, which no other function takes either.
    """
    line = calling_line()
    better = "" if line is None else _instead_of(line, is_index)
    is_general = better.startswith("ng.custom_op")
    in_order = [constant, better] if is_general else [better, constant]
    return "; ".join([text for text in in_order if text])


def _instead_of(line: Line, is_index: bool) -> str:
    if line.is_formatting:
        return "f'{x}', which needs no number; or return x, and print what comes back"
    if line.is_store or line.is_fill:
        return instead_of_array(line)
    if line.library:
        return _instead_of_library(line)
    expression = line.expression()
    if line.is_lookup:
        return _instead_of_lookup(line, expression)
    if not isinstance(expression, ast.Call):
        return ""
    if line.evaluated(expression.func) is range:
        return (
            "ng.fori_loop, or jit(f, control_flow=True), for the loop; static_argnums=... for the "
            "argument of a jitted function that range is of"
        )
    return "" if is_index else _instead_of_call(line, expression)


def _instead_of_library(line: Line) -> str:
    if line.is_of_optimizer:
        return (
            "return x.detach() at the end of the function that scipy.optimize calls, for a "
            "solution that is a constant; for its gradient, ng.custom_vjp around the solver, with "
            "the derivative of the solution"
        )
    if line.library == "scipy":
        found = imported("numba_grad.frontend.inputs.instead_of_scipy").advice(line.frame)
        if found:
            return found
    return (
        "ng.custom_op or ng.autograd.Function, which give a function that calls "
        f"{line.library} a derivative"
    )


def _instead_of_lookup(line: Line, expression: ast.expr | None) -> str:
    if not isinstance(expression, ast.Subscript):
        return "ng.asarray(values)[x] in place of values[x]"
    joining = line.evaluated(expression.value)
    for name in ("r_", "c_"):
        if joining is getattr(np, name):
            return f"ng.{name}[x, y] in place of np.{name}[x, y]"
    if isinstance(expression.slice, ast.Slice | ast.Tuple):
        return (
            "x[i + np.arange(n)] for n elements from i on; static_argnums=... for an argument that "
            "decides about shapes"
        )
    values, index = ast.unparse(expression.value), ast.unparse(expression.slice)
    return f"ng.asarray({values})[{index}] in place of {values}[{index}]"


def instead_of_array(line: Line) -> str:
    """What to type where a tensor is assigned into an ndarray, or added to it in place."""
    target = line.expression()
    new = ""
    if line.is_in_place and isinstance(target, ast.Name):
        new = f"{target.id} = {target.id} {line.symbol[:-1]} x, a new tensor; or "
    if isinstance(target, ast.Call) and isinstance(target.func, ast.Attribute):
        owner = target.func.value  # of array.fill(x), and np.fill_diagonal(array, x)
        is_function = isinstance(line.evaluated(owner), ModuleType)
        target = target.args[0] if is_function and target.args else owner
    while isinstance(target, ast.Subscript) and not isinstance(
        line.evaluated(target.value), list | tuple | dict
    ):
        target = target.value
    name, size, is_zero = "b", "n", True
    if isinstance(target, ast.Name | ast.Attribute | ast.Subscript):
        name = ast.unparse(target)
        array = line.evaluated(target)
        if isinstance(array, np.ndarray):
            size = str(array.shape[0] if array.ndim == 1 else array.shape)
            is_zero = not np.any(array)
    zeros = f"{name} = np.zeros({size}, like=x), or ng.zeros({size})"
    copied = f"{name} = ng.tensor({name}) before this line"
    if is_zero:
        whole_file = "for the whole file, import numba_grad.numpy as np"
        return f"{new}{zeros}, where {name} is made; or {copied}; or, {whole_file}"
    return f"{new}{copied}; or, where it is made in order to be filled, {zeros}"


def _instead_of_call(line: Line, call: ast.Call) -> str:
    called, name = line.evaluated(call.func), ast.unparse(call.func)
    if isinstance(called, BuiltinFunctionType) and called.__module__ in ("math", "cmath"):
        other = _counterpart(called.__name__)
        return f"{other} in place of {name}(x)" if other else ""
    given = call.args[0] if call.args else None
    if given is not None and not _is_of_coefficients(called) and _may_hold_tensors(line, given):
        is_joined = any(called is function for function in (*_ARRAY_MAKERS, np.concatenate))
        stacked = "np.stack([x, y])" if is_joined else f"{name}(np.stack([x, y]))"
        return (
            f"{stacked} in place of {name}([x, y]); or, for the whole file, "
            "import numba_grad.numpy as np, whose functions take such lists"
        )
    if any(called is function for function in _ARRAY_MAKERS):
        return (
            f"x itself in place of {name}(x): NumPy's functions take tensors; x.astype(float) for "
            "another dtype, x.copy() for a copy"
        )
    if _is_method_of_array(line, call.func):
        owner, method = name.rsplit(".", 1)
        function = f"{owner} @ x" if method == "dot" else f"np.{method}({owner}, x)"
        return f"{function} in place of {name}(x): methods of arrays take arrays alone"
    if _is_polynomial(called):
        return f"np.poly1d({name}.convert(kind=Polynomial).coef[::-1])(x) in place of {name}(x)"
    if _is_of_coefficients(called):
        return _instead_of_polynomial(called, name)
    if isinstance(called, np.vectorize):
        return f"a loop over elements; or import numba_grad.numpy as np, where {name} is made"
    if called is int:
        return "x.astype(int), a tensor, which may be an index"
    if called is round:
        return "np.round(x) in place of round(x)"
    if isinstance(called, type) and issubclass(called, (float, complex, np.generic)):
        return f"x itself in place of {name}(x): NumPy's functions and operators take tensors"
    return ""


def _may_hold_tensors(line: Line, given: ast.expr) -> bool:
    """Whether it is a sequence, and not one of numbers alone, such as a shape."""
    if isinstance(given, ast.List | ast.Tuple):
        return not all(isinstance(x, ast.Constant) for x in given.elts)
    if isinstance(given, ast.ListComp):
        return True
    held = line.evaluated(given)
    return isinstance(held, list | tuple | deque) and not all(isinstance(x, int) for x in held)


def _instead_of_polynomial(called: Any, name: str) -> str:
    """What to type for a class of `numpy.polynomial`, or a function of it that gives values."""
    module = called.__module__.rpartition(".")[2]
    if module == "polynomial":
        return f"np.poly1d(c[::-1])(x), of coefficients c from the last one on, in place of {name}"
    function = _OF_DEGREE.get(module)
    return f"the sum of c[k] * {function}(k, x) in place of {name}" if function else ""


def _is_polynomial(called: Any) -> bool:
    # Not imported for it: who has one has imported `numpy.polynomial`.
    return type(called).__module__.startswith("numpy.polynomial.")


def _is_of_coefficients(called: Any) -> bool:
    """Whether it is a class of `numpy.polynomial`, or a function of it that gives values."""
    is_named_so = isinstance(called, type) or getattr(called, "__name__", "").endswith("val")
    return is_named_so and str(called.__module__).startswith("numpy.polynomial.")


def _is_method_of_array(line: Line, called: ast.expr) -> bool:
    if not isinstance(called, ast.Attribute):
        return False
    is_named_so = all(callable(getattr(x, called.attr, None)) for x in (np, np.ndarray))
    return is_named_so and not isinstance(line.evaluated(called.value), ModuleType)


def instead_of_truth() -> str:
    """What to type in place of a function that asks a tensor whether it is true, if it is known."""
    line = calling_line()
    if line is None:
        return ""
    expression = line.expression()
    function = expression.func if isinstance(expression, ast.Call) else expression
    if function is None:
        return _of_called_as_written(line.frame)
    called, name = line.evaluated(function), ast.unparse(function)
    # Since Python 3.14 `any(... for ...)` is a loop, which stands where its name does.
    if function is expression and called is not any and called is not all:
        return _of_called_as_written(line.frame)
    if called is bool:
        return (
            f"x itself, or x.astype(bool), in place of {name}(x); ng.where(condition, x, y) for "
            "what depends on it, or ng.cond"
        )
    if not isinstance(called, BuiltinFunctionType) or called.__module__ not in _OF_PYTHON:
        return ""
    has_key = isinstance(expression, ast.Call) and any(x.arg == "key" for x in expression.keywords)
    other = (_BY_KEYS if has_key else _OF_TRUTH).get(called.__name__)
    return f"{other} in place of {name}({'..., key=...' if has_key else '...'})" if other else ""


def _of_called_as_written(frame: FrameType) -> str:
    """What to type where a function with `control_flow=True` calls one that is as it is written."""
    code = frame.f_code
    rewritten = [x for x in _callers(frame) if OF_REWRITTEN in x.co_freevars]
    if not rewritten or OF_REWRITTEN in code.co_freevars:
        return ""
    if code.co_name == "<genexpr>":
        return (
            "a loop with an `if`, or ng.where(condition, x, 0), in place of `if condition` in a "
            "generator expression"
        )
    place = (code.co_filename, code.co_firstlineno, code.co_name)
    if any((x.co_filename, x.co_firstlineno, x.co_name) == place for x in rewritten):
        return f"a loop in place of {code.co_name}, which calls itself"
    line = f"{Path(code.co_filename).name}, line {frame.f_lineno}"
    by = next(x.co_name for x in rewritten if not x.co_name.startswith(OF_REWRITTEN))
    has_self = code.co_argcount and code.co_varnames[0] == "self"
    how = "control_flow=True, static_argnums=0" if has_self else "control_flow=True"
    return f"@ng.jit({how}) on {code.co_name} ({line}), as on {by}, which calls it"


def _callers(frame: FrameType) -> Iterator[CodeType]:
    caller = frame.f_back
    while caller is not None:
        yield caller.f_code
        caller = caller.f_back


def _counterpart(name: str) -> str:
    """What to type for the function of `math` of that name; "" if there is nothing."""
    return _COUNTERPARTS.get(name) or (f"np.{name}(x)" if hasattr(np, name) else "")
