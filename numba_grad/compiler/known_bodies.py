"""Bodies of loops and branches by their structure: one that is written in a loop, or traced by each
call, is compiled and differentiated once. And what was found in long graphs, on disk."""

import weakref
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

from numba_grad.compiler import plan_cache
from numba_grad.compiler.building import cache
from numba_grad.compiler.plan_cache import digest_of_call
from numba_grad.graph.node import Node
from numba_grad.graph.walk import toposort
from numba_grad.locks import new_lock


class _Graph(Protocol):
    @property
    def arguments(self) -> Sequence[Node]: ...
    @property
    def outputs(self) -> Sequence[Node]: ...


Body = TypeVar("Body", bound=_Graph)
_bodies: weakref.WeakValueDictionary[bytes, Any] = weakref.WeakValueDictionary()
# The short ones that were met last. A program may know a body only by others that were derived from
# it: nobody else would keep it until the next call traces it again.
_last: OrderedDict[bytes, Any] = OrderedDict()
_last_lock = new_lock()
_MOST_KEPT = 256
_LONGEST_KEPT = 600


def known_body(body: Body) -> Body:
    """An equal one that is there already, else `body`."""
    digest = digest_of_call(body)
    if digest is None:
        return body
    # What was recorded without history looks the same.
    nodes = toposort(body.outputs)
    flags = bytes([node.requires_grad for node in (*nodes, *body.arguments)])
    known = _bodies.setdefault(digest + flags, body)
    if len(nodes) <= _LONGEST_KEPT:
        with _last_lock:
            _last[digest + flags] = known
            _last.move_to_end(digest + flags)
            if len(_last) > _MOST_KEPT:
                _last.popitem(last=False)
    return known


class StoreOfLoops:
    """Bodies, and what was found in graphs of Python loops, by a description of these."""

    def body(self, target: Body, /) -> Body:
        return known_body(target)

    def name_of(self, description: bytes, /) -> str | None:
        environment = plan_cache.environment()
        if environment is None:
            return None
        return cache.key_of("loops", environment, cache.new_digest(description).hexdigest())

    def read(self, name: str, /) -> bytes | None:
        return cache.peek(name)

    def write(self, name: str, content: bytes, /) -> None:
        cache.write_later(name, lambda: content)


LOOPS = StoreOfLoops()
