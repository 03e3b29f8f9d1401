"""sum over i of f(i, j) -> sum over j of f(j, i), or minus that, where it is computed anyway.

Interactions of all pairs have such sums: what i does to j is what j does to i, or its opposite.
Their forces are then one pass over all pairs instead of two.

Two values are compared as terms: what they compute at symbolic indices, operands of commutative
operations in a fixed order, signs moved outwards. A sign is moved only through operations where
that changes no result but the sign of a zero, and a sum does not show the signs of the zeros in it.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from numba_grad.compiler.loop_nests.iteration_spaces import loop_axes, space_of
from numba_grad.dtypes import is_floating
from numba_grad.graph.node import Node
from numba_grad.graph.walk import substitute, toposort
from numba_grad.immutable import immutable
from numba_grad.ops.families import zeros_like

# At which element of each axis: a symbol, or 0 where the axis has one element.
Indices = tuple[object, ...]


def mirrored_sums(outputs: list[Node]) -> list[Node]:
    """`outputs`, with each pair of such sums computed as one."""
    sums = [node for node in toposort(outputs) if is_sum_over_one_of_two_loops(node)]
    if len(sums) < 2:
        return outputs
    replacement: dict[Node, Node] = {}
    terms = Terms()
    kept: dict[tuple[object, ...], tuple[Node, _Term]] = {}
    # Of a pair the later axis is summed: along it arrays are contiguous.
    for node in sorted(sums, key=lambda node: -node.params["axes"][0]):
        term = terms.of_summand(node)
        key = (node.type, space_of(node.inputs[0].shape), term.number)
        other, own = kept.setdefault(key, (node, term))
        if other is not node:  # over the other axis, or of an array that is its own transpose
            # 0 - x rather than -x: a sum of zeros is 0, not -0.
            replacement[node] = other if own.sign == term.sign else zeros_like(other) - other
    return substitute(outputs, replacement) if replacement else outputs


def is_sum_over_one_of_two_loops(node: Node) -> bool:
    """Whether this is a real sum over one long axis of a value with several."""
    if node.op.name != "sum" or not is_floating(node.dtype) or len(node.params["axes"]) != 1:
        return False
    loops = loop_axes(node.inputs[0].shape)
    return len(loops) > 1 and node.params["axes"][0] in loops


@immutable
class _Term:
    """A value as `sign * term number`."""

    number: int
    sign: int = 1
    # Whether the sign of a zero may be another one: where signs were moved.
    is_loose: bool = False


class Terms:
    """Numbers for terms, equal for equal ones."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[object, ...], int] = {}
        self._known: dict[tuple[Node, Indices], _Term] = {}
        self._zeros: set[int] = set()  # numbers of literal zeros

    def of_summand(self, node: Node) -> _Term:
        """What `node` sums, at an element of its result, named by its position there."""
        (summed,) = node.params["axes"]
        names: list[object] = [f"k{axis}" for axis in range(len(node.shape))]
        names.insert(summed, "summed")
        return self.term(node.inputs[0], tuple(names))

    def term(self, node: Node, indices: Indices) -> _Term:
        """The term of one element; iterative, since graphs are deep."""
        start = (node, _normalized(node, indices))
        stack = [start]
        while stack:
            current = stack[-1]
            if current in self._known:
                stack.pop()
                continue
            reads = _reads(*current)
            missing = [read for read in reads if read not in self._known]
            if missing:
                stack += missing
            else:
                self._known[current] = self._combined(*current, [self._known[r] for r in reads])
                stack.pop()
        return self._known[start]

    def _number(self, *key: object) -> int:
        return self._numbers.setdefault(key, len(self._numbers))

    def _combined(self, node: Node, indices: Indices, reads: list[_Term]) -> _Term:
        name, params = node.op.name, tuple(node.params.items())
        if node.op.family == "movement" and reads:
            return reads[0]
        if name == "sum" and reads:
            (x,) = reads
            return _Term(self._number("sum", x.number), x.sign, x.is_loose or x.sign == -1)
        if node.op.family in ("literal", "iota"):
            number = self._number(node.op, params, indices)
            if name == "literal" and np.frombuffer(node.params["bytes"], node.dtype)[0] == 0:
                self._zeros.add(number)
            return _Term(number)
        if node.op.family != "elementwise":
            return _Term(self._number(node, indices))
        rule = _SIGN_RULES.get(name)
        if rule is not None and is_floating(node.dtype):
            found = rule(self, *reads)
            if found is not None:
                return found
        if name in _EVEN or (name == "integer_power" and params[0][1] % 2 == 0):
            return _Term(self._number(node.op, params, reads[0].number))
        if any(x.is_loose for x in reads) and name not in _BLIND_TO_SIGNS_OF_ZEROS:
            return _Term(self._number(node, indices))
        numbers = [x.number if x.sign == 1 else self._number("minus", x.number) for x in reads]
        if name in _COMMUTATIVE:
            numbers.sort()
        return _Term(self._number(node.op, params, node.dtype, *numbers))

    # Real arithmetic with signs

    def add(self, x: _Term, y: _Term) -> _Term:
        if x.sign != y.sign:  # x + -y is x - y, also for zeros
            positive, negative = (x, y) if x.sign == 1 else (y, x)
            return self.difference(positive, negative, x.is_loose or y.is_loose)
        number = self._number("add", *sorted((x.number, y.number)))
        # -x + -y is -(x + y), but for x = -y
        return _Term(number, x.sign, x.sign == -1 or x.is_loose or y.is_loose)

    def subtract(self, x: _Term, y: _Term) -> _Term:
        return self.add(x, replace(y, sign=-y.sign))

    def difference(self, x: _Term, y: _Term, is_loose: bool) -> _Term:
        """x - y, both taken without their signs."""
        if x.number <= y.number:
            return _Term(self._number("difference", x.number, y.number), 1, is_loose)
        return _Term(self._number("difference", y.number, x.number), -1, True)

    def negative(self, x: _Term) -> _Term:
        return replace(x, sign=-x.sign)

    def multiply(self, x: _Term, y: _Term) -> _Term:
        number = self._number("multiply", *sorted((x.number, y.number)))
        if x.number == y.number and x.sign == y.sign:
            return _Term(number)  # both zeros have the same sign
        return _Term(number, x.sign * y.sign, x.is_loose or y.is_loose)

    def divide(self, x: _Term, y: _Term) -> _Term | None:
        if y.is_loose:  # 1 / 0 is not 1 / -0
            return None
        return _Term(self._number("divide", x.number, y.number), x.sign * y.sign, x.is_loose)

    def where(self, condition: _Term, x: _Term, y: _Term) -> _Term | None:
        # A zero takes the sign of the other branch.
        sign = y.sign if x.number in self._zeros else x.sign
        if any(part.sign != sign and part.number not in self._zeros for part in (x, y)):
            return None
        number = self._number("where", condition.number, x.number, y.number)
        return _Term(number, sign, x.is_loose or y.is_loose or x.sign != y.sign)


