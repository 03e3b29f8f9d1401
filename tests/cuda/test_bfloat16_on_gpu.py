"""bfloat16 on a GPU is what it is on the CPU, and its kernels compile."""

from collections.abc import Iterator

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.compiler.cuda import build
from numba_grad.errors import DTypeError
from tests.cuda.graph_kernels import GraphRun
from tests.cuda.host_driver import HostDriver
from tests.cuda.requirements import needs_compiler
from tests.cuda.test_exchange import ForeignDlpack, read

pytest.importorskip("ml_dtypes")

BFLOAT16 = np.dtype(ng.bfloat16)
OTHERS = ("bool", "int8", "uint64", "int64", "float16", "float32", "float64", "complex64")


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield


def bfloats(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(BFLOAT16)


def numbers(x: ng.Tensor) -> np.ndarray:
    values = x.detach().cpu().numpy()
    return values.astype(np.float32) if x.dtype == BFLOAT16 else values


def added_at(x: ng.Tensor) -> ng.Tensor:
    np.add.at(x, np.array([3, 1, 3, 0, 3]), x[:5])
    return x


CALLS = {
    "arithmetic": lambda x: (x * x + x) / (x * 0.3 + 5) - x,
    "functions": lambda x: ng.tanh(x) * ng.exp(-x) + ng.sqrt(ng.abs(x)),
    "constants": lambda x: ng.where(x > 0.1, x, 0.3),
    "another order": lambda x: x.T + x.T * 2,
    "sums": lambda x: x.sum(axis=1) + x.sum(axis=1, dtype=np.float32),
    "sums of columns": lambda x: (x * x).sum(axis=0),
    "mean": lambda x: x.mean(),
    "extremes": lambda x: ng.max(x, axis=0) - ng.min(x),
    "positions": lambda x: ng.argmax(x, axis=1),
    "softmax": lambda x: ng.softmax(x),
    "sort": lambda x: ng.sort(x, axis=0),
    "argsort": lambda x: ng.argsort(x, descending=True),
    "cumsum": lambda x: ng.cumsum(x),
    "cumsum of rows": lambda x: ng.cumsum(x, axis=1),
    "cumprod": lambda x: ng.cumprod(ng.abs(x), axis=1),
    "cummax": lambda x: ng.cummax(x, axis=1),
    "searchsorted": lambda x: ng.searchsorted(ng.sort(x[0]), x),
    "product": lambda x: x @ x.T,
    "small product": lambda x: x[:4, :5] @ x[:5, :6],
    "long product": lambda x: x.reshape(2, -1) @ x.reshape(-1, 2),
    "gather": lambda x: x[np.array([3, 1, 3])],
    "scatter": added_at,
    "slices": lambda x: ng.concatenate([x[::2], x[1::2, ::-1]]),
    "ranges": lambda x: x[0] * ng.arange(x.shape[1], dtype=x.dtype),
    "nextafter": lambda x: ng.nextafter(x, 0),
    "gradient": ng.grad(lambda x: (ng.tanh(x @ x.T) ** 2).mean()),
    **{f"to {name}": lambda x, name=name: (x * 3).astype(name) for name in OTHERS},
    **{
        f"from {name}": lambda x, name=name: (x * 100).astype(name).astype(BFLOAT16) * 1.5
        for name in OTHERS
    },
}


@pytest.mark.thorough(every=6)
@pytest.mark.parametrize("name", CALLS)
def test_as_on_the_cpu(name, gpu):
    call, x = CALLS[name], bfloats(40, 50)
    found, expected = call(ng.tensor(x, device=gpu)), call(ng.tensor(x))
    assert found.device == gpu and (found.dtype, found.shape) == (expected.dtype, expected.shape)
    a, b = numbers(found), numbers(expected)
    if a.dtype.kind in "biu":
        np.testing.assert_array_equal(a, b)
        return
    # The last digit, where sums are in another order, or functions another formula.
    size = np.abs(b[np.isfinite(b)]).max()
    np.testing.assert_allclose(a, b, rtol=2**-7, atol=size * 2**-9)


def test_casts_of_every_number(gpu):
    every = np.arange(1 << 16, dtype=np.uint16)
    x = ng.tensor(every.view(BFLOAT16), device=gpu)
    wide = x.astype(np.float32)
    np.testing.assert_array_equal(numbers(wide), every.view(BFLOAT16).astype(np.float32))
    back = wide.astype(BFLOAT16).cpu().numpy().view(np.uint16)
    is_number = ~np.isnan(numbers(wide))
    np.testing.assert_array_equal(back[is_number], every[is_number])
    assert np.isnan(back.view(BFLOAT16)[~is_number]).all()


def test_rounding_to_even(gpu):
    upper = np.arange(0, 1 << 16, 7, dtype=np.uint32) << 16
    x = (upper[:, None] | np.uint32([1, 0x7FFF, 0x8000, 0x8001, 0xFFFF])).view(np.float32)
    rounded = ng.tensor(x, device=gpu).astype(BFLOAT16)
    np.testing.assert_array_equal(numbers(rounded), x.astype(BFLOAT16).astype(np.float32))


FEW = ("arithmetic", "sums", "to uint64")
MORE = ("functions", "another order", "sums of columns", "positions", "softmax", "slices", "ranges")
MORE += ("to bool", "from float64", "from float16")


@pytest.mark.thorough(but="few")
@pytest.mark.parametrize(
    ("names", "architecture"),
    [
        pytest.param(FEW, "sm_90", id="few"),
        pytest.param(MORE, "sm_90", id="more", marks=pytest.mark.thorough(rare=True)),
        pytest.param((*FEW, *MORE), "sm_80", id="all, sm_80"),
    ],
)
@needs_compiler
def test_kernels_compile(names, architecture):
    x = bfloats(300, 400)
    sources = []
    for name in names:
        run = GraphRun(is_run=False)
        run.evaluate(CALLS[name], x)
        sources += [emitted.source for emitted in run.emitted]
    assert len(sources) >= len(names)
    for kernel in build.build_all(sources, architecture):
        assert kernel.spilled_bytes == 0


def test_exchange_by_dlpack(driver: HostDriver):
    array = bfloats(3, 4)
    theirs = ForeignDlpack(array.view(np.uint16), code=4)
    x = ng.from_dlpack(theirs)
    assert x.dtype == BFLOAT16
    np.testing.assert_array_equal(numbers(x), array.astype(np.float32))
    tensor = read(x.__dlpack__(max_version=(1, 0)))
    assert (tensor.code, tensor.bits, tensor.lanes) == (4, 16, 1)
    with pytest.raises(AttributeError, match=r"no bfloat16(.|\n)*from_dlpack"):
        _ = x.__cuda_array_interface__
    with pytest.raises(DTypeError):
        ng.from_dlpack(ForeignDlpack(np.zeros(3, np.uint32), code=4))
