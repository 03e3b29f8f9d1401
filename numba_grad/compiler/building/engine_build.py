"""The native engine and native walks, compiled from the texts of `engine_functions.py` and
`walk_functions.py` and cached as any kernel."""

import enum
import functools
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numba_grad.compiler.building import compile_log
from numba_grad.compiler.building.build import (
    KernelRequest,
    LoadedKernel,
    build_requests,
    is_compiled,
)
from numba_grad.fresh_thread import imported
from numba_grad.graph import walk
from numba_grad.runtime import loader
from numba_grad.runtime.native_engine import (
    CLOCK_MONOTONIC,
    OBJECT_HEAD,
    RUNS_BETWEEN_LOOKS,
    EntryPoints,
    NativeEngine,
    RecordWord,
    Status,
)
from numba_grad.runtime.plan import Control, LeaveWord, LoopWord, MoveWord
from numba_grad.runtime.threads import PoolWord, SharedWord

if TYPE_CHECKING:
    from numba_grad.graph.native_walks import NativeWalks, WalkWord

_CONSTANTS = {
    "OBJECT_HEAD": OBJECT_HEAD,
    "CLOCK_MONOTONIC": CLOCK_MONOTONIC,
    "RUNS_BETWEEN_LOOKS": RUNS_BETWEEN_LOOKS,
}
_ENUMERATIONS = (Control, LoopWord, MoveWord, LeaveWord, RecordWord, Status, PoolWord, SharedWord)
_BEGINNING = "# From here on it is kernel language.\n"


def _source(
    module: str, constants: dict[str, int], enumerations: Sequence[type[enum.IntEnum]]
) -> str:
    """The text of a module here, with what it imports from Python as numbers."""
    lines = [f"{name} = {value}\n" for name, value in constants.items()]
    for words in enumerations:
        lines.append(f"class {words.__name__}:\n")
        lines += [f"    {word.name} = {word.value}\n" for word in words]
    text = Path(__file__).with_name(f"{module}.py").read_text(encoding="utf-8")
    return "".join(lines) + text.partition(_BEGINNING)[2]


@functools.cache
def engine_requests() -> tuple[KernelRequest, KernelRequest, KernelRequest]:
    """What the engine is compiled from, in the order of `EntryPoints`."""
    source = _source("engine_functions", _CONSTANTS, _ENUMERATIONS)
    return (
        KernelRequest(source, "replay", "int64(int64, int64, int64)"),
        KernelRequest(source, "worker", "int64(int64)"),
        KernelRequest(source, "run_tasks", "int64(int64, int64, int64, int64, int64)"),
    )


@functools.cache
def native_engine() -> NativeEngine:
    """The engine of this process."""
    with compile_log.report():
        functions = build_requests(engine_requests())
    engine = NativeEngine(EntryPoints(*[function.address for function in functions]))
    loader.give_symbol(loader.SHARED_WORDS, engine.shared)
    return engine


@functools.cache
def walk_requests() -> tuple[KernelRequest, KernelRequest, KernelRequest]:
    """What walks of long graphs are compiled from, in the order of `NativeWalks`."""
    words = _walks_module()
    enumerations = (words.WalkWord, words.WalkStatus)
    source = _source("walk_functions", {"OBJECT_HEAD": OBJECT_HEAD}, enumerations)
    # They wait for memory: LLVM's passes would save a tenth of a walk, and take the first program
    # on a machine 0.1 s.
    return (
        KernelRequest(source, "walk", "int64(int64)", is_quick=True),
        KernelRequest(source, "survey", "int64(int64)", is_quick=True),
        KernelRequest(source, "release", "int64(int64)", is_quick=True),
    )


def _walks_module() -> Any:
    # Most processes walk no long graph.
    return imported("numba_grad.graph.native_walks")


@functools.cache
def _layout() -> "dict[WalkWord, int] | None":
    return _walks_module().layout()


_walks: "list[NativeWalks]" = []


def native_walks() -> "NativeWalks | None":
    """Those of this process; None where they are not compiled yet, which is left to a program that
    compiles anyway, or cannot be."""
    known = _layout()
    if not _walks and known is not None and all(map(is_compiled, walk_requests())):
        with compile_log.report():
            functions = build_requests(walk_requests())
        addresses = [function.address for function in functions]
        _walks.append(_walks_module().NativeWalks(*addresses, known))
    return _walks[0] if _walks else None


walk.native_walks = native_walks


def build_kernels(requests: Iterable[KernelRequest]) -> list[LoadedKernel]:
    """The kernels of a program. Those of the first one on a machine beside the engine that will run
    it: that takes LLVM longer than most programs, and there is another thread.

    What is on disk is left there: other threads would wait for it as long as for the kernels.
    """
    own = engine_requests() if _layout() is None else (*engine_requests(), *walk_requests())
    engine = [function for function in own if not is_compiled(function)]
    return build_requests([*engine, *requests])[len(engine) :]
