"""Which variables of a function a statement assigns or changes, and which may be read later."""

import ast
from collections.abc import Iterable, Iterator, Sequence

Nested = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def nodes_of(scope: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """These nodes and what is in them, but not what is in functions and classes defined there."""
    pending = [*scope][::-1]
    while pending:
        node = pending.pop()
        yield node
        if isinstance(node, (*Nested, ast.ClassDef)):
            pending += _evaluated_outside(node)
        else:
            pending += [*ast.iter_child_nodes(node)][::-1]


def _evaluated_outside(node: ast.AST) -> list[ast.AST]:
    """Of the definition of a function or class, what is evaluated where it stands."""
    if isinstance(node, ast.ClassDef):
        return [*node.decorator_list, *node.bases, *[x.value for x in node.keywords]]
    assert isinstance(node, Nested)
    defaults = [*node.args.defaults, *[x for x in node.args.kw_defaults if x is not None]]
    return [*defaults, *getattr(node, "decorator_list", ())]


def assigned_in(scope: Sequence[ast.AST]) -> set[str]:
    """The names that these statements assign, delete, import or define."""
    names: set[str] = set()
    own_of_comprehensions: set[int] = set()
    for node in nodes_of(scope):
        if isinstance(node, _COMPREHENSIONS):
            targets = [x for part in node.generators for x in ast.walk(part.target)]
            own_of_comprehensions.update(map(id, targets))
        elif isinstance(node, ast.Name):
            if not isinstance(node.ctx, ast.Load) and id(node) not in own_of_comprehensions:
                names.add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names |= {x.asname or x.name.partition(".")[0] for x in node.names}
        elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)):
            names |= {node.name} if node.name else set()
        elif isinstance(node, ast.MatchMapping):
            names |= {node.rest} if node.rest else set()
    return names


def changed_in(scope: Sequence[ast.AST], new: Iterable[str] = ()) -> set[str]:
    """The names of what these statements change in place, as far as they say so; but for what is
    made by these before: `x = x.copy()`, then `x[i] = 1`. `new`: names of such things."""
    names: set[str] = set()
    new = set(new)
    for statement in scope:
        blocks = _blocks_of(statement)
        nodes = nodes_of([statement]) if not blocks else nodes_of(_outside_of_blocks(statement))
        names |= {name for node in nodes for name in _changed_by(node, new)}
        goes_round = isinstance(statement, (ast.For, ast.AsyncFor, ast.While))
        kept = new - assigned_in([statement]) if goes_round else new
        names |= {name for block in blocks for name in changed_in(block, kept)}
        new -= assigned_in([statement])
        new |= _made_by(statement)
    return names


def _changed_by(node: ast.AST, new: set[str]) -> set[str]:
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        return {node.target.id} - new
    if isinstance(node, (ast.Subscript, ast.Attribute)) and not isinstance(node.ctx, ast.Load):
        # What is in a copy of a container is in the container as well.
        return _root_of(node) - (new if isinstance(node.value, ast.Name) else set())
    return set()


def _made_by(statement: ast.AST) -> set[str]:
    """The name that a statement gives a thing that nothing else knows."""
    match statement:
        case ast.Assign(
            targets=[ast.Name(id=name)],
            value=ast.BinOp() | ast.Call(func=ast.Attribute(attr="copy"), args=[], keywords=[]),
        ):
            return {name}
    return set()


def _blocks_of(statement: ast.AST) -> list[list[ast.stmt]]:
    """The blocks of statements in one; none in functions and classes that it defines."""
    if isinstance(statement, (*Nested, ast.ClassDef)):
        return []
    parts = [statement, *getattr(statement, "handlers", ()), *getattr(statement, "cases", ())]
    found = [getattr(x, name, ()) for x in parts for name in ("body", "orelse", "finalbody")]
    return [block for block in found if isinstance(block, list) and block]


def _outside_of_blocks(statement: ast.AST) -> list[ast.AST]:
    return [
        x
        for x in ast.iter_child_nodes(statement)
        if not isinstance(x, (ast.stmt, ast.ExceptHandler, ast.match_case))
    ]


def _root_of(node: ast.AST) -> set[str]:
    while isinstance(node, (ast.Subscript, ast.Attribute)):
        node = node.value
    return {node.id} if isinstance(node, ast.Name) else set()


