"""`differentiable` of kernels of `numba.cuda`: compiled for architectures without a GPU, and run
by a driver in Python that finds races."""

import importlib
import inspect

import numba
import numpy as np
import pytest

import numba_grad as ng
from numba_grad.compiler.cuda import user_functions
from numba_grad.compiler.numba_functions.generated import DerivedKernel, Parameter
from numba_grad.compiler.numba_functions.tape_bound import capacity, places_of
from numba_grad.compiler.numba_functions.typed_kernels import typed_kernel
from numba_grad.errors import DeviceError, DTypeError, KernelError
from numba_grad.graph.types import array_type
from numba_grad.ops.custom_kernels import encoded
from numba_grad.runtime.cuda.devices import is_available
from tests.cuda import differentiated_kernels as kernels
from tests.cuda import refused_kernels as refused
from tests.cuda.host_driver import installed
from tests.cuda.random_kernels import random_kernel
from tests.cuda.requirements import needs_compiler
from tests.cuda.user_kernels import Launch, PythonDriver, WatchedArray, in_python

pytestmark = needs_compiler
CASES = kernels.CASES


@pytest.fixture
def driver():
    importlib.import_module("numba_grad.compiler.cuda.backend")  # what makes them usable
    with installed(PythonDriver()) as driver:
        yield driver


def on_gpu(x):
    return ng.tensor(x, device="cuda") if isinstance(x, np.ndarray) else x


def three(extents):
    extents = extents if isinstance(extents, tuple) else (extents,)
    return (*extents, 1, 1, 1)[:3]


def as_threads(case):
    """The arrays of floats as the kernel itself leaves them, thread after thread, by name."""
    own = [x.copy() if np.ndim(x) else np.asarray(x)[()] for x in case.arguments]
    launch = Launch(*map(three, case.launch))
    watched = [WatchedArray(x, launch) if np.ndim(x) else x for x in own]
    for cuda in launch.threads():
        in_python(case.kernel, cuda)(*watched)
    return dict(zip(inspect.signature(case.kernel).parameters, own, strict=True))


def written(case):
    """The names of the results."""
    f = ng.differentiable(case.kernel, launch=case.launch)
    f(*map(on_gpu, case.arguments))
    return repr(f).rpartition("-> ")[2].rstrip(">").split(", ")


def of_floats(case, names=()):
    """The kernel as a function of the arrays of floats alone, on the CPU, or of some; and these."""
    f = ng.differentiable(case.kernel, launch=case.launch)
    parameters = inspect.signature(case.kernel).parameters
    places = [
        k
        for k, (name, x) in enumerate(zip(parameters, case.arguments, strict=True))
        if isinstance(x, np.ndarray) and x.dtype.kind == "f" and (not names or name in names)
    ]

    def call(*arrays):
        given = list(map(on_gpu, case.arguments))
        for k, x in zip(places, arrays, strict=True):
            given[k] = x.cuda() if isinstance(x, ng.Tensor) else on_gpu(x)
        results = f(*given)
        results = results if isinstance(results, tuple) else (results,)
        return tuple([x.cpu() for x in results])

    return call, [case.arguments[k] for k in places]


# Values and derivatives


@pytest.mark.parametrize("name", CASES)
def test_values_are_those_of_the_threads(driver, name):
    case = CASES[name]
    call, arrays = of_floats(case)
    before = [x.copy() for x in arrays]
    expected = as_threads(case)
    for result, name_of_result in zip(call(*arrays), written(case), strict=True):
        value = expected[name_of_result]
        assert result.dtype == value.dtype
        np.testing.assert_allclose(result, value, rtol=10 * np.finfo(value.dtype).eps)
    for x, copy in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(x, copy)
    assert (name, *map(three, case.launch)) in driver.launches


@pytest.mark.thorough(every=3)
@pytest.mark.parametrize("name", [name for name in CASES if name != "single"])
def test_derivatives_are_those_of_differences(driver, name):
    call, arrays = of_floats(CASES[name])
    ng.testing.check_gradients(call, *arrays, elements=6)
    grids = {launch[1:] for launch in driver.launches if launch[0].startswith(name)}
    assert grids == {tuple(map(three, CASES[name].launch))}


def test_float32_stays_float32(driver):
    case = CASES["single"]
    call, (x, scale, out) = of_floats(case)
    gradient = ng.grad(lambda x, s: call(x, s, out)[0].sum(), argnums=(0, 1))(x, scale)
    v = 0.5 * x + scale
    slope = np.where(v > 0, 0.5 / np.sqrt(abs(v)), 2.0)
    np.testing.assert_allclose(gradient[0], 0.5 * slope, rtol=1e-6)
    np.testing.assert_allclose(gradient[1], [slope.sum()], rtol=1e-6)
    assert gradient[0].dtype == gradient[1].dtype == np.float32


