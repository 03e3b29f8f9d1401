"""The names that kernel source may use, as Numba intrinsics over raw pointers.

Private parts of Numba live here, in the other `kernel_*.py` and in `front_end.py`; tested with
Numba 0.68 and llvmlite 0.50. This module imports Numba, so only code that compiles imports it.
"""

# Numba's annotations are few, and wrong where they come from class attributes set at run time.
# pyright: reportAttributeAccessIssue=false, reportOptionalCall=false
# pyright: reportPrivateImportUsage=false, reportOptionalMemberAccess=false

import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types

from numba_grad.compiler.kernel_language.registry import (
    Intrinsic,
    intrinsic,
    literal_intrinsic,
    means,
)
from numba_grad.compiler.kernel_language.scalars import (
    BFLOAT16,
    FLOAT16,
    INT64,
    BufferType,
    LlvmValue,
    call_llvm,
    cast_value,
    complex_parts,
    complex_product,
    from_storage,
    llvm_type,
    make_complex,
    size_in_bytes,
    storage_type,
    to_storage,
    value_type,
)

REASSOCIATE = ("reassoc", "contract")

# Filled by `_define_cast`: from the name as kernels write it to the element type.
_SCALAR_TYPES: dict[Any, types.Type] = {}


def _element_type(name: Any) -> types.Type | None:
    """The element type that a dtype name of kernel source stands for."""
    return _SCALAR_TYPES.get(name)


# Pointers and memory.


@literal_intrinsic
def buffer(typing_context, args, position, dtype):
    """The pointer held in word `position` of `args`; overlaps no buffer of another position."""
    element = _element_type(dtype)
    if element is None or not isinstance(position, types.IntegerLiteral):
        return None
    word = position.literal_value
    buffer_type = BufferType(element, word)

    def lower(context, builder, signature, arguments):
        address = _load_word(builder, arguments[0], word)
        return builder.inttoptr(address, llvm_type(buffer_type))

    return buffer_type(types.int64, position, dtype), lower


@intrinsic
def pointer(typing_context, address, dtype):
    """The memory at `address`, which may overlap any other."""
    element = _element_type(dtype)
    if element is None:
        return None
    buffer_type = BufferType(element, None)

    def lower(context, builder, signature, arguments):
        return builder.inttoptr(arguments[0], llvm_type(buffer_type))

    return buffer_type(types.int64, dtype), lower


@literal_intrinsic
def integer(typing_context, args, position):
    """The int64 in word `position` of `args`."""
    if not isinstance(position, types.IntegerLiteral):
        return None
    word = position.literal_value

    def lower(context, builder, signature, arguments):
        return _load_word(builder, arguments[0], word)

    return types.int64(types.int64, position), lower


def _words_at(builder: ir.IRBuilder, args: ir.Value) -> Any:
    """The pointer to a function's words, which are an argument: one for all of them."""
    if not isinstance(args, ir.Argument):
        return builder.inttoptr(args, INT64.as_pointer())
    known = builder.function.__dict__.setdefault("numba_grad_words", {})
    pointer = known.get(args)
    if pointer is None:
        with builder.goto_entry_block():
            pointer = known[args] = builder.inttoptr(args, INT64.as_pointer())
    return pointer


def _load_word(builder: ir.IRBuilder, args: ir.Value, word: int) -> ir.Value:
    words = _words_at(builder, args)
    load = builder.load(builder.gep(words, [ir.Constant(INT64, word)]), align=8)
    # Words never change while a kernel runs, so a read inside a loop may move out of it.
    load.set_metadata("invariant.load", builder.module.add_metadata([]))
    return load


def _mark_scope(builder: ir.IRBuilder, access: ir.Instruction, scope: int | None) -> None:
    """Remember an access; `add_alias_metadata` needs to know all of them."""
    module = builder.module
    if scope is None:
        module.numba_grad_may_overlap = True
    else:
        accesses(module).append((access, scope))


def accesses(module: ir.Module) -> list[tuple[ir.Instruction, int]]:
    """What is written so far that loads from buffers or stores to them, with their numbers."""
    return module.__dict__.setdefault("numba_grad_accesses", [])


