"""What known index arrays go through: pairs of a matrix, or the elements that a mask selects.

- `PairDomain`, `i, j = np.triu_indices(n, 1)`: one of the usual sets of pairs, which has a formula;
- `SelectedElements`, `i, j = np.nonzero(mask)`: any elements of an array, of any rank, in order.

`domains_of` says which a graph has, and for which axis of its domain each index array is. This is
no pass: `pairs_on_grids.py` asks it.
"""

import functools
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from math import inf, prod

import numpy as np

from numba_grad.dtypes import INT64
from numba_grad.graph.node import OPS, Node, Op, leaf
from numba_grad.immutable import NamedTuple
from numba_grad.ops.families import full, reshape
from numba_grad.ops.matrices import is_diagonal, is_triangle

MOST_PAIRS = 1 << 24
# Loops of which the first steps are done before, and the last ones after, leave so many out.
_MOST_MISSING = 4
# Of a triangle everything is computed twice. Up to so many additions for a pair that is less than
# to gather what it is made of and to add what it gives.
_MOST_OF_TRIANGLE = 400
# To read an element by index arrays and to add what it gives takes as long as so many additions,
_BY_INDEX, _BY_INDEX_OF_AXIS = 15, 10
# and to begin with zeros, each time, or to read a mask, once, so many for an element of the array.
_BESIDE = 1
_FEWEST_SELECTED = 1 / 10  # of an array
_MOST_SELECTIONS = 8  # each is a walk through the graph
_ROW, _COLUMN = 0, 1


class PairDomain(NamedTuple):
    """Elements of a matrix, row by row."""

    kind: str  # "all", "off-diagonal", "upper", "strict upper", "lower", "strict lower"
    rows: int
    columns: int
    first: int  # the number of the first one in the matrix
    last: int

    @property
    def sizes(self) -> tuple[int, ...]:
        return self.rows, self.columns

    @property
    def most_additions(self) -> float:
        """For each pair, beyond which to compute the whole matrix takes longer."""
        is_half = self.kind not in ("all", "off-diagonal")
        return _MOST_OF_TRIANGLE if is_half else inf

    def numbers(self) -> np.ndarray:
        """Those of all elements in the matrix."""
        found = _numbers_of(self.kind, self.rows, self.columns)
        return found[(found >= self.first) & (found <= self.last)]

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


class SelectedElements(NamedTuple):
    """Elements of an array that a mask selects, in order."""

    sizes: tuple[int, ...]
    bits: bytes  # of the mask, packed
    times: float  # that each element is read, and something added to it

    @property
    def most_additions(self) -> float:
        """For each element, beyond which to compute all of the array takes longer."""
        selected = len(self.numbers()) / prod(self.sizes)
        by_index = selected * (_BY_INDEX + _BY_INDEX_OF_AXIS * len(self.sizes)) + _BESIDE
        saved = self.times * by_index - _BESIDE
        return saved / (1 - selected) if selected < 1 else inf

    def numbers(self) -> np.ndarray:
        """Those of all selected elements in the array."""
        return np.flatnonzero(self._mask())

    def _mask(self) -> np.ndarray:
        bits = np.frombuffer(self.bits, np.uint8)
        return np.unpackbits(bits, count=prod(self.sizes)).astype(np.bool_)

    def mask(self) -> Node | None:
        """Which elements these are; None if all."""
        mask = self._mask()
        return None if mask.all() else leaf(mask.reshape(self.sizes))


Domain = PairDomain | SelectedElements


_Indices = tuple[tuple[Node, ...], tuple[int, ...]]  # and the lengths of the axes that they are for


def domains_of(
    known: Mapping[Node, np.ndarray], nodes: Collection[Node]
) -> dict[Domain, dict[Node, int]]:
    """Of what known index arrays enumerate: which axis each of them is for."""
    fit = {
        node: np.asarray(value, np.int64)
        for node, value in known.items()
        if value.ndim == 1 and value.dtype.kind in "iu" and value.size <= MOST_PAIRS
    }
    pairs: dict[Domain, dict[Node, int]] = {}
    selections: dict[Domain, dict[Node, int]] = {}
    # Each use of an index array may be a leaf of its own.
    alike: dict[bytes, list[Node]] = defaultdict(list)
    for node, value in fit.items():
        alike[value.tobytes()].append(node)
    readers: dict[_Indices, set[tuple]] = defaultdict(set)
    indices_with: dict[Node, dict[_Indices, None]] = defaultdict(dict)  # the first of them
    for node in nodes if fit else ():
        indices = tuple(indices_of(node))
        if indices and all(index in fit for index in indices):
            key = indices, node.inputs[0].shape[: len(indices)]
            readers[key].add((node.op, node.inputs))
            indices_with[indices[0]][key] = None
    for indices, sizes in readers:
        roles = [_role(fit[x], size) for x, size in zip(indices, sizes, strict=True)]
        for index, role in zip(indices, roles, strict=True):
            if role is not None:
                pairs.setdefault(role[0], {})[index] = role[1]
        if None not in roles or len(selections) >= _MOST_SELECTIONS:
            continue
        axes = {x: axis for axis, index in enumerate(indices) for x in alike[fit[index].tobytes()]}
        own = [
            readers[key]
            for x in axes
            for key in indices_with[x]
            if key[1] == sizes and axes.keys() >= {*key[0]}
        ]
        selection = _selection([fit[x] for x in indices], sizes, _times(own))
        if selection is not None:
            selections.setdefault(selection, axes)
    whole = {x: own for x, own in pairs.items() if len({*own.values()}) == 2}
    return {**whole, **selections}


def indices_of(node: Node) -> Sequence[Node]:
    if node.op is OPS["gather"]:
        return node.inputs[1:]
    return node.inputs[2:] if node.op in (OPS["scatter_add"], OPS["scatter_set"]) else ()


def _times(readers: Sequence[Collection[tuple[Op, tuple[Node, ...]]]]) -> float:
    """How often these operations read an element, or write one, both being half of it."""
    sizes = [
        prod(inputs[0].shape[len(inputs) - 1 :])
        if op is OPS["gather"]
        else prod(inputs[1].shape[1:])
        for operations in readers
        for op, inputs in operations
    ]
    return sum(sizes) / 2


def _selection(
    indices: Sequence[np.ndarray], sizes: tuple[int, ...], times: float
) -> SelectedElements | None:
    """What index arrays select of an array, if that is much of it, each once and in order."""
    size, count = prod(sizes), len(indices[0])
    if size > MOST_PAIRS or any(len(x) != count for x in indices):
        return None
    if not _FEWEST_SELECTED * size <= count <= size:
        return None
    if any(x.min() < 0 or x.max() >= n for x, n in zip(indices, sizes, strict=True)):
        return None
    numbers = np.ravel_multi_index(tuple(indices), sizes)
    if not (numbers[1:] > numbers[:-1]).all():
        return None
    mask = np.zeros(size, np.bool_)
    mask[numbers] = True
    found = SelectedElements(sizes, np.packbits(mask).tobytes(), times)
    return found if found.most_additions > 0 else None


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
