"""Rows of an array that a loop writes part by part become values of their own, which are assigned
to the array once.

    u[k, 0] = x              row = update_slice(slice(u), x)
    u[k, 1] = y              row = update_slice(row, y)
    z = u[k, 0] + u[k - 1]   z = slice(row) + (what was assigned to row k - 1)
                             u = update_slice(u, row), once somebody reads u otherwise

So what goes from step to step is rows, not the whole array with all of its rows, whose cotangent
would be another whole array for each part that is written or read.
"""

from collections.abc import Container, Mapping, Sequence

from numba_grad.graph.node import OPS, SERIALS_A_NODE, Node, record, recording
from numba_grad.graph.walk import copied
from numba_grad.ops.families import reshape
from numba_grad.ops.movement import Shape, region_params, slice_params
from numba_grad.transforms.loop_sizes import FEWEST_STEPS

_UPDATE, _SLICE = OPS["update_slice"], OPS["slice"]


def with_rows_as_values(order: Sequence[Node], roots: Container[Node]) -> list[Node]:
    """`order`, inputs before users, where rows that are written in parts are values of their own.

    `roots` stay. As `without_repeated_views`, only for graphs that no other pass walks at the time:
    users get other inputs.
    """
    if not any(node.op is _UPDATE and _writes_part(node) for node in order):
        return list(order)
    rows = _Rows(roots, _read_after_a_write(order), _axes_of_rows(order))
    rows.go_through(order)
    return rows.kept


def copies_with_rows_as_values(order: Sequence[Node], fixed: Container[Node]) -> dict[Node, Node]:
    """As `with_rows_as_values`, of a graph that others may walk: copies of what reads others then.

    `fixed` are at most copied. Gradients flow to fewer: not to what no row that is read depends on.
    """
    if not any(node.op is _UPDATE and _writes_part(node) for node in order):
        return {}
    rows = _CopiedRows(fixed, _read_after_a_write(order), _axes_of_rows(order))
    rows.go_through(order)
    return rows.copies


def _read_after_a_write(order: Sequence[Node]) -> set[Node]:
    """Arrays that are read although another one was made of them by an assignment before."""
    written: set[Node] = set()
    found: set[Node] = set()
    for node in order:
        found.update(written.intersection(node.inputs))
        if node.op is _UPDATE:
            written.add(node.inputs[0])
    return found


def _axes_of_rows(order: Sequence[Node]) -> dict[Node, int]:
    """Along which axis each array that is written to has rows: one that all assignments since the
    first have one index along; of several the first one, but where that is shorter than any loop
    is, the longest."""
    first_of: dict[Node, Node] = {}  # the array before the first assignment
    found: dict[Node, list[int]] = {}
    for node in order:
        if node.op is _UPDATE:
            x, v = node.inputs
            first = first_of[node] = first_of.get(x, x)
            axes = found.get(first, range(len(x.shape)))
            found[first] = [k for k in axes if v.shape[k] == 1 and x.shape[k] > 1]
    axis_of = {}
    for first, axes in found.items():
        shape = first.shape
        is_first = not axes or (axes[0] == 0 and shape[0] >= FEWEST_STEPS)
        axis_of[first] = 0 if is_first else max(axes, key=shape.__getitem__)
    return axis_of | {node: axis_of[first] for node, first in first_of.items()}


def _writes_part(node: Node) -> bool:
    """Whether it is to some of a row."""
    x, v = node.inputs
    pairs = list(zip(v.shape, x.shape, strict=True))
    has_one_index = any(size == 1 < whole for size, whole in pairs)
    return has_one_index and all(v.shape) and sum(size != whole for size, whole in pairs) > 1


def _row(x: Node, sizes: Shape, params: dict[str, Shape], axis: int) -> int | None:
    """Which row of `x`, that has several, the region is a part of."""
    if sizes[axis : axis + 1] != (1,) or x.shape[axis] < 2 or not all(sizes):
        return None
    return params["starts"][axis]


class _Chain:
    """Assignments to rows of one array, each to what the one before has left."""

    __slots__ = ("array", "axis", "base", "dirty", "last", "rows")

    def __init__(self, base: Node, axis: int) -> None:
        self.axis = axis  # along which there are rows
        self.base = base  # the array before the first
        self.last = base  # what was recorded as the array after the last
        self.array = base  # the array with all rows but the dirty one
        self.dirty: int | None = None
        self.rows: dict[int, Node] = {}  # what is in a row now

    def origin(self, row: int) -> Shape:
        """Where a row begins."""
        return tuple([row if k == self.axis else 0 for k in range(len(self.base.shape))])

    def sizes(self) -> Shape:
        """Of a row."""
        return tuple([1 if k == self.axis else n for k, n in enumerate(self.base.shape)])

    def within(self, starts: Shape) -> Shape:
        """The same place in the row that it is in."""
        return tuple([0 if k == self.axis else start for k, start in enumerate(starts)])


