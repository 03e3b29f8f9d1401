"""Users' CUDA kernels: Python functions to cubins, and calls of them to steps.

A kernel gets its arrays as Numba passes them (`library_kernels/custom_kernels.py`). All of its
parameters are eight bytes long, so the words of a step are its parameter block, but for the first
ones: those are the grid, the block, the dynamic shared memory, and what is copied or zeroed before.
"""

import functools
import inspect
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from numba_grad.compiler.building.build import compiling
from numba_grad.compiler.building.function_identity import identity_of
from numba_grad.compiler.cuda import build, front_end
from numba_grad.compiler.cuda.build import DeviceKernel
from numba_grad.compiler.cuda.link import Usage, link
from numba_grad.compiler.library_kernels import Memory
from numba_grad.compiler.library_kernels.custom_kernels import ArrayOperand, words_of_array
from numba_grad.compiler.numba_functions.generated import GeneratedFunction
from numba_grad.compiler.segment_memory import Place
from numba_grad.compiler.steps.custom_kernel_steps import operands_of
from numba_grad.compiler.steps.schedule import ScheduledStep
from numba_grad.compiler.words import Pointer
from numba_grad.errors import KernelError, explain
from numba_grad.graph.node import Node
from numba_grad.immutable import immutable
from numba_grad.locks import new_lock
from numba_grad.ops.custom_kernels import (
    Argument,
    ArrayArgument,
    CustomKernel,
    python_function,
)
from numba_grad.runtime.cuda.driver import current_driver
from numba_grad.runtime.cuda.engine import loaded_function
from numba_grad.runtime.cuda.streams import Stream
from numba_grad.runtime.plan import Grid

# Of dynamic shared memory a block may have this much without asking.
_SHARED_BYTES = 48 << 10
_LAUNCH_WORDS = 8

_lock = new_lock()
_sources: dict[tuple[CustomKernel, tuple[Argument, ...]], str] = {}
_next_number = itertools.count().__next__


@immutable
class UserKernel(DeviceKernel):
    """A compiled kernel, which launches itself: as a step, a call of the host."""

    compile_to_ptx: Callable[[], str] = str

    @property
    def ptx(self) -> str:
        """The PTX, compiled again for the occasion."""
        return self.compile_to_ptx()

    @property
    def is_capturable(self) -> bool:
        return True

    def __call__(self, stream: Stream, words: Sequence[int]) -> None:
        driver, device = current_driver(), stream.device.index
        function = loaded_function(driver, device, self)
        gx, gy, gz, bx, by, bz, shared_bytes = words[: _LAUNCH_WORDS - 1]
        if shared_bytes > _SHARED_BYTES:
            driver.allow_shared_memory(function, shared_bytes)
        first = _LAUNCH_WORDS + 3 * words[_LAUNCH_WORDS - 1]
        for k in range(_LAUNCH_WORDS, first, 3):
            address, source, nbytes = words[k : k + 3]
            if source:
                driver.copy_on_device(address, source, nbytes, stream.handle)
            else:
                driver.fill(address, 0, nbytes, stream.handle)
        parameters = np.array(words[first:], np.int64)
        driver.launch(
            function,
            (gx, gy, gz),
            (bx, by, bz),
            shared_bytes,
            stream.handle,
            parameters.ctypes.data,
            parameters.nbytes,
        )


