"""What CuPy does, with a stand-in for it: packed results, errors, streams, devices."""

import numpy as np
import pytest

from numba_grad.compiler.cuda.library_kernels import DEFAULT, Options, kernels_for
from numba_grad.compiler.cuda.target import cuda_destination
from numba_grad.compiler.programs import compile_program
from numba_grad.compiler.steps.library_steps import call_of
from numba_grad.errors import KernelError
from numba_grad.frontend.compiled_functions.lowered import LoweredKernel
from numba_grad.graph.node import argument
from numba_grad.graph.types import array_type
from numba_grad.ops import all_ops
from numba_grad.runtime.cuda import checks, cupy_calls
from numba_grad.runtime.cuda.arrays import from_host
from numba_grad.runtime.cuda.engine import Program
from numba_grad.runtime.cuda.libraries import host_call
from numba_grad.runtime.cuda.streams import Stream, stream_is
from tests.cuda.emulator import EmulatedDriver
from tests.cuda.host_driver import installed
from tests.cuda.library_calls import node_of
from tests.cuda.stand_in_cupy import StandIn

OPS = all_ops()
TARGET = cuda_destination("source", Options(libraries=True))
N = 34  # of matrices for which there are no kernels


@pytest.fixture(params=["at once", "late"])
def stand_in(request, monkeypatch):
    with installed(EmulatedDriver(late=request.param == "late")) as driver:
        stand_in = StandIn(driver)
        monkeypatch.setattr(cupy_calls, "cupy", lambda: stand_in.found)
        yield stand_in


def run(node, *arrays, device=0):
    plan = compile_program(list(node.inputs), [node], None, TARGET).plan
    values = [from_host(a, f"cuda:{device}") for a in arrays]
    result = Program(plan, device).run(*values)[0]
    checks.check(device)
    return result.to_host()


def matrices(dtype, *shape, seed=0):
    rng = np.random.default_rng(seed)
    a = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        a = a + 1j * rng.standard_normal(shape)
    return a.astype(dtype)


def hermitian(dtype, *shape):
    a = matrices(dtype, *shape)
    return (a @ a.conj().mT / 8 + np.eye(shape[-1])).astype(dtype)


def example(name, dtype):
    """Inputs and parameters of an operation that has no kernel for them."""
    stack = (2, N, N)
    if name in ("solve", "solve_triangular"):
        a = matrices(dtype, 3, 1, N, N) + 5 * np.eye(N, dtype=dtype)
        params = {"lower": False, "unit_diagonal": False} if name != "solve" else {}
        return (a, matrices(dtype, 2, N, 3)), params
    if name == "lstsq":
        real = np.zeros(2, dtype).real
        return (matrices(dtype, 2, N, 5), matrices(dtype, N, 3), real + 1e-5), {}
    if name in ("cholesky", "eigh", "eigvalsh"):
        params = {} if name == "cholesky" else {"lower": True}
        return (hermitian(dtype, *stack),), params
    if name in ("lu", "qr", "svd", "svdvals"):
        params = {"qr": {"mode": "reduced"}, "svd": {"full": True}}
        return (matrices(dtype, 2, N, N + 3),), params.get(name, {})
    if name == "cofactor_in_direction":
        return (matrices(dtype, *stack) / 4, matrices(dtype, *stack, seed=1)), {}
    return (matrices(dtype, *stack) / 4,), {}


NAMES = (
    *("solve", "solve_triangular", "inv", "lstsq", "cholesky", "lu", "qr", "eigh", "eigvalsh"),
    *("eig", "eigvals", "svd", "svdvals", "det", "slogdet", "cofactor", "cofactor_in_direction"),
    "expm",
)


@pytest.mark.thorough(every=5)
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("name", NAMES)
def test_packed_as_on_the_cpu(stand_in, name, dtype):
    arrays, params = example(name, dtype)
    node = node_of(name, *arrays, **params)
    value = run(node, *arrays)
    wide = [a.astype(np.result_type(a, np.float64)) for a in arrays]
    expected = node.op.reference(*wide, **params)
    tolerance = 1e-10 if dtype in ("float64", "complex128") else 2e-2
    if name in ("eig", "svd", "eigh", "qr"):  # whose phases are arbitrary
        value, expected = np.abs(value), np.abs(expected)
    if name in ("eig", "eigvals"):
        value, expected = np.sort(np.abs(value)), np.sort(np.abs(expected))
    assert stand_in.streams
    scale = np.abs(expected).max()
    np.testing.assert_allclose(value, expected, rtol=tolerance, atol=tolerance * scale)


def test_exponentials_of_triangular_matrices(stand_in):
    below = np.array([[[1.0, 0], [1e8, -1]], [[-700, 0], [1e5, 0.5]]])
    p, q, r = below[:, 0, 0], below[:, 1, 0], below[:, 1, 1]
    expected = np.zeros((2, 2, 2))
    expected[:, 0, 0], expected[:, 1, 1] = np.exp(p), np.exp(r)
    expected[:, 1, 0] = q * (np.exp(p) - np.exp(r)) / (p - r)
    found = run(node_of("expm", below), below)
    np.testing.assert_allclose(found, expected, rtol=1e-13)
    above = below.mT.copy()
    np.testing.assert_allclose(run(node_of("expm", above), above), expected.mT, rtol=1e-13)


