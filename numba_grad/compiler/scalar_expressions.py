"""Scalar expressions: what an operation computes of one element, and a loop nest of indices.

They are written as text in the kernel language, which people read: in the records of operations,
with fields in braces for the operands and for the dtype of the result, and where loop nests are
made. `parsed` is the one reader of that text, and `text_of` the one printer. What is between, such
as the types and the words of CUDA Python (`cuda/expressions.py`), takes terms and gives terms.

A function of the kernel language is a formula itself (`elementary/scalar.py`).
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeVar

import numpy as np

from numba_grad.errors import InternalError
from numba_grad.graph.node import Node
from numba_grad.immutable import NamedTuple, immutable
from numba_grad.syntax_trees import syntax_tree


@immutable
class Operand:
    """A field: one of the values that the expression is of."""

    name: str


@immutable
class ResultDtype:
    """The field `{dtype}`, in `cast(0.5, {dtype})`."""


@immutable
class Name:
    """What has a name where the text goes: a variable, a dtype; or an atom of that language."""

    text: str


@immutable
class Number:
    value: bool | int | float


@immutable
class Operation:
    """An operator between operands, or before one; `**`, which kernels do not have, in the source
    of users' functions."""

    symbol: str
    operands: tuple[Term, ...]


@immutable
class Call:
    function: str
    arguments: tuple[Term, ...]


@immutable
class Part:
    """`value.real`, `value.imag`."""

    value: Term
    name: str


@immutable
class Subscript:
    """`base[index]`."""

    base: Term
    index: Term


@immutable
class Choice:
    """`x if condition else y`."""

    condition: Term
    x: Term
    y: Term


Term = Operand | ResultDtype | Name | Number | Operation | Call | Part | Subscript | Choice
Key = TypeVar("Key")

