"""`jit(f, control_flow=True)`: each construct against the same function without `jit`."""

import functools
import itertools
import math
import pickle
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
import pytest

import numba_grad as ng
from tests.frontend.python_programs import (
    absolute,
    assert_as_in_python,
    clip_early,
    collatz_with_conditional,
    gcd_with_tuple,
    message,
    newton_with_for,
    newton_with_while,
    with_control_flow,
)


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


def test_lambdas_within_lambdas_of_one_line():
    """Of the functions that begin in one line, the one that is meant is found."""
    x = np.array([2.0, 3.0])
    assert (
        lambda: with_control_flow(lambda *xs: xs[0][0] if xs[0][0] > 0 else -xs[0][1])(x)
    )() == 2
    assert (lambda: with_control_flow(lambda **k: k["x"] if k["x"] > 0 else -k["x"])(x=-1.0))() == 1
    outer = lambda x: (lambda x: x if x > 0 else -2 * x)(x - 5)  # fmt: skip # noqa: E731
    assert with_control_flow(outer)(2.0) == 6
    inner = (lambda x: lambda x: x if x > 0 else -2 * x)(None)
    assert with_control_flow(inner)(-2.0) == 4


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


jitted_here = with_control_flow(largest_power)


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


def test_functions_that_are_defined_in_each_step():
    def f(x, y):
        time, last = 0.0, 0.0
        while x < 30:

            def slope(z):
                return z * y + time  # noqa: B023

            class Step:
                size = 0.5

            first = slope(x)
            second = slope(x + Step.size * first)
            if second > 40:
                return last + second
            x = x + Step.size * second
            last = (lambda z: z * first)(x)
            time = time + 0.1
        return x + last

    for x, y in ((1.5, 1.0), (1.5, 3.0), (40.0, 1.0)):
        assert float(with_control_flow(f)(x, y)) == pytest.approx(f(x, y), rel=1e-14)
        found = ng.jit(ng.grad(f, argnums=(0, 1)), control_flow=True)(x, y)
        np.testing.assert_allclose(found, ng.grad(f, argnums=(0, 1))(x, y), rtol=1e-13)


@pytest.mark.parametrize("x", [[1.2, 0.7, 3.0], [0.1, 5.0, 0.3]])
def test_a_number_and_a_condition(x):
    def f(x):
        before = 0.0
        for step in range(8):
            x = x * 0.5 + 1 / (1 + x)
            now = np.sum(x**2)
            if step and abs(now - before) < 0.05 * now:
                break
            before = now
        size = x[0] and x[1] > 0.7
        return now * (step + 1) + (x[2] if size else 0.0)

    x = np.array(x)
    assert with_control_flow(f)(x) == pytest.approx(f(x), rel=1e-14)
    found = ng.jit(ng.grad(f), control_flow=True)(x)
    np.testing.assert_allclose(found, ng.grad(f)(x), rtol=1e-12)


@pytest.mark.parametrize("x", [[1.2, 0.7, 3.0], [1.2, 2.7, -3.0], [1.0, 1.0, 1.0]])
def test_what_max_and_min_choose_by_keys(x):
    def f(x):
        nearest = min(x, key=lambda v: (v - 1) ** 2)
        place = max(range(3), key=lambda k: x[k])
        pair = min([(x, x[0]), (2 * x, x[1]), (x**2, x[2])], key=lambda pair: pair[1])
        largest = max({"a": x[0], "b": x[1]}.values())
        none = max([], default=2.0) * max(map(abs, x), default=0.0)
        return nearest + x[place] * (place + 1) + pair[0].sum() + largest * none + max(x) * min(x)

    x = np.array(x)
    assert with_control_flow(f)(x) == pytest.approx(f(x), rel=1e-14)
    found = ng.jit(ng.grad(f), control_flow=True)(x)
    np.testing.assert_allclose(found, ng.grad(f)(x), rtol=1e-14)


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


