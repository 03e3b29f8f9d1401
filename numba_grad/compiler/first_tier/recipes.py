"""What one operation needs: the steps that compute it, and where what they give is.

That depends on its signature and on the layouts of its operands. So it is found once, as a `Recipe`
that knows of memory only which operand or temporary array it is; the steps of a loop are the same
recipes again and again.

Movements are strides and offsets. What has no kernel of its own, such as linear algebra, goes the
usual way, as a segment of one operation.
"""

import math
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from numba_grad.compiler import cpu_target
from numba_grad.compiler.emission.emit_cpu import dtype_name
from numba_grad.compiler.first_tier.layouts import (
    MOVEMENTS,
    NO_ELEMENTS,
    ONE_ELEMENT,
    Layouts,
    Shape,
    View,
    broadcast,
    contiguous,
    elementwise_loops,
    loops_over,
    permuted,
    region,
    row_operands,
    strides_of,
)
from numba_grad.compiler.loop_nests.iteration_spaces import all_axes_as_loops
from numba_grad.compiler.loop_nests.reductions import ARG_REDUCTIONS, identity_of, reduction_axes
from numba_grad.compiler.operation_kernels import (
    POINTERS,
    WALK,
    accumulating_row_text,
    accumulating_text,
    argument_text,
    combining_term,
    elementwise_row_text,
    elementwise_text,
    operation_text,
)
from numba_grad.compiler.partition.roles import RENAMINGS
from numba_grad.compiler.scalar_expressions import (
    Call,
    Number,
    Term,
    expression_for,
    expression_text,
    parsed,
)
from numba_grad.compiler.segment_memory import (
    External,
    FileMemory,
    Output,
    Place,
    Small,
    Temporary,
)
from numba_grad.compiler.segment_program import SegmentProgram, compile_segment
from numba_grad.compiler.words import Errors, KernelAddress, OwnWord, Pointer, Symbol
from numba_grad.dtypes import computed_in
from numba_grad.graph.node import Node, argument, record
from numba_grad.graph.types import Type
from numba_grad.immutable import NamedTuple
from numba_grad.ops.functions import is_power_of_integers
from numba_grad.runtime.plan import ONCE, ErrorSite, Launch, PlanBuilder

_COPY, _SUM, _NUMBER = parsed("{x}"), parsed("{x} + {y}"), parsed("cast(lo, {dtype})")

_NO_POINTERS = (0,) * POINTERS

# So many elements an operation computes, wherever a graph has it, before its kernel is one of rows:
# that takes 1 ms longer to compile, and saves 1 ns an element. What takes as long as several
# additions counts as several elements.
_ELEMENTS_WORTH_ROWS = 1 << 18
_ADDITIONS_OF_AN_ELEMENT = 4

Address = tuple[int, int]  # a base and bytes
Word = int | Address | KernelAddress
# A place that differs from one use to the next or, where that is below 0, a base; and the offset.
_Place = tuple[int, int, int]

# Bases, until it is known where they are.
CONSTANTS = -1  # the words behind those of all steps
OWN_WORDS = -2  # the words of the recipe
_FIRST_OPERAND = -3  # and downwards
_FIRST_TEMPORARY = -(1 << 40)  # and downwards


class Recipe:
    """The steps of an operation on operands of given layouts, wherever these are.

    The places that differ from one use to the next are numbered: operands, then temporaries.
    """

    __slots__ = ("operands", "relocations", "results", "steps", "temporaries", "words")

    def __init__(self, operands: int) -> None:
        self.operands = operands  # how many
        self.temporaries: list[int] = []  # bytes
        # Rows of four numbers, one after the other: steps as those of a plan, and of words that are
        # addresses the word, the place or, where that is below 0, a base, and the offset.
        self.steps: list[int] = []
        self.words: list[int] = []
        self.relocations: list[int] = []
        # Each in a place or, where that is below 0, at a base: (place, base, offset, layout).
        self.results: list[tuple[int, int, int, int]] = []

    def new_result(self, operands: int) -> int:
        """The number of the temporary array that the only result is, from its beginning on; below 0
        where it is none."""
        [(place, _, offset, _)] = self.results
        return place - operands if offset == 0 else -1


class Wanted(NamedTuple):
    """A value that is computed, and the base that it is to be left at, if it matters."""

    type: Type
    base: int | None = None


