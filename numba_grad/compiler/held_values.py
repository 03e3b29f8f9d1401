"""What is known before a program is compiled, and what is kept of what it computes on its way.

A loop looks at a value in each pass (`if np.max(np.abs(new - x)) < tol: break`). What is wanted is
one number, and behind it lies everything since the start. If the state that the user holds is kept,
the next look starts there, and its program is the one of the pass before. The same goes for what
nobody holds any more (`x -= step` after `step` was recorded, and before the look), where something
recorded after the last look reads it: it is a state that the loop went on from.

Results of a loop that are looked at afterwards, one by one (`errors.append(error)`, and then
`max(errors)`, or a plot of them), were recorded before the first look. There the state is what the
last look has computed on its way, and what is asked for now goes on from.

Keeping costs little where an array is small, or is stored anyway, as matrix products are. A large
one that is fused with what reads it would be written to memory for a script that prints a sum, and
maybe wants nothing else. So it is kept when it is computed for the second time, and so is in that
loop what comes after it.

Sums that the loop makes of its states (`color = color + light * alpha`) are not behind what it
looks at. If they stayed pending, they would keep the states of all passes. Nodes do not know who
reads them, so what is recorded after a look is noted until the next one. What the user holds of it,
reads what the look computes, and goes on from a pending value of an earlier pass, is computed with
it. That is for loops without gradients: others keep their past anyway.

Nothing here depends on time, addresses or what was compiled before.
"""

import math
import threading
import weakref
from collections.abc import Collection, Iterable
from operator import attrgetter

import numpy as np

from numba_grad.compiler.partition.roles import REARRANGEMENTS, WRITES
from numba_grad.compiler.partition.segments import LONGEST_WHOLE
from numba_grad.fresh_thread import carried
from numba_grad.graph import observers
from numba_grad.graph.node import ARGUMENT, LEAF, Node, held_tensor, next_serial
from numba_grad.graph.placement import LITERALS
from numba_grad.graph.types import TupleType
from numba_grad.graph.walk import by_serial, value_inputs
from numba_grad.immutable import NamedTuple
from numba_grad.ops.control import item
from numba_grad.ops.movement import part, slice_, update_slice

SMALL_BYTES = 1 << 16

# Computed at the place of use, where that is in one kernel with it.
_FUSED = ("elementwise", "movement", "indexing")
# A large one that is held keeps what it shows, as in NumPy: no memory of its own.
_VIEWS = (*REARRANGEMENTS, "detach", "identity")

# Large values that were held, computed, and not kept; and what was kept since it was computed a
# second time.
_left: weakref.WeakSet[Node] = weakref.WeakSet()
_kept: weakref.WeakSet[Node] = weakref.WeakSet()

# Sums and the like that were there at a look and not computed, and what was computed of them since.
_waiting: weakref.WeakSet[Node] = weakref.WeakSet()
_carried: weakref.WeakSet[Node] = weakref.WeakSet()
_LONGEST_SUM = 20_000  # operations


_requires_grad = attrgetter("requires_grad")


class _Looks(threading.local):
    last = 0  # what is recorded from now on has a greater serial; before the first look, all has
    behind: frozenset[int] = frozenset()  # the serials of what the last look had to compute


_looks = carried(_Looks())


class Past(NamedTuple):
    """What some nodes are computed from, down to what has values, with both."""

    nodes: dict[Node, None]
    pending: list[Node]  # those of them that have no values
    parts: list[Node]  # and of these, what reads or writes parts of arrays


def past_of(wanted: Iterable[Node], most: float = math.inf) -> Past:
    """The past of `wanted`; of more than `most` nodes, a part."""
    nodes = dict.fromkeys(wanted)
    pending: list[Node] = []
    parts: list[Node] = []
    stack = list(nodes)
    while stack and len(nodes) <= most:
        node = stack.pop()
        if node.value is None:
            pending.append(node)
            op = node.op
            if op is slice_ or op is update_slice:
                parts.append(node)
            for x in node.inputs if op is not item else value_inputs(node):
                if x not in nodes:
                    nodes[x] = None
                    stack.append(x)
    return Past(nodes, pending, parts)


def still_pending(past: Past, wanted: Iterable[Node]) -> Past:
    """The past of `wanted`, which was `past` before parts of arrays got values."""
    known = {x for x in past.parts if x.value is not None}
    if not known:
        return past
    if any(x.op is not slice_ or x.inputs[0].value is None for x in known):
        return past_of(wanted)
    # What only these slices have read is no longer behind.
    pending = [x for x in past.pending if x not in known]
    unread = {x.inputs[0] for x in known}.difference(wanted)
    for x in pending:
        unread.difference_update(_sources(x))
    nodes = dict.fromkeys([x for x in past.nodes if x not in unread])
    return Past(nodes, pending, [x for x in past.parts if x not in known])


