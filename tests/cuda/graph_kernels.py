"""Graphs to kernels to values, without an engine: lower, emit, and the emulator.

What is no loop nest is computed by its NumPy reference.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import numba_grad as ng
from numba_grad.compiler.cuda import costs
from numba_grad.compiler.cuda.emit import Emitted, emit
from numba_grad.compiler.cuda.launch import reduction_blocks
from numba_grad.compiler.fusion.fuse import LibraryOperation, fuse
from numba_grad.compiler.loop_nests.fusion_groups import Group
from numba_grad.compiler.loop_nests.iteration_spaces import space_of, unrolled, unrolling_for
from numba_grad.compiler.loop_nests.kernel_ir import LoopNest
from numba_grad.compiler.loop_nests.lowering import lower_group
from numba_grad.compiler.passes.simplify import simplify
from numba_grad.compiler.passes.split_sums import split_sums
from numba_grad.compiler.segment_memory import Place
from numba_grad.compiler.words import Errors
from numba_grad.graph.node import Node, argument, record
from numba_grad.graph.types import array_type
from numba_grad.graph.walk import substitute, toposort
from numba_grad.runtime.plan import ErrorSite
from tests.cuda.emulator import HostMemory, run_kernel

UNWRITTEN = 0xCD  # each byte of fresh memory
SITE = 7  # what stands for the operation that an index error names


@dataclass(slots=True)
class GraphRun:
    """The kernels of a graph, and the arrays that they leave."""

    kernels: list[LoopNest] = field(default_factory=list)
    emitted: list[Emitted] = field(default_factory=list)
    values: dict[Node, np.ndarray] = field(default_factory=dict)
    errors: np.ndarray = field(default_factory=lambda: np.zeros(4, np.int64))
    # Of each kernel: integers, and the elements that pointers point to, as they were before.
    arguments: list[list[int | np.ndarray]] = field(default_factory=list)
    is_run: bool = True

    def evaluate(self, f: Callable[..., Any], *arrays: np.ndarray) -> list[np.ndarray]:
        """The results of `f`; none if kernels are not to be run."""
        jitted = ng.jit(f)
        arguments, _ = jitted._split(arrays, {})
        traced = jitted._trace(arguments, [False] * len(arrays))
        self.values = {node: np.array(node.value, order="C") for node in traced.constants}
        self.values.update(
            (node, np.array(array, order="C") if self.is_run else array)
            for node, array in zip(traced.arguments, arrays, strict=True)
        )
        stand_ins = {node: argument(node.type) for node in self.values}
        self.values = {stand_ins[node]: value for node, value in self.values.items()}
        outputs = substitute(traced.graph_outputs, stand_ins)
        for transform in (simplify, split_sums):
            outputs = transform(outputs)
        order = toposort(outputs)
        with unrolled(unrolling_for([(node.shape, node.op.cost) for node in order])):
            for step in fuse(order, outputs, costs.COSTS, (), outputs):
                self.do(step)
        if not self.is_run:
            return []
        return [self.values[node] for node in outputs]

    def do(self, step: Group | LibraryOperation) -> None:
        if isinstance(step, LibraryOperation):
            self.values[step.node] = self.reference(step.node)
            return
        for node in step.roots:
            old = self.values[node.inputs[0]] if step.in_place else None
            self.values[node] = self.unwritten(node.shape, node.dtype) if old is None else old
        self.launch(step, {node: Place(node) for node in self.values})

    def reference(self, node: Node) -> np.ndarray:
        if not self.is_run:
            return self.unwritten(node.shape, node.dtype)
        assert node.op.reference is not None
        arrays = [self.values[x] for x in node.inputs]
        with np.errstate(all="ignore"):
            value = node.op.reference(*arrays, **node.params)
        return np.array(value, node.dtype, order="C").reshape(node.shape)

    def unwritten(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """Memory full of what no kernel computes, so that what is not written is found."""
        if not self.is_run:
            return np.broadcast_to(np.zeros((), dtype), shape)
        array = np.empty(shape, dtype)
        array.reshape(-1).view(np.uint8)[...] = UNWRITTEN
        return array

    def launch(self, group: Group, places: dict[Node, Place]) -> None:
        kernel = lower_group(group, places.get, reduction_blocks)
        if any(axis.extent == 0 for axis in kernel.kept):
            return
        partials: dict[object, np.ndarray] = {}
        for node in group.reduced if kernel.blocks > 1 else ():
            partials["partial", node] = self.unwritten((kernel.blocks, *node.shape), node.dtype)
        self.run(kernel, partials)
        for node in group.reduced if kernel.blocks > 1 else ():
            stand_in = argument(array_type((kernel.blocks, *node.shape), node.dtype))
            self.values[stand_in] = partials["partial", node]
            combined = record(node.op, (stand_in,), {"axes": (0,)})
            inner = {stand_in: Place(stand_in), combined: places[node]}
            self.launch(Group(space_of(stand_in.shape), (0,), [], [combined]), inner)

    def run(self, kernel: LoopNest, partials: dict[object, np.ndarray]) -> None:
        emitted = emit(kernel)
        self.kernels.append(kernel)
        self.emitted.append(emitted)
        if not self.is_run:
            return
        memory = HostMemory()
        words: list[int] = []
        arguments: list[int | np.ndarray] = []
        for word in kernel.words:
            pointed_to, offset = word.memory, 0
            if isinstance(pointed_to, Place):
                pointed_to, offset = pointed_to.memory, pointed_to.offset
            if pointed_to is None or (isinstance(pointed_to, ErrorSite)):
                words.append(word.value if pointed_to is None else SITE)
                arguments.append(words[-1])
                continue
            if isinstance(pointed_to, Errors):
                array = self.errors
            else:
                array = (
                    self.values[pointed_to]
                    if isinstance(pointed_to, Node)
                    else partials[pointed_to]
                )
            words.append(memory.add(array) + offset)
            arguments.append(array.reshape(-1)[offset // array.itemsize :].copy())
        self.arguments.append(arguments)
        run_kernel(emitted.source, *emitted.grid, words, memory)
