"""Graph -> plan: the whole way, read from top to bottom in `compile_program`.

order     the nodes that compute something, as recorded
segments  short stretches of them (segments.py); a graph of a few hundred nodes is one
programs  each distinct segment compiled once (segment_program.py): simplify, fuse, lower, emit
memory    lifetimes of what segments leave for each other, in one arena (memory.py)
kernels   built from source, in parallel where many are missing (build.py)
plan      the table of steps that the native engine replays (runtime/plan.py)
"""

import itertools
import threading
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from numba_grad.compiler import build
from numba_grad.compiler.fuse import ASSIGNMENTS
from numba_grad.compiler.library_steps import Pointer
from numba_grad.compiler.lower import Place
from numba_grad.compiler.memory import Lifetimes
from numba_grad.compiler.segment_program import (
    External,
    Output,
    SegmentProgram,
    Small,
    Temporary,
    compile_segment,
)
from numba_grad.compiler.segments import cut
from numba_grad.errors import InternalError
from numba_grad.graph.node import Node, argument, record
from numba_grad.graph.walk import substitute, toposort
from numba_grad.ops.control import item
from numba_grad.runtime.plan import ErrorSite, Plan, PlanBuilder

# Never a step of their own: each segment that uses them computes them at the place of use.
FREE_FAMILIES = ("movement", "literal", "iota")
# A call is computed as its items, all by one segment.
ALIASES = ("detach", "identity", "checkpoint", "item", "custom", "pack", "call")


@dataclass(slots=True)
class Instance:
    """One occurrence of a segment in a plan."""

    program: SegmentProgram
    externals: list[
        tuple[Node, int]
    ]  # nodes computed elsewhere, and from which byte on: one for each pointer
    results: list[Node]


@dataclass(slots=True)
class CompiledProgram:
    """A plan, and how it came about."""

    plan: Plan
    segments: list[SegmentProgram]  # in the order of the plan, repeated ones repeated
    kernels: dict[str, build.Kernel]  # by source


def compile_program(inputs: Sequence[Node], outputs: Sequence[Node]) -> CompiledProgram:
    """The plan that computes `outputs`, distinct nodes that are not inputs, from the values of
    `inputs`."""
    return _Compiler(inputs, outputs).compile()


_segment_programs: dict[tuple, SegmentProgram] = {}
_segment_lock = threading.RLock()


