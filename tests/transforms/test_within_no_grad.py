"""What is recorded within `no_grad` stays without gradients, whatever graphs become: as with
`detach`, which is an operation."""

from collections.abc import Callable
from typing import Any

import numpy
import pytest

import numba_grad as ng
import numba_grad.numpy as np
from tests.transforms.loop_programs import WAYS, by_backward

Cut = Callable[[Callable[[], Any]], Any]
PLACES = numpy.array([0, 2, 5])
X, Y = numpy.random.default_rng(0).normal(size=(2, 8))


def detached(f: Callable[[], Any]) -> Any:
    return f().detach()


def without_history(f: Callable[[], Any]) -> Any:
    with ng.no_grad():
        return f()


def products_of_one_factor(cut: Cut, x: Any, y: Any) -> Any:
    w = np.outer(x[:4], y[:4])

    def step(c: Any, _: Any) -> Any:
        return np.tanh(c @ w) * cut(lambda: c @ w) + cut(lambda: c.reshape(1, 4))[0] * c, None

    return np.sum(ng.scan(step, x[4:], length=3)[0] ** 2)


def parts_of_an_array(cut: Cut, x: Any, y: Any) -> Any:
    fields = np.reshape(np.concatenate([x] * 6 + [y] * 6), (2, 48))

    def step(s: Any, _: Any) -> Any:
        now, same, before = s[0], cut(lambda: s[0]), cut(lambda: s[1])
        return np.stack([np.sin(now) + before, same * 0.5 + now]), None

    return np.sum(ng.scan(step, fields, length=4)[0] ** 2)


def what_is_put_together(cut: Cut, x: Any, y: Any) -> Any:
    fields = np.reshape(np.concatenate([x] * 6 + [y] * 6), (2, 48))

    def step(s: Any, _: Any) -> Any:
        return cut(lambda: np.stack([np.sin(s[0]) + s[1], s[0]])) * s[0], None

    return np.sum(ng.scan(step, fields, length=4)[0] ** 2)


def rows_by_index(cut: Cut, x: Any, y: Any) -> Any:
    def step(k: Any, u: Any) -> Any:
        u[k + 1] = np.sin(cut(lambda: u[k])) * u[k] + cut(lambda: x[k]) * y[k]
        return u

    return np.sum(ng.fori_loop(0, 7, step, np.concatenate([x, y])) ** 2)


def another_name(cut: Cut, x: Any, y: Any) -> Any:
    return np.sum(ng.scan(lambda c, _: (np.sin(c) * cut(lambda: c.copy()), y), x, length=3)[0])


def a_loop_in_a_loop(cut: Cut, x: Any, y: Any) -> Any:
    def step(c: Any, row: Any) -> Any:
        last = cut(lambda: ng.scan(lambda s, q: (np.sin(s + q), None), c, x)[0])
        return 0.3 * c + last * row * c, None

    return ng.scan(step, x[0], y)[0]


def elements_in_branches(cut: Cut, x: Any, y: Any) -> Any:
    u = np.concatenate([x, y])
    for k in range(1, 15):

        def written(u: Any = u, k: int = k) -> Any:
            v = u.copy()
            v[k] = np.sin(cut(lambda: u[k - 1])) * u[k - 1]
            return v

        u = ng.cond(u[k - 1] > 0.1, written, lambda u=u: u * 1.0)
    return np.sum(u**2)


def known_places(cut: Cut, x: Any, y: Any) -> Any:
    u, v, w = np.sin(x), np.sin(x), np.sin(x)
    u[PLACES] = cut(lambda: y[PLACES])
    v[PLACES] = cut(lambda: np.broadcast_to(y[0], 3))
    w[PLACES] = cut(lambda: w[PLACES]) + y[:3]
    return np.sum(u**2 + v**3 + w**4)


def places_of_steps(cut: Cut, x: Any, y: Any) -> Any:
    u = np.sin(x)
    for k in range(30):
        part = cut(lambda u=u, k=k: u[k % 5 : k % 5 + 2])
        u[k % 5 : k % 5 + 2] = part + np.sin(y[:2] * k)
    return np.sum(u**2)


def rows_of_different_lengths(cut: Cut, x: Any, y: Any) -> Any:
    points, total = np.concatenate([x, y, x * y]), 0.0
    for k in range(23):
        apart = points[k + 1 :] - points[k]
        total = total + np.sum(np.sin(cut(lambda k=k: points[k + 1 :] - points[k])) * apart)
    return total


def parts_of_rows(cut: Cut, x: Any, y: Any) -> Any:
    u = np.zeros((30, 8))
    for k in range(29):
        u[k, 0] = x[k % 8]
        u[k, 1:] = np.sin(y[1:]) * x[0]
        element, row = cut(lambda k=k: u[k, 0]), cut(lambda k=k: u[k, 1:3])
        u[k + 1, 2] = element * np.sum(u[k]) * 0.1 + np.sum(row * u[k, 3])
    return np.sum(u**2)


def parts_that_are_joined(cut: Cut, x: Any, y: Any) -> Any:
    b, s = np.zeros((8, 2)), np.sin(x)[:, None]

    def written() -> Any:
        b[:, 0:1] = s
        return b

    c = cut(written)
    c[:, 1:2] = np.cos(y)[:, None]
    return np.sum(c**2) + np.sum(s)


def parts_of_what_is_joined(cut: Cut, x: Any, y: Any) -> Any:
    s, t = np.sin(x)[:, None], np.cos(y)[:, None]
    z = np.concatenate([s, t, s * t] * 12, axis=1)
    v = np.concatenate([cut(lambda: z.T), x[None]], axis=0)
    return np.sum(v[0] * y) + np.sum(v[36] ** 2) + np.sum(s * t) + np.sum(z[:, 1:2] * t)


def rows_that_steps_read(cut: Cut, x: Any, y: Any) -> Any:
    numbers, s = np.concatenate([x, y]), x[0]
    rows = np.reshape(np.concatenate([numbers, numbers * 0.5]), (16, 2))
    for k in range(16):
        s = np.sin(s * cut(lambda k=k: numbers[k])) + 0.1 * numbers[k]
        s = s * np.cos(s) + np.sum(cut(lambda k=k: rows[k]) * rows[k])
    return s**2


PROGRAMS = [
    *[products_of_one_factor, parts_of_an_array, what_is_put_together, rows_by_index],
    *[another_name, a_loop_in_a_loop, elements_in_branches, known_places, places_of_steps],
    *[rows_of_different_lengths, parts_of_rows, parts_that_are_joined, parts_of_what_is_joined],
    rows_that_steps_read,
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_no_gradient_flows_through_it(program: Callable[..., Any], short: None) -> None:
    with ng.configure(engine="reference"):  # what is checked are graphs
        expected = by_backward(lambda x, y: program(detached, x, y), X, Y)
        for name, way in WAYS.items():
            found = way(lambda x, y: program(without_history, x, y), X, Y)
            for a, b in zip(found, expected, strict=True):
                numpy.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9, err_msg=name)
