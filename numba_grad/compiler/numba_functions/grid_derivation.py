"""What is generated for a request of a CUDA kernel, from the tree of one thread. This module
imports Numba."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from numba_grad.compiler.numba_functions import (
    derivation,
    grid_source_writer,
    source_writer,
    tape_bound,
)
from numba_grad.compiler.numba_functions.analyses import checks_of_shapes
from numba_grad.compiler.numba_functions.counting_loops import with_counting_loops
from numba_grad.compiler.numba_functions.grid_kernels import check_threads, on_grid, without_guards
from numba_grad.compiler.numba_functions.numba_ir import kernel_front_end
from numba_grad.compiler.numba_functions.own_elements import with_parts
from numba_grad.compiler.numba_functions.regions import (
    FLOATS,
    Function,
    Memory,
    RegionKernel,
    Shape,
)
from numba_grad.compiler.numba_functions.tapes import dtype_of_result

if TYPE_CHECKING:
    from numba_grad.compiler.numba_functions.generated import DerivedKernel, Form, Parameter


def tree(kernel: Any, parameters: "tuple[Parameter, ...]", forms: "tuple[Form, ...]") -> Function:
    """The tree of what one thread does, for arguments of these types."""
    plain = kernel_front_end.thread_function(kernel)
    found = derivation.tree(plain, parameters, forms, of_thread=True)
    assert found.builder is not None
    builder = found.builder.copy()
    found = replace(found, body=with_counting_loops(found.body, builder), builder=builder)
    numbers = {m.name for m, p in zip(found.parameters, parameters, strict=True) if p.is_number}
    check_threads(found.name, found.body, checks_of_shapes(found.body, numbers))
    return found


def fields(
    function: Function, parameters: "tuple[Parameter, ...]", request: "DerivedKernel"
) -> dict[str, Any]:
    """The fields of a `Generated`."""
    inner, guards = without_guards(function)
    derived, count, _ = derivation.derived(inner, request)
    shapes = {**derived.shapes, **_shapes_of_inputs(derived, function, request)}
    grid = on_grid(replace(derived, shapes=shapes), count, guards)
    added: list[tuple[int, int]] = []
    if not request.has_atomics:
        grid, added = with_parts(grid, count, request.counted)
    kernel = grid.kernel
    pairs = list(zip(kernel.inputs, parameters, strict=False))
    number_names = {m.name for m, p in pairs if p.is_number}
    arrays = [m for m in kernel.inputs if m.name not in number_names]
    beginnings = [grid.beginnings.get(m) for m in kernel.outputs]
    tapes = grid_source_writer.tapes_of(kernel)
    return {
        "name": kernel.name,
        "source": grid_source_writer.kernel_source(kernel, number_names, request.counted),
        "shapes_source": source_writer.shapes_source(kernel, number_names),
        "inputs": [(m.name, m.name in number_names) for m in kernel.inputs],
        "output_dtypes": [
            *[m.dtype for m in kernel.outputs],
            *map(dtype_of_result, tapes),
        ],
        "result_count": count,
        "returned_count": 0,
        "outline": None,
        "written": [k for k, p in enumerate(function.parameters) if p in function.written],
        "beginnings": [
            None if not output.rank else -1 if m is None else arrays.index(m)
            for output, m in zip(kernel.outputs, beginnings, strict=True)
        ],
        "of_threads": [k for k, m in enumerate(kernel.outputs) if not m.rank],
        "added": added,
        "tapes": [(tape, tape_bound.outline(kernel, tape)) for tape in tapes],
    }


def _shapes_of_inputs(
    kernel: RegionKernel, function: Function, request: "DerivedKernel"
) -> dict[Memory, Shape]:
    """Cotangents and directions have the shapes of arguments."""
    arguments, others = kernel.inputs[: len(function.parameters)], []
    if request.kind == "adjoint":
        pairs = zip(function.parameters, arguments, strict=True)
        others += [m for p, m in pairs if p in function.written and p.dtype in FLOATS]
    others += [arguments[k] for _ in range(request.order) for k in request.sources]
    return dict(zip(kernel.inputs[len(arguments) :], others, strict=True))
