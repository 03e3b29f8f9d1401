"""Users' kernels by address: from memory, from the disk cache, or compiled now.

Numba is imported only where a kernel is missing from both, as for our own kernels. On disk is what
can be: code that needs nothing of Numba's run time (a kernel that makes arrays does), of functions
that can be told from others by their text (`function_identity.py`).
"""

import contextlib
import functools
import itertools
from collections.abc import Callable, Sequence

from numba_grad.compiler.building import cache, compile_log
from numba_grad.compiler.building.build import compiling
from numba_grad.compiler.building.engine_build import native_engine
from numba_grad.compiler.building.function_identity import identity_of
from numba_grad.compiler.numba_functions import generated
from numba_grad.compiler.numba_functions.generated import GeneratedFunction
from numba_grad.errors import KernelError
from numba_grad.graph.types import Type
from numba_grad.locks import LocksByKey
from numba_grad.ops.custom_kernels import Argument, CustomKernel, Number
from numba_grad.runtime import library, loader

_making = LocksByKey()
_symbols: dict[tuple[CustomKernel, tuple[Argument, ...]], str] = {}
_next_number = itertools.count().__next__


def symbol_of(kernel: CustomKernel, inputs: Sequence[Type], numbers: Sequence[Number]) -> str:
    """The symbol of the kernel's CPU function for these types, compiled if it was not yet.

    Raises
    ------
    KernelError
        If Numba cannot compile it for them.
    """
    arguments = kernel.arguments(inputs, numbers)
    key = (kernel, arguments)
    with _making.lock_of(key):
        symbol = _symbols.get(key)
        if symbol is None:
            symbol = f"user.{kernel.name}.{_next_number()}"
            library.give_address(symbol, _address(kernel, arguments))
            _symbols[key] = symbol
    return symbol


def exceptions_of(kernel: CustomKernel) -> Callable[[int, int], BaseException]:
    """What makes the exception that the kernel raised, from a code and a word of it."""
    assert kernel.cpu is not None
    if isinstance(kernel.cpu.function, GeneratedFunction):
        return functools.partial(generated.exception_of, kernel.cpu.function.generated_source)
    return _exception_of


def _exception_of(code: int, record: int) -> BaseException:
    """From Numba's code and record of it."""

    def work() -> BaseException:
        from numba_grad.compiler.user_kernels import compilation

        return compilation.exception_of(code, record)

    return compiling(("exception", code, record), work)


def _address(kernel: CustomKernel, arguments: tuple[Argument, ...]) -> int:
    key = _key_of(kernel, arguments)
    stored = None if key is None else cache.read(key)
    with compile_log.report() as report:
        if key is not None and stored is not None:
            # What it needs may be missing here: a function of the C library that another has.
            with contextlib.suppress(KernelError):
                address = _loaded(key, stored)
                report.expect([], from_cache=1)
                return address
        report.expect([key or "nowhere"])
        address = compiling((kernel, arguments), lambda: _compiled_address(kernel, arguments, key))
        report.compiled += 1
        return address


def _compiled_address(
    kernel: CustomKernel, arguments: tuple[Argument, ...], key: str | None
) -> int:
    from numba_grad.compiler.user_kernels import compilation

    assert kernel.cpu is not None
    function = kernel.cpu.function
    if key is not None and isinstance(function, GeneratedFunction):
        from numba_grad.compiler.numba_functions import array_lowering

        source, name = function.generated_source, function.name
        return _stored(key, array_lowering.object_code(source, name, arguments, _entry(key)))
    compiled = compilation.compiled(kernel, arguments)
    code = None if key is None else compilation.object_code(compiled, _entry(key))
    if key is not None and code is not None:
        with contextlib.suppress(KernelError):
            return _stored(key, code)
    return compilation.address_of(compiled)


def _stored(key: str, code: bytes) -> int:
    """The address of what goes on disk, too: results are the same as in the processes that find it
    there."""
    address = _loaded(key, code)
    cache.write(key, code)
    return address


def _loaded(key: str, code: bytes) -> int:
    if loader.SHARED_WORDS.encode() in code:
        native_engine()  # which has them
    return loader.load([([_entry(key)], code)])[_entry(key)]


def _key_of(kernel: CustomKernel, arguments: tuple[Argument, ...]) -> str | None:
    assert kernel.cpu is not None
    identity = identity_of(kernel.cpu.function)
    if identity is None:
        return None
    how = f"by element: {kernel.by_element}, tasks: {kernel.cpu.tasks is not None}"
    return cache.key_of("user", identity, how, repr(arguments))


def _entry(key: str) -> str:
    return f"numba_grad_user_{key[:40]}"
