"""Formulas as LLVM text, for the CPU."""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FunctionType

from numba_grad.compiler.elementary.scalar import (
    BOOL,
    DOUBLES,
    FLOAT32,
    FLOAT64,
    INT64,
    Definition,
    Number,
    ScalarBuilder,
    Step,
    Value,
)
from numba_grad.immutable import immutable

_SUFFIX = {FLOAT32: "f32", FLOAT64: "f64"}  # an integer type is its own suffix
_FLOATS = (FLOAT32, FLOAT64)


@dataclass(slots=True)
class LlvmTrace(ScalarBuilder):
    """The function being written: its instructions, and all it needs to be declared or defined."""

    has_fma: bool
    has_fast_float64: bool = True
    lines: list[str] = field(default_factory=list)
    block: str = "entry"
    count: int = 0
    # symbol -> (return type, argument types) of intrinsics and of functions of the C library.
    declarations: dict[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)
    # symbol -> text, of other functions this one calls.
    definitions: dict[str, str] = field(default_factory=dict)
    # Definitions reached only through the name in an attribute, which LLVM would drop as unused.
    kept: list[str] = field(default_factory=list)

    def emit(self, kind: str, instruction: str) -> Value:
        name = f"%v{self.count}"
        self.count += 1
        self.lines.append(f"  {name} = {instruction}")
        return Value(self, kind, name)

    def constant(self, kind: str, number: Number) -> Value:
        return Value(self, kind, _literal(kind, number))

    def binary(self, operation: str, x: Value, y: Value) -> Value:
        return self.emit(x.kind, f"{operation} {x.kind} {x.name}, {y.name}")

    def compare(self, operation: str, x: Value, y: Value) -> Value:
        instruction = "fcmp" if x.is_float else "icmp"
        return self.emit(BOOL, f"{instruction} {operation} {x.kind} {x.name}, {y.name}")

    def negate(self, x: Value) -> Value:
        return self.emit(x.kind, f"fneg {x.kind} {x.name}")

    def select(self, condition: Value, x: Value, y: Value) -> Value:
        text = f"select i1 {condition.name}, {x.kind} {x.name}, {y.kind} {y.name}"
        return self.emit(x.kind, text)

    def convert(self, operation: str, x: Value, kind: str) -> Value:
        return self.emit(kind, f"{operation} {x.kind} {x.name} to {kind}")

    def function(self, name: str, *arguments: Value) -> Value:
        kind = arguments[0].kind
        return self._intrinsic(kind, f"llvm.{name}.{_SUFFIX.get(kind, kind)}", *arguments)

    def call(self, definition: Definition, *arguments: Value) -> Value:
        self._define(definition)
        return self._call(arguments[0].kind, definition.symbol, *arguments, attributes=_PURE)

    def pair_call(self, definition: Definition, *arguments: Value) -> tuple[Value, Value]:
        self._define(definition)
        pair = self._call(DOUBLES, definition.symbol, *arguments, attributes=_PURE)
        first, second = (
            self.emit(FLOAT64, f"extractvalue {DOUBLES} {pair.name}, {k}") for k in (0, 1)
        )
        return first, second

    def library_call(
        self, name: str, *arguments: Value, definition: Definition | None = None
    ) -> Value:
        if definition is not None:
            self._define(definition)
        kind = arguments[0].kind
        symbol = _define_library_call(self, kind, name, len(arguments))
        return self._call(kind, symbol, *arguments, attributes=_vector_forms(symbol, arguments))

    def rarely(
        self,
        condition: Value,
        usual: Value,
        name: str,
        *arguments: Value,
        definition: Definition | None = None,
    ) -> Value:
        number = self.count
        likely = self._intrinsic(BOOL, "llvm.expect.i1", condition, condition.like(0))
        before, slow, join = self.block, f"slow{number}", f"join{number}"
        self.lines.append(f"  br i1 {likely.name}, label %{slow}, label %{join}")
        self._begin(slow)
        rare = self.library_call(name, *arguments, definition=definition)
        self.lines.append(f"  br label %{join}")
        self._begin(join)
        return self.emit(usual.kind, _meeting((usual, before), (rare, slow)))

    def either(
        self, condition: Value, first: Callable[[], Value], other: Callable[[], Value]
    ) -> Value:
        number = self.count
        labels = f"first{number}", f"other{number}"
        self.lines.append(f"  br i1 {condition.name}, label %{labels[0]}, label %{labels[1]}")
        ends = []
        for label, write in zip(labels, (first, other), strict=True):
            self._begin(label)
            ends.append((write(), self.block))
            self.lines.append(f"  br label %join{number}")
        self._begin(f"join{number}")
        return self.emit(ends[0][0].kind, _meeting(*ends))

    def repeated(self, step: Step, *start: Value) -> tuple[Value, ...]:
        number, before = self.count, self.block
        self.lines.append(f"  br label %body{number}")
        self._begin(f"body{number}")
        place = len(self.lines)
        values = [self.emit(x.kind, "") for x in start]
        results, is_over = step(*values)
        for k, (value, *ends) in enumerate(zip(values, start, results, strict=False)):
            text = _meeting((ends[0], before), (ends[1], self.block))
            self.lines[place + k] = f"  {value.name} = {text}"
        self.lines.append(f"  br i1 {is_over.name}, label %done{number}, label %body{number}")
        self._begin(f"done{number}")
        return results

    def _begin(self, label: str) -> None:
        self.lines.append(f"{label}:")
        self.block = label

    def _call(self, kind: str, symbol: str, *arguments: Value, attributes: str = "") -> Value:
        text = ", ".join(f"{x.kind} {x.name}" for x in arguments)
        return self.emit(kind, f"call {kind} @{symbol}({text}){attributes}")

    def _intrinsic(self, kind: str, symbol: str, *arguments: Value) -> Value:
        self.declarations[symbol] = (kind, tuple(x.kind for x in arguments))
        return self._call(kind, symbol, *arguments)

    def _define(self, definition: Definition) -> None:
        self.definitions[definition.symbol] = definition.text
        self.definitions.update(definition.called)
        self.declarations.update(definition.declarations)


