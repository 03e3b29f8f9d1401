"""Formulas as Python text of a CUDA device function.

One assignment for each operation. Integers are signed, as `Value` has it; where an operation is
unsigned, its operands are cast for it. Python's integers grow in Numba, so results are cast back.

GPU compilers may contract x*y + z to one operation, which formulas that keep track of rounding
errors do not survive: multiplications are calls that are exempt from it.
"""

from __future__ import annotations

import inspect
import math
import re
import struct
from collections import Counter
from dataclasses import dataclass, field
from typing import Protocol

from numba_grad.compiler.elementary.scalar import (
    BOOL,
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    Definition,
    Formula,
    Number,
    Trace,
    Value,
)

NAMES = {
    **{BOOL: "bool", "i8": "int8", "i16": "int16", INT32: "int32", INT64: "int64"},
    **{FLOAT32: "float32", FLOAT64: "float64"},
}
_ARITHMETIC = {
    **{"fadd": "+", "fsub": "-", "fdiv": "/", "add": "+", "sub": "-", "mul": "*"},
    **{"and": "&", "or": "|", "xor": "^", "shl": "<<", "ashr": ">>"},
}
_UNSIGNED = {"lshr": ">>", "udiv": "//", "urem": "%"}
# Python rounds quotients down; these round to zero.
_TO_ZERO = {"sdiv": "quotient_to_zero", "srem": "remainder_to_zero"}
_COMPARISONS = {
    **{"olt": "<", "ole": "<=", "ogt": ">", "oge": ">=", "oeq": "==", "une": "!="},
    **{"slt": "<", "sle": "<=", "sgt": ">", "sge": ">=", "eq": "==", "ne": "!="},
}
_BIT_CASTS = {
    FLOAT32: "float_as_int",
    FLOAT64: "double_as_longlong",
    INT32: "int_as_float",
    INT64: "longlong_as_double",
}
_MULTIPLY = {FLOAT32: "fmul_rn", FLOAT64: "dmul_rn"}
_SQUARE_ROOT = {FLOAT32: "fsqrt_rn", FLOAT64: "dsqrt_rn"}
_SELECTED = (FLOAT32, FLOAT64, INT32, INT64)  # what `cuda.selp` takes
_INDENT = "    "


class Library(Protocol):
    """Text of calls of functions that are not part of this one."""

    def call(self, name: str, kind: str, arguments: tuple[str, ...]) -> str:
        """Of the C library's, SciPy's, or one that formulas give as LLVM text."""
        ...

    def shared(self, name: str, kind: str, arguments: tuple[str, ...], is_of_complex: bool) -> str:
        """Of a formula that other formulas use."""
        ...


