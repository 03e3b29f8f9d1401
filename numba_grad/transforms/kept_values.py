"""What the derivative of a body or of a called function reads from memory, and what it computes
again: by cost.

A value is kept where computing it again, from arguments and from what else is kept, takes longer
than storing it and loading it. So matrix products and solutions of linear systems are kept, and
sums and products are not; of functions like `exp` it takes several, one after the other. What came
from other processes always is.
"""

import math
from collections.abc import Callable, Collection, Sequence

from numba_grad.graph.node import Node
from numba_grad.graph.order import is_communicated
from numba_grad.graph.types import MOST_WRITTEN_OUT, TupleType
from numba_grad.graph.walk import toposort

# In additions, as `Op.cost`: storing an element of eight bytes and loading it in another kernel.
# `compiler/cpu_target.py` has the same figure for what goes between kernels of one program.
_STORED = 40.0
# The same of a value of few bytes, which several kernels of a step would compute again, each: less
# than a function like `exp`; and where all that is kept takes so small a part of the room that it
# stays in the second cache of a core (2 MiB of all steps, where no state is large).
_STORED_SMALL = 6.0
_STORED_NEAR = 3.0
_NEAR = 1 / 32
_SMALL = 1 << 17
# What an operation costs at most that is done again rather than read from another place.
_CHEAP = 4.0
# What is computed to memory in any case, as no loop of ours, so that it costs more than to load it.
_COSTLY_FAMILIES = ("contraction", "library", "scan", "sort")
# Whose derivative looks where their input equals them: if that is computed again, they are, too, as
# another kernel may round it otherwise.
_COMPARED = ("max", "min")


def values_worth_keeping(
    outputs: Sequence[Node],
    of_derivative: Sequence[Node],
    available: Collection[Node],
    room: int,
    stored: Collection[Node] = (),
) -> list[Node]:
    """Values of a graph that its derivative had better read, in the order of recording.

    Parameters
    ----------
    outputs : of the graph
    of_derivative : the outputs of its derivative, made of the same nodes
    available : what the derivative has without computing
    room : bytes for what is kept
    stored : what is in memory in any case, and kept where it is read
    """
    choice = _Choice(outputs, of_derivative, available, stored)
    # Without narrowing one would not know what it takes.
    for of_small, share in ((_STORED_NEAR, _NEAR), (_STORED_SMALL, 1.0), (_STORED, 1.0)):
        found = choice.made(of_small, math.inf)
        if sum(x.type.nbytes for x in found if x not in stored) <= share * room:
            return found
    return choice.made(_STORED, room)


# (operation, *types of its inputs, name="", **params) -> whether to save it
Policy = Callable[..., bool]
# What is no work to compute again.
_NO_WORK = ("movement", "literal", "iota", "leaf")


def values_saved(
    outputs: Sequence[Node],
    of_derivative: Sequence[Node],
    available: Collection[Node],
    policy: Policy,
) -> list[Node]:
    """Values of a graph that its derivative reads, of those that a policy says to save."""
    own = toposort(outputs)
    names = {x.inputs[0]: x.params["name"] for x in own if x.op.name == "named"}
    saved = {
        x
        for x in own
        if x not in available and x.op.name != "named" and _is_saved(x, names.get(x, ""), policy)
    }
    order = toposort(of_derivative, stop=lambda x: x in saved or x in available)
    return [x for x in order if x in saved]


def _is_saved(node: Node, name: str, policy: Policy) -> bool:
    if isinstance(node.type, TupleType) or (node.op.family in _NO_WORK and not name):
        return False
    # A result of a function that is called is said to be that of the call.
    said = node.inputs[0] if node.op.name == "item" else node
    params = {} if said.op.family == "call" else said.params
    return bool(policy(said.op.name, *[x.type for x in said.inputs], **{**params, "name": name}))