_SIGN_RULES: dict[str, Callable[..., _Term | None]] = {
    "add": Terms.add,
    "subtract": Terms.subtract,
    "negative": Terms.negative,
    "multiply": Terms.multiply,
    "divide": Terms.divide,
    "where": Terms.where,
}
_EVEN = ("square", "absolute", "cos", "cosh")  # f(-x) is f(x), also for zeros
_COMPARISONS = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
_BLIND_TO_SIGNS_OF_ZEROS = (*_COMPARISONS, *_EVEN, "exp", "exp2")
# How far sums are looked into at symbols that other sums bind. Steps of particles that act on each
# other are sums in sums without end, each at one more symbol than the one around it.
_SUMS_IN_SUMS = 1
_COMMUTATIVE = ("add", "multiply", "equal", "not_equal", "logical_and", "logical_or")


def _reads(node: Node, indices: Indices) -> list[tuple[Node, Indices]]:
    """What an element of `node` is made of; nothing where this module does not look inside."""
    if node.op.family == "elementwise":
        return [(x, _normalized(x, indices[len(indices) - len(x.shape) :])) for x in node.inputs]
    match node.op.name:
        case "broadcast_to":
            (x,) = node.inputs
            return [(x, _normalized(x, indices[len(indices) - len(x.shape) :]))]
        case "transpose":
            (x,) = node.inputs
            order = node.params["axes"]
            return [(x, tuple([indices[order.index(axis)] for axis in range(len(order))]))]
        case "slice":
            (x,) = node.inputs
            if x.shape == node.shape:  # the whole of it
                return [(x, indices)]
        case "reshape":
            (x,) = node.inputs
            if _long_axes(x) == _long_axes(node):
                rest = iter([i for i, n in zip(indices, node.shape, strict=True) if n != 1])
                return [(x, tuple([0 if n == 1 else next(rest) for n in x.shape]))]
        case "sum":
            (x,) = node.inputs
            rest = iter(indices)
            # Bound symbols: a level that is free in `indices`, the axis, its extent.
            level = 1 + max((i[0] for i in indices if isinstance(i, tuple)), default=0)
            if level > _SUMS_IN_SUMS:
                return []
            inner = [
                (level, axis, n) if axis in node.params["axes"] else next(rest)
                for axis, n in enumerate(x.shape)
            ]
            return [(x, _normalized(x, tuple(inner)))]
    return []


def _long_axes(node: Node) -> list[int]:
    return [n for n in node.shape if n != 1]


def _normalized(node: Node, indices: Indices) -> Indices:
    return tuple([0 if n == 1 else i for i, n in zip(indices, node.shape, strict=True)])
