"""What `differentiable` does not take is refused by name, with its line and what to type."""

import random
from typing import Any

import numba
import numpy as np
import pytest
from numba import njit, objmode
from numba.experimental import jitclass
from numba.typed import Dict, List

import numba_grad as ng
from numba_grad.errors import KernelError


@njit
def random_number(x):
    return x[0] * np.random.random()  # noqa: NPY002


@njit
def random_of_python(x):
    return x[0] * random.random()


@njit
def list_in_a_while_loop(x):
    found = []
    value = x[0]
    while value < 50.0:
        found.append(value)
        value *= 2.0
    return sum(found)


@njit
def list_of_a_length_that_is_data(x):
    found = [x[0]]
    for _ in range(int(x[1])):
        found.append(2.0 * found[-1])
    return found[-1] + len(found)


@njit
def list_of_arrays(x):
    found = [x, 2.0 * x]
    return found[0] + found[1]


@njit
def first_of(values):
    return values[0]


@njit
def list_for_another_function(x):
    return first_of([x[0], x[1]])


@njit
def list_given_anew(x):
    found = [x[0]]
    for k in range(2):
        found = [found[0] * x[k]]
    return found[0]


@njit
def list_that_grows_in_a_loop_over_it(x):
    found = [x[0]]
    for k, value in enumerate(found):
        if k < 3:
            found.append(value)
    return found[-1]


@njit
def list_that_is_extended(x):
    found = [x[0]]
    found.extend([x[1]])
    return found[1]


@njit
def typed_list(x):
    found = List()
    found.append(x[0])
    return found[0]


@njit
def dictionary(x):
    table = {0: x[0]}
    return table[0]


@njit
def typed_dictionary(x):
    table = Dict()
    table[0] = x[0]
    return table[0]


@njit
def set_of_numbers(x):
    return len({x[0], x[1]}) * x[0]


@njit(numba.float64(numba.float64))
def factorial(x):
    if x < 1.0:
        return 1.0
    return x * factorial(x - 1.0)


@njit
def recursion(x):
    return factorial(x[0])


@jitclass([("scale", numba.float64)])
class Scaled:
    def __init__(self, scale):
        self.scale = scale

    def of(self, x):
        return self.scale * x


@njit
def jit_class(x):
    return Scaled(2.0).of(x[0])


@njit
def object_mode(x):
    with objmode(y="float64"):
        y = float(np.median(x))
    return y * x[0]


@njit
def eigenvalues(x):
    return np.linalg.eigvals(x.reshape(1, 1))[0]


@njit
def generator(x):
    def squares():
        for value in x:
            yield value * value

    total = 0.0
    for y in squares():
        total += y
    return total


@njit
def catching(x):
    try:
        y = 1.0 / x[0]
    except Exception:
        y = 0.0
    return y


@njit
def loop_over_an_array_that_is_swapped(x):
    a, b = x.copy(), 2.0 * x
    total = 0.0
    for value in b:
        a, b = b, a
        total += value * a[0]
    return total


@njit
def loop_over_arrays_that_are_swapped(x):
    a, b = x.copy(), 2.0 * x
    total = 0.0
    for values in (a, b):
        total += values[0]
        a, b = b, a
    return total


@njit
def update_by_its_own_elements(x):
    x[1:] += x[:-1]
    return x.sum()


@njit
def unique_values(x):
    return np.unique(x)[0]


@njit
def singular_values(x):
    return np.linalg.svd(x.reshape(1, 2))[1]


@njit
def least_squares(x):
    return np.linalg.lstsq(np.eye(2), x)[0]


@njit
def pairs_of_places(x):
    m = x.reshape(1, 2)
    places = np.arange(1)
    return m[places, places].sum()


@njit
def text(x):
    name = "a" if x[0] > 1.0 else "b"
    return x[0] * len(name)


@njit
def formatted(x):
    if x[0] > 1.0:
        raise ValueError(f"{x[0]} is large")
    return x[0]


