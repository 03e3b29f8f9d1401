"""What is said while kernels are compiled, and where."""

import io
import os
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.compiler.building import build, cache, compile_log, engine_build
from numba_grad.config import configure
from tests.compiler.test_build import source_of_kernel

KEYS = [f"{k:064x}" for k in range(3)]


class Terminal(io.StringIO):
    def isatty(self):
        return True

    def rows(self):
        """What a person sees in the end."""
        rows = []
        for row in self.getvalue().split("\n"):
            shown = ""
            for text in row.split("\r"):
                shown = text + shown[len(text) :]
            rows.append(shown.rstrip())
        return rows


@pytest.fixture(autouse=True)
def directory(tmp_path):
    engine_build.native_engine()
    with configure(cache_directory=tmp_path / "cache"):
        yield


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(compile_log, "_PATIENCE", 0.01)
    monkeypatch.setattr(compile_log, "_PERIOD", 0.01)


@pytest.fixture
def terminal(monkeypatch, impatient):
    found = Terminal()
    # Not `sys.stderr` itself, which pytest puts in place after fixtures.
    monkeypatch.setattr(compile_log, "sys", SimpleNamespace(stderr=found))
    return found


def wait_for(text, terminal):
    end = time.monotonic() + 60
    while text not in terminal.rows()[-1]:
        assert time.monotonic() < end, f"{terminal.getvalue()!r} has no {text!r}"
        time.sleep(0.005)


def test_a_line_says_what_was_compiled_and_what_came_from_cache(capsys):
    sources = [source_of_kernel(400 + k) for k in range(3)]
    with configure(log="compile"):
        build.build_all(sources)
        assert capsys.readouterr().err.startswith("numba_grad: compiled 3 kernels in ")
        build.build_all(sources)  # from memory
        assert capsys.readouterr().err == ""
        build._kernels.clear()
        build._addresses.clear()
        build.build_all([*sources, source_of_kernel(403)])
        line = capsys.readouterr().err
    assert line.startswith("numba_grad: compiled 1 kernel in ")
    assert line.endswith("s, 3 from cache\n")
    build._kernels.clear()
    build._addresses.clear()
    with configure(log="compile"):
        build.build_all(sources)
    assert capsys.readouterr().err.startswith("numba_grad: 3 kernels from cache in ")


def test_there_is_one_line_for_a_program(capsys):
    def loss(x):
        return np.cumsum(np.exp(x) * 1.75).max() + np.sort(x)[0]

    with configure(log="compile"):
        ng.jit(ng.grad(loss))(np.linspace(0, 1, 40))
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("numba_grad: compiled ")


def test_kernels_of_users_count(capsys):
    def kernel(x, result):
        for i in range(len(x)):
            result[i] = 3.25 * x[i]

    operation = ng.custom_op("more_than_triple", kernel, shape=lambda x: x.shape)
    before = build.statistics().compilations
    with configure(log="compile"):
        operation(np.ones(4)).numpy()
    count = build.statistics().compilations - before + 1
    # It alone, where other tests have compiled what else it takes.
    assert capsys.readouterr().err.startswith(f"numba_grad: compiled {count} kernel")


@pytest.mark.usefixtures("impatient")
def test_otherwise_nothing_is_said(capsys):
    build.build_all([source_of_kernel(410)])
    with compile_log.report() as report:
        report.expect(KEYS)
        time.sleep(0.1)
    captured = capsys.readouterr()
    assert captured.err == captured.out == ""


def test_a_line_at_the_terminal_tells_how_far_it_is(terminal):
    with compile_log.report() as report:
        report.expect(KEYS)
        wait_for("numba_grad: compiling, 0 of 3 kernels, 0 s", terminal)
        cache.write(KEYS[2], b"what a worker compiled")
        wait_for("1 of 3 kernels", terminal)
        report.compiled = 2
        wait_for("2 of 3 kernels", terminal)
    assert terminal.rows() == [""]


