"""Kernels for operations that are no loop nests: each example of the registry in the emulator, and
compiled for architectures; and what is particular to one family of them."""

import itertools

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.compiler.cuda.library_kernels import Options, scans, scatters, sorts
from numba_grad.errors import KernelError
from numba_grad.ops import all_ops
from numba_grad.runtime.cuda import cupy_calls
from tests.cuda.library_calls import call_of, check_compiles, emulated, node_of, ptx_that_fits
from tests.cuda.requirements import needs_compiler

OPS = all_ops()
SINGLE = {"d": "f", "D": "F"}


def cast(array, dtypes, single):
    """An example's array in single precision, if it is of floating numbers and may be."""
    if single and array.dtype.char in SINGLE and SINGLE[array.dtype.char] in dtypes:
        return array.astype(SINGLE[array.dtype.char])
    return array


def expected(op, arrays, params):
    with np.errstate(all="ignore"):
        return op.reference(*arrays, **params)


FAMILIES = (
    *("argsort", "scatter_add", "scatter_set"),
    *("cumsum", "cumprod", "linear_recurrence", "cumargmax", "cumargmin"),
    *("searchsorted", "correlate", "gamma_draw", "poisson_draw", "gamma_moment", "beta_moment"),
    *("zeta_derivative", "hyp1f1_derivative", "bessel_k_derivative", "permutation"),
)


@pytest.mark.thorough(
    but="^(argsort|scatter_set|cumsum|correlate|searchsorted|permutation)-single|(gamma_draw|hyp1f1_derivative)-double"
)
@pytest.mark.parametrize("single", [False, True], ids=["double", "single"])
@pytest.mark.parametrize("name", FAMILIES)
def test_examples(name, single):
    op = OPS[name]
    for arrays, params in op.example(np.random.default_rng(0)):
        arrays = [cast(np.asarray(a), op.dtypes, single) for a in arrays]
        value, errors = emulated(node_of(name, *arrays, **params), *arrays)
        assert not errors[0]
        np.testing.assert_allclose(
            value, expected(op, arrays, params), rtol=1e-5 if single else 1e-12, atol=1e-6
        )


# Sorts

SORTED = ("bool", "int8", "uint8", "int32", "int64", "uint64", "float16", "float32", "float64")


def unsorted(n, dtype, seed=0):
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    if dtype.kind in "biu":
        high = 2 if dtype.kind == "b" else 100
        low = -100 if dtype.kind == "i" else 0
        return rng.integers(low, high, n).astype(dtype)
    values = rng.integers(-5, 5, n).astype(np.float64)
    special = [np.nan, np.inf, -np.inf, -0.0, 0.0]
    places = rng.integers(0, n, 5) if n else []
    values[places] = special[: len(places)]
    if dtype.kind == "c":
        both = np.empty(n, np.complex128)
        both.real, both.imag = values, values[rng.permutation(n)]
        values = both
    return values.astype(dtype)


@pytest.mark.thorough(every=3)
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", [*SORTED, "complex64", "complex128"])
def test_order_is_that_of_the_reference(dtype, descending):
    for n in (1, 37, 64):
        x = unsorted(n, dtype)
        params = {"axis": 0, "descending": descending}
        value, _ = emulated(node_of("argsort", x, **params), x)
        np.testing.assert_array_equal(value, OPS["argsort"].reference(x, **params))


def test_stacks_are_sorted_along_any_axis():
    x = unsorted(60, "float32").reshape(3, 5, 4)
    for axis in range(3):
        params = {"axis": axis, "descending": False}
        value, _ = emulated(node_of("argsort", x, **params), x)
        np.testing.assert_array_equal(value, OPS["argsort"].reference(x, **params))


@pytest.mark.thorough(but="float32")
@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_long_lines_are_merged_from_tiles(dtype, monkeypatch):
    monkeypatch.setattr(sorts, "_TILES", (16,))
    monkeypatch.setattr(sorts, "TILE", 16)
    for shape in ((17,), (100,), (2, 35), (128,)):
        x = unsorted(int(np.prod(shape)), dtype).reshape(shape)
        params = {"axis": len(shape) - 1, "descending": False}
        value, _ = emulated(node_of("argsort", x, **params), x)
        np.testing.assert_array_equal(value, OPS["argsort"].reference(x, **params))


