"""Source text to loaded kernels: from memory, from the disk cache, or compiled now.

Nothing here imports Numba until a kernel is missing from both.
"""

import contextlib
import functools
import importlib
import marshal
import sys
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from numba_grad import forks
from numba_grad.compiler.building import cache, compile_log, job_start, parallel_build
from numba_grad.config import config
from numba_grad.errors import KernelError
from numba_grad.fresh_thread import unbroken
from numba_grad.graph.collection import old_at_once
from numba_grad.immutable import NamedTuple
from numba_grad.locks import Claims, new_lock
from numba_grad.runtime import loader, object_files, special_functions

if TYPE_CHECKING:
    import llvmlite.binding as llvm

Form = TypeVar("Form")

KERNEL_SIGNATURE = "void(int64, int64, int64)"


class LoadedKernel(NamedTuple):
    """A compiled function: `address` is that of a C function of the given signature."""

    address: int
    source: str
    key: str
    entry_name: str = "kernel"
    signature: str = KERNEL_SIGNATURE
    is_quick: bool = False  # compiled without any pass

    @property
    def request(self) -> "KernelRequest":
        return KernelRequest(self.source, self.entry_name, self.signature, self.is_quick)

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


@dataclass(slots=True, eq=False)
class BuildStatistics:
    """What this process did so far."""

    compilations: int = 0
    loads: int = 0


class KernelRequest(NamedTuple):
    """A kernel that somebody wants.

    `is_quick`: without any pass of LLVM's, so in a tenth of the time, to scalar code in which
    nothing is contracted.
    """

    source: str
    entry_name: str = "kernel"
    signature: str = KERNEL_SIGNATURE
    is_quick: bool = False

    @property
    def key(self) -> str:
        return _key_of(self)


@functools.lru_cache(maxsize=1 << 12)
def _key_of(request: KernelRequest) -> str:
    """Comments say which operations a kernel is for: those that differ in them alone are one."""
    speed = ("quick",) if request.is_quick else ()
    code = _without_comments(request.source)
    return cache.key_of(code, request.entry_name, request.signature, *speed)


@functools.lru_cache(maxsize=4)  # the engine has several functions in one long text
def _without_comments(source: str) -> str:
    if "#" not in source:
        return source
    lines = source.splitlines(keepends=True)
    return "".join([line for line in lines if not line.lstrip(" ").startswith("#")])


_claims = Claims()
_kernels: dict[KernelRequest, LoadedKernel] = {}
_addresses: dict[str, int] = {}  # of all that is loaded, by key
_statistics = BuildStatistics()
_counting = new_lock()


def statistics() -> BuildStatistics:
    return _statistics


def build(source: str) -> LoadedKernel:
    """The kernel of one source text, which defines `kernel(args, lo, hi)`."""
    return build_all([source])[0]


def build_all(sources: Iterable[str]) -> list[LoadedKernel]:
    """The kernels of several source texts; missing ones are compiled together."""
    return build_requests([KernelRequest(source) for source in sources])


def build_requests(requests: Sequence[KernelRequest]) -> list[LoadedKernel]:
    """The kernels, or other C functions, that are asked for; missing ones are compiled together."""
    new = [request for request in requests if request not in _kernels]
    if new:
        image = image_in(config.cache_directory)
        new = [request for request in new if not _is_adopted(request, image.get(request))]
    missing = {request.key: request for request in new}
    _claims.make(missing, _addresses, lambda keys: _load(_object_codes([missing[k] for k in keys])))
    for request in new:
        _kernels[request] = _loaded(request, _addresses[request.key], request.key)
    return [_kernels[request] for request in requests]


# The kernels of single operations that this machine has met lie in one file, as they lie in memory
# (`kernel_image.py` adds to it). All first gradients need some: to name, read, check and place ten,
# a file each of a few hundred bytes, took a tenth of a small one.

Places = dict[tuple, tuple[str, int]]  # by request: the key of a kernel, and where it is
# Of what is in a file also: what of the process it calls, by where the addresses of that are, and
# the code.
Image = tuple[Places, dict[int, str], bytes]
EMPTY_IMAGE: Image = {}, {}, b""


@functools.lru_cache(maxsize=4)
def image_in(directory: Path) -> Places:
    """The kernels of the image in `directory`, the one in force: as it was when first asked for."""
    content = cache.peek(key_of_image()) if object_files.can_place() else None
    places, called, code = image_of(content)
    placed = object_files.with_addresses(code, called) if places else None
    base = object_files.in_memory(placed) if placed else 0
    if not base:
        return {}
    placed_at = {request: (key, base + place) for request, (key, place) in places.items()}
    _addresses.update(placed_at.values())
    return placed_at


