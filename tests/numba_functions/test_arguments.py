"""What users' functions are called with, and call, besides arrays and numbers."""

from collections import namedtuple

import numba
import numpy as np
import pytest
from numba import float64, njit
from numba.extending import overload

import numba_grad as ng
from numba_grad.compiler.building.function_identity import identity_of
from numba_grad.config import configure
from numba_grad.errors import KernelError
from tests.numba_functions.derivatives import Case, check_gradient, check_tangent, check_values

X = np.array([0.3, 0.5, 0.7, 0.9, 1.1])
Y = np.array([0.2, 0.1, 0.4, 0.3, 0.6])


def checked(operation, python, *arguments):
    """Values, gradients and tangents."""
    case = Case(operation, python, arguments, ())
    check_values(case)
    check_gradient(case)
    check_tangent(case)


Model = namedtuple("Model", "rate power weights")
Found = namedtuple("Found", "root converged steps")


@pytest.fixture(autouse=True)
def _in_python():
    with configure(engine="reference"):
        yield


@njit
def cubic(x, a, b):
    return x**3 - a * b


@njit
def slope_of_cubic(x, a, b):
    return 3.0 * x * x


@njit
def newton(function, x, slope, args=(), most=50):
    for step in range(most):
        change = function(x, *args) / slope(x, *args)
        x = x - change
        if abs(change) < 1e-13:
            return Found(x, True, step)
    return Found(x, False, most)


@njit
def rooted(a, b):
    return newton(cubic, 1.5, slope_of_cubic, (a, b)).root + a


def test_functions_and_tuples_of_arguments_reach_other_functions():
    checked(ng.differentiable(rooted), rooted.py_func, *(2.0, 3.0))


@njit
def inner(y, a, b):
    return y * y - newton(cubic, 1.5, slope_of_cubic, (a, y)).root


@njit
def slope_of_inner(y, a, b):
    return 2.0 * y - a / (3.0 * newton(cubic, 1.5, slope_of_cubic, (a, y)).root ** 2)


@njit
def root_of_a_root(a):
    return newton(inner, 1.5, slope_of_inner, (a, 0.0)).root


def test_a_function_called_inside_of_itself_with_other_functions():
    checked(ng.differentiable(root_of_a_root), root_of_a_root.py_func, *(2.0,))


def test_functions_as_arguments_and_a_named_tuple_as_result():
    solve = ng.differentiable(newton)
    found = solve(cubic, 1.5, slope_of_cubic, (4.0, 2.0))
    assert type(found).__name__ == "Found"
    assert found.converged.dtype == bool
    assert found.converged.item()
    assert found.steps.dtype == np.int64
    by_a = ng.grad(lambda a: solve(ng.differentiable(cubic), 1.5, slope_of_cubic, (a, 2.0)).root)
    assert by_a(4.0).item() == pytest.approx(2.0 / 12.0)
    with pytest.raises(TypeError, match=r"numba\.njit of <lambda>"):
        solve(lambda x: x, 1.5, slope_of_cubic)


def with_a_bool(x):
    return x * 2.0, True


def test_a_bool_in_the_text_beside_other_results():
    values, found = ng.differentiable(with_a_bool)(X)
    np.testing.assert_array_equal(values.numpy(), 2.0 * X)
    assert found.dtype == bool
    assert found.item()


def of_rest(x, *rest):
    total = np.sum(x * rest[0])
    return total * rest[1] ** len(rest)


@njit
def calls_of_rest(x, a):
    return of_rest_compiled(x, x, a) + of_rest_compiled(x, *(x, a, a))


of_rest_compiled = njit(of_rest)


def test_parameters_with_a_star():
    checked(ng.differentiable(of_rest), of_rest, *(X, Y, 1.3, 2))
    checked(ng.differentiable(calls_of_rest), calls_of_rest.py_func, *(X, 1.3))


def with_options(x, weights=None, kind="linear", is_doubled=False):
    if weights is None:
        weights = np.ones_like(x)
    total = np.sum(weights * x)
    if kind == "square":
        total = total * total
    elif kind != "linear":
        raise ValueError("no such kind")
    if is_doubled:
        made = np.empty((2, 2))
        made[:] = total
    else:
        made = np.empty((0, 0))
    return total + np.sum(made)


@pytest.mark.parametrize(
    "options", [(), (Y,), (Y, "square"), (None, "square", True), (Y, "linear", np.True_)]
)
def test_none_strings_and_bools(options):
    checked(ng.differentiable(with_options), with_options, *(X, *options))


def test_a_string_that_the_function_refuses():
    with pytest.raises(ValueError, match="no such kind"):
        ng.differentiable(with_options)(X, None, "cubic").numpy()


def of_model(x, model):
    return model.rate * np.sum(model.weights * x**model.power)


def test_gradients_by_named_tuples():
    model = Model(2.0, 3.0, Y)
    found = ng.grad(lambda model: ng.differentiable(of_model)(X, model))(model)
    np.testing.assert_allclose(found.rate.numpy(), np.sum(Y * X**3))
    np.testing.assert_allclose(found.weights.numpy(), 2.0 * X**3)


def of_record(x, p):
    total = 0.0
    for k in range(p["count"]):
        total += p["rate"] * x[k] ** p.power
    return total


