"""Processes of one job on one machine compile each kernel once."""

import signal

import pytest

from numba_grad.compiler.building import job_start
from tests import processes

pytestmark = pytest.mark.skipif(job_start.fcntl is None, reason="no locks on files here")

GRADIENT = """
import numpy as np
import numba_grad as ng
from numba_grad.compiler.building import build
compile_and_store, keys = build.compile_and_store, []

def noted(*requests):
    keys.extend(request.key for request in requests)
    return compile_and_store(*requests)

build.compile_and_store = noted
gradient = ng.jit(ng.grad(lambda x: (np.sin(x) * np.exp(-x)).sum()))(np.linspace(0, 1, 500))
assert np.isfinite(gradient).all()
print(*keys)
"""


def start(code, directory, ranks, **variables):
    own = {"NUMBA_GRAD_CACHE_DIR": directory / "cache", "TMPDIR": directory}
    return processes.start(code, **own, PMI_SIZE=ranks, **variables)


@pytest.mark.thorough
def test_a_cold_start_of_several_processes_compiles_each_kernel_once(tmp_path):
    (tmp_path / "cache").mkdir(mode=0o700)
    running = [start(GRADIENT, tmp_path, 4) for _ in range(4)]
    compiled = [key for process in running for key in process.communicate(timeout=120)[0].split()]
    assert len(compiled) == len(set(compiled)) > 1
    assert not start(GRADIENT, tmp_path, 1).communicate(timeout=60)[0].split()  # all on disk
    assert not list(tmp_path.glob("numba_grad-*-locks/*"))


@pytest.mark.thorough
def test_a_killed_process_leaves_no_lock(tmp_path):
    (tmp_path / "cache").mkdir(mode=0o700)
    key = "a" * 64
    holding = f"""
    import time
    from numba_grad.compiler.building import job_start
    with job_start.claim("{key}") as is_ours:
        print(is_ours, flush=True)
        time.sleep(60)
    """
    waiting = f"""
    from numba_grad.compiler.building import cache, job_start
    with job_start.claim("{key}") as is_ours:
        print(is_ours, flush=True)
    print(job_start.awaited("{key}", lambda: b"compiled here").decode())
    """
    holder = start(holding, tmp_path, 2)
    assert holder.stdout is not None and holder.stdout.readline() == "True\n"
    waiter = start(waiting, tmp_path, 2)
    assert waiter.stdout is not None and waiter.stdout.readline() == "False\n"
    holder.send_signal(signal.SIGKILL)
    holder.communicate()
    assert waiter.communicate(timeout=30)[0] == "compiled here\n"


def test_who_waits_takes_what_the_other_process_has_written(tmp_path, monkeypatch):
    (tmp_path / "cache").mkdir(mode=0o700)
    monkeypatch.setattr(job_start, "_LONGEST_WAIT", 0.0)
    assert job_start.awaited("b" * 64, lambda: b"after the limit") == b"after the limit"
    monkeypatch.setattr(job_start, "_LONGEST_WAIT", 10.0)
    monkeypatch.setattr(job_start.cache, "peek", lambda key: b"written")
    assert job_start.awaited("b" * 64, lambda: b"compiled here") == b"written"