def key_of_image() -> str:
    return cache.key_of("image of kernels", f"marshal {marshal.version}", sys.version)


def image_of(content: bytes | None) -> Image:
    """What a file holds, if anything."""
    if content is None:
        return EMPTY_IMAGE
    try:
        places, called, code = marshal.loads(content)
    except (ValueError, EOFError, TypeError):  # it was written by something else
        return EMPTY_IMAGE
    return places, called, code


def _is_adopted(request: KernelRequest, found: tuple[str, int] | None) -> bool:
    """Whether a kernel is one of the image, which has no key to be worked out."""
    if found is None:
        return False
    key, address = found
    _kernels[request] = _loaded(request, address, key)
    with _counting:
        _statistics.loads += 1
    return True


def _loaded(request: KernelRequest, address: int, key: str) -> LoadedKernel:
    return LoadedKernel(
        address,
        request.source,
        key,
        request.entry_name,
        request.signature,
        request.is_quick,
    )


def is_compiled(request: KernelRequest) -> bool:
    """Whether a kernel is in memory or on disk."""
    return request in _kernels or cache.contains(request.key)


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
    image_in(config.cache_directory)
    codes = {}
    for key in keys:
        if key in _addresses:
            continue
        code = cache.read(key)
        if code is None:
            raise KernelError(f"no kernel is stored under {key}")
        codes[key] = code
    with compile_log.report() as report:
        report.expect([], from_cache=len(codes))
        _load(codes)


def _load(codes: dict[str, bytes]) -> None:
    """Load object code, by key; an object that several keys have, once."""
    keys_of: dict[bytes, list[str]] = {}
    for key, code in codes.items():
        keys_of.setdefault(code, []).append(key)
    objects = [([_symbol(key) for key in keys], code) for code, keys in keys_of.items()]
    addresses = loader.load(objects)
    _addresses.update({key: addresses[_symbol(key)] for key in codes})
    _statistics.loads += len(codes)


# A module of its own takes a kernel another 2 ms: so those without passes share one. More of them
# would be more than one thread can have a part of, and a module cannot be broken off.
_MOST_TOGETHER = 24
_MOST_CHARACTERS_TOGETHER = 10000  # of kernels that are vector code as written, which take longer
_FEWEST_MODULES = 16  # that threads share: in longer modules, functions are compiled less often


