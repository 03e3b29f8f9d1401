"""Products by cuBLAS, for which a stand-in made of NumPy checks what it is given."""

import itertools

import numpy as np
import pytest

from numba_grad.compiler.cuda.library_kernels import Options
from numba_grad.compiler.cuda.target import cuda_destination
from numba_grad.compiler.programs import compile_program
from numba_grad.errors import DeviceError
from numba_grad.graph.node import OPS, argument, record
from numba_grad.graph.types import array_type
from numba_grad.runtime.cuda import libraries
from numba_grad.runtime.cuda.arrays import from_host
from numba_grad.runtime.cuda.engine import Program
from tests.cuda.emulator import EmulatedDriver
from tests.cuda.host_driver import installed
from tests.cuda.test_matrix_products import numbers

TYPES = {
    **{0: "float32", 1: "float64", 2: "float16", 4: "complex64", 5: "complex128"},
    14: "bfloat16",
}


class StandInLibrary:
    """`cublasGemmStridedBatchedEx_64` by NumPy, on the memory and in the streams of a driver."""

    def __init__(self, driver):
        self.driver = driver
        self.stream = None
        self.workspace = None
        self.calls = []

    def cublasCreate_v2(self, handle):
        handle._obj.value = 0x77
        return 0

    def cublasSetMathMode(self, handle, mode):
        assert mode == 16
        return 0

    def cublasSetStream_v2(self, handle, stream):
        self.stream, self.workspace = stream.value or 0, None
        return 0

    def cublasSetWorkspace_v2(self, handle, address, nbytes):
        self.workspace = address.value, nbytes.value
        return 0

    def cublasGemmStridedBatchedEx_64(self, *arguments):
        handle, a_transposed, b_transposed, m, n, k, alpha, *rest = (
            getattr(value, "value", value) for value in arguments
        )
        a, a_kind, a_lead, a_stride, b, b_kind, b_lead, b_stride, beta, *rest = rest
        c, c_kind, c_lead, c_stride, batch, compute, algorithm = rest
        assert handle == 0x77 and self.workspace and algorithm == -1
        assert alpha[:2] == [1.0, 0.0] and beta[:2] == [0.0, 0.0]
        assert a_kind == b_kind == c_kind
        self.calls.append((batch, compute))
        dtype = np.dtype(TYPES[a_kind])

        def matrix(address, rows, columns, lead, number):
            """Column by column, as BLAS counts."""
            start = address + number * dtype.itemsize
            nbytes = (lead * (columns - 1) + rows) * dtype.itemsize
            data = self.driver.memory(start, nbytes)[:nbytes].view(dtype)
            strides = (dtype.itemsize, lead * dtype.itemsize)
            return np.lib.stride_tricks.as_strided(data, (rows, columns), strides)

        workspace = self.workspace

        def work():
            self.driver.memory(*workspace)
            for i in range(batch):
                x = matrix(a, *((k, m) if a_transposed else (m, k)), a_lead, i * a_stride)
                y = matrix(b, *((n, k) if b_transposed else (k, n)), b_lead, i * b_stride)
                out = matrix(c, m, n, c_lead, i * c_stride)
                out[...] = (x.T if a_transposed else x) @ (y.T if b_transposed else y)

        self.driver.give(self.stream, "gemm", work)
        return 0


@pytest.fixture(params=["at once", "late"])
def stand_in(request, monkeypatch):
    with installed(EmulatedDriver(late=request.param == "late")) as driver:
        library = StandInLibrary(driver)
        found = libraries.Cublas(library)
        monkeypatch.setattr(libraries, "cublas", lambda: found)
        yield library


TARGET = cuda_destination("source", Options(libraries=True))


def run_product(x, y, *, transposed=(False, False), target=TARGET, times=1):
    nodes = [argument(array_type(a.shape, a.dtype)) for a in (x, y)]
    operands = [
        record(OPS["transpose"], (node,), {"axes": (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2)})
        if t
        else node
        for node, t in zip(nodes, transposed, strict=True)
    ]
    product = record(OPS["matmul"], tuple(operands), {})
    for _ in range(times - 1):
        product = record(OPS["matmul"], (product, operands[1]), {})
    plan = compile_program(nodes, [product], None, target).plan
    arrays = [from_host(a, "cuda:0") for a in (x, y)]
    program = Program(plan, 0)
    results = [program.run(*arrays)[0].to_host() for _ in range(3)]
    assert results[0].tobytes() == results[1].tobytes() == results[2].tobytes()
    return results[0]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64", "complex128"])
def test_by_cublas(stand_in, dtype):
    x, y = numbers((20, 30), dtype), numbers((30, 25), dtype, 1)
    value = run_product(x, y)
    np.testing.assert_allclose(value, x @ y, rtol=1e-5 if dtype != "float16" else 1e-2, atol=1e-4)
    expected = 70 if dtype in ("float64", "complex128") else 68
    assert stand_in.calls == [(1, expected)] * 3


def test_bfloat16_by_cublas(stand_in):
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    x, y = numbers((2, 20, 30), bfloat16), numbers((2, 30, 25), bfloat16, 1)
    value = run_product(x, y)
    assert value.dtype == bfloat16 and stand_in.calls == [(2, 68)] * 3
    expected = x.astype(np.float32) @ y.astype(np.float32)
    np.testing.assert_allclose(value.astype(np.float32), expected, rtol=2**-8, atol=1e-4)


@pytest.mark.parametrize("transposed", list(itertools.product([False, True], repeat=2)))
def test_by_cublas_transposed(stand_in, transposed):
    x, y = numbers((2, 20, 30), "float64"), numbers((2, 30, 25), "float64", 1)
    kept = [
        np.ascontiguousarray(a.swapaxes(1, 2)) if t else a
        for a, t in zip((x, y), transposed, strict=True)
    ]
    np.testing.assert_allclose(run_product(*kept, transposed=transposed), x @ y, rtol=1e-12)
    assert stand_in.calls[0] == (2, 70)


@pytest.mark.parametrize("stacks", [((3,), ()), ((), (3,)), ((2, 1), (1, 3))])
def test_stacks_by_cublas(stand_in, stacks):
    x, y = numbers((*stacks[0], 20, 30), "float64"), numbers((*stacks[1], 30, 25), "float64", 1)
    np.testing.assert_allclose(run_product(x, y), x @ y, rtol=1e-12)


def test_cublas_is_captured_in_graphs(stand_in):
    x, y = numbers((20, 20), "float64"), numbers((20, 20), "float64", 1) / 20
    value = run_product(x, y, times=5)
    np.testing.assert_allclose(value, x @ np.linalg.matrix_power(y, 5), rtol=1e-10)
    assert stand_in.driver.calls.count("launch_graph") == 2


@pytest.mark.parametrize("tf32", [False, True])
def test_tf32_only_if_asked_for(stand_in, tf32):
    target = cuda_destination("source", Options(libraries=True, tf32=tf32))
    run_product(numbers((20, 20), "float32"), numbers((20, 20), "float32"), target=target)
    assert stand_in.calls[0] == (1, 77 if tf32 else 68)


def test_what_cublas_refuses_is_an_error(stand_in):
    stand_in.cublasGemmStridedBatchedEx_64 = lambda *arguments: 13
    with pytest.raises(DeviceError, match="13"):
        run_product(numbers((20, 20), "float32"), numbers((20, 20), "float32"))
