"""Kernel source to cubins: from memory, from the disk cache, or compiled now.

A warm start imports no compiler: the figures of a kernel are stored with its code.
"""

import contextlib
import dataclasses
import functools
import importlib.util
import json
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numba_grad.compiler.building import cache, compile_log
from numba_grad.compiler.building.build import compiling
from numba_grad.compiler.cuda import front_end, worker_processes
from numba_grad.compiler.cuda.link import SYSTEM_SHARED_BYTES, Usage, link
from numba_grad.errors import KernelError, explain
from numba_grad.fresh_thread import imported
from numba_grad.immutable import immutable
from numba_grad.locks import Claims

# Of a driver that runs the source itself, in host memory: what tests use.
SOURCE_ARCHITECTURE = "source"


@immutable
class KernelRequest:
    source: str
    architecture: str

    @property
    def key(self) -> str:
        return cache.key_in(_identity(), self.source, self.architecture)


@immutable
class DeviceKernel:
    """A compiled kernel: `code` is a cubin, whose one entry is `entry_name`."""

    source: str
    architecture: str
    code: bytes
    usage: Usage
    entry_name: str = "kernel"

    @property
    def registers(self) -> int:
        return self.usage.registers

    @property
    def spilled_bytes(self) -> int:
        return self.usage.spilled_bytes

    @property
    def shared_bytes(self) -> int:
        return self.usage.shared_bytes

    @property
    def ptx(self) -> str:
        """The PTX, compiled again for the occasion."""
        return _ptx(KernelRequest(self.source, self.architecture))

    @property
    def sass(self) -> str:
        """The machine code as text, by NVIDIA's disassembler.

        Raises
        ------
        KernelError
            If there is no `nvdisasm` (nor `cuobjdump`): wheels and the CUDA toolkit have them.
        """
        return _disassembled(self.code)

    def occupancy(self, threads: int) -> "Occupancy":
        """How many threads a multiprocessor runs at once, in blocks of so many."""
        return occupancy(self.usage, threads, self.architecture)


@dataclass(slots=True)
class BuildStatistics:
    """What this process did so far."""

    compilations: int = 0


_claims = Claims()
_kernels: dict[KernelRequest, DeviceKernel] = {}
# What is no kernel source, but stands for something else in plans: by its text, what makes a kernel
# of it for an architecture.
_makers: dict[str, Callable[[str], Any]] = {}
_statistics = BuildStatistics()


def statistics() -> BuildStatistics:
    return _statistics


def build(source: str, architecture: str) -> DeviceKernel:
    """The kernel of one source text, for an architecture such as "sm_90"."""
    return build_all([source], architecture)[0]


def give_maker(source: str, make: Callable[[str], Any]) -> None:
    """Let `source` stand for what `make(architecture)` returns, a kernel or a call of the host."""
    _makers[source] = make


def build_all(sources: Iterable[str], architecture: str) -> list[Any]:
    """The kernels of several source texts; missing ones are compiled together."""
    sources = list(sources)
    compiled = iter(_build_all([s for s in sources if s not in _makers], architecture))
    return [_makers[s](architecture) if s in _makers else next(compiled) for s in sources]


def _build_all(sources: list[str], architecture: str) -> list[DeviceKernel]:
    requests = [KernelRequest(source, architecture) for source in sources]

    def make(missing: list[KernelRequest]) -> None:
        for request, stored in zip(missing, _stored(missing, architecture), strict=True):
            _kernels[request] = DeviceKernel(request.source, architecture, *_unpacked(stored))

    _claims.make(requests, _kernels, make)
    return [_kernels[request] for request in requests]


def _stored(requests: list[KernelRequest], architecture: str) -> list[bytes]:
    """What the cache has of each, after compiling what it had not."""
    if architecture == SOURCE_ARCHITECTURE:
        return [_packed(request.source.encode(), Usage(0, 0, 0, 0)) for request in requests]
    found = {request: cache.read(request.key) for request in requests}
    missing = [request for request, stored in found.items() if stored is None]
    tasks = [(request.source, request.architecture) for request in missing]
    with compile_log.report() as report, worker_processes.workers_for(tasks) as are_working:
        report.expect([r.key for r in missing], from_cache=len(found) - len(missing))
        for request in missing:
            stored = None
            if are_working and cache.contains(request.key):
                stored = cache.read(request.key)
            found[request] = stored or compile_and_store(request)
            report.compiled += 1
    return [stored for stored in found.values() if stored is not None]


def compile_and_store(request: KernelRequest) -> bytes:
    """Code and figures of a kernel that the disk cache does not have."""

    def work() -> bytes:
        bound = front_end.most_registers(request.source)
        stored = _packed(*link(_ptx(request), request.architecture, bound))
        _statistics.compilations += 1
        cache.write(request.key, stored)
        return stored

    return compiling(request, work)


