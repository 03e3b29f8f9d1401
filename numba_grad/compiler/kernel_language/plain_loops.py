"""Which loops `vector_loops.py` can write, by the text of a kernel: arithmetic over elements at
equal distances.

A kernel is plain if all of its innermost loops are such, or scalar by the emitter's choice
(`opaque`, `keep_scalar`).
"""

import ast
from collections.abc import Collection, Iterator

from numba.core import types

from numba_grad.compiler.kernel_language import vector_functions
from numba_grad.compiler.kernel_language.statements import every_statement
from numba_grad.immutable import NamedTuple

_FLOATS = {"float64": types.float64, "float32": types.float32}
_PART_OF = {"complex64": "float32", "complex128": "float64"}
_INTEGERS = {f"int{8 * size}": getattr(types, f"int{8 * size}") for size in (1, 2, 4, 8)}
# What a plain kernel may name: nothing that is called here has a branch or a function of its own.
_PLAIN_NAMES = frozenset(
    (
        *("args", "lo", "hi", "range", "buffer", "pointer", "integer", "quotient", "opaque"),
        *("max", "min"),
        *("select", "reduce_add", "bool_", "cast", "inf", "nan", "complex"),
        *(*_FLOATS, *_INTEGERS, *_PART_OF),
    )
)
_FUNCTIONS = vector_functions.LONG | vector_functions.SHORT
_OTHER_KINDS = frozenset(
    [ast.While, ast.Break, ast.Continue, ast.IfExp, ast.BoolOp, ast.Attribute, ast.AugAssign]
)
_STATEMENTS_A_SUM = 100  # statements of a loop over a block of rows, for each of its sums
COMPARISONS = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
}


def plain_element(
    definition: ast.FunctionDef,
    loops: "Collection[PlainLoop]",
    kinds: Collection[type],
    names: Collection[str],
    in_memory: Collection[str],
) -> types.Float | types.Integer | None:
    """The type of what is in all buffers of a kernel, or of its parts where that is complex, if
    every loop of it is written here, or is a scalar one; else None.

    Parameters
    ----------
    loops : the innermost ones that are not scalar
    kinds : of nodes that are in its tree
    names : that it reads and does not assign
    in_memory : variables that need memory: what a loop assigns is not read behind it
    """
    if not _OTHER_KINDS.isdisjoint(kinds):
        return None
    # Numbers that say where a row is may be of another type.
    inside = {name for loop in loops for uses in loop.uses for name in uses.names}
    outer = inside.intersection(names)
    functions = _FUNCTIONS.intersection(outer)
    if not (_PLAIN_NAMES | functions).issuperset(outer):
        return None
    dtypes, blocks = {}, set()
    for statement in definition.body:
        match statement:
            case ast.Assign(
                targets=[ast.Name(id=buffer)],
                value=ast.Call(
                    func=ast.Name(id="buffer" | "local" as kind), args=[*_, ast.Name(id=name)]
                ),
            ):
                dtypes[buffer] = name
                if kind == "local":
                    blocks.add(buffer)
    found = {dtypes[name] for name in inside if name in dtypes} or set(dtypes.values())
    found = {_PART_OF.get(dtype, dtype) for dtype in found}
    dtype = next(iter(found - {"bool_"}), None)
    if len(found - {"bool_"}) != 1 or dtype is None:
        return None
    conditions = {name for name, given in dtypes.items() if given == "bool_"}
    if functions and dtype in _INTEGERS:
        return None
    if "few_points" in names and functions - vector_functions.SHORT - vector_functions.FOR_FEW:
        return None
    for loop in loops:
        if not loop.is_plain(dtype in _INTEGERS, "stores_apart" in names):
            return None
        # After each block of rows, vectors of sums are added up.
        is_of_block = any(not blocks.isdisjoint(uses.names) for uses in loop.uses)
        if is_of_block and _STATEMENTS_A_SUM * len(loop.sums) > len(loop.uses):
            return None
        # Vectors of elements that are no neighbours are twice the code.
        if loop.strided and "few_points" in names:
            return None
        if not loop.assigned.isdisjoint(in_memory) or not loop.stored.isdisjoint(conditions):
            return None
    return (_FLOATS | _INTEGERS).get(dtype)


def vector_loops_of(definition: ast.FunctionDef) -> list[ast.For]:
    """The innermost loops that are not scalar ones."""
    return [
        node
        for node in every_statement(definition)
        if isinstance(node, ast.For) and is_innermost(node) and not is_scalar(node)
    ]


def is_innermost(node: ast.For) -> bool:
    return not any(isinstance(inner, ast.For) for inner in every_statement(node))


