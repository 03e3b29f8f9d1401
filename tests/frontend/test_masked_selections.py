"""`x[mask]` of a mask that is traced: what functions compute of it is what they compute of the
elements, with their gradients, whatever the others are."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import numba_grad as ng
import numba_grad.numpy as tensor_numpy
from numba_grad.errors import DTypeError, TracingError
from numba_grad.frontend.inputs.arrays import wrap
from numba_grad.graph import walk
from numba_grad.graph.node import Node, argument
from numba_grad.graph.types import array_type
from numba_grad.graph.walk import value_inputs

Program = Callable[..., Any]

Y = np.array([1.5, -2.0, 0.0, 3.25, 0.3, 0.7, -0.0, -1.5, 2.0])


# Three people's ways to take the logarithm of what has one, and the like.


def _log_in_place(y: Any, s: Any) -> Any:
    y = y.copy()
    y[y > 0] = np.log(y[y > 0])
    return y


def _power_of_named_mask(y: Any, s: Any) -> Any:
    r = y * s
    inside = np.greater(r, 0.0)
    r[inside] **= -1.5
    r[~inside] -= r[~inside] ** 2 + s
    return r


def _into_zeros(y: Any, s: Any) -> Any:
    r = ng.zeros_like(y)
    mask = np.logical_not(y <= 0) & np.isfinite(y)
    r[mask] = ng.log(y[mask] * s) / ng.sqrt(y[mask]) + s / np.square(y[mask])
    return r


def _numpy_of_tensors(y: Any, s: Any) -> Any:
    r = tensor_numpy.zeros_like(y)
    mask = tensor_numpy.abs(y) > 0.5
    part = y[mask]
    part = tensor_numpy.maximum(s, part) / part - tensor_numpy.clip(1 / part, -0.1, s)
    r[mask] = tensor_numpy.where(part > s, part, tensor_numpy.real(part) ** 2)
    return r


def _factor_of_what_has_no_logarithm(y: Any, s: Any) -> Any:
    # At 1, which stands in for what is not selected, log(0) for s = 1: of no consequence.
    r = y.copy()
    r[y > 0.1] = np.log(np.log(y[y > 0.1] + s) + 1)
    return r + np.sum(np.sqrt(y[y > 1] - s))


def _rows(y: Any, s: Any) -> Any:
    x = np.reshape(y[:6], (3, 2))
    m = x[:, 0] > x[:, 1] - 2
    z = x.copy()
    z[m] = z[m] * y[:2] + s
    z[m, 0] += x[m, 1]
    z[m, 1] *= 3.0
    means = x[m].mean(axis=1, keepdims=True)
    r = x[m] @ y[3:5] - y[:3][m]
    return np.concatenate(
        [
            z.ravel(),
            *(np.sum(x[m], axis=0), ng.mean(x[m], axis=0), x[m].max(axis=-2)),
            (x[m] - means).std(axis=0),
            np.stack([(x[m] ** 2).sum(axis=1).max(), x[m].mean(), r @ r, np.dot(r, x[m, 0])]),
        ]
    )


def _columns(y: Any, s: Any) -> Any:
    z = np.reshape(y[:6], (3, 2)).copy()
    m = y[:2] > 0
    z[:, m] = np.exp(z[:, m]) * y[:3, None]
    z[1:, m] += s
    z[..., m] -= z[..., m].min()
    return z - np.sum(z[:, m], axis=1, keepdims=True)


def _sums(y: Any, s: Any) -> Any:
    m = y > 0.0
    with_two_axes = np.reshape(y, (3, 3))[np.reshape(m, (3, 3))]
    return np.stack(
        [
            *(np.sum(y[m]), y[m].sum(), ng.sum(y[m]), np.add.reduce(y[m]), np.nansum(y[m])),
            *(np.mean(y[m] ** 2), y[m].mean(), np.prod(y[m] * s), (1 / y[m]).prod()),
            *(np.min(y[m]), y[m].max(), ng.max(-y[m], initial=-5.0)),
            *(np.var(y[m]), y[m].std(), np.std(y[m], ddof=1)),
            *(1.0 * np.count_nonzero(y[m] > 1), 1.0 * np.any(y[m] > 3), 1.0 * np.all(y[m] > 0)),
            *(np.sum(y[m] > s) * s, np.extract(m, y).sum()),
            *(np.sum(1 / with_two_axes), np.mean(with_two_axes, axis=0, keepdims=True)[0]),
        ]
    )


def _parts_of_it(y: Any, s: Any) -> Any:
    x = np.reshape(y[:6], (3, 2))
    m = x[:, 0] > x[:, 1] - 2
    part = y[:3][m][:, None] * x[m] + s * x[m][:, ::-1]
    part[:, 0] = part[:, 1] * 2
    part[part[:, 0] > 0] *= 3.0
    z = x.copy()
    z[m] = part
    above = y[y > 0]
    above[above > s] = 5.0 * s
    above[above < 1] += s
    last = above[(y > 1).sum() - 1] * above[-2]
    gram = x[m].T @ x[m] + (z[:, y[:2] > 0] @ z[:, y[:2] > 0].T)[:2, 1:]
    moments = np.append(gram, np.dot(x[m].T, y[:3][m]))
    parts = [part[0], part[-1, 1:], part[:, None, 1].sum(0), last[None], moments]
    return np.concatenate([z.ravel(), *parts])


def _norms_and_quantiles(y: Any, s: Any) -> Any:
    x = np.reshape(y[:6], (3, 2))
    p, rows = y[y > 0] * s, x[x[:, 0] > -3]
    both = np.stack([y, s * y])[:, y > 0]
    return np.stack(
        [
            *(np.median(p), np.quantile(p, 0.3), *np.percentile(p, [10, 60])),
            *(np.linalg.norm(p), np.linalg.norm(p, 1), np.linalg.norm(p, np.inf)),
            *(np.linalg.norm(rows), *np.linalg.norm(rows, axis=0), *np.median(both, axis=1)),
            *(np.linalg.norm(rows, axis=1).sum(), ng.real(p).sum(), ng.median(rows[:, 1])),
        ]
    )


def _places(y: Any, s: Any) -> Any:
    z, x = y.copy(), np.reshape(y, (3, 3)).copy()
    i, k = np.where(y > s)[0], np.flatnonzero(y > 0.2)
    z[i] = y[i] * 2 + s
    z[np.nonzero(y < 0)] -= 1.0
    z[i] += 3.0 * i
    rising = np.where(np.diff(y) > 0)[0]
    rows, columns = np.where(x > s)
    x[rows, columns] *= s
    np.add.at(x, (rows, columns), 1.0)
    sums = [
        z[k].sum(),
        np.sum(y[k - 1] * y[k]),
        (y[rising + 1] - y[rising]).max(),
        x[columns, rows].sum(),
    ]
    sums += [y[rows].mean(), x[:, np.where(x[0] > 0)[0]].sum(), x[rows].sum(), 1.0 * i.size]
    return np.concatenate([z, x.ravel(), np.stack(sums)])


LONGER = [
    *(_power_of_named_mask, _factor_of_what_has_no_logarithm, _into_zeros, _numpy_of_tensors),
    *(_rows, _columns, _sums, _parts_of_it, _norms_and_quantiles, _places),
]
PROGRAMS = [_log_in_place, *[pytest.param(f, marks=pytest.mark.thorough) for f in LONGER]]


def _close(x: Any, expected: Any, tolerance: float = 1e-12) -> None:
    x, expected = np.asarray(x), np.asarray(expected)
    assert (x.dtype, x.shape) == (expected.dtype, expected.shape)
    np.testing.assert_allclose(x, expected, rtol=tolerance, atol=tolerance)


def _weighted(f: Program) -> Program:
    def total(y: Any, s: Any) -> Any:
        r = f(y, s).ravel()
        return np.sum(np.cos(np.arange(r.size)) * r**2)

    return total


@pytest.mark.parametrize("f", PROGRAMS)
def test_values_and_gradients_are_those_without_jit(f: Program) -> None:
    for s in (0.5, 1.0):
        _close(ng.jit(f)(Y, s), f(ng.tensor(Y), s))
        gradients = ng.grad(_weighted(f), argnums=(0, 1))
        y = ng.tensor(Y)
        for got, expected in zip(ng.jit(gradients)(Y, s), gradients(y, s), strict=True):
            _close(got, expected)
        assert np.isfinite(np.asarray(gradients(y, s)[0])).all()


@pytest.mark.thorough
@pytest.mark.parametrize("f", PROGRAMS)
def test_transforms_compute_what_they_compute_without_jit(f: Program) -> None:
    first = ng.grad(_weighted(f))

    def second(y: Any) -> Any:
        return ng.grad(lambda y: np.sum(np.sin(first(y, 0.5))))(y)

    def pushed(y: Any) -> Any:
        return ng.jvp(lambda y: f(y, 0.5), (y,), (np.cos(y),))

    def pushed_gradient(y: Any) -> Any:
        return ng.jvp(lambda y: first(y, 0.5), (y,), (np.cos(y),))

    y = ng.tensor(Y)
    _close(ng.jit(second)(Y), second(y), 1e-10)
    for transformed in (pushed, pushed_gradient):
        for got, expected in zip(ng.jit(transformed)(Y), transformed(y), strict=True):
            _close(got, expected, 1e-10)
    rows = np.stack([Y, Y[::-1], Y + 0.25])
    for g in (f, first):
        expected = [g(ng.tensor(row), 0.5).numpy() for row in rows]
        _close(ng.vmap(lambda y, g=g: g(y, 0.5))(rows), np.stack(expected), 1e-11)
    narrow = Y.astype(np.float32)
    _close(ng.jit(f)(narrow, 0.5), f(ng.tensor(narrow), 0.5), 1e-5)
    _close(ng.jit(first)(narrow, 0.5), first(ng.tensor(narrow), 0.5), 1e-4)


def test_elementwise_values_are_numpys_to_the_bit() -> None:
    x = np.array([4.0, -1.0, np.nan, np.inf, 0.25, -0.0])

    def f(x: Any) -> Any:
        y = x.copy()
        y[~(x < 0)] = np.sqrt(y[~(x < 0)]) / 3
        y[np.isnan(x)] = 7
        return y

    got = np.asarray(ng.jit(f)(x))
    np.testing.assert_array_equal(got, f(x))
    np.testing.assert_array_equal(np.signbit(got), np.signbit(f(x)))


def test_integers_keep_their_dtype() -> None:
    n = np.array([5, -3, 0, 2**60 + 1, 7])

    def f(n: Any) -> Any:
        n = n.copy()
        n[n > 0] = n[n > 0] // 2 + 1.5  # cut off, as NumPy's assignment
        n[n < 0] *= 2
        return n, n[n > 3].max(), n[n > 3].sum(), np.sum(n[n > 3] > 1)

    for got, expected in zip(ng.jit(f)(n), f(n), strict=True):
        np.testing.assert_array_equal(got, expected)
        assert got.dtype == expected.dtype

    def in_place(n: Any) -> Any:
        n = n.copy()
        n[n > 0] *= 0.5
        return n

    with pytest.raises(DTypeError, match="cannot assign float64"):
        ng.jit(in_place)(n)


def test_what_selects_nothing() -> None:
    def f(x: Any) -> Any:
        e = x[x > 9]
        numbers = (e.sum(), e.prod(), np.mean(e), e.var(), e.min(), np.max(e), e.any(), e.all())
        return (*numbers, np.median(e), e[0], np.linalg.norm(e))

    got = [float(value) for value in ng.jit(f)(Y)]
    np.testing.assert_array_equal(got, [0, 1, *[np.nan] * 4, 0, 1, np.nan, np.nan, 0])
    limits = ng.jit(lambda n: (n[n > 9].min(), n[n > 9].max()))(np.arange(3))
    assert [int(n) for n in limits] == [np.iinfo(int).max, np.iinfo(int).min]
    np.testing.assert_array_equal(ng.jit(ng.grad(lambda x: x[x > 9].max() + x[0]))(Y), np.eye(9)[0])


# The idioms of three programs of NPBench


def _acceleration(pos: Any, mass: Any, softening: Any) -> Any:  # nbody
    x, y, z = pos[:, 0:1], pos[:, 1:2], pos[:, 2:3]
    dx, dy, dz = x.T - x, y.T - y, z.T - z
    inv_r3 = dx**2 + dy**2 + dz**2 + softening**2
    I = inv_r3 > 0  # noqa: E741
    inv_r3[I] = inv_r3[I] ** (-1.5)
    return np.hstack([(d * inv_r3) @ mass for d in (dx, dy, dz)])


@pytest.mark.thorough
def test_nbody() -> None:
    random = np.random.default_rng(0)
    pos, mass = random.normal(size=(5, 3)), random.uniform(1, 2, size=(5, 1))
    _close(ng.jit(_acceleration)(pos, mass, 0.0), _acceleration(pos, mass, 0.0))
    # Without softening the diagonal is 0, where the slope of the power is infinite.
    gradient = ng.grad(lambda pos: np.sum(np.sin(_acceleration(pos, mass, 0.0))))
    _close(ng.jit(gradient)(pos), gradient(ng.tensor(pos)))


def _mandelbrot(np: Any, xmin: Any, ymin: Any, steps: int) -> Any:
    X = np.linspace(xmin, 0.6, 5)
    Y = np.linspace(ymin, 1.2, 6)
    C = X + Y[:, None] * 1j
    N = np.zeros(C.shape, dtype=np.int64)
    Z = np.zeros(C.shape, dtype=np.complex128)
    for n in range(steps):
        I = np.less(abs(Z), 2.0)  # noqa: E741
        N[I] = n
        Z[I] = Z[I] ** 2 + C[I]
    N[steps - 1 == N] = 0
    return Z, N


@pytest.mark.thorough
@pytest.mark.parametrize("control_flow", [False, True])
def test_mandelbrot(control_flow: bool) -> None:
    def f(xmin: Any, ymin: Any) -> Any:
        return _mandelbrot(tensor_numpy, xmin, ymin, 6)

    jitted = ng.jit(f, control_flow=control_flow)
    for got, expected in zip(jitted(-2.0, -1.1), _mandelbrot(np, -2.0, -1.1, 6), strict=True):
        _close(got, expected)
    gradient = ng.grad(lambda xmin, ymin: np.abs(f(xmin, ymin)[0]).sum())
    _close(ng.jit(gradient)(-2.0, -1.1), np.asarray(gradient(-2.0, -1.1)))


def _azimuthal_means(data: Any, radius: Any, count: int) -> Any:
    rmax = radius.max()
    means = np.zeros(count, like=data)
    for i in range(count):
        r1, r2 = rmax * i / count, rmax * (i + 1) / count
        mask = np.logical_and(r1 <= radius, radius < r2)
        values = data[mask]
        means[i] = values.mean()
    return means


@pytest.mark.thorough
def test_azimint() -> None:
    random = np.random.default_rng(0)
    data, radius = random.uniform(size=60), random.uniform(size=60)
    f = ng.jit(_azimuthal_means, static_argnums=2)
    _close(f(data, radius, 4), _azimuthal_means(ng.tensor(data), radius, 4))
    gradient = ng.grad(lambda data: np.sum(_azimuthal_means(data, radius, 4) ** 2))
    _close(ng.jit(gradient)(data), gradient(ng.tensor(data)))


# Within loops and branches


def _relaxed(x: Any, n: Any) -> Any:
    m = x > 0
    part = x[m]
    x = x.copy()
    for i in range(n):
        near = x < 3
        x[near] = x[near] * 2 + i
        if x[m].sum() > 5:
            x[m] -= np.sqrt(part)
    while x[m].max() < 50:
        x[m] *= 1.5
    return x


@pytest.mark.thorough
def test_loops_and_branches_on_values() -> None:
    f = ng.jit(_relaxed, control_flow=True)
    _close(f(Y, 3), _relaxed(ng.tensor(Y), 3))
    gradient = ng.grad(lambda x: np.sum(np.sin(_relaxed(x, 3))))
    _close(ng.jit(gradient, control_flow=True)(Y), gradient(ng.tensor(Y)))


def _scanned(x: Any) -> Any:
    def step(x: Any, s: Any) -> Any:
        mask = x > s
        x = x.copy()
        x[mask] = np.sqrt(x[mask] - s)
        return x, x[mask].mean()

    return ng.scan(step, x, np.array([0.5, 0.1]))[1]


@pytest.mark.thorough
def test_bodies_of_scans() -> None:
    expected, x = [], Y.copy()
    for s in (0.5, 0.1):
        mask = x > s
        x[mask] = np.sqrt(x[mask] - s)
        expected.append(x[mask].mean())
    _close(_scanned(Y), expected)
    gradient = ng.grad(lambda x: _scanned(x).sum())(Y)
    assert np.isfinite(gradient.numpy()).all()


def test_numbers_through_a_mask_and_a_number() -> None:
    def f(x: Any, k: Any, flag: Any) -> Any:
        x = x.copy()
        x[x[:, 0] > 0, k] = x[1, 1]
        x[x[:, 0] > 0, 1] += x[x[:, 0] > 0, k]
        x[flag] *= 2
        return x

    x = np.arange(6.0).reshape(3, 2) - 1
    expected = x.copy()
    expected[1:, 0] = x[1, 1]
    expected[1:, 1] += expected[1:, 0]
    _close(ng.jit(f)(x, 0, True), expected * 2)


def test_size_is_a_number() -> None:
    def f(x: Any) -> Any:
        positive = x[x > 0]
        if positive.size > 1:
            x = x / positive.size
        return x * x[:, x[0] > 0].size

    x = np.array([[2, -1, 4], [-5, 6, 7]], np.float32)
    got = np.asarray(ng.jit(f, control_flow=True)(x))
    np.testing.assert_allclose(got, x, rtol=1e-6)
    assert got.dtype == x.dtype


def test_the_place_of_an_extreme_is_one_of_the_selected() -> None:
    def f(x: Any) -> Any:
        v = x[x > -3]
        return np.argmax(v), v.argmin(), v[np.argmax(v)], np.nanmedian(x[x != 2])

    jitted = ng.jit(f)
    infinite = np.array([-np.inf, 1.0, -np.inf, 2.0])
    for x in (np.array([-4.0, 1.0, 3.0, 3.0]), np.array([np.nan, 2.0, -7.0, -2.0]), infinite):
        for found, expected in zip(jitted(x), f(x), strict=True):
            _close(found, expected)
    lowest = ng.jit(lambda x: np.argmax(x[x < 0]))
    assert lowest(infinite) == 0 and lowest(infinite[::-1].copy()) == 0


def test_each_step_of_a_loop_looks_for_what_is_traced_in_its_past_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = 0

    def counted(node: Node) -> tuple[Node, ...]:
        nonlocal looks
        looks += 1
        return value_inputs(node)

    monkeypatch.setattr(walk, "value_inputs", counted)
    x = wrap(argument(array_type((3,), np.dtype(float))))
    for _ in range(100):
        r = x * x - 0.5
        r[r > 0] = np.sqrt(r[r > 0])
        x = x - 0.01 * r
    assert looks < 100 * 50


REFUSED = {
    "len": lambda x: len(x[x > 0]),
    "shape": lambda x: x[x > 0].shape,
    "index": lambda x: x[x > 0][1:],
    "norm": lambda x: np.linalg.norm(x[x > 0], -1),
    "median": lambda x: np.median(x[x > 0] * 1j),
    "bool": lambda x: 1 if x[x > 0] else 2,
    "asarray": lambda x: np.asarray(x[x > 0]),
    "x\\[mask\\]": lambda x: x[x > 0],
    "sort": lambda x: np.sort(x[x > 0]),
    "cumsum": lambda x: x[x > 0].cumsum(),
    "stack": lambda x: np.stack([x[x > 0], x[x > 0]]),
    "where": lambda x: np.where(x[x > 0] > 1),
    "(index)": lambda x: x.copy().__setitem__(np.where(x > 0)[0] - 1, 1.0),
    "add": lambda x: x[x > 0] + x[x < 0],
    "subtract": lambda x: x - x[x > 0],
    "multiply": lambda x: x[x > 0] * (1.0, 2.0, 3.0),
    "divide": lambda x: np.ones(3) / x[x > 0],
}


@pytest.mark.parametrize("operation", REFUSED)
def test_what_needs_the_number_is_refused(operation: str) -> None:
    with pytest.raises(TracingError, match=f"{operation}: needs to know how many"):
        ng.jit(REFUSED[operation])(np.arange(3.0))


def test_assignment_of_another_selection_is_refused() -> None:
    def f(x: Any) -> Any:
        y = x.copy()
        y[x < 0] = x[x > 0]
        return y

    with pytest.raises(TracingError, match="through another index"):
        ng.jit(f)(Y)


def test_a_quantile_that_is_an_element_is_it_to_the_bit() -> None:
    # 0.8 * 5 is 4, rounded: contracted with the subtraction of 4, it would be a little more.
    x = np.array([1.0, 2.0, 3.0, 4.0, 5.0, np.inf])
    within = ng.jit(lambda x: np.quantile(x[x > 0], 0.8))
    assert within(np.concatenate([x, [-1.0]])) == 5.0
    assert ng.jit(np.quantile)(x, 0.8) == ng.jit(np.nanquantile)(x, 0.8) == 5.0


def _on_the_simplex(x):
    """The nearest point whose coordinates are positive and have the sum 1."""
    u = np.sort(x)[::-1]
    excess = np.cumsum(u) - 1
    last = np.nonzero(u > excess / np.arange(1, len(x) + 1))[0][-1]
    return np.maximum(x - excess[last] / (last + 1.0), 0)


def _at_the_first_place(x):
    place = np.where(x > 1)[0][0]
    return x[place] * place


def _crossing(x):
    k = np.flatnonzero(x[:-1] * x[1:] < 0)[1]
    return x[k] / (x[k] - x[k + 1]) + k


@pytest.mark.parametrize("f", [_on_the_simplex, _at_the_first_place, _crossing])
@pytest.mark.parametrize("control_flow", [False, True])
def test_one_place_is_a_number_or_pythons_error(f, control_flow):
    x = np.array([0.3, -0.7, 1.2, 0.5, 2.1, -1.4])
    jitted = ng.jit(f, control_flow=control_flow)
    slope = ng.jit(ng.grad(lambda x: np.sum(f(x))), control_flow=control_flow)
    for given in (x, 2 * x, x[::-1].copy(), -np.abs(x), x):
        try:
            expected = f(given)
        except IndexError:
            with pytest.raises(IndexError):
                jitted(given)
            continue
        np.testing.assert_allclose(jitted(given), np.asarray(expected), rtol=1e-14)
        by_steps = ng.grad(lambda x: np.sum(f(x)))(given)
        np.testing.assert_allclose(slope(given), by_steps.numpy(), rtol=1e-14)
    each = ng.vmap(f)(np.stack([x, 1.1 * x]))
    np.testing.assert_allclose(each.numpy(), [np.asarray(f(y)) for y in (x, 1.1 * x)])


def test_a_place_in_a_loop():
    def f(x):
        while np.sum(x) > 1.001:
            x = 0.5 * x + 0.5 * _on_the_simplex(x)
        return x

    x = np.array([0.3, 1.2, 0.5, 2.1])
    found = ng.jit(f, control_flow=True)(x)
    np.testing.assert_allclose(found, f(ng.tensor(x)).numpy(), rtol=1e-14)


FITS = {
    "polyfit": lambda x, y: np.polyfit(x[y > 0], y[y > 0], 2),
    "polyfit_of_weights": lambda x, y: np.polyfit(x[y > 0], y[y > 0], 1, w=np.abs(y[y > 0]) + 1),
    "polyfit_of_columns": lambda x, y: np.polyfit(
        x[y > 0], np.column_stack([y[y > 0], x[y > 0] ** 2]), 1
    ),
    "vander": lambda x, y: np.sum(np.vander(x[y > 0], 3) ** 2, axis=0),
    "powers": lambda x, y: np.sum(np.vander(x[y > 0], 3, increasing=True) ** 2, axis=0),
    "lstsq": lambda x, y: np.linalg.lstsq(np.vander(x[y > 0], 3), y[y > 0], rcond=None)[0],
    "columns": lambda x, y: np.linalg.lstsq(
        np.column_stack([np.ones_like(x[y > 0]), x[y > 0], np.sin(x[y > 0])]), y[y > 0]
    )[0],
    "residuals": lambda x, y: np.linalg.lstsq(np.vander(x[y > 0], 2), y[y > 0])[1],
    "exercised": lambda x, y: exercised(x, y),
}


def exercised(prices, values):
    """Of Longstaff and Schwartz: what is worth more than its expectation."""
    values, chosen = values.copy(), prices < 0.5
    powers = np.vander(prices[chosen], 3)
    expected = powers @ np.linalg.lstsq(powers, values[chosen], rcond=None)[0]
    values[chosen] = np.where(0.5 - prices[chosen] > expected, 0.5 - prices[chosen], values[chosen])
    return values


@pytest.mark.thorough(but="lstsq|^polyfit$")
@pytest.mark.parametrize("name", FITS)
def test_fits_of_what_is_selected(name):
    rng = np.random.default_rng(0)
    x = rng.normal(size=12)
    y = np.sin(x) + 0.1 * rng.normal(size=12)

    def loss(x, y):
        found = FITS[name](x, y).ravel()
        return np.sum(found * np.arange(1.0, 1 + found.size))

    jitted, slopes = ng.jit(FITS[name]), ng.jit(ng.grad(loss, argnums=(0, 1)))
    for pair in ((x, y), (y, x), (x[::-1].copy(), y)):  # of other numbers of elements
        np.testing.assert_allclose(jitted(*pair), FITS[name](*pair), rtol=1e-9, atol=1e-12)
        expected = ng.grad(loss, argnums=(0, 1))(*pair)
        for mine, theirs in zip(slopes(*pair), expected, strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.vander(x[x > 0]),
        lambda x: np.column_stack([x[x > 0], x]),
        lambda x: np.column_stack([x[x > 0], x[x < 0]]),
        lambda x: np.polyfit(x[x > 0], x, 1),
        lambda x: np.polyfit(x[x > 0], x[x > 0], 1, cov=True),
        lambda x: np.linalg.lstsq(np.vander(x[x > 0], 2), x),
    ],
)
def test_fits_that_need_the_number_are_refused(f):
    with pytest.raises(TracingError, match="how many elements"):
        ng.jit(f)(np.array([1.0, -1.0, 2.0, 3.0]))
