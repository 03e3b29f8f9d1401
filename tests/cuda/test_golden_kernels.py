"""The CUDA source of representative kernels, word for word, in `tests/golden/cuda`; compiled for
two architectures, and what ptxas says of them.

`pytest --update-golden` writes these files anew; the diff then shows what a change of the compiler
does to kernels.
"""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.compiler.cuda import build, front_end, index_arithmetic, link
from numba_grad.compiler.partition import flat_graph
from tests.compiler import test_golden
from tests.compiler.test_golden import matrix, vector
from tests.cuda.emulator import EmulatedDriver
from tests.cuda.graph_kernels import GraphRun
from tests.cuda.host_driver import installed
from tests.cuda.requirements import needs_compiler

GOLDEN = Path(__file__).parents[1] / "golden" / "cuda"
# Sums of all elements, rows and columns are in `all_pairs`, `any` and `float16`; gradients of pairs
# in `forces`.
SAME_AS_ON_THE_CPU = (
    *("elementwise_1d", "float32", "complex", "integers", "broadcasting", "small_axis"),
    *("rk4_step_ensemble", "stencil", "stencil_gradient", "gather", "where", "all_pairs"),
    *("black_scholes_gradient", "argmax", "concatenate", "eye"),
)


def forces(x):
    def energy(x):
        difference = x[:, None] - x[None, :]
        squares = (difference * difference).sum(axis=2) + np.float32(0.1)
        return (1 / squares**6 - 1 / squares**3).sum()

    return ng.grad(energy)(x)


def driven_oscillators(x, v, t, forces):
    """Time is one number, which each thread counts."""

    def step(state, force):
        x, v, t = state
        v = v - np.float32(0.1) * (np.tanh(x) - force * np.tanh(t))
        return (x + np.float32(0.1) * v, v, t + np.float32(0.1)), x * v

    return ng.scan(step, (x, v, t), forces)


# Name: function, and its arguments for a size n.
CASES = {
    **{name: test_golden.CASES[name] for name in SAME_AS_ON_THE_CPU},
    "float16": (lambda x: (x * x).sum(axis=0), lambda n: (matrix(n, np.float16),)),
    "any": (lambda x: (x > 1).any(axis=1), lambda n: (matrix(n, np.float32),)),
    "complex_sum": (lambda x: x.sum(), lambda n: (vector(n, np.complex64),)),
    "short_rows": (
        lambda x: x.max(axis=1),
        lambda n: (vector(20 * n, np.float32).reshape(n, 20),),
    ),
    "long_rows": (
        lambda x: x.sum(axis=1),
        lambda n: (np.broadcast_to(np.float32(1), (40, 100 * n)),),
    ),
    "many_columns": (
        lambda x: x.sum(axis=0),
        lambda n: (np.broadcast_to(np.float32(1), (40, 1000 * n)),),
    ),
    "columns_in_parts": (
        lambda x: x.sum(axis=0),
        lambda n: (np.broadcast_to(np.float32(1), (1000 * n, 40)),),
    ),
    "transpose_3d": (
        lambda x: x.transpose(2, 0, 1) + 1,
        lambda n: (np.broadcast_to(np.float32(1), (n, n + 30, n)),),
    ),
    "batch": (lambda x, y: (x - y, x * y), lambda n: (vector(n, np.float32),) * 2),
    "large_transpose": (
        lambda x: x.T + 1,
        lambda n: (np.broadcast_to(np.float32(1), (1000 * n, 11000)),),
    ),
    "forces": (forces, lambda n: (vector(3 * n, np.float32).reshape(n, 3),)),
}
# Compiled as plans are: kernels over the same rows become one, and loops whose points never meet.
PLANS = {
    "row_chain_of_warps": (
        lambda x: ng.softmax(x * 2, 1),
        lambda n: (np.broadcast_to(np.float32(1), (n, 100)),),
    ),
    "row_chain_of_blocks": (
        lambda x: (x - x.mean(1, keepdims=True)) / x.std(1, keepdims=True),
        lambda n: (np.broadcast_to(np.float32(1), (n, n + 700)),),
    ),
    "loop_of_points": (
        driven_oscillators,
        lambda n: (*[vector(n, np.float32)] * 2, np.float32(1), np.ones((50, n), np.float32)),
    ),
}
NAMES = (*CASES, *PLANS)
FLOAT32 = (
    "float32",
    "any",
    "short_rows",
    "long_rows",
    "many_columns",
    "columns_in_parts",
    "forces",
    "batch",
    "complex_sum",
    "transpose_3d",
    "large_transpose",
    *PLANS,
)


