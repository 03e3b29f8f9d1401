"""The workloads of `perf/` still run, and their goals are judged: no times are asserted."""

import importlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import numba_grad as ng
from tests.cuda.requirements import needs_compiler

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
        assert module.GOALS
        assert any(key.split(",")[0] == "numba_grad" for key in module.IMPLEMENTATIONS)
        for size in module.SIZES.values():
            assert all(isinstance(number, int) for number in size)
        if name in workloads.GRADIENTS:
            assert list(module.SIZES) == ["small", "medium", "large"]


# Those that compile in a second or so; `perf/run.py` compares all of them with their peers.
QUICK = ("rosenbrock", "black_scholes", "softmax_rows", "layer_normalization", "mlp_float32")


@pytest.mark.thorough(but="rosenbrock")
@pytest.mark.parametrize("name", QUICK)
def test_small_workloads_agree_with_those_written_by_hand(name):
    module = importlib.import_module(f"perf.workloads.{name}")
    results = []
    for implementation in ("numba_grad", "by hand"):
        prepared = module.IMPLEMENTATIONS[implementation](module.SIZES["small"])
        results.append(prepared.results(prepared.run()))
    tolerance = getattr(module, "TOLERANCE", 1e-9)
    for ours, theirs in zip(*results, strict=True):
        assert np.max(np.abs(ours.ravel() - theirs.ravel())) <= tolerance * np.max(np.abs(theirs))


@pytest.mark.parametrize("name", ["lotka_volterra", "rosenbrock"])
def test_losses_run_on_arrays_and_agree_with_finite_differences(name):
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


def test_losses_written_otherwise_are_the_same():
    torch = pytest.importorskip("torch")
    assert torch is not None
    tiny = {
        "lotka_volterra": {"steps": 40},
        "wave_inversion": {"steps": 12, "points": 40},
        "heat_adjoint": {"steps": 3, "side": 20},
        "jacobi": {"steps": 3, "side": 20},
        "lstm": {"steps": 4, "layers": 2, "width": 3, "batch": 2},
    }
    with ng.configure(engine="reference"):
        for name, numbers in tiny.items():
            module = importlib.import_module(f"perf.workloads.{name}")
            assert len(module.OTHERWISE) >= 2
            size = module.Size(**numbers)
            every = [module.IMPLEMENTATIONS[way](size) for way in ("torch", *module.OTHERWISE)]
            expected, *found = [prepared.results(prepared.run()) for prepared in every]
            for arrays in found:
                for ours, theirs in zip(arrays, expected, strict=True):
                    np.testing.assert_allclose(ours.ravel(), theirs.ravel(), rtol=1e-9, atol=1e-12)


def _report(seconds):
    rows = {name: {"median": s, "least": s, "most": s, "runs": 7,
                   "figures": {"kernels": 3, "start (s)": 1.0, "bytes": 1e6, "flops": 1e6}}
            for name, s in seconds.items()}  # fmt: skip
    rows["broken"] = {"reason": "ImportError: no | such", "figures": {}}
    machine = {
        "processor": "a",
        "cores": 2,
        "threads": 2,
        "python": "3",
        "versions": {},
        "commit": "a",
        "triad (GB/s)": 10.0,
    }
    measured = {"small": {"load": 0.0, "rows": rows}}
    return {"date": "2026-01-01", "machine": machine, "workloads": {"rosenbrock": measured}}


def test_goals_are_judged_against_the_best_peer():
    goals = importlib.import_module("perf.goals")
    asked = [
        goals.AtMost(0.002),
        goals.Times(1.5, peers=("torch",)),
        goals.SameFigure("kernels", ("numba_grad", "torch")),
        goals.Times(1.5),
    ]
    rows = _report({"numba_grad": 0.001, "torch": 0.003})["workloads"]["rosenbrock"]["small"][
        "rows"
    ]
    assert [goal.judge(rows).is_reached for goal in asked] == [True, True, True, True]
    rows["numba_grad"]["median"] = 0.003
    assert [goal.judge(rows).is_reached for goal in asked] == [False, False, True, False]
    del rows["torch"]
    assert [goal.judge(rows).measured for goal in asked[1:2]] == ["no figure"]


def test_ways_of_writing_are_judged_against_the_best_of_them():
    goals = importlib.import_module("perf.goals")
    goal = goals.EachWay(1.3, ("numba_grad, appended", "numba_grad, assigned"))
    seconds = {"numba_grad": 0.010, "numba_grad, appended": 0.011, "numba_grad, assigned": 0.012}
    rows = _report(seconds)["workloads"]["rosenbrock"]["small"]["rows"]
    assert goal.judge(rows).is_reached
    rows["numba_grad, appended"]["median"] = 0.008
    assert goal.judge(rows).measured == "1.50 (numba_grad, assigned)"
    assert not goal.judge(rows).is_reached
    del rows["numba_grad, assigned"]
    assert goal.judge(rows).measured == "no figure of numba_grad, assigned"


