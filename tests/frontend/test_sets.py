"""Arrays as sets: NumPy's results, gradients to the elements taken, and errors under tracing."""

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.errors import TracingError
from numba_grad.testing import check_gradients
from tests.frontend.agreement import same

pytestmark = pytest.mark.usefixtures("numpy_engine")

RNG = np.random.default_rng(0)
DTYPES = ["bool", "int8", "uint64", "float16", "float64", "complex128"]


def sample(dtype, *shape):
    x = RNG.integers(0, 5, shape).astype(dtype)
    if x.dtype.kind in "fc":
        x.reshape(-1)[::5] = np.nan
    return x


@pytest.mark.parametrize("dtype", DTYPES)
def test_unique_is_numpys(dtype):
    x = sample(dtype, 4, 6)
    for arguments in (
        {},
        {"return_index": True},
        {"return_inverse": True, "return_counts": True},
        {"return_index": True, "return_inverse": True, "return_counts": True, "equal_nan": False},
    ):
        same(np.unique(ng.tensor(x), **arguments), np.unique(x, **arguments))
    same(ng.unique(x[:, :0]), np.unique(x[:, :0]))
    same(ng.unique(x[0, 1]), np.unique(x[0, 1]))


def test_unique_parts_along_an_axis():
    x = np.array([[1, 2, 1], [0, 5, 0], [1, 2, 1]])
    for axis in (0, 1, -1):
        expected = np.unique(x, True, True, True, axis)
        same(np.unique(ng.tensor(x), True, True, True, axis), expected)
    check_gradients(lambda x: ng.unique(x, axis=0) ** 2, x[:2].astype(float))


@pytest.mark.parametrize("name", ["unique_all", "unique_counts", "unique_inverse", "unique_values"])
def test_the_unique_functions_of_the_array_api(name):
    x = sample("float64", 3, 4)
    expected = getattr(np, name)(x)
    result = getattr(np, name)(ng.tensor(x))
    if name == "unique_values":
        expected = np.sort(expected)  # NumPy's order is not specified
        same(result, expected)
        return
    assert result._fields == expected._fields
    same(tuple(result), tuple(expected))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["union1d", "intersect1d", "setdiff1d", "setxor1d"])
def test_two_sets(name, dtype):
    function = getattr(np, name)
    x, y = sample(dtype, 3, 3), sample(dtype, 4) // 2 if dtype == "int8" else sample(dtype, 4)
    same(function(ng.tensor(x), y), function(x, y))
    same(function(x, ng.tensor(y)), function(x, y))
    if name != "union1d":
        first, second = np.array([5, 1, 3], dtype), np.array([3, 9, 1, 2], dtype)
        if dtype != "bool":
            expected = function(first, second, assume_unique=True)
            same(function(ng.tensor(first), second, assume_unique=True), expected)
    mixed = function(np.array([1, 2]), np.array([0.5, 2.0]))
    same(function(ng.tensor([1, 2]), np.array([0.5, 2.0])), mixed)


def test_intersect1d_says_where():
    x, y = np.array([3, 1, 1, 4]), np.array([1, 5, 3, 3])
    expected = np.intersect1d(x, y, return_indices=True)
    same(np.intersect1d(ng.tensor(x), y, return_indices=True), expected)


DIFFERENTIABLE = {
    "unique": (lambda x: ng.unique(x * x) ** 2, np.array([0.3, -2.0, 1.1])),
    "union1d": (lambda x, y: ng.union1d(x, y) ** 2, np.array([0.3, -2.0]), np.array([1.0, 7.0])),
    "setdiff1d": (lambda x: ng.setdiff1d(x, [2.0]) ** 2, np.array([0.3, -2.0])),
    "setxor1d": (lambda x, y: ng.setxor1d(x, y) ** 2, np.array([0.3, -2.0]), np.array([1.0])),
    "intersect1d": (lambda x: ng.intersect1d(x, x) ** 2, np.array([0.3, -2.0])),
}


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_derivatives_to_second_order(name):
    check_gradients(*DIFFERENTIABLE[name])


def test_the_first_of_equals_gets_the_gradient():
    x = ng.tensor([2.0, 1.0, 2.0, 1.0], requires_grad=True)
    (ng.unique(x) * np.array([1.0, 10.0])).sum().backward()
    assert x.grad.numpy().tolist() == [10.0, 1.0, 0.0, 0.0]


@pytest.mark.parametrize("name", ["unique", "unique_all", "union1d", "intersect1d", "setdiff1d"])
def test_under_tracing_an_error_says_why(name):
    arguments = 1 if name.startswith("unique") else 2
    f = getattr(ng, name)
    operation = "unique" if name.startswith("unique") else name
    message = rf"(?s){operation}: needs the value of a tensor.*try: ng\.sort\(x\)"
    for transform in (ng.jit, ng.vmap):
        with pytest.raises(TracingError, match=message):
            transform(lambda x: f(*[x] * arguments))(np.ones((2, 3)))