class _Rows:
    """Goes through the graph.

    `roots` stay, and so do `versions`: arrays that are read again when more was assigned to them.
    """

    def __init__(
        self, roots: Container[Node], versions: Container[Node], axes: Mapping[Node, int]
    ) -> None:
        self.kept: list[Node] = []
        self._roots, self._versions, self._axes = roots, versions, axes
        self._chains: dict[Node, _Chain] = {}  # by what was recorded as their array
        self._instead: dict[Node, Node] = {}
        self._constant: set[Node] = set()

    def go_through(self, order: Sequence[Node]) -> None:
        with recording(True):
            for node in order:
                if node.op is _UPDATE and self._is_written(node):
                    continue
                if node.op is _SLICE and self._is_private(node) and self._is_read(node):
                    continue
                self._keep(node, tuple([self._now(x) for x in node.inputs]))

    def _keep(self, node: Node, inputs: tuple[Node, ...]) -> None:
        if inputs:
            is_another = inputs != node.inputs or not self._constant.isdisjoint(inputs)
            node.inputs = inputs
            if is_another and not any(x.requires_grad for x in inputs):
                # It reads rows that nothing was assigned to.
                node.requires_grad = False
                self._constant.add(node)
                return
        self.kept.append(node)

    def _is_private(self, node: Node) -> bool:
        if node.autograd is not None or node.value is not None:
            return False
        if node in self._roots or node in self._versions:
            return False
        return node.handle is None or node.handle() is None

    def _now(self, x: Node) -> Node:
        """What stands for `x`."""
        chain = self._chains.get(x)
        if chain is not None and chain.last is x:
            self._clean(chain)
            return chain.array
        return self._instead.get(x, x)

    def _clean(self, chain: _Chain) -> None:
        if chain.dirty is None:
            return
        row, array, last = chain.dirty, chain.array, chain.last
        if last.inputs == (array, chain.rows[row]):
            # The row was written at once. The derivative of a derivative comes here again: another
            # assignment each time, later each time, would be after what reads it.
            self._keep(last, last.inputs)
            chain.array, chain.dirty = last, None
            return
        starts = chain.origin(row)
        params = region_params(starts, (1,) * len(starts))
        after = record(_UPDATE, (array, chain.rows[row]), params)
        self._made(after, last.serial + 2)
        self._instead[last] = after
        chain.array, chain.dirty = after, None

    def _is_written(self, node: Node) -> bool:
        x, v = node.inputs
        row = _row(x, v.shape, node.params, self._axes[x])
        if row is None or not self._is_private(node):
            return False
        chain = self._chains.get(x)
        if chain is None or chain.last is not x:
            chain = _Chain(self._now(x), self._axes[x])
        if chain.dirty is not None and chain.dirty != row:
            self._clean(chain)
        value = self._now(v)
        if v.shape != chain.sizes():
            whole = chain.rows.get(row)
            if whole is None:
                part = _slice(chain.base, chain.origin(row), chain.sizes())
                whole = self._made(part, node.serial - 1)
            params = region_params(chain.within(node.params["starts"]), node.params["steps"])
            value = self._made(record(_UPDATE, (whole, value), params), node.serial + 1)
        chain.rows[row], chain.dirty, chain.last = value, row, node
        self._chains[node] = chain
        return True

    def _is_read(self, node: Node) -> bool:
        (x,) = node.inputs
        chain = self._chains.get(x)
        if chain is None or chain.last is not x:
            return False
        sizes, starts = node.params["sizes"], node.params["starts"]
        row = _row(x, sizes, node.params, chain.axis)
        if row is None:
            return False
        value = chain.rows.get(row)
        if value is None:
            new = record(_SLICE, (chain.base,), node.params)
        elif node.type is value.type:
            self._instead[node] = value
            return True
        elif sizes == chain.sizes():
            new = reshape(value, node.shape)
        else:
            dropped = node.params.get("dropped", ())
            new = _slice(value, chain.within(starts), sizes, node.params["steps"], dropped)
        # No later each time that a derivative of a derivative comes here, but after what it reads.
        is_made_here = node.serial % SERIALS_A_NODE and new.inputs[0].serial < node.serial
        self._instead[node] = self._made(new, node.serial if is_made_here else node.serial + 1)
        return True

    def _made(self, node: Node, serial: int) -> Node:
        """`node`, recorded now, as if at that time: recording leaves three numbers in four. Not the
        number of what it stands for, which others may read still: what has no gradient."""
        node.serial = serial
        if node.requires_grad:
            self.kept.append(node)
        return node


class _CopiedRows(_Rows):
    """Leaves the graph as it is."""

    def __init__(
        self, roots: Container[Node], versions: Container[Node], axes: Mapping[Node, int]
    ) -> None:
        super().__init__(roots, versions, axes)
        self.copies: dict[Node, Node] = {}

    def _now(self, x: Node) -> Node:
        copy = self.copies.get(x)
        return super()._now(x) if copy is None else copy

    def _keep(self, node: Node, inputs: tuple[Node, ...]) -> None:
        if inputs != node.inputs:
            copy = self.copies[node] = copied(node, inputs, self.copies)
            copy.requires_grad &= any(x.requires_grad for x in inputs)


def _slice(x: Node, starts: Shape, sizes: Shape, steps: Shape = (), dropped: Shape = ()) -> Node:
    return record(_SLICE, (x,), slice_params(starts, sizes, steps or (1,) * len(starts), dropped))
