"""Graph -> plan: the whole way, read from top to bottom in `_Compiler`.

    passes     over the whole graph: what is written out, or put together where it is computed
               (`partition/`, `fusion/assemblies.py`)
    segments   short stretches of it; a graph of a few hundred nodes is one
               (`partition/segments.py`)
    programs   each distinct segment compiled once: simplify, fuse, lower, emit
               (`segment_program.py`)
    memory     what segments leave for each other, in one arena (`steps/plan_memory.py`)
    kernels    built from source, in parallel where many are missing (`building/build.py`)
    plan       the table of steps that the native engine replays (`steps/plan_writer.py`)

Imported when a plan is neither in memory nor on disk (`programs.py`).
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from numba_grad.compiler.building import compile_log
from numba_grad.compiler.compiled_program import CompiledProgram
from numba_grad.compiler.control_flow.program import control_program
from numba_grad.compiler.control_flow.writer import NO_OVERWRITING, BodySteps, Opened, Overwriting
from numba_grad.compiler.fusion.assemblies import with_assemblies
from numba_grad.compiler.loop_nests.iteration_spaces import (
    unroll_extent,
    unrolled_for,
)
from numba_grad.compiler.partition.broadcast_products import with_products_of_matrices
from numba_grad.compiler.partition.flat_graph import (
    ClosedGraph,
    FlatGraph,
    target_of,
    with_stored_operands,
)
from numba_grad.compiler.partition.joint_outputs import joint_outputs
from numba_grad.compiler.partition.last_rows import with_last_rows
from numba_grad.compiler.partition.parts_of_stacks import with_parts_of_stacks
from numba_grad.compiler.partition.roles import ALIASES, RENAMINGS
from numba_grad.compiler.partition.segment_graphs import SegmentGraph, segment_graphs
from numba_grad.compiler.partition.too_much_to_fuse import is_too_much_to_fuse
from numba_grad.compiler.partition.written_out_calls import with_long_calls_written_out
from numba_grad.compiler.partition.written_out_sums import with_sums_written_out
from numba_grad.compiler.segment_memory import External, Output, Place
from numba_grad.compiler.segment_program import SegmentProgram, compile_segment
from numba_grad.compiler.steps.overlap import Unit, overlapped
from numba_grad.compiler.steps.plan_memory import Instance, Of, PlanMemory
from numba_grad.compiler.steps.plan_writer import write_steps
from numba_grad.compiler.steps.schedule import Phase
from numba_grad.compiler.target import Target
from numba_grad.compiler.words import Pointer
from numba_grad.graph.collection import without_collection
from numba_grad.graph.node import Node, argument, record
from numba_grad.graph.types import CPU, MOST_WRITTEN_OUT, Type
from numba_grad.graph.walk import substitute, value_inputs
from numba_grad.locks import LocksByKey
from numba_grad.ops.control import item
from numba_grad.runtime.plan import JointOutputs, PlanBuilder

_Lowering = Callable[[FlatGraph], CompiledProgram]


def lowered(
    graph: FlatGraph,
    target: Target,
    *,
    is_run: bool,
    by_operations: _Lowering | None = None,
) -> CompiledProgram:
    """The program of a graph whose outputs are distinct and no inputs; `is_run`: at once;
    `by_operations`: what lowers a graph, with its assemblies, that is too much to fuse."""
    with compile_log.report() as report:
        if len(graph.nodes) > _LONG:
            report.watch()
        return without_collection(_compiled, graph, target, is_run, by_operations)


def _compiled(
    graph: FlatGraph,
    target: Target,
    is_run: bool,
    by_operations: _Lowering | None,
) -> CompiledProgram:
    return _Compiler(graph, target).compile(is_run, by_operations)


def program_of_control(
    call: Node,
    numbers: Sequence[int],
    places: Sequence[Place],
    has_own_memory: Sequence[bool],
    target: Target,
) -> SegmentProgram:
    """The program of one loop, branch or communication, see `control_program`."""
    compile_body = partial(_body_of, target=target)
    return control_program(call, numbers, places, has_own_memory, compile_body, target)


def _body_of(graph: FlatGraph, overwriting: Overwriting, target: Target) -> BodySteps:
    """The steps of a graph that is the body of a loop or a branch."""
    body = _Compiler(graph, target).body(overwriting)
    if body is None:
        body = _Compiler(graph, target).body(NO_OVERWRITING)
    assert body is not None
    return body


# Values from outside of a segment, beyond which those of one block have one pointer: a launch on a
# GPU has room for 500 words.
MOST_POINTERS = 256
_LONG = 1000  # nodes: what takes long about fewer is kernels
_making_segments = LocksByKey()
_MOST_SEGMENT_PROGRAMS = 1 << 12


class _Compiler:
    def __init__(self, graph: FlatGraph, target: Target) -> None:
        graph = with_long_calls_written_out(with_last_rows(graph))
        graph = with_products_of_matrices(with_sums_written_out(graph))
        graph = with_parts_of_stacks(graph)
        self.graph = graph = with_stored_operands(with_assemblies(graph))
        self.target = target
        self.nodes = nodes = graph.nodes
        self.output_types = [
            (type.shape, type.dtype) for k in graph.outputs if (type := nodes[k].type)
        ]
        self.output_number = {k: number for number, k in enumerate(graph.outputs)}
        self.memory = PlanMemory(graph, self.output_number)
        self.joint: dict[int, JointOutputs] = {}
        # Where each computed value is: a key of memory, the first element, and from which element
        # of the memory that counts. The last is no part of a segment: it goes into a pointer.
        self.places: dict[int, tuple[object, int, int]] = {
            k: (("input", number), 0, 0) for number, k in enumerate(graph.inputs)
        }
        self.places.update({k: (self.memory.assembly_key(k), 0, 0) for k in graph.assemblies})
        # The last segment that reads anything in an array of the plan's own.
        self.busy_until: dict[object, int] = {}
        # Of a body: outputs that may be in the memory of an input, and memory to which no products
        # are added.
        self.movable: set[int] = set()
        self.no_sums: set[object] = set()

    def compile(self, is_run: bool, by_operations: _Lowering | None) -> CompiledProgram:
        assembled = self.graph
        if self.target.joins_outputs:
            self.join_outputs()
        segments = segment_graphs(self.graph)
        if by_operations is not None and is_too_much_to_fuse(self.graph, segments):
            return by_operations(assembled)
        instances = self.overlapped(self.instances(segments))
        programs = {id(instance.program): instance.program for instance in instances}.values()
        sources = dict.fromkeys(
            source for program in programs for step in program.steps for source in step.sources
        )
        sources.update(dict.fromkeys(text for p in programs for text in p.spare_sources))
        arena = self.memory.arena(instances)
        # Of the states of a loop whose length nobody knows, most are never there.
        if is_run and not any(map(_keeps_any_number, self.graph.calls.values())):
            self.target.prepare(arena.nbytes)
        kernels = dict(zip(sources, self.target.build(list(sources)), strict=True))
        builder = PlanBuilder(len(self.graph.inputs), self.output_types)
        builder.joint = tuple(self.joint.values())
        builder.arena_bytes = arena.nbytes
        has_accesses = self.target.has_branches
        write_steps(builder, instances, kernels, self.memory, arena, has_accesses=has_accesses)
        # A program outlives the graph that it was made for, and must not keep it alive.
        return CompiledProgram(
            builder.build(), [instance.program for instance in instances], kernels
        )

    def join_outputs(self) -> None:
        """Have outputs that are views of one array computed as that array."""
        self.joint = joint_outputs(self.graph)
        for array, joint in self.joint.items():
            for number, _ in joint.places:
                del self.output_number[self.graph.outputs[number]]
            # It begins where its first part does.
            self.output_number[array] = joint.places[0][0]
        if self.joint:
            self.graph = replace(self.graph, outputs=list(self.output_number))

    def body(self, overwriting: Overwriting) -> BodySteps | None:
        """The steps of a graph that is the body of a loop or a branch; None if something that may
        be computed in place is, but in another one."""
        given = set(self.graph.inputs)
        is_straight = all(
            x.type.size <= MOST_WRITTEN_OUT for k, x in enumerate(self.nodes) if k not in given
        )
        segments = segment_graphs(self.graph, is_straight=is_straight)
        for number, result in overwriting.results.items():
            k, key = self.graph.inputs[number], ("input", number)
            if self.is_written_into_computed(self.graph.outputs[result]):
                continue
            self.movable.add(self.graph.outputs[result])
            readers = [segment.number for segment in segments if k in segment.arrays]
            self.busy_until[key] = max(readers, default=-1)
            if number not in overwriting.sums:
                self.no_sums.add(key)
        instances = self.instances(segments)
        in_place = set()
        for number, result in overwriting.results.items():
            memory, offset, origin = self.places[self.graph.outputs[result]]
            if memory == ("input", number) and offset == origin == 0:
                in_place.add(result)
            elif memory != ("output", result):
                return None
        instances = self.overlapped(instances)
        arena = self.memory.arena(instances)
        steps = []
        for instance in instances:
            opened = partial(self.opened, instance, arena.offsets)
            for step in instance.program.steps:
                words = [opened(word) if isinstance(word, Pointer) else word for word in step.words]
                steps.append(replace(step, words=words, memory=[]))
        return BodySteps(steps, arena.nbytes, frozenset(in_place))

    def is_written_into_computed(self, k: int) -> bool:
        """Whether a value is what assignments leave in an array that is computed by elements: never
        in the memory of an input."""
        if not self.graph.facts("overwrites", np.array([k]))[0]:
            return False
        while self.graph.facts("overwrites", np.array([k]))[0]:
            k = self.graph.reads(k)[0]
        return k not in self.graph.inputs and self.nodes[k].op.family == "elementwise"

    def opened(self, instance: Instance, offsets: dict[object, int], word: Pointer) -> Pointer:
        key = self.memory.key_of(instance, word.memory)
        offset = word.offset + self.memory.first_byte(instance, word.memory)
        match key:
            case ("input", number):
                return Pointer(Opened("argument", number), offset)
            case ("output", number):
                return Pointer(Opened("result", number), offset)
            case ("file", _):
                return word
        return Pointer(Opened("arena"), offset + offsets[key])

    # Segments to programs

    def instances(self, segments: Sequence[SegmentGraph]) -> list[Instance]:
        computed = {self.nodes[k].type.shape for x in segments for k in x.own.tolist()}
        with unrolled_for(computed):
            return [self.instance(segment) for segment in segments]

    def instance(self, segment: SegmentGraph) -> Instance:
        externals, places = self.outside_places(segment)
        memories = [externals[number][0] for number, *_ in places]
        writable = self.writable(segment, memories)
        in_assembly = self.graph.places
        has_own_memory = tuple(
            [
                (k in self.output_number and k not in self.movable) or k in in_assembly
                for k in segment.needed
            ]
        )
        unsummed = tuple([k for k in writable if memories[k] in self.no_sums])
        key = (
            self.target.name,
            segment.key,
            tuple(places),
            has_own_memory,
            writable,
            unsummed,
            unroll_extent(),
        )
        programs = self.graph.table.programs
        program = programs.get(key)
        if program is None:
            with _making_segments.lock_of((self.graph.table, key)):
                program = programs.get(key)
                if program is None:
                    program = self.compile_segment(
                        segment, places, has_own_memory, writable, unsummed
                    )
                    if len(programs) >= _MOST_SEGMENT_PROGRAMS:
                        programs.clear()
                    programs[key] = program
        instance = Instance(program, externals, segment.needed)
        for k, place, until in zip(
            segment.needed, program.outputs, segment.needed_until, strict=True
        ):
            memory = self.memory.key_of(instance, place.memory)
            # A result that is a value from outside, such as `1 * x[3]`, is where that begins.
            origin = (
                self.memory.first_byte(instance, place.memory) // self.nodes[k].type.dtype.itemsize
            )
            self.places[k] = (memory, place.offset, origin)
            # An assembly is never written over.
            if k in in_assembly:
                continue
            if isinstance(place.memory, Output) or memory in self.busy_until:
                self.busy_until[memory] = max(until, self.busy_until.get(memory, 0))
        return instance

    def outside_places(
        self, segment: SegmentGraph
    ) -> tuple[list[tuple[object, int]], list[tuple[int, int, Type]]]:
        """Of what comes from outside the pointers, each a memory and a byte, and for each value the
        number of its pointer, the elements from there on, and its type.

        There is one for each array, and for each place where a view of one begins. Where these are
        is no part of the key: each row of an array of observations is a pointer of its own, and so
        is each of the small values that other segments have left in blocks. So steps that do the
        same are one segment, wherever what they read comes from.
        """
        externals: list[tuple[object, int]] = []
        numbers: dict[tuple[object, int], int] = {}
        places: list[tuple[int, int, Type]] = []
        is_by_block = len(segment.outside) > MOST_POINTERS
        values = zip(segment.outside.tolist(), segment.arrays, segment.firsts, strict=True)
        for k, array, first in values:
            memory, offset, origin = self.places[array]
            # Devices have been settled: here everything is on the target.
            type = self.nodes[k].type.on(CPU)
            start = origin + first
            value: tuple[object, int] = (memory, start)
            if not is_by_block:
                value, start, offset = (array, first), start + offset, 0
            number = numbers.setdefault(value, len(externals))
            if number == len(externals):
                externals.append((memory, start * type.dtype.itemsize))
            places.append((number, offset, type))
        return externals, places

    def writable(self, segment: SegmentGraph, memories: list[object]) -> tuple[int, ...]:
        """Which arrays from outside the segment may write over: nothing in their memory is needed
        afterwards, and the segment has no other name for it."""
        if not segment.overwrites:
            return ()
        return tuple(
            [
                number
                for number, (k, array) in enumerate(
                    zip(segment.outside.tolist(), segment.arrays, strict=True)
                )
                if k == array
                and self.busy_until.get(memories[number]) == segment.number
                and memories.count(memories[number]) == 1
            ]
        )

    def compile_segment(
        self,
        segment: SegmentGraph,
        places: Sequence[tuple[int, int, Type]],
        has_own_memory: Sequence[bool],
        writable: Sequence[int],
        unsummed: Sequence[int],
    ) -> SegmentProgram:
        """The program of a segment, as a graph with arguments for what comes from outside."""
        call = self.graph.calls.get(int(segment.own[0]))
        if call is not None and call.op.name != "call":
            reads = segment.reads[: len(call.inputs)].tolist()
            return program_of_control(
                call,
                [self.nodes[k].params["number"] for k in segment.needed],
                [Place(External(places[k][0]), places[k][1]) for k in reads],
                has_own_memory,
                self.target,
            )
        local = [argument(type) for _, _, type in places]
        argument_places = {
            node: Place(External(number), offset)
            for node, (number, offset, _) in zip(local, places, strict=True)
        }
        may_be_written = [local[number] for number in writable]
        summed = [local[number] for number in writable if number not in unsummed]
        called: dict[Node, list[Node]] = {}
        reads = iter(segment.reads.tolist())
        for k, degree in zip(segment.own.tolist(), segment.degrees.tolist(), strict=True):
            node = self.nodes[k]
            inputs = tuple([local[next(reads)] for _ in range(degree)])
            call = self.graph.calls.get(k)
            if call is not None:
                if call not in called:
                    called[call] = _outputs_of_call(target_of(call), inputs)
                local.append(called[call][node.params["number"]])
            elif node.op.name in ALIASES:
                local.append(inputs[0])
            else:
                local.append(record(node.op, inputs, node.params))
        results = [local[number] for number in segment.needed_numbers.tolist()]
        return compile_segment(
            self.target, results, argument_places, has_own_memory, may_be_written, summed
        )

    # Messages under way

    def overlapped(self, instances: list[Instance]) -> list[Instance]:
        """The same, where messages are waited for with steps in the order of `overlap.py`."""
        if not any(step.phase is Phase.END for x in instances for step in x.program.steps):
            return instances
        result: list[Instance] = []
        has_rows = [any(step.control for step in x.program.steps) for x in instances]
        # Loops and branches stay where they are.
        for apart, run in itertools.groupby(zip(instances, has_rows, strict=True), lambda x: x[1]):
            members = [instance for instance, _ in run]
            result += members if apart else [self.merged(members)]
        return result

    def merged(self, members: list[Instance]) -> Instance:
        units = []
        for number, instance in enumerate(members):

            def name_of(memory: object, instance: Instance = instance) -> tuple[object, int]:
                return self.memory.key_of(instance, memory), self.memory.first_byte(
                    instance, memory
                )

            units += [Unit(step, name_of, number) for step in instance.program.steps]
        steps = []
        for unit in overlapped(units):
            step = unit.placed_step
            words = [
                Pointer(Of(unit.owner, word.memory), word.offset)
                if isinstance(word, Pointer)
                else word
                for word in step.words
            ]
            memory: list[Any] = [Of(unit.owner, own) for own in step.memory]
            steps.append(replace(step, words=words, memory=memory))
        spare = [text for x in members for text in x.program.spare_sources]
        graph = [node for x in members for node in x.program.graph]
        return Instance(SegmentProgram(steps, [], [], {}, spare, graph), [], [], members)


def _outputs_of_call(target: ClosedGraph, inputs: Sequence[Node]) -> list[Node]:
    """The outputs of the called function's graph over `inputs`, with the calls in it written
    out."""
    called: dict[Node, list[Node]] = {}

    def without_item(node: Node) -> Node | None:
        if node.op.name in RENAMINGS:
            return node.inputs[0]  # such as a move: here everything is on the target
        if node.op is not item:
            return None
        parent = node.inputs[0]
        if parent.op.name in ("custom", "pack"):
            return value_inputs(node)[0]
        if parent not in called:
            # As deep as jitted functions call each other.
            called[parent] = _outputs_of_call(target_of(parent), parent.inputs)
        return called[parent][node.params["number"]]

    given = dict(zip(target.arguments, inputs, strict=True))
    return substitute(target.outputs, given, without_item)


def _keeps_any_number(call: Node) -> bool:
    """Whether this keeps states of steps whose number is known when it has run."""
    return call.op.name == "loop_adjoint" and call.params["length"] is None