def add_alias_metadata(module: ir.Module) -> None:
    """Tell LLVM that accesses through different buffers never overlap.

    Without it LLVM wants run-time overlap checks between all pairs, and leaves kernels of more
    than a few buffers scalar.
    """
    written = {
        scope
        for access, scope in accesses(module)
        if not isinstance(access, ir.instructions.LoadInstr)
    }
    # One scope for all that is only read: whether those overlap matters to nothing. With one for
    # each a kernel that reads 120 buffers takes LLVM a fifth longer, for the same code.
    known = [(access, scope if scope in written else -1) for access, scope in accesses(module)]
    scopes = sorted({scope for _, scope in known})
    domain = module.add_metadata(["numba_grad buffers"])
    nodes = {scope: module.add_metadata([f"word {scope}", domain]) for scope in scopes}
    own = {scope: module.add_metadata([nodes[scope]]) for scope in scopes}
    others = {
        scope: module.add_metadata([nodes[other] for other in scopes if other != scope])
        for scope in scopes
    }
    for access, scope in known:
        access.set_metadata("alias.scope", own[scope])
        if len(scopes) > 1:
            access.set_metadata("noalias", others[scope])


_MOST_NEIGHBOURS = 500


def may_overlap(module: ir.Module) -> bool:
    """Whether there are accesses through pointers of which nothing is known."""
    return getattr(module, "numba_grad_may_overlap", False)


def stores_neighbours(module: ir.Module, *, counts: bool = True) -> bool:
    """Whether a block stores to one buffer twice, maybe to elements that LLVM can store at once;
    integers as well, if they count.

    Of thousands of accesses to complex numbers it makes vectors that are put together one by one:
    250 of 390 ms of code generation.
    """
    if len(accesses(module)) > _MOST_NEIGHBOURS:
        return False
    stores = [
        (access.parent, scope)
        for access, scope in accesses(module)
        if isinstance(access, ir.instructions.StoreInstr)
        and (counts or not isinstance(access.operands[0].type, ir.IntType))
    ]
    return len(set(stores)) < len(stores)


def _part_pointers(builder, buffer_type: BufferType, base: ir.Value, index: ir.Value):
    """One pointer, or for complex elements the pointers of real and imaginary part."""
    if not isinstance(buffer_type.element, types.Complex):
        return [builder.gep(base, [index], inbounds=True)]
    first = builder.shl(index, ir.Constant(INT64, 1))
    real = builder.gep(base, [first], inbounds=True)
    return [real, builder.gep(real, [ir.Constant(INT64, 1)], inbounds=True)]


@means(operator.getitem)
def load_element(typing_context, buffer_type, index):
    if not isinstance(buffer_type, BufferType) or not isinstance(index, types.Integer):
        return None
    element = buffer_type.element

    def lower(context, builder, signature, arguments):
        parts = []
        for place in _part_pointers(builder, buffer_type, *arguments):
            part = builder.load(place, align=size_in_bytes(storage_type(element)))
            _mark_scope(builder, part, buffer_type.scope)
            parts.append(part)
        if isinstance(element, types.Complex):
            return make_complex(builder, *parts)
        return from_storage(builder, parts[0], element)

    return value_type(element)(buffer_type, types.int64), lower


@means(operator.setitem)
def store_element(typing_context, buffer_type, index, value):
    given = types.unliteral(value)
    if not isinstance(buffer_type, BufferType) or not isinstance(index, types.Integer):
        return None
    if not _is_scalar(given):
        return None
    element = buffer_type.element

    def lower(context, builder, signature, arguments):
        base, index, value = arguments
        value = cast_value(builder, value, given, element)
        if isinstance(element, types.Complex):
            parts = complex_parts(builder, value)
        else:
            parts = [to_storage(builder, value, element)]
        places = _part_pointers(builder, buffer_type, base, index)
        for place, part in zip(places, parts, strict=True):
            store = builder.store(part, place, align=size_in_bytes(storage_type(element)))
            _mark_scope(builder, store, buffer_type.scope)

    return types.none(buffer_type, types.int64, given), lower


# Dtypes and casts.


def _is_scalar(scalar_type: types.Type) -> bool:
    return isinstance(scalar_type, types.Boolean | types.Number)


