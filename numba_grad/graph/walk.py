"""Walks of a graph. Iterative throughout: chains of 100,000 nodes are ordinary."""

import itertools
import sys
import weakref
from collections import deque
from collections.abc import Callable, Collection, Container, Iterable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np

from numba_grad.dtypes import is_inexact
from numba_grad.graph.node import (
    ARGUMENT,
    SERIALS_A_NODE,
    Node,
    grad_mode,
    record,
    recording,
)
from numba_grad.graph.types import TupleType
from numba_grad.immutable import NamedTuple

if TYPE_CHECKING:
    from numba_grad.graph.native_walks import NativeWalks

by_serial = attrgetter("serial")
MANY = 1000


def in_order_of_recording(nodes: Collection[Node]) -> list[Node]:
    """Inputs before users."""
    if len(nodes) < MANY:
        return sorted(nodes, key=by_serial)
    # Of a million, sorted as an array: a third of the time.
    unordered = list(nodes)
    serials = np.fromiter(map(by_serial, unordered), np.int64, len(unordered))
    return [unordered[k] for k in np.argsort(serials).tolist()]


def toposort(roots: Iterable[Node], stop: Callable[[Node], bool] | None = None) -> list[Node]:
    """All nodes that `roots` depend on, inputs before users, each once.

    A node for which `stop` holds is included, its inputs are not followed. The order depends on the
    graph alone:
    depth first, inputs from left to right.
    """
    order: list[Node] = []
    # A node is in `seen` from when its inputs are pushed; it is appended when popped the second
    # time.
    seen: set[Node] = set()
    stack: list[Node | None] = [*reversed(list(roots))]
    pending: list[Node] = []
    while stack:
        node = stack.pop()
        if node is None:
            order.append(pending.pop())
            continue
        if node in seen:
            continue
        seen.add(node)
        inputs = node.inputs
        if not inputs or (stop is not None and stop(node)):
            order.append(node)
            continue
        pending.append(node)
        stack.append(None)
        stack += inputs[::-1]  # who is seen by then is left out: as fast as to ask here
    return order


class History(NamedTuple):
    """What is behind some nodes."""

    nodes: list[Node]  # inputs before users
    ends: list[Node]  # those of them that gradients do not go on from
    held: list[Node]  # those that have a tensor in use, and no value


def _no_native_walks() -> "NativeWalks | None":
    return None


# Which the compiler says, as it compiles them.
native_walks: "Callable[[], NativeWalks | None]" = _no_native_walks


_newest_walked = 0  # the serial of a root


def history_of(
    roots: Iterable[Node],
    ends: Collection[Node] = (),
    *,
    since: int = 0,
    with_pending: bool = False,
) -> History:
    """What gradients of `roots` flow through, whoever asks: one walk, which stops where it is told.

    Parameters
    ----------
    roots : of which those count that require grad; with `with_pending`, all
    ends : nodes that are included, and not followed
    since : the serial of a node: what was recorded before it is not followed either
    with_pending : whether it includes what has to be computed before, which has no value yet
    """
    global _newest_walked
    first = [x for x in dict.fromkeys(roots) if with_pending or x.requires_grad]
    # As many as were recorded since the last walk are most probably behind these roots: a look at
    # the first thousand of them was a tenth of the second gradient of 100 steps.
    newest = max(map(by_serial, first), default=0)
    is_long = newest - max(since, _newest_walked) > MANY * SERIALS_A_NODE
    _newest_walked = max(_newest_walked, newest)
    found = None if is_long else _walked(first, ends, since, with_pending, MANY)
    if found is None:
        native = native_walks()
        if native is not None:
            walked = native.history(tuple(first), tuple(ends), since, with_pending)
            found = None if walked is None else History(*walked)
    if found is None:
        found = _walked(first, ends, since, with_pending, sys.maxsize)
        assert found is not None
    return found


