"""Random bits as a function of a key and a counter: no state, so any order gives the same.

And the numbers of the gamma distribution made of them, with the derivative that they have.
"""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from numba_grad.errors import DTypeError, ShapeError, explain
from numba_grad.graph.node import OPS, Node, Op
from numba_grad.graph.types import Type, array_type
from numba_grad.ops.elementwise import scaled
from numba_grad.ops.families import (
    Rule,
    batch_together,
    by_argument,
    by_slopes,
    check_one_dtype,
    elementwise,
    structural,
)

_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_KEY_STEPS = (np.uint64(0x9E3779B9), np.uint64(0xBB67AE85))
_WORD = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)


def philox_reference(
    key: np.ndarray, counter: np.ndarray, stream: np.ndarray, *, half: int
) -> np.ndarray:
    """Philox 4x32-10 of Salmon et al. (2011), in NumPy."""
    k0, k1 = key & _WORD, key >> _32
    c0, c1, c2, c3 = counter & _WORD, counter >> _32, stream & _WORD, stream >> _32
    for number in range(10):
        if number:
            k0, k1 = (k0 + _KEY_STEPS[0]) & _WORD, (k1 + _KEY_STEPS[1]) & _WORD
        product0, product1 = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0, c2 = (product1 >> _32) ^ c1 ^ k0, (product0 >> _32) ^ c3 ^ k1
        c1, c3 = product1 & _WORD, product0 & _WORD
    return c2 | (c3 << _32) if half else c0 | (c1 << _32)


# Half 0 or 1 of the 128 bits that belong to a key and a counter, of which `counter` is the low and
# `stream` the high half.
philox = elementwise(
    "philox",
    expression=lambda *, half: f"philox_{half}({{key}}, {{counter}}, {{stream}})",
    reference=philox_reference,
    no_vjp="its result is an integer",
    input_names=("key", "counter", "stream"),
    dtypes="LQ",
    samples=((0, 2.0**62),) * 3,
    cost=60,
    params_samples=({"half": 0}, {"half": 1}),
)


# gamma_draw


def check_equal_shapes(operation: str, got: dict[str, Type], dtypes: Sequence[str]) -> None:
    types = list(got.values())
    if any(t.shape != types[0].shape for t in types):
        raise ShapeError(
            explain(operation, "shapes are not equal", got=dict(got), expected="equal shapes")
        )
    if any(t.dtype.char not in chars for t, chars in zip(types, dtypes, strict=True)):
        raise DTypeError(explain(operation, "not defined for these dtypes", got=dict(got)))


def function_of_elements(name: str, input_names: tuple[str, ...], **record: Any) -> Op:
    """The record of a function of each element, by a library's kernel: its inputs are of one shape
    and dtype, and its params are orders."""

    def infer(*types: Type, **orders: int) -> Type:
        got = dict(zip(input_names, types, strict=True))
        check_equal_shapes(name, got, ("fd",) * len(got))
        check_one_dtype(name, got)
        return array_type(types[0].shape, types[0].dtype)

    return structural(
        name,
        input_names=input_names,
        infer=infer,
        dtypes="fd",
        jvp=by_slopes,
        **record,
    )


def next_order(name: str, order: str) -> Rule:
    """The rule of an input whose derivative is the same function, of the next order by it."""

    def vjp(g: Node, out: Node, *inputs: Node, **orders: int) -> Node:
        return g * OPS[name](*inputs, **{**orders, order: orders[order] + 1})

    return vjp


def _infer_gamma_draw(key: Type, counter: Type, a: Type) -> Type:
    got = {"key": key, "counter": counter, "a": a}
    check_equal_shapes("gamma_draw", got, ("LQ", "LQ", "fd"))
    return a


def _gamma_draw_reference(key: np.ndarray, counter: np.ndarray, a: np.ndarray) -> np.ndarray:
    d = np.asarray(a, np.float64) - 1 / 3
    result = np.full(d.shape, np.nan)
    waiting = np.ones(d.shape, bool)
    for trial in range(100):
        blocks = [
            philox_reference(key, counter, np.asarray(1 + 2 * trial + number, np.uint64), half=half)
            for number, half in ((0, 0), (0, 1), (1, 0))
        ]
        first, u = ((bits.astype(np.float64) + 0.5) * 2.0**-64 for bits in blocks[::2])
        angle = (blocks[1] >> np.uint64(11)).astype(np.float64) * (2.0**-53 * 2 * np.pi)
        with np.errstate(all="ignore"):
            x = np.sqrt(-2 * np.log(first)) * np.cos(angle)
            root = 1 + x / np.sqrt(9 * d)
            v = root * root * root
            is_accepted = (root > 0) & (np.log(u) < 0.5 * x * x + d * (1 - v + np.log(v)))
        result = np.where(waiting & is_accepted, d * v, result)
        waiting &= ~is_accepted
        if not waiting.any():
            break
    return result.astype(a.dtype)


