"""Variables that are given another array in each pass or branch, and other names of these."""

import numpy as np
import pytest
from numba import njit

import numba_grad as ng
from numba_grad.errors import KernelError
from tests.numba_functions.derivatives import check

pytestmark = pytest.mark.usefixtures("reference_engine")

X = np.array([0.3, 0.5, 0.7, 0.9, 1.1])
Y = np.array([0.2, 0.1, 0.4, 0.3, 0.6])


def euler(start, h, n):
    s = start
    for _ in range(n):
        k = np.sin(s)
        s = s + h * k
    return s


def euler_with_a_boundary(start, h, n):
    s = start
    for _ in range(n):
        s = s + h * s * s
        s[0] = 0.5
    return s


def euler_with_a_loop_at_the_boundary(start, h, n):
    s = start.copy()
    for _ in range(n):
        s = s + h * s * s
        for j in range(2):
            s[j] = 0.5 * s[j]
    return s


def jacobi(u, n):
    for _ in range(n):
        un = u.copy()
        for j in range(1, u.shape[0] - 1):
            un[j] = 0.5 * (u[j - 1] + u[j + 1])
        u = un
    return u


def leapfrog(p, h, n):
    prev = p
    for _ in range(n):
        nxt = 2 * p - prev
        nxt[1:-1] += h * (p[2:] - 2 * p[1:-1] + p[:-2])
        prev = p
        p = nxt
    return p, prev


def fibonacci(a, b, n):
    for _ in range(n):
        a, b = b, a + 0.5 * b
    return a


def one_of_two(x, n):
    y = x if n > 2 else 2.0 * x
    return y * x


def best_so_far(x, n):
    low = 1e9
    b = x
    for _ in range(n):
        x = x - 0.1 * x * x * x
        v = (x * x).sum()
        if v < low:
            low = v
            b = x
    return b, low


def difference_to_the_former(x, n):
    err = 0.0
    for _ in range(n):
        xo = x
        x = np.cos(x)
        for j in range(x.shape[0]):
            err += abs(x[j] - xo[j])
    return err


def calls(x, n):
    def_ = x
    while n > 0:
        def_ = step(def_, 0.1)
        n -= 1
    return def_


@njit
def step(y, h):
    z = y
    for _ in range(2):
        z = z + h * np.sin(z)
    return z


def midpoint(x0, h, n):
    x = x0
    out = np.zeros((n, x0.shape[0]))
    for i in range(n):
        k1 = -x * x
        k2 = -((x + 0.5 * h * k1) ** 2)
        x = x + h * (k1 + k2) / 2
        out[i] = x
    return out


TAKEN = (
    (euler, (X, 0.1, 3)),
    (euler_with_a_boundary, (X, 0.1, 3)),
    (euler_with_a_loop_at_the_boundary, (X, 0.1, 3)),
    (jacobi, (X, 3)),
    (leapfrog, (X, 0.1, 4)),
    (fibonacci, (X, Y, 4)),
    (one_of_two, (X, 3)),
    (one_of_two, (X, 1)),
    (best_so_far, (X, 3)),
    (difference_to_the_former, (X, 3)),
    (calls, (X, 2)),
    (midpoint, (X, 0.1, 3)),
)


@pytest.mark.thorough(every=2)
@pytest.mark.parametrize(("function", "arguments"), TAKEN)
def test_a_variable_that_is_given_other_arrays(function, arguments):
    check(function, arguments)


# Where an array has two names and is written to, a copy would be silently wrong.


def one_buffer_for_all_passes(u, n):
    new = np.zeros_like(u)
    for _ in range(n):
        for j in range(1, u.shape[0] - 1):
            new[j] = 0.5 * (u[j - 1] + u[j + 1])
        u = new
    return u


def argument_that_is_written_later(s0, n):
    s = s0
    for _ in range(n):
        s = s * 1.5
        for j in range(2):
            s[j] = 0.5
    return s


def second_name_of_an_argument(x, n):
    old = x
    x[0] = 2.0
    for _ in range(n):
        x = x * 1.1
    return old[0] * x[1]


def best_so_far_written_in_place(x, n):
    b = x
    for _ in range(n):
        b = x
        for j in range(2):
            x[j] = x[j] * 2
    return b


def view_of_a_former_array(x, n):
    row = x[1:]
    t = 0.0
    for _ in range(n):
        x = x * 1.1
        t += row[0]
    return t + x[0]


def tuple_of_a_former_array(x, n):
    t = 0.0
    for _ in range(n):
        pair = (x, 1.0)
        x = x * 1.1
        if t > 0:
            t += 1.0
        t += pair[0][0]
    return t


def shorter_in_each_pass(x, n):
    for _ in range(n):
        x = x[1:] * 1.1
    return x


def former_array_written(x, n):
    y = x.copy()
    for _ in range(n):
        z = y
        y = y + 1.0
        z[0] = 5.0
        for j in range(2):
            z[j] *= 2.0
    return y


def second_name_before_a_loop(x, n):
    y = x.copy()
    z = y
    for _ in range(n):
        y = y + x
    y[0] = 3.0
    return z + y


def second_name_before_a_branch(x, n):
    y = x.copy()
    z = y
    if n > 5:
        y = y + x
    y[0] = 3.0
    return z * y


@pytest.mark.parametrize(
    ("function", "line"),
    [
        (one_buffer_for_all_passes, "u = new"),
        (argument_that_is_written_later, "s = s0"),
        (second_name_of_an_argument, "def second_name"),
        (best_so_far_written_in_place, "b = x"),
        (view_of_a_former_array, "t += row[0]"),
        (tuple_of_a_former_array, "t += pair[0][0]"),
        (former_array_written, "z = y"),
        (second_name_before_a_loop, "z = y"),
        (second_name_before_a_branch, "z = y"),
    ],
)
def test_an_array_with_two_names_is_refused(function, line):
    with pytest.raises(KernelError, match="name") as raised:
        ng.differentiable(function)(X, 3)
    message = str(raised.value)
    assert line in message and ".copy()" in message and "ng.custom_op" in message


def test_a_variable_keeps_its_shape():
    with pytest.raises(ValueError, match="several shapes, in `x = x"):
        ng.differentiable(shorter_in_each_pass)(X, 3).numpy()


def swapped_of_two_shapes(x, n):
    a, b = x.copy(), x[1:].copy()
    for _ in range(n):
        a, b = b, a
    return a.sum()


def test_arrays_that_are_swapped_have_one_shape():
    with pytest.raises(ValueError, match="several shapes that are swapped, in `a, b"):
        ng.differentiable(swapped_of_two_shapes)(X, 3).numpy()
