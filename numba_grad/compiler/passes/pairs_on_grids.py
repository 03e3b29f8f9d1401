"""Pairs and selections by index arrays, as whole arrays of which some elements count.

    i, j = np.triu_indices(n, 1)              i, j = rows, columns
    d = x[i] - x[j]                     ->    d = x[:, None] - x
    e = np.sum(f(d))                          e = np.sum(np.where(i < j, f(d), 0))

    e = np.sum(f(x[mask]))              ->    e = np.sum(np.where(mask, f(x), 0))

An index array is opaque: elements are gathered one by one, and gradients are added one by one. Of
a matrix the compiler makes loops, with vector code, sums of rows and columns in one pass, and
nothing of the size of all pairs in memory. So where all that is made of pairs ends in sums, over
all pairs or those of each row or column, it is computed for the whole matrix, of which the sums
select their elements; and so is what is made of the elements that a known mask selects, of an array
of any rank. That is done once derivatives are taken: what the others come to, as 1 / 0 on the
diagonal, is never multiplied by anything.

Two loops (`for i in range(n): for j in range(i)`) come here as index arrays too: their steps need
nothing of each other (`transforms/control_flow/independent_steps.py`).
"""

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from numba_grad.compiler.passes.diagonals_of_products import is_zero
from numba_grad.compiler.passes.index_domains import Domain, PairDomain, domains_of, indices_of
from numba_grad.compiler.passes.mirrored_sums import Terms
from numba_grad.graph.node import ARGUMENT, LEAF, OPS, Node, leaf, record, recording
from numba_grad.graph.types import TupleType
from numba_grad.graph.walk import in_order_of_recording, rebuilt, substitute, toposort
from numba_grad.immutable import NamedTuple
from numba_grad.ops.families import axes_params, broadcast_to, full, reshape, zeros_like
from numba_grad.ops.movement import region_params, slice_params

_GATHER, _SCATTER_ADD, _SCATTER_SET = OPS["gather"], OPS["scatter_add"], OPS["scatter_set"]
_MOST_CONSTANTS = 1 << 22  # elements of one that is put where a mask selects


class _PairSum(NamedTuple):
    """A sum over the columns of each row, or over the rows of each column."""

    axis: int
    summands: Node  # of the whole matrix


def pairs_on_grids(outputs: list[Node], constants: Mapping[Node, np.ndarray]) -> list[Node]:
    """`outputs` with what is made of pairs, or of selected elements, computed for whole arrays,
    where nothing else is left. What is new in there may be a leaf.

    Parameters
    ----------
    outputs : of a graph whose derivatives are taken
    constants : leaves whose values are the same in all runs
    """
    order = toposort(outputs, stop=lambda x: x.value is not None)
    for domain, axes in domains_of(constants, order).items():
        with recording(False):
            found = _OnGrid(domain, axes, constants).outputs(outputs)
        outputs = outputs if found is None else found
    return outputs


