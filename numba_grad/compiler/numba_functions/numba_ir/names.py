"""What a name stands for, at the place that is being translated."""

# Numba's annotations are few, and wrong where they come from class attributes set at run time.
# pyright: reportAttributeAccessIssue=false, reportPrivateImportUsage=false

import linecache
from collections.abc import Sequence
from typing import Any, NoReturn

from numba.core import ir, types

from numba_grad.compiler.numba_functions import kernel_names
from numba_grad.compiler.numba_functions.array_expressions.expressions import Array
from numba_grad.compiler.numba_functions.builder import Builder
from numba_grad.compiler.numba_functions.numba_ir.findings import Again, Findings
from numba_grad.compiler.numba_functions.numba_ir.meanings import (
    ANOTHER_NAME,
    Known,
    Meaning,
    Stale,
    memories_of,
)
from numba_grad.compiler.numba_functions.numba_ir.refusals import refused
from numba_grad.compiler.numba_functions.numba_ir.type_inference import dtype_name, typed
from numba_grad.compiler.numba_functions.numba_ir.typed_code import TypedCode
from numba_grad.compiler.numba_functions.numba_ir.variables import Variables
from numba_grad.compiler.numba_functions.numba_ir.ways import ListRoom, Loop, Ways
from numba_grad.compiler.numba_functions.regions import Memory, Scalar, Statement, Value, View
from numba_grad.errors import KernelError


class Names:
    """Of one function, or of one call of one. `builder` writes statements, `meaning(variable)` is
    what a variable stands for."""

    def __init__(
        self,
        builder: Builder,
        function: Any,
        arguments: Sequence[types.Type],
        findings: Findings,
        callers: tuple[Any, ...],
    ) -> None:
        self.builder = builder
        self.function = function
        self.findings = findings
        key = function, tuple(arguments)
        if key not in findings.typed:
            findings.typed[key] = TypedCode(function, typed(function, arguments))
        self.code: TypedCode = findings.typed[key]
        self.ways = Ways(self.code)
        self.variables = Variables(self.code, findings, builder)
        self.callers = (*callers, (function, *arguments))
        self.scopes: list[dict[str, Meaning]] = [{}]
        self.location: Any = self.code.location
        self._arguments: Sequence[Meaning] = ()
        self._arrays: dict[str, Memory] = {}  # by group
        self._array_scopes: dict[str, dict[str, Meaning]] = {}  # where these are seen
        self._current: dict[str, str] = {}  # by variable: the version that it holds, in a block
        self._open_loops: list[Loop] = []
        self._made_in: dict[str, tuple[int, ...]] = {}  # names of views: the loops they are made in
        self._returned: list[Memory] | None = None
        self._result: Meaning = None
        self._returns = 0
        self._count = 0
        self._rooms: dict[Memory, ListRoom] = {}  # of lists
        self._constants: dict[int, Memory] = {}  # by `id` of global arrays
        self._block: Sequence[Any] = ()
        self._start: tuple[list[Statement], int] = ([], 0)  # where the function begins
        self._visible: frozenset[Scalar] = frozenset()  # the scalars that are known there
        # Names of arrays that a block has given other arrays: by group, the version and the array.
        self._pending: dict[str, tuple[str, Memory | View]] = {}

    def refused(self, what: str, got: str = "", instead: str = "") -> KernelError:
        return refused(self.location, what, got, instead)

    def problem(self, what: str) -> str:
        """The message of an error that the function raises when it runs, with its line: the text,
        not the number, as the code is kept where other lines of the file change."""
        line = linecache.getline(self.location.filename, self.location.line).strip()
        return f"{what}, in `{line}` of {self.function.__name__}"

    def meaning(self, variable: Any) -> Meaning:
        """What a variable stands for, here."""
        name = variable.name if isinstance(variable, ir.Var) else variable
        group = self.variables.array_groups.get(name)
        for scope in reversed(self.scopes):
            if name in scope:
                found = scope[name]
                if isinstance(found, Stale):
                    raise self.refused(*ANOTHER_NAME)
                if isinstance(found, Known) and found.value is kernel_names.FORMER_SUM:
                    raise self.refused("what `cuda.atomic.add` returns")
                if group is None:
                    self._check_alias(name, found)
                return found
        if group is not None and group in self._arrays:
            return self._array_of(group)
        if name in self.variables.tuples:
            return tuple([self.meaning(part) for part in self.variables.tuples[name]])
        memory = self.variables.memories.get(name)
        if memory is None:
            if isinstance(self.code.typemap.get(name), types.Array):
                if group is not None:
                    raise self.refused(f"the array `{name}`, which may have no value here,")
                self.findings.assigned.add((self.function, name))
                self.findings.early.add((self.function, name))
            self._found(self.findings.variables, name)
        current = self._current.get(memory.name)
        if current is not None and current != name:
            raise self.refused(f"the former value of `{name}`")
        scalar = self.builder.load(memory)
        self.scopes[-1][name] = scalar
        return scalar

    def value(self, variable: Any) -> Value:
        found = self.meaning(variable)
        if not isinstance(found, Scalar | bool | int | float):
            raise self.refused(f"a value of type {self.code.typemap[variable.name]} here")
        return found

    def bind(self, name: str, meaning: Meaning) -> None:
        self.scopes[-1][name] = meaning
        memory = self.variables.memories.get(name)
        if memory is not None:
            if not isinstance(meaning, Scalar | bool | int | float):
                raise self.refused(f"`{name}`, a variable that several lines give a value to,")
            self.builder.store(memory, (), meaning)
            self._current[memory.name] = name
        elif memories_of(meaning):
            self._made_in[name] = tuple([loop.header for loop in self._open_loops])

    def _check_alias(self, name: str, found: Meaning) -> None:
        """Names of an array that is swapped are that array only until it is."""
        if name not in self._made_in:
            return
        memories = memories_of(found)
        for loop in self._open_loops:
            if loop.header in self._made_in[name]:
                continue
            if any(self._is_swapped_in(memory, loop) for memory in memories):
                raise self.refused(*ANOTHER_NAME)

    def _is_swapped_in(self, memory: Memory, loop: Loop) -> bool:
        groups = [g for g, array in self._arrays.items() if array == memory]
        if not groups:
            return False
        for label in loop.blocks:
            for assignment in self.code.blocks[label].find_insts(ir.Assign):
                is_phi = isinstance(assignment.value, ir.Expr) and assignment.value.op == "phi"
                if self.variables.array_groups.get(assignment.target.name) in groups and not is_phi:
                    return True
        return False

    def _found(self, findings: set[tuple[Any, str]], *names: str) -> NoReturn:
        findings |= {(self.function, name) for name in names}
        raise Again

    def _array_of(self, group: str) -> Memory:
        """The array of several versions of a variable."""
        if not any(scope is self._array_scopes[group] for scope in self.scopes):
            # It was made in a branch or loop, and is used outside.
            self.findings.assigned.add((self.function, group))
            self._found(self.findings.early, group)
        return self._arrays[group]

    def _is_assigned(self, memory: Memory) -> bool:
        return any(
            (self.function, group) in self.findings.assigned and array == memory
            for group, array in self._arrays.items()
        )

    def shape(self, array: Array) -> tuple[Value, ...]:
        if not isinstance(array, Memory):
            return array.shape
        return tuple([self.builder.size(array, axis) for axis in range(array.rank)])

    def dtype_of(self, numba_type: Any) -> str:
        return dtype_name(numba_type)

    def known(self, value: Any) -> Meaning:
        return Known(value)
