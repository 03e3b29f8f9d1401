"""Loops that carry several fields in one array carry these one by one.

    before, now = state; ...; return np.stack([now, new])

What is carried here is `now` and its former value, which needs no copy (`carried_state.py` of the
compiler); a derivative keeps and carries no more than it reads. It is done where steps put the
array together of parts, by `stack`, `concatenate` or assignments, and read nothing but parts.
"""

import itertools
from collections.abc import Iterator, Sequence

from numba_grad.graph.node import OPS, Node, argument, recording
from numba_grad.graph.walk import lets_gradients_through, substitute, toposort
from numba_grad.immutable import NamedTuple
from numba_grad.ops.families import reshape
from numba_grad.transforms.call_target import CallTarget, once_for_each_graph

# Elements up to which all that a loop carries may be in registers.
_FEW = 64
_MOST_PARTS = 16

Shape = tuple[int, ...]


class Parts(NamedTuple):
    """How an array is cut along an axis. Parts of one element there do not have the axis."""

    axis: int
    sizes: Shape

    def of(self, x: Node) -> list[Node]:
        found = []
        for end, size in zip(itertools.accumulate(self.sizes), self.sizes, strict=True):
            starts, sizes = [0] * len(x.shape), list(x.shape)
            starts[self.axis], sizes[self.axis] = end - size, size
            part = _sliced(x, tuple(starts), tuple(sizes), (1,) * len(sizes))
            around = x.shape[: self.axis], x.shape[self.axis + 1 :]
            found.append(part if size > 1 else _reshaped(part, (*around[0], *around[1])))
        return found

    def joined(self, parts: Sequence[Node]) -> Node:
        with_axis = [
            x if size > 1 else _reshaped(x, (*x.shape[: self.axis], 1, *x.shape[self.axis :]))
            for x, size in zip(parts, self.sizes, strict=True)
        ]
        return OPS["concatenate"](*with_axis, axis=self.axis)

    @property
    def stacked(self) -> "Parts":
        """Of such arrays, stacked."""
        return Parts(self.axis + 1, self.sizes)


class CarriedParts(NamedTuple):
    """A body that carries parts, where `parts` says so for an output of the original."""

    body: CallTarget
    parts: list[Parts | None]

    def split(self, carried: Sequence[Node]) -> list[Node]:
        """What it carries at first."""
        return _split(carried, self.parts[: len(carried)])

    def joined(
        self, carried: int, finals: Sequence[Node], stacks: Sequence[Node]
    ) -> tuple[list[Node], list[Node]]:
        """What the original carries out, and its stacked results."""
        of_stacks = [None if x is None else x.stacked for x in self.parts[carried:]]
        return list(_joined(finals, self.parts[:carried])), list(_joined(stacks, of_stacks))


@once_for_each_graph
def carrying_parts(body: CallTarget, carried: int) -> CarriedParts | None:
    """The body that carries parts of arrays, if there are any."""
    given = body.arguments[:carried]
    if sum(x.type.size for x in given) <= _FEW:
        return None
    parts = [_parts_of(x) for x in body.outputs[:carried]]
    while any(parts):
        of_outputs = dict(zip(body.outputs[:carried], parts, strict=True))
        of_all = [*parts, *[of_outputs.get(x) for x in body.outputs[carried:]]]
        with recording(True):
            own = [
                x if x in given else argument(x.type, x.requires_grad) for x in _split(given, parts)
            ]
            joined = dict(zip(given, _joined(own, parts), strict=True))
            outputs = _split(substitute(body.outputs, joined, _through_parts), of_all)
        read = set(toposort(outputs))
        is_whole = [
            own is not None and joined[x] in read for x, own in zip(given, parts, strict=True)
        ]
        if not any(is_whole):
            arguments = [*own, *body.arguments[carried:]]
            return CarriedParts(CallTarget(body.name, arguments, outputs), of_all)
        parts = [None if whole else own for whole, own in zip(is_whole, parts, strict=True)]
    return None


def _split(arrays: Sequence[Node], parts: Sequence[Parts | None]) -> list[Node]:
    pairs = zip(arrays, parts, strict=True)
    return [part for x, own in pairs for part in ([x] if own is None else own.of(x))]


