"""`jit` itself: which arrays it takes, what it keeps, and how its functions travel."""

import copy
import pickle
import textwrap

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.errors import DTypeError, GradientError, TracingError, TracingWarning
from tests.counting import functions_entered
from tests.processes import run_python


def cube(x):
    return (x**3).sum()


@ng.jit
def squares(x):
    return (x * x).sum()


gradient = ng.grad(cube)
jitted_gradient = ng.jit(ng.value_and_grad(cube))
second = ng.hessian(cube)
mapped = ng.vmap(cube)
of_lambda = ng.grad(lambda x: (3 * x).sum())


def _doubled(x, out):
    for i in range(x.size):
        out[i] = 2 * x[i]


doubled = ng.custom_op("doubled", _doubled, shape=lambda x: x.shape)
NAMED = (squares, gradient, jitted_gradient, second, mapped, of_lambda, doubled)


class Stepper:
    def __init__(self, rate):
        self.rate = rate
        self.step = ng.jit(self._step)

    def _step(self, x):
        return x * self.rate


# Classes of arrays


def test_classes_derived_from_ndarray_are_arrays(tmp_path, numpy_engine):
    mapped_file = np.memmap(tmp_path / "numbers", np.float64, "w+", shape=(4,))
    mapped_file[:] = [1.0, 2.0, 3.0, 4.0]
    records = np.arange(4.0).view(np.recarray)
    x = np.ones(4)
    f = ng.jit(lambda x: x * mapped_file + records)
    np.testing.assert_array_equal(squares(mapped_file), 30.0)
    np.testing.assert_array_equal(squares(mapped_file[1:]), 29.0)
    np.testing.assert_array_equal(f(x), np.asarray(mapped_file) + np.arange(4.0))
    mapped_file[0] = 10.0
    np.testing.assert_array_equal(f(x), [10.0, 3.0, 5.0, 7.0])
    np.testing.assert_array_equal(ng.grad(squares)(mapped_file), [20.0, 4.0, 6.0, 8.0])


def test_a_memory_map_runs_on_the_native_engine(tmp_path):
    mapped_file = np.memmap(tmp_path / "numbers", np.float64, "w+", shape=(3,))
    mapped_file[:] = 2.0
    f = ng.jit(lambda x: x * mapped_file)
    for _ in range(2):
        np.testing.assert_array_equal(f(mapped_file), [4.0, 4.0, 4.0])
    mapped_file[1] = 5.0
    np.testing.assert_array_equal(f(np.ones(3)), [2.0, 5.0, 2.0])


@pytest.mark.parametrize(
    ("array", "error", "message"),
    [
        (np.ones((1, 2)).view(np.matrix), TypeError, "operators of matrix are not those of arrays"),
        (np.ma.masked_array([1.0, 2.0], [0, 1]), DTypeError, "masked arrays are not supported"),
        (np.rec.array([(1, 2.0)], dtype="i8,f8"), DTypeError, "not an array of numbers"),
    ],
)
def test_arrays_that_compute_differently_are_refused(array, error, message, numpy_engine):
    x = ng.tensor([[1.0], [2.0]])
    for use in (squares, lambda a: ng.jit(lambda x: x * a)(x), lambda a: x * a):
        with pytest.raises(error, match=message):
            use(array)


# What is kept


def test_the_number_of_specializations_is_bounded(numpy_engine):
    traced = []

    def f(x):
        traced.append(x.shape)
        return x.sum()

    jitted = ng.jit(f)
    with ng.configure(specializations=4):
        for size in range(2, 20):
            jitted(np.ones(size))
            jitted(np.ones(1))  # which stays, since it is called
    assert traced == [(2,), (1,), *[(size,) for size in range(3, 20)]]
    assert len(jitted._specializations) == 4
    assert set(jitted._direct.values()) <= set(jitted._specializations.values())
    with ng.configure(specializations=1):
        assert [jitted(np.ones(size)) for size in (3, 3, 4)] == [3.0, 3.0, 4.0]
    assert len(jitted._specializations) == 1


def test_a_function_that_is_traced_again_keeps_one_specialization(numpy_engine):
    rate = 0.0
    f = ng.jit(lambda x: x + rate)
    for k in range(5):
        rate = float(k)
        assert f(1.0) == 1.0 + k
    assert len(f._specializations) == len(f._direct) == 1


# Copies and other processes


