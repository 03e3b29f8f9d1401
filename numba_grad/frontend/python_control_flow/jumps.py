"""`break`, `continue` and early `return` as flags and branches, which a loop or a branch as an
operation has not.

    if x < 0:              if x < 0:
        return a     ->        value = a
    rest                   else:
    return b                   rest
                               value = b

Where a branch always jumps, what follows the branch moves to the other one. Else a flag says that
it has jumped; what follows runs where it is not set, and loops go on as long as it is not.

A function that returns a value in one place and None in another, as it does at its end (a search
that has found nothing, an iteration that has not converged), has no result of one kind. Where
values decide that it is None, Python runs the function again, as where it raises an exception.
"""

import ast
import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from numba_grad.frontend.inputs.calling_lines import OF_REWRITTEN
from numba_grad.immutable import immutable

Node = TypeVar("Node", bound=ast.AST)

PREFIX = OF_REWRITTEN  # of our own names, and the name of what is called
VALUE = f"{PREFIX}_value"  # what the function returns
RETURNED = f"{PREFIX}_returned"


@dataclass(slots=True)
class _Block:
    """Rewritten statements, and how they may be left."""

    statements: list[ast.stmt] = field(default_factory=list)
    flags: set[str] = field(default_factory=set)  # that they may set
    always_jumps: bool = False


@immutable
class _Loop:
    """The flags of the loop around."""

    broken: str
    skipped: str


def without_jumps(body: Sequence[ast.stmt]) -> list[ast.stmt]:
    """The statements of a function, with one `return` at the end; as they are, if they leave no
    loop and no branch early."""
    inside = [x for statement in body for x in (statement, *_inside_of_blocks(statement))]
    early = {x for x in inside if isinstance(x, ast.Return)} - {*body}
    if not early:
        return _Jumps(returns=False).block(body, None).statements
    first, last = body[0], body[-1]
    gives_values = any(isinstance(x, ast.Return) and not _is_of_none(x) for x in inside)
    if not _always_jumps(body):
        body = [*body, _at(last, ast.Return(None))]
    rewritten = _Jumps(returns=True, gives_values=gives_values).block(body, None)
    return [
        _at(first, _assign(RETURNED, False)),
        *rewritten.statements,
        _at(last, ast.Return(ast.Name(VALUE, ast.Load()))),
    ]


LOOPS = (ast.While, ast.For, ast.AsyncFor)
_BLOCKS = (
    *(ast.If, ast.While, ast.For, ast.AsyncFor, ast.With, ast.AsyncWith),
    *(ast.Try, ast.TryStar, ast.Match),
)


def _inside_of_blocks(statement: ast.stmt) -> list[ast.AST]:
    """All statements in the blocks of a compound one, not those of nested functions."""
    if not isinstance(statement, _BLOCKS):
        return []
    found: list[ast.AST] = []
    pending = [*ast.iter_child_nodes(statement)]
    while pending:
        node = pending.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.expr)):
            continue
        found.append(node)
        pending += ast.iter_child_nodes(node)
    return found


