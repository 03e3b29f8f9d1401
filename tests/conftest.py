"""What all tests share."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

# Most tests are about fused kernels, which a small graph gets only after some runs. The default is
# tested in test_first_tier.py, tests/autograd, the documentation and the examples.
os.environ.setdefault("NUMBA_GRAD_ENGINE", "fused")

# Below, as they read the setting.
from numba_grad.compiler.building import cache
from numba_grad.compiler.known_bodies import StoreOfLoops
from numba_grad.config import configure
from numba_grad.transforms import python_loops

# Of each module with tests, its random generators, and their states when it had been imported.
_generators: dict[ModuleType | None, list[tuple[np.random.BitGenerator, object]]] = {}


def pytest_collection_finish(session: pytest.Session) -> None:
    for item in session.items:
        module = getattr(item, "module", None)
        if module is not None and module not in _generators:
            found = [x for x in vars(module).values() if isinstance(x, np.random.Generator)]
            own = [x.bit_generator for x in found]
            _generators[module] = [(x, x.state) for x in own]


@pytest.hookimpl(tryfirst=True)  # before what fixtures draw
def pytest_runtest_setup(item: pytest.Item) -> None:
    """A test draws the same numbers whichever tests run before it."""
    for generator, state in _generators.get(getattr(item, "module", None), ()):
        generator.state = state


@pytest.fixture(params=["reference", "native"])
def engine(request: pytest.FixtureRequest) -> Iterator[str]:
    """The test runs once on each engine."""
    with configure(engine=request.param):
        yield request.param


@pytest.fixture
def reference_engine() -> Iterator[None]:
    """Node by node, and users' kernels as Python: for tests of breadth, as compiling takes long."""
    with configure(engine="reference"):
        yield


@pytest.fixture
def native_engine() -> Iterator[None]:
    """As by default: small graphs run operation by operation."""
    with configure(engine="native"):
        yield


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache with nothing in it, which no warning was given about."""
    monkeypatch.setattr(cache, "_warned", set())
    with configure(cache_directory=tmp_path / "cache"):
        yield tmp_path / "cache"


@pytest.fixture(scope="module")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A cache for the tests of one file, so that kernels are compiled in them."""
    with configure(cache_directory=tmp_path_factory.mktemp("cache")):
        yield


@pytest.fixture
def loops_stay_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python loops are planned step by step, however long they are: for tests of how."""
    monkeypatch.setattr(python_loops, "FEWEST_NODES", sys.maxsize)
    monkeypatch.setattr(python_loops, "FEWEST_NODES_COMPILED", sys.maxsize)


@pytest.fixture
def looks_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each graph is looked at for loops, however often: for tests of how."""
    monkeypatch.setattr(StoreOfLoops, "name_of", lambda store, description: None)
