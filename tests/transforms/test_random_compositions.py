"""Random programs of loops and branches as operations, nested in each other, with rows written by
index, own rules and transformations in their steps: as in Python's control flow."""

import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import numba_grad as ng

POINT = np.array([0.4, -0.7, 0.9])
NUMBERS = [
    *["x", "e", "np.sum({v})", "np.sin({s})", "({s} * {s})", "({s} - {s})", "{v}[{i} % 3]"],
    *["np.max({v})", "L.cond({s} > {s}, lambda t: np.sin(t), lambda t: {s} * t, {s})"],
    *["L.grad(lambda t: np.sin(t) * np.sum({v} * t))({s})", "own({s}, {v}[{i} % 3], k)"],
    *["L.vmap(lambda t: t * {s})({v})[0]", "L.checkpoint(lambda t: np.exp(-t * t))({s})"],
    *["L.switch({i}, [np.sin, lambda t: t * {s}], {s})", "own({s}, 0.3, k)"],
    *["L.jvp(lambda t: np.cos(t) * {s}, ({s},), ({s},))[1]"],
    *["L.fori_loop(0, {i} % 4, lambda k, c: 0.5 * np.sin(c) * {s}, {s})"],
    *["L.scan(lambda c, w: (np.sin(c * {s} + np.sum(w)), None), {s}, rows)[0]"],
    *["L.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * {s}), (0, {s}))[1]"],
]
VECTORS = ["v", "w", "np.cos({v})", "({v} * {s})", "({v} + {v})[::-1]", "np.sort({v})"]
INTEGERS = ["k", "k", "(k + 1)", "2 * k", "np.argmax({v})"]
ROWS = ["1.0 * u[k]", "1.0 * u[k - 1]", "u[k][::-1] * 1.0", "1.0 * u[0]", "np.sum(u, axis=0)"]
ROWS += ["1.0 * rows[k]"]
WRITES = [
    *["u[k + 1] = np.tanh({v})", "u[k + 1] = np.tanh({v})", "u[k] = np.tanh({v})"],
    *["u[k + 1, 0] = np.tanh({s}); u[k + 1, 1:] = np.tanh({v})[1:]", "u[k + 1] += np.tanh({v})"],
    *["u[{i} % 5] = np.tanh({v})", "u[k + 1] *= 0.5"],
]
LOOPS = [
    "u, e = L.fori_loop(1, 4, lambda k, c: f(k, *c), (rows * {s}, {s}))",
    "(u, e), _ = L.scan(lambda c, k: (f(k, *c), None), (rows * {s}, {s}), np.arange(1, 4))",
    "(u, e), y = L.scan(lambda c, k: (f(k, *c), c[0][k]), (rows * {s}, {s}), np.arange(1, 4))",
    "_, u, e = L.while_loop(lambda c: c[0] < 4, lambda c: (c[0] + 1, *f(*c)), (1, +rows, {s}))",
]
DERIVATIVES: list[Callable[[Any], Any]] = [
    lambda f: ng.grad(f, argnums=(0, 1))(0.6, POINT),
    lambda f: (ng.jvp(ng.grad(f), (0.6, POINT), (0.7, POINT))[1],),
    lambda f: (ng.hessian(f, 1)(0.6, POINT),),
    lambda f: (ng.linearize(f, 0.6, POINT)[1](0.5, POINT), f(0.6, POINT)),
]


def program(seed: int) -> str:
    """The text of a function of `x` and `v`, in the control flow of a library `L`."""
    choice = random.Random(seed).choice

    def filled(text: str, depth: int = 2) -> str:
        for hole, patterns, leaves in (("s", NUMBERS, 2), ("v", VECTORS, 2), ("i", INTEGERS, 4)):
            while "{" + hole + "}" in text:
                inner = filled(choice(patterns if depth else patterns[:leaves]), max(depth - 1, 0))
                text = text.replace("{" + hole + "}", inner, 1)
        return text

    lines = ["def p(x, v, L, own):", "    v, k = ng.asarray(v), 1", "    e, w = np.sin(x), v * x"]
    lines += ["    rows = ng.tensor(np.cos(np.arange(15.0)).reshape(5, 3)) + np.sum(v)"]
    for _ in range(choice([1, 2])):
        lines += ["    def f(k, u, e):", f"        w = {choice(ROWS)}"]
        lines += [f"        {filled(choice(WRITES))}" for _ in range(choice([1, 1, 2]))]
        lines += [f"        return u, np.tanh({filled('{s}')})", f"    {filled(choice(LOOPS), 1)}"]
        lines += ["    w, e = np.tanh(u[-1] + np.sum(u, axis=0)), np.tanh(e)"]
    return "\n".join([*lines, "    return e + np.sum(w * v)"])


def _own(x: Any, y: Any, k: Any) -> Any:
    """x * sin(y), by a rule that keeps what depends on the step."""
    f = ng.custom_vjp(lambda x, y: x * np.sin(y))
    factor = ng.tensor(POINT)[k % 3]
    f.defvjp(
        lambda x, y: (f(x, y), (x * factor, y)),
        lambda r, g: (g * np.sin(r[1]), g * r[0] / factor * np.cos(r[1])),
    )
    return f(x, y)


def _value(x: Any) -> Any:
    return x.detach().numpy() if isinstance(x, ng.Tensor) else x


def _scan(f: Any, carry: Any, rows: Any) -> Any:
    results = []
    for row in rows:
        carry, y = f(carry, row)
        results.append(y)
    return carry, None if results[0] is None else np.stack(results)


def _fori_loop(lower: int, upper: Any, f: Any, carry: Any) -> Any:
    for k in range(lower, int(_value(upper))):
        carry = f(k, carry)
    return carry


def _while_loop(test: Any, f: Any, carry: Any) -> Any:
    while _value(test(carry)):
        carry = f(carry)
    return carry


IN_PYTHON = SimpleNamespace(
    scan=_scan,
    fori_loop=_fori_loop,
    while_loop=_while_loop,
    cond=lambda test, f, g, x: f(x) if _value(test) else g(x),
    switch=lambda k, functions, x: functions[min(max(int(_value(k)), 0), 1)](x),
    vmap=lambda f: lambda xs: np.stack([f(x) for x in xs]),
    checkpoint=lambda f: f,
    grad=ng.grad,
    jvp=ng.jvp,
)


def check(seed: int) -> None:
    names: dict[str, Any] = {"np": np, "ng": ng}
    text = program(seed)
    exec(text, names)
    p, derivative = names["p"], DERIVATIVES[seed % len(DERIVATIVES)]
    with ng.configure(engine="reference"):
        expected = derivative(lambda x, v: p(x, v, IN_PYTHON, lambda x, y, k: x * np.sin(y)))
        found = derivative(lambda x, v: p(x, v, ng, _own))
        for x, y in zip(found, expected, strict=True):
            scale = max(1.0, float(np.max(np.abs(y))))
            np.testing.assert_allclose(x, y, rtol=1e-8, atol=1e-8 * scale, err_msg=text)


@pytest.mark.thorough(but="^0$")
@pytest.mark.parametrize("first", range(0, 300, 10))
def test_as_in_pythons_control_flow(first):
    for seed in range(first, first + 10):
        check(seed)
