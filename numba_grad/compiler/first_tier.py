"""Small graphs to plans without new kernels: a step for each operation, with a kernel of its own.

Compiling takes some 10 ms a kernel, and a fused kernel serves one program. The kernel of one
operation computes one element (`operation_kernels.py`); another one walks through arrays of any
rank and strides. They serve all programs, and are compiled once a machine. So a graph that is
evaluated for the first time is run operation by operation, at once; one that comes again and again
is fused (`evaluate.py` says when). What decides is the graph and how often it was evaluated, never
what is in a cache, so that a program gives the same bits each time.

Movements are strides and offsets, as in NumPy. What has no kernel here, such as linear algebra,
goes the usual way, as a segment of one operation; so does a loop, whose body is compiled as a
whole. The operations of functions that are called, and of branches, are those of the graph: of
branches between rows that lead past those that are not chosen.

What an operation needs depends on its signature and on the layouts of its operands. So this is
found once, as a `_Recipe` that knows of memory only which operand or temporary array it is; the
steps of a loop are the same recipes again and again.
"""

import functools
import math
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from numba_grad.compiler import cpu_target
from numba_grad.compiler.building import build
from numba_grad.compiler.building.engine_build import build_kernels
from numba_grad.compiler.compiled_program import CompiledProgram
from numba_grad.compiler.emission.emit_cpu import dtype_name
from numba_grad.compiler.loop_nests.iteration_spaces import all_axes_as_loops
from numba_grad.compiler.loop_nests.reductions import ARG_REDUCTIONS, identity_of, reduction_axes
from numba_grad.compiler.operation_kernels import (
    POINTERS,
    WALK,
    accumulating_text,
    argument_text,
    combining_term,
    elementwise_text,
)
from numba_grad.compiler.partition.flat_graph import (
    ClosedGraph,
    FlatGraph,
    calls_of,
    graph_of,
    once_run,
)
from numba_grad.compiler.partition.roles import RENAMINGS
from numba_grad.compiler.scalar_expressions import Call, Number, Term, expression_of, parsed
from numba_grad.compiler.segment_memory import External, FileMemory, Output, Place, Small, Temporary
from numba_grad.compiler.segment_program import SegmentProgram, compile_segment
from numba_grad.compiler.words import Errors, KernelAddress, OwnWord, Pointer, Symbol
from numba_grad.dtypes import computed_in
from numba_grad.fresh_thread import imported
from numba_grad.graph.node import Node, argument, record
from numba_grad.graph.types import Type
from numba_grad.runtime.plan import ONCE, Control, ErrorSite, Launch, PlanBuilder

_COPY, _SUM, _NUMBER = parsed("{x}"), parsed("{x} + {y}"), parsed("cast(lo, {dtype})")

Shape = tuple[int, ...]
Word = int | tuple[int, int] | KernelAddress  # a number; a base and bytes


@dataclass(frozen=True, slots=True)
class _View:
    """Where a value is: from byte `offset` of the memory `base`, with strides in elements."""

    base: int
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(slots=True)
class _Recipe:
    """The steps of an operation on operands of given layouts, wherever these are.

    The places that differ from one use to the next are numbered: operands, then temporaries.
    """

    temporaries: list[int] = field(default_factory=list)  # bytes
    steps: list[tuple[int, int, int, int]] = field(default_factory=list)  # as those of a plan
    words: array = field(default_factory=lambda: array("q"))
    pointers: list[tuple[int, int, int]] = field(default_factory=list)  # word, place, offset
    fixed: list[tuple[int, int, int]] = field(default_factory=list)  # relocations
    own: list[tuple[int, int]] = field(default_factory=list)  # word, byte among the words
    # The result: in a place or, where that is below 0, at a base.
    place: int = -1
    base: int = 0
    offset: int = 0
    layout: int = 0


_Key = tuple[Any, ...]
_Layout = tuple[np.dtype, Shape, Shape]
_Place = tuple[int, int]  # a base and bytes
_Known = tuple[_Place, int]  # where a value is, and the number of its layout


def lowered(graph: FlatGraph) -> CompiledProgram:
    """The plan that computes the outputs of a graph operation by operation."""
    return _Compiler(graph).compile()


