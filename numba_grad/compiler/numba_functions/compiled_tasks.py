"""`shared_tasks` in compiled code: parts are compiled as functions, and the engine's native code is
called with the address of one and a record of its arguments.

This module imports Numba, so only code that compiles imports it.
"""

# pyright: reportAttributeAccessIssue=false, reportPrivateImportUsage=false

from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba.core import cgutils, types, typing
from numba.core.callconv import Status
from numba.core.datamodel.models import OpaqueModel
from numba.core.targetconfig import ConfigStack
from numba.core.typing.typeof import typeof_impl
from numba.extending import lower_builtin, register_model, type_callable

from numba_grad.compiler.building.engine_build import native_engine
from numba_grad.compiler.numba_functions.shared_tasks import in_parallel, part
from numba_grad.runtime.loader import SHARED_WORDS
from numba_grad.runtime.threads import SharedWord

_WORD = ir.IntType(64)
_STATUS = ir.IntType(32)


class PartType(types.Opaque):
    """One part: each has a type of its own."""

    def __init__(self, tasks: part) -> None:
        self.tasks = tasks
        super().__init__(f"part({tasks.function.__name__}, {id(tasks)})")


register_model(PartType)(OpaqueModel)


@typeof_impl.register(part)
def _type_of_part(value: part, context: Any) -> PartType:
    return PartType(value)


@type_callable(in_parallel)
def _type_of_in_parallel(context: Any) -> Any:
    return lambda tasks, count, grain, arguments: types.none


@lower_builtin(in_parallel, PartType, types.Integer, types.Integer, types.BaseTuple)
def _in_parallel(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    kind, count_type, grain_type, tuple_type = signature.args
    _, count, grain, given = arguments
    kinds, values = tuple_type.types, cgutils.unpack_tuple(builder, given, len(tuple_type))
    count, grain = (
        context.cast(builder, value, own, types.int64)
        for value, own in ((count, count_type), (grain, grain_type))
    )
    function = _compiled(context, builder, kind.tasks, kinds)
    record_type = ir.LiteralStructType(
        # What the first part that fails leaves: a code of Numba's, and the record of an exception.
        [_STATUS, _exceptions_type(context, builder), *[value.type for value in values]]
    )
    record = cgutils.alloca_once(builder, record_type)
    for number, value in enumerate([_STATUS(0), record_type.elements[1](None), *values]):
        builder.store(value, cgutils.gep_inbounds(builder, record, 0, number))
    entry = _entry(context, builder.module, function, kinds, record_type)
    shared = _shared_words(builder)
    run_type = ir.FunctionType(_WORD, [_WORD] * 5)
    place = builder.gep(shared, [_WORD(int(SharedWord.RUN_TASKS))])
    run = builder.inttoptr(builder.load(place), run_type.as_pointer())
    addresses = [builder.ptrtoint(x, _WORD) for x in (shared, entry, record)]
    builder.call(run, [*addresses, count, grain])
    code = builder.load(cgutils.gep_inbounds(builder, record, 0, 0))
    with builder.if_then(builder.icmp_signed("!=", code, _STATUS(0)), likely=False):
        exception = builder.load(cgutils.gep_inbounds(builder, record, 0, 1))
        context.call_conv.return_status_propagate(builder, _failed(code, exception))
    return context.get_dummy_value()


def make_known_to_numba() -> None:
    """Let code that Numba itself loads refer to the engine's words."""
    llvm.add_symbol(SHARED_WORDS, native_engine().shared)


def _compiled(context: Any, builder: Any, tasks: part, kinds: list[Any]) -> Any:
    """A part as a function of the module."""
    signature = typing.signature(types.none, types.int64, types.int64, *kinds)
    flags = ConfigStack().top().copy()
    found = context._compile_subroutine_no_cache(builder, tasks.function, signature, flags=flags)
    return context.declare_function(builder.module, found.fndesc), signature


def _entry(
    context: Any, module: ir.Module, function: Any, kinds: list[Any], record_type: ir.Type
) -> ir.Function:
    """The part as the engine calls it: (address of the record, first, last)."""
    callee, signature = function
    entry = ir.Function(module, ir.FunctionType(_WORD, [_WORD] * 3), f"{callee.name}.entry")
    entry.linkage = "internal"
    builder = ir.IRBuilder(entry.append_basic_block("entry"))
    record = builder.inttoptr(entry.args[0], record_type.as_pointer())
    values = [
        builder.load(cgutils.gep_inbounds(builder, record, 0, 2 + k)) for k in range(len(kinds))
    ]
    status, _ = context.call_conv.call_function(
        builder, callee, types.none, signature.args, [*entry.args[1:], *values]
    )
    with builder.if_then(status.is_error, likely=False):
        builder.store(status.excinfoptr, cgutils.gep_inbounds(builder, record, 0, 1))
        builder.store(status.code, cgutils.gep_inbounds(builder, record, 0, 0))
    builder.ret(_WORD(0))
    return entry


def _shared_words(builder: Any) -> ir.GlobalVariable:
    """The engine's `SharedWord`s, by the symbol that the loader knows them by."""
    found = builder.module.globals.get(SHARED_WORDS)
    return found or ir.GlobalVariable(builder.module, _WORD, SHARED_WORDS)


def _exceptions_type(context: Any, builder: Any) -> ir.Type:
    return context.call_conv._get_excinfo_argument(builder.function).type.pointee


def _failed(code: Any, exception: Any) -> Status:
    return Status(
        code=code,
        is_ok=None,
        is_none=None,
        is_error=None,
        is_stop_iteration=None,
        is_python_exc=None,
        is_user_exc=None,
        excinfoptr=exception,
    )
