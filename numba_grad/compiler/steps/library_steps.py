"""Operations with kernels of their own -> steps: matrix products, linear algebra, Fourier
transforms, scans, sorts, scatters."""

import functools
import operator
from collections.abc import Callable
from dataclasses import dataclass

from numba_grad.compiler.library_kernels import Errors, LibraryCall, Memory, Symbol
from numba_grad.compiler.library_kernels.operands import memory_operands
from numba_grad.compiler.library_kernels.registry import LOWERINGS, Kernel, Lowering
from numba_grad.compiler.loop_nests.groups import Place
from numba_grad.compiler.steps.custom_kernel_steps import call_of_custom_kernel
from numba_grad.errors import InternalError
from numba_grad.graph.node import Node
from numba_grad.runtime.plan import Launch


@dataclass(frozen=True, slots=True)
class Pointer:
    """A word that points into memory."""

    source: object
    offset: int  # bytes


@dataclass(frozen=True, slots=True)
class LoweredStep:
    """A kernel's source and words: integers, pointers, ("symbol", name), "errors", error sites."""

    source: str
    words: list[object]
    launch: Launch
    written: frozenset[int]  # the words of the memory that it writes


def lower(
    node: Node, places: dict[Node, Place], temporary: Callable[[int], object], *, in_place: bool
) -> list[LoweredStep]:
    """The steps that compute `node` from its operands in memory."""
    if node.op.name == "custom_kernel":
        call = call_of_custom_kernel(node)
    else:
        call = call_of(node, operator.attrgetter("kernel"), in_place=in_place)
    return steps_of(call, node, places, temporary)


def call_of(node: Node, kernel_of: Callable[[Lowering], Kernel], *, in_place: bool) -> LibraryCall:
    """The call that computes `node`, of the kernels of one kind of devices."""
    lowering = LOWERINGS.get(node.op.name)
    if lowering is None:
        raise InternalError(f"no kernel for {node}")
    kernel = kernel_of(lowering)
    if lowering.is_in_place:
        kernel = functools.partial(kernel, in_place=in_place)
    return lowering.call_of(kernel, node)


def steps_of(
    call: LibraryCall,
    node: Node,
    places: dict[Node, Place],
    temporary: Callable[[int], object],
) -> list[LoweredStep]:
    """The steps of a call, with pointers in place of the roles of memory."""
    inputs = [_pointer(places[x], x) for x in memory_operands(node)]
    output = _pointer(places[node], node)
    uses_scratch = any(
        isinstance(word, Memory) and word.role == "scratch"
        for step in call.steps
        for word in step.words
    )
    scratch = Pointer(temporary(call.scratch_bytes), 0) if uses_scratch else None

    def word(value: object) -> object:
        match value:
            case Memory(role, number, offset):
                target = {"input": inputs, "output": [output], "scratch": [scratch]}[role][number]
                assert target is not None
                return Pointer(target.source, target.offset + offset)
            case Symbol(name):
                return ("symbol", name)
            case Errors():
                return "errors"
        return value

    return [
        LoweredStep(
            step.source,
            [word(value) for value in step.words],
            step.launch,
            frozenset(
                [
                    number
                    for number, value in enumerate(step.words)
                    if isinstance(value, Memory) and value.role != "input"
                ]
            ),
        )
        for step in call.steps
    ]


def _pointer(place: Place, node: Node) -> Pointer:
    return Pointer(place.source, place.offset * node.dtype.itemsize)
