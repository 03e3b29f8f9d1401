"""Every expression of the operation registry, in each of its dtypes, as CUDA kernels."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from numba_grad.compiler.cuda.expressions import KernelExpressions, storage_name
from numba_grad.compiler.scalar_expressions import Term, parsed
from numba_grad.dtypes import is_storage_only
from numba_grad.graph.node import Op
from numba_grad.graph.types import array_type
from numba_grad.ops import all_ops


@dataclass(frozen=True, eq=False)
class Case:
    """One op with the dtypes of its inputs, its params, and the dtype of its result."""

    op: Op
    dtypes: tuple[np.dtype, ...]
    params: dict[str, Any]
    result: np.dtype

    @property
    def term(self) -> Term:
        text = self.op.expression
        assert text is not None
        return parsed(text(**self.params) if callable(text) else text)

    def __str__(self) -> str:
        params = "".join(f" {name}={value}" for name, value in self.params.items())
        return f"{self.op.name} {' '.join(d.name for d in self.dtypes)}{params}"


def cases(characters: str = "?biqBQefdFD") -> Iterator[Case]:
    """Of every elementwise op, in those of the dtypes that it takes."""
    for op in all_ops().values():
        if op.family != "elementwise" or op.expression is None or op.example is None:
            continue
        examples = op.example(np.random.default_rng(0))
        distinct = {str(params): params for _, params in examples}
        for character in characters:
            if character not in op.dtypes:
                continue
            for params in distinct.values():
                is_integer = np.dtype(character).kind in "iu"
                if op.name == "integer_power" and is_integer and params["exponent"] < 0:
                    continue
                yield _case(op, np.dtype(character), params)


def _case(op: Op, dtype: np.dtype, params: dict[str, Any]) -> Case:
    dtypes = tuple(np.dtype(bool) if low is False else dtype for low, _ in op.samples)
    result = op.infer(*(array_type((3,), d) for d in dtypes), **params).dtype
    return Case(op, dtypes, params, result)


def source_of(group: list[Case]) -> str:
    """One kernel that computes element i of each case: parameters are n, then for each case its
    inputs and its result."""
    expressions = KernelExpressions()
    parameters: list[tuple[str, np.dtype]] = []
    body = []
    for number, case in enumerate(group):
        operands = {}
        for k, (name, dtype) in enumerate(zip(case.op.input_names, case.dtypes, strict=True)):
            pointer, value = f"x{number}_{k}", f"a{number}_{k}"
            parameters.append((pointer, dtype))
            body.append(f"{value} = {_loaded(f'{pointer}[i]', dtype)}")
            operands[name] = (value, dtype)
        casts = case.result.kind in "iub"
        text = expressions.apply(case.term, operands, case.result, casts)
        parameters.append((f"y{number}", case.result))
        body.append(f"y{number}[i] = {_stored(text, case.result)}")
    signature = ", ".join(["int64", *(f"CPointer({storage_name(d)})" for _, d in parameters)])
    names = ", ".join(["n0", *(name for name, _ in parameters)])
    lines = "\n".join(f"        {line}" for line in body)
    kernel = (
        f'@cuda.jit("void({signature})")\n'
        f"def kernel({names}):\n"
        "    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x\n"
        f"    if i < n0:\n{lines}\n"
    )
    return "\n\n".join([*expressions.definitions(), kernel])


def _loaded(text: str, dtype: np.dtype) -> str:
    if dtype.kind == "b":
        return f"{text} != uint8(0)"
    return f"float32({text})" if is_storage_only(dtype) else text


def _stored(text: str, dtype: np.dtype) -> str:
    if dtype.kind == "b":
        return f"uint8({text})"
    return f"{dtype.name}({text})" if is_storage_only(dtype) else text
