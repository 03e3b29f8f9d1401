"""Arrays that a loop reads and writes row by row, at indices that follow its steps.

    states[k + 1] = states[k] + rates[k] * f(states[k])        for k in range(n)

As what is carried, the array would be a state of all rows for each step, and its cotangent another
one. What steps need of it are rows: those that the last few of them have written are carried, those
that none has written yet are rows of a sequence, and what is written is a result, which is assigned
to the array after the loop. Rows of constants are those of sequences, too.
"""

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from numba_grad.dtypes import is_inexact
from numba_grad.graph.node import OPS, Node, argument, recording
from numba_grad.graph.types import CPU, TupleType
from numba_grad.graph.walk import lets_gradients_through, rebuilt, toposort
from numba_grad.immutable import NamedTuple
from numba_grad.ops.families import literal, reshape
from numba_grad.ops.movement import region_params, slice_params
from numba_grad.transforms.call_target import CallTarget, once_for_each_graph
from numba_grad.transforms.loop_sizes import LONGEST_WINDOW

_READ, _WRITE = OPS["gather"], OPS["scatter_set"]


class _Index(NamedTuple):
    """An integer in each step: `first`, and `stride` more than in the step before."""

    stride: int
    first: int


class _Written(NamedTuple):
    """A carried array of which each step writes a row."""

    number: int
    first: int  # the row of the first step
    before: int  # how many of the rows that were written last are read


class _Sequence(NamedTuple):
    """Rows of what an argument stands for, from one on."""

    number: int
    first: int


class _Plan(NamedTuple):
    """A body that carries rows, which takes the place of another one."""

    body: CallTarget
    carried: tuple[int, ...]  # what is carried as it was
    counters: tuple[int, ...]  # what nothing reads any more
    written: tuple[_Written, ...]
    sequences: tuple[_Sequence, ...]


class RowsByIndex(NamedTuple):
    """A loop that carries rows, and what it takes."""

    plan: _Plan
    carried: list[Node]
    sequences: list[Node]
    decided: list[Node]  # whose values say which rows these are
    given: list[Node]  # what the original carries at first
    ends: dict[int, int]  # of counters

    def results(
        self, finals: Sequence[Node], stacks: Sequence[Node]
    ) -> tuple[list[Node], list[Node]]:
        """What the original carries out, and its stacked results."""
        count = len(stacks) - len(self.plan.written)
        found = dict(zip(self.plan.carried, finals, strict=False))
        for k in self.plan.counters:
            found[k] = literal(self.ends[k], self.given[k].dtype)
        for written, rows in zip(self.plan.written, stacks[count:], strict=True):
            starts = (written.first, *[0] * (len(rows.shape) - 1))
            params = region_params(starts, (1,) * len(starts))
            array = self.given[written.number]
            found[written.number] = OPS["update_slice"](array, rows, **params)
        return [found[k] for k in range(len(self.given))], list(stacks[:count])


def rows_by_index(
    body: CallTarget,
    carried: Sequence[Node],
    sequences: Sequence[Node],
    constants: Sequence[Node],
    length: int,
) -> RowsByIndex | None:
    """A loop over rows, in place of the one with these inputs (`loops.py`), if its steps read or
    write rows of arrays one after the other, and all of these are there."""
    order = _accesses(body)
    if not order or length < 2:
        return None
    inputs = [*carried, *sequences, *constants]
    kinds = ["carried"] * len(carried) + ["row"] * len(sequences) + ["constant"] * len(constants)
    indices = _indices(body, inputs, kinds, length)
    places: dict[Node, int] = {}
    for node in order:
        index, rows = indices.get(node.inputs[-1]), node.inputs[0].shape[0]
        # It is another program for other rows: so only where these are most of them.
        is_inside = index is not None and 0 <= index.first <= rows - length
        if index is not None and index.stride == 1 and is_inside and rows <= 2 * length:
            places[node] = index.first
    if not places:
        return None
    counters = [k for k, x in enumerate(body.arguments[: len(carried)]) if x in indices]
    where = (tuple([places.get(x) for x in order]), tuple(counters))
    plan = body.derived(
        ("rows by index", len(carried), len(sequences), where),
        lambda: _made(body, len(carried), len(sequences), places, counters),
    )
    if plan is None:
        return None
    begun = [carried[k] for k in plan.carried]
    for written in plan.written:
        array = carried[written.number]
        before = range(written.first - 1, written.first - 1 - written.before, -1)
        begun += [reshape(_rows(array, k, 1), array.shape[1:]) for k in before]
    read = set(toposort([x.inputs[-1] for x in places]))
    return RowsByIndex(
        plan,
        begun,
        [*sequences, *[_rows(inputs[x.number], x.first, length) for x in plan.sequences]],
        [x for x, own in zip(inputs, body.arguments, strict=True) if own in read],
        list(carried),
        {k: indices[body.arguments[k]].first + length for k in counters},
    )


