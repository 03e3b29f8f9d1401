"""`jit(f, control_flow=True)`: each construct against the same function without `jit`."""

import functools
import itertools
import math
import pickle
import re
import types
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.errors import ShapeError, TracingError
from tests.frontend.python_programs import assert_as_in_python, message, with_control_flow
from tests.processes import run_python

# Programs, as their authors write them


def newton_with_while(a, tolerance):
    x = a
    while abs(x * x - a) > tolerance:
        x = (x + a / x) / 2
    return x


def newton_with_count(a, tolerance):
    x, n = 1.0, 0
    while True:
        step = (x * x - a) / (2 * x)
        x -= step
        n += 1
        if abs(step) < tolerance or n >= 50:
            break
    return x, n


def newton_with_for(a, tolerance):
    x = a / 2
    for _ in range(100):
        new = 0.5 * (x + a / x)
        if abs(new - x) < tolerance:
            return new
        x = new
    return x


def test_newton():
    for f in (newton_with_while, newton_with_count, newton_with_for):
        assert_as_in_python(f, (2.0, 1e-10), (9.0, 1e-6), (1e-3, 1e-8))


def bisection_with_while(c):
    low, high = 0.0, 10.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        if middle**3 > c:
            high = middle
        else:
            low = middle
    return (low + high) / 2


def bisection_with_for(c):
    interval = [0.0, 10.0]
    for _ in range(200):
        middle = sum(interval) / 2
        interval = [interval[0], middle] if middle**3 > c else [middle, interval[1]]
        if interval[1] - interval[0] < 1e-9:
            break
    return interval[0]


def bisection_with_return(c):
    low, high, n = 0.0, 10.0, 0
    while True:
        middle = 0.5 * (low + high)
        value = middle * middle * middle - c
        if value == 0 or high - low < 1e-9:
            return middle, n
        if value < 0:
            low = middle
        else:
            high = middle
        n = n + 1


def test_bisection():
    for f in (bisection_with_while, bisection_with_for, bisection_with_return):
        assert_as_in_python(f, 2.0, 27.0, 125.0, 0.5)


def collatz_with_elif(n):
    steps = 0
    while True:
        if n == 1:
            break
        elif n % 2 == 0:
            n //= 2
        else:
            n = 3 * n + 1
        steps += 1
    return steps


def collatz_with_conditional(n):
    steps = 0
    while n > 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps = steps + 1
    return steps


def collatz_with_continue(n):
    steps = 0
    while n != 1:
        steps += 1
        if n % 2:
            n = 3 * n + 1
            continue
        n = n // 2
    return steps


def test_collatz():
    for f in (collatz_with_elif, collatz_with_conditional, collatz_with_continue):
        assert_as_in_python(f, 1, 2, 7, 27)


def adaptive_with_if(end, tolerance):
    t, y, h, accepted = 0.0, 1.0, 0.1, 0
    while t < end:
        if t + h > end:
            h = end - t
        k1 = -2 * y + np.cos(t)
        k2 = -2 * (y + h * k1) + np.cos(t + h)
        error = 0.5 * h * abs(k2 - k1)
        if error <= tolerance:
            t = t + h
            y = y + 0.5 * h * (k1 + k2)
            accepted += 1
        h = h * np.minimum(2.0, np.maximum(0.2, 0.9 * (tolerance / (error + 1e-30)) ** 0.5))
    return y, accepted


def adaptive_with_continue(end, tolerance):
    def slope(t, y):
        return -2 * y + np.cos(t)

    t = 0.0
    y = 1.0
    h = 0.1
    rejected = 0
    while t < end and rejected < 1000:
        h = end - t if t + h > end else h
        euler = y + h * slope(t, y)
        heun = y + h * (slope(t, y) + slope(t + h, euler)) / 2
        if abs(heun - euler) > tolerance:
            h /= 2
            rejected += 1
            continue
        t, y = t + h, heun
        if not abs(heun - euler) > tolerance / 4:
            h *= 2
    return y, rejected


def test_adaptive_step_size():
    for f in (adaptive_with_if, adaptive_with_continue):
        assert_as_in_python(f, (2.0, 1e-4), (1.0, 1e-3))


def clip_early(x):
    if x < 0:
        return 0.0
    if x > 1:
        return 1.0
    return x


def clip_nested(x):
    if x >= 0:
        if x <= 1:
            return x
        return 1.0
    return 0.0


