"""What the tests of transforms share."""

import numpy
import pytest

from numba_grad.transforms import python_loops
from numba_grad.transforms.rerolling import rerolling
from tests.counting import found_by


@pytest.fixture(autouse=True)
def anew(looks_are_not_kept: None) -> None:
    """What is tested here is how a graph is looked at."""


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops of few operations count as long."""
    monkeypatch.setattr(python_loops, "FEWEST_NODES", 64)
    monkeypatch.setattr(python_loops, "FEWEST_NODES_COMPILED", 64)
    rows = ("_FEWEST_WITH_RESULTS_BEFORE", "_FEWEST_OF_ROWS")
    for name in ("_FEWEST_WITH_LOOPS_INSIDE", "_FEWEST_INSIDE", *rows):
        monkeypatch.setattr(rerolling, name, 64)


@pytest.fixture
def loops(short: None, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many steps each loop that was found has."""
    return found_by(monkeypatch, rerolling._Loop, "made", lambda loop: [loop.times])


@pytest.fixture(scope="module")
def given() -> list[numpy.ndarray]:
    random = numpy.random.default_rng(5)
    return [random.uniform(0.5, 1.5, 4), random.normal(size=(60, 2))]
