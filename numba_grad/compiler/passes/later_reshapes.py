"""What is computed of axes that a reshape makes one is computed of the axes, and reshaped then.

    np.sum(np.exp(windows.reshape(-1, 9)), axis=1)    ->    np.sum(np.exp(...), axis=2).reshape(-1)

A loop over axes that were made one finds its place in each of them by divisions. So what is
reshaped would be stored before, and rows of all windows of an image are larger than the image. The
reshape moves on through what is computed of single elements and rows, to where it is a result, or
is undone by another reshape: by the derivative of the first one.
"""

import itertools
import math
from collections.abc import Sequence

from numba_grad.compiler.loop_nests.iteration_spaces import is_loop
from numba_grad.compiler.loop_nests.reductions import ARG_REDUCTIONS, reduction_axes
from numba_grad.compiler.partition.roles import INLINE_FAMILIES
from numba_grad.graph.node import OPS, Node, record
from numba_grad.graph.walk import substitute, toposort
from numba_grad.immutable import NamedTuple
from numba_grad.ops.families import broadcast_to, reshape

_RESHAPE, _BROADCAST, _TRANSPOSE = OPS["reshape"], OPS["broadcast_to"], OPS["transpose"]
Groups = tuple[tuple[int, ...], ...]  # for each axis the lengths of those that it is made of


class _Apart(NamedTuple):
    """The elements of a value, with the axes that it was computed of, in groups."""

    node: Node
    groups: Groups
    is_in_memory: bool = False  # where several axes are one for nothing


def later_reshapes(outputs: list[Node]) -> list[Node]:
    """`outputs`, with such reshapes as late as can be."""
    found = (x for x in toposort(outputs) if x.op is _RESHAPE and not _is_in_memory(x.inputs[0]))
    if not any(map(_merged, found)):
        return outputs
    return substitute(outputs, {}, _Reshapes().change)


class _Reshapes:
    def __init__(self) -> None:
        self.apart: dict[Node, _Apart] = {}

    def change(self, node: Node) -> Node | None:
        """What a rebuilt node is changed to."""
        if node.op is _RESHAPE:
            return self.reshaped(node)
        known = [self.apart[x] for x in node.inputs if x in self.apart]
        is_in_memory = all(x.is_in_memory for x in known)
        is_computed = node.op.family in ("elementwise", "reduction")
        if is_computed and is_in_memory:
            return None
        found = None
        if node.op.family == "elementwise" or (node.op is _BROADCAST and known):
            found = self.of_elements(node)
        elif node.op.family == "reduction" and node.op.name not in ARG_REDUCTIONS:
            found = self.reduced(node)
        elif node.op is _TRANSPOSE and known:
            found = self.transposed(node)
        if found is None:
            return None
        if is_computed and found.node.shape == node.shape:
            return found.node
        # Movements stay for others, as products of matrices, which read an array turned round.
        back = reshape(found.node, node.shape) if is_computed else node
        self.apart[back] = _Apart(found.node, found.groups, is_in_memory)
        return back

    def reshaped(self, node: Node) -> Node | None:
        (x,) = node.inputs
        known = self.apart.get(x)
        new = node
        if known is not None:  # it may be undone
            x = known.node
            new = x if x.shape == node.shape else reshape(x, node.shape)
        groups = _merged(new) if new.op is _RESHAPE and new.inputs[0] is x else None
        if groups is not None:
            self.apart[new] = _Apart(_in(x, groups), groups, _is_in_memory(x))
        return None if new is node else new

    def of_elements(self, node: Node) -> _Apart | None:
        rank = len(node.shape)
        groups: list[tuple[int, ...]] = [(n,) for n in node.shape]
        for x in node.inputs:
            known = self.apart.get(x)
            for axis, own in enumerate(known.groups if known else (), rank - len(x.shape)):
                if len(own) > 1 and groups[axis] not in ((math.prod(own),), own):
                    return None
                if len(own) > 1:
                    groups[axis] = own
        inputs = [self.beside(x, groups) for x in node.inputs]
        first = tuple([x for x in inputs if x is not None])
        if len(first) < len(inputs) or all(len(own) == 1 for own in groups):
            return None
        shape = tuple(itertools.chain(*groups))
        if node.op is _BROADCAST:
            new = broadcast_to(first[0], shape)
        else:
            new = record(node.op, first, dict(node.params))
            new = new if new.shape == shape else broadcast_to(new, shape)
        return _Apart(new, tuple(groups))

    def beside(self, x: Node, groups: Sequence[tuple[int, ...]]) -> Node | None:
        """`x` with its axes in these groups, of which others have all; None if it is computed along
        the axes that are one."""
        known = self.apart.get(x)
        if known is None and x.op is _BROADCAST:
            (x,) = x.inputs
            known = self.apart.get(x)
        groups = groups[len(groups) - len(x.shape) :]
        given = [(n,) for n in x.shape] if known is None else known.groups
        own = []
        for n, have, group in zip(x.shape, given, groups, strict=True):
            if n != 1 and have != group:
                return None
            own.append(group if n != 1 else (1,) * len(group))
        return _in(x if known is None else known.node, own)

    def reduced(self, node: Node) -> _Apart | None:
        x, groups, _ = self.apart[node.inputs[0]]
        axes, place = [], 0
        for axis, group in enumerate(groups):
            if axis in reduction_axes(node):
                axes += range(place, place + len(group))
            place += len(group)
        if "axes" not in node.params:
            return None
        new = record(node.op, (x,), dict(node.params) | {"axes": tuple(axes)})
        left = [group for axis, group in enumerate(groups) if axis not in reduction_axes(node)]
        return _Apart(new, tuple(left))

    def transposed(self, node: Node) -> _Apart | None:
        x, groups, _ = self.apart[node.inputs[0]]
        ends = list(itertools.accumulate(map(len, groups), initial=0))
        order = [k for axis in node.params["axes"] for k in range(ends[axis], ends[axis + 1])]
        new = record(_TRANSPOSE, (x,), {"axes": tuple(order)})
        return _Apart(new, tuple([groups[axis] for axis in node.params["axes"]]))


def _is_in_memory(x: Node) -> bool:
    """Whether all of it is, in order, as it is read."""
    return x.op.family not in INLINE_FAMILIES


def _merged(node: Node) -> Groups | None:
    """Which axes each axis of a reshape is made of, if it makes one loop of several."""
    (x,) = node.inputs
    if x.op in (_BROADCAST, _RESHAPE) or 0 in x.shape:
        return None
    lengths = iter([n for n in x.shape if n != 1])
    groups = []
    for n in node.shape:
        group: list[int] = []
        while math.prod(group) < n:
            following = next(lengths, None)
            if following is None:
                return None
            group.append(following)
        if math.prod(group) != n:
            return None
        # Axes that are written out are found while compiling, as one or as several.
        groups.append(tuple(group) if group and is_loop(n) else (n,))
    merges = any(len(group) > 1 and any(map(is_loop, group)) for group in groups)
    return tuple(groups) if merges and next(lengths, None) is None else None


def _in(x: Node, groups: Sequence[tuple[int, ...]]) -> Node:
    shape = tuple(itertools.chain(*groups))
    return x if x.shape == shape else reshape(x, shape)
