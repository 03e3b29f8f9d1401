"""What the tests of transforms share."""

from typing import Any

import numpy
import pytest

from numba_grad.transforms import python_loops, rerolling


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops of few operations count as long."""
    monkeypatch.setattr(python_loops, "FEWEST_NODES", 64)
    monkeypatch.setattr(python_loops, "FEWEST_NODES_COMPILED", 64)


@pytest.fixture
def loops(short: None, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many steps each loop that was found has."""
    found: list[int] = []
    made = rerolling._Loop.made

    def noted(self: Any) -> Any:
        result = made(self)
        if result is not None:
            found.append(result.times)
        return result

    monkeypatch.setattr(rerolling._Loop, "made", noted)
    return found


@pytest.fixture(scope="module")
def given() -> list[numpy.ndarray]:
    random = numpy.random.default_rng(5)
    return [random.uniform(0.5, 1.5, 4), random.normal(size=(60, 2))]
