"""A kernel of `numba.cuda` as a function of one thread, for the front end of CPU functions.

What a kernel finds outside of itself and has to do with CUDA is put in other words: `numba.cuda`
and its names in `kernel_names`, device functions in functions for the CPU. So Numba types a kernel
as it types functions, by whichever package compiles it, and one tree serves both. This module
imports Numba, so only code that compiles imports it.
"""

# Numba's annotations are few, and wrong where they come from class attributes set at run time.
# pyright: reportAttributeAccessIssue=false, reportPrivateImportUsage=false

import sys
import types
from collections.abc import Collection
from typing import Any

import numba
from numba.core import errors, ir
from numba.core.compiler import run_frontend
from numba.core.types import Boolean, Number

from numba_grad.compiler.numba_functions import kernel_names
from numba_grad.compiler.numba_functions.numba_ir.refusals import refused
from numba_grad.immutable import immutable

_CUDA_MODULES = ("numba.cuda", "numba_cuda_mlir.cuda")


@immutable
class _Refused:
    """A name of `numba.cuda` that has no derivative."""

    name: str


def thread_function(kernel: Any) -> Any:
    """What one thread of a kernel does, as a plain function for the CPU.

    Raises
    ------
    KernelError
        If the kernel uses what is not differentiated: the message has its line.
    """
    return _Names().function(getattr(kernel, "py_func", kernel))


class _Names:
    def __init__(self) -> None:
        self._functions: dict[Any, Any] = {}  # device functions, and what they are here

    def function(self, plain: types.FunctionType) -> types.FunctionType:
        code = plain.__code__
        scope, names = plain.__globals__, _names(code)
        used = {name: self.value(scope[name], names) for name in names if name in scope}
        cells = None
        if plain.__closure__ is not None:
            cells = tuple([self._cell(cell, names) for cell in plain.__closure__])
        result = types.FunctionType(code, scope | used, plain.__name__, plain.__defaults__, cells)
        result.__kwdefaults__ = plain.__kwdefaults__
        result.__module__ = plain.__module__
        _check_names(result)
        return result

    def _cell(self, cell: Any, names: Collection[str]) -> Any:
        try:
            return types.CellType(self.value(cell.cell_contents, names))
        except ValueError:  # nothing is in it yet
            return cell

    def value(self, value: Any, names: Collection[str]) -> Any:
        """What a name outside of the kernel stands for; of a module, its own `names`."""
        kind = type(value)
        if isinstance(value, types.ModuleType):
            return self._module(value, names)
        if isinstance(value, Number | Boolean):
            return kernel_names.TYPES.get(str(value), value)
        if hasattr(value, "py_func") and "cuda" in kind.__module__:
            return self._device_function(value)
        for name in _CUDA_MODULES:
            own = vars(sys.modules[name]) if name in sys.modules else {}
            known = getattr(value, "__name__", getattr(value, "_name", ""))
            if known and own.get(known) is value:
                return getattr(kernel_names.CUDA, known, _Refused(f"`cuda.{known}`"))
        return value

    def _module(self, module: types.ModuleType, names: Collection[str]) -> types.ModuleType:
        if module.__name__ in _CUDA_MODULES:
            return kernel_names.CUDA
        own = {name: value for name, value in vars(module).items() if name in names}
        changed = {name: self.value(value, names) for name, value in own.items()}
        if all(changed[name] is value for name, value in own.items()):
            return module
        result = types.ModuleType(module.__name__)
        vars(result).update(changed)
        return result

    def _device_function(self, function: Any) -> Any:
        """Compiled by Numba for the CPU: once for each kernel, as functions call each other."""
        found = self._functions.get(function)
        if found is None:
            # Until it is made, it is called by itself.
            self._functions[function] = _Refused(f"the recursive `{function.py_func.__name__}`")
            found = self._functions[function] = numba.njit(self.function(function.py_func))
        return found


def _names(code: types.CodeType) -> set[str]:
    """The names that a function, or one inside of it, looks up."""
    inner = [c for c in code.co_consts if isinstance(c, types.CodeType)]
    return set(code.co_names).union(*map(_names, inner))


def _check_names(function: Any) -> None:
    """Refuse names that Numba would report as unknown to the CPU."""
    try:
        code = run_frontend(function)
    except errors.NumbaError:
        return  # Reported by the front end, with types.

    def known_value_of(variable: Any) -> Any:
        """A name's value, or None."""
        try:
            definition = code.get_definition(variable)
        except KeyError:
            return None
        if isinstance(definition, ir.Global | ir.FreeVar):
            return definition.value
        if isinstance(definition, ir.Expr) and definition.op == "getattr":
            of = known_value_of(definition.value)
            if isinstance(of, types.ModuleType) and of.__name__.split(".")[0] == "cuda":
                return getattr(of, definition.attr, _Refused(f"`{of.__name__}.{definition.attr}`"))
        return None

    for block in code.blocks.values():
        end = block.body[-1]
        if isinstance(end, ir.Raise | ir.StaticRaise | ir.DynamicRaise):
            what = "`raise` or `assert` in a kernel, whose threads report nothing,"
            raise refused(end.loc, what, instead="a result that says so; or ")
        for assignment in block.find_insts(ir.Assign):
            found = known_value_of(assignment.target)
            if isinstance(found, _Refused):
                raise refused(assignment.loc, found.name)