@pytest.mark.parametrize("function", NAMED, ids=lambda function: function.__name__)
def test_functions_of_a_module_are_copied_and_pickled_by_name(function):
    assert pickle.loads(pickle.dumps(function)) is function
    assert copy.copy(function) is function
    assert copy.deepcopy(function) is function


def test_other_functions_are_pickled_with_what_they_are_made_of(numpy_engine):
    x = np.arange(3.0)
    scaled = ng.custom_op("scaled", _doubled, shape=cube, dtype=np.float32)
    rebuilt = pickle.loads(pickle.dumps(scaled))
    assert (rebuilt.__name__, rebuilt.kernel.shape, rebuilt.kernel.dtype) == (
        *("scaled", cube, np.float32),
    )
    for f in (ng.jit(ng.grad(cube)), ng.jacobian(ng.grad(cube)), ng.vmap(ng.jit(np.sin))):
        copied = pickle.loads(pickle.dumps(f))
        assert copied is not f
        np.testing.assert_array_equal(np.asarray(copied(x)), np.asarray(f(x)))
        assert copy.deepcopy(f) is f
    with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
        pickle.dumps(ng.jit(lambda x: x))


def test_a_jitted_method_goes_with_its_object(numpy_engine):
    stepper = Stepper(2.0)
    for other in (copy.deepcopy(stepper), pickle.loads(pickle.dumps(stepper))):
        other.rate = 5.0
        assert (stepper.step(1.0), other.step(1.0)) == (2.0, 5.0)


def test_functions_made_of_functions_bind_as_methods(numpy_engine):
    class Well:
        depth = 3.0

        @ng.grad
        def slope(self, x):
            raise AssertionError

        force = ng.grad(lambda self, x: self.depth * x * x, argnums=1)

    assert float(Well().force(2.0)) == 12.0
    assert Well.slope.__name__ == "slope"


SCRIPT = """
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    import numpy as np

    import numba_grad as ng

    ng.configure(engine="reference")


    @ng.jit
    def squares(x):
        return (x * x).sum()


    gradient = ng.grad(squares)

    if __name__ == "__main__":
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
            for f in (squares, gradient):
                print(pool.submit(f, np.arange(3.0)).result())
        import pickle
        from types import ModuleType

        # As cloudpickle, which the workers of joblib get scripts' functions by.
        cloudpickle = ModuleType("cloudpickle")
        exec("def reduced(f): return f.__reduce__()", vars(cloudpickle))
        print(squares.__reduce__(), cloudpickle.reduced(squares)[1][0].__name__)
"""


def test_functions_of_a_script_reach_other_processes(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(SCRIPT))
    assert run_python(path) == "5.0\ntensor([0., 2., 4.])\nsquares squares\n"


def test_a_call_stays_short_also_of_what_closes_over_numbers_and_arrays():
    rate, table, x = 0.5, np.ones(8), np.ones(8)
    closing = ng.jit(lambda x: (x * rate * table).sum())
    for f in (squares, closing):
        f(x)
        f(x)  # compiles what later calls compare
    assert functions_entered(lambda: squares(x)) <= 8
    assert functions_entered(lambda: closing(x)) <= 8


@pytest.mark.parametrize(
    "value",
    [
        np.array([1.0, 2.0, 5.0], dtype=">f8"),
        np.array([[1.0, 2.0, 5.0]] * 2)[1, ::-1],
        np.zeros(3, dtype=[("id", "i1"), ("x", "f8")])["x"],
        np.array([1, 2, 5], dtype=">i4"),
    ],
)
def test_second_calls_read_arrays_as_first_ones_do(value):
    """A known signature is looked up on a shorter way, which read bytes of either order."""
    f = ng.jit(lambda x, index: (x * x).sum() + x[index].sum())
    index = np.array([0, 2], dtype=">i8")
    expected = float((value * value).sum() + value[index].sum())
    for _ in range(3):
        assert f(value, index) == expected


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ((np.ones(3), 2), {}),
        ((np.ones((3, 4)).T, 2.0), {}),
        ((np.ones(3), np.float64(2.0)), {}),
        (({"rate": 2.0, "state": [np.ones(2), None]}, (np.ones(2), 3)), {}),
        ((np.ones(3),), {"y": 2}),
    ],
)
def test_calls_of_a_known_signature_do_not_work_it_out_again(args, kwargs, monkeypatch):
    def total(x, y):
        leaves = [leaf for part in (x, y) for leaf in leaves_of(part)]
        return sum(np.sum(leaf) for leaf in leaves)

    def leaves_of(part):
        if isinstance(part, dict):
            return [leaf for key in part for leaf in leaves_of(part[key])]
        if isinstance(part, (list, tuple)):
            return [leaf for item in part for leaf in leaves_of(item)]
        return [] if part is None else [part]

    f = ng.jit(total)
    expected = total(*args, **kwargs)
    assert f(*args, **kwargs) == expected
    monkeypatch.setattr(f, "_split", None)
    assert f(*args, **kwargs) == expected


