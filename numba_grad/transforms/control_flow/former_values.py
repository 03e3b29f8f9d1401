"""Loops whose steps carry a cheap function of a former value carry that former value.

    before, now = state; ...; return damping * now, new

What is carried here is `now` and its former value, which needs no copy (`carried_state.py` of the
compiler), and `damping * before` is computed where it is read: so a step stores an array less, and
so does what it keeps for its derivative. It is what loops in Python come to by fusion. What is
carried at first is no such function, so the first step is done before the loop.
"""

from collections.abc import Sequence

from numba_grad.graph.node import ARGUMENT, OPS, Node, argument, recording
from numba_grad.graph.walk import substitute, toposort, users
from numba_grad.immutable import NamedTuple
from numba_grad.ops.families import reshape
from numba_grad.transforms.call_target import CallTarget, once_for_each_graph
from numba_grad.transforms.control_flow.short_loops import WRITTEN_OUT, row_of

# Elements up to which all that a loop carries may be in registers.
_FEW = 64
# Operations of a step, beyond which to compile it twice takes too long.
_MOST_NODES = 200
# In additions, as `Op.cost`: what a step computes again for an array that it need not store.
_CHEAP = 8.0
# Rows are cut off at the first step, and results put in front of others: they are copied, so they
# have to be smaller than what is no longer stored.
_SMALLER = 8


class FormerValues(NamedTuple):
    """A body that carries former values: by the numbers of what the original carries."""

    body: CallTarget
    original: CallTarget
    source: dict[int, int]  # whose former value it is that is carried instead

    def after_first_step(
        self,
        carried: Sequence[Node],
        sequences: Sequence[Node],
        constants: Sequence[Node],
        reverse: bool,
    ) -> tuple[list[Node], list[Node]]:
        """What it carries after the first step of the original, and what that step results in."""
        rows = [row_of(x, x.shape[0] - 1 if reverse else 0) for x in sequences]
        given = dict(zip(self.original.arguments, [*carried, *rows, *constants], strict=True))
        found = substitute(self.original.outputs, given)
        count = len(carried)
        state = [carried[self.source[k]] if k in self.source else found[k] for k in range(count)]
        return state, found[count:]

    def finals(self, finals: Sequence[Node], constants: Sequence[Node]) -> list[Node]:
        """What the original carries out, from what it carries out itself."""
        result = list(finals)
        arguments = self.original.arguments
        given = dict(zip(arguments[len(arguments) - len(constants) :], constants, strict=True))
        for k, source in self.source.items():
            [result[k]] = substitute(
                [self.original.outputs[k]], {**given, arguments[source]: finals[k]}
            )
        return result


def joined(row: Node, others: Node, reverse: bool) -> Node:
    """A stacked result: that of the first step, and those of the others."""
    parts = [reshape(row, (1, *row.shape)), others]
    return OPS["concatenate"](*(reversed(parts) if reverse else parts), axis=0)


def rows_after_first(x: Node, reverse: bool) -> Node:
    """The rows of all steps but the first."""
    sizes = (x.shape[0] - 1, *x.shape[1:])
    starts = (0 if reverse else 1, *[0] * len(x.shape[1:]))
    return OPS["slice"](x, starts=starts, sizes=sizes, steps=(1,) * len(sizes))


@once_for_each_graph
def carrying_former_values(body: CallTarget, carried: int, sequences: int) -> FormerValues | None:
    """The body that carries former values, if there are any to be carried."""
    arguments, outputs = body.arguments, body.outputs
    given, constants = arguments[:carried], set(arguments[carried + sequences :])
    nodes = toposort(outputs)
    if sum(x.type.size for x in given) <= _FEW or len(nodes) > _MOST_NODES:
        return None
    if not all(x.op.family in WRITTEN_OUT for x in nodes):
        return None
    source = _functions_of_former_values(body, carried, nodes, constants)
    spared = sum(given[k].type.nbytes for k in source)
    copied = sum(
        x.type.nbytes for x in (*arguments[carried : carried + sequences], *outputs[carried:])
    )
    if not source or _SMALLER * copied > spared:
        return None
    with recording(True):
        own = {k: argument(given[k].type, given[k].requires_grad) for k in source}
        of_former = {
            given[k]: substitute([outputs[k]], {given[number]: own[k]})[0]
            for k, number in source.items()
        }
        new = substitute(outputs, of_former)
    for k, number in source.items():
        new[k] = given[number]
    target = CallTarget(body.name, [own.get(k, x) for k, x in enumerate(arguments)], new)
    return FormerValues(target, body, source)


def _functions_of_former_values(
    body: CallTarget, carried: int, nodes: Sequence[Node], constants: set[Node]
) -> dict[int, int]:
    """By number of what is carried as a cheap function of another value: of which."""
    given, outputs = body.arguments[:carried], body.outputs
    readers = users(nodes)
    source: dict[int, int] = {}
    for k, x in enumerate(given):
        is_inline = all(user.op.family == "elementwise" for user in readers.get(x, ()))
        if not is_inline or x in outputs or k in source.values():
            continue
        former = _former(outputs[k], constants)
        if former is None or former is x or former not in given or former.type is not x.type:
            continue
        number = given.index(former)
        if x.type.size > _FEW and number not in source and number not in source.values():
            source[k] = number
    return source


def _former(node: Node, constants: set[Node]) -> Node | None:
    """What `node` is a cheap function of, element by element, besides what is the same in all
    steps."""
    found: Node | None = None
    depends: set[Node] = set()
    cost = 0.0
    for x in toposort([node]):
        if x.op is ARGUMENT and x not in constants:
            if found is not None:
                return None
            found = x
            depends.add(x)
        elif any(y in depends for y in x.inputs):
            if x.op.family != "elementwise":
                return None
            depends.add(x)
            cost += x.op.cost
    return found if 0.0 < cost <= _CHEAP else None
