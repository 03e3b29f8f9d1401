"""Kernel source to PTX, by whichever compiler of CUDA Python is installed.

Kernel source is the text of some device functions and of one `kernel` with its signature in the
decorator; nothing else. The decorators are read here, not run: a kernel that compiles as its
decorator runs wants a driver, which PTX alone does not need.
"""

import ast
import builtins
import contextlib
import functools
import hashlib
import importlib
import importlib.metadata
import importlib.util
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from numba_grad.compiler.cuda.bfloat16_type import bfloat16_type
from numba_grad.errors import KernelError, explain
from numba_grad.fresh_thread import unbroken
from numba_grad.immutable import immutable
from numba_grad.locks import LocksByKey, new_lock
from numba_grad.syntax_trees import syntax_tree

SCALARS = (
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
)
VARIABLE = "NUMBA_GRAD_CUDA_COMPILER"
# Of CUDA's device runtime: `void(uint64 handle, uint32 value)`. NVIDIA's linker knows it.
SET_CONDITIONAL = "cudaGraphSetConditional"

Namespace = dict[str, Any]


@dataclass(slots=True)
class Toolchain:
    """A compiler, imported: names for kernel source, and two things to do with functions."""

    namespace: Namespace
    device_function: Callable[[Callable], Any]  # makes one callable from other functions
    # of a kernel, with its signature: text or types
    ptx: Callable[..., str]
    array_type: Callable[[str, int, bool], Any]  # dtype, dimensions, whether it is read-only
    # Device functions by architecture, their text and that of all they call: the compiler keeps
    # what it made of one, so that the kernels of a process share it.
    functions: dict[str, Any] = field(default_factory=dict)


@immutable
class Provider:
    """One way to compile CUDA Python."""

    name: str  # as the environment variable has it
    module: str  # whether it is installed is whether this can be found
    distribution: str  # its name on PyPI
    load: Callable[[], Toolchain]


# numba-cuda.


def _load_numba_cuda() -> Toolchain:
    # What its .pth file does, which Python does not run in every place packages can be in.
    importlib.import_module("_numba_cuda_redirector")
    from numba import cuda

    if "numba_cuda" not in (cuda.__file__ or ""):
        raise KernelError(
            explain(
                "cuda",
                "Numba's own CUDA target was imported before numba-cuda could take its place",
                fix=f"{VARIABLE}=numba, or no `import numba.cuda` before numba_grad's kernels",
            )
        )
    _import_with_numpy_of_old("numba.cuda.np.arrayobj")
    from numba.cuda import extending, libdevice, models, types

    # A call would pass its result through memory, which is slow at any length of the function.
    return _numba_toolchain(cuda, libdevice, types, extending, models, forceinline=True)


def _import_with_numpy_of_old(name: str) -> None:
    """numba-cuda 0.30, its last feature release, asks NumPy for `row_stack`, gone with 2.5.

    NumPy is everybody's: only the module that asks is given one that has it, while it is imported.
    """
    if "row_stack" in vars(np) or name in sys.modules:
        return
    numpy_of_old = ModuleType("numpy")
    vars(numpy_of_old).update(row_stack=np.vstack, __getattr__=functools.partial(getattr, np))

    def import_(module: str, *arguments: Any) -> ModuleType:
        return numpy_of_old if module == "numpy" else builtins.__import__(module, *arguments)

    spec = importlib.util.find_spec(name)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    vars(module)["__builtins__"] = vars(builtins) | {"__import__": import_}
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    vars(module)["np"] = np
    parent, _, own_name = name.rpartition(".")
    setattr(sys.modules[parent], own_name, module)


# Numba's own target, which numba-cuda replaced: for machines that have nothing else.


def _load_numba() -> Toolchain:
    from numba import cuda, extending, types
    from numba.cuda import libdevice, models

    if "numba_cuda" in (cuda.__file__ or ""):
        raise KernelError(
            explain(
                "cuda",
                f"{VARIABLE}=numba, but numba-cuda is installed and takes the place of Numba's own",
                fix=f"{VARIABLE}=numba-cuda, or pip uninstall numba-cuda",
            )
        )
    return _numba_toolchain(cuda, libdevice, types, extending, models)


