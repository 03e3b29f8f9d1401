"""The text of kernels of one operation each, for operands of any strides.

What is in a kernel's text is the operation, the dtypes and how many loops there are. Extents and
strides are words. So a few dozen of them serve most programs, and each is compiled once a machine.
"""

import contextlib
import functools
from collections.abc import Sequence

import numpy as np

from numba_grad.compiler.emit_cpu import compute_name, constant_text, dtype_name
from numba_grad.compiler.reductions import (
    ARG_REDUCTIONS,
    combining_expression,
    identity_of,
)
from numba_grad.compiler.source import Source
from numba_grad.compiler.values import constant
from numba_grad.graph.node import Node

# Words of every kernel: the result, the operands, the extents of the loops, and then strides in
# elements, those of the result first.


class _Words:
    """Names of the arguments, in the order of the words."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.count = 0

    def buffer(self, name: str, dtype: np.dtype) -> str:
        self.source.line(f"{name} = buffer(args, {self.count}, {dtype_name(dtype)})")
        self.count += 1
        return name

    def integers(self, prefix: str, count: int) -> list[str]:
        names = [f"{prefix}{k}" for k in range(count)]
        for name in names:
            self.source.line(f"{name} = integer(args, {self.count})")
            self.count += 1
        return names


def _position(indices: Sequence[str], strides: Sequence[str]) -> str:
    return " + ".join(f"{i} * {s}" for i, s in zip(indices, strides, strict=True)) or "0"


def _decode(source: Source, number: str, indices: Sequence[str], extents: Sequence[str]) -> None:
    """C-order indices out of one number."""
    for k in reversed(range(len(indices))):
        if k == 0:
            source.line(f"{indices[0]} = {number}")
        else:
            source.line(f"{indices[k]} = {number} % {extents[k]}")
            source.line(f"rest{k} = {number} // {extents[k]}")
            number = f"rest{k}"


@functools.lru_cache(maxsize=1 << 12)
def elementwise_text(
    expression: str,
    names: tuple[str, ...],
    dtypes: tuple[np.dtype, ...],
    result: np.dtype,
    rank: int,
) -> str:
    """`result = expression`, where `names` stand in braces for operands of `dtypes`.

    Tasks: the elements of one loop, or of several loops all but the last.
    """
    source = Source()
    with source.block("def kernel(args, lo, hi):"):
        words = _Words(source)
        y = words.buffer("y", result)
        xs = [words.buffer(f"x{k}", dtype) for k, dtype in enumerate(dtypes)]
        extents = words.integers("n", rank)
        result_strides = words.integers("t", rank)
        strides = [words.integers(f"s{k}_", rank) for k in range(len(xs))]
        indices = [f"i{k}" for k in range(rank)]
        with contextlib.ExitStack() as blocks:
            task = "i0" if rank == 1 else "task"
            blocks.enter_context(source.block(f"for {task} in range(lo, hi):"))
            if rank > 1:
                _decode(source, task, indices[:-1], extents[:-1])
                blocks.enter_context(source.block(f"for {indices[-1]} in range({extents[-1]}):"))
            values = {name: f"v{k}" for k, name in enumerate(names)}
            for value, x, own in zip(values.values(), xs, strides, strict=True):
                source.line(f"{value} = {x}[{_position(indices, own)}]")
            text = expression.replace("{dtype}", dtype_name(result)).format(**values)
            source.line(f"{y}[{_position(indices, result_strides)}] = {text}")
    return str(source)


def reduction_text(
    node: Node, value: str, dtypes: Sequence[np.dtype], kept: int, reduced: int
) -> str:
    """The reduction `node` of `value`, an expression of `{x0}`, `{x1}`, .., operands of `dtypes`.

    The result has `kept` loops and is contiguous; inside of it are `reduced` ones, in C order.
    Tasks: elements of the result.
    """
    source = Source()
    is_position = node.op.name in ARG_REDUCTIONS
    with source.block("def kernel(args, lo, hi):"):
        words = _Words(source)
        y = words.buffer("y", node.dtype)
        xs = [words.buffer(f"x{k}", dtype) for k, dtype in enumerate(dtypes)]
        extents = words.integers("n", kept + reduced)
        strides = [words.integers(f"s{k}_", kept + reduced) for k in range(len(xs))]
        kept_indices = [f"i{k}" for k in range(kept)]
        reduced_indices = [f"j{k}" for k in range(reduced)]
        indices = [*kept_indices, *reduced_indices]
        with source.block("for task in range(lo, hi):"):
            _decode(source, "task", kept_indices, extents[:kept])
            operands = {
                f"x{k}": f"{x}[{_position(indices, own)}]"
                for k, (x, own) in enumerate(zip(xs, strides, strict=True))
            }
            element = value.format(**operands)
            if is_position:
                first = value.format(
                    **{
                        f"x{k}": f"{x}[{_position(kept_indices, own[:kept])}]"
                        for k, (x, own) in enumerate(zip(xs, strides, strict=True))
                    }
                )
                source.line(f"best = {first}")
                source.line("chosen = 0")
                with source.block(f"for {reduced_indices[0]} in range({extents[kept]}):"):
                    source.line(f"v = {element}")
                    better = ARG_REDUCTIONS[node.op.name].format(value="v", best="best")
                    with source.block(f"if {better}:"):
                        source.line("best = v")
                        source.line(f"chosen = {reduced_indices[0]}")
                source.line(f"{y}[task] = chosen")
                return str(source)
            source.line(f"a = {accumulator_start(node)}")
            _nest(source, reduced_indices, extents[kept:], node, element)
            source.line(f"{y}[task] = a")
    return str(source)


def accumulator_start(node: Node) -> str:
    """The value that a reduction, or a sum of products, starts from."""
    if node.op.family != "reduction":
        return constant_text(constant(0, node.dtype))
    return constant_text(constant(identity_of(node), node.dtype))


def _nest(
    source: Source, indices: Sequence[str], extents: Sequence[str], node: Node, element: str
) -> None:
    if not indices:
        source.line(f"v = {element}")
        combine = (
            combining_expression(node)
            if node.op.family == "reduction"
            else "reduce_add({accumulator}, {value})"
        )
        text = combine.format(accumulator="a", value="v")
        if node.dtype.kind in "iub":
            text = f"{compute_name(node.dtype)}({text})"
        source.line(f"a = {text}")
        return
    with source.block(f"for {indices[0]} in range({extents[0]}):"):
        _nest(source, indices[1:], extents[1:], node, element)
