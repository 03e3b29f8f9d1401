"""Stacks of matrices.

Their words: the rank of the result's stack, then for each axis the size and the strides in the two
operands, in elements.
"""

import math

from numba_grad.compiler.library_kernels.calls import Shape


def words_of_stack(
    stack: Shape, x_stack: Shape, y_stack: Shape, x_size: int, y_size: int
) -> list[int]:
    words = [len(stack)]
    x_strides = _stack_strides(stack, x_stack, x_size)
    y_strides = _stack_strides(stack, y_stack, y_size)
    for size, x_stride, y_stride in zip(stack, x_strides, y_strides, strict=True):
        words += [size, x_stride, y_stride]
    return words


def steps_of_stack(
    stack: Shape, x_stack: Shape, y_stack: Shape, x_size: int, y_size: int
) -> tuple[int, int] | None:
    """How far two matrices that follow each other are apart, in each operand, if that is constant:
    where the stacks are equal, or one of them is a single matrix."""
    steps = []
    for own, size in ((x_stack, x_size), (y_stack, y_size)):
        own_count = math.prod(own)
        if own_count not in (1, math.prod(stack)):
            return None
        steps.append(0 if own_count == 1 else size)
    return steps[0], steps[1]


def _stack_strides(stack: Shape, own: Shape, matrix_size: int) -> list[int]:
    """The strides of a C-contiguous operand, 0 where it is broadcast."""
    strides = []
    stride = matrix_size
    for size in reversed(own):
        strides.append(0 if size == 1 else stride)
        stride *= size
    strides += [0] * (len(stack) - len(own))
    return strides[::-1]


def walk_stack(rank_word: int, number: str) -> str:
    return f"""\
        x_start = 0
        y_start = 0
        rest = {number}
        for axis in range(words[{rank_word}] - 1, -1, -1):
            axis = opaque(axis)
            size = words[{rank_word} + 1 + 3 * axis]
            around = quotient(rest, size)
            along = rest - around * size
            rest = around
            x_start = x_start + along * words[{rank_word} + 2 + 3 * axis]
            y_start = y_start + along * words[{rank_word} + 3 + 3 * axis]
"""
