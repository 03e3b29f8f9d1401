"""The kernels around LAPACK, in every dtype, against what defines their results."""

import itertools
from typing import Any

import numpy as np
import pytest
import scipy.linalg
from scipy.linalg import lapack as scipy_lapack

import numba_grad as ng
from numba_grad.compiler import library_kernels as kernels
from numba_grad.compiler.building.build import build
from numba_grad.compiler.building.engine_build import native_engine
from numba_grad.compiler.kernel_language.front_end import is_plain
from numba_grad.compiler.library_kernels import LibraryCall, eigenvalues, singular_values
from numba_grad.config import configure
from numba_grad.runtime import library
from numba_grad.runtime.plan import PlanBuilder
from tests.compiler.library_plans import append_call

FLOATS = [np.dtype(name) for name in ("float32", "float64", "complex64", "complex128")]
SIZES = [(1, 1), (2, 2), (5, 5), (40, 40), (7, 3), (3, 7), (90, 8)]


def run(call: LibraryCall, inputs: list[np.ndarray], shape: tuple, dtype: Any) -> np.ndarray:
    builder = PlanBuilder(len(inputs), [(shape, np.dtype(dtype))])
    scratch = builder.reserve(call.scratch_bytes)
    append_call(
        builder,
        call,
        lambda source: builder.kernel(build(source)),
        inputs=[(builder.input(k), 0) for k in range(len(inputs))],
        outputs=[(builder.output(0), 0)],
        scratch=(builder.arena, scratch),
    )
    [result] = native_engine().run(builder.build(), [np.ascontiguousarray(x) for x in inputs])
    return result


def random(dtype: np.dtype, *shape: int) -> np.ndarray:
    rng = np.random.default_rng(len(shape) + sum(shape))
    x = rng.standard_normal(shape)
    if dtype.kind == "c":
        x = x + 1j * rng.standard_normal(shape)
    return x.astype(dtype)


def real_of(dtype: np.dtype) -> np.dtype:
    return np.real(np.empty(0, dtype)).dtype


def close(x: np.ndarray, y: np.ndarray, dtype: np.dtype, *, factor: float = 1) -> None:
    size = max(np.abs(y).max(initial=0), 1e-30)
    tolerance = factor * 100 * np.finfo(dtype).eps * max(*y.shape[-2:], 1)
    np.testing.assert_allclose(x / size, y / size, rtol=0, atol=tolerance)


def unitary(q: np.ndarray, dtype: np.dtype) -> None:
    close(
        q.conj().mT @ q,
        np.broadcast_to(np.eye(q.shape[-1]), (*q.shape[:-2], *[q.shape[-1]] * 2)),
        dtype,
    )


@pytest.mark.thorough(but="complex64")
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_factors_of_every_shape(dtype: np.dtype) -> None:
    for m, n in SIZES:
        a = random(dtype, 3, m, n)
        k = min(m, n)
        for mode, width in (("reduced", k), ("complete", m)):
            call = kernels.qr_call(dtype, m, n, 3, mode=mode)
            packed = run(call, [a], (3, m + n, width), dtype)
            q, r = packed[:, :m], packed[:, m:].mT
            unitary(q, dtype)
            close(q @ r, a, dtype)
            np.testing.assert_array_equal(np.tril(r, -1), 0)
        alone = run(kernels.qr_call(dtype, m, n, 3, mode="r"), [a], (3, k, n), dtype)
        np.testing.assert_array_equal(alone, r[:, :k])

        packed = run(kernels.lu_call(dtype, m, n, 3), [a], (3, m, n + 1), dtype)
        pivots = np.real(packed[:, :k, n]).astype(np.int64)
        order = run(kernels.permutation_call(m, k, 3), [pivots], (3, m), np.int64)
        lower = np.tril(packed[:, :, :k], -1) + np.eye(m, k, dtype=dtype)
        upper = np.triu(packed[:, :k, :n])
        close(lower @ upper, np.take_along_axis(a, order[..., None], 1), dtype)
        assert (np.abs(lower) <= 1.5).all()


