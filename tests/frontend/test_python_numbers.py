"""Python numbers are weakly typed in functions that are traced or differentiated, as outside."""

import enum
import operator

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.frontend.tensors.python_numbers import PythonNumber

X32 = np.array([0.5, 1.0, 2.0], np.float32)
X8 = np.array([1, 2, 3], np.int8)


def _agree(f, *args):
    """Same values and dtypes outside of `jit`, inside, and inside of a function called there."""
    expected = f(*args)
    inner = ng.jit(f)
    for found in (inner(*args), ng.jit(lambda *args: inner(*args))(*args)):
        assert np.asarray(found).dtype == np.asarray(expected).dtype
        np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=1e-6)


class State(enum.IntEnum):
    ILL = 1
    WELL = 2


class Metres(float):
    pass


class Phase(complex):
    pass


OF_OTHER_CLASSES = {
    "arithmetic": lambda x, a: a * x + x / a - (x - a) * (a / x),
    "powers": lambda x, a: x**a + a**x,
    "equality": lambda x, a: x == a,
    "inequality": lambda x, a: (x != a) & (a != x),
    "order": lambda x, a: (x < a) | (a <= x),
    "whole numbers": lambda x, a: x // a + a % x + divmod(x, a)[1],
    "in place": lambda x, a: operator.iadd(1.0 * x.astype(float), a),
}


@pytest.mark.parametrize("name", OF_OTHER_CLASSES)
@pytest.mark.parametrize("number", [State.WELL, Metres(2.5), Phase(0.5j)])
def test_numbers_of_classes_that_derive_from_pythons_are_operands_as_in_numpy(
    name, number, numpy_engine
):
    if isinstance(number, complex) and name in ("whole numbers", "order", "in place"):
        pytest.skip("not defined for complex numbers, or the dtype changes")
    f = OF_OTHER_CLASSES[name]
    for x in (np.array([1.0, 2.0, 3.0]), X32):
        expected = f(x, number)
        for found in (f(ng.tensor(x), number), ng.jit(lambda x: f(x, number))(x)):
            assert np.asarray(found).dtype == expected.dtype
            np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-6)


