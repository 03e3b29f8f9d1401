"""The statements of parsed source, without expressions, which are nine tenths of the nodes."""

import ast
from collections.abc import Iterator


def inner_statements(node: ast.AST) -> Iterator[ast.AST]:
    """Those of a statement's blocks, and what has blocks itself: handlers and cases."""
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        yield from getattr(node, name, ())


def all_statements(tree: ast.Module) -> Iterator[ast.AST]:
    left: list[ast.AST] = [tree]
    while left:
        node = left.pop()
        yield node
        left += inner_statements(node)
