"""Checks of a differentiable function: values as Python's, gradients as finite differences, and
tangents that agree with them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import numba_grad as ng

# Differences of fourth order: neither truncation nor rounding exceeds some 1e-11.
STEP = 2e-4
STENCIL = ((1, 8 / 12), (-1, -8 / 12), (2, -1 / 12), (-2, 1 / 12))
OF_DIFFERENCES, OF_TANGENTS = 2e-8, 1e-11


class AtAKinkError(Exception):
    """Differences of two steps do not agree: there is no derivative to compare with."""


def flat(results: Any) -> list[np.ndarray]:
    """Arrays and numbers of nested tuples, None as nothing."""
    if results is None:
        return []
    if isinstance(results, tuple):
        return [x for part in results for x in flat(part)]
    return [np.asarray(results)]


def run_as_python(
    function: Callable[..., Any], arguments: Sequence[Any], writes: Sequence[int]
) -> list[np.ndarray]:
    """What it returns, then the arrays it wrote; arguments stay what they are."""
    own = [x.copy() if isinstance(x, np.ndarray) else x for x in arguments]
    with np.errstate(all="ignore"):
        returned = flat(function(*own))
    return [np.array(x) for x in returned] + [own[k] for k in writes]


def is_floating(x: Any) -> bool:
    return np.asarray(x).dtype.kind in "fc"


@dataclass(frozen=True)
class Case:
    """A function, where to differentiate it, and weights of its results."""

    operation: Callable[..., Any]  # what `ng.differentiable` gave
    python: Callable[..., Any]
    arguments: Sequence[Any]
    writes: Sequence[int]  # positions of the parameters that it writes
    seed: int = 0

    @property
    def active(self) -> list[int]:
        return [k for k, x in enumerate(self.arguments) if is_floating(x)]

    def chosen(self) -> list[np.ndarray]:
        return [np.asarray(self.arguments[k]) for k in self.active]

    def directions(self) -> list[np.ndarray]:
        rng = np.random.default_rng(self.seed + 1)
        return [_random(rng, x) for x in self.chosen()]

    def weights(self, results: Sequence[np.ndarray]) -> list[np.ndarray | None]:
        rng = np.random.default_rng(self.seed + 2)
        return [_random(rng, x) if is_floating(x) else None for x in results]

    def with_chosen(self, chosen: Sequence[Any]) -> list[Any]:
        arguments = list(self.arguments)
        for k, x in zip(self.active, chosen, strict=True):
            arguments[k] = x
        return arguments

    def reference(self) -> list[np.ndarray]:
        return run_as_python(self.python, self.arguments, self.writes)

    def results(self, *chosen: Any) -> tuple[Any, ...]:
        results = self.operation(*self.with_chosen(chosen))
        return tuple(_leaves(results))

    def loss(self, weights: Sequence[np.ndarray | None]) -> Callable[..., Any]:
        def weighted(*chosen: Any) -> Any:
            results = self.results(*chosen)
            total: Any = 0.0
            for x, w in zip(results, weights, strict=True):
                if w is not None:
                    total = total + np.sum((x * w).real if w.dtype.kind == "c" else x * w)
            return total

        return weighted

    def difference(self, position: int, direction: np.ndarray, weights: Sequence[Any]) -> float:
        """The derivative of the loss by one argument, along a direction."""
        coarse, fine = (
            self._difference(position, direction, weights, STEP / part) for part in (1, 2)
        )
        size = max(1.0, abs(fine), self._size(weights))
        if abs(coarse - fine) > OF_DIFFERENCES * size:
            raise AtAKinkError(f"argument {position}: {coarse} with one step, {fine} with another")
        return fine

    def _difference(
        self, position: int, direction: np.ndarray, weights: Sequence[Any], step: float
    ) -> float:
        total = 0.0
        for multiple, factor in STENCIL:
            moved = list(self.arguments)
            moved[position] = np.asarray(moved[position]) + multiple * step * direction
            if np.ndim(self.arguments[position]) == 0:
                moved[position] = moved[position].item()
            results = run_as_python(self.python, moved, self.writes)
            total += factor * _dot(results, weights)
        return total / step

    def _size(self, weights: Sequence[Any]) -> float:
        return sum(
            float(np.sum(np.abs(x * w)))
            for x, w in zip(self.reference(), weights, strict=True)
            if w is not None
        )


def is_complex(*xs: Any) -> bool:
    return any(np.asarray(x).dtype.kind == "c" for x in xs)


def _random(rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
    v = rng.uniform(0.5, 1.5, np.shape(x)) * rng.choice([-1.0, 1.0], np.shape(x))
    if np.asarray(x).dtype.kind == "c":
        v = v + 1j * rng.uniform(0.5, 1.5, np.shape(x))
    return v


def _leaves(results: Any) -> list[Any]:
    if isinstance(results, tuple):
        return [x for part in results for x in _leaves(part)]
    return [results]


def _dot(xs: Sequence[Any], ys: Sequence[Any]) -> float:
    return sum(
        float(np.sum(np.asarray(x) * y).real) for x, y in zip(xs, ys, strict=True) if y is not None
    )


def _inner(xs: Sequence[Any], ys: Sequence[Any]) -> tuple[float, float]:
    """Of gradients and directions, and how large its terms are."""
    terms = [np.conj(np.asarray(x)) * y for x, y in zip(xs, ys, strict=True)]
    return sum(float(np.sum(t).real) for t in terms), sum(float(np.sum(np.abs(t))) for t in terms)


class Cases(dict[str, tuple[Callable[..., Any], Sequence[Any], Sequence[int]]]):
    """Functions by name, with arguments and the positions of those that they write."""

    def case(self, *arguments: Any, w: Sequence[int] = ()) -> Callable[..., Any]:
        def add(function: Callable[..., Any]) -> Callable[..., Any]:
            self[function.__name__] = function, arguments, w
            return function

        return add


def check(
    function: Callable[..., Any], arguments: Sequence[Any], writes: Sequence[int] = ()
) -> None:
    """Values, gradient and tangent of a function of Numba's."""
    own = Case(ng.differentiable(function), function, arguments, writes)
    check_values(own)
    check_gradient(own)
    check_tangent(own)