def _meeting(*ends: tuple[Value, str]) -> str:
    """Of a value for each block that one comes from, the one of that block."""
    return f"phi {ends[0][0].kind} " + ", ".join(f"[ {x.name}, %{block} ]" for x, block in ends)


def _literal(kind: str, number: Number) -> str:
    if kind == BOOL:
        return "true" if number else "false"
    if kind not in _FLOATS:
        return str(int(number))
    if kind == FLOAT32:  # written by LLVM as the double of the same value
        number = struct.unpack("f", struct.pack("f", number))[0]
    return f"0x{struct.unpack('Q', struct.pack('d', number))[0]:016X}"


# Calls of the C library. They keep the loop around them vectorizable: the call names vector forms
# of itself (LLVM's vector function ABI), which do the lanes that need it one by one.

_LANES = {FLOAT64: (2, 4, 8), FLOAT32: (4, 8, 16)}
_PURE = " nounwind willreturn memory(none)"


def _vector_forms(symbol: str, arguments: tuple[Value, ...]) -> str:
    shape = "v" * len(arguments)
    forms = ",".join(
        f"_ZGV_LLVM_M{lanes}{shape}_{symbol}({symbol}.lanes{lanes})"
        for lanes in _LANES[arguments[0].kind]
    )
    return f'{_PURE} "vector-function-abi-variant"="{forms}"'


