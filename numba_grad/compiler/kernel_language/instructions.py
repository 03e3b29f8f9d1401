"""The frequent LLVM instructions, made and printed in a third of llvmlite's time.

A kernel has tens of thousands of them. llvmlite registers each name, formats each operand on its
way through five functions, and checks types that LLVM's parser checks as well.
"""

# pyright: reportIncompatibleMethodOverride=false, reportAttributeAccessIssue=false
# pyright: reportIncompatibleVariableOverride=false

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from llvmlite import ir
from llvmlite.ir import instructions

_VOID = ir.VoidType()
_TRUTH = ir.IntType(1)
_COMPARISONS = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}


class _Quick(instructions.Instruction):
    """Has no name but a number, and is printed anew each time."""

    # Most have neither: a list and a dictionary of its own would double what an instruction is.
    flags: Sequence[str] = ()
    metadata: Mapping[str, Any] = MappingProxyType({})
    reference: str

    def __init__(
        self, parent: Any, kind: Any, opname: str, operands: Sequence[Any], flags: Any = ()
    ) -> None:
        self.parent = parent
        self.type = kind
        self.opname = opname
        self.operands = operands
        if flags:
            self.flags = list(flags)
        # As llvmlite numbers what has no name, which nothing else is called then.
        numbers = parent.scope._basenamemap
        number = numbers[""] = numbers[""] + 1
        self._name = f".{number}"
        self.reference = f'%".{number}"'

    def get_reference(self) -> str:
        return self.reference

    def set_metadata(self, name: str, node: Any) -> None:
        self.metadata = {**self.metadata, name: node}

    def __format__(self, _: str) -> str:
        text = self.text()
        for name, node in self.metadata.items():
            text += f", !{name} {node.get_reference()}"
        return text

    def __str__(self) -> str:
        return self.__format__("")

    def text(self) -> str:
        """Without metadata."""
        raise NotImplementedError


class _Arithmetic(_Quick):
    def text(self) -> str:
        x, y = self.operands
        words = " ".join([self.opname, *self.flags]) if self.flags else self.opname
        return f"{self.reference} = {words} {self.type} {x.get_reference()}, {y.get_reference()}"


class _Load(_Quick, instructions.LoadInstr):
    align: int

    def text(self) -> str:
        (place,) = self.operands
        return (
            f"{self.reference} = load {self.type}, {place.type} {place.get_reference()}, "
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
            f"{self.reference} = {self.words} {self.source_etype}, {base.type} "
            f"{base.get_reference()}, {index.type} {index.get_reference()}"
        )


class _Call(_Quick, instructions.CallInstr):
    """Of one of LLVM's own functions."""

    def text(self) -> str:
        function, *arguments = self.operands
        words = " ".join(["call", *self.flags])
        called = f"{self.type} {function.get_reference()}"
        return f"{self.reference} = {words} {called}({_typed(arguments)})"


class _Negation(_Quick):
    def text(self) -> str:
        (x,) = self.operands
        words = " ".join([self.opname, *self.flags])
        return f"{self.reference} = {words} {self.type} {x.get_reference()}"


class _Conversion(_Quick, instructions.CastInstr):
    def text(self) -> str:
        (x,) = self.operands
        return f"{self.reference} = {self.opname} {x.type} {x.get_reference()} to {self.type}"


class _Comparison(_Quick):
    op: str

    def text(self) -> str:
        x, y = self.operands
        words = " ".join([self.opname, *self.flags, self.op])
        return f"{self.reference} = {words} {x.type} {x.get_reference()}, {y.get_reference()}"


class _Typed(_Quick):
    """Of operands with their types."""

    def text(self) -> str:
        words = " ".join([self.opname, *self.flags]) if self.flags else self.opname
        return f"{self.reference} = {words} {_typed(self.operands)}"


class _Phi(_Quick, instructions.PhiInstr):
    def text(self) -> str:
        words = " ".join([self.opname, *self.flags]) if self.flags else self.opname
        edges = [f"[{x.get_reference()}, {block.get_reference()}]" for x, block in self.incomings]
        return f"{self.reference} = {words} {self.type} {', '.join(edges)}"


