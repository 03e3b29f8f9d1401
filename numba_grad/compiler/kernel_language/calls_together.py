"""Calls of one function in straight-line code, where they do not wait for each other, as vectors.

Small arrays are written out: a kernel may have hundreds of calls of `exp`, each with a number.
Inlined, they are most of its code. Together, as many as a vector has elements are one call, which
takes as long as one of them. So the instructions of a block are brought into another order: what
waits for no call first, then the first calls of each chain, what waits for these alone, and so on.
"""

# pyright: reportAttributeAccessIssue=false

import functools
from collections.abc import Iterable, Sequence
from typing import Any

from llvmlite import ir
from llvmlite.ir.instructions import CallInstr, InsertValue, PhiInstr

from numba_grad.compiler.code_generation import vector_bytes
from numba_grad.compiler.kernel_language import vector_functions
from numba_grad.compiler.kernel_language.instructions import QuickBuilder
from numba_grad.compiler.kernel_language.text_functions import TextFunction

# Of longer vectors calls take as long, or longer: numbers go in and come out one by one, and a call
# keeps no register. Inlined, they are as fast, for twice the time to compile.
_LONGEST = 32  # bytes
_FEWEST = 3  # calls of one function in a block that wait for as many others
_OTHERS = 8  # instructions beside each call: for fewer it does not pay to look for vectors
_ARITHMETIC = frozenset(["fadd", "fsub", "fmul", "fdiv"])
_BYTES = {ir.FloatType(): 4, ir.DoubleType(): 8}
_INT32 = ir.IntType(32)


def put_together(
    module: ir.Module, names: dict[ir.Function, str], accesses: Sequence[tuple[ir.Instruction, int]]
) -> bool:
    """Make vectors of calls, and say whether little is left for vectors beside them.

    Parameters
    ----------
    names : of the functions that `vector_functions.py` can write
    accesses : loads and stores of buffers, which do not overlap, and the number of the buffer
    """
    buffers: dict[ir.Instruction, object] = dict(accesses)
    calls = others = 0
    for function in list(module.functions):
        values: dict[Any, Any] = {}  # by the call that they replace
        for block in function.blocks:
            others += sum([x.opname in _ARITHMETIC for x in block.instructions])
            if sum([_called(x) in names for x in block.instructions]) >= _FEWEST:
                _Block(block, names, buffers, values).write()
        calls += len(values)
        for block in function.blocks if values else ():
            for instruction in block.instructions:
                for x in {x for x in _read(instruction) if x in values}:
                    instruction.replace_usage(x, values[x])
                    if isinstance(instruction, InsertValue):  # a part of a complex number
                        instruction.value = values[x]
    return calls > 0 and others <= _OTHERS * calls


def _read(instruction: ir.Instruction) -> Iterable[Any]:
    if isinstance(instruction, PhiInstr):
        return [x for x, _ in instruction.incomings]
    return instruction.operands


def _called(instruction: ir.Instruction) -> Any:
    return instruction.callee if isinstance(instruction, CallInstr) else None