def _gamma_draw_examples(rng: "np.random.Generator") -> list[Any]:
    shapes = [(40,), (2, 3), (), (0, 2)]
    return [
        (
            (
                np.asarray(rng.integers(0, 2**62, shape), np.uint64),
                np.asarray(rng.integers(0, 100, shape), np.uint64),
                np.asarray(1 + rng.exponential(10, shape)),
            ),
            {},
        )
        for shape in shapes
    ]


# A number of the gamma distribution of shape a >= 1, for each key and counter; nan for other a.
gamma_draw = structural(
    "gamma_draw",
    infer=_infer_gamma_draw,
    reference=_gamma_draw_reference,
    vjp=None,
    no_vjp="the numbers jump where one is rejected; gamma_path has their derivative",
    example=_gamma_draw_examples,
    dtypes="fd",
)


# poisson_draw


def _infer_poisson_draw(key: Type, counter: Type, lam: Type) -> Type:
    got = {"key": key, "counter": counter, "lam": lam}
    check_equal_shapes("poisson_draw", got, ("LQ", "LQ", "fd"))
    return array_type(lam.shape, np.dtype(np.int64))


def _poisson_draw_reference(key: np.ndarray, counter: np.ndarray, lam: np.ndarray) -> np.ndarray:
    elements = zip(key.ravel(), counter.ravel(), lam.ravel().tolist(), strict=True)
    numbers = [_poisson_number(*element) for element in elements]
    return np.array(numbers, np.int64).reshape(lam.shape)


def _poisson_number(key: np.uint64, counter: np.uint64, mean: float) -> int:
    def uniform(stream: int, half: int) -> float:
        words = [np.array(word, np.uint64) for word in (key, counter, stream)]
        return (float(philox_reference(*words, half=half)) + 0.5) * 2.0**-64

    if not 0 <= mean < math.inf:
        return -1
    if mean < 10:
        u, p, result = uniform(0, 0), math.exp(-mean), 0
        while u > p > 0:
            u -= p
            result += 1
            p *= mean / result
        return result
    b = 0.931 + 2.53 * math.sqrt(mean)
    a = -0.059 + 0.02483 * b
    limit = 0.9277 - 3.6224 / (b - 2)
    for trial in itertools.count(1):
        u, v = uniform(trial, 0) - 0.5, uniform(trial, 1)
        distance = 0.5 - abs(u)
        k = math.floor((2 * a / distance + b) * u + mean + 0.43)
        if distance >= 0.07 and v <= limit:
            return k
        if k < 0 or (distance < 0.013 and v > distance):
            continue
        left = math.log(v * (1.1239 + 1.1328 / (b - 3.4)) / (a / distance**2 + b))
        if left <= k * math.log(mean) - mean - math.lgamma(k + 1):
            return k
    raise AssertionError("endless")


def _poisson_draw_examples(rng: "np.random.Generator") -> list[Any]:
    means = np.array([0.0, 0.1, 3.0, 9.99, 10.0, 12.5, 300.0, 1e6])
    keys, counters = (np.arange(8, dtype=np.uint64) + np.uint64(k) for k in (2**40, 7))
    return [
        ((keys, counters, means), {}),
        ((np.tile(keys, 20), np.arange(160, dtype=np.uint64), np.repeat(means, 20)), {}),
        ((keys[:6].reshape(2, 3), counters[:6].reshape(2, 3), means[2:].reshape(2, 3)), {}),
        ((keys[:0], counters[:0], means[:0]), {}),
    ]


# A number of the Poisson distribution with mean lam >= 0, for each key and counter; -1 for nan.
poisson_draw = structural(
    "poisson_draw",
    infer=_infer_poisson_draw,
    reference=_poisson_draw_reference,
    vjp=None,
    example=_poisson_draw_examples,
    dtypes="fd",
)


