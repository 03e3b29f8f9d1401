"""What names are given: arrays that several names have, and that are swapped or copied."""

# Numba's annotations are few, and wrong where they come from class attributes set at run time.
# pyright: reportAttributeAccessIssue=false, reportPrivateImportUsage=false

import re
from collections.abc import Sequence

from numba_grad.compiler.numba_functions.numba_ir.findings import Shared
from numba_grad.compiler.numba_functions.numba_ir.meanings import Meaning, Stale, memories_of
from numba_grad.compiler.numba_functions.numba_ir.names import Names
from numba_grad.compiler.numba_functions.regions import (
    Memory,
    Scalar,
    Statement,
    Swap,
    View,
    walk,
)


class Assignments(Names):
    """Variables that are given other arrays have memory of their own, to which these are copied.
    Where Python would then have two names of one array, nobody may write to it: `check_copies`."""

    def _give(self, name: str, meaning: Meaning) -> None:
        """Give a variable, or a part of one that is a tuple, its value."""
        if name in self.variables.tuples:
            parts = self.variables.tuples[name]
            if not isinstance(meaning, tuple) or len(meaning) != len(parts):
                raise self.refused("a variable that is a tuple")
            for part, value in zip(parts, meaning, strict=True):
                self._give(part, value)
            return
        group = self.variables.array_groups.get(name)
        if group is None:
            self.bind(name, meaning)
            return
        if not isinstance(meaning, Memory | View):
            raise self.refused(f"`{name}`, which is one array here and another there,")
        if group in self._arrays:
            self._array_of(group)
            self.scopes[-1][name] = meaning
            self._pending[group] = (name, meaning)
        elif (self.function, group) in self.findings.assigned:
            self._arrays[group] = self._own_array(group, meaning)
            self._copy(self._arrays[group], meaning)
        elif isinstance(meaning, Memory):
            self._arrays[group] = meaning
            self._array_scopes[group] = self.scopes[-1]
        else:
            self._found(self.findings.assigned, group)

    def _give_cast(self, name: str, meaning: Meaning) -> None:
        """Give a variable a value of another type."""
        if isinstance(meaning, tuple):
            for part, value in zip(self.variables.tuples[name], meaning, strict=True):
                self._give_cast(part, value)
        elif name in self.variables.memories and isinstance(meaning, Scalar | bool | int | float):
            memory = self.variables.memories[name]
            cast = self.builder.define("cast", meaning, dtype=memory.dtype)
            self.builder.store(memory, (), cast)
        else:
            self._give(name, meaning)

    def _own_array(self, group: str, like: Memory | View) -> Memory:
        builder = self.builder
        base, shape = re.sub(r"\W.*", "", group.strip("$")) or "values", self.shape(like)
        if (self.function, group) not in self.findings.early:
            self._array_scopes[group] = self.scopes[-1]
            return builder.allocate(base, like.dtype, shape)
        self._array_scopes[group] = self.scopes[0]
        return self._early_array(base, like)

    def _early_array(self, base: str, like: Memory | View) -> Memory:
        """An array where the function begins, of the shape that another one has here."""
        region: list[Statement] = []
        try:
            early = self.builder.again(self.shape(like), self._visible, region)
        except LookupError:
            what = "an array that is made in a loop or branch and used outside"
            advice = "np.empty of its shape before that; or "
            raise self.refused(what, got=base, instead=advice) from None
        with self.builder.region(region):
            memory = self.builder.allocate(base, like.dtype, early, 0.0)
        body, start = self._start
        body[start:start] = region
        return memory

    def _kept(self, array: Meaning) -> Meaning:
        """An array that stays what it is where the variable is given another."""
        if isinstance(array, tuple):
            return tuple([self._kept(part) for part in array])
        if not isinstance(array, Memory | View):
            return array
        memory = self.builder.allocate("kept", array.dtype, self.shape(array))
        self._copy(memory, array)
        return memory

    def _copy(
        self,
        memory: Memory,
        source: Memory | View,
        *,
        is_moved: bool = False,
        is_own: bool = False,
    ) -> None:
        builder = self.builder
        for length, other in zip(self.shape(source), self.shape(memory), strict=True):
            what = self.problem("a variable that is given arrays of several shapes")
            builder.check(
                builder.equal_lengths(length, other), what, [self.shape(memory), self.shape(source)]
            )
        view = source if isinstance(source, View) else builder.whole(source)
        with builder.elements(view.shape) as at:
            builder.store(memory, at, builder.load_view(view, *at))
        if not is_own:
            self.share(memory, view.memory, is_moved=is_moved)

    def share(self, memory: Memory, source: Memory, *, is_moved: bool = False) -> None:
        """The statement that was written last copies what Python has no copy of."""
        statement = self.builder.body[-1]
        self.findings.copies |= {id(s) for s in walk([statement])}
        self.findings.shared.append(Shared(memory, source, statement, self.location, is_moved))

    def _swap(self) -> None:
        """At the end of a block: names of arrays that are given other arrays."""
        pending = self._pending
        self._pending = {}
        moved = {g: new for g, (_, new) in pending.items() if new != self._arrays[g]}
        for name, _ in pending.values():
            self.scopes[-1].pop(name, None)
        if not moved:
            return
        names = [self._arrays[g] for g in moved]
        sources = [m.memory if isinstance(m, View) else m for m in moved.values()]
        is_swap = set(names) == set(moved.values()) and len(set(names)) == len(names)
        others = [g for g in moved if (self.function, g) not in self.findings.assigned]
        if others and not (is_swap and len(others) == len(moved)):
            self._found(self.findings.assigned, *others)
        for group, memory in self._arrays.items():
            if memory in names and group not in moved:
                self._found(self.findings.assigned, *moved, group)
        for scope in self.scopes:
            for name, found in scope.items():
                if not memories_of(found).isdisjoint(names):
                    scope[name] = Stale()
        if is_swap:
            given = frozenset().union(*map(memories_of, self._arguments))
            if len(self.callers) > 1 and not given.isdisjoint(names):
                # Who calls would find them swapped.
                raise self.refused(
                    "a swap of arguments in a function that another one calls",
                    instead="the swap where that function is called, or a .copy() of these; or ",
                )
            self._check_swapped(names)
            arrays = [m for m in moved.values() if isinstance(m, Memory)]
            self.builder.body.append(Swap(tuple(names), tuple(arrays)))
            return
        # All are read before one is written.
        arrays = []
        for source, array in zip(sources, moved.values(), strict=True):
            if source not in names:
                arrays.append(array)
                continue
            between = self.builder.allocate("kept", array.dtype, self.shape(array))
            self._copy(between, array, is_moved=True)
            arrays.append(between)
        for memory, array in zip(names, arrays, strict=True):
            self._copy(memory, array)

    def _check_swapped(self, names: Sequence[Memory]) -> None:
        builder, shapes = self.builder, [self.shape(memory) for memory in names]
        for shape in shapes[1:]:
            for length, other in zip(shape, shapes[0], strict=True):
                what = self.problem("arrays of several shapes that are swapped")
                builder.check(builder.equal_lengths(length, other), what, shapes)
