"""Functions are short enough to be read at once."""

import ast
from pathlib import Path

from tests.statements import all_statements

ROOT = Path(__file__).parent.parent
MOST_LINES = 60
# Longer ones, and why.
EARNED = {
    "flatten": "once per recorded operation, where a call for each would cost as much as the rest",
}


def lines_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[int]:
    """Those of a function's code: without its docstring, and without the lines inside of texts of
    several lines, such as kernels, which are read as texts."""
    lines = set(range(function.lineno, (function.end_lineno or 0) + 1))
    if ast.get_docstring(function) is not None:
        lines.remove(function.body[0].lineno)
    for node in ast.walk(function):
        if isinstance(node, ast.JoinedStr) or (
            isinstance(node, ast.Constant) and isinstance(node.value, str)
        ):
            lines -= set(range(node.lineno + 1, (node.end_lineno or 0) + 1))
    return lines


def test_no_function_has_more_than_60_lines():
    long = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}: {len(lines_of(node))} lines"
        for path in sorted((ROOT / "numba_grad").rglob("*.py"))
        for node in all_statements(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno >= MOST_LINES  # the rest takes longer to ask
        and len(lines_of(node)) > MOST_LINES
        and node.name not in EARNED
    ]
    assert not long, "\n".join(long)