def _define_cast(name: str, element: types.Type):
    """A dtype name: an argument of `buffer`, and as a call, NumPy's cast."""
    target = value_type(element)

    def cast(typing_context, value):
        if not _is_scalar(value):
            return None
        source = types.unliteral(value)

        def lower(context, builder, signature, arguments):
            return cast_value(builder, arguments[0], source, element)

        return target(source), lower

    cast.__name__ = name
    cast_intrinsic = intrinsic(cast)
    _SCALAR_TYPES[cast_intrinsic] = element
    return cast_intrinsic


bool_ = _define_cast("bool_", types.boolean)
int8 = _define_cast("int8", types.int8)
int16 = _define_cast("int16", types.int16)
int32 = _define_cast("int32", types.int32)
int64 = _define_cast("int64", types.int64)
uint8 = _define_cast("uint8", types.uint8)
uint16 = _define_cast("uint16", types.uint16)
uint32 = _define_cast("uint32", types.uint32)
uint64 = _define_cast("uint64", types.uint64)
float16 = _define_cast("float16", FLOAT16)
bfloat16 = _define_cast("bfloat16", BFLOAT16)
float32 = _define_cast("float32", types.float32)
float64 = _define_cast("float64", types.float64)
complex64 = _define_cast("complex64", types.complex64)
complex128 = _define_cast("complex128", types.complex128)


@intrinsic
def cast(typing_context, value, dtype):
    """`value` as `dtype`, with NumPy's rules; the same as `dtype(value)`."""
    element = _element_type(dtype)
    if element is None or not _is_scalar(value):
        return None
    source, target = types.unliteral(value), value_type(element)

    def lower(context, builder, signature, arguments):
        return cast_value(builder, arguments[0], source, element)

    return target(source, dtype), lower


@intrinsic
def bitcast(typing_context, value, dtype):
    """The same bits as another type of the same size."""
    target = _element_type(dtype)
    source = types.unliteral(value)
    numbers = types.Integer | types.Float
    if not (isinstance(source, numbers) and isinstance(target, numbers)) or target is FLOAT16:
        return None
    if source.bitwidth != target.bitwidth:
        return None

    def lower(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], llvm_type(target))

    return target(source, dtype), lower


# Arithmetic that Python's operators do not express.


@intrinsic
def select(typing_context, condition, a, b):
    """`a` where the condition holds, else `b`; both are evaluated, and no branch is taken."""
    a, b = types.unliteral(a), types.unliteral(b)
    if a != b or not isinstance(condition, types.Boolean):
        return None

    def lower(context, builder, signature, arguments):
        return builder.select(*arguments)

    return a(types.boolean, a, b), lower


# The order of complex numbers: NumPy's, by real parts, then by imaginary parts. Comparisons with a
# number that has a NaN in either part are false.


def _complex_comparison(
    builder: ir.IRBuilder, operation: str, a: LlvmValue, b: LlvmValue
) -> LlvmValue:
    (ar, ai), (br, bi) = complex_parts(builder, a), complex_parts(builder, b)
    decided = builder.and_(
        builder.fcmp_ordered(operation[0], ar, br), builder.fcmp_ordered("ord", ai, bi)
    )
    tied = builder.and_(builder.fcmp_ordered("==", ar, br), builder.fcmp_ordered(operation, ai, bi))
    return builder.or_(decided, tied)


def _define_complex_order(function: Callable[..., Any], operation: str) -> None:
    @means(function)
    def compare(typing_context, a, b):
        if a != b or not isinstance(a, types.Complex):
            return None

        def lower(context, builder, signature, arguments):
            return _complex_comparison(builder, operation, *arguments)

        return types.boolean(a, b), lower


_define_complex_order(operator.lt, "<")
_define_complex_order(operator.le, "<=")
_define_complex_order(operator.gt, ">")
_define_complex_order(operator.ge, ">=")


# Errors, and calls of other compiled functions.