@dataclass(slots=True)
class PythonTrace(Trace):
    """The function being written, from the formula `own`."""

    library: Library
    own: Formula
    has_fma: bool = True
    has_fast_float64: bool = False
    lines: list[tuple[str, str]] = field(default_factory=list)  # a name, and what it is
    known: dict[str, Value] = field(default_factory=dict)  # what is computed already, by its text
    constants: dict[str, Number] = field(default_factory=dict)  # floating ones, by their text

    def emit(self, kind: str, text: str) -> Value:
        if text not in self.known:
            self.known[text] = self._new(kind, text)
        return self.known[text]

    def _new(self, kind: str, text: str) -> Value:
        value = Value(self, kind, f"v{len(self.lines)}")
        self.lines.append((value.name, text))
        return value

    def constant(self, kind: str, number: Number) -> Value:
        text = constant_text(kind, number)
        if kind in (FLOAT32, FLOAT64):
            self.constants[text] = number
        return Value(self, kind, text)

    def binary(self, operation: str, x: Value, y: Value) -> Value:
        kind, a, b = x.kind, x.name, y.name
        if operation == "fmul":
            return self.emit(kind, f"libdevice.{_MULTIPLY[kind]}({a}, {b})")
        if operation in _TO_ZERO:
            return self.emit(kind, self.library.call(_TO_ZERO[operation], kind, (a, b)))
        if operation in _UNSIGNED:
            unsigned = f"u{NAMES[kind]}"
            text = f"{unsigned}({a}) {_UNSIGNED[operation]} {unsigned}({b})"
            return self.emit(kind, f"{NAMES[kind]}({text})")
        if kind == BOOL and operation == "xor" and b in ("True", "False"):
            return self.emit(kind, f"not {a}") if b == "True" else x
        text = f"{a} {_ARITHMETIC[operation]} {b}"
        grows = operation in ("add", "sub", "mul", "shl") or kind != INT64
        if kind in (BOOL, FLOAT32, FLOAT64) or not grows:
            return self.emit(kind, text)
        return self.emit(kind, f"{NAMES[kind]}({text})")

    def compare(self, operation: str, x: Value, y: Value) -> Value:
        if operation == "ult":
            unsigned = f"u{NAMES[x.kind]}"
            return self.emit(BOOL, f"{unsigned}({x.name}) < {unsigned}({y.name})")
        return self.emit(BOOL, f"{x.name} {_COMPARISONS[operation]} {y.name}")

    def negate(self, x: Value) -> Value:
        return self.emit(x.kind, f"-{x.name}")

    def select(self, condition: Value, x: Value, y: Value) -> Value:
        if x.kind in _SELECTED:
            return self.emit(x.kind, f"cuda.selp({condition.name}, {x.name}, {y.name})")
        return self.emit(x.kind, f"{x.name} if {condition.name} else {y.name}")

    def convert(self, operation: str, x: Value, kind: str) -> Value:
        if operation == "bitcast" and x.name in self.constants:
            return self.constant(kind, _bits(x.kind, self.constants[x.name]))
        if operation == "bitcast":
            return self.emit(kind, f"libdevice.{_BIT_CASTS[x.kind]}({x.name})")
        return self.emit(kind, f"{NAMES[kind]}({x.name})")

    def function(self, name: str, *arguments: Value) -> Value:
        kind = arguments[0].kind
        text = ", ".join(x.name for x in arguments)
        if name == "ctpop":
            return self.emit(kind, _bit_count(kind, text))
        if name == "sqrt":
            name = _SQUARE_ROOT[kind]
        elif kind == FLOAT32:
            name += "f"
        return self.emit(kind, f"libdevice.{name}({text})")

    def call(self, definition: Definition, *arguments: Value) -> Value:
        return self.library_call(definition.symbol, *arguments)

    def pair_call(self, definition: Definition, *arguments: Value) -> tuple[Value, Value]:
        both = self.library_call(definition.symbol, *arguments)
        return self.emit(FLOAT64, f"{both.name}.real"), self.emit(FLOAT64, f"{both.name}.imag")

    def library_call(
        self, name: str, *arguments: Value, definition: Definition | None = None
    ) -> Value:
        kind = arguments[0].kind
        return self.emit(kind, self.library.call(name, kind, _names(arguments)))

    def rarely(
        self,
        condition: Value,
        usual: Value,
        name: str,
        *arguments: Value,
        definition: Definition | None = None,
    ) -> Value:
        rare = self.library.call(name, usual.kind, _names(arguments))
        result = self._new(usual.kind, usual.name)
        self.lines.append((f"if {condition.name}", f"{result.name} = {rare}"))
        return result

    def shared(
        self, name: str, formula: Formula, values: tuple[Value, ...], is_of_pairs: bool
    ) -> Value | tuple[Value, ...]:
        if formula is self.own:
            return formula(*values)
        kind = values[0].kind
        if not is_of_pairs:
            return self.emit(kind, self.library.shared(name, kind, _names(values), False))
        pairs = zip(values[::2], values[1::2], strict=True)
        texts = tuple(f"complex({x.name}, {y.name})" for x, y in pairs)
        both = self.emit(kind, self.library.shared(name, kind, texts, True))
        return self.emit(kind, f"{both.name}.real"), self.emit(kind, f"{both.name}.imag")


def _names(values: tuple[Value, ...]) -> tuple[str, ...]:
    return tuple(x.name for x in values)


def constant_text(kind: str, number: Number) -> str:
    """A typed literal: Numba takes plain ones for float64 and int64."""
    if kind == BOOL:
        return "True" if number else "False"
    if kind in (FLOAT32, FLOAT64):
        return f"{NAMES[kind]}({_float_text(kind, number)})"
    bits = int(kind[1:])
    wrapped = (int(number) + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)
    return f"{NAMES[kind]}({wrapped})"


def _float_text(kind: str, number: Number) -> str:
    value = float(number)
    if kind == FLOAT32 and math.isfinite(value):
        value = struct.unpack("f", struct.pack("f", value))[0]
    return {math.inf: "inf", -math.inf: "-inf"}.get(value, repr(value))


