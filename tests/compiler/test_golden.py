"""The source of representative kernels, word for word, in `tests/golden`.

`pytest --update-golden` writes these files anew; the diff then shows what a change of the compiler
does to kernels.
"""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import numba_grad as ng
from tests.processes import run_python

GOLDEN = Path(__file__).parents[1] / "golden"
ROOT = Path(__file__).parents[2]


def black_scholes(spot, strike, years, rate, volatility):
    spread = volatility * ng.sqrt(years)
    d1 = (ng.log(spot / strike) + (rate + 0.5 * volatility**2) * years) / spread
    d2 = d1 - spread

    def normal(x):
        return 0.5 * ng.erfc(-x / np.sqrt(2.0))

    return spot * normal(d1) - strike * ng.exp(-rate * years) * normal(d2)


def lotka_volterra_step(y, parameters, h=0.01):
    def rate(y):
        prey, predators = y[0], y[1]
        a, b, c, d = parameters[0], parameters[1], parameters[2], parameters[3]
        return ng.stack([a * prey - b * prey * predators, d * prey * predators - c * predators])

    k1 = rate(y)
    k2 = rate(y + h / 2 * k1)
    k3 = rate(y + h / 2 * k2)
    k4 = rate(y + h * k3)
    return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


def laplacian(x):
    p = ng.pad(x, 1)
    return p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] + p[1:-1, :-2] - 4 * x


def second_difference(x):
    p = ng.pad(x, 1)
    return p[2:] + p[:-2] - 2 * x


def all_pairs(x):
    d = x[:, None] - x[None, :]
    return ng.exp(-d * d).sum()


def vector(n: int, dtype: type = np.float64) -> np.ndarray:
    return np.linspace(0.5, 1.5, n).astype(dtype)


def matrix(n: int, dtype: type = np.float64) -> np.ndarray:
    return np.linspace(0.5, 1.5, n * (n + 3)).reshape(n, n + 3).astype(dtype)


def integers(n: int) -> np.ndarray:
    return np.arange(n) % 7


# Name: function, and its arguments for a size n.
CASES: dict[str, tuple[Callable, Callable[[int], tuple]]] = {
    "elementwise_1d": (lambda x, y: ng.sin(x) * y + x / y, lambda n: (vector(n), vector(n))),
    "float32": (lambda x: ng.tanh(x) * 2 + 1, lambda n: (vector(n, np.float32),)),
    "complex": (lambda x, y: x * ng.conj(y) + 1j, lambda n: (vector(n, complex),) * 2),
    "integers": (lambda x, y: x // (y + 1) + (x & y), lambda n: (integers(n), integers(n))),
    "broadcasting": (lambda x, y: x[:, None] * y[None, :] + 1, lambda n: (vector(n), vector(n))),
    "sum_all": (lambda x: (x * x).sum(), lambda n: (vector(n),)),
    "sum_rows": (lambda x: x.sum(axis=1), lambda n: (matrix(n),)),
    "sum_columns": (lambda x: x.sum(axis=0), lambda n: (matrix(n),)),
    "sum_columns_float16": (
        lambda x: (x * x).sum(axis=0),
        lambda n: (matrix(n).astype(np.float16),),
    ),
    "small_axis": (
        lambda x: (x * x).sum(axis=1),
        lambda n: (vector(3 * n).reshape(n, 3),),
    ),
    "transpose": (lambda x: x.T * 2.0, lambda n: (matrix(n),)),
    "rk4_step_ensemble": (
        lotka_volterra_step,
        lambda n: (vector(2 * n).reshape(2, n), vector(4)),
    ),
    "stencil": (laplacian, lambda n: (matrix(n),)),
    "stencil_gradient": (
        ng.grad(lambda x: (second_difference(x) ** 2).sum()),
        lambda n: (vector(n),),
    ),
    "gather": (lambda x, i: x[i] * 2.0, lambda n: (vector(n), integers(n))),
    "gather_gradient": (
        lambda x, i: ng.grad(lambda x: (x[i] ** 2).sum())(x),
        lambda n: (vector(n), integers(n)),
    ),
    "where": (lambda x: ng.where(x > 1, x, -x), lambda n: (vector(n),)),
    "all_pairs": (all_pairs, lambda n: (vector(n),)),
    "black_scholes_gradient": (
        lambda *args: ng.grad(lambda *args: black_scholes(*args).sum(), argnums=(0, 1, 2, 3, 4))(
            *args
        ),
        lambda n: (vector(n),) * 5,
    ),
    "softmax": (lambda x: ng.softmax(x, axis=-1), lambda n: (matrix(n),)),
    "argmax": (lambda x: x.argmax(axis=1), lambda n: (matrix(n),)),
    "concatenate": (lambda x, y: ng.concatenate([x, 2 * y]), lambda n: (vector(n), vector(n))),
    "eye": (lambda x: x + ng.eye(x.shape[0], x.shape[1]), lambda n: (matrix(n),)),
    "cumsum": (lambda x: ng.cumsum(x * x), lambda n: (vector(n),)),
    "matmul_epilogue": (
        lambda x, y, b: ng.tanh(x @ y + b),
        lambda n: (matrix(n), matrix(n).T.copy(), vector(n)),
    ),
}


def sources(name: str, size: int = 200) -> str:
    """The kernels that a case compiles to, in the order of their first step."""
    f, arguments = CASES[name]
    kernels = ng.jit(f).lower(*arguments(size)).kernels
    texts = [kernel.source.strip() for kernel in kernels]
    return "\n\n\n".join(texts) + "\n"


@pytest.mark.parametrize("name", CASES)
def test_kernels_are_as_recorded(name, request):
    path = GOLDEN / f"{name}.py"
    text = sources(name)
    if request.config.getoption("--update-golden"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), (
        "run `pytest --update-golden` and read the diff"
    )


@pytest.mark.parametrize("name", CASES)
def test_kernels_do_not_depend_on_sizes(name):
    assert sources(name, 200) == sources(name, 331)


def test_every_recorded_file_has_a_case():
    assert {path.stem for path in GOLDEN.glob("*.py")} == set(CASES)


def test_kernels_are_the_same_in_another_process():
    names = ["rk4_step_ensemble", "stencil_gradient", "all_pairs", "softmax"]
    program = (
        "import importlib.util, json, sys\n"
        "spec = importlib.util.spec_from_file_location('golden_cases', sys.argv[1])\n"
        "module = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(module)\n"
        "print(json.dumps([module.sources(name) for name in sys.argv[2:]]))\n"
    )
    output = run_python(program, __file__, *names, PYTHONHASHSEED=7)
    assert json.loads(output) == [sources(name) for name in names]