class _OnGrid:
    """What is made of the pairs of one domain, for the whole matrix; or of other elements that are
    selected, for the whole array."""

    def __init__(
        self, domain: Domain, axes: Mapping[Node, int], constants: Mapping[Node, np.ndarray]
    ) -> None:
        self._domain = domain
        self._axes = axes  # of index arrays: rows or columns
        self._constants = constants
        self._sizes = domain.sizes
        self._more = len(domain.sizes) - 1  # axes that a grid has more
        self._numbers = domain.numbers()
        self._pairs = len(self._numbers)
        self._mask = domain.mask()
        # By node and the axis that pairs are along: the node with rows and columns in its place.
        self._grids: dict[tuple[Node, int], Node] = {}
        self._of_pairs: set[tuple[Node, int]] = set()  # those that are not the same for all pairs
        self._done: dict[Node, Node] = {}
        self._sums: dict[Node, _PairSum] = {}

    def outputs(self, outputs: Sequence[Node]) -> list[Node] | None:
        """None if something stays that index arrays are read for, or if it takes too long."""
        # As recorded, which tells steps apart.
        order = in_order_of_recording(toposort(outputs, stop=lambda x: x.value is not None))
        for node in order:
            new = self._sum_of_pairs(node)
            if new is None:
                inputs = tuple([self._done.get(x, x) for x in node.inputs])
                is_same = all(x is y for x, y in zip(inputs, node.inputs, strict=True))
                new = node if is_same or node.value is not None else rebuilt(node, inputs, {})
            self._done[node] = new
            for axis, size in enumerate(() if isinstance(node.type, TupleType) else node.shape):
                if size == self._pairs:
                    self._lift(node, axis)
        found = [self._done[x] for x in outputs]
        after = toposort(found, stop=lambda x: x.value is not None)
        if any(x in self._axes for node in after for x in indices_of(node)):
            return None
        if self._cost() > self._domain.most_additions:
            return None
        if isinstance(self._domain, PairDomain):
            return self._with_mirrored_sums(self._domain, found, after)
        return found

    def _cost(self) -> float:
        """Additions for each pair."""
        costs = [
            node.op.cost * node.type.size
            for node, axis in self._of_pairs
            if node.op.family == "elementwise"
        ]
        return sum(costs) / self._pairs

    # What is made of pairs

    def _lift(self, node: Node, axis: int) -> None:
        if node.op is _GATHER:
            grid, is_of_pairs = self._gathered(node, axis), True
        elif not node.inputs:
            grid, is_of_pairs = self._spread(node, axis), True
        elif node.op is OPS["broadcast_to"]:
            grid, is_of_pairs = self._broadcast(node, axis)
        else:
            rule = _RULES.get(node.op.name) or _RULES.get(node.op.family)
            reads = None if rule is None else rule(node, axis)
            if reads is None:
                return
            made = [self._grid_of(x, own) for x, own in zip(node.inputs, reads, strict=True)]
            if None in made:
                return
            inputs = [x for x in made if x is not None]
            grid = record(node.op, tuple(inputs), self._params(node, axis, inputs))
            is_of_pairs = any(key in self._of_pairs for key in zip(node.inputs, reads, strict=True))
        if grid is None or grid.shape != self._shape(node.shape, axis):
            return
        self._grids[node, axis] = grid
        if is_of_pairs:
            self._of_pairs.add((node, axis))

    def _now(self, x: Node) -> Node:
        """What there is of an operand; itself if it is a literal that a value was filled from,
        which no walk has come to."""
        return self._done.get(x, x)

    def _shape(self, shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
        return *shape[:axis], *self._sizes, *shape[axis + 1 :]

    def _grid_of(self, x: Node, axis: int | None) -> Node | None:
        """`axis` is as `_RULES` say."""
        if axis is None:
            return self._now(x)
        if axis < 0:
            now, own = self._now(x), ~axis
            return self._at_one_place(now, own)
        return self._grids.get((x, axis))

    def _roles(self, array: Node, indices: Sequence[Node]) -> list[int] | None:
        """Which axis of the grid each index array is for, if it is one of this array, too."""
        roles = [self._axes[index] for index in indices if index in self._axes]
        if len(roles) < len(indices) or len({*roles}) < len(roles):
            return None
        if any(array.shape[k] != self._sizes[role] for k, role in enumerate(roles)):
            return None
        return roles

    def _gathered(self, node: Node, axis: int) -> Node | None:
        x, *indices = node.inputs
        roles = self._roles(x, indices)
        if axis or node.params["checked"] or roles is None:
            return None
        now, rest = _with_first_axes(self._now(x), _order(roles)), x.shape[len(roles) :]
        own = tuple([n if k in roles else 1 for k, n in enumerate(self._sizes)])
        return broadcast_to(reshape(now, (*own, *rest)), (*self._sizes, *rest))

    def _broadcast(self, node: Node, axis: int) -> tuple[Node | None, bool]:
        [x] = node.inputs
        own = axis - (len(node.shape) - len(x.shape))
        shape = self._shape(node.shape, axis)
        if own >= 0 and x.shape[own] == self._pairs:
            grid = self._grids.get((x, own))
            is_of_pairs = (x, own) in self._of_pairs
            return None if grid is None else broadcast_to(grid, shape), is_of_pairs
        now = self._now(x)
        if own >= 0:
            now = self._at_one_place(now, own)
        return broadcast_to(now, shape), False

    def _at_one_place(self, x: Node, axis: int) -> Node:
        ones = (1,) * len(self._sizes)
        return reshape(x, (*x.shape[:axis], *ones, *x.shape[axis + 1 :]))

    def _spread(self, node: Node, axis: int) -> Node | None:
        """An input with an element for each pair. The others are never looked at: what is there is
        an element that it has."""
        shape = self._shape(node.shape, axis)
        is_iota = node.op is OPS["iota"]
        value = np.arange(self._pairs, dtype=node.dtype) if is_iota else self._constants.get(node)
        if value is not None and prod(shape) <= _MOST_CONSTANTS:
            return leaf(np.take(value, self._places(), axis).reshape(shape))
        if axis or node.op not in (LEAF, ARGUMENT):
            return None
        return OPS["gather"](node, leaf(self._places().reshape(self._sizes)), checked=False)

    def _places(self) -> np.ndarray:
        """For each element of the grid the number of its pair, or of the one before it."""
        is_one = np.zeros(prod(self._sizes), np.int64)
        is_one[self._numbers] = 1
        return np.maximum(np.cumsum(is_one) - 1, 0)

    def _params(self, node: Node, axis: int, inputs: Sequence[Node]) -> dict:
        """Of the same operation on matrices."""
        params, more = dict(node.params), self._more
        zeros, ones = (0,) * len(self._sizes), (1,) * len(self._sizes)
        match node.op.name:
            case "reshape":
                params["shape"] = self._shape(node.shape, axis)
            case "transpose":
                axes = params["axes"]
                own = axes[axis]
                moved = [k + more * (k > own) for k in axes]
                params["axes"] = _put_in(tuple(moved), axis, tuple(range(own, own + more + 1)))
            case "sum" | "max" | "min" | "prod":
                own = _reduced_from(node, axis)
                params["axes"] = tuple([k + more * (k > own) for k in params["axes"]])
            case "slice":
                own = _sliced_from(node, axis)
                dropped = tuple([k + more * (k > own) for k in params.get("dropped", ())])
                starts, sizes, steps = (params[x] for x in ("starts", "sizes", "steps"))
                starts, steps = _put_in(starts, own, zeros), _put_in(steps, own, ones)
                params = slice_params(starts, _put_in(sizes, own, self._sizes), steps, dropped)
            case "pad":
                params = {key: _put_in(value, axis, zeros) for key, value in params.items()}
            case "add_slice" | "update_slice":
                starts = _put_in(params["starts"], axis, zeros)
                params = region_params(starts, _put_in(params["steps"], axis, ones))
            case "concatenate":
                params["axis"] += more * (params["axis"] > axis)
        return params

    # Where they end

    def _sum_of_pairs(self, node: Node) -> Node | None:
        if node.op is OPS["sum"]:
            return self._sum_over_pairs(node)
        if node.op in (_SCATTER_ADD, _SCATTER_SET):
            return self._written(node)
        return None

    def _selected(self, grid: Node, axis: int) -> Node:
        if self._mask is None:
            return grid
        rest = len(grid.shape) - axis - len(self._sizes)
        mask = reshape(self._mask, (*self._sizes, *(1,) * rest))
        return OPS["where"](mask, grid, full(0, (), grid.dtype))

    def _sum_over_pairs(self, node: Node) -> Node | None:
        [x] = node.inputs
        axes = node.params["axes"]
        for axis in axes:
            if (x, axis) in self._of_pairs:
                moved = {k + self._more * (k > axis) for k in axes}
                moved |= {*range(axis, axis + self._more + 1)}
                summands = self._selected(self._grids[x, axis], axis)
                return record(node.op, (summands,), axes_params(tuple(sorted(moved))))
        return None

    def _written(self, node: Node) -> Node | None:
        array, values, *indices = node.inputs
        roles = self._roles(array, indices)
        grid = self._grids.get((values, 0))
        if grid is None or node.params["checked"] or roles is None:
            return None
        before = self._done[array]
        others = tuple([k for k in range(len(self._sizes)) if k not in roles])
        if node.op is _SCATTER_SET and others:
            return None
        if node.op is _SCATTER_SET or not (others or is_zero(before)):
            new = _with_first_axes(grid, roles)
            # Nothing is added to the others: -0.0 + 0.0 would be 0.0.
            new = new if node.op is _SCATTER_SET else OPS["add"](before, new)
            return self._assigned(new, before, roles)
        new = self._selected(grid, 0)
        if others:
            new = record(OPS["sum"], (new,), axes_params(others))
            if isinstance(self._domain, PairDomain):
                self._sums[new] = _PairSum(others[0], grid)
        new = _with_first_axes(new, [sorted(roles).index(role) for role in roles])
        return new if is_zero(before) else OPS["add"](before, new)

    def _assigned(self, grid: Node, before: Node, roles: Sequence[int]) -> Node:
        if self._mask is None:
            return grid
        mask = _with_first_axes(self._mask, roles)
        mask = reshape(mask, (*mask.shape, *(1,) * (len(grid.shape) - len(mask.shape))))
        return OPS["where"](mask, grid, before)

    # Sums over rows

    def _with_mirrored_sums(
        self, domain: PairDomain, outputs: list[Node], order: Sequence[Node]
    ) -> list[Node]:
        """What j does to i is what i does to j, or its opposite: sums over the rows of each column
        are sums over the columns of each row, of the same elements on the other side of the
        diagonal, and both together are one sum."""
        if domain.rows != domain.columns or self._mask is None:
            return outputs
        terms = Terms()
        rows: dict[object, tuple[Node, int]] = {}
        for new, (axis, grid) in self._sums.items():
            if axis == 1:
                term = terms.term(grid, _element(grid, "i", "j"))
                rows.setdefault((grid.type, term.number), (new, term.sign))
        turned = self._mask if domain.is_symmetric else _with_first_axes(self._mask, (1, 0))
        partners: dict[Node, tuple[Node, int]] = {}
        for new, (axis, grid) in self._sums.items():
            if axis == 0:
                term = terms.term(grid, _element(grid, "j", "i"))
                found = rows.get((grid.type, term.number))
                if found is not None:
                    partners[new] = found[0], found[1] * term.sign
        replaced = {x: self._row_sum(y, turned, sign) for x, (y, sign) in partners.items()}
        both = OPS["logical_or"](self._mask, turned)
        for node in order if domain.is_on_one_side else ():
            if node.op is not OPS["add"]:
                continue
            for x, y in (node.inputs, node.inputs[::-1]):
                if partners.get(x) == (y, 1):
                    replaced[node] = self._row_sum(y, both, 1)
        return substitute(outputs, replaced) if replaced else outputs

    def _row_sum(self, row_sum: Node, mask: Node, sign: int) -> Node:
        grid = self._sums[row_sum].summands
        mask = reshape(mask, (*mask.shape, *(1,) * (len(grid.shape) - 2)))
        selected = OPS["where"](mask, grid, full(0, (), grid.dtype))
        found = record(OPS["sum"], (selected,), axes_params((1,)))
        return found if sign == 1 else zeros_like(found) - found


def _element(grid: Node, row: str, column: str) -> tuple[object, ...]:
    return row, column, *[f"k{axis}" for axis in range(2, len(grid.shape))]


def _with_first_axes(x: Node, axes: Sequence[int]) -> Node:
    """`x` with its first axes in this order."""
    if list(axes) == sorted(axes):
        return x
    return OPS["transpose"](x, axes=(*axes, *range(len(axes), len(x.shape))))


def _order(roles: Sequence[int]) -> list[int]:
    return sorted(range(len(roles)), key=roles.__getitem__)


def _put_in(values: tuple[int, ...], axis: int, own: tuple[int, ...]) -> tuple[int, ...]:
    return *values[:axis], *own, *values[axis + 1 :]


# By operation or family: along which axis each input has the pairs, if a node has them along this
# one; of an input that is the same for all pairs None, or ~axis if it has one place there.


def _of_elementwise(node: Node, axis: int) -> list[int | None] | None:
    from_end = len(node.shape) - axis
    found: list[int | None] = []
    for x in node.inputs:
        own = len(x.shape) - from_end
        if own < 0:
            found.append(None)
        else:
            found.append(own if x.shape[own] == node.shape[axis] else ~own)
    return found


def _of_reshape(node: Node, axis: int) -> list[int | None] | None:
    [x] = node.inputs
    before = prod(node.shape[:axis])
    for own, size in enumerate(x.shape):
        if size == node.shape[axis] and prod(x.shape[:own]) == before:
            return [own]
    return None


def _of_transpose(node: Node, axis: int) -> list[int | None] | None:
    return [node.params["axes"][axis]]


def _reduced_from(node: Node, axis: int) -> int:
    kept = [k for k in range(len(node.inputs[0].shape)) if k not in node.params["axes"]]
    return kept[axis]


def _of_reduction(node: Node, axis: int) -> list[int | None] | None:
    return [_reduced_from(node, axis)]


def _sliced_from(node: Node, axis: int) -> int:
    dropped = node.params.get("dropped", ())
    return [k for k in range(len(node.inputs[0].shape)) if k not in dropped][axis]


def _of_slice(node: Node, axis: int) -> list[int | None] | None:
    own = _sliced_from(node, axis)
    is_whole = node.inputs[0].shape[own] == node.shape[axis] and node.params["steps"][own] == 1
    return [own] if is_whole else None


def _of_pad(node: Node, axis: int) -> list[int | None] | None:
    return [axis] if node.inputs[0].shape[axis] == node.shape[axis] else None


def _of_written_part(node: Node, axis: int) -> list[int | None] | None:
    array, part = node.inputs
    if part.shape[axis] != array.shape[axis] or node.params["starts"][axis] != 0:
        return None
    return [axis, axis]


def _of_concatenate(node: Node, axis: int) -> list[int | None] | None:
    if node.params["axis"] == axis:
        return None
    return [axis for _ in node.inputs]


_RULES = {
    "elementwise": _of_elementwise,
    "reshape": _of_reshape,
    "transpose": _of_transpose,
    "sum": _of_reduction,
    "max": _of_reduction,
    "min": _of_reduction,
    "slice": _of_slice,
    "pad": _of_pad,
    "add_slice": _of_written_part,
    "update_slice": _of_written_part,
    "concatenate": _of_concatenate,
}
