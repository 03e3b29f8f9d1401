"""Rows of an array that a loop writes part by part, or again and again, become values of their own,
which are assigned to the array once.

    u[k, 0] = x              row = update_slice(slice(u), x)
    u[k, 1] = y              row = update_slice(row, y)
    z = u[k, 0] + u[k - 1]   z = slice(row) + (what was assigned to row k - 1)
                             u = update_slice(u, row), once somebody reads u otherwise

So what goes from step to step is rows, not the whole array with all of its rows, whose cotangent
would be another whole array for each part that is written or read. Where single elements are read,
it is these: a row is put together once somebody reads more of it.
"""

import itertools
from collections.abc import Container, Mapping, Sequence

from numba_grad.graph.node import OPS, Node, next_serial, record, recording
from numba_grad.graph.walk import (
    copied,
    in_order_of_recording,
    is_nobodys,
    lets_gradients_through,
)
from numba_grad.ops.families import reshape
from numba_grad.ops.movement import Shape, region_params, slice_params
from numba_grad.transforms.rerolling.assigned_rows import axis_of_rows

_MOST_BETWEEN = 3  # numbers: two after a node, and one before the next
_UPDATE, _SLICE, _RESHAPE = OPS["update_slice"], OPS["slice"], OPS["reshape"]
_OF_ROWS = (_UPDATE, _SLICE)


def with_rows_as_values(order: Sequence[Node], roots: Container[Node]) -> list[Node]:
    """`order`, inputs before users, where rows that are written in parts are values of their own.

    `roots` stay. As `with_replaced`, only for graphs that no other pass walks at the time:
    users get other inputs.
    """
    if not _has_such_rows(order):
        return list(order)
    rows = _Rows(roots, _read_after_a_write(order), _axes_of_rows(order))
    rows.go_through(order)
    # What was put together late is as old as what it is made of: others take the first in this
    # order for the one that was recorded first.
    return in_order_of_recording(rows.kept)


def copies_with_rows_as_values(order: Sequence[Node], fixed: Container[Node]) -> dict[Node, Node]:
    """As `with_rows_as_values`, of a graph that others may walk: copies of what reads others then.

    `fixed` are at most copied. Gradients flow to fewer: not to what no row that is read depends on.
    """
    if not _has_such_rows(order):
        return {}
    rows = _CopiedRows(fixed, _read_after_a_write(order), _axes_of_rows(order))
    rows.go_through(order)
    return rows.copies


