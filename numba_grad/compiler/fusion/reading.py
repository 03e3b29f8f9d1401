"""How operations read values, if these axes are loops and those are written out.

    y = x + 1         at y's own indices: both are computed at one point of a loop
    y = x.sum(0)      at y's own, and along the axis at one after the other
    y = x[::-1]       at others along that axis

What is read at other indices is in memory, or is computed again for each reader.
"""

import math
from collections.abc import Mapping

from numba_grad.compiler.loop_nests.iteration_spaces import matching_groups
from numba_grad.compiler.partition.roles import ASSIGNMENTS, CONDITIONAL
from numba_grad.graph.node import Node


class Reading:
    """Parameters: of each value, the axes that are loops."""

    def __init__(self, loops: Mapping[Node, tuple[int, ...]]) -> None:
        self.loops = loops

    def is_aligned(self, user: Node, x: Node) -> bool:
        """Whether `user` reads `x` at its own loop indices, so that both can be computed at one
        point."""
        if user.op.family == "elementwise":
            if not self.loops[user] and not self.loops[x]:
                return True
            return self.shape_of_loops(user) == self.shape_of_loops(x)
        if user.op.family == "reduction":
            return True
        if user.op.family == "movement":
            return self.movement_is_aligned(user, x)
        return False

    def shape_of_loops(self, node: Node) -> list[tuple[int, int]]:
        """Loop axes, counted from the last, with extents: what broadcasting lines up."""
        rank = len(node.shape)
        return [(axis - rank, node.shape[axis]) for axis in self.loops[node]]

    def movement_is_aligned(self, user: Node, x: Node) -> bool:
        loops = self.loops[x]
        if not loops and not self.loops[user]:
            return True
        extents = [x.shape[axis] for axis in loops]
        if extents != [user.shape[axis] for axis in self.loops[user]]:
            return False
        name = user.op.name
        if name == "reshape":
            return 0 not in x.shape and all(
                len(old) == len(new) == 1 or not any(axis in loops for axis in old)
                for old, new in matching_groups(x.shape, user.shape)
            )
        if name == "transpose":
            return [user.params["axes"][axis] for axis in self.loops[user]] == list(loops)
        if name == "broadcast_to":
            return self.shape_of_loops(user) == self.shape_of_loops(x)
        if name == "concatenate":
            return user.params["axis"] not in self.loops[user]
        if name == "flip":
            return not any(axis in loops for axis in user.params["axes"])
        if name in ("slice", "pad"):
            return all(x.shape[axis] == user.shape[axis] for axis in loops)
        return name in ASSIGNMENTS and self.is_decided_while_compiling(user)

    def repetition(self, user: Node, x: Node) -> float:
        """Evaluations of each element of `x` for one evaluation of all of `user`."""
        if not self.loops[x]:
            return 1.0  # outside of all loops
        if user.op.name in CONDITIONAL:
            # What is put into it, each element in its place; but loops are not cut for each one.
            return float(math.prod(self.strides(user, x)))
        stretched = user.op.family == "elementwise" or user.op.name == "broadcast_to"
        if not stretched:
            return user.type.size / max(1, x.type.size)
        # Along inner axes a value is kept in a register; along outer ones it is computed again.
        shift = len(user.shape) - len(x.shape)
        own = {axis + shift for axis in self.loops[x]}
        last = max(own)
        missing = (n for axis, n in enumerate(user.shape[:last]) if axis not in own)
        return float(math.prod(missing))

    def strides(self, user: Node, x: Node) -> list[int]:
        """At which distances along loops the elements of `x` are put into a conditional value."""
        if user.op.name == "pad":
            every = [interior + 1 for interior in user.params["interior"]]
        elif user.op.name in ASSIGNMENTS and x is user.inputs[1]:
            every = user.params["steps"]
        else:
            return []
        return [step for axis, step in enumerate(every) if axis in self.loops[x]]

    def is_at_one_place(self, movement: Node) -> bool:
        return all(self.movement_is_aligned(movement, x) for x in movement.inputs)

    def is_decided_while_compiling(self, node: Node) -> bool:
        """Whether which elements an assignment changes does not depend on indices of loops."""
        changed = node.inputs[1].shape
        return all(changed[axis] == node.shape[axis] for axis in self.loops[node])

    def copies(self, node: Node) -> int:
        """Elements of `node` that a kernel writes out one by one."""
        loops = self.loops[node]
        return max(1, math.prod(n for axis, n in enumerate(node.shape) if axis not in loops))