class _Jumps:
    def __init__(self, *, returns: bool, gives_values: bool = False) -> None:
        self._count = 0
        self._returns = returns  # whether `return` is to be rewritten
        self._gives_values = gives_values  # whether one of them returns more than None
        self._is_tried = False  # inside of `try`

    def block(self, statements: Sequence[ast.stmt], loop: _Loop | None) -> _Block:
        result = _Block()
        for number, statement in enumerate(statements):
            rest = statements[number + 1 :]
            if isinstance(statement, ast.If):
                if self._branch(statement, rest, loop, result):
                    return result
                continue
            flags, always = self._statement(statement, loop, result)
            result.flags |= flags
            if always:
                result.always_jumps = True
                return result
            if flags and rest:
                self._guarded(statement, rest, flags, loop, result)
                return result
        return result

    def _guarded(
        self,
        jump: ast.stmt,
        rest: Sequence[ast.stmt],
        flags: set[str],
        loop: _Loop | None,
        result: _Block,
    ) -> None:
        """Append `rest`, which runs where none of `flags` is set."""
        returns = _always_jumps(rest, _RETURNS), flags == {RETURNED}
        guarded = self.block(rest, loop)
        if guarded.statements:
            test = _at(jump, _none_of(sorted(flags)))
            choice = _at(jump, ast.If(test, guarded.statements, []))
            _note_returns(choice, *returns)
            result.statements.append(choice)
        result.flags |= guarded.flags
        result.always_jumps = guarded.always_jumps

    def _branch(
        self, node: ast.If, rest: Sequence[ast.stmt], loop: _Loop | None, result: _Block
    ) -> bool:
        """Append a branch. Whether what follows it has been appended as well."""
        first, second = _always_jumps(node.body), _always_jumps(node.orelse)
        takes_rest = first != second and _jumps([*node.body, *node.orelse])
        in_body = [*node.body, *rest] if takes_rest and second else node.body
        in_orelse = [*node.orelse, *rest] if takes_rest and first else node.orelse
        _note_returns(node, _always_jumps(in_body, _RETURNS), _always_jumps(in_orelse, _RETURNS))
        body, other = self.block(in_body, loop), self.block(in_orelse, loop)
        node.body = body.statements or [_at(node, ast.Pass())]
        node.orelse = other.statements
        result.statements.append(node)
        flags = body.flags | other.flags
        result.flags |= flags
        result.always_jumps = body.always_jumps and other.always_jumps
        if takes_rest or result.always_jumps:
            return True
        if flags and rest:
            self._guarded(node, rest, flags, loop, result)
            return True
        return False

    def _statement(
        self, node: ast.stmt, loop: _Loop | None, result: _Block
    ) -> tuple[set[str], bool]:
        """Append a statement: which flags it may set, and whether it always jumps."""
        append = result.statements.append
        match node:
            case ast.Return() if self._returns:
                value = node.value or _at(node, ast.Constant(None))
                if self._gives_values and _is_of_none(node) and not self._is_tried:
                    append(_at(node, ast.Expr(_own_call("before_none"))))
                append(_at(node, ast.Assign([ast.Name(VALUE, ast.Store())], value)))
                append(_at(node, _assign(RETURNED, True)))
                return {RETURNED}, True
            case ast.Break() if loop is not None:
                append(_at(node, _assign(loop.broken, True)))
                return {loop.broken}, True
            case ast.Continue() if loop is not None:
                append(_at(node, _assign(loop.skipped, True)))
                return {loop.skipped}, True
            case ast.Return() | ast.Raise():
                append(node)
                return set(), True
            case ast.While() | ast.For() | ast.AsyncFor():
                return self._loop(node, loop, result)
            case ast.With() | ast.AsyncWith():
                inner = self.block(node.body, loop)
                node.body = inner.statements
                append(node)
                return inner.flags, inner.always_jumps
            case ast.Try() | ast.TryStar():
                append(node)
                around, self._is_tried = self._is_tried, True
                flags = self._try(node, loop)
                self._is_tried = around
                return flags, False
            case ast.Match():
                flags = set()
                for case in node.cases:
                    inner = self.block(case.body, loop)
                    case.body = inner.statements
                    flags |= inner.flags
                append(node)
                return flags, False
            case _:
                append(node)
                return set(), False

    def _try(self, node: ast.Try | ast.TryStar, loop: _Loop | None) -> set[str]:
        body = self.block(node.body, loop)
        node.body = body.statements
        flags = set(body.flags)
        if node.orelse:
            orelse = _Block()
            if body.flags:
                self._guarded(node, node.orelse, body.flags, loop, orelse)
            else:
                orelse = self.block(node.orelse, loop)
            node.orelse = orelse.statements
            flags |= orelse.flags
        for handler in node.handlers:
            inner = self.block(handler.body, loop)
            handler.body = inner.statements
            flags |= inner.flags
        final = self.block(node.finalbody, loop)
        node.finalbody = final.statements
        return flags | final.flags

    def _loop(
        self, node: ast.While | ast.For | ast.AsyncFor, outer: _Loop | None, result: _Block
    ) -> tuple[set[str], bool]:
        self._count += 1
        own = _Loop(f"{PREFIX}_broken_{self._count}", f"{PREFIX}_skipped_{self._count}")
        body = self.block(node.body, own)
        append = result.statements.append
        if own.skipped in body.flags:
            body.statements.insert(0, _at(node, _assign(own.skipped, False)))
        leaving = sorted(body.flags - {own.skipped})
        if own.broken in leaving:
            append(_at(node, _assign(own.broken, False)))
        node.body = body.statements
        orelse, node.orelse = node.orelse, []
        is_endless = _is_endless(node)
        always = is_endless and own.broken not in leaving
        if isinstance(node, ast.While):
            if any(isinstance(x, ast.NamedExpr) for x in ast.walk(node.test)):
                append(self._with_assigning_test(node, leaving))
            elif leaving:
                goes_on = _at(node.test, _none_of(leaving))
                both = ast.BoolOp(ast.And(), [goes_on, node.test])
                node.test = goes_on if is_endless else ast.copy_location(both, node.test)
        elif leaving and is_over_range(node):
            node.flags = leaving  # type: ignore[union-attr]  # `rewriting` makes a test of them
        elif leaving:
            self._watch(node, leaving)
        append(node)
        flags = set(leaving) - {own.broken}
        if orelse:
            if leaving:
                inner = _Block()
                self._guarded(node, orelse, set(leaving), outer, inner)
            else:
                inner = self.block(orelse, outer)
            result.statements += inner.statements
            flags |= inner.flags
        return flags, always

    def _with_assigning_test(self, node: ast.While, leaving: list[str]) -> ast.stmt:
        """Have the test of a loop assigned to a variable, at the end of each step; what to do
        before the loop. A test that assigns (`:=`) is no test alone."""
        name = f"{PREFIX}_goes_on_{self._count}"

        def tested() -> ast.stmt:
            test = copy.deepcopy(node.test)
            return _at(node.test, ast.Assign([ast.Name(name, ast.Store())], test))

        first, again = tested(), tested()
        if leaving:
            ends = _at(node.test, _assign(name, False))
            again = _at(node.test, ast.If(_none_of(leaving), [again], [ends]))
        node.body.append(again)
        node.test = _at(node.test, ast.Name(name, ast.Load()))
        return first

    def _watch(self, node: ast.For | ast.AsyncFor, leaving: list[str]) -> None:
        """Have a loop over things of Python's end where a flag is set, and do nothing where it is
        not known whether one is."""
        name = f"{PREFIX}_item_{self._count}"
        taken = _at(node.target, ast.Assign([node.target], ast.Name(name, ast.Load())))
        node.target = _at(node.target, ast.Name(name, ast.Store()))
        own = _at(node, ast.If(_none_of(leaving), [taken, *node.body], []))
        is_over = _own_call("is_known_to_hold", *[ast.Name(flag, ast.Load()) for flag in leaving])
        ending = ast.If(is_over, [ast.Break()], [])
        ending.is_python = True  # type: ignore[attr-defined]
        node.body = [own, _at(node, ending)]


