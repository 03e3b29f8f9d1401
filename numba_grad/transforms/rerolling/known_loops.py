"""What a look at a graph for loops has found, for the next look at an equal graph.

To find the loop of 1,000 steps takes as long as to record them, and what looks for it is 15 modules
that a process imports for it: 6 ms of a first gradient that takes 5 otherwise. So what was found
is kept, in this process and on disk, under a name that says all that a look depends on:

- what each node does, reads, and whether it requires grad, or somebody holds it;
- which constants there are, and of what type; their values beside it, as steps that read 0.1 and
  then 0.1 again are others than those that read 0.1 and 0.2. Where these change from one look to
  the next, nothing is kept any more, and graphs of that size are not named.

A graph with something that has no meaning elsewhere (a user's rule, arrays that are read at each
call of a compiled function one by one) has no name.
"""

import itertools
import marshal
from collections import OrderedDict
from collections.abc import Collection, Hashable, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from numba_grad.graph.node import HOLDING, Node
from numba_grad.graph.survey import NodeSurvey, survey_of
from numba_grad.graph.types import CPU
from numba_grad.graph.walk import by_serial, in_order_of_recording
from numba_grad.locks import new_lock
from numba_grad.transforms.call_target import CallTarget, targets_of
from numba_grad.transforms.loop_sizes import Limits
from numba_grad.transforms.rerolling.rerolled import Rerolled, RerolledLoops
from numba_grad.transforms.stored_graphs import GraphReader, GraphWriter, NotStorable

if TYPE_CHECKING:
    from numba_grad.transforms.read_at_calls import ReadAtCalls

_MOST_BYTES = 1 << 18  # of constants: to compare more takes longer than it saves
_MOST_KEPT = 256  # looks of this process
_MOST_VALUES = 2  # of the same graph, before it is looked at each time


class Store(Protocol):
    """What the compiler knows and keeps (`compiler/known_bodies.py`)."""

    def body(self, target: CallTarget, /) -> CallTarget:
        """The body that was compiled and differentiated before, if there is an equal one."""
        ...

    def name_of(self, description: bytes, /) -> str | None:
        """Of what is so described; None where nothing is kept."""
        ...

    def read(self, name: str, /) -> bytes | None: ...

    def write(self, name: str, content: bytes, /) -> None: ...


class _Kept:
    """What was found in a graph, by the values of its constants: the last ones."""

    __slots__ = ("content", "times", "values")

    def __init__(self, values: bytes, content: bytes) -> None:
        self.values, self.content = values, content
        self.times = 1  # so many values there were


class _AskedAtCalls:
    """What is read at each call, and whether a look depends on what is in memory now."""

    def __init__(self, given: "ReadAtCalls") -> None:
        self._given = given
        self.is_asked = False

    def place_of(self, node: Node) -> tuple[Hashable, int] | None:
        return self._given.place_of(node)

    def stride_of(self, node: Node, axis: int) -> int:
        self.is_asked = True
        return self._given.stride_of(node, axis)

    def array_of(self, rows: Sequence[Node]) -> Node | None:
        self.is_asked = True
        return self._given.array_of(rows)


