"""Kernels of recurrent networks, filters, bodies, grids and polynomials of small size, as several
people write them, with all gradients and second derivatives: none has more lines than there may be.

Nothing is compiled here: sources are counted.
"""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.compiler.segment_program import LINES_OF_KERNEL

pytestmark = pytest.mark.usefixtures("not_compiled")

ARGUMENT = re.compile(r"= (buffer|integer)\(args")  # a line for each value from outside
Program = tuple[Callable[..., Any], tuple[Any, ...]]


def array(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape) / 3


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


def stacked_gates(size: int) -> Program:
    """Long short-term memory whose gates are slices of one array."""

    def f(w, v, b, x):
        h, c = np.zeros(size), np.zeros(size)
        for row in x:
            z = w @ row + v @ h + b
            c = sigmoid(z[:size]) * c + sigmoid(z[size : 2 * size]) * np.tanh(z[2 * size : -size])
            h = sigmoid(z[-size:]) * np.tanh(c)
        return np.sum(h * h)

    return f, (array(4 * size, 3), array(4 * size, size), array(4 * size), array(10, 3))


def joined_gates(size: int) -> Program:
    """Input and state in one array, gates by `split`."""

    def f(w, b, x):
        h, c = np.zeros(size), np.zeros(size)
        for k in range(len(x)):
            i, f, g, o = np.split(np.concatenate([x[k], h]) @ w + b, 4)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
        return np.sum(h**2)

    return f, (array(3 + size, 4 * size), array(4 * size), array(10, 3))


def separate_gates(size: int) -> Program:
    """With arrays of its own for each gate, and all outputs stacked."""

    def f(w, v, b, x):
        h, c, outputs = np.zeros(size), np.zeros(size), []
        for row in x:
            i, f, o = (sigmoid(w[k] @ row + v[k] @ h + b[k]) for k in range(3))
            c = f * c + i * np.tanh(w[3] @ row + v[3] @ h + b[3])
            h = o * np.tanh(c)
            outputs.append(h)
        return np.sum(np.stack(outputs) ** 2)

    weights = [[array(size, n) for _ in range(4)] for n in (3, size)]
    return f, (*weights, [array(size) for _ in range(4)], array(10, 3))


def gated_unit(size: int) -> Program:
    def f(w, v, b, x):
        h, total = np.zeros(size), 0.0
        for row in x:
            z, r = (sigmoid(w[k] @ row + v[k] @ h + b[k]) for k in range(2))
            h = (1 - z) * h + z * np.tanh(w[2] @ row + v[2] @ (r * h) + b[2])
            total = total + np.sum((h - 0.5) ** 2)
        return total

    weights = [[array(size, n) for _ in range(3)] for n in (2, size)]
    return f, (*weights, [array(size) for _ in range(3)], array(10, 2))


def recurrent(size: int) -> Program:
    def f(w, v, b, x):
        h, total = np.zeros(size), 0.0
        for k in range(len(x)):
            h = np.tanh(w @ x[k] + v @ h + b)
            total += np.sum(h)
        return total

    return f, (array(size, 3), array(size, size), array(size), array(10, 3))