def _note_returns(node: ast.If, after_body: bool, after_orelse: bool) -> None:
    """Note on a branch whether the function has returned for certain after either side: what runs
    then reads no variable that the side has not assigned."""
    node.returns = (after_orelse, after_body)  # type: ignore[attr-defined]


def is_over_range(node: ast.For | ast.AsyncFor) -> bool:
    """Whether a loop is written over `range(...)`, or itertools' `count(...)`."""
    match node.iter:
        case ast.Call(
            func=ast.Name(id="range" | "count") | ast.Attribute(attr="count"), keywords=[]
        ):
            return not any(isinstance(x, ast.Starred) for x in node.iter.args)
    return False


def _jumps(statements: Sequence[ast.stmt]) -> bool:
    """Whether these may leave the block that they are in, by another way than an exception."""
    for node in statements:
        if isinstance(node, (ast.Return, ast.Break, ast.Continue)):
            return True
        inside = _inside_of_blocks(node)
        if isinstance(node, LOOPS):
            if any(isinstance(x, ast.Return) for x in inside):
                return True
        elif _jumps([x for x in ast.iter_child_nodes(node) if isinstance(x, ast.stmt)]):
            return True
        elif isinstance(node, (ast.Try, ast.TryStar, ast.Match)):
            cases = node.cases if isinstance(node, ast.Match) else node.handlers
            if any(_jumps(case.body) for case in cases):
                return True
    return False


