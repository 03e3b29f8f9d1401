"""`python -m numba_grad`."""

import importlib.metadata
import os
import subprocess
import sys

import pytest

import numba_grad
from numba_grad import __main__ as command
from numba_grad.compiler.building import cache
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
    assert capsys.readouterr().out.startswith("removed 1 kernel from ")
    assert cache.statistics().files == 0
    assert cache.read(key) is None


def test_a_failure_is_reported(monkeypatch, capsys):
    def broken(f):
        raise RuntimeError("no compiler")

    monkeypatch.setattr(command, "grad", broken)
    assert command.main([]) == 1
    assert "failed: RuntimeError: no compiler" in facts(capsys.readouterr().out)["gradient"]


SCRIPT = """
import sys
import numpy as np
import numba_grad as ng
assert __name__ == "__main__"
print(ng.grad(lambda x: (np.exp(x) * 2.5).sum())(np.zeros(3)), *sys.argv[1:])
raise SystemExit(int(sys.argv[1]))
"""


def run_command(directory, *arguments):
    return subprocess.run(
        [sys.executable, "-m", "numba_grad", *map(str, arguments)],
        env=os.environ
        | {"NUMBA_GRAD_CACHE_DIR": str(directory), "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_a_script_fills_the_cache(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    cold = run_command(tmp_path / "kernels", "warm", script, "0", "--option", "-x")
    assert cold.stdout == "tensor([2.5, 2.5, 2.5]) 0 --option -x\n"
    *lines, summary = cold.stderr.splitlines()
    assert any(line.startswith("numba_grad: compiled ") for line in lines), cold.stderr
    count = len(list((tmp_path / "kernels").glob("*.object")))
    assert summary.startswith(f"numba_grad: {count} kernels new in {tmp_path / 'kernels'}, of ")
    assert cold.returncode == 0
    warm = run_command(tmp_path / "kernels", "warm", script, "3")
    assert "compiled" not in warm.stderr
    assert warm.stderr.splitlines()[-1].startswith("numba_grad: 0 kernels new in ")
    assert warm.returncode == 3


def test_a_script_that_is_not_there_is_an_error(own_cache, capsys):
    assert command.main(["warm", "nowhere.py"]) == 1
    assert "there is no file nowhere.py" in capsys.readouterr().err


def test_nothing_is_warmed_where_nothing_can_be_kept(tmp_path, capsys):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    (tmp_path / "kernels").write_text("in the way")
    with configure(cache_directory=tmp_path / "kernels"):
        assert command.main(["warm", str(script), "0"]) == 1
    assert "cannot be written" in capsys.readouterr().err


def test_kernels_go_from_one_cache_to_another(tmp_path, capsys):
    key, file = cache.key_of("a kernel of this test"), str(tmp_path / "kernels.zip")
    with configure(cache_directory=tmp_path / "one"):
        cache.write(key, b"object code")
        assert command.main(["cache", "export", file]) == 0
    assert f"exported 1 kernel to {file}" in capsys.readouterr().out
    with configure(cache_directory=tmp_path / "other"):
        assert command.main(["cache", "import", file]) == 0
        assert capsys.readouterr().out.startswith("imported 1 kernel into ")
        assert cache.read(key) == b"object code"
        assert command.main(["cache", "import", file]) == 0
        assert capsys.readouterr().out.endswith("; 1 were known\n")


def test_archives_that_are_none_are_refused(tmp_path, own_cache, capsys):
    file = tmp_path / "kernels.zip"
    assert command.main(["cache", "import", str(file)]) == 1
    assert "No such file" in capsys.readouterr().err
    file.write_text("no archive")
    assert command.main(["cache", "import", str(file)]) == 1
    assert "is damaged, or not what `cache export` writes" in capsys.readouterr().err


def test_the_help_says_that_an_import_is_a_matter_of_trust(capsys):
    with pytest.raises(SystemExit):
        command.main(["cache", "import", "--help"])
    assert "import only what you trust as you" in capsys.readouterr().out


def test_unknown_commands_are_refused(capsys):
    with pytest.raises(SystemExit):
        command.main(["cash", "clear"])
    assert "invalid choice" in capsys.readouterr().err