def _numba_toolchain(
    cuda: Any, libdevice: Any, types: Any, extending: Any, models: Any, **options: Any
) -> Toolchain:
    bfloat16 = bfloat16_type(types, extending, models)
    namespace: Namespace = {
        "cuda": cuda,
        "libdevice": libdevice,
        "compare_and_swap": _numba_compare_and_swap(types, extending.intrinsic),
        "atomic_add": _numba_atomic_add(types, extending.intrinsic),
        "set_conditional": _numba_set_conditional(types, extending.intrinsic),
        **{name: getattr(types, name) for name in SCALARS},
        "bfloat16": bfloat16,
    }
    names_in_signatures = {**vars(types), "bfloat16": bfloat16}

    def device_function(function: Callable) -> Any:
        return cuda.jit(device=True, **options)(function)

    def ptx(
        function: Callable, signature: Any, capability: tuple[int, int], *, fastmath: bool = False
    ) -> str:
        if isinstance(signature, str):
            signature = eval(signature, names_in_signatures)
        with _device_of(capability):
            return cuda.compile_ptx(function, signature, cc=capability, fastmath=fastmath)[0]

    return Toolchain(namespace, device_function, ptx, _array_type_of(types))


def _array_type_of(types: Any) -> Callable[[str, int, bool], Any]:
    def array_type(dtype: str, rank: int, is_read_only: bool) -> Any:
        element = types.boolean if dtype == "bool" else getattr(types, dtype)
        return types.Array(element, rank, "C", readonly=is_read_only)

    return array_type


@contextlib.contextmanager
def _device_of(capability: tuple[int, int]) -> Iterator[None]:
    """A device function is compiled for the device that Numba finds: let it find this one.

    It would start the driver otherwise, which is absent where kernels are compiled for elsewhere.
    Other threads find the device that they have.
    """
    dispatcher: Any = importlib.import_module("numba.cuda.dispatcher")
    own_thread = threading.get_ident()

    def device() -> Any:
        if threading.get_ident() == own_thread:
            return SimpleNamespace(compute_capability=capability)
        return found()

    with _compiling:
        found = dispatcher.get_current_device
        dispatcher.get_current_device = device
        try:
            yield
        finally:
            dispatcher.get_current_device = found


def _numba_compare_and_swap(types: Any, intrinsic: Any) -> Any:
    """Numba has atomics of arrays only, and kernels have pointers."""

    @intrinsic
    def compare_and_swap(typing_context, pointer, expected, desired):
        def lower(context, builder, signature, arguments):
            swap = builder.cmpxchg(*arguments, "monotonic", "monotonic")
            return builder.extract_value(swap, 0)

        return types.int64(pointer, types.int64, types.int64), lower

    return compare_and_swap


def _numba_atomic_add(types: Any, intrinsic: Any) -> Any:
    """Adds to an element of memory. For integers, and for what NVVM has functions for."""
    declared = importlib.import_module("numba.cuda.nvvmutils")

    @intrinsic
    def atomic_add(typing_context, pointer, index, value):
        element = pointer.dtype

        def lower(context, builder, signature, arguments):
            start, number, addend = arguments
            place = builder.gep(start, [number])
            if element == types.float32:
                function = declared.declare_atomic_add_float32(builder.module)
                return builder.call(function, (place, addend))
            if element == types.float64:
                function = declared.declare_atomic_add_float64(builder.module)
                return builder.call(function, (place, addend))
            return builder.atomic_rmw("add", place, addend, "monotonic")

        return element(pointer, types.int64, element), lower

    return atomic_add


def _numba_set_conditional(types: Any, intrinsic: Any) -> Any:
    """Sets the condition of a node of a graph, by its handle."""

    @intrinsic
    def set_conditional(typing_context, handle, value):
        def lower(context, builder, signature, arguments):
            words = [context.get_value_type(kind) for kind in signature.args]
            ir = importlib.import_module("llvmlite.ir")
            kind = ir.FunctionType(ir.VoidType(), words)
            found = builder.module.globals.get(SET_CONDITIONAL)
            builder.call(found or ir.Function(builder.module, kind, SET_CONDITIONAL), arguments)
            return context.get_dummy_value()

        return types.void(types.uint64, types.uint32), lower

    return set_conditional


# numba-cuda-mlir, the successor of numba-cuda. Needs no Numba.