@pytest.mark.thorough(but="uint8")
@needs_compiler
@pytest.mark.parametrize(
    "dtype",
    ["uint8", "float32", pytest.param("complex128", marks=pytest.mark.thorough(rare=True))],
)
def test_sorts_compile(dtype):
    x = np.zeros(5000, dtype)
    node = node_of("argsort", x, axis=0, descending=True)
    check_compiles(call_of(node), np.dtype(dtype), double=dtype == "complex64")


# Scatters


@pytest.mark.thorough(every=5)
@pytest.mark.parametrize("name", ["scatter_add", "scatter_set"])
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "float16", "float64", "complex64"])
@pytest.mark.parametrize("positions", [3, 70])
def test_duplicates_as_numpy_has_them(name, dtype, positions):
    rng = np.random.default_rng(0)
    x = unsorted(10, "int8").astype(dtype).reshape(5, 2)
    v = unsorted(2 * positions, "int8", 1).astype(dtype).reshape(positions, 2)
    index = rng.integers(-5, 5, positions)
    index[1:] = np.where(rng.random(positions - 1) < 0.7, 2, index[1:])  # a long run
    node = node_of(name, x, v, index)
    assert len(call_of(node).steps) == (4 if positions == 3 or name == "scatter_set" else 5)
    for in_place in (False, True):
        value, _ = emulated(node, x, v, index, in_place=in_place)
        np.testing.assert_array_equal(value, OPS[name].reference(x, v, index))


def test_runs_over_many_pieces(monkeypatch):
    monkeypatch.setattr(scatters, "_PIECE", 4)
    monkeypatch.setattr(scatters, "_MOST_PIECES", 3)
    positions = 150
    x, v = np.zeros(3), np.arange(float(positions))
    index = np.sort(np.random.default_rng(0).integers(0, 3, positions))
    node = node_of("scatter_add", x, v, index)
    assert len(call_of(node).steps) == 7
    order = np.random.default_rng(1).permutation(positions)
    for chosen in (index, index[order], np.zeros_like(index)):
        value, _ = emulated(node, x, v, chosen)
        np.testing.assert_array_equal(value, OPS["scatter_add"].reference(x, v, chosen))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "int8"])
def test_in_any_order_if_asked_for(dtype):
    x, v = unsorted(6, "int8").astype(dtype), unsorted(20, "int8", 1).astype(dtype)
    index = np.random.default_rng(0).integers(-3, 3, (2, 20)) // [[3], [1]]
    x = x.reshape(2, 3)
    node = node_of("scatter_add", x, v, *index)
    options = Options(deterministic=False)
    assert len(call_of(node, options).steps) == (4 if dtype == "int8" else 2)
    value, errors = emulated(node, x, v, *index, options=options)
    assert not errors[0]
    np.testing.assert_array_equal(value, OPS["scatter_add"].reference(x, v, *index))


@needs_compiler
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_atomics_compile(dtype):
    x, v, index = np.zeros(3, dtype), np.zeros(5, dtype), np.zeros(5, np.int64)
    call = call_of(node_of("scatter_add", x, v, index), Options(deterministic=False))
    check_compiles(call, np.dtype(dtype))


def test_an_index_out_of_range_is_recorded():
    x, v = np.zeros(3), np.ones(2)
    for name in ("scatter_add", "scatter_set"):
        index = np.array([1, 3])
        _, errors = emulated(node_of(name, x, v, index), x, v, index)
        assert errors[:4].tolist() == [1, 7, 3, 3]


def test_nothing_to_scatter():
    for shape, positions in (((3, 0), 2), ((3, 2), 0), ((0, 2), 0)):
        x, v = np.ones(shape), np.ones((positions, shape[1]))
        index = np.zeros(positions, np.int64)
        value, _ = emulated(node_of("scatter_add", x, v, index), x, v, index)
        np.testing.assert_array_equal(value, x)