def clip_flat(x):
    result = x
    if not 0 <= x <= 1:
        result = 0.0 if x < 0 else 1.0
    return result


def test_early_return():
    for f in (clip_early, clip_nested, clip_flat):
        assert_as_in_python(f, -1.0, 0.0, 0.25, 1.0, 3.0)


def first_pair(values, target):
    """Two indices with this sum, by nested loops."""
    found = (-1, -1)
    for i in range(len(values)):
        for j in range(i + 1, len(values)):
            if values[i] + values[j] == target:
                found = (i, j)
                break
        if found[0] >= 0:
            break
    return found


def first_pair_returned(n, target):
    for i in range(n):
        for j in range(i, n):
            if i * i + j * j == target:
                return i, j
    return -1, -1


def primes_below(n):
    count = 0
    for candidate in range(2, n):
        for d in range(2, candidate):
            if candidate % d == 0:
                break
        else:
            count += 1
    return count


def test_nested_loops_with_break():
    values = np.array([3.0, 1.0, 4.0, 1.5])
    assert_as_in_python(first_pair, (values, 5.5), (values, 2.5), (values, 100.0))
    assert_as_in_python(first_pair_returned, (8, 25), (8, 50), (8, 3), (0, 3))
    assert_as_in_python(primes_below, 2, 3, 30)


def gcd_with_tuple(a, b):
    while b:
        a, b = b, a % b
    return a


def gcd_with_difference(a, b):
    while a != b:
        if a > b:
            a = a - b
        else:
            b = b - a
    return a


def gcd_with_rest(a, b):
    rest = a % b
    while rest != 0:
        a = b
        b = rest
        rest = a % b
    return b


def test_gcd():
    for f in (gcd_with_tuple, gcd_with_difference, gcd_with_rest):
        assert_as_in_python(f, (12, 18), (7, 5), (5, 5), (100, 75))


def horner_of_length(coefficients, x, n):
    total = 0.0
    for k in range(n - 1, -1, -1):
        total = total * x + coefficients[k]
    return total


def horner_with_while(coefficients, x, n):
    total, k = coefficients[n - 1], n - 2
    while k >= 0:
        total = total * x + coefficients[k]
        k -= 1
    return total


def horner_over_rows(coefficients, x, n):
    total = 0.0
    for k, c in enumerate(coefficients):
        if k < n:
            total = total + c * x**k
    return total


def test_horner():
    c = np.array([1.0, -2.0, 0.5, 3.0])
    for f in (horner_of_length, horner_with_while, horner_over_rows):
        assert_as_in_python(f, (c, 0.3, 4), (c, 2.0, 2), (c, -1.0, 1))


# Constructs


def test_range_of_traced_bounds():
    def of_stop(n):
        total = 0
        for i in range(n):
            total += i * i
        return total

    def of_all(first, stop, step):
        total, last = 0, -1
        for i in range(first, stop, step):
            total = 10 * total + i
            last = i
        return total, last

    assert_as_in_python(of_stop, 0, 1, 7, -3)
    assert_as_in_python(of_all, (0, 7, 2), (7, 0, -3), (1, 8, 3), (3, 3, 1), (0, 6, -1))


def test_range_with_break_and_else():
    def f(n, limit):
        total = 0
        for i in range(n):
            if total > limit:
                break
            if i % 3 == 0:
                continue
            total += i
        else:
            total = -total
        return total

    assert_as_in_python(f, (10, 5), (10, 1000), (0, 1), (3, 2))


def test_while_with_else_and_continue():
    def f(n):
        odd = 0
        while n > 0:
            n -= 1
            if n % 2 == 0:
                continue
            if n == 11:
                break
            odd += n
        else:
            odd += 1000
        return odd

    assert_as_in_python(f, 5, 20, 0)


def test_early_return_from_blocks():
    def of_with(x):
        with np.errstate(all="ignore"):
            while x > 1:
                x = x / 3
                if x < 1.5:
                    return x * 10
            y = x
        return y

    def of_match(x, mode):
        match mode:
            case "a":
                if x > 0:
                    return x
                y = 2 * x
            case _:
                y = 3 * x
                while y > 1:
                    y -= 1
        return y

    assert_as_in_python(of_with, 10.0, 0.5, 4.0)
    for mode, x in (("a", 1.0), ("a", -1.0), ("b", 2.3)):
        got = with_control_flow(of_match, static_argnames="mode")(x, mode=mode)
        assert got == pytest.approx(of_match(x, mode))


