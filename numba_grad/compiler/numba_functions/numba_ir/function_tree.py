"""The tree of a whole function."""

import inspect
from collections.abc import Sequence
from typing import Any

from numba.core import types
from numba.np.ufunc.dufunc import DUFunc

from numba_grad.compiler.numba_functions import complex_numbers
from numba_grad.compiler.numba_functions.analyses import written
from numba_grad.compiler.numba_functions.builder import Builder
from numba_grad.compiler.numba_functions.numba_ir.control_flow import Translation
from numba_grad.compiler.numba_functions.numba_ir.findings import Again, Findings, check_copies
from numba_grad.compiler.numba_functions.numba_ir.meanings import Known, Meaning, flattened
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
    if isinstance(function, DUFunc):
        plain = _of_arrays(function)
    findings = Findings()
    while True:
        findings.shared, findings.copies = [], set()
        try:
            return _whole_function(plain, arguments, findings)
        except Again:
            continue


def _of_arrays(ufunc: Any) -> Any:
    """A function that calls what `numba.vectorize` has made."""
    plain = ufunc._dispatcher.py_func
    names = ", ".join(inspect.signature(plain).parameters)
    namespace: dict[str, Any] = {"ufunc": ufunc}
    exec(f"def of_arrays({names}):\n    return ufunc({names})", namespace)
    function = namespace["of_arrays"]
    function.__name__ = plain.__name__
    return function


def _whole_function(plain: Any, arguments: Sequence[types.Type], findings: Findings) -> Function:
    builder = Builder(is_numbering=True, of_complex=complex_numbers.OPERATIONS)
    parameters: list[Memory] = []

    def argument(name: str, numba_type: Any) -> Meaning:
        if isinstance(numba_type, types.BaseTuple | types.Record):
            parts = parts_of_type(numba_type)
            return tuple([argument(f"{name}_{k}", part) for k, part in parts])
        if isinstance(numba_type, types.BooleanLiteral):
            return fixed_value(numba_type)
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
    if result is None:
        result = 0.0  # The function raises an exception in any case.
    check_copies(builder.body, findings, parameters)
    parts = flattened(result)
    parts = [part for part in parts if not isinstance(part, Known)]
    is_mixed = len({_dtype_of(part) for part in parts if _is_result(part)}) > 1
    returned = [_result(translation, part, is_mixed=is_mixed) for part in parts]
    bools = [m for m, part in zip(returned, parts, strict=True) if m.dtype != _dtype_of(part)]
    written_names = {s.name for s in written(builder.body)}
    return complex_numbers.with_pairs(
        Function(
            plain.__name__ if plain.__name__.isidentifier() else "function",
            parameters,
            builder.body,
            [p for p in parameters if p.rank and p.name in written_names],
            returned,
            _form_of_result(result, translation.code.return_type),
            builder,
            of_bools=frozenset(bools),
        )
    )


def _form_of_result(result: Meaning, numba_type: Any) -> Any:
    """True for an array or a number, None for None; of a tuple its name, "" without one, the names
    of its fields, and the forms of its parts."""
    if not isinstance(result, tuple):
        return None if isinstance(result, Known) and result.value is None else True
    kind = getattr(numba_type, "instance_class", None)
    parts = [_form_of_result(*pair) for pair in zip(result, numba_type, strict=True)]
    return [kind.__name__ if kind else "", list(getattr(kind, "_fields", ())), parts]


def _is_result(part: Meaning) -> bool:
    return isinstance(part, Memory | View | Scalar | bool | int | float)


def _dtype_of(part: Memory | View | Value) -> str:
    return part.dtype if isinstance(part, Memory | View) else dtype_of(part)


def _result(translation: "Translation", part: Meaning, *, is_mixed: bool) -> Memory:
    """A memory that nobody else writes to, with what is returned. Results of several dtypes lie in
    memory together, bools as integers."""
    builder = translation.builder
    if not _is_result(part):
        raise translation.refused("what is returned here, neither array nor number,")
    dtype = _dtype_of(part)
    dtype = "int64" if is_mixed and dtype == "bool" else dtype
    if not isinstance(part, Memory | View):
        memory = builder.allocate("returned", dtype)
        builder.store(memory, (), builder.define("cast", part, dtype=dtype))
        return memory
    view = part if isinstance(part, View) else builder.whole(part)
    memory = builder.allocate("returned", dtype, view.shape)
    with builder.elements(view.shape) as at:
        value = builder.load_view(view, *at)
        builder.store(memory, at, builder.define("cast", value, dtype=dtype))
    return memory
