"""Loops of arithmetic over elements at equal distances, written as vector code here.

What LLVM's pipeline makes of such a loop is known beforehand: the same instructions on vectors,
addresses that step, and before it what is the same in all passes. To find that out takes LLVM half
of the time that a kernel takes to compile, and the result has three forms of each loop: for long
rows, for their ends, and for short rows. Here it has one for whole vectors and one for the rest: a
last vector of which only some elements are loaded and stored, if the processor can do that and the
loop only stores, single elements elsewhere.

Elements that are no neighbours, as of a column, are loaded and stored one by one, and computed with
as vectors: 0.3 to 0.5 of the time that LLVM's own code takes. Complex numbers are taken apart as
they are loaded, and computed with as two vectors (`vector_values.py`).

A kernel that has no other loops (`plain_loops.py`) needs none of LLVM's passes but the one that
puts variables into registers. Its bits are those of scalar code, but for sums, which are added up
in vectors.
"""

# pyright: reportAttributeAccessIssue=false, reportPrivateImportUsage=false
# pyright: reportCallIssue=false, reportArgumentType=false

import ast
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from itertools import chain
from typing import TYPE_CHECKING, Any

from llvmlite import ir
from numba.core import types

from numba_grad.compiler.code_generation import has_fma, has_masks, vector_bytes
from numba_grad.compiler.kernel_language import vector_functions, vector_values
from numba_grad.compiler.kernel_language.instructions import QuickBuilder
from numba_grad.compiler.kernel_language.plain_loops import (
    COMPARISONS,
    PlainLoop,
    key_of,
    summand_of,
)
from numba_grad.compiler.kernel_language.scalars import INT64, complex_parts, storage_type
from numba_grad.compiler.kernel_language.vector_values import (
    INT32,
    PART_OF,
    NotPlain,
    VectorValue,
    as_complex,
    condition,
    in_all,
    vector,
)
from numba_grad.immutable import NamedTuple

if TYPE_CHECKING:
    from numba_grad.compiler.kernel_language.syntax_lowering import FunctionLowering, Typed

_BIT = ir.IntType(1)
_LONG = 64  # statements of a loop that takes longer than its sums wait for each other
_SHORT = 6  # statements of a loop of which four vectors are written, if they add something up


class _Place(NamedTuple):
    pointer: Any  # to what an index of 0 means
    stride: Any  # None for neighbours; of complex numbers, in parts
    is_condition: bool
    is_complex: bool


