"""Statements, branches and loops: the blocks of a function become regions of the tree."""

# Numba's annotations are few, and wrong where they come from class attributes set at run time.
# pyright: reportAttributeAccessIssue=false, reportPrivateImportUsage=false

import builtins
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
from numba.core import ir, types

from numba_grad.compiler.numba_functions.builder import NotOfComplexNumbers
from numba_grad.compiler.numba_functions.numba_ir.calls import Calls
from numba_grad.compiler.numba_functions.numba_ir.meanings import (
    Elements,
    Known,
    Meaning,
    flattened,
    memories_of,
)
from numba_grad.compiler.numba_functions.numba_ir.type_inference import dtype_name
from numba_grad.compiler.numba_functions.numba_ir.ways import RAISES, Loop
from numba_grad.compiler.numba_functions.regions import (
    Allocate,
    Check,
    For,
    If,
    Memory,
    Scalar,
    Statement,
    View,
    While,
)
from numba_grad.compiler.numba_functions.source_functions import exception_named

_MOST_STATEMENTS = 20_000


def _parts(numba_type: Any) -> list[Any]:
    """The types of the parts of a tuple, of those in it, too."""
    if not isinstance(numba_type, types.BaseTuple):
        return [numba_type]
    return [part for inner in numba_type for part in _parts(inner)]  # pyright: ignore


def _made_like(result: Meaning, parts: Iterator[Meaning]) -> Meaning:
    """The parts as a tuple like another one."""
    if isinstance(result, tuple):
        return tuple([_made_like(inner, parts) for inner in result])
    return next(parts)


def _name_in_source(error: Any) -> str:
    """What source calls an exception that is neither built in nor NumPy's.

    Raises
    ------
    LookupError
        If its module has none of that name, as for one that is made in a function.
    """
    try:
        found = exception_named(error.__module__, error.__qualname__)
    except (ImportError, AttributeError):
        found = None
    if found is not error:
        raise LookupError(error)
    return f"exception_named({error.__module__!r}, {error.__qualname__!r})"


