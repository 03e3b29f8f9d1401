"""Kernel source to LLVM text, by what Numba knows of scalars: no wrappers, no NRT, no object code.

Private parts of Numba live here and in `kernel_*.py`, and nowhere else; tested with Numba 0.68
and llvmlite 0.50. This module imports Numba, so only code that is about to compile imports it.
"""

# Numba's annotations are few, and wrong where they come from class attributes set at run time.
# pyright: reportAttributeAccessIssue=false, reportIncompatibleMethodOverride=false
# pyright: reportPrivateImportUsage=false

import functools
from collections.abc import Callable, Sequence
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba.core import callconv, cpu, errors, types, typing
from numba.core.codegen import CodeLibrary
from numba.core.compiler_lock import global_compiler_lock
from numba.core.typing import templates
from numba.cpython import (  # importing them is what registers
    builtins,  # noqa: F401
    mathimpl,
    numbers,  # noqa: F401
)

from numba_grad.compiler import code_generation
from numba_grad.compiler.kernel_language import (
    intrinsics,
    mathematics,
    sources,
    syntax_lowering,
    vector_values,
)
from numba_grad.compiler.kernel_language.meanings import Meanings
from numba_grad.errors import KernelError
from numba_grad.graph.collection import without_collection
from numba_grad.immutable import NamedTuple

_TYPES = {"void": types.none, "int64": types.int64, "float64": types.float64}


class _TypingContext(typing.BaseContext):
    """Numba's types of scalars. Kernels have no lists, arrays or strings, and no attributes that
    Numba would have to know: those that it has, `float.view` for one, ask its whole CPU target."""

    def _load_builtins(self) -> None:
        self.install_registry(_BUILTINS)


_BUILTINS = templates.Registry()
_BUILTINS.functions = templates.builtin_registry.functions
_BUILTINS.globals = templates.builtin_registry.globals


class _TargetContext(cpu.CPUContext):
    """Numba's CPU target for scalars. Arrays, and SciPy for their sake, take 0.4 s to load."""

    def load_additional_registries(self) -> None:
        self.install_registry(mathimpl.registry)  # what `//` of floats is made of


class _Nothing(CodeLibrary):
    """Stands where Numba expects a library for the code that a kernel needs besides its own."""

    def add_linking_library(self, library: Any) -> None:
        raise KernelError("build: Numba has this as Python code only, which kernels cannot call")

    # Numba's abstract class asks for these; nothing here calls them.

    def add_ir_module(self, ir_module: ir.Module) -> None:
        raise NotImplementedError

    def finalize(self) -> None:
        raise NotImplementedError

    def get_function(self, name: str) -> Any:
        raise NotImplementedError

    def get_llvm_str(self) -> str:
        raise NotImplementedError

    def get_asm_str(self) -> str:
        raise NotImplementedError


@functools.cache
def _meanings() -> Meanings:
    typing_context = _TypingContext()
    context = _TargetContext(typing_context, "cpu")
    typing_context.refresh()
    context.refresh()
    # Integer division by zero gives 0, and nothing raises.
    error_model = callconv.create_error_model("numpy", context)
    return Meanings(typing_context, context.subtarget(error_model=error_model))


NAMES: dict[str, Any] = (
    intrinsics.NAMESPACE
    | mathematics.NAMESPACE
    | {"abs": mathematics.NAMESPACE["absolute"]}
    | {"inf": float("inf"), "nan": float("nan")}  # have no literal of their own in Python
)


def _parse_signature(text: str) -> tuple[types.Type, tuple[types.Type, ...]]:
    result, _, rest = text.partition("(")
    names = [name.strip() for name in rest.rstrip(")").split(",") if name.strip()]
    return _TYPES[result.strip()], tuple(_TYPES[name] for name in names)


_Write = Callable[[Meanings, ir.Module], None]


class ExportedFunction(NamedTuple):
    """A function of a source text, to be exported under a name."""

    source: str
    entry_name: str
    signature: str
    symbol: str


