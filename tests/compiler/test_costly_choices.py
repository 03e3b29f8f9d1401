import math
import random

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.compiler.building import build
from numba_grad.compiler.control_flow.costly_choices import Branch, with_branches
from numba_grad.compiler.loop_nests.kernel_ir import Apply, Let
from numba_grad.compiler.scalar_expressions import parsed
from numba_grad.config import configure

FLOAT64 = np.dtype(np.float64)
SELECT, ADD, SIN, LESS = map(
    parsed, ("select({condition}, {x}, {y})", "{x} + {y}", "sin({x})", "{x} < {y}")
)


def apply(term, **operands):
    return Apply(term, tuple(operands.items()), FLOAT64, False)


def random_code(seed):
    """Numbers, sines, sums and choices of what is there; some of it nobody reads."""
    rng = random.Random(seed)
    numbers, conditions, lets = ["a", "b", "c"], [], []
    for k in range(rng.randrange(5, 60)):
        kind = rng.choice([SIN, SIN, ADD, ADD, LESS, SELECT, SELECT, SELECT])
        if kind is SELECT and not conditions:
            kind = LESS
        x, y = rng.choices(numbers[-6:], k=2)
        name = f"v{k}"
        match kind:
            case _ if kind is SIN:
                lets.append(Let(name, apply(SIN, x=x)))
            case _ if kind is SELECT:
                condition = rng.choice(conditions[-2:])
                lets.append(Let(name, apply(SELECT, condition=condition, x=x, y=y)))
            case _:
                lets.append(Let(name, apply(kind, x=x, y=y)))
        (conditions if kind is LESS else numbers).append(name)
    return lets, set(rng.sample(numbers, 2))


def run(code, values):
    """How many sines it takes."""
    sines = 0
    for item in code:
        if isinstance(item, Branch):
            side = 0 if values[item.condition] else 1
            sines += run(item.sides[side], values)
            for choice in item.choices:
                assert choice.name not in values
                values[choice.name] = values[choice.values[side]]
            continue
        own = {name: values[operand] for name, operand in item.expression.operands}
        assert item.name not in values
        match item.expression.term:
            case _ if item.expression.term is SELECT:
                values[item.name] = own["x"] if own["condition"] else own["y"]
            case _ if item.expression.term is SIN:
                values[item.name] = math.sin(own["x"])
                sines += 1
            case _ if item.expression.term is ADD:
                values[item.name] = own["x"] + own["y"]
            case _:
                values[item.name] = own["x"] < own["y"]
    return sines


def test_code_with_branches_computes_the_same():
    spared = branches = 0
    for seed in range(300):
        lets, results = random_code(seed)
        code = with_branches(lets, results)
        assert len(code) <= len(lets)
        branches += sum(isinstance(item, Branch) for item in code)
        for a in (-1.0, 0.3, 2.0):
            wanted, found = {"a": a, "b": 0.5, "c": -0.2}, {"a": a, "b": 0.5, "c": -0.2}
            spared += run(lets, wanted) - run(code, found)
            assert {name: found[name] for name in results} == {
                name: wanted[name] for name in results
            }
    assert branches > 100
    assert spared > 100


def test_what_another_choice_of_the_same_condition_needs_comes_before():
    lets = [
        Let("test", apply(LESS, x="a", y="b")),
        Let("s", apply(SIN, x="a")),
        Let("first", apply(SELECT, condition="test", x="s", y="b")),
        Let("t", apply(SIN, x="first")),
        Let("second", apply(SELECT, condition="test", x="t", y="a")),
    ]
    values = {"a": 0.1, "b": 0.5}
    assert run(with_branches(lets, {"first", "second"}), values) == 2
    assert values["second"] == math.sin(math.sin(0.1))


def loop_of(choose):
    def loop(x):
        return ng.scan(lambda c, _: (0.9 * choose(c) + 0.05, c), x, length=40)

    return lambda x: sum(ng.sum(y) for y in loop(x))


CHOICES = {
    "one": lambda x: ng.cond(x > 0.5, np.sin, lambda x: 2.0 * x, x),
    "both": lambda x: ng.cond(x > 0.5, lambda x: np.sin(x) * 2, lambda x: np.log(x + 3.0), x),
    "not a number": lambda x: ng.cond(x < 0.5, lambda x: 3 * x, lambda x: np.log(x - 0.5), x),
    "nested": lambda x: ng.cond(
        x > 0.5,
        lambda x: ng.cond(x > 0.8, lambda x: np.exp(-x), np.cos, x),
        lambda x: np.tanh(x) + 0.5,
        x,
    ),
    "two results": lambda x: sum(
        ng.cond(x > 0.5, lambda x: (np.sin(x), np.cos(x)), lambda x: (x, 1 - x), x)
    ),
    "three ways": lambda x: ng.switch(
        (3 * x).astype(int), [lambda x: x + 0.4, np.sin, lambda x: np.exp(-x)], x
    ),
}


@pytest.mark.thorough(every=4)
@pytest.mark.parametrize("name", CHOICES)
def test_loops_choose_as_they_do_step_by_step(name):
    """And so do their derivatives: loops of numbers, of which a step is one kernel."""
    choose = CHOICES[name]

    def by_steps(x):
        states, c = [], x
        for _ in range(40):
            states.append(c)
            c = 0.9 * choose(c) + 0.05
        return sum(ng.sum(y) for y in (c, np.stack(states)))

    for x in (0.2, 0.7, 3.0):
        wanted, found = (ng.value_and_grad(f)(x) for f in (by_steps, loop_of(choose)))
        np.testing.assert_allclose(found, wanted, rtol=1e-12)
        assert np.isfinite(found).all()


def test_a_dear_choice_is_a_branch_and_a_cheap_one_is_not(tmp_path):
    def source_of(choose):
        known = set(build._kernels)
        ng.jit(loop_of(choose))(0.3)
        [source] = [r.source for r in set(build._kernels) - known if "# loop\n" in r.source]
        return source

    with configure(cache_directory=tmp_path):  # of which no plan is known
        dear = source_of(lambda x: ng.cond(x > 0.61, np.arctan, lambda x: 2.0 * x, x))
        cheap = source_of(lambda x: ng.cond(x > 0.61, lambda x: x * x * x, lambda x: 2.0 * x, x))
    assert "if p0_" in dear
    assert "select(" not in dear
    assert "if p0_" not in cheap
    assert "select(" in cheap