class _Compiler:
    def __init__(self, graph: FlatGraph) -> None:
        self.graph = graph
        types = [graph.nodes[k].type for k in graph.outputs]
        self.builder = PlanBuilder(len(graph.inputs), [(t.shape, t.dtype) for t in types])
        self.output_of = {k: number for number, k in enumerate(graph.outputs)}
        self.constants = bytearray()  # behind the words of all steps
        self.sources: dict[str, int] = {}  # of the kernels, with their numbers
        self.repeated: set[str] = set()  # those that are run again and again
        self.programs: dict[_Key, SegmentProgram] = {}
        # What is known of a value: where it is, and the number of its layout.
        self.places: list[tuple[int, int]] = [(0, 0)] * len(graph.nodes)
        self.layout_of: list[int] = [-1] * len(graph.nodes)
        self.layouts: dict[_Layout, int] = {}
        self.layouts_by_number: list[_Layout] = []
        self.recipes: dict[_Key, _Recipe] = {}
        self.steps, self.words, self.relocations = array("q"), array("q"), array("q")
        # While a recipe is made: what it is, and its operands.
        self.recipe = _Recipe()
        self.operands: dict[int, _View] = {}

    def compile(self) -> CompiledProgram:
        graph = self.graph
        for number, k in enumerate(graph.inputs):
            shape = graph.nodes[k].shape
            self.places[k] = self.builder.input(number), 0
            self.layout_of[k] = self.layout(graph.nodes[k].dtype, shape, _strides(shape))
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
        layout_of, output_of, recipes = self.layout_of, self.output_of, self.recipes
        for k, start in enumerate(starts[:-1]):
            if layout_of[k] >= 0:
                continue
            inputs = edges[start : starts[k + 1]]
            if k in graph.calls:
                self.call(graph.calls[k], inputs, calls[graph.calls[k]])
                continue
            key: _Key = (signatures[k], *[layout_of[x] for x in inputs])
            if k in output_of:
                key = (*key, "output", output_of[k])
            if len(inputs) > 1 and len(set(inputs)) < len(inputs):
                key = (*key, "equal", *map(inputs.index, inputs))
            recipe = recipes.get(key)
            if recipe is None:
                recipe = recipes[key] = self.recipe_for(k, inputs)
            self.use(recipe, k, inputs)

    def layout(self, dtype: np.dtype, shape: Shape, strides: Shape) -> int:
        """Its number: equal ones are the same to whatever reads a value."""
        own = dtype, shape, strides
        number = self.layouts.setdefault(own, len(self.layouts))
        if number == len(self.layouts_by_number):
            self.layouts_by_number.append(own)
        return number

    def recipe_for(self, k: int, inputs: list[int]) -> _Recipe:
        """What is done for the value at position `k`, and for all like it."""
        node = self.graph.nodes[k]
        recipe = self.begin(inputs)
        view = self.value(k, node, inputs)
        if k in self.output_of and view.base != self.builder.output(self.output_of[k]):
            view = self.copied(view, self.new(k), node.dtype)
        place = self.place_of(view.base)
        if place is None:
            recipe.base = view.base
        else:
            recipe.place = place
        recipe.offset = view.offset
        recipe.layout = self.layout(node.dtype, view.shape, view.strides)
        return recipe

    def begin(self, inputs: list[int]) -> _Recipe:
        """A new recipe, over the values at these positions."""
        self.recipe = _Recipe()
        self.operands = {
            x: _View(_operand(number), 0, *self.layouts_by_number[self.layout_of[x]][1:])
            for number, x in reversed([*enumerate(inputs)])
        }
        self.operand_count = len(inputs)
        return self.recipe

    def place_of(self, base: int) -> int | None:
        """The number of a place that another use of the recipe has elsewhere."""
        if base <= _FIRST_TEMPORARY:
            return self.operand_count + _FIRST_TEMPORARY - base
        return _FIRST_OPERAND - base if base <= _FIRST_OPERAND else None

    def use(self, recipe: _Recipe, k: int, inputs: list[int]) -> None:
        """Append the steps of a recipe, and know where the value at position `k` is."""
        known = self.places
        places = self.followed(recipe, [known[x] for x in inputs])
        self.layout_of[k] = recipe.layout
        base, offset = places[recipe.place] if recipe.place >= 0 else (recipe.base, 0)
        known[k] = base, offset + recipe.offset

    def followed(self, recipe: _Recipe, places: list[_Place]) -> list[_Place]:
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
        is_constant = relocations[:, 1] == _CONSTANTS
        relocations[is_constant, 1] = self.builder.words
        relocations[is_constant, 2] += 8 * len(self.words)
        words = np.concatenate(
            [np.array(self.words, np.int64), np.frombuffer(self.constants, np.int64)]
        )
        self.builder.block(np.array(self.steps, np.int64).reshape(-1, 4), words, relocations)

    def built(self) -> dict[str, build.LoadedKernel]:
        """The kernels of all steps, by source."""
        # That of all walks is worth LLVM's time.
        requests = [
            build.Request(source, is_quick=source is not WALK and source not in self.repeated)
            for source in self.sources
        ]
        kernels = build_kernels(requests)
        for kernel in kernels:
            self.builder.kernel(kernel)
        return dict(zip(self.sources, kernels, strict=True))

    def kernel(self, source: str) -> int:
        return self.sources.setdefault(source, len(self.sources))

    # Memory

    def new(self, k: int) -> _View:
        """Memory for the value at position `k`."""
        type = self.graph.nodes[k].type
        number = self.output_of.get(k)
        if number is not None:
            return _contiguous(self.builder.output(number), 0, type.shape)
        return self.temporary(type.shape, type.dtype)

    def temporary(self, shape: Shape, dtype: np.dtype) -> _View:
        return _contiguous(self.reserved(max(1, math.prod(shape)) * dtype.itemsize), 0, shape)

    def reserved(self, nbytes: int) -> int:
        """A base for memory that each use of the recipe has for itself."""
        self.recipe.temporaries.append(nbytes)
        return _FIRST_TEMPORARY - (len(self.recipe.temporaries) - 1)

    def view(self, k: int) -> _View:
        return self.operands[k]

    # Values

    def value(self, k: int, node: Node, inputs: list[int]) -> _View:
        name, family = node.op.name, node.op.family
        if name in RENAMINGS or name == "item":
            return self.view(inputs[0])
        if family == "elementwise":
            return self.elementwise(k, expression_of(node), node.op.input_names, inputs)
        if family == "reduction":
            return self.reduction(k, node, inputs[0])
        if name == "matmul" and node.dtype.kind != "b":
            return self.product(k, node, *inputs)
        if name == "literal":
            return self.constant(node.params["bytes"])
        if name == "iota":
            return self.iota(k, node)
        movement = _MOVEMENTS.get(name)
        if movement is not None:
            moved = movement(self.view(inputs[0]), node)
            if moved is not None:
                return moved
            x = self.copied(self.view(inputs[0]), self.like(inputs[0]), node.dtype)
            return _View(x.base, x.offset, node.shape, _strides(node.shape))
        if name in ("pad", "concatenate", "update_slice", "add_slice"):
            return self.placed(k, node, inputs)
        return self.segment(k, node, inputs)

    def like(self, k: int) -> _View:
        type = self.graph.nodes[k].type
        return self.temporary(type.shape, type.dtype)

    def elementwise(
        self, k: int, expression: Term, names: tuple[str, ...], inputs: Sequence[int]
    ) -> _View:
        result = self.new(k)
        self.apply(
            expression,
            names,
            result,
            self.graph.nodes[k].dtype,
            [(self.view(x), self.graph.nodes[x].dtype) for x in inputs],
        )
        return result

    def apply(
        self,
        expression: Term,
        names: tuple[str, ...],
        result: _View,
        dtype: np.dtype,
        operands: Sequence[tuple[_View, np.dtype]],
    ) -> None:
        """`result = expression`, element by element; operands are broadcast."""
        layouts = tuple([(view.shape, view.strides, own) for view, own in operands])
        source = elementwise_text(expression, names, tuple([own for _, own in operands]), dtype)
        loops = _elementwise_loops(result.shape, result.strides, dtype, layouts)
        self.walk(source, [result, *[view for view, _ in operands]], loops)

    def walk(self, source: str, views: Sequence[_View], loops: Sequence[int]) -> None:
        """Call the kernel of an element for the elements of views, see `_loops`."""
        if loops is _NO_ELEMENTS:
            return
        pointers = [(view.base, view.offset) for view in views]
        if loops is _ONE_ELEMENT:
            self.step(source, pointers)
            return
        count = len(loops) // (1 + POINTERS)
        unused = [0] * (POINTERS - len(pointers))
        self.step(WALK, [KernelAddress(source), count, *pointers, *unused, *loops])

    def copied(self, x: _View, result: _View, dtype: np.dtype) -> _View:
        self.apply(_COPY, ("x",), result, dtype, [(x, dtype)])
        return result

    def reduction(self, k: int, node: Node, x: int) -> _View:
        view, dtype = self.view(x), self.graph.nodes[x].dtype
        axes = reduction_axes(node)
        kept = [axis for axis in range(len(view.shape)) if axis not in axes]
        if node.dtype == dtype and all(view.shape[axis] == 1 for axis in axes):
            return _permuted(view, tuple(kept))  # such as -0.0, which is no sum of 0.0 and itself
        moved = _permuted(view, (*kept, *sorted(axes)))
        if node.op.name in ARG_REDUCTIONS:
            return self.position(k, node, moved, dtype)
        return self.reduced(k, node, parsed("{x0}"), [(moved, dtype)], len(kept))

    def position(self, k: int, node: Node, x: _View, dtype: np.dtype) -> _View:
        """Of the extreme along the last axis of `x`."""
        result, kept, n = self.new(k), x.shape[:-1], x.shape[-1]
        first = _View(x.base, x.offset, kept, x.strides[:-1])
        best = self.copied(first, self.temporary(kept, dtype), dtype)
        self.apply(Number(0), (), result, node.dtype, [])
        numbers = self.numbered(self.temporary((n,), node.dtype), node.dtype)
        views = [result, x, best, numbers]
        dtypes = [node.dtype, dtype, dtype, node.dtype]
        fixed = [(*_strides(kept), 0)] * 2
        layouts = [fixed[0], x.strides, fixed[1], _broadcast((n,), (1,), len(x.shape))]
        self.walk(argument_text(node.op.name, dtype), views, _loops(x.shape, layouts, dtypes))
        return result

    def product(self, k: int, node: Node, x: int, y: int) -> _View:
        """A matrix product, as the sum over the last axis of products."""
        rank = len(node.shape)
        operands = []
        for number, position in enumerate((x, y)):
            view = self.view(position)
            strides = _broadcast(view.shape, view.strides, rank)
            rows, columns = strides[-2:]
            inner = (rows, 0, columns) if number == 0 else (0, columns, rows)
            n = self.graph.nodes[x].shape[-1]
            shape = (*node.shape, n)
            operands.append(
                (
                    _View(view.base, view.offset, shape, (*strides[:-2], *inner)),
                    self.graph.nodes[position].dtype,
                )
            )
        product = parsed("{x0} * {x1}")
        if node.dtype.kind in "iu":
            product = Call(dtype_name(node.dtype), (product,))
        return self.reduced(k, node, product, operands, rank)

    def reduced(
        self,
        k: int,
        node: Node,
        value: Term,
        operands: Sequence[tuple[_View, np.dtype]],
        kept: int,
    ) -> _View:
        """A reduction over all but the first `kept` axes."""
        result, shape = self.new(k), operands[0][0].shape
        dtype = computed_in(node.dtype)  # half precision is rounded once, at the end
        total = result if dtype == node.dtype else self.temporary(node.shape, dtype)
        start = identity_of(node) if node.op.family == "reduction" else 0
        self.copied(self.constant(np.asarray(start).astype(dtype).tobytes()), total, dtype)
        layouts = [
            (*_strides(shape[:kept]), *[0] * (len(shape) - kept)),
            *[view.strides for view, _ in operands],
        ]
        dtypes = tuple([own for _, own in operands])
        self.walk(
            accumulating_text(combining_term(node), value, dtypes, dtype),
            [total, *[view for view, _ in operands]],
            _loops(shape, layouts, [dtype, *dtypes]),
        )
        if total is not result:
            self.apply(_COPY, ("x",), result, node.dtype, [(total, dtype)])
        return result

    def constant(self, data: bytes) -> _View:
        """A number of these bytes."""
        place = len(self.constants)
        self.constants += data.ljust(-(-len(data) // 8) * 8, b"\0")
        return _View(_CONSTANTS, place, (), ())

    def iota(self, k: int, node: Node) -> _View:
        return self.numbered(self.new(k), node.dtype)

    def numbered(self, result: _View, dtype: np.dtype) -> _View:
        """`result`, with the number of each element."""
        self.apply(_NUMBER, (), result, dtype, [])
        return result

    def placed(self, k: int, node: Node, inputs: list[int]) -> _View:
        """What is made of other arrays' elements, side by side or one over the other."""
        result, dtype, params = self.new(k), node.dtype, node.params
        if node.op.name == "concatenate":
            axis, start = params["axis"], 0
            for x in inputs:
                part = self.view(x)
                starts = tuple(start if a == axis else 0 for a in range(len(node.shape)))
                steps = (1,) * len(starts)
                self.copied(part, _region(result, starts, part.shape, steps, dtype), dtype)
                start += part.shape[axis]
            return result
        if node.op.name == "pad":
            part = self.view(inputs[0])
            self.apply(Call(dtype_name(dtype), (Number(0),)), (), result, dtype, [])
            steps = tuple(n + 1 for n in params["interior"])
            self.copied(part, _region(result, params["low"], part.shape, steps, dtype), dtype)
            return result
        old, part = (self.view(x) for x in inputs)
        self.copied(old, result, dtype)
        target = _region(result, params["starts"], part.shape, params["steps"], dtype)
        if node.op.name == "update_slice":
            self.copied(part, target, dtype)
        else:
            before = _region(old, params["starts"], part.shape, params["steps"], dtype)
            self.apply(_SUM, ("x", "y"), target, dtype, [(before, dtype), (part, dtype)])
        return result

    def segment(self, k: int, node: Node, inputs: list[int]) -> _View:
        """By the usual way, as a graph of this one operation."""
        program = self.program_of(k, node, tuple([self.graph.nodes[x].type for x in inputs]))
        return self.program(program, inputs, [k])[0]

    def program(
        self, program: SegmentProgram, inputs: list[int], results: list[int]
    ) -> list[_View]:
        """The steps of a segment, given the positions of what it reads and of what it computes."""
        nodes = self.graph.nodes
        memory: dict[object, _Place] = {}
        for number, x in enumerate(inputs):
            view = self.view(x)
            if view.strides != _strides(view.shape):
                view = self.copied(view, self.like(x), nodes[x].dtype)
            memory[External(number)] = view.base, view.offset
        for number, (k, place) in enumerate(zip(results, program.outputs, strict=True)):
            if place.memory == Output(number):
                result = self.new(k)
                memory[Output(number)] = result.base, result.offset
        for number, nbytes in enumerate(program.temporaries):
            memory[Temporary(number)] = (self.reserved(nbytes), 0)
        for dtype, count in program.small.items():
            memory[Small(dtype)] = (self.reserved(count * dtype.itemsize), 0)
        for source in program.spare_sources:
            self.kernel(source)
        for step in program.steps:
            for source in step.sources:
                self.kernel(source)
            words = [self.word(word, memory) for word in step.words]
            self.step(step.control or step.source, words, step.launch)
        views = []
        for k, place in zip(results, program.outputs, strict=True):
            base, first = memory[place.memory]
            offset = first + place.offset * nodes[k].dtype.itemsize
            views.append(_contiguous(base, offset, nodes[k].shape))
        return views

    def program_of(self, k: int, node: Node, types: tuple[Type, ...]) -> SegmentProgram:
        """The segment of this operation alone: a loop has the same one in each step."""
        key: _Key = (int(self.graph.signatures[k]), types)
        program = self.programs.get(key)
        if program is None:
            arguments = [argument(type) for type in types]
            places = {x: Place(External(number)) for number, x in enumerate(arguments)}
            alone = record(node.op, tuple(arguments), node.params)
            with all_axes_as_loops():
                program = compile_segment(cpu_target.TARGET, [alone], places, [True])
            self.programs[key] = program
        return program

    def word(self, word: Any, memory: dict[object, _Place]) -> Word:
        match word:
            case Errors():
                return self.builder.errors, 0
            case ErrorSite():
                return self.builder.site(word)
            case OwnWord(number):
                return _OWN_WORDS, 8 * number
            case Symbol(name):
                return self.builder.symbol(name), 0
            case Pointer(FileMemory() as file, offset):
                return self.builder.file(file, file.nbytes, file.directory), offset
            case Pointer(source, offset):
                base, start = memory[source]
                return base, start + offset
        return word

    def step(self, kernel: str | int, words: Sequence[Word], launch: Launch = ONCE) -> None:
        """`kernel`: its source, or a `Control`."""
        recipe = self.recipe
        first = len(recipe.words)
        tasks, grain = launch
        number_of_kernel = kernel if isinstance(kernel, int) else self.kernel(kernel)
        recipe.steps.append((number_of_kernel, first, tasks, grain))
        for number, word in enumerate(words, first):
            if isinstance(word, int):
                recipe.words.append(word)
                continue
            recipe.words.append(0)
            if isinstance(word, KernelAddress):
                recipe.fixed.append((number, self.builder.functions, 8 * self.kernel(word.source)))
                continue
            base, offset = word
            place = self.place_of(base)
            if place is not None:
                recipe.pointers.append((number, place, offset))
            elif base == _OWN_WORDS:
                recipe.own.append((number, 8 * first + offset))
            else:
                recipe.fixed.append((number, base, offset))

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
                    known = self.copy(known, (self.builder.output(self.output_of[k]), 0))
                self.places[k], self.layout_of[k] = known

    def copy(self, known: _Known, target: _Place) -> _Known:
        """A value in other memory, unless it is there."""
        place, layout = known
        dtype, shape, strides = self.layouts_by_number[layout]
        own_layout = self.layout(dtype, shape, _strides(shape))
        if place != target:
            recipe = self.recipes.get(("copy", layout))
            if recipe is None:
                recipe = self.recipes["copy", layout] = self.begin([])
                self.operand_count = 2
                source = _View(_operand(0), 0, shape, strides)
                self.copied(source, _contiguous(_operand(1), 0, shape), dtype)
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

    def memory(self, k: int) -> _Place:
        """Memory for the value at position `k`, that is no part of a recipe."""
        number = self.output_of.get(k)
        if number is not None:
            return self.builder.output(number), 0
        return self.builder.arena, self.builder.reserve(max(1, self.graph.nodes[k].type.nbytes))

    def row(self, kind: Control, words: Sequence[int | _Place]) -> int:
        """Append a row that says which step comes next; the position of its words."""
        recipe = self.begin([])
        self.step(int(kind), words)
        self.followed(recipe, [])
        return len(self.words) - len(words)

    def loop(self, call: Node, inputs: list[int], results: dict[int, list[int]]) -> list[_Known]:
        """A loop, or a communication."""
        positions = [own[0] for own in results.values()]
        program = self.program_of_loop(call, inputs, results)
        self.repeated.update(_repeated_sources(program))
        recipe = self.begin(inputs)
        views = self.program(program, inputs, positions)
        places = self.followed(recipe, [self.places[x] for x in inputs])
        found: list[_Known] = []
        for k, view in zip(positions, views, strict=True):
            number = self.place_of(view.base)
            base, offset = (view.base, 0) if number is None else places[number]
            layout = self.layout(self.graph.nodes[k].dtype, view.shape, view.strides)
            found.append(((base, offset + view.offset), layout))
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


# Bases, until it is known where they are.
_CONSTANTS = -1  # the words behind those of all steps
_OWN_WORDS = -2  # the words of the step itself
_FIRST_OPERAND = -3  # and downwards
_FIRST_TEMPORARY = -(1 << 40)  # and downwards


def _operand(number: int) -> int:
    return _FIRST_OPERAND - number


# Layouts


def _strides(shape: Shape) -> Shape:
    result = []
    step = 1
    for n in reversed(shape):
        result.append(step)
        step *= n
    return tuple(reversed(result))


def _contiguous(base: int, offset: int, shape: Shape) -> _View:
    return _View(base, offset, shape, _strides(shape))


def _broadcast(shape: Shape, strides: Shape, rank: int) -> Shape:
    """Strides of a view among arrays of more axes: 0 along those it is broadcast over."""
    own = tuple([0 if n == 1 else s for n, s in zip(shape, strides, strict=True)])
    return (0,) * (rank - len(own)) + own


_NO_ELEMENTS: tuple[int, ...] = (0,)
_ONE_ELEMENT: tuple[int, ...] = (1,)


@functools.lru_cache(maxsize=1 << 12)  # a program has the same few again and again
def _elementwise_loops(
    shape: Shape,
    strides: Shape,
    dtype: np.dtype,
    operands: tuple[tuple[Shape, Shape, np.dtype], ...],
) -> tuple[int, ...]:
    """The loops over a result and operands that are broadcast to it."""
    rank = len(shape)
    layouts = [strides, *[_broadcast(own_shape, own, rank) for own_shape, own, _ in operands]]
    return _loops(shape, layouts, [dtype, *[own for _, _, own in operands]])


def _loops(shape: Shape, layouts: Sequence[Shape], dtypes: Sequence[np.dtype]) -> tuple[int, ...]:
    """The words of `WALK` after the pointers, given strides in elements."""
    if 0 in shape:
        return _NO_ELEMENTS
    extents, strides = _joined(shape, layouts)
    if extents == (1,):
        return _ONE_ELEMENT
    unused = [0] * (POINTERS - len(layouts))
    steps = []
    for axis in range(len(extents)):
        steps += [s[axis] * own.itemsize for s, own in zip(strides, dtypes, strict=True)]
        steps += unused
    return *extents, *steps


def _joined(shape: Shape, layouts: Sequence[Shape]) -> tuple[Shape, list[Shape]]:
    """The fewest loops over the same elements in the same order: at least one."""
    extents: list[int] = []
    strides: list[list[int]] = [[] for _ in layouts]
    for axis, n in enumerate(shape):
        if n == 1:
            continue
        own = [layout[axis] for layout in layouts]
        if extents and all(s[-1] == n * step for s, step in zip(strides, own, strict=True)):
            extents[-1] *= n
            for s, step in zip(strides, own, strict=True):
                s[-1] = step
        else:
            extents.append(n)
            for s, step in zip(strides, own, strict=True):
                s.append(step)
    if not extents:
        return (1,), [(0,)] * len(layouts)
    return tuple(extents), [tuple(s) for s in strides]


def _permuted(view: _View, axes: Shape) -> _View:
    shape, strides = (tuple([own[axis] for axis in axes]) for own in (view.shape, view.strides))
    return _View(view.base, view.offset, shape, strides)


def _region(view: _View, starts: Shape, sizes: Shape, steps: Shape, dtype: np.dtype) -> _View:
    elements = sum(s * start for s, start in zip(view.strides, starts, strict=True))
    strides = tuple([s * step for s, step in zip(view.strides, steps, strict=True)])
    return _View(view.base, view.offset + elements * dtype.itemsize, sizes, strides)


# Movements, as the views that they are; None where there is none.


def _slice(view: _View, node: Node) -> _View:
    params = node.params
    return _region(view, params["starts"], params["sizes"], params["steps"], node.dtype)


def _transpose(view: _View, node: Node) -> _View:
    return _permuted(view, node.params["axes"])


def _flip(view: _View, node: Node) -> _View:
    axes = node.params["axes"]
    ends = tuple(max(n - 1, 0) if axis in axes else 0 for axis, n in enumerate(view.shape))
    steps = tuple(-1 if axis in axes else 1 for axis in range(len(view.shape)))
    return _region(view, ends, view.shape, steps, node.dtype)


def _broadcast_to(view: _View, node: Node) -> _View:
    return _View(
        view.base, view.offset, node.shape, _broadcast(view.shape, view.strides, len(node.shape))
    )


def _reshape(view: _View, node: Node) -> _View | None:
    """By joining loops, and cutting them again where the new shape does."""
    if 0 in view.shape:
        return _contiguous(view.base, view.offset, node.shape)
    extents, [strides] = _joined(view.shape, [view.strides])
    groups = iter(zip(extents, strides, strict=True))
    result: list[int] = []
    left, stride = next(groups)
    step = left * stride  # of the axis last cut off
    for n in node.shape:
        if left == 1 and n > 1:
            left, stride = next(groups)
            step = left * stride
        if left % n:
            return None
        left //= n
        step //= n
        result.append(step)
    return _View(view.base, view.offset, node.shape, tuple(result))


_MOVEMENTS: dict[str, Callable[[_View, Node], _View | None]] = {
    "slice": _slice,
    "transpose": _transpose,
    "flip": _flip,
    "broadcast_to": _broadcast_to,
    "reshape": _reshape,
}
