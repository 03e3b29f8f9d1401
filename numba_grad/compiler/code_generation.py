"""LLVM text to an object file for this machine, through llvmlite alone.

To import llvmlite takes 20 ms: so this module is imported when something is compiled or loaded.
"""

import functools

import llvmlite.binding as llvm

from numba_grad.errors import InternalError


@functools.cache
def target_description() -> str:
    """What the object code depends on, besides its source: part of every cache key."""
    return f"{llvm.get_process_triple()} {llvm.get_host_cpu_name()} {_features()}"


def _features() -> str:
    """What the CPU has, without its arithmetic of half precision, from Sapphire Rapids on: with it
    LLVM contracts a product rounded to float16 and a sum of float32, and drops the rounding.
    """
    features = llvm.get_host_cpu_features()
    if "avx512fp16" in features:
        features["avx512fp16"] = False
    return features.flatten()


def _initialize() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


@functools.cache
def _target_machine(effort: int = 3) -> llvm.TargetMachine:
    """Position-independent code with near constants: vector code reads them as memory operands.

    The width of vectors is left to what LLVM knows of the CPU. On Zen 4, 512 bits were up to 20 %
    faster than 256 where arithmetic bounds a kernel, and the same elsewhere.
    """
    _initialize()
    return llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=_features(),
        opt=effort,
        reloc="pic",
        codemodel="small",
    )


def module_of(text: str, symbol: str) -> llvm.ModuleRef:
    """The module that exports `symbol`, for this machine."""
    _initialize()
    module = llvm.parse_assembly(text)
    module.name = symbol
    module.triple = llvm.get_process_triple()
    module.data_layout = str(_target_machine().target_data)
    return module


def optimized(module: llvm.ModuleRef, symbol: str) -> llvm.ModuleRef:
    """The module after LLVM's full pipeline, checked to need nothing but the C library."""
    _make_private(module, symbol)
    _optimize(module)
    _check_closed(module, symbol)
    return module


def as_written(module: llvm.ModuleRef, symbol: str) -> llvm.ModuleRef:
    """The module without any pass, checked in the same way."""
    _make_private(module, symbol)
    _check_closed(module, symbol)
    return module


def _make_private(module: llvm.ModuleRef, symbol: str) -> None:
    """Make everything but `symbol` private, so that it is inlined and dropped.

    Numba's names carry a per-process counter. They get names without, or else equal kernels would
    differ between processes in the object's symbol table. Our own names stay: attributes refer to
    them in text.
    """
    for number, value in enumerate([*module.functions, *module.global_variables]):
        name = value.name
        if value.is_function:
            value.add_function_attribute("nounwind")
        if value.is_declaration or name == symbol or name.startswith("llvm."):
            continue
        value.linkage = "internal"
        if not name.startswith("numba_grad."):
            value.name = f"{symbol}.{number}"


def _optimize(module: llvm.ModuleRef) -> None:
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = True
    options.slp_vectorization = True
    builder = llvm.create_pass_builder(_target_machine(), options)
    builder.getModulePassManager().run(module, builder)
    if any(f.name.startswith("numba_grad.") and not f.is_declaration for f in module.functions):
        _inline_vector_forms(module, builder)


def _inline_vector_forms(module: llvm.ModuleRef, builder: llvm.PassBuilder) -> None:
    """Calls of rare cases have vector forms, which only the vectorizer puts in (`kernel_math`).

    Inlined, they leave one test per vector and no call that clobbers registers: sin 10 % faster,
    for 0.8 ms.
    """
    passes = llvm.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    passes.run(module, builder)


def object_code(module: llvm.ModuleRef) -> bytes:
    return _target_machine().emit_object(module)


def quick_object_code(module: llvm.ModuleRef) -> bytes:
    """Instruction by instruction: 0.9 ms for a loop with a product, where optimizing takes 8, and
    its passes take another 4. Products and sums are not contracted."""
    return _target_machine(effort=0).emit_object(module)


def assembly(module: llvm.ModuleRef) -> str:
    return _target_machine().emit_assembly(module)


def _check_closed(module: llvm.ModuleRef, symbol: str) -> None:
    """Python's and Numba's own symbols do not exist in the processes that load the object."""
    for value in [*module.functions, *module.global_variables]:
        name = value.name
        is_foreign = name.startswith(("Py", "_Py", "NRT_", "numba_", "_ZN"))
        if value.is_declaration and is_foreign and not name.startswith("llvm."):
            raise InternalError(f"build: {symbol} needs {name}, which only Numba's run time has")
