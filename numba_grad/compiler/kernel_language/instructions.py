"""The most frequent LLVM instructions, made and printed in a third of llvmlite's time.

A kernel has tens of thousands of them. llvmlite registers each name, formats each operand on its
way through five functions, and checks types that LLVM's parser checks as well.
"""

# pyright: reportIncompatibleMethodOverride=false, reportAttributeAccessIssue=false

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from llvmlite.ir import instructions

_VOID = ir.VoidType()


class _Quick(instructions.Instruction):
    """Has no name but a number, and is printed anew each time."""

    def __init__(
        self, parent: Any, kind: Any, opname: str, operands: Sequence[Any], flags: Any = ()
    ) -> None:
        self.parent = parent
        self.type = kind
        self.opname = opname
        self.operands = operands
        self.flags = list(flags)
        self.metadata = {}
        self._name = parent.scope.register("", deduplicate=True)

    def get_reference(self) -> str:
        return f'%"{self._name}"'

    def __str__(self) -> str:
        text = self.text()
        for name, node in self.metadata.items():
            text += f", !{name} {node.get_reference()}"
        return text

    def __format__(self, _: str) -> str:
        return self.__str__()

    def text(self) -> str:
        """Without metadata."""
        raise NotImplementedError


class _Arithmetic(_Quick):
    def text(self) -> str:
        x, y = self.operands
        words = " ".join([self.opname, *self.flags]) if self.flags else self.opname
        return f'%"{self._name}" = {words} {self.type} {x.get_reference()}, {y.get_reference()}'


class _Load(_Quick, instructions.LoadInstr):
    align: int

    def text(self) -> str:
        (place,) = self.operands
        return (
            f'%"{self._name}" = load {self.type}, {place.type} {place.get_reference()}, '
            f"align {self.align}"
        )


class _Store(_Quick, instructions.StoreInstr):
    align: int

    def text(self) -> str:
        value, place = self.operands
        return (
            f"store {value.type} {value.get_reference()}, {place.type} {place.get_reference()}, "
            f"align {self.align}"
        )


class _Address(_Quick, instructions.GEPInstr):
    words: str
    source_etype: Any

    def text(self) -> str:
        base, index = self.operands
        return (
            f'%"{self._name}" = {self.words} {self.source_etype}, {base.type} '
            f"{base.get_reference()}, {index.type} {index.get_reference()}"
        )


class _Call(_Quick, instructions.CallInstr):
    """Of one of LLVM's own functions."""

    def text(self) -> str:
        function, *arguments = self.operands
        words = " ".join(["call", *self.flags])
        text = ", ".join([f"{x.type} {x.get_reference()}" for x in arguments])
        return f'%"{self._name}" = {words} {self.type} {function.get_reference()}({text})'


def _arithmetic(opname: str) -> Callable[..., Any]:
    def write(self: "QuickBuilder", x: Any, y: Any, name: str = "", flags: Any = ()) -> Any:
        instruction = _Arithmetic(self._block, x.type, opname, (x, y), flags)
        self._insert(instruction)
        return instruction

    return write


class QuickBuilder(ir.IRBuilder):
    """Writes these instructions as they are here, and others as llvmlite does."""

    add, sub, mul = map(_arithmetic, ("add", "sub", "mul"))
    fadd, fsub, fmul, fdiv = map(_arithmetic, ("fadd", "fsub", "fmul", "fdiv"))

    def load(self, ptr: Any, name: str = "", align: int | None = None, typ: Any = None) -> Any:
        if align is None:
            return super().load(ptr, name, align, typ)
        load = _Load(self._block, typ or ptr.type.pointee, "load", (ptr,))
        load.align = align
        self._insert(load)
        return load

    def store(self, value: Any, ptr: Any, align: int | None = None) -> Any:
        if align is None:
            return super().store(value, ptr, align)
        store = _Store(self._block, _VOID, "store", (value, ptr))
        store.align = align
        self._insert(store)
        return store

    def gep(
        self,
        ptr: Any,
        indices: Sequence[Any],
        inbounds: bool = False,
        name: str = "",
        source_etype: Any = None,
    ) -> Any:
        if len(indices) > 1 or source_etype is not None:
            return super().gep(ptr, indices, inbounds, name, source_etype)
        address = _Address(self._block, ptr.type, "getelementptr", (ptr, *indices))
        address.words = "getelementptr inbounds" if inbounds else "getelementptr"
        address.source_etype = ptr.type.pointee
        self._insert(address)
        return address

    def call(
        self, fn: Any, args: Sequence[Any], name: str = "", fastmath: Any = (), **others: Any
    ) -> Any:
        result = fn.function_type.return_type
        is_intrinsic = isinstance(fn, ir.Function) and fn.name.startswith("llvm.")
        if others or not is_intrinsic or result == _VOID:
            return super().call(fn, args, name, fastmath=fastmath, **others)
        call = _Call(self._block, result, "call", [fn, *args], fastmath)
        self._insert(call)
        return call