def module_for(
    source: str, entry_name: str, signature: str, symbol: str
) -> code_generation.Written:
    """The unoptimized LLVM module of one function of `source`, exported as `symbol`."""
    functions = [ExportedFunction(source, entry_name, signature, symbol)]
    plain = plain_module_for(functions, symbol)
    if plain is not None:
        return plain
    read = sources.read(source, entry_name)
    has_vector_forms = read.has_loops and not read.hands_on
    write = _writing(functions)
    return without_collection(
        _module_of, write, symbol, has_vector_forms=has_vector_forms, hands_on=read.hands_on
    )


def module_by(write: _Write, name: str) -> code_generation.Written:
    """The unoptimized LLVM module that `write` writes functions to."""
    return without_collection(_module_of, write, name, has_vector_forms=True)


def is_plain(source: str, entry_name: str) -> bool:
    """Whether all loops of a kernel are written as vector code here, as far as its text says, or it
    has none."""
    return sources.read(source, entry_name).is_plain


forget_sources = sources.forget_sources


def plain_module_for(
    functions: Sequence[ExportedFunction], name: str
) -> code_generation.Written | None:
    """One module of several functions, if all of them are plain."""
    if not all(is_plain(function.source, function.entry_name) for function in functions):
        return None
    try:
        return without_collection(_module_of, _writing(functions), name, is_plain=True)
    except vector_values.NotPlain:  # by its types
        return None


def quick_module_of(functions: Sequence[ExportedFunction], name: str) -> llvm.ModuleRef:
    """One module of several functions, without what only LLVM's passes have a use for."""
    write = _writing(functions)
    try:
        written = without_collection(_module_of, write, name, is_quick=True)
    except vector_values.NotPlain:  # by its types
        written = without_collection(_module_of, write, name, is_quick=True, heeds_marks=False)
    return written.module


def _writing(functions: Sequence[ExportedFunction]) -> _Write:
    def write(meanings: Meanings, module: ir.Module) -> None:
        for function in functions:
            _lower(function, meanings, module)

    return write


def _module_of(
    write: _Write,
    name: str,
    *,
    is_quick: bool = False,
    is_plain: bool = False,
    has_vector_forms: bool = False,
    hands_on: bool = False,
    heeds_marks: bool = True,
) -> code_generation.Written:
    """`has_vector_forms`: rare cases of functions have some, which loops are made of.
    `heeds_marks`: loops of sources that say `in_vectors` are vector code in any case."""
    with global_compiler_lock:
        meanings = _meanings()
        context = meanings.target_context
        module = context.create_module(name)
        module.numba_grad_has_vector_forms = has_vector_forms
        module.numba_grad_writes_vectors = is_plain
        module.numba_grad_heeds_marks = heeds_marks
        module.numba_grad_contracts = not is_quick
        with context.push_code_library(_Nothing(context.codegen(), name)):
            write(meanings, module)
        if not is_quick and not is_plain:
            intrinsics.add_alias_metadata(module)
        is_joined = False
        if not is_quick and not has_vector_forms:
            is_joined = mathematics.join_calls(module)
        written = code_generation.Written(
            code_generation.module_of(str(module), name),
            is_loop_nest=not intrinsics.may_overlap(module),
            stores_neighbours=not is_plain
            and not is_joined
            and intrinsics.stores_neighbours(module, counts=not hands_on),
            hands_on=hands_on,
            is_plain=is_plain,
            has_vector_forms="llvm.compiler.used" in module.globals,
        )
        _let_go(module)
        return written


def _let_go(module: ir.Module) -> None:
    """Of its instructions, at once: they know their blocks, so that the collector had to find them,
    after the whole program, in a tenth of the time that it takes to write them."""
    intrinsics.accesses(module).clear()
    for function in module.functions:
        for block in function.blocks:
            block.instructions.clear()


def _lower(function: ExportedFunction, meanings: Meanings, module: ir.Module) -> None:
    source, entry_name, signature, symbol = function
    return_type, argument_types = _parse_signature(signature)
    try:
        syntax_lowering.lower_function(
            source, entry_name, NAMES, meanings, module, symbol, return_type, argument_types
        )
    except errors.NumbaError as error:
        raise KernelError(f"build: Numba rejects this kernel\n{error}\n\n{source}") from error
