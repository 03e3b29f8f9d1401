"""Library functions are found, in NumPy or SciPy, and their threads are left as they were."""

import ctypes

import numpy as np
import pytest

from numba_grad.compiler import library_kernels
from numba_grad.compiler.building.build import build
from numba_grad.compiler.building.engine_build import native_engine
from numba_grad.errors import InternalError, KernelError
from numba_grad.runtime import library
from numba_grad.runtime.native_engine import Program
from numba_grad.runtime.plan import Plan, PlanBuilder
from tests.compiler.library_plans import append_call
from tests.threads import run_in_threads

NAMES = [
    f"{package}.{letter}{name}"
    for package, name in (("blas", "gemm"), ("lapack", "getrf"), ("lapack", "getrs"))
    for letter in "sdcz"
]


def product_plan(n: int) -> Plan:
    dtype = np.dtype(float)
    matrix = library_kernels.MatrixOperand(())
    call = library_kernels.matmul_call(dtype, n, n, n, matrix, matrix)
    builder = PlanBuilder(2, [((n, n), dtype)])
    append_call(
        builder,
        call,
        lambda source: builder.kernel(build(source)),
        inputs=[(0, 0), (1, 0)],
        outputs=[(2, 0)],
    )
    return builder.build()


@pytest.mark.parametrize("name", NAMES)
def test_functions_are_found(name: str) -> None:
    assert library.symbol_address(name) > 0


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_transforms_are_found(dtype: str) -> None:
    names = [f"pocketfft.{name}.{dtype}" for name in ("fft", "ifft", "irfft")]
    assert all(library.symbol_address(name) > 0 for name in names)
    assert library.symbol_address(f"pocketfft.fft.{dtype}.data") > 0
    with pytest.raises(InternalError, match=r"fft\.int8: NumPy .* has no such transform"):
        library.symbol_address("pocketfft.fft.int8")


def test_a_transform_is_called_without_python() -> None:
    """The loop of a ufunc, with arguments as the C interface of ufuncs has them."""
    x = np.random.default_rng(0).standard_normal(6) + 0j
    out, scale = np.empty_like(x), np.array([2.0])
    pointers = np.array([a.ctypes.data for a in (x, scale, out)])
    sizes, strides = np.array([1, 6, 6]), np.array([0, 0, 0, 16, 16])
    loop = ctypes.CFUNCTYPE(None, *(ctypes.c_int64,) * 4)(
        library.symbol_address("pocketfft.fft.complex128")
    )
    data = library.symbol_address("pocketfft.fft.complex128.data")
    loop(pointers.ctypes.data, sizes.ctypes.data, strides.ctypes.data, data)
    np.testing.assert_allclose(out, 2 * np.fft.fft(x), rtol=1e-14, atol=1e-14)


def test_transforms_leave_the_threads_of_blas_alone() -> None:
    engine = native_engine()
    assert not library.prepare_threads(engine.threads, ["pocketfft.fft.complex128"])


def test_what_does_not_exist_is_named() -> None:
    with pytest.raises(KernelError, match=r"blas\.nothing"):
        library.symbol_address("blas.nothing")


def test_scipys_library_is_as_good(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("scipy.linalg.cython_blas")
    numpys = library.symbol_address("blas.dgemm")
    monkeypatch.setattr(library, "_numpy_library", lambda: None)
    scipys = library.symbol_address.__wrapped__("blas.dgemm")
    assert 0 < scipys != numpys
    monkeypatch.setattr(library, "symbol_address", lambda name: scipys)
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 200, 200))
    [result] = Program(native_engine(), product_plan(200)).run(x, y)
    np.testing.assert_allclose(result, x @ y, rtol=1e-10, atol=1e-10)


def test_the_librarys_threads_are_left_as_they_were() -> None:
    getter, setter = library._thread_functions()
    if not setter:
        pytest.skip("this BLAS has no known way to set its threads")
    count = ctypes.CFUNCTYPE(ctypes.c_int)(getter)
    set_count = ctypes.CFUNCTYPE(None, ctypes.c_int)(setter)
    before = count()
    plan = product_plan(150)
    x = np.ones((150, 150))

    def work(_: int) -> None:
        for _ in range(30):
            native_engine().run(plan, [x, x])

    try:
        set_count(2)
        wanted = count()
        run_in_threads(work, range(3))
        assert count() == wanted
    finally:
        set_count(before)
