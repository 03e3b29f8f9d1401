"""Pairs by index arrays, as a matrix of which some elements count.

    i, j = np.triu_indices(n, 1)              i, j = rows, columns
    d = x[i] - x[j]                     ->    d = x[:, None] - x
    e = np.sum(f(d))                          e = np.sum(np.where(i < j, f(d), 0))

An index array is opaque: elements are gathered one by one, and gradients are added one by one. Of
a matrix the compiler makes loops, with vector code, sums of rows and columns in one pass, and
nothing of the size of all pairs in memory. So where all that is made of pairs ends in sums, over
all pairs or those of each row or column, it is computed for the whole matrix, of which the sums
select their elements. That is done once derivatives are taken: what the others come to, as 1 / 0 on
the diagonal, is never multiplied by anything.

Two loops (`for i in range(n): for j in range(i)`) come here as index arrays too: their steps need
nothing of each other (`transforms/independent_steps.py`).
"""

import functools
from collections.abc import Collection, Mapping, Sequence
from math import prod

import numpy as np

from numba_grad.compiler.passes.mirrored_sums import Terms
from numba_grad.dtypes import INT64
from numba_grad.graph.node import OPS, Node, record, recording
from numba_grad.graph.walk import rebuilt, substitute, toposort
from numba_grad.immutable import NamedTuple
from numba_grad.ops.families import axes_params, broadcast_to, full, reshape, zeros_like
from numba_grad.ops.matrices import is_diagonal, is_triangle
from numba_grad.ops.movement import region_params, slice_params

MOST_PAIRS = 1 << 24
# Loops of which the first steps are done before, and the last ones after, leave so many out.
_MOST_MISSING = 4
# Of a triangle everything is computed twice. Up to so many additions for a pair that is less than
# to gather what it is made of and to add what it gives.
_MOST_OF_TRIANGLE = 400
_GATHER, _SCATTER_ADD, _SCATTER_SET = OPS["gather"], OPS["scatter_add"], OPS["scatter_set"]
_ROW, _COLUMN = 0, 1


class PairDomain(NamedTuple):
    """Elements of a matrix, row by row."""

    kind: str  # "all", "off-diagonal", "upper", "strict upper", "lower", "strict lower"
    rows: int
    columns: int
    first: int  # the number of the first one in the matrix
    last: int

    def numbers(self) -> np.ndarray:
        """Those of all elements in the matrix."""
        found = _numbers_of(self.kind, self.rows, self.columns)
        return found[(found >= self.first) & (found <= self.last)]

    @property
    def is_half(self) -> bool:
        return self.kind not in ("all", "off-diagonal")

    @property
    def is_on_one_side(self) -> bool:
        """Whether no element has its mirror image among them."""
        return self.kind.startswith("strict")

    @property
    def is_symmetric(self) -> bool:
        return len(self.numbers()) == self.rows * (self.rows - 1) and self.kind == "off-diagonal"

    def mask(self) -> Node | None:
        """Which elements of the matrix these are; None if all."""
        parts = []
        if self.kind == "off-diagonal":
            parts.append(OPS["logical_not"](is_diagonal(self.rows, self.columns)))
        elif self.kind != "all":
            is_lower, is_strict = self.kind.endswith("lower"), self.kind.startswith("strict")
            parts.append(is_triangle(self.rows, self.columns, lower=is_lower, strict=is_strict))
        whole = _numbers_of(self.kind, self.rows, self.columns)
        if (self.first, self.last) != (int(whole[0]), int(whole[-1])):
            size = self.rows * self.columns
            shape = self.rows, self.columns
            count = reshape(OPS["iota"](size=size, dtype=INT64), shape)
            for name, bound in ("greater_equal", self.first), ("less_equal", self.last):
                parts.append(OPS[name](count, full(bound, (), INT64)))
        return functools.reduce(lambda x, y: OPS["logical_and"](x, y), parts) if parts else None


class _PairSum(NamedTuple):
    """A sum over the columns of each row, or over the rows of each column."""

    axis: int
    summands: Node  # of the whole matrix