def kept(
    name: str, architecture: str, make: Callable[[], tuple[bytes, Usage]]
) -> tuple[bytes, Usage]:
    """Code and figures of what `name` says all about: from the disk cache, or made and kept."""
    key = cache.key_in(_identity(), name, architecture)
    stored = cache.read(key)
    if stored is not None:
        return _unpacked(stored)
    code, usage = make()
    cache.write(key, _packed(code, usage))
    return code, usage


def _ptx(request: KernelRequest) -> str:

    def work() -> str:
        return front_end.compile_to_ptx(request.source, request.architecture)

    return compiling(("ptx", request), work)


def _packed(code: bytes, usage: Usage) -> bytes:
    return json.dumps(dataclasses.asdict(usage)).encode() + b"\n" + code


def _unpacked(stored: bytes) -> tuple[bytes, Usage]:
    head, _, code = stored.partition(b"\n")
    return code, Usage(**json.loads(head))


def environment() -> cache.Environment:
    """What a cubin depends on besides its source and architecture; device functions are in it.

    Raises
    ------
    KernelError
        If there is no compiler.
    """
    here = Path(__file__).parent
    names = ("front_end.py", "bfloat16_type.py", "../kernel_language/bfloat16.py", "link.py")
    return {
        "CUDA compiler": front_end.description(front_end.provider()),
        "code generator": cache.text_identity(here / name for name in names),
    }


@functools.cache
def _identity() -> bytes:
    return cache.identity_of(environment())


def _disassembled(cubin: bytes) -> str:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "kernel.cubin"
        path.write_bytes(cubin)
        for program, *options in (("nvdisasm", "-c"), ("cuobjdump", "-sass")):
            found = _utility(program)
            if found is not None:
                run = subprocess.run([found, *options, path], capture_output=True, text=True)
                if run.returncode == 0:
                    return run.stdout
    raise KernelError(
        explain(
            "sass",
            "neither nvdisasm nor cuobjdump was found, or they refuse the code",
            fix="pip install nvidia-cuda-nvdisasm, or the CUDA toolkit; `.ptx` needs neither",
        )
    )


def _utility(program: str) -> str | None:
    """Where a program of the CUDA toolkit is: on the PATH, in a wheel, or in the toolkit."""
    found = shutil.which(program)
    if found is None and importlib.util.find_spec("cuda") is not None:
        with contextlib.suppress(ImportError, ValueError):
            pathfinder = imported("cuda.pathfinder")
            found = pathfinder.find_nvidia_binary_utility(program)
    return found or shutil.which(program, path="/usr/local/cuda/bin")


# Occupancy.


@immutable
class Occupancy:
    """Of one multiprocessor: what it runs at once, and what forbids more."""

    threads: int
    blocks: int
    share: float  # of the threads it could run
    limited_by: str


@immutable
class _Multiprocessor:
    """Limits from the CUDA programming guide, "Compute Capabilities"."""

    threads: int
    blocks: int
    shared_bytes: int
    registers: int = 65536


_MULTIPROCESSORS = {
    (7, 0): _Multiprocessor(2048, 32, 96 << 10),
    (7, 5): _Multiprocessor(1024, 16, 64 << 10),
    (8, 0): _Multiprocessor(2048, 32, 164 << 10),
    (8, 6): _Multiprocessor(1536, 16, 100 << 10),
    (8, 7): _Multiprocessor(1536, 16, 164 << 10),
    (8, 9): _Multiprocessor(1536, 24, 100 << 10),
    (9, 0): _Multiprocessor(2048, 32, 228 << 10),
    (10, 0): _Multiprocessor(2048, 32, 228 << 10),
    (12, 0): _Multiprocessor(1536, 24, 100 << 10),
}
_WARP = 32
_REGISTERS_AT_ONCE = 256  # are given to a warp


def occupancy(usage: Usage, threads: int, architecture: str) -> Occupancy:
    """By the formula of NVIDIA's occupancy calculator (CUDA best practices, "Occupancy").

    Warps get registers in lots of 256, each of the four schedulers from its own quarter of the
    register file; blocks get shared memory, and from compute capability 8.0 on 1 KiB more.
    """
    capability = front_end.capability(architecture)
    limits = _MULTIPROCESSORS.get(capability)
    if limits is None:
        known = ", ".join(f"sm_{major}{minor}" for major, minor in _MULTIPROCESSORS)
        raise KernelError(explain("occupancy", f"no limits of {architecture}", expected=known))
    warps = -(-threads // _WARP)
    per_warp = -(-usage.registers * _WARP // _REGISTERS_AT_ONCE) * _REGISTERS_AT_ONCE
    warps_at_once = limits.registers // 4 // max(1, per_warp) * 4
    system = SYSTEM_SHARED_BYTES if capability >= (8, 0) else 0
    shared = -(-usage.shared_bytes // 128) * 128 + system
    blocks = {
        "threads": limits.threads // (warps * _WARP),
        "blocks": limits.blocks,
        "registers": warps_at_once // warps,
        "shared memory": limits.shared_bytes // max(1, shared),
    }
    reason = min(blocks, key=lambda name: blocks[name])
    running = blocks[reason] * warps * _WARP
    return Occupancy(running, blocks[reason], running / limits.threads, reason)
