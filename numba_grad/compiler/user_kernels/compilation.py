"""Users' kernels to machine code, through Numba's full CPU target: arrays, NumPy, exceptions.

Private parts of Numba: how functions pass arrays and report exceptions; tested with Numba 0.68.
This module imports Numba, so only code that compiles imports it.
"""

# Numba's annotations are few, and wrong where they come from class attributes set at run time.
# pyright: reportAttributeAccessIssue=false, reportPrivateImportUsage=false

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numba
from llvmlite import ir
from numba.core import errors, types
from numba.core.caching import NullCache
from numba.core.callconv import Status
from numba.core.dispatcher import Dispatcher
from numba.extending import intrinsic
from numba.np.numpy_support import from_dtype

from numba_grad.compiler import code_generation
from numba_grad.errors import InternalError, KernelError, explain
from numba_grad.ops.custom_kernels import Argument, ArrayArgument, CustomKernel, python_function

_dispatchers: dict[CustomKernel, Any] = {}
_INT32 = ir.IntType(32)


def compiled(kernel: CustomKernel, arguments: Sequence[Argument]) -> Any:
    """Numba's record of what it made of the kernel's CPU function for these arguments."""
    dispatcher = _dispatchers.get(kernel)
    if dispatcher is None:
        dispatcher = _dispatchers[kernel] = _dispatcher(kernel)
    assert kernel.cpu is not None
    has_range = kernel.by_element or kernel.cpu.tasks is not None
    # Inputs are read-only, so that writing to one does not compile; unless the user said by types
    # what to compile, which are those of ordinary arrays.
    is_open = dispatcher._can_compile
    signature = (
        *[types.int64] * (2 * has_range),
        *[_type_of(argument, is_read_only=is_open) for argument in arguments],
    )
    _check_count(kernel, dispatcher, len(signature))
    described: dict[str, object] = dict(
        zip(_names(kernel, arguments), signature[2 * has_range :], strict=True)
    )
    if is_open:
        try:
            dispatcher.compile(signature)
        except (errors.NumbaError, NotImplementedError) as error:
            problem = "Numba cannot compile this kernel for these arguments"
            message = explain(kernel.name, problem, got=described)
            raise KernelError(f"{message}\n\n{error}") from error
    elif signature not in dispatcher.overloads:
        raise KernelError(
            explain(
                kernel.name,
                "its kernel is compiled for other types of arguments than these",
                got=described,
                expected="; ".join(str(types) for types in dispatcher.overloads),
                fix="numba.njit without a signature",
            )
        )
    result = dispatcher.overloads[signature]
    if result.signature.return_type != types.none:
        raise KernelError(
            explain(
                kernel.name,
                "a kernel must write its results into the arrays that it is given, and return "
                "nothing",
                got={"returns": result.signature.return_type},
            )
        )
    if result.lifted:
        raise KernelError(
            explain(
                kernel.name,
                "a kernel cannot run Python code: it runs without the interpreter's lock",
                got={"kernel": "has a block `with objmode`"},
                fix="numba_grad.autograd.Function, for what has to be Python",
            )
        )
    return result


def address_of(result: Any) -> int:
    """Where Numba has loaded the function."""
    return result.library.get_pointer_to_function(result.fndesc.llvm_func_name)


def object_code(result: Any, symbol: str) -> bytes | None:
    """An object file with the function as `symbol`; None if it needs Numba's run time, or if Numba
    has it from its own cache.

    Exceptions need the run time too, but only to be raised.
    """
    if result.library._disable_inspection:
        return None
    module = code_generation.module_of(result.library.get_llvm_str(), symbol)
    function = module.get_function(result.fndesc.llvm_func_name)
    function.name = symbol
    try:
        written = code_generation.Written(module)
        return code_generation.object_code(code_generation.optimized(written, symbol))
    except InternalError:
        return None


