"""The examples run, and find what is known from elsewhere."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.config import configure

EXAMPLES = Path(__file__).parent.parent / "examples"

# Posterior means of a Bayesian fit of the same model and data: Carpenter (2018), "Predator-prey
# population dynamics: the Lotka-Volterra model in Stan".
PUBLISHED = [0.55, 0.028, 0.80, 0.024, 34.0, 5.9, 0.25, 0.25]


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module", autouse=True)
def _as_users_run_it():
    with configure(engine="native"):
        yield


@pytest.fixture(scope="module")
def lynx_hare():
    return example("lynx_hare")


@pytest.fixture(scope="module")
def lynx_hare_fit(lynx_hare):
    return lynx_hare.fit(lynx_hare.read_counts()[1])


def test_lynx_and_hare_fit_agrees_with_the_published_one(lynx_hare_fit):
    estimates, errors, evaluations = lynx_hare_fit
    assert np.all(np.abs(estimates - PUBLISHED) < 2 * errors)
    assert evaluations < 100


def test_lynx_and_hare_hessian_matches_differences_of_gradients(lynx_hare, lynx_hare_fit):
    counts = lynx_hare.read_counts()[1]
    x, step = np.log(lynx_hare_fit[0]), 1e-5
    differences = [
        (lynx_hare.objective(x + e, counts)[1] - lynx_hare.objective(x - e, counts)[1]) / (2 * step)
        for e in step * np.eye(len(x))
    ]
    np.testing.assert_allclose(lynx_hare.hessian(x, counts), differences, rtol=1e-5, atol=1e-5)


def test_lynx_and_hare_prints_estimates_and_plots(lynx_hare, monkeypatch, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    lynx_hare.main()
    printed = capsys.readouterr().out
    assert "beta          0.0272" in printed
    assert "compile time" in printed
    assert (tmp_path / "lynx_hare.png").stat().st_size > 10_000


def test_lynx_and_hare_without_matplotlib_says_so(lynx_hare, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    lynx_hare.main()
    assert "needs matplotlib" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


@pytest.mark.thorough
def test_digits_are_learned(capsys):
    assert example("digits").main(epochs=3)[1] > 0.9
    assert "accuracy" in capsys.readouterr().out


@pytest.mark.thorough
def test_lennard_jones_cluster_reaches_its_ground_state(capsys):
    best = example("lennard_jones").main()
    assert abs(best.fun - -44.326801) < 1e-6
    assert "-44.326801" in capsys.readouterr().out
    assert np.max(np.abs(best.jac)) < 1e-4


@pytest.mark.thorough
def test_kepler_orbit_is_found(capsys):
    kepler = example("kepler")
    fit, errors = kepler.main()
    assert np.all(np.abs(fit.x - kepler.TRUE) < 3 * errors)
    assert fit.fun < 120  # of 120 residuals, half of their squares
    assert "eccentricity: 0.59" in capsys.readouterr().out


@pytest.fixture(scope="module")
def nozzle():
    return example("nozzle")


@pytest.mark.thorough
def test_nozzle_gradient_is_that_of_differences(nozzle):
    def loss(heights):
        states = nozzle.flow(nozzle.INFLOW, 1 + nozzle.BUMPS @ heights, 0.5, 30)
        return np.mean(states[2:-2] ** 2)

    gradient, step = ng.grad(loss)(nozzle.TRUE), 1e-6
    differences = [
        (float(loss(nozzle.TRUE + e)) - float(loss(nozzle.TRUE - e))) / (2 * step)
        for e in step * np.eye(len(nozzle.TRUE))
    ]
    np.testing.assert_allclose(gradient, differences, rtol=1e-6, atol=1e-8)


@pytest.mark.thorough
def test_nozzle_is_found_and_plotted(nozzle, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    fit = nozzle.main()
    np.testing.assert_allclose(fit.x, nozzle.TRUE, atol=1e-5)
    assert "flows and gradients" in capsys.readouterr().out
    nozzle.plot(fit.x, tmp_path / "nozzle.png")
    assert (tmp_path / "nozzle.png").stat().st_size > 10_000


@pytest.fixture(scope="module")
def custom_kernel():
    return example("custom_kernel")


def test_custom_kernel_solves_as_lapack_does(custom_kernel):
    rng = np.random.default_rng(0)
    lower, diagonal, upper, b = rng.uniform(0.5, 1, (4, 7))
    matrix = np.diag(3 + diagonal) + np.diag(upper[:-1], 1) + np.diag(lower[1:], -1)
    x = custom_kernel.solve(lower, 3 + diagonal, upper, b).numpy()
    np.testing.assert_allclose(x, np.linalg.solve(matrix, b), rtol=1e-13)
    ng.testing.check_gradients(custom_kernel.solve, lower, 3 + diagonal, upper, b)
    with pytest.raises(ValueError, match="needs pivoting"):
        custom_kernel.solve(np.ones(2), np.ones(2), np.ones(2), np.ones(2)).numpy()


@pytest.mark.thorough
def test_custom_kernel_finds_the_conductivities(custom_kernel, capsys):
    np.testing.assert_allclose(custom_kernel.main(), custom_kernel.CONDUCTIVITIES, rtol=1e-5)
    assert "tridiagonal_solve: float64" in capsys.readouterr().out


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_examples_are_short(path):
    # Those for several processes also cut up the problem, and put it together for the plot.
    limit = 150 if path.stem.startswith("mpi_") else 100
    title = 2  # for the site
    assert len(path.read_text().splitlines()) - title < limit