def _bits(kind: str, number: Number) -> int:
    """The integer with the same bits."""
    forms = ("f", "i") if kind == FLOAT32 else ("d", "q")
    return struct.unpack(forms[1], struct.pack(forms[0], number))[0]


def _bit_count(kind: str, x: str) -> str:
    if kind == INT64:
        return f"int64(libdevice.popcll({x}))"
    return f"{NAMES[kind]}(libdevice.popc(int32(u{NAMES[kind]}({x}))))"


def device_function(
    name: str,
    formula: Formula,
    arguments: list[tuple[str, tuple[str, ...]]],
    library: Library,
    result_cast: str = "",
) -> str:
    """The text of a device function.

    Each argument has a name and the types of its values: two for the parts of a complex number. Of
    a formula with two results these are the parts of one complex number. `result_cast` is the name
    of a type, for unsigned integers.
    """
    trace = PythonTrace(library, inspect.unwrap(formula))
    head, values = [], []
    for argument, kinds in arguments:
        if len(kinds) == 2:
            parts = [f"{argument}_{part}" for part in ("real", "imag")]
            head += [f"{part} = {argument}.{part[-4:]}" for part in parts]
            values += [Value(trace, k, part) for k, part in zip(kinds, parts, strict=True)]
            continue
        (kind,) = kinds
        if result_cast.startswith("uint"):
            head.append(f"{argument} = {NAMES[kind]}({argument})")
        values.append(Value(trace, kind, argument))
    result = formula(*values)
    if isinstance(result, tuple):
        returned = "complex({}, {})".format(*(x.name for x in result))
    elif result_cast and result.kind != BOOL:
        returned = f"{result_cast}({result.name})"
    else:
        returned = result.name
    names = ", ".join(argument for argument, _ in arguments)
    lines = [f"def {name}({names}):"]
    lines += [_INDENT + line for line in head + _body(trace.lines, returned)]
    return "@cuda.jit(device=True)\n" + "\n".join(lines) + "\n"


_VALUE = re.compile(r"\bv\d+\b")
_MOST_COLUMNS = 92


def _body(lines: list[tuple[str, str]], returned: str) -> list[str]:
    """The assignments that the result depends on, and the return.

    Formulas compute some values for nothing, which go. What is used once goes where it is used, as
    long as lines stay short: compilers take their time for each name.
    """
    kept: list[tuple[str, str]] = []  # in reverse
    uses = Counter(_VALUE.findall(returned))
    for name, text in reversed(lines):
        if name.startswith("if "):
            target = text.split(" = ")[0]
            if uses[target]:
                # Twice each: what stands in a branch stays there, what it uses stays before it.
                uses.update(_VALUE.findall(f"{name} {text}") * 2)
                kept.append((name, text))
        elif uses[name]:
            uses.update(_VALUE.findall(text))
            kept.append((name, text))
    result: list[str] = []
    pending: dict[str, str] = {}

    def settled(text: str) -> str:
        """The text with what was pending in place of names, where there is room."""
        for name in _VALUE.findall(text):
            if name not in pending:
                continue
            own = pending.pop(name)
            longer = _with(text, name, own)
            if len(longer) <= _MOST_COLUMNS:
                text = longer
            else:
                result.append(f"{name} = {own}")
        return text

    for name, text in reversed(kept):
        if name.startswith("if "):
            result += [f"{name}:", _INDENT + text]
        elif uses[name] == 1:
            pending[name] = settled(text)
        else:
            result.append(f"{name} = {settled(text)}")
    result.append(f"return {settled(returned)}")
    return result


_CALL = re.compile(r"[\w.]+(\(.*\))?")


def _with(text: str, name: str, own: str) -> str:
    """`text` with `own` for `name`, in parentheses where operators could tear it apart."""
    position = re.search(rf"\b{name}\b", text)
    assert position is not None
    before, after = text[: position.start()], text[position.end() :]
    is_argument = (before == "" or before.endswith(("(", ", "))) and (
        after == "" or after.startswith((")", ","))
    )
    if not is_argument and not _is_one_call(own):
        own = f"({own})"
    return before + own + after


def _is_one_call(text: str) -> bool:
    if not _CALL.fullmatch(text):
        return False
    depth = 0
    for position, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if character == ")" and depth == 0:
            return position == len(text) - 1
    return True
