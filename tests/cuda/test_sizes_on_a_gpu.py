"""Sizes that the emulator is too slow for, on a real GPU, against the CPU: `pytest -m cuda`.

The emulator runs a kernel's source, so it does not see what the compiler makes of it: of back
substitution in matrices of 5 to 32 rows NVVM made nothing, which the first run on a GPU found.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.runtime.cuda import libraries

pytestmark = [pytest.mark.cuda, pytest.mark.usefixtures("real_gpu")]

RNG = np.random.default_rng(0)
TOLERANCES = {"f": 2e-4, "d": 1e-9, "F": 2e-4, "D": 1e-9}  # relative to the largest element


def check(
    function: Callable[..., Any], *arrays: Any, has_gradients: bool = True, wider: bool = False
) -> None:
    """Values, and gradients of the sum of their squares. `wider`: float32 against float64, where
    the CPU, which adds one after the other, is the less accurate one."""
    given = [np.asarray(a) for a in arrays]

    def run(device: str) -> list[np.ndarray]:
        is_wide = wider and device == "cpu"
        tensors = [
            ng.tensor(
                a.astype("f8") if is_wide and a.dtype == "f4" else a,
                device=device,
                requires_grad=has_gradients and a.dtype.kind in "fc",
            )
            for a in given
        ]
        results = function(*tensors)
        results = list(results) if isinstance(results, tuple) else [results]
        leaves = [x for x in tensors if x.requires_grad]
        squares = [ng.sum(ng.abs(y) ** 2) for y in results if y.requires_grad]
        found = ng.autograd.grad(sum(squares), leaves, allow_unused=True) if squares else ()
        found = [x for x in found if x is not None]
        return [x.detach().cpu().numpy() for x in (*results, *found)]

    for value, expected in zip(run("cuda"), run("cpu"), strict=True):
        assert value.shape == expected.shape
        assert value.dtype == expected.dtype or (wider and value.dtype == "f4")
        if value.dtype.char not in TOLERANCES:
            np.testing.assert_array_equal(value, expected)
            continue
        scale = np.abs(expected).max(initial=0.0, where=np.isfinite(expected)) or 1.0
        np.testing.assert_allclose(
            value / scale, expected / scale, rtol=0, atol=TOLERANCES[value.dtype.char]
        )


def random(dtype: str, *shape: int) -> np.ndarray:
    values = RNG.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * RNG.standard_normal(shape)
    return values.astype(dtype)


def regular(dtype: str, n: int) -> np.ndarray:
    """Three matrices, far from singular."""
    return random(dtype, 3, n, n) + 2 * n**0.5 * np.eye(n, dtype=dtype)


MATRICES: dict[str, Callable[[Any], Any]] = {
    "inv": lambda a: ng.linalg.inv(a),
    "det": lambda a: ng.linalg.det(a / a.shape[-1] ** 0.5),
    "slogdet": lambda a: ng.linalg.slogdet(a)[1],
    "cholesky": lambda a: ng.linalg.cholesky(a @ ng.conj(a).mT),
    "eigvalsh": lambda a: ng.linalg.eigvalsh(a + ng.conj(a).mT),
    "qr": lambda a: ng.abs(ng.linalg.qr(a).R),
    "svdvals": lambda a: ng.linalg.svdvals(a),
    "expm": lambda a: ng.linalg.expm(a / a.shape[-1]),
}


@pytest.mark.parametrize("n", [2, 5, 9, 17, 32, 33, 70])
@pytest.mark.parametrize("name", MATRICES)
def test_matrices(name, n):
    for dtype in ("f4", "f8", "c16"):
        if name in ("cholesky", "qr", "det") and dtype == "f4" and n > 32:
            continue  # ill-conditioned for this tolerance
        check(MATRICES[name], regular(dtype, n))


@pytest.mark.parametrize("n", [5, 9, 17, 32, 33, 70])
def test_systems(n):
    for dtype in ("f4", "f8", "c16"):
        for columns in (1, 3, 40):
            a, b = regular(dtype, n), random(dtype, 3, n, columns)
            check(ng.linalg.solve, a, b)
            for lower in (True, False):

                def solve(a: Any, b: Any, lower: bool = lower) -> Any:
                    return ng.linalg.solve_triangular(a, b, lower=lower)

                check(solve, a, b)


@pytest.mark.parametrize("size", [1000, 1025, 5000, 100_000, 2_000_001])
def test_sorts(size):
    for dtype in ("f4", "f8", "i4", "i8", "u1"):
        values = (100 * RNG.standard_normal(size)).astype(dtype)
        check(lambda x: (ng.sort(x), ng.argsort(x)), values)
    check(lambda x: ng.sort(x, 0), RNG.standard_normal((size // 5, 5)))
    check(lambda x, v: ng.searchsorted(ng.sort(x), v), random("f8", size), random("f8", 1000))


@pytest.mark.parametrize(
    "shape", [(1_000_001,), (3, 100_003), (100_003, 3), (300, 301), (5, 2000, 7)], ids=str
)
def test_scans_and_reductions(shape):
    for dtype in ("f4", "f8", "c16"):
        x = random(dtype, *shape)
        for axis in (None, 0, -1):
            check(lambda x, axis=axis: (ng.sum(x, axis), ng.mean(x, axis)), x)
            check(lambda x, axis=axis: ng.cumsum(x, axis) / 1000, x, wider=True)
            if dtype != "c16":
                check(lambda x, axis=axis: (ng.max(x, axis), ng.min(x, axis)), x)
                check(lambda x, axis=axis: (ng.var(x, axis), ng.argmax(x, axis)), x)
    # A tree of products near 1 rounds ties of float32 down: 7e-9 for each factor, which is within
    # the bound, and far from what one product after the other gives.
    check(lambda x: ng.cumprod(1 + x / 1e4, -1), random("f8", *shape))
    integers = RNG.integers(-100, 100, shape, np.int32)
    for axis in (None, 0, -1):
        check(lambda x, axis=axis: (ng.sum(x, axis), ng.argmin(x, axis)), integers)
        check(lambda x, axis=axis: (ng.any(x > 98, axis), ng.all(x > -99, axis)), integers)


PRODUCTS = [(64, 64, 64), (200, 130, 70), (900, 1000, 800), (17, 3000, 5), (3, 5, 100_000)]


@pytest.mark.parametrize("by", ["own kernels", "cuBLAS"])
@pytest.mark.parametrize("sizes", PRODUCTS, ids=str)
def test_products(sizes, by, monkeypatch):
    m, n, k = sizes
    if by == "own kernels":
        monkeypatch.setattr(libraries, "cublas", lambda: None)
        m += 1  # plans are kept by shapes
    elif libraries.cublas() is None:
        pytest.skip("cuBLAS is not installed")
    for dtype in ("f4", "f8", "c8"):
        check(lambda x, y: x @ y / 100, random(dtype, m, k), random(dtype, k, n))
        check(lambda x, y: x.mT @ y.mT / 100, random(dtype, 3, k, m), random(dtype, n, k))


@pytest.mark.parametrize("columns", [100, 1024, 2047, 2048, 5000, 40_000])
def test_chains_of_rows(columns):
    for dtype in ("f4", "f8"):
        for rows in (3, 1000):
            x, scale = random(dtype, rows, columns), random(dtype, columns)

            def normalized(x: Any, scale: Any) -> Any:
                centred = x - ng.mean(x, 1, keepdims=True)
                deviation = ng.sqrt(ng.mean(centred * centred, 1, keepdims=True) + 1e-5)
                return ng.tanh(centred / deviation * scale)

            check(lambda x: ng.softmax(x, 1), x)
            check(normalized, x, scale)


def test_indices():
    x, many = random("f8", 1000, 20), RNG.integers(0, 1000, 300_000)
    check(lambda x, i: x[i].sum(1), x, many)
    check(lambda x, i: x[:, i % 20].sum(0), x, many[:1000])
    check(lambda x: ng.take_along_axis(x, ng.argsort(x, 0), 0), x)
    for shape in ((1000, 777), (30, 40, 1001), (2, 3, 4, 5, 600)):
        check(lambda x: ng.transpose(x) * 2.0 + 1.0, random("f4", *shape))
    check(lambda x, y: ng.convolve(x, y), random("f8", 20_000), random("f8", 301))


def test_loops():
    x = random("f8", 1000) / 10
    check(lambda x: ng.fori_loop(0, 50, lambda k, y: ng.sin(y) + 0.1 * k * x, x), x)
    check(lambda x: ng.scan(lambda c, k: (c * 0.9 + k, c.sum()), x, ng.arange(40.0))[1], x)

    def newton(x: Any) -> Any:
        return ng.while_loop(
            lambda c: ng.max(ng.abs(c * c - x - 2.0)) > 1e-12,
            lambda c: (c + (x + 2.0) / c) / 2,
            x + 2,
        )

    check(newton, x)
    check(lambda x: ng.cond(ng.sum(x) > 0, ng.sin, ng.cos, x), x)
    check(lambda x: ng.cond(ng.sum(x) < 0, ng.sin, ng.cos, x), x)