def set_rows(past: Past, *, is_look: bool) -> None:
    """Give their values to slices of arrays in memory that are such arrays themselves, and for a
    look to small ones that are columns and the like.

    A loop that reads `data[k]` then runs one program for all k. A graph too long for a segment does
    not need it: there, k is a number that the segment is given.
    """
    if len(past.nodes) > LONGEST_WHOLE:
        return
    for node in past.parts:
        if node.op is slice_ and node.value is None:
            whole = node.inputs[0].value
            if whole.__class__ is np.ndarray:
                rows = part(whole, **node.params)
                if rows.flags.c_contiguous:
                    node.value = rows
                elif is_look and not _is_large(node) and 2 * rows.size <= whole.size:
                    node.value = np.ascontiguousarray(rows)


def gone_on_from(past: Past) -> list[Node]:
    """What was recorded before the last look and is read here by what was recorded after it, if
    that is not all that is pending."""
    last = _looks.last
    newer = [x for x in past.pending if x.serial > last]
    if len(newer) == len(past.pending):
        return []
    return [x for y in newer for x in _sources(y) if x.serial < last]


def to_keep(
    past: Past, wanted: Iterable[Node], *, is_look: bool, states: Iterable[Node] = ()
) -> list[Node]:
    """What is to be kept of the past of `wanted`, in the order of recording. `states`: what a look
    that needs `wanted` goes on from.

    Under a lock: it takes notes of what is not.
    """
    asked = set(wanted)
    states = [x for x in states if x in past.nodes]
    states += [
        x
        for x in past.pending
        if x.handle is not None and x not in asked and held_tensor(x) is not None
    ]
    if is_look:
        states += gone_on_from(past)
        _looks.last = next_serial()
        states += _read_further(past)
    if not states:
        return []
    held = sorted([x for x in set(map(_shown, states)) - asked if _is_data(x)], key=by_serial)
    large = [x for x in held if _is_large(x) and x.op.family in _FUSED]
    if not large:
        return held
    if any(x in _left or x in _kept for x in past.nodes):
        _kept.update(large)
        return held
    _left.update(large)
    return [x for x in held if x not in _left]


def _read_further(past: Past) -> list[Node]:
    """What the last look has computed on its way, has no value, and is read here by what it has not
    computed. Takes notes for the next one."""
    before = _looks.behind
    _looks.behind = frozenset([x.serial for x in past.pending])
    if before.isdisjoint(_looks.behind):
        return []
    further = [y for y in past.pending if y.serial not in before]
    return [x for y in further for x in _sources(y) if x.value is None and x.serial in before]


def carried_along(past: Past) -> list[Node]:
    """What goes on from pass to pass beside `past`, which a look computes: see above."""
    if any(map(_requires_grad, past.nodes)):
        observers.end_notes()
        return []
    noted = observers.next_notes()
    found = [
        node
        for node in noted
        if node.value is None
        and not node.requires_grad
        and node not in past.nodes
        and held_tensor(node) is not None
        and _is_carried(node, past.nodes, noted[0].serial)
    ]
    _carried.update(found)
    return found


def _is_carried(node: Node, past: Collection[Node], first: int) -> bool:
    """Whether `node` reads what `past` computes and a pending value from before `first`, or one
    that was carried before. An array that is assigned into is not: its states need each value."""
    behind = _behind_sum(node)
    if behind is None:
        return False
    own, pending = behind
    if not any(x in past and x.op.family != LEAF.family for x in own):
        return False
    if any(x in _carried or x in _waiting for x in own):
        return True
    _waiting.add(node)
    return not _is_large(node) and any(x.serial < first and held_tensor(x) is None for x in pending)


def _behind_sum(node: Node) -> tuple[dict[Node, None], list[Node]] | None:
    """What `past_of` finds; None at the first assignment or argument, and where it is too much."""
    own: dict[Node, None] = {node: None}
    pending: list[Node] = []
    stack = [node]
    while stack:
        x = stack.pop()
        if x.value is not None:
            continue
        if x.op is ARGUMENT or x.op.name in WRITES or len(pending) == _LONGEST_SUM:
            return None
        pending.append(x)
        new = [y for y in _sources(x) if y not in own]
        own.update(dict.fromkeys(new))
        stack += new
    return own, pending


def is_filled(node: Node) -> bool:
    """Whether it is made of nothing but literals, ranges and numbers, in one step."""
    for x in node.inputs:  # written out: a generator takes 1 us
        family = x.op.family
        if family not in LITERALS and (family != "leaf" or x.shape != ()):
            return False
    return True


def _sources(node: Node) -> tuple[Node, ...]:
    return node.inputs if node.op is not item else value_inputs(node)


def _shown(node: Node) -> Node:
    while node.value is None and node.op.name in _VIEWS and _is_large(node):
        node = node.inputs[0]
    return node


def _is_large(node: Node) -> bool:
    return node.type.nbytes > SMALL_BYTES


def _is_data(node: Node) -> bool:
    return node.value is None and node.type.__class__ is not TupleType and not is_filled(node)