def _load_mlir() -> Toolchain:
    # Names of a package that this one does not depend on.
    cuda: Any = importlib.import_module("numba_cuda_mlir.cuda")
    tools: Any = importlib.import_module("numba_cuda_mlir.tools")
    types: Any = importlib.import_module("numba_cuda_mlir.types")

    def compare_and_swap(pointer, expected, desired):
        return cuda.atomic.compare_and_swap(
            cuda.carray(pointer, (1,), types.int64), expected, desired
        )

    def atomic_add(pointer, index, value):
        return cuda.atomic.add(cuda.carray(pointer, (index + 1,)), index, value)

    namespace: Namespace = {
        "cuda": cuda,
        "libdevice": cuda.libdevice,
        "compare_and_swap": cuda.jit(device=True)(compare_and_swap),
        "atomic_add": cuda.jit(device=True)(atomic_add),
        "set_conditional": cuda.declare_device(SET_CONDITIONAL, "void(uint64, uint32)", abi="c"),
        **{name: getattr(types, name) for name in SCALARS},
    }

    def device_function(function: Callable) -> Any:
        return cuda.jit(device=True)(function)

    def ptx(
        function: Callable, signature: Any, capability: tuple[int, int], fastmath: bool = False
    ) -> str:
        # It asks the driver for a device whatever the target is, unless it did already.
        with _compiling:
            known = tools._cached_cc
            tools._cached_cc = capability
            try:
                return cuda.compile_ptx(function, signature, cc=capability, fastmath=fastmath)[0]
            finally:
                tools._cached_cc = known

    return Toolchain(namespace, device_function, ptx, _array_type_of(types))


PROVIDERS = (
    Provider("numba-cuda", "numba_cuda", "numba-cuda", _load_numba_cuda),
    Provider("numba-cuda-mlir", "numba_cuda_mlir", "numba-cuda-mlir", _load_mlir),
    Provider("numba", "numba", "numba", _load_numba),
)
_toolchains: dict[str, Toolchain] = {}
_loading = LocksByKey()
_compiling = new_lock()  # one after the other: what compilers ask of the device is answered


def provider() -> Provider:
    """The compiler in use: the one that the environment names, else the first installed one.

    Raises
    ------
    KernelError
        If there is none, or not the one named.
    """
    chosen = os.environ.get(VARIABLE, "")
    known = {p.name: p for p in PROVIDERS}
    if chosen and chosen not in known:
        raise KernelError(
            explain(
                "cuda", f"{VARIABLE}={chosen} is unknown", expected=f"one of {', '.join(known)}"
            )
        )
    candidates = [known[chosen]] if chosen else PROVIDERS
    for candidate in candidates:
        if _is_installed(candidate):
            return candidate
    names = " or ".join(p.distribution for p in candidates)
    raise KernelError(
        explain(
            "cuda",
            f"no compiler of CUDA kernels: {names} is not installed",
            fix='pip install "numba_grad[cuda]"',
        )
    )


def _is_installed(candidate: Provider) -> bool:
    try:
        return importlib.util.find_spec(candidate.module) is not None
    except ModuleNotFoundError:  # not even its parent
        return False


def description(chosen: Provider) -> str:
    """The compiler and its parts with their versions: part of every cache key. Imports none."""
    parts = ("nvidia-cuda-nvcc", "nvidia-nvvm", "nvidia-nvjitlink")
    found = [f"{chosen.name} {importlib.metadata.version(chosen.distribution)}"]
    for part in parts:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found.append(f"{part} {importlib.metadata.version(part)}")
    return ", ".join(found)


def compile_to_ptx(source: str, architecture: str) -> str:
    """The PTX of kernel source, in which the kernel's symbol is `kernel`.

    Raises
    ------
    KernelError
        If no compiler is installed, or the one there is refuses the source.
    """
    chosen, tools = provider(), toolchain()
    function, signature = _functions(tools, source, architecture)
    try:
        ptx = tools.ptx(function, signature, capability(architecture))
    except KernelError:
        raise
    except Exception as error:
        kind = type(error).__name__
        is_incomplete = kind in ("NvvmSupportError", "CudaSupportError", "DynamicLibNotFoundError")
        raise KernelError(
            explain(
                "cuda",
                f"{chosen.name} could not compile a kernel: {kind}: {error}",
                got={"source": "\n" + source},
                fix='pip install "numba_grad[cuda]"' if is_incomplete else "",
            )
        ) from error
    return with_plain_names(ptx)


def toolchain() -> Toolchain:
    """The compiler in use, imported.

    Raises
    ------
    KernelError
        If there is none.
    """
    chosen = provider()
    found = _toolchains.get(chosen.name)
    if found is None:
        # One after the other: loading one registers types of ours with it.
        with _loading.lock_of(chosen.name):
            found = _toolchains.get(chosen.name)
            if found is None:
                load = functools.partial(_loaded, chosen)
                found = _toolchains[chosen.name] = unbroken(("toolchain", chosen.name), load)
    return found