def _batches(requests: Sequence[KernelRequest]) -> list[tuple[KernelRequest, ...]]:
    """What is compiled as one module."""
    quick = [request for request in requests if request.is_quick]
    others = [request for request in requests if not request.is_quick]
    # The longest first, or else one thread may be left with it in the end.
    others.sort(key=lambda request: (len(request.source), request.source), reverse=True)
    # Of several processes that start together each takes what it finds.
    is_plain = dict.fromkeys(others, False) if job_start.is_shared() else _are_plain(others)
    batches = [(request,) for request in others if not is_plain[request]]
    plain_length = sum(len(request.source) for request in others if is_plain[request])
    most = max(_MOST_CHARACTERS_TOGETHER, plain_length // _FEWEST_MODULES)
    together, length = [], 0
    for request in others:
        if is_plain[request]:
            length += len(request.source)
            if together and length > most:
                batches.append(tuple(together))
                together, length = [], len(request.source)
            together.append(request)
    batches += [tuple(together)] if together else []
    return [
        *batches,
        *[tuple(quick[k : k + _MOST_TOGETHER]) for k in range(0, len(quick), _MOST_TOGETHER)],
    ]


def _are_plain(requests: Sequence[KernelRequest]) -> dict[KernelRequest, bool]:
    """Which kernels need no pass of LLVM's, where that matters."""
    if len(requests) < 2:
        return dict.fromkeys(requests, False)

    def work() -> dict[KernelRequest, bool]:
        is_plain = _front_end().is_plain
        return {request: is_plain(request.source, request.entry_name) for request in requests}

    return compiling(tuple(requests), work)


def _object_codes(requests: list[KernelRequest]) -> dict[str, bytes]:
    """By key. What was compiled together is one object, which each of its keys has."""
    codes = {request: cache.read(request.key) for request in requests}
    missing = [request for request, code in codes.items() if code is None]
    batches = _batches(missing)
    with compile_log.report() as report:
        report.expect([r.key for r in missing], from_cache=len(codes) - len(missing))

        def compiled(batch: tuple[KernelRequest, ...]) -> dict[KernelRequest, bytes]:
            own = compile_and_store(*batch)
            with _counting:
                report.compiled += len(batch)
            return own

        def compiled_by_turns(batch: tuple[KernelRequest, ...]) -> dict[KernelRequest, bytes]:
            with contextlib.ExitStack() as claims:
                own = [r for r in batch if claims.enter_context(job_start.claim(r.key))]
                found = {r: code for r in own if (code := job_start.known(r.key)) is not None}
                left = tuple([r for r in own if r not in found])
                return found | compiled(left) if left else found

        # Inside of Numba, this thread has the lock that others would wait for.
        threads = 1 if _is_inside_numba() else config.threads
        for own in parallel_build.of_each(batches, compiled_by_turns, threads).values():
            codes |= own
        for request in [request for request in missing if codes[request] is None]:
            # Another process of this job is at it.
            codes[request] = job_start.awaited(
                request.key, lambda request=request: compiled((request,))[request]
            )
    if missing:
        _front_end().forget_sources()
    return {request.key: code for request, code in codes.items() if code is not None}


def compile_and_store(*requests: KernelRequest) -> dict[KernelRequest, bytes]:
    """Object code of a kernel that the disk cache does not have, or of several that are quick, or
    plain."""

    def work() -> dict[KernelRequest, bytes]:
        codes = (_quick_object_codes if requests[0].is_quick else _full_object_codes)(requests)
        with _counting:
            _statistics.compilations += len(requests)
        for request, code in codes.items():
            cache.write(request.key, code)
        return codes

    return compiling(requests, work)


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


def _compiled(request: KernelRequest, form: "Callable[[llvm.ModuleRef], Form]") -> Form:
    """One form of the finished module, which does not live on."""

    def work() -> Form:
        from numba_grad.compiler import code_generation

        if request.is_quick:
            return form(_quick_module([request]))
        module = _front_end().module_for(
            request.source, request.entry_name, request.signature, _symbol(request.key)
        )
        return form(code_generation.optimized(module, _symbol(request.key)))

    return compiling((request, form), work)


@functools.cache
def _front_end() -> Any:
    """The module that imports Numba."""
    return old_at_once(
        lambda: importlib.import_module("numba_grad.compiler.kernel_language.front_end")
    )


def _object_code(module: "llvm.ModuleRef") -> bytes:
    from numba_grad.compiler import code_generation

    return code_generation.object_code(module)


def _quick_module(requests: Sequence[KernelRequest]) -> "llvm.ModuleRef":
    from numba_grad.compiler import code_generation

    front_end = _front_end()
    functions = _functions(requests)
    symbols = [function.symbol for function in functions]
    return code_generation.as_written(front_end.quick_module_of(functions, symbols[0]), symbols)


def _quick_object_codes(requests: Sequence[KernelRequest]) -> dict[KernelRequest, bytes]:
    """One object for all: a module of its own takes each kernel another 1.3 ms.

    What calls SciPy is an object of its own, or else SciPy would be imported for the others, too.
    """
    from numba_grad.compiler import code_generation

    code = code_generation.quick_object_code(_quick_module(requests))
    if len(requests) == 1 or not special_functions.are_needed_by(code):
        return dict.fromkeys(requests, code)
    return {
        request: code_generation.quick_object_code(_quick_module([request])) for request in requests
    }


def _full_object_codes(requests: Sequence[KernelRequest]) -> dict[KernelRequest, bytes]:
    """One object for all, if they are several that are plain."""
    if len(requests) > 1:
        front_end = _front_end()
        functions = _functions(requests)
        symbols = [function.symbol for function in functions]
        written = front_end.plain_module_for(functions, symbols[0])
        if written is not None:
            from numba_grad.compiler import code_generation

            code = code_generation.object_code(code_generation.optimized(written, *symbols))
            return dict.fromkeys(requests, code)
    return {request: _compiled(request, _object_code) for request in requests}


def _functions(requests: Sequence[KernelRequest]) -> list[Any]:
    function = _front_end().ExportedFunction
    return [function(r.source, r.entry_name, r.signature, _symbol(r.key)) for r in requests]


def _assembly(module: "llvm.ModuleRef") -> str:
    from numba_grad.compiler import code_generation

    return code_generation.assembly(module)