@intrinsic
def check_index(typing_context, index, size, errors, site):
    """The index, wrapped once if negative. One out of range is recorded, and becomes 0.

    The record at address `errors` holds four int64: 1 once there is an error, then the `site`,
    index and size of the first one.
    """
    if not all(isinstance(t, types.Integer) for t in (index, size, errors, site)):
        return None

    def lower(context, builder, signature, arguments):
        index, size, errors, site = arguments
        zero = ir.Constant(INT64, 0)
        is_negative = builder.icmp_signed("<", index, zero)
        wrapped = builder.select(is_negative, builder.add(index, size), index)
        # One unsigned comparison covers both ends, as sizes are not negative.
        is_valid = builder.icmp_unsigned("<", wrapped, size)
        with builder.if_then(builder.not_(is_valid), likely=False):
            builder.call(_index_error_function(builder.module), [errors, site, index, size])
        return builder.select(is_valid, wrapped, zero)

    return types.int64(types.int64, types.int64, types.int64, types.int64), lower


def _index_error_function(module: ir.Module) -> ir.Function:
    """Out of line, so that the check costs a comparison and a branch."""
    name = "numba_grad.index_error"
    if name in module.globals:
        return module.globals[name]
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [INT64] * 4), name)
    function.attributes.add("noinline")
    function.attributes.add("cold")
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    errors, *details = function.args
    record = builder.inttoptr(errors, INT64.as_pointer())
    # Of several threads, one writes its details.
    swap = builder.cmpxchg(record, INT64(0), INT64(1), "acq_rel", "acquire")
    with builder.if_then(builder.extract_value(swap, 1)):
        for word, detail in enumerate(details, start=1):
            builder.store(detail, builder.gep(record, [INT64(word)]), align=8)
    builder.ret_void()
    return function


@intrinsic
def call(typing_context, address, *arguments):
    """Call the C function at `address` with int64 and float64 arguments; its int64 result.

    Functions that return nothing may be called too: then the result means nothing.
    """
    given = [types.float64 if isinstance(t, types.Float) else types.int64 for t in arguments]

    def lower(context, builder, signature, values):
        address, *operands = values
        function_type = ir.FunctionType(INT64, [operand.type for operand in operands])
        function = builder.inttoptr(address, function_type.as_pointer())
        return builder.call(function, operands)

    return types.int64(types.int64, *given), lower


# Atomic words, for the engine. All operations on them happen in one order, the same for every
# thread: threads that go to sleep and threads that wake them rely on it.


@intrinsic
def atomic_add(typing_context, address, value):
    """Add to the int64 at `address` as one indivisible step; the value it had before."""

    def lower(context, builder, signature, arguments):
        place = builder.inttoptr(arguments[0], INT64.as_pointer())
        return builder.atomic_rmw("add", place, arguments[1], "seq_cst")

    return types.int64(types.int64, types.int64), lower


@intrinsic
def atomic_load(typing_context, address):
    """The int64 at `address`."""

    def lower(context, builder, signature, arguments):
        place = builder.inttoptr(arguments[0], INT64.as_pointer())
        return builder.load_atomic(place, "seq_cst", 8)

    return types.int64(types.int64), lower


@intrinsic
def atomic_store(typing_context, address, value):
    """Write the int64 at `address`."""

    def lower(context, builder, signature, arguments):
        place = builder.inttoptr(arguments[0], INT64.as_pointer())
        builder.store_atomic(arguments[1], place, "seq_cst", 8)
        return context.get_dummy_value()

    return types.none(types.int64, types.int64), lower


@intrinsic
def atomic_compare_exchange(typing_context, address, expected, desired):
    """Write `desired` at `address` if it holds `expected`; the value it had before."""

    def lower(context, builder, signature, arguments):
        place = builder.inttoptr(arguments[0], INT64.as_pointer())
        swap = builder.cmpxchg(place, arguments[1], arguments[2], "seq_cst", "seq_cst")
        return builder.extract_value(swap, 0)

    return types.int64(types.int64, types.int64, types.int64), lower


