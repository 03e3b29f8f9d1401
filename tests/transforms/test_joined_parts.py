"""Parts that are assigned one after the other are joined, and parts of what is joined are read
where they are; nobody can tell but by the time it takes."""

import numpy as np
import pytest

import numba_grad as ng

RNG = np.random.default_rng(11)
X = RNG.random((40, 9))
windows = np.lib.stride_tricks.sliding_window_view


def assigned(x, columns):
    b = np.zeros((len(x), 9), like=x)
    for k in columns:
        b[:, k] = np.sin((1 + (k if isinstance(k, int) else k.start)) * x[:, k])
    return b


def over_a_copy(x):
    b = x.copy()
    for k in range(9):
        b[:, k] = np.sin(x[:, k])
    return b


def of_rows(x):
    b = np.zeros(x.T.shape, like=x)
    b[0:3] = np.sin(x.T[:3])
    b[3:6] = x.T[3:6] ** 2
    b[6:9] = x.T[6:]
    return b


def partly_over_another(x):
    b = np.zeros(x.shape, like=x)
    b[:, 0:5] = np.sin(x[:, 0:5])
    b[:, 3:9] = np.cos(x[:, 3:9])
    return b


def over_rows(x):
    b = np.zeros(x.shape, like=x)
    b[:20] = np.sin(x[:20])
    for k in (0, 3, 6):
        b[:, k : k + 3] = np.cos(x[:, k : k + 3])
    return b


def states(x):
    b = np.zeros(x.shape, like=x)
    b[0] = x[0]
    b[1:] = np.sin(x[1:])
    return b


# And whether no assignment is left.
ASSIGNED = {
    "columns": (lambda x: assigned(x, range(9)), True),
    "in another order": (lambda x: assigned(x, [3, 8, 0, 1, 7, 2, 6, 5, 4]), True),
    "twice": (lambda x: assigned(x, [3, *range(9)]), True),
    "of a copy": (over_a_copy, True),
    "several at once": (lambda x: assigned(x, [slice(0, 3), slice(3, 6), slice(6, 9)]), True),
    "rows": (of_rows, True),
    "not the last": (lambda x: assigned(x, range(8)), False),
    "the first, and all others": (states, False),
    "every second": (lambda x: assigned(x, [slice(0, 9, 2), slice(1, 9, 2)]), False),
    "partly over another": (partly_over_another, False),
    "all of it, over others": (over_rows, True),
}


def check(f, *args):
    loss = lambda *x: np.sum(np.cos(f(*x)))  # noqa: E731
    every = ng.value_and_grad(loss, tuple(range(len(args))))
    value, gradients = ng.jit(every)(*args)
    np.testing.assert_allclose(value, np.sum(np.cos(np.asarray(f(*args)))), rtol=1e-13)
    expected = [ng.tensor(x, requires_grad=True) for x in args]
    with ng.configure(engine="reference"):
        loss(*expected).backward()
    for found, x in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(found, np.asarray(x.grad), rtol=1e-12, atol=1e-14)
    ng.testing.check_gradients(f, *args)


def count(f, name, *args):
    graph = str(ng.jit(ng.grad(lambda *x: np.sum(np.cos(f(*x))))).lower(*args).graph)
    return sum(f"= {name}(" in line for line in graph.splitlines())


@pytest.mark.thorough(every=5)
@pytest.mark.parametrize("way", ASSIGNED)
def test_parts_that_are_assigned_are_joined(way):
    f, are_joined = ASSIGNED[way]
    assert (count(f, "update_slice", X) == 0) == are_joined
    check(f, X[:10] if way != "rows" else X)


def stacked(x, axis):
    return np.stack([np.sin(x), x**2, np.cos(x)], axis=axis)


PARTS = {
    "of a stack": lambda x: stacked(x, 0)[1] * stacked(x, 0)[2],
    "of its last axis": lambda x: stacked(x, -1)[..., 1] * stacked(x, -1)[3:9, ::2, 0].sum(),
    "turned": lambda x: stacked(x, 0).T[1:7, :, 2] * 2.0,
    "turned, and kept so": lambda x: np.sin(np.transpose(stacked(x, 0), (2, 0, 1))[:, 1:2]),
    "of windows": lambda x: windows(x, (2, 3))[..., 1, 2] - windows(x, (2, 3))[..., 0, 0],
    "by a negative index": lambda x: windows(x, 4, axis=0)[..., -1],
    "in one of several": lambda x: np.concatenate([np.sin(x), x**2])[45:70:3],
    "across two of them": lambda x: np.concatenate([np.sin(x), x**2])[30:50],
    "up to the end of one": lambda x: np.concatenate([np.sin(x), x**2], axis=1)[:, 0:9:2],
    "across two by steps": lambda x: np.concatenate([np.sin(x), x**2], axis=1)[:, 0:10:3],
}


@pytest.mark.thorough(every=5)
@pytest.mark.parametrize("way", PARTS)
def test_parts_of_what_is_joined_are_read_where_they_are(way):
    f = PARTS[way]
    assert (count(f, "concatenate", X) > 0) == way.startswith("across")
    check(f, X)


def test_what_is_read_as_a_whole_as_well_stays():
    def f(x):
        parts = stacked(x, 0)
        return parts[1] * np.sum(parts, axis=0) ** 2

    assert count(f, "concatenate", X) == 1
    check(f, X)


def test_who_holds_what_is_joined_gets_its_gradient():
    def gradients(x):
        held = []

        def loss(x):
            parts = stacked(x, 0)
            parts.retain_grad()
            held.append(parts)
            return np.sum(parts[1] * parts[2])

        loss(x).backward()
        return held[0].grad

    x = ng.tensor(X, requires_grad=True)
    expected = np.stack([0 * X, np.cos(X), X**2])
    np.testing.assert_allclose(np.asarray(gradients(x)), expected, rtol=1e-14)
    called = []

    def hooked(x):
        parts = stacked(x, 0)
        parts.register_hook(called.append)
        return np.sum(parts[1] * parts[2])

    ng.grad(hooked)(X)
    assert len(called) == 1
