"""Operations as numbers, which are equal where steps of a loop may be: the same operation of the
same type, wherever the row is that it reads or assigns.
"""

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from numba_grad.graph.node import HOLDING, NO_PARAMS, OPS, Node
from numba_grad.graph.survey import NodeSurvey
from numba_grad.graph.types import CPU, TupleType
from numba_grad.immutable import NamedTuple
from numba_grad.ops.cheap_branches import are_cheap
from numba_grad.ops.control import item
from numba_grad.transforms.call_target import CallTarget
from numba_grad.transforms.loop_sizes import FEWEST_STEPS, LARGEST_VALUE
from numba_grad.transforms.rerolling.assigned_rows import (
    UPDATE,
    RowAccess,
    RowAccesses,
    RowPart,
    row_access,
    row_axis,
    row_part,
)

if TYPE_CHECKING:
    from numba_grad.transforms.read_at_calls import ReadAtCalls

_FAMILIES = frozenset(
    [
        "contraction",
        "elementwise",
        "indexing",
        "iota",
        "library",
        "literal",
        "movement",
        "reduction",
    ]
)
_OF_POINTS, _ALSO_OF_POINTS = ("elementwise", "literal"), ("broadcast_to", "reshape", "sum")
_SLICE = OPS["slice"]

# What can be said of many nodes at once is: a call for each takes as long as all the rest.


def signatures_of(
    nodes: Sequence[Node], survey: NodeSurvey, largest: int
) -> tuple[np.ndarray, RowAccesses]:
    """For each node the signature, and what it has to do with rows."""
    kinds = 2 * survey.kinds
    # Those of params of their own, by identity: what gradient rules made, and `np.sum`, often.
    kinds_by_params: dict[tuple[Any, ...], int] = {}
    for k in np.flatnonzero(kinds == 0).tolist():
        node = nodes[k]
        key = (node.op, id(node.params), node.type, *[x.type for x in node.inputs])
        kinds[k] = -2 * kinds_by_params.setdefault(key, len(kinds_by_params))
    kinds += survey.require_grad
    numbers = np.arange(len(nodes))
    first_of = np.empty(kinds.max() - kinds.min() + 1, np.int64)
    first_of[(kinds - kinds.min())[::-1]] = numbers[::-1]  # the last one that is written stays
    first = first_of[kinds - kinds.min()]
    known: dict[tuple[Any, ...], int] = {}
    parts: dict[RowPart, int] = {}
    signatures, row_starts, accesses, part_numbers = np.zeros((4, len(nodes)), np.int64)
    for k in np.flatnonzero(first == numbers).tolist():
        use = _use(nodes[k], largest)
        if use.part is not None:
            accesses[k] = use.access
            part_numbers[k] = parts.setdefault(use.part, len(parts))
        if use.name is not None:
            row_starts[k] = use.row
            kind = known.setdefault(use.name, len(known) + 1)
            signatures[k] = 2 * kind + nodes[k].requires_grad
    of_rows = RowAccesses(accesses[first], row_starts[first], part_numbers[first], list(parts))
    return signatures[first], of_rows


class _Use(NamedTuple):
    """What an operation has to do with rows, and its name, by which steps are compared: None for
    one that is in no loop."""

    access: int
    row: int  # or the first one
    part: RowPart | None
    name: tuple[Any, ...] | None


_uses: dict[tuple[int, int], _Use] = {}  # by the kind of a node
_MOST_USES = 1 << 16


def _use(node: Node, largest: int) -> _Use:
    # What reads a result of a branch depends on what the branch is, beside its kind.
    key = node.kind, largest
    found = _uses.get(key) if node.kind and node.op is not item else None
    if found is None:
        found = _new_use(node, largest)
        if len(_uses) >= _MOST_USES:
            _uses.clear()
        if node.kind and node.op is not item:
            _uses[key] = found
    return found


def _new_use(node: Node, largest: int) -> _Use:
    params, access, row, part = node.params, RowAccess.NONE, 0, None
    if node.op is UPDATE or node.op is _SLICE:
        access = row_access(node)
        if access:
            part = row_part(node)
    assigns = access == RowAccess.ASSIGNS
    if not (is_fit(node, largest) or (assigns and is_fit(node.inputs[1], largest))):
        return _Use(access, row, part, None)
    rest: object = None
    if assigns:
        row, rest = params["starts"][row_axis(node)], part
    elif node.op is _SLICE and _may_move(node):
        row = params["starts"][row_axis(node)]
        rest = part or row_part(node), params["sizes"], params.get("dropped")
    elif params is not NO_PARAMS:
        rest = _name_of(params)
    return _Use(access, row, part, None if rest == "" else (node.op, node.type, rest))


def _may_move(slice: Node) -> bool:
    """Whether it is of one row, or of so few that steps may read others in their place."""
    [x], sizes = slice.inputs, slice.params["sizes"]
    if not sizes or sizes[row_axis(slice)] == 1:
        return bool(sizes)
    return slice.params["steps"][0] == 1 and FEWEST_STEPS * sizes[0] <= x.shape[0]


def types_of_numbers(
    others: Sequence[Node], read_at_calls: "ReadAtCalls | None"
) -> tuple[np.ndarray, np.ndarray]:
    """For each node a code of its type, if it is a number, or a small array such as `data[k]` of
    NumPy's, that another step may have another one in place of, else 0; and the offset, if it is in
    a memory that is read at each call."""
    codes: dict[int | tuple[int, Hashable], int] = {}  # by identity of the type
    found, offsets = np.zeros((2, max(1, len(others))), np.int64)
    for k, x in enumerate(others):
        if x.op not in HOLDING or x.value is None or x.requires_grad:
            continue
        type = x.type
        if not is_small(x):
            continue
        place = None if read_at_calls is None else read_at_calls.place_of(x)
        if place is not None:
            offsets[k] = place[1]
        key = id(type) if place is None else (id(type), place[0])
        found[k] = codes.setdefault(key, len(codes) + 1)
    return found, offsets


def is_small(node: Node) -> bool:
    """Whether each step may have another one of its kind, from which an array is made."""
    type = node.type
    return type.__class__ is not TupleType and type.size <= LARGEST_VALUE and type.device == CPU


def is_fit(node: Node, largest: int) -> bool:
    """Whether an operation as this one may be in a loop, on a CPU of at most so many elements."""
    type = node.type
    if type.__class__ is TupleType:
        return node.op.name == "branch" and type.device == CPU and _is_cheap(node)
    if type.device != CPU:
        # There a thread does all steps of a point, where points never meet, of any size.
        return node.op.family in _OF_POINTS or node.op.name in _ALSO_OF_POINTS
    is_known = node.op.family in _FAMILIES or (node.op is item and is_fit(node.inputs[0], largest))
    return is_known and type.size <= largest


def _is_cheap(branch: Node) -> bool:
    branches: tuple[CallTarget, ...] = branch.params["branches"]
    numbers = range(len(branches[0].outputs))
    return are_cheap(branches, numbers)


def _name_of(params: dict[str, Any]) -> str:
    """Equal for equal params, to the bit; "" if that cannot be said."""
    return repr(tuple(params.items())) if all(map(_is_plain, params.values())) else ""


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    # A graph's own name has its address: equal ones are one (`known_bodies.py`).
    return value is None or isinstance(
        value, (bool, int, float, complex, str, bytes, np.dtype, np.generic, CallTarget)
    )
