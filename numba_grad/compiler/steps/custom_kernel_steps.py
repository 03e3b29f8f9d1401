"""Calls of users' kernels and callbacks -> steps of the CPU."""

from numba_grad.compiler.library_kernels import (
    ArrayOperand,
    LibraryCall,
    Memory,
    custom_kernel_call,
)
from numba_grad.compiler.library_kernels.calls import grain_for
from numba_grad.compiler.library_kernels.python_calls import python_call
from numba_grad.compiler.user_kernels import functions
from numba_grad.graph.node import Node
from numba_grad.graph.types import Type
from numba_grad.ops.custom_kernels import batch_size, layout_of, member_types
from numba_grad.runtime.python_calls import PythonCall

# Elements that a thread should have, where the user does not say how much work they are: some
# 20 us, at the least that a loop does with one.
ELEMENTS_OF_THREAD = 1 << 14


def operands_of(node: Node) -> tuple[tuple[Type, ...], list[ArrayOperand], int | None]:
    """Of a `custom_kernel`: the types of the inputs of one call, the arrays of the kernel, and how
    many members a batch has, None where there is no batch."""
    kernel, batched = node.params["kernel"], node.params["batched"]
    types = [x.type for x in node.inputs]
    inputs = member_types(types, batched)
    results = kernel.result_types(inputs, node.params["numbers"])
    members = batch_size(types, batched) if batched else None
    stride = node.type.nbytes // members if members else 0
    starts = layout_of(kernel.name, results).starts if len(results) > 1 else (0,)
    arrays = []
    for k, type in enumerate(inputs):
        own_stride = type.nbytes if batched and batched[k] else 0
        arrays.append(ArrayOperand(Memory("input", k), type.shape, type.dtype.itemsize, own_stride))
    for start, type in zip(starts, results, strict=True):
        memory = Memory("output", 0, start * node.dtype.itemsize)
        arrays.append(ArrayOperand(memory, type.shape, type.dtype.itemsize, stride))
    return inputs, arrays, members


def call_of_custom_kernel(node: Node) -> LibraryCall:
    """The step of a `custom_kernel`, whose function is compiled on the way, or called in Python."""
    kernel, numbers = node.params["kernel"], node.params["numbers"]
    inputs, arrays, members = operands_of(node)
    if kernel.cpu.in_python:
        results = kernel.result_types(inputs, numbers)
        function = PythonCall(
            kernel.cpu.function,
            [(x.shape, x.dtype) for x in inputs],
            [(x.shape, x.dtype) for x in results],
        )
        return python_call(kernel.name, function, arrays, members)
    tasks = kernel.tasks(inputs, numbers)
    parts = tasks if members is None else members
    grain = kernel.cpu.grain if members is None else None
    if grain is None:
        elements = node.type.size + sum(x.type.size for x in node.inputs)
        grain = grain_for(elements // max(1, parts or 1), ELEMENTS_OF_THREAD)
    return custom_kernel_call(
        kernel.name,
        functions.symbol_of(kernel, inputs, numbers),
        arrays,
        numbers,
        members=members,
        tasks=tasks,
        grain=grain,
        exception=functions.exceptions_of(kernel),
    )
