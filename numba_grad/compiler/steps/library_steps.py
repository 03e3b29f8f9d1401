"""Operations with kernels of their own -> steps: matrix products, linear algebra, Fourier
transforms, scans, sorts, scatters."""

import functools
import operator
from collections.abc import Callable
from typing import Any

from numba_grad.compiler.library_kernels.calls import LibraryCall, LibraryStep, LibraryWord, Memory
from numba_grad.compiler.library_kernels.operands import memory_operands
from numba_grad.compiler.library_kernels.registry import (
    LOWERINGS,
    LibraryKernel,
    Lowering,
    one_for_each_element,
)
from numba_grad.compiler.segment_memory import Place
from numba_grad.compiler.steps.schedule import ScheduledStep
from numba_grad.compiler.words import Pointer, Word
from numba_grad.errors import InternalError
from numba_grad.fresh_thread import imported
from numba_grad.graph.node import Node


def steps_of_operation(
    node: Node, places: dict[Node, Place], temporary: Callable[[int], object], *, in_place: bool
) -> list[ScheduledStep]:
    """The steps that compute `node` from its operands in memory."""
    if node.op.name == "custom_kernel":
        # With what compiles users' functions: most programs have none.
        steps = imported("numba_grad.compiler.steps.custom_kernel_steps")
        call = steps.call_of_custom_kernel(node)
    else:
        call = call_of(node, operator.attrgetter("kernel"), in_place=in_place)
    return steps_of_call(call, node, places, temporary, in_place=in_place)


def call_of(
    node: Node, kernel_of: Callable[[Lowering], LibraryKernel], *, in_place: bool
) -> LibraryCall:
    """The call that computes `node`, of the kernels of one kind of devices."""
    lowering = LOWERINGS.get(node.op.name)
    if lowering is None:
        raise InternalError(f"no kernel for {node}")
    kernel = kernel_of(lowering)
    if lowering.is_in_place:
        kernel = functools.partial(kernel, in_place=in_place)
    return lowering.call_of(kernel, node)


def steps_of_call(
    call: LibraryCall,
    node: Node,
    places: dict[Node, Place],
    temporary: Callable[[int], object],
    *,
    in_place: bool,
) -> list[ScheduledStep]:
    """The steps of a call, with pointers in place of the roles of memory."""
    roles = {
        "input": [_pointer(places[x], x) for x in memory_operands(node)],
        "output": [_pointer(places[node], node)],
    }
    if any(
        isinstance(word, Memory) and word.role == "scratch"
        for step in call.steps
        for word in step.words
    ):
        roles["scratch"] = [Pointer(temporary(call.scratch_bytes), 0)]

    def word(value: LibraryWord) -> Word:
        if isinstance(value, Memory):
            start = roles[value.role][value.number]
            return Pointer(start.memory, start.offset + value.offset)
        return value

    return [
        _program_step(node, step, [word(value) for value in step.words], in_place=in_place)
        for step in call.steps
    ]


def _program_step(
    node: Node, step: LibraryStep, words: list[Word], *, in_place: bool
) -> ScheduledStep:
    """A step with its traffic and operations for profiles."""
    nbytes = node.type.nbytes + sum(x.type.nbytes for x in node.inputs)
    lowering = LOWERINGS.get(node.op.name)
    flops = (lowering.operations if lowering else one_for_each_element)(node)
    if in_place and node.op.name in ("scatter_add", "scatter_set"):
        x, v = node.inputs[:2]
        nbytes += v.type.nbytes - x.type.nbytes - node.type.nbytes
        flops = v.type.size
    name = node.params["kernel"].name if node.op.name == "custom_kernel" else node.op.name
    written = [
        number
        for number, value in enumerate(step.words)
        if isinstance(value, Memory) and value.role != "input"
    ]
    memory: list[Any] = [word.memory for word in words if isinstance(word, Pointer)]
    return ScheduledStep(
        f"# {name}: {node.dtype.name}\n{step.source}",
        words,
        step.launch,
        memory,
        nbytes,
        flops,
        written=frozenset(written),
    )


def _pointer(place: Place, node: Node) -> Pointer:
    return Pointer(place.memory, place.offset * node.dtype.itemsize)
