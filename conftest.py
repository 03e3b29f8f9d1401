"""What the examples in docstrings take for granted, and Ctrl-C in tests that are about it."""

import importlib
import signal
from typing import Any

import hypothesis
import numpy as np
import pytest

# A shell that starts a job in the background has it, and all its children, ignore interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A run says something about the code alone: the same examples each time. To look for new ones:
# `pytest --hypothesis-profile=search`.
hypothesis.settings.register_profile(
    "repeat", deadline=None, derandomize=True, database=None, print_blob=True
)
hypothesis.settings.register_profile("search", deadline=None, derandomize=False, print_blob=True)
hypothesis.settings.load_profile("repeat")

# Kernel sources, compared as text by tests/compiler/test_golden.py.
collect_ignore_glob = ["tests/golden/*"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite the kernels in tests/golden"
    )


@pytest.fixture(autouse=True)
def _names_in_docstrings(request: pytest.FixtureRequest, doctest_namespace: dict[str, Any]) -> None:
    # Only there: some tests are about what importing the package does.
    if isinstance(request.node, pytest.DoctestItem):
        doctest_namespace["np"] = np
        doctest_namespace["ng"] = importlib.import_module("numba_grad")