class Translation(Calls):
    """Branches end where their ways meet; if one leaves a loop or the function, what follows stands
    in the other. Whoever leaves a loop sets its flag."""

    def run(self, arguments: Sequence[Meaning]) -> Meaning:
        """Write the statements; what the function returns."""
        self._arguments = arguments
        returns = [b for b in self.code.blocks.values() if isinstance(b.body[-1], ir.Return)]
        self._returns = len(returns)
        self.variables.declare()
        self._start = self.builder.body, len(self.builder.body)
        self._visible = self.builder.visible()
        self.emit(min(self.code.blocks), None, None)
        if self._returned is not None:
            loaded = iter([m if m.rank else self.builder.load(m) for m in self._returned])
            return _made_like(self._result, loaded)
        return self._result

    def emit(self, label: int | None, stop: int | None, loop: Loop | None) -> None:
        """Write what is done from a block up to another one, or to the end of the loop's pass."""
        while label is not None and label != stop:
            inner = self.ways.inner_loop(label, loop)
            if inner is not None:
                label = self._emit_loop(label, inner, stop, loop)
                continue
            label = self._emit_block(label, stop, loop)

    def _way(self, target: int, stop: int | None, loop: Loop | None) -> int | None:
        """Take the way to a block: where to go on, None where a pass or the function ends."""
        if loop is None or (target in loop.blocks and target != loop.header):
            return target
        if target in self.ways.raising:
            return target
        if target != loop.header:
            assert loop.leave is not None
            self.builder.store(loop.leave, (), True)
            if loop.exit is not None:
                self.builder.store(loop.exit, (), loop.targets.index(target))
        return None

    def _emit_block(self, label: int, stop: int | None, loop: Loop | None) -> int | None:
        self._current = {}
        self._block = self.code.blocks[label].body
        for statement in self._block[:-1]:
            self.location = statement.loc
            self.statement(statement)
        for target, value in self.variables.casts.get(label, ()):
            self._give_cast(target, self.meaning(value))
        self._swap()
        self._current = {}
        last = self.code.blocks[label].body[-1]
        self.location = last.loc
        if isinstance(last, ir.Jump):
            return self._way(last.target, stop, loop)
        if isinstance(last, ir.Return):
            self._return(self.meaning(last.value))
            return None
        if isinstance(last, ir.Branch):
            return self._emit_branch(last, stop, loop)
        if isinstance(last, RAISES):
            self._raise(last)
            return None
        raise self.refused(f"`{last}`")

    def _raise(self, statement: Any) -> None:
        """What the user's code raises: an exception with constants."""
        error = getattr(statement, "exc_class", None)
        arguments = statement.exc_args or () if isinstance(statement, ir.StaticRaise) else None
        name = getattr(error, "__name__", "")
        if error is np.linalg.LinAlgError:
            name = "np.linalg.LinAlgError"
        elif error is None or getattr(builtins, name, None) is not error:
            try:
                name = _name_in_source(error)
            except (LookupError, AttributeError):
                what = "`raise` of an exception that its module does not have by its name"
                advice = "a class at the top of its module; or "
                raise self.refused(what, got=str(error), instead=advice) from None
        if arguments is None or not all(isinstance(a, str | int | float) for a in arguments):
            advice = "a message that is a constant; or "
            raise self.refused("`raise` with a message that is computed", instead=advice)
        self.builder.body.append(Check(False, name, tuple(arguments)))

    def _emit_branch(self, branch: Any, stop: int | None, loop: Loop | None) -> int | None:
        condition = self.value(branch.cond)
        if isinstance(condition, bool | int | float):
            return self._way(branch.truebr if condition else branch.falsebr, stop, loop)
        targets = [branch.truebr, branch.falsebr]
        if targets[0] == targets[1]:
            return self._way(targets[0], stop, loop)
        join = self._join([t for t in targets if t not in self.ways.raising], stop, loop)
        with self.builder.branch(condition) as branch, self._scope():
            self.emit(self._way(targets[0], join, loop), join, loop)
        with self.builder.region(branch.otherwise), self._scope():
            self.emit(self._way(targets[1], join, loop), join, loop)
        self._count_statements()
        return join

    def _join(self, targets: Sequence[int], stop: int | None, loop: Loop | None) -> int | None:
        """Where ways to these blocks meet, within the loop's pass."""
        ends = [
            -1 if loop is not None and (t not in loop.blocks or t == loop.header) else t
            for t in targets
        ]
        join = self.ways.join(ends, loop) if ends else None
        if join is None:
            join = stop if stop in ends else None
        return join

    @contextmanager
    def _scope(self) -> Iterator[None]:
        """What is bound inside is forgotten after it."""
        self.scopes.append({})
        yield
        self.scopes.pop()

    def _count_statements(self) -> None:
        self._count += 1
        if self._count > _MOST_STATEMENTS:
            raise self.refused("a function with so many ways through its branches")

    def _emit_loop(
        self, header: int, inner: Any, stop: int | None, loop: Loop | None
    ) -> int | None:
        """Write a loop; where to go on."""
        blocks = set(inner.body)
        targets = []
        for block in sorted(blocks):
            targets += [t for t, _ in self.ways.graph.successors(block) if t not in blocks]
        targets = [t for t in dict.fromkeys(targets) if t not in self.ways.raising]
        iterator = self._iterator(header)
        inside = Loop(blocks, header, targets=targets, iterator=iterator)
        has_break = iterator is None or any(
            t not in blocks and t not in self.ways.raising
            for block in blocks - {header}
            for t, _ in self.ways.graph.successors(block)
        )
        if has_break:
            inside.leave = self.builder.allocate("leave", "bool", (), 0.0)
        at = self.code.blocks[header].body
        if iterator is not None:
            end = at[-1]
            # Without a break, the way out of a `for` loop is that of its header.
            assert isinstance(end, ir.Branch)
            inside.targets = targets = [end.falsebr, *[t for t in targets if t != end.falsebr]]
        if len(targets) > 1:
            inside.exit = self.builder.allocate("way", "int64", (), 0.0)
        self._open_loops.append(inside)
        if iterator is None:
            assert inside.leave is not None
            body: list[Statement] = []
            self.builder.body.append(While(inside.leave, body))
            with self.builder.region(body), self._scope():
                self.emit(self._emit_block(header, None, inside), None, inside)
        else:
            self._emit_for(iterator, header, inside)
        self._open_loops.pop()
        self._count_statements()
        return self._after_loop(inside, stop, loop)

    def _after_loop(self, inside: Loop, stop: int | None, loop: Loop | None) -> int | None:
        targets = inside.targets
        if not targets:
            raise self.refused("a loop without an end")
        if inside.exit is None:
            return self._way(targets[0], stop, loop)
        join = self._join(targets, stop, loop)
        way = self.builder.load(inside.exit)
        with ExitStack() as regions:
            for number, target in enumerate(targets[:-1]):
                is_taken = self.builder.define("equal", way, number)
                with self.builder.branch(is_taken) as branch, self._scope():
                    self.emit(self._way(target, join, loop), join, loop)
                regions.enter_context(self.builder.region(branch.otherwise))
                regions.enter_context(self._scope())
            self.emit(self._way(targets[-1], join, loop), join, loop)
        return join

    def _iterator(self, header: int) -> Elements | None:
        for assignment in self.code.blocks[header].find_insts(ir.Assign):
            value = assignment.value
            if isinstance(value, ir.Expr) and value.op == "iternext":
                self.location = assignment.loc
                found = self.meaning(value.value)
                if not isinstance(found, Elements):
                    raise self.refused("a loop over this")
                return found
        return None

    def _emit_for(self, iterator: Elements, header: int, inside: Loop) -> None:
        builder = self.builder
        if any(self._is_swapped_in(memory, inside) for memory in memories_of(iterator)):
            raise self.refused("a loop over an array that is swapped in it")
        passes = self._unrolled(iterator)
        if passes is not None:
            inside.iterator = Elements("tuple", (None,))  # what is written once is done once
            self._emit_passes(passes, header, inside)
            return
        with ExitStack() as regions:
            if iterator.kind == "range":
                span = iterator.parts[0]
                if span.step == 0 and not isinstance(span.step, Scalar):
                    raise self.refused("range with a step of 0")
                index = builder.scalar("int64", "i")
                element: Meaning = index
                inside.index = index
                ends = span.start, span.stop, span.step
                loop = For(index, *ends, [], inside.leave, span.is_parallel)
                builder.body.append(loop)
                regions.enter_context(builder.region(loop.body))
            else:
                at: list[Scalar] = []
                for length in self._nest(iterator):
                    at.append(builder.scalar("int64", "i"))
                    loop = For(at[-1], 0, length, 1, [], inside.leave)
                    builder.body.append(loop)
                    regions.enter_context(builder.region(loop.body))
                element = self._element(iterator, tuple(at))
            self._emit_pass(element, header, inside)

    def _emit_passes(self, passes: list[Meaning], header: int, inside: Loop) -> None:
        """One after the other, until one leaves."""
        with ExitStack() as regions:
            for number, element in enumerate(passes):
                if number and inside.leave is not None:
                    rest = If(self.builder.load(inside.leave), [], [])
                    self.builder.body.append(rest)
                    regions.enter_context(self.builder.region(rest.otherwise))
                    regions.enter_context(self._scope())
                self._emit_pass(element, header, inside)

    def _emit_pass(self, element: Meaning, header: int, inside: Loop) -> None:
        block = self.code.blocks[header]
        self.scopes.append({})
        self._current = {}
        self._block = block.body
        for statement in block.body[:-1]:
            self.location = statement.loc
            value = statement.value if isinstance(statement, ir.Assign) else None
            if isinstance(value, ir.Expr) and value.op in ("iternext", "pair_second"):
                continue
            if isinstance(value, ir.Expr) and value.op == "pair_first":
                self.bind(statement.target.name, element)
                continue
            self.statement(statement)
        self._swap()
        self._current = {}
        end = block.body[-1]
        self.emit(self._way(end.truebr, None, inside), None, inside)
        self.scopes.pop()

    def _return(self, result: Meaning) -> None:
        result = self._stored(result)
        if self._returns == 1 and len(self.scopes) == 1:
            self._result = result
            return
        if isinstance(result, Known) and result.value is None:
            self._result = result
            return
        parts = flattened(result)
        if self._returned is None:
            self._returned = [
                self._returned_memory(numba_type, part)
                for numba_type, part in zip(_parts(self.code.return_type), parts, strict=True)
            ]
            self._result = result
        given = frozenset().union(*map(memories_of, self._arguments))
        arrays = [next(iter(memories_of(part)), None) for part in parts]
        for memory, part, array in zip(self._returned, parts, arrays, strict=True):
            if isinstance(part, Memory | View):
                # Of an array of its own, made anew in each call, nobody else has a name.
                is_own = array not in given and arrays.count(array) == 1
                self._copy(memory, part, is_own=is_own)
                continue
            cast = self.builder.define("cast", part, dtype=memory.dtype)  # pyright: ignore
            self.builder.store(memory, (), cast)

    def _returned_memory(self, numba_type: Any, part: Meaning) -> Memory:
        """Where a result is that is returned in several places."""
        if isinstance(part, Memory | View):
            return self._early_array("result", part)
        if not isinstance(part, Scalar | bool | int | float):
            raise self.refused("what is returned here")
        memory = self.builder.memory("result", dtype_name(numba_type))
        body, start = self._start
        body.insert(start, Allocate(memory, (), 0.0))
        return memory

    def statement(self, statement: Any) -> None:
        try:
            self._written(statement)
        except NotOfComplexNumbers as operation:
            raise self.refused(f"`{operation}` of complex numbers") from None

    def _written(self, statement: Any) -> None:
        if isinstance(statement, ir.Assign):
            self._assign(statement.target, statement.value)
        elif isinstance(statement, ir.SetItem):
            self.set_item(statement.target, self.meaning(statement.index), statement.value)
        elif isinstance(statement, ir.StaticSetItem):
            index = self._static_index(statement)
            self.set_item(statement.target, index, statement.value)
        elif not isinstance(statement, ir.Del | ir.Print):  # What it would print is left out.
            raise self.refused(f"`{statement}`")

    def _assign(self, target: Any, value: Any) -> None:
        if isinstance(value, ir.Expr) and value.op == "phi":
            return
        meaning = self._meaning_of(target, value)
        is_name = isinstance(value, ir.Var) and not target.name.startswith("$")
        is_copied = (
            target.name in self.variables.array_groups or target.name in self.variables.tuples
        )
        memories = memories_of(meaning)
        if is_name and not is_copied and any(map(self._is_assigned, memories)):
            meaning = self._kept(meaning)
        self._give(target.name, meaning)