class _Choice:
    """What there is to choose from: see `values_worth_keeping`."""

    def __init__(
        self,
        outputs: Sequence[Node],
        of_derivative: Sequence[Node],
        available: Collection[Node],
        stored: Collection[Node],
    ) -> None:
        self.own = set(toposort(outputs))
        self.of_derivative = of_derivative
        self.available = available
        self.stored = frozenset(stored)
        order = toposort(of_derivative, stop=lambda x: x in self.available)
        self.order = order
        # What only the derivative reads of the loops and calls among these: the states of all steps
        # of a loop. It spares all that these do only if none of it is computed again.
        self.histories: dict[Node, list[Node]] = {}
        for node in order:
            if node not in self.own and _is_result_of(node, self.own):
                self.histories.setdefault(node.inputs[0], []).append(node)
        self.own.update([x for history in self.histories.values() for x in history])
        self.readers: dict[Node, set[Node]] = {}
        for node in order:
            for x in node.inputs:
                self.readers.setdefault(x, set()).add(node)

    def made(self, of_small: float, room: float) -> list[Node]:
        kept: dict[Node, None] = {}
        found: dict[Node, None] = {}  # of what is stored
        there = set(self.available)  # or computed again for something else
        for node in _read(self.own, self.of_derivative, there):
            if node in there or isinstance(node.type, TupleType):
                continue
            history = self.histories.get(node.inputs[0], ()) if node.inputs else ()
            if node in history:
                nbytes = sum(x.type.nbytes for x in history)
                if nbytes <= room:
                    room -= nbytes
                    kept.update(dict.fromkeys(history))
                    there.update(history)
                continue
            if not node.requires_grad:
                continue
            if is_communicated(node):
                # In any case: there may be less room on another rank, and both have to communicate.
                kept[node] = None
                there.add(node)
                continue
            if node.op.name in _COMPARED and node.inputs[0] not in there:
                continue
            cone = _cone(node, there)
            nbytes = node.type.nbytes
            cost = sum(map(_cost, cone))
            if node in self.stored and (
                cost > _CHEAP * node.type.size or self.spares_an_array(node, there)
            ):
                found[node] = None
                there.add(node)
                continue
            of_storing = of_small if nbytes <= _SMALL else _STORED
            if cost <= of_storing * nbytes / 8 or nbytes > room:
                # Elementwise, it is computed again with what reads it.
                if all(x.op.family == "elementwise" for x in cone if _cost(x)):
                    there.update(cone)
                continue
            room -= nbytes
            kept[node] = None
            there.add(node)
        _replace_by_sums(kept, self.own, self.readers, self.order)
        _replace_by_functions(kept, self.own, self.readers)
        found |= kept
        return [x for x in self.order if x in found]

    def spares_an_array(self, node: Node, there: Collection[Node]) -> bool:
        """Whether a value that is in memory is read in place of another array."""
        if node.type.size <= MOST_WRITTEN_OUT:
            return False

        def arrays_read(available: Collection[Node]) -> int:
            order = toposort(self.of_derivative, stop=lambda x: x in available)
            return sum(x in available and x.type.size > MOST_WRITTEN_OUT for x in order)

        return arrays_read({*there, node}) <= arrays_read(there)


def _replace_by_sums(
    found: dict[Node, None],
    own: Collection[Node],
    readers: dict[Node, set[Node]],
    order: Sequence[Node],
) -> None:
    """What is only read to compute one other value, which is no larger, is replaced by that: two
    products by their sum."""
    # Inputs first, so that a chain is followed to its end.
    for node in order:
        if node not in own or node in found or node.op.family != "elementwise":
            continue
        replaced = [x for x in found if readers.get(x) == {node}]
        if replaced and node.type.nbytes <= sum(x.type.nbytes for x in replaced):
            for x in replaced:
                del found[x]
            found[node] = None


def _replace_by_functions(
    found: dict[Node, None], own: Collection[Node], readers: dict[Node, set[Node]]
) -> None:
    """What is only read to compute functions of parts of it is replaced by these, where they are no
    larger together: the sum before the gates of a cell by the gates, or by what `exp` makes of
    minus a part."""
    for x in list(found):
        values: dict[Node, None] = {}
        stack = [x]
        while stack:
            for node in readers.get(stack.pop(), ()):
                if node in own and len(node.inputs) == 1 and _is_on_the_way(node):
                    stack.append(node)
                else:
                    values[node] = None
        if (
            values
            and all(y in own and y.op.family == "elementwise" for y in values)
            and all(len(y.inputs) == 1 and y.op.cost > _CHEAP for y in values)
            and sum(y.type.nbytes for y in values) <= x.type.nbytes
        ):
            del found[x]
            found.update(values)


def _is_on_the_way(node: Node) -> bool:
    """Whether it is looked at what is made of a value of one input, as of the parts of an array."""
    if node.op.family == "movement":
        return True
    return node.op.family == "elementwise" and node.op.cost <= _CHEAP


def _read(
    own: Collection[Node], of_derivative: Sequence[Node], there: Collection[Node]
) -> list[Node]:
    """The nodes of the graph that its derivative needs and that take time, inputs first: what it
    reads, and costly ones that this is made of."""
    order = toposort(of_derivative, stop=lambda node: node in there)
    read = {x for node in order if node not in own for x in node.inputs if x in own}
    return [x for x in order if x in own and (x in read or _is_costly(x) or is_communicated(x))]


def _is_result_of(node: Node, calls: Collection[Node]) -> bool:
    return node.op.name == "item" and node.inputs[0].op.family == "call" and node.inputs[0] in calls


def _is_costly(node: Node) -> bool:
    return node.op.family in _COSTLY_FAMILIES


def _cone(node: Node, there: Collection[Node]) -> list[Node]:
    """What is computed to have a node."""
    return [x for x in toposort([node], stop=lambda x: x in there) if x not in there]


def _cost(node: Node) -> float:
    """Of computing a node, in additions."""
    if isinstance(node.type, TupleType) or _is_costly(node):
        return math.inf
    match node.op.family:
        case "elementwise":
            return node.op.cost * node.type.size
        case "reduction":
            return node.inputs[0].type.size
        case "movement" | "literal" | "iota" | "control" | "leaf":
            return 0.0
    return node.type.size