@pytest.mark.parametrize("name", CASES)
def test_threads_share_additions_only_where_they_must(driver, name):
    """The driver finds other races: the adjoints of these were run above, too."""
    case = CASES[name]
    call, arrays = of_floats(case)
    everything = tuple(range(len(arrays)))
    ng.grad(lambda *x: sum((y * y).sum() for y in call(*x)), argnums=everything)(*arrays)
    assert bool(driver.atomics[-1]) == case.shares, driver.atomics


@pytest.mark.parametrize("name", ["stencil", "heat"])
def test_where_sums_may_have_any_order_they_are_atomic(driver, name):
    call, (u, *rest) = of_floats(CASES[name])
    loss = lambda u: (call(u, *rest)[0] ** 2).sum()  # noqa: E731
    gradient = ng.grad(loss)(u)
    assert not any(driver.atomics)
    with ng.configure(deterministic=False):
        np.testing.assert_allclose(ng.grad(loss)(u), gradient, rtol=1e-13)
    assert driver.atomics[-1]


def test_it_works_in_jit_in_vmap_and_in_forward_mode(driver):
    case = CASES["lorenz"]
    f = ng.differentiable(kernels.cuda.jit(case.kernel))[case.launch]
    start, rho, steps, h, out = map(on_gpu, case.arguments)
    loss = lambda start, rho: (f(start, rho, steps, h, out) ** 2).sum()  # noqa: E731
    expected = ng.grad(loss)(start, rho).cpu().numpy()
    step = ng.jit(ng.grad(loss))
    for _ in range(3):  # captured as a graph, and replayed
        np.testing.assert_array_equal(step(start, rho).cpu(), expected)
    many = ng.vmap(ng.grad(loss), in_axes=(0, None))(ng.stack([start, 2 * start]), rho)
    np.testing.assert_array_equal(many[0].cpu(), expected)
    np.testing.assert_allclose(many[1].cpu(), ng.grad(loss)(2 * start, rho).cpu(), rtol=1e-14)
    _, tangent = ng.jvp(lambda x: loss(x, rho), (start,), (ng.ones_like(start),))
    np.testing.assert_allclose(float(tangent), expected.sum(), rtol=1e-12)


# Most of them are for `make test-all`.
SEEDS = [pytest.param(s, marks=[pytest.mark.thorough] if s > 2 else []) for s in range(60)]


@pytest.mark.parametrize("seed", SEEDS)
def test_kernels_at_random(driver, seed):
    """Values are those of threads, derivatives those of differences; there are no races."""
    _, kernel = random_kernel(seed)
    rng = np.random.default_rng(seed)
    arrays = [rng.uniform(0.1, 0.9, shape) for shape in (4, (4, 3), 3, 4, 3)]
    arguments = (*arrays[:4], rng.integers(0, 3, 4), arrays[4], 2)
    case = kernels.Case(kernel, arguments, [(2, 3), (1, 4), (4, 1), (5, 1)][seed % 4])
    # By arrays that are only read, or by all.
    call, floats = of_floats(case, ("p", "q") if seed % 2 else ())
    try:
        ng.testing.check_gradients(call, *floats, order=2 if seed % 3 == 0 else 1, elements=3)
    except KernelError as error:
        assert "keeps values of a loop" in str(error)
    expected = as_threads(case)
    for result, name in zip(call(*floats), written(case), strict=True):
        np.testing.assert_allclose(result, expected[name], rtol=1e-12, atol=1e-14)


# Launches


def doubled(x, out):
    i, step = kernels.cuda.grid(1), kernels.cuda.gridsize(1)
    while i < x.size:
        out[i] = 2.0 * x[i]
        i += step