@pytest.mark.thorough(but="complex64")
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_singular_values_of_every_shape(dtype: np.dtype) -> None:
    for m, n in SIZES:
        a = random(dtype, 3, m, n)
        k = min(m, n)
        expected = np.linalg.svdvals(a.astype(np.complex128))
        values = run(kernels.svd_call(dtype, m, n, 3, part="values"), [a], (3, k), real_of(dtype))
        close(values, expected, dtype)
        for part, width in (("reduced", k), ("full", max(m, n))):
            call = kernels.svd_call(dtype, m, n, 3, part=part)
            packed = run(call, [a], (3, m + n + 1, width), dtype)
            wide = part == "full"
            u, v = packed[:, :m, : m if wide else k], packed[:, m:-1, : n if wide else k]
            unitary(u, dtype)
            unitary(v, dtype)
            close(u[..., :k] * packed[:, -1:, :k] @ v[..., :k].conj().mT, a, dtype)
        b = random(dtype, m, 2)
        tolerance = np.full(3, 1e-4, real_of(dtype))
        call = kernels.lstsq_call(dtype, m, n, 2, (3,), ())
        x = run(call, [a, b, tolerance], (3, n, 2), dtype)
        condition = expected.max() / expected.min()
        close(x, np.linalg.pinv(a.astype(np.complex128)) @ b, dtype, factor=condition)


@pytest.mark.thorough(but="5-complex64")
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("n", [1, 2, 5, 40])
def test_functions_of_square_matrices(n: int, dtype: np.dtype) -> None:
    a = random(dtype, 3, n, n)
    double = a.astype(np.complex128)
    h = a + a.conj().mT
    for lower in (True, False):
        triangle = np.tril(h) if lower else np.triu(h)
        call = kernels.eigh_call(dtype, n, 3, lower=lower, vectors=True)
        packed = run(call, [triangle], (3, n + 1, n), dtype)
        vectors, values = packed[:, :n], packed[:, n:]
        unitary(vectors, dtype)
        close(vectors * values @ vectors.conj().mT, h, dtype)
        call = kernels.eigh_call(dtype, n, 3, lower=lower, vectors=False)
        close(run(call, [triangle], (3, n), real_of(dtype)), np.real(values[:, 0]), dtype)

    result = np.result_type(dtype, np.complex64)
    packed = run(kernels.eig_call(dtype, n, 3, vectors=True), [a], (3, n + 1, n), result)
    vectors, values = packed[:, :n], packed[:, n:]
    close(a @ vectors, vectors * values, dtype)
    close(np.linalg.norm(vectors, axis=1), np.ones((3, n)), dtype)
    alone = run(kernels.eig_call(dtype, n, 3, vectors=False), [a], (3, n), result)
    ours, theirs = (
        sorted(x.ravel(), key=lambda z: (round(abs(z), 2), z.real, z.imag)) for x in (alone, values)
    )
    close(np.abs(ours), np.abs(theirs), dtype, factor=10)

    definite = a @ a.conj().mT + n * np.eye(n, dtype=dtype)
    factor = run(kernels.cholesky_call(dtype, n, 3), [np.tril(definite)], a.shape, dtype)
    close(factor @ factor.conj().mT, definite, dtype)
    np.testing.assert_array_equal(np.triu(factor, 1), 0)

    close(run(kernels.det_call(dtype, n, 3), [a], (3,), dtype), np.linalg.det(double), dtype)
    sign, logarithm = np.linalg.slogdet(double)
    packed = run(kernels.slogdet_call(dtype, n, 3), [a], (3, 2), dtype)
    close(packed[:, 0], sign, dtype)
    close(packed[:, 1], logarithm, dtype)
    expected = np.linalg.det(double)[:, None, None] * np.linalg.inv(double).mT
    cofactors = run(kernels.cofactor_call(dtype, n, 3), [a], a.shape, dtype)
    close(cofactors, expected, dtype, factor=10)
    e = random(dtype, 3, n, n)
    x = np.linalg.inv(double)
    trace = np.trace(x @ e, axis1=1, axis2=2)[:, None, None]
    expected = trace * expected - (e @ x).mT @ expected
    change = run(kernels.cofactor_in_direction_call(dtype, n, 3), [a, e], a.shape, dtype)
    close(change, expected, dtype, factor=10)
    small = a / n**0.5
    expected = scipy.linalg.expm(small.astype(np.complex128))
    close(run(kernels.expm_call(dtype, n, 3), [small], a.shape, dtype), expected, dtype)