def test_python_loop_with_a_traced_break():
    def f(x):
        total = 0.0
        for name, factor in {"a": 1.0, "b": 2.0, "c": 3.0}.items():
            if factor * x > 4:
                break
            total += len(name) * factor * x
        return total

    assert_as_in_python(f, 1.0, 1.5, 3.0, 10.0)


def test_loop_over_an_array_stays_a_python_loop():
    def f(xs):
        best = xs[0]
        for x in xs:
            if x > best:
                best = x
        return best

    assert_as_in_python(f, np.array([1.0, 5.0, 2.0]), np.array([3.0, -5.0]))


def test_an_endless_python_iterator_ends_where_python_says():
    def f(x):
        total = 0.0
        for k in iter(int, 1):
            total += x + k
            if total is not None:
                break
        return total

    assert_as_in_python(f, 2.0)


def test_counting_without_end():
    def with_break(x, start):
        for k in count(start, 2):
            x = x / 2 + 0 * k
            if x < 1:
                break
        return x, k

    def with_return(x):
        for k in itertools.count():
            if x * k > 10:
                return k, x
            x = x + 1

    assert_as_in_python(with_break, (9.0, 3), (0.5, -1))
    assert_as_in_python(with_return, 0.5, 100.0)

    def of_python(x):
        for k in count():
            if k == 3:
                break
            x = x * 2
        return x

    assert_as_in_python(of_python, 1.5)


def test_conditions_of_python_values_stay_pythons():
    calls = []

    def f(x, mode="sum", values=None):
        calls.append(mode)
        values = values or ["a"]
        if mode == "sum" and not isinstance(values, dict):
            result = sum(x[k] for k in range(len(x)))
        elif mode:
            result = x[0]
        while len(values) < 3:
            values.append("b")
        return result * len(values)

    jitted = with_control_flow(f, static_argnames=("mode",))
    x = np.array([1.0, 2.0])
    assert jitted(x) == 9.0
    assert jitted(x, mode="first") == 3.0
    assert jitted(x + 1) == 15.0
    assert calls == ["sum", "first"]  # traced once each


def test_and_or_not():
    def f(x, y):
        a = x > 0 and y > 0
        b = x > 0 or y > 0
        c = not x > y
        d = x and y
        e = x or y
        return (
            1 if a else 0,
            1 if b else 0,
            1 if c else 0,
            d,
            e,
            1 if not (a or not b) and (c or x > 3) else 0,
        )

    values = (-1.0, 0.0, 2.0, 5.0)
    assert_as_in_python(f, *[(x, y) for x in values for y in values])


def test_the_second_operand_is_evaluated_only_where_it_decides():
    def position(values, x):
        i = 0
        while i < len(values) and values[i] < x:
            i += 1
        return i

    def position_from_the_end(values, x):
        i = len(values) - 1
        while not (i < 0 or values[i] < x):
            i -= 1
        return i

    values = np.array([1.0, 3.0, 5.0])
    for f in (position, position_from_the_end):
        assert_as_in_python(f, (values, 0.0), (values, 4.0), (values, 9.0))


def test_comparisons_in_a_row():
    def f(x, y):
        inside = 0 < x < y <= 3
        return (2.0 if inside else 1.0), (x if x < y != 2 > x else -x)

    values = (-1.0, 1.0, 2.0, 3.0, 4.0)
    assert_as_in_python(f, *[(x, y) for x in values for y in values])


def test_nan_fails_comparisons_as_in_python():
    def f(x):
        if x > 0:
            return 1.0
        if not x > 0 and not x <= 0:
            return 2.0
        return 3.0

    assert_as_in_python(f, math.nan, 1.0, -1.0)


def test_assignment_expressions():
    def f(x):
        n = 0
        while (half := x / 2) > 1:
            x = half
            n += 1
            if n == 5:
                break
        if (rest := x - 1) > 0.5:
            n += 100
        return half, rest, n

    assert_as_in_python(f, 10.0, 1.0, 3.2, 1e9)


def test_values_in_containers():
    @dataclass
    class State:
        x: Any
        v: Any

    def f(x, n):
        state = State(x, 0.0)
        record = {"largest": x, "pair": (0, x)}
        for i in range(n):
            state = State(state.x + 0.1 * state.v, state.v - 0.1 * state.x)
            if state.x > record["largest"]:
                record["largest"] = state.x
            record["pair"] = (i, state.v)
        return state.x, state.v, record

    assert_as_in_python(f, (1.0, 0), (1.0, 5), (-2.0, 20))


