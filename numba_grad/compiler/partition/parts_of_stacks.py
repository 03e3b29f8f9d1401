"""Stacks of many windows, as several stacks of few.

    x = stack([u[:-2], u[1:-1], u[2:], ...])    x0, x1 = stack([u[:-2], ...]), stack([...])
    sum(x * w, axis=0)                          sum(x0 * w[:13], axis=0) + sum(x1 * w[13:], axis=0)

Kernels read windows where they are along an axis that is unrolled, of up to 16 elements. A longer
stack, of 5 x 5 windows, would be copied together, and its cotangent taken apart again: 3 to 9 times
what a loop over the slices takes. So whatever is made window by window is made of each part: from
where windows are stacked, or one is stretched along that axis, as cotangents are, to sums, or
slices of single windows.
"""

import itertools
import math

import numpy as np

from numba_grad.compiler.loop_nests.iteration_spaces import UNROLLED_OPERATIONS
from numba_grad.compiler.partition.flat_graph import FlatGraph, FlatGraphWriter
from numba_grad.compiler.partition.roles import MOST_WINDOWS, REARRANGEMENTS, RENAMINGS
from numba_grad.graph.node import OPS, Node, argument, record
from numba_grad.immutable import NamedTuple
from numba_grad.ops.movement import slice_params

MOST_OF_PART = 16  # windows: an axis of so many is unrolled
FEWEST_ELEMENTS = 64  # of a window: of fewer, operations are single numbers
# What sums windows, and what joins two of these sums.
_JOINED_BY = {"sum": "add", "max": "maximum", "min": "minimum"}


def with_parts_of_stacks(graph: FlatGraph) -> FlatGraph:
    """The graph, in which stacks of many windows that nobody reads as a whole are several."""
    stacks = _stacks(graph)
    if not stacks:
        return graph
    split = _split_values(graph, stacks)
    count = sum(k in split for k in stacks)
    # Beyond, axes are unrolled less far, and all would be worse than a copy.
    if not count or _operations(graph, split) > count * UNROLLED_OPERATIONS:
        return graph
    return _Writing(graph, split).result()


def _stacks(graph: FlatGraph) -> list[int]:
    """Stacks of so many windows, few of which are more than windows."""
    degrees = np.diff(graph.starts)
    long = np.flatnonzero((degrees > MOST_OF_PART) & (degrees <= MOST_WINDOWS)).tolist()
    return [k for k in long if _is_stack_of_windows(graph, k)]


def _is_stack_of_windows(graph: FlatGraph, k: int) -> bool:
    node = graph.nodes[k]
    if node.op.name != "concatenate" or node.dtype.char not in "fdFD":
        return False
    parts = graph.reads(k)
    count = len(parts)
    extents = [n for n in graph.nodes[parts[0]].shape if n != 1]
    if node.shape[node.params["axis"]] != count or math.prod(extents) < FEWEST_ELEMENTS:
        return False
    if min(extents) <= MOST_OF_PART:
        return False  # channels, which are unrolled themselves: no faster, and three times the text
    return 2 * sum(_is_window(graph, x) for x in parts) > count


def _is_window(graph: FlatGraph, k: int) -> bool:
    """Whether a value is elements of another one, which are read there."""
    while graph.signatures[k]:
        name = graph.nodes[k].op.name
        if name not in ("reshape", *RENAMINGS):
            return name in REARRANGEMENTS
        (k,) = graph.reads(k)
    return False


def _split_values(graph: FlatGraph, stacks: list[int]) -> dict[int, int]:
    """What is computed window by window: of each value the axis of the windows, from the last."""
    nodes = graph.nodes
    axes = {k: nodes[k].params["axis"] - len(nodes[k].shape) for k in stacks}
    counts = {len(graph.reads(k)) for k in stacks}
    given = {*graph.inputs}
    readers: dict[int, list[int]] = {}
    for k, node in enumerate(nodes):
        if k in given:
            continue
        reads = graph.reads(k)
        if k not in axes:
            axis = _followed(node, [nodes[x] for x in reads], [axes.get(x) for x in reads])
            if axis is None and node.op.name == "broadcast_to":
                axis = _stretched(node, nodes[reads[0]], counts)
            if axis is not None:
                axes[k] = axis
        for x in reads:
            if x in axes:
                readers.setdefault(x, []).append(k)
    split: dict[int, int] = {}
    whole = {*graph.outputs}
    for k in sorted(axes, reverse=True):
        if k in whole or k not in readers:
            continue
        others = [x for x in readers[k] if x not in split or x in stacks]
        if all(_reads_windows(nodes[x], nodes[k], axes[k]) for x in others):
            split[k] = axes[k]
    return split


def _followed(node: Node, inputs: list[Node], axes: list[int | None]) -> int | None:
    """The axis of `node` that is one of its inputs, `axes` of them, element by element."""
    found = {axis for axis in axes if axis is not None}
    if len(found) != 1:
        return None
    (axis,) = found
    name, shape = node.op.name, node.shape
    if node.op.family == "elementwise" or name in (*RENAMINGS, "broadcast_to"):
        return axis
    number = axis + len(inputs[0].shape)
    if name == "transpose":
        return node.params["axes"].index(number) - len(shape)
    if name == "reshape":
        old = inputs[0].shape
        before = math.prod(old[:number])
        for k, n in enumerate(shape):
            if n == old[number] and math.prod(shape[:k]) == before:
                return k - len(shape)
    return None


