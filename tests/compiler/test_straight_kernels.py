"""Kernels without loops are the same text wherever in memory their values are."""

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.compiler.cpu_target import TARGET
from numba_grad.compiler.emission.emit_cpu import emit
from numba_grad.compiler.loop_nests.fusion_groups import Group
from numba_grad.compiler.loop_nests.lowering import MOST_POINTERS, lower_group
from numba_grad.compiler.segment_memory import Place, Small
from numba_grad.graph.node import OPS, Node, argument, record
from numba_grad.graph.types import array_type


def _kernels(column: int) -> list[str]:
    def product(x: ng.Tensor) -> ng.Tensor:
        return x[0, column] * x[1, column] + x[2, column]

    return [kernel.source for kernel in ng.jit(product).lower(np.ones((4, 9))).kernels]


def test_each_column_of_a_matrix_has_the_same_kernel() -> None:
    assert _kernels(1) == _kernels(5)


@pytest.mark.parametrize("count", [MOST_POINTERS // 2, 2 * MOST_POINTERS])
def test_where_in_a_block_values_are_is_not_in_the_text(count: int) -> None:
    kind = array_type((), np.dtype(np.float64))
    terms: list[Node] = [argument(kind) for _ in range(count)]
    total = terms[0]
    for x in terms[1:]:
        total = record(OPS["add"], (total, x), {})

    def pointers_and_text(first: int) -> tuple[list[int], str]:
        places = {x: Place(Small(kind.dtype), first + k) for k, x in enumerate((*terms, total))}
        kernel = lower_group(Group((), (), [total], []), places.get, TARGET.reduction_blocks)
        starts = [word.memory.offset for word in kernel.words if isinstance(word.memory, Place)]
        return starts, emit(kernel)

    (near, text), (far, same_text) = pointers_and_text(0), pointers_and_text(100)
    assert text == same_text
    assert [b - a for a, b in zip(near, far, strict=True)] == [800] * len(near)
    assert len(near) == (count + 1 if count < MOST_POINTERS else 1)


def test_how_far_groups_of_values_are_from_each_other_is_not_in_the_text() -> None:
    kind = array_type((), np.dtype(np.float64))
    terms: list[Node] = [argument(kind) for _ in range(2 * MOST_POINTERS)]
    total = terms[0]
    for x in terms[1:]:
        total = record(OPS["add"], (total, x), {})

    def text(distance: int, apart: int) -> str:
        """With so many elements between two groups of values, and between those of the second."""
        numbers = [*range(MOST_POINTERS), *[distance + apart * k for k in range(MOST_POINTERS + 1)]]
        places = {
            x: Place(Small(kind.dtype), k) for x, k in zip((*terms, total), numbers, strict=True)
        }
        kernel = lower_group(Group((), (), [total], []), places.get, TARGET.reduction_blocks)
        return emit(kernel)

    assert text(50, 1) == text(500, 1)
    # What are no groups, as a column one by one, has no more pointers for it.
    assert text(50, 100).count("buffer") == 1