def is_scalar(node: ast.For) -> bool:
    """Whether LLVM is told to leave a loop as it is."""
    match node.body[0]:
        case ast.Assign(value=ast.Call(func=ast.Name(id="opaque"))):
            return True
        case ast.Expr(value=ast.Call(func=ast.Name(id="keep_scalar"))):
            return True
    return False


def hands_on(definition: ast.FunctionDef, in_memory: Collection[str]) -> bool:
    """Whether a kernel has loops, and each innermost one leaves variables for its next pass, as one
    that holds a state in them."""
    kinds = (ast.For, ast.While)
    loops = [node for node in every_statement(definition) if isinstance(node, kinds)]
    innermost = [
        loop
        for loop in loops
        if not any(isinstance(inner, kinds) for inner in every_statement(loop))
    ]
    return bool(innermost) and all(
        any(_leaves(x, in_memory) for x in loop.body) for loop in innermost
    )


def _leaves(statement: ast.stmt, in_memory: Collection[str]) -> bool:
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Name()):
            return name in in_memory
    return False


class _Uses:
    """What a statement names, and which elements: seen in one walk."""

    def __init__(self, statement: ast.stmt) -> None:
        self.names: set[str] = set()
        self.subscripts: list[ast.Subscript] = []
        value = getattr(statement, "value", None)
        if value is not None:
            self._look_at(value)
        self.names_in_value = frozenset(self.names)
        for part in _parts(statement):
            if part is not value:
                self._look_at(part)

    def _look_at(self, node: ast.AST) -> None:
        if isinstance(node, ast.Name):
            self.names.add(node.id)
            return
        if isinstance(node, ast.Subscript):
            self.subscripts.append(node)
        for part in _parts(node):
            self._look_at(part)


