"""Who is told of each operation as it is recorded. Nobody, usually: then recording costs nothing
more.

Two want to know: anomaly detection, of every operation in the process; and a backward pass, of what
users' hooks record on its thread, so that tensors they keep are computed with everything else.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator

from numba_grad.fresh_thread import carried
from numba_grad.graph import node as node_module
from numba_grad.graph.node import Node
from numba_grad.locks import new_lock

_lock = new_lock()


class _Registered:
    anomaly: Callable[[Node], None] | None = None
    collectors: int = 0  # how many threads collect now


class _OfThread(threading.local):
    collected: list[Node] | None = None


_of_thread = carried(_OfThread())


def set_anomaly_observer(observer: Callable[[Node], None] | None) -> None:
    with _lock:
        _Registered.anomaly = observer
        _install()


@contextlib.contextmanager
def collecting(nodes: list[Node]) -> Iterator[None]:
    """Append to `nodes` what this thread records."""
    previous = _of_thread.collected
    _of_thread.collected = nodes
    _count(1)
    try:
        yield
    finally:
        _of_thread.collected = previous
        _count(-1)


def _count(change: int) -> None:
    with _lock:
        _Registered.collectors += change
        _install()


def _install() -> None:
    is_needed = _Registered.collectors > 0 or _Registered.anomaly is not None
    node_module.observer = _observe if is_needed else None


def _observe(node: Node) -> None:
    collected = _of_thread.collected
    if collected is not None:
        collected.append(node)
    anomaly = _Registered.anomaly
    if anomaly is not None:
        anomaly(node)