def pairs_on_grids(outputs: list[Node], known: Mapping[Node, np.ndarray]) -> list[Node]:
    """`outputs` with what is made of pairs computed for matrices, where nothing else is left.

    Parameters
    ----------
    outputs : of a graph whose derivatives are taken
    known : index arrays that are the same in all runs
    """
    roles = _roles(known, toposort(outputs, stop=lambda x: x.value is not None))
    for domain in {x: None for x, _ in roles.values()}:
        own = {node: axis for node, (other, axis) in roles.items() if other == domain}
        if len({*own.values()}) < 2:
            continue
        with recording(False):
            found = _OnGrid(domain, own).outputs(outputs)
        outputs = outputs if found is None else found
    return outputs


def _roles(
    known: Mapping[Node, np.ndarray], nodes: Collection[Node]
) -> dict[Node, tuple[PairDomain, int]]:
    """Of index arrays what they enumerate, and whether its rows or its columns."""
    fit = {
        node: value
        for node, value in known.items()
        if value.ndim == 1 and value.dtype.kind in "iu" and value.size <= MOST_PAIRS
    }
    found: dict[Node, tuple[PairDomain, int]] = {}
    asked: set[tuple[Node, int]] = set()
    for node in nodes if fit else ():
        for axis, index in enumerate(_indices_of(node)):
            key = index, node.inputs[0].shape[axis]
            if index not in fit or key in asked:
                continue
            asked.add(key)
            role = _role(np.asarray(fit[index], np.int64), key[1])
            if role is not None:
                found[index] = role
    return found


def _indices_of(node: Node) -> Sequence[Node]:
    if node.op is _GATHER:
        return node.inputs[1:]
    return node.inputs[2:] if node.op in (_SCATTER_ADD, _SCATTER_SET) else ()