@pytest.mark.thorough(but="complex64")
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_triangular_systems(dtype: np.dtype) -> None:
    for n, columns in ((1, 1), (3, 2), (40, 5)):
        a = random(dtype, 2, 1, n, n) / n + 2 * np.eye(n, dtype=dtype)
        b = random(dtype, 3, n, columns)
        for lower in (True, False):
            for unit in (True, False):
                call = kernels.solve_triangular_call(
                    dtype, n, columns, (2, 1), (3,), lower=lower, unit_diagonal=unit
                )
                x = run(call, [a, b], (2, 3, n, columns), dtype)
                triangle = np.tril(a) if lower else np.triu(a)
                if unit:
                    triangle = triangle * (1 - np.eye(n)).astype(dtype) + np.eye(n, dtype=dtype)
                close(triangle @ x, np.broadcast_to(b, x.shape), dtype, factor=10)


def test_determinants_of_which_a_part_would_overflow() -> None:
    sizes = np.array([1e200] * 4 + [1e-200] * 4)
    for diagonal in (sizes, sizes[::-1], -sizes):
        a = np.diag(diagonal)
        value = run(kernels.det_call(a.dtype, 8, 1), [a], (), a.dtype)
        np.testing.assert_allclose(value, 1, rtol=1e-12)
    sizes = np.repeat([1e3, 1e-3, 0], [110, 109, 1])
    a = np.diag(sizes)
    derivative = run(kernels.cofactor_call(a.dtype, 220, 1), [a], a.shape, a.dtype)
    np.testing.assert_allclose(derivative[-1, -1], 1000, rtol=1e-11)
    # The least singular value is 0 but for rounding of the largest.
    np.testing.assert_allclose(np.diag(derivative)[:-1], 0, atol=1e-6)
    a = np.diag(np.full(8, 1e200))
    assert run(kernels.det_call(a.dtype, 8, 1), [a], (), a.dtype) == np.inf


@pytest.mark.parametrize("dtype", [np.dtype(float), np.dtype(complex)])
@pytest.mark.parametrize(
    ("sizes", "size"),
    [((1e200, 1e200, 1e-300), 1e100), ((0, 1e200, 1e200), 0), ((1e-200, 1e-200, 1e300), 1e-100)],
)
def test_small_determinants_do_not_overflow_on_the_way(
    sizes: tuple[float, float, float], size: float, dtype: np.dtype
) -> None:
    a = np.stack([np.diag(order) for order in itertools.permutations(sizes)]).astype(dtype)
    value = run(kernels.det_call(dtype, 3, 6), [a], (6,), dtype)
    np.testing.assert_allclose(value, size, rtol=1e-14)


def test_a_stack_is_cut_into_tasks_for_any_number_of_threads() -> None:
    a = np.random.default_rng(0).standard_normal((3000, 3, 3))
    call = kernels.svd_call(a.dtype, 3, 3, 3000, part="reduced")
    assert 1 < call.steps[0].launch.number <= 64
    results = []
    for threads in (1, 2, 4):
        with configure(threads=threads):
            results.append(run(call, [a], (3000, 7, 3), a.dtype))
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])
    u, v = results[0][:, :3], results[0][:, 3:6]
    np.testing.assert_allclose(u * results[0][:, 6:] @ v.mT, a, atol=1e-13)


def test_large_matrices_share_memory() -> None:
    call = kernels.svd_call(np.dtype(float), 2000, 2000, 50, part="reduced")
    assert call.scratch_bytes < 2 << 30