def test_the_section_of_the_document_is_replaced_and_the_rest_stays(tmp_path):
    report = importlib.import_module("perf.report")
    document = tmp_path / "performance.md"
    document.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n")
    figures = _report({"numba_grad": 0.001, "torch": 0.002})
    report.write_section(document, report.as_markdown(figures))
    text = document.read_text()
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "\nold\n" not in text
    assert "| 1 ms |" in text
    assert "**2.00**" in text
    assert "ImportError: no / such" in report.as_table(figures)


def test_durations_have_three_digits_in_the_unit_that_suits():
    report = importlib.import_module("perf.report")
    assert [report.duration(x) for x in (1.5, 0.99960, 0.0123, 4.5e-6, 2e-8, None)] == [
        "1.5 s", "1 s", "12.3 ms", "4.5 us", "20 ns", "",
    ]  # fmt: skip


@pytest.mark.thorough
def test_plots_are_written(tmp_path):
    pytest.importorskip("matplotlib")
    plots = importlib.import_module("perf.plots")
    plots.draw(_report({"numba_grad": 0.001, "torch": 0.002}), tmp_path / "figures")
    assert (tmp_path / "figures" / "speeds.svg").stat().st_size > 1000


@pytest.mark.thorough(rare=True)
def test_the_command_writes_a_report(tmp_path):
    file = tmp_path / "report.json"
    subprocess.run(
        [sys.executable, "perf/run.py", "rosenbrock", "--sizes", "small", "--implementations",
         "numba_grad", "by hand", "--repeats", "1", "--json", str(file)],
        cwd=ROOT, check=True, capture_output=True, timeout=300,
    )  # fmt: skip
    report = json.loads(file.read_text())
    rows = report["workloads"]["rosenbrock"]["small"]["rows"]
    assert {name: "reason" in row for name, row in rows.items()} == {
        "numba_grad": False,
        "by hand": False,
    }
    assert rows["numba_grad"]["figures"]["error"] < 1e-6


@pytest.mark.thorough
def test_functions_beside_numpy_give_the_same():
    command = [sys.executable, "perf/numpy_functions.py", "--elements", "3000", "--rounds", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 8


@pytest.mark.thorough(rare=True)
@needs_compiler
def test_gpu_workloads_compile_without_a_gpu(tmp_path):
    file = tmp_path / "predicted.json"
    command = [sys.executable, "perf/gpu.py", "small_kernels", "sum_rows", "--predict", "sm_90"]
    run = subprocess.run([*command, "--json", str(file)], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    report = json.loads(file.read_text())
    assert report["measured on"].startswith("nothing")
    assert report["workloads"]["small_kernels"]["launches"] > 200
    for found in report["workloads"].values():
        assert found["spilled bytes"] == 0
        assert found["seconds"] > 0


def test_gpu_workloads_say_what_is_missing():
    run = subprocess.run(
        [sys.executable, "perf/gpu.py", "nonsense"], cwd=ROOT, capture_output=True, text=True
    )
    assert run.returncode != 0 and "there are scaled, options64" in run.stderr


def test_forward_mode_is_measured():
    forward_mode = importlib.import_module("perf.forward_mode")
    x = np.linspace(0.5, 1.5, 100)
    row = forward_mode.measure(forward_mode.Case("heat", lambda x: forward_mode.heat(x, 3), x), 2)
    assert row.startswith("heat")


@pytest.mark.thorough(but="Lotka")
@pytest.mark.parametrize("name", ["Lotka-Volterra", "heat 32 x 32", "wave 64 x 64"])
def test_problems_of_control_flow_are_the_same_by_scan_and_in_python(name):
    control_flow = importlib.import_module("perf.control_flow")
    make, steps = control_flow.problems(small=True)[name]
    step, state, parameters = make(ng)
    given = np.asarray(parameters), control_flow.as_arrays(state)
    by_scan, in_python = (
        ng.jit(ng.value_and_grad(control_flow.loss_of(ng, step, scan, steps)))(*given)
        for scan in (ng.scan, None)
    )
    for a, b in zip(by_scan, in_python, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10)


@pytest.mark.thorough(but="choices")
@pytest.mark.parametrize("part", ["by_hand", "within_memory", "choices"])
def test_parts_of_control_flow_are_measured(part, monkeypatch):
    control_flow = importlib.import_module("perf.control_flow")
    monkeypatch.setattr(control_flow, "seconds_of_each", lambda small: 0.01)
    rows = getattr(control_flow, part)(small=True)
    assert rows
    assert all(np.isfinite(x) for row in rows for x in row.values() if isinstance(x, float))
