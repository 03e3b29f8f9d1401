"""Fourier transforms against NumPy's, and their derivatives."""

import threading
import warnings

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.testing import check_gradients

RNG = np.random.default_rng(0)
ALONG_ONE_AXIS = ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]
ALONG_SEVERAL = ["fftn", "ifftn", "rfftn", "irfftn", "fft2", "ifft2", "rfft2", "irfft2"]
OF_REAL = {"rfft", "ihfft", "rfftn", "rfft2"}
NORMS = [None, "backward", "ortho", "forward"]


def sample(name: str, shape: tuple[int, ...], dtype: object = None) -> np.ndarray:
    x = RNG.standard_normal(shape)
    if name not in OF_REAL and dtype is None:
        return x + 1j * RNG.standard_normal(shape)
    return (4 * x).astype(dtype or float)


def check_same(ours: ng.Tensor, numpys: np.ndarray) -> None:
    assert isinstance(ours, ng.Tensor)
    assert (ours.shape, ours.dtype) == (numpys.shape, numpys.dtype)
    scale = np.abs(numpys).max(initial=1)
    np.testing.assert_allclose(
        ours.numpy(), numpys, rtol=0, atol=20 * np.finfo(numpys.dtype).eps * scale
    )


@pytest.mark.usefixtures("numpy_engine")
@pytest.mark.parametrize("name", ALONG_ONE_AXIS)
@pytest.mark.parametrize("n", [None, 1, 2, 5, 6, 7, 12])
def test_lengths_axes_and_norms_along_one_axis(name, n):
    for shape, axis in [((6,), -1), ((3, 7), 1), ((7, 3), 0), ((2, 6, 3), -2), ((5, 2), -1)]:
        x = sample(name, shape)
        for norm in NORMS:
            expected = getattr(np.fft, name)(x, n, axis, norm)
            check_same(getattr(ng.fft, name)(x, n, axis, norm), expected)


@pytest.mark.usefixtures("numpy_engine")
@pytest.mark.parametrize("name", ALONG_SEVERAL)
def test_sizes_axes_and_norms_along_several_axes(name):
    calls = [
        {},
        {"axes": (0, 1)},
        {"axes": (-1, 0)},
        {"s": (4, 5), "axes": (2, 0)},
        {"s": (-1, 7), "axes": (1, 2)},
        {"axes": (1, 1), "norm": "ortho"},
        {"norm": "forward"},
    ]
    if "2" not in name:
        calls += [{"axes": (1,)}, {"s": (2, 3, 4), "axes": (0, 1, 2)}]
    x = sample(name, (3, 4, 5))
    for call in calls:
        check_same(getattr(ng.fft, name)(x, **call), getattr(np.fft, name)(x, **call))


@pytest.mark.usefixtures("numpy_engine")
@pytest.mark.parametrize("name", ALONG_ONE_AXIS + ALONG_SEVERAL)
def test_dtypes(name):
    dtypes = ["bool", "int8", "uint32", "int64", "float32", "float64"]
    if name not in OF_REAL:
        dtypes += ["complex64", "complex128"]
    for dtype in dtypes:
        x = sample(name, (4, 6), np.dtype(dtype))
        check_same(getattr(ng.fft, name)(x), getattr(np.fft, name)(x))
    assert getattr(ng.fft, name)(np.ones((2, 4), np.float16)).dtype in (np.complex64, np.float32)


@pytest.mark.usefixtures("numpy_engine")
@pytest.mark.parametrize("name", ALONG_ONE_AXIS + ALONG_SEVERAL)
def test_numpys_function_reaches_ours(name):
    x = sample(name, (4, 6))
    function = getattr(np.fft, name)
    found = function(ng.tensor(x), norm="ortho")
    check_same(found, function(x, norm="ortho"))
    check_same(np.fft.fftshift(ng.tensor(x), axes=1), np.fft.fftshift(x, axes=1))
    with pytest.raises(TypeError, match=r"out= is not supported"):
        function(ng.tensor(x), out=np.empty(3))