@once_for_each_graph
def _accesses(body: CallTarget) -> list[Node]:
    """What reads or writes one row of an array."""
    order = toposort(body.outputs)
    if body.has_rules:
        return []  # its rules may have kept any of it
    return [
        x
        for x in order
        if (x.op is _READ and len(x.inputs) == 2) or (x.op is _WRITE and len(x.inputs) == 3)
        if not x.inputs[-1].shape and lets_gradients_through(x)
    ]


def _rows(x: Node, first: int, count: int) -> Node:
    starts, sizes = (first, *[0] * (len(x.shape) - 1)), (count, *x.shape[1:])
    return OPS["slice"](x, **slice_params(starts, sizes, (1,) * len(starts)))


# Which integers follow the steps


def _indices(
    body: CallTarget, inputs: Sequence[Node], kinds: Sequence[str], length: int
) -> dict[Node, _Index]:
    given: dict[Node, _Index] = {}
    for x, own, kind in zip(inputs, body.arguments, kinds, strict=True):
        if x.value is None or not _is_integer(own) or own.type.device != CPU:
            continue
        value = np.asarray(x.value)
        if kind != "row":
            given[own] = _Index(1 if kind == "carried" else 0, int(value))
        elif np.array_equal(value, np.arange(value[0], value[0] + length)):
            given[own] = _Index(1, int(value[0]))
    counters = [
        (own, out)
        for own, out, kind in zip(body.arguments, body.outputs, kinds, strict=False)
        if kind == "carried"
    ]
    while True:
        found = _followed(body, given)
        wrong = [
            own
            for own, out in counters
            if own in given and found.get(out) != _Index(1, given[own].first + 1)
        ]
        if not wrong:
            return found
        for own in wrong:
            del given[own]


def _is_integer(x: Node) -> bool:
    # Shorter ones, and those without a sign, may begin again. An inner loop's results are several.
    several = isinstance(x.type, TupleType)
    return not several and not x.shape and x.dtype in (np.int32, np.int64)


def _followed(body: CallTarget, given: Mapping[Node, _Index]) -> dict[Node, _Index]:
    found = dict(given)
    for node in toposort(body.outputs):
        if node in found or not node.inputs or not _is_integer(node):
            continue
        own = [found.get(x) for x in node.inputs]
        name = node.op.name
        if name in ("add", "subtract") and None not in own:
            sign = 1 if name == "add" else -1
            a, b = [x for x in own if x is not None]
            found[node] = _Index(a.stride + sign * b.stride, a.first + sign * b.first)
        elif name in ("cast", "identity", "reshape") and own[0] is not None:
            found[node] = own[0]
    return found


# The body


def _made(
    body: CallTarget,
    carried: int,
    sequences: int,
    places: Mapping[Node, int],
    counters: Collection[int],
) -> _Plan | None:
    versions = _versions(body, carried, places)
    first = {k: places[own[-1]] for k, own in versions.items()}
    first_constant = carried + sequences
    constants = {x: k for k, x in enumerate(body.arguments) if k >= first_constant}
    rows_read = _rows_read(versions, first, constants, places)
    if not rows_read.replaced and not versions:
        return None
    of_last_steps, of_sequences = rows_read.of_last_steps, rows_read.of_sequences
    own = {k: x for k, x in enumerate(body.outputs[:carried]) if k not in versions}
    wanted = [*own.values(), *[x[-1].inputs[1] for x in versions.values()]]
    outputs = _with(rows_read.replaced, rows_read.just_written, [*wanted, *body.outputs[carried:]])
    own = dict(zip(own, outputs, strict=False))
    rows_written = outputs[len(own) : len(wanted)]
    counted = [x for k, x in own.items() if k in counters]
    read = set(toposort([x for x in outputs if x not in counted]))
    unread = [k for k in own if k in counters and body.arguments[k] not in read]
    kept = [k for k in own if k not in unread]
    carried_on = [own[k] for k in kept]
    for row, rows in zip(rows_written, of_last_steps.values(), strict=True):
        carried_on += [row, *rows][: len(rows)]
    arguments = [
        *[body.arguments[k] for k in kept],
        *[x for rows in of_last_steps.values() for x in rows],
        *body.arguments[carried:first_constant],
        *of_sequences.values(),
        *body.arguments[first_constant:],
    ]
    return _Plan(
        CallTarget(body.name, arguments, [*carried_on, *outputs[len(wanted) :], *rows_written]),
        tuple(kept),
        tuple(unread),
        tuple([_Written(k, first[k], len(rows)) for k, rows in of_last_steps.items()]),
        tuple(of_sequences),
    )


