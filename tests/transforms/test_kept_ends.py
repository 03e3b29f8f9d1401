"""Arrays that are put together of a new part and the rest of an old one are assignments to that,
where derivatives are taken; nobody can tell but by the time it takes."""

import numpy as np
import pytest

import numba_grad as ng

RNG = np.random.default_rng(7)
LINE = RNG.random(300)
SQUARE = RNG.random((20, 21))


def step(u):
    return u[1:-1] + 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2])


def inner_step(u):
    inside = u[1:-1, 1:-1]
    around = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2]
    return inside + 0.1 * (around - 4 * inside)


def by_block(u):
    top, bottom = [u[:1, :1], u[:1, 1:-1], u[:1, -1:]], [u[-1:, :1], u[-1:, 1:-1], u[-1:, -1:]]
    return np.block([top, [u[1:-1, :1], inner_step(u), u[1:-1, -1:]], bottom])


def by_rows_and_columns(u):
    middle = np.concatenate([u[1:-1, :1], inner_step(u), u[1:-1, -1:]], axis=1)
    return np.vstack([u[0], middle, u[-1]])


# With the number of concatenations that are left.
WAYS = {
    "concatenate": (lambda u: np.concatenate([u[:1], step(u), u[-1:]]), LINE, 0),
    "hstack of numbers": (lambda u: np.hstack([u[0], step(u), u[-1]]), LINE, 0),
    "in three parts": (lambda u: np.concatenate([u[:1], u[1:3], np.sin(u[3:])]), LINE, 0),
    "the first": (lambda u: np.concatenate([np.sin(u[:9]), u[9:]]), LINE, 0),
    "columns": (lambda u: np.concatenate([u[:, :1], 2 * u[:, 1:]], axis=1), SQUARE, 0),
    "vstack": (lambda u: np.vstack([u[0], np.sin(u[1:-1]), u[-1]]), SQUARE, 0),
    "rows and columns": (by_rows_and_columns, SQUARE, 0),
    "block": (by_block, SQUARE, 0),
    # Parts that are elsewhere in the result, or of another array, or more than one that is new.
    "shifted": (lambda u: np.concatenate([u[1:], np.sin(u[:1])]), LINE, 1),
    "turned round": (lambda u: np.concatenate([u[-1:], step(u), u[:1]]), LINE, 1),
    "others": (lambda u: np.concatenate([u[:1], step(u), (2 * u)[-1:]]), LINE, 1),
    "two new": (lambda u: np.concatenate([u[:1], step(u), np.sin(u[-1:])]), LINE, 1),
    "longer": (lambda u: np.concatenate([u[:2], step(u), u[-1:]]), LINE, 1),
    "every second": (lambda u: np.concatenate([u[::2], np.sin(u[150:])]), LINE, 1),
}


@pytest.mark.thorough(every=7)
@pytest.mark.parametrize("way", WAYS)
def test_ends_that_are_kept_are_assigned_around(way):
    f, x, left = WAYS[way]

    def loss(u):
        return np.sum(np.sin(f(f(u)) if f(u).shape == u.shape else f(u)))

    gradient = ng.jit(ng.grad(loss))
    graph = str(gradient.lower(x).graph)
    assert graph.count("= concatenate(") >= left
    assert (graph.count("= concatenate(") == 0) == (left == 0)
    found = np.asarray(gradient(x))
    direction = RNG.standard_normal(x.shape)
    ends = [float(loss(x + move * direction)) for move in (1e-5, -1e-5)]
    np.testing.assert_allclose(np.sum(found * direction), (ends[0] - ends[1]) / 2e-5, rtol=1e-7)
    with ng.configure(engine="reference"):
        np.testing.assert_allclose(found, np.asarray(ng.grad(loss)(x)), rtol=1e-13)
    np.testing.assert_allclose(found, np.asarray(ng.grad(loss)(x)), rtol=1e-13)


def test_an_end_that_has_a_hook_stays_a_part():
    seen = []

    def loss(u):
        end = u[:1]
        if isinstance(end, ng.Tensor):
            end.register_hook(lambda g: seen.append(g))
        return np.sum(np.concatenate([end, step(u), u[-1:]]) ** 2)

    found = np.asarray(ng.grad(loss)(LINE))
    assert [float(g[0]) for g in seen] == [2 * LINE[0]]
    plain = ng.grad(lambda u: np.sum(np.concatenate([u[:1], step(u), u[-1:]]) ** 2))
    np.testing.assert_allclose(found, np.asarray(plain(LINE)), rtol=1e-14)


@pytest.mark.thorough
def test_second_derivatives_and_those_by_torch_s_interface_are_the_same():
    def loss(u):
        for _ in range(3):
            u = np.concatenate([u[:1], np.sin(step(u)), u[-1:]])
        return np.sum(u**2)

    def assigned(u):
        for _ in range(3):
            new = u.copy()
            new[1:-1] = np.sin(step(u))
            u = new
        return np.sum(u**2)

    direction = RNG.standard_normal(LINE.shape)
    by_parts, by_assignment = (
        np.asarray(ng.hvp(f, (LINE,), (direction,))[0]) for f in (loss, assigned)
    )
    np.testing.assert_allclose(by_parts, by_assignment, rtol=1e-12, atol=1e-14)
    u = ng.tensor(LINE, requires_grad=True)
    loss(u).backward()
    np.testing.assert_allclose(u.grad, np.asarray(ng.jit(ng.grad(assigned))(LINE)), rtol=1e-12)
