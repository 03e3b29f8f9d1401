"""Formulas as Python text of a CUDA device function.

One assignment for each operation. Integers are signed, as `Value` has it; where an operation is
unsigned, its operands are cast for it. Python's integers grow in Numba, so results are cast back.

GPU compilers may contract x*y + z to one operation, which formulas that keep track of rounding
errors do not survive: multiplications are calls that are exempt from it.
"""

from __future__ import annotations

import inspect
import math
import struct
from collections import Counter
from collections.abc import Sequence
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
    ScalarBuilder,
    Value,
)
from numba_grad.compiler.scalar_expressions import (
    Call,
    Choice,
    Name,
    Operation,
    Part,
    Term,
    functions_in,
    names_in,
    text_of,
    with_term,
)
from numba_grad.immutable import immutable

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
    """Calls of functions that are not part of this one."""

    def call(self, name: str, kind: str, arguments: tuple[Term, ...]) -> Term:
        """Of the C library's, SciPy's, or one that formulas give as LLVM text."""
        ...

    def shared(
        self, name: str, kind: str, arguments: tuple[Term, ...], is_of_complex: bool
    ) -> Term:
        """Of a formula that other formulas use."""
        ...


@immutable
class Assignment:
    """`name = term`; in a branch where there is a condition."""

    name: str
    term: Term
    condition: str = ""


@dataclass(slots=True)
class PythonTrace(ScalarBuilder):
    """The function being written, from the formula `own`."""

    library: Library
    own: Formula
    has_fma: bool = True
    has_fast_float64: bool = False
    lines: list[Assignment] = field(default_factory=list)
    known: dict[Term, Value] = field(default_factory=dict)  # what is computed already
    constants: dict[str, Number] = field(default_factory=dict)  # floating ones, by their text

    def emit(self, kind: str, term: Term) -> Value:
        if term not in self.known:
            self.known[term] = self._new(kind, term)
        return self.known[term]

    def _new(self, kind: str, term: Term) -> Value:
        value = Value(self, kind, f"v{len(self.lines)}")
        self.lines.append(Assignment(value.name, term))
        return value

    def constant(self, kind: str, number: Number) -> Value:
        text = constant_text(kind, number)
        if kind in (FLOAT32, FLOAT64):
            self.constants[text] = number
        return Value(self, kind, text)

    def binary(self, operation: str, x: Value, y: Value) -> Value:
        kind, pair = x.kind, _terms((x, y))
        if operation == "fmul":
            return self.emit(kind, Call(f"libdevice.{_MULTIPLY[kind]}", pair))
        if operation in _TO_ZERO:
            return self.emit(kind, self.library.call(_TO_ZERO[operation], kind, pair))
        if operation in _UNSIGNED:
            return self.emit(kind, _cast(kind, Operation(_UNSIGNED[operation], _unsigned(x, y))))
        if kind == BOOL and operation == "xor" and y.name in ("True", "False"):
            return self.emit(kind, Operation("not ", pair[:1])) if y.name == "True" else x
        term = Operation(_ARITHMETIC[operation], pair)
        grows = operation in ("add", "sub", "mul", "shl") or kind != INT64
        if kind in (BOOL, FLOAT32, FLOAT64) or not grows:
            return self.emit(kind, term)
        return self.emit(kind, _cast(kind, term))

    def compare(self, operation: str, x: Value, y: Value) -> Value:
        if operation == "ult":
            return self.emit(BOOL, Operation("<", _unsigned(x, y)))
        return self.emit(BOOL, Operation(_COMPARISONS[operation], _terms((x, y))))

    def negate(self, x: Value) -> Value:
        return self.emit(x.kind, Operation("-", (Name(x.name),)))

    def select(self, condition: Value, x: Value, y: Value) -> Value:
        terms = _terms((condition, x, y))
        if x.kind in _SELECTED:
            return self.emit(x.kind, Call("cuda.selp", terms))
        return self.emit(x.kind, Choice(*terms))

    def convert(self, operation: str, x: Value, kind: str) -> Value:
        if operation == "bitcast" and x.name in self.constants:
            return self.constant(kind, _bits(x.kind, self.constants[x.name]))
        if operation == "bitcast":
            return self.emit(kind, Call(f"libdevice.{_BIT_CASTS[x.kind]}", (Name(x.name),)))
        return self.emit(kind, _cast(kind, Name(x.name)))

    def function(self, name: str, *arguments: Value) -> Value:
        kind = arguments[0].kind
        terms = _terms(arguments)
        if name == "ctpop":
            return self.emit(kind, _bit_count(kind, *terms))
        if name == "sqrt":
            name = _SQUARE_ROOT[kind]
        elif kind == FLOAT32:
            name += "f"
        return self.emit(kind, Call(f"libdevice.{name}", terms))

    def call(self, definition: Definition, *arguments: Value) -> Value:
        return self.library_call(definition.symbol, *arguments)

    def pair_call(self, definition: Definition, *arguments: Value) -> tuple[Value, Value]:
        return self._parts(FLOAT64, self.library_call(definition.symbol, *arguments))

    def _parts(self, kind: str, both: Value) -> tuple[Value, Value]:
        real, imaginary = (Part(Name(both.name), part) for part in ("real", "imag"))
        return self.emit(kind, real), self.emit(kind, imaginary)

    def library_call(
        self, name: str, *arguments: Value, definition: Definition | None = None
    ) -> Value:
        kind = arguments[0].kind
        return self.emit(kind, self.library.call(name, kind, _terms(arguments)))

    def rarely(
        self,
        condition: Value,
        usual: Value,
        name: str,
        *arguments: Value,
        definition: Definition | None = None,
    ) -> Value:
        rare = self.library.call(name, usual.kind, _terms(arguments))
        result = self._new(usual.kind, Name(usual.name))
        self.lines.append(Assignment(result.name, rare, condition.name))
        return result

    def shared(
        self, name: str, formula: Formula, values: tuple[Value, ...], is_of_pairs: bool
    ) -> Value | tuple[Value, ...]:
        if formula is self.own:
            return formula(*values)
        kind = values[0].kind
        terms = _terms(values)
        if not is_of_pairs:
            return self.emit(kind, self.library.shared(name, kind, terms, False))
        pairs = zip(terms[::2], terms[1::2], strict=True)
        numbers = tuple(Call("complex", pair) for pair in pairs)
        both = self.emit(kind, self.library.shared(name, kind, numbers, True))
        return self._parts(kind, both)


