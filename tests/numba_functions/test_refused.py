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
def list_that_grows(x):
    found = []
    for value in x:
        found.append(2.0 * value)  # noqa: PERF401
    return found[-1]


@njit
def typed_list(x):
    found = List()
    found.append(x[0])
    return found[0]


@njit
def list_comprehension(x):
    return sum([value * value for value in x])


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
def printing(x):
    print(x[0])  # noqa: T201
    return 2.0 * x[0]


@njit
def complex_numbers(x):
    z = complex(x[0], x[1])
    return abs(z * z)


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
def update_by_its_own_elements(x):
    x[1:] += x[:-1]
    return x.sum()


# The function, what of it is named, and a part of its line.
REFUSED = (
    (random_number, "random", "np.random.random()"),
    (random_of_python, "random", "random.random()"),
    (list_that_grows, "list", "found = []"),
    (typed_list, "List", "List()"),
    (list_comprehension, "list", "for value in x"),
    (dictionary, "build_map", "{0: x[0]}"),
    (typed_dictionary, "Dict", "Dict()"),
    (set_of_numbers, "set", "{x[0], x[1]}"),
    (recursion, "recursion", "factorial(x - 1.0)"),
    (jit_class, "Scaled", "Scaled(2.0)"),
    (object_mode, "objmode", "objmode"),
    (eigenvalues, "eigvals", "np.linalg.eigvals"),
    (printing, "print", "print(x[0])"),
    (complex_numbers, "complex", "complex(x[0], x[1])"),
    (catching, "try", "try:"),
    (update_by_its_own_elements, "in place", "x[1:] += x[:-1]"),
    (loop_over_an_array_that_is_swapped, "swapped", "for value in b"),
)


@pytest.mark.parametrize(
    ("function", "named", "line"), REFUSED, ids=lambda x: getattr(x, "__name__", "")
)
def test_refused_constructs_are_named_with_their_line(function: Any, named: str, line: str):
    operation = ng.differentiable(function)
    with pytest.raises(KernelError) as raised:
        operation(np.array([3.0, 2.0]))
    message = str(raised.value)
    assert named in message
    assert line in message
    assert "test_refused.py:" in message
    assert "ng.custom_op" in message
