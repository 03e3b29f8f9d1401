"""Kernel source to LLVM instructions, in one walk over its syntax tree.

The kernel language is a small part of Python: scalars and pointers in local variables, loops over
`range`, `while`, `if`, calls of names, and of other functions of the source, which are written out
where they are called. Every value's type is known where it is made. So there is no
need for what takes most of Numba's time with such a function (translating byte code, static single
assignment, inference over the whole): what an operator or a function means for given types, and its
instructions, are asked of Numba's contexts, once a process, and the walk puts them together.

Types, names and their meaning are exactly Numba's, but for these:

- a variable has one type: that of its first assignment;
- `and` and `or` give booleans;
- a loop over `range` leaves its variable alone when it has no passes, and its step goes up unless
  it is a literal.
"""

# pyright: reportAttributeAccessIssue=false, reportPrivateImportUsage=false
# pyright: reportOptionalMemberAccess=false, reportCallIssue=false, reportGeneralTypeIssues=false

import ast
import builtins
import functools
import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from llvmlite import ir
from numba.core import types

from numba_grad.compiler.code_generation import has_fma
from numba_grad.compiler.kernel_language.instructions import QuickBuilder
from numba_grad.compiler.kernel_language.meanings import Meanings
from numba_grad.compiler.kernel_language.plain_loops import PlainLoop
from numba_grad.compiler.kernel_language.scalars import (
    INT64,
    cast_value,
    complex_parts,
    floor_division,
    llvm_type,
    make_complex,
)
from numba_grad.compiler.kernel_language.sources import Source, VariableUses, read
from numba_grad.compiler.kernel_language.statements import every_statement
from numba_grad.compiler.kernel_language.vector_loops import VectorLoop
from numba_grad.errors import KernelError

