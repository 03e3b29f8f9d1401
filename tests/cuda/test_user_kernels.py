"""Users' CUDA kernels: compiled for architectures without a GPU, and launched by an engine over a
driver that runs them in Python."""

import functools
import itertools
import re
import types

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.compiler import cpu_target
from numba_grad.compiler.cuda import build, library_steps, user_functions
from numba_grad.compiler.pipeline import compile_program
from numba_grad.compiler.target import Target
from numba_grad.errors import KernelError
from numba_grad.graph.node import argument
from numba_grad.graph.types import array_type
from numba_grad.ops.custom_kernels import ArrayArgument, call_kernel, encoded, member_types
from numba_grad.runtime.cuda.arrays import from_host
from numba_grad.runtime.cuda.engine import Program
from tests.cuda.host_driver import HostDriver, installed
from tests.cuda.requirements import needs_compiler

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


def scaled_sums_op(**more):
    return ng.custom_op(
        "scaled_sums",
        cuda=scaled_sums,
        shape=lambda x, y, *, scale: [x.shape[:1], x.shape[:1]],
        dtype=[None, np.int64],
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


@needs_compiler
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_parameters_are_the_words_of_a_step(architecture, dtype):
    x, y = np.ones((4, 3), dtype), np.ones(3, dtype)
    ptx, arguments = ptx_of(scaled_sums_op(), x, y, numbers=[2.0], architecture=architecture)
    entry = ptx[ptx.index(".entry kernel(") :]
    parameters = re.findall(r"\.param \.(\w+) kernel_param_\d+[,\n]", entry[: entry.index(")")])
    words = sum(5 + 2 * a.rank if isinstance(a, ArrayArgument) else 1 for a in arguments)
    assert parameters == ["u64"] * (words - 1) + ["f64"]
    code, usage = user_functions.link(ptx, architecture)
    assert len(code) > 1000
    assert usage.spilled_bytes == 0


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
    assert user_functions.link(ptx, "sm_90")[1].shared_bytes >= 1024


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


class _Threads:
    """`numba.cuda` in one thread, as far as these kernels know it."""

    def __init__(self, block, thread, size):
        self._position = [b * n + t for b, t, n in zip(block, thread, size, strict=True)]

    def grid(self, dimensions):
        return self._position[0] if dimensions == 1 else tuple(self._position[:dimensions])


class PythonDriver(HostDriver):
    """Runs users' kernels, one thread after the other."""

    kernels: dict[str, tuple]  # by name: the function, and its arguments

    def run_kernel(self, source, name, grid, block, parameters):
        function, arguments = self.kernels[re.match(r"# (\w+): user's kernel", source).group(1)]
        words = np.frombuffer(parameters, np.int64).tolist()
        values = []
        for a in arguments:
            if isinstance(a, ArrayArgument):
                none, _, size, itemsize, address = words[:5]
                shape, strides = words[5 : 5 + a.rank], words[5 + a.rank : 5 + 2 * a.rank]
                assert (none, itemsize) == (0, a.dtype.itemsize)
                assert size == np.prod(shape, dtype=int)
                assert tuple(strides) == np.empty(shape, a.dtype).strides
                array = self.memory(address)[: size * itemsize].view(a.dtype).reshape(shape)
                array.flags.writeable = a.is_result
                values.append(array)
                words = words[5 + 2 * a.rank :]
            else:
                values.append(np.array(words[:1]).view(a.dtype)[0])
                words = words[1:]
        assert not words
        for b in itertools.product(*map(range, grid)):
            for t in itertools.product(*map(range, block)):
                scope = {**function.__globals__, "cuda": _Threads(b, t, block)}
                types.FunctionType(function.__code__, scope)(*values)


def no_loops(kernel, partials):
    raise AssertionError("these graphs have no loops")


TARGET = Target(
    name="cuda source",
    passes=cpu_target.PASSES,
    reduction_blocks=cpu_target.reduction_blocks,
    kernel_step=no_loops,
    library_steps=library_steps.lower,
    join=lambda steps, nbytes_of: [step for step, _ in steps],
    build=functools.partial(build.build_all, architecture=build.SOURCE_ARCHITECTURE),
    has_branches=True,
    adds_products=False,
)


@pytest.fixture(params=["at once", "late"])
def driver(request):
    with installed(PythonDriver(late=request.param == "late")) as driver:
        driver.kernels = {}
        yield driver


def run(driver, op, *arrays, batched=(), times=1, **numbers):
    """The array of all results, by the engine, the last of `times` runs."""
    bound = op._bound(arrays, numbers)[1]
    inputs = [argument(array_type(x.shape, x.dtype, "cuda:0")) for x in arrays]
    node = call_kernel(inputs, op.kernel, bound, batched)
    members = member_types([x.type for x in inputs], batched)
    function = op.kernel.cuda.function
    driver.kernels[op.kernel.name] = (function, op.kernel.arguments(members, bound))
    program = Program(compile_program(inputs, [node], target=TARGET).plan, 0)
    for _ in range(times):
        (result,) = program.run(*[from_host(x, "cuda:0") for x in arrays])
    return result.to_host()


def test_a_kernel_is_launched_with_its_arrays_and_numbers(driver):
    x, y = np.random.default_rng(0).standard_normal((2, 5, 5))
    op = scaled_sums_op(launch=lambda x, y, scale: (2, 3))
    stored = run(driver, op, x, y[0], scale=0.5)
    np.testing.assert_allclose(stored[:5].view(np.float64), 0.5 * x @ y[0], rtol=1e-14)
    np.testing.assert_array_equal(stored[8:13], np.arange(5))
    assert driver.launches == [("scaled_sums", (2, 1, 1), (3, 1, 1))]


def test_a_grid_of_two_dimensions(driver):
    x = np.arange(12.0).reshape(3, 4)
    op = ng.custom_op(
        "transposed",
        cuda=transposed,
        shape=lambda x: x.shape[::-1],
        launch=lambda x: ((2, 3), (2, 1), 64),
    )
    np.testing.assert_array_equal(run(driver, op, x), x.T)
    assert driver.launches == [("transposed", (2, 3, 1), (2, 1, 1))]


def test_a_launch_for_each_member_of_a_batch(driver):
    x = np.random.default_rng(0).standard_normal((6, 2, 3))
    y = np.random.default_rng(1).standard_normal((6, 3))
    op = ng.custom_op(
        "row_sums",
        cuda=row_sums,
        shape=lambda x, y: x.shape[:1],
        launch=lambda x, y: (1, 4),
    )
    # Six launches are captured as a graph, and replayed.
    for times in (1, 3):
        both = run(driver, op, x, y, batched=(True, True), times=times)
        np.testing.assert_allclose(both, np.einsum("bij,bj->bi", x, y), rtol=1e-13)
    one = run(driver, op, x, y[0], batched=(True, False))
    np.testing.assert_allclose(one, x @ y[0], rtol=1e-13)


def row_sums(x, y, sums):
    i = cuda.grid(1)
    if i < x.shape[0]:
        sums[i] = (x[i] * y).sum()
