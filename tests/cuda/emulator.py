"""Runs the source of CUDA kernels on the host, thread by thread, and checks what hardware does not.

A kernel without barriers and shuffles is a plain function that is called for every thread. In one
with them every thread of a block is a generator: such calls become `yield`s, and the emulator
resumes threads as barriers and warps demand. `kernel_names.py` has the names of kernel source.

Errors, each an `EmulationError` that names the kernel's line where it can:

- accesses outside of an allocation or of a shared array, reads of shared memory never written,
- an element written by two threads, or written by one and read by another, with no barrier between,
- barriers or shuffles that not all threads of the block, or of the warp, come to,
- untyped float literals, which would turn a float32 kernel into a float64 one,
- names that kernel source may not use.
"""

import ast
import functools
import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np

from numba_grad.runtime.cuda.interface import Extents
from tests.cuda.host_driver import HostDriver
from tests.cuda.kernel_names import (
    COMPLEX,
    INTEGER,
    INTEGERS,
    NAMES,
    EmulationError,
    fma,
    is_narrow,
)

WARP = 32
MOST_THREADS = 1024
MOST_SHARED_BYTES = 48 * 1024
MOVABLE: tuple[type, ...] = (int, np.int64, np.float32, np.float64)  # by a shuffle


# Where an address points to: the bytes from there to the end of its allocation.
Memory = Callable[[int], np.ndarray]


class HostMemory:
    """Allocations of a test: arrays, found by where their elements lie."""

    def __init__(self) -> None:
        self._bytes: dict[int, np.ndarray] = {}

    def add(self, array: np.ndarray) -> int:
        """Make an array known; its address."""
        assert array.flags.c_contiguous
        address = array.ctypes.data
        self._bytes[address] = array.reshape(-1).view(np.uint8)
        return address

    def __call__(self, address: int) -> np.ndarray:
        for start, data in self._bytes.items():
            if start <= address < start + max(data.size, 1):
                return data[address - start :]
        raise EmulationError(f"address {address:#x} lies in no allocation")


class EmulatedDriver(HostDriver):
    """A driver in host memory that runs the kernels, too."""

    def run_kernel(
        self, source: str, name: str, grid: Extents, block: Extents, parameters: bytes
    ) -> None:
        assert name == "kernel"
        words = np.frombuffer(parameters, np.int64).tolist()
        if grid[1:] != (1, 1) or block[1:] != (1, 1):
            raise EmulationError(f"kernels have one dimension, not {grid} and {block}")
        run_kernel(source, grid[0], block[0], words, self.memory)


def run_kernel(source: str, grid: int, block: int, words: Sequence[int], memory: Memory) -> None:
    """Launch `kernel` of `source` with `words` as parameters: integers, and addresses."""
    if not 1 <= block <= MOST_THREADS or not 1 <= grid < 2**31:
        raise EmulationError(f"no such launch: {grid} blocks of {block} threads")
    kernel = compile_source(source)
    if len(words) != len(kernel.parameters):
        raise EmulationError(f"{len(kernel.parameters)} parameters, {len(words)} words")
    launch = _Launch(grid, block)
    arguments = [
        word if parameter is None else _pointer(launch, name, parameter, word, memory)
        for (name, parameter), word in zip(kernel.parameters, words, strict=True)
    ]
    with np.errstate(all="ignore"):
        for number in range(grid):
            kernel.run_block(launch, number, arguments)


# Launches