_RETURNS = (ast.Return, ast.Raise)


def _always_jumps(
    statements: Sequence[ast.stmt], jumps: tuple[type, ...] = (*_RETURNS, ast.Break, ast.Continue)
) -> bool:
    for node in statements:
        if isinstance(node, jumps):
            return True
        match node:
            case ast.If():
                if _always_jumps(node.body, jumps) and _always_jumps(node.orelse, jumps):
                    return True
            case ast.With():
                if _always_jumps(node.body, jumps):
                    return True
            case ast.While() | ast.For() if _is_endless(node) and not _breaks(node.body):
                return True
    return False


def _breaks(statements: Sequence[ast.stmt]) -> bool:
    """Whether these may break the loop that they are the body of."""
    for node in statements:
        if isinstance(node, ast.Break):
            return True
        if isinstance(node, _BLOCKS):
            blocks = [node] if not isinstance(node, LOOPS) else []
            blocks += [*getattr(node, "handlers", ()), *getattr(node, "cases", ())]
            inside = [x for b in blocks for x in ast.iter_child_nodes(b) if isinstance(x, ast.stmt)]
            if _breaks([*inside, *(node.orelse if isinstance(node, LOOPS) else [])]):
                return True
    return False


def _is_endless(node: ast.While | ast.For | ast.AsyncFor) -> bool:
    """Whether only a jump ends a loop. Of `count(...)` alone, nobody can say whose it is."""
    if isinstance(node, ast.While):
        return isinstance(node.test, ast.Constant) and bool(node.test.value)
    return is_over_range(node) and ast.unparse(node.iter).startswith("itertools.count(")


def _is_of_none(node: ast.Return) -> bool:
    return node.value is None or (isinstance(node.value, ast.Constant) and node.value.value is None)


def _own_call(name: str, *arguments: ast.expr) -> ast.Call:
    """A call of one of the functions that decide what a rewritten function does."""
    function = ast.Attribute(ast.Name(PREFIX, ast.Load()), name, ast.Load())
    return ast.Call(function, [*arguments], [])


def is_own_call(node: ast.Call) -> bool:
    """Whether it is one that `without_jumps` has put there."""
    match node.func:
        case ast.Attribute(value=ast.Name(id=name)):
            return name == PREFIX
    return False


def _assign(name: str, value: bool) -> ast.Assign:
    return ast.Assign([ast.Name(name, ast.Store())], ast.Constant(value))


def _none_of(flags: Sequence[str]) -> ast.expr:
    tests: list[ast.expr] = [ast.UnaryOp(ast.Not(), ast.Name(name, ast.Load())) for name in flags]
    return tests[0] if len(tests) == 1 else ast.BoolOp(ast.And(), tests)


def _at(place: ast.AST, node: Node) -> Node:
    """`node`, new, as if it stood where `place` does."""
    for new in ast.walk(node):
        if not hasattr(new, "lineno"):
            ast.copy_location(new, place)
    return node