def steps_of_user_kernel(node: Node, places: dict[Node, Place]) -> list[ScheduledStep]:
    """The steps of a `custom_kernel`: a launch, or one for each member of a batch."""
    kernel, numbers = node.params["kernel"], node.params["numbers"]
    inputs, arrays, members = operands_of(node)
    source = _source_of(kernel, kernel.arguments(inputs, numbers))
    launch = kernel.launch(inputs, numbers)
    steps = []
    for member in range(1 if members is None else members):
        operands = [array.of_member(member) for array in arrays]
        begun = _beginnings(kernel, operands[: len(inputs)], operands[len(inputs) :])
        words: list[Any] = [*launch.grid, *launch.block, launch.shared_bytes, len(begun) // 3]
        words += begun
        for array in operands:
            words += words_of_array(array)
        words += [bits for _, bits in numbers]
        words = [_placed(w, node, places) if isinstance(w, Memory) else w for w in words]
        memory: list[Any] = [word.memory for word in words if isinstance(word, Pointer)]
        nbytes = node.type.nbytes + sum(x.type.nbytes for x in node.inputs)
        share = members or 1
        size = node.type.size // share
        steps.append(ScheduledStep(source, words, Grid(1, 1), memory, nbytes // share, size))
    return steps


def _beginnings(
    kernel: CustomKernel, inputs: Sequence[ArrayOperand], results: Sequence[ArrayOperand]
) -> list[Any]:
    """For each result that has elements when the kernel begins: where it is, where they are copied
    from, 0 for zeros, and how many bytes."""
    assert kernel.cuda is not None
    words: list[Any] = []
    for result, number in zip(results, kernel.cuda.beginnings, strict=False):
        nbytes = math.prod(result.shape) * result.itemsize
        if number is not None and nbytes:
            words += [result.memory, 0 if number < 0 else inputs[number].memory, nbytes]
    return words


def _placed(memory: Memory, node: Node, places: dict[Node, Place]) -> Pointer:
    x = node if memory.role == "output" else node.inputs[memory.number]
    place = places[x]
    return Pointer(place.memory, place.offset * x.dtype.itemsize + memory.offset)


def _source_of(kernel: CustomKernel, arguments: tuple[Argument, ...]) -> str:
    """The text that stands for the kernel's function for these arguments, in plans."""
    with _lock:
        source = _sources.get((kernel, arguments))
        if source is None:
            assert kernel.cuda is not None
            source = f"# {kernel.name}: user's kernel {_next_number()}\n"
            source += _text_of(kernel.cuda.function)
            _sources[kernel, arguments] = source
            make = functools.partial(_made, kernel, arguments, source)
            build.give_maker(source, functools.cache(make))
    return source


def _text_of(function: Any) -> str:
    if isinstance(function, GeneratedFunction):
        return function.generated_source
    try:
        return inspect.getsource(python_function(function))
    except (OSError, TypeError):
        return "# (its source is not in a file)\n"


def _made(
    kernel: CustomKernel, arguments: tuple[Argument, ...], source: str, architecture: str
) -> UserKernel:
    if architecture == build.SOURCE_ARCHITECTURE:
        assert kernel.cuda is not None
        name = python_function(kernel.cuda.function).__name__
        return UserKernel(source, architecture, source.encode(), Usage(0, 0, 0, 0), name)
    compile_it = functools.partial(compile_to_ptx, kernel, arguments, architecture)

    def make() -> tuple[bytes, Usage]:
        what = (kernel, arguments, architecture)
        return compiling(what, lambda: link(compile_it(), architecture))

    name = _name_on_disk(kernel, arguments)
    code, usage = make() if name is None else build.kept(name, architecture, make)
    return UserKernel(source, architecture, code, usage, compile_to_ptx=compile_it)


def _name_on_disk(kernel: CustomKernel, arguments: tuple[Argument, ...]) -> str | None:
    """What the code depends on, None if it depends on what has no text."""
    assert kernel.cuda is not None
    identity = identity_of(kernel.cuda.function)
    if identity is None:
        return None
    return f"user's kernel, by element: {kernel.by_element}, {arguments!r}\n{identity}"


def compile_to_ptx(kernel: CustomKernel, arguments: Sequence[Argument], architecture: str) -> str:
    """The PTX of the kernel's CUDA function, in which its symbol is `kernel`.

    Raises
    ------
    KernelError
        If the function cannot be compiled for these arguments.
    """
    tools = front_end.toolchain()
    assert kernel.cuda is not None
    function = python_function(kernel.cuda.function)
    if kernel.by_element:
        function = _loop(tools, kernel.cuda.function, len(kernel.input_names))
    options = getattr(kernel.cuda.function, "targetoptions", {})
    signature = tuple([_type_of(tools, argument) for argument in arguments])
    try:
        ptx = tools.ptx(
            function,
            signature,
            front_end.capability(architecture),
            fastmath=bool(options.get("fastmath")),
        )
    except Exception as error:
        raise KernelError(
            explain(
                kernel.name,
                "its CUDA kernel cannot be compiled for these arguments",
                got={"kernel": inspect.signature(function), "arguments": signature},
            )
            + f"\n\n{type(error).__name__}: {error}"
        ) from error
    return front_end.with_plain_names(ptx)


def _type_of(tools: front_end.Toolchain, argument: Argument) -> Any:
    if isinstance(argument, ArrayArgument):
        return tools.array_type(argument.dtype.name, argument.rank, not argument.is_result)
    return tools.namespace[argument.dtype.name]


def _loop(tools: front_end.Toolchain, function: Any, count: int) -> Callable[..., Any]:
    """A kernel that applies `function` to an element of each input, in each thread."""
    names = ", ".join(f"x{k}" for k in range(count))
    elements = ", ".join(f"x{k}[i]" for k in range(count))
    text = (
        f"def kernel({names}, result):\n"
        "    i = cuda.grid(1)\n"
        "    if i < result.size:\n"
        f"        result[i] = function({elements})\n"
    )
    if not hasattr(function, "py_func"):
        function = tools.device_function(function)
    namespace: dict[str, Any] = {"function": function, "cuda": tools.namespace["cuda"]}
    exec(text, namespace)
    return namespace["kernel"]
