"""The workloads of `perf/` still run, and their goals are judged: no times are asserted."""

import importlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]

pytestmark = pytest.mark.skipif(not (ROOT / "perf").is_dir(), reason="perf/ is not in this copy")


@pytest.fixture(autouse=True)
def _on_path(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))


def _numerical(f, x, step=1e-6):
    gradient = np.zeros_like(x)
    for index in np.ndindex(x.shape):
        shift = np.zeros_like(x)
        shift[index] = step
        gradient[index] = (f(x + shift) - f(x - shift)) / (2 * step)
    return gradient


def test_every_workload_has_what_the_command_reads():
    workloads = importlib.import_module("perf.workloads")
    for name in workloads.NAMES:
        module = importlib.import_module(f"perf.workloads.{name}")
        assert module.TITLE
        assert module.UNIT in importlib.import_module("perf.report").SCALES
        assert "numba_grad" in module.IMPLEMENTATIONS
        assert module.GOALS


@pytest.mark.parametrize("name", ["lotka_volterra", "rosenbrock"])
def test_losses_run_on_arrays_and_agree_with_finite_differences(name):
    ng = pytest.importorskip("numba_grad")
    module = importlib.import_module(f"perf.workloads.{name}")
    if name == "lotka_volterra":
        loss, (x, *rest) = module.in_a_loop(40), module.inputs(40)
    else:
        loss, (x, *rest) = module.loss, [np.linspace(-1.0, 1.0, 6)]
    value, gradient = ng.jit(ng.value_and_grad(loss))(x, *rest)
    np.testing.assert_allclose(float(value), loss(x, *rest), rtol=1e-12)
    np.testing.assert_allclose(
        np.asarray(gradient), _numerical(lambda x: loss(x, *rest), x), rtol=1e-5, atol=1e-6
    )


def _report(seconds):
    rows = {name: {"median": s, "least": s, "most": s, "runs": 7, "figures": {"kernels": 3}}
            for name, s in seconds.items()}  # fmt: skip
    rows["broken"] = {"reason": "ImportError: no | such", "figures": {}}
    goals = [
        {"kind": "AtMost", "limit": 2.0, "figure": "median", "implementation": "numba_grad"},
        {"kind": "TimesFaster", "factor": 1.5, "peers": ["torch"], "implementation": "numba_grad"},
        {"kind": "SameFigure", "figure": "kernels", "implementations": ["numba_grad", "torch"]},
    ]
    workload = {"title": "A title", "unit": "ms", "load": 0.0, "rows": rows, "goals": goals}
    machine = {
        "processor": "a",
        "cores": 2,
        "threads": 2,
        "python": "3",
        "versions": {},
        "commit": "a",
    }
    return {"date": "2026-01-01", "machine": machine, "workloads": {"a": workload}}


def test_goals_are_judged_against_the_fastest_peer():
    report = importlib.import_module("perf.report")
    workload = _report({"numba_grad": 0.001, "torch": 0.003})["workloads"]["a"]
    assert [verdict.rpartition(", ")[2] for _, verdict in report.judged(workload)] == 3 * [
        "reached"
    ]
    workload = _report({"numba_grad": 0.003, "torch": 0.003})["workloads"]["a"]
    verdicts = [verdict.rpartition(", ")[2] for _, verdict in report.judged(workload)]
    assert verdicts == ["not reached", "not reached", "reached"]


def test_the_section_of_the_document_is_replaced_and_the_rest_stays(tmp_path):
    report = importlib.import_module("perf.report")
    document = tmp_path / "performance.md"
    document.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n")
    report.write_section(document, report.as_markdown(_report({"numba_grad": 0.001})))
    text = document.read_text()
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "old" not in text
    assert "ImportError: no / such" in text


@pytest.mark.slow
def test_the_command_writes_a_report(tmp_path):
    file = tmp_path / "report.json"
    subprocess.run(
        [sys.executable, "perf/run.py", "rosenbrock", "--implementations", "numba_grad", "by hand",
         "--repeats", "1", "--json", str(file)],
        cwd=ROOT, check=True, capture_output=True, timeout=300,
    )  # fmt: skip
    report = json.loads(file.read_text())
    rows = report["workloads"]["rosenbrock"]["rows"]
    assert {name: "reason" in row for name, row in rows.items()} == {
        "numba_grad": False,
        "by hand": False,
    }
    assert rows["numba_grad"]["figures"]["error"] < 1e-6
