"""Plans with the steps of all operations of a graph, those of the functions that it calls, and of
branches: between rows that lead past those that are not chosen. Of a loop the body is compiled as a
whole."""

from array import array
from collections.abc import Hashable, Iterator, Sequence

import numpy as np

from numba_grad.compiler import cpu_target
from numba_grad.compiler.building import build
from numba_grad.compiler.building.engine_build import build_kernels
from numba_grad.compiler.compiled_program import CompiledProgram
from numba_grad.compiler.first_tier.recipes import CONSTANTS, Address, Recipe, Recipes, Wanted
from numba_grad.compiler.operation_kernels import WALK
from numba_grad.compiler.partition.flat_graph import (
    ClosedGraph,
    FlatGraph,
    calls_of,
    graph_of,
    once_run,
)
from numba_grad.compiler.partition.last_rows import with_last_rows
from numba_grad.compiler.segment_memory import External, Place
from numba_grad.compiler.segment_program import SegmentProgram
from numba_grad.fresh_thread import imported
from numba_grad.graph.node import Node
from numba_grad.runtime.plan import Control, PlanBuilder

_Known = tuple[Address, int]  # where a value is, and the number of its layout


def lowered(graph: FlatGraph) -> CompiledProgram:
    """The plan that computes the outputs of a graph operation by operation."""
    return _Lowering(with_last_rows(graph)).program()