def test_elements_are_assigned_in_place():
    def fibonacci(n):
        table = np.zeros(10, like=ng.tensor(0.0))
        table[0] = 1.0
        table[1] = 1.0
        for i in range(2, n):
            table[i] = table[i - 1] + table[i - 2]
        return table

    def plain(n):
        table = np.zeros(10)
        table[:2] = 1.0
        for i in range(2, n):
            table[i] = table[i - 1] + table[i - 2]
        return table

    jitted = with_control_flow(fibonacci)
    for n in (1, 5, 10):
        np.testing.assert_array_equal(jitted(n), plain(n))


def test_numbers_take_the_dtype_of_arrays():
    def f(x, n):
        total = 0
        factor = 1.0
        for _ in range(n):
            total = total + x
            factor = factor * 2
        return total * factor, factor

    jitted = with_control_flow(f)
    total, factor = jitted(np.float32(1.5), 3)
    assert total.dtype == np.float32 and factor.dtype == np.float64
    assert (total, factor) == (36.0, 8.0)


def test_closures_globals_defaults_and_methods():
    scale = 2.0

    def f(x, power=2, *, shift=0.5):
        for _ in range(power):
            x = x * scale + shift
            if x > LIMIT:
                x = LIMIT
        return x

    assert with_control_flow(f)(1.0) == f(1.0)
    assert with_control_flow(f)(1.0, 5, shift=1.0) == f(1.0, 5, shift=1.0)

    class Model:
        def __init__(self, rate):
            self.__rate = rate

        def base(self, x):
            return x

        @ng.jit(control_flow=True)
        def __call__(self, x):
            while x < 10:
                x = x * self.__rate
            return x

        def run(self, x):
            __n = 0
            while x < 10:
                x = x * self.__rate
                __n += 1
            return x, __n

    class Derived(Model):
        def base(self, x):
            if x > 0:
                x = super().base(x) + 1
            return x

    model = Model(3.0)
    assert with_control_flow(model.run)(1.0) == (27.0, 3)
    derived = with_control_flow(Derived(3.0).base)
    assert derived(1.0) == 2.0 and derived(-1.0) == -1.0


LIMIT = 30.0


def test_what_is_closed_over_is_as_it_is_at_the_call():
    rate = 2.0

    def f(x):
        while x < 100:
            x = x * rate
        return x

    jitted = with_control_flow(f)
    assert jitted(1.0) == 128.0
    rate = 10.0
    assert jitted(1.0) == 100.0
    f.__defaults__ = (3.0,)
    assert jitted() == 300.0


def test_lambdas_and_partial_functions():
    f, g = with_control_flow(lambda x: x if x > 0 else -x), lambda x: 2 * x if x > 0 else 0.0
    assert f(-2.0) == 2.0
    jitted = with_control_flow(g)
    assert jitted(3.0) == 6.0 and jitted(-3.0) == 0.0
    assert with_control_flow(functools.partial(gcd_with_tuple, 12))(18) == 6


def test_nested_functions_and_comprehensions():
    def f(x, n):
        def halved(y, times):
            for _ in range(times):
                if y < 1:
                    return y
                y = y / 2
            return y

        parts = [halved(x + k, n) if x > k else x for k in range(3)]
        return parts, sum(p if p > 1 else 0.0 for p in parts)

    assert_as_in_python(f, (10.0, 2), (10.0, 20), (0.5, 3), (1.5, 0))


def test_jitted_functions_that_call_each_other():
    inner = with_control_flow(newton_with_while)

    def f(x):
        total = 0.0
        while x > 1:
            root = inner(x, 1e-10)
            total = total + root
            x = x / 2
        return total

    def plain(x):
        total = 0.0
        while x > 1:
            total += newton_with_while(x, 1e-10)
            x = x / 2
        return total

    assert with_control_flow(f)(9.0) == pytest.approx(plain(9.0), rel=1e-12)


def absolute(x):
    return x if x > 0 else -x


def largest_power(x, limit):
    power = x
    while absolute(power) < limit:
        power = power * x
    return power


