"""Random programs of loops and branches in each other: values and derivatives on a GPU are the
CPU's, wherever the device stops on its way."""

import random
from collections.abc import Callable

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.runtime.cuda import device_loops, engine
from tests.cuda.test_loops_on_gpu import assert_same

# Values of variables by name; numbers of steps are among them.
Values = dict
Statement = Callable[[Values], Values]
CHANGED = ("x", "y")
FORMULAS = [
    lambda x, y: 0.7 * np.sin(x) + 0.1 * y,
    lambda x, y: y,
    lambda x, y: x - 0.05 * (y * y).sum() * np.tanh(x),
    lambda x, y: 0.5 * np.tanh(x + np.roll(y, 1)),
    lambda x, y: np.where(x > 0.3, 0.8 * x, np.cos(y)),
    lambda x, y: 0.1 * np.cumsum(x) + 0.6 * y[::-1],
]


class Program:
    """A `while` of `n` trips with random statements in it."""

    def __init__(self, seed: int, depth: int) -> None:
        self.random = random.Random(seed)
        self.counters = 0
        self.trip = self.block(["k", "n"], depth)

    def __call__(self, x, y, n):
        def body(carried):
            k, x, y = carried
            found = self.trip({"k": k, "n": n, "x": x, "y": y})
            return k + 1, found["x"] * 1.0, found["y"] * 1.0

        return ng.while_loop(lambda carried: carried[0] < n, body, (0, x, y))[1:]

    def block(self, numbers: list[str], depth: int) -> Statement:
        kinds = [self.formula, self.counted, self.until, self.steps, self.choice]
        made = [
            self.random.choice(kinds[: None if depth else 1])(numbers, depth - 1)
            for _ in range(self.random.randint(1, 2))
        ]

        def run(values: Values) -> Values:
            for statement in made:
                values = statement(values)
            return values

        return run

    def formula(self, numbers: list[str], depth: int) -> Statement:
        f, changed = self.random.choice(FORMULAS), self.random.choice(CHANGED)
        names = self.random.choices(CHANGED, k=2)
        return lambda values: {**values, changed: f(*[values[name] for name in names])}

    def number(self, numbers: list[str]) -> Callable[[Values], object]:
        name = self.random.choice(numbers)
        most, more = self.random.randint(2, 5), self.random.randint(0, 2)
        return lambda values: (values[name] * values[name] + more) % most

    def counted(self, numbers: list[str], depth: int, *, by_values: bool = False) -> Statement:
        self.counters += 1
        counter, count = f"j{self.counters}", self.number(numbers)
        body = self.block([*numbers, counter], depth)

        def run(values: Values) -> Values:
            def step(carried):
                j, x, y = carried
                found = body({**values, counter: j, "x": x, "y": y})
                return j + 1, found["x"] * 1.0, found["y"]

            def test(carried):
                goes_on = carried[0] < most
                return goes_on & (np.abs(carried[1]).sum() < 3.0) if by_values else goes_on

            most = count(values)
            _, x, y = ng.while_loop(test, step, (0, values["x"], values["y"]))
            return {**values, "x": x, "y": y}

        return run

    def until(self, numbers: list[str], depth: int) -> Statement:
        return self.counted(numbers, depth, by_values=True)

    def steps(self, numbers: list[str], depth: int) -> Statement:
        body, count = self.block(numbers, depth), self.random.choice([1, 2, 4])

        def run(values: Values) -> Values:
            def step(_, carried):
                found = body({**values, "x": carried[0], "y": carried[1]})
                return found["x"] * 1.0, found["y"] * 1.0

            x, y = ng.fori_loop(0, count, step, (values["x"], values["y"]))
            return {**values, "x": x, "y": y}

        return run

    def choice(self, numbers: list[str], depth: int) -> Statement:
        count = self.number(numbers)
        blocks = [self.block(numbers, depth) for _ in range(self.random.randint(2, 3))]

        def run(values: Values) -> Values:
            def branch(block):
                found = block(values)
                return found["x"] * 1.0, found["y"] * 1.0

            branches = [lambda block=block: branch(block) for block in blocks]
            x, y = ng.switch(count(values), branches)
            return {**values, "x": x, "y": y}

        return run


@pytest.mark.thorough(but=r"once-2\b|late-4\b")
@pytest.mark.parametrize("seed", range(24))
def test_random_loops(emulated, monkeypatch, seed):
    chosen = random.Random(seed)
    monkeypatch.setattr(device_loops, "_FEWEST_SEEN", chosen.choice([1, 2, 3]))
    monkeypatch.setattr(device_loops, "_FIRST_TRIPS", chosen.choice([1, 2, 3, 5, 8, 64]))
    monkeypatch.setattr(device_loops, "_MOST_TRIPS", chosen.choice([2, 3, 7, 1 << 20]))
    monkeypatch.setattr(device_loops, "_SECONDS", chosen.choice([0.0, 1e9]))
    monkeypatch.setattr(engine, "_KEPT_ARENA_BYTES", chosen.choice([0, 1 << 20]))
    program = Program(seed, chosen.choice([1, 2]))
    x, y = np.random.default_rng(seed).uniform(0.1, 1.0, (2, chosen.choice([3, 5])))

    def loss(x, y, n):
        x, y = program(x, y, n)
        return np.sin(x).sum() + (x * y).sum()

    on_gpu = [ng.tensor(value, device="cuda:0") for value in (x, y)]
    for f, counts in ((program, (19, 1, 14, 19)), (ng.value_and_grad(loss, (0, 1)), (9, 2))):
        jitted = ng.jit(lambda x, y, n, f=f: f(x, y, n))
        for n in counts:
            assert_same(jitted(*on_gpu, n), jitted(x, y, n), rtol=1e-8)