def test_limits_on_integers_hold_in_each_call():
    f = ng.jit(lambda x, n: x + n)
    x = np.ones(2, np.int8)
    for _ in range(2):
        assert f(x, 3).tolist() == [4, 4]
    with pytest.raises(OverflowError):
        f(x, 1000)
    assert f(x, x).tolist() == [2, 2]
    wide = ng.jit(lambda n: n * 1.0)
    for _ in range(2):
        assert wide(2**63 - 1) == 2.0**63
        assert wide(2**63) == 2.0**63


def test_a_called_loop_computes_what_it_does_outside():
    """Its operations take the place of the call: results may be arguments, or one value twice."""

    def swing(x, v, unused):
        for _ in range(60):
            v = v - 0.1 * np.sin(x)
            x = x + 0.1 * v
        return {"place": x, "again": x, "given": unused, "speed": v}

    def energy(step, x, v):
        first = step(x, v, x)
        second = step(first["again"], first["given"], v)
        return np.sum(second["place"] * second["given"] + first["speed"] * x) + np.sum(
            second["speed"]
        )

    x, v = np.array([0.3, 1.1]), np.array([0.2, -0.4])
    expected = ng.grad(lambda x, v: energy(swing, x, v), argnums=(0, 1))(x, v)
    jitted = ng.grad(lambda x, v: energy(ng.jit(swing), x, v), argnums=(0, 1))
    for found in (jitted(x, v), ng.jit(jitted)(x, v)):
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12)
    batched = ng.vmap(jitted)(np.stack([x, v]), np.stack([v, x]))
    np.testing.assert_allclose(batched[0][0], expected[0], rtol=1e-12)
    values = ng.jit(lambda x, v: ng.jit(swing)(x, v, x))(x, v)
    assert np.array_equal(values["given"], x)
    assert np.array_equal(values["place"], values["again"])


def shift(u, v, n):
    """Changes two of its arguments in place."""
    n += 1
    v[1:] = u[:-1] * n
    u += v
    return (u * v).sum()


@pytest.mark.parametrize("make", [ng.tensor, np.array])
def test_arguments_that_are_changed_in_place(make):
    start = np.arange(1.0, 5.0)
    jitted = ng.jit(shift)
    u, v, plain_u, plain_v = (make(start) for _ in range(4))
    for _ in range(2):
        n = 3.0
        assert jitted(u, v, n) == shift(plain_u, plain_v, n)
        assert n == 3.0
        np.testing.assert_array_equal(u, plain_u)
        np.testing.assert_array_equal(v, plain_v)
    board, expected = make(np.ones((4, 3))), np.ones((4, 3))
    jitted(board[:, 0], board[:, 1], 2.0)  # views of one array, without common elements
    shift(expected[:, 0], expected[:, 1], 2.0)
    np.testing.assert_array_equal(board, expected)


def test_gradients_through_arguments_that_are_changed_in_place():
    def loss(f):
        def of(x):
            u, v = 1.0 * x, np.zeros_like(x)
            total = f(u, v, 2.0)
            return total + (u * v * v).sum()

        return of

    x = np.arange(1.0, 5.0)
    value, gradient = ng.value_and_grad(loss(shift))(x)
    for f in (
        ng.value_and_grad(loss(ng.jit(shift))),
        ng.jit(ng.value_and_grad(loss(ng.jit(shift)))),
    ):
        for _ in range(2):
            found, own = f(x)
            assert float(found) == float(value)
            np.testing.assert_allclose(own, gradient, rtol=1e-15)


def test_arguments_that_cannot_be_changed_in_place():
    jitted, x = ng.jit(shift), np.arange(1.0, 5.0)
    u = ng.tensor(x)
    for pair in ((u, u), (u[1:], u[:-1]), (u, u[::-1]), (x, x[::-1])):
        with pytest.raises(TracingError, match="another one shows its elements"):
            jitted(*pair, 2.0)
    with pytest.raises(TracingError, match="is a NumPy array, which cannot hold a tensor"):
        ng.grad(lambda x: jitted(1.0 * x, np.zeros(4), 2.0))(x)
    with pytest.raises(GradientError, match="a leaf Variable that requires grad"):
        jitted(ng.tensor(x, requires_grad=True), ng.tensor(x), 2.0)
    frozen = x.copy()
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        jitted(x, frozen, 2.0)


