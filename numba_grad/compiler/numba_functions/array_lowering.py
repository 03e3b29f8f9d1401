"""Generated functions to machine code: the kernel language with arrays, in one walk.

The text of a generated function is Numba source for people, and Numba would compile it: half a
second for an adjoint, which goes into translating byte code and inferring types. Here it is lowered
as kernels are (`kernel_language/syntax_lowering.py`), and gets their functions (sin, exp, ...),
which have vector forms. What it has besides the kernel language:

    arrays          C-contiguous, `a[i, j]` with indices from 0 on, `a.shape[0]`; a parameter of
                    any dtype and rank, `new_array((n, m,), np.float64)`, `free(a)`, `grown(...)`
    names           of arrays and scalars, several at once: `u, v = v, u`
    names of        `math.sin`, `np.float64`, `np.inf`, ...
    `raise`         ends the function; which of its exceptions it is, the caller is told
    `in_parallel`   calls a `@part` by the engine's threads

Arrays with different names never overlap, but for those that are swapped.

This module imports Numba, so only code that compiles imports it.
"""

# Neither Numba's annotations nor llvmlite's are complete.
# pyright: reportAttributeAccessIssue=false, reportOptionalMemberAccess=false
# pyright: reportCallIssue=false

import ast
import operator
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.np.numpy_support import from_dtype

from numba_grad.compiler import code_generation
from numba_grad.compiler.kernel_language import front_end, intrinsics
from numba_grad.compiler.kernel_language.meanings import Meanings
from numba_grad.compiler.kernel_language.scalars import (
    INT64,
    BufferType,
    cast_value,
    size_in_bytes,
    storage_type,
)
from numba_grad.compiler.kernel_language.sources import Source
from numba_grad.compiler.kernel_language.statements import every_statement
from numba_grad.compiler.kernel_language.syntax_lowering import (
    FunctionLowering,
    JumpTargets,
    Typed,
    is_number,
)
from numba_grad.compiler.numba_functions.generated import NO_MEMORY, raises
from numba_grad.compiler.numba_functions.numba_words import WORDS
from numba_grad.immutable import immutable
from numba_grad.ops.custom_kernels import Argument, ArrayArgument
from numba_grad.runtime.loader import SHARED_WORDS
from numba_grad.runtime.threads import SharedWord
from numba_grad.syntax_trees import syntax_tree

# What the function returns.
DONE, FAILED = 0, 1

_BYTES = ir.IntType(8).as_pointer()
# The names of functions in the kernel language, by what they are called here.
_FUNCTIONS = {word: name for name, word in WORDS.items()} | {"min": "min", "max": "max"}
# These give integers.
_ROUNDINGS = {"math.trunc": "trunc", "math.floor": "floor", "math.ceil": "ceil", "round": "rint"}
_FACTORS = {"math.degrees": 180.0 / np.pi, "math.radians": np.pi / 180.0}
_CONSTANTS = {"np.inf": np.inf, "np.nan": np.nan}


class ArrayType(types.Type):
    """An array in generated code. Its value is an `_Array`."""

    def __init__(self, element: types.Type, rank: int, scope: int) -> None:
        self.buffer = BufferType(element, scope)
        self.rank = rank
        super().__init__(name=f"array({element}, {rank}, {scope})")


class DistinctNode(ir.MDValue):
    """Metadata that is equal to no other."""

    def __init__(self, module: ir.Module, values: Sequence[Any], names_itself: bool = False):
        super().__init__(module, values, name=str(len(module.metadata)))
        if names_itself:
            self.operands = (self, *self.operands)

    def descr(self, buf: list[str]) -> None:
        operands = ", ".join(operand.get_reference() for operand in self.operands)
        buf += (f"distinct !{{ {operands} }}", "\n")

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other

    def __hash__(self) -> int:
        return id(self)


@immutable
class _Array:
    data: Any  # a pointer to its elements
    shape: tuple[Any, ...]  # int64


