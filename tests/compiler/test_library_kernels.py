"""Each library kernel against NumPy."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from numba_grad.compiler import library_kernels as kernels
from numba_grad.compiler.building.build import build
from numba_grad.compiler.building.engine_build import native_engine
from numba_grad.compiler.library_kernels import LibraryCall, MatrixOperand
from numba_grad.config import configure
from numba_grad.dtypes import computed_in
from numba_grad.ops.scans import cumargmax, cumargmin, linear_recurrence
from numba_grad.runtime.plan import ErrorSite, Plan, PlanBuilder
from tests.compiler.library_plans import append_call

FLOATS = [np.dtype(name) for name in ("float32", "float64", "complex64", "complex128")]
SORTED = [np.dtype(name) for name in ("bool", "int8", "uint64", "float16", "float64", "complex128")]


def plan_of(call: LibraryCall, input_count: int, shape: tuple[int, ...], dtype: object) -> Plan:
    builder = PlanBuilder(input_count, [(shape, np.dtype(dtype))])
    scratch = builder.reserve(call.scratch_bytes)
    append_call(
        builder,
        call,
        lambda source: builder.kernel(build(source)),
        inputs=[(builder.input(k), 0) for k in range(input_count)],
        outputs=[(builder.output(0), 0)],
        scratch=(builder.arena, scratch),
    )
    return builder.build()


def run(call: LibraryCall, inputs: list, shape: tuple[int, ...], dtype: object) -> np.ndarray:
    plan = plan_of(call, len(inputs), shape, dtype)
    [result] = native_engine().run(plan, [np.asarray(x, order="C") for x in inputs])
    return result


def random(rng: np.random.Generator, dtype: np.dtype, *shape: int) -> np.ndarray:
    x = rng.standard_normal(shape)
    if dtype.kind == "c":
        x = x + 1j * rng.standard_normal(shape)
    return np.asarray(x * 4 if dtype.kind in "iu" else x).astype(dtype)


def stored(x: np.ndarray, operand: MatrixOperand) -> np.ndarray:
    """The array whose reading through `operand` is `x`."""
    if operand.is_conjugated:
        x = x.conj()
    return np.asarray(np.swapaxes(x, -1, -2) if operand.is_transposed else x, order="C")


MATMUL_SIZES = [(2, 3, 4), (1, 1, 1), (0, 3, 2), (2, 3, 0), (2, 0, 3), (17, 9, 33), (300, 70, 130)]
VECTOR_SIZES = [(1, 30, 9), (1, 9, 30), (30, 1, 9), (9, 1, 30), (12, 9, 1), (1, 1, 80)]


@pytest.mark.thorough(every=5)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(("m", "n", "k"), [*MATMUL_SIZES, *VECTOR_SIZES])
def test_matmul_of_every_orientation(dtype: np.dtype, m: int, n: int, k: int) -> None:
    rng = np.random.default_rng(1)
    x, y = random(rng, dtype, m, k), random(rng, dtype, k, n)
    conjugations = (False, True) if dtype.kind == "c" else (False,)
    orientations = [(False, False), *((True, c) for c in conjugations)]
    for x_way in orientations:
        for y_way in orientations:
            x_operand, y_operand = MatrixOperand((), *x_way), MatrixOperand((), *y_way)
            call = kernels.matmul_call(dtype, m, n, k, x_operand, y_operand)
            result = run(call, [stored(x, x_operand), stored(y, y_operand)], (m, n), dtype)
            tolerance = 50 * np.finfo(dtype).eps * max(k, 1) ** 0.5
            np.testing.assert_allclose(result, x @ y, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    "dtype", [np.dtype(n) for n in ("bool", "int8", "uint64", "float16")], ids=str
)
@pytest.mark.parametrize("is_transposed", [False, True])
def test_matmul_without_blas(dtype: np.dtype, is_transposed: bool) -> None:
    rng = np.random.default_rng(2)
    x, y = random(rng, dtype, 3, 20, 30), random(rng, dtype, 3, 30, 10)
    operands = MatrixOperand((3,), is_transposed), MatrixOperand((3,), is_transposed)
    call = kernels.matmul_call(dtype, 20, 10, 30, *operands)
    inputs = [stored(z, operand) for z, operand in zip((x, y), operands, strict=True)]
    result = run(call, inputs, (3, 20, 10), dtype)
    if dtype == np.float16:
        np.testing.assert_allclose(result, x @ y, rtol=2e-3, atol=2e-3)
    else:
        assert_array_equal(result, x @ y)


@pytest.mark.parametrize("sizes", [(2, 3, 4), (20, 30, 40), *VECTOR_SIZES])
@pytest.mark.parametrize(
    ("x_stack", "y_stack"),
    [((3,), ()), ((), (4,)), ((2, 1), (1, 3)), ((2, 1, 3), (4, 1)), ((0,), (1,))],
)
def test_stacks_of_matrices_broadcast(sizes: tuple, x_stack: tuple, y_stack: tuple) -> None:
    rng = np.random.default_rng(3)
    m, n, k = sizes
    x, y = rng.standard_normal((*x_stack, m, k)), rng.standard_normal((*y_stack, k, n))
    call = kernels.matmul_call(x.dtype, m, n, k, MatrixOperand(x_stack), MatrixOperand(y_stack))
    expected = x @ y
    result = run(call, [x, y], expected.shape, x.dtype)
    np.testing.assert_allclose(result, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("m", "n", "k"), [(500, 300, 100), (3, 5, 20_000), (20_000, 1, 30), (30, 1, 20_000)]
)
def test_products_do_not_depend_on_the_number_of_threads(m: int, n: int, k: int) -> None:
    rng = np.random.default_rng(4)
    x, y = rng.standard_normal((m, k)), rng.standard_normal((k, n))
    call = kernels.matmul_call(x.dtype, m, n, k, MatrixOperand(()), MatrixOperand(()))
    results = []
    for threads in (1, 2, 4):
        with configure(threads=threads):
            results.append(run(call, [x, y], (m, n), x.dtype))
    np.testing.assert_allclose(results[0], x @ y, rtol=1e-11, atol=1e-10)
    assert_array_equal(results[0], results[1])
    assert_array_equal(results[0], results[2])


def test_products_propagate_nan() -> None:
    x = np.zeros((20, 20))
    x[3, 4] = np.nan
    call = kernels.matmul_call(x.dtype, 20, 20, 20, MatrixOperand(()), MatrixOperand(()))
    assert_array_equal(
        run(call, [x, np.zeros((20, 20))], (20, 20), x.dtype), x @ np.zeros((20, 20))
    )


@pytest.mark.thorough(but="float64")
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(
    ("a_stack", "b_stack", "n", "columns"),
    [((), (), 3, 2), ((), (), 1, 1), ((5,), (5,), 4, 1), ((2, 1), (3,), 6, 3), ((), (2,), 40, 5)],
)
def test_solve(dtype: np.dtype, a_stack: tuple, b_stack: tuple, n: int, columns: int) -> None:
    rng = np.random.default_rng(5)
    a = random(rng, dtype, *a_stack, n, n) + dtype.type(2 * n) * np.eye(n, dtype=dtype)
    b = random(rng, dtype, *b_stack, n, columns)
    expected = np.linalg.solve(a, b)
    call = kernels.solve_call(dtype, n, columns, a_stack, b_stack)
    result = run(call, [a, b], expected.shape, dtype)
    np.testing.assert_allclose(result, expected, rtol=1e3 * np.finfo(dtype).eps, atol=1e-5)


@pytest.mark.parametrize(("n", "columns", "stack"), [(0, 2, ()), (3, 0, ()), (2, 1, (0,))])
def test_solve_of_nothing(n: int, columns: int, stack: tuple) -> None:
    call = kernels.solve_call(np.dtype(float), n, columns, stack, stack)
    shape = (*stack, n, columns)
    assert run(call, [np.ones((*stack, n, n)), np.ones(shape)], shape, float).shape == shape


def test_a_singular_matrix_raises() -> None:
    a = np.stack([np.eye(3), np.ones((3, 3))])
    call = kernels.solve_call(np.dtype(float), 3, 1, (2,), (2,))
    plan = plan_of(call, 2, (2, 3, 1), float)
    with pytest.raises(np.linalg.LinAlgError, match=r"solve: Singular matrix.*number 1"):
        native_engine().run(plan, [a, np.ones((2, 3, 1))])
    [good] = native_engine().run(plan, [np.stack([np.eye(3)] * 2), np.ones((2, 3, 1))])
    assert_array_equal(good, np.ones((2, 3, 1)))


def sort_cases(rng: np.random.Generator, dtype: np.dtype) -> list[np.ndarray]:
    cases = [rng.integers(0, 9, shape) for shape in ((7,), (1,), (0,), (3, 5), (2, 40, 3), (1000,))]
    if dtype.kind == "b":
        return [x > 4 for x in cases]
    cases = [x.astype(dtype) for x in cases]
    if dtype.kind in "fc":
        for x in cases:
            x.reshape(-1)[::4] = np.nan
            x.reshape(-1)[1::7] = -0.0
            x.reshape(-1)[2::7] = -np.inf
    if dtype.kind == "c":
        cases.append(
            np.array(
                [complex(a, b) for a in (1, np.nan, 0, 1, np.inf) for b in (np.nan, 2, -1, np.nan)]
            )
        )
    if dtype.kind in "iu":
        cases.append(np.array([np.iinfo(dtype).min, np.iinfo(dtype).max, 0, 1], dtype))
    return cases


def descending_key(x: np.ndarray) -> np.ndarray:
    return -x if x.dtype.kind in "fc" else ~x


@pytest.mark.thorough(but="float64|int8|complex64")
@pytest.mark.parametrize("dtype", SORTED, ids=str)
@pytest.mark.parametrize("descending", [False, True])
def test_sorting_is_numpys(dtype: np.dtype, descending: bool) -> None:
    for x in sort_cases(np.random.default_rng(6), dtype):
        for axis in range(x.ndim):
            key = descending_key(x) if descending else x
            expected = np.argsort(key, axis, kind="stable")
            call = kernels.argsort_call(dtype, x.shape, axis, descending=descending)
            assert_array_equal(run(call, [x], x.shape, np.int64), expected)


@pytest.mark.thorough(every=3)
@pytest.mark.parametrize(
    "name", ["bool", "int8", "uint16", "int64", "float16", "float32", "complex64"]
)
@pytest.mark.parametrize("reverse", [False, True])
def test_cumulative_sums(name: str, reverse: bool) -> None:
    rng = np.random.default_rng(7)
    dtype = np.dtype(name)
    for shape in ((12,), (1,), (0,), (3, 4), (2, 3, 1100), (3, 0), (0, 3)):
        x = random(rng, dtype, *shape)
        for axis in range(x.ndim):
            # Half precision is carried on in float32.
            terms = np.flip(x, axis) if reverse else x
            expected = np.cumsum(terms.astype(computed_in(dtype)), axis)
            expected = expected.astype(dtype) if name == "float16" else expected
            expected = np.flip(expected, axis) if reverse else expected
            call = kernels.cumsum_call(dtype, expected.dtype, shape, axis, reverse=reverse)
            assert_array_equal(run(call, [x], shape, expected.dtype), expected)


@pytest.mark.parametrize("columns", [1, 2, 7, 8, 9])
@pytest.mark.parametrize("reverse", [False, True])
def test_scans_for_any_number_of_columns(columns: int, reverse: bool) -> None:
    x = np.random.default_rng(7).normal(size=(3, 20, columns))
    around = slice(None, None, -1 if reverse else 1)
    dtype, shape = x.dtype, x.shape
    call = kernels.cumsum_call(dtype, dtype, shape, 1, reverse=reverse)
    expected = np.cumsum(x[:, around], axis=1)[:, around]
    assert_array_equal(run(call, [x], shape, dtype), expected)
    # Few leave nothing in a row to make a vector of: then no result is read again.
    assert ("= out[" in call.steps[0].source) == (columns >= 8)

    call = kernels.linear_recurrence_call(dtype, shape, 1, reverse=reverse)
    expected = np.zeros((3, columns))
    for i in range(20)[around]:
        expected = x[:, i] * expected + x[:, i]
    found = run(call, [x, x], shape, dtype)
    np.testing.assert_allclose(found[:, 0 if reverse else -1], expected, rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("name", ["float16", "float32", "float64", "int16", "uint32"])
def test_sorting_any_bits(name: str) -> None:
    """Subnormal numbers, infinities, every kind of NaN; one line is long enough to be counted."""
    dtype = np.dtype(name)
    bits = np.random.default_rng(12).integers(0, 256, (2, 300 * dtype.itemsize), np.uint8)
    bits[:, : 40 * dtype.itemsize] = bits[:, -40 * dtype.itemsize :]  # equal elements
    x = bits.view(dtype)
    for descending in (False, True):
        call = kernels.argsort_call(dtype, x.shape, 1, descending=descending)
        key = descending_key(x) if descending else x
        assert_array_equal(run(call, [x], x.shape, np.int64), np.argsort(key, 1, kind="stable"))


SCANNED = ((12,), (1,), (0,), (3, 4), (2, 3, 1100), (3, 0), (0, 3))


@pytest.mark.parametrize("name", ["bool", "int8", "float16", "float32", "complex64"])
def test_cumulative_products(name: str) -> None:
    rng = np.random.default_rng(9)
    dtype = np.dtype(name)
    for shape in SCANNED:
        x = random(rng, dtype, *shape)
        x = x / dtype.type(2) if dtype.kind in "fc" else x  # no overflow
        for axis in range(x.ndim):
            expected = np.cumprod(x.astype(computed_in(dtype)), axis)
            expected = expected.astype(dtype) if name == "float16" else expected
            call = kernels.cumprod_call(dtype, expected.dtype, shape, axis)
            result = run(call, [x], shape, expected.dtype)
            # A rounding for each of up to 1100 factors; complex ones have several.
            tolerance = {"complex64": 1e-3}.get(name, 1e-6)
            np.testing.assert_allclose(result, expected, rtol=tolerance, atol=1e-30)


@pytest.mark.parametrize("name", ["float32", "complex128"])
@pytest.mark.parametrize("reverse", [False, True])
def test_linear_recurrences(name: str, reverse: bool) -> None:
    rng = np.random.default_rng(10)
    dtype = np.dtype(name)
    for shape in SCANNED:
        a, b = random(rng, dtype, *shape), random(rng, dtype, *shape)
        for axis in range(a.ndim):
            params = {"axis": axis, "reverse": reverse}
            expected = linear_recurrence.reference(a, b, **params)
            call = kernels.linear_recurrence_call(dtype, shape, axis, reverse=reverse)
            result = run(call, [a, b], shape, dtype)
            np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.thorough(every=3)
@pytest.mark.parametrize("name", ["bool", "uint8", "float16", "float64"])
def test_positions_of_extremes_so_far(name: str) -> None:
    rng = np.random.default_rng(11)
    dtype = np.dtype(name)
    for shape in SCANNED:
        x = np.asarray(rng.integers(0, 4, shape)).astype(dtype)
        if dtype.kind == "f":
            x.reshape(-1)[5::11] = np.nan
        for axis in range(x.ndim):
            for op, comparison in ((cumargmax, ">="), (cumargmin, "<=")):
                call = kernels.cumulative_position_call(dtype, shape, axis, comparison=comparison)
                expected = op.reference(x, axis=axis)
                assert_array_equal(run(call, [x], shape, np.int64), expected)


@pytest.mark.thorough(every=4)
@pytest.mark.parametrize("name", ["bool", "int16", "float16", "float64", "complex128"])
@pytest.mark.parametrize("adds", [True, False])
@pytest.mark.parametrize("checked", [True, False])
@pytest.mark.parametrize(
    ("shape", "index_count"), [((5,), 1), ((4, 3), 1), ((4, 3), 2), ((3, 4, 700), 2), ((5, 0), 1)]
)
def test_scattering(name: str, adds: bool, checked: bool, shape: tuple, index_count: int) -> None:
    rng = np.random.default_rng(8)
    dtype = np.dtype(name)
    x = random(rng, dtype, *shape)
    sizes, rest = shape[:index_count], shape[index_count:]
    index_types = [np.dtype(np.int64), np.dtype(np.uint8)][:index_count]
    indices = [
        rng.integers(-n if checked and t.kind == "i" else 0, n, (2, 6)).astype(t)
        for n, t in zip(sizes, index_types, strict=True)
    ]
    v = random(rng, dtype, 2, 6, *rest)
    expected = x.copy()
    if adds:
        np.add.at(expected, tuple(indices), v)
    else:
        expected[tuple(indices)] = v
    call = kernels.scatter_call(
        dtype,
        index_types,
        sizes,
        12,
        int(np.prod(rest)),
        adds=adds,
        sites=[ErrorSite("index", "scatter", axis) for axis in range(index_count)],
        checked=checked,
    )
    assert_array_equal(run(call, [x, v, *indices], shape, dtype), expected)


def test_an_index_out_of_range_raises() -> None:
    call = kernels.scatter_call(
        np.dtype(float),
        [np.dtype(np.int64)],
        [5],
        3,
        1,
        adds=True,
        sites=[ErrorSite("index", "scatter_add", 2)],
    )
    plan = plan_of(call, 3, (5,), float)
    for bad in (5, -6, 2**40):
        message = f"scatter_add: index {bad} is out of bounds for axis 2 with size 5"
        with pytest.raises(IndexError, match=message):
            native_engine().run(plan, [np.zeros(5), np.ones(3), np.array([0, bad, 1])])
    [result] = native_engine().run(plan, [np.zeros(5), np.ones(3), np.array([0, -5, 1])])
    assert_array_equal(result, [2, 1, 0, 0, 0])
