"""Plans with the steps of all operations of a graph, those of the functions that it calls, and of
branches: between rows that lead past those that are not chosen. Of loops, too, where they take few
steps (`loop_work.py`); of others the body is compiled as a whole."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field

from numba_grad.compiler import cpu_target
from numba_grad.compiler.building import build, kernel_image
from numba_grad.compiler.building.engine_build import build_kernels
from numba_grad.compiler.compiled_program import CompiledProgram
from numba_grad.compiler.control_flow.checkpoint_schedule import (
    NEXT_SOURCE,
    PLACE_SOURCE,
    START_SOURCE,
)
from numba_grad.compiler.control_flow.loops import UNFINISHED_SOURCE
from numba_grad.compiler.control_flow.program import control_program
from numba_grad.compiler.control_flow.writer import BodySteps, Overwriting
from numba_grad.compiler.first_tier import bodies
from numba_grad.compiler.first_tier.loop_work import MOST_STEPS, most_passes, steps_of
from numba_grad.compiler.first_tier.memory_in_use import MemoryInUse
from numba_grad.compiler.first_tier.recipes import Address, Recipe, Recipes, Wanted
from numba_grad.compiler.first_tier.uses import Uses
from numba_grad.compiler.operation_kernels import WALK
from numba_grad.compiler.partition.flat_graph import (
    ClosedGraph,
    FlatGraph,
    Signatures,
    calls_of,
    graph_of,
    once_run,
)
from numba_grad.compiler.partition.last_rows import with_last_rows
from numba_grad.compiler.segment_memory import External, Place
from numba_grad.compiler.segment_program import SegmentProgram
from numba_grad.fresh_thread import imported
from numba_grad.graph.node import Node
from numba_grad.immutable import NamedTuple
from numba_grad.runtime.plan import Control, PlanBuilder

_Known = tuple[Address, int]  # where a value is, and the number of its layout

# Bytes of all values: up to as many, each stays where it is, which takes 3 of 11 us less to plan.
_MUCH_MEMORY = 1 << 22


def lowered(graph: FlatGraph) -> CompiledProgram:
    """The plan that computes the outputs of a graph operation by operation."""
    return lowered_as_it_is(with_last_rows(graph))


def lowered_as_it_is(graph: FlatGraph) -> CompiledProgram:
    """The same, of a graph that has been rewritten, maybe with assemblies."""
    types = [graph.nodes[k].type for k in graph.outputs]
    builder = PlanBuilder(len(graph.inputs), [(t.shape, t.dtype) for t in types])
    shared = _Shared(builder, Recipes(builder), steps_of(graph) <= MOST_STEPS)
    memory = _Memory(0, builder.output(0), builder.arena, builder.reserve)
    lowering = _Lowering(graph, shared, memory)
    lowering.append_operations()
    kernels = shared.built()
    lowering.append_to_plan()
    return CompiledProgram(builder.build(), [], kernels)


@dataclass(slots=True)
class _Shared:
    """What a graph and the bodies of its loops have in common."""

    builder: PlanBuilder
    maker: Recipes
    runs_bodies: bool  # operation by operation
    repeated: set[str] = field(default_factory=set)  # kernels that are run again and again
    # With the table that numbers the signatures: a long-lived process may begin another one.
    recipes: dict[Signatures, dict[Hashable, Recipe]] = field(default_factory=dict)
    programs: dict[Hashable, SegmentProgram] = field(default_factory=dict)  # of loops

    def built(self) -> dict[str, build.LoadedKernel]:
        """The kernels of all steps, by source."""
        # That of all walks is worth LLVM's time.
        sources = self.maker.kernels
        requests = [
            build.KernelRequest(source, is_quick=source is not WALK and source not in self.repeated)
            for source in sources
        ]
        kernels = build_kernels([*requests, *_of_all_loops()])[: len(requests)]
        for kernel in kernels:
            self.builder.kernel(kernel)
        # Of which other programs have some, too.
        kernel_image.add([x for x in kernels if x.is_quick or x.source is WALK])
        return dict(zip(sources, kernels, strict=True))


class _Memory(NamedTuple):
    """The bases of a graph's first input and output, one after the other, and of what it needs
    meanwhile, of which `reserve` sets bytes aside."""

    inputs: int
    outputs: int
    arena: int
    reserve: Callable[[int], int]


class _Lowering:
    def __init__(self, graph: FlatGraph, shared: _Shared, memory: _Memory) -> None:
        self.graph = graph
        self.shared, self.memory = shared, memory
        self.builder, self.maker = shared.builder, shared.maker
        self.recipes = shared.recipes.setdefault(graph.table, {})
        self.layouts = self.maker.layouts
        self.output_of = {k: number for number, k in enumerate(graph.outputs, memory.outputs)}
        # What is known of a value: where it is, and the number of its layout.
        self.places: list[Address] = [(0, 0)] * len(graph.nodes)
        self.layout_of: list[int] = [-1] * len(graph.nodes)
        for base, k in enumerate(graph.inputs, memory.inputs):
            self.places[k] = base, 0
            self.layout_of[k] = self.layouts.contiguous(graph.nodes[k].type)
        for k in graph.assemblies:
            self.places[k] = self.memory_of(k)
            self.layout_of[k] = self.layouts.contiguous(graph.nodes[k].type)
        self.memory_in_use = None
        if not graph.calls and sum([node.type.nbytes for node in graph.nodes]) > _MUCH_MEMORY:
            self.memory_in_use = MemoryInUse(graph, memory.reserve)
        # Where memory begins that loops have one after the other, by bytes and number.
        self.memory_of_loops: dict[tuple[int, int], int] = {}
        self.uses = Uses(self.builder.words)

    def append_operations(self) -> None:
        """The steps of all operations of a graph."""
        graph = self.graph
        calls = calls_of(graph)
        edges, starts = graph.edges.tolist(), graph.starts.tolist()
        signatures = graph.signatures.tolist()
        uses = Counter(signatures)
        places, layout_of, output_of = self.places, self.layout_of, self.output_of
        place_at, layout_at = places.__getitem__, layout_of.__getitem__
        in_use, recipes, pieces = self.memory_in_use, self.recipes, graph.places
        for k, signature in enumerate(signatures):
            # An assembly, or an assignment to one, which nobody reads.
            if layout_of[k] >= 0 or not signature:
                continue
            inputs = edges[starts[k] : starts[k + 1]]
            if k in graph.calls:
                self.call(graph.calls[k], inputs, calls[graph.calls[k]])
                continue
            in_place = in_use is not None and in_use.is_in_place(k, inputs, places)
            layouts, output = [*map(layout_at, inputs)], output_of.get(k)
            key = (signature, output, in_place, *layouts)
            recipe = recipes.get(key)
            if recipe is None:
                recipe = recipes[key] = self.maker.of_operation(
                    graph.nodes[k],
                    layouts,
                    output,
                    (graph.table, signature),
                    in_place=in_place,
                    uses=uses[signature],
                )
            target = self.target_of(k) if k in pieces else None
            own = self.followed(recipe, [*map(place_at, inputs)], target)
            if in_use is not None:
                in_use.follow(k, inputs, recipe, own, target)
            place, base, offset, layout_of[k] = recipe.results[0]
            if place >= 0:
                base, start = own[place]
                offset += start
            places[k] = base, offset
            if target is not None:
                places[k], layout_of[k] = self.copy((places[k], layout_of[k]), target)

    def target_of(self, k: int) -> Address:
        """Where the piece of an assembly that is at position `k` belongs."""
        assembly, first = self.graph.places[k]
        base, offset = self.places[assembly]
        return base, offset + first * self.graph.nodes[k].type.dtype.itemsize

    def followed(
        self, recipe: Recipe, places: list[Address], target: Address | None = None
    ) -> list[Address]:
        """Append the steps of a recipe, given the places of operands; all places. `target`: where
        its result is wanted, unless it is what is there already.

        Once for each operation, so what is common is plain.
        """
        if recipe.temporaries:
            arena = self.memory.arena
            in_use = self.memory_in_use
            reserve = self.memory.reserve if in_use is None else in_use.reserve
            if target is None:
                places += [(arena, reserve(nbytes)) for nbytes in recipe.temporaries]
            else:
                of_result = recipe.new_result(len(places))
                for number, nbytes in enumerate(recipe.temporaries):
                    places.append(target if number == of_result else (arena, reserve(nbytes)))
        if recipe.steps:
            self.uses.recipes.append(recipe)
            self.uses.places += places
        return places

    def append_to_plan(self) -> None:
        """Everything to the plan, with the constants at the end."""
        self.uses.append_to(self.builder, self.maker.constants)

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
                elif k in self.graph.places:
                    known = self.copy(known, self.target_of(k))
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
        memory = [self.memory_of(positions[0]) for positions in results.values()]
        switch = self.row(Control.SWITCH, [self.places[index], len(targets), *[0] * len(targets)])
        ends: list[int] = []  # the rows after branches
        found: list[_Known] = []
        for number, target in enumerate(targets):
            self.uses.skip(switch, 2 + number)
            own = self.inside(target, operands, tuple(results))
            found = [self.copy(known, place) for known, place in zip(own, memory, strict=True)]
            ends.append(self.row(Control.SKIP, [0]))
        for row in ends:
            self.uses.skip(row, 0)
        return found

    def memory_of(self, k: int) -> Address:
        """Memory for the value at position `k`, that is no part of a recipe."""
        output = self.output_of.get(k)
        if output is not None:
            return output, 0
        nbytes = max(1, self.graph.nodes[k].type.nbytes)
        return self.memory.arena, self.memory.reserve(nbytes)

    def row(self, kind: Control, words: Sequence[int | Address]) -> int:
        """Append a row that says which step comes next; which use it is."""
        self.followed(self.maker.of_row(int(kind), words), [])
        return len(self.uses.recipes) - 1

    def loop(self, call: Node, inputs: list[int], results: dict[int, list[int]]) -> list[_Known]:
        """A loop, or a communication."""
        positions = [own[0] for own in results.values()]
        program = self.program_of_loop(call, inputs, results)
        if not self.shared.runs_bodies:
            self.shared.repeated.update(_repeated_sources(program))
        wanted = [Wanted(self.graph.nodes[k].type, self.output_of.get(k)) for k in positions]
        recipe = self.maker.of_program(program, [self.layout_of[x] for x in inputs], wanted)
        places = [self.places[x] for x in inputs]
        places += self.memory_of_loop(recipe, len(inputs))
        self.uses.recipes.append(recipe)
        self.uses.places += places
        found: list[_Known] = []
        for place, base, offset, layout in recipe.results:
            base, start = places[place] if place >= 0 else (base, 0)
            found.append(((base, start + offset), layout))
        return found

    def memory_of_loop(self, recipe: Recipe, first: int) -> list[Address]:
        """The places of its temporaries, which are numbered from `first`.

        What holds no result is free once the loop has ended, and the next one has it: for states
        that a derivative goes back through it may be 40 MiB, of which little is ever touched.
        """
        of_results = {place for place, *_ in recipe.results}
        used: Counter[int] = Counter()
        places: list[Address] = []
        for number, nbytes in enumerate(recipe.temporaries, first):
            key = nbytes, used[nbytes]
            if number in of_results:
                start = self.memory.reserve(nbytes)
            else:
                used[nbytes] += 1
                start = self.memory_of_loops.get(key, -1)
                if start < 0:
                    start = self.memory_of_loops[key] = self.memory.reserve(nbytes)
            places.append((self.memory.arena, start))
        return places

    def program_of_loop(
        self, call: Node, inputs: list[int], results: dict[int, list[int]]
    ) -> SegmentProgram:
        """One for all loops of a body, as a loop in Python may record."""
        positions = [own[0] for own in results.values()]
        types = tuple([self.graph.nodes[x].type for x in inputs])
        are_own = tuple([k in self.output_of for k in positions])
        key = (self.graph.table, *self.graph.signatures[positions].tolist(), types, are_own)
        program = self.shared.programs.get(key)
        if program is None:
            places = [Place(External(number)) for number in range(len(inputs))]
            given = (call, list(results), places, are_own)
            if self.shared.runs_bodies:
                program = control_program(*given, self.body, cpu_target.TARGET, most_passes(call))
            else:
                pipeline = imported("numba_grad.compiler.pipeline")
                program = pipeline.program_of_control(*given, cpu_target.TARGET)
            self.shared.programs[key] = program
        return program

    def body(self, graph: FlatGraph, _: Overwriting) -> BodySteps:
        """The steps of the operations of a body; nothing is computed in place."""
        arena = bodies.Arena()
        memory = _Memory(bodies.ARGUMENT, bodies.RESULT, bodies.ARENA, arena.reserve)
        lowering = _Lowering(graph, self.shared, memory)
        lowering.append_operations()
        written = lowering.uses.written_out()
        steps = bodies.scheduled(*written, list(self.maker.kernels), self.builder.words)
        return BodySteps(steps, arena.nbytes)


def _of_all_loops() -> list[build.KernelRequest]:
    """Small kernels that no operation has and every loop: compiled with the first program of a
    machine, as the kernel of all walks is. Each alone would have Numba imported for it."""
    if build.is_compiled(build.KernelRequest(WALK)):
        return []
    copies = [cpu_target.TARGET.copy_step(nbytes, nbytes).source for nbytes in (4, 8)]
    return [
        build.KernelRequest(x, is_quick=True)
        for x in (*copies, START_SOURCE, NEXT_SOURCE, PLACE_SOURCE, UNFINISHED_SOURCE)
    ]


def _repeated_sources(program: SegmentProgram) -> Iterator[str]:
    """The kernels of a loop that are worth LLVM's time: not those that only count its steps, or
    copy what it begins with."""
    depth = 0
    for step in program.steps:
        depth += (step.control == Control.LOOP) - (step.control == Control.REPEAT)
        if step.flops or (depth and step.nbytes):
            yield from step.sources
