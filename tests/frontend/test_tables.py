"""Columns of tables, as pandas has them: operands of tensors, and arguments."""

import numpy as np
import pytest

import numba_grad as ng

VALUES = np.random.default_rng(0).normal(size=7)


class Column:
    """As a column of pandas: its operators compute with arrays, and leave to the other operand what
    has a higher priority."""

    __pandas_priority__ = 3000
    __array_priority__ = 1000

    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        return np.array(self.values, dtype)

    def __len__(self):
        return len(self.values)

    def _operate(self, ufunc, other, is_reflected=False):
        if getattr(other, "__pandas_priority__", 0) > self.__pandas_priority__:
            return NotImplemented
        operands = (np.asarray(other), self.values)
        return Column(ufunc(*(operands if is_reflected else operands[::-1])))

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        if any(hasattr(x, "__array_ufunc__") and not isinstance(x, Column) for x in inputs):
            return NotImplemented
        return Column(getattr(ufunc, method)(*map(np.asarray, inputs), **kwargs))

    def __add__(self, other):
        return self._operate(np.add, other)

    def __radd__(self, other):
        return self._operate(np.add, other, True)

    def __sub__(self, other):
        return self._operate(np.subtract, other)

    def __rsub__(self, other):
        return self._operate(np.subtract, other, True)

    def __mul__(self, other):
        return self._operate(np.multiply, other)

    def __rmul__(self, other):
        return self._operate(np.multiply, other, True)

    def __pow__(self, other):
        return self._operate(np.power, other)

    def __gt__(self, other):
        return self._operate(np.greater, other)

    def __lt__(self, other):
        return self._operate(np.less, other)


def numbers(a, b, x):
    """Two numbers that are differentiated, and a column on either side of them."""
    return np.mean((a * x + x * b - (b - x) * (x - a)) ** 2 + (x * x) ** b)


def an_array(a, b, x):
    p = np.stack([a, b])
    return np.sum(np.where(x > p[0], x * p[1], p[0] - x) * np.where(p[1] < x, 2.0, p[0] * x))


@pytest.mark.parametrize("f", [numbers, an_array])
@pytest.mark.parametrize("transform", [ng.grad, lambda *a: ng.jit(ng.grad(*a)), ng.hessian])
def test_operands(f, transform):
    """Of another library, which has no gradients: its numbers, in their order."""

    def derivative(x):
        return transform(lambda a, b: f(a, b, x), (0, 1))(0.3, 0.7)

    found, expected = derivative(Column(VALUES)), derivative(VALUES)
    np.testing.assert_array_equal(np.asarray(found), np.asarray(expected))


def test_of_tensors_the_result_is_a_tensor():
    x = ng.tensor(VALUES, requires_grad=True)
    column = Column(VALUES)
    for product in (x * column, column * x, np.multiply(column, x), np.multiply(x, column)):
        assert isinstance(product, ng.Tensor)
        np.testing.assert_array_equal(product.detach(), VALUES * VALUES)
    x = ng.tensor(VALUES.copy())
    x += column
    np.testing.assert_array_equal(x, VALUES + VALUES)


def test_arguments():
    def f(x):
        return np.sum(np.sin(x) * x)

    expected = ng.grad(f)(VALUES)
    np.testing.assert_array_equal(ng.grad(f)(Column(VALUES)), expected)
    np.testing.assert_array_equal(ng.jit(ng.grad(f))(Column(VALUES)), expected)
    of_a_table = ng.jit(ng.grad(lambda table: f(table["x"])))({"x": Column(VALUES)})
    np.testing.assert_array_equal(of_a_table["x"], expected)


def test_pandas_itself():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"x": VALUES, "y": VALUES**2})

    def loss(p):
        return ((table["x"] * p[0] + p[1] * table.y - table["y"]) ** 2).mean()

    def loss_of_arrays(p):
        x, y = table["x"].to_numpy(), table["y"].to_numpy()
        return ((x * p[0] + p[1] * y - y) ** 2).mean()

    p = np.array([0.3, 0.7])
    for transform in (ng.grad, lambda f: ng.jit(ng.grad(f))):
        np.testing.assert_allclose(transform(loss)(p), transform(loss_of_arrays)(p), rtol=1e-15)
    with pytest.raises(ng.errors.GradientError, match=r"to_numpy\(\)"):
        ng.grad(lambda p: np.sum(table @ p))(p)
