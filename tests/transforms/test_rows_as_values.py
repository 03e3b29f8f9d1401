"""Rows that loops write in parts: the same gradients as define by run, in kernels that do not
depend on the number of steps."""

import numpy as np
import pytest

import numba_grad as ng

P = np.array([0.7, 0.3, 0.5])


def by_elements(p, steps=6):
    u = ng.zeros((steps, 2))
    u[0, 0], u[0, 1] = p[0], p[1]
    for k in range(1, steps):
        u[k, 0] = u[k - 1, 0] + 0.1 * np.sin(u[k - 1, 1])
        u[k, 1] = u[k - 1, 1] * p[2] - 0.1 * u[k, 0]
    return np.sum(u**2)


def added_to(p, steps=6):
    u = ng.zeros((steps, 5))
    u[0] = p[0] * np.arange(5.0)
    for k in range(steps - 1):
        flow = p[1] * (u[k, 1:] - u[k, :-1])
        u[k + 1] = u[k]
        u[k + 1, :-1] += flow
        u[k + 1, 1:] -= flow * p[2]
    return np.sum(u[-1] ** 2)


def two_rows_back(p, steps=6):
    u = ng.zeros((steps + 2, 5))
    for k in range(steps):
        u[k + 2, 1:-1] = 2.0 * u[k + 1, 1:-1] - u[k, 1:-1] + p[0] * (u[k + 1, 2:] - u[k + 1, :-2])
        u[k + 2, 2] += p[1] * np.cos(p[2] * k)
    return np.sum(u[2:, 3] ** 2)


def rows_again(p):
    """Rows are written again, the whole is read in between, and what was there later."""
    u = p[0] * np.ones((3, 4))
    total = 0.0
    for k in (0, 1, 0, 2, 1):
        before = u.copy()
        u[k, ::2] += p[1] * u[k - 1, 1]
        shown = u[k, 1:]
        u[k, 1] = np.sum(u) * p[2]
        total = total + np.sum(np.sin(before)) + np.sum(shown * u[0, 0])
    return total + np.sum(u[:, 0] * u[1, 1:])


def nothing_assigned(p):
    u = ng.zeros((4, 3))
    u[0, 1] = p[0]
    return np.sum(u[2]) + u[3, 0] * p[1] + np.sum(u[0] ** 2)


@pytest.mark.parametrize(
    "f",
    [by_elements, added_to, two_rows_back, rows_again, nothing_assigned],
    ids=lambda f: f.__name__,
)
def test_gradients_are_those_of_define_by_run(f):
    p = ng.tensor(P, requires_grad=True)
    f(p).backward()
    for g in (ng.grad(f)(P), ng.jit(ng.grad(f))(P)):
        np.testing.assert_allclose(g, p.grad, rtol=1e-12, atol=1e-14)
    curvature = ng.jacrev(ng.grad(f))(P)
    assert not curvature.requires_grad
    step = 1e-6 * np.eye(3)
    rows = [(ng.grad(f)(P + h) - ng.grad(f)(P - h)) / 2e-6 for h in step]
    np.testing.assert_allclose(curvature, np.stack(rows), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("f", [by_elements, added_to, two_rows_back], ids=lambda f: f.__name__)
def test_kernels_do_not_depend_on_the_number_of_steps(f):
    def kernels(steps):
        lowered = ng.jit(ng.grad(lambda p: f(p, steps))).lower(P)
        return [kernel.source for kernel in lowered.kernels]

    assert len(kernels(60)) == len(kernels(120)) <= 16


def test_a_version_that_is_kept_has_its_own_gradient():
    """What a hook or a returned tensor needs of an array between two assignments stays."""

    def f(p):
        u = ng.zeros((2, 3))
        u[0, 0] = p[0]
        seen = []
        u.register_hook(seen.append)
        between = u[0, 0] * u[0, 0]
        u[0, 1] = p[1] * between
        return np.sum(u[0] ** 3), seen

    (_, seen), g = ng.value_and_grad(f, has_aux=True)(P)
    p0, p1 = P[0], P[1]
    expected = [3 * p0**2 + 12 * p1**3 * p0**5 / 2, 3 * p1**2 * p0**6, 0.0]
    np.testing.assert_allclose(g, expected, rtol=1e-12)
    assert len(seen) == 1