# gamma_path


def _gamma_path_vjp(g: Node, out: Node, x: Node, a: Node) -> Node:
    # dx/da = -(dP/da) / (dP/dx) at constant P(a, x), the probability of less than x: implicit
    # reparametrization (Figurnov, Mohamed and Mnih, 2018, equation 5). The derivative of P is an
    # integral of log(t) - psi(a), of one sign on the side of x that is taken.
    distance = OPS["subtract"](OPS["log"](out), OPS["digamma"](a))
    slope = OPS["add"](
        OPS["multiply"](distance, gamma_moment(out, a, order=0)), gamma_moment(out, a, order=1)
    )
    return OPS["multiply"](g, slope)


def _infer_gamma_path(x: Type, a: Type) -> Type:
    check_equal_shapes("gamma_path", {"x": x, "a": a}, ("fd", "fd"))
    return x


# The number x of the gamma distribution of shape a, as a function of a. Not in the registry's
# tests: its derivative is not the limit of differences, which see x as a constant.
gamma_path = Op(
    "gamma_path",
    "elementwise",
    ("x", "a"),
    _infer_gamma_path,
    by_argument((None, _gamma_path_vjp)),
    batch_together("gamma_path"),
    lambda x, a: x.copy(),
    "{x}",
    saves=("inputs", "out"),
    dtypes="fd",
    jvp=by_slopes,
)


# gamma_moment


def _gamma_moment_reference(x: np.ndarray, a: np.ndarray, *, order: int) -> np.ndarray:
    t = -3.7 + 0.125 * np.arange(64)
    nodes = np.exp(t - np.exp(-t))
    weights = 0.125 * nodes * (1 + np.exp(-t))
    dtype = x.dtype
    x, a = (np.asarray(value, np.float64)[..., None] for value in (x, a))
    y = nodes / (np.abs(x - a) + np.sqrt(x))
    w = np.where(x > a, np.log1p(y), -y)
    exponent = np.where(x > a, (a - 1) * w - x * y, a * w - x * np.expm1(w))
    sums = (weights * np.exp(exponent) * w**order).sum(-1)
    width = np.where(x > a, 1, -1) / (np.abs(x - a) + np.sqrt(x))
    return (sums * (x * width)[..., 0]).astype(dtype)


def _gamma_moment_vjp_x(g: Node, out: Node, x: Node, a: Node, *, order: int) -> Node:
    # By parts, as x exp(w) exp(a w - x expm1(w)) is a times the exponential less its derivative.
    growth = OPS["divide"](OPS["subtract"](OPS["add"](x, one_like(x)), a), x)
    slope = OPS["multiply"](growth, out)
    if order == 0:
        slope = OPS["subtract"](slope, one_like(x))
    else:
        lower = OPS["divide"](gamma_moment(x, a, order=order - 1), x)
        slope = OPS["subtract"](slope, scaled(lower, order))
    return OPS["multiply"](g, slope)


def one_like(x: Node) -> Node:
    return OPS["literal"](bytes=x.dtype.type(1).tobytes(), dtype=x.dtype)


def _gamma_moment_examples(rng: "np.random.Generator") -> list[Any]:
    # Not at x == a, where the side changes.
    a = np.array([1.0, 1.5, 3.0, 10.0, 200.0, 5.0, 5.0])
    x = np.array([0.1, 4.0, 2.5, 12.0, 190.0, 25.0, 0.01])
    return [
        ((x, a), {"order": 0}),
        ((x, a), {"order": 1}),
        ((x.reshape(1, 7), a.reshape(1, 7)), {"order": 3}),
        ((np.array(2.0), np.array(1.25)), {"order": 2}),
        ((np.zeros((0, 2)), np.zeros((0, 2))), {"order": 0}),
    ]


# x times the integral of w**order exp(a w - x (exp(w) - 1)), from 0 to infinity if x > a, else from
# 0 to minus infinity. With t = x exp(w) that is what the derivatives of incomplete gamma functions
# by a are made of. An order's derivatives are those of the next and of the one before.
gamma_moment = function_of_elements(
    "gamma_moment",
    ("x", "a"),
    reference=_gamma_moment_reference,
    vjp=(_gamma_moment_vjp_x, next_order("gamma_moment", "order")),
    saves=("inputs", "out"),
    example=_gamma_moment_examples,
)
