"""LLVM text to an object file for this machine, through llvmlite alone.

To import llvmlite takes 20 ms: so this module is imported when something is compiled or loaded.

llvmlite takes one lock for every call of LLVM. What takes time goes without it here, so that
threads compile at once: LLVM wants a context for each module, and a target machine for each thread.
"""

import contextlib
import ctypes
import functools
from collections.abc import Callable, Collection, Iterator
from typing import Any

import llvmlite.binding as llvm

from numba_grad.errors import InternalError
from numba_grad.immutable import NamedTuple
from numba_grad.locks import new_lock


@functools.cache
def has_fma() -> bool:
    """Whether this machine has x * y + z with one rounding as an instruction."""
    # The key exists on x86 only; every other target Numba supports has it.
    return llvm.get_host_cpu_features().get("fma", True)


@functools.cache
def vector_bytes() -> int:
    """How long vectors are."""
    features = llvm.get_host_cpu_features()
    if features.get("avx512f", False):
        return 64
    return 32 if features.get("avx", False) else 16


@functools.cache
def has_masks() -> bool:
    """Whether loads and stores may leave elements of a vector out, at no cost."""
    return llvm.get_host_cpu_features().get("avx512vl", False)


@functools.cache
def target_description() -> str:
    """What the object code depends on, besides its source: part of every cache key."""
    return f"{llvm.get_process_triple()} {llvm.get_host_cpu_name()} {_features()}"


def _features() -> str:
    """What the CPU has, but for two things.

    - Its arithmetic of half precision, from Sapphire Rapids on: with it LLVM contracts a product
      rounded to float16 and a sum of float32, and drops the rounding.
    - Instructions that gather and scatter, which LLVM's costs take for quick. On Ice Lake, as
      microcode has it since 2023 (Intel-SA-00828), the adjoint of an N-body step with gathers takes
      twice the time of one that loads its numbers one by one.
    """
    features = llvm.get_host_cpu_features()
    if "avx512fp16" in features:
        features["avx512fp16"] = False
    known = features.flatten()
    if llvm.get_process_triple().startswith("x86_64"):
        known += ",+prefer-no-gather,+prefer-no-scatter"
    return known


def _initialize() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


_idle_machines: dict[int, list[llvm.TargetMachine]] = {0: [], 3: []}  # by effort


@contextlib.contextmanager
def _target_machine(effort: int = 3) -> Iterator[llvm.TargetMachine]:
    """Position-independent code with near constants: vector code reads them as memory operands.

    The width of vectors is left to what LLVM knows of the CPU. On Zen 4, 512 bits were up to 20 %
    faster than 256 where arithmetic bounds a kernel, and the same elsewhere.
    """
    idle = _idle_machines[effort]
    try:
        machine = idle.pop()
    except IndexError:  # other threads have them all
        machine = _new_target_machine(effort)
    try:
        yield machine
    finally:
        idle.append(machine)


def _new_target_machine(effort: int) -> llvm.TargetMachine:
    _initialize()
    return llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=_features(),
        opt=effort,
        reloc="pic",
        codemodel="small",
    )


@functools.cache
def _data_layout() -> str:
    with _target_machine() as machine:
        return str(machine.target_data)


def _without_lock(name: str) -> Callable[..., Any]:
    """A function of llvmlite's library as it is."""
    return getattr(llvm.ffi.lib, name)._cfn


class Written(NamedTuple):
    """A module before LLVM's passes."""

    module: llvm.ModuleRef
    # Whether all memory is in buffers that do not overlap: a loop nest of ours. Then LLVM's first
    # level makes the same code as the third, but for loops around loops, which that has twice.
    is_loop_nest: bool = False
    # Whether straight-line code may be worth vectors: to look for them takes a tenth of the time.
    stores_neighbours: bool = True
    # Whether its loops are vector code already (`vector_loops.py`), or it has none: then only
    # variables that are in memory, such as sums, are left to do.
    is_plain: bool = False
    # Whether calls of rare cases have forms for vectors: where there are loops (`mathematics.py`).
    has_vector_forms: bool = False
    # Whether each pass of its loops needs what the one before has left in variables.
    hands_on: bool = False


def module_of(text: str, symbol: str) -> llvm.ModuleRef:
    """The module that exports `symbol`, for this machine, in a context of its own."""
    _initialize()
    module = llvm.parse_assembly(text, llvm.create_context())
    module.name = symbol
    module.triple = llvm.get_process_triple()
    module.data_layout = _data_layout()
    return module


def optimized(written: Written, *symbols: str) -> llvm.ModuleRef:
    """The module after LLVM's pipeline, which exports `symbols`, checked to need nothing but the C
    library."""
    module = written.module
    _export(module, symbols)
    _optimize(written)
    _check_closed(module)
    return module


def as_written(module: llvm.ModuleRef, symbols: Collection[str]) -> llvm.ModuleRef:
    """The module, which exports `symbols`, without any pass; checked in the same way."""
    _export(module, symbols)
    _check_closed(module)
    return module


