"""Public functions on a GPU give what they give on the CPU: values, gradients, and where they lie.

The calls are those of the functions' own tests, which compare them with NumPy. Arrays of NumPy in
them, other than the arguments, are put on the GPU too; what the library itself makes is not.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.compiler.backends import copied_to
from numba_grad.config import configure
from numba_grad.errors import KernelError
from numba_grad.frontend.inputs import arrays
from numba_grad.graph.node import leaf
from tests.frontend import (
    test_complex_order,
    test_einsum,
    test_fft,
    test_function_gradients,
    test_indexing,
    test_linear_algebra,
    test_numpy_functions,
    test_padding,
    test_polynomials,
    test_reductions,
    test_scans,
    test_sets,
    test_shapes,
    test_signals,
    test_sorting,
    test_special,
    test_special_parameters,
    test_statistics,
    test_ufuncs,
)

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
TOLERANCES = {2: 5e-3, 4: 1e-4, 8: 1e-9}
# Their results, or some of them, do not depend on an array on the GPU.
ON_CPU = {
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "ix_",
    "meshgrid",
    "diag_indices_from",
    "tril_indices_from",
    "triu_indices_from",
}


def _calls() -> dict[str, tuple[Any, tuple[Any, ...]]]:
    """Functions of a module and arrays, with the arrays."""
    calls = {}
    for number, (call, given) in enumerate(test_numpy_functions.CALLS):
        calls[f"numpy_functions {number}"] = (call, given)
    for module in (test_shapes, test_indexing, test_einsum):
        for number, (call, array) in enumerate(module.CALLS):
            calls[f"{module.__name__.rpartition('test_')[2]} {number}"] = (call, (array,))
    for name, call in test_padding.CALLS.items():
        calls[f"padding, {name}"] = (call, (test_padding.X,))
    return calls


def _calls_of_at() -> dict[str, tuple[Any, ...]]:
    """Methods `at` of ufuncs, as functions of the tensor that is written to and of the values."""

    def call_of(ufunc: np.ufunc, index: Any) -> Any:
        def call(x: ng.Tensor, *values: ng.Tensor) -> ng.Tensor:
            y = x * 1
            ufunc.at(y, index, *values)
            return y

        return call

    calls = {}
    for name in ("add", "maximum", "divide", "hypot"):
        for kind, (index, values) in test_ufuncs.INDICES.items():
            x = np.array([1.0, 2.5, 5.0]) if kind == "numbers" else test_ufuncs.WRITTEN
            calls[f"{name}.at {kind}"] = call_of(getattr(np, name), index), x, values
    return calls


def _differentiable() -> dict[str, tuple[Any, tuple[np.ndarray, ...]]]:
    """Functions of tensors, with arrays to differentiate them by."""
    tables: list[tuple[Any, dict[str, Any]]] = [
        (test_function_gradients, test_function_gradients.CASES),
        (test_linear_algebra, test_linear_algebra.GRADIENTS),
        (test_ufuncs, {name: (f, test_ufuncs.FOLDED) for name, f in test_ufuncs.FOLDS.items()}),
        (test_ufuncs, _calls_of_at()),
        (test_complex_order, {name: (f, COMPLEX) for name, f in test_complex_order.CALLS.items()}),
        *[
            (module, module.DIFFERENTIABLE)
            for module in (
                test_einsum,
                test_fft,
                test_indexing,
                test_polynomials,
                test_reductions,
                test_scans,
                test_sets,
                test_shapes,
                test_signals,
                test_sorting,
                test_special,
                test_special_parameters,
                test_statistics,
                test_ufuncs,
            )
        ],
    ]
    calls = {}
    for module, table in tables:
        for name, (call, *given) in table.items():
            calls[f"{module.__name__.rpartition('test_')[2]}, {name}"] = (call, tuple(given))
    for name, call in test_padding.DIFFERENTIABLE.items():
        calls[f"padding, {name}"] = (call, (test_padding.X,))
    return calls


CALLS = _calls()
COMPLEX = np.array([[1 + 1j, 2 - 1j, 2 + 3j], [0.5j, 2 - 1.5j, -1 + 0j], [1.5, -2j, 0.25 - 3j]])
DIFFERENTIABLE = _differentiable()


@pytest.fixture(autouse=True)
def arrays_of_calls(last_gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """While `_puts_on_gpu`, arrays of NumPy become leaves on the GPU."""

    def leaf_on_gpu(value: Any, requires_grad: bool = False) -> Any:
        is_data = isinstance(value, np.ndarray) and value.shape != () and _puts_on_gpu
        return leaf(copied_to(value, last_gpu) if is_data else value, requires_grad)

    monkeypatch.setattr(arrays, "leaf", leaf_on_gpu)


_puts_on_gpu: list[bool] = []  # not empty: yes


@contextmanager
def arrays_on_gpu() -> Iterator[None]:
    _puts_on_gpu.append(True)
    try:
        yield
    finally:
        _puts_on_gpu.pop()


def tensors_in(result: Any) -> list[ng.Tensor]:
    if isinstance(result, ng.Tensor):
        return [result]
    if isinstance(result, dict):
        result = list(result.values())
    parts = result if isinstance(result, list | tuple) else []
    return [x for part in parts for x in tensors_in(part)]


def with_gradients(function: Any, tensors: list[ng.Tensor]) -> list[ng.Tensor]:
    """The results, and the gradients of the sum of their squares."""
    results = tensors_in(function(*tensors))
    terms = [ng.sum(abs(y)) if y.dtype.kind == "c" else ng.sum(y * y) for y in results]
    terms = [term for term in terms if term.requires_grad]
    if not terms:
        return results
    inputs = [x for x in tensors if x.requires_grad]
    gradients = ng.autograd.grad(sum(terms[1:], terms[0]), inputs, allow_unused=True)
    return [*results, *[g for g in gradients if g is not None]]


def check(gpu: str, function: Any, given: tuple[Any, ...], *, on_cpu: bool = False) -> None:
    def variables(device: str) -> list[ng.Tensor]:
        return [ng.tensor(a, device=device, requires_grad=a.dtype.kind in "fc") for a in values]

    values = [np.asarray(a) for a in given]
    with configure(engine="reference"):
        expected = [x.detach().numpy() for x in with_gradients(function, variables("cpu"))]
    try:
        with arrays_on_gpu():
            tensors = with_gradients(function, variables(gpu))
            found = [x.detach().cpu().numpy() for x in tensors]
    except KernelError as error:
        # Which operations these are, tests/cuda/test_registry_on_gpu.py says.
        if "without CuPy" not in str(error) or find_spec("cupy") is not None:
            raise
        pytest.skip(str(error).splitlines()[0])
    assert on_cpu or {x.device for x in tensors} <= {gpu}
    assert len(found) == len(expected)
    for value, wanted in zip(found, expected, strict=True):
        assert (value.shape, value.dtype) == (wanted.shape, wanted.dtype)
        tolerance: float = 0
        if value.dtype.kind in "fc":
            tolerance = TOLERANCES[value.dtype.itemsize >> (value.dtype.kind == "c")]
        np.testing.assert_allclose(value, wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.thorough(every=20)
@pytest.mark.parametrize("name", CALLS)
def test_functions_of_numpy(name, last_gpu):
    call, given = CALLS[name]
    on_cpu = not ON_CPU.isdisjoint(call.__code__.co_names)
    check(last_gpu, lambda *tensors: call(np, *tensors), given, on_cpu=on_cpu)


@pytest.mark.thorough(every=20)
@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_functions_of_tensors(name, last_gpu):
    call, given = DIFFERENTIABLE[name]
    check(last_gpu, call, given)
