"""What the tests of gradients share: the reference engine, and comparing with torch."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from numba_grad.config import configure
from tests.autograd.libraries import Library, assert_same, ours, outcome, theirs


@pytest.fixture(autouse=True)
def _reference_engine(request: pytest.FixtureRequest) -> Iterator[None]:
    """Gradients are about graphs: most tests need no kernels; others ask for `native`."""
    engine = "native" if "native" in request.fixturenames else "reference"
    with configure(engine=engine):
        yield


@pytest.fixture
def native() -> None:
    """Run on compiled kernels."""


@pytest.fixture(scope="session")
def same_as_torch() -> Callable[[Callable[[Library], Any]], Any]:
    """Run a scenario with this library and with torch, compare, and return what it gives."""

    def compare(scenario: Callable[[Library], Any]) -> Any:
        reference = outcome(scenario, theirs())
        own = outcome(scenario, ours())
        assert_same(own, reference)
        return own

    return compare
