"""Scalar expressions are read and printed, and nothing is lost on the way."""

import ast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numba_grad.compiler import scalar_expressions
from numba_grad.compiler.scalar_expressions import (
    COMPARISONS,
    Call,
    Choice,
    Name,
    Number,
    Operand,
    Operation,
    Part,
    Subscript,
    functions_in,
    names_in,
    parsed,
    plain_text,
    term_of,
    text_of,
    with_term,
)
from numba_grad.errors import InternalError
from numba_grad.ops import all_ops


def printed(text):
    """With fields as they are written."""
    fields = {name: f"{{{name}}}" for name in _fields(text)}
    return text_of(parsed(text), fields, "{dtype}")


def _fields(text):
    return {node.elts[0].id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Set)}


def expressions_of_operations():
    for op in all_ops().values():
        if callable(op.expression) and op.example is not None:
            examples = op.example(np.random.default_rng(0))
            yield from {op.expression(**params) for _, params in examples}
        elif isinstance(op.expression, str):
            yield op.expression


def test_records_say_what_kernels_show():
    texts = sorted(set(expressions_of_operations()))
    assert len(texts) > 100
    # Powers are put together with more parentheses than they need.
    wrong = [text for text in texts if printed(text) != text and "{x} * {x}" not in text]
    assert not wrong


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("({a} + {b}) * {c}", "({a} + {b}) * {c}"),
        ("{a} + ({b} + {c})", "{a} + ({b} + {c})"),
        ("({a} + {b}) + {c}", "{a} + {b} + {c}"),
        ("{a} - ({b} - {c})", "{a} - ({b} - {c})"),
        ("-({a} * {b})", "-({a} * {b})"),
        ("-{a} * {b}", "-{a} * {b}"),
        ("{a} | {b} & {c}", "{a} | ({b} & {c})"),
        ("({a} < {b}) == {c}", "({a} < {b}) == {c}"),
        ("exp(({a}))", "exp({a})"),
        ("(({a} if {b} else {c}))", "{a} if {b} else {c}"),
        ("({a} if {b} else {c}) + 1", "({a} if {b} else {c}) + 1"),
        ("cast(-0.5, {dtype})", "cast(-0.5, {dtype})"),
        ("not ({a} and ({b} or {c}))", "not ({a} and ({b} or {c}))"),
        ("({a} + {b}).real", "({a} + {b}).real"),
    ],
)
def test_parentheses_are_where_they_are_needed(text, expected):
    assert printed(text) == expected


def test_powers_bind_more_tightly_than_signs():
    """They are in the source of users' functions only."""
    a, b = Operand("a"), Operand("b")
    power = Operation("**", (a, b))
    operands = {"a": "a", "b": "b"}
    assert text_of(Operation("-", (power,)), operands) == "-a ** b"
    assert text_of(Operation("**", (Operation("-", (a,)), Number(-2))), operands) == "(-a) ** (-2)"
    assert text_of(Operation("**", (power, power)), operands) == "(a ** b) ** (a ** b)"


NAMES = st.sampled_from([Name("a"), Name("b"), Number(2), Number(0.5), Operand("x")])
BINARY = st.sampled_from(["+", "-", "*", "/", "//", "%", "|", "^", "&", "<<", ">>", *COMPARISONS])


def larger(terms):
    return st.one_of(
        st.builds(Operation, BINARY, st.tuples(terms, terms)),
        st.builds(Operation, st.sampled_from(["and", "or"]), st.tuples(terms, terms)),
        st.builds(Operation, st.sampled_from(["-", "~", "not "]), st.tuples(terms)),
        st.builds(Call, st.sampled_from(["exp", "hypot"]), st.tuples(terms, terms)),
        st.builds(Choice, terms, terms, terms),
        st.builds(Part, st.builds(Subscript, st.just(Name("z")), terms), st.just("real")),
    )


@given(st.recursive(NAMES, larger, max_leaves=12))
def test_what_is_printed_is_read_again(term):
    text = text_of(term, {"x": "x"})
    again = term_of(ast.parse(text, mode="eval").body)
    assert text_of(again) == text
    # Python agrees on what belongs together: with parentheses everywhere it is the same tree.
    assert ast.dump(ast.parse(text)) == ast.dump(ast.parse(_in_parentheses(term)))


def _in_parentheses(term):
    match term:
        case Operation(symbol, (x,)):
            return f"({symbol}{_in_parentheses(x)})"
        case Operation(symbol, (x, *rest)):
            texts = [_in_parentheses(x), *map(_in_parentheses, rest)]
            return "(" + f" {symbol} ".join(texts) + ")"
        case Call(function, arguments):
            return f"{function}({', '.join(map(_in_parentheses, arguments))})"
        case Choice(condition, x, y):
            parts = map(_in_parentheses, (x, condition, y))
            return "({} if {} else {})".format(*parts)
        case Part(value, name):
            return f"{_in_parentheses(value)}.{name}"
        case Subscript(base, index):
            return f"{_in_parentheses(base)}[{_in_parentheses(index)}]"
    return text_of(term, {"x": "x"})


def test_parts_of_terms():
    term = parsed("exp(a) + select(b < a, a, z[b].real)")
    assert names_in(term) == ["a", "b", "a", "a", "z", "b"]
    assert functions_in(term) == {"exp", "select"}
    moved = with_term(term, "a", parsed("c - d"))
    assert text_of(moved) == "exp(c - d) + select(b < c - d, c - d, z[b].real)"


TEXTS = [op.expression for op in all_ops().values() if isinstance(op.expression, str)]


@pytest.mark.parametrize(
    "text",
    [
        *sorted(set(TEXTS)),
        *("not({x})", "cast({x}, {dtype})", "{dtype} + {x}", "f()", "f({x}, 1)", "f(g({x}))"),
        *("{x} - {y} - {z}", "{x} // {y}", "f({x}) * g({y})", "({x} + {y}) * ({x})", "-{x}", "{x}"),
    ],
)
def test_short_texts_are_read_as_python_reads_them(text):
    assert parsed(text) == term_of(ast.parse(text, mode="eval").body)


@pytest.mark.parametrize("text", ["lambda: 1", "x ** 2", "f(x=1)", "'text'", "a < b < c", "f.g(x)"])
def test_what_is_no_expression_of_the_language_is_refused(text):
    with pytest.raises(InternalError, match="is no scalar expression of the kernel language"):
        parsed(text)


def test_short_expressions_of_records_have_the_text_of_their_terms_without_them():
    found = 0
    for op in all_ops().values():
        text = op.expression
        if not isinstance(text, str):
            continue
        names = _fields(text) - {"dtype"}
        operands = {name: f"v{number}" for number, name in enumerate(sorted(names))}
        in_terms = {name: scalar_expressions.Printed(own) for name, own in operands.items()}
        expected = scalar_expressions.printed(parsed(text), in_terms, "float64").text
        assert text_of(parsed(text), operands, "float64") == expected
        plain = plain_text(text, operands)
        assert plain in (None, expected)
        found += plain is not None
    assert found > 30
    assert plain_text("{x} < {y}", {"x": "a", "y": "b"}) is None  # signs of integers may differ
    assert plain_text("{x} + {z}", {"x": "a"}) is None
    assert plain_text("f({x}, {z})", {"x": "a"}) is None
    assert plain_text("not({x})", {"x": "a"}) is None
