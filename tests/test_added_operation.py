"""Operations from files of their own are found everywhere: docs/adding_an_op.md is true."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FILES = ROOT / "tests" / "added_operation"
# Where each file goes, and the one line that says that it is there.
PLACES = {
    "operations": ("ops", None),
    "kernels": ("compiler/library_kernels", "compiler/library_kernels/__init__.py"),
    "functions": ("frontend/functions", "__init__.py"),
}


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """A copy of the repository in which the operations are added."""
    copy = tmp_path_factory.mktemp("repository")
    for name in ("numba_grad", "tests", "docs", "conftest.py", "pyproject.toml"):
        source = ROOT / name
        ignored = shutil.ignore_patterns("__pycache__")
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=ignored)
        else:
            shutil.copy(source, copy / name)
    package = copy / "numba_grad"
    for name, (folder, importing) in PLACES.items():
        shutil.copy(FILES / f"{name}.py", package / folder / "added.py")
        if importing is not None:
            module = f"numba_grad.{folder.replace('/', '.')}.added"
            path = package / importing
            text = path.read_text()
            end = text.rindex("import *\n") + len("import *\n")
            path.write_text(f"{text[:end]}from {module} import *\n{text[end:]}")
    return copy


def run_in(copy, *arguments):
    environment = os.environ | {"PYTHONPATH": str(copy)}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=copy, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_operations_of_a_file_of_their_own_are_found_by_names_docs_and_the_refusal_of_gpus(copy):
    run_in(copy, "tests/added_operation/is_found.py")


@pytest.mark.thorough
def test_operations_of_a_file_of_their_own_are_tested(copy):
    chosen = "gudermannian or (mirrored and not test_registry_on_gpu)"
    tests = ("tests/ops/test_registry.py", "tests/cuda/test_registry_on_gpu.py")
    options = ("-v", "--all", "-p", "no:cacheprovider", "-k", chosen)
    said = run_in(copy, "-m", "pytest", *options, *tests)
    expected = (
        "test_vjp_of_vjp_matches_central_differences[native-gudermannian]",
        "test_vjp_of_vjp_matches_central_differences[native-mirrored]",
        "test_tangent_matches_central_differences[native-mirrored]",
        "test_batching_matches_a_loop[mirrored]",
        "test_as_on_the_cpu[emulated-gudermannian]",
    )
    assert [name for name in expected if f"::{name} PASSED" not in said] == [], said
