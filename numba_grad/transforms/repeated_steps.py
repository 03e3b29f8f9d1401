"""Finds the steps of a Python loop in a graph that has them one after the other.

A graph is looked at in arrays: the steps of a loop are the same operations again and again, whose
inputs are at the same distance (in this step or an earlier one), or the same node in all steps, or
numbers and rows that follow each other.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from numba_grad.graph.node import LEAF, NO_PARAMS, NUMBERS, OPS, Node, SharedParams
from numba_grad.graph.types import CPU, TupleType

FEWEST_STEPS = 16
_LARGEST = 256  # elements of a value inside of a step
_FAMILIES = {"elementwise", "movement", "reduction", "literal", "contraction"}
_WINDOW = 8  # consecutive operations, by which periods are looked for
_PERIODS = 12  # that are looked at
_MOST_INSIDE = 8  # times that a step may say the same in a loop of its own
_SLICE = OPS["slice"]


@dataclass(frozen=True, slots=True)
class Steps:
    """`count` steps of `period` nodes each, from the number `first` on."""

    first: int
    period: int
    count: int

    @property
    def end(self) -> int:
        return self.first + self.period * self.count

    def without_first(self) -> "Steps":
        return Steps(self.first + self.period, self.period, self.count - 1)

    def without_last(self) -> "Steps":
        return Steps(self.first, self.period, self.count - 1)


class RecordedGraph:
    """A graph as arrays. Nodes have their position in the order as a number; inputs that are not in
    it have negative ones."""

    def __init__(
        self,
        order: Sequence[Node],
        fixed: Collection[Node],
        is_read_later: Callable[[Node], bool],
        fewest: int,
    ) -> None:
        self.nodes = order
        self.fewest = fewest
        self.numbers: dict[Node, int] = {node: k for k, node in enumerate(order)}
        self.others: list[Node] = []  # inputs that are not in the order
        signatures, row_starts, inputs, arities = self._read(fixed)
        self.signatures = np.array(signatures, np.int64)
        self.row_starts = np.array(row_starts, np.int64)  # of slices that take one row
        self.inputs = np.array(inputs, np.int64)
        self.arities = np.array(arities, np.int64)
        self.first_inputs = np.concatenate([[0], np.cumsum(self.arities)])
        # What tells apart inputs outside of the order that may differ from step to step: numbers.
        self.number_types = np.array(
            [self._type_of_number(x, is_read_later) for x in self.others] or [0], np.int64
        )

    def _read(self, fixed: Collection[Node]) -> tuple[list[int], list[int], list[int], list[int]]:
        """Signatures: 0 of what cannot be in a loop, else equal for equal operations."""
        numbers, others = self.numbers, self.others
        known: dict[tuple[Any, ...], int] = {}
        known_params: dict[int, Any] = {}
        signatures, row_starts, inputs, arities = [], [], [], []
        number = numbers.get
        for node in self.nodes:
            params, type = node.params, node.type
            start = 0
            if not may_be_inside(node) or node in fixed:
                signatures.append(0)
            else:
                if params is NO_PARAMS:
                    key: tuple[Any, ...] = (node.op, type, node.requires_grad)
                elif node.op is _SLICE and params["sizes"][0] == 1:
                    start = params["starts"][0]
                    rest = params["starts"][1:], params["sizes"], params["steps"][1:]
                    key = (node.op, type, node.requires_grad, rest)
                else:
                    name = known_params.get(id(params))
                    if name is None:
                        name = _name_of(params)
                        if params.__class__ is SharedParams:
                            known_params[id(params)] = name
                    key = (node.op, type, node.requires_grad, name)
                signatures.append(0 if key[-1] == "" else known.setdefault(key, len(known) + 1))
            row_starts.append(start)
            own = node.inputs
            arities.append(len(own))
            for x in own:
                k = number(x)
                if k is None:
                    others.append(x)
                    k = numbers[x] = -len(others)
                inputs.append(k)
        return signatures, row_starts, inputs, arities

    def _type_of_number(self, x: Node, is_read_later: Callable[[Node], bool]) -> int:
        is_number = (
            x.op in (LEAF, NUMBERS)
            and x.type.shape == ()
            and x.value is not None
            and x.type.device == CPU
            and not x.requires_grad
        )
        return ord(x.type.dtype.char) if is_number and not is_read_later(x) else 0

    def node(self, number: int) -> Node:
        return self.nodes[number] if number >= 0 else self.others[-number - 1]

    def inputs_of(self, number: int) -> list[int]:
        first = self.first_inputs[number]
        return self.inputs[first : first + self.arities[number]].tolist()

    # What repeats.

    def repetition(self) -> Steps | None:
        """The steps that cover most of the graph; of almost equal ones, the shortest, as twice a
        period is one as well."""
        best: Steps | None = None
        periods = self._periods()
        # Steps whose halves or thirds are alike, as those of Heun and Runge, have no operation
        # that is found again at the distance of a step first.
        multiples = [k * period for k in (2, 3, 4, 5, 6) for period in periods[:3]]
        for period in dict.fromkeys([*periods, *multiples]):
            covered = 0 if best is None else best.end - best.first
            if period in multiples and 10 * covered > 8 * len(self.nodes):
                break
            steps = self._steps(period)
            if steps is None:
                continue
            size = steps.end - steps.first
            is_longer = best is not None and period > best.period
            if 10 * size > 11 * covered if is_longer else 11 * size > 10 * covered:
                best = steps
        return None if best is None or self._has_loop_inside(best, periods) else best

    def _has_loop_inside(self, steps: Steps, periods: Sequence[int]) -> bool:
        """Whether half of a step is a loop of its own. Written out in a body, that takes twice as
        long as step by step, where its kernel is one for all: Lotka-Volterra with a number observed
        every 20 steps."""
        signatures = self.signatures[steps.first : steps.first + steps.period]
        return any(
            2 * _longest_run(signatures[:-period] == signatures[period:])[1] > steps.period
            for period in periods
            if _MOST_INSIDE * period <= steps.period
        )

    def _periods(self) -> list[int]:
        """Distances at which the same few operations are found again, the most frequent first."""
        signatures = self.signatures
        count = len(signatures) - _WINDOW
        if count < self.fewest:
            return []
        hashes = np.zeros(count, np.uint64)
        for k in range(_WINDOW):
            hashes = hashes * np.uint64(0x9E3779B97F4A7C15) + signatures[k : k + count].astype(
                np.uint64
            )
        places = np.argsort(hashes, kind="stable")
        ordered = hashes[places]
        gaps = np.diff(places)[ordered[1:] == ordered[:-1]]
        gaps = gaps[gaps <= len(signatures) // FEWEST_STEPS]
        lengths, counts = np.unique(gaps, return_counts=True)
        # A step may have parts that are alike at a smaller distance, so this looks at some.
        return lengths[np.argsort(-counts, kind="stable")][:_PERIODS].tolist()

    def _steps(self, period: int) -> Steps | None:
        """The longest repetition at this distance."""
        signatures = self.signatures
        repeats = (signatures[:-period] == signatures[period:]) & (signatures[period:] != 0)
        if _longest_run(repeats)[1] < self.fewest - period:
            return None
        kinds = self._kinds(period, repeats)
        # A pair that repeats, and the next one in the same way.
        repeats = repeats[:-period] & repeats[period:] & (kinds[:-period] == kinds[period:])
        start, run = _longest_run(repeats)
        count = (run + 2 * period) // period
        if not run or count < FEWEST_STEPS or count * period < self.fewest:
            return None
        return Steps(start, period, count)

    def _kinds(self, period: int, repeats: np.ndarray) -> np.ndarray:
        """For each node that repeats, a number that says how its inputs go on to those of the next
        step; which are no steps is taken out of `repeats`."""
        own = np.flatnonzero(repeats)
        counts = self.arities[own]
        places = np.repeat(np.arange(len(own)), counts)
        within = np.arange(len(places)) - np.repeat(np.cumsum(counts) - counts, counts)
        here = self.inputs[self.first_inputs[own][places] + within]
        there = self.inputs[self.first_inputs[own + period][places] + within]
        of_step = (there - here == period) & (here >= 0)
        types = self.number_types
        type_here = np.where(here < 0, types[(-here - 1).clip(0, len(types) - 1)], 0)
        type_there = np.where(there < 0, types[(-there - 1).clip(0, len(types) - 1)], 0)
        is_number = (type_here != 0) & (type_here == type_there)
        is_same = (here == there) & ~is_number
        kind = np.select([of_step, is_same, is_number], [1, 2, 3], 0)
        bad = own[places[kind == 0]]
        combined = np.zeros(len(repeats), np.int64)
        np.add.at(combined, own[places], kind * (3 ** within.clip(max=20)))
        # Slices of rows that follow each other are of one array.
        moves = self.row_starts[own + period] - self.row_starts[own]
        combined[own] = combined[own] * 1000003 + moves
        is_of_one = np.zeros(len(own), bool)
        is_of_one[places[is_same]] = True
        repeats[bad] = False
        repeats[own[(moves != 0) & (~is_of_one | (moves < 0))]] = False
        return combined


def _longest_run(flags: np.ndarray) -> tuple[int, int]:
    """Where the longest run of True begins, and its length."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(np.int8)))
    if not len(edges):
        return 0, 0
    starts, ends = edges[::2], edges[1::2]
    longest = int(np.argmax(ends - starts))
    return int(starts[longest]), int(ends[longest] - starts[longest])


def may_be_inside(node: Node) -> bool:
    type = node.type
    return (
        node.op.family in _FAMILIES
        and node.value is None
        and type.__class__ is not TupleType
        and type.size <= _LARGEST
        and type.device == CPU
        and node.autograd is None
        and not node.released
        and (node.handle is None or node.handle() is None)
    )


def _name_of(params: dict[str, Any]) -> str:
    """Equal for equal params, to the bit; "" if that cannot be said."""
    return repr(tuple(params.items())) if all(map(_is_plain, params.values())) else ""


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(
        value, (bool, int, float, complex, str, np.dtype, np.generic)
    )
