"""Arrays of more than 2**31 elements: compiled from their types alone, nothing of them is there."""

import re

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.autograd.tensor_class import new_tensor
from numba_grad.compiler.compiled_program import CompiledProgram
from numba_grad.compiler.cuda.build import SOURCE_ARCHITECTURE
from numba_grad.compiler.cuda.library_steps import MOST_BLOCKS
from numba_grad.compiler.cuda.target import cuda_destination
from numba_grad.compiler.programs import compile_program
from numba_grad.errors import KernelError
from numba_grad.graph.node import argument
from numba_grad.graph.types import array_type
from numba_grad.graph.walk import toposort
from tests.cuda.requirements import needs_compiler

MANY = 2**31 + 2**20 + 7
FLOAT32 = np.dtype(np.float32)
LONG, TALL, WIDE = (MANY,), (MANY // 8, 16), (16, MANY // 8)
CASES = {
    "elementwise": (lambda x: ng.sin(x) * 2, LONG),
    "gradient": (lambda x: ng.grad(lambda x: (ng.tanh(x) ** 2).sum())(x), LONG),
    "sum": (ng.sum, LONG),
    "sum of rows": (lambda x: ng.sum(x, 1), TALL),
    "sum of long rows": (lambda x: ng.sum(x, 1), WIDE),
    "sum of columns": (lambda x: ng.sum(x, 0), TALL),
    "extreme": (lambda x: ng.argmax(x, 0), WIDE),
    "transpose": (lambda x: x.T + 1, TALL),
    "stencil": (lambda x: x[2:] - 2 * x[1:-1] + x[:-2], LONG),
    "reverse": (lambda x: x[::-1] * x, LONG),
    "pad": (lambda x: ng.pad(x, 3, mode="edge"), LONG),
    "assignment": (lambda x: _assigned(x), LONG),
    "gather": (lambda x: x[ng.arange(10**6) * 2000], LONG),
    "scatter": (lambda x: ng.grad(lambda x: (x[ng.arange(10**6) * 2000] ** 2).sum())(x), LONG),
    "scan": (lambda x: ng.cumsum(x), LONG),
    "scan of columns": (lambda x: ng.cumsum(x, 0), TALL),
    "sort of rows": (lambda x: ng.sort(x, 1), TALL),
    "product": (lambda x: x @ ng.ones((16, 4), np.float32), TALL),
    "product of long rows": (lambda x: x @ x.T, WIDE),
    "all pairs": (lambda x: ng.sum(ng.exp(-((x[:, None] - x[:100]) ** 2)), 1), (MANY // 100,)),
}


def _assigned(x):
    y = x * 1
    y[5:] = 0.0
    return y


def compiled(name: str, architecture: str) -> CompiledProgram:
    f, shape = CASES[name]
    x = argument(array_type(shape, FLOAT32))
    outputs = [f(new_tensor(x))._node]
    leaves = [node for node in toposort(outputs) if node.op.family == "leaf"]
    return compile_program(leaves, outputs, destination=cuda_destination(architecture))


@pytest.mark.parametrize("name", CASES)
def test_indices_are_as_wide_as_sizes(name):
    plan = compiled(name, SOURCE_ARCHITECTURE).plan
    assert len(plan.steps)
    starts = [*plan.steps[:, 1].tolist(), len(plan.words)]
    for number, (kernel, start, blocks, threads) in enumerate(plan.steps.tolist()):
        assert 1 <= blocks <= MOST_BLOCKS and 1 <= threads <= 1024
        source = plan.kernels[kernel].source
        words = plan.words[start : starts[number + 1]]
        if words.max(initial=0) < 2**31:
            continue
        parameters = re.search(r"def kernel\((.*)\):", source)[1].split(", ")
        for parameter, word in zip(parameters, words.tolist(), strict=True):
            if word >= 2**31:
                assert not re.search(rf"\bu?int32\({parameter}\)", source), f"{parameter} = {word}"


def test_lines_that_are_too_long_to_sort_are_refused():
    x = argument(array_type(LONG, FLOAT32))
    with pytest.raises(KernelError, match="a line is too long"):
        compile_program(
            [x], [ng.sort(new_tensor(x))._node], destination=cuda_destination(SOURCE_ARCHITECTURE)
        )


def test_grids_beyond_limits_are_refused():
    x = argument(array_type((MANY, 1), np.dtype(bool)))
    with pytest.raises(KernelError, match=r"argsort: more blocks than a grid(?s:.)*2147483647"):
        compile_program(
            [x],
            [ng.argsort(new_tensor(x), 1)._node],
            destination=cuda_destination(SOURCE_ARCHITECTURE),
        )


@needs_compiler
@pytest.mark.parametrize("name", ["gradient", "sum of rows", "transpose", "stencil"])
def test_wide_kernels_compile(name):
    for kernel in compiled(name, "sm_90").plan.kernels:
        assert kernel.code[:4] == b"\x7fELF"
        assert kernel.spilled_bytes == 0