def _define_library_call(trace: LlvmTrace, kind: str, name: str, arity: int) -> str:
    """Define the scalar call, its vector forms, and the loop over lanes that these share."""
    symbol = f"numba_grad.{name.removeprefix('numba_grad.')}.{_SUFFIX[kind]}"
    if symbol in trace.definitions:
        return symbol
    if name not in trace.definitions:
        trace.declarations[name] = (FLOAT64, (FLOAT64,) * arity)
    names = [f"%x{k}" for k in range(arity)]

    body = []
    operands = names
    if kind == FLOAT32:
        body += [f"  {x}.wide = fpext float {x} to double" for x in names]
        operands = [f"{x}.wide" for x in names]
    text = ", ".join(f"double {x}" for x in operands)
    body.append(f"  %y = call double @{name}({text}){_PURE}")
    if kind == FLOAT32:
        body += ["  %narrow = fptrunc double %y to float", "  ret float %narrow"]
    else:
        body.append("  ret double %y")
    parameters = ", ".join(f"{kind} {x}" for x in names)
    trace.definitions[symbol] = (
        f"define internal {kind} @{symbol}({parameters}) noinline{_PURE} {{\n"
        + "\n".join(body)
        + "\n}\n"
    )

    trace.definitions[f"{symbol}.loop"] = _lane_loop(symbol, kind, arity)
    for lanes in _LANES[kind]:
        trace.definitions[f"{symbol}.lanes{lanes}"] = _lane_form(symbol, kind, arity, lanes)
        trace.kept.append(f"{symbol}.lanes{lanes}")
    trace.declarations["llvm.cttz.i64"] = (INT64, (INT64, BOOL))
    trace.declarations["llvm.expect.i1"] = (BOOL, (BOOL, BOOL))
    return symbol


@immutable
class VectorForm:
    """A library call for the lanes of vectors that a mask has, each function as text."""

    symbol: str  # vector(vectors of arguments, mask)
    declarations: dict[str, tuple[str, tuple[str, ...]]]
    definitions: dict[str, str]


def vector_form(
    kind: str, name: str, arity: int, lanes: int, definition: Definition | None = None
) -> VectorForm:
    """That of a function of the C library, or of a definition."""
    trace = LlvmTrace(has_fma=False)
    if definition is not None:
        trace._define(definition)
    scalar = _define_library_call(trace, kind, name, arity)
    definitions = {k: text for k, text in trace.definitions.items() if k not in trace.kept}
    symbol = f"{scalar}.lanes{lanes}"
    definitions[symbol] = _lane_form(scalar, kind, arity, lanes)
    return VectorForm(symbol, trace.declarations, definitions)


def _lane_loop(symbol: str, kind: str, arity: int) -> str:
    """`void(pointer to each argument's lanes, mask)`: the result replaces the first argument."""
    parameters = ", ".join(f"ptr %p{k}" for k in range(arity))
    loads = "\n".join(
        f"  %a{k} = getelementptr {kind}, ptr %p{k}, i64 %lane\n  %x{k} = load {kind}, ptr %a{k}"
        for k in range(arity)
    )
    arguments = ", ".join(f"{kind} %x{k}" for k in range(arity))
    return f"""\
define internal void @{symbol}.loop({parameters}, i64 %mask) noinline cold nounwind {{
entry:
  br label %body
body:
  %left = phi i64 [ %mask, %entry ], [ %rest, %body ]
  %lane = call i64 @llvm.cttz.i64(i64 %left, i1 true)
{loads}
  %y = call {kind} @{symbol}({arguments})
  store {kind} %y, ptr %a0
  %less = sub i64 %left, 1
  %rest = and i64 %left, %less
  %more = icmp ne i64 %rest, 0
  br i1 %more, label %body, label %done
done:
  ret void
}}
"""