@pytest.mark.parametrize("x", [2.0, np.float64(2.0), np.array(2.0)])
def test_numbers_stay_as_they_are(x):
    def f(x):
        x += 1.0
        return 2.0 * x

    assert ng.jit(f)(x) == 6.0
    assert x == 2.0


@pytest.mark.parametrize("caught", [TypeError, Exception])
def test_a_tracing_error_that_the_function_catches_is_a_warning(caught):
    def f(x, n):
        try:
            count = int(n)
        except caught:
            count = 1
        return count * x

    jitted = ng.jit(f)
    expected = r"jit of f: .* caught a TracingError .*\n  error : int: needs the value"
    with pytest.warns(TracingWarning, match=expected) as warned:
        assert jitted(2.0, 3) == 2.0
    assert warned[0].filename == __file__
    assert jitted(2.0, 3) == 2.0  # compiled, without another warning


def test_sums_that_are_known_while_tracing_need_no_inputs():
    """What is selected of known points is known; what decides was computed for that."""
    points = np.random.RandomState(0).randn(7, 3)

    def f(x):
        known = ng.tensor(points)
        lengths = np.sum(known**2, axis=1)
        return np.sum(known[lengths < 2.0] @ x) + np.sum(lengths) * x[0]

    x = np.array([1.0, -2.0, 0.5])
    near = points[np.sum(points**2, axis=1) < 2.0]
    assert ng.jit(f)(x) == pytest.approx(np.sum(near @ x) + np.sum(points**2) * x[0])
    expected = near.sum(axis=0) + np.array([np.sum(points**2), 0, 0])
    np.testing.assert_allclose(ng.jit(ng.grad(f))(x), expected)


def test_what_was_looked_at_while_tracing_needs_no_inputs():
    """Sums of rows and columns are joined, and traces of products found: not in what is known."""

    def known(x):
        assert np.all(np.isfinite(x.numpy()))
        return x

    def of_rows_and_columns(x):
        shift = known(ng.arange(64.0) - 31.5)
        table = np.exp(-((x + shift)[:, None] ** 2) - x**2)
        return np.sum(np.sum(table, axis=0) * x) + np.sum(np.sum(table * x, axis=1) * shift)

    def of_a_trace(x):
        return np.trace(known(ng.arange(4096.0).reshape(64, 64).T) @ np.outer(x, x))

    x = np.linspace(0.1, 0.9, 64)
    for f in (of_rows_and_columns, of_a_trace):
        np.testing.assert_allclose(ng.jit(ng.grad(f))(x), ng.grad(f)(x).numpy(), rtol=1e-10)


def test_what_a_pullback_goes_through_stays_as_it_is():
    kept = []

    def f(x):
        kept.append(np.sin(x))
        return np.sum(kept[0] * x)

    def of_rows_and_columns(x):
        table = np.exp(-((x + kept[0])[:, None] ** 2) - x**2)
        return np.sum(np.sum(table, axis=0) * x) + np.sum(np.sum(table * x, axis=1) * kept[0])

    x = np.linspace(0.1, 0.9, 64)
    _, pullback = ng.vjp(f, x)
    assert kept[0].numpy()[0] == np.sin(0.1)
    expected = ng.grad(of_rows_and_columns)(x).numpy()
    np.testing.assert_allclose(ng.jit(ng.grad(of_rows_and_columns))(x), expected, rtol=1e-10)
    np.testing.assert_allclose(pullback(1.0)[0].numpy(), np.sin(x) + x * np.cos(x))


def test_a_result_that_was_looked_at_is_no_step_of_a_loop():
    def f(x):
        first = (ng.linspace(0.0, 3.0, 60) + 0.13)[3]
        assert first.numpy() > 0
        for _ in range(60):
            x = np.sin(x + np.cos(x) * 0.1) + 0.1 * np.sum(x[2:5])
        return np.sum(x * first), first

    def gradient(x):
        return ng.vjp(f, x)[1]((1.0, 0.0))[0]

    x = np.linspace(0.1, 0.9, 10)
    np.testing.assert_allclose(ng.jit(gradient)(x), gradient(x).numpy(), rtol=1e-10)
