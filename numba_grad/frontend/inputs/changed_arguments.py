"""Arguments that a function changes in place while it runs on stand-ins for them: afterwards, what
the caller has given changes as it would without."""

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from numba_grad.autograd.state import rebind
from numba_grad.autograd.tensor_class import is_tensor
from numba_grad.autograd.views import assign, is_view_of, overlap
from numba_grad.errors import TracingError, explain
from numba_grad.frontend.inputs import trees
from numba_grad.frontend.inputs.arrays import as_node, value_of
from numba_grad.graph.node import Node, leaf
from numba_grad.graph.walk import is_traced
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


def _origin(node: Node) -> Node:
    while node.op in _SAME_VALUE:
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


def change(
    operation: str, leaves: Sequence[Any], numbers: Sequence[int], after: Sequence[Any]
) -> None:
    """Let those of the leaves that have these numbers hold what comes after: nodes, or values.

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
    for number, value in zip(numbers, after, strict=True):
        held = leaves[number]
        if is_tensor(held):
            assign(held, value if isinstance(value, Node) else leaf(value))
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
