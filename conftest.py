"""What the examples in docstrings take for granted."""

import importlib
from typing import Any

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def _names_in_docstrings(request: pytest.FixtureRequest, doctest_namespace: dict[str, Any]) -> None:
    # Only there: some tests are about what importing the package does.
    if isinstance(request.node, pytest.DoctestItem):
        doctest_namespace["np"] = np
        doctest_namespace["ng"] = importlib.import_module("numba_grad")
