"""`associative_scan`: against a loop in Python."""

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.errors import AxisError, ShapeError

RNG = np.random.default_rng(8)


def affine(f, g):
    """Of x -> a x + b, first f, then g."""
    return {"a": f["a"] * g["a"], "b": g["a"] * f["b"] + g["b"]}


def recurrence(elems, reverse=False):
    order = range(len(elems["a"]))[:: -1 if reverse else 1]
    value, rows = 0.0, [None] * len(order)
    for k in order:
        value = elems["a"][k] * value + elems["b"][k]
        rows[k] = value
    return np.stack(rows)


@pytest.mark.thorough(but=r"^\d\d?$")
@pytest.mark.parametrize("length", [0, 1, 2, 3, 4, 5, 8, 13, 100])
def test_results_are_those_of_a_loop(length):
    x = RNG.standard_normal(length)
    np.testing.assert_allclose(ng.associative_scan(np.add, x), np.cumsum(x), rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(
        ng.associative_scan(np.maximum, x, reverse=True), np.maximum.accumulate(x[::-1])[::-1]
    )


@pytest.mark.thorough(but="^jit-False$")
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("transform", [lambda f: f, ng.jit], ids=["define by run", "jit"])
def test_linear_recurrences_and_their_gradients(transform, reverse):
    elems = {"a": RNG.standard_normal(9), "b": RNG.standard_normal(9)}

    def by_scan(elems):
        return (ng.associative_scan(affine, elems, reverse=reverse)["b"] ** 2).sum()

    value, gradient = transform(ng.value_and_grad(by_scan))(elems)
    expected, of_loop = ng.value_and_grad(lambda e: (recurrence(e, reverse) ** 2).sum())(elems)
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    for name in elems:
        np.testing.assert_allclose(gradient[name], of_loop[name], rtol=1e-10)
    second = ng.hessian(lambda b: by_scan({"a": elems["a"], "b": b}))(elems["b"])
    loops = ng.hessian(lambda b: (recurrence({"a": elems["a"], "b": b}, reverse) ** 2).sum())
    np.testing.assert_allclose(second, loops(elems["b"]), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_axes_are_those_of_numpy(axis):
    x = RNG.standard_normal((3, 4, 5))
    np.testing.assert_allclose(
        ng.associative_scan(np.multiply, x, axis=axis), np.cumprod(x, axis), rtol=1e-12
    )


def test_products_of_matrices_and_batches_of_them():
    x = RNG.standard_normal((2, 6, 3, 3))
    expected = x.copy()
    for k in range(1, 6):
        expected[:, k] = expected[:, k - 1] @ x[:, k]
    result = ng.vmap(lambda x: ng.associative_scan(np.matmul, x))(x)
    np.testing.assert_allclose(result, expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("work", "error", "message"),
    [
        (
            lambda: ng.associative_scan(lambda a, b: a, (np.ones(3), np.ones(4))),
            ShapeError,
            r"(?s)elems\[0\] : 3.*elems\[1\] : 4",
        ),
        (lambda: ng.associative_scan(np.add, 1.0), AxisError, "0-d"),
        (lambda: ng.associative_scan(np.add, np.ones(3), axis=1), AxisError, "out of range"),
        (lambda: ng.associative_scan(3, np.ones(3)), TypeError, "not a function"),
        (
            lambda: ng.associative_scan(lambda a, b: None, np.ones(3)),
            TypeError,
            "the result of fn does not have the structure",
        ),
        (
            lambda: ng.associative_scan(lambda a, b: a[:1], np.ones(4)),
            ShapeError,
            r"(?s)the function changes the shape.*float64\[2\].*float64\[1\]",
        ),
        (
            lambda: ng.associative_scan(lambda a, b: (a + b).astype(np.float32), np.ones(4)),
            TypeError,
            r"(?s)the function changes the dtype.*float64\[2\].*float32\[2\]",
        ),
    ],
)
def test_bad_input(work, error, message):
    with pytest.raises(error, match=message):
        work()
