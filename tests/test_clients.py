"""SciPy, scikit-learn and array-api-compat compute with our tensors, and some differentiate.

They read SCIPY_ARRAY_API when imported: this file runs itself in a process of its own, which prints
what came out. docs/interoperability.md lists what works.
"""

import importlib
import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import numba_grad as ng
from tests.processes import run_python

RNG = np.random.default_rng(0)
X = np.linspace(0.1, 2, 12)
P = np.linspace(0.05, 0.95, 12)
M = RNG.normal(size=(12, 3))
S = M.T @ M
LABELS = (M[:, 0] > 0).astype(int)
TARGETS = M @ np.array([1.0, -2.0, 0.5])

DIFFERENTIABLE, VALUES = True, False  # what is claimed of a result
Call = tuple[Callable[..., Any], tuple[np.ndarray, ...], bool]


def scipy_calls() -> dict[str, Call]:
    special, signal, stats, fft = map(
        importlib.import_module, ("scipy.special", "scipy.signal", "scipy.stats", "scipy.fft")
    )
    vq, hierarchy = map(importlib.import_module, ("scipy.cluster.vq", "scipy.cluster.hierarchy"))
    optimize, elementwise, integrate, differentiate = map(
        importlib.import_module,
        (
            "scipy.optimize",
            "scipy.optimize.elementwise",
            "scipy.integrate",
            "scipy.differentiate",
        ),
    )
    calls: dict[str, Call] = {
        "special.betainc": (special.betainc, (X, X + 1, P), DIFFERENTIABLE),
        "special.logsumexp": (lambda m: special.logsumexp(m, axis=0), (M,), DIFFERENTIABLE),
        "special.xlogy": (special.xlogy, (X, P), DIFFERENTIABLE),
        "signal.convolve": (signal.convolve, (X, P), VALUES),
        "signal.fftconvolve": (signal.fftconvolve, (X, P), DIFFERENTIABLE),
        "signal.lfilter": (lambda x, p: signal.lfilter(p[:3], x[:3], x), (X, P), VALUES),
        "signal.freqz": (lambda x, p: signal.freqz(x, p, worN=8)[1], (X, P), DIFFERENTIABLE),
        "fft.fftn": (fft.fftn, (M,), DIFFERENTIABLE),
        "stats.pearsonr": (lambda m: stats.pearsonr(m[:, 0], m[:, 1]).statistic, (M,), VALUES),
        "stats.ttest_ind": (lambda m: stats.ttest_ind(m[:6], m[6:]).pvalue, (M,), VALUES),
        "stats.rankdata": (stats.rankdata, (M,), VALUES),
        "stats.trim_mean": (lambda m: stats.trim_mean(m, 0.1), (M,), DIFFERENTIABLE),
        "cluster.vq.kmeans2": (
            lambda m: vq.kmeans2(m, m[:3], minit="matrix")[0],
            (M,),
            VALUES,
        ),
        "cluster.hierarchy.fcluster": (
            lambda m: hierarchy.fcluster(hierarchy.linkage(m), 1.0),
            (M,),
            VALUES,
        ),
        "optimize.elementwise.find_root": (
            lambda c: elementwise.find_root(lambda x, c: x**2 - c, (c * 0, c * 0 + 3), args=(c,)).x,
            (X,),
            VALUES,
        ),
        "integrate.nsum": (  # writes through views
            lambda b: integrate.nsum(lambda k: k**-2.0, b, b * np.inf).sum,
            (np.array(1.0),),
            VALUES,
        ),
        "integrate.tanhsinh": (
            lambda b: integrate.tanhsinh(lambda x: x**2, b * 0, b).integral,
            (X,),
            VALUES,
        ),
        "differentiate.derivative": (
            lambda x: differentiate.derivative(lambda x: x**3, x).df,
            (X,),
            VALUES,
        ),
        "cluster.vq.whiten": (vq.whiten, (M,), DIFFERENTIABLE),
    }
    for name in ("rosen", "rosen_der", "rosen_hess"):
        calls[f"optimize.{name}"] = (getattr(optimize, name), (X,), DIFFERENTIABLE)
    for name in ("gmean", "hmean"):
        calls[f"stats.{name}"] = (getattr(stats, name), (np.abs(M),), DIFFERENTIABLE)
    for name in ("zscore", "skew", "kurtosis", "variation", "sem", "iqr", "circmean", "kstat"):
        calls[f"stats.{name}"] = (getattr(stats, name), (M,), DIFFERENTIABLE)
    for name in ("erf", "expit", "gammaln", "ndtr", "ndtri", "log_ndtr", "i0e", "logit", "entr"):
        calls[f"special.{name}"] = (getattr(special, name), (P,), DIFFERENTIABLE)
    for name in ("hilbert", "envelope", "gausspulse"):
        calls[f"signal.{name}"] = (getattr(signal, name), (X,), DIFFERENTIABLE)
    return calls


