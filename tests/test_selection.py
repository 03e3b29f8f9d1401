"""Which tests run when: those that are marked thorough where they are asked for."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent

FILE = "tests/test_kinds.py"
TESTS = """
import hypothesis
import pytest

@pytest.mark.thorough(but="float32$")
@pytest.mark.parametrize("kind", ["complex64", "float32", "float64"])
def test_kinds(kind):
    pass

@pytest.mark.thorough(every=3)
@pytest.mark.parametrize("number", range(6))
def test_numbers(number):
    pass

@pytest.mark.thorough(but="[1-9]", every=2)
@pytest.mark.parametrize("number", range(4))
def test_some(number):
    pass

@pytest.mark.thorough
@pytest.mark.parametrize("case", range(40))
def test_many(case):
    pass

@pytest.mark.thorough
@pytest.mark.parametrize("case", [0, pytest.param(1, marks=pytest.mark.thorough(rare=True))])
def test_rare(case):
    pass

@hypothesis.given(hypothesis.strategies.integers())
def test_generated(number):
    pass
"""
KINDS = [f"test_kinds[{kind}]" for kind in ("complex64", "float32", "float64")]
NUMBERS = [f"test_numbers[{number}]" for number in range(6)]
SOME = [f"test_some[{number}]" for number in range(4)]
MANY = [f"test_many[{case}]" for case in range(40)]
RARE = [f"test_rare[{case}]" for case in range(2)]
GENERATED = ["test_generated"]
EVERYTHING = [*KINDS, *NUMBERS, *SOME, *MANY, *RARE, *GENERATED]
IN_EVERY_RUN = [KINDS[1], NUMBERS[0], NUMBERS[3], SOME[1], SOME[3], *GENERATED]
THOROUGH = [case for case in EVERYTHING if case not in IN_EVERY_RUN or case in GENERATED]
COLLECTED = [
    (["tests"], IN_EVERY_RUN),
    (["tests", "--all"], EVERYTHING),
    (["tests", "-m", "thorough"], THOROUGH),
    (
        ["tests", "--all", "--share", "2"],
        [*KINDS, *NUMBERS, *SOME, *MANY[::2], RARE[0], *GENERATED],
    ),
    (
        ["tests", "-m", "thorough", "--share", "20"],
        [*KINDS[::2], *NUMBERS[1:3], *NUMBERS[4:], *SOME[::2], *MANY[::20], RARE[0]],
    ),
    (
        ["tests", "-m", "thorough", "--share", "100", "--turn", "43"],
        [*KINDS[::2], *NUMBERS[1:3], *NUMBERS[4:], *SOME[::2], MANY[3], RARE[0]],
    ),
    (["tests", "-k", "kinds and 64"], [KINDS[0], KINDS[2]]),
    ([FILE], EVERYTHING),
    ([f"{FILE}::{KINDS[0]}"], KINDS[:1]),
]
# One process for all: each would import pytest, hypothesis and NumPy.
PROGRAM = """
import json, sys, pytest
for arguments in json.loads(sys.argv[1]):
    print("collected by", arguments)
    pytest.main(["--collect-only", "-q", "-p", "no:cacheprovider", *arguments])
"""


def test_thorough_tests_run_where_they_are_asked_for(tmp_path):
    shutil.copy(ROOT / "conftest.py", tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = thorough: long\n")
    (tmp_path / "tests").mkdir()
    (tmp_path / FILE).write_text(TESTS)
    command = [sys.executable, "-c", PROGRAM, json.dumps([given for given, _ in COLLECTED])]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    runs = run.stdout.split("collected by ")[1:]
    found = [
        [
            line.removeprefix(f"{FILE}::")
            for line in run.splitlines()
            if line.startswith(f"{FILE}::")
        ]
        for run in runs
    ]
    assert found == [expected for _, expected in COLLECTED], run.stdout
