"""What the derivative of a loop carries, where less will do.

    u, v = v, 2 * v - u + c * bend(v)    the cotangent of u is minus what that of v was before

Such a cotangent is carried as that former value, which is in memory already. Where one sum over all
steps adds parts of what another one adds, it is that part of the other sum. And what is the same in
all steps, as the cotangent of a loss that steps add to, is a constant. A derivative that has memory
for some states only carries the same as one that has it for all, so it has the same bits.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from numba_grad.fresh_thread import imported
from numba_grad.graph.node import OPS, Node, argument, record, recording
from numba_grad.graph.types import CPU, MOST_WRITTEN_OUT
from numba_grad.graph.walk import substitute
from numba_grad.immutable import NamedTuple
from numba_grad.transforms.call_target import CallTarget, once_for_each_graph

if TYPE_CHECKING:
    from numba_grad.transforms.control_flow.sums_of_points import SumsOfPoints


class CarriedCotangents(NamedTuple):
    """A body of a derivative that carries less: by the numbers of what the original carries."""

    body: CallTarget
    negated: frozenset[int]  # what is carried with the other sign
    parts: dict[int, tuple[int, list[Node]]]  # sums: of which other one, by which movements
    same: tuple[int, ...]  # what no step changes: the last constants
    points: "SumsOfPoints | None"  # sums that each point has for itself, of what is left

    def is_like(self, other: "CarriedCotangents") -> bool:
        """Whether both leave the same out."""

        def described(carried: CarriedCotangents) -> dict[int, Any]:
            return {
                k: (source, [(x.op, tuple(x.params.items())) for x in movements])
                for k, (source, movements) in carried.parts.items()
            }

        def of_points(carried: CarriedCotangents) -> object:
            return None if carried.points is None else carried.points.described

        alike = self.negated == other.negated and self.same == other.same
        return alike and described(self) == described(other) and of_points(self) == of_points(other)

    def carried(self, count: int) -> list[int]:
        """The numbers of what it carries, of so many values."""
        return [k for k in range(count) if k not in self.parts and k not in self.same]

    def held(self, held: Sequence[Node]) -> list[Node]:
        """What it carries at first."""
        found = self._held(held)
        return found if self.points is None else self.points.held(found)

    def _held(self, held: Sequence[Node]) -> list[Node]:
        return [
            OPS["negative"](held[k]) if k in self.negated else held[k]
            for k in self.carried(len(held))
        ]

    def constants(self, held: Sequence[Node]) -> list[Node]:
        """What it takes in every step instead of carrying it."""
        return [held[k] for k in self.same]

    def finals(self, finals: Sequence[Node], held: Sequence[Node]) -> list[Node]:
        """What the original, which carries `held` at first, carries out."""
        if self.points is not None:
            finals = self.points.finals(finals, self._held(held))
        kept = iter(finals)
        own = {
            k: x if k in self.same else next(kept)
            for k, x in enumerate(held)
            if k not in self.parts
        }
        own |= {k: OPS["negative"](own[k]) for k in self.negated}
        for k, (source, movements) in self.parts.items():
            own[k] = own[source]
            for movement in movements:
                own[k] = record(movement.op, (own[k],), movement.params)
        return [own[k] for k in range(len(held))]


def of_totals(body: CallTarget, carried: int) -> "SumsOfPoints | None":
    """The body that carries totals of points, on a device where that is better."""
    if not body.outputs or body.outputs[0].type.device == CPU:
        return None
    # Imported when it is needed: most programs have no GPU.
    return imported("numba_grad.transforms.control_flow.sums_of_points").carrying_points(
        body, carried
    )


@once_for_each_graph
def carrying_less(body: CallTarget, carried: int, sums: int) -> CarriedCotangents:
    """The body of a derivative, which carries so many values, the last of them sums from 0 on."""
    parts = _parts(body, range(carried - sums, carried))
    negated = _negated(body, range(carried - sums))
    same = tuple([k for k in range(carried) if body.outputs[k] is body.arguments[k]])
    arguments = list(body.arguments)
    outputs = list(body.outputs)
    with recording(True):
        replaced = {}
        for k, former in negated.items():
            arguments[k] = argument(arguments[k].type, arguments[k].requires_grad)
            replaced[body.arguments[k]] = OPS["negative"](arguments[k])
            outputs[k] = body.arguments[former]
        outputs = substitute(outputs, replaced)
    left_out = {*parts, *same}
    target = CallTarget(
        body.name,
        [
            *[x for k, x in enumerate(arguments) if k not in left_out],
            *[arguments[k] for k in same],
        ],
        [x for k, x in enumerate(outputs) if k not in left_out],
    )
    points = of_totals(target, carried - len(left_out))
    if points is not None:
        target = points.body
    return CarriedCotangents(target, frozenset(negated), parts, same, points)


def _negated(body: CallTarget, numbers: Sequence[int]) -> dict[int, int]:
    """What is carried as minus the former value of another one, by number."""
    number_of = {body.arguments[k]: k for k in numbers}
    found: dict[int, int] = {}
    for k in numbers:
        node = body.outputs[k]
        if node.op.name != "negative" or node.type.size <= MOST_WRITTEN_OUT:
            continue
        former = number_of.get(node.inputs[0])
        if former is not None and former != k and former not in found:
            found[k] = former
    return found


def _parts(body: CallTarget, numbers: Sequence[int]) -> dict[int, tuple[int, list[Node]]]:
    """Sums that add parts of what another one adds: by number, of which, and by which movements."""
    added: dict[Node, int] = {}
    for k in numbers:
        node = body.outputs[k]
        if node.op.name == "add" and node.inputs[0] is body.arguments[k]:
            added.setdefault(node.inputs[1], k)
    found: dict[int, tuple[int, list[Node]]] = {}
    for k in numbers:
        node = body.outputs[k]
        if node.op.name != "add" or node.inputs[0] is not body.arguments[k]:
            continue
        movements: list[Node] = []
        node = node.inputs[1]
        while added.get(node, k) == k and node.op.family == "movement" and len(node.inputs) == 1:
            movements.append(node)
            node = node.inputs[0]
        source = added.get(node, k)
        if source != k:
            found[k] = source, movements[::-1]
    # A source that is a part itself is computed after this: it stays.
    return {k: of for k, of in found.items() if of[0] not in found}
