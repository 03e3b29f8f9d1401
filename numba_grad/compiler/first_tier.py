"""Small graphs to plans without new kernels: a step for each operation, with a kernel of its own.

Compiling takes some 10 ms a kernel, and a fused kernel serves one program. The kernel of one
operation, for any strides (`operation_kernels.py`), serves all of them: it is compiled once a
machine. So a graph that is evaluated for the first time is run operation by operation, at once; one
that comes again and again is fused (`evaluate.py` says when). What decides is the graph and how
often it was evaluated, never what is in a cache, so that a program gives the same bits each time.

Movements are strides and offsets, as in NumPy. What has no kernel here, such as linear algebra,
goes the usual way, as a segment of one operation.
"""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from numba_grad.compiler import build, cpu_target
from numba_grad.compiler.emit_cpu import dtype_name
from numba_grad.compiler.flat_graph import RENAMINGS, FlatGraph
from numba_grad.compiler.groups import Place
from numba_grad.compiler.library_steps import Pointer
from numba_grad.compiler.operation_kernels import elementwise_text, reduction_text
from numba_grad.compiler.program_steps import External, Output, Small, Temporary
from numba_grad.compiler.programs import CompiledProgram
from numba_grad.compiler.reductions import reduction_axes
from numba_grad.compiler.segment_program import compile_segment
from numba_grad.errors import InternalError
from numba_grad.graph.node import Node, argument, record
from numba_grad.runtime.plan import SERIAL, ErrorSite, PlanBuilder, WordValue

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _View:
    """Where a value is: from byte `offset` of the memory `base`, with strides in elements."""

    base: int
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(slots=True)
class _Step:
    source: str
    words: list[object]  # int, or (base, bytes)
    tasks: int = 1
    grain: int = SERIAL


def lowered(graph: FlatGraph) -> CompiledProgram:
    """The plan that computes the outputs of a graph operation by operation."""
    return _Compiler(graph).compile()


