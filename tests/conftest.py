"""What all tests share."""

import importlib
import os
import sys

import pytest

# Most tests are about fused kernels, which a small graph gets only after some runs. The default is
# tested in test_first_tier.py, tests/autograd, the documentation and the examples.
os.environ.setdefault("NUMBA_GRAD_ENGINE", "fused")


@pytest.fixture
def loops_stay_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python loops are planned step by step, however long they are: for tests of how."""
    # Not imported above, where the setting is not made yet.
    python_loops = importlib.import_module("numba_grad.transforms.python_loops")
    monkeypatch.setattr(python_loops, "FEWEST_NODES", sys.maxsize)
    monkeypatch.setattr(python_loops, "FEWEST_NODES_COMPILED", sys.maxsize)
