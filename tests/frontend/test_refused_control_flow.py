"""What `jit(f, control_flow=True)` cannot compile is refused, with what to type."""

import math
import re
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.errors import ShapeError, TracingError
from tests.frontend.python_programs import (
    absolute,
    assert_as_in_python,
    clip_early,
    message,
    with_control_flow,
)
from tests.processes import run_python


def test_a_loop_of_which_no_step_changes_anything():
    def f(x):
        p = 1.0 * x
        while p[0] > 0:
            np.sin(p)
        return p

    assert "the loop changes nothing that its condition depends on" in message(f, np.ones(2))


def test_a_function_that_calls_itself_until_a_value_says_so():
    def integral(high, depth):
        def area(low, high, depth):
            middle = (low + high) / 2
            if depth == 0:
                return (high - low) * np.sin(middle)
            return area(low, middle, depth - 1) + area(middle, high, depth - 1)

        return area(0.0, high, depth)

    text = message(integral, 1.0, 2)
    assert "calls this function again, without end" in text
    assert "if depth == 0" in text and "static_argnums=k" in text
    jitted = ng.jit(integral, control_flow=True, static_argnums=1)
    assert jitted(1.0, 2) == pytest.approx(integral(1.0, 2), rel=1e-14)


def test_match_on_values():
    def of_subject(x):
        match x:
            case 0.0:
                return x
            case _:
                return 2 * x

    def of_guard(x):
        match [x]:
            case [y] if y > 0:
                return y
            case _:
                return 2 * x

    for f in (of_subject, of_guard):
        assert "`match`" in message(f, 1.0)
        assert "if ... elif ... else" in message(f, 1.0)

    def known(x, kind):
        match kind:
            case "double":
                y = 2 * x
            case _ if kind.startswith("h"):
                y = x / 2
            case _:
                y = x
        return y if y > 0 else -y

    jitted = ng.jit(known, control_flow=True, static_argnums=1)
    assert [jitted(-3.0, kind) for kind in ("double", "half", "")] == [6.0, 1.5, 3.0]


def test_without_it_the_error_names_it():
    with pytest.raises(TracingError, match=r"control_flow=True.*ng\.cond"):
        ng.jit(clip_early)(1.0)


def test_a_function_of_another_package_is_named():
    # As it is written: nobody has asked to rewrite the library that it is of.
    code = absolute.__code__.replace(co_filename="/site-packages/library/part.py")
    positive = types.FunctionType(code, {"__name__": "library.part"})

    def f(x):
        return positive(x) + (1 if x > 1 else 0)

    text = message(f, 1.0)
    assert re.search(r"control_flow=True\) on absolute \(.*\.py, line \d+\), as on f", text)


def test_a_function_that_calls_itself_on_a_value_is_named():
    def factorial(n):
        return 1.0 if n <= 1 else n * factorial(n - 1)

    def f(n):
        return factorial(n)

    for g in (f, factorial):
        assert "a loop in place of factorial, which calls itself" in message(g, 5.0)


def test_the_condition_of_a_generator_expression_is_named():
    def f(x):
        return max(v for v in x if v > 0)

    assert "ng.where(condition, x, 0), in place of `if condition`" in message(f, np.ones(2))


def test_functions_of_python_that_compare_have_counterparts():
    def by_key(x):
        return sorted(x, key=abs)[0]

    assert "np.argsort(keys)" in message(by_key, np.ones(2))

    def g(x):
        return any(x > 1)

    assert "np.any(x) in place of any(...)" in message(g, np.ones(2))


def place_of(f: Callable[..., Any], line: int, statement: str) -> str:
    line += f.__code__.co_firstlineno
    return re.escape(f"`{statement}` in test_refused_control_flow.py, line {line}")


def test_a_variable_of_one_branch_only():
    def f(x):
        if x > 0:
            y = x
        return y

    text = message(f, 1)
    assert re.search(place_of(f, 1, "if"), text)
    assert "if x > 0:" in text and "`y` without it : has no value" in text
    assert "a Python int" in text and "a value for `y` before line" in text


def test_a_float_that_was_not_assigned_is_nan():
    def halved(x):
        while x > 1.0:
            y = x * 2.0
            x = y / 4.0
        return x + y

    def in_a_branch_of_a_loop(x):
        for _ in range(10):
            if x > 3.0:
                z = x * 2.0
                x = x - z * 0.1
        return z

    def under_the_same_condition(x):
        if x > 3.0:
            z = x * 2.0
        x = x + 1.0
        if x > 4.0:
            x = x * z
        return x

    for f in (halved, in_a_branch_of_a_loop, under_the_same_condition):
        assert_as_in_python(f, (10.0,), (5.0,))
    g = ng.jit(ng.value_and_grad(under_the_same_condition), control_flow=True)
    assert g(10.0) == (220.0, 42.0) and g(2.0) == (3.0, 1.0)
    for f in (halved, in_a_branch_of_a_loop):
        assert np.isnan(ng.jit(f, control_flow=True)(0.5))