def _stretched(node: Node, x: Node, counts: set[int]) -> int | None:
    """The axis along which all windows of `node` are the same."""
    for axis in range(-len(node.shape), 0):
        is_one = -axis > len(x.shape) or x.shape[axis] == 1
        if is_one and node.shape[axis] in counts and node.type.size // node.shape[axis] > 1:
            return axis
    return None


def _reads_windows(node: Node, x: Node, axis: int) -> bool:
    """Whether `node` reads `x` as one window, as a sum of windows, or as a number for each."""
    if node.dtype != x.dtype:
        return False
    number = axis + len(x.shape)
    if node.op.name == "slice":
        return node.params["sizes"][number] == 1
    if node.op.name not in _JOINED_BY:
        return False
    return number in node.params["axes"] or node.type.size == x.shape[axis]


def _operations(graph: FlatGraph, split: dict[int, int]) -> int:
    """What kernels have of all these, in additions."""
    nodes = [(graph.nodes[k], axis) for k, axis in split.items()]
    return sum(int(x.op.cost) * x.shape[axis] for x, axis in nodes if x.op.family == "elementwise")


class _Part(NamedTuple):
    """Some windows of the value at a position, in a row along an axis, from the last."""

    value: int
    axis: int
    start: int
    stop: int


class _Writing:
    """Writes the graph, with values of `split` as a list of parts each."""

    def __init__(self, graph: FlatGraph, split: dict[int, int]) -> None:
        self.graph, self.split = graph, split
        self.writer = FlatGraphWriter(graph.table)
        self.place: dict[int, int] = {}  # of each other node
        self.parts: dict[_Part, int] = {}

    def result(self) -> FlatGraph:
        graph, places = self.graph, self.place
        for k, node in enumerate(graph.nodes):
            if k in self.split:
                continue  # written where a part is read
            reads = graph.reads(k)
            axis = self.split.get(reads[0]) if reads else None
            if axis is not None:
                read = self.slice if node.op.name == "slice" else self.reduced
                places[k] = read(node, reads[0], axis)
                continue
            given, call = [places[x] for x in reads], graph.calls.get(k)
            places[k] = self.writer.append(node, given, int(graph.signatures[k]), call)
        inputs, outputs = ([places[k] for k in ends] for ends in (graph.inputs, graph.outputs))
        return self.writer.graph(inputs, outputs)

    def put(self, name: str, reads: list[int], **params: object) -> int:
        given = tuple([argument(self.writer.nodes[x].type) for x in reads])
        return self.writer.append(record(OPS[name], given, params), reads)

    def slice(self, node: Node, k: int, axis: int) -> int:
        """Of one window."""
        params = dict(node.params)
        starts = list(params["starts"])
        part = next(x for x in self.parts_of(k, axis) if starts[axis] < x.stop)
        starts[axis] -= part.start
        return self.put("slice", [self.part(part)], **{**params, "starts": tuple(starts)})

    def reduced(self, node: Node, k: int, axis: int) -> int:
        name, axes = node.op.name, node.params["axes"]
        of_parts = [self.put(name, [self.part(x)], **node.params) for x in self.parts_of(k, axis)]
        number = axis + len(self.graph.nodes[k].shape)
        if number not in axes:
            return self.put("concatenate", of_parts, axis=number - sum(x < number for x in axes))
        total = of_parts[0]
        for x in of_parts[1:]:
            total = self.put(_JOINED_BY[name], [total, x])
        return total

    def parts_of(self, k: int, axis: int) -> list[_Part]:
        count = self.graph.nodes[k].shape[axis]
        parts = -(-count // MOST_OF_PART)
        ends = [count * i // parts for i in range(parts + 1)]
        return [_Part(k, axis, start, stop) for start, stop in itertools.pairwise(ends)]

    def part(self, wanted: _Part) -> int:
        """Some windows of a value."""
        # A chain of values may be as long as a loop: those that are made first wait on a stack.
        waiting = [wanted]
        while waiting:
            part = waiting[-1]
            if part not in self.parts:
                made_of = self.made_of(part)
                missing = [x for x in made_of if x not in self.parts]
                if missing:
                    waiting += missing
                    continue
                self.parts[part] = self.made(part, [self.parts[x] for x in made_of])
            waiting.pop()
        return self.parts[wanted]

    def made_of(self, part: _Part) -> list[_Part]:
        """The parts of other values that one is made of."""
        k = part.value
        if k not in self.split or self.is_stack(k):
            return []
        is_moved = self.graph.nodes[k].op.name in ("transpose", "reshape")
        return [
            part._replace(value=x, axis=self.split[x] if is_moved else part.axis)
            for x in self.graph.reads(k)
        ]

    def made(self, part: _Part, reads: list[int]) -> int:
        k, axis, start, stop = part
        node = self.graph.nodes[k]
        shape, params = node.shape, node.params
        if k not in self.split:
            if -axis > len(shape) or shape[axis] == 1:
                return self.place[k]
            starts = _with((0,) * len(shape), axis, start)
            sizes = _with(shape, axis, stop - start)
            region = slice_params(starts, sizes, (1,) * len(shape))
            return self.put("slice", [self.place[k]], **region)
        if self.is_stack(k):
            reads = [self.place[x] for x in self.graph.reads(k)[start:stop]]
        elif "shape" in params:
            params = {**params, "shape": _with(shape, axis, stop - start)}
        return self.put(node.op.name, reads, **params)

    def is_stack(self, k: int) -> bool:
        return self.graph.nodes[k].op.name == "concatenate"


def _with(numbers: tuple[int, ...], axis: int, number: int) -> tuple[int, ...]:
    result = list(numbers)
    result[axis] = number
    return tuple(result)