_BINARY = {
    **{ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%"},
    **{ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.LShift: "<<", ast.RShift: ">>"},
    **{ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="},
    **{ast.And: "and", ast.Or: "or"},
}
_BETWEEN = frozenset(_BINARY.values())
_PREFIXES = {ast.USub: "-", ast.Invert: "~", ast.Not: "not "}

COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
_LOGICAL = ("and", "or")
_BITWISE = ("|", "^", "&")
# How tightly operators bind.
_CHOICE, _COMPARISON, _PREFIX, _POWER, ATOM = 0, 4, 11, 12, 13
_BINDING = {
    **{"or": 1, "and": 2, "not ": 3, "|": 5, "^": 6, "&": 7, "<<": 8, ">>": 8},
    **dict.fromkeys(COMPARISONS, _COMPARISON),
    **{"+": 9, "-": 9, "*": 10, "/": 10, "//": 10, "%": 10, "**": _POWER},
}
NO_OPERANDS: Mapping[str, str] = MappingProxyType({})


@functools.cache
def parsed(text: str) -> Term:
    """The expression that a text is."""
    return _plain(text) or term_of(syntax_tree(text, mode="eval").body)


def _plain(text: str) -> Term | None:
    """A function of fields, or an operator with one or two, as most operations are: Python's parser
    takes 20 us, which a first gradient spends a dozen times."""
    if text.endswith(")"):
        function, _, inside = text[:-1].partition("(")
        given = _fields(inside.split(", "))
        is_call = given and function.isidentifier() and function != "not"
        return Call(function, given) if is_call else None
    match text.split(" "):
        case [x, symbol, y] if symbol in _BETWEEN and (given := _fields([x, y])):
            return Operation(symbol, given)
        case [x] if x[:1] in ("-", "~") and (given := _fields([x[1:]])):
            return Operation(x[0], given)
        case [x] if given := _fields([x]):
            return given[0]
    return None


def _fields(texts: Sequence[str]) -> tuple[Term, ...]:
    """Those that the texts are, or none if one of them is something else."""
    names = [text[1:-1] for text in texts if text[:1] == "{" and text[-1:] == "}"]
    if len(names) < len(texts) or not all(map(str.isidentifier, names)):
        return ()
    return tuple([ResultDtype() if name == "dtype" else Operand(name) for name in names])


def plain_text(text: str, operands: Mapping[str, str]) -> str | None:
    """`text_of` the term of what is a function of operands, which are atoms, or an operator between
    two of them, but no comparison: without the term. None if the text is something else."""
    fields = {f"{{{name}}}": own for name, own in operands.items()}
    if text.endswith(")"):
        function, _, inside = text[:-1].partition("(")
        given = [*map(fields.get, inside.split(", "))]
        is_call = None not in given and function.isidentifier() and function != "not"
        return f"{function}({', '.join(map(str, given))})" if is_call else None
    parts = text.split(" ")
    if len(parts) != 3 or parts[1] not in _BETWEEN or parts[1] in COMPARISONS:
        return None
    x, symbol, y = parts
    given = fields.get(x), fields.get(y)
    return None if None in given else f"{given[0]} {symbol} {given[1]}"


def expression_of(node: Node) -> Term:
    """What one element of an elementwise operation is, or a reduction with another value."""
    return expression_for(expression_text(node), [x.dtype for x in node.inputs])


def expression_text(node: Node) -> str:
    """The same as it is written: for some dtypes it means something else."""
    text = node.op.expression
    if callable(text):
        text = text(**node.params)
    assert text is not None
    return text


def expression_for(text: str, dtypes: Sequence[np.dtype]) -> Term:
    """What it means for operands of these dtypes."""
    term = parsed(text)
    if isinstance(term, Operation) and term.symbol in COMPARISONS and len(dtypes) == 2:
        signs = "".join([dtype.kind for dtype in dtypes])
        if signs in ("iu", "ui"):
            return _exact_comparison(term.symbol, signs)
    return term


def _exact_comparison(symbol: str, signs: str) -> Term:
    """Of int64 with uint64, neither of which holds the other; Numba compares both as float64."""
    is_first = signs == "iu"
    signed = "{x}" if is_first else "{y}"
    x, y = ("cast({x}, uint64)", "{y}") if is_first else ("{x}", "cast({y}, uint64)")
    if symbol in ("!=", *(("<", "<=") if is_first else (">", ">="))):  # so is what is negative
        return parsed(f"({signed} < cast(0, int64)) | ({x} {symbol} {y})")
    return parsed(f"({signed} >= cast(0, int64)) & ({x} {symbol} {y})")


def term_of(node: ast.expr) -> Term:
    """The same for what was parsed with more around it."""
    match node:
        case ast.Set([ast.Name("dtype")]):
            return ResultDtype()
        case ast.Set([ast.Name(name)]):
            return Operand(name)
        case ast.Name(name):
            return Name(name)
        case ast.Constant(bool() | int() | float() as value):
            return Number(value)
        case ast.UnaryOp(ast.USub(), ast.Constant(int() | float() as value)):
            return Number(-value)
        case ast.UnaryOp(operator, operand):
            return Operation(_PREFIXES[type(operator)], (term_of(operand),))
        case ast.BinOp(left, operator, right) if type(operator) in _BINARY:
            return Operation(_BINARY[type(operator)], (term_of(left), term_of(right)))
        case ast.Compare(left, [operator], [right]):
            return Operation(_BINARY[type(operator)], (term_of(left), term_of(right)))
        case ast.BoolOp(operator, values):
            return Operation(_BINARY[type(operator)], tuple([term_of(x) for x in values]))
        case ast.Call(ast.Set([ast.Name("dtype")]), [value], []):
            return Call("cast", (term_of(value), ResultDtype()))
        case ast.Call(ast.Name(function), arguments, []):
            return Call(function, tuple([term_of(x) for x in arguments]))
        case ast.Attribute(value, "real" | "imag" as name):
            return Part(term_of(value), name)
        case ast.Subscript(base, index):
            return Subscript(term_of(base), term_of(index))
        case ast.IfExp(condition, x, y):
            return Choice(term_of(condition), term_of(x), term_of(y))
    raise InternalError(f"{ast.unparse(node)} is no scalar expression of the kernel language")


def parts(term: Term) -> tuple[Term, ...]:
    """The terms that a term is made of, in the order of its text."""
    match term:
        case Operation(_, operands):
            return operands
        case Call(_, arguments):
            return arguments
        case Part(value, _):
            return (value,)
        case Subscript(base, index):
            return (base, index)
        case Choice(condition, x, y):
            return (x, condition, y)
    return ()


def names_in(term: Term) -> list[str]:
    """The texts of all names in it, in order, each as often as it is there."""
    if isinstance(term, Name):
        return [term.text]
    return [name for part in parts(term) for name in names_in(part)]


def functions_in(term: Term) -> set[str]:
    """The functions that it calls."""
    own = {term.function} if isinstance(term, Call) else set[str]()
    return own.union(*[functions_in(part) for part in parts(term)])


def with_parts(term: Term, own: Callable[[Term], Term]) -> Term:
    """`term` made of what `own` gives for each of its parts."""
    match term:
        case Operation(symbol, operands):
            return Operation(symbol, tuple([own(x) for x in operands]))
        case Call(function, arguments):
            return Call(function, tuple([own(x) for x in arguments]))
        case Part(value, part):
            return Part(own(value), part)
        case Subscript(base, index):
            return Subscript(own(base), own(index))
        case Choice(condition, x, y):
            return Choice(own(condition), own(x), own(y))
    return term


def with_term(term: Term, name: str, own: Term) -> Term:
    """`term` with `own` in place of a name."""
    if isinstance(term, Name):
        return own if term.text == name else term
    return with_parts(term, lambda part: with_term(part, name, own))


def with_functions(term: Term, names: Mapping[str, str]) -> Term:
    """`term` with other names of the functions that it calls."""
    term = with_parts(term, lambda part: with_functions(part, names))
    if isinstance(term, Call):
        return Call(names.get(term.function, term.function), term.arguments)
    return term


def is_product(term: Term) -> bool:
    return isinstance(term, Operation) and term.symbol == "*"


class Printed(NamedTuple):
    """A text, and how tightly it binds."""

    text: str
    binding: int = ATOM

    def within(self, least: int) -> str:
        """The text, in parentheses if it binds less tightly than that."""
        return self.text if self.binding >= least else f"({self.text})"


def text_of(term: Term, operands: Mapping[str, str] = NO_OPERANDS, dtype: str = "") -> str:
    """The text, with the texts of operands, which are atoms, and the name of the result's dtype."""
    plain = _plain_text(term, operands)
    if plain is not None:
        return plain
    return printed(term, {name: Printed(text) for name, text in operands.items()}, dtype).text


def _plain_text(term: Term, operands: Mapping[str, str]) -> str | None:
    """Of what `_plain` reads, where nothing binds less tightly than an atom."""
    if isinstance(term, Operation):
        texts = _texts_of(term.operands, operands)
        if len(texts) == 2:
            return f"{texts[0]} {term.symbol} {texts[1]}"
        return f"{term.symbol}{texts[0]}" if texts else None
    if isinstance(term, Call):
        texts = _texts_of(term.arguments, operands)
        return f"{term.function}({', '.join(texts)})" if texts else None
    return None


def _texts_of(terms: Sequence[Term], operands: Mapping[str, str]) -> list[str]:
    """The texts of operands; none, if a term is something else."""
    names = [term.name for term in terms if isinstance(term, Operand)]
    return [operands[name] for name in names] if len(names) == len(terms) else []


def printed(term: Term, operands: Mapping[str, Printed], dtype: str = "") -> Printed:
    """The same with operands of any kind."""

    def within(part: Term, least: int) -> str:
        return printed(part, operands, dtype).within(least)

    match term:
        case Operand(name):
            return operands[name]
        case ResultDtype():
            return Printed(dtype)
        case Name(text):
            return Printed(text)
        case Number(value):
            return number_text(value)
        case Operation(symbol, (operand,)):
            binding = _BINDING[symbol] if symbol == "not " else _PREFIX
            return Printed(f"{symbol}{within(operand, binding + 1)}", binding)
        case Operation("**", (base, exponent)):
            return Printed(f"{within(base, ATOM)} ** {within(exponent, ATOM)}", _POWER)
        case Operation(symbol, (first, *rest)):
            binding = _BINDING[symbol]
            least = binding + (symbol in COMPARISONS or symbol in _LOGICAL)  # those are no chains
            if symbol in _BITWISE and not _is_operation(first, symbol):
                least = _PREFIX  # though Python knows an order of them
            other = _PREFIX if symbol in _BITWISE else binding + 1
            texts = [within(first, least), *(within(x, other) for x in rest)]
            return Printed(f" {symbol} ".join(texts), binding)
        case Call(function, arguments):
            return Printed(f"{function}({', '.join(within(x, _CHOICE) for x in arguments)})")
        case Part(value, name):
            return Printed(f"{within(value, ATOM)}.{name}")
        case Subscript(base, index):
            return Printed(f"{within(base, ATOM)}[{within(index, _CHOICE)}]")
        case Choice(condition, x, y):
            texts = within(x, 1), within(condition, 1), within(y, _CHOICE)
            return Printed("{} if {} else {}".format(*texts), _CHOICE)
    raise InternalError(f"no term: {term!r}")


def number_text(value: bool | int | float) -> Printed:
    text = repr(value)
    return Printed(text, _PREFIX if text.startswith("-") else ATOM)


def _is_operation(term: Term, symbol: str) -> bool:
    return isinstance(term, Operation) and term.symbol == symbol
