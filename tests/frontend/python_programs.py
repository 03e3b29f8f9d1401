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
