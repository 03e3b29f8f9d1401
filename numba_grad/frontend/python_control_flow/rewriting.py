"""A function with calls of `decisions.Decisions` in place of its loops and branches.

It has the places of the original: tracebacks, and messages that read the line that calls, show the
user's own text.
"""

import ast
import builtins
import copy
import functools
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

from numba_grad.errors import TracingError, explain
from numba_grad.frontend.derived_functions import DerivedFunction
from numba_grad.frontend.inputs.code_names import is_of_library
from numba_grad.frontend.python_control_flow.decisions import Decisions
from numba_grad.frontend.python_control_flow.function_source import source_of
from numba_grad.frontend.python_control_flow.jumps import (
    PREFIX,
    VALUE,
    is_over_range,
    is_own_call,
    without_jumps,
)
from numba_grad.frontend.python_control_flow.liveness import (
    ReadLater,
    assigned_in,
    captured_in,
    changed_in,
    declared_in,
    nodes_of,
    read_in,
)
from numba_grad.frontend.python_control_flow.parts import innermost_site
from numba_grad.frontend.python_control_flow.sites import Site

# What decides for functions that may be Python's.
_OF_VALUES = {
    "max": "extreme",
    "min": "extreme",
    "any": "any_or_all",
    "all": "any_or_all",
    "sorted": "in_order",
    "bool": "number",
    "float": "number",
    "int": "number",
    "round": "number",
}
# Whose functions call the functions that they are given, as `functools.reduce(step, rows)`.
_OF_FUNCTIONS = {"builtins", "functools", "_functools", "itertools", "numpy", "numba_grad"}
# Python's of these, and the two of ours that read the text or the code of what they are given.
_OF_FUNCTIONS_IN_PYTHON = {"map", "filter", "sorted", "max", "min"}
_OF_TEXT = {"jit", "differentiable"}
# Of whose argument an element is left out if one that changes nothing is in its place.
_OF_ELEMENTS = {"sum", "any", "all"}
_COMPARISONS = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Is: "is",
    ast.IsNot: "is not",
    ast.In: "in",
    ast.NotIn: "not in",
}


def with_control_flow(f: Callable[..., Any]) -> Callable[..., Any]:
    """`f`, whose loops and branches may depend on values that are traced, as may those of the
    functions that it calls, but for those of installed packages other than its own.

    A method is one of the same object. Of what `ng.grad` and its relatives return, the function
    that they are of is rewritten.

    Raises
    ------
    TracingError
        If the source text of `f` is not available.
    """
    if isinstance(f, types.FunctionType):
        return _rewritten(f)
    if isinstance(f, types.MethodType):
        return types.MethodType(with_control_flow(f.__func__), f.__self__)
    if isinstance(f, functools.partial):
        return functools.partial(with_control_flow(f.func), *f.args, **f.keywords)
    if isinstance(f, DerivedFunction):
        make, (of, *rest) = f._made_by
        return make(with_control_flow(of), *rest)
    own = _method_called(f)
    if isinstance(own, types.FunctionType):
        return types.MethodType(_rewritten(own), f)
    raise TracingError(
        explain(
            "jit",
            "control_flow=True needs a function that is written in Python",
            got={"f": repr(f)},
            fix="jit of a function that calls it",
        )
    )


def _rewritten(function: types.FunctionType) -> types.FunctionType:
    """With the closure, globals and defaults that `function` has now."""
    code, decisions = _code_and_decisions(function)
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    cells[PREFIX] = types.CellType(decisions)
    result = types.FunctionType(
        code,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        tuple([cells[name] for name in code.co_freevars]),
    )
    result.__kwdefaults__ = function.__kwdefaults__
    result.__qualname__ = function.__qualname__
    return result


