"""Source text to loaded kernels: from memory, from the disk cache, or compiled now.

Nothing here imports Numba until a kernel is missing from both.
"""

import sys
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from numba_grad import forks
from numba_grad.compiler import cache, compile_log, job_start, parallel_build
from numba_grad.config import config
from numba_grad.errors import KernelError
from numba_grad.fresh_thread import unbroken
from numba_grad.locks import Claims, new_lock
from numba_grad.runtime import loader

if TYPE_CHECKING:
    import llvmlite.binding as llvm

Form = TypeVar("Form")

KERNEL_SIGNATURE = "void(int64, int64, int64)"


@dataclass(frozen=True, slots=True)
class Kernel:
    """A compiled function: `address` is that of a C function of the given signature."""

    address: int
    source: str
    key: str
    entry_name: str = "kernel"
    signature: str = KERNEL_SIGNATURE
    is_quick: bool = False  # compiled without any pass

    @property
    def request(self) -> "Request":
        return Request(self.source, self.entry_name, self.signature, self.is_quick)

    @property
    def symbol(self) -> str:
        return _symbol(self.key)

    @property
    def llvm(self) -> str:
        """The optimized LLVM text, compiled again for the occasion."""
        return _compiled(self.request, str)

    @property
    def asm(self) -> str:
        """The machine code as assembly, compiled again for the occasion."""
        return _compiled(self.request, _assembly)


class StoredKernel(NamedTuple):
    """A kernel that a stored plan names: its source is not at hand."""

    address: int
    key: str


@dataclass(slots=True)
class Statistics:
    """What this process did so far."""

    compilations: int = 0
    loads: int = 0


class Request(NamedTuple):
    source: str
    entry_name: str = "kernel"
    signature: str = KERNEL_SIGNATURE
    is_quick: bool = False

    @property
    def key(self) -> str:
        speed = ("quick",) if self.is_quick else ()
        return cache.key_of(self.source, self.entry_name, self.signature, *speed)


_claims = Claims()
_kernels: dict[Request, Kernel] = {}
_addresses: dict[str, int] = {}  # of all that is loaded, by key
_statistics = Statistics()
_counting = new_lock()


def statistics() -> Statistics:
    return _statistics


def build(source: str) -> Kernel:
    """The kernel of one source text, which defines `kernel(args, lo, hi)`."""
    return build_all([source])[0]


def build_all(sources: Iterable[str], *, is_quick: bool = False) -> list[Kernel]:
    """The kernels of several source texts; missing ones are compiled together.

    `is_quick`: without any pass of LLVM's, so in a tenth of the time, to scalar code in which
    nothing is contracted.
    """
    return _build([Request(source, is_quick=is_quick) for source in sources])


def build_function(source: str, entry_name: str, signature: str) -> Kernel:
    """A function of `source` with another C signature, such as "int64(int64, int64)"."""
    return _build([Request(source, entry_name, signature)])[0]


def _build(requests: list[Request]) -> list[Kernel]:
    missing = {request.key: request for request in requests if request not in _kernels}
    _claims.make(missing, _addresses, lambda keys: _load(_object_codes([missing[k] for k in keys])))
    for key, request in missing.items():
        _kernels[request] = Kernel(
            _addresses[key],
            request.source,
            key,
            request.entry_name,
            request.signature,
            request.is_quick,
        )
    return [_kernels[request] for request in requests]


def stored(keys: Sequence[str]) -> list[StoredKernel]:
    """The kernels of these keys, from memory or from disk.

    Raises
    ------
    KernelError
        If one is on neither, or cannot be loaded.
    """
    _claims.make(keys, _addresses, _load_stored)
    return [StoredKernel(_addresses[key], key) for key in keys]


def _load_stored(keys: list[str]) -> None:
    codes = {}
    for key in keys:
        code = cache.read(key)
        if code is None:
            raise KernelError(f"no kernel is stored under {key}")
        codes[key] = code
    with compile_log.report() as report:
        report.expect([], from_cache=len(codes))
        _load(codes)


def _load(codes: dict[str, bytes]) -> None:
    """Load object code, by key."""
    addresses = loader.load([(_symbol(key), code) for key, code in codes.items()])
    _addresses.update(zip(codes, addresses, strict=True))
    _statistics.loads += len(codes)


def _object_codes(requests: list[Request]) -> dict[str, bytes]:
    codes = {request: cache.read(request.key) for request in requests}
    missing = [request for request, code in codes.items() if code is None]
    with compile_log.report() as report:
        report.expect([r.key for r in missing], from_cache=len(codes) - len(missing))

        def compiled(request: Request) -> bytes:
            code = compile_and_store(request)
            with _counting:
                report.compiled += 1
            return code

        def compiled_by_turns(request: Request) -> bytes | None:
            with job_start.claim(request.key) as is_ours:
                return (job_start.known(request.key) or compiled(request)) if is_ours else None

        # Inside of Numba, this thread has the lock that others would wait for.
        threads = 1 if _is_inside_numba() else config.threads
        codes |= parallel_build.of_each(missing, compiled_by_turns, threads)
        for request, code in codes.items():
            if code is None:  # another process of this job is at it
                codes[request] = job_start.awaited(request.key, partial(compiled, request))
    return {request.key: code for request, code in codes.items() if code is not None}


def compile_and_store(request: Request) -> bytes:
    """Object code of a kernel that the disk cache does not have."""

    def work() -> bytes:
        code = _compiled(request, _quick_object_code if request.is_quick else _object_code)
        with _counting:
            _statistics.compilations += 1
        cache.write(request.key, code)
        return code

    return compiling(request, work)


def _numbas_lock() -> Any:
    """What Numba's compiler holds, ours and the user's, where Numba is imported."""
    lock = getattr(sys.modules.get("numba.core.compiler_lock"), "global_compiler_lock", None)
    return getattr(lock, "_lock", None)


forks.wait_for(_numbas_lock)


def _symbol(key: str) -> str:
    return f"numba_grad_{key[:40]}"


def compiling(what: Hashable, work: Callable[[], Form]) -> Form:
    """The result of `work`, which may import Numba and compile with it: neither is broken off.

    A thread that is inside of Numba already, as in a user's `@overload` that computes with us, goes
    on itself: it holds the lock that another one would wait for.
    """
    return work() if _is_inside_numba() else unbroken(what, work)


def _is_inside_numba() -> bool:
    """Whether this thread is, not another one."""
    numbas = getattr(sys.modules.get("numba.core.compiler_lock"), "global_compiler_lock", None)
    return numbas is not None and numbas.is_locked()


def _compiled(request: Request, form: "Callable[[llvm.ModuleRef], Form]") -> Form:
    """One form of the optimized module, which does not live on."""

    def work() -> Form:
        from numba_grad.compiler import code_generation, front_end

        symbol = _symbol(request.key)
        module = front_end.module_for(
            request.source,
            request.entry_name,
            request.signature,
            symbol,
            has_vector_forms=not request.is_quick,
        )
        finish = code_generation.as_written if request.is_quick else code_generation.optimized
        return form(finish(module, symbol))

    return compiling((request, form), work)


def _object_code(module: "llvm.ModuleRef") -> bytes:
    from numba_grad.compiler import code_generation

    return code_generation.object_code(module)


def _quick_object_code(module: "llvm.ModuleRef") -> bytes:
    from numba_grad.compiler import code_generation

    return code_generation.quick_object_code(module)


def _assembly(module: "llvm.ModuleRef") -> str:
    from numba_grad.compiler import code_generation

    return code_generation.assembly(module)