@intrinsic
def pause(typing_context):
    """Tell the processor that this loop waits: less power, and no penalty on leaving."""

    def lower(context, builder, signature, arguments):
        # An LLVM intrinsic each, as inline assembly would need LLVM's assembler.
        machine, int32 = builder.module.triple.split("-")[0], ir.IntType(32)
        if machine == "x86_64":
            name, hint = "llvm.x86.sse2.pause", []
        elif machine in ("aarch64", "arm64"):
            name, hint = "llvm.aarch64.hint", [int32(1)]  # yield
        else:
            return context.get_dummy_value()
        function_type = ir.FunctionType(ir.VoidType(), [int32] * len(hint))
        builder.call(cgutils.get_or_insert_function(builder.module, function_type, name), hint)
        return context.get_dummy_value()

    return types.none(), lower


@literal_intrinsic
def stack_words(typing_context, count):
    """The address of `count` uninitialized words that live until the function returns."""
    if not isinstance(count, types.IntegerLiteral):
        return None

    def lower(context, builder, signature, arguments):
        place = cgutils.alloca_once(builder, INT64, size=count.literal_value)
        return builder.ptrtoint(place, INT64)

    return types.int64(count), lower


@literal_intrinsic
def local(typing_context, count, dtype):
    """An uninitialized array of `count` elements that lives until the function returns."""
    element = _element_type(dtype)
    if element is None or not isinstance(count, types.IntegerLiteral):
        return None
    buffer_type = BufferType(element, None)
    parts = 2 if isinstance(element, types.Complex) else 1

    def lower(context, builder, signature, arguments):
        storage = storage_type(element)
        place = cgutils.alloca_once(builder, storage, size=parts * count.literal_value)
        place.align = 64
        return place

    return buffer_type(count, dtype), lower


@intrinsic
def store_past_caches(typing_context, target, index, value):
    """`target[index] = value`, without a place in the caches. For real numbers.

    Such stores are seen in order after the next locked instruction, of which the engine has one at
    the end of each chunk of tasks.
    """
    if not isinstance(target, BufferType) or not _is_scalar(target.element):
        return None

    def lower(context, builder, signature, arguments):
        base, position, stored = arguments
        stored = cast_value(builder, stored, signature.args[2], target.element)
        place = builder.gep(base, [position], inbounds=True)
        store = builder.store(stored, place, align=size_in_bytes(storage_type(target.element)))
        one = ir.Constant(ir.IntType(32), 1)
        store.set_metadata("nontemporal", builder.module.add_metadata([one]))
        _mark_scope(builder, store, target.scope)
        return context.get_dummy_value()

    return types.none(target, types.int64, types.unliteral(value)), lower


@intrinsic
def keep_scalar(typing_context):
    """In the body of a loop: LLVM is not to vectorize it."""

    def lower(context, builder, signature, arguments):
        nothing = ir.FunctionType(ir.VoidType(), [])
        builder.call(ir.InlineAsm(nothing, "", "", side_effect=True), [])
        return context.get_dummy_value()

    return types.none(), lower


@intrinsic
def quotient(typing_context, dividend, divisor):
    """`dividend // divisor` of int64 that are not negative, `dividend` where the divisor is 0: a
    fifth of the instructions of `//`."""

    def lower(context, builder, signature, arguments):
        dividend, divisor = arguments
        is_zero = builder.icmp_unsigned("==", divisor, INT64(0))
        return builder.udiv(dividend, builder.select(is_zero, INT64(1), divisor))

    return types.int64(types.int64, types.int64), lower


def _no_code(context, builder, signature, arguments):
    return context.get_dummy_value()


@intrinsic
def few_points(typing_context):
    """Says that the loops of a kernel have few passes, see `Source.is_plain`."""
    return types.none(), _no_code


@intrinsic
def stores_apart(typing_context):
    """Says that no element is stored twice, nor read where another pass of a loop stores it: what a
    loop stores at several places of a buffer are rows of it, see `PlainLoop.is_plain`."""
    return types.none(), _no_code


@intrinsic
def in_vectors(typing_context):
    """Says that loops of a kernel are vector code even where no pass of LLVM's is run."""
    return types.none(), _no_code


@intrinsic
def opaque(typing_context, number):
    """The same integer, of which LLVM knows nothing: a loop that indexes by it is left as it is. No
    vector code is made of it, and none of its addresses is turned into a pointer that steps, which
    takes LLVM longer than all else."""

    def lower(context, builder, signature, arguments):
        same = ir.FunctionType(INT64, [INT64])
        return builder.call(ir.InlineAsm(same, "", "=r,0"), arguments)

    return types.int64(types.int64), lower