class VectorLoop:
    """The code of a plain loop, where `lowering` is at."""

    def __init__(
        self,
        lowering: "FunctionLowering",
        loop: PlainLoop,
        element: types.Float | types.Integer,
        start: Any,
        stop: Any,
    ) -> None:
        self.lowering = lowering
        self.loop = loop
        self.element = element
        self.start, self.stop = start, stop
        self.builder = lowering.builder
        # Where what is the same in all passes is computed.
        self.before = QuickBuilder(lowering.block("before"))
        nbytes = element.bitwidth // 8
        self.align = nbytes
        self.width = vector_bytes() // nbytes
        self.vector = ir.VectorType(storage_type(element), self.width)
        self.conditions = ir.VectorType(_BIT, self.width)
        kinds = [types.unliteral(lowering.variables[name].type) for name in loop.sums]
        self.parts_of_sums = [2 if kind in PART_OF else 1 for kind in kinds]
        # Masks are for loops that only store, to what they do not read. A load under a mask that
        # misses the cache holds up sums: dot products of rows of 50 take 14.9 ns, not 10.9. What
        # is stored under one is waited for longer where the next pass of an outer loop reads it.
        # Functions of single elements take longer than all of that, and so do complex numbers and
        # long bodies, of which there are two in place of three.
        are_complex = max(self.parts_of_sums, default=1) == 2
        waits = (loop.sums and not loop.calls_functions and not are_complex) or loop.writes_over()
        self.is_long = len(loop.node.body) > _LONG
        self.has_masks = has_masks() and not loop.strided and (self.is_long or not waits)
        self.known: set[str] = set()  # variables that are assigned there
        self.scalars: dict[ast.AST, VectorValue] = {}
        self.places: dict[object, _Place] = {}
        self.lanes: dict[object, list[Any]] = {}
        self.copies: dict[Any, Any] = {}  # of a scalar in all elements of a vector
        self.values: dict[str, VectorValue] = {}
        self.known_functions: vector_functions.Known = {}  # what those of this vector consist of
        self.index: Any = None
        self.mask: Any = None  # of the last vector

    def write(self) -> None:
        """Passes of several vectors, where there are sums, passes of one, and what is left."""
        lowering, builder = self.lowering, self.builder
        outside, first, after = builder.block, lowering.block("first"), lowering.block("after")
        builder.cbranch(builder.icmp_signed("<", self.start, self.stop), self.before.block, after)
        builder.position_at_end(first)
        with lowering.products.loop(outside, self.loop.node):
            self.write_passes()
        self.before.branch(first)
        builder.branch(after)
        builder.position_at_end(after)

    def write_passes(self) -> None:
        left, sums = self.start, [self.nothing] * sum(self.parts_of_sums)
        if self.has_masks and self.is_long:
            self.add_to_sums(self.masked_vectors(sums))
            return
        for vectors in (self.unrolled, 1) if self.unrolled > 1 else (1,):
            left, sums = self.whole_vectors(left, sums, vectors)
        if self.has_masks:
            sums = self.last_vector(left, sums)
        elif self.loop.sums and not self.loop.writes_over():
            left, sums = self.vector_to_the_end(left, sums)
        self.add_to_sums(sums)
        if not self.has_masks:
            self.lowering.scalar_loop(self.loop.node, left, self.stop, INT64(1))

    @property
    def unrolled(self) -> int:
        """Sums wait for each other, several in turn do not; functions take longer than that."""
        if not self.loop.sums or self.is_long or self.loop.calls_functions:
            return 1
        return 4 if len(self.loop.node.body) <= _SHORT and max(self.parts_of_sums) == 1 else 2

    def whole_vectors(self, first: Any, sums: list[Any], vectors: int) -> tuple[Any, list[Any]]:
        """Passes of so many vectors, from an index on: where they end, and the sums then."""
        builder, before = self.builder, self.builder.block
        loop, rest = self.lowering.block("pass"), self.lowering.block("rest")
        step = self.width * vectors
        count = builder.sub(self.stop, first, flags=("nsw",))
        end = builder.add(first, builder.and_(count, INT64(-step)), flags=("nsw",))
        builder.cbranch(builder.icmp_signed("<", first, end), loop, rest)
        builder.position_at_end(loop)
        index = builder.phi(INT64)
        at_first = [sums, *[[self.nothing] * len(sums)] * (vectors - 1)]
        phis = [[builder.phi(self.vector) for _ in sums] for _ in range(vectors)]
        results = []
        for number, of_vector in enumerate(phis):
            offset = INT64(number * self.width)
            place = builder.add(index, offset, flags=("nsw",)) if number else index
            results.append(self.vector_at(place, of_vector))
        following = builder.add(index, INT64(step), flags=("nsw",))
        _come_from(index, (first, before), (following, loop))
        old, new = list(chain(*at_first)), list(chain(*results))
        for phi, value, result in zip(chain(*phis), old, new, strict=True):
            _come_from(phi, (value, before), (result, loop))
        builder.cbranch(builder.icmp_signed("<", following, end), loop, rest)
        builder.position_at_end(rest)
        parts = self.either(old, before, new, loop)
        return end, [reduce(builder.fadd, parts[k :: len(sums)]) for k in range(len(sums))]

    def masked_vectors(self, sums: list[Any]) -> list[Any]:
        """All elements, by one body with a mask; the sums after them."""
        builder, before = self.builder, self.builder.block
        loop, done = self.lowering.block("pass"), self.lowering.block("done")
        builder.branch(loop)
        builder.position_at_end(loop)
        index = builder.phi(INT64)
        phis = [builder.phi(self.vector) for _ in sums]
        results = self.part_of_vector(index, phis)
        following = builder.add(index, INT64(self.width), flags=("nsw",))
        _come_from(index, (self.start, before), (following, loop))
        for phi, value, result in zip(phis, sums, results, strict=True):
            _come_from(phi, (value, before), (result, loop))
        builder.cbranch(builder.icmp_signed("<", following, self.stop), loop, done)
        builder.position_at_end(done)
        return results

    def part_of_vector(self, first: Any, sums: list[Any]) -> list[Any]:
        """The elements that are left, as many as a vector has at most; the sums after them."""
        builder, width = self.builder, INT64(self.width)
        lanes = ir.VectorType(INT32, self.width)
        left = builder.sub(self.stop, first)
        count = builder.select(builder.icmp_signed("<", left, width), left, width)
        numbers = ir.Constant(lanes, list(range(self.width)))
        count = in_all(builder, builder.trunc(count, INT32), lanes)
        self.mask = builder.icmp_unsigned("<", numbers, count)
        parts = self.vector_at(first, sums)
        return [builder.select(self.mask, *both) for both in zip(parts, sums, strict=True)]

    def last_vector(self, first: Any, sums: list[Any]) -> list[Any]:
        """The elements that are left, fewer than a vector has; the sums after them."""
        builder, before = self.builder, self.builder.block
        last, done = self.lowering.block("last"), self.lowering.block("done")
        builder.cbranch(builder.icmp_signed("<", first, self.stop), last, done)
        builder.position_at_end(last)
        parts = self.part_of_vector(first, sums)
        builder.branch(done)
        builder.position_at_end(done)
        return self.either(sums, before, parts, last)

    def either(
        self, values: list[Any], block: ir.Block, others: list[Any], other_block: ir.Block
    ) -> list[Any]:
        """These values where the first block came before this one, others where the other did."""
        phis = [self.builder.phi(value.type) for value in values]
        for phi, value, other in zip(phis, values, others, strict=True):
            _come_from(phi, (value, block), (other, other_block))
        return phis

    # Sums

    def vector_to_the_end(self, first: Any, sums: list[Any]) -> tuple[Any, list[Any]]:
        """The elements that are left, if there is a whole vector: the last one, of which what was
        added before is not added again. Where they end, and the sums then."""
        builder, before = self.builder, self.builder.block
        last, rest = self.lowering.block("last"), self.lowering.block("rest")
        index = builder.sub(self.stop, INT64(self.width), flags=("nsw",))
        is_whole = builder.icmp_signed(">=", index, self.start)
        are_left = builder.icmp_signed("<", first, self.stop)
        builder.cbranch(builder.and_(is_whole, are_left), last, rest)
        builder.position_at_end(last)
        lanes = ir.VectorType(INT32, self.width)
        count = builder.trunc(builder.sub(first, index), INT32)
        numbers = ir.Constant(lanes, list(range(self.width)))
        is_new = builder.icmp_unsigned(">=", numbers, in_all(builder, count, lanes))
        results = self.vector_at(index, sums)
        results = [builder.select(is_new, x, y) for x, y in zip(results, sums, strict=True)]
        builder.branch(rest)
        end = builder.block
        builder.position_at_end(rest)
        first, *sums = self.either([first, *sums], before, [self.stop, *results], end)
        return first, sums

    @property
    def nothing(self) -> ir.Constant:
        """What changes no number that it is added to."""
        return ir.Constant(self.vector, [ir.Constant(self.vector.element, -0.0)] * self.width)

    def by_sum(self, parts: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Vectors that are parts of sums, together for each sum."""
        remaining = iter(parts)
        return [tuple([next(remaining) for _ in range(count)]) for count in self.parts_of_sums]

    def add_to_sums(self, totals: list[Any]) -> None:
        """Add the elements of vectors to the variables that they are parts of."""
        element = self.vector.element
        zero = ir.Constant(element, -0.0)
        for name, parts in zip(self.loop.sums, self.by_sum(totals), strict=True):
            sums = [
                self.intrinsic(
                    "vector.reduce.fadd", self.suffix, element, [zero, total], ("reassoc",)
                )
                for total in parts
            ]
            self.lowering.add_to(name, *sums)

    # A vector

    def vector_at(self, index: Any, sums: list[Any]) -> list[Any]:
        """Write what the elements from `index` on need; the sums after them."""
        self.index, self.known_functions = index, {}
        results = dict(zip(self.loop.sums, self.by_sum(sums), strict=True))
        for statement in self.loop.node.body:
            assert isinstance(statement, ast.Assign)
            [target] = statement.targets
            summand = summand_of(statement)
            if summand is not None and isinstance(target, ast.Name) and target.id in results:
                results[target.id] = self.sum_with(results[target.id], summand)
            elif isinstance(target, ast.Subscript):
                self.store(target, self.as_vector(self.value(statement.value)))
            elif isinstance(target, ast.Name) and self.loop.varies(target):
                self.values[target.id] = self.value(statement.value)
            elif isinstance(target, ast.Name) and target.id not in self.known:
                self.known.add(target.id)
                with self.before_the_loop():
                    self.lowering.assign(target.id, self.lowering.expression(statement.value))
        return [part for parts in results.values() for part in parts]

    def sum_with(self, old: tuple[Any, ...], node: ast.expr) -> tuple[Any, ...]:
        """What is summed in an order of ours may as well be rounded once."""
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) and has_fma():
            factors = [self.vector_of(node.left), self.vector_of(node.right)]
            if len(old) == 1 and not any(x.is_complex for x in factors):
                vectors = [part for x in factors for part in x.parts]
                return (self.intrinsic("fma", self.suffix, self.vector, [*vectors, *old]),)
            summand = self.arithmetic(ast.Mult, *factors)
        else:
            summand = self.vector_of(node)
        if len(old) == 1 and summand.is_complex:
            raise NotPlain
        parts = summand.parts if len(old) == 1 else as_complex(summand)
        return tuple(map(self.builder.fadd, old, parts))

    # What is the same in all passes

    @contextmanager
    def before_the_loop(self) -> Iterator[None]:
        lowering = self.lowering
        lowering.builder = self.before
        yield
        lowering.builder = self.builder

    def scalar(self, node: ast.expr) -> VectorValue:
        found = self.scalars.get(node)
        if found is None:
            with self.before_the_loop():
                typed = self.lowering.expression(node)
                is_condition = isinstance(types.unliteral(typed.type), types.Boolean)
                parts = (typed.value,) if is_condition else self.parts_of(typed)
            found = self.scalars[node] = VectorValue(False, is_condition, parts)
        return found

    def parts_of(self, typed: "Typed") -> tuple[Any, ...]:
        """Of a number that is one of `element`, or has two as its parts."""
        kind = types.unliteral(typed.type)
        if kind == self.element:
            return (typed.value,)
        if PART_OF.get(kind) != self.element:
            raise NotPlain
        return tuple(complex_parts(self.lowering.builder, typed.value))

    def as_vector(self, given: VectorValue) -> VectorValue:
        if given.is_vector:
            return given
        kind = self.conditions if given.is_condition else self.vector
        return VectorValue(
            True, given.is_condition, tuple([self.copy(x, kind) for x in given.parts])
        )

    def copy(self, scalar: Any, kind: ir.VectorType) -> Any:
        found = self.copies.get(scalar)
        if found is None:
            found = self.copies[scalar] = in_all(self.before, scalar, kind)
        return found

    # Memory

    def place(self, node: ast.Subscript) -> "_Place":
        """Where the elements of a loop are; what is the same in all passes is computed before."""
        key = (key_of(node.value), key_of(node.slice))
        found = self.places.get(key)
        if found is None:
            place = self.loop.place_of(node.slice)
            assert place is not None
            with self.before_the_loop():
                buffer = self.lowering.expression(node.value)
                pointer, element = buffer.value, buffer.type.element
                is_complex = PART_OF.get(element) == self.element
                if not is_complex and element not in (self.element, types.boolean):
                    raise NotPlain
                if place.rest:
                    offset = self.lowering.integer(place.rest[0])
                    for term in place.rest[1:]:
                        offset = self.before.add(offset, self.lowering.integer(term))
                    pointer = self.before.gep(pointer, [self.in_parts(offset, is_complex)])
                stride = None
                if place.stride is not None:
                    stride = self.in_parts(self.lowering.integer(place.stride), is_complex)
            is_condition = element == types.boolean
            found = self.places[key] = _Place(pointer, stride, is_condition, is_complex)
        return found

    def in_parts(self, number: Any, is_complex: bool) -> Any:
        """A number of elements, of which complex ones have two parts."""
        if not is_complex:
            return number
        return self.lowering.builder.mul(number, INT64(2), flags=("nsw",))

    def addresses(self, place: "_Place") -> list[Any]:
        """Of the elements that this pass is about, if they are no neighbours."""
        key = (place.stride, self.index)
        indices = self.lanes.get(key)
        if indices is None:
            builder = self.builder
            indices = [builder.mul(self.index, place.stride, flags=("nsw",))]
            for _ in range(self.width - 1):
                indices.append(builder.add(indices[-1], place.stride, flags=("nsw",)))
            self.lanes[key] = indices
        return [self.builder.gep(place.pointer, [index]) for index in indices]

    def load(self, node: ast.Subscript) -> VectorValue:
        place = self.place(node)
        if place.stride is not None:
            parts = [self.gathered(place, part) for part in range(1 + place.is_complex)]
            return VectorValue(True, place.is_condition, tuple(parts))
        return self.neighbours(place)

    def gathered(self, place: "_Place", part: int) -> Any:
        """Elements one by one, of complex ones a part."""
        builder, element = self.builder, self.element_of(place)
        kind, align = ir.VectorType(element, self.width), self.align_of(place)
        loaded = ir.Constant(kind, ir.Undefined)
        for lane, address in enumerate(self.addresses(place)):
            own = builder.gep(address, [INT64(1)]) if part else address
            one = builder.load(own, align=align, typ=element)
            loaded = builder.insert_element(loaded, one, INT32(lane))
        return self.as_condition(loaded) if place.is_condition else loaded

    def neighbours(self, place: "_Place") -> VectorValue:
        builder, count = self.builder, self.width * (1 + place.is_complex)
        kind, align = ir.VectorType(self.element_of(place), count), self.align_of(place)
        address = builder.gep(place.pointer, [self.in_parts(self.index, place.is_complex)])
        if self.mask is None:
            loaded = builder.load(address, align=align, typ=kind)
        else:
            mask = self.mask_of(place)
            arguments = [address, INT32(align), mask, ir.Constant(kind, None)]
            suffix = f"v{count}i8" if place.is_condition else self.suffix_of(count)
            loaded = self.intrinsic("masked.load", f"{suffix}.p0", kind, arguments)
        if place.is_complex:
            return vector(*vector_values.taken_apart(builder, loaded))
        return condition(self.as_condition(loaded)) if place.is_condition else vector(loaded)

    def element_of(self, place: "_Place") -> ir.Type:
        return ir.IntType(8) if place.is_condition else self.vector.element

    def align_of(self, place: "_Place") -> int:
        return 1 if place.is_condition else self.align

    def as_condition(self, loaded: Any) -> Any:
        return self.builder.icmp_unsigned("!=", loaded, ir.Constant(loaded.type, None))

    def mask_of(self, place: "_Place") -> Any:
        """Which elements of the last vector there are, or which parts of complex ones."""
        if not place.is_complex:
            return self.mask
        return vector_values.put_together(self.builder, self.mask, self.mask)

    def store(self, node: ast.Subscript, value: VectorValue) -> None:
        builder, place = self.builder, self.place(node)
        parts = as_complex(value) if place.is_complex else value.parts[:1]
        if place.stride is not None:
            for lane, address in enumerate(self.addresses(place)):
                for number, part in enumerate(parts):
                    own = builder.gep(address, [INT64(1)]) if number else address
                    one = builder.extract_element(part, INT32(lane))
                    builder.store(one, own, align=self.align)
            return
        stored = vector_values.put_together(builder, *parts) if len(parts) == 2 else parts[0]
        address = builder.gep(place.pointer, [self.in_parts(self.index, place.is_complex)])
        if self.mask is None:
            builder.store(stored, address, align=self.align)
            return
        arguments = [stored, address, INT32(self.align), self.mask_of(place)]
        suffix = self.suffix_of(stored.type.count)
        self.intrinsic("masked.store", f"{suffix}.p0", ir.VoidType(), arguments)

    @property
    def suffix(self) -> str:
        return self.suffix_of(self.width)

    def suffix_of(self, count: int) -> str:
        letter = "i" if isinstance(self.element, types.Integer) else "f"
        return f"v{count}{letter}{self.element.bitwidth}"

    def intrinsic(
        self, name: str, suffix: str, result: Any, arguments: list[Any], flags: Sequence[str] = ()
    ) -> Any:
        module = self.builder.module
        full_name = f"llvm.{name}.{suffix}"
        function = module.globals.get(full_name)
        if function is None:
            kind = ir.FunctionType(result, [argument.type for argument in arguments])
            function = ir.Function(module, kind, full_name)
        return self.builder.call(function, arguments, fastmath=flags)

    # Values

    def value(self, node: ast.expr) -> VectorValue:
        if isinstance(node, ast.Name) and node.id in self.values:
            return self.values[node.id]
        if not self.loop.varies(node):
            return self.scalar(node)
        match node:
            case ast.BinOp(op=ast.Add() | ast.Sub()):
                for product, other in ((node.left, node.right), (node.right, node.left)):
                    if isinstance(product, ast.BinOp) and isinstance(product.op, ast.Mult):
                        return self.sum_of_product(node, product, other)
                return self.arithmetic(type(node.op), *self.vectors(node.left, node.right))
            case ast.BinOp():
                return self.arithmetic(type(node.op), *self.vectors(node.left, node.right))
            case ast.UnaryOp(operand=operand):
                return vector(*map(self.builder.fneg, self.numbers(operand)))
            case ast.Compare(left=left, ops=[operation], comparators=[right]):
                compared = self.compared(left), self.compared(right)
                return vector_values.comparison(
                    self.builder, COMPARISONS[type(operation)], *compared
                )
            case ast.Call(func=ast.Name(id="reduce_add"), args=[old, summand]):
                return vector(*self.sum_with(self.numbers(old), summand))
            case ast.Call(func=ast.Name(id="select"), args=arguments):
                return vector_values.choice(self.builder, *self.vectors(*arguments))
            case ast.Call(func=ast.Name(id="bool_"), args=[given]):
                return self.condition(given)
            case ast.Call(func=ast.Name(id="cast"), args=[given, ast.Name(id=name)]):
                return self.cast(self.vector_of(given), name)
            case ast.Call(func=ast.Name(id=name), args=arguments):
                return vector_values.function(
                    self.builder, name, self.vectors(*arguments), self.known_functions
                )
            case ast.Subscript():
                return self.load(node)
        raise NotPlain

    def vector_of(self, node: ast.expr) -> VectorValue:
        return self.as_vector(self.value(node))

    def vectors(self, *nodes: ast.expr) -> list[VectorValue]:
        return [self.vector_of(node) for node in nodes]

    def condition(self, node: ast.expr) -> VectorValue:
        given = self.value(node)
        if not given.is_condition:
            raise NotPlain
        return given

    def numbers(self, node: ast.expr) -> tuple[Any, ...]:
        """The parts of a number."""
        given = self.value(node)
        if given.is_condition:
            raise NotPlain
        return self.as_vector(given).parts

    def cast(self, given: VectorValue, name: str) -> VectorValue:
        if given.is_condition:
            given = vector(self.builder.uitofp(*given.parts, self.vector))
        elif not given.is_complex and name == str(self.element):
            raise NotPlain
        if name == str(self.element):
            return vector(given.parts[0])
        if PART_OF.get(getattr(types, name, None)) != self.element:
            raise NotPlain
        return vector(*as_complex(given))

    def arithmetic(
        self, operation: type[ast.operator], x: VectorValue, y: VectorValue
    ) -> VectorValue:
        return vector_values.arithmetic(self.builder, operation, x, y, self.known_functions)

    def sum_of_product(self, node: ast.BinOp, product: ast.BinOp, other: ast.expr) -> VectorValue:
        """With one rounding of what is not complex, as the lowering of scalars has it."""
        builder = self.builder
        x, y, z = self.vectors(product.left, product.right, other)
        if any(value.is_condition for value in (x, y, z)):
            raise NotPlain
        if not has_fma() or any(value.is_complex for value in (x, y, z)):
            xy = self.arithmetic(ast.Mult, x, y)
            return self.arithmetic(type(node.op), *((xy, z) if product is node.left else (z, xy)))
        [[a], [b], [c]] = x.parts, y.parts, z.parts
        if isinstance(node.op, ast.Sub) and product is node.left:
            c = builder.fneg(c)
        elif isinstance(node.op, ast.Sub):
            a = builder.fneg(a)
        return vector(self.intrinsic("fma", self.suffix, self.vector, [a, b, c]))

    def compared(self, node: ast.expr) -> VectorValue:
        """A number, or a whole one in the text, as in `v == 0`."""
        is_float = isinstance(self.element, types.Float)
        if is_float and isinstance(node, ast.Constant) and type(node.value) is int:
            number = ir.Constant(self.vector.element, float(node.value))
            return self.as_vector(VectorValue(False, False, (number,)))
        return self.vector_of(node)


def _come_from(phi: Any, *incoming: tuple[Any, ir.Block]) -> None:
    for value, block in incoming:
        phi.add_incoming(value, block)
