"""Arrays that a loop writes to, a row or an element in each pass, and looks at in between.

    states = np.zeros((1000, 2), like=x)
    for k in range(999):
        states[k + 1] = step(states[k])
        if error(states[k + 1]) < tol:
            break

Where it is written is a part of the program. So the program of each pass would be another one, and
copy the array. Here what is written is computed as any other value, by a program that is the same
for all k, and put into a copy of the array afterwards. A large array is not copied in each pass:
its assignments wait, what is read of it is found among them, and as many as `_MOST_WAITING` are
made at once.

That is for arrays that an assignment has given their value before, and a few assignments. Where
many are made between two looks, the program does them in the memory of the array, and is most
likely the same in each pass.
"""

from collections.abc import Collection
from typing import Any

import numpy as np

from numba_grad.compiler.held_values import SMALL_BYTES, Past
from numba_grad.graph.node import Node
from numba_grad.graph.walk import by_serial
from numba_grad.ops.movement import part, region, slice_, update_slice

_MOST_ROWS = 8  # from one look to the next
_MOST_WAITING = 64


def next_row(past: Past, wanted: Collection[Node]) -> Node | None:
    """What is to be computed before `wanted`, as it is written to a row of an array in `past`.

    None: all of these rows are known, and have been written for whoever in `past` reads them. Under
    the lock of the graph.
    """
    if not any(x.op is update_slice for x in past.parts):
        return None
    pending = sorted(past.pending, key=by_serial)
    waiting: dict[Node, int] = {}  # how many assignments, after the last one that was made
    for node in pending:
        if node.op is update_slice:
            x, v = node.inputs
            if (x in waiting or _was_written(x)) and 2 * v.type.size <= x.type.size:
                waiting[node] = waiting.get(x, 0) + 1
    if sum(x.inputs[1].value is None for x in waiting) > _MOST_ROWS:
        return None
    for node in pending:
        if node in waiting:
            row = node.inputs[1]
            if row.value is None:
                return row
            if node.type.nbytes <= SMALL_BYTES or waiting[node] >= _MOST_WAITING or node in wanted:
                _write(node)
        elif node.op is slice_ and node.inputs[0] in waiting:
            if node.value is None and not _set_from_rows(node):
                _write(node.inputs[0])
        else:
            for x in node.inputs:
                if x in waiting:
                    _write(x)
    return None


def _was_written(node: Node) -> bool:
    return node.op is update_slice and node.value.__class__ is np.ndarray


def _write(last: Node) -> None:
    """Give `last` its value: the array that is there, with all that was written since."""
    if last.value is not None:
        return
    writes = [last]
    while writes[-1].inputs[0].value is None:
        writes.append(writes[-1].inputs[0])
    value = writes[-1].inputs[0].value.copy()
    for node in reversed(writes):
        v = node.inputs[1].value
        value[region(sizes=v.shape, **node.params)] = v
    last.value = value
    if not last.requires_grad:
        last.inputs = ()


def _set_from_rows(node: Node) -> bool:
    """Give a slice its value, if that is one row that was written, or none of them."""
    x = node.inputs[0]
    params = {name: node.params[name] for name in ("starts", "sizes", "steps")}
    while x.value is None:
        old, v = x.inputs
        own = {"sizes": v.type.shape, **x.params}
        if own == params:
            node.value = v.value.reshape(node.shape)
            return True
        if not _are_apart(own, params):
            return False
        x = old
    node.value = np.asarray(part(x.value, **node.params), order="C")
    return True


def _are_apart(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two regions have no element in common, as far as their ends along an axis tell."""
    first, second = region(**one), region(**other)
    return any(a.stop <= b.start or b.stop <= a.start for a, b in zip(first, second, strict=True))
