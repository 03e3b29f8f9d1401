"""Which tests run when: those that are marked thorough where they are asked for."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FILE = "tests/compiler/test_lapack_kernels.py"
CASES = [f"test_triangular_systems[{kind}]" for kind in ("complex128", "complex64", "float32")]


def collected(*arguments):
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    run = subprocess.run([*command, *arguments], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode in (0, 5), run.stdout
    return [case for case in CASES if f"{FILE}::{case}" in run.stdout]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["tests/compiler"], CASES[1:2]),  # a case that it leaves to every run
        (["tests/compiler", "--all"], CASES),
        (["tests/compiler", "-m", "thorough"], [CASES[0], CASES[2]]),  # what the first leaves out
        (["tests/compiler", "-k", "triangular_systems"], CASES),
        ([FILE], CASES),
        ([f"{FILE}::{CASES[0]}"], CASES[:1]),
    ],
    ids=str,
)
def test_thorough_tests_run_where_they_are_asked_for(arguments, expected):
    assert collected(*arguments) == expected
