"""Comparing jitted programs that branch on values with Python itself."""

import copy
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.errors import TracingError

with_control_flow = functools.partial(ng.jit, control_flow=True)


def assert_as_in_python(f: Callable[..., Any], *calls: Any) -> None:
    """That `f` jitted gives what `f` gives, for each of these arguments."""
    jitted = with_control_flow(f)
    for given in calls:
        args = given if isinstance(given, tuple) else (given,)
        expected = f(*[copy.deepcopy(x) for x in args])
        got = jitted(*args)
        for x, y in zip(leaves(got), leaves(expected), strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-13, err_msg=f"{f.__name__}{args}")


def leaves(result: Any) -> list[Any]:
    if isinstance(result, dict):
        return [x for key in sorted(result) for x in leaves(result[key])]
    if isinstance(result, (tuple, list)):
        return [x for part in result for x in leaves(part)]
    return [result]


def message(f: Callable[..., Any], *args: Any, error: type[Exception] = TracingError) -> str:
    with pytest.raises(error) as caught:
        with_control_flow(f)(*args)
    return str(caught.value)


# Programs of several tests.


def newton_with_while(a, tolerance):
    x = a
    while abs(x * x - a) > tolerance:
        x = (x + a / x) / 2
    return x


def newton_with_for(a, tolerance):
    x = a / 2
    for _ in range(100):
        new = 0.5 * (x + a / x)
        if abs(new - x) < tolerance:
            return new
        x = new
    return x


def collatz_with_conditional(n):
    steps = 0
    while n > 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps = steps + 1
    return steps


def clip_early(x):
    if x < 0:
        return 0.0
    if x > 1:
        return 1.0
    return x


def gcd_with_tuple(a, b):
    while b:
        a, b = b, a % b
    return a


def absolute(x):
    return x if x > 0 else -x
