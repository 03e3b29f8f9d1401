"""`python -m numba_grad`."""

import importlib.metadata
import os
import subprocess
import sys

import pytest

import numba_grad
from numba_grad import __main__ as command
from numba_grad.compiler import cache
from numba_grad.config import configure


@pytest.fixture
def own_cache(tmp_path):
    with configure(cache_directory=tmp_path / "kernels"):
        yield


def facts(text):
    return {
        name.strip(): fact.strip()
        for name, _, fact in (line.partition(" : ") for line in text.splitlines())
    }


def test_a_fresh_process_describes_itself(tmp_path):
    environment = {**os.environ, "NUMBA_GRAD_CACHE_DIR": str(tmp_path / "kernels")}
    result = subprocess.run(
        [sys.executable, "-m", "numba_grad"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    found = facts(result.stdout)
    assert f"numba {importlib.metadata.version('numba')}" in found["versions"]
    assert f"numba_grad {numba_grad.__version__}," in found["versions"]
    assert str(tmp_path / "kernels") in found["cache"]
    assert found["gradient"].startswith("right")
    assert "threading layer" in found["threads"]
    assert found["devices"].startswith("cpu")
    assert ("cuda:0" in found["devices"]) == found["cuda"].startswith("driver for CUDA")
    assert result.stderr == ""


def test_hits_are_counted(own_cache, capsys):
    command.main([])
    cold = facts(capsys.readouterr().out)
    assert cold["gradient"].startswith("right")
    assert cold["cache"].endswith("MB")


def test_the_cache_is_cleared(own_cache, capsys):
    key = cache.key_of("a kernel of this test")
    cache.write(key, b"object code")
    assert cache.statistics().files == 1
    assert command.main(["cache", "clear"]) == 0
    assert capsys.readouterr().out.startswith("removed 1 kernels from ")
    assert cache.statistics().files == 0
    assert cache.read(key) is None


def test_a_failure_is_reported(monkeypatch, capsys):
    def broken(f):
        raise RuntimeError("no compiler")

    monkeypatch.setattr(command, "grad", broken)
    assert command.main([]) == 1
    assert "failed: RuntimeError: no compiler" in facts(capsys.readouterr().out)["gradient"]


def test_unknown_commands_are_refused(capsys):
    with pytest.raises(SystemExit):
        command.main(["cash", "clear"])
    assert "invalid choice" in capsys.readouterr().err
