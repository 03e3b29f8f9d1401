"""Numba's own pipeline, up to the types of all variables."""

# Numba's annotations are few, and wrong where they come from class attributes set at run time.
# pyright: reportAttributeAccessIssue=false, reportPrivateImportUsage=false

import dis
import inspect
from collections.abc import Sequence
from types import CodeType
from typing import Any

import numpy as np
from numba.core import bytecode, compiler, errors, ir, types
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import AnalysisPass, register_pass
from numba.core.registry import cpu_target
from numba.core.typed_passes import NopythonTypeInference
from numba.core.untyped_passes import TranslateByteCode
from numba.extending import type_callable
from numba.np.numpy_support import as_dtype, from_dtype

from numba_grad.compiler.numba_functions.numba_ir.refusals import refused
from numba_grad.compiler.numba_functions.numpy_in_loops import linear_algebra
from numba_grad.errors import KernelError, explain


def type_of(dtype: np.dtype, rank: int) -> types.Type:
    """Numba's type of an argument."""
    scalar = from_dtype(dtype)
    return scalar if rank == 0 else types.Array(scalar, rank, "C")


def number_type(kind: str) -> types.Type:
    return {"int64": types.int64, "float64": types.float64, "bool": types.boolean}[kind]


def type_of_form(form: Any) -> Any:
    """Numba's type of an argument: of a tuple or a record from the types of its parts, of what the
    code is made for from the value."""
    if isinstance(form, types.Type):
        return form
    if isinstance(form, dict):
        return from_dtype(np.dtype([(name, as_dtype(part)) for name, part in form.items()]))
    if isinstance(form, tuple):
        kind = type(form) if hasattr(form, "_fields") else None
        return types.BaseTuple.from_types(tuple(map(type_of_form, form)), kind)
    return types.literal(form) if isinstance(form, str | bool) else typeof(form)


def parts_of_type(numba_type: Any) -> list[tuple[int | str, Any]]:
    """The parts of a tuple, by number, or of a record, by name, with their types."""
    if isinstance(numba_type, types.Record):
        return [(name, numba_type.typeof(name)) for name in numba_type.fields]
    return list(enumerate(numba_type))


def fixed_value(numba_type: Any) -> Any:
    """What an argument of such a type is, which the code is made for; a LookupError where the type
    does not say."""
    if isinstance(numba_type, types.NoneType):
        return None
    if isinstance(numba_type, types.StringLiteral | types.BooleanLiteral):
        return numba_type.literal_value
    if isinstance(numba_type, types.Dispatcher):
        return numba_type.dispatcher
    raise LookupError(numba_type)


def dtype_name(numba_type: Any) -> str:
    numba_type = types.unliteral(numba_type)
    if isinstance(numba_type, types.Boolean):
        return "bool"
    if isinstance(numba_type, types.Integer | types.Float | types.Complex):
        return str(numba_type)
    raise TypeError(numba_type)


def typeof(value: Any) -> Any:
    from numba import typeof

    return typeof(value)


@type_callable(linear_algebra.eliminated)
def _type_of_eliminated(context: Any) -> Any:
    return lambda a: types.Tuple((a.copy(layout="C"), types.float64))


@register_pass(mutates_CFG=False, analysis_only=True)
class _RefuseWith(AnalysisPass):
    """Numba would compile the inside of `with objmode` by itself."""

    _name = "numba_grad_refuse_with"

    def __init__(self) -> None:
        super().__init__()

    def run_pass(self, state: Any) -> bool:  # pyright: ignore
        for block in state.func_ir.blocks.values():
            for statement in block.find_insts(ir.EnterWith):
                raise refused(statement.loc, "`with objmode`, or another `with`,")
        return False


class _Typing(CompilerBase):
    def define_pipelines(self) -> list[Any]:
        passes = DefaultPassBuilder.define_untyped_pipeline(self.state)
        passes.add_pass_after(_RefuseWith, TranslateByteCode)
        passes.add_pass(NopythonTypeInference, "types of all variables")
        passes.finalize()
        return [passes]


def _without_handlers_of_comprehensions(code: CodeType) -> CodeType:
    """Code without handlers of exceptions, if none of them is of a `try` or a `with`.

    Since Python 3.12 a comprehension is no function of its own. Whatever is raised in one, its
    handler only has the variables of the function hold what they did, and raises it again.
    """
    if any(x.opname == "PUSH_EXC_INFO" for x in dis.get_instructions(code)):
        return code
    return code.replace(co_exceptiontable=b"")


def typed(function: Any, arguments: Sequence[types.Type]) -> Any:
    """Numba's state after type inference.

    Raises
    ------
    KernelError
        If Numba finds no types.
    """
    context, target = cpu_target.typing_context, cpu_target.target_context
    context.refresh()
    target.refresh()
    flags = compiler.Flags()
    flags.nrt = True
    pipeline = _Typing(context, target, None, tuple(arguments), None, flags, {})
    state = pipeline.state
    state.func_id = bytecode.FunctionIdentity.from_function(function)
    state.func_id.code = _without_handlers_of_comprehensions(state.func_id.code)
    state.bc = bytecode.ByteCode(state.func_id)
    state.lifted, state.lifted_from = (), None
    try:
        for passes in pipeline.define_pipelines():
            passes.run(state)
    except (errors.NumbaError, errors.UnsupportedBytecodeError) as error:
        described = inspect.signature(function).parameters
        got: dict[str, object] = dict(zip(described, arguments, strict=False))
        problem = "Numba finds no types for this function with these arguments"
        raise KernelError(f"{explain(function.__name__, problem, got=got)}\n\n{error}") from error
    return state