@pytest.mark.usefixtures("numpy_engine")
@pytest.mark.parametrize("shape", [(7,), (6,), (3, 4), (2, 3, 5), (0,)])
def test_shifts(shape):
    x = sample("rfft", shape)
    axes = [None, *range(len(shape)), tuple(range(len(shape)))]
    for axis in axes:
        check_same(ng.fft.fftshift(x, axis), np.asarray(np.fft.fftshift(x, axis)))
        check_same(ng.fft.ifftshift(x, axis), np.asarray(np.fft.ifftshift(x, axis)))


def test_frequencies():
    for n in (1, 2, 5, 8):
        for d in (1.0, 0.1, 3):
            for name in ("fftfreq", "rfftfreq"):
                expected = getattr(np.fft, name)(n, d)
                np.testing.assert_array_equal(getattr(ng.fft, name)(n, d=d).numpy(), expected)
    assert ng.fft.fftfreq(4, dtype=np.float32).dtype == np.float32
    check_gradients(lambda d: ng.fft.fftfreq(5, d), 0.7)
    for wrong in (0, -2):
        with pytest.raises(ValueError, match=r"fftfreq: .* points cannot be transformed"):
            ng.fft.fftfreq(wrong)
    with pytest.raises(TypeError):
        ng.fft.rfftfreq(2.5)


# Each with one that crops and is even, and one that fills up and is odd.
DIFFERENTIABLE = {
    **{
        f"{name}, n={n}": (lambda x, f=name, n=n: getattr(ng.fft, f)(x, n, 0), sample(name, (5, 2)))
        for name in ALONG_ONE_AXIS
        for n in (4, 9)
    },
    **{
        name: (lambda x, f=name: getattr(ng.fft, f)(x, norm="ortho"), sample(name, (2, 3, 4)))
        for name in ("ifftn", "rfftn", "irfft2")
    },
    "sizes": (lambda x: ng.fft.irfftn(x, (3, 5), (2, 0)), sample("fft", (2, 3, 2))),
    "of a real array": (lambda x: ng.fft.fft(x), sample("rfft", (6,))),
    "shift": (lambda x: ng.fft.fftshift(x) * x, sample("rfft", (3, 5))),
    "not linear": (
        lambda x, k: ng.fft.irfft(ng.fft.rfft(x) * ng.fft.rfft(k, 7) ** 2, 7),
        sample("rfft", (3, 7)),
        sample("rfft", (3,)),
    ),
}


@pytest.mark.thorough(but="reference", every=3)
@pytest.mark.usefixtures("engine_of_derivatives")
@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_derivatives_to_second_order(name):
    check_gradients(*DIFFERENTIABLE[name], elements=12)


@pytest.mark.usefixtures("numpy_engine")
@pytest.mark.parametrize("name", [*ALONG_ONE_AXIS, "fftn", "irfftn", "rfftn"])
@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
def test_gradients_are_torchs(name, norm):
    torch = pytest.importorskip("torch")
    x = sample(name, (4, 6))
    for size in (None, 5, 8):
        arguments = {} if size is None else {"n": size}
        if name.endswith("n"):
            arguments = {} if size is None else {"s": (3, size), "axes": (0, 1)}
        ours = ng.tensor(x, requires_grad=True)
        result = getattr(ng.fft, name)(ours, norm=norm, **arguments)
        theirs = torch.tensor(x, requires_grad=True)
        if "axes" in arguments:
            arguments["dim"] = arguments.pop("axes")
        expected = getattr(torch.fft, name)(theirs, norm=norm, **arguments)
        g = RNG.standard_normal(result.shape)
        if result.dtype.kind == "c":
            g = g + 1j * RNG.standard_normal(result.shape)
        result.backward(ng.tensor(g))
        expected.backward(torch.tensor(g))
        np.testing.assert_allclose(
            ours.grad.numpy(), theirs.grad.resolve_conj().numpy(), rtol=1e-12, atol=1e-12
        )