class PlainLoop:
    """An innermost loop, as its text says."""

    def __init__(self, node: ast.For) -> None:
        self.node = node
        self.uses = [_Uses(statement) for statement in node.body]
        self.variable = getattr(node.target, "id", "")
        self.varying = {self.variable}  # names of what differs from pass to pass
        self._known: dict[ast.AST, bool] = {}
        self.sums: list[str] = []  # names of what is added up over all passes
        self.assigned = {self.variable}  # other names
        self.stored: set[str] = set()  # names of buffers
        self.strided: set[object] = set()  # accesses to elements that are no neighbours
        for statement in node.body:
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    if summand_of(statement) is not None and name not in self.varying:
                        if name not in self.sums:
                            self.sums.append(name)
                        continue
                    self.assigned.add(name)
                    if self.varies(value):
                        self.varying.add(name)
                case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=name))]):
                    self.stored.add(name)
        for x in self.subscripts:
            place = self.place_of(x.slice)
            if place is not None and place.stride is not None:
                self.strided.add((key_of(x.value), key_of(x.slice)))

    @property
    def subscripts(self) -> Iterator[ast.Subscript]:
        return (x for uses in self.uses for x in uses.subscripts)

    def varies(self, node: ast.AST) -> bool:
        found = self._known.get(node)
        if found is None:
            if isinstance(node, ast.Name):
                found = node.id in self.varying
            else:
                found = any(map(self.varies, _parts(node)))
            self._known[node] = found
        return found

    def is_plain(self, moves_only: bool, are_apart: bool) -> bool:
        """`moves_only`: nothing is computed, as with integers; `are_apart`: no two passes store
        the same element, nor one what another reads, where that is stored at several places."""
        if not isinstance(self.node.iter, ast.Call) or len(self.node.iter.args) > 2:
            return False  # not every element in its turn
        assigned: set[str] = set()
        stored: dict[object, set[object]] = {}  # where, by the name of the buffer
        for statement in self.node.body:
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    summand = summand_of(statement) if name in self.sums else None
                    if summand is None and name in assigned:
                        return False
                    if not self.is_arithmetic(summand or value):
                        return False
                    if moves_only and not isinstance(value, ast.Subscript):
                        return False
                    assigned.add(name)
                case ast.Assign(
                    targets=[ast.Subscript(value=ast.Name(id=name), slice=where)], value=value
                ):
                    key, places = key_of(where), stored.setdefault(name, set())
                    if self.place_of(where) is None or (places and not are_apart):
                        return False
                    if key in places:
                        return False
                    places.add(key)
                    if not self.is_arithmetic(value):
                        return False
                    if moves_only and not isinstance(value, ast.Name | ast.Subscript):
                        return False
                case _:
                    return False
        if self.sums and any(map(self.reads_sum, self.node.body, self.uses)):
            return False
        # Elements that are no neighbours come one by one: of a copy vectors would be slower.
        if len(self.strided) > self.operations:
            return False
        if not stored and not self.sums:
            return False
        of_stored = [x for x in self.subscripts if key_of(x.value) in stored]
        return all(key_of(x.slice) in stored[key_of(x.value)] for x in of_stored)

    @property
    def operations(self) -> int:
        """Statements that compute something in each pass."""
        return sum(
            isinstance(statement, ast.Assign)
            and not isinstance(statement.value, ast.Name | ast.Subscript)
            and self.varies(statement.value)
            for statement in self.node.body
        )

    def writes_over(self) -> bool:
        """Whether it reads elements of a buffer that it stores to."""
        stored = {
            x.value.id
            for statement in self.node.body
            for x in getattr(statement, "targets", ())
            if isinstance(x, ast.Subscript) and isinstance(x.value, ast.Name)
        }
        return any(not stored.isdisjoint(uses.names_in_value) for uses in self.uses)

    @property
    def calls_functions(self) -> bool:
        """Of which single elements take long."""
        return any(not vector_functions.LONG.isdisjoint(uses.names_in_value) for uses in self.uses)

    def reads_sum(self, statement: ast.stmt, uses: _Uses) -> bool:
        assert isinstance(statement, ast.Assign)
        summand = summand_of(statement)
        names = uses.names if summand is None else _names(summand)
        return not set(self.sums).isdisjoint(names)

    def is_arithmetic(self, node: ast.expr) -> bool:
        """Whether a value can be had of vectors, or of scalars where it does not vary."""
        if not self.varies(node):
            return True
        match node:
            case ast.Name(id=name):
                return name != self.variable
            case ast.BinOp(
                left=left,
                op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div() | ast.BitAnd() | ast.BitOr(),
                right=right,
            ):
                return self.is_arithmetic(left) and self.is_arithmetic(right)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return self.is_arithmetic(operand)
            case ast.Compare(left=left, ops=[operation], comparators=[right]):
                return (
                    type(operation) in COMPARISONS
                    and self.is_arithmetic(left)
                    and self.is_arithmetic(right)
                )
            case ast.Call(func=ast.Name(id="select" | "reduce_add" | "bool_"), args=arguments):
                return all(map(self.is_arithmetic, arguments))
            case ast.Call(func=ast.Name(id="cast"), args=[argument, _]):
                return self.is_arithmetic(argument)
            case ast.Call(func=ast.Name(id=name), args=arguments) if name in _FUNCTIONS:
                return all(map(self.is_arithmetic, arguments))
            case ast.Subscript(value=ast.Name(), slice=where):
                return self.place_of(where) is not None
        return False

    def place_of(self, index: ast.expr) -> "LoopElements | None":
        """What an index says, if it is a sum with the loop's variable in it, once."""
        terms = _terms(index)
        own = [x for x in terms if self.varies(x)]
        if len(own) != 1:
            return None
        rest = [x for x in terms if x is not own[0]]
        match own[0]:
            case ast.Name(id=name) if name == self.variable:
                return LoopElements(None, rest)
            # Rows of a few numbers, which have a literal here, LLVM loads as vectors and shuffles.
            case ast.BinOp(
                left=ast.Name(id=name), op=ast.Mult(), right=ast.Name(id=word) as stride
            ) if name == self.variable and word not in self.varying:
                return LoopElements(stride, rest)
        return None


class LoopElements(NamedTuple):
    """Where in a buffer the elements of a plain loop are."""

    stride: ast.Name | None  # between those of neighbouring passes, if it is not 1
    rest: list[ast.expr]  # of the terms of the index


def _parts(node: ast.AST) -> list[ast.AST]:
    """What an expression consists of: `ast.iter_child_nodes`, in a third of its time."""
    found: list[ast.AST] = []
    for field in node._fields:
        value = getattr(node, field)
        if isinstance(value, list):
            found += value
        elif isinstance(value, ast.AST) and value._fields:
            found.append(value)
    return found


def _names(node: ast.AST) -> Iterator[str]:
    """What is read."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        yield node.id
    for part in _parts(node):
        yield from _names(part)


def key_of(node: ast.expr) -> object:
    """Equal for equal texts."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.BinOp(left=left, op=operation, right=right):
            return type(operation), key_of(left), key_of(right)
    return ast.dump(node)


def summand_of(statement: ast.Assign) -> ast.expr | None:
    """What a statement adds to the variable that it assigns."""
    match statement:
        case ast.Assign(
            targets=[ast.Name(id=name)],
            value=ast.Call(func=ast.Name(id="reduce_add"), args=[ast.Name(id=own), value]),
        ) if own == name:
            return value
    return None


def _terms(index: ast.expr) -> list[ast.expr]:
    match index:
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return [*_terms(left), *_terms(right)]
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            return [*_terms(left), ast.UnaryOp(ast.USub(), right)]
    return [index]
