"""Our own kernels of matrix products."""

import itertools

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.compiler.cuda.library_kernels import matrix_products
from numba_grad.compiler.cuda.library_kernels.kernel_source import merged_axes
from numba_grad.compiler.library_kernels import MatrixOperand
from tests.cuda.emulator import EmulatedDriver
from tests.cuda.host_driver import installed
from tests.cuda.library_calls import call_of, check_compiles, emulated, node_of
from tests.cuda.requirements import needs_compiler

DTYPES = ("float32", "float64", "complex64", "complex128", "float16", "int8", "int64", "bool")


def numbers(shape, dtype, seed=0):
    values = np.random.default_rng(seed).standard_normal(shape)
    dtype = np.dtype(dtype)
    if dtype.kind == "c":
        values = values + 1j * values[::-1]
    return np.asarray(values > 0 if dtype.kind == "b" else 3 * values).astype(dtype)


def check(node, *arrays):
    value, _ = emulated(node, *arrays)
    x, y = (a.astype(np.float32) if a.dtype == np.float16 else a for a in arrays)
    expected = np.matmul(x, y)
    if value.dtype.kind in "fc":
        eps = np.finfo(value.dtype).eps
        scale = np.matmul(np.abs(x), np.abs(y)).astype(np.float64)
        assert (np.abs(value - expected) <= 8 * eps * scale).all()
    else:
        np.testing.assert_array_equal(value, expected)
    return value


@pytest.mark.thorough(every=3)
@pytest.mark.parametrize("dtype", DTYPES)
def test_values(dtype):
    for m, n, k in ((5, 7, 3), (17, 19, 20)):
        x, y = numbers((m, k), dtype), numbers((k, n), dtype, 1)
        check(node_of("matmul", x, y), x, y)


@pytest.mark.parametrize(
    ("m", "n", "k"), [(1, 1, 1), (33, 8, 17), (129, 2, 1), (4, 3, 0), (33, 9, 0)]
)
def test_odd_sizes(m, n, k):
    x, y = numbers((m, k), "float32"), numbers((k, n), "float32", 1)
    check(node_of("matmul", x, y), x, y)


def test_larger_tiles():
    x, y = numbers((70, 9), "float64"), numbers((9, 200), "float64", 1)
    call = call_of(node_of("matmul", x, y))
    assert f"cuda.shared.array({16 * 68}, float64)" in call.steps[0].source
    check(node_of("matmul", x, y), x, y)


@pytest.mark.thorough(every=4)
@pytest.mark.parametrize("stacks", [((2,), ()), ((), (3,)), ((2, 1), (1, 3)), ((0,), (1,))])
def test_stacks_broadcast(stacks):
    for m, n in ((2, 2), (1, 260)):
        x, y = numbers((*stacks[0], m, 3), "float32"), numbers((*stacks[1], 3, n), "float32", 1)
        check(node_of("matmul", x, y), x, y)


@pytest.mark.parametrize("transposed", list(itertools.product([False, True], repeat=2)))
def test_operands_stored_transposed(transposed):
    for m, n in ((5, 3), (18, 17)):
        x, y = numbers((2, m, 4), "float32"), numbers((2, 4, n), "float32", 1)
        kept = [
            np.ascontiguousarray(a.swapaxes(1, 2)) if t else a
            for a, t in zip((x, y), transposed, strict=True)
        ]
        operands = [MatrixOperand((2,), t) for t in transposed]
        call = matrix_products.matmul_call(np.dtype(np.float32), m, n, 4, *operands)
        value, _ = emulated(node_of("matmul", x, y), *kept, call=call)
        np.testing.assert_allclose(value, x @ y, rtol=1e-5, atol=1e-5)


@pytest.mark.thorough
def test_long_sums_are_cut_into_parts():
    x, y = numbers((2, 520), "float32"), numbers((520, 3), "float32", 1)
    node = node_of("matmul", x, y)
    assert len(call_of(node).steps) == 2
    check(node, x, y)


def test_half_precision_is_summed_in_single_precision():
    x, y = np.ones((1, 17), np.float16), np.ones((17, 1), np.float16)
    x[0, 0] = 2048  # to which adding 1 changes nothing in half precision
    value, _ = emulated(node_of("matmul", x, y), x, y)
    assert value == 2064


def test_half_precision_stays_in_memory():
    """On the CPU operands become float32 first, for BLAS; here nothing is gained by that."""
    with installed(EmulatedDriver()):
        x = ng.tensor(np.ones((33, 33), np.float16), device="cuda")
        kernels = ng.jit(lambda x: x @ x).lower(x).kernels
    assert kernels and all("# matmul: float16" in kernel.source for kernel in kernels)


@pytest.mark.parametrize(
    ("words", "axes"),
    [
        ([2, 3, 40, 20, 2, 20, 10], [(6, 20, 10)]),
        ([2, 3, 0, 20, 2, 0, 10], [(6, 0, 10)]),
        ([2, 3, 20, 0, 2, 0, 10], [(3, 20, 0), (2, 0, 10)]),
        ([2, 1, 0, 0, 2, 20, 10], [(2, 20, 10)]),
        ([0], []),
    ],
)
def test_axes_of_stacks_are_merged(words, axes):
    assert merged_axes(words) == axes


@pytest.mark.thorough(but="^float32-20$")
@needs_compiler
@pytest.mark.parametrize(
    ("dtype", "size"),
    [
        *(("float32", 20), ("float32", 4000), ("float64", 200), ("complex64", 200)),
        *(("complex128", 200), ("float16", 4000), ("bool", 20), ("float16", 4)),
    ],
)
def test_compiles(dtype, size):
    dtype = np.dtype(dtype)
    operands = MatrixOperand((), True), MatrixOperand((2,), False)
    check_compiles(
        matrix_products.matmul_call(dtype, size, size, 600 if size > 4 else 4, *operands), dtype
    )
