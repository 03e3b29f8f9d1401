"""What the tests of the frontend share."""

from collections.abc import Iterator

import numpy as np
import pytest

from numba_grad.config import configure


@pytest.fixture
def numpy_engine() -> Iterator[None]:
    """For tests of breadth: what is recorded matters, and kernels are tested elsewhere."""
    with configure(engine="reference"), np.errstate(all="ignore"):
        yield


@pytest.fixture(params=["reference", "fused"])
def engine_of_derivatives(request: pytest.FixtureRequest) -> Iterator[None]:
    """Rules are checked on NumPy in every run, and fused, where each is compiled, in long ones:
    `@pytest.mark.thorough(but="reference")`."""
    with configure(engine=request.param), np.errstate(all="ignore"):
        yield
