"""Users' CUDA kernels: compiled for architectures without a GPU, and launched by an engine over a
driver that runs them in Python."""

import importlib
import re

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.compiler.cuda import user_functions
from numba_grad.errors import DeviceError, KernelError
from numba_grad.graph.types import array_type
from numba_grad.ops.custom_kernels import ArrayArgument, encoded
from tests.cuda.host_driver import installed
from tests.cuda.requirements import needs_compiler
from tests.cuda.user_kernels import PythonDriver

try:
    from numba import cuda
except ImportError:  # what needs it is skipped
    cuda = None


def scaled_sums(x, y, sums, rows, scale):
    """Of the rows of `x`; and the numbers of the rows."""
    i = cuda.grid(1)
    if i < x.shape[0]:
        total = 0.0
        for j in range(x.shape[1]):
            total += x[i, j] * y[j]
        sums[i] = scale * total
        rows[i] = i


def scaled_sums_op(dtype=None, **more):
    return ng.custom_op(
        "scaled_sums",
        cuda=scaled_sums,
        shape=lambda x, y, *, scale: [x.shape[:1], x.shape[:1]],
        dtype=dtype,
        **more,
    )


def transposed(x, out):
    i, j = cuda.grid(2)
    if i < out.shape[0] and j < out.shape[1]:
        out[i, j] = x[j, i]


# Compiling


def ptx_of(op, *inputs, architecture="sm_90", numbers=()):
    types = [array_type(x.shape, x.dtype) for x in inputs]
    arguments = op.kernel.arguments(types, [encoded(n) for n in numbers])
    return user_functions.compile_to_ptx(op.kernel, arguments, architecture), arguments


@pytest.mark.thorough(but="float32-sm_90")
@needs_compiler
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_parameters_are_the_words_of_a_step(architecture, dtype):
    x, y = np.ones((4, 3), dtype), np.ones(3, dtype)
    ptx, arguments = ptx_of(
        scaled_sums_op([None, np.int64]), x, y, numbers=[2.0], architecture=architecture
    )
    entry = ptx[ptx.index(".entry kernel(") :]
    parameters = re.findall(r"\.param \.(\w+) kernel_param_\d+[,\n]", entry[: entry.index(")")])
    words = sum(5 + 2 * a.rank if isinstance(a, ArrayArgument) else 1 for a in arguments)
    assert parameters == ["u64"] * (words - 1) + ["f64"]
    source = "# scaled_sums: user's kernel"
    kernel = user_functions._made(scaled_sums_op().kernel, arguments, source, architecture)
    assert len(kernel.code) > 1000
    assert kernel.ptx == ptx
    assert kernel.spilled_bytes == 0
    assert 0 < kernel.registers < 64
    assert kernel.occupancy(256).threads > 0


@needs_compiler
def test_dispatchers_and_what_they_call_are_compiled():
    @cuda.jit(device=True)
    def square(v):
        return v * v

    @cuda.jit(fastmath=True)
    def kernel(x, out):
        i = cuda.grid(1)
        shared = cuda.shared.array(256, np.float32)
        shared[cuda.threadIdx.x] = x[i]
        cuda.syncthreads()
        out[i] = square(shared[255 - cuda.threadIdx.x]) / x[i]

    op = ng.custom_op("shuffled", cuda=kernel, shape=lambda x: x.shape)
    ptx, _ = ptx_of(op, np.ones(512, np.float32))
    assert "bar.sync" in ptx
    assert "div.approx.ftz.f32" in ptx
    assert user_functions.link(ptx, "sm_90")[1].shared_bytes == 1024


FACTOR = 2.0


def factor_kernel():
    """A kernel of the module's: another one each time, as another process has it."""

    @cuda.jit(device=True)
    def scaled(v):
        return FACTOR * v

    @cuda.jit
    def kernel(x, out):
        i = cuda.grid(1)
        if i < x.size:
            out[i] = scaled(x[i])

    return ng.custom_op("factor", cuda=kernel, shape=lambda x: x.shape).kernel


@needs_compiler
def test_code_is_kept_on_disk(monkeypatch, tmp_path):
    """Under all that it depends on: a global of a function that it calls, too."""
    compiled, compile_to_ptx = [], user_functions.compile_to_ptx

    def counting(kernel, arguments, architecture):
        compiled.append(architecture)
        return compile_to_ptx(kernel, arguments, architecture)

    monkeypatch.setattr(user_functions, "compile_to_ptx", counting)

    def code(architecture="sm_90"):
        kernel = factor_kernel()
        arguments = kernel.arguments([array_type((4,), np.dtype(np.float64))], [])
        return user_functions._made(kernel, arguments, "# factor", architecture).code

    with ng.configure(cache_directory=tmp_path):
        first = code()
        assert code() == first
        assert compiled == ["sm_90"]
        assert code("sm_80") != first
        monkeypatch.setitem(globals(), "FACTOR", 3.0)
        assert code() != first
    assert compiled == ["sm_90", "sm_80", "sm_90"]


@needs_compiler
@pytest.mark.parametrize("dtype", [np.int32, np.float64, np.complex64, bool])
def test_elementwise_functions_get_a_loop(dtype):
    op = ng.custom_op("chosen", cuda=lambda x, y: x if y else x + x, elementwise=True)
    ptx, _ = ptx_of(op, np.ones(5, dtype), np.ones(5, bool))
    assert user_functions.link(ptx, "sm_90")[1].registers > 0