class Recipes:
    """Makes recipes for one plan; has the kernels and the constants that they name by number."""

    # Of the recipe that is being made: what it computes, if it is one operation, its operands, and
    # as how many elements of the graph one of them counts.
    recipe: Recipe
    weight: int
    wanted: Wanted
    types: Sequence[Type]
    operands: list[View]

    def __init__(self, builder: PlanBuilder) -> None:
        self.builder = builder
        self.layouts = Layouts()
        self.kernels: dict[str, int] = {}  # by source
        self.constants = bytearray()
        self.programs: dict[Hashable, SegmentProgram] = {}

    # Recipes

    def of_operation(
        self,
        node: Node,
        layouts: Sequence[int],
        base: int | None,
        signature: Hashable,
        *,
        in_place: bool = False,
        uses: int = 1,
    ) -> Recipe:
        """What computes `node`, and all that has its signature and reads such layouts; to `base`,
        if that matters, or `in_place` of its first operand, which it is an assignment to. `uses`:
        how often about."""
        is_elementwise = node.op.family == "elementwise" and node.op.name not in RENAMINGS
        if is_elementwise and not is_power_of_integers(node):
            weight = uses * max(1, node.op.cost // _ADDITIONS_OF_AN_ELEMENT)
            return self.of_elementwise(node, layouts, base, weight)
        recipe = self.begin(layouts, uses)
        self.wanted = Wanted(node.type, base)
        view = self.assigned(node, self.operands[0]) if in_place else self.value(node, signature)
        if base is not None and view.base != base:
            view = self.copied(view, self.new(), node.dtype)
        self.leave([view], [self.wanted])
        return recipe

    def of_elementwise(
        self, node: Node, layouts: Sequence[int], base: int | None, weight: int
    ) -> Recipe:
        """The same of an elementwise operation, as most are: `begin`, `apply` and `leave` in one,
        where all that is written is a contiguous result."""
        type = node.type
        known = [self.layouts.by_number[number] for number in layouts]
        operands = tuple([(own.shape, strides, own.dtype) for own, strides in known])
        dtypes = tuple([own for _, _, own in operands])
        strides = strides_of(type.shape)
        self.recipe, self.weight = Recipe(len(layouts)), weight
        if base is None:
            self.recipe.temporaries.append(max(1, type.size) * type.dtype.itemsize)
        place, base = (len(layouts), 0) if base is None else (-1, base)
        self.recipe.results.append((place, base, 0, self.layouts.number(type, strides)))
        loops = elementwise_loops(type.shape, strides, type.dtype, operands)
        places = [(place, base, 0), *[(number, 0, 0) for number in range(len(layouts))]]
        names, text = node.op.input_names, expression_text(node)
        source = None
        if self.are_worth_rows(loops):
            expression = expression_for(text, dtypes)
            source = self.row_source(expression, names, type.dtype, dtypes, loops)
        is_row = source is not None
        source = source or operation_text(text, names, dtypes, type.dtype)
        self.walk(source, places, loops, by_rows=is_row)
        return self.recipe

    def of_program(
        self, program: SegmentProgram, layouts: Sequence[int], wanted: Sequence[Wanted]
    ) -> Recipe:
        """What runs a compiled segment."""
        recipe = self.begin(layouts)
        self.leave(self.program(program, wanted), wanted)
        return recipe

    def of_copy(self, layout: int, target: int) -> Recipe:
        """What copies a value to where another one is, which is contiguous."""
        recipe = self.begin([layout, target])
        source, place = self.operands
        self.copied(source, place, self.types[0].dtype)
        return recipe

    def of_row(self, kind: int, words: Sequence[int | Address]) -> Recipe:
        """A row that says which step comes next."""
        recipe = self.begin([])
        self.step(kind, words)
        return recipe

    def begin(self, layouts: Sequence[int], weight: int = 1) -> Recipe:
        """A new one, over operands of these layouts."""
        self.recipe, self.weight = Recipe(len(layouts)), weight
        known = [self.layouts.by_number[number] for number in layouts]
        self.types = [type for type, _ in known]
        self.operands = [
            View(_FIRST_OPERAND - number, 0, type.shape, strides)
            for number, (type, strides) in enumerate(known)
        ]
        return self.recipe

    def leave(self, views: Sequence[View], wanted: Sequence[Wanted]) -> None:
        """Say where results are."""
        for view, own in zip(views, wanted, strict=True):
            layout = self.layouts.number(own.type, view.strides)
            self.recipe.results.append((*self.place_of(view.base, view.offset), layout))

    def place_of(self, base: int, offset: int) -> _Place:
        """Where that is, by the number of a place that another use of the recipe has elsewhere."""
        if base > _FIRST_OPERAND:
            return -1, base, offset
        if base <= _FIRST_TEMPORARY:
            return len(self.operands) + _FIRST_TEMPORARY - base, 0, offset
        return _FIRST_OPERAND - base, 0, offset

    # Memory

    def new(self, wanted: Wanted | None = None) -> View:
        """Memory for what is wanted: by default, of the operation."""
        wanted = wanted or self.wanted
        if wanted.base is not None:
            return contiguous(wanted.base, 0, wanted.type.shape)
        return self.temporary(wanted.type.shape, wanted.type.dtype)

    def temporary(self, shape: Shape, dtype: np.dtype) -> View:
        return contiguous(self.reserved(max(1, math.prod(shape)) * dtype.itemsize), 0, shape)

    def reserved(self, nbytes: int) -> int:
        """A base for memory that each use of the recipe has for itself."""
        self.recipe.temporaries.append(nbytes)
        return _FIRST_TEMPORARY - (len(self.recipe.temporaries) - 1)

    def kernel(self, source: str) -> int:
        return self.kernels.setdefault(source, len(self.kernels))

    # Values

    def value(self, node: Node, signature: Hashable) -> View:
        name, family = node.op.name, node.op.family
        if name in RENAMINGS or name == "item":
            return self.operands[0]
        if is_power_of_integers(node):
            return self.segment(node, signature)  # its kernel tells of negative exponents
        if family == "reduction":
            return self.reduction(node)
        if name == "matmul" and node.dtype.kind != "b":
            return self.product(node)
        if name == "literal":
            return self.constant(node.params["bytes"])
        if name == "iota":
            return self.numbered(self.new(), node.dtype)
        movement = MOVEMENTS.get(name)
        if movement is not None:
            moved = movement(self.operands[0], node)
            if moved is not None:
                return moved
            x = self.copied(self.operands[0], self.like(0), node.dtype)
            return View(x.base, x.offset, node.shape, strides_of(node.shape))
        if name in ("pad", "concatenate", "update_slice", "add_slice"):
            return self.placed(node)
        return self.segment(node, signature)

    def like(self, number: int) -> View:
        type = self.types[number]
        return self.temporary(type.shape, type.dtype)

    def apply(
        self,
        expression: Term,
        names: tuple[str, ...],
        result: View,
        dtype: np.dtype,
        operands: Sequence[tuple[View, np.dtype]],
    ) -> None:
        """`result = expression`, element by element; operands are broadcast."""
        layouts = tuple([(view.shape, view.strides, own) for view, own in operands])
        dtypes = tuple([own for _, own in operands])
        places = self.places_of([result, *[view for view, _ in operands]])
        loops = elementwise_loops(result.shape, result.strides, dtype, layouts)
        source = None
        if expression is not _NUMBER and self.are_worth_rows(loops):
            source = self.row_source(expression, names, dtype, dtypes, loops)
        is_row = source is not None
        source = source or elementwise_text(expression, names, dtypes, dtype)
        self.walk(source, places, loops, by_rows=is_row)

    def row_source(
        self,
        expression: Term,
        names: tuple[str, ...],
        dtype: np.dtype,
        dtypes: tuple[np.dtype, ...],
        loops: Sequence[int],
    ) -> str | None:
        """The kernel of a row of results, if these loops go over rows."""
        varies = row_operands(loops, (dtype, *dtypes))
        if varies is None:
            return None
        return elementwise_row_text(expression, names, dtypes, dtype, varies)

    def are_worth_rows(self, loops: Sequence[int]) -> bool:
        extents = loops[: len(loops) // (1 + POINTERS)]
        return self.weight * math.prod(extents) >= _ELEMENTS_WORTH_ROWS if extents else False

    def places_of(self, views: Sequence[View]) -> list[_Place]:
        return [self.place_of(view.base, view.offset) for view in views]

    def walk(
        self, source: str, places: Sequence[_Place], loops: Sequence[int], *, by_rows: bool = False
    ) -> None:
        """Call the kernel of an element for the elements at places, see `loops_over`; or that of a
        row, `by_rows`, for all that the innermost loop goes over."""
        if loops is NO_ELEMENTS:
            return
        # As `step` does it, for a word after the other.
        recipe = self.recipe
        number = first = len(recipe.words)
        if loops is ONE_ELEMENT:
            recipe.steps += (self.kernel(source), first, *ONCE)
            recipe.words += (0,) * len(places)
        else:
            recipe.steps += (self.kernel(WALK), first, *ONCE)
            count = len(loops) // (1 + POINTERS)
            recipe.words += (0, -count if by_rows else count, *_NO_POINTERS, *loops)
            recipe.relocations += (first, -1, self.builder.functions, 8 * self.kernel(source))
            number += 2
        for place in places:
            recipe.relocations += (number, *place)
            number += 1

    def copied(self, x: View, result: View, dtype: np.dtype) -> View:
        self.apply(_COPY, ("x",), result, dtype, [(x, dtype)])
        return result

    def reduction(self, node: Node) -> View:
        [view], dtype = self.operands, self.types[0].dtype
        axes = reduction_axes(node)
        kept = [axis for axis in range(len(view.shape)) if axis not in axes]
        moved = permuted(view, (*kept, *sorted(axes)))
        if node.op.name in ARG_REDUCTIONS:
            return self.position(node, moved, dtype)
        if node.dtype == dtype and all(view.shape[axis] == 1 for axis in axes):
            return permuted(view, tuple(kept))  # such as -0.0, which is no sum of 0.0 and itself
        return self.reduced(node, parsed("{x0}"), [(moved, dtype)], len(kept))

    def position(self, node: Node, x: View, dtype: np.dtype) -> View:
        """Of the extreme along the last axis of `x`."""
        result, kept, n = self.new(), x.shape[:-1], x.shape[-1]
        first = View(x.base, x.offset, kept, x.strides[:-1])
        best = self.copied(first, self.temporary(kept, dtype), dtype)
        self.apply(Number(0), (), result, node.dtype, [])
        numbers = self.numbered(self.temporary((n,), node.dtype), node.dtype)
        views = [result, x, best, numbers]
        dtypes = [node.dtype, dtype, dtype, node.dtype]
        fixed = [(*strides_of(kept), 0)] * 2
        layouts = [fixed[0], x.strides, fixed[1], broadcast((n,), (1,), len(x.shape))]
        loops = loops_over(x.shape, layouts, dtypes)
        self.walk(argument_text(node.op.name, dtype), self.places_of(views), loops)
        return result

    def product(self, node: Node) -> View:
        """A matrix product, as the sum over the last axis of products."""
        rank, n = len(node.shape), self.types[0].shape[-1]
        operands = []
        for number, (view, type) in enumerate(zip(self.operands, self.types, strict=True)):
            strides = broadcast(view.shape, view.strides, rank)
            rows, columns = strides[-2:]
            inner = (rows, 0, columns) if number == 0 else (0, columns, rows)
            whole = View(view.base, view.offset, (*node.shape, n), (*strides[:-2], *inner))
            operands.append((whole, type.dtype))
        product = parsed("{x0} * {x1}")
        if node.dtype.kind in "iu":
            product = Call(dtype_name(node.dtype), (product,))
        return self.reduced(node, product, operands, rank)

    def reduced(
        self,
        node: Node,
        value: Term,
        operands: Sequence[tuple[View, np.dtype]],
        kept: int,
    ) -> View:
        """A reduction over all but the first `kept` axes."""
        result, shape = self.new(), operands[0][0].shape
        dtype = computed_in(node.dtype)  # half precision is rounded once, at the end
        total = result if dtype == node.dtype else self.temporary(node.shape, dtype)
        start = identity_of(node) if node.op.family == "reduction" else 0
        self.copied(self.constant(np.asarray(start).astype(dtype).tobytes()), total, dtype)
        layouts = [
            (*strides_of(shape[:kept]), *[0] * (len(shape) - kept)),
            *[view.strides for view, _ in operands],
        ]
        dtypes = tuple([own for _, own in operands])
        self.accumulated(
            combining_term(node),
            value,
            [total, *[view for view, _ in operands]],
            (shape, layouts, (dtype, *dtypes)),
            kept,
        )
        if total is not result:
            self.apply(_COPY, ("x",), result, node.dtype, [(total, dtype)])
        return result

    def accumulated(
        self,
        combine: Term,
        value: Term,
        views: Sequence[View],
        elements: tuple[Shape, Sequence[Shape], tuple[np.dtype, ...]],
        kept: int,
    ) -> None:
        """Combine the first of `views` with each `value` of the others; `elements`: of all of them,
        as `loops_over` takes them, the last of which belong to the same result."""
        shape, layouts, dtypes = elements
        loops, places = loops_over(shape, layouts, dtypes), self.places_of(views)
        if self.are_worth_rows(loops):
            # Each result gets its values in the same order, if another one gets some in between.
            axes = (*range(kept, len(shape)), *range(kept))
            turned, *others = [tuple([own[axis] for axis in axes]) for own in (shape, *layouts)]
            by_rows = loops_over(turned, others, dtypes)
            varies = row_operands(by_rows, dtypes)
            if varies is not None:
                source = accumulating_row_text(combine, value, dtypes[1:], dtypes[0], varies)
                self.walk(source, places, by_rows, by_rows=True)
                return
        self.walk(accumulating_text(combine, value, dtypes[1:], dtypes[0]), places, loops)

    def constant(self, data: bytes) -> View:
        """A number of these bytes."""
        place = len(self.constants)
        self.constants += data.ljust(-(-len(data) // 8) * 8, b"\0")
        return View(CONSTANTS, place, (), ())

    def numbered(self, result: View, dtype: np.dtype) -> View:
        """`result`, with the number of each element."""
        self.apply(_NUMBER, (), result, dtype, [])
        return result

    def placed(self, node: Node) -> View:
        """What is made of other arrays' elements, side by side or one over the other."""
        result, dtype, params = self.new(), node.dtype, node.params
        if node.op.name == "concatenate":
            axis, start = params["axis"], 0
            for part in self.operands:
                starts = tuple(start if a == axis else 0 for a in range(len(node.shape)))
                steps = (1,) * len(starts)
                self.copied(part, region(result, starts, part.shape, steps, dtype), dtype)
                start += part.shape[axis]
            return result
        if node.op.name == "pad":
            [part] = self.operands
            self.apply(Call(dtype_name(dtype), (Number(0),)), (), result, dtype, [])
            steps = tuple(n + 1 for n in params["interior"])
            self.copied(part, region(result, params["low"], part.shape, steps, dtype), dtype)
            return result
        return self.assigned(node, self.copied(self.operands[0], result, dtype))

    def assigned(self, node: Node, result: View) -> View:
        """`result`, in which the elements of the array are, with the part that is assigned to it or
        added to it."""
        part, dtype, params = self.operands[1], node.dtype, node.params
        target = region(result, params["starts"], part.shape, params["steps"], dtype)
        if node.op.name == "update_slice":
            self.copied(part, target, dtype)
        else:
            self.apply(_SUM, ("x", "y"), target, dtype, [(target, dtype), (part, dtype)])
        return result

    def segment(self, node: Node, signature: Hashable) -> View:
        """By the usual way, as a graph of this one operation."""
        return self.program(self.program_of(node, signature), [self.wanted])[0]

    def program(self, program: SegmentProgram, wanted: Sequence[Wanted]) -> list[View]:
        """The steps of a segment of the operands."""
        memory: dict[object, Address] = {}
        for number, (view, type) in enumerate(zip(self.operands, self.types, strict=True)):
            if view.strides != strides_of(view.shape):
                view = self.copied(view, self.like(number), type.dtype)
            memory[External(number)] = view.base, view.offset
        for number, (own, place) in enumerate(zip(wanted, program.outputs, strict=True)):
            if place.memory == Output(number):
                result = self.new(own)
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
            words = [
                word if isinstance(word, int) else self.word(word, memory) for word in step.words
            ]
            self.step(step.control or step.source, words, step.launch)
        views = []
        for own, place in zip(wanted, program.outputs, strict=True):
            base, first = memory[place.memory]
            offset = first + place.offset * own.type.dtype.itemsize
            views.append(contiguous(base, offset, own.type.shape))
        return views

    def program_of(self, node: Node, signature: Hashable) -> SegmentProgram:
        """The segment of this operation alone: a loop has the same one in each step."""
        key = (signature, *self.types)
        program = self.programs.get(key)
        if program is None:
            arguments = [argument(type) for type in self.types]
            places = {x: Place(External(number)) for number, x in enumerate(arguments)}
            alone = record(node.op, tuple(arguments), node.params)
            with all_axes_as_loops():
                program = compile_segment(cpu_target.TARGET, [alone], places, [True])
            self.programs[key] = program
        return program

    def word(self, word: Any, memory: dict[object, Address]) -> Word:
        match word:
            case Errors():
                return self.builder.errors, 0
            case ErrorSite():
                return self.builder.site(word)
            case OwnWord(number):
                return OWN_WORDS, 8 * number
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
        recipe.steps += (number_of_kernel, first, tasks, grain)
        recipe.words += [word if isinstance(word, int) else 0 for word in words]
        for number, word in enumerate(words, first):
            if isinstance(word, int):
                continue
            if isinstance(word, KernelAddress):
                self.point(number, self.builder.functions, 8 * self.kernel(word.source))
                continue
            base, offset = word
            self.point(number, base, offset + 8 * first if base == OWN_WORDS else offset)

    def point(self, word: int, base: int, offset: int) -> None:
        """Have a word of the recipe be an address."""
        self.recipe.relocations += (word, *self.place_of(base, offset))
