"""Programs of numbers and small arrays whose steps are similar and not equal: messages between
irregular neighbours, steps of Newton's method in steps of time. They share kernels."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.compiler import pipeline
from numba_grad.compiler.partition import segments
from numba_grad.config import configure

STATES = 3


def log_sum_exp(a: Any, axis: int) -> Any:
    largest = np.max(a, axis=axis, keepdims=True)
    total = np.log(np.sum(np.exp(a - largest), axis=axis, keepdims=True))
    return np.squeeze(largest + total, axis=axis)


def messages(rows: int, columns: int, rounds: int) -> Callable[..., Any]:
    """Loopy belief propagation on a grid, whose points have two to four neighbours."""
    points = [(i, j) for i in range(rows) for j in range(columns)]
    near = {
        (i, j): [q for q in ((i - 1, j), (i, j - 1), (i, j + 1), (i + 1, j)) if q in points]
        for i, j in points
    }

    def loss(pairs: Any, own: Any) -> Any:
        message = {(p, q): np.zeros(STATES) for p in points for q in near[p]}
        for _ in range(rounds):
            new = {}
            for p, q in message:
                belief = own[p]
                for other in near[p]:
                    if other != q:
                        belief = belief + message[other, p]
                unscaled = log_sum_exp(pairs + belief[:, None], 0)
                new[p, q] = unscaled - log_sum_exp(unscaled, 0)
            message = new
        total = 0.0
        for p in points:
            belief = own[p]
            for q in near[p]:
                belief = belief + message[q, p]
            total = total - (belief - log_sum_exp(belief, 0))[sum(p) % STATES]
        return total

    return loss


def implicit(steps: int) -> Callable[..., Any]:
    """Two stages, solved by four steps of Newton's method."""
    a = np.array([[0.25, 0.25 - np.sqrt(3) / 6], [0.25 + np.sqrt(3) / 6, 0.25]])

    def slope(y: Any, mu: Any) -> Any:
        return np.stack([y[1], mu * (1 - y[0] ** 2) * y[1] - y[0]])

    def jacobian(y: Any, mu: Any) -> Any:
        zero = 0 * y[0]
        lower = np.stack([-2 * mu * y[0] * y[1] - 1, mu * (1 - y[0] ** 2)])
        return np.stack([np.stack([zero, zero + 1]), lower])

    def loss(y: Any, mu: Any) -> Any:
        h = 0.05
        for _ in range(steps):
            k = np.concatenate([slope(y, mu)] * 2)
            for _ in range(4):
                at = [y + h * (a[i, 0] * k[:2] + a[i, 1] * k[2:]) for i in range(2)]
                rest = k - np.concatenate([slope(at[i], mu) for i in range(2)])
                rows = []
                for i in range(2):
                    parts = [h * a[i, j] * jacobian(at[i], mu) for j in range(2)]
                    rows.append(np.concatenate(parts, axis=1))
                k = k - np.linalg.solve(np.eye(4) - np.concatenate(rows), rest)
            y = y + h / 2 * (k[:2] + k[2:])
        return np.sum(y**2)

    return loss


def lengths(loss: Callable[..., Any], *arguments: Any) -> list[int]:
    lowered = ng.jit(ng.grad(loss, argnums=(0, 1))).lower(*arguments)
    return [source.count("\n") for source in {kernel.source for kernel in lowered.kernels}]