def read_in(*scope: ast.AST | None) -> set[str]:
    """All names that are read anywhere inside, in nested functions as well."""
    return {
        node.id
        for part in scope
        if part is not None
        for node in ast.walk(part)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }


def captured_in(scope: Sequence[ast.AST]) -> set[str]:
    """The names that functions defined here read: whenever these are called."""
    return set().union(
        *[read_in(node) for node in nodes_of(scope) if isinstance(node, (*Nested, ast.ClassDef))]
    )


def declared_in(scope: Sequence[ast.AST], kind: type[ast.Global] | type[ast.Nonlocal]) -> set[str]:
    """The names in statements `global` or `nonlocal`."""
    return {name for node in nodes_of(scope) if isinstance(node, kind) for name in node.names}


class ReadLater:
    """Goes through a function from its end to its beginning, and notes for each loop and branch
    which names may be read after it, and for a loop those that its next step may read.

    Where it cannot know it says that a name may be read.
    """

    def __init__(self, body: Sequence[ast.stmt], always: Iterable[str] = ()) -> None:
        self.after: dict[ast.AST, frozenset[str]] = {}
        self.next_step: dict[ast.AST, frozenset[str]] = {}
        self._always = set(always)
        self._loops: list[tuple[set[str], set[str]]] = []  # names read: after the loop, at its head
        self._block(body, set())

    def _block(self, statements: Sequence[ast.stmt], after: set[str]) -> set[str]:
        """Which names are read from the beginning of these statements on."""
        for statement in reversed(statements):
            after = self._statement(statement, after)
        return after

    def _statement(self, node: ast.stmt, after: set[str]) -> set[str]:
        after = after | self._always
        match node:
            case ast.If():
                self.after[node] = frozenset(after)
                return (
                    read_in(node.test)
                    | self._block(node.body, after)
                    | self._block(node.orelse, after)
                )
            case ast.While() | ast.For() | ast.AsyncFor():
                return self._loop(node, after)
            case ast.With() | ast.AsyncWith():
                return read_in(*node.items) | self._block(node.body, after)
            case ast.Match():
                blocks = [self._block(case.body, after) for case in node.cases]
                tests = [x for case in node.cases for x in (case.pattern, case.guard)]
                return after.union(read_in(node.subject, *tests), *blocks)
            case ast.Try() | ast.TryStar():
                return self._try(node, after)
            case ast.Return() | ast.Raise():
                return read_in(node) | self._always
            case ast.Break():
                return set(self._loops[-1][0])
            case ast.Continue():
                return set(self._loops[-1][1])
            case ast.Assign():
                names = {x.id for x in node.targets if isinstance(x, ast.Name)}
                names |= {
                    x.id
                    for target in node.targets
                    if isinstance(target, (ast.Tuple, ast.List))
                    for x in target.elts
                    if isinstance(x, ast.Name)
                }
                return (after - names) | read_in(node)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                return (after - {name}) | read_in(value)
            case ast.AugAssign(target=ast.Name(id=name)):
                return after | read_in(node) | {name}
            case (
                ast.FunctionDef(name=name)
                | ast.AsyncFunctionDef(name=name)
                | ast.ClassDef(name=name)
            ):
                return (after - {name}) | read_in(node)
            case _:
                return after | read_in(node)

    def _loop(self, node: ast.While | ast.For | ast.AsyncFor, after: set[str]) -> set[str]:
        self.after[node] = frozenset(after)
        behind = after | self._block(node.orelse, after)
        if isinstance(node, ast.While):
            always, own = read_in(node.test), set()
        else:
            always, own = set(), assigned_in([node.target])
        always |= {*getattr(node, "flags", ())}
        head = behind | always
        while True:
            self._loops.append((behind, head))
            found = head | (self._block(node.body, head) - own)
            self._loops.pop()
            if found == head:
                break
            head = found
        # What the next step reads, apart from what is read after the loop only.
        self.next_step[node] = frozenset(head)
        return head | (set() if isinstance(node, ast.While) else read_in(node.iter))

    def _try(self, node: ast.Try | ast.TryStar, after: set[str]) -> set[str]:
        kept = self._always
        # Any statement inside may be the last one before a handler.
        self._always = kept | after | read_in(*node.handlers, *node.orelse, *node.finalbody)
        for block in (node.body, *[x.body for x in node.handlers], node.orelse, node.finalbody):
            self._block(block, after)
        self._always = kept
        return after | read_in(node)
