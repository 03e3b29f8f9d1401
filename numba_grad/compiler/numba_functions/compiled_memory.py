"""`working_memory` in compiled code: the C library's `malloc`, `realloc` and `free`.

Functions that Numba compiles without its run time cannot return arrays, so these are no functions
but code in place. This module imports Numba, so only code that compiles imports it.
"""

# pyright: reportAttributeAccessIssue=false, reportPrivateImportUsage=false

import operator
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.datamodel.models import ArrayModel
from numba.extending import lower_builtin, register_model, type_callable
from numba.np.arrayobj import load_item, make_array, populate_array, store_item

from numba_grad.compiler.numba_functions.working_memory import free, grown, new_array, wrapped

# How generated functions are compiled: their arrays are not counted.
OPTIONS = {"_nrt": False, "error_model": "numpy"}

_BYTES = ir.IntType(8).as_pointer()


class PlainArray(types.Array):
    """A C-contiguous array that is indexed by numbers for all axes, none of them negative."""


register_model(PlainArray)(ArrayModel)


@lower_builtin(operator.getitem, PlainArray, types.Integer)
@lower_builtin(operator.getitem, PlainArray, types.BaseTuple)
def _getitem(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    kind, index = signature.args
    place = _place(context, builder, kind, arguments[0], index, arguments[1])
    return load_item(context, builder, kind, place)


@lower_builtin(operator.setitem, PlainArray, types.Integer, types.Any)
@lower_builtin(operator.setitem, PlainArray, types.BaseTuple, types.Any)
def _setitem(context: Any, builder: Any, signature: Any, arguments: Any) -> None:
    kind, index, given = signature.args
    place = _place(context, builder, kind, arguments[0], index, arguments[1])
    value = context.cast(builder, arguments[2], given, kind.dtype)
    store_item(context, builder, kind, value, place)


def _place(context: Any, builder: Any, kind: Any, array: Any, index: Any, given: Any) -> Any:
    is_tuple = isinstance(index, types.BaseTuple)
    kinds = index.types if is_tuple else (index,)
    indices = cgutils.unpack_tuple(builder, given, len(kinds)) if is_tuple else [given]
    pairs = zip(indices, kinds, strict=True)
    places = [context.cast(builder, x, own, types.intp) for x, own in pairs]
    record = make_array(kind)(context, builder, array)
    return cgutils.get_item_pointer(context, builder, kind, record, places, wraparound=False)


@type_callable(wrapped)
def _type_of_wrapped(context: Any) -> Any:
    return lambda index, length: types.intp


@lower_builtin(wrapped, types.Integer, types.Integer)
def _wrapped(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    pairs = zip(arguments, signature.args, strict=True)
    index, length = (context.cast(builder, x, own, types.intp) for x, own in pairs)
    is_negative = builder.icmp_signed("<", index, index.type(0))
    return builder.select(is_negative, builder.add(index, length), index)


@type_callable(new_array)
def _type_of_new_array(context: Any) -> Any:
    return lambda shape, dtype: PlainArray(dtype.dtype, len(shape), "C")


@type_callable(free)
def _type_of_free(context: Any) -> Any:
    return lambda array: types.none


@type_callable(grown)
def _type_of_grown(context: Any) -> Any:
    return lambda tape, top, count: tape


@lower_builtin(new_array, types.UniTuple, types.NumberClass)
@lower_builtin(new_array, types.UniTuple, types.DType)
def _new_array(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    lengths = cgutils.unpack_tuple(builder, arguments[0])
    return _array(context, builder, signature.return_type, lengths, None)


@lower_builtin(free, types.Array)
def _free(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    array = make_array(signature.args[0])(context, builder, arguments[0])
    function = _library_function(builder, "free", ir.VoidType(), [_BYTES])
    builder.call(function, [builder.bitcast(array.data, _BYTES)])
    return context.get_dummy_value()


@lower_builtin(grown, types.Array, types.Integer, types.Integer)
def _grown(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    tape = make_array(signature.args[0])(context, builder, arguments[0])
    former = cgutils.unpack_tuple(builder, tape.shape, 1)[0]
    count = context.cast(builder, arguments[2], signature.args[2], types.intp)
    length = builder.add(builder.add(former, former), count)
    return _array(context, builder, signature.return_type, [length], tape.data)


def _array(context: Any, builder: Any, kind: Any, lengths: list[Any], former: Any) -> Any:
    """An array in new memory, or in that of a former one, enlarged."""
    word = context.get_value_type(types.intp)
    item = context.get_abi_sizeof(context.get_data_type(kind.dtype))
    zero = word(0)
    lengths = [builder.select(builder.icmp_signed("<", n, zero), zero, n) for n in lengths]
    strides, size = [], word(item)
    for length in reversed(lengths):
        strides.insert(0, size)
        size = builder.mul(size, length)
    size = builder.add(size, word(1))  # so that no memory at all is not asked for
    if former is None:
        function = _library_function(builder, "malloc", _BYTES, [word])
        data = builder.call(function, [size])
    else:
        function = _library_function(builder, "realloc", _BYTES, [_BYTES, word])
        data = builder.call(function, [builder.bitcast(former, _BYTES), size])
    with builder.if_then(cgutils.is_null(builder, data), likely=False):
        message = ("no memory for the arrays or the tape of a differentiated function",)
        context.call_conv.return_user_exc(builder, MemoryError, message)
    array = make_array(kind)(context, builder)
    populate_array(
        array,
        data=builder.bitcast(data, array.data.type),
        shape=cgutils.pack_array(builder, lengths),
        strides=cgutils.pack_array(builder, strides),
        itemsize=word(item),
        meminfo=None,
    )
    return array._getvalue()


def _library_function(builder: Any, name: str, result: Any, arguments: list[Any]) -> Any:
    kind = ir.FunctionType(result, arguments)
    return cgutils.get_or_insert_function(builder.module, kind, name)