def test_records_and_dictionaries_in_their_place():
    record = np.array([(2.0, 3.0, 4)], [("rate", "f8"), ("power", "f8"), ("count", "i4")])[0]
    model = {"rate": 2.0, "power": 3.0, "count": 4}
    operation = ng.differentiable(of_record)
    assert operation(X, record).item() == pytest.approx(2.0 * np.sum(X[:4] ** 3))
    assert operation(X, model).item() == operation(X, record).item()
    by_rate = ng.grad(lambda rate: operation(X, {**model, "rate": rate}))
    assert by_rate(2.0).item() == pytest.approx(np.sum(X[:4] ** 3))


@numba.vectorize([float64(float64, float64)])
def clipped_product(a, b):
    if a > b:
        return a * b
    return a + b * b


@njit
def of_elements(x, y):
    filled = np.empty_like(x)
    clipped_product(x, 0.55, filled)
    return np.sum(clipped_product(x, y) * filled) + clipped_product(x[0], 2)


def test_functions_of_elements():
    operation = ng.differentiable(clipped_product)
    for y in (Y, 0.6, Y[:3, None]):
        checked(operation, clipped_product, *(X, y))
    assert operation(1, 2.0).item() == 5.0
    checked(ng.differentiable(of_elements), of_elements, *(X, Y))


@numba.guvectorize([(float64[:], float64, float64[:], float64[:])], "(n),()->(n),()")
def smoothed(x, decay, out, last):
    level = 0.0
    for i in range(x.shape[0]):
        level = decay * level + x[i]
        out[i] = level
    last[0] = level * level


@njit
def of_smoothed(x, decay):
    out, last = np.empty_like(x), np.empty(1)
    for row in range(x.shape[0]):
        level = 0.0
        for i in range(x.shape[1]):
            level = decay[row] * level + x[row, i]
            out[row, i] = level
    return out, last


@numba.guvectorize([(float64[:], float64[:], float64[:])], "(n),(n)->(n)")
def scaled_differences(x, y, out):
    for i in range(x.shape[0]):
        out[i] = (x[i] - y[i]) * y[0]


@njit
def calls_generalized(x, y):
    out = np.empty_like(x)
    scaled_differences(x, y, out)
    return np.sum(out * x)


def test_generalized_ufuncs():
    operation = ng.differentiable(smoothed)
    for x, decay in ((X, 0.5), (np.stack([X, Y]), 0.5), (X, Y), (np.stack([X, Y]), Y[:2])):
        checked(operation, smoothed, *(x, decay))
    with pytest.raises(ValueError, match="axes of the signature"):
        ng.differentiable(scaled_differences)(X, Y[:3])
    checked(ng.differentiable(calls_generalized), calls_generalized, *(X, Y))


def chosen(x, k):
    raise NotImplementedError


@overload(chosen)
def _chosen(x, k):
    if isinstance(x, numba.types.Array):
        return lambda x, k: x[0] * k
    return lambda x, k: 2.0 * x * k


@njit
def calls_overloaded(x, k):
    return chosen(x, k) + chosen(k, 3.0) + type(k)(2) * k


def test_overloaded_functions():
    found = ng.grad(ng.differentiable(calls_overloaded), argnums=(0, 1))(X, 1.5)
    np.testing.assert_allclose(found[0].numpy(), [1.5, 0.0, 0.0, 0.0, 0.0])
    np.testing.assert_allclose(found[1].numpy(), X[0] + 8.0)


@njit
def printing(x):
    print("x is", x[0])  # noqa: T201
    return 2.0 * x[0]


def test_nothing_is_printed(capfd):
    assert ng.differentiable(printing)(X).item() == 0.6
    assert not capfd.readouterr().out


def returned_early(x, n):
    found = np.zeros_like(x)
    for k in range(n):
        for i in range(x.shape[0]):
            found[i] += x[i] * (k + 1)
            if found[i] > 3.1:
                return found
    return found


def given_back(x, n):
    if n > 2:
        return x
    return 2.0 * x


given_back_compiled = njit(given_back)


@njit
def writes_what_it_got(x, n):
    found = given_back_compiled(x, n)
    found[0] = 7.0 * found[1]
    return x[0] * found[0]


def test_arrays_that_are_returned_while_they_are_filled():
    for n in (2, 5):
        checked(ng.differentiable(returned_early), returned_early, *(X, n))
    with pytest.raises(KernelError, match="second name"):
        ng.differentiable(writes_what_it_got)(X, 3)


@njit(parallel=True, fastmath=True)
def in_parallel(x):
    return newton(cubic, x[0], slope_of_cubic, (x[1], 2.0))


def test_decorators_do_not_matter_for_the_text_on_disk():
    assert identity_of(in_parallel) is None
    assert identity_of(in_parallel, is_translated=True) is not None
    of_each = identity_of(clipped_product, is_translated=True)
    assert of_each is not None
    assert of_each != identity_of(njit(clipped_product._dispatcher.py_func), is_translated=True)


@njit(inline="always")
def two_ways(x):
    if x > 0.55:
        return np.log(x)
    return x * x


@njit
def written_in_place_by_numba(x):
    total = 0.0
    for i in range(x.shape[0]):
        total += two_ways(x[i]) * x[0]
    return total


def test_functions_that_numba_itself_writes_in_place():
    # Its results are variables of Numba's, several times assigned, with a number for a name.
    operation = ng.differentiable(written_in_place_by_numba)
    checked(operation, written_in_place_by_numba.py_func, X)