class _Lowering:
    def __init__(self, graph: FlatGraph) -> None:
        self.graph = graph
        types = [graph.nodes[k].type for k in graph.outputs]
        self.builder = PlanBuilder(len(graph.inputs), [(t.shape, t.dtype) for t in types])
        self.output_of = {k: self.builder.output(number) for number, k in enumerate(graph.outputs)}
        self.repeated: set[str] = set()  # kernels that are run again and again
        self.programs: dict[Hashable, SegmentProgram] = {}  # of loops
        # What is known of a value: where it is, and the number of its layout.
        self.places: list[Address] = [(0, 0)] * len(graph.nodes)
        self.layout_of: list[int] = [-1] * len(graph.nodes)
        self.maker = Recipes(self.builder)
        self.layouts = self.maker.layouts
        self.recipes: dict[Hashable, Recipe] = {}
        self.steps, self.words, self.relocations = array("q"), array("q"), array("q")

    def program(self) -> CompiledProgram:
        graph = self.graph
        for number, k in enumerate(graph.inputs):
            self.places[k] = self.builder.input(number), 0
            self.layout_of[k] = self.layouts.contiguous(graph.nodes[k].type)
        self.append_operations()
        kernels = self.built()
        self.append()
        return CompiledProgram(self.builder.build(), [], kernels)

    def append_operations(self) -> None:
        """The steps of all operations of a graph."""
        graph = self.graph
        calls = calls_of(graph)
        edges, starts = graph.edges.tolist(), graph.starts.tolist()
        signatures = graph.signatures.tolist()
        places, layout_of, output_of = self.places, self.layout_of, self.output_of
        for k, start in enumerate(starts[:-1]):
            if layout_of[k] >= 0:
                continue
            inputs = edges[start : starts[k + 1]]
            if k in graph.calls:
                self.call(graph.calls[k], inputs, calls[graph.calls[k]])
                continue
            key = (signatures[k], output_of.get(k), *[layout_of[x] for x in inputs])
            recipe = self.recipes.get(key)
            if recipe is None:
                recipe = self.recipes[key] = self.maker.of_operation(
                    graph.nodes[k], [layout_of[x] for x in inputs], output_of.get(k), signatures[k]
                )
            own = self.followed(recipe, [places[x] for x in inputs])
            place, base, offset, layout_of[k] = recipe.results[0]
            if place >= 0:
                base, start = own[place]
                offset += start
            places[k] = base, offset

    def followed(self, recipe: Recipe, places: list[Address]) -> list[Address]:
        """Append the steps of a recipe, given the places of operands; all places.

        Once for each operation, so what is common is plain.
        """
        if recipe.temporaries:
            arena, reserve = self.builder.arena, self.builder.reserve
            places += [(arena, reserve(nbytes)) for nbytes in recipe.temporaries]
        if not recipe.steps:
            return places
        first, relocate = len(self.words), self.relocations.extend
        self.words += recipe.words
        for kernel, word, tasks, grain in recipe.steps:
            self.steps.extend((kernel, first + word, tasks, grain))
        for word, place, more in recipe.pointers:
            base, offset = places[place]
            relocate((first + word, base, offset + more))
        for word, base, offset in recipe.fixed:
            relocate((first + word, base, offset))
        for word, byte in recipe.own:
            relocate((first + word, self.builder.words, 8 * first + byte))
        return places

    def append(self) -> None:
        """Everything to the plan, with the constants at the end."""
        relocations = np.array(self.relocations, np.int64).reshape(-1, 3)
        is_constant = relocations[:, 1] == CONSTANTS
        relocations[is_constant, 1] = self.builder.words
        relocations[is_constant, 2] += 8 * len(self.words)
        words = np.concatenate(
            [np.array(self.words, np.int64), np.frombuffer(self.maker.constants, np.int64)]
        )
        self.builder.block(np.array(self.steps, np.int64).reshape(-1, 4), words, relocations)

    def built(self) -> dict[str, build.LoadedKernel]:
        """The kernels of all steps, by source."""
        # That of all walks is worth LLVM's time.
        sources = self.maker.kernels
        requests = [
            build.Request(source, is_quick=source is not WALK and source not in self.repeated)
            for source in sources
        ]
        kernels = build_kernels(requests)
        for kernel in kernels:
            self.builder.kernel(kernel)
        return dict(zip(sources, kernels, strict=True))

    # Other graphs

    def call(self, call: Node, inputs: list[int], results: dict[int, list[int]]) -> None:
        """A call, a loop or a branch: `results` has, by their numbers, their positions."""
        targets = once_run(call)
        numbers = tuple(results)
        if not targets:
            found = self.loop(call, inputs, results)
        elif len(targets) > 1:
            found = self.branch(targets, inputs, results)
        else:
            # The only branch there is has an index before its arguments.
            own = inputs[len(inputs) - len(targets[0].arguments) :]
            found = self.inside(targets[0], own, numbers)
        for known, positions in zip(found, results.values(), strict=True):
            for k in positions:
                if k in self.output_of:
                    known = self.copy(known, (self.output_of[k], 0))
                self.places[k], self.layout_of[k] = known

    def copy(self, known: _Known, target: Address) -> _Known:
        """A value in other memory, unless it is there."""
        place, layout = known
        own_layout = self.layouts.contiguous(self.layouts.by_number[layout][0])
        if place != target:
            recipe = self.recipes.get(("copy", layout))
            if recipe is None:
                recipe = self.recipes["copy", layout] = self.maker.of_copy(layout, own_layout)
            self.followed(recipe, [place, target])
        return target, own_layout

    def inside(
        self, target: ClosedGraph, inputs: list[int], numbers: tuple[int, ...]
    ) -> list[_Known]:
        """The operations of another graph; its outputs of these numbers."""
        outer = self.graph, self.output_of, self.places, self.layout_of
        graph = graph_of(target, numbers, self.graph.table)
        places = [(0, 0)] * len(graph.nodes)
        layout_of = [-1] * len(graph.nodes)
        for k, x in zip(graph.inputs, inputs, strict=True):
            places[k], layout_of[k] = self.places[x], self.layout_of[x]
        self.graph, self.output_of, self.places, self.layout_of = graph, {}, places, layout_of
        self.append_operations()
        self.graph, self.output_of, self.places, self.layout_of = outer
        return [(places[k], layout_of[k]) for k in graph.outputs]

    def branch(
        self,
        targets: Sequence[ClosedGraph],
        inputs: list[int],
        results: dict[int, list[int]],
    ) -> list[_Known]:
        """A choice: after the row that makes it the operations of each branch, which leave their
        results in the same memory, and a row that leads to the end."""
        index, *operands = inputs
        memory = [self.memory(positions[0]) for positions in results.values()]
        first_word = self.row(
            Control.SWITCH, [self.places[index], len(targets), *[0] * len(targets)]
        )
        first_step = len(self.steps) // 4
        ends: list[tuple[int, int]] = []  # steps so far, and the word of the row before
        found: list[_Known] = []
        for number, target in enumerate(targets):
            self.words[first_word + 2 + number] = len(self.steps) // 4 - first_step
            own = self.inside(target, operands, tuple(results))
            found = [self.copy(known, place) for known, place in zip(own, memory, strict=True)]
            word = self.row(Control.SKIP, [0])
            ends.append((len(self.steps) // 4, word))
        for steps, word in ends:
            self.words[word] = len(self.steps) // 4 - steps
        return found

    def memory(self, k: int) -> Address:
        """Memory for the value at position `k`, that is no part of a recipe."""
        output = self.output_of.get(k)
        if output is not None:
            return output, 0
        return self.builder.arena, self.builder.reserve(max(1, self.graph.nodes[k].type.nbytes))

    def row(self, kind: Control, words: Sequence[int | Address]) -> int:
        """Append a row that says which step comes next; the position of its words."""
        self.followed(self.maker.of_row(int(kind), words), [])
        return len(self.words) - len(words)

    def loop(self, call: Node, inputs: list[int], results: dict[int, list[int]]) -> list[_Known]:
        """A loop, or a communication."""
        positions = [own[0] for own in results.values()]
        program = self.program_of_loop(call, inputs, results)
        self.repeated.update(_repeated_sources(program))
        wanted = [Wanted(self.graph.nodes[k].type, self.output_of.get(k)) for k in positions]
        recipe = self.maker.of_program(program, [self.layout_of[x] for x in inputs], wanted)
        places = self.followed(recipe, [self.places[x] for x in inputs])
        found: list[_Known] = []
        for place, base, offset, layout in recipe.results:
            base, start = places[place] if place >= 0 else (base, 0)
            found.append(((base, start + offset), layout))
        return found

    def program_of_loop(
        self, call: Node, inputs: list[int], results: dict[int, list[int]]
    ) -> SegmentProgram:
        """One for all loops of a body, as a loop in Python may record."""
        positions = [own[0] for own in results.values()]
        types = tuple([self.graph.nodes[x].type for x in inputs])
        are_own = tuple([k in self.output_of for k in positions])
        key = (*self.graph.signatures[positions].tolist(), types, are_own)
        program = self.programs.get(key)
        if program is None:
            places = [Place(External(number)) for number in range(len(inputs))]
            pipeline = imported("numba_grad.compiler.pipeline")
            program = pipeline.program_of_control(
                call, list(results), places, are_own, cpu_target.TARGET
            )
            self.programs[key] = program
        return program


def _repeated_sources(program: SegmentProgram) -> Iterator[str]:
    """The kernels of a loop that are worth LLVM's time: not those that only count its steps, or
    copy what it begins with."""
    depth = 0
    for step in program.steps:
        depth += (step.control == Control.LOOP) - (step.control == Control.REPEAT)
        if step.flops or (depth and step.nbytes):
            yield from step.sources
