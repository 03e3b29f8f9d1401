"""Bodies of loops and branches by their structure: one that is written in a loop, or traced by each
call, is compiled and differentiated once."""

import weakref
from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

from numba_grad.compiler.plan_cache import digest_of_call
from numba_grad.graph.node import Node
from numba_grad.graph.walk import toposort


class _Graph(Protocol):
    @property
    def arguments(self) -> Sequence[Node]: ...
    @property
    def outputs(self) -> Sequence[Node]: ...


Body = TypeVar("Body", bound=_Graph)
_bodies: weakref.WeakValueDictionary[bytes, Any] = weakref.WeakValueDictionary()


def known_body(body: Body) -> Body:
    """An equal one that is there already, else `body`."""
    digest = digest_of_call(body)
    if digest is None:
        return body
    # What was recorded without history looks the same.
    nodes = toposort(body.outputs)
    flags = bytes([node.requires_grad for node in (*nodes, *body.arguments)])
    return _bodies.setdefault(digest + flags, body)