class _Branch(_Quick, instructions.ConditionalBranch):
    def text(self) -> str:
        return f"br {_typed(self.operands)}"


def _typed(operands: Sequence[Any]) -> str:
    return ", ".join([f"{x.type} {x.get_reference()}" for x in operands])


def _arithmetic(opname: str) -> Callable[..., Any]:
    def write(self: "QuickBuilder", x: Any, y: Any, name: str = "", flags: Any = ()) -> Any:
        instruction = _Arithmetic(self._block, x.type, opname, (x, y), flags)
        self._insert(instruction)
        return instruction

    return write


def _conversion(opname: str) -> Callable[..., Any]:
    def write(self: "QuickBuilder", value: Any, typ: Any, name: str = "") -> Any:
        if value.type == typ:
            return value
        instruction = _Conversion(self._block, typ, opname, (value,))
        self._insert(instruction)
        return instruction

    return write


def _comparison(opname: str, prefix: str) -> Callable[..., Any]:
    """`prefix`: of the orders that are not equal and not unequal, of floats of all."""

    def write(
        self: "QuickBuilder", cmpop: str, lhs: Any, rhs: Any, name: str = "", flags: Any = ()
    ) -> Any:
        is_vector = isinstance(lhs.type, ir.VectorType)
        kind = ir.VectorType(_TRUTH, lhs.type.count) if is_vector else _TRUTH
        instruction = _Comparison(self._block, kind, opname, (lhs, rhs), flags)
        order = _COMPARISONS.get(cmpop, cmpop)
        has_prefix = cmpop in _COMPARISONS and (opname == "fcmp" or order not in ("eq", "ne"))
        instruction.op = prefix + order if has_prefix else order
        self._insert(instruction)
        return instruction

    return write


class QuickBuilder(ir.IRBuilder):
    """Writes these instructions as they are here, and others as llvmlite does."""

    add, sub, mul = map(_arithmetic, ("add", "sub", "mul"))
    fadd, fsub, fmul, fdiv = map(_arithmetic, ("fadd", "fsub", "fmul", "fdiv"))
    and_, or_, xor = map(_arithmetic, ("and", "or", "xor"))
    zext, trunc, sitofp = map(_conversion, ("zext", "trunc", "sitofp"))
    bitcast, inttoptr, ptrtoint = map(_conversion, ("bitcast", "inttoptr", "ptrtoint"))
    icmp_signed, icmp_unsigned = _comparison("icmp", "s"), _comparison("icmp", "u")
    fcmp_ordered, fcmp_unordered = _comparison("fcmp", "o"), _comparison("fcmp", "u")

    def fneg(self, arg: Any, name: str = "", flags: Any = ()) -> Any:
        negation = _Negation(self._block, arg.type, "fneg", (arg,), flags)
        self._insert(negation)
        return negation

    def select(self, cond: Any, lhs: Any, rhs: Any, name: str = "", flags: Any = ()) -> Any:
        selection = _Typed(self._block, lhs.type, "select", (cond, lhs, rhs), flags)
        self._insert(selection)
        return selection

    def insert_element(self, vector: Any, value: Any, idx: Any, name: str = "") -> Any:
        inserted = _Typed(self._block, vector.type, "insertelement", (vector, value, idx))
        self._insert(inserted)
        return inserted

    def extract_element(self, vector: Any, idx: Any, name: str = "") -> Any:
        extracted = _Typed(self._block, vector.type.element, "extractelement", (vector, idx))
        self._insert(extracted)
        return extracted

    def phi(self, typ: Any, name: str = "", flags: Any = ()) -> Any:
        phi = _Phi(self._block, typ, "phi", (), flags)
        phi.incomings = []
        self._insert(phi)
        return phi

    def branch(self, target: Any) -> Any:
        branch = _Branch(self._block, _VOID, "br", (target,))
        self._set_terminator(branch)
        return branch

    def cbranch(self, cond: Any, truebr: Any, falsebr: Any) -> Any:
        branch = _Branch(self._block, _VOID, "br", (cond, truebr, falsebr))
        self._set_terminator(branch)
        return branch

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
