"""Shifts that change no result: the largest element that is taken off before powers are taken.

    e = np.exp(x - np.max(x, axis=1, keepdims=True));  p = e / np.sum(e, axis=1, keepdims=True)

Whatever is taken off, `p` is the same. So the cotangent of the largest element is 0, and to find
that out by rounding, which elements are the largest and how many, takes as long as all the rest.

What depends on a shift does so as `exp(power * shift)` times, or as `times * shift` more than,
something that does not: products add powers, quotients and logarithms take them off again. Where
each way from the shift to a result comes to where neither is left, nothing flows back to it. Of an
array of shifts all must be elements that depend on one of them, or sums of all.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from math import prod

from numba_grad.dtypes import is_floating
from numba_grad.graph.node import OPS, Node
from numba_grad.graph.walk import is_nobodys
from numba_grad.immutable import immutable

_SHIFTS = (OPS["max"], OPS["min"])
_MOST_LOOKS = 1 << 15  # at nodes; more take longer than is gained


@immutable
class _Dependence:
    """How a node depends on the shift."""

    power: float  # it has the factor exp(power * shift),
    times: float  # or the term times * shift
    axes: tuple[int | None, ...]  # by axis of the node: that of the shift
    is_total: bool = False  # whether the shift is the sum of all of its elements

    @property
    def is_factor(self) -> bool:
        return self.times == 0

    @property
    def is_term(self) -> bool:
        return self.power == 0


class _Unknown(Exception):
    """It depends on the shift in some other way."""


def shifts_without_effect(history: Sequence[Node], roots: Collection[Node]) -> set[Node]:
    """The largest and smallest elements among `history`, inputs before users, that no root depends
    on: nothing flows to them."""
    found = [
        k
        for k, node in enumerate(history)
        if node.op in _SHIFTS and is_nobodys(node) and is_floating(node.dtype)
    ]
    if len(found) * len(history) > _MOST_LOOKS:
        return set()
    return {history[k] for k in found if _has_no_effect(history[k], history[k + 1 :], roots)}


def _has_no_effect(shift: Node, after: Sequence[Node], roots: Collection[Node]) -> bool:
    own = tuple([k if n != 1 else None for k, n in enumerate(shift.shape)])
    known = {shift: _Dependence(0.0, 1.0, own)}
    try:
        for node in after:
            given = [known.get(x) for x in node.inputs]
            if any(given):
                result = _result(node, given)
                if result.power or result.times:
                    known[node] = result
    except _Unknown:
        return False
    return not any(x in known or x is shift for x in roots) and len(known) > 1


def _result(node: Node, given: Sequence[_Dependence | None]) -> _Dependence:
    rule = _RULES.get(node.op.name)
    if rule is None or (node.autograd is not None):
        raise _Unknown
    return rule(node, given)


# Elementwise


def _aligned(node: Node, given: Sequence[_Dependence | None]) -> list[_Dependence | None]:
    """Along the axes of `node`: all must depend on the same elements of the shift."""
    rank = len(node.shape)
    found = [
        None if x is None else replace(x, axes=(*(None,) * (rank - len(x.axes)), *x.axes))
        for x in given
    ]
    if len({(x.axes, x.is_total) for x in found if x is not None}) > 1:
        raise _Unknown
    return found


def _required(condition: bool) -> None:
    if not condition:
        raise _Unknown


def _sum(node: Node, given: Sequence[_Dependence | None], sign: float) -> _Dependence:
    x, y = _aligned(node, given)
    if x is None or y is None:
        [one] = [z for z in (x, y) if z is not None]
        _required(one.is_term)
        return one if y is None else replace(one, times=sign * one.times)
    if x.is_factor and y.is_factor:
        _required(x.power == y.power)
        return x
    _required(x.is_term and y.is_term)
    return replace(x, times=x.times + sign * y.times)


def _product(node: Node, given: Sequence[_Dependence | None], sign: float) -> _Dependence:
    x, y = _aligned(node, given)
    _required(all(z is None or z.is_factor for z in (x, y)))
    power = (0.0 if x is None else x.power) + sign * (0.0 if y is None else y.power)
    [one, *_] = [z for z in (x, y) if z is not None]
    return replace(one, power=power)


def _add(node: Node, given: Sequence[_Dependence | None]) -> _Dependence:
    return _sum(node, given, 1.0)


def _subtract(node: Node, given: Sequence[_Dependence | None]) -> _Dependence:
    return _sum(node, given, -1.0)


def _multiply(node: Node, given: Sequence[_Dependence | None]) -> _Dependence:
    return _product(node, given, 1.0)


def _divide(node: Node, given: Sequence[_Dependence | None]) -> _Dependence:
    return _product(node, given, -1.0)


def _only(given: Sequence[_Dependence | None]) -> _Dependence:
    [x] = given
    _required(x is not None)
    assert x is not None
    return x


def _negative(node: Node, given: Sequence[_Dependence | None]) -> _Dependence:
    x = _only(given)
    return replace(x, times=-x.times)


def _exp(node: Node, given: Sequence[_Dependence | None]) -> _Dependence:
    x = _only(given)
    _required(x.is_term)
    return replace(x, power=x.times, times=0.0)


def _log(node: Node, given: Sequence[_Dependence | None]) -> _Dependence:
    x = _only(given)
    _required(x.is_factor)
    return replace(x, power=0.0, times=x.power)


def _same(node: Node, given: Sequence[_Dependence | None]) -> _Dependence:
    _required(is_floating(node.dtype))
    return _only(given)


def _powered(exponent: Callable[[Node], float]) -> "_Rule":
    def rule(node: Node, given: Sequence[_Dependence | None]) -> _Dependence:
        x = _only(given)
        _required(x.is_factor)
        return replace(x, power=x.power * exponent(node))

    return rule


def _where(node: Node, given: Sequence[_Dependence | None]) -> _Dependence:
    condition, x, y = _aligned(node, given)
    _required(condition is None and x is not None and x == y)
    assert x is not None
    return x


# Movements and sums


def _reshape(node: Node, given: Sequence[_Dependence | None]) -> _Dependence:
    x, [source] = _only(given), node.inputs
    kept = [axis for axis, n in zip(x.axes, source.shape, strict=True) if n != 1]
    _required([n for n in source.shape if n != 1] == [n for n in node.shape if n != 1])
    rest = iter(kept)
    return replace(x, axes=tuple([None if n == 1 else next(rest) for n in node.shape]))


def _broadcast(node: Node, given: Sequence[_Dependence | None]) -> _Dependence:
    [x] = _aligned(node, given)
    assert x is not None
    return x


def _transpose(node: Node, given: Sequence[_Dependence | None]) -> _Dependence:
    x = _only(given)
    return replace(x, axes=tuple([x.axes[axis] for axis in node.params["axes"]]))


def _slice(node: Node, given: Sequence[_Dependence | None]) -> _Dependence:
    x, [source], params = _only(given), node.inputs, node.params
    whole = zip(x.axes, source.shape, params["sizes"], params["steps"], strict=True)
    _required(all(axis is None or (n, 1) == (size, step) for axis, n, size, step in whole))
    dropped = params.get("dropped", ())
    return replace(x, axes=tuple([axis for k, axis in enumerate(x.axes) if k not in dropped]))


def _reduced(node: Node, given: Sequence[_Dependence | None]) -> _Dependence:
    x, [source], summed = _only(given), node.inputs, node.params["axes"]
    count = prod([n for k, n in enumerate(source.shape) if k in summed and x.axes[k] is None])
    kept = tuple([axis for k, axis in enumerate(x.axes) if k not in summed])
    if all(x.axes[k] is None for k in summed):
        return replace(x, axes=kept, times=count * x.times)
    # Of shifts the sum of all is one number.
    _required(x.is_term and not any(axis is not None for axis in kept))
    return replace(x, axes=kept, times=count * x.times, is_total=True)


def _matmul(node: Node, given: Sequence[_Dependence | None]) -> _Dependence:
    x, y = given
    rank = len(node.shape)
    if (x is None) is (y is None) or any(len(z.shape) != rank for z in node.inputs):
        raise _Unknown
    if x is not None:
        _required(x.is_factor and x.axes[-1] is None)
        return replace(x, axes=(*x.axes[:-1], None))
    assert y is not None
    _required(y.is_factor and y.axes[-2] is None)
    return replace(y, axes=(*y.axes[:-2], None, y.axes[-1]))


_Rule = Callable[[Node, Sequence[_Dependence | None]], _Dependence]
_RULES: dict[str, _Rule] = {
    "add": _add,
    "subtract": _subtract,
    "multiply": _multiply,
    "divide": _divide,
    "negative": _negative,
    "exp": _exp,
    "log": _log,
    "cast": _same,
    "identity": _same,
    "square": _powered(lambda node: 2.0),
    "sqrt": _powered(lambda node: 0.5),
    "integer_power": _powered(lambda node: float(node.params["exponent"])),
    "where": _where,
    "reshape": _reshape,
    "broadcast_to": _broadcast,
    "transpose": _transpose,
    "slice": _slice,
    "sum": _reduced,
    "matmul": _matmul,
}