def _walked(
    roots: Sequence[Node], ends: Container[Node], since: int, with_pending: bool, most: int
) -> History | None:
    """What `history_of` gives; None if that is more than so many. As `walk` in
    `walk_functions.py`."""
    stack = list(roots)
    seen = set(stack)
    order: list[Node] = []
    met = []
    is_bounded = since > 0 or ends != ()
    # Depth first: of a loop that gives a result in each step, from the last one to the first, which
    # is the order of memory. All steps at once took twice as long.
    found, follow, take = order.append, stack.append, stack.pop
    for _ in itertools.repeat(None, most):
        if not stack:
            break
        node = take()
        found(node)
        # Read once: another thread may compute the node, and then drop its inputs.
        inputs = node.inputs
        if not inputs or (is_bounded and (node.serial < since or node in ends)):
            met.append(node)
            continue
        is_end = True
        flows = node.op.vjp is not None
        for x in inputs:
            if x.requires_grad and flows:
                is_end = False
            elif not with_pending or x.value is not None:
                continue
            if x not in seen:
                seen.add(x)
                follow(x)
        if is_end:
            met.append(node)
    if stack:
        return None
    # Found from the last to the first, but for some: what is nearly in order is sorted in half of
    # the time of an array.
    order.reverse()
    order.sort(key=by_serial)
    return History(order, met, [x for x in order if x.value is None and is_held(x)])


def is_held(node: Node) -> bool:
    """Whether the tensor of a node is in use, maybe for another node by now."""
    return node.handle is not None and node.handle() is not None


def is_nobodys(node: Node) -> bool:
    """Whether nobody holds a node, or has a hook on it."""
    return node.autograd is None and (node.handle is None or node.handle() is None)


def released(nodes: Sequence[Node]) -> list[Node]:
    """Mark as released those of `nodes` that require grad, have no value and save something for
    their derivative; returns those that require grad and have a value."""
    native = native_walks() if len(nodes) >= MANY else None
    found = None if native is None else native.release(tuple(nodes))
    if found is not None:
        return found
    found = []
    for node in nodes:
        if node.requires_grad:
            if node.value is not None:
                found.append(node)
            elif node.op.saves:
                node.released = True
    return found


def leading_to(order: Iterable[Node], targets: set[Node]) -> set[Node]:
    """`targets`, and what gradients flow through on the way to one; `order`: inputs first."""
    leads = set(targets)
    for node in order:
        if node.requires_grad and node.op.vjp is not None and node not in leads:
            for x in node.inputs:
                if x in leads and x.requires_grad:
                    leads.add(node)
                    break
    return leads


def needed_for(
    roots: Iterable[Node],
    order: Sequence[Node],
    inputs: Callable[[Node], Iterable[Node]] = attrgetter("inputs"),
) -> list[Node]:
    """Those of `order`, inputs before users, that `roots` depend on, and of these those that are
    there; `inputs` says what a node reads, if that is to be something else."""
    needed = set(roots)
    found = []
    for node in reversed(order):
        if node in needed:
            found.append(node)
            needed.update(inputs(node))
    return found[::-1]


def recorded_since(serial: int, nodes: Iterable[Node]) -> set[Node]:
    """Those of `nodes`, and of what they are made of, that have larger serial numbers."""
    found: set[Node] = set()
    stack = list(nodes)
    while stack:
        node = stack.pop()
        if node.serial > serial and node not in found:
            found.add(node)
            stack += node.inputs
    return found


# What is traced: an argument stands for a value that is not there while a function is recorded, so
# what depends on it cannot be computed.


def stands_for_a_value(node: Node) -> bool:
    """Whether this is an argument of what is being traced."""
    return node.op is ARGUMENT and node.value is None


def traced_arguments(nodes: Iterable[Node]) -> list[Node]:
    """The arguments that the values of `nodes` depend on, in the order of reading."""
    pending = toposort(nodes, stop=lambda node: node.value is not None)
    return [node for node in pending if stands_for_a_value(node)]


