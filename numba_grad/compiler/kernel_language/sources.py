"""A function of a kernel's text, and what is around it: parsed, with the uses of its variables."""

# pyright: reportAttributeAccessIssue=false

import ast
import functools
from collections.abc import Sequence
from typing import Any

from numba.core import types

from numba_grad.compiler.kernel_language.plain_loops import (
    PlainLoop,
    hands_on,
    plain_element,
    vector_loops_of,
)
from numba_grad.errors import KernelError
from numba_grad.syntax_trees import syntax_tree

Block = tuple[int, ...]  # the numbers of the blocks that it is in, from the outside, and its own


class Source:
    """A function of a kernel's text, and what is around it."""

    def __init__(
        self,
        text: str,
        definition: ast.FunctionDef,
        parts: dict[str, ast.FunctionDef] | None = None,
        numbers: dict[str, Any] | None = None,
    ) -> None:
        self.text = text
        self.definition = definition
        self.parts = parts or {}  # other functions
        self.numbers = numbers or {}  # that have names
        self.uses = VariableUses(definition)

    @property
    def has_loops(self) -> bool:
        every = [self.uses, *map(VariableUses, self.parts.values())]
        return any(kind in uses.kinds for uses in every for kind in (ast.For, ast.While))

    @property
    def is_plain(self) -> bool:
        """Whether it needs no pass of LLVM's but that variables go into registers: where there are
        no loops, and no vectors to look for, our values are each computed once already. Where a
        loop has few points, no pass is worth its time."""
        if self.parts:
            return False
        if "few_points" in self.uses.early:
            return True
        if ast.While in self.uses.kinds:
            return False
        return not self.vector_loops or self.plain_element is not None

    @functools.cached_property
    def vector_loops(self) -> dict[ast.For, PlainLoop]:
        """The innermost loops that are not scalar ones."""
        return {node: PlainLoop(node) for node in vector_loops_of(self.definition)}

    @functools.cached_property
    def plain_element(self) -> types.Float | types.Integer | None:
        """What is in all buffers, if all loops are vector code as written, see `plain_loops`."""
        if self.parts:
            return None
        outside = self.uses.early - self.uses.stores.keys()
        loops = self.vector_loops.values()
        in_memory = self.uses.in_memory()
        return plain_element(self.definition, loops, self.uses.kinds, outside, in_memory)

    @functools.cached_property
    def hands_on(self) -> bool:
        return not self.parts and hands_on(self.definition, self.uses.in_memory())


# More than a program has kernels, or else each was forgotten by the time it is read again; 25 MB
# are 160 of 80 lines.
_MOST_KEPT = 512


@functools.lru_cache(_MOST_KEPT)
def read(text: str, entry_name: str) -> Source:
    """Of a source with the function `entry_name`. Kept until `forget_sources`: it is read to see
    what it is compiled together with, and then once more."""
    functions: dict[str, ast.FunctionDef] = {}
    numbers: dict[str, Any] = {}
    for statement in syntax_tree(text).body:
        match statement:
            case ast.FunctionDef(name=name):
                functions[name] = statement
            case ast.Assign():
                numbers |= _constants([statement])
            case ast.ClassDef(name=name, body=members):
                numbers[name] = _constants(members)
            case _:
                raise KernelError(
                    f"build: a source has functions, numbers and classes of numbers, not this: "
                    f"{ast.unparse(statement)}\n\n{text}"
                )
    definition = functions.pop(entry_name, None)
    if definition is None:
        raise KernelError(f"build: there is no function {entry_name} in this source\n\n{text}")
    return Source(text, definition, functions, numbers)


forget_sources = read.cache_clear


def _constants(statements: Sequence[ast.stmt]) -> dict[str, int | float]:
    """The values of assignments of numbers to names."""
    found: dict[str, int | float] = {}
    for statement in statements:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                found[name] = eval(compile(ast.Expression(value), "<kernel>", "eval"), {})
            case _:
                raise KernelError(f"build: not the name of a number: {ast.unparse(statement)}")
    return found


class VariableUses:
    """In which blocks each variable is assigned and read.

    One that is read only behind an assignment, in the block of that or inside of it, needs no
    memory, unless it is assigned again inside of that block.
    """

    def __init__(self, function: ast.FunctionDef) -> None:
        self.stores: dict[str, list[Block]] = {}
        self.early: set[str] = set()  # read where no assignment is known to have been
        self.summed: set[str] = set()
        self.kinds: set[type] = set()  # of nodes
        self.block_count = 0
        self.visit_all(function.body, ())

    def visit_all(self, nodes: Sequence[ast.AST], block: Block) -> None:
        for node in nodes:
            self.visit(node, block)

    def visit(self, node: ast.AST, block: Block) -> None:
        kind = type(node)
        self.kinds.add(kind)
        if isinstance(node, ast.Name):
            self.name(node, block)
        elif kind is ast.Assign:
            self.visit(node.value, block)
            self.visit_all(node.targets, block)
        elif kind is ast.For:
            self.visit(node.iter, block)
            self.visit_all([node.target, *node.body], self.inside(block))
        elif kind in (ast.While, ast.If):
            self.visit(node.test, block)
            self.visit_all(node.body, self.inside(block))
            self.visit_all(node.orelse, self.inside(block))
        else:
            if kind is ast.AugAssign and type(node.target) is ast.Name:
                self.summed.add(node.target.id)
            for field in _fields_with_nodes(kind):
                value = getattr(node, field)
                if type(value) is list:
                    self.visit_all(value, block)
                elif value is not None:
                    self.visit(value, block)

    def name(self, node: ast.Name, block: Block) -> None:
        name = node.id
        if type(node.ctx) is ast.Store:
            self.stores.setdefault(name, []).append(block)
        elif name not in self.early and not any(
            _is_in(block, home) for home in self.stores.get(name, ())
        ):
            self.early.add(name)

    def inside(self, block: Block) -> Block:
        self.block_count += 1
        return (*block, self.block_count)

    def in_memory(self) -> set[str]:
        nested = {
            name
            for name, blocks in self.stores.items()
            if any(a != b and _is_in(a, b) for a in blocks for b in blocks)
        }
        return self.summed | nested | (self.early & self.stores.keys())

    def assigned_again(self) -> set[str]:
        return {name for name, blocks in self.stores.items() if len(blocks) > 1}


@functools.cache
def _fields_with_nodes(kind: type[ast.AST]) -> tuple[str, ...]:
    """The fields of such a node that hold other nodes, but for operators."""
    if kind is ast.Constant:
        return ()
    return tuple([field for field in kind._fields if field not in _WITHOUT_NODES])


_WITHOUT_NODES = {"op", "ops", "ctx", "attr", "arg", "type_comment"}


def _is_in(block: Block, other: Block) -> bool:
    return block[: len(other)] == other
