"""The tree of a whole function."""

import inspect
from collections.abc import Sequence
from typing import Any

from numba.core import types

from numba_grad.compiler.numba_functions import complex_numbers
from numba_grad.compiler.numba_functions.analyses import written
from numba_grad.compiler.numba_functions.builder import Builder
from numba_grad.compiler.numba_functions.numba_ir.control_flow import Translation
from numba_grad.compiler.numba_functions.numba_ir.findings import Again, Findings, check_copies
from numba_grad.compiler.numba_functions.numba_ir.meanings import Known, Meaning
from numba_grad.compiler.numba_functions.numba_ir.type_inference import (
    dtype_name,
    fixed_value,
    parts_of_type,
)
from numba_grad.compiler.numba_functions.regions import Function, Memory, Scalar, Value, View
from numba_grad.compiler.numba_functions.scalar_operations import dtype_of


def function_tree(function: Any, arguments: Sequence[types.Type]) -> Function:
    """The tree of a function for arguments of these types.

    Raises
    ------
    KernelError
        If Numba cannot type it, or if it has something that is not differentiated: the message has
        its line.
    """
    plain = getattr(function, "py_func", function)
    findings = Findings()
    while True:
        findings.shared, findings.copies = [], set()
        try:
            return _whole_function(plain, arguments, findings)
        except Again:
            continue


def _whole_function(plain: Any, arguments: Sequence[types.Type], findings: Findings) -> Function:
    builder = Builder(is_numbering=True, of_complex=complex_numbers.OPERATIONS)
    parameters: list[Memory] = []

    def argument(name: str, numba_type: Any) -> Meaning:
        if isinstance(numba_type, types.BaseTuple | types.Record):
            parts = parts_of_type(numba_type)
            return tuple([argument(f"{name}_{k}", part) for k, part in parts])
        if isinstance(numba_type, types.NoneType | types.StringLiteral | types.Dispatcher):
            return Known(fixed_value(numba_type))
        is_array = isinstance(numba_type, types.Array)
        dtype = str(numba_type.dtype) if is_array else dtype_name(numba_type)
        memory = Memory(builder.name(name), dtype, numba_type.ndim if is_array else 0)
        parameters.append(memory)
        if not is_array:
            return builder.load(memory)
        builder.measure(memory)
        return memory

    names = inspect.signature(plain).parameters
    meanings = [argument(*pair) for pair in zip(names, arguments, strict=True)]
    translation = Translation(builder, plain, arguments, findings, ())
    result = translation.run(meanings)
    check_copies(builder.body, findings, parameters)
    returned, returns_tuple = _results(translation, result)
    written_names = {s.name for s in written(builder.body)}
    return complex_numbers.with_pairs(
        Function(
            plain.__name__ if plain.__name__.isidentifier() else "function",
            parameters,
            builder.body,
            [p for p in parameters if p.rank and p.name in written_names],
            returned,
            returns_tuple,
            builder,
        )
    )


def _results(translation: "Translation", result: Meaning) -> tuple[list[Memory], bool]:
    """Memories that nobody else writes to, with what is returned."""
    builder = translation.builder
    if isinstance(result, Known) and result.value is None:
        return [], False
    parts = result if isinstance(result, tuple) else (result,)
    memories = []
    for part in parts:
        if isinstance(part, Memory | View):
            view = part if isinstance(part, View) else builder.whole(part)
            memory = builder.allocate("returned", view.dtype, view.shape)
            _copy(builder, view, memory)
        elif not isinstance(part, Scalar | bool | int | float):
            raise translation.refused("what is returned here, neither array nor number,")
        else:
            memory = builder.allocate("returned", dtype_of(part))
            builder.store(memory, (), part)
        memories.append(memory)
    return memories, isinstance(result, tuple)


def _copy(builder: Builder, view: View, memory: Memory, indices: tuple[Value, ...] = ()) -> None:
    if len(indices) == view.rank:
        builder.store(memory, indices, builder.load_view(view, *indices))
        return
    with builder.loop(view.shape[len(indices)]) as index:
        _copy(builder, view, memory, (*indices, index))
