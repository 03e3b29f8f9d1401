"""Full collections of reference cycles while a program records a graph."""

import subprocess
import sys
from pathlib import Path

import pytest

CHECKS = Path(__file__).with_name("collection_checks.py")


@pytest.mark.thorough
def test_in_a_process_with_few_objects() -> None:
    """Among those of 14,000 tests each of a thousand looks at what is frozen takes 10 ms."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    run = subprocess.run([*command, str(CHECKS)], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    assert " passed" in run.stdout