def sklearn_calls() -> dict[str, Call]:
    preprocessing, linear_model, decomposition, metrics, pairwise, mixture = map(
        importlib.import_module,
        (
            "sklearn.preprocessing",
            "sklearn.linear_model",
            "sklearn.decomposition",
            "sklearn.metrics",
            "sklearn.metrics.pairwise",
            "sklearn.mixture",
        ),
    )
    return {
        "StandardScaler": (preprocessing.StandardScaler().fit_transform, (M,), VALUES),
        "MinMaxScaler": (preprocessing.MinMaxScaler().fit_transform, (M,), VALUES),
        "PCA": (
            lambda m: abs(decomposition.PCA(2, svd_solver="full").fit_transform(m)),
            (M,),
            VALUES,
        ),
        "Ridge": (
            lambda m, t: linear_model.Ridge(solver="svd").fit(m, t).predict(m),
            (M, TARGETS),
            VALUES,
        ),
        # They write through views.
        "GaussianMixture": (
            lambda m: (
                mixture.GaussianMixture(2, random_state=0, init_params="random_from_data")
                .fit(m)
                .covariances_
            ),
            (np.concatenate([M, M + 5.0]),),
            VALUES,
        ),
        "LogisticRegression": (
            lambda m, t: linear_model.LogisticRegression().fit(m, t).predict_proba(m),
            (M, LABELS),
            VALUES,
        ),
        "confusion_matrix": (metrics.confusion_matrix, (LABELS, 1 - LABELS), VALUES),
        "rbf_kernel": (pairwise.rbf_kernel, (M,), DIFFERENTIABLE),
    }


def outcome(call: Call) -> str:
    """Whether the result is the one for arrays, a tensor, and, where claimed, has a gradient."""
    function, arrays, is_differentiable = call
    expected = function(*arrays)
    found = function(*[ng.tensor(x) for x in arrays])
    if not isinstance(found, ng.Tensor):
        return f"a {type(found).__name__}"
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6, atol=1e-9)
    if is_differentiable:
        leaves = [ng.tensor(x, requires_grad=True) for x in arrays]
        result = function(*leaves)
        ng.real(result * result.conj()).sum().backward()
        if not all(x.grad is not None and np.isfinite(x.grad.numpy()).all() for x in leaves):
            return "no gradient"
    return "works"


def main() -> None:
    """Print the outcome of each call as JSON. The reference engine: nothing is to be compiled."""
    outcomes: dict[str, str] = {}
    calls = {f"scipy.{name}": call for name, call in scipy_calls().items()}
    if importlib.util.find_spec("sklearn") is not None:
        importlib.import_module("sklearn").set_config(array_api_dispatch=True)
        calls |= {f"sklearn.{name}": call for name, call in sklearn_calls().items()}
    for name, call in calls.items():
        try:
            with ng.configure(engine="reference"), np.errstate(all="ignore"):
                outcomes[name] = outcome(call)
        except Exception as error:
            outcomes[name] = f"{type(error).__name__}: {error}"
    sys.stdout.write(json.dumps(outcomes))


@pytest.fixture(scope="module")
def outcomes() -> dict[str, str]:
    return json.loads(run_python(Path(__file__), SCIPY_ARRAY_API=1))


def test_scipy_computes_with_tensors(outcomes):
    calls = {name: text for name, text in outcomes.items() if name.startswith("scipy")}
    assert len(calls) > 35
    assert not {name: text for name, text in calls.items() if text != "works"}


def test_scikit_learn_computes_with_tensors(outcomes):
    pytest.importorskip("sklearn")
    calls = {name: text for name, text in outcomes.items() if name.startswith("sklearn")}
    assert len(calls) == 8
    assert not {name: text for name, text in calls.items() if text != "works"}


def test_array_api_compat_knows_the_namespace():
    compat = pytest.importorskip("array_api_compat")
    x = ng.ones((2, 3))
    assert compat.is_array_api_obj(x) and compat.array_namespace(x, x) is ng
    assert compat.device(x) == "cpu" and compat.size(x) == 6 and compat.to_device(x, "cpu") is x


if __name__ == "__main__":
    main()
