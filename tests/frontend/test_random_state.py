"""Random functions that keep a state between calls, in attributes, variables and containers, some
of which others change in between: a jitted one does what Python does."""

import random
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.errors import TracingError

pytestmark = [
    pytest.mark.usefixtures("numpy_engine"),
    pytest.mark.filterwarnings("ignore::numba_grad.errors.PerformanceWarning"),
]

STATEMENTS = [
    "s.a = s.a + 1.0",
    "s.a += x.sum()",
    "s.a = s.d['q']",
    "s.b += 1; y = y + s.b",
    "y = y * s.b",
    "s.u = s.u * 0.5 + x",
    "s.v = s.u",
    "s.u, s.v = s.v, s.u + x",
    "s.v = s.v + s.u",
    "former = s.u; s.u = s.u + 1.0; y = y + former",
    "y = y + (s.u if s.flag else s.v)",
    "y = y - 2 * s.u",
    "s.flag = not s.flag",
    "s.items[0] = s.items[1] + x",
    "s.items.append(x * s.a)",
    "s.items = s.items[1:] + [x]",
    "y = y + s.items[s.b % len(s.items)]",
    "y = y + s.items[-1]",
    "for item in s.items: y = y + item",
    "s.d['p'] = s.d['p'] + x",
    "s.d['q'] = s.d['q'] * 1.5",
    "s.d['n'] = x",
    "y = y + s.d['p'] * s.d['q']",
    "s.seen = x",
    "s.seen = s.u",
    "y = y + (0 if s.seen is None else s.seen)",
    "s.pair = (s.pair[0] + x, s.pair[1] + 1)",
    "y = y + s.pair[0] * s.pair[1]",
    "step(s, x)",
    "s.part = Part(s.part.w * 0.5 + x)",
    "s.part.w = s.part.w + x",
    "y = y + s.part.w",
    "n[0] += 1; y = y + n[0]",
    "g['k'] = g['k'] + x",
    "y = y + g['k']",
]
IN_PLACE = [
    "s.u += x",
    "s.u[1] = x[0]",
    "t = s.v; t[0] += x[1]",
    "s.d['p'] *= 0.5",
    "s.items[0] += x",
]
FROM_OUTSIDE = [
    *("pass",) * 4,
    "s.a = 5.0",
    "s.u = a(np.full(3, 4.0))",
    "s.d['q'] = 3.0",
    "s.flag = True",
    "s.items.append(a(np.ones(3)))",
    "s.seen = None",
    "n[0] = 7",
    "s.b = 3",
]
LAST = "y = y + (0 if s.seen is None else s.seen) + s.a + s.b + s.d['q'] + s.pair[1]"


class Part:
    def __init__(self, w):
        self.w = w


def step(s: Any, x: Any) -> None:
    s.v = s.v * 0.9 + s.a * x


def program(statements: list[str], a: Callable[[np.ndarray], Any]) -> tuple[Any, dict[str, Any]]:
    """A function of these statements, and what it can reach, with arrays made by `a`."""
    s = types.SimpleNamespace(a=1.0, b=1, flag=False, seen=None, u=a(np.arange(1.0, 4.0)))
    s.v, s.items = a(np.ones(3)), [a(np.ones(3)), a(np.full(3, 2.0))]
    s.d, s.pair, s.part = {"p": a(np.ones(3)), "q": 2.0}, (a(np.zeros(3)), 1.0), Part(a(np.ones(3)))
    around = {"s": s, "g": {"k": a(np.zeros(3))}, "n": [0], "step": step, "Part": Part}
    lines = ["y = x * 1.0", *statements, LAST, "return y.sum()"]
    source = [
        f"def made({', '.join(around)}):",
        " def f(x):",
        *(f"  {x}" for x in lines),
        " return f",
    ]
    names: dict[str, Any] = {}
    exec("\n".join(source), names)
    return names["made"](**around), {**around, "a": a, "np": np}


def leaves(held: Any) -> list[np.ndarray | None]:
    """All arrays and numbers; None for a tensor that only the trace had a use for."""
    if isinstance(held, dict):
        return [y for x in held.values() for y in leaves(x)]
    if isinstance(held, list | tuple):
        return [y for x in held for y in leaves(x)]
    if isinstance(held, types.SimpleNamespace | Part):
        return leaves(vars(held))
    try:
        return [np.array(0.0 if held is None else held, dtype=float)]
    except TracingError as error:
        assert "used outside" in str(error)
        return [None]


@pytest.mark.parametrize(
    "seed", [*range(4), *(pytest.param(k, marks=pytest.mark.thorough) for k in range(4, 120))]
)
def test_functions_with_state_do_what_python_does(seed: int) -> None:
    choice = random.Random(seed)
    for _ in range(5):
        made_of = choice.choice([np.array, ng.tensor])
        usable = STATEMENTS + (IN_PLACE if made_of is ng.tensor else [])
        statements = choice.choices(usable, k=choice.randint(1, 6))
        changes = choice.choices(FROM_OUTSIDE, k=5)
        given = choice.choice([np.array, ng.tensor])
        by_python, expected = program(statements, np.array)
        f, around = program(statements, made_of)
        jitted = ng.jit(f)
        inputs = np.random.default_rng(seed)
        for change in changes:
            x = inputs.normal(size=3)
            wanted, got = by_python(x.copy()), jitted(given(x))
            message = f"{statements}, {changes}"
            np.testing.assert_allclose(got, wanted, rtol=1e-12, err_msg=message)
            for name in ("s", "g", "n"):
                pairs = zip(leaves(around[name]), leaves(expected[name]), strict=True)
                for left, right in pairs:
                    if left is not None:
                        np.testing.assert_allclose(left, right, rtol=1e-12, err_msg=message)
            exec(change, expected)
            exec(change, around)