@njit
def sum_of_two_axes(x):
    return x.reshape(1, 2).sum(axis=x.shape[0] - 1)


@njit
def histogram(x):
    return np.histogram(x, 3)[0].sum() * x[0]


@njit
def swaps(a, b):
    for _ in range(3):
        a[0] += b[1]
        a, b = b, a
    return a[0]


@njit
def callee_that_swaps(x):
    return swaps(x.copy(), 2.0 * x) * x[1]


MANY = np.zeros(2000)


@njit
def large_global(x):
    return x[0] + MANY[3]


@njit
def bytes_of_numbers(x):
    return x.view(np.int64)[0] * x[0]


@njit
def starred(*x):
    return x[0]


# The function, what of it is named, and a part of its line.
REFUSED = (
    (random_number, "random", "np.random.random()"),
    (random_of_python, "random", "random.random()"),
    (list_in_a_while_loop, "`while` loop", "found.append(value)"),
    (list_of_a_length_that_is_data, "not known where it is made", "found.append(2.0"),
    (list_of_arrays, "a list of array", "[x, 2.0 * x]"),
    (list_for_another_function, "another function", "first_of("),
    (list_given_anew, "several lines", "for k in range(2)"),
    (list_that_grows_in_a_loop_over_it, "in a loop over it", "found.append(value)"),
    (list_that_is_extended, "extend", "found.extend("),
    (typed_list, "List", "List()"),
    (dictionary, "build_map", "{0: x[0]}"),
    (typed_dictionary, "Dict", "Dict()"),
    (set_of_numbers, "set", "{x[0], x[1]}"),
    (recursion, "recursion", "factorial(x - 1.0)"),
    (jit_class, "Scaled", "Scaled(2.0)"),
    (object_mode, "objmode", "objmode"),
    (eigenvalues, "eigvals", "np.linalg.eigvals"),
    (catching, "try", "try:"),
    (update_by_its_own_elements, "in place", "x[1:] += x[:-1]"),
    (loop_over_an_array_that_is_swapped, "swapped", "for value in b"),
    (loop_over_arrays_that_are_swapped, "swapped", "for values in (a, b)"),
    (unique_values, "unique", "np.unique(x)"),
    (singular_values, "svd", "np.linalg.svd"),
    (least_squares, "lstsq", "np.linalg.lstsq"),
    (pairs_of_places, "index with arrays", "m[places, places]"),
    (text, "unicode", 'name = "a"'),
    (formatted, "str", "is large"),
    (sum_of_two_axes, "axes that are not constants", "sum(axis="),
    (histogram, "histogram", "np.histogram"),
    (callee_that_swaps, "swap of arguments", "a, b = b, a"),
    (large_global, "global array", "MANY[3]"),
    (bytes_of_numbers, "view", "x.view(np.int64)"),
)


# Numba itself compiles these functions of NumPy while it finds types.
SLOW = (
    *(least_squares, unique_values, eigenvalues, histogram, singular_values),
    *(sum_of_two_axes, formatted),
)
CASES = [
    pytest.param(
        *case,
        id=case[0].__name__,
        marks=[pytest.mark.thorough] if case[0] in SLOW else [],
    )
    for case in REFUSED
]


@pytest.mark.parametrize(("function", "named", "line"), CASES)
def test_refused_constructs_are_named_with_their_line(function: Any, named: str, line: str):
    operation = ng.differentiable(function)
    with pytest.raises(KernelError) as raised:
        operation(np.array([3.0, 2.0]))
    message = str(raised.value)
    assert named in message
    assert line in message
    assert "test_refused.py:" in message
    assert "ng.custom_op" in message


def test_arguments_that_are_missing_are_named_with_the_function():
    @njit
    def scaled(x, factor):
        return x * factor

    with pytest.raises(TypeError, match=r"scaled: missing .*'factor'\n  try: scaled\(x, factor\)"):
        ng.differentiable(scaled)(np.ones(3))