class _DecisionsOf(Decisions):
    """What a rewritten function calls."""

    def __init__(self, sites: Sequence[Site], function: types.FunctionType) -> None:
        super().__init__(sites)
        self._package = _package_of(function)

    def callee(self, f: Any) -> Any:
        """What is to be called in place of `f`: functions of the same package are rewritten, too,
        and those of the user's; other libraries, which nobody has asked to rewrite, are not."""
        own = f
        if type(f) is type and f.__new__ is object.__new__:
            return self._maker(f)
        if type(f) is functools.partial:
            called = self.callee(f.func)
            return f if called is f.func else functools.partial(called, *f.args, **f.keywords)
        if type(f) is types.MethodType:
            own = f.__func__
        elif type(f) is not types.FunctionType:
            own = _method_called(f)
        if type(own) is not types.FunctionType or PREFIX in own.__code__.co_freevars:
            return f
        if is_of_library(own.__code__.co_filename) and _package_of(own) != self._package:
            return f
        try:
            code, _ = _code_and_decisions(own)
        except TracingError:  # without source text
            return f
        # One that calls itself on both sides of a branch would never end. As it is written it
        # needs the condition, and says so.
        if innermost_site() and _is_running(code):
            return f
        return with_control_flow(f)

    def given(self, f: Any, x: Any) -> Any:
        """What a call of `f` gets in place of its argument `x`: a function that it is to call."""
        if not callable(x) or getattr(f, "__name__", "") in _OF_TEXT:
            return x
        module = getattr(f, "__module__", None) or ""
        return self.callee(x) if module.partition(".")[0] in _OF_FUNCTIONS else x

    def _maker(self, cls: type) -> Any:
        """What is to be called in place of a class: its `__init__` is a function, too."""
        written = cls.__init__
        called = self.callee(written)
        if called is written:
            return cls

        def make(*args: Any, **kwargs: Any) -> Any:
            made = object.__new__(cls)
            called(made, *args, **kwargs)
            return made

        return make


def _method_called(f: Any) -> Any:
    """The method that a call of the object `f` is one of."""
    return next((vars(x)["__call__"] for x in type(f).__mro__ if "__call__" in vars(x)), None)


def _package_of(function: types.FunctionType) -> str:
    return str(function.__globals__.get("__name__")).partition(".")[0]


def _is_running(code: types.CodeType) -> bool:
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code is code:
            return True
        frame = frame.f_back
    return False


class _ByFile:
    """A function as a key: its code, which alone may equal that of another file."""

    __slots__ = ("function", "key")

    def __init__(self, function: types.FunctionType) -> None:
        self.function = function
        self.key = (function.__code__, function.__code__.co_filename)

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ByFile) and self.key == other.key


def _code_and_decisions(function: types.FunctionType) -> tuple[types.CodeType, Decisions]:
    return _rewritten_code(_ByFile(function))


@functools.lru_cache(maxsize=1024)
def _rewritten_code(key: _ByFile) -> tuple[types.CodeType, Decisions]:
    function = key.function
    code = function.__code__
    source = source_of(function)
    tree, sites = source.tree, []
    hidden = _variables_of(code).union(function.__globals__)
    context = _Context(code.co_filename, source.class_name, sites, _OF_ELEMENTS.difference(hidden))
    if isinstance(tree, ast.Lambda):
        returned = ast.copy_location(ast.Return(tree.body), tree.body)
        made = ast.FunctionDef("", tree.args, [returned], [], lineno=tree.lineno)
        tree = ast.copy_location(made, tree)
    tree.args.defaults = []
    tree.args.kw_defaults = [None] * len(tree.args.kwonlyargs)
    tree.decorator_list, tree.returns = [], None
    name = tree.name = f"{PREFIX}_function"  # unlike that of any function inside
    for argument in ast.walk(tree.args):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    _Function(context, tree).rewrite()
    # Free in all that is rewritten, also in what has no loop: calling_lines.py knows it by this.
    tree.body.append(ast.copy_location(ast.Expr(ast.Name(PREFIX, ast.Load())), tree.body[-1]))
    inner: ast.stmt = tree
    if source.class_name is not None:  # for its private names, and for __class__
        inner = ast.ClassDef(source.class_name, [], [], [tree], [])
    outside = [x for x in code.co_freevars if x != "__class__"]
    block: list[ast.stmt] = [inner]
    if source.class_name not in (None, *outside):  # the class itself, if the function names it
        block.insert(0, ast.copy_location(ast.Global([source.class_name]), tree))
    arguments = [ast.arg(x) for x in (*outside, PREFIX)]
    factory = ast.FunctionDef(
        "factory", ast.arguments([], arguments, kwonlyargs=[], kw_defaults=[], defaults=[]), [], []
    )
    factory.body = block
    module = ast.Module([ast.copy_location(factory, tree)], [])
    for node in ast.walk(module):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and not hasattr(node, "type_params"):
            node.type_params = []  # type: ignore[attr-defined]  # since Python 3.12
    compiled = compile(
        ast.fix_missing_locations(module), code.co_filename, "exec", dont_inherit=True
    )
    found = _code_named(name, compiled)
    return found.replace(co_name=code.co_name, co_qualname=code.co_qualname), _DecisionsOf(
        sites, function
    )


