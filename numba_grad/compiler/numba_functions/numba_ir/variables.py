"""Which memory each version of a variable is."""

# Numba's annotations are few, and wrong where they come from class attributes set at run time.
# pyright: reportAttributeAccessIssue=false, reportPrivateImportUsage=false

import re
from collections.abc import Callable
from typing import Any

from numba.core import ir, types

from numba_grad.compiler.numba_functions.builder import Builder
from numba_grad.compiler.numba_functions.numba_ir.findings import Findings
from numba_grad.compiler.numba_functions.numba_ir.refusals import refused
from numba_grad.compiler.numba_functions.numba_ir.type_inference import dtype_name
from numba_grad.compiler.numba_functions.numba_ir.typed_code import TypedCode
from numba_grad.compiler.numba_functions.regions import Allocate, Memory

# Expressions whose value may be an array that is there already; so may that of a call.
_EXISTING = {"static_getitem", "getitem", "typed_getitem", "exhaust_iter", "cast", "inplace_binop"}


class Variables:
    """Of a function. One that is given values in several places is a memory of rank 0, an array a
    group of versions, a tuple its parts."""

    def __init__(self, code: TypedCode, findings: Findings, builder: Builder) -> None:
        self.code = code
        self.findings = findings
        self.builder = builder
        self.memories: dict[str, Memory] = {}  # by the names of all versions
        self.tuples: dict[str, tuple[str, ...]] = {}  # names of the parts of those that are tuples
        self.array_groups: dict[str, str] = {}  # arrays that have several: versions to a group
        self.casts: dict[int, list[tuple[str, Any]]] = {}  # by block: what is given another type
        self._find()

    def _find(self) -> None:
        """Versions of a variable that meet are one memory, as they are never alive together."""
        group: dict[str, str] = {}

        def root(name: str) -> str:
            while group.get(name, name) != name:
                name = group[name]
            return name

        for block in self.code.blocks.values():
            for phi in block.find_exprs("phi"):
                target = next(a.target for a in block.find_insts(ir.Assign) if a.value is phi)
                if isinstance(self.code.type_of(target), types.RangeIteratorType):
                    continue
                group.setdefault(target.name, target.name)
                pairs = zip(phi.incoming_values, phi.incoming_blocks, strict=True)
                for value, label in pairs:
                    if value is ir.UNDEFINED:
                        continue
                    if not self.code.is_same_type(value, target):
                        self.casts.setdefault(label, []).append((target.name, value))
                        continue
                    group.setdefault(value.name, value.name)
                    group[root(value.name)] = root(target.name)
        for name in self.code.typemap:
            if (self.code.function, name) in self.findings.variables:
                group.setdefault(name, name)
        self._group_swaps(group, root)
        self._find_assigned(group, root)
        roots: dict[str, Memory] = {}
        for name in group:
            self._declare_variable(
                name, root(name), types.unliteral(self.code.typemap[name]), roots
            )

    def _find_assigned(self, group: dict[str, str], root: Callable[[str], str]) -> None:
        """Arrays that are not only swapped: a new one is assigned to a variable that has one."""
        seen: set[str] = set()
        values: dict[str, Any] = {}
        for label in sorted(self.code.blocks):
            for assignment in self.code.blocks[label].find_insts(ir.Assign):
                name, value = assignment.target.name, assignment.value
                while isinstance(value, ir.Var) and value.name.startswith("$"):
                    value = values.get(value.name)
                values[name] = value
                is_array = isinstance(self.code.type_of(assignment.target), types.Array)
                is_phi = isinstance(value, ir.Expr) and value.op == "phi"
                if not is_array or is_phi or name not in group:
                    continue
                is_new = False
                if isinstance(value, ir.Expr) and value.op not in _EXISTING:
                    is_new = value.op != "call" or self.code.makes_array(value.func)
                if is_new and root(name) in seen:
                    self.findings.assigned.add((self.code.function, root(name)))
                seen.add(root(name))

    def _declare_variable(
        self, name: str, group: str, numba_type: Any, roots: dict[str, Memory]
    ) -> None:
        """A version of a variable: which memory it is. Of a tuple, each part is a variable."""
        if isinstance(numba_type, types.Array):
            self.array_groups[name] = group
            return
        if isinstance(numba_type, types.BaseTuple):
            parts = []
            for number, part in enumerate(numba_type):  # pyright: ignore
                parts.append(f"{name}[{number}]")
                if parts[-1] not in self.code.typemap:
                    self.code.typemap[parts[-1]] = part
                self._declare_variable(parts[-1], f"{group}[{number}]", part, roots)
            self.tuples[name] = tuple(parts)
            return
        if isinstance(numba_type, types.NoneType):
            return
        try:
            dtype = dtype_name(numba_type)
        except TypeError:
            what = f"a variable of type {numba_type} that several lines give a value to"
            instead = "an array; or " if isinstance(numba_type, types.List) else ""
            raise refused(self.code.location_of(name), what, instead=instead) from None
        if group not in roots:
            base = re.sub(r"\W.*", "", group.strip("$")) or "v"
            roots[group] = self.builder.memory(base, dtype)
        self.memories[name] = roots[group]

    def _group_swaps(self, group: dict[str, str], root: Callable[[str], str]) -> None:
        """Of arrays that are swapped, versions of one that meet nowhere are still one name."""
        versions: dict[str, list[str]] = {}
        moved: list[set[str]] = []  # by block: variables that are given other variables' arrays
        for block in self.code.blocks.values():
            own = set()
            for assignment in block.find_insts(ir.Assign):
                target, value = assignment.target, assignment.value
                is_array = isinstance(self.code.type_of(target), types.Array)
                if not is_array or target.name.startswith("$"):
                    continue
                versions.setdefault(target.unversioned_name, []).append(target.name)
                if isinstance(value, ir.Var):
                    own.add(target.unversioned_name)
            moved.append(own)
        while True:
            size = len(group)
            for own in moved:
                names = [name for variable in own for name in versions[variable]]
                if len(own) < 2 or not any(name in group for name in names):
                    continue
                for variable in own:
                    first, *others = versions[variable]
                    group.setdefault(first, first)
                    for name in others:
                        group.setdefault(name, name)
                        group[root(name)] = root(first)
            if size == len(group):
                return

    def declare(self) -> None:
        for memory in dict.fromkeys(self.memories.values()):
            self.builder.body.append(Allocate(memory, (), 0.0))
