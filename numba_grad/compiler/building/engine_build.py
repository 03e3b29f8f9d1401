"""The native engine, compiled from the text of `engine_functions.py` and cached as any kernel."""

import functools
from collections.abc import Iterable

from numba_grad.compiler.building import compile_log
from numba_grad.compiler.building.build import (
    KernelRequest,
    LoadedKernel,
    build_requests,
    is_compiled,
)
from numba_grad.compiler.building.walk_build import text_of_module, walk_requests
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

_CONSTANTS = {
    "OBJECT_HEAD": OBJECT_HEAD,
    "CLOCK_MONOTONIC": CLOCK_MONOTONIC,
    "RUNS_BETWEEN_LOOKS": RUNS_BETWEEN_LOOKS,
}
_WORDS = (Control, LoopWord, MoveWord, LeaveWord, RecordWord, Status, PoolWord, SharedWord)


@functools.cache
def engine_requests() -> tuple[KernelRequest, KernelRequest, KernelRequest]:
    """What the engine is compiled from, in the order of `EntryPoints`."""
    source = text_of_module("engine_functions", _CONSTANTS, _WORDS)
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


def build_kernels(requests: Iterable[KernelRequest]) -> list[LoadedKernel]:
    """The kernels of a program. Those of the first one on a machine beside the engine that will run
    it, and native walks: that takes LLVM longer than most programs, and there is another thread.

    What is on disk is left there: other threads would wait for it as long as for the kernels.
    """
    engine = [function for function in engine_requests() if not is_compiled(function)]
    if engine:
        engine += [function for function in walk_requests() if not is_compiled(function)]
    return build_requests([*engine, *requests])[len(engine) :]
