"""What engine code and library kernels need beyond the kernel language: calls by address, atomics.

Source texts import these names themselves. This module imports Numba, so only code that is about to
compile imports it.
"""

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

INT64 = ir.IntType(64)
ORDERING = "seq_cst"


def _word_pointer(builder: ir.IRBuilder, address: ir.Value) -> ir.Value:
    return builder.inttoptr(address, INT64.as_pointer())


@intrinsic
def call(typing_context: Any, function: Any, *arguments: Any) -> Any:
    """Call the C function at an address, with int64 arguments (pointers included).

    The result is an int64; it means nothing for a function that returns none.
    """
    if len(arguments) == 1 and isinstance(arguments[0], types.BaseTuple):
        arguments = tuple(arguments[0])
    count = len(arguments)

    def lower(context: Any, builder: Any, signature: Any, values: Any) -> ir.Value:
        address, packed = values
        words = cgutils.unpack_tuple(builder, packed, count)
        function_type = ir.FunctionType(INT64, [INT64] * len(words))
        return builder.call(builder.inttoptr(address, function_type.as_pointer()), words)

    return types.int64(types.int64, types.UniTuple(types.int64, count)), lower


@intrinsic(prefer_literal=True)
def stack_words(typing_context: Any, count: Any) -> Any:
    """The address of `count` uninitialized words that live until the function returns."""
    if not isinstance(count, types.IntegerLiteral):
        return None

    def lower(context: Any, builder: Any, signature: Any, values: Any) -> ir.Value:
        place = cgutils.alloca_once(builder, INT64, size=count.literal_value)
        return builder.ptrtoint(place, INT64)

    return types.int64(count), lower


@intrinsic
def atomic_load(typing_context: Any, address: Any) -> Any:
    def lower(context: Any, builder: Any, signature: Any, values: Any) -> ir.Value:
        return builder.load_atomic(_word_pointer(builder, values[0]), ORDERING, 8)

    return types.int64(types.int64), lower


@intrinsic
def atomic_store(typing_context: Any, address: Any, value: Any) -> Any:
    def lower(context: Any, builder: Any, signature: Any, values: Any) -> ir.Value:
        builder.store_atomic(values[1], _word_pointer(builder, values[0]), ORDERING, 8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), lower


@intrinsic
def atomic_add(typing_context: Any, address: Any, value: Any) -> Any:
    """Add to a word; the result is what it was before."""

    def lower(context: Any, builder: Any, signature: Any, values: Any) -> ir.Value:
        place = _word_pointer(builder, values[0])
        return builder.atomic_rmw("add", place, values[1], ORDERING)

    return types.int64(types.int64, types.int64), lower


@intrinsic
def compare_exchange(typing_context: Any, address: Any, expected: Any, new: Any) -> Any:
    """Store `new` in a word that holds `expected`; the result is what it was before."""

    def lower(context: Any, builder: Any, signature: Any, values: Any) -> ir.Value:
        place = _word_pointer(builder, values[0])
        pair = builder.cmpxchg(place, values[1], values[2], ORDERING, ORDERING)
        return builder.extract_value(pair, 0)

    return types.int64(types.int64, types.int64, types.int64), lower


@intrinsic
def pause(typing_context: Any) -> Any:
    """Tell the processor that this loop waits: less power, and no penalty on leaving."""

    def lower(context: Any, builder: Any, signature: Any, values: Any) -> ir.Value:
        machine = builder.module.triple.split("-")[0]
        int32 = ir.IntType(32)
        if machine == "x86_64":
            name, arguments = "llvm.x86.sse2.pause", []
        elif machine in ("aarch64", "arm64"):
            name, arguments = "llvm.aarch64.hint", [int32(1)]  # yield
        else:
            return context.get_dummy_value()
        function_type = ir.FunctionType(ir.VoidType(), [int32] * len(arguments))
        function = cgutils.get_or_insert_function(builder.module, function_type, name)
        builder.call(function, arguments)
        return context.get_dummy_value()

    return types.void(), lower
