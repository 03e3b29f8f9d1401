"""Who is told of each operation as it is recorded. Nobody, usually: then recording costs nothing
more.

Six want to know: anomaly detection, of every operation in the process; a backward pass, of what
users' hooks record on its thread, so that tensors they keep are computed with everything else;
evaluation, of what a thread records from one look at a value to the next, for a while; a level of
dual numbers, of what its thread records, for the tangents; a function of a loop, of what is
recorded while it is traced; and those that look for tensors of such a function used elsewhere.
"""

import contextlib
import threading
import weakref
from collections.abc import Callable, Iterator

from numba_grad.fresh_thread import carried
from numba_grad.graph import node as node_module
from numba_grad.graph.node import Node
from numba_grad.locks import new_lock

# The longest pass of a loop that is noted. Whoever records more without looking pays no longer.
_LONGEST_PASS = 2000

_lock = new_lock()
_reference = weakref.ref


class _Registered:
    anomaly: Callable[[Node], None] | None = None
    leaks: Callable[[Node], None] | None = None
    collectors: int = 0  # how many threads collect now


class _Notes:
    """What a thread has recorded since it took them, while that is still there."""

    __slots__ = ("__weakref__", "nodes")

    def __init__(self) -> None:
        self.nodes: list[weakref.ref[Node]] = []


class _OfThread(threading.local):
    collected: list[Node] | None = None
    notes: _Notes | None = None
    tangents: Callable[[Node], None] | None = None
    body: Callable[[Node], None] | None = None


_of_thread = carried(_OfThread())
_taken: weakref.WeakSet[_Notes] = weakref.WeakSet()  # those that threads are taking


def set_anomaly_observer(observer: Callable[[Node], None] | None) -> None:
    with _lock:
        _Registered.anomaly = observer
        _install()


def set_tangent_observer(observer: Callable[[Node], None] | None) -> None:
    """Tell `observer` of what this thread records."""
    before, _of_thread.tangents = _of_thread.tangents, observer
    _count((observer is not None) - (before is not None))


def set_leak_observer(observer: Callable[[Node], None] | None) -> None:
    """Tell `observer` of every operation in the process."""
    with _lock:
        _Registered.leaks = observer
        _install()


@contextlib.contextmanager
def noting(observer: Callable[[Node], None]) -> Iterator[None]:
    """Tell `observer` of what this thread records, and nobody further outside."""
    previous = _of_thread.body
    _of_thread.body = observer
    _count(1)
    try:
        yield
    finally:
        _of_thread.body = previous
        _count(-1)


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


def next_notes() -> list[Node]:
    """What this thread has recorded since it last asked, in that order, and is still there. Notes
    are taken from now on; if none were, there are none yet."""
    notes = _of_thread.notes
    if notes is None:
        notes = _of_thread.notes = _Notes()
        with _lock:
            _taken.add(notes)
            _install()
    nodes, notes.nodes = notes.nodes, []
    return [node for reference in nodes if (node := reference()) is not None]


def end_notes() -> None:
    """Take no more notes in this thread."""
    notes = _of_thread.notes
    if notes is not None:
        _drop(notes)


def _drop(notes: _Notes) -> None:
    _of_thread.notes = None
    with _lock:
        _taken.discard(notes)
        _install()


def _count(change: int) -> None:
    with _lock:
        _Registered.collectors += change
        _install()


def _install() -> None:
    everywhere = _Registered.anomaly is not None or _Registered.leaks is not None
    is_needed = everywhere or _Registered.collectors > 0 or len(_taken) > 0
    node_module.observer = _observe if is_needed else None


def _observe(node: Node) -> None:
    notes = _of_thread.notes
    if notes is not None:
        nodes = notes.nodes
        nodes.append(_reference(node))
        if len(nodes) > _LONGEST_PASS:
            _drop(notes)
    if _Registered.collectors:
        collected = _of_thread.collected
        if collected is not None:
            collected.append(node)
        if _of_thread.body is not None:
            _of_thread.body(node)
    leaks = _Registered.leaks
    if leaks is not None:
        leaks(node)
    anomaly = _Registered.anomaly
    if anomaly is not None:
        anomaly(node)
    if _of_thread.tangents is not None:
        _of_thread.tangents(node)