def _joined(found: Sequence[Node], parts: Sequence[Parts | None]) -> Iterator[Node]:
    rest = iter(found)
    for own in parts:
        if own is None:
            yield next(rest)
        else:
            yield own.joined(list(itertools.islice(rest, len(own.sizes))))


def _parts_of(x: Node) -> Parts | None:
    """The parts that an array is put together of."""
    if x.op.name == "concatenate":
        axis = x.params["axis"]
        sizes = tuple([part.shape[axis] for part in x.inputs])
    else:
        axis, cuts = 0, {0, *x.shape[:1]}
        while x.shape and x.op.name == "update_slice" and len(x.inputs) == 2:
            first, end = _rows(x)
            cuts |= {first, end}
            x = x.inputs[0]
        sizes = tuple([b - a for a, b in itertools.pairwise(sorted(cuts))])
    return Parts(axis, sizes) if 1 < len(sizes) <= _MOST_PARTS and 0 not in sizes else None


def _rows(assignment: Node) -> tuple[int, int]:
    """From which row on, and up to which, something is assigned."""
    first, count = assignment.params["starts"][0], assignment.inputs[1].shape[0]
    return first, first + (count - 1) * assignment.params["steps"][0] + 1


# Movements of what has parts


def _through_parts(node: Node) -> Node | None:
    if not lets_gradients_through(node):
        return None
    if node.op.name == "slice":
        params = node.params
        part = _sliced(node.inputs[0], params["starts"], params["sizes"], params["steps"])
        return _reshaped(part, node.shape)
    if node.op.name == "reshape":
        return _reshaped(node.inputs[0], node.shape)
    return None


def _sliced(x: Node, starts: Shape, sizes: Shape, steps: Shape) -> Node:
    """A slice, of no more than the parts that it is inside of."""
    ends = [a + (n - 1) * step + 1 for a, n, step in zip(starts, sizes, steps, strict=True)]
    assigned: list[tuple[Node, Shape, Shape]] = []
    while x.shape != sizes and lets_gradients_through(x):
        axis, moved = 0, None
        if x.op.name == "concatenate":
            axis = x.params["axis"]
            x, moved = _part_around(x, starts[axis], ends[axis])
        elif x.op.name == "update_slice" and len(x.inputs) == 2:
            before, v = x.inputs
            first, last = _rows(x)
            where, own_steps = x.params["starts"], x.params["steps"]
            if _is_apart(x, starts, ends):
                x, moved = before, 0
            elif first <= starts[0] and ends[0] <= last and v.shape[1:] == x.shape[1:]:
                if own_steps[0] == 1:
                    x, moved = v, first
            elif (
                (starts[0] <= first and last <= ends[0])
                and sizes[1:] == x.shape[1:]
                and steps[0] == 1
            ):
                assigned.append((v, (first - starts[0], *where[1:]), own_steps))
                x, moved = before, 0
        if moved is None:
            break
        starts = (*starts[:axis], starts[axis] - moved, *starts[axis + 1 :])
        ends[axis] -= moved
    if x.shape != sizes:
        x = OPS["slice"](x, starts=starts, sizes=sizes, steps=steps)
    for v, where, own_steps in reversed(assigned):
        x = OPS["update_slice"](x, v, starts=where, steps=own_steps)
    return x


def _part_around(joined: Node, start: int, end: int) -> tuple[Node, int | None]:
    """The input of a concatenation that a range is inside of, and where it begins; of several, the
    concatenation itself, and None."""
    axis = joined.params["axis"]
    lasts = itertools.accumulate([part.shape[axis] for part in joined.inputs])
    for part, last in zip(joined.inputs, lasts, strict=True):
        first = last - part.shape[axis]
        if first <= start and end <= last:
            return part, first
    return joined, None


def _is_apart(assignment: Node, starts: Sequence[int], ends: Sequence[int]) -> bool:
    """Whether none of a slice is assigned."""
    where, steps = assignment.params["starts"], assignment.params["steps"]
    own = zip(where, assignment.inputs[1].shape, steps, strict=True)
    return any(
        end <= first or first + (n - 1) * step < start
        for start, end, (first, n, step) in zip(starts, ends, own, strict=True)
    )


def _reshaped(x: Node, shape: Shape) -> Node:
    while x.op.name == "reshape" and x.shape != shape and len(x.inputs) == 1:
        if not lets_gradients_through(x):
            break
        x = x.inputs[0]
    return reshape(x, shape)
