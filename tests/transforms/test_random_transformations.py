"""Random programs with random transformations of them, up to third derivatives: at equal, shared,
overlapping and zero arguments, also compiled, as the same derivatives by other ways.

The other ways: control flow is Python's, functions have no rules of their own, `vmap` is a loop,
forward mode is reverse mode twice, and nothing is compiled.
"""

import random
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy
import pytest

import numba_grad as ng
import numba_grad.numpy as np
from numba_grad.frontend.inputs import trees
from tests.transforms.test_random_compositions import IN_PYTHON

NUMBERS = [
    *[
        "s",
        "np.sum({v})",
        "np.mean({v})",
        "np.sin({s})",
        "({s} * {s})",
        "np.dot({v}, {v})",
        "{v}[0]",
    ],
    *["np.var({v})", "L.checkpoint(lambda t: np.exp(-t * t) * {s})({s})", "L.own({s}, {s})"],
    *["L.cond({s} > 0.1, lambda t: np.sin(t) * {s}, lambda t: {s} * t, {s})"],
    *["L.switch({i}, [lambda t: t * t, lambda t: t + {s}], {s})", "L.forward({s}, {s})"],
    *["np.sum(L.fori_loop(0, {i}, lambda k, c: np.tanh(c * {v}) + {s}, {v}))"],
    *["L.while_loop(lambda c: c[0] < {i}, lambda c: (c[0] + 1, np.tanh(c[1] * {s})), (0, {s}))[1]"],
    *["L.grad(lambda t: np.sum(np.sin(t * {v})))({s})", "ng.stop_gradient({s}) * {s}"],
    *["L.jvp(lambda t: np.cos(t) * {s}, ({s},), ({s},))[1]"],
    *["L.jit(L.grad(lambda t, u: np.sin(t) * u * {s}))({s}, {s})"],
    *["np.sum(np.abs(np.exp(1j * {v}) * {s} + {v}) ** 2)"],
]
VECTORS = [
    *["x", "y", "np.cos({v})", "({v} * {v})", "({v} - {v})", "({v} * {s})", "{v}[::-1]"],
    *["np.tanh({v})", "({v} / (1.0 + {v} * {v}))", "(np.cumsum({v}) * 0.1)", "np.roll({v}, 1)"],
    *["(lambda t: np.where(t > 0.1, np.log(np.where(t > 0.1, t, 1.0)), {s}))({v})"],
    *["np.concatenate([{v}[:1], {v}[1:] * {v}[:-1]])", "np.stack([{v}, {v} * {s}]).sum(axis=0)"],
    *["{v}[np.arange(len(x)) * 7 % len(x)]", "np.sum(np.outer({v}[:5], {v}), axis=0)"],
    *["L.vmap(lambda t, u: np.sin(t * u) + np.sum({v}[:3]) * t)({v}, {v})"],
    *["L.vmap(L.jit(L.grad(lambda t, u: np.sin(t) * u * u)))({v}, {v})"],
    *["L.vmap(lambda t: L.cond(t > 0.1, np.sin, lambda u: u * {s}, t))({v})"],
    *["L.grad(lambda t, u: np.sum(t * t * u))({v}, {v})", "L.own({v}, {v})", "L.forward({v}, {v})"],
    *["L.jvp(lambda t: np.sin(t) * {v}, ({v},), ({v},))[1]"],
    *["L.checkpoint(lambda t, u: np.sin(t) * u * {s})({v}, {v})"],
    *["L.scan(lambda c, w: (np.sin(c * {s} + w), c * w), {s}, {v})[1]"],
    *["L.fori_loop(0, {i}, lambda k, c: (c[1], np.tanh(c[0] + {v} * {s})), ({v}, {v}))[0]"],
    *["L.cond({s} > {s}, lambda t: np.sin(t) * {v}, lambda t: t * {s}, {v})"],
    *["L.repeated(lambda c: c + 0.1 * (np.roll(c, 1) - c) * {v}, {v})"],
    *["np.imag(({v} + 1j * {v}) * ({v} - 0.5j) * {s})"],
]
RESULTS = ["{n}", "{n}", "{v} * {s}", "({n}, {v})", "dict(a={v} + {s}, b=[{n}, {v}])"]
# How many times each differentiates.
TRANSFORMATIONS = {
    **dict.fromkeys(["grad", "value_and_grad", "jvp", "vjp", "linearize"], 1),
    **dict.fromkeys(["jacfwd", "jacrev"], 1),
    **dict.fromkeys(["hvp", "hessian"], 2),
    **dict.fromkeys(["vmap", "jit", "checkpoint"], 0),
}
LONGEST = (500, 400, 300, 200)  # texts, by the order of the derivative
LARGEST_OF_JACOBIANS = 3


