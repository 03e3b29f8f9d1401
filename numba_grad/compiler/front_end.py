"""Kernel source to LLVM text, through Numba's front end alone: no wrappers, no NRT, no object code.

Private parts of Numba live here and in `kernel_*.py`, and nowhere else; tested with Numba 0.68
and llvmlite 0.50. This module imports Numba, so only code that is about to compile imports it.
"""

# Numba's annotations are few, and wrong where they come from class attributes set at run time.
# pyright: reportAttributeAccessIssue=false, reportIncompatibleMethodOverride=false
# pyright: reportPrivateImportUsage=false

import functools
import linecache
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba.core import (
    cgutils,
    compiler,
    cpu,
    descriptors,
    dispatcher,
    errors,
    fastmathpass,
    funcdesc,
    optional,  # noqa: F401
    target_extension,
    types,
    typing,
)
from numba.core.codegen import CodeLibrary
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import LoweringPass, PassManager, register_pass
from numba.core.cpu_options import FastMathOptions
from numba.core.lowering import Lower
from numba.core.typed_passes import IRLegalization, NopythonTypeInference, PreLowerStripPhis
from numba.core.typing import cmathdecl, mathdecl
from numba.core.untyped_passes import FixupArgs, IRProcessing, ReconstructSSA, TranslateByteCode
from numba.cpython import (  # importing some of them is what registers
    builtins,  # noqa: F401
    cmathimpl,
    mathimpl,
    numbers,  # noqa: F401
    rangeobj,  # noqa: F401
    tupleobj,  # noqa: F401
)

from numba_grad.compiler import code_generation, kernel_language, kernel_math, kernel_registry
from numba_grad.errors import KernelError

_TARGET = "numba_grad"
_TYPES = {"void": types.none, "int64": types.int64, "float64": types.float64}


class _TypingContext(typing.Context):
    """Numba's types of scalars. Kernels have no lists, arrays or strings."""

    def __init__(self) -> None:
        super().__init__()
        self._signatures: dict[tuple[Any, tuple[types.Type, ...]], Any] = {}

    def resolve_function_type(self, func: Any, args: Any, kws: Any) -> Any:
        """What calling `func` on arguments of these types gives, looked up once.

        Numba searches its overloads for each `a * b` of a kernel anew: a quarter of its time.
        """
        if kws:
            return super().resolve_function_type(func, args, kws)
        key = (func, tuple(args))
        found = self._signatures.get(key)
        if found is None:
            found = super().resolve_function_type(func, args, kws)
            if found is not None:
                self._signatures[key] = found
        return found

    def load_additional_registries(self) -> None:
        self.install_registry(kernel_registry.TYPING)
        self.install_registry(mathdecl.registry)
        self.install_registry(cmathdecl.registry)


class _TargetContext(cpu.CPUContext):
    """Numba's CPU target for scalars. Arrays, and SciPy for their sake, take 0.4 s to load."""

    def __init__(self, typing_context: _TypingContext, target: str) -> None:
        super().__init__(typing_context, target)
        self.data_model_manager = kernel_registry.MODELS

    def load_additional_registries(self) -> None:
        self.install_registry(kernel_registry.LOWERING)
        self.install_registry(mathimpl.registry)
        self.install_registry(cmathimpl.registry)

    def post_lowering(self, module: ir.Module, library: Any) -> None:
        """Allow contraction; no run time to link, as kernels allocate nothing."""
        fastmathpass.rewrite_module(module, FastMathOptions({"contract"}))


class _KernelTarget(target_extension.CPU):
    """A target of its own, or else Numba registers intrinsics with its full CPU target."""


class _TargetDescription(descriptors.TargetDescriptor):
    options = cpu.CPUTargetOptions

    @functools.cached_property
    def typing_context(self) -> _TypingContext:
        return _TypingContext()

    @functools.cached_property
    def target_context(self) -> _TargetContext:
        return _TargetContext(self.typing_context, self._target_name)


class _Dispatcher(dispatcher.Dispatcher):
    """Compiles what Numba itself writes in Python, such as `abs`, for calls from kernels."""

    targetdescr = _TargetDescription(_TARGET)


def _jit(**options: Any) -> Callable[[Callable[..., Any]], _Dispatcher]:
    return lambda function: _Dispatcher(function, targetoptions=options | {"nopython": True})


target_extension.target_registry[_TARGET] = _KernelTarget
target_extension.dispatcher_registry[_KernelTarget] = _Dispatcher
target_extension.jit_registry[_KernelTarget] = _jit


@dataclass(frozen=True, slots=True)
class _Lowered:
    """One typed function as LLVM text, and the libraries of what it calls inside Numba."""

    text: str
    libraries: list[Any]


class _Collector(CodeLibrary):
    """Takes the place of Numba's code library: keeps modules, and compiles nothing."""

    def __init__(self, codegen: Any, name: str) -> None:
        super().__init__(codegen, name)
        self.modules: list[ir.Module] = []
        self.libraries: list[Any] = []

    def add_ir_module(self, ir_module: ir.Module) -> None:
        self.modules.append(ir_module)

    def add_linking_library(self, library: Any) -> None:
        if library not in self.libraries:
            self.libraries.append(library)

    # Numba's abstract class asks for these; nothing here calls them.

    def finalize(self) -> None:
        raise NotImplementedError

    def get_function(self, name: str) -> Any:
        raise NotImplementedError

    def get_llvm_str(self) -> str:
        raise NotImplementedError

    def get_asm_str(self) -> str:
        raise NotImplementedError


