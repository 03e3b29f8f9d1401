"""Runs the kernels of one operation in the emulator, and compiles them for architectures."""

from typing import Any

import numpy as np

from numba_grad.compiler.cuda import front_end
from numba_grad.compiler.cuda.library_kernels import DEFAULT, Options, kernels_for
from numba_grad.compiler.cuda.link import link
from numba_grad.compiler.library_kernels import Errors, LibraryCall, Memory
from numba_grad.compiler.steps import library_steps
from numba_grad.graph.node import OPS, Node, argument, record
from numba_grad.graph.types import array_type
from numba_grad.runtime.plan import ErrorSite
from tests.cuda.emulator import HostMemory, run_kernel

UNWRITTEN = 0xCD


def node_of(name: str, *arrays: np.ndarray, **params: Any) -> Node:
    """The operation on arguments of the arrays' types."""
    arguments = tuple(argument(array_type(x.shape, x.dtype)) for x in arrays)
    return record(OPS[name], arguments, params)


def call_of(node: Node, options: Options = DEFAULT, *, in_place: bool = False) -> LibraryCall:
    return library_steps.call_of(node, kernels_for(options), in_place=in_place)


def emulated(
    node: Node,
    *arrays: np.ndarray,
    options: Options = DEFAULT,
    in_place: bool = False,
    call: LibraryCall | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """The value of a node whose inputs are these, by `call` or the one of `options`; and the error
    record.

    What no kernel wrote is full of a pattern. The inputs must still be what they were.
    """
    call = call or call_of(node, options, in_place=in_place)
    memory = HostMemory()
    inputs = [np.array(x, order="C") for x in arrays]
    out = inputs[0] if in_place else np.empty(node.shape, node.dtype)
    if not in_place:
        out.reshape(-1).view(np.uint8)[...] = UNWRITTEN
    errors = np.zeros(8, np.int64)
    scratch = np.full(call.scratch_bytes, UNWRITTEN, np.uint8)
    places = {
        "input": [memory.add(x) for x in inputs],
        "output": [memory.add(out)],
        "scratch": [memory.add(scratch)],
    }

    def value(word: Any) -> int:
        match word:
            case Memory(role, number, offset):
                return places[role][number] + offset
            case Errors():
                return memory.add(errors)
            case ErrorSite():
                return 7
        return int(word)

    for step in call.steps:
        if step.launch.blocks:
            words = [value(word) for word in step.words]
            run_kernel(step.source, *step.launch, words, memory)
    for x, before in list(zip(inputs, arrays, strict=True))[int(in_place) :]:
        assert x.tobytes() == np.ascontiguousarray(before).tobytes(), "an input was written to"
    return out, errors


def check_compiles(call: LibraryCall, dtype: np.dtype, *, double: bool = False) -> None:
    """No spills, and no double precision in kernels that need none."""
    for step in call.steps:
        ptx = ptx_that_fits(step.source, step.launch.threads)
        if not double and dtype.name not in ("float64", "complex128"):
            assert ".f64" not in ptx


def ptx_that_fits(source: str, threads: int) -> str:
    """The PTX of a kernel whose machine code for either architecture has no spills and runs in
    blocks of so many threads.

    That for the older one, which serves both: most of the time is its making.
    """
    ptx = front_end.compile_to_ptx(source, "sm_80")
    for architecture in ("sm_80", "sm_90"):
        cubin, usage = link(ptx, architecture)
        assert cubin[:4] == b"\x7fELF"
        assert usage.spilled_bytes == 0, source
        assert usage.registers * threads <= 65536, (usage.registers, threads)
        assert usage.shared_bytes <= 48 << 10
    return ptx
