"""A kernel's tangent: each statement, then what it does to the tangents."""

from collections.abc import Collection
from dataclasses import replace

from numba_grad.compiler.numba_functions.adjoint import filled
from numba_grad.compiler.numba_functions.analyses import Activity, varied, without_unused
from numba_grad.compiler.numba_functions.builder import Builder
from numba_grad.compiler.numba_functions.regions import (
    Allocate,
    Define,
    Load,
    Mark,
    Memory,
    Pop,
    Push,
    RegionKernel,
    Rewind,
    Scalar,
    Statement,
    Store,
    Swap,
    Value,
    lengths,
    with_regions,
)
from numba_grad.compiler.numba_functions.scalar_operations import OPERATIONS
from numba_grad.compiler.numba_functions.tapes import of_tangents


def tangent_kernel(
    kernel: RegionKernel, sources: Collection[int], results: Collection[int]
) -> RegionKernel:
    """Inputs: those of the kernel, then the tangents of those at the places `sources`. Outputs: the
    tangents of the outputs at the places `results`, then those of the kernel that are needed and
    tangents of others."""
    directions = [kernel.inputs[k] for k in sorted(sources)]
    activity = varied(kernel.body, directions)
    writer = _Tangent(kernel.builder.copy(), activity)
    given = [writer.tangent(memory) for memory in directions]
    body = writer.region(kernel.body)
    first: list[Statement] = []
    tangents: list[Memory] = []
    with writer.builder.region(first):
        for k in sorted(results):
            output = kernel.outputs[k]
            dot = writer.tangent(output)
            if output not in activity.memories:
                filled(writer.builder, dot, 0.0)
            tangents.append(dot)
    variables: list[Statement] = [Allocate(m, (), 0.0) for m in tangents if not m.rank]
    others = [m for m in kernel.outputs if m.rank]
    # Tangents of working memory.
    others += [writer.tangent(m) for m in others if m in activity.memories]
    others = [m for m in others if m not in tangents]
    shapes = dict(kernel.shapes)
    shapes |= {writer.tangent(m): shape for m, shape in kernel.shapes.items()}
    outputs = [*tangents, *others]
    used = [*tangents, *lengths(outputs, shapes)]
    body = without_unused([*variables, *first, *body], used)
    name, inputs = f"{kernel.name}_tangent", [*kernel.inputs, *given]
    return RegionKernel(name, inputs, outputs, body, writer.builder, shapes)


class _Tangent:
    def __init__(self, builder: Builder, activity: Activity) -> None:
        self.builder = builder
        self.activity = activity
        self._memories: dict[Memory, Memory] = {}
        self._scalars: dict[Scalar, Scalar] = {}

    def tangent(self, memory: Memory) -> Memory:
        """Where the tangent of a memory is."""
        found = self._memories.get(memory)
        if found is None:
            found = self.builder.memory(f"{memory.name}_dot", memory.dtype, memory.rank)
            self._memories[memory] = found
        return found

    def of(self, value: Value) -> Value:
        """The tangent of a value."""
        return self._scalars.get(value, 0.0) if isinstance(value, Scalar) else 0.0

    def fresh(self, scalar: Scalar) -> Scalar:
        self._scalars[scalar] = self.builder.scalar(scalar.dtype, f"{scalar.name}_dot")
        return self._scalars[scalar]

    def region(self, statements: list[Statement]) -> list[Statement]:
        result: list[Statement] = []
        with self.builder.region(result):
            for s in statements:
                self.statement(s)
        return result

    def statement(self, s: Statement) -> None:
        body = self.builder.body
        memories, scalars = self.activity.memories, self.activity.scalars
        body.append(with_regions(s, self.region))
        if isinstance(s, Define) and s.target in scalars:
            self._define(s)
        elif isinstance(s, Load) and s.target in scalars:
            body.append(Load(self.fresh(s.target), self.tangent(s.memory), s.indices))
        elif isinstance(s, Store) and s.memory in memories:
            value = self.of(s.value)
            if not s.is_added or isinstance(value, Scalar):
                body.append(replace(s, memory=self.tangent(s.memory), value=value))
        elif isinstance(s, Allocate) and s.memory in memories:
            fill = None if s.fill is None else 0.0
            body.append(Allocate(self.tangent(s.memory), s.shape, fill))
        elif isinstance(s, Swap) and s.memories[0] in memories:
            names = tuple(map(self.tangent, s.memories)), tuple(map(self.tangent, s.others))
            body.append(Swap(*names))
        elif isinstance(s, Push) and s.value in scalars:
            body.append(Push(of_tangents(s.tape), self.of(s.value), f"{s.pair}_dot"))
        elif isinstance(s, Pop) and s.target in scalars:
            body.append(Pop(self.fresh(s.target), of_tangents(s.tape), f"{s.pair}_dot"))
        elif isinstance(s, Mark | Rewind):
            body.append(type(s)(of_tangents(s.tape), f"{s.name}_dot"))

    def _define(self, s: Define) -> None:
        builder = self.builder
        total: Value | None = None
        slopes = OPERATIONS[s.operation].slopes or ()
        for slope, argument in zip(slopes, s.arguments, strict=True):
            if slope is None or argument not in self.activity.scalars:
                continue
            part = slope(builder, self.of(argument), s.arguments, s.target)
            total = part if total is None else builder.define("add", total, part)
        if total is not None:
            builder.body.append(Define(self.fresh(s.target), "positive", (total,)))