def _has_such_rows(order: Sequence[Node]) -> bool:
    """Whether there are rows that are written in parts or again, and room for what is put before
    and after what writes and reads them."""
    if not any(node.op is _UPDATE and _writes_part_or_again(node) for node in order):
        return False
    return all(
        y.serial - x.serial > _MOST_BETWEEN
        for x, y in itertools.pairwise(order)
        if x.op in _OF_ROWS or y.op in _OF_ROWS
    )


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
    first have one index along."""
    first_of: dict[Node, Node] = {}  # the array before the first assignment
    found: dict[Node, list[int]] = {}
    for node in order:
        if node.op is _UPDATE:
            x, v = node.inputs
            first = first_of[node] = first_of.get(x, x)
            axes = found.get(first, range(len(x.shape)))
            found[first] = [k for k in axes if v.shape[k] == 1 and x.shape[k] > 1]
    axis_of = {first: axis_of_rows(first.shape, axes) for first, axes in found.items()}
    return axis_of | {node: axis_of[first] for node, first in first_of.items()}


def _writes_part_or_again(node: Node) -> bool:
    """Whether it is to some of a row, or to what the assignment before was to: `y[k] += b * x`."""
    x, v = node.inputs
    pairs = list(zip(v.shape, x.shape, strict=True))
    if not any(size == 1 < whole for size, whole in pairs) or not all(v.shape):
        return False  # no row
    if x.op is _UPDATE and x.inputs and x.inputs[1].type is v.type and x.params == node.params:
        return True
    return sum(size != whole for size, whole in pairs) > 1


def _row(x: Node, sizes: Shape, params: dict[str, Shape], axis: int) -> int | None:
    """Which row of `x`, that has several, the region is a part of."""
    if sizes[axis : axis + 1] != (1,) or x.shape[axis] < 2 or not all(sizes):
        return None
    return params["starts"][axis]


class _Row:
    """What was assigned to a row since the array began: all of it, then parts.

    It is put together once somebody reads more of it than one element: a table that is filled
    element by element, from other elements, is a graph of numbers.
    """

    __slots__ = ("elements", "last", "parts", "under", "value")

    def __init__(self, last: Node) -> None:
        self.last = last  # assignment to it
        self.under: Node | None = None  # the row before `elements`; None: that of the base
        self.elements: dict[Shape, Node] = {}  # by place
        self.value: Node | None = None  # the row before `parts`; None: that of the base
        self.parts: list[tuple[dict[str, Shape], Node, int]] = []  # where, what, and when

    def assign(self, value: Node) -> None:
        """All of it."""
        self.value = self.under = value
        self.parts.clear()
        self.elements.clear()

    def assign_part(self, where: dict[str, Shape], value: Node) -> None:
        self.parts.append((where, value, self.last.serial))
        if value.type.size == 1:
            self.elements[where["starts"]] = value


class _Chain:
    """Assignments to rows of one array, each to what the one before has left."""

    __slots__ = ("array", "axis", "base", "dirty", "last", "rows")

    def __init__(self, base: Node, axis: int) -> None:
        self.axis = axis  # along which there are rows
        self.base = base  # the array before the first
        self.last = base  # what was recorded as the array after the last
        self.array = base  # the array with all rows but the dirty ones
        self.dirty: dict[int, None] = {}  # in the order in which they were assigned to
        self.rows: dict[int, _Row] = {}

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
        self._since = next_serial()  # what is recorded from now on has a larger one
        self._roots, self._versions, self._axes = roots, versions, axes
        self._chains: dict[Node, _Chain] = {}  # by what was recorded as their array
        self._instead: dict[Node, Node] = {}
        self._constant: set[Node] = set()

    def go_through(self, order: Sequence[Node]) -> None:
        with recording(True):
            for node in order:
                is_part = node.op is _UPDATE or node.op is _SLICE
                if not is_part or not lets_gradients_through(node):
                    self._keep(node, tuple([self._now(x) for x in node.inputs]))
                    continue
                if node.op is _UPDATE and self._is_written(node):
                    continue
                if node.op is _SLICE:
                    if self._is_private(node):
                        if self._is_read(node):
                            continue
                    elif (array := self._with_what_is_read(node)) is not None:
                        self._keep(node, (array,))
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
        is_fixed = node in self._roots or node in self._versions
        return not is_fixed and node.value is None and is_nobodys(node)

    def _now(self, x: Node) -> Node:
        """What stands for `x`."""
        chain = self._chains.get(x)
        if chain is not None and chain.last is x:
            self._clean(chain)
            return chain.array
        return self._instead.get(x, x)

    def _clean(self, chain: _Chain) -> None:
        for number in chain.dirty:
            row, whole = chain.rows[number], self._whole(chain, number)
            if row.last.inputs == (chain.array, whole):
                # The row was written at once. The derivative of a derivative comes here again:
                # another assignment each time, later each time, would be after what reads it.
                self._keep(row.last, row.last.inputs)
                chain.array = row.last
                continue
            starts = chain.origin(number)
            params = region_params(starts, (1,) * len(starts))
            after = record(_UPDATE, (chain.array, whole), params)
            chain.array = self._made(after, row.last.serial + 2)
        if chain.dirty:
            self._instead[chain.last] = chain.array
            chain.dirty.clear()

    def _whole(self, chain: _Chain, number: int) -> Node:
        """A row with all that was assigned to it."""
        row = chain.rows[number]
        whole = row.value
        for where, value, serial in row.parts:
            if whole is None:
                part = _slice(chain.base, chain.origin(number), chain.sizes())
                whole = self._made(part, serial - 1)
            whole = self._made(record(_UPDATE, (whole, value), where), serial + 1)
        row.parts.clear()
        assert whole is not None
        row.value = whole
        return whole

    def _is_written(self, node: Node) -> bool:
        x, v = node.inputs
        number = _row(x, v.shape, node.params, self._axes[x])
        if number is None or not self._is_private(node):
            return False
        chain = self._chains.get(x)
        if chain is None or chain.last is not x:
            chain = _Chain(self._now(x), self._axes[x])
        row, value = chain.rows.setdefault(number, _Row(node)), self._now(v)
        row.last = node
        if v.shape == chain.sizes():
            row.assign(value)
        else:
            where = region_params(chain.within(node.params["starts"]), node.params["steps"])
            row.assign_part(where, value)
            if value.type.size > 1:
                row.under = self._whole(chain, number)
                row.elements.clear()
        # Last: an array that is read gets its rows in the order of the last assignments.
        chain.dirty.pop(number, None)
        chain.dirty[number] = None
        chain.last = node
        self._chains[node] = chain
        return True

    def _with_what_is_read(self, node: Node) -> Node | None:
        """The array before the first assignment, with the one row that a slice reads: of a slice
        that stays, as the last element of a table that is the result of all."""
        found = self._place_read(node)
        if found is None or (row := found[0].rows.get(found[1])) is None:
            return None
        chain, number = found
        starts = node.params["starts"]
        value = row.elements.get(chain.within(starts)) if node.type.size == 1 else None
        if value is None:
            starts, value = chain.origin(number), self._whole(chain, number)
        params = region_params(starts, (1,) * len(starts))
        return self._made(record(_UPDATE, (chain.base, value), params), node.serial - 1)

    def _place_read(self, node: Node) -> tuple[_Chain, int] | None:
        """The array, and which row of it a slice reads."""
        (x,) = node.inputs
        chain = self._chains.get(x)
        if chain is None or chain.last is not x:
            return None
        number = _row(x, node.params["sizes"], node.params, chain.axis)
        return None if number is None else (chain, number)

    def _is_read(self, node: Node) -> bool:
        found = self._place_read(node)
        if found is None:
            return False
        chain, number = found
        sizes, starts = node.params["sizes"], node.params["starts"]
        row, within = chain.rows.get(number), chain.within(starts)
        value = None
        if row is not None and node.type.size == 1:
            value = row.elements.get(within, row.under)
        elif row is not None:
            value = self._whole(chain, number)
        if value is None:
            new = record(_SLICE, (chain.base,), node.params)
        elif (found := _as_read(value, node)) is not None:
            self._instead[node] = found
            return True
        elif value.type.size == node.type.size:
            new = reshape(value, node.shape)
        else:
            dropped = node.params.get("dropped", ())
            new = _slice(value, within, sizes, node.params["steps"], dropped)
        self._instead[node] = self._made(new, node.serial + 1)
        return True

    def _made(self, node: Node, serial: int) -> Node:
        """`node`, recorded now, as if at that time: recording leaves numbers for it. Not the
        number of what it stands for, which others may read still: what has no gradient."""
        if node.serial < self._since:
            return node  # a reshape of a reshape may be what was there before
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


def _as_read(assigned: Node, reader: Node) -> Node | None:
    """What was assigned, if it has, or had before, the type in which it is read."""
    if assigned.type is reader.type:
        return assigned
    if assigned.op is _RESHAPE and assigned.inputs and assigned.inputs[0].type is reader.type:
        return assigned.inputs[0]
    return None


def _slice(x: Node, starts: Shape, sizes: Shape, steps: Shape = (), dropped: Shape = ()) -> Node:
    return record(_SLICE, (x,), slice_params(starts, sizes, steps or (1,) * len(starts), dropped))
