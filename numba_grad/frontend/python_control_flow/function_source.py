"""The syntax tree of a function, from the file that it was read from, with its places there."""

import ast
import copy
import functools
import inspect
import linecache
import types
from dataclasses import dataclass

from numba_grad.errors import TracingError, explain
from numba_grad.syntax_trees import syntax_tree

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass(frozen=True, slots=True)
class FunctionSource:
    """The tree of a function, for the taking, and the class that it stands in, if any."""

    tree: Function
    class_name: str | None


def source_of(function: types.FunctionType) -> FunctionSource:
    """The source of `function`.

    Raises
    ------
    TracingError
        If there is none, or it is not what the function was made of.
    """
    code = function.__code__
    text = "".join(linecache.getlines(code.co_filename, function.__globals__))
    try:
        candidates = _functions_in(text)
    except SyntaxError:
        candidates = ()  # changed, and not finished
    if not candidates:
        raise TracingError(_not_found(function, "its source text is not available"))
    found = [x for x in candidates if _may_be(x.tree, code)]
    if len(found) > 1:  # several lambdas on one line
        found = [x for x in found if _holds_all(x.tree, code)]
    if len(found) > 1:  # and one within the other
        found = [x for x in found if _functions_in_tree(x.tree) == _functions_in_code(code)]
    if len(found) != 1:
        raise TracingError(
            _not_found(function, "its source text has changed since it was imported")
        )
    return FunctionSource(copy.deepcopy(found[0].tree), found[0].class_name)


def _not_found(function: types.FunctionType, reason: str) -> str:
    code = function.__code__
    return explain(
        f"jit of {function.__name__}",
        f"control_flow=True rewrites the function, but {reason}",
        got={"function": f"{code.co_filename}, line {code.co_firstlineno}"},
        expected="a function that is written in a file, or in a cell of a notebook",
        fix="ng.while_loop, ng.fori_loop and ng.cond, without control_flow=True",
    )


@functools.lru_cache(maxsize=16)
def _functions_in(text: str) -> tuple[FunctionSource, ...]:
    found: list[FunctionSource] = []
    pending: list[tuple[ast.AST, str | None]] = [(syntax_tree(text), None)]
    while pending:
        node, class_name = pending.pop()
        if isinstance(node, Function):
            found.append(FunctionSource(node, class_name))
        if isinstance(node, ast.ClassDef):
            class_name = node.name
        pending += [(child, class_name) for child in ast.iter_child_nodes(node)]
    return tuple(found)


def _may_be(tree: Function, code: types.CodeType) -> bool:
    if isinstance(tree, ast.Lambda):
        name, line = "<lambda>", tree.lineno
    else:
        name = tree.name
        line = min([tree.lineno, *[decorator.lineno for decorator in tree.decorator_list]])
    return (name, line) == (code.co_name, code.co_firstlineno) and _arguments_of(
        tree
    ) == _without_class_names(code)


def _arguments_of(tree: Function) -> list[str]:
    arguments = [*tree.args.posonlyargs, *tree.args.args, *tree.args.kwonlyargs]
    rest = [x for x in (tree.args.vararg, tree.args.kwarg) if x is not None]
    return [x.arg for x in [*arguments, *rest]]


def _without_class_names(code: types.CodeType) -> list[str]:
    """The arguments as they are written: `__x` is `_Model__x` in a class `Model`."""
    count = code.co_argcount + code.co_kwonlyargcount
    count += sum(
        bool(code.co_flags & flag) for flag in (inspect.CO_VARARGS, inspect.CO_VARKEYWORDS)
    )
    names = code.co_varnames[:count]
    return [
        "__" + x.partition("__")[2] if x[0] == "_" and x[1:2] != "_" and "__" in x else x
        for x in names
    ]


def _holds_all(tree: Function, code: types.CodeType) -> bool:
    """Whether all that the code does stands within the tree."""
    start, end = (tree.lineno, tree.col_offset), (tree.end_lineno, tree.end_col_offset)
    for line, end_line, column, end_column in code.co_positions():
        if None in (line, end_line, column, end_column) or (column, end_column) == (0, 0):
            continue
        if (line, column) < start or (end_line, end_column) > end:  # type: ignore[operator]
            return False
    return True


def _functions_in_tree(tree: Function) -> int:
    return sum(isinstance(node, Function) for node in ast.walk(tree)) - 1


def _functions_in_code(code: types.CodeType) -> int:
    """How many functions a function makes, and those make: no comprehensions and no classes."""
    inner = [x for x in code.co_consts if isinstance(x, types.CodeType)]
    own = [
        x
        for x in inner
        if x.co_flags & inspect.CO_OPTIMIZED and (x.co_name == "<lambda>" or x.co_name[0] != "<")
    ]
    return len(own) + sum(map(_functions_in_code, inner))