@pytest.mark.usefixtures("numpy_engine")
def test_single_precision_gradients():
    x = sample("rfft", (3, 8))
    double = ng.grad(lambda x: (np.abs(ng.fft.rfft(x)) ** 2).sum())(x)
    single = ng.grad(lambda x: (np.abs(ng.fft.rfft(x)) ** 2).sum())(x.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single.numpy(), double.numpy(), rtol=1e-5, atol=1e-4)


def test_infinite_cotangents_stay_within_their_frequency():
    """The weights of half a spectrum make no nan: 0 * inf is never formed."""
    x = ng.tensor(np.ones(2) + 0j, requires_grad=True)
    ng.fft.irfft(x).backward(ng.tensor([np.inf, 0.0]))
    assert not np.isnan(x.grad.numpy().real).any()


def test_nan_and_infinity_spread_over_their_line_as_in_numpy():
    x = sample("rfft", (4, 8))
    x[1, 2], x[2, 5] = np.nan, np.inf
    with np.errstate(all="ignore"):
        expected = np.fft.rfft(x)
    found = ng.fft.rfft(x).numpy()
    np.testing.assert_array_equal(np.isfinite(found), np.isfinite(expected))
    np.testing.assert_array_equal(np.isfinite(found).all(1), [True, False, False, True])


def test_under_jit_for_every_size():
    f = ng.jit(ng.grad(lambda x: (ng.fft.irfft(ng.fft.rfft(x) * 2.0, x.shape[-1]) * x).sum()))
    for shape in [(8,), (9,), (3, 8), (3, 1), (2, 300, 2)]:
        x = sample("rfft", shape)
        np.testing.assert_allclose(f(x), 4 * x, rtol=1e-12, atol=1e-12)


def test_a_size_that_is_new_compiles_nothing():
    f = ng.jit(lambda x: ng.fft.fft(x))
    sources = {f.lower(sample("fft", (n,))).kernels[-1].source for n in (4, 100, 1021, 4096)}
    assert len(sources) == 1


def test_vmap_over_any_axis():
    x = sample("fft", (3, 4, 5))
    for in_axis in range(3):
        expected = np.fft.fft(np.moveaxis(x, in_axis, 0), axis=1)
        check_same(ng.vmap(lambda x: ng.fft.fft(x, axis=0), in_axis)(ng.tensor(x)), expected)
    per_line = ng.vmap(ng.grad(lambda x: (ng.fft.rfft(x).real ** 2).sum()))(ng.tensor(x.real[0]))
    whole = ng.grad(lambda x: (ng.fft.rfft(x).real ** 2).sum())(x.real[0])
    np.testing.assert_allclose(per_line.numpy(), whole.numpy(), rtol=1e-12)


@pytest.mark.usefixtures("numpy_engine")
def test_memory_that_is_not_contiguous():
    x = sample("fft", (6, 10))
    for view in (x.T, x[::2, ::-3], x[:, 4], np.broadcast_to(x[0], (3, 10))):
        check_same(ng.fft.fft(view), np.fft.fft(view))
        check_same(ng.fft.ifft(ng.tensor(x).T, axis=0), np.fft.ifft(x.T, axis=0))


@pytest.mark.parametrize("name", ALONG_ONE_AXIS)
def test_empty_stacks(name):
    for shape in [(0, 4), (4, 0, 3), (3, 0)]:
        axis = shape.index(4) if 4 in shape else 0
        x = sample(name, shape)
        check_same(getattr(ng.fft, name)(x, axis=axis), getattr(np.fft, name)(x, axis=axis))


