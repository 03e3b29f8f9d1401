"""The array API suite, where NUMBA_GRAD_ARRAY_API_TESTS names a checkout of it, and what it finds.

`tests/array_api_suite/README.md` says which version, and how to get it.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
LISTS = HERE / "array_api_suite"
CHECKOUT = os.environ.get("NUMBA_GRAD_ARRAY_API_TESTS", "")


def failures_of(module: str) -> set[str]:
    """The tests of the suite that are said to fail."""
    lines = (LISTS / f"{module}.txt").read_text().splitlines()
    return {line for line in lines if line and not line.startswith("#")}


def test_nothing_is_said_to_fail_that_numpy_does_not_fail():
    assert failures_of("numba_grad") < failures_of("numpy")


@pytest.mark.thorough
@pytest.mark.skipif(
    not CHECKOUT, reason="needs NUMBA_GRAD_ARRAY_API_TESTS=checkout of data-apis/array-api-tests"
)
@pytest.mark.parametrize("module", ["numba_grad", "numpy"])
def test_exactly_the_tests_fail_that_are_said_to(module):
    # The same examples each time, few of them: what is new is searched for by hand (README).
    # Whether they meet what NumPy fails at -0 depends on the version of Hypothesis.
    is_strict = str(module == "numba_grad").lower()
    command = [
        *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "array_api_tests"),
        *("--derandomize", "--disable-deadline", "--max-examples=30"),
        *("-o", f"xfail_strict={is_strict}"),
        f"--xfails-file={LISTS / module}.txt",
    ]
    environment = {
        **os.environ,
        "ARRAY_API_TESTS_MODULE": module,
        "ARRAY_API_TESTS_VERSION": "2024.12",
        "PYTHONPATH": os.pathsep.join([str(HERE.parent), os.environ.get("PYTHONPATH", "")]),
    }
    done = subprocess.run(
        command, cwd=CHECKOUT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr
