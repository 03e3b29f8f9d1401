"""`ng.callback`: Python in a plan."""

import os
import signal

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.compiler.building import cache
from numba_grad.errors import DTypeError, GradientError, ShapeError
from numba_grad.runtime.python_calls import PythonCall
from tests.threads import run_in_threads

X = np.array([0.5, -1.25, 2.0])
VECTOR = ng.ShapeDtypeStruct((3,), np.float64)
NUMBER = ng.ShapeDtypeStruct((), np.float64)


def sine(x):
    return np.sin(x)


def sine_of(x):
    return ng.callback(sine, VECTOR, x, vjp=lambda g, out, x: g * np.cos(x))


# Values


def test_it_is_what_the_function_returns(engine):
    y = ng.callback(sine, VECTOR, X)
    assert isinstance(y, ng.Tensor)
    np.testing.assert_array_equal(y.numpy(), np.sin(X))


def test_jit_calls_it_with_the_values_of_each_call(engine):
    f = ng.jit(lambda x: 2 * ng.callback(sine, VECTOR, x + 1))
    for x in (X, 2 * X, -X):
        np.testing.assert_array_equal(f(x), 2 * np.sin(x + 1))


def test_arguments_are_copies_that_cannot_be_written_to(engine):
    seen = []

    def keep(x):
        assert type(x) is np.ndarray and x.flags.c_contiguous and not x.flags.writeable
        seen.append(x)
        return x

    f = ng.jit(lambda x: ng.callback(keep, VECTOR, 2 * x))
    f(X)
    f(3 * X)
    np.testing.assert_array_equal(seen, [2 * X, 6 * X])


def test_results_may_have_any_layout_and_python_numbers_any_dtype(engine):
    x = np.arange(6.0).reshape(2, 3)
    y = ng.callback(lambda x: np.asfortranarray(x)[::-1], ng.ShapeDtypeStruct((2, 3), float), x)
    np.testing.assert_array_equal(y, x[::-1])
    number = ng.callback(lambda x: 3, ng.ShapeDtypeStruct((), np.float32), x)
    assert number.dtype == np.float32 and number.item() == 3


def test_arguments_and_results_are_trees_of_any_dtypes(engine):
    def f(state, n):
        x = state["x"]
        return {
            "sign": x > 0,
            "pair": (x.astype(complex) * 1j, x.astype(np.complex64)),
            "small": n.astype(np.int8),
            "half": x.astype(np.float16),
            "x": x,
        }

    like = {
        "sign": np.zeros(3, bool),
        "pair": (np.zeros(3, complex), np.zeros(3, np.complex64)),
        "small": ng.ShapeDtypeStruct((), np.int8),
        "half": ng.ShapeDtypeStruct((3,), np.float16),
        "x": VECTOR,
    }
    found = ng.callback(f, like, {"x": X}, 5)
    expected = f({"x": X}, np.array(5))
    assert found["sign"].dtype == bool and found["half"].dtype == np.float16
    assert found["pair"][1].dtype == np.complex64 and found["small"].dtype == np.int8
    for name in ("sign", "small", "half", "x"):
        np.testing.assert_array_equal(found[name].numpy(), expected[name])
    for a, b in zip(found["pair"], expected["pair"], strict=True):
        np.testing.assert_array_equal(a.numpy(), b)


def test_arrays_without_elements_are_passed():
    nothing = ng.ShapeDtypeStruct((0, 2), float)
    assert ng.callback(lambda x: x, nothing, np.zeros((0, 2))).shape == (0, 2)


@pytest.mark.parametrize("count", [2, 8])
def test_callbacks_run_in_the_order_of_recording(count):
    order = []

    def noting(name):
        def f(x):
            order.append(name)
            return x

        return f

    functions = [noting(k) for k in range(count)]

    def program(x):
        results = [ng.callback(f, VECTOR, x * (k + 1)) for k, f in enumerate(functions)]
        return sum(reversed(results))

    ng.jit(program)(X)
    assert order == list(range(count))


def test_a_callback_may_compute_with_numba_grad_itself(engine):
    inner = ng.jit(lambda x: ng.callback(sine, VECTOR, x))
    f = ng.jit(lambda x: ng.callback(lambda x: inner(x) + ng.tensor(x).numpy(), VECTOR, x))
    np.testing.assert_array_equal(f(X), np.sin(X) + X)


def test_vmap_calls_it_for_each_member(engine):
    shapes = []

    def f(x, y):
        shapes.append((x.shape, y.shape))
        return x + y

    rows = np.arange(12.0).reshape(4, 3)
    found = ng.vmap(lambda x: ng.callback(f, VECTOR, x, X))(rows)
    np.testing.assert_array_equal(found, rows + X)
    assert shapes == [((3,), (3,))] * 4


def test_it_runs_in_loops_and_in_the_branch_that_is_taken(engine):
    seen = []

    def halve(x):
        seen.append(float(x))
        return x / 2

    def never(x):
        raise AssertionError

    @ng.jit
    def f(x):
        y = ng.while_loop(lambda v: v > 1, lambda v: ng.callback(halve, NUMBER, v), x)
        y = ng.fori_loop(0, 2, lambda _, v: ng.callback(halve, NUMBER, v), y)
        return ng.cond(y > 0, lambda v: v, lambda v: ng.callback(never, NUMBER, v), y)

    assert f(4.0) == 0.25
    assert seen == [4, 2, 1, 0.5]


def test_it_runs_in_other_python_threads():
    results = {}
    f = ng.jit(lambda x: ng.callback(sine, VECTOR, x))

    def work(k):
        for _ in range(20):
            results[k] = f(k * X)

    run_in_threads(work, range(3))
    for k in range(3):
        np.testing.assert_array_equal(results[k], np.sin(k * X))


def test_calls_with_the_same_function_share_a_program():
    before = ng.callback(sine, VECTOR, X)._node.params["kernel"]
    assert ng.callback(sine, VECTOR, 2 * X)._node.params["kernel"] is before
    other = ng.callback(lambda x: x, VECTOR, X)._node.params["kernel"]
    assert other is not before


def test_a_function_that_has_no_hash_can_be_called():
    class Solver:
        __hash__ = None

        def __call__(self, x):
            return 2 * x

    np.testing.assert_array_equal(ng.callback(Solver(), VECTOR, X), 2 * X)


def test_plans_with_callbacks_are_not_stored(monkeypatch):
    stored = []
    monkeypatch.setattr(cache, "write", lambda key, content: stored.append(content))
    ng.jit(lambda x: ng.callback(lambda x: x, VECTOR, x * 7))(X)
    assert not any(b"callback" in content for content in stored)
    assert ng.jit(lambda x: ng.callback(lambda x: -x, VECTOR, x * 7))(X)[0] == -3.5


# Derivatives


def test_the_vjp_is_its_derivative(engine):
    np.testing.assert_allclose(ng.grad(lambda x: np.sum(sine_of(x)))(X), np.cos(X))
    np.testing.assert_allclose(ng.jit(ng.grad(lambda x: np.sum(sine_of(x) ** 2)))(X), np.sin(2 * X))
    hessian = ng.hessian(lambda x: np.sum(sine_of(x)))(X)
    np.testing.assert_allclose(hessian, np.diag(-np.sin(X)))
    x = ng.tensor(X, requires_grad=True)
    np.sum(sine_of(x)).backward()
    np.testing.assert_allclose(x.grad.numpy(), np.cos(X))


def test_a_vjp_may_be_a_callback_and_read_the_result(engine):
    def cube(x):
        return x**3

    def adjoint(g, out, x):
        return 3 * out / x * g

    def f(x):
        return ng.callback(
            cube,
            VECTOR,
            x,
            vjp=lambda g, out, x: ng.callback(adjoint, VECTOR, g, out, x),
        )

    np.testing.assert_allclose(ng.jit(ng.grad(lambda x: np.sum(f(x))))(X), 3 * X**2)
    rows = np.stack([X, 2 * X])
    np.testing.assert_allclose(ng.vmap(ng.grad(lambda x: np.sum(f(x))))(rows), 3 * rows**2)


def test_a_sparse_solve_is_differentiated_in_jit():
    sparse = pytest.importorskip("scipy.sparse")
    linalg = pytest.importorskip("scipy.sparse.linalg")
    rng = np.random.default_rng(0)
    size = 6
    rows, columns = np.nonzero(np.eye(size) + np.eye(size, k=1) + np.eye(size, k=-2))

    def matrix(data):
        return sparse.csc_matrix((data, (rows, columns)), shape=(size, size))

    def solve_with(data, b):
        return linalg.spsolve(matrix(data), b)

    def solve_transposed_with(data, b):
        return linalg.spsolve(matrix(data).T.tocsc(), b)

    like = ng.ShapeDtypeStruct((size,), float)

    def solve(data, b):
        return ng.callback(solve_with, like, data, b, vjp=solve_vjp)

    def solve_vjp(g, x, data, b):
        of_b = ng.callback(solve_transposed_with, like, data, g)
        return -of_b[rows] * x[columns], of_b

    def dense(data, b):
        a = ng.zeros((size, size))
        a[rows, columns] = data
        return np.sum(np.linalg.solve(a, b) ** 2)

    data = rng.normal(size=len(rows)) + 3 * (rows == columns)
    b = rng.normal(size=size)
    found = ng.jit(ng.grad(lambda d, b: np.sum(solve(d, b) ** 2), argnums=(0, 1)))(data, b)
    for a, e in zip(found, ng.grad(dense, argnums=(0, 1))(data, b), strict=True):
        np.testing.assert_allclose(a, e, rtol=1e-10)


def test_derivatives_in_a_scan_call_it_again():
    def f(x):
        def step(c, _):
            return ng.callback(sine, VECTOR, c, vjp=lambda g, out, x: g * np.cos(x)), None

        return np.sum(ng.scan(step, x, length=3)[0])

    expected = ng.grad(lambda x: np.sum(np.sin(np.sin(np.sin(x)))))(X)
    np.testing.assert_allclose(ng.grad(f)(X), expected)
    np.testing.assert_allclose(ng.jit(ng.grad(f))(X), expected)


def test_a_gradient_without_a_vjp_is_refused_and_constants_have_none():
    with pytest.raises(GradientError, match=r"callback sine: has no derivative\n  try: .*vjp="):
        ng.grad(lambda x: np.sum(ng.callback(sine, VECTOR, x)))(X)

    def stopped(x):
        return np.sum(x * ng.callback(sine, VECTOR, ng.stop_gradient(x)))

    np.testing.assert_allclose(ng.grad(stopped)(X), np.sin(X))


def test_python_in_a_vjp_is_refused_with_a_word_on_what_to_do():
    def f(x):
        return ng.callback(np.sin, NUMBER, x, vjp=lambda g, out, x: g * float(x))

    with pytest.raises(ng.errors.TracingError) as caught:
        ng.jit(ng.grad(f))(1.0)
    assert any("a callback of its own" in note for note in caught.value.__notes__)


def test_integers_have_no_cotangent():
    def f(x, n):
        return ng.callback(lambda x, n: x * n, VECTOR, x, n, vjp=lambda g, out, x, n: (g * n, None))

    np.testing.assert_array_equal(ng.grad(lambda x: np.sum(f(x, 3)))(X), np.full(3, 3.0))


# Exceptions


class MineError(Exception):
    pass


def test_an_exception_comes_out_as_it_is(engine):
    error = MineError("mine")

    def f(x):
        raise error

    jitted = ng.jit(lambda x: ng.callback(f, VECTOR, x))
    for _ in range(2):
        with pytest.raises(MineError) as caught:
            jitted(X)
        assert caught.value is error
        names = [frame.name for frame in caught.traceback]
        assert names[-1] == "f"
    if engine == "native":
        assert "in the callback f" in error.__notes__
    assert ng.callback(sine, VECTOR, X).shape == (3,)


def test_no_callback_runs_after_an_exception():
    calls = []

    def f(x):
        calls.append(float(x))
        if x == 3:
            raise MineError
        return x

    def g(x):
        calls.append("g")
        return x

    @ng.jit
    def program(x):
        total = ng.fori_loop(0, 10, lambda i, v: ng.callback(f, NUMBER, v) + 1, x)
        return ng.callback(g, NUMBER, total)

    with pytest.raises(MineError):
        program(0.0)
    assert calls == [0, 1, 2, 3]


def test_a_loop_that_would_never_end_without_its_callback_ends():
    def f(x):
        raise MineError

    with pytest.raises(MineError):
        ng.jit(lambda x: ng.while_loop(lambda v: v < 1, lambda v: ng.callback(f, NUMBER, v), x))(
            0.0
        )


@pytest.mark.skipif(not hasattr(signal, "raise_signal"), reason="no signals")
def test_an_interrupt_within_the_function_is_raised():
    def f(x):
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(10000):
            pass
        return x

    with pytest.raises(KeyboardInterrupt):
        ng.jit(lambda x: ng.callback(f, VECTOR, x))(X)
    np.testing.assert_array_equal(ng.callback(sine, VECTOR, X), np.sin(X))


def test_the_exception_is_freed_with_its_last_reference():
    import gc
    import weakref

    references = []

    def f(x):
        error = MineError()
        references.append(weakref.ref(error))
        raise error

    with pytest.raises(MineError):
        ng.jit(lambda x: ng.callback(f, VECTOR, x))(X)
    gc.collect()
    assert references[0]() is None


@pytest.mark.parametrize(
    ("returned", "error", "message"),
    [
        (lambda x: x[:2], ShapeError, r"result *: float64\[2\]\n  expected: float64\[3\]"),
        (lambda x: x.astype(np.float32), DTypeError, r"float32\[3\]\n  expected: float64\[3\]"),
        (lambda x: (x, x), TypeError, "structure"),
        (lambda x: x * 1j, DTypeError, "complex128"),
        (lambda x: None, TypeError, "structure"),
    ],
)
def test_what_it_returns_is_checked(returned, error, message, engine):
    with pytest.raises(error, match=message):
        ng.callback(returned, VECTOR, X).numpy()


def test_what_cannot_be_called_or_has_no_result_is_refused():
    with pytest.raises(TypeError, match="needs a function"):
        ng.callback(3, VECTOR, X)
    with pytest.raises(TypeError, match="`vjp` must be a function"):
        ng.callback(sine, VECTOR, X, vjp=3)
    with pytest.raises(TypeError, match=r"result\['a'\] : 'text'(.|\n)*ShapeDtypeStruct"):
        ng.callback(sine, {"a": "text"}, X)
    with pytest.raises(ValueError, match="would never run"):
        ng.callback(sine, None, X)


def test_a_shape_with_a_dtype_compares_by_both():
    assert ng.ShapeDtypeStruct([3], "float64") == VECTOR
    assert len({VECTOR, ng.ShapeDtypeStruct((3,), float)}) == 1
    assert ng.ShapeDtypeStruct((3,), "float32") != VECTOR
    assert repr(VECTOR) == "ShapeDtypeStruct((3,), float64)"


def test_a_python_call_reads_and_writes_memory_by_address():
    x, out = np.array([1.0, 2.0]), np.zeros((2, 2), np.int32)
    block = np.array([x.ctypes.data, out.ctypes.data])
    call = PythonCall(
        lambda arrays: [np.outer(*arrays * 2)], [((2,), x.dtype)], [((2, 2), out.dtype)]
    )
    call(block.ctypes.data)
    np.testing.assert_array_equal(out, [[1, 2], [2, 4]])
