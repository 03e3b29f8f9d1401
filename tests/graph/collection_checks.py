"""Full collections of reference cycles while a program records a graph.

`test_collection.py` runs these in a process of their own.
"""

import gc
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import numba_grad as ng
from numba_grad.fresh_thread import has_frozen_objects
from numba_grad.graph import collection


@pytest.fixture(autouse=True, scope="module")
def _nothing_is_frozen() -> None:
    """What pytest has collected is, otherwise."""
    gc.unfreeze()


class Cycle:
    def __init__(self) -> None:
        self.itself = self


@contextmanager
def full_collections() -> Iterator[list[bool]]:
    """Whether each full collection that begins is put off: it finds all objects frozen."""
    found: list[bool] = []

    def note(phase: str, info: dict[str, Any]) -> None:
        if phase == "start" and info["generation"] == 2:
            found.append(has_frozen_objects())

    gc.callbacks.append(note)  # after the library's own
    try:
        yield found
    finally:
        gc.callbacks.remove(note)


def recorded(operations: int) -> Any:
    x = ng.tensor([1.0, 2.0], requires_grad=True)
    for _ in range(operations):
        x = x * 1.5
    return x


needs_generations = pytest.mark.skipif(
    gc.get_threshold()[2] == 0, reason="this Python collects all generations bit by bit"
)


def recorded_until(is_enough: Callable[[], bool]) -> list[Any]:
    """Graphs: how soon Python begins a full collection depends on how many objects there are."""
    kept: list[Any] = []
    while not is_enough() and len(kept) < 150:
        kept.append(recorded(20_000))
    return kept


@needs_generations
def test_a_growing_graph_puts_full_collections_off() -> None:
    gc.collect()
    with full_collections() as found:
        kept = recorded_until(lambda: bool(found))
    assert found and all(found)
    assert not has_frozen_objects()
    del kept


@needs_generations
def test_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    own = next(call for call in gc.callbacks if isinstance(call, collection._GrowingGraph))
    gc.collect()
    monkeypatch.setattr(own, "_patience", 2)
    cycle = weakref.ref(Cycle())
    with full_collections() as found:
        kept = recorded_until(lambda: False in found)
    assert found[:3] == [True, True, False]
    assert cycle() is None
    del kept


@contextmanager
def young_collections() -> Iterator[list[bool]]:
    """Whether each young collection that begins finds all objects frozen."""
    found: list[bool] = []

    def note(phase: str, info: dict[str, Any]) -> None:
        if phase == "start" and info["generation"] == 0:
            found.append(has_frozen_objects())

    gc.callbacks.append(note)
    try:
        yield found
    finally:
        gc.callbacks.remove(note)


@needs_generations
def test_young_collections_find_nothing_while_a_graph_grows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = next(call for call in gc.callbacks if isinstance(call, collection._GrowingGraph))
    gc.collect()
    with young_collections() as found:
        kept = recorded(20_000)
    assert len(found) > 20 and sum(found) > 0.9 * len(found)
    monkeypatch.setattr(own, "YOUNG_PATIENCE", 5)
    gc.collect()
    with young_collections() as found:
        kept = recorded(20_000), kept
    assert 0 < sum(found) <= 5  # until a full one, which these others count for
    assert not has_frozen_objects()
    del kept


@needs_generations
def test_young_cycles_beside_graphs_that_go_are_collected() -> None:
    gc.collect()
    cycles = []
    with young_collections() as found:
        for _ in range(3_000):
            recorded(3)
            cycles.append(weakref.ref(Cycle()))
    assert found and not any(found)
    assert sum(cycle() is not None for cycle in cycles) < 1_500


@needs_generations
def test_other_objects_are_looked_at_as_ever() -> None:
    with full_collections() as found:
        kept = [[number] for number in range(500_000)]
    assert found and not any(found)
    del kept


def test_collections_that_the_program_asks_for_happen() -> None:
    kept = recorded(20_000)
    cycle = weakref.ref(Cycle())
    gc.collect()
    assert cycle() is None
    del kept


@needs_generations
def test_what_the_program_has_frozen_stays_frozen() -> None:
    gc.freeze()
    try:
        count = gc.get_freeze_count()
        kept = recorded(60_000)
        # Counted references still free what is frozen.
        assert 0 < gc.get_freeze_count() <= count
        del kept
    finally:
        gc.unfreeze()


@needs_generations
def test_what_is_frozen_is_not_counted_at_each_collection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which takes as long as there is of it: with the objects of 14,000 tests, half of a minute."""
    counts = []
    gc.freeze()
    try:
        count = gc.get_freeze_count
        monkeypatch.setattr(gc, "get_freeze_count", lambda: counts.append(count()) or counts[-1])
        kept = recorded(60_000)
        del kept
    finally:
        gc.unfreeze()
    assert len(counts) <= 4


class Surrogate:
    """Says that it is of another class, as stand-ins of other libraries do. So does a class that a
    module is in the middle of making: to ask it makes Python believe that it is finished."""

    asked = 0

    @property
    def __class__(self) -> type:
        Surrogate.asked += 1
        return int


def test_objects_are_not_asked_for_their_class() -> None:
    kept = [Surrogate() for _ in range(10)]
    collection._GrowingGraph._is_graph()
    assert [Surrogate.asked, len(kept)] == [0, 10]
