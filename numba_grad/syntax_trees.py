"""Python text as a syntax tree, whatever other threads parse meanwhile.

CPython 3.11 and 3.12 count how deep they are in a tree while they make its objects, and the count
is one for all threads (https://github.com/python/cpython/issues/106905). Threads change over there
when a collection of garbage runs Python code; then one finds the count of the other, and raises
`SystemError: AST constructor recursion depth mismatch`, although nothing is wrong with the text.
"""

import ast
from typing import Literal, overload

# Of three threads that did nothing but parse, one call in a hundred failed.
_MOST_ATTEMPTS = 100


@overload
def syntax_tree(text: str | bytes, mode: Literal["exec"] = "exec") -> ast.Module: ...
@overload
def syntax_tree(text: str | bytes, mode: Literal["eval"]) -> ast.Expression: ...
def syntax_tree(text: str | bytes, mode: Literal["exec", "eval"] = "exec") -> ast.mod:
    """What `ast.parse` gives, and raises, but for that `SystemError`."""
    for _ in range(_MOST_ATTEMPTS - 1):
        try:
            return ast.parse(text, mode=mode)
        except SystemError as error:
            if "recursion depth" not in str(error):
                raise
    return ast.parse(text, mode=mode)
