"""The tests' own driver, in place of NVIDIA's."""

from collections.abc import Iterator

import pytest

from tests.cuda.host_driver import HostDriver, installed


@pytest.fixture(params=["at once", "late"])
def driver(request: pytest.FixtureRequest) -> Iterator[HostDriver]:
    """A driver with two devices, whose streams do their work at once, or as late as they may."""
    with installed(HostDriver(late=request.param == "late")) as driver:
        yield driver
