"""A graph as arrays of numbers, so that one look at them says what is alike among all nodes.

    number   node                   signatures   row_starts   inputs
    0        slice(x, rows=4)       6            4            -1        x is no part of the graph
    1        add(y, %0)             8            0            -2, 0
    2        slice(x, rows=5)       6            5            -1        is alike, a row further on
    3        add(%1, %2)            8            0            1, 2

`signatures.py` says which operations have the same signature.
"""

from bisect import bisect_left
from collections.abc import Collection, Hashable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from numba_grad.graph.node import HOLDING, OPS, Node, Op
from numba_grad.graph.survey import NodeSurvey, survey_of
from numba_grad.graph.types import CPU
from numba_grad.graph.walk import by_serial
from numba_grad.transforms.loop_sizes import LARGEST_VALUE
from numba_grad.transforms.rerolling.assigned_rows import RowAccess
from numba_grad.transforms.rerolling.signatures import signatures_of

if TYPE_CHECKING:
    from numba_grad.transforms.read_at_calls import ReadAtCalls

_CONCATENATE = OPS["concatenate"]


class NewSignatures:
    """Signatures that no operation of a graph has, for operations that are alike in another way."""

    def __init__(self, signatures: np.ndarray) -> None:
        self._first = int(signatures.max(initial=0)) // 2 + 1
        self._kinds: dict[Hashable, int] = {}

    def __contains__(self, kind: Hashable) -> bool:
        return kind in self._kinds

    def of(self, kind: Hashable, requires_grad: bool) -> int:
        """The same one for the same kind."""
        number = self._kinds.setdefault(kind, self._first + len(self._kinds))
        return 2 * number + requires_grad


class GraphAsArrays:
    """Nodes have their position in the order as a number; inputs that are not in it have negative
    ones."""

    def __init__(
        self,
        order: Sequence[Node],
        fixed: Collection[Node],
        read_at_calls: "ReadAtCalls | None",
        largest: int,
        survey: NodeSurvey | None = None,
    ) -> None:
        """`fixed` are no part of a loop, nor is what has more than `largest` elements; `survey` of
        `order`, if it was made."""
        self.nodes = order
        self.read_at_calls = read_at_calls
        survey = survey_of(order, fixed) if survey is None else survey
        self.others: list[Node] = []  # inputs that are not in the order
        self.arities = survey.arities
        self.first_inputs = np.concatenate([[0], np.cumsum(self.arities)])
        self.inputs = self._merged(survey.inputs, survey.others)
        # Signatures are 0 of what cannot be in a loop, else equal for equal operations, and odd for
        # those that require grad; of what reads or assigns one row, it is in `row_starts`.
        self.signatures, accesses = signatures_of(order, survey, largest)
        self.row_accesses, self.row_starts, self.part_numbers, self.row_parts = accesses
        self.signatures[~survey.are_free] = 0
        self.signatures[survey.fixed[survey.fixed >= 0]] = 0
        self.row_accesses[self.signatures == 0] = RowAccess.NONE
        # What nodes read in the graph, where reads of rows are not taken for what was assigned.
        self.inputs_in_graph = self.inputs
        self._concatenations: list[int] = []  # those that were looked for
        self._looked_from = len(order)

    def _merged(self, inputs: np.ndarray, others: Sequence[Node]) -> np.ndarray:
        """`inputs`, where equal small arrays are one, as `np.zeros(1)` of each step."""
        equal: dict[object, int] = {}  # by elements
        numbers = np.zeros(len(others) + 1, np.int64)  # the last one stands for -1
        for k, x in enumerate(others):
            number = equal.setdefault(self._elements_of(x), -1 - len(self.others))
            if number == -1 - len(self.others):
                self.others.append(x)
            numbers[-1 - k] = number
        if len(self.others) == len(others):
            return inputs
        return np.where(inputs < 0, numbers[inputs.clip(max=-1)], inputs)

    def _elements_of(self, x: Node) -> object:
        """What is the same for arrays that may stand for each other, whatever is done to one."""
        if x.op not in HOLDING or x.value is None or not len(x.shape) > 0 or x.requires_grad:
            return x
        if x.type.size > LARGEST_VALUE or x.type.device != CPU or self.is_read_at_calls(x):
            return x
        return (x.type, x.value.tobytes())

    def _read_instead(self, given: dict[int, list[int]]) -> None:
        """Have nodes of one input read these."""
        times = np.ones(len(self.inputs), np.int64)
        places = list(given)
        times[self.first_inputs[places]] = self.arities[places] = [*map(len, given.values())]
        self.inputs, self.inputs_in_graph = (
            np.repeat(x, times) for x in (self.inputs, self.inputs_in_graph)
        )
        self.first_inputs = np.concatenate([[0], np.cumsum(self.arities)])
        for number, numbers in given.items():
            first = self.first_inputs[number]
            self.inputs[first : first + len(numbers)] = numbers

    def _numbers_of(self, *ops: Op) -> list[int]:
        """Nodes that are one of these operations, of a floating number, and may be in a loop."""
        # Of each signature one node says what it is.
        numbers = np.arange(len(self.nodes))
        example = np.full(self.signatures.max(initial=0) + 1, -1)
        example[self.signatures[::-1]] = numbers[::-1]
        example[0] = -1
        found = np.zeros(len(example), bool)
        for signature in np.flatnonzero(example >= 0).tolist():
            x = self.nodes[example[signature]]
            found[signature] = x.op in ops and x.shape == () and x.dtype.kind == "f"
        return np.flatnonzero(found[self.signatures]).tolist()

    def node(self, number: int) -> Node:
        return self.nodes[number] if number >= 0 else self.others[-number - 1]

    def inputs_of(self, number: int) -> list[int]:
        first = self.first_inputs[number]
        return self.inputs[first : first + self.arities[number]].tolist()

    def is_read_at_calls(self, x: Node) -> bool:
        return self.read_at_calls is not None and self.read_at_calls.place_of(x) is not None

    def known_value(self, number: int) -> np.ndarray | None:
        """Of a number or an array that is the same in all runs."""
        x = self.node(number)
        if x.op not in HOLDING or x.requires_grad or self.is_read_at_calls(x):
            return None
        return x.value if x.type.device == CPU else None

    @cached_property
    def newest(self) -> int:
        """The last serial number."""
        return max([x.serial for x in self.nodes])

    @cached_property
    def are_in_order_of_recording(self) -> bool:
        serials = np.fromiter(map(by_serial, self.nodes), np.int64, len(self.nodes))
        return bool((np.diff(serials) > 0).all())

    def concatenations_after(self, end: int) -> list[int]:
        """Numbers from `end` on, in order."""
        if end < self._looked_from:
            nodes = self.nodes[end : self._looked_from]
            new = [number for number, x in enumerate(nodes, end) if x.op is _CONCATENATE]
            self._concatenations = [*new, *self._concatenations]
            self._looked_from = end
        return self._concatenations[bisect_left(self._concatenations, end) :]