# Scans


def scanned(name, shape, dtype, axis=0, reverse=False):
    """A scan of numbers whose results are exact, and its inputs."""
    size = int(np.prod(shape))
    params = {"axis": axis}
    if name in ("cumsum", "linear_recurrence"):
        params["reverse"] = reverse
    if name == "cumprod":
        x = np.random.default_rng(0).choice([1, -1], size)
    else:
        x = unsorted(size, "int8") % 7 - 3
    arrays = [x.astype(dtype).reshape(shape)]
    if name == "linear_recurrence":
        arrays = [np.sign(arrays[0]), arrays[0][::-1].copy()]
    return node_of(name, *arrays, **params), arrays, params


SCANS = ("cumsum", "cumprod", "linear_recurrence", "cumargmax", "cumargmin")


@pytest.mark.thorough(but="^(5|63)-")
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", SCANS)
@pytest.mark.parametrize("n", [1, 5, 63, 300])
def test_scans_by_blocks(name, n, reverse, monkeypatch):
    monkeypatch.setattr(scans, "_SHORT_LINE", 0)
    monkeypatch.setattr(scans, "THREADS", 8)
    monkeypatch.setattr(scans, "_CHUNK", 32)
    for shape, axis in (((n,), 0), ((2, n, 3), 1)):
        node, arrays, params = scanned(name, shape, "float64", axis, reverse)
        value, _ = emulated(node, *arrays)
        np.testing.assert_array_equal(value, OPS[name].reference(*arrays, **params))
        assert len(call_of(node).steps) == (2 if n > 32 else 1)


@pytest.mark.parametrize("name", SCANS)
@pytest.mark.parametrize(
    ("shape", "axis", "is_by_blocks"),
    [((5, 20), 1, True), ((5, 15), 1, False), ((20, 5), 0, False), ((3, 20), 1, True)],
)
def test_many_lines_are_blocks_where_their_elements_are_neighbours(
    name, shape, axis, is_by_blocks, monkeypatch
):
    for constant, value in (("_MANY_LINES", 4), ("_LONG_LINE", 16), ("_SHORT_LINE", 8)):
        monkeypatch.setattr(scans, constant, value)
    node, arrays, params = scanned(name, shape, "float64", axis)
    value, _ = emulated(node, *arrays)
    np.testing.assert_array_equal(value, OPS[name].reference(*arrays, **params))
    (step,) = call_of(node).steps
    assert ("cuda.syncthreads()" in step.source) == is_by_blocks


SCANNED = ("bool", "int8", "float16", "float32", "complex64")


@pytest.mark.thorough(every=5)
@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        (name, dtype)
        for name, dtype in itertools.product(SCANS, SCANNED)
        if (name, dtype) != ("linear_recurrence", "bool")
    ],
)
def test_scans_of_dtypes(name, dtype):
    for shape in ((7, 3), (70,)):
        node, arrays, params = scanned(name, shape, dtype)
        value, _ = emulated(node, *arrays)
        np.testing.assert_array_equal(value, OPS[name].reference(*arrays, **params))


@pytest.mark.parametrize("name", ["cumargmax", "cumargmin"])
def test_positions_of_the_last_nan(name):
    x = np.array([1.0, 3, 3, np.nan, 5, np.nan, 0, np.inf])
    x = np.concatenate([x, np.arange(90.0)])
    for shape in ((8,), (98,)):
        y = x[: shape[0]]
        value, _ = emulated(node_of(name, y, axis=0), y)
        np.testing.assert_array_equal(value, OPS[name].reference(y, axis=0))


@pytest.mark.thorough(but="cumsum")
@needs_compiler
@pytest.mark.parametrize(
    ("name", "dtype"),
    [("cumsum", "float32"), ("linear_recurrence", "complex64"), ("cumargmax", "float32")],
)
def test_scans_compile(name, dtype):
    node, _, _ = scanned(name, (5000,), dtype)
    check_compiles(call_of(node), np.dtype(dtype))


