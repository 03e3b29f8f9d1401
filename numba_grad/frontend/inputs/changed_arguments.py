"""Arguments that a function changes in place while it runs on stand-ins for them: afterwards, what
the caller has given changes as it would without."""

import contextlib
import functools
import operator
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from numba_grad.autograd.state import is_leaf, is_revalued, rebind
from numba_grad.autograd.tensor_class import is_tensor
from numba_grad.autograd.views import assign, is_view_of, overlap
from numba_grad.errors import TracingError, explain
from numba_grad.frontend.inputs import trees
from numba_grad.frontend.inputs.arrays import as_node, is_stand_in, value_of, wrap
from numba_grad.graph.node import Node, grad_mode, leaf, record, recording
from numba_grad.graph.walk import is_traced
from numba_grad.immutable import NamedTuple
from numba_grad.ops.elementwise import detach, identity

_SAME_VALUE = (detach, identity)


def numbers_of_changed(stand_ins: Sequence[Any], given: Sequence[Node]) -> list[int]:
    """Which stand-ins have got another value than they were given; not those that have another
    history alone."""
    return [
        k
        for k, (x, before) in enumerate(zip(stand_ins, given, strict=True))
        if x._node is not before and _origin(x._node) is not _origin(before)
    ]


def have_other_values(
    stand_ins: Sequence[Any], given: Sequence[Node], changed: Sequence[int]
) -> list[bool]:
    """Which of those that have changed have another value alone, and the history that they were
    given: what was written to them within `no_grad`."""
    return [_has_another_value(stand_ins[k]._node, given[k]) for k in changed]


def _has_another_value(node: Node, before: Node) -> bool:
    if is_revalued(node):
        return node.inputs[0].inputs[0] is before
    return node.requires_grad and is_leaf(node)  # what the function closes over


def _origin(node: Node) -> Node:
    while node.op in _SAME_VALUE and node.inputs:  # which go once there is a value
        node = node.inputs[0]
    return node


@contextlib.contextmanager
def as_before(assigned: list[tuple[Any, Node]]) -> Iterator[None]:
    """In the end give these tensors, each with what it was, their values back, the first ones; and
    forget them, as what was traced is remembered."""
    try:
        yield
    finally:
        while assigned:
            rebind(*assigned.pop())


def assigned_arrays(assigned: Sequence[tuple[Any, Node]]) -> tuple[list[Any], list[Node]]:
    """These tensors, once each, with what they were at first; but for views of others among them,
    which change with those."""
    first = {id(tensor): (tensor, old) for tensor, old in reversed(assigned)}.values()
    found = [(x, old) for x, old in first if not any(is_view_of(x, y) for y, _ in first)]
    return [x for x, _ in found], [old for _, old in found]


def returning_arguments(f: Callable[..., Any], numbers: Sequence[int]) -> Callable[..., Any]:
    """`f`, which also returns what these leaves of its arguments hold at its end."""

    @functools.wraps(f)
    def with_arguments(*args: Any) -> Any:
        out = f(*args)
        leaves, _ = trees.flatten(args)
        return out, [leaves[k] for k in numbers]

    return with_arguments


class NewContents(NamedTuple):
    """What containers among the arguments hold when the function has run, where that is something
    else than they were given, or under other keys."""

    structure: trees.Structure
    leaves: list[Any]
    numbers: dict[int, int]  # by the `id` of a leaf that was given, its number
    computed: list[Any]  # the tensors that are new

    @classmethod
    def of(cls, tree: Any, given: Sequence[Any]) -> "NewContents | None":
        """Those of containers that were given these leaves; None if nothing is new."""
        leaves, structure = trees.flatten(tree)
        if len(leaves) == len(given) and all(map(operator.is_, leaves, given)):
            return None
        numbers = {id(x): k for k, x in enumerate(given)}
        computed = {id(x): x for x in leaves if is_tensor(x) and id(x) not in numbers}
        return cls(structure, leaves, numbers, list(computed.values()))

    def write(
        self, tree: Any, given: Sequence[Any], nodes: Sequence[Node], *, as_tensors: bool
    ) -> None:
        """Have the caller's containers hold it. `nodes`: the values of what is new."""
        new = {id(x): node for x, node in zip(self.computed, nodes, strict=True)}
        leaves: list[Any] = []
        for x in self.leaves:
            if id(x) in self.numbers:
                leaves.append(given[self.numbers[id(x)]])
            elif id(x) not in new:
                leaves.append(x.copy() if isinstance(x, np.ndarray) else x)
            else:
                node = new[id(x)]
                is_known = node.value is not None and not node.requires_grad
                if is_stand_in(x) and is_known:
                    leaves.append(np.asarray(node.value).item())  # weakly typed, as it was
                else:
                    is_array = is_known and not as_tensors
                    leaves.append(np.asarray(node.value)[()] if is_array else wrap(node))
        _write_over(tree, trees.unflatten(self.structure, leaves))


def _write_over(held: Any, new: Any) -> Any:
    """`held`, with the contents of `new` where it can be changed, else `new`."""
    if held is new or type(held) is not type(new):
        return new
    if isinstance(held, dict):
        contents = {k: _write_over(held.get(k), v) for k, v in new.items()}
        if list(held) != list(contents):
            held.clear()
        held.update(contents)
    elif isinstance(held, list | deque):
        contents = [_write_over(x, y) for x, y in zip(held, new, strict=False)]
        contents += [*new][len(contents) :]
        held.clear()
        held.extend(contents)
    elif isinstance(held, tuple):
        for x, y in zip(held, new, strict=True):
            _write_over(x, y)
    elif is_dataclass(held):
        for field in fields(held):
            old = getattr(held, field.name)
            object.__setattr__(held, field.name, _write_over(old, getattr(new, field.name)))
    else:
        return new
    return held


def change(
    operation: str,
    leaves: Sequence[Any],
    numbers: Sequence[int],
    after: Sequence[Any],
    keep_history: Sequence[bool] = (),
) -> None:
    """Let those of the leaves that have these numbers hold what comes after: nodes, or values.
    Those that `keep_history` get the value alone.

    Raises
    ------
    TracingError
        If another one shows elements of such a leaf, or it is an array of NumPy's and what it is to
        hold has no value yet, or a gradient.
    """
    for number in numbers:
        held = leaves[number]
        others = [k for k, x in enumerate(leaves) if k != number and overlap(x, held)]
        if others:
            raise TracingError(
                explain(
                    operation,
                    "an argument is changed in place, and another one shows its elements",
                    got={"argument": number, "the other": others[0], "type": as_node(held).type},
                    expected="arguments that have nothing in common",
                    fix="x.copy() for one of them",
                )
            )
    keep_history = keep_history or [False] * len(numbers)
    for number, value, keeps in zip(numbers, after, keep_history, strict=True):
        held = leaves[number]
        if is_tensor(held):
            node = value if isinstance(value, Node) else leaf(value)
            with recording(grad_mode.enabled and not keeps):
                assign(held, record(detach, (node,)) if keeps and node.requires_grad else node)
        elif not isinstance(value, Node):
            held[...] = value
        elif is_traced(value) or value.requires_grad:
            raise TracingError(
                explain(
                    operation,
                    "an argument is changed in place, and is a NumPy array, which cannot hold "
                    "a tensor that is not computed yet, or has a gradient",
                    got={"argument": number, "type": as_node(held).type},
                    fix="ng.tensor(x), or np.zeros(shape, like=another), where it is made",
                )
            )
        else:
            held[...] = value_of(value)