def _export(module: llvm.ModuleRef, symbols: Collection[str]) -> None:
    """Several weakly, as another object that is loaded with this one may have some of them, too."""
    _make_private(module, symbols)
    if len(symbols) > 1:
        for symbol in symbols:
            module.get_function(symbol).linkage = "weak_odr"


def _make_private(module: llvm.ModuleRef, symbols: Collection[str]) -> None:
    """Make everything but `symbols` private, so that it is inlined and dropped.

    Numba's names carry a per-process counter. They get names without, or else equal kernels would
    differ between processes in the object's symbol table. Our own names stay: attributes refer to
    them in text.
    """
    for number, value in enumerate([*module.functions, *module.global_variables]):
        name = value.name
        if value.is_function:
            value.add_function_attribute("nounwind")
        if value.is_declaration or name in symbols or name.startswith("llvm."):
            continue
        value.linkage = "internal"
        if not name.startswith("numba_grad."):
            value.name = f"{module.name}.{number}"


def _optimize(written: Written) -> None:
    module = written.module
    options = llvm.create_pipeline_tuning_options(speed_level=1 if written.is_loop_nest else 3)
    options.loop_vectorization = True
    options.slp_vectorization = written.stores_neighbours
    run = _without_lock("LLVMPY_RunNewModulePassManager")
    with _target_machine() as machine:
        builder = llvm.create_pass_builder(machine, options)
        # What hands numbers on is no vector code, and its walk leaves little else to do: a step of
        # some equations takes 3 ms, not 10 to 20, and runs as fast.
        if written.is_plain or (
            written.hands_on and written.is_loop_nest and not written.stores_neighbours
        ):
            run(_variables_in_registers(), module, builder)
            return
        run(builder.getModulePassManager(), module, builder)
        if written.has_vector_forms:
            run(_inlining_of_vector_forms(), module, builder)


def _variables_in_registers() -> llvm.ModulePassManager:
    passes = llvm.create_new_module_pass_manager()
    passes.add_always_inliner_pass()  # functions of one instruction
    passes.add_sroa_pass()
    return passes


def _inlining_of_vector_forms() -> llvm.ModulePassManager:
    """Calls of rare cases have vector forms, which only the vectorizer puts in (`kernel_math`).

    Inlined, they leave one test per vector and no call that clobbers registers: sin 10 % faster,
    for 0.8 ms.
    """
    passes = llvm.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    return passes


def object_code(module: llvm.ModuleRef) -> bytes:
    return _emitted(module, effort=3, is_object=True)


def quick_object_code(module: llvm.ModuleRef) -> bytes:
    """Instruction by instruction: 0.9 ms for a loop with a product, where optimizing takes 8, and
    its passes take another 4. Products and sums are not contracted."""
    return _emitted(module, effort=0, is_object=True)


def assembly(module: llvm.ModuleRef) -> str:
    return _emitted(module, effort=3, is_object=False).decode()


_switching = new_lock()
_emitting = 0  # threads that LLVM emits code for


@contextlib.contextmanager
def _without_strength_reduction() -> Iterator[None]:
    """LLVM's Loop Strength Reduction off, as long as a thread is in here.

    It takes half of the time of code generation, and is made for processors that cannot add a
    pointer and an index in a load: without it kernels are as fast, or faster. Its switch is one of
    the whole process, so what the user compiles finds it as it was.
    """
    global _emitting
    with _switching:
        _emitting += 1
        if _emitting == 1:
            llvm.set_option("numba_grad", "-disable-lsr=true")
    try:
        yield
    finally:
        with _switching:
            _emitting -= 1
            if _emitting == 0:
                llvm.set_option("numba_grad", "-disable-lsr=false")


def _emitted(module: llvm.ModuleRef, effort: int, *, is_object: bool) -> bytes:
    library = llvm.ffi.lib
    emit = _without_lock("LLVMPY_TargetMachineEmitToMemory")
    with (
        _target_machine(effort) as machine,
        _without_strength_reduction(),
        llvm.ffi.OutputString() as error,
    ):
        buffer = emit(machine, module, int(is_object), error)
        if not buffer:
            raise InternalError(f"build: LLVM emits no code for {module.name}: {error}")
    try:
        start, size = library.LLVMPY_GetBufferStart(buffer), library.LLVMPY_GetBufferSize(buffer)
        return ctypes.string_at(start, size)
    finally:
        library.LLVMPY_DisposeMemoryBuffer(buffer)


def _check_closed(module: llvm.ModuleRef) -> None:
    """Python's and Numba's own symbols do not exist in the processes that load the object."""
    for value in [*module.functions, *module.global_variables]:
        name = value.name
        is_foreign = name.startswith(("Py", "_Py", "NRT_", "numba_", "_ZN"))
        if value.is_declaration and is_foreign and not name.startswith("llvm."):
            raise InternalError(
                f"build: {module.name} needs {name}, which only Numba's run time has"
            )