# Small matrices: kernels of the CPU, translated

MATRICES = ("inv", "solve", "cholesky", "det", "slogdet", "solve_triangular")


def matrices(name, n, dtype, count=3):
    """An operation on a stack of matrices that are no trouble, and its inputs."""
    rng = np.random.default_rng(0)
    a = rng.standard_normal((count, n, n))
    if np.dtype(dtype).kind == "c":
        a = a + 1j * rng.standard_normal((count, n, n))
    if name == "cholesky":
        a = a @ np.conj(a.mT)
    a = ((a + n * np.eye(n)) / n).astype(dtype)
    if not name.startswith("solve"):
        return node_of(name, a), (a,)
    b = rng.standard_normal((n, 3)).astype(dtype)
    params = {"lower": True, "unit_diagonal": False} if name == "solve_triangular" else {}
    return node_of(name, a, b, **params), (a, b)


@pytest.mark.thorough(but="float32|complex64", every=3)
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("name", MATRICES)
def test_small_matrices(name, dtype):
    for n in (1, 3, 4):
        node, arrays = matrices(name, n, dtype)
        value, errors = emulated(node, *arrays)
        assert not errors[0]
        tolerance = 1e-12 if node.inputs[0].dtype.name in ("float64", "complex128") else 1e-4
        expected = node.op.reference(*arrays, **node.params)
        np.testing.assert_allclose(value, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.thorough(every=8)
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("name", [*MATRICES, "lu", "cofactor"])
def test_a_warp_for_each_matrix(name, dtype):
    for n in (5, 32):
        node, arrays = matrices(name, n, dtype, count=2)
        value, errors = emulated(node, *arrays)
        assert not errors[0]
        single = node.inputs[0].dtype.name in ("float32", "complex64")
        wide = [a.astype(np.result_type(a, np.float64)) for a in arrays]
        expected = node.op.reference(*wide, **node.params)
        scale = np.abs(expected).max()
        tolerance = 1e-4 if single else 1e-11
        np.testing.assert_allclose(value, expected, rtol=tolerance, atol=tolerance * scale)


@pytest.mark.parametrize("shape", [(5, 9), (9, 5), (1, 5), (3, 0), (5, 5)])
def test_pivots_are_those_of_the_reference(shape):
    a = np.random.default_rng(0).integers(-2, 3, (2, *shape)).astype(np.float64)
    node = node_of("lu", a)
    value, _ = emulated(node, a)
    np.testing.assert_allclose(value, node.op.reference(a), atol=1e-14)


@pytest.mark.thorough(every=8)
@pytest.mark.parametrize("mode", ["reduced", "complete", "r"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_qr_has_the_signs_of_lapack(mode, dtype):
    rng = np.random.default_rng(0)
    for shape in ((5, 5), (7, 3), (3, 7), (1, 1), (32, 32), (4, 0), (0, 4)):
        a = rng.standard_normal((2, *shape))
        if np.dtype(dtype).kind == "c":
            a = a + 1j * rng.standard_normal((2, *shape))
        a = a.astype(dtype)
        if a.size:
            a[1, :, 0] = 0  # for which there is no reflection
        node = node_of("qr", a, mode=mode)
        value, _ = emulated(node, a)
        tolerance = 2e-5 if dtype in ("float32", "complex64") else 1e-13
        np.testing.assert_allclose(value, node.op.reference(a, mode=mode), atol=tolerance * 20)


@pytest.mark.thorough(but="complex64-True")
@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_eigenvalues_of_hermitian_matrices(lower, dtype):
    rng = np.random.default_rng(0)
    eps = np.finfo(dtype).eps
    for n in (1, 2, 3, 6, 13):
        a = rng.standard_normal((3, n, n))
        if np.dtype(dtype).kind == "c":
            a = a + 1j * rng.standard_normal((3, n, n))
        a[1] = np.eye(n) + 1e-3 * a[1]  # nearly equal ones
        a[2] = 0
        a = a.astype(dtype)
        whole = np.tril(a) + np.tril(a, -1).conj().mT if lower else np.triu(a)
        if not lower:
            whole = whole + np.triu(a, 1).conj().mT
        whole = whole - 1j * np.imag(whole) * np.eye(n) if np.iscomplexobj(a) else whole
        packed, errors = emulated(node_of("eigh", a, lower=lower), a)
        vectors, values = packed[:, :n], packed[:, n].real
        assert not errors[0] and (np.diff(values) >= 0).all()
        tolerance = 20 * n * eps
        np.testing.assert_allclose(vectors.conj().mT @ vectors, np.eye(n) + 0 * a, atol=tolerance)
        rebuilt = (vectors * values[:, None]) @ vectors.conj().mT
        np.testing.assert_allclose(rebuilt, whole, atol=tolerance * 3)
        alone, _ = emulated(node_of("eigvalsh", a, lower=lower), a)
        np.testing.assert_allclose(alone, values, atol=tolerance)


def test_eigenvalues_of_what_is_not_finite():
    a = np.stack([np.eye(5)] * 3)
    a[1, 3, 1], a[2, 1, 3] = np.nan, np.inf
    value, errors = emulated(node_of("eigh", a, lower=True), a)
    assert not errors[0] and np.isnan(value[1]).all()
    assert np.isfinite(value[[0, 2]]).all()  # the upper triangle is not read


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
def test_matrices_without_elements_need_no_library(shape, dtype):
    a = np.zeros((2, *shape), dtype)
    b, tolerance = np.ones((2, shape[0], 2), dtype), np.zeros(2, np.dtype(dtype).type(0).real.dtype)
    cases = [("lstsq", (a, b, tolerance), {}), ("svdvals", (a,), {})]
    cases += [("svd", (a,), {"full": full}) for full in (False, True)]
    for name, arrays, params in cases:
        node = node_of(name, *arrays, **params)
        value, _ = emulated(node, *arrays)
        np.testing.assert_array_equal(value, node.op.reference(*arrays, **params))


def test_determinants_do_not_overflow_on_the_way():
    a = np.diag([1e200, 1e200, 1e-200, 1e-200, 3.0, 1.0])[[1, 0, 2, 3, 4, 5]]
    for b, expected in ((a, -3.0), (1e60 * a, -np.inf), (0 * a, 0.0), (a[:0, :0], 1.0)):
        value, _ = emulated(node_of("det", b), b)
        np.testing.assert_allclose(value, expected, rtol=1e-12)


@pytest.mark.parametrize("rank", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("dtype", ["float64", "complex64"])
def test_cofactors_of_singular_matrices(rank, dtype):
    rng = np.random.default_rng(rank)
    a = (rng.standard_normal((5, rank)) @ rng.standard_normal((rank, 5))).astype(dtype)
    exact = np.zeros((5, 5)) if rank < 4 else node_of("cofactor", a).op.reference(a)
    value, _ = emulated(node_of("cofactor", a), a)
    scale = np.abs(a).max() ** 4
    np.testing.assert_allclose(value, exact, atol=scale * 200 * np.finfo(dtype).eps)
    for b, expected in ((np.ones((1, 1)), 1.0), (1e-80 * np.eye(4), 1e-240 * np.eye(4))):
        value, _ = emulated(node_of("cofactor", b), b)
        np.testing.assert_allclose(value, np.broadcast_to(expected, b.shape), rtol=1e-12)


def test_systems_broadcast():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 1, 7, 7)), rng.standard_normal((3, 7, 40))
    node = node_of("solve", a, b)
    np.testing.assert_allclose(emulated(node, a, b)[0], np.linalg.solve(a, b), rtol=1e-9)
    for lower in (False, True):
        for unit_diagonal in (False, True):
            params = {"lower": lower, "unit_diagonal": unit_diagonal}
            node = node_of("solve_triangular", a, b, **params)
            expected = node.op.reference(a, b, **params)
            value, _ = emulated(node, a, b)
            np.testing.assert_allclose(value, expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", ["inv", "solve", "cholesky", "solve_triangular"])
def test_a_bad_matrix_is_recorded_by_its_number(name):
    for n in (3, 6):
        node, (a, *rest) = matrices(name, n, "float64")
        a[1] = -np.ones((n, n)) if name == "cholesky" else np.zeros((n, n))
        _, errors = emulated(node, a, *rest)
        assert errors[:4].tolist() == [1, 7, 1, 3]


@pytest.mark.thorough
@needs_compiler
@pytest.mark.parametrize(
    ("name", "n"),
    [("inv", 9), ("solve", 3), ("slogdet", 9), ("cholesky", 9), ("qr", 9), ("eigh", 9)],
)
def test_small_matrices_compile(name, n):
    if name in ("qr", "eigh"):
        params = {"mode": "reduced"} if name == "qr" else {"lower": True}
        node = node_of(name, np.zeros((3, n, n), np.complex64), **params)
    else:
        node, _ = matrices(name, n, "complex64")
    check_compiles(
        call_of(node),
        node.inputs[0].dtype,
        double=name in ("slogdet", "cholesky"),
    )


@needs_compiler
@pytest.mark.parametrize("lower", [True, False])
def test_substitution_is_compiled(lower):
    """NVVM makes nothing of some loops; the emulator, which runs the source, does not see that."""
    node = node_of("solve_triangular", np.eye(9), np.zeros((9, 1)), lower=lower, unit_diagonal=True)
    (step,) = call_of(node).steps
    assert "sub.f64" in ptx_that_fits(step.source, step.launch.threads)


# From tensors


@pytest.mark.thorough
def test_gradients_through_library_operations(gpu):
    x = np.random.default_rng(0).standard_normal((6, 6))

    def f(x):
        values, vectors = ng.linalg.eigh(x + x.T)
        span = vectors[:, :2] @ vectors[:, :2].T
        picked = ng.take(ng.sort(x, axis=0), np.array([1, 4, 1, 1]), axis=0)
        return (
            ng.sum(ng.cumsum(picked, axis=1) * ng.linalg.inv(x)[:4])
            + ng.linalg.det(x)
            + ng.linalg.slogdet(x)[1]
            + ng.sum(ng.convolve(x[0], x[1]) ** 2)
            + ng.sum(values**3)
            + ng.sum(span * x)
        )

    results = []
    for device in ("cpu", gpu):
        leaf = ng.tensor(x, device=device, requires_grad=True)
        out = f(leaf)
        out.backward()
        results.append((out.detach().cpu().numpy(), leaf.grad.cpu().numpy()))
    for expected, found in zip(*results, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_settings_are_taken_when_a_graph_is_compiled(gpu):
    index = np.array([2, 0, 2])
    for deterministic in (True, False):
        x = ng.tensor(np.zeros(3), device=gpu)
        with ng.configure(deterministic=deterministic):
            gradient = ng.jit(ng.grad(lambda x: ng.sum(x[index] * x[index] + x[index])))
            lowered = gradient.lower(x)
            np.testing.assert_array_equal(gradient(x).cpu().numpy(), [1, 0, 2])
        sources = "".join(kernel.source for kernel in lowered.kernels)
        assert ("atomic_add" in sources) != deterministic


def test_what_there_is_no_library_for_says_what_to_do(gpu):
    if cupy_calls.cupy() is not None:
        pytest.skip("CuPy is installed")
    x = ng.tensor(np.eye(3), device=gpu)
    with pytest.raises(KernelError, match=r"svd[\s\S]*CuPy[\s\S]*pip install"):
        ng.linalg.svdvals(x).cpu().numpy()


def test_constant_indices_in_a_jitted_function_of_what_requires_grad(gpu):
    x = ng.tensor(np.arange(3.0), device=gpu, requires_grad=True)
    index = np.array([2, 0, 2])
    y = ng.sum(ng.jit(lambda x: x[index] ** 2)(x))
    y.backward()
    np.testing.assert_array_equal(x.grad.cpu().numpy(), [0, 0, 8])
