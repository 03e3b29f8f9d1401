"""Functions of loops and branches while they are traced, and what must not cross their border.

Such a function runs once, on arguments without values. A tensor that it keeps elsewhere than in its
result has no value when the trace is over, and what it assigns to a tensor of its surroundings
would happen once, not in each step.
"""

import contextlib
import threading
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from numba_grad.errors import TracingError, explain
from numba_grad.fresh_thread import carried
from numba_grad.graph.node import ARGUMENT, Node


@dataclass(slots=True, eq=False, weakref_slot=True)
class TracedBody:
    """A function that is being traced, or was."""

    operation: str  # what it is given to: "scan"
    name: str
    first_serial: int  # of its own nodes
    outer: "TracedBody | None"
    is_running: bool = True

    def __str__(self) -> str:
        return f"{self.name}, the function of {self.operation}"


class _Current(threading.local):
    body: TracedBody | None = None


current = carried(_Current())  # the innermost that this thread is in
_body_of: weakref.WeakKeyDictionary[Node, TracedBody] = weakref.WeakKeyDictionary()


@contextlib.contextmanager
def tracing_body(
    operation: str, name: str, arguments: Sequence[Node], first_serial: int
) -> Iterator[None]:
    """While a function is run on `arguments`, which no other call has. Nodes from `first_serial` on
    are its own."""
    body = TracedBody(operation, name, first_serial, current.body)
    current.body = body
    try:
        for node in arguments:
            _body_of[node] = body
        yield
    finally:
        body.is_running = False
        current.body = body.outer


def check_assigned_inside(old: Node) -> None:
    """Raise if `old`, the value of a tensor that is assigned to, is older than the body that is
    being traced.

    Raises
    ------
    TracingError
        If it is.
    """
    body = current.body
    if body is not None and old.serial < body.first_serial:
        raise TracingError(
            explain(
                body.operation,
                f"{body.name} assigns to a tensor of its surroundings: it is traced once, so "
                "this would not happen in each step",
                got={"tensor": old.type},
                expected="assignments to tensors that the function gets or makes",
                fix="the tensor as part of what is carried, or y = x.copy() inside, and y returned",
            )
        )


def check_inside(argument: Node) -> None:
    """Raise if `argument` belongs to a body whose trace is over.

    Raises
    ------
    TracingError
        If it does.
    """
    body = _body_of.get(argument) if argument.op is ARGUMENT else None
    if body is not None and not body.is_running:
        raise TracingError(
            explain(
                body.operation,
                "a tensor of the inside is used outside, where it has no value",
                got={"made in": body},
                expected="use of what the function returns",
                fix="the tensor as part of what the function returns",
            )
        )
