"""bfloat16, a dtype of ml_dtypes: casts, promotion and rounding; and it is taken like float16."""

import pickle
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.errors import DTypeError
from tests.frontend.test_numpy_functions import CALLS

pytest.importorskip("ml_dtypes")

BFLOAT16 = np.dtype(ng.bfloat16)
EVERY = np.arange(1 << 16, dtype=np.uint16).view(BFLOAT16)
OTHERS = [
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with np.errstate(all="ignore"):  # ml_dtypes' casts of nan, and of what is too large
        yield


def bfloats(values: Any) -> np.ndarray:
    return np.asarray(values).astype(BFLOAT16)


def numbers(x: ng.Tensor | np.ndarray) -> np.ndarray:
    values = x.detach().numpy() if isinstance(x, ng.Tensor) else x
    return values.astype(np.float32) if values.dtype == BFLOAT16 else values


def same_numbers(ours: ng.Tensor, theirs: np.ndarray) -> None:
    """The same numbers with the same signs, nan where they are."""
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
    x, y = numbers(ours), numbers(theirs)
    np.testing.assert_array_equal(x, y)
    if x.dtype.kind == "f":
        known = ~np.isnan(x)
        np.testing.assert_array_equal(np.signbit(x[known]), np.signbit(y[known]))


# Casts


def test_every_number_becomes_a_float32_and_comes_back():
    wide = ng.tensor(EVERY).astype("float32")
    same_numbers(wide, EVERY.astype(np.float32))
    same_numbers(wide.astype(BFLOAT16), EVERY)
    is_nan = np.isnan(wide.numpy())
    assert np.isnan(numbers(wide.astype(BFLOAT16))[is_nan]).all()


def test_rounding_to_even():
    upper = np.arange(1 << 16, dtype=np.uint32) << 16
    lower = np.array([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF], np.uint32)
    x = (upper[:, None] | lower).view(np.float32)
    same_numbers(ng.tensor(x).astype(BFLOAT16), x.astype(BFLOAT16))


@pytest.mark.parametrize("dtype", OTHERS)
def test_casts_are_those_of_ml_dtypes(dtype):
    same_numbers(
        ng.tensor(np.arange(-3, 4).astype(dtype)).astype(BFLOAT16),
        np.arange(-3, 4).astype(dtype).real.astype(BFLOAT16),
    )
    finite = bfloats([0, -0.0, 1, 2.75, 3.984375, 100])
    same_numbers(ng.tensor(finite).astype(dtype), finite.astype(np.float32).astype(dtype))


def test_wider_numbers_are_rounded_to_float32_first():
    above_half = 1 + 2.0**-8 + 2.0**-40
    x = np.array([above_half, -above_half, 1e300, -1e-300, np.nan, np.inf])
    same_numbers(ng.tensor(x).astype(BFLOAT16), x.astype(BFLOAT16))
    whole = np.array([2**24 + 1, 2**40 + 2**32 + 1, -(2**53) - 1, 2**63 - 1])
    same_numbers(ng.tensor(whole).astype(BFLOAT16), whole.astype(BFLOAT16))


# Promotion


@pytest.mark.parametrize("dtype", OTHERS)
def test_promotion(dtype):
    kind = np.dtype(dtype).kind
    expected = BFLOAT16 if kind in "biu" else np.promote_types(dtype, np.float32)
    x, y = ng.ones(2, dtype=BFLOAT16), ng.ones(2, dtype=dtype)
    assert ng.promote_types(BFLOAT16, dtype) == ng.result_type(y, BFLOAT16) == expected
    for result in (x + y, y * x, ng.concatenate([x, y]), ng.where(True, y, x), ng.stack([y, x])):
        assert result.dtype == expected
    if dtype != "float16":
        assert (x @ y).dtype == expected


@pytest.mark.parametrize(
    ("scalar", "expected"), [(2, BFLOAT16), (0.1, BFLOAT16), (True, BFLOAT16), (1j, "complex64")]
)
def test_python_scalars_are_weak(scalar, expected):
    x = ng.ones(3, dtype=BFLOAT16)
    for result in (x + scalar, scalar * x, np.add(x, scalar), ng.where(True, x, scalar)):
        assert result.dtype == expected
    assert ng.result_type(BFLOAT16, scalar) == expected


def test_integers_in_ldexp_stay_integers():
    x, k = bfloats([1.5, 2, -3]), np.array([1, 200, -133])
    same_numbers(ng.ldexp(x, k), bfloats(np.ldexp(x.astype(np.float64), k)))


def test_questions_about_the_dtype():
    assert ng.finfo(BFLOAT16).eps == 2.0**-7 and ng.finfo(ng.ones(1, dtype=BFLOAT16)).bits == 16
    assert ng.isdtype(BFLOAT16, "real floating") and ng.isdtype(BFLOAT16, (np.int8, BFLOAT16))
    assert not ng.isdtype(BFLOAT16, ("integral", "complex floating", np.float16))
    assert ng.can_cast(BFLOAT16, np.float32) and ng.can_cast(np.int8, BFLOAT16)
    for pair in ((BFLOAT16, np.float16), (np.float16, BFLOAT16), (np.float32, BFLOAT16)):
        assert not ng.can_cast(*pair) and ng.can_cast(*pair, "same_kind")
    assert ng.common_type(ng.ones(1, dtype=BFLOAT16)) is ng.bfloat16


# Like float16


def outcome(call: Callable[..., Any], arrays: tuple[np.ndarray, ...], dtype: Any) -> list[Any]:
    """The results of rounded numbers in a dtype, or the class of the error."""
    try:
        result = call(ng, *(ng.tensor(bfloats(x).astype(dtype)) for x in arrays))
    except Exception as error:
        return [type(error)]
    return list(result) if isinstance(result, tuple | list) else [result]


OF_FLOATS = [
    number
    for number, (_, arrays) in enumerate(CALLS)
    if all(np.asarray(x).dtype.kind == "f" for x in arrays)
]


@pytest.mark.usefixtures("numpy_engine")
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("number", OF_FLOATS)
def test_functions_take_it_like_float16(number):
    call, arrays = CALLS[number]
    results = [outcome(call, arrays, dtype) for dtype in (BFLOAT16, np.float16, np.float32)]
    for ours, half, single in zip(*results, strict=True):
        if not isinstance(ours, ng.Tensor):
            assert ours == half
            continue
        assert ours.dtype == (BFLOAT16 if half.dtype == np.float16 else half.dtype)
        # Sums of several numbers of about 4, each rounded; unwrap has 2 pi of 3 digits.
        np.testing.assert_allclose(numbers(ours), numbers(single), rtol=0.02, atol=0.04)


@pytest.mark.usefixtures("numpy_engine")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("count", [1, 2, 3])
def test_every_function_takes_it_like_float16(count):
    x = np.array([[0.25, 0.5], [0.75, 1.0]])
    compared = 0
    public = [(ng, name) for name in ng.__all__] + [(ng.special, name) for name in dir(ng.special)]
    for module, name in public:
        function = getattr(module, name)
        if not callable(function) or isinstance(function, type) or name.startswith(("_", "save")):
            continue
        call = lambda _, *xs, f=function: f(*xs)  # noqa: E731
        results = [outcome(call, (x,) * count, d) for d in (BFLOAT16, np.float16, np.float32)]
        for ours, half, single in zip(*results, strict=True):
            if isinstance(ours, ng.Tensor):
                assert ours.dtype == (BFLOAT16 if half.dtype == np.float16 else half.dtype), name
                np.testing.assert_allclose(
                    *(numbers(ours), numbers(single)), rtol=0.02, atol=0.02, err_msg=name
                )
                compared += ours.dtype == BFLOAT16
    assert compared > {1: 120, 2: 40, 3: 10}[count]


def test_lapack_refuses_it_and_fourier_transforms_are_single():
    x = ng.ones((2, 2), dtype=BFLOAT16)
    for function in (ng.linalg.inv, ng.linalg.det, ng.linalg.svd, ng.linalg.eigh):
        with pytest.raises(DTypeError, match=r"bfloat16 is not supported(.|\n)*astype"):
            function(x)
    assert ng.fft.fft(x).dtype == np.complex64 and ng.fft.irfft(x).dtype == np.float32


def test_neighbours_of_every_number():
    for y in bfloats([np.inf, -np.inf, -0.0, 1.5]):
        found = numbers(ng.nextafter(EVERY, y))
        np.testing.assert_array_equal(found, numbers(np.nextafter(EVERY, y)))
    assert numbers(ng.spacing(bfloats([1, 300, 0, -1.0]))).tolist() == [2**-7, 2, 2.0**-133, 2**-8]


# Rounding, fused or not


def test_every_result_is_rounded():
    x = bfloats(np.random.default_rng(0).standard_normal(1000))
    f = lambda x, three: ((x * x + x) / (x * three - 1) - x) ** 2  # noqa: E731
    same_numbers(f(ng.tensor(x), bfloats(3)), f(x, bfloats(3)))
    z = np.float32([1 / 3, 1e-45, 3.4e38])
    same_numbers(
        ng.tensor(z).astype(BFLOAT16).astype("float32") - 1, z.astype(BFLOAT16).astype("f4") - 1
    )


@pytest.mark.thorough(every=3)
@pytest.mark.parametrize("name", ["sum", "prod", "mean", "max", "std"])
@pytest.mark.parametrize(("shape", "axis"), [((40, 3), 1), ((3, 40), 1), ((3, 40), 0)])
def test_fusion_changes_no_reduction(name, shape, axis):
    x = bfloats(np.random.default_rng(0).normal(size=shape))
    stored = ng.jit(lambda x: getattr(x, name)(axis=axis))(x)
    assert stored.dtype == BFLOAT16
    fused = ng.jit(lambda x: getattr(x, name)(axis=axis).astype(np.float32))(x)
    np.testing.assert_array_equal(fused, numbers(stored))


def test_sums_are_accumulated_in_float32():
    x = bfloats(np.full(4096, 1 + 2**-7))
    assert float(ng.sum(x)) == 4128  # 256 + 1 would be 256
    rows = ng.tensor(x).reshape(64, 64)
    assert float((rows @ rows.T)[0, 0]) == float(bfloats(64 * (1 + 2**-7) ** 2))
    assert float(ng.cumsum(x)[-1]) == 4128


@pytest.mark.parametrize("dtype", [BFLOAT16, np.dtype(np.float16)])
@pytest.mark.parametrize("axis", [0, 1, (0, 1)])
def test_sums_along_any_axis_are_rounded_once(dtype, axis):
    x = np.random.default_rng(0).uniform(0, 0.25, size=(400, 600)).astype(dtype)
    expected = x.astype(np.float64).sum(axis=axis)
    found = numbers(ng.sum(x, axis=axis))
    # Half a unit in the last place, and as much for parts of sums that are cut into parts.
    np.testing.assert_allclose(found, expected, rtol=float(ng.finfo(dtype).eps))


# Gradients


def test_gradients_of_a_network_are_those_of_torch():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    arrays = [bfloats(rng.normal(size=shape) / 2) for shape in ((16, 8), (8, 12), (12,), (12, 3))]
    ours = [ng.tensor(a, requires_grad=True) for a in arrays]
    theirs = [torch.tensor(numbers(a)).to(torch.bfloat16).requires_grad_() for a in arrays]

    def loss(m: Any, x: Any, w: Any, b: Any, v: Any) -> Any:
        return ((m.tanh(x @ w + b) @ v) ** 2).mean()

    ours_loss, theirs_loss = loss(ng, *ours), loss(torch, *theirs)
    ours_loss.backward()
    theirs_loss.backward()
    assert ours_loss.dtype == BFLOAT16
    np.testing.assert_allclose(ours_loss.item(), theirs_loss.item(), rtol=2**-6)
    for x, t in zip(ours, theirs, strict=True):
        assert x.grad is not None and x.grad.dtype == BFLOAT16
        expected = t.grad.float().numpy()
        size = np.abs(expected).max()
        np.testing.assert_allclose(numbers(x.grad), expected, rtol=0.05, atol=0.02 * size)


def test_gradients_by_way_of_other_dtypes():
    x = ng.tensor(bfloats([0.5, -1.25, 3]), requires_grad=True)
    (x.astype(np.float64) ** 2 + x * np.arange(3)).sum().backward()
    assert x.grad is not None and x.grad.dtype == BFLOAT16
    assert x.grad.tolist() == [1.0, -1.5, 8.0]
    rows = ng.tensor(bfloats([[1, 2], [3, 4]]))
    assert ng.vmap(ng.grad(lambda r: (r * r).sum()))(rows).tolist() == [[2, 4], [6, 8]]


# Other libraries


def test_dlpack_with_torch():
    torch = pytest.importorskip("torch")
    t = torch.arange(6).to(torch.bfloat16).reshape(2, 3)
    x = ng.from_dlpack(t, copy=False)
    assert x.dtype == BFLOAT16 and x.numpy().ctypes.data == t.data_ptr()
    assert x.tolist() == t.tolist() and ng.from_dlpack(t.T).tolist() == t.T.tolist()
    y = ng.tensor(t)
    assert y.dtype == x.dtype and y.tolist() == x.tolist()
    back = torch.from_dlpack(x)
    assert back.dtype == torch.bfloat16 and back.data_ptr() == t.data_ptr()
    copied = torch.from_dlpack(x, copy=True)
    copied[0, 0] = 7
    assert x[0, 0].item() == 0


def test_dlpack_of_arrays():
    array = bfloats([1, 2])
    assert ng.from_dlpack(array, copy=False).numpy().ctypes.data == array.ctypes.data
    with pytest.raises((BufferError, RuntimeError, TypeError)):
        np.from_dlpack(ng.tensor(array))  # NumPy itself has no such dtype
    assert np.asarray(ng.tensor(array)).dtype == BFLOAT16


# For Python


def test_python_sees_its_own_numbers():
    x = ng.tensor([1, 2.5], dtype=ng.bfloat16)
    assert repr(x) == "tensor([1. , 2.5], dtype=bfloat16)" and f"{x[1]:.3f}" == "2.500"
    for number in (x[1].item(), x.tolist()[1], float(x[1])):
        assert type(number) is float and number == 2.5
    assert int(x[1]) == 2 and bool(x[1]) and complex(x[1]) == 2.5
    assert ng.asarray([ng.bfloat16(1), ng.bfloat16(2)]).dtype == BFLOAT16
    assert ng.zeros(2, dtype="bfloat16").dtype == ng.arange(3, dtype=BFLOAT16).dtype == BFLOAT16
    copied = pickle.loads(pickle.dumps(x))
    assert copied.dtype == BFLOAT16 and copied.tolist() == [1, 2.5]


def test_files_are_refused(tmp_path):
    with pytest.raises(DTypeError, match=r"no bfloat16(.|\n)*astype"):
        ng.save(tmp_path / "x.npy", ng.ones(2, dtype=BFLOAT16))


def test_without_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    needed = r'needs the package ml_dtypes(.|\n)*pip install "numba_grad\[bfloat16\]"'
    with pytest.raises(ImportError, match=needed):
        _ = ng.bfloat16
    with pytest.raises(ImportError, match=needed):
        ng.zeros(2, dtype="bfloat16")
    assert "bfloat16" in dir(ng) and "bfloat16" not in ng.__all__


def test_what_cannot_be_done_says_so():
    def twice(x, out):
        out[:] = x + x

    doubled = ng.custom_op("doubled_bfloat16", cpu=twice, shape=lambda x: x.shape)
    x = ng.ones(3, dtype=BFLOAT16)
    with pytest.raises(DTypeError, match=r"Numba has no bfloat16(.|\n)*float32"):
        doubled(x)
    with pytest.raises(TypeError, match="double precision"):
        ng.testing.check_gradients(ng.sin, x)
