"""Functions of a module that are text already: formulas, and rare cases of these."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from llvmlite import ir

_TYPES = {
    "float": ir.FloatType(),
    "double": ir.DoubleType(),
    "void": ir.VoidType(),
    "ptr": ir.PointerType(),
    **{f"i{n}": ir.IntType(n) for n in (1, 8, 16, 32, 64)},
}


class TextFunction(ir.Function):
    """One of them."""

    def __init__(self, module: ir.Module, function_type: ir.FunctionType, name: str, text: str):
        self.text = text
        self.calls: list[Any] = []  # instructions
        self.name_of_form = ""  # for vectors, if it has one
        super().__init__(module, function_type, name)

    def descr(self, buf: list[str]) -> None:
        buf.append(self.text)


def declare(module: ir.Module, declarations: Mapping[str, tuple[str, Iterable[str]]]) -> None:
    """Functions that the module does not have yet, by their symbols: type of the result, and of the
    arguments."""
    for symbol, (result, arguments) in declarations.items():
        if symbol not in module.globals:
            ir.Function(module, function_type(result, arguments), symbol)


def function_type(result: str, arguments: Iterable[str] = ()) -> ir.FunctionType:
    return ir.FunctionType(_type(result), [_type(kind) for kind in arguments])


def _type(kind: str) -> ir.Type:
    if kind.startswith("{"):
        return ir.LiteralStructType([_TYPES[k] for k in kind[1:-1].split(", ")])
    return _TYPES[kind]