@needs_compiler
@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (lambda x, out: x[0], "must have void return type"),
        (lambda x: None, r"kernel +: \(x\)"),
    ],
)
def test_kernels_that_cannot_be(kernel, message):
    op = ng.custom_op("wrong", cuda=kernel, shape=lambda x: x.shape)
    with pytest.raises(KernelError, match=r"(?s)wrong: its CUDA kernel cannot.*" + message):
        ptx_of(op, np.ones(3))


@needs_compiler
def test_inputs_are_read_only():
    def kernel(x, out):
        x[0] = 1.0

    op = ng.custom_op("wrong", cuda=kernel, shape=lambda x: x.shape)
    with pytest.raises(KernelError, match=r"(?s)wrong: .*readonly"):
        ptx_of(op, np.ones(3))


# Launching


@pytest.fixture(params=["at once", "late"])
def driver(request):
    importlib.import_module("numba_grad.compiler.cuda.backend")  # what makes them usable
    with installed(PythonDriver(late=request.param == "late")) as driver:
        yield driver


def on_gpu(x, **more):
    return ng.tensor(x, device="cuda", **more)


def test_a_kernel_is_launched_with_its_arrays_and_numbers(driver):
    x, y = np.random.default_rng(0).standard_normal((2, 5, 5))
    for dtype in ([None, np.int64], [np.float32, np.int64], [None, np.int32]):
        op = scaled_sums_op(dtype, launch=lambda x, y, scale: (2, 3))
        sums, rows = op(on_gpu(x), on_gpu(y[0]), scale=0.5)
        rtol = 1e-6 if dtype[0] else 1e-14
        np.testing.assert_allclose(sums.cpu().numpy(), 0.5 * x @ y[0], rtol=rtol)
        np.testing.assert_array_equal(rows.cpu().numpy(), np.arange(5))
        assert (sums.dtype, rows.dtype) == (dtype[0] or np.float64, dtype[1])
    assert sums.device == rows.device == "cuda:0"
    assert ("scaled_sums", (2, 1, 1), (3, 1, 1)) in driver.launches


def test_a_grid_of_two_dimensions(driver):
    x = np.arange(12.0).reshape(3, 4)
    op = ng.custom_op(
        "transposed",
        cuda=transposed,
        shape=lambda x: x.shape[::-1],
        launch=lambda x: ((2, 3), (2, 1)),
    )
    np.testing.assert_array_equal(op(on_gpu(x)).cpu().numpy(), x.T)
    assert driver.launches == [("transposed", (2, 3, 1), (2, 1, 1))]


def row_sums(x, y, sums):
    i = cuda.grid(1)
    if i < x.shape[0]:
        sums[i] = (x[i] * y).sum()


def test_a_launch_for_each_member_of_a_batch(driver):
    x = np.random.default_rng(0).standard_normal((6, 2, 3))
    y = np.random.default_rng(1).standard_normal((6, 3))
    op = ng.custom_op(
        "row_sums", cuda=row_sums, shape=lambda x, y: x.shape[:1], launch=lambda x, y: (1, 4)
    )
    both = ng.jit(ng.vmap(op))
    for _ in range(3):  # six launches: captured as a graph, and replayed
        result = both(on_gpu(x), on_gpu(y))
        np.testing.assert_allclose(result.cpu(), np.einsum("bij,bj->bi", x, y), rtol=1e-13)
    one = ng.vmap(op, in_axes=(0, None))(on_gpu(x), on_gpu(y[0]))
    np.testing.assert_allclose(one.cpu(), x @ y[0], rtol=1e-13)


def cubed_on_gpu(x, out):
    i = cuda.grid(1)
    if i < x.shape[0]:
        out[i] = x[i] ** 3


def cubed_on_cpu(x, out):
    for i in range(x.shape[0]):
        out[i] = x[i] ** 3


def test_the_device_of_the_inputs_chooses_the_kernel(driver):
    cubed = ng.custom_op(
        "cubed",
        cubed_on_cpu,
        cuda=cubed_on_gpu,
        shape=lambda x: x.shape,
        vjp=lambda g, out, x: 3 * x * x * g,
    )
    x = np.array([1.0, -2.0, 3.0, 0.5])
    f = ng.jit(ng.value_and_grad(lambda x: (cubed(x) + x).sum()))
    for given in (x, on_gpu(x), on_gpu(x)):
        value, gradient = f(given)
        np.testing.assert_allclose(float(value), np.sum(x**3 + x), rtol=1e-14)
        gradient = gradient if given is x else gradient.cpu().numpy()
        np.testing.assert_allclose(gradient, 3 * x**2 + 1, rtol=1e-14)
    (kernel,) = [k for k in f.lower(on_gpu(x)).kernels if "cubed" in k.name]
    assert "def cubed_on_gpu(x, out):" in kernel.source
    t = on_gpu(x, requires_grad=True)
    cubed(t).sum().backward()
    np.testing.assert_allclose(t.grad.cpu().numpy(), 3 * x**2, rtol=1e-14)
    assert t.grad.device == "cuda:0"
    with pytest.raises(DeviceError, match="different devices"):
        scaled_sums_op()(on_gpu(np.ones((2, 4))), x, scale=1.0)


def larger(x, y):
    return x if x > y else y


def test_elementwise_functions_broadcast(driver):
    op = ng.custom_op("larger", cuda=larger, elementwise=True)
    x = np.arange(6.0).reshape(2, 3)
    for y in (2.5, np.array([0.0, 9.0, 2.0])):
        given = y if isinstance(y, float) else on_gpu(y)
        np.testing.assert_array_equal(op(on_gpu(x), given).cpu().numpy(), np.maximum(x, y))
    assert op(on_gpu(np.zeros((0, 3))), 1.0).cpu().shape == (0, 3)
