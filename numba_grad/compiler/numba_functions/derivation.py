"""What is generated for a request, from the function's tree. This module imports Numba."""

from dataclasses import replace
from typing import Any

import numpy as np

from numba_grad.compiler.numba_functions import (
    adjoint,
    source_writer,
    tangent,
    tape_bound,
)
from numba_grad.compiler.numba_functions.generated import (
    DerivedKernel,
    Form,
    Parameter,
    arguments_of,
)
from numba_grad.compiler.numba_functions.independent_loops import with_independent_loops
from numba_grad.compiler.numba_functions.index_set_splitting import with_split_index_sets
from numba_grad.compiler.numba_functions.lifetimes import with_equal_lifetimes
from numba_grad.compiler.numba_functions.loop_distribution import with_distributed_loops
from numba_grad.compiler.numba_functions.numba_ir import type_inference
from numba_grad.compiler.numba_functions.numba_ir.function_tree import function_tree
from numba_grad.compiler.numba_functions.parallel_loops import with_parallel_loops
from numba_grad.compiler.numba_functions.regions import Function, RegionKernel
from numba_grad.compiler.numba_functions.simplifications import simplified
from numba_grad.compiler.numba_functions.tape_rooms import with_rooms
from numba_grad.errors import KernelError, explain


def tree(
    function: Any,
    parameters: tuple[Parameter, ...],
    forms: tuple[Form, ...],
    *,
    of_thread: bool = False,
) -> Function:
    """The tree of a function for arguments of these types; `of_thread`: of a kernel."""
    whole = [p for p in parameters if p.part != "imag"]  # which is of the parameter before
    given = arguments_of(forms, list(map(_type_of, whole)))
    found = function_tree(function, list(map(type_inference.type_of_form, given)))
    assert found.builder is not None
    builder = found.builder.copy()
    body = with_equal_lifetimes(found, builder)
    body = simplified(body, builder, found.returned, of_thread=of_thread)
    return replace(found, body=body, builder=builder)


def _type_of(parameter: Parameter) -> Any:
    if parameter.is_number:
        return type_inference.number_type(parameter.dtype)
    dtype = np.dtype(parameter.dtype)
    if parameter.part:
        dtype = np.result_type(dtype, np.complex64)
    return type_inference.type_of(dtype, parameter.rank)


def derived(
    function: Function, request: DerivedKernel
) -> tuple[RegionKernel, int, tape_bound.Outline | None]:
    """The kernel for a request, as derivatives leave it; how many of its outputs are results; of an
    adjoint, what it keeps on tapes."""
    names = [function.parameters[k].name for k in request.sources]
    results = [*function.returned, *function.written]
    if not results:
        problem = "returns nothing, and writes to none of its arguments"
        raise KernelError(
            explain(function.name, problem, fix="return what is to be differentiated")
        )
    if request.kind == "primal":
        kernel, count = adjoint.primal_kernel(function), len(results)
        chosen = [k for k, m in enumerate(results) if m.dtype.startswith("float")]
    else:
        most_bytes = request.memory or None
        kernel = adjoint.adjoint_kernel(function, names, most_bytes)
        count = len(request.sources)
        chosen = list(range(count))
    is_whole = request.kind == "adjoint" and not request.order and not request.memory
    outline = tape_bound.outline(kernel) if is_whole else None
    if request.kind == "tape":
        kernel, count = adjoint.tape_kernel(kernel), 1
    for _ in range(request.order):
        kernel = tangent.tangent_kernel(kernel, request.sources, chosen)
        count = len(chosen)
        chosen = list(range(count))
    return kernel, count, outline


def fields(
    function: Function, parameters: tuple[Parameter, ...], request: DerivedKernel
) -> dict[str, Any]:
    """The fields of a `Generated`."""
    kernel, count, outline = derived(function, request)
    shapes_of = kernel
    if request.kind != "tape":
        body = with_rooms(kernel.body, kernel.builder)
        body = with_parallel_loops(body, kernel.builder, are_large=request.are_large)
        body = with_split_index_sets(body, kernel.builder)
        body = with_distributed_loops(body, kernel.builder, is_reordered=request.kind == "adjoint")
        kernel = replace(kernel, body=with_independent_loops(body))
    pairs = list(zip(kernel.inputs, parameters, strict=False))
    number_names = {m.name for m, p in pairs if p.is_number}
    return {
        "name": kernel.name,
        "source": source_writer.kernel_source(kernel, number_names),
        "shapes_source": source_writer.shapes_source(shapes_of, number_names),
        "inputs": [(m.name, m.name in number_names) for m in kernel.inputs],
        "output_dtypes": [m.dtype for m in kernel.outputs],
        "result_count": count,
        "returned_count": len(function.returned),
        "outline": outline,
        "written": [k for k, p in enumerate(function.parameters) if p in function.written],
        "complex_results": [
            k
            for k, m in enumerate([*function.returned, *function.written])
            if m in function.real_parts
        ],
        "result": function.result,
        "bool_results": [k for k, m in enumerate(function.returned) if m in function.of_bools],
    }