class _Block:
    def __init__(
        self,
        block: ir.Block,
        names: dict[ir.Function, str],
        buffers: dict[ir.Instruction, object],
        values: dict[Any, Any],
    ) -> None:
        self.block, self.names, self.buffers, self.values = block, names, buffers, values

    def write(self) -> None:
        """Put groups of calls in the place of calls."""
        *instructions, end = self.block.instructions
        ranks = self._ranks(instructions)
        groups: dict[tuple[int, Any], list[CallInstr]] = {}
        for instruction in instructions:
            if _called(instruction) in self.names:
                groups.setdefault((ranks[instruction], instruction.callee), []).append(instruction)
        groups = {key: calls for key, calls in groups.items() if len(calls) >= _FEWEST}
        # The calls of a rank come last in it: their results have the next one.
        key_of = {call: key for key, calls in groups.items() for call in calls}
        self.block.instructions[:] = []
        builder = QuickBuilder(self.block)
        for instruction in sorted(instructions, key=lambda x: (ranks[x], x in key_of)):
            key = key_of.get(instruction)
            if key is None:
                self.block.instructions.append(instruction)
            elif key in groups:
                builder.position_at_end(self.block)
                self._call_together(builder, groups.pop(key))
        self.block.instructions.append(end)

    def _ranks(self, instructions: Sequence[ir.Instruction]) -> dict[ir.Instruction, int]:
        """For each instruction how many calls after each other it waits for."""
        ranks: dict[Any, int] = {}
        loaded: dict[object, int] = {}  # by buffer; None for what is in none
        stored: dict[object, int] = {}
        for instruction in instructions:
            found = 0
            for x in instruction.operands:
                found = max(found, ranks.get(x, -1) + (_called(x) in self.names))
            kind = _access(instruction)
            if kind:
                buffer = self.buffers.get(instruction)
                found = max(found, self._latest(stored, buffer))
                if kind == "store":
                    found = max(found, self._latest(loaded, buffer))
                record = stored if kind == "store" else loaded
                record[buffer] = max(record.get(buffer, 0), found)
            ranks[instruction] = found
        return ranks

    @staticmethod
    def _latest(ranks: dict[object, int], buffer: object) -> int:
        if buffer is None:
            return max(ranks.values(), default=0)
        return max(ranks.get(buffer, 0), ranks.get(None, 0))

    def _call_together(self, builder: ir.IRBuilder, calls: Sequence[CallInstr]) -> None:
        width = min(vector_bytes(), _LONGEST) // _BYTES[calls[0].type]
        kind = ir.VectorType(calls[0].type, width)  # also of the last ones: one form to compile
        for first in range(0, len(calls), width):
            some = calls[first : first + width]
            places = zip(*[call.args for call in some], strict=True)
            arguments = [_vector(builder, kind, elements) for elements in places]
            results = builder.call(self._form(some[0].callee, kind, len(arguments)), arguments)
            for k, call in enumerate(some):
                self.values[call] = builder.extract_element(results, _INT32(k))

    def _form(self, function: ir.Function, kind: ir.VectorType, arity: int) -> ir.Function:
        """The function of vectors, which the module gets once."""
        symbol = f"{function.name}.{kind.count}"
        known = function.module.globals
        if symbol not in known:
            form = _form_of(symbol, self.names[function], kind.element, kind.count, arity)
            for name, function_type, text in form:
                if name not in known and text:
                    TextFunction(function.module, function_type, name, text)
                elif name not in known:
                    ir.Function(function.module, function_type, name)
        return known[symbol]


@functools.cache
def _form_of(
    symbol: str, name: str, element: ir.Type, count: int, arity: int
) -> list[tuple[str, ir.FunctionType, str]]:
    """A function of vectors and what it needs: name, type, and text where it is no declaration."""
    kind = ir.VectorType(element, count)
    form = ir.Function(ir.Module(), ir.FunctionType(kind, [kind] * arity), symbol)
    form.linkage = "internal"
    form.attributes.add("noinline")
    builder = QuickBuilder(form.append_basic_block())
    [value] = vector_functions.written(builder, name, [(x,) for x in form.args])
    builder.ret(value)
    functions = form.module.functions
    return [
        (x.name, x.function_type, str(x) if x.blocks or isinstance(x, TextFunction) else "")
        for x in functions
    ]


def _vector(builder: ir.IRBuilder, kind: ir.VectorType, elements: Sequence[Any]) -> Any:
    """A vector of these elements: the last one is at all places that are left."""
    vector = ir.Constant(kind, ir.Undefined)
    for k in range(kind.count):
        vector = builder.insert_element(vector, elements[min(k, len(elements) - 1)], _INT32(k))
    return vector


def _access(instruction: ir.Instruction) -> str:
    """Whether it reads memory that others may write, or does more than that with memory."""
    kind = instruction.opname
    if kind == "load":
        return "" if "invariant.load" in instruction.metadata else "load"
    if kind == "call":
        name = getattr(instruction.callee, "name", "")  # assembly, as in `opaque`, has none
        is_pure = name.startswith(("llvm.", "numba_grad.")) and not name.startswith("llvm.mem")
        return "" if is_pure else "store"
    return "store" if kind.startswith(("load", "store", "atomicrmw", "cmpxchg", "fence")) else ""
