"""What the examples in docstrings take for granted."""

from typing import Any

import numpy as np
import pytest

import numba_grad as ng


@pytest.fixture(autouse=True)
def _names_in_docstrings(doctest_namespace: dict[str, Any]) -> None:
    doctest_namespace["np"] = np
    doctest_namespace["ng"] = ng
