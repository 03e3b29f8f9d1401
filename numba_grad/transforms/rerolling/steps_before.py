"""The first steps of a Python loop, where they look unlike the others.

A loop begins with numbers, mostly: `y = np.array([1.0, 0.5])`. Nothing of them requires grad, and
NumPy computes `y[0]` itself, so the first step is recorded with fewer operations than the others,
or with others. It is one of them all the same if what it has recorded is what they compute, and
what NumPy has computed is, to the bit, what their operations give.
"""

from collections.abc import Sequence

import numpy as np

from numba_grad.transforms.rerolling.recorded_graph import RecordedGraph, Steps

Carried = tuple[int, int]  # a place in the step, and how many steps back


class StepBefore:
    """One step before those that repeat: the number of what is there in it, by place."""

    __slots__ = ("arrays", "initial", "nodes", "numbers")

    def __init__(self) -> None:
        self.nodes: dict[int, int] = {}
        self.initial: dict[Carried, int] = {}  # what it reads of the steps before it
        self.arrays: dict[int, int] = {}  # by place of an assignment, the array before it
        self.numbers: dict[Carried, int] = {}  # what it has as a row of (place, which input)

    def nodes_among(self, numbers: np.ndarray) -> list[int]:
        """The places of those nodes that are among some."""
        inside = set(numbers.tolist())
        return [place for place, number in self.nodes.items() if number >= 0 and number in inside]