class _Compiler:
    def __init__(self, inputs: Sequence[Node], outputs: Sequence[Node]) -> None:
        self.inputs = list(inputs)
        self.outputs = list(outputs)
        self.input_number = {node: k for k, node in enumerate(inputs)}
        self.output_number = {node: k for k, node in enumerate(outputs)}
        self.sources_of: dict[Node, tuple[Node, ...]] = {}
        # Where each computed value is: a key of memory, and the first element.
        self.places: dict[Node, tuple[object, int]] = {
            node: (("input", k), 0) for node, k in self.input_number.items()
        }

    def compile(self) -> CompiledProgram:
        order = self.computing_nodes()
        segments = self.segments(order)
        needed = self.needed_outside(segments)
        instances = [
            self.instance(segment, needed[number]) for number, segment in enumerate(segments)
        ]
        sources = dict.fromkeys(
            step.source for instance in instances for step in instance.program.steps
        )
        kernels = dict(zip(sources, build.build_all(list(sources)), strict=True))
        plan = self.plan(instances, kernels)
        # A program outlives the graph that it was made for, and must not keep it alive.
        return CompiledProgram(plan, [instance.program for instance in instances], kernels)

    # Order and segments

    def computing_nodes(self) -> list[Node]:
        """The nodes that some step computes, as recorded."""
        seen = set(self.input_number)
        stack = list(self.outputs)
        result: list[Node] = []
        while stack:
            node = stack.pop()
            if node in seen:
                continue
            seen.add(node)
            stack += value_inputs(node)
            if self.is_computed(node):
                result.append(node)
        result.sort(key=_serial)
        return result

    def segments(self, order: list[Node]) -> list[list[Node]]:
        result: list[list[Node]] = []
        run: list[Node] = []
        called: Node | None = None
        for node in order:
            call = node.inputs[0] if node.op.name == "item" else None
            if call is None:
                run.append(node)
            elif call is called:
                result[-1].append(node)
            else:
                result += [*self.cut_run(run), [node]]
                run = []
            called = call
        return result + self.cut_run(run)

    def cut_run(self, run: list[Node]) -> list[list[Node]]:
        if not run:
            return []
        number = {node: k for k, node in enumerate(run)}
        edges = [
            (number[x], k)
            for k, node in enumerate(run)
            for y in value_inputs(node)
            for x in self.sources(y)
            if x in number
        ]
        table = np.array(edges, np.int64).reshape(-1, 2)
        starts = cut([_signature(node) for node in run], table)
        return [run[a:b] for a, b in itertools.pairwise(starts)]

    def sources(self, node: Node) -> tuple[Node, ...]:
        """The computed nodes and inputs that `node` stands for: itself, or what a free node is made
        of."""
        found = self.sources_of.get(node)
        if found is not None:
            return found
        for current in toposort([node], stop=self.is_computed_or_known):
            if self.is_computed(current):
                self.sources_of[current] = (current,)
            else:
                parts = [s for x in value_inputs(current) for s in self.sources_of[x]]
                self.sources_of[current] = tuple(dict.fromkeys(parts))
        return self.sources_of[node]

    def is_computed(self, node: Node) -> bool:
        """Whether it has memory, rather than being computed at each use."""
        if node in self.input_number or node in self.output_number:
            return True
        op = node.op
        if op.name == "item":
            return node.inputs[0].op.name == "call"
        if op.name in ASSIGNMENTS:
            # A chain of them would be computed again, from its start, in each segment that reads
            # it.
            return True
        return op.family not in FREE_FAMILIES and op.name not in ALIASES

    def is_computed_or_known(self, node: Node) -> bool:
        return node in self.sources_of or self.is_computed(node)

    def needed_outside(self, segments: list[list[Node]]) -> list[list[Node]]:
        """For each segment its nodes that a later one reads, or that are outputs, in order."""
        segment_of = {node: k for k, segment in enumerate(segments) for node in segment}
        needed: list[dict[Node, None]] = [{} for _ in segments]
        for k, segment in enumerate(segments):
            for node in segment:
                if node in self.output_number:
                    needed[k][node] = None
                for y in value_inputs(node):
                    for x in self.sources(y):
                        home = segment_of.get(x, k)
                        if home != k:
                            needed[home][x] = None
        position = {node: p for segment in segments for p, node in enumerate(segment)}
        return [sorted(nodes, key=position.__getitem__) for nodes in needed]

    # Segments to programs

    def instance(self, segment: list[Node], needed: list[Node]) -> Instance:
        local = _LocalGraph(self, segment, needed)
        with _segment_lock:
            program = _segment_programs.get(local.key)
            if program is None:
                program = _segment_programs[local.key] = local.compile()
        instance = Instance(program, local.externals, needed)
        for node, place in zip(needed, program.outputs, strict=True):
            self.places[node] = (self.memory_key(instance, place.source), place.offset)
        return instance

    # Memory and plan

    def plan(self, instances: list[Instance], kernels: dict[str, build.Kernel]) -> Plan:
        builder = PlanBuilder(len(self.inputs), [(node.shape, node.dtype) for node in self.outputs])
        lifetimes = self.lifetimes(instances)
        offsets, builder.arena_bytes = lifetimes.allocate()
        templates: dict[int, _Template] = {}
        for instance in instances:
            template = templates.get(id(instance.program))
            if template is None:
                template = _Template(instance.program, kernels, builder)
                templates[id(instance.program)] = template
            self.append(builder, instance, template, offsets)
        return builder.build()

    def memory_key(self, instance: Instance, source: object) -> object:
        """The program-wide name of a segment's memory."""
        match source:
            case External(number):
                return self.places[instance.externals[number][0]][0]
            case Output(number):
                node = instance.results[number]
                if node in self.output_number:
                    return ("output", self.output_number[node])
                return (id(instance), number)
            case Small(dtype):
                return (id(instance), dtype)
            case Temporary(number):
                return (id(instance), "temporary", number)
        raise InternalError(f"plan: no memory called {source!r}")

    def lifetimes(self, instances: list[Instance]) -> Lifetimes:
        lifetimes = Lifetimes()
        number = 0
        sizes: dict[object, int] = {}
        for instance in instances:
            program = instance.program
            for dtype, count in program.small.items():
                sizes[id(instance), dtype] = count * dtype.itemsize
            for k, node in enumerate(instance.results):
                sizes[id(instance), k] = node.type.nbytes
            for k, nbytes in enumerate(program.temporaries):
                sizes[id(instance), "temporary", k] = nbytes
            for step in program.steps:
                for source in step.memory:
                    key = self.memory_key(instance, source)
                    if isinstance(key, tuple) and key[0] not in ("input", "output"):
                        lifetimes.use(key, number, sizes)
                number += 1
        return lifetimes

    def append(
        self,
        builder: PlanBuilder,
        instance: Instance,
        template: "_Template",
        offsets: dict[object, int],
    ) -> None:
        relocations = template.relocations.copy()
        for row, source in template.memory:
            key = self.memory_key(instance, source)
            kind = key[0]  # type: ignore[index]
            if isinstance(source, External):
                relocations[row, 2] += instance.externals[source.number][1]
            if kind == "input":
                relocations[row, 1] = builder.input(key[1])  # type: ignore[index]
            elif kind == "output":
                relocations[row, 1] = builder.output(key[1])  # type: ignore[index]
            else:
                relocations[row, 1] = builder.arena
                relocations[row, 2] += offsets[key]
        builder.block(template.steps, template.words, relocations)