def object_code(source: str, name: str, arguments: Sequence[Argument], symbol: str) -> bytes:
    """An object with the function `name` of a generated source, as `symbol`.

    It is called with two addresses, the second of the word that tells why it has failed,
    then as Numba calls a function: for each array 0, 0, size, size of an element, address, shape
    and strides; for each number the number. It returns DONE or FAILED.
    """

    def write(meanings: Meanings, module: ir.Module) -> None:
        _Module(source, meanings, module).lower(name, arguments, symbol)

    module = front_end.module_by(write, symbol)
    return code_generation.object_code(code_generation.optimized(module, symbol))


class _Module:
    """A source, and what is lowered of it."""

    def __init__(self, source: str, meanings: Meanings, module: ir.Module) -> None:
        self.source, self.meanings, self.module = source, meanings, module
        tree = syntax_tree(source)
        self.functions = {f.name: f for f in tree.body if isinstance(f, ast.FunctionDef)}
        self.numbers = {id(node): number for number, node in enumerate(raises(tree))}
        self.scopes = _scopes(tree)

    def lower(self, name: str, arguments: Sequence[Argument], symbol: str) -> None:
        definition = self.functions[name]
        kinds: list[Any] = []
        for argument in arguments:
            if isinstance(argument, ArrayArgument):
                kinds += [INT64] * (5 + 2 * argument.rank)
            else:
                kinds.append(INT64 if argument.dtype.kind == "i" else ir.DoubleType())
        function_type = ir.FunctionType(INT64, [INT64, INT64, *kinds])
        function = ir.Function(self.module, function_type, symbol)
        lowering = _Lowering(self, definition, function, function.args[1])
        words = iter(function.args[2:])
        for parameter, argument in zip(definition.args.args, arguments, strict=True):
            lowering.assign(parameter.arg, lowering.argument(parameter.arg, argument, words))
        lowering.lower()

    def part(self, name: str, given: Sequence[Typed], record_type: ir.Type) -> ir.Function:
        """A `@part`, as the engine calls it: with a record's address, first and last task.

        The record has the word of a failure, then the values that are given."""
        definition = self.functions[name]
        function = ir.Function(self.module, ir.FunctionType(INT64, [INT64] * 3), f"part.{name}")
        function.linkage = "internal"
        lowering = _Lowering(self, definition, function, function.args[0])
        record = lowering.builder.inttoptr(function.args[0], record_type.as_pointer())
        loaded = iter(
            [
                lowering.builder.load(cgutils.gep_inbounds(lowering.builder, record, 0, k))
                for k in range(1, len(record_type.elements))
            ]
        )
        first, last, *others = [parameter.arg for parameter in definition.args.args]
        for parameter, value in zip((first, last), function.args[1:], strict=True):
            lowering.assign(parameter, Typed(types.int64, value))
        for parameter, outside in zip(others, given, strict=True):
            lowering.assign(parameter, lowering.restored(parameter, outside.type, loaded))
        lowering.lower()
        return function


def _scopes(tree: ast.AST) -> dict[str, int]:
    """A number for each name; one for all that may come to stand for the same array."""
    groups: dict[str, str] = {}

    def group(name: str) -> str:
        while groups.setdefault(name, name) != name:
            name = groups[name]
        return name

    for node in every_statement(tree):
        if isinstance(node, ast.FunctionDef):
            for parameter in node.args.args:
                group(parameter.arg)
        elif isinstance(node, ast.Assign):
            targets, values = node.targets[0], node.value
            pairs = [(targets, values)]
            if isinstance(targets, ast.Tuple) and isinstance(values, ast.Tuple):
                pairs = list(zip(targets.elts, values.elts, strict=True))
            for target, value in pairs:
                if not isinstance(target, ast.Name):
                    continue
                own = group(target.id)
                if isinstance(value, ast.Name):
                    groups[own] = group(value.id)
    numbers = {root: k for k, root in enumerate(sorted({group(name) for name in list(groups)}))}
    return {name: numbers[group(name)] for name in list(groups)}