@pytest.mark.parametrize("integers", ["NumPy's", "SciPy's, of 4 bytes"])
def test_pivots_are_read_in_the_size_that_the_library_has(
    integers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if integers != "NumPy's":
        monkeypatch.setattr(library, "_numpy_library", lambda: None)
    library.symbol_address.cache_clear()
    try:
        for n in (1, 2, 3, 8):
            a = random(np.dtype(float), 4, n, n)
            value = run(kernels.det_call(a.dtype, n, 4), [a], (4,), a.dtype)
            np.testing.assert_allclose(value, np.linalg.det(a), rtol=1e-11)
            packed = run(kernels.lu_call(a.dtype, n, n, 4), [a], (4, n, n + 1), a.dtype)
            for k in range(4):
                lu, pivots = scipy.linalg.lu_factor(a[k])
                np.testing.assert_allclose(packed[k, :, :n], lu, rtol=1e-11)
                np.testing.assert_array_equal(packed[k, :, n], pivots)
    finally:
        library.symbol_address.cache_clear()


def test_profiles_count_operations() -> None:
    a = np.eye(30)
    for function, expected in (
        (ng.linalg.cholesky, 30**3 // 3),
        (lambda a: ng.linalg.solve(a, a), 2 * 30**3 // 3 + 2 * 30**3),
        (lambda a: ng.linalg.solve(a * 1j, a[:, :1]), 4 * (2 * 30**3 // 3 + 2 * 30**2)),
    ):
        kernels_of_function = ng.jit(function).lower(a).kernels
        of_matrices = [x.flops for x in kernels_of_function if x.flops > 4 * 30**2]
        assert sum(of_matrices) == expected


def wanted(name: str, dtype: np.dtype, *args: Any, **kwargs: Any) -> int:
    """The work array that LAPACK would best have."""
    query: Any = scipy_lapack.get_lapack_funcs(name + "_lwork", dtype=dtype)
    return int(np.real(query(*args, **kwargs)[0]))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_work_arrays_are_as_large_as_lapack_wants(dtype: np.dtype) -> None:
    for m, n in [*SIZES, (1, 300), (300, 1), (300, 40), (40, 300), (200, 200), (600, 500)]:
        for job, options in (
            ("N", {"compute_uv": 0}),
            ("S", {"full_matrices": 0}),
            ("A", {"full_matrices": 1}),
        ):
            size, _ = singular_values._gesdd_sizes(m, n, job)
            assert size >= wanted("gesdd", dtype, m, n, **options), (m, n, job)
        assert 64 * max(n, 1) >= wanted("geqrf", dtype, m, n)
        if m == n:
            name = "heevd" if dtype.kind == "c" else "syevd"
            for vectors in (True, False):
                call = eigenvalues.eigh_call(dtype, n, 1, lower=True, vectors=vectors)
                assert has_word(call, at_least=wanted(name, dtype, n, compute_v=int(vectors)))
            for vectors in (True, False):
                call = eigenvalues.eig_call(dtype, n, 1, vectors=vectors)
                options = {"compute_vl": 0, "compute_vr": int(vectors)}
                assert has_word(call, at_least=wanted("geev", dtype, n, **options))


def has_word(call: LibraryCall, *, at_least: int) -> bool:
    """Whether the step names a work array of that size."""
    position = call.steps[0].source.split("work_size = words[")[1].split("]")[0]
    word = call.steps[0].words[int(position)]
    assert isinstance(word, int)
    return word >= at_least


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("n", [1, 2])
def test_cofactors_of_two_rows_are_elements(n: int, dtype: np.dtype) -> None:
    """So nothing overflows, and no kernel with singular values is compiled for them."""
    a = np.full((3, n, n), np.finfo(dtype).max, dtype)
    a[:, 0, 0] = 2
    call = kernels.cofactor_call(dtype, n, 3)
    expected = (
        np.ones_like(a)
        if n == 1
        else np.stack([[[x[1, 1], -x[1, 0]], [-x[0, 1], x[0, 0]]] for x in a])
    )
    np.testing.assert_array_equal(run(call, [a], a.shape, dtype), expected)
    assert call.scratch_bytes == 0


@pytest.mark.thorough(every=5)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("n", [2, 4, 6, 18])
def test_one_system_has_the_bits_of_a_stack(n: int, dtype: np.dtype) -> None:
    """Of a few matrices kernels are compiled without LLVM's passes."""
    random = np.random.default_rng(n)
    a = random.normal(size=(20, n, n)).astype(dtype)
    b = random.normal(size=(20, n, 1)).astype(dtype)
    many = kernels.solve_call(dtype, n, 1, (20,), (20,))
    one = kernels.solve_call(dtype, n, 1, (), ())
    assert "few_points()" in one.steps[0].source
    assert "few_points()" not in many.steps[0].source
    together = run(many, [a, b], b.shape, dtype)
    for k in range(20):
        np.testing.assert_array_equal(run(one, [a[k], b[k]], (n, 1), dtype), together[k])


def test_what_only_calls_a_library_needs_none_of_llvms_passes() -> None:
    """They took 40 ms of a first run for a product. Past 8,192 products copies count."""
    operands = kernels.MatrixOperand(()), kernels.MatrixOperand(())
    product = kernels.matmul_call(np.dtype(np.float64), 40, 30, 20, *operands)
    assert "blas.dgemm" in str(product.steps[0].words)
    assert is_plain(product.steps[0].source, "kernel")
    small, large = (kernels.lu_call(np.dtype(np.float64), n, n, 1) for n in (18, 40))
    assert is_plain(small.steps[0].source, "kernel")
    assert not is_plain(large.steps[0].source, "kernel")