def arguments_of_messages(rows: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(rows)
    return random.normal(size=(STATES, STATES)), random.normal(size=(rows, columns, STATES))


def test_messages_share_kernels() -> None:
    """They were 21,800 lines for three rounds on this grid."""
    found = lengths(messages(3, 4, 3), *arguments_of_messages(3, 4))
    assert sum(found) < 9_000
    assert max(found) < 600


@pytest.mark.thorough
def test_more_rounds_need_few_lines_more() -> None:
    arguments = arguments_of_messages(3, 3)
    few = sum(lengths(messages(3, 3, 4), *arguments))
    assert sum(lengths(messages(3, 3, 8), *arguments)) < 1.3 * few


def test_steps_of_newtons_method_share_kernels() -> None:
    found = lengths(implicit(12), np.array([2.0, 0.0]), 1.5)
    assert max(found) < 500
    assert sum(found) < 4_000


@pytest.mark.thorough(but="64-3")
@pytest.mark.parametrize(("window", "pointers"), [(64, 256), (512, 256), (64, 3)])
def test_gradients_do_not_depend_on_how_they_are_cut(
    window: int, pointers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor on whether each value from outside has a pointer."""
    monkeypatch.setattr(segments, "WINDOW_OF_SMALL", window)
    monkeypatch.setattr(pipeline, "MOST_POINTERS", pointers)
    arguments = arguments_of_messages(2, 3)
    for loss, at in ((messages(2, 3, 3), arguments), (implicit(5), (np.array([2.0, 0.1]), 1.5))):
        f = ng.value_and_grad(loss, argnums=(0, 1))
        value, gradients = ng.jit(f)(*at)
        with configure(engine="reference"):
            expected, others = f(*at)
        np.testing.assert_allclose(value, expected, rtol=1e-13)
        for gradient, other in zip(gradients, others, strict=True):
            np.testing.assert_allclose(gradient, other, rtol=1e-10, atol=1e-12)


def test_a_nan_in_one_message_goes_where_numpy_has_it() -> None:
    pairs, own = arguments_of_messages(2, 3)
    own[1, 2, 0] = np.nan
    value, gradient = ng.jit(ng.value_and_grad(messages(2, 3, 1), argnums=1))(pairs, own)
    with configure(engine="reference"):
        expected, other = ng.value_and_grad(messages(2, 3, 1), argnums=1)(pairs, own)
    assert np.isnan(value) == np.isnan(expected)
    np.testing.assert_array_equal(np.isnan(gradient), np.isnan(other))


def test_a_state_that_is_put_together_is_planned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cotangents of fields are added to what was computed, not to what the step before has left."""
    bodies = []
    body = pipeline._Compiler.body

    def counted(compiler: Any, overwriting: Any) -> Any:
        found = body(compiler, overwriting)
        bodies.append(found)
        return found

    monkeypatch.setattr(pipeline._Compiler, "body", counted)

    for name, length in (("LONGEST_WHOLE", 100), ("WINDOW", 64), ("LONGEST", 128)):
        monkeypatch.setattr(segments, name, length)  # so that a step is several segments

    def along(w: Any) -> Any:
        ghosts = np.concatenate([w[:, -1:], w, w[:, :1]], axis=1)
        u, v, w = ghosts
        flux = np.stack([u * v, u * v**2, u * v * w])
        return flux[:, 2:] - flux[:, :-2]

    def change(q: Any) -> Any:
        w = np.stack([q[0], q[1] / q[0], q[2] / q[0]])
        x, y = along(w), along(np.stack([w[0].T, w[2].T, w[1].T]))
        return x + np.stack([y[0].T, y[2].T, y[1].T])

    def step(q: Any, _: Any) -> Any:
        middle = q + 0.01 * change(q)
        return 0.5 * (q + middle + 0.01 * change(middle)), None

    def loss(state: Any) -> Any:
        return np.sum(ng.scan(step, state, length=20)[0] ** 2)

    state = np.random.default_rng(0).random((3, 20, 20)) + 1
    f = ng.jit(ng.grad(loss))
    assert f.lower(state).kernels
    assert bodies
    assert None not in bodies
    with configure(engine="reference"):
        np.testing.assert_allclose(f(state), ng.grad(loss)(state), rtol=1e-10)


def test_gradients_of_steps_over_ever_shorter_rows() -> None:
    """Of logarithms on the diagonal of a Cholesky factor: half of the inverse."""

    def half_log_det(a: Any) -> Any:
        a, total = a * 1.0, 0.0
        for k in range(len(a)):
            pivot = np.sqrt(a[k, k])
            column = a[k + 1 :, k] / pivot
            row = a[k, k + 1 :] / pivot
            a[k + 1 :, k + 1 :] -= np.outer(column, row)
            total = total + np.log(pivot)
        return total

    root = np.random.default_rng(0).normal(size=(13, 13))
    matrix = root @ root.T + np.eye(13)
    value, gradient = ng.jit(ng.value_and_grad(half_log_det))(matrix)
    np.testing.assert_allclose(value, np.linalg.slogdet(matrix)[1] / 2, rtol=1e-12)
    np.testing.assert_allclose(gradient, np.linalg.inv(matrix).T / 2, rtol=1e-10, atol=1e-12)