class Look:
    """A look at a graph; see `python_loops.loop_in`."""

    def __init__(
        self,
        order: Sequence[Node],
        fixed: Collection[Node],
        read_at_calls: "ReadAtCalls | None",
        limits: Limits,
        store: Store,
        *,
        is_elsewhere: bool = False,
    ) -> None:
        """`is_elsewhere`: whether some nodes are on a GPU."""
        self.order, self.store = order, store
        self.read_at_calls = None if read_at_calls is None else _AskedAtCalls(read_at_calls)
        self.name: str | None = None
        self.survey = survey_of(order, fixed)
        self.others: list[Node] = []  # what nodes read that are not in the order
        self.numbers_of_others: list[int] = []  # of all of these, where equal ones are one
        self.found: RerolledLoops | None = None
        self._size = len(order), len(self.survey.others), limits
        if is_elsewhere or self._size in _varying:
            return  # without a name; to say where nodes are would be more than all else
        try:
            self._values = self._look_at_others()
            self.name = store.name_of(self._description(self.survey, limits))
        except NotStorable:
            pass

    def is_known(self) -> bool:
        """Whether an equal graph was looked at; then `found` is what was found there."""
        if self.name is None:
            return False
        kept = _kept_under(self.name, self.store)
        if kept is None or kept.values != self._values:
            return False
        if not kept.content:
            return True
        try:
            self.found = self._read(kept.content)
        except KeyError:  # an operation that this process has not imported
            return False
        return self.found is not None

    def keep(self, found: RerolledLoops | None) -> None:
        """Keep what was found now, if another process finds the same."""
        if self.name is None or (self.read_at_calls is not None and self.read_at_calls.is_asked):
            return
        with _lock:
            kept = _looks.get(self.name)
        if kept is not None and kept.times >= _MOST_VALUES:
            if len(_varying) >= _MOST_KEPT:
                _varying.clear()
            _varying.add(self._size)
            return
        try:
            content = b"" if found is None else self._written(found)
        except NotStorable:
            return
        new = _Kept(self._values, content)
        new.times += 0 if kept is None else kept.times
        _keep(self.name, new)
        self.store.write(self.name, marshal.dumps((self._values, content)))

    # What a look depends on.

    def _look_at_others(self) -> bytes:
        """Find equal arrays, as rules do, and return what is in all constants."""
        numbers: dict[object, int] = {}
        values: list[bytes] = []
        total = 0
        for x in self.survey.others:
            own: object = x
            content = b""
            if self._is_constant(x):
                total += x.type.nbytes
                if total > _MOST_BYTES:
                    raise NotStorable
                content = x.value.tobytes()
                own = (x.type, content) if x.shape else x
            number = numbers.setdefault(own, len(numbers))
            self.numbers_of_others.append(number)
            if number == len(self.others):
                self.others.append(x)
                values.append(content)
        return b"".join(values)

    def _is_constant(self, x: Node) -> bool:
        """Whether rules may look at its value."""
        return (
            x.op in HOLDING
            and x.value is not None
            and not x.requires_grad
            and x.type.device == CPU
            and self._place_of(x) is None
        )

    def _place_of(self, x: Node) -> tuple[Hashable, int] | None:
        return None if self.read_at_calls is None else self.read_at_calls.place_of(x)

    def _description(self, survey: NodeSurvey, limits: Limits) -> bytes:
        count = len(self.order)
        serials = np.fromiter(map(by_serial, self.order), np.int64, count)
        if not (np.diff(serials) > 0).all():
            raise NotStorable  # results have their place among these by number
        kinds, numbers = survey.kinds, np.arange(count)
        first_of = np.empty(int(kinds.max(initial=0)) + 1, np.int64)
        first_of[kinds[::-1]] = numbers[::-1]  # the last one that is written stays
        first = first_of[kinds]
        first[kinds == 0] = numbers[kinds == 0]  # of which nobody knows whether they are equal
        examples = [self.order[k] for k in np.flatnonzero(first == numbers).tolist()]
        parts = (
            marshal.dumps((tuple(limits), count), 2),
            marshal.dumps(list(map(_meaning_of, examples)), 2),
            marshal.dumps(self._described_others(), 2),
            first.astype("<i4").tobytes(),
            survey.arities.astype("<i4").tobytes(),
            np.packbits(survey.require_grad).tobytes(),
            np.packbits(survey.are_free).tobytes(),
            self._inputs(survey).astype("<i4").tobytes(),
            np.sort(survey.fixed).astype("<i4").tobytes(),
        )
        return b"".join([part for text in parts for part in (b"%d:" % len(text), text)])

    def _inputs(self, survey: NodeSurvey) -> np.ndarray:
        """By number, below 0 those of `others`."""
        if len(self.others) == len(survey.others):
            return survey.inputs
        numbers = -1 - np.array(self.numbers_of_others)
        return np.where(survey.inputs < 0, numbers[(-1 - survey.inputs).clip(0)], survey.inputs)

    def _described_others(self) -> list[tuple[object, ...]]:
        memories: dict[object, tuple[int, int]] = {}  # number, and where it was read first
        found: list[tuple[object, ...]] = []
        writer = GraphWriter({})
        for x in self.others:
            place = self._place_of(x)
            where: tuple[int, int] | None = None
            if place is not None:
                number, offset = memories.setdefault(place[0], (len(memories), place[1]))
                where = number, place[1] - offset
            if x.op.name == "broadcast_to" and x.inputs and x.inputs[0].op in HOLDING:
                raise NotStorable  # maybe an index array, whose values rules look at
            flags = x.requires_grad, x.value is not None, bool(x.inputs)
            found.append((x.op.name, writer.value(x.type), writer.value(x.params), *flags, where))
        return found

    # What was found.

    def _written(self, found: RerolledLoops) -> bytes:
        count = len(self.order)
        numbers = dict(zip(self.order, range(count), strict=True))
        of_others = [count + number for number in self.numbers_of_others]
        numbers |= dict(zip(self.survey.others, of_others, strict=True))
        writer = GraphWriter(numbers, count + len(self.others))
        number_of, loops = writer.number_of, []
        for each in found.loops:
            if each.place is None:
                raise NotStorable
            own = in_order_of_recording(each.recorded)
            writer.add(own)
            node, is_before = each.place
            loops.append(
                (
                    each.times,
                    _runs_of([*map(number_of, each.steps)]),
                    _runs_of([*map(number_of, each.before)]),
                    _runs_of([*map(number_of, own)]),
                    (number_of(node), is_before),
                    tuple([(number_of(x), number_of(y)) for x, y in each.instead.items()]),
                    tuple(
                        [
                            (number_of(x), tuple([(k, n, number_of(y)) for k, (n, y) in r.items()]))
                            for x, r in each.others.items()
                        ]
                    ),
                )
            )
        return writer.content(tuple(loops))

    def _read(self, content: bytes) -> RerolledLoops | None:
        reader = GraphReader(content, [*self.order, *self.others], self.store.body)
        nodes = reader.nodes
        loops = []
        for times, steps, before, own, (node, is_before), instead, others in reader.rest:
            made = Rerolled(times, _in_runs(nodes, steps), _in_runs(nodes, before))
            made.recorded = set(_in_runs(nodes, own))
            made.instead = {nodes[x]: nodes[y] for x, y in instead}
            made.others = {
                nodes[x]: {place: (count, nodes[y]) for place, count, y in runs}
                for x, runs in others
            }
            made.place = nodes[node], is_before
            if not made.date():
                return None
            loops.append(made)
        found = RerolledLoops(loops[0])
        for later in loops[1:]:
            found.take(later)
        return found