class _Launch:
    """What the threads of a launch share."""

    def __init__(self, grid: int, block: int) -> None:
        self.grid, self.block = grid, block
        self.number = 0  # of the block that runs
        self.thread = 0
        self.epoch = 0  # barriers that the block has passed
        self.warp_epochs: list[int] = []  # and those that each of its warps has passed
        # Who wrote an address: block, epoch, thread, epoch of its warp.
        self.writers: dict[int, tuple[int, int, int, int]] = {}
        self.shared: dict[int, _Shared] = {}

    def now(self) -> tuple[int, int, int, int]:
        """What the present thread does, among what others do."""
        return self.number, self.epoch, self.thread, self.warp_epochs[self.thread // WARP]

    def is_ordered(self, other: tuple[int, int, int, int]) -> bool:
        """Whether what `other` did happened before what the present thread does."""
        number, epoch, thread, warp_epoch = other
        if number != self.number:
            return False
        if thread == self.thread or epoch < self.epoch:
            return True
        warp = thread // WARP
        return warp == self.thread // WARP and warp_epoch < self.warp_epochs[warp]


class _Pointer:
    """A typed pointer into an allocation."""

    __slots__ = (
        *("address", "array", "convert", "is_checked", "is_narrow", "itemsize", "launch", "name"),
        "size",
    )

    def __init__(self, launch: _Launch, name: str, array: np.ndarray) -> None:
        self.launch, self.name, self.array = launch, name, array
        self.address, self.size, self.itemsize = array.ctypes.data, array.size, array.itemsize
        self.convert = _conversion(array.dtype)
        self.is_narrow = is_narrow(array.dtype)
        # The error record takes whichever error comes first.
        self.is_checked = not name.startswith("errors")

    def _place(self, index: Any) -> int:
        index = operator.index(index)
        if not 0 <= index < self.size:
            raise EmulationError(
                f"{self.name}[{index}]: from there on {self.size} elements of "
                f"{self.array.dtype} are allocated"
            )
        return index

    def __getitem__(self, index: Any) -> Any:
        if type(index) is not int or not 0 <= index < self.size:
            index = self._place(index)
        launch = self.launch
        if launch.writers and self.is_checked:
            writer = launch.writers.get(self.address + index * self.itemsize)
            if writer is not None and not launch.is_ordered(writer):
                raise EmulationError(f"{self.name}[{index}] is read while another thread writes it")
        return self.array.item(index) if self.is_narrow else self.array[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        if type(index) is not int or not 0 <= index < self.size:
            index = self._place(index)
        launch = self.launch
        if self.is_checked:
            key = self.address + index * self.itemsize
            writer = launch.writers.get(key)
            if writer is not None and not launch.is_ordered(writer):
                raise EmulationError(f"{self.name}[{index}] is written by two threads")
            launch.writers[key] = launch.now()
        self.array[index] = value if self.convert is None else self.convert(value)

    def add(self, index: Any, value: Any) -> Any:
        """In one step, so no race; floating sums depend on who comes first."""
        index = self._place(index)
        old = self.array[index]
        value = old + self.array.dtype.type(value)
        self.array[index] = value if self.convert is None else self.convert(value)
        return old


class _Shared:
    """A shared array: each element remembers who touched it since the last barrier."""

    __slots__ = (
        *("array", "convert", "launch", "read_by", "read_in", "size", "values"),
        *("written_by", "written_in"),
    )

    def __init__(self, launch: _Launch, size: int, dtype: np.dtype) -> None:
        self.launch, self.size = launch, size
        self.array = np.zeros(size, dtype)  # for its size in bytes
        self.convert = _cast_to(dtype)
        self.values: list[Any] = [None] * size
        # By which thread, in which epoch; several readers are thread -1.
        self.written_by, self.written_in = [0] * size, [-1] * size
        self.read_by, self.read_in = [0] * size, [-1] * size

    def _place(self, index: Any) -> int:
        index = operator.index(index)
        if not 0 <= index < self.size:
            raise EmulationError(f"element {index} of a shared array of {self.size}")
        return index

    def __getitem__(self, index: Any) -> Any:
        if type(index) is not int or not 0 <= index < self.size:
            index = self._place(index)
        launch = self.launch
        epoch, thread = launch.epoch, launch.thread
        if self.written_in[index] == epoch and self.written_by[index] != thread:
            raise EmulationError(f"shared element {index} is read with no barrier after its write")
        if self.written_in[index] < 0:
            raise EmulationError(f"shared element {index} is read before it is written")
        if self.read_in[index] != epoch:
            self.read_in[index], self.read_by[index] = epoch, thread
        elif self.read_by[index] != thread:
            self.read_by[index] = -1
        return self.values[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        if type(index) is not int or not 0 <= index < self.size:
            index = self._place(index)
        launch = self.launch
        epoch, thread = launch.epoch, launch.thread
        if (self.written_in[index] == epoch and self.written_by[index] != thread) or (
            self.read_in[index] == epoch and self.read_by[index] != thread
        ):
            raise EmulationError(f"shared element {index} is written with no barrier before")
        self.written_in[index], self.written_by[index] = epoch, thread
        self.values[index] = self.convert(value)


class _Local:
    """An array of one thread."""

    __slots__ = ("convert", "values")

    def __init__(self, size: int, dtype: np.dtype) -> None:
        self.convert = _cast_to(dtype)
        self.values: list[Any] = [None] * size

    def __getitem__(self, index: Any) -> Any:
        value = self.values[index] if index >= 0 else None
        if value is None:
            raise EmulationError(f"local element {index} is read before it is written")
        return value

    def __setitem__(self, index: Any, value: Any) -> None:
        if not 0 <= index < len(self.values):
            raise EmulationError(f"element {index} of a local array of {len(self.values)}")
        self.values[index] = self.convert(value)


@functools.cache  # of each thread's arrays, where to look at the name takes longer than the rest
def _cast_to(dtype: np.dtype) -> Callable[[Any], Any]:
    return INTEGERS.get(dtype.name, dtype.type)


def _conversion(dtype: np.dtype) -> Callable[[Any], Any] | None:
    """What becomes of a value before it is stored, if anything does."""
    if dtype.kind in "iu":
        return INTEGERS[dtype.name]
    return None if dtype.kind == "c" else functools.partial(_real, dtype)


def _real(dtype: np.dtype, value: Any) -> Any:
    if isinstance(value, COMPLEX):
        raise EmulationError(f"a complex value is stored as {dtype}")
    return value


def _pointer(launch: _Launch, name: str, dtype: np.dtype, address: int, memory: Memory) -> _Pointer:
    if address == 0:
        return _Pointer(launch, name, np.zeros(0, dtype))
    if address % dtype.itemsize:
        raise EmulationError(f"{name}: address {address:#x} is not aligned for {dtype}")
    data = memory(address)
    return _Pointer(launch, name, data[: data.size // dtype.itemsize * dtype.itemsize].view(dtype))


# Source to Python functions

# fmt: off
_PAUSES = {
    "syncthreads": "barrier", "syncwarp": "warp",
    "shfl_sync": "warp", "shfl_up_sync": "warp", "shfl_down_sync": "warp", "shfl_xor_sync": "warp",
    "all_sync": "warp", "any_sync": "warp", "ballot_sync": "warp",
}
# fmt: on
# Whose value a lane gets.
_SOURCES: dict[str, Callable[[int, int], int]] = {
    "shfl_sync": lambda lane, by: by,
    "shfl_up_sync": operator.sub,
    "shfl_down_sync": operator.add,
    "shfl_xor_sync": operator.xor,
}


@dataclass(slots=True)
class CompiledKernel:
    """A kernel as a Python function, or a generator if its threads wait for each other."""

    function: Callable[..., Any]
    parameters: list[tuple[str, np.dtype | None]]  # the dtype of what a pointer points to
    pauses: bool
    cuda: SimpleNamespace
    state: dict[str, Any] = field(default_factory=dict)

    def run_block(self, launch: _Launch, number: int, arguments: list[Any]) -> None:
        launch.number, launch.epoch, launch.shared = number, 0, {}
        launch.warp_epochs = [0] * -(-launch.block // WARP)
        self.state["launch"] = launch
        cuda = self.cuda
        cuda.blockIdx.x, cuda.blockDim.x, cuda.gridDim.x = number, launch.block, launch.grid
        if not self.pauses:
            for thread in range(launch.block):
                launch.thread = cuda.threadIdx.x = thread
                self.function(*arguments)
            return
        _Block(launch, cuda, [self.function(*arguments) for _ in range(launch.block)]).run()


class _Block:
    """The threads of a block, which wait at barriers and shuffles."""

    def __init__(self, launch: _Launch, cuda: SimpleNamespace, threads: list[Any]) -> None:
        self.launch, self.cuda, self.threads = launch, cuda, threads
        self.requests: list[tuple | None] = [None] * len(threads)

    def resume(self, thread: int, answer: Any) -> None:
        self.launch.thread = self.cuda.threadIdx.x = thread
        try:
            self.requests[thread] = self.threads[thread].send(answer)
        except StopIteration:
            self.requests[thread] = None

    def run(self) -> None:
        everyone = range(len(self.threads))
        for thread in everyone:
            self.resume(thread, None)
        while True:
            for first in range(0, len(self.threads), WARP):
                self.run_warp(everyone[first : first + WARP])
            sites = {r and r[:2] for r in self.requests}
            if sites == {None}:
                return
            if len(sites) > 1:
                raise EmulationError(f"threads of a block wait at different barriers: {sites}")
            self.launch.epoch += 1
            for thread in everyone:
                self.resume(thread, None)

    def run_warp(self, warp: range) -> None:
        """Until all of its threads are at a barrier, or done."""
        while any(self.waits_for_warp(thread) for thread in warp):
            requests = [self.requests[thread] for thread in warp]
            if len({r and r[:2] for r in requests}) > 1:
                sites = {r and r[:2] for r in requests}
                raise EmulationError(f"threads of a warp are at different places: {sites}")
            answers = _exchanged([r for r in requests if r is not None])
            if requests[0] is not None and requests[0][0] == "syncwarp":
                self.launch.warp_epochs[warp[0] // WARP] += 1
            for thread, answer in zip(warp, answers, strict=True):
                self.resume(thread, answer)

    def waits_for_warp(self, thread: int) -> bool:
        request = self.requests[thread]
        return request is not None and _PAUSES[request[0]] == "warp"


def _exchanged(requests: list[tuple]) -> list[Any]:
    """What each thread of a warp gets."""
    name = requests[0][0]
    if name == "syncwarp":
        return [None] * len(requests)
    present = (1 << len(requests)) - 1
    values = [request[3] for request in requests]
    for request in requests:
        if request[2] & present != present:
            raise EmulationError(f"{name}: threads of the warp are not in its mask")
    if name in ("all_sync", "any_sync"):
        return [(all if name == "all_sync" else any)(values)] * len(values)
    if name == "ballot_sync":
        return [sum(bool(value) << k for k, value in enumerate(values))] * len(values)
    types = set(map(type, values))
    if len({int if issubclass(found, INTEGER) else found for found in types}) > 1:
        raise EmulationError(f"{name}: values of several types: {values}")
    if not isinstance(values[0], MOVABLE):
        raise EmulationError(f"{name}: hardware moves no {type(values[0])}")
    source_of = _SOURCES[name]
    result = []
    for lane, request in enumerate(requests):
        source = source_of(lane, request[4])
        inside = 0 <= source < WARP
        if inside and source >= len(values):
            raise EmulationError(f"{name}: lane {source} of a warp of {len(values)} threads")
        result.append(values[source] if inside else values[lane])
    return result


@functools.lru_cache(maxsize=4096)
def compile_source(source: str) -> CompiledKernel:
    """The kernel of a source text; each text is compiled once."""
    tree = ast.parse(source)
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    if len(functions) != len(tree.body) or "kernel" not in functions:
        raise EmulationError("kernel source is functions, one of them `kernel`")
    _check_literals(tree)
    pausing = _pausing(functions)
    transformer = _Transformer(pausing)
    tree = ast.fix_missing_locations(transformer.visit(tree))
    parameters = _parameters(functions["kernel"])
    state: dict[str, Any] = {}
    cuda = _cuda_namespace(state)
    names = {**NAMES, **transformer.constants, "cuda": cuda, "__builtins__": {}}
    for function in functions.values():
        function.decorator_list.clear()
    exec(compile(tree, "<kernel>", "exec"), names)
    return CompiledKernel(names["kernel"], parameters, "kernel" in pausing, cuda, state)


def _parameters(function: ast.FunctionDef) -> list[tuple[str, np.dtype | None]]:
    """Names, and what the decorator says of their types."""
    (decorator,) = function.decorator_list
    assert isinstance(decorator, ast.Call) and isinstance(decorator.args[0], ast.Constant)
    text = str(decorator.args[0].value)
    if not text.startswith("void(") or not text.endswith(")"):
        raise EmulationError(f"no kernel signature: {text}")
    types = [part.strip() for part in text[len("void(") : -1].split(",") if part.strip()]
    names = [argument.arg for argument in function.args.args]
    if len(names) != len(types):
        raise EmulationError(f"{len(names)} names for {len(types)} types")
    return list(zip(names, map(_parameter_dtype, types), strict=True))


def _parameter_dtype(text: str) -> np.dtype | None:
    if text == "int64":
        return None
    if not text.startswith("CPointer(") or not text.endswith(")"):
        raise EmulationError(f"words are int64 or pointers, not {text}")
    return np.dtype(text[len("CPointer(") : -1])


def _check_literals(tree: ast.Module) -> None:
    """Every float literal stands in a cast."""
    typed = {"float16", "bfloat16", "float32", "float64", "complex64", "complex128"}
    inside = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in typed:
            inside.update(id(part) for part in ast.walk(node))
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, float | complex):
            continue
        if id(node) not in inside:
            raise EmulationError(f"line {node.lineno}: the literal {node.value} has no type")


def _pausing(functions: dict[str, ast.FunctionDef]) -> set[str]:
    """Functions whose threads wait for each other, by themselves or by what they call."""
    calls = {
        name: {
            node.func.id if isinstance(node.func, ast.Name) else f"cuda.{_attribute(node.func)}"
            for node in ast.walk(function)
            if isinstance(node, ast.Call)
        }
        for name, function in functions.items()
    }
    result = {f"cuda.{name}" for name in _PAUSES}
    while True:
        more = {name for name, called in calls.items() if called & result} - result
        if not more:
            return result
        result |= more


def _attribute(node: ast.AST) -> str:
    is_cuda = isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "cuda"
    return node.attr if is_cuda and isinstance(node, ast.Attribute) else ""


def _is_shared_array(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Attribute)
        and node.attr == "array"
        and _attribute(node.value) == "shared"
    )


_CASTS = {*INTEGERS, "float16", "float32", "float64", "complex64", "complex128"}


def _literal(node: ast.Call) -> Any:
    """The value of `float32(0.5)`, which numbers keep; None for everything else."""
    if not isinstance(node.func, ast.Name) or node.func.id not in _CASTS or node.keywords:
        return None
    values = [part.value for part in node.args if isinstance(part, ast.Constant)]
    return NAMES[node.func.id](values[0]) if len(values) == len(node.args) == 1 else None


class _Transformer(ast.NodeTransformer):
    """Calls that wait become yields; shared arrays learn which they are; literals are cast once."""

    def __init__(self, pausing: set[str]) -> None:
        self.pausing = pausing
        self.shared = 0
        self.constants: dict[str, Any] = {}

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        literal = _literal(node)
        if literal is not None:
            name = f"the literal {ast.unparse(node)}"  # which no source has
            self.constants[name] = literal
            return ast.Name(name, ast.Load())
        name = _attribute(node.func)
        if name in _PAUSES:
            site = [ast.Constant(name), ast.Constant(f"line {node.lineno}")]
            return ast.Yield(ast.Tuple([*site, *node.args], ast.Load()))
        if isinstance(node.func, ast.Name) and node.func.id in self.pausing:
            return ast.YieldFrom(node)
        if _is_shared_array(node.func):
            self.shared += 1
            node.args.insert(0, ast.Constant(self.shared))
        return node


# What kernels find under `cuda`


def _cuda_namespace(state: dict[str, Any]) -> SimpleNamespace:
    """One for each kernel; the launch that runs is in `state`."""

    def shared_array(site: int, shape: Any, dtype: Any) -> _Shared:
        launch: _Launch = state["launch"]
        if site not in launch.shared:
            size = shape if isinstance(shape, int) else math.prod(shape)
            launch.shared[site] = _Shared(launch, size, _dtype_of(dtype))
            total = sum(shared.array.nbytes for shared in launch.shared.values())
            if total > MOST_SHARED_BYTES:
                raise EmulationError(f"{total} bytes of shared memory")
        return launch.shared[site]

    def local_array(shape: Any, dtype: Any) -> _Local:
        size = shape if isinstance(shape, int) else math.prod(shape)
        return _Local(size, _dtype_of(dtype))

    def place(x: int = 0) -> SimpleNamespace:
        return SimpleNamespace(x=x, y=x, z=x)

    namespace = SimpleNamespace(
        threadIdx=place(),
        blockIdx=place(),
        blockDim=place(1),
        gridDim=place(1),
        warpsize=WARP,
        shared=SimpleNamespace(array=shared_array),
        local=SimpleNamespace(array=local_array),
        fma=fma,
        cbrt=np.cbrt,
        selp=lambda condition, x, y: x if condition else y,
        popc=lambda x: (int(x) & 0xFFFFFFFFFFFFFFFF).bit_count(),
        threadfence=lambda: None,
        threadfence_block=lambda: None,
    )
    namespace.grid = lambda _: namespace.blockIdx.x * namespace.blockDim.x + namespace.threadIdx.x
    namespace.gridsize = lambda _: namespace.gridDim.x * namespace.blockDim.x
    return namespace


@functools.cache
def _dtype_of(name: Any) -> np.dtype:
    for text, cast in INTEGERS.items():
        if cast is name:
            return np.dtype(text)
    return np.dtype(name)