class _Lowering(FunctionLowering):
    """One function of a generated source."""

    statement_methods = FunctionLowering.statement_methods | {
        ast.Raise: "raised",
        ast.Pass: "nothing",
    }

    def __init__(
        self, owner: _Module, definition: ast.FunctionDef, function: ir.Function, failure: Any
    ) -> None:
        source = Source(owner.source, definition)
        super().__init__(source, front_end.NAMES, owner.meanings, function, types.int64)
        self.owner = owner
        self.failure = failure  # the address of the word that says why
        # A parameter that is assigned has two values.
        parameters = {parameter.arg for parameter in definition.args.args}
        self.in_memory |= parameters & source.uses.stores.keys()

    def lower(self) -> None:
        self.statements(self.definition.body)
        if not self.builder.block.is_terminated:
            self.builder.ret(INT64(DONE))

    # Arrays.

    def array_type(self, name: str, element: types.Type, rank: int) -> ArrayType:
        return ArrayType(element, rank, self.owner.scopes[name])

    def argument(self, name: str, argument: Argument, words: Iterator[Any]) -> Typed:
        """A parameter of the kernel."""
        element = from_dtype(argument.dtype)
        if not isinstance(argument, ArrayArgument):
            return Typed(element, next(words))
        own = [next(words) for _ in range(5 + 2 * argument.rank)]
        kind = self.array_type(name, element, argument.rank)
        return Typed(kind, self.array_at(kind, own[4], own[5 : 5 + argument.rank]))

    def array_at(self, kind: ArrayType, address: Any, shape: Sequence[Any]) -> _Array:
        pointer = storage_type(kind.buffer.element).as_pointer()
        return _Array(self.builder.inttoptr(address, pointer), tuple(shape))

    def flattened(self, given: Typed) -> list[Any]:
        """What a value is in a record."""
        if not isinstance(given.type, ArrayType):
            return [given.value]
        return [self.builder.ptrtoint(given.value.data, INT64), *given.value.shape]

    def restored(self, name: str, kind: Any, values: Iterator[Any]) -> Typed:
        if not isinstance(kind, ArrayType):
            return Typed(kind, next(values))
        kind = self.array_type(name, kind.buffer.element, kind.rank)
        address, *shape = [next(values) for _ in range(1 + kind.rank)]
        return Typed(kind, self.array_at(kind, address, shape))

    def assign(self, name: str, given: Typed, node: ast.AST | None = None) -> None:
        if not isinstance(given.type, ArrayType) or name not in self.in_memory:
            super().assign(name, given, node)
            return
        variable = self.variables.get(name)
        if variable is None:
            kind = self.array_type(name, given.type.buffer.element, given.type.rank)
            entry = self.entry_builder_before_end()
            data = entry.alloca(given.value.data.type, name=name)
            shape = tuple([entry.alloca(INT64) for _ in given.value.shape])
            variable = self.variables[name] = Typed(kind, _Array(data, shape))
        self.builder.store(given.value.data, variable.value.data)
        for length, place in zip(given.value.shape, variable.value.shape, strict=True):
            self.builder.store(length, place)

    def load(self, node: ast.Name) -> Typed:
        variable = self.variables.get(node.id)
        if variable is None or not isinstance(variable.type, ArrayType):
            return super().load(node)
        if node.id not in self.in_memory:
            kind = self.array_type(node.id, variable.type.buffer.element, variable.type.rank)
            return Typed(kind, variable.value)
        places = variable.value
        shape = tuple([self.builder.load(place) for place in places.shape])
        return Typed(variable.type, _Array(self.builder.load(places.data), shape))

    def place(self, array: Typed, indices: ast.expr) -> tuple[Typed, Typed]:
        """The buffer of an array, and where in it an element is."""
        parts = indices.elts if isinstance(indices, ast.Tuple) else [indices]
        builder = self.builder
        flat: Any = INT64(0)
        for axis, part in enumerate(parts):
            index = self.integer(part)
            if axis:
                scaled = builder.mul(flat, array.value.shape[axis], flags=("nsw",))
                index = builder.add(scaled, index, flags=("nsw",))
            flat = index
        return Typed(array.type.buffer, array.value.data), Typed(types.int64, flat)

    def subscript(self, node: ast.Subscript) -> Typed:
        base = node.value
        if isinstance(base, ast.Attribute) and base.attr == "shape":
            array = self.expression(base.value)
            assert isinstance(node.slice, ast.Constant)
            return Typed(types.int64, array.value.shape[node.slice.value])
        return self.element(node, self.place(self.expression(base), node.slice))

    def element(self, node: ast.AST, place: tuple[Typed, Typed]) -> Typed:
        return self.call(node, operator.getitem, *place)

    def set_element(self, node: ast.AST, place: tuple[Typed, Typed], value: Typed) -> None:
        self.call(node, operator.setitem, *place, value)

    # Statements.

    def assignment(self, node: ast.Assign) -> None:
        [target] = node.targets
        if isinstance(target, ast.Tuple):
            assert isinstance(node.value, ast.Tuple)
            values = [self.named(t, v) for t, v in zip(target.elts, node.value.elts, strict=True)]
            for part, value in zip(target.elts, values, strict=True):
                self.store(part, value)
            return
        self.store(target, self.named(target, node.value))

    def named(self, target: ast.expr, value: ast.expr) -> Typed:
        """A value that is to have a name: of a new array, it says what the array overlaps."""
        if isinstance(value, ast.Call) and isinstance(target, ast.Name):
            called = _dotted(value.func)
            if called == "new_array":
                return self.new_array(target.id, value)
            if called == "grown":
                return self.grown(target.id, value)
        return self.expression(value)

    def store(self, target: ast.expr, value: Typed) -> None:
        if isinstance(target, ast.Subscript):
            place = self.place(self.expression(target.value), target.slice)
            self.set_element(target, place, value)
            return
        super().store(target, value)

    def augmented(self, node: ast.AugAssign) -> None:
        if not isinstance(node.target, ast.Subscript):
            super().augmented(node)
            return
        target = node.target
        given = self.expression(node.value)
        place = self.place(self.expression(target.value), target.slice)
        result = self.call(node, self.operator(node), self.element(node, place), given)
        self.set_element(target, place, result)

    def expression_statement(self, node: ast.Expr) -> None:
        call = node.value
        if not isinstance(call, ast.Call):
            return  # a docstring
        called = _dotted(call.func)
        if called == "free":
            self.free(self.expression(call.args[0]))
        elif called == "in_parallel":
            self.in_parallel(call)
        else:
            super().expression_statement(node)

    def failed(self, reason: int) -> None:
        word = self.builder.inttoptr(self.failure, INT64.as_pointer())
        self.builder.store(INT64(reason), word)
        self.builder.ret(INT64(FAILED))

    def raised(self, node: ast.Raise) -> None:
        self.failed(self.owner.numbers[id(node)])

    def nothing(self, node: ast.Pass) -> None:
        """`pass`."""

    def for_loop(self, node: ast.For) -> None:
        """A step that is not known may go down."""
        assert isinstance(node.iter, ast.Call)
        if _dotted(node.iter.func) == "independent":
            self.independent_loop(node)
            return
        steps = node.iter.args[2:]
        if not steps or isinstance(self.constant_step(steps[0]), int):
            super().for_loop(node)
            return
        start, stop, step = self.range_of(node)
        builder = self.builder
        body, next_pass, after = self.block("pass"), self.block("next"), self.block("after")
        goes_up = builder.icmp_signed(">", step, INT64(0))

        def is_inside(index: Any) -> Any:
            up, down = (builder.icmp_signed(c, index, stop) for c in ("<", ">"))
            return builder.select(goes_up, up, down)

        before = builder.block
        builder.cbranch(is_inside(start), body, after)
        builder.position_at_end(body)
        index = builder.phi(INT64)
        index.add_incoming(start, before)
        assert isinstance(node.target, ast.Name)
        self.assign(node.target.id, Typed(types.int64, index))
        self.loop_body(node, body, JumpTargets(next_pass, after))
        builder.position_at_end(next_pass)
        following = builder.add(index, step, flags=("nsw",))
        index.add_incoming(following, next_pass)
        builder.cbranch(is_inside(following), body, after)
        builder.position_at_end(after)

    def independent_loop(self, node: ast.For) -> None:
        """A loop of which LLVM is told that no pass touches what another one writes."""
        assert isinstance(node.iter, ast.Call)
        module, blocks = self.builder.module, len(self.function.blocks)
        known = len(intrinsics.accesses(module))
        call = ast.Call(ast.Name("range", ast.Load()), node.iter.args, [])
        self.for_loop(ast.copy_location(ast.For(node.target, call, node.body, []), node))
        group = DistinctNode(module, [])
        for access, _ in intrinsics.accesses(module)[known:]:
            access.set_metadata("llvm.access.group", group)
        accesses = module.add_metadata(["llvm.loop.parallel_accesses", group])
        # Of a loop's blocks the first is that of its pass, the second goes on to the next.
        latch = self.function.blocks[blocks + 1].terminator
        latch.set_metadata("llvm.loop", DistinctNode(module, [accesses], names_itself=True))

    @staticmethod
    def constant_step(node: ast.expr) -> Any:
        if isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant):
            return node.operand.value
        return node.value if isinstance(node, ast.Constant) else None

    # Memory.

    def library_function(self, name: str, result: ir.Type, arguments: Sequence[ir.Type]) -> Any:
        kind = ir.FunctionType(result, arguments)
        return cgutils.get_or_insert_function(self.builder.module, kind, name)

    def bytes_of(self, kind: ArrayType, shape: Sequence[Any]) -> Any:
        size: Any = INT64(size_in_bytes(storage_type(kind.buffer.element)))
        for length in shape:
            size = self.builder.mul(size, length)
        return self.builder.add(size, INT64(1))  # so that no memory at all is not asked for

    def checked(self, data: Any, kind: ArrayType, shape: Sequence[Any]) -> Typed:
        """An array in memory that was asked for."""
        builder = self.builder
        none, some = self.block("none"), self.block("some")
        builder.cbranch(cgutils.is_null(builder, data), none, some)
        builder.position_at_end(none)
        self.failed(NO_MEMORY)
        builder.position_at_end(some)
        pointer = storage_type(kind.buffer.element).as_pointer()
        return Typed(kind, _Array(builder.bitcast(data, pointer), tuple(shape)))

    def new_array(self, name: str, node: ast.Call) -> Typed:
        lengths, dtype = node.args
        assert isinstance(lengths, ast.Tuple)
        builder = self.builder
        shape = []
        for part in lengths.elts:
            length = self.integer(part)
            is_negative = builder.icmp_signed("<", length, INT64(0))
            shape.append(builder.select(is_negative, INT64(0), length))
        element = from_dtype(np.dtype(_dotted(dtype).removeprefix("np.").rstrip("_")))
        kind = self.array_type(name, element, len(shape))
        function = self.library_function("malloc", _BYTES, [INT64])
        data = builder.call(function, [self.bytes_of(kind, shape)])
        return self.checked(data, kind, shape)

    def grown(self, name: str, node: ast.Call) -> Typed:
        tape, count = self.expression(node.args[0]), self.integer(node.args[2])
        builder = self.builder
        length = builder.add(builder.mul(tape.value.shape[0], INT64(2)), count)
        function = self.library_function("realloc", _BYTES, [_BYTES, INT64])
        size = self.bytes_of(tape.type, [length])
        data = builder.call(function, [builder.bitcast(tape.value.data, _BYTES), size])
        return self.checked(data, self.array_type(name, tape.type.buffer.element, 1), [length])

    def free(self, array: Typed) -> None:
        function = self.library_function("free", ir.VoidType(), [_BYTES])
        self.builder.call(function, [self.builder.bitcast(array.value.data, _BYTES)])

    # Threads.

    def in_parallel(self, node: ast.Call) -> None:
        name, tasks, grain, given = node.args
        assert isinstance(name, ast.Name) and isinstance(given, ast.Tuple)
        builder = self.builder
        counts = [self.integer(tasks), self.integer(grain)]
        values = [self.expression(x) for x in given.elts]
        values = [Typed(types.unliteral(x.type), x.value) for x in values]
        fields = [x for value in values for x in self.flattened(value)]
        record_type = ir.LiteralStructType([INT64, *[x.type for x in fields]])
        record = cgutils.alloca_once(builder, record_type)
        # No `raise` is in a part: what can fail in it is to get memory.
        for number, value in enumerate([INT64(DONE), *fields]):
            builder.store(value, cgutils.gep_inbounds(builder, record, 0, number))
        part = self.owner.part(name.id, values, record_type)
        shared = self.owner.module.globals.get(SHARED_WORDS)
        if shared is None:
            shared = ir.GlobalVariable(self.owner.module, INT64, SHARED_WORDS)
        run_type = ir.FunctionType(INT64, [INT64] * 5).as_pointer()
        place = builder.gep(shared, [INT64(int(SharedWord.RUN_TASKS))])
        run = builder.inttoptr(builder.load(place), run_type)
        addresses = [builder.ptrtoint(x, INT64) for x in (shared, part, record)]
        builder.call(run, [*addresses, *counts])
        reason = builder.load(cgutils.gep_inbounds(builder, record, 0, 0))
        failed, done = self.block("failed"), self.block("done")
        builder.cbranch(builder.icmp_signed("!=", reason, INT64(DONE)), failed, done)
        builder.position_at_end(failed)
        self.failed(NO_MEMORY)
        builder.position_at_end(done)

    # Expressions.

    def sum_of_product(self, node: Any, product: ast.expr, other: Typed) -> Typed:
        """Each operation is rounded by itself, as in Numba, and wherever it is done again."""
        is_first = isinstance(node, ast.BinOp) and product is node.left
        assert isinstance(product, ast.BinOp)
        factors = self.expression(product.left), self.expression(product.right)
        value = self.call(product, operator.mul, *factors)
        ordered = (value, other) if is_first else (other, value)
        return self.call(node, self.operator(node), *ordered)

    def binary(self, node: ast.BinOp) -> Typed:
        if not isinstance(node.op, ast.Pow):
            return super().binary(node)
        base = self.expression(node.left)
        exponent = self.constant_exponent(node.right)
        if exponent is not None:
            return self.integer_power(node, base, exponent)
        return self.applied("power", node, base, self.expression(node.right))

    @staticmethod
    def constant_exponent(node: ast.expr) -> int | None:
        found = _Lowering.constant_step(node)
        if type(found) is not int or abs(found) > 64:
            return None
        return -found if isinstance(node, ast.UnaryOp) else found

    def integer_power(self, node: ast.AST, base: Typed, exponent: int) -> Typed:
        """By squares and products, as Numba does it."""
        result: Typed | None = None
        square, rest = base, abs(exponent)
        while rest:
            if rest & 1:
                result = square if result is None else self.call(node, operator.mul, result, square)
            rest >>= 1
            if rest:
                square = self.call(node, operator.mul, square, square)
        if result is None:
            result = self.cast_to(self.number(1), types.unliteral(base.type))
        if exponent < 0:
            return self.call(node, operator.truediv, self.number(1.0), result)
        return result

    def cast_to(self, given: Typed, kind: Any) -> Typed:
        return Typed(kind, cast_value(self.builder, given.value, given.type, kind))

    def choice(self, node: ast.IfExp) -> Typed:
        """Both numbers meet in one type. What may be computed in any case needs no branch, and then
        a loop with it becomes vector code."""
        builder = self.builder
        test = self.truth(node.test)
        if _is_harmless(node.body) and _is_harmless(node.orelse):
            both = self.expression(node.body), self.expression(node.orelse)
            kind = _common([types.unliteral(x.type) for x in both])
            first, second = (self.cast_to(x, kind).value for x in both)
            return Typed(kind, builder.select(test, first, second))
        blocks, after = (self.block("chosen"), self.block("other")), self.block("after")
        builder.cbranch(test, *blocks)
        results, ends = [], []
        for block, branch in zip(blocks, (node.body, node.orelse), strict=True):
            builder.position_at_end(block)
            results.append(self.expression(branch))
            ends.append(builder.block)
        kind = _common([types.unliteral(x.type) for x in results])
        values = []
        for end, given in zip(ends, results, strict=True):
            builder.position_at_end(end)
            values.append(self.cast_to(given, kind).value)
            builder.branch(after)
        builder.position_at_end(after)
        phi = builder.phi(values[0].type)
        for end, value in zip(ends, values, strict=True):
            phi.add_incoming(value, end)
        return Typed(kind, phi)

    def attribute(self, node: ast.Attribute) -> Typed:
        constant = _CONSTANTS.get(_dotted(node))
        return super().attribute(node) if constant is None else self.number(constant)

    def applied(self, name: str, node: ast.AST, *arguments: Typed) -> Typed:
        kind = self.meanings.type_of_global(self.names[name])
        return self.call(node, kind, *arguments)

    def function_call(self, node: ast.Call) -> Typed:
        called = _dotted(node.func)
        arguments = [self.expression(argument) for argument in node.args]
        if called in _FUNCTIONS:
            return self.applied(_FUNCTIONS[called], node, *map(self.as_argument, arguments))
        if called in _ROUNDINGS:
            rounded = self.applied(_ROUNDINGS[called], node, *arguments)
            return self.cast_to(rounded, types.int64)
        if called in _FACTORS:
            (x,) = arguments
            factor = self.cast_to(self.number(_FACTORS[called]), types.unliteral(x.type))
            return self.call(node, operator.mul, x, factor)
        if called == "added":
            return self.added(*arguments)
        if called == "np.logaddexp":
            return self.logaddexp(node, *arguments)
        if called == "wrapped":
            index, length = (
                cast_value(self.builder, x.value, x.type, types.int64) for x in arguments
            )
            is_negative = self.builder.icmp_signed("<", index, INT64(0))
            place = self.builder.select(is_negative, self.builder.add(index, length), index)
            return Typed(types.int64, place)
        name = called.removeprefix("np.")
        if called.startswith("np.") and name in self.names:
            return self.applied(name, node, *arguments)  # a cast
        raise self.error(node, f"there is no {called}")

    def added(self, total: Typed, term: Typed) -> Typed:
        """A sum that may be one of a vector of partial sums in a loop."""
        values = [self.cast_to(given, total.type).value for given in (total, term)]
        return Typed(total.type, self.builder.fadd(*values, flags=("reassoc",)))

    def as_argument(self, given: Typed) -> Typed:
        """Literals are numbers like others."""
        return Typed(types.unliteral(given.type), given.value)

    def logaddexp(self, node: ast.AST, x: Typed, y: Typed) -> Typed:
        """The larger one, and `log1p(exp(-|x - y|))`; of equal ones, infinite too, x + log 2."""
        builder = self.builder
        kind = _common([types.unliteral(given.type) for given in (x, y)])
        x, y = (self.cast_to(given, kind) for given in (x, y))
        difference = self.call(node, operator.sub, x, y)
        distance = self.applied("abs", node, difference)
        small = self.applied("exp", node, self.call(node, operator.neg, distance))
        rest = self.applied("log1p", node, small)
        larger = self.applied("maximum", node, x, y)
        total = self.call(node, operator.add, larger, rest)
        doubled = self.call(node, operator.add, x, self.cast_to(self.number(np.log(2.0)), kind))
        are_equal = builder.fcmp_ordered("==", x.value, y.value)
        return Typed(kind, builder.select(are_equal, doubled.value, total.value))


def _is_harmless(node: ast.expr) -> bool:
    """Whether it is of variables and numbers, and can neither fail nor take long."""
    match node:
        case ast.Name() | ast.Constant():
            return True
        case ast.UnaryOp(operand=operand):
            return _is_harmless(operand)
        case ast.BinOp(op=ast.Add() | ast.Sub() | ast.Mult(), left=left, right=right):
            return _is_harmless(left) and _is_harmless(right)
        case ast.Compare(left=left, comparators=[right]):
            return _is_harmless(left) and _is_harmless(right)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return all(map(_is_harmless, (test, body, orelse)))
        case ast.Call(func=func, args=arguments):
            return _dotted(func) in ("abs", "np.sign") and all(map(_is_harmless, arguments))
    return False


def _common(kinds: Sequence[Any]) -> Any:
    """The type that numbers of two types meet in, as Numba unifies them."""
    first, second = kinds
    if first == second:
        return first
    if not (is_number(first) and is_number(second)):
        raise TypeError(f"{first} and {second}")
    found = np.result_type(
        str(first).replace("boolean", "bool"), str(second).replace("boolean", "bool")
    )
    return from_dtype(found)


def _dotted(node: ast.expr) -> str:
    """`a.b` as a text."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{node.value.id}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""