@register_pass(mutates_CFG=True, analysis_only=False)
class _LowerToText(LoweringPass):
    """Typed Numba IR to an LLVM module."""

    _name = "numba_grad_lower_to_text"

    def __init__(self) -> None:
        LoweringPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        context = state.targetctx
        descriptor = funcdesc.PythonFunctionDescriptor.from_specialized_function(
            state.func_ir,
            state.typemap,
            state.return_type,
            state.calltypes,
            mangler=context.mangler,
            inline=False,
            noalias=False,
            abi_tags=(),
        )
        collector = _Collector(context.codegen(), descriptor.mangled_name)
        with context.push_code_library(collector):
            lower = Lower(context, collector, descriptor, state.func_ir, metadata=state.metadata)
            lower.lower()
            [module] = collector.modules
            _add_entry_point(context, module, descriptor, state.entry_symbol)
        kernel_language.add_alias_metadata(module)
        state.cr = _Lowered(cgutils.normalize_ir_text(str(module)), collector.libraries)
        return True


def _add_entry_point(context: Any, module: ir.Module, descriptor: Any, symbol: str) -> None:
    """A plain C function around Numba's, whose own convention returns a status."""
    is_void = descriptor.restype == types.none
    argument_types = [context.get_value_type(t) for t in descriptor.argtypes]
    result = ir.VoidType() if is_void else context.get_value_type(descriptor.restype)
    entry = ir.Function(module, ir.FunctionType(result, argument_types), symbol)
    builder = ir.IRBuilder(entry.append_basic_block("entry"))
    inner = module.globals[descriptor.mangled_name]
    _, value = context.call_conv.call_function(
        builder, inner, descriptor.restype, descriptor.argtypes, entry.args
    )
    if is_void:
        builder.ret_void()
    else:
        builder.ret(value)


class _FrontEnd(compiler.CompilerBase):
    """The passes that kernels need; Numba's own list has twenty more."""

    def define_pipelines(self) -> list[PassManager]:
        passes = PassManager("numba_grad")
        passes.add_pass(TranslateByteCode, "bytecode to Numba IR")
        passes.add_pass(FixupArgs, "arguments")
        passes.add_pass(IRProcessing, "processing")
        passes.add_pass(ReconstructSSA, "static single assignment")
        passes.add_pass(NopythonTypeInference, "types")
        passes.add_pass(PreLowerStripPhis, "remove phis")
        passes.add_pass(IRLegalization, "legality")
        passes.add_pass(_LowerToText, "Numba IR to LLVM")
        passes.finalize()
        return [passes]


def _flags() -> compiler.Flags:
    flags = compiler.Flags()
    flags.no_cpython_wrapper = True
    flags.no_cfunc_wrapper = True
    flags.no_compile = True
    flags.nrt = False
    flags.enable_ssa = True
    flags.error_model = "numpy"  # integer division by zero gives 0, and nothing raises
    return flags


def _lower(function: Callable[..., Any], signature: str, symbol: str) -> _Lowered:
    return_type, argument_types = _parse_signature(signature)
    front_end = _FrontEnd(
        _Dispatcher.targetdescr.typing_context,
        _Dispatcher.targetdescr.target_context,
        None,
        argument_types,
        return_type,
        _flags(),
        {},
    )
    front_end.state.entry_symbol = symbol
    return front_end.compile_extra(function)


def _parse_signature(text: str) -> tuple[types.Type, tuple[types.Type, ...]]:
    result, _, rest = text.partition("(")
    names = [name.strip() for name in rest.rstrip(")").split(",") if name.strip()]
    return _TYPES[result.strip()], tuple(_TYPES[name] for name in names)


CONSTANTS = {"inf": float("inf"), "nan": float("nan")}  # have no literal of their own in Python


def module_for(source: str, entry_name: str, signature: str, symbol: str) -> llvm.ModuleRef:
    """The unoptimized LLVM module of one function of `source`, exported as `symbol`."""
    file_name = f"<numba_grad {symbol}>"
    # Numba's messages quote the line.
    linecache.cache[file_name] = (len(source), None, source.splitlines(keepends=True), file_name)
    with global_compiler_lock, target_extension.target_override(_TARGET):
        namespace: dict[str, Any] = kernel_language.NAMESPACE | kernel_math.NAMESPACE | CONSTANTS
        exec(compile(source, file_name, "exec"), namespace)
        try:
            lowered = _lower(namespace[entry_name], signature, symbol)
            # What is inside Numba and itself written in Python, such as the power of integers.
            modules = [library._get_module_for_linking() for library in lowered.libraries]
            return code_generation.link(symbol, lowered.text, modules)
        except (errors.NumbaError, NotImplementedError) as error:
            raise KernelError(f"build: Numba rejects this kernel\n{error}\n\n{source}") from error
        finally:
            del linecache.cache[file_name]
