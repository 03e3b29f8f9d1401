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