def _variables_of(code: types.CodeType) -> set[str]:
    """Those of a function and of what is in it."""
    names = {*code.co_varnames, *code.co_cellvars, *code.co_freevars}
    return names.union(*[_variables_of(x) for x in code.co_consts if isinstance(x, types.CodeType)])


def _code_named(name: str, code: types.CodeType) -> types.CodeType:
    pending = [code]
    while True:
        current = pending.pop(0)
        if current.co_name == name:
            return current
        pending += [x for x in current.co_consts if isinstance(x, types.CodeType)]


class _Context:
    """What the functions of one tree share. `of_elements`: those of `_OF_ELEMENTS` that are
    Python's there, where NumPy's may have their names."""

    def __init__(
        self, file: str, class_name: str | None, sites: list[Site], of_elements: set[str]
    ) -> None:
        self.file = file
        self.sites = sites
        self.of_elements = of_elements
        self._class = (class_name or "").lstrip("_")

    def mangled(self, name: str) -> str:
        """A private name as Python has it in a class."""
        is_private = self._class and name.startswith("__") and not name.endswith("__")
        return f"_{self._class}{name}" if is_private else name

    def add(
        self,
        kind: str,
        node: ast.stmt | ast.expr,
        returns: tuple[bool, bool] = (False, False),
        **facts: Any,
    ) -> ast.Constant:
        """A new site; its number."""
        for name, value in facts.items():
            if not isinstance(value, str):
                mangled = [self.mangled(x) for x in value]
                facts[name] = frozenset(mangled) if isinstance(value, frozenset) else (*mangled,)
        self.sites.append(Site(kind, self.file, node.lineno, returns=returns, **facts))
        return ast.Constant(len(self.sites) - 1)