def test_a_launch_is_a_pair_a_rule_or_what_is_written_decides(driver):
    x, out = on_gpu(np.arange(6.0)), on_gpu(np.zeros(6))
    f = ng.differentiable(doubled, launch=lambda x, out: (x.size // 3, out.shape[0] // 2))
    for g, grid in ((f, (2, 3)), (f[3, 2], (3, 2)), (f[(1, 1), (2, 1, 1)], (1, 2))):
        np.testing.assert_array_equal(g(x, out).cpu(), 2 * np.arange(6.0))
        assert driver.launches[-1] == ("doubled", three(grid[0]), three(grid[1]))
    kernel = kernels.cuda.jit(doubled)
    large = on_gpu(np.zeros(300))
    np.testing.assert_array_equal(ng.differentiable(kernel)(large, large + 1).cpu(), np.zeros(300))
    assert driver.launches[-1] == ("doubled", (2, 1, 1), (256, 1, 1))


@pytest.mark.parametrize("launch", [3, (3,), (1, 2, "stream"), "grid"])
def test_what_is_no_launch(launch):
    with pytest.raises(TypeError, match="a launch is a grid and a block"):
        ng.differentiable(doubled, launch=launch)


def test_functions_for_the_cpu_have_no_launch():
    with pytest.raises(TypeError, match="`launch` is for kernels"):
        ng.differentiable(numba.njit(doubled), launch=(1, 2))


def test_what_cuda_cannot_launch(driver):
    x = on_gpu(np.ones(4))
    with pytest.raises(KernelError, match="not a block that CUDA can launch"):
        ng.differentiable(doubled, launch=(1, 2000))(x, x + 1)


def test_arrays_must_be_on_a_gpu(driver):
    f = ng.differentiable(doubled, launch=(1, 4))
    with pytest.raises(
        DeviceError, match=r"(?s)doubled: is a kernel for CUDA.*out .*device=\"cuda"
    ):
        f(on_gpu(np.ones(4)), np.zeros(4))
    with pytest.raises(DeviceError, match="must be on a GPU"):
        f(np.ones(4), np.zeros(4))
    with pytest.raises(KernelError, match="writes `out`, which shares memory with `x`"):
        x = on_gpu(np.ones(4))
        f(x, x)


# Tapes


def test_a_tape_is_for_all_threads_and_is_known_before(driver):
    case = CASES["lorenz"]
    f = ng.differentiable(case.kernel, launch=case.launch, memory=1000)
    start, rho, _, h, out = map(on_gpu, case.arguments)
    few, many = [f.tape_bytes(start, rho, steps, h, out) for steps in (4, 8)]
    assert 0 < few < 1000 < many < 2 * few + 1
    x = on_gpu(case.arguments[0]).requires_grad_()
    f(x, rho, 4, h, out).sum().backward()
    with pytest.raises(MemoryError, match=r"(?s)the tape takes more.* 1,024 bytes, 256 for each"):
        f(x, rho, 8, h, out).sum().backward()


def halved(x, out):
    i = kernels.cuda.grid(1)
    if i < x.size:
        v = x[i]
        while v * v > 0.5:
            v = v * v * 0.9
        out[i] = v


def test_a_loop_of_unknown_length_that_is_kept_is_refused(driver):
    f = ng.differentiable(halved, launch=(1, 4))
    x = on_gpu(np.array([0.9, 1.0, 0.2, 0.8]))
    assert f(x, x + 0).cpu().shape == (4,)
    with pytest.raises(KernelError, match=r"(?s)halved_adjoint: keeps values.*custom_op"):
        ng.grad(lambda x: f(x, on_gpu(np.zeros(4))).sum())(x)


def between(x, out):
    """Most passes are those of a thread in the middle."""
    i = kernels.cuda.grid(1)
    n = x.shape[0]
    v = x[i]
    for j in range(i):
        for k in range(n - 1, i, -1):
            v = kernels.math.sin(v) * x[j] + x[k]
    for j in range(2 * i, 2 * i + 2):
        v = v * v + x[j % n]
    out[i] = v


def test_the_tape_has_room_for_every_thread(driver):
    x = np.random.default_rng(0).uniform(0.2, 0.9, 6)
    f = ng.differentiable(between, launch=(2, 3))
    call = lambda x: f(x.cuda(), on_gpu(np.zeros(6))).cpu()  # noqa: E731
    ng.testing.check_gradients(call, x, order=1)
    # 25 passes of the inner loop and 5 of the outer one at most, 2 of the other, whose ends alone
    # would say 12.
    assert 25 + 5 + 2 <= f.tape_bytes(on_gpu(x), on_gpu(x)) // (6 * 8) < 25 + 5 + 12


@pytest.mark.parametrize(
    ("span", "passes"),
    [
        ((["place", "thread_x"], ["size", "x", 0], 1), 10),
        ((["add", ["place", "thread_x"], 3], ["add", ["place", "thread_x"], 9], 2), 3),
        ((["place", "thread_x"], ["number", "n"], ["place", "block_size_x"]), 5),
        ((["number", "n"], ["place", "thread_x"], -3), 7),
        ((0, ["multiply", ["place", "thread_x"], ["place", "block_x"]], 1), 9),
        ((0, ["mod", ["place", "thread_x"], 3], 1), 2),
        ((0, ["maximum", ["negative", ["place", "thread_x"]], 2], 1), 2),
        ((0, None, 1), None),
        ((0, 5, ["subtract", ["place", "thread_x"], 1]), None),
    ],
)
def test_a_bound_of_what_is_kept(span, passes):
    outline = [0, [["for", *span, 0, [8, []]]]]
    given = {"x": (10,)}, {"n": 20}, places_of((4, 1, 1), (4, 1, 1))
    if passes is None:
        with pytest.raises(LookupError):
            capacity(outline, *given)
    else:
        assert capacity(outline, *given) == 8 * passes


# What is refused: in a module of its own, as people have it


def test_what_is_not_differentiated_is_refused_with_its_line():
    x = np.ones(4)
    for kernel, what in refused.KERNELS.values():
        f = ng.differentiable(kernel, launch=(1, 4))
        lines, first = inspect.getsourcelines(getattr(kernel, "py_func", kernel))
        number = first + next(k for k, line in enumerate(lines) if "# here" in line)
        message = rf"(?s)differentiable: {what}.*refused_kernels\.py:{number} .*custom_op"
        with pytest.raises(KernelError, match=message), installed(PythonDriver()):
            f(on_gpu(x), on_gpu(x))


# On a GPU


@pytest.mark.cuda
@pytest.mark.parametrize("name", CASES)
def test_kernels_on_a_gpu(name):
    """Values and gradients are those of threads in Python; where nothing is atomic, every time."""
    if not is_available():
        pytest.skip("needs an NVIDIA GPU")
    case = CASES[name]

    def values_and_gradients():
        call, arrays = of_floats(case)
        places = tuple(range(len(arrays)))
        loss = lambda *x: sum((y * y).sum() for y in call(*x))  # noqa: E731
        return [*call(*arrays), *ng.grad(loss, argnums=places)(*arrays)]

    found = list(map(np.asarray, values_and_gradients()))
    for result, again in zip(found, values_and_gradients(), strict=True):
        if not case.shares:
            np.testing.assert_array_equal(result, again)
    with installed(PythonDriver()):
        for result, expected in zip(found, values_and_gradients(), strict=True):
            rtol = 1e-4 if result.dtype == np.float32 else 1e-12
            np.testing.assert_allclose(result, expected, rtol=rtol)


# Compiling


def generated(case, kind, order):
    """A kernel of a case, and the types of its arguments."""
    parameters, inputs, numbers = [], [], []
    for name, x in zip(inspect.signature(case.kernel).parameters, case.arguments, strict=True):
        if isinstance(x, int):
            parameters.append(Parameter(name, "int64", 0, True))
            numbers.append(encoded(x))
            continue
        x = np.asarray(x)
        parameters.append(Parameter(name, x.dtype.name, x.ndim, False))
        inputs.append(array_type(x.shape, x.dtype))
    forms = (None,) * len(parameters)
    program = typed_kernel(case.kernel, tuple(parameters), forms, case.launch, None)
    floats = [k for k, p in enumerate(parameters) if p.dtype.startswith("float")]
    counted = program.counted(inputs, numbers)
    request = DerivedKernel(kind, order, tuple(floats), counted=counted)
    places = [k for k, p in enumerate(parameters) if not p.is_number]
    by_parameter = dict(zip(places, inputs, strict=True))
    types = list(inputs)
    if kind == "adjoint":
        types += [by_parameter[k] for k in program.generated(request).written if k in floats]
    types += [by_parameter[k] for _ in range(order) for k in floats]
    kernel = program.custom_kernel(request)
    return kernel, kernel.arguments(types, numbers)


@pytest.mark.thorough(but="^(binned|scaled|stencil)-sm_90")
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
@pytest.mark.parametrize("name", CASES)
def test_generated_kernels_compile(name, architecture):
    case = CASES[name]
    orders = [("adjoint", 0)] if architecture == "sm_80" else [("primal", 0), ("adjoint", 1)]
    for kind, order in orders:
        kernel, arguments = generated(case, kind, order)
        ptx = user_functions.compile_to_ptx(kernel, arguments, architecture)
        usage = user_functions.link(ptx, architecture)[1]
        assert 0 < usage.registers <= 128
        assert usage.spilled_bytes == 0
        if kind == "adjoint" and not case.shares:
            assert "atom." not in ptx


def test_complex_arguments_are_refused():
    case = CASES["scaled"]
    f = ng.differentiable(case.kernel, launch=case.launch)
    given = [x.astype(complex) if isinstance(x, np.ndarray) else x for x in case.arguments]
    with pytest.raises(DTypeError, match="has no derivative of complex arguments"):
        f(*given)