def steps_of(seed: int, size: int) -> list[tuple[str, int]]:
    """Names of transformations, and for each a number that chooses among its variants."""
    random_ = random.Random(seed)
    steps: list[tuple[str, int]] = []
    for _ in range(random_.choice([1, 2, 2, 3])):
        name = random_.choice(list(TRANSFORMATIONS))
        of_jacobian = name in ("jacfwd", "jacrev", "hessian")
        if not of_jacobian or size <= LARGEST_OF_JACOBIANS:
            steps.append((name, random_.randrange(60)))
    while order_of(steps) > 3:
        steps.pop()
    return steps


def order_of(steps: Sequence[tuple[str, int]]) -> int:
    return sum([TRANSFORMATIONS[name] for name, _ in steps])


def text_of(seed: int, size: int) -> str:
    """A function of two vectors and a number, by what a library `L` has."""
    longest = LONGEST[order_of(steps_of(seed, size))]
    random_ = random.Random(seed)
    while True:
        text = _text(random_, size)
        if len(text) < longest:
            return text


def _text(random_: random.Random, size: int) -> str:
    choice = random_.choice
    vectors = [x for x in VECTORS if size <= 17 or ("L.scan" not in x and "L.cond(t" not in x)]
    names = {"s": ["s"], "v": ["x", "y"], "i": ["2", "3", "(np.sum(x) > 0) + 1"]}

    def filled(text: str, depth: int) -> str:
        for hole, patterns in (("s", NUMBERS), ("v", vectors), ("i", names["i"])):
            while "{" + hole + "}" in text:
                is_deep = depth > 0 and random_.random() < 0.3
                inner = choice(patterns if is_deep else names[hole])
                text = text.replace("{" + hole + "}", filled(inner, depth - 1), 1)
        return text

    lines = ["def p(x, y, s):"]
    for k in range(choice([1, 1, 2, 3])):
        kind = choice("svv")
        lines.append(f"    {kind}{k} = {filled(choice(NUMBERS if kind == 's' else vectors), 1)}")
        names[kind].append(f"{kind}{k}")
    number = f"np.sum({names['v'][-1]} * {choice(names['v'])}) + {names['s'][-1]}"
    lines.append(f"    return {filled(choice(RESULTS).replace('{n}', number), 0)}")
    return "\n".join(lines)


def arguments(seed: int, size: int) -> tuple[numpy.ndarray, numpy.ndarray, numpy.ndarray]:
    numbers = numpy.random.default_rng(seed).normal(size=2 * size + 1)
    x, y, s = numbers[:size], numbers[size:-1], numpy.array(numbers[-1])
    pairs = [
        *[(x, x), (x, x.copy()), (x, x[::-1]), (numpy.zeros(size), numpy.zeros(size)), (x, y)],
        *[(numbers[1:-1:2], y), (numbers[:size], numbers[1 : size + 1])],
        *[(numpy.broadcast_to(s, size), y)],
    ]
    return *pairs[seed % len(pairs)], s


def number_of(f: Callable[..., Any]) -> Callable[..., Any]:
    """A number made of all that `f` returns."""
    return lambda *given: sum(
        [np.sum(np.sin(x)) * (0.3 + 0.1 * k) for k, x in enumerate(trees.flatten(f(*given))[0])]
    )


def cosines(tree: Any) -> Any:
    leaves, structure = trees.flatten(tree)
    return trees.unflatten(structure, [np.cos(x) for x in leaves])


def transformed(f: Callable[..., Any], name: str, variant: int, L: Any) -> Callable[..., Any]:
    argnums = [(0, 1, 2), (0, 1), 0, (1,), (1, 0)][variant % 5]
    directions = [lambda given: given, cosines, lambda given: (given[0], given[0], given[2])]
    direction = directions[variant % 3]

    def pulled(*given: Any) -> Any:
        out, pull = L.vjp(f, *given)
        return pull(cosines(out)), pull(out)

    def linear(*given: Any) -> Any:
        out, push = L.linearize(f, *given)
        return push(*direction(given)), out

    def mapped(x: Any, y: Any, s: Any) -> Any:
        stacked = np.stack([x, y]), np.stack([y, x], axis=1), np.stack([s, s])
        ways: list[tuple[Any, tuple[Any, ...]]] = [
            ((0, 1, 0), stacked),
            ((0, None, None), (stacked[0], y, s)),
            ((None, None, 0), (x, y, stacked[2])),
        ]
        return L.vmap(f, ways[variant % 3][0])(*ways[variant % 3][1])

    if name in ("jit", "checkpoint"):
        return getattr(L, name)(f)
    if name in ("jacfwd", "jacrev"):
        return getattr(L, name)(f, argnums)
    if name in ("grad", "value_and_grad", "hessian"):
        return getattr(L, name)(number_of(f), argnums)
    return {
        "jvp": lambda *given: L.jvp(f, given, direction(given)),
        "hvp": lambda *given: L.hvp(number_of(f), given, direction(given)),
        "vjp": pulled,
        "linearize": linear,
        "vmap": mapped,
    }[name]