def _lane_form(symbol: str, kind: str, arity: int, lanes: int) -> str:
    """The vector form: returns at once unless the mask has a lane."""
    vector = f"<{lanes} x {kind}>"
    parameters = ", ".join(f"{vector} %x{k}" for k in range(arity))
    allocate = "\n".join(f"  %p{k} = alloca {vector}" for k in range(arity))
    store = "\n".join(f"  store {vector} %x{k}, ptr %p{k}" for k in range(arity))
    pointers = ", ".join(f"ptr %p{k}" for k in range(arity))
    signature = f"{vector} @{symbol}.lanes{lanes}({parameters}, <{lanes} x i1> %m)"
    return f"""\
define internal {signature} alwaysinline{_PURE} {{
entry:
{allocate}
  %lanes = bitcast <{lanes} x i1> %m to i{lanes}
  %none = icmp eq i{lanes} %lanes, 0
  %likely = call i1 @llvm.expect.i1(i1 %none, i1 true)
  br i1 %likely, label %done, label %work
work:
{store}
  %mask = zext i{lanes} %lanes to i64
  call void @{symbol}.loop({pointers}, i64 %mask)
  %y = load {vector}, ptr %p0
  ret {vector} %y
done:
  ret {vector} poison
}}
"""


# A whole function.


@immutable
class WrittenFunction:
    """The text of one function, and what it refers to."""

    symbol: str
    signature: tuple[str, tuple[str, ...]]
    text: str
    declarations: dict[str, tuple[str, tuple[str, ...]]]
    definitions: dict[str, str]
    kept: tuple[str, ...]


def trace(
    name: str,
    formula: Callable[..., Value | tuple[Value, ...]],
    kinds: tuple[str, ...],
    *,
    has_fma: bool,
) -> WrittenFunction:
    """Run a formula once on arguments of the given LLVM types."""
    writer = LlvmTrace(has_fma)
    arguments = [Value(writer, kind, f"%x{k}") for k, kind in enumerate(kinds)]
    kind, returned = _returned(writer, formula(*arguments))
    symbol = f"numba_grad.{name}." + ".".join(_SUFFIX.get(k, k) for k in kinds)
    symbol += ".inline"
    parameters = ", ".join(f"{x.kind} {x.name}" for x in arguments)
    body = "\n".join(writer.lines)
    # Inlined before LLVM looks at loops, so that they vectorize and share common parts.
    text = (
        f"define internal {kind} @{symbol}({parameters}) alwaysinline nounwind {{\n"
        f"entry:\n{body}\n  ret {kind} {returned}\n}}\n"
    )
    return WrittenFunction(
        symbol, (kind, kinds), text, writer.declarations, writer.definitions, tuple(writer.kept)
    )


def _returned(writer: LlvmTrace, result: Value | tuple[Value, ...]) -> tuple[str, str]:
    """Type and name of what is returned: several results are one value."""
    if isinstance(result, Value):
        return result.kind, result.name
    kind = "{" + ", ".join(x.kind for x in result) + "}"
    name = "poison"
    for k, x in enumerate(result):
        name = writer.emit(kind, f"insertvalue {kind} {name}, {x.kind} {x.name}, {k}").name
    return kind, name


@functools.cache
def defined(formula: FunctionType, *, kind: str = FLOAT64, is_rare: bool = False) -> Definition:
    """A formula as a function of its own, which is called: of loops, or of what is seldom needed.

    `is_rare`: not worth LLVM's optimizing.
    """
    writer = LlvmTrace(has_fma=False)
    arguments = [Value(writer, kind, f"%x{k}") for k in range(formula.__code__.co_argcount)]
    result_kind, returned = _returned(writer, formula(*arguments))
    symbol = f"numba_grad.{formula.__name__}"
    parameters = ", ".join(f"{kind} {x.name}" for x in arguments)
    attributes = f"noinline{' optnone cold' if is_rare else ''}{_PURE}"
    body = "\n".join(writer.lines)
    text = (
        f"define internal {result_kind} @{symbol}({parameters}) {attributes} {{\n"
        f"entry:\n{body}\n  ret {result_kind} {returned}\n}}\n"
    )
    return Definition(symbol, text, writer.declarations, writer.definitions)
