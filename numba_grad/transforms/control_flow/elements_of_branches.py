"""Elements of arrays that branches read and write are taken before, and put back after them.

    if x > 0:                        a = y[k - 1]
        y[k] = y[k - 1] * x          v = a * x if x > 0 else y[k]
                                     y[k] = v

So what a branch gets and returns is numbers, not arrays with all of their elements: what follows
sees which element was written, and the same branch at another place is the same one, so steps with
such branches become a loop.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence

from numba_grad.graph.node import OPS, Node, argument, record
from numba_grad.graph.walk import lets_gradients_through, substitute, toposort
from numba_grad.immutable import NamedTuple
from numba_grad.ops.families import reshape
from numba_grad.ops.movement import Shape, region, region_params, slice_params
from numba_grad.transforms.call_target import CallTarget
from numba_grad.transforms.control_flow.branches import Branches

_UPDATE, _SLICE = OPS["update_slice"], OPS["slice"]
_MOST_ELEMENTS = 4  # of a part that counts as numbers, as those of a vector in space
_MOST_PARTS = 8  # that branches write of one array
_MOST_READ = 32  # parts of all arrays: a branch with more of them is a program of its own


class _Part(NamedTuple):
    """Some elements of an array."""

    starts: Shape
    sizes: Shape
    steps: Shape

    @property
    def places(self) -> set[Shape]:
        ranges = [range(s.start, s.stop, s.step) for s in region(*self)]
        return set(itertools.product(*ranges))


class _Written(NamedTuple):
    """A result that is an operand but for some parts."""

    operand: Node
    parts: tuple[_Part, ...]


# Parts of operands: the operand, the part, and the axes that are left out.
_Key = tuple[Node, _Part, Shape]


def with_elements_apart(
    branches: Branches, operands: Sequence[Node], known: Callable[[CallTarget], CallTarget]
) -> tuple[Branches, list[Node], list[_Written | None]]:
    """Branches and operands without what branches only read elements of and write elements to, and
    what `put_back` makes of their results; `known` gives the one of equal graphs."""
    count = len(branches[0].outputs)
    if not any(_is_array(x) for x in operands) or any(own.has_rules for own in branches):
        return branches, list(operands), [None] * count
    # An operand that several branches close over is one for each of them.
    given = [dict(zip(own.arguments, operands, strict=True)) for own in branches]
    written = [
        _written_by([(own.outputs[k], x) for own, x in zip(branches, given, strict=True)])
        for k in range(count)
    ]
    read: dict[_Key, Node] = {}
    apart = [_apart(own, x, written, read) for own, x in zip(branches, given, strict=True)]
    reached = set(toposort([x for outputs, _ in apart for x in outputs]))
    kept = [
        k
        for k in range(len(operands))
        if not _is_array(operands[k]) or any(own.arguments[k] in reached for own in branches)
    ]
    is_as_it_was = len(kept) == len(operands) and not read and not any(written)
    if is_as_it_was or len(read) > _MOST_READ:
        return branches, list(operands), [None] * count
    targets = []
    for own, (outputs, taken) in zip(branches, apart, strict=True):
        elements = [taken.get(key) or argument(x.type, x.requires_grad) for key, x in read.items()]
        arguments = [*[own.arguments[k] for k in kept], *elements]
        targets.append(known(CallTarget(own.name, arguments, outputs)))
    return tuple(targets), [*[operands[k] for k in kept], *read.values()], written


def put_back(results: Sequence[Node], written: Sequence[_Written | None]) -> list[Node]:
    """The results of the branches as they were, from those of `with_elements_apart`."""
    following = iter(results)
    found = []
    for own in written:
        if own is None:
            found.append(next(following))
            continue
        x = own.operand
        for part in own.parts:
            x = record(_UPDATE, (x, next(following)), region_params(part.starts, part.steps))
        found.append(x)
    return found


def _is_array(x: Node) -> bool:
    return x.type.size > _MOST_ELEMENTS


def _written_by(results: Sequence[tuple[Node, Mapping[Node, Node]]]) -> _Written | None:
    """Of one result in each of the branches: the operand that it is, and the parts, which do not
    overlap, that any of them writes. With each, the operands by the arguments of the branch."""
    operands: set[Node] = set()
    parts: dict[_Part, None] = {}
    for node, given in results:
        while (part := _assigned(node)) is not None:
            parts[part] = None
            node = node.inputs[0]
        if node not in given or not _is_array(node):
            return None
        operands.add(given[node])
    if len(operands) != 1 or not 0 < len(parts) <= _MOST_PARTS:
        return None
    if any(a.places & b.places for a, b in itertools.combinations(parts, 2)):
        return None
    return _Written(operands.pop(), tuple(parts))


def _assigned(node: Node) -> _Part | None:
    """The part that a node assigns to, if it is an assignment of few elements."""
    if node.op is not _UPDATE or not node.inputs or node.inputs[1].type.size > _MOST_ELEMENTS:
        return None
    if not lets_gradients_through(node):
        return None
    return _Part(node.params["starts"], node.inputs[1].shape, node.params["steps"])


def _apart(
    own: CallTarget,
    given: Mapping[Node, Node],
    written: Sequence[_Written | None],
    read: dict[_Key, Node],
) -> tuple[list[Node], dict[_Key, Node]]:
    """The results of one branch with parts in place of arrays that it writes, and its arguments for
    the parts that it reads; `read` gets the parts of operands."""
    taken: dict[_Key, Node] = {}

    def change(node: Node) -> Node | None:
        if node.op is not _SLICE or not node.inputs or node.type.size > _MOST_ELEMENTS:
            return None
        if not lets_gradients_through(node):
            return None
        dropped = node.params.get("dropped", ())
        part = _Part(node.params["starts"], node.params["sizes"], node.params["steps"])
        x = node.inputs[0]
        while (other := _assigned(x)) is not None:
            if other == part:
                return reshape(x.inputs[1], node.shape)
            if other.places & part.places:
                return None
            x = x.inputs[0]
        if x not in given or not _is_array(x):
            return None
        key = given[x], part, dropped
        if key not in taken:
            if key not in read:
                params = slice_params(*part, dropped)
                read[key] = record(_SLICE, (given[x],), params)
            taken[key] = argument(node.type, x.requires_grad)
        return taken[key]

    outputs: list[Node] = []
    for output, parts in zip(own.outputs, written, strict=True):
        if parts is None:
            outputs.append(output)
        else:
            outputs += [record(_SLICE, (output,), slice_params(*part)) for part in parts.parts]
    return substitute(outputs, {}, change), taken