class _Template:
    """The words of a segment's steps, with the places of its memory left open."""

    def __init__(
        self, program: SegmentProgram, kernels: dict[str, build.Kernel], builder: PlanBuilder
    ) -> None:
        steps: list[tuple[int, int, int, int]] = []
        words: list[int] = []
        relocations: list[tuple[int, int, int]] = []
        self.memory: list[tuple[int, object]] = []
        for step in program.steps:
            kernel = builder.kernel(kernels[step.source])
            steps.append((kernel, len(words), step.tasks, step.grain))
            for word in step.words:
                match word:
                    case int():
                        words.append(word)
                        continue
                    case "errors":
                        relocations.append((len(words), builder.errors, 0))
                    case ("site", operation, axis):
                        words.append(builder.site(ErrorSite("index", operation, axis)))
                        continue
                    case ErrorSite():
                        words.append(builder.site(word))
                        continue
                    case ("symbol", name):
                        relocations.append((len(words), builder.symbol(name), 0))
                    case Pointer(source, offset):
                        self.memory.append((len(relocations), source))
                        relocations.append((len(words), 0, offset))
                    case _:
                        raise InternalError(f"plan: no word for {word!r}")
                words.append(0)
        self.steps = np.array(steps, np.int64).reshape(-1, 4)
        self.words = np.array(words, np.int64)
        self.relocations = np.array(relocations, np.int64).reshape(-1, 3)


class _LocalGraph:
    """A segment seen from inside: its key, and if that is new, the graph with arguments for what
    comes from outside."""

    def __init__(self, compiler: _Compiler, segment: list[Node], needed: list[Node]) -> None:
        self.compiler = compiler
        self.segment = segment
        self.needed = needed
        self.inside = set(segment)
        self.number: dict[Node, int] = {}
        self.order: list[Node] = []  # local nodes and outside ones, as numbered
        self.externals: list[tuple[Node, int]] = []
        self.external_number: dict[object, int] = {}
        self.outside_places: dict[Node, Place] = {}
        self.called: dict[Node, list[Node]] = {}
        entries: list[object] = []
        for node in segment:
            for x in value_inputs(node):
                self.add(x, entries)
            self.enter(node, entries)
        own_memory = tuple(node in compiler.output_number for node in needed)
        self.has_own_memory = own_memory
        self.key = (
            tuple(entries),
            tuple([self.number[node] for node in needed]),
            own_memory,
        )

    def add(self, node: Node, entries: list[object]) -> None:
        """Number `node` and the free nodes that it is made of."""
        if node in self.number:
            return
        stack = [node]
        while stack:
            current = stack[-1]
            if current in self.number:
                stack.pop()
                continue
            if self.is_outside(current):
                self.enter_outside(current, current, 0, entries)
                stack.pop()
                continue
            view = contiguous_view(current) if current.op.name in VIEWS else None
            if view is not None and self.is_array_outside(view[0]):
                self.enter_outside(current, *view, entries)
                stack.pop()
                continue
            missing = [x for x in value_inputs(current) if x not in self.number]
            if missing:
                stack += missing
            else:
                self.enter(current, entries)
                stack.pop()

    def is_outside(self, node: Node) -> bool:
        return node not in self.inside and self.compiler.is_computed(node)

    def enter(self, node: Node, entries: list[object]) -> None:
        inputs = tuple([self.number[x] for x in value_inputs(node)])
        self.number[node] = len(self.order)
        self.order.append(node)
        if self.is_item_of_call(node):
            call = node.inputs[0]
            entries.append((call.params["target"], node.params["number"], inputs))
        elif node.op.name in ALIASES:
            entries.append(("alias", inputs))
        elif node.params:
            entries.append((node.op, tuple(node.params.items()), inputs))
        else:
            entries.append((node.op, inputs))

    def is_array_outside(self, node: Node) -> bool:
        """Whether it lies in memory of its own, outside of this segment: not in a block of small
        values."""
        if not self.is_outside(node):
            return False
        memory, _ = self.compiler.places[node]
        return not isinstance(memory[1], np.dtype)  # type: ignore[index]

    def enter_outside(self, node: Node, base: Node, start: int, entries: list[object]) -> None:
        """Number `node`, which lies in memory from element `start` of `base` on.

        Where it starts is not part of the key: each row of an array of observations is a pointer of
        its own, so that the
        steps that read them are one segment.
        """
        memory, offset = self.compiler.places[base]
        pointer = (memory, start)
        number = self.external_number.get(pointer)
        if number is None:
            number = self.external_number[pointer] = len(self.externals)
            self.externals.append((base, start * base.dtype.itemsize))
        self.outside_places[node] = Place(External(number), offset)
        self.number[node] = len(self.order)
        self.order.append(node)
        entries.append((number, offset, node.type))

    def compile(self) -> SegmentProgram:
        built: dict[Node, Node] = {}
        places: dict[Node, Place] = {}
        for node in self.order:
            outside = self.outside_places.get(node)
            if outside is not None:
                built[node] = argument(node.type)
                places[built[node]] = outside
                continue
            inputs = tuple([built[x] for x in value_inputs(node)])
            if self.is_item_of_call(node):
                built[node] = self.inlined(node, inputs)
            elif node.op.name in ALIASES:
                built[node] = inputs[0]
            else:
                built[node] = record(node.op, inputs, node.params)
        results = [built[node] for node in self.needed]
        return compile_segment(results, places, self.has_own_memory)

    def is_item_of_call(self, node: Node) -> bool:
        return node.op.name == "item" and node.inputs[0].op.name == "call"

    def inlined(self, node: Node, inputs: tuple[Node, ...]) -> Node:
        """A result of a call, as the called function's graph over the caller's values."""
        call = node.inputs[0]
        if call not in self.called:
            self.called[call] = _outputs_of_call(call.params["target"], inputs)
        return self.called[call][node.params["number"]]