ARITHMETIC = {
    "product": lambda x, a, b: x * a,
    "reflected": lambda x, a, b: a - x,
    "of numbers first": lambda x, a, b: x * (a * b),
    "with a literal": lambda x, a, b: (2 * a + 1) / x,
    "quotient of numbers": lambda x, a, b: x + a / b,
    "floor and rest": lambda x, a, b: x * (a // b) + a % b,
    "divmod": lambda x, a, b: x * divmod(a, b)[1],
    "power of numbers": lambda x, a, b: x + a**b,
    "power by a literal": lambda x, a, b: x + a**-2,
    "power of an array": lambda x, a, b: x**a,
    "exponent": lambda x, a, b: a**x,
    "signs": lambda x, a, b: x * (-a) * (+b) * abs(-a),
    "comparison of numbers": lambda x, a, b: x * (a < b) + (a == b),
    "parts": lambda x, a, b: x * a.real + a.imag + a.conjugate(),
    "sum of a list": lambda x, a, b: x * sum([a, b]),
    "assignment": lambda x, a, b: _assigned(x, a, b),
    "a function of NumPy's": lambda x, a, b: np.maximum(x, a),
    "its result is strong": lambda x, a, b: np.multiply(a, b) * x,
    "a NumPy scalar is strong": lambda x, a, b: np.float64(2) * a * x,
    "where": lambda x, a, b: np.where(x > 1, x, a),
    "clip": lambda x, a, b: np.clip(x, min=a / 8, max=b),
    "an array of one is strong": lambda x, a, b: ng.asarray(a) * x,
    "alone": lambda x, a, b: a * b,
}


def _assigned(x, a, b):
    c = a
    a += b
    a *= x
    return a + c * x


@pytest.mark.parametrize("name", ARITHMETIC)
def test_numbers_are_weak_inside_of_jit_as_outside(name, numpy_engine):
    for numbers in ((2.0, 3.0), (2, 3), (3, 2.0), (True, 2)):
        if name == "a NumPy scalar is strong" or numbers[0] is not True or name != "signs":
            _agree(ARITHMETIC[name], X32, *numbers)


@pytest.mark.filterwarnings("ignore:Bitwise inversion:DeprecationWarning")  # since Python 3.12
def test_integers_and_complex_numbers_are_weak(numpy_engine):
    _agree(lambda x, a: x * a, X8, 2)
    _agree(lambda x, a: x * a, X8, 2.0)
    _agree(lambda x, a: x * a + a, X32, 2j)
    _agree(lambda x, a: x < a, X8, 1000)  # which no int8 holds
    _agree(lambda x, a: (x << a) | a, X8, 3)
    _agree(lambda x, a: x * (a & True) + ~a, X8, True)
    _agree(lambda x, a: ng.special.gammaln(x + 1) * a, X32, 2.0)
    _agree(lambda x, a: ng.logspace(x[0], x[1], 3, base=a), X32, 2.0)


def test_weak_numbers_that_are_returned_have_the_default_dtypes(numpy_engine):
    for number, dtype in ((2.5, "float64"), (2, "int64"), (2j, "complex128"), (True, "bool")):
        assert ng.jit(lambda a: a)(number).dtype == dtype
    assert ng.jit(lambda a: ng.stack([a, a]))(2.5).dtype == "float64"
    assert ng.result_type(np.float32, 2.0) == "float32"
    assert ng.jit(lambda x, a: x.astype(ng.result_type(x, a)))(X32, 2.0).dtype == "float32"


def test_numbers_and_arrays_without_dimensions_have_specializations_of_their_own(numpy_engine):
    f = ng.jit(operator.mul)
    for _ in range(2):
        assert f(X32, 2.0).dtype == "float32"
        assert f(X32, np.float64(2.0)).dtype == "float64"
        assert f(X32, np.array(2.0)).dtype == "float64"
        assert f(ng.tensor(X32), 2.0).dtype == "float32"


def test_numbers_select_and_index(numpy_engine):
    table = np.arange(12.0).reshape(4, 3)
    np.testing.assert_array_equal(ng.jit(lambda k: ng.tensor(table)[k])(2), table[2])
    filled = ng.jit(lambda x, a: _with_first(x, a))(X32, 7.5)
    assert filled.dtype == "float32"
    assert filled[0] == 7.5


def _with_first(x, a):
    result = x.copy()
    result[0] = a
    return result


def test_numbers_that_are_differentiated_are_weak(numpy_engine):
    def f(x, a):
        assert isinstance(a, float | PythonNumber)
        return (x * (a * a)).sum()

    for transform in (lambda g: g, ng.jit):
        for x in (X32, ng.tensor(X32)):
            assert transform(ng.grad(f))(x, 2.0).dtype == "float32"
            value, gradient = transform(ng.value_and_grad(f, argnums=1))(x, 2.0)
            assert (value.dtype, gradient.dtype) == ("float32", "float64")
            assert float(gradient) == 14.0
            assert float(transform(ng.hessian(f, argnums=1))(x, 2.0)) == 7.0
    np.testing.assert_array_equal(
        ng.jit(ng.vmap(lambda x, a: x * a, in_axes=(0, None)))(X32, 2.0), 2 * X32
    )


def test_a_number_is_not_assigned_to_in_place(numpy_engine):
    def f(a):
        b = a
        a += 1.0
        return a * b

    assert ng.jit(f)(3.0) == f(3.0) == 12.0
    assert float(ng.grad(f)(3.0)) == 7.0


def test_operators_refuse_what_is_no_number():
    with pytest.raises(TypeError, match="unsupported operand"):
        ng.jit(lambda a: a * object())(2.5)
    with pytest.raises(TypeError, match="unsupported operand"):
        ng.jit(lambda a: a ** object())(2.5)


def test_integers_that_do_not_fit_are_refused_as_outside(numpy_engine):
    add = ng.jit(operator.add)
    assert add(X8, 100).dtype == "int8"
    for number in (300, -129, 1 << 63):
        for f in (operator.add, add):
            with pytest.raises(OverflowError, match=r"out of bounds for int8|too large"):
                f(X8, number)
    power = ng.jit(operator.pow)
    assert (power(2, 3), power(2.0, -1), power(2, -1.0)) == (8, 0.5, 0.5)
    for base in (2, np.array([2, 3])):
        with pytest.raises(ValueError, match="negative integer powers are not allowed"):
            power(base, -1)