class _Compiler:
    def __init__(self, graph: FlatGraph) -> None:
        self.graph = graph
        types = [graph.nodes[k].type for k in graph.outputs]
        self.builder = PlanBuilder(len(graph.inputs), [(t.shape, t.dtype) for t in types])
        self.output_of = {k: number for number, k in enumerate(graph.outputs)}
        self.views: list[_View | None] = [None] * len(graph.nodes)
        self.steps: list[_Step] = []
        self.word_count = 0
        self.called: list[str] = []  # kernels that others call

    def compile(self) -> CompiledProgram:
        graph = self.graph
        for number, k in enumerate(graph.inputs):
            self.views[k] = _contiguous(self.builder.input(number), 0, graph.nodes[k].shape)
        edges, starts = graph.edges.tolist(), graph.starts.tolist()
        for k, node in enumerate(graph.nodes):
            if self.views[k] is None:
                inputs = edges[starts[k] : starts[k + 1]]
                view = self.value(k, node, inputs)
                if k in self.output_of and view.base != self.builder.output(self.output_of[k]):
                    view = self.copied(view, self.new(k), node.dtype)
                self.views[k] = view
        sources = dict.fromkeys([*(step.source for step in self.steps), *self.called])
        kernels = dict(zip(sources, build.build_all(list(sources), is_quick=True), strict=True))
        for step in self.steps:
            words = [self.resolved(word, kernels) for word in step.words]
            kernel = self.builder.kernel(kernels[step.source])
            self.builder.step(kernel, words, step.tasks, step.grain)
        return CompiledProgram(self.builder.build(), [], kernels)

    def resolved(self, word: object, kernels: dict[str, build.Kernel]) -> WordValue:
        match word:
            case ("kernel", str(source)):
                return self.builder.functions, 8 * self.builder.kernel(kernels[source])
            case int() | (int(), int()):
                return word  # type: ignore[return-value]
        raise InternalError(f"first tier: no word for {word!r}")

    # Memory

    def new(self, k: int) -> _View:
        """Memory for the value at position `k`."""
        type = self.graph.nodes[k].type
        number = self.output_of.get(k)
        if number is not None:
            return _contiguous(self.builder.output(number), 0, type.shape)
        return self.temporary(type.shape, type.dtype)

    def temporary(self, shape: Shape, dtype: np.dtype) -> _View:
        nbytes = max(1, math.prod(shape)) * dtype.itemsize
        return _contiguous(self.builder.arena, self.builder.reserve(nbytes), shape)

    def view(self, k: int) -> _View:
        found = self.views[k]
        assert found is not None  # inputs come before their users
        return found

    # Values

    def value(self, k: int, node: Node, inputs: list[int]) -> _View:
        name, family = node.op.name, node.op.family
        if name in RENAMINGS or name == "item":
            return self.view(inputs[0])
        if family == "elementwise":
            template = node.op.expression
            if callable(template):
                template = template(**node.params)
            assert template is not None
            return self.elementwise(k, template, node.op.input_names, inputs)
        if family == "reduction":
            return self.reduction(k, node, inputs[0])
        if name == "matmul" and node.dtype.kind != "b":
            return self.product(k, node, *inputs)
        if name == "literal":
            return self.literal(node)
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
        self, k: int, expression: str, names: tuple[str, ...], inputs: Sequence[int]
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
        expression: str,
        names: tuple[str, ...],
        result: _View,
        dtype: np.dtype,
        operands: Sequence[tuple[_View, np.dtype]],
    ) -> None:
        """`result = expression`, element by element; operands are broadcast."""
        layouts = tuple([(view.shape, view.strides, own) for view, own in operands])
        found = _elementwise_step(expression, names, result.shape, result.strides, dtype, layouts)
        if found is None:
            return
        source, tasks, numbers = found
        pointers = [(view.base, view.offset) for view in (result, *[v for v, _ in operands])]
        self.step(source, [*pointers, *numbers], tasks)

    def copied(self, x: _View, result: _View, dtype: np.dtype) -> _View:
        self.apply("{x}", ("x",), result, dtype, [(x, dtype)])
        return result

    def reduction(self, k: int, node: Node, x: int) -> _View:
        view, dtype = self.view(x), self.graph.nodes[x].dtype
        axes = reduction_axes(node)
        kept = [axis for axis in range(len(view.shape)) if axis not in axes]
        if node.dtype == dtype and all(view.shape[axis] == 1 for axis in axes):
            return _permuted(view, tuple(kept))  # such as -0.0, which is no sum of 0.0 and itself
        moved = _permuted(view, (*kept, *sorted(axes)))
        return self.reduced(k, node, "{x0}", [(moved, dtype)], len(kept))

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
        product = "{x0} * {x1}"
        if node.dtype.kind in "iu":
            product = f"{dtype_name(node.dtype)}({product})"
        return self.reduced(k, node, product, operands, rank)

    def reduced(
        self,
        k: int,
        node: Node,
        value: str,
        operands: Sequence[tuple[_View, np.dtype]],
        kept: int,
    ) -> _View:
        """A reduction over all but the first `kept` axes."""
        result = self.new(k)
        shape = operands[0][0].shape
        tasks = math.prod(shape[:kept])
        if tasks == 0:
            return result
        outer, outer_strides = _joined(shape[:kept], [v.strides[:kept] for v, _ in operands])
        inner, inner_strides = _joined(shape[kept:], [v.strides[kept:] for v, _ in operands])
        if tasks == 1:
            outer, outer_strides = (), [()] * len(operands)
        source = reduction_text(node, value, [d for _, d in operands], len(outer), len(inner))
        pointers = [(result.base, result.offset), *[(v.base, v.offset) for v, _ in operands]]
        strides = [
            n
            for first, last in zip(outer_strides, inner_strides, strict=True)
            for n in (*first, *last)
        ]
        self.step(source, [*pointers, *outer, *inner, *strides], tasks)
        return result

    def literal(self, node: Node) -> _View:
        """Its bytes are words of a step that does nothing else."""
        data = node.params["bytes"]
        words = np.frombuffer(data.ljust(-(-len(data) // 8) * 8, b"\0"), np.int64).tolist()
        place = self.word_count
        self.step(_NOTHING, words, 1)
        return _View(self.builder.words, 8 * place, (), ())

    def iota(self, k: int, node: Node) -> _View:
        result = self.new(k)
        if node.type.size:
            source = elementwise_text("cast(i0, {dtype})", (), (), node.dtype, 1)
            pointer = (result.base, result.offset)
            self.step(source, [pointer, node.type.size, 1], node.type.size)
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
            self.apply("{dtype}(0)", (), result, dtype, [])
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
            self.apply("{x} + {y}", ("x", "y"), target, dtype, [(before, dtype), (part, dtype)])
        return result

    def segment(self, k: int, node: Node, inputs: list[int]) -> _View:
        """By the usual way, as a graph of this one operation."""
        result = self.new(k)
        operands = []
        for x in inputs:
            view = self.view(x)
            if view.strides != _strides(view.shape):
                view = self.copied(view, self.like(x), self.graph.nodes[x].dtype)
            operands.append(view)
        arguments = [argument(self.graph.nodes[x].type) for x in inputs]
        places = {x: Place(External(number)) for number, x in enumerate(arguments)}
        alone = record(node.op, tuple(arguments), node.params)
        program = compile_segment(cpu_target.TARGET, [alone], places, [True])
        memory: dict[object, tuple[int, int]] = {
            External(number): (view.base, view.offset) for number, view in enumerate(operands)
        }
        memory[Output(0)] = (result.base, result.offset)
        for number, nbytes in enumerate(program.temporaries):
            memory[Temporary(number)] = (self.builder.arena, self.builder.reserve(nbytes))
        for dtype, count in program.small.items():
            place = self.builder.reserve(count * dtype.itemsize)
            memory[Small(dtype)] = (self.builder.arena, place)
        self.called += program.spare_sources
        for step in program.steps:
            self.called += step.sources[1:]
            words = [self.word(word, memory) for word in step.words]
            self.step(step.source, words, step.tasks, step.grain)
        return result

    def word(self, word: object, memory: dict[object, tuple[int, int]]) -> object:
        match word:
            case "errors":
                return self.builder.errors, 0
            case ("site", operation, axis):
                return self.builder.site(ErrorSite("index", operation, axis))
            case ErrorSite():
                return self.builder.site(word)
            case ("words", number):
                return self.builder.words, 8 * (self.word_count + number)
            case ("symbol", name):
                return self.builder.symbol(name), 0
            case Pointer(source, offset):
                base, start = memory[source]
                return base, start + offset
        return word

    def step(self, source: str, words: list[object], tasks: int, grain: int = SERIAL) -> None:
        self.steps.append(_Step(source, words, tasks, grain))
        self.word_count += len(words)


_NOTHING = """\
def kernel(args, lo, hi):
    # only words
    n = lo
"""


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


@functools.lru_cache(maxsize=1 << 12)  # a loop has the same few again and again
def _elementwise_step(
    expression: str,
    names: tuple[str, ...],
    shape: Shape,
    strides: Shape,
    dtype: np.dtype,
    operands: tuple[tuple[Shape, Shape, np.dtype], ...],
) -> tuple[str, int, list[int]] | None:
    """Kernel, tasks and the words after the pointers of `result = expression`, given the layouts of
    the result and the operands. None where there are no elements."""
    rank = len(shape)
    layouts = [strides, *[_broadcast(own_shape, own, rank) for own_shape, own, _ in operands]]
    extents, steps = _joined(shape, layouts)
    if 0 in extents:
        return None
    if len(extents) == 1 and not any(layout[0] for layout in steps):
        extents, steps = (), [()] * len(steps)
    dtypes = tuple([own for _, _, own in operands])
    source = elementwise_text(expression, names, dtypes, dtype, len(extents))
    tasks = extents[0] if len(extents) == 1 else math.prod(extents[:-1])
    return source, tasks, [*extents, *(n for own in steps for n in own)]


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