def test_functions_that_are_called():
    class Layer:
        def __init__(self, weight):
            self.weight = weight

        def __call__(self, x):
            y = self.weight * x
            return y if y > 0 else 0.01 * y

    class Clipped(Layer):
        pass

    class Network:
        def __init__(self, weights):
            self.layers = [Layer(w) for w in weights[:2]] + [Clipped(weights[2])]

        @staticmethod
        def squashed(x, limit=1.0):
            return x if absolute(x) < limit else x / absolute(x)

        def run(self, x, *, apply):
            for layer in self.layers:
                x = layer(x)
            return apply(self.squashed)(x, limit=2.0)

    def f(weights, x):
        return Network(weights).run(x, apply=lambda g: g) + [absolute][0](x) + largest_power(x, 50)

    assert_as_in_python(f, (np.array([1.0, -2.0, 0.5]), 3.0), (np.array([1.0, 2.0, 0.05]), -3.0))
    weights = np.array([1.0, -2.0, 0.5])
    found = with_control_flow(ng.grad(f))(weights, 3.0)
    np.testing.assert_allclose(found, ng.grad(f)(weights, 3.0), rtol=1e-13)


def test_functions_that_call_themselves_as_python_says():
    def norm(x, depth):
        if depth == 0:
            return x if x > 0 else -2 * x
        return norm(x - 1, depth - 1) + norm(x + 1, depth - 1)

    def f(x):
        return norm(x, 3)

    assert_as_in_python(f, 1.0, -2.0)


def test_what_a_called_function_closes_over_is_as_it_is_at_the_call():
    rate = 2.0

    def step(x):
        return x * rate if x > 0 else x

    def f(x):
        return step(x)

    jitted = with_control_flow(f)
    assert jitted(3.0) == 6.0
    rate = 5.0
    assert jitted(3.0) == 15.0


def test_pickled_by_name_or_with_the_function():
    assert pickle.loads(pickle.dumps(jitted_here)) is jitted_here
    again = pickle.loads(pickle.dumps(with_control_flow(gcd_with_tuple)))
    assert again(12, 18) == 6


jitted_here = with_control_flow(clip_early)


# Derivatives and batches


def test_gradients_are_those_of_the_steps_that_ran():
    for f in (newton_with_while, newton_with_for):
        of_jitted = ng.grad(lambda a, f=f: with_control_flow(f)(a, 1e-12))
        assert float(of_jitted(3.0)) == pytest.approx(0.5 / math.sqrt(3.0), rel=1e-9)
        assert with_control_flow(ng.grad(f))(3.0, 1e-12) == pytest.approx(0.5 / math.sqrt(3.0))


def test_gradients_of_branches():
    def f(x):
        if x < 0:
            return -x * x
        y = x * 3
        if x <= 1:
            y = np.sqrt(x)
        return y * y

    gradient = with_control_flow(ng.grad(f))
    for x in (-2.0, 0.5, 4.0):
        assert gradient(x) == pytest.approx(float(ng.grad(f)(x)), rel=1e-12)
    assert with_control_flow(ng.grad(ng.grad(f)))(4.0) == pytest.approx(18.0)


def test_gradient_of_a_loop_of_arrays():
    def f(x, n):
        for i in range(n):
            if x.sum() > 3:
                x = x * 0.5
            x = np.sin(x) + 0.1 * i
        return (x * x).sum()

    x = np.array([1.0, 2.0, 3.0])
    for n in (0, 1, 4):
        np.testing.assert_allclose(
            with_control_flow(ng.grad(f))(x, n), ng.grad(f)(x, n).numpy(), rtol=1e-12
        )


def test_vmap_of_loops_and_branches():
    for f, xs in ((clip_early, [-1.0, 0.5, 2.0]), (collatz_with_conditional, [1, 7, 27])):
        batched = ng.vmap(with_control_flow(f))(np.array(xs))
        np.testing.assert_array_equal(batched.numpy(), [f(x) for x in xs])
        np.testing.assert_array_equal(with_control_flow(ng.vmap(f))(np.array(xs)), batched.numpy())


def test_a_branch_that_is_not_taken_poisons_no_gradient():
    def f(x):
        return np.sqrt(x) if x > 0 else 0.0 * x

    assert with_control_flow(ng.grad(f))(0.0) == 0.0
    assert with_control_flow(ng.grad(f))(4.0) == 0.25