@pytest.fixture(autouse=True)
def _nothing_is_compiled_yet(monkeypatch):
    """Plans of other tests would be taken as they are."""
    monkeypatch.setattr(flat_graph, "_table", flat_graph.Signatures())


def sources(name, size=300):
    """The kernels that a case compiles to."""
    if name in PLANS:
        f, arguments = PLANS[name]
        with installed(EmulatedDriver()):
            lowered = ng.jit(f).lower(*[ng.tensor(x, device="cuda") for x in arguments(size)])
            return [kernel.source for kernel in lowered.kernels]
    f, arguments = CASES[name]
    run = GraphRun(is_run=False)
    run.evaluate(f, *arguments(size))
    return [emitted.source for emitted in run.emitted]


@pytest.mark.parametrize("name", NAMES)
def test_kernels_are_as_recorded(name, request):
    path = GOLDEN / f"{name}.py"
    text = "\n\n".join(sources(name))
    if request.config.getoption("--update-golden"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), (
        "run `pytest --update-golden` and read the diff"
    )


@pytest.mark.parametrize("name", NAMES)
def test_kernels_do_not_depend_on_sizes(name):
    assert sources(name, 300) == sources(name, 431)


def test_every_recorded_file_has_a_case():
    assert {path.stem for path in GOLDEN.glob("*.py")} == set(NAMES)


@pytest.mark.thorough(every=15)
@needs_compiler
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
@pytest.mark.parametrize("name", NAMES)
def test_kernels_compile_without_spills(name, architecture):
    for kernel in build.build_all(sources(name), architecture):
        assert kernel.spilled_bytes == 0
        assert kernel.registers <= 96
        if name in FLOAT32:
            assert ".f64" not in kernel.ptx


@pytest.mark.thorough
@needs_compiler
@pytest.mark.skipif(
    find_spec("numba_cuda_mlir") is None,
    reason="numba-cuda-mlir is not installed: pip install '.[cuda-mlir]'",
)
@pytest.mark.parametrize("name", NAMES)
def test_kernels_compile_with_numba_cuda_mlir(name, monkeypatch):
    monkeypatch.setenv(front_end.VARIABLE, "numba-cuda-mlir")
    for source in sources(name):
        ptx = front_end.compile_to_ptx(source, "sm_90")
        _, usage = link.link(ptx, "sm_90")
        assert usage.spilled_bytes == 0
        if name in FLOAT32:
            assert ".f64" not in ptx


@pytest.mark.thorough
@needs_compiler
@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint64, np.float16])
def test_extremes_of_small_dtypes_compile(dtype):
    """Shuffles move 32 or 64 bits, and Numba compares integers of different signs as floats."""
    run = GraphRun(is_run=False)
    x = np.broadcast_to(np.zeros((), dtype), (40, 5000))
    run.evaluate(lambda x: (x.max(axis=1), x.argmin(axis=1)), x)
    for kernel in build.build_all([emitted.source for emitted in run.emitted], "sm_90"):
        assert kernel.spilled_bytes == 0
        assert ".f64" not in kernel.ptx


@pytest.mark.thorough(every=6)
@needs_compiler
@pytest.mark.parametrize(
    "name", ["short_rows", "columns_in_parts", "forces", "transpose_3d", *PLANS]
)
def test_wide_indices_are_integers(name, monkeypatch):
    """Numba adds signed and unsigned integers of 64 bits as floats."""
    monkeypatch.setattr(index_arithmetic, "MOST_NARROW", 100)
    for kernel in build.build_all(sources(name), "sm_90"):
        assert "int32(n0)" not in kernel.source
        assert ".f64" not in kernel.ptx