def _terms(values: Sequence[Value]) -> tuple[Term, ...]:
    return tuple(Name(x.name) for x in values)


def _cast(kind: str, term: Term) -> Term:
    return Call(NAMES[kind], (term,))


def _unsigned(*values: Value) -> tuple[Term, ...]:
    return tuple(Call(f"u{NAMES[x.kind]}", (Name(x.name),)) for x in values)


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


def _bit_count(kind: str, x: Term) -> Term:
    if kind == INT64:
        return _cast(kind, Call("libdevice.popcll", (x,)))
    bits = Call("int32", (Call(f"u{NAMES[kind]}", (x,)),))
    return _cast(kind, Call("libdevice.popc", (bits,)))


def device_function(
    name: str,
    formula: Formula,
    arguments: list[tuple[str, tuple[str, ...]]],
    library: Library,
    result_cast: str = "",
) -> tuple[str, set[str]]:
    """The text of a device function, and the functions that it calls.

    Each argument has a name and the types of its values: two for the parts of a complex number. Of
    a formula with two results these are the parts of one complex number. `result_cast` is the name
    of a type, for unsigned integers.
    """
    trace = PythonTrace(library, inspect.unwrap(formula))
    head, values = [], []
    for argument, kinds in arguments:
        if len(kinds) == 2:
            both = [f"{argument}_{part}" for part in ("real", "imag")]
            head += [f"{part} = {argument}.{part[-4:]}" for part in both]
            values += [Value(trace, k, part) for k, part in zip(kinds, both, strict=True)]
            continue
        (kind,) = kinds
        if result_cast.startswith("uint"):
            head.append(f"{argument} = {NAMES[kind]}({argument})")
        values.append(Value(trace, kind, argument))
    result = formula(*values)
    if isinstance(result, tuple):
        returned = Call("complex", _terms(result))
    else:
        (returned,) = _terms((result,))
        if result_cast and result.kind != BOOL:
            returned = Call(result_cast, (returned,))
    names = ", ".join(argument for argument, _ in arguments)
    body, calls = _body(_needed(trace.lines, returned), returned)
    lines = [f"def {name}({names}):", *(_INDENT + line for line in head + body)]
    return "@cuda.jit(device=True)\n" + "\n".join(lines) + "\n", calls


_MOST_COLUMNS = 92


def _needed(lines: Sequence[Assignment], returned: Term) -> list[tuple[Assignment, int]]:
    """The assignments that the result depends on, and how often each name is used: formulas
    compute some values for nothing."""
    uses = Counter(names_in(returned))
    kept: list[Assignment] = []  # in reverse
    for line in reversed(lines):
        if not uses[line.name]:
            continue
        kept.append(line)
        if line.condition:
            # Twice each: what stands in a branch stays there, what it uses stays before it.
            uses.update([line.name, line.condition, *names_in(line.term)] * 2)
        else:
            uses.update(names_in(line.term))
    return [(line, uses[line.name]) for line in reversed(kept)]


def _body(lines: Sequence[tuple[Assignment, int]], returned: Term) -> tuple[list[str], set[str]]:
    """The text of the assignments and the return, and the functions that it calls.

    What is used once goes where it is used, as long as lines stay short: compilers take their time
    for each name.
    """
    result: list[str] = []
    pending: dict[str, Term] = {}
    calls = functions_in(returned).union(*[functions_in(line.term) for line, _ in lines])

    def settled(term: Term) -> Term:
        """The term with what was pending in place of names, where there is room."""
        for name in names_in(term):
            if name not in pending:
                continue
            own = pending.pop(name)
            longer = with_term(term, name, own)
            if len(text_of(longer)) <= _MOST_COLUMNS:
                term = longer
            else:
                result.append(f"{name} = {text_of(own)}")
        return term

    for line, uses in lines:
        if line.condition:
            result += [f"if {line.condition}:", f"{_INDENT}{line.name} = {text_of(line.term)}"]
        elif uses == 1:
            pending[line.name] = settled(line.term)
        else:
            result.append(f"{line.name} = {text_of(settled(line.term))}")
    result.append(f"return {text_of(settled(returned))}")
    return result, calls
