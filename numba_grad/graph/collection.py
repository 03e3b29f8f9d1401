"""Python's collector of reference cycles, paused while a graph is built or compiled, and held back
while the user's program records one.

All nodes of a graph live until it is done, so a collection finds nothing, and looks at each of
them: for 2,000 Runge-Kutta steps that was 4.3 of 10.7 seconds. References are counted all the
while, so only what is in cycles waits.
"""

import gc
import os
import threading
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from numba_grad.fresh_thread import has_frozen_objects, make_old
from numba_grad.graph.node import Node, recorded_nodes

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def without_collection(
    work: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
) -> Result:
    """The result of `work(*args, **kwargs)`, during which no cycles are collected.

    Calls nest, and those of threads may overlap. Each restores what it found: the outermost of
    them, which found the collector enabled, enables it again. This is no context manager, because
    Ctrl-C on entering its `__exit__` would leave the collector disabled for good.
    """
    global _pausing_thread
    was_enabled, own_thread = gc.isenabled(), threading.get_ident()
    try:
        if was_enabled:
            _pausing_thread = own_thread
        gc.disable()
        result = work(*args, **kwargs)
    finally:
        if was_enabled:
            gc.enable()
            if _pausing_thread == own_thread:  # another one may have begun a pause since
                _pausing_thread = None
    return result


_pausing_thread: int | None = None


def old_at_once(work: Callable[[], Result]) -> Result:
    """The result of `work`, an import: what it makes lives as long as the process.

    Modules of Numba's size are half of all objects there are, so the collector would look at every
    one of them again soon after: 20 ms, in somebody's first gradient. Here they become old without
    a look, and the collector goes by what is made later.
    """
    result = without_collection(work)
    make_old()
    return result


class _GrowingGraph:
    """Puts off collections while what survives is a graph that is being recorded.

    A full collection looks at every object there is, each time that they have become a quarter
    more: four times while 1,000 Runge-Kutta steps are recorded, three quarters of the time that
    recording them takes. In the user's own loop it cannot be paused, as nobody would say when to go
    on. So one that Python begins by itself gets nothing to look at, where a quarter of the young
    objects and more are nodes; every twentieth time, after 1.5 million new objects or so, it does
    look, and where the graph goes on growing then only after twice as many.

    A young collection comes after 700 new objects. It would find that all of a graph's live, which
    takes a quarter of the time of recording them, so it gets nothing to look at either: 1,000 times
    one after the other, as Python counts none of these on the way to a full one.
    """

    PATIENCE = 20
    YOUNG_PATIENCE = 1000

    def __init__(self) -> None:
        self._patience = self.PATIENCE
        self._put_off = 0  # full collections, one after the other
        self._young_put_off = 0  # young ones, since a full one or one that was none of a graph
        self._recorded = 0  # nodes, up to the last collection
        self._is_frozen = False
        # Objects that the program has frozen itself stay so. To count them takes as long as there
        # are many, so once some were seen the next look is after a full collection.
        self._has_others = False

    def __call__(self, phase: str, info: dict[str, Any]) -> None:
        """One of `gc.callbacks`: before and after each collection."""
        if phase == "stop":
            if self._is_frozen:
                self._is_frozen = False
                gc.unfreeze()  # into the oldest generation, where it would have gone anyway
        elif info["generation"] == 0:
            self._before_young()
        elif info["generation"] == 2:
            self._before_full()

    def _before_young(self) -> None:
        recorded, self._recorded = self._recorded, recorded_nodes()
        made, youngest = self._recorded - recorded, gc.get_count()[0]
        # A node comes with its inputs and a reference to its tensor. With more of them than there
        # are new objects, most are gone already.
        is_graph = made <= youngest < 4 * made and youngest > gc.get_threshold()[0]
        if not is_graph or not gc.isenabled():
            self._young_put_off = 0
        elif self._young_put_off < self.YOUNG_PATIENCE and not self._has_others_frozen():
            self._young_put_off += 1
            self._is_frozen = True
            gc.freeze()

    def _before_full(self) -> None:
        self._young_put_off, self._has_others = 0, False
        if not self._is_automatic() or not self._is_graph():
            self._put_off, self._patience = 0, self.PATIENCE
        elif self._put_off == self._patience:
            self._put_off, self._patience = 0, 2 * self._patience
        elif not self._has_others_frozen():
            self._put_off += 1
            self._is_frozen = True
            gc.freeze()

    def _has_others_frozen(self) -> bool:
        self._has_others = self._has_others or has_frozen_objects()
        return self._has_others

    @staticmethod
    def _is_automatic() -> bool:
        """Whether it was Python that began, as generations are full, and not `gc.collect()`."""
        youngest, _, oldest = gc.get_count()
        limit_of_youngest, _, limit_of_oldest = gc.get_threshold()
        return gc.isenabled() and youngest > limit_of_youngest and oldest > limit_of_oldest

    @staticmethod
    def _is_graph() -> bool:
        young = gc.get_objects(generation=0)  # one is empty: just collected
        # Not `x.__class__`: a module that is being imported may be in the middle of making a type,
        # and to ask that for an attribute makes Python believe that it is finished.
        return 4 * [*map(type, young)].count(Node) > len(young)


gc.callbacks.append(_GrowingGraph())


def _go_on_in_child() -> None:
    """In a forked child: what another thread paused, it does not go on with here."""
    global _pausing_thread
    if _pausing_thread not in (None, threading.get_ident()):
        _pausing_thread = None
        gc.enable()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_go_on_in_child)