def check_values(case: Case) -> None:
    """As Python computes them; the arguments are as before."""
    before = [np.array(x) for x in case.arguments]
    expected = case.reference()
    found = _leaves(case.operation(*case.arguments))
    assert len(found) == len(expected), f"{len(found)} results, not {len(expected)}"
    for ours, theirs in zip(found, expected, strict=True):
        value = np.asarray(ours)
        assert value.shape == theirs.shape
        assert value.dtype == theirs.dtype
        np.testing.assert_allclose(value, theirs, rtol=1e-11, atol=1e-12)
    for x, y in zip(before, case.arguments, strict=True):
        np.testing.assert_array_equal(x, y)


def check_gradient(case: Case) -> None:
    """Along a random direction of each argument, against differences of the Python function."""
    weights = case.weights(case.reference())
    positions = tuple(range(len(case.active)))
    found = ng.grad(case.loss(weights), argnums=positions)(*case.chosen())
    for k, direction, gradient in zip(case.active, case.directions(), found, strict=True):
        expected = case.difference(k, direction, weights)
        value, size = _inner([gradient], [direction])
        tolerance = OF_DIFFERENCES * max(1.0, size, case._size(weights))
        assert abs(value - expected) <= tolerance, (
            f"argument {k}: {value}, by differences {expected}"
        )


def check_tangent(case: Case) -> None:
    """Of all arguments at once; its product with weights is that of the gradient."""
    weights = case.weights(case.reference())
    positions = tuple(range(len(case.active)))
    gradient = ng.grad(case.loss(weights), argnums=positions)(*case.chosen())
    directions = case.directions()
    _, tangent = ng.jvp(case.loss(weights), tuple(case.chosen()), tuple(directions))
    value, size = _inner(gradient, directions)
    assert abs(float(tangent) - value) <= OF_TANGENTS * max(1.0, size), (
        f"tangent {float(tangent)}, gradient {value}"
    )


def check_second_derivatives(case: Case) -> None:
    """The gradient along a direction: forward over reverse, reverse over reverse, differences."""
    weights = case.weights(case.reference())
    positions = tuple(range(len(case.active)))
    gradient = ng.grad(case.loss(weights), argnums=positions)
    chosen, along = case.chosen(), case.directions()
    other = [0.7 * np.cos(np.arange(x.size)).reshape(x.shape) + 0.1 for x in chosen]
    other = [v * (1 - 0.3j) if is_complex(v, x) else v for v, x in zip(other, chosen, strict=True)]

    def product(*xs: Any) -> Any:
        parts = zip(gradient(*xs), other, strict=True)
        return sum(np.sum((np.conj(g) * v).real if is_complex(v) else g * v) for g, v in parts)

    _, forward = ng.jvp(product, tuple(chosen), tuple(along))
    reverse, size = _inner(ng.grad(product, argnums=positions)(*chosen), along)

    def difference(step: float) -> float:
        total = 0.0
        for multiple, factor in STENCIL:
            moved = [x + multiple * step * v for x, v in zip(chosen, along, strict=True)]
            total += factor * _inner(gradient(*moved), other)[0]
        return total / step

    expected = difference(STEP)
    first = _inner(gradient(*chosen), other)[1]
    size = max(1.0, size, first)
    if abs(reverse - expected) > 10 * OF_DIFFERENCES * size:
        finer = difference(STEP / 2)
        if abs(finer - expected) > 5 * OF_DIFFERENCES * size:
            raise AtAKinkError(f"{expected} with one step, {finer} with another")
    assert abs(reverse - expected) <= 10 * OF_DIFFERENCES * size, f"{reverse}, not {expected}"
    assert abs(float(forward) - reverse) <= 10 * OF_TANGENTS * size, f"{forward}, not {reverse}"
