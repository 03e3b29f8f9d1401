"""The programs of `perf/first_gradient.py` are right, and its tables say what was measured."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import numba_grad as ng

ROOT = Path(__file__).resolve().parents[1]
if not (ROOT / "perf").is_dir():
    pytest.skip("perf/ is not in this copy", allow_module_level=True)

from perf import first_gradient, first_gradient_report  # noqa: E402
from perf.programs import (  # noqa: E402
    DOUBLE,
    GRADIENT,
    HESSIAN,
    SCIENCE,
    SMALL,
    WHOLE,
    operations,
    programs,
)
from perf.programs.libraries import JIT, by_numba_grad, reason_against  # noqa: E402

# One of each function: others differ by the number of steps alone.
PROGRAMS = {
    program.function: program for program in reversed(programs([*SMALL, *SCIENCE]))
}.values()


def test_there_are_over_a_hundred_programs_and_names_are_theirs_alone():
    names = [program.name for program in programs([*SMALL, *SCIENCE, WHOLE])]
    assert len(PROGRAMS) >= 120
    assert len(set(names)) == len(names)
    assert {program.steps for program in programs()} >= {10, 100, 1000}


@pytest.mark.thorough(every=5)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_programs_agree_with_finite_differences(program):
    """Without kernels: nothing is compiled."""
    short = program.in_short()
    given = short.arguments()
    with ng.configure(engine="reference"):
        value, *gradients = by_numba_grad(short, given)()
    if short.kind == HESSIAN:
        np.testing.assert_allclose(value, _second_differences(short, given), rtol=1e-3, atol=1e-3)
        return
    wrt = short.variables(given)
    random = np.random.default_rng(0)
    directions = {k: random.normal(size=given[k].shape) for k in wrt}
    slope = sum(np.sum(g * directions[k]) for g, k in zip(gradients, wrt, strict=True))

    def at(distance):
        moved = [np.asarray(x, np.float64) for x in given]
        for k, direction in directions.items():
            moved[k] = moved[k] + distance * direction
        return _value(short, moved)

    is_single = given[0].dtype == np.float32
    step, rtol = (1e-4, 1e-4) if is_single or short.kind == DOUBLE else (1e-6, 1e-5)
    np.testing.assert_allclose(value, at(0.0), rtol=rtol)
    np.testing.assert_allclose(slope, (at(step) - at(-step)) / (2 * step), rtol=rtol, atol=1e-6)


def _value(program, given):
    """By NumPy alone; of a program that squares its gradient, by differences."""
    f = program.function_for("numpy")
    if program.kind == GRADIENT:
        return float(f(np, *given))
    gradients = [
        _differences(lambda x, k=k: f(np, *given[:k], x, *given[k + 1 :]), x)
        for k, x in enumerate(given)
    ]
    return sum(np.sum(gradient**2) for gradient in gradients)


def _differences(f, x, step=1e-4):
    columns = []
    for index in np.ndindex(x.shape):
        shift = np.zeros(x.shape)
        shift[index] = step
        columns.append((np.asarray(f(x + shift)) - f(x - shift)) / (2 * step))
    stacked = np.stack(columns)
    return stacked.reshape(x.shape + stacked.shape[1:])


def _second_differences(program, given):
    f, (x, *rest) = program.function_for("numpy"), given
    return _differences(lambda x: _differences(lambda y: f(np, y, *rest), x), x)


@pytest.mark.parametrize("program", programs([WHOLE]), ids=lambda program: program.name)
def test_whole_programs_agree_with_torch(program):
    pytest.importorskip("torch")
    from perf.programs.libraries import by_torch

    short = program.in_short()
    given = short.arguments(size=12)
    with ng.configure(engine="reference"):
        ours = by_numba_grad(short, given)()
    for x, y in zip(ours, by_torch(short, given)(), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("name", ["rosenbrock", "kalman filter", "solve", "curvature of sines"])
def test_operations_are_computed_one_at_a_time(name, monkeypatch):
    from numba_grad.compiler import evaluate

    together = []
    compute = evaluate.evaluate_with_numpy

    def counted(nodes):
        together.append(sum(x.value is None for node in nodes for x in node.inputs))
        return compute(nodes)

    monkeypatch.setattr(evaluate, "evaluate_with_numpy", counted)
    (program,) = [program for program in programs() if program.name == name]
    with ng.configure(engine="reference"):
        assert operations.run_one_at_a_time(program) == len(together) > 10
    # What has several results is computed with the first of them.
    assert set(together) <= ({0} if name != "kalman filter" else {0, 1})


def test_a_program_that_looks_at_values_is_not_jitted():
    for program in programs(["looks"]):
        assert reason_against(program, JIT)


def _report(rows):
    machine = {"processor": "a", "cores": 2, "threads": 2, "python": "3", "versions": {}}
    machine["commit"] = "a"
    measured = {"group": "loops", "steps": 20, "load": 0.0, "rows": rows}
    report = {"date": "2026-01-01", "machine": machine, "runs": 1, "limit": 60.0, "starts": {}}
    return {**report, "clock": "seconds", "programs": {"sines, 20 steps": measured}}


def _row(seconds, **figures):
    row = {"reason": "", "seconds": [seconds, seconds / 10], "figures": figures}
    return {**row, "processor seconds": [2 * seconds, seconds / 5]}


def test_tables_have_means_counts_and_reasons():
    figures = {"compiled": 3, "kernels": 4, "lines": 1234, "operations": 99}
    rows = {
        "numba_grad, cold": _row(0.030, **figures),
        "numba_grad jit, cold": {"reason": ">60 s"},
        "torch": _row(0.002),
        "jax": {"reason": "ImportError: no jax"},
        "autograd": {"left out": "no derivative of median"},
    }
    text = first_gradient_report.as_markdown(_report(rows))
    assert "| sines, 20 steps | 30 |" in text
    assert "| >60 s |" in text
    assert "**60,000**" in text  # a limit counts as such in means
    assert "- sines, 20 steps, jax: ImportError: no jax" in text
    assert "- sines, 20 steps, autograd: no derivative of median" in text
    assert "1,234" in text
    assert "| define by run, cold: none above 500 ms | 30 ms; 0 of 1 above | reached |" in text
    busy = first_gradient_report.as_markdown(_report(rows) | {"clock": "processor seconds"})
    assert "| sines, 20 steps | 60 |" in busy


def test_kernels_are_compared_over_numbers_of_steps():
    report = _report({"numba_grad jit, cold": _row(0.1, kernels=4, lines=10)})
    (measured,) = report["programs"].values()
    more = {
        **measured,
        "steps": 100,
        "rows": {"numba_grad jit, cold": _row(0.1, kernels=5, lines=10)},
    }
    report["programs"]["sines, 100 steps"] = more
    (verdict,) = [v for v in first_gradient_report.verdicts(report) if "number of steps" in v.goal]
    assert verdict.measured == "0 of 1; not sines"


def test_medians_of_runs_leave_out_those_that_failed():
    runs = [{"torch": _row(seconds)} for seconds in (1.0, 9.0, 2.0)]
    runs.append({"torch": {"reason": ">60 s"}})
    assert first_gradient.median_of(runs)["torch"]["seconds"][0] == 2.0


@pytest.mark.thorough
def test_the_command_writes_tables(tmp_path):
    file = tmp_path / "first.json"
    subprocess.run(
        [sys.executable, "perf/first_gradient.py", "--only", "rosenbrock", "--contestants",
         "numba_grad", "--no-starts", "--json", str(file)],
        cwd=ROOT, check=True, capture_output=True, timeout=300,
    )  # fmt: skip
    rows = json.loads(file.read_text())["programs"]["rosenbrock"]["rows"]
    assert {name: row["reason"] for name, row in rows.items()} == {
        f"numba_grad, {mode}": "" for mode in ("cold", "warm", "known")
    }
    assert rows["numba_grad, warm"]["figures"]["compiled"] == 0
    assert "| rosenbrock |" in file.with_suffix(".md").read_text()
