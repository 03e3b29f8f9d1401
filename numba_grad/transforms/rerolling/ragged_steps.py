"""Steps of a Python loop that are alike but for the lengths of their rows, and add to a sum.

    for k in range(n):                               i, j = rows and columns of all pairs, k < j
        d = x[k + 1 :] - x[k]                ->      d = x[j] - x[i]
        e = e + np.sum(f(d))                         e = e + np.sum(f(d))

Rows of other lengths are other operations, each with kernels of its own to be planned and run: of
1,000 points 1,000 times as many as there are in a step. The rows of all steps, one after the other,
are one array: what is read of another array is read by index arrays, and what all elements of a row
read is repeated. Those of pairs become matrices then (`compiler/passes/pairs_on_grids.py`).

Only sums of all steps are looked for: chains of additions to a total that nobody else reads.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Sequence
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from numba_grad.graph.node import HOLDING, OPS, Node, leaf, record, recording
from numba_grad.graph.survey import are_free
from numba_grad.graph.types import CPU, TupleType
from numba_grad.graph.walk import lets_gradients_through, toposort
from numba_grad.immutable import NamedTuple
from numba_grad.ops.families import axes_params, broadcast_to, full, reshape
from numba_grad.ops.movement import slice_params
from numba_grad.transforms.control_flow.independent_steps import adds
from numba_grad.transforms.loop_sizes import FEWEST_STEPS
from numba_grad.transforms.rerolling.rerolled import Rerolled, RerolledLoops

if TYPE_CHECKING:
    from numba_grad.transforms.read_at_calls import ReadAtCalls

_ADD, _SUBTRACT, _SUM, _SLICE = OPS["add"], OPS["subtract"], OPS["sum"], OPS["slice"]
_RESHAPE, _STRETCH, _TRANSPOSE = OPS["reshape"], OPS["broadcast_to"], OPS["transpose"]
_GATHER, _SCATTER_ADD, _LITERAL = OPS["gather"], OPS["scatter_add"], OPS["literal"]
_MOST_NODES = 256  # of a step
_LOOKS_AT_A_NODE = 2  # of a graph, at most, to compare steps: one where they are found at once
_MOST_ELEMENTS = 1 << 24  # of all rows
# Params that say how long rows are and where they begin, and what a number is.
_OF_STEPS = frozenset({"starts", "sizes", "shape", "bytes"})


class _Chain(NamedTuple):
    """total = total + term, again and again."""

    base: Node  # the total before
    sums: list[Node]
    terms: list[Node]


class _Different(Exception):
    """The steps are not alike, or do what is not known here."""


class _TooLong(Exception):
    """To go on looking would take longer than all else that is done about a graph."""


def joined_ragged_steps(
    order: Sequence[Node], fixed: Collection[Node], read_at_calls: "ReadAtCalls | None"
) -> RerolledLoops | None:
    """The first such steps among `order`, inputs before users: the last total of the chain has
    another term then, and who reads it is not concerned.

    `fixed`: those that somebody else knows, which stay.
    """
    comparison = _Comparison(_LOOKS_AT_A_NODE * len(order))
    for chain in _chains(order, fixed):
        try:
            with recording(True):
                steps = _JoinedSteps(chain, fixed, read_at_calls, comparison)
                return RerolledLoops(steps.joined(order[-1].serial))
        except _Different:
            continue
        except _TooLong:
            break
    return None


def _chains(order: Sequence[Node], fixed: Collection[Node]) -> list[_Chain]:
    readers = Counter([x for node in order for x in node.inputs])
    readers.update(fixed)
    found: dict[Node, _Chain] = {}  # by the last total
    for node in order:
        if node.op is not _ADD and node.op is not _SUBTRACT:
            continue
        pairs = [x for x in (node.inputs, node.inputs[::-1]) if _is_link(node, *x)]
        goes_on = [x for x in pairs if x[0] in found and readers[x[0]] == 1]
        goes_on = [x for x in goes_on if found[x[0]].sums[-1].op is node.op]
        if goes_on:
            total, term = goes_on[0]
            chain = found[node] = found.pop(total)
            chain.sums.append(node)
            chain.terms.append(term)
        elif pairs:
            total, term = pairs[0]
            found[node] = _Chain(total, [node], [term])
    long = [x for x in found.values() if len(x.sums) >= FEWEST_STEPS]
    return [x for x in long if all(are_free(x.sums[:-1]))]


def _is_link(node: Node, total: Node, term: Node) -> bool:
    return adds(node, total) and term.type is node.type and node.type.device == CPU


class _JoinedSteps:
    """What the terms of a chain come to, all at once.

    One of the steps says what is done; of each of its nodes, what is in its place in all steps is a
    column. All that differs from step to step is joined along a first axis: that of steps, or, in
    place of the axis whose length differs, that of all rows.
    """

    def __init__(
        self,
        chain: _Chain,
        fixed: Collection[Node],
        read_at_calls: "ReadAtCalls | None",
        comparison: "_Comparison",
    ) -> None:
        self.chain = chain
        self.read_at_calls = read_at_calls
        self.root = chain.terms[len(chain.terms) // 2]
        joined = self._compared(comparison)
        self.is_joined = [x is not None for x in joined]
        of_root = joined[chain.terms.index(self.root)]
        assert of_root is not None
        self.columns = {x: [places[x] for places in joined if places is not None] for x in of_root}
        order = toposort([self.root], stop=lambda x: x not in of_root)
        self.order = [x for x in order if x in of_root]
        inner = {x for column in self.columns.values() for x in column}
        if not inner.isdisjoint(fixed):
            raise _Different
        if not all(are_free([x for x in inner if x.op not in HOLDING])):
            raise _Different
        self.lengths = self._lengths()
        self.axes = {x: self._ragged_axis(x) for x in self.order}
        self.count, self.size = len(self.lengths), int(self.lengths.sum())
        if self.size > _MOST_ELEMENTS:
            raise _Different
        self.step_of_row = np.repeat(np.arange(self.count), self.lengths)
        self.steps: dict[Node, Node] = {}  # with a first axis of steps
        self.rows: dict[Node, Node] = {}  # with one of rows
        self.same: set[Node] = set()  # in all steps

    def _compared(self, comparison: "_Comparison") -> list[dict[Node, Node] | None]:
        """For each term what is at the place of each node of the root; None if it stays a term."""
        found: list[dict[Node, Node] | None] = []
        first: dict[Node, Node] | None = None
        terms = self.chain.terms
        may_be_alike = sum(term is not self.root for term in terms)
        for term in terms:
            places = None if term is self.root else comparison.places(self.root, term)
            found.append(places)
            if places is not None:
                first = places if first is None else first
                if places.keys() != first.keys():
                    raise _Different
            else:
                may_be_alike -= term is not self.root
            if may_be_alike < FEWEST_STEPS:
                raise _Different
        assert first is not None
        own = {x: x for x in first}
        return [own if x is self.root else y for x, y in zip(terms, found, strict=True)]

    # Lengths

    def _shapes(self, node: Node) -> np.ndarray:
        column = self.columns[node]
        return np.array([x.shape for x in column], np.int64).reshape(len(column), len(node.shape))

    def _lengths(self) -> np.ndarray:
        for node in self.order:
            shapes = self._shapes(node)
            differ = np.flatnonzero((shapes != shapes[0]).any(0))
            if len(differ):
                return shapes[:, differ[0]]
        raise _Different  # that is a loop, or broadcasting

    def _ragged_axis(self, node: Node) -> int | None:
        shapes = self._shapes(node)
        differ = np.flatnonzero((shapes != shapes[0]).any(0)).tolist()
        if not differ:
            return None
        if len(differ) > 1 or not np.array_equal(shapes[:, differ[0]], self.lengths):
            raise _Different
        return differ[0]

    def _rest(self, node: Node) -> tuple[int, ...]:
        """The axes of one row, or of one step."""
        axis = self.axes[node]
        return node.shape if axis is None else (*node.shape[:axis], *node.shape[axis + 1 :])

    # Results

    def joined(self, newest: int) -> Rerolled:
        """`newest`: the number of the last node that was there before."""
        for node in self.order:
            if self._is_same(node):
                self.same.add(node)
                continue
            axis = self.axes[node]
            if any(self._is_ragged(x) for x in node.inputs) and axis is None:
                self.steps[node] = self._sum_of_rows(node)
                self.rows[node] = self._repeated(self.steps[node])
                continue
            if axis is None:
                self.steps[node] = self._made(node, self.steps)
            self.rows[node] = self._made(node, self.rows)
        total = self._total()
        if total.type is not self.root.type:
            raise _Different
        base, last, terms = self.chain.base, self.chain.sums[-1], self.chain.terms
        others = [x for x, is_joined in zip(terms, self.is_joined, strict=True) if not is_joined]
        added = others if self.is_joined[-1] else [total, *others[:-1]]
        for term in added:
            base = record(last.op, (base, term), last.params)
        inputs = base, total if self.is_joined[-1] else terms[-1]
        self._date(inputs, newest)
        made = Rerolled(self.count, [*self._inner(), *self.chain.sums[:-1]], ())
        made.others[last] = {place: (1, x) for place, x in enumerate(inputs)}
        return made

    def _inner(self) -> set[Node]:
        """What nobody computes any more."""
        return {x for node in self.order if node not in self.same for x in self.columns[node]}

    def _date(self, made: Sequence[Node], newest: int) -> None:
        """Inputs have smaller numbers than users: what is new gets those of what goes."""
        free = sorted({x.serial for x in [*self._inner(), *self.chain.sums[:-1]]})
        given: dict[Node, int] = {}
        for node in toposort(made, stop=lambda x: x.serial <= newest):
            if node.serial > newest:
                oldest = max([given.get(x, x.serial) for x in node.inputs], default=0)
                place = bisect_right(free, oldest)
                if place == len(free) or free[place] > self.chain.sums[-1].serial:
                    raise _Different
                given[node] = free.pop(place)
        for node, serial in given.items():
            node.serial = serial

    def _total(self) -> Node:
        node = self.root
        if node.op is _SUM and self._is_ragged(node.inputs[0]):
            joined = self._summed_in_rows(node)
        elif node in self.steps:
            joined = self.steps[node]
        else:
            raise _Different
        return record(_SUM, (joined,), axes_params((0,)))

    # Nodes

    def _is_ragged(self, node: Node) -> bool:
        return self.axes.get(node) is not None

    def _is_known(self, node: Node) -> bool:
        """Whether it is the same in all steps."""
        return node not in self.columns or node in self.same

    def _is_same(self, node: Node) -> bool:
        if self.axes[node] is not None or not all(map(self._is_known, node.inputs)):
            return False
        return node.op not in HOLDING and all(
            x.params is node.params or x.params == node.params for x in self.columns[node]
        )

    def _made(self, node: Node, forms: dict[Node, Node]) -> Node:
        """What a node is for all rows, or, for all steps."""
        if node.op in (*HOLDING, _LITERAL):
            made = self._of_values(node, forms)
        elif node.op is _SLICE:
            [x] = node.inputs
            made = self._read(node, forms) if self._is_known(x) else self._part(node, forms)
        else:
            rule = _RULES.get(node.op) or _RULES.get(node.op.family)
            if rule is None:
                raise _Different
            made = rule(self, node, forms)
        if made.shape != (self._count_of(forms), *self._rest(node)):
            raise _Different
        return made

    def _count_of(self, forms: dict[Node, Node]) -> int:
        return self.size if forms is self.rows else self.count

    def _repeated(self, of_steps: Node) -> Node:
        return _GATHER(of_steps, leaf(self.step_of_row), checked=False)

    # Values

    def _of_values(self, node: Node, forms: dict[Node, Node]) -> Node:
        column, axis = self.columns[node], self.axes[node]
        if any(x.requires_grad for x in column):
            raise _Different
        places = [
            None if self.read_at_calls is None else self.read_at_calls.place_of(x) for x in column
        ]
        if any(x is not None for x in places):
            return self._of_one_array(node, places, forms)
        if node.op is _LITERAL:
            values = [np.frombuffer(x.params["bytes"], x.dtype)[0] for x in column]
        else:
            values = [x.value for x in column]
        if axis is not None:
            return leaf(np.concatenate([np.moveaxis(x, axis, 0) for x in values]))
        joined = np.array(values, node.dtype)
        return leaf(joined[self.step_of_row] if forms is self.rows else joined)

    def _of_one_array(
        self,
        node: Node,
        places: Sequence[tuple[Hashable, int] | None],
        forms: dict[Node, Node],
    ) -> Node:
        """Parts of an array that is read at each call: one of them has all the others in it."""
        column, axis = self.columns[node], self.axes[node]
        assert self.read_at_calls is not None
        known = [x for x in places if x is not None]
        if len(known) < len(column) or len({key for key, _ in known}) > 1:
            raise _Different
        if axis is None:
            joined = self.read_at_calls.array_of(column)
            if joined is None:
                raise _Different
            return self._repeated(joined) if forms is self.rows else joined
        offsets = np.array([offset for _, offset in known])
        whole = int(np.argmax(self.lengths))
        stride = self.read_at_calls.stride_of(column[whole], axis)
        starts, left = np.divmod(offsets - offsets[whole], max(stride, 1))
        ends = starts + self.lengths
        if stride <= 0 or left.any() or starts.min() < 0 or ends.max() > self.lengths[whole]:
            raise _Different
        return _gathered(column[whole], [axis], [self._indices(starts, 1)])

    def _indices(self, starts: np.ndarray, step: int) -> np.ndarray:
        """Of all rows of a step, from its start on."""
        first_rows = np.cumsum(self.lengths) - self.lengths
        within = np.arange(self.size) - first_rows[self.step_of_row]
        return starts[self.step_of_row] + step * within

    def _read(self, node: Node, forms: dict[Node, Node]) -> Node:
        """Parts of something that is the same in all steps, by index arrays."""
        [x], params = node.inputs, node.params
        starts = np.array([y.params["starts"] for y in self.columns[node]])
        sizes = np.array([y.params["sizes"] for y in self.columns[node]])
        moving = np.flatnonzero((starts != starts[0]).any(0) | (sizes != sizes[0]).any(0)).tolist()
        indices = []
        for axis in moving:
            if (sizes[:, axis] != sizes[0, axis]).any():
                indices.append(self._indices(starts[:, axis], params["steps"][axis]))
            elif sizes[0, axis] == 1:
                own = np.ascontiguousarray(starts[:, axis])
                indices.append(own[self.step_of_row] if forms is self.rows else own)
            else:
                raise _Different
        first = [0 if k in moving else n for k, n in enumerate(params["starts"])]
        own = [x.shape[k] if k in moving else n for k, n in enumerate(params["sizes"])]
        steps = [1 if k in moving else n for k, n in enumerate(params["steps"])]
        if tuple(own) != x.shape:
            x = record(_SLICE, (x,), slice_params(tuple(first), tuple(own), tuple(steps)))
        made = _gathered(x, moving, indices)
        return reshape(made, (made.shape[0], *self._rest(node)))

    # Operations

    def _aligned(self, x: Node, node: Node, forms: dict[Node, Node]) -> Node:
        """An operand of a node that broadcasts: with all axes of a row, or of a step, after the
        first one; or without the first one, if it is the same for all."""
        axis = self.axes[node]
        own = None if axis is None else axis - len(node.shape) + len(x.shape)
        own_axis = self.axes.get(x)
        has_axis = own is not None and own >= 0
        if own_axis is not None and own_axis != own:
            raise _Different
        if has_axis and own_axis is None and x.shape[own] != 1:  # type: ignore[index]
            raise _Different
        rest = (*x.shape[:own], *x.shape[own + 1 :]) if has_axis else x.shape  # type: ignore[operator]
        if self._is_known(x):
            return reshape(x, rest)
        missing = len(self._rest(node)) - len(rest)
        return reshape(forms[x], (self._count_of(forms), *(1,) * missing, *rest))

    def _elementwise(self, node: Node, forms: dict[Node, Node]) -> Node:
        inputs = [self._aligned(x, node, forms) for x in node.inputs]
        return record(node.op, tuple(inputs), node.params)

    def _stretched(self, node: Node, forms: dict[Node, Node]) -> Node:
        [x] = node.inputs
        shape = self._count_of(forms), *self._rest(node)
        return broadcast_to(self._aligned(x, node, forms), shape)

    def _reshaped(self, node: Node, forms: dict[Node, Node]) -> Node:
        [x] = node.inputs
        axis, own = self.axes[node], self.axes.get(x)
        if axis is not None and (own is None or prod(x.shape[:own]) != prod(node.shape[:axis])):
            raise _Different
        return reshape(forms[x], (self._count_of(forms), *self._rest(node)))

    def _transposed(self, node: Node, forms: dict[Node, Node]) -> Node:
        [x] = node.inputs
        own = self.axes.get(x)
        order = [k for k in node.params["axes"] if k != own]
        moved = [1 + k - (own is not None and k > own) for k in order]
        return _TRANSPOSE(forms[x], axes=(0, *moved))

    def _part(self, node: Node, forms: dict[Node, Node]) -> Node:
        """A slice that is the same in all rows, or steps."""
        [x], params, own = node.inputs, node.params, self.axes.get(node.inputs[0])
        for y, length in zip(self.columns[node], self.lengths.tolist(), strict=True):
            sizes = [*params["sizes"]]
            if own is not None:
                sizes[own] = length
            is_whole = own is None or (y.params["starts"][own], params["steps"][own]) == (0, 1)
            if (
                y.params["starts"] != params["starts"]
                or y.params["sizes"] != tuple(sizes)
                or not is_whole
            ):
                raise _Different
        kept = [k for k in range(len(x.shape)) if k != own]
        starts, sizes, steps = (
            tuple([params[key][k] for k in kept]) for key in ("starts", "sizes", "steps")
        )
        dropped = tuple([1 + kept.index(k) for k in params.get("dropped", ())])
        count = self._count_of(forms)
        whole = slice_params((0, *starts), (count, *sizes), (1, *steps), dropped)
        return record(_SLICE, (forms[x],), whole)

    def _summed(self, node: Node, forms: dict[Node, Node]) -> Node:
        """Over other axes than that of rows."""
        [x] = node.inputs
        own = self.axes.get(x)
        axes = [k for k in node.params["axes"] if k != own]
        moved = tuple(sorted([1 + k - (own is not None and k > own) for k in axes]))
        return record(node.op, (forms[x],), axes_params(moved)) if moved else forms[x]

    def _summed_in_rows(self, node: Node) -> Node:
        if node.op is not _SUM or self.axes[node.inputs[0]] not in node.params["axes"]:
            raise _Different
        return self._summed(node, self.rows)

    def _sum_of_rows(self, node: Node) -> Node:
        """The sum of the rows of each step."""
        summed = self._summed_in_rows(node)
        before = full(0, (self.count, *summed.shape[1:]), summed.dtype)
        return _SCATTER_ADD(before, summed, leaf(self.step_of_row), checked=False)


_Rule = Callable[[_JoinedSteps, Node, dict[Node, Node]], Node]
_RULES: dict[object, _Rule] = {
    "elementwise": _JoinedSteps._elementwise,
    _STRETCH: _JoinedSteps._stretched,
    _RESHAPE: _JoinedSteps._reshaped,
    _TRANSPOSE: _JoinedSteps._transposed,
    _SUM: _JoinedSteps._summed,
}


def _gathered(x: Node, axes: Sequence[int], indices: Sequence[np.ndarray]) -> Node:
    """Elements of `x` along some axes, one after the other, by its other axes."""
    order = [*axes, *[k for k in range(len(x.shape)) if k not in axes]]
    first = x if order == sorted(order) else _TRANSPOSE(x, axes=tuple(order))
    return _GATHER(first, *map(leaf, indices), checked=False)


class _Comparison:
    """Compares steps, node by node: so many in all.

    Steps that have their nodes to themselves are no more than the graph. Where each is made of what
    those before have left, as the columns of a Cholesky factor, each is a history of its own.
    """

    def __init__(self, most: int) -> None:
        self.left = most

    def places(self, root: Node, other: Node) -> dict[Node, Node] | None:
        """What is at the place of each node of a step in another one; None if they are not alike.
        What is the same in both is in no place."""
        found: dict[Node, Node] = {}
        stack = [(root, other)]
        while stack:
            x, y = stack.pop()
            if x is y:
                if x in found:
                    return None
                continue
            if x in found:
                if found[x] is not y:
                    return None
                continue
            if self.left == 0:
                raise _TooLong
            self.left -= 1
            if len(found) == _MOST_NODES or not _are_alike(x, y):
                return None
            found[x] = y
            stack += zip(x.inputs, y.inputs, strict=True)
        return found


def _are_alike(x: Node, y: Node) -> bool:
    if not (lets_gradients_through(x) and lets_gradients_through(y)):
        return False  # here gradients would
    if x.op is not y.op or isinstance(x.type, TupleType) or isinstance(y.type, TupleType):
        return False
    if x.dtype != y.dtype or len(x.shape) != len(y.shape) or len(x.inputs) != len(y.inputs):
        return False
    if x.params is y.params:
        return True
    return x.params.keys() == y.params.keys() and all(
        key in _OF_STEPS or value == y.params[key] for key, value in x.params.items()
    )