def test_temporaries_of_a_branch_or_a_loop_need_no_value_before():
    def f(x, n):
        if x > 0:
            t = 2 * x
            x = t
        for _ in range(n):
            u = x + 1
            x = u * 2
        return x

    assert_as_in_python(f, (1.0, 3), (-1.0, 0))


def test_a_variable_that_a_loop_may_not_assign():
    def f(n):
        for i in range(n):
            last = 2 * i
        return last

    text = message(f, 3)
    assert re.search(place_of(f, 1, "for"), text)
    assert "`last` before the loop : has no value" in text


def test_another_dtype_after_a_branch():
    def f(x, k):
        y = x
        if x[0] > 0:
            y = k
        return y

    text = message(f, np.ones(2), np.ones(2, int), error=TypeError)
    assert "`y` has another dtype" in text
    assert "float64[2]" in text and "int64[2]" in text


def test_another_shape_after_a_step():
    def f(x, n):
        total = 0.0
        for _ in range(n):
            total = total + x
        return total

    text = message(f, np.ones(3), 2, error=ShapeError)
    assert re.search(place_of(f, 2, "for"), text)
    assert "`total` before the loop : a Python float" in text
    assert "`total` after a step    : float64[3]" in text


def test_another_structure():
    def f(x, n):
        best = None
        for i in range(n):
            best = x * i
        return best

    assert "`best` before the loop : None" in message(f, 1.0, 3, error=TypeError)

    def g(x):
        if x > 0:
            return x
        return x, x

    assert "the returned value" in message(g, 1.0, error=TypeError)

    def h(x):
        name = "small"
        if x > 1:
            name = "large"
        return x * len(name)

    text = message(h, 1.0, error=TypeError)
    assert "`name`" in text and "str 'small'" in text and "str 'large'" in text


def test_try_and_generators():
    def trying(x):
        try:
            while x > 1:
                x = x / 2
        except ZeroDivisionError:
            x = 0.0
        return x

    assert "try around it" in message(trying, 4.0)

    def generating(x):
        def parts():
            y = x
            while y > 1:
                yield y
                y = y / 2

        return sum(parts())

    assert "yield or await in the function" in message(generating, 4.0)


def test_the_same_on_python_values():
    def f(x, n):
        def parts():
            k = n
            while k > 0:
                yield k
                k -= 1

        total = 0.0
        try:
            for k in parts():
                if k == 2:
                    continue
                if k > 100:
                    raise ValueError(k)
                total = total + k * x
            while True:
                n -= 1
                if n < 0:
                    break
        except ValueError:
            return -x
        finally:
            total = total + 1
        return total

    jitted = with_control_flow(f, static_argnums=1)
    for n in (0, 3, 101):
        assert jitted(2.0, n) == f(2.0, n)


def test_exceptions_show_the_users_lines():
    def f(x, n):
        for _ in range(n):
            x = x.reshape(7)
        return x

    with pytest.raises(ShapeError) as caught:
        with_control_flow(f)(np.ones(3), 2)
    lines = {entry.lineno + 1 for entry in caught.traceback}
    first = f.__code__.co_firstlineno
    assert {first + 1, first + 2} <= lines


def test_conditions_of_several_elements():
    def f(x):
        if x > 0:
            return x
        return -x

    text = message(f, np.ones(3), error=ShapeError)
    assert "np.any(...)" in text and re.search(place_of(f, 1, "if"), text)


def test_bounds_that_are_no_integers():
    def f(x):
        for _ in range(x):
            pass
        return x

    assert "integers" in message(f, 2.5, error=TypeError)


def test_functions_without_source():
    names: dict[str, Any] = {}
    exec("def f(x):\n    return x if x > 0 else -x", names)
    with pytest.raises(TracingError, match="source text is not available"):
        with_control_flow(names["f"])
    with pytest.raises(TracingError, match="written in Python"):
        with_control_flow(math.sin)


def test_programs_without_it_do_not_import_it():
    code = """
import sys
import numba_grad as ng
ng.jit(lambda x: x + 1)(1.0)
assert not [name for name in sys.modules if "python_control_flow" in name]
"""
    run_python(code)


def test_what_is_chosen_of_dicts_and_of_objects():
    class State:
        def __init__(self, value):
            self.value = value

    def of_dicts(x):
        counts = {}
        counts["up" if x is None else "down"] = 0.0
        if x > 0:
            counts["up"] = x
        return counts

    def of_objects(x):
        low, high = State(x), State(2 * x)
        state = high if x > 0 else low
        return state.value

    assert "`counts` from the start" in message(of_dicts, 1.0, error=TypeError)
    assert "@dataclass for State" in message(of_objects, 1.0, error=TypeError)