def _outputs_of_call(target: Any, inputs: Sequence[Node]) -> list[Node]:
    """The outputs of the called function's graph over `inputs`, with the calls in it written
    out."""
    called: dict[Node, list[Node]] = {}

    def without_item(node: Node) -> Node | None:
        if node.op is not item:
            return None
        parent = node.inputs[0]
        if parent.op.name in ("custom", "pack"):
            return value_inputs(node)[0]
        if parent not in called:
            # As deep as jitted functions call each other.
            called[parent] = _outputs_of_call(parent.params["target"], parent.inputs)
        return called[parent][node.params["number"]]

    given = dict(zip(target.arguments, inputs, strict=True))
    return substitute(target.outputs, given, without_item)


VIEWS = ("slice", "reshape")


def contiguous_view(node: Node) -> tuple[Node, int] | None:
    """If `node` is made by slices and reshapes and is one run of elements of another array: that,
    and the first element."""
    start = 0
    sliced = False
    while node.op.name in VIEWS:
        (x,) = node.inputs
        if node.op.name == "slice":
            if not _is_one_run(node.shape, x.shape, node.params["steps"]):
                return None
            sliced = True
            stride = 1
            for first, n in zip(reversed(node.params["starts"]), reversed(x.shape), strict=True):
                start += first * stride
                stride *= n
        node = x
    return (node, start) if sliced else None


def _is_one_run(part: tuple[int, ...], whole: tuple[int, ...], steps: tuple[int, ...]) -> bool:
    """Whether a slice of this shape lies in one piece: single elements, then one range, then whole
    axes."""
    if any(step != 1 and n > 1 for step, n in zip(steps, part, strict=True)):
        return False
    ranges = [axis for axis, n in enumerate(part) if n != 1]
    first = ranges[0] if ranges else len(part)
    return part[first + 1 :] == whole[first + 1 :]


def value_inputs(node: Node) -> tuple[Node, ...]:
    """The inputs that the value of `node` depends on."""
    if node.op is item:
        parent = node.inputs[0]
        if parent.op.name in ("custom", "pack"):
            # Their last inputs are the results.
            first = len(parent.inputs) - len(parent.type.items)
            return (parent.inputs[first + node.params["number"]],)
        return parent.inputs
    return node.inputs


def _serial(node: Node) -> int:
    return node.serial


_signatures: dict[tuple, int] = {}


def _signature(node: Node) -> int:
    """What a node does, as a number that is the same in every process."""
    key = (node.op, tuple(node.params.items()), node.type)
    found = _signatures.get(key)
    if found is None:
        if len(_signatures) > 1 << 16:
            _signatures.clear()
        found = _signatures[key] = zlib.crc32(f"{node.op.name} {node.params} {node.type}".encode())
    return found
