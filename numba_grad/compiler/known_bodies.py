"""Bodies of loops and branches by their structure: one that is written in a loop, or traced by each
call, is compiled and differentiated once."""

import weakref

from numba_grad.compiler.plan_cache import digest_of_call
from numba_grad.graph.walk import toposort
from numba_grad.transforms.call import CallTarget

_bodies: weakref.WeakValueDictionary[bytes, CallTarget] = weakref.WeakValueDictionary()


def known_body(body: CallTarget) -> CallTarget:
    """An equal one that is there already, else `body`."""
    digest = digest_of_call(body)
    if digest is None:
        return body
    # What was recorded without history looks the same.
    nodes = toposort(body.outputs)
    flags = bytes([node.requires_grad for node in (*nodes, *body.arguments)])
    return _bodies.setdefault(digest + flags, body)
