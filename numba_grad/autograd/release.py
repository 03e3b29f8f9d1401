"""Releasing history after a backward pass that does not retain it.

Memory must go down although the loss, or any other tensor, lives on. What is left of the history
says which leaves an operation led to, so that a second pass is refused exactly when it would need
what was freed.
"""

from bisect import bisect_left
from collections.abc import Container, Iterable, Sequence

from numba_grad.autograd.state import state_of
from numba_grad.graph.node import LEAF, NO_PARAMS, Node, new_node
from numba_grad.graph.walk import by_serial, in_order_of_recording, released
from numba_grad.ops.control import custom

# With more leaves, an operation is taken to lead to all of them: a set for each would take too much
# memory.
_EXACT_LEAVES = 1024


def release(
    order: Sequence[Node],
    ends: Iterable[Node],
    executed: set[Node],
    inside: Sequence[Sequence[Node]] = (),
) -> None:
    """Free what the operations of `executed` saved.

    `order` is the whole history, inputs before users, with `ends`, as `history_of` gives them.
    Operations whose derivative reads no values (a sum, an addition) save nothing, so another pass
    may go through them. `inside` are steps of loops, one after the other, which hardly ever have
    values; they count as executed where they require grad.
    """
    for steps in inside:
        # Of a long loop nearly all nodes there are: no set of them, unless it is asked.
        executed.update(released(steps))
    links = _Links(order, ends)
    kept = []  # what another pass may go through, and has a value
    for node in executed:
        if node.op.saves:
            node.released = True
            if node.value is not None:
                node.inputs = links.of(node)
            continue
        if node.op is custom:
            node.params["context"].release()
        if node.value is not None:
            kept.append(node)
    if kept:
        _detach_values(kept, _Executed(executed, inside), links)


class _Executed:
    """What a pass has gone through. Of steps of a loop a set is made when it is worth it: mostly
    somebody asks for a few of them."""

    __slots__ = ("_asked", "_named", "_steps")

    def __init__(self, named: set[Node], steps: Sequence[Sequence[Node]]) -> None:
        self._named = named
        self._steps = steps
        self._asked = 0

    def __contains__(self, node: Node) -> bool:
        if node in self._named:
            return True
        if not node.requires_grad or not self._steps:
            return False
        self._asked += 1
        if 32 * self._asked > sum(map(len, self._steps)):
            self._named.update(*[[x for x in steps if x.requires_grad] for steps in self._steps])
            self._steps = ()
            return node in self._named
        return any(_is_among(node, steps) for steps in self._steps)


def _is_among(node: Node, steps: Sequence[Node]) -> bool:
    place = bisect_left(steps, node.serial, key=by_serial)
    while place < len(steps) and steps[place].serial == node.serial:
        if steps[place] is node:
            return True
        place += 1
    return False


class _Links:
    """The leaves that gradients of each node flow to: found when the first node asks, as many
    passes compute nothing but gradients."""

    __slots__ = ("_ends", "_leaves", "_masks", "_order", "_tuples")

    def __init__(self, order: Sequence[Node], ends: Iterable[Node]) -> None:
        self._order: Sequence[Node] | None = order
        self._ends = ends
        self._leaves: list[Node] = []
        self._masks: dict[Node, int] | None = None
        self._tuples: dict[int, tuple[Node, ...]] = {}

    def of(self, node: Node) -> tuple[Node, ...]:
        order, self._order = self._order, None
        if order is not None:
            leaves = [x for x in self._ends if x.requires_grad and x.op.vjp is None]
            self._leaves = in_order_of_recording(leaves)
            if 1 < len(self._leaves) <= _EXACT_LEAVES:
                self._masks = _leaf_masks(order, self._leaves)
        if self._masks is None:
            # Of one leaf, all that gradients flow through.
            flows = any(x.requires_grad for x in node.inputs)
            return tuple(self._leaves) if flows else ()
        mask = self._masks[node]
        found = self._tuples.get(mask)
        if found is None:
            found = tuple([x for k, x in enumerate(self._leaves) if mask >> k & 1])
            self._tuples[mask] = found
        return found


def _leaf_masks(order: Sequence[Node], leaves: Sequence[Node]) -> dict[Node, int]:
    """Sets of leaves as bits of integers: 0.2 us per node, where sets take 1 us."""
    masks = {leaf: 1 << number for number, leaf in enumerate(leaves)}
    for node in order:
        if node.requires_grad and node.op.vjp is not None:
            mask = 0
            for x in node.inputs:
                if x.requires_grad:
                    mask |= masks.get(x, 0)
            masks[node] = mask
    return masks


def _detach_values(kept: Sequence[Node], executed: Container[Node], links: _Links) -> None:
    """Let `kept`, computed operations that stay differentiable, hold on to types, not to values."""
    # Below them, what another pass may go through.
    needed = set()
    stack = [x for node in kept for x in node.inputs]
    while stack:
        node = stack.pop()
        if node in executed and node not in needed:
            needed.add(node)
            if not node.op.saves:
                stack += node.inputs
    stubs: dict[Node, Node] = {}
    for node in in_order_of_recording(needed.union(kept)):
        if node.op.saves:
            stubs[node] = _stub(node, links.of(node))
            continue
        inputs = tuple([x if _may_stay(x, executed) else _stub_of(x, stubs) for x in node.inputs])
        if node in needed:
            stubs[node] = _stub(node, inputs)
        if node.value is not None:
            node.inputs = inputs


def _may_stay(x: Node, executed: Container[Node]) -> bool:
    """Leaves, and what this pass did not free."""
    return x.requires_grad and (x.op.vjp is None or x not in executed)


def _stub_of(x: Node, stubs: dict[Node, Node]) -> Node:
    stub = stubs.get(x)
    if stub is None:
        stub = stubs[x] = _type_only(x)
    return stub


def _stub(node: Node, inputs: tuple[Node, ...]) -> Node:
    """`node` for gradients alone: it has no value and cannot be computed."""
    if node.value is not None:
        # The user's own tensor: a later pass knows it by its state.
        state_of(node)
    stub = new_node(node.op, inputs, node.params, node.type, None, True)
    stub.serial = node.serial  # inputs have smaller ones than users
    stub.released = node.released
    stub.autograd = node.autograd
    return stub


def _type_only(node: Node) -> Node:
    stub = new_node(LEAF, (), NO_PARAMS, node.type, None, False)
    stub.serial = node.serial
    return stub