_OPERATORS: dict[type, Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Invert: operator.invert,
    ast.Not: operator.not_,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


@dataclass(slots=True)
class Typed:
    """A value: its Numba type, and its instruction; None for what has no value, such as a name of
    a dtype."""

    type: Any
    value: Any


@dataclass(slots=True)
class JumpTargets:
    """Where `continue` and `break` go."""

    next_pass: Any
    after: Any


class InvariantProducts:
    """Products of integers that are the same in all passes of a loop, as of an outer index and a
    stride: computed before it, once.

    By scope, which is the inside of a branch or of a loop: a product may be used in the scope that
    it was computed in, and inside of that.
    """

    def __init__(self) -> None:
        self.scopes: list[dict[tuple[Any, Any], Any]] = [{}]
        # Around what is lowered now: the block before each loop, and what the loop assigns.
        self.loops: list[tuple[Any, set[str]]] = []

    @contextmanager
    def branch(self) -> Iterator[None]:
        self.scopes.append({})
        yield
        self.scopes.pop()

    @contextmanager
    def loop(self, before: Any, node: ast.For) -> Iterator[None]:
        self.loops.append((before, names_assigned(node)))
        with self.branch():
            yield
        self.loops.pop()

    def before_loop(self, names: Sequence[str], factors: tuple[Any, Any]) -> Any:
        """The product of these variables, if it is the same in all passes of the innermost loop."""
        if not self.loops or not self.loops[-1][1].isdisjoint(names):
            return None
        for scope in self.scopes[:-1]:
            if factors in scope:
                return scope[factors]
        builder = QuickBuilder(self.loops[-1][0])
        builder.position_before(builder.block.terminator)
        product = self.scopes[-2][factors] = builder.mul(*factors, flags=("nsw",))
        return product


def names_assigned(node: ast.stmt) -> set[str]:
    """The variables that a statement may assign."""
    targets = [
        target
        for inner in (node, *every_statement(node))
        for target in (*getattr(inner, "targets", ()), getattr(inner, "target", None))
    ]
    return {target.id for target in targets if isinstance(target, ast.Name)}


@dataclass(slots=True)
class WrittenOut:
    """Where `return` of a function goes that is written out, and what it gives there."""

    after: Any
    results: list[tuple[Typed, Any]]  # values, and the blocks that they come from


# The methods that lower them.
_STATEMENTS = {
    ast.Expr: "expression_statement",
    ast.Assign: "assignment",
    ast.AugAssign: "augmented",
    ast.If: "conditional",
    ast.For: "for_loop",
    ast.While: "while_loop",
    ast.Break: "leave",
    ast.Continue: "go_on",
    ast.Return: "give_back",
}
_EXPRESSIONS = {
    ast.Name: "load",
    ast.Constant: "constant",
    ast.BinOp: "binary",
    ast.UnaryOp: "unary",
    ast.Compare: "comparison",
    ast.BoolOp: "logical",
    ast.IfExp: "choice",
    ast.Attribute: "attribute",
    ast.Subscript: "subscript",
    ast.Call: "function_call",
}


class FunctionLowering:
    """One function of the source. Its parameters are `assign`ed before it is lowered."""

    statement_methods = _STATEMENTS
    expression_methods = _EXPRESSIONS

    def __init__(
        self,
        source: Source,
        names: dict[str, Any],
        meanings: Meanings,
        function: ir.Function,
        return_type: Any,
    ) -> None:
        self.text = source.text
        self.names = names | source.numbers
        self.meanings = meanings
        self.definition = source.definition
        self.function = function
        self.return_type = return_type
        entry = function.append_basic_block("entry")
        body = function.append_basic_block("body")
        self.entry_builder = QuickBuilder(entry)
        self.entry_builder.branch(body)
        self.builder = QuickBuilder(body)
        self.in_memory = source.uses.in_memory()
        self.assigned_again = source.uses.assigned_again()
        self.first_types: dict[str, Any] = {}  # of these
        self.variables: dict[str, Typed] = {}
        # Loops that are written as vector code here, and what is in all buffers then.
        self.vector_loops: dict[ast.For, PlainLoop] = {}
        self.vector_element: types.Float | types.Integer | None = None
        self.loops: list[JumpTargets] = []
        self.products = InvariantProducts()
        self.parts = source.parts
        self.written_out: WrittenOut | None = None

    def lower(self) -> None:
        self.statements(self.definition.body)
        if not self.builder.block.is_terminated:
            if self.return_type == types.none:
                self.builder.ret_void()
            else:
                self.builder.unreachable()

    def error(self, node: ast.AST, message: str) -> KernelError:
        line = getattr(node, "lineno", 0)
        return KernelError(
            f"build: {message}, in line {line} of this kernel: {ast.unparse(node)}\n\n{self.text}"
        )

    # Statements

    def statements(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            if self.builder.block.is_terminated:
                return
            method = self.statement_methods.get(type(statement))
            if method is None:
                raise self.error(statement, "the kernel language has no such statement")
            getattr(self, method)(statement)

    def expression_statement(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):  # else a docstring
            self.expression(node.value)

    def assignment(self, node: ast.Assign) -> None:
        [target] = node.targets
        self.store(target, self.expression(node.value))

    def augmented(self, node: ast.AugAssign) -> None:
        target = node.target
        if isinstance(target, ast.Subscript):
            base, index = self.expression(target.value), self.expression(target.slice)
            value = self.call(node, operator.getitem, base, index)
            result = self.call(node, self.operator(node), value, self.expression(node.value))
            self.call(node, operator.setitem, base, index, result)
            return
        assert isinstance(target, ast.Name)
        old = self.load(target)
        if isinstance(node.op, ast.Add | ast.Sub) and _is_product(node.value):
            value = self.sum_of_product(node, node.value, old)
        else:
            value = self.call(node, self.operator(node), old, self.expression(node.value))
        self.assign(target.id, value)

    def store(self, target: ast.expr, value: Typed) -> None:
        if isinstance(target, ast.Name):
            self.assign(target.id, value, target)
        elif isinstance(target, ast.Subscript):
            base, index = self.expression(target.value), self.expression(target.slice)
            self.call(target, operator.setitem, base, index, value)
        else:
            raise self.error(target, "values go to variables and to elements of buffers")

    def assign(self, name: str, given: Typed, node: ast.AST | None = None) -> None:
        kind = types.unliteral(given.type)
        if name not in self.in_memory:
            self.variables[name] = self.of_first_type(name, given, node)
            return
        variable = self.variables.get(name)
        if variable is None:
            place = self.entry_builder_before_end().alloca(llvm_type(kind), name=name)
            variable = self.variables[name] = Typed(kind, place)
        self.builder.store(self.converted(name, given, variable.type, node), variable.value)

    def of_first_type(self, name: str, given: Typed, node: ast.AST | None) -> Typed:
        """What a variable without memory is from here on."""
        if name not in self.assigned_again or given.value is None:
            return given
        kind = self.first_types.setdefault(name, types.unliteral(given.type))
        return Typed(kind, self.converted(name, given, kind, node))

    def converted(self, name: str, given: Typed, wanted: Any, node: ast.AST | None) -> Any:
        kind = types.unliteral(given.type)
        if kind == wanted:
            return given.value
        if not (is_number(kind) and is_number(wanted)):
            raise self.error(
                node or self.definition, f"{name} is {wanted}, and cannot become {kind}"
            )
        return cast_value(self.builder, given.value, kind, wanted)

    def add_to(self, name: str, *parts: Any) -> None:
        """Add a floating number to a variable of its type, or the parts of a complex one."""
        old, builder = self.load(ast.Name(id=name, ctx=ast.Load())), self.builder
        if len(parts) == 1:
            self.assign(name, Typed(old.type, builder.fadd(old.value, *parts)))
            return
        sums = map(builder.fadd, complex_parts(builder, old.value), parts)
        self.assign(name, Typed(old.type, make_complex(builder, *sums)))

    def entry_builder_before_end(self) -> ir.IRBuilder:
        self.entry_builder.position_before(self.entry_builder.block.terminator)
        return self.entry_builder

    def conditional(self, node: ast.If) -> None:
        test = self.truth(node.test)
        then, after = self.block("then"), self.block("after")
        otherwise = self.block("otherwise") if node.orelse else after
        self.builder.cbranch(test, then, otherwise)
        self.branch_of(then, node.body, after)
        if node.orelse:
            self.branch_of(otherwise, node.orelse, after)
        self.builder.position_at_end(after)

    def branch_of(self, block: ir.Block, statements: list[ast.stmt], after: ir.Block) -> None:
        self.builder.position_at_end(block)
        with self.products.branch():
            self.statements(statements)
        if not self.builder.block.is_terminated:
            self.builder.branch(after)

    def while_loop(self, node: ast.While) -> None:
        test, body, after = self.block("test"), self.block("pass"), self.block("after")
        self.builder.branch(test)
        self.builder.position_at_end(test)
        if isinstance(node.test, ast.Constant) and node.test.value is True:
            self.builder.branch(body)
        else:
            self.builder.cbranch(self.truth(node.test), body, after)
        with self.products.branch():
            self.loop_body(node, body, JumpTargets(test, after))
        self.builder.position_at_end(after)

    def loop_body(self, node: ast.For | ast.While, body: ir.Block, loop: JumpTargets) -> None:
        self.builder.position_at_end(body)
        self.loops.append(loop)
        self.statements(node.body)
        self.loops.pop()
        if not self.builder.block.is_terminated:
            self.builder.branch(loop.next_pass)

    def for_loop(self, node: ast.For) -> None:
        """A loop over `range`, as LLVM likes them: tested before the first pass and after each."""
        start, stop, step = self.range_of(node)
        loop = self.vector_loops.get(node)
        if loop is not None and self.vector_element is not None:
            VectorLoop(self, loop, self.vector_element, start, stop).write()
            return
        self.scalar_loop(node, start, stop, step)

    def scalar_loop(self, node: ast.For, start: Any, stop: Any, step: Any) -> None:
        builder = self.builder
        body, next_pass, after = self.block("pass"), self.block("next"), self.block("after")
        goes_down = isinstance(step, ir.Constant) and step.constant < 0
        comparison = ">" if goes_down else "<"
        before = builder.block
        builder.cbranch(builder.icmp_signed(comparison, start, stop), body, after)
        builder.position_at_end(body)
        index = builder.phi(INT64)
        index.add_incoming(start, before)
        assert isinstance(node.target, ast.Name)
        self.assign(node.target.id, Typed(types.int64, index))
        with self.products.loop(before, node):
            self.loop_body(node, body, JumpTargets(next_pass, after))
        builder.position_at_end(next_pass)
        following = builder.add(index, step, flags=("nsw",))
        index.add_incoming(following, next_pass)
        builder.cbranch(builder.icmp_signed(comparison, following, stop), body, after)
        builder.position_at_end(after)

    def range_of(self, node: ast.For) -> tuple[Any, Any, Any]:
        """Start, stop and step; a step that is not a literal goes up."""
        call = node.iter
        if not (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Name)
            and call.func.id == "range"
            and isinstance(node.target, ast.Name)
            and not node.orelse
        ):
            raise self.error(node, "loops are over range(...), with one variable and no else")
        bounds = [self.integer(argument) for argument in call.args]
        if len(bounds) == 1:
            bounds.insert(0, INT64(0))
        if len(bounds) == 2:
            bounds.append(INT64(1))
        return bounds[0], bounds[1], bounds[2]

    def integer(self, node: ast.expr) -> Any:
        given = self.expression(node)
        return cast_value(self.builder, given.value, given.type, types.int64)

    def leave(self, node: ast.Break) -> None:
        self.builder.branch(self.loops[-1].after)

    def go_on(self, node: ast.Continue) -> None:
        self.builder.branch(self.loops[-1].next_pass)

    def give_back(self, node: ast.Return) -> None:
        part = self.written_out
        if part is not None:
            if node.value is not None:
                part.results.append((self.expression(node.value), self.builder.block))
            self.builder.branch(part.after)
            return
        if node.value is None:
            self.builder.ret_void()
            return
        given = self.expression(node.value)
        value = cast_value(self.builder, given.value, given.type, self.return_type)
        self.builder.ret(value)

    def block(self, name: str) -> ir.Block:
        return self.function.append_basic_block(name)

    # Expressions

    def expression(self, node: ast.expr) -> Typed:
        method = self.expression_methods.get(type(node))
        if method is None:
            raise self.error(node, "the kernel language has no such expression")
        return getattr(self, method)(node)

    def load(self, node: ast.Name) -> Typed:
        name = node.id
        variable = self.variables.get(name)
        if variable is not None:
            if name in self.in_memory:
                return Typed(variable.type, self.builder.load(variable.value))
            return variable
        value = self.names.get(name, _MISSING)
        if value is _MISSING:
            value = getattr(builtins, name, _MISSING)
            if value is _MISSING:
                raise self.error(node, f"{name} is not defined")
        if isinstance(value, int | float):
            return self.number(value)
        return Typed(self.meanings.type_of_global(value), None)

    def constant(self, node: ast.Constant) -> Typed:
        if not isinstance(node.value, bool | int | float):
            raise self.error(node, "there are no such values in the kernel language")
        return self.number(node.value)

    def number(self, value: Any) -> Typed:
        if isinstance(value, int):
            return _whole_number(value)
        return Typed(types.float64, ir.Constant(ir.DoubleType(), float(value)))

    def binary(self, node: ast.BinOp) -> Typed:
        if isinstance(node.op, ast.Add | ast.Sub):
            for product, other in ((node.left, node.right), (node.right, node.left)):
                if _is_product(product):
                    return self.sum_of_product(node, product, self.expression(other))
        left, right = self.expression(node.left), self.expression(node.right)
        if isinstance(node.op, ast.Mult):
            product = self.product_before_loop(node, left, right)
            if product is not None:
                return product
        if isinstance(node.op, ast.FloorDiv | ast.Mod) and all(
            types.unliteral(given.type) == types.int64 for given in (left, right)
        ):
            both = floor_division(self.builder, left.value, right.value)
            return Typed(types.int64, both[isinstance(node.op, ast.Mod)])
        return self.call(node, self.operator(node), left, right)

    def product_before_loop(self, node: ast.BinOp, left: Typed, right: Typed) -> Typed | None:
        factors = (node.left, node.right)
        names = [factor.id for factor in factors if isinstance(factor, ast.Name)]
        if len(names) < 2 or any(given.type != types.int64 for given in (left, right)):
            return None
        if not self.in_memory.isdisjoint(names):
            return None
        found = self.products.before_loop(names, (left.value, right.value))
        return None if found is None else Typed(types.int64, found)

    def sum_of_product(
        self, node: ast.BinOp | ast.AugAssign, product: ast.expr, other: Typed
    ) -> Typed:
        """`x * y + z` in one expression, of floating numbers of one type: rounded once. Where a
        product has a name, it is rounded by itself. LLVM decides nothing of this, as it would do so
        by what else the kernel has, and the same formula would have other bits elsewhere."""
        assert isinstance(product, ast.BinOp)
        x, y = self.expression(product.left), self.expression(product.right)
        is_first = isinstance(node, ast.BinOp) and product is node.left
        kinds = {types.unliteral(value.type) for value in (x, y, other)}
        if len(kinds) > 1 or not isinstance(next(iter(kinds)), types.Float) or not has_fma():
            value = self.call(product, operator.mul, x, y)
            ordered = (value, other) if is_first else (other, value)
            return self.call(node, self.operator(node), *ordered)
        builder = self.builder
        first, last = x.value, other.value
        if isinstance(node.op, ast.Sub) and is_first:
            last = builder.fneg(last)
        elif isinstance(node.op, ast.Sub):
            first = builder.fneg(first)
        return Typed(types.unliteral(x.type), builder.fma(first, y.value, last))

    def operator(self, node: ast.BinOp | ast.UnaryOp | ast.AugAssign) -> Callable[..., Any]:
        found = _OPERATORS.get(type(node.op))
        if found is None:
            raise self.error(node, "the kernel language has no such operator; power(x, y) for **")
        return found

    def unary(self, node: ast.UnaryOp) -> Typed:
        operand = node.operand
        if isinstance(node.op, ast.USub) and isinstance(operand, ast.Constant):
            return self.number(-operand.value)  # type: ignore[operator]
        return self.call(node, self.operator(node), self.expression(operand))

    def comparison(self, node: ast.Compare) -> Typed:
        left = self.expression(node.left)
        result: Typed | None = None
        for operation, right_node in zip(node.ops, node.comparators, strict=True):
            right = self.expression(right_node)
            test = self.call(node, _OPERATORS[type(operation)], left, right)
            if result is None:
                result = test
            else:
                result = Typed(types.boolean, self.builder.and_(result.value, test.value))
            left = right
        assert result is not None
        return result

    def logical(self, node: ast.BoolOp) -> Typed:
        """`and` and `or`: what comes later is evaluated only if it matters."""
        builder = self.builder
        after = self.block("decided")
        decided = ir.Constant(ir.IntType(1), int(isinstance(node.op, ast.Or)))
        incoming = []
        for value in node.values[:-1]:
            test = self.truth(value)
            following = self.block("undecided")
            incoming.append((decided, builder.block))
            targets = (after, following) if isinstance(node.op, ast.Or) else (following, after)
            builder.cbranch(test, *targets)
            builder.position_at_end(following)
        last = self.truth(node.values[-1])
        incoming.append((last, builder.block))
        builder.branch(after)
        builder.position_at_end(after)
        result = builder.phi(ir.IntType(1))
        for value, block in incoming:
            result.add_incoming(value, block)
        return Typed(types.boolean, result)

    def truth(self, node: ast.expr) -> Any:
        given = self.expression(node)
        return cast_value(self.builder, given.value, given.type, types.boolean)

    def choice(self, node: ast.IfExp) -> Typed:
        builder = self.builder
        test = self.truth(node.test)
        blocks = self.block("chosen"), self.block("other")
        after = self.block("after")
        builder.cbranch(test, *blocks)
        results = []
        for block, branch in zip(blocks, (node.body, node.orelse), strict=True):
            builder.position_at_end(block)
            results.append((self.expression(branch), builder.block))
            builder.branch(after)
        (first, _), (second, _) = results
        kind = types.unliteral(first.type)
        if types.unliteral(second.type) != kind:
            raise self.error(node, f"the branches are {kind} and {second.type}")
        builder.position_at_end(after)
        phi = builder.phi(first.value.type)
        for typed, block in results:
            phi.add_incoming(typed.value, block)
        return Typed(kind, phi)

    def attribute(self, node: ast.Attribute) -> Typed:
        if isinstance(node.value, ast.Name):
            members = self.names.get(node.value.id)
            if isinstance(members, dict) and node.attr in members:
                return self.number(members[node.attr])
        given = self.expression(node.value)
        is_real = isinstance(given.type, types.Float)
        if node.attr not in ("real", "imag") or not (
            is_real or isinstance(given.type, types.Complex)
        ):
            raise self.error(node, f"{given.type} has no attribute {node.attr}")
        if is_real:
            zero = Typed(given.type, ir.Constant(given.value.type, 0.0))
            return given if node.attr == "real" else zero
        part = complex_parts(self.builder, given.value)[node.attr == "imag"]
        return Typed(given.type.underlying_float, part)

    def subscript(self, node: ast.Subscript) -> Typed:
        base, index = self.expression(node.value), self.expression(node.slice)
        return self.call(node, operator.getitem, base, index)

    def function_call(self, node: ast.Call) -> Typed:
        arguments = [self.expression(argument) for argument in node.args]
        if not isinstance(node.func, ast.Name) or node.keywords:
            raise self.error(node, "functions are called by their names, without keywords")
        part = self.parts.get(node.func.id)
        if part is not None:
            return self.part_written_out(node, part, arguments)
        if node.func.id == "reduce_add" and _is_product(node.args[1]):
            # What is summed in an order of LLVM's choice may as well be rounded when it likes.
            product = arguments[1].value
            if getattr(product, "opname", "") == "fmul":
                product.flags = [*product.flags, "contract"]
        return self.call(node, self.load(node.func).type, *arguments)

    def part_written_out(
        self, node: ast.Call, part: ast.FunctionDef, arguments: list[Typed]
    ) -> Typed:
        """The result of another function of the source, whose variables are its own."""
        outside = (self.variables, self.in_memory, self.loops, self.written_out)
        outside_types = (self.assigned_again, self.first_types)
        here = WrittenOut(self.block(f"after_{part.name}"), [])
        uses = VariableUses(part)
        self.variables, self.in_memory = {}, uses.in_memory()
        self.assigned_again, self.first_types = uses.assigned_again(), {}
        self.loops, self.written_out = [], here
        for parameter, argument in zip(part.args.args, arguments, strict=True):
            self.assign(parameter.arg, argument, node)
        self.statements(part.body)
        if not self.builder.block.is_terminated:
            if here.results:
                self.builder.unreachable()
            else:
                self.builder.branch(here.after)
        self.variables, self.in_memory, self.loops, self.written_out = outside
        self.assigned_again, self.first_types = outside_types
        self.builder.position_at_end(here.after)
        if not here.results:
            return Typed(types.none, None)
        kinds = {types.unliteral(typed.type) for typed, _ in here.results}
        if len(kinds) > 1:
            raise self.error(node, f"{part.name} returns {' and '.join(map(str, kinds))}")
        phi = self.builder.phi(here.results[0][0].value.type)
        for typed, block in here.results:
            phi.add_incoming(typed.value, block)
        return Typed(kinds.pop(), phi)

    def call(self, node: ast.AST, function: Any, *arguments: Typed) -> Typed:
        found = self.meanings.of_call(function, tuple([argument.type for argument in arguments]))
        if found is None:
            called = getattr(function, "typing_key", function)
            name = getattr(called, "__name__", called)
            given = ", ".join(str(types.unliteral(argument.type)) for argument in arguments)
            raise self.error(node, f"there is no {name}({given})")
        builder = self.builder
        values = []
        for kind, argument in zip(found.argument_types, arguments, strict=True):
            value = argument.value
            if value is not None and kind is not argument.type:
                value = self.cast(value, argument.type, kind)
            values.append(value)
        return Typed(found.signature.return_type, found.implementation(builder, values))

    def cast(self, value: Any, source: Any, target: Any) -> Any:
        if types.unliteral(source) == types.unliteral(target):
            return value
        return self.meanings.target_context.cast(
            self.builder, value, types.unliteral(source), types.unliteral(target)
        )


_MISSING = object()


@functools.lru_cache(1 << 12, typed=True)
def _whole_number(value: int) -> Typed:
    """Kernels have few, many times, and Numba makes a type for each."""
    if isinstance(value, bool):
        return Typed(types.boolean, ir.Constant(ir.IntType(1), int(value)))
    # A large one is unsigned.
    return Typed(types.literal(value), ir.Constant(INT64, value))


def is_number(kind: Any) -> bool:
    return isinstance(kind, types.Boolean | types.Number)


def _is_product(node: ast.expr) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult)


def lower_function(
    text: str,
    entry_name: str,
    names: dict[str, Any],
    meanings: Meanings,
    module: ir.Module,
    symbol: str,
    return_type: Any,
    argument_types: tuple[Any, ...],
) -> None:
    """Add the function `entry_name` of a source to the module, as a C function called `symbol`."""
    source = read(text, entry_name)
    result = ir.VoidType() if return_type == types.none else llvm_type(return_type)
    kinds = [llvm_type(kind) for kind in argument_types]
    function = ir.Function(module, ir.FunctionType(result, kinds), symbol)
    lowering = FunctionLowering(source, names, meanings, function, return_type)
    is_marked = module.numba_grad_heeds_marks and "in_vectors" in source.uses.early
    if module.numba_grad_writes_vectors or is_marked:
        lowering.vector_loops = source.vector_loops
        lowering.vector_element = source.plain_element
    parameters = [argument.arg for argument in source.definition.args.args]
    for name, kind, value in zip(parameters, argument_types, function.args, strict=True):
        lowering.assign(name, Typed(kind, value))
    lowering.lower()