def _role(index: np.ndarray, size: int) -> tuple[PairDomain, int] | None:
    """What an index array of an axis of this size enumerates."""
    count = len(index)
    if size < 2:
        return None
    for kind in ("off-diagonal", "strict upper", "upper", "strict lower", "lower"):
        missing = _count_of(kind, size) - count
        if not 0 <= missing <= _MOST_MISSING:
            continue
        numbers = _numbers_of(kind, size, size)
        for axis, enumerated in enumerate(np.divmod(numbers, size)):
            for start in range(missing + 1):
                if np.array_equal(enumerated[start : start + count], index):
                    bounds = int(numbers[start]), int(numbers[start + count - 1])
                    return PairDomain(kind, size, size, *bounds), axis
    changes = np.flatnonzero(index[:-1] != index[1:])
    if len(changes) < 2:
        return None
    # Every element of a matrix: rows are repeated, or columns go round.
    axis = _ROW if changes[1] - changes[0] > 1 else _COLUMN
    columns = int(changes[1] - changes[0]) if axis == _ROW else size
    first = columns - 1 - int(changes[0]) + int(index[0]) * columns if axis == _ROW else index[0]
    rows = size if axis == _ROW else -(-(int(first) + count) // columns)
    numbers = np.arange(int(first), int(first) + count)
    enumerated = np.divmod(numbers, columns)[axis]
    if not 0 <= rows * columns - count <= _MOST_MISSING or first < 0:
        return None
    if not np.array_equal(enumerated, index):
        return None
    return PairDomain("all", rows, columns, int(numbers[0]), int(numbers[-1])), axis


def _count_of(kind: str, n: int) -> int:
    if kind == "off-diagonal":
        return n * (n - 1)
    return n * (n - 1) // 2 if kind.startswith("strict") else n * (n + 1) // 2


@functools.lru_cache(maxsize=4)
def _numbers_of(kind: str, rows: int, columns: int) -> np.ndarray:
    """Of all elements of this kind in the matrix, in order."""
    if kind == "all":
        return np.arange(rows * columns)
    i, j = np.arange(rows)[:, None], np.arange(columns)
    if kind == "off-diagonal":
        return np.flatnonzero(i != j)
    low, high = (j, i) if kind.endswith("lower") else (i, j)
    return np.flatnonzero(low < high if kind.startswith("strict") else low <= high)


class _OnGrid:
    """What is made of the pairs of one domain, for the whole matrix."""

    def __init__(self, domain: PairDomain, axes: Mapping[Node, int]) -> None:
        self._domain = domain
        self._axes = axes  # of index arrays: rows or columns
        self._pairs = len(domain.numbers())
        self._mask = domain.mask()
        # By node and the axis that pairs are along: the node with rows and columns in its place.
        self._grids: dict[tuple[Node, int], Node] = {}
        self._of_pairs: set[tuple[Node, int]] = set()  # those that are not the same for all pairs
        self._done: dict[Node, Node] = {}
        self._sums: dict[Node, _PairSum] = {}

    def outputs(self, outputs: Sequence[Node]) -> list[Node] | None:
        """None if something stays that index arrays are read for, or if it takes too long."""
        order = toposort(outputs, stop=lambda x: x.value is not None)
        for node in order:
            new = self._sum_of_pairs(node)
            if new is None:
                inputs = tuple([self._done.get(x, x) for x in node.inputs])
                is_same = all(x is y for x, y in zip(inputs, node.inputs, strict=True))
                new = node if is_same or node.value is not None else rebuilt(node, inputs, {})
            self._done[node] = new
            for axis, size in enumerate(node.shape if isinstance(node.shape, tuple) else ()):
                if size == self._pairs:
                    self._lift(node, axis)
        found = [self._done[x] for x in outputs]
        after = toposort(found, stop=lambda x: x.value is not None)
        if any(x in self._axes for node in after for x in _indices_of(node)):
            return None
        if self._domain.is_half and self._cost() > _MOST_OF_TRIANGLE:
            return None
        return self._with_mirrored_sums(found, after)

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

    def _shape(self, shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
        return *shape[:axis], self._domain.rows, self._domain.columns, *shape[axis + 1 :]

    def _grid_of(self, x: Node, axis: int | None) -> Node | None:
        """`axis` is as `_RULES` say."""
        if axis is None:
            return self._done[x]
        if axis < 0:
            now, own = self._done[x], ~axis
            return reshape(now, (*x.shape[:own], 1, 1, *x.shape[own + 1 :]))
        return self._grids.get((x, axis))

    def _gathered(self, node: Node, axis: int) -> Node | None:
        x, *indices = node.inputs
        roles = [self._axes.get(index) for index in indices]
        if axis or node.params["checked"] or None in roles or len({*roles}) < len(roles):
            return None
        sizes = self._domain.rows, self._domain.columns
        if any(x.shape[k] != sizes[role] for k, role in enumerate(roles) if role is not None):
            return None
        now = self._done[x]
        if len(roles) == 2:
            return now if roles == [_ROW, _COLUMN] else _swapped(now)
        rest = x.shape[1:]
        one = (sizes[0], 1) if roles == [_ROW] else (1, sizes[1])
        return broadcast_to(reshape(now, (*one, *rest)), (*sizes, *rest))

    def _broadcast(self, node: Node, axis: int) -> tuple[Node | None, bool]:
        [x] = node.inputs
        own = axis - (len(node.shape) - len(x.shape))
        shape = self._shape(node.shape, axis)
        if own >= 0 and x.shape[own] == self._pairs:
            grid = self._grids.get((x, own))
            is_of_pairs = (x, own) in self._of_pairs
            return None if grid is None else broadcast_to(grid, shape), is_of_pairs
        now = self._done[x]
        if own >= 0:
            now = reshape(now, (*x.shape[:own], 1, 1, *x.shape[own + 1 :]))
        return broadcast_to(now, shape), False

    def _params(self, node: Node, axis: int, inputs: Sequence[Node]) -> dict:
        """Of the same operation on matrices."""
        params = dict(node.params)
        n, m = self._domain.rows, self._domain.columns
        match node.op.name:
            case "reshape":
                params["shape"] = self._shape(node.shape, axis)
            case "transpose":
                axes = params["axes"]
                own = axes[axis]
                moved = [k + (k > own) for k in axes]
                params["axes"] = (*moved[:axis], own, own + 1, *moved[axis + 1 :])
            case "sum" | "max" | "min" | "prod":
                own = _reduced_from(node, axis)
                params["axes"] = tuple([k + (k > own) for k in params["axes"]])
            case "slice":
                own = _sliced_from(node, axis)
                dropped = tuple([k + (k > own) for k in params.get("dropped", ())])
                starts, sizes, steps = (params[x] for x in ("starts", "sizes", "steps"))
                starts, steps = _put_in(starts, own, 0, 0), _put_in(steps, own, 1, 1)
                params = slice_params(starts, _put_in(sizes, own, n, m), steps, dropped)
            case "pad":
                params = {key: _put_in(value, axis, 0, 0) for key, value in params.items()}
            case "add_slice" | "update_slice":
                starts = _put_in(params["starts"], axis, 0, 0)
                params = region_params(starts, _put_in(params["steps"], axis, 1, 1))
            case "concatenate":
                params["axis"] += params["axis"] > axis
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
        mask = reshape(self._mask, (*self._mask.shape, *(1,) * (len(grid.shape) - axis - 2)))
        return OPS["where"](mask, grid, full(0, (), grid.dtype))

    def _sum_over_pairs(self, node: Node) -> Node | None:
        [x] = node.inputs
        axes = node.params["axes"]
        for axis in axes:
            if (x, axis) in self._of_pairs:
                moved = {k + (k > axis) for k in axes} | {axis + 1}
                summands = self._selected(self._grids[x, axis], axis)
                return record(node.op, (summands,), axes_params(tuple(sorted(moved))))
        return None

    def _written(self, node: Node) -> Node | None:
        array, values, *indices = node.inputs
        roles = [self._axes.get(index) for index in indices]
        grid = self._grids.get((values, 0))
        sizes = self._domain.rows, self._domain.columns
        if grid is None or node.params["checked"] or None in roles:
            return None
        if any(array.shape[k] != sizes[role] for k, role in enumerate(roles) if role is not None):
            return None
        before = self._done[array]
        if len(roles) == 1 and node.op is _SCATTER_ADD:
            [role] = roles
            assert role is not None
            summands = self._selected(grid, 0)
            new = record(OPS["sum"], (summands,), axes_params((1 - role,)))
            self._sums[new] = _PairSum(1 - role, grid)
        elif len(roles) == 2 and len({*roles}) == 2:
            if node.op is _SCATTER_SET:
                return self._assigned(before, grid, is_turned=roles == [_COLUMN, _ROW])
            new = self._selected(grid, 0)
            new = _swapped(new) if roles == [_COLUMN, _ROW] else new
        else:
            return None
        return new if _is_zero(before) else OPS["add"](before, new)

    def _assigned(self, before: Node, grid: Node, *, is_turned: bool) -> Node:
        mask = self._mask
        grid = _swapped(grid) if is_turned else grid
        if mask is None:
            return grid
        mask = _swapped(mask) if is_turned else mask
        mask = reshape(mask, (*mask.shape, *(1,) * (len(grid.shape) - 2)))
        return OPS["where"](mask, grid, before)

    # Sums over rows

    def _with_mirrored_sums(self, outputs: list[Node], order: Sequence[Node]) -> list[Node]:
        """What j does to i is what i does to j, or its opposite: sums over the rows of each column
        are sums over the columns of each row, of the same elements on the other side of the
        diagonal, and both together are one sum."""
        if self._domain.rows != self._domain.columns or self._mask is None:
            return outputs
        terms = Terms()
        rows: dict[object, tuple[Node, int]] = {}
        for new, (axis, grid) in self._sums.items():
            if axis == 1:
                term = terms.term(grid, _element(grid, "i", "j"))
                rows.setdefault((grid.type, term.number), (new, term.sign))
        turned = self._mask if self._domain.is_symmetric else _swapped(self._mask)
        partners: dict[Node, tuple[Node, int]] = {}
        for new, (axis, grid) in self._sums.items():
            if axis == 0:
                term = terms.term(grid, _element(grid, "j", "i"))
                found = rows.get((grid.type, term.number))
                if found is not None:
                    partners[new] = found[0], found[1] * term.sign
        replaced = {x: self._row_sum(y, turned, sign) for x, (y, sign) in partners.items()}
        both = OPS["logical_or"](self._mask, turned)
        for node in order if self._domain.is_on_one_side else ():
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


def _swapped(x: Node) -> Node:
    return OPS["transpose"](x, axes=(1, 0, *range(2, len(x.shape))))


def _is_zero(x: Node) -> bool:
    if x.op is not OPS["broadcast_to"] or x.inputs[0].op is not OPS["literal"]:
        return False
    number = x.inputs[0]
    return not np.frombuffer(number.params["bytes"], number.dtype)[0]


def _put_in(values: tuple[int, ...], axis: int, row: int, column: int) -> tuple[int, ...]:
    return *values[:axis], row, column, *values[axis + 1 :]


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
