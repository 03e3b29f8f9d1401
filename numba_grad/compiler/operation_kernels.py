"""The text of kernels of one operation each, and of the kernel that calls them.

The kernel of an operation computes one element: its words are where the result and the operands of
that element are. `WALK` takes these pointers through arrays of any rank and strides. So what is in
a kernel's text is the operation and its dtypes alone, and it is a line or two: a few dozen serve
most programs, each takes a millisecond to compile, and is compiled once a machine.

An operation that computes many elements has a kernel of rows as well, whose elements are neighbours
in memory: vector code, in a fifth to a tenth of the time, with the bits of the other.
"""

import functools
from collections.abc import Sequence

import numpy as np

from numba_grad.compiler.emission.emit_cpu import compute_name, dtype_name
from numba_grad.compiler.emission.text import SourceText
from numba_grad.compiler.loop_nests.reductions import ARG_REDUCTIONS
from numba_grad.compiler.scalar_expressions import (
    Term,
    expression_for,
    expression_of,
    parsed,
    plain_text,
    text_of,
)
from numba_grad.graph.node import Node

# Of an element: the result and at most three operands. With a fixed number LLVM keeps them all in
# registers.
POINTERS = 4

# Words: the place of the address of an element's kernel, how many loops there are, the pointers to
# the first element, the extents, and of each loop the steps of all pointers, in bytes. The kernel
# is told the number of its element, in C order. Where the number of loops is below 0, the innermost
# one is a row: the kernel is one of rows, and is called for all of it.
WALK = """\
def kernel(args, lo, hi):
    words = pointer(args, int64)
    function = pointer(words[0], int64)[0]
    loops = max(words[1], -words[1])
    extents = pointer(args + 48, int64)
    steps = pointer(args + 48 + 8 * loops, int64)
    last = loops - 1
    inner_steps = pointer(args + 48 + 8 * loops + 32 * last, int64)
    s0 = inner_steps[0]
    s1 = inner_steps[1]
    s2 = inner_steps[2]
    s3 = inner_steps[3]
    address = stack_words(4)
    places = pointer(address, int64)
    passes = pointer(stack_words(64), int64)
    for axis in range(last):
        passes[axis] = 0
    p0 = words[2]
    p1 = words[3]
    p2 = words[4]
    p3 = words[5]
    n = extents[last]
    first = 0
    axis = last
    while axis >= 0:
        if words[1] < 0:
            places[0] = p0
            places[1] = p1
            places[2] = p2
            places[3] = p3
            call(function, address, 0, n)
        else:
            for i in range(n):
                places[0] = p0 + i * s0
                places[1] = p1 + i * s1
                places[2] = p2 + i * s2
                places[3] = p3 + i * s3
                call(function, address, first + i, first + i + 1)
        first += n
        axis = last - 1
        while axis >= 0:
            passes[axis] += 1
            is_over = passes[axis] == extents[axis]
            taken = select(is_over, 1 - extents[axis], 1)
            p0 += taken * steps[4 * axis]
            p1 += taken * steps[4 * axis + 1]
            p2 += taken * steps[4 * axis + 2]
            p3 += taken * steps[4 * axis + 3]
            if not is_over:
                break
            passes[axis] = 0
            axis -= 1
"""


@functools.lru_cache(maxsize=1 << 12)
def elementwise_text(
    expression: Term, names: tuple[str, ...], dtypes: tuple[np.dtype, ...], result: np.dtype
) -> str:
    """`result = expression`, where `names` are operands of `dtypes`, and `lo` is the number of the
    element."""
    values = {name: f"v{k}" for k, name in enumerate(names)}
    text = text_of(expression, values, dtype_name(result))
    return _of_element(result, dtypes, list(values.values()), [f"y[0] = {text}"])


@functools.lru_cache(maxsize=1 << 12)
def operation_text(
    expression: str, names: tuple[str, ...], dtypes: tuple[np.dtype, ...], result: np.dtype
) -> str:
    """The same of an operation's own expression, whose text is known sooner than its term."""
    values = [f"v{k}" for k in range(len(names))]
    text = plain_text(expression, dict(zip(names, values, strict=True)))
    if text is None:
        return elementwise_text(expression_for(expression, dtypes), names, dtypes, result)
    return _of_element(result, dtypes, values, [f"y[0] = {text}"])