class Comparison:
    """Compares what comes before some steps with the first of them."""

    def __init__(
        self,
        recorded: RecordedGraph,
        steps: Steps,
        sequences: Sequence[tuple[int, int]],
        steps_back: int,
    ) -> None:
        self.recorded = recorded
        self.steps = steps
        self.sequences = set(sequences)
        self.steps_back = steps_back  # of the step in question, from the first that repeats
        self.found = StepBefore()
        self._open: list[tuple[int, int]] = []  # (place, number) that should be the same

    def step_before(
        self,
        initial: dict[Carried, int],
        arrays: dict[int, int],
        stacked: Sequence[int],
    ) -> StepBefore | None:
        """The step that computes what the next one reads, if it is one.

        Parameters
        ----------
        initial : the numbers of what the next step reads of the steps before it
        arrays : by the last place of assignments to it, the array that the next one assigns to
        stacked : places of what others read of each step
        """
        found = self.found
        self._open = [(place, number) for (place, delay), number in initial.items() if delay == 1]
        self._open += arrays.items()
        if any(number < 0 for _, number in self._open):
            return None  # it begins with numbers
        for (place, delay), number in initial.items():
            if delay > 1:
                found.initial[place, delay - 1] = number
        if not self._is_alike() or found.initial.keys() != initial.keys():
            return None
        nodes = self.recorded.nodes
        for (place, _), number in found.initial.items():
            if self.recorded.node(number).type is not nodes[self.steps.first + place].type:
                return None
        self._find_stacked(stacked)
        return found if found.nodes.keys() >= set(stacked) and self._numpy_agrees() else None

    def _inputs(self, place: int) -> list[tuple[int, int]]:
        """Those of a place in the first step that repeats, and in the second."""
        recorded, number = self.recorded, self.steps.first + place
        following = recorded.inputs_of(number + self.steps.period)
        return list(zip(recorded.inputs_of(number), following, strict=True))

    def _is_alike(self) -> bool:
        recorded, found = self.recorded, self.found
        while self._open:
            place, number = self._open.pop()
            while number in recorded.read_again and number not in recorded.read_within:
                reader, [number] = recorded.nodes[number], recorded.inputs_of(number)
                if recorded.node(number).requires_grad and not reader.requires_grad:
                    return False
            own = self.steps.first + place
            if own in recorded.read_again and own not in recorded.read_within:
                [(x, y)] = self._inputs(place)
                if not self._goes_in(place, 0, x, y, number):
                    return False
                continue
            if place in found.nodes:
                if not recorded.is_same_value(number, found.nodes[place]):
                    return False
                continue
            found.nodes[place] = number
            if number < 0:
                continue  # which NumPy has computed, maybe
            if not self._is_same_operation(place, number):
                return False
            given = recorded.inputs_of(number)
            for k, ((x, y), z) in enumerate(zip(self._inputs(place), given, strict=True)):
                if not self._goes_in(place, k, x, y, z):
                    return False
        return True

    def _is_same_operation(self, place: int, number: int) -> bool:
        recorded, own = self.recorded, self.steps.first + place
        row = recorded.row_starts[own] - self.steps_back * self._move(place)
        if not recorded.is_same_operation(own, number) or recorded.row_starts[number] != row:
            return False
        node = recorded.nodes[number]
        follows = recorded.nodes[own].requires_grad and any(x.requires_grad for x in node.inputs)
        return node.requires_grad == follows

    def _move(self, place: int) -> int:
        starts, own = self.recorded.row_starts, self.steps.first + place
        return int(starts[own + self.steps.period] - starts[own])

    def _goes_in(self, place: int, k: int, x: int, y: int, number: int) -> bool:
        """Note that `number` is there what `x` is in the first of the steps, and `y` in the next;
        False if it cannot be."""
        recorded, first, period = self.recorded, self.steps.first, self.steps.period
        if y - x != period or x < 0:
            if (place, k) not in self.sequences or self._move(place):
                return recorded.is_same_value(number, x)
            self.found.numbers[place, k] = number
            if max(number, x) >= 0:
                return recorded.may_be_read_for(number, x)
            move = self.steps_back * (recorded.offset(x) - recorded.offset(y))
            return recorded.is_number(number, like=x, move=move)
        if x >= first:
            self._open.append((x - first, number))
            return True
        if k == 0 and recorded.assigns_row(first + place):
            self.found.arrays[place] = number
            return recorded.node(number).type is recorded.node(x).type
        key = (x - first) % period, -((x - first) // period)
        return recorded.is_same_value(number, self.found.initial.setdefault(key, number))

    def _find_stacked(self, stacked: Sequence[int]) -> None:
        """Look for what is read of each step and not carried on, by what it is computed from."""
        found, recorded, first = self.found, self.recorded, self.steps.first
        if found.nodes.keys() >= set(stacked):
            return
        known: dict[tuple[int, ...], int] = {}
        for number in range(max(0, first - 2 * self.steps.period), first):
            known.setdefault(
                (int(recorded.row_starts[number]), *recorded.inputs_of(number)), number
            )
        for place in range(self.steps.period):
            if place in found.nodes:
                continue
            given = [self._number_of(x, y) for x, y in self._inputs(place)]
            row = int(recorded.row_starts[first + place]) - self.steps_back * self._move(place)
            number = known.get((row, *given))
            if number is not None and self._is_same_operation(place, number):
                found.nodes[place] = number

    def _number_of(self, x: int, y: int) -> int:
        """What is there in place of `x`, as far as that is known."""
        first, period = self.steps.first, self.steps.period
        if y - x != period or x < 0:
            return x
        if x >= first:
            return self.found.nodes.get(x - first, x)
        return self.found.initial.get(((x - first) % period, -((x - first) // period)), x)

    # What NumPy has computed.

    def _numpy_agrees(self) -> bool:
        """Whether the operations give the numbers that are in place of their results."""
        recorded, first = self.recorded, self.steps.first
        given = {place: number for place, number in self.found.nodes.items() if number < 0}
        needed: set[int] = set()
        stack = list(given)
        while stack:
            place = stack.pop()
            if place not in needed:
                needed.add(place)
                stack += [x - first for x, _ in self._inputs(place) if x >= first]
        values: dict[int, np.ndarray | None] = {}
        for place in sorted(needed):
            value = values[place] = self._value(place, values)
            if place in given:
                stated = recorded.known_value(given[place])
                if value is None or stated is None or stated.dtype != value.dtype:
                    return False
                if stated.shape != value.shape or stated.tobytes() != value.tobytes():
                    return False
        return True

    def _value(self, place: int, values: dict[int, np.ndarray | None]) -> np.ndarray | None:
        recorded, first = self.recorded, self.steps.first
        own = first + place
        arrays = []
        for k, (x, y) in enumerate(self._inputs(place)):
            if (place, k) in self.sequences:
                number = self.found.numbers.get((place, k))
                array = None if number is None else recorded.known_value(number)
            elif x >= first:
                array = values[x - first]
            else:
                array = recorded.known_value(self._number_of(x, y))
            if array is None:
                return None
            arrays.append(array)
        node = recorded.nodes[own]
        if own in recorded.read_again:
            part = recorded.read_within.get(own)
            if part is None:
                return arrays[0].reshape(node.shape)
            along = zip(*part.of_rows(0, 1, 1), strict=True)
            own_part = tuple([slice(a, a + size * step, step) for a, size, step in along])
            return arrays[0][own_part].reshape(node.shape)
        if own in recorded.windows:
            return np.concatenate(arrays).reshape(node.shape)
        if node.op.reference is None or own in recorded.powers:
            return None
        with np.errstate(all="ignore"):
            return np.asarray(node.op.reference(*arrays, **node.params), node.dtype, order="C")