@pytest.mark.parametrize("x, y", [(1.0, 0.3), (-1.0, 2.0), (0.5, 0.5), (3.0, 0.0)])
def test_max_and_min_of_python_choose(x, y):
    def f(x, y):
        total = max(x, 0)
        for k in range(2):
            total = total + max(x, 0.2) * min(y, 0.5, x) + min([k, x, y])
        return total

    assert float(with_control_flow(f)(x, y)) == pytest.approx(f(x, y), rel=1e-14)
    both = (0, 1)
    found = ng.grad(with_control_flow(f), argnums=both)(x, y)
    np.testing.assert_allclose(found, ng.grad(f, argnums=both)(x, y), rtol=1e-14)


def test_generators_that_python_chooses_from():
    def f(x, y):
        nearest = min(abs(v - y) for v in x)
        farthest = max([abs(v - y) for v in x])
        if any(v > 2 for v in x):
            nearest = nearest + 10
        if all(v > y for v in x) or any([]):
            farthest = farthest + 20
        every = all(v is not None for v in x)
        return nearest, farthest, every, any([False, x[0] > 0, True]), all((True, y < 0))

    for x in ([1.0, 2.0, 3.0], [-1.0, 0.5, 1.0], [3.0, 0.5, 2.0]):
        assert_as_in_python(f, (np.array(x), 0.25), (np.array(x), -4.0))


class Interval:
    def __init__(self, low, high):
        self.is_turned = low > high
        if self.is_turned:
            low, high = high, low
        self.low, self.high = low, high

    @property
    def nearest(self):
        return -self.high if self.high < 0 else self.low


class WideInterval(Interval):
    def __init__(self, middle, *, width=1.0):
        super().__init__(middle - width, middle + width)
        high = self.high
        while high < 3.0:
            high = high * 1.5
        self.high = high


def test_objects_that_are_made_there_are_looked_into():
    def f(x, width):
        first, second = Interval(x, 1.0), WideInterval(x, width=width)
        assert type(second) is WideInterval
        return first.low * 2 + first.high + second.high / (second.low + 10.0)

    for x, width in ((0.5, 0.1), (2.0, 1.5), (0.1, 4.0)):
        assert_as_in_python(f, (x, width))


# Errors


def test_a_property_that_decides_on_a_value_is_named():
    def f(x):
        return Interval(x, 1.0).nearest

    assert "@ng.jit(control_flow=True, static_argnums=0) on nearest" in message(f, 0.5)
    decided = property(ng.jit(Interval.nearest.fget, control_flow=True, static_argnums=0))
    made = type("Decided", (Interval,), {"nearest": decided})
    for x in (0.5, -2.0):
        assert_as_in_python(lambda x: made(x, -1.0).nearest, (x,))


def test_a_loop_of_which_no_step_changes_anything():
    def f(x):
        p = 1.0 * x
        while p[0] > 0:
            np.sin(p)
        return p

    assert "the loop changes nothing that its condition depends on" in message(f, np.ones(2))


def test_without_it_the_error_names_it():
    with pytest.raises(TracingError, match=r"control_flow=True.*ng\.cond"):
        ng.jit(clip_early)(1.0)


def test_a_function_of_another_package_is_named():
    # As it is written: nobody has asked to rewrite the library that it may be of.
    positive = types.FunctionType(absolute.__code__, {"__name__": "library.part"})

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
        return sum(v for v in x if v > 0)

    assert "ng.where(condition, x, 0), in place of `if condition`" in message(f, np.ones(2))


def test_functions_of_python_that_compare_have_counterparts():
    def f(x):
        return min(x)

    assert "x.min()" in message(f, np.ones(2))

    def g(x):
        return any(x > 1)

    assert "np.any(x) in place of any(...)" in message(g, np.ones(2))


def place_of(f: Callable[..., Any], line: int, statement: str) -> str:
    line += f.__code__.co_firstlineno
    return re.escape(f"`{statement}` in test_python_control_flow.py, line {line}")


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
        return None

    assert "the returned value" in message(g, 1.0, error=TypeError)

    def h(x):
        name = "small"
        if x > 1:
            name = "large"
        return x * len(name)

    text = message(h, 1.0, error=TypeError)
    assert "`name`" in text and "str 'small'" in text and "str 'large'" in text


def test_exceptions_assertions_try_and_generators():
    def raising(x):
        if x < 0:
            raise ValueError("negative")
        return np.sqrt(x)

    text = message(raising, 1.0)
    assert re.search(place_of(raising, 2, "raise"), text) and "decided by" in text

    def asserting(x):
        assert x > 0
        return x

    assert re.search(place_of(asserting, 1, "assert"), message(asserting, 1.0))

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