def _dispatcher(kernel: CustomKernel) -> Any:
    assert kernel.cpu is not None
    function = kernel.cpu.function
    if not isinstance(function, Dispatcher):
        function = numba.njit(python_function(function), error_model="numpy")
    if not isinstance(function, Dispatcher):
        raise KernelError(
            explain(
                kernel.name,
                "Numba is told not to compile, by NUMBA_DISABLE_JIT",
                fix='numba_grad.configure(engine="reference"), which runs kernels in Python',
            )
        )
    if kernel.by_element:
        return _loop(function, len(kernel.input_names))
    return _copy_of(function) if function._can_compile else function


def _copy_of(function: Any) -> Any:
    """The same function, compiled for us alone: read-only arrays would be among the signatures of
    the user's own, and take the arguments of calls."""
    own = type(function)(
        function.py_func,
        locals=function.locals,
        targetoptions=function.targetoptions,
        pipeline_class=function._compiler.pipeline_class,
    )
    if not isinstance(function._cache, NullCache):
        own.enable_caching()
    return own


def _loop(function: Any, count: int) -> Any:
    """A kernel that applies `function` to the elements from `first` to `last`."""
    names = [f"x{k}" for k in range(count)]
    source = (
        f"def loop(first, last, {', '.join(names)}, result):\n"
        "    for i in range(first, last):\n"
        f"        result[i] = function({', '.join(f'{name}[i]' for name in names)})\n"
    )
    namespace: dict[str, Any] = {"function": function}
    exec(source, namespace)
    return numba.njit(namespace["loop"], error_model="numpy")


def _type_of(argument: Argument, *, is_read_only: bool) -> types.Type:
    scalar = from_dtype(argument.dtype)
    if not isinstance(argument, ArrayArgument):
        return scalar
    is_read_only = is_read_only and not argument.is_result
    return types.Array(scalar, argument.rank, "C", readonly=is_read_only)


def _check_count(kernel: CustomKernel, dispatcher: Any, count: int) -> None:
    """Numba's own message says nothing of what a kernel is called with."""
    try:
        inspect.signature(python_function(dispatcher)).bind(*range(count))
    except TypeError:
        expected = ", ".join((*kernel.input_names, "then the results", *kernel.number_names))
        if kernel.cpu is not None and kernel.cpu.tasks is not None:
            expected = f"first, last, {expected}"
        raise KernelError(
            explain(
                kernel.name,
                f"its kernel cannot be called with {count} arguments",
                got={"kernel": inspect.signature(python_function(dispatcher))},
                expected=expected,
            )
        ) from None


def _names(kernel: CustomKernel, arguments: Sequence[Argument]) -> tuple[str, ...]:
    results = len(arguments) - len(kernel.input_names) - len(kernel.number_names)
    return (
        *kernel.input_names,
        *(["result"] if results == 1 else [f"result {k}" for k in range(results)]),
        *kernel.number_names,
    )


# Exceptions. A compiled function that raises returns a code and a record of the exception; code
# that is compiled with a wrapper for Python turns them into the exception itself.


def exception_of(code: int, record: int) -> BaseException:
    """The exception that a kernel raised."""
    try:
        _raiser()(code, record)
    except BaseException as error:
        return error.with_traceback(None)
    return KernelError(f"a kernel failed with Numba's code {code}")


@functools.cache
def _raiser() -> Callable[[int, int], None]:
    @numba.njit("void(int64, int64)")
    def raiser(code: int, record: int) -> None:
        _raise(code, record)  # pyright: ignore[reportCallIssue]

    return raiser


@intrinsic
def _raise(typing_context, code, record):
    def lower(context, builder, signature, arguments):
        convention = context.call_conv
        place = convention._get_excinfo_argument(builder.function).type.pointee
        code = builder.trunc(arguments[0], _INT32)
        with builder.if_then(builder.icmp_signed("!=", code, _INT32(0))):
            status = Status(
                code=code,
                is_ok=None,
                is_none=None,
                is_error=None,
                is_stop_iteration=None,
                is_python_exc=None,
                is_user_exc=None,
                excinfoptr=builder.inttoptr(arguments[1], place),
            )
            convention.return_status_propagate(builder, status)
        return context.get_dummy_value()

    return types.none(types.int64, types.int64), lower
