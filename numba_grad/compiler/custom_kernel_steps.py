"""Calls of users' kernels -> steps."""

from numba_grad.compiler.library_kernels import (
    ArrayOperand,
    LibraryCall,
    Memory,
    custom_kernel_call,
)
from numba_grad.compiler.library_kernels.calls import grain_for
from numba_grad.graph.node import Node
from numba_grad.ops.custom_kernels import batch_size, layout_of, member_types

# Elements that a thread should have, where the user does not say how much work they are: some
# 20 us, at the least that a loop does with one.
ELEMENTS_OF_THREAD = 1 << 14


def call_of_custom_kernel(node: Node) -> LibraryCall:
    """The step of a `custom_kernel`, whose function is compiled on the way."""
    # Compiling it takes Numba.
    from numba_grad.compiler import user_functions

    kernel, numbers = node.params["kernel"], node.params["numbers"]
    batched = node.params["batched"]
    types = [x.type for x in node.inputs]
    inputs = member_types(types, batched)
    results = kernel.result_types(inputs, numbers)
    members = batch_size(types, batched) if batched else None
    tasks = kernel.tasks(inputs, numbers)
    parts = tasks if members is None else members
    grain = kernel.cpu.grain if members is None else None
    if grain is None:
        elements = node.type.size + sum(type.size for type in types)
        grain = grain_for(elements // max(1, parts or 1), ELEMENTS_OF_THREAD)
    stride = node.type.nbytes // members if members else 0
    starts = layout_of(kernel.name, results).starts if len(results) > 1 else (0,)
    arrays = [
        ArrayOperand(
            Memory("input", k),
            type.shape,
            type.dtype.itemsize,
            type.nbytes if batched and batched[k] else 0,
        )
        for k, type in enumerate(inputs)
    ]
    arrays += [
        ArrayOperand(
            Memory("output", 0, start * node.dtype.itemsize),
            type.shape,
            type.dtype.itemsize,
            stride,
        )
        for start, type in zip(starts, results, strict=True)
    ]
    return custom_kernel_call(
        kernel.name,
        user_functions.symbol_of(kernel, inputs, numbers),
        arrays,
        numbers,
        members=members,
        tasks=tasks,
        grain=grain,
        exception=user_functions.exception_of,
    )