# Reductions: the order of combination is the compiler's, so that inner loops vectorize.


def _reduction(combine: Callable[..., ir.Value | None]):
    """An intrinsic of two values of one type; `combine(builder, kind, a, b)` makes the code."""

    def typing(typing_context, accumulator, value):
        kind = types.unliteral(accumulator)
        if types.unliteral(value) != kind or not _is_scalar(kind):
            return None

        def lower(context, builder, signature, arguments):
            return combine(context, builder, kind, *arguments)

        return kind(kind, kind), lower

    typing.__name__ = combine.__name__.lstrip("_")
    typing.__doc__ = combine.__doc__
    return intrinsic(typing)


def _reduce_add(context, builder, kind, a, b):
    """`a + b`, reassociable."""
    if isinstance(kind, types.Complex):
        parts = [
            builder.fadd(
                builder.extract_value(a, k), builder.extract_value(b, k), flags=REASSOCIATE
            )
            for k in (0, 1)
        ]
        return make_complex(builder, *parts)
    if isinstance(kind, types.Float):
        return builder.fadd(a, b, flags=REASSOCIATE)
    if isinstance(kind, types.Boolean):
        return builder.or_(a, b)
    return builder.add(a, b)


def _reduce_multiply(context, builder, kind, a, b):
    """`a * b`, reassociable."""
    if isinstance(kind, types.Complex):
        parts = [complex_parts(builder, x) for x in (a, b)]
        return make_complex(builder, *complex_product(builder, *parts))
    if isinstance(kind, types.Float):
        return builder.fmul(a, b, flags=REASSOCIATE)
    if isinstance(kind, types.Boolean):
        return builder.and_(a, b)
    return builder.mul(a, b)


def _reduce_maximum(context, builder, kind, a, b):
    """The larger; NaN if one is NaN."""
    if isinstance(kind, types.Float):
        return call_llvm(builder, "llvm.maximum", a, b)
    if isinstance(kind, types.Complex):
        return _extreme_of_complex(builder, ">=", a, b)
    return builder.select(_is_greater(builder, kind, a, b), a, b)


def _reduce_minimum(context, builder, kind, a, b):
    """The smaller; NaN if one is NaN."""
    if isinstance(kind, types.Float):
        return call_llvm(builder, "llvm.minimum", a, b)
    if isinstance(kind, types.Complex):
        return _extreme_of_complex(builder, "<=", a, b)
    return builder.select(_is_greater(builder, kind, a, b), b, a)


def _extreme_of_complex(builder, operation, a, b):
    """The first of equals, and the first of numbers with a NaN."""
    is_nan = builder.fcmp_unordered("uno", *complex_parts(builder, a))
    stays = builder.or_(is_nan, _complex_comparison(builder, operation, a, b))
    return builder.select(stays, a, b)


def _is_greater(builder, kind, a, b):
    signed = isinstance(kind, types.Integer) and kind.signed
    return (builder.icmp_signed if signed else builder.icmp_unsigned)(">", a, b)


reduce_add = _reduction(_reduce_add)
reduce_multiply = _reduction(_reduce_multiply)
reduce_maximum = _reduction(_reduce_maximum)
reduce_minimum = _reduction(_reduce_minimum)


def _define_extreme(name: str, comparison: str) -> Intrinsic:
    """Python's `min` and `max` of two numbers of one type. Numba's own compile Python code."""

    def extreme(typing_context, a, b):
        kind = types.unliteral(a)
        if types.unliteral(b) != kind or kind not in (types.int64, types.float32, types.float64):
            return None

        def lower(context, builder, signature, arguments):
            a, b = arguments
            compare = builder.icmp_signed if kind == types.int64 else builder.fcmp_ordered
            return builder.select(compare(comparison, b, a), b, a)

        return kind(kind, kind), lower

    extreme.__name__ = name
    return intrinsic(extreme)


NAMESPACE = {name: value for name, value in globals().items() if isinstance(value, Intrinsic)} | {
    "min": _define_extreme("min", "<"),
    "max": _define_extreme("max", ">"),
}
