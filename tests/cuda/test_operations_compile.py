"""Every operation of the registry that is no formula of elements becomes machine code, without
spills and in its precision. Formulas are in `test_expressions.py`."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from numba_grad.compiler.cuda.build import SOURCE_ARCHITECTURE
from numba_grad.compiler.cuda.target import cuda_destination
from numba_grad.compiler.programs import compile_program
from numba_grad.graph.node import Op, argument
from numba_grad.graph.types import array_type
from numba_grad.ops import all_ops
from tests.cuda.library_calls import ptx_that_fits
from tests.cuda.requirements import needs_compiler

# Computed in double precision also of single precision, as on the CPU.
DOUBLE = (
    *("gamma_draw", "poisson_draw", "gamma_moment", "beta_moment"),
    *("zeta_derivative", "hyp1f1_derivative", "bessel_k_derivative"),
)
# Products of pivots are scaled in double precision, so that they neither overflow nor vanish on
# the way.
SCALED_IN_DOUBLE = ("det", "slogdet", "cofactor")
# Moves are no kernels; users' kernels, and calls of CuPy, are others'.
WITHOUT_KERNELS = (
    *("to_device", "custom_kernel", "matmul_add", "cofactor_in_direction", "eig", "eigvals"),
    *("expm", "fft", "rfft", "irfft", "lstsq", "solve_by_factors", "solve_sylvester", "sqrtm"),
    *("svd", "svdvals"),
)
SINGLE = {"d": "f", "D": "F"}


def has_two(op: Op) -> bool:
    """Whether kernels in single precision are others than in double precision: not by loads and
    stores alone, nor for integers."""
    arrays, _ = op.example(np.random.default_rng(0))[0]
    return op.name not in DOUBLE and any(np.asarray(a).dtype.char in SINGLE for a in arrays)


def cases() -> Iterator[Any]:
    for op in all_ops().values():
        if op.family == "elementwise" or op.example is None or op.name in WITHOUT_KERNELS:
            continue
        for precision in ("single", "double") if has_two(op) else ("single",):
            yield pytest.param(op, precision, id=f"{op.name}, {precision}")


def kernels(op: Op, precision: str) -> dict[str, int]:
    """The sources for the registry's examples, and the threads of a block of each."""
    found = {}
    for arrays, params in op.example(np.random.default_rng(0)):
        dtypes = [np.asarray(a).dtype for a in arrays]
        if precision == "single":
            dtypes = [np.dtype(SINGLE.get(d.char, d.char)) for d in dtypes]
        inputs = [argument(array_type(np.shape(a), d)) for a, d in zip(arrays, dtypes, strict=True)]
        target = cuda_destination(SOURCE_ARCHITECTURE)
        plan = compile_program(inputs, [op(*inputs, **params)], destination=target).plan
        for number, _, _, threads in plan.steps.tolist():
            found[plan.kernels[number].source] = threads
    return found


@pytest.mark.thorough(but="^(matmul|cumsum), single")
@needs_compiler
@pytest.mark.parametrize(("op", "precision"), list(cases()))
def test_kernels_compile(op, precision):
    texts = [ptx_that_fits(source, threads) for source, threads in kernels(op, precision).items()]
    assert texts
    if precision == "single":
        assert any(".f64" in ptx for ptx in texts) == (op.name in (*DOUBLE, *SCALED_IN_DOUBLE))