@functools.lru_cache(maxsize=1 << 12)
def accumulating_text(
    combine: Term, value: Term, dtypes: tuple[np.dtype, ...], result: np.dtype
) -> str:
    """The result combined with `value`, an expression of x0, x1, .., operands of `dtypes`.

    `combine` is an expression of `accumulator` and `value`.
    """
    values = [f"v{k}" for k in range(len(dtypes))]
    text = text_of(combine, {"accumulator": "y[0]", "value": "v"})
    if result.kind in "iub":
        text = f"{compute_name(result)}({text})"
    operands = {f"x{k}": v for k, v in enumerate(values)}
    element = text_of(value, operands, dtype_name(result))
    return _of_element(result, dtypes, values, [f"v = {element}", f"y[0] = {text}"])


def _of_element(
    result: np.dtype, dtypes: Sequence[np.dtype], values: Sequence[str], lines: Sequence[str]
) -> str:
    loads = [
        f"{value} = buffer(args, {k + 1}, {dtype_name(dtype)})[0]"
        for k, (dtype, value) in enumerate(zip(dtypes, values, strict=True))
    ]
    body = [f"y = buffer(args, 0, {dtype_name(result)})", *loads, *lines]
    return "\n    ".join(["def kernel(args, lo, hi):", *body]) + "\n"


@functools.lru_cache(maxsize=1 << 12)
def elementwise_row_text(
    expression: Term,
    names: tuple[str, ...],
    dtypes: tuple[np.dtype, ...],
    result: np.dtype,
    varies: tuple[bool, ...],
) -> str:
    """The elements of a row of `result = expression`, from `lo` to `hi`, neighbours in memory.

    `varies`: whether an operand has as many, or one for all of them.
    """
    values = {name: f"v{k}" for k, name in enumerate(names)}
    text = text_of(expression, values, dtype_name(result))
    return _of_row(result, dtypes, varies, [f"y[i] = {text}"])


@functools.lru_cache(maxsize=1 << 12)
def accumulating_row_text(
    combine: Term,
    value: Term,
    dtypes: tuple[np.dtype, ...],
    result: np.dtype,
    varies: tuple[bool, ...],
) -> str:
    """A row of results, each combined with an element of `value`."""
    text = text_of(combine, {"accumulator": "total", "value": "v"})
    if result.kind in "iub":
        text = f"{compute_name(result)}({text})"
    operands = {f"x{k}": f"v{k}" for k in range(len(dtypes))}
    element = text_of(value, operands, dtype_name(result))
    lines = [f"v = {element}", "total = y[i]", f"y[i] = {text}"]
    return _of_row(result, dtypes, varies, lines)


def _of_row(
    result: np.dtype, dtypes: Sequence[np.dtype], varies: Sequence[bool], lines: Sequence[str]
) -> str:
    source = SourceText()
    with source.block("def kernel(args, lo, hi):"):
        source.line("in_vectors()")
        source.line(f"y = buffer(args, 0, {dtype_name(result)})")
        for k, (dtype, differs) in enumerate(zip(dtypes, varies, strict=True)):
            source.line(f"x{k} = buffer(args, {k + 1}, {dtype_name(dtype)})")
            if not differs:
                source.line(f"v{k} = x{k}[0]")
        with source.block("for i in range(lo, hi):"):
            for k, differs in enumerate(varies):
                if differs:
                    source.line(f"v{k} = x{k}[i]")
            for line in lines:
                source.line(line)
    return str(source)


def combining_term(node: Node) -> Term:
    """How a reduction, or a sum of products, adds another value to its accumulator."""
    if node.op.family == "reduction":
        return expression_of(node)
    return parsed("reduce_add({accumulator}, {value})")


def argument_text(name: str, dtype: np.dtype) -> str:
    """The position of an extreme so far, given another operand, the best one so far, which is
    written as well, and the position of that operand."""
    source = SourceText()
    with source.block("def kernel(args, lo, hi):"):
        source.line("y = buffer(args, 0, int64)")
        source.line(f"v = buffer(args, 1, {dtype_name(dtype)})[0]")
        source.line(f"best = buffer(args, 2, {dtype_name(dtype)})")
        better = text_of(parsed(ARG_REDUCTIONS[name]), {"value": "v", "best": "best[0]"})
        with source.block(f"if {better}:"):
            source.line("best[0] = v")
            source.line("y[0] = buffer(args, 3, int64)[0]")
    return str(source)