def _runs_of(numbers: list[int]) -> tuple[tuple[int, int], ...]:
    """Runs of numbers, one after the other, as where they begin and are over: steps are one."""
    edges = np.flatnonzero(np.diff(numbers) != 1) + 1
    bounds = [0, *edges.tolist(), len(numbers)] if numbers else []
    return tuple([(numbers[a], numbers[b - 1] + 1) for a, b in itertools.pairwise(bounds)])


def _in_runs(nodes: Sequence[Node], runs: Sequence[tuple[int, int]]) -> list[Node]:
    return list(itertools.chain.from_iterable([nodes[start:end] for start, end in runs]))


# Of an operation, by the number that equal ones have in this process.
_meanings: dict[int, bytes] = {}
_MOST_MEANINGS = 1 << 16


def _meaning_of(node: Node) -> bytes:
    found = _meanings.get(node.kind) if node.kind else None
    if found is None:
        if node.op.family == "call" and not targets_of(node):
            raise NotStorable  # it communicates
        writer = GraphWriter({})
        said = writer.value(node.params)
        found = writer.content((node.op.name, said))
        if node.kind:
            if len(_meanings) >= _MOST_MEANINGS:
                _meanings.clear()
            _meanings[node.kind] = found
    return found


# What was found before.

_looks: OrderedDict[str, _Kept] = OrderedDict()
# The sizes of graphs whose constants are others each time: to name such takes a tenth of a look.
_varying: set[tuple[int, int, Limits]] = set()
_lock = new_lock()


def _kept_under(name: str, store: Store) -> _Kept | None:
    with _lock:
        found = _looks.get(name)
        if found is not None:
            _looks.move_to_end(name)
            return found
    stored = store.read(name)
    if stored is None:
        return None
    values, content = marshal.loads(stored)
    found = _Kept(values, content)
    _keep(name, found)
    return found


def _keep(name: str, kept: _Kept) -> None:
    with _lock:
        _looks[name] = kept
        if len(_looks) > _MOST_KEPT:
            _looks.popitem(last=False)


def forget() -> None:
    """What this process has found; not what is on disk."""
    with _lock:
        _looks.clear()
        _varying.clear()