def test_large_transforms_are_cut_into_the_same_tasks_for_any_number_of_threads():
    """Contiguous lines, columns in their place, copied columns; results equal to the bit."""
    threads = ng.get_num_threads()
    cases = [((64, 2048), 1), ((40, 3000), 0), ((600, 300), 0), ((300, 40, 3), 1)]
    try:
        for shape, axis in cases:
            for name in ("fft", "rfft", "irfft"):
                x = sample(name, shape)
                f = ng.jit(lambda x, name=name, axis=axis: getattr(ng.fft, name)(x, axis=axis))
                results = []
                for count in (1, 2, 3):
                    ng.set_num_threads(count)
                    results.append(f(ng.tensor(x)).numpy())
                check_same(ng.tensor(results[0]), getattr(np.fft, name)(x, axis=axis))
                np.testing.assert_array_equal(results[0], results[1])
                np.testing.assert_array_equal(results[0], results[2])
    finally:
        ng.set_num_threads(threads)


def test_several_python_threads_at_once():
    f = ng.jit(lambda x: ng.fft.ifft(ng.fft.fft(x, axis=0) ** 2, axis=0))
    arrays = [sample("fft", (512, 9)) for _ in range(4)]
    expected = [np.fft.ifft(np.fft.fft(x, axis=0) ** 2, axis=0) for x in arrays]
    failures = []

    def work(x, wanted):
        results = [np.asarray(f(x)) for _ in range(20)]
        failures.extend(y for y in results if not np.allclose(y, wanted, rtol=1e-9, atol=1e-9))

    workers = [
        threading.Thread(target=work, args=pair) for pair in zip(arrays, expected, strict=True)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not failures


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: ng.fft.fft(np.ones((2, 0))), ValueError, "fft: 0 points cannot be transformed"),
        (lambda: ng.fft.rfft(np.ones(3), 0), ValueError, "rfft: 0 points cannot be transformed"),
        (lambda: ng.fft.irfft(np.ones(1)), ValueError, "irfft: 0 points cannot be transformed"),
        (lambda: ng.fft.fft(np.ones(3), -1), ValueError, "fft: -1 points cannot"),
        (lambda: ng.fft.fft(np.ones(3), 2.5), TypeError, "float"),
        (lambda: ng.fft.fft(np.ones(3), axis=1), np.exceptions.AxisError, "fft: axis out of range"),
        (lambda: ng.fft.fft(5.0), np.exceptions.AxisError, "fft: axis out of range"),
        (lambda: ng.fft.fft(np.ones(3), norm="no"), ValueError, "fft: no such norm"),
        (lambda: ng.fft.hfft(np.ones(3), norm="no"), ValueError, "hfft: no such norm"),
        (lambda: ng.fft.rfft(np.ones(3) * 1j), TypeError, "rfft: not defined for complex numbers"),
        (lambda: ng.fft.fftn(np.ones((3, 4)), (2,), (0, 1)), ValueError, "different lengths"),
        (lambda: ng.fft.fft2(np.ones(4)), np.exceptions.AxisError, "fftn: axis out of range"),
        (lambda: ng.fft.rfftn(np.ones(4), axes=()), ValueError, "rfftn: no axis to transform"),
        (
            lambda: ng.fft.fftshift(np.ones((2, 3)), (0, 0)),
            np.exceptions.AxisError,
            "fftshift: repeated axis",
        ),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_what_numpy_refuses_is_refused():
    refused = [
        lambda f: f.fft(np.ones((2, 0))),
        lambda f: f.rfft(np.ones(3), 0),
        lambda f: f.fft(np.ones(3), axis=1),
        lambda f: f.fft(np.ones(3), norm="no"),
        lambda f: f.rfft(np.ones(3) * 1j),
        lambda f: f.fftn(np.ones((3, 4)), (2,), (0, 1)),
    ]
    for call in refused:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with pytest.raises((ValueError, TypeError, IndexError)) as theirs:
                call(np.fft)
        with pytest.raises(tuple({ValueError, TypeError, IndexError} & set(theirs.type.__mro__))):
            call(ng.fft)