@pytest.mark.parametrize("name", ["fft", "rfft", "irfft"])
@pytest.mark.parametrize("single", [False, True])
def test_transforms(stand_in, name, single):
    for arrays, params in OPS[name].example(np.random.default_rng(0)):
        small = {"d": "f", "D": "F"}
        arrays = [a.astype(small[a.dtype.char]) if single else a for a in arrays]
        node = node_of(name, *arrays, **params)
        if node.type.size:
            expected = node.op.reference(*arrays, **params)
            tolerance = 1e-4 if single else 1e-12
            np.testing.assert_allclose(
                run(node, *arrays), expected, rtol=tolerance, atol=tolerance * 10
            )


@pytest.mark.parametrize("mode", ["reduced", "complete", "r"])
def test_modes_of_qr(stand_in, mode):
    for shape in ((3, 35), (35, 3), (0, 33), (33, 0)):
        a = matrices("float64", 2, *shape)
        node = node_of("qr", a, mode=mode)
        if node.type.size:
            expected = node.op.reference(a, mode=mode)
            np.testing.assert_allclose(np.abs(run(node, a)), np.abs(expected), atol=1e-12)


@pytest.mark.parametrize(
    ("name", "bad", "message"),
    [
        ("solve", 0.0, "Singular"),
        ("inv", 0.0, "Singular"),
        ("solve_triangular", 0.0, "Singular"),
        ("cholesky", -1.0, "positive definite"),
        ("eig", np.nan, "infs or NaNs"),
        ("svd", np.nan, "converge"),
    ],
)
def test_the_first_bad_matrix_is_named(stand_in, name, bad, message):
    arrays, params = example(name, "float64")
    a = arrays[0].copy()
    a[1] = bad
    node = node_of(name, *arrays, **params)
    arrays = (a, *arrays[1:])
    with pytest.raises(np.linalg.LinAlgError, match=message) as caught:
        run(node, *arrays)
    assert f"(number {2 if name.startswith('solve') else 1} of the batch)" in str(caught.value)
    checks.check(0)  # told once


def test_an_infinite_element_is_no_error_where_it_is_none_on_the_cpu(stand_in):
    for name in ("eigh", "eigvalsh", "svdvals", "expm"):
        (a,), params = example(name, "float64")
        a[1, 0, 0] = np.inf
        value = run(node_of(name, a, **params), a)
        assert np.isfinite(value[0]).all() and np.isnan(value[1]).all(), name


def test_empty_matrices(stand_in):
    for name, expected in (("det", [1, 1]), ("slogdet", [[1, 0], [1, 0]])):
        a = np.zeros((2, 0, 0))
        np.testing.assert_array_equal(run(node_of(name, a), a), expected)


def test_the_stream_and_device_of_the_caller(stand_in):
    a = matrices("float64", N, N)
    side = Stream("cuda:1")
    with stream_is(side):
        value = run(node_of("inv", a), a, device=1)
    np.testing.assert_allclose(value, np.linalg.inv(a), rtol=1e-9)
    assert stand_in.streams == [side.handle]


def test_without_cupy_it_is_named_with_the_command():
    for name in ("inv", "svd", "eigh"):
        arrays, params = example(name, "float64")
        with pytest.raises(KernelError, match=r"CuPy[\s\S]*pip install"):
            call_of(node_of(name, *arrays, **params), kernels_for(DEFAULT), in_place=False)
    x = np.ones(8)
    with pytest.raises(KernelError, match=r"CuPy[\s\S]*pip install"):
        call_of(node_of("rfft", x, axis=0, norm="ortho"), kernels_for(DEFAULT), in_place=False)


def test_nothing_of_it_is_captured(stand_in):
    (a,), _ = example("inv", "float64")
    node = x = argument(array_type(a.shape, a.dtype))
    for _ in range(5):
        node = OPS["inv"](node)
    program = Program(compile_program([x], [node], None, TARGET).plan, 0)
    for _ in range(3):
        value = program.run(from_host(a, "cuda:0"))[0].to_host()
    np.testing.assert_allclose(value, np.linalg.inv(a), rtol=1e-8)
    assert "launch_graph" not in stand_in.driver.calls


def test_a_step_of_a_library_has_no_code_of_ours():
    for text, library in (
        ("host: cupy inv float64 float64", "CuPy"),
        ("# matmul\nhost: cublas gemm float32 float32", "cuBLAS"),
    ):
        kernel = LoweredKernel("k0 inv", host_call(text), count=1, nbytes=0, flops=0)
        assert kernel.source == text
        for form in (lambda k: k.ptx, lambda k: k.sass, lambda k: k.occupancy(), lambda k: k.llvm):
            with pytest.raises(KernelError, match=f"call of {library}[^;]*{text.splitlines()[-1]}"):
                form(kernel)