@pytest.mark.parametrize("x", [[1.2, 0.7, 3.0], [-1.2, 2.7, -3.6], [2.5, 2.5, -0.5]])
def test_numbers_of_values(x):
    def f(x):
        k, total = int(abs(x[0])), float(x[1]) * 2
        for i in range(round(abs(x[2]))):
            total = total + x[k] * i
        low, *_, high = sorted(x)
        first, last = sorted([v * v for v in x], reverse=True)[::2]
        return total + low * 2 - high * 3 + first * last, bool(x[0] > 0), sorted([3, 1])

    x = np.array(x)
    assert_as_in_python(f, (x,))
    found = ng.jit(ng.grad(lambda x: f(x)[0]), control_flow=True)(x)
    shift = np.eye(3) * 1e-6
    slope = [(f(x + h)[0] - f(x - h)[0]) / 2e-6 for h in shift]
    if x[0] != x[1]:
        np.testing.assert_allclose(found, slope, rtol=1e-7)


@pytest.mark.parametrize("x", [[1.2, 0.7, 3.0], [-1.2, 2.7, -3.6], [-1.0, -2.0, -3.0]])
def test_sums_over_some_values(x):
    def f(x):
        total = sum(v**2 for v in x if v > 0) + sum([1 / v for v in x if v < 2 if v != 0.7])
        pairs = sum(v * w for v in x if v is not None for w in (1, x[0]) if w < v)
        if any(v > 2.8 for v in x if v != 2.7) and all(v > 1 for v in x if v > 0.9):
            total = total * 2
        return total + pairs, sum(v for v in [1, 2] if v > 1), sum((v for v in x if v is None), 5)

    x = np.array(x)
    assert_as_in_python(f, (x,))
    found = ng.jit(ng.grad(lambda x: f(x)[0]), control_flow=True)(x)
    np.testing.assert_allclose(found, ng.grad(lambda x: f(x)[0])(x), rtol=1e-13)


def test_functions_that_have_the_names_of_pythons_own():
    from numba_grad.numpy import all, any, round, sum

    def f(x):
        rows = [x, None, x * 2]
        total = sum([row for row in rows if row is not None])
        if any(x > 1, axis=0) and all(x < 9, axis=0):
            total = total + 1
        return round(total, decimals=1), sum(x, axis=0)

    for x in ([0.51, 2.0], [0.21, 0.3]):
        assert_as_in_python(f, (np.array(x),))


def test_numbers_with_options():
    def f(x):
        return x * int("ff", base=16), round(2.345, ndigits=2)

    assert_as_in_python(f, (0.5,))


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


def test_a_property_that_decides_on_a_value_is_named():
    def f(x):
        return Interval(x, 1.0).nearest

    assert "@ng.jit(control_flow=True, static_argnums=0) on nearest" in message(f, 0.5)
    decided = property(ng.jit(Interval.nearest.fget, control_flow=True, static_argnums=0))
    made = type("Decided", (Interval,), {"nearest": decided})
    for x in (0.5, -2.0):
        assert_as_in_python(lambda x: made(x, -1.0).nearest, (x,))


def test_whether_something_is_in_a_container():
    def f(v, k):
        chosen = 1.0 if v in (1.0, 2.0) else 0.0
        other = 1.0 if v not in [1.0, k] else 0.0
        keys = 1.0 if k in {1.0, 2.0, 3.0} or k in {9.0: "nine"} else 0.0
        return chosen, other, keys, "x" in ("x", "y"), v not in ("a", None), 0 < v in (1.0, 7.0)

    assert_as_in_python(f, (1.0, 2.0), (3.0, 3.0), (7.0, 1.0), (-1.0, 9.0))

    def of_arrays(x, known):
        return 1.0 if x[0] in known else 2.0 if 3.0 in known else 3.0

    known = np.array([1.0, 3.0]), np.array([4.0])
    assert_as_in_python(of_arrays, *((np.array([x]), y) for x in (1.0, 2.0) for y in known))