class _RowsRead(NamedTuple):
    """The rows that steps read, which the body gets as arguments."""

    of_last_steps: dict[int, list[Node]]  # by carried array: what the last steps have written
    of_sequences: dict[_Sequence, Node]  # rows that no step has written yet, or those of constants
    replaced: dict[Node, Node]  # reads, by one of these arguments
    just_written: dict[Node, Node]  # reads of what the same step has written, by what it is


def _rows_read(
    versions: Mapping[int, Sequence[Node]],
    first: Mapping[int, int],
    constants: Mapping[Node, int],
    places: Mapping[Node, int],
) -> _RowsRead:
    """`first`: by carried array, the row that the first step writes."""
    number_of = {x: k for k, own in versions.items() for x in own} | dict(constants)
    found = _RowsRead({k: [] for k in versions}, {}, {}, {})
    for node, place in places.items():
        array = node.inputs[0]
        number = number_of.get(array)
        if node.op is not _READ or number is None:
            continue
        before = first[number] - place if number in first else 0
        if before > 0:
            found.replaced[node] = _nth(found.of_last_steps[number], before, array)
        elif before == 0 and array.op is _WRITE:
            found.just_written[node] = array.inputs[1]
        else:
            sequence = _Sequence(number, place)
            found.replaced[node] = found.of_sequences.setdefault(sequence, _row(array))
    return found


def _nth(rows: list[Node], number: int, array: Node) -> Node:
    """The row so many steps before, of `rows`, which get as many."""
    rows += [_row(array) for _ in range(number - len(rows))]
    return rows[number - 1]


def _row(array: Node) -> Node:
    return argument(array.type.of_shape(array.shape[1:]), is_inexact(array.dtype))


def _with(
    replaced: Mapping[Node, Node], same: Mapping[Node, Node], outputs: Sequence[Node]
) -> list[Node]:
    """A graph with nodes replaced, some by what becomes of others in it."""
    done = dict(replaced)
    with recording(True):
        for node in toposort(outputs, stop=lambda x: x.value is not None):
            if node in done:
                continue
            if node in same:
                done[node] = done[same[node]]
                continue
            inputs = tuple([done.get(x, x) for x in node.inputs])
            done[node] = node if inputs == node.inputs else rebuilt(node, inputs, done)
    return [done.get(x, x) for x in outputs]


def _versions(body: CallTarget, carried: int, places: Mapping[Node, int]) -> dict[int, list[Node]]:
    """The carried arrays of which each step writes one row, once or several times, and reads no
    more than rows: by number, as they are at first and after each of these assignments."""
    readers: dict[Node, list[Node]] = {}
    for node in toposort(body.outputs):
        for x in node.inputs:
            readers.setdefault(x, []).append(node)
    found = {}
    for k, (x, out) in enumerate(zip(body.arguments[:carried], body.outputs, strict=False)):
        if out not in places:
            continue
        own = [out]
        while own[0].op is _WRITE and places.get(own[0], -1) == places.get(out):
            own.insert(0, own[0].inputs[0])
        others = {node for version in own for node in readers.get(version, ()) if node not in own}
        is_by_rows = all(node.op is _READ and node in places for node in others)
        is_alone = [sum(x is y for y in body.outputs) for x in own] == [0] * (len(own) - 1) + [1]
        most = max([0, *[places[out] - places[node] for node in others if is_by_rows]])
        if own[0] is x and is_by_rows and is_alone and len(own) > 1 and most <= LONGEST_WINDOW:
            found[k] = own
    return found
