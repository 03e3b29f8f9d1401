"""Makes the tests' own driver importable, as `host_driver`, and puts it in place."""

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


def _load(name: str) -> Any:
    if name not in sys.modules:
        path = Path(__file__).with_name(f"{name}.py")
        specification = importlib.util.spec_from_file_location(name, path)
        assert specification is not None and specification.loader is not None
        module = importlib.util.module_from_spec(specification)
        sys.modules[name] = module
        specification.loader.exec_module(module)
    return sys.modules[name]


_load("host_driver")


@pytest.fixture(params=["at once", "late"])
def driver(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A driver with two devices, whose streams do their work at once, or as late as they may."""
    host_driver = _load("host_driver")
    with host_driver.installed(host_driver.HostDriver(late=request.param == "late")) as driver:
        yield driver