class _Function(ast.NodeTransformer):
    """Rewrites one function, and those in it."""

    def __init__(self, context: _Context, tree: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._context = context
        self._tree = tree
        # What yields or awaits cannot be moved to functions of its own.
        self._stays = isinstance(tree, ast.AsyncFunctionDef) or _has_yield(tree.body)
        if not self._stays:
            tree.body = without_jumps(tree.body)
        body = tree.body
        self._later = ReadLater(body)
        self._captured = captured_in(body)
        self._globals = declared_in(body, ast.Global)
        self._nonlocals = declared_in(body, ast.Nonlocal)
        arguments = tree.args
        named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        named += [x for x in (arguments.vararg, arguments.kwarg) if x is not None]
        self._arguments = {x.arg for x in named}
        self._first_argument = named[0].arg if named else ""
        self._own = (self._arguments | assigned_in(body)) - self._globals - self._nonlocals
        self._shared: set[str] = set()  # variables that parts assign
        self._parts = 0
        self._depth = 0  # of loops and branches around
        self._obstacle = ""

    def rewrite(self) -> None:
        self._tree.body = self._block(self._tree.body)
        new = sorted(self._shared - self._arguments)
        # An annotation without a value makes a variable of the function's own, and assigns nothing.
        declared = [
            ast.AnnAssign(ast.Name(name, ast.Store()), ast.Constant(None), None, 1) for name in new
        ]
        place = self._tree.body[0]
        for node in declared:
            ast.copy_location(node, place)
            ast.fix_missing_locations(node)
        self._tree.body[:0] = declared

    def _block(self, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        result: list[ast.stmt] = []
        for statement in statements:
            new = self.visit(statement)
            result += new if isinstance(new, list) else [new]
        return result

    # Statements

    def visit_If(self, node: ast.If) -> Any:
        if getattr(node, "is_python", False):
            return node
        if self._stays:
            return self._with_plain_test(node, "if")
        _asks_for_truth(node.test)
        if isinstance(node.body[0], ast.Raise) and not node.orelse:
            site = self._context.add("if", node)
            node.test = self._call(node.test, "raises", [site, self.visit(node.test)])
            node.body = self._block(node.body[:1])
            return node
        names = self._names(node, [*node.body, *node.orelse])
        returns = getattr(node, "returns", (False, False))
        site = self._context.add("if", node, returns=returns, **names)
        test = self.visit(node.test)
        parts, bodies = [], []
        for block in (node.body, node.orelse):
            if not block:
                bodies.append(ast.Constant(None))
                continue
            part = self._part(node, block)
            parts.append(part)
            bodies.append(ast.Name(part.name, ast.Load()))
        return [*parts, self._call_statement(node, "branch", [site, test, *bodies])]

    def visit_While(self, node: ast.While) -> Any:
        if self._stays:
            return self._with_plain_test(node, "while")
        names = self._names(node, node.body)
        site = self._context.add("while", node, **names)
        _asks_for_truth(node.test)
        test = self._delayed(node.test)
        part = self._part(node, node.body)
        arguments = [site, test, ast.Name(part.name, ast.Load())]
        return [part, self._call_statement(node, "while_loop", arguments)]

    def visit_For(self, node: ast.For) -> Any:
        if self._stays or not is_over_range(node):
            return self._kept_block(node)
        names = self._names(node, [*node.body, _assigned(node.target)])
        site = self._context.add("for", node, **names)
        assert isinstance(node.iter, ast.Call)
        items = self._call(
            node.iter,
            "range",
            [site, node.iter.func, *[self.visit(x) for x in node.iter.args]],
        )
        flags = getattr(node, "flags", [])
        test: ast.expr = ast.Constant(None)
        if flags:
            tests: list[ast.expr] = [ast.UnaryOp(ast.Not(), ast.Name(x, ast.Load())) for x in flags]
            both = tests[0] if len(tests) == 1 else ast.BoolOp(ast.And(), tests)
            for new in ast.walk(both):
                ast.copy_location(new, node)
            test = self._delayed(both)
        item = f"{PREFIX}_item"
        taken = ast.copy_location(
            ast.Assign([node.target], ast.Name(item, ast.Load())), node.target
        )
        part = self._part(node, [ast.fix_missing_locations(taken), *node.body])
        part.args.args = [ast.arg(item)]
        arguments = [copy.copy(site), items, ast.Name(part.name, ast.Load()), test]
        return [part, self._call_statement(node, "for_loop", arguments)]

    def _kept_block(self, node: Any) -> Any:
        """A compound statement that stays, with what is in it rewritten."""
        for name, value in ast.iter_fields(node):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                setattr(node, name, self._block(value))
            elif isinstance(value, list):
                setattr(node, name, [self.visit(x) for x in value])
            elif isinstance(value, ast.AST):
                setattr(node, name, self.visit(value))
        return node

    visit_With = visit_AsyncWith = visit_AsyncFor = visit_ExceptHandler = _kept_block

    def visit_Match(self, node: ast.Match) -> ast.stmt:
        site = self._context.add("match", node, obstacle="match")
        for case in node.cases:
            case.body = self._block(case.body)
            if case.guard is not None:
                case.guard = self._call(case.guard, "known", [site, self.visit(case.guard)])
        node.subject = self._call(node.subject, "known", [site, self.visit(node.subject)])
        return node

    def visit_Try(self, node: ast.Try | ast.TryStar) -> ast.stmt:
        around, self._obstacle = self._obstacle, "try"
        result = self._kept_block(node)
        self._obstacle = around
        return result

    visit_TryStar = visit_Try

    def visit_Raise(self, node: ast.Raise) -> Any:
        self.generic_visit(node)
        if self._obstacle:  # a handler there may be what comes next
            return node
        return [self._call_statement(node, "before_raise", []), node]

    def visit_Assert(self, node: ast.Assert) -> ast.stmt:
        _asks_for_truth(node.test)
        self.generic_visit(node)
        site = self._context.add("assert", node)
        node.test = self._call(node.test, "asserted", [site, node.test])
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        self.generic_visit(node)
        if not self._depth or not isinstance(node.target, ast.Name):
            return node
        # A variable that parts share has no annotation there.
        if node.value is None:
            return ast.copy_location(ast.Pass(), node)
        return ast.copy_location(ast.Assign([node.target], node.value), node)

    def visit_Global(self, node: ast.Global | ast.Nonlocal) -> ast.stmt:
        # Each part declares what it assigns.
        return ast.copy_location(ast.Pass(), node) if self._depth else node

    visit_Nonlocal = visit_Global

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.stmt:
        node.decorator_list = [self.visit(x) for x in node.decorator_list]
        node.args.defaults = [self.visit(x) for x in node.args.defaults]
        node.args.kw_defaults = [x and self.visit(x) for x in node.args.kw_defaults]
        _Function(self._context, node).rewrite()
        return node

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.stmt:
        return node

    # Parts

    def _names(self, node: ast.stmt, inside: Sequence[ast.AST]) -> dict[str, Any]:
        """What a site says of variables."""
        if isinstance(node, ast.While):
            inside = [node.test, *inside]
        assigned, changed = assigned_in(inside), changed_in([node])
        both = assigned | changed
        after = self._later.after.get(node, frozenset()) | self._captured
        next_step = self._later.next_step.get(node, frozenset()) | self._captured
        return {
            "assigned": sorted(assigned),
            "changed": sorted(changed),
            "foreign": sorted(both - self._own),
            "read_after": frozenset(both & after),
            "carried": frozenset(both & next_step),
            "filled": frozenset({VALUE}),
            "read": frozenset((read_in(*inside) & self._own) - both),
            "obstacle": self._obstacle,
        }

    def _part(self, node: ast.stmt, block: Sequence[ast.stmt]) -> ast.FunctionDef:
        """A function of some statements, which assigns the variables of this one."""
        assigned = assigned_in(block)
        self._depth += 1
        body = self._block(block)
        self._depth -= 1
        shared = sorted(assigned - self._globals)
        self._shared |= {*shared} & self._own
        declarations: list[ast.stmt] = []
        if shared:
            declarations.append(ast.Nonlocal(shared))
        if assigned & self._globals:
            declarations.append(ast.Global(sorted(assigned & self._globals)))
        self._parts += 1
        part = ast.FunctionDef(
            f"{PREFIX}_part_{self._parts}",
            ast.arguments([], [], kwonlyargs=[], kw_defaults=[], defaults=[]),
            [*declarations, *body],
            [],
        )
        for declaration in declarations:
            ast.copy_location(declaration, block[0])
        return ast.copy_location(part, node)

    def _delayed(self, expression: ast.expr) -> ast.Lambda:
        nothing = ast.arguments([], [], kwonlyargs=[], kw_defaults=[], defaults=[])
        return ast.copy_location(ast.Lambda(nothing, self.visit(expression)), expression)

    def _call(
        self,
        place: ast.expr,
        name: str,
        arguments: Sequence[ast.expr],
        keywords: Sequence[ast.keyword] = (),
    ) -> ast.Call:
        called = ast.Attribute(ast.Name(PREFIX, ast.Load()), name, ast.Load())
        result = ast.copy_location(ast.Call(called, [*arguments], [*keywords]), place)
        for node in (called, called.value, *arguments):
            if not hasattr(node, "lineno"):
                ast.copy_location(node, place)
        return result

    def _call_statement(self, node: ast.stmt, name: str, arguments: Sequence[ast.expr]) -> ast.stmt:
        place = ast.Constant(None)
        first = getattr(node, "test", None) or getattr(node, "iter", None) or node
        ast.copy_location(place, first)
        return ast.copy_location(ast.Expr(self._call(place, name, arguments)), first)

    def _with_plain_test(self, node: ast.If | ast.While, kind: str) -> ast.stmt:
        self._kept_block(node)
        site = self._context.add(kind, node, obstacle="yield or await")
        node.test = self._call(node.test, "known", [site, node.test])
        return node

    # Expressions

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        if _cannot_move(node.body, node.orelse):
            self.generic_visit(node)
            site = self._context.add("if ... else", node, obstacle=":=, yield or await")
            node.test = self._call(node.test, "known", [site, node.test])
            return node
        site = self._context.add("if ... else", node)
        _asks_for_truth(node.test)
        parts = [self._delayed(node.body), self._delayed(node.orelse)]
        return self._call(node, "conditional", [site, self.visit(node.test), *parts])

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        kind = "and" if isinstance(node.op, ast.And) else "or"
        if _cannot_move(*node.values[1:]):
            self.generic_visit(node)
            site = self._context.add(kind, node, obstacle=":=, yield or await")
            node.values[:-1] = [self._call(x, "known", [site, x]) for x in node.values[:-1]]
            return node
        site = self._context.add(kind, node)
        if getattr(node, "asks_for_truth", False):
            node.values = [self._truth(site, x) for x in node.values]
        first, *rest = node.values
        parts = [self._delayed(x) for x in rest]
        return self._call(node, f"{kind}_", [site, self.visit(first), *parts])

    def _truth(self, site: ast.expr, x: ast.expr) -> ast.expr:
        """An operand of what is asked for its truth alone: `x > 0 and n % 2` need not be of one
        dtype there."""
        _asks_for_truth(x)
        if isinstance(x, ast.BoolOp | ast.Compare):
            return x
        return self._call(x, "truth", [copy.copy(site), self.visit(x)])

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        if isinstance(node.op, ast.Not):
            _asks_for_truth(node.operand)
        self.generic_visit(node)
        if not isinstance(node.op, ast.Not):
            return node
        return self._call(node, "not_", [self._context.add("not", node), node.operand])

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        is_plain = len(node.ops) == 1 and not isinstance(node.ops[0], ast.In | ast.NotIn)
        if is_plain or _cannot_move(node.left, *node.comparators):
            self.generic_visit(node)
            return node
        site = self._context.add("in" if len(node.ops) == 1 else "and", node)
        symbols = ast.Constant(",".join([_COMPARISONS[type(op)] for op in node.ops]))
        operands = [self._delayed(x) for x in (node.left, *node.comparators)]
        return self._call(node, "comparisons", [site, symbols, *operands])

    def visit_Call(self, node: ast.Call) -> ast.expr:
        if is_own_call(node):
            return node
        if isinstance(node.func, ast.Name) and node.func.id in self._context.of_elements:
            _with_conditions_in_elements(node, node.func.id)
        if _may_call_arguments(node.func):
            node.args = [self._given(node.func, x) for x in node.args]
            for keyword in node.keywords:
                keyword.value = self._given(node.func, keyword.value)
        self.generic_visit(node)
        is_super = isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args
        if is_super and self._depth and self._first_argument:  # which a part lacks
            own = (ast.Name(x, ast.Load()) for x in ("__class__", self._first_argument))
            node.args = [ast.copy_location(x, node) for x in own]
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name in _OF_VALUES:
            site = self._context.add(name, node)
            arguments = [site, node.func, *node.args]
            return self._call(node, _OF_VALUES[name], arguments, node.keywords)
        if not hasattr(builtins, name):
            node.func = self._call(node.func, "callee", [node.func])
        return node

    def _given(self, f: ast.expr, argument: ast.expr) -> ast.expr:
        if not isinstance(argument, ast.Name | ast.Attribute):
            return argument  # a lambda is rewritten where it stands
        return self._call(argument, "given", [copy.deepcopy(f), argument])


def _may_call_arguments(f: ast.expr) -> bool:
    """Whether `f` is a name, which may be read twice, and not of a function of Python's that calls
    nothing."""
    while isinstance(f, ast.Attribute):
        f = f.value
    is_name = isinstance(f, ast.Name)
    return is_name and (f.id in _OF_FUNCTIONS_IN_PYTHON or not hasattr(builtins, f.id))


def _with_conditions_in_elements(call: ast.Call, name: str) -> None:
    """`sum(x for x in xs if x > 0)` is `sum(x if x > 0 else 0 for x in xs)`, whose condition may be
    undecided; `any` and `all` take in as well what decides nothing."""
    if len(call.args) != 1 or call.keywords:
        return
    (items,) = call.args
    if not isinstance(items, ast.GeneratorExp | ast.ListComp):
        return
    innermost = items.generators[-1]
    if not innermost.ifs or _cannot_move(items.elt, *innermost.ifs):
        return
    first = innermost.ifs[0]
    test = first if len(innermost.ifs) == 1 else ast.BoolOp(ast.And(), innermost.ifs)
    otherwise = ast.Constant(0 if name == "sum" else name == "all")
    items.elt = ast.IfExp(ast.copy_location(test, first), items.elt, otherwise)
    ast.fix_missing_locations(ast.copy_location(items.elt, first))
    innermost.ifs = []


def _asks_for_truth(test: ast.expr) -> None:
    """Note on `x and y` that it is a test."""
    if isinstance(test, ast.BoolOp):
        test.asks_for_truth = True  # type: ignore[attr-defined]


def _assigned(target: ast.expr) -> ast.stmt:
    return ast.Assign([target], ast.Constant(None))


def _has_yield(body: Sequence[ast.stmt]) -> bool:
    return any(isinstance(x, (ast.Yield, ast.YieldFrom, ast.Await)) for x in nodes_of(body))


def _cannot_move(*expressions: ast.expr) -> bool:
    """Whether one of these assigns, yields or awaits, and so belongs to the function itself."""
    kinds = (ast.NamedExpr, ast.Yield, ast.YieldFrom, ast.Await)
    return any(isinstance(x, kinds) for x in nodes_of(expressions))