@ng.custom_vjp
def own(a: Any, b: Any) -> Any:
    return a * np.sin(b)


own.defvjp(
    lambda a, b: (own(a, b), (a, b)),
    lambda kept, g: (g * np.sin(kept[1]), g * kept[0] * np.cos(kept[1])),
)


@ng.custom_jvp
def forward(a: Any, b: Any) -> Any:
    return a * np.sin(b)


forward.defjvp(
    lambda p, t: (forward(*p), t[0] * np.sin(p[1]) + p[0] * np.cos(p[1]) * t[1]),
)


def repeated(f: Callable[[Any], Any], x: Any) -> Any:
    for _ in range(14):
        x = f(x)
    return x


OURS = SimpleNamespace(**{name: getattr(ng, name) for name in ng.__all__ if hasattr(ng, name)})
OURS.own, OURS.forward, OURS.repeated = own, forward, repeated


def _linearize(f: Callable[..., Any], *primals: Any) -> Any:
    """In reverse mode: what pulls cotangents back is linear in them, and pulled back itself."""
    out, pull = ng.vjp(f, *primals)
    leaves, structure = trees.flatten(out)
    zeros = trees.unflatten(structure, [np.zeros(x.shape) for x in leaves])
    _, push = ng.vjp(pull, zeros)
    return out, lambda *tangents: push(tuple(tangents))[0]


def _jvp(f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    out, push = _linearize(f, *primals)
    return out, push(*tangents)


def _mapped(f: Callable[..., Any], in_axes: Any = 0) -> Callable[..., Any]:
    def one_by_one(*given: Any) -> Any:
        axes = in_axes if isinstance(in_axes, tuple) else (in_axes,) * len(given)
        rows = [x if k is None else np.moveaxis(x, k, 0) for x, k in zip(given, axes, strict=True)]
        size = next(len(x) for x, k in zip(rows, axes, strict=True) if k is not None)
        results = [
            trees.flatten(f(*[x if k is None else x[i] for x, k in zip(rows, axes, strict=True)]))
            for i in range(size)
        ]
        return trees.unflatten(
            results[0][1], [*map(np.stack, zip(*[x for x, _ in results], strict=True))]
        )

    return one_by_one


_other_ways: dict[str, Any] = {
    **{"grad": ng.grad, "value_and_grad": ng.value_and_grad, "vjp": ng.vjp, "jit": lambda f: f},
    **{"jvp": _jvp, "linearize": _linearize, "vmap": _mapped, "repeated": repeated},
    **{"jacfwd": ng.jacrev, "jacrev": ng.jacrev},
    "hessian": lambda f, argnums: ng.jacrev(ng.grad(f, argnums), argnums),
    "hvp": lambda f, p, t: _jvp(ng.grad(f, tuple(range(len(p)))), p, t)[1],
    "own": lambda a, b: a * np.sin(b),
    "forward": lambda a, b: a * np.sin(b),
}
OTHER_WAYS = SimpleNamespace(**{**vars(IN_PYTHON), **_other_ways})


def function_of(text: str, steps: Sequence[tuple[str, int]], L: Any) -> Callable[..., Any]:
    names: dict[str, Any] = {"np": np, "ng": ng, "L": L}
    exec(text, names)
    f = names["p"]
    for name, variant in steps:
        f = transformed(f, name, variant, L)
    return lambda *given: [numpy.asarray(x) for x in trees.flatten(f(*given))[0]]


def check(seed: int) -> None:
    size = [1, 3, 17, 300][seed // 8 % 4]
    steps = steps_of(seed, size)
    text = text_of(seed, size)
    expected = function_of(text, steps, OTHER_WAYS)
    f = function_of(text, steps, OURS)
    compiled = function_of(text, [*steps, ("jit", 0)], OURS)
    given = arguments(seed, size)
    x, y, s = given
    for values in (given, (y[::-1] * 0.75, x * 0.5 + 0.25, s + 0.5)):
        wanted = expected(*values)
        # Some are chaotic: what the last bits of their arguments change, rounding may.
        moved = expected(*[x * (1 + 4e-16) for x in values])
        for way in (f, compiled):
            for z, w, m in zip(way(*values), wanted, moved, strict=True):
                scale = max(1.0, float(numpy.max(numpy.abs(w), initial=0.0)))
                atol = 1e-9 * scale + 1e3 * float(numpy.max(numpy.abs(w - m), initial=0.0))
                numpy.testing.assert_allclose(z, w, rtol=0, atol=atol, err_msg=f"{steps}\n{text}")


@pytest.mark.thorough(but="^0$")
@pytest.mark.parametrize("first", range(0, 480, 16))
def test_as_by_other_ways(first: int) -> None:
    with ng.configure(engine="reference"):
        for seed in range(first, first + 16):
            check(seed)