def test_what_is_compiled_quickly_draws_no_line(terminal, monkeypatch):
    monkeypatch.setattr(compile_log, "_PATIENCE", 60)
    build.build_all([source_of_kernel(420)])
    assert terminal.getvalue() == ""


def test_no_line_where_it_is_switched_off(terminal):
    with configure(log="off"), compile_log.report() as report:
        report.expect(KEYS)
        time.sleep(0.1)
    assert terminal.getvalue() == ""


def test_the_line_is_as_wide_as_the_terminal(terminal, monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    with compile_log.report() as report:
        report.expect(KEYS)
        wait_for("numba_grad: compili", terminal)
        assert len(terminal.rows()[-1]) == 19


def test_planning_alone_is_shown_too(terminal):
    with compile_log.report() as report:
        report.watch()
        wait_for("numba_grad: compiling, 0 s", terminal)


def test_threads_share_the_line(terminal):
    may_end = threading.Event()

    def other():
        with compile_log.report() as report:
            report.expect(KEYS[1:])
            may_end.wait(60)

    thread = threading.Thread(target=other)
    with configure(log="compile"):
        with compile_log.report() as report:
            report.expect(KEYS[:1])
            thread.start()
            wait_for("0 of 3 kernels", terminal)
        wait_for("0 of 2 kernels", terminal)
        assert terminal.rows()[-2].startswith("numba_grad: compiled 1 kernel in ")
        may_end.set()
        thread.join()
    assert terminal.rows()[-2].startswith("numba_grad: compiled 2 kernels in ")
    assert terminal.rows()[-1] == ""


def test_kernels_that_other_threads_compile_count(terminal):
    with configure(log="compile", threads=3):
        build.build_all([source_of_kernel(430 + k) for k in range(6)])
    assert terminal.rows()[-2].startswith("numba_grad: compiled 6 kernels in ")
    assert terminal.rows()[-1] == ""


@pytest.mark.parametrize(("error", "number"), [(KeyboardInterrupt, 440), (ValueError, 441)])
def test_what_is_broken_off_leaves_no_line_behind(terminal, error, number):
    with pytest.raises(error), configure(log="compile"), compile_log.report() as report:
        report.expect(KEYS)
        wait_for("0 of 3 kernels", terminal)
        raise error
    assert terminal.rows() == [""]
    with configure(log="compile"):  # nor does what comes next count as a part of it
        build.build_all([source_of_kernel(number)])
    assert terminal.rows()[-2].startswith("numba_grad: compiled 1 kernel in ")


@pytest.mark.parametrize("number", [450, 451])
def test_nothing_breaks_without_a_stream(monkeypatch, impatient, number):
    closed = Terminal()
    closed.close()
    monkeypatch.setattr(sys, "stderr", None if number == 450 else closed)
    with configure(log="compile"):
        build.build_all([source_of_kernel(number)])


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="this system has no pseudo-terminals")
def test_at_a_terminal_of_the_system(tmp_path):
    program = f"""
import time
from numba_grad.compiler.building import build, compile_log
compile_log._PATIENCE = compile_log._PERIOD = 0.01
slow = build.compile_and_store
def slower(*requests):
    time.sleep(0.2)
    return slow(*requests)
build.compile_and_store = slower
build.build({source_of_kernel(460)!r})
print("done")
"""
    own, other = os.openpty()
    run = subprocess.Popen(
        [sys.executable, "-c", program],
        env=os.environ | {"NUMBA_GRAD_CACHE_DIR": str(tmp_path / "empty")},
        stdout=subprocess.PIPE,
        stderr=other,
    )
    output, _ = run.communicate(timeout=120)
    os.set_blocking(own, False)
    text = os.read(own, 1 << 16)
    os.close(own)
    os.close(other)
    assert output == b"done\n"
    assert text.startswith(b"\rnumba_grad: compiling, 0 of 1 kernel, ")
    assert text.endswith(b" \r")
