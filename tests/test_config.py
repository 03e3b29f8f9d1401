"""Settings are checked where they are made: in `configure`, and in the environment at import."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import numba_grad as ng
from numba_grad.config import _RULES, Config, config


@pytest.mark.parametrize(
    ("name", "wrong", "expected"),
    [
        ("engine", "fast", "'native' or 'fused' or 'reference'"),
        ("threads", -3, "an integer from 1 to 1024"),
        ("threads", "a", "an integer from 1 to 1024"),
        ("threads", 2.0, "an integer from 1 to 1024"),
        ("threads", True, "an integer from 1 to 1024"),
        ("cache_directory", 3, "the path of a directory"),
        ("cache_bytes", -1, "an integer of at least 0"),
        ("check_passes", 2, "False or True"),
        ("log", "everything", "'progress' or 'compile' or 'off'"),
        ("unroll_extent", None, "an integer from 0 to 1024"),
        ("specializations", 0, "an integer of at least 1"),
        ("tf32", "yes", "False or True"),
        ("deterministic", 1, "False or True"),
    ],
)
def test_settings_that_make_no_sense_are_refused(name, wrong, expected):
    before = getattr(config, name)
    with pytest.raises(ValueError, match=expected) as caught:
        ng.configure(**{name: wrong})
    assert f"configure: not a value of `{name}`" in str(caught.value)
    assert repr(wrong) in str(caught.value)
    assert getattr(config, name) == before


def test_nothing_is_changed_where_one_setting_is_wrong():
    before = config.threads
    with pytest.raises(ValueError, match="cache_bytes"):
        ng.configure(threads=before + 1, cache_bytes="much")
    assert config.threads == before
    with pytest.raises(TypeError, match="no setting 'thread'"):
        ng.configure(thread=1)


def test_settings_are_as_they_are_used(tmp_path):
    with ng.configure(cache_directory=str(tmp_path), threads=3, check_passes=True):
        assert config.cache_directory == tmp_path
        assert isinstance(config.cache_directory, Path)
    with ng.configure(cache_directory="~/kernels"):
        assert config.cache_directory == Path.home() / "kernels"


def test_every_setting_has_a_rule():
    names = {field.name for field in Config.__dataclass_fields__.values()}
    assert set(_RULES) == names


@pytest.mark.parametrize(
    ("variable", "wrong", "expected"),
    [
        ("NUMBA_GRAD_ENGINE", "fast", "'native' or 'fused' or 'reference'"),
        ("NUMBA_GRAD_NUM_THREADS", "99999999", "an integer from 1 to 1024"),
        ("NUMBA_GRAD_NUM_THREADS", "two", "an integer from 1 to 1024"),
        ("NUMBA_GRAD_CACHE_BYTES", "1GB", "an integer of at least 0"),
        ("NUMBA_GRAD_CHECK_PASSES", "yes", "in the environment 0 or 1"),
        ("NUMBA_GRAD_LOG", "1", "'progress' or 'compile' or 'off'"),
        ("NUMBA_GRAD_UNROLL_EXTENT", "-1", "an integer from 0 to 1024"),
        ("NUMBA_GRAD_SPECIALIZATIONS", "0", "an integer of at least 1"),
    ],
)
def test_environment_variables_that_make_no_sense_are_named(monkeypatch, variable, wrong, expected):
    monkeypatch.setenv(variable, wrong)
    with pytest.raises(ValueError, match=expected) as caught:
        Config()
    assert variable in str(caught.value)
    assert repr(wrong) in str(caught.value)


def test_environment_variables_are_read(monkeypatch, tmp_path):
    for variable in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_GRAD_CACHE_DIR"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("NUMBA_GRAD_NUM_THREADS", " 3 ")
    monkeypatch.setenv("NUMBA_GRAD_CHECK_PASSES", "1")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    found = Config()
    assert (found.threads, found.check_passes) == (3, True)
    assert found.cache_directory == tmp_path / "numba_grad"


@pytest.mark.parametrize(("text", "threads"), [("5,2", 5), ("99999999", 1024), ("junk", None)])
def test_variables_of_other_libraries_suggest_a_number_of_threads(monkeypatch, text, threads):
    for variable in ("NUMBA_GRAD_NUM_THREADS", "NUMBA_NUM_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.delenv(variable, raising=False)
    default = Config().threads
    monkeypatch.setenv("OMP_NUM_THREADS", text)
    assert Config().threads == (threads or default)


def test_an_import_says_which_variable_is_wrong():
    environment = os.environ | {"NUMBA_GRAD_NUM_THREADS": "-3"}
    done = subprocess.run(
        [sys.executable, "-c", "import numba_grad"],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "the environment variable NUMBA_GRAD_NUM_THREADS is wrong" in done.stderr