def kalman_filter(size: int) -> Program:
    def f(a, h, q, r, seen):
        x, p, total = np.zeros(size), np.eye(size), 0.0
        for z in seen:
            x, p = a @ x, a @ p @ a.T + q
            s, e = h @ p @ h.T + r, z - h @ x
            gain = np.linalg.solve(s, h @ p).T
            x, p = x + gain @ e, p - gain @ h @ p
            total = total + e @ np.linalg.solve(s, e) + np.linalg.slogdet(s)[1]
        return total

    n = max(1, size // 2)
    return f, (
        np.eye(size) + array(size, size),
        array(n, size),
        np.eye(size),
        np.eye(n),
        array(9, n),
    )


def bodies(count: int) -> Program:
    """By Runge and Kutta's rule, all pairs at once."""

    def pull(x, m):
        d = x[:, None] - x
        return -np.sum(m[:, None] * d / (np.sum(d * d, -1) + 0.01)[..., None] ** 1.5, axis=1)

    def f(x, v, m, h=0.01):
        for _ in range(8):
            a = v, pull(x, m)
            b = v + h / 2 * a[1], pull(x + h / 2 * a[0], m)
            c = v + h / 2 * b[1], pull(x + h / 2 * b[0], m)
            d = v + h * c[1], pull(x + h * c[0], m)
            x = x + h / 6 * (a[0] + 2 * b[0] + 2 * c[0] + d[0])
            v = v + h / 6 * (a[1] + 2 * b[1] + 2 * c[1] + d[1])
        return np.sum(x * x)

    return f, (3 * array(count, 3), array(count, 3), np.arange(1.0, count + 1))


def v_cycle(size: int) -> Program:
    """Of multigrid, on a line."""

    def cycle(u, f, h):
        def smooth(u):
            inner = (u[:-2] + u[2:] + h * h * f[1:-1]) / 2
            return np.concatenate([u[:1], u[1:-1] / 3 + inner * 2 / 3, u[-1:]])

        u = smooth(smooth(u))
        if len(u) > 5:
            r = f[1:-1] + (u[:-2] - 2 * u[1:-1] + u[2:]) / (h * h)
            coarse = np.pad((r[:-2:2] + 2 * r[1:-1:2] + r[2::2]) / 4, 1)
            e = cycle(0 * coarse, coarse, 2 * h)
            between = np.stack([e[:-1], (e[:-1] + e[1:]) / 2], axis=1).reshape(-1)
            u = u + np.concatenate([between, e[-1:]])
        return smooth(smooth(u))

    return (lambda u, f: np.sum(cycle(u, f, 1 / size) ** 2)), (array(size + 1), array(size + 1))


def attention(size: int) -> Program:
    def f(q, k, v, w):
        s = np.exp(q @ k.T - np.max(q @ k.T, -1, keepdims=True))
        return np.sum(np.tanh((s / np.sum(s, -1, keepdims=True)) @ v @ w) ** 2)

    return f, (array(4, size), array(4, size), array(4, size), array(size, size))


def products(size: int) -> Program:
    def f(a, b, c):
        for _ in range(4):
            a = np.einsum("ij,jk->ik", a, b) / 2 + a
        return np.einsum("ij,ij->", a, c) ** 2

    return f, (array(size, size), array(size, size), array(size, size))


def polynomial(size: int) -> Program:
    """200 terms by Horner's rule."""

    def f(c, x):
        y = 0 * x
        for k in range(200):
            y = y * x + c[k]
        return np.sum(y**2)

    return f, (array(200), array(size))


def all_gradients(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *x: ng.value_and_grad(f, argnums=tuple(range(len(x))))(*x)


def second_derivatives(f: Callable[..., Any]) -> Callable[..., Any]:
    """Of the square of the gradient in the first argument."""

    def length(*x):
        g = ng.grad(f)(*x)
        return sum(np.sum(part * part) for part in (g if isinstance(g, list) else [g]))

    return ng.grad(length)


# Products of a 2 x 2 matrix and a vector are sums in the loops around them: of so few steps there
# is one kernel then, which takes 0.65 of the time, and no longer to be compiled.
LONGER = {
    "gated_unit-2-gradients": 1600,
    "gated_unit-2-second": 500,
    "separate_gates-2-gradients": 1600,
    "separate_gates-2-second": 500,
    "separate_gates-3-gradients": 400,  # calls together: 0.8 cold, 0.87 warm, of 259 lines before
}
TRANSFORMS = {"value": lambda f: f, "gradients": all_gradients, "second": second_derivatives}
NETWORKS = (stacked_gates, joined_gates, separate_gates, gated_unit, recurrent)
SIZES: dict[Callable[[int], Program], tuple[int, ...]] = {
    **dict.fromkeys(NETWORKS, (2, 3, 4, 5, 8)),
    kalman_filter: (2, 3, 4, 5, 6),
    bodies: (3,),
    v_cycle: (16, 64),
    attention: (2, 4, 8),
    products: (2, 3, 4, 6),
    polynomial: (1, 4, 50),
}


def lengths_of(program: Program, transform: str) -> list[int]:
    f, arguments = program
    kernels = ng.jit(TRANSFORMS[transform](f)).lower(*arguments).kernels
    lines = [source.splitlines() for source in {kernel.source for kernel in kernels}]
    return [sum(ARGUMENT.search(line) is None for line in of_kernel) for of_kernel in lines]


@pytest.mark.thorough(but="(recurrent-3|gated_unit-2|attention-4|products-3)-gradients")
@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize(
    ("family", "size"),
    [
        pytest.param(family, n, id=f"{family.__name__}-{n}")
        for family, sizes in SIZES.items()
        for n in sizes
    ],
)
def test_no_kernel_is_long(family: Callable[[int], Program], size: int, transform: str) -> None:
    most = LONGER.get(f"{family.__name__}-{size}-{transform}", LINES_OF_KERNEL)
    assert max(lengths_of(family(size), transform)) <= most


def test_small_arrays_become_loops_where_they_are_many() -> None:
    """The gradients of a network of four cells had 5,766 lines, 488 of them in one kernel."""
    lengths = lengths_of(stacked_gates(4), "gradients")
    assert max(lengths) <= 250
    assert sum(lengths) <= 1_700