def value_inputs(node: Node) -> tuple[Node, ...]:
    """The inputs that the value of `node` depends on: of an item of what is put together, that."""
    if node.op.name == "item":
        parent = node.inputs[0]
        if parent.op.name in ("custom", "pack"):
            # Their last inputs are the results.
            first = len(parent.inputs) - len(parent.type.items)
            return (parent.inputs[first + node.params["number"]],)
        return parent.inputs
    return node.inputs


_found_traced: weakref.WeakSet[Node] = weakref.WeakSet()


def is_traced(*nodes: Node) -> bool:
    """Whether the value of one of `nodes` depends on such an argument.

    The nearest operations first, down to what was found to be traced before: where each step of a
    loop in Python asks, it would go through all of those before it.
    """
    found = _found_traced if len(_found_traced) else ()  # to ask a weak set takes as long as a step
    reached: dict[Node, Node | None] = dict.fromkeys(nodes)  # and from where
    left = deque(reached)
    while left:
        node = left.popleft()
        if node.value is not None:
            continue
        if node.op is ARGUMENT or node in found:
            x: Node | None = node
            while x is not None:
                _found_traced.add(x)
                x = reached[x]
            return True
        for y in value_inputs(node):
            if y not in reached:
                reached[y] = node
                left.append(y)
    return False


def users(nodes: Sequence[Node]) -> dict[Node, list[Node]]:
    """For each of `nodes`, those of them that read it, in order, once per reading argument."""
    result: dict[Node, list[Node]] = {node: [] for node in nodes}
    for node in nodes:
        for x in node.inputs:
            if x in result:
                result[x].append(node)
    return result


def substitute(
    roots: Sequence[Node],
    replacement: dict[Node, Node],
    change: Callable[[Node], Node | None] | None = None,
) -> list[Node]:
    """`roots` with nodes replaced.

    By `replacement`, and by whatever `change` makes of a rebuilt node.
    """
    done = dict(replacement)
    for node in toposort(roots, stop=lambda n: n in replacement or n.value is not None):
        if node in done:
            continue
        # Read once: another thread may compute the node meanwhile, and drop its inputs.
        own = node.inputs
        inputs = tuple([done.get(x, x) for x in own]) if node.value is None else own
        # Nodes are equal if they are the same.
        new = node if inputs == own else rebuilt(node, inputs, replacement)
        if change is not None and node.value is None:
            new = change(new) or new
        done[node] = new
    return [done[root] for root in roots]


def lets_gradients_through(node: Node) -> bool:
    """Whether gradients flow on to what it is made of, as they would if it were recorded anew: not
    if it was recorded within `no_grad`, nor if that is what it does.

    Who looks through a node, for what is recorded anew of its inputs, has to ask. Whole numbers and
    truth values, as those of a comparison, have no gradient wherever they are recorded.
    """
    if node.requires_grad or not any(x.requires_grad for x in node.inputs):
        return True
    return not isinstance(node.type, TupleType) and not is_inexact(node.dtype)


def rebuilt(node: Node, inputs: tuple[Node, ...], replacement: dict[Node, Node]) -> Node:
    """`node` with other inputs; what was recorded without history has none afterwards.

    An op whose params speak of the graph says itself how it is rebuilt.
    """
    rebuild = node.op.extras.get("rebuild")
    with recording(grad_mode.enabled and lets_gradients_through(node)):
        if rebuild is not None:
            return rebuild(node, inputs, replacement)
        return record(node.op, inputs, node.params)


def copied(node: Node, inputs: tuple[Node, ...], copies: dict[Node, Node]) -> Node:
    """`node` with other inputs of the same types, where others may walk its graph.

    What is recorded about it goes for its copy: it has the same state, and is of the same age.
    """
    copy = rebuilt(node, inputs, copies)
    copy.serial, copy.autograd, copy.value = node.serial, node.autograd, node.value
    copy.requires_grad, copy.released = node.requires_grad, node.released
    return copy
