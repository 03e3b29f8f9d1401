"""What is told to Python's collector of cycles."""

import gc

import pytest

from numba_grad.graph.collection import old_at_once


class Thing:
    """Something that the collector tracks."""


def is_in(generation: int, thing: Thing) -> bool:
    return any(other is thing for other in gc.get_objects(generation=generation))


@pytest.fixture
def collector():
    """Enabled, and with nothing frozen."""
    was_enabled, frozen = gc.isenabled(), gc.get_freeze_count()
    if frozen:
        pytest.skip("this process has frozen objects")
    gc.enable()
    yield
    gc.unfreeze()
    if not was_enabled:
        gc.disable()


@pytest.mark.usefixtures("collector")
def test_what_an_import_makes_is_old_at_once():
    thing = old_at_once(Thing)
    assert is_in(2, thing)
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0


@pytest.mark.usefixtures("collector")
def test_what_the_program_has_frozen_stays_so():
    gc.freeze()
    frozen = gc.get_freeze_count()
    thing = old_at_once(Thing)
    assert not is_in(2, thing)
    assert 0 < gc.get_freeze_count() <= frozen


@pytest.mark.usefixtures("collector")
def test_a_mistake_leaves_the_collector_as_it_was():
    with pytest.raises(ImportError):
        old_at_once(lambda: __import__("no_such_module_at_all"))
    assert gc.isenabled()