def _loaded(chosen: Provider) -> Toolchain:
    try:
        toolchain = chosen.load()
    except ImportError as error:
        raise KernelError(
            explain(
                "cuda",
                f"{chosen.distribution} cannot be imported ({error})",
                fix='pip install "numba_grad[cuda]"',
            )
        ) from error
    import cmath
    import math

    toolchain.namespace.update(math=math, cmath=cmath, inf=math.inf, nan=math.nan)
    return toolchain


def capability(architecture: str) -> tuple[int, int]:
    """(9, 0) of "sm_90"."""
    found = re.fullmatch(r"sm_(\d+)(\d)[af]?", architecture)
    if found is None:
        raise KernelError(
            explain("cuda", f"no architecture {architecture!r}", expected='a name like "sm_90"')
        )
    return int(found.group(1)), int(found.group(2))


def _functions(toolchain: Toolchain, source: str, architecture: str) -> tuple[Callable, str]:
    """The function `kernel` of the source, with all it calls in scope, and its signature."""
    scope = dict(toolchain.namespace)
    keys: dict[str, str] = {}
    for definition in syntax_tree(source).body:
        assert isinstance(definition, ast.FunctionDef), "kernel source is functions"
        signature = _signature(definition)
        definition.decorator_list = []
        names = {node.id for node in ast.walk(definition) if isinstance(node, ast.Name)}
        parts = (
            architecture,
            ast.unparse(definition),
            *(keys[name] for name in sorted(names & set(keys))),
        )
        key = hashlib.sha256("\0".join(parts).encode()).hexdigest()
        if signature:
            return _executed(definition, scope), signature
        if key not in toolchain.functions:
            function = _executed(definition, scope)
            toolchain.functions[key] = toolchain.device_function(function)
        keys[definition.name] = key
        scope[definition.name] = toolchain.functions[key]
    raise KernelError(explain("cuda", "no kernel in the source", got={"source": "\n" + source}))


def _signature(definition: ast.FunctionDef) -> str:
    """What `@cuda.jit("...")` says; "" of a device function."""
    (decorator,) = definition.decorator_list
    assert isinstance(decorator, ast.Call), "kernel source uses @cuda.jit(...)"
    if not decorator.args:
        return ""
    return ast.literal_eval(decorator.args[0])


def most_registers(source: str) -> int:
    """What `@cuda.jit("...", max_registers=...)` says of the kernel; 0 where it says nothing."""
    found = re.search(r"max_registers=(\d+)\)\ndef kernel\(", source)
    return int(found.group(1)) if found else 0


def _executed(definition: ast.FunctionDef, scope: Namespace) -> Callable:
    """The function, whose globals are what is in scope now."""
    own = dict(scope)
    module = ast.Module([definition], [])
    exec(compile(module, f"<{definition.name} of a CUDA kernel>", "exec"), own)
    return own[definition.name]


# PTX. Numba's symbols count what a process compiled before.

_SYMBOL = re.compile(r"\b_ZN[\w$]*")
_PARTS = re.compile(r"(\d+)(?=[A-Za-z_])")


def with_plain_names(ptx: str) -> str:
    """The same PTX with the entry called `kernel`, and functions called as in the source."""
    entry = re.search(r"\.entry\s+([\w$]+)", ptx)
    if entry is None:
        raise KernelError(explain("cuda", "no kernel in the PTX", got={"PTX": ptx}))
    plain = {entry.group(1): "kernel"}
    for function in re.findall(r"\.func\s+(?:\([^)]*\)\s*)?([\w$]+)", ptx):
        if function not in plain and function.startswith("_ZN"):
            name = _name_in(function)
            while name in plain.values():
                name += "_"
            plain[function] = name
    longest_first = sorted(plain, key=len, reverse=True)
    pattern = re.compile("|".join(map(re.escape, longest_first)))
    # Of each function Numba declares a place for the interpreter's environment, which has no use.
    lines = [line for line in ptx.splitlines() if "_ZN08NumbaEnv" not in line]
    return pattern.sub(lambda found: plain[found.group()], "\n".join(lines)) + "\n"


def _name_in(symbol: str) -> str:
    """The function's own name in a mangled one: `_ZN` module, length and name, ..."""
    found = re.match(r"_ZN(\d+)", symbol)
    if found is None:
        return symbol
    rest = symbol[found.end() + int(found.group(1)) :]
    own = re.match(r"(\d+)", rest)
    if own is None:
        return symbol
    return rest[own.end() : own.end() + int(own.group(1))]
