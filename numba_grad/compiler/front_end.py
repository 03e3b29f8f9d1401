"""Kernel source to LLVM text, through Numba's front end alone: no wrappers, no NRT, no object code.

Private parts of Numba live here, in `kernel_language.py`, and nowhere else; tested with Numba 0.68
and llvmlite 0.50. This module imports Numba, so only code that is about to compile imports it.
"""

import linecache
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba.core import cgutils, compiler, errors, funcdesc, types
from numba.core.codegen import CodeLibrary
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import LoweringPass, PassManager, register_pass
from numba.core.cpu_options import FastMathOptions
from numba.core.imputils import lower_builtin
from numba.core.lowering import Lower
from numba.core.registry import cpu_target
from numba.core.typed_passes import IRLegalization, NopythonTypeInference, PreLowerStripPhis
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.core.untyped_passes import FixupArgs, IRProcessing, ReconstructSSA, TranslateByteCode

from numba_grad.compiler import code_generation, kernel_language
from numba_grad.errors import KernelError

_TYPES = {"void": types.none, "int64": types.int64, "float64": types.float64}


@dataclass(slots=True)
class Lowered:
    """One typed function as LLVM text, with what it calls."""

    name: str
    text: str
    descriptor: Any
    libraries: list[Any] = field(default_factory=list)


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
            if state.entry_symbol is not None:
                _add_entry_point(context, module, descriptor, state.entry_symbol)
        kernel_language.add_alias_metadata(module)
        state.cr = Lowered(
            name=descriptor.mangled_name,
            text=cgutils.normalize_ir_text(str(module)),
            descriptor=descriptor,
            libraries=collector.libraries,
        )
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


def _flags(contract: bool) -> compiler.Flags:
    flags = compiler.Flags()
    flags.no_cpython_wrapper = True
    flags.no_cfunc_wrapper = True
    flags.no_compile = True
    flags.nrt = False
    flags.enable_ssa = True
    flags.error_model = "numpy"  # integer division by zero gives 0, and nothing raises
    if contract:
        flags.fastmath = FastMathOptions({"contract"})
    return flags


def _lower(
    function: Callable[..., Any],
    argument_types: tuple[types.Type, ...],
    return_type: types.Type | None,
    *,
    entry_symbol: str | None,
    contract: bool,
) -> Lowered:
    front_end = _FrontEnd(
        cpu_target.typing_context,
        cpu_target.target_context,
        None,
        argument_types,
        return_type,
        _flags(contract),
        {},
    )
    front_end.state.entry_symbol = entry_symbol
    return front_end.compile_extra(function)


# Subroutines: what kernel_math is made of.


class Subroutine:
    """A Python function that kernels may call; lowered once for each tuple of argument types."""

    def __init__(self, function: Callable[..., Any], *, contract: bool, inline: bool) -> None:
        self.function = function
        self.contract = contract
        self.inline = inline
        self.variants: dict[tuple[types.Type, ...], Variant] = {}
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__

    def variant(self, argument_types: tuple[types.Type, ...]) -> "Variant":
        found = self.variants.get(argument_types)
        if found is None:
            found = self.variants[argument_types] = self._lower(argument_types)
        return found

    def _lower(self, argument_types: tuple[types.Type, ...]) -> "Variant":
        lowered = _lower(
            self.function, argument_types, None, entry_symbol=None, contract=self.contract
        )
        module = _linked(lowered.name, [lowered])
        text = code_generation.simplified_text(module, lowered.name, inline=self.inline)
        return Variant(lowered.descriptor, text)


@dataclass(frozen=True, eq=False, slots=True)
class Variant:
    """A subroutine for certain argument types, with all that it calls."""

    descriptor: Any
    text: str


def subroutine(
    function: Callable[..., Any] | None = None, *, contract: bool = True, inline: bool = True
) -> Any:
    """Decorator: make a Python function callable from kernel source and from other subroutines.

    Parameters
    ----------
    function : positional numbers only; the return type follows from those of the arguments.
    contract : whether `a * b + c` may become one fused operation. Turn it off where the rounding of
        the product matters.
    inline : whether callers inline it, as they must for their loops to vectorize.
    """
    if function is None:
        return lambda f: subroutine(f, contract=contract, inline=inline)
    routine = Subroutine(function, contract=contract, inline=inline)

    class Template(AbstractTemplate):
        key = routine

        def generic(self, args: tuple[types.Type, ...], kws: dict[str, types.Type]) -> Any:
            plain = tuple(types.unliteral(t) for t in args)
            return signature(routine.variant(plain).descriptor.restype, *plain)

    infer_global(routine, types.Function(Template))

    @lower_builtin(routine, types.VarArg(types.Any))
    def call(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> ir.Value:
        variant = routine.variant(signature.args)
        context.active_code_library.add_linking_library(variant)
        _, value = context.call_internal_no_propagate(
            builder, variant.descriptor, signature, arguments
        )
        return value

    return routine


def _linked(symbol: str, lowered: list[Lowered]) -> llvm.ModuleRef:
    texts = [part.text for part in lowered]
    modules = []
    for library in (library for part in lowered for library in part.libraries):
        if isinstance(library, Variant):
            texts.append(library.text)
        else:
            # An implementation inside Numba that is itself written in Python.
            modules.append(library._get_module_for_linking())
    return code_generation.link(symbol, texts, modules)


# Entry points.


def _namespace() -> dict[str, Any]:
    names = dict(vars(kernel_language))
    try:
        from numba_grad.compiler import kernel_math
    except ImportError:
        import math

        names.update({name: f for name, f in vars(math).items() if not name.startswith("_")})
    else:
        names.update(kernel_math.NAMESPACE)
    return names


def _parse_signature(text: str) -> tuple[types.Type, tuple[types.Type, ...]]:
    result, _, rest = text.partition("(")
    names = [name.strip() for name in rest.rstrip(")").split(",") if name.strip()]
    return _TYPES[result.strip()], tuple(_TYPES[name] for name in names)


def module_for(source: str, entry_name: str, signature_text: str, symbol: str) -> llvm.ModuleRef:
    """The unoptimized LLVM module of one function of `source`, exported as `symbol`."""
    file_name = f"<numba_grad {symbol}>"
    # Numba's messages quote the line.
    linecache.cache[file_name] = (len(source), None, source.splitlines(keepends=True), file_name)
    return_type, argument_types = _parse_signature(signature_text)
    with global_compiler_lock:
        namespace = _namespace()
        exec(compile(source, file_name, "exec"), namespace)  # noqa: S102
        try:
            lowered = _lower(
                namespace[entry_name],
                argument_types,
                return_type,
                entry_symbol=symbol,
                contract=True,
            )
            return _linked(symbol, [lowered])
        except errors.NumbaError as error:
            raise KernelError(f"build: Numba rejects this kernel\n{error}\n\n{source}") from error
        finally:
            del linecache.cache[file_name]
